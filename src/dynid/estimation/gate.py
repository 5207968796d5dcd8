"""Which optional friction blocks to admit: blocked cross validation on the factors, nothing read twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.estimation.equation import Equation
from dynid.estimation.folds import Folds
from dynid.estimation.gathering import Block
from dynid.estimation.layout import Indices
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array

DEFAULT = ("viscous", "offset", "stop1e-4", "stop1e-3", "stop1e-2", "tanh", "quadratic")
"""Blocks that every robot gets."""

OPTIONAL = ("lag", "load", "stop1e-1", "coulomb", "spring", "sine", "sine2", "asymmetry", "stribeck")
"""Blocks that must earn their place."""

GAIN = 0.03
"""Smallest relative improvement of the cross-validated error that admits a block."""

EXACT = 1e-6
"""NRMSE below which only rounding is left to explain."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One question to the gate: blocks tried, their mean NRMSE on held-out blocks of time, and the answer."""

    block: str
    error: float
    before: float
    admitted: bool


def choose_blocks(
    equation: Equation,
    blocks: tuple[Block, ...],
    noise: Array,
    *,
    logs: int,
    offsets_per_log: bool,
    always: tuple[str, ...] = DEFAULT,
    optional: Sequence[str] = OPTIONAL,
) -> tuple[tuple[str, ...], tuple[Trial, ...]]:
    """Admit optional blocks one by one, the best first, as long as the held-out error falls by 3 %."""
    everything = (*always, *optional)
    unknowns = Unknowns.of(equation, everything, logs, offsets_per_log=offsets_per_log)
    folds = Folds.of(unknowns, blocks, noise)
    chosen = always
    trials: list[Trial] = []
    if folds.count < 3:
        return chosen, ()

    def error(some: tuple[str, ...]) -> float:
        errors = folds.nrmse(folds.errors(columns_of(equation, unknowns, everything, some)))
        return float(errors[: len(equation.channels) - len(equation.base_channels)].mean())

    now = error(chosen)
    while True:
        tried = {} if now < EXACT else {name: error((*chosen, name)) for name in optional if name not in chosen}
        if not tried:
            break
        best = min(tried, key=lambda name: tried[name])
        good = tried[best] <= min((1.0 - GAIN) * now, 1.0)  # above 1 nothing is explained, and nothing is learned
        trials += [Trial(name, value, now, good and name == best) for name, value in tried.items()]
        if not good:
            break
        chosen, now = (*chosen, best), tried[best]
    return chosen, tuple(trials)


def columns_of(equation: Equation, unknowns: Unknowns, all_blocks: tuple[str, ...], some: tuple[str, ...]) -> Indices:
    """Unknowns that remain when only some of the blocks are taken."""
    left_out = [k for name in all_blocks if name not in some for k in equation.blocks_of[name]]
    gone = set(unknowns.place[:, left_out].ravel().tolist()) - {-1} if left_out else set()
    return np.array([k for k in range(len(unknowns)) if k not in gone], dtype=np.int64)
