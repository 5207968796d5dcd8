"""Random closed mechanisms written as `[[closure]]`, each with the number of base parameters that theory gives it.

Lengths are short decimals, so that a parallelogram is one exactly; sizes go from millimetres to ten metres. A table is
the mapping of a TOML file, `robot_of(table)` the robot.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dynid
from dynid import Robot
from dynid.robot.expression import Expression
from dynid.robot.io.toml_table import build_robot
from dynid.robot.mdh import mdh_transform
from dynid.robot.robot import MdhRow
from dynid.robot.transform import Transform

Table = dict[str, Any]
Generator = np.random.Generator


@dataclass(frozen=True)
class LoopCase:
    """A mechanism and its number of base parameters, from theory, couplings or long arithmetic (spatial loops)."""

    name: str
    table: Table
    count: int

    @property
    def robot(self) -> Robot:
        """The robot of the table."""
        return robot_of(self.table)


def robot_of(table: Table) -> Robot:
    """Build the robot of a table."""
    return build_robot(table, file="table", name=str(table["name"]), snap=True)


def four_bar(lengths: tuple[float, float, float, float], q1: float, branch: int, gravity: list[float]) -> Table:
    """Ground, crank, coupler and rocker in the xy plane, assembled at the crank's angle q1 on one of two branches."""
    ground, crank, coupler, rocker = lengths
    across = np.array([ground - crank * math.cos(q1), -crank * math.sin(q1)])
    far = float(np.hypot(*across))
    bend = branch * math.acos((far**2 + coupler**2 - rocker**2) / (2.0 * far * coupler))
    coupler_angle = math.atan2(across[1], across[0]) + bend
    end = crank * np.array([math.cos(q1), math.sin(q1)]) + coupler * np.array(
        [math.cos(coupler_angle), math.sin(coupler_angle)]
    )
    rocker_angle = math.atan2(end[1], end[0] - ground)
    return {
        "name": "four_bar",
        "gravity": gravity,
        "joint": [{}, {"d": crank}, {"parent": 0, "d": ground}],
        "closure": [
            {
                "frames": ["2", "3"],
                "points": [[coupler, 0.0, 0.0], [rocker, 0.0, 0.0]],
                "keep": ["x", "y"],
                "passive": ["2", "3"],
                "start": [coupler_angle - q1, rocker_angle],
                "at": [q1],
            }
        ],
    }


def _decimal(rng: Generator, low: float, high: float, scale: float) -> float:
    """A number of three digits, times a power of ten."""
    return float(f"{rng.uniform(low, high):.3g}e{round(math.log10(scale))}")


def _scale(rng: Generator) -> float:
    return float(rng.choice([1e-3, 1e-2, 0.1, 1.0, 1.0, 10.0]))


def _in_plane(rng: Generator) -> list[float]:
    angle = rng.uniform(-math.pi, math.pi)
    return [round(9.81 * math.cos(angle), 3), round(9.81 * math.sin(angle), 3), 0.0]


def _angle_between(rng: Generator) -> float:
    """An angle away from the change points at 0 and pi."""
    return float(rng.choice([-1.0, 1.0])) * round(float(rng.uniform(0.4, 2.7)), 3)


def parallelogram(rng: Generator) -> LoopCase:
    """Opposite sides equal, coupler parallel to the ground."""
    s, q1 = _scale(rng), _angle_between(rng)
    ground, crank = _decimal(rng, 0.3, 1.0, s), _decimal(rng, 0.3, 1.0, s)
    if ground == crank:
        return parallelogram(rng)
    table = four_bar((ground, crank, ground, crank), q1, _parallel_branch(ground, crank, q1), _in_plane(rng))
    return LoopCase("parallelogram", table, 3)


def antiparallelogram(rng: Generator) -> LoopCase:
    """The same sides, crossed."""
    s, q1 = _scale(rng), _angle_between(rng)
    ground, crank = _decimal(rng, 0.3, 1.0, s), _decimal(rng, 0.3, 1.0, s)
    if abs(ground - crank) < 0.1 * s:
        return antiparallelogram(rng)
    table = four_bar((ground, crank, ground, crank), q1, -_parallel_branch(ground, crank, q1), _in_plane(rng))
    return LoopCase("antiparallelogram", table, 8)


def rhombus(rng: Generator) -> LoopCase:
    """Four equal sides."""
    s, q1 = _scale(rng), _angle_between(rng)
    side = _decimal(rng, 0.3, 1.0, s)
    return LoopCase("rhombus", four_bar((side,) * 4, q1, _parallel_branch(side, side, q1), _in_plane(rng)), 3)


def _parallel_branch(ground: float, crank: float, q1: float) -> int:
    """The branch whose coupler has the direction of the ground."""
    for branch in (1, -1):
        start = four_bar((ground, crank, ground, crank), q1, branch, [0.0, 0.0, 0.0])["closure"][0]["start"]
        if abs(math.remainder(start[0] + q1, 2.0 * math.pi)) < 1e-6:
            return branch
    raise AssertionError((ground, crank, q1))


