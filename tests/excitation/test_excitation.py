"""A designed motion in use: continuous, slower for a rehearsal, from the posture given, read back from every file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import DynidError, Excitation, Robot, design_excitation, load_robot
from dynid.cli.output.recordings import read_motion, read_script_positions
from dynid.excitation.excitation import ros_goal_text
from dynid.excitation.fourier import FourierShape
from dynid.excitation.quintics import APPROACH, Quintics
from dynid.excitation.torque_limits import Effort
from robots import random_tree, smooth_path

HOSTILE = (
    'a"]\nend\nmovej([9,9,9,9,9,9])',
    "it's: {a: *b} # no",
    "\\u0041\\",
    "tab\tdel\x7fnext\x85line\u2028",
    "\U0001f916 \u00e9",
    "- !!python/x",
)


def limits_of(seed: int) -> dict[str, Any]:
    """Random limits for two or three joints."""
    rng, n = np.random.default_rng(seed), 2 + seed % 2
    return {
        "position": rng.uniform(0.4, 2.5, (n, 2)) * [-1.0, 1.0],
        "velocity": rng.uniform(0.5, 3.0, n),
        "acceleration": rng.uniform(2.0, 10.0, n),
    }


def design(seed: int, shape: str, **options: Any) -> Excitation:
    """A quick design for a random robot of two or three joints."""
    robot = random_tree(seed, joints=2 + seed % 2, fixed_share=0.0)
    few = {"harmonics": 3, "duration": 4.0, "periods": 2} if shape == "fourier" else {}
    chosen = {"limits": limits_of(seed), "starts": 1, "seed": seed, "time_budget": 0.5, **few, **options}
    return design_excitation(robot, shape=shape, **chosen)


def is_continuous(found: Excitation, speed: float) -> None:
    """Trapezoids of what is recorded as a slope are the steps, and steps shrink with the time between samples."""
    steps = []
    for rate in (1000.0, 4000.0):
        motion = found.motion(rate, speed=speed)
        for x, slope, share in ((motion.q, motion.v, 1e-3), (motion.v, motion.a, 1e-2)):
            wrong = np.diff(x, axis=0) - 0.5 * (slope[1:] + slope[:-1]) / rate
            assert np.abs(wrong).max() <= share * np.abs(slope).max() / rate
        steps.append([float(np.abs(np.diff(x, axis=0)).max()) for x in (motion.q, motion.v, motion.a)])
    assert (np.array(steps[1]) < 0.35 * np.array(steps[0])).all()  # a quarter, but for jerks that begin in between


@pytest.mark.parametrize("shape", ["fourier", "points"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_motions_are_continuous_up_to_acceleration(seed: int, shape: str) -> None:
    lower, upper = limits_of(seed)["position"].T
    rest = lower + np.random.default_rng(seed + 50).uniform(0.05, 0.95, len(lower)) * (upper - lower)
    found = design(seed, shape, rest=rest)
    for speed in (1.0, 0.3):
        is_continuous(found, speed)
        motion = found.motion(1000.0, speed=speed)
        assert_allclose(motion.q[[0, -1]], [rest, rest], rtol=0.0, atol=1e-12)
        assert_allclose(motion.v[[0, -1]], 0.0, atol=1e-12)
        assert_allclose(motion.a[[0, -1]], 0.0, atol=1e-9)
    assert found.margin >= -1e-12
    assert (motion.q >= lower - 1e-9).all()
    assert (motion.q <= upper + 1e-9).all()


@pytest.mark.parametrize("shape", ["fourier", "points"])
def test_the_way_from_the_posture_given_is_slow_and_so_is_the_way_back(shape: str) -> None:
    limits = {**limits_of(1), "jerk": [40.0, 60.0, 80.0]}
    found = design(1, shape, limits=limits, rest=[0.1, -0.2, 0.3], margin=0.0)
    path = found.shape.path if shape == "points" else found.shape.entry  # type: ignore[attr-defined]
    back = path.backwards() if shape == "points" else found.shape.exit  # type: ignore[attr-defined]
    motion = found.motion(1000.0)
    for way, seen in ((path, motion.t <= path.u[0]), (back, motion.t >= found.duration - back.u[0])):
        assert way.u[0] >= 1.0
        speeds = np.abs(motion.v[seen]).max(axis=0) / found.limits.velocity
        accelerations = np.abs(motion.a[seen]).max(axis=0) / found.limits.acceleration
        jerks = way.peaks()[4][0] / found.limits.jerk
        shares = max(speeds.max(), np.sqrt(accelerations.max()), np.cbrt(jerks.max()))
        assert shares <= APPROACH
        assert way.u[0] == 1.0 or shares > 0.999 * APPROACH
    fast = np.abs(motion.v / found.limits.velocity).max()
    assert fast > 0.5  # the motion itself is as fast as ever


def test_a_posture_that_cannot_be_held_on_the_way_is_refused() -> None:
    arm = Robot.from_mdh([{"alpha": np.pi / 2}], name="arm").with_parameters(np.array([0.0] * 6 + [1.0, 0, 0, 1, 0.1]))
    limits = {"position": [[-1.9, -1.0]], "velocity": 3.0, "acceleration": 20.0, "effort": 6.0}
    for shape in ("fourier", "points"):
        for rest in (-1.3, -1.0, -1.9):
            found = design_excitation(
                arm, shape=shape, limits=limits, starts=1, time_budget=0.5, rest=[rest], margin=0.0
            )
            assert found.effort is not None
            assert found.effort.use_of_limits(found.motion(2000.0)).max() <= 1.0  # also between the samples
        wide = {**limits, "position": [[-1.9, -0.6]]}
        with pytest.raises(DynidError) as error:  # 9.81 cos(0.65) = 7.8 N m
            design_excitation(arm, shape=shape, limits=wide, starts=1, time_budget=0.5, rest=[-0.65])
        assert error.value.code == "rest_pose_exceeds_effort"


@pytest.mark.parametrize("shape", ["fourier", "points"])
@pytest.mark.parametrize("speed", [0.05, 0.25, 1.0])
def test_a_rehearsal_follows_the_same_path_slower(shape: str, speed: float) -> None:
    found = design(2, shape)
    full, slow = found.motion(200.0), found.motion(200.0 * speed, speed=speed)
    assert len(slow) == len(full)
    assert_allclose(slow.t * speed, full.t, rtol=1e-12)
    assert_allclose(slow.q, full.q, rtol=0.0, atol=1e-12)
    assert_allclose(slow.v, speed * full.v, rtol=0.0, atol=1e-12)
    assert_allclose(slow.a, speed**2 * full.a, rtol=0.0, atol=1e-11)
    h = float(slow.t[1])
    assert_allclose(np.gradient(slow.q, h, axis=0)[2:-2], slow.v[2:-2], atol=2e-3 * np.abs(slow.v).max())


@pytest.mark.parametrize("speed", [0.0, -0.5, 1.01, 25.0, np.nan, np.inf])
def test_speeds_out_of_range_are_refused(speed: float, tmp_path: Path) -> None:
    found = design(0, "fourier")
    with pytest.raises(DynidError) as error:
        found.motion(100.0, speed=speed)
    assert error.value.code == "speed_out_of_range"
    with pytest.raises(DynidError):
        found.save(tmp_path / "m.csv", speed=speed)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("rate", "speed"), [(1e9, 1.0), (1e300, 1.0), (100.0, 1e-9), (100.0, 1e-320)])
def test_motions_too_long_for_any_file_are_refused(rate: float, speed: float, tmp_path: Path) -> None:
    with pytest.raises(DynidError) as error:
        design(0, "fourier").save(tmp_path / "m.csv", rate=rate, speed=speed)
    assert error.value.code == "too_many_samples"
    assert not list(tmp_path.iterdir())


def test_a_rehearsal_that_momentum_no_longer_carries_is_refused(tmp_path: Path) -> None:
    """A pendulum of torque 9.81 cos(q) + a reaches the horizontal by its momentum, and could not be held there."""
    arm = Robot.from_mdh([{"alpha": np.pi / 2}], name="arm").with_parameters(np.array([0.0] * 5 + [1, 1, 0, 0, 1, 0]))
    limits = {"position": [[-2.0, 2.0]], "velocity": 9.0, "acceleration": 30.0}
    found = design_excitation(arm, limits=limits, starts=1, time_budget=0.2)
    strong, weak = (Effort.for_robot(arm, replace(found.limits, effort=np.array([most]))) for most in (9.9, 8.0))
    assert strong is not None
    assert weak is not None
    swing = FourierShape.with_entry_and_exit(
        np.array([[-0.8, 0.0, 0.8]]), np.pi, 2, limits=found.limits, rest=None, names=arm.joint_names,
        accept=lambda path: bool(weak.use_of_limits(path.sample(np.arange(0.0, path.duration, 0.005))).max() < 1.0),
    )  # fmt: skip
    full = swing.motion(200.0)
    assert_allclose(weak.torque_shares(full), (9.81 * np.cos(full.q) + full.a) / 8.0, atol=1e-9)
    assert weak.use_of_limits(full).max() < 1.0 < weak.holding_torque_shares(full.q).max()
    assert replace(found, shape=swing, effort=strong).motion(100.0, speed=0.2).q.max() == pytest.approx(0.0, abs=1e-4)
    replace(found, shape=swing, effort=weak).save(tmp_path / "full.csv")
    with pytest.raises(DynidError) as error:
        replace(found, shape=swing, effort=weak).save(tmp_path / "slow.csv", speed=0.2)
    assert error.value.code == "slow_motion_exceeds_effort"
    assert [file.name for file in tmp_path.iterdir()] == ["full.csv"]


@pytest.fixture(scope="module")
def ur10() -> Excitation:
    robot = load_robot("ur10")
    joints = iter(HOSTILE)
    links = tuple(replace(link, joint=next(joints)) if link.moves else link for link in robot.links)
    hostile = replace(robot, name="ur10\nend\n# \u2028", links=links)
    limits = {"position": [[-2.0, 2.0]] * 6, "velocity": 2.0, "acceleration": 6.0}
    return design_excitation(hostile, limits=limits, starts=1, time_budget=1.0, rest=[0.0, -1.5, 0.5, 0.0, 0.3, -0.2])


@pytest.mark.parametrize("suffix", [".yaml", ".JSON"])
@pytest.mark.parametrize("speed", [1.0, 0.25])
def test_goals_of_ros_are_read_back(ur10: Excitation, tmp_path: Path, suffix: str, speed: float) -> None:
    yaml: Any = pytest.importorskip("yaml")
    file = tmp_path / f"goal{suffix}"
    ur10.save(file, rate=10.0, speed=speed)
    goal = yaml.safe_load(file.read_text("utf-8"))  # what `ros2 action send_goal` does
    if suffix.lower() == ".json":
        assert json.loads(file.read_text("utf-8")) == goal
    assert list(goal) == ["trajectory"]
    assert list(goal["trajectory"]) == ["joint_names", "points"]
    assert goal["trajectory"]["joint_names"] == list(HOSTILE)
    motion, read = ur10.motion(10.0, speed=speed), read_motion(file, ur10.robot)
    keys = ("positions", "velocities", "accelerations")
    table = [np.array([point[key] for point in goal["trajectory"]["points"]]) for key in keys]
    stamps = [point["time_from_start"] for point in goal["trajectory"]["points"]]
    assert all(list(point) == [*keys, "time_from_start"] for point in goal["trajectory"]["points"])
    assert all(isinstance(x, int) and x >= 0 for stamp in stamps for x in stamp.values())
    t = np.array([stamp["sec"] + 1e-9 * stamp["nanosec"] for stamp in stamps])
    for x, name in zip((t, *table), ("t", "q", "v", "a"), strict=True):
        assert x.dtype == np.float64  # no number became text
        assert_allclose(x, getattr(read, name), rtol=0.0, atol=1e-12)
        assert_allclose(x, getattr(motion, name), rtol=0.0, atol=2e-3)
    assert not table[1][[0, -1]].any()  # controllers refuse a goal that ends in motion


@pytest.mark.parametrize(("rate", "speed"), [(10.0, 1.0), (None, 1.0), (500.0, 1.0), (None, 0.1)])
def test_rounded_goals_do_not_shake_the_robot(
    ur10: Excitation, tmp_path: Path, rate: float | None, speed: float
) -> None:
    """Controllers put quintics through the points."""
    ur10.save(tmp_path / "goal.yml", rate=rate, speed=speed)
    read, motion = read_motion(tmp_path / "goal.yml", ur10.robot), ur10.motion(rate or 100.0 * speed, speed=speed)
    fine = np.arange(0.0, motion.t[-1], 2e-3)
    played, exact = (Quintics(np.diff(x.t), x.q, x.v, x.a).sample(fine) for x in (read, motion))
    assert np.abs(played.a - exact.a).max() < 0.02
    assert np.abs(played.q - exact.q).max() < 1e-5


def test_a_goal_is_small(tmp_path: Path) -> None:
    """Twelve seconds of seven joints at 100 Hz took 636 kB."""
    robot = load_robot("panda")
    motion = smooth_path(robot, np.arange(0.0, 12.0, 0.01))
    for remark in (None, "a motion"):
        assert len(ros_goal_text(motion, robot.joint_names, remark)) < 350_000


def test_a_script_is_read_back(ur10: Excitation, tmp_path: Path) -> None:
    file = tmp_path / "m.script"
    for speed in (1.0, 0.25):
        ur10.save(file, speed=speed)
        text, motion = file.read_text("ascii"), ur10.motion(125.0, speed=speed)
        lines = text.splitlines()
        assert lines[0].startswith("# ")
        assert ("25 %" in lines[0]) == (speed < 1.0)
        assert not any(line.startswith("#") for line in lines[1:])
        words = [line.split("(")[0].strip() for line in lines[1:] if "(" in line]
        assert words[:4] == ["def dynid_motion", "def dynid_step", "servoj", "movej"]
        assert set(words[4:-2]) == {"dynid_step"}
        assert words[-2:] == ["stopj", "dynid_motion"]
        assert lines.count("end") == 1
        assert lines.count("  end") == 1
        number = r"-?\d+\.\d+"
        step = re.search(rf"servoj\(q, t=({number}), lookahead_time=({number}), gain=(\d+)\)", text)
        assert step is not None
        assert float(step[1]) == 0.008
        assert 0.03 <= float(step[2]) <= 0.2
        assert 100 <= int(step[3]) <= 2000
        start = re.search(rf"movej\(\[((?:{number},?){{6}})\], a=({number}), v=({number})\)", text)
        assert start is not None
        assert_allclose([float(x) for x in start[1].split(",")], motion.q[0], atol=1e-7)
        assert float(start[3]) <= 0.5
        rows = [row.split(",") for row in re.findall(r"dynid_step\(\[(.*)\]\)", text)]
        assert_allclose(np.array(rows, dtype=float), motion.q, rtol=0.0, atol=1e-7)
        t, q = read_script_positions(file, ur10.robot)
        assert_allclose(t, motion.t, atol=1e-9)
        assert_allclose(q, motion.q, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "rate", "step"),
    [("ur10", None, 0.008), ("ur5e", None, 0.002), ("UR20", None, 0.002), ("ur10e", 125.0, 0.008), ("x", 25.0, 0.04)],
)
def test_a_script_runs_in_cycles_of_its_controller(
    ur10: Excitation, tmp_path: Path, name: str, rate: float | None, step: float
) -> None:
    found = replace(ur10, robot=replace(ur10.robot, name=name))
    found.save(tmp_path / "m.script", rate=rate)
    assert read_script_positions(tmp_path / "m.script", found.robot)[0][1] == pytest.approx(step)


@pytest.mark.parametrize(("name", "rate"), [("ur10", 100.0), ("ur10", 500.0), ("ur10e", 1000.0), ("ur10e", 0.0)])
def test_rates_that_a_controller_would_stretch_are_refused(
    ur10: Excitation, tmp_path: Path, name: str, rate: float
) -> None:
    with pytest.raises(DynidError) as error:
        replace(ur10, robot=replace(ur10.robot, name=name)).save(tmp_path / "m.script", rate=rate)
    assert error.value.code == "script_rate"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["panda", "scara", "gautier3", "tree", "sr400"])
def test_scripts_are_for_arms_of_six_revolute_joints(ur10: Excitation, tmp_path: Path, name: str) -> None:
    robot = ur10.robot
    if name == "tree":
        robot = replace(robot, links=(*robot.links[:3], replace(robot.links[3], parent=0), *robot.links[4:]))
    else:
        robot = load_robot(name)
    with pytest.raises(DynidError) as error:
        replace(ur10, robot=robot).save(tmp_path / "m.script")
    assert error.value.code == "no_six_joint_arm"
    assert not list(tmp_path.iterdir())


def test_a_table_of_1_khz_is_read_back(tmp_path: Path) -> None:
    found = design(1, "points")
    found.save(tmp_path / "m.csv", rate=1000.0)
    read, motion = read_motion(tmp_path / "m.csv", found.robot), found.motion(1000.0)
    assert_allclose(np.diff(read.t), 1e-3, rtol=1e-9)
    for name in ("t", "q", "v", "a"):
        assert_allclose(getattr(read, name), getattr(motion, name), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", ["m.txt", "m", "m.urscript", "m.csv.gz"])
def test_unknown_suffixes_are_refused_with_those_that_are_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(DynidError) as error:
        design(0, "fourier").save(tmp_path / name)
    assert error.value.code == "unsupported_suffix"
    assert set(error.value.message.facts["suffixes"]) == {".csv", ".json", ".yaml", ".yml", ".script"}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f():\n  movej([0,0,0,0,0,0])\nend\n",
        "servoj(q, t=0.008)\ndynid_step([1,2])\ndynid_step([1,2])\n",
        "dynid_step([1,2,3,4,5,6])\ndynid_step([1,2,3,4,5,6])\n",
        "servoj(q, t=0.008)\ndynid_step([1,2,3,4,5,6])\ndynid_step([1,2,3,4,5,--])\n",
    ],
)
def test_other_scripts_are_refused(ur10: Excitation, tmp_path: Path, text: str) -> None:
    file = tmp_path / "m.script"
    file.write_text(text)
    with pytest.raises(DynidError):
        read_script_positions(file, ur10.robot)
    with pytest.raises(DynidError) as error:
        read_motion(file, ur10.robot)
    assert error.value.code == "missing_derivatives"
