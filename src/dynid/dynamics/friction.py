"""Columns of a joint's own torque beside the rigid body's: friction, offset, spring and what depends on position.

A block has a name and gives every joint one or two columns. The plain blocks are viscous, coulomb and offset; the
stop operators stand for dry friction with its presliding and keep their value at standstill; `stop1e-3` has a
width of 1e-3 rad. Prismatic joints use the same shapes with lengths: one rad stands for the joint's range / 2 pi.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat

import numpy as np

from dynid.dynamics.kernels.compiled import compiled
from dynid.dynamics.scene import Column
from dynid.errors import ModelError
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Stop operators: elastic presliding with a limit, the memory of dry friction (Maxwell slip).


@compiled
def run_stop_operators(q: Array, width: Array, state: Array, out: Array) -> None:
    """Run stop operators z <- clip(z + dq / width, -1, 1) along positions q (N, n), widths (w, n).

    state is the value at the first sample; out (N, w, n) receives the value at every sample.
    """
    N, n = q.shape
    for b in range(width.shape[0]):
        for j in range(n):
            z = state[b, j]
            out[0, b, j] = z
            scale = 1.0 / width[b, j]
            before = q[0, j]
            for k in range(1, N):
                now = q[k, j]
                z = min(1.0, max(-1.0, z + (now - before) * scale))
                before = now
                out[k, b, j] = z


@compiled
def write_rest_fractions(t: Array, v: Array, half: int, speed: Array, slow: float, out: Array) -> None:
    """Write exp(-(v / speed)^2 - (a / slow)^2) into out (N, n), zero on entry; a: mean over `half` samples each side.

    Velocities v (N, n) are over the joints' scales. Most samples of a motion are far from rest and cost a comparison.
    """
    N, n = v.shape
    for k in range(N):
        first, last = max(k - half, 0), min(k + half, N - 1)
        for j in range(n):
            x = v[k, j] / speed[j]
            if abs(x) < FAR_FROM_REST:
                a = (v[last, j] - v[first, j]) / (t[last] - t[first])
                out[k, j] = np.exp(-x * x - (a / slow) ** 2)


FAR_FROM_REST = 6.0
"""Velocity over that of a joint at rest from which on its fraction of rest is below 3e-16: none."""

PLAIN = ("viscous", "coulomb", "offset")
STOP = re.compile(r"stop(\d+(?:\.\d*)?(?:e-?\d+)?)")


@dataclass(frozen=True, slots=True)
class FrictionBlock:
    """Columns per joint: symbols of their parameters, units for turning and sliding joints, and their values.

    value(q, v): columns (N, n) from positions and velocities, in rad-like units of the joint's range unless the block
    is one of PLAIN_UNITS; None for blocks that look at neighbours (stops, lag) or at the rigid torque (load). doc: the
    formula.
    """

    symbols: tuple[str, ...]
    turning: str
    sliding: str
    value: Callable[[Array, Array], tuple[Array, ...]] | None = None
    doc: str = ""


STILL = 1e-8
"""Velocity (rad/s) that is rounding of a filter at standstill: no direction can be read from it."""


REST = (1e-2, 0.3)
"""Velocity (rad/s) and acceleration (rad/s^2) of a joint at rest: where both are far below, noise makes the sign."""

REST_SPAN = 0.05
"""Seconds on each side over which that acceleration is taken: from sample to sample encoders would make it."""


def _velocity_signs(v: Array) -> Array:
    """Sign of velocities, 0 at standstill."""
    return np.where(np.abs(v) < STILL, 0.0, np.sign(v))


FRICTION = {
    "viscous": FrictionBlock(("Fv",), "N m s", "N s/m", lambda q, v: (v,), "v"),
    "coulomb": FrictionBlock(("Fc",), "N m", "N", lambda q, v: (_velocity_signs(v),), "sign(v)"),
    "offset": FrictionBlock(("Fo",), "N m", "N", lambda q, v: (np.ones_like(v),), "1"),
    "tanh": FrictionBlock(("Ft",), "N m", "N", lambda q, v: (np.tanh(v / 0.1),), "tanh(v / 0.1 rad/s)"),
    "quadratic": FrictionBlock(("Fq",), "N m s^2", "N s^2/m^2", lambda q, v: (v * np.abs(v),), "v |v|"),
    "asymmetry": FrictionBlock(("Fa",), "N m s", "N s/m", lambda q, v: (np.abs(v),), "|v|"),
    "stribeck": FrictionBlock(
        ("Fx",),
        "N m",
        "N",
        lambda q, v: (np.exp(-((v / 0.5) ** 2)) * _velocity_signs(v),),
        "exp(-(v / 0.5 rad/s)^2) sign(v)",
    ),
    "lag": FrictionBlock(("Fd",), "N m s", "N s", None, "d sign(v) / dt: friction that follows or leads the velocity"),
    "load": FrictionBlock(("Fl",), "1", "1", None, "|rigid torque| stop(1e-4)"),
    "rest": FrictionBlock(("Fr",), "N m", "N", None, "stop where all joints rest, 0 in motion"),
    "spring": FrictionBlock(("Ks",), "N m", "N/m", lambda q, v: (q,), "q"),
    "sine": FrictionBlock(("Psin", "Pcos"), "N m", "N", None, "sin q, cos q"),
}
HARMONICS = {"sine": 1} | {f"sine{k}": k for k in range(2, 7)}
"""Blocks of the sine and cosine of so many times the position."""

FRICTION |= {
    name: FrictionBlock((f"Psin{k}q", f"Pcos{k}q"), "N m", "N", None, f"sin {k}q, cos {k}q")
    for name, k in HARMONICS.items()
    if k > 1
}

SIGNED = ("coulomb", "tanh", "stribeck", "lag")
"""Blocks that look at the sign of the velocity."""

PLAIN_UNITS = ("viscous", "quadratic", "asymmetry", "spring")
"""Blocks whose parameters are in SI per m for sliding joints, not per unit of range."""


def find_friction_block(name: str) -> FrictionBlock:
    """Return the friction block of this name, `stop0.02` for a stop of any width; raise where there is none."""
    match = STOP.fullmatch(name)
    if match and 0.0 < float(match[1]) < np.inf:
        return FrictionBlock((f"Fs{match[1]}",), "N m", "N", None, f"stop operator of {match[1]} rad")
    if name not in FRICTION:
        raise ModelError(
            "unknown_friction_block", "there is no friction block '{block}'", "blocks are {blocks}, stop1e-4, "
            "stop1e-3, ...", block=name, blocks=list(FRICTION),
        )  # fmt: skip
    return FRICTION[name]


def stop_width(name: str) -> float:
    """Width of a block's stop operator, rad; 0 for blocks without one."""
    match = STOP.fullmatch(name)
    return float(match[1]) if match else (1e-4 if name == "load" else 0.0)


