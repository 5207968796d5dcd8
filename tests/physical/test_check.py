"""Robot files with links that no body can have: each is named, and whether torques feel it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import bodied
from dynid.physical.check import check_robot, describe_violations
from dynid.physical.constraints import mjcf_bodies
from dynid.robot.inertia import Body, change_of_frame, from_body, pseudo_inertia
from dynid.robot.io.toml_writer import table_text
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from robots import random_inertia, random_motion

LINK = '<link name="{}"><inertial><origin xyz="{}"/><mass value="{}"/><inertia {}/></inertial></link>'
JOINT = (
    '<joint name="{}" type="{}"><origin xyz="{}"/><parent link="{}"/><child link="{}"/><axis xyz="{}"/>'
    '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
)
GOOD = 'ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"'


def urdf(path: Path, **changes: str) -> Path:
    """Two turning links, the first about the vertical, with a fixed tool and a fixed foot."""
    inertia = {name: GOOD for name in ("foot", "a", "b", "tool")} | changes
    mass = {name: "2" for name in inertia}
    for name, text in inertia.items():
        if text.startswith("mass="):
            mass[name], inertia[name] = text.removeprefix("mass="), GOOD
    links = [LINK.format(name, "0 0 0.1", mass[name], inertia[name]) for name in inertia]
    joints = [
        JOINT.format("j1", "revolute", "0 0 0", "foot", "a", "0 0 1"),
        JOINT.format("j2", "revolute", "0 0 0.3", "a", "b", "0 1 0"),
        JOINT.format("f", "fixed", "0.1 0 0.2", "b", "tool", "0 0 1"),
    ]
    path.write_text(f'<robot name="test">{"".join(links + joints)}</robot>')
    return path


def test_a_fixed_link_of_zeros_is_a_frame(tmp_path: Path) -> None:
    """Such as tool0 of many files; a moving link of zeros is a fault."""
    zeros = GOOD.replace("0.02", "0")
    path = urdf(tmp_path / "frames.urdf", foot=zeros, a=zeros, tool=zeros)
    text = path.read_text()
    for name in ("foot", "a", "tool"):
        before, link, after = text.partition(f'<link name="{name}">')
        text = before + link + after.replace('mass value="2"', 'mass value="0"', 1)
    path.write_text(text)
    found = check_robot(path)
    assert found.bodies == ("a", "b")
    assert [fault.link for fault in found.faults] == ["a"]


def test_a_good_file_has_no_faults(tmp_path: Path) -> None:
    found = check_robot(urdf(tmp_path / "good.urdf"))
    assert found.faults == ()
    assert found.bodies == ("foot", "a", "b", "tool")
    assert found.mended is None
    assert not found.impossible


@pytest.mark.parametrize(
    ("link", "change", "said", "matters"),
    [
        ("a", 'ixx="0.1" iyy="0.1" izz="0.5" ixy="0" ixz="0" iyz="0"', "exceeds the sum", False),
        ("b", 'ixx="0.5" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"', "exceeds the sum", True),
        ("b", 'ixx="-0.5" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"', "is negative", True),
        ("tool", "mass=-1", "its mass is -1 kg", True),
        ("a", "mass=0", "it has no mass", False),
        ("foot", "mass=-1", "its mass is -1 kg", False),
        ("tool", 'ixx="1e-9" iyy="1e-9" izz="1e-9" ixy="0" ixz="0" iyz="0"', "denser than any metal", True),
        ("tool", 'ixx="900" iyy="900" izz="900" ixy="0" ixz="0" iyz="0"', "thinner than air", True),
    ],
)
def test_faults_are_named(tmp_path: Path, link: str, change: str, said: str, matters: bool) -> None:
    found = check_robot(urdf(tmp_path / "bad.urdf", **{link: change}))
    (fault,) = found.faults
    assert fault.link == link
    assert said in fault.problem
    assert fault.matters is matters


def stated(robot: Robot, values: Array) -> Robot:
    return robot.with_parameters(values)


def test_what_torques_cannot_feel_is_mended_without_changing_them(tmp_path: Path) -> None:
    robot = bodied("puma560", 0)
    values = np.array(robot.parameters)
    names = robot.parameter_names
    for name, change in (("XX1", -5.0), ("YY1", 3.0), ("M2", -1.5), ("M1", -0.4)):  # without effect on torques
        values[names.index(name)] += change
    values[names.index("M2")] = abs(values[names.index("M2")]) * 1e-3
    file = tmp_path / "robot.toml"
    file.write_text(table_text(stated(robot, values)))
    found = check_robot(file)
    assert {fault.link for fault in found.faults} <= {"1", "2"}
    assert found.faults
    assert found.mended is not None
    assert all(np.linalg.eigvalsh(pseudo_inertia(link.inertia))[0] > 0.0 for link in found.mended.links)
    motion = random_motion(robot, samples=50)
    W = dynid.regressor(robot, motion).matrix
    assert_allclose(W @ found.mended.parameters, W @ found.robot.parameters, rtol=1e-7, atol=1e-6)


def test_published_tables_of_base_parameters_are_no_bodies() -> None:
    found = check_robot("puma560")
    assert {fault.link for fault in found.faults} == {"1", "2", "3", "4", "5", "6"}
    assert found.impossible
    assert check_robot("scara").faults == ()
    assert check_robot("panda").unknown == tuple("1234567")


def test_faults_are_those_of_the_pseudo_inertia() -> None:
    """On random parameters: faulty if and only if an eigenvalue is negative, densities aside."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        x = random_inertia(rng) + rng.choice([0.0, 0.05, 0.5]) * rng.standard_normal(10)
        negative = bool(np.linalg.eigvalsh(pseudo_inertia(x))[0] < -1e-9)
        found = [text for text in describe_violations(x) if "kg/m^3" not in text]
        assert bool(found) == negative
        seen.add(negative)
    assert seen == {True, False}


