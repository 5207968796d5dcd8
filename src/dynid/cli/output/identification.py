"""A result of identification as a person sees it in the terminal, and as machines read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.cli.terminal import escape_markup, print_fitting_table, print_line, show_note
from dynid.errors import DynidError
from dynid.estimation.diagnostics.hypotheses import Diagnosis
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.estimation.identification import Identification
from dynid.estimation.inference.score import Score
from dynid.estimation.joint_parameters import joint_parameters
from dynid.messages import command_line_wording

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TELLING, COLOURED = 0.1, 0.3
"""Share of a residual's variance, and autocorrelation, from which on a person should know of it."""

SOURCES = {
    "torque": "torques of {} joints", "power": "power of {} joints", "energy": "energy of {} joints",
    "momentum": "momenta of {} joints", "reaction": "forces on the base",
    "torque+reaction": "torques of {} joints and the forces on the base",
}  # fmt: skip
"""What was compared, by model."""

MEASURED = {
    "torque": "torque", "power": "power", "energy": "work over a window", "momentum": "impulse over a window",
    "reaction": "channel", "torque+reaction": "channel",
}  # fmt: skip
"""The same for one row."""

LEVEL_STYLES: dict[str, str] = {
    "good": "bold green", "usable": "bold yellow", "weak": "bold magenta", "do not trust": "bold red",
}  # fmt: skip
"""Colour of a level of trust; the word says the same."""


@contextmanager
def show_progress(screen: Console, first: str = "reading the logs") -> Iterator[Callable[[str, float], None] | None]:
    """Context with a progress callback: a bar in a terminal, None when piped."""
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import Progress

    with Progress(console=screen, transient=True) as bar:
        task = bar.add_task(first, total=1.0)
        yield lambda text, done: bar.update(task, completed=done, description=escape_markup(text))


def show_identification(result: Identification, screen: Console, *, details: bool = False) -> None:
    """Print the verdict first, then the errors per joint and the essential parameters.

    details: also what was found in the logs and done to them, all parameters, errors in motion and at rest beside
    trivial models, notes, and what the verdict does not prove.
    """
    show_verdict(result.verdict, screen)
    show_subject(result, screen)
    screen.print(joint_errors_table(result))
    print_line(screen, _errors_legend(result))
    if details:
        _show_details(result, screen)
        return
    if result.essential:
        wide = (4, 3, 2, 1) if screen.is_terminal else (1,)
        print_fitting_table(screen, *(partial(essential_table, result, side_by_side=k) for k in wide))
    else:
        print_line(screen, "no parameter is essential")
    print_line(screen, _essential_legend(result))


def _show_details(result: Identification, screen: Console) -> None:
    """Print logs, filter, friction, all parameters, errors in motion and at rest, notes, and what is not proven."""
    show_logs(result, screen)
    show_friction(result, screen)
    screen.print(parameters_table(result))
    if result.friction:
        print_fitting_table(
            screen, lambda: friction_table(result), lambda: friction_table(result, apart="\n"),
            lambda: friction_rows_table(result),
        )  # fmt: skip
    print_line(screen, _parameters_legend(result))
    if result.model == "reaction" and _has_joint_parameters(result):
        same = shared_joint_parameters(result)
        print_line(
            screen,
            f"parameters of the joint torques (S theta_r, rotors left out): above are {', '.join(same) or 'none'}",
        )
        if len(same) < len(joint_parameters(result).names):
            screen.print(joint_parameters_table(result, same))
    if result.joint_errors:
        screen.print(motion_and_rest_errors_table(result))
        print_line(screen, MOTION_LEGEND)
    for note in result.notes:
        show_note(note, screen)
    for text in result.verdict.unproven:
        print_line(screen, f"not proven: {command_line_wording(text)}")


def show_verdict(verdict: Verdict, screen: Console) -> None:
    """Print the level in its colour with its reasons, and the next command on a line of its own, however long it is."""
    level, colon, reasons = str(verdict).partition(":")
    head, style = f"verdict: {level}", LEVEL_STYLES[verdict.level]
    print_line(screen, f"{head}{colon}{reasons}", style=style, until=len(head))
    step = verdict.next_step
    shown = shorten_file_lists(command_line_wording(step))
    screen.print(f"next: {escape_markup(shown)}", highlight=False, soft_wrap=True)
    if why := step.record("command line")["facts"].get("why"):
        print_line(screen, f"why: {why}")


