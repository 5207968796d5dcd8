"""The result: parameters with honest deviations, how well they predict, and whether to trust them."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.diagnostics.residuals import ChannelCheck, Delay
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.estimation.inference.score import Score
from dynid.estimation.inference.selection import Trial
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import LEAD
from dynid.logs.log import ArraySource, Log
from dynid.robot.motion import Motion, check_motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import InputFile, hash_file
from dynid.version import keeps_old_names

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
    """Hash files and those behind logs, each once, and ask for the versions.

    Hashes stand for the samples that are read before and after: a file that changes on the way is an error.
    """
    logs = tuple(logs)
    once = {file.resolve(): file for file in (*files, *(file for log in logs for file in files_of(log)))}
    inputs = tuple(hash_file(file) for file in once.values())
    for log in logs:
        log.check_unchanged()
    return Origin(command, inputs, _versions())


def files_of(log: Log) -> list[Path]:
    """The file that a log is read from, or those in the folder of a bag; nothing where it is in memory."""
    source = getattr(log.source, "whole", log.source)
    if isinstance(source, ArraySource):
        return []
    path = Path(source.name)
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    return [path] if path.is_file() else []


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Of Python, the packages that decide the figures, and the system; reading them takes longer than a small log."""
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

    of_measurement: float
    per_matrix_error: float


