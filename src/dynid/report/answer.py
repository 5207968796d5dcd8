"""First of all: whether to trust the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dynid.estimation.diagnostics.hypotheses import Diagnosis
from dynid.estimation.identification import Identification, Origin
from dynid.estimation.inference.between_logs import Agreement
from dynid.estimation.options import Options
from dynid.report.page import (
    ARROW,
    COLOURS,
    Cell,
    Figure,
    ReportSubject,
    Table,
    escape_plot_text,
    joint_dash,
    line_trace,
    number_cell,
    number_text,
    percent_text,
    short_log_name,
    titled_axis,
    unit_text,
)
from dynid.report.replay import Replay
from dynid.robot.transform import Array
from dynid.storage.files import InputFile

MARKS = {"good": "good", "usable": "usable", "weak": "weak", "do not trust": "bad"}


@dataclass(frozen=True, slots=True)
class VerdictSection:
    """The verdict with its reasons, the next step, and the figures that a person asks for first."""

    name: str = "verdict"
    title: str = "Verdict"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Verdict: level, reasons, next step, and cards of the first figures."""
        result = subject.result
        kind = "base" if result.equation.unknown is None else "model"
        same = [note for note in result.notes if note.code == "validation_same_motion"]
        expected = (
            f"; {same[0].facts['low']:.1%} to {same[0].facts['high']:.1%} expected on other motions" if same else ""
        )
        others = len(result.names) - result.base_rank
        nominal, identified = subject.nominal_nrmse, subject.identified_nrmse
        improved = []
        if nominal is not None and identified is not None:
            told = f"nominal {percent_text(float(np.nanmean(nominal)))} {ARROW} identified"
            where = "logs not used for fitting" if subject.held_out else "logs used for fitting"
            shown = percent_text(float(np.nanmean(identified)))
            improved = [(f"{told} {shown}", f"mean error of the robot file and of this result on the {where}")]
        if subject.truth is not None:
            true = subject.reference_values
            ends = [(true[n], *pair) for n, pair in zip(result.names, result.intervals, strict=True) if n in true]
            inside = sum(bool(low <= x <= high) for x, low, high in ends)
            improved.append((f"{inside} of {len(ends)}", "true values are inside their 95 % intervals (simulated)"))
        cards = [
            *improved,
            (str(result.base_rank), f"{kind} parameters, and {others} others"),
            (percent_text(result.validation.mean), f"mean error in validation{expected}"),
            (percent_text(result.fit.mean), "mean error on the data used"),
            (number_text(result.base_condition, 3), f"condition of the {kind} columns"),
            (str(len(result.essential)), f"of {len(result.names)} parameters are essential"),
            (str(len(subject.warnings)), "warnings" if len(subject.warnings) != 1 else "warning"),
        ]
        return {
            "level": result.verdict.level,
            "mark": MARKS[result.verdict.level],
            "reasons": result.verdict.reasons,
            "next_step": result.verdict.next_step,
            "why": result.verdict.next_step.facts.get("why", ""),
            "unproven": result.verdict.unproven,
            "motion": _motion_table(result) if result.joint_errors else None,
            "cards": cards,
            "joints": {joint: found for joint, found in result.joint_verdicts.items() if found.level != "good"},
        }


def _motion_table(result: Identification) -> Table:
    """Table of errors of the joints in motion and at rest, beside those of trivial models."""
    names = ("model", "mean", "gravity")
    head = ("joint", "stands", *(f"moving: {name}" for name in names), *(f"standing: {name}" for name in names))
    rows = []
    for e in result.joint_errors:
        figures = (
            e.moving_rmse, e.mean_moving_rmse, e.gravity_moving_rmse,
            e.standing_rmse, e.mean_standing_rmse, e.gravity_standing_rmse,
        )  # fmt: skip
        cells = [number_cell(x, "none" if x != x else number_text(x, 3)) for x in figures]
        rows.append([Cell(e.joint), number_cell(e.standing, percent_text(e.standing)), *cells])
    title = "Validation error (RMSE, N m or N) in motion and at rest, beside the mean and gravity with Coulomb friction"
    return Table(title, head, rows, 1)


# What else the recordings could be, and whether they agree.


