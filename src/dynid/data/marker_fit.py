"""Joint positions from markers: followed along the motion, adjusted together with what all frames share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.data.marker_rows import Carried, Rows, damped, marker_rows, names_of
from dynid.errors import DynidError
from dynid.robot.transform import Array, rotation_about

CHUNK = 512
NEAR = 0.6
"""How far (rad) from its start a frame may be found before the next start is taken."""

STEPS = 60
ROUGH = 1e-4
FRAMES = 300
"""Frames that are adjusted together."""

UNSEEN = 1e-7
"""Share of the largest singular value squared below which a direction counts as not shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What all frames share: offsets (m, 3), turn (3, 3) and shift (3,) of the camera, covariance per unit variance.

    unknown: the offsets that were adjusted; variance: of one coordinate (m^2), NaN where nothing is left to judge it.
    misfit: root mean square of a coordinate (m) in the known posture.
    """

    offsets: Array
    turn: Array
    shift: Array
    unknown: NDArray[np.bool_]
    camera: bool
    covariance: Array
    variance: float
    misfit: float


def solve_frames(carried: Carried, q: Array, x: Array, offsets: Array, tolerance: float = 1e-10) -> Array:
    """Least squares of every frame by itself from its own start (Gauss-Newton with limited steps, rad and m)."""
    q = q.copy()
    moving = np.arange(len(q))
    for _ in range(STEPS):
        rows = marker_rows(carried, q[moving], x[moving], offsets)
        dq = np.linalg.solve(damped(rows.information), rows.gradient[..., None])[..., 0] * carried.free
        size = np.abs(dq).max(axis=1)
        q[moving] += dq * np.minimum(1.0, 0.5 / np.maximum(size, 1e-300))[:, None]
        moving = moving[size > tolerance]
        if not len(moving):
            break
    return q


def follow(carried: Carried, x: Array, offsets: Array, start: Array, first: int) -> Array:
    """Positions (N, n) of all frames, each started from one nearby, forwards and backwards from the known posture."""
    q = np.empty((len(x), len(start)))
    q[first:] = _follow(carried, x[first:], offsets, start)
    q[: first + 1] = _follow(carried, x[: first + 1][::-1], offsets, start)[::-1]
    return q


def _follow(carried: Carried, x: Array, offsets: Array, start: Array) -> Array:
    turns = np.array([carried.robot.links[k].kind == "revolute" for k in carried.robot.tree_joints])
    q = np.empty((len(x), len(start)))
    done, size = 0, 32
    while done < len(x):
        part = x[done : done + size]
        found = solve_frames(carried, np.tile(start, (len(part), 1)), part, offsets, ROUGH)
        far = (np.abs(found - start) > NEAR)[:, turns].any(axis=1)
        good = int(far.argmax()) if far.any() else len(part)
        size = min(2 * size, CHUNK) if good == len(part) else max(good, 4)
        good = max(good, 1)
        q[done : done + good] = found[:good]
        start, done = found[good - 1], done + good
    return q


def adjust(carried: Carried, q: Array, x: Array, held: NDArray[np.bool_], shared: Shared) -> Shared:
    """Adjust offsets, camera and the joint positions of some frames together, those of held frames kept.

    Gauss-Newton with the joints of every frame eliminated first (an arrow matrix), steps halved where they overshoot.
    """
    turn, shift, offsets = shared.turn, shared.shift, shared.offsets
    best = np.inf
    step: tuple[Array, Array] | None = None
    for _ in range(STEPS):
        rows = marker_rows(carried, q, x @ turn.T + shift, offsets)
        cost = float((rows.e**2).sum())
        if step is not None and cost > best * (1.0 + 1e-9) + 1e-26:
            dq, ds = (-0.5 * part for part in step)  # back by half of the last step
            q, offsets, turn, shift = _stepped(shared, q + dq, offsets, turn, shift, ds)
            step = (-dq, -ds)
            continue
        best = cost
        normal = _Arrow.of(carried, rows, held, shared)
        dq, ds = normal.step()
        q, offsets, turn, shift = _stepped(shared, q + dq, offsets, turn, shift, ds)
        step = (dq, ds)
        if max(np.abs(dq).max(initial=0.0), np.abs(ds).max(initial=0.0)) < 1e-12:
            break
    rows = marker_rows(carried, q, x @ turn.T + shift, offsets)
    normal = _Arrow.of(carried, rows, held, shared)
    normal.refuse_open_zeros(carried)
    freedom = 3 * int(rows.seen.sum()) - int(carried.free.sum()) * int((~held).sum()) - normal.rank
    variance = float((rows.e**2).sum()) / freedom if freedom > 0 else np.nan
    misfit = float(np.sqrt((rows.e[held] ** 2).sum() / max(3 * int(rows.seen[held].sum()), 1)))
    return Shared(offsets, turn, shift, shared.unknown, shared.camera, normal.covariance, variance, misfit)


def _stepped(
    shared: Shared, q: Array, offsets: Array, turn: Array, shift: Array, ds: Array
) -> tuple[Array, Array, Array, Array]:
    offsets = offsets.copy()
    offsets[shared.unknown] += ds[: 3 * int(shared.unknown.sum())].reshape(-1, 3)
    if shared.camera:
        angle = float(np.linalg.norm(ds[-6:-3]))
        D = rotation_about(ds[-6:-3] / angle, angle) if angle > 0.0 else np.eye(3)
        turn, shift = D @ turn, D @ shift + ds[-3:]
    return q, offsets, turn, shift


@dataclass(frozen=True, slots=True, eq=False)
class _Arrow:
    """Normal equations with the frames' own unknowns eliminated: S ds = s, dq = own - back ds."""

    S: Array
    s: Array
    own: Array
    back: Array

    @staticmethod
    def of(carried: Carried, rows: Rows, held: NDArray[np.bool_], shared: Shared) -> _Arrow:
        A, g, H = rows.information, rows.gradient, rows.shared(shared.unknown, shared.camera)
        J = rows.J.reshape(len(H), -1, A.shape[1])
        e = rows.e.reshape(len(H), -1)
        free = carried.free[None, :] & ~held[:, None]
        B = J.transpose(0, 2, 1) @ H
        both = np.linalg.solve(damped(A), np.concatenate([g[..., None], B], axis=2)) * free[..., None]
        own, back = both[..., 0], both[..., 1:]
        S = np.einsum("nrs,nrt->st", H, H, optimize=True) - np.einsum("njs,njt->st", B, back, optimize=True)
        s = np.einsum("nrs,nr->s", H, e) - np.einsum("njs,nj->s", B, own)
        return _Arrow(0.5 * (S + S.T), s, own, back)

    def _modes(self) -> tuple[Array, Array, NDArray[np.bool_]]:
        scale = 1.0 / np.sqrt(np.maximum(np.diag(self.S), 1e-300))
        values, vectors = np.linalg.eigh(self.S * np.outer(scale, scale))
        return values, vectors * scale[:, None], values > UNSEEN * values.max(initial=0.0)

    @property
    def rank(self) -> int:
        """How many shared unknowns the frames determine."""
        return int(self._modes()[2].sum())

    @property
    def covariance(self) -> Array:
        """Covariance of the shared unknowns per unit variance; what changes nothing that is seen stays as it is."""
        values, V, shown = self._modes()
        return np.asarray((V[:, shown] / values[shown]) @ V[:, shown].T)

    def step(self) -> tuple[Array, Array]:
        """Steps of the frames' joint positions and of what they share."""
        ds = self.covariance @ self.s
        return self.own - self.back @ ds, ds

    def refuse_open_zeros(self, carried: Carried) -> None:
        """Raise where joint positions can shift together with what the frames share."""
        _, V, shown = self._modes()
        open_ways = V[:, ~shown] / np.maximum(np.linalg.norm(V[:, ~shown], axis=0), 1e-300)
        moved = np.abs(self.back @ open_ways).max(axis=(0, 2), initial=0.0) > 1e-3
        if moved.any():
            raise DynidError(
                f"markers leave the zero of joint {names_of(carried, moved)} open: "
                "show more of them in the known posture, or give their offsets or the camera's pose"
            )


def chunks(count: int) -> Iterator[slice]:
    """Slices of bounded length over all frames."""
    return (slice(k, min(k + CHUNK, count)) for k in range(0, count, CHUNK))
