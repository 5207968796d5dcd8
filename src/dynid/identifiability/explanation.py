"""Why a parameter cannot be identified by itself, and what would reveal it: every claim is computed, none is told.

A trial changes one thing (gravity, sensor, geometry) and asks for the base parameters again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dynid.errors import DynidError
from dynid.identifiability.base_parameters import base_parameters, find_preferred_columns
from dynid.identifiability.numeric import Question
from dynid.identifiability.parameters import BaseParameters, rules_apply
from dynid.identifiability.rules import JOINT_RULES, find_eliminations
from dynid.robot.expression import Expression
from dynid.robot.force_sensor import CHANNELS, ForceSensor
from dynid.robot.mdh import mdh_transform
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Link, Robot

Status = Literal["base", "base with others", "regrouped", "no effect", "known zero"]
Kind = Literal["mounting", "sensor", "geometry"]

TILT = (0.5, -0.35)
"""Angles (rad) about x and y by which a trial tilts the base: no special direction."""
TURN, SHIFT = 0.37, 0.083
"""Angle (rad) and length (m) by which a trial changes a geometry: no special values."""
SMALL = 1e-8
SHOWN = 3
"""Invisible changes that are written out."""

RULES: Mapping[str, str] = {
    "rule_fixed": "a fixed link is one body with its parent",
    "rule_rotor_revolute": "at the first revolute joint, and at a second one perpendicular to it, the rotor turns with "
    "the link and Ia joins ZZ",
    "rule_rotor_prismatic": "along a slide of fixed direction that gravity does not load, the rotor acts as mass and "
    "Ia joins M",
    "rule_1a": "YY, MZ and M of every revolute link join its parent (Khalil & Bennis 1994, rule 1a)",
    "rule_1b": "the inertia of every prismatic link joins its parent (Khalil & Bennis 1994, rule 1b)",
    "rule_2": "the slide is parallel to the first revolute axis (Khalil & Bennis 1994, rule 2)",
    "rule_3": "before the second revolute direction only moments about the first revolute axis act (Khalil & "
    "Bennis 1994, rule 3)",
    "rule_4": "all revolute axes up to this joint are parallel: the link turns about z only (Khalil & Bennis 1994, "
    "rule 4)",
    "rule_5": "the joint's axis stays on one line, along gravity (Khalil & Bennis 1994, rule 5)",
    "rule_6": "the link never turns (Khalil & Bennis 1994, rule 6)",
    "rule_concurrent": "without gravity, all axes meet in one point",
    "rotor_on_base": "the inertia of a rotor acts between a motor and its link, not on the base",
    "no_channel": "no measured force or moment on the base shows it, whatever the motion",
    "loop": "the loop moves the link only together with others",
    "order": "it appears only in sums that another parameter stands for",
}
"""What removes a parameter: rules of the open tree first, then what sensors and loops do."""


@dataclass(frozen=True, slots=True)
class Elimination:
    """A parameter that is not kept: the rule that removed it, and the kept ones that take it over (none: no effect)."""

    parameter: Parameter
    rule: str | None
    joins: tuple[Parameter, ...]

    @property
    def link(self) -> str:
        """Name of its link, or of its joint for a rotor."""
        return self.parameter.link or self.parameter.joint or ""

    @property
    def reason(self) -> str | None:
        """The rule in words."""
        return None if self.rule is None else RULES[self.rule]


def find_eliminated_parameters(base: BaseParameters) -> tuple[Elimination, ...]:
    """Every parameter that is not kept, in standard order, with its rule and what takes it over.

    Rules are those of tables: for a robot whose links are not in modified Denavit-Hartenberg frames (URDF, MJCF) they
    move sums of a link's parameters, and none is named; `base.robot.to_mdh()` has the frames.
    """
    M, known = base.regrouping.matrix, {*base.kept, *base.question.known_zero_columns}
    rules = _rules_by_column(base)
    return tuple(
        Elimination(name, rules.get(c), tuple(base.names[i] for i in np.flatnonzero(M[:, c])))
        for c, name in enumerate(base.columns)
        if c not in known
    )


def _rules_by_column(base: BaseParameters) -> dict[int, str]:
    """Name of what removed each column that is not kept; nothing for robots that are not in their table's frames."""
    robot, question = base.robot, base.question
    if robot.to_mdh() is not robot or robot.floating or question.friction:
        return {}
    if rules_apply(question):
        names = find_eliminations(robot, rotor_inertia=question.rotor_inertia)
    elif question.model == "momentum":
        still = replace(robot, gravity=np.zeros(3))
        names = find_eliminations(still, rotor_inertia=question.rotor_inertia)
    else:
        names = find_eliminations(robot, rotor_inertia=question.rotor_inertia, names=JOINT_RULES)
    loops = bool(robot.couplings or robot.closures)
    found: dict[int, str] = {}
    for c, name in enumerate(base.columns):
        if c in base.kept:
            continue
        if "reaction" not in question.model:
            found[c] = names.get(c, "loop" if loops else "order")
        elif name.kind == "rotor" and question.model == "reaction":
            found[c] = "rotor_on_base"
        else:
            silent = not base.regrouping.matrix[:, c].any()
            found[c] = names.get(c, "no_channel" if silent else "loop" if loops else "order")
    return found


