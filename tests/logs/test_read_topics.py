"""Bags beyond JointState: messages of controllers, messages of any kind by their fields, and several topics joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid.errors import LogError
from dynid.logs.log import Log, Samples
from dynid.logs.read import FileSource, read_log
from dynid.logs.survey import survey
from dynid.robot.transform import Array
from log_makers import arm, fourier
from log_writers import Message, csv_text, forget_definitions, header, joint_state, type_store, write_bag

pytest.importorskip("rosbags.rosbag2")
ROBOT = arm(3)
NAMES = list(ROBOT.joint_names)
ORDER = [2, 0, 1]
EPOCH = 1_700_000_000_123_456_789
POINT = "trajectory_msgs/JointTrajectoryPoint"
BODY = "trajectory_msgs/MultiDOFJointTrajectoryPoint"
RELEASES = {
    "foxy": ("desired actual error", ""),
    "humble": ("reference feedback error output desired actual", "reference feedback error output desired actual"),
    "jazzy": ("reference feedback error output", "reference feedback error output"),
}


def motion(rate: float, duration: float = 2.0, start: float = 0.0) -> Samples:
    t = np.arange(start, duration, 1.0 / rate)
    q, v, a = fourier(t, 3, base=0.4)
    return Samples(t, q, v, a, 3.0 * q + 0.5 * a, np.column_stack([a, v]))


def stamps(samples: Samples) -> list[int]:
    return [EPOCH + round(1e9 * t) for t in samples.t]


def make(store: Any, kind: str, *values: Any) -> Any:
    return store.types[kind.replace("__", "/msg/")](*values)


def check(log: Log, samples: Samples, *channels: str) -> None:
    assert log.channels == set(channels)
    assert_allclose(log.t, samples.t - samples.t[0], atol=1e-12)
    for name in ("q", *channels):
        assert_allclose(getattr(log, name), getattr(samples, name), atol=1e-12)


def dynamic_states(store: Any, samples: Samples) -> list[Message]:
    """As a broadcaster writes them: joints and interfaces in orders of their own, and a gripper without effort."""
    assert samples.v is not None and samples.tau is not None  # noqa: PT018
    messages = []
    for stamp, q, v, tau in zip(stamps(samples), samples.q, samples.v, samples.tau, strict=True):
        parts = [
            make(
                store,
                "control_msgs__InterfaceValue",
                ["velocity", "effort", "position"],
                np.array([v[j], tau[j], q[j]]),
            )
            for j in ORDER
        ]
        parts.insert(1, make(store, "control_msgs__InterfaceValue", ["position"], np.array([0.04])))
        names = [NAMES[ORDER[0]], "gripper", *(NAMES[j] for j in ORDER[1:])]
        message = make(store, "control_msgs__DynamicJointState", header(stamp), names, parts)
        messages.append(("/dynamic_joint_states", stamp + 1000, message))
    return messages


@pytest.mark.parametrize(("storage", "has_definitions"), [("mcap", True), ("sqlite3", True), ("sqlite3", False)])
def test_dynamic_joint_states(storage: str, has_definitions: bool, tmp_path: Path) -> None:
    store = type_store(
        control_msgs__InterfaceValue="string[] interface_names\nfloat64[] values\n",
        control_msgs__DynamicJointState="std_msgs/Header header\nstring[] joint_names\n"
        "control_msgs/InterfaceValue[] interface_values\n",
    )
    samples = motion(100.0)
    bag = write_bag(tmp_path / "bag", dynamic_states(store, samples), storage, store)
    check(read_log(bag if has_definitions else forget_definitions(bag), ROBOT), samples, "v", "tau")


def point(store: Any, q: Any, v: Any = (), tau: Any = ()) -> Any:
    values = [np.array(x, dtype=np.float64) for x in (q, v, (), tau)]
    return make(
        store, "trajectory_msgs__JointTrajectoryPoint", *values, make(store, "builtin_interfaces__Duration", 0, 0)
    )


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("has_definitions", [True, False])
def test_states_of_a_trajectory_controller(release: str, has_definitions: bool, tmp_path: Path) -> None:
    points, bodies = (words.split() for words in RELEASES[release])
    text = "std_msgs/Header header\nstring[] joint_names\n" + "".join(f"{POINT} {name}\n" for name in points)
    if bodies:
        text += "string[] multi_dof_joint_names\n" + "".join(f"{BODY} multi_dof_{name}\n" for name in bodies)
    store = type_store(control_msgs__JointTrajectoryControllerState=text)
    samples = motion(100.0)
    assert samples.v is not None and samples.tau is not None  # noqa: PT018
    nobody = make(
        store,
        "trajectory_msgs__MultiDOFJointTrajectoryPoint",
        [],
        [],
        [],
        make(store, "builtin_interfaces__Duration", 0, 0),
    )
    messages = []
    for stamp, q, v, tau in zip(stamps(samples), samples.q, samples.v, samples.tau, strict=True):
        measured, output = point(store, q[ORDER], v[ORDER], tau[ORDER]), point(store, (), (), 2.0 * tau[ORDER])
        known = {"feedback": measured, "actual": measured, "output": output}
        given = [known.get(name, point(store, 0.0 * q)) for name in points]
        values = [
            header(stamp),
            [NAMES[j] for j in ORDER],
            *given,
            *([[], *(nobody for _ in bodies)] if bodies else ()),
        ]
        messages.append(
            ("/jtc/controller_state", stamp, make(store, "control_msgs__JointTrajectoryControllerState", *values))
        )
    bag = write_bag(tmp_path / "bag", messages, store=store)
    bag = bag if has_definitions else forget_definitions(bag)
    check(read_log(bag, ROBOT), samples, "v", "tau")
    if bodies:
        output = {"tau": [f"command_effort.{name}" for name in NAMES]}
        log = read_log(bag, ROBOT, columns=output)
        assert_array_equal(log.tau, 2.0 * samples.tau)


STATE = {
    "my_msgs__Joint": "float64[] position\nfloat32[3] torque\n",
    "my_msgs__State": "builtin_interfaces/Time stamp\nmy_msgs/Joint joint\nfloat64 temperature\nstring mode\n",
}
MOTORS = {
    "my_msgs__Motor": "uint8 mode\nfloat32 q\nfloat32 dq\nfloat32 tau_est\n",
    "my_msgs__LowState": "std_msgs/Header header\nmy_msgs/Motor[] motor_state\n",
}


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_other_messages_by_their_fields(storage: str, tmp_path: Path) -> None:
    store, samples = type_store(**STATE), motion(100.0)
    assert samples.tau is not None
    messages = []
    for stamp, q, tau in zip(stamps(samples), samples.q, samples.tau, strict=True):
        joint = make(store, "my_msgs__Joint", q, tau.astype(np.float32))
        time = make(store, "builtin_interfaces__Time", *divmod(stamp, 1_000_000_000))
        messages.append(("/state", stamp + 500, make(store, "my_msgs__State", time, joint, 40.0, "run")))
    bag = write_bag(tmp_path / "bag", messages, storage, store)
    log = read_log(bag, ROBOT, topic="/state", columns={"q": ".joint.position", "tau": ".joint.torque"})
    assert_allclose(log.t, samples.t, atol=1e-12)
    assert_array_equal(log.q, samples.q)
    assert_allclose(log.tau, samples.tau, rtol=1e-6)  # type: ignore[arg-type]
    turned = read_log(bag, ROBOT, topic="/state", columns={"q": [f".joint.position[:, {j}]" for j in ORDER]})
    assert_array_equal(turned.q, samples.q[:, ORDER])
    with pytest.raises(LogError) as refused:
        read_log(bag, ROBOT, topic="/state", columns={"q": ".joint.angle"})
    assert refused.value.code == "unknown_column"
    assert ".joint.position" in refused.value.facts["found"]


def test_lists_of_messages_are_arrays(tmp_path: Path) -> None:
    store, samples = type_store(**MOTORS), motion(100.0)
    assert samples.v is not None and samples.tau is not None  # noqa: PT018
    messages = []
    for stamp, q, v, tau in zip(stamps(samples), samples.q, samples.v, samples.tau, strict=True):
        motors = [make(store, "my_msgs__Motor", 1, float(q[j]), float(v[j]), float(tau[j])) for j in range(3)]
        messages.append(("/lowstate", stamp, make(store, "my_msgs__LowState", header(stamp), motors)))
    bag = write_bag(tmp_path / "bag", messages, store=store)
    columns = {"q": ".motor_state.q", "v": ".motor_state.dq", "tau": ".motor_state.tau_est"}
    log = read_log(bag, ROBOT, topic="/lowstate", columns=columns)
    for name in ("q", "v", "tau"):
        assert_allclose(getattr(log, name), getattr(samples, name), rtol=1e-6, atol=1e-6)


def floats(values: Array) -> Any:
    from rosbags.typesys.stores.latest import std_msgs__msg__Float64MultiArray as Floats
    from rosbags.typesys.stores.latest import std_msgs__msg__MultiArrayLayout as Layout

    return Floats(Layout([], 0), np.array(values, dtype=np.float64))


def test_topics_of_several_rates_are_joined(tmp_path: Path) -> None:
    state, drive = motion(100.0), motion(250.0, start=0.0013)
    assert drive.tau is not None
    messages = [("/joint_states", at, joint_state(at, NAMES, q)) for at, q in zip(stamps(state), state.q, strict=True)]
    messages += [("/drive", at, floats(tau)) for at, tau in zip(stamps(drive), drive.tau, strict=True)]
    bag = write_bag(tmp_path / "bag", sorted(messages, key=lambda message: message[1]))
    for topic in ("/joint_states+/drive", ["/joint_states", "/drive"]):
        log = read_log(bag, ROBOT, topic=topic, columns={"tau": ".data"})
        q, _, a = fourier(log.t, 3, base=0.4)
        assert log.tau is not None
        assert len(log.t) >= len(state) - 4
        assert_allclose(log.q, q, atol=1e-8)
        assert np.abs(log.tau - 3.0 * q - 0.5 * a).max() < 0.01
        assert any(note.code == "times_of_recording" for note in log.notes)
        assert isinstance(log.source, FileSource)
        assert log.source.given["topic"] == "/joint_states+/drive"


def test_fields_of_the_same_name_are_called_by_their_topics(tmp_path: Path) -> None:
    samples = motion(100.0)
    assert samples.tau is not None
    messages: list[Message] = []
    for at, q, tau in zip(stamps(samples), samples.q, samples.tau, strict=True):
        messages += [("/arm/q", at, floats(q)), ("/arm/tau", at, floats(tau))]
    bag = write_bag(tmp_path / "bag", messages)
    log = read_log(bag, ROBOT, topic="/arm/q+/arm/tau", columns={"q": "/arm/q.data", "tau": "/arm/tau.data"})
    check(log, samples, "tau")


def test_missing_torques_name_the_topics_that_may_have_them(tmp_path: Path) -> None:
    x = motion(100.0)
    messages = [("/js", at, joint_state(at, NAMES, q)) for at, q in zip(stamps(x), x.q, strict=True)]
    messages += [("/drives", at, floats(np.ones(3))) for at in stamps(x)]
    log = read_log(write_bag(tmp_path / "bag", messages), ROBOT)
    with pytest.raises(LogError) as caught:
        survey(log, ROBOT)
    assert caught.value.code == "missing_measured_channel"
    assert caught.value.facts["topics"] == ("/drives (std_msgs/msg/Float64MultiArray)",)


def test_a_bag_and_a_file_are_one_recording(tmp_path: Path) -> None:
    samples = motion(100.0)
    assert samples.tau is not None
    messages = [("/js", at, joint_state(at, NAMES, q)) for at, q in zip(stamps(samples), samples.q, strict=True)]
    bag = write_bag(tmp_path / "bag", messages, "mcap")
    lines = csv_text({"x": samples.t, **{f"tau{j + 1}": samples.tau[:, j] for j in range(3)}}).splitlines()
    rows = [f"{at},{line.partition(',')[2]}" for at, line in zip(stamps(samples), lines[1:], strict=True)]
    (tmp_path / "drive.csv").write_text("\n".join(["timestamp_ns," + lines[0].partition(",")[2], *rows]))
    for topic in (None, "/js"):
        check(read_log([bag, tmp_path / "drive.csv"], ROBOT, topic=topic), samples, "tau")


def test_an_inertial_sensor_tells_gravity(tmp_path: Path) -> None:
    from rosbags.typesys.stores.latest import geometry_msgs__msg__Quaternion as Quaternion
    from rosbags.typesys.stores.latest import geometry_msgs__msg__Vector3 as Vector3
    from rosbags.typesys.stores.latest import sensor_msgs__msg__Imu as Imu

    samples = motion(100.0)
    messages = [("/js", at, joint_state(at, NAMES, q)) for at, q in zip(stamps(samples), samples.q, strict=True)]
    for at in stamps(samples):
        cover = np.zeros(9)
        imu = Imu(header(at), Quaternion(0, 0, 0, 1), cover, Vector3(0, 0, 0), cover, Vector3(0.0, 6.93, 6.93), cover)
        messages.append(("/imu", at, imu))
    bag = write_bag(tmp_path / "bag", sorted(messages, key=lambda message: message[1]))
    log = read_log(bag, ROBOT)
    check(log, samples)
    (note,) = (note for note in log.notes if note.code == "imu_not_used")
    assert note.facts["gravity"].value == [0.0, -6.93, -6.93]
    check(read_log(bag, ROBOT, topic="/js+/imu"), samples)


def test_wrong_topics_are_refused(tmp_path: Path) -> None:
    store, samples = type_store(**STATE), motion(50.0)
    messages: list[Message] = [
        ("/js", at, joint_state(at, NAMES, q)) for at, q in zip(stamps(samples), samples.q, strict=True)
    ]
    time, joint = (
        make(store, "builtin_interfaces__Time", 0, 0),
        make(store, "my_msgs__Joint", np.zeros(2), np.zeros(3, np.float32)),
    )
    messages += [
        ("/state", stamps(samples)[0] + k, make(store, "my_msgs__State", time, joint, 0.0, "")) for k in range(9)
    ]
    messages += [("/other", EPOCH - 10**15 + 10**7 * k, floats(np.ones(3))) for k in range(99)]
    bag = write_bag(tmp_path / "bag", sorted(messages, key=lambda message: message[1]), store=store)
    cases: list[tuple[str, Any, Any]] = [
        ("unknown_topic", "/nothing", None),
        ("unknown_topic", ["/js", "/nothing"], None),
        ("topic_twice", "/js+/js", None),
        ("topic_malformed", [], None),
        ("topic_malformed", 5, None),
        ("unknown_topic", "", None),
        ("missing_positions", "/other", None),
        ("column_count_mismatch", "/state", {"q": ".joint.position"}),
        ("unknown_column", "/state", {"q": ".joint.angle"}),
        ("times_never_meet", "/js+/other", {"tau": ".data"}),
    ]
    for code, topic, columns in cases:
        with pytest.raises(LogError) as refused:
            read_log(bag, ROBOT, topic=topic, columns=columns)
        assert refused.value.code == code
    forget_definitions(bag)
    with pytest.raises(LogError) as refused:
        read_log(bag, ROBOT, topic="/state", columns={"q": ".joint.position"})
    assert refused.value.code == "message_definition_missing"
    assert len(read_log(bag, ROBOT).t) == len(samples)
