from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid.logs import filtering as module
from dynid.logs.filtering import Splitting, Window, windows_of_log
from dynid.logs.findings import Findings
from dynid.logs.log import Samples
from dynid.logs.ordering import concatenate_samples, map_samples
from dynid.logs.stray_times import LATE
from dynid.logs.survey import survey
from log_makers import arm, log_of, recording

CHUNKS = [1, 2, 7, 1000, 1_000_000]
SOME = [5, 7, 1000]
ROBOT = arm(2)


def cut(
    samples: Samples, rows: int = 65_536, *, context: int = 9, shortest: int = 20, regular: bool = True
) -> tuple[list[Window], Findings]:
    log = log_of(samples, rows, empty=rows == 7)
    seen = survey(log, ROBOT)
    found = Findings("x", seen.rate)
    splitting = Splitting(context, max(5.0 / seen.rate, 0.025), shortest, regular)
    return list(windows_of_log(log, seen, splitting, found)), found


def segments(pieces: list[Window]) -> list[Samples]:
    """Concatenated cores, which must follow one another without overlap."""
    cores: dict[int, list[Samples]] = {}
    done: dict[int, int] = {}
    for w in pieces:
        assert w.first + w.core.start == done.get(w.segment, 0)
        done[w.segment] = w.first + w.core.stop
        cores.setdefault(w.segment, []).append(w.samples.select_rows(w.core))
    return [concatenate_samples(parts) for parts in cores.values()]


def same(left: Samples, right: Samples, atol: float = 0.0) -> None:
    for name in ("t", "q", "v", "a", "tau"):
        x, y = getattr(left, name), getattr(right, name)
        assert (x is None) == (y is None)
        if x is not None:
            assert_allclose(x, y, rtol=0.0, atol=atol)


def shuffled(samples: Samples, reach: int, seed: int = 1) -> Samples:
    """Rows out of order, each by less than `reach` rows."""
    order = np.argsort(np.arange(len(samples)) + np.random.default_rng(seed).uniform(0, reach, len(samples)))
    return samples.select_rows(order)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIZE", 300)


@pytest.mark.parametrize("rows", CHUNKS)
@pytest.mark.parametrize("start", [0.0, 1.7e9])
@pytest.mark.parametrize("rate", [100.0, 999.7])
def test_regular_logs_pass_through_bit_by_bit(rows: int, start: float, rate: float) -> None:
    samples = recording(start + np.arange(1234) / rate)
    pieces, found = cut(samples, rows)
    (segment,) = segments(pieces)
    same(segment, samples)
    assert found.samples == 1234
    assert found.segments == 1
    assert found.sentences == ()
    assert found.resampled == 0


@pytest.mark.parametrize("rows", CHUNKS)
def test_windows_come_with_their_context(rows: int) -> None:
    samples = recording(np.arange(1000) / 100.0)
    pieces, _ = cut(samples, rows, context=9)
    assert [w.starts for w in pieces] == [True, False, False, False]
    assert [w.ends for w in pieces] == [False, False, False, True]
    assert [w.core.stop - w.core.start for w in pieces] == [300, 300, 300, 100]
    for w in pieces:
        assert w.core.start == (0 if w.starts else 9)
        assert len(w.samples) - w.core.stop == (0 if w.ends else 9)
        assert_array_equal(w.samples.t, samples.t[w.first : w.first + len(w.samples)])


@pytest.mark.parametrize("length", [300, 308, 309, 310, 318, 319, 600, 610])
@pytest.mark.parametrize("context", [0, 9, 200])
def test_every_length_is_cut_without_rest(length: int, context: int) -> None:
    samples = recording(np.arange(length) / 100.0)
    for rows in (1, 50, 10_000):
        pieces, found = cut(samples, rows, context=context)
        same(segments(pieces)[0], samples)
        assert found.segments == 1
        assert sum(w.ends for w in pieces) == 1
        assert all(w.core.stop > w.core.start for w in pieces)


