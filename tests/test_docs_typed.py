"""Every `dynid` command of README and docs is typed, in a folder with files of the names they use.

Those of tutorial, own robot, recording, filter and project run in test_docs_commands, the demo in test_cli, public
recordings in test_recordings and test_read_recordings; `excite` gets one start, `view` and `watch` an end, so that they
do not take long. Where a command names a Dask scheduler, one runs in the test's own process.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bodies import with_bodies
from command_line import CommandLine, write_fleet_logs
from dynid import (
    Log,
    Motion,
    PhysicalParameters,
    Robot,
    export,
    identify,
    load_robot,
    physical_parameters,
    simulate,
    simulate_actuators,
)
from dynid.cli.output.recordings import write_log
from dynid.dynamics.kernels.links import link_poses
from fourier import fourier_motion
from log_writers import joint_state, type_store, write_bag

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"tutorial.md", "own_robot.md", "recording.md", "filter.md", "project.md"}
RECORDINGS = (
    "panda log.csv.gz", "lwr4 log_1", "ur10 ur10_", "kr300 log_A", "lwr4 measurements_", "panda panda_", "kr300 A.mat",
)  # fmt: skip


def commands() -> list[str]:
    """All of them, each once."""
    found: dict[str, None] = {}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if page.name in ELSEWHERE:
            continue
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                text = shlex.join(words[1:])
                if words[:1] == ["dynid"] and words[1] != "demo" and not any(some in text for some in RECORDINGS):
                    found[text] = None
    return list(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the names that the docs use; `of_<robot>` folders hold a log of each robot."""
    place = tmp_path_factory.mktemp("typed")
    arm = with_bodies("gautier3", 3)
    export(arm, place / "my_robot.urdf")
    text = (place / "my_robot.urdf").read_text().replace('type="continuous"', 'type="revolute"')
    limit = '<limit lower="-2.5" upper="2.5" velocity="2" effort="200"/>'
    text = re.sub(r"<limit [^>]*/>", "", text).replace("</joint>", f"{limit}</joint>")
    (place / "my_robot.urdf").write_text(text)
    shutil.copy(place / "my_robot.urdf", place / "robot.urdf")
    shutil.copy(place / "my_robot.urdf", place / "robot.urdf.xacro")
    (place / "plate.toml").write_text('position = [0.1, 0.0, -0.2]\nsense = "robot_on_plate"\n')
    page = (ROOT / "docs" / "excitation.md").read_text(encoding="utf-8")
    cell = next(part for part in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[[box]]" in part)
    (place / "cell.toml").write_text(cell, encoding="utf-8")
    corners = 900.0 + 50.0 * np.vstack([np.zeros(3), np.eye(3)])  # mm
    facets = "".join(
        "facet normal 0 0 0\nouter loop\n" + "".join("vertex {} {} {}\n".format(*corners[k]) for k in some) +
        "endloop\nendfacet\n" for some in itertools.combinations(range(4), 3)
    )  # fmt: skip
    (place / "fixture.stl").write_text(f"solid x\n{facets}endsolid x\n")
    for name in ("my_robot.urdf", "puma560", "panda", "gautier3", "puma562", "iiwa", "ur10"):
        robot = load_robot(place / name) if name.endswith("urdf") else load_robot(name)
        if np.isnan(robot.parameters).any():
            robot = with_bodies(name, 1)
        _logs_of(robot, name, place / f"of_{name}")
    if find_spec("mujoco") is not None:
        _commands_of_leg(place)
    return place


def _commands_of_leg(folder: Path) -> None:
    """A recording of commands of the bundled leg, under both of its names, and its controllers."""
    import polars as pl

    leg = load_robot("leg")
    t = np.arange(0.0, 8.0, 0.005)
    q = leg.limits.position.mean(axis=1) + 0.4 * np.sin(np.outer(t, [3.0, 4.0, 5.0]))
    motion = Motion(t, q, np.gradient(q, t, axis=0), np.zeros_like(q))
    log = simulate_actuators(leg, motion, delay=0.006, armature=0.02, frictionloss=0.1, bits=16)
    for name in ("leg", "leg.xml"):
        place = folder / f"of_{name}"
        place.mkdir()
        pl.DataFrame(log).write_csv(place / "run.csv")
        shutil.copy(leg.source, place / "leg.xml")
        (place / "drives.toml").write_text("kp = [45, 45, 25]\nkd = [1.6, 1.6, 0.8]\n")


def _logs_of(robot: Robot, name: str, place: Path) -> None:
    place.mkdir()
    if name == "puma560":
        from dynid.robot.io.toml_table import read_sensor

        robot = robot.with_sensor(read_sensor(place.parent / "plate.toml"))
    log = simulate(robot, fourier_motion(robot, duration=20.0), noise=0.05, plate_noise=0.1)
    write_log(place / "log.csv", log, robot if name == "puma560" else None)
    write_log(place / "other.csv", simulate(robot, fourier_motion(robot, seed=2), noise=0.05))
    motion = fourier_motion(robot, duration=3.0)
    write_log(place / "traj.csv", simulate(robot, motion))
    write_log(place / "without.csv", log)
    write_log(place / "with.csv", simulate(_loaded(robot), fourier_motion(robot, duration=20.0), noise=0.05))
    result = identify(robot.with_sensor(None), Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau), friction=())
    for file in ("result.json", "torque.json", "momentum.json"):
        result.save(place / file)
    physical_parameters(result).save(place / "physical.json")
    if name == "gautier3":
        lines = (place / "log.csv").read_text().splitlines()
        lines[0] = lines[0].replace("t,", "clock,", 1).replace("tau", "i").replace("q3", "elbow")
        (place / "log.csv").write_text("\n".join(lines) + "\n")
    if name == "puma562":
        _markers(robot, place / "seen.csv")
    if name in ("iiwa", "ur10"):
        _without_header(log, place)
    if name == "my_robot.urdf":
        _in_parts(log, robot, place)
        for run, file in (("run1.csv", "without.csv"), ("run2.csv", "other.csv")):
            shutil.copy(place / file, place / run)


