"""`python -m campaign.cells [--short N] [--full N] [--impossible N] [--first SEED] [--json FILE]`: random cells.

Robots are URDF and MJCF files written here: chains and trees of revolute and prismatic joints, links from boxes,
cylinders, spheres, capsules and meshes; cells have boxes, planes, meshes (also hollow ones), a workspace, a floor, tool
and payload; shapes are `fourier` and `points`. The check shares nothing with the search: MuJoCo reads the robot's file,
obstacles are added to its world, and distances, tool speeds, torques and joint limits are taken from it at 1 kHz along
the samples of the finished motion. Between samples a distance changes by no more than the parts move: where that leaves
a doubt, the motion is looked at at 10 kHz. Cells in which nothing fits must say what would free the robot; the campaign
makes that repair and designs again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from dynid import DynidError, Excitation, design_excitation, load_robot
from dynid.excitation.clearance import SAFETY
from dynid.excitation.quintics import Quintics
from dynid.robot.motion import Motion
from dynid.robot.transform import Array, rotation_from_rpy

RATE, FINER = 1000.0, 10
"""Samples per second of the check, and how many more where a distance is near its limit."""
ROUNDING = 2e-5
"""What two libraries of distances may differ by, m."""
REVOLUTE, SLIDE = 2.2, 0.25
SPEED, ACCELERATION = 1.5, 6.0


# Random robots and what stands around them.


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A shape in a frame: kind (box, cylinder, sphere, capsule, mesh), sizes as MuJoCo has them, place along z.

    points (V, 3): corners of a mesh, around its own origin.
    """

    kind: str
    size: tuple[float, ...]
    z: float
    points: Array = field(default_factory=lambda: np.zeros((0, 3)))


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """A joint with the link that it carries: parent (-1: the mount), kind, axis, height over the parent's frame."""

    parent: int
    kind: str
    axis: tuple[float, float, float]
    height: float
    part: Part
    length: float
    mass: float
    effort: float


@dataclass(frozen=True, slots=True, eq=False)
class RandomCell:
    """A random robot and what stands around it; pieces: meshes of the cell as convex pieces, by their number."""

    seed: int
    is_mjcf: bool
    mount: Part
    joints: tuple[Joint, ...]
    obstacles: dict[str, Any]
    pieces: tuple[tuple[Array, ...], ...]
    floor: float | None
    clearance: float
    tool_speed: float | None
    shape: str

    @property
    def limits(self) -> dict[str, Any]:
        """Limits of the joints."""
        slides = np.array([joint.kind == "prismatic" for joint in self.joints])
        reach = np.where(slides, SLIDE, REVOLUTE)
        return {
            "position": np.column_stack([-reach, reach]), "velocity": np.where(slides, 0.4, SPEED),
            "acceleration": np.where(slides, 2.0, ACCELERATION), "effort": np.array([j.effort for j in self.joints]),
        }  # fmt: skip


def random_part(rng: np.random.Generator, length: float, *, is_mjcf: bool) -> Part:
    """A shape about 7 cm thick, along a link of some length."""
    kind = str(rng.choice(["box", "cylinder", "sphere", "mesh", *(["capsule"] if is_mjcf else [])]))
    half, z, thick = 0.35 * length, 0.5 * length, rng.uniform(0.03, 0.045)
    if kind == "mesh":
        x = rng.normal(size=(12, 3))
        x = x / np.linalg.norm(x, axis=1)[:, None] * [thick * 1.3, thick * 1.3, half]
        return Part(kind, (), z, x)
    sizes = {"box": (thick, thick, half), "sphere": (0.4 * length,)}.get(kind, (thick, half))
    return Part(kind, tuple(float(x) for x in sizes), z)


