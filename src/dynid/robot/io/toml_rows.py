"""Rows and link values of a robot table as a person writes them, checked by pydantic; standard DH converted."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from dynid.concurrency import cached_property
from dynid.deprecated import ATTRIBUTES, warn_renamed
from dynid.errors import ExpressionError
from dynid.messages import Message, Option
from dynid.robot.expression import Expression, evaluate_expression, parse_expression, symbols_of
from dynid.robot.inertia import ROTOR, SYMBOLS, Body, change_of_frame, from_body
from dynid.robot.mdh import SnappedAngle, describe_snapped_angles, transform_known_zeros, transform_parameters
from dynid.robot.robot import MdhRow
from dynid.robot.transform import Array, Transform, rotation_x, snap_angle
from dynid.storage import files

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0.0)]
Value = Number | str
Vector = Annotated[list[Number], Field(min_length=3, max_length=3)]


class _TableWithoutUnknownKeys(BaseModel):
    """A table that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid")


class LimitsTable(_TableWithoutUnknownKeys):
    """Limits of a joint; missing ones are unknown."""

    position: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    velocity: Number | None = None
    acceleration: Number | None = None
    effort: Number | None = None


class JointTable(_TableWithoutUnknownKeys):
    """A row of the table; `a` and the meaning of `d` depend on the convention."""

    name: str | None = None
    parent: int | str | None = None
    type: Literal["revolute", "prismatic", "fixed"] = "revolute"
    gamma: Value = 0.0
    b: Value = 0.0
    alpha: Value = 0.0
    d: Value = 0.0
    theta: Value = 0.0
    r: Value = 0.0
    a: Value = 0.0
    unknown: list[str] = []
    limits: LimitsTable = LimitsTable()


class CouplingTable(_TableWithoutUnknownKeys):
    """q_passive = sum(k * q) + offset."""

    passive: str
    of: dict[str, Number]
    offset: Value = 0.0


class ClosureTable(_TableWithoutUnknownKeys):
    """Two frames that stay together."""

    frames: Annotated[list[str], Field(min_length=2, max_length=2)]
    keep: Annotated[list[Literal["x", "y", "z", "rx", "ry", "rz"]], Field(min_length=1)]
    passive: Annotated[list[str], Field(min_length=1)]
    points: Annotated[list[list[Value]], Field(min_length=2, max_length=2)] | None = None
    start: list[Value] | None = None
    at: list[Value] | None = None


class FrictionTable(_TableWithoutUnknownKeys):
    """Nominal friction of a joint."""

    viscous: Number | None = None
    coulomb: Number | None = None
    offset: Number | None = None


class LinkTable(_TableWithoutUnknownKeys):
    """Nominal values of a link."""

    mass: Number | None = None
    com: Vector | None = None
    inertia: list[Number] | list[Vector] | None = None
    rotor_inertia: Number | None = None
    friction: FrictionTable = FrictionTable()
    zero: list[Literal["XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M", "Ia"]] = []
    XX: Number | None = None
    XY: Number | None = None
    XZ: Number | None = None
    YY: Number | None = None
    YZ: Number | None = None
    ZZ: Number | None = None
    MX: Number | None = None
    MY: Number | None = None
    MZ: Number | None = None
    M: Number | None = None
    Ia: Number | None = None


class ColumnTable(_TableWithoutUnknownKeys):
    """A torque of known shape and unknown size at one joint, over the position of a joint."""

    name: str
    joint: str
    of: str | None = None
    positions: Annotated[list[Number], Field(min_length=2)]
    torque: Annotated[list[Number], Field(min_length=2)]


class RotorTable(_TableWithoutUnknownKeys):
    """A rotor that turns faster than its joint."""

    joint: str
    ratio: Number
    inertia: Number | None = None
    axis: Vector = [0.0, 0.0, 1.0]