@pytest.mark.parametrize("rows", CHUNKS)
def test_jitter_is_interpolated_on_a_grid(rows: int) -> None:
    rng = np.random.default_rng(2)
    t = np.arange(1500) / 100.0
    t[400:] += rng.uniform(-2e-3, 2e-3, 1100)
    samples = recording(t)
    pieces, found = cut(samples, rows)
    (segment,) = segments(pieces)
    same(segment.select_rows(slice(0, 400)), samples.select_rows(slice(0, 400)))
    assert_allclose(np.diff(segment.t), 0.01, rtol=1e-6)
    assert_allclose(len(segment), 1500, atol=2)
    expected = map_samples(samples, segment.t, lambda x: _interpolate(segment.t, t, x))
    same(segment, expected, 1e-12)
    assert found.resampled == len(segment) - 400
    assert found.jitter == pytest.approx(np.abs(np.diff(t) - 0.01).max())
    assert "resampled" in found.sentences[0]


def _interpolate(t: np.ndarray, known: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.interp(t, known, column) for column in x.T])


@pytest.mark.parametrize("start", [0.0, 1.7e9])
def test_lost_samples_are_filled_and_others_stay(start: float) -> None:
    """On the grid of a log from which samples are missing, recorded samples come out again."""
    whole = recording(start + np.arange(3000) / 1000.0)
    kept = np.flatnonzero(np.arange(3000) % 97 != 50)
    pieces, found = cut(whole.select_rows(kept))
    (segment,) = segments(pieces)
    same(segment, map_samples(whole.select_rows(slice(0, len(segment))), whole.t[: len(segment)], lambda x: x), 5e-5)
    assert len(segment) >= 2999
    assert found.gaps == 0


@pytest.mark.parametrize("rows", SOME)
@pytest.mark.parametrize(("gap", "splits"), [(0.0249, False), (0.0251, True)])
def test_gaps_of_more_than_25_ms_and_5_samples_split(rows: int, gap: float, splits: bool) -> None:
    t = np.concatenate([np.arange(500) / 1000.0, 0.499 + gap + np.arange(500) / 1000.0])
    pieces, found = cut(recording(t), rows)
    assert found.gaps == int(splits)
    assert found.segments == 1 + splits
    if splits:
        same(concatenate_samples(segments(pieces)), recording(t))
        assert found.longest_gap == pytest.approx(gap)
        assert "1 gap, the longest of 0.0251 s: the log is split there" in found.sentences


@pytest.mark.parametrize("rows", SOME)
def test_short_pieces_are_left_out_and_counted(rows: int) -> None:
    t = np.concatenate([np.arange(100) / 100.0, 5.0 + np.arange(19) / 100.0, 10.0 + np.arange(20) / 100.0, [20.0]])
    pieces, found = cut(recording(t), rows, shortest=20)
    assert [len(s) for s in segments(pieces)] == [100, 20]
    assert (found.segments, found.short_segments, found.gaps) == (2, 2, 3)


@pytest.mark.parametrize("rows", SOME)
def test_bad_rows_are_left_out_and_counted(rows: int) -> None:
    samples = recording(np.arange(2000) / 100.0)
    samples.q[10, 0] = np.nan
    samples.tau[500, 1] = np.inf  # type: ignore[index]
    samples.tau[501] = [np.inf, -np.inf]  # type: ignore[index]
    samples.t[700] = np.nan
    samples.a[1990] = np.nan  # type: ignore[index]
    pieces, found = cut(samples, rows)
    assert (found.missing.count, found.missing.first) == (5, [10, 500, 501, 700, 1990])
    assert found.samples == 2000
    (segment,) = segments(pieces)
    assert len(segment) >= 1999
    assert all(np.isfinite(getattr(segment, name)).all() for name in ("t", "q", "v", "a", "tau"))


@pytest.mark.parametrize("rows", [7, 1000, 65_536])
def test_first_rows_may_be_empty(rows: int) -> None:
    samples = recording(np.arange(2000) / 100.0)
    samples.q[:1100] = np.nan
    pieces, found = cut(samples, rows)
    same(segments(pieces)[0], samples.select_rows(slice(1100, None)))
    assert found.missing.count == 1100


@pytest.mark.parametrize("rows", SOME)
def test_rows_out_of_order_are_sorted(rows: int) -> None:
    samples = recording(np.arange(1200) / 100.0)
    mixed = shuffled(samples, LATE)
    pieces, found = cut(mixed, rows)
    same(segments(pieces)[0], samples)
    assert found.out_of_order == (np.diff(mixed.t) < 0.0).sum()
    assert found.late == 0
    assert found.repeated_times == 0


def test_rows_that_come_much_too_late_are_left_out() -> None:
    samples = recording(np.arange(1200) / 1000.0)
    order = np.insert(np.delete(np.arange(1200), 300), 900, 300)
    pieces, found = cut(samples.select_rows(order), 100)
    assert found.late == 1
    assert found.restarts == 0
    assert len(segments(pieces)[0]) >= 1199


