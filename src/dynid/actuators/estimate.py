"""Least squares for the drives: delay by search and Gauss-Newton, all else linear; intervals by the jackknife."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dynid.actuators.controller import Controller
from dynid.actuators.equation import Equation
from dynid.robot.transform import Array

LONGEST = 0.1
"""Longest delay (s) that is looked for."""

STEP = 0.004
"""Time step (s) of the search for delays."""

DIFFERENCE = 5e-4
"""Half of the time (s) over which the torque is differentiated by the delay."""

APART = 0.1
"""Gain in likelihood per row from which on a joint has a delay of its own."""

LAGS = np.array([0.0, 0.001, 0.002, 0.004, 0.008])
"""Ages (s) of the drive's own positions that are tried first."""

LATEST = 0.02
"""Oldest positions (s) with which a drive may close its loop."""

TIMING = 6e-5
"""Standard deviation (s) that filters, stamps and the shape of friction leave in a delay, however long a log is."""

METHOD = {"Ia": 0.005, "Fv": 0.005, "Fc": 0.012}
"""Shares of values that the smooth shapes of friction and the filters leave uncertain, however long a log is."""

COLLINEAR = 1e-9
"""Share of a column that the others do not explain below which it is collinear with them."""

Values = dict[str, float]


@dataclass(frozen=True, eq=False)
class JointRows:
    """Rows of one joint: target b (M,) = W theta (M, p) + shared S (M, s); gain: whose inverse scales them, if any."""

    W: Array
    S: Array
    b: Array
    gain: str = ""
    second: bool = False
    """Whether the column before the last of W is the second unknown gain."""
    noise: Array | float = 0.0
    """What noise of the positions adds to the cross products, per row."""

    def grams(self, blocks: NDArray[np.int64], weights: Array | None) -> Array:
        """Cross products (blocks, p + s + 1, p + s + 1) of each block, without what noise of the positions adds."""
        Z = np.column_stack([self.W, self.S, self.b])
        if weights is not None:
            Z = Z * np.sqrt(weights)[:, None]
        edges = np.flatnonzero(np.r_[True, np.diff(blocks) != 0])
        counts = np.add.reduceat(np.ones(len(Z)) if weights is None else weights, edges)
        made = np.stack([part.T @ part for part in np.split(Z, edges[1:])])
        return np.asarray(made - counts[:, None, None] * self.noise)


@dataclass(frozen=True, eq=False)
class Solution:
    """One solution of all joints: theta per joint, and shared values."""

    theta: list[Array]
    shared: Array


@dataclass(frozen=True, eq=False)
class DriveFit:
    """Estimates at one delay: by joint and name, with standard deviations.

    nrmse (n,): what is left of the torques over the size of those that move links and armature. values: of each joint
    the names Ia, Fv, Fc, Fo, Fl, kp, kd, gain, torque_constant that were sought; masses: factors
    of the links' masses. score: the logarithm of the likelihood, up to a constant. scale_share (n,): share of the known
    torque that columns beside the unknown gain do not explain, 1 where gains are known.
    """

    delay: float
    delay_sigma: float
    loop: str
    values: list[Values]
    sigma: list[Values]
    masses: Array
    masses_sigma: Array
    nrmse: Array
    score: float
    quantile: float
    scale_share: Array
    recipe: list[Values]
    delays: Array
    """Delay (n,) of each joint by itself, s."""
    residuals: Array
    """(M, n), N m"""
    sensor_delay: float = 0.0
    """Age (s) of the positions with which the drive closes its loop, given or found."""
    sensor_delay_sigma: float = 0.0


