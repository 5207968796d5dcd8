"""Xacro files: refused unless asked for, expanded in a process with limits, packages found as for meshes; SDF."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import dynid
from command_line import CommandLine
from dynid import load_robot
from dynid.errors import RobotFileError
from dynid.excitation.cell import URDF, robot_solids
from dynid.robot.io import xml
from dynid.viewer.scene import read_shapes
from robots import smooth_path

HEAD = '<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">'
ARM = f"""{HEAD}<xacro:arg name="mass" default="2"/><xacro:include filename="$(find parts)/parts.xacro"/>
<link name="base"/><xacro:segment name="a" parent="base" mass="$(arg mass)"/>
<xacro:segment name="b" parent="a" mass="${{2 * L}}"/></robot>"""
PARTS = f"""{HEAD}<xacro:property name="L" value="0.5"/><xacro:macro name="segment" params="name parent mass">
<link name="${{name}}"><inertial><origin xyz="${{L / 2}} 0 0"/><mass value="${{mass}}"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual>
<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
<joint name="j${{name}}" type="revolute"><parent link="${{parent}}"/><child link="${{name}}"/><origin xyz="${{L}} 0 0"/>
<axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="2" effort="50"/></joint></xacro:macro></robot>"""


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    (tmp_path / "packages" / "parts").mkdir(parents=True)
    (tmp_path / "packages" / "parts" / "parts.xacro").write_text(PARTS)
    (tmp_path / "a" / "urdf").mkdir(parents=True)
    file = tmp_path / "a" / "urdf" / "arm.urdf.xacro"
    file.write_text(ARM)
    return file


@pytest.fixture
def packages(arm: Path) -> Path:
    pytest.importorskip("xacro")
    return arm.parents[2] / "packages"


def test_without_the_option_nothing_is_evaluated(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(RobotFileError) as caught:
        load_robot(arm)
    assert caught.value.code == "xacro_not_expanded"
    assert "xacro=True" in caught.value.remedy
    assert "trust" in caught.value.remedy


def test_the_expanded_robot_is_that_of_the_urdf(arm: Path, packages: Path, tmp_path: Path) -> None:
    xacro = pytest.importorskip("xacro")
    robot = load_robot(arm, xacro={"mass": "7"}, package_path=packages)
    masses = dict(zip(robot.parameter_names, robot.parameters, strict=True))
    assert (masses["M:a"], masses["M:b"]) == (7.0, 1.0)
    flat = ARM.replace("$(find parts)", str(packages / "parts")).replace("$(arg mass)", "7")
    (tmp_path / "flat.xacro").write_text(flat)
    (tmp_path / "flat.urdf").write_text(xacro.process_file(str(tmp_path / "flat.xacro")).toxml())
    other = load_robot(tmp_path / "flat.urdf")
    assert np.array_equal(robot.parameters, other.parameters)
    assert load_robot(arm, xacro=True, package_path=packages).parameters[9] == 2.0


def test_check_collision_and_viewer_read_what_was_expanded(arm: Path, packages: Path) -> None:
    pytest.importorskip("trimesh")
    robot = load_robot(arm, xacro=True, package_path=packages)
    assert len(read_shapes(arm, robot, {})[0]) == 2
    own = robot_solids(robot, robot.limits)
    assert (own.kind, own.unread) == (URDF, None)
    assert len(own.solids) == 2
    assert dynid.check_robot(arm, xacro=True, package_path=packages).bodies == ("a", "b")


def test_an_exported_urdf_has_the_shapes_of_the_file(
    arm: Path, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from a result that was saved; nothing is evaluated again."""
    robot = load_robot(arm, xacro=True, package_path=packages)
    t = np.arange(0.0, 12.0, 0.01)
    result = dynid.identify(robot, dynid.simulate(robot, smooth_path(robot, t, seed=1, scale=2.0), noise=0.01, seed=0))
    result.save(tmp_path / "result.json")
    monkeypatch.setattr(subprocess, "Popen", None)
    done = dynid.export(dynid.Identification.load(tmp_path / "result.json"), tmp_path / "out.urdf")
    assert done.verification.error < 1e-9
    before, after = (ElementTree.fromstring(x) for x in (robot.description, (tmp_path / "out.urdf").read_text()))
    for shape in ("visual", "collision"):
        assert [x.attrib for x in before.iterfind(f"link/{shape}/geometry/box")] == [
            x.attrib for x in after.iterfind(f"link/{shape}/geometry/box")
        ]
    assert len(list(after.iterfind("link/visual"))) == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('<link name="${10**10**9}"/>', "xacro_beyond_limits"),
        ('<link name="${str(list(range(10**12)))}"/>', "xacro_failed"),
        ('<link name="${().__class__.__bases__}"/>', "xacro_failed"),
        ("<link name=\"${open('left.txt', 'w')}\"/>", "xacro_failed"),
        ('<xacro:include filename="none.xacro"/>', "xacro_failed"),
        ('<xacro:include filename="$(find nothing)/a.xacro"/>', "package_not_found"),
        ('<xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/>', "xacro_failed"),
        ("<link", "xacro_failed"),
    ],
)
def test_a_hostile_or_wrong_file_is_one_line_and_leaves_nothing(
    text: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xacro")
    monkeypatch.setattr(xml, "XACRO_SECONDS", 2)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bad.xacro"
    file.write_text(f"{HEAD}{text}</robot>")
    with pytest.raises(RobotFileError) as caught:
        load_robot(file, xacro=True)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.xacro"]


def test_entities_are_refused_after_expansion_too(tmp_path: Path) -> None:
    pytest.importorskip("xacro")
    file = tmp_path / "entities.xacro"
    file.write_text(f'<!DOCTYPE robot [<!ENTITY a "b">]>{HEAD}<link name="&a;"/></robot>')
    with pytest.raises(RobotFileError) as caught:
        load_robot(file, xacro=True)
    assert caught.value.code == "document_type_not_allowed"


def test_a_machine_without_xacro(arm: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "xacro.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RobotFileError) as caught:
        load_robot(arm, xacro=True)
    assert caught.value.code == "needs_extra_package"
    assert "pip install xacro" in caught.value.remedy


@pytest.mark.parametrize("given", [{"mass": 7}, "mass:=7", 1])
def test_arguments_are_texts(arm: Path, given: object) -> None:
    with pytest.raises(dynid.DynidError) as caught:
        load_robot(arm, xacro=given)  # type: ignore[arg-type]
    assert caught.value.code == "xacro_arguments_malformed"


def test_the_command_line(
    arm: Path, packages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(monkeypatch, capsys)
    assert "--xacro" in run("mdh", arm, code=2).err
    given = ("--xacro", "--package-path", packages)
    assert "ja" in run("mdh", arm, *given, "--xacro-arg", "mass:=7").out
    assert "--package-path" in run("mdh", arm, "--xacro", code=2).err
    assert "NAME:=VALUE" in run("mdh", arm, *given, "--xacro-arg", "mass=7", code=2).err
    assert "NAME:=VALUE" in run("mdh", arm, "--xacro-arg", "mass:=7", code=2).err
    out = arm.parent / "out.urdf"
    run("export", arm, out, *given)
    assert load_robot(out).joint_names == ("ja", "jb")
    assert "--xacro" in run("base", "panda", "--xacro", code=2).err


@pytest.mark.parametrize("name", ["robot.sdf", "robot.world", "robot.urdf", "robot.xml"])
def test_sdf_is_refused_with_what_to_do(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('<sdf version="1.9"><model name="m"/></sdf>')
    with pytest.raises(RobotFileError) as caught:
        load_robot(tmp_path / name)
    assert caught.value.remedy == xml.CONVERT_SDF
