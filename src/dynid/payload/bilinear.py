"""Signals y_j = k_j W_j (x + K p) + f_j of a robot x with a payload p, whose drives have unknown factors k.

Taking y for a regressor (tau = g y) would be biased by its noise, and total least squares can give negative gains. So
the bilinear problem is solved by Gauss-Newton: around x0, p0, k0 it is
    y + k0 z0 = (k0 W) x + (k0 W K) p + z0 k + f,   z0 = W (x0 + K p0),
linear in x, p, k and f: columns of the factors, so rank, weights and jackknife are those of every identification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.inference.between_logs import POOLED
from dynid.estimation.inference.jackknife import Jackknife, jackknife
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import Constraints, Factors, Solution, solve
from dynid.identifiability.numeric import find_by_qr
from dynid.identifiability.relations import Regrouping
from dynid.messages import Message
from dynid.payload.two_runs import SMALL, TwoRuns, compose_regroupings, rewrite_blocks
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

Mask = NDArray[np.bool_]

ITERATIONS = 100
SETTLED = 1e-9
NOT_SETTLED = Message(
    "gains_not_settled", "the search for the gains did not settle", "record longer and more exciting motions"
)
CLEAR = 5.0
"""Deviations that a first factor must differ from zero by to be believed."""


@dataclass(frozen=True, slots=True, eq=False)
class Bilinear:
    """The problem: runs; unknowns of robot and friction, of payloads (ten each), then one factor per channel.

    friction: its blocks. known (payloads, 10): what is known of the payloads, NaN elsewhere. spread: standard deviation
    of the factors about one where they are nearly known, None where they are free.
    """

    runs: TwoRuns
    unknowns: Unknowns
    friction: tuple[str, ...]
    known: Array
    spread: float | None = None

    @staticmethod
    def for_runs(
        runs: TwoRuns, robot: Unknowns, friction: tuple[str, ...], known: Array, spread: float | None = None
    ) -> Bilinear:
        """Bilinear problem of runs with the unknowns of robot and friction; known: of the payloads."""
        logs, channels = runs.state.logs, runs.state.equation.channel_names
        loads = runs.loads[:, None]
        place = np.hstack([
            np.where(loads >= 0, 10 * loads + np.arange(10), -1),
            np.tile(10 * len(known) + np.arange(len(channels)), (logs, 1)),
        ])  # fmt: skip
        names = (*runs.payload_names, *map(drive_factor_name, channels))
        return Bilinear(
            runs, _add_unknowns(robot, names, place, [[*range(10), 10 + c] for c in range(len(channels))]), friction,
            known, spread,
        )  # fmt: skip

    @property
    def first_factor_index(self) -> int:
        """Index of the first drive factor among the unknowns."""
        return len(self.unknowns) - len(self.unknowns.channels)

    @property
    def first_payload_index(self) -> int:
        """Index of the first payload parameter among the unknowns."""
        return self.first_factor_index - self.known.size

    @property
    def constraints(self) -> Constraints | None:
        """Constraints: known zeros of the carrying link, and what is known of the payloads; None without such."""
        zeros = self.runs.zero_constraints(self.unknowns)
        known = np.flatnonzero(np.isfinite(self.known.ravel()))
        if not len(known):
            return zeros
        rows = np.eye(len(self.unknowns))[self.first_payload_index + known]
        right = self.known.ravel()[known]
        if zeros is None:
            return Constraints(rows, right)
        return Constraints(np.concatenate([zeros.matrix, rows]), np.concatenate([zeros.right, right]))

    def scaled_by_factor(self) -> Mask:
        """Mask of unknowns that a drive's factor scales: of the robot and of the payloads, not friction."""
        scaled = np.zeros(len(self.unknowns), dtype=np.bool_)
        place = self.unknowns.place[0, : self.runs.state.equation.rigid_column_count]
        scaled[place[place >= 0]] = True
        scaled[self.first_payload_index : self.first_factor_index] = True
        return scaled

    def linearised_rows(
        self, log: int, c: int, R: Array, around: Unknowns, values: Array, k: Array, sought: Mask
    ) -> Array:  # fmt: skip
        """Rows around values of some unknowns and k: rigid, friction, payload, factor, right side."""
        channel = self.runs.state.equation.channels[c]
        rigid = channel.base + len(channel.extra)
        W, rest, y = R[:, :rigid], R[:, rigid:-1], R[:, -1]
        seen = channel.columns[: channel.base]
        load = W[:, : channel.base] @ self.runs.K[seen] if self.runs.is_loaded(log) else np.zeros((len(R), 10))
        own = around.values_of_channel(log, c, values)
        z = W @ own[:rigid] + load @ own[-11:-1]
        return np.column_stack([k[c] * W, rest, k[c] * load, z, y + k[c] * z if sought[c] else y])

    def linearised_factors(
        self, factors: Factors, around: Unknowns, values: Array, k: Array, sought: Mask
    ) -> Factors:  # fmt: skip
        """Factors of the linear problem around values and k."""
        return {
            log: tuple(
                ChannelFactor(self.linearised_rows(log, c, f.R, around, values, k, sought), f.count, f.total)
                for c, f in enumerate(of_log)
            )
            for log, of_log in factors.items()
        }

    def solve_with_factors(self, factors: Factors, k: Array) -> tuple[Unknowns, Solution]:
        """Solve for robot, friction and payloads, all drive factors being given."""
        some = self.unknowns.without_unknowns(range(self.first_factor_index, len(self.unknowns)))
        nothing = np.zeros(len(k), dtype=np.bool_)
        linear = self.linearised_factors(factors, some, np.zeros(len(some)), k, nothing)
        constraints = self.constraints
        if constraints is not None:
            constraints = Constraints(constraints.matrix[:, : len(some)], constraints.right)
        return some, solve(some, linear, constraints=constraints)


