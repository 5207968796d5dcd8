"""Mistakes in recordings against the tool's answer: `python -m campaign.mistakes`; exit 1 if too many are wrong.

Public recordings (where they are here) and simulated arms, each with single and double mistakes of wiring, units,
mounting and model. A mistake is *visible* where the refit's held-out error is at least 1.05 times that of the right
data or where another physical sign is violated. An answer is right where applying its options to the wrong data gives
an error within 2 % of that of the right data, whatever its words: several remedies may be equivalent. They are applied
here, by their definition, with nothing of dynid but `identify`. Where the error is not restored, or the verdict still
names something, what was proposed is done and the tool asked again, as a user would, up to three times; the summary
says how many answers were right at once. On untouched data, too, what is proposed (other friction) is done.

    from campaign.mistakes import cases
    for case in cases(["panda", "scara"], ["sign_tau"], seeds=[0, 1]):
        result = dynid.identify(case.robot_wrong, case.wrong, **case.options_wrong)
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt

import dynid
from campaign.arms import ARMS, given_robot, simulated_logs
from campaign.spread import run_tasks
from dynid import Log, Motion, Robot
from dynid.estimation import estimate
from dynid.estimation.diagnostics.hypotheses import find_mistakes
from dynid.estimation.identification import diagnose
from dynid.messages import Option
from dynid.robot.inertia import Body, from_body
from dynid.robot.transform import Array

DATA = Path(os.environ.get("DYNID_DATA", Path(__file__).parents[2] / "shared" / "data"))
PLAIN = ("viscous", "coulomb", "offset")
STOPS = ("viscous", "stop1e-4", "stop1e-3", "stop1e-2", "offset")
VISIBLE, RESTORED = 1.05, 1.02
ROUNDS = 3
"""Answers that are followed, one after the other."""

FAMILY = {
    "sign": ("sign",), "order": ("swap", "order"), "gravity": ("gravity",), "zero": ("zero",), "gear": ("motor",),
    "units": ("degrees", "motor"), "gain": ("gain", "motor"), "delay": ("delay",), "columns": ("delay_v",),
    "rotor_inertia": ("rotor",), "friction": ("spring",), "payload": ("payload",),
}  # fmt: skip
"""Kinds of mistakes (their beginnings) that an option repairs."""
SIGNS = ("negative_inertia", "impossible_parameters", "torques_reversed")
"""Codes of reasons that nature is violated."""
GEARS = (50.0, 80.0, 100.0, 101.0, 120.0, 160.0)


# Robots and their right recordings.


@dataclass(frozen=True)
class System:
    """A robot with its right logs: two, so that one can carry a payload (kg) that nobody declared."""

    name: str
    robot: Robot
    logs: tuple[Log, ...]
    rotor_inertia: bool
    cutoff: float
    payload: float

    @property
    def has_velocity(self) -> bool:
        """Whether velocities were recorded."""
        return all(log.v is not None for log in self.logs)

    @property
    def turning(self) -> list[int]:
        """Numbers of the revolute joints."""
        return [j for j, k in enumerate(self.robot.active_links) if self.robot.links[k].kind == "revolute"]

    @property
    def options(self) -> dict[str, Any]:
        """What a user who does everything right asks `identify` for.

        The Panda's time steps vary so much that no cut-off is found from a half of its recording.
        """
        options: dict[str, Any] = {} if self.rotor_inertia else {"rotor_inertia": False}
        return options | ({"cutoff": self.cutoff} if self.name == "panda" else {})


RECORDINGS = ("panda", "lwr4", "kr300", "ur10")
_FOLDERS = {"panda": "panda_gaz2019", "lwr4": "kuka_lwr4_flobaroid", "kr300": "kr300_weigand", "ur10": "ur10_unisa"}
_FACTS = {
    "panda": (False, 10.0, 2.0),
    "lwr4": (False, 8.0, 3.0),
    "kr300": (True, 10.0, 80.0),
    "ur10": (True, 10.0, 5.0),
}


def systems() -> list[str]:
    """Names of all robots whose recordings can be had."""
    return [*(name for name in RECORDINGS if (DATA / _FOLDERS[name]).exists()), *ARMS]


@cache
def system(name: str) -> System:
    """Open or simulate the right logs of a robot."""
    if name in ARMS:
        logs = simulated_logs(name)
        return System(name, given_robot(name), logs, True, 10.0, 0.12 * ARMS[name].mass)
    robot, folder = dynid.load_robot(name), DATA / _FOLDERS[name]
    if name == "kr300":
        logs = tuple(_copy(dynid.read_log(folder / f"log_{x}.csv.gz", robot), v=None) for x in "AB")
    elif name == "lwr4":
        whole = (dynid.read_log(folder / f"log_{x}.csv.gz", robot).between(2.5, -2.5) for x in "13")
        logs = tuple(_copy(log, v=None) for log in whole)
    else:
        log = dynid.read_log(folder / ("log.csv.gz" if name == "panda" else "ur10_exciting_trajectory.db3"), robot)
        logs = (_copy(log.part(0.0, 0.5)), _copy(log.part(0.5)))
    return System(name, robot, logs, *_FACTS[name])


def _copy(log: Log, **changes: Array | None) -> Log:
    """Return the log with other channels, all in memory and without what was before."""
    channels = {"t": log.t, "q": log.q, "v": log.v, "tau": log.tau} | changes
    t, q = channels.pop("t"), channels.pop("q")
    assert t is not None
    assert q is not None
    return Log(t, q, **channels, name=log.name)


# Mistakes.


@dataclass(frozen=True)
class Setting:
    """What a user brings: a robot, logs, options of `identify`."""

    robot: Robot
    logs: tuple[Log, ...]
    options: dict[str, Any]

    def map(self, **changes: Callable[[Array], Array]) -> Setting:
        """Change channels of all logs."""
        logs = tuple(
            _copy(log, **{key: None if (x := getattr(log, key)) is None else f(x) for key, f in changes.items()})
            for log in self.logs
        )
        return replace(self, logs=logs)


@dataclass(frozen=True)
class Mistake:
    """One mistake: its kind, words, how it is made, and the options that undo it.

    rank: mistakes are made in this order, the reverse of that in which `read_log` corrects them (columns taken in
    order, units, signs, gains, gears, zeros), so that all remedies speak of the robot's joints. group: of those that
    exclude one another.
    """

    kind: str
    what: str
    make: Callable[[Setting], Setting]
    remedy: tuple[Option, ...]
    rank: int = 9
    group: str = ""
    payload: int | None = None


Draw = Callable[[System, np.random.Generator], Mistake | None]
_ZERO, _GEAR, _SIGN, _UNITS, _ORDER = range(5)


def _names(at: System) -> tuple[str, ...]:
    return at.robot.joint_names


def _joint(at: System, rng: np.random.Generator, among: Sequence[int] | None = None) -> int:
    return int(rng.choice(list(range(at.robot.n)) if among is None else list(among)))


def _scaled(j: int | slice, factor: float) -> Callable[[Array], Array]:
    def scale(x: Array) -> Array:
        x = x.copy()
        x[:, j] *= factor
        return x

    return scale


def _sign(channels: str) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake:
        j = _joint(at, rng)
        flip = _scaled(j, -1.0)
        keys = [key for c in channels.split() for key in (("q", "v") if c == "q" else (c,))]
        names = tuple(f"{c}.{_names(at)[j]}" for c in channels.split())
        kind = "sign_both" if len(names) > 1 else f"sign_{channels}"
        make = lambda s: s.map(**dict.fromkeys(keys, flip))  # noqa: E731
        return Mistake(kind, f"sign of {' and '.join(names)}", make, (Option("sign", names),), _SIGN)

    return draw


def _all_torques(at: System, rng: np.random.Generator) -> Mistake:
    names = tuple(f"tau.{name}" for name in _names(at))
    return Mistake(
        "sign_tau_all", "sign of all torques", lambda s: s.map(tau=np.negative), (Option("sign", names),), _SIGN
    )


def _exchanged(channels: str) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake:
        i, j = sorted(int(x) for x in rng.choice(at.robot.n, 2, replace=False))
        order = np.arange(at.robot.n)
        order[[i, j]] = j, i
        what = {"q": "positions", "tau": "torques", "q tau": "columns"}[channels]
        kind = {"q": "swap_q", "tau": "swap_tau", "q tau": "swap_both"}[channels]
        return _permuted(at, kind, f"{what} of {_names(at)[i]} and {_names(at)[j]} exchanged", channels, order)

    return draw


def _reversed_order(at: System, rng: np.random.Generator) -> Mistake:
    return _permuted(at, "order_reversed", "columns in reverse order", "q tau", np.arange(at.robot.n)[::-1])


def _permuted(at: System, kind: str, what: str, channels: str, order: NDArray[np.int64]) -> Mistake:
    """File's column k is that of joint order[k]."""
    keys = [key for c in channels.split() for key in (("q", "v") if c == "q" else (c,))]
    names = [_names(at)[k] for k in order]
    value = names if len(channels.split()) > 1 else {channels: names}
    make = lambda s: s.map(**dict.fromkeys(keys, lambda x: x[:, order]))  # noqa: E731
    return Mistake(kind, what, make, (Option("order", value),), _ORDER, "order")