MOST_FILES = 20
"""Files of one kind, one after the other in a command, that are printed; of more, the first, the last and a count."""


def shorten_file_lists(command: str) -> str:
    """Command for the eye: `a.csv ... z.csv (1000 files)` in place of a long list of files of one kind."""
    shown: list[str] = []
    for kind, words in groupby(command.split(" "), key=lambda word: "" if word[:1] == "-" else Path(word).suffix):
        some = list(words)
        short = [some[0], "...", some[-1], f"({len(some)} files)"]
        shown += short if kind and len(some) > MOST_FILES else some
    return " ".join(shown)


def show_subject(result: Identification, screen: Console) -> None:
    """Print what was identified from what, in a line or two."""
    robot, unknown = result.robot, result.equation.unknown
    kind = "base" if unknown is None else "model"
    print_line(
        screen,
        f"{robot.name}: {result.base_rank} {kind} parameters and {len(result.names) - result.base_rank} others "
        f"from the {SOURCES[result.model].format(len(result.joints))} ({result.estimator})",
        style="bold",
    )
    if unknown is not None:
        print_line(
            screen, f"geometry: {', '.join(unknown)} unknown; dynid unknown prints what the parameters X are made of"
        )


def show_logs(result: Identification, screen: Console) -> None:
    """Print the logs with what was found in them, and the filter."""
    for log, sentences in result.findings:
        print_line(screen, f"{log}: {'nothing to repair' if not sentences else command_line_wording(sentences[0])}")
        for sentence in sentences[1:]:
            print_line(screen, f"  {command_line_wording(sentence)}")
    if result.cutoff is None:
        print_line(screen, f"filter: none; {result.cutoff_reason}")
    else:
        print_line(screen, f"filter: {result.cutoff:.4g} Hz ({result.cutoff_reason})")
    options = result.equation.options
    if options.spans:
        print_line(screen, f"{result.model} is balanced over {len(options.spans)} windows of the list given")
    elif options.window is not None:
        seconds = options.window_seconds
        print_line(screen, f"{result.model} is balanced over windows of {seconds:.3g} s that overlap")
    if result.delay:
        print_line(screen, f"delay: torques are moved {1e3 * result.delay:.4g} ms back, as given")


def show_friction(result: Identification, screen: Console) -> None:
    """Print the friction blocks, and what cross validation tried last."""
    if result.model == "reaction":
        return
    print_line(screen, f"friction: {', '.join(result.friction) or 'none'}")
    if not result.trials:
        return
    admitted = [trial for trial in result.trials if trial.admitted]
    for trial in admitted:
        print_line(screen, f"  {trial.block} admitted: error on held-out time {trial.before:.4f} -> {trial.error:.4f}")
    last = result.trials[-1].before
    refused = [trial for trial in result.trials if trial.before == last and not trial.admitted]
    if admitted and admitted[-1].before == last:
        refused = []
    if refused:
        gains = (f"{trial.block} {100.0 * (trial.error / trial.before - 1.0):+.1f} %" for trial in refused)
        print_line(screen, f"  refused (a block must lower it by 3 %): {', '.join(gains)}")


def friction_table_layout(result: Identification) -> dict[str, dict[int, int]]:
    """Columns of the friction table, {joint: index of the parameter} by symbol, with @log where offsets differ."""
    equation, index = result.equation, {name: k for k, name in enumerate(result.names)}
    n = equation.robot.n
    places: dict[str, dict[int, int]] = {}
    for block in result.friction:
        for c, column in enumerate(equation.columns_by_friction_block[block]):
            name = equation.names[column]
            for own in (name, *(name.of_log(log + 1) for log in range(len(result.findings)))):
                if own in index:
                    title = own.symbol if own.log is None else f"{own.symbol}@{own.log}"
                    places.setdefault(title, {})[c % n] = index[own]
    return places


