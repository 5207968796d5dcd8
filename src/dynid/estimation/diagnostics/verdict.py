"""A verdict in plain words: good, usable or do not trust, because ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dynid.estimation.diagnostics.plausibility import Placement, Scale, describe_scales
from dynid.estimation.diagnostics.residuals import Delay
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.inference.score import Score

Level = Literal["good", "usable", "do not trust"]

GOOD_MEAN, GOOD_WORST = 0.1, 0.3
USABLE_MEAN = 0.5
HOPELESS = 0.9
HIGH_CONDITION = 1000.0
FEW_GROUPS = 8
NOISY = 0.08
"""Share of noise in derived accelerations from which on their bias matters."""

SHORT = 5.0
"""Seconds of recording that are too few for an arm."""

LEAST_DELAY = 1e-3
"""Seconds below which a delay is not worth a word."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far to trust a result, with the reasons and the next step."""

    level: Level
    reasons: tuple[str, ...]
    next_step: str

    def __str__(self) -> str:
        return f"{self.level}: {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Shaken:
    """A joint that encoder noise shakes through its controller: speed (rad/s), friction parameters that it biases.

    ratio: their expected bias over their standard deviation, at worst.
    """

    joint: str
    names: tuple[str, ...]
    speed: float
    ratio: float

    def __str__(self) -> str:
        return f"{self.joint} (+- {self.speed:.2g}; {_some(self.names)}: {self.ratio:.2g} standard deviations)"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The figures that a verdict rests on.

    weak: inertial parameters that are not known to half of the largest of their kind; impossible: parameters that
    are below zero by two half widths of their interval although nature does not allow it; groups: blocks behind the
    jackknife, None without; delay: what was found beside used_delay (s), which was corrected. negative: joints about
    which the inertia is certainly negative; placement: where a force plate seems to sit beside its declaration;
    is_plate: nothing but a force plate was used; motion_noise: share of noise in derived accelerations. scales: how the
    torques compare with those of nominal masses, where their size is off; in_current: they are currents, not torques;
    seconds: of motion that were used. torques: errors of the joint torques of torque_joints on validation data, where
    the model is about something else; None where they were not predicted. shaken: joints whose friction encoder noise
    biases through the controller.
    """

    channels: Sequence[str]
    fit: Score
    validation: Score
    unidentifiable: Sequence[Unidentifiable]
    base_condition: float
    groups: int | None
    essential_groups: int
    delay: Delay | None
    weak: Sequence[str]
    impossible: Sequence[str]
    used_delay: float = 0.0
    negative: Sequence[str] = ()
    placement: Placement | None = None
    is_plate: bool = False
    motion_noise: float = 0.0
    joints: int = 1
    scales: Sequence[Scale] = ()
    in_current: bool = False
    seconds: float = np.inf
    model: str = "torque"
    torques: Score | None = None
    torque_joints: Sequence[str] = ()
    shaken: Sequence[Shaken] = ()

    @property
    def torques_decide(self) -> bool:
        """Whether predicted torques are worse than what the model is about."""
        return self.torques is not None and not self.torques.mean <= self.validation.mean

    @property
    def figures(self) -> tuple[Sequence[str], Score]:
        """Channels and errors that decide: a result is as good as the worse of its own channels and the torques."""
        if self.torques is not None and self.torques_decide:
            return self.torque_joints, self.torques
        return self.channels, self.validation

    @property
    def is_reversed(self) -> bool:
        """Whether most inertias are negative: then signs are, not the model."""
        return 2 * len(self.negative) > self.joints


def _negative(evidence: Evidence) -> str:
    return f"the inertia about joint {_some(evidence.negative)} is negative, which nature does not allow"


def assess(evidence: Evidence) -> Verdict:
    """Weigh the figures."""
    bad = _damning(evidence)
    reasons = _wrong_size(evidence)
    reasons += [] if bad else _poor_prediction(evidence)
    reasons += [*_weak_data(evidence), *_weak_values(evidence)]
    if bad:
        return Verdict("do not trust", tuple(text for text, _ in (*bad, *reasons)), bad[0][1])
    if reasons:
        return Verdict("usable", tuple(text for text, _ in reasons), reasons[0][1])
    _, figures = evidence.figures
    worst = float(np.nanmax(figures.counted))
    praise = f"validation NRMSE {_of_torques(evidence)}{figures.mean:.3f} on average, {worst:.3f} at worst"
    if evidence.is_plate:
        step = "use it: joint_parameters gives the links' torques, without friction; find its bodies"
    else:
        step = "use it: predict torques, find its bodies, export it"
    if evidence.torques is None and evidence.model not in ("torque", "torque+reaction"):
        praise += f", of {NAMES[evidence.model]} alone: joint torques were not judged"
        step = "check its torques on a recording that has them"
    return Verdict("good", (praise,), step)


def _of_torques(evidence: Evidence) -> str:
    return "of the joint torques " if evidence.torques_decide else ""


NAMES = {"power": "power", "energy": "energy", "momentum": "momentum", "reaction": "the forces on the base"}

Reason = tuple[str, str]
"""What speaks against trusting a result, and the next step."""


def _damning(evidence: Evidence) -> list[Reason]:
    if evidence.is_reversed:
        what, step = "torques is probably reversed", "check the signs of torques and positions"
        if evidence.is_plate:
            what, step = "forces is probably reversed (sense)", "check the sense of the force plate"
        return [(f"{_negative(evidence)}; the sign of the {what}", step)]
    _, figures = evidence.figures
    mean = figures.mean
    if np.isfinite(mean) and mean <= USABLE_MEAN:
        return []
    if evidence.torques_decide and evidence.fit.mean <= USABLE_MEAN:
        return [_poor_torques(evidence, mean)]
    if evidence.fit.mean > USABLE_MEAN:
        if evidence.is_plate:
            why = (
                "the model does not explain the forces even where it was fitted: are pose, reference point, sense and "
                "order of the channels of the force plate declared as they are?"
            )
            return [(f"{_as_large(mean)}; {why}", "check the description of the force plate")]
        why = (
            "the model does not explain the torques even where it was fitted: is this the right robot, are units, "
            "signs and the order of joints right?"
        )
        return [(f"{_as_large(mean)}; {why}", "check robot, units, signs and joint order")]
    if evidence.seconds < SHORT:
        why = f"the recording is {evidence.seconds:.2g} s long, too short to tell so many parameters apart"
        return [(f"{_as_large(mean)}; {why}", "record 20 s or more of exciting motion (dynid excite designs one)")]
    why = "the fit does not carry over to data it has not seen: too little or too dull motion, or wrong units or joints"
    return [(f"{_as_large(mean)}; {why}", "check units and joint order, then record longer and more exciting motion")]


def _poor_torques(evidence: Evidence, mean: float) -> Reason:
    """The model explains what it is about, but not the torques."""
    text = (
        f"predicted joint torques have an NRMSE of {mean:.3g} on validation data, {NAMES[evidence.model]} of "
        f"{evidence.validation.mean:.2g}"
    )
    if evidence.is_plate:
        text += ": units or gains of the torques, or the description of the force plate, are wrong"
        return text, "check units, signs and gains of the torques and the description of the force plate"
    if evidence.model == "momentum":
        return f"{text}: the motion does not tell the parameters apart", "identify with model='torque', or move more"
    text += ": one channel of all joints does not tell their parameters apart on this motion"
    return text, "identify with model='torque' or 'momentum'"


def _as_large(mean: float) -> str:
    return f"the residual is as large as {100.0 * mean:.0f} % of the signal on validation data"


def _wrong_size(evidence: Evidence) -> list[Reason]:
    """Currents, or other things in place of joint torques."""
    if evidence.in_current:
        text = "the torques are currents: parameters and deviations are in units of current, not in kg m and kg m^2"
        return [(text, "give the drive gains in N m per A (gain=, --gain), or find them (dynid gains)")]
    if evidence.scales:
        return [
            (
                describe_scales(evidence.scales),
                "give the drive gains in N m per A (gain=, --gain), or correct the robot file",
            )
        ]
    return []


def _poor_prediction(evidence: Evidence) -> list[Reason]:
    step = "look at the residuals joint by joint: friction, backlash or elasticity may be missing"
    if evidence.seconds < SHORT:
        step = "record 20 s or more of exciting motion (dynid excite designs one)"
    if evidence.is_plate and evidence.torques_decide:
        step = "check units, signs and gains of the torques, and the robot's geometry"
    reasons = []
    channels, errors = evidence.figures
    if errors.mean > GOOD_MEAN:
        text = f"validation NRMSE {_of_torques(evidence)}is {errors.mean:.2f} on average, more than {GOOD_MEAN}"
        if evidence.seconds < SHORT:
            text += f", from {evidence.seconds:.2g} s of recording"
        reasons.append((text, step))
    figures = list(zip(channels, errors.counted, strict=True))
    of_plate = evidence.is_plate and not evidence.torques_decide
    if of_plate:
        step = "check pose, reference point and channels of the force plate, and the robot's geometry"
    hopeless = [channel for channel, x in figures if x > HOPELESS]
    if hopeless:
        what = "channel" if of_plate else "torque of joint"
        reasons.append((f"the {what} {_some(hopeless)} is not explained", step))
    poor = [f"{channel} ({x:.2f})" for channel, x in figures if GOOD_WORST < x <= HOPELESS]
    if poor:
        what = "channels" if of_plate else "joints"
        reasons.append((f"{what} are predicted poorly (NRMSE above {GOOD_WORST}): {_some(poor)}", step))
    return reasons


def _weak_data(evidence: Evidence) -> list[Reason]:
    reasons = []
    if evidence.placement is not None and evidence.placement.is_off:
        text = f"the force plate seems to sit {evidence.placement} beside where it was declared"
        reasons.append((text, "correct position, rotation or reference of the force plate"))
    if evidence.unidentifiable:
        names = _some([item.name for item in evidence.unidentifiable])
        text = f"the data cannot tell {_count(len(evidence.unidentifiable), 'parameter')} from others ({names})"
        reasons.append((text, "record a motion that reveals what is lost (dynid excite designs one)"))
    if evidence.base_condition > HIGH_CONDITION:
        text = (
            f"the base columns have a condition number of {evidence.base_condition:.0f}: small errors of model or "
            "motion become large errors of single parameters"
        )
        reasons.append((text, "record a more exciting motion (dynid excite)"))
    if evidence.motion_noise > NOISY:
        share = evidence.motion_noise
        text = (
            f"accelerations derived from the positions are noise to {100.0 * share:.0f} %, which pulls inertias "
            f"towards zero by some {100.0 * share**2:.2g} %, beyond their deviations"
        )
        reasons.append((text, "lower the cut-off, or move faster; momentum needs no accelerations"))
    if evidence.shaken:
        text = (
            "encoder noise that the controller feeds back makes velocities reverse at the rate of the noise (rms in "
            "rad/s or m/s), so that friction looks smoother than it is; joint "
            f"{_some([str(item) for item in evidence.shaken])}; the intervals allow for it"
        )
        step = "pass through zero velocity faster, filter the controller's velocity feedback, or use finer encoders"
        reasons.append((text, step))
    if evidence.groups is not None and evidence.groups < FEW_GROUPS:
        text = f"the deviations rest on {_count(evidence.groups, 'block')} of time only"
        reasons.append((text, "record longer"))
    if evidence.essential_groups:
        text = f"{_count(evidence.essential_groups, 'block')} of time alone shows some combination of parameters"
        reasons.append((text, "repeat the motion, so that every part of it is there twice"))
    delay = evidence.delay
    if delay is not None and abs(delay.seconds) > 4.0 * delay.sigma and abs(delay.seconds) > LEAST_DELAY:
        total = evidence.used_delay + delay.seconds
        when = "after" if delay.seconds > 0.0 else "before"
        text = (
            f"torques seem to be recorded {1e3 * abs(delay.seconds):.2g} ms (+- {1e3 * delay.sigma:.1g}) {when} the "
            f"positions{' still' if evidence.used_delay else ''}; delay={total:.4f} corrects it"
        )
        reasons.append((text, f"identify again with delay={total:.4f} and compare the validation error"))
    return reasons


def _weak_values(evidence: Evidence) -> list[Reason]:
    reasons = []
    if evidence.negative and not evidence.is_reversed:
        reasons.append((_negative(evidence), "the model lacks something at these joints, friction for example"))
    if evidence.weak:
        text = (
            f"{_count(len(evidence.weak), 'inertial parameter')} not known to half of the largest of the kind "
            f"({_some(evidence.weak)})"
        )
        reasons.append((text, "record a more exciting motion (dynid excite), or fix what is known"))
    if evidence.impossible:
        text = f"negative beyond doubt, which nature does not allow: {_some(evidence.impossible)}"
        reasons.append((text, "the model lacks something at these joints; physical parameters will not fit as well"))
    return reasons


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
