"""Files of simulators: an MJCF keeps all but what was identified, and its actuators act as the controllers do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from dynid import Actuators, DynidError, Motion, export, identify_actuators, load_robot, simulate_actuators
from dynid.actuators.controller import Controller, read_controller

HEAD = """<mujoco model="pan-tilt">
  <!-- angles in degrees, inertias from shapes, values from classes -->
  <compiler boundmass="0.01"/>
  <default>
    <joint armature="0.001" damping="0.01"/>
    <default class="big"><position kp="9" kv="0.2" forcerange="-3 3"/><general forcerange="-3 3"/></default>
  </default>
  <worldbody>
    <body name="plate" pos="0 0 0.05">
      <joint name='pan' axis="0 0 1" range="-90 90"/>
      <geom type="box" size=".06 .04 .02" mass="0.5"/>
      <body name="head" pos="0 0 0.04">
        <joint name="tilt" axis="0 1 0" range="-60 75"/>
        <geom type="box" pos="0.04 0 0.01" size=".06 .05 .04" mass="0.6"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    {pan}
    {tilt}
  </actuator>
</mujoco>
"""
PLAIN = '<position class="big" name="p" joint="pan"/>', '<position class="big" name="t" joint="tilt"/>'


def file_of(folder: Path, pan: str, tilt: str) -> Path:
    path = folder / "head.xml"
    path.write_bytes(HEAD.format(pan=pan, tilt=tilt).replace("\n", "\r\n").encode())
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Actuators:
    robot = load_robot(file_of(tmp_path_factory.mktemp("head"), *PLAIN))
    t = np.arange(0.0, 8.0, 0.005)
    q = np.column_stack([0.5 * np.sin(3.0 * t + np.sin(t)), 0.1 + 0.4 * np.sin(4.0 * t)])
    motion = Motion(t, q, np.gradient(q, t, axis=0), np.zeros_like(q))
    log = simulate_actuators(robot, motion, delay=0.006, armature=0.02, damping=0.1, frictionloss=0.05, bits=16)
    result = identify_actuators(robot, log)
    np.testing.assert_allclose(result.of("Ia"), 0.02, rtol=0.05)
    (said,) = (note for note in result.notes if note.code == "horizon_left_out")
    assert said.facts["horizons"] == ["2", "10"]
    return result


def with_controller(found: Actuators, **values: object) -> Actuators:
    return replace(found, controller=replace(found.controller, **values))  # type: ignore[arg-type]


def check_controller(path: Path, wanted: Controller) -> None:
    """The file's actuators are the controllers that were identified."""
    held = read_controller(None, load_robot(path))
    assert held.kind == wanted.kind
    for key in ("kp", "kd", "gain", "max_torque"):
        np.testing.assert_allclose(getattr(held, key), getattr(wanted, key), rtol=1e-5, err_msg=key)


def test_an_mjcf_keeps_all_but_armature_and_friction(found: Actuators, tmp_path: Path) -> None:
    """Inertias stay those of the shapes, and gains those of their classes."""
    old = file_of(tmp_path, *PLAIN).read_bytes()
    made = export(found, tmp_path / "new.xml", template=tmp_path / "head.xml")
    assert made.verification.passed
    new = (tmp_path / "new.xml").read_bytes()
    strip = re.compile(rb'(<joint name=[^>]*?)( armature="[^"]*" damping="[^"]*" frictionloss="[^"]*")/>')
    assert len(strip.findall(new)) == 2
    assert strip.sub(rb"\1/>", new) == old
    check_controller(tmp_path / "new.xml", found.controller)


def test_gains_that_changed_are_written_into_every_kind_of_element(found: Actuators, tmp_path: Path) -> None:
    other = with_controller(found, kp=np.array([9.0, 11.0]), max_torque=np.array([3.0, 2.0]))
    pan = PLAIN[0]
    for tilt in (PLAIN[1], '<general joint="tilt" gainprm="5" biastype="affine" biasprm="0 -5 -0.1"/>'):
        export(other, tmp_path / "new.xml", template=file_of(tmp_path, pan, tilt))
        assert pan.encode() in (tmp_path / "new.xml").read_bytes()
        check_controller(tmp_path / "new.xml", other.controller)


def test_a_gear_of_a_position_actuator_becomes_one(found: Actuators, tmp_path: Path) -> None:
    geared = '<position name="t" joint="tilt" kp="0.09" kv="0.002" gear="10" forcerange="-.3 .3"/>'
    made = export(found, tmp_path / "new.xml", template=file_of(tmp_path, PLAIN[0], geared))
    check_controller(tmp_path / "new.xml", found.controller)
    (said,) = (note for note in made.notes if note.code == "gear_set_to_one")
    assert said.facts["joints"] == ["tilt"]


def test_limits_of_motors_are_in_front_of_their_gears(found: Actuators, tmp_path: Path) -> None:
    current = with_controller(
        found, kind=("current", "current"), gain=np.array([0.7, 2.0]), kp=np.zeros(2), kd=np.zeros(2)
    )
    motors = '<motor joint="pan" gear="5" forcerange="-9 9"/>', '<motor joint="tilt"/>'
    export(current, tmp_path / "new.xml", template=file_of(tmp_path, *motors))
    check_controller(tmp_path / "new.xml", current.controller)
    plain = HEAD.replace("<actuator>", "").replace("</actuator>", "").format(pan="", tilt="")
    (tmp_path / "bare.xml").write_text(plain, encoding="utf-8")
    for result in (current, found):
        export(result, tmp_path / "new.xml", template=tmp_path / "bare.xml")
        check_controller(tmp_path / "new.xml", result.controller)


@pytest.mark.parametrize(
    "tilt",
    ['<motor joint="tilt"/>', '<position joint="tilt" kp="9"/><velocity joint="tilt" kv="0.2"/>'],
    ids=["of another kind", "two"],
)
def test_actuators_that_cannot_hold_the_gains_are_kept_and_named(found: Actuators, tmp_path: Path, tilt: str) -> None:
    made = export(found, tmp_path / "new.xml", template=file_of(tmp_path, PLAIN[0], tilt))
    (said,) = (note for note in made.notes if note.code == "actuators_kept")
    assert said.facts["joints"] == ["tilt"]
    assert tilt.encode() in (tmp_path / "new.xml").read_bytes()


def test_two_actuators_of_a_joint_are_no_default(tmp_path: Path) -> None:
    both = '<position name="a" joint="tilt" kp="9"/><velocity name="b" joint="tilt" kv="0.2"/>'
    with pytest.raises(DynidError) as caught:
        read_controller(None, load_robot(file_of(tmp_path, PLAIN[0], both)))
    assert caught.value.code == "several_actuators"
    assert "'tilt' has the actuators a, b" in str(caught.value)
