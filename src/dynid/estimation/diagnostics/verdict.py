"""A verdict in plain words: good, usable or do not trust, because ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

import numpy as np

from dynid.estimation.diagnostics.plausibility import PlatePlacement, TorqueScale
from dynid.estimation.diagnostics.residuals import Delay
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.inference.score import Score
from dynid.messages import Message, Option, Wording
from dynid.storage.records import Null

Level = Literal["good", "usable", "weak", "do not trust"]

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
    reasons: tuple[Message, ...]
    next_step: Message

    def __str__(self) -> str:
        return f"{self.level}: {'; '.join(reason.what for reason in self.reasons)}"


@dataclass(frozen=True, slots=True)
class ShakenJoint:
    """A joint that encoder noise shakes through its controller: speed (rad/s), friction parameters that it biases.

    ratio: their expected bias over their standard deviation, at worst.
    """

    joint: str
    names: tuple[str, ...]
    speed: float
    ratio: float

    def __str__(self) -> str:
        return f"{self.joint} (+- {self.speed:.2g}; {_shorten_names(self.names)}: {self.ratio:.2g} standard deviations)"


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
    biases through the controller. bad_channels: what was found in single joints' channels of the logs.
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
    placement: PlatePlacement | None = None
    is_plate: bool = False
    motion_noise: float = 0.0
    joints: int = 1
    scales: Sequence[TorqueScale] = ()
    in_current: bool = False
    seconds: float = np.inf
    model: str = "torque"
    torques: Score | None = None
    torque_joints: Sequence[str] = ()
    shaken: Sequence[ShakenJoint] = ()
    bad_channels: Sequence[Message] = ()

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


def assess_evidence(evidence: Evidence) -> Verdict:
    """Weigh the figures."""
    bad = _reasons_not_to_trust(evidence)
    reasons = _wrong_torque_scale_reasons(evidence)
    reasons += [] if bad else _poor_prediction_reasons(evidence)
    reasons += [*_weak_data_reasons(evidence), *_weak_value_reasons(evidence)]
    if bad:
        return Verdict("do not trust", tuple(text for text, _ in (*bad, *reasons)), bad[0][1])
    if reasons:
        return Verdict("usable", tuple(text for text, _ in reasons), reasons[0][1])
    _, figures = evidence.figures
    facts = {"of": _torques_text(evidence), "mean": figures.mean, "worst": float(np.nanmax(figures.counted))}
    praise = "validation NRMSE {of}{mean:.3f} on average, {worst:.3f} at worst"
    if evidence.torques is None and evidence.model not in ("torque", "torque+reaction"):
        praise += ", of {model} alone: joint torques were not judged"
        step = Message("torques_not_judged", "check its torques on a recording that has them")
        return Verdict("good", (Message("torques_not_judged", praise, model=NAMES[evidence.model], **facts),), step)
    step = Message("ready_to_use", "use it: predict torques, find its bodies, export it")
    if evidence.is_plate:
        step = Message(
            "ready_to_use", "use it: joint_parameters gives the links' torques, without friction; find its bodies"
        )
    return Verdict("good", (Message("predicts_well", praise, **facts),), step)


def _torques_text(evidence: Evidence) -> str:
    """Words that say whose error it is, where joint torques decide."""
    return "of the joint torques " if evidence.torques_decide else ""


NAMES = {"power": "power", "energy": "energy", "momentum": "momentum", "reaction": "the forces on the base"}

Reason = tuple[Message, Message]
"""What speaks against trusting a result, with its remedy, and this remedy as the next step."""


def _reason_with_remedy(code: str, what: str, step: str, /, **facts: Any) -> Reason:
    """A reason with its remedy, and the remedy as the next step."""
    return Message(code, what, step, **facts), Message(code, step, **facts)


NEGATIVE = "the inertia about joint {some} is negative, which nature does not allow"


def _reasons_not_to_trust(evidence: Evidence) -> list[Reason]:
    """Reasons for "do not trust"."""
    if evidence.is_reversed:
        facts = {"joints": list(evidence.negative), "some": _shorten_names(evidence.negative)}
        if evidence.is_plate:
            return [_reason_with_remedy(
                "forces_reversed", NEGATIVE + "; the sign of the forces is probably reversed (sense)",
                "check the sense of the force plate", **facts,
            )]  # fmt: skip
        return [_reason_with_remedy(
            "torques_reversed", NEGATIVE + "; the sign of the torques is probably reversed",
            "check the signs of torques and positions", **facts,
        )]  # fmt: skip
    _, figures = evidence.figures
    mean = figures.mean
    if np.isfinite(mean) and mean <= USABLE_MEAN:
        return []
    if evidence.torques_decide and evidence.fit.mean <= USABLE_MEAN:
        return [_poor_torque_reasons(evidence, mean)]
    errors = {"nrmse": mean, "percent": 100.0 * mean, "fit_nrmse": evidence.fit.mean}
    large = "the residual is as large as {percent:.0f} % of the signal on validation data; "
    if evidence.fit.mean > USABLE_MEAN:
        if evidence.is_plate:
            return [_reason_with_remedy(
                "forces_not_explained", large + "the model does not explain the forces even where it was fitted: are "
                "pose, reference point, sense and order of the channels of the force plate declared as they are?",
                "check the description of the force plate", **errors,
            )]  # fmt: skip
        return [_reason_with_remedy(
            "torques_not_explained", large + "the model does not explain the torques even where it was fitted: is this "
            "the right robot, are units, signs and the order of joints right?",
            "check robot, units, signs and joint order", **errors,
        )]  # fmt: skip
    if evidence.seconds < SHORT:
        return [_reason_with_remedy(
            "recording_too_short", large + "the recording is {seconds:.2g} s long, too short to tell so many "
            "parameters apart", RECORD_LONGER, seconds=evidence.seconds, **errors,
        )]  # fmt: skip
    return [_reason_with_remedy(
        "fit_does_not_carry_over", large + "the fit does not carry over to data it has not seen: too little or too "
        "dull motion, or wrong units or joints", "check units and joint order, then record longer and more exciting "
        "motion", **errors,
    )]  # fmt: skip


RECORD_LONGER = "record 20 s or more of exciting motion (dynid excite designs one)"

FEW_BLOCKS = Message(
    "no_jackknife", "there are too few blocks of time for the jackknife: deviations are the textbook ones",
    "record longer",
)  # fmt: skip


def _poor_torque_reasons(evidence: Evidence, mean: float) -> Reason:
    """The model explains what it is about, but not the torques."""
    what = "predicted joint torques have an NRMSE of {nrmse:.3g} on validation data, {model} of {own_nrmse:.2g}: "
    facts = {"nrmse": mean, "model": NAMES[evidence.model], "own_nrmse": evidence.validation.mean}
    torque, momentum = Option("model", "torque"), Option("model", "momentum")
    if evidence.is_plate:
        return _reason_with_remedy(
            "torques_contradict_forces", what + "units or gains of the torques, or the description of the force plate, "
            "are wrong", "check units, signs and gains of the torques and the description of the force plate", **facts,
        )  # fmt: skip
    if evidence.model == "momentum":
        return _reason_with_remedy(
            "torques_not_predicted", what + "the motion does not tell the parameters apart",
            "identify with {torque}, or move more", torque=torque, **facts,
        )  # fmt: skip
    return _reason_with_remedy(
        "torques_not_predicted", what + "one channel of all joints does not tell their parameters apart on this motion",
        "identify with {torque} or {momentum}", torque=torque, momentum=momentum, **facts,
    )  # fmt: skip


def _wrong_torque_scale_reasons(evidence: Evidence) -> list[Reason]:
    """Currents, or other things in place of joint torques."""
    gain = Option("gain")
    if evidence.in_current:
        return [_reason_with_remedy(
            "torques_are_currents", "the torques are currents: parameters and deviations are in units of current, not "
            "in kg m and kg m^2", "give the drive gains in N m per A ({gain}), or find them (dynid gains)", gain=gain,
        )]  # fmt: skip
    if evidence.scales:
        ratios = {scale.joint: scale.ratio for scale in evidence.scales}
        return [_reason_with_remedy(
            "torques_of_wrong_size", "torques are not of the size that the masses of the robot file ask for (times "
            "{some}): currents or motor torques in place of joint torques?",
            "give the drive gains in N m per A ({gain}), or correct the robot file", gain=gain, ratios=ratios,
            some=[f"{joint} {ratio:.2g}" for joint, ratio in list(ratios.items())[:8]],
        )]  # fmt: skip
    return []


def _poor_prediction_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons by large errors on data not used for fitting."""
    step = "look at the residuals joint by joint: friction, backlash or elasticity may be missing"
    if evidence.seconds < SHORT:
        step = RECORD_LONGER
    if evidence.is_plate and evidence.torques_decide:
        step = "check units, signs and gains of the torques, and the robot's geometry"
    reasons = []
    channels, errors = evidence.figures
    if errors.mean > GOOD_MEAN:
        what = "validation NRMSE {of}is {mean:.2f} on average, more than {limit}"
        what += ", from {seconds:.2g} s of recording" if evidence.seconds < SHORT else ""
        reasons.append(_reason_with_remedy(
            "poor_prediction", what, step, of=_torques_text(evidence), mean=errors.mean, limit=GOOD_MEAN,
            seconds=evidence.seconds,
        ))  # fmt: skip
    figures = list(zip(channels, errors.counted, strict=True))
    of_plate = evidence.is_plate and not evidence.torques_decide
    if of_plate:
        step = "check pose, reference point and channels of the force plate, and the robot's geometry"
    hopeless = [channel for channel, x in figures if x > HOPELESS]
    if hopeless:
        what = "the channel {some} is not explained" if of_plate else "the torque of joint {some} is not explained"
        reasons.append(
            _reason_with_remedy("channels_not_explained", what, step, channels=hopeless, some=_shorten_names(hopeless))
        )
    poor = {channel: float(x) for channel, x in figures if GOOD_WORST < x <= HOPELESS}
    if poor:
        reasons.append(_reason_with_remedy(
            "channels_predicted_poorly", "{kind} are predicted poorly (NRMSE above {limit}): {some}", step,
            kind="channels" if of_plate else "joints", limit=GOOD_WORST, nrmse=poor,
            some=_shorten_names([f"{channel} ({x:.2f})" for channel, x in poor.items()]),
        ))  # fmt: skip
    return reasons


