"""One lookup of mesh files: check, self-collision and viewer find the same ones, and nothing outside."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynid
from dynid import load_robot
from dynid.excitation.cell import CAPSULES, URDF, robot_solids
from dynid.physical.constraints import link_ellipsoids
from dynid.viewer.scene import read_shapes

TETRAHEDRON = "".join(
    f"facet normal 0 0 0\nouter loop\n{''.join(f'vertex {corner}{chr(10)}' for corner in facet)}endloop\nendfacet\n"
    for facet in (
        ("0 0 0", "0 .1 0", ".1 0 0"), ("0 0 0", ".1 0 0", "0 0 .1"),
        ("0 0 0", "0 0 .1", "0 .1 0"), (".1 0 0", "0 .1 0", "0 0 .1"),
    )
)  # fmt: skip


def write(folder: Path, mesh: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shape = f'<geometry><mesh filename="{mesh}"/></geometry>'
    (folder / "one.urdf").write_text(
        f"""<robot name="one"><link name="base"/><link name="arm"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual>{shape}</visual><collision>{shape}</collision></link>
<joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" velocity="1" effort="1"/></joint></robot>"""
    )
    return folder / "one.urdf"


def stl(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"solid t\n{TETRAHEDRON}endsolid t\n")


@pytest.mark.parametrize("listed", ["packages", "packages/parts"])
def test_a_package_on_the_path_is_found_by_check_collision_and_viewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    pytest.importorskip("trimesh")
    stl(tmp_path / "packages" / "parts" / "meshes" / "a.stl")
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / listed))
    file = write(tmp_path / "elsewhere" / "urdf", "package://parts/meshes/a.stl")
    robot = load_robot(file)
    ellipsoids, notes = link_ellipsoids(file, robot)
    assert (set(ellipsoids), notes) == ({"arm"}, ())
    shapes, notes_of_viewer = read_shapes(file, robot, {})
    assert (len(shapes), notes_of_viewer) == (1, [])
    own = robot_solids(robot, robot.limits)
    assert (own.kind, own.unread) == (URDF, None)
    assert len(own.solids) == 1


@pytest.mark.parametrize(
    ("variable", "inside"),
    [("AMENT_PREFIX_PATH", "share/parts"), ("COLCON_PREFIX_PATH", "share/parts"),
     ("COLCON_PREFIX_PATH", "parts/share/parts"), (None, "parts"), (None, "share/parts"), (None, "")],
)  # fmt: skip
@pytest.mark.parametrize("name", ["package://parts/meshes/a.stl", "file://{place}/meshes/a.stl"])
def test_packages_are_found_where_ros_or_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, inside: str, name: str
) -> None:
    """Also files with the whole path of such a package, as xacro writes them; None: the option."""
    pytest.importorskip("trimesh")
    for other in ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "COLCON_PREFIX_PATH"):
        monkeypatch.delenv(other, raising=False)
    root = tmp_path / "parts"
    stl(root / inside / "meshes" / "a.stl")
    file = write(tmp_path / "a" / "b" / "c" / "d" / "e" / "f" / "urdf", name.format(place=root / inside))
    refused = dynid.check_robot(file)
    assert [note.code for note in refused.robot.notes] == ["meshes_not_found"]
    if variable is not None:
        monkeypatch.setenv(variable, f"/nowhere:{root}")
    given = () if variable else str(root)
    robot = load_robot(file, package_path=given)
    assert not dynid.check_robot(file, package_path=given).robot.notes
    assert set(link_ellipsoids(file, robot, given)[0]) == {"arm"}
    assert len(read_shapes(file, robot, {})[0]) == 1
    own = robot_solids(robot, robot.limits)
    assert (own.kind, own.unread) == (URDF, None)


def test_self_collision_opens_nothing_outside(tmp_path: Path) -> None:
    stl(tmp_path / "secret.stl")
    file = write(tmp_path / "a" / "b" / "c" / "d" / "e" / "f", f"file://{tmp_path}/secret.stl")
    robot = load_robot(file)
    own = robot_solids(robot, robot.limits)
    assert own.kind == CAPSULES
    assert own.unread is not None
    assert own.unread.code == "self_collision_not_checked"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dynid.DynidError) as caught:
        load_robot(write(tmp_path, "a.stl"), package_path=[tmp_path, tmp_path / "none"])
    assert caught.value.code == "folder_not_found"


@pytest.mark.parametrize(("above", "name"), [(0, "a.stl"), (1, "../a.stl"), (2, "a.stl"), (4, "package://x/a.stl")])
def test_check_and_collision_look_in_the_folders_above(tmp_path: Path, above: int, name: str) -> None:
    file = write(tmp_path / "a" / "b" / "c" / "d" / "e", name)
    stl(file.parents[above] / "a.stl")
    robot = load_robot(file)
    assert set(link_ellipsoids(file, robot)[0]) == {"arm"}
    assert robot_solids(robot, robot.limits).kind == URDF


@pytest.mark.parametrize(
    "name",
    ["../../../../../secret.stl", "{outside}/secret.stl", "file://{outside}/secret.stl", "link.stl",
     "package://x/../../secret.stl", "http://example.com/secret.stl", "x" * 5000 + ".stl", "file:///%00.stl",
     "http://[a"],
)  # fmt: skip
def test_a_name_that_leads_outside_or_nowhere_is_a_note(tmp_path: Path, name: str) -> None:
    pytest.importorskip("trimesh")
    stl(tmp_path / "secret.stl")
    file = write(tmp_path / "a" / "b" / "c" / "d" / "e", name.format(outside=tmp_path))
    (file.parent / "link.stl").symlink_to(tmp_path / "secret.stl")
    robot = load_robot(file)
    ellipsoids, notes = link_ellipsoids(file, robot)
    assert ellipsoids == {}
    assert [note.code for note in notes] == ["link_shape_unusable"]
    shapes, notes_of_viewer = read_shapes(file, robot, {})
    assert shapes == []
    assert len(notes_of_viewer) == 1
    assert notes_of_viewer[0].code in ("mesh_outside_folder", "mesh_scheme_not_allowed", "file_not_found")