class Estimator:
    """Estimates of one equation; sensor_delay (s) is known, `find_sensor_delay` finds one."""

    def __init__(self, equation: Equation, *, sensor_delay: float = 0.0, weights: Array | None = None) -> None:
        self.equation, self.sensor_delay = equation, sensor_delay
        self.weights = equation.jump_weights if weights is None else weights

    def joint_rows(self, delay: float, loop: str, *, seek_delay: bool) -> list[JointRows]:
        """Rows of all joints about a delay; shared columns are the delay's, where it is sought, and the links'."""
        eq, n, lag = self.equation, self.equation.robot.n, self.sensor_delay
        known, bases = eq.drive(delay, loop, lag)
        later = earlier = (known, bases)
        if seek_delay:
            later, earlier = (eq.drive(delay + side * DIFFERENCE, loop, lag) for side in (1.0, -1.0))
        made = []
        for j in range(n):
            W, links = eq.rows.fixed[:, j], eq.rows.links[:, j]
            gain, second = self._unknown_gains(j)
            if not gain:
                b = known[:, j] - eq.rows.rigid[:, j]
                if second:
                    W = np.column_stack([W, -bases[second][:, j]])
                slope = (later[0][:, j] - earlier[0][:, j]) / (2.0 * DIFFERENCE)
            else:
                b = bases[gain][:, j]
                extra = [-bases[second][:, j]] if second else []
                W = np.column_stack([W, *extra, eq.rows.rigid[:, j] - known[:, j]])
                slope = (later[1][gain][:, j] - earlier[1][gain][:, j]) / (2.0 * DIFFERENCE)
            S = np.column_stack([-slope[:, None][:, : int(seek_delay)], links])
            made.append(JointRows(W, S, b, gain, bool(second), self._noise_products(j, loop, W, S, gain, second)))
        return made

    def _noise_products(self, j: int, loop: str, W: Array, S: Array, gain: str, second: str) -> Array:
        """Mean cross products of the noise that position, velocity and acceleration bring into the columns."""
        K = self._noise_factors(j, loop, W, S, gain, second)
        return np.asarray(K @ self.equation.motion_noise[j] @ K.T)

    def _noise_factors(self, j: int, loop: str, W: Array, S: Array, gain: str, second: str) -> Array:
        """What noise of position, velocity and acceleration is multiplied by in each column, (p + s + 1, 3).

        A drive that closes its own loop feels the true position, of which the recording is a noisy copy; a host
        makes its torque of the recorded one.
        """
        eq, c = self.equation, self.equation.controller
        p, J = W.shape[1], float(eq.link_inertias[j])
        K = np.zeros((p + S.shape[1] + 1, 3))
        K[0, 2], K[1 + eq.blocks.index("viscous"), 1] = 1.0, 1.0
        inside = float(loop == "drive")
        kp, kd = (float(np.nan_to_num(x[j])) * inside for x in (c.kp, c.kd))
        if c.kind[j] == "servo":
            stall = float(np.nan_to_num(c.torque_constant[j]) * c.voltage[j] / c.resistance[j])
            kp, kd = kp * stall, kd * stall
        kp = kp if c.kind[j] in ("position", "servo") else 0.0
        kd = kd if c.kind[j] != "current" else 0.0
        if second:
            K[len(eq.blocks) + 1, 1] = inside
        if gain:
            K[p - 1] = 0.0, kd, J
            K[-1, 0 if gain == "kp" else 1] = -inside if gain in ("kp", "kd") else 0.0
        else:
            lag = self.sensor_delay * inside  # q(t - s) = q - s v + s^2 a / 2, to second order
            K[-1] = -kp, -kd + lag * kp, -J + lag * kd - 0.5 * lag**2 * kp
        return K

    def torque_scales(self, fit: DriveFit) -> tuple[Array, Array, Array]:
        """Factors (n,) of the known torques by which the equation fits best, their deviations, and squares explained.

        Gravity and the known inertia of the links weigh them: torque = (rigid body) / scale + drives. The torque of the
        links is the column, since it is known better; where it is that of an armature alone, 1. NaN where gains are
        unknown.
        """
        eq, n = self.equation, self.equation.robot.n
        scale, sigma, gain = np.full(n, np.nan), np.full(n, np.nan), np.ones(n)
        torque, _ = eq.drive(fit.delay, fit.loop, self.sensor_delay)
        for j in range(n):
            if eq.controller.unknown(j):
                continue
            W = np.column_stack([eq.rows.fixed[:, j], eq.rows.links[:, j]])
            S, b = eq.rows.rigid[:, j, None], torque[:, j] - eq.rows.rigid[:, j]
            K = self._noise_factors(j, fit.loop, W, S, "", "")
            K[-2] = 0.0, 0.0, float(eq.link_inertias[j])
            rows = JointRows(W, S, b, noise=np.asarray(K @ eq.motion_noise[j] @ K.T))
            found, deviation = SharedColumns([rows], eq.block_numbers).solve([0])
            left = b - S[:, 0] * found[0]
            rest = [x - W @ np.linalg.lstsq(W, x, rcond=COLLINEAR)[0] for x in (b, left)]
            inverse = 1.0 + float(found[0])
            if abs(inverse) > 1e-3:
                scale[j], sigma[j] = 1.0 / inverse, float(deviation[0]) / inverse**2
            gain[j] = float(rest[0] @ rest[0]) / max(float(rest[1] @ rest[1]), 1e-300)
        return scale, sigma, gain

    def _unknown_gains(self, j: int) -> tuple[str, str]:
        """The unknown gain that scales a joint's equation, and a second one that can be told from damping."""
        c = self.equation.controller
        unknown = list(c.unknown(j))
        scaling = [key for key in unknown if key != "kd" or c.kind[j] == "velocity"]
        gain = scaling[0] if scaling else ""
        moves = any("v_cmd" in s.has and np.ptp(s.part.commands["v_cmd"][:, j]) > 0.0 for s in self.equation.stretches)
        second = "kd" if "kd" in unknown and gain != "kd" and moves else ""
        return gain, second

    def score(self, delay: float, loop: str) -> tuple[float, Array]:
        """Minus the logarithm of the likelihood at a delay, of all joints and of each."""
        own = []
        eq = self.equation
        if self.weights is None and not any(eq.controller.unknown(j) for j in range(eq.robot.n)):
            b = eq.drive(delay, loop, self.sensor_delay)[0] - eq.rows.rigid
            for j, Q in enumerate(eq.span):
                left = b[:, j] - Q @ (Q.T @ b[:, j])
                own.append(0.5 * len(b) * np.log(max(float(left @ left) / len(b), 1e-30)))
            return float(np.sum(own)), np.array(own)
        for j, rows in enumerate(self.joint_rows(delay, loop, seek_delay=False)):
            root = 1.0 if self.weights is None else np.sqrt(self.weights[:, j])[:, None]
            Z = np.column_stack([rows.W, rows.S, rows.b]) * root
            R = np.asarray(np.linalg.qr(Z, mode="r"), dtype=np.float64)
            own.append(0.5 * len(Z) * np.log(max(R[-1, -1] ** 2 / len(Z), 1e-30)))
        return float(np.sum(own)), np.array(own)

    def search_delay(
        self, loop: str, tell: Callable[[float], None] | None = None, *, step: float = STEP
    ) -> tuple[float, Array]:
        """Delay with the least squares of all joints together, and that of each, where it is clearly another."""
        period = max(part.period for part in self.equation.parts)
        grid = np.arange(-max(2.0 * period, 0.008), LONGEST + step, step)
        found = []
        for k, delay in enumerate(grid):
            found.append(self.score(float(delay), loop)[1])
            if tell is not None:
                tell(k / len(grid))
        table = np.array(found)
        common = _vertex(grid, table.sum(axis=1))
        rows = len(self.equation.block_numbers)
        own = np.full(table.shape[1], common)
        for j, y in enumerate(table.T):
            if float(np.interp(common, grid, y)) - y.min() > APART * rows:
                own[j] = _vertex(grid, y)
        return common, own

    def solve(self, delay: float, loop: str, *, seek_delay: bool, own: Array | None = None) -> DriveFit:
        """Estimates and intervals about a delay, which Gauss-Newton refines where it is sought."""
        blocks = self.equation.block_numbers
        for _ in range(3 if seek_delay else 1):
            rows = self.joint_rows(delay, loop, seek_delay=seek_delay)
            grams = [r.grams(blocks, None if self.weights is None else self.weights[:, j]) for j, r in enumerate(rows)]
            whole = [g.sum(axis=0) for g in grams]
            first = _solve(whole, rows, np.ones(len(rows)))
            counts = np.array(
                [len(blocks) if self.weights is None else self.weights[:, j].sum() for j in range(len(rows))]
            )
            noise = _squares(rows, first, self.weights) / counts
            found = _solve(whole, rows, noise)
            shift = float(found.shared[0]) if seek_delay else 0.0
            if abs(shift) < 2e-5:
                break
            delay += float(np.clip(shift, -STEP, STEP))
        count = len(grams[0])
        names = self._names()
        values, masses = self._values(rows, found, names)
        spread: list[list[Values]] = []
        others: list[Array] = []
        shifts = np.zeros(count)
        for b in range(count):
            one = _solve([w - g[b] for w, g in zip(whole, grams, strict=True)], rows, noise)
            v, m = self._values(rows, one, names)
            spread.append(v)
            others.append(m)
            shifts[b] = one.shared[0] if seek_delay else 0.0
        factor = (count - 1) / count
        sigma = [
            {key: float(np.sqrt(factor * np.sum((np.array([s[j][key] for s in spread]) - values[j][key]) ** 2)))
             for key in values[j]}
            for j in range(len(rows))
        ]  # fmt: skip
        residuals = np.column_stack([
            (r.b - r.W @ th - r.S @ found.shared) * (1.0 if not r.gain else v[r.gain])
            for r, th, v in zip(rows, found.theta, values, strict=True)
        ])  # fmt: skip
        known = self.equation.rows
        size = np.array([
            np.std(known.rigid[:, j] + max(v["Ia"], 0.0) * known.fixed[:, j, 0]) for j, v in enumerate(values)
        ])  # fmt: skip
        return DriveFit(
            delay, _jackknifed(shifts), loop, values, sigma,
            masses, np.sqrt(factor * np.sum((np.array(others) - masses) ** 2, axis=0)),
            np.sqrt((residuals**2).mean(axis=0)) / np.maximum(size, 1e-12),
            0.5 * float((counts * np.log(_squares(rows, found, self.weights) / counts)).sum()),
            float(stdtrit(max(count - 1, 1), 0.975)),
            np.array([_unexplained_share(r) if r.gain else 1.0 for r in rows]), self._recipe(rows, found, values),
            np.full(len(rows), delay) if own is None else own, residuals, self.sensor_delay,
        )  # fmt: skip

    def find_sensor_delay(
        self, delay: float, loop: str, *, seek_delay: bool, lags: Array = LAGS
    ) -> tuple[float, float, float]:
        """Age (s) of the drive's own positions that explains most, its standard deviation, and the gain against none.

        By a profile of the likelihood: to first order the age is damping, to second order armature, and what is left
        of it is far too small for a column among theirs. The gain, the logarithm of the ratio of likelihoods, is
        against the first of `lags`. What the noise of the positions decides counts as uncertain.
        """
        at: list[float] = []
        squares: list[Array] = []
        noise: Array | None = None

        def profile(lag: float) -> Array:
            """Squares (blocks + 2,) over their variance: of all rows, without one block each, of all with noise."""
            nonlocal noise
            rows = Estimator(self.equation, sensor_delay=lag).joint_rows(delay, loop, seek_delay=seek_delay)
            grams = [r.grams(self.equation.block_numbers, None) for r in rows]
            whole = [g.sum(axis=0) for g in grams]
            if noise is None:
                noise = _squares(rows, _solve(whole, rows, np.ones(len(rows))), None) / len(rows[0].b)
            left = [whole, *([w - g[b] for w, g in zip(whole, grams, strict=True)] for b in range(len(grams[0])))]
            left.append([g + len(r.b) * r.noise for g, r in zip(whole, rows, strict=True)])
            return np.array([_least_squares(one, rows, noise) for one in left])

        def around_least(which: int) -> Array:
            """Three neighbours about the least value of one of the squares."""
            order = np.argsort(at)
            k = int(np.argmin([squares[i][which] for i in order]))
            k = min(max(k, 1), len(order) - 2)
            return np.asarray(order[k - 1 : k + 2])

        def add(lag: float) -> None:
            at.append(lag)
            squares.append(profile(lag))

        for lag in lags:
            add(float(lag))
        for _ in range(2):
            three = around_least(0)
            vertices = parabola_vertices(np.array(at)[three], np.array([squares[i] for i in three]))
            best = float(np.clip(vertices[0], 0.0, LATEST))
            if min(abs(best - x) for x in at) < 5e-5:
                break
            add(best)
        spread = np.clip(vertices[1:-1], -LATEST, 2.0 * LATEST)
        three = around_least(-1)
        noisy = parabola_vertices(np.array(at)[three], np.array([squares[i][-1:] for i in three]))[0]
        decided = best - float(np.clip(noisy, 0.0, LATEST))
        gain = 0.5 * (squares[0][0] - min(x[0] for x in squares))
        sigma = np.hypot(1.5 * _jackknifed(spread), 2.0 * TIMING)  # shapes of friction bias it
        return best, float(np.hypot(sigma, decided)), float(gain)

    def _names(self) -> list[str]:
        """Names of the fixed columns: Ia, viscous, offset, the blocks of dry friction."""
        return ["Ia", *self.equation.blocks]

    def _values(self, rows: Sequence[JointRows], found: Solution, names: list[str]) -> tuple[list[Values], Array]:
        """Physical values of a solution by joint, and factors of masses."""
        out = []
        for j, (r, theta) in enumerate(zip(rows, found.theta, strict=True)):
            gain = 1.0
            own: Values = {}
            if r.gain:
                gain = 1.0 / theta[-1] if theta[-1] != 0.0 else np.inf
                own[r.gain] = gain
            if r.second:
                own["kd"] = float(theta[len(names)] * gain)
            by_name = {name: float(theta[k] * gain) for k, name in enumerate(names)}
            dry = sum(x for name, x in by_name.items() if name not in ("Ia", "viscous", "offset", "load"))
            found_here = {"Ia": by_name["Ia"], "Fv": by_name["viscous"], "Fc": dry, "Fo": by_name["offset"]}
            if "torque_constant" in own:
                found_here["Fv"] -= gain**2 / self.equation.controller.resistance[j]
            if "load" in by_name:
                found_here["Fl"] = by_name["load"]
            out.append(found_here | own)
        start = len(found.shared) - self.equation.rows.links.shape[2]
        return out, found.shared[start:].copy()

    def _recipe(self, rows: Sequence[JointRows], found: Solution, values: list[Values]) -> list[Values]:
        """Coefficients of all friction blocks, by joint."""
        return [
            {name: float(theta[k + 1] * (v[r.gain] if r.gain else 1.0)) for k, name in enumerate(self.equation.blocks)}
            for r, theta, v in zip(rows, found.theta, values, strict=True)
        ]


