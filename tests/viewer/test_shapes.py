"""Meshes of a URDF: found where they belong, in the right frames, and never outside of the robot's folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import load_robot
from dynid.dynamics.kernels.links import link_poses
from dynid.errors import MeshRefusedError
from dynid.robot.io.meshes import MeshFolders
from dynid.viewer.scene import read_shapes

pytest.importorskip("trimesh")

STL = """solid t
facet normal 0 0 1
outer loop
vertex 0 0 0
vertex 1 0 0
vertex 0 1 0
endloop
endfacet
endsolid t
"""


def urdf(mesh: str = "meshes/a.stl") -> str:
    return f"""<robot name="two">
<material name="red"><color rgba="1 0 0 1"/></material>
<link name="base"><visual><geometry><box size="0.2 0.2 0.1"/></geometry></visual></link>
<link name="arm"><visual><origin xyz="0 0 0.1" rpy="0 0 1.5707963"/>
 <geometry><mesh filename="{mesh}" scale="2 2 2"/></geometry><material name="red"/></visual></link>
<link name="flange"><visual><geometry><sphere radius="0.05"/></geometry></visual></link>
<link name="tool"><visual><geometry><cylinder radius="0.02" length="0.4"/></geometry></visual></link>
<joint name="j1" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0 0 0.3"/><axis xyz="0 0 1"/>
 <limit lower="-2" upper="2" velocity="1" effort="1"/></joint>
<joint name="f" type="fixed"><parent link="arm"/><child link="flange"/>
 <origin xyz="0.5 0 0" rpy="0 1.5707963 0"/></joint>
<joint name="j2" type="prismatic"><parent link="flange"/><child link="tool"/><origin xyz="0 0 0.1"/><axis xyz="0 0 1"/>
 <limit lower="0" upper="1" velocity="1" effort="1"/></joint>