def _gravity(kind: str) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake:
        g = np.array(at.robot.gravity)
        size, up = np.linalg.norm(g), g / np.linalg.norm(g)
        axis = np.cross(up, rng.standard_normal(3))
        axis /= np.linalg.norm(axis)
        if kind == "gravity_sideways":
            side = np.eye(3)[np.argmin(np.abs(up) + 0.1 * rng.random(3))]
            wrong = size * side * rng.choice([-1.0, 1.0])
            what = "gravity sideways"
        elif kind == "gravity_inverted":
            wrong, what = -g, "gravity upside down"
        else:
            angle = math.radians(rng.uniform(15.0, 40.0))
            wrong = g * math.cos(angle) + np.cross(axis, g) * math.sin(angle)
            what = f"gravity tilted by {math.degrees(angle):.0f} deg"
        make = lambda s: replace(s, robot=replace(s.robot, gravity=wrong))  # noqa: E731
        return Mistake(kind, what, make, (Option("gravity", [float(x) for x in g]),), group="gravity")

    return draw


def _zero(kind: str) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake | None:
        j = _joint(at, rng, at.turning)
        angle = {
            "zero_90": float(rng.choice([-90.0, 90.0])), "zero_180": 180.0,
            "zero_any": float(rng.uniform(10.0, 60.0) * rng.choice([-1.0, 1.0])),
        }[kind]  # fmt: skip
        name, value = _names(at)[j], math.radians(angle)

        def shift(q: Array) -> Array:
            q = q.copy()
            q[:, j] += value
            return q

        return Mistake(
            kind, f"zero of {name} off by {angle:.0f} deg", lambda s: s.map(q=shift), (Option("zero", {name: -value}),),
            _ZERO, f"zero {j}",
        )  # fmt: skip

    return draw


def _degrees(single: bool) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake:
        joints = [_joint(at, rng, at.turning)] if single else at.turning
        factors = np.ones(at.robot.n)
        factors[joints] = 180.0 / math.pi
        units = {
            "q": ["deg" if j in joints else "rad" if j in at.turning else "m" for j in range(at.robot.n)],
            "v": ["deg/s" if j in joints else "rad/s" if j in at.turning else "m/s" for j in range(at.robot.n)],
        }
        if not at.has_velocity:
            del units["v"]
        scale = lambda x: x * factors  # noqa: E731
        what = f"degrees for radians in {_names(at)[joints[0]] if single else 'all joints'}"
        return Mistake(
            "degrees_one" if single else "degrees_all", what, lambda s: s.map(q=scale, v=scale),
            (Option("units", units),), _UNITS, "scale",
        )  # fmt: skip

    return draw


def _gain(single: bool) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake:
        j = _joint(at, rng)
        factor = float(rng.choice([2.0, 0.5, 10.0, 0.01])) if single else float(rng.choice([0.1, 0.5, 2.0, 10.0]))
        gains = np.ones(at.robot.n)
        gains[j if single else slice(None)] = 1.0 / factor
        what = f"{'torque of ' + _names(at)[j] if single else 'all torques'} times {factor:g}"
        return Mistake(
            "gain_one" if single else "gain_all", what, lambda s: s.map(tau=lambda x: x / gains),
            (Option("gain", gains.tolist() if single else 1.0 / factor),), _GEAR, f"gain {j}",
        )  # fmt: skip

    return draw


