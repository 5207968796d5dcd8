"""The commands `robots`, `mdh`, `base` and `unknown`: robots and what is identifiable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.options import (
    JsonOption,
    LockOption,
    RobotArgument,
    load_robot_for_command,
    parse_locks,
    parse_names,
    refuse_unused_options,
)


def robots(json: JsonOption = None) -> None:
    """List the bundled robots.

    Example: dynid robots
    """
    from dynid.cli import terminal
    from dynid.cli.output.inertial import describe_structure, published_json_data, robots_table
    from dynid.robot.load import bundled_robots, load_robot

    terminal.check_output_path("--json", json)
    loaded = {name: load_robot(name) for name in bundled_robots()}
    facts = {
        name: {
            "joints": robot.n,
            "structure": describe_structure(robot),
            "source": robot.source,
            "published": published_json_data(robot),
        }
        for name, robot in loaded.items()
    }
    outputs = terminal.Outputs()
    outputs.write_json_file(json, lambda: facts)
    terminal.make_console(json).print(robots_table(loaded))
    outputs.finish()


def mdh(
    robot: RobotArgument,
    out: Annotated[Path | None, typer.Option("--out", help="write the table to this .toml file")] = None,
    lock: LockOption = None,
    json: JsonOption = None,
    snap: Annotated[bool, typer.Option(help="round almost-right angles to right angles")] = True,
) -> None:
    """Turn any robot into its modified Denavit-Hartenberg table, parameters included.

    Example: dynid mdh my_robot.urdf --out my_robot.toml
    """
    from dynid.cli import terminal
    from dynid.cli.output.inertial import robot_json_data, show_mdh
    from dynid.robot.io.toml_writer import table_text
    from dynid.storage.files import write_text

    terminal.check_output_path("--out", out, suffixes=(".toml",), keep=[Path(robot)])
    terminal.check_output_path("--json", json, keep=[Path(robot)])
    table = load_robot_for_command(robot, lock=parse_locks(lock or []), snap=snap).to_mdh()
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    outputs.write_file(out, lambda place: write_text(place, table_text(table)))
    outputs.write_json_file(json, lambda: robot_json_data(table))
    show_mdh(table, screen)
    screen.print(f"angles in degrees, lengths in m; gravity {[float(x) for x in table.gravity]} m/s^2")
    terminal.show_notes(table, screen)
    outputs.show_written_files(screen)
    outputs.finish()


# The command `base`: parse, call, show.


def base(
    robot: RobotArgument,
    *,
    method: Annotated[str | None, typer.Option(help="exact, nullspace, rules, qr, svd, or all to compare them")] = None,
    model: Annotated[str, typer.Option(help="torque, static, energy, power, momentum or reaction")] = "torque",
    rotor_inertia: Annotated[bool, typer.Option(help="count the rotors' inertias Ia")] = True,
    tared: Annotated[bool, typer.Option(help="six free offsets in the reaction model")] = False,
    values: Annotated[Path | None, typer.Option(help="a robot file, or JSON {name: value}: adds values")] = None,
    latex: Annotated[bool, typer.Option(help="relations in LaTeX")] = False,
    barycentric: Annotated[bool, typer.Option("--barycentric", help="relations in barycentric parameters too")] = False,
    prefer: Annotated[
        str | None, typer.Option(help="parameters to keep first, in order of preference: MX5,YY2; data with --log")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="with --prefer data: keep the set best conditioned along it")] = None,
    explain: Annotated[
        str | None, typer.Option(help="why is this parameter kept, regrouped or without effect, and what reveals it")
    ] = None,
    eliminations: Annotated[
        bool, typer.Option("--eliminations", help="which rule removed which parameter of which link")
    ] = False,
    diagnostics: Annotated[
        bool, typer.Option("--diagnostics", help="T, R, sigma and V2 of the samples (Gautier 1991, Table II)")
    ] = False,
    samples: Annotated[int | None, typer.Option(min=1, help="rows of the sampled matrix (qr, svd)")] = None,
    scaling: Annotated[
        str | None,
        typer.Option(help="weights L1,L2 of the scaling procedure (Gautier 1991): l1 |W| + l2 max/min |Wij|"),
    ] = None,
    friction: Annotated[str, typer.Option(help="none, or blocks of columns (qr, svd): viscous,coulomb,...")] = "none",
    seed: Annotated[int, typer.Option(min=0, help="of random positions and samples")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="write a page, .html: kept, regrouped, unidentifiable, why, what reveals them")
    ] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Show which inertial parameters can be identified at all, and how the others join them.

    With --model reaction also how joint torques follow from forces on the base, and which channels that takes. With
    --explain only what there is to say about one parameter, each claim computed.

    Example: dynid base puma560 --method all
    """
    from dynid.cli import terminal
    from dynid.cli.output import identifiability
    from dynid.cli.output import report as report_output
    from dynid.identifiability.base_parameters import base_parameters, compare_methods
    from dynid.identifiability.explanation import explain as explain_parameter
    from dynid.logs.read import read_log

    inputs = [Path(robot), *(path for path in (values, log) if path)]
    terminal.check_output_path("--json", json, keep=inputs)
    report_output.check_report_path(report, (json,), inputs)
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    blocks = () if friction.strip() == "none" else parse_names("--friction", friction)
    by_samples: dict[str, object] = {"--samples": samples, "--diagnostics": diagnostics, "--friction": blocks}
    by_samples["--scaling"] = scaling
    if method == "all":
        others = {"--prefer": prefer, "--log": log, "--explain": explain, "--eliminations": eliminations}
        others["--report"] = report
        refuse_unused_options({**by_samples, **others}, "--method all compares methods; choose one")
    elif method not in (None, "qr", "svd"):
        refuse_unused_options(by_samples, f"method {method} takes no samples; use --method qr or svd")
    elif samples is not None or diagnostics or scaling is not None:
        method = method or "qr"
    if method == "all":
        compared = compare_methods(loaded, model=model, rotor_inertia=rotor_inertia, tared=tared, seed=seed)
        found = next(iter(compared.results.values()))
    else:
        compared = None
        found = base_parameters(
            loaded, model=model, method=method, rotor_inertia=rotor_inertia, tared=tared, seed=seed, friction=blocks,
            rows=samples, scaling=identifiability.parse_scaling(scaling),
            prefer="data" if prefer == "data" else parse_names("--prefer", prefer),
            log=None if log is None else read_log(log, robot=loaded),
        )  # fmt: skip
    numbers = found.values(identifiability.read_standard_values(values, loaded)) if values else None
    facts = identifiability.base_parameter_json_data(found, compared, numbers)
    warnings = [*loaded.warnings, *found.warnings, *(identifiability.method_warnings(compared) if compared else ())]
    if barycentric:
        facts["barycentric"] = identifiability.barycentric_json_data(found)
    if eliminations:
        facts["eliminations"] = identifiability.eliminations_json_data(found)
    if diagnostics and found.diagnostics is not None:
        facts["diagnostics"] = identifiability.diagnostics_json_data(found, found.diagnostics)
    explanation = None if explain is None else explain_parameter(found, explain)
    if explanation is not None:
        facts["explanation"] = identifiability.explanation_json_data(explanation)
    answer = identifiability.relate_plate_to_torques(loaded, tared=tared) if model == "reaction" else None
    if answer is not None:
        facts["plate"] = identifiability.plate_json_data(answer)
        warnings += answer.warnings
    warnings = list(dict.fromkeys(warnings))
    outputs.write_file(report, lambda place: report_output.write_base_report(found, place, warnings))
    outputs.write_json_file(json, lambda: facts | {"warnings": warnings})
    terminal.show_notes(loaded, screen)
    if compared is not None:
        screen.print(identifiability.method_comparison_table(compared))
    if explanation is None:
        identifiability.show_base_parameters(found, screen, latex=latex, values=numbers)
    else:
        identifiability.show_explanation(explanation, screen)
    if eliminations:
        identifiability.show_eliminations(found, screen)
    if diagnostics and found.diagnostics is not None:
        identifiability.show_diagnostics(found, found.diagnostics, screen)
    if barycentric:
        identifiability.show_barycentric(found, screen)
    if answer is not None:
        identifiability.show_plate_relation(answer, screen)
    if report is not None:
        outputs.show_written_files(screen)
    outputs.finish(warnings)