def parameters_table(result: Identification) -> Table:
    """Table of inertial parameters and further columns, in standard order."""
    from rich.table import Table

    table = Table("parameter", box=None)
    for title in ("value", "+- 95 %", "relative"):
        table.add_column(title, justify="right")
    table.add_column("unit")
    table.add_column("essential")
    of_friction = {k for column in friction_table_layout(result).values() for k in column.values()}
    half, essential = result.quantile * result.sigma, set(result.essential)
    for k, name in enumerate(result.names):
        if k not in of_friction:
            table.add_row(
                escape_markup(name), number_text(result.values[k], 5), number_text(half[k], 2),
                _relative_half_width_text(half[k], result.values[k]), escape_markup(result.units[k]),
                "*" if name in essential else "",
            )  # fmt: skip
    return table


def _has_joint_parameters(result: Identification) -> bool:
    """Whether the joint torques' parameters follow from the forces on the base."""
    try:
        joint_parameters(result)
    except DynidError:
        return False
    return True


def shared_joint_parameters(result: Identification) -> list[str]:
    """Names of the joint torques' parameters that are the same as those of the forces on the base."""
    found, own = joint_parameters(result), dict(zip(result.names, result.values, strict=True))
    pairs = zip(found.names, found.values, strict=True)
    return [name for name, value in pairs if name in own and abs(own[name] - value) <= 1e-12 * abs(value)]


def joint_parameters_table(result: Identification, same: Sequence[str]) -> Table:
    """Table of joint torque parameters that follow from the forces on the base, but for those that are the same."""
    from rich.table import Table

    table = Table("parameter", box=None)
    for title in ("value", "+- 95 %", "relative"):
        table.add_column(title, justify="right")
    found = joint_parameters(result)
    for name, value, half in zip(found.names, found.values, found.quantile * found.sigma, strict=True):
        if name in same:
            continue
        if np.isnan(value):
            table.add_row(escape_markup(name), "lost", "", "")
        else:
            table.add_row(
                escape_markup(name), number_text(value, 5), number_text(half, 2), _relative_half_width_text(half, value)
            )
    return table


def _relative_half_width_text(half: float, value: float) -> str:
    """Text of a half width in percent of the value."""
    if half == 0.0:
        return "fixed"
    ratio = 100.0 * half / abs(value) if value else math.inf
    return f"{ratio:.2g} %" if ratio < 99.5 else f"{ratio:.0f} %" if ratio < 1000.0 else "> 1000 %"


def friction_table(result: Identification, *, apart: str = " ") -> Table:
    """Table of friction parameters, blocks by joints, with half widths and a mark where essential."""
    from rich.table import Table

    essential, half = set(result.essential), result.quantile * result.sigma
    table = Table("friction", "unit", box=None)
    for name in result.joints:
        table.add_column(escape_markup(name), justify="right", overflow="fold")
    for title, column in friction_table_layout(result).items():
        cells = []
        for channel in result.equation.torque_channels:
            k = column.get(channel.joint)
            mark = "*" if k is not None and result.names[k] in essential else ""
            cells.append(
                "-" if k is None else f"{number_text(result.values[k], 3)}{mark}{apart}+-{number_text(half[k], 2)}"
            )
        units = dict.fromkeys(result.units[k] for k in column.values())
        table.add_row(escape_markup(title), escape_markup(" or ".join(units)), *cells)
    return table


def friction_rows_table(result: Identification) -> Table:
    """Table of friction parameters, one row per block and joint, for a terminal too narrow for one column per joint."""
    from rich.table import Table

    essential, half = set(result.essential), result.quantile * result.sigma
    table = Table("friction", "joint", box=None)
    for title in ("value", "+- 95 %"):
        table.add_column(title, justify="right")
    table.add_column("unit")
    table.add_column("essential")
    for title, column in friction_table_layout(result).items():
        for channel in result.equation.torque_channels:
            k = column.get(channel.joint)
            if k is not None:
                table.add_row(
                    escape_markup(title), escape_markup(result.robot.joint_names[channel.joint]),
                    number_text(result.values[k], 3), number_text(half[k], 2), escape_markup(result.units[k]),
                    "*" if result.names[k] in essential else "",
                )  # fmt: skip
    return table