def _jackknifed(x: Array) -> float:
    """Standard deviation by values without one block each."""
    return float(np.sqrt((len(x) - 1) / len(x) * np.sum((x - x.mean()) ** 2)))


def parabola_vertices(x: Array, y: Array) -> Array:
    """Places of the least values of parabolas through three points (3,), (3, m)."""
    d1, d2 = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    bend = (d2 - d1) / (x[2] - x[0])
    safe = np.where(bend > 0.0, bend, np.inf)
    flat = x[np.argmin(y, axis=0)]
    return np.asarray(np.where(bend > 0.0, 0.5 * (x[0] + x[1]) - 0.5 * d1 / safe, flat))


def _least_squares(grams: Sequence[Array], rows: Sequence[JointRows], noise: Array) -> float:
    """Least squares over their variances that the best values of all joints leave."""
    found = _solve(grams, rows, noise)
    total = 0.0
    for G, theta, variance in zip(grams, found.theta, noise, strict=True):
        z = np.r_[-theta, -found.shared, 1.0]
        total += float(z @ G @ z) / variance
    return total


def _vertex(grid: Array, y: Array) -> float:
    """Place of the least value, between grid points by a parabola."""
    k = int(np.argmin(y))
    if k in (0, len(grid) - 1):
        return float(grid[k])
    a, b, c = y[k - 1 : k + 2]
    bend = a - 2.0 * b + c
    return float(grid[k] + (0.5 * (a - c) / bend if bend > 0.0 else 0.0) * (grid[1] - grid[0]))