def _without_header(log: Log, place: Path) -> None:
    """Tables of numbers alone: three columns that are not used; degrees with velocities, and without."""
    assert log.v is not None
    assert log.tau is not None
    np.savetxt(place / "run.txt", np.column_stack([log.t, log.q, log.q[:, :3], log.tau]))
    degrees, v = np.degrees(log.q), np.degrees(log.v)
    np.savetxt(place / "run.csv", np.column_stack([log.t, degrees, v, log.tau]), delimiter=",")
    np.savetxt(place / "table.csv", np.column_stack([log.t, degrees, log.tau]), delimiter=",")


def _in_parts(log: Log, robot: Robot, place: Path) -> None:
    """Positions and torques in files of their own, and in topics of a bag; a message of one's own, too."""
    assert log.tau is not None
    names = [f"{x}{j + 1}" for x in ("q", "tau") for j in range(robot.n)]
    for file, values, own in (("state", log.q, names[: robot.n]), ("drives", log.tau, names[robot.n :])):
        table = np.column_stack([log.t, values])
        np.savetxt(place / f"{file}.csv", table, delimiter=",", header=",".join(["t", *own]), comments="")
    if find_spec("rosbags") is None:
        return
    joint = "my_msgs__Joint", "float64[] position\nfloat64[] torque\n"
    state = "my_msgs__State", "builtin_interfaces/Time stamp\nmy_msgs/Joint joint\n"
    store = type_store(**dict((joint, state)))

    def make(kind: str, *values: Any) -> Any:
        return store.types[kind.replace("__", "/msg/")](*values)

    messages = []
    for t, q, tau in zip(log.t, log.q, log.tau, strict=True):
        stamp = round(t * 1e9)
        own = make("my_msgs__Joint", q, tau)
        time = make("builtin_interfaces__Time", *divmod(stamp, 1_000_000_000))
        drives = make("std_msgs__Float64MultiArray", make("std_msgs__MultiArrayLayout", [], 0), tau)
        messages += [
            ("/state", stamp, make("my_msgs__State", time, own)),
            ("/joint_states", stamp, joint_state(stamp, robot.joint_names, q)), ("/drives", stamp, drives),
        ]  # fmt: skip
    write_bag(place / "bag", messages, store=store)


