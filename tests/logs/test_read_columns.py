from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynid.errors import LogError
from dynid.logs.columns import ColumnPlan, match_columns
from dynid.logs.read import read_log
from dynid.logs.readers.table import Field
from dynid.robot.load import load_robot

UR10 = load_robot("ur10")
PANDA = load_robot("panda")
SR400 = load_robot("sr400")
STYLES = {
    "q": ["q{}", "q_{}", "q[{}]", "Q{}", "q.{}", "q {}", "pos{}", "position_{}", "positions.{}", "actual_q_{}",
          "joint{}.position", "position.joint{}", "joint{}_pos", "/joint_states/position/joint{}", "joint_{}_position",
          "/arm/joint_states/joint{}/position", "q_joint{}", "measured.q{}", "q{}_rad", "q{} [rad]", "A{}.position",
          "actuator {} position"],
    "v": ["v{}", "qd{}", "dq_{}", "qdot{}", "q_dot_{}", "velocity[{}]", "vel{}", "joint{}.velocity", "q{}_vel",
          "/joint_states/velocity/joint{}", "v{} (rad/s)", "velocities_{}"],
    "a": ["a{}", "qdd{}", "ddq{}", "qddot_{}", "acceleration.{}", "acc{}", "joint{}_acc", "a{}_rad/s^2"],
    "tau": ["tau{}", "tau_{}", "torque{}", "effort.joint{}", "joint{}_effort", "torques[{}]", "tau_joint{}", "tau{}_Nm",
            "actual_current_{}", "current{}"],
}  # fmt: skip
NAMED = [
    "{}.position",
    "position.{}",
    "/joint_states/{}/position",
    "/joint_states/position/{}",
    "{}_pos",
    "q_{}",
    "q[{}]",
]


def match(names: list[str], robot: object = PANDA, **options: object) -> ColumnPlan:
    return match_columns("log.csv", [Field(name) for name in names], robot, **options)  # type: ignore[arg-type]


def found(plan: ColumnPlan, channel: str) -> list[str]:
    return [place.field for place in plan.channels[channel]]


@pytest.mark.parametrize(
    ("channel", "style"), [(channel, style) for channel, styles in STYLES.items() for style in styles]
)
@pytest.mark.parametrize("robot", [PANDA, UR10], ids=["numbered", "named"])
def test_numbers_count_the_joints_in_any_style(channel: str, style: str, robot: object) -> None:
    n = 7 if robot is PANDA else 6
    names = [style.format(j + 1) for j in range(n)]
    positions = [] if channel == "q" else [f"q{j + 1}" for j in range(n)]
    plan = match(["time", *reversed(names), *positions], robot)
    assert found(plan, channel) == names
    assert plan.t.field == "time"


@pytest.mark.parametrize("other", ["cycle_time", "time_to_goal", "execution time", "time_scale", "stamp_time"])
def test_names_that_are_not_the_time(other: str) -> None:
    with pytest.raises(LogError) as caught:
        match([other, *(f"q{j + 1}" for j in range(7))])
    assert caught.value.code == "missing_time"


@pytest.mark.parametrize("style", NAMED)
@pytest.mark.parametrize("short", [False, True])
def test_names_of_joints_decide_in_any_order(style: str, short: bool) -> None:
    names = [style.format(joint.removesuffix("_joint") if short else joint) for joint in UR10.joint_names]
    plan = match(["t", style.format("gripper_joint"), *sorted(names)], UR10)
    assert found(plan, "q") == names
    assert any("gripper_joint" in note for note in plan.notes)


@pytest.mark.parametrize("name", [
    "t", "time", "Time", "timestamp", "times", "stamp", "time_s", "time [s]", "__time", "time_stamp", "sim_time",
    "Elapsed Time (s)", "timestamp [us]", "system.time",
])  # fmt: skip
def test_names_of_the_time(name: str) -> None:
    assert match([name, *(f"q{j}" for j in range(1, 8))]).t.field == name


def test_labels_of_another_robot_count_by_their_numbers() -> None:
    names = [f"position.fer_joint{j}" for j in range(1, 8)]
    plan = match(["t", *names, "position.fer_finger_joint1", "position.fer_finger_joint2"])
    assert found(plan, "q") == names
    assert any("fer_joint1" in note for note in plan.notes)


def test_two_sets_of_labels_are_ambiguous() -> None:
    names = [f"position.{side}_joint{j}" for side in ("left", "right") for j in range(1, 8)]
    with pytest.raises(LogError, match=r"left_joint1.*right_joint1.*columns="):
        match(["t", *names])


