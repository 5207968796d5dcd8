"""A verdict in plain words: good, usable, weak or do not trust, because ..., and the command that comes next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from dynid.deprecated import accept_old_names
from dynid.estimation.diagnostics.plausibility import PlatePlacement, TorqueScale
from dynid.estimation.diagnostics.residuals import Delay
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.inference.score import Score, channels_that_matter
from dynid.messages import Message, Option, Wording
from dynid.storage.records import Null

Action = Literal["identify", "diagnose", "excite", "gains", "payload", "report", "save", "physical", "joint_parameters"]
"""What comes next; `identify`: the same once more with other options."""

Level = Literal["good", "usable", "weak", "do not trust"]
LEVELS: tuple[Level, ...] = get_args(Level)

GOOD_MEAN, GOOD_WORST = 0.1, 0.3
USABLE_MEAN, USABLE_WORST = 0.2, 0.5
WEAK_MEAN = 0.5
"""Mean validation NRMSE, and that of the worst joint that matters, up to which a result has each level."""

HOPELESS = 0.9
HIGH_CONDITION, HOPELESS_CONDITION = 1e3, 1e6
MANY_UNIDENTIFIABLE = 0.2
"""Share of the parameters beyond which a result is weak."""

MISTAKE = 2.0
"""Factor by which the repair of a named mistake changes the error of a result that is not to be trusted."""

FEW_GROUPS = 8
NOISY = 0.08
"""Share of noise in derived accelerations from which on their bias matters."""

SHORT = 5.0
"""Seconds of recording that are too few for an arm."""

LEAST_DELAY = 1e-3
"""Seconds below which a delay is not worth a word."""


@accept_old_names
@dataclass(frozen=True, slots=True)
class Verdict:
    """How far to trust a result, why, and the next step.

    Attributes
    ----------
    level : {"good", "usable", "weak", "do not trust"}
        How far to trust it.
    reasons : tuple of Message
        Why, the most important first.
    next_step : Message
        A command, or a call from Python; `next_step.facts["why"]` says what it is good for.
    unproven : tuple of Message
        What no data of this kind can show.
    """

    level: Level
    reasons: tuple[Message, ...]
    next_step: Message
    unproven: tuple[Message, ...] = ()

    def __str__(self) -> str:
        level = "weak (do not control with it)" if self.level == "weak" else self.level
        return f"{level}: {'; '.join(reason.what for reason in self.reasons)}"

    def with_mistake(self, found: Mistake) -> Verdict:
        """Return the verdict with a mistake that was found later as its first reason.

        Parameters
        ----------
        found : Alternative
            The mistake.

        Returns
        -------
        Verdict
            The new verdict, no better than this one.
        """
        reason = mistake_reason(found)
        level = max((self.level, reason.level), key=LEVELS.index)
        answered = (reason.said.code, "positions_impossible")
        others = [other for other in self.reasons if self.level != "good" and other.code not in answered]
        return replace(self, level=level, reasons=(reason.said, *others), next_step=reason.next_step)

    def without_mistakes(self) -> Verdict:
        """Return the verdict after all alternatives failed, so that trying them is no longer the next step.

        Returns
        -------
        Verdict
            The new verdict.
        """
        if self.next_step.facts["action"] != "diagnose":
            return self
        return replace(self, next_step=_next_step(self.next_step.code, "report", (), LOOK_AT_RESIDUALS))

    def with_next_command(self, call: Call) -> Verdict:
        """Return the verdict with the next step as a command, now that the call is known.

        Parameters
        ----------
        call : Call
            The call that led to the result.

        Returns
        -------
        Verdict
            The new verdict.
        """
        facts = dict(self.next_step.facts)
        is_total = self.next_step.code == "mistake_found"
        if isinstance(facts["why"], Message) and facts["why"].code == "motion_after_saved_result":
            facts["why"] = facts["why"].facts["why"]  # of a call that was known before
        if AFTER in facts["options"] and call.command and not call.saved:
            facts["why"] = Message(
                "motion_after_saved_result", "{why}; with the result saved ({out}) and {after} it would be the motion "
                "that adds most to these data", why=facts["why"], out=Option("out", "result.json"), after=AFTER,
            )  # fmt: skip
        facts["command"] = call.next_command(facts["action"], tuple(facts["options"]), is_total=is_total)
        return replace(self, next_step=Message(self.next_step.code, "{command}", **facts))


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


class Mistake(Protocol):
    """A mistake in the recording or the robot file: what it is, the error without it, the options that repair it."""

    @property
    def what(self) -> Message:
        """Message on what is wrong."""
        ...

    @property
    def error(self) -> float:
        """Mean NRMSE on held-out data after the repair."""
        ...

    @property
    def before(self) -> float:
        """Mean NRMSE on held-out data without the repair."""
        ...

    @property
    def options(self) -> Sequence[Option]:
        """Options that repair the mistake."""
        ...

    @property
    def is_named(self) -> bool:
        """Whether the repaired data are explained clearly better."""
        ...


def level_by_nrmse(mean: float, worst: float = 0.0) -> Level:
    """Best level that errors on data not used for fitting allow: their mean and the worst of a channel that matters."""
    if mean <= GOOD_MEAN and worst <= GOOD_WORST:
        return "good"
    if mean <= USABLE_MEAN and worst <= USABLE_WORST:
        return "usable"
    return "weak" if mean <= WEAK_MEAN else "do not trust"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The figures that a verdict rests on.

    weak: inertial parameters that are not known to half of the largest of their kind; impossible: parameters that
    are below zero by two half widths of their interval although that is impossible; groups: blocks behind the
    jackknife, None without; delay: what was found beside used_delay (s), which was corrected. negative: joints about
    which the inertia is certainly negative; placement: where a force plate seems to sit beside its declaration;
    is_plate: nothing but a force plate was used; motion_noise: share of noise in derived accelerations. scales: how the
    torques compare with those of nominal masses, where their size is off; in_current: they are currents, not torques;
    seconds: of motion that were used. torques: errors of the joint torques of torque_joints on validation data, where
    the model is about something else; None where they were not predicted. shaken: joints whose friction encoder noise
    biases through the controller. kinds, torque_kinds: of channels and torque_joints, as in `channels_that_matter`.
    condition: of all columns that were solved for, each in units of its own size; unidentifiable_share: of the
    parameters. mistake: what explains the data better than what was recorded, if that was found; can_diagnose: not all
    of these were tried yet. recipe: friction was chosen by the data. excitation: options of a motion to record next.
    bad_channels: what was found in single joints' channels of the logs. one_motion: said where all logs show the same.
    saturated: what was found of torques at their limits.
    beyond_limits: what was found of joints beyond their position limits; moving_too_far: revolute joints that
    range more than a turn further than their limits, with both ranges (rad).
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
    kinds: Sequence[str] = ()
    torque_kinds: Sequence[str] = ()
    condition: float = 1.0
    unidentifiable_share: float = 0.0
    mistake: Mistake | None = None
    can_diagnose: bool = False
    recipe: bool = True
    has_bodies: bool = True
    excitation: tuple[Option, ...] = ()
    unproven: tuple[Message, ...] = ()
    one_motion: Message | None = None
    saturated: Sequence[Message] = ()
    beyond_limits: Sequence[Message] = ()
    moving_too_far: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def torques_decide(self) -> bool:
        """Whether joint torques decide: for power and energy, or where predicted worse than what is measured."""
        if self.torques is None:
            return False
        return self.model in ("power", "energy") or not self.torques.mean <= self.validation.mean

    @property
    def deciding_errors(self) -> tuple[Sequence[str], Score]:
        """Channels and errors that decide the level: the worse of the model's own channels and the joint torques."""
        if self.torques is not None and self.torques_decide:
            return self.torque_joints, self.torques
        return self.channels, self.validation

    @property
    def which_channels_matter(self) -> NDArray[np.bool_]:
        """Mask of the deciding channels whose signals are not small."""
        _, errors = self.deciding_errors
        kinds = self.torque_kinds if self.torques_decide else self.kinds
        return channels_that_matter(kinds or ["torque"] * len(errors.nrmse), errors.spread)

    @property
    def worst_nrmse(self) -> float:
        """Largest NRMSE of a channel that matters, 0 where none does."""
        return float(np.nanmax([0.0, *self.deciding_errors[1].nrmse_without_quiet[self.which_channels_matter]]))

    @property
    def level_by_errors(self) -> Level:
        """Best level that the errors on data not used for fitting allow."""
        return level_by_nrmse(self.deciding_errors[1].mean, self.worst_nrmse)

    @property
    def are_signs_reversed(self) -> bool:
        """Whether signs are reversed: most inertias are negative."""
        return 2 * len(self.negative) > self.joints


