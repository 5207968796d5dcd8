"""`dynid inspect` in the terminal and as data: meanings with reasons, and recordings that are wrong."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from command_line import CommandLine
from dynid import load_robot, simulate
from dynid.cli.output.recordings import write_log
from robots import smooth_path

PLAIN = ("--friction", "viscous,coulomb,offset", "--cutoff", "20")
ROBOT = load_robot("gautier3")
TIMES = np.arange(0.0, 6.0, 0.01)


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


def recorded(seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Columns of a recording by name."""
    log = simulate(ROBOT, smooth_path(ROBOT, TIMES, scale=2.0, seed=seed), noise=0.02, seed=seed)
    assert log.v is not None
    assert log.tau is not None
    columns = {"t": TIMES.copy()}
    for letter, block in (("q", log.q), ("v", log.v), ("tau", log.tau)):
        columns |= {f"{letter}{j + 1}": block[:, j].copy() for j in range(3)}
    return columns


def write(columns: dict[str, NDArray[np.float64]], *, header: bool = True, name: str = "log.csv") -> None:
    lines = ",".join(columns) if header else ""
    np.savetxt(name, np.column_stack(list(columns.values())), delimiter=",", header=lines, comments="", fmt="%.9g")


def inspected(dynid: CommandLine, *words: str, code: int | None = None) -> dict[str, Any]:
    dynid("inspect", "gautier3", "log.csv", *words, "--json", "facts.json", code=code)
    facts: dict[str, Any] = json.loads(Path("facts.json").read_text())
    return facts


def remarks(facts: dict[str, Any]) -> set[str]:
    """Codes of what looks wrong with the joints of the first log."""
    texts = {text for joint in facts["logs"][0]["joints"] for text in joint["remarks"]}
    return {message["code"] for message in facts.get("messages", ()) if message["text"] in texts}


def test_a_good_log_has_no_remarks_and_a_short_line(dynid: CommandLine) -> None:
    write(recorded())
    facts = inspected(dynid, code=0)
    assert facts["command"] == "dynid identify gautier3 log.csv"
    (log,) = facts["logs"]
    assert (log["rows"], log["gaps"], log["problem"]) == (600, 0, None)
    assert log["rate"] == pytest.approx(100.0)
    meanings = [(column["channel"], column["joint"]) for column in log["columns"]]
    assert meanings == [("t", ""), *((c, str(j)) for c in ("q", "v", "tau") for j in (1, 2, 3))]
    for joint in log["joints"]:
        own = next(match for match in joint["torques"] if match["joint"] == joint["joint"])
        assert own["scale"] == pytest.approx(1.0, abs=0.02)
        assert own["explained"] > 0.99
        assert joint["ratio"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_bare_numbers_are_mapped_by_content(dynid: CommandLine, seed: int) -> None:
    """The noise of torques is measured, too: 0.02 by simulation."""
    columns = recorded(seed)
    for name in ("q1", "q2", "q3", "v1", "v2", "v3"):
        columns[name] *= 180.0 / np.pi * 3.0  # far beyond a turn
    order = ["tau1", "tau2", "tau3", "t", "v1", "v2", "v3", "q1", "q2", "q3"]
    write({name: columns[name] for name in order}, header=False)
    facts = inspected(dynid, code=1)
    (log,) = facts["logs"]
    found = [f"{column['channel']}{column['joint']}" for column in log["columns"]]
    assert found == order
    noises = [column["noise"] for column in log["columns"][:3]]
    assert noises == pytest.approx([0.02] * 3, rel=0.3)
    line = shlex.split(facts["command"])
    assert {"t=4", "q=8:10", "v=5:7", "tau=1:3"} <= set(line)


def test_mistakes_of_the_wiring_are_marked(dynid: CommandLine) -> None:
    columns = recorded()
    columns["tau2"] *= -1.0
    write(columns)
    assert remarks(inspected(dynid, code=1)) == {"torque_reversed"}
    assert remarks(inspected(dynid, "--sign", "tau.2", code=0)) == set()
    columns = recorded()
    columns["tau1"], columns["tau2"] = columns["tau2"], columns["tau1"]
    write(columns)
    assert remarks(inspected(dynid, code=1)) >= {"torque_of_other_joint"}
    columns = recorded()
    columns |= {f"tau{j}": 1e3 * columns[f"tau{j}"] for j in (1, 2, 3)}
    write(columns)
    assert remarks(inspected(dynid, code=1)) == {"torque_scaled"}
    assert remarks(inspected(dynid, "--units", "tau=Nmm", code=0)) == set()


def test_gravity_that_was_taken_out_or_turned_is_told(dynid: CommandLine) -> None:
    robot = load_robot("gautier3")
    motion = smooth_path(robot, TIMES, scale=2.0)
    from dataclasses import replace

    turned = replace(robot, gravity=-robot.gravity)
    none = replace(robot, gravity=0.0 * robot.gravity)
    for other, code in ((turned, "gravity_reversed"), (none, "gravity_missing")):
        write_log(Path("log.csv"), simulate(other, motion, noise=0.02))
        assert code in remarks(inspected(dynid)), code


def test_dead_clipped_and_missing_columns_are_named(dynid: CommandLine) -> None:
    columns = recorded()
    columns["v3"][:] = 0.0
    columns["tau1"] = np.clip(columns["tau1"], -2.0, 2.0)
    columns["tau3"][100:160] = np.nan
    write(columns)
    facts = inspected(dynid)
    by_name = {column["name"]: " ".join(column["remarks"]) for column in facts["logs"][0]["columns"]}
    assert "dead" in by_name["v3"]
    assert "saturated" in by_name["tau1"]
    assert "10 % of the rows are empty" in by_name["tau3"]


def test_files_that_are_no_table_are_refused_and_others_shown(dynid: CommandLine, tmp_path: Path) -> None:
    assert "no such file" in dynid.fails("inspect", "gautier3", "nowhere.csv")
    (tmp_path / "empty.csv").write_text("")
    assert "empty" in dynid.fails("inspect", "gautier3", "empty.csv")
    np.savetxt("two.csv", np.random.default_rng(0).uniform(size=(60, 2)), delimiter=",")
    done = dynid("inspect", "gautier3", "two.csv", code=1)
    assert "next: dynid inspect gautier3 two.csv --out inspect.html" in done.out
    write(recorded())
    assert "the name must end in .html" in dynid.fails("inspect", "gautier3", "log.csv", "--out", "page.pdf")
    assert "this is one of the inputs" in dynid.fails("inspect", "gautier3", "log.csv", "--json", "log.csv")


def test_the_page_of_a_named_log_changes_nothing_at_first(dynid: CommandLine, tmp_path: Path) -> None:
    write(recorded())
    dynid("inspect", "gautier3", "log.csv", "--out", "inspect.html")
    page = (tmp_path / "inspect.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert len(page) < 100_000
