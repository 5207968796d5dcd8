"""Cells: files of strangers, distances and their gradients, clearance and tool speed that hold at every instant."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign.cells import Joint, Part, RandomCell, check_repairs, design, random_cell, violations, write_robot
from numpy.testing import assert_allclose

from dynid import DynidError, Motion, Robot, design_excitation, load_robot
from dynid.dynamics.kernels.links import link_poses
from dynid.excitation.cell import CAPSULES, MJCF, SIDES, Cell, Plane, read_cell, robot_solids
from dynid.excitation.clearance import Clearance
from dynid.excitation.quintics import Quintics
from dynid.excitation.shape import Extremes
from dynid.excitation.torque_limits import Effort
from dynid.robot.transform import Array

BOX = {"name": "table", "size": [0.4, 0.4, 0.4], "position": [0.5, 0.0, 0.3], "rpy": [0.1, 0.2, 0.3]}
TOOL = {"radius": 0.03, "length": 0.15}
LIMITS = {"position": [[-1.5, 1.5]] * 3, "velocity": [1.0] * 3, "acceleration": [4.0] * 3}


def cell_of(robot: Robot, obstacles: Any = None, **options: Any) -> Cell:
    cell = read_cell(robot, obstacles, **options)
    assert cell is not None
    return cell


def cube_file(folder: Path, edge: float) -> Path:
    """A closed cube as an OBJ file of quadrilaterals, written by hand."""
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    faces = ["1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4"]
    lines = [f"v {x * edge / 2} {y * edge / 2} {z * edge / 2}" for x, y, z in corners] + [f"f {f}" for f in faces]
    file = folder / "cube.obj"
    file.write_text("\n".join(lines))
    return file


# Files.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[[box]]\nsize = [1, 2]", "invalid_cell"),
        ("[[box]]\nsize = [1, 2, -3]", "invalid_cell"),
        ("[[box]]\nsize = [1, 2, nan]", "invalid_cell"),
        ("[[box]]\nsize = [1, 2, 1e9]", "invalid_cell"),
        ("[[box]]\nsize = [1, 1, 1]\nposition = ['__import__(1)', 0, 0]", "invalid_cell"),
        ("[[box]]\nsize = [1, 1, 1]\nplace = [0, 0, 0]", "invalid_cell"),
        ('[[box]]\nname = "\\u001b[31m"\nsize = [1, 1, 1]', "invalid_cell"),
        ("[[boxes]]\nsize = [1, 1, 1]", "invalid_cell"),
        ("[[plane]]\nnormal = [0, 0, 0]", "invalid_cell"),
        ("[[mesh]]\nfile = '../cube.obj'", "mesh_outside_folder"),
        ("[[mesh]]\nfile = '/etc/passwd'", "mesh_outside_folder"),
        ("[[mesh]]\nfile = 'missing.stl'", "file_not_found"),
        ("[[mesh]]\nfile = 'cell.toml'", "unsupported_suffix"),
        ("[[mesh]]\nfile = 'wrong.obj'", "mesh_unreadable"),
        ("[workspace]\nlower = [0, 0, 0]\nupper = [1, 1, 0]", "invalid_cell"),
        ("[tool]\nlink = 'hand'\nradius = 0.1", "unknown_link"),
        ("[tool]", "invalid_cell"),
        ("[tool]\nlength = 0.1", "invalid_cell"),
        ("[payload]\ncom = [0, 0, 0]\nradius = 0.1", "invalid_cell"),
        ("box = 3", "invalid_cell"),
        ("[[box", "not_toml"),
        ("#" * 2**21, "file_too_large"),
    ],
)
def test_files_of_strangers_are_refused_in_a_line_or_two(text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "cell").mkdir()
    cube_file(tmp_path, 1.0)
    (tmp_path / "cell" / "wrong.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n")
    file = tmp_path / "cell" / "cell.toml"
    file.write_text(text)
    with pytest.raises(DynidError) as caught:
        read_cell(load_robot("panda"), file)
    error = caught.value
    assert code in (error.code, *error.facts.get("codes", ()))
    assert str(file) in str(error)
    assert len(str(error)) < 400


def test_a_link_to_a_mesh_outside_is_outside(tmp_path: Path) -> None:
    (tmp_path / "cell").mkdir()
    (tmp_path / "cell" / "cube.obj").symlink_to(cube_file(tmp_path, 1.0))
    with pytest.raises(DynidError) as caught:
        read_cell(load_robot("panda"), _written(tmp_path / "cell" / "cell.toml", "[[mesh]]\nfile = 'cube.obj'"))
    assert caught.value.code == "mesh_outside_folder"


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "options",
    [{"floor": np.nan}, {"clearance": -0.1, "floor": 0.0}, {"tool_speed": 0.0}, {"floor": "low"}, {"clearance": 0.1}],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DynidError):
        read_cell(load_robot("panda"), None, **options)


# Distances.


def panda_cell(**options: Any) -> Clearance:
    robot = load_robot("panda")
    given = {"floor": -0.2, "clearance": 0.02, "tool_speed": 0.8, **options}
    return Clearance.for_robot(robot, robot.limits, cell_of(robot, {"box": [BOX], "tool": TOOL}, **given))


def test_the_gradient_of_the_penalty_is_that_of_differences() -> None:
    clearance = panda_cell()
    rng = np.random.default_rng(3)
    q = clearance.random_postures(clearance.robot.limits, 4, 3)[2:]
    v = rng.normal(size=q.shape)
    t = np.arange(float(len(q)))

    def penalty(q: Array, v: Array) -> float:
        return clearance.penalty(Motion(t, q, v, 0 * v), 0.3)[0]

    _, (by_q, by_v, by_a) = clearance.penalty(Motion(t, q, v, 0 * v), 0.3)
    assert not by_a.any()
    assert np.abs(by_q).max() > 1.0
    assert np.abs(by_v).max() > 0.01
    step = 1e-5
    for k in np.ndindex(*q.shape):
        e = np.zeros_like(q)
        e[k] = step
        assert_allclose(by_q[k], (penalty(q + e, v) - penalty(q - e, v)) / (2 * step), rtol=2e-3, atol=1e-2)
        assert_allclose(by_v[k], (penalty(q, v + e) - penalty(q, v - e)) / (2 * step), rtol=1e-4, atol=1e-6)


def test_a_mesh_of_a_cube_is_as_far_as_the_box_and_its_inside_is_not_free(tmp_path: Path) -> None:
    robot = load_robot("panda")
    cube_file(tmp_path, 0.4)
    place = "position = [0.5, 0.0, 0.3]\nrpy = [0.1, 0.2, 0.3]"
    file = _written(tmp_path / "cell.toml", f"[[mesh]]\nfile = 'cube.obj'\n{place}")
    solids = [
        Clearance.for_robot(robot, robot.limits, cell_of(robot, source)) for source in (file, {"box": [BOX]})
    ]  # fmt: skip
    postures = solids[0].random_postures(robot.limits, 40, 5)
    mesh, box = (
        replace(c, pairs=tuple(p for p in c.pairs if p[1] == len(c.solids) - 1)).slack(postures)[0] for c in solids
    )
    apart = box > 1e-4
    assert apart.sum() > 10
    assert_allclose(mesh[apart], box[apart], atol=2e-5)
    assert (mesh[box < -1e-3] < 0.0).all()
    large = cube_file(tmp_path, 8.0)
    around = cell_of(robot, _written(tmp_path / "cell.toml", f"[[mesh]]\nfile = '{large.name}'"))
    assert (Clearance.for_robot(robot, robot.limits, around).slack(postures)[0] < 0.0).all()


def test_meshes_of_a_urdf_are_their_hulls_where_the_file_puts_them(tmp_path: Path) -> None:
    """A cube as a scaled mesh and as a box, turned and moved, behind a fixed and a locked joint."""
    cube_file(tmp_path, 1.0)
    shapes = ('<mesh filename="cube.obj" scale="0.2 0.3 0.4"/>', '<box size="0.2 0.3 0.4"/>')
    found = []
    for k, shape in enumerate(shapes):
        part = f'<collision><origin xyz="0.1 0 0.2" rpy="0.3 0.2 0.1"/><geometry>{shape}</geometry></collision>'
        inertial = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
        links = "".join(f'<link name="{name}">{inertial}{part}</link>' for name in "abcd")
        joints = "".join(
            f'<joint name="{a}{b}" type="{kind}"><parent link="{a}"/><child link="{b}"/><origin xyz="0 0.1 0.5" '
            'rpy="0.4 0 0.2"/><axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="100" velocity="2"/></joint>'
            for (a, b), kind in (("ab", "revolute"), ("bc", "fixed"), ("cd", "revolute"))
        )
        file = tmp_path / f"arm{k}.urdf"
        file.write_text(f'<robot name="arm">{links}{joints}</robot>')
        robot = load_robot(file, lock={"cd": 0.7})
        solids = robot_solids(robot, robot.limits)
        assert solids.note is None
        found.append(solids.solids)
    mesh, box = found
    assert [solid.link for solid in mesh] == [solid.link for solid in box] == [-1, 0, 0, 0]
    for one, other in zip(mesh, box, strict=True):
        assert_allclose(
            one.points[np.lexsort(one.points.round(6).T)], other.points[np.lexsort(other.points.round(6).T)], atol=1e-6
        )
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(file))
    geometry = pin.buildGeomFromUrdf(model, str(file), pin.GeometryType.COLLISION)
    data, placed = model.createData(), pin.GeometryData(geometry)
    pin.updateGeometryPlacements(model, data, geometry, placed, np.array([0.5, 0.7]))
    poses = link_poses(robot, np.array([[0.5]]))
    for solid, T in zip(box, placed.oMg, strict=True):
        centre = poses.rotation[solid.link][0] @ solid.points.mean(axis=0) + poses.position[solid.link][0]
        assert_allclose(centre, T.translation, atol=1e-9)


@pytest.mark.parametrize("missing", [-1e-3, -1e-6, 1e-4, 1e-3])
def test_a_dip_between_samples_is_found_or_excluded(missing: float) -> None:
    """A pendulum of known length passes its lowest point at full speed: the height there is known exactly."""
    robot = load_robot("one_link")
    solid_end = np.array([0.7, 0.0, 0.0])
    base = Clearance.for_robot(robot, robot.limits, Cell())
    solid = replace(base.solids[-1], points=solid_end[None], radius=0.0, link=0)
    rotation = robot.links[0].placement.rotation
    down = rotation @ np.array([1.0, 0.0, 0.0])  # where the end is at q = 0
    plane = Plane("plane", -down, -0.7 - missing)  # 0.7 - |x . down| may shrink to -missing
    clearance = replace(base, solids=(solid,), pairs=(), sides=((0, plane),), cell=Cell((plane,)))
    w = 2 * np.pi * 0.5
    at = 0.1234567

    def sample(t: Array) -> Motion:
        s = (t - at)[:, None]
        return Motion(t, np.sin(w * s), w * np.cos(w * s), -(w**2) * np.sin(w * s))

    one = np.ones(1)
    hit = clearance.first_violation(sample, 2.0, Extremes(-one, one, w * one, w**2 * one, w**3 * one))
    assert (hit is not None) == (missing < 0.0)


# Designs.


@pytest.mark.parametrize("seed", [10_001, 10_006, *(pytest.param(n, marks=pytest.mark.slow) for n in (10_007, 10_010))])
def test_motions_in_random_cells_keep_everything_by_mujoco(seed: int, tmp_path: Path) -> None:
    """A URDF of six joints, an MJCF, points of a URDF, points of an MJCF."""
    pytest.importorskip("mujoco")
    cell = random_cell(seed)
    assert violations(cell, design(cell, tmp_path), tmp_path) == []


def test_the_check_of_mujoco_finds_what_a_motion_elsewhere_violates(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    cell = random_cell(10_001)
    far = {"size": [0.1] * 3, "position": [9.0, 9.0, 9.0], "rpy": [0.0] * 3}
    empty = replace(
        cell, obstacles={"box": [far], "mesh": []}, pieces=(), floor=None, clearance=0.0, tool_speed=None,
        joints=tuple(replace(joint, effort=5e3) for joint in cell.joints),
    )  # fmt: skip
    found = design(empty, tmp_path, budget=None, harmonics=3, duration=6.0)
    write_robot(cell, tmp_path)
    assert violations(cell, found, tmp_path)


def folding_arm(shape: str, *, is_mjcf: bool) -> RandomCell:
    """Three parallel joints on a broad mount, with a last link that is long enough to hit it; nothing around."""
    lengths = (0.3, 0.2, 0.5)
    joints = tuple(
        Joint(k - 1, "revolute", (0.0, 1.0, 0.0), 0.15 if k == 0 else lengths[k - 1],
              Part("box", (0.03, 0.03, 0.4 * length), 0.5 * length), length, 1.0, 500.0)
        for k, length in enumerate(lengths)
    )  # fmt: skip
    far = {"box": [{"size": [0.1] * 3, "position": [9.0] * 3, "rpy": [0.0] * 3}], "mesh": []}
    return RandomCell(0, is_mjcf, Part("box", (0.1, 0.1, 0.07), 0.0), joints, far, (), None, 0.0, None, shape)


@pytest.mark.parametrize(("shape", "is_mjcf"), [("fourier", False), ("fourier", True), ("points", False)])
def test_links_whose_shapes_are_known_keep_apart_without_a_cell(shape: str, is_mjcf: bool, tmp_path: Path) -> None:
    """A motion designed without the shapes runs into the mount, by MuJoCo; with them links keep 1 cm apart."""
    pytest.importorskip("mujoco")
    arm = folding_arm(shape, is_mjcf=is_mjcf)
    file = write_robot(arm, tmp_path)
    text = file.read_text()
    bent = [[-2.2, 2.2], *([[0.3, 2.2]] * 2 if shape == "fourier" else [[-2.2, 2.2]] * 2)]
    options: dict[str, Any] = {"limits": arm.limits | {"position": bent}, "starts": 1, "shape": shape}
    options |= {"time_budget": 1.0} if shape == "points" else {}
    file.write_text(re.sub(r"<geom [^>]*/>" if is_mjcf else "<collision>.*?</collision>", "", text))
    blind = design_excitation(load_robot(file), **options)
    assert blind.clearance is None
    file.write_text(text)
    kept = design_excitation(load_robot(file), **options)
    assert kept.clearance is not None
    assert any("apart" in wrong for wrong in violations(arm, replace(blind, clearance=kept.clearance), tmp_path))
    assert violations(arm, kept, tmp_path) == []
    known = kept.before_run
    assert known is not None
    assert "self_collision_proven" in {text.code for text in known.checked}


@pytest.mark.parametrize(
    "seed", [210_011, *(pytest.param(n, marks=pytest.mark.slow) for n in (210_027, 30_005, 30_006))]
)
def test_the_repair_that_an_error_names_frees_the_robot(seed: int, tmp_path: Path) -> None:
    """Crowded cells: what is too near is moved, or what cannot be held is made stronger, as the error says."""
    pytest.importorskip("mujoco")
    cell = random_cell(seed, crowded=True)
    with pytest.raises(DynidError):
        design(cell, tmp_path)
    course, wrong = check_repairs(cell, tmp_path)
    assert wrong == []
    assert course.endswith("fits")


MJCF_ARM = """
<mujoco><compiler angle="radian" meshdir="parts"/>
<default><geom rgba="1 0 0 1"/><default class="hull"><geom type="mesh" mesh="cube"/></default>
<default class="seen"><geom contype="0" conaffinity="0"/></default></default>
<asset><mesh name="cube" file="cube.obj" scale="0.2 0.3 0.4"/></asset>
<worldbody><geom type="plane" size="1 1 1"/><body name="table" pos="2 0 0"><geom type="box" size="1 1 1"/></body>
<body name="base" pos="0.1 0 0.2" quat="0.9 0.1 0.2 0.3"><geom type="cylinder" size="0.1 0.2"/>
<body name="a" pos="0 0.1 0.3"><joint name="ja" axis="0 1 0" ref="0.3"/>

