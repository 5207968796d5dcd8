"""Outliers and collisions: the robust estimate predicts clean data as well as a fit to clean data."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import IdentificationError, LogError
from dynid.estimation.solve.robust import (
    LISTED,
    OutlierTally,
    _PieceCollector,
    glitch_limit,
    interpolate_glitches,
    robust_scale,
)
from dynid.logs.log import Log
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, torque, truth, with_friction
from log_makers import Pieces
from robots import random_tree

WAYS = {"samples": (100.0, True), "slow": (125.0, False), "rows": (200.0, False), "thinned": (1000.0, False)}
"""Unfiltered rows with everything recorded; filtered rows of few and more samples; rows that are thinned."""


@cache
def robot_of(name: str) -> Robot:
    tree = name == "tree"
    return with_friction(random_tree(3, joints=6, serial=False, fixed_share=0.0) if tree else dynid.load_robot(name))


def spoiled(tau: Array, kind: str, rate: float, rng: np.random.Generator, noise: Array, share: float) -> Array:
    """Trouble in a share of the samples of every joint; amplitudes are 3 to 100 times the noise."""
    size, shape = tau.std(axis=0), tau.shape
    bad, wrong = rng.random(shape) < share, noise * np.exp(rng.uniform(np.log(3.0), np.log(100.0), shape))
    sign = rng.choice([-1.0, 1.0], shape)
    if kind == "spikes":
        return np.where(bad, tau + sign * wrong, tau)
    if kind == "one-sided":
        return np.where(bad, tau + wrong, tau)
    out, done = tau.copy(), 0
    while kind == "bursts" and done < share * tau.size:  # of 5 to 20 samples of one joint
        start, length, j = (int(x) for x in rng.integers([0, 5, 0], [len(tau) - 20, 21, shape[1]]))
        out[start : start + length, j] += sign[start, j] * wrong[start, j]
        done += length
    while kind == "collisions" and done < share * len(tau):  # of 0.1 to 2 s, of all joints
        length = int(rate * rng.uniform(0.1, 2.0))
        start = int(rng.integers(len(tau) - length))
        push = size * rng.uniform(0.3, 3.0, shape[1]) * rng.choice([-1.0, 1.0], shape[1])
        out[start : start + length] += push * np.sqrt(np.sin(np.linspace(0.0, np.pi, length)))[:, None]
        done += length
    return out


def recorded(
    way: str, kind: str, *, name: str = "puma560", share: float = 0.2, seed: int = 1, motion_seed: int = 0
) -> Log:
    """Torques with noise of 5 % of their deviation, and trouble."""
    rate, complete = WAYS[way]
    robot, rng = robot_of(name), np.random.default_rng(seed)
    motion = fourier_motion(robot, duration=30.0, rate=rate, seed=motion_seed)
    tau = torque(robot, motion)
    noise = 0.05 * tau.std(axis=0)
    tau = spoiled(tau + noise * rng.standard_normal(tau.shape), kind, rate, rng, noise, share)
    q = motion.q if complete else motion.q + 1e-5 * rng.standard_normal(motion.q.shape)
    return Log(motion.t, q, v=motion.v if complete else None, a=motion.a if complete else None, tau=tau)


def others(way: str, name: str = "puma560") -> Log:
    return recorded(way, "none", name=name, seed=99, motion_seed=7)


@cache
def clean(
    way: str, friction: str | tuple[str, ...], name: str = "puma560", model: str = "torque"
) -> dynid.Identification:
    log, other = recorded(way, "none", name=name), others(way, name)
    return dynid.identify(robot_of(name), log, friction=friction, validate=other, model=model)


def ratio(way: str, kind: str, friction: str | tuple[str, ...], name: str = "puma560", model: str = "torque") -> Array:
    """Errors (channels,) on a clean log of another motion, over those of wls on the clean log."""
    result = dynid.identify(
        robot_of(name), recorded(way, kind, name=name), friction=friction, model=model, validate=others(way, name),
        estimator="huber",
    )  # fmt: skip
    return np.asarray(result.validation.rmse / clean(way, friction, name, model).validation.rmse)


CASES = [
    *(("rows", kind, "auto") for kind in ("none", "spikes", "collisions")),
    *(
        pytest.param(way, kind, "auto", marks=pytest.mark.slow)
        for way in ("slow", "thinned")
        for kind in ("none", "spikes", "collisions")
    ),
    *(("rows", kind, "auto") for kind in ("one-sided", "bursts")),
    *(("samples", kind, PLAIN) for kind in ("none", "spikes", "one-sided", "collisions")),
    *(("rows", kind, PLAIN) for kind in ("none", "spikes", "one-sided")),
]


@pytest.mark.parametrize(("way", "kind", "friction"), CASES)
def test_a_fifth_of_outliers_costs_less_than_a_tenth(way: str, kind: str, friction: str | tuple[str, ...]) -> None:
    """Mean validation error within 10 % of the clean fit's; on clean data within 4 %."""
    assert ratio(way, kind, friction).mean() < (1.04 if kind == "none" else 1.10)


