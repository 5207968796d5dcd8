"""What the residual still knows: colour, dependence on velocity and position, and a delay of the torques."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.fft
import scipy.linalg
from numpy.typing import NDArray

from dynid.dynamics.friction import STOP
from dynid.estimation.accumulate.factor import Block, ChannelFactor, merge_factors
from dynid.estimation.accumulate.state import State
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.regression.rows import STILL, Rows
from dynid.estimation.solve.least_squares import MANY, Solution, is_selection, merge_triangles
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from dynid.storage.records import Bytes, Null

BINS = 12
ROUNDS = 6
SLOW = 2e-3
"""Speed of a tremor over that of the motion (rms) below which it does not matter."""

LONGEST = 0.5
"""Seconds beyond which a delay is not sought."""


@dataclass(frozen=True, slots=True)
class ChannelCheck:
    """Checks of the residual of one channel, on the rows that were kept.

    Attributes
    ----------
    channel : str
        Name of the channel.
    colour : float
        Autocorrelation after two periods of the cut-off frequency (one sample if nothing is filtered); 0 for white
        noise.
    velocity : float
        Share of its variance, 0 to 1, that a curve over this joint's velocity explains, corrected for chance.
    position : float
        The same for the joint's position.
    autoregression : tuple of float
        Model of its means over short steps: the step (s), the variance of the innovation, and the coefficients of the
        steps before; empty if there are too few.
    """

    channel: str
    colour: float
    velocity: float
    position: float
    autoregression: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay of the torques behind the positions.

    Attributes
    ----------
    seconds : float
        Delay, s; negative: torques were recorded before the positions.
    sigma : float
        Its standard deviation, s.
    """

    seconds: float
    sigma: float


@dataclass(frozen=True, slots=True, eq=False)
class Tremor:
    """A joint that noise of its encoder shakes through the controller, with `speed` (rad/s or m/s, rms).

    shifts (unknowns,): how its friction, which then turns round less sharply, changes the values.
    """

    joint: int
    speed: float
    shifts: Array


def find_tremors(
    equation: Equation, unknowns: Unknowns, solution: Solution, state: State, inertias: Array
) -> tuple[Tremor, ...]:
    """Find joints that a controller shakes by feeding back encoder noise, and how that biases their friction.

    Impulses J of the controller above the cut-off shake a joint with the velocity J / inertia. Where a joint turns
    round, its dry friction is F erf(v / (sqrt(2) s)) in place of F sign(v) then, with s the rms of that velocity.
    """
    if not (state.kept and state.loop and equation.is_direct_drive and equation.torque_channels):
        return ()
    window = equation.options.window_seconds if equation.options.is_integral else None
    total = sum(block.factors[0].count for block in state.blocks) / sum(len(rows.t) for rows in state.kept)
    half = solution.whitening
    blocks = [
        columns
        for name, columns in equation.columns_by_friction_block.items()
        if name == "coulomb" or STOP.fullmatch(name)
    ]
    found = []
    for j, inertia in zip(equation.joints, inertias, strict=True):
        if inertia <= 0.0:
            continue
        c = 0 if equation.options.is_scalar else [channel.joint for channel in equation.channels].index(j)
        rhs, speeds = np.zeros(len(unknowns)), [0.0]
        for rows in state.kept:
            noise = state.loop[rows.log]
            if noise is None or len(rows.t) < 2:
                continue
            s = float(np.sqrt(np.minimum(noise[0][:, j] / inertia**2, noise[1][:, j]).sum()))
            places = [unknowns.place[rows.log, columns[j]] for columns in blocks]
            dry = sum(float(solution.values[k]) for k in places if k >= 0)
            change = dry * _sign_smoothing(rows.t, rows.v[:, j], s, window)
            change *= (rows.v[:, j] if equation.options.is_scalar else 1.0) * (window or 1.0)
            place = unknowns.place[rows.log, unknowns.channels[c]]
            own = equation.channels[c].rows_in_wide(rows.wide)[:, :-1]
            rhs[place[place >= 0]] += own[:, place >= 0].T @ change / solution.noise[c] ** 2
            speeds.append(s)
        usual = np.sqrt(np.mean([float((rows.v[:, j] ** 2).mean()) for rows in state.kept]))
        if max(speeds) > SLOW * usual:
            found.append(Tremor(j, max(speeds), total * (half @ (half.T @ rhs))))
    return tuple(found)