def _loaded(robot: Robot) -> Robot:
    """2.5 kg more on the last link, at (0, 0, 0.1)."""
    X = robot.parameters.copy()
    first = robot.parameter_names.index("XX" + robot.links[-1].label)
    X[first : first + 10] += [0.025, 0.0, 0.0, 0.025, 0.0, 0.0, 0.0, 0.0, 0.25, 2.5]
    return robot.with_parameters(X)


def _markers(robot: Robot, file: Path) -> None:
    motion = fourier_motion(robot, duration=5.0)
    t = np.concatenate([np.arange(100) / 100.0, 1.01 + motion.t])
    rest = np.zeros((100, robot.n))
    ramp = np.minimum(motion.t / 2.0, 1.0)[:, None]
    poses = link_poses(robot, np.vstack([rest, ramp * motion.q]))
    rng = np.random.default_rng(0)
    seen, images = {"t": t}, {"t": t}
    K = np.array([[1200.0, 0.0, 640.0], [0.0, 1180.0, 480.0], [0.0, 0.0, 1.0]])
    views = {
        "cam1": K @ [[0, 1, 0, 0], [0, 0, -1, 0.7], [-1, 0, 0, 3]],
        "cam2": K @ [[1, 0, 0, 0], [0, 0, -1, 0.7], [0, 1, 0, 3]],
    }
    for letter, link in zip("abc", range(3), strict=True):
        point = poses.position[link] + poses.rotation[link] @ rng.uniform(0.05, 0.3, 3)
        seen |= {f"{letter}_{axis}": point[:, j] for j, axis in enumerate("xyz")}
        for name, P in views.items():
            x = point @ P[:, :3].T + P[:, 3]
            images |= {f"{name}.{letter}.{axis}": x[:, j] / x[:, 2] for j, axis in enumerate("uv")}
    for place, columns in ((file, seen), (file.with_name("images.csv"), images)):
        lines = [",".join(map(repr, row)) for row in np.column_stack(list(columns.values())).tolist()]
        place.write_text("\n".join([",".join(columns), *lines]))
    tables = [f'[[camera]]\nname = "{name}"\nmatrix = {P.tolist()}' for name, P in views.items()]
    file.with_name("cameras.toml").write_text("\n".join(tables))


@pytest.mark.parametrize(
    "command", [pytest.param(x, marks=pytest.mark.slow if "--obstacles" in x else ()) for x in commands()]
)
def test_it_can_be_typed(
    command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)
    robot = next((w for w in words if (folder / f"of_{w}").exists()), "my_robot.urdf")
    robot = "puma560" if words[0] in ("export", "report", "physical") else robot
    for file in (*folder.iterdir(), *(folder / f"of_{robot}").iterdir()):
        if file.is_file():
            shutil.copy(file, tmp_path / file.name)
        elif file.name == "bag":
            shutil.copytree(file, tmp_path / "bag")
    if "new.urdf" in words:
        export(PhysicalParameters.load(tmp_path / "physical.json"), tmp_path / "robot.urdf")
    if "left_hand" in words:
        words[words.index("left_hand")] = load_robot(tmp_path / "my_robot.urdf").links[-1].name
    if words[0] == "actuators":
        pytest.importorskip("mujoco")
    if words[0] == "excite":
        words += ["--starts", "1"]
    if words[0] == "view":
        pytest.importorskip("viser")
        words += ["--no-browser", "--seconds", "1", "--port", "0"]
    if "arm.urdf" in words:
        write_fleet_logs(tmp_path)
        words = [word.replace("/shared", str(tmp_path)) for word in words]
    if words[0] == "watch":
        words += ["--once"]
    if "--topic" in words:
        pytest.importorskip("rosbags")
    if "--xacro" in words:
        pytest.importorskip("xacro")
        (tmp_path / "packages").mkdir()
    monkeypatch.chdir(tmp_path)
    run = CommandLine(monkeypatch, capsys)
    with ExitStack() as stack:
        if words[0] == "fleet":
            distributed = pytest.importorskip("distributed")
        if "--scheduler" in words:
            some = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
            cluster = stack.enter_context(distributed.LocalCluster(**some, protocol="tcp", host="127.0.0.1"))
            client = stack.enter_context(distributed.Client(cluster))
            stack.callback(client.retire_workers)  # a worker that ends together with its scheduler may hang
            words[words.index("--scheduler") + 1] = cluster.scheduler_address
        done = run(*words, code=None)
    assert done.code in (0, 1), done.err
