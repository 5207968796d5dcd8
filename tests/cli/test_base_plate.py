"""`dynid base --model reaction`: what forces on the base tell about torques, and barycentric letters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from command_line import CommandLine
from dynid import load_robot
from dynid.robot.io.toml_writer import table_text
from dynid.storage.files import write_text


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def test_counts_relations_and_channels(dynid: CommandLine) -> None:
    text = dynid("base", "puma562", "--model", "reaction").out
    assert "puma562: 11 base parameters (reaction model" in text
    assert "N_d = 9, N_r = 11, 10 on a tared plate" in text
    assert "the same in both: ZZR1 XXR2 XZR2 ZZR2 MXR2 XXR3 XZ3 ZZ3 MX3" in text
    assert "smallest sets of channels that determine all of theta_d: Mx Mz; My Mz" in text
    assert "barycentric" not in text


def test_torques_alone_say_nothing_of_plates(dynid: CommandLine) -> None:
    text = dynid("base", "puma562").out
    assert "theta_d" not in text


def test_barycentric_letters_with_any_model(dynid: CommandLine) -> None:
    for model in ("torque", "reaction"):
        text = dynid("base", "puma562", "--model", model, "--barycentric", "--no-rotor-inertia").out
        assert "  ZZR1 = Kzz1 + Kyy2 + Kyy3\n" in text
        assert "  XZR2 = Kxz2 - D3*mbz3\n" in text
        assert ("  MR1 = m1\n" in text) == (model == "reaction")


def test_for_machines(dynid: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    dynid("base", "puma560", "--model", "reaction", "--tared", "--barycentric", "--json", file)
    facts = json.loads(file.read_text())
    plate, letters = facts["plate"], facts["barycentric"]
    assert (plate["N_d"], plate["N_r"], plate["N_r_tared"]) == (36, 41, 40)
    S = np.array(plate["S"])
    assert S.shape == (len(plate["theta_d"]), len(plate["theta_r"])) == (36, 40)
    assert plate["sufficient_channels"] == [["Mx", "Mz"], ["My", "Mz"]]
    assert plate["lost"] == plate["warnings"] == []
    assert plate["residual"] <= 1e-10
    X = load_robot("puma560").parameters
    b = np.array(letters["definition"]) @ X
    assert_allclose(np.array(letters["matrix"]) @ b, np.array(facts["matrix"]) @ X, rtol=0, atol=1e-12)
    assert len(letters["relations"]) == facts["count"] == 40
    assert letters["names"][:3] == ["Kxx1", "Kxy1", "Kxz1"]


def on_plate(tmp_path: Path, lines: str) -> Path:
    path = tmp_path / "robot.toml"
    write_text(path, table_text(load_robot("puma562")) + f"\n[sensor]\n{lines}\n")
    return path


def test_channels_that_do_not_suffice_are_a_warning(dynid: CommandLine, tmp_path: Path) -> None:
    done = dynid("base", on_plate(tmp_path, 'channels = ["Fx", "Fy", "Fz"]'), "--model", "reaction", code=1)
    assert "ZZR1: not determined by these channels" in done.out
    assert "smallest sets of channels that determine all of theta_d: Mx Mz; My Mz" in done.out
    assert done.err.startswith("warning: these channels do not determine ZZ1, XX2")


def test_a_hidden_rotor_is_a_warning(dynid: CommandLine, tmp_path: Path) -> None:
    path = on_plate(tmp_path, '[[sensor.rotor]]\njoint = "2"\nratio = 60')
    done = dynid("base", path, "--model", "reaction", code=1)
    assert "no set of channels determines all of theta_d" in done.out
    assert "warning: the rotor inertia of joint 2 is unknown and its gear ratio is not 1" in done.err
