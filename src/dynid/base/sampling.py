"""Random samples of a model, drawn inside the joint limits, as the matrix W of Gautier 1991, eq. 6, 9 and 12."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dynid.errors import ModelError
from dynid.kernel.closing import REACHED, SINGULAR
from dynid.kernel.loops import loop_map
from dynid.models.columns import Column, standard_columns
from dynid.models.friction import friction_columns, friction_rows
from dynid.models.reaction import Reaction
from dynid.models.regressor import find_model
from dynid.models.scene import Stage
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

REGULAR = 0.02
"""Least regularity of samples in closed loops, or 0.3 of what it is at the assembly if that is less."""

GAP = 1e-7
ROUNDING = float(np.finfo(np.float64).eps) / GAP
"""By how much loops are left open to see what rounding does to a column, and rounding's share of that."""

NUMERICAL_MODELS = ("torque", "static", "energy", "power", "momentum", "reaction", "torque+reaction")


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Whose base parameters are asked for, and in which columns."""

    robot: Robot
    model: str
    rotor_inertia: bool
    tared: bool
    friction: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.model not in NUMERICAL_MODELS:
            raise ModelError(f"base parameters exist for {', '.join(NUMERICAL_MODELS)}, not for '{self.model}'")
        if self.friction and self.model not in ("torque", "static"):
            raise ModelError("friction and offset columns belong to the torque model")
        if self.tared and "reaction" not in self.model:
            raise ModelError("tared=True (six free offsets) belongs to the reaction model")

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns in question, friction last."""
        standard = standard_columns(self.robot, rotor_inertia=self.rotor_inertia).columns
        return (*standard, *friction_columns(self.robot, self.friction))

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Channels of the base that are measured, None for all six."""
        return None if self.robot.sensor is None else self.robot.sensor.channels

    @property
    def sees_plain_directions(self) -> bool:
        """Whether what is measured at the base, if anything, are forces and moments of frame 0, or all six."""
        sensor = self.robot.sensor
        return "reaction" not in self.model or sensor is None or sensor.is_plain or len(sensor.channels) == 6

    @property
    def offsets(self) -> int:
        """How many columns of free offsets come after all others."""
        return len(Reaction().channels(self.robot)) if self.tared else 0

    @property
    def known(self) -> tuple[int, ...]:
        """Columns of parameters known to be zero."""
        zeros = set(self.robot.known_zeros)
        return tuple(k for k, column in enumerate(self.columns) if column.name in zeros)


def random_samples(robot: Robot, samples: int, seed: int) -> Motion:
    """Positions inside the limits (a turn, or 1 m, where there are none), velocities and accelerations likewise.

    For implicit loops, samples that do not close, or only through or near a singular position, are moved towards the
    stated assembly until they do: all of them are of one assembly mode.
    """
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1.0, 1.0, (3, samples, robot.n))
    turns = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    lower, upper = robot.limits.position.T
    reach = np.where(turns, math.pi, 1.0)
    limited = np.isfinite(lower) & np.isfinite(upper)
    at = next((c.at for c in robot.closures if c.at is not None), np.zeros(robot.n))
    middle = np.where(limited, 0.5 * (np.where(limited, lower, 0.0) + np.where(limited, upper, 0.0)), at)
    half = np.where(limited, 0.5 * (np.where(limited, upper, 0.0) - np.where(limited, lower, 0.0)), reach)
    q = _in_one_mode(robot, middle + unit[0] * half)
    v = unit[1] * np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 2.0)
    a = unit[2] * np.where(np.isfinite(robot.limits.acceleration), robot.limits.acceleration, 5.0)
    t = np.arange(samples, dtype=np.float64)
    if robot.floating:
        quaternion = rng.standard_normal((samples, 4))
        quaternion /= np.linalg.norm(quaternion, axis=1)[:, None]
        pose = np.hstack([rng.uniform(-1.0, 1.0, (samples, 3)), quaternion])
        twist, rate = rng.uniform(-2.0, 2.0, (2, samples, 6))
        return Motion(t, q, v, a, pose, twist, rate)
    return Motion(t, q, v, a)


def _in_one_mode(robot: Robot, q: Array) -> Array:
    """Positions q (N, n), moved towards the assembly where paths from there come near a singular position."""
    loop = loop_map(robot)
    if loop is None or not robot.closures:
        return q
    waiting = np.arange(len(q))
    for _ in range(40):
        paths = loop.paths(q[waiting], REGULAR)
        if not paths.regularity > SINGULAR:
            break
        waiting = waiting[paths.end != REACHED]
        if not len(waiting):
            return q
        closer = np.where(paths.scales.reach > 0.0, 0.6, 1.0)
        q[waiting] = loop.at + closer * (q[waiting] - loop.at)
    raise ModelError(
        f"the loops of '{robot.name}' do not close around the stated assembly, or are at a dead point there; "
        "correct start and at"
    )


def model_matrix(question: Question, motion: Motion, gap: float = 0.0) -> Array:
    """Rows of the model in question, tare columns (one per channel of the base) at the end where asked for."""
    if question.model == "torque+reaction":
        torque = model_matrix(replace(question, model="torque", tared=False), motion, gap)
        reaction = model_matrix(replace(question, model="reaction"), motion, gap)
        silent = np.zeros((len(torque), reaction.shape[1] - torque.shape[1]))
        return np.concatenate([np.hstack([torque, silent]), reaction])
    robot, model = question.robot, find_model(question.model)
    stage = Stage.of(robot, standard_columns(robot, rotor_inertia=question.rotor_inertia)).with_gap(gap)
    rows = model.rows(stage.scene(model.seen(motion)))
    if question.friction:
        own = friction_rows(motion, question.friction)
        if robot.floating:
            own = np.concatenate([np.zeros((len(own), 6, own.shape[2])), own], axis=1)
        rows = np.concatenate([rows, own], axis=2)
    if question.tared:
        tare = np.broadcast_to(np.eye(rows.shape[1]), (len(rows), rows.shape[1], rows.shape[1]))
        rows = np.concatenate([rows, tare], axis=2)
    return np.asarray(rows.reshape(-1, rows.shape[2]))


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Random rows W (rows, columns), and how rounding in closed loops may change them; None without such loops."""

    matrix: Array
    noise: Array | None


def draw(question: Question, rows: int, seed: int) -> Draw:
    """At least `rows` random rows."""
    channels = _channels(question)
    samples = -(-rows // channels) + (1 if question.model == "energy" else 0)
    motion = random_samples(question.robot, max(samples, 2), seed)
    W = model_matrix(question, motion)
    if not question.robot.closures:
        return Draw(W, None)
    return Draw(W, ROUNDING * np.abs(model_matrix(question, motion, GAP) - W))


def independent_draws(question: Question, rows: int, seed: int) -> list[Draw]:
    """Draws whose base parameters must agree: one, and a second one for closed loops, where rounding is amplified."""
    seeds = (seed, seed + 7919) if question.robot.closures else (seed,)
    return [draw(question, rows, s) for s in seeds]


def _channels(question: Question) -> int:
    if question.model == "reaction":
        return len(Reaction().channels(question.robot))
    if question.model in ("energy", "power"):
        return 1
    return question.robot.n + (6 if question.robot.floating else 0)
