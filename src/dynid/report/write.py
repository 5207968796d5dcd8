"""The report on a result, or on several side by side: one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError
from dynid.estimation.compare import Comparison
from dynid.estimation.identification import UNKNOWN_ORIGIN, Identification, Origin, find_origin
from dynid.logs.log import Log
from dynid.logs.read import LogLike, list_logs, read_log
from dynid.messages import Message, Option
from dynid.report.answer import (
    MARKS,
    DataSection,
    DiagnosisSection,
    ReproduceSection,
    VerdictSection,
    WarningsSection,
)
from dynid.report.fit import FrictionSection, PredictionSection, ResidualsSection
from dynid.report.page import (
    COLOURS,
    PLUS_MINUS,
    Cell,
    Figure,
    Figures,
    ReportSubject,
    Section,
    StandardValues,
    Table,
    escape_plot_text,
    name_axis,
    number_cell,
    number_text,
    percent_text,
    plotly_figures,
    render_page,
    titled_axis,
    typed_array,
    unit_text,
    value_and_half_width_text,
)
from dynid.report.parameters import (
    ConditionSection,
    CorrelationSection,
    IdentifiableSection,
    ParametersSection,
    PhysicalSection,
    RobotSection,
    group_of_parameter,
)
from dynid.report.replay import replay_logs
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import hash_file, write_text

# Several results side by side: methods, models or robots.


READABLE = 40
"""Parameters in the chart, those about which results differ most."""

SAME, AGREE = 2.0, 3.0
"""Combined standard deviations within which two values are the same, and beyond which they disagree."""

BY_CHANCE = 0.0455
"""Share of equal values that differ by more than two standard deviations."""

MOST_NAMED = 8
PATTERNS, SYMBOLS = ("", "/", "x", ".", "-", "|"), ("circle", "square", "diamond", "cross", "x", "triangle-up")
"""Of bars and markers, beside their colours."""


@dataclass(frozen=True, eq=False)
class ComparedResults:
    """Results with their names; the others are compared with the first. page_warnings: the page's own."""

    results: tuple[Identification, ...]
    names: tuple[str, ...]
    origin: Origin
    page_warnings: tuple[Message, ...] = ()

    @staticmethod
    def from_results(results: Sequence[Identification], names: Sequence[str] | None, origin: Origin) -> ComparedResults:
        """Check results to compare, and name them; missing names are model and estimator."""
        if len(results) < 2:
            raise DynidError("too_few_results", "a comparison needs two results or more")
        if names is not None and len(names) != len(results):
            raise DynidError(
                "name_count_mismatch", "{names} names were given for {results} results", names=len(names),
                results=len(results),
            )  # fmt: skip
        words = [f"{r.robot.name}, {r.model}, {r.estimator}" for r in results] if names is None else list(names)
        twice = [f"{k + 1}. {w}" if words.count(w) > 1 else w for k, w in enumerate(words)]
        return ComparedResults(tuple(results), tuple(twice), origin)

    @property
    def is_same_robot(self) -> bool:
        """Whether all results are of one robot."""
        first = self.results[0].robot
        return all(
            r.robot.name == first.name and r.robot.parameter_names == first.parameter_names for r in self.results
        )

    def is_same_parameter(self, k: int, other: int, name: str) -> bool:
        """Whether two results have the parameter and regroup the same others into it."""
        rows = [self._rows_of_base_matrix(i).get(name) for i in (k, other)]
        if rows[0] is None or rows[1] is None:
            return rows[0] is rows[1] and all(name in self.results[i].names for i in (k, other))
        return rows[0].shape == rows[1].shape and bool(np.allclose(rows[0], rows[1], rtol=1e-6, atol=1e-9))

    def _rows_of_base_matrix(self, k: int) -> dict[str, Array]:
        """Rows of a result's base matrix by name: standard parameters regrouped into each base parameter."""
        base = self.results[k].equation.base
        return dict(zip(base.names, base.matrix, strict=True))

    @property
    def title(self) -> str:
        """Heading of the page."""
        robots = dict.fromkeys(r.robot.name for r in self.results)
        return f"{len(self.results)} results for {', '.join(robots)}"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of all results, in order of their first appearance."""
        return tuple(dict.fromkeys(name for r in self.results for name in r.names))

    def value_and_interval(self, k: int, name: str) -> tuple[float, float, float]:
        """Value, deviation and half width in one result, NaN where it has no such parameter."""
        r = self.results[k]
        if name not in r.names:
            return np.nan, np.nan, np.nan
        place = r.names.index(name)
        return float(r.values[place]), float(r.sigma[place]), float(r.quantile * r.sigma[place])

    def largest_difference(self, name: str) -> float:
        """Largest difference from the first result that has the parameter, in combined deviations; NaN for one."""
        having = [k for k, r in enumerate(self.results) if name in r.names]
        found = [self.value_and_interval(k, name) for k in having if self.is_same_parameter(having[0], k, name)]
        if len(found) < 2:
            return np.nan
        value, sigma, _ = found[0]
        apart = [(abs(v - value), float(np.hypot(s, sigma))) for v, s, _ in found[1:]]
        return max(d / s if s > 0.0 else (np.inf if d > 1e-9 * abs(value) else 0.0) for d, s in apart)

    @cached_property
    def differences(self) -> dict[str, float]:
        """Largest differences of the parameters that can be compared, in combined deviations, the largest first."""
        if not self.is_same_robot:
            return {}
        found = {name: self.largest_difference(name) for name in self.parameters}
        return {name: d for name, d in sorted(found.items(), key=lambda item: -item[1]) if not np.isnan(d)}

    def error_group(self, k: int) -> tuple[object, ...]:
        """What two results must share for their errors to be on one axis: robot, model, cut-off, validation data."""
        r = self.results[k]
        return r.robot.name, r.model, r.cutoff, r.validation.source

    @property
    def answer(self) -> str:
        """Whether the results say the same, in words."""
        if not self.is_same_robot:
            return "These results are of different robots: their parameters cannot be compared."
        count = len(self.differences)
        if not count:
            return "No parameter of these results can be compared: each groups other standard parameters."
        beyond = [name for name, d in self.differences.items() if d > SAME]
        if not beyond:
            return f"The same within 2 sigma in all {count} parameters that can be compared."
        worst = f"{beyond[0]} by {number_text(self.differences[beyond[0]], 2)} sigma"
        if len(beyond) > count / 2:
            return f"The results differ: {len(beyond)} of {count} parameters by more than 2 sigma, most {worst}."
        names = ", ".join(beyond[:MOST_NAMED]) + (
            f" and {len(beyond) - MOST_NAMED} more" if len(beyond) > MOST_NAMED else ""
        )
        return (
            f"The same within 2 sigma except for {names} ({len(beyond)} of {count} parameters, most {worst}; about "
            f"{BY_CHANCE * count * (len(self.results) - 1):.1g} would be by chance)."
        )

    @property
    def errors_told(self) -> str:
        """Which result predicts best, where that can be said."""
        if len({self.error_group(k) for k in range(len(self.results))}) > 1:
            return ""
        errors = [r.validation.mean for r in self.results]
        best = int(np.argmin(errors))
        others = ", ".join(percent_text(e) for k, e in enumerate(errors) if k != best)
        return f"{self.names[best]} has the least validation error: {percent_text(errors[best])} (others: {others})."


@dataclass(frozen=True, slots=True)
class OverviewSection:
    """The answer, then verdicts and figures, one row per result."""

    name: str = "overview"
    title: str = "Do they agree?"

    def build_content(self, subject: ComparedResults) -> Mapping[str, Any]:
        """Table of verdicts and figures, one row per result, and the reasons."""
        rows = []
        for name, r in zip(subject.names, subject.results, strict=True):
            mark = {"usable": "fair", "weak": "poor"}.get(r.verdict.level, MARKS[r.verdict.level])
            rows.append([
                Cell(name), Cell(r.verdict.level, mark=mark), Cell(r.robot.name), Cell(r.model), Cell(r.estimator),
                Cell(", ".join(r.friction) or "none"),
                number_cell(r.validation.mean, percent_text(r.validation.mean)),
                number_cell(r.fit.mean, percent_text(r.fit.mean)),
                number_cell(r.rank, str(r.rank)), number_cell(r.condition, number_text(r.condition, 3)),
                number_cell(r.cutoff or np.nan, "none" if r.cutoff is None else f"{r.cutoff:.3g} Hz"),
                number_cell(len(set(r.warnings)), str(len(set(r.warnings)))),
            ])  # fmt: skip
        head = ("result", "verdict", "robot", "model", "estimator", "friction", "error, validation", "error, fit",
                "rank", "condition, all columns", "cut-off", "warnings")  # fmt: skip
        reasons = [
            (n, r.verdict, tuple(dict.fromkeys(r.warnings)))
            for n, r in zip(subject.names, subject.results, strict=True)
        ]
        alike = len({subject.error_group(k) for k in range(len(subject.results))}) == 1
        disagree = any(d > AGREE for d in subject.differences.values())
        return {
            "answer": subject.answer,
            "told": subject.errors_told,
            "mark": "usable" if disagree or not subject.differences else "good",
            "table": Table("Results", head, rows, 6),
            "reasons": reasons,
            "alike": alike,
            "page_warnings": subject.page_warnings,
        }


@dataclass(frozen=True, slots=True)
class ErrorsSection:
    """Errors per channel."""

    name: str = "errors"
    title: str = "Validation errors"

    def build_content(self, subject: ComparedResults) -> Mapping[str, Any]:
        """Bar charts of errors, one for all results whose errors can be compared."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for k in range(len(subject.results)):
            groups.setdefault(subject.error_group(k), []).append(k)
        return {"figures": [_errors_chart(subject, own) for own in groups.values()]}