class SensorTable(_TableWithoutUnknownKeys):
    """A force plate under the base; `rpy` turns about the fixed x, y, z of frame 0, in this order."""

    position: Vector = [0.0, 0.0, 0.0]
    rpy: Vector = [0.0, 0.0, 0.0]
    reference: Vector = [0.0, 0.0, 0.0]
    sense: Literal["plate_on_robot", "robot_on_plate"] = "plate_on_robot"
    channels: Annotated[list[str], Field(min_length=1, max_length=6)] = ["Fx", "Fy", "Fz", "Mx", "My", "Mz"]
    offsets: Literal["free", "tared"] | list[Number] = "free"
    mass: Number = 0.0
    com: Vector = [0.0, 0.0, 0.0]
    noise: list[Number] | None = None
    sensitivity_sigma: list[Number] | Number | None = None
    rotor: list[RotorTable] = []

    @model_validator(mode="before")
    @classmethod
    def _rename_old_keys(cls, data: Any) -> Any:
        """Accept the former names of keys, with a warning."""
        if not isinstance(data, dict):
            return data
        given = dict(data)
        for old, new in ATTRIBUTES["ForceSensor"].items():
            if old in given and new not in given:
                warn_renamed(f"{old} of [sensor]", new)
                given[new] = given.pop(old)
        return given


class PublishedLinkTable(_TableWithoutUnknownKeys):
    """Published values of a link, in the frames of the table."""

    mass: Positive
    com: Vector | None = None
    inertia: list[Number] | list[Vector] | None = None


class PublishedTable(_TableWithoutUnknownKeys):
    """Published masses of the robot, kg, with their source."""

    source: Annotated[str, Field(min_length=1)]
    total: Positive | None = None
    includes_base: Annotated[bool, Field(strict=True)] = True
    base: Positive | None = None
    link: dict[str, PublishedLinkTable] = {}


def _check_symbol_count(symbols: dict[str, Any]) -> dict[str, Any]:
    """Return the symbols of a table; ValueError where there are more than the limit."""
    if problem := files.SYMBOLS.exceeded("there are {figure} symbols", len(symbols)):
        raise ValueError(problem)
    return symbols


class RobotTable(_TableWithoutUnknownKeys):
    """A whole robot file."""

    name: str | None = None
    source: str = ""
    gravity: Vector = [0.0, 0.0, -9.81]
    angles: Literal["deg", "rad"] = "rad"
    convention: Literal["modified", "standard"] = "modified"
    symbols: Annotated[dict[str, Number], AfterValidator(_check_symbol_count)] = {}
    unknown: list[str] = []
    joint: Annotated[list[JointTable], Field(min_length=1)]
    coupling: list[CouplingTable] = []
    closure: list[ClosureTable] = []
    column: list[ColumnTable] = []
    sensor: SensorTable | None = None
    link: dict[str, LinkTable] = {}
    published: PublishedTable | None = None


_KEYS: dict[str, type[BaseModel]] = {
    "": RobotTable,
    "joint": JointTable,
    "limits": LimitsTable,
    "coupling": CouplingTable,
    "closure": ClosureTable,
    "column": ColumnTable,
    "sensor": SensorTable,
    "rotor": RotorTable,
    "link": LinkTable,
    "friction": FrictionTable,
    "published": PublishedTable,
    "published.link": PublishedLinkTable,
}


def check_table(data: object) -> tuple[RobotTable | None, list[Message]]:
    """Return the table, or None and messages on all that is wrong with its shape, each with place and remedy."""
    try:
        return RobotTable.model_validate(data), []
    except ValidationError as error:
        return None, describe_validation_error(error)


def describe_validation_error(error: ValidationError, under: tuple[str, ...] = ()) -> list[Message]:
    """Messages on all that pydantic refuses, with place and remedy; under: the table in which the places lie."""
    items: list[dict[str, Any]] = [dict(item) for item in error.errors(include_url=False, include_context=False)]
    return list(dict.fromkeys(_describe_one_mistake(item | {"loc": (*under, *item["loc"])}) for item in items))


def describe_location(loc: tuple[str | int, ...]) -> str:
    """Text on where in the file a value is: `joint 3, limits.velocity`."""
    words: list[str] = []
    parts = list(loc)
    if len(parts) >= 2 and isinstance(parts[1], int):
        words.append(f"{parts[0]} {parts[1] + 1}")
        parts = parts[2:]
    elif len(parts) >= 2 and parts[0] == "link":
        words.append(f"link.{parts[1]}")
        parts = parts[2:]
    keys = [str(p) for p in parts if not (isinstance(p, str) and ("[" in p or p in ("float", "str", "int")))]
    if keys:
        words.append(".".join(keys))
    return ", ".join(words) or "the file"


