"""All models and estimators on the same logs, judged alike: by the torques they predict on data that none has seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.deprecated import accept_old_names
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.dynamics.regressor import regressor
from dynid.errors import DynidError, IdentificationError
from dynid.estimation.accumulate.logs import collect_logs, collect_logs_like, drop_logs_in_state
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.accumulate.state import State
from dynid.estimation.diagnostics.verdict import LEVELS, Level, level_by_nrmse
from dynid.estimation.estimate import estimate
from dynid.estimation.identification import Identification
from dynid.estimation.identify import Logs, split_logs
from dynid.estimation.inference.score import Score, score
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import Estimator, estimator_name
from dynid.estimation.solve.recursive import LACKS_RANK
from dynid.estimation.solve.robust import describe_outliers
from dynid.identifiability.base_parameters import base_parameters
from dynid.identifiability.numeric import random_samples
from dynid.logs.log import Log
from dynid.logs.read import robot_with_locks_of
from dynid.messages import Message, Option, html_summary
from dynid.robot.robot import JointColumn, Robot
from dynid.robot.transform import Array
from dynid.storage.records import polars_frame

# Several models and estimators on the same logs, side by side: what each found, or why it refused.


COMBINED = 3.0
"""Combined deviations within which two values agree."""

ROUNDING = 1e-6
"""Share of the largest parameter of a unit that is no difference: data without noise have no deviations."""


@accept_old_names
@dataclass(frozen=True, eq=False)
class EstimatorRun:
    """One model with one estimator: its result and the error of the torques it predicts, or the reason for a refusal.

    Attributes
    ----------
    model : str
        Name of the model.
    estimator : str
        Name of the estimator.
    seconds : float
        Time for reading and solving, as if it were the only run, s.
    result : Identification or None
        The result, None if it was refused.
    prediction : Score or None
        Errors of the predicted torques on the same held-out data, filtered alike, for all runs; `result.validation` is
        about the run's own channels instead.
    refusal : Message or None
        Why it was refused.
    """

    model: str
    estimator: str
    seconds: float
    result: Identification | None = None
    prediction: Score | None = None
    refusal: Message | None = None

    @property
    def name(self) -> str:
        """Model and estimator as text: `torque, wls`."""
        return f"{self.model}, {self.estimator}"

    @property
    def identification(self) -> Identification:
        """Result of the run; IdentificationError where it was refused."""
        if self.result is None:
            raise IdentificationError("way_refused", "{way} refused: {refusal}", way=self.name, refusal=self.refusal)
        return self.result

    @property
    def error(self) -> float:
        """Mean NRMSE of the predicted torques, infinite where there is none."""
        mean = np.inf if self.prediction is None else self.prediction.mean
        return mean if np.isfinite(mean) else np.inf

    @property
    def level(self) -> Level:
        """Level of its verdict, or what the errors of the held-out torques allow where that is worse."""
        return max((self.identification.verdict.level, level_by_nrmse(self.error)), key=LEVELS.index)

    @cached_property
    def base_parameter_names(self) -> tuple[str, ...]:
        """Names of the base parameters that were found."""
        known = set(self.identification.equation.base.names)
        return tuple(name for name in self.identification.names if name in known)

    @cached_property
    def relative_deviation(self) -> float:
        """Median of sigma / |value| over the base parameters, those left out that were given."""
        wanted = [self.identification.names.index(name) for name in self.base_parameter_names]
        figures = self.identification.relative_sigma[wanted]
        figures = figures[np.isfinite(figures) & (figures > 0.0)]
        return float(np.median(figures)) if len(figures) else 0.0

    def distances_to(self, other: EstimatorRun) -> dict[str, float]:
        """Distances between the base parameters of this run and of another.

        Parameters
        ----------
        other : EstimatorRun
            The other run.

        Returns
        -------
        dict of str to float
            Distance by name, in combined standard deviations; infinite where this run lacks the parameter.
        """
        mine, theirs = (_values_by_name(run.identification) for run in (self, other))
        sizes = _largest_by_unit(other.identification)
        distances = {}
        for name in other.base_parameter_names:
            if name not in mine:
                distances[name] = np.inf
                continue
            (x, s), (y, r) = mine[name], theirs[name]
            distances[name] = max(abs(x - y) - ROUNDING * sizes[name], 0.0) / max(float(np.hypot(s, r)), 1e-300)
        return distances

    def agreement(self, other: EstimatorRun) -> float:
        """Share of another run's base parameters with which this one agrees within three combined standard deviations.

        Parameters
        ----------
        other : EstimatorRun
            The other run.

        Returns
        -------
        float
            Share, 0 to 1.
        """
        distances = list(self.distances_to(other).values())
        return float(np.mean(np.array(distances) <= COMBINED)) if distances else 1.0


@accept_old_names
@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of all models and estimators on the same logs.

    Attributes
    ----------
    runs : tuple of EstimatorRun
        All runs, in the order in which they were tried.
    best : EstimatorRun or None
        The run to trust.
    advice : Message
        Which to trust, and why.
    source : str
        Data on which torques were predicted.
    interrupted : bool
        Whether Ctrl-C left out the last runs.
    """

    runs: tuple[EstimatorRun, ...]
    best: EstimatorRun | None
    advice: Message
    source: str
    interrupted: bool = False

    def __repr__(self) -> str:
        trust = "trust none" if self.best is None else f"trust {self.best.name} (NRMSE {self.best.error:.4f})"
        return f"<Comparison of {len(self.runs)} runs, {len(self.refused)} refused: {trust}>"

    def _repr_html_(self) -> str:
        """Advice and all runs, for notebooks."""
        facts = {"comparison": f"{len(self.runs)} runs, predicting {self.source}", "advice": str(self.advice)}
        shown = [
            (r.name, "refused", "", f"{r.seconds:.2g}", str(r.refusal)) if r.result is None else
            (r.name, f"{r.error:.4f}", f"{r.relative_deviation:.2g}", f"{r.seconds:.2g}", r.level)
            for r in self.runs
        ]  # fmt: skip
        return html_summary(facts, ["run", "NRMSE", "median relative sigma", "s", "verdict"], shown)

    def table(self) -> Any:
        """All runs, side by side.

        Returns
        -------
        polars.DataFrame
            model, estimator, nrmse of held-out torques, median relative_sigma of the base parameters, seconds, verdict
            and the reason of a refusal.

        """
        done = [run.result is not None for run in self.runs]
        return polars_frame({
            "model": [r.model for r in self.runs], "estimator": [r.estimator for r in self.runs],
            "nrmse": [r.error if ok else None for r, ok in zip(self.runs, done, strict=True)],
            "relative_sigma": [r.relative_deviation if ok else None for r, ok in zip(self.runs, done, strict=True)],
            "seconds": [r.seconds for r in self.runs],
            "verdict": ["" if r.result is None else r.level for r in self.runs],
            "refusal": ["" if r.refusal is None else str(r.refusal) for r in self.runs],
        })  # fmt: skip

    def plot(self) -> Any:
        """Figures of a report on all finished runs: their errors, and intervals of the parameters side by side.

        Returns
        -------
        dict of str to plotly.graph_objects.Figure
            By section of the report; needs the package plotly.

        """
        return import_module("dynid.report.write").comparison_figures(self)

    @property
    def finished(self) -> tuple[EstimatorRun, ...]:
        """Runs that have a result."""
        return tuple(run for run in self.runs if run.result is not None)

    @property
    def refused(self) -> tuple[EstimatorRun, ...]:
        """Runs that were refused, without a result."""
        return tuple(run for run in self.runs if run.result is None)

    @property
    def reference(self) -> EstimatorRun:
        """Run that the others are compared with: torque by wls, or the first that has a result."""
        return self.finished[0]

    def run(self, model: str, estimator: str = "wls") -> EstimatorRun:
        """Return the run of a model and an estimator.

        Parameters
        ----------
        model : str
            Name of the model.
        estimator : str
            Name of the estimator.

        Returns
        -------
        EstimatorRun
            The run.

        Raises
        ------
        IdentificationError
            If there is no such run.
        """
        for run in self.runs:
            if (run.model, run.estimator) == (model, estimator):
                return run
        raise IdentificationError(
            "unknown_run", "{model}, {estimator} is not among the runs that were compared", model=model,
            estimator=estimator,
        )  # fmt: skip

    def most_disputed(self, count: int) -> tuple[str, ...]:
        """Base parameters of the reference run about which the runs differ most, in its order.

        Parameters
        ----------
        count : int
            How many, at most.

        Returns
        -------
        tuple of str
            Names of the parameters.
        """
        reference = self.reference
        worst = dict.fromkeys(reference.base_parameter_names, 0.0)
        for run in self.finished[1:]:
            for name, distance in run.distances_to(reference).items():
                worst[name] = max(worst[name], distance)
        chosen = set(sorted(worst, key=lambda name: -worst[name])[:count])
        return tuple(name for name in reference.base_parameter_names if name in chosen)


