"""What a worker does for one robot: read the logs of its periods, save their states, compare them with its baseline.

Only tidy rows travel back. What is on disk already is not computed again, so that a task that is run twice, because a
worker was killed or the whole run was, costs only what was missing and gives the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError
from dynid.estimation.accumulate.logs import collect_logs
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.accumulate.state import State, StateRecord, StoredState, merge_states
from dynid.estimation.estimate import choose_friction
from dynid.estimation.identify import collect_state, identify_states
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import solve
from dynid.fleet.changes import (
    Baseline,
    Columns,
    Contrast,
    Normal,
    Prior,
    find_effects,
    fit_baseline,
    normal_equations,
)
from dynid.fleet.data import LogFile, PeriodLogs, hash_log, natural_order, read_selected_rows
from dynid.fleet.store import PeriodResult, Store, read_arrays, reduce_state, refused_row, write_arrays
from dynid.logs.log import Log
from dynid.logs.read import read_log, robot_with_locks_of
from dynid.payload.payload import payload_parameters
from dynid.payload.two_runs import find_carrier, payload_to_base_matrix
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import hash_file, write_text
from dynid.storage.records import DAMAGE, from_plain_data, pick_fields, to_plain_data

FORMAT, VERSION = "dynid fleet plan", 1


# The plan: columns, cut-off and first estimate that all robots share.


@dataclass(frozen=True, eq=False)
class Plan:
    """What all states of a fleet share: an equation and a treatment without data; values and noise from a sample.

    values (columns,) and noise (channels,) serve as a weak prior and as weights where periods are compared. digest: of
    all of it; settings: of the robot and the options it was made with; sample: logs that were looked at.
    """

    state: State
    values: Array
    noise: Array
    settings: str
    sample: tuple[str, ...]
    digest: str = ""

    def save(self, path: Path) -> Plan:
        """Write as JSON; return the plan with its digest."""
        record = StateRecord(**pick_fields(StateRecord, self.state))
        data = {
            "format": FORMAT, "version": VERSION, "settings": self.settings, "sample": list(self.sample),
            "values": self.values.tolist(), "noise": self.noise.tolist(), "state": to_plain_data(StoredState, record),
        }  # fmt: skip
        text = json.dumps(data, allow_nan=False, default=list)
        write_text(path, text)
        return replace(self, digest=hashlib.sha256(text.encode()).hexdigest())

    @staticmethod
    def load(path: Path) -> Plan:
        """Read what `save` wrote."""
        try:
            text = path.read_text(encoding="utf-8")
            data = json.loads(text)
            if (data.pop("format"), data.pop("version")) != (FORMAT, VERSION):
                raise ValueError("another format or version")
            record = from_plain_data(StoredState, data["state"])
            state = State(kept=(), **pick_fields(StateRecord, record))
            values, noise = (np.array(data[name], dtype=np.float64) for name in ("values", "noise"))
            if values.shape != (len(state.equation.names),) or noise.shape != (len(state.equation.channels),):
                raise ValueError("values and equation do not belong together")
            return Plan(
                state, values, noise, data["settings"], tuple(data["sample"]), hashlib.sha256(text.encode()).hexdigest()
            )
        except (OSError, *DAMAGE) as error:
            raise DynidError(
                "fleet_plan_damaged", "{path} is not a fleet's plan: {reason}", "delete it, or choose another folder",
                path=path, reason=" ".join(str(error).split())[:120],
            ) from error  # fmt: skip


@lru_cache(maxsize=4)
def load_plan(path: str, digest: str) -> Plan:
    """The plan of a file, read once per process; digest: that it must have."""
    plan = Plan.load(Path(path))
    if plan.digest != digest:
        raise DynidError(
            "fleet_plan_changed", "{path}: the plan has changed while the fleet is identified", "run one at a time "
            "with a folder", path=path,
        )  # fmt: skip
    return plan


def make_plan(robot: Robot, logs: Sequence[Log], options: Options, settings: str) -> Plan:
    """Choose columns and cut-off, and make a first estimate, from a sample of the fleet's logs."""
    robot = robot_with_locks_of(robot, logs)
    options = options.resolve_for_robot(robot)
    state = collect_logs(robot, logs, options)
    factors = total_factors(state.blocks)
    blocks, _ = choose_friction(state, replace(options, friction_per_log=state.logs > 1), factors)
    equation = state.equation
    unknowns = Unknowns.for_equation(equation, blocks, state.logs)
    solution = solve(unknowns, factors)
    found = solution.values
    place = unknowns.place[0]
    chosen = equation.with_friction(blocks)
    own = dict(zip(equation.names, np.where(place >= 0, found[place], 0.0), strict=True))
    bare = replace(
        state, equation=chosen, recipe=False, blocks=(), settling=(), kept=(), findings=(), outliers=None, repeats=(),
        torques=(), floor=(), loop=(), kept_torques=(),
    )  # fmt: skip
    values = np.array([own[name] for name in chosen.names])
    return Plan(bare, values, solution.noise, settings, tuple(log.name for log in logs))


