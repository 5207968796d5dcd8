"""The whole job of `dynid identify` for trees of many joints: processor time and peak memory of the process.

`python -m bench.large 40 100` writes a robot and a log of 30 s at 100 Hz each, runs the command, and prints what
loading alone (`dynid identify` of one joint) and the job cost.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dynid.logs.simulate import simulate
from dynid.robot.load import load_robot
from dynid.robot.motion import Motion

RATE, DURATION = 100.0, 30.0
LIMB, FINGERS = 8, 5


def write_tree(path: Path, joints: int) -> None:
    """Write a URDF of a trunk with neck, two arms and two legs of 8 joints, and fingers of 3 joints beyond 40.

    Masses fall from 10 kg at the hips to 0.2 kg at the fingers; joints have viscous and Coulomb friction.
    """
    rng = np.random.default_rng(joints)
    parents = tree_parents(joints)
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    text = ['<robot name="tree">', '<link name="base"/>']
    for k, parent in enumerate(parents):
        mass = 10.0 * 0.75 ** depth[k]
        x, y, z = rng.uniform(-0.05, 0.05, 3)
        com = rng.uniform(-0.05, 0.05, 3)
        inertia = mass * rng.uniform(0.006, 0.01, 3)
        turn = ("0 0 0", "1.5707963267948966 0 0", "0 1.5707963267948966 0")[k % 3]
        over = "base" if parent < 0 else f"link{parent + 1}"
        text += [
            f'<joint name="j{k + 1}" type="revolute"><parent link="{over}"/><child link="link{k + 1}"/>',
            f'<origin xyz="{x:.3f} {y:.3f} {0.2 + z:.3f}" rpy="{turn}"/><axis xyz="0 0 1"/>',
            f'<dynamics damping="{rng.uniform(0.2, 1.0) * mass:.3f}" friction="{rng.uniform(0.2, 1.0) * mass:.3f}"/>',
            '<limit lower="-2" upper="2" effort="1000" velocity="5"/></joint>',
            f'<link name="link{k + 1}"><inertial><mass value="{mass:.4f}"/>',
            f'<origin xyz="{com[0]:.4f} {com[1]:.4f} {com[2]:.4f}"/>',
            f'<inertia ixx="{inertia[0]:.6f}" iyy="{inertia[1]:.6f}" izz="{inertia[2]:.6f}" ixy="0" ixz="0" iyz="0"/>',
            "</inertial></link>",
        ]
    path.write_text("\n".join([*text, "</robot>"]), encoding="utf-8")


def tree_parents(joints: int) -> list[int]:
    """Parent of each joint, -1 for the base: trunk of 4, neck of 4, four limbs of 8, then fingers on the limbs."""
    if joints < 40:
        return [k - 1 for k in range(joints)]
    parents = [-1, 0, 1, 2, 3, 4, 5, 6]
    tips = []
    for limb in range(4):
        start = -1 if limb < 2 else 3
        for k in range(LIMB):
            parents.append(start if k == 0 else len(parents) - 1)
        tips.append(len(parents) - 1)
    finger = 0
    while len(parents) < joints:
        parents.append(tips[finger % 4])
        for _ in range(2):
            if len(parents) < joints:
                parents.append(len(parents) - 1)
        finger += 1
    return parents


def write_log(robot_path: Path, path: Path) -> None:
    """Write a log of t, q, v and torques: sums of eight sines per joint, 0.05 N m of noise, and noise of q."""
    robot = load_robot(robot_path)
    rng = np.random.default_rng(1)
    t = np.arange(round(DURATION * RATE)) / RATE
    q, v, a = np.zeros((3, len(t), robot.n))
    for _ in range(8):
        w = 2.0 * np.pi * rng.uniform(0.1, 1.0, robot.n)
        phase, size = rng.uniform(0.0, 2.0 * np.pi, robot.n), rng.uniform(0.1, 0.3, robot.n)
        s, c = np.sin(t[:, None] * w + phase), np.cos(t[:, None] * w + phase)
        q, v, a = q + size * s, v + size * w * c, a - size * w**2 * s
    log = simulate(robot, Motion(t, q, v, a), noise=0.05)
    assert log.tau is not None
    names = ["t", *(f"{what}{k + 1}" for what in ("q", "tau") for k in range(robot.n))]
    data = np.column_stack([t, q + 1e-5 * rng.standard_normal(q.shape), log.tau])
    np.savetxt(path, data, fmt="%.9g", delimiter=",", header=",".join(names), comments="")


def measure(robot: Path, log: Path) -> tuple[float, float, float]:
    """Processor time (s), time on the clock (s) and peak memory (GB) of `dynid identify`, in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "DYNID_THREADS": "1"}
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "dynid", "identify", str(robot), str(log)], stdout=output, stderr=output,
            env=environment,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            output.seek(0)
            raise SystemExit(output.read().decode())
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024 / 1e9


def main(sizes: list[int]) -> None:
    """Write the files into a temporary folder, run the command for each size after one joint, and print figures."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        for joints in (1, *sizes):
            robot, log = Path(folder) / f"tree{joints}.urdf", Path(folder) / f"tree{joints}.csv"
            write_tree(robot, joints)
            write_log(robot, log)
            cpu, wall, peak = measure(robot, log)
            print(
                f"{joints} joints: {cpu:.1f} s of processor time ({wall:.1f} s on the clock), {peak:.2f} GB", flush=True
            )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [40, 100])
