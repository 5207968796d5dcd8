"""Identify every robot of a fleet in every period, on Dask, and tell what changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError
from dynid.estimation.accumulate.state import State
from dynid.estimation.options import Options
from dynid.fleet.changes import Calibration, Contrast, Effect, Finding, attribute
from dynid.fleet.data import Listed, LogFile, PeriodLogs, find_logs, natural_order, read_selected_rows
from dynid.fleet.store import PeriodResult, Store, pack_numbers, unpack_numbers
from dynid.fleet.tasks import (
    Plan,
    RobotJob,
    RobotReport,
    RobotSettings,
    check_robot_settings,
    comparisons,
    make_plan,
    run_robot,
)
from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.messages import Message, Option
from dynid.robot.robot import Robot, StoredRobot
from dynid.storage.files import write_text
from dynid.storage.records import DAMAGE, json_text, read_text, to_plain_data

if TYPE_CHECKING:
    from polars import DataFrame

SAMPLE = 8
"""Logs that columns, cut-off and first estimate are taken from."""

BASELINE = 4
"""Periods of the baseline where nothing is said, or half of the periods where these are fewer."""

FEW = 24
"""Periods to compute up to which no workers are started, as long as their logs are not large: they need seconds."""

LARGE = 64_000_000
"""Bytes of a robot's logs from which on every period is a task of its own."""

PER_WORKER, FEWEST_PERIODS = 4, 4
"""Tasks per worker that periods of few robots are split into, as long as each has so many periods."""

COMPARING = 0.2
"""Time of a comparison over that of identifying a period."""

PLAN, INDEX, INDEX_FORMAT = "plan.json", "index.json", ("dynid fleet index", 2)