# One robot: what is special about it, its logs, its periods.


@dataclass(frozen=True, eq=False)
class RobotSettings:
    """What is special about one robot: its file, options of `read_log`, a payload that it always carries.

    content: SHA-256 of the file, so that another one of the same name is noticed.
    """

    file: str | None = None
    read: Mapping[str, Any] = field(default_factory=dict)
    payload: tuple[float, ...] = ()
    content: str = ""

    @cached_property
    def text(self) -> str:
        """All of it as text, for the address of states."""
        whole = [self.file, dict(self.read), list(self.payload), self.content]
        return json.dumps(whole, sort_keys=True, default=to_plain_array)


def to_plain_array(value: Any) -> Any:
    """Arrays of options as lists, all else as text."""
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


READ_OPTIONS = ("columns", "units", "gear", "gain", "topic", "sign", "zero", "order", "header", "rows")


def check_robot_settings(robot: str, given: Mapping[str, Any], common: Mapping[str, Any]) -> RobotSettings:
    """Settings of one robot from a mapping with `robot`, `payload` (mass, com) and options of `read_log`."""
    unknown = sorted(set(given) - {*READ_OPTIONS, "robot", "payload"})
    if unknown:
        raise DynidError(
            "unknown_fleet_setting", "robot '{robot}': there is no setting '{unknown}'", "settings are {known}",
            robot=robot, unknown=unknown[0], known=["robot", "payload", *READ_OPTIONS],
        )  # fmt: skip
    body: tuple[float, ...] = ()
    if "payload" in given:
        try:
            own = dict(given["payload"])
            body = tuple(map(float, payload_parameters(own.pop("mass"), own.pop("com", (0.0, 0.0, 0.0)), **own)))
        except (TypeError, ValueError, KeyError) as error:
            raise DynidError(
                "invalid_fleet_payload", "robot '{robot}': a payload has a mass (kg), a com (m) and an inertia, got "
                "{given!r}", robot=robot, given=given["payload"],
            ) from error  # fmt: skip
    read = {**common, **{key: value for key, value in given.items() if key in READ_OPTIONS}}
    if given.get("robot") is None:
        return RobotSettings(None, read, body)
    if not isinstance(given["robot"], str | PathLike):
        raise DynidError(
            "unknown_fleet_setting", "robot '{robot}': its robot is the name of a file, got {given!r}", robot=robot,
            given=given["robot"],
        )  # fmt: skip
    path = Path(given["robot"])
    content = hash_file(path).sha256 if path.exists() else ""
    return RobotSettings(str(path.absolute()) if content else fspath(path), read, body, content)


