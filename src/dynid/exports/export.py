"""The front door: a result or robot into a file that other software loads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.estimation.identification import Identification
from dynid.exports.c_code import Operations, write_c
from dynid.exports.mjcf import write_mjcf
from dynid.exports.robot_json import write_robot_json
from dynid.exports.subject import ExportError, Subject, subject_of
from dynid.exports.urdf_new import write_urdf
from dynid.exports.urdf_update import check_same, update_urdf
from dynid.models.friction import PLAIN
from dynid.robot.files import write_bytes
from dynid.robot.table_text import table_text

SUFFIXES = (".urdf", ".xml", ".toml", ".c", ".json")


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What was written: the file, the robot and friction in it, notes to read, and operations of C code."""

    path: Path
    subject: Subject
    notes: tuple[str, ...]
    operations: Operations | None = None


def export(
    result: Any,
    path: str | os.PathLike[str],
    *,
    template: str | os.PathLike[str] | None = None,
    lock: Mapping[str, float] | None = None,
) -> Export:
    """Write an Identification, PhysicalParameters or Robot by the suffix: .urdf, .xml (MJCF), .toml, .c or .json.

    template: a URDF whose inertial elements are replaced while all else stays, byte for byte; if missing, the URDF that
    the robot was loaded from, if it is still there and fits, else a new one is made. lock: joints of the template that
    were held during identification. A bare Identification is made physical first where bodies are needed.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ExportError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}")
    if template is not None and suffix != ".urdf":
        raise ExportError(f"{path}: a template is for .urdf files")
    if isinstance(result, Identification) and suffix in (".urdf", ".xml"):
        result = _physical(result, suffix)
    subject = subject_of(result)
    operations = None
    match suffix:
        case ".urdf":
            data, notes = _urdf(subject, template, lock or {})
        case ".xml":
            text, notes = write_mjcf(subject)
            data = text.encode()
        case ".c":
            code = write_c(subject)
            data, notes, operations = code.text.encode(), (), code.operations
        case ".toml":
            data, notes = table_text(subject.robot).encode(), _base_notes(subject)
        case _:
            data, notes = write_robot_json(subject).encode(), _base_notes(subject)
    write_bytes(path, data)
    left_out = () if suffix == ".c" else _left_out(subject)
    return Export(path, subject, (*subject.notes, *left_out, *notes), operations)


def _left_out(subject: Subject) -> tuple[str, ...]:
    """Friction that only the C code holds."""
    friction = subject.friction
    if not np.array_equal(friction.transmission, np.eye(len(friction.transmission))):
        return ("friction of motors that drive several joints is left out; only .c files hold it",)
    more = [block for block in friction.blocks if block not in PLAIN]
    return (f"friction blocks {', '.join(more)} are left out; only .c files hold them",) if more else ()


def _base_notes(subject: Subject) -> tuple[str, ...]:
    if not subject.of_base:
        return ()
    return ("the values are base parameters under the names of standard ones: right torques, but no real bodies",)


def _physical(result: Identification, suffix: str) -> Any:
    """Find real bodies for the base parameters, where dynid has the means."""
    import dynid

    make = getattr(dynid, "physical_parameters", None)
    if make is None:
        raise ExportError(
            f"a {suffix} file needs mass, centre of mass and inertia of every link, and base parameters are sums of "
            "them; get physical parameters first, or export .c, .toml or .json"
        )
    return make(result)


def _urdf(
    subject: Subject, template: str | os.PathLike[str] | None, lock: Mapping[str, float]
) -> tuple[bytes, tuple[str, ...]]:
    if template is not None:
        if not Path(template).is_file():
            raise ExportError(f"there is no template '{template}'")
        if Path(template).suffix.lower() != ".urdf":
            raise ExportError(f"template '{template}': only a .urdf can be updated")
        return update_urdf(subject, Path(template), lock)
    source = Path(subject.robot.source) if subject.robot.source.lower().endswith(".urdf") else None
    reason: tuple[str, ...] = ()
    if source is not None and source.is_file():
        try:
            check_same(subject.robot, source, lock)
        except ExportError as error:
            reason = (f"a new URDF was made: {error}",)
        else:
            data, notes = update_urdf(subject, source, lock)
            return data, (f"all but the inertial elements is taken from {source}", *notes)
    text, notes = write_urdf(subject)
    return text.encode(), (*reason, *notes)
