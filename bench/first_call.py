"""Run in a process of its own by `bench.startup`: prints the CPU seconds of the first call of `regressor`."""

from __future__ import annotations

import sys
import time

from bench.robots import random_motion, robot_of
from dynid.dynamics.regressor import regressor


def main() -> None:
    """Time the first call, with everything imported and kernels on disk."""
    robot = robot_of(7)
    motion = random_motion(robot, 1000)
    start = time.process_time()
    regressor(robot, motion)
    sys.stdout.write(f"{time.process_time() - start}\n")


if __name__ == "__main__":
    main()
