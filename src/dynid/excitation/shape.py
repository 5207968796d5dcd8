"""What every shape of motion can tell: its samples and its exact extremes over all time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynid.errors import ExcitationError
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

ROUNDING = 1e-9
"""Share by which a margin is widened, so that rounding does not leave it a digit short."""


@dataclass(frozen=True, slots=True, eq=False)
class Extremes:
    """Exact extremes over all time: lowest and highest position, largest speed, acceleration and jerk, (n,) each."""

    lowest: Array
    highest: Array
    speed: Array
    acceleration: Array
    jerk: Array


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
    """Peak over limit, (n, 4): position (from mid-range), speed, acceleration and jerk; 0 where unlimited."""
    middle, half = middle_and_half_range(limits)
    reach = np.maximum(extremes.highest - middle, middle - extremes.lowest)
    return np.column_stack([
        reach / half, extremes.speed / limits.velocity, extremes.acceleration / limits.acceleration,
        extremes.jerk / limits.jerk,
    ])  # fmt: skip


def limits_within_margin(robot: Robot, limits: Limits, margin: float) -> Limits:
    """Limits less a share of them, positions less a share of the half range on each side.

    A revolute joint with one position limit gets the other a turn away; a prismatic one is refused.
    """
    one_sided = np.isfinite(limits.position).sum(axis=1) == 1
    for j in np.flatnonzero(one_sided):
        if robot.links[robot.active_links[j]].kind == "prismatic":
            raise ExcitationError(
                "missing_joint_limits", "joint '{joint}': a prismatic joint needs both position limits or none",
                joint=robot.joint_names[j],
            )  # fmt: skip
    lower, upper = limits.position.T
    lower, upper = (
        np.where(one_sided & np.isinf(lower), upper - 2.0 * np.pi, lower),
        np.where(one_sided & np.isinf(upper), lower + 2.0 * np.pi, upper),
    )
    share = 1.0 - margin * (1.0 + ROUNDING)
    limited = np.isfinite(lower)
    inset = np.where(
        limited, 0.5 * (1.0 - share) * (np.where(limited, upper, 0.0) - np.where(limited, lower, 0.0)), 0.0
    )
    return Limits(
        np.column_stack([lower + inset, upper - inset]), share * limits.velocity, share * limits.acceleration,
        limits.effort, share * limits.jerk,
    )  # fmt: skip


def check_limits(limits: Limits, names: tuple[str, ...]) -> None:
    """Raise ExcitationError where limits are reversed, not positive, or missing for all of a joint's motion."""
    for j, name in enumerate(names):
        lower, upper = limits.position[j]
        if lower >= upper:
            raise ExcitationError(
                "position_limits_reversed", "joint '{joint}': the lower position limit {lower:g} is not below the "
                "upper {upper:g}", joint=name, lower=lower, upper=upper,
            )  # fmt: skip
        for kind in ("velocity", "acceleration", "effort", "jerk"):
            value = getattr(limits, kind)[j]
            if not value > 0.0:
                raise ExcitationError(
                    "limit_not_positive", "joint '{joint}': its {limit} limit must be positive, got {value:g}",
                    joint=name, limit=kind, value=value,
                )  # fmt: skip