def _motor_side(kind: str) -> Draw:
    def draw(at: System, rng: np.random.Generator) -> Mistake:
        j = _joint(at, rng)
        every = kind == "motor_side_all"
        gear = np.ones(at.robot.n)
        gear[slice(None) if every else slice(j, j + 1)] = rng.choice(GEARS, at.robot.n if every else 1)
        options = [Option("gear", gear.tolist())]
        changes: dict[str, Callable[[Array], Array]] = dict.fromkeys(("q", "v"), lambda x: x * gear)
        if kind == "motor_positions":
            options.append(Option("gain", (1.0 / gear).tolist()))
        else:
            changes["tau"] = lambda x: x / gear
        what = f"{'positions' if kind == 'motor_positions' else 'signals'} of the motor for {_names(at)[j]}"
        what = "signals of the motors for all joints" if every else f"{what} (gear {gear[j]:.0f})"
        return Mistake(kind, what, lambda s: s.map(**changes), tuple(options), _GEAR, "scale")

    return draw


def _delayed(log: Log, key: str, seconds: float) -> Log:
    """Return the log with a channel that comes later."""
    x = getattr(log, key)
    assert x is not None
    t, places = np.unique(log.t, return_index=True)
    late = CubicSpline(t, x[places])(np.clip(log.t - seconds, t[0], t[-1]))
    return _copy(log, **{key: late})


def _late_torques(at: System, rng: np.random.Generator) -> Mistake:
    seconds = float(rng.choice([0.005, 0.02, 0.05]))
    make = lambda s: replace(s, logs=tuple(_delayed(log, "tau", seconds) for log in s.logs))  # noqa: E731
    what = f"torques {1e3 * seconds:.0f} ms late"
    return Mistake("delay_tau", what, make, (Option("delay", seconds),), group="delay")


def _late_velocities(at: System, rng: np.random.Generator) -> Mistake | None:
    if not at.has_velocity:
        return None
    seconds = float(rng.choice([0.01, 0.02, 0.05]))
    make = lambda s: replace(s, logs=tuple(_delayed(log, "v", seconds) for log in s.logs))  # noqa: E731
    what = f"velocities {1e3 * seconds:.0f} ms late"
    return Mistake("delay_v", what, make, (Option("columns", {"v": None}),), group="delay v")


def _rotor_inertia(at: System, rng: np.random.Generator) -> Mistake:
    """Rotors that are there left out, or asked for where torques are measured behind the gear."""
    make = lambda s: replace(s, options=s.options | {"rotor_inertia": not at.rotor_inertia})  # noqa: E731
    what = "rotor inertias left out" if at.rotor_inertia else "rotor inertias that the torques do not feel"
    return Mistake("rotor_inertia", what, make, (Option("rotor_inertia", at.rotor_inertia),))


def _spring(at: System, rng: np.random.Generator) -> Mistake:
    j = _joint(at, rng)
    q, tau = (np.concatenate([getattr(log, key)[:, j] for log in at.logs]) for key in ("q", "tau"))
    stiffness = rng.uniform(0.3, 0.8) * tau.std() / q.std()
    make = lambda s: replace(s, logs=tuple(_with_spring(log, j, stiffness, q.mean()) for log in s.logs))  # noqa: E731
    what = f"a spring of {stiffness:.2g} N m/rad at {_names(at)[j]}"
    return Mistake("spring", what, make, (Option("friction", (*STOPS, "spring")),), -1, "spring")


def _with_spring(log: Log, j: int, stiffness: float, centre: float) -> Log:
    assert log.tau is not None
    tau = log.tau.copy()
    tau[:, j] += stiffness * (log.q[:, j] - centre)
    return _copy(log, tau=tau)


def _payload(at: System, rng: np.random.Generator) -> Mistake:
    """A body at the last link in the second of two logs."""
    size = 0.03 * at.payload ** (1 / 3)
    centre = np.array([0.02, -0.03, 0.06]) + 0.02 * rng.standard_normal(3)
    body = from_body(Body(at.payload, centre, at.payload * size**2 * np.eye(3)))
    make = lambda s: replace(s, logs=(*s.logs[:1], *(_with_payload(s.robot, x, body, at.cutoff) for x in s.logs[1:])))  # noqa: E731
    what = f"{at.payload:.2g} kg in the second log that nobody declared"
    return Mistake("payload", what, make, (), -1, "payload", payload=1)


def _with_payload(robot: Robot, log: Log, body: Array, cutoff: float) -> Log:
    """Add the torques of a body at the last link along the smoothed motion."""
    t, places = np.unique(log.t, return_index=True)
    rate = 1.0 / float(np.median(np.diff(t)))
    grid = t[0] + np.arange(round((t[-1] - t[0]) * rate) + 1) / rate
    sos = butter(4, cutoff / (0.5 * rate), output="sos")
    q = np.column_stack([np.interp(grid, t, column) for column in log.q[places].T])
    q = sosfiltfilt(sos, q, axis=0)
    v = np.gradient(q, 1.0 / rate, axis=0)
    a = np.gradient(v, 1.0 / rate, axis=0)
    X = np.zeros(len(robot.parameter_names))
    last = robot.links[robot.active_links[-1]].label
    at = robot.parameter_names.index(f"XX{last}")
    X[at : at + 10] = body
    more = (dynid.regressor(robot, Motion(grid, q, v, a)).matrix @ X).reshape(len(grid), -1)
    assert log.tau is not None
    return _copy(log, tau=log.tau + np.column_stack([np.interp(log.t, grid, column) for column in more.T]))


