"""Friction travels with the model, and the error of the file itself is reported; what is not trusted is not written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import with_bodies
from command_line import CommandLine
from dynid.cli.output.recordings import write_log
from dynid.exports.subject import refit_plain_friction
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from recordings import CASES, PLAIN, judge, logs
from robots import smooth_path
from urdf_texts import URDF

RECIPE = ("viscous", "offset", "stop1e-4", "stop1e-2", "tanh", "quadratic")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def recorded(robot: Any, *, seed: int = 0, noise: float = 0.02) -> Any:
    motion = smooth_path(robot, np.arange(0.0, 12.0, 0.01), scale=2.0)
    return dynid.simulate(robot, motion, noise=noise, seed=seed)


def untrusted() -> dynid.Identification:
    """Torques that have nothing to do with the motion."""
    robot = with_bodies("gautier3", friction=True)
    log = recorded(robot)
    tau = np.random.default_rng(0).standard_normal(log.tau.shape)
    result = dynid.identify(robot, dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=tau), friction=PLAIN)
    assert result.verdict.level == "do not trust"
    return result


def test_what_is_not_trusted_is_written_by_force_only(tmp_path: Path, run: CommandLine) -> None:
    result = untrusted()
    result.save(tmp_path / "result.json")
    bodies = dynid.physical_parameters(result)
    for subject in (result, bodies):
        for name in ("robot.urdf", "robot.xml"):
            file = tmp_path / name
            with pytest.raises(dynid.DynidError) as refused:
                dynid.export(subject, file)
            assert refused.value.code == "untrusted_result"
            assert not file.exists()
            assert dynid.export(subject, file, force=True).warnings[0].code == "untrusted_result"
            file.unlink()
    dynid.export(result, tmp_path / "robot.c")  # torques alone, no model of bodies
    for name in ("robot.urdf", "robot.xml"):
        assert "--force" in run.fails("export", tmp_path / "result.json", tmp_path / name)
        assert not (tmp_path / name).exists()
        run("export", tmp_path / "result.json", tmp_path / name, "--force", code=1)
        assert (tmp_path / name).exists()


def test_identify_writes_no_urdf_of_what_is_not_trusted(tmp_path: Path, run: CommandLine) -> None:
    robot = with_bodies("gautier3")
    dynid.export(robot, tmp_path / "robot.toml")
    log = recorded(robot)
    tau = np.random.default_rng(0).standard_normal(log.tau.shape)
    write_log(tmp_path / "log.csv", dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=tau))
    words = ("identify", tmp_path / "robot.toml", tmp_path / "log.csv", "--friction", "viscous,coulomb,offset")
    done = run(*words, "--urdf", tmp_path / "new.urdf", code=2)
    assert "--force" in done.err
    assert not (tmp_path / "new.urdf").exists()
    run(*words, "--urdf", tmp_path / "new.urdf", "--force", code=1)
    assert (tmp_path / "new.urdf").exists()
    assert "--urdf" in run.fails(*words, "--force")


@pytest.mark.parametrize("per_log", [False, True])
def test_refitted_friction_is_least_squares_beside_the_bodies(per_log: bool) -> None:
    """As if sign(v) were fitted to what the rigid body leaves of the torques, within 5 % though no sample is kept."""
    robot = with_bodies("gautier3", friction=True)
    data = [recorded(robot), recorded(robot, seed=1)]
    result = dynid.identify(robot, data, friction=RECIPE, friction_per_log=per_log)
    found = refit_plain_friction(result, springs=True)
    rigid = dynid.regressor(robot, Motion(*(getattr(data[0], x) for x in "tqva"))).matrix[
        :, list(result.equation.base.kept)
    ]
    count, place = robot.n, {name: k for k, name in enumerate(result.names)}
    torque = (rigid @ [result.values[place[name]] for name in result.equation.base.names]).reshape(-1, count)
    for j in range(count):
        v = np.concatenate([log.v[:, j] for log in data])
        left = np.concatenate([log.tau[:, j] - torque[:, j] for log in data])
        columns = np.column_stack([v, np.sign(v), np.ones(len(v))])
        best = np.linalg.lstsq(columns, left, rcond=None)[0]
        off = columns @ (found[:3, j] - best)
        assert np.sqrt((off**2).mean()) < 0.05 * np.abs(columns @ best).mean()
    assert not found[3].any()


def test_refitted_friction_is_never_negative() -> None:
    robot = with_bodies("gautier3", friction=True)
    log = recorded(robot)
    wrong = dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau - 3.0 * np.sign(log.v) - 5.0 * log.v)
    found = refit_plain_friction(dynid.identify(robot, wrong, friction=RECIPE), springs=False)
    assert_allclose(found[[0, 1]], 0.0, atol=1e-12)
    assert not refit_plain_friction(dynid.identify(robot, log, friction=("lag",)), springs=True).any()


def test_files_carry_friction_and_say_their_error(tmp_path: Path) -> None:
    """The refitted values stand in the files; the replay by the software that loads them is as good as the model."""
    robot = with_bodies("gautier3", friction=True)
    result = dynid.identify(robot, recorded(robot), friction=RECIPE, validate=recorded(robot, seed=5))
    result.save(tmp_path / "result.json")
    again = dynid.Identification.load(tmp_path / "result.json")
    for name, reader in (("robot.urdf", "pinocchio"), ("robot.xml", "MuJoCo"), ("robot.toml", "dynid")):
        done = dynid.export(again, tmp_path / name)
        loaded = dynid.load_robot(tmp_path / name)
        truth = {link.joint: dict(link.friction) for link in robot.links}
        for link in loaded.links:
            for block in ("viscous", "coulomb"):
                assert dict(link.friction)[block] == pytest.approx(truth[link.joint][block], abs=0.15), name
        assert done.replay is not None
        assert done.replay.reader == reader
        assert done.replay.is_validation
        assert done.replay.mean_completed < result.validation.mean + 0.005
        assert (done.replay.mean == done.replay.mean_completed) == (name != "robot.urdf")
        assert "friction_refitted" in [note.code for note in done.notes]


def test_mjcf_holds_springs_with_their_offsets(tmp_path: Path) -> None:
    robot = with_bodies("gautier3", friction=True)
    log = recorded(robot)
    sprung = dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau + 4.0 * log.q)
    result = dynid.identify(robot, sprung, friction=(*RECIPE, "spring"))
    done = dynid.export(result, tmp_path / "robot.xml")
    text = (tmp_path / "robot.xml").read_text()
    stiffness = [float(x) for x in re.findall(r'stiffness="([^"]*)"', text)]
    assert_allclose(stiffness, 4.0, rtol=0.05)
    assert done.verification.passed
    assert done.replay is not None
    assert done.replay.mean == pytest.approx(done.replay.mean_completed)
    assert not [w for w in done.warnings if w.code in ("position_torques_left_out", "constant_torque_left_out")]
    assert "position_torques_left_out" in [w.code for w in dynid.export(result, tmp_path / "robot.urdf").warnings]


def test_columns_of_the_user_are_missing_in_the_file(tmp_path: Path) -> None:
    """The error with what the file cannot hold contains them, also at a joint whose offset the file holds."""
    robot = with_bodies("gautier3", friction=True)
    log = recorded(robot)
    tau = log.tau + np.outer(20.0 * np.sin(3.0 * log.q[:, 1]), [0.0, 1.0, 0.0])
    places = np.linspace(-10.0, 10.0, 2001)
    column = dynid.JointColumn("balance", "2", positions=places, torque=np.sin(3.0 * places))
    data = dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=tau)
    result = dynid.identify(robot, data, friction=PLAIN, columns=[column])
    for name in ("robot.xml", "robot.urdf", "robot.toml"):
        replay = dynid.export(result, tmp_path / name).replay
        assert replay is not None
        assert replay.mean > 5.0 * replay.mean_completed
        assert replay.mean_completed < 2.0 * result.validation.mean + 0.01
    function = dynid.JointColumn("balance", "2", function=lambda q, v: np.sin(3.0 * q[:, 1]))
    dynid.identify(robot, data, friction=PLAIN, columns=[function]).save(tmp_path / "result.json")
    replay = dynid.export(dynid.Identification.load(tmp_path / "result.json"), tmp_path / "robot.xml").replay
    assert replay is not None
    assert np.isnan(replay.completed).tolist() == [False, True, False]  # no file holds the function


def test_a_template_gets_the_friction_too(tmp_path: Path) -> None:
    """All but `<dynamics>` and `<inertial>` stays byte for byte, other attributes of `<dynamics>` included."""
    text = URDF.replace("<dynamics ", '<dynamics spring_stiffness="3" ', 1)
    (tmp_path / "template.urdf").write_text(text, encoding="utf-8")
    robot = dynid.load_robot(tmp_path / "template.urdf")
    truth = {k: (("viscous", 1.5 + k), ("coulomb", 0.5 + k)) for k in range(len(robot.links))}
    links = tuple(replace(link, friction=truth[k]) for k, link in enumerate(robot.links))
    dynid.export(replace(robot, links=links), tmp_path / "new.urdf")
    new = (tmp_path / "new.urdf").read_text(encoding="utf-8")
    parts = re.compile(r"\s*<dynamics[^>]*/>|<inertial>.*?</inertial>", re.DOTALL)
    assert re.sub(r"\s+", "", parts.sub("", new)) == re.sub(r"\s+", "", parts.sub("", text))
    assert new.count('spring_stiffness="3"') == 1
    assert {k: link.friction for k, link in enumerate(dynid.load_robot(tmp_path / "new.urdf").links)} == truth
    dynid.export(dynid.load_robot(tmp_path / "new.urdf"), tmp_path / "again.urdf")
    assert (tmp_path / "again.urdf").read_bytes() == (tmp_path / "new.urdf").read_bytes()


class InMujoco:
    """Torques of an MJCF file by MuJoCo alone."""

    def __init__(self, path: Path, joints: tuple[str, ...]) -> None:
        mujoco = pytest.importorskip("mujoco")
        self.mujoco, self.model = mujoco, mujoco.MjModel.from_xml_path(str(path))
        self.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT)
        self.at = [self.model.joint(name).dofadr[0] for name in joints]

    def predict(self, motion: Motion) -> Array:
        data, tau = self.mujoco.MjData(self.model), np.empty_like(motion.q)
        for k in range(len(motion)):
            data.qpos[self.at], data.qvel[self.at], data.qacc[self.at] = motion.q[k], motion.v[k], motion.a[k]
            self.mujoco.mj_inverse(self.model, data)
            tau[k] = data.qfrc_inverse[self.at]
        return tau


@pytest.mark.parametrize("name", ["ur10", "lwr4", pytest.param("panda", marks=pytest.mark.slow)])
def test_recordings_replayed_by_mujoco(name: str, tmp_path: Path) -> None:
    """The file with the friction that it carries is within 1.3 of plain friction, and the figure reported is right."""
    case, robot = CASES[name], dynid.load_robot(CASES[name].robot)
    fit, rest = logs(case, robot, cut=True)
    options: dict[str, Any] = {"cutoff": case.cutoff, "rotor_inertia": case.rotor_inertia, "validate": rest}
    plain = dynid.identify(robot, fit, friction=PLAIN, **options)
    done = dynid.export(dynid.identify(robot, fit, **options), tmp_path / "robot.xml", force=True)
    judged = judge(case, InMujoco(tmp_path / "robot.xml", robot.joint_names), rest[0])
    assert judged.mean() < 1.3 * judge(case, plain, rest[0]).mean()
    assert done.replay is not None
    assert done.replay.mean == pytest.approx(judged.mean(), rel=0.1)


class InPinocchio:
    """Torques of a URDF by pinocchio alone, with the friction that it has read and what the file says it lacks."""

    def __init__(self, path: Path, done: dynid.Export) -> None:
        self.model = pin.buildModelFromUrdf(str(path))
        self.rotors = np.array([link.rotor for link in done.subject.robot.links])
        self.constant = np.array([dict(link.friction)["offset"] for link in done.subject.robot.links])

    def predict(self, motion: Motion) -> Array:
        model, data, tau = self.model, self.model.createData(), np.empty_like(motion.q)
        for k in range(len(motion)):
            tau[k] = pin.rnea(model, data, motion.q[k], motion.v[k], motion.a[k])
        friction = model.damping * motion.v + model.upperDryFrictionLimit * np.sign(motion.v)
        return np.asarray(tau + friction + self.rotors * motion.a + self.constant)


@pytest.mark.parametrize("name", ["ur10", pytest.param("panda", marks=pytest.mark.slow)])
def test_recordings_replayed_by_pinocchio(name: str, tmp_path: Path) -> None:
    """The same for a URDF, with rotor inertias and constant torques, which it cannot hold, added."""
    case, robot = CASES[name], dynid.load_robot(CASES[name].robot)
    fit, rest = logs(case, robot, cut=True)
    options: dict[str, Any] = {"cutoff": case.cutoff, "rotor_inertia": case.rotor_inertia, "validate": rest}
    plain = dynid.identify(robot, fit, friction=PLAIN, **options)
    done = dynid.export(dynid.identify(robot, fit, **options), tmp_path / "robot.urdf", force=True)
    judged = judge(case, InPinocchio(tmp_path / "robot.urdf", done), rest[0])
    assert judged.mean() < 1.3 * judge(case, plain, rest[0]).mean()
    assert done.replay is not None
    assert done.replay.mean_completed == pytest.approx(judged.mean(), rel=0.1)
