"""Robots of unknown geometry: columns of model parameters X (Ha, Ko & Kwon) in place of base parameters.

Everything else is the same: friction, filters, factors, weights, gate, deviations, recursion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.scene import Column
from dynid.errors import IdentificationError
from dynid.estimation.regression.equation import CHUNK, Indices
from dynid.identifiability.numeric import Question
from dynid.identifiability.parameters import BaseParameters
from dynid.identifiability.relations import Regrouping
from dynid.messages import Option
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.model_parameters import ModelParameters, model_parameters

if TYPE_CHECKING:  # a result holds an equation, which is made from these columns
    from dynid.estimation.identification import Identification


@dataclass(frozen=True, slots=True, eq=False)
class UnknownGeometryQuestion(Question):
    """Columns are the model parameters."""

    found: ModelParameters | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the model parameters; the link that each names has no meaning."""
        assert self.found is not None
        return tuple(Column(name, -1) for name in self.found.names)

    @property
    def known_zero_columns(self) -> tuple[int, ...]:
        """No columns: known zeros are left out of the model parameters already."""
        return ()


@dataclass(frozen=True, eq=False)
class UnknownGeometryParameters(BaseParameters):
    """Model parameters in the place of base parameters."""

    @property
    def found(self) -> ModelParameters:
        """The model parameters."""
        assert isinstance(self.question, UnknownGeometryQuestion)
        assert self.question.found is not None
        return self.question.found

    @cached_property
    def matrix(self) -> Array:
        """(count, standard parameters) at the nominal geometry."""
        return self.found.matrix()

    def values(self, X: Array) -> Array:
        """Values at the nominal geometry from standard parameters in the table's frames."""
        return self.found.values(self.robot.to_mdh().with_parameters(X))

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Text of every model parameter in standard parameters and unknowns."""
        return self.found.expressions


@lru_cache(maxsize=16)
def find_model_parameters(robot: Robot, unknown: tuple[str, ...], rotor_inertia: bool) -> UnknownGeometryParameters:
    """Find the model parameters; results are cached by robot."""
    found = model_parameters(robot, unknown=unknown, rotor_inertia=rotor_inertia)
    question = UnknownGeometryQuestion(robot, "torque", rotor_inertia, False, (), found)
    regrouping = Regrouping(tuple(range(found.count)), np.eye(found.count))
    return UnknownGeometryParameters(question, "unknown geometry", regrouping, np.inf, None, found.warnings)


@dataclass(frozen=True, slots=True, eq=False)
class ModelColumns:
    """Columns of model parameters in the place of those of base parameters."""

    found: ModelParameters

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of unknown lengths and angles of the geometry, as they were declared."""
        return self.found.declared

    @property
    def support(self) -> NDArray[np.bool_]:
        """Mask (n, columns) of the columns that a joint's torque can see."""
        return self.found.tables.support

    def write_picked_entries(self, motion: Motion, pick: Indices, place: Indices, wide: Array) -> None:
        """Write the picked entries of the rows along a motion into wide rows."""
        for start in range(0, len(motion), CHUNK):
            part = slice(start, min(start + CHUNK, len(motion)))
            wide[part, place] = self._rows_of_model(motion[part], "torque")[:, pick]

    def momentum_and_lagrangian_gradient(self, motion: Motion, pick: Indices) -> tuple[Array, Array]:
        """Momentum dL/dqd and gradient dL/dq of the picked entries."""
        return self._rows_of_model(motion, "momentum")[:, pick], self._rows_of_model(motion, "lagrangian_gradient")[
            :, pick
        ]

    def _rows_of_model(self, motion: Motion, model: str) -> Array:
        """Rows (N, joints * columns) of "torque", "momentum" or "lagrangian_gradient"."""
        rows = np.empty((len(motion), len(self.support), self.found.count))
        self.found.write(motion, rows, model=model)
        return rows.reshape(len(motion), -1)


# From model parameters back to lengths: what of them follows, with intervals.


STEPS = 100
FAR = 5.0
"""Largest lengths of the robot by which a length may leave its nominal value; beyond, the data do not tell it."""


