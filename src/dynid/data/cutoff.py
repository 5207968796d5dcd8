"""The cut-off chosen from the data: where the motion is, where the noise is, and the reason in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.data.survey import Survey
from dynid.robot.transform import Array

HARMONICS = 20.0
"""Cut-off over the frequency below which 99 % of the velocity's power lies: room for friction and harmonics."""

LEAST = 4.0
NOISE_SHARE = 0.05
"""Noise that a derived acceleration may have, as a share of the acceleration itself."""

CLEAN = 1e-3
"""Share of noise up to which recorded accelerations are taken as they are."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A cut-off in Hz, why, and whether recorded velocities and accelerations are free of noise."""

    cutoff: float
    reason: str
    clean: bool


def choose_cutoff(seen: Survey) -> Choice:
    """Choose from the spectra of the first rows of a log."""
    x, rate = seen.samples, seen.rate
    f, S = _spectrum(x.t, x.q, rate)
    floor = _floor(f, S)
    band = _fastest(f, S, floor)
    highest = rate / 5.0
    wanted = min(HARMONICS * band, highest)
    derivative, noise = (4, floor) if x.v is None else (2, _floor(*_spectrum(x.t, x.v, rate)))
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
    return Choice(_rounded(cutoff), reason, _is_clean(seen, band))


def _rounded(cutoff: float) -> float:
    """Two digits are enough."""
    return float(f"{cutoff:.2g}")


def _spectrum(t: Array, x: Array, rate: float) -> tuple[Array, Array]:
    """Power density (frequencies, joints) of samples on a regular grid."""
    from scipy.signal import welch

    grid = np.linspace(t[0], t[-1], min(len(t), max(2, int((t[-1] - t[0]) * rate) + 1)))
    even = np.column_stack([np.interp(grid, t, column) for column in x.T])
    length = min(len(grid), max(16, int(8.0 * rate)))
    f, S = welch(even, rate, nperseg=length, axis=0, detrend="linear")
    return np.asarray(f, dtype=np.float64), np.asarray(S, dtype=np.float64)


def _floor(f: Array, S: Array) -> Array:
    """Noise level of every joint: the median of the upper half of the band."""
    return np.asarray(np.median(S[f >= 0.5 * f[-1]], axis=0))


def _fastest(f: Array, S: Array, floor: Array) -> float:
    """Frequency below which the fastest joint has 99 % of its velocity's power, noise taken off."""
    power = np.maximum(S - 2.0 * floor, 0.0) * (2.0 * np.pi * f[:, None]) ** 2
    noisy = S < 4.0 * floor
    for j in range(S.shape[1]):
        places = np.flatnonzero(noisy[1:, j])
        if len(places):
            power[places[0] + 1 :, j] = 0.0
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
    with np.errstate(divide="ignore"):
        bounds = (order * NOISE_SHARE**2 * power / (noise * (2.0 * np.pi) ** derivative)) ** (1.0 / order)
    moving = power > 1e-6 * power.max()
    return float(np.median(bounds[moving])) if moving.any() else np.inf


def _is_clean(seen: Survey, band: float) -> bool:
    """Whether recorded velocities and accelerations carry no noise to speak of."""
    x = seen.samples
    if x.v is None or x.a is None:
        return False
    f, S = _spectrum(x.t, x.a, seen.rate)
    above = S[f > 0.5 * f[-1]].sum(axis=0)
    whole = S.sum(axis=0)
    return bool(np.all(2.0 * above <= CLEAN**2 * np.maximum(whole, 1e-300)) or 0.5 * f[-1] < LEAST * band)
