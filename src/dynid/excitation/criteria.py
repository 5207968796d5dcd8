"""The matrix W that an identification would solve, and how well it reveals its columns.

W holds a model's base columns along a motion, with their adjoint. The criteria have exact gradients (Gautier & Khalil
1992, eq. 14-19, 21, 22). Each has a true value, which is reported, and a smooth stand-in with a sharpness p, which is
minimised while p grows (a homotopy): largest and smallest singular values become Schatten p-norms, largest and
smallest entries p-norms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dynid.dynamics.friction import HARMONICS, PLAIN, find_friction_block, friction_columns, friction_rows
from dynid.dynamics.regressor import find_model
from dynid.dynamics.scene import Scene, Stage, standard_columns
from dynid.errors import FIX_THE_BASE, ExcitationError
from dynid.excitation.shape import middle_and_half_range
from dynid.identifiability.base_parameters import base_parameters, cached_base_parameters
from dynid.identifiability.numeric import move_into_assembly_mode, random_samples
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

MODELS = ("torque", "energy", "momentum", "reaction")
COLLINEAR = 1e-9
"""Share of a friction column at random samples that is left beside the columns before it, where that counts as none."""


@dataclass(frozen=True, slots=True, eq=False)
class BaseRows:
    """W (rows, b) on the base columns of a model, with friction columns last where wanted.

    A declared force sensor whose offsets are not known adds a column per channel, as in the identification.

    kept: columns of the standard regressor; names of all b columns; support (channels, b): entries that are not
    structurally zero. rounding (n,): velocities over which sign(v) of Coulomb friction is rounded to tanh, for searches
    that need gradients; None leaves it sharp. free (b,): columns among the base and all friction columns, where some of
    these are left out because they are collinear with others (the offset of a vertical prismatic joint); None: all.
    """

    robot: Robot
    model: str
    stage: Stage
    kept: NDArray[np.int64]
    friction: tuple[str, ...]
    names: tuple[Parameter, ...]
    support: NDArray[np.bool_]
    rounding: Array | None = None
    free: NDArray[np.int64] | None = None

    @staticmethod
    def for_robot(
        robot: Robot, *, model: str, rotor_inertia: bool, friction: tuple[str, ...], seed: int = 0
    ) -> BaseRows:
        """Find the base columns of a robot and which of their entries can be nonzero."""
        if model not in MODELS:
            raise ExcitationError(
                "model_not_for_excitation", "excitation is designed for {models}, not for '{model}'",
                models=list(MODELS), model=model,
            )  # fmt: skip
        if friction and model != "torque":
            raise ExcitationError("columns_need_torque_model", "friction and offset columns belong to the torque model")
        if robot.floating:
            raise ExcitationError(
                "floating_base", "'{robot}' floats; a motion of its joints alone is designed on a fixed base",
                "{fixed_base}", robot=robot.name, fixed_base=FIX_THE_BASE,
            )  # fmt: skip
        tared = model == "reaction" and robot.sensor is not None and robot.sensor.is_tared
        base = base_parameters(robot, model=model, rotor_inertia=rotor_inertia, tared=tared)
        stage = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=rotor_inertia))
        names = (*base.names, *(column.name for column in friction_columns(robot, friction)))
        if robot.sensor is not None and tared:
            names = (*names, *robot.sensor.offset_parameters)
        rows = BaseRows(robot, model, stage, np.array(base.kept), friction, names, np.zeros((0, 0), dtype=np.bool_))
        if friction:
            rows = rows._without_collinear_friction(seed)
        return replace(rows, support=rows._find_support(seed))

    @property
    def rows_per_sample(self) -> int:
        """Number of rows of a sample."""
        return len(find_model(self.model).channels(self.robot))

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters of all columns."""
        return tuple(name.unit for name in self.names)

    def base_matrix(self) -> Array:
        """Matrix (base, standard parameters) that regroups standard parameters into those of the base columns."""
        rotors = len(self.stage.columns) == len(self.robot.parameter_names)
        return cached_base_parameters(self.robot, model=self.model, rotor_inertia=rotors).matrix

    def rows_along(self, motion: Motion) -> RowsAlong:
        """The rows of one motion: closed loops are solved once for W and its adjoint."""
        return RowsAlong(self, motion, self.stage.scene_along(find_model(self.model).observed_motion(motion)))

    def matrix(self, motion: Motion) -> Array:
        """W (rows, b), sample by sample."""
        return self.rows_along(motion).matrix()

    def adjoint(self, motion: Motion, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * W) by q, v, a; the gradient of a sharp sign(v) counts as zero."""
        return self.rows_along(motion).adjoint(weights)

    def with_rounded_signs(self, widths: Array) -> BaseRows:
        """Return the rows with sign(v) rounded over velocities `widths` (n,), so that it has a gradient."""
        return replace(self, rounding=widths)

    def friction_column(self, block: str) -> int:
        """First column of a friction block that has one symbol."""
        before = self.friction[: self.friction.index(block)]
        return len(self.kept) + sum(len(find_friction_block(name).symbols) for name in before) * self.robot.n

    @property
    def full_width(self) -> int:
        """Number of base and friction columns, collinear ones included."""
        return len(self.kept) + len(friction_columns(self.robot, self.friction))

    def warm_up(self) -> None:
        """Run rows and adjoint once, so that they are compiled before a search counts its time or forks."""
        along = self.rows_along(self._random_motion(0))
        along.adjoint(np.ones_like(along.matrix()))

    def nonzero_entries(self, rows: int) -> NDArray[np.bool_]:
        """Entries of a matrix of so many rows that are not structurally zero."""
        return np.tile(self.support, (rows // self.rows_per_sample, 1))

    def _random_motion(self, seed: int) -> Motion:
        """Forty random samples inside the limits."""
        q, v, a = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, 40, self.robot.n))
        if self.robot.closures:
            q = random_samples(self.robot, 40, seed).q
        return Motion(np.arange(40.0), q, v, a)

    def _without_collinear_friction(self, seed: int) -> BaseRows:
        """Return the rows without friction columns that are combinations of columns before them."""
        W = self.matrix(self._random_motion(seed))
        R = np.linalg.qr(W / np.maximum(np.linalg.norm(W, axis=0), COLLINEAR), mode="r")
        rigid = np.arange(len(self.names)) < len(self.kept)
        free = np.flatnonzero(rigid | (np.abs(np.diag(R)) > COLLINEAR))
        if len(free) == len(self.names):
            return self
        return replace(self, free=free, names=tuple(self.names[k] for k in free))

    def _find_support(self, seed: int) -> NDArray[np.bool_]:
        """Entries (channels, b) that are not zero at random samples."""
        W = self.matrix(self._random_motion(seed))
        size = np.abs(W.reshape(-1, self.rows_per_sample, W.shape[1])).max(axis=0)
        return np.asarray(size > 1e-12 * size.max())


@dataclass(frozen=True, slots=True, eq=False)
class RowsAlong:
    """W along one motion and its adjoint, on the same scene."""

    rows: BaseRows
    motion: Motion
    scene: Scene

    def matrix(self) -> Array:
        """W (rows, b), sample by sample."""
        rows = self.rows
        W = find_model(rows.model).rows(self.scene)[:, :, rows.kept]
        if rows.friction:
            W = np.concatenate([W, friction_rows(self.motion, rows.friction)], axis=2)
        if rows.rounding is not None and "coulomb" in rows.friction:
            joints = np.arange(rows.robot.n)
            W[:, joints, rows.friction_column("coulomb") + joints] = np.tanh(self.motion.v / rows.rounding)
        if rows.free is not None:
            W = W[:, :, rows.free]
        offsets = len(rows.names) - W.shape[2]
        if offsets:
            W = np.concatenate([W, np.broadcast_to(np.eye(offsets), (len(W), offsets, offsets))], axis=2)
        return W.reshape(-1, W.shape[2])

    def adjoint(self, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * W) by q, v, a; the gradient of a sharp sign(v) counts as zero."""
        rows = self.rows
        parts = weights.reshape(-1, rows.rows_per_sample, weights.shape[1])
        if rows.free is not None:
            chosen, parts = parts, np.zeros((*parts.shape[:2], rows.full_width))
            parts[:, :, rows.free] = chosen
        full = np.zeros((*parts.shape[:2], len(rows.stage.columns)))
        full[:, :, rows.kept] = parts[:, :, : len(rows.kept)]
        gq, gv, ga = find_model(rows.model).adjoint(self.scene, full)
        joints = np.arange(rows.robot.n)
        if "viscous" in rows.friction:
            gv += parts[:, joints, rows.friction_column("viscous") + joints]
        if rows.rounding is not None and "coulomb" in rows.friction:
            slope = (1.0 - np.tanh(self.motion.v / rows.rounding) ** 2) / rows.rounding
            gv += slope * parts[:, joints, rows.friction_column("coulomb") + joints]
        for block in rows.friction:
            if block not in PLAIN:
                for k, (by_q, by_v) in enumerate(_friction_slopes(block, self.motion.q, self.motion.v)):
                    part = parts[:, joints, rows.friction_column(block) + k * rows.robot.n + joints]
                    gq, gv = gq + by_q * part, gv + by_v * part
        return gq, gv, ga