def generic_four_bar(rng: Generator) -> LoopCase:
    """Any sides, Grashof or not, any branch, assembled at least a little away from dead points."""
    s = _scale(rng)
    while True:
        lengths = tuple(_decimal(rng, 0.2, 1.0, s) for _ in range(4))
        ground, crank, coupler, rocker = lengths
        q1 = round(float(rng.uniform(-math.pi, math.pi)), 3)
        far = math.sqrt(ground**2 + crank**2 - 2.0 * ground * crank * math.cos(q1))
        different = min(abs(a - b) for k, a in enumerate(lengths) for b in lengths[:k]) > 0.03 * s
        if different and 1.1 * abs(coupler - rocker) < far < 0.95 * (coupler + rocker):
            break
    ordered = sorted(lengths)
    grashof = ordered[0] + ordered[3] < ordered[1] + ordered[2]
    table = four_bar((ground, crank, coupler, rocker), q1, int(rng.choice([-1, 1])), _in_plane(rng))
    return LoopCase("grashof" if grashof else "non-grashof", table, 8)


def slider_crank(rng: Generator) -> LoopCase:
    """Crank, rod and slider through the crank's axis; gravity in the plane, or normal to it."""
    s, q1 = _scale(rng), round(float(rng.uniform(-math.pi, math.pi)), 3)
    crank, rod = _decimal(rng, 0.2, 0.6, s), _decimal(rng, 0.7, 1.2, s)
    normal = bool(rng.random() < 0.3)
    rod_angle = -math.asin(crank / rod * math.sin(q1))
    table = {
        "name": "slider_crank",
        "gravity": [0.0, 0.0, -9.81] if normal else _in_plane(rng),
        "joint": [
            {},
            {"d": crank},
            {"parent": 0, "type": "prismatic", "gamma": math.pi / 2, "alpha": math.pi / 2},
        ],
        "closure": [
            {
                "frames": ["2", "3"],
                "points": [[rod, 0.0, 0.0], [0.0, 0.0, 0.0]],
                "keep": ["x", "y"],
                "passive": ["2", "3"],
                "start": [rod_angle - q1, crank * math.cos(q1) + rod * math.cos(rod_angle)],
                "at": [q1],
            }
        ],
    }
    return LoopCase("slider-crank" + (", gravity normal" if normal else ""), table, 4 if normal else 6)


def double_parallelogram(rng: Generator) -> LoopCase:
    """A parallelogram on the coupler of another, each with a joint of its own."""
    s, first, second = _scale(rng), _angle_between(rng), _angle_between(rng)
    a, b, c, d = (_decimal(rng, 0.3, 1.0, s) for _ in range(4))

    def closure(frames: list[str], ground: float, crank: float, q: float) -> Table:
        points = [[ground, 0.0, 0.0], [crank, 0.0, 0.0]]
        return {"frames": frames, "points": points, "keep": ["x", "y"], "passive": frames, "start": [-q, q]}

    closures = [closure(["2", "3"], a, b, first), closure(["5", "6"], c, d, second)]
    closures[0]["at"] = [first, second]
    table = {
        "name": "double_parallelogram",
        "gravity": _in_plane(rng),
        "joint": [
            {}, {"d": b}, {"parent": 0, "d": a},
            {"parent": 2, "d": round(0.5 * a, 6)}, {"d": d}, {"parent": 2, "d": round(0.5 * a, 6) + c},
        ],
        "closure": closures,
    }  # fmt: skip
    return LoopCase("double parallelogram", table, 6)


def five_bar(rng: Generator) -> LoopCase:
    """Two cranks on the ground, their tips joined by two rods."""
    s = _scale(rng)
    while True:
        ground, one, two = (_decimal(rng, 0.3, 0.6, s) for _ in range(3))
        rod, other = (_decimal(rng, 0.5, 0.9, s) for _ in range(2))
        q1, q3 = round(float(rng.uniform(1.6, 2.6)), 3), round(float(rng.uniform(0.5, 1.5)), 3)
        left = one * np.array([math.cos(q1), math.sin(q1)])
        right = np.array([ground, 0.0]) + two * np.array([math.cos(q3), math.sin(q3)])
        far = float(np.hypot(*(right - left)))
        if 1.1 * abs(rod - other) < far < 0.9 * (rod + other) and len({one, two, rod, other, ground}) == 5:
            break
    bend = math.acos((far**2 + rod**2 - other**2) / (2.0 * far * rod))
    angle = math.atan2(*(right - left)[::-1]) + bend
    tip = left + rod * np.array([math.cos(angle), math.sin(angle)])
    back = math.atan2(*(tip - right)[::-1])
    table = {
        "name": "five_bar",
        "gravity": _in_plane(rng),
        "joint": [{}, {"d": one}, {"parent": 0, "d": ground}, {"parent": 3, "d": two}],
        "closure": [
            {
                "frames": ["2", "4"],
                "points": [[rod, 0.0, 0.0], [other, 0.0, 0.0]],
                "keep": ["x", "y"],
                "passive": ["2", "4"],
                "start": [angle - q1, back - q3],
                "at": [q1, q3],
            }
        ],
    }
    return LoopCase("five-bar", table, 11)


