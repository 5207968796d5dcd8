"""The front door: a result or robot into a file that other software loads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError, ExportError, RobotFileError
from dynid.estimation.identification import Identification
from dynid.exports.c_code import Operations, write_c_code
from dynid.exports.mjcf import write_mjcf
from dynid.exports.robot_json import write_robot_json
from dynid.exports.subject import ExportSubject, friction_left_out_warnings, make_export_subject, rotor_spin_warnings
from dynid.exports.urdf import template_friction_warnings, update_urdf, write_urdf
from dynid.exports.verify import Verification, verify_named_file
from dynid.messages import Message, Option
from dynid.physical.find import physical_parameters
from dynid.robot.io.toml_writer import table_text
from dynid.storage.files import write_then_replace

SUFFIXES = (".urdf", ".xml", ".toml", ".c", ".json")


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What was written: the file, what it was made from, what it was worth when read again, the operations of C code.

    warnings: torques of the model that the file does not have; notes: what else is good to know.
    """

    path: Path
    subject: ExportSubject
    notes: tuple[Message, ...]
    warnings: tuple[Message, ...]
    verification: Verification
    operations: Operations | None = None


@one_blas_thread
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
    were held during identification, by default those that the robot knows of (`robot.locks`). A bare Identification is
    made physical first where bodies are needed.

    The file is loaded again and its torques are compared (`verify`) before it takes its place: where that fails,
    nothing is written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ExportError(
            "unsupported_suffix", "{path}: the name must end in one of {suffixes}", path=path, suffixes=list(SUFFIXES),
        )  # fmt: skip
    if template is not None and suffix != ".urdf":
        raise ExportError("template_not_applicable", "{path}: a template is for .urdf files", path=path)
    if lock and suffix != ".urdf":
        raise ExportError(
            "lock_without_template", "{path}: {lock} is for the joints of a URDF template; other files hold the robot "
            "as it is", path=path, lock=Option("lock"),
        )  # fmt: skip
    if isinstance(result, Identification) and suffix in (".urdf", ".xml"):
        result = physical_parameters(result)
    subject = make_export_subject(result)
    warnings = subject.losses
    if suffix != ".c" and not subject.friction.is_plain:
        what = "friction ({blocks}) is left out; only .c files hold such"
        warnings += (Message("friction_left_out", what, blocks=list(subject.friction.blocks)),)
    warnings += rotor_spin_warnings(subject.robot) if suffix in (".urdf", ".xml", ".c") else ()
    held = lock or (subject.robot.locks if suffix == ".urdf" else {})
    reason: tuple[Message, ...] = ()
    failure: DynidError | None = None
    has_template = template or Path(subject.robot.source).suffix.lower() == ".urdf" or subject.robot.description
    if lock and suffix == ".urdf" and not has_template:
        raise ExportError(
            "lock_without_template", "{lock} is for the joints of a URDF template, and there is none", "leave it out",
            lock=Option("lock"),
        )  # fmt: skip
    for make in _export_attempts(subject, suffix, template, held):
        try:
            made = make()
            with write_then_replace(path) as beside:
                beside.write_bytes(made.data)
                checked = _verify_before_rename(path, beside, subject, held)
        except (ExportError, RobotFileError) as error:
            reason = (Message("template_not_usable", "a new URDF was made: {reason}", reason=error),)
            failure = error
            continue
        return Export(path, subject, (*reason, *made.notes), (*warnings, *made.losses), checked, made.operations)
    assert failure is not None
    raise failure


class _ExportContent(NamedTuple):
    """Content of a file, notes, warnings of what it does not have, and the operations of C code."""

    data: bytes
    notes: tuple[Message, ...] = ()
    losses: tuple[Message, ...] = ()
    operations: Operations | None = None


