"""Reading XML from strangers (no entities, no document types, nothing outside its folder); names and numbers in XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from dynid.errors import RobotFileError

_DEEPEST = 300
"""Elements inside each other in a file that is still read."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)


class _ElementWithLine(Element):
    """An element that knows where it stands."""

    place = ""


def file_and_line_of(element: Element) -> str:
    """File and line of an element as they begin an error: `line 12: `; nothing for one that was not read."""
    return f"{element.place}: " if isinstance(element, _ElementWithLine) else ""


def read_xml(path: Path, root: str, remedy: str, *, also: str = "") -> Element:
    """Return the root element, which must have this tag, or the other one that may stand for it."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, parse

    def create_element(tag: str, attributes: dict[str, str]) -> _ElementWithLine:
        """Element that remembers its file and line."""
        made = _ElementWithLine(tag, attributes)
        made.place = f"{f'{path.name} ' * bool(also)}line {parser.parser.CurrentLineNumber}"
        return made

    parser = DefusedXMLParser(target=TreeBuilder(element_factory=create_element), forbid_dtd=True)
    try:
        element = parse(path, parser).getroot()
    except ParseError as error:
        raise RobotFileError(str(path), "not_xml", "not an XML file: {reason}", reason=error) from error
    except DefusedXmlException as error:
        raise RobotFileError(
            str(path), "document_type_not_allowed", "document types and entities are not read",
            "remove the <!DOCTYPE ...>",
        ) from error  # fmt: skip
    except (UnicodeError, LookupError, ValueError) as error:
        raise RobotFileError(
            str(path), "unsupported_text_encoding", "the text cannot be decoded: {reason}", reason=error,
        ) from error  # fmt: skip
    except OSError as error:
        raise RobotFileError(
            str(path), "file_unreadable", "cannot be read: {reason}", reason=error.strerror or error,
        ) from error  # fmt: skip
    if element is None or element.tag not in (root, also):
        tag = "nothing" if element is None else f"<{element.tag}>"
        raise RobotFileError(
            str(path), "wrong_root_element", "expected <{expected}>, found {found}", remedy, expected=root, found=tag,
        )  # fmt: skip
    level, depth = [element], 0
    while level:
        level, depth = [child for parent in level for child in parent], depth + 1
    if depth > _DEEPEST:
        raise RobotFileError(
            str(path), "nesting_too_deep", "elements are nested {depth} deep, more than {limit}",
            depth=depth, limit=_DEEPEST,
        )  # fmt: skip
    return element


def read_numbers(element: Element | None, attribute: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """Finite numbers of an attribute, as many as the default has; ValueError says which text is none.

    Only what every parser takes for the same number is one: ASCII digits, a point, an exponent. Python's float also
    takes `2_0` and the digits of other scripts, others take hexadecimal ones.
    """
    if element is None or attribute not in element.attrib:
        return default
    text = element.attrib[attribute]
    if "${" in text or "$(" in text:
        raise ValueError(f"{attribute} is '{text}', which xacro must fill in: xacro robot.xacro > robot.urdf")
    words = [word for word in re.split(r"[ \t\r\n]+", text) if word]
    if len(words) != len(default) or not all(_NUMBER.fullmatch(word) or _NOT_FINITE.fullmatch(word) for word in words):
        raise ValueError(f"{attribute} needs {len(default)} number{'s' * (len(default) > 1)}, got '{text}'")
    values = tuple(map(float, words))
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{attribute} must be finite, got '{text}'")
    return values


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
