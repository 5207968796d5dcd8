"""Wrong words about a table, and files that cannot be a log: one clear line with the file or the option, exit 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dynid
from command_line import CommandLine
from logs.test_layouts import read_by_words

ROBOT = dynid.load_robot("gautier3")
T = np.arange(60) / 100.0
TABLE = np.column_stack([T, np.sin(np.outer(T, [2, 3, 5])), np.ones((60, 2)), np.cos(np.outer(T, [2, 3, 5]))])
GOOD = ("--header", "t,q*3,_*2,tau*3")
NAMED = "t,q1,q2,q3,x,y,tau1,tau2,tau3"


def plain(path: Path) -> None:
    np.savetxt(path, TABLE, delimiter=",", fmt="%.17g")


def named(path: Path, names: str = NAMED) -> None:
    np.savetxt(path, TABLE, delimiter=",", fmt="%.17g", header=names, comments="")


def arrays(path: Path) -> None:
    np.savez(path, t=T, q=TABLE[:, 1:4], tau=TABLE[:, 6:])


def ragged_lists(path: Path) -> None:
    lists = [row[: 2 + (k > 5)] for k, row in enumerate(TABLE[:, 1:4].tolist())]
    pl.DataFrame({"t": T, "q": lists, "tau": TABLE[:, 6:]}).write_parquet(path)


def texts(path: Path) -> None:
    path.write_text("time flies\nlike an arrow\n")


def short_row(path: Path) -> None:
    plain(path)
    lines = path.read_text().splitlines()
    lines[30] = lines[30].rpartition(",")[0]
    path.write_text("\n".join(lines) + "\n")


def word_in_cell(path: Path) -> None:
    plain(path)
    lines = path.read_text().splitlines()
    lines[30] = lines[30].replace(lines[30].split(",")[2], "stop", 1)
    path.write_text("\n".join(lines) + "\n")


def numbers_for_names(path: Path) -> None:
    named(path, "t,7,6,5,4,3,tau1,tau2,tau3")


def names_that_change(path: Path) -> None:
    """rostopic echo -p of two publishers whose messages name the joints in other orders."""
    names = ["%time", *(f"field.{word}{k}" for word in ("name", "position", "effort") for k in range(6))]
    joints = list(dynid.load_robot("ur10").joint_names)
    lines = []
    for k, t in enumerate(T):
        order = joints if k % 2 else joints[::-1]
        lines.append(",".join([str(int(1e9 * t) + 10**18), *order, *["0.5"] * 12]))
    path.write_text("\n".join([",".join(names), *lines]) + "\n")


def test_names_of_joints_that_change_are_refused(tmp_path: Path) -> None:
    names_that_change(tmp_path / "log.csv")
    with pytest.raises(dynid.DynidError) as caught:
        dynid.read_log(tmp_path / "log.csv", dynid.load_robot("ur10"))
    assert caught.value.message.code == "joint_names_vary"


def lists_as_text(path: Path) -> None:
    """A frame of pandas whose cells are lists, as CSV."""
    rows = [
        f'{t},"{list(map(float, row[1:4]))}","{list(map(float, row[1:4]))}"' for t, row in zip(T, TABLE, strict=True)
    ]
    path.write_text("\n".join(["t,q,tau", *rows]) + "\n")


def workbook(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04" + bytes(100))


def object_of_matlab(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"note": "nothing here", "x": {"label": "text"}})


def empty_frame(path: Path) -> None:
    pl.DataFrame({"t": [], "q": []}, schema={"t": pl.Float64, "q": pl.List(pl.Float64)}).write_parquet(path)


WRONG: dict[str, tuple[Callable[[Path], None], str, tuple[str, ...], str]] = {
    "no names at all": (plain, "log.csv", (), "missing_header"),
    "a header too short": (plain, "log.csv", ("--header", "t,q*3,tau*3"), "header_count_mismatch"),
    "a header too long": (plain, "log.csv", ("--header", "t,q*3,_*3,tau*3"), "header_count_mismatch"),
    "a header of another robot": (plain, "log.csv", ("--header", "t,q*4,_,tau*3"), "joint_count_mismatch"),
    "a header with a name twice": (plain, "log.csv", ("--header", "t,q*3,t,_,tau*3"), "column_name_twice"),
    "a header with a range twice": (plain, "log.csv", ("--header", "t,q*3,_*2,q*3"), "column_name_twice"),
    "a header without a count": (plain, "log.csv", ("--header", "t,q*,_*2,tau*3"), "header_malformed"),
    "a header with a count of zero": (plain, "log.csv", ("--header", "t,q*3,_*0,tau*3"), "header_malformed"),
    "a header with the count in front": (plain, "log.csv", ("--header", "t,3*q,_*2,tau*3"), "header_malformed"),
    "a header of fewer joints": (plain, "log.csv", ("--header", "t,q*2,_*3,tau*3"), "channel_missing_for_joints"),
    "a range that is none": (named, "log.csv@#a:b", (), "file_not_found"),
    "an empty header": (plain, "log.csv", ("--header", ""), "header_malformed"),
    "a header without time": (plain, "log.csv", ("--header", "_,q*3,_*2,tau*3"), "missing_time"),
    "a header without positions": (plain, "log.csv", ("--header", "t,_*5,tau*3"), "missing_positions"),
    "a header for arrays": (arrays, "log.npz", ("--header", "t,q*3,tau*3"), "header_not_applicable"),
    "a header for words": (texts, "log.csv", GOOD, "no_samples"),
    "a range too wide": (plain, "log.csv", ("--column", "t=1", "--column", "q=2:5"), "column_count_mismatch"),
    "a range too narrow": (plain, "log.csv", ("--column", "t=1", "--column", "q=2:3"), "column_count_mismatch"),
    "ranges that overlap": (
        plain, "log.csv", ("--column", "t=1", "--column", "q=2:4", "--column", "tau=4:6"), "columns_overlap",
    ),
    "time inside of the positions": (plain, "log.csv", ("--column", "t=2", "--column", "q=2:4"), "columns_overlap"),
    "a range backwards": (plain, "log.csv", ("--column", "t=1", "--column", "q=4:2"), "unknown_column"),
    "a range beyond the table": (plain, "log.csv", ("--column", "t=1", "--column", "q=8:10"), "unknown_column"),
    "columns counted from zero": (plain, "log.csv", ("--column", "t=0", "--column", "q=1:3"), "unknown_column"),
    "numbers that are names elsewhere": (
        numbers_for_names, "log.csv", ("--column", "q=2:4"), "ambiguous_column",
    ),
    "numbers of arrays": (arrays, "log.npz", ("--column", "q=2:4"), "numbers_not_applicable"),
    "rows beyond the end": (plain, "log.csv", (*GOOD, "--rows", "20:100"), "rows_beyond_end"),
    "rows that begin beyond the end": (plain, "log.csv", (*GOOD, "--rows", "100:"), "rows_beyond_end"),
    "rows backwards": (plain, "log.csv", (*GOOD, "--rows", "40:20"), "rows_malformed"),
    "rows from zero": (plain, "log.csv", (*GOOD, "--rows", "0:20"), "rows_malformed"),
    "rows that are no range": (plain, "log.csv", (*GOOD, "--rows", "20"), "option_malformed"),
    "rows with a unit": (plain, "log.csv", (*GOOD, "--rows", "2s:4s"), "option_malformed"),
    "rows beyond the end of a file of arrays": (arrays, "log.npz", ("--rows", "20:100"), "rows_beyond_end"),
    "rows after times": (named, "log.csv@0.1:0.4@#10:50", (), "range_malformed"),
    "two ranges of rows": (named, "log.csv@#1:50@#10:50", (), "range_malformed"),
    "a row with a cell less": (short_row, "log.csv", GOOD, "cell_count_mismatch"),
    "a word in a cell": (word_in_cell, "log.csv", GOOD, "values_not_numeric"),
    "lists of different length": (ragged_lists, "log.parquet", (), "column_count_mismatch"),
    "lists as text": (lists_as_text, "log.csv", (), "missing_positions"),
    "columns beyond a matrix": (arrays, "log.npz", ("--column", "q=q[:, 2:5]"), "unknown_column"),
    "an Excel workbook": (workbook, "log.xlsx", (), "excel_not_supported"),
    "an Excel workbook under a wrong name": (workbook, "log.csv", (), "not_text"),
    "a MATLAB file without numbers": (object_of_matlab, "log.mat", (), "missing_time"),
    "units that are none": (plain, "log.csv", ("--header", "t,q [turns]*3,_*2,tau*3"), "unknown_unit"),
    "units of another channel": (plain, "log.csv", ("--header", "t,q [Nm]*3,_*2,tau*3"), "unknown_unit"),
    "an empty frame": (empty_frame, "log.parquet", (), "no_samples"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write, word, options, code = WRONG[name]
    path = tmp_path / word.partition("@")[0]
    write(path)
    with pytest.raises(dynid.DynidError) as caught:
        _ = read_by_words(ROBOT, str(tmp_path / word), options).q
    assert caught.value.message.code == code, caught.value.message
    out = tmp_path / "result.json"
    done = CommandLine(monkeypatch, capsys)("identify", "gautier3", tmp_path / word, *options, "--out", out, code=2)
    lines = done.err.strip().splitlines()
    assert len(lines) <= 2
    assert "Traceback" not in done.err
    assert path.name in done.err or "--rows" in done.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("frame", "options", "code"),
    [
        (3.0, {}, "not_a_log"),
        ({}, {}, "missing_time"),
        ({"t": T, "q": TABLE[:30, 1:4]}, {}, "sample_count_mismatch"),
        ({"t": T, "q": [["a", "b", "c"]] * 60}, {}, "missing_positions"),
        ({"t": T, "q": TABLE[:, 1:4] + 1j}, {}, "missing_positions"),
        ({"t": [], "q": np.zeros((0, 3))}, {}, "no_samples"),
        (TABLE, {}, "missing_time"),
        (TABLE, {"header": "t,q*3"}, "header_count_mismatch"),
        (np.zeros((3, 4, 5)), {"header": "t,q*3"}, "header_not_applicable"),
        ({"t": T, "q": TABLE[:, 1:4]}, {"topic": "/states"}, "topic_not_applicable"),
        ({"t": T, "q": TABLE[:, 1:4]}, {"rows": (1.5, 3)}, "rows_malformed"),
        ({"t": T, "q": TABLE[:, 1:4]}, {"rows": 7}, "rows_malformed"),
        ({"t": T, "q": TABLE[:, 1:4]}, {"header": 5}, "header_malformed"),
    ],
)
def test_wrong_frames_and_arguments_are_named(frame: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(dynid.DynidError) as caught:
        _ = dynid.read_log(frame, ROBOT, **options).q
    assert caught.value.message.code == code, caught.value.message
    assert "\n" not in str(caught.value)
