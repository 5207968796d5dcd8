"""Base parameters by QR and SVD of a matrix of random samples: Gautier 1991, eq. 13-17, 21-23, 26, 27, made sound.

The paper deletes columns by small diagonal elements of an unpivoted QR, where a dependent column leaves a
spurious direction that can swallow a later, independent one. Here columns have unit norm, are taken from left
to right, and are projected on the accepted ones only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.identifiability.relations import Regrouping
from dynid.robot.transform import Array

TOLERANCE = 1e-9
"""Residual of a unit column below which it depends on the accepted ones."""

ZERO = 1e-12
"""Columns below this share of the largest entry have no effect."""

ROUNDING = 1e-11
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
    found = _accept_columns(split.unit, split.noise)
    R1, R2 = split.unit[:, found.accepted], split.unit[:, ~found.accepted]
    Q, R = np.linalg.qr(R1)
    beta = scipy.linalg.solve_triangular(R, Q.T @ R2) if R2.shape[1] else np.zeros((R1.shape[1], 0))
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
    while (kept_of_null := _accept_columns(rows, None, tolerance).accepted[::-1]).sum() < V2.shape[1]:
        tolerance *= 0.1
    accepted = ~kept_of_null  # kept_of_null: the last regular rows of V2
    V21, V22 = V2[accepted], V2[kept_of_null]
    beta = -np.linalg.solve(V22.T, V21.T).T if len(V22) else np.zeros((int(accepted.sum()), 0))
    return _result_of_columns(split, _accept_columns(split.unit, split.noise), accepted, beta)


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


def _accept_columns(A: Array, noise: Array | None, tolerance: float = TOLERANCE) -> _AcceptedColumns:
    """Accept columns of A, left to right, that those accepted before do not explain; reorthogonalised once.

    The noise of what is left of a column is its own and that of the accepted ones, as much of each as it contains.
    """
    most = min(A.shape)
    Q, R = np.zeros((A.shape[0], most)), np.zeros((most, most))
    residual, level = np.zeros((2, A.shape[1]))
    taken: list[int] = []
    for k in range(A.shape[1]):
        x, count = A[:, k], len(taken)
        share = np.zeros(count)
        for _ in range(2):
            part = Q[:, :count].T @ x
            x, share = x - Q[:, :count] @ part, share + part
        residual[k] = np.linalg.norm(x)
        if noise is not None:
            beta = scipy.linalg.solve_triangular(R[:count, :count], share) if count else share
            level[k] = noise[k] + np.abs(beta) @ noise[taken]
        if residual[k] > (tolerance if noise is None else _DECISION * level[k]) and count < most:
            Q[:, count] = x / residual[k]
            R[:count, count], R[count, count] = share, residual[k]
            taken.append(k)
    accepted = np.zeros(A.shape[1], dtype=np.bool_)
    accepted[taken] = True
    return _AcceptedColumns(accepted, residual, level)


def _result_of_columns(
    split: _ScaledColumns, found: _AcceptedColumns, accepted: NDArray[np.bool_], beta: Array
) -> NumericResult:
    """Numeric result of the accepted columns; beta gives the others in terms of them."""
    columns = np.array(split.columns, dtype=np.int64)
    kept, others = columns[accepted], columns[~accepted]
    matrix = np.zeros((len(kept), split.total))
    matrix[np.arange(len(kept)), kept] = 1.0
    zero, uncertain = np.full(beta.shape, ROUNDING), set(split.faint)
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