@dataclass(frozen=True, slots=True, eq=False)
class BilinearSolution:
    """Solution of the linear problem at the end, in `unknowns`, around `values` and factors k (channels,).

    sought (channels,): whose factors were unknowns; settled: whether the steps became small. regrouping: of the
    unknowns before the factors; hidden: unknowns that hang on a factor that the data do not reveal.
    """

    problem: Bilinear
    unknowns: Unknowns
    solution: Solution
    values: Array
    k: Array
    sought: Mask
    settled: bool
    regrouping: Regrouping
    hidden: frozenset[str]

    @property
    def index_of_unknown(self) -> dict[Parameter, int]:
        """Index of every unknown that the data determine, by its name."""
        regrouping = self.solution.regrouping
        kept = range(len(self.unknowns)) if regrouping is None else regrouping.kept
        return {self.unknowns.names[j]: j for j in kept if self.unknowns.names[j] not in self.hidden}

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of time of the linear problem at the end."""
        return rewrite_blocks(
            self.problem.runs.blocks,
            lambda log, c, R: self.problem.linearised_rows(log, c, R, self.unknowns, self.values, self.k, self.sought),
        )

    def deviations(self) -> Jackknife | None:
        """Standard deviations by the jackknife, grown by what blocks do not show; None where these are few.

        What the model lacks follows the motion, of which there are as few as logs: that share of the variance, all but
        the textbook's, has the degrees of freedom that `identify` gives it between logs (Welch-Satterthwaite).
        """
        from scipy.stats import t

        found = jackknife(self.unknowns, self.solution, self.blocks)
        if found is None:
            return None
        white, variance = np.diag(self.solution.covariance), np.diag(found.covariance)
        seen = (white > 0.0) & (variance > 0.0)
        share = max(0.0, 1.0 - float(np.median(white[seen] / variance[seen]))) if seen.any() else 0.0
        few, many = POOLED + self.problem.runs.state.logs - 1.0, found.groups - 1.0
        freedom = 1.0 / (share**2 / min(few, many) + (1.0 - share) ** 2 / many)
        growth = max(1.0, float(t.ppf(0.975, freedom)) / found.quantile)
        return replace(found, covariance=growth**2 * found.covariance)

    def nrmse(self, factors: Factors) -> Array:
        """NRMSE per channel over all logs, NaN where no signal was used."""
        squares, spread = np.zeros(len(self.k)), np.zeros(len(self.k))
        linear = self.problem.linearised_factors(factors, self.unknowns, self.values, self.k, self.sought)
        for log, of_log in linear.items():
            for c, factor in enumerate(of_log):
                squares[c] += factor.residual_squares(self.unknowns.values_of_channel(log, c, self.solution.values))
                spread[c] += factors[log][c].sum_of_squares_about_mean
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(squares / spread))

    def gain_shifts(self, factors: Factors, sigma: float, channels: Sequence[int]) -> Array:
        """Shifts (channels, unknowns) of the values by one standard deviation of each drive gain.

        Where its factor was sought, only the prior passes an error on; where it was given, the signal does, in full.
        """
        half = self.solution.whitening
        shifts = np.zeros((len(channels), len(self.unknowns)))
        for row, c in enumerate(channels):
            pull = np.zeros(len(self.unknowns))
            if self.sought[c] and self.problem.spread:
                pull[self.unknowns.place[0, -len(self.k) + c]] = 1.0 / self.problem.spread**2
            else:
                for log, of_log in factors.items():
                    rows = self.problem.linearised_rows(
                        log, c, of_log[c].R, self.unknowns, self.values, self.k, self.sought
                    )
                    A, y = self.unknowns.rows_of_factor(log, c, replace(of_log[c], R=rows))
                    pull += A.T @ y / self.solution.noise[c] ** 2
            shifts[row] = sigma * (half @ (half.T @ pull))
        return shifts


def drive_factor_name(joint: str) -> Parameter:
    """Name of an unknown drive factor."""
    return Parameter(f"factor of {joint}", symbol="factor of ", kind="gain", unit="1", joint=joint)


def initial_drive_factors(problem: Bilinear, factors: Factors, k: Array, sought: Mask) -> Array:
    """Drive factors to start with, each channel alone: with a robot (k x) of its own it is linear.

    Channels that do not show a clear factor so take the one that fits what the others tell of the robot.
    """
    k, clear = k.copy(), ~sought
    values = np.zeros(problem.first_factor_index)
    values[problem.first_payload_index :] = np.nan_to_num(problem.known.ravel())
    known = np.zeros(problem.first_factor_index, dtype=np.bool_)
    known[problem.first_payload_index :] = np.isfinite(problem.known.ravel())
    for c in np.flatnonzero(sought).tolist():
        found, deviation = _drive_factor_of_channel(problem, factors, c, values, known)
        if abs(found) > CLEAR * deviation and np.isfinite(found):
            k[c], clear[c] = found, True
    if clear.all() or not clear.any():
        return k
    k[~clear] = np.median(np.abs(k[clear]))
    none = {
        log: tuple(f if clear[c] else ChannelFactor.empty(f.R.shape[1] - 1) for c, f in enumerate(of_log))
        for log, of_log in factors.items()
    }
    some, solution = problem.solve_with_factors(none, k)
    known = np.ones(len(some), dtype=np.bool_)
    if solution.regrouping is not None:
        known[[j for j in range(len(some)) if j not in solution.regrouping.kept]] = False
    for c in np.flatnonzero(~clear).tolist():
        found, deviation = _drive_factor_of_channel(problem, factors, c, solution.values, known)
        if abs(found) > CLEAR * deviation and np.isfinite(found):
            k[c] = found
    return k


def _drive_factor_of_channel(
    problem: Bilinear, factors: Factors, c: int, values: Array, known: Mask
) -> tuple[float, float]:
    """Drive factor of one channel and its deviation; values (before the factors,), of which some are known."""
    some = problem.unknowns.without_unknowns(range(problem.first_factor_index, len(problem.unknowns)))
    scaled = problem.scaled_by_factor()[: len(some)]
    ones, nothing = np.ones(len(some.channels)), np.zeros(len(some.channels), dtype=np.bool_)
    rows = []
    for log, of_log in factors.items():
        R = problem.linearised_rows(log, c, of_log[c].R, some, np.where(known & scaled, values, 0.0), ones, nothing)
        A, y = some.rows_of_factor(log, c, replace(of_log[c], R=R))
        rows.append(np.column_stack([A, R[:, -2], y]))
    A = np.concatenate(rows)
    if not len(A) or not A[:, -2].any():
        return 0.0, np.inf
    others, z, y = A[:, :-2][:, ~(known & scaled)], A[:, -2], A[:, -1]
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


def solve_bilinear(problem: Bilinear, factors: Factors, k: Array, sought: Mask) -> BilinearSolution:
    """Solve by Gauss-Newton from drive factors k (channels,); sought: mask of those to find, the others stay."""
    k, sought = k.copy(), sought.copy()
    some, start = problem.solve_with_factors(factors, k)
    structure = _structural_regrouping(problem, np.concatenate([start.values, k]), k, sought)
    first, hidden = len(some), {problem.unknowns.names[j] for j in _hidden_unknowns(structure, len(some))}
    sought &= np.array([first + c in structure.kept for c in range(len(k))], dtype=np.bool_)
    kept = list(structure.kept)
    values = np.concatenate([start.values, k])[kept]
    solution, settled = None, False
    for _ in range(ITERATIONS):
        unknowns = problem.unknowns.without_unknowns([j for j in range(len(problem.unknowns)) if j not in kept])
        solution = _solve_linearised(problem, factors, unknowns, kept, (values, k, sought))
        before = sum(j < first for j in kept)
        lost = set() if solution.regrouping is None else set(range(before, len(kept))) - set(solution.regrouping.kept)
        if lost and solution.regrouping is not None:  # structure reveals a factor, but not these data
            hidden |= {unknowns.names[j] for j in _hidden_unknowns(solution.regrouping, before)}
            sought[[kept[j] - first for j in lost]] = False
            values = np.delete(values, sorted(lost))
            kept = [j for i, j in enumerate(kept) if i not in lost]
            continue
        own = unknowns.place[0, -len(k) :]
        new_k = np.where(own >= 0, solution.values[np.maximum(own, 0)], k)
        step = 1.0
        while step > 0.05 and (np.sign(k + step * (new_k - k)) != np.sign(k)).any():
            step *= 0.5  # a factor does not change its sign in one leap
        if step <= 0.05:
            step = 1.0
        change = float(np.abs((new_k - k) / k).max())
        values, k = values + step * (solution.values - values), k + step * (new_k - k)
        if change < SETTLED and step == 1.0:
            settled = True
            break
    assert solution is not None
    rows = [i for i, j in enumerate(kept) if j < first]
    regrouping = Regrouping(
        tuple(kept[i] for i in rows), structure.matrix[[structure.kept.index(kept[i]) for i in rows], :first]
    )
    if solution.regrouping is not None:
        again = [i for i, j in enumerate(solution.regrouping.kept) if j < len(rows)]
        data = Regrouping(
            tuple(solution.regrouping.kept[i] for i in again), solution.regrouping.matrix[again][:, : len(rows)]
        )
        regrouping = compose_regroupings(regrouping, data)
    return BilinearSolution(
        problem, unknowns, solution, values, k, sought, settled, regrouping, frozenset(hidden)
    )  # fmt: skip


def _solve_linearised(
    problem: Bilinear, factors: Factors, unknowns: Unknowns, kept: list[int], around: tuple[Array, Array, Mask]
) -> Solution:
    """Solve the linear problem around values and factors, with what is known beforehand."""
    constraints, prior = problem.constraints, None
    if constraints is not None:
        constraints = Constraints(constraints.matrix[:, kept], constraints.right)
    if problem.spread is not None:
        rows = np.eye(len(kept))[[i for i, j in enumerate(kept) if j >= problem.first_factor_index]] / problem.spread
        prior = (rows, rows.sum(axis=1))
    linear = problem.linearised_factors(factors, unknowns, *around)
    return solve(unknowns, linear, constraints=constraints, prior=prior)


def _structural_regrouping(problem: Bilinear, values: Array, k: Array, sought: Mask) -> Regrouping:
    """Regrouping of robot, friction, payloads and factors on any motion of the joints that moved."""
    runs, unknowns, first = problem.runs, problem.unknowns, problem.first_factor_index
    rows = runs.random_rows(unknowns)
    count = len(unknowns)
    free = [j for j in range(count) if j < first or sought[j - first]]
    if rows is None:
        return Regrouping(tuple(free), np.eye(count)[free])
    place = unknowns.place[0, : runs.state.equation.base_column_count]
    seen, scaled = place >= 0, problem.scaled_by_factor()
    for log, c, own in rows:
        if runs.is_loaded(log):
            load = problem.first_payload_index + 10 * int(runs.loads[log])
            own[:, load : load + 10] = own[:, place[seen]] @ runs.K[seen]
        if c < len(k) and sought[c]:
            own[:, first + c] = own[:, scaled] @ values[scaled]
        if c < len(k):
            own[:, scaled] *= k[c]
    A = np.concatenate([own for _, _, own in rows])
    if problem.constraints is not None:
        A = np.concatenate([A, problem.constraints.matrix * np.abs(A).max()])
    return find_by_qr(A).regrouping


def _hidden_unknowns(structure: Regrouping, before: int) -> set[int]:
    """Indices of unknowns that share a direction with a factor, from `before` on, that is not identifiable."""
    hidden: set[int] = set()
    for k in range(before, structure.matrix.shape[1]):
        if k not in structure.kept:
            shares = np.abs(structure.matrix[:, k])
            joined = np.flatnonzero(shares > SMALL * max(float(shares.max(initial=0.0)), 1e-12))
            hidden |= {k, *(structure.kept[i] for i in joined)}
    return hidden


def _add_unknowns(
    unknowns: Unknowns, names: Sequence[Parameter], place: NDArray[np.int64], channels: Sequence[Sequence[int]]
) -> Unknowns:
    """Unknowns with further ones; place (logs, new columns): which, -1: none; channels: new columns of each channel."""
    columns = unknowns.place.shape[1]
    shifted = np.where(place >= 0, place + len(unknowns), -1)
    own = tuple(
        np.concatenate([before, columns + np.array(more, dtype=np.int64)])
        for before, more in zip(unknowns.channels, channels, strict=True)
    )
    units = (*unknowns.units, *(name.unit for name in names))
    return Unknowns((*unknowns.names, *names), units, np.hstack([unknowns.place, shifted]), own)
