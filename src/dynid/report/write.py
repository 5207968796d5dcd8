"""The report on a result, or on several side by side: one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError
from dynid.estimation.identification import Identification, Origin, find_origin
from dynid.logs.log import Log
from dynid.logs.read import LogLike, list_logs, read_log
from dynid.messages import Message, Option
from dynid.report.elements import (
    COLOURS,
    PLUS_MINUS,
    Cell,
    Figure,
    Table,
    escape_plot_text,
    name_axis,
    number_cell,
    number_text,
    percent_text,
    titled_axis,
    typed_array,
)
from dynid.report.page import ReportSubject, Section, StandardValues, render_page
from dynid.report.replay import replay_logs
from dynid.report.sections.answer import (
    MARKS,
    DataSection,
    DiagnosisSection,
    ReproduceSection,
    VerdictSection,
    WarningsSection,
)
from dynid.report.sections.fit import FrictionSection, PredictionSection, ResidualsSection
from dynid.report.sections.parameters import (
    ConditionSection,
    CorrelationSection,
    IdentifiableSection,
    ParametersSection,
    PhysicalSection,
    RobotSection,
)
from dynid.robot.transform import Array
from dynid.storage.files import hash_file, write_text

# Several results side by side: methods, models or robots.


READABLE = 40
"""Parameters in the chart, those about which results differ most."""

AGREE = 3.0
"""Combined deviations within which two values agree."""


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


@dataclass(frozen=True, slots=True)
class OverviewSection:
    """Verdicts and figures, one row per result."""

    name: str = "overview"
    title: str = "Verdicts"

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
                "rank", "condition", "cut-off", "warnings")  # fmt: skip
        reasons = [
            (n, r.verdict, tuple(dict.fromkeys(r.warnings)))
            for n, r in zip(subject.names, subject.results, strict=True)
        ]
        alike = len({(r.model, r.cutoff, r.validation.source) for r in subject.results}) == 1
        return {
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
        """Bar chart of errors, one group per channel."""
        channels = list(dict.fromkeys(c for r in subject.results for c in r.channels))
        traces = [
            {
                "type": "bar", "name": escape_plot_text(name), "x": [channels.index(c) for c in r.channels],
                "y": typed_array(100.0 * np.nan_to_num(r.validation.nrmse)),
                "marker": {"color": COLOURS[k % len(COLOURS)]},
            }
            for k, (name, r) in enumerate(zip(subject.names, subject.results, strict=True))
        ]  # fmt: skip
        layout = {
            "xaxis": {**name_axis(channels), "showgrid": False},
            "yaxis": titled_axis("NRMSE on validation data [%]"),
            "barmode": "group",
        }
        sources = list(zip(subject.names, (r.validation.source for r in subject.results), strict=True))
        return {"drawing": Figure("Validation errors per channel", traces, layout, 340), "sources": sources}


@dataclass(frozen=True, slots=True)
class IntervalsSection:
    """Parameters with their intervals, in one chart and one table."""

    name: str = "intervals"
    title: str = "Parameters"

    def build_content(self, subject: ComparedResults) -> Mapping[str, Any]:
        """Table of values, and a chart of intervals where the same name means the same in all results."""
        dispute = (
            {name: subject.largest_difference(name) for name in subject.parameters} if subject.is_same_robot else {}
        )
        ranked = sorted((n for n, d in dispute.items() if np.isfinite(d) or d == np.inf), key=lambda n: -dispute[n])
        head = ["parameter", *subject.names, *(["apart"] if dispute else [])]
        rows = [
            [Cell(name), *_value_cells(subject, name), *_difference_cells(dispute, name)] for name in subject.parameters
        ]
        return {
            "table": Table(f"Values {PLUS_MINUS} half width of the 95 % interval", head, rows),
            "drawing": _interval_chart(subject, ranked[:READABLE]) if ranked else None,
            "same": subject.is_same_robot,
            "shown": min(len(ranked), READABLE),
        }


def _value_cells(subject: ComparedResults, name: str) -> list[Cell]:
    """Cells of value and half width in every result."""
    cells = []
    for k in range(len(subject.results)):
        value, _, half = subject.value_and_interval(k, name)
        cells.append(
            number_cell(
                value, f"{number_text(value, 4)} {PLUS_MINUS} {number_text(half, 2)}" if np.isfinite(value) else "-"
            )
        )
    return cells


def _difference_cells(dispute: Mapping[str, float], name: str) -> list[Cell]:
    """Cell of the largest difference of a parameter between results, coloured where they disagree."""
    if not dispute:
        return []
    d = dispute[name]
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
            "marker": {"color": COLOURS[k % len(COLOURS)], "size": 6},
        })  # fmt: skip
    layout = {
        "xaxis": titled_axis("difference / widest half width"), "hovermode": "closest",
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
    """Write a report on a result as one HTML file; several results are put side by side.

    logs: those that the result was made from, in their order, and validate: others, read again to draw what was
    measured and predicted; without them the page has no such curves. physical: physically consistent standard
    parameters, shown beside nominal ones. names: what to call several results. command and inputs: how the page was
    made, and from which further files, for the section on reproducing; what a result knows of its origin is added.
    warnings: further ones to show, such as those of an export.
    Returned is what the page warns of beyond the results' own warnings.
    """
    files = [Path(file) for file in inputs]
    page_warnings: tuple[Message, ...] = ()
    if not isinstance(result, Identification):
        results = tuple(result)
        if logs or validate or physical is not None or warnings:
            raise DynidError(
                "option_not_applicable", "logs, physical parameters and warnings go with a single result; a "
                "comparison draws no curves",
            )  # fmt: skip
        page_warnings = tuple(dict.fromkeys(said for one in results for said in _find_changed_files(one)))
        compared = replace(
            ComparedResults.from_results(results, names, find_origin((), command, files)), page_warnings=page_warnings
        )
        page = render_page(compared.title, compared, COMPARED_SECTIONS)
    else:
        if names is not None:
            raise DynidError("option_not_applicable", "names go with several results")
        used, held_out = _open_logs(result, logs), _open_logs(result, validate)
        if len(used) > len(result.factors):
            raise DynidError(
                "log_count_mismatch", "the result was made from {logs} logs, {given} were given", "others are given "
                "with {option}", logs=len(result.factors), given=len(used), option=Option("validate"),
            )  # fmt: skip
        count = min(len(used), 4) + min(len(held_out), 4)
        page_warnings = (*_find_changed_files(result), *_find_other_logs(result, used))
        subject = ReportSubject(
            result,
            find_origin((*used, *held_out), command, files),
            replay_logs(result, used, fitted=True, pages=count, on_progress=on_progress),
            replay_logs(result, held_out, fitted=False, pages=count, on_progress=on_progress),
            physical,
            page_warnings,
            tuple(warnings),
        )
        page = render_page(f"Dynamics of {result.robot.name}", subject, SECTIONS, lead=summary_sentence(result))
    write_text(Path(path), page)
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