@dataclass(frozen=True, slots=True, eq=False)
class RecoveredGeometry:
    """Products of unknown lengths that follow from identified model parameters.

    names, values, sigma, intervals (k, 2), nominal: of the products, in powers of m. undetermined: what would follow
    but for the noise of these values; it is held at its nominal value. hidden: lengths of which nothing follows;
    others: functions that are not products. misfit: root mean square, in standard deviations, of what is left of the
    model parameters beyond what any inertias and lengths explain; freedom: how many such residuals there are.
    """

    names: tuple[str, ...]
    values: Array
    sigma: Array
    intervals: Array
    nominal: Array
    undetermined: tuple[str, ...]
    hidden: tuple[str, ...]
    others: int
    misfit: float
    freedom: int


def recover_geometry(
    found: ModelParameters, X: Array, covariance: Array, *, known: Mapping[str, float] | None = None,
    quantile: float = 1.96,
) -> RecoveredGeometry:  # fmt: skip
    """Recover what of the unknown lengths follows from model parameters, by inverting X = M(l) V.

    Parameters
    ----------
    found : ModelParameters
        With its unknown lengths l.
    X, covariance : Array
        Values (m,) of the model parameters and their covariance (m, m); entries that are not finite are left out.
    known : Mapping[str, float], optional
        Standard parameters V, in the frames of `robot.to_mdh()`, that are known besides: they make more of l visible.
    quantile : float
        Half width of the intervals in standard deviations.

    Notes
    -----
    Weighted least squares over l and V; V is eliminated, since X is linear in it (variable projection). It starts from
    the nominal lengths and needs them only as a start, and for what does not follow.

    """
    known = dict(known or {})
    what = found.recoverable_lengths(known=known)
    nominal = np.array(list(found.form.shape.lengths.values()), dtype=np.float64)
    far = FAR * max(1e-3, _largest_length(found))
    seen = np.isfinite(X) & np.isfinite(np.diag(covariance)) & (np.diag(covariance) > 0.0)
    fit = _LengthFit(found, X, _inverse_root(covariance[np.ix_(seen, seen)]), seen, known)
    pivots = [next(k for k, n in enumerate(powers) if n) for powers in what.products]
    held: list[int] = []
    while True:
        free = [k for k in pivots if k not in held]
        lengths, r, J = fit.solve(nominal, free)
        away = [k for k in free if abs(lengths[k] - nominal[k]) > far]
        if not away:
            break
        held.append(max(away, key=lambda k: abs(lengths[k] - nominal[k])))
    freedom = int(seen.sum()) - fit.rank(lengths) - len(free)
    misfit = float(np.sqrt(r @ r / freedom)) if freedom > 0 else 0.0
    size = np.linalg.norm(J, axis=0)
    C = np.linalg.pinv((J / size).T @ (J / size)) / np.outer(size, size) * max(1.0, misfit) ** 2
    products = [
        (text, powers) for text, powers, k in zip(what.texts, what.products, pivots, strict=True) if k not in held
    ]
    values, start = (np.array([np.prod(x ** np.array(p)) for _, p in products]) for x in (lengths, nominal))
    slopes = np.zeros((len(products), len(free)))
    for i, (_, p) in enumerate(products):
        for j, k in enumerate(free):
            if p[k]:
                others = np.prod([x**n for m, (x, n) in enumerate(zip(lengths, p, strict=True)) if m != k and n])
                slopes[i, j] = p[k] * lengths[k] ** (p[k] - 1) * others
    sigma = np.sqrt(np.diag(slopes @ C @ slopes.T))
    half = quantile * sigma
    undetermined = tuple(text for text, k in zip(what.texts, pivots, strict=True) if k in held)
    return RecoveredGeometry(
        tuple(text for text, _ in products), values, sigma, np.stack([values - half, values + half], axis=-1), start,
        undetermined, what.hidden, what.others, misfit, max(freedom, 0),
    )  # fmt: skip


