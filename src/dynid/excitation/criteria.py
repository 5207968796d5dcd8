"""How well a matrix W reveals its columns: criteria with exact gradients (Gautier & Khalil 1992, eq. 14-19, 21, 22).

Each criterion has a true value, which is reported, and a smooth stand-in with a sharpness p, which is minimised
while p grows (a homotopy): largest and smallest singular values become Schatten p-norms, largest and smallest
entries p-norms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dynid.errors import ExcitationError
from dynid.excitation.regressor_rows import BaseRows
from dynid.excitation.shape import middle_and_half_range
from dynid.identifiability.base_parameters import base_parameters
from dynid.identifiability.samples import move_into_assembly_mode
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

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