STEP = 1e-6
"""Of differences of friction columns, rad and rad/s."""


def _friction_slopes(block: str, q: Array, v: Array) -> list[tuple[Array, Array]]:
    """Slopes (N, n) by q and v of each column of a block, jumps of a sign left out; none of blocks with a memory."""
    if block in HARMONICS:
        k = HARMONICS[block]
        return [(k * np.cos(k * q), 0.0 * v), (-k * np.sin(k * q), 0.0 * v)]
    value = find_friction_block(block).value
    if value is None:
        return []
    ends = [value(q + STEP, v), value(q - STEP, v), value(q, v + STEP), value(q, v - STEP)]
    smooth = np.abs(v) > STEP
    return [
        ((after - before) / (2.0 * STEP), np.where(smooth, (faster - slower) / (2.0 * STEP), 0.0))
        for after, before, faster, slower in zip(*ends, strict=True)
    ]


NAMES = ("condition", "frobenius", "scaling", "condition+scaling", "a", "d", "e", "v")


class SmoothValue(NamedTuple):
    """A smooth value and its gradient by W, (rows, b); beside them the true figure, to the digits that W'W leaves."""

    value: float
    gradient: Array
    figure: float


class Criterion(Protocol):
    """Smaller is better; W (rows, b) holds the base columns, noise (rows,) the deviation of each row."""

    def value(self, W: Array) -> float:
        """Value of the criterion for a matrix W."""
        ...

    def smooth_value(self, W: Array, sharpness: float) -> SmoothValue:
        """Logarithm of a smooth approximation of the criterion, its gradient by W, and the true figure."""
        ...


