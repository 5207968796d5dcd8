"""The joint weighted estimate beside that of the recursion: how far they are apart, and where the recursion is blind.

Batch uses what the recursion leaves unused, so its deviations tell what the data hold. A joint's own block that is
nearly singular passes the test of rank (eq. 2.30), but noise then makes its values worthless: deviations show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.estimation.recursive import Levels
from dynid.estimation.score import Score
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array

WORSE = 10.0
"""Times by which the recursion's deviation exceeds the batch's where it deserves a warning."""

ROUNDING = 1e-9
"""Share of the largest parameter of a unit below which differences and deviations mean nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Values and deviations (unknowns,), and how well they predict."""

    values: Array
    sigma: Array
    validation: Score


def compare_with_batch(
    unknowns: Unknowns, levels: Levels, recursion: Estimate, batch: Estimate
) -> tuple[str, tuple[str, ...]]:
    """One note on both, and a warning for every joint whose own block tells its parameters far worse than batch."""
    smallest = ROUNDING * _sizes(unknowns, batch.values)
    apart = np.abs(recursion.values - batch.values) / (np.hypot(recursion.sigma, batch.sigma) + smallest)
    k = int(np.argmax(apart))
    note = (
        f"beside the recursion, all joints together (wls): they differ by at most {apart[k]:.2g} combined deviations "
        f"({unknowns.names[k]}: {recursion.values[k]:.5g} and {batch.values[k]:.5g}); "
        f"validation NRMSE {recursion.validation.mean:.4f}, wls {batch.validation.mean:.4f}"
    )
    ratio = recursion.sigma / np.maximum(batch.sigma, smallest)
    blind = {name: float(x) for name, x in zip(unknowns.names, ratio, strict=True) if x > WORSE}
    warnings = []
    for i, c in reversed(list(enumerate(levels.order))):  # as the recursion goes: later joints spoil earlier ones
        own = [name for name in levels.names[levels.own[i]] if name in blind]
        if own:
            warnings.append(
                f"the recursion is nearly blind at joint '{levels.joints[c]}': deviations of {', '.join(own)} are up "
                f"to {max(blind[name] for name in own):.0f} times those of all joints together; use estimator='wls'"
            )
    return note, tuple(warnings)


def _sizes(unknowns: Unknowns, values: Array) -> Array:
    """Largest value (unknowns,) among those of the same unit."""
    units = np.array(unknowns.units)
    return np.array([np.abs(values[units == unit]).max() + 1e-300 for unit in unknowns.units])
