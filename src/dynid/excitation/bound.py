"""What no motion inside the limits can beat: optimal design measures on the box of states (q, v, a).

A motion is a measure on the admissible states. Dropping that its states are connected leaves a convex problem, and its
dual bounds every motion: with M the mean of W'W per sample, rows over their noise, and f(N) the maximum of
tr(W N W') over the box,

- d: det(M)^(1/p) <= det(N)^(-1/p) f(N) / p for every N > 0,
- a: tr(L M^-1 L') >= tr(L K')^2 / f(K'K) for every K, with L the metric (the identity, or that of the target),
- e: lambda_min(M) <= f(Y) for every Y >= 0 with trace 1.

N, K, Y come from a nearly optimal measure: weights of states by L-BFGS (Kiefer's criteria; e is the limit of sharper
and sharper ones), new states by ascent from many starts. The bound holds as far as f is known: see
`certified_maximum` for when it is proven.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax

from dynid.dynamics.friction import stop_width
from dynid.dynamics.regressor import find_model
from dynid.errors import ExcitationError
from dynid.excitation.criteria import BaseRows
from dynid.excitation.points import PointLimits
from dynid.messages import Wording
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

CRITERIA = ("a", "d", "e", "v")
"""Criteria that have a bound."""
GAP = 0.005
"""Duality gap at which the measure is good enough."""
ROUNDS, WORK, SECONDS = 80, 1700, 40.0
"""Rounds of the search for a measure, their number times that of columns, and the time after which none begins."""
STARTS, STEPS = 192, 36
"""Random states from which a round ascends, and steps of an ascent; the last round takes eight times as many states."""
WEIGHT_STEPS = 120
SHARPNESS = (1.0, 4.0, 16.0, 48.0)
"""Powers of Kiefer's criteria that approach the largest eigenvalue of the covariance."""
PROVEN_JOINTS = 3
DEGREE = 4
"""Degree of f in each velocity and sliding position, and as a trigonometric polynomial in each angle: twice W's."""


@dataclass(frozen=True, slots=True)
class CriterionBound:
    """Smallest value of a criterion that any motion inside the limits can have.

    gap: relative duality gap of the measure it comes from, on the scale of the variance: no bound by any measure on
    the same box is better by more than this share.
    """

    value: float
    is_proven: bool
    gap: float


