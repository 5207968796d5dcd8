"""What the name of a column says: which channel, which joint, which unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dynid.errors import LogError
from dynid.messages import ANYTHING, Option, Wording
from dynid.robot.robot import Robot

# Units of the channels of a log, and their factors to SI.


_TURN = {"rad": 1.0, "deg": math.pi / 180.0, "m": 1.0, "mm": 1e-3, "cm": 1e-2, "mrad": 1e-3, "rev": 2.0 * math.pi}
FACTORS: Mapping[str, Mapping[str, float]] = {
    "t": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "q": _TURN,
    "v": {**{f"{unit}/s": si_factor for unit, si_factor in _TURN.items()}, "rpm": math.pi / 30.0},
    "a": {f"{unit}/s^2": si_factor for unit, si_factor in _TURN.items()},
    "tau": {"Nm": 1.0, "Nmm": 1e-3, "mNm": 1e-3, "kNm": 1e3, "N": 1.0, "kN": 1e3, "A": 1.0, "mA": 1e-3},
    "reaction": {"N": 1.0, "Nm": 1.0},
}
_ANGULAR = ("rad", "deg", "rpm", "mrad", "rev")
_WORDS = {"degrees": "deg", "degree": "deg", "°": "deg", "radians": "rad", "radian": "rad", "µ": "u", "μ": "u"}
_SUFFIX = re.compile(
    r"(?<=[a-z0-9\])])[_\s.\-](?P<unit>(?:rad|deg|mm)(?:(?:_per_|/|_|p)s(?:ec)?(?:\^?2)?)?|rpm|nm|nmm|mnm|knm|ms|us|ns|amps?)"
    r"(?P<tail>[_\s.\[(]*\d*[\])]*)$",
    re.IGNORECASE,
)
_SLASH = re.compile(r"^(?P<name>[^/]*[^/\s])\s*/\s*(?:\((?P<inner>[^()]*)\)|(?P<plain>[^()]*?))\s*$")
_BRACKET = re.compile(r"^(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]*)[\])](?P<tail>[_\s.]*\d*)$")


def _standard_unit_spelling(text: str) -> str:
    """Return a unit in the spelling of FACTORS, as far as it is one."""
    plain = text.strip()
    for word, short in _WORDS.items():
        plain = plain.replace(word, short)
    plain = re.sub(r"[·.*\s]", "", plain).replace("_per_", "/").replace("²", "^2").replace("**", "^")
    plain = re.sub(r"(?<=rad|deg)[_p](?=s)|(?<=mm)[_p](?=s)", "/", plain)
    plain = re.sub(r"/s(ec)?(\^?2|/s)$", "/s^2", plain)
    return re.sub(r"/sec$", "/s", plain)


def find_unit(text: str) -> str | None:
    """Return the unit that a text spells, in any usual way, None where it is none."""
    plain = _standard_unit_spelling(text)
    known = {unit for factors in FACTORS.values() for unit in factors}
    if plain in known:
        return plain
    lower = {unit.lower(): unit for unit in known if unit not in ("N", "A", "mA", "kN")}
    return {
        **lower, "amp": "A", "amps": "A", "sec": "s", "seconds": "s", "1/min": "rpm", "min^-1": "rpm", "u/min": "rpm",
        "rev/min": "rpm", "n-m": "Nm",
    }.get(plain.lower())  # fmt: skip


def split_unit(name: str) -> tuple[str, str | None]:
    """Split a header such as `q1 [deg]`, `tau_2 (Nm)`, `q1/deg` or `pos_deg_1` into name and unit."""
    bracket = _BRACKET.match(name)
    if bracket and not bracket["unit"].strip().isdigit():
        unit = find_unit(bracket["unit"])
        if unit:
            return bracket["name"] + bracket["tail"], unit
    slash = _SLASH.match(name)
    if slash and not {*WORDS, *TIMES}.isdisjoint(split_tokens(slash["name"])):
        unit = find_unit(slash["inner"] or slash["plain"] or "")
        if unit:
            return slash["name"], unit
    suffix = _SUFFIX.search(name)
    if suffix:
        unit = find_unit(suffix["unit"])
        if unit:
            return name[: suffix.start()] + suffix["tail"], unit
    if re.search(r"time.*_s$|^t_s$", name, re.IGNORECASE):
        return name[:-2], "s"
    if re.search(r"\d_A$|current.*_A$", name):
        return name[:-2], "A"
    return name, None


def si_factor(log: str, channel: str, unit: str, column: str | None = None) -> float:
    """Return what a channel in this unit is multiplied with to be in SI."""
    found = find_unit(unit) if isinstance(unit, str) else None
    if found is None or found not in FACTORS[channel]:
        where = "the column '{column}' is in {unit}, which" if column else "{unit!r}"
        raise LogError(
            log, "unknown_unit", where + " is no unit of {channel}", "use {units} with {possible}", column=column,
            unit=unit, channel=channel, units=Option("units", {channel: ANYTHING}), possible=list(FACTORS[channel]),
        )  # fmt: skip
    return FACTORS[channel][found]


def check_units(
    log: str, units: Mapping[str, object] | None, robot: Robot, motor_side: bool
) -> dict[str, tuple[str, ...]]:
    """Return the units per channel and joint that the user gave, checked; an angle is no unit of a sliding joint."""
    asked: dict[str, tuple[str, ...]] = {}
    for channel, value in (units or {}).items():
        if channel not in FACTORS or channel == "reaction":
            raise LogError(
                log, "unknown_channel", "{units} has no channel {channel!r}; the channels are t, q, v, a, tau",
                units=Wording("units", "--units"), channel=channel,
            )  # fmt: skip
        count = 1 if channel == "t" else robot.n
        several = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
        if len(several) != count:
            raise LogError(
                log, "joint_count_mismatch", "units of {channel} are {given}, the robot has {n} joints",
                channel=channel, given=len(several), n=count,
            )  # fmt: skip
        for unit in several:
            si_factor(log, channel, unit)  # type: ignore[arg-type]
        asked[channel] = tuple(find_unit(str(unit)) or "" for unit in several)
        if channel in ("q", "v", "a") and not motor_side:
            _check_units_fit_joints(log, channel, asked[channel], robot)
    return asked


def _check_units_fit_joints(log: str, channel: str, units: tuple[str, ...], robot: Robot) -> None:
    """Raise for angles as units of sliding joints and lengths as units of revolute ones."""
    for unit, link in zip(units, robot.active_links, strict=True):
        angular = unit.startswith(_ANGULAR)
        if angular != (robot.links[link].kind == "revolute") and unit not in ("rad", "rad/s", "rad/s^2"):
            raise LogError(
                log, "unit_unfit_for_joint", "{unit} is no unit of the {kind} joint '{joint}'",
                "give {units}, one per joint", unit=unit, kind=robot.links[link].kind, joint=robot.links[link].joint,
                units=Option("units", {channel: [ANYTHING]}),
            )  # fmt: skip


TIMES = frozenset({"t", "time", "times", "timestamp", "timestamps", "stamp"})
_CHANNELS = {
    "q": ("q", "position", "positions", "pos", "qpos"),
    "v": ("v", "qd", "dq", "velocity", "velocities", "vel", "qdot", "qvel"),
    "a": ("a", "qdd", "ddq", "acceleration", "accelerations", "acc", "qddot", "qacc"),
    "tau": ("tau", "torque", "torques", "effort", "efforts", "current", "currents", "trq"),
}
WORDS = {word: channel for channel, words in _CHANNELS.items() for word in words}
_CLOCKS = frozenset({"sim", "simulation", "elapsed", "system", "relative", "rel"})
"""What may stand before the word for time."""

LABELS = frozenset({"joint", "joints", "axis", "j", "jnt"})
_NOISE = LABELS | set(
    "state states robot arm actuator actuators measured meas actual act applied data field log rec record recording "
    "msg signal signals value values".split()
)
_OTHER = frozenset(
    "target ref reference desired des cmd command commanded command error err setpoint goal plan planned ext external "
    "ff feedforward model est estimated offset min max limit residual temperature predicted pred".split()
)
_MOTOR = frozenset({"motor", "motors", "mot"})
_FORCE = {"f": "f", "force": "f", "m": "m", "moment": "m", "torque": "m", "c": "m"}
_PLATE = frozenset("wrench plate force platform sensor reaction base ft data log rec measured".split())
REACTION = ("fx", "fy", "fz", "mx", "my", "mz")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a name says; `joint` is the place of a joint called by its name, `number` a bare number.

    `words` are the words that belong to neither; `label` tells that the number follows a word like 'joint'.
    """

    field: str
    channel: str
    joint: int | None = None
    number: int | None = None
    words: tuple[str, ...] = ()
    label: bool = False
    unit: str | None = None
    is_current: bool = False


