"""The front door: a result or robot into a file that other software loads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dynid.actuators.identify_actuators import Actuators
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError, ExportError, RobotFileError
from dynid.estimation.identification import Identification
from dynid.estimation.solve.sequential import Sequential
from dynid.exports.actuators import actuator_notes, with_actuators, write_isaac_lab
from dynid.exports.c_code import Operations, write_c_code, write_sequential_c_code
from dynid.exports.mjcf import update_mjcf, write_mjcf
from dynid.exports.subject import (
    ExportSubject,
    friction_left_out_warnings,
    make_export_subject,
    no_friction,
    rotor_spin_warnings,
    soft_spring_notes,
    with_plain_friction,
    write_robot_json,
)
from dynid.exports.urdf import template_friction_warnings, update_urdf, write_urdf
from dynid.exports.verify import Replay, Verification, replay_under_name, verify_sequential, verify_under_name
from dynid.messages import Message, Option
from dynid.physical.find import physical_parameters
from dynid.robot.io.toml_writer import table_text
from dynid.storage.files import write_text, write_then_replace

SUFFIXES = (".urdf", ".xml", ".toml", ".c", ".json")


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What was written.

    Attributes
    ----------
    path : Path
        The file.
    subject : ExportSubject
        What it was made from.
    notes : tuple of Message
        What else is good to know.
    warnings : tuple of Message
        Torques of the model that the file does not have.
    verification : Verification
        How well the file agrees with the model when it is read again.
    operations : Operations or None
        Number of operations of C code.
    replay : Replay or None
        Errors of the file itself on recordings, None if the result keeps none.
    """

    path: Path
    subject: ExportSubject
    notes: tuple[Message, ...]
    warnings: tuple[Message, ...]
    verification: Verification
    operations: Operations | None = None
    replay: Replay | None = None