def _describe_one_mistake(item: dict[str, Any]) -> Message:
    """Message on one mistake that pydantic found."""
    loc = tuple(item["loc"])
    if item["type"] == "extra_forbidden":
        return _describe_unknown_key(loc)
    if item["type"] == "missing":
        return Message("missing_key", "{where}: this key is missing", "add it", where=describe_location(loc))
    reason = f"{item['msg'][:1].lower()}{item['msg'][1:]}"
    return Message(
        "invalid_value", "{where}: {reason}, got {given}", where=describe_location(loc), reason=reason,
        given=f"{item.get('input')!r:.60}",
    )  # fmt: skip


def _describe_unknown_key(loc: tuple[str | int, ...]) -> Message:
    """Message on an unknown key, with the nearest allowed one."""
    key = str(loc[-1])
    table = next((str(p) for p in reversed(loc[:-1]) if isinstance(p, str) and p in _KEYS), "")
    table = ".".join(map(str, loc[:-1][:2])) if loc[0] == "published" else table
    allowed = list(_KEYS[table].model_fields)
    close = difflib.get_close_matches(key, allowed, n=1)
    remedy = "did you mean '{near}'?" if close else "allowed are {allowed}"
    return Message(
        "unknown_key", "{where}: unknown key '{key}'", remedy, where=describe_location(loc), key=key,
        near="".join(close), allowed=allowed,
    )  # fmt: skip


# Nominal values of a link as a table gives them.


@dataclass(frozen=True, slots=True, eq=False)
class LinkValues:
    """Ten standard parameters (NaN where unknown), rotor inertia, known zeros and friction of a link."""

    inertia: Array
    rotor: float
    zero: frozenset[str]
    friction: tuple[tuple[str, float], ...]

    def in_frame(self, T: Transform, where: str, problems: list[Message]) -> LinkValues:
        """Return the values in another frame, T the pose of the present one in it; known zeros must stay zeros."""
        A = change_of_frame(T)
        zero, complete = transform_known_zeros(A, self.zero)
        if not complete:
            problems.append(Message(
                "zeros_not_in_frame", "{where}, zero: {parameters} are not all zeros in the modified frame of this "
                "joint", "write the table with convention = \"modified\"", where=where, parameters=sorted(self.zero),
            ))  # fmt: skip
        return replace(self, inertia=transform_parameters(A, self.inertia), zero=zero)


def read_link_values(where: str, table: LinkTable, problems: list[Message]) -> LinkValues:
    """Values of a link in the file's frame; mistakes are added to problems."""
    inertia = _read_inertia(where, table, problems)
    rotor = table.rotor_inertia if table.rotor_inertia is not None else table.Ia
    if rotor is None:
        rotor = math.nan
    elif rotor < 0.0:
        problems.append(Message(
            "rotor_inertia_negative", "{where}, rotor_inertia: must not be negative, got {inertia:g}", where=where,
            inertia=rotor,
        ))  # fmt: skip
    zero: frozenset[str] = frozenset(table.zero)
    for symbol in zero:
        value = rotor if symbol == ROTOR else inertia[SYMBOLS.index(symbol)]
        if value != 0.0 and not math.isnan(value):
            problems.append(Message(
                "parameter_given_and_zero", "{where}: {parameter} is {value:g} and in zero", "remove one of the two",
                where=where, parameter=symbol, value=value,
            ))  # fmt: skip
        if symbol == ROTOR:
            rotor = 0.0
        else:
            inertia[SYMBOLS.index(symbol)] = 0.0
    friction = tuple((k, float(v)) for k, v in table.friction.model_dump().items() if v is not None)
    return LinkValues(inertia, rotor, zero, friction)