def _solve(grams: Sequence[Array], rows: Sequence[JointRows], noise: Array) -> Solution:
    """Solve all joints together: shared columns first, then each joint's own."""
    s = rows[0].S.shape[1]
    A, rhs = np.zeros((s, s)), np.zeros(s)
    inner = []
    for G, r, variance in zip(grams, rows, noise, strict=True):
        p = r.W.shape[1]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(G)[:p], 1e-300))
        inverse = np.linalg.pinv(G[:p, :p] * np.outer(scale, scale), rcond=COLLINEAR, hermitian=True)
        inverse *= np.outer(scale, scale)
        own, cross = inverse @ G[:p, -1], inverse @ G[:p, p : p + s]
        A += (G[p : p + s, p : p + s] - G[p : p + s, :p] @ cross) / variance
        rhs += (G[p : p + s, -1] - G[p : p + s, :p] @ own) / variance
        inner.append((own, cross))
    shared = np.zeros(0)
    if s:
        diagonal = np.diag(A)
        size = np.where(diagonal > 0.0, np.sqrt(np.maximum(diagonal, 0.0)), np.inf)  # inf: all of it is noise
        shared = np.linalg.lstsq(A / np.outer(size, size), rhs / size, rcond=1e-10)[0] / size
    theta = [own - cross @ shared for own, cross in inner]
    return Solution(theta, shared)