def spatial_loop(rng: Generator) -> LoopCase:
    """Seven joints in space, all revolute (7R) or one revolute and three cylindrical (RCCC); the first is active."""
    s, cylindrical = _scale(rng), bool(rng.random() < 0.3)
    rows: list[Table] = []
    for k in range(7):
        if cylindrical and k in (2, 4, 6):
            rows.append({"type": "prismatic"})
            continue
        rows.append({
            "alpha": round(float(rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.6)), 3),
            "d": _decimal(rng, 0.2, 1.0, s), "r": 0.0 if cylindrical else _decimal(rng, -0.5, 0.5, s),
        })  # fmt: skip
    cut = 7 if cylindrical else int(rng.integers(3, 8))
    if cut < 7:
        rows[cut]["parent"] = 0
    q = [float(f"{x:.3g}") for x in rng.uniform(-2.0, 2.0, 7) * [s if "type" in row else 1.0 for row in rows]]
    ends = []
    for chain in (range(cut), range(cut, 7)):
        T = Transform.identity()
        for k in chain:
            key = "r" if "type" in rows[k] else "theta"
            T = T @ _placement({**rows[k], key: rows[k].get(key, 0.0) + q[k]})
        ends.append(T)
    last = {"parent": 7 if cut < 7 else 0, "type": "fixed", **_mdh_of(ends[1].inverse() @ ends[0], s)}
    table = {
        "name": "spatial",
        "gravity": [1.5, -4.2, -8.7],
        "joint": [*rows, last],
        "closure": [
            {
                "frames": [str(cut), "8"],
                "keep": ["x", "y", "z", "rx", "ry", "rz"],
                "passive": [str(k) for k in range(2, 8)],
                "start": q[1:],
                "at": q[:1],
            }
        ],
    }
    return LoopCase("RCCC" if cylindrical else "7R", table, 18 if cylindrical else 31)


def _placement(row: Table) -> Transform:
    numbers = {k: Expression(float(row.get(k, 0.0))) for k in ("gamma", "b", "alpha", "d", "theta", "r")}
    return mdh_transform(MdhRow(**numbers))


def _mdh_of(T: Transform, scale: float) -> Table:
    """Parameters of a general placement, rounded to four digits after the point (of the mechanism's size)."""
    R, p = T.rotation, T.translation
    alpha = math.acos(R[2, 2])
    gamma, theta = math.atan2(R[0, 2], -R[1, 2]), math.atan2(R[2, 0], R[2, 1])
    directions: NDArray[np.float64] = np.column_stack([[0, 0, 1], [math.cos(gamma), math.sin(gamma), 0], R[:, 2]])
    b, d, r = np.linalg.solve(directions, p)
    angles = {"gamma": round(gamma, 4), "alpha": round(alpha, 4), "theta": round(theta, 4)}
    return angles | {k: float(f"{x / scale:.4f}e{round(math.log10(scale))}") for k, x in (("b", b), ("d", d), ("r", r))}


def closure_twin(name: str, *, rotor_inertia: bool = True) -> LoopCase:
    """The bundled hpr or sr400 with its parallelogram written as a closure; the count with or without rotors."""
    if name == "hpr":
        closure = {"frames": ["4", "5"], "points": [["D5", 0, 0], ["-D4", 0, 0]], "passive": ["2", "5"],
                   "start": [-90, 90], "at": [0, 0, 90, 0, 0]}  # fmt: skip
        count = 35 if rotor_inertia else 32
    else:
        closure = {"frames": ["3", "8"], "points": [[0, "-D8", 0], ["D3", 0, 0]], "passive": ["3", "8"],
                   "start": [0, -90], "at": [0, -90, 0, 0, 0, 0]}  # fmt: skip
        count = 42 if rotor_inertia else 39
    table = _bundled(name)
    del table["coupling"]
    table["closure"] = [{"keep": ["x", "y"], **closure}]
    return LoopCase(f"{name} as closure", table, count)


def _bundled(name: str) -> Table:
    return tomllib.loads((Path(dynid.__file__).parent / "robot" / "library" / f"{name}.toml").read_text())


FAMILIES = (
    parallelogram, antiparallelogram, rhombus, generic_four_bar, generic_four_bar, slider_crank, double_parallelogram,
    five_bar, spatial_loop,
)  # fmt: skip


def random_loop(seed: int) -> LoopCase:
    """Mechanism number `seed`, of all families in turn."""
    return FAMILIES[seed % len(FAMILIES)](np.random.default_rng(seed))