def _read_inertia(where: str, table: LinkTable, problems: list[Message]) -> Array:
    """Ten parameters from mass, centre of mass and inertia, or by symbol."""
    inertia = np.full(10, math.nan)
    if table.mass is not None:
        inertia = _read_body(where, table, table.mass, problems)
    elif table.com is not None or table.inertia is not None:
        problems.append(Message("missing_mass", "{where}: com and inertia need mass as well", where=where))
    for i, symbol in enumerate(SYMBOLS):
        value = getattr(table, symbol)
        if value is not None:
            if table.mass is not None:
                problems.append(Message(
                    "parameters_given_twice", "{where}: {parameter} in addition to mass, com and inertia",
                    "give either, not both", where=where, parameter=symbol,
                ))  # fmt: skip
            inertia[i] = value
    if inertia[9] < 0.0:
        problems.append(Message(
            "mass_negative", "{where}: the mass must not be negative, got {mass:g}", where=where, mass=inertia[9],
        ))  # fmt: skip
    return inertia


def _read_body(where: str, table: LinkTable, mass: float, problems: list[Message]) -> Array:
    """Ten parameters of mass, com and inertia about it, NaN for what is not given."""
    inertia = np.full(10, math.nan)
    inertia[9] = mass
    if table.com is None:
        if table.inertia is not None:
            problems.append(Message("missing_com", "{where}: inertia needs com as well", where=where))
        return inertia
    inertia[6:9] = mass * np.array(table.com)
    if table.inertia is None:
        return inertia
    J = np.array(table.inertia, dtype=np.float64)
    if J.shape == (6,):
        xx, xy, xz, yy, yz, zz = J
        J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if J.shape != (3, 3) or not np.array_equal(J, J.T):
        problems.append(Message(
            "inertia_malformed", "{where}, inertia: not six numbers nor a matrix", "give six numbers xx xy xz yy yz "
            "zz, or a symmetric 3 x 3 matrix", where=where,
        ))  # fmt: skip
        return inertia
    return from_body(Body(mass, np.array(table.com), J))


# A checked table under way to a robot: its numbers in SI, and the mistakes that only the whole table shows.


LARGEST_TURN = 8 * math.pi
"""A revolute joint's limit beyond this (rad) was surely meant in degrees."""


@dataclass
class ParsedTable:
    """A table with the names of its joints; readers of its parts add to problems and notes."""

    table: RobotTable
    snap: bool
    problems: list[Message] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)
    snapped: list[SnappedAngle] = field(default_factory=list)

    @cached_property
    def joint_names(self) -> list[str]:
        """Names of the joints, numbers where the file gives none."""
        return [joint.name or str(j) for j, joint in enumerate(self.table.joint, 1)]

    @property
    def all_notes(self) -> tuple[Message, ...]:
        """Notes for the user, those on snapped angles last."""
        return (*self.notes, *describe_snapped_angles(self.snapped))

    @property
    def radians_per_unit(self) -> float:
        """Factor from the file's unit of angles to rad."""
        return math.pi / 180 if self.table.angles == "deg" else 1.0

    @cached_property
    def active_joints(self) -> list[str]:
        """Joints that move by themselves."""
        passive = {c.passive for c in self.table.coupling}.union(*(c.passive for c in self.table.closure))
        pairs = zip(self.joint_names, self.table.joint, strict=True)
        return [name for name, joint in pairs if joint.type != "fixed" and name not in passive]

    def joint_type(self, name: str) -> str:
        """Kind of the joint with this name, revolute where there is none."""
        return self.table.joint[self.joint_names.index(name)].type if name in self.joint_names else "revolute"

    def read_number(self, where: str, value: float | str) -> Expression:
        """Value of a number or expression of the file, as it is."""
        if isinstance(value, float):
            return Expression(value)
        try:
            number = evaluate_expression(value, self.table.symbols)
            text = value.strip() if symbols_of(parse_expression(value)) else None
        except ExpressionError as error:
            self.problems.append(error.message.about(where))
            return Expression(0.0)
        return Expression(number, text)

    def read_angle(self, where: str, value: float | str, *, largest: float = 2 * math.pi + 1e-9) -> Expression:
        """Angle in rad; near multiples of 90 degrees it is snapped, with a note."""
        number = self.read_number(where, value)
        degrees = self.table.angles == "deg"
        if not degrees and abs(number.value) > largest:
            self.problems.append(Message(
                "angle_looks_like_degrees", "{where}: {angle:g} rad is more than one turn; are these degrees?",
                "write angles = \"deg\" in the file", where=where, angle=number.value,
            ))  # fmt: skip
        angle = _degrees_to_radians(number.value) if degrees else number.value
        if self.snap and (snapped := snap_angle(angle)) != angle:
            if abs(snapped - angle) > 1e-12:
                note = Message(
                    "angle_snapped", "{where}: {angle:.9g} rad rounded to {degrees:g} degrees", "{snap} keeps it",
                    where=where, angle=angle, degrees=math.degrees(snapped), snap=Option("snap", False),
                )  # fmt: skip
                self.snapped.append(SnappedAngle(where, abs(snapped - angle), note))
            angle = snapped
        return Expression(angle, number.text, degrees and number.text is not None)

    def read_positions(
        self, where: str, values: list[float | str] | None, joints: Sequence[str], key: str
    ) -> list[float] | None:
        """Joint positions, angles in the file's unit."""
        if values is None:
            return None
        if len(values) != len(joints):
            self.problems.append(Message(
                "joint_count_mismatch", "{where}, {key}: {values} values for {expected} joints ({joints})", where=where,
                key=key, values=len(values), expected=len(joints), joints=list(joints),
            ))  # fmt: skip
            return None
        return [
            self.read_number(f"{where}, {key}", x).value
            * (self.radians_per_unit if self.joint_type(name) == "revolute" else 1.0)
            for x, name in zip(values, joints, strict=True)
        ]