def _values_by_name(result: Identification) -> dict[str, tuple[float, float]]:
    """Value and standard deviation of every parameter."""
    return {name: (float(x), float(s)) for name, x, s in zip(result.names, result.values, result.sigma, strict=True)}


def _largest_by_unit(result: Identification) -> dict[str, float]:
    """Largest value among the parameters of the same unit, for every parameter."""
    units, values = np.array(result.units), np.abs(result.values)
    largest: dict[str, Array] = {unit: values[units == unit].max() for unit in set(result.units)}
    return {name: float(largest[unit]) for name, unit in zip(result.names, result.units, strict=True)}


# Which of several runs to trust, and why, by rules that fit in a sentence.
#
# The run that predicts held-out torques best is taken, among those whose verdict allows it. Errors within 3 % are a
# tie: then the smaller deviations win, and within a tenth of these torque by wls, the plainest. Ridge wins no tie: its
# deviations are small because it leans on nominal values.


TIE, ALIKE = 1.03, 1.1
"""Ratios of errors, and of deviations, below which two runs are as good as each other."""

NOTHING, EXACT = 1e-4, 1e-6
"""NRMSE and relative deviation below which a difference is of no use to anybody."""

COLOURED = 0.3
"""Autocorrelation of residuals from which on a person should know of it."""

