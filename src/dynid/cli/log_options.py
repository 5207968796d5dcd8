"""What the options of the command line say about a robot, its logs and its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dynid.cli import terminal
from dynid.cli.options import load_robot_for_command, parse_locks, parse_numbers
from dynid.errors import DynidError, LogError
from dynid.logs.joined import NUMBER, TIME_RANGE, FilePart, cut_log
from dynid.logs.log import Log
from dynid.logs.read import GearLike, OrderLike, read_log, robot_with_locks_of
from dynid.robot.load import may_lack_joints
from dynid.robot.robot import Robot
from dynid.storage.records import read_text

_SHIFT = re.compile(r"(?P<name>.+)@(?P<shift>[+-](?:\d+(?:\.\d*)?|\.\d+))")
_ROWS = re.compile(r"#?(?P<first>\d{1,18})?:(?P<last>\d{1,18})?")


def with_force_plate(robot: Robot, sensor: Path | None) -> Robot:
    """Return the robot on the force plate that a file describes; unchanged without a file."""
    if sensor is None:
        return robot
    from dynid.robot.io.toml_table import with_sensor_from_file

    return with_sensor_from_file(robot, sensor)


def load_robot_from_options(robot: str, gravity: str | None, lock: Sequence[str], snap: bool) -> Robot:
    """Load a robot with --gravity, --lock and --snap of a command applied."""
    vector = None
    if gravity is not None:
        vector = parse_numbers(gravity, "--gravity", "three numbers x,y,z in m/s^2")
        if len(vector) != 3:
            raise DynidError(
                "invalid_gravity", "--gravity {gravity}:", "give three numbers x,y,z in m/s^2", gravity=gravity,
            )  # fmt: skip
    return load_robot_for_command(robot, gravity=vector, lock=parse_locks(lock), snap=snap)


def parse_numbers_per_joint(text: str | None, n: int, what: str) -> list[float] | None:
    """Parse one number for all joints, or one per joint, separated by commas; raise for other counts."""
    if text is None:
        return None
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        raise DynidError(
            "option_malformed", "--{what} {text}:", "give one number, or {n} separated by commas", what=what, text=text,
            n=n,
        ) from None  # fmt: skip
    if len(values) not in (1, n):
        raise DynidError(
            "joint_count_mismatch", "--{what}: {count} numbers for {n} joints", "give one, or one per joint", what=what,
            count=len(values), n=n,
        )  # fmt: skip
    return values * n if len(values) == 1 else values


def limits_from_options(
    robot: Robot, position: str | None, velocity: str | None, acceleration: str | None, jerk: str | None = None
) -> dict[str, object] | None:
    """Robot's limits with those of --position, --velocity, --acceleration and --jerk instead; None without them."""
    n = robot.n
    given = {
        "velocity": parse_numbers_per_joint(velocity, n, "velocity"),
        "acceleration": parse_numbers_per_joint(acceleration, n, "acceleration"),
        "jerk": parse_numbers_per_joint(jerk, n, "jerk"),
    }
    half = parse_numbers_per_joint(position, n, "position")
    if half is None and not any(given.values()):
        return None
    limits: dict[str, object] = {
        key: value if value is not None else getattr(robot.limits, key) for key, value in given.items()
    }
    limits["position"] = robot.limits.position if half is None else [(-x, x) for x in half]
    limits["effort"] = robot.limits.effort
    return limits


def check_output_files(out: Path | None, json: Path | None, *, suffixes: Sequence[str], keep: Sequence[Path]) -> None:
    """Check before any work that the files of --out and --json can be written."""
    terminal.check_output_path("--out", out, suffixes=suffixes, keep=keep)
    terminal.check_output_path("--json", json, keep=keep)
    if out is not None and json is not None and out.resolve() == json.resolve():
        raise DynidError("same_output_twice", "--out and --json both name {out}", "give them different names", out=out)


def split_file_and_time_ranges(word: str, folder: Path = Path()) -> tuple[str, tuple[str, ...]]:
    """Split `log.csv@2.5:20` into the file and its time ranges; the name of an existing file is not split."""
    name = word
    ranges: list[str] = []
    while "@" in name and not (folder / name).exists():
        rest, _, text = name.rpartition("@")
        text = text.strip()
        if not rest or text in ("", ":") or not (_ROWS if text.startswith("#") else TIME_RANGE).fullmatch(text):
            break
        name = rest
        ranges.insert(0, text)
    return name, tuple(ranges)