MISTAKES: dict[str, Draw] = {
    "sign_tau": _sign("tau"),
    "sign_q": _sign("q"),
    "sign_both": _sign("q tau"),
    "sign_tau_all": _all_torques,
    "swap_tau": _exchanged("tau"),
    "swap_q": _exchanged("q"),
    "swap_both": _exchanged("q tau"),
    "order_reversed": _reversed_order,
    "gravity_inverted": _gravity("gravity_inverted"),
    "gravity_sideways": _gravity("gravity_sideways"),
    "gravity_tilted": _gravity("gravity_tilted"),
    "zero_90": _zero("zero_90"),
    "zero_180": _zero("zero_180"),
    "zero_any": _zero("zero_any"),
    "degrees_all": _degrees(single=False),
    "degrees_one": _degrees(single=True),
    "gain_one": _gain(single=True),
    "gain_all": _gain(single=False),
    "motor_side_one": _motor_side("motor_side_one"),
    "motor_side_all": _motor_side("motor_side_all"),
    "motor_positions": _motor_side("motor_positions"),
    "delay_tau": _late_torques,
    "delay_v": _late_velocities,
    "rotor_inertia": _rotor_inertia,
    "spring": _spring,
    "payload": _payload,
}  # fmt: skip
UNSEEN = ("gain_all",)
"""What torques cannot see, whatever the robot."""
UNTOUCHED, UNKNOWN = "untouched", "cannot apply"
DOUBLES = 30


# Cases.


@dataclass(frozen=True)
class Case:
    """Right and wrong data of one robot, and what turns one into the other.

    kind: of the mistake, two joined by "+", or "untouched"; remedy: options that undo it, applied as `apply_options`
    does; mistakes: what was made; options: of `identify`, for the right data and the wrong ones.
    """

    name: str
    kind: str
    system: System
    mistakes: tuple[Mistake, ...]
    right: tuple[Log, ...]
    wrong: tuple[Log, ...]
    robot: Robot
    robot_wrong: Robot
    options: dict[str, Any]
    options_wrong: dict[str, Any]

    @property
    def what(self) -> str:
        """The mistakes in words."""
        return "; ".join(mistake.what for mistake in self.mistakes)

    @property
    def remedy(self) -> tuple[Option, ...]:
        """Options that undo the mistakes, the last first."""
        return tuple(option for mistake in reversed(self.mistakes) for option in mistake.remedy)


def make_case(name: str, kind: str, seed: int = 0, *, friction: str | tuple[str, ...] | None = None) -> Case | None:
    """One case by names alone; None where the robot cannot have this mistake.

    kind "double 7": the seventh pair. friction: by default the plain model, the recipe for every third case.
    """
    at = system(name)
    rng = np.random.default_rng([seed, *name.encode(), *kind.encode()])
    if kind.startswith("double"):
        mistakes = _draw_pair(at, rng)
    else:
        drawn = [MISTAKES[kind](at, rng)] if kind != UNTOUCHED else []
        mistakes = [mistake for mistake in drawn if mistake is not None]
        if len(mistakes) < len(drawn):
            return None
    if friction is None:
        friction = "auto" if rng.random() < 1 / 3 else PLAIN
    return _with_mistakes(f"{name}/{kind}/{seed}", at, mistakes, at.options | {"friction": friction})


def _with_mistakes(name: str, at: System, mistakes: Sequence[Mistake], options: dict[str, Any]) -> Case:
    """The case of a robot with these mistakes."""
    mistakes = sorted(mistakes, key=lambda mistake: mistake.rank)
    wrong = Setting(at.robot, at.logs, options)
    for mistake in mistakes:
        wrong = mistake.make(wrong)
    kind = "+".join(mistake.kind for mistake in mistakes) or UNTOUCHED
    return Case(
        name, kind, at, tuple(mistakes), at.logs, wrong.logs, at.robot, wrong.robot, options, wrong.options,
    )  # fmt: skip


def _draw_pair(at: System, rng: np.random.Generator) -> list[Mistake]:
    """Two mistakes that can be made together and that do not undo one another."""
    kinds = [kind for kind in MISTAKES if kind not in UNSEEN]
    while True:
        first, second = (MISTAKES[str(rng.choice(kinds))](at, rng) for _ in range(2))
        if first is None or second is None or first.what == second.what:
            continue
        if (first.group and first.group == second.group) or first.kind == second.kind == "rotor_inertia":
            continue
        if {first.kind, second.kind} <= {"sign_tau", "sign_both", "sign_q", "sign_tau_all"} and _same(first, second):
            continue
        return [first, second]


def _same(first: Mistake, second: Mistake) -> bool:
    """Whether two mistakes of signs concern the same channel."""
    one, other = (set(mistake.remedy[0].value) for mistake in (first, second))
    return bool(one & other)


def kinds_of(mistakes: Iterable[str] | None, doubles: int = DOUBLES) -> list[str]:
    """All kinds of cases by name, or those asked for: "double" stands for all pairs."""
    pairs = [f"double {k}" for k in range(doubles)]
    if mistakes is None:
        return [UNTOUCHED, *MISTAKES, *pairs]
    return [kind for name in mistakes for kind in (pairs if name == "double" else [name])]


def cases(
    robots: Iterable[str] | None = None,
    mistakes: Iterable[str] | None = None,
    seeds: Iterable[int] = (0,),
    *,
    friction: str | tuple[str, ...] | None = None,
) -> Iterator[Case]:
    """All cases of some robots and kinds of mistakes ("untouched", "double" and "double 7" among them)."""
    kinds = kinds_of(mistakes)
    for seed in seeds:
        for name in systems() if robots is None else robots:
            for kind in kinds:
                case = make_case(name, kind, seed, friction=friction)
                if case is not None:
                    yield case


# Options applied to data, by their definition.


def apply_options(setting: Setting, options: Iterable[Option]) -> Setting:
    """What a user gets who gives these options: of the log (as `read_log` has it), robot, identify.

    Raises KeyError for an option that is not known here.
    """
    given: dict[str, list[Any]] = {}
    for option in options:
        given.setdefault(option.keyword, []).append(option.value)
    for keyword in ("order", "units", "sign", "gain", "gear", "zero"):
        for value in given.pop(keyword, []):
            setting = _APPLY[keyword](setting, value)
    for keyword, values in given.items():
        for value in values:
            if keyword == "gravity":
                setting = replace(setting, robot=replace(setting.robot, gravity=np.array(value, dtype=float)))
            elif keyword == "columns" and isinstance(value, Mapping):
                gone = [key for key, column in value.items() if column is None]
                logs = tuple(_copy(log, **dict.fromkeys(gone)) for log in setting.logs)
                setting = replace(setting, logs=logs)
            elif keyword in inspect.signature(dynid.identify).parameters:
                setting = replace(setting, options=setting.options | {keyword: value})
            else:
                raise KeyError(keyword)
    return setting