@dataclass(frozen=True, eq=False)
class RobotJob:
    """All that a worker needs to know: periods of one robot, where the plan is and where states go.

    done: results of further periods, which are known; marks: SHA-256 of logs that are known by name, size and time of
    change; known: addresses of comparisons that are known; baseline: how many periods, 0 where nothing is compared.
    """

    robot: str
    periods: tuple[PeriodLogs, ...]
    done: tuple[PeriodResult, ...]
    folder: str
    plan: str
    digest: str
    settings: RobotSettings
    baseline: int
    marks: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class RobotReport:
    """What comes back: results of periods, comparisons by address, SHA-256 of logs.

    computed: names of periods that were not known before.
    """

    robot: str
    results: tuple[PeriodResult, ...]
    contrasts: tuple[tuple[str, Contrast], ...]
    marks: Mapping[str, str]
    computed: tuple[str, ...] = ()


@one_blas_thread
def run_robot(job: RobotJob) -> RobotReport:
    """Read, save and compare the periods of one robot."""
    plan = load_plan(job.plan, job.digest)
    store, marks = Store(Path(job.folder)), dict[str, str]()
    try:
        state, robot = _plan_of_robot(plan.state, job.settings)
    except DynidError as error:
        refused = tuple(refused_row(log.path, error.message) for period in job.periods for log in period.logs)
        rows = [
            _refused_result(period, [row for row in refused if row[0] in {log.path for log in period.logs}])
            for period in job.periods
        ]
        return RobotReport(job.robot, tuple(rows), (), {})
    pairs = [run_period(plan, state, robot, store, period, job, marks) for period in job.periods]
    results = tuple(result for result, _ in pairs)
    contrasts = compare_periods(plan, state, store, (*job.done, *results), job) if job.baseline else ()
    return RobotReport(job.robot, results, contrasts, marks, tuple(r.period for r, is_new in pairs if is_new))


def _refused_result(
    period: PeriodLogs, refused: Sequence[tuple[str, str, str]], key: str = "", logs: tuple[str, ...] = ()
) -> PeriodResult:
    """Result of a period without a usable log."""
    return PeriodResult(period.robot, period.period, key, logs, (), (), (), "", 0.0, tuple(refused))


def _plan_of_robot(plan: State, settings: RobotSettings) -> tuple[State, Robot]:
    """The plan with the geometry of one robot, where that has a file of its own."""
    if settings.file is None:
        return plan, plan.equation.robot
    equation, robot = plan.equation, load_robot(settings.file)
    robot = load_robot(settings.file, lock=equation.robot.locks) if equation.robot.locks else robot
    if robot.parameter_names != equation.robot.parameter_names:
        raise DynidError(
            "robot_of_other_kind", "{file}: this robot has other links than the fleet's", "identify it in a separate "
            "fleet", file=settings.file,
        )  # fmt: skip
    own = Equation.for_robot(
        robot, equation.options, friction=equation.friction, scale=equation.shapes.scale,
        transmission=equation.transmission,
    )  # fmt: skip
    if own.names != equation.names:
        raise DynidError(
            "robot_of_other_kind", "{file}: this robot has other base parameters than the fleet's", "identify it in a "
            "separate fleet", file=settings.file,
        )  # fmt: skip
    return replace(plan, equation=replace(own, shapes=equation.shapes, rigid=equation.rigid)), robot


