"""Gauss-Newton on rollouts, by multiple shooting: many short windows, each from a state of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynid.actuators.rollout import Drives, Simulator, Windows
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

SHOOTING = 0.6
"""Length (s) of the windows."""

MOST = 24
"""Windows, at most."""

FIELDS = ("armature", "damping", "frictionloss", "offset", "kp", "kd", "gain")
_STEPS = {"armature": 1e-4, "damping": 1e-3, "frictionloss": 1e-3, "offset": 1e-3, "kp": 1e-2, "kd": 1e-3, "gain": 1e-3}
"""Least steps by which parameters are changed to differentiate by them."""

SLACK = 5.0
"""Factor of the linear estimate's standard deviations beyond which the start is left only for a reason."""


STEPPING, TIMING = 0.01, 4e-5
"""Share of values, and seconds of a delay, that the time step of rollouts leaves uncertain."""


@dataclass(frozen=True, eq=False)
class Polished:
    """Drives after Gauss-Newton, standard deviations by field (n,) and of the delay, rollouts used, errors in rad."""

    drives: Drives
    sigma: dict[str, Array]
    delay_sigma: float
    rollouts: int
    error_before: float
    error_after: float


@dataclass(frozen=True)
class _Unknown:
    """One direction of the search: a field of some joints, of different branches, or the delay."""

    field: str
    joints: tuple[int, ...]


def branches(robot: Robot) -> list[int]:
    """Number of the branch from the fixed base to which each active joint belongs: branches do not feel each other."""
    root: dict[int, int] = {-1: -1}
    for k in robot.topological_order:
        parent = robot.links[k].parent
        inherited = root[parent]
        root[k] = k if inherited == -1 and robot.links[k].moves else inherited
    order = list(dict.fromkeys(root[k] for k in robot.active_links))
    return [order.index(root[k]) for k in robot.active_links]


class _Problem:
    """Residuals, and their derivatives by all unknowns and by the states at which windows begin."""

    def __init__(
        self, simulator: Simulator, windows: Windows, start: Drives, fields: dict[str, Array], seek_delay: bool
    ) -> None:
        self.simulator, self.windows, self.fields = simulator, windows, fields
        branch = np.array(branches(simulator.robot))
        self.branch = branch
        place = np.array([int((branch[:j] == branch[j]).sum()) for j in range(len(branch))])
        self.unknowns = [
            _Unknown(field, tuple(int(j) for j in np.flatnonzero(mask & (place == k))))
            for field, mask in fields.items() for k in range(int(place.max()) + 1) if (mask & (place == k)).any()
        ]  # fmt: skip
        self.columns = [(u.field, j) for u in self.unknowns for j in u.joints] + ([("delay", -1)] if seek_delay else [])
        self.seek_delay = seek_delay
        self.groups = [tuple(int(j) for j in np.flatnonzero(place == k)) for k in range(int(place.max()) + 1)]
        self.start = start

    def values(self, drives: Drives) -> Array:
        """Numbers of all columns."""
        return np.array([drives.delay if f == "delay" else get_field(drives, f)[j] for f, j in self.columns])

    def with_values(self, drives: Drives, x: Array) -> Drives:
        """Drives with other numbers, none below what is possible."""
        new = {field: get_field(drives, field).copy() for field in self.fields}
        delay = drives.delay
        for (field, j), value in zip(self.columns, x, strict=True):
            if field == "delay":
                delay = float(np.clip(value, -0.02, 0.15))
            else:
                new[field][j] = value if field == "offset" else max(value, 1e-5 if field == "armature" else 0.0)
        return set_fields(replace(drives, delay=delay), new)

    def residuals(self, drives: Drives, q: Array | None = None, v: Array | None = None) -> Array:
        """Errors (windows, samples, n) of a rollout, rad; the first sample is the start itself."""
        found = self.simulator.rollout(drives, self.windows, q=q, v=v)
        return np.asarray(np.clip(np.nan_to_num(found - self.windows.measured, nan=1.0), -1.0, 1.0))

    def jacobian(self, drives: Drives, r: Array, scales: Array) -> Array:
        """Derivatives (windows, samples, n, columns)."""
        J = np.zeros((*r.shape, len(self.columns)))
        c = 0
        for unknown in self.unknowns:
            new = get_field(drives, unknown.field).copy()
            steps = scales[c : c + len(unknown.joints)]
            new[list(unknown.joints)] += steps
            moved = self.residuals(set_fields(drives, {unknown.field: new})) - r
            for j, step in zip(unknown.joints, steps, strict=True):
                own = self.branch == self.branch[j]
                J[..., own, c] = moved[..., own] / step
                c += 1
        if self.seek_delay:
            J[..., c] = (self.residuals(replace(drives, delay=drives.delay + scales[c])) - r) / scales[c]
        return J

    def jacobian_of_states(self, drives: Drives, r: Array) -> Array:
        """Derivatives (windows, samples, n, 2 n) by positions and velocities at the beginning."""
        n = r.shape[2]
        B = np.zeros((*r.shape, 2 * n))
        for kind, step in ((0, 1e-3), (1, 1e-2)):
            for group in self.groups:
                q, v = self.windows.q.copy(), self.windows.v.copy()
                (q if kind == 0 else v)[:, list(group)] += step
                moved = (self.residuals(drives, q, v) - r) / step
                for j in group:
                    own = self.branch == self.branch[j]
                    B[..., own, kind * n + j] = moved[..., own]
        return B


