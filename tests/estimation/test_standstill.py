"""Pauses: what a model of friction fitted to a motion without standstill says where the robot stands, and vice versa.

A six-joint arm under a PD controller with noisy encoders and LuGre friction: presliding over 2 mrad, 35 % more
friction when slow; or with Coulomb friction that sticks, without that (coulomb) or with it (stribeck). Pauses are
stretches of 1.2 s in which the reference stands, with ramps of 0.25 s.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import dynid
from control_loop import STEP, arm, next_velocity
from dynid.dynamics.friction import PLAIN, SIGNED, FrictionShapes, find_friction_block
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.inference.cross_validation import DEFAULT
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from pinocchio_twin import Twin

HOLD, RAMP, SHARE = 1.2, 0.25, 0.3


def clock(seconds: float, pauses: bool) -> Array:
    """Progress s and its two derivatives (N, 3) along a path of some seconds."""
    t = np.arange(0.0, 2.0 * seconds, STEP)
    moving = HOLD * (1.0 - SHARE) / SHARE - RAMP
    x = np.mod(t, moving + HOLD + 2.0 * RAMP) - moving
    rate = 0.5 + 0.5 * np.cos(np.pi * np.clip(x / RAMP, 0.0, 1.0))
    rate += 0.5 - 0.5 * np.cos(np.pi * np.clip((x - HOLD - RAMP) / RAMP, 0.0, 1.0))
    rate = rate if pauses else np.ones_like(t)
    s = np.concatenate([[0.0], np.cumsum(rate[:-1]) * STEP])
    return np.column_stack([s, rate, np.gradient(rate, STEP)])[s < seconds]


@cache
def recorded(seed: int, pauses: bool, seconds: float = 12.0, friction: str = "lugre") -> tuple[dynid.Log, Array]:
    """Positions and torques of the controller at 1 kHz, and the rate at which the reference advances."""
    robot = arm()
    twin = Twin(robot)
    model, data, n = twin.model, twin.data, robot.n
    rotors = np.array([robot.parameters[robot.parameter_names.index(f"Ia{k}")] for k in range(1, n + 1)])
    viscous, dry = (np.array([dict(link.friction)[name] for link in robot.links]) for name in ("viscous", "coulomb"))
    rng = np.random.default_rng(seed)
    s, rate, change = clock(seconds, pauses).T
    w = 0.2 * np.pi * np.arange(1, 6)
    A, B = rng.standard_normal((2, 5, n))
    S, C = np.sin(np.outer(s, w)), np.cos(np.outer(s, w))
    scale = 0.8 / np.abs(S @ A + C @ B).max(axis=0)
    q_ref, slope = (S @ A + C @ B) * scale, ((C * w) @ A - (S * w) @ B) * scale
    bend = (-(S * w**2) @ A - (C * w**2) @ B) * scale
    v_ref, a_ref = slope * rate[:, None], bend * rate[:, None] ** 2 + slope * change[:, None]
    q, v = q_ref[0].copy(), v_ref[0].copy()
    inertia = np.diag(pin.crba(model, data, q)) + rotors
    stiffness, bandwidth = dry / 2e-3, 12.0 * np.pi
    z, before, speed, tau = np.zeros(n), q, v.copy(), np.zeros(n)
    positions, torques = [], []
    for i in range(len(s)):
        if i % 2 == 0:
            seen = q + 2e-5 * rng.standard_normal(n)
            speed = speed + 0.27 * ((seen - before) / (2.0 * STEP) - speed) if i else speed
            before = seen
            tau = inertia * (bandwidth**2 * (q_ref[i] - seen) + 2.0 * bandwidth * (v_ref[i] - speed) + a_ref[i])
            tau += pin.computeGeneralizedGravity(model, data, q_ref[i]) + viscous * v_ref[i]
            positions.append(seen)
            torques.append(tau)
        level = dry * (1.0 + (0.0 if friction == "coulomb" else 0.35) * np.exp(-((v / 0.05) ** 2)))
        M = np.triu(pin.crba(model, data, q))
        M = M + np.triu(M, 1).T + np.diag(rotors)
        push = tau - pin.nonLinearEffects(model, data, q, v) - viscous * v
        if friction == "lugre":
            z = (z + STEP * v) / (1.0 + STEP * stiffness * np.abs(v) / level)
            v = v + STEP * np.linalg.solve(M, push - stiffness * z)
        else:
            v = next_velocity(M, M @ v + STEP * push, level)
        q = q + STEP * v
    return dynid.Log(
        STEP * np.arange(0.0, len(s), 2.0, dtype=np.float64), np.array(positions), tau=np.array(torques)
    ), rate[::2]


def errors(result: dynid.Identification, log: dynid.Log, rate: Array) -> tuple[float, float]:
    """Mean NRMSE of predictions from positions alone, filtered at 10 Hz by scipy: in motion, and at rest."""
    from scipy.signal import butter, sosfiltfilt

    def low(x: Array) -> Array:
        return np.asarray(sosfiltfilt(butter(4, 10.0 / 500.0, output="sos"), x, axis=0))

    q = low(log.q)
    v = np.gradient(q, 1e-3, axis=0)
    assert log.tau is not None
    tau = low(log.tau)
    left = (low(result.predict(Motion(log.t, q, v, np.gradient(v, 1e-3, axis=0)))) - tau)[400:-400]
    still = rate[400:-400] < 1e-6
    moving, standing = (np.sqrt((left[part] ** 2).mean(axis=0)) / tau.std(axis=0) for part in (~still, still))
    return float(moving.mean()), float(standing.mean())


@pytest.mark.parametrize("block", ["coulomb", "lag", "stribeck"])
def test_blocks_fitted_in_motion_do_not_spoil_predictions_at_rest(block: str) -> None:
    """A sign that is zero, or noise, at rest raised errors there by 30 % (coulomb) and 36 % (lag)."""
    log, _ = recorded(1, False)
    found = [dynid.identify(arm(), log, friction=(*DEFAULT, *some), cutoff=10.0) for some in ((), (block,))]
    without, with_block = (errors(result, *recorded(2, True))[1] for result in found)
    assert with_block < 1.15 * without


def test_the_recipe_knows_friction_at_rest() -> None:
    """The recipe, fitted without pauses and with them, on another motion with pauses."""
    for pauses in (False, True):
        result = dynid.identify(arm(), recorded(1, pauses)[0], cutoff=10.0)
        assert "stop3e-3" in result.friction
        moving, standing = errors(result, *recorded(2, True))
        assert moving < 0.04
        assert standing < 0.08


def cost_of_pauses(friction: str, seeds: tuple[int, ...], blocks: str | tuple[str, ...] = "auto") -> float:
    """Error on motions without pauses of what logs with pauses gave, over that of the same motions without."""
    errors = np.zeros(2)
    for seed in seeds:
        other = [recorded(seed + 1, False, friction=friction)[0]]
        for pauses in (False, True):
            log = recorded(seed, pauses, friction=friction)[0]
            result = dynid.identify(arm(), log, cutoff=10.0, friction=blocks, validate=other)
            errors[int(pauses)] += result.validation.mean
    return float(errors[1] / errors[0])


def test_pauses_do_not_spoil_what_is_identified_in_motion() -> None:
    """30 % of standstill cost at most 10 % in error against the same motion without; it was a factor of 2.8."""
    assert cost_of_pauses("lugre", (1,)) < 1.1


@pytest.mark.slow
@pytest.mark.parametrize("friction", ["coulomb", "stribeck", "lugre"])
@pytest.mark.parametrize("blocks", ["auto", PLAIN], ids=["recipe", "plain"])
def test_pauses_cost_little_whatever_the_friction(friction: str, blocks: str | tuple[str, ...]) -> None:
    """The same for friction that sticks, and for the plain model; single logs scatter by 15 %, so there are two."""
    assert cost_of_pauses(friction, (1, 3), blocks) < 1.1


def test_a_log_with_pauses_says_that_they_hardly_count() -> None:
    """The finding says how much of the log that is."""
    for pauses in (False, True):
        result = dynid.identify(arm(), recorded(1, pauses)[0], cutoff=10.0)
        rests = [m for _, said in result.findings for m in said if m.code == "rests"]
        assert len(rests) == pauses
        assert all(25.0 < m.facts["percent"] < 50.0 for m in rests)


def test_a_log_at_rest_but_for_short_moves_is_still_identified() -> None:
    """Where most rows are at rest, all count: gravity and friction are found as well as they can be."""
    log, rate = recorded(2, True)
    still = np.flatnonzero(rate < 1e-6)
    assert log.tau is not None
    place = np.sort(np.concatenate([np.arange(len(log.t)), *([still[still < still[0] + 1100]] * 12)]))
    t: Array = np.arange(len(place), dtype=np.float64) * 1e-3
    long = dynid.Log(t, log.q[place], tau=log.tau[place])
    result = dynid.identify(arm(), long, cutoff=10.0, validate=[recorded(1, False)[0]])
    assert result.validation.mean < 0.05


def test_at_rest_signs_are_those_of_the_narrowest_stop() -> None:
    """A joint that turns back at once has the sign of its velocity; one that stands has what the stop holds."""
    t = np.arange(0.0, 2.0, 0.01)
    q = np.column_stack([np.cos(3.0 * t), np.where(t < 0.5, -t, -0.5)])
    v = np.column_stack([-3.0 * np.sin(3.0 * t), np.where(t < 0.5, -1.0, 1e-4 * np.cos(300.0 * t))])
    shapes = FrictionShapes(("stop1e-4", *SIGNED), np.ones(2), held=1e-4)
    stops = shapes.stop_values_along(q, -np.ones((1, 2)))
    values = dict(zip(("stop1e-4", *SIGNED), shapes.column_values(t, q, v, stops, None).swapaxes(0, 1), strict=True))
    still = t > 0.6
    for name in ("coulomb", "tanh", "stribeck"):
        exact = find_friction_block(name).value
        assert exact is not None
        np.testing.assert_allclose(values[name][:, 0], exact(q, v)[0][:, 0], atol=1e-12)
        np.testing.assert_allclose(values[name][still, 1], -1.0, atol=0.05)
    assert np.abs(values["lag"][still, 1]).max() < 0.05 / 0.01


def log_with_stops(level: float, *, spring: float = 0.0, seed: int = 0, pauses: bool = True) -> tuple[dynid.Log, Array]:
    """A three-joint arm that pauses six times: dry friction of 20 N m, at rest `level` of that; a spring in motion."""
    robot = dynid.load_robot("gautier3")
    t = np.arange(0.0, 30.0, 2e-3)
    x = np.mod(t, 5.0)
    ramp = np.clip((3.5 - x) / 0.3, 0.0, 1.0) + np.clip((x - 4.7) / 0.3, 0.0, 1.0)
    rate = ramp**3 * (10.0 - 15.0 * ramp + 6.0 * ramp**2) if pauses else np.ones_like(t)
    s = np.cumsum(rate) * 2e-3
    w = np.array([[1.1, 1.7, 2.3], [2.9, 0.7, 1.3]])
    rng = np.random.default_rng(seed)
    phase = s[:, None, None] * w + rng.uniform(0.0, 6.0, w.shape)
    q, slope = np.sin(phase).sum(1), (w * np.cos(phase)).sum(1)
    v = slope * rate[:, None]
    clean = dynid.simulate(robot, Motion(t, q, v, np.gradient(v, t, axis=0)), noise=0.05, seed=seed)
    still = (rate < 1e-9)[:, None]
    assert clean.tau is not None
    tau = clean.tau + 20.0 * np.where(still, level, 1.0) * np.sign(slope) + 5.0 * v + spring * q * ~still
    return dynid.Log(t, q + 1e-5 * rng.standard_normal(q.shape), tau=tau), still[:, 0].astype(np.float64)


def error_at_rest(result: dynid.Identification, log: dynid.Log, still: Array) -> float:
    """RMSE (N m) of predictions deep inside pauses, and nothing of dynid but its prediction."""
    from scipy.signal import butter, sosfiltfilt

    sos = butter(4, 10.0 / 250.0, output="sos")
    q = np.asarray(sosfiltfilt(sos, log.q, axis=0))
    v = np.gradient(q, 2e-3, axis=0)
    deep = (still > 0.5) & (np.roll(still, 200) > 0.5) & (np.roll(still, -200) > 0.5)
    assert log.tau is not None
    left = log.tau - result.predict(Motion(log.t, q, v, np.gradient(v, 2e-3, axis=0)))
    return float(np.sqrt((left[deep] ** 2).mean()))


def test_friction_at_rest_has_a_level_of_its_own_where_pauses_show_it() -> None:
    """A third of dry friction is left at rest: the gate finds it, and other pauses are predicted."""
    robot = dynid.load_robot("gautier3")
    found = dynid.identify(robot, log_with_stops(0.3)[0], cutoff=10.0)
    assert "rest" in found.friction
    assert error_at_rest(found, *log_with_stops(0.3, seed=1)) < 3.0
    never = dynid.identify(robot, log_with_stops(0.3, pauses=False)[0], cutoff=10.0)
    assert "rest" not in {trial.block for trial in never.trials}
    assert error_at_rest(never, *log_with_stops(0.3, seed=1)) > 10.0


def test_the_level_at_rest_survives_files(tmp_path: Path) -> None:
    """A state that was written and read asks the gate the same questions."""
    robot = dynid.load_robot("gautier3")
    state = dynid.collect_state(robot, log_with_stops(0.3)[0], cutoff=10.0)
    state.save(tmp_path / "state.json")
    again = dynid.identify_states([type(state).load(tmp_path / "state.json")])
    assert again.friction == dynid.identify_states([state]).friction
    assert "rest" in again.friction


def test_a_block_that_spoils_rest_is_refused() -> None:
    """A spring is admitted; where rows at rest say the opposite of it, it is not, whatever it gains in motion."""
    robot = dynid.load_robot("gautier3")
    log = log_with_stops(1.0)[0]
    assert log.tau is not None
    state = dynid.collect_state(robot, dynid.Log(log.t, log.q, tau=log.tau + 8.0 * log.q), cutoff=10.0)
    assert "spring" in dynid.identify_states([state]).friction
    columns = state.equation.columns_by_friction_block["spring"]
    places = [c.columns.tolist().index(k) for c, k in zip(state.equation.channels, columns, strict=True)]

    def reversed_spring(factors: tuple[ChannelFactor, ...]) -> tuple[ChannelFactor, ...]:
        found = []
        for place, factor in zip(places, factors, strict=True):
            R = factor.R.copy()
            R[:, -1] -= 40.0 * R[:, place]
            found.append(replace(factor, R=R))
        return tuple(found)

    blocks = [replace(b, unsettled=reversed_spring(b.unsettled)) if b.unsettled else b for b in state.blocks]
    other = replace(state, blocks=tuple(blocks))
    assert "spring" not in dynid.identify_states([other]).friction


@pytest.mark.parametrize("seed", range(10))
def test_fractions_of_rest_are_their_formula(seed: int) -> None:
    """exp(-(v / speed)^2 - (a / 0.3)^2), a the mean acceleration over 50 ms on each side, to 1e-15."""
    rng = np.random.default_rng(seed)
    t: Array = np.arange(400.0) * 0.01
    v = np.cumsum(rng.standard_normal((400, 3)) * rng.choice([1e-4, 1e-3, 1e-2], 3), axis=0)
    v[100:200] *= 1e-3
    shapes, speed = FrictionShapes(("coulomb",), rng.uniform(0.2, 3.0, 3)), rng.uniform(5e-3, 5e-2, 3)
    k = np.arange(400)
    first, last = np.maximum(k - 5, 0), np.minimum(k + 5, 399)
    w = v / shapes.scale
    a = (w[last] - w[first]) / (t[last] - t[first])[:, None]
    expected = np.exp(-((w / speed) ** 2) - (a / 0.3) ** 2)
    np.testing.assert_allclose(shapes.rest_fractions(t, v, speed), expected, atol=1e-15)
