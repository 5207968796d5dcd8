"""Reading XML from strangers: no entities, no document types, nothing from outside the file's folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import RobotFileError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DEEPEST = 300
"""Elements inside each other in a file that is still read."""


def read_xml(path: Path, root: str, remedy: str, *, also: str = "") -> Element:
    """Return the root element, which must have this tag, or the other one that may stand for it."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import parse

    try:
        element = parse(path, forbid_dtd=True).getroot()
    except ParseError as error:
        raise RobotFileError(str(path), [f"not an XML file: {error}"]) from error
    except DefusedXmlException as error:
        raise RobotFileError(
            str(path), ["document types and entities are not read; remove the <!DOCTYPE ...>"]
        ) from error
    except (UnicodeError, LookupError, ValueError) as error:
        raise RobotFileError(str(path), [f"the text cannot be decoded: {error}"]) from error
    except OSError as error:
        raise RobotFileError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    if element is None or element.tag not in (root, also):
        tag = "nothing" if element is None else f"<{element.tag}>"
        raise RobotFileError(str(path), [f"expected <{root}>, found {tag}; {remedy}"])
    level, depth = [element], 0
    while level:
        level, depth = [child for parent in level for child in parent], depth + 1
    if depth > _DEEPEST:
        raise RobotFileError(str(path), [f"elements are nested {depth} deep, more than {_DEEPEST}; no robot is"])
    return element


def numbers(element: Element | None, attribute: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """Numbers of an attribute; ValueError says which text is none."""
    if element is None or attribute not in element.attrib:
        return default
    text = element.attrib[attribute]
    if "${" in text or "$(" in text:
        raise ValueError(f"{attribute} is '{text}', which xacro must fill in: xacro robot.xacro > robot.urdf")
    try:
        values = tuple(float(word) for word in text.split())
    except ValueError:
        raise ValueError(f"{attribute} needs {len(default)} number{'s' * (len(default) > 1)}, got '{text}'") from None
    if len(values) != len(default):
        raise ValueError(f"{attribute} needs {len(default)} numbers, got '{text}'")
    return values
