"""Forces on the base: exactness, invariance under how the plate is declared, refusals, gains, the load experiment."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynid import (
    DynidError,
    ForceSensor,
    Identification,
    Log,
    Motion,
    Robot,
    Rotor,
    identify,
    identify_payload,
    joint_parameters,
    load_robot,
    payload_between,
    simulate,
)
from dynid.base.plate import relate_sensors, sufficient_channels
from dynid.kernel.poses import link_poses
from dynid.robot.force_sensor_file import read_sensor
from dynid.robot.table_text import table_text
from dynid.robot.transform import Array
from fourier import fourier_motion


def complete(robot: Robot) -> Robot:
    """Values for what a table leaves open: one solid body per link, nothing where zeros are known."""
    rng = np.random.default_rng(8)
    values = []
    for link in robot.links:
        m, c = 2.0 + rng.random(), rng.uniform(-0.1, 0.1, 3)
        A = rng.uniform(-0.1, 0.1, (3, 3))
        S = A @ A.T + 0.01 * np.eye(3) + m * np.outer(c, c)
        inertia = np.trace(S) * np.eye(3) - S
        own = [*inertia[np.triu_indices(3)], *(m * c), m, 0.3]
        symbols = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M", "Ia")
        moves = 11 if link.moves else 10
        values += [0.0 if s in link.zero else x for s, x in zip(symbols[:moves], own[:moves], strict=True)]
    given = robot.parameters
    return robot.with_parameters(np.where(np.isnan(given), values, given))


@cache
def arm(name: str) -> Robot:
    return complete(load_robot(name))


ANY = ForceSensor(
    position=np.array([0.1, -0.2, -0.3]),
    rotation=Rotation.from_euler("xyz", [0.4, -0.5, 1.2]).as_matrix(),
    reference=np.array([0.02, 0.0, 0.05]),
    sense="robot_on_plate",
    channels=("Mz", "Fx", "Fy", "Mx", "My", "Fz"),
)


def theta_d(robot: Robot, log: Log, **options: object) -> tuple[Array, Array, Identification]:
    """Identified and true parameters of the joint torques."""
    result = identify(robot, log, **{"model": "reaction", **options})  # type: ignore[arg-type]
    found = joint_parameters(result)
    return found.values, found.base.values(robot.parameters), result


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


def moved(sensor: ForceSensor, reading: Array) -> dict[str, tuple[ForceSensor, Array]]:
    """The same wrench as other plates would read it: by the rules of statics, written here anew."""
    F, M = reading[:, :3], reading[:, 3:]  # plate on robot, frame 0, about its origin
    P, R = np.array([0.3, -0.1, -0.4]), Rotation.from_euler("zyx", [0.7, 0.2, -0.4]).as_matrix()
    about = M - np.cross(P, F)
    order = [5, 0, 3, 1, 4, 2]
    names = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
    return {
        "moved": (replace(sensor, position=P), np.hstack([F, about])),
        "reference": (replace(sensor, reference=P), np.hstack([F, about])),
        "turned": (replace(sensor, rotation=R), np.hstack([F @ R, M @ R])),
        "both": (replace(sensor, position=P, rotation=R), np.hstack([F @ R, about @ R])),
        "sense": (replace(sensor, sense="robot_on_plate"), -reading),
        "order": (replace(sensor, channels=tuple(names[k] for k in order)), reading[:, order]),
        "offsets": (sensor, reading + np.array([10.0, -20.0, 30.0, 4.0, -5.0, 6.0])),
        "known": (replace(sensor, offsets="known", offset=np.full(6, 2.0)), reading + 2.0),
    }


@pytest.mark.parametrize("case", moved(ForceSensor(), np.zeros((1, 6))))
def test_a_plate_that_is_declared_as_it_is_changes_nothing(case: str) -> None:
    robot = arm("puma560")
    log = simulate(robot, fourier_motion(robot))
    assert log.reaction is not None
    before, truth, _ = theta_d(robot, log)
    sensor, reading = moved(ForceSensor(), log.reaction)[case]
    other = Log(log.t, log.q, v=log.v, a=log.a, reaction=reading)
    after, _, result = theta_d(robot, other, sensor=sensor)
    np.testing.assert_allclose(after, before, rtol=0.0, atol=1e-9 * np.abs(truth).max())
    assert result.verdict.level == "good"


def test_friction_does_not_show() -> None:
    robot = arm("puma560")
    rough = replace(
        robot, links=tuple(replace(link, friction=(("viscous", 9.0), ("coulomb", 20.0))) for link in robot.links)
    )
    motion = fourier_motion(robot)
    smooth, truth, _ = theta_d(robot, simulate(robot, motion))
    np.testing.assert_allclose(theta_d(rough, simulate(rough, motion))[0], smooth, atol=1e-9 * np.abs(truth).max())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(ANY, sense="plate_on_robot"), "negative"),
        (replace(ANY, position=ANY.position + np.array([0.0, 0.0, 0.02])), "mm away"),
        (replace(ANY, reference=ANY.reference - np.array([0.0, 0.0, 0.1])), "mm away"),
        (replace(ANY, rotation=np.eye(3)), "residual|NRMSE"),
        (replace(ANY, channels=("Mz", "Fy", "Fx", "Mx", "My", "Fz")), "residual|NRMSE"),
        (replace(ANY, offsets="known", offset=np.array([0.0, 15.0, 0.0, 0.0, 0.0, 0.0])), "residual|NRMSE|away"),
    ],
    ids=["sense", "position", "reference", "rotation", "order", "offset"],
)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_wrong_declaration_is_noticed(wrong: ForceSensor, said: str, noise: float) -> None:
    robot = arm("puma560").with_sensor(ANY)
    log = simulate(robot, fourier_motion(robot, duration=20.0), plate_noise=noise)
    right = identify(robot, log, model="reaction")
    assert right.verdict.level == "good", right.verdict
    result = identify(robot, log, model="reaction", sensor=wrong)
    assert result.verdict.level != "good"
    assert any(word in str(result.verdict) for word in said.split("|")), result.verdict
    assert any(word in " ".join(result.warnings) for word in said.split("|"))


def test_what_stands_on_the_plate_and_known_offsets() -> None:
    robot = arm("puma560")
    sensor = replace(
        ANY, offsets="known", offset=np.arange(6.0), mass=12.0, com=np.array([0.2, -0.1, 0.05]), sense="plate_on_robot"
    )
    log = simulate(robot.with_sensor(sensor), fourier_motion(robot))
    bare = simulate(robot.with_sensor(replace(sensor, mass=0.0)), fourier_motion(robot))
    assert log.reaction is not None
    assert bare.reaction is not None
    weight = -12.0 * robot.gravity
    P = sensor.position + sensor.rotation @ sensor.reference
    F, M = sensor.rotation.T @ weight, sensor.rotation.T @ np.cross(sensor.com - P, weight)
    np.testing.assert_allclose((log.reaction - bare.reaction)[0], [M[2], F[0], F[1], M[0], M[1], F[2]], atol=1e-10)
    found, truth, result = theta_d(robot.with_sensor(sensor), log)
    np.testing.assert_allclose(found, truth, atol=1e-9 * np.abs(truth).max())
    assert result.rank == relate_sensors(robot, tared=False).reaction.count == 41  # and the total mass
    assert not any(name.startswith("O") for name in result.names)


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
    with pytest.raises(DynidError, match=r"Fx, Fz cannot tell ZZ1, .*Mx Mz; My Mz"):
        identify(robot, log, model="reaction", sensor=ForceSensor(channels=("Fx", "Fz")))
    part = identify(robot, log, model="reaction", sensor=ForceSensor(channels=("Fx", "Fz")), partial=True)
    truth = part.equation.base.values(robot.parameters)
    base = [k for k, name in enumerate(part.names) if not name.startswith("O")]
    np.testing.assert_allclose(part.values[base], truth, atol=1e-9)
    with pytest.raises(DynidError, match="cannot tell"):
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


def test_results_and_sensors_come_back_from_files(tmp_path: Path) -> None:
    sensor = replace(
        ANY, gain=np.full(6, 0.01), noise=np.arange(1.0, 7.0), rotors=(Rotor("1", 50.0, 1e-4),), mass=3.0,
        com=np.array([0.1, 0.2, 0.3]),
    )  # fmt: skip
    robot = arm("puma560").with_sensor(sensor)
    motion = fourier_motion(robot)
    log = simulate(robot, motion, plate_noise=0.1)
    result = identify(robot, log, model="reaction")
    result.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    np.testing.assert_array_equal(again.predict(motion), result.predict(motion))
    np.testing.assert_array_equal(joint_parameters(again).sigma, joint_parameters(result).sigma)
    np.testing.assert_array_equal(again.systematic, result.systematic)
    (tmp_path / "robot.toml").write_text(table_text(robot))
    loaded = load_robot(tmp_path / "robot.toml")
    assert loaded.sensor is not None
    np.testing.assert_allclose(loaded.sensor.map, sensor.map, atol=1e-12)
    np.testing.assert_allclose(loaded.sensor.constant(robot.gravity), sensor.constant(robot.gravity), atol=1e-12)
    np.testing.assert_allclose(reaction(loaded, motion), reaction(robot, motion), atol=1e-8)


SENSOR = """
position = [0.1, 0.0, -0.2]
rpy = [0, 0, 90]
angles = "deg"
sense = "robot_on_plate"
channels = ["fx", "Fz", "cy"]
noise = [1, 1, 0.1]
gain = 0.02
offsets = "tared"
[[rotor]]
joint = "1"
ratio = 100
inertia = 1e-4
"""


def test_a_sensor_file_is_read_with_all_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "plate.toml"
    path.write_text(SENSOR)
    sensor = read_sensor(path)
    assert sensor.channels == ("Fx", "Fz", "My")
    assert sensor.gain is not None
    np.testing.assert_allclose(sensor.gain, 0.02)
    np.testing.assert_allclose(sensor.rotation @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-15)
    for wrong, said in (
        ('sense = "up"', "sense"),
        ('channels = ["Fq"]', "no channel 'Fq'"),
        ('channels = ["Fx", "Fx"]', "each once"),
        ("position = [1, 2]", "position"),
        ("hight = 3", "unknown key 'hight'"),
        ("noise = [1, 2]", "noise"),
        ("gain = -1", "gain"),
        ("mass = -2", "mass"),
        ("offsets = [1]", "offset"),
        ("= 3", "TOML"),
    ):
        path.write_text(wrong)
        with pytest.raises(DynidError, match=said):
            read_sensor(path)
    with pytest.raises(DynidError, match="cannot be read"):
        read_sensor(tmp_path / "none.toml")


def test_what_cannot_be_is_said_in_one_line() -> None:
    robot = arm("puma560")
    motion = fourier_motion(robot, duration=2.0)
    log = simulate(robot, motion)
    for options, said in (
        ({"model": "reaction", "friction": ("viscous",)}, "does not feel friction"),
        ({"model": "reaction", "joints": ["1"]}, "joints="),
        ({"model": "reaction", "estimator": "recursive"}, "not with forces on the base"),
        ({"model": "torque+reaction", "estimator": "huber"}, "judges joint torques alone"),
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


def load_experiment() -> tuple[Robot, Motion, Array]:
    """Paper 004, section 5.3: only the third joint of the PUMA 562 moves; 3.87 kg are fixed at 0.514 m."""
    t = np.arange(1200) / 100.0
    A, w, p = np.array([0.9, 0.35, 0.15]), np.array([1.9, 4.7, 8.3]), np.array([0.2, 1.0, 2.1])
    q, v, a = (np.zeros((1200, 3)) for _ in range(3))
    q[:, 1] = 0.3
    phase = np.outer(t, w) + p
    q[:, 2], v[:, 2], a[:, 2] = np.sin(phase) @ A, np.cos(phase) @ (A * w), -np.sin(phase) @ (A * w**2)
    return arm("puma562"), Motion(t, q, v, a), np.array([3.87, 0.514])


def with_load(robot: Robot, mass: float, along: Array) -> Robot:
    """Add a point mass at `along` in the last link's frame."""
    X = robot.parameters.copy()
    first = robot.parameter_names.index("XX3")
    S = mass * np.outer(along, along)
    X[first : first + 6] += (np.trace(S) * np.eye(3) - S)[np.triu_indices(3)]
    X[first + 6 : first + 10] += [*(mass * along), mass]
    return robot.with_parameters(X)


