"""Ten mistakes that a newcomer makes, each with the files it takes; run as a script it writes docs/mistakes.md."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid import Log, load_robot, simulate
from dynid.robot.robot import Robot
from robots import smooth_path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mistakes.md"
RATE, SECONDS = 100.0, 20.0


def arm_urdf(*, limits: bool = True, gripper: bool = False, joints: tuple[str, ...] = ("turn", "lift", "bend")) -> str:
    """A small arm with three joints, perhaps with a gripper of two fingers that do not mimic each other."""
    limit = '<limit lower="-2.6" upper="2.6" velocity="2" effort="80"/>' if limits else ""
    parts = ['<robot name="arm"><link name="base"/>']
    parent = "base"
    for k, name in enumerate(joints):
        axis = "0 0 1" if k == 0 else "0 1 0"
        parts.append(
            f'<link name="l{k}"><inertial><origin xyz="0.15 0 0.02"/><mass value="{4 - k}"/>'
            '<inertia ixx="0.02" iyy="0.05" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="l{k}"/>'
            f'<origin xyz="{0.3 if k else 0} 0 {0 if k else 0.4}"/><axis xyz="{axis}"/>{limit}</joint>'
        )
        parent = f"l{k}"
    for side, sign in (("left", 1), ("right", -1)) if gripper else ():
        parts.append(
            f'<link name="{side}"><inertial><origin xyz="0.02 0 0"/><mass value="0.1"/>'
            '<inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="finger_{side}" type="prismatic"><parent link="{parent}"/><child link="{side}"/>'
            f'<origin xyz="0.3 0 0"/><axis xyz="0 {sign} 0"/><limit lower="0" upper="0.04" velocity="0.1" effort="5"/>'
            "</joint>"
        )
    return "\n".join([*parts, "</robot>", ""])


def recorded(robot: Robot, *, seconds: float = SECONDS, scale: float = 2.0, seed: int = 1) -> Log:
    """A recording of the robot with a little noise on the torques."""
    t = np.arange(0.0, seconds, 1.0 / RATE)
    return simulate(robot, smooth_path(robot, t, seed=seed, scale=scale), noise=0.05, seed=seed - 1)


def csv(log: Log, names: tuple[str, ...], *, q: str = "position", tau: str = "effort", factor: float = 1.0) -> str:
    """Time, positions times a factor, and torques, by joint names as ROS writes them."""
    assert log.tau is not None
    head = ["time", *(f"{q}.{name}" for name in names), *(f"{tau}.{name}" for name in names)]
    rows = np.column_stack([log.t, factor * log.q, log.tau])
    return "\n".join([",".join(head), *(",".join(f"{x:.7g}" for x in row) for row in rows)]) + "\n"


@dataclass(frozen=True)
class Mistake:
    """A mistake: what happened, the command, the words that its answer must have, and the exit code."""

    title: str
    story: str
    command: str
    words: tuple[str, ...]
    code: int = 2


MISTAKES = (
    Mistake(
        "Joints in another order",
        "The driver sorts joints by name (`bend`, `lift`, `turn`), and the columns are called `q1`, `q2`, `q3`, which "
        "count the robot's joints.",
        "identify arm.urdf order.csv", ("turn, bend are exchanged", "--order bend,lift,turn"), 1,
    ),
    Mistake(
        "A sign", "The drive of `lift` counts torques the other way round than the URDF.",
        "identify arm.urdf sign.csv", ("torque of joint lift has the wrong sign", "--sign tau.lift"), 1,
    ),
    Mistake(
        "A zero", "The controller's zero of `lift` is the arm upright, that of the URDF is the arm stretched out.",
        "identify arm.urdf zero.csv", ("zero is wrong at joint lift", "--zero lift=-90deg"), 1,
    ),
    Mistake(
        "A forgotten joint", "The log has no columns for the joint `lift`, whose position `bend` depends on.",
        "identify arm.urdf forgotten.csv", ("missing for the joints lift", "--column", "--lock lift=0"),
    ),
    Mistake(
        "Degrees", "The positions were recorded in degrees, and nothing in the file says so.",
        "identify arm.urdf degrees.csv", ("looks like degrees", "--units q=deg"),
    ),
    Mistake(
        "A URDF without limits", "There is no `<limit>` in the file, so nobody knows how fast the robot may move.",
        "excite no_limits.urdf --out traj.csv", ("'turn'", "velocity", "--velocity"),
    ),
    Mistake(
        "Columns named otherwise", "The positions are called `angle`, the torques `load`.",
        "identify arm.urdf otherwise.csv", ("no positions", "'angle.turn'", "--column q="),
    ),
    Mistake(
        "Currents instead of torques",
        "The column that the controller calls `effort` is a current in A. Nothing in the file says so, but it does "
        "not match the masses in the URDF.",
        "identify arm.urdf currents.csv", ("currents", "masses of the robot file", "arm.urdf currents.csv --gain 9"), 1,
    ),
    Mistake(
        "A gripper that moves and has no torques",
        "The URDF has two fingers, and the log has their positions. Fingers that are not in the log are locked with a "
        "note, and so are those that stand still; this one opens.",
        "identify gripper.urdf opens.csv", ("'finger_left' moves", "--column", "--lock finger_left=POSITION"),
    ),
    Mistake(
        "A log of two seconds", "Too short to distinguish the parameters.",
        "identify arm.urdf short.csv",
        ("do not trust", "too short", "record 20 s or more", "next: dynid excite arm.urdf"), 1,
    ),
)  # fmt: skip


def write_files(folder: Path) -> None:
    """Write all robots and logs of the mistakes."""
    for name, text in (
        ("arm.urdf", arm_urdf()),
        ("no_limits.urdf", arm_urdf(limits=False)),
        ("gripper.urdf", arm_urdf(gripper=True)),
    ):
        (folder / name).write_text(text)
    robot = load_robot(folder / "arm.urdf")
    names, log = robot.joint_names, recorded(robot)
    assert log.tau is not None
    amperes = Log(log.t, log.q, tau=log.tau / np.array([9.3, 9.3, 4.1]))
    whole = csv(log, names).splitlines()
    without = [",".join(word for k, word in enumerate(line.split(",")) if k not in (2, 5)) for line in whole]
    opens = [f"{line},{'position.finger_left' if k == 0 else 1e-5 * k}" for k, line in enumerate(whole)]
    other_way = Log(log.t, log.q, tau=log.tau * np.array([1.0, -1.0, 1.0]))
    upright = Log(log.t, log.q + np.array([0.0, 0.5 * np.pi, 0.0]), tau=log.tau)
    by_name = Log(log.t, log.q[:, ::-1], tau=log.tau[:, ::-1])
    for name, text in (
        ("order.csv", csv(by_name, ("1", "2", "3"), q="q", tau="tau").replace(".", "", 6)),
        ("sign.csv", csv(other_way, names)),
        ("zero.csv", csv(upright, names)),
        ("log.csv", "\n".join(whole) + "\n"),
        ("forgotten.csv", "\n".join(without) + "\n"),
        ("opens.csv", "\n".join(opens) + "\n"),
        ("degrees.csv", csv(log, names, factor=180.0 / np.pi)),
        ("other.csv", csv(log, ("shoulder_pan", "shoulder_lift", "elbow"))),
        ("otherwise.csv", csv(log, names, q="angle", tau="load")),
        ("currents.csv", csv(amperes, names)),
        ("short.csv", csv(recorded(robot, seconds=2.0), names)),
        ("still.csv", csv(recorded(robot, scale=0.0), names)),
    ):
        (folder / name).write_text(text)


def answer(mistake: Mistake, out: str, err: str) -> str:
    """What the page shows: the error, or verdict and next step, the verdict's first two reasons at most."""
    if mistake.code == 2:
        return err.strip()
    lines = [line for line in out.splitlines() if line.startswith(("verdict:", "next:", "why:"))]
    return "\n".join("; ".join(line.split("; ")[:2]) for line in lines)


def page(answers: dict[str, str]) -> str:
    """The whole page."""
    text = [HEAD]
    for number, mistake in enumerate(MISTAKES, start=1):
        text.append(f"## {number}. {mistake.title}\n\n{mistake.story}\n")
        text.append(f"```text\n$ dynid {mistake.command}\n{answers[mistake.title]}\n```\n")
    return "\n".join(text)


HEAD = """# Ten mistakes, and what dynid says

Everybody makes them. Each was made here with a small arm of three joints (`turn`, `lift`, `bend`); this page is what
the commands printed, written by `python tests/mistakes.py` and compared with them by the tests. Where a command ran to
its end, the page shows the verdict, the next command and its reason.
"""


def main() -> None:
    """Make every mistake and write the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        answers = {}
        for mistake in MISTAKES:
            words = [sys.executable, "-m", "dynid", *mistake.command.split()]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
            answers[mistake.title] = answer(mistake, done.stdout, done.stderr)
    PAGE.write_text(page(answers))


if __name__ == "__main__":
    main()
