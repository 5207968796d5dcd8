"""URDF: pinocchio finds the model's torques, and an updated file keeps every byte outside its inertial elements."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import with_bodies
from dynid.exports.urdf import find_links_and_joints
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import freeze, rotation_from_rpy, rpy_from_rotation
from robots import coupled_tree, random_inertia, random_motion, random_rotation, random_tree
from urdf_texts import URDF, random_rpy, random_urdf

INERTIAL = re.compile(rb"<inertial>(?:(?!not ours).)*?</inertial>", re.DOTALL)


def torques(robot: Robot, *, seed: int = 0) -> np.ndarray:
    motion = random_motion(robot, samples=10, seed=seed)
    W = dynid.regressor(robot, motion, rotor_inertia=False)
    X = np.array([x for name, x in zip(robot.parameter_names, robot.parameters, strict=True) if name in W.columns])
    return np.asarray((W.matrix @ X).reshape(-1, robot.n))


@pytest.fixture
def template(tmp_path: Path) -> Path:
    file = tmp_path / "template.urdf"
    file.write_text(URDF, encoding="utf-8")
    return file


def identified(template: Path, scale: float, **options: object) -> Robot:
    """The template's robot, all inertial parameters another."""
    robot = load_robot(template, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    links = tuple(
        replace(link, inertia=freeze(link.inertia + scale * random_inertia(rng)), rotor=0.1) for link in robot.links
    )
    return replace(robot, links=links)


@pytest.mark.parametrize("seed", range(50))
def test_angles_give_the_rotation_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = rotation_from_rpy(*random_rpy(rng)) @ rotation_from_rpy(
        *(10.0 ** rng.uniform(-17, -3) * rng.standard_normal(3))
    )
    for R in (random_rotation(rng), rotation_from_rpy(*random_rpy(rng)), near):
        assert_allclose(rotation_from_rpy(*rpy_from_rotation(R)), R, atol=2e-15)


@pytest.mark.parametrize(
    "robot",
    [
        with_bodies("puma560", friction=True), with_bodies("panda", 1), with_bodies("scara", 2), with_bodies("ur10", 3),
        random_tree(11, joints=9, shuffled=True), random_tree(5, joints=8, fixed_share=0.4),
    ],
    ids=lambda robot: robot.name,
)  # fmt: skip
def test_a_new_urdf_has_the_models_torques_in_pinocchio(robot: Robot, tmp_path: Path) -> None:
    file = tmp_path / "robot.urdf"
    done = dynid.export(robot, file)
    checked = dynid.verify(file, robot)
    assert checked.reader == "pinocchio"
    assert checked.error < 1e-12
    assert any("rotor inertias" in note for note in done.notes)
    assert (tuple(robot.gravity) == (0.0, 0.0, -9.81)) != any("no gravity" in note for note in done.notes)
    again = load_robot(file, gravity=robot.gravity, snap=False)
    for link in again.links:
        old = next(k for k in robot.links if k.joint == link.joint)
        assert link.kind == old.kind
        assert link.limits.lower == old.limits.lower or old.kind == "prismatic"
        assert dict(link.friction) == {k: x for k, x in old.friction if k != "offset"}


def test_mimic_joints_stay(tmp_path: Path) -> None:
    robot = random_tree(3, joints=4, fixed_share=0.0)
    follower = replace(coupled_tree(1).couplings[0], passive=robot.joint_names[2], offset=0.2)
    robot = replace(robot, couplings=(replace(follower, factors=((robot.joint_names[0], -1.5),)),))
    file = tmp_path / "robot.urdf"
    dynid.export(robot, file)
    assert dynid.verify(file, robot).passed
    assert load_robot(file).couplings == robot.couplings


def test_a_wrong_file_is_noticed(tmp_path: Path) -> None:
    robot = with_bodies("panda")
    file = tmp_path / "robot.urdf"
    dynid.export(robot, file)
    mass = re.search(r'<mass value="([^"]*)"', file.read_text())
    assert mass
    file.write_text(file.read_text().replace(mass[1], repr(float(mass[1]) * (1 + 1e-6)), 1))
    assert not dynid.verify(file, robot).passed


def test_an_update_changes_inertial_elements_only(template: Path, tmp_path: Path) -> None:
    robot = identified(template, 0.05)
    out = tmp_path / "out.urdf"
    done = dynid.export(robot, out, template=template)
    assert dynid.verify(out, robot).error < 1e-12
    before, after = template.read_bytes(), out.read_bytes()
    added = re.compile(rb'<link name="tip">\s*<inertial>.*?</inertial>', re.DOTALL)
    assert added.search(after)
    after = added.sub(b'<link name="tip">', after)
    assert INERTIAL.sub(b"", before) == INERTIAL.sub(b"", after)
    kept = [x for x in INERTIAL.findall(before) if x in after]
    assert len(kept) == 2, "the foot, which no torque shows, and the camera, which kept its values"
    assert any("'arm' got what was identified minus 'camera'" in note for note in done.notes)
    assert_allclose(torques(load_robot(out)), torques(robot), rtol=0, atol=1e-12 * np.abs(torques(robot)).max())


@pytest.mark.parametrize("seed", range(12))
def test_random_files_are_updated_exactly(seed: int, tmp_path: Path) -> None:
    template, out = tmp_path / "template.urdf", tmp_path / "out.urdf"
    template.write_text(random_urdf(seed))
    rng = np.random.default_rng(seed)
    for share in (0.0, 0.1, 1.0):
        robot = load_robot(template)
        links = tuple(
            replace(link, inertia=freeze((1.0 - share) * link.inertia + share * random_inertia(rng)))
            for link in robot.links
        )
        robot = replace(robot, links=links)
        dynid.export(robot, out, template=template)
        checked = dynid.verify(out, robot)
        assert checked.reader == "pinocchio"
        assert checked.error < 1e-10
        outside = [re.sub(r"\s*<inertial>.*?</inertial>", "", f.read_text(), flags=re.DOTALL) for f in (template, out)]
        assert outside[0] == outside[1]


def test_an_unchanged_robot_leaves_its_riders_alone(template: Path, tmp_path: Path) -> None:
    robot = load_robot(template)
    done = dynid.export(robot, tmp_path / "out.urdf")
    assert not any("almost nothing" in note for note in done.notes)
    assert_allclose(load_robot(tmp_path / "out.urdf").parameters, robot.parameters, rtol=0, atol=1e-15)
    bare = re.sub(r"<inertial>\s*<!-- rotated.*?</inertial>", "", URDF, flags=re.DOTALL)
    template.write_text(bare)
    dynid.export(load_robot(template), tmp_path / "out.urdf")
    before, after = (load_robot(file).parameters for file in (template, tmp_path / "out.urdf"))
    assert_allclose(after, before, rtol=0, atol=1e-15)
    assert '<mass value="0.4"/>' in (tmp_path / "out.urdf").read_text()


def test_a_rest_that_is_no_body_goes_to_the_carrier(template: Path, tmp_path: Path) -> None:
    robot = identified(template, 0.0)
    light = with_bodies(robot, 3)
    links = tuple(
        replace(a, inertia=freeze(1e-3 * np.asarray(b.inertia))) for a, b in zip(robot.links, light.links, strict=True)
    )
    robot = replace(robot, links=links)
    out = tmp_path / "out.urdf"
    done = dynid.export(robot, out, template=template)
    assert dynid.verify(out, robot).error < 1e-9
    assert any("'arm' got all that was identified, and 'camera' almost nothing" in note for note in done.notes)


def test_the_robots_own_file_is_the_template(template: Path, tmp_path: Path) -> None:
    robot = identified(template, 0.05)
    done = dynid.export(robot, tmp_path / "out.urdf")
    assert f"taken from {template}" in done.notes[0]
    dynid.export(robot, template)  # in place
    assert template.read_bytes() == (tmp_path / "out.urdf").read_bytes()
    assert dynid.verify(template, robot).passed


@pytest.mark.parametrize("form", ["crlf", "bom", "latin-1", "one line"])
def test_other_forms_of_text(form: str, template: Path, tmp_path: Path) -> None:
    data = URDF.encode()
    match form:
        case "crlf":
            data = data.replace(b"\n", b"\r\n")
        case "bom":
            data = b"\xef\xbb\xbf" + data
        case "latin-1":
            data = URDF.replace("utf-8", "iso-8859-1").encode("latin-1")
        case "one line":
            data = data.replace(b"\n", b" ")
    template.write_bytes(data)
    robot = identified(template, 0.05)
    out = tmp_path / "out.urdf"
    dynid.export(robot, out, template=template)
    assert dynid.verify(out, robot).error < 1e-12
    added = re.compile(rb'<link name="tip">\s*<inertial>.*?</inertial>', re.DOTALL)
    after = added.sub(b'<link name="tip">', out.read_bytes())
    assert INERTIAL.sub(b"", data) == INERTIAL.sub(b"", after)
    if form == "crlf":
        assert out.read_bytes().count(b"\n") == out.read_bytes().count(b"\r\n")


def test_an_empty_link_gets_an_inertial_element(template: Path, tmp_path: Path) -> None:
    old = '<link name="tip"><visual><geometry><box size="1 1 1"/></geometry></visual></link>'
    template.write_text(URDF.replace(old, '<link name="tip" />'))
    robot = identified(template, 0.05)
    out = tmp_path / "out.urdf"
    dynid.export(robot, out, template=template)
    assert dynid.verify(out, robot).error < 1e-12


def test_almost_right_angles_stay_in_the_file(template: Path, tmp_path: Path) -> None:
    template.write_text(URDF.replace('rpy="0 0 0.3"', 'rpy="0 0 1.5708"').replace('rpy="0.9 0 0"', 'rpy="1.5708 0 0"'))
    for snap in (True, False):
        robot = identified(template, 0.05, snap=snap)
        out = tmp_path / "out.urdf"
        dynid.export(robot, out, template=template)
        checked = dynid.verify(out, robot)
        assert checked.passed
        assert ("rounded to right" in checked.reader) == snap
        assert b'"0 0 1.5708"' in out.read_bytes()


def test_locked_joints_ride_on_their_carrier(template: Path, tmp_path: Path) -> None:
    lock = {"rail": 0.2, "wrist": 0.7}
    robot = identified(template, 0.05, lock=lock)
    out = tmp_path / "out.urdf"
    done = dynid.export(robot, out, template=template, lock=lock)
    assert_allclose(torques(load_robot(out, lock=lock)), torques(robot), atol=1e-11)
    assert dynid.verify(out, robot, lock=lock).error < 1e-12
    assert dynid.verify(out, robot).error < 1e-12  # the robot knows what it holds
    assert not dynid.verify(out, robot, lock={"rail": 0.0, "wrist": 0.0}).passed
    assert any("minus 'camera', 'slide'" in note or "minus 'slide', 'camera'" in note for note in done.notes)
    with pytest.raises(dynid.DynidError, match="its joint rail moves"):
        dynid.export(robot, out, template=template, lock={"wrist": 0.7})
    for again in (dynid.export(robot, out, template=template), dynid.export(robot, out)):
        assert again.verification.error < 1e-12
        assert load_robot(out).joint_names == load_robot(template).joint_names
    again = dynid.export(replace(robot, locks={}), out)
    assert "a new URDF was made" in again.notes[0]
    assert dynid.verify(out, robot).passed


def test_templates_of_others_are_refused(template: Path, tmp_path: Path) -> None:
    robot = identified(template, 0.05)
    other = tmp_path / "other.urdf"
    for old, new, text in (
        ('name="rail"', 'name="track"', "no joint rail"),
        ('xyz="0 0.1 0.3"', 'xyz="0 0.1 0.4"', "'shoulder' sits 0.1 off"),
        ('<axis xyz="0 1 0"/>', '<axis xyz="1 0 0"/>', "'shoulder' sits 1 off"),
        ('type="continuous"', 'type="fixed"', "no joint wrist"),
    ):
        assert old in URDF
        other.write_text(URDF.replace(old, new))
        with pytest.raises(dynid.DynidError, match=text):
            dynid.export(robot, tmp_path / "out.urdf", template=other)
    assert not (tmp_path / "out.urdf").exists()


def test_entities_are_never_resolved(template: Path, tmp_path: Path) -> None:
    robot = identified(template, 0.05)
    evil = URDF.replace("<!-- a robot", '<!DOCTYPE robot [<!ENTITY a SYSTEM "file:///etc/passwd">]><!-- a robot')
    template.write_text(evil)
    with pytest.raises(dynid.DynidError, match="DOCTYPE"):
        dynid.export(robot, tmp_path / "out.urdf", template=template)


@pytest.mark.parametrize("name", ['a"b', "<x>", "a&amp;b", "new\nline", "ünï", "{}", "a'b", "", "\x00\x1b"])
def test_hostile_names_are_escaped(name: str, tmp_path: Path) -> None:
    robot = with_bodies("scara")
    links = tuple(replace(k, name=name + k.name, joint=name + k.joint) for k in robot.links)
    hostile = replace(robot, name=name, links=links)
    for suffix in (".urdf", ".xml", ".toml", ".json"):
        file = tmp_path / f"robot{suffix}"
        dynid.export(hostile, file)
        checked = dynid.verify(file, hostile)
        assert checked.passed or checked.skipped


def test_places_of_elements_in_odd_xml(tmp_path: Path) -> None:
    data = b"<robot><link name='a'><inertial/></link><link name='b>'><inertial x='>'><!-- > --></inertial  ></link>"
    data += b"</robot>"
    places, _ = find_links_and_joints(tmp_path, data)
    cut = {name: [data[i:j] for i, j in place.inertials] for name, place in places.items()}
    assert cut == {"a": [b"<inertial/>"], "b>": [b"<inertial x='>'><!-- > --></inertial  >"]}
