"""Several models and estimators side by side, as a person sees them in the terminal, and as machine-readable facts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.cli import terminal
from dynid.cli.output import identification
from dynid.cli.terminal import escape_markup
from dynid.errors import DynidError
from dynid.estimation.compare import SHARE, Comparison, EstimatorRun, compare_estimators
from dynid.estimation.identification import Identification
from dynid.estimation.identify import hold_out_share
from dynid.estimation.options import Call
from dynid.logs.log import Log
from dynid.messages import Message, command_line_wording
from dynid.physical.parameters import PhysicalParameters

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dynid.robot.robot import Robot

READABLE = 12
"""Parameters that are shown unless all are asked for."""


def check_comparison_options(*, compare: bool, every: bool, model: str, estimator: str, out: Path | None) -> None:
    """Refuse options that make no sense together, before any work."""
    if every and not compare:
        raise DynidError(
            "option_not_applicable", "--all goes with --compare; a single result shows every parameter anyway",
        )  # fmt: skip
    if not compare:
        return
    if model != "torque":
        raise DynidError(
            "option_not_applicable", "--compare tries all models", "leave out --model {model}", model=model,
        )  # fmt: skip
    if estimator != "wls":
        raise DynidError(
            "option_not_applicable", "--compare tries all estimators", "leave out --estimator {estimator}",
            estimator=estimator,
        )  # fmt: skip
    if out is not None:
        raise DynidError(
            "option_not_applicable", "--compare has several results", "--json FILE keeps all of them, --out saves a "
            "single one",
        )  # fmt: skip


def run_comparison(
    robot: Robot,
    logs: Sequence[Log],
    validate: Sequence[Log] | float | None,
    options: Mapping[str, Any],
    screen: Console,
    *,
    json: Path | None,
    every: bool,
) -> None:
    """Compare, show, write; exit code 1 where no run can be trusted."""
    with identification.show_progress(screen) as tell:
        held_out = SHARE if validate is None else validate
        compared = compare_estimators(robot, logs, validate=held_out, on_progress=tell, **options)
    outputs = terminal.Outputs()
    outputs.write_json_file(json, lambda: comparison_json_data(compared))
    terminal.show_notes(robot, screen)
    show_comparison(compared, screen, every=every)
    outputs.show_written_files(screen)
    outputs.finish([] if compared.best is not None else [compared.advice])


def show_comparison(compared: Comparison, screen: Console, *, every: bool = False) -> None:
    """Print the runs, the parameters about which they differ most, and which run to trust."""
    identification.show_logs(compared.reference.found, screen)
    screen.print(runs_table(compared))
    say = terminal.print_line
    say(
        screen,
        f"NRMSE: mean error of the joint torques on {compared.source}, alike for all runs; deviation: median sigma "
        f"over value of the base parameters; agree: share of them within three combined deviations of "
        f"{compared.reference.name}",
    )
    for run in compared.refused:
        say(screen, f"{run.name} refused: {command_line_wording(run.refusal or '')}")
    if compared.interrupted:
        say(screen, "interrupted: the runs that are missing were not tried")
    names = parameters_to_print(compared, every)
    screen.print(parameters_table(compared, names, apart=" " if screen.width >= 180 else "\n"))
    count = len(compared.reference.base)
    if len(names) < count:
        say(screen, f"{len(names)} of {count} base parameters, those about which the runs differ most; --all shows all")
    say(screen, compared.advice, style="bold")


def runs_table(compared: Comparison) -> Table:
    """One row per run."""
    from rich.table import Table

    table = Table("model, estimator", box=None)
    for title in ("time", "rank", "condition", "NRMSE", "deviation", "agree"):
        table.add_column(title, justify="right")
    table.add_column("verdict")
    for run in compared.runs:
        if run.result is None:
            table.add_row(run.name, f"{run.seconds:.2g} s", *5 * ["-"], "refused")
            continue
        table.add_row(
            run.name, f"{run.seconds:.2g} s", str(run.result.rank), f"{run.result.condition:.3g}", f"{run.error:.4f}",
            _percent_text(run.relative_deviation), f"{100.0 * run.agreement(compared.reference):.0f} %",
            run.result.verdict.level, style="bold" if run is compared.best else None,
        )  # fmt: skip
    return table


def _percent_text(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.0f} %" if share < 10.0 else "> 1000 %"


def parameters_to_print(compared: Comparison, every: bool) -> tuple[str, ...]:
    """Names of the parameters to print: base ones that are disputed, or all of all runs in order."""
    if not every:
        return compared.most_disputed(READABLE)
    return tuple(dict.fromkeys(name for run in compared.finished for name in run.found.names))


def parameters_table(compared: Comparison, names: Sequence[str], *, apart: str = " ") -> Table:
    """Values with standard deviations, one column per run that has a result."""
    from rich.table import Table

    table = Table("value +- sigma", box=None)
    for run in compared.finished:
        table.add_column(f"{run.model}\n{run.estimator}", justify="right", overflow="fold")
    for name in names:
        table.add_row(escape_markup(name), *(_parameter_cell(run, name, apart) for run in compared.finished))
    return table


def _parameter_cell(run: EstimatorRun, name: str, apart: str) -> str:
    result = run.found
    if name not in result.names:
        return "-"
    k = result.names.index(name)
    value, sigma = float(result.values[k]), float(result.sigma[k])
    decimals = 4 if sigma == 0.0 else int(np.clip(1 - np.floor(np.log10(sigma)), 0, 6))
    return f"{value:.{decimals}f}{apart}+-{identification.number_text(sigma, 2)}"


def comparison_json_data(compared: Comparison) -> dict[str, object]:
    """Return all runs of a comparison for `--json`."""
    return {
        "robot": compared.reference.found.robot.name,
        "held_out": compared.source,
        "reference": compared.reference.name,
        "ways": [_run_json_data(compared, run) for run in compared.runs],
        "best": None if compared.best is None else compared.best.name,
        "advice": compared.advice,
        "interrupted": compared.interrupted,
    }


def _run_json_data(compared: Comparison, run: EstimatorRun) -> dict[str, object]:
    own: dict[str, object] = {"model": run.model, "estimator": run.estimator, "seconds": run.seconds}
    if run.result is None or run.prediction is None:
        return {**own, "refusal": run.refusal}
    return {
        **own,
        "refusal": None,
        "held_out": identification.score_json_data(run.prediction),
        "median_relative_sigma": run.relative_deviation,
        "agreement": run.agreement(compared.reference),
        "result": identification.identification_json_data(run.result),
    }


# What the command `report` says and checks.


def default_report_path(results: Sequence[Path]) -> Path:
    """Beside the result; a comparison has a name of its own."""
    return results[0].with_suffix(".html") if len(results) == 1 else results[0].with_name("comparison.html")


def check_report_arguments(results: Sequence[Path], with_logs: bool) -> None:
    """Refuse what makes no sense, before any work."""
    resolved = [path.resolve() for path in results]
    if len(set(resolved)) < len(resolved):
        raise DynidError("same_result_twice", "the same result is named twice; a comparison needs different ones")
    if with_logs and len(results) > 1:
        raise DynidError(
            "option_not_applicable", "--log and --validate go with a single RESULT; a comparison draws no curves",
        )  # fmt: skip


def load_physical_parameters(path: Path) -> PhysicalParameters | None:
    """Physical parameters with their result, None where a file says to be something else, or nothing."""
    from dynid.physical.parameters import FORMAT

    try:
        with path.open(encoding="utf-8") as file:
            head = file.read(200)
    except (OSError, UnicodeDecodeError):
        return None
    return PhysicalParameters.load(path) if FORMAT in head else None


def check_report_path(report: Path | None, others: Sequence[Path | None], keep: Sequence[Path]) -> None:
    """See before any work that the report can be written and is none of the other files."""
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
    return write_report(
        result, place, logs=used, validate=others, physical=physical, inputs=files, warnings=warnings, on_progress=tell
    )


def result_names(files: Sequence[Path]) -> list[str]:
    """What to call the results: their files' names, with folders where these are alike."""
    stems = [path.stem for path in files]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, files, strict=True)]


def command_as_typed() -> str:
    """The command as it was typed, to be typed again."""
    return shlex.join(["dynid", *sys.argv[1:]])


def record_command(
    result: Identification, robot: str, lock: Sequence[str], logs: Sequence[str], out: Path | None
) -> Identification:
    """The result, which knows by which command it was made and which one comes next."""
    command = command_as_typed()
    words = shlex.join([robot, *(word for name in lock for word in ("--lock", name))])
    saved = "" if out is None else shlex.quote(str(out))
    call = Call(command, words, " --unloaded ".join(map(shlex.quote, logs)), saved)
    origin = replace(result.origin, command=command)
    return result.replace(origin=origin, verdict=result.verdict.after_call(call))


def collect_warnings(results: Sequence[Identification], names: Sequence[str]) -> list[Message]:
    """Warnings of all results; of several, each with its name."""
    if len(results) == 1:
        return list(results[0].warnings)
    return [w.about(n) for n, r in zip(names, results, strict=True) for w in r.warnings]
