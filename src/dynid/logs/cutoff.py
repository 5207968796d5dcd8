"""The cut-off chosen from the data: where the motion is, where the noise is, and the reason in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.logs.log import Samples
from dynid.logs.survey import Survey
from dynid.robot.transform import Array

HARMONICS = 15.0
"""Cut-off over the frequency below which 99 % of the velocity's power lies: room for friction and harmonics."""

LEAST = 4.0
SIMPSON = 24.0
"""Pieces of the band's period over which recorded derivatives are integrated to check them."""

NOISE_SHARE = 0.05
"""Noise that a derived acceleration may have, as a share of the acceleration itself."""

MOTION = 4.0
"""Cut-off of the motion over that of the rows, at most."""

CLEAN = 1e-3
"""Share by which recorded derivatives of a motion without noise may differ from its differences."""

LONGEST = 32_768
"""Rows from which spectra are taken."""

AT_FLOOR = 10.0
"""Power of positions over their noise floor below which there is no motion in them."""

FEWEST_PIECES = 8
"""Pieces of eight periods of the cut-off from which a coherence is told."""

UNSURE = 0.25
"""Standard deviation of the power of noise below the cut-off as a share of it, where its spectrum is not flat."""

SUREST = 0.05
"""The same where it is flat: chance, and what the filters do to the motion itself."""

NEIGHBOURS, LINE = 20, 20.0
"""Part of the spectrum whose median is the noise around a line, and the power of a line over it, at least."""

FEWEST = 16
"""Samples below which a spectrum says nothing."""


LoopNoise = tuple[Array, Array]
"""What `control_loop_noise` finds."""


@dataclass(frozen=True, slots=True, eq=False)
class CutoffChoice:
    """A cut-off in Hz, why, and what the rows are.

    clean: recorded velocities and accelerations are free of noise and can be taken as they are. series: the rows
    follow one another in time; where they do not (random postures with the row's number as time) a filter makes no
    sense, and velocities and accelerations have to be taken as given. bound: cut-off (Hz) at which noise makes up 5 %
    of a derived acceleration, at most 0.3 times the rate; noise: that cut-off without a limit; order: how the power
    of the noise grows with the cut-off. band: frequency (Hz) below which 99 % of the velocity's power lies, 0 where
    unknown. sigma (3, n): standard deviations of the white noise of recorded positions, velocities and accelerations
    (NaN for what is not recorded); None where the rows are too few to tell, or free of noise. unsure: standard
    deviation of the power of that noise as a share of it: less than a quarter where it is white down to the cut-off.
    """

    cutoff: float
    reason: str
    clean: bool
    series: bool = True
    bound: float = 0.0
    band: float = 0.0
    noise: float = np.inf
    order: int = 3
    sigma: Array | None = None
    unsure: float = UNSURE

    def noise_share(self, cutoff: float) -> float:
        """Noise of a derived acceleration over the acceleration, at a cut-off, for the median joint."""
        return 0.0 if self.clean else NOISE_SHARE * (cutoff / self.noise) ** (0.5 * self.order)

    def motion_cutoff(self, cutoff: float) -> float:
        """Cut-off of the motion for a cut-off of the rows: as high as noise allows, up to four times.

        Where both are the same, columns are filtered twice and torques once.
        """
        return float(np.clip(self.bound, cutoff, MOTION * cutoff))