def _errors_chart(subject: ComparedResults, own: Sequence[int]) -> Figure:
    """Figure of the validation errors of results that can be compared, one group of bars per channel."""
    channels = list(dict.fromkeys(c for k in own for c in subject.results[k].channels))
    traces = [
        {
            "type": "bar", "name": escape_plot_text(subject.names[k]),
            "x": [channels.index(c) for c in subject.results[k].channels],
            "y": typed_array(100.0 * np.nan_to_num(subject.results[k].validation.nrmse)),
            "marker": {
                "color": COLOURS[k % len(COLOURS)],
                "pattern": {"shape": PATTERNS[k % len(PATTERNS)], "solidity": 0.2, "fillmode": "overlay"},
            },
        }
        for k in own
    ]  # fmt: skip
    layout = {
        "xaxis": {**name_axis(channels), "showgrid": False},
        "yaxis": titled_axis("NRMSE on validation data [%]"),
        "barmode": "group", "showlegend": True,
    }  # fmt: skip
    first = subject.results[own[0]]
    cutoff = "unfiltered" if first.cutoff is None else f"cut-off {first.cutoff:.3g} Hz"
    what = f"{first.robot.name}, {first.model}, {cutoff}, validated on {first.validation.source}"
    return Figure(f"Validation errors per channel: {what}", traces, layout, 320, heading=((what, "name"),))