@dataclass(frozen=True, slots=True)
class Reason:
    """What speaks against a result with its remedy, the best level that it allows, and what to do about it."""

    said: Message
    level: Level
    action: Action
    options: Sequence[Option] = ()

    @property
    def next_step(self) -> Message:
        """Message on the next step, as a call from Python."""
        spoken = self.said.record("command line")["remedy"]
        return _next_step(self.said.code, self.action, self.options, Wording(self.said.remedy, spoken))


def _next_step(code: str, action: Action, options: Sequence[Option], why: str | Wording) -> Message:
    """Message on a next step, which `Verdict.with_next_command` turns into a command."""
    command = Call().next_command(action, tuple(options))
    return Message(code, "{command}", command=command, action=action, options=list(options), why=why)


def assess_evidence(evidence: Evidence) -> Verdict:
    """Verdict from the figures: the worst reason decides the level, the first one the next step, wiring first."""
    wiring = [
        *_mistake_reasons(evidence),
        *_reversal_reasons(evidence),
        *_wrong_torque_scale_reasons(evidence),
        *_moving_too_far_reasons(evidence),
    ]
    verdict = _weigh_reasons(evidence, wiring)
    one_motion = evidence.one_motion
    if one_motion is None:
        return verdict
    said = Message(
        "motions_unproven", "how much the parameters vary between motions, and errors on other ones: {why}",
        one_motion.remedy, why="there is one log" if one_motion.code == "one_log" else "all logs show the same motion",
    )  # fmt: skip
    verdict = replace(verdict, unproven=(*verdict.unproven, said))
    if wiring or one_motion.code == "one_log":
        return verdict
    why = "record another motion, which this command designs: all logs show the same one"
    return replace(verdict, next_step=_next_step(one_motion.code, "excite", _excitation_after(evidence), why))


