"""The recursion on momenta through the front door, and the joint weighted estimate beside it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import IdentificationError
from dynid.estimation.identification import Identification
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque, truth, with_friction

# Ha, Ko & Kwon's SCARA: model parameters, and the sums of sines on which they were recalculated.
X = np.array([17.55, 7.55, 2.343, 0.176, 3.11, 0.35])
A = np.array([[1.1, -0.4], [0.8, 0.5], [0.09, -0.05], [1.3, -0.6]])
GENERAL = (A, np.array([[1.7, 4.3], [2.3, 5.1], [2.9, 6.1], [3.1, 5.7]]),
           np.array([[0.3, 1.1], [-0.7, 0.4], [0.9, -0.2], [1.7, 0.6]]))  # fmt: skip
SYMMETRIC = (A, np.tile([np.pi / 2.0, np.pi], (4, 1)), np.full((4, 2), -np.pi / 2.0))  # even about t = 2 s
STEP, WINDOW = 0.002, 0.496


def scara_motion(start: float, stop: float, motion: tuple[Array, Array, Array]) -> Motion:
    size, w, phase = motion
    t = np.arange(round(start / STEP), round(stop / STEP) + 1, dtype=np.float64) * STEP
    x = w * t[:, None, None] + phase
    q, v, a = size * np.sin(x), size * w * np.cos(x), -size * w**2 * np.sin(x)
    return Motion(t, q.sum(axis=2), v.sum(axis=2), a.sum(axis=2))


def unknowns(result: Identification) -> Array:
    """X of the paper from base parameters with links of 0.4 and 0.5 m."""
    zz1, zz2, mx2, my2, m3, zz4 = result.values
    x21 = zz2 + 0.25 * m3 + zz4
    return np.array([zz1 + 0.16 * m3 + x21, x21, 0.4 * mx2 + 0.2 * m3, 0.4 * my2, m3, zz4])


def identified(logs: list[dynid.Log], estimator: str, **options: object) -> Identification:
    """Momentum without friction and rotors."""
    robot, plain = dynid.load_robot("scara"), {"friction": (), "rotor_inertia": False}
    return dynid.identify(robot, logs, model="momentum", estimator=estimator, **plain, **options)  # type: ignore[arg-type]


def one_window(centre: float, motion: tuple[Array, Array, Array]) -> dynid.Log:
    """A log that is long enough for one window about an instant, not for two."""
    piece = scara_motion(centre - 0.5 * WINDOW, centre + 0.5 * WINDOW + 16 * STEP, motion)
    return dynid.simulate(dynid.load_robot("scara"), piece)


@pytest.mark.parametrize(("quadrature", "tolerance"), [("trapezoid", 1e-3), ("smooth", 1e-6)])
@pytest.mark.parametrize("estimator", ["wls", "recursive"])
def test_momenta_of_the_paper(estimator: str, quadrature: str, tolerance: float) -> None:
    robot = dynid.load_robot("scara")
    result = identified([dynid.simulate(robot, scara_motion(0.0, 4.0, GENERAL))], estimator, quadrature=quadrature)
    assert_allclose(unknowns(result), X, rtol=0.0, atol=tolerance)
    assert (result.model, result.estimator) == ("momentum", estimator)


CENTRES = (1.248, 1.752, 2.752)
"""Of three windows; about t = 2 s the first is the mirror image of the last."""


@pytest.mark.parametrize("estimator", ["wls", "recursive"])
def test_three_intervals_are_enough_without_noise(estimator: str) -> None:
    result = identified([one_window(t, GENERAL) for t in CENTRES], estimator, window=WINDOW)
    assert [sum(factor.count for factor in of_log) for of_log in result.factors] == [4, 4, 4], "one row per joint"
    assert_allclose(unknowns(result), X, rtol=0.0, atol=1e-6)


def test_a_motion_that_runs_back_in_time_is_refused_and_solved_by_batch() -> None:
    """Joint 2's own impulses of a window and its mirror image are alike: rank 2 of 3; all joints together have 6."""
    logs = [one_window(t, SYMMETRIC) for t in CENTRES]
    assert_allclose(unknowns(identified(logs, "wls", window=WINDOW)), X, rtol=0.0, atol=1e-6)
    with pytest.raises(IdentificationError, match=r"joint '2'.*ZZ2 and MX2 and MY2 \(rank 2 of 3.*all joints to"):
        identified(logs, "recursive", window=WINDOW)


def test_a_nearly_lost_block_is_told_by_name() -> None:
    """Windows and almost their mirror images, five times: the rank is full, but joint 2's own values are worthless."""
    rng = np.random.default_rng(0)
    logs = []
    for t in 5 * (*CENTRES, 2.252):
        log = one_window(t, SYMMETRIC)
        assert log.tau is not None
        noise = 0.01 * log.tau.std(axis=0) * rng.standard_normal(log.tau.shape)
        logs.append(dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau + noise))
    recursion, batch = (identified(logs, estimator, window=WINDOW) for estimator in ("recursive", "wls"))
    told = [warning for warning in recursion.warnings if "nearly singular" in warning]
    assert "nearly singular at joint '2': standard deviations of ZZ2, MX2, MY2 are up to" in told[0]
    assert "estimator='wls'" in told[0]
    ratio = recursion.sigma / batch.sigma
    named = {name for name in recursion.names if any(name in warning for warning in told)}
    assert named == {name for name, x in zip(recursion.names, ratio, strict=True) if x > 10.0}
    my2 = batch.names.index("MY2")
    assert recursion.sigma[my2] > 0.5 * batch.values[my2], "worthless indeed"
    assert_allclose(unknowns(batch), X, rtol=0.01)
    assert not any("nearly singular" in warning for warning in batch.warnings)


@pytest.mark.parametrize("model", ["torque", "momentum"])
@pytest.mark.parametrize("validate", [None, 0.3])
def test_the_joint_weighted_estimate_stands_beside(model: str, validate: float | None) -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0), noise=[2.0, 1.0, 0.1])
    recursion, batch = (
        dynid.identify(robot, log, model=model, friction=PLAIN, estimator=estimator, validate=validate)
        for estimator in ("recursive", "wls")
    )
    apart = np.abs(recursion.values - batch.values) / np.hypot(recursion.sigma, batch.sigma)
    k = int(np.argmax(apart))
    notes = [note for note in recursion.notes if note.startswith("compared with all joints together")]
    assert len(notes) == 1
    assert f"at most {apart[k]:.2g} combined standard deviations ({recursion.names[k]}:" in notes[0]
    assert f"NRMSE {recursion.validation.mean:.4f}, wls {batch.validation.mean:.4f}" in notes[0]
    assert not any("nearly singular" in warning for warning in recursion.warnings)


def test_without_noise_there_is_nothing_to_warn_of() -> None:
    robot = dynid.load_robot("puma560")
    motion = fourier_motion(robot)
    for model in ("torque", "momentum"):
        result = dynid.identify(
            robot, log_of(motion, torque(robot, motion)), model=model, friction=(), estimator="recursive"
        )
        assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-6)
        assert not any("nearly singular" in warning for warning in result.warnings)


@pytest.mark.parametrize("model", ["power", "energy"])
def test_models_of_one_channel_are_refused(model: str) -> None:
    robot = dynid.load_robot("scara")
    log = dynid.simulate(robot, fourier_motion(robot))
    with pytest.raises(
        IdentificationError, match=f"model '{model}' adds up all joints, but the recursion works joint by"
    ):
        dynid.identify(robot, log, model=model, estimator="recursive")
