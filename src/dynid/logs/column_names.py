"""What the name of a column says (channel, joint, unit), and the user's own mapping, which overrides it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynid.errors import LogError
from dynid.logs.readers.table import Field, numbered_columns
from dynid.messages import ANYTHING, Option, Wording
from dynid.robot.load import may_lack_last_joints
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
            log, "unknown_unit", where + " is not a unit of {channel}", "use {units} with {possible}", column=column,
            unit=unit, channel=channel, units=Option("units", {channel: ANYTHING}), possible=list(FACTORS[channel]),
        )  # fmt: skip
    return FACTORS[channel][found]


def check_units(
    log: str, units: Mapping[str, object] | None, robot: Robot, motor_side: bool
) -> dict[str, tuple[str, ...]]:
    """Return the units per channel and joint that the user gave, checked; angles are not for sliding joints."""
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
                log, "unit_unfit_for_joint", "{unit} is not a unit of the {kind} joint '{joint}'",
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
            if not joint.isdecimal():
                parts[whole] = place
                if short and not all(word.isdecimal() or len(word) == 1 for word in short):
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
        numbers = [int(token) for token in tokens if token.isdecimal() and len(token) < 6]
        words = tuple(token for token in tokens if not token.isdecimal() and token not in self._noise)
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
        places = [k for k in places if len(tokens[k]) > 1 or not (k + 1 < len(tokens) and tokens[k + 1].isdecimal())]
        tokens = tuple("joint" if word in WORDS and k not in places else word for k, word in enumerate(tokens))
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


OPTION = Wording("columns", "--column")
KEYS = ("t", "q", "v", "a", "tau", "reaction", "q_cmd", "v_cmd", "tau_ff", "pwm")
_SINGLE = re.compile(r"^(?P<channel>q_cmd|v_cmd|tau_ff|pwm|q|v|a|tau)(?:(?P<number>\d+)|[._\[](?P<name>[^\]]+)\]?)$")
_REPEATED = re.compile(r"(?P<name>[^*]*[^*\s][^*]*?)\s*(?:\*\s*(?P<count>\d{1,6}))?")
_NUMBERS = re.compile(r"(?P<first>\d{1,6})(?::(?P<last>\d{1,6}))?")
_BRACKETS = re.compile(r"[\[(]([^\])]*)[\])]$")
MOST_COLUMNS = 100_000
_SLICE = re.compile(r"^(?P<name>.+)\[(?:\s*:\s*,\s*(?P<column>\d+)|\s*(?P<row>\d+)\s*,\s*:)\s*\]$")
_SLICES = re.compile(r"^(?P<name>.+)\[\s*:\s*,\s*(?P<first>\d{1,6})?\s*:\s*(?P<last>\d{1,6})?\s*\]$")


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Where the numbers of one slot are: a field, and the column of it where it is a matrix."""

    field: str
    column: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The mapping, checked: whole channels (a field or one place per joint), single slots, and what is left out."""

    whole: Mapping[str, str | tuple[ColumnPlace, ...]] = field(default_factory=dict)
    single: Mapping[tuple[str, int], ColumnPlace] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


def parse_header(log: str, header: object, robot: Robot) -> tuple[str, ...]:
    """Return the names of columns that `t,q*7,_*3,tau*7` or a sequence of such names means; `_` becomes ''."""
    option = Wording("header", "--header")
    parts = header.split(",") if isinstance(header, str) else list(header) if isinstance(header, Sequence) else [header]
    reader, names = ColumnNameReader(robot), list[str]()
    for part in parts:
        match = _REPEATED.fullmatch(part.strip()) if isinstance(part, str) else None
        if match is None or not 1 <= int(match["count"] or 1) <= MOST_COLUMNS:
            raise LogError(
                log, "header_malformed", "{option}: cannot read {part!r}", "write the columns' names, such as "
                "t,q*7,_*3,tau*7: name*7 numbers seven of them, _ skips one", option=option, part=str(part)[:60],
            )  # fmt: skip
        name, count = match["name"].strip(), int(match["count"] or 1)
        plain, unit = split_unit(name)
        meaning = reader.read_name(name)
        bare = meaning is not None and meaning.joint is None and meaning.number is None and not meaning.words
        if meaning and bare and match["count"] and meaning.channel in ("q", "v", "a", "tau") and count > robot.n:
            raise LogError(
                log, "joint_count_mismatch", "{option}: {part!r} names {count} columns, the robot '{robot}' has {n} "
                "joints", "write {name}*{n}, and _ for columns of other joints", option=option, part=match[0],
                count=count, robot=robot.name, n=robot.n, name=name,
            )  # fmt: skip
        if unit is None and count > 1 and (strange := _BRACKETS.search(name)):
            raise LogError(
                log, "unknown_unit", "{option}: {part!r}: '{unit}' is not a known unit", "write a unit such as deg or "
                "Nmm, or leave it out", option=option, part=match[0], unit=strange[1],
            )  # fmt: skip
        end = "" if unit is None else f" [{unit}]"
        numbered = [f"{plain}{k}{end}" for k in range(1, count + 1)] if count > 1 else [name]
        names += [""] * count if name == "_" else numbered
    twice = [name for k, name in enumerate(names) if name and name in names[:k]]
    if twice:
        raise LogError(
            log, "column_name_twice", "{option} names '{name}' twice", "write _ for columns to be skipped",
            option=option, name=twice[0],
        )  # fmt: skip
    return tuple(names)


def column_numbers(value: object) -> tuple[int, ...]:
    """Return the numbers, counted from 1, that `3`, `"2:8"` or a list with such means; nothing for names."""
    if isinstance(value, (list, tuple, range)):
        return tuple(number for part in value for number in column_numbers(part))
    if isinstance(value, str) and (match := _NUMBERS.fullmatch(value.strip())):
        first = int(match["first"])
        return tuple(range(first, int(match["last"] or first) + 1))
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else ()


def mapped_column_numbers(columns: object) -> dict[int, str]:
    """Numbers of all columns in a mapping, with the channel that each is for."""
    found: dict[int, str] = {}
    for key, value in columns.items() if isinstance(columns, Mapping) else ():
        found |= {number: found.get(number, str(key)) for number in column_numbers(value)}
    return found


def distinguishing_prefixes(stems: Sequence[str]) -> list[str]:
    """Prefixes of column names where several files of a recording have them: state.q1 and drives.q1."""
    return [x if stems.count(x) == 1 else f"{x}{1 + stems[:k].count(x)}" for k, x in enumerate(stems)]


def column_numbers_of_file(columns: object, prefix: str) -> dict[str, list[str]]:
    """Numbers that a mapping gives for one file: `2:8` of `state.2:8`, and a time `1`, which counts in each."""
    found: dict[str, list[str]] = {}
    for key, value in columns.items() if isinstance(columns, Mapping) else ():
        words = [str(word) for word in (value if isinstance(value, (list, tuple)) else [value])]
        own = [text for word in words if (text := _number_in_file(word, prefix, key))]
        found |= {str(key): own} if own else {}
    return found


def _number_in_file(word: object, prefix: str, key: str) -> str:
    """Number or range after the name of a file, `2:8` of `state.2:8`; else ''."""
    text = str(word)
    own = text.removeprefix(f"{prefix}.")
    return own if (own != text or key == "t") and _NUMBERS.fullmatch(own) else ""


def name_numbers_in_files(
    log: str, columns: Mapping[str, object], files: Sequence[tuple[str, str, Sequence[Field]]]
) -> dict[str, object]:
    """Return a mapping for several files (prefix, name, fields of each) with names in place of numbers."""
    tables = [(prefix, name, {one.name: one for one in fields}) for prefix, name, fields in files]
    for prefix, name, fields in tables:
        _check_numbers(name, column_numbers_of_file(columns, prefix), fields)
    found: dict[str, object] = {}
    for key, value in columns.items():
        named: list[object] = []
        for word in value if isinstance(value, (list, tuple)) else [value]:
            counts = [(x, name, fields, own) for x, name, fields in tables if (own := _number_in_file(word, x, key))]
            if any(word in fields for _, _, fields in tables) or (not counts and not column_numbers(word)):
                named.append(word)
            elif not counts:
                raise LogError(
                    log, "numbers_not_applicable", "{option}: {number} could count the columns of any of the files "
                    "{files}", "say which with {columns}", option=OPTION, number=str(word),
                    files=[name for _, name, _ in tables], columns=Option("columns", {key: f"{tables[0][0]}.{word}"}),
                )  # fmt: skip
            for prefix, name, fields, own in counts:
                names = _expand_numbers(name, own, fields)
                named += [f"{prefix}.{x}" for x in (names if isinstance(names, list) else [names])]
        found[key] = named if isinstance(value, (list, tuple)) or len(named) != 1 else named[0]
    return found


def _check_numbers(log: str, columns: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Raise for a number that is given to two channels."""
    for key, value in columns.items():
        if isinstance(value, str) and value in fields:
            continue
        for number in column_numbers(value):
            if (other := mapped_column_numbers(columns)[number]) != key:
                raise LogError(
                    log, "columns_overlap", "{option}: column {number} is given to {other} and to {key}",
                    "count the columns from 1, the last one included", option=OPTION, number=number, other=other,
                    key=key,
                )  # fmt: skip


