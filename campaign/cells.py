"""`python -m campaign.cells [count [first]]`: designs in random cells, checked by MuJoCo at 1 kHz.

The check shares nothing with the search: MuJoCo reads the URDF, the obstacles are added to its world, and distances,
tool speeds and joint limits are taken from its kinematics along the samples of the finished motion.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid import DynidError, Excitation, design_excitation, load_robot
from dynid.excitation.clearance import SAFETY
from dynid.robot.transform import Array, rotation_from_rpy

RATE = 1000.0
ROUNDING = 2e-5
"""What two libraries of distances may differ by, m."""
LIMITS = {"velocity": 1.5, "acceleration": 6.0}


@dataclass(frozen=True, slots=True, eq=False)
class RandomCell:
    """A random arm as a URDF, and what stands around it."""

    urdf: str
    obstacles: dict[str, Any]
    floor: float | None
    clearance: float
    tool_speed: float | None


def random_cell(seed: int) -> RandomCell:
    """Arm of 3 to 6 joints from boxes, cylinders and spheres, with boxes, a plane, a floor and a tool around it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    parts = ['<robot name="arm">', _link("base", [0.08, 0.08, 0.1], rng, 0.0)]
    lengths = rng.uniform(0.12, 0.35, n)
    for j in range(n):
        axis = ("0 0 1", "0 1 0", "1 0 0")[j % 2 if j else 0]
        parts.append(
            f'<joint name="j{j}" type="revolute"><parent link="{f"l{j - 1}" if j else "base"}"/><child link="l{j}"/>'
            f'<origin xyz="0 0 {lengths[j - 1] if j else 0.15}"/><axis xyz="{axis}"/>'
            '<limit lower="-2.2" upper="2.2" velocity="1.5" effort="500"/></joint>'
        )
        parts.append(_link(f"l{j}", [0.07, 0.07, lengths[j]], rng, 0.5 * lengths[j]))
    boxes = []
    for _ in range(int(rng.integers(1, 4))):
        angle, far = rng.uniform(0, 2 * np.pi), rng.uniform(0.45, 0.9)
        boxes.append({
            "size": rng.uniform(0.1, 0.5, 3).tolist(), "rpy": rng.uniform(-1, 1, 3).tolist(),
            "position": [far * np.cos(angle), far * np.sin(angle), float(rng.uniform(0.0, 0.8))],
        })  # fmt: skip
    cell: dict[str, Any] = {
        "box": boxes,
        "tool": {"radius": 0.03, "length": 0.1, "position": [0, 0, float(lengths[-1])]},
    }
    if rng.random() < 0.4:
        cell["plane"] = [{"normal": [-1.0, 0.1, 0.0], "offset": -float(rng.uniform(0.5, 0.9))}]
    floor = float(rng.uniform(-0.3, -0.06)) if rng.random() < 0.7 else None
    speed = float(rng.uniform(0.4, 1.5)) if rng.random() < 0.6 else None
    return RandomCell("".join([*parts, "</robot>"]), cell, floor, float(rng.uniform(0.0, 0.05)), speed)


def _link(name: str, size: list[float], rng: np.random.Generator, z: float) -> str:
    x, y, long = size
    shape = (
        f'<box size="{x} {y} {0.7 * long}"/>', f'<cylinder radius="{0.6 * x}" length="{0.7 * long}"/>',
        f'<sphere radius="{0.4 * long}"/>',
    )[int(rng.integers(3))]  # fmt: skip
    place = f'<origin xyz="0 0 {z}"/>'
    body = '<mass value="2"/><inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/>'
    solid = f"<collision>{place}<geometry>{shape}</geometry></collision>"
    return f'<link name="{name}"><inertial>{place}{body}</inertial>{solid}</link>'


