"""Base parameters by QR and SVD of a matrix of random samples: Gautier 1991, eq. 13-17, 21-23, 26, 27, made sound.

The matrix W (eq. 6, 9, 12) is sampled inside the joint limits. The paper deletes columns by small diagonal elements
of an unpivoted QR, where a dependent column leaves a spurious direction that can swallow a later, independent one.
Here columns have unit norm, are taken from left to right, and are projected on the accepted ones only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import friction_columns, friction_rows
from dynid.dynamics.kernels.closing import REACHED, SINGULAR
from dynid.dynamics.kernels.loops import loop_map
from dynid.dynamics.kernels.rows import ENERGY
from dynid.dynamics.models import Reaction, gradient_by_active, power_or_energy_adjoint, power_or_energy_rows
from dynid.dynamics.regressor import find_model, regressor_adjoint
from dynid.dynamics.scene import Column, Stage, standard_columns
from dynid.errors import DynidError, LoopError, ModelError
from dynid.identifiability.relations import Regrouping
from dynid.messages import Option
from dynid.robot.inertia import SYMBOLS
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

REGULAR = 0.02
"""Least regularity of samples in closed loops, or 0.3 of what it is at the assembly if that is less."""

GAP = 1e-7
ROUNDING = float(np.finfo(np.float64).eps) / GAP
"""By how much loops are left open to see what rounding does to a column, and rounding's share of that."""