def _sign_smoothing(t: Array, v: Array, s: float, window: float | None) -> Array:
    """Mean of erf(v / (sqrt(2) s)) - sign(v) from row to row, or over a window (s) around each."""
    from scipy.special import erf

    if s < 1e-9:
        return np.zeros(len(v))
    width = 0.5 * (float(np.median(np.diff(t))) if window is None else window)
    low, high = np.interp(t - width, t, v), np.interp(t + width, t, v)
    high = np.where(np.abs(high - low) < 1e-3 * s, low + 1e-3 * s, high)

    def antiderivative(x: Array) -> Array:
        """Antiderivative of erf(x / (sqrt(2) s)) - sign(x)."""
        return np.asarray(
            x * erf(x / (np.sqrt(2.0) * s)) + s * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * (x / s) ** 2) - np.abs(x)
        )

    return (antiderivative(high) - antiderivative(low)) / (high - low)


def predict_with_residuals(equation: Equation, unknowns: Unknowns, values: Array, rows: Rows) -> tuple[Array, Array]:
    """Predicted and residual torques (K, channels) of some rows."""
    predicted, left = [], []
    for c, channel in enumerate(equation.channels):
        own = channel.rows_in_wide(rows.wide)
        y = own[:, :-1] @ unknowns.values_of_channel(rows.log, c, values)
        predicted.append(y)
        left.append(own[:, -1] - y)
    return np.column_stack(predicted), np.column_stack(left)


def check_channels(
    equation: Equation, unknowns: Unknowns, values: Array, kept: tuple[Rows, ...], cutoff: float | None
) -> tuple[ChannelCheck, ...]:
    """Check the residual of every channel: colour, and dependence on velocity and position."""
    if not kept:
        return ()
    pieces = [predict_with_residuals(equation, unknowns, values, rows)[1] for rows in kept]
    step = _median_time_step(kept)
    lag = 1 if cutoff is None or step is None else max(1, round(2.0 / (cutoff * step)))
    q, v = np.concatenate([rows.q for rows in kept]), np.concatenate([rows.v for rows in kept])
    whole = np.concatenate(pieces)
    checks = []
    for c, channel in enumerate(equation.channels):
        colour = _autocorrelation([piece[:, c] for piece in pieces], lag)
        j = channel.joint
        loss = _correlation_time([piece[:, c] for piece in pieces])
        name = equation.channel_names[c]
        model = () if step is None else fit_autoregression([piece[:, c] for piece in pieces], step)
        if j < 0:  # all joints together: there is no one velocity or position to look at
            checks.append(ChannelCheck(name, colour, 0.0, 0.0, model))
            continue
        over_v, over_q = (_explained_share(x[:, j], whole[:, c], loss) for x in (v, q))
        checks.append(ChannelCheck(name, colour, over_v, over_q, model))
    return tuple(checks)


AVERAGED = 0.02
"""Seconds over which residuals are averaged before their colour is modelled: motions are slower."""

ORDER = 12
"""Largest order of the autoregressive model of a residual."""


