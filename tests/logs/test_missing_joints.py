"""Joints that a robot file has and a log has not: locked with one note where that is right, else refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from command_line import CommandLine
from dynid import Log, Motion, identify, load_robot, read_log, simulate
from dynid.errors import LogError
from dynid.robot.robot import Robot
from mistakes import arm_urdf, csv
from robots import smooth_path

FINGERS = {"finger_left": 0.0, "finger_right": 0.0}
WHEELS = "".join(
    f'<link name="{x}"/><joint name="{x}_wheel" type="continuous"><parent link="base"/><child link="{x}"/>'
    '<axis xyz="0 1 0"/></joint>'
    for x in "ab"
)


def gripper(folder: Path) -> Path:
    file = folder / "gripper.urdf"
    file.write_text(arm_urdf(gripper=True))
    return file


def recording(robot: Robot, seconds: float = 12.0) -> Log:
    t = np.arange(0.0, seconds, 0.01)
    return simulate(robot, smooth_path(robot, t, seed=1, scale=2.0), noise=0.05, seed=0)


def write(path: Path, log: Log, names: tuple[str, ...], beside: dict[str, np.ndarray] | None = None) -> Path:
    lines = csv(log, names).splitlines()
    for name, values in (beside or {}).items():
        lines = [f"{lines[0]},{name}", *(f"{line},{x:.9g}" for line, x in zip(lines[1:], values, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return gripper(tmp_path)


@pytest.fixture
def arm(file: Path) -> Robot:
    return load_robot(file, lock=FINGERS)


def test_the_result_is_the_one_with_the_joints_locked(file: Path, arm: Robot, tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", recording(arm), arm.joint_names)
    free = load_robot(file)
    found, asked = identify(free, read_log(log, free)), identify(arm, read_log(log, arm))
    assert_allclose(found.values, asked.values, rtol=1e-12, atol=1e-14)
    assert found.robot.locks == FINGERS
    assert [note.facts["positions"] for note in found.robot.notes if note.code == "joints_locked"] == [FINGERS]
    found.save(tmp_path / "r.json")
    saved = dynid.Identification.load(tmp_path / "r.json")
    assert saved.robot.locks == FINGERS
    done = dynid.export(saved, tmp_path / "out.urdf")
    assert done.verification.error < 1e-9
    assert load_robot(tmp_path / "out.urdf").joint_names == free.joint_names
    bodies = dynid.physical_parameters(saved, prior=str(file))
    assert bodies.robot.locks == FINGERS


def test_a_log_in_memory_is_that_of_the_arm_before_the_gripper(file: Path, arm: Robot) -> None:
    log = recording(arm)
    found = identify(load_robot(file), log)
    assert found.robot.locks == FINGERS
    assert_allclose(found.values, identify(arm, log).values, rtol=1e-12, atol=1e-14)


def test_an_mjcf_is_locked_alike(tmp_path: Path) -> None:
    body = '<inertial pos="0.1 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>'
    (tmp_path / "arm.xml").write_text(
        f"""<mujoco model="arm"><compiler autolimits="true"/>