@dataclass(frozen=True, slots=True)
class IntervalsSection:
    """Parameters with their intervals, in one chart and one table."""

    name: str = "intervals"
    title: str = "Parameters"

    def build_content(self, subject: ComparedResults) -> Mapping[str, Any]:
        """Table of values, and a chart of intervals where the same name means the same in all results."""
        dispute, ranked = subject.differences, list(subject.differences)
        units = {str(name): unit for r in subject.results for name, unit in zip(r.names, r.units, strict=True)}
        head = ["parameter", "unit", *subject.names, *(["apart"] if dispute else [])]
        order = [*ranked, *(name for name in subject.parameters if name not in dispute)]
        rows = [
            [
                Cell(name), Cell(unit_text(units[name]), mark="soft"), *_value_cells(subject, name),
                *_difference_cells(dispute, name),
            ]
            for name in order
        ]  # fmt: skip
        essential = [any(name in r.essential for r in subject.results) for name in order]
        groups = [group_of_parameter(subject.results[0].robot, name) for name in order] if subject.is_same_robot else []
        return {
            "table": Table(f"Values {PLUS_MINUS} 95 %, those that differ most first", head, rows, 2, groups, essential),
            "drawing": _interval_chart(subject, ranked[:READABLE]) if ranked else None,
            "same": subject.is_same_robot,
            "shown": min(len(ranked), READABLE),
        }


def _value_cells(subject: ComparedResults, name: str) -> list[Cell]:
    """Cells of value and half width in every result."""
    cells = []
    for k in range(len(subject.results)):
        value, _, half = subject.value_and_interval(k, name)
        shown = f" {PLUS_MINUS} ".join(value_and_half_width_text(value, half)) if np.isfinite(value) else "-"
        cells.append(number_cell(value, shown))
    return cells


def _difference_cells(dispute: Mapping[str, float], name: str) -> list[Cell]:
    """Cell of the largest difference of a parameter between results, coloured where they disagree."""
    if not dispute:
        return []
    d = dispute.get(name, np.nan)
    return [
        number_cell(d, "-" if np.isnan(d) else f"{d:.1f} sigma", "" if np.isnan(d) else "bad" if d > AGREE else "soft")
    ]