KINDS = {
    "payload": "payload at the last link", "friction": "friction", "offsets": "torque offsets",
    "gravity": "tilt of the mount", "parameters": "other parameters",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiagnosisSection:
    """Other readings of the logs that were tried, with the option that applies each; how logs differ."""

    name: str = "diagnosis"
    title: str = "Mistakes that were looked for"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Tables of alternatives and of logs; None where nothing was tried and nothing compared."""
        result = subject.result
        diagnosis, agreement = result.diagnosis, result.agreement
        if diagnosis is None and agreement is None:
            return None
        return {
            "alternatives": None if diagnosis is None else _alternatives_table(diagnosis),
            "tried": 0 if diagnosis is None else diagnosis.tried,
            "is_complete": diagnosis is None or diagnosis.is_complete,
            "best": None if diagnosis is None else diagnosis.best,
            "p": None if agreement is None else number_text(agreement.p, 2),
            "differences": None if agreement is None else _differences_table(result, agreement),
        }


def _alternatives_table(diagnosis: Diagnosis) -> Table:
    """Table of the alternatives that were tried, with their errors."""
    rows = [[Cell("as recorded"), Cell(""), number_cell(diagnosis.error, percent_text(diagnosis.error)), Cell("1.00")]]
    for x in diagnosis.alternatives:
        ratio = x.error / max(diagnosis.error, 1e-300)
        options = " ".join(option.render("command line") for option in x.options)
        rows.append([
            Cell(x.what.what, mark="bad" if x.is_named else ""), Cell(options, mark="mono"),
            number_cell(x.error, percent_text(x.error)), number_cell(ratio, f"{ratio:.2f}"),
        ])  # fmt: skip
    return Table("Alternatives", ("if", "then", "error", "ratio"), rows, 2)


def _differences_table(result: Identification, agreement: Agreement) -> Table | None:
    """Table of logs in which the robot differs; None where there are none."""
    rows = []
    for x in agreement.differences:
        gravity = ", ".join(f"{value:.2f}" for value in x.gravity)
        what = KINDS[x.kind] + (f" (gravity {gravity} m/s^2)" if x.gravity else "")
        rows.append([
            Cell(short_log_name(result.findings[x.log][0])), Cell(what), Cell(", ".join(x.parameters[:5])),
            number_cell(x.gain, percent_text(x.gain)),
        ])  # fmt: skip
    return Table("Logs that differ", ("log", "in", "clearest in", "share of residual"), rows, 3) if rows else None


# Everything that was warned about.


@dataclass(frozen=True, slots=True)
class WarningsSection:
    """Warnings of the result, its bodies and this page, and notes on the way."""

    name: str = "warnings"
    title: str = "Warnings and notes"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """All warnings and notes, once each."""
        result, bodies = subject.result, subject.physical
        notes = [*result.notes, *result.robot.notes, *result.equation.base.warnings, *(bodies.notes if bodies else ())]
        return {
            "warnings": subject.warnings,
            "notes": tuple(x for x in dict.fromkeys(notes) if x not in subject.warnings),
        }


# How to make the same again.


class HasOrigin(Protocol):
    """Whatever says where it came from."""

    @property
    def origin(self) -> Origin:
        """Commands, versions and files that the page was made from."""
        ...

    @property
    def results(self) -> Sequence[Identification]:
        """Results that the page is about."""
        ...


@dataclass(frozen=True, slots=True)
class ReproduceSection:
    """Commands, versions, hashes of the inputs."""

    name: str = "reproduce"
    title: str = "How to reproduce"

    def build_content(self, subject: HasOrigin) -> Mapping[str, Any]:
        """Commands and versions of results and page, each once; tables of files."""
        origins = [*(result.origin for result in subject.results), subject.origin]
        once: dict[str, tuple[str, InputFile]] = {}
        for what, file in _input_files(subject):
            once.setdefault(file.sha256, (what, file))
        rows = [
            [Cell(file.name), Cell(what), Cell(file.sha256, mark="mono"), number_cell(file.size, f"{file.size:,}")]
            for what, file in once.values()
        ]
        return {
            "commands": list(dict.fromkeys(origin.command for origin in origins if origin.command)),
            "versions": list(dict.fromkeys(origin.versions for origin in origins if origin.versions)),
            "table": Table("Input files", ("file", "part", "SHA-256", "bytes"), rows, 3) if rows else None,
            "robots": [r.robot.name for r in subject.results if not r.robot.files],
            "logs": any(not result.origin.inputs for result in subject.results),
        }


def _input_files(subject: HasOrigin) -> Iterator[tuple[str, InputFile]]:
    """Input files of results and page, each with what it was used for."""
    for result in subject.results:
        yield from (("robot", file) for file in result.robot.files)
        yield from (("log", file) for file in result.origin.inputs)
    yield from (("given for this page", file) for file in subject.origin.inputs)


# The data as they were used: filter, spectrum, gaps, standstill.


@dataclass(frozen=True, slots=True)
class DataSection:
    """What was found in the logs and done to them."""

    name: str = "data"
    title: str = "Data"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Findings in the logs; with logs at hand also counts and spectra."""
        result = subject.result
        found = [(short_log_name(log), sentences) for log, sentences in result.findings]
        spectra = _spectrum_figures(subject.replays[0], subject) if subject.replays else []
        return {
            "cutoff": None if result.cutoff is None else number_text(result.cutoff, 4),
            "reason": result.cutoff_reason,
            "window": _windows_text(result.equation.options),
            "model": result.model,
            "delay": 1e3 * result.delay,
            "found": found,
            "table": _logs_table(subject) if subject.replays else None,
            "spectra": spectra,
        }


def _windows_text(options: Options) -> str:
    """How long balances are, empty for models without."""
    if not options.is_integral:
        return ""
    if options.spans:
        return f"{len(options.spans)} windows of the list given"
    return f"windows of {number_text(options.window_seconds, 3)} s that overlap"


def _logs_table(subject: ReportSubject) -> Table:
    """Table of the logs: rate, samples, gaps, rows left out."""
    head = ("log", "part", "rate", "samples", "used", "gaps", "longest gap", "standstill", "left out")
    rows = []
    for part, replays in (("used", subject.used), ("validation", subject.held_out)):
        for replay in replays:
            found = replay.findings
            out = found.missing.count + found.strays.count + found.saturated + found.repeated_times + found.late
            still = found.standstill / found.used if found.used else 0.0
            rows.append([
                Cell(short_log_name(replay.name)), Cell(part), number_cell(found.rate, f"{found.rate:.5g} Hz"),
                number_cell(found.samples, f"{found.samples:,}"), number_cell(found.used, f"{found.used:.4g} s"),
                number_cell(found.gaps, str(found.gaps)), number_cell(found.longest_gap, f"{found.longest_gap:.3g} s"),
                number_cell(still, percent_text(still)), number_cell(out, f"{out:,} rows"),
            ])  # fmt: skip
    return Table("Logs, read again for this page", head, rows, 2)


def _spectrum_figures(replay: Replay, subject: ReportSubject) -> list[Figure]:
    """Spectra of velocities and, where used, of torques of one log."""
    spectrum, result = replay.spectrum, subject.result
    robot = result.robot
    slides = any(robot.links[k].kind == "prismatic" for k in robot.active_links)
    speed, torque = ("(rad/s, m/s)^2/Hz", "(N m, N)^2/Hz") if slides else ("(rad/s)^2/Hz", "(N m)^2/Hz")
    figures = [_spectrum_figure("velocities", unit_text(speed), spectrum.f, spectrum.velocity, subject)]
    if spectrum.torque is not None:
        figures.append(_spectrum_figure("torques", unit_text(torque), spectrum.f, spectrum.torque, subject))
    several = len(subject.replays)
    note = f"{short_log_name(replay.name)}, as recorded" + (
        f" (the first of {several} logs only)" if several > 1 else ""
    )
    if result.cutoff is not None:
        note += f"; dashed: the cut-off of {result.cutoff:.4g} Hz"
    return [
        Figure(f.label, f.traces, f.layout, f.height, f"Spectrum of the {f.label.split()[-1]}: {note}.")
        for f in figures
    ]


def _spectrum_figure(what: str, scale: str, f: Array, S: Array, subject: ReportSubject) -> Figure:
    """Figure of power densities S (frequencies, joints) over frequency."""
    top = float(S.max()) or 1.0
    names = subject.result.robot.joint_names
    traces = [
        line_trace(
            f,
            S[:, j].clip(1e-12 * top),
            escape_plot_text(names[j]),
            COLOURS[j % len(COLOURS)],
            width=1.1,
            dash=joint_dash(j),
        )
        for j in range(S.shape[1])
    ]
    shapes = []
    if subject.result.cutoff is not None:
        x = subject.result.cutoff
        shapes = [
            {
                "type": "line",
                "x0": x,
                "x1": x,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"dash": "dash", "width": 1.2, "color": "#7b8494"},
            }
        ]
    layout = {
        "xaxis": titled_axis("f [Hz]", type="log"),
        "yaxis": titled_axis(scale, type="log", exponentformat="power", nticks=6),
        "shapes": shapes,
    }  # fmt: skip
    return Figure(f"Spectrum of the {what}", traces, layout, 300)
