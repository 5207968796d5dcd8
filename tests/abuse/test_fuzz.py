"""A fixed part of the campaign of hostile files and command lines, and properties by hypothesis with fixed seeds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from campaign import fuzz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynid import DynidError, load_robot
from dynid.cli.log_options import _split_outside_brackets, parse_columns
from dynid.logs.column_names import ColumnNameReader, split_unit
from dynid.logs.readers import csv_text
from dynid.messages import Message, printable
from dynid.robot.expression import evaluate_expression

FIXED = settings(
    derandomize=True, max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
ROBOT = load_robot("rx90")
CELLS = st.text(st.sampled_from(list("0123456789.eE+-:/ ,;\"'[]()#qtauv_xn\t\r\x00\x1b\u202e\u00e9")), max_size=60)


@FIXED
@given(CELLS)
def test_cells_are_times_or_none(text: str) -> None:
    found = csv_text.parse_clock_time(text)
    assert found is None or isinstance(found, int)


@FIXED
@given(CELLS, st.sampled_from([",", ";", "\t", " "]))
def test_lines_are_split_into_texts(text: str, mark: str) -> None:
    assert all(isinstance(cell, str) for cell in csv_text.split_line(text, mark))


@FIXED
@given(st.text(max_size=200))
def test_any_name_has_a_meaning_or_none(text: str) -> None:
    split_unit(text)
    meaning = ColumnNameReader(ROBOT).read_name(text)
    assert meaning is None or meaning.joint is None or 0 <= meaning.joint < ROBOT.n


@FIXED
@given(st.text(max_size=200))
def test_no_text_reaches_the_terminal_raw(text: str) -> None:
    assert printable(text).isprintable()
    assert Message("x", "{a} {b!r} {c:9}", a=text, b=text, c=[text]).isprintable()


@FIXED
@given(st.text(st.sampled_from(list("L0123456789.+-*/()eE _a")), max_size=40))
def test_expressions_are_numbers_or_errors(text: str) -> None:
    with contextlib.suppress(DynidError):
        assert isinstance(evaluate_expression(text, {"L": 0.5}), float)


@FIXED
@given(st.text(st.sampled_from(list("ab[],:12 ")), max_size=30))
def test_lists_of_columns_keep_every_letter(text: str) -> None:
    assert ",".join(_split_outside_brackets(text)) == text
    with contextlib.suppress(DynidError):
        parse_columns([f"q={text}"])


@pytest.mark.slow
def test_a_part_of_the_campaign(tmp_path: Path) -> None:
    """28 cases, two or more of each kind; `make campaign-fuzz` runs 100,000."""
    pytest.importorskip("mujoco")
    pytest.importorskip("h5py")
    pytest.importorskip("rosbags")
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), *(path for path in sys.path if path)])
    words = [sys.executable, "-m", "campaign.fuzz", "28", "--out", str(tmp_path)]
    done = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": paths}, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "28 cases" in done.stdout
    assert "\n0 failures" in done.stdout, done.stdout


def test_the_campaign_finds_what_it_looks_for() -> None:
    fine = fuzz.Outcome(("base",), 0, 1.0, 100, "", "", ())
    assert fine.cause() == ""
    for bad, cause in (
        (fuzz.Outcome(("base",), -signal.SIGSEGV, 1.0, 100, "", "", ()), "SIGSEGV"),
        (fuzz.Outcome(("base",), 70, 1.0, 100, "Traceback\nValueError: x\n", "", ()), "ValueError"),
        (fuzz.Outcome(("base",), 0, 11.0, 100, "", "", ()), "over 10 s"),
        (fuzz.Outcome(("base",), 0, 1.0, 2000, "", "", ()), "MB"),
        (fuzz.Outcome(("base",), 2, 1.0, 100, "", "", ()), "0 lines"),
        (fuzz.Outcome(("base",), 2, 1.0, 100, "a\x1bb\n", "", ()), "control"),
        (fuzz.Outcome(("base",), 0, 1.0, 100, "", "", ("stranger",)), "stranger"),
    ):
        assert cause in bad.cause()


def test_cases_that_share_a_process_are_all_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash or a traceback ends the process that the cases share; the next ones go on in another."""

    def command() -> None:
        match sys.argv[1]:
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise ValueError("x")
            case "write":
                Path("stranger").write_text("x")
                Path("../above").write_text("x")
        sys.exit(1)

    def make(seed: int, folder: Path) -> fuzz.Case:
        return [kinds[seed]], ()

    kinds = ["fine", "crash", "fine", "raise", "write", "crash", "fine"]
    monkeypatch.setattr("dynid.cli.main", command)
    monkeypatch.setattr(fuzz, "make_case", make)
    found = {judged.seed: judged for judged in fuzz.check_all(range(len(kinds)), tmp_path)}
    assert sorted(found) == list(range(len(kinds)))
    for seed, kind in enumerate(kinds):
        meant = {"fine": "", "crash": "signal SIGKILL", "raise": "traceback ValueError", "write": "wrote"}[kind]
        assert found[seed].cause.startswith(meant), found[seed]
        assert bool(found[seed].cause) == bool(meant)
        assert "after other cases" not in found[seed].cause
    assert found[4].outcome.written == ("above", "stranger")