@dataclass(frozen=True, slots=True)
class Trial:
    """One change of the mounting, sensor or geometry, and its effect on the base parameters.

    Attributes
    ----------
    kind : {"mounting", "sensor", "geometry"}
        What was changed.
    what : str
        The change in words.
    before : int
        Number of base parameters without the change.
    count : int
        Number of base parameters with it.
    revealed : bool
        Whether the change of parameters that was invisible becomes visible; for a kept parameter that carries others,
        whether it becomes identifiable by itself.
    identifiable : bool
        Whether the parameter's own value becomes identifiable.
    cause : str
        Angle or length that was changed.
    channel : str
        The only channel of the force plate.
    parameter : str
        The parameter that is explained.
    """

    kind: Kind
    what: str
    before: int
    count: int
    revealed: bool
    identifiable: bool
    cause: str = ""
    channel: str = ""
    parameter: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Why a parameter is kept, regrouped or without effect.

    Attributes
    ----------
    base : BaseParameters
        Of the robot and model in question.
    parameter : Parameter
        The parameter that is explained.
    status : str
        "base", "base with others", "regrouped", "no effect" or "known zero".
    rule : str or None
        Name of the closed-form rule that removed it, if one did.
    changes : tuple of mappings of Parameter to float
        Changes of the standard parameters that involve it and that no measurement of the model shows, SI units.
    trials : tuple of Trial
        What would and would not reveal it.
    """

    base: BaseParameters
    parameter: Parameter
    status: Status
    rule: str | None
    changes: tuple[Mapping[Parameter, float], ...]
    trials: tuple[Trial, ...]

    @property
    def reason(self) -> str | None:
        """The rule in words."""
        return None if self.rule is None else RULES[self.rule]

    @property
    def remedies(self) -> tuple[Trial, ...]:
        """Trials that reveal the parameter."""
        return tuple(trial for trial in self.trials if trial.revealed)

    @property
    def causes(self) -> tuple[str, ...]:
        """What makes it so: the direction of gravity, or angles and lengths without which it would show."""
        found = ["the direction of gravity" if t.kind == "mounting" else t.cause for t in self.remedies]
        return tuple(dict.fromkeys(cause for cause in found if cause))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation in sentences."""
        return (*self._sentences_on_status(), *self._sentences_on_changes(), *self._sentences_on_trials())

    def _sentences_on_status(self) -> Iterator[str]:
        """What the parameter is, and by which rule."""
        name, model = self.parameter, self.base.question.model
        yield {
            "base": f"{name} is identifiable by itself ({model} model).",
            "base with others": f"{name} is a base parameter that carries others: only the sum is identifiable.",
            "regrouped": f"{name} shows only in sums with kept parameters ({model} model).",
            "no effect": f"{name} has no effect on what the {model} model sees.",
            "known zero": f"{name} is declared to be zero and left out.",
        }[self.status]
        if self.status == "base with others":
            k = self.base.columns.index(name)
            kept = [r for r in self.base.relations if r.startswith(f"{name.symbol}R{name.label} =")]
            yield from kept[:1] or [f"It carries {len(self.base.coefficients[k]) - 1} others."]
        if self.reason is not None:
            yield f"Rule: {self.reason}."
        if self.causes:
            yield f"Causes (changing one of them reveals it): {', '.join(self.causes)}."

    def _sentences_on_changes(self) -> Iterator[str]:
        """Which parameters change together by how much."""
        for change in self.changes[:SHOWN]:
            parts = [f"{name} by {x:+.4g} {name.unit}" for name, x in change.items()]
            links = list(dict.fromkeys(name.link or name.joint or "" for name in change))
            where = f" (an exchange between links {', '.join(links)})" if len(links) > 1 else ""
            together = " together" if len(parts) > 1 else ""
            yield f"No measurement shows a change of {', '.join(parts)}{together}{where}."
        if len(self.changes) > SHOWN:
            yield f"So it is with {len(self.changes) - SHOWN} more changes in which {self.parameter} takes part."

    def _sentences_on_trials(self) -> Iterator[str]:
        """What reveals it, what does not, and what only a table would allow to try."""
        for kind, title in (("mounting", "Mounting"), ("sensor", "Sensor"), ("geometry", "Geometry")):
            tried = [trial for trial in self.trials if trial.kind == kind]
            helps = [trial for trial in tried if trial.revealed]
            channels = [f"{t.channel} ({t.count})" for t in helps if t.channel]
            for trial in helps:
                if trial.channel:
                    continue
                how = "identifiable by itself" if trial.identifiable else "seen, but only in sums with others"
                yield (
                    f"{title}: with {trial.what}, {self.parameter} is {how}; "
                    f"{trial.before} base parameters become {trial.count}."
                )
            if channels:
                found = ", ".join(channels)
                yield f"{title}: single channels of a plate, added to the torques, that reveal it: {found}."
            if tried and not helps:
                yield f"{title}: {_nothing_helps(kind, tried)}"
        if self.trials and all(link.mdh is None for link in self.base.robot.links):
            yield "Rules and changed geometries are for tables: dynid mdh ROBOT --out table.toml writes one."


