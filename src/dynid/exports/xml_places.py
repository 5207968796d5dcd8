"""Where elements stand in the bytes of an XML file, so that they can be replaced and nothing else is touched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

from dynid.errors import RobotFileError


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """Bytes of a link of a URDF: the end of its start tag, whether that closes it too, and its inertial elements."""

    name: str
    inside: int
    is_empty: bool
    inertials: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class JointPlace:
    """Bytes of a joint of a URDF: the end of its start tag, and that of its <limit>'s with the attributes there."""

    kind: str
    inside: int
    limit: int | None = None
    attributes: tuple[str, ...] = ()


def find_parts(path: Path, data: bytes) -> tuple[dict[str, LinkPlace], list[JointPlace]]:
    """Find links and joints of a URDF that `read_xml` has accepted (no document type, no entities)."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in data:
        raise RobotFileError(str(path), ["only text in UTF-8 or another extension of ASCII is updated; convert it"])
    parser = expat.ParserCreate()
    trail: list[str] = []
    found: dict[str, LinkPlace] = {}
    joints: list[JointPlace] = []
    open_link: list[tuple[str, int, bool, list[tuple[int, int]]]] = []
    start = 0

    def begin(tag: str, attributes: dict[str, str]) -> None:
        nonlocal start
        trail.append(tag)
        if trail == ["robot", "link"]:
            end = _end_of_tag(data, parser.CurrentByteIndex)
            open_link.append((attributes.get("name", ""), end, data[end - 2 : end - 1] == b"/", []))
        elif trail == ["robot", "link", "inertial"]:
            start = parser.CurrentByteIndex
        elif trail == ["robot", "joint"]:
            joints.append(JointPlace(attributes.get("type", ""), _end_of_tag(data, parser.CurrentByteIndex)))
        elif trail == ["robot", "joint", "limit"]:
            joints[-1].limit, joints[-1].attributes = _end_of_tag(data, parser.CurrentByteIndex), tuple(attributes)

    def finish(tag: str) -> None:
        if trail == ["robot", "link", "inertial"]:
            end = _end_of_tag(data, start)
            if data[end - 2 : end - 1] != b"/":  # not <inertial/>, whose end is reported after it
                end = _end_of_tag(data, parser.CurrentByteIndex)
            open_link[-1][3].append((start, end))
        elif trail == ["robot", "link"]:
            name, end, is_empty, inertials = open_link.pop()
            found[name] = LinkPlace(name, end, is_empty, tuple(inertials))
        trail.pop()

    def refuse(*_: object) -> None:
        raise RobotFileError(str(path), ["document types and entities are not read; remove the <!DOCTYPE ...>"])

    parser.StartElementHandler, parser.EndElementHandler = begin, finish
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise RobotFileError(str(path), [f"not an XML file: {error}"]) from error
    return found, joints


def _end_of_tag(data: bytes, start: int) -> int:
    """Place after the `>` that ends the tag; one inside quotes does not."""
    quote = b""
    for k in range(start, len(data)):
        character = data[k : k + 1]
        if quote:
            quote = b"" if character == quote else quote
        elif character in (b'"', b"'"):
            quote = character
        elif character == b">":
            return k + 1
    return len(data)
