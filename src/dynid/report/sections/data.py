"""The data as they were used: filter, spectrum, gaps, standstill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynid.report.figure import Figure, axis, line
from dynid.report.replay import Replay
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import COLOURS, number, percent, plot_text, short_name, unit
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class DataSection:
    """What was found in the logs and done to them."""

    name: str = "data"
    title: str = "Data"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """Findings; with logs at hand also counts and spectra."""
        result = subject.result
        found = [(short_name(log), sentences) for log, sentences in result.findings]
        spectra = _spectra(subject.replays[0], subject) if subject.replays else []
        return {
            "cutoff": None if result.cutoff is None else number(result.cutoff, 4),
            "reason": result.cutoff_reason,
            "window": result.equation.measure.window and number(result.equation.measure.window, 3),
            "model": result.model,
            "delay": 1e3 * result.delay,
            "found": found,
            "table": _table(subject) if subject.replays else None,
            "spectra": spectra,
        }


def _table(subject: Subject) -> Table:
    head = ("log", "part", "rate", "samples", "used", "gaps", "longest gap", "standstill", "left out")
    rows = []
    for part, replays in (("used", subject.used), ("validation", subject.held_out)):
        for replay in replays:
            found = replay.findings
            out = found.missing.count + found.strays.count + found.saturated + found.repeated_times + found.late
            still = found.standstill / found.used if found.used else 0.0
            rows.append([
                Cell(short_name(replay.name)), Cell(part), cell(found.rate, f"{found.rate:.5g} Hz"),
                cell(found.samples, f"{found.samples:,}"), cell(found.used, f"{found.used:.4g} s"),
                cell(found.gaps, str(found.gaps)), cell(found.longest_gap, f"{found.longest_gap:.3g} s"),
                cell(still, percent(still)), cell(out, f"{out:,} rows"),
            ])  # fmt: skip
    return Table("Logs, read again for this page", head, rows, 2)


def _spectra(replay: Replay, subject: Subject) -> list[Figure]:
    spectrum, result = replay.spectrum, subject.result
    robot = result.robot
    slides = any(robot.links[k].kind == "prismatic" for k in robot.active_links)
    speed, torque = ("(rad/s, m/s)^2/Hz", "(N m, N)^2/Hz") if slides else ("(rad/s)^2/Hz", "(N m)^2/Hz")
    figures = [_spectrum("velocities", unit(speed), spectrum.f, spectrum.velocity, subject)]
    if spectrum.torque is not None:
        figures.append(_spectrum("torques", unit(torque), spectrum.f, spectrum.torque, subject))
    several = len(subject.replays)
    note = f"{short_name(replay.name)}, as recorded" + (f" (the first of {several} logs only)" if several > 1 else "")
    if result.cutoff is not None:
        note += f"; dashed: the cut-off of {result.cutoff:.4g} Hz"
    return [
        Figure(f.label, f.traces, f.layout, f.height, f"Spectrum of the {f.label.split()[-1]}: {note}.")
        for f in figures
    ]


def _spectrum(what: str, scale: str, f: Array, S: Array, subject: Subject) -> Figure:
    top = float(S.max()) or 1.0
    names = subject.result.robot.joint_names
    traces = [
        line(f, S[:, j].clip(1e-12 * top), plot_text(names[j]), COLOURS[j % len(COLOURS)], width=1.1)
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
        "xaxis": axis("f [Hz]", type="log"), "yaxis": axis(scale, type="log", exponentformat="power", nticks=6),
        "shapes": shapes,
    }  # fmt: skip
    return Figure(f"Spectrum of the {what}", traces, layout, 300)