def random_cell(seed: int, *, crowded: bool = False) -> RandomCell:
    """A robot of 2 to 6 joints in a random cell; crowded: with obstacles that hardly leave it room, or none."""
    rng = np.random.default_rng(seed)
    is_mjcf, shape = bool(rng.random() < 0.4), "points" if rng.random() < 0.25 else "fourier"
    n = int(rng.integers(2, 5 if shape == "points" else 7))
    joints: list[Joint] = []
    branch = int(rng.integers(1, n)) if rng.random() < 0.25 and n > 3 else None
    for j in range(n):
        parent = j - 1 if j != branch else int(rng.integers(0, j))
        slides = bool(rng.random() < 0.2)
        axis = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))[j % 2 if j else 0]
        length = float(rng.uniform(0.12, 0.35))
        height = 0.15 if parent < 0 else joints[parent].length
        effort = float(rng.uniform(25.0, 120.0)) if rng.random() < 0.3 else 500.0
        part = random_part(rng, length, is_mjcf=is_mjcf)
        mass = float(rng.uniform(0.5, 2.5))
        joints.append(Joint(parent, "prismatic" if slides else "revolute", axis, height, part, length, mass, effort))
    cell, pieces = random_obstacles(rng, joints, crowded)
    floor = float(rng.uniform(-0.3, -0.06)) if rng.random() < 0.6 else None
    speed = float(rng.uniform(0.3, 1.5)) if rng.random() < 0.6 else None
    clearance = float(rng.uniform(0.0, 0.05)) if not crowded else float(rng.uniform(0.02, 0.25))
    mount = Part("box", (0.04, 0.04, 0.035), 0.0)
    return RandomCell(seed, is_mjcf, mount, tuple(joints), cell, pieces, floor, clearance, speed, shape)


def random_obstacles(
    rng: np.random.Generator, joints: list[Joint], crowded: bool
) -> tuple[dict[str, Any], tuple[tuple[Array, ...], ...]]:
    """Table of a cell, with meshes by the names of their files, and the convex pieces of these."""
    near = (0.12, 0.4) if crowded else (0.45, 0.9)
    boxes, meshes, pieces = [], [], []

    def place() -> dict[str, Any]:
        angle, far = rng.uniform(0, 2 * np.pi), rng.uniform(*near)
        position = [float(far * np.cos(angle)), float(far * np.sin(angle)), float(rng.uniform(0.0, 0.8))]
        return {"position": position, "rpy": rng.uniform(-1, 1, 3).tolist()}

    for _ in range(int(rng.integers(1, 8 if crowded else 4))):
        boxes.append({"size": rng.uniform(0.1, 0.5, 3).tolist(), **place()})
    for k in range(int(rng.integers(0, 3))):
        hollow = rng.random() < 0.5
        if hollow:  # an L: two boxes that share a face, as one surface
            a, b, c = rng.uniform(0.1, 0.3, 3)
            own = (box_points([0, 0, 0], [a, b, c]), box_points([0, 0, c], [a / 2, b, 2 * c]))
        else:
            own = (rng.normal(size=(14, 3)) * rng.uniform(0.05, 0.15, 3),)  # type: ignore[assignment]
        meshes.append({"file": f"obstacle{k}.obj", "scale": 1.0, **place()})
        pieces.append(own)
    cell: dict[str, Any] = {"box": boxes, "mesh": meshes}
    last = len(joints) - 1
    end = [0.0, 0.0, joints[last].length]
    link = {"link": f"l{last}"}
    if rng.random() < 0.6:
        size = {"radius": 0.03, "length": 0.1} if rng.random() < 0.5 else {"size": [0.06, 0.05, 0.1]}
        cell["tool"] = {**size, "position": end, "mass": float(rng.uniform(0.2, 1.0)), **link}
    if rng.random() < 0.4:
        place_of = [0.0, 0.05, joints[last].length + 0.12]
        cell["payload"] = {"size": [0.08, 0.1, 0.06], "position": place_of, "mass": 0.7, "com": place_of, **link}
    if rng.random() < 0.35:
        cell["plane"] = [{"normal": [-1.0, 0.1, 0.0], "offset": -float(rng.uniform(0.5, 0.9))}]
    if rng.random() < 0.25:
        cell["workspace"] = {"lower": [-1.1, -1.1, -0.4], "upper": [1.1, 1.1, 1.6]}
    return cell, tuple(pieces)


def box_points(lower: list[float], upper: list[float]) -> Array:
    """Corners (8, 3) of a box between two of them."""
    return np.array([[(lower, upper)[b >> k & 1][k] for k in range(3)] for b in range(8)], dtype=np.float64)


# Their files.


