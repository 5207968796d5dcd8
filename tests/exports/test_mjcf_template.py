"""MJCF files are updated in place: inertias, armatures and friction are new, every other byte stays."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from bodies import with_bodies
from dynid.robot.robot import Robot
from dynid.robot.transform import freeze
from robots import random_inertia, smooth_path

mujoco = pytest.importorskip("mujoco")

ARM = """<?xml version="1.0"?>
<!-- an arm > with <inertial mass="1"/> in a comment -->
<mujoco model="arm">
  <compiler COMPILER/>
  <option gravity="0 0 -9.81"/>
  <default>
    <joint damping="0.3" armature="0.02"/>
    <geom type="capsule" size="0.03"/>
    <default class="wrist"><joint damping="9" frictionloss="0.4" armature="0.7" axis="0 1 0"/>
      <default class="tip"><joint frictionloss="0.9"/></default></default>
  </default>
  <worldbody>
    <light pos="0 0 3"/>
    <geom type="plane" size="1 1 0.1"/>
    <body name="foot" pos="0.1 0 0.2" euler="0 0 TURN">
      <geom size="0.1 0.1"/>
      <body   name='upper'
              pos="0 0 0.3">
        <inertial pos="0.02 0 0.1" mass="3" diaginertia="0.05 0.04 0.02" euler="0 TURN 0"/>
        <joint name="shoulder" axis="0 0 1" range="-90 90" pos="0.05 0.02 0"/>
        <geom name="shell" fromto="0 0 0 0 0 0.3"/><site name="mark" pos="0 0 0.2"/>
        <body name="box" pos="0 0.05 0.1"><geom type="box" size="0.02 0.03 0.04" mass="0.1"/></body>
        <frame name="shift" pos="0 0 0.3">
          <body name="lower" childclass="wrist" euler="TURN 0 0">
            <joint name="elbow" damping='5' ref="10"/>
            <geom fromto="0 0 0 0.2 0 0" mass="1.5"/>
            <body name="hand" pos="0.2 0 0">
              <inertial pos="0 0 0.05" mass="0.8" fullinertia="0.01 0.012 0.011 0.001 0 0"/>
              <joint class="tip"/>
              <camera name="eye"/>
            </body>
          </body>
        </frame>
      </body>
    </body>
    <body name="ball" pos="1 1 1"><freejoint/><geom type="sphere" size="0.1" mass="2"/></body>
  </worldbody>
  <actuator><position name="servo" joint="shoulder" kp="50"/></actuator>
  <sensor><jointpos joint="elbow"/></sensor>
</mujoco>
<!-- the end -->
"""
COMPILERS = [
    'angle="degree"',
    'angle="degree" inertiafromgeom="true"',
    'angle="degree" balanceinertia="true" boundmass="0.5" boundinertia="0.1"',
    'angle="degree" settotalmass="20"',
    'angle="degree" fusestatic="true"',
]


def write_arm(path: Path, compiler: str, turn: str = "30") -> Path:
    path.write_text(ARM.replace("COMPILER", compiler).replace("TURN", turn), encoding="utf-8")
    return path


def other_bodies(robot: Robot, *, scale: float = 1.0) -> Robot:
    """All inertial parameters, rotors and friction another; the bodies are the file's plus something."""
    rng = np.random.default_rng(3)
    links = tuple(
        replace(
            link,
            inertia=freeze(link.inertia + scale * random_inertia(rng)),
            rotor=float(rng.uniform(0.1, 0.5)),
            friction=(("viscous", float(rng.uniform(1, 2))), ("coulomb", float(rng.uniform(1, 2)))),
        )
        for link in robot.links
    )
    return replace(robot, links=links)