AT_STOPS = 0.05
"""How far beyond its limits (rad or m) a joint is that touches its stops; beyond that, its zero or limits are wrong."""


def _weigh_reasons(evidence: Evidence, wiring: Sequence[Reason]) -> Verdict:
    """Verdict by mistakes in the wiring, and by all other reasons."""
    others = [*_prediction_reasons(evidence), *_weak_data_reasons(evidence), *_weak_value_reasons(evidence)]
    clear_of_limits = (*evidence.excitation, Option("margin", 0.1))
    touched = [said for said in evidence.beyond_limits if others and said.facts["farthest"] < AT_STOPS]
    stops = [Reason(said, "usable", "excite", clear_of_limits) for said in touched]
    reasons = [*wiring, *stops, *others]
    if reasons:
        level = max((reason.level for reason in reasons), key=LEVELS.index)
        return Verdict(level, tuple(reason.said for reason in reasons), reasons[0].next_step, tuple(evidence.unproven))
    _, figures = evidence.deciding_errors
    facts = {"of": _whose_error_text(evidence), "mean": figures.mean, "worst": evidence.worst_nrmse}
    praise = "validation NRMSE {of}{mean:.3f} on average, {worst:.3f} at the worst channel that matters"
    code, why = "ready_to_use", "find bodies that fit, for a simulator or a controller"
    if evidence.torques is None and evidence.model not in ("torque", "torque+reaction"):
        praise += ", of {model} alone: joint torques were not judged"
        code, why = "torques_not_judged", "keep it, and check its torques on a recording that has them"
        said = Message(code, praise, model=NAMES[evidence.model], **facts)
    else:
        said = Message("predicts_well", praise, **facts)
    action: Action = "joint_parameters" if evidence.is_plate else "physical" if evidence.has_bodies else "save"
    return Verdict("good", (said,), _next_step(code, action, (), why), tuple(evidence.unproven))


def propose_alternative(verdict: Verdict, found: Score, other: Verdict, tried: Score, option: Option) -> Verdict:
    """Return the verdict with an option as its next step that was tried on the same data and gives a better one."""
    why = Message(
        "alternative_tried", "tried on these data with {option}: verdict {level}, validation NRMSE {error:.3f} (now "
        "{before:.3f})", option=option, level=other.level, error=tried.mean, before=found.mean,
    )  # fmt: skip
    return replace(verdict, next_step=_next_step(why.code, "identify", (option,), why))


def _whose_error_text(evidence: Evidence) -> str:
    """Text on whose error it is, where joint torques decide; else empty."""
    return "of the joint torques " if evidence.torques_decide else ""


NAMES = {"power": "power", "energy": "energy", "momentum": "momentum", "reaction": "the forces on the base"}

NEGATIVE = "the inertia about joint {some} is negative, which is physically impossible"


def _mistake_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons by mistakes in recording or robot file that were found."""
    found = evidence.mistake
    if found is None or not found.is_named:
        return []
    if evidence.scales and found.what.code == "mistaken_gain":
        return []  # nominal masses know the gains themselves: see _wrong_torque_scale_reasons
    return [mistake_reason(found)]


def mistake_reason(found: Mistake) -> Reason:
    """Reason by a mistake that is named, with its repair as the next step."""
    loaded = found.what.facts.get("loaded", ())
    remedy = "identify this payload with the other logs as those without it, or leave the log out"
    said = Message(
        "mistake_found", "{mistake}: physically possible fits predict {before:.3f} as recorded, {error:.3f} otherwise "
        "(NRMSE on held-out data)", "apply {options}" if found.options else remedy if loaded else "check what differs",
        mistake=found.what.what, error=found.error, before=found.before, options=list(found.options),
        kind=found.what.code,
    )  # fmt: skip
    level: Level = "do not trust" if found.error * MISTAKE <= found.before else "usable"
    if not found.options and loaded:
        return Reason(said, level, "payload", (Option("loaded", list(loaded)),))
    return Reason(said, level, "identify" if found.options else "diagnose", found.options)


def _reversal_reasons(evidence: Evidence) -> list[Reason]:
    """Reason that signs are reversed, where most inertias are negative."""
    if not evidence.are_signs_reversed or evidence.mistake is not None:
        return []
    facts = {"joints": list(evidence.negative), "some": _shorten_names(evidence.negative)}
    if evidence.is_plate:
        said = Message(
            "forces_reversed", NEGATIVE + "; the sign of the forces is probably reversed (sense)",
            "reverse the sense of the force plate in its description, then identify again", **facts,
        )  # fmt: skip
        return [Reason(said, "do not trust", "identify")]
    options = [Option("sign", f"tau.{joint}") for joint in evidence.torque_joints]
    said = Message(
        "torques_reversed", NEGATIVE + "; the sign of the torques is probably reversed",
        "reverse the torques, which reverses all parameters and leaves the errors as they are", **facts,
    )  # fmt: skip
    return [Reason(said, "do not trust", "identify", options)]


def _prediction_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons by large errors on data not used for fitting."""
    level = evidence.level_by_errors
    if level == "good":
        return []
    return _hopeless_prediction_reasons(evidence) if level == "do not trust" else _poor_prediction_reasons(evidence)


