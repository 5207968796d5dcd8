"""All ways to identify from the same logs, judged alike: by the torques they predict on data that none has seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynid.base.find import base_parameters
from dynid.base.sampling import random_samples
from dynid.data.log import Log
from dynid.errors import DynidError, IdentificationError
from dynid.estimation.advice import advise
from dynid.estimation.collecting import Wishes, collect, collect_like, without_known
from dynid.estimation.comparison import Comparison, Way
from dynid.estimation.estimating import estimate
from dynid.estimation.gathering import Gathered, total_factors
from dynid.estimation.identification import Identification
from dynid.estimation.identify import Logs, check_wishes, split_logs
from dynid.estimation.measure import TORQUE, Measure
from dynid.estimation.method import Method
from dynid.estimation.robust import tell as tell_judged
from dynid.estimation.score import Score, score
from dynid.estimation.state import State
from dynid.estimation.unknowns import Unknowns
from dynid.kernel.threads import one_blas_thread
from dynid.models.regressor import regressor
from dynid.robot.joint_column import JointColumn
from dynid.robot.robot import Robot

WAYS = (
    ("torque", "wls"),
    ("power", "wls"),
    ("energy", "wls"),
    ("momentum", "wls"),
    ("torque", "ols"),
    ("torque", "ridge"),
    ("torque", "huber"),
    ("torque", "recursive"),
    ("momentum", "recursive"),
)
"""Models and estimators that are compared, the plainest first."""

SHARE = 0.25
"""Part of every log that is held out at its end, where no other logs are given."""

Progress = Callable[[str, float], None]


@one_blas_thread
def compare_ways(
    robot: Robot,
    logs: Logs,
    *,
    window: float | None = None,
    quadrature: str = "smooth",
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    validate: Logs | float = SHARE,
    on_progress: Progress | None = None,
    columns: Sequence[JointColumn] = (),
    joints: Sequence[str] | None = None,
    known: Mapping[str, float] | None = None,
    tied: Sequence[tuple[str, str]] = (),
    offsets_per_log: bool = False,
    delay: float = 0.0,
) -> Comparison:
    """Identify in every way, on the same data, and say which to trust; the options are those of `identify`.

    validate: other logs, or the share of every log to hold out at its end, on which all ways predict the torques. A
    way that cannot be gone is there with its reason; where none can, the first reason is raised. Ctrl-C keeps those
    that are finished.
    """
    used, others, source = split_logs(robot, logs, validate)
    is_share = isinstance(validate, float | int)

    def wishes(model: str) -> Wishes:
        measure = Measure(model, window if model in ("energy", "momentum") else None, quadrature)
        return check_wishes(robot, friction, rotor_inertia, cutoff, delay, joints, columns, measure)

    wishes("torque")  # what is wrong with the options is wrong for all ways
    Measure("momentum", window, quadrature)
    method = Method("wls", dict(known or {}), tuple(tied), offsets_per_log)
    job = _Job(robot, used, others, source, is_share, wishes, method)
    ways: list[Way] = []
    interrupted = False
    try:
        regressor(robot, random_samples(robot, 2, 0))  # kernels are loaded before any clock runs
        base_parameters(robot, rotor_inertia=rotor_inertia)
        for k, (model, estimator) in enumerate(WAYS):
            ways.append(job.run(model, estimator, _told(on_progress, f"{model}, {estimator}", k)))
    except KeyboardInterrupt:
        if not any(way.result is not None for way in ways):
            raise
        interrupted = True
    if not any(way.result is not None for way in ways):
        raise job.failures[0]
    best, advice = advise(ways)
    return Comparison(tuple(ways), best, advice, source, interrupted)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What a model's pass over the logs left, the seconds it took, and torque rows of the held-out data.

    Every model has its own: the load block rests on its first estimate.
    """

    state: State
    seconds: float
    held_out: Gathered


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """The same data for all ways; every model reads the logs once, whatever the number of its estimators."""

    robot: Robot
    used: tuple[Log, ...]
    others: tuple[Log, ...]
    source: str
    is_share: bool
    wishes: Callable[[str], Wishes]
    method: Method
    done: dict[str, _Read | DynidError] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)

    def run(self, model: str, estimator: str, tell: Progress | None) -> Way:
        """Go one way."""
        start = time.perf_counter()
        try:
            read = self._read(model, tell)
            start = time.perf_counter() - read.seconds
            result, state = self._solve(read.state, estimator, tell)
            seconds = time.perf_counter() - start
            same = state.equation is read.state.equation
            prediction = self._score(state, result, read.held_out if same else self._held_out(state, tell))
        except (DynidError, np.linalg.LinAlgError) as error:
            self.failures.append(error)
            return Way(model, estimator, time.perf_counter() - start, refusal=str(error))
        return Way(model, estimator, seconds, result, prediction)

    def _read(self, model: str, tell: Progress | None) -> _Read:
        """Pass over the logs, made once; so is its failure."""
        if model not in self.done:
            start = time.perf_counter()
            try:
                state = collect(self.robot, self.used, self.wishes(model), on_progress=tell)
                seconds = time.perf_counter() - start
                self.done[model] = _Read(state, seconds, self._held_out(state, tell))
            except DynidError as error:
                self.done[model] = error
        read = self.done[model]
        if isinstance(read, DynidError):
            raise read
        return read

    def _solve(self, state: State, estimator: str, tell: Progress | None) -> tuple[Identification, State]:
        method = replace(self.method, estimator=estimator)
        if estimator != "huber":
            return estimate(state, method, None), state
        if method.offsets_per_log and len(self.used) > 1:
            raise IdentificationError("estimator 'huber' takes no own offsets per log")
        wishes = replace(self.wishes(state.equation.measure.model), robust=True)
        state = collect(self.robot, self.used, wishes, on_progress=tell)
        result = estimate(state, method, None)
        assert state.judge is not None
        return replace(result, notes=(*result.notes, *tell_judged(state.judge, self.used, judged=True))), state

    def _held_out(self, state: State, tell: Progress | None) -> Gathered:
        """Torque rows of the held-out data, whatever the model."""
        as_torque = replace(state, equation=replace(state.equation, measure=TORQUE))
        held_out = collect_like(as_torque, self.others, on_progress=tell)
        known = () if self.is_share else without_known(held_out, state)[1]
        if known:
            raise IdentificationError(f"{known[0]}; give other logs, or a share to hold out (validate=0.25)")
        return held_out

    def _score(self, state: State, result: Identification, held_out: Gathered) -> Score:
        """Errors of the torques on the held-out data, with friction as the way has it."""
        equation = replace(state.equation, measure=TORQUE)
        offsets = self.method.offsets_per_log
        unknowns = Unknowns.of(equation, equation.friction, len(self.used), offsets_per_log=offsets)
        values = dict(zip(result.names, result.values, strict=True))
        return score(
            unknowns, np.array([values.get(name, 0.0) for name in unknowns.names]), total_factors(held_out.blocks),
            held_out.settling, cutoff=state.cutoff, source=self.source, fitted=self.is_share,
            kinds=equation.kinds,
        )  # fmt: skip


def _told(on_progress: Progress | None, name: str, k: int) -> Progress | None:
    """Progress of one way as a part of all."""
    if on_progress is None:
        return None
    on_progress(name, k / len(WAYS))
    return lambda text, done: on_progress(f"{name}: {text}", (k + done) / len(WAYS))