def _nothing_helps(kind: str, tried: list[Trial]) -> str:
    """Sentence on trials that reveal nothing."""
    if kind == "sensor":
        return f"no force plate reveals it, as a whole or channel by channel ({len(tried)} tried)."
    if kind == "geometry":
        return f"no change of a single angle or length reveals it ({len(tried)} tried)."
    return f"{tried[0].what} does not reveal it."


def explain(base: BaseParameters, name: str) -> Explanation:
    """Explain why a standard parameter is kept, regrouped or without effect, and what would reveal it.

    Parameters
    ----------
    base : BaseParameters
        Of the robot and model in question.
    name : str
        Name of a standard parameter, such as `XX2`.

    Returns
    -------
    Explanation
        Status, rule, changes that no measurement shows, and trials of other mountings, sensors and geometries, each
        computed by `base_parameters`.

    Raises
    ------
    DynidError
        If the robot has no such parameter.

    Examples
    --------
    >>> from dynid import base_parameters, explain, load_robot
    >>> explain(base_parameters(load_robot("one_link")), "M1").status
    'no effect'
    """
    (c,) = find_preferred_columns(base.question, (name,), option="explain")
    return _explain_column(base, c, _rules_by_column(base), {})


def explain_all(base: BaseParameters) -> tuple[Explanation, ...]:
    """Explain every parameter that is not kept, in standard order; each changed robot is asked once for all of them."""
    away = {*base.regrouped, *base.no_effect}
    rules, tried = _rules_by_column(base), dict[str, BaseParameters | None]()
    return tuple(_explain_column(base, c, rules, tried) for c, name in enumerate(base.columns) if name in away)


def _explain_column(
    base: BaseParameters, c: int, rules: Mapping[int, str], tried: dict[str, BaseParameters | None]
) -> Explanation:
    """Explanation of a column; tried: what changed robots answered so far."""
    status = _status_of_column(base, c)
    rule = rules.get(c) if status in ("regrouped", "no effect") else None
    changes = tuple({base.columns[k]: x for k, x in z.items()} for z in _invisible_changes(base, c))
    trials = () if status in ("base", "known zero") else tuple(_run_trials(base, c, status, tried))
    return Explanation(base, base.columns[c], status, rule, changes, trials)