def _hopeless_prediction_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons for the level "do not trust" by errors on data not used for fitting."""
    if evidence.are_signs_reversed:
        return []
    mean = evidence.deciding_errors[1].mean
    if evidence.torques_decide and evidence.fit.mean <= WEAK_MEAN:
        return [_poor_torque_prediction_reason(evidence, mean)]
    facts = {"nrmse": mean, "percent": 100.0 * mean, "fit_nrmse": evidence.fit.mean, "seconds": evidence.seconds}
    large = "the residual is {percent:.0f} % of the signal on validation data; "
    if evidence.fit.mean > WEAK_MEAN and evidence.is_plate:
        said = Message(
            "forces_not_explained", large + "the model does not explain the forces even where it was fitted: are "
            "pose, reference point, sense and order of the channels of the force plate declared as they are?",
            "check the description of the force plate, then identify again", **facts,
        )  # fmt: skip
        return [Reason(said, "do not trust", "identify")]
    if evidence.fit.mean > WEAK_MEAN:
        said = Message(
            "torques_not_explained", large + "the model does not explain the torques even where it was fitted: is this "
            "the right robot, are units, signs and the order of joints right?",
            "check robot, units, signs and joint order", **facts,
        )  # fmt: skip
        action, options = ("diagnose", ()) if evidence.can_diagnose else _action_on_large_errors(evidence)
        return [Reason(said, "do not trust", action, options)]
    if evidence.seconds < SHORT:
        said = Message(
            "recording_too_short", large + "the recording is {seconds:.2g} s long, too short for so many parameters",
            RECORD_LONGER, **facts,
        )  # fmt: skip
        return [Reason(said, "do not trust", "excite", (*evidence.excitation, LONGER))]
    said = Message(
        "fit_does_not_carry_over", large + "the fit does not generalise to other data: too little or too monotonous "
        "motion, or wrong units or joints", "check units and joint order, then record longer and more exciting "
        "motion", **facts,
    )  # fmt: skip
    action, options = ("diagnose", ()) if evidence.can_diagnose else ("excite", evidence.excitation)
    return [Reason(said, "do not trust", action, options)]


RECORD_LONGER, LONGER = "record 20 s or more of exciting motion, which this command designs", Option("duration", 20)

FEW_BLOCKS = Message(
    "no_jackknife", "there are too few blocks of time for the jackknife: standard deviations are those of the "
    "textbook formula",
    "record longer",
)  # fmt: skip


def _action_on_large_errors(evidence: Evidence) -> tuple[Action, Sequence[Option]]:
    """Next action where errors are large and no mistake was found: try friction, else diagnose, else report."""
    if not evidence.recipe:
        return "identify", (Option("friction", "auto"),)
    return ("diagnose" if evidence.can_diagnose else "report"), ()


def _poor_torque_prediction_reason(evidence: Evidence, mean: float) -> Reason:
    """Reason that the model explains its own channels, but not the joint torques."""
    what = "predicted joint torques have an NRMSE of {nrmse:.3g} on validation data, {model} of {own_nrmse:.2g}: "
    facts = {"nrmse": mean, "model": NAMES[evidence.model], "own_nrmse": evidence.validation.mean}
    torque = Option("model", "torque")
    if evidence.is_plate:
        said = Message(
            "torques_contradict_forces", what + "units or gains of the torques, or the description of the force plate, "
            "are wrong", "check units, signs and gains of the torques and the description of the force plate, then "
            "identify again", **facts,
        )  # fmt: skip
        return Reason(said, "do not trust", "identify")
    why = "one channel of all joints does not separate their parameters on this motion"
    if evidence.model == "momentum":
        why = "the motion does not separate the parameters"
    said = Message("torques_not_predicted", what + why, "identify with {torque}", torque=torque, **facts)
    return Reason(said, "do not trust", "identify", (torque,))


def _wrong_torque_scale_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons that torques have the wrong size: currents, or other units."""
    gain, found = Option("gain"), evidence.mistake
    level = "usable" if found is None or not found.is_named else mistake_reason(found).level
    ratios = {scale.joint: scale.ratio for scale in evidence.scales}
    joints = evidence.torque_joints
    gains = [float(f"{1.0 / ratios[joint]:.3g}") for joint in joints if ratios.get(joint, 0.0) > 0.0]
    known = (Option("gain", gains),) if len(gains) == len(joints) else ()
    if evidence.in_current:
        said = Message(
            "torques_are_currents", "the torques are currents: parameters and standard deviations are in units of "
            "current, not "
            "in kg m and kg m^2", "give the drive gains in N m per A ({gain}), or identify them (dynid gains)",
            gain=gain,
        )  # fmt: skip
        return [Reason(said, level, "identify" if known else "gains", known)]
    if evidence.scales:
        said = Message(
            "torques_of_wrong_size", "torques do not match the masses of the robot file (by a factor of {some}): "
            "currents or motor torques in place of joint torques?",
            "give the drive gains in N m per A ({gain}), proposed here from the masses of the robot file, or correct "
            "that file", gain=gain, ratios=ratios,
            some=[f"{joint} {ratio:.2g}" for joint, ratio in list(ratios.items())[:8]],
        )  # fmt: skip
        return [Reason(said, level, "identify" if known else "gains", known)]
    return []