NUMERICAL_MODELS = ("torque", "static", "energy", "power", "momentum", "reaction", "torque+reaction")


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Whose base parameters are asked for, and in which columns."""

    robot: Robot
    model: str
    rotor_inertia: bool
    tared: bool
    friction: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.model not in NUMERICAL_MODELS:
            raise ModelError(
                "unknown_model", "base parameters exist for {models}, not for '{model}'",
                models=list(NUMERICAL_MODELS), model=self.model,
            )  # fmt: skip
        if self.friction and self.model not in ("torque", "static"):
            raise ModelError("columns_need_torque_model", "friction and offset columns belong to the torque model")
        if self.tared and "reaction" not in self.model:
            raise ModelError(
                "tared_needs_reaction_model", "{tared} (six free offsets) belongs to the reaction model",
                tared=Option("tared", True),
            )  # fmt: skip

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the parameters in question, friction last."""
        standard = standard_columns(self.robot, rotor_inertia=self.rotor_inertia).columns
        return (*standard, *friction_columns(self.robot, self.friction))

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Channels of the base that are measured, None for all six."""
        return None if self.robot.sensor is None else self.robot.sensor.channels

    @property
    def measures_along_frame_axes(self) -> bool:
        """Whether forces and moments at the base are measured along axes of frame 0, or all six."""
        sensor = self.robot.sensor
        return "reaction" not in self.model or sensor is None or sensor.is_in_base_frame or len(sensor.channels) == 6

    @property
    def offset_count(self) -> int:
        """Number of columns of free offsets, which come after all others."""
        return len(Reaction().channels(self.robot)) if self.tared else 0

    @property
    def known_zero_columns(self) -> tuple[int, ...]:
        """Indices of the columns of parameters that are known to be zero."""
        zeros = set(self.robot.known_zeros)
        return tuple(k for k, column in enumerate(self.columns) if column.name in zeros)


def random_samples(robot: Robot, samples: int, seed: int) -> Motion:
    """Random positions, velocities and accelerations inside the limits (a turn, or 1 m, where there are none).

    For implicit loops, samples that do not close, or only through or near a singular position, are moved towards the
    stated assembly until they do: all of them are of one assembly mode.
    """
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1.0, 1.0, (3, samples, robot.n))
    turns = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    lower, upper = robot.limits.position.T
    reach = np.where(turns, math.pi, 1.0)
    limited = np.isfinite(lower) & np.isfinite(upper)
    at = next((c.at for c in robot.closures if c.at is not None), np.zeros(robot.n))
    middle = np.where(limited, 0.5 * (np.where(limited, lower, 0.0) + np.where(limited, upper, 0.0)), at)
    half = np.where(limited, 0.5 * (np.where(limited, upper, 0.0) - np.where(limited, lower, 0.0)), reach)
    q = move_into_assembly_mode(robot, middle + unit[0] * half)
    v = unit[1] * np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 2.0)
    a = unit[2] * np.where(np.isfinite(robot.limits.acceleration), robot.limits.acceleration, 5.0)
    t = np.arange(samples, dtype=np.float64)
    if robot.floating:
        quaternion = rng.standard_normal((samples, 4))
        quaternion /= np.linalg.norm(quaternion, axis=1)[:, None]
        pose = np.hstack([rng.uniform(-1.0, 1.0, (samples, 3)), quaternion])
        twist, rate = rng.uniform(-2.0, 2.0, (2, samples, 6))
        return Motion(t, q, v, a, pose, twist, rate)
    return Motion(t, q, v, a)


def move_into_assembly_mode(robot: Robot, q: Array) -> Array:
    """Positions q (N, n), moved towards the assembly where paths from there come near a singular position."""
    loop = loop_map(robot)
    if loop is None or not robot.closures:
        return q
    waiting = np.arange(len(q))
    for _ in range(40):
        paths = loop.follow_paths(q[waiting], REGULAR)
        if not paths.regularity > SINGULAR:
            break
        waiting = waiting[paths.end != REACHED]
        if not len(waiting):
            return q
        closer = np.where(paths.scales.reach > 0.0, 0.6, 1.0)
        q[waiting] = loop.at + closer * (q[waiting] - loop.at)
    raise ModelError(
        "loop_not_solvable", "the loops of '{robot}' do not close around the stated assembly, or are at a dead point "
        "there", "correct start and at", robot=robot.name,
    )  # fmt: skip


def model_matrix(question: Question, motion: Motion, gap: float = 0.0) -> Array:
    """Rows of the model in question, tare columns (one per channel of the base) at the end where asked for."""
    if question.model == "torque+reaction":
        torque = model_matrix(replace(question, model="torque", tared=False), motion, gap)
        reaction = model_matrix(replace(question, model="reaction"), motion, gap)
        silent = np.zeros((len(torque), reaction.shape[1] - torque.shape[1]))
        return np.concatenate([np.hstack([torque, silent]), reaction])
    robot, model = question.robot, find_model(question.model)
    stage = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=question.rotor_inertia)).with_loop_gap(gap)
    rows = model.rows(stage.scene_along(model.observed_motion(motion)))
    if question.friction:
        own = friction_rows(motion, question.friction)
        if robot.floating:
            own = np.concatenate([np.zeros((len(own), 6, own.shape[2])), own], axis=1)
        rows = np.concatenate([rows, own], axis=2)
    if question.tared:
        tare = np.broadcast_to(np.eye(rows.shape[1]), (len(rows), rows.shape[1], rows.shape[1]))
        rows = np.concatenate([rows, tare], axis=2)
    return np.asarray(rows.reshape(-1, rows.shape[2]))


MOST_NUMBERS = 50_000_000
"""Numbers in a matrix of random samples, 400 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class RandomRows:
    """Random rows W (rows, columns), and how rounding in closed loops may change them; None without such loops."""

    matrix: Array
    noise: Array | None