def design(cell: RandomCell, folder: Path, *, budget: float = 1.5, harmonics: int = 3, starts: int = 1) -> Excitation:
    """Design a motion in a cell with a short budget."""
    file = folder / "arm.urdf"
    file.write_text(cell.urdf)
    robot = load_robot(str(file))
    n = robot.n
    limits = {"position": [[-2.2, 2.2]] * n, **{key: [value] * n for key, value in LIMITS.items()}}
    return design_excitation(
        robot, limits=limits, duration=6.0, harmonics=harmonics, starts=starts, time_budget=budget,
        obstacles=cell.obstacles, floor=cell.floor, clearance=cell.clearance, tool_speed=cell.tool_speed,
    )  # fmt: skip


def violations(cell: RandomCell, found: Excitation) -> list[str]:
    """What MuJoCo finds wrong along the motion: distances, the speed of the tool, limits of the joints."""
    import mujoco

    spec = mujoco.MjSpec.from_string(cell.urdf)
    for k, box in enumerate(cell.obstacles["box"]):
        R = rotation_from_rpy(*box["rpy"])
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, R.ravel())
        spec.worldbody.add_geom(
            name=f"box {k + 1}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=0.5 * np.array(box["size"]),
            pos=box["position"],
            quat=quat,
        )
    tool = cell.obstacles["tool"]
    start, end = (np.add(tool["position"], [0, 0, z]) for z in (0.0, tool["length"]))
    last = spec.body(f"l{found.robot.n - 1}")
    last.add_geom(
        name="tool", type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[tool["radius"], 0, 0], fromto=[*start, *end], mass=0.0
    )
    model = spec.compile()
    data = mujoco.MjData(model)
    motion = found.motion(RATE)
    planes = [(np.array([0.0, 0.0, 1.0]), cell.floor)] if cell.floor is not None else []
    for plane in cell.obstacles.get("plane", []):
        size = np.linalg.norm(plane["normal"])
        planes.append((np.array(plane["normal"]) / size, plane["offset"] / size))
    return [*_limit_violations(found, motion), *_geometry_violations(cell, found, model, data, motion, planes)]


def _limit_violations(found: Excitation, motion: Any) -> list[str]:
    """Limits of the joints at the samples."""
    wrong = []
    for name, values, bound in (
        ("position", motion.q, 2.2),
        ("velocity", motion.v, 1.5),
        ("acceleration", motion.a, 6.0),
    ):
        if np.abs(values).max() > bound * (1 + 1e-9):
            wrong.append(f"{name} {np.abs(values).max():.6g} beyond {bound}")
    return wrong


