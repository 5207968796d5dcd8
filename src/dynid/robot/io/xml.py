"""Reading XML from strangers (no entities, no document types, nothing outside its folder); names and numbers in XML."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from dynid.errors import RobotFileError
from dynid.messages import Option

_DEEPEST = 300
"""Elements inside each other in a file that is still read."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)


CONVERT_SDF = (
    "use the URDF or xacro file that it was made from, or convert it to URDF (for example by sdf2urdf.py of the ROS "
    "package pysdf)"
)
"""What to do with an SDF file, which is not read."""

XACRO_SECONDS, XACRO_MEMORY, XACRO_TEXT = 20, 2 * 1024**3, 64 * 1024**2
"""Limits of a xacro file: time in s, bytes of memory, bytes of the URDF."""

_XACRO_CHILD = """
import json, os, resource, sys
seconds, memory, longest, packages, prefixes, own, path, mappings = json.load(sys.stdin)
for limit, value in (
    ("RLIMIT_CPU", seconds), ("RLIMIT_AS", memory), ("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0), ("RLIMIT_NPROC", 0),
):
    try:
        resource.setrlimit(getattr(resource, limit), (value, value))
    except (AttributeError, OSError, ValueError):
        pass

def find(package):
    places = [base for base in (*own, *packages) if os.path.basename(base) == package]
    places += [os.path.join(base, package) for base in packages]
    places += [os.path.join(base, *way, package) for base in prefixes for way in (("share",), (package, "share"))]
    for place in places:
        if os.path.isdir(place):
            return place
    finish(str(package), 6)

def finish(text, code):
    data = memoryview(text.encode("utf-8", "replace")[: longest + 1])
    while data:
        data = data[os.write(out, data) :]
    os._exit(code)

out = os.dup(1)
os.dup2(2, 1)
try:
    import xacro
except ImportError:
    sys.exit(4)
try:
    import xacro.substitution_args as arguments
    arguments._eval_find = find
    arguments._eval_dict["find"] = find
except (ImportError, AttributeError, KeyError):
    pass
try:
    text = xacro.process_file(path, mappings=mappings).toprettyxml(indent="  ")
    code = 0 if len(text) <= longest else 5
except BaseException as error:
    text, code = f"{type(error).__name__}: {error}", 3
finish(text, code)
"""
"""What runs in a process of its own: limits first, so that a file can neither hang, nor fill memory or disk."""


def expand_xacro(
    path: Path, mappings: Mapping[str, str], packages: Sequence[Path], prefixes: Sequence[Path], own: Sequence[Path]
) -> str:
    """Return the URDF of a xacro file, expanded by the package xacro in a process with limits of time and memory.

    mappings: values of its arguments; packages, prefixes: folders in which `$(find package)` looks; own: packages that
    hold the file. The package evaluates Python expressions of the file, in a restricted way: files must be trusted.
    """
    folders = [[str(x.absolute()) for x in some] for some in (packages, prefixes, own)]
    request = [XACRO_SECONDS, XACRO_MEMORY, XACRO_TEXT, *folders, str(path.absolute()), dict(mappings)]
    command = [sys.executable, "-P", "-B", "-c", _XACRO_CHILD]
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=folder, start_new_session=True, **streams) as child,
    ):
        out: bytes = b""
        try:
            out = child.communicate(json.dumps(request).encode(), timeout=XACRO_SECONDS + 5)[0]
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)  # with what it may have started
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
    if child.returncode == 0:
        return out.decode("utf-8")
    if child.returncode == 4:
        raise RobotFileError(
            str(path), "needs_extra_package", "expanding it needs the package xacro", "pip install xacro",
        )  # fmt: skip
    if child.returncode == 6:
        raise RobotFileError(
            str(path), "package_not_found", "xacro cannot expand it: there is no ROS package '{package}'",
            "name the folder that holds it with {option}, or in ROS_PACKAGE_PATH",
            package=out.decode("utf-8", "replace")[:80], option=Option("package_path"),
        )  # fmt: skip
    what = "xacro cannot expand it: {reason}"
    if child.returncode == 3 and out:
        raise RobotFileError(
            str(path), "xacro_failed", what, reason=" ".join(out.decode("utf-8", "replace").split())[:400]
        )
    limits = f"it takes more than {XACRO_SECONDS} s, {XACRO_MEMORY // 2**30} GiB of memory or a URDF of 64 MiB"
    raise RobotFileError(str(path), "xacro_beyond_limits", what, "simplify it", reason=limits)


class _ElementWithLine(Element):
    """An element that knows where it stands."""

    place = ""


def file_and_line_text(element: Element) -> str:
    """File and line of an element as they begin an error, `line 12: `; empty for one that was not read."""
    return f"{element.place}: " if isinstance(element, _ElementWithLine) else ""


def read_xml(path: Path, root: str, remedy: str, *, also: str = "", text: str = "") -> Element:
    """Read an XML file and return its root element, which must have this tag, or the one in `also`.

    text: what is read in place of the file, where its macros were expanded.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, parse

    def create_element(tag: str, attributes: dict[str, str]) -> _ElementWithLine:
        """Element that remembers its file and line."""
        made = _ElementWithLine(tag, attributes)
        made.place = f"{f'{path.name} ' * bool(also)}line {parser.parser.CurrentLineNumber}"
        return made

    parser = DefusedXMLParser(target=TreeBuilder(element_factory=create_element), forbid_dtd=True)
    try:
        element = parse(io.StringIO(text) if text else path, parser).getroot()
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
        remedy = CONVERT_SDF if tag == "<sdf>" else remedy
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
        raise ValueError(
            f"{attribute} is '{text}', which xacro must fill in (xacro robot.xacro > robot.urdf, or --xacro)"
        )
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


def format_numbers(values: Iterable[float]) -> str:
    """Numbers as text with spaces between them, which reads back to the same floats."""
    return " ".join(repr(float(x) + 0.0) for x in values)