def test_numbers_from_zero_are_counted_from_zero() -> None:
    plan = match(["t", *(f"q{j}" for j in range(7))])
    assert found(plan, "q") == [f"q{j}" for j in range(7)]
    assert any("from 0" in note for note in plan.notes)


def test_numbers_beyond_the_robot_are_ignored_with_a_note() -> None:
    plan = match(["t", *(f"q{j}" for j in range(1, 10))])
    assert found(plan, "q") == [f"q{j}" for j in range(1, 8)]
    assert any("'q8', 'q9'" in note for note in plan.notes)


def test_numbers_that_are_the_names_of_active_joints() -> None:
    names = [f"q{name}" for name in SR400.joint_names]
    assert found(match(["t", *names], SR400), "q") == names
    assert found(match(["t", *(f"q{j}" for j in range(1, 7))], SR400), "q") == [f"q{j}" for j in range(1, 7)]
    with pytest.raises(LogError, match="could count the joints or be the names"):
        match(["t", *(f"q{j}" for j in range(1, 8))], SR400)


def test_references_and_motors_are_not_taken_for_measurements() -> None:
    others = [f"{word}{j}" for word in ("q_ref_", "target_q", "q_des", "cmd_position_", "motor_q") for j in range(1, 8)]
    plan = match(["t", *others, *(f"q{j}" for j in range(1, 8))])
    assert found(plan, "q") == [f"q{j}" for j in range(1, 8)]
    on_motors = match(["t", *(f"motor_q{j}" for j in range(1, 8))], motor_side=True)
    assert found(on_motors, "q") == [f"motor_q{j}" for j in range(1, 8)]


@pytest.mark.parametrize(
    ("extra", "listed"),
    [
        ("position.joint1", "'q1', 'position.joint1'"),
        ("tau1 current1", "'tau1', 'current1'"),
        ("time timestamp", "'time'"),
    ],
)
def test_two_columns_for_one_slot_are_an_error_that_lists_both(extra: str, listed: str) -> None:
    with pytest.raises(LogError, match=listed) as caught:
        match([*(["t"] if "time" not in extra else []), *(f"q{j}" for j in range(1, 8)), *extra.split()])
    assert "columns=" in str(caught.value)


def test_a_missing_joint_is_an_error_that_names_it() -> None:
    with pytest.raises(LogError, match=r"missing for the joints 4;.*columns="):
        match(["t", *(f"q{j}" for j in (1, 2, 3, 5, 6, 7))])
    with pytest.raises(LogError, match=r"tau is there as 'tau1', but missing for the joints 2, 3"):
        match(["t", *(f"q{j}" for j in range(1, 8)), "tau1"])


def test_missing_time_and_positions_list_what_was_found() -> None:
    with pytest.raises(LogError, match=r"no column of time.*columns=\{'t'.*'q1'"):
        match([f"q{j}" for j in range(1, 8)])
    with pytest.raises(LogError, match=r"no positions.*'clock_0'.*\(40 in all\)"):
        match(["t", *(f"clock_{j}" for j in range(39))])


def test_a_mapping_overrides_all() -> None:
    names = ["clock", *(f"q{j}" for j in range(1, 8)), *(f"m{j}" for j in range(1, 8)), "spare", "tau1"]
    columns = {"t": "clock", "v": [f"m{j}" for j in range(1, 8)], "q3": "spare", "q.5": "q1", "tau": None}
    plan = match(names, columns=columns)
    assert plan.t.field == "clock"
    assert found(plan, "v") == [f"m{j}" for j in range(1, 8)]
    assert found(plan, "q") == ["q1", "q2", "spare", "q4", "q1", "q6", "q7"]
    assert "tau" not in plan.channels


def test_a_mapping_resolves_an_ambiguity_by_joint_name() -> None:
    names = ["t", *(f"position.{joint}" for joint in UR10.joint_names), "q1"]
    with pytest.raises(LogError, match="could be any of"):
        match(names, UR10)
    assert found(match(names, UR10, columns={"q.shoulder_pan_joint": "q1"}), "q")[0] == "q1"


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"q": "nope"}, "'nope', which is not in the file; found 't', 'q1'"),
        ({"x": "q1"}, "no key 'x'"),
        ({"q9": "q1"}, "no key 'q9'"),
        ({"q": ["q1", "q2"]}, "gives 2 columns for q, which needs 7"),
        ({"q": "q1"}, "q needs 7 columns, 'q1' is one"),
        ({"q1": 5.0}, "must map to names"),
        ("q1", "must be a mapping"),
    ],
)
def test_a_wrong_mapping_says_what_is_wrong(columns: object, problem: str) -> None:
    with pytest.raises(LogError, match=problem):
        match(["t", *(f"q{j}" for j in range(1, 8))], columns=columns)