</robot>"""


def write(folder: Path, mesh: str = "meshes/a.stl") -> Path:
    (folder / "meshes").mkdir(parents=True, exist_ok=True)
    (folder / "meshes" / "a.stl").write_text(STL)
    file = folder / "two.urdf"
    file.write_text(urdf(mesh))
    return file


def test_shapes_sit_in_the_frames_of_the_links_that_carry_them(tmp_path: Path) -> None:
    file = write(tmp_path)
    robot = load_robot(file)
    shapes, notes = read_shapes(file, robot, {})
    assert notes == []
    assert [shape.link for shape in shapes] == [-1, 0, 0, 1]
    triangle = shapes[1]
    assert triangle.colour == (255, 0, 0)
    assert_allclose(triangle.vertices[np.lexsort(triangle.vertices.T)][-2:], [[-2, 0, 0.1], [0, 2, 0.1]], atol=1e-6)
    assert_allclose(shapes[2].vertices.mean(axis=0), [0.5, 0.0, 0.0], atol=1e-6)


def test_a_locked_joint_carries_its_shapes_along(tmp_path: Path) -> None:
    file = write(tmp_path)
    free, held = load_robot(file), load_robot(file, lock={"j2": 0.4})
    tool = read_shapes(file, free, {})[0][3]
    poses = link_poses(free, np.array([[0.0, 0.4]]))
    expected = tool.vertices @ poses.rotation[1][0].T + poses.position[1][0]
    carried = read_shapes(file, held, {"j2": 0.4})[0][3]
    poses = link_poses(held, np.zeros((1, 1)))
    assert carried.link == 0
    assert_allclose(carried.vertices @ poses.rotation[0][0].T + poses.position[0][0], expected, atol=1e-6)


@pytest.mark.parametrize(
    "mesh",
    ["../secret.stl", "/etc/secret.stl", "file:///etc/secret.stl", "meshes/../../secret.stl", "meshes/out.stl",
     "package://two/../../secret.stl", "package://../secret.stl", "package:///etc/secret.stl",
     "package://..%2Fsecret.stl"],
)  # fmt: skip
def test_a_path_that_leaves_the_robots_folder_is_refused_with_a_note(tmp_path: Path, mesh: str) -> None:
    (tmp_path / "secret.stl").write_text(STL)
    file = write(tmp_path / "two", mesh)
    (tmp_path / "two" / "meshes" / "out.stl").symlink_to(tmp_path / "secret.stl")
    shapes, notes = read_shapes(file, load_robot(file), {})
    assert len(shapes) == 3
    assert len(notes) == 1
    assert "not opened" in notes[0] or "not found" in notes[0]


def test_packages_are_found_beside_the_urdf_around_it_and_on_the_path(tmp_path: Path) -> None:
    write(tmp_path / "arm_description" / "urdf")
    inner, outer = tmp_path / "arm_description" / "urdf", tmp_path / "arm_description"
    (outer / "meshes").mkdir()
    (outer / "meshes" / "b.stl").write_text(STL)
    name = "package://arm_description/meshes/b.stl"
    with pytest.raises(MeshRefusedError, match="ROS_PACKAGE_PATH"):
        MeshFolders.for_urdf(inner / "two.urdf", {}).find_mesh(name)
    for path in (tmp_path, outer):
        found = MeshFolders.for_urdf(inner / "two.urdf", {"ROS_PACKAGE_PATH": f"/nowhere:{path}"}).find_mesh(name)
        assert found.samefile(outer / "meshes" / "b.stl")
    (outer / "package.xml").write_text("<package/>")
    folders = MeshFolders.for_urdf(inner / "two.urdf", {})
    assert folders.find_mesh(name).samefile(outer / "meshes" / "b.stl")
    assert folders.find_mesh("../meshes/b.stl").samefile(outer / "meshes" / "b.stl")
    (inner / "other").mkdir()
    (inner / "other" / "c.stl").write_text(STL)
    assert folders.find_mesh("package://other/c.stl").name == "c.stl"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("meshes/none.stl", None, "no such file"),
        ("meshes/bad.stl", "nonsense", "mesh meshes/bad.stl"),
        ("meshes/bad.dae", "<x/>", "pycollada"),
        ("meshes/a.txt", "x", "meshes are .stl"),
        ("http://example.com/a.stl", None, "is not opened"),
    ],
)
def test_what_cannot_be_read_is_told_and_the_rest_is_drawn(
    tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    file = write(tmp_path, name)
    if content is not None:
        (tmp_path / name).write_text(content)
    shapes, notes = read_shapes(file, load_robot(file), {})
    assert len(shapes) == 3
    assert len(notes) == 1
    assert words in notes[0]


def test_files_named_inside_a_mesh_are_not_opened(tmp_path: Path) -> None:
    file = write(tmp_path / "two", "meshes/a.obj")
    (tmp_path / "two" / "meshes" / "a.obj").write_text(
        "mtllib ../../secret.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl m\nf 1 2 3\n"
    )
    shapes, notes = read_shapes(file, load_robot(file), {})
    assert notes == []
    assert len(shapes) == 4


def test_entities_in_collada_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "meshes/a.dae")
    (tmp_path / "meshes" / "a.dae").write_text('<!DOCTYPE x [<!ENTITY a "b">]><COLLADA>&a;</COLLADA>')
    notes = read_shapes(file, load_robot(file), {})[1]
    assert "DTDForbidden" in notes[0]


@pytest.mark.parametrize("wrong", ['<sphere radius="-1"/>', '<sphere radius="nan"/>', "<sphere/>", "<cone/>", ""])
def test_shapes_that_cannot_be_are_told(tmp_path: Path, wrong: str) -> None:
    file = write(tmp_path)
    file.write_text(urdf().replace('<sphere radius="0.05"/>', wrong))
    shapes, notes = read_shapes(file, load_robot(file), {})
    assert len(shapes) == 3
    assert "visual of link 'flange'" in notes[0]
