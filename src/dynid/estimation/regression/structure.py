"""Columns that no motion can tell from others, and those that only a joint that stood still would tell apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynid.errors import LoopError
from dynid.estimation.accumulate.state import State
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Constraints, find_regrouping
from dynid.identifiability.numeric import find_by_qr
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.samples import random_samples
from dynid.logs.survey import standing_range
from dynid.robot.motion import Motion
from dynid.robot.transform import Array


def structurally_independent_columns(
    equation: Equation, unknowns: Unknowns, seed: int = 0
) -> tuple[tuple[int, ...], Array]:
    """Indices of the unknowns independent on random motion, left to right, and the matrix that regroups all.

    An offset joins a mass that gravity pulls along its joint; a position-dependent torque joins gravity's.
    """
    motion, stops = _random_motion(equation, unknowns, seed)
    rows = _channel_rows(equation, unknowns, 0, motion, stops)
    # offsets of further logs stand for themselves: what holds for the first log's holds for theirs
    others = np.setdiff1d(np.arange(len(unknowns)), unknowns.place[0][unknowns.place[0] >= 0])
    if len(others):
        rows.append(np.eye(len(unknowns))[others])
    found = find_by_qr(np.concatenate(rows))
    return found.regrouping.kept, found.regrouping.matrix


def random_rows(equation: Equation, unknowns: Unknowns) -> list[Array]:
    """Rows (N, unknowns) of every channel on random motion, of all logs."""
    logs = len(unknowns.place)
    written = [_channel_rows(equation, unknowns, log, *_random_motion(equation, unknowns, log)) for log in range(logs)]
    return [np.concatenate(of_channel) for of_channel in zip(*written, strict=True)]


def regrouping_of_standing_joints(
    state: State, unknowns: Unknowns, constraints: Constraints | None
) -> Regrouping | None:
    """Regrouping of the unknowns while joints stand still; None where all of them move.

    Noise of an encoder at rest is no motion: columns that it alone makes independent would take any value, and a
    wrong one with a small deviation. So rows of random motion decide, with those joints held where they stood.
    """
    if not any(still.any() for still, _ in standing_joints(state).values()):
        return None
    try:
        rows = [own for of_log in random_rows_with_held_joints(state, unknowns) for own in of_log]
    except LoopError:  # a closed loop may not close with a joint held there: the data decide alone
        return None
    return find_regrouping(np.concatenate(rows), constraints)


def random_rows_with_held_joints(state: State, unknowns: Unknowns) -> list[list[Array]]:
    """Rows (N, unknowns) of every log and torque channel on random motion, joints that stood still being held."""
    equation, rows = state.equation, []
    where = standing_joints(state)
    for log in range(state.logs):
        motion, stops = _random_motion(equation, unknowns, log)
        q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
        if log in where:
            still, posture = where[log]
            q[:, still], v[:, still], a[:, still] = posture[still], 0.0, 0.0
            stops[:, :, ~(equation.transmission[:, ~still] != 0.0).any(axis=1)] = 0.0
        rows.append(_channel_rows(equation, unknowns, log, Motion(motion.t, q, v, a), stops))
    return rows


def standing_joints(state: State) -> dict[int, tuple[NDArray[np.bool_], Array]]:
    """Masks (n,) of joints that stood still, and mean positions (n,), by log."""
    smallest = standing_range(state.equation.shapes.scale)
    return {
        log: (np.array(found.highest) - np.array(found.lowest) < smallest, np.array(found.mean))
        for log, found in enumerate(state.findings)
    }


def _random_motion(equation: Equation, unknowns: Unknowns, seed: int) -> tuple[Motion, Array]:
    """Random motion, and values (N, w, n) of the stops that it does not determine."""
    channels = len(equation.torque_channels) + len(equation.base_channels)
    motion = random_samples(equation.robot, 3 * len(unknowns) // channels + 5, seed)
    shape = len(motion), len(equation.shapes.stop_widths), equation.robot.n
    return motion, np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def _channel_rows(equation: Equation, unknowns: Unknowns, log: int, motion: Motion, stops: Array) -> list[Array]:
    """Rows (N, unknowns) of every channel."""
    wide = equation.write_torque_rows(motion, stops, None)
    rows = []
    for channel in (*equation.torque_channels, *equation.base_channels):
        place = unknowns.place[log, channel.columns]
        own = np.zeros((len(wide), len(unknowns)))
        own[:, place[place >= 0]] = channel.rows_in_wide(wide)[:, :-1][:, place >= 0]
        rows.append(own)
    return rows
