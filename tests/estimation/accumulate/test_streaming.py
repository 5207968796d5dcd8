"""Rows of a log do not depend on how it is read: chunks, windows, parts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import rows_of_log
from dynid.logs import filtering as module
from dynid.logs.filtering import Treatment
from dynid.logs.findings import Findings
from dynid.logs.log import Log, Samples
from dynid.logs.ordering import concatenate_samples
from dynid.logs.survey import survey
from log_makers import arm, log_of, recording

ROBOT = arm(2)
EQUATION = Equation.for_robot(
    ROBOT, Options(), friction=("viscous", "coulomb", "offset", "stop1e-3", "stop1e-2"), scale=np.ones(2)
)
NAMES = ("t", "q", "v", "wide", "settled")
TREATMENTS = [
    Treatment(200.0, 8.0),
    Treatment(200.0, 8.0, delay=0.0123),
    Treatment(200.0, 8.0, delay=-0.02),
    Treatment(200.0, 45.0),
    Treatment(200.0, 2.0),
    Treatment(200.0, 2.5, delay=0.0123),
    Treatment(200.0, 8.0, smooth=False),
    Treatment(200.0, None, smooth=False),
    Treatment(200.0, None, smooth=False, delay=0.004),
]


def made(length: int = 3000, *, only: str = "v a", start: float = 0.0) -> Samples:
    """Jitter in the middle, a gap, and hardly any motion at the beginning (none: rounding decides about signs)."""
    t = start + np.arange(length) / 200.0
    t[1000:1400] += np.random.default_rng(0).uniform(-1e-3, 1e-3, 400)
    t[2000:] += 0.5
    samples = recording(t, only=only, base=0.3)
    samples.q[:100] = samples.q[100] + 1e-5 * np.arange(-100, 0)[:, None]
    return samples


def rows(log: Log, treatment: Treatment) -> dict[str, np.ndarray]:
    found = Findings("x", 200.0)
    parts = [  # unfiltered rows are valid until the next ones
        replace(part, wide=part.wide.copy())
        for part in rows_of_log(EQUATION, log, number=0, seen=survey(log, ROBOT), treatment=treatment, found=found)
    ]
    assert parts
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in NAMES}


def predicted(wide: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.column_stack([c.rows_in_wide(wide)[:, :-1] @ values[c.columns] for c in EQUATION.channels])


def measured(wide: np.ndarray) -> np.ndarray:
    return np.column_stack([channel.rows_in_wide(wide)[:, -1] for channel in EQUATION.channels])


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    for name in NAMES:
        assert_allclose(left[name], right[name], rtol=0.0, atol=1e-10 * max(1.0, np.abs(right[name]).max()))


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize("only", ["v a", "v", ""])
def test_rows_do_not_depend_on_windows_and_chunks(
    treatment: Treatment, only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if only != "v a" and not treatment.smooth:
        pytest.skip("nothing to complete")
    samples = made(only=only)
    monkeypatch.setattr(module, "SIZE", 1_000_000)
    whole = rows(log_of(samples), treatment)
    for size, chunk in ((128, 1_000_000), (257, 11), (5000, 999)):
        monkeypatch.setattr(module, "SIZE", size)
        same(rows(log_of(samples, chunk), treatment), whole)


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_both_sides_of_the_equation_are_filtered_alike(treatment: Treatment) -> None:
    """Where torques are a column of the equation, the filtered ones are that filtered column, up to the edges."""
    samples = made()
    column = np.cos(samples.q[:, 0])
    exact = Samples(samples.t, samples.q, samples.v, samples.a, np.column_stack([column, 2.0 * column]))
    one, two = measured(rows(log_of(exact), treatment)["wide"]).T
    assert_allclose(two, 2.0 * one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("treatment", [t for t in TREATMENTS if not t.smooth and not t.delay])
def test_exact_motions_give_exact_rows_at_the_edges_too(treatment: Treatment) -> None:
    """W filtered times parameters equals torques filtered, also where the filter continues the segment."""
    samples = recording(np.arange(1500) / 200.0, base=0.3)
    plain = Treatment(200.0, None, smooth=False)
    X = np.random.default_rng(1).standard_normal(len(EQUATION.names))
    tau = predicted(rows(log_of(samples), plain)["wide"], X)
    log = log_of(Samples(samples.t, samples.q, samples.v, samples.a, tau))
    wide = rows(log, treatment)["wide"]
    assert_allclose(predicted(wide, X), measured(wide), rtol=0.0, atol=1e-12 * np.abs(wide).max() * len(X))


@pytest.mark.parametrize("treatment", TREATMENTS[:5])
@pytest.mark.parametrize("start", [0.0, 1000.0])
def test_a_part_has_the_rows_of_the_whole(treatment: Treatment, start: float) -> None:
    log = log_of(made(start=start), 700)
    whole = rows(log, treatment)
    guard = 1.0 / 8.0 if treatment.cutoff == 8.0 else 1.0 / 45.0
    first, last = log.span
    edge = first + 0.65 * (last - first)
    left, right = log.part(0.0, 0.65), log.part(0.65)
    assert len(left) + len(right) == len(log)
    assert left.t.max() < edge <= right.t.min()
    for part, inside in (
        (left, (whole["t"] >= first + guard) & (whole["t"] < edge - guard)),
        (right, (whole["t"] >= edge + guard) & (whole["t"] < np.nextafter(last, np.inf) - guard)),
    ):
        same(rows(part, treatment), {name: whole[name][inside] for name in NAMES})


def test_the_end_of_a_segment_is_trimmed_where_the_last_window_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    treatment = Treatment(200.0, 8.0)
    size = 4 * treatment.context_samples
    monkeypatch.setattr(module, "SIZE", size)
    for extra in (1, 2, treatment.trimmed_samples, treatment.context_samples):
        length = size + treatment.context_samples + extra
        found = rows(log_of(recording(np.arange(length) / 200.0)), treatment)
        assert found["t"].min() >= treatment.trimmed_samples / 200.0 - 1e-9
        assert found["t"].max() < (length - treatment.trimmed_samples) / 200.0
        assert found["t"].max() >= (length - treatment.trimmed_samples - treatment.decimation) / 200.0 - 1e-9


def test_restarts_and_bad_rows_leave_the_rest_as_it_is() -> None:
    treatment = Treatment(200.0, 8.0)
    one, two = recording(100.0 + np.arange(900) / 200.0), recording(np.arange(800) / 200.0, seed=3)
    both = rows(log_of(concatenate_samples([one, two]), 333), treatment)
    alone = [rows(log_of(x), treatment) for x in (one, two)]
    same(both, {name: np.concatenate([x[name] for x in alone]) for name in NAMES})


@dataclass(frozen=True)
class Endless:
    """Rows that are made when they are asked for."""

    count: int
    name: str = "endless"
    channels: frozenset[str] = frozenset({"v", "tau"})

    def chunks(self, rows: int) -> Iterator[Samples]:
        for start in range(0, self.count, rows):
            t = np.arange(start, min(start + rows, self.count)) / 1000.0
            q = np.sin(t)[:, None] + np.arange(7.0)
            yield Samples(t, q, np.cos(t)[:, None] + np.zeros(7), None, 1.0 + q)


def test_memory_is_bounded() -> None:
    log, robot = Log.from_source(Endless(2_000_000)), arm(7)
    tracemalloc.start()
    try:
        seen = survey(log, robot)
        rows = 0
        for window in module.windows_of_log(
            log, seen, module.Splitting(600, 0.025, 100, True), Findings("x", seen.rate)
        ):
            rows += window.core.stop - window.core.start
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 2_000_000
    assert peak < 150e6
