"""Mistakes at the command line of `simulate`: a line or two, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine, write_motion


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def motion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_motion(tmp_path_factory.mktemp("motions") / "m.csv", "gautier3", seconds=1.0)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--rate", "0"), "--rate 0"),
        (("--rate", "nan"), "--rate nan"),
        (("--rate", "1e12"), "samples"),
        (("--rate", "0.1"), "samples"),
        (("--noise", "loud"), "--noise"),
        (("--noise", "1,2"), "3 numbers"),
        (("--noise", "-1"), "not negative"),
        (("--seed", "-1"), "--seed"),
        (("--seed", "x"), "--seed"),
        (("--out", "log.txt"), "must end in .csv or .parquet or .npz"),
        (("--out", "no/log.csv"), "there is no folder"),
        (("--json", "no/log.json"), "there is no folder"),
        (("--lock", "1"), "NAME=POSITION"),
        (("--gravity", "1,2"), "three numbers"),
    ],
)
def test_simulate_with_bad_options(
    dynid: CommandLine,
    motion: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    answer: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    more = () if "--out" in words else ("--out", "log.csv")
    assert answer in dynid.fails("simulate", "gautier3", motion, *words, *more)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "answer"),
    [
        ("m.csv", "t,q1,q2,q3\n0,0,0,0\n1,0,0,0\n", "velocities and accelerations"),
        ("m.csv", "t,q1,q2,q3,v1,v2,v3\n0,0,0,0,0,0,0\n1,0,0,0,0,0,0\n", "needs accelerations"),
        ("m.csv", "t,q1,q2,q3,v1,v2,v3,a1,a2,a3\n0" + ",0" * 9 + "\n0" + ",0" * 9 + "\n", "time does not increase"),
        ("m.csv", "", "the file is empty"),
        ("m.json", "{", "this is not JSON"),
        ("m.json", "[]", "not a JointTrajectory"),
        ("m.json", '{"joint_names": ["a"], "points": [1]}', "its joints are a"),
        ("m.json", '{"joint_names": ["1", "2", "3"], "points": [{}]}', "point 0 has no positions"),
        ("m.json", '{"joint_names": ["1", "2", "3"], "points": [{"positions": ["x"]}]}', "point 0"),
        ("m.json", '{"joint_names": ["1", "2", "3"], "points": [{"positions": [1]}]}', "1 positions for 3 joints"),
        ("m.json", '{"joint_names": ["1", "2", "3"], "points": 3}', "not a JointTrajectory"),
        ("m.yaml", "a: 1\n", "not the YAML"),
        ("m.yaml", "    velocities: [1]\n", "not the YAML"),
        ("m.xlsx", "x", "Excel workbook"),
    ],
)
def test_bad_motions(dynid: CommandLine, tmp_path: Path, name: str, content: str, answer: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert answer in dynid.fails("simulate", "gautier3", path, "--out", tmp_path / "log.csv")
    assert list(tmp_path.iterdir()) == [path]


def test_simulate_refuses_what_it_cannot_do(dynid: CommandLine, motion: Path, tmp_path: Path) -> None:
    assert "no such file" in dynid.fails("simulate", "gautier3", tmp_path / "m.csv")
    assert "cannot be read" in dynid.fails("simulate", "gautier3", tmp_path / "m.json")
    assert "one of the inputs" in dynid.fails("simulate", "gautier3", motion, "--out", motion)
    unknown = write_motion(tmp_path / "rx90.csv", "rx90", seconds=1.0)
    assert "no nominal value for" in dynid.fails("simulate", "rx90", unknown)


FLOATING = """<mujoco><worldbody><body name="trunk"><freejoint/><inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/>
<body name="leg"><joint name="hip" axis="0 1 0"/><inertial pos="0 0 -.1" mass="1" diaginertia=".1 .1 .1"/></body>
</body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    "words",
    [("simulate", "ROBOT", "m.csv"), ("identify", "ROBOT", "m.csv"), ("excite", "ROBOT", "--velocity", "1"),
     ("unknown", "ROBOT"), ("export", "ROBOT", "out.urdf"), ("view", "ROBOT", "m.csv", "--no-browser"),
     ("payload", "ROBOT", "--loaded", "m.csv", "--unloaded", "n.csv")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_floating_robot_is_refused_with_the_remedy(
    dynid: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.xml").write_text(FLOATING)
    rows = "".join(f"{0.01 * k},{0.1 * k},0,0,1\n" for k in range(20))
    for name in ("m.csv", "n.csv"):
        (tmp_path / name).write_text(f"t,q1,v1,a1,tau1\n{rows}")
    error = dynid.fails(*("r.xml" if word == "ROBOT" else word for word in words))
    assert "to fix its base, take the free joint out of the file" in error
    assert not (tmp_path / "out.urdf").exists()
