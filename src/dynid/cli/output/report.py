"""What commands say and check about HTML reports, and the command that made a result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dynid.cli import terminal
from dynid.cli.options import urdf_options_as_arguments
from dynid.cli.project import values_in_use
from dynid.errors import DynidError
from dynid.estimation.diagnostics.verdict import Call
from dynid.estimation.identification import Identification
from dynid.estimation.identify import hold_out_share
from dynid.identifiability.parameters import BaseParameters
from dynid.logs.log import Log
from dynid.messages import Message
from dynid.physical.parameters import PhysicalParameters


def default_report_path(results: Sequence[Path]) -> Path:
    """Path of a report by default: beside the result; a comparison has a name of its own."""
    if not results[0].name:  # a root, or this folder, which is no result
        return Path("report.html")
    return results[0].with_suffix(".html") if len(results) == 1 else results[0].with_name("comparison.html")


def check_report_arguments(results: Sequence[Path], with_logs: bool) -> None:
    """Raise for arguments of `dynid report` that make no sense together, before any work."""
    resolved = [path.resolve() for path in results]
    if len(set(resolved)) < len(resolved):
        raise DynidError("same_result_twice", "the same result is named twice; a comparison needs different ones")
    if with_logs and len(results) > 1:
        raise DynidError(
            "option_not_applicable", "--log and --validate apply to a single RESULT; a comparison draws no curves",
        )  # fmt: skip


def load_physical_parameters(path: Path) -> PhysicalParameters | None:
    """Read physical parameters with their result; None where a file says to be something else, or nothing."""
    from dynid.physical.parameters import FORMAT

    try:
        with path.open(encoding="utf-8") as file:
            head = file.read(200)
    except (OSError, UnicodeDecodeError):
        return None
    return PhysicalParameters.load(path) if FORMAT in head else None


def write_page_of_drives(path: Path, place: Path, json: Path | None, logs: Sequence[str]) -> bool:
    """Write the page of a result of `dynid actuators` and say so; False where the file is something else."""
    from dynid.actuators.identify_actuators import FORMAT, Actuators
    from dynid.report.actuators import write_actuators_page
    from dynid.storage.records import read_format_name

    if not path.is_file() or read_format_name(path) != FORMAT:
        return False
    if logs:
        raise DynidError(
            "option_not_applicable", "{path}: a result of drives holds its rollouts; it reads no logs again",
            "leave out --log and --validate", path=path,
        )  # fmt: skip
    found = Actuators.load(path)
    write_actuators_page(found, place)
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    outputs.write_json_file(
        json,
        lambda: {"report": str(place), "bytes": place.stat().st_size, "verdicts": {
            found.robot.name: found.verdict.level}, "warnings": list(found.warnings)},
    )  # fmt: skip
    terminal.print_line(screen, f"{found.robot.name}: {found.verdict}", style="bold")
    screen.print(f"wrote {terminal.escape_markup(str(place))}", highlight=False, soft_wrap=True)
    outputs.finish(found.warnings)
    return True


def check_report_path(report: Path | None, others: Sequence[Path | None], keep: Sequence[Path]) -> None:
    """Check before any work that the report can be written and is none of the other files."""
    terminal.check_output_path("--report", report, suffixes=(".html",), keep=keep)
    for other in others:
        if report is not None and other is not None and other.resolve() == report.resolve():
            raise DynidError(
                "same_output_twice", "--report and another option both name {report}", "give them different names",
                report=report,
            )  # fmt: skip


def write_identification_report(
    result: Identification,
    place: Path,
    logs: Sequence[Log],
    validate: Sequence[Log] | float | None,
    tell: Callable[[str, float], None] | None,
    *,
    physical: PhysicalParameters | None = None,
    files: Sequence[Path] = (),
    warnings: Sequence[Message] = (),
) -> tuple[Message, ...]:
    """Write the report right after an identification, its logs at hand, and return its own warnings.

    files: further inputs; warnings: of what else was done.
    """
    from dynid.report.write import write_report

    used, others = tuple(logs), tuple(validate) if isinstance(validate, Sequence) else ()
    if isinstance(validate, float):
        used, others, _ = hold_out_share(used, validate)
    project = values_in_use()
    return write_report(
        result, place, logs=used, validate=others, physical=physical, warnings=warnings, on_progress=tell,
        inputs=[*files, *([project.file] if project else [])],
    )  # fmt: skip


def unique_result_names(files: Sequence[Path]) -> list[str]:
    """Names of results: those of their files, with folders where these are alike."""
    stems = [path.stem for path in files]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, files, strict=True)]


def command_as_typed() -> str:
    """The command line as it was typed, with what a project file added."""
    used = values_in_use()
    return used.command if used else shlex.join(["dynid", *sys.argv[1:]])


def record_command(
    result: Identification, robot: str, lock: Sequence[str], logs: Sequence[str], out: Path | None
) -> Identification:
    """Return the result with the command that made it, and the one that comes next."""
    command = command_as_typed()
    words = shlex.join([robot, *(word for name in lock for word in ("--lock", name)), *urdf_options_as_arguments()])
    saved = "" if out is None else shlex.quote(str(out))
    call = Call(command, words, " --unloaded ".join(map(shlex.quote, logs)), saved)
    origin = replace(result.origin, command=command)
    return result.replace(origin=origin, verdict=result.verdict.with_next_command(call))


def collect_warnings(results: Sequence[Identification], names: Sequence[str]) -> list[Message]:
    """Warnings of all results; of several, each with its name."""
    if len(results) == 1:
        return list(results[0].warnings)
    return [w.about(n) for n, r in zip(names, results, strict=True) for w in r.warnings]


def write_base_report(base: BaseParameters, path: Path, warnings: Sequence[Message]) -> None:
    """Write the page on a robot's base parameters."""
    from dynid.report.parameters import write_base_page

    write_base_page(base, path, warnings=warnings)