def run_period(
    plan: Plan, like: State, robot: Robot, store: Store, period: PeriodLogs, job: RobotJob, marks: dict[str, str]
) -> tuple[PeriodResult, bool]:
    """Read the logs of one period into a saved state, unless it is there already; return whether it was not."""
    hashes, refused = dict[str, LogFile](), list[tuple[str, str, str]]()
    for log in period.logs:
        try:
            known = job.marks.get(log.mark)
            if known is None:
                with log.local() as place:
                    known = hash_log(log, place)
            marks[log.mark] = known
            hashes.setdefault(known, log)
        except DynidError as error:
            refused.append(refused_row(log.path, error.message))
    key = _address(plan.digest, job.settings.text, *sorted(hashes), *(path for path, *_ in refused))
    if store.has_period(period.robot, period.period, key):
        with suppress(DynidError):  # damaged: made again
            return store.read_period(period.robot, period.period, key, like)[0], False
    before = _earlier_state(plan, like, store, period, set(hashes), job)
    states, tried, temperatures = list[State](), set[str](), list[float]()
    if before is not None:
        states, tried, refused = [before[1]], set(before[0].logs), [*refused, *before[0].refused]
        temperatures = [] if before[0].temperature is None else [before[0].temperature]
    for sha, log in hashes.items():
        if sha in tried:
            continue
        try:
            with log.local() as place:
                source = read_selected_rows(place, log) if log.keys else place
                opened = read_log(source, robot, **job.settings.read)
                state = collect_state(robot, opened, like=like)
                warmth = read_temperature(source)
            states.append(_without_payload(state, job.settings.payload))
            temperatures += [] if warmth is None else [warmth]
        except DynidError as error:
            refused.append(refused_row(log.path, error.message))
        except Exception as error:  # whatever a damaged file does to a library: a row, and the rest goes on
            text = " ".join(str(error).split())[:200]
            refused.append((log.path, "log_failed", f"cannot be read ({type(error).__name__}: {text})"))
    result, reduced = _refused_result(period, refused, key, tuple(hashes)), None
    if states:
        merged = merge_states(states)
        try:
            found = identify_states(merged)
            result = PeriodResult(
                period.robot, period.period, key, tuple(hashes), tuple(map(str, found.names)),
                tuple(map(float, found.values)), tuple(map(float, found.sigma)), found.verdict.level,
                float(sum(block.stop - block.start for block in merged.blocks)), tuple(refused),
                float(np.mean(temperatures)) if temperatures else None,
            )  # fmt: skip
            reduced = reduce_state(merged)
        except DynidError as error:
            failed = [refused_row(log.path, error.message) for sha, log in hashes.items() if sha not in tried]
            result = _refused_result(period, [*refused, *failed], key, tuple(hashes))
    store.write_period(result, reduced)
    return result, True


