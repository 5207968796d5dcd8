"""Rows of what is measured, at the thinned rate: torques, their power, or balances of energy and momentum.

A balance over a window [t - T/2, t + T/2] is S(t + T/2) - S(t - T/2) plus the integral of I, without accelerations:

- energy (Gautier & Khalil 1992, eq. 1-10): integral of tau' v = [h] + integral of v' f, h the energies of the columns;
- momentum (Ha, Ko & Kwon, eq. 2.26): integral of tau_j = [dL/dqd_j] - integral of dL/dq_j + integral of f_j.

Friction f acts at the motors, where its power is that of the motor's velocity. Load friction alone looks at the
acceleration, through the size of a first estimate of the rigid torque.
"""

from __future__ import annotations

import numpy as np

from dynid.data.treatment import Prepared, Treatment
from dynid.estimation.equation import Equation
from dynid.estimation.quadrature import Cuts, integrate, merge_cuts, sign_changes
from dynid.kernel.rows import ENERGY
from dynid.models.power import write_rows
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

CHUNK = 1024
"""Samples whose full regressor is held at once."""

SMOOTH = ("viscous", "offset", "tanh", "spring", "sine", "sine2")
"""Friction blocks that do not jump or bend where the velocity changes its sign."""


def write_measured(
    equation: Equation, prepared: Prepared, stops: Array, treatment: Treatment, out: Array
) -> tuple[int, Array]:
    """Rows along a prepared motion, and the segment's thinned index of the first; out: memory for rows of torques."""
    measure, motion = equation.measure, prepared.motion
    if measure.model == "torque" or measure.has_reactions:
        return prepared.first, equation.write(motion, stops, prepared.measured, out=out)
    if measure.model == "power":
        wide = equation.write(motion, stops, prepared.measured, out=out)
        return prepared.first, _together(equation, wide, motion.v)
    half = measure.half(treatment)
    if len(motion) <= 2 * half:
        return prepared.first + half, np.zeros((0, equation.channels[-1].stop))
    sums = _sums(equation, prepared, stops, treatment)
    return prepared.first + half, np.asarray(sums[2 * half :] - sums[: -2 * half])


def _together(equation: Equation, wide: Array, factors: Array | None) -> Array:
    """Rows of one channel: those of the joints, times factors (N, n), added up."""
    total = np.zeros((len(wide), len(equation.names) + 1))
    for channel in equation.torque_channels:
        own = channel.row(wide)
        places = np.append(channel.columns, len(equation.names))
        total[:, places] += own if factors is None else own * factors[:, channel.joint, None]
    return total[:, np.append(equation.channels[0].columns, len(equation.names))]


def _sums(equation: Equation, prepared: Prepared, stops: Array, treatment: Treatment) -> Array:
    """S + integral of I from the first sample on, whose differences are balances."""
    motion, rule = prepared.motion, equation.measure.quadrature
    noisy = treatment.cutoff is not None
    is_energy = equation.measure.model == "energy"
    velocity = equation.motor(motion.v)
    signs = equation.shapes.signs(velocity)
    cuts = [sign_changes(motion.t, velocity[:, m], signs[:, m]) for m in range(equation.robot.n)]
    wide = np.zeros((len(motion), equation.width))
    friction = equation.friction_values(motion, stops)
    if is_energy:
        friction *= velocity[:, None, :]
    for m, own in enumerate(cuts):
        friction[:, :, m] = integrate(motion.t, friction[:, :, m], cuts=own, rule=rule, careful=noisy)
    if not is_energy:
        equation.place_friction(wide, friction)
    # torques that went through a low-pass do not jump; recorded ones do, if friction does
    jumps = not treatment.smooth and not set(equation.friction) <= set(SMOOTH)
    rotors = equation.known_torques(motion)
    measured = prepared.measured if rotors is None else prepared.measured[:, : rotors.shape[1]] - rotors
    for channel in equation.torque_channels:
        j = channel.joint
        own = merge_cuts([cuts[m] for m in channel.motors]) if jumps else Cuts.none()
        push = measured[:, [j]] * motion.v[:, [j]] if is_energy else measured[:, [j]]
        wide[:, channel.stop - 1] = integrate(motion.t, push, cuts=own, rule=rule, careful=noisy)[:, 0]
        _place_user_columns(equation, motion, wide, channel.start + channel.base, j, rule, is_energy)
    if not is_energy:
        _write_momentum(equation, motion, wide, rule)
        return wide
    total = _together(equation, wide, None)
    _replace_friction(equation, total, friction)  # its power was taken at the motors: it counts once, not per joint
    total[:, : equation.channels[0].base] = _energies(equation, motion)
    return total


def _replace_friction(equation: Equation, total: Array, friction: Array) -> None:
    """Put friction (N, columns per motor, n) into rows of one channel, column by column."""
    columns = equation.channels[0].columns
    places = np.flatnonzero(columns >= equation.rigid_count)
    total[:, places] = friction.reshape(len(friction), -1)[:, columns[places] - equation.rigid_count]


def _place_user_columns(
    equation: Equation, motion: Motion, wide: Array, start: int, joint: int, rule: str, is_energy: bool
) -> None:
    own = [c for c in equation.extra if equation.robot.joint_names.index(c.joint) == joint]
    for place, column in enumerate(own, start=start):
        values = column.values(equation.robot.joint_names, motion.q, motion.v)[:, None]
        values = values * motion.v[:, [joint]] if is_energy else values
        wide[:, place] = integrate(motion.t, values, rule=rule)[:, 0]


def _energies(equation: Equation, motion: Motion) -> Array:
    """Energy functions h (N, base columns that are seen)."""
    kept = np.array(equation.base.kept, dtype=np.int64)[equation.channels[0].columns[: equation.channels[0].base]]
    h = np.empty((len(motion), len(kept)))
    for start in range(0, len(motion), CHUNK):
        part = slice(start, start + CHUNK)
        h[part] = write_rows(equation.stage.scene(_without_accelerations(motion[part])), ENERGY)[:, kept]
    return h


def _write_momentum(equation: Equation, motion: Motion, wide: Array, rule: str) -> None:
    """Base columns of dL/dqd - integral of dL/dq."""
    _, place = equation.picks
    slope = np.empty((len(motion), len(place)))
    for start in range(0, len(motion), CHUNK):
        part = slice(start, start + CHUNK)
        wide[part, place], slope[part] = equation.momentum_parts(_without_accelerations(motion[part]))
    wide[:, place] -= integrate(motion.t, slope, rule=rule)


def _without_accelerations(motion: Motion) -> Motion:
    return Motion(motion.t, motion.q, motion.v, np.zeros_like(motion.v))