@pytest.mark.parametrize("name", ["scara", "tree"])
@pytest.mark.parametrize("kind", ["spikes", "collisions"])
def test_other_robots(name: str, kind: str) -> None:
    assert ratio("rows", kind, "auto", name).mean() < 1.10


@pytest.mark.parametrize("friction", [PLAIN, ()], ids=["plain", "none"])
def test_momentum_and_a_model_without_friction(friction: tuple[str, ...]) -> None:
    """What a model lacks is no outlier: without friction it explains little, and nothing is put aside for that."""
    model = "momentum" if friction else "torque"
    for kind in ("spikes", "collisions"):
        assert ratio("rows", kind, friction, model=model).mean() < 1.10


@pytest.mark.parametrize("model", ["power", "energy"])
def test_power_and_energy(model: str) -> None:
    """One channel of all joints; a SCARA, whose parameters it can tell."""
    assert ratio("rows", "spikes", PLAIN, "scara", model).mean() < 1.10
    log = recorded("rows", "spikes", name="scara")
    plain = dynid.identify(
        robot_of("scara"), log, friction=PLAIN, model=model, validate=others("rows", "scara"), estimator="wls"
    )
    assert plain.validation.rmse[0] > 1.5 * clean("rows", PLAIN, "scara", model).validation.rmse[0]


@pytest.mark.parametrize("kind", ["spikes", "collisions"])
def test_least_squares_would_fail(kind: str) -> None:
    plain = dynid.identify(robot_of("puma560"), recorded("rows", kind), friction=PLAIN, validate=others("rows"))
    assert plain.validation.rmse.mean() > 1.5 * clean("rows", PLAIN).validation.rmse.mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spikes", "collisions"])
def test_deviations_hold(kind: str) -> None:
    """Intervals of 95 % cover 90 to 99 % of the truth, over 4 motions."""
    robot, inside = robot_of("puma560"), []
    for seed in range(4):
        log = recorded("rows", kind, seed=seed, motion_seed=seed)
        result = dynid.identify(robot, log, friction=PLAIN, estimator="huber")
        inside.append(np.abs(result.values - truth(robot, result)) <= result.quantile * result.sigma)
    assert 0.90 <= np.mean(inside) <= 0.995


@pytest.mark.parametrize(("cutoff", "tolerance"), [(None, 1e-6), (10.0, 1e-3)])
def test_without_noise_it_is_exact(cutoff: float | None, tolerance: float) -> None:
    """A fifth of the samples wrong, the others exact: the truth, as a share of the largest parameter.

    Single rows are left out; under a filter, the reference and the mean around stand in for bad samples.
    """
    robot = robot_of("puma560")
    motion = fourier_motion(robot, rate=200.0)
    tau = torque(robot, motion)
    rng = np.random.default_rng(0)
    tau = np.where(rng.random(tau.shape) < 0.2, tau + tau.std(axis=0) * rng.uniform(2.0, 9.0, tau.shape), tau)
    log = Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau)
    result = dynid.identify(robot, log, friction=PLAIN, cutoff=cutoff, estimator="huber")
    expected = truth(robot, result)
    assert_allclose(result.values, expected, rtol=0.0, atol=tolerance * np.abs(expected).max())