def mesh_text(pieces: tuple[Array, ...]) -> str:
    """OBJ of a closed surface around convex pieces: of one its hull, of two boxes one on the other an L."""
    if len(pieces) == 1:
        x, hull = pieces[0], ConvexHull(pieces[0])
        faces = []
        for face, plane in zip(hull.simplices, hull.equations, strict=True):
            a, b, c = x[face]
            faces.append(face if np.cross(b - a, c - a) @ plane[:3] > 0 else face[::-1])
        return _obj(x, faces)
    low, top = pieces[0].max(axis=0), pieces[1].max(axis=0)
    outline = [(0, 0), (low[0], 0), (low[0], low[2]), (top[0], low[2]), (top[0], top[2]), (0, top[2])]  # in x, z
    x = np.array([[a, y, c] for y in (0.0, low[1]) for a, c in outline])
    flat = [(0, 1, 2), (0, 2, 3), (0, 3, 5), (3, 4, 5)]
    faces = [np.array(f) for f in flat] + [np.array(f)[::-1] + 6 for f in flat]
    for k in range(6):
        m = (k + 1) % 6
        faces += [np.array([k, k + 6, m]), np.array([m, k + 6, m + 6])]
    return _obj(x, faces)


def _obj(points: Array, faces: list[Any]) -> str:
    """Text of an OBJ file."""
    lines = [f"v {a!r} {b!r} {c!r}" for a, b, c in points.tolist()]
    return "\n".join([*lines, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces)]) + "\n"


def write_robot(cell: RandomCell, folder: Path) -> Path:
    """Write the robot's file, its meshes, and those of the cell."""
    for k, pieces in enumerate(cell.pieces):
        (folder / f"obstacle{k}.obj").write_text(mesh_text(pieces))
    for k, joint in enumerate(cell.joints):
        if joint.part.kind == "mesh":
            (folder / f"part{k}.obj").write_text(mesh_text((joint.part.points,)))
    file = folder / ("robot.xml" if cell.is_mjcf else "robot.urdf")
    file.write_text(mjcf_text(cell) if cell.is_mjcf else urdf_text(cell))
    (folder / "cell.toml").write_text(toml_text(cell.obstacles))
    return file


def urdf_text(cell: RandomCell) -> str:
    """The robot as a URDF."""

    def link(name: str, part: Part, k: int, mass: float) -> str:
        s = part.size
        shape = {
            "box": lambda: f'<box size="{2 * s[0]} {2 * s[1]} {2 * s[2]}"/>',
            "cylinder": lambda: f'<cylinder radius="{s[0]}" length="{2 * s[1]}"/>',
            "sphere": lambda: f'<sphere radius="{s[0]}"/>', "mesh": lambda: f'<mesh filename="part{k}.obj"/>',
        }[part.kind]()  # fmt: skip
        place = f'<origin xyz="0 0 {part.z}"/>'
        body = f'<mass value="{mass}"/><inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
        solid = f"<collision>{place}<geometry>{shape}</geometry></collision>"
        return f'<link name="{name}"><inertial>{place}{body}</inertial>{solid}</link>'

    parts = ['<robot name="arm">', link("base", cell.mount, 0, 1.0)]
    for j, joint in enumerate(cell.joints):
        parent = "base" if joint.parent < 0 else f"l{joint.parent}"
        reach = SLIDE if joint.kind == "prismatic" else REVOLUTE
        parts.append(
            f'<joint name="j{j}" type="{joint.kind}"><parent link="{parent}"/><child link="l{j}"/>'
            f'<origin xyz="0 0 {joint.height}"/><axis xyz="{" ".join(map(str, joint.axis))}"/>'
            f'<limit lower="{-reach}" upper="{reach}" velocity="{SPEED}" effort="{joint.effort}"/></joint>'
        )
        parts.append(link(f"l{j}", joint.part, j, joint.mass))
    return "".join([*parts, "</robot>"])