SHARPER = 1.5
"""Ratio of deviations from which on the better run says something about the data."""

AGREES = 0.9
"""Share of base parameters that two runs should have in common."""


def recommend_run(runs: Sequence[EstimatorRun]) -> tuple[EstimatorRun | None, Message]:
    """The run to trust, None where there is none, and a message that holds the reasons among its facts."""
    finished = [run for run in runs if run.result is not None]
    best = choose_run(finished)
    if best is None:
        return None, Message("trust_none", "do not trust any of them: {reason}", reason=_explain_no_choice(finished))
    reasons = [_explain_choice(best, finished), *_describe_chosen_run(best), *_caveats_from_other_runs(best, runs)]
    text = "; ".join(f"{{reasons[{k}]}}" for k in range(len(reasons)))
    return best, Message("trust_run", text, model=best.model, estimator=best.estimator, reasons=reasons)


def choose_run(finished: Sequence[EstimatorRun]) -> EstimatorRun | None:
    """Run with the smallest error on held-out torques; ties go to smaller deviations, then to torque by wls."""
    allowed = [run for run in finished if _is_trustworthy(run)]
    if not allowed:
        return None
    smallest = min(run.error for run in allowed)
    tied = [run for run in allowed if run.error <= max(TIE * smallest, smallest + NOTHING)]
    honest = [run for run in tied if run.estimator != "ridge"] or tied
    least = min(run.relative_deviation for run in honest)
    close = [run for run in honest if run.relative_deviation <= max(ALIKE * least, least + EXACT)]
    return next((run for run in close if _is_wls_torque_run(run)), min(close, key=lambda run: run.relative_deviation))


def _is_trustworthy(run: EstimatorRun) -> bool:
    """Whether a run's verdict and its error on held-out torques allow to trust it."""
    return run.level != "do not trust"


