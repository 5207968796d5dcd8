"""Model parameters without known geometry: found with symbols, counted over finite fields, and their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from bench.base import pinned
from bench.timing import ROUNDS, Table, Verdict, best_of, on_one_core
from dynid.identifiability.numeric import random_samples
from dynid.robot.load import load_robot
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.finite_field import ModelParameterCount
from dynid.unknown_geometry.model_parameters import ModelParameters, count_model_parameters, model_parameters

SAMPLES = 2000


def tables() -> Iterator[Table]:
    """Measure and return the tables, one by one."""
    yield searches()
    yield rows()


def robots() -> dict[str, tuple[Robot, tuple[str, ...]]]:
    """Robots and what of them is unknown."""
    right = [{"alpha": 0.0 if j == 0 else math.pi / 2 * (-1) ** j} for j in range(6)]
    return {
        "6R, d and r": (Robot.from_mdh(right, name="6R"), ("d", "r")),
        "puma560, known": (load_robot("puma560"), ()),
        "iiwa, r": (load_robot("iiwa"), ("r",)),
    }


def searches() -> Table:
    """Time of the symbolic search and of counting alone."""
    chosen = robots()
    tasks: dict[str, Callable[[], int]] = {}
    for name, (robot, unknown) in chosen.items():
        tasks[f"find {name}"] = counting(model_parameters, robot, unknown)
        tasks[f"count {name}"] = counting(count_model_parameters, robot, unknown)
    spent = best_of(ROUNDS, {name: pinned(run) for name, run in tasks.items()})
    limits = {"6R, d and r": (20.0, 5.0)}
    lines = []
    for name in chosen:
        found, counted = limits.get(name, (None, None))
        lines.append(
            (name, tasks[f"find {name}"](), Verdict(spent[f"find {name}"].cpu, found),
             Verdict(spent[f"count {name}"].cpu, counted))
        )  # fmt: skip
    return Table(
        "Model parameters, seconds",
        ("robot and unknowns", "found", "with symbols", "counted only"),
        tuple(lines),
        f"Warm. CPU time on one core; best of {ROUNDS} interleaved rounds.",
    )


def counting(
    search: Callable[..., ModelParameters | ModelParameterCount], robot: Robot, unknown: tuple[str, ...]
) -> Callable[[], int]:
    """Return a call that gives the number of parameters."""
    return lambda: search(robot, unknown=unknown).count


def writing(found: ModelParameters, motion: Motion, out: Array) -> Callable[[], None]:
    """Return a call that writes U on one core."""

    def run() -> None:
        with on_one_core():
            found.write(motion, out)

    return run


def rows() -> Table:
    """Time of a sample of U."""
    tasks: dict[str, Callable[[], None]] = {}
    counts = {}
    for name, (robot, unknown) in robots().items():
        found = model_parameters(robot, unknown=unknown)
        motion, out = random_samples(robot, SAMPLES, seed=0), np.empty((SAMPLES, robot.n, found.count))
        counts[name] = (found.count, len(found.tables.tables.coefficient))
        tasks[name] = writing(found, motion, out)
    spent = best_of(ROUNDS, tasks)
    return Table(
        "Rows of U, microseconds per sample",
        ("robot and unknowns", "columns", "terms", "CPU"),
        tuple((name, *counts[name], spent[name].cpu / SAMPLES * 1e6) for name in tasks),
        f"{SAMPLES} samples, one core; best of {ROUNDS} interleaved rounds.",
    )
