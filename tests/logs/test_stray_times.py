"""Rows with rubbish times are left out and named; gaps and clocks that start again stay what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynid.logs.filtering import Splitting, windows_of_log
from dynid.logs.findings import Findings
from dynid.logs.log import Log, Samples
from dynid.logs.ordering import concatenate_samples, rows_in_time_order
from dynid.logs.read import read_log
from dynid.logs.survey import survey
from dynid.robot.load import load_robot
from log_makers import arm, log_of, recording
from log_writers import WRITERS, random_samples

ROBOT = arm(2)
RUBBISH = [2.7e154, -2.7e154, 1e308, 946_684_800.0, -1e9, 1e5, -50.0, np.nan, np.inf, -np.inf]
CUT_SAMPLE_BY_SAMPLE = (2.7e154, 946_684_800.0, -np.inf)
"""Values that are also read in chunks of one row, which takes a second each."""
PLACES = [[0], [0, 1], [1], [700], [700, 701, 702], [3, 400, 800, 1498], [1499], [1497, 1499]]


def spoilt(samples: Samples, rows: list[int], value: float) -> Samples:
    t = samples.t.copy()
    t[rows] = value
    return replace(samples, t=t)


def ordered(log: Log) -> tuple[list[tuple[bool, Samples]], Findings]:
    seen = survey(log, ROBOT)
    found = Findings("x", seen.rate)
    return list(rows_in_time_order(log.chunks_of_whole_recording(), 1.0 / seen.rate, seen.saturation, found)), found


@pytest.mark.parametrize("start", [0.0, 1.7e9])
@pytest.mark.parametrize("value", RUBBISH)
@pytest.mark.parametrize("rows", PLACES)
def test_rows_with_rubbish_times_are_left_out_alone(rows: list[int], value: float, start: float) -> None:
    samples = recording(start + np.arange(1500) / 100.0)
    if start and np.isfinite(value):
        value += start
    for size in (1, 7, 1000) if value in CUT_SAMPLE_BY_SAMPLE and not start else (7, 1000):
        log = log_of(spoilt(samples, rows, value), size, empty=size == 7)
        pieces, found = ordered(log)
        kept = concatenate_samples([piece for _, piece in pieces])
        expected = np.delete(np.arange(1500), rows)
        assert_array_equal(kept.t, samples.t[expected])
        assert_array_equal(kept.q, samples.q[expected])
        places = found.strays if np.isfinite(value) else found.missing
        assert (places.count, places.first) == (len(rows), rows)
        assert found.restarts == found.out_of_order == found.late == 0
        assert log.span == (samples.t[expected][0], samples.t[expected][-1])
        assert survey(log, ROBOT).rate == pytest.approx(100.0)


def test_different_rubbish_in_neighbouring_rows() -> None:
    samples = recording(np.arange(1500) / 1000.0)
    t = samples.t.copy()
    t[500:504] = 1e9, -1e9, 3e200, 0.9  # the last is only 400 rows ahead: it would be sorted in at a wrong place
    pieces, found = ordered(log_of(replace(samples, t=t), 100))
    assert_array_equal(concatenate_samples([piece for _, piece in pieces]).t, np.delete(samples.t, range(500, 504)))
    assert found.strays.first == [500, 501, 502, 503]


@pytest.mark.parametrize(("gap", "rows"), [(1.5, 50), (1.5, 4000), (3600.0, 1), (3600.0, 4000), (1e6, 50), (1e6, 4000)])
def test_gaps_and_clocks_that_start_again_are_no_rubbish(gap: float, rows: int) -> None:
    t = np.arange(600) / 100.0
    for times in (
        np.concatenate([t, gap + 6.0 + t]),
        np.concatenate([gap + t, t]),
        np.concatenate([t[:4], gap + 1.0 + t]),
        np.concatenate([t, gap + 6.0 + t, 3.0 + t]),
        np.concatenate([t, 100.0 + gap + t[:4], t]),  # four rows of another clock are a piece, though a short one
    ):
        samples = recording(times)
        pieces, found = ordered(log_of(samples, rows))
        assert_array_equal(concatenate_samples([piece for _, piece in pieces]).t, times)
        assert found.strays.count == 0
        assert found.restarts == (np.diff(times) < 0.0).sum()


def test_postures_at_rare_and_irregular_times_are_all_used() -> None:
    t = np.cumsum(np.random.default_rng(0).pareto(0.7, 300) + 0.1)  # steps from a tenth of a second to days
    postures = np.random.default_rng(1).permutation(300)
    _, found = ordered(log_of(replace(recording(np.arange(300) / 10.0).select_rows(postures), t=t)))
    assert found.strays.count == 0


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_names_the_rows(kind: str, tmp_path: Path) -> None:
    panda = load_robot("panda")
    samples = random_samples(7, rows=600)
    samples = replace(samples, q=np.cumsum(0.01 * samples.q, axis=0))
    path = WRITERS[kind](tmp_path / kind, spoilt(samples, [0, 299, 599], 2.7e154))
    log = read_log(path, panda)
    seen = survey(log, panda)
    found = Findings(log.name, seen.rate)
    list(windows_of_log(log, seen, Splitting(5, 0.025, 10, True), found))
    is_text = kind.lower().endswith(("csv", "txt", "gz"))
    where = "line 2, 301, 601" if is_text else "row 1, 300, 600"
    assert f"3 rows ({where}) with a time far from those of the rows around: left out" in found.sentences
    assert log.span == (samples.t[1], samples.t[598])


@pytest.mark.parametrize("first", ["nan", "0", "-1", "9223372036854775807", ""])
def test_the_unit_of_time_does_not_hang_on_the_first_stamp(first: str, tmp_path: Path) -> None:
    stamps = 1_700_000_000_000_000_000 + 10_000_000 * np.arange(200)
    rows = [f"{stamp},{0.01 * k}" for k, stamp in enumerate(stamps)]
    rows[0] = f"{first},0.0"
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["t,q1", *rows]) + "\n")
    log = read_log(path, load_robot("one_link"))
    assert_array_equal(np.diff(log.t[1:]).round(12), 0.01)
    assert log.span[1] - log.span[0] == pytest.approx(1.98)


@pytest.mark.parametrize("rest", ["3", "3,", "3,0.1", "3,0.1,-", "3,0.1,1.5e", "3,0.1,4"])
@pytest.mark.parametrize("comments", [False, True])
@pytest.mark.parametrize("rows", [20, 30_000])
def test_a_last_line_that_was_cut_off_is_left_out(rest: str, comments: bool, rows: int, tmp_path: Path) -> None:
    lines = [f"{k / 100:.4f},{0.1 * np.sin(k):.6f},{np.cos(k):.6f}" for k in range(rows)]
    if comments:
        lines.insert(7, "# a remark\n")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["t,q1,tau1", *lines, rest]))
    log = read_log(path, load_robot("one_link"))
    assert len(log) == rows
    number = rows + 2 + 2 * comments
    assert log.left_out == (f"line {number}, the last one, is incomplete (cut off while writing?): left out",)


@pytest.mark.parametrize("last", ["3.0000,0.500000,0.25", "# the end", ""])
def test_a_last_line_without_an_end_may_be_whole(last: str, tmp_path: Path) -> None:
    lines = [f"{k / 100},{0.1 * k},{0.25 * k}" for k in range(30)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["t,q1,tau1", *lines, last]))
    log = read_log(path, load_robot("one_link"))
    assert len(log) == 30 + last.startswith("3")
    assert log.left_out == ()


def test_times_that_no_clock_shows_make_no_recording() -> None:
    """Most of the rows at -2.7e154 s: the usual step was 0, and the rate a division by it."""
    samples = recording(np.arange(120) / 100.0)
    log = log_of(spoilt(samples, list(range(0, 120, 3)) + list(range(1, 120, 3)), -2.7e154), 50)
    assert 1.0 < survey(log, ROBOT).rate < 1e4