def _largest_length(found: ModelParameters) -> float:
    """Largest length of the robot's table, m."""
    rows = [link.mdh for link in found.form.shape.robot.links if link.mdh is not None]
    return max((abs(x.value) for row in rows for x in (row.b, row.d, row.r)), default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class _LengthFit:
    """Weighted least squares of X = M(l) V over lengths l and inertias V, of which the latter are eliminated.

    weight: root of the information of the model parameters that are `seen`; known: values of inertias.
    """

    found: ModelParameters
    X: Array
    weight: Array
    seen: NDArray[np.bool_]
    known: Mapping[str, float]

    def solve(self, start: Array, free: list[int]) -> tuple[Array, Array, Array]:
        """Lengths, residuals in standard deviations and their derivative by the free lengths (Levenberg, Marquardt)."""
        lengths, damping = start.copy(), 1e-3
        r, J = self._residual(lengths, free)
        for _ in range(STEPS if free else 0):
            H = J.T @ J
            step = np.linalg.lstsq(H + damping * np.diag(np.diag(H)), -J.T @ r, rcond=None)[0]
            tried = lengths.copy()
            tried[free] += step
            r_tried, J_tried = self._residual(tried, free)
            if r_tried @ r_tried <= r @ r:
                lengths, r, J, damping = tried, r_tried, J_tried, 0.3 * damping
                if np.abs(step).max() < 1e-13 * max(1.0, float(np.abs(lengths).max())):
                    break
            elif (damping := 5.0 * damping) > 1e12:
                break
        return lengths, r, J

    def rank(self, lengths: Array) -> int:
        """Rank of the inertias' columns."""
        A = self._columns(self.found.matrix_and_slopes(lengths)[0])[0]
        return int(np.linalg.matrix_rank(A, tol=1e-10 * np.linalg.norm(A, 2)))

    def _columns(self, M: Array) -> tuple[Array, Array, list[int], Array]:
        """Weighted columns of the free inertias and right side, which inertias are free, and the known values."""
        place = {str(name): k for k, name in enumerate(self.found.form.shape.robot.parameter_names)}
        given = np.zeros(len(place))
        given[[place[name] for name in self.known]] = list(self.known.values())
        free = [k for k in range(len(place)) if k not in {place[name] for name in self.known}]
        A, y = self.weight @ M[self.seen][:, free], self.weight @ (self.X - M @ given)[self.seen]
        return A, y, free, given

    def _residual(self, lengths: Array, free: list[int]) -> tuple[Array, Array]:
        """What no V explains of X, and its derivative by the free lengths (variable projection, Kaufman 1975)."""
        M, slopes = self.found.matrix_and_slopes(lengths)
        A, y, inertias, V = self._columns(M)
        U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
        rank = int((sigma > 1e-10 * sigma[0]).sum())
        U = U[:, :rank]
        V[inertias] = Vt[:rank].T @ ((U.T @ y) / sigma[:rank])
        r = y - U @ (U.T @ y)
        J = np.array([-(self.weight @ (slopes[k] @ V)[self.seen]) for k in free]).reshape(len(free), len(r)).T
        return r, J - U @ (U.T @ J)


def recover_geometry_of_result(
    result: Identification, *, known: Mapping[str, float] | None = None
) -> RecoveredGeometry:
    """Recover lengths from a result with unknown geometry.

    The jackknife's covariance has fewer directions than there are parameters; so correlations are those of the
    factors, as of white residuals, and standard deviations those of the result.
    """
    base = result.equation.base
    if not isinstance(base, UnknownGeometryParameters):
        raise IdentificationError(
            "geometry_was_known", "the geometry of '{robot}' was known to this identification",
            "identify with {unknown}", robot=base.robot.name, unknown=Option("unknown", ("r",)),
        )  # fmt: skip
    parts = [f.R[:, :-1] / s for of_log in result.factors for f, s in zip(of_log, result.noise, strict=True)]
    R = np.linalg.qr(np.concatenate(parts))[1]
    kept = np.isfinite(result.sigma) & (result.sigma > 0.0) & np.isfinite(result.white_sigma)
    inverse = np.linalg.pinv(R[:, kept])
    spread = inverse @ inverse.T
    own = np.sqrt(np.diag(spread))
    C = np.full((len(kept), len(kept)), np.nan)
    C[np.ix_(kept, kept)] = spread * np.outer(result.sigma[kept] / own, result.sigma[kept] / own)
    n = base.count
    return recover_geometry(base.found, result.values[:n], C[:n, :n], known=known, quantile=result.quantile)


def _inverse_root(C: Array) -> Array:
    """W with W' W = C^-1 on the space where C is not singular."""
    scale = np.sqrt(np.diag(C))
    values, vectors = np.linalg.eigh(C / np.outer(scale, scale))
    good = values > 1e-10 * values[-1]
    return np.asarray((vectors[:, good] / np.sqrt(values[good])).T / scale)
