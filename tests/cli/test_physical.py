"""`dynid physical` and `dynid check` as a person uses them: output, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dynid as package
from bodies import bodied, identified
from command_line import CommandLine
from dynid.robot.io.toml_writer import table_text


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved result of a PUMA 560 with real bodies and little noise."""
    file = tmp_path_factory.mktemp("results") / "result.json"
    identified(bodied("puma560", 0), noise=0.05).save(file)
    return file


@pytest.mark.parametrize(("command", "example"), [("physical", "result.json"), ("check", "my_robot.urdf")])
def test_help_has_an_example(dynid: CommandLine, command: str, example: str) -> None:
    assert f"Example: dynid {command} {example}" in dynid(command, "--help").out


def test_bodies_are_found_shown_and_written(dynid: CommandLine, result: Path, tmp_path: Path) -> None:
    out, facts = tmp_path / "physical.json", tmp_path / "facts.json"
    done = dynid(
        "physical", result, "--total-mass", "20", "--out", out, "--json", facts, code=1
    )  # random bodies, outside of their links
    for part in (
        "puma560: bodies of 6 links, 20 kg",
        "principal moments",
        "ZZ1",
        "Fv1",
        "NRMSE",
        "physically consistent",
    ):
        assert part in done.out
    assert f"wrote {out}, {facts}" in done.out
    data = json.loads(facts.read_text())
    found = package.PhysicalParameters.load(out)
    assert tuple(data["names"]) == found.names
    assert data["values"] == found.values.tolist()
    assert abs(data["total_mass"] - 20.0) < 1e-6
    assert min(np.linalg.eigvalsh(np.array(x["inertia"]))[0] for x in data["links"].values()) > 0.0


def test_the_total_mass_and_the_verdict_come_first_and_ranges_on_demand(
    dynid: CommandLine, result: Path, tmp_path: Path
) -> None:
    facts = tmp_path / "facts.json"
    done = dynid("physical", result, "--ranges", "--json", facts, code=None)
    first, second = done.out.splitlines()[:2]
    assert " kg together" in first
    assert second.startswith("verdict on the bodies: ")
    assert " inf " in done.out
    data = json.loads(facts.read_text())
    assert len(data["ranges"]) == len(data["names"])
    assert data["range_increase"] >= 9.0
    assert data["ranges"][data["names"].index("M1")][1] is None  # unbounded
    assert data["verdict"] in ("good", "usable", "weak", "do not trust")
    assert "ranges" not in json.loads(dynid("physical", result, "--json", "-", code=None).out)


def test_a_prior_and_bounds(dynid: CommandLine, result: Path, tmp_path: Path) -> None:
    prior, facts = tmp_path / "prior.toml", tmp_path / "facts.json"
    prior.write_text(table_text(bodied("puma560", 0)))
    done = dynid("physical", result, "--prior", prior, "--bound", "M1=1:2", "--bound", "XX1=:0.9", "--json", facts)
    assert "the prior 'puma560'" in done.out
    data = json.loads(facts.read_text())
    values = dict(zip(data["names"], data["values"], strict=True))
    assert 1.0 - 1e-6 <= values["M1"] <= 2.0 + 1e-6
    assert values["XX1"] <= 0.9 + 1e-6


def test_what_bodies_cost_is_a_warning(dynid: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    identified(package.load_robot("puma560"), noise=0.1, friction=()).save(file)
    done = dynid("physical", file, code=1)
    assert "the identified parameters are not physically consistent" in done.out
    assert "active constraint (" in done.out
    assert "warning: bodies fit worse than the estimate" in done.err


def test_wrong_input_is_refused_in_one_line(dynid: CommandLine, result: Path, tmp_path: Path) -> None:
    assert "cannot be read" in dynid.fails("physical", tmp_path / "none.json")
    (tmp_path / "other.json").write_text('{"format": "something"}')
    assert "not a file of the format" in dynid.fails("physical", tmp_path / "other.json")
    assert "is not the robot of the result" in dynid.fails("physical", result, "--prior", "ur10")
    assert "physically impossible: 1 (" in dynid.fails("physical", result, "--prior", "puma560")
    assert "NAME=LOW:HIGH" in dynid.fails("physical", result, "--bound", "M1")
    assert "contradict" in dynid.fails("physical", result, "--bound", "M1=3:2")
    assert "in conflict" in dynid.fails("physical", result, "--bound", "M1=9:", "--total-mass", "5")
    assert "total mass" in dynid.fails("physical", result, "--total-mass", "0")
    assert "one of the inputs" in dynid.fails("physical", result, "--out", result)
    assert "must end in .json" in dynid.fails("physical", result, "--out", tmp_path / "x.txt")


@pytest.mark.parametrize("mass", ["1e100", "1e300", "1e-300", "9e-10", "1.1e9", "nan", "inf", "-inf", "-1", "9" * 400])
def test_total_masses_that_no_robot_has_are_a_line(mass: str, dynid: CommandLine, result: Path, tmp_path: Path) -> None:
    """1e100 was once a panic of Rust of 80 lines."""
    error = dynid.fails("physical", result, "--total-mass", mass, "--out", tmp_path / "bodies.json")
    assert "total mass" in error or "--total-mass" in error
    assert len(error) < 500
    assert list(tmp_path.iterdir()) == []


def test_check(dynid: CommandLine, tmp_path: Path) -> None:
    good, facts = tmp_path / "good.toml", tmp_path / "facts.json"
    good.write_text(table_text(bodied("puma560", 0)))
    assert "nothing is wrong" in dynid("check", good).out
    assert "nothing to check" in dynid("check", "panda").out
    done = dynid("check", "puma560", "--json", facts, code=1)
    assert "no physically possible bodies give the joint torques" in done.out
    assert "warning: link 3: a principal moment" in done.err
    assert json.loads(facts.read_text())["impossible"] is True
    assert "no robot" in dynid.fails("check", tmp_path / "none.urdf")


def test_check_writes_what_it_mended(dynid: CommandLine, tmp_path: Path) -> None:
    robot, bad, out = bodied("puma560", 0), tmp_path / "bad.toml", tmp_path / "mended.toml"
    values = np.array(robot.parameters)
    values[robot.parameter_names.index("XX1")] = 50.0
    bad.write_text(table_text(robot.with_parameters(values)))
    done = dynid("check", bad, "--out", out, code=1)
    assert "not felt: 1" in done.out
    assert "nothing is wrong" in dynid("check", out).out
    assert "nothing to write" in dynid.fails("check", out, "--out", tmp_path / "again.toml")
