"""Columns that no motion can tell from others: known from the model, not a fault of the data."""

from __future__ import annotations

import numpy as np

from dynid.base.numeric import find_by_qr
from dynid.base.sampling import random_samples
from dynid.estimation.equation import Equation
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array


def structural_columns(equation: Equation, unknowns: Unknowns, seed: int = 0) -> tuple[tuple[int, ...], Array]:
    """Unknowns that are independent on random motion, left to right, and how the others join them.

    An offset joins a mass that gravity pulls along its joint; a position-dependent torque joins gravity's.
    """
    rng = np.random.default_rng(seed)
    motion = random_samples(equation.robot, 3 * len(unknowns) // len(equation.channels) + 5, seed)
    stops = rng.uniform(-1.0, 1.0, (len(motion), len(equation.shapes.widths), equation.robot.n))
    wide = equation.write(motion, stops, None)
    rows = []
    for c, channel in enumerate(equation.channels):
        place = unknowns.place[0, unknowns.channels[c]]
        own = np.zeros((len(wide), len(unknowns)))
        own[:, place[place >= 0]] = channel.row(wide)[:, :-1][:, place >= 0]
        rows.append(own)
    # offsets of further logs stand for themselves: what holds for the first log's holds for theirs
    others = np.setdiff1d(np.arange(len(unknowns)), unknowns.place[0][unknowns.place[0] >= 0])
    if len(others):
        rows.append(np.eye(len(unknowns))[others])
    found = find_by_qr(np.concatenate(rows))
    return found.regrouping.kept, found.regrouping.matrix