def _interval_chart(subject: ComparedResults, names: Sequence[str]) -> Figure:
    """Figure of differences from the first result over the widest half width, on one scale."""
    traces = []
    count = len(subject.results)
    for k in range(count):
        x, half, y = [], [], []
        for row, name in enumerate(names):
            first = next(i for i, r in enumerate(subject.results) if name in r.names)
            reference = subject.value_and_interval(first, name)
            value, _, own = subject.value_and_interval(k, name)
            widest = np.nanmax([subject.value_and_interval(i, name)[2] for i in range(count)])
            scale = float(widest) or abs(reference[0]) or 1.0
            if np.isfinite(value) and subject.is_same_parameter(first, k, name):
                x.append((value - reference[0]) / scale)
                half.append(own / scale)
                y.append(row + 0.7 * ((k + 0.5) / count - 0.5))
        traces.append({
            "type": "scatter", "mode": "markers", "name": escape_plot_text(subject.names[k]),
            "x": typed_array(np.array(x)),
            "y": typed_array(np.array(y)),
            "error_x": {"type": "data", "array": typed_array(np.array(half)), "thickness": 1.2, "width": 2},
            "marker": {"color": COLOURS[k % len(COLOURS)], "size": 7, "symbol": SYMBOLS[k % len(SYMBOLS)]},
        })  # fmt: skip
    layout = {
        "xaxis": titled_axis("difference over the widest interval's half width [1]"), "hovermode": "closest",
        "yaxis": {**name_axis(names), "autorange": "reversed", "zeroline": False},
    }  # fmt: skip
    return Figure(
        "Parameters with intervals, relative to the first result", traces, layout, 90 + 22 * max(4, len(names))
    )


COMPARED_SECTIONS: tuple[Section[ComparedResults], ...] = (
    OverviewSection(),
    ErrorsSection(),
    IntervalsSection(),
    ReproduceSection(),
)


SECTIONS: tuple[Section[ReportSubject], ...] = (
    VerdictSection(), PredictionSection(), DiagnosisSection(), ParametersSection(), PhysicalSection(),
    FrictionSection(), RobotSection(), IdentifiableSection(), DataSection(), CorrelationSection(), ResidualsSection(),
    ConditionSection(), WarningsSection(), ReproduceSection(),
)  # fmt: skip

SOURCES = {
    "torque": "torques of {} joints", "power": "power of {} joints", "energy": "energy of {} joints",
    "momentum": "momenta of {} joints", "reaction": "forces on the base",
    "torque+reaction": "torques of {} joints and the forces on the base",
}  # fmt: skip

Logs = Log | LogLike | Sequence[Log | LogLike]


@one_blas_thread
def write_report(
    result: Identification | Sequence[Identification],
    path: str | Path,
    *,
    logs: Logs = (),
    validate: Logs = (),
    physical: StandardValues | None = None,
    names: Sequence[str] | None = None,
    command: str = "",
    inputs: Sequence[str | Path] = (),
    warnings: Sequence[Message] = (),
    on_progress: Callable[[str, float], None] | None = None,
) -> tuple[Message, ...]:
    """Write a report on a result as one HTML file; several results are shown side by side.

    Parameters
    ----------
    result : Identification or sequence of Identification
        The results.
    path : str or Path
        The file.
    logs : Log, path, frame or mapping, or a sequence of them
        Logs that the result was made from, in their order, read again to draw measured and predicted channels; without
        them the page has no such curves.
    validate : Log, path, frame or mapping, or a sequence of them
        Other logs to draw.
    physical : PhysicalParameters, optional
        Physically consistent standard parameters, shown beside nominal ones.
    names : sequence of str, optional
        Names of several results.
    command : str
        Command that made the page, for the section on reproducing it.
    inputs : sequence of str or Path
        Further files it was made from.
    warnings : sequence of Message
        Further warnings to show, such as those of an export.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.

    Returns
    -------
    tuple of Message
        Warnings of the page beyond those of the results.

    Raises
    ------
    DynidError
        If a log does not belong to the result.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify, load_robot, simulate, write_report
    >>> robot = load_robot("one_link")
    >>> t = np.arange(0.0, 10.0, 0.01)
    >>> x = t[:, None]
    >>> log = simulate(robot, Motion(t, np.sin(x), np.cos(x), -np.sin(x)), noise=0.01)
    >>> write_report(identify(robot, log, friction=("viscous",)), "report.html", logs=log)
    ()
    """
    if isinstance(result, Identification):
        if names is not None:
            raise DynidError("option_not_applicable", "names apply to several results")
        return write_result_page(
            result, path, logs=logs, validate=validate, physical=physical, command=command, inputs=inputs,
            warnings=warnings, on_progress=on_progress,
        )  # fmt: skip
    results = tuple(result)
    if logs or validate or physical is not None or warnings:
        raise DynidError(
            "option_not_applicable", "logs, physical parameters and warnings apply to a single result; a comparison "
            "draws no curves",
        )  # fmt: skip
    page_warnings = tuple(dict.fromkeys(said for one in results for said in _find_changed_files(one)))
    compared = ComparedResults.from_results(results, names, find_origin((), command, [Path(file) for file in inputs]))
    compared = replace(compared, page_warnings=page_warnings)
    write_text(Path(path), render_page(compared.title, compared, COMPARED_SECTIONS))
    return page_warnings