def strip(text: str) -> str:
    """The text without what may change."""
    text = re.sub(r"<inertial [^>]*/>|<compiler [^>]*/>", "", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    joints = r' (name|armature|damping|frictionloss|solreffriction|solimpfriction)=("[^"]*"|\'[^\']*\')'
    text = re.sub(r"<joint [^>]*>", lambda found: re.sub(joints, "", found[0]), text)
    return re.sub(r"\s+", " ", re.sub(r">\s+", ">", re.sub(r"\s+<", "<", text)))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_update_has_the_models_torques_and_all_else(compiler: str, tmp_path: Path) -> None:
    """MuJoCo's inverse dynamics of the new file are the model's; shapes, sites, actuators and the rest are kept."""
    file = write_arm(tmp_path / "arm.xml", compiler)
    robot = other_bodies(dynid.load_robot(file))
    assert robot.joint_names == ("shoulder", "elbow", "hand_joint")
    done = dynid.export(robot, tmp_path / "new.xml", template=file)
    assert done.verification.error < 1e-9
    assert strip((tmp_path / "new.xml").read_text()) == strip(file.read_text())
    old, new = (mujoco.MjModel.from_xml_path(str(path)) for path in (file, tmp_path / "new.xml"))
    for count in ("nbody", "ngeom", "nsite", "nu", "nsensor", "ncam", "njnt"):
        assert getattr(old, count) == getattr(new, count)
    friction = {link.joint: dict(link.friction) for link in robot.links}
    for link in robot.links:
        at = new.joint(link.joint).dofadr[0]
        assert new.dof_armature[at] == link.rotor
        assert new.dof_damping[at] == friction[link.joint]["viscous"]
        assert new.dof_frictionloss[at] == friction[link.joint]["coulomb"]
    ball = [model.body("ball").mass[0] for model in (old, new)]
    assert ball[0] == pytest.approx(ball[1], rel=1e-12)
    again = dynid.load_robot(tmp_path / "new.xml")
    np.testing.assert_allclose(again.parameters, robot.parameters, atol=1e-9)


def test_the_robots_own_file_is_the_template(tmp_path: Path) -> None:
    """Without a word; what is written again does not change any more, and riders keep their mass."""
    file = write_arm(tmp_path / "arm.xml", COMPILERS[0])
    robot = dynid.load_robot(file)
    done = dynid.export(robot, tmp_path / "new.xml")
    assert "template_from_source" in [note.code for note in done.notes]
    assert "merged_links_kept_values" in [note.code for note in done.notes]
    dynid.export(dynid.load_robot(tmp_path / "new.xml"), tmp_path / "again.xml")
    old, new = (mujoco.MjModel.from_xml_path(str(path)) for path in (file, tmp_path / "again.xml"))
    np.testing.assert_allclose(new.body_mass, old.body_mass, rtol=1e-9)
    np.testing.assert_allclose(new.body_inertia, old.body_inertia, rtol=1e-6)
    light = other_bodies(robot, scale=0.0)
    light = replace(light, links=tuple(replace(k, inertia=freeze(0.01 * k.inertia)) for k in light.links))
    done = dynid.export(light, tmp_path / "light.xml")
    assert "merged_links_mass_moved" in [note.code for note in done.notes]
    assert done.verification.passed


def test_almost_right_angles_stay_in_the_file(tmp_path: Path) -> None:
    file = write_arm(tmp_path / "arm.xml", 'angle="radian"', "1.5708")
    file.write_text(file.read_text().replace(' ref="10"', ""))
    robot = other_bodies(dynid.load_robot(file))
    done = dynid.export(robot, tmp_path / "new.xml")
    assert done.verification.passed
    assert "right" in done.verification.reader
    assert (tmp_path / "new.xml").read_text().count("1.5708") == 2  # those of bodies; inertias are in their axes


def test_a_file_in_another_folder_finds_its_meshes(tmp_path: Path) -> None:
    folder, other = tmp_path / "model", tmp_path / "out"
    (folder / "meshes").mkdir(parents=True)
    other.mkdir()
    corners = "0 0 0 0.1 0 0 0 0.1 0 0 0 0.1"
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    points = np.array(corners.split(), dtype=float).reshape(4, 3)
    obj = "".join(f"v {x} {y} {z}\n" for x, y, z in points) + "".join(
        f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in faces
    )
    (folder / "meshes" / "part.obj").write_text(obj)
    for meshdir, asset in (('meshdir="meshes"', "part.obj"), ("", "meshes/part.obj")):
        file = write_arm(folder / "arm.xml", f'angle="degree" {meshdir}')
        text = file.read_text().replace("<worldbody>", f'<asset><mesh name="part" file="{asset}"/></asset><worldbody>')
        file.write_text(text.replace('<camera name="eye"/>', '<geom type="mesh" mesh="part"/>'))
        robot = other_bodies(dynid.load_robot(file))
        assert dynid.export(robot, other / "new.xml", template=file).verification.passed
        assert mujoco.MjModel.from_xml_path(str(other / "new.xml")).nmesh == 1


def test_included_files(tmp_path: Path) -> None:
    """Defaults and assets may be included; bodies that are cannot be updated here, and a new file says so."""
    file = write_arm(tmp_path / "arm.xml", COMPILERS[0])
    text = file.read_text()
    start, stop = text.index("<default>"), text.index("</default>\n  <worldbody>") + len("</default>")
    (tmp_path / "defaults.xml").write_text(f"<mujocoinclude>{text[start:stop]}</mujocoinclude>")
    file.write_text(text[:start] + '<include file="defaults.xml"/>' + text[stop:])
    robot = other_bodies(dynid.load_robot(file))
    assert dynid.export(robot, tmp_path / "new.xml", template=file).verification.passed
    start, stop = text.index("<worldbody>"), text.index("</worldbody>") + len("</worldbody>")
    (tmp_path / "bodies.xml").write_text(f"<mujocoinclude>{text[start:stop]}</mujocoinclude>")
    file.write_text(text[:start] + '<include file="bodies.xml"/>' + text[stop:])
    robot = other_bodies(dynid.load_robot(file))
    with pytest.raises(dynid.DynidError) as refused:
        dynid.export(robot, tmp_path / "other.xml", template=file)
    assert refused.value.code == "template_bodies_included"
    assert not (tmp_path / "other.xml").exists()
    done = dynid.export(robot, tmp_path / "other.xml")
    assert done.notes[0].code == "template_not_usable"
    assert done.verification.passed


def test_what_the_model_does_not_have_is_kept_and_named(tmp_path: Path) -> None:
    file = write_arm(tmp_path / "arm.xml", COMPILERS[0])
    more = " 2" if hasattr(mujoco.MjModel, "jnt_stiffnesspoly") else ""  # polynomials from MuJoCo 4 on
    file.write_text(
        file.read_text()
        .replace("damping='5'", f"damping='5' stiffness='7{more}'")
        .replace('name="hand"', 'name="hand" gravcomp="1"')
    )
    robot = other_bodies(dynid.load_robot(file))
    links = tuple(replace(link, friction=()) if link.joint == "elbow" else link for link in robot.links)
    done = dynid.export(replace(robot, links=links), tmp_path / "new.xml", template=file)
    codes = [note.code for note in done.notes]
    assert {"template_springs_kept", "template_gravity_compensation", "template_friction_kept"} <= set(codes)
    assert done.verification.passed
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
    assert model.joint("elbow").damping[0] == 5.0
    assert model.joint("elbow").stiffness[0] == 7.0


def test_constant_torques_are_soft_springs_unless_the_file_has_one(tmp_path: Path) -> None:
    """10,000 rad away, in degrees where the file counts in these; a joint with a spring of its own keeps that."""
    file = write_arm(tmp_path / "arm.xml", COMPILERS[0])
    robot = dynid.load_robot(file)
    friction = (("viscous", 1.0), ("coulomb", 0.5), ("offset", -0.7))
    real = replace(robot, links=tuple(replace(link, friction=friction) for link in robot.links))
    log = dynid.simulate(real, smooth_path(robot, np.arange(0.0, 8.0, 0.01), scale=2.0), noise=0.01)
    result = dynid.identify(robot, log, friction=("viscous", "coulomb", "offset"))
    for own in ("", " stiffness='7'"):
        file.write_text(file.read_text().replace("damping='5'", f"damping='5'{own}"))
        done = dynid.export(result, tmp_path / "new.xml", template=file)
        assert done.verification.passed
        assert dynid.verify(tmp_path / "new.xml", done.subject).passed
        model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
        joints = ["shoulder", "elbow", "hand_joint"]
        constant = {name: -float(model.joint(name).stiffness[0] * model.joint(name).qpos_spring[0]) for name in joints}
        assert constant["shoulder"] == pytest.approx(-0.7, abs=0.02)
        assert (constant["elbow"] == pytest.approx(-0.7, abs=0.02)) == (not own)
        assert ("constant_torque_left_out" in [w.code for w in done.warnings]) == bool(own)
        assert "constant_torque_as_spring" in [n.code for n in done.notes]


def test_locked_joints_ride_on_their_carrier(tmp_path: Path) -> None:
    file = write_arm(tmp_path / "arm.xml", COMPILERS[0])
    robot = other_bodies(dynid.load_robot(file, lock={"elbow": 0.4}))
    assert robot.joint_names == ("shoulder", "hand_joint")
    assert dynid.export(robot, tmp_path / "new.xml", template=file).verification.passed


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    file = write_arm(tmp_path / "arm.xml", COMPILERS[0])
    robot = other_bodies(dynid.load_robot(file))
    for text, code in (
        (file.read_text().replace('pos="0 0 0.3">', 'pos="0 0 0.4">'), "template_of_other_robot"),
        (file.read_text().replace("-9.81", "-1.62"), "template_of_other_robot"),
        (file.read_text().replace('"shoulder"', '"neck"'), "template_of_other_robot"),
        (file.read_text().replace("<mujoco", "<!DOCTYPE x [<!ENTITY y 'z'>]><mujoco"), "document_type_not_allowed"),
    ):
        (tmp_path / "other.xml").write_text(text)
        with pytest.raises(dynid.DynidError) as refused:
            dynid.export(robot, tmp_path / "new.xml", template=tmp_path / "other.xml")
        assert refused.value.code == code
        assert not (tmp_path / "new.xml").exists()
    with pytest.raises(dynid.DynidError) as refused:
        dynid.export(with_bodies("scara"), tmp_path / "new.urdf", template=file)
    assert refused.value.code == "template_of_other_format"


def random_mjcf(rng: np.random.Generator) -> str:
    """Trees with everything that a body may be turned by, frames, classes, riders, and parts without a name."""
    count = 0

    def numbers(size: int) -> str:
        return " ".join(f"{x:.4g}" for x in rng.uniform(-0.5, 0.5, size))

    def turn() -> str:
        given = [f'euler="{numbers(3)}"', f'quat="{numbers(4)}"', f'axisangle="{numbers(4)}"', f'zaxis="{numbers(3)}"']
        return str(rng.choice([*given, "", 'xyaxes="1 0.1 0 0 1 0.2"', 'euler="1.5708 0 0"']))

    def maybe(share: float, text: str) -> str:
        return text if rng.random() < share else ""

    def body(depth: int) -> str:
        nonlocal count
        count += 1
        own, parts = count, []
        for k in range(0 if depth and rng.random() < 0.25 else 1 + (rng.random() < 0.15)):
            kind, name = rng.choice(["hinge", "hinge", "slide"]), maybe(0.85, f'name="j{own}_{k}"')
            more = maybe(0.3, 'class="wrist" ') + maybe(0.2, 'ref="0.3"')
            parts.append(f'<joint {name} type="{kind}" axis="{numbers(3)}" pos="{numbers(3)}" {more}/>')
        moments = f'diaginertia="0.05 0.04 0.03" {turn()}'
        parts.append(maybe(0.7, f'<inertial pos="{numbers(3)}" mass="{rng.uniform(0.5, 3.0):.3g}" {moments}/>'))
        parts.append(f'<geom type="sphere" size="0.05" pos="{numbers(3)}" mass="0.5"/>')
        box = '<geom type="box" size="0.1 0.1 0.1" mass="0.3"/>'
        parts.append(maybe(0.3, f'<frame pos="{numbers(3)}" {turn()}>{box}</frame>'))
        for _ in range(0 if depth > 3 else rng.choice([0, 1, 1, 2]) if depth else 1):
            child = body(depth + 1)
            parts.append(f'<frame pos="{numbers(3)}" {turn()}>{child}</frame>' if rng.random() < 0.2 else child)
        words = maybe(0.85, f'name="b{own}" ') + maybe(0.2, 'childclass="wrist"')
        return f'<body pos="{numbers(3)}" {turn()} {words}>{"".join(parts)}</body>\n'

    words = [
        f'angle="{rng.choice(["degree", "radian"])}"',
        maybe(0.3, f'eulerseq="{rng.choice(["XYZ", "zyx", "ZyX"])}"'),
    ]
    words += [maybe(0.2, f'{key}="true"') for key in ("inertiafromgeom", "balanceinertia", "fusestatic")]
    wrist = '<default class="wrist"><joint damping="1" armature="0.1" frictionloss="0.3"/></default>'
    return f"<mujoco><compiler {' '.join(words)}/><default>{wrist}</default><worldbody>{body(0)}</worldbody></mujoco>"


@pytest.mark.parametrize("seed", range(12))
def test_random_files_are_updated_exactly(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    file = tmp_path / "robot.xml"
    file.write_text(random_mjcf(rng))
    robot = dynid.load_robot(file)
    links = tuple(
        replace(
            link, inertia=freeze(link.inertia + (0.0 if "/" in link.name else 0.5) * random_inertia(rng)), rotor=0.2
        )
        for link in robot.links
    )
    robot = replace(robot, links=links)
    assert dynid.export(robot, tmp_path / "new.xml", template=file).verification.passed
    np.testing.assert_allclose(dynid.load_robot(tmp_path / "new.xml").parameters, robot.parameters, atol=1e-7)