def split_recording(word: str, folder: Path = Path()) -> list[FilePart]:
    """Split `a.csv@2:10+b.csv@+0.5` into the files of one recording; a file whose name holds + and exists is one."""
    words = re.split(r"(?<!@)\+", word)
    if not all(words) and not (folder / word).exists():
        raise DynidError(
            "invalid_recording", "'{word}': use + between the files of one recording", "write A.csv+B.csv",
            word=word,
        )  # fmt: skip
    parts: list[FilePart] = []
    while words:
        tries = [_split_shift("+".join(words[:count]), folder) for count in range(len(words), 0, -1)]
        count, found = next(
            ((len(words) - k, x) for k, x in enumerate(tries) if (folder / x.source).exists()), (1, tries[-1])
        )
        parts.append(found)
        words = words[count:]
    return parts if len(parts) > 1 or not parts[0].shift else [FilePart(word)]  # alone, a file has nothing to meet


def _split_shift(word: str, folder: Path) -> FilePart:
    """Split `b.csv@2:10@-0.5` into a file with its ranges and its shift of time, which comes last."""
    shift = None if (folder / word).exists() else _SHIFT.fullmatch(word)
    name, ranges = split_file_and_time_ranges(shift["name"] if shift else word, folder)
    return FilePart(name, float(shift["shift"]) if shift else 0.0, ranges)


def files_of_log_arguments(words: Iterable[str]) -> list[Path]:
    """Files that the words of LOG arguments name."""
    return [Path(part.source) for word in words for part in split_recording(word)]


@dataclass(frozen=True, slots=True, eq=False)
class LogReader:
    """Reads the logs of one command, all with the same options; a file that is named twice is opened once."""

    robot: Robot
    columns: Mapping[str, str | Sequence[str] | None]
    units: Mapping[str, str | Sequence[str]]
    gear: GearLike | None
    gain: float | Sequence[float] | None
    topic: str | None
    sign: Sequence[str] = ()
    zero: Mapping[str, str] | None = None
    order: OrderLike | None = None
    header: str | None = None
    rows: str | None = None
    opened: dict[tuple[str, tuple[int | None, int | None] | None], Log] = field(default_factory=dict)

    @staticmethod
    def from_options(
        robot: Robot,
        column: Sequence[str],
        units: Sequence[str],
        gear: str | None,
        gain: str | None,
        topic: str | None,
        *,
        sign: Sequence[str] | None = None,
        zero: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        header: str | None = None,
        rows: str | None = None,
    ) -> LogReader:
        """Make a reader from options of the command line, which are checked."""
        gains = None if gain is None else parse_numbers(gain, "--gain", f"one number or {robot.n}")
        if gains is not None and len(gains) not in (1, robot.n) and not may_lack_joints(robot, len(gains)):
            raise DynidError(
                "joint_count_mismatch", "--gain {gain}: {count} numbers for {n} joints", "give one, or one per joint",
                gain=gain, count=len(gains), n=robot.n,
            )  # fmt: skip
        whole = gains[0] if gains is not None and len(gains) == 1 else gains
        sign, zero, order = (None if some is None or list(some) == ["none"] else some for some in (sign, zero, order))
        return LogReader(
            robot, parse_columns(column), parse_units(units), parse_gear(gear, robot), whole, topic, sign or (),
            parse_zeros(zero or ()), parse_orders(order or (), robot), header, rows,
        )  # fmt: skip

    def _with_row_range(self, part: FilePart) -> FilePart:
        """File with the range of its rows taken out of its time ranges, or that of all files."""
        rows, ranges = self.rows, part.ranges
        if ranges and ranges[0].startswith("#"):
            rows, ranges = ranges[0], ranges[1:]
        if any(text.startswith("#") for text in ranges):
            raise LogError(
                part.source, "range_malformed", "rows are counted in the file", "give one range of rows, before those "
                "of times: FILE@#200:4000@2.5:20",
            )  # fmt: skip
        return replace(part, rows=None if rows is None else parse_rows(rows), ranges=ranges)

    def robot_with_locks(self) -> Robot:
        """Robot with the joints locked that the logs read so far do not have."""
        return robot_with_locks_of(self.robot, self.opened.values())

    def read_log(self, word: str) -> Log:
        """Open the log of FILE or FILE@RANGE, or the recording of FILE+FILE, each with its ranges."""
        parts = [self._with_row_range(part) for part in split_recording(word)]
        joined = len(parts) > 1
        name, ranges, rows = (word, (), None) if joined else (parts[0].source, parts[0].ranges, parts[0].rows)
        if (name, rows) not in self.opened:
            unknown = next((part.source for part in parts if "@" in part.source and not Path(part.source).exists()), "")
            if unknown:
                tail = unknown.rpartition("@")[2]
                raise LogError(
                    unknown, "file_not_found", "there is no such file, and '{tail}' is not a range",
                    "write FILE@2.5:20, FILE@:65% or FILE@#200:4000", tail=tail,
                )  # fmt: skip
            self.opened[name, rows] = read_log(
                parts if joined else name, self.robot, columns=self.columns or None, units=self.units or None,
                gear=self.gear, gain=self.gain, topic=self.topic, sign=self.sign, zero=self.zero, order=self.order,
                header=self.header, rows=rows,
            )  # fmt: skip
        log = self.opened[name, rows]
        for text in ranges:
            log = cut_log(log, text)
        return log


