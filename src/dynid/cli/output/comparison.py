"""Several models and estimators side by side, as a person sees them in the terminal, and as machine-readable facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.cli import terminal
from dynid.cli.output import identification
from dynid.cli.terminal import escape_markup
from dynid.errors import DynidError
from dynid.estimation.compare import SHARE, Comparison, EstimatorRun, compare_estimators
from dynid.logs.log import Log
from dynid.messages import command_line_wording

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dynid.estimation.diagnostics.verdict import Level
    from dynid.robot.robot import Robot

READABLE = 12
"""Parameters that are shown unless all are asked for."""


def check_comparison_options(*, compare: bool, every: bool, model: str, estimator: str, out: Path | None) -> None:
    """Raise for options that make no sense with or without --compare, before any work."""
    if every and not compare:
        raise DynidError(
            "option_not_applicable", "--all needs --compare; a single result shows every parameter anyway",
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
    """Compare all estimators, print and write the comparison; exit code 1 where no run can be trusted."""
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
    """Print which run to trust, then the runs and the parameters about which they differ most."""
    terminal.print_line(screen, compared.advice, style="bold")
    identification.show_subject(compared.reference.identification, screen)
    identification.show_logs(compared.reference.identification, screen)
    screen.print(runs_table(compared))
    say = terminal.print_line
    say(
        screen,
        f"NRMSE: mean error of the joint torques on {compared.source}, alike for all runs; deviation: median relative "
        f"standard deviation of the base parameters; agree: share of them within three combined standard deviations of "
        f"{compared.reference.name}",
    )
    for run in compared.refused:
        say(screen, f"{run.name} refused: {command_line_wording(run.refusal or '')}")
    if compared.interrupted:
        say(screen, "interrupted: the runs that are missing were not tried")
    names = parameters_to_print(compared, every)
    terminal.print_fitting_table(
        screen, lambda: parameters_table(compared, names), lambda: parameters_table(compared, names, apart="\n"),
        lambda: parameter_rows_table(compared, names),
    )  # fmt: skip
    count = len(compared.reference.base_parameter_names)
    if len(names) < count:
        say(screen, f"{len(names)} of {count} base parameters, those about which the runs differ most; --all shows all")


def runs_table(compared: Comparison) -> Table:
    """Table of the runs, one row each."""
    from rich.table import Table

    table = Table("model, estimator", box=None)
    for title in ("time", "rank", "condition, all columns", "NRMSE", "deviation", "agree"):
        table.add_column(title, justify="right")
    table.add_column("verdict")
    for run in compared.runs:
        if run.result is None:
            table.add_row(run.name, f"{run.seconds:.2g} s", *5 * ["-"], "refused")
            continue
        table.add_row(
            run.name, f"{run.seconds:.2g} s", str(run.result.rank), f"{run.result.condition:.3g}", f"{run.error:.4f}",
            _percent_text(run.relative_deviation), f"{100.0 * run.agreement(compared.reference):.0f} %",
            _coloured_level(run.level), style="bold" if run is compared.best else None,
        )  # fmt: skip
    return table


def _coloured_level(level: Level) -> str:
    """Level of trust in its colour."""
    return f"[{identification.LEVEL_STYLES[level]}]{level}[/]"


def _percent_text(share: float) -> str:
    """A share in percent, with few digits."""
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.0f} %" if share < 10.0 else "> 1000 %"


def parameters_to_print(compared: Comparison, every: bool) -> tuple[str, ...]:
    """Names of the parameters to print: base ones that are disputed, or all of all runs in order."""
    if not every:
        return compared.most_disputed(READABLE)
    return tuple(dict.fromkeys(name for run in compared.finished for name in run.identification.names))


def parameters_table(compared: Comparison, names: Sequence[str], *, apart: str = " ") -> Table:
    """Table of values with standard deviations, one column per run that has a result."""
    from rich.table import Table

    table = Table("value +- sigma", box=None)
    for run in compared.finished:
        table.add_column(f"{run.model}\n{run.estimator}", justify="right", overflow="fold")
    for name in names:
        table.add_row(escape_markup(name), *(_parameter_cell(run, name, apart) for run in compared.finished))
    return table


def parameter_rows_table(compared: Comparison, names: Sequence[str]) -> Table:
    """Table of values with standard deviations, one row per parameter and run, for a narrow terminal."""
    from rich.table import Table

    table = Table("parameter", "model, estimator", box=None)
    table.add_column("value +- sigma", justify="right")
    for name in names:
        for run in compared.finished:
            if (cell := _parameter_cell(run, name, " ")) != "-":
                table.add_row(escape_markup(name), f"{run.model}, {run.estimator}", cell)
    return table


def _parameter_cell(run: EstimatorRun, name: str, apart: str) -> str:
    """Text of a parameter's value and standard deviation in one run; `-` where the run does not have it."""
    result = run.identification
    if name not in result.names:
        return "-"
    k = result.names.index(name)
    value, sigma = float(result.values[k]), float(result.sigma[k])
    decimals = 4 if sigma == 0.0 else int(np.clip(1 - np.floor(np.log10(sigma)), 0, 6))
    return f"{value:.{decimals}f}{apart}+-{identification.number_text(sigma, 2)}"


def comparison_json_data(compared: Comparison) -> dict[str, object]:
    """Data of all runs of a comparison for `--json`."""
    return {
        "robot": compared.reference.identification.robot.name,
        "held_out": compared.source,
        "reference": compared.reference.name,
        "ways": [_run_json_data(compared, run) for run in compared.runs],
        "best": None if compared.best is None else compared.best.name,
        "advice": compared.advice,
        "interrupted": compared.interrupted,
    }


def _run_json_data(compared: Comparison, run: EstimatorRun) -> dict[str, object]:
    """Data of one run of a comparison for `--json`, or why it was refused."""
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