def mjcf_text(cell: RandomCell) -> str:
    """The robot as an MJCF with a class for shapes, shapes for the eye, and a floor that is none of the robot's."""

    def geom(part: Part, k: int) -> str:
        place = f'class="solid" pos="0 0 {part.z}"'
        if part.kind == "mesh":
            return f'<geom {place} type="mesh" mesh="part{k}"/>'
        if part.kind == "capsule":
            r, half = part.size
            return f'<geom class="solid" type="capsule" size="{r}" fromto="0 0 {part.z - half} 0 0 {part.z + half}"/>'
        return f'<geom {place} type="{part.kind}" size="{" ".join(map(str, part.size))}"/>'

    def body(j: int) -> str:
        joint = cell.joints[j]
        kind = "slide" if joint.kind == "prismatic" else "hinge"
        reach = SLIDE if joint.kind == "prismatic" else REVOLUTE
        inside = "".join(body(k) for k, other in enumerate(cell.joints) if other.parent == j)
        return (
            f'<body name="l{j}" pos="0 0 {joint.height}"><joint name="j{j}" type="{kind}" '
            f'axis="{" ".join(map(str, joint.axis))}" range="{-reach} {reach}"/>'
            f'<inertial pos="0 0 {joint.part.z}" mass="{joint.mass}" diaginertia="0.02 0.02 0.01"/>'
            f'{geom(joint.part, j)}<geom class="seen" type="box" size="0.2 0.2 0.2"/>{inside}</body>'
        )

    meshes = "".join(
        f'<mesh name="part{j}" file="part{j}.obj"/>' for j, joint in enumerate(cell.joints) if joint.part.kind == "mesh"
    )
    tops = "".join(body(j) for j, joint in enumerate(cell.joints) if joint.parent < 0)
    return (
        '<mujoco model="arm"><compiler angle="radian" autolimits="true"/><default><default class="solid"><geom '
        'group="3"/></default><default class="seen"><geom contype="0" conaffinity="0" group="2"/></default></default>'
        f'<asset>{meshes}</asset><worldbody><geom name="ground" type="plane" size="9 9 1" pos="0 0 -9"/>'
        f'<body name="base">{geom(cell.mount, 0)}{tops}</body></worldbody></mujoco>'
    )


