"""Random mechanisms with one loop and one active joint: the exact base parameters against theory and another route.

The other route shares no formula with `dynid.identifiability.loops`: poses from homogeneous matrices in mpmath,
velocities by numerical differentiation with 120 digits, and rows of the total energy, kinetic and potential.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np

from dynid import Robot, base_parameters, load_robot
from dynid.identifiability.finite_field import find_over_finite_field
from dynid.robot.robot import DIRECTIONS, Closure, Coupling, MdhRow
from dynid.robot.transform import Array, freeze

KINDS = ("parallelogram", "crank-rocker", "four-bar", "slider-crank", "7R", "6R P")
COUNTS = {"parallelogram": 3, "crank-rocker": 8, "four-bar": 8}
"""With a rotor or without, as long as gravity acts in the plane."""

DIGITS, DIFFERENCE, ZERO = 120, 45, 65
"""Of the other route; steps and zeros as negative powers of ten."""


def check(seed: int) -> str | None:
    """Return what is wrong with mechanism `seed`, or None: by theory, couplings, the other route, 5 random seeds."""
    kind = KINDS[seed % len(KINDS)]
    robot = mechanism(kind, seed)
    rotors = seed % 4 < 2
    found = [base_parameters(robot, rotor_inertia=rotors, seed=s) for s in range(5)]
    names = found[0].names
    if any(base.names != names for base in found):
        return f"{kind} {seed}: {[base.count for base in found]} parameters, depending on the seed"
    if any(base.method != "exact" or base.warnings for base in found):
        return f"{kind} {seed}: {found[0].method}, {found[0].warnings}"
    expected = [("energy rows", names_by_energy(robot, rotor_inertia=rotors))]
    if kind in COUNTS and len(names) != COUNTS[kind]:
        return f"{kind} {seed}: {len(names)} parameters, {COUNTS[kind]} by theory"
    if kind == "parallelogram":
        field = find_over_finite_field(as_couplings(robot), rotor_inertia=rotors)
        expected.append(("the finite field", tuple(found[0].columns[k] for k in field.kept)))
    wrong = [f"{by} keeps {sorted(set(other) ^ set(names))} otherwise" for by, other in expected if other != names]
    return f"{kind} {seed}: {'; '.join(wrong)}" if wrong else None


def mechanism(kind: str, seed: int) -> Robot:
    """A random mechanism of a kind."""
    rng = np.random.default_rng(seed)
    if kind in ("7R", "6R P"):
        return spatial_loop(seed, slides=(5,) if kind == "6R P" else ())
    gravity = (*rng.uniform(-7.0, 7.0, 2), 0.0)
    if kind == "slider-crank":
        return slider_crank(
            float(rng.uniform(0.1, 0.3)), float(rng.uniform(0.5, 1.0)), float(rng.choice([0.0, 0.1])),
            at=float(rng.uniform(-3.0, 3.0)), gravity=gravity,
        )  # fmt: skip
    while True:
        a, b, c, d = (round(float(x), 3) for x in rng.uniform(0.2, 1.0, 4))
        bars = {"parallelogram": (b, a, b, a), "crank-rocker": (1.0, 0.3 * a, 0.7 + 0.3 * b, 0.5 + 0.4 * c)}
        robot = four_bar(
            *bars.get(kind, (a, b, c, d)), at=float(rng.uniform(0.2, 2.9)), crossed=kind != "parallelogram" and c > 0.6,
            gravity=gravity,
        )  # fmt: skip
        if robot is not None:
            return robot


def closed(
    robot: Robot, frames: tuple[str, str], points: Any, passive: tuple[str, ...], start: Any, at: Any,
    keep: tuple[str, ...] = ("x", "y"),
) -> Robot:  # fmt: skip
    """Return the robot with one closure in place of its couplings."""
    closure = Closure(frames, keep, passive, (freeze(points[0]), freeze(points[1])), freeze(start), freeze(at))
    return replace(robot, couplings=(), closures=(closure,))


def four_bar(
    ground: float, crank: float, coupler: float, rocker: float, *, at: float, crossed: bool = False,
    gravity: Any = (0.0, -9.81, 0.0), rough: Any = (0.0, 0.0), least: float = 0.25,
) -> Robot | None:  # fmt: skip
    """A planar four-bar driven by its crank; None where it does not close, or within `least` rad of a dead point."""
    pin = crank * np.array([math.cos(at), math.sin(at)])
    across = np.array([ground, 0.0]) - pin
    far = float(np.hypot(*across))
    if not abs(coupler - rocker) < far < coupler + rocker:
        return None
    transmission = math.acos((coupler**2 + rocker**2 - far**2) / (2 * coupler * rocker))
    if not least <= transmission <= math.pi - least:
        return None
    lean = math.acos((far**2 + coupler**2 - rocker**2) / (2 * far * coupler))
    # the open assembly of a parallelogram: rocker parallel to the crank
    angles = [math.atan2(across[1], across[0]) + sign * lean for sign in (1.0, -1.0)]
    ends = [pin + coupler * np.array([math.cos(x), math.sin(x)]) - (ground, 0.0) for x in angles]
    straight = [abs(math.remainder(math.atan2(end[1], end[0]) - at, math.tau)) for end in ends]
    k = int(np.argmin(straight)) if not crossed else int(np.argmax(straight))
    start = np.array([angles[k] - at, math.atan2(ends[k][1], ends[k][0])]) + rough
    robot = Robot.from_mdh([{}, {"d": crank}, {"parent": 0, "d": ground}], gravity=gravity, name="four-bar")
    return closed(robot, ("2", "3"), ([coupler, 0, 0], [rocker, 0, 0]), ("2", "3"), start, [at])


def as_couplings(parallelogram: Robot) -> Robot:
    """A parallelogram of `four_bar` with its joint relations written out."""
    relations = (Coupling("2", (("1", -1.0),)), Coupling("3", (("1", 1.0),)))
    return replace(parallelogram, closures=(), couplings=relations)


def slider_crank(crank: float, rod: float, offset: float, *, at: float, gravity: Any) -> Robot:
    """A slider-crank whose slider runs beside the crank's axis by an offset."""
    lean = math.asin((offset - crank * math.sin(at)) / rod)
    place = crank * math.cos(at) + rod * math.cos(lean)
    rows = [{}, {"d": crank}, {"parent": 0, "type": "prismatic", "gamma": math.pi / 2, "alpha": math.pi / 2}]
    robot = Robot.from_mdh(rows, gravity=gravity, name="slider-crank")
    points = ([rod, 0.0, 0.0], [offset, 0.0, 0.0])
    return closed(robot, ("2", "3"), points, ("2", "3"), [lean - at, place], [at])