def split_tokens(name: str) -> tuple[str, ...]:
    """Split a name into lower-case words and numbers: `/js/Position/joint1` is js, position, joint, 1."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return tuple(re.findall(r"[^\W\d_]+|\d+", spaced.lower()))


def _position_of_tokens(tokens: tuple[str, ...], part: tuple[str, ...]) -> int:
    """Index at which a sequence of tokens begins in others, -1 where it does not occur."""
    return next((k for k in range(len(tokens) - len(part) + 1) if tokens[k : k + len(part)] == part), -1)


class ColumnNameReader:
    """The reader of names for one robot; on the motor side the word 'motor' belongs to the channels."""

    def __init__(self, robot: Robot, *, motor_side: bool = False) -> None:
        parts: dict[tuple[str, ...], int] = {}
        for place, joint in enumerate(robot.joint_names):
            whole = split_tokens(joint)
            short = tuple(word for word in whole if word not in LABELS)
            if not joint.isdigit():
                parts[whole] = place
                if short and not all(word.isdigit() or len(word) == 1 for word in short):
                    parts.setdefault(short, place)
        self._parts = dict(sorted(parts.items(), key=lambda part: -len(part[0])))
        self._noise = _NOISE | _MOTOR if motor_side else _NOISE
        self._other = _OTHER if motor_side else _OTHER | _MOTOR

    def read_name(self, text: str, field: str | None = None) -> Meaning | None:
        """Return what a name says, None where it names no channel; `field`: the field that it stands for."""
        field = text if field is None else field
        name, unit = split_unit(text)
        lower = name.lower()
        if "joint_states" in lower:
            name = name[lower.rfind("joint_states") + len("joint_states") :]
        tokens = split_tokens(name)
        plate = _read_plate(field, tokens, unit)
        if plate is not None:
            return plate
        words = tuple(word for word in tokens if word not in self._noise and word != "header")
        times = tuple(word for word in words if word in TIMES)
        if times and times in (words[-1:], ("time", "stamp")) and {*words} <= {*times, *_CLOCKS}:
            return Meaning(field, "t", words=tuple(word for word in tokens if word not in times), unit=unit)
        for part, place in self._parts.items():
            start = _position_of_tokens(tokens, part)
            if start >= 0:
                named = self._read_channel_and_joint(field, tokens[:start] + tokens[start + len(part) :], place, unit)
                if named is not None:
                    return named
        return self._read_channel_and_joint(field, tokens, None, unit)

    def _read_channel_and_joint(
        self, field: str, tokens: tuple[str, ...], place: int | None, unit: str | None
    ) -> Meaning | None:
        """Channel and joint from a name's tokens; place: a joint that is named already."""
        tokens, channel, word = _split_off_channel(tokens)
        if not channel or any(token in self._other for token in tokens):
            return None
        numbers = [int(token) for token in tokens if token.isdigit() and len(token) < 6]
        words = tuple(token for token in tokens if not token.isdigit() and token not in self._noise)
        label = any(token in LABELS for token in tokens)
        is_current = word.startswith("current")
        if place is not None:
            return (
                Meaning(field, channel, place, unit=unit, is_current=is_current) if not numbers and not words else None
            )
        if len(numbers) > 1 and not words:
            return None
        number = numbers[-1] if numbers else None
        if len(numbers) > 1:
            words += tuple(str(other) for other in numbers[:-1])
        return Meaning(field, channel, None, number, words, label, unit, is_current)


