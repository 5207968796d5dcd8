"""Signals y_j = k_j W_j (x + [loaded] K p) + f_j of a robot x whose drives have unknown factors k, a known payload p.

Taking y for a regressor (tau = g y) would be biased by its noise, and total least squares can give negative gains. So
the bilinear problem is solved by Gauss-Newton: around x0, k0 it is
    y + k0 W x0 = (k0 W) x + (W (x0 + [loaded] K p)) k + f,
linear in x, k and f: columns of the factors, so rank, weights and jackknife are those of every identification.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.inference.jackknife import jackknife
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Constraints, Factors, Solution, solve
from dynid.messages import Message
from dynid.payload.gains import Gains
from dynid.payload.identify_payload import poor_fit_warnings
from dynid.payload.two_runs import TwoRuns, rewrite_blocks
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

ITERATIONS = 100
SETTLED = 1e-9
NOT_SETTLED = Message(
    "gains_not_settled", "the search for the gains did not settle", "record longer and livelier motions"
)
CLEAR = 5.0
"""Deviations that a first factor must differ from zero by to be believed."""


@dataclass(frozen=True, slots=True, eq=False)
class Bilinear:
    """The problem: runs, the load K p on the rigid columns, unknowns without the factors, blocks of friction."""

    runs: TwoRuns
    load: Array
    unknowns: Unknowns
    friction: tuple[str, ...]

    def rigid_columns(self, c: int) -> NDArray[np.int64]:
        """Rigid columns of a channel, which come first in its rows."""
        channel = self.runs.state.equation.channels[c]
        return channel.columns[: channel.base + len(channel.extra)]

    def loaded_rigid_parameters(self, log: int, x: Array) -> Array:
        """Rigid parameters of the robot with what it carries in a log."""
        return x + self.load if self.runs.is_loaded(log) else x

    def linearised_rows(self, log: int, c: int, R: Array, x: Array, k: Array, fixed: NDArray[np.bool_]) -> Array:
        """Rows of the linear problem around x, k: rigid, friction, factor, right side."""
        rigid = self.rigid_columns(c)
        W, rest, y = R[:, : len(rigid)], R[:, len(rigid) : -1], R[:, -1]
        z = W @ self.loaded_rigid_parameters(log, x)[rigid]
        right = y + k[c] * (W @ x[rigid]) - (k[c] * z if fixed[c] else 0.0)
        return np.column_stack([k[c] * W, rest, z, right])

    def linearised_factors(self, factors: Factors, x: Array, k: Array, fixed: NDArray[np.bool_]) -> Factors:
        """Factors of the linear problem around x, k."""
        return {
            log: tuple(
                ChannelFactor(self.linearised_rows(log, c, f.R, x, k, fixed), f.count, f.total)
                for c, f in enumerate(of_log)
            )
            for log, of_log in factors.items()
        }


def initial_drive_factors(problem: Bilinear, factors: Factors) -> Array:
    """Drive factors to start with: each channel alone, with a robot (k x) of its own, is linear in k x, k and f.

    Channels that do not show a clear factor so take the one that fits what the others tell of the robot.
    """
    channels, count = len(problem.unknowns.channels), len(problem.load)
    k, clear = np.ones(channels), np.zeros(channels, dtype=np.bool_)
    for c in range(channels):
        found, deviation = _drive_factor_of_channel(problem, factors, c)
        if abs(found) > CLEAR * deviation and np.isfinite(found):
            k[c], clear[c] = found, True
    if clear.all() or not clear.any():
        return k
    k[~clear] = np.median(np.abs(k[clear]))
    x, known = _rigid_parameters_from_known_channels(problem, factors, k, clear, count)
    for c in np.flatnonzero(~clear).tolist():
        found, deviation = _drive_factor_of_channel(problem, factors, c, x, known)
        if abs(found) > CLEAR * deviation and np.isfinite(found):
            k[c] = found
    return k


def _drive_factor_of_channel(
    problem: Bilinear, factors: Factors, c: int, x: Array | None = None, known: NDArray[np.bool_] | None = None
) -> tuple[float, float]:
    """Drive factor of one channel and its deviation; x: rigid parameters, of which `known` are known already."""
    rows = []
    for log, of_log in factors.items():
        R, rigid = of_log[c].R, problem.rigid_columns(c)
        W, rest = R[:, : len(rigid)], R[:, len(rigid) : -1]
        place = problem.unknowns.place[log, problem.unknowns.channels[c]][len(rigid) :]
        f = np.zeros((len(R), len(problem.unknowns)))
        f[:, place[place >= 0]] = rest[:, place >= 0]
        robot = np.zeros(len(problem.load)) if x is None else x
        own = W if known is None else W[:, ~known[rigid]]
        rows.append(np.column_stack([own, f, W @ problem.loaded_rigid_parameters(log, robot)[rigid], R[:, -1]]))
    A = np.concatenate(rows)
    if not len(A) or not A[:, -2].any():
        return 0.0, np.inf
    others, z, y = A[:, :-2], A[:, -2], A[:, -1]
    others = others[:, np.abs(others).max(axis=0) > 0.0]
    U, s, _ = np.linalg.svd(others / np.linalg.norm(others, axis=0), full_matrices=False)
    U = U[:, s > 1e-9 * s[0]] if len(s) else U
    z1, y1 = z - U @ (U.T @ z), y - U @ (U.T @ y)
    if np.linalg.norm(z1) < 1e-7 * np.linalg.norm(z):
        return 0.0, np.inf
    k = float(z1 @ y1 / (z1 @ z1))
    count = sum(of_log[c].count for of_log in factors.values())
    freedom = max(count - U.shape[1] - 1, 1)
    return k, float(np.linalg.norm(y1 - k * z1) / np.sqrt(freedom) / np.linalg.norm(z1))


def _rigid_parameters_from_known_channels(
    problem: Bilinear, factors: Factors, k: Array, clear: NDArray[np.bool_], count: int
) -> tuple[Array, NDArray[np.bool_]]:
    """Rigid parameters that the channels of known drive factor determine, and a mask of these."""
    empty = {
        log: tuple(f if clear[c] else ChannelFactor(np.zeros((0, f.R.shape[1])), 0, 0.0) for c, f in enumerate(of_log))
        for log, of_log in factors.items()
    }
    solution = solve_robot_with_factors(problem, empty, k)
    place = problem.unknowns.place[0, :count]
    revealed = np.zeros(len(problem.unknowns), dtype=np.bool_)
    revealed[list(range(len(revealed)) if solution.regrouping is None else solution.regrouping.kept)] = True
    known = (place >= 0) & revealed[np.maximum(place, 0)]
    return np.where(known, solution.values[np.maximum(place, 0)], 0.0), known


def solve_robot_with_factors(problem: Bilinear, factors: Factors, k: Array) -> Solution:
    """Solve for the robot and friction, all factors being given."""
    zero, fixed = np.zeros(len(problem.load)), np.ones(len(k), dtype=np.bool_)
    linear = problem.linearised_factors(factors, zero, k, fixed)
    dropped = {
        log: tuple(ChannelFactor(np.delete(f.R, -2, axis=1), f.count, f.total) for f in of_log)
        for log, of_log in linear.items()
    }
    return solve(problem.unknowns, dropped)


@dataclass(frozen=True, slots=True, eq=False)
class BilinearSolution:
    """Solution of the linear problem at the end, where it was made (x, k), and whether the steps became small."""

    solution: Solution
    x: Array
    k: Array
    settled: bool


def solve_bilinear(
    problem: Bilinear,
    factors: Factors,
    unknowns: Unknowns,
    start: tuple[Array, Array],
    fixed: NDArray[np.bool_],
    constraints: Constraints | None,
) -> BilinearSolution:
    """Gauss-Newton from x (rigid,), k (channels,); unknowns: those of the linear problem; fixed: factors that stay."""
    x, k = start
    columns = unknowns.place.shape[1] - len(k)
    rigid, own = unknowns.place[0, : len(x)], unknowns.place[0, columns:]
    solution, settled = None, False
    for _ in range(ITERATIONS):
        solution = solve(unknowns, problem.linearised_factors(factors, x, k, fixed), constraints=constraints)
        new_x = np.where(rigid >= 0, solution.values[np.maximum(rigid, 0)], 0.0)
        new_k = np.where(own >= 0, solution.values[np.maximum(own, 0)], k)
        step = 1.0
        while step > 0.05 and (np.sign(k + step * (new_k - k)) != np.sign(k)).any():
            step *= 0.5  # a factor does not change its sign in one leap
        if step <= 0.05:
            step = 1.0
        change = float(np.abs((new_k - k) / k).max())
        x, k = x + step * (new_x - x), k + step * (new_k - k)
        if change < SETTLED and step == 1.0:
            settled = True
            break
    assert solution is not None
    return BilinearSolution(solution, x, k, settled)


# From the solution of the bilinear problem to gains: which are revealed, deviations, parameters in true units.


def drive_factor_names(problem: Bilinear) -> tuple[Parameter, ...]:
    """Names of the unknown drive factors."""
    return tuple(
        Parameter(f"factor of {joint}", symbol="factor of ", kind="gain", unit="1", joint=joint)
        for joint in problem.runs.state.equation.channel_names
    )


@dataclass(frozen=True, slots=True, eq=False)
class GainSolution:
    """The bilinear problem and its solution in `unknowns`; fixed (channels,): factors that were not sought.

    hidden: unknowns that hang on a factor that the payload does not reveal.
    """

    problem: Bilinear
    found: BilinearSolution
    unknowns: Unknowns
    fixed: NDArray[np.bool_]
    hidden: frozenset[str]


def gains_from_solution(p: Array, solved: GainSolution) -> Gains:
    """Make the `Gains` of a solution: gains are inverse drive factors."""
    problem, found, unknowns, fixed = solved.problem, solved.found, solved.unknowns, solved.fixed
    runs, solution, k = problem.runs, found.solution, found.k
    blocks = rewrite_blocks(runs.blocks, lambda log, c, R: problem.linearised_rows(log, c, R, found.x, k, fixed))
    deviations = jackknife(unknowns, solution, blocks)
    covariance = solution.covariance if deviations is None else deviations.covariance
    kept = range(len(unknowns)) if solution.regrouping is None else solution.regrouping.kept
    place = {unknowns.names[j]: j for j in kept if unknowns.names[j] not in solved.hidden}
    own = np.array([place.get(name, -1) for name in drive_factor_names(problem)])
    values = np.where(own >= 0, 1.0 / k, np.nan)
    sigma = np.where(own >= 0, np.sqrt(np.diag(covariance)[own]) / k**2, np.nan)
    names = [name for name in place if name not in drive_factor_names(problem)]
    rows, numbers = np.zeros((len(names), len(unknowns))), np.full(len(names), np.nan)
    channel = _channels_of_friction(problem, unknowns)
    for row, name in enumerate(names):
        j = place[name]
        c = channel.get(j)
        value = solution.values[j]
        if c is None:
            rows[row, j], numbers[row] = 1.0, value
        elif own[c] >= 0:
            rows[row, j], rows[row, own[c]], numbers[row] = 1.0 / k[c], -value / k[c] ** 2, value / k[c]
    revealed = np.isfinite(numbers)
    nrmse = _nrmse_per_channel(problem, found, unknowns, fixed)
    joints = runs.state.equation.channel_names
    gains = tuple(Parameter(joint, symbol="", kind="gain", unit="1", joint=joint) for joint in joints)
    fit = runs.fit_from_values(gains, values, deviations, problem.friction, nrmse)
    warnings = (
        *_gain_warnings(runs, values, fit.quantile * sigma),
        *(() if found.settled else (NOT_SETTLED,)),
        *(repeat.warning for repeat in runs.state.repeats),
        *poor_fit_warnings(nrmse, jackknifed=deviations is not None),
    )
    return Gains(
        fit=fit,
        payload=p,
        sigma=sigma,
        parameter_names=tuple(name for name, good in zip(names, revealed, strict=True) if good),
        parameter_units=tuple(unknowns.units[place[name]] for name, good in zip(names, revealed, strict=True) if good),
        parameters=numbers[revealed],
        parameter_sigma=np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))[revealed],
        warnings=warnings,
    )


def _channels_of_friction(problem: Bilinear, unknowns: Unknowns) -> dict[int, int]:
    """Channel of every friction unknown, in whose units it was found."""
    channels: dict[int, int] = {}
    for c in range(len(problem.unknowns.channels)):
        first = len(problem.rigid_columns(c))
        own = problem.unknowns.channels[c][first:]
        channels |= {int(j): c for j in unknowns.place[:, own].ravel() if j >= 0}
    return channels


def _nrmse_per_channel(
    problem: Bilinear, found: BilinearSolution, unknowns: Unknowns, fixed: NDArray[np.bool_]
) -> Array:
    """NRMSE per channel over all logs, NaN where no signal was used."""
    factors = total_factors(problem.runs.blocks)
    squares, spread = np.zeros(len(found.k)), np.zeros(len(found.k))
    for log, of_log in problem.linearised_factors(factors, found.x, found.k, fixed).items():
        for c, factor in enumerate(of_log):
            squares[c] += factor.residual_squares(unknowns.values_of_channel(log, c, found.solution.values))
            spread[c] += factors[log][c].sum_of_squares_about_mean
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(squares / spread))


def _gain_warnings(runs: TwoRuns, values: Array, half: Array) -> list[Message]:
    """Warnings on drive gains that are uncertain, negative or not determined."""
    names, warnings = runs.state.equation.channel_names, []
    hidden = [name for name, g in zip(names, values, strict=True) if not np.isfinite(g)]
    if hidden:
        warnings.append(Message(
            "gain_not_revealed", "the payload does not reveal the gain of joint {joints}:", "mount it where this joint "
            "feels it (off its axis, for a joint that turns) and move the joint in both logs", joints=hidden,
        ))  # fmt: skip
    for name, g, h in zip(names, values, half, strict=True):
        facts = {"joint": name, "gain": float(g), "half_width": float(h)}
        if np.isfinite(g) and h > 0.5 * abs(g):
            warnings.append(Message(
                "gain_hardly_known", "the gain of joint {joint} is hardly known ({gain:.3g} +- {half_width:.2g}):",
                "use a heavier payload, farther from its axis, or livelier motions", **facts,
            ))  # fmt: skip
        elif g < 0.0:
            warnings.append(Message(
                "gain_negative", "the gain of joint {joint} is negative ({gain:.4g}): its signal has the opposite sign",
                **facts,
            ))  # fmt: skip
    return warnings
