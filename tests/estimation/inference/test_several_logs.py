"""Several logs: intervals that hold the scatter between logs of different motions, and whether logs agree."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from campaign import several_logs

import dynid
from dynid.estimation.accumulate.state import State
from dynid.estimation.inference import between_logs
from dynid.estimation.inference.between_logs import GravityColumns, group_logs_by_motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
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


@pytest.mark.slow
@pytest.mark.parametrize("plain", [True, False])
def test_intervals_cover_by_kind_of_parameter(plain: bool) -> None:
    """LuGre friction, friction that depends on the position and on the load; by the recipe and by the plain model."""
    found: dict[str, list[tuple[float, int]]] = {}
    for kind in several_logs.FRICTION:
        for few in (2, 4):
            for group, share in several_logs.coverage("gautier3", kind, few, plain=plain, draws=6, many=16).items():
                found.setdefault(group, []).append(share)
    assert set(found) == {"inertial", "gravity", "friction"}
    for figures in found.values():
        assert sum(share * count for share, count in figures) >= several_logs.LEAST * sum(n for _, n in figures)


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


def tilted(robot: Robot, degrees: float, towards: float) -> Robot:
    """The robot on a mount that is tilted, gravity turning towards a direction (rad) in the horizontal plane."""
    angle = np.radians(degrees)
    side = np.array([np.cos(towards), np.sin(towards), 0.0])
    g = np.array(robot.gravity)
    return replace(robot, gravity=np.cos(angle) * g + np.sin(angle) * np.linalg.norm(g) * side)


CHANGES = {
    "none": (0.0, 1.0, 0.0),
    "payload": (1.0, 1.0, 0.0),
    "friction": (0.0, 1.25, 0.0),
    "gravity": (0.0, 1.0, 5.0),
    "gravity payload": (1.5, 1.0, 7.0),
    "friction gravity": (0.0, 1.3, 7.0),
    "friction payload": (1.5, 1.3, 0.0),
}
"""Payload (kg), factor of friction and tilt (deg) of the last log, by the names of what changed."""


def differences_of(
    name: str, changed: str, *, few: int, friction: str | tuple[str, ...], seed: int = 0
) -> tuple[dynid.Identification, Robot]:
    """Result of a few logs whose last one is of another robot, and that robot."""
    robot, plain = invented(name, 3 + seed), friction != "auto"
    mass, scale, tilt = CHANGES[changed]
    other = tilted(robot, tilt, 1.0 + seed)
    if mass:
        other = carrying(other, dynid.payload_parameters(mass, (0.05, -0.03, 0.12)))
    logs = [log_of_motion(robot, 10 * seed + k, plain=plain) for k in range(few - 1)]
    logs.append(log_of_motion(other, 10 * seed + few - 1, plain=plain, scale=scale))
    return dynid.identify(robot, logs, friction=friction, cutoff=8.0), other


def check_differences(result: dynid.Identification, other: Robot, changed: str, few: int) -> None:
    """What changed, and nothing else, is named, with the log, its figures and the option that repairs it."""
    assert result.agreement is not None
    found = result.agreement.differences
    warnings = [w for w in result.warnings if w.code == "logs_disagree"]
    assert sorted(x.kind for x in found) == sorted(w.facts["kind"] for w in warnings)
    assert " ".join(sorted(x.kind for x in found)) == changed.replace("none", "")
    for difference, warning in zip(found, warnings, strict=True):
        assert difference.p == result.agreement.p < 1e-2
        assert few == 2 or difference.log == few - 1  # of two logs none can be said to be the other one
        if difference.kind == "gravity":
            assert warning.facts["option"].keyword == "gravity"
            g, true = np.array(difference.gravity), np.array(other.gravity)
            if difference.log == few - 1:
                off = np.arccos(g @ true / np.linalg.norm(g) / np.linalg.norm(true))
                assert np.degrees(off) < (1.5 if set(result.friction) == set(PLAIN) else 4.0)


@pytest.mark.parametrize("changed", CHANGES)
def test_a_log_of_another_robot_is_named_with_what_changed(changed: str) -> None:
    """The last log has a payload, more friction, a tilted mount, or two of these."""
    check_differences(*differences_of("puma560", changed, few=3, friction=PLAIN), changed, 3)


@pytest.mark.parametrize("changed", ["none", "payload", "friction", "gravity"])
def test_what_changed_is_named_by_the_recipe_too(changed: str) -> None:
    """Friction blocks that depend on the position must not absorb it."""
    check_differences(*differences_of("gautier3", changed, few=2, friction="auto", seed=2), changed, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [41, 42])
@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("name", ["tx40", "iiwa", "ur10"])
def test_what_changed_is_named_on_other_robots(name: str, changed: str, seed: int) -> None:
    check_differences(*differences_of(name, changed, few=2, friction=PLAIN, seed=seed), changed, 2)


def test_columns_of_gravity_are_the_torques_of_another_gravity() -> None:
    """Torques under any gravity are in the span of the columns for the parameters and those that are hidden."""
    robot = invented("puma560")
    other = replace(robot, gravity=np.array([3.0, -2.0, -7.0]))
    equation = dynid.collect_state(robot, log_of_motion(robot, 0, plain=True), friction=PLAIN, cutoff=8.0).equation
    motion = motion_of(robot, 1, duration=2.0)
    columns = GravityColumns(equation)
    columns.find_hidden_columns(motion.q)
    E = columns.columns_of_log(motion.q, equation.base.values(robot.parameters))
    tau = [dynid.simulate(some, motion).tau for some in (robot, other)]
    change = np.array(tau[1]) - np.array(tau[0])
    assert E.shape[2] == 5  # first moments of the first link have no effect on an upright robot
    step = np.array(other.gravity) - np.array(robot.gravity)
    rest = (change - E[:, :, :3] @ step).ravel()
    left = rest - (H := E[:, :, 3:].reshape(-1, 2)) @ np.linalg.lstsq(H, rest, rcond=None)[0]
    assert np.abs(left).max() < 1e-9 * np.abs(change).max()


def alarms(name: str, few: int, *, plain: bool, draws: int) -> float:
    """Share of draws of a few logs of one robot in which logs are said to differ."""
    several, rng, count = states(name, plain=plain), np.random.default_rng(10 + few), 0
    for _ in range(draws):
        agreement = dynid.identify_states([several[k] for k in rng.choice(MANY, few, replace=False)]).agreement
        assert agreement is not None
        count += bool(agreement.differences)
    return count / draws


@pytest.mark.slow
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


def test_logs_of_one_motion_say_what_they_cannot_show() -> None:
    """A motion that is repeated, another one, and both: the verdict, its next step and the notes."""
    robot = invented("gautier3")
    first, other = (log_of_motion(robot, seed, plain=False) for seed in (0, 1))
    rng, tau = np.random.default_rng(8), first.tau
    assert tau is not None
    again = dynid.Log(first.t + 5.0, first.q, v=first.v, a=first.a, tau=tau + rng.normal(0.0, 0.1, tau.shape), name="b")
    part = dynid.Log(first.t[200:800], first.q[200:800], tau=tau[200:800] + 0.1, name="part")
    for logs, same in (([first, again], True), ([first, other], False), ([first, again, other], False)):
        result = dynid.identify(robot, logs, friction=PLAIN, cutoff=8.0)
        assert ("logs_of_one_motion" in [note.code for note in result.notes]) == same
        assert ("motions_unproven" in [said.code for said in result.verdict.unproven]) == same
        assert (result.verdict.next_step.code == "logs_of_one_motion") == same
        if same:
            assert result.verdict.next_step.facts["action"] == "excite"
    assert [sorted(group) for group in motion_groups(robot, [first, other, again, part])] == [[0, 2, 3], [1]]
    alone = dynid.identify(robot, first, friction=PLAIN, cutoff=8.0)
    assert "motions_unproven" in [said.code for said in alone.verdict.unproven]


def motion_groups(robot: Robot, logs: list[dynid.Log]) -> list[list[int]]:
    return group_logs_by_motion(dynid.collect_state(robot, logs, friction=PLAIN, cutoff=8.0))


def test_of_many_motions_the_nearest_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine motions, each twice with other noise: the groups do not depend on how many are compared."""
    robot = invented("gautier3")
    logs = []
    for seed in range(9):
        log = log_of_motion(robot, seed, plain=False)
        assert log.tau is not None
        rng = np.random.default_rng(seed)
        again = log.tau + rng.normal(0.0, 0.1, log.tau.shape)
        logs += [log, dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=again, name=f"again {seed}")]
    expected = [[k, k + 1] for k in range(0, 18, 2)]
    for most in (32, 2):
        monkeypatch.setattr(between_logs, "MOST_COMPARED", most)
        assert sorted(map(sorted, motion_groups(robot, logs))) == expected


def test_a_repeated_motion_counts_once_among_others() -> None:
    """Two motions, one of them five times: intervals are about as wide as those of two logs, not of six."""
    robot = invented("gautier3")
    first, other = (log_of_motion(robot, seed, plain=False) for seed in (0, 1))
    rng, tau = np.random.default_rng(8), first.tau
    assert tau is not None
    copies = [
        dynid.Log(first.t + k, first.q, v=first.v, a=first.a, tau=tau + rng.normal(0.0, 0.05, tau.shape), name=f"{k}")
        for k in range(1, 5)
    ]
    two, six = (dynid.identify(robot, x, friction=PLAIN, cutoff=8.0) for x in ([first, other], [first, *copies, other]))
    assert np.median(six.quantile * six.sigma / (two.quantile * two.sigma)) > 0.6