def _split_off_channel(tokens: tuple[str, ...]) -> tuple[tuple[str, ...], str, str]:
    """Tokens without the word of the channel, the channel, and that word; none for no or several words."""
    pairs = ((("q", "dot"), "v"), (("q", "ddot"), "a"), (("q", "dot", "dot"), "a"), (("qfrc", "actuator"), "tau"))
    for dotted, channel in pairs:
        start = _position_of_tokens(tokens, dotted)
        if start >= 0:
            rest = tokens[:start] + tokens[start + len(dotted) :]
            return (rest, channel, "q") if not any(word in WORDS for word in rest) else (tokens, "", "")
    places = [k for k, word in enumerate(tokens) if word in WORDS]
    if len(places) > 1:
        places = [k for k in places if len(tokens[k]) > 1 or not (k + 1 < len(tokens) and tokens[k + 1].isdigit())]
        letters = {tokens[k] for k in range(len(tokens)) if tokens[k] in WORDS and k not in places}
        tokens = tuple("joint" if word in letters else word for word in tokens)
    if len(places) != 1:
        return tokens, "", ""
    k = places[0]
    return tokens[:k] + tokens[k + 1 :], WORDS[tokens[k]], tokens[k]


def _read_plate(field: str, tokens: tuple[str, ...], unit: str | None) -> Meaning | None:
    """Return the meaning of fx, Fx, force_x, wrench.torque.x, cx, ..."""
    kind, axis, rest = "", "", tokens
    if tokens and len(tokens[-1]) == 2 and tokens[-1][0] in "fmc" and tokens[-1][1] in "xyz":
        kind, axis, rest = _FORCE[tokens[-1][0]], tokens[-1][1], tokens[:-1]
    elif len(tokens) > 1 and tokens[-1] in ("x", "y", "z") and tokens[-2] in _FORCE:
        kind, axis, rest = _FORCE[tokens[-2]], tokens[-1], tokens[:-2]
    if not kind or any(word not in _PLATE for word in rest):
        return None
    return Meaning(field, "reaction", number=REACTION.index(kind + axis), unit=unit)


def reaction_channels(robot: Robot) -> tuple[str, ...]:
    """Channels of the force plate in the order of a log's columns."""
    return REACTION if robot.sensor is None else tuple(name.lower() for name in robot.sensor.channels)