def test_notes_count_what_was_put_aside() -> None:
    """Shares of bad samples to 4 %, of a fifth: those of 3 times the noise cannot all be seen."""
    result = dynid.identify(robot_of("puma560"), recorded("rows", "spikes"), friction=PLAIN, estimator="huber")
    of_joints = [note for note in result.notes if note.startswith("joint ")]
    for joint, note in zip(result.channels, of_joints, strict=True):
        assert note.startswith(f"joint '{joint}': ")
        assert abs(float(note.partition("(")[2].partition(" %")[0]) - 20.0) < 4.0
    assert result.notes[-1] == "validation data were treated in the same way: errors are those of the good rows"
    assert result.estimator == "huber"


def test_notes_say_where_the_robot_touched_something() -> None:
    log = recorded("rows", "none")
    tau = np.array(log.tau)
    tau[2000:2200, 1] += 2.0 * tau[:, 1].std()  # from 10 to 11 s
    result = dynid.identify(
        robot_of("puma560"), Log(log.t, log.q, tau=tau), friction=PLAIN, estimator="huber", validate=others("rows")
    )
    contact = next(note for note in result.notes if note.startswith("contacts"))
    assert "seen 1 times: " in contact
    start, stop = (float(x) for x in contact.partition(": ")[2].partition(" s (")[0].split(" to "))
    assert abs(start - 10.0) < 0.1
    assert abs(stop - 11.0) < 0.1
    assert contact.endswith(" s (2)")
    assert result.notes[-1] == "validation data were taken as recorded"


@pytest.mark.parametrize("validate", [None, 0.3])
def test_validation_on_the_same_log_is_of_good_rows(validate: float | None) -> None:
    """Errors on held-out parts of the spoiled log are at most half larger than those of the clean log."""
    results = [
        dynid.identify(robot_of("puma560"), recorded("rows", kind), friction=PLAIN, validate=validate, estimator=name)
        for kind, name in (("none", "wls"), ("spikes", "huber"), ("collisions", "huber"))
    ]
    for result in results[1:]:
        assert result.validation.source.endswith("judged alike")
        assert result.validation.rmse.mean() < 1.5 * results[0].validation.rmse.mean()


def test_positions_that_jump() -> None:
    """Forty glitches of positions: as good as without, and told."""
    log, rng = recorded("rows", "none"), np.random.default_rng(5)
    q = np.array(log.q)
    places = rng.choice(len(q), 40, replace=False)
    q[places, rng.integers(0, q.shape[1], 40)] += rng.choice([-1.0, 1.0], 40) * rng.uniform(0.05, 3.0, 40)
    spoiled_log = Log(log.t, q, tau=log.tau)
    result = dynid.identify(robot_of("puma560"), spoiled_log, validate=others("rows"), estimator="huber")
    assert (result.validation.rmse / clean("rows", "auto").validation.rmse).mean() < 1.10
    assert any("position that jumps away and back" in note for note in result.notes)


def test_glitches_are_interpolated() -> None:
    t = np.arange(200) / 100.0
    q = np.column_stack([np.sin(t), np.cos(t)])
    wrong = q.copy()
    wrong[[50, 51, 120], 0] += [0.3, -0.2, 2.0]
    better, bad = interpolate_glitches(wrong, glitch_limit(wrong))
    assert bad[[50, 51, 120]].all()
    assert_allclose(better, q, atol=1e-6)
    assert interpolate_glitches(q, glitch_limit(q))[0] is q


def test_irregular_times_and_several_logs() -> None:
    """A wrong sample stays one where times jitter, and torques are resampled."""
    logs = []
    for seed in (1, 2):
        log = recorded("rows", "one-sided", seed=seed, motion_seed=seed)
        t = log.t + 1e-3 * np.random.default_rng(seed).uniform(-1.0, 1.0, len(log.t))
        logs.append(Log(t, np.column_stack([np.interp(t, log.t, x) for x in log.q.T]), tau=log.tau))
    result = dynid.identify(robot_of("puma560"), logs, friction=PLAIN, validate=others("rows"), estimator="huber")
    assert (result.validation.rmse / clean("rows", PLAIN).validation.rmse).mean() < 1.10


