"""Run inside the peers' environment by `bench.peers`: FIGAROH's way to base parameters, timed on request.

Reads one JSON request per line, `{"urdf": ..., "route": ..., "samples": ...}`, runs that route once and answers with
one line. Stands alone: neither dynid nor the rest of bench is installed here.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import cache
from typing import Any

import numpy as np
from figaroh.identification.parameter import (  # type: ignore[import-not-found]
    add_standard_additional_parameters,
    get_standard_parameters,
)
from figaroh.optimal.base_parameter import BaseParameterComputer  # type: ignore[import-not-found]
from figaroh.tools.qrdecomposition import get_baseIndex, get_baseParams  # type: ignore[import-not-found]
from figaroh.tools.regressor import (  # type: ignore[import-not-found]
    build_regressor_basic,
    build_regressor_reduced,
    get_index_eliminate,
)
from figaroh.tools.robot import Robot  # type: ignore[import-not-found]

SPREAD = 6.0
"""Random positions, velocities and accelerations lie in +-6, and columns below 1e-6 are dropped: its examples."""
ZERO_COLUMN = 1e-6


def main() -> None:
    """Answer requests until the input ends."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    np.random.seed(0)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(**json.loads(line))) + "\n")
        sys.stdout.flush()


def answer(urdf: str, route: str, samples: int) -> dict[str, float | int]:
    """Run a route once."""
    robot, settings = load(urdf)
    if route == "spline":
        return along_spline(robot)
    return on_random_samples(robot, settings, route, samples)


def on_random_samples(robot: Any, settings: dict[str, Any], route: str, samples: int) -> dict[str, float | int]:
    """Seconds of CPU, of which the regressor's, and how many base parameters it found."""
    start = time.process_time()
    q, v, a = (np.random.uniform(-SPREAD, SPREAD, (samples, robot.model.nv)) for _ in range(3))
    W = build_regressor_basic(robot, q, v, a, settings)
    built = time.process_time()
    standard = get_standard_parameters(robot.model, settings)
    standard.update(add_standard_additional_parameters(robot.model, settings))
    gone, names = get_index_eliminate(W, standard, ZERO_COLUMN)
    W_e = build_regressor_reduced(W, gone)
    indices = get_baseIndex(W_e, names) if route == "index" else get_baseParams(W_e, names, standard)[2]
    end = time.process_time()
    return {"cpu": end - start, "regressor": built - start, "found": len(indices), "samples": samples}


def along_spline(robot: Any) -> dict[str, float | int]:
    """Time what FIGAROH itself does with the samples of its random spline; making those is not counted."""
    computer = spline_of(robot)
    q, v, a = computer.samples
    start = time.process_time()
    _, indices = BaseParameterComputer._get_idx_from_random(computer, q, v, a)
    end = time.process_time()
    return {"cpu": end - start, "drawing": computer.drawing, "found": len(indices), "samples": len(q)}


class Spline(BaseParameterComputer):  # type: ignore[misc]
    """Its random spline through 100 waypoints, sampled at 100 Hz: takes the samples from compute_base_indices."""

    samples: tuple[Any, Any, Any]
    drawing = 0.0
    """CPU seconds of making the samples."""

    def _get_idx_from_random(self, q: Any, v: Any, a: Any) -> Any:
        self.samples = q, v, a
        return np.empty(0, int), np.empty(0, int)


@cache
def spline_of(robot: Any) -> Spline:
    """Draw the samples once."""
    _, settings = load(robot.robot_urdf)
    spline = Spline(robot, settings, list(robot.model.names)[1:], np.zeros((3, robot.model.nv)))
    start = time.process_time()
    spline.compute_base_indices()
    spline.drawing = time.process_time() - start
    return spline


@cache
def load(urdf: str) -> tuple[Any, dict[str, Any]]:
    """Return robot and settings as its identification configures them: joint torques with actuator inertias."""
    robot = Robot(urdf, package_dirs=os.path.dirname(urdf))
    n = robot.model.nv
    settings = {
        "is_joint_torques": True,
        "is_external_wrench": False,
        "has_friction": False,
        "has_actuator_inertia": True,
        "has_joint_offset": False,
        "act_idxv": list(range(n)),
        "Ia": [0.0] * n,
    }
    return robot, settings


if __name__ == "__main__":
    main()