def toml_text(table: dict[str, Any]) -> str:
    """The table of a cell as a file."""
    lines = []
    for name, value in table.items():
        for one in value if isinstance(value, list) else [value]:
            lines.append(f"[[{name}]]" if isinstance(value, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(x)}" for key, x in one.items()]
    return "\n".join(lines) + "\n"


def design(cell: RandomCell, folder: Path, *, budget: float | None = 0.5, **options: Any) -> Excitation:
    """Design a motion in a cell; with a short budget a small one."""
    robot = load_robot(str(write_robot(cell, folder)))
    if cell.shape == "points":
        options = {"shape": "points", **options}
    elif budget is not None:
        options = {"harmonics": 3, "duration": 6.0, **options}
    return design_excitation(
        robot, limits=cell.limits, starts=1, time_budget=budget, obstacles=folder / "cell.toml", floor=cell.floor,
        clearance=cell.clearance, tool_speed=cell.tool_speed, **options,
    )  # fmt: skip


# The check by MuJoCo.


class Mujoco:
    """The robot's file and the cell in MuJoCo, along the samples of a motion."""

    def __init__(self, cell: RandomCell, found: Excitation, folder: Path) -> None:
        import mujoco

        self.mj, self.cell, self.found = mujoco, cell, found
        spec = mujoco.MjSpec.from_file(str(folder / ("robot.xml" if cell.is_mjcf else "robot.urdf")))
        self._add_obstacles(spec)
        self._attach(spec)
        flags = mujoco.mjtDisableBit
        spec.option.disableflags |= flags.mjDSBL_CONTACT | flags.mjDSBL_LIMIT
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        names = found.robot.joint_names
        self.columns = [int(self.model.jnt_qposadr[self.model.joint(name).id]) for name in names]
        self.motion = found.motion(RATE)
        seen = [g for g in range(self.model.ngeom) if self.model.geom(g).name != "ground" and not self._is_seen(g)]
        self.fixed = [g for g in seen if self.model.geom(g).name.startswith("obstacle ")]
        self.own = [g for g in seen if g not in self.fixed]
        self.moving = [g for g in self.own if self.model.body_weldid[self.model.geom_bodyid[g]]]
        self._follow()

    def _is_seen(self, g: int) -> bool:
        """Whether a shape is for the eye only."""
        return not (self.model.geom_contype[g] or self.model.geom_conaffinity[g])

    def _add_obstacles(self, spec: Any) -> None:
        """Add boxes and the convex pieces of meshes to the world."""
        kinds = self.mj.mjtGeom
        for k, box in enumerate(self.cell.obstacles["box"]):
            spec.worldbody.add_geom(
                name=f"obstacle box {k}", type=kinds.mjGEOM_BOX, size=0.5 * np.array(box["size"]), pos=box["position"],
                quat=self._quaternion(box["rpy"]), contype=1,
            )  # fmt: skip
        for k, (mesh, pieces) in enumerate(zip(self.cell.obstacles["mesh"], self.cell.pieces, strict=True)):
            for m, points in enumerate(pieces):
                at = points @ rotation_from_rpy(*mesh["rpy"]).T + mesh["position"]
                spec.add_mesh(name=f"piece {k} {m}", uservert=at.ravel())
                spec.worldbody.add_geom(
                    name=f"obstacle mesh {k} {m}", type=kinds.mjGEOM_MESH, meshname=f"piece {k} {m}", contype=1
                )

    def _attach(self, spec: Any) -> None:
        """Add tool and payload to the link that carries them."""
        kinds = self.mj.mjtGeom
        for name in ("tool", "payload"):
            part = self.cell.obstacles.get(name)
            if part is None:
                continue
            body = spec.body(part["link"])
            start = np.array(part["position"])
            end = start + np.array([0.0, 0.0, part.get("length", 0.0)])
            if "size" in part:
                body.add_geom(name=name, type=kinds.mjGEOM_BOX, size=0.5 * np.array(part["size"]), pos=start, mass=0.0)
            else:
                body.add_geom(
                    name=name, type=kinds.mjGEOM_CAPSULE, size=[part["radius"], 0, 0], fromto=[*start, *end], mass=0.0
                )
            com = part.get("com", (0.5 * (start + end)).tolist())
            body.add_body(
                name=f"mass of {name}", pos=com, mass=part["mass"], ipos=[0, 0, 0], inertia=[1e-9] * 3,
                explicitinertial=True,
            )  # fmt: skip

    def _quaternion(self, rpy: Any) -> Array:
        quaternion = np.zeros(4)
        self.mj.mju_mat2Quat(quaternion, rotation_from_rpy(*rpy).ravel())
        return quaternion

    def _set(self, q: Array) -> None:
        self.data.qpos[self.columns] = q
        self.mj.mj_kinematics(self.model, self.data)

    def _follow(self) -> None:
        """Places of all shapes at the samples, and how far each may go from sample to sample."""
        N, G = len(self.motion), self.model.ngeom
        self.x, self.R = np.empty((N, G, 3)), np.empty((N, G, 3, 3))
        for k, q in enumerate(self.motion.q):
            self._set(q)
            self.x[k], self.R[k] = self.data.geom_xpos, self.data.geom_xmat.reshape(G, 3, 3)
        turned = np.linalg.norm(np.diff(self.R, axis=0), axis=(2, 3)) / np.sqrt(2.0)
        way = np.linalg.norm(np.diff(self.x, axis=0), axis=2) + turned * self.model.geom_rbound
        self.travel = np.vstack([np.zeros(G), np.cumsum(1.01 * way, axis=0)])  # arcs are longer than chords

    def _between(self, k: int) -> Array:
        """Positions between samples k and k + 1, by the quintics through both."""
        m, pair = self.motion, slice(k, k + 2)
        path = Quintics(np.diff(m.t[pair]), m.q[pair], m.v[pair], m.a[pair])
        return path.sample(np.linspace(0.0, path.duration, FINER + 1)[1:-1]).q

    def least(self, distance: Callable[[], float], travel: Array, need: float, bound: Array | None = None) -> float:
        """Smallest distance along the motion, at samples and where it may be below what is needed between them.

        travel (N,): how far the parts may have come, summed; bound (N,): the distance is no smaller.
        """
        k, least, last = 0, np.inf, len(travel) - 1
        while k <= last:
            if bound is not None and bound[k] > need + 0.05:
                later = bound[k:] <= need + 0.05
                if not later.any():
                    break
                k += int(later.argmax())
            self._set(self.motion.q[k])
            d = distance()
            least = min(least, d)
            if k < last and d - need <= travel[k + 1] - travel[k]:
                for q in self._between(k):
                    self._set(q)
                    least = min(least, distance())
            k += max(1, int(np.searchsorted(travel[k:] - travel[k], max(d - need, 0.0))) - 1)
        return least

    def name(self, g: int) -> str:
        """Name that dynid gives to the link or part of a shape."""
        own = str(self.model.geom(g).name)
        if own in ("tool", "payload"):
            return own
        body = int(self.model.geom_bodyid[g])
        return str(self.model.body(body).name) if self.model.body_weldid[body] else "mount"

    def pair(self, a: int, b: int, need: float) -> float:
        """Smallest distance of two shapes."""
        ends = np.zeros(6)
        bound = np.linalg.norm(self.x[:, a] - self.x[:, b], axis=1)
        bound = bound - self.model.geom_rbound[a] - self.model.geom_rbound[b]
        return self.least(
            lambda: float(self.mj.mj_geomDistance(self.model, self.data, a, b, 9.0, ends)),
            self.travel[:, a] + self.travel[:, b], need, bound,
        )  # fmt: skip

    def height(self, g: int, normal: Array, offset: float, need: float) -> float:
        """Smallest distance of a shape from a plane."""
        corners, radius = self._corners(g)
        bound = self.x[:, g] @ normal - self.model.geom_rbound[g] - offset

        def now() -> float:
            R, x = self.data.geom_xmat[g].reshape(3, 3), self.data.geom_xpos[g]
            down = (corners @ (R.T @ normal)).min() - radius
            if self.model.geom_type[g] == self.mj.mjtGeom.mjGEOM_CYLINDER:
                r, half = self.model.geom_size[g][:2]
                n = R.T @ normal
                down = -abs(n[2]) * half - r * float(np.hypot(n[0], n[1]))
            return float(x @ normal + down - offset)

        return self.least(now, self.travel[:, g], need, bound)

    def _corners(self, g: int) -> tuple[Array, float]:
        """Points of a shape in its own frame, and the radius about them."""
        kinds, size = self.mj.mjtGeom, self.model.geom_size[g]
        match self.model.geom_type[g]:
            case kinds.mjGEOM_BOX:
                return np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) * size, 0.0
            case kinds.mjGEOM_SPHERE:
                return np.zeros((1, 3)), float(size[0])
            case kinds.mjGEOM_CAPSULE:
                return np.outer([-size[1], size[1]], [0.0, 0.0, 1.0]), float(size[0])
            case kinds.mjGEOM_CYLINDER:
                angle = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)
                ring = size[0] * np.column_stack([np.cos(angle), np.sin(angle), 0 * angle])
                return np.vstack([ring + np.array([0.0, 0.0, z]) for z in (-size[1], size[1])]), 0.0
        mesh = self.model.geom_dataid[g]
        first = self.model.mesh_vertadr[mesh]
        return np.array(self.model.mesh_vert[first : first + self.model.mesh_vertnum[mesh]]), 0.0

    def fastest(self) -> float:
        """Largest speed of a point of the last link, tool or payload, from sample to sample, m/s."""
        last = f"l{len(self.cell.joints) - 1}"
        assert self.found.clearance is not None
        ends = {self.found.robot.links[solid.link].name for solid in self.found.clearance.tool} | {last}
        speed = 0.0
        for g in self.moving:
            if self.model.body(int(self.model.geom_bodyid[g])).name in ends:
                corners, radius = self._corners(g)
                around = radius * np.vstack([np.eye(3), -np.eye(3)]) if radius else np.zeros((1, 3))
                for corner in (corners[:, None] + around).reshape(-1, 3):
                    way = np.diff(self.x[:, g] + self.R[:, g] @ corner, axis=0)
                    speed = max(speed, float(np.linalg.norm(way, axis=1).max()) * RATE)
        return speed

    def torques(self) -> Array:
        """Largest torque of each joint, by MuJoCo's inverse dynamics, (n,)."""
        most = np.zeros(len(self.columns))
        for k in range(0, len(self.motion), 5):
            self.data.qpos[self.columns] = self.motion.q[k]
            self.data.qvel[self.columns] = self.motion.v[k]
            self.data.qacc[self.columns] = self.motion.a[k]
            self.mj.mj_inverse(self.model, self.data)
            most = np.maximum(most, np.abs(self.data.qfrc_inverse[self.columns]))
        return most