<worldbody><body name="a">{body}<joint name="j1" axis="0 0 1"/>
<body name="b" pos="0.3 0 0">{body}<joint name="j2" axis="0 1 0"/><body name="f" pos="0.3 0 0">{body}
<joint name="grip" type="slide" axis="0 1 0"/></body></body></body></worldbody></mujoco>"""
    )
    robot, held = load_robot(tmp_path / "arm.xml"), load_robot(tmp_path / "arm.xml", lock={"grip": 0.0})
    log = write(tmp_path / "log.csv", recording(held), held.joint_names)
    assert_allclose(identify(robot, log).values, identify(held, log).values, rtol=1e-12, atol=1e-14)


def test_locking_later_is_locking_at_once(file: Path) -> None:
    from dynid.robot.load import lock_loaded_robot

    lock = {"finger_left": 0.02, "lift": 0.4}
    later, once = lock_loaded_robot(load_robot(file), lock), load_robot(file, lock=lock)
    assert later.joint_names == once.joint_names
    assert later.locks == once.locks == lock
    assert_allclose(later.parameters, once.parameters, rtol=1e-12, atol=1e-15)
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (5, once.n))
    motion = Motion(np.arange(5.0), q, q, q)
    assert_allclose(dynid.regressor(later, motion).matrix, dynid.regressor(once, motion).matrix, rtol=1e-12, atol=1e-12)


def test_a_joint_that_stands_is_locked_where_it_was_recorded(file: Path, arm: Robot, tmp_path: Path) -> None:
    jitter = 0.0213 + 1e-5 * np.sin(np.arange(1200))
    log = write(tmp_path / "log.csv", recording(arm), arm.joint_names, {"position.finger_left (mm)": 1000.0 * jitter})
    read = read_log(log, load_robot(file))
    assert read.locks == {"finger_left": pytest.approx(0.0213, abs=2e-5), "finger_right": 0.0}
    assert read.standing_joints == {"finger_left"}
    assert read.q.shape[1] == 3
    assert read.between(1.0, 5.0).locks == read.locks


def test_a_joint_that_moves_without_torque_is_refused(file: Path, arm: Robot, tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.csv", recording(arm), arm.joint_names, {"position.finger_left": np.linspace(0, 0.03, 1200)}
    )
    with pytest.raises(LogError) as caught:
        read_log(log, load_robot(file))
    assert caught.value.code == "joint_moves_without_torque"
    assert caught.value.facts["joint"] == "finger_left"
    assert read_log(log, load_robot(file, lock={"finger_left": 0.015})).locks == {"finger_right": 0.0}


@pytest.mark.parametrize("names", ["number", "array", "list"])
def test_counted_columns_are_those_of_the_arm_before_the_gripper(
    names: str, file: Path, arm: Robot, tmp_path: Path
) -> None:
    log, free = recording(arm), load_robot(file)
    assert log.tau is not None
    if names == "array":
        np.savez(tmp_path / "log.npz", t=log.t, q=log.q, tau=log.tau)
        read = read_log(tmp_path / "log.npz", free)
    elif names == "list":
        path = write(tmp_path / "log.csv", log, ("x", "y", "z"))
        read = read_log(path, free, columns={
            "q": ["position.x", "position.y", "position.z"], "tau": ["effort.x", "effort.y", "effort.z"]
        })  # fmt: skip
    else:
        read = read_log(write(tmp_path / "log.csv", log, ("1", "2", "3")), free, gain=[1.0, 2.0, 3.0])
        assert read.tau is not None
        assert_allclose(read.tau, log.tau * [1.0, 2.0, 3.0], atol=1e-3)
    assert read.locks == FINGERS
    assert_allclose(read.q, log.q, atol=1e-5)


def test_an_arm_with_a_joint_more_than_a_counted_recording_is_another_robot(arm: Robot, tmp_path: Path) -> None:
    """Bare numbers say nothing of names: four joints in a row are not an arm of three and a gripper."""
    (tmp_path / "four.urdf").write_text(arm_urdf(joints=("a", "b", "c", "d")))
    log = write(tmp_path / "log.csv", recording(arm), ("1", "2", "3"))
    with pytest.raises(LogError) as caught:
        read_log(log, load_robot(tmp_path / "four.urdf"))
    assert caught.value.code == "channel_missing_for_joints"
    np.savez(tmp_path / "log.npz", t=np.arange(9.0), q=np.zeros((9, 3)), tau=np.zeros((9, 3)))
    with pytest.raises(LogError) as caught:
        read_log(tmp_path / "log.npz", load_robot(tmp_path / "four.urdf"))
    assert caught.value.code == "column_count_mismatch"


def test_wheels_that_come_first(arm: Robot, tmp_path: Path) -> None:
    """By name they are locked; numbers could count the arm or the wheels: refused."""
    file = tmp_path / "mobile.urdf"
    file.write_text(arm_urdf().replace("</robot>", WHEELS + "</robot>"))
    robot, log = load_robot(file), recording(arm)
    assert robot.joint_names[:2] == ("a_wheel", "b_wheel")
    assert read_log(write(tmp_path / "a.csv", log, arm.joint_names), robot).locks == {"a_wheel": 0.0, "b_wheel": 0.0}
    with pytest.raises(LogError):
        read_log(write(tmp_path / "b.csv", log, ("1", "2", "3")), robot)
    numbered = write(tmp_path / "c.csv", log, ("3", "4", "5"), {"q1": np.full(1200, 0.5), "q2": np.zeros(1200)})
    read = read_log(numbered, robot)  # torques of joints 3 to 5 alone: the others stand
    assert read.locks == {"a_wheel": 0.5, "b_wheel": 0.0}
    assert_allclose(read.q, log.q, atol=1e-5)


@pytest.mark.parametrize(
    ("absent", "code"),
    [
        (("lift",), "channel_missing_for_joints"),  # between two that are there
        (("turn", "lift"), None),  # with a warning, see below
        (("lift", "bend"), None),  # beyond the recorded one, whose body they are
        (("turn",), None),  # about the direction of gravity
        (("bend",), None),
    ],
)
def test_which_joints_may_be_missing(absent: tuple[str, ...], code: str | None, arm: Robot, tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(arm_urdf())
    robot, log = load_robot(tmp_path / "arm.urdf"), recording(arm, 2.0)
    assert log.tau is not None
    kept = [j for j, name in enumerate(robot.joint_names) if name not in absent]
    some = Log(log.t, log.q[:, kept], tau=log.tau[:, kept])
    path = write(tmp_path / "log.csv", some, tuple(robot.joint_names[j] for j in kept))
    if code is None:
        assert read_log(path, robot).locks == dict.fromkeys(absent, 0.0)
        return
    with pytest.raises(LogError) as caught:
        read_log(path, robot)
    assert caught.value.code == code


def test_an_unseen_joint_that_turns_gravity_for_the_others_is_locked_with_a_warning(tmp_path: Path) -> None:
    """A waist that the log does not have: at 0, as an upright robot has it, and its position is asked for."""
    (tmp_path / "arm.urdf").write_text(arm_urdf())
    free, held = (load_robot(tmp_path / "arm.urdf", lock=lock) for lock in ({}, {"turn": 0.0, "lift": 0.0}))
    log = write(tmp_path / "log.csv", recording(held), held.joint_names)
    found, asked = identify(free, log), identify(held, log)
    assert_allclose(found.values, asked.values, rtol=1e-12, atol=1e-14)
    assert found.robot.locks == {"turn": 0.0, "lift": 0.0}
    told = [warning for warning in found.warnings if warning.code == "position_of_locked_joint_unknown"]
    assert [warning.facts["joints"] for warning in told] == [["lift"]]
    codes = {warning.code for warning in identify(load_robot(tmp_path / "arm.urdf", lock={"lift": 0.4}), log).warnings}
    assert "position_of_locked_joint_unknown" not in codes


HAND = "".join(
    f'<link name="{x}{k}"/><joint name="{x}{k}_joint" type="continuous"><parent link="{f"{x}{k - 1}" if k else "l2"}"/>'
    f'<child link="{x}{k}"/><axis xyz="0 1 0"/></joint>'
    for x in ("thumb", "index", "little")
    for k in range(3)
)


@pytest.mark.parametrize("kind", ["named", "counted", "array", "array with names"])
def test_a_hand_with_more_joints_than_the_arm_is_locked(kind: str, arm: Robot, tmp_path: Path) -> None:
    """Three of twelve joints: fewer than half is no other robot, as long as no other joints are named."""
    file = tmp_path / "hand.urdf"
    file.write_text(arm_urdf().replace("</robot>", HAND + "</robot>"))
    robot, log = load_robot(file), recording(arm)
    assert robot.n == 12
    assert log.tau is not None
    if kind.startswith("array"):
        names = np.array(arm.joint_names if kind != "array" else ["a file of arrays"])
        np.savez(tmp_path / "log.npz", t=log.t, q=log.q, tau=log.tau, names=names)
        path = tmp_path / "log.npz"
    else:
        path = write(tmp_path / "log.csv", log, arm.joint_names if kind == "named" else ("1", "2", "3"))
    found = identify(robot, path)
    assert found.robot.locks == dict.fromkeys(robot.joint_names[3:], 0.0)
    assert np.mean(found.validation.nrmse) < 0.05


def test_few_joints_beside_more_of_other_names_are_another_robot(arm: Robot, tmp_path: Path) -> None:
    (tmp_path / "other.urdf").write_text(arm_urdf(joints=("turn", "x", "y", "z", "u")))
    robot, log = load_robot(tmp_path / "other.urdf"), recording(arm, 2.0)
    with pytest.raises(LogError) as caught:
        read_log(write(tmp_path / "log.csv", log, arm.joint_names), robot)
    assert caught.value.code == "log_of_other_robot"


def test_where_a_missing_joint_stands_does_not_matter_for_the_fit(tmp_path: Path) -> None:
    """The law behind it: rows of the other joints span the same space wherever such joints stand."""
    (tmp_path / "arm.urdf").write_text(arm_urdf())
    rng = np.random.default_rng(3)
    for name in ("turn", "bend"):
        spaces = []
        for position in (0.0, 0.9):
            robot = load_robot(tmp_path / "arm.urdf", lock={name: position})
            rng = np.random.default_rng(3)
            q, v, a = (rng.standard_normal((50, 2)) for _ in range(3))
            spaces.append(dynid.regressor(robot, Motion(np.arange(50.0), q, v, a)).matrix)
        both = np.hstack(spaces)
        ranks = [np.linalg.matrix_rank(x, tol=1e-9 * np.linalg.norm(x)) for x in (*spaces, both)]
        assert ranks[0] == ranks[1] == ranks[2]


def test_a_joint_with_torques_but_without_positions_is_refused(file: Path, arm: Robot, tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", recording(arm), arm.joint_names, {"effort.finger_left": np.zeros(1200)})
    with pytest.raises(LogError) as caught:
        read_log(log, load_robot(file))
    assert caught.value.code == "channel_missing_for_joints"


def test_logs_must_agree(file: Path, arm: Robot, tmp_path: Path) -> None:
    free, log = load_robot(file), recording(arm)
    paths = {
        key: write(tmp_path / f"{key}.csv", log, arm.joint_names, beside)
        for key, beside in (
            ("none", {}),
            ("here", {"position.finger_left": np.full(1200, 0.01)}),
            ("there", {"position.finger_left": np.full(1200, 0.03)}),
            ("all", {f"{x}.finger_{s}": np.zeros(1200) for x in ("position", "effort") for s in ("left", "right")}),
        )
    }
    assert identify(free, [paths["none"], paths["here"]]).robot.locks == {"finger_left": 0.01, "finger_right": 0.0}
    for pair, code in ((("here", "there"), "locked_joint_differs"), (("none", "all"), "joints_missing_in_other_logs")):
        with pytest.raises(LogError) as caught:
            identify(free, [paths[name] for name in pair])
        assert caught.value.code == code


def test_the_command_line(
    file: Path, arm: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(monkeypatch, capsys)
    log = write(tmp_path / "log.csv", recording(arm), arm.joint_names)
    done = run("identify", file, log, "--out", tmp_path / "r.json", "--json", tmp_path / "s.json")
    assert done.out.count("note: not in the log") == 1
    said = json.loads((tmp_path / "s.json").read_text())
    assert said["locks"] == FINGERS
    assert any(message["code"] == "joints_locked" for message in said["messages"])
    run("export", tmp_path / "r.json", tmp_path / "out.urdf", code=1)
    assert load_robot(tmp_path / "out.urdf").n == 5
    motion = tmp_path / "motion.csv"
    path = smooth_path(arm, np.arange(0.0, 1.0, 0.01), seed=2)
    columns = {f"{x}.{name}": block[:, j] for x, block in (("q", path.q), ("v", path.v), ("a", path.a))
               for j, name in enumerate(arm.joint_names)}  # fmt: skip
    table = np.column_stack([path.t, *columns.values()])
    np.savetxt(motion, table, delimiter=",", header=",".join(["t", *columns]), comments="")
    assert run("simulate", file, motion).out.count("note: not in the log") == 1


def test_a_payload_is_carried_by_the_last_recorded_link(file: Path, arm: Robot, tmp_path: Path) -> None:
    free = load_robot(file)
    heavy = arm.with_parameters(np.asarray(arm.parameters) + payload_of(arm))
    paths = [write(tmp_path / f"{k}.csv", recording(robot), arm.joint_names) for k, robot in enumerate((arm, heavy))]
    found = dynid.identify_payload(free, paths[1], paths[0])
    assert found.link == "l2"
    assert dict(zip(found.names, found.values, strict=True))["M"] == pytest.approx(1.5, abs=0.1)
    assert any(note.code == "joints_locked" for note in found.notes)


def payload_of(robot: Robot) -> np.ndarray:
    change = np.zeros(len(robot.parameter_names))
    for symbol, x in zip(("YY", "ZZ", "MX", "M"), (0.06, 0.06, 0.3, 1.5), strict=True):
        change[robot.parameter_names.index(f"{symbol}:l2")] = x
    return change


def test_files_that_are_joined_and_headers(file: Path, arm: Robot, tmp_path: Path) -> None:
    """Positions of a finger that stands in one file, torques of the arm in another; a header that counts the arm."""
    free, log = load_robot(file), recording(arm, 4.0)
    assert log.tau is not None
    q = np.column_stack([log.t, log.q, np.full(len(log.t), 0.0125)])
    names = [f"position.{name}" for name in (*arm.joint_names, "finger_left")]
    np.savetxt(tmp_path / "q.csv", q, delimiter=",", header=",".join(["t", *names]), comments="")
    tau = [f"effort.{name}" for name in arm.joint_names]
    table = np.column_stack([log.t, log.tau])
    np.savetxt(tmp_path / "tau.csv", table, delimiter=",", header=",".join(["t", *tau]), comments="")
    both = read_log([tmp_path / "q.csv", tmp_path / "tau.csv"], free)
    assert both.locks == {"finger_left": pytest.approx(0.0125), "finger_right": 0.0}
    assert both.tau is not None
    assert_allclose(both.tau, log.tau[: len(both.t)], atol=1e-9)
    np.savetxt(tmp_path / "plain.csv", np.column_stack([log.t, log.q, log.tau]), delimiter=",")
    plain = read_log(tmp_path / "plain.csv", free, header="t,q*3,tau*3")
    assert plain.locks == FINGERS
    frame = read_log({"t": log.t, "q": log.q, "tau": log.tau}, free)
    assert frame.locks == FINGERS