def test_a_delay_is_followed() -> None:
    log = recorded("rows", "spikes")
    late = Log(log.t[:-4], log.q[4:], tau=np.array(log.tau)[:-4])  # torques 20 ms later
    options = {"friction": PLAIN, "estimator": "huber"}
    result = dynid.identify(robot_of("puma560"), late, delay=0.02, **options)  # type: ignore[arg-type]
    reference = dynid.identify(robot_of("puma560"), log, **options)  # type: ignore[arg-type]
    assert result.validation.rmse.mean() < 1.1 * reference.validation.rmse.mean()


@pytest.mark.parametrize("kind", ["spikes", "collisions"])
def test_chunks_do_not_matter(kind: str) -> None:
    log = recorded("rows", kind)
    whole = dynid.identify(robot_of("puma560"), log, friction=PLAIN, estimator="huber")
    pieces = Log.from_source(Pieces(log._all_samples, 777))
    again = dynid.identify(robot_of("puma560"), pieces, friction=PLAIN, estimator="huber")
    assert_allclose(again.values, whole.values, rtol=1e-12, atol=1e-12)
    assert again.notes == whole.notes


def test_logs_are_read_a_few_times_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for the reference, once for the rows, and the beginning once for a survey; stretches stay in their bound."""
    log, reads, most = recorded("thinned", "spikes"), [0], [0]

    class Counted(Pieces):
        def chunks(self, rows: int):  # type: ignore[no-untyped-def]
            reads[0] += 1
            return super().chunks(rows)

    add = _PieceCollector.add_window

    def watched(self: _PieceCollector, *args: Any, **named: Any) -> None:
        add(self, *args, **named)
        most[0] = max(most[0], sum(piece.wide.nbytes for piece in self.kept))

    monkeypatch.setattr("dynid.logs.log.SMALL", 0)
    monkeypatch.setattr("dynid.estimation.solve.robust.KEPT_BYTES", 6_000_000)
    monkeypatch.setattr(_PieceCollector, "add_window", watched)
    result = dynid.identify(
        robot_of("puma560"), Log.from_source(Counted(log._all_samples, 4096)), friction=PLAIN,
        validate=others("thinned"), estimator="huber",
    )  # fmt: skip
    assert reads[0] <= 4
    assert 3_000_000 < most[0] <= 6_000_000
    assert (result.validation.rmse / clean("thinned", PLAIN).validation.rmse).mean() < 1.10


def test_contacts_are_told_in_bounded_memory() -> None:
    tally, t = OutlierTally(2), np.arange(10_000) / 10.0
    good = np.ones((len(t), 2), dtype=np.bool_)
    good[::100, 1] = False
    for part in np.split(np.arange(len(t)), 100):
        tally.add_contacts(0, t[part], good[part], 1.0)
    assert tally.contacts == 100
    assert [x[1] for x in tally.first] == [10.0 * k for k in range(LISTED)]
    assert tally.left_out.tolist() == [0.0, 100.0]


def test_scale_of_spoiled_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(10_000)
    assert_allclose(robust_scale(x), 1.0, rtol=0.05)
    x[:2000] += 50.0
    assert_allclose(robust_scale(x), 1.0, rtol=0.05)
    assert robust_scale(np.zeros(0)) == 0.0


def test_states_own_offsets_and_short_logs_are_refused() -> None:
    log = recorded("rows", "none")
    state = dynid.collect_state(robot_of("puma560"), log, friction=PLAIN)
    with pytest.raises(IdentificationError, match="reads logs twice"):
        dynid.identify_states(state, estimator="huber")
    with pytest.raises(IdentificationError, match="its own offsets"):
        dynid.identify(robot_of("puma560"), [log, log], friction=PLAIN, offsets_per_log=True, estimator="huber")
    short = Log(log.t[:20], log.q[:20], tau=np.array(log.tau)[:20])
    with pytest.raises(LogError, match="too short"):
        dynid.identify(robot_of("puma560"), short, friction=PLAIN, estimator="huber")