def get_field(drives: Drives, field: str) -> Array:
    """Numbers (n,) of a field of drives or of their controller."""
    return getattr(drives.controller if field in ("kp", "kd", "gain") else drives, field)  # type: ignore[no-any-return]


def set_fields(drives: Drives, new: dict[str, Array]) -> Drives:
    """Drives with other numbers of some fields."""
    own = {key: x for key, x in new.items() if key not in ("kp", "kd", "gain")}
    gains = {key: x for key, x in new.items() if key in ("kp", "kd", "gain")}
    controller = drives.controller.with_values(**gains) if gains else drives.controller
    return replace(drives, **own, controller=controller)  # type: ignore[arg-type]


def polish(
    simulator: Simulator, windows: Windows, start: Drives, sigma: dict[str, Array], delay_sigma: float, *,
    rollouts: int, seek_delay: bool, noise: Array, tell: Callable[[float], None] | None = None,
) -> Polished:  # fmt: skip
    """Improve drives by at most so many rollouts of all windows; sigma: of what is sought, by field, NaN: not sought.

    noise (n,): standard deviation of recorded positions, rad.
    """
    used = simulator.count
    fields = {key: np.isfinite(x) for key, x in sigma.items() if np.isfinite(x).any()}
    problem = _Problem(simulator, windows, start, fields, seek_delay)
    prior = np.array([delay_sigma if f == "delay" else sigma[f][j] for f, j in problem.columns])
    size = np.abs(problem.values(start))
    least = np.array([2e-4 if f == "delay" else _STEPS[f] for f, _ in problem.columns])
    scales = np.maximum(np.maximum(0.02 * size, prior), least)
    scales = np.minimum(scales, np.maximum(0.1 * size, least))
    prior = SLACK * np.maximum(prior, 0.01 * size + 0.1 * least)
    drives, r = start, problem.residuals(start)
    center = problem.values(start)
    state_sigma = np.r_[np.maximum(noise, 1e-4), np.maximum(40.0 * noise, 0.01)]
    J = B = None
    first, cost = _rms(r), np.inf
    fresh = False
    while True:
        left = rollouts - (simulator.count - used)
        if tell is not None:
            tell(1.0 - left / max(rollouts, 1))
        need = len(problem.unknowns) + int(seek_delay) + (2 * len(problem.groups) if B is None else 0)
        if left >= need + 1 or J is None:
            if J is None and left < need + 1:
                break
            J, fresh = problem.jacobian(drives, r, scales), True
            B = problem.jacobian_of_states(drives, r) if B is None else B
        elif left < 1 or not fresh:
            break
        else:
            fresh = False  # the last derivatives serve once more
        assert B is not None
        variance = np.maximum(np.mean(r**2, axis=(0, 1)), (0.3 * np.maximum(noise, 1e-5)) ** 2)
        H, g, value = _normal_equations(r, J, B, variance, state_sigma)
        cost = min(cost, value + np.sum(((problem.values(drives) - center) / prior) ** 2))
        better = False
        for damping in (1.0, 0.3):
            if rollouts - (simulator.count - used) < 1:
                break
            x = problem.values(drives)
            step = np.linalg.solve(H + np.diag(1.0 / prior**2), -g - (x - center) / prior**2)
            trial = problem.with_values(drives, x + damping * step)
            r_trial = problem.residuals(trial)
            new = _normal_equations(r_trial, None, B, variance, state_sigma)[2]
            new += np.sum(((problem.values(trial) - center) / prior) ** 2)
            if new < cost:
                better = new < 0.995 * cost
                drives, r, cost = trial, r_trial, new
                break
        if not better:
            break
        cost = np.inf  # the variances change
    found = {key: np.full(len(noise), np.nan) for key in fields}
    deviation = np.full(len(problem.columns), np.nan)
    if J is not None and B is not None:
        variance = np.maximum(np.mean(r**2, axis=(0, 1)), (0.3 * np.maximum(noise, 1e-5)) ** 2)
        deviation = _jackknife(r, J, B, variance, state_sigma, prior)
    shift = float("nan")
    size = np.abs(problem.values(drives))
    for (field, j), value, x in zip(problem.columns, deviation, size, strict=True):
        if field == "delay":
            shift = float(np.hypot(value, TIMING))
        else:
            found[field][j] = np.hypot(value, STEPPING * x)
    return Polished(drives, found, shift, simulator.count - used, first, _rms(r))