def _weak_data_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons in the recording: placement of the plate, delay, noise, excitation."""
    reasons = []
    placement = evidence.placement
    if placement is not None and placement.is_off:
        reasons.append(_reason_with_remedy(
            "force_plate_misplaced", "the force plate seems to sit {placement} beside where it was declared",
            "correct position, rotation or reference of the force plate", placement=str(placement),
            shift=placement.shift, turn=placement.turn,
        ))  # fmt: skip
    if evidence.unidentifiable:
        names = [item.name for item in evidence.unidentifiable]
        reasons.append(_reason_with_remedy(
            "parameters_unidentifiable", "the data cannot tell {count} from others ({some})",
            "record a motion that reveals them (dynid excite designs one)", parameters=names,
            count=_count_text(len(names), "parameter"), some=_shorten_names(names),
        ))  # fmt: skip
    if evidence.base_condition > HIGH_CONDITION:
        reasons.append(_reason_with_remedy(
            "high_condition", "the base columns have a condition number of {condition:.0f}: small errors of model or "
            "motion become large errors of single parameters", "record a more exciting motion (dynid excite)",
            condition=evidence.base_condition,
        ))  # fmt: skip
    if evidence.motion_noise > NOISY:
        share = evidence.motion_noise
        reasons.append(_reason_with_remedy(
            "noisy_accelerations", "accelerations derived from the positions are noise to {percent:.0f} %, which pulls "
            "inertias towards zero by some {bias_percent:.2g} %, beyond their deviations",
            "lower the cut-off, or move faster; momentum needs no accelerations", percent=100.0 * share,
            bias_percent=100.0 * share**2,
        ))  # fmt: skip
    if evidence.shaken:
        reasons.append(_reason_with_remedy(
            "encoder_noise_fed_back", "encoder noise that the controller feeds back makes velocities reverse at the "
            "rate of the noise (rms in rad/s or m/s), so that friction looks smoother than it is; joint {some}; the "
            "intervals allow for it", "pass through zero velocity faster, filter the controller's velocity feedback, "
            "or use finer encoders", some=_shorten_names([str(item) for item in evidence.shaken]),
            joints=[item.joint for item in evidence.shaken],
            parameters=[name for item in evidence.shaken for name in item.names],
        ))  # fmt: skip
    if evidence.groups is not None and evidence.groups < FEW_GROUPS:
        reasons.append(_reason_with_remedy(
            "few_time_blocks", "the deviations rest on {count} of time only", "record longer",
            blocks=evidence.groups, count=_count_text(evidence.groups, "block"),
        ))  # fmt: skip
    if evidence.essential_groups:
        reasons.append(_reason_with_remedy(
            "essential_time_blocks", "{count} of time alone shows some combination of parameters",
            "repeat the motion, so that every part of it is there twice", blocks=evidence.essential_groups,
            count=_count_text(evidence.essential_groups, "block"),
        ))  # fmt: skip
    delay = evidence.delay
    if delay is not None and abs(delay.seconds) > 4.0 * delay.sigma and abs(delay.seconds) > LEAST_DELAY:
        reasons.append(_reason_with_remedy(
            "torques_delayed", "torques seem to be recorded {ms:.2g} ms (+- {sigma_ms:.1g}) {when} the "
            "positions{still}", "identify again with {option} and compare the validation error",
            seconds=delay.seconds, ms=1e3 * abs(delay.seconds), sigma_ms=1e3 * delay.sigma,
            when="after" if delay.seconds > 0.0 else "before", still=" still" if evidence.used_delay else "",
            delay=evidence.used_delay + delay.seconds,
            option=Option("delay", round(evidence.used_delay + delay.seconds, 4)),
        ))  # fmt: skip
    return reasons


def _weak_value_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons in single parameters: negative inertias, large deviations."""
    reasons = []
    if evidence.negative and not evidence.is_reversed:
        reasons.append(_reason_with_remedy(
            "negative_inertia", NEGATIVE, "the model lacks something at these joints, friction for example",
            joints=list(evidence.negative), some=_shorten_names(evidence.negative),
        ))  # fmt: skip
    if evidence.weak:
        reasons.append(_reason_with_remedy(
            "weak_parameters", "{count} not known to half of the largest of the kind ({some})",
            "record a more exciting motion (dynid excite), or fix what is known", parameters=list(evidence.weak),
            count=_count_text(len(evidence.weak), "inertial parameter"), some=_shorten_names(evidence.weak),
        ))  # fmt: skip
    if evidence.impossible:
        reasons.append(_reason_with_remedy(
            "impossible_parameters", "negative beyond doubt, which nature does not allow: {some}",
            "the model lacks something at these joints; physical parameters will not fit as well",
            parameters=list(evidence.impossible), some=_shorten_names(evidence.impossible),
        ))  # fmt: skip
    return reasons