@one_blas_thread
def export(
    result: Any,
    path: str | os.PathLike[str],
    *,
    template: str | os.PathLike[str] | None = None,
    lock: Mapping[str, float] | None = None,
    force: bool = False,
) -> Export:
    """Write a result or robot in the format of the file's suffix: .urdf, .xml (MJCF), .toml, .c or .json.

    Parameters
    ----------
    result : Identification, PhysicalParameters, Actuators, Robot or Sequential
        What to write. A bare Identification is made physically consistent first where bodies are needed; a `Sequential`
        becomes C code (.c) that follows samples as it does.
    path : str or path
        The file.
    template : str or path, optional
        URDF or MJCF file whose inertias, armatures and friction are replaced while all else stays, byte for byte.
        Default: the file that the robot was loaded from, if it still exists and fits, else a new one is made.
    lock : mapping of str to float, optional
        Joints of a URDF template that were held during identification, with their positions, rad or m. Default:
        `robot.locks`.
    force : bool
        Whether to write a .urdf or .xml of a result whose verdict is "do not trust", which is refused otherwise.

    Returns
    -------
    Export
        The file, warnings, and how well it agrees with the model.

    Raises
    ------
    ExportError
        If the format does not fit, or the file does not give the torques of the model; then nothing is written.

    Notes
    -----
    The file is loaded again and its torques are compared (`verify`) before it takes its place. Friction that a robot
    file cannot hold becomes viscous and Coulomb friction, refitted to the data.

    Examples
    --------
    >>> from dynid import export, load_robot
    >>> written = export(load_robot("scara"), "arm.urdf")
    >>> written.verification.passed
    True
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if isinstance(result, Sequential):
        return _export_sequential(result, path)
    drives = result if isinstance(result, Actuators) else None
    if drives is not None and suffix in (".py", ".json"):
        return _export_drives(drives, path)
    if suffix not in SUFFIXES:
        raise ExportError(
            "unsupported_suffix", "{path}: the name must end in one of {suffixes}", path=path, suffixes=list(SUFFIXES),
        )  # fmt: skip
    if template is not None and suffix not in (".urdf", ".xml"):
        raise ExportError("template_not_applicable", "{path}: a template is for .urdf and .xml files", path=path)
    if lock and suffix != ".urdf":
        raise ExportError(
            "lock_without_template", "{path}: {lock} is for the joints of a URDF template; other files hold the robot "
            "as it is", path=path, lock=Option("lock"),
        )  # fmt: skip
    distrust: tuple[Message, ...] = ()
    if suffix in (".urdf", ".xml"):
        distrust = _check_trust(result, path, force)
        if isinstance(result, Identification):
            result = physical_parameters(result)
            distrust = distrust or _check_trust(result, path, force)
    subject = make_export_subject(result)
    if drives is not None:
        subject = replace(subject, keeps_softness=True)
    identified = subject.friction
    subject, left_out = (subject, ()) if suffix == ".c" else with_plain_friction(subject, suffix)
    refitted: tuple[Message, ...] = ()
    if subject.friction is not identified:
        what = "friction ({blocks}) is held as viscous and Coulomb friction, refitted to the data with these bodies"
        refitted = (Message("friction_refitted", what, blocks=list(identified.blocks)),)
    warnings = (*distrust, *subject.losses, *left_out)
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
    for make in _export_attempts(subject, path, template, held):
        try:
            made = make()
            if drives is not None and suffix == ".xml":
                data, kept = with_actuators(made.data, drives, made.template)
                made = made._replace(data=data, notes=(*made.notes, *kept, *actuator_notes(drives)))
            with write_then_replace(path) as beside:
                beside.write_bytes(made.data)
                checked = _verify_before_rename(path, beside, subject, held)
                replay = replay_under_name(beside, subject, held, path)
        except (ExportError, RobotFileError) as error:
            form = "URDF" if suffix == ".urdf" else "MJCF"
            reason = (Message("template_not_usable", "a new {form} was made: {reason}", form=form, reason=error),)
            failure = error
            continue
        notes = (*reason, *refitted, *made.notes)
        warnings = (*warnings, *made.losses, *(() if replay is None else replay.warnings))
        return Export(path, subject, notes, warnings, checked, made.operations, replay)
    assert failure is not None
    raise failure


def _export_sequential(tracker: Sequential, path: Path) -> Export:
    """Write C code that follows samples as a `Sequential` does; its factors are compared before it takes its place."""
    if path.suffix.lower() != ".c":
        raise ExportError("unsupported_suffix", "{path}: a Sequential is written as C code, .c", path=path)
    text, subject = write_sequential_c_code(tracker), ExportSubject(tracker.robot, no_friction(tracker.robot), False)
    with write_then_replace(path) as beside:
        beside.write_text(text, encoding="utf-8")
        checked = verify_sequential(beside, tracker, path)
        if not checked.skipped and not checked.passed:
            raise ExportError("export_differs", "{path} is not written: {checked}", path=path, checked=str(checked))
    return Export(path, subject, (), (), checked)


def _export_drives(drives: Actuators, path: Path) -> Export:
    """Write drives as the result's own file, or as a file for Isaac Lab, whose syntax alone is checked."""
    subject = make_export_subject(drives)
    notes: tuple[Message, ...] = ()
    if path.suffix.lower() == ".json":
        drives.save(path)
    else:
        write_text(path, write_isaac_lab(drives, path.name))
        what = "{path}: only its syntax was checked; it was not run in Isaac Lab"
        notes = (Message("isaac_lab_syntax_only", what, path=path),)
    return Export(path, subject, notes, (), Verification("", float("nan"), "drives have no torques to compare"))


def _check_trust(result: Any, path: Path, force: bool) -> tuple[Message, ...]:
    """Raise for a result that is not to be trusted; with `force` return a warning instead.

    Simulators and controllers load such files, which say nothing of a verdict.
    """
    verdicts = [getattr(x, "verdict", None) for x in (result, getattr(result, "identification", None))]
    for verdict in verdicts:
        if verdict is not None and verdict.level == "do not trust":
            reason = next((reason.what for reason in verdict.reasons), "")
            what = "the result is not to be trusted: {reason}"
            if not force:
                raise ExportError(
                    "untrusted_result", "{path} is not written: " + what, "see its verdict, or use {option}",
                    path=path, reason=reason, option=Option("force", True),
                )  # fmt: skip
            return (Message("untrusted_result", "{path}: " + what, path=path, reason=reason),)
    return ()


class _ExportContent(NamedTuple):
    """Content of a file, notes, warnings of what it does not have, operations of C code, the MJCF it was made from."""

    data: bytes
    notes: tuple[Message, ...] = ()
    losses: tuple[Message, ...] = ()
    operations: Operations | None = None
    template: Path | None = None