def _export_attempts(
    subject: ExportSubject, suffix: str, template: str | os.PathLike[str] | None, lock: Mapping[str, float]
) -> list[Callable[[], _ExportContent]]:
    """Ways to make the file, to be tried in turn: a URDF that cannot be updated is made anew."""
    match suffix:
        case ".urdf":
            source = Path(subject.robot.source)
            if template is not None:
                return [lambda: _updated_urdf_content(subject, Path(template), lock)]
            has_source = source.suffix.lower() == ".urdf" and source.is_file()
            first: list[Callable[[], _ExportContent]] = []
            if has_source:
                first = [lambda: _updated_urdf_content(subject, source, lock, told=source)]
            elif subject.robot.description:
                first = [lambda: _updated_expansion_content(subject, lock)]
            return [*first, lambda: _new_urdf_content(subject)]
        case ".xml":
            return [lambda: _mjcf_content(subject)]
        case ".c":
            return [lambda: _c_content(subject)]
    notes = (_BASE_NOTE,) if subject.of_base else ()
    write = write_robot_json if suffix == ".json" else _table_content
    return [lambda: _ExportContent(write(subject).encode(), notes)]


_BASE_NOTE = Message(
    "base_parameter_values",
    "the values are base parameters under the names of standard ones: right torques, but no real bodies",
)


def _table_content(subject: ExportSubject) -> str:
    """Text of the TOML table."""
    return table_text(subject.robot)


def _c_content(subject: ExportSubject) -> _ExportContent:
    """Content of the C file, with its operations."""
    code = write_c_code(subject)
    return _ExportContent(code.text.encode(), operations=code.operations)


def _mjcf_content(subject: ExportSubject) -> _ExportContent:
    """Content of the MJCF file, with notes and warnings on what it leaves out."""
    text, notes = write_mjcf(subject)
    return _ExportContent(text.encode(), notes, friction_left_out_warnings(subject.robot))


def _new_urdf_content(subject: ExportSubject) -> _ExportContent:
    """Content of a new URDF, with notes and warnings on what it leaves out."""
    text, notes = write_urdf(subject)
    return _ExportContent(text.encode(), notes, friction_left_out_warnings(subject.robot))


def _updated_urdf_content(
    subject: ExportSubject, template: Path, lock: Mapping[str, float], *, told: Path | None = None
) -> _ExportContent:
    """Content of the template URDF with new inertial elements, with notes and warnings."""
    if not template.is_file():
        raise ExportError("file_not_found", "there is no template '{template}'", template=template)
    if template.suffix.lower() != ".urdf":
        raise ExportError("template_not_urdf", "template '{template}': only a .urdf can be updated", template=template)
    data, notes = update_urdf(subject, template, lock)
    what = "all but the inertial elements is taken from {template}"
    said = (Message("template_from_source", what, template=told),) if told else ()
    return _ExportContent(data, (*said, *notes), template_friction_warnings(subject.robot, template, lock))


def _updated_expansion_content(subject: ExportSubject, lock: Mapping[str, float]) -> _ExportContent:
    """Content of the URDF that a xacro file was expanded to, with new inertial elements."""
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "expanded.urdf"
        template.write_text(subject.robot.description, encoding="utf-8")
        return _updated_urdf_content(subject, template, lock, told=Path(subject.robot.source))


def _verify_before_rename(path: Path, beside: Path, subject: ExportSubject, lock: Mapping[str, float]) -> Verification:
    """Read the file again, before it takes its place; ExportError where it is not the model."""
    try:
        checked = verify_named_file(path, beside, subject, lock)
    except RobotFileError as error:
        raise ExportError(
            "format_cannot_hold_robot", "a {suffix} file cannot hold this robot: {reason}",
            "get physical parameters first, or export .c or .json", suffix=path.suffix, reason=error.problems[0],
        ) from error  # fmt: skip
    if not checked.passed and not checked.skipped:
        raise ExportError(
            "export_check_failed", "{path} was not written: {verification}", path=path, verification=str(checked),
        )  # fmt: skip
    return checked