def _shorten_names(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _count_text(number: int, what: str) -> str:
    """A number of things in words: 1 joint, 2 joints."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# Joint by joint: some channels may be bad, and the rest good.


POOR_JOINT = 0.5
UNUSABLE = ("dead", "missing")
"""Kinds of findings that leave nothing of a channel."""


@dataclass(frozen=True, slots=True)
class JointVerdict:
    """How far to trust the torque of one joint, with the reasons; nrmse: on validation data, NaN if unknown."""

    level: Level
    nrmse: Annotated[float, Null(np.nan)]
    reasons: tuple[Message, ...]

    def __str__(self) -> str:
        return f"{self.level}: {'; '.join(reason.what for reason in self.reasons)}"


def assess_joints(evidence: Evidence) -> dict[str, JointVerdict]:
    """Weigh each joint by its own error and its own channels; nothing where the model does not speak of joints."""
    errors = evidence.validation if evidence.torques is None else evidence.torques
    names = evidence.channels if evidence.torques is None else evidence.torque_joints
    nrmse = {name: float(x) for name, x in zip(names, errors.nrmse, strict=True) if name in evidence.torque_joints}
    return {joint: _assess_joint(joint, x, evidence) for joint, x in nrmse.items()}


def _assess_joint(joint: str, nrmse: float, evidence: Evidence) -> JointVerdict:
    bad = [message for message in evidence.bad_channels if joint in message.facts["affected"]]
    steps = zip((GOOD_WORST, POOR_JOINT, HOPELESS), get_args(Level), strict=False)
    level: Level = next((level for limit, level in steps if nrmse <= limit), "do not trust")
    for message in bad:
        worst: Level = "do not trust" if message.code.startswith(UNUSABLE) else "usable"
        level = max(level, worst, key=get_args(Level).index)
    said = Message("joint_error", "validation NRMSE {nrmse:.3f}", nrmse=nrmse)
    if not np.isfinite(nrmse):
        said = Message("joint_error_unknown", "its torque does not change")
    return JointVerdict(level, nrmse, (*bad, said))


def with_bad_channels(verdict: Verdict, evidence: Evidence) -> Verdict:
    """Return the verdict with what was found in single channels: at best weak with a dead one, else usable.

    Says which joints these are, where others are not affected.
    """
    bad = evidence.bad_channels
    if not bad:
        return verdict
    severe = [message for message in bad if message.code.startswith(UNUSABLE)]
    least: Level = "weak" if severe else "usable"
    level = max(verdict.level, least, key=get_args(Level).index)
    named = {joint for message in bad for joint in message.facts["affected"]}
    affected = [joint for joint in evidence.torque_joints if joint in named]
    others = [joint for joint in evidence.torque_joints if joint not in affected]
    scope = [Message(
        "some_joints_affected", "only joint {some} is affected, the channels of {rest} are sound",
        some=_shorten_names(affected), rest=_shorten_names(others), joints=affected, others=others,
    )] if others else []  # fmt: skip
    step = verdict.next_step
    if severe or verdict.level == "good":
        first = (severe or list(bad))[0]
        option = first.facts.get("option")
        why = Wording(first.remedy, first.record("command line")["remedy"])
        options = [option] if isinstance(option, Option) else []
        step = Message(first.code, "{why}", why=why, action="identify", options=options)
    reasons = () if verdict.level == "good" else verdict.reasons
    return replace(verdict, level=level, reasons=(*bad, *scope, *reasons), next_step=step)