def test_density_of_a_ball() -> None:
    r, rho = 0.1, 30000.0
    m = rho * 4.0 / 3.0 * np.pi * r**3
    (text,) = describe_violations(from_body(Body(m, np.array([0.3, 0.0, 0.1]), 0.4 * m * r**2 * np.eye(3))))
    assert "3e+04 kg/m^3" in text
    assert describe_violations(from_body(Body(m / 10.0, np.zeros(3), 0.04 * m * r**2 * np.eye(3)))) == []


def test_mjcf(tmp_path: Path) -> None:
    body = '<body name="{}" pos="0 0 0.2"><joint name="{}" axis="{}"/>'
    body += '<inertial pos="0 0 0.1" mass="{}" diaginertia="{}"/>'
    text = body.format("a", "j1", "0 0 1", 2, "0.02 0.02 0.02") + body.format("b", "j2", "0 1 0", 1, "0.5 0.1 0.1")
    file = tmp_path / "robot.xml"
    file.write_text(f'<mujoco model="m"><worldbody>{text}</body></body></worldbody></mujoco>')
    (fault,) = check_robot(file).faults
    assert (fault.link, fault.matters) == ("b", True)


def test_mjcf_as_written(tmp_path: Path) -> None:
    """Negative masses and fixed bodies are seen as written, and what is merged is what the reader merges."""
    inertial = '<inertial pos="0.02 0 0.1" quat="0.9 0.1 0.3 0.2" mass="{}" {}/>'
    good, flat = 'diaginertia="0.03 0.02 0.02"', 'fullinertia="0.5 0.1 0.1 0.01 0 0"'

    def write(mass: float, inertia: str) -> Path:
        tool = f'<body name="t" pos="0.1 0 0.2" quat="0.7 0 0.7 0.1">{inertial.format(mass, inertia)}</body>'
        arm = f'<joint name="j2" axis="0 1 0"/>{inertial.format(2.0, good)}{tool}'
        first = f'<joint name="j1" axis="0 0 1"/>{inertial.format(3.0, good)}<body name="b" pos="0 0 0.3">{arm}</body>'
        file = tmp_path / "robot.xml"
        file.write_text(f'<mujoco model="m"><worldbody><body name="a">{first}</body></worldbody></mujoco>')
        return file

    file = write(1.0, good)
    robot = dynid.load_robot(file)
    found = mjcf_bodies(file, robot)
    assert found is not None
    assert [body.name for body in found] == ["a", "b", "t"]
    merged = np.zeros((2, 10))
    for body in found:
        merged[body.carrier] += change_of_frame(body.placement) @ body.inertia
    assert_allclose(merged, [link.inertia for link in robot.links], atol=1e-9)
    assert check_robot(file).faults == ()
    for mass, inertia, said in ((-1.0, good, "its mass is -1 kg"), (1.0, flat, "exceeds the sum")):
        (fault,) = check_robot(write(mass, inertia)).faults
        assert fault.link == "t"
        assert said in fault.problem
