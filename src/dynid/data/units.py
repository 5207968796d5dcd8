"""Units of the channels of a log, and their factors to SI."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from dynid.errors import LogError
from dynid.robot.robot import Robot

_TURN = {"rad": 1.0, "deg": math.pi / 180.0, "m": 1.0, "mm": 1e-3}
FACTORS: Mapping[str, Mapping[str, float]] = {
    "t": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "q": _TURN,
    "v": {**{f"{unit}/s": factor for unit, factor in _TURN.items()}, "rpm": math.pi / 30.0},
    "a": {f"{unit}/s^2": factor for unit, factor in _TURN.items()},
    "tau": {"Nm": 1.0, "Nmm": 1e-3, "mNm": 1e-3, "kNm": 1e3, "N": 1.0, "kN": 1e3, "A": 1.0, "mA": 1e-3},
    "reaction": {"N": 1.0, "Nm": 1.0},
}
_ANGULAR = ("rad", "deg", "rpm")
_WORDS = {"degrees": "deg", "degree": "deg", "°": "deg", "radians": "rad", "radian": "rad", "µ": "u", "μ": "u"}
_SUFFIX = re.compile(
    r"(?<=[a-z0-9\])])[_\s.\-](?P<unit>(?:rad|deg|mm)(?:(?:_per_|/|_|p)s(?:ec)?(?:\^?2)?)?|rpm|nm|nmm|mnm|knm|ms|us|ns|amps?)"
    r"(?P<tail>[_\s.\[(]*\d*[\])]*)$",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"^(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]*)[\])](?P<tail>[_\s.]*\d*)$")


def _spelling(text: str) -> str:
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
    plain = _spelling(text)
    known = {unit for factors in FACTORS.values() for unit in factors}
    if plain in known:
        return plain
    lower = {unit.lower(): unit for unit in known if unit not in ("N", "A", "mA", "kN")}
    return {**lower, "amp": "A", "amps": "A", "sec": "s", "seconds": "s"}.get(plain.lower())


def split_unit(name: str) -> tuple[str, str | None]:
    """Split a header such as `q1 [deg]`, `tau_2 (Nm)` or `pos_deg_1` into name and unit."""
    bracket = _BRACKET.match(name)
    if bracket and not bracket["unit"].strip().isdigit():
        unit = find_unit(bracket["unit"])
        if unit:
            return bracket["name"] + bracket["tail"], unit
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


def factor(log: str, channel: str, unit: str, column: str | None = None) -> float:
    """Return what a channel in this unit is multiplied with to be in SI."""
    found = find_unit(unit) if isinstance(unit, str) else None
    if found is None or found not in FACTORS[channel]:
        where = f"the column '{column}' is in {unit}, which" if column else f"{unit!r}"
        raise LogError(
            log, f"{where} is no unit of {channel}; use units={{'{channel}': ...}} with {', '.join(FACTORS[channel])}"
        )
    return FACTORS[channel][found]


def asked_units(
    log: str, units: Mapping[str, object] | None, robot: Robot, motor_side: bool
) -> dict[str, tuple[str, ...]]:
    """Return the units per channel and joint that the user gave, checked; an angle is no unit of a sliding joint."""
    asked: dict[str, tuple[str, ...]] = {}
    for channel, value in (units or {}).items():
        if channel not in FACTORS or channel == "reaction":
            raise LogError(log, f"units has no channel {channel!r}; the channels are t, q, v, a, tau")
        count = 1 if channel == "t" else robot.n
        several = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
        if len(several) != count:
            raise LogError(log, f"units of {channel} are {len(several)}, the robot has {count} joints")
        for unit in several:
            factor(log, channel, unit)  # type: ignore[arg-type]
        asked[channel] = tuple(find_unit(str(unit)) or "" for unit in several)
        if channel in ("q", "v", "a") and not motor_side:
            _check_kinds(log, channel, asked[channel], robot)
    return asked


def _check_kinds(log: str, channel: str, units: tuple[str, ...], robot: Robot) -> None:
    for unit, link in zip(units, robot.active_links, strict=True):
        angular = unit.startswith(_ANGULAR)
        if angular != (robot.links[link].kind == "revolute") and unit not in ("rad", "rad/s", "rad/s^2"):
            name, kind = robot.links[link].joint, robot.links[link].kind
            raise LogError(
                log, f"{unit} is no unit of the {kind} joint '{name}'; give units={{'{channel}': [one per joint]}}"
            )