def _expand_numbers(log: str, value: object, fields: Mapping[str, Field]) -> object:
    """A value of the mapping with names in place of numbers; a column that is called so comes before its number."""
    if isinstance(value, (list, tuple, range)):
        parts = [_expand_numbers(log, part, fields) for part in value]
        return [name for part in parts for name in (part if isinstance(part, list) else [part])]
    if isinstance(value, str) and value not in fields and (part := _SLICES.match(value)) and part["name"] in fields:
        shape = fields[part["name"]].shape
        return [f"{part['name']}[:, {k}]" for k in range(int(part["first"] or 0), int(part["last"] or min(shape)))]
    if isinstance(value, str) and (value in fields or not _NUMBERS.fullmatch(value.strip())):
        return value
    if not isinstance(value, int | str) or isinstance(value, bool):
        return value
    numbers, columns = column_numbers(value), numbered_columns(tuple(fields.values()))
    strange = [one.name for k, (one, _) in enumerate(columns, 1) if one.name.isdigit() and one.name != str(k)]
    if strange:
        raise LogError(
            log, "ambiguous_column", "{option}: {value!r} could count the columns or be their names, {found:20}",
            "name the columns with {header}", option=OPTION, value=value, found=strange, header=Option("header"),
        )  # fmt: skip
    if not columns:
        raise LogError(
            log, "numbers_not_applicable", "{option}: {value!r} counts the columns of one table, but the file holds "
            "arrays: {found:20}", "name them, as NAME or NAME[:, 0]", option=OPTION, value=value, found=list(fields),
        )  # fmt: skip
    if not numbers or not 1 <= min(numbers) <= max(numbers) <= len(columns):
        raise LogError(
            log, "unknown_column", "{option}: {value!r} is not a range of columns; the file has {count}, counted from "
                "1",
            "write FIRST:LAST, both included", option=OPTION, value=value, count=len(columns),
        )  # fmt: skip
    places = [columns[number - 1] for number in numbers]
    names: list[object] = [one.name if column is None else f"{one.name}[:, {column}]" for one, column in places]
    return names if len(names) > 1 else names[0]


