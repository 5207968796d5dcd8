"""What every shape of motion can tell: its samples and its exact extremes over all time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynid.errors import ExcitationError
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Extremes:
    """Exact extremes over all time: lowest and highest position, largest speed and acceleration, (n,) each."""

    lowest: Array
    highest: Array
    speed: Array
    acceleration: Array


class Shape(Protocol):
    """A motion from rest to rest."""

    @property
    def duration(self) -> float:
        """Seconds from rest to rest."""
        ...

    def motion(self, rate: float) -> Motion:
        """Samples at a rate in Hz: entry, exciting part, exit."""
        ...

    def exciting_motion(self) -> Motion:
        """Samples of the exciting part, over which the condition number is taken."""
        ...

    def extremes(self) -> Extremes:
        """Exact extremes of the whole motion, entry and exit included."""
        ...


def middle_and_half_range(limits: Limits) -> tuple[Array, Array]:
    """Middle and half of each joint's range, (n,) each; 0 and infinity where it has none."""
    limited = np.asarray(np.isfinite(limits.position).all(axis=1))
    bounds = np.where(limited[:, None], limits.position, 0.0)
    return bounds.mean(axis=1), np.where(limited, 0.5 * (bounds[:, 1] - bounds[:, 0]), np.inf)


def use_of_limits(extremes: Extremes, limits: Limits) -> Array:
    """Peak over limit, (n, 3) for position (measured from mid-range), speed and acceleration; 0 where unlimited."""
    middle, half = middle_and_half_range(limits)
    reach = np.maximum(extremes.highest - middle, middle - extremes.lowest)
    return np.column_stack(
        [reach / half, extremes.speed / limits.velocity, extremes.acceleration / limits.acceleration]
    )


def check_limits(limits: Limits, names: tuple[str, ...]) -> None:
    """Raise ExcitationError where limits are reversed, not positive, or missing for all of a joint's motion."""
    for j, name in enumerate(names):
        lower, upper = limits.position[j]
        if lower >= upper:
            raise ExcitationError(
                "position_limits_reversed", "joint '{joint}': the lower position limit {lower:g} is not below the "
                "upper {upper:g}", joint=name, lower=lower, upper=upper,
            )  # fmt: skip
        for kind in ("velocity", "acceleration", "effort"):
            value = getattr(limits, kind)[j]
            if not value > 0.0:
                raise ExcitationError(
                    "limit_not_positive", "joint '{joint}': its {limit} limit must be positive, got {value:g}",
                    joint=name, limit=kind, value=value,
                )  # fmt: skip
