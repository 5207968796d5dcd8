"""`dynid identify --compare` as a person uses it: tables, sentence, files, exit codes."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from command_line import CommandLine, write_simulated
from dynid import Log, Robot, State, compare_estimators, load_robot, read_log
from dynid.cli.output import comparison as comparison_face
from dynid.cli.output.recordings import write_log
from dynid.estimation import compare as module
from dynid.estimation.compare import COMPARED
from dynid.estimation.options import Options

PLAIN = ("--friction", "viscous,coulomb,offset")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of gautier3 with little noise: 12 s at 100 Hz."""
    return write_simulated(tmp_path_factory.mktemp("logs") / "log.csv", seconds=12.0)


def test_all_ways_in_one_table(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    done = dynid("identify", "gautier3", log, *PLAIN, "--compare", "--json", facts)
    for model, estimator in COMPARED:
        assert f" {model}, {estimator} " in done.out
    for part in ("the last 25 % of every log", "12 of 16 base parameters", "--all shows all", "trust ", "wrote "):
        assert part in done.out
    assert "Fv1" not in done.out
    assert done.err == ""
    data = json.loads(facts.read_text())
    assert [(way["model"], way["estimator"]) for way in data["ways"]] == list(COMPARED)
    for way in data["ways"]:
        assert way["refusal"] is None
        assert way["result"]["estimator"] == way["estimator"]
        assert len(way["result"]["values"]) == len(way["result"]["sigma"]) == 25
        assert len(way["held_out"]["nrmse"]) == 3
        assert 0.0 <= way["agreement"] <= 1.0
    assert data["advice"] in done.out.replace("\n", " ")
    assert data["best"] in {", ".join(way) for way in COMPARED}


def test_all_parameters_where_asked(dynid: CommandLine, log: Path) -> None:
    done = dynid("identify", "gautier3", log, *PLAIN, "--compare", "--all")
    assert "Fv1" in done.out
    assert "MY3" in done.out
    assert "--all shows all" not in done.out


def test_refusals_are_rows_with_a_reason(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    done = dynid("identify", "gautier3", log, *PLAIN, "--compare", "--joints", "2,3", "--json", facts)
    assert done.out.count(" refused") >= 4
    assert "power, wls refused: model 'power' adds up all joints" in done.out
    data = {(way["model"], way["estimator"]): way for way in json.loads(facts.read_text())["ways"]}
    assert "adds up all joints" in data["energy", "wls"]["refusal"]
    assert "result" not in data["energy", "wls"]


def test_other_logs_and_shares_to_validate_on(dynid: CommandLine, log: Path) -> None:
    assert (
        "on the last 40 % of every log"
        in dynid("identify", "gautier3", log, *PLAIN, "--compare", "--validate", "40%").out
    )
    done = dynid("identify", "gautier3", f"{log}@:70%", *PLAIN, "--compare", "--validate", f"{log}@70%:")
    assert "log.csv (8." in done.out


def test_what_makes_no_sense_is_refused(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    words = ("identify", "gautier3", log, "--compare")
    assert "leave out --model power" in dynid.fails(*words, "--model", "power")
    assert "leave out --estimator ols" in dynid.fails(*words, "--estimator", "ols")
    assert "--json FILE keeps all of them" in dynid.fails(*words, "--out", tmp_path / "r.json")
    assert "--all needs --compare" in dynid.fails("identify", "gautier3", log, "--all")
    assert "between 0 and 1" in dynid.fails(*words, "--validate", "0")
    assert "positive number of seconds" in dynid.fails(*words, "--window", "-1")
    assert not list(tmp_path.iterdir())


def test_a_log_that_no_way_can_use(dynid: CommandLine, tmp_path: Path) -> None:
    short = write_simulated(tmp_path / "short.csv", seconds=0.05)
    assert dynid.fails("identify", "gautier3", short, "--compare").startswith(f"dynid: {short} (0 s to ")
    bare = tmp_path / "bare.csv"
    bare.write_text("t,q1,q2,q3\n" + "".join(f"{k / 100},{k},{k},{k}\n" for k in range(500)))
    assert "--column tau=NAME" in dynid.fails("identify", "gautier3", bare, "--compare")


def test_nonsense_leaves_with_a_warning(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    robot, bad = load_robot("gautier3"), tmp_path / "bad.csv"
    read = read_log(log, robot)
    tau = np.random.default_rng(0).standard_normal(read.q.shape)
    write_log(bad, type(read)(read.t, read.q, v=read.v, a=read.a, tau=tau))
    done = dynid("identify", "gautier3", bad, *PLAIN, "--compare", code=1)
    assert "warning: do not trust any of them: " in done.err


def test_ctrl_c_shows_what_is_finished(dynid: CommandLine, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = module.collect_logs  # type: ignore[attr-defined]

    def interrupted(robot: Robot, logs: Sequence[Log], options: Options, *, on_progress: Any = None) -> State:
        if options.is_robust:
            raise KeyboardInterrupt
        return collect(robot, logs, options, on_progress=on_progress)

    monkeypatch.setattr(module, "collect_logs", interrupted)
    done = dynid("identify", "gautier3", log, *PLAIN, "--compare")
    assert "torque, ridge" in done.out
    assert "torque, huber" not in done.out
    assert "interrupted: " in done.out


@pytest.mark.parametrize("width", [80, 100, 200])
def test_tables_fit_a_terminal(log: Path, width: int) -> None:
    robot = load_robot("gautier3")
    compared = compare_estimators(robot, read_log(log, robot), friction=("viscous",))
    screen = Console(width=width, record=True, force_terminal=True, file=io.StringIO())
    comparison_face.show_comparison(compared, screen)
    lines = screen.export_text().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(", wls" in line for line in lines) >= 4
