"""The scaling procedure of Gautier 1991: samples for which all entries of W have about the same size.

Criterion J = l1 |W|_F + l2 S with S = max|Wij| / min|Wij| over the entries that are not structurally zero; rows
are optimised one by one from random starts and stacked. Maximum and minimum are replaced by p-norms with a
growing p, so that the adjoint kernel gives exact gradients; the reported S is the true one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize

from dynid.base.numeric import ZERO
from dynid.base.sampling import GAP, ROUNDING, Draw, Question, random_samples
from dynid.errors import LoopError, ModelError
from dynid.kernel.rows import ENERGY
from dynid.models.columns import standard_columns
from dynid.models.model import to_active
from dynid.models.power import rows_adjoint, write_rows
from dynid.models.regressor import find_model, regressor_adjoint
from dynid.models.scene import Stage
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

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
    """Optimise samples of the energy, torque or static model; energy rows are the functions h themselves."""
    if question.model not in ("energy", "torque", "static") or question.friction or question.robot.floating:
        raise ModelError("scaling is for the energy, torque and static models of robots on a fixed base")
    model = _Rows(question)
    channels = len(model(random_samples(question.robot, 2, seed))[0])
    samples = -(-rows // channels)
    starts = random_samples(question.robot, samples * _STARTS, seed)
    mask = model.mask(random_samples(question.robot, 50, seed + 1))
    best = _optimise(model, mask, starts, weights)
    W = model(best)
    chosen = _most_alike(W, mask, samples)
    random_rows = model(starts)[:samples]
    noise = None
    if question.robot.closures:
        noise = ROUNDING * np.abs(model(best, GAP) - W)[chosen].reshape(-1, W.shape[2])
    return ScaledRows(W[chosen].reshape(-1, W.shape[2]), _spread(random_rows, mask), _spread(W[chosen], mask), noise)


class _Rows:
    """Rows of a model (N, channels, columns) and their adjoint, energy as functions instead of differences."""

    def __init__(self, question: Question) -> None:
        self.question = question
        columns = standard_columns(question.robot, rotor_inertia=question.rotor_inertia)
        self.stage = Stage.of(question.robot, columns)

    def __call__(self, motion: Motion, gap: float = 0.0) -> Array:
        stage = self.stage.with_gap(gap)
        if self.question.model == "energy":
            return write_rows(stage.scene(motion), ENERGY)[:, None, :]
        model = find_model(self.question.model)
        return model.rows(stage.scene(model.seen(motion)))

    def adjoint(self, motion: Motion, weights: Array) -> tuple[Array, Array, Array]:
        q = self.question
        if q.model == "energy":
            scene = self.stage.scene(motion)
            return to_active(scene, rows_adjoint(scene, ENERGY, weights[:, 0]))
        flat = weights.reshape(-1, weights.shape[2])
        return regressor_adjoint(q.robot, motion, flat, model=q.model, rotor_inertia=q.rotor_inertia)

    def mask(self, motion: Motion) -> Array:
        """Entries that are not structurally zero (nor constant, for energy functions)."""
        W = self(motion)
        size = np.ptp(W, axis=0) if self.question.model == "energy" else np.abs(W).max(axis=0)
        mask = size > ZERO * size.max()
        mask[:, list(self.question.known)] = False
        return np.asarray(mask)


def _optimise(model: _Rows, mask: Array, start: Motion, weights: tuple[float, float]) -> Motion:
    """All rows at once: they are independent, so the sum of their criteria has a separable gradient."""
    shape = start.q.shape
    uses_a = model.question.model != "energy"
    x = np.stack([start.q, start.v, start.a])

    def objective(flat: Array, p: float) -> tuple[float, Array]:
        q, v, a = flat.reshape(3, *shape)
        motion = Motion(start.t, q, v, a)
        try:
            W = model(motion)
        except LoopError:
            return WALL, np.zeros_like(flat)
        value, slope = _criterion(W, mask, weights, p)
        gradient = np.stack(model.adjoint(motion, slope))
        if not uses_a:
            gradient[2] = 0.0
        return value, gradient.ravel()

    bounds = _bounds(model.question, len(start))
    for p in _STAGES:
        found = scipy.optimize.minimize(
            objective, x.ravel(), args=(p,), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
        )
        x = found.x.reshape(3, *shape)
    return Motion(start.t, *x)


def _bounds(question: Question, samples: int) -> scipy.optimize.Bounds:
    """Joint limits where there are some."""
    limits = question.robot.limits
    low = [np.tile(x, (samples, 1)) for x in (limits.position[:, 0], -limits.velocity, -limits.acceleration)]
    high = [np.tile(x, (samples, 1)) for x in (limits.position[:, 1], limits.velocity, limits.acceleration)]
    return scipy.optimize.Bounds(np.stack(low).ravel(), np.stack(high).ravel())


def _criterion(W: Array, mask: Array, weights: tuple[float, float], p: float) -> tuple[float, Array]:
    """Sum over samples of log(l1 |W|_F + l2 S_p), and its slope by W."""
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


def _most_alike(W: Array, mask: Array, count: int) -> list[int]:
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


def _spread(W: Array, mask: Array) -> float:
    """S of the stacked rows."""
    entries = np.abs(W[:, mask])
    return float(entries.max() / max(float(entries.min()), 1e-300))


def scaled_draw(question: Question, rows: int, seed: int, weights: tuple[float, float]) -> tuple[ScaledRows, Draw, int]:
    """Scaled rows, the matrix to factor, and how many free constant columns it ends in.

    Energy functions contain constants, so a column of ones takes part; differences would undo the scaling.
    """
    scaled = scale_rows(question, rows, seed, weights)
    if question.model != "energy":
        return scaled, Draw(scaled.matrix, scaled.noise), 0
    ones = np.ones((len(scaled.matrix), 1))
    noise = None if scaled.noise is None else np.hstack([scaled.noise, 0.0 * ones])
    return scaled, Draw(np.hstack([scaled.matrix, ones]), noise), 1