def parse_validation(words: Sequence[str], reader: LogReader) -> list[Log] | float | None:
    """Parse --validate: other logs, or the share of every log to hold out, `35%` or `0.35`."""
    shares = [word for word in words if not Path(word).exists() and re.fullmatch(NUMBER, word)]
    if shares and len(words) > 1:
        raise DynidError(
            "share_mixed_with_logs", "--validate {shares}: a share to hold out cannot be combined with "
            "logs", shares=shares[0],
        )  # fmt: skip
    if not shares:
        return [reader.read_log(word) for word in words] or None
    share = float(shares[0].rstrip("%")) / (100.0 if shares[0].endswith("%") else 1.0)
    if not 0.0 < share < 1.0:
        raise DynidError(
            "share_out_of_range", "--validate {shares}: a share lies between 0 and 1, or between 0% and 100%",
            shares=shares[0],
        )  # fmt: skip
    return share


def parse_friction(text: str) -> str | tuple[str, ...]:
    """Parse --friction: the recipe, none, or friction blocks by name, separated by commas."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise DynidError("option_malformed", "--friction:", "give auto, none, or blocks such as viscous,coulomb,offset")
    if len(words) > 1 and {"auto", "none"} & set(words):
        raise DynidError("friction_choice_conflict", "--friction {text}: auto and none cannot be combined", text=text)
    return "auto" if words == ("auto",) else () if words == ("none",) else words


def parse_window(text: str | None) -> float | list[tuple[float, float]] | None:
    """Parse --window: seconds, or balances BEGIN:END,BEGIN:END,..."""
    if text is None:
        return None
    try:
        if ":" not in text:
            return float(text)
        pairs = [[float(x) for x in word.split(":")] for word in text.split(",")]
        return [(begin, end) for begin, end in pairs]
    except ValueError:
        raise DynidError(
            "option_malformed", "--window {text}:", "give seconds, or BEGIN:END,BEGIN:END,... in s, such as "
            "0:0.5,0.5:1", text=text,
        ) from None  # fmt: skip


def parse_known(words: Sequence[str]) -> dict[str, float]:
    """Parse --known: values of parameters from NAME=VALUE words."""
    known: dict[str, float] = {}
    for word in words:
        name, _, value = word.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = np.nan
        if not name or not np.isfinite(number):
            raise DynidError("option_malformed", "--known {word}:", "write NAME=VALUE, such as M6=1.5", word=word)
        if name in known:
            raise DynidError("known_parameter_twice", "--known {word}: {name} is given twice", word=word, name=name)
        known[name] = number
    return known


def parse_equal(words: Sequence[str]) -> list[tuple[str, str]]:
    """Parse --equal: pairs of parameters from A=B words."""
    pairs = [tuple(part.strip() for part in word.split("=")) for word in words]
    for word, pair in zip(words, pairs, strict=True):
        if len(pair) != 2 or not all(pair) or pair[0] == pair[1]:
            raise DynidError("option_malformed", "--equal {word}:", "write the names of two parameters, A=B", word=word)
    return [(pair[0], pair[1]) for pair in pairs]


def parse_rows(text: str) -> tuple[int | None, int | None]:
    """Parse --rows: first and last row from FIRST:LAST, #FIRST:LAST, FIRST: or :LAST."""
    match = _ROWS.fullmatch(text.strip())
    if match is None or match["first"] == match["last"] is None:
        raise DynidError(
            "option_malformed", "--rows {text}:", "write FIRST:LAST, such as 200:4000, counted from 1, both included",
            text=text,
        )  # fmt: skip
    first, last = (None if end is None else int(end) for end in (match["first"], match["last"]))
    return first, last