def reaction(robot: Robot, motion: Motion) -> Array:
    """Readings without noise."""
    log = simulate(robot, motion)
    assert log.reaction is not None
    return log.reaction


def paper_values(p: list[float]) -> list[float]:
    """Ten parameters m, m r (xyz), K (xx xy yy xz yz zz) in the paper's axes; its z, x, y are our x, y, z."""
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = p
    return [zz, xz, yz, xx, xy, yy, mz, mx, my, m]


def test_the_paper_s_robot_stands_as_it_should() -> None:
    """Wrenches of an independent program for the load experiment, at three instants."""
    robot, _, (M, length) = load_experiment()
    p1 = [13.0, 0, -0.5, 0, 1.0, 0, 1.0, 0, 0, 1.2]
    p2 = [17.4, 0, 1.0, 1.2, 1.5, 0, 1.0, 0, -0.3, 0.6]
    p3 = [6.04, 0.0, 0.8, 0.802, 0.6, 0.0, 0.545, 0.0, -0.103, 0.1]
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = p1
    first = [xx, xy, xz, yy, yz, zz, mx, my, mz, m]  # link 1 has the paper's axes
    X = np.array([*first, 0.0, *paper_values(p2), 0.0, *paper_values(p3), 0.0])
    bare = robot.with_parameters(X)
    bare = bare.with_sensor(ForceSensor(position=np.array([0.0, 0.0, 0.002])))  # its shoulder is 0.670 m high
    loaded = with_load(bare, M, np.array([length, 0.0, 0.0]))
    for q3, v3, a3, unloaded, full in (
        (0.6027986473956499, 1.9361777410347902, -16.07128356506154,
         [-10.344061528968641, 0.0, 365.73292903844805, 13.813377170773249, -38.226408346006636, 1.3284767300296383],
         [-36.00017164392356, 0.0, 424.1760859370765, 13.813377170773249, -105.20870535048066, 1.3284767300296383]),
        (-0.8705076794746124, -0.09664655581442112, -1.4615233930401104,
         [-0.9824603912952128, 0.0, 356.837069095926, 12.670891417556575, -8.5692967724327, 0.12617633454290136],
         [-3.4192316645578207, 0.0, 393.2160530762676, 12.670891417556575, -6.8049761652088065, 0.12617633454290136]),
    ):  # fmt: skip
        rows = (np.array([row]) for row in ([0.0, 0.3, q3], [0.0, 0.0, v3], [0.0, 0.0, a3]))
        motion = Motion(np.zeros(1), *rows)
        assert reaction(bare, motion)[0] == pytest.approx(unloaded, rel=1e-9, abs=1e-9)
        assert reaction(loaded, motion)[0] == pytest.approx(full, rel=1e-9, abs=1e-9)