def condition_number(W: Array) -> float:
    """2-norm condition number (Gautier & Khalil 1992, eq. 16)."""
    sigma = np.linalg.svd(W, compute_uv=False)
    return float(sigma[0] / sigma[-1]) if sigma[-1] > 0.0 else np.inf


def scaling_number(W: Array, mask: NDArray[np.bool_]) -> float:
    """S = max|Wij| / min|Wij| over entries not structurally zero, mask (rows, b) (Gautier & Khalil 1992, eq. 19)."""
    entries = np.abs(W[mask])
    smallest = float(entries.min())
    return float(entries.max()) / smallest if smallest > 0.0 else np.inf


@dataclass(frozen=True, slots=True, eq=False)
class SpectralCriterion:
    """A criterion of the eigenvalues of W'W: `true` of the singular values, `stand_in` its logarithm and gradient.

    stand_in(lam, p) gives the value and its derivative by each eigenvalue lam of W'W.
    """

    true: Callable[[Array], float]
    stand_in: Callable[[Array, float], tuple[float, Array]]
    noise: Array | None = None

    def value(self, W: Array) -> float:
        """Value of the criterion for a matrix W."""
        return self.true(np.asarray(np.linalg.svd(self._rows_over_noise(W), compute_uv=False), dtype=np.float64))

    def smooth_value(self, W: Array, sharpness: float) -> SmoothValue:
        """Smooth value and gradient through the eigenvectors of W'W: df/dW = 2 W V diag(f') V'."""
        A = self._rows_over_noise(W)
        lam, V = np.linalg.eigh(A.T @ A)
        lam = np.maximum(lam, lam[-1] * 1e-15)
        value, slope = self.stand_in(lam, sharpness)
        by_A = A @ ((V * (2.0 * slope)) @ V.T)
        figure = self.true(np.sqrt(lam[::-1]))
        return SmoothValue(value, by_A if self.noise is None else by_A / self.noise[:, None], figure)

    def _rows_over_noise(self, W: Array) -> Array:
        """Rows of W divided by their standard deviation."""
        return W if self.noise is None else W / self.noise[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class PredictionVariance:
    """Criterion v: tr(C M^-1) with M = W'W of rows over noise and C = G'G, the variance of the predictions G X.

    G (k, b) holds the rows of what is predicted, each times the root of its weight; criterion a in the metric of C.
    Directions that G does not see need not be seen by W: the pseudo-inverse of M takes its place there.
    """

    G: Array
    noise: Array | None = None

    def value(self, W: Array) -> float:
        """Value of the criterion for a matrix W; infinite where it leaves a direction that G sees undetermined."""
        A = W if self.noise is None else W / self.noise[:, None]
        _, sigma, Vt = np.linalg.svd(A, full_matrices=len(A) < A.shape[1])
        sigma = np.concatenate([sigma, np.zeros(len(Vt) - len(sigma))])
        seen = sigma > np.finfo(np.float64).eps * max(A.shape) * sigma[0]
        share = ((self.G @ Vt.T) ** 2).sum(axis=0)
        if (share[~seen] > NEGLIGIBLE * share.sum()).any():
            return np.inf
        return float((share[seen] / sigma[seen] ** 2).sum())

    def smooth_value(self, W: Array, sharpness: float) -> SmoothValue:
        """Logarithm of the criterion and its gradient: d tr(C M^-1) / dA = -2 A M^-1 C M^-1."""
        A = W if self.noise is None else W / self.noise[:, None]
        B = self._times_inverse(A.T @ A)
        figure = float(np.vdot(self.G, B))
        by_A = A @ (B.T @ B * (-2.0 / figure))
        return SmoothValue(float(np.log(figure)), by_A if self.noise is None else by_A / self.noise[:, None], figure)

    def _times_inverse(self, M: Array) -> Array:
        """G M^-1 (k, b): by Cholesky, or by eigenvalues that do not fall below a floor where M is nearly singular."""
        L, failed = lapack.dpotrf(M, lower=1)
        if not failed and np.diag(L).min() ** 2 > np.diag(M).max() * 1e-12:
            return np.asarray(lapack.dpotrs(L, self.G.T, lower=1)[0].T)
        lam, V = np.linalg.eigh(M)
        return np.asarray((self.G @ V / np.maximum(lam, lam[-1] * 1e-15)) @ V.T)


NEGLIGIBLE = 1e-16
"""Share of tr C that counts as none: rounding of the rows, squared."""


@dataclass(frozen=True, slots=True, eq=False)
class AddedCriterion:
    """A criterion of what is known and what rows W add: that of [D W S; known], D the weights (rows,).

    columns S (b, unknowns): what the columns of W are of the unknowns; known (k, unknowns): a square root of the
    information that there is.
    """

    of_all: Criterion
    weights: Array
    columns: Array
    known: Array

    def value(self, W: Array) -> float:
        """Value of the criterion for a matrix W."""
        return self.of_all.value(self._all_rows(W))

    def smooth_value(self, W: Array, sharpness: float) -> SmoothValue:
        """Logarithm of a smooth approximation of the criterion, its gradient by W, and the true figure."""
        value, slope, figure = self.of_all.smooth_value(self._all_rows(W), sharpness)
        return SmoothValue(value, (self.weights[:, None] * slope[: len(W)]) @ self.columns.T, figure)

    def _all_rows(self, W: Array) -> Array:
        """Rows of the motion, weighted, and those known before."""
        return np.concatenate([(self.weights[:, None] * W) @ self.columns, self.known])


def _smooth_condition(lam: Array, p: float) -> tuple[float, Array]:
    """Smooth logarithm of the condition number by Schatten norms, log(|sigma|_p |1/sigma|_p), and its gradient."""
    up, by_up = _log_power_sum(lam, 0.5 * p)
    down, by_down = _log_power_sum(lam, -0.5 * p)
    return (up + down) / p, (by_up + by_down) / p


def _log_power_sum(lam: Array, k: float) -> tuple[float, Array]:
    """Logarithm log(sum(lam**k)) and its gradient, without overflow."""
    logs = k * np.log(lam)
    top = logs.max()
    parts = np.exp(logs - top)
    total = parts.sum()
    return float(top + np.log(total)), k * parts / (total * lam)


def _smooth_frobenius(lam: Array, p: float) -> tuple[float, Array]:
    """Logarithm of |W'W|_F |(W'W)^-1|_F, and its gradient by the eigenvalues."""
    up, by_up = _log_power_sum(lam, 2.0)
    down, by_down = _log_power_sum(lam, -2.0)
    return 0.5 * (up + down), 0.5 * (by_up + by_down)


def _smooth_trace(lam: Array, p: float) -> tuple[float, Array]:
    """Logarithm of the trace of the covariance, and its gradient by the eigenvalues."""
    return _log_power_sum(lam, -1.0)


def _smooth_determinant(lam: Array, p: float) -> tuple[float, Array]:
    """Mean log eigenvalue of the covariance, and its gradient by the eigenvalues."""
    return -float(np.log(lam).mean()), -1.0 / (lam * len(lam))


def _smooth_largest_variance(lam: Array, p: float) -> tuple[float, Array]:
    """Logarithm of the p-norm of the covariance's eigenvalues, and its gradient by those of W'W."""
    value, slope = _log_power_sum(lam, -p)
    return value / p, slope / p


@dataclass(frozen=True, slots=True, eq=False)
class ScalingCriterion:
    """Weighted sum l1 Cond + l2 S (Gautier & Khalil 1992, eq. 18); mask (rows, b): entries not structurally zero.

    power k: ((l1 Cond)^k + (l2 S)^k)^(1/k), for large k the larger one of both, which also reaches pairs in dents of
    the front of condition against scaling, where no weighted sum is smallest.
    """

    l1: float
    l2: float
    mask: NDArray[np.bool_]
    power: float = 1.0

    def value(self, W: Array) -> float:
        """Value of the criterion for a matrix W."""
        return self._sum(condition_number(W) if self.l1 else 0.0, scaling_number(W, self.mask) if self.l2 else 0.0)

    def _sum(self, condition: float, scaling: float) -> float:
        """Weighted sum of powers of both figures."""
        return float(np.linalg.norm([self.l1 * condition, self.l2 * scaling], self.power))

    def smooth_value(self, W: Array, sharpness: float) -> SmoothValue:
        """Logarithm of l1 Cond_p + l2 S_p, its gradient by W, and the true figure."""
        parts: list[tuple[float, float, Array]] = []
        condition = scaling = 0.0
        if self.l1:
            value, slope, condition = SpectralCriterion(_true_condition, _smooth_condition).smooth_value(W, sharpness)
            parts.append((self.l1, value, slope))
        if self.l2:
            scaling = scaling_number(W, self.mask)
            parts.append((self.l2, *_smooth_scaling(W, self.mask, sharpness)))
        logs = self.power * np.array([np.log(weight) + value for weight, value, _ in parts])
        top = logs.max()
        shares = np.exp(logs - top)
        total = shares.sum()
        by = sum((share / total) * slope for share, (_, _, slope) in zip(shares, parts, strict=True))
        return SmoothValue(float(top + np.log(total)) / self.power, np.asarray(by), self._sum(condition, scaling))


def _smooth_scaling(W: Array, mask: NDArray[np.bool_], p: float) -> tuple[float, Array]:
    """Logarithm of |entries|_p |1/entries|_p, and its gradient by W."""
    x = W[mask]
    size = np.maximum(np.abs(x), 1e-12)
    up, by_up = _log_power_sum(size, p)
    down, by_down = _log_power_sum(size, -p)
    slope = np.zeros_like(W)
    slope[mask] = (by_up + by_down) / p * np.sign(x)
    return (up + down) / p, slope


def _true_condition(sigma: Array) -> float:
    """Condition number: largest over smallest singular value."""
    return float(sigma[0] / sigma[-1]) if sigma[-1] > 0.0 else np.inf


def _true_frobenius(sigma: Array) -> float:
    """Product |W'W|_F |(W'W)^-1|_F (Gautier & Khalil 1992, eq. 21 and 22)."""
    return float(np.linalg.norm(sigma**2) * np.linalg.norm(sigma**-2.0))


def _true_trace(sigma: Array) -> float:
    """Trace of the covariance."""
    return float((sigma**-2.0).sum())


def _true_determinant(sigma: Array) -> float:
    """Logarithm of the covariance's determinant."""
    return float(-2.0 * np.log(sigma).sum())


def _true_largest_variance(sigma: Array) -> float:
    """Largest eigenvalue of the covariance."""
    return float(sigma[-1] ** -2.0)


def criterion_of_repeated_rows(name: str, figure: float, columns: int, times: float) -> float:
    """Criterion of a matrix in which every row is repeated `times` times: more rows lessen the covariance."""
    if name in ("a", "e", "v"):
        return figure / times
    return figure - columns * float(np.log(times)) if name == "d" else figure


def find_criterion(
    name: str,
    *,
    weights: tuple[float, ...],
    mask: NDArray[np.bool_],
    noise: Array | None = None,
    target: Array | None = None,
) -> Criterion:
    """Return the criterion of this name; raise where there is none.

    condition, frobenius (of W'W), scaling, condition+scaling (weights l1, l2, power), and with noise (rows,) as weights
    a (trace of the covariance), d (its mean log eigenvalue), e (its largest eigenvalue), v (variance of what the rows
    of target (k, b) predict).
    """
    spectral: dict[str, SpectralCriterion] = {
        "condition": SpectralCriterion(_true_condition, _smooth_condition),
        "frobenius": SpectralCriterion(_true_frobenius, _smooth_frobenius),
        "a": SpectralCriterion(_true_trace, _smooth_trace, noise),
        "d": SpectralCriterion(_true_determinant, _smooth_determinant, noise),
        "e": SpectralCriterion(_true_largest_variance, _smooth_largest_variance, noise),
    }
    if name in spectral:
        return spectral[name]
    if name == "v":
        if target is None:
            raise ExcitationError("missing_target", "criterion 'v' needs the rows of what is to be predicted")
        return PredictionVariance(target, noise)
    if name == "scaling":
        return ScalingCriterion(0.0, 1.0, mask)
    if name == "condition+scaling":
        if min(weights) < 0.0 or max(weights) <= 0.0:
            raise ExcitationError(
                "invalid_criterion_weights", "weights of condition and scaling must not be negative nor both zero, "
                "got {weights!s}", weights=weights,
            )  # fmt: skip
        return ScalingCriterion(weights[0], weights[1], mask, (*weights, 1.0)[2])
    raise ExcitationError(
        "unknown_criterion", "there is no criterion '{criterion}'", "criteria are {criteria}", criterion=name,
        criteria=list(NAMES),
    )  # fmt: skip


# What criterion v predicts: torques at states inside the limits, or along the user's own motion.


STATES = 500
"""Random states at which torques are predicted; a longer motion of the user is thinned to about four times as many."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Rows G (k, b) of criterion v, and the torques (n,) by which errors and noise of the joints are measured."""

    G: Array
    scale: Array

    @staticmethod
    def for_states(rows: BaseRows, states: Motion, effort: Array) -> Prediction:
        """Mean over states and joints of the variance of torques over their scales: tr(G M^-1 G')."""
        thinned = max(1, len(states) // (4 * STATES))
        states = Motion(*(x[::thinned] for x in (states.t, states.q, states.v, states.a)))
        scale = torque_scales(rows.robot, states, effort)
        U = rows.matrix(states).reshape(len(states), len(scale), -1) / scale[:, None]
        return Prediction(np.linalg.qr(U.reshape(-1, U.shape[2]), mode="r") / np.sqrt(U.shape[0] * U.shape[1]), scale)


def torque_scales(robot: Robot, states: Motion, effort: Array) -> Array:
    """Effort limits (n,); where missing, root mean square of nominal torques, else a mean of other joints', or 1."""
    if np.isfinite(effort).all():
        return effort
    rotor = np.array([name.kind == "rotor" for name in robot.parameter_names])
    XB = base_parameters(robot).values(np.where(rotor & np.isnan(robot.parameters), 0.0, robot.parameters))
    nominal = np.zeros(robot.n)
    if not np.isnan(XB).any():
        torque = BaseRows.for_robot(robot, model="torque", rotor_inertia=True, friction=()).matrix(states) @ XB
        nominal = np.sqrt((torque.reshape(len(states), -1) ** 2).mean(axis=0))
    scale = np.where(np.isfinite(effort), effort, nominal)
    known = scale > 1e-9 * scale.max(initial=0.0)
    return np.asarray(np.where(known, scale, np.exp(np.log(scale[known]).mean()) if known.any() else 1.0))


def random_states(robot: Robot, limits: Limits, period: float, harmonics: int) -> Motion:
    """Draw positions, velocities and accelerations uniformly inside the limits, the same ones every time.

    Where a limit is missing: a turn (prismatic joints: the swing of the slowest harmonic), and the velocity and
    acceleration that a series of these harmonics can reach by Bernstein's inequality.
    """
    w = 2.0 * np.pi / period
    swing = np.minimum(np.minimum(limits.velocity / w, limits.acceleration / w**2), limits.jerk / w**3)
    turns = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    middle, half = middle_and_half_range(limits)
    half = np.where(np.isfinite(half), half, np.where(turns, np.pi, swing))
    reachable = np.minimum(harmonics * w * half, limits.acceleration / w)
    velocity = np.where(np.isfinite(limits.velocity), limits.velocity, reachable)
    acceleration = np.where(np.isfinite(limits.acceleration), limits.acceleration, harmonics * w * velocity)
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, STATES, robot.n))
    q = move_into_assembly_mode(robot, middle + q * half)
    return Motion(np.arange(float(STATES)), q, v * velocity, a * acceleration)