def _is_wls_torque_run(run: EstimatorRun) -> bool:
    """Whether a run is torque by weighted least squares."""
    return (run.model, run.estimator) == ("torque", "wls")


def _explain_no_choice(finished: Sequence[EstimatorRun]) -> Message:
    """Message on why none of the runs is to be trusted."""
    verdict = finished[0].identification.verdict
    if verdict.level == "do not trust":
        return verdict.reasons[0]
    return Message(
        "held_out_torques_off", "on held-out data their torques are off by {percent:.0f} % of the signal at best, "
        "although {run} is {level} where it was fitted: the motions differ too much, or something changed",
        percent=100.0 * min(run.error for run in finished), run=finished[0].name, level=verdict.level,
    )  # fmt: skip


def _explain_choice(best: EstimatorRun, finished: Sequence[EstimatorRun]) -> Message:
    """Message on why this run is the one to trust."""
    allowed = [run for run in finished if _is_trustworthy(run)]
    first = min(allowed, key=lambda run: run.error)
    text = "trust {model} by {estimator}: its error on held-out torques, NRMSE {nrmse:.4f}, is "
    facts = {"model": best.model, "estimator": best.estimator, "nrmse": best.error}
    if len(allowed) == 1:
        return Message("only_trusted_run", text + "that of the only run that can be trusted", **facts)
    if first is best:
        rivals = sum(run.error <= max(TIE * best.error, best.error + NOTHING) for run in allowed) - 1
        text += "the smallest"
        if rivals:
            verb = "is" if rivals == 1 else "are"
            text += " ({rivals} more " + verb + " as good, with standard deviations that are no smaller)"
        return Message("smallest_error", text, rivals=rivals, **facts)
    text += "as good as the smallest ({smallest:.4f}, {other})"
    facts |= {"smallest": first.error, "other": first.name}
    if first.estimator == "ridge":
        return Message("tie_with_ridge", text + ", which relies on nominal values", **facts)
    if first.relative_deviation > ALIKE * best.relative_deviation + EXACT:
        return Message("tie_with_smaller_deviations", text + " and its standard deviations are smaller", **facts)
    return Message("tie_with_plain_way", text + ", and so are its standard deviations", **facts)


def _describe_chosen_run(best: EstimatorRun) -> list[Message]:
    """Messages on what to know of the chosen run."""
    result, remarks = best.identification, []
    coloured = [check.channel for check in result.checks if abs(check.colour) > COLOURED]
    if coloured:
        allowed = "the jackknife's standard deviations allow for it"
        what = allowed if result.groups else "its standard deviations are too small"
        remarks.append(Message(
            "residuals_coloured", "its residuals are coloured ({some}): " + what, channels=coloured,
            some=coloured[:8], jackknife=bool(result.groups),
        ))  # fmt: skip
    if result.verdict.level == "weak":
        remarks.append(Message(
            "chosen_run_is_weak", "its verdict is weak, do not control with it: {reason}",
            reason=result.verdict.reasons[0],
        ))  # fmt: skip
    if best.estimator == "ridge":
        remarks.append(Message(
            "leans_on_nominal_values", "its values rely on the nominal ones of the robot file, and its standard "
            "deviations do not say by how much",
        ))  # fmt: skip
    return remarks