def _apply_units(setting: Setting, value: Mapping[str, Any]) -> Setting:
    known = {"deg": math.pi / 180, "deg/s": math.pi / 180, "rpm": math.pi / 30, "mm": 1e-3, "mm/s": 1e-3, "mNm": 1e-3}
    changes: dict[str, Callable[[Array], Array]] = {}
    for channel, units in value.items():
        key, _, joint = channel.partition(".")
        factors = np.ones(setting.robot.n)
        if joint:
            factors[setting.robot.joint_names.index(joint)] = known.get(units, 1.0)
        elif isinstance(units, Mapping):
            for name, unit in units.items():
                factors[setting.robot.joint_names.index(name)] = known.get(unit, 1.0)
        elif isinstance(units, str):
            turns = [setting.robot.links[k].kind == "revolute" for k in setting.robot.active_links]
            angular = units.startswith(("deg", "rpm"))
            factors = np.where(turns if angular else np.ones(len(turns), bool), known.get(units, 1.0), 1.0)
        else:
            factors = np.array([known.get(unit, 1.0) for unit in units])
        before = changes.get(key, lambda x: x)
        changes[key] = lambda x, factors=factors, before=before: before(x) * factors  # type: ignore[misc]
    return setting.map(**changes)


def _apply_order(setting: Setting, value: Any) -> Setting:
    names = setting.robot.joint_names
    wanted = value if isinstance(value, Mapping) else {"": value}
    for channel, order in wanted.items():
        order = order.split(",") if isinstance(order, str) else order
        places = np.argsort([names.index(name) for name in order])
        keys = {"": ("q", "v", "tau"), "q": ("q", "v")}.get(channel, (channel,))
        setting = setting.map(**dict.fromkeys(keys, lambda x, places=places: x[:, places]))
    return setting


def _apply_sign(setting: Setting, value: Any) -> Setting:
    for name in [value] if isinstance(value, str) else value:
        channel, _, joint = name.partition(".")
        flip = _scaled(setting.robot.joint_names.index(joint), -1.0)
        setting = setting.map(**dict.fromkeys(("q", "v") if channel == "q" else (channel,), flip))
    return setting


def _apply_zero(setting: Setting, value: Mapping[str, float]) -> Setting:
    shift = np.zeros(setting.robot.n)
    for name, angle in value.items():
        shift[setting.robot.joint_names.index(name)] = angle
    return setting.map(q=lambda x: x + shift)


def _apply_gear(setting: Setting, value: Any) -> Setting:
    gear = np.asarray(value, dtype=float)
    return setting.map(q=lambda x: x / gear, v=lambda x: x / gear, tau=lambda x: x * gear)


def _apply_gain(setting: Setting, value: Any) -> Setting:
    gain = np.asarray(value, dtype=float)
    return setting.map(tau=lambda x: x * gain)


_APPLY: dict[str, Callable[[Setting, Any], Setting]] = {
    "units": _apply_units, "gain": _apply_gain, "gear": _apply_gear, "order": _apply_order, "sign": _apply_sign,
    "zero": _apply_zero,
}  # fmt: skip


# Judgement.


@dataclass(frozen=True)
class Fitted:
    """What a fit says: held-out error, spread of the torques, signs of nature that are violated, level.

    is_doubted: its verdict names a mistake, or something to try in place of it.
    """

    error: float
    rmse: Array
    spread: Array
    signs: frozenset[str]
    level: str
    is_doubted: bool


def fit(robot: Robot, logs: tuple[Log, ...], options: Mapping[str, Any], cutoff: float | None) -> Fitted:
    """Identify and look at the held-out error; an error of 9 where identification refuses."""
    none = np.full(robot.n, np.nan)
    try:
        result = dynid.identify(robot, logs, **({"cutoff": cutoff} | dict(options)))
    except dynid.DynidError as refusal:
        return Fitted(9.0, none, none, frozenset({f"refused: {refusal}"}), "refused", True)
    held, verdict = result.validation, result.verdict
    error = held.mean if math.isfinite(held.mean) else 9.0
    is_doubted = verdict.next_step.code in ("mistake_found", "alternative_tried")
    return Fitted(error, held.rmse, held.rmse / held.nrmse, _violated(result), verdict.level, is_doubted)


def _violated(result: dynid.Identification) -> frozenset[str]:
    """Physical signs that are violated: codes with joints or parameters."""
    reasons = (reason for reason in result.verdict.reasons if reason.code in SIGNS)
    return frozenset(
        f"{reason.code} {name}"
        for reason in reasons
        for name in (reason.facts.get("joints") or reason.facts.get("parameters") or [""])
    )


_right: dict[tuple[str, str], Fitted] = {}


def right_fit(case: Case, *, has_velocity: bool = True, **more: Any) -> Fitted:
    """The fit of the right data, made once per robot, channels and friction."""
    options = case.options | more
    key = case.system.name, str((has_velocity, options))
    if key not in _right:
        logs = case.right if has_velocity else tuple(_copy(log, v=None) for log in case.right)
        _right[key] = fit(case.robot, logs, options, case.system.cutoff)
    return _right[key]


