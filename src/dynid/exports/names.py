"""Names from files, made harmless for C and XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dynid.errors import ExportError
from dynid.messages import Message
from dynid.robot.robot import Robot

_LONGEST = 48


def c_prefix(name: str) -> str:
    """Return a C identifier that begins the names of all functions of a robot."""
    word = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_LONGEST].strip("_")
    return word if word and not word[0].isdigit() else f"robot_{word}".rstrip("_")


def c_comment(comment: str) -> str:
    """Return text that cannot end a comment, start a new line, or make a trigraph."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+()\[\]=^-]", "_", comment)


def unique_names(names: Iterable[str]) -> list[str]:
    """Return XML names as they are, numbered where one appears again; an empty one gets a word."""
    taken: set[str] = set()
    result = []
    for name in names:
        plain = "".join(c if _is_xml_character(c) else "_" for c in name) or "unnamed"
        new, count = plain, 1
        while new in taken:
            count += 1
            new = f"{plain}_{count}"
        taken.add(new)
        result.append(new)
    return result


def _is_xml_character(character: str) -> bool:
    """Whether XML 1.0 can hold the character in a name that every reader gives back: no line ends or controls."""
    code = ord(character)
    return (0x20 <= code <= 0xD7FF and code != 0x7F) or 0xE000 <= code <= 0xFFFD or 0x10000 <= code


def xml_attribute(text: str) -> str:
    """Return text for an attribute in double quotes."""
    for plain, escape in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(plain, escape)
    return text


def numbers_text(values: Iterable[float]) -> str:
    """Return numbers that come back to the last bit."""
    return " ".join(repr(float(x) + 0.0) for x in values)


# What the joints of URDF and MJCF can hold, and what must be said because they cannot.


def renamed_link_notes(robot: Robot, names: Sequence[str]) -> list[Message]:
    """Notes on links whose name the file cannot have."""
    pairs = zip(robot.links, names, strict=True)
    return [
        Message("link_renamed", "link {link!r} becomes {name!r}", link=link.name, name=new)
        for link, new in pairs
        if link.name != new
    ]


def lost_friction_warnings(robot: Robot) -> tuple[Message, ...]:
    """Warnings of friction that the joints cannot have; a negative rotor inertia is refused."""
    constant, negative = [], []
    for k in robot.active_links:
        link = robot.links[k]
        constant += [f"'{link.joint}' ({x:.6g})" for block, x in link.friction if block == "offset" and x != 0.0]
        negative += [f"'{link.joint}' ({block} {x:.6g})" for block, x in link.friction if block != "offset" and x < 0.0]
        if link.rotor < 0.0:
            raise ExportError(
                "rotor_inertia_negative", "joint '{joint}': its rotor inertia {inertia:.6g} is negative",
                joint=link.joint, inertia=link.rotor,
            )  # fmt: skip
    losses = (
        ("constant_torque_left_out", "constant torques are left out: joints {joints}", constant),
        ("negative_friction_left_out", "negative friction is left out: joints {joints}", negative),
    )
    return tuple(Message(code, what, joints=joints) for code, what, joints in losses if joints)
