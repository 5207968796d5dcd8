from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid.errors import LogError
from dynid.logs.log import Samples
from dynid.logs.read import read_log
from dynid.robot.load import load_robot
from log_writers import bag_messages, joint_state, random_samples, wrench, write_bag

pytest.importorskip("rosbags.rosbag2")
UR10 = load_robot("ur10")
ORDER = [3, 0, 5, 1, 4, 2]
NAMES = ["gripper", *(UR10.joint_names[k] for k in ORDER)]
EPOCH = 1_700_000_000_123_456_789


def shuffled(samples: Samples) -> Samples:
    """The samples as a driver may publish them: a gripper first, joints in an order of its own."""
    parts = [
        np.column_stack([np.full(len(samples), 9.0), x[:, ORDER]])
        for x in (samples.q, samples.v, samples.tau)
        if x is not None
    ]
    return Samples(samples.t, parts[0], parts[1], tau=parts[2])


def stored(folder: Path, form: str, storage: str) -> Path:
    if form == "folder":
        return folder
    file = next(folder.glob("*.mcap" if storage == "mcap" else "*.db3"))
    (folder / "metadata.yaml").unlink()
    return file.rename(file.with_suffix(file.suffix.upper())) if form == "upper" else file


@pytest.mark.parametrize("storage", ["sqlite3", "mcap"])
@pytest.mark.parametrize("form", ["folder", "file", "upper"])
def test_joint_states_of_any_order_come_in_the_robots_order(storage: str, form: str, tmp_path: Path) -> None:
    samples = random_samples(6, rows=300)
    bag = write_bag(tmp_path / "bag", bag_messages(shuffled(samples), NAMES, EPOCH), storage)
    log = read_log(stored(bag, form, storage), UR10)
    assert log.channels == {"v", "tau"}
    for _ in range(2):
        pieces = list(log.chunks(70))
        assert max(len(piece) for piece in pieces) <= 70
        assert_array_equal(np.concatenate([piece.q for piece in pieces]), samples.q)
    assert_array_equal(log.v, samples.v)
    assert_array_equal(log.tau, samples.tau)
    assert_allclose(log.t, samples.t, atol=1e-12)
    assert any("gripper" in note for note in log.notes)
    assert any("own stamps" in note for note in log.notes)


def test_without_stamps_the_time_is_that_of_recording(tmp_path: Path) -> None:
    messages = [("/js", EPOCH + k * 1_000_000, joint_state(0, UR10.joint_names, np.full(6, k))) for k in range(5)]
    log = read_log(write_bag(tmp_path / "bag", messages), UR10)
    assert_allclose(log.t, np.arange(5) * 1e-3, atol=1e-12)
    assert log.v is None
    assert log.tau is None
    assert any("those of recording" in note for note in log.notes)


def test_messages_of_another_device_on_the_same_topic_are_left_out(tmp_path: Path) -> None:
    messages = []
    for k in range(6):
        messages.append(("/js", k * 10, joint_state(k * 10, UR10.joint_names, np.full(6, k))))
        messages.append(("/js", k * 10 + 5, joint_state(k * 10 + 5, ["left", "right"], np.zeros(2))))
    assert_array_equal(read_log(write_bag(tmp_path / "bag", messages), UR10).q[:, 0], np.arange(6.0))


def test_several_topics_need_a_choice(tmp_path: Path) -> None:
    messages = [
        (topic, k, joint_state(k, UR10.joint_names, np.full(6, len(topic))))
        for k in range(3)
        for topic in ("/a", "/bb")
    ]
    bag = write_bag(tmp_path / "bag", messages)
    with pytest.raises(LogError, match=r"several JointState topics, '/a', '/bb'; say which with topic="):
        read_log(bag, UR10)
    assert_array_equal(read_log(bag, UR10, topic="/bb").q, np.full((3, 6), 3.0))
    with pytest.raises(LogError, match=r"no topic '/c'; the bag has '/a \(sensor_msgs"):
        read_log(bag, UR10, topic="/c")


def test_a_wrench_is_the_reaction_at_the_times_of_the_joints(tmp_path: Path) -> None:
    samples = random_samples(6, rows=100)
    messages = bag_messages(samples, UR10.joint_names, EPOCH)
    for k in range(10, 300):
        stamp = EPOCH + k * 300_000
        messages.append(("/ft", stamp, wrench(stamp, [k * 0.3 * c for c in range(1, 7)])))
    bag = write_bag(tmp_path / "bag", sorted(messages, key=lambda message: message[1]))
    for rows in (9, 1000):
        log = read_log(bag, UR10)
        pieces = list(log.chunks(rows))
        assert max(map(len, pieces)) <= rows
        t = np.concatenate([piece.t for piece in pieces])
        reaction = np.concatenate([piece.reaction for piece in pieces if piece.reaction is not None])
        period = 1.5e-3  # around each row, over which the faster wrenches are averaged
        inside = (samples.t - period >= 0.003 - 1e-9) & (samples.t + period <= 0.0897 + 1e-9)
        assert_allclose(t, samples.t[inside], atol=1e-12)
        assert_allclose(reaction, 1e3 * t[:, None] * np.arange(1, 7), rtol=1e-9)
        assert {note.facts["rows"] for note in log.left_out} == {int((~inside).sum())}
    assert read_log(bag, UR10, columns={"reaction": None}).reaction is None


def test_a_bag_without_joint_states_lists_its_topics(tmp_path: Path) -> None:
    bag = write_bag(tmp_path / "bag", [("/ft", 1, wrench(1, [0.0] * 6))])
    with pytest.raises(LogError, match=r"no topic of sensor_msgs/JointState; the bag has '/ft \(geometry_msgs"):
        read_log(bag, UR10)