@dataclass(frozen=True)
class Answer:
    """What the tool names: the options that apply it (None: nothing), whether a payload is in it, and its words.

    Options of further answers, after those before were followed, are in `then`. fast: what the part that every
    identification runs names; level: of the verdict; seconds: CPU of the identification without that part, of that
    part, and of `diagnose`.
    """

    options: tuple[Option, ...] | None = None
    payload: bool = False
    what: str = ""
    fast: str = ""
    level: str = ""
    seconds: tuple[float, ...] = ()
    refusal: str = ""
    then: tuple[tuple[Option, ...], ...] = ()

    @property
    def rounds(self) -> tuple[tuple[Option, ...], ...]:
        """Options of all answers, one after the other."""
        return () if self.options is None else (self.options, *self.then)

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Options of all answers together."""
        return tuple(option for options in self.rounds for option in options)

    @property
    def is_friction_alone(self) -> bool:
        """Whether nothing is named but other friction, which is no mistake in a recording."""
        return not self.payload and not self.mistakes

    @property
    def mistakes(self) -> tuple[Option, ...]:
        """Options that repair mistakes: all but other friction."""
        return tuple(x for x in self.all_options if x.keyword != "friction" or "spring" in x.value)

    def followed_by(self, next_answer: Answer) -> Answer:
        """Both answers as one."""
        more = next_answer.rounds
        what = "; then ".join(x for x in (self.what, next_answer.what) if x)
        return replace(self, then=(*self.then, *more), what=what, payload=self.payload or next_answer.payload)


def no_answer(case: Case, before: Answer | None = None) -> Answer:
    """Leave the question open: visibility alone."""
    return Answer()


def true_answer(case: Case, before: Answer | None = None) -> Answer:
    """The true remedy: a check of the campaign itself."""
    payload = any(mistake.kind == "payload" for mistake in case.mistakes)
    return Answer() if case.kind == UNTOUCHED or before is not None else Answer(case.remedy, payload, case.what)


def tool_answer(case: Case, before: Answer | None = None) -> Answer:
    """Identify and ask dynid what is wrong, with the answers before followed."""
    own: list[float] = []
    start = time.process_time()
    try:
        setting = _wrong_setting(case) if before is None else _followed(case, before)
        with patch.object(estimate, "find_mistakes", _timed(own)):
            result = dynid.identify(setting.robot, setting.logs, **setting.options)
        middle = time.process_time()
        found = diagnose(result)
    except dynid.DynidError as refusal:
        return _refused(case, refusal) if before is None else Answer(level="refused", refusal=str(refusal))
    seconds = middle - start - sum(own), sum(own), time.process_time() - middle
    quick, best = result.diagnostics.diagnosis, found.best
    fast = "" if quick is None or quick.best is None else f"{quick.best.what.what}: {_text(quick.best.options)}"
    nothing = Answer(fast=fast, level=result.verdict.level, seconds=seconds)
    if best is not None:
        has_payload = "payload" in best.what.facts["kinds"]
        return replace(nothing, options=best.options, payload=has_payload, what=best.what.what)
    step = result.verdict.next_step
    proposed = tuple(step.facts.get("options", ()))
    if step.code == "alternative_tried" or [option.keyword for option in proposed] == ["friction"]:
        return replace(nothing, options=proposed, what=str(step.facts["why"]))
    return nothing


REFUSALS = {"positions_look_like_degrees": ("degrees", "motor"), "positions_beyond_limits": ("motor",)}
"""Codes of errors that name a mistake, and beginnings of its kind."""


def _refused(case: Case, refusal: dynid.DynidError) -> Answer:
    """What a user does who is refused with the remedy: that, and asks again; nothing where the remedy is another."""
    family = REFUSALS.get(refusal.code, ())
    named = [mistake for mistake in case.mistakes if mistake.kind.startswith(family)]
    if not named:
        return Answer(level="refused", refusal=str(refusal))
    rest = [mistake for mistake in case.mistakes if mistake not in named]
    again = (
        tool_answer(_with_mistakes(case.name, case.system, rest, case.options)) if rest else Answer((), level="refused")
    )
    options = (*(again.options or ()), *(option for mistake in named for option in mistake.remedy))
    return replace(again, options=options, refusal=f"refused: {refusal.code}")


def _text(options: Iterable[Option]) -> str:
    return " ".join(option.render("command line") for option in options)


@dataclass
class Outcome:
    """A case with its answer: all that the table and the file of cases need."""

    case: str
    robot: str
    kind: str
    what: str
    friction: str
    right: float
    wrong: float
    ratio: float
    signs: list[str]
    visible: bool
    level: str
    remedy: list[str]
    outcome: str = ""
    answer: list[str] = field(default_factory=list)
    words: str = ""
    fast: str = ""
    after: float = math.nan
    excess: int = 0
    seconds: tuple[float, ...] = ()
    note: str = ""
    rounds: int = 1


def judge(case: Case, ask: Callable[..., Answer] = tool_answer) -> Outcome:
    """Whether a mistake is visible, and what the answer is worth."""
    right = right_fit(case)
    cutoff = case.system.cutoff
    untouched = case.kind == UNTOUCHED
    wrong = right if untouched else fit(case.robot_wrong, case.wrong, case.options_wrong, cutoff)
    signs = sorted(wrong.signs - right.signs)
    outcome = Outcome(
        case.name, case.system.name, case.kind, case.what, str(case.options["friction"]), right.error, wrong.error,
        wrong.error / right.error, signs, not untouched and (wrong.error >= VISIBLE * right.error or bool(signs)),
        wrong.level, [str(option) for option in case.remedy],
    )  # fmt: skip
    answer = ask(case)
    outcome.fast, outcome.seconds, outcome.note = answer.fast, answer.seconds, answer.refusal
    restored = _is_restored(case, answer, outcome)
    outcome.level = answer.level or outcome.level
    for _ in range(ROUNDS - 1):  # whoever is not told that all is well does what is proposed, and asks again
        is_known = not outcome.note.startswith(UNKNOWN)
        if answer.options is None or restored is True or not is_known or (untouched and not answer.is_friction_alone):
            break
        again = ask(case, answer)
        if again.level == "good" and restored is None and outcome.after >= VISIBLE:
            outcome.level = "good"
        if again.options is None:
            break
        answer = answer.followed_by(again)
        outcome.rounds += 1
        restored = _is_restored(case, answer, outcome)
    outcome.answer, outcome.words = [str(option) for option in answer.all_options], answer.what
    if answer.is_friction_alone:
        outcome.outcome = "not named" if outcome.visible else UNTOUCHED if untouched else "invisible"
    elif untouched:
        outcome.outcome = "false alarm"
    elif outcome.visible:
        outcome.outcome = "wrong" if restored is None else "right"
        outcome.excess = max(0, _count(answer.mistakes) - _count(case.remedy))
    else:
        families = {FAMILY.get(option.keyword, (option.keyword,)) for option in answer.mistakes}
        families |= {FAMILY["payload"]} if answer.payload else set()
        same = all(any(mistake.kind.startswith(family) for mistake in case.mistakes) for family in families)
        outcome.outcome = "false alarm" if restored is None and not same else "invisible, named"
    return outcome


def _is_restored(case: Case, answer: Answer, outcome: Outcome) -> bool | None:
    """Whether the answer restores the error, and the tool has nothing more to say; None where it does not restore it.

    False where it does, but the tool would still change something.
    """
    if answer.options is None or case.kind == UNTOUCHED:
        return None
    try:
        setting = _followed(case, answer)
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        outcome.note = f"{UNKNOWN} {problem!r}"
        return None
    after = fit(setting.robot, setting.logs, setting.options, case.system.cutoff)
    # Blocks that are asked for are there on both sides: the same options for all. So are velocities: late ones cannot
    # be repaired but left out, and the positions' slopes tell less (the Panda's: 19 % more error on right data).
    asked = {option.keyword: option.value for option in answer.all_options if option.keyword == "friction"}
    has_velocity = not any(mistake.kind == "delay_v" for mistake in case.mistakes)
    has_velocity = has_velocity or all(log.v is not None for log in setting.logs)
    right, error = right_fit(case, has_velocity=has_velocity, **asked), after.error
    if any(mistake.kind == "spring" for mistake in case.mistakes):  # whose torque is in the spread
        error = min(error, float(np.mean(after.rmse / right.spread)))
    outcome.after = error / right.error
    if outcome.after > RESTORED or after.signs & set(outcome.signs):
        return None
    return not after.is_doubted and not answer.is_friction_alone


def _wrong_setting(case: Case) -> Setting:
    """What the user brings who made the mistakes."""
    return Setting(case.robot_wrong, case.wrong, case.options_wrong)


def _followed(case: Case, answer: Answer) -> Setting:
    """The wrong data with the options of all answers; a payload that is named is taken off."""
    setting = _wrong_setting(case)
    if answer.payload:
        setting = Setting(case.robot, case.right, case.options)
        for mistake in case.mistakes:
            setting = setting if mistake.kind == "payload" else mistake.make(setting)
    for options in answer.rounds:
        setting = apply_options(setting, options)
    return setting


def _count(options: Sequence[Option]) -> int:
    """Single corrections in options."""
    return sum(
        len(option.value) if option.keyword in ("sign", "zero") and not isinstance(option.value, str) else 1
        for option in options
    )


# What the part costs that every identification runs.


def shares(
    robots: Sequence[str], kinds: Sequence[str], seeds: Sequence[int]
) -> Iterator[tuple[str, str, float, float]]:
    """CPU s of every identification without the fast part, and of that part: whole logs, and 12 s of the first one."""
    for name, kind, seed in ((name, kind, seed) for seed in seeds for name in robots for kind in kinds):
        for friction in (PLAIN, "auto"):
            case = make_case(name, kind, seed, friction=friction)
            if case is None:
                continue
            for length, logs in (("whole", case.wrong), ("short", (_copy(case.wrong[0].between(1.0, 13.0)),))):
                spent = [_spent(case, logs) for _ in range(2)]
                if all(spent):
                    own, fast = (min(x[k] for x in spent if x) for k in range(2))
                    yield f"{case.name} {'plain' if friction is PLAIN else friction} {length}", name, own, fast


def _spent(case: Case, logs: tuple[Log, ...]) -> tuple[float, float] | None:
    """CPU s of an identification without the fast part, and of that part; None where it refuses."""
    own: list[float] = []
    with patch.object(estimate, "find_mistakes", _timed(own)):
        start = time.process_time()
        try:
            dynid.identify(case.robot_wrong, logs, **case.options_wrong)
        except dynid.DynidError:
            return None
    return time.process_time() - start - sum(own), sum(own)


def _timed(spent: list[float]) -> Callable[..., Any]:
    """`find_mistakes` that notes its CPU s."""

    def timed(*given: Any, **keywords: Any) -> Any:
        began = time.process_time()
        found = find_mistakes(*given, **keywords)
        spent.append(time.process_time() - began)
        return found

    return timed


def print_shares(robots: Sequence[str], kinds: Sequence[str], seeds: Sequence[int]) -> int:
    """Print the share of the fast part, by robot and at worst; 1 where it is half of the rest or more."""
    found = list(shares(robots, kinds, seeds))
    for name in robots:
        some = sorted(fast / own for _, robot, own, fast in found if robot == name)
        sys.stdout.write(f"{name:<12}{len(some):>5} median {np.median(some):.2f} worst {some[-1]:.2f}\n")
    worst = sorted(found, key=lambda x: x[3] / x[2])[-10:]
    sys.stdout.writelines(f"{fast / own:.2f} {case}: {own:.3f} + {fast:.3f} s\n" for case, _, own, fast in worst)
    return int(worst[-1][3] >= 0.5 * worst[-1][2])


# The table.

COLUMNS = ("right", "wrong", "not named", "false alarm", "invisible", "invisible, named")


def table(outcomes: Sequence[Outcome], key: Callable[[Outcome], str], title: str) -> str:
    """Count outcomes by kind or robot."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    lines = [f"{title:<18}{'visible':>8}" + "".join(f"{column:>17}" for column in COLUMNS) + f"{'ratio':>18}"]
    for name, group in [*groups.items(), ("all", list(outcomes))]:
        counts = Counter(outcome.outcome for outcome in group)
        ratios = sorted(outcome.ratio for outcome in group)
        lines.append(
            f"{name:<18}{sum(o.visible for o in group):>8}"
            + "".join(f"{counts.get(column, 0):>17}" for column in COLUMNS)
            + f"{ratios[0]:>8.3g} {ratios[len(ratios) // 2]:>8.3g}"
        )
    return "\n".join(lines)