@keeps_old_names
@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """What was identified: `values` of the parameters `names`, with standard deviations `sigma`.

    sigma and covariance come from the delete-block jackknife with `groups` blocks, so that values +- quantile *
    sigma are 95 % intervals (`intervals`); white_sigma is the textbook deviation, too small on coloured residuals.
    rank and condition are those of the weighted matrix that was solved (friction included); base_rank counts the
    inertial parameters. rmse and nrmse per channel are on the data used, `validation` on others. noise: standard
    deviation of each channel's rows. systematic (channels of the base, parameters): the share of sigma that uncertain
    sensitivities of a force plate have, common to all its logs. factors: one triangular factor per log and channel on
    the columns `names`. origin: the command, hashed logs and versions behind it. torques: errors of the joint torques
    on validation data, where the model is about something else and the logs have torques.
    """

    equation: Equation
    model: str
    estimator: str
    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: Array
    sigma: Array
    white_sigma: Array
    covariance: Array
    systematic: Array
    quantile: float
    groups: int
    rank: int
    base_rank: int
    condition: float
    base_condition: float
    bounds: Bounds
    noise: Array
    fit: Score
    validation: Score
    cutoff: float | None
    cutoff_reason: str
    delay: float
    found_delay: Delay | None
    friction: tuple[str, ...]
    trials: tuple[Trial, ...]
    essential: tuple[Parameter, ...]
    essential_values: Array
    unidentifiable: tuple[Unidentifiable, ...]
    checks: tuple[ChannelCheck, ...]
    findings: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...]
    verdict: Verdict
    warnings: tuple[str, ...]
    factors: tuple[tuple[ChannelFactor, ...], ...]
    version: str
    origin: Origin = UNKNOWN_ORIGIN
    torques: Score | None = None

    def __repr__(self) -> str:
        return (
            f"<Identification of '{self.robot.name}' ({self.model}, {self.estimator}): {len(self.names)} parameters, "
            f"validation NRMSE {self.validation.mean:.4f}, {self.verdict.level}>"
        )

    @property
    def robot(self) -> Robot:
        """The robot in question."""
        return self.equation.robot

    @property
    def channels(self) -> tuple[str, ...]:
        """What was measured: joints whose torques or momenta were used, or the one of power or energy."""
        return self.equation.channel_names

    @cached_property
    def joined(self) -> dict[Parameter, dict[Parameter, float]]:
        """Of every unidentifiable parameter: those of `names` with which it forms sums, each with its factor."""
        direct = {item.name: dict(item.shares) for item in self.unidentifiable}

        def resolved(name: Parameter) -> dict[Parameter, float]:
            total: dict[Parameter, float] = {}
            for other, share in direct[name].items():
                for last, more in (resolved(other) if other in direct else {other: 1.0}).items():
                    total[last] = total.get(last, 0.0) + share * more
            return total

        return {name: resolved(name) for name in direct}

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
        scale = np.where(self.sigma > 0.0, self.sigma, 1.0)
        return np.asarray(self.covariance / np.outer(scale, scale))

    @cached_property
    def column_values(self) -> Array:
        """Values of the equation's columns: 0 for unidentifiable parameters, the mean for offsets of several logs."""
        return self._averaging @ self.values

    @cached_property
    def _averaging(self) -> Array:
        place = {name: k for k, name in enumerate(self.equation.names)}
        matrix = np.zeros((len(self.equation.names), len(self.names)))
        for k, name in enumerate(self.names):
            matrix[place[name.of_all_logs], k] = 1.0
        several = matrix.sum(axis=1) > 1.0
        several |= matrix @ np.array([name.log is not None for name in self.names], dtype=np.float64) > 0.0
        return np.asarray(matrix / np.where(several, len(self.factors), 1.0)[:, None])

    @one_blas_thread
    def predict(self, motion: Motion) -> Array:
        """What was measured along a motion: torques (N, n) with friction, whose memory begins with the motion.

        Joints whose torque was not used are NaN. Of a result from forces on the base alone, these forces (N, channels).
        """
        return self._along(motion)[0] if self.equation.measure.has_torques else self.predict_reactions(motion)

    def predict_reactions(self, motion: Motion) -> Array:
        """Readings (N, channels) of the force plate along a motion, offsets of several logs averaged."""
        check_motion(self.robot, motion)
        equation = self.equation
        if not equation.base_channels:
            raise IdentificationError(f"model '{self.model}' knows no forces on the base")
        forces = np.zeros((len(motion), len(equation.base_channels)))
        for start in range(0, len(motion), CHUNK):
            part = slice(start, min(start + CHUNK, len(motion)))
            rows = equation.rigid_rows(motion[part])
            for c, channel in enumerate(equation.base_channels):
                forces[part, c] = channel.row(rows)[:, :-1] @ self.column_values[channel.columns]
            forces[part] += equation.known_reactions(motion[part])
        return forces

    def band(self, motion: Motion) -> Array:
        """Half width (N, n) of the 95 % band on measured torques: uncertain parameters and noise together.

        Models other than torque do not know the noise of single torques: theirs is the band of the parameters alone.
        """
        return self._along(motion, band=True)[1]

    def _along(self, motion: Motion, band: bool = False) -> tuple[Array, Array]:
        check_motion(self.robot, motion)
        equation = self.equation
        N, n = motion.q.shape
        torque, width = np.full((N, n), np.nan), np.full((N, n), np.nan)
        step = float(np.median(np.diff(motion.t))) if N > 1 else 1.0
        positions = equation.motor(motion.q)
        state = equation.shapes.settle(positions, int(LEAD / step))
        covariance = self._averaging @ self.covariance @ self._averaging.T if band else np.zeros((0, 0))
        for start in range(0, N, CHUNK):
            first, stop = max(0, start - 1), min(N, start + CHUNK)  # one sample more on each side, for `lag`
            stops = equation.shapes.run(positions[first : stop + 1], state)
            state = stops[stop - 1 - first]
            wide = equation.write(motion[first : stop + 1], stops, None)[start - first : stop - first]
            for c, channel in enumerate(equation.torque_channels):
                rows, known = channel.row(wide)[:, :-1], channel.row(wide)[:, -1]
                inside = slice(start, start + len(rows))
                torque[inside, channel.joint] = rows @ self.column_values[channel.columns] - known
                if band:
                    own = covariance[np.ix_(channel.columns, channel.columns)]
                    noise = NORMAL * self.noise[c] if self.model == "torque" else 0.0
                    variance = np.einsum("Ni,ij,Nj->N", rows, own, rows, optimize=True)
                    width[inside, channel.joint] = np.hypot(self.quantile * np.sqrt(variance), noise)
        return torque, width

    def value(self, name: str) -> float:
        """Value of one parameter."""
        if name not in self.names:
            raise IdentificationError(f"there is no parameter '{name}' in this result")
        return float(self.values[self.names.index(name)])

    def save(self, path: str | Path) -> None:
        """Write the result as versioned JSON; `Identification.load` gives it back exactly."""
        from dynid.estimation.result_file import write_identification

        write_identification(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Identification:
        """Read a result that `save` wrote."""
        from dynid.estimation.result_file import read_identification

        return read_identification(Path(path))
