"""The shape of a robot table as a person writes it, checked by pydantic before anything is built."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dynid.deprecated import ATTRIBUTES, warn_renamed
from dynid.messages import Message

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


class RobotTable(_TableWithoutUnknownKeys):
    """A whole robot file."""

    name: str | None = None
    source: str = ""
    gravity: Vector = [0.0, 0.0, -9.81]
    angles: Literal["deg", "rad"] = "rad"
    convention: Literal["modified", "standard"] = "modified"
    symbols: dict[str, Number] = {}
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
