"""Joint positions from outside: markers on the links seen by cameras (Raucent et al. 1992, section 2b).

They are followed along the motion, and adjusted together with what all frames share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynid.dynamics.kernels.links import link_poses
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError
from dynid.logs.cameras import Triangulation
from dynid.logs.log import Log
from dynid.messages import Message
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform, rotation_about

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
    def for_links(robot: Robot, links: tuple[int, ...]) -> MarkerCarriers:
        """Find which joints some marker shows, from the links that carry the markers."""
        below = {k for link in links for k in chain_to_base(robot, link)}
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

    def shared_columns(self, unknown: NDArray[np.bool_], camera: bool) -> Array:
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


def chain_to_base(robot: Robot, link: int) -> tuple[int, ...]:
    """Indices of a link and all links before it, without the base."""
    found = []
    while link >= 0:
        found.append(link)
        link = robot.links[link].parent
    return tuple(found)


def has_all_coordinates(x: Array) -> NDArray[np.bool_]:
    """Mask of the points whose three coordinates are all known."""
    return np.asarray(np.isfinite(x).all(axis=-1))


def names_of_masked_joints(carried: MarkerCarriers, which: NDArray[np.bool_]) -> list[str]:
    """Names of the joints in a mask (n,), for messages."""
    return [carried.robot.links[k].joint for k, yes in zip(carried.robot.tree_joints, which, strict=True) if yes]


def local_positions(carried: MarkerCarriers, q: Array, x: Array) -> Array:
    """Positions (N, m, 3) of markers in the frames of the links that carry them, NaN where hidden."""
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
        carriers = [i for i, link in enumerate(links) if k in chain_to_base(robot, link)]
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
    """Return information matrices with a little added in directions that a frame does not show."""
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
    """Joint positions of every frame by itself, by Gauss-Newton with limited steps (rad and m)."""
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


def adjust_shared_unknowns(
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
        normal = _ReducedNormalEquations.from_rows(carried, rows, held, shared)
        dq, ds = normal.step()
        q, offsets, turn, shift = _apply_shared_step(shared, q + dq, offsets, turn, shift, ds)
        step = (dq, ds)
        if max(np.abs(dq).max(initial=0.0), np.abs(ds).max(initial=0.0)) < 1e-12:
            break
    rows = marker_rows(carried, q, x @ turn.T + shift, offsets, None if weights is None else weights @ turn.T)
    normal = _ReducedNormalEquations.from_rows(carried, rows, held, shared)
    normal.refuse_undetermined_zero_positions(carried)
    freedom = 3 * int(rows.seen.sum()) - int(carried.free.sum()) * int((~held).sum()) - normal.rank
    variance = float((rows.e**2).sum()) / freedom if freedom > 0 else np.nan
    misfit = float(np.sqrt((rows.distance[held] ** 2).sum() / max(3 * int(rows.seen[held].sum()), 1)))
    return SharedUnknowns(offsets, turn, shift, shared.unknown, shared.camera, normal.covariance, variance, misfit)


def _apply_shared_step(
    shared: SharedUnknowns, q: Array, offsets: Array, turn: Array, shift: Array, ds: Array
) -> tuple[Array, Array, Array, Array]:
    """Return offsets, joint positions and camera after a step ds of what all frames share."""
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
    def from_rows(
        carried: MarkerCarriers, rows: MarkerRows, held: NDArray[np.bool_], shared: SharedUnknowns
    ) -> _ReducedNormalEquations:
        """Eliminate the joint positions of every frame from the normal equations of rows."""
        A, g, H = rows.information, rows.gradient, rows.shared_columns(shared.unknown, shared.camera)
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
        """Eigenvalues and eigenvectors of S in units of its diagonal, and which of them the frames determine."""
        scale = 1.0 / np.sqrt(np.maximum(np.diag(self.S), 1e-300))
        values, vectors = np.linalg.eigh(self.S * np.outer(scale, scale))
        return values, vectors * scale[:, None], values > UNSEEN * values.max(initial=0.0)

    @property
    def rank(self) -> int:
        """Number of shared unknowns that the frames determine."""
        return int(self._scaled_eigenmodes()[2].sum())

    @property
    def covariance(self) -> Array:
        """Covariance of the shared unknowns per unit variance; what changes nothing that is seen stays as it is."""
        values, V, shown = self._scaled_eigenmodes()
        return np.asarray((V[:, shown] / values[shown]) @ V[:, shown].T)

    def step(self) -> tuple[Array, Array]:
        """Gauss-Newton step of the frames' joint positions, and of what they share."""
        ds = self.covariance @ self.s
        return self.own - self.back @ ds, ds

    def refuse_undetermined_zero_positions(self, carried: MarkerCarriers) -> None:
        """Raise where joint positions can shift together with what the frames share."""
        _, V, shown = self._scaled_eigenmodes()
        open_ways = V[:, ~shown] / np.maximum(np.linalg.norm(V[:, ~shown], axis=0), 1e-300)
        moved = np.abs(self.back @ open_ways).max(axis=(0, 2), initial=0.0) > 1e-3
        if moved.any():
            raise DynidError(
                "marker_zero_undetermined", "markers do not determine the zero of joint {joints}:",
                "show more of them in the known posture, or give their offsets or the camera's pose",
                joints=names_of_masked_joints(carried, moved),
            )  # fmt: skip


