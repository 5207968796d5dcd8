"""A page on a fleet: map of changes, ranked alarms, trends, spread between robots, blind spots, refused logs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.fleet.changes import Contrast, Effect, at_baseline_temperature
from dynid.fleet.data import natural_order
from dynid.fleet.fleet import FEWEST_ALIKE, Alarm, Fleet, describe_kind
from dynid.messages import command_line_wording
from dynid.report.page import (
    COLOURS,
    Cell,
    Figure,
    Section,
    Table,
    corner_title,
    escape_plot_text,
    line_trace,
    name_axis,
    number_cell,
    number_text,
    percent_text,
    render_page,
    titled_axis,
    typed_array,
)
from dynid.storage.files import write_text

MOST_TRENDS, MOST_SENTENCES, MOST_DOUBTFUL = 12, 10, 40
DARKEST = 12.0
"""Decimal orders of p from which on the map is darkest."""

BLIND = 0.5
"""Standard deviation over the value from which on a parameter is hardly seen."""

SMALL = 0.1
"""Share of the largest parameter of its link and unit below which the value of a parameter does not matter."""


@dataclass(frozen=True, eq=False)
class _Part:
    """What one section shows."""

    texts: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    command: str = ""

    def content(self) -> Mapping[str, Any]:
        """Values for the template."""
        return {"texts": self.texts, "figures": self.figures, "tables": self.tables, "command": self.command}


@dataclass(frozen=True, eq=False)
class FleetView:
    """A fleet at a false discovery rate."""

    fleet: Fleet
    alpha: float

    @cached_property
    def alarms(self) -> tuple[Alarm, ...]:
        """Alarms, the most certain first."""
        return self.fleet.alarms(self.alpha)


class _FleetSection:
    """A section of the page, all with one template."""

    name, title, template = "", "", "fleet"

    def build_content(self, subject: FleetView) -> Mapping[str, Any] | None:
        """Values for the template; None where there is nothing to show."""
        part = self.build(subject.fleet, subject)
        return None if part is None else part.content()

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """Texts, figures and tables."""
        raise NotImplementedError


class MapSection(_FleetSection):
    """Robots against periods: how strongly each differs from its baseline."""

    name, title = "map", "Robots against periods"

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """A map of the strongest change."""
        if not fleet.findings:
            return _Part(["No robot has a period after its baseline yet: there is nothing to compare."])
        robots, periods = fleet.robots, fleet.periods
        z = np.full((len(robots), len(periods)), np.nan)
        said = [[f"{robot}, {period}: baseline or no data" for period in periods] for robot in robots]
        for f in fleet.findings:
            i, j = robots.index(f.robot), periods.index(f.period)
            z[i, j] = min(-f.log_p / np.log(10.0), DARKEST)
            said[i][j] = f"{f.robot}, {f.period}: {describe_kind(f.kind, f.joint)}, p = {f.p:.1g}"
        trace = {
            "type": "heatmap", "x": list(range(len(periods))), "y": list(range(len(robots))),
            "z": [[None if np.isnan(x) else round(float(x), 3) for x in row] for row in z],
            "zmin": 0, "zmax": DARKEST, "colorscale": [[0, "#f4f6fa"], [0.25, "#fbd9a0"], [1, "#b3261e"]],
            "text": [[escape_plot_text(text) for text in row] for row in said], "hoverinfo": "text",
            "colorbar": {"title": {"text": "-log10 p"}}, "xgap": 1, "ygap": 1,
        }  # fmt: skip
        layout = {
            "xaxis": {**titled_axis("period"), **name_axis(periods)},
            "yaxis": {**titled_axis("robot"), **name_axis(robots), "autorange": "reversed"},
        }
        tested, listed = len(fleet.findings), len(fleet.significant(view.alpha))
        text = (
            f"{tested} periods were tested against the first {fleet.baseline} of their robot; {listed} of them make up "
            f"the alarms. Expected false alarms: about {view.alpha * listed:.2g}, which is "
            f"{percent_text(view.alpha)} of these periods, most likely among alarms of a single period; without "
            f"control of the false discovery rate {0.01 * tested:.2g} at 1 %. Empty fields are baselines or have no "
            "data; the map is darkest from p = 1e-12 on."
        )
        height = int(np.clip(22 * len(robots) + 120, 260, 1400))
        return _Part([text], [Figure("Robots against periods, coloured by the strength of the change", [trace], layout,
                                     height)])  # fmt: skip


class AlarmSection(_FleetSection):
    """What changed, the most certain first."""

    name, title = "alarms", "Alarms"

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """A sentence per alarm, and a table."""
        alarms = view.alarms
        if not alarms:
            return _Part(["No period differs from its robot's baseline."]) if fleet.findings else None
        rows = []
        for alarm in alarms:
            percent = alarm.kind != "payload"
            scale, unit = (100.0, " %") if percent else (1.0, " kg")
            known = alarm.kind != "not explained"
            rows.append([
                Cell(alarm.robot), Cell(alarm.since), Cell(alarm.until), Cell(alarm.what),
                number_cell(scale * alarm.size, f"{scale * alarm.size:+.3g}{unit}" if known else ""),
                number_cell(scale * alarm.sigma, f"{scale * alarm.sigma:.2g}{unit}" if known else ""),
                number_cell(alarm.p, f"{alarm.p:.1g}"), number_cell(alarm.periods, str(alarm.periods)),
            ])  # fmt: skip
        head = ("robot", "since", "until", "what", "size", "standard deviation", "p", "periods")
        texts = [command_line_wording(alarm.message) for alarm in alarms[:MOST_SENTENCES]]
        if len(alarms) > MOST_SENTENCES:
            texts.append(f"and {len(alarms) - MOST_SENTENCES} more, all in the table:")
        return _Part(texts, tables=[Table("Alarms, the most certain first", head, rows, words=4)])


class TrendSection(_FleetSection):
    """How what changed went over time."""

    name, title = "trends", "Trends"

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """One figure per alarm: size with its band over the periods, and where it changed."""
        explained = [alarm for alarm in view.alarms if alarm.kind != "not explained"]
        if not explained:
            return None
        return _Part(
            ["Size against the baseline, with a band of two standard deviations; the line shows since when."],
            [self._trend(fleet, alarm) for alarm in explained[:MOST_TRENDS]],
        )

    def _trend(self, fleet: Fleet, alarm: Alarm) -> Figure:
        """Trend of one hypothesis on one robot."""
        own = sorted((c for c in fleet.contrasts if c.robot == alarm.robot), key=lambda c: natural_order(c.period))
        own = [at_baseline_temperature(c, fleet.calibration.slopes) for c in own]
        points = [(c, e) for c in own for e in c.effects if (e.kind, e.joint) == (alarm.kind, alarm.joint)]
        scale = 1.0 if alarm.kind == "payload" else 100.0
        x, y, s = _curve(fleet, points, scale)
        names = [c.period for c, _ in points]
        title = escape_plot_text(f"{alarm.robot}: {alarm.what}")
        band = {
            "type": "scatter", "x": [*x, *x[::-1]], "y": [*(y + 2.0 * s).tolist(), *(y - 2.0 * s)[::-1].tolist()],
            "fill": "toself", "fillcolor": "rgba(0,114,178,0.18)", "line": {"width": 0}, "hoverinfo": "skip",
            "showlegend": False,
        }  # fmt: skip
        curve = line_trace(np.array(x, dtype=float), y, "size", COLOURS[0], mode="lines+markers")
        at = names.index(alarm.since) - 0.5
        layout = {
            "title": corner_title(title), "xaxis": name_axis(names), "showlegend": False,
            "yaxis": titled_axis("kg" if scale == 1.0 else "% of the baseline"),
            "shapes": [{"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
                        "line": {"color": COLOURS[1], "dash": "dash"}}],
        }  # fmt: skip
        return Figure(f"Trend of {alarm.what} of {alarm.robot}", [band, curve], layout, 260)


def _curve(fleet: Fleet, points: Sequence[tuple[Contrast, Effect]], scale: float) -> tuple[list[int], Any, Any]:
    """Places, sizes and deviations of a trend."""
    y = scale * np.array([e.size for _, e in points])
    s = scale * np.array([fleet.calibration.sigma(e, c.baseline) for c, e in points])
    return list(range(len(points))), y, s


class SpreadSection(_FleetSection):
    """How much robots differ, and what their motion hardly shows."""

    name, title = "spread", "Spread between robots"

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """A table of parameters over the fleet."""
        import polars as pl

        frame = fleet.table()
        if not len(frame):
            return None
        per_robot = frame.group_by("parameter", "robot", maintain_order=True).agg(
            pl.col("value").median(), pl.col("sigma").median()
        )
        per_parameter = per_robot.group_by("parameter", maintain_order=True).agg(
            pl.col("value").median().alias("median"), pl.col("value").std().alias("spread"), pl.col("sigma").median(),
            pl.len().alias("robots"),
        )  # fmt: skip
        rows = []
        for name, median, spread, sigma, robots in per_parameter.rows():
            between = spread or 0.0
            rows.append([
                Cell(name), number_cell(median, number_text(median, 4)), number_cell(between, number_text(between, 2)),
                number_cell(between / max(abs(median), 1e-300), percent_text(between / max(abs(median), 1e-300))),
                number_cell(sigma, number_text(sigma, 2)), number_cell(robots, str(robots)),
            ])  # fmt: skip
        head = ("parameter", "median", "between robots", "share", "deviation of one period", "robots")
        text = "Medians over the periods of every robot; between robots: standard deviation of these medians."
        different = fleet.differences(view.alpha)
        tables = [Table("Parameters over the fleet", head, rows)]
        if len(different):
            cells = [
                [Cell(robot), Cell(name), *(number_cell(x, number_text(x, 4)) for x in numbers[:3]),
                 number_cell(numbers[3], f"{numbers[3]:.1g}")]
                for robot, name, *numbers in different.rows()
            ]  # fmt: skip
            titles = ("robot", "parameter", "value", "mean of the others", "spread of the others", "p")
            tables.insert(0, Table("Robots that differ from the others", titles, cells, words=2))
        count = len(set(different["robot"]))
        said = f"{count} robots differ from the others, in what the first table lists." if count else (
            "No robot differs from the others." if len(fleet.robots) >= FEWEST_ALIKE else
            f"Fewer than {FEWEST_ALIKE} robots: too few to say whether one differs from the others."
        )  # fmt: skip
        return _Part([said, text], [_spread_figure(per_robot)], tables)


def _spread_figure(per_robot: Any) -> Figure:
    """Every robot's parameters over the fleet's median."""
    names = list(dict.fromkeys(per_robot["parameter"].to_list()))
    x, y, said = [], [], []
    for name in names:
        own = per_robot.filter(per_robot["parameter"] == name)
        values, sigma = own["value"].to_numpy(), own["sigma"].to_numpy()
        scale = max(float(np.median(sigma)), 1e-300)
        for robot, value in zip(own["robot"].to_list(), values, strict=True):
            x.append(names.index(name))
            y.append(float(np.clip((value - np.median(values)) / scale, -50.0, 50.0)))
            said.append(escape_plot_text(f"{robot}: {name} = {value:.4g}"))
    trace = {
        "type": "scatter", "mode": "markers", "x": typed_array(np.array(x)), "y": typed_array(np.array(y)),
        "text": said, "hoverinfo": "text", "marker": {"color": COLOURS[0], "size": 5, "opacity": 0.6},
    }  # fmt: skip
    layout = {"xaxis": name_axis(names), "yaxis": titled_axis("from the median, in deviations of one period")}
    return Figure("Parameters of every robot against the fleet's median", [trace], layout, 340)


class BlindSection(_FleetSection):
    """What production motion hardly shows, and the motion that would."""

    name, title = "blind", "What production motion cannot see"

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """Parameters that most periods leave open, and the command that designs a motion for them."""
        import polars as pl

        frame = fleet.table()
        if not len(frame):
            return None
        equation = fleet.plan.state.equation
        units = zip(map(str, equation.names), equation.units, strict=True)
        kinds = {name: (name.partition(":")[2], unit) for name, unit in units}
        sizes = pl.col("value").abs().median(), pl.col("sigma").median(), pl.len().alias("periods")
        found, largest = frame.group_by("parameter", maintain_order=True).agg(*sizes).rows(), dict[Any, float]()
        for name, x, *_ in found:
            largest[kinds[name]] = max(x, largest.get(kinds[name], 0.0))
        shares = [(name, s / max(x, SMALL * largest[kinds[name]], 1e-300)) for name, x, s, _ in found]
        periods = sum(1 for result in fleet.results if result.names)
        weak = [(name, x) for name, x in shares if x > BLIND]
        columns = kinds.keys()
        seen = {name for name, _, _, count in found if 2 * count > periods}
        hidden = sorted(columns - seen)
        if not weak and not hidden:
            return _Part(["Production motion shows every parameter of the model."])
        texts = []
        if hidden:
            texts.append(f"Not identifiable in most periods: {', '.join(hidden)}.")
        if weak:
            listed = ", ".join(f"{name} ({percent_text(x)})" for name, x in sorted(weak, key=lambda w: -w[1]))
            texts.append(f"Known to no better than half of their value, or of {percent_text(SMALL)} of the largest of "
                         f"the link where they are smaller (median relative deviation): {listed}.")  # fmt: skip
        texts.append("Changes of these cannot be detected. A motion that shows them, to be recorded now and then:")
        wanted = ",".join([*hidden, *(name for name, _ in sorted(weak, key=lambda w: -w[1]))][:8])
        files = [file.name.removesuffix(".toml (bundled)") for file in fleet.robot.files]
        robot = shlex.quote(files[0]) if len(files) == 1 else "ROBOT"
        command = (
            f"dynid identify {robot} LOG --out known.json\n"
            f"dynid excite {robot} --after known.json --target {shlex.quote(wanted)} --out motion.csv"
        )
        return _Part(texts, command=command)


class RefusedSection(_FleetSection):
    """Logs that could not be used."""

    name, title = "refused", "Refused and doubtful logs"

    def build(self, fleet: Fleet, view: FleetView) -> _Part | None:
        """A table with reasons."""
        frame, doubtful = fleet.rejected, fleet.doubtful
        said = [f"{r.robot}, {r.period}" for r in doubtful[:MOST_DOUBTFUL]]
        doubts = [] if not said else [
            f"{len(doubtful)} periods are not to be trusted, the model does not explain their torques: "
            f"{'; '.join(said)}{', ...' if len(doubtful) > len(said) else ''}."
        ]  # fmt: skip
        if not len(frame):
            return _Part(["All logs could be used.", *doubts])
        rows = [[Cell(str(x)) for x in row] for row in frame.rows()]
        table = Table("Logs that could not be used", ("robot", "period", "log", "code", "reason"), rows, words=5)
        return _Part([f"{len(rows)} logs could not be used; all others were.", *doubts], tables=[table])


SECTIONS: tuple[Section[FleetView], ...] = (
    AlarmSection(), MapSection(), TrendSection(), SpreadSection(), BlindSection(), RefusedSection(),
)  # fmt: skip


def write_fleet_page(fleet: Fleet, path: str | os.PathLike[str], alpha: float = 0.01) -> None:
    """Write the page on a fleet: one HTML file that needs nothing else."""
    view = FleetView(fleet, alpha)
    notes = " ".join(f"{note[:1].upper()}{note[1:]}." for note in map(command_line_wording, fleet.notes[:1]))
    lead = f"{answer_text(view)} {len(fleet.robots)} robots, {len(fleet.results)} periods. {notes}"
    write_text(Path(path), render_page(f"Fleet of {fleet.robot.name}", view, SECTIONS, lead=lead))


def answer_text(view: FleetView) -> str:
    """How many robots changed, and how many stay so, in a sentence."""
    fleet, alarms = view.fleet, view.alarms
    tested = {finding.robot for finding in fleet.findings}
    if not tested:
        return "Nothing can be compared yet: no robot has a period after its baseline."
    if not alarms:
        return f"None of {len(tested)} robots changed."
    changed, now = {alarm.robot for alarm in alarms}, {alarm.robot for alarm in alarms if alarm.lasts}
    return f"{len(changed)} of {len(tested)} robots changed, {len(now)} of them up to their last period."