def stop_width_at_rest(noise: float) -> float:
    """Width (rad) of the stop that stands for dry friction at rest, from the noise (rad) of recorded positions.

    Three standard deviations of noise are a tenth of it, between 5e-5 and 3e-4 rad, over which gears bend.
    """
    return float(np.clip(30.0 * noise, 5e-5, 3e-4))


def rest_detection_half_window(t: Array) -> int:
    """Number of samples before and after an instant by which it is decided whether a joint rests."""
    return max(1, round(REST_SPAN / float(np.median(np.diff(t)))))


def friction_columns(robot: Robot, blocks: Sequence[str]) -> tuple[Column, ...]:
    """Columns of the blocks, block by block, symbol by symbol, joint by joint."""
    columns = []
    for name in blocks:
        block = find_friction_block(name)
        for symbol in block.symbols:
            for k in robot.active_links:
                link = robot.links[k]
                unit = block.turning if link.kind == "revolute" else block.sliding
                apart = "_" if symbol[-1].isdigit() and link.label[:1].isdigit() else ""
                name = symbol + apart + link.label
                columns.append(Column(Parameter(name, symbol=symbol, kind="friction", unit=unit, joint=link.joint), k))
    return tuple(columns)


def joint_scales(robot: Robot, span: Array | None = None) -> Array:
    """Position of each joint that counts as one rad: 1, or range / 2 pi (m) for prismatic joints.

    span (n,): range that was seen, for joints without limits.
    """
    lower, upper = robot.limits.position.T
    seen = np.ones(robot.n) if span is None else np.where(span > 0.0, span, 1.0)
    room = np.where(np.isfinite(lower) & np.isfinite(upper) & (upper > lower), upper - lower, seen)
    revolute = np.array([robot.links[k].kind == "revolute" for k in robot.active_links], dtype=np.bool_)
    return np.where(revolute, 1.0, room / (2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class FrictionShapes:
    """Blocks of one robot, ready to be evaluated: widths and scales per joint.

    held: width (rad) of the stop that takes the place of signs and of narrower stops at rest, where these follow noise;
    0 where velocities are exact, or too noisy to show rest.
    """

    blocks: tuple[str, ...]
    scale: Array
    held: float = 0.0

    @property
    def stop_widths(self) -> Array:
        """Widths (w, n) of the stop operators, in the joints' units."""
        return np.outer(np.array(self._distinct_stop_widths), self.scale)

    @property
    def _distinct_stop_widths(self) -> list[float]:
        """Distinct widths (rad), with that of the stop which holds at rest."""
        own = {stop_width(name) for name in self.blocks} - {0.0}
        is_held = not {*SIGNED, "rest"}.isdisjoint(self.blocks) or min(own, default=self.held) < self.held
        return sorted(own | {self.held} if self.held and is_held else own)

    @property
    def has_stops(self) -> bool:
        """Whether there are stops among the blocks."""
        return any(map(stop_width, self.blocks))

    @property
    def is_uncertain_at_rest(self) -> bool:
        """Whether there is dry friction, which is undetermined at rest, along a motion with noise."""
        return self.held > 0.0 and (self.has_stops or not set(SIGNED).isdisjoint(self.blocks))

    @property
    def columns_per_joint(self) -> int:
        """Number of friction columns per joint."""
        return sum(len(find_friction_block(name).symbols) for name in self.blocks)

    def rest_fractions(self, t: Array, v: Array, speed: Array | float = REST[0]) -> Array:
        """Fractions (N, n), 0 to 1, to which joints rest, by their velocities; speed (rad/s): of a joint at rest.

        A joint that merely turns back does not rest: its acceleration, a mean over neighbours, is not small.
        """
        v, out = v / self.scale, np.zeros(v.shape)
        if len(t) > 1:
            speeds = np.broadcast_to(np.asarray(speed, dtype=np.float64), v.shape[1:]).copy()
            write_rest_fractions(
                np.ascontiguousarray(t), np.ascontiguousarray(v), rest_detection_half_window(t), speeds, REST[1], out
            )
        return out

    def velocity_signs(self, v: Array) -> Array:
        """Signs (N, n) of velocities (N, n), as Coulomb friction sees them: 0 at standstill."""
        return _velocity_signs(v / self.scale)

    def initial_stop_states(self, q: Array, lead: int) -> Array:
        """State (w, n) of the stops at the first sample, as if the motion had come from its odd reflection."""
        widths, n = self.stop_widths, q.shape[1]
        state = np.zeros((len(widths), n))
        some = q[: lead + 1]
        if len(widths) == 0 or len(some) < 2:
            return state
        before = np.ascontiguousarray(2.0 * some[0] - some[::-1])
        out = np.zeros((len(before), len(widths), n))
        run_stop_operators(before, widths, state, out)
        return np.asarray(out[-1])

    def stop_values_along(self, q: Array, state: Array) -> Array:
        """Values (N, w, n) of the stops along positions, from the state at the first sample."""
        widths = self.stop_widths
        out = np.zeros((len(q), len(widths), q.shape[1]))
        if len(widths):
            run_stop_operators(np.ascontiguousarray(q), widths, np.ascontiguousarray(state), out)
        return out

    def column_values(self, t: Array, q: Array, v: Array, stops: Array, rigid: Array | None) -> Array:
        """Values (N, columns per joint, n) of all blocks; `rigid` (N, n) is the torque that `load` needs.

        `lag` looks at the samples beside each one, and so does what finds rest: at the ends values are one-sided. At
        rest the sign of a velocity is noise, and what was fitted in motion knows nothing of it: a stop takes its
        place. It takes that of narrower stops too, which follow noise, where all joints rest: a joint
        that sticks alone is pushed by the others.
        """
        place = {w: k for k, w in enumerate(self._distinct_stop_widths)}
        out = np.empty((len(q), self.columns_per_joint, q.shape[1]))
        turned_q, turned_v = q / self.scale, v / self.scale
        highest = max((HARMONICS[name] for name in self.blocks if name in HARMONICS), default=0)
        waves = list(accumulate(repeat(np.exp(1j * turned_q), highest), np.multiply)) if highest else []
        rest = self.rest_fractions(t, v) if self.held in place else None
        all_rest = None if rest is None else rest.min(axis=1, keepdims=True)

        def hold_at_rest(x: Array, resting: Array | None) -> Array:
            """Values in motion, and those of the stop that holds at rest."""
            return x if resting is None else x + resting * (stops[:, place[self.held]] - x)

        c = 0
        for name in self.blocks:
            block = find_friction_block(name)
            if name == "load":
                if rigid is None:
                    raise ModelError(
                        "load_friction_needs_estimate", "friction block 'load' needs the rigid torque of a first "
                        "estimate",
                    )  # fmt: skip
                out[:, c] = np.abs(rigid) * hold_at_rest(stops[:, place[1e-4]], all_rest)
            elif name == "lag":
                signs = _velocity_signs(turned_v)
                out[:, c] = np.gradient(hold_at_rest(signs, rest), t, axis=0) if len(t) > 1 else 0.0
            elif name == "rest":
                out[:, c] = 0.0 if all_rest is None else all_rest * stops[:, place[self.held]]
            elif name in HARMONICS:
                wave = waves[HARMONICS[name] - 1]
                out[:, c], out[:, c + 1] = wave.imag, wave.real
            elif block.value is None:
                own = stops[:, place[stop_width(name)]]
                out[:, c] = hold_at_rest(own, all_rest) if stop_width(name) < self.held else own
            else:
                plain = name in PLAIN_UNITS
                for k, column in enumerate(block.value(q if plain else turned_q, v if plain else turned_v)):
                    out[:, c + k] = hold_at_rest(column, rest) if name in SIGNED else column
            c += len(block.symbols)
        return out


def friction_rows(motion: Motion, blocks: tuple[str, ...]) -> Array:
    """Rows (N, n, columns) along a motion: each joint's friction acts on its own torque.

    Prismatic joints without limits are not told apart here; use `FrictionShapes` where scales matter.
    """
    N, n = motion.v.shape
    shapes = FrictionShapes(blocks, np.ones(n))
    stops = shapes.stop_values_along(motion.q, shapes.initial_stop_states(motion.q, 0))
    values = shapes.column_values(motion.t, motion.q, motion.v, stops, np.ones((N, n)))
    rows = np.zeros((N, n, values.shape[1] * n))
    for c in range(values.shape[1]):
        for j in range(n):
            rows[:, j, c * n + j] = values[:, c, j]
    return rows