def answer_table(outcomes: Sequence[Outcome]) -> str:
    """Mistake against answer: how often each kind of option was in the answer to each kind of single mistake."""
    single = [outcome for outcome in outcomes if "/double" not in outcome.case]
    given = {kind: Counter[str]() for kind in dict.fromkeys(outcome.kind for outcome in single)}
    for outcome in single:
        given[outcome.kind].update({option.partition("=")[0] for option in outcome.answer} or {"nothing"})
    columns = list(dict.fromkeys(option for counts in given.values() for option in counts))
    lines = [f"{'mistake':<18}" + "".join(f"{column:>15}" for column in columns)]
    lines += [f"{kind:<18}" + "".join(f"{counts[x] or '':>15}" for x in columns) for kind, counts in given.items()]
    return "\n".join(lines)


def _is_praised(outcome: Outcome) -> bool:
    """Whether a visible mistake is called good; not what is left, unseen, where a refusal had named the rest."""
    is_left = outcome.outcome == "right" and outcome.note.startswith("refused")
    return outcome.visible and outcome.level == "good" and not is_left


def summary(outcomes: Sequence[Outcome]) -> tuple[str, bool]:
    """The figures that must be shown, and whether they hold."""
    seen = [outcome for outcome in outcomes if outcome.visible]
    right = sum(outcome.outcome == "right" for outcome in seen)
    alarms = sum(outcome.outcome == "false alarm" for outcome in outcomes)
    praised = [outcome.case for outcome in seen if _is_praised(outcome)]
    refused = sum(outcome.note.startswith("refused") for outcome in seen if outcome.outcome == "right")
    longer = sum(outcome.excess > 0 for outcome in seen if outcome.outcome == "right")
    at_once = sum(outcome.rounds == 1 for outcome in seen if outcome.outcome == "right")
    share = right / max(len(seen), 1)
    timed = [outcome.seconds for outcome in outcomes if outcome.seconds]
    own, fast, full = np.sum(timed, axis=0) if timed else (math.nan,) * 3
    words = (
        f"visible {len(seen)} of {len(outcomes)}; right remedy {right} ({100 * share:.1f} %), {at_once} of them at "
        f"once, {refused} by a refusal, {longer} longer than needed; false alarms {alarms}; called good although "
        f"visible {len(praised)} {praised[:8]}; "
        f"the fast part takes {100 * fast / own:.0f} % of an identification, diagnose {full / own:.1f} times as long"
    )
    return words, share >= 0.95 and not alarms and not praised