def _moving_too_far_reasons(evidence: Evidence) -> list[Reason]:
    """Reason that positions range so far that neither zeros nor limits can be wrong alone, whatever the error."""
    far, mistake = evidence.moving_too_far, evidence.mistake
    if not far or (mistake is not None and mistake.is_named):
        return []
    said = Message(
        "positions_impossible", "positions range far beyond the limits (in parentheses): joint {some}; degrees for "
        "radians, or positions of the motor?", "try units and gear ratios", joints=list(far),
        some=_shorten_names([f"{joint} over {x:.3g} rad ({y:.3g})" for joint, (x, y) in far.items()]),
    )  # fmt: skip
    return [Reason(said, "usable", "diagnose" if evidence.can_diagnose else "report")]


LOOK_AT_RESIDUALS = "look at the residuals joint by joint: friction, backlash or elasticity may be missing"


def _poor_prediction_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons for the levels "usable" and "weak" by errors, with the channels that are predicted poorly."""
    of_plate = evidence.is_plate and not evidence.torques_decide
    action, options = _action_on_large_errors(evidence)
    step = LOOK_AT_RESIDUALS
    if action == "diagnose":
        step = "try other signs, orders, zeros, units and payloads; only then look for missing friction"
    elif options:
        step = "let the data choose the friction model"
    if evidence.seconds < SHORT:
        step, action, options = RECORD_LONGER, "excite", (*evidence.excitation, LONGER)
    if evidence.is_plate:
        action, options = "identify", ()
        step = "check pose, reference point and channels of the force plate, and the robot's geometry, then identify "
        step += "again"
        if evidence.torques_decide:
            step = "check units, signs and gains of the torques, and the robot's geometry, then identify again"
    reasons = []
    channels, errors = evidence.deciding_errors
    level = evidence.level_by_errors
    if errors.mean > GOOD_MEAN:
        what = "validation NRMSE {of}is {mean:.2f} on average, more than {limit}"
        what += ", from {seconds:.2g} s of recording" if evidence.seconds < SHORT else ""
        said = Message(
            "poor_prediction", what, step, of=_whose_error_text(evidence), mean=errors.mean, seconds=evidence.seconds,
            limit=GOOD_MEAN if errors.mean <= USABLE_MEAN else USABLE_MEAN,
        )  # fmt: skip
        reasons.append(Reason(said, level, action, options))
    figures = list(zip(channels, errors.nrmse_without_quiet, strict=True))
    hopeless = [channel for channel, x in figures if x > HOPELESS]
    if hopeless:
        what = "the channel {some} is not explained" if of_plate else "the torque of joint {some} is not explained"
        said = Message("channels_not_explained", what, step, channels=hopeless, some=_shorten_names(hopeless))
        reasons.append(Reason(said, level, action, options))
    poor = {channel: float(x) for channel, x in figures if GOOD_WORST < x <= HOPELESS}
    small = {channel for channel, matters in zip(channels, evidence.which_channels_matter, strict=True) if not matters}
    words = [f"{channel} ({x:.2f}{', little torque' if channel in small else ''})" for channel, x in poor.items()]
    if poor:
        said = Message(
            "channels_predicted_poorly", "{kind} are predicted poorly (NRMSE above {limit}): {some}", step,
            kind="channels" if of_plate else "joints", limit=GOOD_WORST, nrmse=poor,
            some=_shorten_names(words), negligible=[channel for channel in poor if channel in small],
        )  # fmt: skip
        reasons.append(Reason(said, level, action, options))
    return reasons


def _weak_data_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons why the recording is weak: placement of the plate, delay, noise, excitation."""
    reasons = []
    excitation = evidence.excitation
    placement = evidence.placement
    if placement is not None and placement.is_off:
        said = Message(
            "force_plate_misplaced", "the force plate seems to be {placement} from where it was declared",
            "correct position, rotation or reference of the force plate, then identify again",
            placement=str(placement), shift=placement.shift, turn=placement.turn,
        )  # fmt: skip
        reasons.append(Reason(said, "usable", "identify"))
    if evidence.unidentifiable:
        names = [item.name for item in evidence.unidentifiable]
        said = Message(
            "parameters_unidentifiable", "the data cannot distinguish {count} from others ({some})",
            "record a motion that reveals them, which this command designs", parameters=names,
            count=_count_text(len(names), "parameter"), some=_shorten_names(names), share=evidence.unidentifiable_share,
        )  # fmt: skip
        many = evidence.unidentifiable_share >= MANY_UNIDENTIFIABLE
        reasons.append(Reason(said, "weak" if many else "usable", "excite", _excitation_after(evidence, WEAK_ONES)))
    reasons += [Reason(said, "usable", "excite", excitation) for said in evidence.saturated]
    if evidence.base_condition > HIGH_CONDITION or evidence.condition > HOPELESS_CONDITION:
        is_base = evidence.base_condition > HIGH_CONDITION
        said = Message(
            "high_condition", "the {which} columns have a condition number of {condition:.0f}: small errors of model "
            "or motion become large errors of single parameters", "record a more exciting motion, which this command "
            "designs", which="base" if is_base else "base and friction",
            condition=evidence.base_condition if is_base else evidence.condition,
        )  # fmt: skip
        hopeless = max(evidence.base_condition, evidence.condition) > HOPELESS_CONDITION
        reasons.append(Reason(said, "weak" if hopeless else "usable", "excite", _excitation_after(evidence)))
    if evidence.motion_noise > NOISY:
        share = evidence.motion_noise
        said = Message(
            "noisy_accelerations", "{percent:.0f} % of the accelerations derived from the positions is noise, which "
            "biases inertias towards zero by about {bias_percent:.2g} %, beyond their standard deviations",
            "use {momentum}, which needs no accelerations, lower the cut-off, or move faster",
            momentum=Option("model", "momentum"), percent=100.0 * share, bias_percent=100.0 * share**2,
        )  # fmt: skip
        momentum = Option("model", "momentum" if evidence.model == "torque" else evidence.model)
        reasons.append(Reason(said, "usable", "identify", (momentum,)))
    if evidence.shaken:
        said = Message(
            "encoder_noise_fed_back", "encoder noise that the controller feeds back makes velocities reverse at the "
            "rate of the noise (rms in rad/s or m/s), so that friction looks smoother than it is; joint {some}; the "
            "intervals allow for it", "pass through zero velocity faster, filter the controller's velocity feedback, "
            "or use finer encoders", some=_shorten_names([str(item) for item in evidence.shaken]),
            joints=[item.joint for item in evidence.shaken],
            parameters=[name for item in evidence.shaken for name in item.names],
        )  # fmt: skip
        reasons.append(Reason(said, "usable", "excite", excitation))
    if evidence.groups is not None and evidence.groups < FEW_GROUPS:
        said = Message(
            "few_time_blocks", "the standard deviations rest on only {count} of time", RECORD_LONGER,
            blocks=evidence.groups, count=_count_text(evidence.groups, "block"),
        )  # fmt: skip
        reasons.append(Reason(said, "usable", "excite", (*excitation, LONGER)))
    if evidence.essential_groups:
        said = Message(
            "essential_time_blocks", "{count} of time alone shows some combination of parameters",
            "repeat the motion, so that every part of it is there twice", blocks=evidence.essential_groups,
            count=_count_text(evidence.essential_groups, "block"),
        )  # fmt: skip
        reasons.append(Reason(said, "usable", "excite", (*excitation, Option("periods", 2))))
    delay = evidence.delay
    if delay is not None and abs(delay.seconds) > 4.0 * delay.sigma and abs(delay.seconds) > LEAST_DELAY:
        option = Option("delay", round(evidence.used_delay + delay.seconds, 4))
        said = Message(
            "torques_delayed", "torques seem to be recorded {ms:.2g} ms (+- {sigma_ms:.1g}) {when} the "
            "positions{still}", "identify again with {option} and compare the validation error",
            seconds=delay.seconds, ms=1e3 * abs(delay.seconds), sigma_ms=1e3 * delay.sigma,
            when="after" if delay.seconds > 0.0 else "before", still=" still" if evidence.used_delay else "",
            delay=evidence.used_delay + delay.seconds, option=option,
        )  # fmt: skip
        reasons.append(Reason(said, "usable", "identify", (option,)))
    return reasons


