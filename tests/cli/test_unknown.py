"""`dynid unknown` as a person and a machine use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import CommandLine


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def test_the_scara_arm(dynid: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "scara.json"
    text = dynid("unknown", "scara", "--unknown", "A1,A2", "--json", file).out
    assert "scara: 6 model parameters (A1, A2 unknown)" in text
    assert "blocks m_1 .. m_4: 1, 3, 1, 1" in text
    assert "X22 = A1*(MX2 + MX3) + A1*A2*(M3 + M4)" in text
    assert "F41 = 1/2*qd4**2 + qd2*qd4 + qd1*qd4" in text
    facts = json.loads(file.read_text())
    assert facts["blocks"] == [1, 3, 1, 1]
    assert facts["values"]["X31"] == pytest.approx(3.11)
    assert facts["support"][3] == [False] * 5 + [True]


def test_counting_alone(dynid: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "count.json"
    text = dynid("unknown", "puma560", "--unknown", "D3,R3,D4,R4", "--count-only", "--json", file).out
    assert "puma560: 60 model parameters" in text
    assert json.loads(file.read_text()) == {
        "robot": "puma560", "count": 60, "blocks": [1, 7, 9, 13, 15, 15], "complete": True
    }  # fmt: skip


def test_known_geometry(dynid: CommandLine) -> None:
    text = dynid("unknown", "gautier3", "--unknown", "").out
    assert "all geometry known" in text
    assert "base parameters" in text


def test_mistakes_take_a_line(dynid: CommandLine, tmp_path: Path) -> None:
    assert "no 'q7'" in dynid.fails("unknown", "puma560", "--unknown", "q7")
    assert "model parameters" in dynid.fails("unknown", "ur10", "--unknown", "alpha,d,r")
    assert "there is no folder" in dynid.fails("unknown", "scara", "--json", tmp_path / "none" / "x.json")
    assert "closed loops" in dynid.fails("unknown", "sr400")


def test_help_has_an_example(dynid: CommandLine) -> None:
    assert "Example: dynid unknown" in dynid("unknown", "--help").out