def _export_attempts(
    subject: ExportSubject, path: Path, template: str | os.PathLike[str] | None, lock: Mapping[str, float]
) -> list[Callable[[], _ExportContent]]:
    """Functions that make the content, to be tried in turn: a file that cannot be updated is made anew."""
    source, suffix = Path(subject.robot.source), path.suffix.lower()
    has_source = source.suffix.lower() == suffix and source.is_file()
    match suffix:
        case ".urdf":
            if template is not None:
                return [lambda: _updated_urdf_content(subject, Path(template), lock)]
            first: list[Callable[[], _ExportContent]] = []
            if has_source:
                first = [lambda: _updated_urdf_content(subject, source, lock, source=source)]
            elif subject.robot.description:
                first = [lambda: _updated_expansion_content(subject, lock)]
            return [*first, lambda: _new_urdf_content(subject)]
        case ".xml":
            if template is not None:
                return [lambda: _updated_mjcf_content(subject, Path(template), path)]
            first = [lambda: _updated_mjcf_content(subject, source, path, source=source)]
            return [*(first if has_source else []), lambda: _mjcf_content(subject)]
        case ".c":
            return [lambda: _c_content(subject)]
    notes = (_BASE_NOTE,) if subject.of_base else ()
    write = write_robot_json if suffix == ".json" else _table_content
    return [lambda: _ExportContent(write(subject).encode(), notes)]


_BASE_NOTE = Message(
    "base_parameter_values",
    "the values are base parameters under the names of standard ones: correct torques, but physically impossible "
    "bodies",
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
    return _ExportContent(text.encode(), (*notes, *soft_spring_notes(subject)), friction_left_out_warnings(subject))


def _new_urdf_content(subject: ExportSubject) -> _ExportContent:
    """Content of a new URDF, with notes and warnings on what it leaves out."""
    text, notes = write_urdf(subject)
    return _ExportContent(text.encode(), notes, friction_left_out_warnings(subject))


def _updated_mjcf_content(
    subject: ExportSubject, template: Path, path: Path, *, source: Path | None = None
) -> _ExportContent:
    """Content of the template MJCF with new inertias, armatures and friction, with notes and warnings."""
    _check_template(template, ".xml")
    data, notes, subject = update_mjcf(subject, template, path.parent)
    losses = friction_left_out_warnings(subject)
    notes = (*notes, *soft_spring_notes(subject))
    what = "all but inertias, armatures and friction is taken from {template}"
    said = (Message("template_from_source", what, template=source),) if source else ()
    return _ExportContent(data, (*said, *notes), losses, template=template)


def _check_template(template: Path, suffix: str) -> None:
    """Raise for a template that does not exist, or is of another format."""
    if not template.is_file():
        raise ExportError("file_not_found", "there is no template '{template}'", template=template)
    if template.suffix.lower() != suffix:
        raise ExportError(
            "template_of_other_format", "template '{template}': a {suffix} file is made from a {suffix}",
            template=template, suffix=suffix,
        )  # fmt: skip


def _updated_urdf_content(
    subject: ExportSubject, template: Path, lock: Mapping[str, float], *, source: Path | None = None
) -> _ExportContent:
    """Content of the template URDF with new inertial elements and friction, with notes and warnings."""
    _check_template(template, ".urdf")
    data, notes = update_urdf(subject, template, lock)
    what = "all but the inertial elements and friction is taken from {template}"
    said = (Message("template_from_source", what, template=source),) if source else ()
    losses = (*friction_left_out_warnings(subject), *template_friction_warnings(subject.robot, template, lock))
    return _ExportContent(data, (*said, *notes), losses)


def _updated_expansion_content(subject: ExportSubject, lock: Mapping[str, float]) -> _ExportContent:
    """Content of the URDF that a xacro file was expanded to, with new inertial elements."""
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "expanded.urdf"
        template.write_text(subject.robot.description, encoding="utf-8")
        return _updated_urdf_content(subject, template, lock, source=Path(subject.robot.source))


def _verify_before_rename(path: Path, beside: Path, subject: ExportSubject, lock: Mapping[str, float]) -> Verification:
    """Verify the temporary file before it takes its place; ExportError where it is not the model."""
    try:
        checked = verify_under_name(path, beside, subject, lock)
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