def parse_columns(words: Sequence[str]) -> dict[str, str | Sequence[str] | None]:
    """Parse --column: columns of channels from CHANNEL=NAME[,NAME...]; nothing after = leaves a channel out."""
    columns: dict[str, str | Sequence[str] | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals or key in columns:
            raise DynidError(
                "option_malformed", "--column {word}:", "write CHANNEL=NAME or CHANNEL=NAME,NAME,..., each channel "
                "once", word=word,
            )  # fmt: skip
        names = _split_outside_brackets(value)  # the comma in x[:, 2] belongs to a name
        columns[key] = None if not value else names[0] if len(names) == 1 else names
    return columns


def _split_outside_brackets(text: str) -> list[str]:
    """Parts of a text between commas; those between [ and the next ] do not part it."""
    parts = [""]
    for piece in re.findall(r"\[[^\[\]]*\]|,|[^,\[]+|\[", text):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def parse_units(words: Sequence[str]) -> dict[str, str | Sequence[str]]:
    """Parse --units: units of channels from `q=deg,tau=Nmm`; `q=deg,mm,tau=Nm` gives one per joint."""
    found: dict[str, list[str]] = {}
    for text in words:
        last: list[str] | None = None
        for word in text.split(","):
            key, equals, unit = word.rpartition("=")
            if equals:
                last = found.setdefault(key.strip(), [])
            if last is None or not unit.strip() or (equals and last):
                raise DynidError(
                    "option_malformed", "--units {text}:", "write CHANNEL=UNIT,CHANNEL=UNIT, such as q=deg,tau=Nmm",
                    text=text,
                )  # fmt: skip
            last.append(unit.strip())
    return {key: units[0] if len(units) == 1 else units for key, units in found.items()}


def parse_zeros(words: Sequence[str]) -> dict[str, str]:
    """Parse --zero: zeros of joints from JOINT=VALUE words, with or without a unit."""
    zeros: dict[str, str] = {}
    for word in words:
        joint, _, value = word.rpartition("=")
        if not joint or not value or joint in zeros:
            raise DynidError(
                "option_malformed", "--zero {word}:", "write JOINT=VALUE, such as elbow=-90deg, each joint once",
                word=word,
            )  # fmt: skip
        zeros[joint] = value
    return zeros


def parse_orders(words: Sequence[str], robot: Robot) -> OrderLike | None:
    """Parse --order: joints in the order of columns from NAME,NAME,... words, for all channels or CHANNEL=."""
    orders: dict[str, list[str]] = {}
    for word in words:
        channel, text = "", word
        found = _split_joint_names(word, robot.joint_names)
        if not found and "=" in word:
            channel, _, text = word.partition("=")
            found = _split_joint_names(text, robot.joint_names)
        if len(found) > 1:
            raise DynidError(
                "ambiguous_joint_names", "--order {word}: names of joints contain commas, so this can be read as "
                "{first:20}, or as {second:20}", "rename the joints, or use order= of read_log in Python", word=word,
                first=found[0], second=found[1],
            )  # fmt: skip
        if channel in orders or (orders and "" in (channel, *orders)):
            raise DynidError(
                "option_malformed", "--order {word}: the order is given twice", "give one for all channels, or one "
                "for q and one for tau", word=word,
            )  # fmt: skip
        orders[channel] = found[0] if found else [name.strip() for name in text.split(",")]
    return orders.get("", orders or None)


def _split_joint_names(text: str, joints: Sequence[str]) -> list[list[str]]:
    """All ways to split a text into all joints' names, each once: one, but for names that hold commas."""
    if not joints:
        return []
    ways = [[text]] if [text] == list(joints) else []
    for name in (joint for joint in joints if text.startswith(f"{joint},")):
        rest = _split_joint_names(text[len(name) + 1 :], [joint for joint in joints if joint != name])
        ways += [[name, *way] for way in rest]
    return ways


def parse_gear(text: str | None, robot: Robot) -> GearLike | None:
    """Parse --gear: a ratio, one per joint, or a file with the matrix G of motor = G @ joint positions."""
    if text is None:
        return None
    n = robot.n
    if not Path(text).exists():
        what = f"one ratio, {n} of them, or a file with a {n} x {n} matrix"
        numbers = parse_numbers(text, "--gear", what)
        if len(numbers) not in (1, n) and not may_lack_joints(robot, len(numbers)):
            raise DynidError(
                "joint_count_mismatch", "--gear {text}: {count} ratios for {n} joints", "give one, or one per joint",
                text=text, count=len(numbers), n=n,
            )  # fmt: skip
        return numbers[0] if len(numbers) == 1 else numbers
    try:
        lines = [line for line in read_text(Path(text)).splitlines() if line.strip()]
        rows = [[float(word) for word in re.split(r"[,;\s]+", line.strip())] for line in lines]
    except (OSError, ValueError) as error:
        raise DynidError(
            "values_not_numeric", "--gear {text}: not a file of numbers: {reason}", text=text, reason=str(error),
        ) from error  # fmt: skip
    if (len(rows) != n and not may_lack_joints(robot, len(rows))) or any(len(row) != len(rows) for row in rows):
        raise DynidError(
            "wrong_shape", "--gear {text}: this must be {n} rows of {n} numbers, motor positions = G @ joint positions",
            text=text, n=n,
        )  # fmt: skip
    return rows