<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0.1 0.2 0.3"/><geom class="seen" type="sphere" size="5"/>
<body name="fixed" pos="0.2 0 0" euler="0.1 0.2 0.3"><geom type="box" size="0.1 0.2 0.3" pos="0 0.1 0"/>
<body name="b" pos="0 0 0.4"><joint name="jb" type="slide" axis="1 0 0"/>

<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<geom class="hull" pos="0.1 0.2 0.3" quat="0.5 0.5 0.5 0.5"/>
<body name="c" pos="0 0 0.4"><joint name="jc" axis="0 0 1"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<frame pos="0.1 0 0"><geom type="sphere" size="0.07" pos="0.3 0 0"/></frame>
</body></body></body></body></body></worldbody></mujoco>
"""


def test_shapes_of_an_mjcf_are_where_mujoco_puts_them(tmp_path: Path) -> None:
    """Through classes, frames, a fixed body, a shifted zero, a locked joint; shapes for the eye and tables are none."""
    mujoco = pytest.importorskip("mujoco")
    (tmp_path / "parts").mkdir()
    cube_file(tmp_path / "parts", 1.0)
    file = _written(tmp_path / "arm.xml", MJCF_ARM)
    robot = load_robot(file, lock={"jc": 0.7})
    own = robot_solids(robot, robot.limits)
    assert (own.kind, own.around, own.bare) == (MJCF, 2, ())
    assert [solid.name for solid in own.solids] == ["mount", "a", "a", "b", "b"]
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    q = np.array([0.5, -0.2])
    data.qpos[:] = [*q, 0.7]
    mujoco.mj_kinematics(model, data)
    of_robot = [g for g in range(model.ngeom) if model.geom_contype[g] and model.geom_bodyid[g] > 1]
    assert len(of_robot) == len(own.solids)
    poses = link_poses(robot, q[None])
    for solid, g in zip(own.solids, of_robot, strict=True):
        points = solid.points @ poses.rotation[solid.link][0].T + poses.position[solid.link][0]
        inside = (points - data.geom_xpos[g]) @ data.geom_xmat[g].reshape(3, 3)
        size = model.geom_size[g]
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_CYLINDER:
            assert_allclose(np.hypot(*inside.T[:2]), size[0] / np.cos(np.pi / SIDES), rtol=1e-9)
            size = np.array([np.inf, np.inf, size[1]])
        assert_allclose(inside.mean(axis=0), 0.0, atol=1e-6)
        if int(model.geom_type[g]) in (int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)):
            assert_allclose(solid.radius, size[0])
            size = np.array([0.0, 0.0, size[1]])
        if model.geom_type[g] == mujoco.mjtGeom.mjGEOM_MESH:
            assert_allclose(np.sort(np.abs(inside).max(axis=0)), [0.1, 0.15, 0.2], atol=1e-6)
        else:
            assert (np.abs(inside) <= size + 1e-9).all()


def test_an_mjcf_whose_mesh_is_missing_is_taken_as_capsules_with_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = load_robot(_written(tmp_path / "arm.xml", MJCF_ARM))
    own = robot_solids(robot, robot.limits)
    assert own.kind == CAPSULES
    assert own.unread is not None
    assert own.unread.code == "self_collision_not_checked"
    assert own.note is not None
    assert "cube.obj" in str(own.note.facts["reason"])


def test_the_gradient_along_a_path_is_that_of_differences() -> None:
    clearance = panda_cell(floor=0.1)
    rng = np.random.default_rng(1)
    q = clearance.random_postures(clearance.robot.limits, 3, 8)[2:]
    path = Quintics(rng.uniform(0.5, 1.0, 2), q, rng.normal(size=q.shape), rng.normal(size=q.shape))
    found = clearance.penalty_along_path(path, 0.2)
    step = 1e-5
    for name, by in (("u", found.by_u), ("q", found.by_q), ("v", found.by_v), ("a", found.by_a)):
        x = getattr(path, name)
        for k in [index for index in np.ndindex(*x.shape) if rng.random() < 0.4]:
            e = np.zeros_like(x)
            e[k] = step
            up, down = (clearance.penalty_along_path(replace(path, **{name: x + s * e}), 0.2).value for s in (1, -1))
            assert_allclose(by[k], (up - down) / (2 * step), rtol=5e-3, atol=0.05 * np.abs(by).max())


def test_points_in_a_cell_need_a_motion_and_an_empty_cell_is_a_warning(tmp_path: Path) -> None:
    robot = load_robot("gautier3")
    with pytest.raises(DynidError) as caught:
        design_excitation(
            robot, shape="points", limits={k: LIMITS[k] for k in ("position", "velocity")}, starts=1, floor=-1.0
        )
    assert caught.value.code == "missing_acceleration_limits"
    file = _written(tmp_path / "cell.toml", "# nothing yet\n")
    found = design_excitation(robot, limits=LIMITS, starts=1, harmonics=2, time_budget=0.3, obstacles=file)
    assert "empty_cell" in {text.code for text in found.warnings}


def test_where_no_posture_is_free_the_error_names_what_binds() -> None:
    robot = load_robot("gautier3")
    walls = {"box": [{"name": "block", "size": [9.0, 9.0, 9.0]}]}
    with pytest.raises(DynidError) as caught:
        design_excitation(robot, limits=LIMITS, starts=1, obstacles=walls)
    assert caught.value.code in ("clearance_impossible", "no_free_posture")
    assert caught.value.facts["other"] == "block"
    with pytest.raises(DynidError) as caught:
        design_excitation(
            robot, limits=LIMITS, starts=1, rest=[0.0] * 3,
            obstacles={"plane": [{"name": "wall", "normal": [1, 0, 0], "offset": 5.0}]},
        )  # fmt: skip
    assert caught.value.facts["other"] == "wall"


def test_a_payload_adds_to_the_torques() -> None:
    robot = load_robot("one_link")
    cell = cell_of(robot, {"payload": {"mass": 5.0, "com": [0.5, 0.0, 0.0]}})
    k = len(robot.links) - 1
    known = replace(
        robot,
        links=(
            *robot.links[:k],
            replace(robot.links[k], inertia=np.array([0, 0, 0, 0, 0, 0.1, 0, 0, 0, 1.0]), rotor=0.0),
        ),
    )
    limits = replace(robot.limits, effort=np.full(robot.n, 100.0))
    still = Motion(np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
    bare, loaded = (Effort.for_robot(r, limits) for r in (known, cell.loaded_robot(known)))
    assert bare is not None
    assert loaded is not None
    added = 100.0 * (loaded.torque_shares(still) - bare.torque_shares(still))[0, 0]
    R = robot.links[k].placement.rotation
    lever = R @ np.array([0.5, 0.0, 0.0])
    gravity = -(np.cross(lever, 5.0 * robot.gravity) @ (R @ robot.links[k].axis))
    assert_allclose(added, gravity + 5.0 * 0.25 * 1.0, rtol=1e-9)


def test_what_to_know_before_a_run_is_there_without_a_cell_too() -> None:
    found = design_excitation(load_robot("gautier3"), limits=LIMITS, starts=1, harmonics=2, time_budget=0.5)
    known = found.before_run
    assert known is not None
    assert set(known.lowest) == {link.name for link in found.robot.links if link.moves}
    assert known.tool_speed > 0.0
    assert {"no_cell", "no_meshes", "self_collision_unchecked"} <= {text.code for text in known.unchecked}
    below = {name for name, z in known.lowest.items() if z < 0.0}
    assert set(known.below) == below


def test_accelerations_without_limits_are_said_before_a_run_with_their_peak() -> None:
    some = {name: value for name, value in LIMITS.items() if name != "acceleration"}
    found = design_excitation(load_robot("gautier3"), limits=some, starts=1, harmonics=2, time_budget=0.5)
    known = found.before_run
    assert known is not None
    (free,) = [text for text in known.unchecked if text.code == "no_acceleration_limits"]
    assert free.facts["joints"] == list(found.robot.joint_names)
    assert 0.0 < float(str(free.facts["peak"])) <= 1.001 * np.abs(found.motion(2000.0).a).max()
    (proven,) = [text for text in known.checked if text.code == "limits_proven"]
    assert proven.facts["quantities"] == "positions and velocities"
