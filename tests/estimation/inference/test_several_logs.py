"""Several logs: intervals that hold the scatter between logs of different motions, and whether logs agree."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.estimation.accumulate.state import State
from dynid.robot.parameter import Parameter
from loads import carrying
from several_logs import invented, log_of_motion, motion_of

PLAIN = ("viscous", "coulomb", "offset")
MANY = 60


@cache
def states(name: str, *, plain: bool) -> tuple[State, ...]:
    """States of many logs, to be taken a few at a time."""
    robot = invented(name)
    logs = [log_of_motion(robot, seed, plain=plain) for seed in range(MANY)]
    first = dynid.collect_state(robot, logs[0], friction=PLAIN, cutoff=8.0)
    return first, *(dynid.collect_state(robot, log, like=first) for log in logs[1:])


def kind_of(name: Parameter) -> str:
    if name.kind == "friction":
        return "friction"
    return "gravity" if name.unit in ("kg", "kg m") else "inertia"


def coverage(name: str, few: int, *, plain: bool, draws: int) -> dict[str, float]:
    """Share of 95 % intervals from a few logs that hold the pseudo-true values, by kind of parameter.

    The model is wrong, so its true values are those that very many logs of such motions lead to.
    """
    several, rng = states(name, plain=plain), np.random.default_rng(few)
    every = dynid.identify_states(several)
    true = dict(zip(every.names, every.values, strict=True))
    hits: dict[str, list[bool]] = {}
    for _ in range(draws):
        found = dynid.identify_states([several[k] for k in rng.choice(MANY, few, replace=False)])
        for parameter, (low, high) in zip(found.names, found.intervals, strict=True):
            hits.setdefault(kind_of(parameter), []).append(bool(low <= true[parameter] <= high))
    return {kind: float(np.mean(some)) for kind, some in hits.items()}


@pytest.mark.slow
@pytest.mark.parametrize("few", [2, 5])
def test_intervals_cover_where_the_model_lacks_friction(few: int) -> None:
    shares = coverage("gautier3", few, plain=False, draws=15)
    assert min(shares.values()) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("few", [2, 3, 5, 10])
@pytest.mark.parametrize("name", ["gautier3", "puma560", "panda"])
def test_intervals_cover_on_other_robots(name: str, few: int) -> None:
    shares = coverage(name, few, plain=False, draws=40)
    assert min(shares.values()) >= 0.93


def test_intervals_are_not_absurdly_wide_where_the_model_is_right() -> None:
    """Two logs leave one degree of freedom, whose interval would be 12.7 deviations wide; kinds are pooled instead."""
    one, two = states("gautier3", plain=True)[:2]
    together, alone = dynid.identify_states([one, two]), dynid.identify_states(one)
    half = {name: h for name, h in zip(alone.names, alone.quantile * alone.sigma, strict=True)}
    ratio = [h / half[n] for n, h in zip(together.names, together.quantile * together.sigma, strict=True)]
    assert np.median(ratio) < 1.2


@pytest.mark.parametrize("few", [1, 3])
@pytest.mark.parametrize("estimator", ["wls", "recursive"])
def test_the_covariance_holds_the_variances(estimator: str, few: int, tmp_path: Path) -> None:
    """sigma^2 is the diagonal of the covariance, which is positive semidefinite, also after writing and reading."""
    robot = invented("gautier3")
    logs = [log_of_motion(robot, seed, plain=False) for seed in range(few)]
    found = dynid.identify(robot, logs, friction=PLAIN, cutoff=8.0, estimator=estimator)
    found.save(tmp_path / "result.json")
    again = dynid.Identification.load(tmp_path / "result.json")
    motion = motion_of(robot, 50, duration=2.0)
    np.testing.assert_array_equal(found.band(motion), again.band(motion))
    for result in (found, again):
        np.testing.assert_allclose(np.diag(result.covariance), result.sigma**2, rtol=1e-12)
        assert np.linalg.eigvalsh(result.correlation).min() > -1e-12
        assert (result.log_growth is None) == (few == 1)


def test_one_log_says_what_it_cannot_show() -> None:
    one, two = states("gautier3", plain=True)[:2]
    assert "one_log" in [note.code for note in dynid.identify_states(one).notes]
    assert "one_log" not in [note.code for note in dynid.identify_states([one, two]).notes]


@pytest.mark.parametrize("friction", [PLAIN, "auto"])
@pytest.mark.parametrize("few", [2, 3])
def test_a_log_of_another_robot_is_named_with_what_changed(few: int, friction: str | tuple[str, ...]) -> None:
    """The last log has a payload of 1 kg, or friction that is 20 % larger."""
    robot, plain = invented("puma560"), friction != "auto"
    loaded = carrying(robot, dynid.payload_parameters(1.0, (0.05, -0.03, 0.12)))
    same = [log_of_motion(robot, seed, plain=plain) for seed in range(few)]
    last = {
        None: same[-1],
        "payload": log_of_motion(loaded, few - 1, plain=plain),
        "friction": log_of_motion(robot, few - 1, plain=plain, scale=1.2),
    }
    for kind, log in last.items():
        result = dynid.identify(robot, [*same[:-1], log], friction=friction, cutoff=8.0)
        assert result.agreement is not None
        found = [w for w in result.warnings if w.code == "logs_disagree"]
        if kind is None:
            assert result.agreement.differences == ()
            assert not found
            continue
        (difference,) = result.agreement.differences
        assert difference.kind == found[0].facts["kind"] == kind
        assert difference.p == result.agreement.p < 1e-3
        assert few == 2 or difference.log == few - 1  # of two logs none can be said to be the other one
        levels = dict(result.agreement.parameters)
        assert all(name in levels for name in difference.parameters)


def alarms(name: str, few: int, *, plain: bool, draws: int) -> float:
    """Share of draws of a few logs of one robot in which logs are said to differ."""
    several, rng, count = states(name, plain=plain), np.random.default_rng(10 + few), 0
    for _ in range(draws):
        agreement = dynid.identify_states([several[k] for k in rng.choice(MANY, few, replace=False)]).agreement
        assert agreement is not None
        count += bool(agreement.differences)
    return count / draws


def test_logs_of_other_motions_give_no_alarm() -> None:
    assert alarms("gautier3", 3, plain=True, draws=40) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("few", [2, 3, 5])
def test_false_alarms_stay_below_their_level(few: int) -> None:
    assert alarms("puma560", few, plain=True, draws=300) <= 0.01


def test_agreement_is_saved_with_a_result(tmp_path: Path) -> None:
    result = dynid.identify_states(states("gautier3", plain=True)[:2])
    result.save(tmp_path / "result.json")
    assert result.agreement is not None
    assert dynid.Identification.load(tmp_path / "result.json").agreement == result.agreement
