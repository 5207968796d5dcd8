"""The result: parameters with honest deviations, how well they predict, and whether to trust them."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, overload

import numpy as np

from dynid.concurrency import cached_property
from dynid.deprecated import accept_old_names
from dynid.dynamics.friction import rest_detection_half_window
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.diagnostics.hypotheses import UNDECIDED, UNTRIED, Diagnosis, TriedData, find_mistakes
from dynid.estimation.diagnostics.residuals import ChannelCheck, Delay, JointError, ReplaySamples
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.diagnostics.verdict import JointVerdict, Verdict
from dynid.estimation.inference.between_logs import Agreement
from dynid.estimation.inference.cross_validation import Trial
from dynid.estimation.inference.jackknife import torque_covariance
from dynid.estimation.inference.score import Band, Score, slow_shares
from dynid.estimation.records import (
    StoredEquation,
    check_identification,
    identification_from_file_layout,
    identification_to_file_layout,
)
from dynid.estimation.regression.rows import LEAD
from dynid.logs.log import Log
from dynid.messages import Message, Option, html_summary, printable
from dynid.robot.motion import Motion, check_motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.files import InputFile, hash_file, write_text
from dynid.storage.records import ROW, Form, NotStored, Null, json_text, polars_frame, read_record, to_plain_data

# Where a result came from: what somebody needs who wants to make it again.


PACKAGES = ("dynid", "numpy", "scipy", "numba", "pin")


@dataclass(frozen=True, slots=True)
class Origin:
    """The command (empty from Python), the logs' files, the versions of the software; a robot knows its own files."""

    command: str = ""
    inputs: tuple[InputFile, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()


UNKNOWN_ORIGIN = Origin()


def find_origin(logs: Iterable[Log], command: str = "", files: Iterable[Path] = ()) -> Origin:
    """Origin of a result: hashes of files and of those behind logs, each once, and versions of the software.

    Hashes stand for the samples that are read before and after: a file that changes on the way is an error.
    """
    logs = tuple(logs)
    once = {file.resolve(): file for file in (*files, *(file for log in logs for file in log_files(log)))}
    inputs = tuple(hash_file(file) for file in once.values())
    for log in logs:
        log.check_unchanged()
    return Origin(command, inputs, _software_versions())


def log_files(log: Log) -> list[Path]:
    """Files that a log is read from, or those in the folder of a bag; none where it is in memory."""
    source = getattr(log.source, "whole", log.source)
    found: list[Path] = []
    for path in getattr(source, "paths", ()):
        found += sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return [path for path in found if path.is_file()]


@cache
def _software_versions() -> tuple[tuple[str, str], ...]:
    """Versions of Python, of the packages that decide the figures, and of the system."""
    found = [("Python", platform.python_version())]
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found.append((package, version(package)))
    return (*found, ("system", f"{platform.system()} {platform.machine()}"))


CHUNK = 8192
NORMAL = 1.959963984540054
"""Half width of a normal 95 % interval in deviations."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Perturbation bounds of least squares (Gautier & Khalil 1992, eq. 12-13, in Lawson and Hanson's form).

    of_measurement: bound on |dX| / |X| by the residual, cond * |residual| / |W X|; per_matrix_error: factor from a
    relative error |dW| / |W| to |dX| / |X|, cond + cond^2 |residual| / |W X|.
    """

    of_measurement: Annotated[float, Null(np.nan)]
    per_matrix_error: Annotated[float, Null(np.nan)]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Parameters `names` with their `values` and standard deviations `sigma`, and what they were solved from.

    sigma and covariance come from the delete-block jackknife with `groups` blocks, so that values +- quantile *
    sigma are 95 % intervals (`intervals`); white_sigma is the textbook deviation, too small on coloured residuals.
    With several logs both hold how each parameter scatters between them as well; sigma^2 is the covariance's diagonal.
    systematic (sources, parameters): the shares of sigma that all logs have in common. rank and condition are those of
    the weighted matrix that was solved (friction included); base_rank counts the inertial parameters. noise: standard
    deviation of each channel's rows. fit: errors on the data used. friction: names of the blocks; essential: parameters
    that the data need, with their values if the others are zero. factors: one triangular factor per log and channel on
    the columns `names`. calibration: what residuals add to the band of torques; band_factor (channels,): by which files
    of earlier versions scale it.
    log_growth (parameters,): of sigma by the scatter between logs, None with one log. scores (parameters, parameters):
    covariance of W'e / noise^2 for residuals e as coloured as found, None where that is not known.
    """

    equation: StoredEquation
    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: FiniteArray
    sigma: Array
    white_sigma: Array
    covariance: FiniteArray
    systematic: FiniteArray
    quantile: float
    groups: int
    rank: int
    base_rank: int
    condition: Annotated[float, Null(np.inf)]
    base_condition: Annotated[float, Null(np.inf)]
    bounds: Annotated[Bounds, ROW]
    noise: Array
    fit: Score
    friction: tuple[str, ...]
    essential: tuple[Parameter, ...]
    essential_values: Array
    factors: tuple[tuple[ChannelFactor, ...], ...]
    band_factor: Array | None = None
    calibration: Band | None = None
    log_growth: Array | None = None
    scores: FiniteArray | None = None

    @property
    def relative_sigma(self) -> Array:
        """Sigma over |value|."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.sigma / np.abs(self.values))

    @property
    def intervals(self) -> Array:
        """95 % intervals, (parameters, 2)."""
        half = self.quantile * self.sigma
        return np.column_stack([self.values - half, self.values + half])

    @property
    def correlation(self) -> Array:
        """Correlation matrix of the parameters."""
        sigma = np.sqrt(np.diag(self.covariance))
        scale = np.where(sigma > 0.0, sigma, 1.0)
        return np.asarray(self.covariance / np.outer(scale, scale))


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """What the residuals and the logs say of the estimate: how far to trust it, and what must be read.

    unidentifiable: parameters that the data do not determine. trials: friction blocks that were tried. checks: of the
    residual, per channel. found_delay: of the torques behind the positions. findings: sentences per log. torques:
    errors of the joint torques on validation data, where the model is about something else and the logs have torques.
    diagnosis: other readings of the logs that were tried; None where there was nothing to try them on.
    joint_verdicts: how far to trust each joint, by its error and its channels.
    joint_errors: in motion and at rest, beside trivial models.
    agreement: whether several logs are of the same robot.
    replay: samples on which exported files are judged.
    """

    verdict: Annotated[Verdict, Form(row=True, optional=("unproven",))]
    warnings: tuple[Message, ...]
    notes: tuple[Message, ...]
    unidentifiable: tuple[Annotated[Unidentifiable, ROW], ...]
    trials: tuple[Annotated[Trial, ROW], ...]
    checks: tuple[Annotated[ChannelCheck, Form(row=True, optional=("autoregression",))], ...]
    findings: tuple[tuple[str, tuple[Message, ...]], ...]
    found_delay: Annotated[Delay, ROW] | None
    torques: Score | None = None
    diagnosis: Annotated[Diagnosis, Form(row=True, optional=("is_partial",))] | None = None
    joint_verdicts: dict[str, Annotated[JointVerdict, ROW]] = field(default_factory=dict)
    joint_errors: tuple[Annotated[JointError, ROW], ...] = ()
    agreement: Annotated[Agreement, ROW] | None = None
    replay: ReplaySamples | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """What the result was made with: model, estimator, cut-off in Hz with its reason, delay in s, version of dynid.

    origin: the command, hashed logs and versions of the software behind it.
    """

    model: str
    estimator: str
    cutoff: float | None
    cutoff_reason: str
    delay: float
    version: str
    origin: Origin = UNKNOWN_ORIGIN


P = TypeVar("P")
T = TypeVar("T")


class FlatField(Generic[P, T]):
    """Flat name of a part's field: `values = FlatField(Estimate, lambda x: x.values)` gives `self.estimate.values`."""

    def __init__(self, part: type[P], get: Callable[[P], T]) -> None:
        self.part, self.get = part.__name__.lower(), get

    def __set_name__(self, owner: type, name: str) -> None:
        self.__doc__ = f"The same as `{self.part}.{name}`."

    @overload
    def __get__(self, result: None, owner: type) -> FlatField[P, T]: ...
    @overload
    def __get__(self, result: object, owner: type) -> T: ...
    def __get__(self, result: object | None, owner: type) -> T | FlatField[P, T]:
        return self if result is None else self.get(getattr(result, self.part))


PARTS = ("estimate", "diagnostics", "provenance")


@accept_old_names
@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """Result of `identify`: `values` of the parameters `names`, with standard deviations `sigma`.

    The fields of `estimate`, `diagnostics` and `provenance`, described there, are attributes of the result as well:
    `result.names`, `result.sigma`, `result.verdict`, `result.warnings`.

    Attributes
    ----------
    estimate : Estimate
        Parameters, standard deviations, covariance, and what they were solved from.
    validation : Score
        Errors on data other than those used.
    diagnostics : Diagnostics
        Verdict, warnings, notes, unidentifiable parameters, checks of the residuals.
    provenance : Provenance
        Model, estimator, cut-off frequency (Hz), delay (s), files and versions.
    tried : TriedData or None
        Downsampled data for `diagnose`; not written to files.
    """

    estimate: Estimate
    validation: Score
    diagnostics: Diagnostics
    provenance: Provenance
    tried: Annotated[TriedData | None, NotStored()] = None

    equation = FlatField(Estimate, lambda x: x.equation)
    names = FlatField(Estimate, lambda x: x.names)
    units = FlatField(Estimate, lambda x: x.units)
    values = FlatField(Estimate, lambda x: x.values)
    sigma = FlatField(Estimate, lambda x: x.sigma)
    white_sigma = FlatField(Estimate, lambda x: x.white_sigma)
    covariance = FlatField(Estimate, lambda x: x.covariance)
    systematic = FlatField(Estimate, lambda x: x.systematic)
    quantile = FlatField(Estimate, lambda x: x.quantile)
    groups = FlatField(Estimate, lambda x: x.groups)
    rank = FlatField(Estimate, lambda x: x.rank)
    base_rank = FlatField(Estimate, lambda x: x.base_rank)
    condition = FlatField(Estimate, lambda x: x.condition)
    base_condition = FlatField(Estimate, lambda x: x.base_condition)
    bounds = FlatField(Estimate, lambda x: x.bounds)
    noise = FlatField(Estimate, lambda x: x.noise)
    fit = FlatField(Estimate, lambda x: x.fit)
    friction = FlatField(Estimate, lambda x: x.friction)
    essential = FlatField(Estimate, lambda x: x.essential)
    essential_values = FlatField(Estimate, lambda x: x.essential_values)
    factors = FlatField(Estimate, lambda x: x.factors)
    band_factor = FlatField(Estimate, lambda x: x.band_factor)
    calibration = FlatField(Estimate, lambda x: x.calibration)
    log_growth = FlatField(Estimate, lambda x: x.log_growth)
    scores = FlatField(Estimate, lambda x: x.scores)
    relative_sigma = FlatField(Estimate, lambda x: x.relative_sigma)
    intervals = FlatField(Estimate, lambda x: x.intervals)
    correlation = FlatField(Estimate, lambda x: x.correlation)
    verdict = FlatField(Diagnostics, lambda x: x.verdict)
    warnings = FlatField(Diagnostics, lambda x: x.warnings)
    notes = FlatField(Diagnostics, lambda x: x.notes)
    unidentifiable = FlatField(Diagnostics, lambda x: x.unidentifiable)
    trials = FlatField(Diagnostics, lambda x: x.trials)
    checks = FlatField(Diagnostics, lambda x: x.checks)
    findings = FlatField(Diagnostics, lambda x: x.findings)
    found_delay = FlatField(Diagnostics, lambda x: x.found_delay)
    torques = FlatField(Diagnostics, lambda x: x.torques)
    diagnosis = FlatField(Diagnostics, lambda x: x.diagnosis)
    joint_verdicts = FlatField(Diagnostics, lambda x: x.joint_verdicts)
    joint_errors = FlatField(Diagnostics, lambda x: x.joint_errors)
    agreement = FlatField(Diagnostics, lambda x: x.agreement)
    replay = FlatField(Diagnostics, lambda x: x.replay)
    model = FlatField(Provenance, lambda x: x.model)
    estimator = FlatField(Provenance, lambda x: x.estimator)
    cutoff = FlatField(Provenance, lambda x: x.cutoff)
    cutoff_reason = FlatField(Provenance, lambda x: x.cutoff_reason)
    delay = FlatField(Provenance, lambda x: x.delay)
    version = FlatField(Provenance, lambda x: x.version)
    origin = FlatField(Provenance, lambda x: x.origin)

    def __repr__(self) -> str:
        name = printable(self.robot.name)
        return (
            f"<Identification of '{name}' ({self.model}, {self.estimator}): {len(self.names)} parameters, "
            f"validation NRMSE {self.validation.mean:.4f}, {self.verdict.level}>"
        )

    def _repr_html_(self) -> str:
        """Verdict, errors and parameters, for notebooks."""
        facts = {
            "identification": f"{self.robot.name}, {self.model} model by {self.estimator}",
            "verdict": str(self.verdict), "next": str(self.verdict.next_step),
            "validation NRMSE": f"{self.validation.mean:.4f} ({self.validation.source})",
            "parameters": f"{len(self.names)}, {len(self.unidentifiable)} more cannot be identified from these logs",
            "friction": ", ".join(self.friction), "warnings": len(self.warnings) or "",
        }  # fmt: skip
        half = self.quantile * self.sigma
        rows = [
            (n, f"{x:.5g}", f"{h:.2g}", u) for n, x, h, u in zip(self.names, self.values, half, self.units, strict=True)
        ]
        return html_summary(facts, ["parameter", "value", "95 % half width", "unit"], rows)

    def table(self) -> Any:
        """Parameters with their confidence intervals.

        Returns
        -------
        polars.DataFrame
            parameter, value, sigma, low and high end of the 95 % interval, unit, and whether the data need it.

        """
        needed = set(self.essential)
        return polars_frame({
            "parameter": self.names, "value": self.values, "sigma": self.sigma, "low": self.intervals[:, 0],
            "high": self.intervals[:, 1], "unit": self.units, "essential": [name in needed for name in self.names],
        })  # fmt: skip

    def plot(self, logs: Any = (), *, validate: Any = ()) -> Any:
        """Figures of the report, one by one.

        Parameters
        ----------
        logs : Log, path or sequence of them, optional
            Logs that the result was made from, for curves of measured and predicted torques.
        validate : Log, path or sequence of them, optional
            Other logs, to predict.

        Returns
        -------
        dict of str to plotly.graph_objects.Figure
            By section of the report ("correlation", "friction: joint 1 ..."); needs the package plotly.

        """
        return import_module("dynid.report.write").result_figures(self, logs, validate)

    @property
    def robot(self) -> Robot:
        """The robot in question."""
        return self.equation.robot

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the measured channels: joints whose torques or momenta were used, or that of power or energy."""
        return self.equation.channel_names

    @cached_property
    def joined(self) -> dict[Parameter, dict[Parameter, float]]:
        """Parameters of `names` with which each unidentifiable one forms sums, with their factors."""
        direct = {item.name: dict(item.shares or ()) for item in self.unidentifiable}

        def shares_in_identified(name: Parameter) -> dict[Parameter, float]:
            """Factors of the identified parameters, through other unidentifiable ones."""
            total: dict[Parameter, float] = {}
            for other, share in direct[name].items():
                for last, more in (shares_in_identified(other) if other in direct else {other: 1.0}).items():
                    total[last] = total.get(last, 0.0) + share * more
            return total

        return {name: shares_in_identified(name) for name in direct}

    @property
    def joints(self) -> tuple[str, ...]:
        """Joints whose torques were used."""
        return tuple(self.robot.joint_names[channel.joint] for channel in self.equation.torque_channels)

    @property
    def rmse(self) -> Array:
        """RMSE per channel on the data used for fitting."""
        return self.fit.rmse

    @property
    def nrmse(self) -> Array:
        """NRMSE per channel on the data used for fitting."""
        return self.fit.nrmse

    @cached_property
    def column_values(self) -> Array:
        """Values of the equation's columns: 0 for unidentifiable parameters, the mean for offsets of several logs."""
        return self._columns_from_parameters @ self.values

    @cached_property
    def _columns_from_parameters(self) -> Array:
        """Matrix (columns, parameters) from the result to the equation's columns; parameters per log are averaged."""
        place = {name: k for k, name in enumerate(self.equation.names)}
        matrix = np.zeros((len(self.equation.names), len(self.names)))
        for k, name in enumerate(self.names):
            matrix[place[name.of_all_logs], k] = 1.0
        several = matrix.sum(axis=1) > 1.0
        several |= matrix @ np.array([name.log is not None for name in self.names], dtype=np.float64) > 0.0
        return np.asarray(matrix / np.where(several, len(self.factors), 1.0)[:, None])

    @one_blas_thread
    def predict(self, motion: Motion) -> Array:
        """Predict the measured channels along a motion.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.

        Returns
        -------
        (N, n) array
            Torques with friction, whose memory starts with the motion, N m or N; NaN for joints whose torque was not
            used. For a result from forces on the base alone, these forces (N, channels).

        Raises
        ------
        MotionError
            If the motion does not fit the robot.
        """
        return self._predict_along(motion)[0] if self.equation.options.has_torques else self.predict_reactions(motion)

    def predict_reactions(self, motion: Motion) -> Array:
        """Predict the readings of the force plate along a motion; offsets of several logs are averaged.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.

        Returns
        -------
        (N, channels) array
            Readings, N and N m.

        Raises
        ------
        IdentificationError
            If the result does not know the forces on the base.
        """
        check_motion(self.robot, motion)
        equation = self.equation
        if not equation.base_channels:
            raise IdentificationError(
                "model_without_base_forces", "model '{model}' has no forces on the base", model=self.model,
            )  # fmt: skip
        forces = np.zeros((len(motion), len(equation.base_channels)))
        for start in range(0, len(motion), CHUNK):
            part = slice(start, min(start + CHUNK, len(motion)))
            rows = equation.rigid_rows(motion[part])
            for c, channel in enumerate(equation.base_channels):
                forces[part, c] = channel.rows_in_wide(rows)[:, :-1] @ self.column_values[channel.columns]
            forces[part] += equation.known_reactions(motion[part])
        return forces

    def band(self, motion: Motion) -> Array:
        """Half width of the 95 % prediction band of measured torques: uncertain parameters and noise together.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.

        Returns
        -------
        (N, n) array
            Half width, N m or N.

        Notes
        -----
        The noise is a quantile of the residual; where a joint is slow, its dry friction is added, as large as while
        sliding. Far from the motion of the logs uncertain parameters widen the band. Models other than torque do not
        know the noise of single torques: theirs is the band of the parameters alone.
        """
        return self._predict_along(motion, band=True)[1]

    def _predict_along(self, motion: Motion, band: bool = False) -> tuple[Array, Array]:
        """Predicted channels (N, n) along a motion and, with `band`, the half width of their 95 % band."""
        check_motion(self.robot, motion)
        equation = self.equation
        N, n = motion.q.shape
        torque, width = np.full((N, n), np.nan), np.full((N, n), np.nan)
        step = float(np.median(np.diff(motion.t))) if N > 1 else 1.0
        positions = equation.to_motor_side(motion.q)
        state = equation.shapes.initial_stop_states(positions, int(LEAD / step))
        beside = 2 + (rest_detection_half_window(motion.t) if N > 1 else 0)
        average = self._columns_from_parameters
        known = torque_covariance(self.covariance, self.systematic, self.log_growth)
        covariance = average @ known @ average.T if band else np.zeros((0, 0))
        for start in range(0, N, CHUNK):
            first, stop = max(0, start - beside), min(N, start + CHUNK)  # `lag` and rest look at neighbours
            stops = equation.shapes.stop_values_along(positions[first : stop + beside], state)
            state = stops[max(0, stop - beside) - first]
            wide = equation.write_torque_rows(motion[first : stop + beside], stops, None)[start - first : stop - first]
            for c, channel in enumerate(equation.torque_channels):
                rows, known = channel.rows_in_wide(wide)[:, :-1], channel.rows_in_wide(wide)[:, -1]
                inside = slice(start, start + len(rows))
                torque[inside, channel.joint] = rows @ self.column_values[channel.columns] - known
                if band:
                    own = covariance[np.ix_(channel.columns, channel.columns)]
                    variance = np.einsum("Ni,ij,Nj->N", rows, own, rows, optimize=True)
                    by_parameters = self.quantile * np.sqrt(np.maximum(variance, 0.0))
                    if self.calibration is not None:
                        slow = slow_shares(equation, motion.v[inside])[:, c]
                        width[inside, channel.joint] = self.calibration.widths(by_parameters, slow, c)
                        continue
                    noise = NORMAL * self.noise[c] if self.model == "torque" else 0.0
                    factor = 1.0 if self.band_factor is None else self.band_factor[c]
                    width[inside, channel.joint] = factor * np.hypot(by_parameters, noise)
        return torque, width

    def value(self, name: str) -> float:
        """Value of one parameter.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        float
            Value in SI units.

        Raises
        ------
        IdentificationError
            If there is no parameter of this name.
        """
        if name not in self.names:
            raise IdentificationError("unknown_parameter", "there is no parameter '{name}' in this result", name=name)
        return float(self.values[self.names.index(name)])

    def replace(self, **changes: Any) -> Identification:
        """Return the same result with other fields, by their flat names: `result.replace(notes=())`.

        Parameters
        ----------
        **changes : Any
            New values by name of the field.

        Returns
        -------
        Identification
            The changed result.
        """
        for part in PARTS:
            own = {item.name: changes.pop(item.name) for item in fields(getattr(self, part)) if item.name in changes}
            changes |= {part: replace(getattr(self, part), **own)} if own else {}
        return replace(self, **changes)

    def with_diagnosis(self, diagnosis: Diagnosis) -> Identification:
        """Return the same result after `diagnose`: a mistake that it names is the first reason of the verdict.

        Parameters
        ----------
        diagnosis : Diagnosis
            What `diagnose` found.

        Returns
        -------
        Identification
            The result with this diagnosis.
        """
        unproven = [said for said in self.verdict.unproven if said.code not in (UNTRIED, UNDECIDED)]
        tried = replace(self.verdict, unproven=(*unproven, *diagnosis.unproven))
        if diagnosis.best is None:
            return self.replace(diagnosis=diagnosis, verdict=tried.without_mistakes())
        verdict = tried.with_mistake(diagnosis.best)
        named = verdict.reasons[0]
        warnings = (named, *(other for other in self.warnings if other.code != named.code))
        return self.replace(diagnosis=diagnosis, verdict=verdict, warnings=warnings)

    def save(self, path: str | Path) -> None:
        """Write the result as versioned JSON; `Identification.load` restores it exactly.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        write_text(Path(path), json_text(to_plain_data(StoredIdentification, self)))

    @staticmethod
    def load(path: str | Path) -> Identification:
        """Read a result that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Identification
            The result.

        Raises
        ------
        DynidError
            If the file is not such a result.
        """
        remedy = "`dynid identify` writes one with --out result.json"
        result: Identification = read_record(StoredIdentification, Path(path), remedy, IdentificationError)
        return result


StoredIdentification = Annotated[
    Identification,
    Form(
        ("dynid identification", 1),
        flat=PARTS,
        drop=("tried",),
        names=(("unidentifiable", "lost"),),
        read=identification_from_file_layout,
        write=identification_to_file_layout,
        check=check_identification,
    ),
]


@one_blas_thread
def diagnose(result: Identification, *, on_progress: Callable[[str, float], None] | None = None) -> Diagnosis:
    """Try other readings of the logs of a result: signs, order, gravity, zeros, units, gears, gains, delays, payloads.

    Each is refitted to downsampled data within physical limits, and judged on held-out stretches of time; several
    mistakes at once are found one after the other. Every identification does a fast part of this by itself
    (`result.diagnosis`).

    Parameters
    ----------
    result : Identification
        As `identify` returned it; a file does not hold the samples.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.

    Returns
    -------
    Diagnosis
        The alternatives with their errors and the options that apply them; `.best` is the mistake, None if none was
        found.

    Raises
    ------
    IdentificationError
        If the result holds no samples.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, diagnose, identify, load_robot, simulate
    >>> robot = load_robot("one_link")
    >>> t = np.arange(0.0, 10.0, 0.01)
    >>> x = t[:, None]
    >>> log = simulate(robot, Motion(t, np.sin(x), np.cos(x), -np.sin(x)), noise=0.01)
    >>> print(diagnose(identify(robot, log, friction=("viscous",))).best)
    None
    """
    if result.tried is None:
        raise IdentificationError(
            "no_samples_to_diagnose", "this result holds no samples of its logs, too few, or none of joint torques",
            "identify again from logs of 5 s or more and diagnose that result ({option})",
            option=Option("diagnose", True),
        )  # fmt: skip
    found = find_mistakes(result.tried, thorough=True, on_progress=on_progress)
    if not np.isfinite(found.error):
        raise IdentificationError(
            "samples_do_not_close", "downsampled data are too sparse for this robot's loops: nothing can be tried",
            "check signs, order and zeros by hand",
        )  # fmt: skip
    return found
