"""Joint positions from markers: followed along the motion, adjusted together with what all frames share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.geometry import link_poses
from dynid.errors import DynidError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, rotation_about

# Markers on the links, linearised: where joint positions, marker offsets and the camera put them.
#
# A marker seen at x (frame 0) sits at R'(x - p) in the frame of its link, which must be its offset o at every instant:
# e = R'(x - p) - o. All frames of a motion at once; hidden markers have no rows.


DAMPING = 1e-10
"""Relative, so that joints which a frame does not show stay where they are."""


@dataclass(frozen=True, slots=True, eq=False)
class MarkerCarriers:
    """A robot and which link carries each marker (-1: its base); free: joints that some marker shows."""

    robot: Robot
    links: tuple[int, ...]
    free: NDArray[np.bool_]

    @staticmethod
    def of(robot: Robot, links: tuple[int, ...]) -> MarkerCarriers:
        """Find which joints are below some marker."""
        below = {k for link in links for k in links_down_to_base(robot, link)}
        return MarkerCarriers(robot, links, np.array([k in below for k in robot.tree_joints]))


@dataclass(frozen=True, slots=True, eq=False)
class MarkerRows:
    """Linear rows e - J dq - H ds of some frames, zero where a marker is hidden.

    e (N, m, 3); J (N, m, 3, n); R (N, m, 3, 3) rotation of the marker's link; x (N, m, 3); seen (N, m). Where markers
    have covariances, e and J are weighted by M (N, m, 3, 3); distance is e in m in any case.
    """

    e: Array
    J: Array
    R: Array
    x: Array
    seen: NDArray[np.bool_]
    distance: Array
    M: Array | None = None

    @property
    def information(self) -> Array:
        """J'J of every frame, (N, n, n)."""
        J = self.J.reshape(len(self.J), -1, self.J.shape[-1])
        return np.asarray(J.transpose(0, 2, 1) @ J)

    @property
    def gradient(self) -> Array:
        """J'e of every frame, (N, n)."""
        J = self.J.reshape(len(self.J), -1, self.J.shape[-1])
        return np.asarray((J.transpose(0, 2, 1) @ self.e.reshape(len(J), -1, 1))[..., 0])

    def shared(self, unknown: NDArray[np.bool_], camera: bool) -> Array:
        """H (N, m * 3, s): by unknown offsets, then by a small turn and shift of the camera in frame 0."""
        N, m = self.seen.shape
        columns = np.zeros((N, m, 3, 3 * int(unknown.sum()) + 6 * camera))
        for place, k in enumerate(np.flatnonzero(unknown)):
            columns[:, k, :, 3 * place : 3 * place + 3] = self.seen[:, k, None, None] * np.eye(3)
        if camera:
            Rt = -self.R.transpose(0, 1, 3, 2) * self.seen[..., None, None]
            turn = np.stack([np.cross(axis, self.x) for axis in np.eye(3)], axis=-1)
            columns[..., -6:-3], columns[..., -3:] = Rt @ turn, Rt
        if self.M is not None:
            columns = self.M @ columns
        return columns.reshape(N, 3 * m, -1)


def links_down_to_base(robot: Robot, link: int) -> tuple[int, ...]:
    """The link itself and all before it, without the base."""
    found = []
    while link >= 0:
        found.append(link)
        link = robot.links[link].parent
    return tuple(found)


def has_all_coordinates(x: Array) -> NDArray[np.bool_]:
    """Whether all three coordinates are there, for every point."""
    return np.asarray(np.isfinite(x).all(axis=-1))


def joint_names_of(carried: MarkerCarriers, which: NDArray[np.bool_]) -> list[str]:
    """Joints by a mask (n,), for messages."""
    return [carried.robot.links[k].joint for k, yes in zip(carried.robot.tree_joints, which, strict=True) if yes]


def local_positions(carried: MarkerCarriers, q: Array, x: Array) -> Array:
    """Markers (N, m, 3) seen from the links that carry them, NaN where hidden."""
    poses = link_poses(carried.robot, q)
    R = np.stack([poses.rotation[k] for k in carried.links], axis=1)
    p = np.stack([poses.position[k] for k in carried.links], axis=1)
    return np.asarray((R.transpose(0, 1, 3, 2) @ (x - p)[..., None])[..., 0])