def spatial_loop(seed: int, *, slides: tuple[int, ...] = ()) -> Robot:
    """A loop of seven joints in space, generic: two arms of three and four joints whose ends are one body."""
    rng = np.random.default_rng(seed)
    while True:
        robot = _random_loop(rng, slides)
        loop = _Loop(robot)
        if np.linalg.cond(loop.slopes(loop.at, loop.start)) < 25.0:
            return robot


def _random_loop(rng: np.random.Generator, slides: tuple[int, ...]) -> Robot:
    rows: list[dict[str, object]] = []
    for k, parent in enumerate((0, 1, 2, 0, 4, 5, 6), 1):
        alpha, d, r = (round(float(x), 3) for x in rng.uniform((0.5, 0.1, -0.3), (2.6, 0.5, 0.3)))
        kind = "prismatic" if k in slides else "revolute"
        rows.append({"parent": parent, "type": kind, "alpha": alpha, "d": d, "r": r})
    gravity = tuple(5.0 * rng.standard_normal(3))
    q = rng.uniform(-1.5, 1.5, 7).round(3)
    tree = _Tree(Robot.from_mdh(rows, gravity=gravity), mpmath.fp)
    poses = [T.astype(np.float64) for T in tree.poses(dict(enumerate(q)))]
    rows.append({"parent": 3, "type": "fixed", **_row(np.linalg.inv(poses[2]) @ poses[6])})
    robot = Robot.from_mdh(rows, gravity=gravity, name="spatial loop")
    passive = ("2", "3", "4", "5", "6", "7")
    return closed(robot, ("8", "7"), np.zeros((2, 3)), passive, q[1:], q[:1], DIRECTIONS)


def _row(T: Array) -> dict[str, float]:
    """Modified Denavit-Hartenberg row of a general pose."""
    R = T[:3, :3]
    gamma, alpha, theta = math.atan2(R[0, 2], -R[1, 2]), math.acos(R[2, 2]), math.atan2(R[2, 0], R[2, 1])
    axes = np.array([[0.0, 0.0, 1.0], [math.cos(gamma), math.sin(gamma), 0.0], R[:, 2]]).T
    b, d, r = np.linalg.solve(axes, T[:3, 3])
    values = {"gamma": gamma, "b": b, "alpha": alpha, "d": d, "theta": theta, "r": r}
    return {key: round(float(x), 12) for key, x in values.items()}