def draw_rows(question: Question, rows: int, seed: int) -> RandomRows:
    """Draw at least `rows` random rows of the model."""
    channels = _rows_per_sample(question)
    samples = -(-rows // channels) + (1 if question.model == "energy" else 0)
    numbers = channels * samples * len(SYMBOLS) * len(question.robot.links)
    if numbers > MOST_NUMBERS:
        raise DynidError(
            "too_many_samples", "{rows:.3g} rows of random samples make a matrix of {numbers:.3g} numbers, above the "
            "limit of {limit:.0e}", "take fewer", rows=rows, numbers=numbers, limit=MOST_NUMBERS,
        )  # fmt: skip
    motion = random_samples(question.robot, max(samples, 2), seed)
    W = model_matrix(question, motion)
    if not question.robot.closures:
        return RandomRows(W, None)
    return RandomRows(W, ROUNDING * np.abs(model_matrix(question, motion, GAP) - W))


def independent_draws(question: Question, rows: int, seed: int) -> list[RandomRows]:
    """Draws whose base parameters must agree: one, and a second one for closed loops, where rounding is amplified."""
    seeds = (seed, seed + 7919) if question.robot.closures else (seed,)
    return [draw_rows(question, rows, s) for s in seeds]


def _rows_per_sample(question: Question) -> int:
    """Number of rows per sample of the model in question."""
    if question.model == "reaction":
        return len(Reaction().channels(question.robot))
    if question.model in ("energy", "power"):
        return 1
    return question.robot.n + (6 if question.robot.floating else 0)


# The scaling procedure of Gautier 1991: samples for which all entries of W have about the same size.
#
# Criterion J = l1 |W|_F + l2 S with S = max|Wij| / min|Wij| over the entries that are not structurally zero; rows are
# optimised one by one from random starts and stacked. Maximum and minimum are replaced by p-norms with a growing p, so
# that the adjoint kernel gives exact gradients; the reported S is the true one.


WALL = 1e10
"""Value of the criterion where a loop cannot close; the line search steps back from there."""

_STARTS = 8
_STAGES = (2.0, 6.0, 20.0)
_STEPS = 60


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRows:
    """Rows with entries of similar size: matrix (rows, columns), and S of the random and the optimised rows.

    noise: how rounding in closed loops may change the entries, or None.
    """

    matrix: Array
    before: float
    after: float
    noise: Array | None = None


def scale_rows(question: Question, rows: int, seed: int, weights: tuple[float, float]) -> ScaledRows:
    """Optimise samples so that entries are of similar size (energy, torque or static model); energy by h itself."""
    if question.model not in ("energy", "torque", "static") or question.friction or question.robot.floating:
        raise ModelError(
            "scaling_not_applicable", "scaling is for the energy, torque and static models of robots on a fixed base",
        )  # fmt: skip
    model = _ModelRows(question)
    channels = len(model(random_samples(question.robot, 2, seed))[0])
    samples = -(-rows // channels)
    starts = random_samples(question.robot, samples * _STARTS, seed)
    mask = model.nonzero_entries(random_samples(question.robot, 50, seed + 1))
    best = _optimise_scaling(model, mask, starts, weights)
    W = model(best)
    chosen = _choose_best_scaled(W, mask, samples)
    random_rows = model(starts)[:samples]
    noise = None
    if question.robot.closures:
        noise = ROUNDING * np.abs(model(best, GAP) - W)[chosen].reshape(-1, W.shape[2])
    return ScaledRows(
        W[chosen].reshape(-1, W.shape[2]),
        _scaling_of_stack(random_rows, mask),
        _scaling_of_stack(W[chosen], mask),
        noise,
    )


class _ModelRows:
    """Rows of a model (N, channels, columns) and their adjoint, energy as functions instead of differences."""

    def __init__(self, question: Question) -> None:
        self.question = question
        columns = standard_columns(question.robot, rotor_inertia=question.rotor_inertia)
        self.stage = Stage.for_robot(question.robot, columns)

    def __call__(self, motion: Motion, gap: float = 0.0) -> Array:
        stage = self.stage.with_loop_gap(gap)
        if self.question.model == "energy":
            return power_or_energy_rows(stage.scene_along(motion), ENERGY)[:, None, :]
        model = find_model(self.question.model)
        return model.rows(stage.scene_along(model.observed_motion(motion)))

    def adjoint(self, motion: Motion, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by q, v, a."""
        q = self.question
        if q.model == "energy":
            scene = self.stage.scene_along(motion)
            return gradient_by_active(scene, power_or_energy_adjoint(scene, ENERGY, weights[:, 0]))
        flat = weights.reshape(-1, weights.shape[2])
        return regressor_adjoint(q.robot, motion, flat, model=q.model, rotor_inertia=q.rotor_inertia)

    def nonzero_entries(self, motion: Motion) -> Array:
        """Entries that are not structurally zero (nor constant, for energy functions)."""
        W = self(motion)
        size = np.ptp(W, axis=0) if self.question.model == "energy" else np.abs(W).max(axis=0)
        mask = size > ZERO * size.max()
        mask[:, list(self.question.known_zero_columns)] = False
        return np.asarray(mask)


def _optimise_scaling(model: _ModelRows, mask: Array, start: Motion, weights: tuple[float, float]) -> Motion:
    """Motion whose rows have the best scaling, all samples at once: their criteria are independent."""
    shape = start.q.shape
    uses_a = model.question.model != "energy"
    x = np.stack([start.q, start.v, start.a])

    def objective(flat: Array, p: float) -> tuple[float, Array]:
        """Criterion and its gradient at samples (q, v, a), one after the other."""
        q, v, a = flat.reshape(3, *shape)
        motion = Motion(start.t, q, v, a)
        try:
            W = model(motion)
        except LoopError:
            return WALL, np.zeros_like(flat)
        value, slope = _scaling_criterion(W, mask, weights, p)
        gradient = np.stack(model.adjoint(motion, slope))
        if not uses_a:
            gradient[2] = 0.0
        return value, gradient.ravel()

    bounds = _joint_bounds(model.question, len(start))
    for p in _STAGES:
        found = scipy.optimize.minimize(
            objective, x.ravel(), args=(p,), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
        )
        x = found.x.reshape(3, *shape)
    return Motion(start.t, *x)


def _joint_bounds(question: Question, samples: int) -> scipy.optimize.Bounds:
    """Bounds of all samples' positions, velocities and accelerations by the joint limits, where there are some."""
    limits = question.robot.limits
    low = [np.tile(x, (samples, 1)) for x in (limits.position[:, 0], -limits.velocity, -limits.acceleration)]
    high = [np.tile(x, (samples, 1)) for x in (limits.position[:, 1], limits.velocity, limits.acceleration)]
    return scipy.optimize.Bounds(np.stack(low).ravel(), np.stack(high).ravel())


def _scaling_criterion(W: Array, mask: Array, weights: tuple[float, float], p: float) -> tuple[float, Array]:
    """Sum over samples of log(l1 |W|_F + l2 S_p), and its gradient by W."""
    l1, l2 = weights
    A = np.where(mask, np.maximum(np.abs(W), 1e-12), 1.0)
    logs = np.where(mask, np.log(A), 0.0)
    up, up_share = _soft_maximum(logs, mask, p)
    down, down_share = _soft_maximum(-logs, mask, p)
    S = np.exp(up + down)
    norm = np.sqrt((np.where(mask, A, 0.0) ** 2).sum(axis=(1, 2)))
    J = l1 * norm + l2 * S
    by_log = (l2 * S / J)[:, None, None] * (up_share - down_share)
    by_log += (l1 / (norm * J))[:, None, None] * np.where(mask, A**2, 0.0)
    return float(np.log(J).sum()), np.where(mask, by_log / A * np.sign(W), 0.0)


def _soft_maximum(x: Array, mask: Array, p: float) -> tuple[Array, Array]:
    """p-norm maximum of each sample's entries, and each entry's share in it."""
    y = np.where(mask, p * x, -np.inf)
    top = y.max(axis=(1, 2), keepdims=True)
    parts = np.exp(y - top)
    total = parts.sum(axis=(1, 2), keepdims=True)
    return ((top + np.log(total)) / p)[:, 0, 0], parts / total


def _choose_best_scaled(W: Array, mask: Array, count: int) -> list[int]:
    """The samples that give the smallest S when stacked: for each lower bound, those with the smallest maxima."""
    entries = np.abs(W[:, mask])
    low, high = entries.min(axis=1), entries.max(axis=1)
    best, chosen = np.inf, list(range(count))
    for bound in np.sort(low)[: len(low) - count + 1]:
        candidates = np.flatnonzero(low >= bound)
        picked = candidates[np.argsort(high[candidates])[:count]]
        spread = float(high[picked].max() / low[picked].min())
        if spread < best:
            best, chosen = spread, [int(k) for k in picked]
    return chosen


def _scaling_of_stack(W: Array, mask: Array) -> float:
    """S = largest over smallest entry of the stacked rows."""
    entries = np.abs(W[:, mask])
    return float(entries.max() / max(float(entries.min()), 1e-300))


def draw_scaled_rows(
    question: Question, rows: int, seed: int, weights: tuple[float, float]
) -> tuple[ScaledRows, RandomRows, int]:
    """Draw scaled rows; return them, the matrix to factor, and how many free constant columns it ends in.

    Energy functions contain constants, so a column of ones takes part; differences would undo the scaling.
    """
    scaled = scale_rows(question, rows, seed, weights)
    if question.model != "energy":
        return scaled, RandomRows(scaled.matrix, scaled.noise), 0
    ones = np.ones((len(scaled.matrix), 1))
    noise = None if scaled.noise is None else np.hstack([scaled.noise, 0.0 * ones])
    return scaled, RandomRows(np.hstack([scaled.matrix, ones]), noise), 1


TOLERANCE = 1e-9
"""Residual of a unit column below which it depends on the accepted ones."""

ZERO = 1e-12
"""Columns below this share of the largest entry have no effect."""

NEGLIGIBLE = 1e-11
"""Coefficients between unit columns below this are zero."""

CERTAIN, UNCERTAIN = 10.0, 1e5
"""Where the noise of a column is known: multiples of it below which what is left of the column is rounding, and above
which it is not; between them the decision, at the geometric mean, is uncertain."""

_DECISION = float(np.sqrt(CERTAIN * UNCERTAIN))
_LEAST_NOISE = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """The columns of Gautier 1991, Table II, for the c columns with an effect, computed when asked for.

    columns: their indices; residual: what is left of each unit column after the accepted ones, on which the
    decision rests; factor: R of the unscaled columns; rows: how many rows they had; rank: how many were accepted.
    """

    columns: tuple[int, ...]
    residual: Array
    factor: Array
    rows: int
    rank: int

    @cached_property
    def _pivoted(self) -> tuple[Array, tuple[int, ...]]:
        """Diagonal of the triangular factor with column pivoting, and the order of its columns."""
        _, T, order = scipy.linalg.qr(self.factor, pivoting=True, mode="economic")
        return np.diag(T), tuple(map(int, order))

    @property
    def T(self) -> Array:  # noqa: N802
        """Diagonal of the triangular factor with column pivoting (eq. 14)."""
        return self._pivoted[0]

    @property
    def pivots(self) -> tuple[int, ...]:
        """Places in `columns` of the columns of T, in its order."""
        return self._pivoted[1]

    @property
    def R(self) -> Array:  # noqa: N802
        """Diagonal of the triangular factor without pivoting (eq. 13)."""
        return np.diag(self.factor)

    @cached_property
    def sigma(self) -> Array:
        """Singular values (eq. 21)."""
        return np.asarray(np.linalg.svd(self.factor, compute_uv=False), dtype=np.float64)

    @cached_property
    def V2(self) -> Array:  # noqa: N802
        """Null space (eq. 22), one column per dropped parameter."""
        _, _, Vt = np.linalg.svd(self.factor)
        return np.asarray(Vt[self.rank :].T)

    @property
    def V2N(self) -> Array:  # noqa: N802
        """Null space times a random vector: zero where a parameter stays unchanged."""
        N = np.random.default_rng(0).uniform(-1.0, 1.0, self.V2.shape[1])
        return np.asarray(self.V2 @ N)

    @property
    def tolerance(self) -> float:
        """The paper's tau = r eps max|T_ii|, for comparison."""
        return float(self.rows * np.finfo(np.float64).eps * np.abs(self.T).max(initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class NumericResult:
    """Regrouping found in a matrix, with no_effect columns, residuals of all columns and the gap.

    uncertain: columns that rounding may have kept or dropped; None where the noise is not known.
    """

    regrouping: Regrouping
    no_effect: tuple[int, ...]
    residual: Array
    gap: float
    diagnostics: Diagnostics
    uncertain: tuple[int, ...] | None


def find_by_qr(
    W: Array, *, left_out: tuple[int, ...] = (), offsets: int = 0, noise: Array | None = None
) -> NumericResult:
    """Base columns of W by QR; the last `offsets` columns are free constants that are projected out first.

    noise, of W's shape: by how much entries may be wrong; it replaces the fixed tolerance where it is given.
    """
    split = _project_and_scale_columns(W, left_out, offsets, noise)
    found = accept_columns(split.unit, split.noise)
    R1, R2 = split.unit[:, found.accepted], split.unit[:, ~found.accepted]
    if not R2.shape[1]:
        return _result_of_columns(split, found, found.accepted, np.zeros((R1.shape[1], 0)))
    Q, R = np.linalg.qr(R1)
    beta = scipy.linalg.solve_triangular(R, Q.T @ R2)
    return _result_of_columns(split, found, found.accepted, beta)


def find_by_svd(
    W: Array, *, left_out: tuple[int, ...] = (), offsets: int = 0, noise: Array | None = None
) -> NumericResult:
    """Base columns of W by SVD: rows of the null space V2 are deleted from the last upwards (eq. 26-28)."""
    split = _project_and_scale_columns(W, left_out, offsets, noise)
    _, sigma, Vt = np.linalg.svd(split.unit)
    sigma = np.concatenate([sigma, np.zeros(len(Vt) - len(sigma))])
    smallest = TOLERANCE * sigma[0] if split.noise is None else _DECISION * float(np.linalg.norm(split.noise))
    V2 = Vt[sigma <= smallest].T
    rows, tolerance = V2[::-1].T, TOLERANCE
    if split.noise is not None:  # the null space is as uncertain as its distance from the other directions is small
        tolerance = min(max(TOLERANCE, smallest / sigma[sigma > smallest].min(initial=1.0)), 1e-4)
    while (kept_of_null := accept_columns(rows, None, tolerance).accepted[::-1]).sum() < V2.shape[1]:
        tolerance *= 0.1
    accepted = ~kept_of_null  # kept_of_null: the last regular rows of V2
    V21, V22 = V2[accepted], V2[kept_of_null]
    beta = -np.linalg.solve(V22.T, V21.T).T if len(V22) else np.zeros((int(accepted.sum()), 0))
    return _result_of_columns(split, accept_columns(split.unit, split.noise), accepted, beta)


@dataclass(frozen=True, slots=True, eq=False)
class _ScaledColumns:
    """Columns with an effect, scaled to unit norm and reduced to their triangular factor.

    noise: of the unit columns; faint: those whose effect may be rounding.
    """

    total: int
    columns: tuple[int, ...]
    no_effect: tuple[int, ...]
    norm: Array
    unit: Array
    rows: int
    noise: Array | None
    faint: tuple[int, ...]


def _project_and_scale_columns(
    W: Array, left_out: tuple[int, ...], offsets: int, noise: Array | None
) -> _ScaledColumns:
    """Project offsets out, drop columns without effect and scale the others."""
    total = W.shape[1] - offsets
    if offsets:
        Q, _ = np.linalg.qr(W[:, total:])
        W = W[:, :total] - Q @ (Q.T @ W[:, :total])
    largest = np.abs(W).max(axis=0)
    silent = largest <= ZERO * largest.max()
    norm = np.linalg.norm(W, axis=0)
    faint = np.zeros(total, dtype=np.bool_)
    if noise is not None:
        floor = np.linalg.norm(noise[:, :total], axis=0)
        silent |= norm <= _DECISION * floor
        faint = (norm > CERTAIN * floor) & (norm < UNCERTAIN * floor)
        noise = np.maximum(floor / np.where(norm > 0.0, norm, 1.0), _LEAST_NOISE)
    columns = tuple(k for k in range(total) if not silent[k] and k not in left_out)
    raw, norm = W[:, columns], norm[list(columns)]
    unit = np.asarray(np.linalg.qr(raw / norm, mode="r"))
    no_effect = tuple(k for k in range(total) if silent[k] and k not in left_out)
    return _ScaledColumns(
        total, columns, no_effect, norm, unit, len(raw), None if noise is None else noise[list(columns)],
        tuple(int(k) for k in np.flatnonzero(faint) if k not in left_out),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _AcceptedColumns:
    """Which columns were accepted, what was left of each, and how much of that may be noise (0 where not known)."""

    accepted: NDArray[np.bool_]
    residual: Array
    noise: Array


PANEL = 256
"""Columns of a large matrix that are projected on those accepted before in one product."""

SMALL = 0.01
"""Share of a column, beyond its panel's first projection, below which what is left of it is projected once more."""


def accept_columns(A: Array, noise: Array | None, tolerance: float = TOLERANCE) -> _AcceptedColumns:
    """Accept columns of A, left to right, that those accepted before do not explain; reorthogonalised once.

    The noise of what is left of a column is its own and that of the accepted ones, as much of each as it contains.
    Of a triangular A, the columns before the first dependent one are found by their diagonal elements. Matrices of many
    columns are worked on in panels: what the columns accepted before explain of a panel is two products of matrices.
    """
    most, total = min(A.shape), A.shape[1]
    triangular = not np.tril(A, -1).any()
    Q, R = np.zeros((A.shape[0], most)), np.zeros((most, most) if noise is not None else (0, 0))
    residual, level = np.zeros((2, total))
    first = 0 if noise is not None or not triangular else _leading_count(np.abs(np.diag(A)) > tolerance)
    taken = list(range(first))
    Q[taken, taken], residual[:first] = 1.0, np.abs(np.diag(A)[:first])
    width = total if noise is not None else PANEL
    for start in range(first, total, max(width, 1)):
        stop, before = min(start + width, total), len(taken) if start > first else 0
        high = min(stop, A.shape[0]) if triangular else A.shape[0]  # rows below are zeros, of Q as well
        panel = A[:high, start:stop]
        if before:
            panel = _without_explained(_without_explained(panel, Q[:high, :before]), Q[:high, :before])
        for k in range(start, stop):
            x, count = panel[:, k - start], len(taken)
            share = np.zeros(count - before)
            size = np.linalg.norm(x) if before else 0.0
            for _ in range(2):
                part = Q[:high, before:count].T @ x
                x, share = x - Q[:high, before:count] @ part, share + part
            residual[k] = np.linalg.norm(x)
            if tolerance < residual[k] < SMALL * size:
                x = _without_explained(x, Q[:high, :count])
                residual[k] = np.linalg.norm(x)
            if noise is not None:
                beta = scipy.linalg.solve_triangular(R[:count, :count], share) if count else share
                level[k] = noise[k] + np.abs(beta) @ noise[taken]
            if residual[k] > (tolerance if noise is None else _DECISION * level[k]) and count < most:
                Q[:high, count] = x / residual[k]
                if noise is not None:
                    R[:count, count], R[count, count] = share, residual[k]
                taken.append(k)
    accepted = np.zeros(total, dtype=np.bool_)
    accepted[taken] = True
    return _AcceptedColumns(accepted, residual, level)


def _without_explained(X: Array, Q: Array) -> Array:
    """Columns X less what the orthonormal columns Q explain of them."""
    return np.asarray(X - Q @ (Q.T @ X))


def _leading_count(mask: NDArray[np.bool_]) -> int:
    """Number of true entries before the first false one."""
    return len(mask) if mask.all() else int(np.argmin(mask))


def _result_of_columns(
    split: _ScaledColumns, found: _AcceptedColumns, accepted: NDArray[np.bool_], beta: Array
) -> NumericResult:
    """Numeric result of the accepted columns; beta gives the others in terms of them."""
    columns = np.array(split.columns, dtype=np.int64)
    kept, others = columns[accepted], columns[~accepted]
    matrix = np.zeros((len(kept), split.total))
    matrix[np.arange(len(kept)), kept] = 1.0
    zero, uncertain = np.full(beta.shape, NEGLIGIBLE), set(split.faint)
    if split.noise is not None:
        spread = np.linalg.norm(np.linalg.pinv(split.unit[:, accepted]), axis=1)
        zero = np.maximum(zero, CERTAIN * spread[:, None] * found.noise[~accepted])
        between = (found.residual > CERTAIN * found.noise) & (found.residual < UNCERTAIN * found.noise)
        uncertain |= {int(k) for k in columns[between | (accepted != found.accepted)]}
    beta = np.where(np.abs(beta) < zero, 0.0, beta)
    matrix[:, others] = beta * (split.norm[~accepted] / split.norm[accepted][:, None])
    rejected = found.residual[~accepted]
    noise = max(float(rejected.max()) if len(rejected) else 0.0, np.finfo(np.float64).eps)
    gap = float(found.residual[accepted].min()) / noise if len(kept) else np.inf
    regrouping = Regrouping(tuple(map(int, kept)), matrix)
    factor = np.asarray(split.unit * split.norm)
    diagnostics = Diagnostics(split.columns, found.residual, factor, split.rows, int(accepted.sum()))
    named = None if split.noise is None else tuple(sorted(uncertain))
    return NumericResult(regrouping, split.no_effect, found.residual, gap, diagnostics, named)