def _address(*parts: str) -> str:
    """Address of what was made from these parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _earlier_state(
    plan: Plan, like: State, store: Store, period: PeriodLogs, hashes: set[str], job: RobotJob
) -> tuple[PeriodResult, State] | None:
    """State of the same period from the largest part of its logs that was read before, if any."""
    place = store.state_file(period.robot, period.period, "0")
    best: tuple[PeriodResult, State] | None = None
    name = place.name.rsplit(".", 2)[0]
    for file in place.parent.glob("*.state") if len(hashes) > 1 and place.parent.is_dir() else ():
        if file.name.rsplit(".", 2)[0] != name:
            continue
        with suppress(DynidError, *DAMAGE):
            old = PeriodResult.from_record(read_arrays(file)[0]["result"])
            is_part = set(old.logs) < hashes and old.key == _address(plan.digest, job.settings.text, *sorted(old.logs))
            if is_part and (best is None or len(old.logs) > len(best[0].logs)):
                result, state = store.read_period(period.robot, period.period, old.key, like)
                best = best if state is None else (result, state)
    return best


def read_temperature(source: Any) -> float | None:
    """Mean of a column `temperature` of a table, in degrees Celsius; None without one."""
    import polars as pl

    try:
        if isinstance(source, Path):
            suffix = source.suffix.lower()
            if suffix not in (".parquet", ".pq", ".csv"):
                return None
            frame = pl.scan_csv(source) if suffix == ".csv" else pl.scan_parquet(source)
        else:
            frame = source.lazy()
        names = [name for name in frame.collect_schema().names() if name.lower().startswith("temperature")]
        if not names:
            return None
        means = frame.select(pl.col(names).mean()).collect().row(0)
    except pl.exceptions.PolarsError:
        return None
    known = [float(x) for x in means if isinstance(x, int | float) and np.isfinite(x)]
    return float(np.mean(known)) if known else None


def _without_payload(state: State, p: tuple[float, ...]) -> State:
    """State as if the robot did not carry a payload p (10 parameters); unchanged where that is empty."""
    if not p:
        return state
    equation = state.equation
    K = payload_to_base_matrix(equation.base, find_carrier(equation.robot, None)) @ np.array(p)
    blocks = []
    for block in state.blocks:
        parts: dict[str, Any] = {
            name: tuple(
                _subtract(c, factor, K) for c, factor in zip(equation.channels, getattr(block, name), strict=True)
            )
            for name in ("factors", "head", "tail", "noise", "unsettled")
            if getattr(block, name)
        }
        blocks.append(replace(block, **parts))
    return replace(state, blocks=tuple(blocks))


def _subtract(channel: Any, factor: Any, K: Any) -> Any:
    """Factor whose measured column lacks what a payload adds."""
    R = factor.R.copy()
    R[:, -1] -= R[:, : channel.base] @ K[channel.columns[: channel.base]]
    return replace(factor, R=R)


# Comparisons with the baseline.


@dataclass(frozen=True, eq=False)
class Comparison:
    """A period of one robot and the baseline periods it is compared with; own: whether it is one of them itself."""

    period: PeriodResult
    others: tuple[PeriodResult, ...]
    own: bool

    @cached_property
    def address(self) -> str:
        """What it is made from."""
        kind = "baseline" if self.own else "later"
        names = self.period.robot, self.period.period
        return _address("contrast 3", kind, *map(repr, names), *(r.key for r in self.others), self.period.key)


def comparisons(results: Sequence[PeriodResult], baseline: int) -> list[Comparison]:
    """Comparisons of one robot: every period with the first ones, and these each with the others."""
    usable = sorted((r for r in results if r.names), key=lambda r: natural_order(r.period))
    first = usable[:baseline]
    wanted = [
        Comparison(result, tuple(r for r in first if r is not result), k < baseline) for k, result in enumerate(usable)
    ]
    return [comparison for comparison in wanted if comparison.others]


def compare_periods(
    plan: Plan, like: State, store: Store, results: Sequence[PeriodResult], job: RobotJob
) -> tuple[tuple[str, Contrast], ...]:
    """Compare the periods of one robot with its baseline; what is known already is left out."""
    missing = [item for item in comparisons(results, job.baseline) if item.address not in job.known]
    if not missing or not like.equation.torque_channels:
        return ()
    columns, prior = Columns.of_equation(like.equation), Prior.weak(like.equation, plan.values)
    known: dict[str, Normal] = {}

    def normal(result: PeriodResult) -> Normal:
        if result.key not in known:
            state = store.read_period(result.robot, result.period, result.key, like)[1]
            assert state is not None
            known[result.key] = normal_equations(columns, plan.noise, state)
        return known[result.key]

    contrasts = []
    for item in missing:
        result, others = item.period, item.others
        baseline = _baseline(store, columns, prior, others, normal)
        effects = tuple(find_effects(columns, baseline, normal(result)))
        warmth = [r.temperature for r in others if r.temperature is not None]
        change = None
        if result.temperature is not None and len(warmth) == len(others):
            change = result.temperature - float(np.mean(warmth))
        found = Contrast(result.robot, result.period, effects, len(others), item.own, change, columns.rigid)
        contrasts.append((item.address, found))
        if not item.own:
            known.pop(result.key)
    return tuple(contrasts)


def _baseline(
    store: Store, columns: Columns, prior: Prior, periods: Sequence[PeriodResult],
    normal: Callable[[PeriodResult], Normal],
) -> Baseline:  # fmt: skip
    """Baseline of some periods, from its file where there is one."""
    address = _address("baseline 1", *(r.key for r in periods))
    path = store.state_file(periods[0].robot, "baseline", address).with_suffix(".base")
    if path.is_file():
        with suppress(DynidError, TypeError):
            return Baseline(*read_arrays(path)[1])
    found = fit_baseline(columns, [normal(r) for r in periods], prior)
    write_arrays(path, {"periods": [r.period for r in periods]}, (found.values, found.shifts))
    return found