def hpr_closure() -> Robot:
    """The bundled parallelogram robot with a closure in place of its couplings."""
    points = ([0.25, 0.0, 0.0], [-0.7, 0.0, 0.0])
    return closed(load_robot("hpr"), ("4", "5"), points, ("2", "5"), [-0.9, math.pi - 1.2], [0.0, 0.3, 1.2, 0.0, 0.0])


def sr400_closure() -> Robot:
    """The bundled SR400 with a closure in place of its couplings."""
    q2, q7 = -1.3, 0.3
    points, start = ([0.0, -0.45, 0.0], [0.9, 0.0, 0.0]), [q7 - q2 - math.pi / 2, q2 - q7]
    return closed(load_robot("sr400"), ("3", "8"), points, ("3", "8"), start, [0.0, q2, 0.0, 0.0, 0.0, q7])


class _Tree:
    """Poses of a table's links as homogeneous matrices, in mpmath's arithmetic or in floats (mpmath.fp)."""

    def __init__(self, robot: Robot, mp: Any) -> None:
        self.robot, self.mp, self.constant = robot, mp, []
        for link in robot.links:
            row = link.mdh
            assert isinstance(row, MdhRow)
            pairs = ((row.gamma, row.b), (row.alpha, row.d), (row.theta, row.r))
            parts = [(self.angle(turn.value), self.number(slide.value)) for turn, slide in pairs]
            self.constant.append(self.screw(2, *parts[0]) @ self.screw(0, *parts[1]) @ self.screw(2, *parts[2]))

    def number(self, x: float) -> Any:
        """A length, as printed."""
        return self.mp.mpf(repr(float(x)))

    def angle(self, x: float) -> Any:
        """An angle, right ones exact."""
        quarters = round(x / (math.pi / 2))
        return quarters * self.mp.pi / 2 if abs(x - quarters * math.pi / 2) < 1e-15 else self.number(x)

    def screw(self, axis: int, angle: Any, slide: Any) -> Any:
        """Rotation about and translation along x or z."""
        T = np.array(np.eye(4, dtype=int), dtype=object)
        c, s = self.mp.cos(angle), self.mp.sin(angle)
        b, d = (axis + 1) % 3, (axis + 2) % 3
        T[b, b], T[d, d], T[d, b], T[b, d], T[axis, 3] = c, c, s, -s, slide
        return T

    def poses(self, q: dict[int, Any]) -> list[Any]:
        """T_0_link (4, 4) of every link; q by link."""
        poses: list[Any] = []
        for k, (link, T) in enumerate(zip(self.robot.links, self.constant, strict=True)):
            if k in q:
                T = T @ self.screw(2, *((0, q[k]) if link.kind == "prismatic" else (q[k], 0)))
            poses.append(poses[link.parent] @ T if link.parent >= 0 else T)
        return poses