class SharedColumns:
    """Values of some of the shared columns of rows; the joints' own are eliminated."""

    def __init__(self, rows: Sequence[JointRows], blocks: NDArray[np.int64]) -> None:
        self._rows, self._count = rows, len(blocks)
        self._grams = [r.grams(blocks, None) for r in rows]

    def solve(self, chosen: Sequence[int], least: float = 0.0) -> tuple[Array, Array]:
        """Values of the chosen columns and their standard deviations, by leaving out blocks.

        Infinite deviations where the last value is below `least`, of which no more is asked.
        """
        rows = [replace(r, S=r.S[:, list(chosen)]) for r in self._rows]
        own = [np.r_[np.arange(r.W.shape[1]), r.W.shape[1] + np.array(chosen), -1] for r in rows]
        grams = [g[:, k[:, None], k] for g, k in zip(self._grams, own, strict=True)]
        whole = [g.sum(axis=0) for g in grams]
        noise = _squares(rows, _solve(whole, rows, np.ones(len(rows))), None) / self._count
        found = _solve(whole, rows, noise).shared
        if abs(found[-1]) < least:
            return found, np.full(len(found), np.inf)
        others = [
            _solve([w - g[b] for w, g in zip(whole, grams, strict=True)], rows, noise).shared
            for b in range(len(grams[0]))
        ]
        return found, np.array([_jackknifed(x) for x in np.array(others).T])