def _weak_value_reasons(evidence: Evidence) -> list[Reason]:
    """Reasons why single parameters are weak: impossible values, large deviations."""
    reasons = []
    lacking = "the model lacks something at these joints, friction for example"
    action, options = _action_on_large_errors(evidence)
    if evidence.negative and not evidence.are_signs_reversed:
        said = Message(
            "negative_inertia", NEGATIVE, lacking, joints=list(evidence.negative),
            some=_shorten_names(evidence.negative),
        )  # fmt: skip
        reasons.append(Reason(said, "usable", action, options))
    if evidence.weak:
        said = Message(
            "weak_parameters", "{count} with a standard deviation above half of the largest parameter of their kind "
            "({some})",
            "record a more exciting motion, which this command designs, or fix what is known",
            parameters=list(evidence.weak), count=_count_text(len(evidence.weak), "inertial parameter"),
            some=_shorten_names(evidence.weak),
        )  # fmt: skip
        reasons.append(Reason(said, "usable", "excite", _excitation_after(evidence, WEAK_ONES)))
    if evidence.impossible:
        said = Message(
            "impossible_parameters", "negative with certainty, which is physically impossible: {some}", lacking,
            parameters=list(evidence.impossible), some=_shorten_names(evidence.impossible),
        )  # fmt: skip
        reasons.append(Reason(said, "usable", action, options))
    return reasons


