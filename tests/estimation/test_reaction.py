"""Forces on the base: exactness, friction, rotors, missing channels, torques beside forces, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid import (
    DynidError,
    ForceSensor,
    Log,
    Rotor,
    identify,
    joint_parameters,
    simulate,
)
from dynid.dynamics.kernels.links import link_poses
from dynid.identifiability.base_reactions import sufficient_channels
from fourier import fourier_motion
from plates import ANY, arm, reaction, theta_d


@pytest.mark.parametrize("name", ["one_link", "puma562", "puma560", "scara", "panda", "gautier3", "rx90"])
def test_without_noise_the_joint_torques_parameters_are_exact(name: str) -> None:
    for sensor in (None, ANY):
        robot = arm(name).with_sensor(sensor)
        log = simulate(robot, fourier_motion(robot))
        found, truth, result = theta_d(robot, log)
        np.testing.assert_allclose(found, truth, rtol=0.0, atol=1e-9 * np.abs(truth).max())
        assert result.verdict.level == "good", result.verdict


def test_recorded_torques_are_predicted_from_the_plate_alone() -> None:
    robot = arm("puma560")
    without_rotors = robot.with_parameters(
        np.where([name.startswith("Ia") for name in robot.parameter_names], 0.0, robot.parameters)
    )
    result = identify(robot, simulate(robot, fourier_motion(robot)), model="reaction")
    fresh = fourier_motion(robot, seed=9)
    expected = simulate(without_rotors, fresh).tau
    assert expected is not None
    np.testing.assert_allclose(joint_parameters(result).torque(fresh), expected, atol=1e-9)
    np.testing.assert_allclose(result.predict(fresh), reaction(robot, fresh), atol=1e-8)


def test_friction_does_not_show() -> None:
    robot = arm("puma560")
    rough = replace(
        robot, links=tuple(replace(link, friction=(("viscous", 9.0), ("coulomb", 20.0))) for link in robot.links)
    )
    motion = fourier_motion(robot)
    smooth, truth, _ = theta_d(robot, simulate(robot, motion))
    np.testing.assert_allclose(theta_d(rough, simulate(rough, motion))[0], smooth, atol=1e-9 * np.abs(truth).max())


def test_rotors_that_spin_faster_than_their_joints() -> None:
    robot = arm("puma560")
    rotors = (Rotor("2", 107.0, 2e-4, np.array([0.0, 1.0, 0.0])), Rotor("3", -54.0, 1e-4, np.array([1.0, 0.0, 1.0])))
    motion = fourier_motion(robot, rate=1000.0, duration=3.0)
    spun, bare = (simulate(robot.with_sensor(ForceSensor(rotors=some)), motion) for some in (rotors, ()))
    assert spun.reaction is not None
    assert bare.reaction is not None
    poses = link_poses(robot, motion.q)
    H = np.zeros((len(motion), 3))  # angular momentum of the spins; their moment is its slope, by differences here
    for rotor, carrier, joint in zip(rotors, (0, 1), (1, 2), strict=True):
        spin = rotor.inertia * rotor.ratio * motion.v[:, joint]
        H += spin[:, None] * (poses.rotation[carrier] @ rotor.axis)
    slope = np.gradient(H, motion.t, axis=0, edge_order=2)
    np.testing.assert_allclose((spun.reaction - bare.reaction)[2:-2, 3:], slope[2:-2], atol=1e-4 * np.abs(slope).max())
    np.testing.assert_allclose(spun.reaction[:, :3], bare.reaction[:, :3], atol=1e-12)
    found, truth, _ = theta_d(robot.with_sensor(ForceSensor(rotors=rotors)), spun)
    np.testing.assert_allclose(found, truth, atol=1e-9 * np.abs(truth).max())
    both = identify(robot.with_sensor(ForceSensor(rotors=rotors)), spun, model="torque+reaction", friction=())
    assert both.value("Ia2") == pytest.approx(107.0**2 * 2e-4)


def test_rotors_of_unknown_inertia_are_refused() -> None:
    robot = arm("puma560").with_sensor(ForceSensor(rotors=(Rotor("2", 100.0),)))
    log = simulate(robot, fourier_motion(robot, duration=2.0))
    with pytest.raises(DynidError, match=r"joint 2 is unknown.*ratio\^2 J"):
        identify(robot, log, model="reaction")
    direct = arm("puma560").with_sensor(ForceSensor(rotors=(Rotor("2", 1.0),)))
    assert identify(direct, log, model="reaction").rank == 46


def test_missing_channels_are_refused_with_the_sets_that_would_do() -> None:
    robot = arm("puma560")
    log = simulate(robot.with_sensor(ForceSensor(channels=("Fx", "Fz"))), fourier_motion(robot))
    with pytest.raises(DynidError, match=r"Fx, Fz do not determine ZZ1, .*Mx Mz; My Mz"):
        identify(robot, log, model="reaction", sensor=ForceSensor(channels=("Fx", "Fz")))
    part = identify(robot, log, model="reaction", sensor=ForceSensor(channels=("Fx", "Fz")), partial=True)
    truth = part.equation.base.values(robot.parameters)
    base = [k for k, name in enumerate(part.names) if not name.startswith("O")]
    np.testing.assert_allclose(part.values[base], truth, atol=1e-9)
    with pytest.raises(DynidError, match="do not determine"):
        joint_parameters(part)
    for channels in sufficient_channels(robot):
        log = simulate(robot.with_sensor(ForceSensor(channels=channels)), fourier_motion(robot))
        found, truth, _ = theta_d(robot, log, sensor=ForceSensor(channels=channels))
        np.testing.assert_allclose(found, truth, atol=1e-8)


def test_torques_and_forces_together() -> None:
    robot = arm("panda")
    rng = np.random.default_rng(3)
    rough = replace(
        robot, links=tuple(replace(link, friction=(("viscous", 2.0), ("coulomb", 3.0))) for link in robot.links)
    )
    clean = simulate(rough, fourier_motion(robot, duration=20.0))
    assert clean.tau is not None
    assert clean.reaction is not None
    tau = clean.tau + rng.standard_normal(clean.tau.shape)
    reaction = clean.reaction + 0.2 * rng.standard_normal(clean.reaction.shape)
    log = Log(clean.t, clean.q, v=clean.v, a=clean.a, tau=tau, reaction=reaction)
    plain = ("viscous", "coulomb", "offset")
    both = identify(robot, log, model="torque+reaction", friction=plain)
    alone = identify(robot, log, model="torque", friction=plain)
    for result in (both, alone):
        friction = [k for k, name in enumerate(result.names) if name.startswith(("Fv", "Fc"))]
        true = [2.0 if result.names[k].startswith("Fv") else 3.0 for k in friction]
        assert (np.abs(result.values[friction] - true) < 4.0 * result.sigma[friction]).all()
    found = joint_parameters(both)
    truth = found.base.values(robot.parameters)
    assert (np.abs(found.values - truth) < 4.0 * found.sigma).all()
    assert set(both.channels) == {*robot.joint_names, "Fx", "Fy", "Fz", "Mx", "My", "Mz"}
    inertial = [name for name in found.names if name in alone.names and name.startswith(("XX", "XY", "YZ"))]
    ratio = [found.sigma[found.names.index(n)] / alone.sigma[alone.names.index(n)] for n in inertial]
    assert np.median(ratio) < 0.5  # the plate carries the inertias
    np.testing.assert_allclose(both.predict(fourier_motion(robot)).shape, (1000, 7))


def test_positions_alone_are_enough() -> None:
    robot = arm("puma560")
    log = simulate(robot, fourier_motion(robot, duration=20.0, rate=500.0), plate_noise=0.3)
    q = log.q + 1e-5 * np.random.default_rng(2).standard_normal(log.q.shape)
    found = joint_parameters(identify(robot, Log(log.t, q, reaction=log.reaction), model="reaction"))
    off = np.abs(found.values - found.base.values(robot.parameters)) / found.sigma
    assert (off < 3.0).mean() > 0.9
    assert (off < 5.0).all()


def test_what_cannot_be_is_said_in_one_line() -> None:
    robot = arm("puma560")
    motion = fourier_motion(robot, duration=2.0)
    log = simulate(robot, motion)
    for options, said in (
        ({"model": "reaction", "friction": ("viscous",)}, "do not depend on friction"),
        ({"model": "reaction", "joints": ["1"]}, "joints="),
        ({"model": "reaction", "estimator": "recursive"}, "not with forces on the base"),
        ({"model": "torque+reaction", "estimator": "huber"}, "outliers in joint torques only"),
        ({"model": "torque", "sensor": ForceSensor()}, "no force plate"),
        ({"model": "reaction", "sensor": ForceSensor(channels=("Mx", "Mz"))}, "6 channels .* the sensor has 2"),
        ({"model": "reaction", "sensor": ForceSensor(rotors=(Rotor("9", 2.0, 1.0),))}, "rotor of joint '9'"),
    ):
        with pytest.raises(DynidError, match=said):
            identify(robot, log, **options)
    bare = Log(log.t, log.q, tau=log.tau)
    with pytest.raises(DynidError, match="no forces on the base"):
        identify(robot, bare, model="reaction")
    with pytest.raises(DynidError, match="has torque parameters already"):
        joint_parameters(identify(robot, log, friction=()))


def test_declared_rotors_and_nominal_ia_are_one_thing() -> None:
    """simulate puts n^2 J into the torques where the plate feels n J; a nominal Ia that disagrees is named."""
    bare = arm("puma560")
    robot = bare.with_sensor(ForceSensor(rotors=[Rotor(name, 60.0, 2e-4) for name in bare.joint_names]))  # type: ignore[arg-type]
    assert robot.parameters[robot.parameter_names.index("Ia4")] == pytest.approx(0.72)
    assert [f"Ia{j} = " in text for j, text in zip("123456", robot.warnings, strict=True)] == [True] * 6
    log = simulate(robot, fourier_motion(robot), noise=0.05, plate_noise=0.05)
    assert log.notes == robot.warnings
    result = identify(robot, log, model="torque+reaction", friction=())
    assert set(robot.warnings) <= set(result.warnings)
    np.testing.assert_allclose(result.validation.rmse, 0.05, rtol=0.1)  # the noise; torques were off by 15 %
    right = robot.with_parameters(robot.parameters)
    assert not right.warnings
    assert not identify(right, log, model="torque+reaction", friction=()).warnings
    stale = right.with_parameters(bare.parameters)
    assert stale.warnings == robot.warnings
    np.testing.assert_array_equal(stale.parameters, right.parameters)


def test_rotors_of_unknown_inertia_have_the_nominal_one_in_simulations_and_are_named_in_results() -> None:
    robot = arm("puma560").with_sensor(ForceSensor(rotors=(Rotor("2", 100.0),)))
    declared = arm("puma560").with_sensor(ForceSensor(rotors=(Rotor("2", 100.0, robot.links[1].rotor / 100.0**2),)))
    motion = fourier_motion(robot, duration=4.0)
    for key in ("tau", "reaction"):
        np.testing.assert_allclose(getattr(simulate(robot, motion), key), getattr(simulate(declared, motion), key))
    for model in ("reaction", "torque+reaction"):
        with pytest.raises(DynidError, match="inertia of joint 2 is unknown"):
            identify(robot, simulate(robot, motion), model=model)
        told = identify(robot, simulate(robot, motion), model=model, friction=(), partial=True).warnings
        assert any("inertia of joint 2 is unknown: its spin is left out" in text for text in told)


@pytest.mark.parametrize("model", ["torque", "torque+reaction"])
def test_a_declared_rotor_that_the_data_contradict_is_named(model: str) -> None:
    bare = arm("puma560")
    true = bare.with_sensor(ForceSensor(rotors=(Rotor("4", 60.0, 2e-4), Rotor("5", 60.0, 1e-4))))
    log = simulate(true, fourier_motion(bare), noise=0.05, plate_noise=0.05)
    wrong = bare.with_sensor(ForceSensor(rotors=(Rotor("4", 60.0, 2e-4), Rotor("5", 60.0, 2e-4))))
    right, off = (identify(robot, log, model=model, friction=()) for robot in (true, wrong))
    assert not [text for text in right.warnings if "the data alone say" in text]
    named = [text for text in off.warnings if "the data alone say" in text]
    assert len(named) == 1
    assert named[0].startswith("Ia5 = 0.72 was declared")