def _squares(rows: Sequence[JointRows], found: Solution, weights: Array | None) -> Array:
    """Weighted squares (n,) that a solution leaves, those of noise included."""
    left = [r.b - r.W @ theta - r.S @ found.shared for r, theta in zip(rows, found.theta, strict=True)]
    own = [x**2 if weights is None else weights[:, j] * x**2 for j, x in enumerate(left)]
    return np.maximum([x.sum() for x in own], 1e-30)


def _unexplained_share(rows: JointRows) -> float:
    """Share of the last column, the known torque, that the other columns do not explain."""
    size = np.sqrt(np.maximum((rows.W**2).mean(axis=0), 1e-300))
    R = np.asarray(np.linalg.qr(rows.W / size, mode="r"), dtype=np.float64)
    return float(abs(R[-1, -1]) / max(np.linalg.norm(R[:, -1]), 1e-300))


def fit_drives(
    equation: Equation, *, delay: float | None, loops: Sequence[str], sensor_delay: float | None = 0.0,
    tell: Callable[[float], None] | None = None,
) -> list[DriveFit]:  # fmt: skip
    """Fits of each way to close the loop, the most likely first; delay, sensor_delay None: sought."""
    fits = []
    for loop in loops:
        estimator = Estimator(equation, sensor_delay=sensor_delay or 0.0)
        start, own = (delay, None) if delay is not None else estimator.search_delay(loop, tell)
        if sensor_delay is None:
            fits.append(_fit_with_sensor_delay(estimator, start, own, loop, seek_delay=delay is None))
            continue
        fit = estimator.solve(start, loop, seek_delay=delay is None, own=own)
        c = equation.controller
        unknown = np.array([bool(c.unknown(j)) for j in range(equation.robot.n)])
        if (unknown & np.isfinite(c.max_torque)).any():  # rows at the limit say nothing of the gains
            for _ in range(2):
                limit = np.where(unknown, c.max_torque, np.inf)
                full = equation.with_controller(with_gains(c, fit))
                share = full.saturated(fit.delay, loop, 0.98 * limit)
                weights = (share < 0.02).astype(np.float64)
                if weights.sum(axis=0).min() < 0.1 * len(weights):
                    break
                estimator = Estimator(equation, sensor_delay=fit.sensor_delay, weights=weights)
                fit = estimator.solve(fit.delay, loop, seek_delay=delay is None, own=own)
        fits.append(fit)
    return sorted(fits, key=lambda fit: fit.score)