def choose_cutoff(seen: Survey) -> CutoffChoice:
    """Choose the cut-off from the spectra of the first rows of a log: of its piece without gaps that moves most.

    The band of the motion ends where 99 % of the velocity's power lies below. The cut-off is 15 times that, less
    where noise would be felt in accelerations or where the sampling rate forbids it, but at least 4 times.

    Rows are not time series where positions jump about at random (steps from row to row are as large as between any
    two rows) and recorded velocities have nothing to do with the jumps. A motion is clean where integrals of the
    recorded velocities and accelerations, by Simpson's rule over 1/24 of the band's period, agree to 1e-3 with the
    differences of positions and velocities: exact derivatives do, measured and filtered ones do not.
    """
    x, rate = _piece_with_longest_travel(seen), seen.rate
    if _are_rows_unrelated_in_time(x):
        given = x.v is not None and x.a is not None
        reason = "the rows are postures that are not ordered in time: nothing can be filtered"
        return CutoffChoice(_round_to_two_digits(rate / 5.0), reason, given, series=False)
    highest = rate / 5.0
    if len(x) < FEWEST:
        reason = f"{len(x)} samples in a row are too few to choose; a fifth of the sampling rate"
        return CutoffChoice(_round_to_two_digits(highest), reason, _is_free_of_noise(x, highest / LEAST, rate))
    spectra = [None if y is None else power_spectrum(x.t, y, rate) for y in (x.q, x.v, x.a)]
    assert spectra[0] is not None
    f, S = spectra[0]
    floor = _noise_floor(f, S)
    band = _motion_bandwidth(f, S, floor)
    wanted = min(HARMONICS * band, highest)
    derivative, noise = (4, floor) if spectra[1] is None else (2, _noise_floor(*spectra[1]))
    bound = _noise_bound(f, S, floor, band, derivative, noise)
    cutoff = max(min(LEAST * band, highest), min(wanted, bound))
    reason = f"99 % of the velocity's power lies below {band:.2g} Hz"
    if cutoff < 0.99 * wanted:
        what = "positions" if x.v is None else "velocities"
        reason += f"; noise of the {what} would reach 5 % of the acceleration above {cutoff:.2g} Hz"
    elif wanted == highest:
        reason += f"; a fifth of the sampling rate of {rate:.4g} Hz is the limit"
    else:
        reason += f"; {HARMONICS:.0f} times that keeps friction and harmonics"
    clean = _is_free_of_noise(x, band, rate)
    sigma = None if clean else _white_noise(x, rate, spectra)
    return CutoffChoice(
        _round_to_two_digits(cutoff), reason, clean, bound=min(bound, 0.3 * rate), band=band, noise=max(bound, 1e-9),
        order=derivative + 1, sigma=sigma,
        unsure=UNSURE if sigma is None else _noise_uncertainty(sigma, spectra, cutoff, rate, len(x)),
    )  # fmt: skip


