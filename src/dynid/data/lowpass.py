"""The zero-phase low-pass: a Butterworth filter of order 4 run forwards and backwards, as a linear-phase FIR.

Its gain is 1 / (1 + (tan(w/2) / tan(wc/2))^8), that of scipy's filtfilt with butter(4). The impulse response is
symmetric and dies out exponentially, so it is cut where the rest is small: a filter with finite memory, which
streams, stops at gaps and, with decimation, is computed only for the samples that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.concurrency import cached_property
from dynid.kernel.threads import share_samples
from dynid.robot.transform import Array

TOGETHER = 8
"""Outputs per matrix product; twice as many where columns are few, or the calls would cost most."""

WIDE = 64


@dataclass(frozen=True)
class Lowpass:
    """A cut-off (Hz) at a sampling rate (Hz); `rest` of the impulse response is cut off."""

    cutoff: float
    rate: float
    rest: float = 1e-4

    @cached_property
    def _responses(self) -> tuple[Array, Array, Array]:
        """Impulse responses (2 half + 1,) of the filter and of its first two time derivatives."""
        longest = 2.0 * np.pi / min(self._corner, np.pi - self._corner)  # it rings near half the sampling rate too
        size = int(2 ** np.ceil(np.log2(128.0 * max(4.0, longest))))
        w = np.pi * np.arange(size // 2 + 1) / (size // 2)
        with np.errstate(over="ignore"):
            gain = 1.0 / (1.0 + (np.tan(np.minimum(w, np.pi - 1e-9) / 2.0) / np.tan(self._corner / 2.0)) ** 8)
        h = np.fft.irfft(gain, size)
        outside = np.cumsum(np.abs(h[: size // 2])[::-1])[::-1]  # what is left out beyond each lag
        half = int(np.argmax(outside < self.rest)) if (outside < self.rest).any() else size // 2 - 1
        slope = np.fft.irfft(1j * w * gain * self.rate, size)
        bend = np.fft.irfft(-((w * self.rate) ** 2) * gain, size)
        lags = np.arange(-half, half + 1)
        h, slope, bend = h[lags], slope[lags], bend[lags]
        bend -= h * bend.sum() / h.sum()  # no answer to a constant
        return h / h.sum(), slope, bend

    @property
    def _corner(self) -> float:
        return 2.0 * np.pi * min(self.cutoff, 0.499 * self.rate) / self.rate

    @property
    def half(self) -> int:
        """Samples that the filter needs on each side."""
        return len(self._responses[0]) // 2

    @property
    def decimation(self) -> int:
        """Keep every so many samples: the rest of the spectrum is below 1e-3 at half the rate that is left."""
        return max(1, int(self.rate / (5.0 * self.cutoff)))

    def smooth(self, x: Array) -> Array:
        """Filtered samples; x (N + 2 half, c) gives (N, c)."""
        return _convolve(x, self._responses[0])

    def differentiate(self, x: Array) -> Array:
        """Time derivative of the filtered samples, per second; x (N + 2 half, c) gives (N, c)."""
        return _convolve(x, self._responses[1])

    def differentiate_twice(self, x: Array) -> Array:
        """Second time derivative of the filtered samples, per second squared."""
        return _convolve(x, self._responses[2])

    def decimate(self, x: Array, step: int, derivative: int = 0) -> Array:
        """Every `step`-th filtered sample (or time derivative), beginning with the first; nothing else is computed.

        Groups of outputs are one matrix product of a small Toeplitz matrix with a window of the samples.
        """
        h = self._responses[derivative]
        taps, N = len(h), len(x) - 2 * self.half
        count = (N - 1) // step + 1 if N > 0 else 0
        out = np.empty((count, x.shape[1]))
        together = TOGETHER if x.shape[1] >= WIDE else 2 * TOGETHER
        toeplitz = np.zeros((together, taps + (together - 1) * step))
        for k in range(together):
            toeplitz[k, k * step : k * step + taps] = h[::-1]

        def work(begin: int, end: int) -> None:
            for first in range(begin, end, together):
                some = min(together, end - first)
                width = taps + (some - 1) * step
                start = first * step
                np.matmul(toeplitz[:some, :width], x[start : start + width], out=out[first : first + some])

        share_samples(count, work)
        return out


def extend(x: Array, before: int, after: int) -> Array:
    """Continue samples beyond both ends by odd reflection: linear in x, so both sides of an equation may have it."""
    if before == 0 and after == 0:
        return x
    if len(x) == 1:
        return np.repeat(x, before + after + 1, axis=0)
    pad = [(before, after)] + [(0, 0)] * (x.ndim - 1)
    return np.asarray(np.pad(x, pad, mode="reflect", reflect_type="odd"))


def _convolve(x: Array, taps: Array) -> Array:
    """Valid part of the convolution along the first axis, by FFT in blocks."""
    from scipy.signal import oaconvolve

    if x.shape[1] == 0:
        return np.zeros((len(x) - len(taps) + 1, 0))
    columns = np.ascontiguousarray(x.T)
    return np.ascontiguousarray(oaconvolve(columns, taps[None, :], mode="valid", axes=1).T)