def _caveats_from_other_runs(best: EstimatorRun, runs: Sequence[EstimatorRun]) -> list[Message]:
    """Messages on what the other runs say about the data."""
    by_name = {(run.model, run.estimator): run for run in runs}
    wls = by_name.get(("torque", "wls"))
    caveats = []
    if wls is not None and wls.result is not None:
        caveats += _outlier_caveats(wls, by_name.get(("torque", "huber")))
        caveats += _acceleration_noise_caveats(wls, by_name.get(("momentum", "wls")))
    refused = [run for run in runs if run.estimator == "recursive" and run.refusal is not None]
    if refused:
        codes = [run.refusal.code for run in refused if run.refusal is not None]
        rank = ", a joint alone lacks rank" if LACKS_RANK in codes else ""
        caveats.append(Message(
            "recursion_refused", "the recursion refused ({joined})" + rank, runs=[run.name for run in refused],
            joined=" and ".join(run.name for run in refused), codes=codes,
        ))  # fmt: skip
    others = [run for run in runs if run.result is not None and run is not best and run.estimator != "huber"]
    apart = {run.name: run.agreement(best) for run in others}
    far = {name: share for name, share in apart.items() if share < AGREES}
    if far:
        caveats.append(Message(
            "runs_disagree", "fewer than {percent:.0f} % of the base parameters agree with it in {some}", agreement=far,
            percent=100 * AGREES, some=[f"{name} ({100.0 * share:.0f} %)" for name, share in far.items()],
        ))  # fmt: skip
    elif len(others) > 1:
        caveats.append(
            Message("runs_agree", "the others agree with it within their standard deviations", agreement=apart)
        )
    return caveats


def _outlier_caveats(wls: EstimatorRun, huber: EstimatorRun | None) -> list[Message]:
    """Messages on what differences between wls and huber say about outliers."""
    if huber is None or huber.result is None:
        return []
    distances = np.array(list(huber.distances_to(wls).values()))
    off, sharper = int((distances > COMBINED).sum()), wls.relative_deviation / max(huber.relative_deviation, 1e-300)
    if off > (1.0 - AGREES) * len(distances):
        what = "huber differs from wls in {off} of {count} base parameters"
    elif sharper > SHARPER and wls.relative_deviation > huber.relative_deviation + EXACT:
        what = "standard deviations of huber are {sharper:.1f} times smaller than those of wls"
    else:
        return []
    facts = {"off": off, "count": len(distances), "sharper": sharper}
    if huber.error > max(TIE * wls.error, wls.error + NOTHING):
        why = ", but it predicts worse: outliers, or something that the model lacks and huber mistakes for outliers"
        return [Message("huber_predicts_worse", what + why, **facts)]
    return [Message("outliers_likely", what + ": look for outliers and contacts, which held-out data may hold too",
                    **facts)]  # fmt: skip


def _acceleration_noise_caveats(torque: EstimatorRun, momentum: EstimatorRun | None) -> list[Message]:
    """Messages on what differences between torque and momentum say about noise of the accelerations."""
    if momentum is None or momentum.result is None or not _is_trustworthy(momentum):
        return []
    better = torque.error / max(momentum.error, 1e-300)
    sharper = torque.relative_deviation / max(momentum.relative_deviation, 1e-300)
    why = ": noise of the accelerations matters; a lower cut-off would help"
    facts = {"momentum": momentum.error, "torque": torque.error, "sharper": sharper}
    if better > TIE and torque.error > momentum.error + NOTHING:
        what = "momentum predicts better than torque ({momentum:.4f} and {torque:.4f})"
    elif sharper > SHARPER and torque.relative_deviation > momentum.relative_deviation + EXACT:
        what = "standard deviations of momentum are {sharper:.1f} times smaller than those of torque"
    else:
        return []
    return [Message("noisy_accelerations", what + why, **facts)]


