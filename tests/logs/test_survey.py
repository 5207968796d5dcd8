from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.errors import LogError
from dynid.logs.log import Log, Samples, Wiring
from dynid.logs.ordering import concatenate_samples
from dynid.logs.survey import survey
from dynid.robot.load import load_robot
from dynid.robot.transform import Array
from log_makers import arm, log_of, recording

DEG = 180.0 / np.pi
T = np.arange(4000) / 200.0


def moved(joints: int = 6, *, scale: float = 1.0, v_scale: float | None = None) -> Log:
    x = recording(T, joints, base=0.2)
    assert x.v is not None
    q = 0.5 * scale * x.q
    return Log(T, q, v=None if v_scale is None else 0.5 * v_scale * x.v, tau=x.tau)


@pytest.mark.parametrize("v_scale", [None, DEG])
@pytest.mark.parametrize("robot", ["ur10", "puma560", "kr300"])
def test_degrees_are_found(robot: str, v_scale: float | None) -> None:
    with pytest.raises(LogError, match="looks like degrees"):
        survey(moved(scale=DEG, v_scale=v_scale), load_robot(robot))


@pytest.mark.parametrize(("scale", "v_scale", "ratio"), [(1.0, DEG, "57.3"), (0.1 * DEG, 0.1, "0.0175")])
def test_one_of_positions_and_velocities_in_degrees_is_found(scale: float, v_scale: float, ratio: str) -> None:
    with pytest.raises(LogError, match=f"velocities are {ratio} times the slope"):
        survey(moved(scale=scale, v_scale=v_scale), load_robot("ur10"))


@pytest.mark.parametrize("only_one_moves", [False, True])
def test_a_joint_that_turns_and_turns_is_no_mistake(only_one_moves: bool) -> None:
    log = moved(scale=0.0 if only_one_moves else 1.0)
    log.q[:, 5] = np.linspace(0.0, 10.0 * np.pi, len(T))
    assert survey(log, load_robot("ur10")).notes == ()


@pytest.mark.parametrize("robot", [arm(4), arm(1), arm(3, 2.0, prismatic=True)])
def test_wheels_and_slides_are_no_mistake(robot: object) -> None:
    n = robot.n  # type: ignore[attr-defined]
    q = np.outer(T, 30.0 + np.arange(n))
    found = survey(Log(T, q, v=np.gradient(q, T, axis=0), tau=np.cos(q)), robot)  # type: ignore[arg-type]
    assert all("have no limits: if these are degrees" in note for note in found.notes)


def test_radians_are_no_mistake() -> None:
    for v_scale in (None, 1.0):
        assert survey(moved(v_scale=v_scale), load_robot("ur10")).notes == ()


def test_velocities_are_compared_with_positions_that_wrap() -> None:
    """Recorded modulo a turn: no note on velocities that are right, and an error on a wrong sign."""
    log = moved(v_scale=1.0)
    assert log.v is not None
    wrapped = Log(T, log.q % (2.0 * np.pi), v=log.v, tau=log.tau)
    assert np.abs(np.diff(wrapped.q, axis=0)).max() > 6.0
    assert survey(wrapped, load_robot("ur10")).notes == ()
    with pytest.raises(LogError) as caught:
        survey(Log(T, wrapped.q, v=-log.v, tau=log.tau), load_robot("ur10"))
    assert caught.value.code == "velocity_sign"


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_time_that_is_not_in_seconds_is_found(unit: str, factor: float) -> None:
    log = moved()
    with pytest.raises(LogError, match=rf"s apart.*units=.*'t': '{unit}'"):
        survey(Log(factor * T, log.q, tau=log.tau), load_robot("ur10"))


def test_postures_with_their_number_as_time_are_no_mistake() -> None:
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 6))
    assert survey(Log(np.arange(50.0), q, v=q, a=q, tau=q), load_robot("ur10")).notes == ()


def test_velocities_that_are_none_are_found() -> None:
    for v_scale, problem in (
        (0.0, "zero throughout while"),
        (30.0 / np.pi, "9.55 times the slope"),
        (0.01, "0.01 times"),
        (-1.0, "with the other sign"),
    ):
        with pytest.raises(LogError, match=f"{problem}.*columns=..v.: None"):
            survey(moved(v_scale=v_scale), load_robot("ur10"))