def find_column_place(log: str, name: object, fields: Mapping[str, Field]) -> ColumnPlace:
    """Return the place that a name in a mapping means: a column, `array`, `array[:, 2]` or `array[2, :]`."""
    if not isinstance(name, str):
        raise LogError(log, "column_name_not_text", "columns must map to names of columns, got {value!r}", value=name)
    dotted = name.strip("/").replace("/", ".")
    for spelling in (name, dotted):
        if spelling in fields:
            return ColumnPlace(_check_field_usable(log, fields[spelling]).name)
    part = _SLICE.match(name)
    if part and (part["name"] in fields):
        shape = _check_field_usable(log, fields[part["name"]]).shape
        axis = 1 if part["row"] is None else 0
        index = int(part["column"] if part["row"] is None else part["row"])
        if len(shape) == 2 and index < shape[axis]:
            return ColumnPlace(part["name"], index)
    raise LogError(
        log, "unknown_column", "{option} names '{column}', which is not in the file; found {found:20}", column=name,
        option=OPTION, found=list(fields),
    )  # fmt: skip


def _check_field_usable(log: str, found: Field) -> Field:
    """Return the field; raise where it holds no numbers."""
    if found.problem:
        raise LogError(log, "column_unusable", "'{column}' {reason}", column=found.name, reason=found.problem)
    return found


def read_mapping(
    log: str, columns: Mapping[str, object] | None, robot: Robot, fields: Mapping[str, Field]
) -> ColumnMapping:
    """Check a mapping such as {"t": "time", "q": "rec.pos", "tau": ["i1", "i2"], "q3": "x", "v.elbow": "y"}."""
    if columns is not None and not isinstance(columns, Mapping):
        raise LogError(
            log, "columns_not_a_mapping", "columns must be a mapping from channels to names of columns, such as "
            "{{'t': 'clock'}}",
        )  # fmt: skip
    whole: dict[str, str | tuple[ColumnPlace, ...]] = {}
    single: dict[tuple[str, int], ColumnPlace] = {}
    absent: set[str] = set()
    _check_numbers(log, columns or {}, fields)
    for key, value in (columns or {}).items():
        value = _expand_numbers(log, value, fields)
        if key in KEYS:
            if value is None and key not in ("t", "q"):
                absent.add(key)
            elif isinstance(value, (list, tuple)):
                whole[key] = _find_places(log, key, value, robot, fields)
            else:
                place = find_column_place(log, value, fields)
                whole[key] = place.field if place.column is None else (place,)
        else:
            single[_find_channel_and_joint(log, key, robot)] = find_column_place(log, value, fields)
    return ColumnMapping(whole, single, frozenset(absent))