def _degrees_to_radians(degrees: float) -> float:
    """Convert to rad, exact at multiples of 90 degrees."""
    quarter = degrees / 90.0
    return quarter * (math.pi / 2) if quarter == round(quarter) else math.radians(degrees)


# What a table declares unknown: symbols, letters for all joints, or letters of one joint.


LETTERS = {"modified": ("gamma", "b", "alpha", "d", "theta", "r"), "standard": ("a", "alpha", "d", "theta")}
"""Letters of a row, by convention."""

_ENTRY = re.compile(r"([a-z]+)([0-9]*)")


def read_unknown_geometry(
    table: RobotTable, names: Sequence[str], parents: Sequence[int], problems: list[Message]
) -> tuple[str, ...]:
    """Symbols and entries in modified notation (`d3`); those of a standard table are converted.

    A row's a and alpha of the standard convention are d and alpha of the joints after it.
    """
    letters = LETTERS[table.convention]
    found: list[str] = []
    for word in table.unknown:
        match = _ENTRY.fullmatch(word)
        if word in table.symbols:
            found.append(word)
        elif match and match[1] in letters and not match[2]:
            found += _entries_of_letter(table, match[1], parents)
        elif match and match[1] in letters and 1 <= int(match[2]) <= len(names):
            found += _entries_in_mdh(table, match[1], int(match[2]) - 1, parents)
        else:
            problems.append(Message(
                "unknown_convention_letter", "unknown: '{letter}' is neither a symbol of the file nor a letter of "
                "convention = \"{convention}\"", "letters are {letters}, alone or with a joint's number 1 to {count}",
                letter=word, convention=table.convention, letters=list(letters), count=len(names),
            ))  # fmt: skip
    for j, joint in enumerate(table.joint):
        for word in joint.unknown:
            if word in letters:
                found += _entries_in_mdh(table, word, j, parents)
            else:
                problems.append(Message(
                    "unknown_convention_letter", "joint {number} ('{joint}'), unknown: '{letter}' is not a letter of "
                    "convention = \"{convention}\", which has {letters}", number=j + 1, joint=names[j], letter=word,
                    convention=table.convention, letters=list(letters),
                ))  # fmt: skip
    return tuple(dict.fromkeys(found))


def _entries_of_letter(table: RobotTable, letter: str, parents: Sequence[int]) -> list[str]:
    """Entries of the modified table that a letter of the file's table stands for."""
    if table.convention == "modified":
        return [letter]
    return [entry for j in range(len(parents)) for entry in _entries_in_mdh(table, letter, j, parents)]