@pytest.mark.parametrize("scale", [4096.0 / (2.0 * np.pi), 2000.0])
def test_counts_and_motor_positions_are_found(scale: float) -> None:
    with pytest.raises(LogError, match=r"moves over .* rad, but its limits leave it .*\(gear=\)"):
        survey(moved(scale=scale), load_robot("puma560"))


def test_velocities_of_other_joints_get_a_note_only() -> None:
    log = moved(v_scale=1.0)
    assert log.v is not None
    (note,) = survey(Log(T, log.q, v=np.roll(log.v, 1, axis=1), tau=log.tau), load_robot("ur10")).notes
    assert "do not follow the positions" in note


def test_a_velocity_of_the_wrong_sign_comes_with_the_option_that_turns_it() -> None:
    robot = load_robot("ur10")
    log = moved(v_scale=1.0)
    assert log.v is not None
    wrong = Log(T, log.q, v=log.v * [1, 1, -1, 1, 1, 1], tau=log.tau)
    with pytest.raises(LogError) as caught:
        survey(wrong, robot)
    (option,) = caught.value.facts["sign"]
    assert option.value == [f"v.{robot.joint_names[2]}"]
    assert option.render("command line") in caught.value.message.for_command_line
    repaired = wrong.rewired(Wiring(sign_v=np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])))
    assert survey(repaired, robot).notes == survey(log, robot).notes
    turned = log.rewired(Wiring(sign_v=np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])))
    with pytest.raises(LogError) as caught:
        survey(turned, robot)  # by a wrong option of the user's: none is proposed
    assert caught.value.facts["sign"] == []


def saturation(tau: Array, q: Array | None = None) -> float:
    q = np.sin(T) if q is None else q
    found = survey(Log(T, q[:, None], tau=tau[:, None]), arm(1))
    return float(found.saturation[0])


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
def test_a_clipped_torque_is_found(noise: float) -> None:
    tau = 10.0 * np.sin(3.0 * T) + noise * np.random.default_rng(0).standard_normal(len(T))
    assert saturation(np.clip(tau, -8.0, 8.0)) == 8.0
    assert saturation(np.clip(tau.round(1), -8.0, 8.0)) == 8.0


def test_what_is_not_clipped() -> None:
    for amplitude in (0.5, 5.0, 50.0, 500.0):
        for speed in (0.05, 0.3, 3.0):
            tau = amplitude * np.sin(speed * T)
            assert np.isinf(saturation(tau))
            assert np.isinf(saturation(tau.round(1)))
    still = np.concatenate([np.full(1000, 1.0), np.cos(0.5 * np.arange(3000) / 200.0)])
    assert np.isinf(saturation(9.0 * still, still))  # standstill in the posture of the largest torque
    assert np.isinf(saturation(np.full(len(T), 3.0)))


@pytest.mark.parametrize("start", [0.0, 1.7e9])
@pytest.mark.parametrize("rate", [30.0, 99.9, 1000.0])
def test_the_rate_is_found(start: float, rate: float) -> None:
    t = start + np.arange(5000) / rate
    rng = np.random.default_rng(0)
    lost = np.sort(rng.choice(5000, 4500, replace=False))
    for times in (t, t[lost], t + rng.uniform(-0.2, 0.2, 5000) / rate, np.append(t, t[-1] + 1e4 + t - start)):
        found = survey(log_of(recording(times)), arm(2))
        assert_allclose(found.rate, rate, rtol=0.01)
    assert_allclose(survey(log_of(recording(t[lost])), arm(2)).rate, rate, rtol=1e-6)


def test_rows_of_two_runs_are_not_mixed() -> None:
    runs = [recording(np.arange(1000) / 100.0, seed=seed) for seed in (1, 2)]
    found = survey(log_of(concatenate_samples(runs), 300), arm(2))
    assert found.rate == pytest.approx(100.0)
    assert len(found.samples) == 1000