def frame_slices(count: int) -> Iterator[slice]:
    """Slices of bounded length over all frames."""
    return (slice(k, min(k + CHUNK, count)) for k in range(0, count, CHUNK))


# What speaks against a fit of markers.


FARTHEST = 1e6
"""Metres from the origin within which markers are."""

ODD = 4.0
"""What fits this many times worse than the rest is named."""


def refuse_hidden_joints(carried: MarkerCarriers, hidden: NDArray[np.bool_]) -> None:
    """Raise where a joint is hidden in every frame."""
    never = np.asarray(hidden.all(axis=0))
    if never.any():
        raise DynidError(
            "markers_insufficient", "the markers never distinguish joints {joints}",
            "put markers on more links, or three that do not lie on a line on the last one",
            joints=names_of_masked_joints(carried, never),
        )  # fmt: skip


def marker_warnings(
    carried: MarkerCarriers, q: Array, hidden: NDArray[np.bool_], each: Array, shared: SharedUnknowns, unjudged: bool
) -> tuple[Message, ...]:
    """Warnings on joints, frames and markers that do not fit the others."""
    notes = []
    every = np.sqrt((each**2).mean())
    blank = np.asarray(hidden.any(axis=0))
    if not carried.free.all():
        notes.append(Message(
            "joint_without_marker", "no marker shows joint {joints}: it is taken to stay at its start",
            joints=names_of_masked_joints(carried, ~carried.free),
        ))  # fmt: skip
    if hidden.any():
        count = int(hidden.any(axis=1).sum())
        notes.append(Message(
            "frames_with_few_markers", "{hidden} of {frames} frames show too few markers for joint {joints}: NaN "
            "there", hidden=count, frames=len(q), joints=names_of_masked_joints(carried, blank),
        ))  # fmt: skip
    turns = np.array([carried.robot.links[k].kind == "revolute" for k in carried.robot.tree_joints])
    jumps = (np.abs(np.diff(q, axis=0)) > NEAR) & turns & ~hidden[1:] & ~hidden[:-1]
    if jumps.any():
        frame = int(np.flatnonzero(jumps.any(axis=1))[0]) + 1
        joints = names_of_masked_joints(carried, np.asarray(jumps.any(axis=0)))
        notes.append(Message(
            "joint_jumps", "joint {joints} jumps at frame {frame}: swapped markers, or a long gap", joints=joints,
            frame=frame,
        ))  # fmt: skip
    if shared.misfit > ODD * every + 1e-6:
        notes.append(Message(
            "known_posture_misfit", "the known posture fits worse ({misfit:.2g} mm) than the motion ({every:.2g} mm): "
            "is start right?", misfit=1000.0 * float(shared.misfit), every=1000.0 * float(every),
        ))  # fmt: skip
    odd = np.flatnonzero(each > ODD * np.median(each) + 1e-9)
    if len(odd):
        notes.append(Message(
            "marker_misfit", "marker {markers} fits worse than the others ({usual:.2g} mm): is its link right?",
            markers=[f"{k} ({1e3 * each[k]:.2g} mm)" for k in odd], usual=1000.0 * float(np.median(each)),
        ))  # fmt: skip
    if unjudged:
        notes.append(Message(
            "marker_deviations_unknown", "there are just enough markers to find the joints, none to judge the fit: "
            "standard deviations are unknown",
        ))  # fmt: skip
    return tuple(notes)


