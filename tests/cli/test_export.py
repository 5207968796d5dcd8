"""`dynid export` as a person uses it: output, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dynid as package
from bodies import with_bodies
from command_line import CommandLine, write_simulated
from dynid.exports.verify import find_compiler
from dynid.robot.load import load_robot
from urdf_texts import URDF

try:
    GCC = find_compiler()
except FileNotFoundError:
    GCC = ""
needs_gcc = pytest.mark.skipif(not GCC, reason="there is no C compiler here")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def test_help_has_an_example(dynid: CommandLine) -> None:
    assert "Example: dynid export result.json robot.c" in dynid("export", "--help").out


@needs_gcc
def test_a_result_becomes_c_code(dynid: CommandLine, tmp_path: Path) -> None:
    log, result, out = write_simulated(tmp_path / "log.csv"), tmp_path / "result.json", tmp_path / "robot.c"
    dynid("identify", "gautier3", log, "--friction", "viscous,coulomb,offset", "--out", result)
    done = dynid("export", result, out, "--json", tmp_path / "facts.json")
    assert f"wrote {out}" in done.out
    assert "verified: loaded again with gcc" in done.out
    assert "inverse_dynamics with standard parameters, not written" in done.out
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["error"] < 1e-9
    assert facts["operations"]["inverse_dynamics"]["multiplications"] > 10


@pytest.mark.parametrize("suffix", [".urdf", ".xml", ".toml", ".json"])
def test_a_robot_is_written_and_verified(dynid: CommandLine, suffix: str, tmp_path: Path) -> None:
    if suffix == ".xml":
        pytest.importorskip("mujoco")
    robot, out = with_bodies("panda"), tmp_path / f"out{suffix}"
    package.export(robot, tmp_path / "panda.toml")
    done = dynid("export", tmp_path / "panda.toml", out)
    assert "verified: loaded again" in done.out
    assert ("note: a URDF has no rotor inertias" in done.out) == (suffix == ".urdf")
    if suffix == ".json":
        dynid("export", out, tmp_path / "again.toml")
        again = load_robot(tmp_path / "again.toml")
        assert np.array_equal(again.parameters, robot.parameters)


def test_a_template_keeps_its_text(dynid: CommandLine, tmp_path: Path) -> None:
    old, out = tmp_path / "old.urdf", tmp_path / "new.urdf"
    old.write_text(URDF)
    done = dynid("export", old, out, "--template", old, "--lock", "wrist=0.5", "--lock", "rail=0.2")
    assert "verified: loaded again with pinocchio" in done.out
    assert "<!-- the end -->" in out.read_text()


def test_torques_that_the_file_does_not_have_are_warnings(dynid: CommandLine, tmp_path: Path) -> None:
    package.export(with_bodies("scara", friction=True), tmp_path / "scara.toml")
    done = dynid("export", tmp_path / "scara.toml", tmp_path / "out.urdf", code=1)
    assert "warning: constant torques are left out: joints '1'" in done.err
    words = ("export", tmp_path / "scara.toml", tmp_path / "new.urdf", "--template", tmp_path / "out.urdf")
    package.export(with_bodies("scara"), tmp_path / "scara.toml")
    done = dynid(*words, "--json", tmp_path / "facts.json", code=1)
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert [message["code"] for message in facts["messages"] if message["code"] == "template_friction_kept"]
    kept = [load_robot(tmp_path / name).links[0].friction for name in ("out.urdf", "new.urdf")]
    assert kept[0] == kept[1] != ()


def test_mistakes_are_one_clear_line(dynid: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "robot.c"
    assert "must end in .urdf" in dynid.fails("export", "puma560", tmp_path / "robot.txt")
    assert "there is no folder" in dynid.fails("export", "puma560", tmp_path / "x" / "robot.c")
    assert "both name" in dynid.fails("export", "puma560", tmp_path / "a.json", "--json", tmp_path / "a.json")
    assert "no robot 'nobody'" in dynid.fails("export", "nobody", out)
    assert "there is no file" in dynid.fails("export", tmp_path / "none.json", out)
    assert "no value for XX1" in dynid.fails("export", "panda", out)
    assert "no real body" in dynid.fails("export", "puma560", tmp_path / "robot.urdf")
    assert "a template is for .urdf" in dynid.fails("export", "puma560", out, "--template", tmp_path / "x.urdf")
    (tmp_path / "other.urdf").write_text(URDF)
    package.export(with_bodies("scara"), tmp_path / "scara.toml")
    words = ("export", tmp_path / "scara.toml", tmp_path / "robot.urdf", "--template")
    assert "is not a file of 'scara'" in dynid.fails(*words, tmp_path / "other.urdf")
    assert "there is no template" in dynid.fails(*words, tmp_path / "none.urdf")
    assert "this is the input" in dynid.fails("export", tmp_path / "scara.toml", tmp_path / "scara.toml")
    for text in ("", "[]", "{", '{"format": "dynid robot", "version": 1}', '{"format": "dynid physical"}'):
        (tmp_path / "bad.json").write_text(text)
        assert "bad.json" in dynid.fails("export", tmp_path / "bad.json", out)
    assert not out.exists()