# The command `unknown`: parse, call, show.


def unknown(
    robot: RobotArgument,
    unknown: Annotated[
        str | None, typer.Option(help="what is not known: d,r (all), d3 (one), a symbol; '' for nothing")
    ] = None,
    count_only: Annotated[bool, typer.Option("--count-only", help="only count them, which is fast")] = False,
    result: Annotated[
        Path | None, typer.Option(help="a result of dynid identify --unknown: lengths that follow from its values")
    ] = None,
    known: Annotated[list[str] | None, typer.Option(help="a known inertial parameter: NAME=VALUE, repeatable")] = None,
    rotor_inertia: Annotated[bool, typer.Option(help="count the rotors' inertias Ia")] = False,
    seed: Annotated[int, typer.Option(min=0, help="of the random points of --count-only")] = 0,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Show the model parameters of a robot whose lengths or angles are not known, and which lengths follow from them.

    Example: dynid unknown puma560 --unknown d,r
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import identifiability
    from dynid.unknown_geometry.model_parameters import count_model_parameters, model_parameters

    terminal.check_output_path("--json", json, keep=[Path(robot), *([result] if result else [])])
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    given = log_options.parse_known(known or [])
    if result is not None:
        refuse_unused_options(
            {"--unknown": unknown, "--count-only": count_only}, "--result says what was unknown; leave it out"
        )
        recovered = identifiability.recover_lengths(result, loaded, given)
        outputs.write_json_file(json, lambda: identifiability.recovered_json_data(loaded.name, recovered))
        identifiability.show_recovered_lengths(loaded.name, recovered, screen)
        return outputs.finish()
    if count_only:
        refuse_unused_options({"--known": known}, "--count-only only counts; leave out one of the two")
        count = count_model_parameters(loaded, unknown=unknown, rotor_inertia=rotor_inertia, seed=seed)
        outputs.write_json_file(json, lambda: identifiability.count_json_data(loaded.name, count))
        terminal.show_notes(loaded, screen)
        identifiability.show_model_parameter_count(loaded.name, count, screen)
        return outputs.finish()
    found = model_parameters(loaded, unknown=unknown, rotor_inertia=rotor_inertia)
    lengths = found.recoverable_lengths(known=given)
    outputs.write_json_file(json, lambda: identifiability.model_parameter_json_data(found, lengths))
    terminal.show_notes(loaded, screen)
    identifiability.show_model_parameters(found, screen)
    identifiability.show_recoverable_lengths(lengths, screen)
    outputs.finish(found.warnings)