BASE = "base"
HELD = 50
"""Frames of the known posture that are adjusted with the others, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class MarkerFit:
    """Joint positions that put the markers where they were seen.

    Attributes
    ----------
    t : (N,) array
        Time, s.
    q : (N, n) array
        Joint positions, rad or m, NaN where too few markers were visible.
    offsets : (m, 3) array
        Markers in the frames of their links, m.
    camera : Transform
        Pose of the measuring frame in frame 0.
    residual : float
        Root mean square distance per coordinate, m.
    marker_residual : (m,) array
        The same for each marker, m.
    sigma : (N, n) array
        Standard deviations of q, including that of the offsets, which all frames share; infinite where no marker shows
        a joint, NaN where there are too few markers to judge.
    warnings : tuple of Message
        What to know about the fit.
    """

    t: Array
    q: Array
    offsets: Array
    camera: Transform
    residual: float
    marker_residual: Array
    sigma: Array
    warnings: tuple[Message, ...]

    def log(self, *, tau: ArrayLike | None = None, reaction: ArrayLike | None = None, name: str = "markers") -> Log:
        """Return a log of these positions with torques or forces on the base.

        Parameters
        ----------
        tau : (N, n) array_like, optional
            Torques, N m or N.
        reaction : (N, channels) array_like, optional
            Readings of the force plate, N and N m.
        name : str
            Name of the log in messages.

        Returns
        -------
        Log
            The log.
        """
        beside = {key: None if x is None else np.asarray(x) for key, x in (("tau", tau), ("reaction", reaction))}
        return Log(self.t, self.q, tau=beside["tau"], reaction=beside["reaction"], name=name)


@one_blas_thread
def angles_from_markers(
    robot: Robot,
    t: ArrayLike,
    markers: ArrayLike | Triangulation,
    links: Sequence[str],
    *,
    start: ArrayLike,
    at: int | slice | Sequence[int] = 0,
    offsets: ArrayLike | None = None,
    camera: Transform | None = None,
    refine_camera: bool = False,
    covariance: ArrayLike | None = None,
) -> MarkerFit:
    """Find joint positions from marker positions by least squares; where the markers are on the links may be unknown.

    Parameters
    ----------
    robot : Robot
        An open tree.
    t : (N,) array_like
        Time, s.
    markers : (N, m, 3) array_like or Triangulation
        Marker positions, m, NaN where hidden; or what `triangulate` found, in m, with its covariances.
    links : sequence of str
        Link or joint that carries each marker, or "base".
    start : (n,) array_like
        Joint positions in the frames `at`, rad or m.
    at : int, slice or sequence of int
        Frames in which the robot stood at `start`.
    offsets : (m, 3) array_like, optional
        Known marker positions in the frames of their links, m, NaN elsewhere.
    camera : Transform, optional
        Pose of the measuring frame in frame 0. Default: the same frame.
    refine_camera : bool
        Whether to adjust this pose too, which must be right within some degrees.
    covariance : (N, m, 3, 3) array_like, optional
        Covariances of the marker positions, m^2. Only their ratios count; their common scale follows from the fit where
        there are enough markers.

    Returns
    -------
    MarkerFit
        Joint positions with standard deviations, marker offsets and residuals.

    Raises
    ------
    DynidError
        If the arrays do not fit one another or the robot.

    Notes
    -----
    Unknown offsets leave the zero of some joints open, always that of the last joint: only the posture `start` fixes
    it, with the error of the markers in the frames `at`, so let the robot stand there for a while.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Robot, angles_from_markers
    >>> t = np.linspace(0.0, 1.0, 50)
    >>> q = 0.5 * np.sin(3.0 * t)
    >>> c, s, r = np.cos(q), np.sin(q), 0.3
    >>> first = np.column_stack([r * c, r * s, 0.0 * q])
    >>> second = np.column_stack([-r * s, r * c, 0.0 * q])
    >>> robot = Robot.from_mdh([{}])
    >>> fit = angles_from_markers(robot, t, np.stack([first, second], 1), ["1", "1"], start=[0.0])
    >>> bool(np.allclose(fit.q[:, 0], q, atol=1e-6))
    True
    """
    seen_by_cameras: tuple[Message, ...] = ()
    if isinstance(markers, Triangulation):
        if covariance is not None:
            raise DynidError("covariance_given_twice", "triangulated markers have covariances; leave covariance out")
        found = markers
        markers, covariance, seen_by_cameras = found.points, found.covariance, found.warnings
    times, seen, x, posture, known = _check_arguments(robot, t, markers, links, start, offsets)
    carried = MarkerCarriers.for_links(robot, _find_carriers(robot, links))
    weights, scale = _marker_weights(covariance, seen)
    held = _frame_mask(at, len(x))
    pose = camera or Transform.identity()
    first = int(np.flatnonzero(held)[0])
    shared = SharedUnknowns(known, pose.rotation, pose.translation, ~has_all_coordinates(known), refine_camera,
                    np.zeros((0, 0)), np.nan, 0.0)  # fmt: skip
    in_base = x @ shared.turn.T + shared.shift
    guess = _offsets_in_known_posture(carried, posture, in_base, held, known, links)
    q = follow_frames(carried, in_base, guess, posture, first)
    guess = _fill_missing_offsets(carried, q, in_base, guess)
    shared = replace(shared, offsets=guess)
    if shared.unknown.any() or refine_camera:
        some = _choose_frames_for_adjustment(held, seen)
        start_q = np.where(held[some, None], posture, q[some])
        chosen = None if weights is None else weights[some]
        shared = adjust_shared_unknowns(carried, start_q, x[some], held[some], shared, chosen)
    fit = _fit_every_frame(carried, times, x, q, shared, weights, scale)
    return replace(fit, warnings=(*seen_by_cameras, *fit.warnings))


def _marker_weights(covariance: ArrayLike | None, seen: NDArray[np.bool_]) -> tuple[Array | None, float]:
    """Weights (N, m, 3, 3) W with W'W the inverse covariance over its typical size, and that size (m^2); none: NaN."""
    if covariance is None:
        return None, np.nan
    C = _to_array("covariance", covariance)
    if C.shape != (*seen.shape, 3, 3):
        raise DynidError(
            "wrong_shape", "covariance must have shape {expected!s}, got {shape!s}", expected=(*seen.shape, 3, 3),
            shape=C.shape,
        )  # fmt: skip
    C = np.where(seen[..., None, None], C, np.eye(3))
    try:
        L = np.linalg.cholesky(C) if np.isfinite(C).all() else None
    except np.linalg.LinAlgError:
        L = None
    if L is None or np.abs(C - C.swapaxes(2, 3)).max(initial=0.0) > 1e-6 * np.abs(C).max(initial=0.0):
        raise DynidError(
            "covariance_not_positive",
            "covariance must hold symmetric positive definite matrices where markers are seen",
        )
    scale = float(np.median(np.einsum("nmii->nm", C)[seen])) / 3.0 if seen.any() else 1.0
    return np.sqrt(scale) * np.linalg.inv(L), scale