def _piece_with_longest_travel(seen: Survey) -> Samples:
    """The piece without gaps along which the joints travel most, each measured by its range; 32,768 rows at most."""
    x = seen.samples
    gaps = np.flatnonzero(np.diff(x.t) > max(5.0 / seen.rate, 0.025)) + 1
    gaps = np.union1d(gaps, np.arange(LONGEST, len(x) - LONGEST // 2, LONGEST))
    if not len(gaps):
        return x
    span = x.q.max(axis=0) - x.q.min(axis=0)
    steps = np.abs(np.diff(x.q, axis=0, prepend=x.q[:1])) @ (1.0 / np.where(span > 0.0, span, np.inf))
    steps[gaps] = 0.0
    bounds = np.concatenate([[0], gaps, [len(x)]])
    best = int(np.argmax(np.add.reduceat(steps, bounds[:-1]) + 1e-9 * np.diff(bounds)))
    return x.select_rows(slice(int(bounds[best]), int(bounds[best + 1])))


def _are_rows_unrelated_in_time(x: Samples) -> bool:
    """Whether rows do not follow one another in time."""
    spread = x.q.var(axis=0)
    moving = spread > 0.0
    if len(x) < 4 or not moving.any():
        return False
    jumps = (np.diff(x.q, axis=0) ** 2).mean(axis=0)[moving] / (2.0 * spread[moving])  # 1 - autocorrelation at lag 1
    if np.median(jumps) < 0.5:
        return False
    return x.v is None or bool(np.median(_derivative_disagreement(x.t, x.q, x.v, 1)[moving]) > 0.5)


def _is_free_of_noise(x: Samples, band: float, rate: float) -> bool:
    """Whether recorded velocities and accelerations carry no noticeable noise."""
    if x.v is None or x.a is None:
        return False
    stride = max(1, min(int(rate / (2.0 * SIMPSON * band)), (len(x) - 1) // 4))
    if len(x) < 2 * stride + 1:
        return False
    error = (2.0 * np.pi * band * stride / rate) ** 4 / 90.0  # of Simpson's rule, for what is twice the mean square
    worst = max(_derivative_disagreement(x.t, *pair, stride).max() for pair in ((x.q, x.v), (x.v, x.a)))
    return bool(worst <= max(CLEAN, min(error, 0.05)))


def _derivative_disagreement(t: Array, x: Array, slope: Array, stride: int) -> Array:
    """Difference of integrals of the recorded derivative from differences of x, as a share (n,), over 2 `stride`.

    By the 80 % quantile: a few jumps of the slope are allowed. Simpson's rule for unequal steps.
    """
    first, second = (t[stride:-stride] - t[: -2 * stride])[:, None], (t[2 * stride :] - t[stride:-stride])[:, None]
    whole = first + second
    mean = ((2.0 - second / first) * slope[: -2 * stride] + (2.0 - first / second) * slope[2 * stride :]) / 6.0
    mean += whole**2 / (6.0 * first * second) * slope[stride:-stride]
    rise = (x[2 * stride :] - x[: -2 * stride]) / whole
    size = np.sqrt((mean**2).mean(axis=0) + (rise**2).mean(axis=0))
    moving = np.abs(rise) + np.abs(mean) > 0.01 * size  # standstill says nothing
    off = np.where(moving, np.abs(mean - rise), np.nan)
    share = np.zeros(x.shape[1])
    for j in np.flatnonzero(moving.any(axis=0)):
        share[j] = np.nanquantile(off[:, j], 0.8) / size[j]
    return share


def _round_to_two_digits(cutoff: float) -> float:
    """Cut-off rounded to two digits."""
    return float(f"{cutoff:.2g}")


def control_loop_noise(seen: Survey, cutoff: float) -> LoopNoise | None:
    """Power above the cut-off, per joint, of torques that follow the positions, and of the positions.

    Torques as impulses (N m s)^2 and positions as velocities (rad/s)^2, (frequencies, n) each. A controller that feeds
    noise of its encoders back shows it in torques that are coherent with the recorded positions where these are at
    their noise floor; noise of torque sensors is not, and motion is above it. None where the rows are too few to tell.
    """
    x = _piece_with_longest_travel(seen)
    length = int(8.0 * seen.rate / cutoff)
    if x.tau is None or len(x) < FEWEST_PIECES * length:
        return None
    q, tau = (_fourier_transforms(_resample_evenly(x.t, y, seen.rate), length) for y in (x.q, x.tau))
    f = np.asarray(np.fft.rfftfreq(length, 1.0 / seen.rate), dtype=np.float64)
    unit = 2.0 / (seen.rate * (np.hanning(length) ** 2).sum())
    power, positions = (unit * (np.abs(y) ** 2).mean(axis=0) for y in (tau, q))
    chance = 1.3 / len(q)  # coherence of signals that have nothing to do with one another
    shared = (unit * np.abs((q.conj() * tau).mean(axis=0))) ** 2 / np.maximum(power * positions, 1e-300)
    floor = _noise_floor(f, np.asarray(positions, dtype=np.float64))
    above = f > cutoff
    w, step = 2.0 * np.pi * f[above, None], f[1] - f[0]
    shared = np.clip((shared[above] - chance) / (1.0 - chance), 0.0, 1.0)
    shared = np.where(positions[above] < AT_FLOOR * floor, shared, 0.0)
    return shared * power[above] / w**2 * step, positions[above] * w**2 * step


def power_spectrum(t: Array, x: Array, rate: float) -> tuple[Array, Array]:
    """Power density (frequencies, joints) of samples on a regular grid: Welch's method, half overlapping."""
    even = _resample_evenly(t, x, rate)
    length = min(len(even), max(16, int(8.0 * rate)))
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(length) / length)
    pieces = np.lib.stride_tricks.sliding_window_view(even, length, axis=0)[:: length - length // 2]
    S = (np.abs(np.fft.rfft(_without_lines(pieces) * window, axis=-1)) ** 2).mean(axis=0).T
    S[1 : (length + 1) // 2] *= 2.0  # what is at negative frequencies, of which 0 and half the rate have none
    f = np.asarray(np.fft.rfftfreq(length, 1.0 / rate), dtype=np.float64)
    return f, np.asarray(S / (rate * (window**2).sum()), dtype=np.float64)


def _without_lines(pieces: Array) -> Array:
    """Pieces (..., length) without the lines in time that fit them best."""
    t = np.arange(pieces.shape[-1]) - 0.5 * (pieces.shape[-1] - 1)
    slope = (pieces @ t) / max(float(t @ t), 1e-300)
    return np.asarray(pieces - pieces.mean(axis=-1, keepdims=True) - slope[..., None] * t)


def _resample_evenly(t: Array, x: Array, rate: float) -> Array:
    """Samples interpolated at regular instants."""
    grid = np.linspace(t[0], t[-1], min(len(t), max(2, int((t[-1] - t[0]) * rate) + 1)))
    return np.column_stack([np.interp(grid, t, column) for column in x.T])


def _fourier_transforms(x: Array, length: int) -> NDArray[np.complex128]:
    """Fourier transforms (pieces, frequencies, columns) of pieces that overlap by half, detrended."""
    pieces = np.lib.stride_tricks.sliding_window_view(x, length, axis=0)[:: max(1, length // 2)]
    return np.asarray(np.fft.rfft(_without_lines(pieces) * np.hanning(length), axis=-1)).swapaxes(1, 2)


def _noise_floor(f: Array, S: Array) -> Array:
    """Noise level of every joint: the median of the upper half of the band."""
    return np.asarray(np.median(S[f >= 0.5 * f[-1]], axis=0))


def _white_noise(x: Samples, rate: float, spectra: Sequence[tuple[Array, Array] | None]) -> Array:
    """Standard deviation (3, n) of white noise in q, v and a: by the upper half of the band or by sixth differences.

    Both are too large where a short or fast motion leaks into them, so the smaller one counts; the noise of rounding
    to the steps of an encoder, which is slow where a joint is, is the least.
    """
    sigma = np.full((3, x.q.shape[1]), np.nan)
    for k, (y, own) in enumerate(zip((x.q, x.v, x.a), spectra, strict=True)):
        if y is not None and own is not None:
            f, S = own
            floor = np.sqrt(0.5 * rate * S[f >= 0.5 * f[-1]].mean(axis=0))
            differences = np.diff(y, n=6, axis=0).std(axis=0) / np.sqrt(924.0)  # binomial(12, 6)
            steps = np.abs(np.diff(y, axis=0))
            smallest = np.where(steps > 0.0, steps, np.inf).min(axis=0)
            rounding = np.where(np.isfinite(smallest), smallest, 0.0) / np.sqrt(12.0)
            sigma[k] = np.maximum(np.minimum(floor, differences), rounding)
    return sigma


def _noise_uncertainty(
    sigma: Array, spectra: Sequence[tuple[Array, Array] | None], cutoff: float, rate: float, count: int
) -> float:
    """Deviation of noise between the cut-off and the upper half of the band from white noise, sigma (3, n).

    In power, as a share, root mean square over the joints, in what accelerations are derived from, without what chance
    may give with `count` samples.
    """
    f, S = next(own for own in reversed(spectra) if own is not None)
    last = max(k for k, own in enumerate(spectra) if own is not None)
    between, noisy = (f >= cutoff) & (f <= 0.5 * f[-1]), sigma[last] > 0.0
    if not between.any() or not noisy.any():
        return UNSURE
    off = 0.5 * rate * S[between][:, noisy].mean(axis=0) / sigma[last, noisy] ** 2 - 1.0
    pieces = max(
        1.0, 2.0 * count / max(2 * (len(f) - 1), 1) - 1.0
    )  # of `power_spectrum`; Hann windows spread over two bins
    chance = 2.0 / pieces * (1.0 / np.count_nonzero(between) + 2.0 / len(f))
    return float(np.clip(np.sqrt(max((off**2).mean() - 2.0 * chance, 0.0)), SUREST, UNSURE))


def _motion_bandwidth(f: Array, S: Array, floor: Array) -> float:
    """Frequency below which the fastest joint has 99 % of its velocity's power, noise taken off.

    Noise need not be white: stamps of time that jitter raise it between the motion and the upper half of the band.
    """
    size = max(9, len(f) // NEIGHBOURS)
    around = np.pad(S, ((size // 2, size - 1 - size // 2), (0, 0)), mode="edge")
    power = np.maximum(S - 2.0 * floor, 0.0) * (2.0 * np.pi * f[:, None]) ** 2
    for j in range(S.shape[1]):
        places = np.flatnonzero(S[1:, j] < 4.0 * floor[j])
        if len(places):  # beyond the first dip into the noise only lines count that noise does not have by chance
            beyond = slice(places[0] + 1, None)
            near = np.lib.stride_tricks.sliding_window_view(LINE * around[:, j], size)
            high = places[0] + 1 + np.flatnonzero(S[beyond, j] > LINE * floor[j])
            is_line = np.zeros(len(f), dtype=np.bool_)
            for some in np.array_split(high, len(high) // 1024 + 1):  # in little memory
                is_line[some] = np.count_nonzero(near[some] < S[some, j, None], axis=1) > size // 2  # beyond the median
            power[beyond, j] *= is_line[beyond]
    total = power.sum(axis=0)
    moving = total > 1e-6 * total.max()
    if total.max() == 0.0:
        return float(f[1])
    share = np.cumsum(power[:, moving], axis=0) / total[moving]
    return float(max(f[np.argmax(share >= 0.99, axis=0)].max(), f[1]))


def _noise_bound(f: Array, S: Array, floor: Array, band: float, derivative: int, noise: Array) -> float:
    """Cut-off at which noise makes up 5 % of a derived acceleration, for the median joint."""
    signal = np.where(f[:, None] <= LEAST * band, np.maximum(S - floor, 0.0) * (2.0 * np.pi * f[:, None]) ** 4, 0.0)
    power = signal.sum(axis=0) * (f[1] - f[0])
    order = derivative + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = (order * NOISE_SHARE**2 * power / (noise * (2.0 * np.pi) ** derivative)) ** (1.0 / order)
    moving = power > 1e-6 * power.max()
    return float(np.median(bounds[moving])) if moving.any() else np.inf