def _fit_with_sensor_delay(
    estimator: Estimator, delay: float, own: Array | None, loop: str, *, seek_delay: bool
) -> DriveFit:
    """Fit at the sensor delay that explains most; standard deviations hold what its own does to the others."""
    equation = estimator.equation
    if seek_delay:
        delay = estimator.solve(delay, loop, seek_delay=True).delay
    lag, sigma, _ = estimator.find_sensor_delay(delay, loop, seek_delay=seek_delay)
    fits = [
        Estimator(equation, sensor_delay=x).solve(delay, loop, seek_delay=seek_delay, own=own)
        for x in (lag, max(lag - sigma, 0.0), lag + sigma)
    ]
    fit = fits[0]
    spreads = []
    for j, known in enumerate(fit.sigma):
        low, high = (other.values[j] for other in fits[1:])
        here = fit.values[j]
        spreads.append({
            key: float(np.hypot(x, max(abs(low[key] - here[key]), abs(high[key] - here[key]))))
            for key, x in known.items()
        })  # fmt: skip
    shift = max(abs(other.delay - fit.delay) for other in fits[1:])
    return replace(fit, sigma=spreads, delay_sigma=float(np.hypot(fit.delay_sigma, shift)), sensor_delay_sigma=sigma)


def with_gains(controller: Controller, fit: DriveFit) -> Controller:
    """The controller with the gains that a fit found; 0 for a kd that is part of the damping."""
    new = {key: getattr(controller, key).copy() for key in ("kp", "kd", "gain", "torque_constant")}
    for j, values in enumerate(fit.values):
        for key in controller.unknown(j):
            new[key][j] = values.get(key, 0.0)
    return controller.with_values(**new)


def add_method_spread(fit: DriveFit, others: Sequence[DriveFit]) -> DriveFit:
    """Return the fit with the spread between ways of estimating added to its standard deviations."""
    if not others:
        return fit
    sigma = []
    for j, own in enumerate(fit.sigma):
        spread = {
            key: np.hypot(METHOD.get(key, 0.0) * fit.values[j][key], np.sqrt(np.mean([
                (other.values[j].get(key, fit.values[j][key]) - fit.values[j][key]) ** 2 for other in others
            ])))
            for key in own
        }  # fmt: skip
        sigma.append({key: float(np.hypot(x, spread[key])) for key, x in own.items()})
    shift = float(np.sqrt(np.mean([(other.delay - fit.delay) ** 2 for other in others])))
    masses = np.sqrt(np.mean([(other.masses - fit.masses) ** 2 for other in others], axis=0))
    timing = float(np.hypot(np.hypot(fit.delay_sigma, shift), TIMING * (fit.delay_sigma > 0.0)))
    lag = float(np.sqrt(np.mean([(other.sensor_delay - fit.sensor_delay) ** 2 for other in others])))
    return replace(
        fit, sigma=sigma, delay_sigma=timing,
        sensor_delay_sigma=float(np.hypot(fit.sensor_delay_sigma, lag)),
        masses_sigma=np.hypot(fit.masses_sigma, masses),
    )  # fmt: skip