def _check_arguments(
    robot: Robot, t: ArrayLike, markers: ArrayLike, links: Sequence[str], start: ArrayLike, offsets: ArrayLike | None
) -> tuple[Array, NDArray[np.bool_], Array, Array, Array]:
    """Check arguments of `angles_from_markers` and return them as arrays."""
    if robot.floating or robot.couplings or robot.closures:
        raise DynidError(
            "needs_open_fixed_robot", "'{robot}' floats or has loops; markers are fitted to open trees on a fixed base",
            robot=robot.name,
        )  # fmt: skip
    times, x = _to_array("t", t), _to_array("markers", markers)
    if x.ndim != 3 or x.shape[2] != 3 or times.shape != x.shape[:1] or not len(x):
        raise DynidError(
            "wrong_shape", "markers must have shape (N, m, 3) with t (N,), got {shape!s} and {time_shape!s}",
            shape=x.shape, time_shape=times.shape,
        )  # fmt: skip
    if isinstance(links, str) or len(links) != x.shape[1]:
        raise DynidError(
            "marker_links_mismatch", "links must name the link of each of the {markers} markers, got {links!r:.80}",
            markers=x.shape[1], links=links,
        )  # fmt: skip
    posture = _to_array("start", start)
    if posture.shape != (robot.n,) or not np.isfinite(posture).all():
        raise DynidError(
            "joint_count_mismatch", "start must be the {n} joint positions of '{robot}' in a known posture", n=robot.n,
            robot=robot.name,
        )  # fmt: skip
    if np.isinf(x).any():
        raise DynidError("markers_not_finite", "markers must be finite, or NaN where hidden")
    if np.nanmax(np.abs(x), initial=0.0) > FARTHEST:
        k, j = np.argwhere(np.abs(x) > FARTHEST)[0, :2]
        raise DynidError(
            "marker_too_far", "marker {marker} is {distance:.3g} m away in sample {sample}, at {time:g} s",
            "correct it, or leave it empty where it was hidden", marker=int(j) + 1, sample=int(k) + 1,
            distance=np.nanmax(np.abs(x[k, j])), time=times[k],
        )  # fmt: skip
    known = np.full((x.shape[1], 3), np.nan) if offsets is None else _to_array("offsets", offsets)
    if known.shape != (x.shape[1], 3):
        raise DynidError(
            "wrong_shape", "offsets must have shape ({markers}, 3), NaN where unknown, got {shape!s}",
            markers=x.shape[1], shape=known.shape,
        )  # fmt: skip
    x = np.where(has_all_coordinates(x)[..., None], x, np.nan)
    return times, np.isfinite(x[..., 0]), x, posture, known


