"""Where the solids of a robot and its cell are, how far apart, and how fast: distances by coal, in frame 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.closing import REACHED
from dynid.dynamics.kernels.links import Integers, Poses, link_poses
from dynid.dynamics.kernels.loops import LoopMap, TreeMotion, loop_map
from dynid.excitation.cell import MOUNT, Plane, Solid
from dynid.excitation.shape import Extremes
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

EXACT = 24
"""Points of a solid whose speeds are looked at; beyond, the corners of the box around it."""

Velocities = tuple[dict[int, Array], dict[int, Array]]
"""Angular velocity of every link and velocity of its origin, (N, 3) each, in frame 0."""


class Contacts(NamedTuple):
    """Distances at samples (K,): sample, links a and b, nearest points, normal from a to b, distance."""

    sample: Integers
    a: Integers
    b: Integers
    pa: Array
    pb: Array
    normal: Array
    distance: Array


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Poses of all links, and axis and origin of the tree's joints, (N, joints, 3) each, in frame 0."""

    poses: Poses
    axis: Array
    origin: Array


@dataclass(frozen=True, eq=False)
class Distances:
    """Solids of a robot, then those that stand still around it, along its motions."""

    robot: Robot
    solids: tuple[Solid, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Travel between processes without the shapes of coal."""
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def loop(self) -> LoopMap | None:
        """How passive joints follow, None without loops."""
        return loop_map(self.robot)

    @cached_property
    def carried(self) -> NDArray[np.bool_]:
        """Which links a joint of the tree moves, (links + 1, joints); the last row is the mount."""
        carried = np.zeros((len(self.robot.links) + 1, len(self.robot.tree_joints)), dtype=np.bool_)
        for k in self.robot.topological_order:
            carried[k] = carried[self.robot.links[k].parent]
            if k in self.robot.tree_joints:
                carried[k, self.robot.tree_joints.index(k)] = True
        return carried

    @cached_property
    def revolute(self) -> NDArray[np.bool_]:
        """Which joints of the tree turn, (joints,)."""
        return np.array([self.robot.links[k].kind == "revolute" for k in self.robot.tree_joints])

    @cached_property
    def _shapes(self) -> list[tuple[Any, Array, Array]]:
        """Shape of coal of each solid, with its pose in the link's frame."""
        return [_coal_shape(solid) for solid in self.solids]

    @cached_property
    def boxes(self) -> list[tuple[Array, Array, float]]:
        """Of each solid: middle and half edges of the box around its points in the link's frame, and their radius."""
        found = []
        for solid in self.solids:
            low, high = solid.points.min(axis=0), solid.points.max(axis=0)
            middle = 0.5 * (low + high)
            found.append((middle, 0.5 * (high - low), float(np.linalg.norm(solid.points - middle, axis=1).max())))
        return found

    def random_postures(self, limits: Limits, count: int, seed: int = 0) -> Array:
        """Postures (count, n): all zero or as near as limits allow, mid-range, then random ones inside the limits."""
        lower, upper = limits.position.T
        low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2 * np.pi, -np.pi))
        high = np.where(np.isfinite(upper), upper, low + 2.0 * np.pi)
        rng = np.random.default_rng(seed)
        drawn = rng.uniform(low, high, (count, len(low)))
        loop = self.loop
        if loop is not None and self.robot.closures:
            drawn = drawn[loop.follow_paths(drawn).end == REACHED]
            return np.vstack([np.tile(loop.at, (2, 1)), drawn])
        return np.vstack([np.clip(np.zeros(len(low)), low, high), 0.5 * (low + high), drawn])

    def tree_positions(self, q: Array) -> Array:
        """Positions of the tree's joints."""
        still = np.zeros_like(q)
        return q if self.loop is None else self.loop.tree_motion(q, still, still).q

    def tree_motion(self, motion: Motion) -> TreeMotion:
        """Motion of the tree's joints."""
        if self.loop is None:
            G = np.broadcast_to(np.eye(motion.q.shape[1]), (1, motion.q.shape[1], motion.q.shape[1]))
            return TreeMotion(motion.q, motion.v, motion.a, G, G)
        return self.loop.tree_motion(motion.q, motion.v, motion.a, motion.t)

    def frames_at(self, tree: Array) -> Frames:
        """Poses, axes and origins of the joints."""
        poses = link_poses(self.robot, tree)
        joints = self.robot.tree_joints
        axis = np.stack([poses.rotation[k] @ self.robot.links[k].axis for k in joints], axis=1)
        return Frames(poses, axis, np.stack([poses.position[k] for k in joints], axis=1))

    def heights(self, poses: Poses, i: int, plane: Plane) -> tuple[Array, Array]:
        """Distance of a solid from a plane, (N,), and its nearest point in frame 0, (N, 3)."""
        solid = self.solids[i]
        R, p = poses.rotation[solid.link], poses.position[solid.link]
        heights = (plane.normal @ R) @ solid.points.T
        k = heights.argmin(axis=1)
        near = np.einsum("Nij,Nj->Ni", R, solid.points[k]) + p
        return near @ plane.normal - solid.radius - plane.offset, near - solid.radius * plane.normal

    def pair_distances(self, poses: Poses, i: int, j: int) -> Array:
        """Distance of two solids at all samples, (N,)."""
        return self.near_pair(poses, i, j, np.full(len(poses.position[MOUNT]), np.inf)).distance

    def near_pair(self, poses: Poses, i: int, j: int, within: Array) -> Contacts:
        """Distances of two solids at the samples at which they are below `within` (N,), and nearest points."""
        import coal  # type: ignore[import-untyped]

        a, b = self.solids[i], self.solids[j]
        some = np.flatnonzero(self._distance_bound(poses, i, j) < within)
        found: list[tuple[int, float, Array, Array, Array]] = []
        if len(some):
            (A, Ra, xa), (B, Rb, xb) = self._shapes[i], self._shapes[j]
            rot = [poses.rotation[s.link][some] @ R for s, R in ((a, Ra), (b, Rb))]
            place = [poses.position[s.link][some] + poses.rotation[s.link][some] @ p for s, p in ((a, xa), (b, xb))]
            way = self._travel(poses, a, some) + self._travel(poses, b, some)
            reach = way + within[some]
            request, result, k = coal.DistanceRequest(), coal.DistanceResult(), 0
            request.enable_signed_distance = True
            while k < len(some):
                result.clear()
                d = coal.distance(
                    A, coal.Transform3s(rot[0][k], place[0][k]), B, coal.Transform3s(rot[1][k], place[1][k]),
                    request, result,
                )  # fmt: skip
                if d < within[some[k]]:
                    pa, pb = np.array(result.getNearestPoint1()), np.array(result.getNearestPoint2())
                    found.append((some[k], d, pa, pb, np.array(result.normal)))  # coal's own change at the next one
                    k += 1
                    continue
                later = reach[k + 1 :] >= d + way[k]  # by then they may have come near
                k = k + 1 + int(later.argmax()) if later.any() else len(some)
        sample = np.array([x[0] for x in found], dtype=np.int64)
        near, far, normal = (np.array([x[m] for x in found]).reshape(-1, 3) for m in (2, 3, 4))
        one, other = (np.full(len(found), s.link) for s in (a, b))
        return Contacts(sample, one, other, near, far, normal, np.array([x[1] for x in found]))

    def is_inside(self, poses: Poses, i: int, j: int) -> NDArray[np.bool_]:
        """Whether a solid is inside a closed surface, (N,): its first point is, and the surface is not near."""
        surface, solid = self.solids[j], self.solids[i]
        inside = np.zeros(len(poses.position[MOUNT]), dtype=np.bool_)
        if surface.surface and self._closed[j]:
            x = poses.rotation[solid.link] @ solid.points[0] + poses.position[solid.link]
            within = (x > surface.points.min(axis=0)) & (x < surface.points.max(axis=0))
            for k in np.flatnonzero(within.all(axis=1)):
                inside[k] = _crossings(surface.points.reshape(-1, 3, 3), x[k]) % 2
        return inside

    @cached_property
    def _closed(self) -> list[bool]:
        """Whether each solid is a surface all of whose edges have two triangles."""
        return [s.surface and _is_closed(s.points) for s in self.solids]

    def _distance_bound(self, poses: Poses, i: int, j: int) -> Array:
        """Lower bound of the distance of two solids: from the ball around one to the box around the other, (N,)."""
        bounds = []
        for one, other in ((i, j), (j, i)):
            a, b = self.solids[one], self.solids[other]
            centre, _, radius = self.boxes[one]
            middle, half, _ = self.boxes[other]
            at = poses.rotation[a.link] @ centre + poses.position[a.link] - poses.position[b.link]
            inside = np.abs(np.einsum("Nji,Nj->Ni", poses.rotation[b.link], at) - middle) - half
            bounds.append(np.linalg.norm(np.maximum(inside, 0.0), axis=1) - radius - a.radius - b.radius)
        return np.asarray(np.maximum(*bounds))

    def _travel(self, poses: Poses, solid: Solid, some: Integers) -> Array:
        """Way of the farthest point of a solid from sample to sample, summed, (samples,)."""
        if not self.carried[solid.link].any():
            return np.zeros(len(some))
        x = self.outer_points(solid) @ poses.rotation[solid.link][some].transpose(0, 2, 1)
        x = x + poses.position[solid.link][some][:, None]
        steps = np.linalg.norm(np.diff(x, axis=0), axis=2).max(axis=1)
        return np.concatenate([[0.0], np.cumsum(steps)])

    def outer_points(self, solid: Solid) -> Array:
        """Points of a solid, or, where they are many, the corners of the box around them."""
        if len(solid.points) <= EXACT:
            return solid.points
        low, high = solid.points.min(axis=0), solid.points.max(axis=0)
        ends = np.stack([low, high])
        return np.array([[ends[i, 0], ends[j, 1], ends[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])

    def point_jacobian(self, frames: Frames, sample: Integers, link: Integers, p: Array) -> Array:
        """Derivatives (K, joints, 3) of points p (K, 3) on links, at samples, by the tree's joints."""
        z = frames.axis[sample]
        turned = cross(z, p[:, None] - frames.origin[sample])
        return np.where(self.carried[link][:, :, None], np.where(self.revolute[:, None], turned, z), 0.0)

    def tree_peaks(self, sample: Callable[[Array], Motion], duration: float, x: Extremes) -> tuple[Array, Array, Array]:
        """Largest positions, speeds and accelerations of the tree's joints over all time, (joints,) each.

        Those of closed loops are half as large again as the largest of 500 samples.
        """
        peaks = np.maximum(np.abs(x.lowest), np.abs(x.highest)), x.speed, x.acceleration
        if self.loop is None:
            return peaks
        if not self.robot.closures:
            C = np.abs(self.loop.C)
            return C @ peaks[0] + np.abs(self.loop.offset), C @ peaks[1], C @ peaks[2]
        tree = self.tree_motion(sample(np.linspace(0.0, duration, 500)))
        q, v, a = (1.5 * np.abs(y).max(axis=0) for y in (tree.q, tree.v, tree.a))
        return q, v, a

    def link_velocities(self, poses: Poses, v: Array) -> Velocities:
        """Angular velocity of every link and velocity of its origin, (N, 3) each, in frame 0."""
        turning, moving = {MOUNT: np.zeros((len(v), 3))}, {MOUNT: np.zeros((len(v), 3))}
        column = {k: j for j, k in enumerate(self.robot.tree_joints)}
        for k in self.robot.topological_order:
            link, before = self.robot.links[k], turning[self.robot.links[k].parent]
            arm = poses.position[k] - poses.position[link.parent]
            turning[k], moving[k] = before, moving[link.parent] + cross(before, arm)
            if k in column:
                along = poses.rotation[k] @ link.axis * v[:, column[k], None]
                if link.kind == "revolute":
                    turning[k] = before + along
                else:
                    moving[k] = moving[k] + along
        return turning, moving

    def largest_speed(self, solid: Solid, poses: Poses, velocities: Velocities) -> Array:
        """Largest speed of a point of a solid with its thickness, (N,)."""
        core, (turning, _) = self._core_speed(solid, poses, velocities), velocities
        return np.asarray(core + solid.radius * np.linalg.norm(turning[solid.link], axis=1))

    def _core_speed(self, solid: Solid, poses: Poses, velocities: Velocities) -> Array:
        """Largest speed of a point of a solid without its thickness, (N,)."""
        turning, moving = velocities
        arms = self.outer_points(solid) @ poses.rotation[solid.link].transpose(0, 2, 1)
        velocity = moving[solid.link][:, None] + cross(turning[solid.link][:, None], arms)
        return np.asarray(np.linalg.norm(velocity, axis=2).max(axis=1))

    def travel_within(
        self, solid: Solid, poses: Poses, velocities: Velocities, peaks: tuple[Array, Array, Array], h: float
    ) -> Array:
        """How far a point of a solid may come within h of each sample, (N,): thickness turns in itself."""
        if not self.carried[solid.link].any():
            return np.zeros(len(poses.position[MOUNT]))
        core = replace(solid, radius=0.0)
        return h * self._core_speed(solid, poses, velocities) + 0.5 * h**2 * self.largest_acceleration(core, peaks)

    def largest_acceleration(self, solid: Solid, peaks: tuple[Array, Array, Array]) -> float:
        """Bound of the acceleration of any point of a solid at any time.

        With arms r_k from joint k to the point, |p''| <= sum_k r_k |a_k| + sum_jk r_max(j,k) |v_j| |v_k|.
        """
        q, v, a = peaks
        column = {k: j for j, k in enumerate(self.robot.tree_joints)}
        arm = float(np.linalg.norm(self.outer_points(solid), axis=1).max()) + solid.radius
        bound, k = 0.0, solid.link
        later: list[tuple[int, float]] = []
        while k != MOUNT:
            link = self.robot.links[k]
            if k in column:
                j = column[k]
                slides = link.kind == "prismatic"
                lever = 1.0 if slides else arm
                bound += lever * a[j] + (0.0 if slides else lever * v[j] ** 2)
                bound += 0.0 if slides else sum(2.0 * r * v[j] * v[i] for i, r in later)
                later.append((j, lever))
                arm += q[j] if slides else 0.0
            arm += float(np.linalg.norm(link.placement.translation))
            k = link.parent
        return bound


def cross(a: Array, b: Array) -> Array:
    """Cross product over the last axis, without numpy's ceremony."""
    x, y, z = (b[..., k] for k in range(3))
    u, v, w = (a[..., k] for k in range(3))
    return np.stack([v * z - w * y, w * x - u * z, u * y - v * x], axis=-1)


def _crossings(triangles: Array, x: Array) -> int:
    """How often a ray from x crosses triangles (T, 3, 3), by Moeller and Trumbore."""
    ray = np.array([0.5773, 0.5119, 0.6362])
    a, u, v = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    p = cross(np.broadcast_to(ray, v.shape), v)
    size = np.einsum("Ti,Ti->T", u, p)
    size = np.where(np.abs(size) < 1e-15, np.inf, size)
    s = x - a
    q = cross(s, u)
    first, second = np.einsum("Ti,Ti->T", s, p) / size, q @ ray / size
    ahead = np.einsum("Ti,Ti->T", v, q) / size > 0.0
    return int((ahead & (first >= 0.0) & (second >= 0.0) & (first + second <= 1.0)).sum())


def _is_closed(corners: Array) -> bool:
    """Whether every edge of triangles (3 T corners, 3) belongs to two of them."""
    size = max(float(np.ptp(corners)), 1e-9)
    _, number = np.unique(np.round(corners / (1e-6 * size)), axis=0, return_inverse=True)
    faces = number.reshape(-1, 3)
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    return bool((np.unique(edges, axis=0, return_counts=True)[1] == 2).all())


def _coal_shape(solid: Solid) -> tuple[Any, Array, Array]:
    """Shape of coal of a solid, with its rotation and position in the link's frame."""
    import coal

    x = solid.points
    still, origin = np.eye(3), np.zeros(3)
    if solid.surface:
        mesh = coal.BVHModelOBBRSS()
        mesh.beginModel(len(x) // 3, len(x))
        for a, b, c in x.reshape(-1, 3, 3):
            mesh.addTriangle(a, b, c)
        mesh.endModel()
        return mesh, still, origin
    if len(x) == 1:
        return coal.Sphere(solid.radius or 1e-6), still, x[0]
    if len(x) == 2:
        way = x[1] - x[0]
        z = way / np.linalg.norm(way)
        y = np.cross(z, np.eye(3)[int(np.argmin(np.abs(z)))])
        y = y / np.linalg.norm(y)
        return (
            coal.Capsule(solid.radius or 1e-6, np.linalg.norm(way)),
            np.column_stack([np.cross(y, z), y, z]),
            0.5 * (x[0] + x[1]),
        )
    points = coal.StdVec_Vec3s()
    points.extend(list(x))
    hull = coal.Convex.convexHull(points, False, "Qt")
    hull.setSweptSphereRadius(solid.radius)
    return hull, still, origin