@dataclass(frozen=True, slots=True, eq=False)
class StateBox:
    """Admissible states, in units of their limits: x (B, 3, s, n) of positions, velocities, accelerations in [-1, 1].

    s is 1, or 2 for rows of energy, which are differences between two states. round_turn (n,): angles without
    limits that matter, which leave [-1, 1] and come round again.
    """

    rows: BaseRows
    middle: Array
    size: Array
    round_turn: NDArray[np.bool_]
    noise: Array

    @staticmethod
    def for_rows(rows: BaseRows, limits: Limits, noise: Array | None) -> StateBox:
        """Box of a robot's states; raise where it is not bounded, or rows depend on more than a state."""
        _refuse_history(rows)
        robot = rows.robot
        reach = PointLimits.for_robot(robot, limits)
        acceleration = reach.acceleration if needs_accelerations(rows) else np.zeros(robot.n)
        if not np.isfinite(acceleration).all():
            joint = robot.joint_names[int(np.argmax(~np.isfinite(acceleration)))]
            raise ExcitationError(
                "bound_needs_limits", "joint '{joint}' has no acceleration limit: no motion is the best one there",
                "give {limits} for a bound", joint=joint,
                limits=Wording("limits['acceleration']", "--acceleration"),
            )  # fmt: skip
        angles = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
        simple = not robot.couplings and "spring" not in rows.friction
        turns = angles & (reach.reach >= np.pi) & simple
        size = np.stack([np.where(turns, np.pi, reach.reach), reach.speed, acceleration])
        sigma = np.ones(rows.rows_per_sample) if noise is None else noise
        return StateBox(rows, reach.middle, size, turns, sigma)

    @property
    def together(self) -> int:
        """Number of states that a row depends on."""
        return 1 + find_model(self.rows.model).overlap

    def random_states(self, count: int, rng: np.random.Generator) -> Array:
        """Random states: positions anywhere, velocities mostly and accelerations all at their limits."""
        x = rng.uniform(-1.0, 1.0, (count, 3, self.together, len(self.middle)))
        x[:, 2] = np.sign(x[:, 2])
        fast = rng.random(x[:, 1].shape) < 0.6
        x[:, 1] = np.where(fast, np.sign(x[:, 1]), x[:, 1])
        return x

    def clip(self, x: Array) -> Array:
        """States inside the box."""
        free = np.zeros(x.shape[1:], dtype=np.bool_)
        free[0] = self.round_turn
        return np.where(free, (x + 1.0) % 2.0 - 1.0, np.clip(x, -1.0, 1.0))

    def motion(self, x: Array) -> Motion:
        """The states, one after the other."""
        q, v, a = np.moveaxis(x * self.size[:, None], 1, 0).reshape(3, -1, len(self.middle))
        return Motion(np.arange(float(len(q))), q + self.middle, v, a)

    def matrix(self, x: Array) -> Array:
        """W (B, channels, p) at states, rows over their noise."""
        return self._own_rows(self.rows.matrix(self.motion(x)))

    def values_and_gradients(self, x: Array, K: Array) -> tuple[Array, Array]:
        """|W K'|^2 (B,) at states, and its gradient by them."""
        along = self.rows.rows_along(self.motion(x))
        W = along.matrix()
        own = self._own_rows(W)
        Y = own.reshape(-1, W.shape[1]) @ K.T
        weights = np.zeros((len(W) // len(self.noise), len(self.noise), W.shape[1]))
        weights[:: self.together] = 2.0 * (Y @ K).reshape(own.shape) / self.noise[:, None]
        slopes = np.stack([g.reshape(len(x), self.together, -1) for g in along.adjoint(weights.reshape(W.shape))])
        f = np.einsum("ij,ij->i", Y, Y).reshape(len(x), -1).sum(axis=1)
        return f, np.moveaxis(slopes, 0, 1) * self.size[:, None]

    def _own_rows(self, W: Array) -> Array:
        """Rows of W that belong to one state, or pair of states, over their noise."""
        apart = W.reshape(-1, len(self.noise), W.shape[1])[:: self.together]
        return np.asarray(apart / self.noise[:, None])


def needs_accelerations(rows: BaseRows) -> bool:
    """Whether the rows of a model depend on accelerations."""
    return rows.model not in ("energy", "momentum")


def _refuse_history(rows: BaseRows) -> None:
    """Raise where rows are not a function of the state alone, or not of every state in the box."""
    memory = [name for name in rows.friction if stop_width(name) or name in ("lag", "rest")]
    if memory:
        raise ExcitationError(
            "bound_not_available", "column '{column}' depends on the past of a motion, so a bound over states does not "
            "exist", "leave it out of the friction columns, or design without a bound", column=memory[0],
        )  # fmt: skip
    if rows.robot.closures:
        raise ExcitationError(
            "bound_not_available", "'{robot}' has closed loops that are solved numerically, and cannot reach every "
            "state inside the limits", "design without a bound", robot=rows.robot.name,
        )  # fmt: skip


def check_bound_available(criterion: str, *, after: object = None, target: object = None) -> None:
    """Raise for criteria without a bound, and for designs that add to what is known already."""
    if criterion not in CRITERIA:
        raise ExcitationError(
            "criterion_without_bound", "criterion '{criterion}' has no bound", "criteria with a bound are {criteria}",
            criterion=criterion, criteria=list(CRITERIA),
        )  # fmt: skip
    for name, given in (("after", after), ("target", target)):
        if given is not None:
            raise ExcitationError(
                "option_not_applicable", "bound cannot be combined with {option}: it is about what one motion shows "
                "by itself",
                option=name,
            )  # fmt: skip


def find_bound(
    box: StateBox,
    criterion: str,
    samples: int,
    *,
    metric: Array | None = None,
    seed: int = 0,
    on_progress: Callable[[str, float], None] | None = None,
) -> CriterionBound:
    """Bound a criterion of the covariance over all motions of so many samples whose states stay in the box.

    metric L (m, p): criterion `v` is tr(L C L') of the covariance C, and so is `a` with a metric. The value is
    in the units of `Criterion.value`: trace, log determinant or largest eigenvalue of the covariance.
    """
    check_bound_available(criterion)
    dual = _Dual("a" if metric is not None else criterion, metric)
    measure = _find_measure(box, dual, seed, on_progress)
    proven = can_be_proven(box)
    f = certified_maximum(box, measure.K, measure.largest) if proven else measure.largest
    gap = float(np.expm1(dual.log_variance_of(measure.M) - dual.log_variance_bound(measure.K, f)))
    return CriterionBound(dual.value(measure.K, f, samples), proven, gap)


def excess_over_bound(criterion: str, value: float, bound: float, columns: int) -> float:
    """How far a criterion is above a bound, as a factor of variance: 1 is the optimum."""
    return float(np.exp((value - bound) / columns)) if criterion == "d" else value / bound


@dataclass(frozen=True, slots=True, eq=False)
class _Dual:
    """A criterion's dual: K with N = K'K for a matrix M, and the bound that K and f give."""

    criterion: str
    metric: Array | None = None
    sharpness: float = 1.0

    def value_and_factor(self, M: Array) -> tuple[float, Array]:
        """Logarithm of the (smooth) variance per sample at M, and K (m, p), whose K'K is minus its gradient by M."""
        lam, V = np.linalg.eigh(M)
        lam = np.maximum(lam, lam[-1] * 1e-14)
        if self.criterion == "d":
            return -float(np.log(lam).mean()), np.asarray((V / np.sqrt(lam * len(lam))).T)
        if self.criterion == "e":
            small = lam[0] / lam
            total = float((small**self.sharpness).sum())
            K = (V * np.sqrt(small ** (self.sharpness + 1.0) / (lam[0] * total))).T
            return float(np.log(total)) / self.sharpness - float(np.log(lam[0])), np.asarray(K)
        L = V if self.metric is None else self.metric @ V
        total = float((L**2 / lam).sum())
        return float(np.log(total)), np.asarray((L / lam) @ V.T / np.sqrt(total))

    def log_variance_bound(self, K: Array, f: float) -> float:
        """Logarithm of the bound on the variance per sample (trace, geometric mean or largest) by any K."""
        if self.criterion == "d":
            return float(np.linalg.slogdet(K)[1]) * 2.0 / len(K) - float(np.log(f / len(K)))
        if self.criterion == "e":
            return float(np.log((K**2).sum() / f))
        trace = np.trace(K) if self.metric is None else np.einsum("mp,mp->", K, self.metric)
        return 2.0 * float(np.log(trace)) - float(np.log(f))

    def value(self, K: Array, f: float, samples: int) -> float:
        """Bound in the units of the criterion, for so many samples."""
        log_variance = self.log_variance_bound(K, f) - float(np.log(samples))
        return K.shape[1] * log_variance if self.criterion == "d" else float(np.exp(log_variance))

    def log_variance_of(self, M: Array) -> float:
        """Logarithm of the variance per sample of a measure with matrix M."""
        lam, V = np.linalg.eigh(M)
        if self.criterion == "d":
            return -float(np.log(lam).mean())
        if self.criterion == "e":
            return -float(np.log(lam[0]))
        return float(np.log((((V if self.metric is None else self.metric @ V) ** 2) / lam).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class _Measure:
    """A nearly optimal measure: its matrix M per sample, the factor K of its dual, and the largest |W K'|^2 found."""

    M: Array
    K: Array
    largest: float


def _find_measure(box: StateBox, dual: _Dual, seed: int, on_progress: Callable[[str, float], None] | None) -> _Measure:
    """Alternate between weights of the states found so far and ascent to states that the dual misses."""
    rng = np.random.default_rng([seed, 0])
    p, begin = len(box.rows.names), time.monotonic()
    x = box.random_states(4 * p, rng)
    W = box.matrix(x)
    w = np.full(len(x), 1.0 / len(x))
    stages = [replace(dual, sharpness=s) for s in SHARPNESS] if dual.criterion == "e" else [dual]
    rounds = max(min(ROUNDS, WORK // p), 2 * len(stages))
    for k in range(rounds):
        now = stages[0]
        w = _optimal_weights(W, w, now)
        kept = w > 1e-4 * w.max()
        x, W, w = x[kept], W[kept], w[kept] / w[kept].sum()
        M = _information(W, w)
        _, K = now.value_and_factor(M)
        starts = np.concatenate([x, box.random_states(STARTS, rng)])
        tops, f = _ascend(box, starts, K, STEPS)
        gap = float(np.expm1(now.log_variance_of(M) - now.log_variance_bound(K, f.max())))
        if on_progress is not None:
            on_progress(f"bound: duality gap {gap:.1%}", min(0.9, (k + 1) / rounds))
        late = time.monotonic() - begin > SECONDS or k >= rounds - 2
        if len(stages) == 1 and (f.max() < 1.0 + GAP or late):
            break
        if f.max() < 1.0 + 10.0 * GAP or late:
            stages = stages[-1:] if late else stages[1 if len(stages) > 1 else 0 :]
        new = _distinct(tops, f, 1.0 + 0.2 * GAP, 2 * p)
        x, W = np.concatenate([x, new]), np.concatenate([W, box.matrix(new)])
        w = np.concatenate([0.8 * w, np.full(len(new), 0.2 / len(new))])
    last = _ascend(box, np.concatenate([x, box.random_states(8 * STARTS, rng)]), K, 2 * STEPS)[1]
    return _Measure(M, K, float(max(last.max(), f.max())))


def _information(W: Array, w: Array) -> Array:
    """M = sum of w_i W_i' W_i for rows W (m, channels, p)."""
    A = (W * np.sqrt(w)[:, None, None]).reshape(-1, W.shape[2])
    return np.asarray(A.T @ A)


def _squares(W: Array, K: Array) -> Array:
    """|W_i K'|^2 (m,)."""
    Y = (W.reshape(-1, W.shape[2]) @ K.T).reshape(len(W), -1)
    return np.asarray(np.einsum("ij,ij->i", Y, Y))


def _optimal_weights(W: Array, w: Array, dual: _Dual) -> Array:
    """Weights (m,) of given states that make the variance small, w = exp(z) / sum(exp(z)), by L-BFGS."""

    def value_and_gradient(z: Array) -> tuple[float, Array]:
        w = softmax(z)
        value, K = dual.value_and_factor(_information(W, w))
        return value, w * (1.0 - _squares(W, K))  # the mean of the squares is 1

    found = minimize(
        value_and_gradient, np.log(w), jac=True, method="L-BFGS-B",
        options={"maxiter": WEIGHT_STEPS, "maxcor": 30, "ftol": 1e-12, "gtol": 1e-9},
    )  # fmt: skip
    return np.asarray(softmax(found.x))


def _distinct(x: Array, f: Array, least: float, most: int) -> Array:
    """States with the largest f, above `least` where any is, that are apart from each other."""
    order = np.argsort(-f)
    chosen: list[int] = []
    flat = x.reshape(len(x), -1)
    for k in order:
        if chosen and (f[k] < least or len(chosen) == most):
            break
        if not chosen or np.abs(flat[chosen] - flat[k]).max(axis=1).min() > 0.03:
            chosen.append(int(k))
    return np.asarray(x[chosen])


def _ascend(box: StateBox, x: Array, K: Array, steps: int) -> tuple[Array, Array]:
    """States of large |W K'|^2 above starting ones: resilient steps in q and v, accelerations at vertices.

    f is convex in the accelerations, so going to the vertex that the gradient points to never lessens it.
    """
    best, top = x, np.full(len(x), -np.inf)
    step = np.full(x.shape, 0.1)
    before = np.zeros_like(x)
    for _ in range(steps):
        f, slope = box.values_and_gradients(x, K)
        better = f > top
        top = np.where(better, f, top)
        best = np.where(better[:, None, None, None], x, best)
        agree = np.sign(slope * before)
        step = np.clip(step * np.where(agree > 0, 1.4, np.where(agree < 0, 0.45, 1.0)), 1e-7, 0.5)
        before = np.where(agree < 0, 0.0, slope)
        x = box.clip(x + step * np.sign(before))
        x[:, 2] = np.where(slope[:, 2] == 0.0, x[:, 2], np.sign(slope[:, 2]))
    return best, top


# Proof for few joints: f between the nodes of a grid.
#
# f = tr(W N W') >= 0 is convex in the accelerations, so its maximum is at vertices of their box. It is a polynomial of
# degree m = 4 in each velocity (on either side of zero, with Coulomb friction) and each sliding position, and a
# trigonometric polynomial of degree m in each angle. With M its maximum, |f - M/2| <= M/2, and Riesz' inequality for
# trigonometric polynomials (in the angle, or in theta where v = V cos(theta)) gives f >= M cos^2(m d / 2) at distance d
# from the maximum; over a part of a turn, Bernstein's gives f >= M - m^2 d^2 F / 4, with F the maximum over the turn.


def can_be_proven(box: StateBox) -> bool:
    """Whether the maximum of f can be certified: torques of few joints, rigid, viscous, Coulomb and offset columns."""
    rows = box.rows
    plain = rows.model == "torque" and not rows.robot.couplings
    return plain and rows.robot.n <= PROVEN_JOINTS and set(rows.friction) <= {"viscous", "coulomb", "offset"}


def chebyshev_factor(nodes: int, degree: int = DEGREE) -> float:
    """Maximum over largest value at cos(k pi / nodes), k = 0..nodes, of a polynomial that is nowhere negative."""
    return float(np.cos(degree * np.pi / (4.0 * nodes)) ** -2.0)


def turn_factor(nodes: int, degree: int = DEGREE) -> float:
    """Maximum over largest value at `nodes` equidistant angles of a trigonometric polynomial, nowhere negative."""
    return float(np.cos(degree * np.pi / (2.0 * nodes)) ** -2.0)


def arc_excess(step: float, degree: int = DEGREE) -> float:
    """What such a polynomial exceeds nodes of an arc by, at most, as a share of its maximum over the whole turn."""
    return (degree * step) ** 2 / 16.0


LEVELS = (8, 12, 16, 24, 32, 48, 64)
"""Chebyshev nodes per velocity, refined where f may be larger than its largest known value."""
ANGLES = ((), (1, 400), (1, 400, 110), (1, 200, 90, 36))
"""Nodes of a turn, by the number of joints and of positions that f depends on."""
TIGHT = 1.015
"""A proof is refined until it is within this factor of the largest known value, as far as OPERATIONS allow."""
OPERATIONS = 4e10
"""Multiplications that a proof may take."""


def certified_maximum(box: StateBox, K: Array, known: float) -> float:
    """Upper bound of |W K'|^2 over the box of states; known: the largest value found, below which nothing is refined.

    Where K comes from the columns' own noise and metric, this is f(K'K) of the bounds above.
    """
    revolute = np.array([box.rows.robot.links[k].kind == "revolute" for k in box.rows.robot.active_links])
    used = _positions_used(box)
    count = ANGLES[len(used)][int(used.sum())]
    forms = _QuadraticForms(K, box.rows.friction)
    arcs = used & revolute & ~box.round_turn
    excess = 0.0
    if arcs.any():
        turned = replace(
            box, size=np.vstack([np.where(arcs, np.pi, box.size[0]), box.size[1:]]), round_turn=used & revolute
        )
        nodes, factor = _position_grid(turned, used, revolute, min(count, 32))
        whole = factor * forms.largest_over_velocities(turned, nodes, np.inf, LEVELS[:3])
        steps = 2.0 * box.size[0, arcs] / (_arc_nodes(box.size[0, arcs], count) - 1)
        excess = whole * sum(arc_excess(float(h)) for h in steps)
    nodes, factor = _position_grid(box, used, revolute, count)
    return excess + factor * forms.largest_over_velocities(box, nodes, TIGHT * known / factor, LEVELS)


def _positions_used(box: StateBox) -> NDArray[np.bool_]:
    """Positions that W depends on at all: not the first joint's where its axis is vertical."""
    rng = np.random.default_rng(0)
    x = box.random_states(20, rng)
    W = box.matrix(x)
    used = np.zeros(len(box.middle), dtype=np.bool_)
    for j in range(len(used)):
        moved = x.copy()
        moved[:, 0, :, j] = rng.uniform(-1.0, 1.0, (20, 1))
        used[j] = np.abs(box.matrix(moved) - W).max() > 1e-11 * np.abs(W).max()
    return used


def _arc_nodes(half: Array, count: int) -> NDArray[np.int64]:
    """Nodes of arcs of these half ranges, both ends included, where a turn has `count`."""
    return np.ceil(count * half / np.pi).astype(np.int64) + 1


def _position_grid(
    box: StateBox, used: NDArray[np.bool_], revolute: NDArray[np.bool_], count: int
) -> tuple[Array, float]:
    """Positions (Q, n) in units of the box, and the factor by which f may be larger between them (arcs left out)."""
    factor, axes = 1.0, []
    for j, half in enumerate(box.size[0]):
        if not used[j]:
            axes.append(np.zeros(1))
        elif not revolute[j]:
            factor *= chebyshev_factor(24)
            axes.append(np.cos(np.arange(25) * np.pi / 24))
        elif box.round_turn[j]:
            factor *= turn_factor(count)
            axes.append(-1.0 + 2.0 * np.arange(count) / count)
        else:
            axes.append(np.linspace(-1.0, 1.0, int(_arc_nodes(half[None], count)[0])))
    return np.array(list(itertools.product(*axes))), factor


@dataclass(frozen=True, slots=True, eq=False)
class _QuadraticForms:
    """|W K'|^2 at a position as a quadratic form in accelerations and in phi = (1, v_i v_j, v_i, sign v_i)."""

    K: Array
    friction: tuple[str, ...]

    def at_positions(self, box: StateBox, nodes: Array) -> Array:
        """Gram matrices (Q, k, k) at positions (Q, n): accelerations first, then phi; W is probed at few states."""
        n, Q, unit = len(box.middle), len(nodes), np.eye(len(box.middle))
        pairs = list(itertools.combinations(range(n), 2))
        v = np.concatenate([np.zeros((1 + n, n)), unit, -unit, 0.5 * unit, -0.5 * unit, *self._sums(unit, pairs)])
        a = np.concatenate([np.zeros((1, n)), unit, np.zeros((len(v) - n - 1, n))])
        x = np.stack([np.repeat(nodes, len(v), axis=0), np.tile(v, (Q, 1)), np.tile(a, (Q, 1))], axis=1)
        W = box.matrix(x[:, :, None]) @ self.K.T
        still, *parts = np.split(W.reshape(Q, len(v), -1), np.cumsum([1, n, n, n, n, n]), axis=1)
        accelerations, forward, back, half_forward, half_back, both = parts
        squares = 0.5 * (forward + back) - still
        odd, half_odd = 0.5 * (forward - back), 0.5 * (half_forward - half_back)
        first, second = ([pair[k] for pair in pairs] for k in (0, 1))
        mixed = both - still - squares[:, first] - squares[:, second] - odd[:, first] - odd[:, second]
        linear = {"viscous": 2.0 * (odd - half_odd), "coulomb": 2.0 * half_odd - odd}
        B = [accelerations - still, still, squares, mixed, *(linear[name] for name in self._linear_blocks)]
        flat = np.concatenate(B, axis=1)
        return np.asarray(flat @ flat.transpose(0, 2, 1))

    @staticmethod
    def _sums(unit: Array, pairs: list[tuple[int, int]]) -> list[Array]:
        """Sums of two unit vectors, as rows."""
        return [(unit[i] + unit[j])[None] for i, j in pairs]

    @property
    def _linear_blocks(self) -> list[str]:
        """Friction blocks that change with the velocity."""
        return [name for name in ("viscous", "coulomb") if name in self.friction]

    def velocity_nodes(self, n: int, count: int) -> Array:
        """Functions phi (P, k) at Chebyshev nodes of all velocities, on either side of zero for Coulomb friction."""
        line = np.cos(np.arange(count + 1) * np.pi / count)
        signed = "coulomb" in self.friction
        side = np.concatenate([0.5 * (1.0 + line), -0.5 * (1.0 + line)]) if signed else line
        signs = np.repeat([1.0, -1.0], count + 1) if signed else np.zeros(count + 1)
        v = np.array(list(itertools.product(side, repeat=n)))
        pairs = list(itertools.combinations(range(n), 2))
        parts = [np.ones((len(v), 1)), v**2, *(v[:, i : i + 1] * v[:, j : j + 1] for i, j in pairs)]
        directions = {"viscous": v, "coulomb": np.array(list(itertools.product(signs, repeat=n)))}
        return np.hstack([*parts, *(directions[name] for name in self._linear_blocks)])

    def largest_over_velocities(self, box: StateBox, nodes: Array, known: float, levels: tuple[int, ...]) -> float:
        """Upper bound of f over all positions of a grid, velocities and accelerations.

        Positions at which f is below `known` for sure are not refined; infinity refines all of them.
        """
        n = len(box.middle)
        G = np.concatenate([self.at_positions(box, part) for part in np.array_split(nodes, 1 + len(nodes) // 2000)])
        bound = np.full(len(nodes), np.inf)
        spent = 0.0
        for count in levels:
            open_ = bound > (known if np.isfinite(known) else 0.0)
            phi = self.velocity_nodes(n, count)
            spent += float(open_.sum()) * len(phi) * (phi.shape[1] + 2 * n) * (phi.shape[1] + 1) / 2
            if not open_.any() or (spent > OPERATIONS and count > levels[0]):
                break
            bound[open_] = chebyshev_factor(count) ** n * _largest_at_nodes(G[open_], phi, n)
        return float(bound.max())


def _largest_at_nodes(G: Array, phi: Array, n: int) -> Array:
    """Largest (w, phi)' G (w, phi) over nodes phi (P, k) and vertices w in {-1, 1}^n, (Q,)."""
    upper = np.triu_indices(phi.shape[1])
    products = (phi[:, upper[0]] * phi[:, upper[1]]).T
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    vertices = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    found = np.empty(len(G))
    step = max(1, 2_000_000 // len(phi))
    for k in range(0, len(G), step):
        part = G[k : k + step]
        still = (part[:, n:, n:][:, upper[0], upper[1]] * twice) @ products
        linear = 2.0 * (part[:, :n, n:] @ phi.T)
        best = np.full(still.shape, -np.inf)
        for w in vertices:
            own = np.einsum("i,qij,j->q", w, part[:, :n, :n], w)[:, None]
            np.maximum(best, np.abs(np.tensordot(w, linear, (0, 1))) + own, out=best)
        found[k : k + step] = (still + best).max(axis=1)
    return found
