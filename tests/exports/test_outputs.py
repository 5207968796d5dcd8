"""What loads is exported, and what fails leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pinocchio as pin
import pytest

import dynid
from bodies import with_bodies
from dynid.exports import export as exporting
from dynid.exports.subject import make_export_subject
from dynid.exports.verify import Verification, verify_under_name
from dynid.robot.load import load_robot

LIMITS = {
    "full": '<limit lower="-1" upper="1" effort="5" velocity="5"/>',
    "none": "",
    "no effort": '<limit lower="-1"\n upper="1" />',
    "no travel": '<limit effort="5" velocity="5"></limit>',
}
INERTIAL = (
    '<inertial><origin xyz="0.1 0 0.05"/><mass value="2"/>'
    '<inertia ixx="0.03" iyy="0.04" izz="0.05" ixy="0" ixz="0" iyz="0"/></inertial>'
)
EXACT = 1e-9


def urdf(kind: str, limit: str, name: str = "joint 1", more: str = "") -> str:
    joint, link = quoteattr(name), quoteattr(f"link of {name}")
    return (
        f'<robot name={joint}><link name="base"/><link name={link}>{INERTIAL}</link>'
        f'<link name="tool">{INERTIAL}</link><link name="tip">{INERTIAL}</link>'
        f'<joint name={joint} type="{kind}"><parent link="base"/><child link={link}/><axis xyz="0 1 0"/>{limit}</joint>'
        f'<joint name="bolt" type="fixed"><parent link={link}/><child link="tool"/></joint>'
        f'<joint name="k" type="revolute"><origin xyz="0.3 0 0"/><parent link={link}/><child link="tip"/>'
        f'<axis xyz="0 1 0"/>{limit}{more}</joint></robot>'
    )


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_limits_that_are_left_out(kind: str, limit: str, tmp_path: Path) -> None:
    """An update and a new file load in pinocchio and here, with the limits of the first file."""
    source, out = tmp_path / "robot.urdf", tmp_path / "out.urdf"
    source.write_text(urdf(kind, LIMITS[limit]))
    robot = load_robot(source)
    for again in range(2):
        done = dynid.export(robot, out)
        assert done.verification.error < EXACT
        assert pin.buildModelFromUrdf(str(out)).njoints == 3
        for name in ("position", "velocity", "effort"):
            assert np.array_equal(getattr(load_robot(out).limits, name), getattr(robot.limits, name)), again
        source.unlink(missing_ok=True)  # now a new one is made
    for suffix in (".xml", ".toml", ".json"):
        assert dynid.export(robot, tmp_path / f"robot{suffix}").verification.error < EXACT
        if suffix != ".json":
            position = load_robot(tmp_path / f"robot{suffix}").limits.position
            assert np.array_equal(position, robot.limits.position)


@pytest.mark.parametrize(
    "name", ['a"b', "a'b", "a<b&c>", "Tr\u00e4ger", "\u65e5\u672c", "a\\b", " x ", "a/b", "%s{}", "-"]
)
def test_names(name: str, tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(
        urdf("revolute", "", name, f'<mimic joint={quoteattr(name)} multiplier="2"/>'), encoding="utf-8"
    )
    robot = load_robot(tmp_path / "robot.urdf")
    assert robot.joint_names == (name,)
    for suffix in (".urdf", ".xml", ".toml", ".json"):
        assert dynid.export(robot, tmp_path / f"out{suffix}").verification.error < EXACT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('value="2"', 'value=" 2 "'),  # dropped by parsers that are strict about blanks
        ('<robot name="joint 1">', "<robot>"),
        ("<robot", '<?xml version="1.0" encoding="utf-16"?><robot'),
    ],
)
def test_a_file_that_others_cannot_read_is_made_anew(old: str, new: str, tmp_path: Path) -> None:
    file, out = tmp_path / "robot.urdf", tmp_path / "out.urdf"
    text = urdf("revolute", LIMITS["full"]).replace(old, new)
    file.write_text(text, encoding="utf-16" if "utf-16" in text else "utf-8")
    robot = load_robot(file)
    done = dynid.export(robot, out)
    assert "a new URDF was made: " in done.notes[0]
    assert done.verification.error < EXACT
    assert pin.buildModelFromUrdf(str(out)).njoints == 3


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".toml", ".c", ".json"])
def test_what_is_not_the_model_is_not_written(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot, file = with_bodies("gautier3"), tmp_path / f"robot{suffix}"
    for problem in (lambda *_, **__: Verification("x", 1e-3), _fail):
        monkeypatch.setattr(exporting, "verify_under_name", problem)
        with pytest.raises(dynid.DynidError, match=rf"robot\{suffix}"):
            dynid.export(robot, file)
        assert list(tmp_path.iterdir()) == []
        file.write_text("old")
        with pytest.raises(dynid.DynidError, match=rf"robot\{suffix}"):
            dynid.export(robot, file)
        assert [(path, path.read_text()) for path in tmp_path.iterdir()] == [(file, "old")]
        file.unlink()


def _fail(path: Path, *_: Any, **__: Any) -> Verification:
    raise dynid.errors.ExportError("cannot_load", "{path}: it cannot be loaded", path=path)


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".c"])
def test_errors_name_the_file_that_was_asked_for(suffix: str, tmp_path: Path) -> None:
    """Not the one beside it that other software was given."""
    beside, shown = tmp_path / f".hidden{suffix}", tmp_path / f"robot{suffix}"
    beside.write_text("<broken")
    with pytest.raises(dynid.errors.ExportError) as caught:
        verify_under_name(shown, beside, make_export_subject(with_bodies("gautier3")), None)
    assert caught.value.code in ("pinocchio_cannot_load", "mujoco_cannot_load", "export_does_not_compile")
    assert caught.value.facts["path"] == str(shown)
    assert "hidden" not in str(caught.value)