@pytest.mark.parametrize(
    "names", ["fx fy fz mx my mz", "Fx Fy Fz Cx Cy Cz", "force_x force_y force_z torque_x torque_y torque_z"]
)
def test_the_six_columns_of_a_force_plate_are_the_reaction(names: str) -> None:
    plan = match(["t", *(f"q{j}" for j in range(1, 8)), *reversed(names.split())])
    assert found(plan, "reaction") == names.split()


def test_a_part_of_a_force_plate_is_noted() -> None:
    plan = match(["t", *(f"q{j}" for j in range(1, 8)), "fx", "fy", "fz"])
    assert "reaction" not in plan.channels
    assert any("lacks mx, my, mz" in note for note in plan.notes)


def test_an_array_wider_than_the_robot_asks_for_its_columns(tmp_path: Path) -> None:
    t, q = np.arange(20.0), np.arange(180.0).reshape(20, 9)
    np.savez(tmp_path / "log.npz", t=t, q=q)
    with pytest.raises(LogError, match=r"'q' has 9 columns, q needs 7; pick them with columns=\{'q': 'q\[:, 0:7\]'"):
        read_log(tmp_path / "log.npz", PANDA)
    log = read_log(tmp_path / "log.npz", PANDA, columns={"q": [f"q[:, {k}]" for k in (0, 1, 2, 3, 4, 5, 8)]})
    assert_array_equal(log.q, q[:, [0, 1, 2, 3, 4, 5, 8]])
    for some, kept in (("q[:, 2:9]", range(2, 9)), (["q[:, :5]", "q[:, 7:]"], (0, 1, 2, 3, 4, 7, 8))):
        assert_array_equal(read_log(tmp_path / "log.npz", PANDA, columns={"q": some}).q, q[:, list(kept)])
    for wrong in ("q[:, 0:10]", "q[:, 3:10]", "q[:, 5:5]", "p[:, 0:7]"):
        with pytest.raises(LogError):
            read_log(tmp_path / "log.npz", PANDA, columns={"q": wrong})


@pytest.mark.parametrize("turned", [False, True])
def test_one_matrix_of_everything_by_its_columns(turned: bool, tmp_path: Path) -> None:
    data = np.arange(22.0 * 50).reshape(50, 22)
    np.savez(tmp_path / "log.npz", data=data.T if turned else data)
    names = [f"data[{k}, :]" if turned else f"data[:, {k}]" for k in range(22)]
    columns = {"t": names[0], "q": names[1:8], "v": names[8:15], "tau": names[15:]}
    log = read_log(tmp_path / "log.npz", PANDA, columns=columns)
    assert_array_equal(log.t, data[:, 0])
    assert_array_equal(log.q, data[:, 1:8])
    assert_array_equal(log.tau, data[:, 15:])


def test_columns_that_only_look_like_a_channel_are_noted() -> None:
    plan = match(["t", *(f"q{j}" for j in range(1, 8)), *(f"torque_sensor_{j}" for j in range(1, 8))])
    assert "tau" not in plan.channels
    assert any(note.startswith("no tau was found, though these look alike: 'torque_sensor_1'") for note in plan.notes)


def test_the_columns_of_a_panda_as_libfranka_calls_them() -> None:
    names = [f"{name}[{j}]" for name in ("q", "q_d", "dq", "dq_d", "tau_J", "tau_J_d", "tau_ext_hat") for j in range(7)]
    plan = match(["time", *names])
    assert found(plan, "q") == [f"q[{j}]" for j in range(7)]
    assert found(plan, "v") == [f"dq[{j}]" for j in range(7)]
    assert found(plan, "tau") == [f"tau_J[{j}]" for j in range(7)]


def test_the_columns_of_a_ur_as_rtde_calls_them() -> None:
    names = [
        f"{name}_{j}"
        for name in ("target_q", "target_moment", "actual_q", "actual_qd", "actual_current")
        for j in range(6)
    ]
    plan = match(["timestamp", *names, "robot_mode"], UR10)
    assert found(plan, "q") == [f"actual_q_{j}" for j in range(6)]
    assert found(plan, "tau") == [f"actual_current_{j}" for j in range(6)]
    assert plan.in_current