COMPARED = (
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


@accept_old_names
@one_blas_thread
def compare_estimators(
    robot: Robot,
    logs: Logs,
    *,
    window: float | Sequence[tuple[float, float]] | None = None,
    quadrature: str = "smooth",
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    validate: Logs | float = SHARE,
    on_progress: Progress | None = None,
    columns: Sequence[JointColumn] = (),
    joints: Sequence[str] | None = None,
    known: Mapping[str, float] | None = None,
    equal: Sequence[tuple[str, str]] = (),
    offsets_per_log: bool = False,
    friction_per_log: bool = False,
    delay: float = 0.0,
    estimators: Sequence[Estimator] = (),
) -> Comparison:
    """Identify with every model and estimator, and say which to trust.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    logs : Log, path, frame or mapping, or a sequence of them
        Recordings with positions and what the model measures, as `read_log` takes them.
    window : float, optional
        Length of the energy or momentum balance, s. Default: a quarter of a period at the upper end of the motion's
        frequency band.
    quadrature : {"smooth", "trapezoid"}
        Rule by which balances are integrated: of order 8 or of order 2.
    friction : str or sequence of str
        "auto": blocks chosen by cross-validation; or names of blocks, such as ("viscous", "coulomb", "offset"); () for
        none.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    cutoff : float, optional
        Cut-off frequency of the filter, Hz. Default: chosen from the data.
    validate : logs or float
        Other logs, or the share of every log to hold out at its end, 0 to 1; all runs predict the torques there.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.
    columns : sequence of JointColumn
        Further torques of known shape and unknown size.
    joints : sequence of str, optional
        Joints whose torques are used. Default: all.
    known : mapping of str to float, optional
        Parameters that are known, with their values in SI units.
    equal : sequence of (str, str)
        Pairs of parameters that are equal.
    offsets_per_log : bool
        Whether each log has its own torque offsets.
    friction_per_log : bool
        Whether each log has its own friction, because temperature changes it.
    delay : float
        How much later torques were recorded than positions, s.
    estimators : sequence of callable
        Estimators of one's own (see `identify`), for the torques, as further runs.

    Returns
    -------
    Comparison
        All runs, the one to trust, and the reason. A run that is refused has its reason in place of a result; Ctrl-C
        keeps the runs that are finished.

    Raises
    ------
    IdentificationError
        If no run has a result; the first reason.
    LogError
        If a log cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, compare_estimators, load_robot, simulate
    >>> robot = load_robot("one_link")
    >>> t = np.arange(0.0, 4.0, 0.02)
    >>> x = 2.0 * t[:, None]
    >>> log = simulate(robot, Motion(t, np.sin(x), 2.0 * np.cos(x), -4.0 * np.sin(x)), noise=0.01)
    >>> comparison = compare_estimators(robot, log, friction=("viscous",))
    >>> comparison.reference.name
    'torque, wls'
    """
    used, others, source = split_logs(robot, logs, validate)
    robot = robot_with_locks_of(robot, (*used, *others))
    is_share = isinstance(validate, float | int)

    options = Options(  # the runs share the base parameters of the nominal geometry
        model="momentum", window=window, quadrature=quadrature, unknown=(), friction=friction,
        rotor_inertia=rotor_inertia, cutoff=cutoff, columns=columns, joints=joints, known=known or {}, equal=equal,
        offsets_per_log=offsets_per_log, friction_per_log=friction_per_log, delay=delay,
    )  # fmt: skip
    options.with_model("torque").resolve_for_robot(robot)  # what is wrong with the options is wrong for all runs
    job = _ComparisonJob(robot, used, others, source, is_share, options)
    runs: list[EstimatorRun] = []
    interrupted = False
    try:
        regressor(robot, random_samples(robot, 2, 0))  # kernels are loaded before any clock runs
        base_parameters(robot, rotor_inertia=rotor_inertia)
        tried: list[tuple[str, str | Estimator]] = [*COMPARED, *(("torque", own) for own in estimators)]
        for k, (model, estimator) in enumerate(tried):
            progress = _share_of_progress(on_progress, f"{model}, {estimator_name(estimator)}", k, len(tried))
            runs.append(job.run(model, estimator, progress))
    except KeyboardInterrupt:
        if not any(run.result is not None for run in runs):
            raise
        interrupted = True
    if not any(run.result is not None for run in runs):
        raise job.failures[0]
    best, advice = recommend_run(runs)
    return Comparison(tuple(runs), best, advice, source, interrupted)


@dataclass(frozen=True, slots=True, eq=False)
class _CollectedModel:
    """What a model's pass over the logs left, the seconds it took, and torque rows of the held-out data.

    Every model has its own: the load block rests on its first estimate.
    """

    state: State
    seconds: float
    held_out: State


@dataclass(frozen=True, slots=True, eq=False)
class _ComparisonJob:
    """The same data for all runs; every model reads the logs once, whatever the number of its estimators."""

    robot: Robot
    used: tuple[Log, ...]
    others: tuple[Log, ...]
    source: str
    is_share: bool
    options: Options
    done: dict[str, _CollectedModel | DynidError] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)

    def run(self, model: str, estimator: str | Estimator, on_progress: Progress | None) -> EstimatorRun:
        """Identify with one model and one estimator."""
        start, name = time.perf_counter(), estimator_name(estimator)
        try:
            read = self._collect_state(model, on_progress)
            start = time.perf_counter() - read.seconds
            result, state = self._solve_state(read.state, estimator, on_progress)
            seconds = time.perf_counter() - start
            same = state.equation is read.state.equation
            prediction = self._score_torques(
                state, result, read.held_out if same else self._held_out_torques(state, on_progress)
            )
        except (DynidError, np.linalg.LinAlgError) as error:
            self.failures.append(error)
            failed = Message("equations_not_solvable", "{reason}", reason=str(error))
            refusal = error.message if isinstance(error, DynidError) else failed
            return EstimatorRun(model, name, time.perf_counter() - start, refusal=refusal)
        return EstimatorRun(model, name, seconds, result, prediction)

    def _options_for_model(self, model: str) -> Options:
        """Options of the comparison for one model."""
        return self.options.with_model(model).resolve_for_robot(self.robot)

    def _collect_state(self, model: str, on_progress: Progress | None) -> _CollectedModel:
        """Read the logs for a model, once: state or failure are kept."""
        if model not in self.done:
            start = time.perf_counter()
            try:
                state = collect_logs(self.robot, self.used, self._options_for_model(model), on_progress=on_progress)
                seconds = time.perf_counter() - start
                self.done[model] = _CollectedModel(state, seconds, self._held_out_torques(state, on_progress))
            except DynidError as error:
                self.done[model] = error
        read = self.done[model]
        if isinstance(read, DynidError):
            raise read
        return read

    def _solve_state(
        self, state: State, estimator: str | Estimator, on_progress: Progress | None
    ) -> tuple[Identification, State]:
        """Result of one estimator, and the state that it was solved from (huber reads the logs again)."""
        options = replace(self._options_for_model(state.equation.options.model), estimator=estimator)
        if estimator != "huber":
            return estimate(state, options, None), state
        options.refuse_own_friction_with_outliers(len(self.used))
        state = collect_logs(self.robot, self.used, options, on_progress=on_progress)
        result = estimate(state, options, None)
        assert state.outliers is not None
        notes = describe_outliers(state.outliers, self.used, in_validation=True)
        return result.replace(notes=(*result.notes, *notes)), state

    def _held_out_torques(self, state: State, on_progress: Progress | None) -> State:
        """Torque rows of the held-out data, whatever the model."""
        as_torque = replace(state, equation=state.equation.as_torque_equation())
        held_out = collect_logs_like(as_torque, self.others, on_progress=on_progress)
        known = () if self.is_share else drop_logs_in_state(held_out, state)[1]
        if known:
            raise IdentificationError(
                known[0].code, "{known}", "give other logs, or a share to hold out ({validate})", known=known[0],
                validate=Option("validate", SHARE), **known[0].facts,
            )  # fmt: skip
        return held_out

    def _score_torques(self, state: State, result: Identification, held_out: State) -> Score:
        """Errors of the torques on the held-out data, with friction as the run has it."""
        equation = state.equation.as_torque_equation()
        per_log = self.options.friction_blocks_per_log(equation.friction)
        unknowns = Unknowns.for_equation(equation, equation.friction, len(self.used), per_log=per_log)
        values = dict(zip(result.names, result.values, strict=True))
        return score(
            unknowns, np.array([values.get(name, 0.0) for name in unknowns.names]), total_factors(held_out.blocks),
            held_out.settling, cutoff=state.cutoff, source=self.source, fitted=self.is_share,
            kinds=equation.channel_kinds,
        )  # fmt: skip


def _share_of_progress(on_progress: Progress | None, name: str, k: int, count: int) -> Progress | None:
    """Progress callback of one run as its part of the progress of all."""
    if on_progress is None:
        return None
    on_progress(name, k / count)
    return lambda text, done: on_progress(f"{name}: {text}", (k + done) / count)
