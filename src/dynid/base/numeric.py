"""Base parameters by QR and SVD of a matrix of random samples: Gautier 1991, eq. 13-28, made sound.

The paper deletes columns by small diagonal elements of an unpivoted QR, where a dependent column leaves a
spurious direction that can swallow a later, independent one. Here columns have unit norm, are taken from left
to right, and are projected on the accepted ones only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.base.regrouping import Regrouping
from dynid.concurrency import cached_property
from dynid.robot.transform import Array

TOLERANCE = 1e-9
"""Residual of a unit column below which it depends on the accepted ones."""

ZERO = 1e-12
"""Columns below this share of the largest entry have no effect."""

ROUNDING = 1e-11
"""Coefficients between unit columns below this are zero."""


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """The columns of Gautier 1991, Table II, for the c columns with an effect, computed when asked for.

    columns: their indices; residual: what is left of each unit column after the accepted ones, on which the
    decision rests; factor: R of the unscaled columns; rows: how many rows they had.
    """

    columns: tuple[int, ...]
    residual: Array
    factor: Array
    rows: int

    @cached_property
    def T(self) -> Array:  # noqa: N802
        """Diagonal of the triangular factor with column pivoting (eq. 14)."""
        _, T, _ = scipy.linalg.qr(self.factor, pivoting=True, mode="economic")
        return np.diag(T)

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
        return np.asarray(Vt[int((self.residual > TOLERANCE).sum()) :].T)

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
    """Regrouping found in a matrix, with no_effect columns, residuals of all columns and the gap."""

    regrouping: Regrouping
    no_effect: tuple[int, ...]
    residual: Array
    gap: float
    diagnostics: Diagnostics


def find_by_qr(W: Array, *, left_out: tuple[int, ...] = (), offsets: int = 0) -> NumericResult:
    """Base columns of W by QR; the last `offsets` columns are free constants that are projected out first."""
    split = _split(W, left_out, offsets)
    residual = _residuals(split.unit)
    accepted = residual > TOLERANCE
    R1, R2 = split.unit[:, accepted], split.unit[:, ~accepted]
    Q, R = np.linalg.qr(R1)
    beta = scipy.linalg.solve_triangular(R, Q.T @ R2) if R2.shape[1] else np.zeros((R1.shape[1], 0))
    return _result(split, accepted, beta, residual)


def find_by_svd(W: Array, *, left_out: tuple[int, ...] = (), offsets: int = 0) -> NumericResult:
    """Base columns of W by SVD: rows of the null space V2 are deleted from the last upwards (eq. 26-28)."""
    split = _split(W, left_out, offsets)
    _, sigma, Vt = np.linalg.svd(split.unit)
    sigma = np.concatenate([sigma, np.zeros(len(Vt) - len(sigma))])
    V2 = Vt[sigma <= TOLERANCE * sigma[0]].T
    kept_of_null = _residuals(V2[::-1].T)[::-1] > TOLERANCE  # the last regular rows of V2
    accepted = ~kept_of_null
    V21, V22 = V2[accepted], V2[kept_of_null]
    beta = -np.linalg.solve(V22.T, V21.T).T if len(V22) else np.zeros((int(accepted.sum()), 0))
    return _result(split, accepted, beta, _residuals(split.unit))


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """Columns with an effect, scaled to unit norm and reduced to their triangular factor."""

    total: int
    columns: tuple[int, ...]
    no_effect: tuple[int, ...]
    norm: Array
    unit: Array
    rows: int


def _split(W: Array, left_out: tuple[int, ...], offsets: int) -> _Split:
    total = W.shape[1] - offsets
    if offsets:
        Q, _ = np.linalg.qr(W[:, total:])
        W = W[:, :total] - Q @ (Q.T @ W[:, :total])
    largest = np.abs(W).max(axis=0)
    silent = largest <= ZERO * largest.max()
    columns = tuple(k for k in range(total) if not silent[k] and k not in left_out)
    raw = W[:, columns]
    norm = np.linalg.norm(raw, axis=0)
    unit = np.asarray(np.linalg.qr(raw / norm, mode="r"))
    no_effect = tuple(k for k in range(total) if silent[k] and k not in left_out)
    return _Split(total, columns, no_effect, norm, unit, len(raw))


def _residuals(A: Array) -> Array:
    """What is left of each column of A, left to right, after those accepted before it; reorthogonalised once."""
    Q = np.zeros((A.shape[0], min(A.shape)))
    residual = np.zeros(A.shape[1])
    count = 0
    for k in range(A.shape[1]):
        x = A[:, k]
        for _ in range(2):
            x = x - Q[:, :count] @ (Q[:, :count].T @ x)
        size = float(np.linalg.norm(x))
        residual[k] = size
        if size > TOLERANCE and count < Q.shape[1]:
            Q[:, count] = x / size
            count += 1
    return residual


def _result(split: _Split, accepted: NDArray[np.bool_], beta: Array, residual: Array) -> NumericResult:
    columns = np.array(split.columns, dtype=np.int64)
    kept, others = columns[accepted], columns[~accepted]
    matrix = np.zeros((len(kept), split.total))
    matrix[np.arange(len(kept)), kept] = 1.0
    beta = np.where(np.abs(beta) < ROUNDING, 0.0, beta)
    matrix[:, others] = beta * (split.norm[~accepted] / split.norm[accepted][:, None])
    rejected = residual[~accepted]
    noise = max(float(rejected.max()) if len(rejected) else 0.0, np.finfo(np.float64).eps)
    gap = float(residual[accepted].min()) / noise if len(kept) else np.inf
    regrouping = Regrouping(tuple(map(int, kept)), matrix)
    diagnostics = Diagnostics(split.columns, residual, np.asarray(split.unit * split.norm), split.rows)
    return NumericResult(regrouping, split.no_effect, residual, gap, diagnostics)
