"""Exported C code against pinocchio's inverse dynamics, and what base parameters save."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from bench.pinocchio_loop import model_of
from bench.robots import random_motion, robot_of
from bench.timing import ROUNDS, Cell, Table, best_of, on_one_core
from dynid.exports.c_code import write_c_code
from dynid.exports.subject import make_export_subject
from dynid.exports.verify import find_compiler
from dynid.robot.inertia import Body, from_body, to_body
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, freeze

SAMPLES = 20_000

WRAPPER = """
#include "robot.c"
void batch(int count, const double *q, const double *qd, const double *qdd, double *tau)
{
    for (int k = 0; k < count; ++k) {
        PREFIX_inverse_dynamics(q + JOINTS * k, qd + JOINTS * k, qdd + JOINTS * k, tau + JOINTS * k);
    }
}
"""


def tables() -> Iterator[Table]:
    """Measure and return the tables."""
    yield operations()
    yield speed()


def with_bodies(robot: Robot) -> Robot:
    """Return the robot with bodies that could exist, the same in every run."""
    rng = np.random.default_rng(3)
    links = []
    for link in robot.links:
        A = rng.standard_normal((3, 3))
        S = 0.1 * A @ A.T
        body = Body(float(rng.uniform(0.5, 5.0)), rng.uniform(-0.3, 0.3, 3), np.trace(S) * np.eye(3) - S)
        links.append(replace(link, inertia=freeze(from_body(body)), rotor=0.1))
    return replace(robot, links=tuple(links))


def operations() -> Table:
    """Multiplications and additions of inverse dynamics, with standard and with base parameters."""
    rows: list[tuple[Cell, ...]] = []
    for joints in (3, 6, 7, 30):
        cost = write_c_code(make_export_subject(with_bodies(robot_of(joints)))).operations
        base, standard = cost.functions["inverse_dynamics"], cost.standard
        shares = (standard.multiplications, standard.additions, base.multiplications, base.additions)
        rows.append((joints, *shares, base.total / standard.total))
    return Table(
        "Operations of inverse dynamics in C",
        ("joints", "standard, mul", "standard, add", "base, mul", "base, add", "base / standard"),
        tuple(rows),
        "Random bodies: no standard parameter is zero. Rotors included; sines and cosines not counted.",
    )


class Code:
    """The code of a robot, compiled with -O2, and a loop over samples inside C."""

    def __init__(self, robot: Robot, folder: Path) -> None:
        subject = make_export_subject(replace(robot, name="robot"))
        (folder / "robot.c").write_text(write_c_code(subject).text)
        text = WRAPPER.replace("PREFIX", "robot").replace("JOINTS", str(robot.n))
        (folder / "batch.c").write_text(text)
        library = folder / "batch.so"
        flags = ["-std=c99", "-O2", "-fPIC", "-shared"]
        subprocess.run(
            [find_compiler(), *flags, "-o", str(library), str(folder / "batch.c"), "-lm"], check=True, cwd=folder
        )
        self.call = ctypes.CDLL(str(library)).batch

    def run(self, q: Array, v: Array, a: Array, tau: Array) -> None:
        """Fill tau (N, n)."""
        self.call(len(q), *(ctypes.c_void_p(x.ctypes.data) for x in (q, v, a, tau)))


def pinocchio_model(robot: Robot) -> Any:
    """Return the same robot for pinocchio, rotors as armature."""
    model = model_of(robot)
    for k, link in enumerate(robot.links):
        body = to_body(link.inertia)
        model.inertias[k + 1] = pin.Inertia(body.mass, body.com, body.inertia)
        model.armature[k] = link.rotor
    return model


def speed() -> Table:
    """Microseconds per sample of inverse dynamics."""
    rows: list[tuple[Cell, ...]] = []
    try:
        find_compiler()
    except FileNotFoundError:
        return Table("Inverse dynamics", ("what",), (("skipped: there is no C compiler",),), "")
    for joints in (6, 7):
        robot = with_bodies(robot_of(joints))
        motion = random_motion(robot, SAMPLES)
        q, v, a = (np.ascontiguousarray(x) for x in (motion.q, motion.v, motion.a))
        ours, theirs = np.empty_like(q), np.empty_like(q)
        model = pinocchio_model(robot)
        data = model.createData()
        with tempfile.TemporaryDirectory() as folder, on_one_core():
            code = Code(robot, Path(folder))

            def by_pinocchio(model: Any = model, data: Any = data, out: Array = theirs) -> None:
                for k in range(SAMPLES):
                    out[k] = pin.rnea(model, data, q[k], v[k], a[k])  # noqa: B023

            def by_code(code: Code = code, out: Array = ours) -> None:
                code.run(q, v, a, out)  # noqa: B023

            spent = best_of(ROUNDS, {"C": by_code, "pinocchio": by_pinocchio})
        scale = np.abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * scale)
        c, p = (1e6 * spent[name].cpu / SAMPLES for name in ("C", "pinocchio"))
        rows.append((joints, c, p, p / c))
    return Table(
        "Inverse dynamics, microseconds of CPU per sample",
        ("joints", "C, loop in C", "pinocchio.rnea, loop in Python", "ratio"),
        tuple(rows),
        f"Best of {ROUNDS}, {SAMPLES} samples, gcc -O2, one core; torques compared to 1e-9. "
        "The loop in Python is what a user writes; its calls are part of the time.",
    )