def _to_array(name: str, values: ArrayLike) -> Array:
    """Numbers as an array of floats; DynidError with their name where they are none."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DynidError(
            "values_not_numeric", "{argument} is not an array of numbers: {reason}", argument=name, reason=str(error),
        ) from error  # fmt: skip


def _find_carriers(robot: Robot, links: Sequence[str]) -> tuple[int, ...]:
    """Indices of the links that carry the markers, -1 for the base; raise for unknown names."""
    places = {BASE: -1} | {link.joint: k for k, link in enumerate(robot.links)}
    places |= {link.name: k for k, link in enumerate(robot.links)}
    strangers = [str(name) for name in links if str(name) not in places]
    if strangers:
        raise DynidError(
            "unknown_link", "'{robot}' has no link or joint '{link}'; they are {possible}", robot=robot.name,
            link=strangers[0], possible=list(places),
        )  # fmt: skip
    return tuple(places[str(name)] for name in links)


def _frame_mask(at: int | slice | Sequence[int], count: int) -> NDArray[np.bool_]:
    """Mask (count,) of the frames with the known posture."""
    held = np.zeros(count, dtype=np.bool_)
    try:
        held[at if isinstance(at, int | slice) else list(at)] = True
    except (IndexError, TypeError) as error:
        raise DynidError(
            "frame_out_of_range", "at must name frames between 0 and {last}, got {at!r:.60}", last=count - 1, at=at,
        ) from error  # fmt: skip
    if not held.any():
        raise DynidError("no_known_posture", "at names no frame; one posture must be known")
    return held


def _offsets_in_known_posture(
    carried: MarkerCarriers, posture: Array, x: Array, held: NDArray[np.bool_], known: Array, links: Sequence[str]
) -> Array:
    """Offsets as the known posture shows them, NaN for markers hidden there."""
    local = local_positions(carried, np.tile(posture, (int(held.sum()), 1)), x[held])
    there = has_all_coordinates(local)
    mean = np.where(there[..., None], local, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)[:, None]
    guess = np.where(has_all_coordinates(known)[:, None], known, np.where(there.sum(axis=0)[:, None] > 0, mean, np.nan))
    if not np.isfinite(guess).any():
        raise DynidError(
            "known_posture_without_markers", "no marker is visible in the known posture", "choose other frames in `at`",
        )  # fmt: skip
    never = np.flatnonzero(~has_all_coordinates(x).any(axis=0))
    if len(never):
        raise DynidError(
            "marker_never_visible", "marker {marker} on '{link}' is never visible", "leave it out",
            marker=int(never[0]), link=links[never[0]],
        )  # fmt: skip
    return np.asarray(guess)


def _fill_missing_offsets(carried: MarkerCarriers, q: Array, x: Array, guess: Array) -> Array:
    """Complete the marker offsets: those hidden in the known posture are means over the frames that show them."""
    late = ~has_all_coordinates(guess)
    if not late.any():
        return guess
    shown = tuple(link for link, hidden in zip(carried.links, late, strict=True) if not hidden)
    blind = carried.free & ~MarkerCarriers.for_links(carried.robot, shown).free
    if blind.any():
        raise DynidError(
            "marker_zero_undetermined", "no marker beyond joint {joints} is visible in the known posture, so its "
            "zero is not determined", "choose other frames in `at`, or give offsets",
            joints=names_of_masked_joints(carried, blind),
        )  # fmt: skip
    total, count = np.zeros_like(guess), np.zeros(len(guess))
    for part in frame_slices(len(x)):
        local = local_positions(carried, q[part], x[part])
        there = has_all_coordinates(local)
        total += np.where(there[..., None], local, 0.0).sum(axis=0)
        count += there.sum(axis=0)
    return np.where(late[:, None], total / np.maximum(count, 1.0)[:, None], guess)


def _choose_frames_for_adjustment(held: NDArray[np.bool_], seen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Frames for one bundle adjustment: some of the known posture, others over the motion that show a marker."""
    fixed = np.flatnonzero(held)
    fixed = fixed[np.unique(np.linspace(0, len(fixed) - 1, min(len(fixed), HELD)).round().astype(int))]
    others = np.flatnonzero(~held & seen.any(axis=1))
    spread = np.unique(np.linspace(0, len(others) - 1, min(len(others), FRAMES)).round().astype(int))
    return np.sort(np.concatenate([fixed, others[spread]]))