def _entries_in_mdh(table: RobotTable, letter: str, j: int, parents: Sequence[int]) -> list[str]:
    """Entries of the modified table that a letter in row j of the file's table becomes."""
    if table.convention == "modified":
        return [f"{letter}{j + 1}"]
    if letter in ("theta", "d"):
        return [f"{'theta' if letter == 'theta' else 'r'}{j + 1}"]
    return [f"{'d' if letter == 'a' else letter}{k + 1}" for k, parent in enumerate(parents) if parent == j]


def unknown_letters_of_row(table: RobotTable, j: int) -> frozenset[str]:
    """Letters a and alpha of row j of a standard table that are unknown, by themselves or by a symbol."""
    joint = table.joint[j]
    words = {*table.unknown, *(f"{letter}{j + 1}" for letter in joint.unknown)}
    loose = set()
    for letter in ("a", "alpha"):
        value = getattr(joint, letter)
        symbols = set(re.findall(r"[A-Za-z_]\w*", value)) if isinstance(value, str) else set()
        if {letter, f"{letter}{j + 1}"} & words or symbols & words & set(table.symbols):
            loose.add(letter)
    return frozenset(loose)


_ANGLES = ("gamma", "alpha", "theta")


RawRow: TypeAlias = dict[str, Expression]
"""A row as the file writes it, by letter."""


def read_rows(sheet: ParsedTable) -> list[RawRow]:
    """Read the rows of the table, in the letters of its convention."""
    return [_read_row(sheet, j, joint) for j, joint in enumerate(sheet.table.joint)]


def rows_in_modified_convention(sheet: ParsedTable, raw: Sequence[RawRow], parents: Sequence[int]) -> list[MdhRow]:
    """Modified rows; those of a standard table are converted (a, alpha of a row belong to the next joint)."""
    if sheet.table.convention == "modified":
        return [MdhRow(**row) for row in raw]
    zero = Expression(0.0)
    rows = []
    for j, row in enumerate(raw):
        before = raw[parents[j]] if parents[j] >= 0 else {"a": zero, "alpha": zero}
        rows.append(MdhRow(zero, zero, before["alpha"], before["a"], row["theta"], row["d"]))
    return rows


def _read_row(sheet: ParsedTable, j: int, joint: JointTable) -> RawRow:
    """Row j in the letters of its convention; other letters are added to problems."""
    letters = LETTERS[sheet.table.convention]
    for key in sorted({"gamma", "b", "r", "a"} & joint.model_fields_set - set(letters)):
        sheet.problems.append(Message(
            "unknown_convention_letter", "joint {number} ('{joint}'), {letter}: not a letter of convention = "
            "\"{convention}\", which has {letters}", number=j + 1, joint=sheet.joint_names[j], letter=key,
            convention=sheet.table.convention, letters=list(letters),
        ))  # fmt: skip
    row = {}
    for letter in letters:
        where = f"joint {j + 1} ('{sheet.joint_names[j]}'), {letter}"
        value = getattr(joint, letter)
        row[letter] = sheet.read_angle(where, value) if letter in _ANGLES else sheet.read_number(where, value)
    return row


def link_values_in_mdh_frame(
    sheet: ParsedTable, j: int, raw: RawRow, table: LinkTable | None, under: str = ""
) -> LinkValues:
    """Values of a link; those of a standard table refer to its own frame, Tx(a) Rx(alpha) after ours."""
    where = f"{under}link.{sheet.joint_names[j]}"
    values = read_link_values(where, table or LinkTable(), sheet.problems)
    if sheet.table.convention == "modified":
        return values
    a, alpha = raw["a"].value, raw["alpha"].value
    moved = values.in_frame(Transform(rotation_x(alpha), np.array([a, 0.0, 0.0])), where, sheet.problems)
    loose = unknown_letters_of_row(sheet.table, j)
    other = Transform(rotation_x(alpha + 0.7 * ("alpha" in loose)), np.array([a + 0.3 * ("a" in loose), 0.0, 0.0]))
    if transform_known_zeros(change_of_frame(other), values.zero)[0] != moved.zero:
        sheet.problems.append(Message(
            "zeros_in_unknown_frame", "{where}, zero: an unknown {unknown} moves the frame in which these are zeros",
            "write the table with convention = \"modified\"", where=where, unknown=' and '.join(sorted(loose)),
        ))  # fmt: skip
    return moved