AFTER, WEAK_ONES = Option("after", "result.json"), Option("target", "unidentifiable")
"""Options of a motion that adds to what a result shows; the file is that of the result, where it is saved."""


def _excitation_after(evidence: Evidence, *target: Option) -> tuple[Option, ...]:
    """Options of a motion to record next, after this result where that can be designed."""
    is_suited = evidence.model == "torque" and evidence.has_bodies
    return (*evidence.excitation, AFTER, *target) if is_suited else evidence.excitation


def _shorten_names(names: Sequence[str]) -> str:
    """Names separated by commas, eight at most and how many more."""
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
    """Verdicts on joints, by their own errors and channels; none where the model does not speak of joints."""
    errors = evidence.validation if evidence.torques is None else evidence.torques
    names = evidence.channels if evidence.torques is None else evidence.torque_joints
    nrmse = {name: float(x) for name, x in zip(names, errors.nrmse, strict=True) if name in evidence.torque_joints}
    return {joint: _assess_joint(joint, x, evidence) for joint, x in nrmse.items()}


def _assess_joint(joint: str, nrmse: float, evidence: Evidence) -> JointVerdict:
    """Verdict on one joint, by its error and its bad channels."""
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
        "some_joints_affected", "only joint {some} is affected, the channels of {rest} are not",
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


# What to do after an identification, as a command that can be pasted.


_IN_PYTHON = {
    "diagnose": "diagnose(result)", "report": "write_report(result, 'report.html')",
    "save": "result.save('result.json')", "physical": "physical_parameters(result)",
    "joint_parameters": "joint_parameters(result)", "gains": "identify_gains(robot, loaded, logs, payload)",
    "payload": "identify_payload(robot, loaded, unloaded)",
}  # fmt: skip

_REPEATED = ("columns", "units", "sign", "zero", "order")
"""Options that may be given several times."""

_OF_ROBOTS, _OF_LOGS = (
    ("gravity", "lock"),
    ("columns", "units", "gear", "gain", "topic", "sign", "zero", "order", "header", "rows"),
)
"""Options of `load_robot` and `read_log`."""