class _Loop:
    """A mechanism with one active joint as a curve: all poses at a position of the active joint."""

    def __init__(self, robot: Robot) -> None:
        (self.closure,) = robot.closures
        place = {link.joint: k for k, link in enumerate(robot.links)}
        self.active = robot.active_links[0]
        self.passive = [place[name] for name in self.closure.passive]
        self.frames = [place[name] for name in self.closure.links]
        self.trees = {True: _Tree(robot, mpmath.fp), False: _Tree(robot, mpmath.mp)}
        assert self.closure.at is not None
        self.at = float(self.closure.at[0])
        self.start = self._polish(self.at, np.array(self.closure.start))

    def _equations(self, s: Any, y: Any, *, floats: bool) -> list[Any]:
        tree = self.trees[floats]
        poses = tree.poses({self.active: s, **dict(zip(self.passive, y, strict=True))})
        one, two = (poses[k] for k in self.frames)
        points = [np.array([*map(tree.number, p), 1], dtype=object) for p in self.closure.points]
        E, gap = one[:3, :3].T @ two[:3, :3], one[:3, :3].T @ (two @ points[1] - one @ points[0])[:3]
        skew = [(E[2, 1] - E[1, 2]) / 2, (E[0, 2] - E[2, 0]) / 2, (E[1, 0] - E[0, 1]) / 2]
        every = [gap[0], gap[1], gap[2], *skew]
        return [every[DIRECTIONS.index(name)] for name in self.closure.keep]

    def slopes(self, s: float, y: Array) -> Array:
        """Derivatives of the equations by the passive joints."""
        step = 1e-6
        ends = [[self._equations(s, y + sign * e, floats=True) for sign in (step, -step)] for e in np.eye(len(y))]
        return np.array([(np.array(a) - np.array(b)) / (2 * step) for a, b in ends], dtype=np.float64).T

    def _polish(self, s: float, y: Array) -> Array:
        for _ in range(8):
            y = y - np.linalg.solve(self.slopes(s, y), np.array(self._equations(s, y, floats=True), dtype=np.float64))
        return y

    def rows(self, reach: float, count: int) -> tuple[list[list[Any]], list[list[Any]]]:
        """Rows of kinetic energy, and of differences of potential energy, at so many positions to both sides."""
        kinetic: list[list[Any]] = []
        potential: list[list[Any]] = []
        for side in (-1.0, 1.0):
            y = self.start
            for k in range(1, count // 2 + 2):
                s = self.at + side * reach * k / (count // 2 + 1)
                y = self._polish(s, y)
                for rows, row in zip((kinetic, potential), self._energies(s, y), strict=True):
                    rows.append(row)
        first = potential.pop(0)
        return kinetic, [[a - b for a, b in zip(row, first, strict=True)] for row in potential]

    def _energies(self, s: float, y: Array) -> tuple[list[Any], list[Any]]:
        """Kinetic energy at unit velocity and potential energy per unit of each parameter, ten per link."""
        mp, tree = mpmath.mp, self.trees[False]
        inverse = mp.matrix(np.linalg.inv(self.slopes(s, y)).tolist())
        h = mp.mpf(10) ** -DIFFERENCE
        curve = []
        for x in (mp.mpf(s) - h, mp.mpf(s), mp.mpf(s) + h):
            z = mp.matrix(y.tolist())
            left = mp.matrix(self._equations(x, list(z), floats=False))
            while mp.norm(left) > mp.mpf(10) ** (6 - DIGITS):
                z = z - inverse * left
                before, left = left, mp.matrix(self._equations(x, list(z), floats=False))
                if not mp.norm(left) < mp.norm(before):
                    raise ArithmeticError(f"{tree.robot.name}: the loop does not close at {s}")
            curve.append(tree.poses({self.active: x, **dict(zip(self.passive, list(z), strict=True))}))
        kinetic: list[Any] = []
        potential: list[Any] = []
        g = [tree.number(float(x)) for x in tree.robot.gravity]
        for before, now, after in zip(*curve, strict=True):
            D = (after - before) / (2 * h)
            spin, v = now[:3, :3].T @ D[:3, :3], now[:3, :3].T @ D[:3, 3]
            w = [spin[2, 1], spin[0, 2], spin[1, 0]]
            squares = [w[i] * w[j] / (2 if i == j else 1) for i in range(3) for j in range(i, 3)]
            moments = [v[(i + 1) % 3] * w[(i + 2) % 3] - v[(i + 2) % 3] * w[(i + 1) % 3] for i in range(3)]
            kinetic += [*squares, *moments, (v[0] ** 2 + v[1] ** 2 + v[2] ** 2) / 2]
            height = [-sum(g[i] * now[i, j] for i in range(3)) for j in range(4)]
            potential += [*([mp.mpf(0)] * 6), *height]
        return kinetic, potential


def names_by_energy(robot: Robot, *, rotor_inertia: bool, reach: float = 0.1) -> tuple[str, ...]:
    """Names of the first independent columns of the energy along the curve that the mechanism can follow.

    The active joint goes so far (rad) to both sides, and less where the mechanism cannot.
    """
    with mpmath.workdps(DIGITS):
        loop = _Loop(robot)
        positions = 36 if len(robot.closures[0].keep) == 6 else 14
        try:
            kinetic, potential = loop.rows(reach, positions)
        except ArithmeticError:
            kinetic, potential = loop.rows(0.3 * reach, positions)
        place = robot.parameter_names.index("Ia" + robot.links[loop.active].label)
        if rotor_inertia:
            for rows, share in ((kinetic, 0.5), (potential, 0.0)):
                for row in rows:
                    row.insert(place, mpmath.mpf(share))
        names = [name for name in robot.parameter_names if rotor_inertia or not name.startswith("Ia")]
        return tuple(names[k] for k in _pivots(kinetic + potential))


def _pivots(rows: list[list[Any]]) -> list[int]:
    """First independent columns by Gauss with the largest pivot of a column."""
    found: list[int] = []
    for c in range(len(rows[0])):
        rest = rows[len(found) :]
        if not rest:
            break
        best = max(range(len(rest)), key=lambda i: abs(rest[i][c]))
        if abs(rest[best][c]) < mpmath.mpf(10) ** -ZERO:
            continue
        r = len(found)
        rows[r], rows[r + best] = rows[r + best], rows[r]
        for i in range(r + 1, len(rows)):
            factor = rows[i][c] / rows[r][c]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[r], strict=True)]
        found.append(c)
    return found