ANSWERS = {"tool": tool_answer, "truth": true_answer, "none": no_answer}


def _work(task: tuple[str, str, int, str]) -> Outcome | None:
    name, kind, seed, ask = task
    case = make_case(name, kind, seed)
    return None if case is None else judge(case, ANSWERS[ask])


def run(
    robots: Sequence[str], kinds: Sequence[str], seeds: Sequence[int], *, ask: str = "tool", processes: int = 2,
    kept: Path | None = None, scheduler: str | None = None,
) -> list[Outcome]:  # fmt: skip
    """All outcomes, robots by turns; those in the file `kept` (a line of JSON each) are taken from it, others added."""
    for name in robots:
        if name in ARMS:
            simulated_logs(name)
    known = {} if kept is None or not kept.exists() else _outcomes(kept)
    every = [
        (name, kind, seed, ask) for seed in seeds for kind in kinds for name in robots
    ]  # all robots, again and again
    tasks = [task for task in every if "{}/{}/{}".format(*task) not in known]
    found = [known[case] for task in every if (case := "{}/{}/{}".format(*task)) in known]
    for outcome in run_tasks(_work, tasks, processes=processes, scheduler=scheduler):
        if outcome is None:
            continue
        found.append(outcome)
        if kept is not None:
            with kept.open("a") as file:
                file.write(json.dumps(vars(outcome)) + "\n")
        if outcome.outcome in ("wrong", "not named", "false alarm") and ask != "none":
            sys.stdout.write(
                f"{outcome.outcome}: {outcome.case}: {outcome.what} ({outcome.ratio:.3g}); "
                f"answer {' '.join(outcome.answer) or '-'} ({outcome.after:.3g}) {outcome.note}\n"
            )
            sys.stdout.flush()
    return found


def _outcomes(path: Path) -> dict[str, Outcome]:
    """Outcomes of a file, by case."""
    outcomes = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    return {outcome.case: outcome for outcome in outcomes}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m campaign.mistakes", description=__doc__.split("\n")[0])
    parser.add_argument("--robots", help="names, joined by commas; all: " + ",".join([*RECORDINGS, *ARMS]))
    parser.add_argument(
        "--mistakes", help="kinds, joined by commas; untouched, double, 'double 7', " + ",".join(MISTAKES)
    )
    parser.add_argument("--seeds", default="0", help="0,1,2 or 0:5")
    parser.add_argument("--doubles", type=int, default=DOUBLES, help="pairs per robot")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--scheduler", help="address of a Dask scheduler, in place of processes of this machine")
    parser.add_argument(
        "--answer", choices=ANSWERS, default="tool", help="truth: the true remedies, a check of the campaign; none: "
        "what is visible at which ratio",
    )  # fmt: skip
    parser.add_argument("--cost", action="store_true", help="CPU of the fast part over that of the rest, no answers")
    parser.add_argument("--json", type=Path, help="all cases, a line each; those that it holds are not run again")
    parser.add_argument("--table", type=Path, help="file for the tables, and for every case that is not right")
    asked = parser.parse_args(arguments)
    robots = asked.robots.split(",") if asked.robots else systems()
    kinds = kinds_of(asked.mistakes.split(",") if asked.mistakes else None, asked.doubles)
    first, _, last = asked.seeds.partition(":")
    seeds = list(range(int(first), int(last))) if last else [int(seed) for seed in asked.seeds.split(",")]
    if asked.cost:
        return print_shares(robots, kinds, seeds)
    outcomes = run(
        robots, kinds, seeds, ask=asked.answer, processes=asked.processes, kept=asked.json, scheduler=asked.scheduler
    )
    short = lambda outcome: "double" if "/double" in outcome.case else outcome.kind  # noqa: E731
    words, holds = summary(outcomes)
    text = table(outcomes, short, "mistake") + "\n\n" + table(outcomes, lambda o: o.robot, "robot") + "\n\n" + words
    sys.stdout.write(text + "\n")
    if asked.table:
        failed = [o for o in outcomes if o.outcome in ("wrong", "not named", "false alarm") or _is_praised(o)]
        lines = [f"{o.outcome}: {o.case}: {o.what}; answer {' '.join(o.answer) or '-'} ({o.after:.3g})" for o in failed]
        asked.table.write_text("\n".join([text, "", answer_table(outcomes), "", *lines]) + "\n")
    return 0 if holds or asked.answer == "none" else 1


if __name__ == "__main__":
    sys.exit(main())