def bad(**changes: Array) -> Samples:
    x = recording(np.arange(200) / 100.0)
    return Samples(*(changes.get(name, getattr(x, name)) for name in ("t", "q", "v", "a", "tau")))


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        (bad().select_rows(slice(0, 0)), "fewer than two samples"),
        (bad().select_rows(slice(0, 1)), "fewer than two samples"),
        (bad(t=np.full(200, 7.0)), "time is constant"),
        (bad(t=np.full(200, np.nan)), "column of time, which is empty"),
        (bad(a=np.array([1.0, np.nan]) * np.ones((200, 1))), "column of a of j1, which is empty"),
        (bad(q=np.where(np.arange(200) == 5, 1.0, np.nan)[:, None] * np.ones(2)), "only one row"),
        (bad(tau=np.zeros((200, 2))), "all torques are zero"),
        (bad(tau=np.array([0.0, 1.0]) * np.ones((200, 1))), "torque of joint j0 is zero"),
        (bad(q=np.zeros((200, 3))), "it has 3 joints"),
    ],
)
@pytest.mark.parametrize("rows", [1, 65_536])
def test_what_cannot_be_repaired_is_one_line(samples: Samples, problem: str, rows: int) -> None:
    with pytest.raises(LogError, match=problem):
        survey(log_of(samples, rows, empty=rows == 1), arm(2))


def at_rest(kind: str, rate: float, *, prismatic: bool = False) -> Log:
    """Joint 0 moves, joint 1 stands or hardly moves, with what real sensors make of it; velocities are recorded."""
    t = np.arange(int(12.0 * rate)) / rate
    x = recording(t, 2)
    assert x.v is not None
    assert x.tau is not None
    rng = np.random.default_rng(4)
    q, v = x.q.copy(), x.v.copy()
    v[:, 1] = 0.0
    now_and_then = rng.random(len(t)) < 0.02
    unit = 0.02 if prismatic else 1.0
    if kind == "one step":
        q[:, 1] = unit * (0.3 + 1e-5 * now_and_then)
    elif kind == "few steps of 12 bits":
        q[:, 1] = unit * (0.3 + 2.0 * np.pi / 4096 * now_and_then * rng.integers(-2, 3, len(t)))
    elif kind == "few steps of 10 bits":
        q[:, 1] = unit * (0.3 + 2.0 * np.pi / 1024 * now_and_then * rng.integers(-2, 3, len(t)))
    elif kind == "noise":
        q[:, 1] = unit * (0.3 + 1e-4 * rng.standard_normal(len(t)))
        v[:, 1] = unit * 1e-2 * rng.standard_normal(len(t))
    elif kind == "one jump, against it":
        q[:, 1] = unit * (0.3 + 1e-4 * (t > 5.0))
        v[:, 1] = np.where(np.abs(t - 5.0) < 1.0 / rate, -1e-3, 0.0)
    elif kind == "slower than its velocity can show":
        q[:, 1] = unit * np.round(0.3 + 3e-3 * t, 5)
        v = np.round(v, 2)
    else:
        q[:, 1] = 0.3
    return Log(t, q, v=v, tau=x.tau)


@pytest.mark.parametrize("prismatic", [False, True])
@pytest.mark.parametrize("rate", [100.0, 1000.0])
@pytest.mark.parametrize(
    "kind",
    [
        "locked", "one step", "few steps of 12 bits", "few steps of 10 bits", "noise", "one jump, against it",
        "slower than its velocity can show",
    ],
)  # fmt: skip
def test_a_joint_that_stands_may_flicker(kind: str, rate: float, prismatic: bool) -> None:
    assert survey(at_rest(kind, rate, prismatic=prismatic), arm(2, prismatic=prismatic)).notes == ()


@pytest.mark.parametrize("step", [1e-6, 2.0 * np.pi / 4096])
def test_velocities_that_are_none_are_refused_on_coarse_encoders_too(step: float) -> None:
    x = recording(T, 2)
    assert x.v is not None
    q = np.round(x.q / step) * step
    for v, problem in (
        (x.v * [1.0, 0.0], "j1 is zero throughout"),
        (x.v * [1.0, -1.0], "j1 is the slope .* other sign"),
    ):
        with pytest.raises(LogError, match=problem):
            survey(Log(T, q, v=v, tau=x.tau), arm(2))
    assert survey(Log(T, q, v=np.round(x.v, 1), tau=x.tau), arm(2)).notes == ()


def test_an_encoder_that_flickers_stands() -> None:
    for kind in ("one step", "few steps of 12 bits", "few steps of 10 bits"):
        assert survey(at_rest(kind, 100.0), arm(2)).standing_joints(np.ones(2)).tolist() == [False, True]
    grid = np.array([[x, y] for x in (0.0, 0.5, 1.0) for y in (0.0, 0.4, 0.8)])  # postures on a grid are no flicker
    rest = np.zeros_like(grid)
    assert (
        not survey(Log(np.arange(9.0), grid, v=rest, a=rest, tau=1.0 + grid), arm(2)).standing_joints(np.ones(2)).any()
    )