def _rms(r: Array) -> float:
    return float(np.sqrt(np.mean(r[:, 1:] ** 2)))


def _projected(
    r: Array, J: Array | None, B: Array, variance: Array, state_sigma: Array
) -> tuple[list[Array], list[Array]]:
    """Weighted residuals and derivatives of each window, without what another state at its beginning explains."""
    root = 1.0 / np.sqrt(variance)
    residuals, derivatives = [], []
    for w in range(len(r)):
        b = (B[w] * root[None, :, None]).reshape(-1, B.shape[-1])
        y = (r[w] * root[None, :]).ravel()
        A = b.T @ b + np.diag(1.0 / state_sigma**2)
        extra = y[:, None] if J is None else np.column_stack([y, (J[w] * root[None, :, None]).reshape(len(y), -1)])
        inside = np.linalg.solve(A, b.T @ extra)
        rest = np.vstack([extra - b @ inside, inside / state_sigma[:, None]])
        residuals.append(rest[:, 0])
        derivatives.append(rest[:, 1:])
    return residuals, derivatives


def _normal_equations(
    r: Array, J: Array | None, B: Array, variance: Array, state_sigma: Array
) -> tuple[Array, Array, float]:
    """Normal matrix, gradient and squares of all windows; the states at their beginnings are eliminated."""
    residuals, derivatives = _projected(r, J, B, variance, state_sigma)
    value = float(sum(x @ x for x in residuals))
    if J is None:
        return np.zeros((0, 0)), np.zeros(0), value
    H = np.sum([d.T @ d for d in derivatives], axis=0)
    g = np.sum([d.T @ x for d, x in zip(derivatives, residuals, strict=True)], axis=0)
    return np.asarray(H), np.asarray(g), value


def _jackknife(r: Array, J: Array, B: Array, variance: Array, state_sigma: Array, prior: Array) -> Array:
    """Standard deviations by leaving out one window after the other, to first order about the optimum.

    Scores of windows at the optimum are too small, the more so the fewer windows there are per parameter; leaving a
    window out undoes that (CR3 of cluster-robust variances).
    """
    residuals, derivatives = _projected(r, J, B, variance, state_sigma)
    H = np.sum([d.T @ d for d in derivatives], axis=0) + np.diag(1.0 / prior**2)
    moves = np.array([
        np.linalg.solve(H - d.T @ d, d.T @ x) for d, x in zip(derivatives, residuals, strict=True)
    ])  # fmt: skip
    return np.asarray(np.sqrt((len(moves) - 1) / len(moves) * (moves**2).sum(axis=0)))
