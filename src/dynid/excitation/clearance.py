"""Clearance in a cell and between links, and the speed of the tool: a penalty while searching, proven for all time.

Between instants a point moves by at most its speed there times the step, and half its largest acceleration times the
step squared; intervals for which that leaves a doubt are halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.links import Poses, link_poses
from dynid.errors import ExcitationError
from dynid.excitation.cell import MJCF, MOUNT, URDF, Cell, Plane, RobotSolids, Solid, last_link, robot_solids
from dynid.excitation.distances import Contacts, Distances, Frames, cross
from dynid.excitation.quintics import PathGradient, Quintics, hermite_values, penalty_along_path
from dynid.excitation.shape import Extremes
from dynid.excitation.torque_limits import Effort
from dynid.messages import Message, Option
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

SAFETY = 0.01
"""Links nearer than this (m) count as colliding."""
PENALTY, SPEED_PENALTY = 0.02, 0.05
"""Missing clearance (m) and share of excess speed, at every sample, that have a penalty of 1."""
BUFFER = 0.004
"""The search keeps this much more clearance (m), and five times this share below the tool's speed; proofs do not."""
POSTURES = 64
"""Random postures in which pairs of links are looked at."""
FREE, TRIED, MORE = 0.05, 200, 1000
"""Clearance (m) beyond what is needed at which a posture to start from is good enough; how many are tried at first."""
ROOM, ROUNDED = 0.05, 1e-4
"""What a repair leaves beyond the clearance, so that there is a motion, and a little more for rounding (m)."""
TRIED_REPAIRS, TRIED_SHIFTS, MOST_MOVES, REPAIRED = 20, 30, 3, 300
"""Postures and shifts that are tried, obstacles that are told to move, random postures looked at for a repair."""
HELD = 0.9
"""Share of the effort limits by which a posture to start from can be held."""
OFTEN, AT_REST = 0.9, 0.3
"""Links that are too near in this share of the postures are built that way; the second where they are at zero, too."""
FIRST_STEP, LAST_STEP = 0.01, 2e-5
"""Half width (s) of the first and of the smallest intervals of a proof."""
_BASIS = hermite_values((np.arange(5.0) + 0.5) / 5.0)
"""Of five instants of a path's segment at which clearance is seen while searching."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What comes too near at an instant: a link and what it nears (m), or the speed of the tool (m/s)."""

    link: str
    other: str
    value: float
    limit: float
    time: float

    def message(self) -> Message:
        """Message with what would free it."""
        facts = {"link": self.link, "other": self.other, "value": self.value, "limit": self.limit, "time": self.time}
        if not self.other:
            return Message(
                "tool_too_fast", "the tool moves at {value:.3g} m/s at {time:.2f} s, {limit:g} m/s are allowed",
                "allow more ({option}), or choose a longer duration", option=Option("tool_speed"), **facts,
            )  # fmt: skip
        return Message(
            "clearance_violated", "link '{link}' comes to {value:.3f} m from '{other}' at {time:.2f} s, nearer than "
            "{limit:g} m", "ask for less clearance, move '{other}', or narrow the position limits", **facts,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Repair:
    """What would free a posture: shifts (3,) of obstacles and planes by name (m), or less clearance (m; None: no)."""

    moves: dict[str, Array]
    clearance: float | None

    def remedy(self) -> str:
        """Words on what to do."""
        said = [f"move '{name}' by ({', '.join(f'{x:z.3f}' for x in way)}) m" for name, way in self.moves.items()]
        words = [", ".join(said[:MOST_MOVES])] if 0 < len(said) <= MOST_MOVES else []
        if self.clearance is not None:
            words.append(f"ask for a clearance of at most {self.clearance:.3f} m")
        return ", or ".join(words) or "take obstacles away, or widen the position limits"


@dataclass(frozen=True, eq=False)
class Clearance(Distances):
    """Solids of a robot that stay apart, from one another by SAFETY and from a cell by its clearance.

    solids: of the robot, then obstacles; pairs: two of them with the distance they need; sides: a solid and a plane;
    tool: solids whose speed counts; own: what is known of the robot's solids; proves: the motion was searched with it,
    so that it holds at every instant; ignored: pairs near by construction.
    """

    cell: Cell
    pairs: tuple[tuple[int, int, float], ...]
    sides: tuple[tuple[int, Plane], ...]
    tool: tuple[Solid, ...]
    own: RobotSolids
    notes: tuple[Message, ...] = ()
    proves: bool = True
    ignored: tuple[str, ...] = ()

    @staticmethod
    def for_robot(robot: Robot, limits: Limits, cell: Cell, own: RobotSolids | None = None) -> Clearance:
        """Collect what has to stay apart; ExcitationError where no posture can keep it. own: solids, where known."""
        own = own or robot_solids(robot, limits)
        parts = (*own.solids, *cell.attached)
        last = last_link(robot)
        point = Solid("tool", last, np.zeros((1, 3)))
        at_end = tuple(s for s in parts if s.link == last and own.note is None)
        every = Clearance(
            robot, (*parts, *cell.obstacles), cell, (), (), (point, *dict.fromkeys((*at_end, *cell.attached))), own,
            () if own.note is None else (own.note,),
        )  # fmt: skip
        return every._with_pairs(len(parts), limits)

    @property
    def exact(self) -> bool:
        """Whether links have the shapes of the robot's file, and are not capsules along the skeleton."""
        return self.own.note is None

    # Which pairs count.

    def _with_pairs(self, parts: int, limits: Limits) -> Clearance:
        """Return it with the pairs that a motion can bring together; `parts`: how many solids are the robot's."""
        postures = self.random_postures(limits, POSTURES)
        poses = link_poses(self.robot, self.tree_positions(postures))
        notes, pairs, sides, ignored = list(self.notes), [], [], list[str]()
        moving = [k for k in range(parts) if self.carried[self.solids[k].link].any()]
        for i in range(parts):
            for j in range(i + 1, parts):
                if self._may_collide(self.solids[i], self.solids[j]):
                    d = self.pair_distances(poses, i, j)
                    share = float((d < SAFETY).mean())
                    if share > OFTEN or (d[0] < SAFETY and share > AT_REST):
                        ignored.append(f"{self.solids[i].name}-{self.solids[j].name}")
                    else:
                        pairs.append((i, j, SAFETY))
        for i in moving:
            for j in range(parts, len(self.solids)):
                if self._can_change(i, self.solids[j].name, self.pair_distances(poses, i, j), notes):
                    pairs.append((i, j, self.cell.clearance))
            for plane in self.cell.planes:
                if self._can_change(i, plane.name, self.heights(poses, i, plane)[0], notes):
                    sides.append((i, plane))
        return replace(
            self, pairs=tuple(pairs), sides=tuple(sides), notes=tuple(dict.fromkeys(notes)), ignored=tuple(ignored)
        )

    def _may_collide(self, a: Solid, b: Solid) -> bool:
        """Whether two solids are neither on the same body nor on neighbours, links fixed to one another being one."""
        one, other = self._body(a.link), self._body(b.link)
        parents = [MOUNT if k == MOUNT else self._body(self.robot.links[k].parent) for k in (one, other)]
        return one != other and parents[0] != other and parents[1] != one

    def _body(self, link: int) -> int:
        """First of the links that are fixed to one another."""
        while link != MOUNT and (self.carried[link] == self.carried[self.robot.links[link].parent]).all():
            link = self.robot.links[link].parent
        return link

    def _can_change(self, i: int, other: str, distance: Array, notes: list[Message]) -> bool:
        """Whether a motion changes a distance; else it must be kept by the way the cell is built, or nothing fits."""
        solid, clearance = self.solids[i], self.cell.clearance
        if np.ptp(distance) > 1e-6:
            return True
        least = float(distance.min())
        guessed = 0.0 if self.exact else solid.radius * (1.0 + 1e-6)  # how thick a capsule is, nobody knows
        if least < -guessed - 1e-9:
            way = self._way_out(other, np.zeros(self.robot.n), [i])
            repair = Repair({} if way is None else {other: way}, None)
            raise ExcitationError(
                "clearance_impossible", "link '{link}' is {depth:.3f} m inside '{other}' in every posture",
                "{remedy}, or correct its place in frame 0", link=solid.name, other=other, depth=-least,
                remedy=repair.remedy() if repair.moves else f"move '{other}'",
                moves={name: move.tolist() for name, move in repair.moves.items()},
            )  # fmt: skip
        if least < clearance:
            notes.append(Message(
                "constant_distance", "link '{link}' stays {distance:.3f} m from '{other}' in every posture, whatever "
                "the motion: the clearance is not enforced there", link=solid.name, other=other, distance=least,
            ))  # fmt: skip
        return False

    def free_posture(self, limits: Limits, seed: int, effort: Effort | None = None) -> Array:
        """Random posture (n,) with much clearance, or the best of those tried; one that torques can hold."""
        best, most = np.zeros(self.robot.n), -np.inf
        for count, one in ((TRIED, seed), (MORE, 0)):
            q = self.random_postures(limits, count, one)[2:]
            slack = np.minimum(self.slack(q)[0], FREE)
            if effort is not None:
                slack = np.where(effort.holding_torque_shares(q).max(axis=1) < HELD, slack, slack - 10.0)
            k = int(np.argmax(slack))
            if slack[k] > most:
                best, most = q[k], float(slack[k])
            if most >= FREE:
                break
        return best

    # The penalty of a search.

    def penalty(self, motion: Motion, buffer: float = BUFFER) -> tuple[float, tuple[Array, Array, Array]]:
        """Squares of missing clearance and of excess speed, mean over samples, and the gradient by q, v, a."""
        tree = self.tree_motion(motion)
        frames = self.frames_at(tree.q)
        N = len(motion)
        gq, gv = np.zeros_like(tree.q), np.zeros_like(tree.q)
        value = 0.0
        for contacts, need in self._contacts(frames.poses, np.full(N, buffer)):
            miss = (need + buffer - contacts.distance) / PENALTY
            value += float(miss @ miss) / N
            weight = (-2.0 / PENALTY / N) * miss
            for link, p, sign in ((contacts.a, contacts.pa, -1.0), (contacts.b, contacts.pb, 1.0)):
                J = self.point_jacobian(frames, contacts.sample, link, p)
                slope = np.einsum("Kji,Ki->Kj", J, contacts.normal) * (sign * weight)[:, None]
                np.add.at(gq, contacts.sample, slope)
        if self.cell.tool_speed is not None:
            extra, by_q, by_v = self._speed_penalty(frames, tree.v, max(0.5, 1.0 - 5.0 * buffer) * self.cell.tool_speed)
            value, gq, gv = value + extra, gq + by_q, gv + by_v
        zero = np.zeros_like(gq)
        if self.loop is None:
            return value, (gq, gv, zero)
        return value, self.loop.pull_back(tree, (gq, gv, zero))

    def penalty_along_path(self, path: Quintics, buffer: float = BUFFER) -> PathGradient:
        """Sum of the penalty over instants of a path's segments."""
        return penalty_along_path(path, _BASIS, lambda motion: self.penalty(motion, buffer))

    def _contacts(self, poses: Poses, more: Array) -> list[tuple[Contacts, float]]:
        """Distances nearer than what is needed and `more` (N,), by pair or plane, with what is needed."""
        found = []
        for i, plane in self.sides:
            d, p = self.heights(poses, i, plane)
            near = np.flatnonzero(d < self.cell.clearance + more)
            if len(near):
                link, mount = np.full(len(near), self.solids[i].link), np.full(len(near), MOUNT)
                normal = np.tile(-plane.normal, (len(near), 1))
                found.append((Contacts(near, link, mount, p[near], p[near], normal, d[near]), self.cell.clearance))
        for i, j, need in self._pairs_within(poses, float(more.max())):
            contacts = self.near_pair(poses, i, j, need + more)
            if len(contacts.sample):
                found.append((contacts, need))
        return found

    def _pairs_within(self, poses: Poses, more: float) -> list[tuple[int, int, float]]:
        """Pairs whose balls come nearer than what they need and `more` at some sample."""
        if not self.pairs:
            return []
        centres = np.stack([
            poses.rotation[s.link] @ self.boxes[k][0] + poses.position[s.link] for k, s in enumerate(self.solids)
        ])  # fmt: skip
        i, j = np.array([pair[:2] for pair in self.pairs]).T
        radius = np.array([self.boxes[k][2] + s.radius for k, s in enumerate(self.solids)])
        way = centres[i] - centres[j]
        least = np.sqrt(np.einsum("PNi,PNi->PN", way, way).min(axis=1)) - radius[i] - radius[j]
        return [pair for pair, d in zip(self.pairs, least, strict=True) if d < pair[2] + more]

    def _tool_points(self) -> list[tuple[int, Array]]:
        """Points (P, 3) by link whose speed is penalised: thick solids by six points about each of theirs."""
        found = []
        for solid in self.tool:
            x = self.outer_points(solid)
            around = solid.radius * np.vstack([np.eye(3), -np.eye(3)]) if solid.radius else np.zeros((1, 3))
            found.append((solid.link, (x[:, None] + around).reshape(-1, 3)))
        return found

    def _speed_penalty(self, frames: Frames, v: Array, limit: float) -> tuple[float, Array, Array]:
        """Squares of relative speeds beyond a limit, mean over samples, and the gradient by the tree's q and v.

        Joint k turns the velocity that joints from k on give, and moves the point in the turning of those before:
        dp'/dq_k = z_k x v_(>=k) + w_(<k) x dp/dq_k.
        """
        N = len(v)
        value, gq, gv = 0.0, np.zeros_like(v), np.zeros_like(v)
        turning, moving = self.link_velocities(frames.poses, v)
        for link, points in self._tool_points():
            arms = points @ frames.poses.rotation[link].transpose(0, 2, 1)
            velocities = moving[link][:, None] + cross(turning[link][:, None], arms)
            speeds = np.sqrt(np.einsum("NPi,NPi->NP", velocities, velocities))
            at, point = np.nonzero(speeds > limit)
            if not len(at):
                continue
            velocity, speed, chain = velocities[at, point], speeds[at, point], np.flatnonzero(self.carried[link])
            J = self.point_jacobian(
                frames, at, np.full(len(at), link), arms[at, point] + frames.poses.position[link][at]
            )[:, chain]
            over = (speed / limit - 1.0) / SPEED_PENALTY
            value += float(over @ over) / N
            by = (2.0 / N / limit / SPEED_PENALTY) * (over / speed)[:, None] * velocity
            rates = v[at][:, chain, None]
            z = np.where(self.revolute[chain][:, None], frames.axis[at][:, chain], 0.0)
            parts, turns = J * rates, z * rates
            after = velocity[:, None] - np.cumsum(parts, axis=1) + parts
            before = np.cumsum(turns, axis=1) - turns
            by_q, by_v = np.zeros((len(at), v.shape[1])), np.zeros((len(at), v.shape[1]))
            by_q[:, chain] = np.einsum("Kji,Ki->Kj", cross(z, after) + cross(before, J), by)
            by_v[:, chain] = np.einsum("Kji,Ki->Kj", J, by)
            np.add.at(gq, at, by_q)
            np.add.at(gv, at, by_v)
        return value, gq, gv

    # Postures, and the proof for all time.

    def slack(self, q: Array) -> tuple[Array, list[Violation]]:
        """Distance beyond what is needed at postures q (N, n), (N,), and what is nearest there."""
        poses = link_poses(self.robot, self.tree_positions(q))
        least, nearest = np.full(len(q), np.inf), [Violation("", "", np.inf, 0.0, 0.0)] * len(q)
        entries = [(i, p.name, self.cell.clearance, self.heights(poses, i, p)[0]) for i, p in self.sides]
        for i, j, need in self.pairs:
            d = self.pair_distances(poses, i, j)
            entries.append((i, self.solids[j].name, need, np.where(self.is_inside(poses, i, j), -np.abs(d), d)))
        for i, other, need, d in entries:
            for k in np.flatnonzero(d - need < least):
                least[k] = d[k] - need
                nearest[k] = Violation(self.solids[i].name, other, float(d[k]), need, 0.0)
        return least, nearest

    def repair(self, q: Array) -> Repair:
        """What would free a posture of q (N, n) in which the fewest obstacles are in the way, by the shortest ways."""
        poses = link_poses(self.robot, self.tree_positions(q))
        apart, least, missing = np.full(len(q), np.inf), np.full(len(q), np.inf), dict[str, Array]()
        for i, plane in self.sides:
            d = self.heights(poses, i, plane)[0]
            missing[plane.name] = np.maximum(missing.get(plane.name, 0.0), self.cell.clearance + ROOM - d)
            least = np.minimum(least, d)
        for i, j, need in self.pairs:
            d = self.pair_distances(poses, i, j)
            d = np.where(self.is_inside(poses, i, j), -np.abs(d), d)
            if self._is_obstacle(j):
                name = self.solids[j].name
                missing[name] = np.maximum(missing.get(name, 0.0), self.cell.clearance + ROOM - d)
                least = np.minimum(least, d)
            else:
                apart = np.minimum(apart, d - need)
        ways = np.array(list(missing.values())).reshape(-1, len(q))
        in_the_way = (ways > 0.0).sum(axis=0)
        tangled = apart < 0.0
        for k in np.lexsort([np.maximum(ways, 0.0).sum(axis=0), in_the_way, tangled])[:TRIED_REPAIRS]:
            moves = {}
            for name, way in zip(missing, ways[:, k], strict=True):
                if way > 0.0:
                    moves[name] = self._way_out(name, q[k])
            if not tangled[k] and all(move is not None for move in moves.values()):
                break
        else:
            moves = {}
        widest = float(np.where(tangled, -np.inf, least).max()) - ROOM
        return Repair(
            {name: move for name, move in moves.items() if move is not None}, widest if widest > 0.0 else None
        )

    def no_room_message(self, hit: Violation, limits: Limits, effort: Effort | None) -> Message:
        """Message on a violation that no motion avoids, not even a small one, with what would free it."""
        if not hit.other:
            return hit.message()
        repair = self.repair(postures_that_hold(self.random_postures(limits, REPAIRED), effort))
        return Message(
            "no_room_to_move", "even a small motion brings link '{link}' to {value:.3f} m from '{other}', nearer than "
            "{limit:.3g} m", "{remedy}", link=hit.link, other=hit.other, value=hit.value, limit=hit.limit,
            remedy=repair.remedy(), moves={name: way.tolist() for name, way in repair.moves.items()},
            enough=repair.clearance,
        )  # fmt: skip

    def _is_obstacle(self, j: int) -> bool:
        """Whether a solid stands in the cell and is not the robot's."""
        return j >= len(self.solids) - len(self.cell.obstacles)

    def _way_out(self, name: str, q: Array, near: Sequence[int] = ()) -> Array | None:
        """Shift (3,) of an obstacle or plane after which it has room beside the robot in a posture; None: not found.

        near: solids of the robot that count; all of those that may come near where none are named.
        """
        need = self.cell.clearance + ROOM
        poses = link_poses(self.robot, self.tree_positions(q[None]))
        for plane in self.cell.planes:
            if plane.name == name:
                near = near or [i for i, p in self.sides if p is plane]
                least = min(float(self.heights(poses, i, plane)[0][0]) for i in near)
                return np.asarray(-(need - least + ROUNDED) * plane.normal)
        j = next(j for j, solid in enumerate(self.solids) if self._is_obstacle(j) and solid.name == name)
        near = near or [i for i, other, _ in self.pairs if other == j]
        shift = np.zeros(3)
        for _ in range(TRIED_SHIFTS):
            points = self.solids[j].points + shift
            there = replace(self.solids[j], points=points)
            moved = replace(self, solids=(*self.solids[:j], there, *self.solids[j + 1 :]))
            contacts = [moved.near_pair(poses, i, j, np.full(1, np.inf)) for i in near]
            inside = any(moved.is_inside(poses, i, j)[0] for i in near)
            worst = min(contacts, key=lambda contact: float(contact.distance[0]))
            depth = float(worst.distance[0])
            if not inside and depth >= need:
                return shift
            away = points.mean(axis=0) - worst.pa[0] if inside else worst.normal[0]
            size = float(np.linalg.norm(away))
            away = away / size if size > 0.0 else np.array([0.0, 0.0, -1.0])
            shift = shift + (need - (min(depth, 0.0) if inside else depth) + ROUNDED) * away
        return None

    def first_violation(
        self, sample: Callable[[Array], Motion], duration: float, extremes: Extremes
    ) -> Violation | None:
        """What is violated along a motion; None where it is proven that nothing is, at any instant.

        extremes: of the motion's joints over all time, from which accelerations of points are bounded.
        """
        count = max(1, int(np.ceil(duration / (2.0 * FIRST_STEP))))
        h = duration / (2.0 * count)
        t: Array = h * (2.0 * np.arange(count, dtype=np.float64) + 1.0)
        peaks = self.tree_peaks(sample, duration, extremes)
        start = link_poses(self.robot, self.tree_motion(sample(t[:1])).q)
        for i, j, need in self.pairs:  # what is outside at first and never touches a surface stays outside
            if self.is_inside(start, i, j).any():
                depth = -abs(float(self.pair_distances(start, i, j)[0]))
                return Violation(self.solids[i].name, self.solids[j].name, depth, need, float(t[0]))
        while True:
            doubtful, worst = self._look(sample(t), t, h, peaks)
            if not doubtful.any() or worst is None:
                return None
            if worst[0] < 0.0 or h < LAST_STEP:
                return worst[1]
            h *= 0.5
            t = (t[doubtful, None] + h * np.array([-1.0, 1.0])).ravel()

    def _look(
        self, motion: Motion, t: Array, h: float, peaks: tuple[Array, Array, Array]
    ) -> tuple[NDArray[np.bool_], tuple[float, Violation] | None]:
        """At which instants t (N,) something may be violated within h of them, and the smallest slack at them."""
        tree = self.tree_motion(motion)
        frames = self.frames_at(tree.q)
        velocities = self.link_velocities(frames.poses, tree.v)
        free = [self.travel_within(s, frames.poses, velocities, peaks, h) for s in self.solids]
        doubtful = np.zeros(len(t), dtype=np.bool_)
        found: list[tuple[float, Violation]] = []
        everywhere = np.arange(len(t))
        entries = [
            (self.cell.clearance, everywhere, self.heights(frames.poses, i, plane)[0], free[i], i, plane.name)
            for i, plane in self.sides
        ]
        for i, j, need in self._pairs_within(frames.poses, 2.0 * max((f.max() for f in free), default=0.0)):
            both = free[i] + free[j]
            near = self.near_pair(frames.poses, i, j, need + both)
            entries.append((need, near.sample, near.distance, both[near.sample], i, self.solids[j].name))
        for need, at, d, way, i, other in entries:
            if len(d):
                doubtful[at[d < need + way]] = True
                k = int(np.argmin(d))
                found.append((d[k] - need, Violation(self.solids[i].name, other, float(d[k]), need, float(t[at[k]]))))
        limit = np.inf if self.cell.tool_speed is None else self.cell.tool_speed
        for solid in self.tool if np.isfinite(limit) else ():
            speed = self.largest_speed(solid, frames.poses, velocities)
            doubtful[speed + h * self.largest_acceleration(solid, peaks) > limit] = True
            k = int(np.argmax(speed))
            found.append((limit - speed[k], Violation(solid.name, "", float(speed[k]), limit, float(t[k]))))
        return doubtful, min(found, key=lambda entry: entry[0], default=None)


def postures_that_hold(q: Array, effort: Effort | None) -> Array:
    """Those of postures q (N, n) that torques can hold; all where none can be held, or torques are not limited."""
    if effort is None:
        return q
    held = effort.holding_torque_shares(q).max(axis=1) < HELD
    return q[held] if held.any() else q


# What a person should know before a motion is run.


RUN_RATE = 200.0
"""Samples per second at which heights, speeds and torques of a finished motion are taken."""


@dataclass(frozen=True, slots=True, eq=False)
class BeforeRun:
    """What to know before a motion is run.

    lowest: height of the lowest point of every link (z in frame 0, m), base_plane: height of the floor, or 0 for the
    mounting plane; tool_speed: the largest, m/s; torques: largest torque (N m or N) and its limit by joint, empty where
    it is not known; checked and unchecked: what was compared with limits and obstacles, and what was not; shapes: what
    the links are taken as, as_capsules: as capsules along the skeleton.
    """

    lowest: dict[str, float]
    base_plane: float
    tool_speed: float
    torques: dict[str, tuple[float, float]]
    checked: tuple[Message, ...]
    unchecked: tuple[Message, ...]
    shapes: Message
    as_capsules: bool

    @staticmethod
    def along(motion: Motion, clearance: Clearance, effort: Effort | None, limits: Limits) -> BeforeRun:
        """Look at a motion: heights and speeds of the robot's solids, and torques of the nominal robot."""
        tree = clearance.tree_motion(motion)
        poses = link_poses(clearance.robot, tree.q)
        lowest: dict[str, float] = {}
        up = Plane("", np.array([0.0, 0.0, 1.0]), 0.0)
        own = len(clearance.solids) - len(clearance.cell.obstacles)
        for i, solid in enumerate(clearance.solids[:own]):
            if clearance.carried[solid.link].any():
                height = float(clearance.heights(poses, i, up)[0].min())
                lowest[solid.name] = min(height, lowest.get(solid.name, np.inf))
        velocities = clearance.link_velocities(poses, tree.v)
        speed = max(float(clearance.largest_speed(solid, poses, velocities).max()) for solid in clearance.tool)
        names = clearance.robot.joint_names
        used = np.zeros(len(names)) if effort is None else effort.use_of_limits(motion)
        torques = {} if effort is None else {
            name: (float(u * limit), float(limit))
            for name, u, limit in zip(names, used, effort.limit, strict=True) if np.isfinite(limit)
        }  # fmt: skip
        floor = clearance.cell.floor
        return BeforeRun(
            lowest, 0.0 if floor is None else floor, speed, torques, tuple(_checked(clearance, effort, limits)),
            tuple(_unchecked(clearance, effort, limits, motion)), _shapes_message(clearance), not clearance.exact,
        )  # fmt: skip

    @property
    def below(self) -> dict[str, float]:
        """Links that go below the floor or the mounting plane, and by how much, m."""
        return {name: self.base_plane - z for name, z in self.lowest.items() if z < self.base_plane - 1e-6}

    def facts(self) -> dict[str, object]:
        """All of it as JSON-ready data."""
        return {
            "lowest": self.lowest, "base_plane": self.base_plane, "below": self.below, "tool_speed": self.tool_speed,
            "torques": {name: {"peak": peak, "limit": limit} for name, (peak, limit) in self.torques.items()},
            "checked": list(self.checked), "unchecked": list(self.unchecked), "shapes": self.shapes,
            "capsules": self.as_capsules,
        }  # fmt: skip


def _shapes_message(clearance: Clearance) -> Message:
    """What the links are taken as."""
    if not clearance.exact:
        radius = max((solid.radius for solid in clearance.own.solids), default=0.0)
        return Message(
            "links_are_capsules", "capsules of {radius:.0f} mm radius along the skeleton", radius=1000.0 * radius
        )
    named = {URDF: "the collision geometry of the URDF", MJCF: "the geoms of the MJCF"}[clearance.own.kind]
    return Message("links_are_hulls", "convex hulls of {named}", named=named)


def _checked(clearance: Clearance, effort: Effort | None, limits: Limits) -> list[Message]:
    """What a motion was checked against."""
    cell, said = clearance.cell, []
    given = {"positions": limits.position, "velocities": limits.velocity, "accelerations": limits.acceleration}
    some = [name for name, values in given.items() if np.isfinite(values).any()]
    if some:
        words = " and ".join([", ".join(some[:-1]), some[-1]] if some[1:] else some)
        said.append(Message("limits_proven", "limits of {quantities}, at every instant", quantities=words))
    if effort is not None:
        said.append(Message("torques_checked", "torques of the nominal bodies against the effort limits"))
    things = [plane.name for plane in cell.planes] + [solid.name for solid in cell.obstacles]
    if things:
        said.append(Message(
            "clearance_proven", "{clearance:g} m of clearance from {things:8}, at every instant", things=things,
            clearance=cell.clearance,
        ))  # fmt: skip
    if cell.tool_speed is not None:
        said.append(Message("tool_speed_proven", "the tool's speed, at every instant"))
    if clearance.proves:
        said.append(Message("self_collision_proven", "links keep {safety:g} m apart, at every instant", safety=SAFETY))
    return said


def _unchecked(clearance: Clearance, effort: Effort | None, limits: Limits, motion: Motion) -> list[Message]:
    """What could not be checked, or was not asked for."""
    cell, said = clearance.cell, []
    free = ~np.isfinite(limits.acceleration)
    if free.any():
        peaks = np.where(free, np.abs(motion.a).max(axis=0), -1.0)
        j = int(np.argmax(peaks))
        unit = "rad/s^2" if clearance.robot.links[clearance.robot.active_links[j]].kind == "revolute" else "m/s^2"
        said.append(Message(
            "no_acceleration_limits", "accelerations, up to {peak:.3g} {unit} ({joint}): no limits for {joints:6}",
            "give {acceleration}", peak=float(peaks[j]), unit=unit, joint=clearance.robot.joint_names[j],
            joints=[clearance.robot.joint_names[k] for k in np.flatnonzero(free)], acceleration=Option("acceleration"),
        ))  # fmt: skip
    if not cell.planes and not cell.obstacles:
        said.append(Message(
            "no_cell", "floor and obstacles: none were given", "give {floor} or {obstacles}", floor=Option("floor"),
            obstacles=Option("obstacles"),
        ))  # fmt: skip
    if not clearance.exact:
        said.append(Message(
            "no_meshes", "the true shape of the links: without meshes they are taken as capsules along the skeleton",
        ))  # fmt: skip
    if clearance.own.around:
        said.append(Message(
            "surroundings_in_robot_file", "{count} shapes of the MJCF that stand around the robot: they are not used",
            "give them as {floor} or {obstacles}", count=clearance.own.around, floor=Option("floor"),
            obstacles=Option("obstacles"),
        ))  # fmt: skip
    if not clearance.exact and not clearance.proves:
        said.append(Message("self_collision_unchecked", "collisions of links with one another"))
    if clearance.own.bare:
        said.append(Message("links_without_geometry", "links without geometry: {links:8}", links=clearance.own.bare))
    if clearance.ignored and clearance.proves:
        said.append(Message(
            "links_near_by_construction", "links that are near one another in most postures: {pairs:8}",
            pairs=list(dict.fromkeys(clearance.ignored)),
        ))  # fmt: skip
    if clearance.robot.closures and clearance.proves:
        said.append(Message("loops_sampled", "how fast joints of closed loops change between samples: it is estimated"))
    if not np.isfinite(limits.effort).any():
        said.append(Message("no_effort_limits", "torques: the robot file has no effort limits"))
    elif effort is None:
        said.append(Message("no_bodies", "torques: the robot file has no masses and inertias"))
    return said