def essential_table(result: Identification, *, side_by_side: int = 1) -> Table:
    """Table of the essential parameters, with as many digits as their intervals allow, in one or more columns."""
    from rich.table import Table

    index, half = {name: k for k, name in enumerate(result.names)}, result.quantile * result.sigma
    rows = [
        (escape_markup(name), *value_and_half_width_text(result.values[k], half[k]), escape_markup(result.units[k]))
        for name in result.essential
        for k in (index[name],)
    ]
    table = Table(box=None)
    for _ in range(side_by_side):
        table.add_column("essential")
        table.add_column("value", justify="right")
        table.add_column("+- 95 %", justify="right")
        table.add_column("unit")
    length = -(-len(rows) // side_by_side)
    rows += [("",) * 4] * (length * side_by_side - len(rows))
    for k in range(length):
        table.add_row(*(cell for row in rows[k::length] for cell in row))
    return table


def value_and_half_width_text(value: float, half: float) -> tuple[str, str]:
    """A value with the digits that its interval allows, and the half width with two: 1.730 and 0.015."""
    if not (math.isfinite(value) and math.isfinite(half)) or half <= 0.0 or not 1e-7 < half < 1e7:
        return number_text(value, 5), "fixed" if half == 0.0 else number_text(half, 2)
    decimals = 1 - math.floor(math.log10(half))
    if round(half, decimals) >= 10.0 ** (2 - decimals):  # 0.0996 is 0.10
        decimals -= 1
    shown = max(decimals, 0)
    return f"{round(value, decimals):.{shown}f}", f"{round(half, decimals):.{shown}f}"


def number_text(value: float, digits: int) -> str:
    """A number with some digits, without an exponent where it is of usual size."""
    if value == 0.0 or not 1e-5 < abs(value) < 1e7:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-", unique=False)


def _essential_legend(result: Identification) -> str:
    """Line below the essential parameters: how many there are, and what else --details shows."""
    found = sum(len(sentences) for _, sentences in result.findings)
    more = [f"all {len(result.names)} parameters"]
    more += [f"{found} finding{'s' * (found > 1)} in the logs"] if found else []
    more += [f"{len(result.notes)} note{'s' * (len(result.notes) > 1)}"] if result.notes else []
    return (
        f"{len(result.essential)} of {len(result.names)} parameters are essential to the prediction; --details shows "
        f"{', '.join(more)}"
    )


def _parameters_legend(result: Identification) -> str:
    """Line below the table of parameters: what the intervals, stars, rank and condition mean."""
    how = f"jackknife over {result.groups} blocks of time" if result.groups else "textbook formula, white residuals"
    return (
        f"+-: half width of the 95 % interval ({how}); *: {len(result.essential)} of {len(result.names)} parameters "
        f"are essential; rank {result.rank}, condition number {result.condition:.4g} of all columns, "
        f"{result.base_condition:.4g} of the base columns{_sums_legend(result)}"
    )


def _sums_legend(result: Identification) -> str:
    """Words on names that stand for sums, with an example; none where there are no sums."""
    base = result.equation.base
    pairs = [] if result.equation.unknown is not None else zip(base.names, base.labels, strict=True)
    sums = [x for x, y in pairs if x != y]
    if not sums:
        return ""
    label = base.labels[base.names.index(sums[0])]
    return (
        f"; {len(sums)} base parameters are sums: {sums[0]} here is {label} of dynid base, not the link's own {sums[0]}"
    )


def joint_errors_table(result: Identification) -> Table:
    """Table of errors per joint, on the data used and held out, and of structure left in the residual."""
    from rich.table import Table

    table = Table("joint" if len(result.channels) == len(result.joints) else "channel", box=None)
    settled = result.validation.unsettled > 0.0
    titles = ["RMSE", "NRMSE", "RMSE\nvalidation", "NRMSE\nvalidation", *(["NRMSE\nsettled"] if settled else [])]
    for title in titles:
        table.add_column(title, justify="right")
    bad = {joint: found.level for joint, found in result.joint_verdicts.items() if found.level != "good"}
    if bad:
        table.add_column("verdict")
    table.add_column("residual")
    checks = {check.channel: check for check in result.checks}
    for c, name in enumerate(result.channels):
        check = checks.get(name)
        figures = [result.rmse[c], result.nrmse[c], result.validation.rmse[c], result.validation.nrmse[c]]
        cells = [f"{x:.3g}" if k % 2 == 0 else f"{x:.4f}" for k, x in enumerate(figures)]
        if settled:
            cells.append(f"{result.validation.settled[c]:.4f}")
        words = "" if check is None else describe_residual(check.colour, check.velocity, check.position)
        if bad:
            level = bad.get(name, "good" if name in result.joint_verdicts else "")
            cells.append(f"[{LEVEL_STYLES[level]}]{level}[/]" if level else "")
        table.add_row(escape_markup(name), *cells, words)
    means = [f"{result.fit.mean:.4f}", "", f"{result.validation.mean:.4f}"]
    table.add_row("mean", "", *means, *([f"{float(np.nanmean(result.validation.settled)):.4f}"] if settled else []), "")
    return table


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """Table of other readings of the logs that were tried, with their errors and options."""
    from rich.table import Table

    table = Table("error", "ratio", "if", "then", box=None)
    table.add_row(f"{diagnosis.error:.4f}", "1.00", "as recorded", "")
    for x in diagnosis.alternatives:
        options = " ".join(option.render("command line") for option in x.options)
        cells = [f"{x.error:.4f}", f"{x.error / max(diagnosis.error, 1e-300):.2f}"]
        style = "bold" if x.is_named else None
        table.add_row(*cells, escape_markup(x.what.what), escape_markup(options), style=style)
    return table


MOTION_LEGEND = (
    "RMSE on validation data in N m (N for prismatic joints), of the samples in which the joint moves and stands (|v| "
    "below 1e-3 rad/s or the equivalent in m/s): of this model, of the mean, and of gravity with Coulomb friction and "
    "an offset"
)


def motion_and_rest_errors_table(result: Identification) -> Table:
    """Table of errors per joint in motion and at rest, beside those of trivial models."""
    from rich.table import Table

    table = Table("joint", box=None)
    titles = ("stands", *(f"{what}\n{name}" for what in ("moving", "stands") for name in ("model", "mean", "gravity")))
    for title in titles:
        table.add_column(title, justify="right")
    for e in result.joint_errors:
        figures = (
            e.moving_rmse, e.mean_moving_rmse, e.gravity_moving_rmse,
            e.standing_rmse, e.mean_standing_rmse, e.gravity_standing_rmse,
        )  # fmt: skip
        cells = ("-" if math.isnan(x) else f"{x:.3g}" for x in figures)
        table.add_row(escape_markup(e.joint), f"{100.0 * e.standing:.0f} %", *cells)
    return table


def describe_residual(colour: float, velocity: float, position: float) -> str:
    """Text on structure left in a residual (colour, dependence on velocity and position), where it matters."""
    told = [
        f"{100.0 * share:.0f} % goes with {what}"
        for share, what in ((velocity, "velocity"), (position, "position"))
        if share > TELLING
    ]
    if abs(colour) > COLOURED:
        told.append(f"coloured ({colour:.2f})")
    return ", ".join(told)


def _errors_legend(result: Identification) -> str:
    """Line below the table of errors: what NRMSE and validation mean."""
    filtered = "nothing filtered" if result.cutoff is None else f"both filtered at {result.cutoff:.4g} Hz"
    text = (
        f"NRMSE: error over the standard deviation of the measured {MEASURED[result.model]}, {filtered}; "
        f"validation on {result.validation.source}"
    )
    if result.torques is not None:
        text += f"; NRMSE of the joint torques there: {result.torques.mean:.4f}"
    if result.validation.unsettled > 0.0:
        share = 100.0 * result.validation.unsettled
        text += f"; settled: without the {share:.2g} % of rows at rest or before a joint's first 2 mrad of travel"
    return text


def _diagnosis_json_data(diagnosis: Diagnosis) -> dict[str, object]:
    """Data of the alternatives that a diagnosis tried, for `--json`."""
    rows = [
        {
            "kind": x.kind, "what": x.what, "error": x.error, "named": x.is_named,
            "options": [option.render("command line") for option in x.options],
        }
        for x in diagnosis.alternatives
    ]  # fmt: skip
    return {
        "error": diagnosis.error,
        "tried": diagnosis.tried,
        "is_complete": diagnosis.is_complete,
        "alternatives": rows,
    }


def identification_json_data(result: Identification) -> dict[str, object]:
    """Data of a result for `--json`, in short; `Identification.save` keeps everything."""
    return {
        "robot": result.robot.name,
        "locks": dict(result.robot.locks),
        "model": result.model,
        "window": [*map(list, result.equation.options.spans)] or result.equation.options.window,
        "estimator": result.estimator,
        "cutoff": result.cutoff,
        "cutoff_reason": result.cutoff_reason,
        "delay": result.delay,
        "logs": [{"name": name, "findings": list(found)} for name, found in result.findings],
        "friction": list(result.friction),
        "gate": [
            {"block": trial.block, "error": trial.error, "before": trial.before, "admitted": trial.admitted}
            for trial in result.trials
        ],
        "names": list(result.names),
        "units": list(result.units),
        "values": _to_float_list(result.values),
        "sigma": _to_float_list(result.sigma),
        "intervals": [_to_float_list(pair) for pair in result.intervals],
        "essential": list(result.essential),
        "joint_parameters": _joint_json_data(result),
        "rank": result.rank,
        "base_rank": result.base_rank,
        "condition": result.condition,
        "base_condition": result.base_condition,
        "joints": list(result.joints),
        "channels": list(result.channels),
        "fit": score_json_data(result.fit),
        "validation": score_json_data(result.validation),
        "torques": None if result.torques is None else score_json_data(result.torques),
        "residuals": [
            {"joint": check.channel, "colour": check.colour, "velocity": check.velocity, "position": check.position}
            for check in result.checks
        ],
        "lost": [{"name": lost.name, "seen": lost.seen, "remedy": lost.remedy} for lost in result.unidentifiable],
        "diagnosis": None if result.diagnosis is None else _diagnosis_json_data(result.diagnosis),
        "verdict": {
            "level": result.verdict.level,
            "reasons": list(result.verdict.reasons),
            "next_step": result.verdict.next_step,
            "joints": {
                joint: {"level": found.level, "nrmse": found.nrmse, "reasons": list(found.reasons)}
                for joint, found in result.joint_verdicts.items()
            },
            "unproven": list(result.verdict.unproven),
        },
        "joint_errors": [
            {key: None if value != value else value for key, value in asdict(error).items()}
            for error in result.joint_errors
        ],
        "agreement": None
        if result.agreement is None
        else {
            "p": result.agreement.p,
            "parameters": dict(result.agreement.parameters),
            "differences": [
                {
                    "log": result.findings[found.log][0],
                    "kind": found.kind,
                    "parameters": list(found.parameters),
                    "p": found.p,
                    "gain": found.gain,
                }
                for found in result.agreement.differences
            ],
        },
        "notes": [*result.robot.notes, *result.notes],
        "warnings": list(result.warnings),
    }


def _joint_json_data(result: Identification) -> dict[str, object] | None:
    """Data of the joint torques' parameters for `--json`; None where they do not follow from a force plate."""
    if not result.equation.options.has_reactions or not _has_joint_parameters(result):
        return None
    found = joint_parameters(result)
    finite = [math.isfinite(x) for x in found.values]
    return {
        "names": list(found.names),
        "values": [float(x) if good else None for x, good in zip(found.values, finite, strict=True)],
        "sigma": [float(x) if good else None for x, good in zip(found.sigma, finite, strict=True)],
    }


def score_json_data(score: Score) -> dict[str, object]:
    """Data of the errors per channel for `--json`."""
    return {
        "rmse": _to_float_list(score.rmse),
        "nrmse": _to_float_list(score.nrmse),
        "mean_nrmse": score.mean,
        "settled": _to_float_list(score.settled),
        "unsettled": score.unsettled,
        "cutoff": score.cutoff,
        "source": score.source,
        "samples": score.samples,
    }


def _to_float_list(values: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float]:
    """List of plain floats from an array."""
    return [float(x) for x in values]
