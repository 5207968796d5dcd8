"""A page on identified drives: errors of rollouts against the horizon, one rollout joint by joint, parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.actuators.identify_actuators import Actuators
from dynid.messages import command_line_wording
from dynid.report.page import (
    COLOURS,
    Cell,
    Figure,
    Section,
    Table,
    Trace,
    corner_title,
    escape_plot_text,
    line_trace,
    log_axis,
    number_cell,
    number_text,
    render_page,
    titled_axis,
    unit_text,
)
from dynid.storage.files import write_text

MOST_CURVES = 12


class RolloutSection:
    """Errors against the horizon, and one window of held-out motion."""

    name, title = "rollouts", "Rollouts on held-out motion"

    def build_content(self, subject: Actuators) -> Mapping[str, Any] | None:
        """Figures and table; None without rollouts."""
        r = subject.rollout
        if r is None:
            return None
        shown = [("drives of the file", r.nominal, COLOURS[3]), ("linear estimate", r.before, COLOURS[0])]
        shown += [("polished", r.after, COLOURS[1])] if subject.polished else []
        traces: list[Trace] = [
            line_trace(r.horizons, 1e3 * y, name, colour, mode="lines+markers") for name, y, colour in shown
        ]
        values = 1e3 * np.concatenate([y for _, y, _ in shown])
        values = values[np.isfinite(values)] if np.isfinite(values).any() else np.ones(1)  # others diverge
        layout = {
            "xaxis": log_axis("horizon [s]", float(r.horizons.min()), float(r.horizons.max())),
            "yaxis": log_axis("error [mrad]", float(values.min()), float(values.max())),
        }  # fmt: skip
        head = ("horizon s", *(f"{name} mrad" for name, _, _ in shown), "rollouts")
        rows = []
        for k, h in enumerate(r.horizons):
            errors = [1e3 * float(y[k]) for _, y, _ in shown]
            cells = [number_cell(x, number_text(x, 3)) if np.isfinite(x) else Cell("diverges") for x in errors]
            count = number_cell(float(r.windows[k]), str(int(r.windows[k])))
            rows.append([number_cell(float(h), f"{h:g}"), *cells, count])
        said = (
            "Root mean square error of positions over joints, samples and windows: the simulated robot starts from a "
            "recorded state and follows the recorded commands. For prismatic joints read mm for mrad."
        )
        return {
            "text": said, "horizons": Figure("Error of rollouts against the horizon", traces, layout, 360),
            "table": Table("Error of rollouts by horizon", head, rows), "curves": self._curves(subject),
        }  # fmt: skip

    def _curves(self, subject: Actuators) -> list[Figure]:
        """Measured and simulated positions of each joint in one window."""
        r = subject.rollout
        assert r is not None
        figures = []
        for j, name in list(enumerate(subject.robot.joint_names))[:MOST_CURVES]:
            traces = [
                line_trace(r.curve_t, r.curve_measured[:, j], "measured", "#7b8494", width=3),
                line_trace(r.curve_t, r.curve_nominal[:, j], "drives of the file", COLOURS[3], dash="dash"),
                line_trace(r.curve_t, r.curve_after[:, j], "identified", COLOURS[0]),
            ]
            own = escape_plot_text(name)
            near = np.concatenate([r.curve_measured[:, j], r.curve_after[:, j]])
            near = near[np.isfinite(near)]
            span = float(np.ptp(near))
            beyond = np.nanmax(np.abs(r.curve_nominal[:, j] - near.mean()), initial=0.0) > max(3.0 * span, 1.0)
            shown = {"range": [float(near.min() - 0.5 * span), float(near.max() + 0.5 * span)]} if beyond else {}
            layout = {
                "title": corner_title(f"{own} [rad]"), "xaxis": titled_axis("t [s]"), "yaxis": titled_axis("", **shown),
            }  # fmt: skip
            figures.append(Figure(f"Rollout of joint {name}", traces, layout, 240))
        return figures


class DrivesSection:
    """All parameters with their intervals, delay and gains."""

    name, title = "drives", "Drives"

    def build_content(self, subject: Actuators) -> Mapping[str, Any]:
        """Sentence on the delay, and a table of parameters."""
        half = 1e3 * subject.quantile * subject.delay_sigma
        who = "the drive" if subject.loop == "drive" else "the host"
        text = (
            f"Commands act {1e3 * subject.delay:.2f} ms late (95 % interval: {half:.2g} ms to both sides); {who} "
            f"closes the loop. Columns were filtered at {subject.cutoff:.3g} Hz."
        )
        if subject.sensor_delay or subject.sensor_delay_sigma:
            text += f" The drive closes its loop with positions that are {1e3 * subject.sensor_delay:.2f} ms old."
        rows = []
        for p, x, s, (low, high) in zip(subject.names, subject.values, subject.sigma, subject.intervals, strict=True):
            rows.append([
                Cell(str(p)), Cell(p.joint or p.link or ""), number_cell(float(x), number_text(float(x), 5)),
                number_cell(float(s), number_text(float(s), 2)),
                number_cell(float(low), f"{number_text(float(low), 4)} to {number_text(float(high), 4)}"),
                Cell(unit_text(p.unit)),
            ])  # fmt: skip
        for key in ("kp", "kd", "gain", "torque_constant", "max_torque"):
            values = getattr(subject.gains, key)
            sigma = subject.gains.sigma.get(key, np.zeros(len(values)))
            for joint, x, s in zip(subject.robot.joint_names, values, sigma, strict=True):
                if np.isfinite(x) and (s > 0.0 or key in ("kp", "kd", "max_torque")):
                    given = "given" if s == 0.0 else number_text(float(s), 2)
                    cells = [Cell(key), Cell(joint), number_cell(float(x), number_text(float(x), 5)), Cell(given)]
                    rows.append([*cells, Cell(""), Cell("")])
        head = ("parameter", "joint", "value", "standard deviation", "95 % interval", "unit")
        return {"text": text, "table": Table("Parameters of the drives", head, rows, words=2)}


class WarningsSection:
    """What was warned about, and notes."""

    name, title = "warnings", "Warnings"

    def build_content(self, subject: Actuators) -> Mapping[str, Any]:
        """Warnings and notes in the words of the command line."""
        return {
            "warnings": list(map(command_line_wording, subject.warnings)),
            "notes": list(map(command_line_wording, subject.notes)),
        }


SECTIONS: tuple[Section[Actuators], ...] = (RolloutSection(), DrivesSection(), WarningsSection())


def write_actuators_page(result: Actuators, path: str | os.PathLike[str]) -> None:
    """Write the page on identified drives: one HTML file that needs nothing else."""
    lead = (
        f"Armature, friction and delay of {result.robot.n} joints from commands and positions. Verdict: "
        f"{command_line_wording(str(result.verdict))}."
    )
    write_text(Path(path), render_page(f"Drives of {result.robot.name}", result, SECTIONS, lead=lead))