def _geometry_violations(
    cell: RandomCell, found: Excitation, model: Any, data: Any, motion: Any, planes: list[tuple[Array, float]]
) -> list[str]:
    import mujoco

    columns = [int(model.jnt_qposadr[model.joint(name).id]) for name in found.robot.joint_names]
    moving = [g for g in range(model.ngeom) if model.geom_bodyid[g] > 0]
    fixed = [model.geom(f"box {k + 1}").id for k in range(len(cell.obstacles["box"]))]
    assert found.clearance is not None
    links = {
        (found.clearance.solids[i].name, found.clearance.solids[j].name)
        for i, j, need in found.clearance.pairs
        if need == SAFETY
    }
    selfs = []
    for a in set(range(model.ngeom)) - set(fixed):
        for b in set(range(a + 1, model.ngeom)) - set(fixed):
            pair = tuple(_name(model, g) for g in (a, b))
            if pair in links or pair[::-1] in links:
                selfs.append((a, b))
    nearest, near_self, lowest, fastest = np.inf, np.inf, np.inf, 0.0
    before = None
    ends = np.zeros(6)
    capsule = model.geom("tool").id
    for q in motion.q:
        data.qpos[columns] = q
        mujoco.mj_kinematics(model, data)
        for a in moving:
            x = data.geom_xpos[a]
            for b in fixed:
                if np.linalg.norm(x - data.geom_xpos[b]) - model.geom_rbound[a] - model.geom_rbound[b] < cell.clearance:
                    nearest = min(nearest, mujoco.mj_geomDistance(model, data, a, b, 1.0, ends))
            for normal, offset in planes:
                if x @ normal - offset - model.geom_rbound[a] < cell.clearance:
                    lowest = min(lowest, _height(model, data, a, normal) - offset)
        for a, b in selfs:
            if (
                np.linalg.norm(data.geom_xpos[a] - data.geom_xpos[b])
                < model.geom_rbound[a] + model.geom_rbound[b] + SAFETY
            ):
                near_self = min(near_self, mujoco.mj_geomDistance(model, data, a, b, 1.0, ends))
        R, x, half = data.geom_xmat[capsule].reshape(3, 3), data.geom_xpos[capsule], model.geom_size[capsule][1]
        r = model.geom_size[capsule][0]
        tips = np.array([x + R @ [dx, dy, s * half] for s in (-1, 1) for dx, dy in ((r, 0), (-r, 0), (0, r), (0, -r))])
        if before is not None:
            fastest = max(fastest, float(np.linalg.norm(tips - before, axis=1).max()) * RATE)
        before = tips
    wrong = []
    if nearest < cell.clearance - ROUNDING:
        wrong.append(f"{nearest:.5f} m from a box, not {cell.clearance:.5f}")
    if lowest < cell.clearance - ROUNDING:
        wrong.append(f"{lowest:.5f} m from a plane, not {cell.clearance:.5f}")
    if near_self < SAFETY - ROUNDING:
        wrong.append(f"{near_self:.5f} m between links, not {SAFETY}")
    if cell.tool_speed is not None and fastest > cell.tool_speed * (1 + 1e-9):
        wrong.append(f"tool at {fastest:.5f} m/s, not {cell.tool_speed:.5f}")
    return wrong


def _name(model: Any, g: int) -> str:
    """Name that dynid gives to the link of a geom."""
    if model.geom(g).name == "tool":
        return "tool"
    body = int(model.geom_bodyid[g])
    return str(model.body(body).name) if body else "mount"


def _height(model: Any, data: Any, g: int, normal: Array) -> float:
    """Smallest value of normal . x over a geom, written out for each kind."""
    import mujoco

    R, x, size = data.geom_xmat[g].reshape(3, 3), data.geom_xpos[g], model.geom_size[g]
    n = R.T @ normal
    kind = model.geom_type[g]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        down = np.abs(n) @ size
    elif kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        down = size[0]
    elif kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        down = size[0] + abs(n[2]) * size[1]
    else:
        assert kind == mujoco.mjtGeom.mjGEOM_CYLINDER
        down = abs(n[2]) * size[1] + size[0] * float(np.hypot(n[0], n[1]))
    return float(x @ normal - down)


def check(seed: int) -> tuple[str, list[str]]:
    """Return whether a cell has a motion ("found", or the code of the error), and what is wrong with it."""
    cell = random_cell(seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = design(cell, Path(folder))
        except DynidError as error:
            return f"{error.code}: {error}", []
        return "found", [f"cell {seed}: {text}" for text in violations(cell, found)]


def main(words: list[str]) -> int:
    """Run the campaign; return how many designs are wrong."""
    count, first = (int(words[k]) if len(words) > k else n for k, n in ((0, 100), (1, 10_000)))
    begin, found, wrong = time.monotonic(), 0, 0
    for seed in range(first, first + count):
        kind, texts = check(seed)
        found += kind == "found"
        wrong += bool(texts)
        for text in texts or ([] if kind == "found" else [f"cell {seed}: {kind}"]):
            sys.stdout.write(text + "\n")
        if (seed - first) % 25 == 24:
            sys.stdout.write(f"{seed - first + 1} cells, {found} with a motion, {wrong} violated\n")
        sys.stdout.flush()
    sys.stdout.write(f"cells: {count}, {found} with a motion, {wrong} violated, {time.monotonic() - begin:.0f} s\n")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