def _find_places(
    log: str, key: str, names: list[object] | tuple[object, ...], robot: Robot, fields: Mapping[str, Field]
) -> tuple[ColumnPlace, ...]:
    """Places of the columns that a mapping lists for a channel, one per joint."""
    count = {"t": 1, "reaction": len(reaction_channels(robot))}.get(key, robot.n)
    if len(names) != count and not (key in ("q", "v", "a", "tau") and may_lack_last_joints(robot, len(names))):
        raise LogError(
            log, "column_count_mismatch", "{option} gives {given} columns for {channel}, which needs {needed}",
            option=OPTION, given=len(names), channel=key, needed=count,
        )  # fmt: skip
    return tuple(find_column_place(log, name, fields) for name in names)


def _find_channel_and_joint(log: str, key: object, robot: Robot) -> tuple[str, int]:
    """Channel and joint index of a key such as q3 or v.elbow."""
    match = _SINGLE.match(key) if isinstance(key, str) else None
    if match is not None:
        if match["name"] in robot.joint_names:
            return match["channel"], robot.joint_names.index(match["name"])
        text = match["number"] or match["name"]
        if text.isdecimal() and 1 <= int(text) <= robot.n:
            return match["channel"], int(text) - 1
    raise LogError(
        log, "unknown_column_key", "{option} has no key {key!r}", "use {keys}, q1 to q{n}, or q.<joint> with the "
        "joints {joints}", option=OPTION, key=key, keys=KEYS, n=robot.n, joints=robot.joint_names,
    )  # fmt: skip


# Recordings in a folder of their file: a group of HDF5, a struct of MAT, a common beginning of the names.


def read_field_names(log: str, fields: Iterable[str], names: ColumnNameReader, given: str | None) -> dict[str, Meaning]:
    """Return what the names of fields say, those in the folder of the time as if they stood outside.

    given: the time, where the user names it; it decides between recordings where a file holds several.
    """
    fields = tuple(fields)
    plain = {entry: meaning for entry in fields if (meaning := names.read_name(entry)) is not None}
    if given is None:
        if any(meaning.channel == "t" for meaning in plain.values()):
            return plain
        times = [entry for entry in fields if _time_folder(entry, names)]
        if len(times) > 1:
            raise LogError(
                log, "ambiguous_recording", "there are several recordings in it, with the times {found:20}",
                "say which with {columns}", found=times, columns=Option("columns", {"t": ANYTHING}),
            )  # fmt: skip
        given = times[0] if times else ""
    folder = _time_folder(given, names) or folder_of_field(given)
    return _meanings_in_folder(plain, fields, names, folder) if folder else plain


_DEEPEST = 32
"""Folders inside each other in which a recording is looked for."""


def folder_of_field(name: str) -> str:
    """Part of a name before its last dot or slash, with it; '' where there is but one part."""
    return name[: len(name) - len(_name_endings(name)[-1])]


def _name_endings(name: str) -> list[str]:
    """Endings of a name that begin after a dot or a slash, and the name itself, longest first."""
    return [name, *(name[place.end() :] for place in re.finditer(r"[./]++(?=[^./])", name) if place.start())]


def _time_folder(name: str, names: ColumnNameReader) -> str:
    """The folder in which a field is the time, '' where it is none."""
    for part in _name_endings(name)[1 : 1 + _DEEPEST]:
        meaning = names.read_name(part)
        if meaning is not None and meaning.channel == "t":
            return name[: len(name) - len(part)]
    return ""


def _meanings_in_folder(
    plain: Mapping[str, Meaning], fields: tuple[str, ...], names: ColumnNameReader, folder: str
) -> dict[str, Meaning]:
    """Meanings with those of a folder read without its name; they hide the same channels outside of it."""
    found: dict[str, Meaning] = {}
    if not LABELS.isdisjoint(split_tokens(folder)):  # the folder of one joint
        return dict(plain)
    for entry in fields:
        whole = plain.get(entry)
        if not entry.startswith(folder) or (whole is not None and whole.joint is not None):
            continue
        short = names.read_name(entry[len(folder) :], entry)
        if short is not None:
            found[entry] = short
    hidden = {meaning.channel for meaning in found.values()}
    return found | {
        entry: meaning for entry, meaning in plain.items() if entry not in found and meaning.channel not in hidden
    }
