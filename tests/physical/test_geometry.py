"""Shapes of a URDF as bounds of mass: ellipsoids that cover them, and bodies that stay inside."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import identified
from dynid.errors import PhysicalError
from dynid.physical.constraints import link_ellipsoids, smallest_enclosing_ellipsoid
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.io.meshes import read_mesh_vertices
from robots import random_rotation

INERTIA = (
    '<inertial><origin xyz="{}"/><mass value="2"/>'
    '<inertia ixx="{}" iyy="{}" izz="{}" ixy="0" ixz="0" iyz="0"/></inertial>'
)
SHAPE = '<collision><origin xyz="{}" rpy="{}"/><geometry>{}</geometry></collision>'
JOINT = (
    '<joint name="{}" type="{}"><origin xyz="{}" rpy="{}"/><parent link="{}"/><child link="{}"/><axis xyz="0 1 0"/>'
    '<limit lower="-2" upper="2" effort="9" velocity="9"/></joint>'
)


def urdf(path: Path, second: str) -> Path:
    body = INERTIA.format("0 0 0.1", 0.02, 0.02, 0.01)
    links = {
        "base": "",
        "a": body + SHAPE.format("0 0 0.2", "0 0 0", '<box size="0.2 0.2 0.6"/>'),
        "b": body + SHAPE.format("0 0 0.1", "0 0 0", second),
        "tool": INERTIA.format("0 0 0", 0.01, 0.01, 0.01) + SHAPE.format("0 0 0", "0 0 0", '<sphere radius="0.05"/>'),
    }
    joints = (
        JOINT.format("j1", "revolute", "0 0 0.1", "1.5707963 0 0", "base", "a"),
        JOINT.format("j2", "revolute", "0 0 0.4", "0 0 0", "a", "b"),
        JOINT.format("f", "fixed", "0.1 0 0.3", "0 0 0", "b", "tool"),
    )
    text = "".join(f'<link name="{name}">{inside}</link>' for name, inside in links.items()) + "".join(joints)
    path.write_text(f'<robot name="shapes">{text}</robot>')
    return path


def test_smallest_ellipsoid_of_points_on_one() -> None:
    rng = np.random.default_rng(0)
    R, axes, centre = random_rotation(rng), np.array([0.1, 0.3, 0.5]), np.array([1.0, -2.0, 0.3])
    unit = rng.standard_normal((4000, 3))
    points = unit / np.linalg.norm(unit, axis=1)[:, None] * axes @ R.T + centre
    found = smallest_enclosing_ellipsoid(points)
    assert_allclose(found.centre, centre, atol=0.02)
    assert_allclose(np.sqrt(np.linalg.eigvalsh(found.shape)), axes, rtol=0.05)
    away = points - found.centre
    assert np.einsum("Ni,ij,Nj->N", away, np.linalg.inv(found.shape), away).max() <= 1.0 + 1e-9


def test_smallest_ellipsoid_of_a_box_has_axes_sqrt_3() -> None:
    corners = np.array(np.meshgrid([-1, 1], [-2, 2], [-3, 3])).reshape(3, 8).T.astype(float)
    assert_allclose(np.diag(smallest_enclosing_ellipsoid(corners).shape), [3.0, 12.0, 27.0], rtol=0.01)


def test_bodies_stay_inside_their_shapes(tmp_path: Path) -> None:
    file = urdf(tmp_path / "robot.urdf", '<cylinder radius="0.05" length="0.3"/>')
    robot = dynid.load_robot(file)
    shapes, notes = link_ellipsoids(file, robot)
    assert set(shapes) == {"a", "b"}
    assert notes == ()
    result = identified(robot, noise=0.5, known=True, friction=())
    found = dynid.physical_parameters(result, geometry=file)
    for link in found.robot.links:
        E, P = shapes[link.name], pseudo_inertia(link.inertia)
        T = np.eye(4)
        T[:3, 3] = -E.centre
        about = T @ P @ T.T
        assert np.trace(np.linalg.solve(E.shape, about[:3, :3])) <= P[3, 3] * (1.0 + 1e-6)
        com = P[:3, 3] / P[3, 3] - E.centre
        assert com @ np.linalg.solve(E.shape, com) <= 1.0


def test_meshes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    corners = rng.uniform(-0.1, 0.1, (12, 3))
    facets = b"".join(struct.pack("<12fH", 0, 0, 0, *corners[k : k + 3].ravel(), 0) for k in range(0, 12, 3))
    (tmp_path / "a.stl").write_bytes(bytes(80) + struct.pack("<I", 4) + facets)
    lines = "".join(f"vertex {x} {y} {z}\n" for x, y, z in corners)
    (tmp_path / "b.stl").write_text(f"solid x\n{lines}endsolid x\n")
    (tmp_path / "c.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 2 3\n")
    for name in ("a.stl", "b.stl", "c.obj"):
        vertices = read_mesh_vertices(tmp_path / name)
        assert vertices is not None
        assert_allclose(vertices, corners, atol=1e-8)
    file = urdf(tmp_path / "robot.urdf", '<mesh filename="package://some/a.stl" scale="2 2 2"/>')
    shapes, _ = link_ellipsoids(file, dynid.load_robot(file))
    inside = 2.0 * corners + [0.0, 0.0, 0.1] - shapes["b"].centre
    assert np.einsum("Ni,ij,Nj->N", inside, np.linalg.inv(shapes["b"].shape), inside).max() <= 1.0 + 1e-6


def test_what_cannot_be_read(tmp_path: Path) -> None:
    file = urdf(tmp_path / "robot.urdf", '<mesh filename="gone.stl"/>')
    shapes, notes = link_ellipsoids(file, dynid.load_robot(file))
    assert set(shapes) == {"a"}
    assert "gone.stl" in notes[0]
    (tmp_path / "gone.stl").write_text("nothing")
    with pytest.raises(PhysicalError, match="no vertices"):
        link_ellipsoids(file, dynid.load_robot(file))
    with pytest.raises(PhysicalError, match=r"\.urdf"):
        link_ellipsoids("puma560", dynid.load_robot("puma560"))
    with pytest.raises(PhysicalError, match="is not the robot of the result"):
        link_ellipsoids(file, dynid.load_robot("puma560"))