def fit_autoregression(pieces: Sequence[Array], step: float) -> tuple[float, ...]:
    """Step (s), innovation variance and coefficients of an autoregressive model of a residual's means, by Yule-Walker.

    pieces: stretches of the residual, a row every `step` seconds. The order is chosen by Akaike's criterion.
    """
    size = max(1, round(AVERAGED / step))
    means = [piece[: len(piece) // size * size].reshape(-1, size).mean(axis=1) for piece in pieces]
    count = sum(map(len, means))
    if count < 10 * ORDER:
        return ()
    r = np.array([sum(float(x[k:] @ x[: len(x) - k]) for x in means if len(x) > k) for k in range(ORDER + 1)]) / count
    if not r[0] > 0.0:
        return ()
    found: tuple[float, ...] = (float(r[0]),)
    least = count * float(np.log(r[0]))
    for order in range(1, ORDER + 1):
        coefficients = scipy.linalg.solve_toeplitz(r[:order], r[1 : order + 1])
        variance = float(r[0] - coefficients @ r[1 : order + 1])
        if not variance > 1e-12 * r[0]:
            break
        loss = count * float(np.log(variance)) + 2.0 * order
        if loss < least:
            found, least = (variance, *map(float, coefficients)), loss
    return (size * step, *found)


def coloured_score_covariance(
    equation: Equation, unknowns: Unknowns, noise: Array, kept: tuple[Rows, ...], checks: Sequence[ChannelCheck],
    counts: Sequence[int],
) -> Array | None:  # fmt: skip
    """Covariance (unknowns, unknowns) of the scores W'e / noise^2 for residuals e of the channels' autoregressions.

    From rows that were kept, scaled to all, `counts` per channel; None where a channel has no such model, and for
    models other than torque, after which no motion is designed.
    """
    step = _median_time_step(kept)
    if step is None or equation.options.model != "torque" or not all(check.autoregression for check in checks):
        return None
    total = np.zeros((len(unknowns), len(unknowns)))
    for c, channel in enumerate(equation.channels):
        length, variance, *coefficients = checks[c].autoregression
        size, seen = round(length / step), 0.0
        gram = np.zeros_like(total)
        for rows in kept:
            place = unknowns.place[rows.log, channel.columns]
            own = channel.rows_in_wide(rows.wide)[:, :-1][:, place >= 0]
            good = channel.are_rows_settled(rows.settled) & channel.are_rows_settled(rows.good)
            share = np.where(good, channel.row_weights(rows.share), 0.0)
            seen += float(share.sum())
            count = len(own) // size
            if count < 2:
                continue
            sums = (own * share[:, None])[: count * size].reshape(count, size, -1).sum(axis=1)
            span = scipy.fft.next_fast_len(count + PADDING, real=True)
            response = np.abs(scipy.fft.rfft([1.0, *(-x for x in coefficients)], span))
            F = scipy.fft.rfft(sums, span, axis=0) / response[:, None]
            F[0] *= np.sqrt(0.5)
            F[-1] *= np.sqrt(0.5) if span % 2 == 0 else 1.0
            both = np.concatenate([F.real, F.imag])
            used = place[place >= 0]
            gram[np.ix_(used, used)] += both.T @ both * (2.0 * variance / span / noise[c] ** 4)
        total += gram * (counts[c] / max(seen, 1.0))
    return total


PADDING = 100
"""Steps of zeros behind a stretch, so that its end does not correlate with its beginning."""


def estimate_delay(
    equation: Equation, unknowns: Unknowns, solution: Solution, kept: tuple[Rows, ...], inflation: float
) -> Delay | None:
    """Delay d common to all torques, by least squares: y(t) = p(t - d) = p - d p', p' a further column.

    A shift that is more than noise is taken back by interpolation and sought again (Gauss-Newton).
    """
    step = _median_time_step(kept)
    if step is None or equation.options.is_scalar:  # a delay of torques is none of their power
        return None
    values, delay = solution.values, None
    for _ in range(ROUNDS):
        before = 0.0 if delay is None else delay.seconds
        factors = _factors_with_rate_column(equation, unknowns, values, kept, step, before)
        if not factors:
            break
        R, right, scale, rank = _triangle_with_rate_column(unknowns, factors, solution)
        if scale[-1] == 0.0 or abs(R[-1, -1]) < 1e-8:
            break
        change = -float(right[-1] / R[-1, -1] / scale[-1])
        delay = Delay(before + change, float(np.sqrt(inflation) / abs(R[-1, -1]) / scale[-1]))
        if abs(delay.seconds) < 3.0 * delay.sigma or abs(change) < 0.1 * delay.sigma or abs(delay.seconds) > LONGEST:
            break
        u = np.linalg.lstsq(R, right, rcond=None)[0] / scale
        values = solution.free @ u[rank[:-1]] + solution.fixed
    return delay


def _factors_with_rate_column(
    equation: Equation, unknowns: Unknowns, values: Array, kept: tuple[Rows, ...], step: float, shift: float
) -> dict[int, list[ChannelFactor]]:
    """Factors of rows [W | p' | y], p' the rate of the prediction, y taken `shift` seconds later than W."""
    from scipy.interpolate import CubicSpline

    factors: dict[int, list[list[ChannelFactor]]] = {}
    for rows in kept:
        inside = (rows.t + shift >= rows.t[0]) & (rows.t + shift <= rows.t[-1])
        inside[:2] = inside[-2:] = False  # where the slope is one-sided
        if len(rows.t) < 5 or not inside.any() or np.diff(rows.t).min() <= 0.0:
            continue
        predicted, _ = predict_with_residuals(equation, unknowns, values, rows)
        slope = np.gradient(predicted, step, axis=0)
        of_log = factors.setdefault(rows.log, [[] for _ in equation.channels])
        for c, channel in enumerate(equation.channels):
            own = channel.rows_in_wide(rows.wide)
            y = own[:, -1] if shift == 0.0 else CubicSpline(rows.t, own[:, -1])(rows.t + shift)
            of_log[c].append(ChannelFactor.from_rows(np.column_stack([own[:, :-1], slope[:, c], y])[inside]))
    return {log: [merge_factors(some) for some in channels] for log, channels in factors.items()}


def _triangle_with_rate_column(
    unknowns: Unknowns, factors: dict[int, list[ChannelFactor]], solution: Solution
) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """Triangular factor of the weighted rows [W free | p'] of all logs and channels, columns of unit norm.

    With right sides, the norms, and the rank of every column in it: p' is the last.
    """
    parts, count = [], solution.free.shape[1] + 1
    is_sparse = count > MANY and is_selection(solution.free)
    where = np.full(len(unknowns), -1)
    where[np.argmax(solution.free, axis=0)] = np.arange(count - 1)
    for log, of_log in factors.items():
        for c, factor in enumerate(of_log):
            if is_sparse:
                place = unknowns.place[log, unknowns.channels[c]]
                at = np.where(place >= 0, where[place], -1)
                columns = np.concatenate([at[at >= 0], [count - 1, count]])
                rows = factor.R[:, np.append(at >= 0, [True, True])]
                parts.append((columns, rows / solution.noise[c]))
                continue
            own = ChannelFactor(np.delete(factor.R, -2, axis=1), factor.count, factor.total)
            A, b = unknowns.rows_of_factor(log, c, own)
            rows = np.column_stack([A @ solution.free, factor.R[:, -2], b - A @ solution.fixed]) / solution.noise[c]
            parts.append((np.arange(count + 1), rows))
    if is_sparse:
        both, rank = merge_triangles(parts, count + 1)
        R, right, rank = both[:-1, :-1], both[:-1, -1], rank[:-1]
    else:
        both, rank = np.concatenate([rows for _, rows in parts]), np.arange(count)
    scale = np.linalg.norm(both[:, :-1], axis=0)
    divisor = np.where(scale == 0.0, 1.0, scale)
    if is_sparse:
        return R / divisor, right, np.append(divisor[:-1], scale[-1]), rank
    Q, R = np.linalg.qr(both[:, :-1] / divisor)
    return R, Q.T @ both[:, -1], np.append(divisor[:-1], scale[-1]), rank


def _median_time_step(kept: tuple[Rows, ...]) -> float | None:
    """Median time (s) from row to row; None where there is one row only."""
    steps = [np.diff(rows.t) for rows in kept if len(rows.t) > 1]
    return float(np.median(np.concatenate(steps))) if steps else None


def _autocorrelation(pieces: list[Array], lag: int) -> float:
    """Correlation of samples `lag` apart, inside the pieces."""
    mean = float(np.concatenate(pieces).mean())
    power = sum(float(((x - mean) ** 2).sum()) for x in pieces)
    pairs = sum(float(((x[lag:] - mean) * (x[:-lag] - mean)).sum()) for x in pieces if len(x) > lag)
    return pairs / power if power > 0.0 else 0.0


def _correlation_time(pieces: list[Array]) -> float:
    """Number of successive samples that count as one, by the first zero crossing of the autocorrelation."""
    total = 1.0
    for lag in range(1, 200):
        rho = _autocorrelation(pieces, lag)
        if rho <= 0.05:
            break
        total += 2.0 * rho
    return total


def _explained_share(x: Array, residual: Array, samples_per_one: float) -> float:
    """Share of the residual's variance between bins of x, minus what chance gives."""
    if float(np.ptp(x)) == 0.0 or len(x) < 4 * BINS:
        return 0.0
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    place = np.searchsorted(edges, x)
    count = np.bincount(place, minlength=len(edges) + 1).astype(float)
    mean = np.bincount(place, residual, minlength=len(edges) + 1) / np.maximum(count, 1.0)
    centre, variance = residual.mean(), residual.var()
    if variance == 0.0:
        return 0.0
    share = float((count * (mean - centre) ** 2).sum() / len(x) / variance)
    chance = len(edges) * samples_per_one / len(x)
    return max(0.0, share - chance)


# Errors of a joint in motion and at rest, beside those of models that anybody could guess.


MOST_ROWS = 3000
"""Rows on which joints are looked at."""

Known = Annotated[float, Null(np.nan)]


@dataclass(frozen=True, slots=True)
class JointError:
    """RMSE (N m or N) of one joint's torque on validation data, in motion and at rest (|v| < 1e-3 rad/s or its like).

    standing: share of the rows at rest; mean_: of the constant mean; gravity_: of gravity, Coulomb friction and an
    offset, fitted to the data used. NaN where there are no such rows.
    """

    joint: str
    standing: float
    moving_rmse: Known
    standing_rmse: Known
    mean_moving_rmse: Known
    mean_standing_rmse: Known
    gravity_moving_rmse: Known
    gravity_standing_rmse: Known


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRows:
    """Rows to look at with the values (folds, unknowns) that predict them; fold (K,): whose, for every row."""

    rows: Rows
    values: Array
    fold: NDArray[np.int64]


def rows_of_folds(kept: Sequence[Rows], groups: Sequence[tuple[Block, ...]], fits: Array) -> tuple[JudgedRows, ...]:
    """Rows with the values fitted without the stretch of time that they belong to."""
    judged = []
    for rows in kept:
        blocks = sorted((b.start, f) for f, group in enumerate(groups) for b in group if b.log == rows.log)
        if blocks:
            starts, folds = np.array([start for start, _ in blocks]), np.array([f for _, f in blocks])
            place = np.searchsorted(starts, rows.t + 1e-9, side="right") - 1
            judged.append(JudgedRows(rows, fits, folds[np.maximum(place, 0)]))
    return tuple(judged)


def rows_of_other_logs(kept: Sequence[Rows], values: Array) -> tuple[JudgedRows, ...]:
    """Rows of logs that were not fitted, with values whose offsets are the first log's."""
    return tuple(JudgedRows(replace(rows, log=0), values[None], np.zeros(len(rows.t), dtype=np.int64)) for rows in kept)


REPLAYED, STRETCHES = 600, 4
"""Samples that a result keeps for replays of exported files, at most, and in how many stretches."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplaySamples:
    """Filtered samples of recordings, on which exported files are judged by the software that loads them.

    table (N, 2 + 4 n): number of the stretch, t, q, v, a and torques, NaN where a joint's torque was not used.
    is_validation: of logs that were not used for fitting.
    """

    table: Annotated[Array, Bytes(2)]
    is_validation: bool

    @staticmethod
    def from_rows(equation: Equation, rows: Sequence[Rows], *, is_validation: bool) -> ReplaySamples | None:
        """Samples from some stretches of rows of joint torques; None where there are none."""
        channels, parts = equation.torque_channels, []
        for k, own in enumerate(rows):
            tau = np.full(own.q.shape, np.nan)
            for channel in channels:
                tau[:, channel.joint] = channel.rows_in_wide(own.wide)[:, -1]
            parts.append(np.column_stack([np.full(len(own.t), k), own.t, own.q, own.v, own.a, tau]))
        if not channels or not parts:
            return None
        table = np.concatenate(parts)
        if len(table) > REPLAYED:
            size = REPLAYED // STRETCHES
            starts = np.linspace(0, len(table) - size, STRETCHES).astype(np.int64)
            picks = [table[start : start + size] for start in starts]
            table = np.concatenate([np.column_stack([x[:, 0] + k * len(rows), x[:, 1:]]) for k, x in enumerate(picks)])
        return ReplaySamples(table, is_validation)

    @property
    def joints(self) -> int:
        """Number of joints."""
        return int(self.table.shape[1] - 2) // 4

    def arrays(self) -> tuple[Array, ...]:
        """Arrays of the samples: number of the stretch and t (N,); q, v, a and torques (N, n)."""
        stretch, t = self.table[:, :2].T
        return stretch, t, *np.split(self.table[:, 2:], 4, axis=1)


def joint_errors(
    equation: Equation, unknowns: Unknowns, noise: Array, kept: Sequence[Rows], judged: Sequence[JudgedRows]
) -> tuple[JointError, ...]:
    """Errors of every joint on judged rows; kept: of the data used, to which the trivial models are fitted."""
    if not kept or not judged or equation.options.model not in ("torque", "torque+reaction"):
        return ()
    used = _trivial_model_rows(equation, kept)
    shown = used if judged[0].rows is kept[0] else _trivial_model_rows(equation, [item.rows for item in judged])
    x = _fit_trivial_models(used, noise, equation.base_column_count + 2 * len(equation.torque_channels))
    step = _row_stride_for_checks([item.rows for item in judged])
    errors = []
    for c, channel in enumerate(equation.torque_channels):
        j = channel.joint
        left = np.concatenate([_held_out_residual(equation, unknowns, item, c)[::step] for item in judged])
        v, good = (np.concatenate([part[::step, j] for part in parts])
                   for parts in ([item.rows.v for item in judged], [item.rows.good for item in judged]))  # fmt: skip
        still = np.abs(v) < STILL * equation.shapes.scale[j]
        columns, rows, torque = shown[c]
        pair = (good & ~still, good & still)
        figures = [
            float(np.sqrt((e[where] ** 2).mean())) if where.any() else np.nan
            for e in (left, torque - used[c][2].mean(), torque - rows @ x[columns])
            for where in pair
        ]
        share = float(pair[1].sum() / max(good.sum(), 1))
        errors.append(JointError(equation.robot.joint_names[j], share, *figures))
    return tuple(errors)


def _row_stride_for_checks(kept: Sequence[Rows]) -> int:
    """Step between the rows that are checked."""
    return max(1, -(-sum(len(rows.t) for rows in kept) // MOST_ROWS))


def _held_out_residual(equation: Equation, unknowns: Unknowns, item: JudgedRows, c: int) -> Array:
    """Residual (K,) of one channel, every row predicted by the values of its fold."""
    own = equation.channels[c].rows_in_wide(item.rows.wide)
    values = np.array([unknowns.values_of_channel(item.rows.log, c, one) for one in item.values])
    predicted = own[:, :-1] @ values.T
    return np.asarray(own[:, -1] - predicted[np.arange(len(own)), item.fold])


Indices = NDArray[np.intp]


def _fit_trivial_models(used: Sequence[tuple[Indices, Array, Array]], noise: Array, count: int) -> Array:
    """Values (count,) that fit gravity, Coulomb friction and offsets of all joints to their torques."""
    gram, rhs = np.zeros((count, count)), np.zeros(count)
    for c, (columns, rows, torque) in enumerate(used):
        weighted = rows / noise[c]
        gram[np.ix_(columns, columns)] += weighted.T @ weighted
        rhs[columns] += weighted.T @ (torque / noise[c])
    scale = np.sqrt(np.diag(gram))
    some = np.flatnonzero(scale > 1e-9 * max(scale.max(), 1e-300))
    units = scale[some]
    x = np.zeros(count)
    x[some] = np.linalg.lstsq(gram[np.ix_(some, some)] / np.outer(units, units), rhs[some] / units, rcond=1e-10)[0]
    x[some] /= units
    return x


ROWS_AT_ONCE = 1000
"""Rows of gravity that are made at once."""


def _trivial_model_rows(equation: Equation, kept: Sequence[Rows]) -> list[tuple[Indices, Array, Array]]:
    """Columns (m,), rows (K, m) of gravity, Coulomb friction and offset, and torques (K,), of every joint."""
    step, n = _row_stride_for_checks(kept), len(equation.torque_channels)
    pieces: list[list[tuple[NDArray[np.bool_], Array]]] = [[] for _ in range(n)]
    torques = [[channel.rows_in_wide(rows.wide)[::step, -1] for rows in kept] for channel in equation.torque_channels]
    for q, v in _short_pieces(kept, step):
        still = Motion(np.arange(float(len(q))), q, np.zeros_like(q), np.zeros_like(q))
        wide = equation.rigid_rows(still)
        for c, channel in enumerate(equation.torque_channels):
            speed = v[:, channel.joint]
            slides = np.where(np.abs(speed) < STILL * equation.shapes.scale[channel.joint], 0.0, np.sign(speed))
            gravity = channel.rows_in_wide(wide)[:, : channel.base]
            W = np.column_stack([gravity, slides, np.ones(len(q))])
            some = np.asarray(W.any(axis=0))  # most base parameters have no weight
            pieces[c].append((some, W[:, some]))
    found = []
    for c, (channel, own) in enumerate(zip(equation.torque_channels, pieces, strict=True)):
        base = equation.base_column_count
        columns = np.array([*channel.columns[: channel.base], base + c, base + n + c])
        some = np.any([seen for seen, _ in own], axis=0)
        rows, start = np.zeros((sum(len(W) for _, W in own), int(some.sum()))), 0
        for seen, W in own:
            rows[start : start + len(W), seen[some]] = W
            start += len(W)
        found.append((columns[some], rows, np.concatenate(torques[c])))
    return found


def _short_pieces(kept: Sequence[Rows], step: int) -> Iterator[tuple[Array, Array]]:
    """Positions and velocities of every `step`th row, in pieces: rows of many joints at once are large."""
    for rows in kept:
        q, v = rows.q[::step], rows.v[::step]
        for start in range(0, len(q), ROWS_AT_ONCE):
            yield q[start : start + ROWS_AT_ONCE], v[start : start + ROWS_AT_ONCE]