@pytest.mark.parametrize("rows", SOME)
def test_repeated_rows_are_left_out(rows: int) -> None:
    samples = recording(np.arange(900) / 100.0)
    pieces, found = cut(samples.select_rows(np.repeat(np.arange(900), 2)), rows)
    same(segments(pieces)[0], samples)
    assert found.repeated_times == 900
    assert found.spread_times == found.out_of_order == 0


@pytest.mark.parametrize("rows", SOME)
def test_a_rounded_clock_loses_no_samples(rows: int) -> None:
    """1 kHz with jitter and stamps in ms: steps of 0, 1 and 2 ms. Positions are right to the clock's resolution."""
    rng = np.random.default_rng(3)
    true = 0.0004 + np.arange(2500) / 1000.0 + rng.uniform(-4e-4, 4e-4, 2500)
    samples = recording(np.sort(true))
    rounded = Samples(np.round(samples.t, 3), samples.q, samples.v, samples.a, samples.tau)
    assert (np.diff(rounded.t) == 0.0).sum() > 200
    pieces, found = cut(rounded, rows)
    (segment,) = segments(pieces)
    assert found.spread_times == (np.diff(rounded.t) == 0.0).sum()
    assert found.repeated_times == found.gaps == 0
    assert found.rate == pytest.approx(1000.0, rel=2e-3)
    assert_allclose(segment.q, _interpolate(segment.t, samples.t, samples.q), atol=1.5e-3 * np.abs(samples.v).max())  # type: ignore[arg-type]
    assert any("rounded clock" in sentence for sentence in found.sentences)
    assert len(segment) > 2490


def test_stamps_in_whole_seconds_are_spread_over_them() -> None:
    samples = recording(np.arange(2000) / 100.0)
    whole = Samples(np.floor(samples.t + 1e-9), samples.q, samples.v, samples.a, samples.tau)
    pieces, found = cut(whole, 150)
    same(segments(pieces)[0], samples, 1e-9)
    assert found.rate == pytest.approx(100.0)


@pytest.mark.parametrize("rows", SOME)
def test_the_clock_may_start_again(rows: int) -> None:
    one, two = recording(50.0 + np.arange(700) / 100.0), recording(np.arange(500) / 100.0, seed=1)
    pieces, found = cut(concatenate_samples([one, two]), rows)
    first, second = segments(pieces)
    same(first, one)
    same(second, two)
    assert (found.restarts, found.gaps, found.segments) == (1, 0, 2)
    assert found.out_of_order == found.late == 0


@pytest.mark.parametrize("rows", SOME)
def test_saturated_rows_are_left_out(rows: int) -> None:
    samples = recording(np.arange(2000) / 100.0)
    assert samples.tau is not None
    samples.tau[:, 1] = np.clip(samples.tau[:, 1] + 1e-3 * np.random.default_rng(0).standard_normal(2000), -2.0, 2.0)
    at_limit = int((np.abs(samples.tau[:, 1]) == 2.0).sum())
    pieces, found = cut(samples, rows)
    assert found.saturated == at_limit > 50
    kept = segments(pieces)
    assert kept
    assert all(np.abs(s.tau[:, 1]).max() < 2.0 for s in kept)  # type: ignore[index]


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_held_samples_are_counted(rows: int) -> None:
    samples = recording(np.arange(400) / 100.0)
    held = Samples(samples.t, samples.q[np.arange(400) // 4 * 4], None, None, samples.tau)
    _, found = cut(held, rows)
    assert found.repeated_positions == 300
    assert any(sentence.startswith("75 % of the rows repeat") for sentence in found.sentences)


@pytest.mark.parametrize("length", [2, 3])
def test_tiny_logs(length: int) -> None:
    samples = recording(np.arange(length) / 100.0)
    assert cut(samples)[1].short_segments == 1
    pieces, found = cut(samples, 1, shortest=1, context=0, regular=False)
    same(segments(pieces)[0], samples)
    assert found.segments == 1


def test_unfiltered_logs_keep_their_times() -> None:
    t = np.arange(1000) / 100.0 + np.random.default_rng(0).uniform(0.0, 5e-3, 1000)
    pieces, found = cut(recording(t), 10, regular=False, shortest=1)
    same(segments(pieces)[0], recording(t))
    assert found.resampled == 0