@dataclass(frozen=True, slots=True)
class Call:
    """How a result was made, so that the next command can be named.

    command: as typed, or to the same effect; empty where robot or logs are not files. robot, logs: their words in it;
    saved: the file of the result; options: given from Python.
    """

    command: str = ""
    robot: str = ""
    logs: str = ""
    saved: str = ""
    options: tuple[Option, ...] = ()

    def next_command(self, action: Action, options: tuple[Option, ...], *, is_total: bool = False) -> str:
        """Command line for the next action, or a call from Python where this call has no command.

        is_total: the options stand for all of their kind, those that were given included.
        """
        if not self.command:
            return self._next_call(action, options, is_total)
        said = options if is_total else tuple(map(self._with_given_gain, options))
        said = tuple(option for option in said if option.value != () or option.keyword not in _REPEATED)
        anew = options if is_total else [option for option in options if option.keyword not in _REPEATED]
        words, command = " ".join(map(shell_text, said)), _without_options(self.command, anew)
        match action:
            case "excite" if AFTER in options and self.saved:  # the result decides on the columns
                rest = [shell_text(o) for o in said if o not in (AFTER, WEAK_ONES) and o.keyword != "rotor_inertia"]
                target = [shell_text(WEAK_ONES)] if WEAK_ONES in options else []
                words = " ".join([self.robot, "--after", self.saved, *target, *rest])
                return f"dynid excite {words} --out trajectory.csv"
            case "excite":
                words = " ".join(shell_text(o) for o in said if o not in (AFTER, WEAK_ONES))
                return f"dynid excite {self.robot} {words} --out trajectory.csv".replace("  ", " ")
            case "gains":
                return f"dynid gains {self.robot} --unloaded {self.logs} --loaded loaded.csv --mass 2.5 --com 0,0,0.1"
            case "payload" if parts := self._parts_with_and_without(options):
                return " ".join(("dynid payload", self.robot, *parts, *_reading_options(self.command)))
            case "physical" | "joint_parameters" if self.saved:
                return f"dynid physical {self.saved}"
            case "save" if self.saved:
                return f"dynid report {self.saved}"
        more = {"diagnose": "--diagnose", "report": "--report report.html", "identify": words, "payload": ""}
        text, given = more.get(action, "--out result.json"), shlex.split(command)
        if action != "identify" and text.partition(" ")[0] in given:
            return command
        return f"{command} {text}".rstrip()

    def _parts_with_and_without(self, options: Sequence[Option]) -> list[str]:
        """Words of the logs with a payload and of those without, as options; none where these are not found."""
        names = {str(name) for option in options if option.keyword == "loaded" for name in option.value}
        words = [word for word in self.logs.split(" --unloaded ") if word]
        loaded = [word for word in words if shlex.split(word)[0].rpartition("/")[2] in names]
        others = [word for word in words if word not in loaded]
        if len(loaded) != len(names) or not others:
            return []
        return [*(f"--loaded {word}" for word in loaded), *(f"--unloaded {word}" for word in others)]

    def _with_given_gain(self, option: Option) -> Option:
        """Option with the gain of the command, which it replaces, included; other options unchanged."""
        words = shlex.split(self.command)
        if option.keyword != "gain" or "--gain" not in words[:-1]:
            return option
        before = [float(x) for x in words[len(words) - words[::-1].index("--gain")].split(",")]
        return Option("gain", [float(f"{x:.4g}") for x in np.array(option.value) * before])

    def _next_call(self, action: Action, options: tuple[Option, ...], is_total: bool) -> str:
        """Call from Python for the next action, with the variables `robot`, `logs` and `result`."""
        if action in _IN_PYTHON:
            return _IN_PYTHON[action]
        if action == "excite":
            limits = [Option("limits", {o.keyword: o.value}) if o.keyword == "velocity" else o for o in options]
            if AFTER in options:  # which decides on the columns
                limits = [o for o in limits if o != AFTER and o.keyword != "rotor_inertia"]
                return _python_call_text("design_excitation(robot, after=result", limits)
            return _python_call_text("design_excitation(robot", limits)
        anew = {option.keyword for option in options} if is_total else set()
        merged = _merge_options((*(o for o in self.options if o.keyword not in anew), *options))
        of_robot, of_logs = ([o for o in merged if o.keyword in some] for some in (_OF_ROBOTS, _OF_LOGS))
        robot = _python_call_text("load_robot(path", of_robot) if of_robot else "robot"
        logs = _python_call_text("read_log(path, robot", of_logs) if of_logs else "logs"
        return _python_call_text(
            f"identify({robot}, {logs}", [o for o in merged if o.keyword not in (*_OF_ROBOTS, *_OF_LOGS)]
        )


_OF_PAYLOADS = ("gravity", "column", *_OF_LOGS, "cutoff", "delay", "joints", "friction", "model")
"""Options of `dynid identify` with a value that `dynid payload` has as well; locks are among the words of the robot."""


def _reading_options(command: str) -> list[str]:
    """Options of a command that hold for the payload in its logs, too."""
    names, found, words = {f"--{name}" for name in _OF_PAYLOADS}, list[str](), iter(shlex.split(command))
    for word in words:
        if word in names:
            found += [word, shlex.quote(next(words, ""))]
        elif word.partition("=")[0] in names or word == "--no-rotor-inertia":
            found.append(shlex.quote(word))
    return found


def _python_call_text(opened: str, options: Sequence[Option]) -> str:
    """Text of a call from Python with these options."""
    return ", ".join([opened, *(option.render("python") for option in options)]) + ")"


def _merge_options(options: Sequence[Option]) -> list[Option]:
    """Merge options so that each keyword occurs once: mappings joined, signs listed, of others the last one."""
    merged: dict[str, Option] = {}
    for option in options:
        value, before = option.value, merged.get(option.keyword)
        if isinstance(value, Mapping) and before is not None:
            value = {**before.value, **value}
        elif option.keyword == "sign":
            value = [*(before.value if before else ()), *([value] if isinstance(value, str) else value)]
        merged[option.keyword] = Option(option.keyword, value)
    return list(merged.values())


def _without_options(command: str, options: Sequence[Option]) -> str:
    """Command without its words for some options, which are given anew."""
    names = {word for o in options for word in o.render("command line").split() if word.startswith("--")}
    names |= {f"--no-{name[2:]}" for name in names} | {name.replace("--no-", "--", 1) for name in names}
    kept, words = [], iter(shlex.split(command)) if names else iter(())
    for word in words:
        if word in names:
            if not word.endswith("rotor-inertia"):
                next(words, None)
        elif word.partition("=")[0] not in names:
            kept.append(word)
    return shlex.join(kept) if names else command


def shell_text(option: Option) -> str:
    """Option as it is typed, its values quoted for the shell."""
    parts = (part.partition(" ") for part in re.split(" (?=--)", option.render("command line")))
    return " ".join(f"{name} {shlex.quote(value)}" if value else name for name, _, value in parts)