def violations(cell: RandomCell, found: Excitation, folder: Path) -> list[str]:
    """What MuJoCo finds wrong along the motion: limits and torques of joints, distances, the speed of the tool."""
    world = Mujoco(cell, found, folder)
    wrong = _limit_violations(cell, world.motion)
    for joint, most, limit in zip(found.robot.joint_names, world.torques(), cell.limits["effort"], strict=True):
        if most > limit * (1 + 1e-6):
            wrong.append(f"torque of {joint} {most:.4f}, not {limit:.4f}")
    said = {(text.facts["link"], text.facts["other"]) for text in found.warnings if text.code == "constant_distance"}
    for a in world.moving:
        for b in world.fixed:
            kind, number, *_ = world.model.geom(b).name.split()[1:]
            need = 0.0 if (world.name(a), f"{kind} {int(number) + 1}") in said else cell.clearance
            if (d := world.pair(a, b, need)) < need - ROUNDING:
                wrong.append(f"{world.name(a)} {d:.5f} m from {kind} {number}, not {need:.5f}")
        for name, normal, offset in _planes(cell):
            need = 0.0 if (world.name(a), name) in said else cell.clearance
            if (d := world.height(a, normal, offset, need)) < need - ROUNDING:
                wrong.append(f"{world.name(a)} {d:.5f} m from {name}, not {need:.5f}")
    assert found.clearance is not None
    kept = {
        frozenset((found.clearance.solids[i].name, found.clearance.solids[j].name)) for i, j, _ in found.clearance.pairs
    }
    for k, a in enumerate(world.own):
        for b in world.own[k + 1 :]:
            names = frozenset((world.name(a), world.name(b)))
            if names in kept and (d := world.pair(a, b, SAFETY)) < SAFETY - ROUNDING:
                wrong.append(f"{' and '.join(sorted(names))} {d:.5f} m apart, not {SAFETY}")
    if cell.tool_speed is not None and (speed := world.fastest()) > cell.tool_speed * (1 + 1e-9):
        wrong.append(f"tool at {speed:.5f} m/s, not {cell.tool_speed:.5f}")
    return wrong


