"""Public recordings of real robots, where they are here, and a judge of predictions that knows nothing of dynid.

The judge filters the measured torque as the baselines do (zero-phase Butterworth of order 4), makes the motion from
the recorded positions with scipy alone, and asks for a prediction.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

import dynid
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DATA = Path(os.environ.get("DYNID_DATA", Path(__file__).parents[2] / "shared" / "data"))
PLAIN = ("viscous", "coulomb", "offset")


@dataclass(frozen=True)
class Case:
    robot: str
    folder: str
    rate: float
    cutoff: float
    rotor_inertia: bool
    measured_velocity: bool
    trim: int
    base_rank: int
    plain: float
    recipe: float


CASES = {
    "panda": Case("panda", "panda_gaz2019", 1000.0, 10.0, False, True, 200, 43, 0.060, 0.038),
    "lwr4": Case("lwr4", "kuka_lwr4_flobaroid", 200.0, 8.0, False, False, 50, 43, 0.238, 0.10),
    "ur10": Case("ur10", "ur10_unisa", 125.0, 10.0, True, True, 25, 40, 0.170, 0.125),
    "kr300": Case("kr300", "kr300_weigand", 250.0, 10.0, True, False, 50, 40, 0.350, 0.27),
}


def logs(case: Case, robot: Robot, *, cut: bool) -> tuple[list[dynid.Log], list[dynid.Log]]:
    """Logs to fit and to validate; `cut`: validation data in a log of its own, without what was before."""
    folder = DATA / case.folder
    if not folder.exists():
        pytest.skip(f"the recordings {folder} are not here")
    if case.robot == "kr300":
        a, b, c = (positions_only(dynid.read_log(folder / f"log_{x}.csv.gz", robot)) for x in "ABC")
        return [a, b], [c]
    if case.robot == "lwr4":
        one, three = (positions_only(dynid.read_log(folder / f"log_{k}.csv.gz", robot)) for k in (1, 3))
        split = 2.5 + 0.6 * (three.span[1] - three.span[0] - 5.0)
        fit, rest = three.between(2.5, split), three.between(split, -2.5)
        return [one.between(2.5, -2.5), alone(fit) if cut else fit], [alone(rest) if cut else rest]
    file = "log.csv.gz" if case.robot == "panda" else "ur10_exciting_trajectory.db3"
    log = dynid.read_log(folder / file, robot)
    fit, rest = log.part(0.0, 0.65), log.part(0.65)
    return [alone(fit) if cut else fit], [alone(rest) if cut else rest]


def positions_only(log: dynid.Log) -> dynid.Log:
    return dynid.Log(log.t, log.q, tau=log.tau, name=log.name)


def alone(log: dynid.Log) -> dynid.Log:
    return dynid.Log(log.t, log.q, v=log.v, tau=log.tau, name=log.name)


class Predicts(Protocol):
    def predict(self, motion: Motion) -> Array: ...


def judge(case: Case, result: Predicts, log: dynid.Log) -> Array:
    """NRMSE per joint on a log, with nothing of dynid but its prediction."""
    t, places = np.unique(log.t, return_index=True)
    grid = np.arange(t[0], t[-1], 1.0 / case.rate)
    sos = butter(4, case.cutoff / (0.5 * case.rate), output="sos")

    def even(x: Array) -> Array:
        return np.column_stack([np.interp(grid, t, column) for column in x[places].T])

    def low(x: Array) -> Array:
        return np.asarray(sosfiltfilt(sos, x, axis=0, padlen=int(3 * case.rate / case.cutoff)))

    q = low(even(log.q))
    v = low(even(log.v)) if case.measured_velocity and log.v is not None else np.gradient(q, 1.0 / case.rate, axis=0)
    a = np.gradient(v, 1.0 / case.rate, axis=0)
    assert log.tau is not None
    inside = slice(case.trim, -case.trim)
    measured = low(even(log.tau))[inside]
    predicted = low(result.predict(Motion(grid, q, v, a)))[inside]
    return np.asarray(np.sqrt(((measured - predicted) ** 2).mean(axis=0)) / measured.std(axis=0))
