"""The commands `physical`, `check`, `export`, `report` and `demo`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dynid.cli.options import (
    BoundOption,
    GeometryOption,
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    PackagePathOption,
    PriorWeightOption,
    RowsOption,
    SignOption,
    TotalMassOption,
    ZeroOption,
    complete_robot_name,
    load_robot_for_command,
    parse_locks,
    refuse_unused_options,
    robot_file_options,
)
from dynid.errors import DynidError
from dynid.messages import Message


def physical(
    result: Annotated[Path, typer.Argument(help="a result that dynid identify --out wrote")],
    *,
    prior: Annotated[str | None, typer.Option(help="a robot file or name, the prior of the links")] = None,
    total_mass: TotalMassOption = None,
    geometry: GeometryOption = None,
    package_path: PackagePathOption = None,
    bound: BoundOption = None,
    prior_weight: PriorWeightOption = None,
    ranges: Annotated[
        bool, typer.Option("--ranges", help="ranges over all bodies that fit as well; takes seconds")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="save all of it to this .json")] = None,
    json: JsonOption = None,
) -> None:
    """Find mass, centre of mass and inertia of every link that real bodies can have, from a result.

    Example: dynid physical result.json --total-mass 18 --out physical.json
    """
    from dynid.cli import terminal
    from dynid.cli.output import inertial
    from dynid.estimation.identification import Identification
    from dynid.physical.find import physical_parameters

    inputs = [result, *(Path(source) for source in (prior, geometry) if source)]
    terminal.check_output_path("--out", out, suffixes=(".json",), keep=inputs)
    terminal.check_output_path("--json", json, keep=inputs)
    if out is not None and json is not None and out.resolve() == json.resolve():
        raise DynidError("same_output_twice", "--out and --json both name {out}", "choose two names", out=out)
    bounds = inertial.parse_bounds(bound or [])
    identified = Identification.load(result)
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    found = physical_parameters(
        identified, prior=prior, total_mass=total_mass, bounds=bounds, geometry=geometry,
        package_path=package_path or (), prior_weight=prior_weight,
    )  # fmt: skip
    outputs.write_file(out, found.save)
    outputs.write_json_file(json, lambda: inertial.physical_json_data(found, ranges=ranges))
    inertial.show_physical_parameters(found, screen, ranges=ranges)
    outputs.show_written_files(screen)
    outputs.finish(found.warnings)


def check(
    robot: Annotated[str, typer.Argument(help="a .urdf, an MJCF .xml, a .toml table, or a bundled robot's name")],
    out: Annotated[Path | None, typer.Option("--out", help="write the mended robot as a .toml table")] = None,
    json: JsonOption = None,
) -> None:
    """List the links of a robot file that are physically impossible, and whether joint torques show it.

    Example: dynid check my_robot.urdf
    """
    from dynid.cli import terminal
    from dynid.cli.output import inertial
    from dynid.physical.check import check_robot
    from dynid.robot.io.toml_writer import table_text
    from dynid.storage.files import write_text

    terminal.check_output_path("--out", out, suffixes=(".toml",), keep=[Path(robot)])
    terminal.check_output_path("--json", json, keep=[Path(robot)])
    found = check_robot(robot, **robot_file_options())
    screen, outputs = terminal.make_console(json), terminal.Outputs()

    def write_mended(place: Path) -> None:
        if found.mended is None:
            raise DynidError(
                "nothing_to_write", "--out {place}: there is nothing to write; the file is in order or cannot be "
                "repaired", place=place,
            )  # fmt: skip
        write_text(place, table_text(found.mended.to_mdh()))

    outputs.write_file(out, write_mended)
    outputs.write_json_file(json, lambda: inertial.check_json_data(found))
    terminal.show_notes(found.robot, screen)
    inertial.show_check(found, screen)
    outputs.show_written_files(screen)
    outputs.finish(found.warnings)


# The command `export`: parse, call, show.


def export(
    result: Annotated[str, typer.Argument(help="a result .json of dynid, a robot file, or a bundled robot's name")],
    out: Annotated[Path, typer.Argument(help="the file to write: .urdf, .xml (MJCF), .toml, .c or .json")],
    template: Annotated[
        Path | None, typer.Option(help="a .urdf or .xml of which everything but inertias and friction is kept")
    ] = None,
    lock: LockOption = None,
    force: Annotated[bool, typer.Option("--force", help="write even a result that is not to be trusted")] = False,
    json: JsonOption = None,
) -> None:
    """Write a model that other software loads, and prove it: the file is loaded again and its torques compared.

    Example: dynid export result.json robot.c
    """
    from dynid.cli import terminal
    from dynid.exports.export import SUFFIXES
    from dynid.exports.export import export as exported

    terminal.check_output_path("OUT", out, suffixes=(*SUFFIXES, ".py"))
    terminal.check_output_path("--json", json, keep=[Path(result), *([template] if template else [])])
    if json is not None and json.resolve() == out.resolve():
        raise DynidError("same_output_twice", "OUT and --json both name {out}", "give them different names", out=out)
    if Path(result).is_file() and out.exists() and out.samefile(result) and out.suffix.lower() not in (".urdf", ".xml"):
        raise DynidError("output_is_input", "OUT {out}: this is the input", "choose another name", out=out)
    locks = parse_locks(lock or [])
    found = read_result(result, locks)
    if (
        Path(result).suffix.lower() != ".json"
        and template is None
        and not (out.suffix.lower() == ".urdf" and (found.source.lower().endswith(".urdf") or found.description))
    ):
        locks = {}  # the robot was loaded with them
    done = exported(found, out, template=template, lock=locks, force=force)
    checked = done.verification
    warnings = list(dict.fromkeys(done.warnings))

    def export_json_data() -> dict[str, Any]:
        facts: dict[str, Any] = {"file": str(out), "robot": done.subject.robot.name, "notes": list(done.notes)}
        facts |= {"warnings": warnings}
        facts |= {"reader": checked.reader, "error": checked.error, "skipped": checked.skipped}
        if done.replay is not None:
            facts["replay"] = {
                "reader": done.replay.reader, "nrmse": done.replay.nrmse, "mean": done.replay.mean,
                "completed": done.replay.completed, "mean_completed": done.replay.mean_completed,
                "cutoff": done.replay.cutoff, "is_validation": done.replay.is_validation,
                "identified": done.replay.identified,
            }  # fmt: skip
        if done.operations:
            costs = {**done.operations.functions, "inverse_dynamics_standard": done.operations.standard}
            facts["operations"] = {
                name: {"multiplications": c.multiplications, "additions": c.additions, "calls": c.calls}
                for name, c in costs.items()
            }
        return facts

    screen, outputs = terminal.make_console(json), terminal.Outputs()
    outputs.write_json_file(json, export_json_data)
    screen.print(f"wrote {terminal.escape_markup(str(out))}", highlight=False, soft_wrap=True)
    screen.print(terminal.escape_markup(str(checked)), highlight=False, soft_wrap=True)
    if done.replay is not None:
        screen.print(terminal.escape_markup(str(done.replay)), highlight=False, soft_wrap=True)
    for line in done.operations.lines() if done.operations else ():
        screen.print(terminal.escape_markup(line), highlight=False)
    for note in done.notes:
        terminal.show_note(note, screen)
    outputs.finish(warnings)


def read_result(source: str, lock: dict[str, float]) -> Any:
    """Read a result of dynid (identification, physical parameters, drives, robot), a robot file, or a bundled robot."""
    from dynid.actuators.identify_actuators import FORMAT as DRIVES
    from dynid.actuators.identify_actuators import Actuators
    from dynid.estimation.identification import Identification
    from dynid.exports.subject import FORMAT, read_robot_json
    from dynid.storage.records import read_format_name

    path = Path(source)
    if path.suffix.lower() != ".json":
        return load_robot_for_command(source, lock=lock)
    if not path.is_file():
        raise DynidError("file_not_found", "there is no file '{source}'", source=source)
    if robot_file_options():
        raise DynidError(
            "option_not_applicable", "--xacro and --package-path are about robot files; '{source}' is a result",
            "leave them out", source=source,
        )  # fmt: skip
    form = read_format_name(path)
    if form == FORMAT:
        return read_robot_json(path)
    if form == DRIVES:
        return Actuators.load(path)
    if form.startswith("dynid physical"):
        import dynid

        kind = getattr(dynid, "PhysicalParameters", None)
        if kind is None:
            raise DynidError(
                "physical_parameters_unsupported", "{source}: this version of dynid has no physical parameters",
                source=source,
            )  # fmt: skip
        return kind.load(path)
    return Identification.load(path)


# The command `report`: parse, call, show.


def report(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT...", help="of identify, physical, actuators --out; several compare"),
    ],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="the .html to write (default: next to the result)")] = None,
    log: Annotated[list[str] | None, typer.Option(help="a LOG of the result, to draw its curves; repeatable")] = None,
    validate: Annotated[list[str] | None, typer.Option(help="another LOG to predict; repeatable")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as for identify")] = None,
    units: Annotated[list[str] | None, typer.Option(help="units other than SI: q=deg,tau=Nmm")] = None,
    gear: Annotated[
        str | None, typer.Option(help="gear ratio, motor over joint: one number, one per joint, or a matrix FILE")
    ] = None,
    gain: Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")] = None,
    topic: Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")] = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    json: JsonOption = None,
) -> None:
    """Write one HTML page on a result that works offline, or put several results side by side.

    Example: dynid report result.json --log log.csv@0%:65% --validate log.csv@65%:
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import identification
    from dynid.cli.output import report as report_output
    from dynid.estimation.identification import Identification
    from dynid.report.write import write_report

    words = [*(log or ()), *(validate or ())]
    report_output.check_report_arguments(results, bool(words))
    if not words:
        reading = {
            "--column": column, "--units": units, "--gear": gear, "--gain": gain, "--topic": topic, "--sign": sign,
            "--zero": zero, "--order": order, "--header": header, "--rows": rows,
        }  # fmt: skip
        refuse_unused_options(reading, "says how to read logs; give some with --log")
    place = report_output.default_report_path(results) if out is None else out
    keep = [*results, *log_options.files_of_log_arguments(words)]
    log_options.check_output_files(place, json, suffixes=(".html",), keep=keep)
    if len(results) == 1 and report_output.write_page_of_drives(results[0], place, json, words):
        return
    bodies = report_output.load_physical_parameters(results[0]) if len(results) == 1 else None
    found = [bodies.identification] if bodies else [Identification.load(path) for path in results]
    screen = terminal.make_console(json)
    common = {"command": report_output.command_as_typed(), "inputs": results}
    page_warnings: tuple[Message, ...] = ()
    if len(found) > 1:
        names = report_output.unique_result_names(results)
        page_warnings = write_report(found, place, names=names, **common)  # type: ignore[arg-type]
    else:
        names = [found[0].robot.name]
        reader = log_options.LogReader.from_options(
            found[0].robot, column or [], units or [], gear, gain, topic, sign=sign, zero=zero, order=order,
            header=header, rows=rows,
        )  # fmt: skip
        logs, others = ([reader.read_log(word) for word in some or ()] for some in (log, validate))
        with identification.show_progress(screen) as tell:
            page_warnings = write_report(
                found[0], place, logs=logs, validate=others, physical=bodies, on_progress=tell,
                **common,  # type: ignore[arg-type]
            )  # fmt: skip
    outputs = terminal.Outputs()
    warnings = [*report_output.collect_warnings(found, names), *(bodies.warnings if bodies else ()), *page_warnings]
    warnings = list(dict.fromkeys(warnings))
    verdicts = {n: r.verdict.level for n, r in zip(names, found, strict=True)}
    outputs.write_json_file(
        json,
        lambda: {"report": str(place), "bytes": place.stat().st_size, "verdicts": verdicts, "warnings": warnings},
    )
    terminal.show_project_values(screen)
    for name, result in zip(names, found, strict=True):
        terminal.print_line(screen, f"{name}: {result.verdict}", style="bold")
    if len(found) == 1 and not words:
        terminal.print_line(screen, "no curves: a result holds no logs; --log log.csv reads them again")
    screen.print(f"wrote {terminal.escape_markup(str(place))}", highlight=False, soft_wrap=True)
    outputs.finish(warnings)


# The command `demo`: parse, call, show.


def demo(
    robot: Annotated[
        str, typer.Argument(help="a bundled robot or a file", autocompletion=complete_robot_name)
    ] = "puma560",
    out: Annotated[Path, typer.Option("--out", help="folder for the files")] = Path("out/demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="of motions and noise")] = 0,
    json: JsonOption = None,
) -> None:
    """Do the main job on a robot, simulated: exciting motion, noisy recording, identification, validation, report.

    Example: dynid demo panda
    """
    from dynid.cli import terminal
    from dynid.cli.output.identification import show_progress
    from dynid.demo import MainJob

    terminal.check_output_path("--json", json)
    job = MainJob(load_robot_for_command(robot), out, seed=seed)
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    terminal.show_notes(job.robot, screen)
    with show_progress(screen, "demo") as tell:
        for done, text in job.run():
            terminal.print_line(screen, text)
            if tell:
                tell("demo", done)
    outputs.write_json_file(json, lambda: job.facts)
    outputs.failed += job.failures
    terminal.show_summary(job.summary, screen)
    outputs.finish(job.warnings)