def marker_rows(
    carried: MarkerCarriers, q: Array, x: Array, offsets: Array, weights: Array | None = None
) -> MarkerRows:
    """Rows at joint positions q (N, n), markers x (N, m, 3) in frame 0 and offsets (m, 3), NaN where not known yet.

    weights (N, m, 3, 3): of what markers miss in frame 0.
    """
    robot, links = carried.robot, carried.links
    poses = link_poses(robot, q)
    N, m, n = len(q), len(links), len(robot.tree_joints)
    R = np.stack([poses.rotation[k] for k in links], axis=1)
    p = np.stack([poses.position[k] for k in links], axis=1)
    seen = has_all_coordinates(x) & has_all_coordinates(offsets)
    x = np.where(seen[..., None], x, p)
    J = np.zeros((N, m, 3, n))
    for j, k in enumerate(robot.tree_joints):
        carriers = [i for i, link in enumerate(links) if k in links_down_to_base(robot, link)]
        if not carriers:
            continue
        axis = poses.rotation[k] @ robot.links[k].axis
        if robot.links[k].kind == "revolute":
            J[..., j][:, carriers] = np.cross(axis[:, None], x[:, carriers] - poses.position[k][:, None])
        else:
            J[..., j][:, carriers] = axis[:, None]
    Rt = R.transpose(0, 1, 3, 2)
    J = (Rt @ J) * seen[..., None, None]
    e = np.where(seen[..., None], (Rt @ (x - p)[..., None])[..., 0] - np.nan_to_num(offsets), 0.0)
    if weights is None:
        return MarkerRows(e, J, R, x, seen, e)
    M = weights @ R
    return MarkerRows((M @ e[..., None])[..., 0], M @ J, R, x, seen, e, M)


def make_invertible(A: Array) -> Array:
    """Information matrices that can be inverted: directions that a frame does not show get a little."""
    size = np.einsum("nii->ni", A)
    floor = DAMPING * np.maximum(size.max(axis=1, keepdims=True), 1e-300)
    return np.asarray(A + np.einsum("ni,ij->nij", np.maximum(DAMPING * size, floor), np.eye(A.shape[1])))


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
class SharedUnknowns:
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


def solve_frames(
    carried: MarkerCarriers,
    q: Array,
    x: Array,
    offsets: Array,
    tolerance: float = 1e-10,
    *,
    weights: Array | None = None,
) -> Array:
    """Least squares of every frame by itself from its own start (Gauss-Newton with limited steps, rad and m)."""
    q = q.copy()
    moving = np.arange(len(q))
    for _ in range(STEPS):
        rows = marker_rows(carried, q[moving], x[moving], offsets, None if weights is None else weights[moving])
        dq = np.linalg.solve(make_invertible(rows.information), rows.gradient[..., None])[..., 0] * carried.free
        size = np.abs(dq).max(axis=1)
        q[moving] += dq * np.minimum(1.0, 0.5 / np.maximum(size, 1e-300))[:, None]
        moving = moving[size > tolerance]
        if not len(moving):
            break
    return q


def follow_frames(carried: MarkerCarriers, x: Array, offsets: Array, start: Array, first: int) -> Array:
    """Positions (N, n) of all frames, each started from one nearby, forwards and backwards from the known posture."""
    q = np.empty((len(x), len(start)))
    q[first:] = _follow_forwards(carried, x[first:], offsets, start)
    q[: first + 1] = _follow_forwards(carried, x[: first + 1][::-1], offsets, start)[::-1]
    return q


def _follow_forwards(carried: MarkerCarriers, x: Array, offsets: Array, start: Array) -> Array:
    """Joint positions of successive frames, each started from the frame before."""
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


def adjust_shared(
    carried: MarkerCarriers, q: Array, x: Array, held: NDArray[np.bool_], shared: SharedUnknowns,
    weights: Array | None = None,
) -> SharedUnknowns:  # fmt: skip
    """Adjust offsets, camera and the joint positions of some frames together, those of held frames kept.

    weights (N, m, 3, 3): of what markers miss in the measuring frame.

    Gauss-Newton with the joints of every frame eliminated first (an arrow matrix), steps halved where they overshoot.
    """
    turn, shift, offsets = shared.turn, shared.shift, shared.offsets
    best = np.inf
    step: tuple[Array, Array] | None = None
    for _ in range(STEPS):
        rows = marker_rows(carried, q, x @ turn.T + shift, offsets, None if weights is None else weights @ turn.T)
        cost = float((rows.e**2).sum())
        if step is not None and cost > best * (1.0 + 1e-9) + 1e-26:
            dq, ds = (-0.5 * part for part in step)  # back by half of the last step
            q, offsets, turn, shift = _apply_shared_step(shared, q + dq, offsets, turn, shift, ds)
            step = (-dq, -ds)
            continue
        best = cost
        normal = _ReducedNormalEquations.of(carried, rows, held, shared)
        dq, ds = normal.step()
        q, offsets, turn, shift = _apply_shared_step(shared, q + dq, offsets, turn, shift, ds)
        step = (dq, ds)
        if max(np.abs(dq).max(initial=0.0), np.abs(ds).max(initial=0.0)) < 1e-12:
            break
    rows = marker_rows(carried, q, x @ turn.T + shift, offsets, None if weights is None else weights @ turn.T)
    normal = _ReducedNormalEquations.of(carried, rows, held, shared)
    normal.refuse_undetermined_zero_positions(carried)
    freedom = 3 * int(rows.seen.sum()) - int(carried.free.sum()) * int((~held).sum()) - normal.rank
    variance = float((rows.e**2).sum()) / freedom if freedom > 0 else np.nan
    misfit = float(np.sqrt((rows.distance[held] ** 2).sum() / max(3 * int(rows.seen[held].sum()), 1)))
    return SharedUnknowns(offsets, turn, shift, shared.unknown, shared.camera, normal.covariance, variance, misfit)