def _planes(cell: RandomCell) -> list[tuple[str, Array, float]]:
    """Name, normal and offset of the planes of a cell."""
    planes = [("floor", np.array([0.0, 0.0, 1.0]), cell.floor)] if cell.floor is not None else []
    for k, plane in enumerate(cell.obstacles.get("plane", []), 1):
        size = float(np.linalg.norm(plane["normal"]))
        planes.append((f"plane {k}", np.array(plane["normal"]) / size, plane["offset"] / size))
    if space := cell.obstacles.get("workspace"):
        for axis in range(3):
            planes.append((f"workspace {'xyz'[axis]} lower", np.eye(3)[axis], space["lower"][axis]))
            planes.append((f"workspace {'xyz'[axis]} upper", -np.eye(3)[axis], -space["upper"][axis]))
    return planes


def _limit_violations(cell: RandomCell, motion: Motion) -> list[str]:
    """Limits of the joints at the samples."""
    limits, wrong = cell.limits, []
    pairs = (("position", motion.q, limits["position"][:, 1]), ("velocity", motion.v, limits["velocity"]))
    for name, values, bound in (*pairs, ("acceleration", motion.a, limits["acceleration"])):
        if (np.abs(values).max(axis=0) > bound * (1 + 1e-9)).any():
            wrong.append(f"{name} {np.abs(values).max(axis=0)} beyond {bound}")
    return wrong


# Cells in which nothing fits, and the repair that is named.


def repaired(cell: RandomCell, error: DynidError) -> RandomCell | None:
    """The cell with the repair that an error names: obstacles moved, less clearance, or torques raised; None: none."""
    facts = error.facts
    if facts.get("moves"):
        return moved(cell, facts["moves"])
    if facts.get("enough"):
        return replace(cell, clearance=float(facts["enough"]))
    if facts.get("needed"):
        names = [f"j{k}" for k in range(len(cell.joints))]
        joints = list(cell.joints)
        k = names.index(facts["joint"])
        joints[k] = replace(joints[k], effort=1.5 * float(facts["needed"]))
        return replace(cell, joints=tuple(joints))
    return None