@one_blas_thread
def write_result_page(
    result: Identification,
    path: str | Path,
    *,
    logs: Logs = (),
    validate: Logs = (),
    physical: StandardValues | None = None,
    command: str = "",
    inputs: Sequence[str | Path] = (),
    warnings: Sequence[Message] = (),
    truth: Robot | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> tuple[Message, ...]:
    """Write the page of one result, as `write_report`; truth: the robot that was simulated, where no real one was.

    Nominal values that are not those of the simulated robot are not shown: they say nothing about it.
    """
    used, held_out = _open_logs(result, logs), _open_logs(result, validate)
    if len(used) > len(result.factors):
        raise DynidError(
            "log_count_mismatch", "the result was made from {logs} logs, {given} were given", "give the others with "
            "{option}", logs=len(result.factors), given=len(used), option=Option("validate"),
        )  # fmt: skip
    with_nominal = truth is None or np.array_equal(truth.parameters, result.robot.parameters)
    pages = min(len(used), 4) + min(len(held_out), 4)
    read = partial(replay_logs, result, pages=pages, with_nominal=with_nominal, on_progress=on_progress)
    page_warnings = (*_find_changed_files(result), *_find_other_logs(result, used))
    subject = ReportSubject(
        result,
        find_origin((*used, *held_out), command, [Path(file) for file in inputs]),
        read(used, fitted=True),
        read(held_out, fitted=False),
        physical,
        page_warnings,
        tuple(warnings),
        truth,
    )
    title = f"Dynamics of {result.robot.name}"
    write_text(Path(path), render_page(title, subject, SECTIONS, lead=summary_sentence(result)))
    return page_warnings


def _find_other_logs(result: Identification, used: Sequence[Log]) -> tuple[Message, ...]:
    """Warnings on logs given as those of the result whose files have other contents."""
    known = {file.sha256 for file in result.origin.inputs}
    if not known:
        return ()
    what = (
        "{file}: not the log that the result was made from, its contents differ; curves and errors drawn from it are "
        "not those of the result"
    )
    return tuple(
        Message("log_of_other_result", what, file=file.name)
        for file in find_origin(used).inputs
        if file.sha256 not in known
    )


def _find_changed_files(result: Identification) -> tuple[Message, ...]:
    """Warnings on files of the robot whose contents have changed since."""
    what = "{file}: the robot's file has changed since the identification; the page shows the robot as it was then"
    return tuple(
        Message("robot_file_changed", what, file=file.name)
        for file in result.robot.files
        if Path(file.name).is_file() and hash_file(Path(file.name)).sha256 != file.sha256
    )


def summary_sentence(result: Identification) -> str:
    """Sentence on what was identified, from what and how."""
    source = SOURCES[result.model].format(len(result.joints))
    count = len(result.findings)
    logs = "1 log" if count == 1 else f"{count} logs"
    return f"Identified from the {source} in {logs} ({result.estimator}), by dynid {result.version}."


def _open_logs(result: Identification, logs: Logs) -> tuple[Log, ...]:
    """Return logs as `Log`; files that are named are opened."""
    several = list_logs(logs)
    return tuple(log if isinstance(log, Log) else read_log(log, result.robot) for log in several)


# Figures one by one, for notebooks.


@one_blas_thread
def result_figures(result: Identification, logs: Logs = (), validate: Logs = ()) -> Figures:
    """Figures of a result's report; logs and validate: see `write_report`."""
    used, held_out = _open_logs(result, logs), _open_logs(result, validate)
    pages = len(used) + len(held_out)
    read = partial(replay_logs, result, pages=max(pages, 1), with_nominal=True, on_progress=None)
    subject = ReportSubject(result, result.origin, read(used, fitted=True), read(held_out, fitted=False))
    return plotly_figures(subject, SECTIONS)


def comparison_figures(found: Comparison) -> Figures:
    """Figures of a report on all finished runs of a comparison."""
    runs = found.finished
    compared = ComparedResults.from_results([r.identification for r in runs], [r.name for r in runs], UNKNOWN_ORIGIN)
    return plotly_figures(compared, COMPARED_SECTIONS)
