"""A verdict in plain words: good, usable or do not trust, because ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dynid.estimation.lost import Lost
from dynid.estimation.residuals import Delay
from dynid.estimation.score import Score

Level = Literal["good", "usable", "do not trust"]

GOOD_MEAN, GOOD_WORST = 0.1, 0.3
USABLE_MEAN = 0.5
HOPELESS = 0.9
HIGH_CONDITION = 1000.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far to trust a result, with the reasons and the next step."""

    level: Level
    reasons: tuple[str, ...]
    next_step: str

    def __str__(self) -> str:
        return f"{self.level}: {'; '.join(self.reasons)}"


def judge(
    *,
    channels: Sequence[str],
    fit: Score,
    validation: Score,
    lost: Sequence[Lost],
    base_condition: float,
    groups: int,
    essential_groups: int,
    delay: Delay | None,
    weak: Sequence[str],
) -> tuple[Verdict, tuple[str, ...]]:
    """Weigh the figures; also return the reasons that must be read as warnings."""
    bad: list[str] = []
    doubts: list[str] = []
    steps: list[str] = []
    _judge_errors(channels, fit, validation, bad, doubts, steps)
    if lost:
        names = ", ".join(item.name for item in lost[:6]) + (f" and {len(lost) - 6} more" if len(lost) > 6 else "")
        doubts.append(f"the data cannot tell {len(lost)} parameters apart ({names})")
        steps.append("record a motion that reveals what is lost (dynid excite designs one)")
    if base_condition > HIGH_CONDITION:
        doubts.append(
            f"the base columns have a condition number of {base_condition:.0f}: small errors of model or motion "
            "become large errors of single parameters"
        )
        steps.append("record a more exciting motion (dynid excite)")
    if groups < 8:
        doubts.append(f"the deviations rest on {groups} blocks of time only: record longer")
    if essential_groups:
        doubts.append(f"{essential_groups} of {groups} blocks of time hold all there is to know of some combination")
    if delay is not None and abs(delay.seconds) > 4.0 * delay.sigma and abs(delay.seconds) > 1e-3:
        doubts.append(
            f"torques seem to come {1e3 * delay.seconds:.2g} ms (+- {1e3 * delay.sigma:.1g}) after the positions; "
            f"delay={delay.seconds:.4f} (--delay) corrects it"
        )
    if weak:
        names = ", ".join(weak[:8]) + (f" and {len(weak) - 8} more" if len(weak) > 8 else "")
        doubts.append(f"{len(weak)} inertial parameters are known to no better than their own size ({names})")
    level: Level = "do not trust" if bad else "usable" if doubts else "good"
    reasons = (*bad, *doubts) if bad or doubts else (_praise(validation),)
    next_step = steps[0] if steps else "use it: predict torques, or save it with --out"
    serious = (*bad, *doubts)
    return Verdict(level, tuple(reasons), next_step), tuple(serious)


def _judge_errors(
    channels: Sequence[str], fit: Score, validation: Score, bad: list[str], doubts: list[str], steps: list[str]
) -> None:
    mean = validation.mean
    hopeless = [c for c, x in zip(channels, validation.nrmse, strict=True) if x > HOPELESS]
    weak = [f"{c} ({x:.2f})" for c, x in zip(channels, validation.nrmse, strict=True) if GOOD_WORST < x <= HOPELESS]
    if not np.isfinite(mean) or mean > USABLE_MEAN:
        alike = float(np.nanmean(fit.nrmse)) > USABLE_MEAN
        why = (
            "the model does not explain the torques even where it was fitted: is this the right robot, are units, "
            "signs and the order of joints right?"
            if alike
            else "the fit does not carry over to data it has not seen: record longer and more exciting motion"
        )
        bad.append(f"the residual is as large as {100.0 * mean:.0f} % of the signal on validation data; {why}")
        steps.append("check robot, units, signs and joint order" if alike else "record more data")
    elif mean > GOOD_MEAN:
        doubts.append(f"validation NRMSE is {mean:.2f} on average, more than {GOOD_MEAN}")
        steps.append("look at the residuals joint by joint: friction, backlash or elasticity may be missing")
    if hopeless and not bad:
        doubts.append(f"the torque of joint {', '.join(hopeless)} is not explained")
    if weak and not bad:
        doubts.append(f"joints are predicted poorly (NRMSE above {GOOD_WORST}): {', '.join(weak)}")


def _praise(validation: Score) -> str:
    return f"validation NRMSE {validation.mean:.3f} on average, {np.nanmax(validation.nrmse):.3f} at worst"
