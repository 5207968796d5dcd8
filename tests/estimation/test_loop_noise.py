"""Encoder noise that a controller feeds back: friction looks smoother, and the result says so by name."""

from __future__ import annotations

import numpy as np
import pytest

import dynid
from control_loop import Loop, arm, recorded
from dynid.estimation.identification import Identification
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque, truth, with_friction
from recordings import CASES, logs

WORDS = "encoder noise that the controller feeds back"


def warned(result: Identification) -> str:
    return "".join(text for text in result.warnings if WORDS in text)


@pytest.mark.parametrize("noise", [1e-4, 1e-3])
def test_friction_that_looks_smoother_is_named(noise: float) -> None:
    """Joints, parameters, figures and a remedy; the verdict is not good; Coulomb friction is too small by as much."""
    robot = arm()
    result = dynid.identify(robot, recorded(noise, 0), friction=PLAIN)
    text = warned(result)
    assert result.verdict.level == "usable"
    assert text.count("standard deviations") >= (2 if noise < 1e-3 else 5)
    names = [name for name in result.names if name.startswith("Fc") and name in text]
    assert len(names) >= (1 if noise < 1e-3 else 4)
    if noise == 1e-3:
        error = result.values - truth(robot, result)
        places = [result.names.index(name) for name in names]
        assert (error[places] < 0.0).all()
        assert (np.abs(error[places]) < result.quantile * result.sigma[places]).all()
        assert "pass through zero velocity faster" in str(result.verdict.next_step.facts["why"])


@pytest.mark.parametrize("options", [{"model": "momentum"}, {"estimator": "huber"}, {"estimator": "recursive"},
                                     {"estimator": "ols"}, {"friction": "auto"}])  # fmt: skip
def test_it_is_named_whatever_the_model_and_the_estimator(options: dict[str, str]) -> None:
    result = dynid.identify(arm(), recorded(1e-3, 0), **{"friction": PLAIN, **options})  # type: ignore[arg-type]
    assert warned(result)
    assert result.verdict.level != "good"


@pytest.mark.parametrize("position", [0.0, 1e-4, 1e-3])
def test_noise_outside_a_loop_is_not_accused(position: float) -> None:
    """Noise of encoders and of torque sensors that have nothing to do with one another."""
    for name, share in (("puma560", 0.01), ("gautier3", 0.1)):
        robot = with_friction(dynid.load_robot(name))
        motion = fourier_motion(robot, duration=20.0, rate=200.0)
        tau, rng = torque(robot, motion), np.random.default_rng(4)
        q = motion.q + position * rng.standard_normal(motion.q.shape)
        tau = tau + share * tau.std(axis=0) * rng.standard_normal(tau.shape)
        assert not warned(dynid.identify(robot, dynid.Log(motion.t, q, tau=tau), friction=PLAIN))


def test_exact_data_and_exact_encoders_are_not_accused() -> None:
    robot = with_friction(dynid.load_robot("puma560"))
    motion = fourier_motion(robot, duration=20.0)
    assert not warned(dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN))
    assert not warned(dynid.identify(arm(), recorded(0.0, 0), friction=PLAIN))


@pytest.mark.parametrize("name", CASES)
def test_recordings_are_not_accused(name: str) -> None:
    case = CASES[name]
    robot = dynid.load_robot(case.robot)
    fit, _ = logs(case, robot, cut=False)
    for friction in (PLAIN, "auto"):
        result = dynid.identify(robot, fit, friction=friction, rotor_inertia=case.rotor_inertia)
        assert not warned(result)
        assert not any("noise of the sensors" in text for text in result.warnings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "loop"),
    [(1e-4, Loop()), (1e-3, Loop()), (1e-3, Loop(bandwidth=3.0)), (1e-3, Loop(frequency=0.2, size=1.0))],
)
def test_intervals_of_friction_cover(noise: float, loop: Loop) -> None:
    """At least 90 % in eight runs of 20 s, as those of the inertial parameters; every run is warned of.

    Before, 74 % (1e-4 rad) and 33 % (1e-3 rad) with the first loop. Joints that stick at a reversal, which no column
    of the plain model describes, are another matter: they show without any noise.
    """
    robot = arm()
    hits: dict[bool, list[bool]] = {True: [], False: []}
    for seed in range(8):
        result = dynid.identify(robot, recorded(noise, seed, 20.0, loop), friction=PLAIN)
        assert warned(result)
        assert result.verdict.level == "usable"
        inside = np.abs(result.values - truth(robot, result)) <= result.quantile * result.sigma
        for name, hit in zip(result.names, inside.tolist(), strict=True):
            hits[name.startswith("F")].append(hit)
    assert np.mean(hits[True]) >= 0.9
    assert np.mean(hits[False]) >= 0.9