def moved(cell: RandomCell, moves: dict[str, list[float]]) -> RandomCell:
    """The cell with obstacles and planes shifted."""
    table = json.loads(json.dumps(cell.obstacles))
    floor = cell.floor
    for name, way in moves.items():
        if name == "floor":
            assert floor is not None
            floor = floor + way[2]
        elif match := re.fullmatch(r"(box|mesh) (\d+)", name):
            one = table[match[1]][int(match[2]) - 1]
            one["position"] = (np.array(one["position"]) + way).tolist()
        elif match := re.fullmatch(r"plane (\d+)", name):
            one = table["plane"][int(match[1]) - 1]
            one["offset"] += float(np.dot(one["normal"], way))
        else:
            axis, side = name.split()[1:]
            table["workspace"][side]["xyz".index(axis)] += way["xyz".index(axis)]
    return replace(cell, obstacles=table, floor=floor)


REPAIRS = 6
"""Repairs that may be needed one after the other: a moved box may let another constraint bind."""


def check_repairs(cell: RandomCell, folder: Path) -> tuple[str, list[str]]:
    """Return what became of a crowded cell ("fits" or the errors in turn), and what is wrong with the repairs."""
    codes: list[str] = []
    error: DynidError | None = None
    for _ in range(REPAIRS + 1):
        try:
            found = design(cell, folder, budget=0.4)
        except DynidError as raised:
            error = raised
        else:
            return " > ".join([*codes, "fits"]), violations(cell, found, folder)
        codes.append(str(error.facts.get("cause", error.code)))
        better = repaired(cell, error)
        if better is None:
            return " > ".join(codes), [f"no repair is named: {error}"]
        cell = better
    return " > ".join(codes), [f"{REPAIRS} repairs do not help: {error}"]


def check(seed: int, *, full: bool = False) -> tuple[str, list[str]]:
    """Return whether a cell has a motion ("found", or the code of the error), and what is wrong with it."""
    cell = random_cell(seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = design(cell, Path(folder), budget=None if full else 0.4)
        except DynidError as error:
            return str(error.facts.get("cause", error.code)), []
        return "found", violations(cell, found, Path(folder))


def run_case(title: str, seed: int) -> tuple[str, list[str]]:
    """Return what became of a cell of a kind (short, full, impossible), and what is wrong with it."""
    if title != "impossible":
        return check(seed, full=title == "full")
    with tempfile.TemporaryDirectory() as folder:
        return check_repairs(random_cell(seed, crowded=True), Path(folder))


def read_cases(file: Path | None) -> dict[tuple[str, int], tuple[str, list[str]]]:
    """Cases that an earlier run wrote, by kind and seed."""
    if file is None or not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {(line["title"], line["seed"]): (line["kind"], line["wrong"]) for line in lines}


def main(words: list[str]) -> int:
    """Run the campaign; return how many designs are wrong."""
    parser = argparse.ArgumentParser(prog="campaign.cells", description=__doc__)
    parser.add_argument("--short", type=int, default=1000, help="designs with a budget of 0.4 s")
    parser.add_argument("--full", type=int, default=100, help="designs to the end of a start")
    parser.add_argument("--impossible", type=int, default=100, help="crowded cells, most of them without a motion")
    parser.add_argument("--first", type=int, default=10_000, help="seed of the first cell")
    parser.add_argument("--json", type=Path, help="file of cases, one per line; those that it holds are not run again")
    given = parser.parse_args(words)
    wrong, known = 0, read_cases(given.json)
    for title, count, first in (
        ("short", given.short, given.first),
        ("full", given.full, given.first + 100_000),
        ("impossible", given.impossible, given.first + 200_000),
    ):
        begin, kinds, bad = time.process_time(), Counter[str](), 0
        for seed in range(first, first + count):
            old = known.get((title, seed))
            kind, texts = run_case(title, seed) if old is None else old
            if old is None and given.json is not None:
                with given.json.open("a") as file:
                    file.write(json.dumps({"title": title, "seed": seed, "kind": kind, "wrong": texts}) + "\n")
            kinds[kind] += 1
            bad += bool(texts)
            for text in texts:
                sys.stdout.write(f"{title} {seed}: {kind}: {text}\n")
            if (seed - first) % 50 == 49:
                sys.stdout.write(
                    f"{title}: {seed - first + 1} cells, {bad} wrong, {time.process_time() - begin:.0f} s\n"
                )
            sys.stdout.flush()
        said = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        sys.stdout.write(f"{title}: {count} cells, {bad} wrong, {time.process_time() - begin:.0f} s CPU: {said}\n")
        wrong += bad
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