def load_of(loaded: Identification, bare: Identification) -> tuple[Array, Array]:
    """M l and M l^2 with deviations, by the difference of two results on one plate."""
    a, b = joint_parameters(loaded), joint_parameters(bare)
    k = [a.names.index("MX3"), a.names.index("ZZ3")]
    common = a.systematic - b.systematic
    C = a.scatter + b.scatter + common.T @ common
    return (a.values - b.values)[k], np.sqrt(np.diag(C))[k]


def test_the_load_experiment() -> None:
    robot, motion, (M, length) = load_experiment()
    loaded = with_load(robot, M, np.array([length, 0.0, 0.0]))
    results = [identify(r, simulate(r, motion), model="reaction") for r in (loaded, robot)]
    found, _ = load_of(*results)
    np.testing.assert_allclose(found, [1.98918, 1.02243852], atol=1e-9)
    both = [simulate(r, motion) for r in (loaded, robot)]
    for payload in (payload_between(*results), identify_payload(robot, *both, model="reaction")):
        assert payload.value("MX") == pytest.approx(1.98918, abs=1e-9)
        assert payload.value("ZZ") == pytest.approx(1.02243852, abs=1e-9)
        assert {"M", "MZ", "XX", "YY"} <= {item.name for item in payload.lost}  # one joint moved, the plate was tared
        assert np.isnan(payload.mass)