def _apply_shared_step(
    shared: SharedUnknowns, q: Array, offsets: Array, turn: Array, shift: Array, ds: Array
) -> tuple[Array, Array, Array, Array]:
    offsets = offsets.copy()
    offsets[shared.unknown] += ds[: 3 * int(shared.unknown.sum())].reshape(-1, 3)
    if shared.camera:
        angle = float(np.linalg.norm(ds[-6:-3]))
        D = rotation_about(ds[-6:-3] / angle, angle) if angle > 0.0 else np.eye(3)
        turn, shift = D @ turn, D @ shift + ds[-3:]
    return q, offsets, turn, shift


@dataclass(frozen=True, slots=True, eq=False)
class _ReducedNormalEquations:
    """Normal equations with the frames' own unknowns eliminated: S ds = s, dq = own - back ds."""

    S: Array
    s: Array
    own: Array
    back: Array

    @staticmethod
    def of(
        carried: MarkerCarriers, rows: MarkerRows, held: NDArray[np.bool_], shared: SharedUnknowns
    ) -> _ReducedNormalEquations:
        """Eliminate the joint positions of every frame."""
        A, g, H = rows.information, rows.gradient, rows.shared(shared.unknown, shared.camera)
        J = rows.J.reshape(len(H), -1, A.shape[1])
        e = rows.e.reshape(len(H), -1)
        free = carried.free[None, :] & ~held[:, None]
        B = J.transpose(0, 2, 1) @ H
        both = np.linalg.solve(make_invertible(A), np.concatenate([g[..., None], B], axis=2)) * free[..., None]
        own, back = both[..., 0], both[..., 1:]
        S = np.einsum("nrs,nrt->st", H, H, optimize=True) - np.einsum("njs,njt->st", B, back, optimize=True)
        s = np.einsum("nrs,nr->s", H, e) - np.einsum("njs,nj->s", B, own)
        return _ReducedNormalEquations(0.5 * (S + S.T), s, own, back)

    def _scaled_eigenmodes(self) -> tuple[Array, Array, NDArray[np.bool_]]:
        scale = 1.0 / np.sqrt(np.maximum(np.diag(self.S), 1e-300))
        values, vectors = np.linalg.eigh(self.S * np.outer(scale, scale))
        return values, vectors * scale[:, None], values > UNSEEN * values.max(initial=0.0)

    @property
    def rank(self) -> int:
        """How many shared unknowns the frames determine."""
        return int(self._scaled_eigenmodes()[2].sum())

    @property
    def covariance(self) -> Array:
        """Covariance of the shared unknowns per unit variance; what changes nothing that is seen stays as it is."""
        values, V, shown = self._scaled_eigenmodes()
        return np.asarray((V[:, shown] / values[shown]) @ V[:, shown].T)

    def step(self) -> tuple[Array, Array]:
        """Steps of the frames' joint positions and of what they share."""
        ds = self.covariance @ self.s
        return self.own - self.back @ ds, ds

    def refuse_undetermined_zero_positions(self, carried: MarkerCarriers) -> None:
        """Raise where joint positions can shift together with what the frames share."""
        _, V, shown = self._scaled_eigenmodes()
        open_ways = V[:, ~shown] / np.maximum(np.linalg.norm(V[:, ~shown], axis=0), 1e-300)
        moved = np.abs(self.back @ open_ways).max(axis=(0, 2), initial=0.0) > 1e-3
        if moved.any():
            raise DynidError(
                "marker_zero_undetermined", "markers leave the zero of joint {joints} open:",
                "show more of them in the known posture, or give their offsets or the camera's pose",
                joints=joint_names_of(carried, moved),
            )  # fmt: skip


def frame_slices(count: int) -> Iterator[slice]:
    """Slices of bounded length over all frames."""
    return (slice(k, min(k + CHUNK, count)) for k in range(0, count, CHUNK))
