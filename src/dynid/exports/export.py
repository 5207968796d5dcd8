"""The front door: a result or robot into a file that other software loads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid.errors import ExportError, RobotFileError
from dynid.estimation.identification import Identification
from dynid.exports.c_code import Operations, write_c
from dynid.exports.joints import friction_losses
from dynid.exports.mjcf import write_mjcf
from dynid.exports.robot_json import write_robot_json
from dynid.exports.subject import Subject, spin_losses, subject_of
from dynid.exports.urdf_new import write_urdf
from dynid.exports.urdf_update import check_same, unlike_friction, update_urdf
from dynid.physical.find import physical_parameters
from dynid.robot.files import write_bytes, write_text
from dynid.robot.load import load_robot
from dynid.robot.table_text import table_text

SUFFIXES = (".urdf", ".xml", ".toml", ".c", ".json")


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What was written: the file, what it was made from, and the operations of C code.

    warnings: torques of the model that the file does not have; notes: what else is good to know.
    """

    path: Path
    subject: Subject
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
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
    if lock and suffix != ".urdf":
        raise ExportError(f"{path}: lock= is for the joints of a URDF template; other files hold the robot as it is")
    if isinstance(result, Identification) and suffix in (".urdf", ".xml"):
        result = physical_parameters(result)
    subject = subject_of(result)
    operations = None
    warnings = subject.losses
    if suffix != ".c" and not subject.friction.is_plain:
        warnings += (f"friction ({', '.join(subject.friction.blocks)}) is left out; only .c files hold such",)
    warnings += spin_losses(subject.robot) if suffix in (".urdf", ".xml", ".c") else ()
    match suffix:
        case ".urdf":
            data, notes, lost = _urdf(subject, template, lock or {})
            warnings += lost
        case ".xml":
            text, notes = write_mjcf(subject)
            data = text.encode()
            warnings += friction_losses(subject.robot)
        case ".c":
            code = write_c(subject)
            data, notes, operations = code.text.encode(), (), code.operations
        case ".toml":
            data, notes = _table(subject).encode(), _base_notes(subject)
        case _:
            data, notes = write_robot_json(subject).encode(), _base_notes(subject)
    write_bytes(path, data)
    return Export(path, subject, notes, warnings, operations)


def _base_notes(subject: Subject) -> tuple[str, ...]:
    if not subject.of_base:
        return ()
    return ("the values are base parameters under the names of standard ones: right torques, but no real bodies",)


def _table(subject: Subject) -> str:
    """Return the table, which must be one that `load_robot` takes."""
    text = table_text(subject.robot)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.toml"
        write_text(file, text)
        try:
            load_robot(file, snap=False)
        except RobotFileError as error:
            raise ExportError(
                f"a table cannot hold this robot: {error.problems[0]}; get physical parameters first, "
                "or export .c or .json"
            ) from error
    return text


def _urdf(
    subject: Subject, template: str | os.PathLike[str] | None, lock: Mapping[str, float]
) -> tuple[bytes, tuple[str, ...], tuple[str, ...]]:
    """Return the file, notes, and warnings of what it does not have."""
    if template is not None:
        if not Path(template).is_file():
            raise ExportError(f"there is no template '{template}'")
        if Path(template).suffix.lower() != ".urdf":
            raise ExportError(f"template '{template}': only a .urdf can be updated")
        return _updated(subject, Path(template), lock)
    source = Path(subject.robot.source) if subject.robot.source.lower().endswith(".urdf") else None
    reason: tuple[str, ...] = ()
    if source is not None and source.is_file():
        try:
            check_same(subject.robot, source, lock)
        except ExportError as error:
            reason = (f"a new URDF was made: {error}",)
        else:
            data, notes, lost = _updated(subject, source, lock)
            return data, (f"all but the inertial elements is taken from {source}", *notes), lost
    if lock and source is None:
        raise ExportError("lock= is for the joints of a URDF template; there is none, so leave it out")
    text, notes = write_urdf(subject)
    return text.encode(), (*reason, *notes), friction_losses(subject.robot)


def _updated(
    subject: Subject, template: Path, lock: Mapping[str, float]
) -> tuple[bytes, tuple[str, ...], tuple[str, ...]]:
    data, notes = update_urdf(subject, template, lock)
    return data, notes, unlike_friction(subject.robot, template, lock)