Progress = Callable[[str, float], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change of one robot over one or several consecutive periods, the same in each.

    Attributes
    ----------
    robot : str
        Name of the robot.
    since : str
        First period.
    until : str
        Last period.
    kind : str
        payload, coulomb, viscous, gain, or not explained.
    joint : str
        Joint, if it is about one.
    size : float
        kg of a payload, else a share of the baseline; NaN if it is not explained.
    sigma : float
        Its standard deviation.
    log_p : float
        Smallest logarithm of the p-values of its periods.
    periods : int
        Number of periods.
    lasts : bool
        Whether it lasts until the last period there is.
    """

    robot: str
    since: str
    until: str
    kind: str
    joint: str
    size: float
    sigma: float
    log_p: float
    periods: int
    lasts: bool

    @property
    def p(self) -> float:
        """The least p-value of its periods."""
        return float(np.exp(self.log_p))

    @property
    def what(self) -> str:
        """What changed, in words."""
        return describe_kind(self.kind, self.joint)

    @property
    def message(self) -> Message:
        """The alarm as a sentence."""
        when = (
            f"since {self.since}"
            if self.lasts
            else f"in {self.since}" + (f" to {self.until}" if self.until != self.since else "")
        )
        facts = {
            "robot": self.robot, "what": self.what, "size": self.size, "sigma": self.sigma, "since": self.since,
            "until": self.until, "p": self.p, "when": when, "percent": 100.0 * self.size, "spread": 100.0 * self.sigma,
        }  # fmt: skip
        if self.kind == "not explained":
            return Message(
                "fleet_change_not_explained", "{robot}: torques changed {when}, not explained by payload, friction or "
                "gain of one joint", "look at {robot}", **facts,
            )  # fmt: skip
        if self.kind == "payload":
            return Message(
                "fleet_payload_changed",
                "{robot}: payload of {size:.2g} +- {sigma:.1g} kg at the flange {when}",
                **facts,
            )
        return Message("fleet_change", "{robot}: {what} {percent:+.2g} +- {spread:.1g} % {when}", **facts)


def describe_kind(kind: str, joint: str) -> str:
    """What a hypothesis is about, in words."""
    names = {"coulomb": "Coulomb friction", "viscous": "viscous friction", "gain": "gain"}
    return f"{names[kind]} of joint {joint}" if kind in names else kind


@dataclass(frozen=True, eq=False, repr=False)
class Fleet:
    """Parameters of several robots over several periods, what changed, and what could not be read.

    Attributes
    ----------
    robot : Robot
        The file's robot, without joints that the logs do not have.
    folder : Path
        Folder of the states.
    plan : Plan
        Settings that all robots share.
    results : tuple of PeriodResult
        Result of each robot and period.
    contrasts : tuple of Contrast
        Differences from the baselines.
    baseline : int
        Number of first periods that are the reference.
    fresh : frozenset of (str, str)
        Robots and periods that this run computed; the others were known before.
    """

    robot: Robot
    folder: Path
    plan: Plan
    results: tuple[PeriodResult, ...]
    contrasts: tuple[Contrast, ...]
    baseline: int
    fresh: frozenset[tuple[str, str]]

    def __repr__(self) -> str:
        return f"<Fleet of '{self.robot.name}': {len(self.robots)} robots, {len(self.results)} periods>"

    @property
    def computed(self) -> int:
        """How many periods this run computed."""
        return len(self.fresh)

    @cached_property
    def robots(self) -> tuple[str, ...]:
        """Names of the robots."""
        return tuple(sorted({result.robot for result in self.results}, key=natural_order))

    @cached_property
    def periods(self) -> tuple[str, ...]:
        """Names of the periods, in order."""
        return tuple(sorted({result.period for result in self.results}, key=natural_order))

    @cached_property
    def calibration(self) -> Calibration:
        """How untouched periods scatter, by the baselines of all robots."""
        return Calibration.of_fleet(self.contrasts)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What every period after the baseline shows, significant or not, the least p first."""
        found = [attribute(c, self.calibration) for c in self.contrasts if not c.own]
        return tuple(sorted(found, key=lambda finding: (finding.log_p, finding.robot, finding.period)))

    def significant(self, alpha: float = 0.01) -> tuple[Finding, ...]:
        """Findings that control of the false discovery rate admits (Benjamini & Hochberg 1995).

        Parameters
        ----------
        alpha : float
            False discovery rate, 0 to 1.

        Returns
        -------
        tuple of Finding
            The findings.
        """
        limits = np.log(check_rate(alpha) * np.arange(1, len(self.findings) + 1) / max(len(self.findings), 1))
        below = np.flatnonzero([finding.log_p <= x for finding, x in zip(self.findings, limits, strict=True)])
        return self.findings[: int(below[-1]) + 1] if len(below) else ()

    def table(self, *, shrink: bool = False) -> DataFrame:
        """Parameters of every robot and period.

        Parameters
        ----------
        shrink : bool
            Whether to use the other robots as a prior (empirical Bayes): where robots are alike, standard deviations
            shrink.

        Returns
        -------
        polars.DataFrame
            Columns robot, period, parameter, value, sigma, verdict.
        """
        import polars as pl

        rows = [
            (r.robot, r.period, name, value, sigma, r.verdict)
            for r in self.results
            for name, value, sigma in zip(r.names, r.values, r.sigma, strict=True)
        ]
        columns = {"robot": pl.String, "period": pl.String, "parameter": pl.String, "value": pl.Float64,
                   "sigma": pl.Float64, "verdict": pl.String}  # fmt: skip
        frame = pl.DataFrame(rows, schema=columns, orient="row")
        return shrink_towards_fleet(frame) if shrink else frame

    def changes(self, alpha: float = 0.01) -> DataFrame:
        """Periods that differ from their robot's baseline, smallest p first.

        Parameters
        ----------
        alpha : float
            False discovery rate, 0 to 1.

        Returns
        -------
        polars.DataFrame
            Columns robot, period, what, size, sigma, p. size: kg of a payload, else a share of the baseline.
        """
        return _findings_frame(self.significant(alpha))

    def tests(self) -> DataFrame:
        """Every period after the baseline with its p-value, before control of the false discovery rate.

        Returns
        -------
        polars.DataFrame
            A row per robot and period.
        """
        return _findings_frame(self.findings)

    def differences(self, alpha: float = 0.01) -> DataFrame:
        """Parameters in which a robot differs from all others of the fleet; at least 8 robots are needed.

        Parameters
        ----------
        alpha : float
            False discovery rate, 0 to 1.

        Returns
        -------
        polars.DataFrame
            Columns robot, parameter, value (mean over its periods), others, spread (of one robot among them), p.
        """
        frame = compare_robots(self.table())
        limits = check_rate(alpha) * np.arange(1, len(frame) + 1) / max(len(frame), 1)
        below = np.flatnonzero(frame["p"].to_numpy() <= limits)
        return frame.head(int(below[-1]) + 1 if len(below) else 0)

    def alarms(self, alpha: float = 0.01) -> tuple[Alarm, ...]:
        """Changes over consecutive periods, the most certain first.

        Parameters
        ----------
        alpha : float
            False discovery rate, 0 to 1.

        Returns
        -------
        tuple of Alarm
            The alarms.
        """
        of_robot: dict[str, list[Finding]] = {}
        for finding in self.significant(alpha):
            of_robot.setdefault(finding.robot, []).append(finding)
        alarms = []
        for robot, findings in of_robot.items():
            later = [c for c in self.contrasts if c.robot == robot and not c.own]
            later = sorted(later, key=lambda c: natural_order(c.period))
            order = {c.period: k for k, c in enumerate(later)}
            for run in _runs(sorted(findings, key=lambda f: order[f.period]), later):
                alarms.append(_alarm_of_run(run, lasts=order[run[-1].period] >= len(later) - 2))
        return tuple(sorted(alarms, key=lambda alarm: (alarm.log_p, natural_order(alarm.robot))))

    def state(self, robot: str, period: str) -> State:
        """State of one robot and period, which `identify_states` solves and merges with others.

        Parameters
        ----------
        robot : str
            Name of the robot.
        period : str
            Name of the period.

        Returns
        -------
        State
            The state.

        Raises
        ------
        DynidError
            If there is no such robot or period.
        """
        for result in self.results:
            if (result.robot, result.period) == (robot, period):
                found = result.names and Store(self.folder).read_period(robot, period, result.key, self.plan.state)[1]
                if found:
                    return found
                raise DynidError(
                    "fleet_period_refused", "{robot}, {period}: no log was usable: {reason}", robot=robot,
                    period=period, reason=result.refused[0][2] if result.refused else "",
                )  # fmt: skip
        mine = [result.period for result in self.results if result.robot == robot]
        known = f"it has {', '.join(mine[:12])}" if mine else f"robots are {', '.join(self.robots[:12])}"
        raise DynidError(
            "unknown_fleet_period", "there is no period '{period}' of robot '{robot}'", "{known}", period=period,
            robot=robot, known=known,
        )  # fmt: skip

    @cached_property
    def rejected(self) -> DataFrame:
        """Logs that could not be used: robot, period, log, code, reason."""
        import polars as pl

        rows = [(r.robot, r.period, log, code, reason) for r in self.results for log, code, reason in r.refused]
        return pl.DataFrame(
            rows, schema=dict.fromkeys(("robot", "period", "log", "code", "reason"), pl.String), orient="row"
        )

    @property
    def doubtful(self) -> tuple[PeriodResult, ...]:
        """Periods whose verdict is that they are not to be trusted."""
        return tuple(result for result in self.results if result.verdict == "do not trust")

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Changes at a false discovery rate of 1 %, and how many logs were refused."""
        return (*(alarm.message for alarm in self.alarms()), *self.gaps)

    @property
    def gaps(self) -> tuple[Message, ...]:
        """What could not be used or compared."""
        refused, found = self.rejected, list[Message]()
        if len(refused):
            first = refused.row(0, named=True)
            found.append(Message(
                "fleet_logs_refused", "{count} logs could not be used; the first is {log}: {reason}",
                count=len(refused), log=first["log"], reason=first["reason"],
            ))  # fmt: skip
        if doubtful := self.doubtful:
            found.append(Message(
                "fleet_periods_doubtful", "{count} periods are not to be trusted, the model does not explain their "
                "torques; the first is {robot}, {period}", "run dynid identify on its log", count=len(doubtful),
                robot=doubtful[0].robot, period=doubtful[0].period,
            ))  # fmt: skip
        compared = {c.robot for c in self.contrasts if not c.own}
        left = [robot for robot in self.robots if robot not in compared]
        if left:
            found.append(Message(
                "fleet_not_compared", "{count} of {total} robots have no usable period after their baseline of "
                "{baseline}, and are compared with nothing: {robots:8}", "record more, or give a smaller {option}",
                count=len(left), total=len(self.robots), baseline=self.baseline, robots=left,
                option=Option("baseline"),
            ))  # fmt: skip
        return tuple(found)

    @property
    def notes(self) -> tuple[Message, ...]:
        """How the fleet was read and compared, and which robots differ from the others."""
        tested, different = len(self.findings), self.differences()
        found = [Message(
            "fleet_plan", "friction {friction}, cut-off {cutoff}, from {count} logs of the fleet",
            friction=", ".join(self.plan.state.equation.friction) or "none", count=len(self.plan.sample),
            cutoff="none" if self.plan.state.cutoff is None else f"{self.plan.state.cutoff:.3g} Hz",
        )]  # fmt: skip
        if tested:
            found.append(Message(
                "fleet_tests", "{tested} periods were tested; {kept:.2g} false alarms are expected at a false "
                "discovery rate of 1 %, {expected:.2g} without control of it", tested=tested, expected=0.01 * tested,
                kept=0.01 * len(self.significant()),
            ))  # fmt: skip
        if len(different):
            names = list(dict.fromkeys(different["robot"]))
            first = different.row(0, named=True)
            found.append(Message(
                "fleet_robots_differ", "{count} robots differ from the others of the fleet: {robots:8}; most of all "
                "{robot} in {parameter}: {value:.3g} against {others:.3g} +- {spread:.2g}", count=len(names),
                robots=names, **first,
            ))  # fmt: skip
        return tuple(found)

    def report(self, path: str | PathLike[str], alpha: float = 0.01) -> None:
        """Write a page: ranked alarms, map of changes, trends, spread between robots, refused logs.

        Parameters
        ----------
        path : str or path
            The HTML file.
        alpha : float
            False discovery rate, 0 to 1.
        """
        from importlib import import_module

        import_module("dynid.report.fleet").write_fleet_page(self, Path(path), alpha)

    def facts(self, alpha: float = 0.01) -> dict[str, Any]:
        """Machine-readable summary.

        Parameters
        ----------
        alpha : float
            False discovery rate, 0 to 1.

        Returns
        -------
        dict
            Facts by name.
        """
        alarms = self.alarms(alpha)
        return {
            "robot": self.robot.name, "robots": list(self.robots), "periods": list(self.periods),
            "baseline": self.baseline, "computed": self.computed, "alpha": alpha,
            "changes": self.changes(alpha).to_dicts(),
            "alarms": [{**alarm.message.facts, "text": alarm.message} for alarm in alarms],
            "differences": self.differences(alpha).to_dicts(), "rejected": self.rejected.to_dicts(),
            "warnings": [*(alarm.message for alarm in alarms), *self.gaps], "notes": list(self.notes),
        }  # fmt: skip


def check_rate(alpha: float) -> float:
    """A false discovery rate."""
    if not 0.0 < alpha < 1.0:
        raise DynidError(
            "alpha_out_of_range", "the false discovery rate must lie between 0 and 1, got {alpha}", alpha=alpha
        )
    return float(alpha)


def _findings_frame(findings: Sequence[Finding]) -> DataFrame:
    """Findings as a frame."""
    import polars as pl

    rows = [(f.robot, f.period, describe_kind(f.kind, f.joint), f.size, f.sigma, f.p) for f in findings]
    columns = {"robot": pl.String, "period": pl.String, "what": pl.String, "size": pl.Float64, "sigma": pl.Float64,
               "p": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema=columns, orient="row")


def _runs(findings: Sequence[Finding], later: Sequence[Contrast]) -> Iterator[list[Finding]]:
    """Findings of one robot in runs of the same kind; later: its periods after the baseline, in order.

    A run goes on over one period in which nothing was significant, and over more where the size stayed beyond one half.
    """
    order = {c.period: k for k, c in enumerate(later)}
    sizes = [{(e.kind, e.joint): e.size for e in c.effects} for c in later]
    open_runs: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        key = finding.kind, finding.joint
        run = open_runs.setdefault(key, [])
        if run:
            between = sizes[order[run[-1].period] + 1 : order[finding.period]]
            shares = [own.get(key, 0.0) / run[-1].size for own in between]
            if len(between) > 1 and not min(shares) > 0.5:
                yield list(run)
                run.clear()
        run.append(finding)
    yield from open_runs.values()


def _alarm_of_run(run: list[Finding], *, lasts: bool) -> Alarm:
    """Alarm of a run: mean size, weighted."""
    weights = 1.0 / np.maximum([f.sigma for f in run], 1e-300) ** 2
    size = float(np.average([f.size for f in run], weights=weights))
    sigma = float(np.mean([f.sigma for f in run]))  # the baseline's error is common to all
    first, log_p = run[0], min(f.log_p for f in run)
    return Alarm(
        first.robot, first.period, run[-1].period, first.kind, first.joint, size, sigma, log_p, len(run), lasts,
    )  # fmt: skip


# What robots have in common: which of them differ, and a prior for each (empirical Bayes).


OUTLIER = 3.0
"""Standard deviations from the fleet's mean beyond which a robot is not pulled towards it."""


def shrink_towards_fleet(frame: DataFrame) -> DataFrame:
    """Table with values pulled towards the mean of the other robots, as far as these are alike.

    Per parameter, with mu the mean of the others' and tau^2 an upper 90 % bound of the variance between them
    (Q-profile; Viechtbauer 2007): posterior of x ~ N(theta, sigma^2), theta ~ N(mu, tau^2 + var mu).
    """
    import polars as pl

    out, names = [], frame.columns
    for (_,), own in frame.with_row_index("place").group_by("parameter", maintain_order=True):
        robots = own["robot"].to_list()
        value, sigma = own["value"].to_numpy().copy(), own["sigma"].to_numpy().copy()
        means = {robot: _robot_mean(value, sigma, np.array([r == robot for r in robots])) for robot in set(robots)}
        for robot in sorted(means):
            others = [means[r] for r in sorted(means) if r != robot]
            if len(others) < 3:
                continue
            mu, spread = _fleet_mean(np.array(others))
            mine = np.flatnonzero([r == robot for r in robots])
            usual = np.abs(value[mine] - mu) <= OUTLIER * np.sqrt(sigma[mine] ** 2 + spread)
            some = mine[usual & (sigma[mine] > 0.0)]
            w = spread / (spread + sigma[some] ** 2)
            value[some], sigma[some] = w * value[some] + (1.0 - w) * mu, np.sqrt(w) * sigma[some]
        out.append(own.with_columns(pl.Series("value", value), pl.Series("sigma", sigma)))
    return pl.concat(out).sort("place").select(names) if out else frame


FEWEST_ALIKE = 8
"""Robots from which on one can be told to differ from the others."""


def compare_robots(frame: DataFrame) -> DataFrame:
    """Every parameter of every robot against the other robots: robot, parameter, value, others, spread, p.

    Student's t of the robot's mean against the mean of the others, with the variance between these and the robot's
    own; degrees of freedom are those of the others.
    """
    import polars as pl
    from scipy.stats import t

    rows = []
    for (parameter,), own in frame.group_by("parameter", maintain_order=True):
        value, sigma, names = own["value"].to_numpy(), own["sigma"].to_numpy(), own["robot"].to_numpy()
        robots = list(dict.fromkeys(names.tolist()))
        means = np.array([_robot_mean(value, sigma, names == robot) for robot in robots])
        for k, robot in enumerate(robots) if len(robots) >= FEWEST_ALIKE else ():
            others = np.delete(means, k, axis=0)
            mu, spread = _fleet_mean(others, share=0.5)
            z = (means[k, 0] - mu) / np.sqrt(spread + means[k, 1])
            p = float(2.0 * t.sf(abs(z), len(others) - 1))
            rows.append((robot, parameter, float(means[k, 0]), mu, float(np.sqrt(spread)), p))
    columns = {"robot": pl.String, "parameter": pl.String, "value": pl.Float64, "others": pl.Float64,
               "spread": pl.Float64, "p": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema=columns, orient="row").sort("p", maintain_order=True)


def _robot_mean(value: Any, sigma: Any, mine: Any) -> tuple[float, float]:
    """Mean over periods of one robot, and its variance: the larger of that by sigma and by scatter."""
    x, v = value[mine], np.maximum(sigma[mine], 1e-300) ** 2
    w = 1.0 / v
    mean = float((w * x).sum() / w.sum())
    scatter = float(((x - mean) ** 2).sum() / (len(x) * (len(x) - 1.0))) if len(x) > 1 else 0.0
    return mean, max(float(1.0 / w.sum()), scatter)


def _fleet_mean(robots: Any, share: float = 0.9) -> tuple[float, float]:
    """Mean of robots (mean, variance), and an upper bound of the variance between them with that of the mean.

    share: probability that the bound holds; the middle of what is possible with one half.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2

    x, v = robots.T
    least = float(chi2.ppf(1.0 - share, len(x) - 1))

    def excess(between: float) -> float:
        w = 1.0 / (v + between)
        mean = (w * x).sum() / w.sum()
        return float((w * (x - mean) ** 2).sum()) - least

    high = 100.0 * float(x.var() + v.max())
    between = 0.0 if excess(0.0) <= 0.0 else float(brentq(excess, 0.0, high)) if excess(high) < 0.0 else high
    w = 1.0 / (v + between)
    return float((w * x).sum() / w.sum()), between + float(1.0 / w.sum())


# Running: plan, jobs, workers.


@one_blas_thread
def identify_fleet(
    robot: Robot,
    data: str | PathLike[str] | Listed,
    *,
    by: Sequence[str] = ("robot", "week"),
    baseline: int | None = None,
    out: str | PathLike[str] | None = None,
    client: Any = None,
    workers: int | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    joints: Sequence[str] | None = None,
    delay: float = 0.0,
    read: Mapping[str, Any] | None = None,
    robots: Mapping[str, Mapping[str, Any]] | str | PathLike[str] | None = None,
    on_progress: Progress | None = None,
) -> Fleet:
    """Identify every robot of a fleet in every period, and find what changed since its first periods.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    data : path, or sequence of (str, str, path)
        A folder in Hive layout (`robot=R07/week=2026-W31/*.parquet`, any format that `read_log` reads), a pattern
        (`logs/{robot}/{date}_*.mcap`), or a Parquet file, or a folder of them, with columns of these names; also a URL
        that fsspec opens, or a list of (robot, period, file).
    by : sequence of str
        Names of robot and period in `data`.
    baseline : int, optional
        Number of first periods of each robot that are its reference. Default: 4, or half of them if there are fewer
        than 8.
    out : path, optional
        Folder for states and results: a run that was stopped continues there, and new logs cost only themselves.
        Default: a temporary folder.
    client : dask.distributed.Client or str, optional
        Client, or the address of a scheduler, whose workers must see the same folders. Default: workers on this
        machine.
    workers : int, optional
        Number of workers on this machine. Default: one per core; none for a few logs.
    friction : str or sequence of str
        "auto": blocks chosen by cross-validation; or names of blocks, such as ("viscous", "coulomb", "offset"); () for
        none.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    cutoff : float, optional
        Cut-off frequency of the filter, Hz. Default: chosen from a sample of the fleet, as columns and first estimate
        are; the same for all.
    joints : sequence of str, optional
        Joints whose torques are used. Default: all.
    delay : float
        How much later torques were recorded than positions, s.
    read : mapping, optional
        Options of `read_log`.
    robots : mapping or path, optional
        What is special about single robots, {"R07": {"robot": "r07.urdf", "gain": [...], "payload": {"mass": 1.2}}}, or
        a TOML file.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.

    Returns
    -------
    Fleet
        Parameters, changes and alarms.

    Raises
    ------
    DynidError
        If the data cannot be found or an option does not fit.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dynid import Motion, identify_fleet, load_robot, simulate
    >>> robot = load_robot("one_link")
    >>> t = np.arange(0.0, 10.0, 0.01)
    >>> x = t[:, None]
    >>> motion = Motion(t, np.sin(x), np.cos(x), -np.sin(x))
    >>> for k in range(4):
    ...     folder = Path(f"logs/robot=R1/week={k + 1}")
    ...     folder.mkdir(parents=True)
    ...     simulate(robot, motion, noise=0.01, seed=k).frame().write_parquet(folder / "log.parquet")
    >>> fleet = identify_fleet(robot, "logs", friction=("viscous",))
    >>> fleet.robots, len(fleet.periods)
    (('R1',), 4)
    """
    options = Options(friction=friction, rotor_inertia=rotor_inertia, cutoff=cutoff, joints=joints, delay=delay)
    if baseline is not None and (isinstance(baseline, bool) or not isinstance(baseline, int) or baseline < 1):
        raise DynidError(
            "invalid_baseline", "{option} is a number of periods, at least 1, got {baseline!r}",
            option=Option("baseline"), baseline=baseline,
        )  # fmt: skip
    if workers is not None and (workers < 1 or client is not None):
        what = "workers are those of the client" if client is not None else "at least one worker is needed"
        raise DynidError("invalid_workers", "{option}: {what}", option=Option("workers", workers), what=what)
    common = dict(read or {})
    special = read_robot_settings(robots)
    settings_of = {name: check_robot_settings(name, own, common) for name, own in special.items()}
    usual = check_robot_settings("", {}, common)
    groups = find_logs(data, by)
    _check_robot_names(settings_of, groups)
    folder = _open_folder(out, client)
    tell = on_progress or (lambda _, __: None)
    tell("planning", 0.0)
    fresh, count = set[tuple[str, str]](), _baseline_periods(groups, baseline)
    with _Crew(client, workers) as crew:
        plan = _known_plan(robot, options, usual, folder)
        if plan is None:
            crew.start(groups)  # workers import while the sample is read
            plan = _make_plan(robot, groups, options, usual, settings_of, folder)
        index, work = _Index.read(folder, plan.digest), _Work(plan, folder, groups, settings_of, usual, count)
        for stage in ("identifying", "comparing"):
            jobs = work.jobs(index, whole=stage == "comparing", at_once=crew.size)
            for done, report in enumerate(crew.run(jobs, tell), 1):
                fresh |= index.add(report, work.sources)
                tell(stage, done / len(jobs))
                if done % 50 == 0:
                    index.write(folder)
            if jobs:
                index.write(folder)
    results = tuple(index.results[group.robot, group.period] for group in groups)
    wanted = [item.address for own in work.of_robot(index).values() for item in comparisons(own, count)]
    contrasts = index.unpack(wanted, folder)
    fleet = Fleet(plan.state.equation.robot, folder, plan, results, contrasts, count, frozenset(fresh))
    if out is None:
        weakref.finalize(fleet, shutil.rmtree, folder, True)
    return fleet


@dataclass(frozen=True, eq=False)
class _Work:
    """What is to be done: logs of robots and periods, by one plan."""

    plan: Plan
    folder: Path
    groups: tuple[PeriodLogs, ...]
    settings_of: Mapping[str, RobotSettings]
    usual: RobotSettings
    baseline: int

    @cached_property
    def sources(self) -> dict[tuple[str, str], str]:
        """Text for every period that changes where its logs do."""
        return {(group.robot, group.period): self.source_of(group) for group in self.groups}

    def source_of(self, group: PeriodLogs) -> str:
        """Text that changes where the logs of a period or what is special about its robot do."""
        settings = self.settings_of.get(group.robot, self.usual)
        return sha256("\n".join([settings.text, *(log.mark for log in group.logs)]).encode()).hexdigest()

    def of_robot(self, index: _Index) -> dict[str, list[PeriodResult]]:
        """Results that are known, by robot."""
        results: dict[str, list[PeriodResult]] = {group.robot: [] for group in self.groups}
        for group in self.groups:
            if index.is_known(group, self.sources[group.robot, group.period]):
                results[group.robot].append(index.results[group.robot, group.period])
        return results

    def jobs(self, index: _Index, *, whole: bool, at_once: int) -> list[RobotJob]:
        """One job per robot with something to do, the largest first; several where logs are long or robots few.

        whole: compare robots whose periods were read apart; at_once: jobs that run at the same time.
        """
        known, jobs = self.of_robot(index), []
        missing: dict[str, list[PeriodLogs]] = {robot: [] for robot in known}
        for group in self.groups:
            if not index.is_known(group, self.sources[group.robot, group.period]):
                missing[group.robot].append(group)
        parts = -(-PER_WORKER * at_once // max(sum(map(bool, missing.values())), 1)) if at_once > 1 else 1
        for robot, done in known.items():
            left = missing[robot]
            addresses = {item.address for item in comparisons(done, self.baseline)}
            common: dict[str, Any] = {
                "robot": robot, "folder": str(self.folder), "plan": str(self.folder / PLAN),
                "digest": self.plan.digest, "settings": self.settings_of.get(robot, self.usual),
                "marks": {log.mark: index.marks[log.mark] for g in left for log in g.logs if log.mark in index.marks},
                "known": frozenset(addresses & index.contrasts.keys()),
            }  # fmt: skip
            is_large = sum(group.size for group in left) > LARGE
            several = len(left) if is_large else min(parts, len(left) // FEWEST_PERIODS)
            if not whole and several > 1:
                some = [tuple(left[k::several]) for k in range(several)]
                jobs += [RobotJob(periods=own, done=(), baseline=0, **common) for own in some]
            elif left or addresses - index.contrasts.keys():
                jobs.append(RobotJob(periods=tuple(left), done=tuple(done), baseline=self.baseline, **common))
        return sorted(jobs, key=lambda job: -sum(group.size for group in job.periods))


def read_robot_settings(robots: Mapping[str, Mapping[str, Any]] | str | PathLike[str] | None) -> dict[str, Any]:
    """What is special about single robots, from a mapping or a TOML file with a table per robot."""
    if robots is None or isinstance(robots, Mapping):
        return dict(robots or {})
    path = Path(robots)
    try:
        data = tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DynidError("file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=error) from error
    wrong = [name for name, own in data.items() if not isinstance(own, dict)]
    if wrong:
        raise DynidError(
            "unknown_fleet_setting", "{path}: '{name}' is not a table of a robot", "write [{name}] with its settings",
            path=path, name=wrong[0],
        )  # fmt: skip
    for own in data.values():
        if isinstance(own.get("robot"), str) and (path.parent / own["robot"]).is_file():
            own["robot"] = str(path.parent / own["robot"])
    return data


def _check_robot_names(names: Iterable[str], groups: Sequence[PeriodLogs]) -> None:
    """Raise where settings are for a robot that has no log: a name is misspelt."""
    robots = list(dict.fromkeys(group.robot for group in groups))
    for name in names:
        if name not in robots:
            raise DynidError(
                "unknown_fleet_robot", "{option}: there is no log of a robot '{name}'", "robots are {robots:8}",
                option=Option("robots"), name=name, robots=robots,
            )  # fmt: skip


def _open_folder(out: str | PathLike[str] | None, client: Any) -> Path:
    """Folder of the fleet, a temporary one where none is given."""
    if out is None:
        if client is not None and not _is_local(client):
            raise DynidError(
                "fleet_needs_folder", "workers on other machines need a folder that they share", "give {out}",
                out=Option("out"),
            )  # fmt: skip
        return Path(tempfile.mkdtemp(prefix="dynid-fleet-"))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DynidError(
            "file_unwritable", "cannot write {path}: {reason}", path=folder, reason=error.strerror or error,
        ) from error  # fmt: skip
    return folder.resolve()


def _is_local(client: Any) -> bool:
    """Whether a client's scheduler runs on this machine."""
    address = client if isinstance(client, str) else str(getattr(getattr(client, "scheduler", None), "address", ""))
    return any(name in address for name in ("127.0.0.1", "localhost", "inproc"))


def _settings_digest(robot: Robot, options: Options, usual: RobotSettings) -> str:
    """Digest of the robot and of all options that states depend on."""
    asked = {option.keyword: repr(option.value) for option in options.options_off_default()}
    text = json_text([to_plain_data(StoredRobot, robot), asked, usual.text], indent=None)
    return sha256(text.encode()).hexdigest()


def _known_plan(robot: Robot, options: Options, usual: RobotSettings, folder: Path) -> Plan | None:
    """The plan of a folder, where robot and options are the same."""
    with suppress(DynidError):
        plan = Plan.load(folder / PLAN)
        return plan if plan.settings == _settings_digest(robot, options, usual) else None
    return None


def _make_plan(
    robot: Robot, groups: Sequence[PeriodLogs], options: Options, usual: RobotSettings,
    settings_of: Mapping[str, RobotSettings], folder: Path,
) -> Plan:  # fmt: skip
    """Make a plan from a sample of the fleet, and save it."""
    logs, reasons, settings = list[Log](), list[Message](), _settings_digest(robot, options, usual)
    with ExitStack() as stack:
        alike = [group for group in groups if settings_of.get(group.robot, usual).file is None]
        for group in _sample(alike or groups):
            own, log = settings_of.get(group.robot, usual), group.logs[0]
            opened = _try(log.path, lambda o=own, x=log: _open_log(x, robot, o, stack), reasons)  # type: ignore[misc]
            logs += [] if opened is None else [opened]
            if len(logs) == SAMPLE:
                break
        made = _try("sample", lambda: make_plan(robot, logs, options, settings), []) if logs else None
        if made is None:  # one of them, or several, cannot be used: each is tried
            quick = replace(options, friction=("viscous", "coulomb", "offset"))
            logs = [log for log in logs if _try(log.name, lambda x=log: make_plan(robot, [x], quick, ""), reasons)]  # type: ignore[misc]
            if not logs:
                raise DynidError(
                    "fleet_unreadable", "none of {count} logs could be read; the first says: {reason}",
                    count=len(reasons), reason=reasons[0] if reasons else "",
                )  # fmt: skip
            made = make_plan(robot, logs, options, settings)
        return made.save(folder / PLAN)


def _open_log(log: LogFile, robot: Robot, settings: RobotSettings, stack: ExitStack) -> Log:
    """Open a log, as long as the stack."""
    place = stack.enter_context(log.local())
    return read_log(read_selected_rows(place, log) if log.keys else place, robot, **settings.read)


def _try(name: str, work: Callable[[], T], reasons: list[Message]) -> T | None:
    """What some work gives, or None with the reason why it failed."""
    try:
        return work()
    except DynidError as error:
        reasons.append(error.message)
    except Exception as error:  # whatever a damaged file does to a library: another one is taken
        reasons.append(Message("log_failed", "{log}: {reason}", log=name, reason=error))
    return None


def _sample(groups: Sequence[PeriodLogs]) -> Iterator[PeriodLogs]:
    """Periods spread over robots and time, all of them in the end."""
    robots = list(dict.fromkeys(group.robot for group in groups))
    of_robot: dict[str, list[PeriodLogs]] = {robot: [] for robot in robots}
    for group in groups:
        of_robot[group.robot].append(group)
    seen = set[tuple[str, str]]()
    some = [robots[k * len(robots) // SAMPLE] for k in range(SAMPLE)] if len(robots) > SAMPLE else robots
    most = max(map(len, of_robot.values()))
    for turn in range(most):
        for k, robot in enumerate(some if turn < 4 else robots):
            own = of_robot[robot]
            group = own[(turn + k * len(own) // len(some)) % len(own)]
            if (group.robot, group.period) not in seen:
                seen.add((group.robot, group.period))
                yield group


def _baseline_periods(groups: Sequence[PeriodLogs], baseline: int | None) -> int:
    """Number of baseline periods."""
    if baseline is not None:
        return baseline
    most = max(Counter(group.robot for group in groups).values())
    return max(1, min(BASELINE, most // 2))


@dataclass(eq=False)
class _Index:
    """What is known of a fleet: SHA-256 of logs, results by robot and period, comparisons by address.

    Comparisons stay packed, with a place in `hypotheses`, until they are asked for.
    """

    plan: str
    marks: dict[str, str] = field(default_factory=dict)
    results: dict[tuple[str, str], PeriodResult] = field(default_factory=dict)
    contrasts: dict[str, list[Any]] = field(default_factory=dict)
    hypotheses: dict[Any, int] = field(default_factory=dict)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)

    @staticmethod
    def read(folder: Path, plan: str) -> _Index:
        """Read the index of a folder; empty where there is none of this plan."""
        index = _Index(plan)
        try:
            data = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            if (data["format"], data["version"], data["plan"]) != (*INDEX_FORMAT, plan):
                return index
            names = data["names"]
            results = [
                PeriodResult.from_record({
                    **row, "names": names[row["names"]], "values": unpack_numbers(row["values"]),
                    "sigma": unpack_numbers(row["sigma"]),
                })
                for row in data["results"]
            ]  # fmt: skip
            tested = [tuple(map(tuple, several)) for several in data["hypotheses"]]
            index.hypotheses = {several: k for k, several in enumerate(tested)}
            index.contrasts = data["contrasts"]
            index.marks = data["marks"]
            index.results = {(r.robot, r.period): r for r in results}
            index.sources = {(robot, period): text for robot, period, text in data["sources"]}
        except (OSError, *DAMAGE):
            return _Index(plan)
        return index

    def write(self, folder: Path) -> None:
        """Write the index, atomically; what all robots have in common once."""
        names = dict[Any, int]()
        results = [
            {**r.record(), "names": names.setdefault(r.names, len(names)), "values": pack_numbers(r.values),
             "sigma": pack_numbers(r.sigma)}
            for r in self.results.values()
        ]  # fmt: skip
        data = {
            "format": INDEX_FORMAT[0], "version": INDEX_FORMAT[1], "plan": self.plan, "marks": self.marks,
            "names": list(names), "hypotheses": list(self.hypotheses), "results": results, "contrasts": self.contrasts,
            "sources": [[*key, text] for key, text in self.sources.items()],
        }  # fmt: skip
        write_text(folder / INDEX, json.dumps(data))

    def unpack(self, addresses: Iterable[str], folder: Path) -> tuple[Contrast, ...]:
        """Comparisons that are known, of some addresses; folder: of the index."""
        tested, found = list(self.hypotheses), []
        try:
            for address in addresses:
                if address in self.contrasts:
                    robot, period, which, numbers, *rest = self.contrasts[address]
                    effects = _unpack_effects(tested[which], unpack_numbers(numbers))
                    found.append(Contrast(robot, period, effects, *rest))
        except DAMAGE as error:
            raise DynidError(
                "fleet_state_damaged", "{path} is damaged", "delete it: it is made again", path=folder / INDEX
            ) from error
        return tuple(found)

    def is_known(self, group: PeriodLogs, source: str) -> bool:
        """Whether the result of a period is known, from the same logs."""
        return self.sources.get((group.robot, group.period)) == source

    def add(self, report: RobotReport, sources: Mapping[tuple[str, str], str]) -> set[tuple[str, str]]:
        """Add what a worker found; return which periods it computed."""
        for result in report.results:
            key = (result.robot, result.period)
            self.results[key], self.sources[key] = result, sources[key]
        self.marks.update(report.marks)
        for address, c in report.contrasts:
            tested = tuple((e.kind, e.joint, e.rank) for e in c.effects)
            which = self.hypotheses.setdefault(tested, len(self.hypotheses))
            numbers = pack_numbers(x for e in c.effects for x in _effect_numbers(e))
            self.contrasts[address] = [c.robot, c.period, which, numbers, c.baseline, c.own, c.temperature, c.rigid]
        return {(report.robot, period) for period in report.computed}


def _effect_numbers(effect: Effect) -> tuple[float, ...]:
    """Numbers of an effect, beside the hypothesis itself."""
    return effect.size, effect.variance, effect.statistic, effect.freedom, effect.unexplained


def _unpack_effects(hypotheses: Sequence[Sequence[Any]], numbers: Sequence[float]) -> tuple[Effect, ...]:
    """Effects of hypotheses (kind, joint, rank) from their numbers."""
    rows = [numbers[k : k + 5] for k in range(0, len(numbers), 5)]
    return tuple(
        Effect(kind, joint, size, variance, statistic, rank, freedom, left)
        for (kind, joint, rank), (size, variance, statistic, freedom, left) in zip(hypotheses, rows, strict=True)
    )


# Workers: Dask's, of the user's client or on this machine.


class _Crew(ExitStack):
    """Who does the work: the user's cluster, workers on this machine, or this process, where there is little of it.

    Workers on this machine are started when it is known that they are needed, once.
    """

    def __init__(self, client: Any, workers: int | None) -> None:
        super().__init__()
        self.given, self.workers = client, workers
        self.local: _LocalWorkers | None = None

    @cached_property
    def size(self) -> int:
        """Jobs that run at the same time."""
        if self.given is not None:
            return max(1, sum(map(int, self.client.nthreads().values())))
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.workers or cores

    @cached_property
    def client(self) -> Any:
        """Client of the user's cluster."""
        return self.enter_context(open_client(self.given))

    def start(self, groups: Sequence[PeriodLogs], work: float | None = None) -> None:
        """Start workers on this machine, unless there are others or there is little to do; work: in periods."""
        is_small = (len(groups) if work is None else work) <= FEW and sum(group.size for group in groups) <= LARGE
        count = min(self.size, len(groups) or self.size)
        needed = count > 1 and (self.workers is not None or not is_small)
        if self.given is None and self.local is None and needed:
            self.local = _LocalWorkers(count)
            self.callback(self.local.close)

    def run(self, jobs: Sequence[RobotJob], tell: Progress) -> Iterator[RobotReport]:
        """Run jobs; yield what they report as they end."""
        periods = [group for job in jobs for group in job.periods]
        compared = sum(len(job.done) + len(job.periods) for job in jobs if job.baseline)
        if len(jobs) > 1:
            self.start(periods, len(periods) + COMPARING * compared)
        if not jobs or (self.given is None and self.local is None):
            yield from map(run_robot, jobs)
            return
        yield from _run_on_cluster(self.client if self.local is None else self.local.wait(), jobs, tell)


def _run_on_cluster(client: Any, jobs: Sequence[RobotJob], tell: Progress) -> Iterator[RobotReport]:
    """Run jobs on a cluster; yield what they report as they end."""
    if not client.nthreads():
        tell("waiting for workers", 0.0)
    futures = client.map(run_robot, jobs, pure=False, key="dynid")
    try:
        for _, report in _import_distributed().as_completed(futures, loop=client.loop, with_results=True):
            if isinstance(report, BaseException):  # of futures that were cancelled: the scheduler is gone
                raise report
            yield report
    except DynidError:
        raise
    except Exception as error:  # of Dask: workers that died again and again, or without dynid; a lost scheduler
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise DynidError(
            "fleet_workers_failed", "the workers failed: {reason}", "what is done stays in {out}: run it again",
            reason=text, out=Option("out"),
        ) from error  # fmt: skip
    finally:
        with suppress(Exception):  # a cluster that is gone has nothing to cancel
            client.cancel(futures)


def _import_distributed() -> Any:
    """The package dask.distributed."""
    try:
        import distributed
    except ImportError as error:
        raise DynidError(
            "missing_package", "fleets run on dask.distributed, which is not installed", "pip install distributed "
            "or give {workers} to use this process alone", workers=Option("workers", 1),
        ) from error  # fmt: skip
    return distributed


@contextmanager
def open_client(client: Any) -> Iterator[Any]:
    """Context with the user's own `dask.distributed.Client`, or with one for the address of a scheduler."""
    if not isinstance(client, str):
        yield client
        return
    with _connect(_import_distributed(), client) as own:
        yield own


def _connect(distributed: Any, address: str) -> Any:
    """Client of a scheduler at an address."""
    if address.partition("://")[0] not in distributed.comm.registry.backends or "://" not in address:
        raise DynidError(
            "no_scheduler", "{address} is not an address of a Dask scheduler", "it prints it when it starts: "
            "tcp://head:8786", address=address,
        )  # fmt: skip
    try:
        return distributed.Client(address, timeout=5, set_as_default=False)
    except (OSError, ValueError) as error:
        raise DynidError(
            "no_scheduler", "no Dask scheduler answers at {address}", "start one with `dask scheduler`",
            address=address,
        ) from error  # fmt: skip


THREADS = dict.fromkeys(("DYNID_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**26), "MALLOC_MMAP_THRESHOLD_": str(2**25)}
"""Memory that glibc keeps: Dask has its workers give back all that is freed at once, which takes 40 % more CPU time."""

DASK = {"DASK_DISTRIBUTED__WORKER__PRELOAD": run_robot.__module__, "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "0"}
FLAGS = ("--nthreads", "1", "--nworkers", "1", "--memory-limit", "0", "--no-dashboard", "--death-timeout", "60")


class _LocalWorkers:
    """A scheduler in this process, and workers that are programs of their own.

    Programs, not forks or spawned copies: these would run the user's script again, or share its locks.
    """

    def __init__(self, count: int) -> None:
        distributed = _import_distributed()
        self.started = list[subprocess.Popen[bytes]]()
        with ExitStack() as stack:
            self.scratch = Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix="dynid-dask-", ignore_cleanup_errors=True)
            ))  # fmt: skip
            cluster = stack.enter_context(distributed.LocalCluster(
                n_workers=0, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=":0", silence_logs=40
            ))  # fmt: skip
            self.client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
            stack.callback(self._kill)
            command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, *FLAGS]
            paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            with (self.scratch / "said").open("wb") as file:
                for _ in range(count):
                    self.started.append(subprocess.Popen(
                        [*command, "--local-directory", str(self.scratch)], stdout=subprocess.DEVNULL, stderr=file,
                        env={**MEMORY, **os.environ, **THREADS, **DASK, **paths},
                    ))  # fmt: skip
            self.close = stack.pop_all().close

    def wait(self) -> Any:
        """Wait for the first worker; DynidError where all programs have ended, with what they said."""
        while not self.client.nthreads():
            if all(process.poll() is not None for process in self.started):
                lines = (self.scratch / "said").read_text(encoding="utf-8", errors="replace").split("\n")
                raise DynidError(
                    "fleet_workers_failed", "the workers ended at their start: {reason}", "{workers} needs none",
                    reason=next((line.strip()[:200] for line in reversed(lines) if line.strip()), "nothing was said"),
                    workers=Option("workers", 1),
                )  # fmt: skip
            time.sleep(0.05)
        return self.client

    def _kill(self) -> None:
        """End the workers at once: all that they did is on disk. Each ends with the program that restarts it."""
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()