def _fit_every_frame(
    carried: MarkerCarriers, t: Array, x: Array, q: Array, shared: SharedUnknowns, weights: Array | None, scale: float
) -> MarkerFit:
    """Fit every frame by itself with the shared unknowns held, and find the deviations of both."""
    q, sigma = q.copy(), np.empty_like(q)
    squares, counts, weighted = np.zeros(x.shape[1]), np.zeros(x.shape[1]), 0.0
    hidden = np.zeros(q.shape, dtype=np.bool_)
    for part in frame_slices(len(x)):
        in_base = x[part] @ shared.turn.T + shared.shift
        own = None if weights is None else weights[part] @ shared.turn.T
        q[part] = solve_frames(carried, q[part], in_base, shared.offsets, weights=own)
        rows = marker_rows(carried, q[part], in_base, shared.offsets, own)
        squares += (rows.distance**2).sum(axis=(0, 2))
        weighted += float((rows.e**2).sum())
        counts += 3 * rows.seen.sum(axis=0)
        sigma[part], hidden[part] = _joint_deviations(carried, rows, shared)
    total = np.sqrt(squares.sum() / max(counts.sum(), 1.0))
    freedom = counts.sum() - (carried.free & ~hidden).sum()
    variance = shared.variance if shared.covariance.size else weighted / freedom if freedom > 0 else np.nan
    variance = scale if np.isnan(variance) else variance
    sigma = np.where(carried.free, sigma * np.sqrt(variance), np.inf)
    refuse_hidden_joints(carried, hidden)
    each = np.sqrt(squares / np.maximum(counts, 1.0))
    warnings = marker_warnings(carried, q, hidden, each, shared, bool(np.isnan(variance)))
    q[hidden], sigma[hidden] = np.nan, np.inf
    camera = Transform(shared.turn, shared.shift)
    return MarkerFit(t, q, shared.offsets, camera, float(total), each, sigma, warnings)


def _joint_deviations(
    carried: MarkerCarriers, rows: MarkerRows, shared: SharedUnknowns
) -> tuple[Array, NDArray[np.bool_]]:
    """Standard deviations (N, n) of joint positions per unit of a coordinate's, and joints that a frame hides."""
    A = rows.information
    size = np.sqrt(np.einsum("nii->ni", A)).max(axis=0)
    largest = np.where(size > 0.0, size, 1.0)
    values, V = np.linalg.eigh(A / largest[:, None] / largest)
    lost = values < UNSEEN * np.maximum(values[:, -1:], 1e-300)
    hidden = ((V**2 * lost[:, None]).sum(axis=2) > 1e-6) & carried.free
    inverse = np.linalg.inv(make_invertible(A) + np.where(carried.free, 0.0, 1.0) * np.eye(len(carried.free)))
    variance = np.einsum("nii->ni", inverse)
    if shared.covariance.size:
        B = rows.J.reshape(len(A), -1, A.shape[1]).transpose(0, 2, 1) @ rows.shared_columns(
            shared.unknown, shared.camera
        )
        back = inverse @ B
        variance = variance + np.einsum("njs,st,njt->nj", back, shared.covariance, back, optimize=True)
    return np.sqrt(variance), hidden