def test_offsets_of_the_plate_do_not_become_a_load() -> None:
    robot, motion, (M, length) = load_experiment()
    loaded = with_load(robot, M, np.array([length, 0.0, 0.0]))
    logs = []
    for r, offset in ((loaded, 7.0), (robot, -20.0)):
        log = simulate(r, motion)
        assert log.reaction is not None
        logs.append(Log(log.t, log.q, v=log.v, a=log.a, reaction=log.reaction + offset))
    results = [identify(robot, log, model="reaction") for log in logs]
    np.testing.assert_allclose(load_of(*results)[0], [1.98918, 1.02243852], atol=1e-9)
    for payload in (payload_between(*results), identify_payload(robot, *logs, model="reaction")):
        assert payload.value("MX") == pytest.approx(1.98918, abs=1e-9)
        assert payload.value("ZZ") == pytest.approx(1.02243852, abs=1e-9)
    found = joint_parameters(results[0])
    assert np.isnan(found.values[found.names.index("MX2")])  # it holds the offset of a moment


def test_uncertain_gains_are_covered_by_the_deviations() -> None:
    robot, motion, (M, length) = load_experiment()
    loaded = with_load(robot, M, np.array([length, 0.0, 0.0]))
    clean = [simulate(r, motion) for r in (loaded, robot)]
    on_plate = robot.with_sensor(ForceSensor(gain=np.full(6, 0.01)))
    inside = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        gain = 1.0 + 0.01 * rng.standard_normal(6)  # one plate, both runs
        results = []
        for log in clean:
            assert log.reaction is not None
            peak = np.abs(log.reaction - log.reaction.mean(axis=0)).max()
            reading = gain * (log.reaction + 0.002 * peak * rng.standard_normal(log.reaction.shape))
            noisy = Log(log.t, log.q, v=log.v, a=log.a, reaction=reading)
            results.append(identify(on_plate, noisy, model="reaction"))
        payload = payload_between(*results)
        found = np.array([payload.value("MX"), payload.value("ZZ")])
        sigma = payload.sigma[[payload.names.index("MX"), payload.names.index("ZZ")]]
        inside.append(np.abs(found - [1.98918, 1.02243852]) < 1.96 * sigma)
    share = np.mean(inside, axis=0)
    assert (share >= 0.90).all(), share
    assert (share <= 0.99).all(), share