def _status_of_column(base: BaseParameters, c: int) -> Status:
    """Which of the groups a column belongs to."""
    if c in base.question.known_zero_columns:
        return "known zero"
    if c in base.kept:
        return "base with others" if len(base.coefficients[c]) > 1 else "base"
    return "regrouped" if base.regrouping.matrix[:, c].any() else "no effect"


def _invisible_changes(base: BaseParameters, c: int) -> Iterator[dict[int, float]]:
    """Vectors of the null space that involve column c: a column changes by 1, kept ones by what cancels it."""
    M = base.regrouping.matrix
    bound = {*base.kept, *base.question.known_zero_columns}
    free = [k for k in range(M.shape[1]) if k not in bound]
    for k in free if c in base.kept else [c] if c in free else []:
        change = {k: 1.0} | {
            kept: -float(x) for kept, x in zip(base.kept, M[:, k], strict=True) if abs(x) > SMALL
        }  # fmt: skip
        if c in change:
            yield change


def is_identifiable(base: BaseParameters, c: int) -> bool:
    """Whether the value of column c itself follows from the base parameters: e_c lies in the rows' span."""
    row = (
        base.regrouping.matrix[list(base.kept).index(c)]
        if c in base.kept
        else np.zeros(base.regrouping.matrix.shape[1])
    )
    return c in base.kept and float(np.abs(np.delete(row, c)).max(initial=0.0)) <= SMALL


def _is_revealed(found: BaseParameters, base: BaseParameters, c: int, status: Status, kind: Kind) -> bool:
    """Whether a kept column is identifiable by itself; for others, whether the change is no longer invisible.

    Another geometry has other invisible changes: there, whether the column shows beside those kept before.
    """
    if status == "base with others":
        return is_identifiable(found, c)
    M = found.regrouping.matrix
    if kind != "geometry":
        (change,) = _invisible_changes(base, c)
        z = np.zeros(M.shape[1])
        z[list(change)] = list(change.values())
        return bool((np.abs(M @ z) > SMALL * np.maximum(np.abs(M) @ np.abs(z), 1e-300)).any())
    x, A = M[:, c], M[:, list(base.kept)]
    return float(np.linalg.norm(x - A @ np.linalg.lstsq(A, x, rcond=1e-11)[0])) > SMALL * float(np.linalg.norm(x))


def _run_trials(
    base: BaseParameters, c: int, status: Status, tried: dict[str, BaseParameters | None]
) -> Iterator[Trial]:
    """Yield a trial for each change that the robot allows."""
    question = base.question
    method = "qr" if question.friction else None
    for kind, what, robot, model, tared in _changed_questions(base, c):
        cause = what.partition(" changed by ")[0] if kind == "geometry" else ""
        sensed = () if robot.sensor is None or robot is base.robot else robot.sensor.channels
        channel = sensed[0] if kind == "sensor" and len(sensed) == 1 else ""
        if what not in tried:
            try:
                tried[what] = base_parameters(
                    robot, model=model, method=method, rotor_inertia=question.rotor_inertia, tared=tared,
                    friction=question.friction,
                )  # fmt: skip
            except DynidError:  # a loop that no longer closes, or a model that this robot does not have
                tried[what] = None
        found = tried[what]
        if found is None:
            continue
        revealed = _is_revealed(found, base, c, status, kind)
        yield Trial(
            kind, what, base.count, found.count, revealed, is_identifiable(found, c), cause, channel, base.columns[c]
        )


def changed_question(base: BaseParameters, trial: Trial) -> Question:
    """What a trial asks: the changed robot, with its model and sensor."""
    c = base.columns.index(trial.parameter)
    robot, model, tared = next(
        (robot, model, tared) for _, what, robot, model, tared in _changed_questions(base, c) if what == trial.what
    )
    return replace(base.question, robot=robot, model=model, tared=tared)


