"""The course of a search: it ends in the figure that is given, falls, is reproducible, bounded and kept in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dynid.excitation.points_search as points_search
from command_line import CommandLine
from dynid import Excitation, design_excitation, load_robot
from dynid.cli.terminal import write_json
from dynid.errors import ExcitationError
from dynid.excitation.criteria import BaseRows
from dynid.excitation.fourier_search import FINISHED
from dynid.excitation.points_search import HomotopyStage, SmoothedCriterion
from dynid.excitation.starts import MOST, Recorder, SearchHistory, read_history, run_starts
from dynid.report.excitation import describe_search

LIMITS = {"position": [[-1.5, 1.5]] * 3, "velocity": [1.0] * 3, "acceleration": [4.0] * 3}


def design(**options: object) -> Excitation:
    rigid = {"criterion": "condition", "rotor_inertia": False, "friction": (), "margin": 0.0}
    given: dict[str, object] = {"limits": LIMITS, "starts": 3, "harmonics": 3, **rigid, **options}
    return design_excitation(load_robot("gautier3"), **given)  # type: ignore[arg-type]


@cache
def fourier() -> Excitation:
    return design()


def history_of(found: Excitation) -> SearchHistory:
    assert found.history is not None
    return found.history


def check(found: Excitation, *, near: float) -> None:
    """The chosen start ends in the figure that is given, and its last iterate is near to that."""
    history = history_of(found)
    assert history.best.final_value == pytest.approx(found.value, rel=1e-12)
    assert (np.diff(history.best_so_far) <= 0.0).all()
    assert history.best_so_far[-1] == pytest.approx(found.value, rel=1e-12)
    for descent in history.descents:
        assert len(descent.values) <= MOST
        assert (np.diff(descent.iterations) >= 0).all()
        assert_allclose(descent.values[-2], descent.final_value, rtol=near)
        assert descent.final_value < descent.values[0]


def test_a_fourier_search_ends_in_the_condition() -> None:
    found = fourier()
    check(found, near=0.02)
    assert history_of(found).best.final_value == pytest.approx(found.condition, rel=1e-12)
    assert [descent.start for descent in history_of(found).descents] == [0, 1, 2]
    assert not history_of(found).stopped


def test_starts_that_fall_behind_are_dropped_and_the_best_is_followed_to_its_end(tmp_path: Path) -> None:
    found = design(starts=8)
    history = history_of(found)
    assert [descent.start for descent in history.descents] == list(range(8))
    assert [descent.dropped for descent in history.descents].count(False) == FINISHED
    assert not history.best.dropped
    assert not history.stopped
    assert history.best.final_value == pytest.approx(found.condition, rel=1e-12)
    last = min(descent.iterations[-1] for descent in history.descents if not descent.dropped)
    assert all(descent.iterations[-1] < last for descent in history.descents if descent.dropped)
    write_json(tmp_path / "motion.json", {"history": history.facts()})
    kept = read_history(tmp_path / "motion.json")
    assert kept is not None
    assert [descent.dropped for descent in kept.descents] == [descent.dropped for descent in history.descents]
    said = describe_search(history, 15)
    assert f"8 starts were tried, of which the best {FINISHED} were followed" in said


def test_a_search_that_is_cut_short_goes_on_from_its_first_stages() -> None:
    """Rounds share the time: the motion that is given was not dropped, and few of many starts were begun."""
    found = design(starts=200, time_budget=1.0)
    history = history_of(found)
    assert history.stopped
    assert len(history.descents) < 200
    assert not history.best.dropped


@pytest.mark.parametrize("criterion", ["a", "d", "e", "frobenius"])
def test_iterates_and_motions_are_judged_alike(criterion: str) -> None:
    check(design(criterion=criterion, starts=1, noise=[0.1, 0.2, 0.3]), near=0.05)


def test_torque_limits_are_counted_in() -> None:
    free = {"position": [(-2.0, 2.0)] * 3, "velocity": [3.0] * 3, "acceleration": [15.0] * 3}
    found = design(limits={**free, "effort": [60.0] * 3}, starts=2)
    assert found.effort is not None
    assert found.effort.use_of_limits(found.motion(200.0)).max() <= 1.0
    history = history_of(found)
    assert history.best.final_value == pytest.approx(found.condition, rel=1e-12)
    assert history.best_so_far[-1] == history.best.final_value
    assert found.condition > 1.02 * design(limits=free, starts=2).condition  # they did bind


def test_points_keep_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [HomotopyStage(8.0, 0.0, 1e2, 60), HomotopyStage(32.0, 0.0, 1e4, 60)]
    monkeypatch.setattr(SmoothedCriterion, "stages", lambda self: stages)
    monkeypatch.setattr(points_search, "ITERATIONS", 40)
    found = design(shape="points", points=20, starts=2, harmonics=5)
    check(found, near=0.1)
    assert history_of(found).best.final_value == pytest.approx(found.condition, rel=1e-12)
    other = next(d for d in history_of(found).descents if d.start != history_of(found).chosen)
    assert other.iterations[-1] <= 120  # two stages: only the best one is sharpened, which may converge earlier


def test_the_seed_decides_it() -> None:
    one, two = history_of(fourier()), history_of(design())
    for left, right in zip(one.descents, two.descents, strict=True):
        assert_array_equal(left.values, right.values)
        assert_array_equal(left.iterations, right.iterations)
    assert one.chosen == two.chosen


def test_an_interrupt_keeps_what_was_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNID_THREADS", "1")

    def interrupt(text: str, part: float) -> None:
        if part > 0.4:
            raise KeyboardInterrupt

    found = design(on_progress=interrupt)
    history = history_of(found)
    assert history.stopped
    assert history.planned == 3
    assert len(history.descents) == 2
    check(found, near=0.02)


def test_out_of_time_keeps_the_last_iterate() -> None:
    found = design_excitation(load_robot("panda"), starts=1, time_budget=0.4)
    best = history_of(found).best
    assert history_of(found).stopped
    assert best.final_value < 0.9 * best.values[0]
    assert best.final_value <= 1.05 * best.values[-2]


def test_a_recorder_thins_evenly() -> None:
    recorder = Recorder()
    recorder.record_value(1e4)
    for k in range(1, 5001):
        recorder.record_value(1e4 / k)
        recorder.end_iteration()
    recorder.record_value(np.inf)
    recorder.end_iteration()
    descent = recorder.descent(7, 1.5)
    assert MOST / 2 <= len(descent.values) <= MOST
    assert descent.iterations[0] == 0
    assert len(set(np.diff(descent.iterations[:-1]))) == 1
    assert descent.iterations[-1] == 5001
    assert_allclose(descent.values[1:-1], 1e4 / descent.iterations[1:-1])


def test_files_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--velocity",
        "1",
        "--acceleration",
        "4",
        "--position",
        "1.5",
        "--starts",
        "2",
        "--noise",
        "0.25",
        "--criterion",
        "condition",
    )
    out, facts = tmp_path / "traj.csv", tmp_path / "facts.json"
    CommandLine(monkeypatch, capsys)(
        "excite", "gautier3", "--harmonics", "3", "--out", str(out), "--json", str(facts), *words
    )
    data = json.loads(facts.read_text())
    history = read_history(facts)
    assert history is not None
    assert len(history.descents) == 2
    assert history.best.final_value == pytest.approx(data["condition"], rel=1e-12)
    page = out.with_suffix(".html").read_text()
    assert "standard deviation of 0.25\N{NO-BREAK SPACE}N\N{NO-BREAK SPACE}m on every row" in page
    assert data["expected_errors"]
    assert all(f'data-key="{error}"' in page for error in data["expected_errors"].values())
    assert 'id="search"' in page
    again = tmp_path / "again.json"
    write_json(again, {"history": history.facts()})
    second = read_history(again)
    assert second is not None
    assert second.facts() == history.facts() == data["history"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("nothing", "not JSON"), ('{"history": {"starts": 3}}', "damaged"), ('{"history": {"starts": []}}', "damaged")],
)
def test_damaged_files(tmp_path: Path, text: str, answer: str) -> None:
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(ExcitationError, match=answer):
        read_history(tmp_path / "facts.json")
    (tmp_path / "old.json").write_text('{"condition": 7.0}')
    assert read_history(tmp_path / "old.json") is None
    with pytest.raises(ExcitationError, match="cannot be read"):
        read_history(tmp_path / "none.json")


def test_expected_errors_weigh_channels_by_their_noise() -> None:
    found, sigma = fourier(), np.array([0.1, 0.5, 2.0])
    assert_allclose(list(found.expected_errors().values()), list(found.expected_errors(1.0).values()), rtol=1e-12)
    rng, W = np.random.default_rng(0), found.matrix
    rows = np.tile(sigma, len(W) // 3)
    trials = [np.linalg.lstsq(W / rows[:, None], rng.standard_normal(len(W)), rcond=None)[0] for _ in range(2000)]
    assert_allclose(np.std(trials, axis=0), list(found.expected_errors(sigma).values()), rtol=0.08)
    with pytest.raises(ExcitationError, match="noise must be positive"):
        found.expected_errors(-1.0)


def test_preparation_is_told_beside_the_time_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled before the search forks and its time counts."""
    order: list[str] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            order.append(name)
            return original(*given)

        return call

    monkeypatch.setattr(BaseRows, "warm_up", noted("compile", BaseRows.warm_up))
    monkeypatch.setattr("dynid.excitation.fourier_search.run_starts", noted("search", run_starts))
    monkeypatch.setattr("dynid.excitation.design.NOTABLE", 0.0)
    found = design(starts=1, time_budget=0.1)
    assert order == ["compile", "search"]
    assert "on top of the time budget" in found.warnings[-1]