def _changed_questions(base: BaseParameters, c: int) -> Iterator[tuple[Kind, str, Robot, str, bool]]:
    """Changes to try: kind, words, robot, model, and whether the plate is tared."""
    robot, model, tared = base.robot, base.question.model, base.question.tared
    if not robot.floating and model != "momentum":
        yield "mounting", *_tilted(robot), model, tared
    if not robot.floating and not base.question.friction:
        yield from _other_sensors(robot, model, tared)
    if not robot.closures:
        for what, changed in _other_geometries(robot, _links_involved(base, c)):
            yield "geometry", what, changed, model, tared


def _tilted(robot: Robot) -> tuple[str, Robot]:
    """The robot on a base that is tilted to no special direction; with gravity where it had none."""
    size = float(np.linalg.norm(robot.gravity))
    (ca, sa), (cb, sb) = ((math.cos(x), math.sin(x)) for x in TILT)
    turn = np.array([[cb, sb * sa, sb * ca], [0.0, ca, -sa], [-sb, cb * sa, cb * ca]])
    g = turn.T @ (robot.gravity if size else np.array([0.0, 0.0, -9.81]))
    g = np.round(g, 6)
    tilt = f"base tilted by {math.degrees(TILT[0]):.0f} degrees about x and {math.degrees(TILT[1]):.0f} about y"
    words = tilt if size else f"gravity of {np.linalg.norm(g):.3g} m/s^2 in no special direction"
    return words, replace(robot, gravity=g, warnings=())


def _other_sensors(robot: Robot, model: str, tared: bool) -> Iterator[tuple[Kind, str, Robot, str, bool]]:
    """Yield a force plate beside the torques, all channels and one by one; joint torques beside a plate."""
    if "reaction" in model:
        if model == "reaction":
            yield "sensor", "joint torques in addition to the force plate", robot, "torque+reaction", tared
        return
    plain = robot.with_sensor(None)
    yield "sensor", "a force plate under the base in addition to the torques", plain, "torque+reaction", False
    yield "sensor", "a force plate alone", plain, "reaction", False
    yield "sensor", "a tared force plate in addition to the torques", plain, "torque+reaction", True
    for channel in CHANNELS:
        one = robot.with_sensor(ForceSensor(channels=(channel,)))
        yield "sensor", f"channel {channel} of a force plate in addition to the torques", one, "torque+reaction", False


def _links_involved(base: BaseParameters, c: int) -> set[int]:
    """Links of the parameters in the invisible changes, and all links that carry them."""
    place = {link.joint: k for k, link in enumerate(base.robot.links)}
    names = {base.columns[k] for z in _invisible_changes(base, c) for k in z} | {base.columns[c]}
    found: set[int] = set()
    for name in names:
        k = place.get(name.link or name.joint or "", -1)
        while k >= 0:
            found.add(k)
            k = base.robot.links[k].parent
    return found


def _other_geometries(robot: Robot, links: set[int]) -> Iterator[tuple[str, Robot]]:
    """Yield robots with one angle or length of a table's row changed."""
    for k in sorted(links):
        link = robot.links[k]
        if link.mdh is None or link.kind == "floating":
            continue
        for letter in ("alpha", "d", "r") if link.kind == "revolute" else ("alpha", "d", "theta"):
            if k == min(links) and link.parent < 0 and letter != "alpha":
                continue  # where the base stands
            angle = letter in ("alpha", "theta")
            step = f"{math.degrees(TURN):.0f} degrees" if angle else f"{SHIFT} m"
            yield f"{letter} of joint {link.joint} changed by {step}", _with_step(robot, k, link, letter, angle)


def _with_step(robot: Robot, k: int, link: Link, letter: str, angle: bool) -> Robot:
    """The robot with one entry of a row changed."""
    assert link.mdh is not None
    value = getattr(link.mdh, letter).value + (TURN if angle else SHIFT)
    row = replace(link.mdh, **{letter: Expression(round(value, 9))})
    changed = replace(link, mdh=row, placement=mdh_transform(row))
    return replace(robot, links=(*robot.links[:k], changed, *robot.links[k + 1 :]), warnings=())
