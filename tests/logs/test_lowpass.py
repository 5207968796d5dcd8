from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import butter, sosfiltfilt

from dynid.logs.filtering import Lowpass, extend_by_reflection

RATES = [(30.0, 3.0), (30.0, 13.5), (125.0, 10.0), (250.0, 112.0), (1000.0, 2.0), (1000.0, 495.0), (2000.0, 40.0)]


@pytest.mark.parametrize(("rate", "cutoff"), RATES)
def test_it_is_the_butterworth_filter_run_forwards_and_backwards(rate: float, cutoff: float) -> None:
    filter_ = Lowpass(cutoff, rate, 1e-8)
    half = filter_.half_length
    x = np.random.default_rng(3).standard_normal((6 * half + 500, 2)).cumsum(axis=0)
    sections = butter(4, cutoff, fs=rate, output="sos")
    expected = sosfiltfilt(sections, x, axis=0)[half:-half]
    inside = slice(2 * half, -2 * half)
    assert_allclose(filter_.smooth(x)[inside], expected[inside], atol=1e-7 * np.abs(x).max())


@pytest.mark.parametrize(("rate", "cutoff"), RATES)
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_derivatives_are_those_of_the_filtered_sinusoid(rate: float, cutoff: float, share: float) -> None:
    """Also with an offset of 100 rad, to which derivatives must not answer; at the cut-off the gain is a half."""
    filter_ = Lowpass(cutoff, rate, 1e-8)
    w = 2.0 * np.pi * share * cutoff
    t = np.arange(2 * filter_.half_length + 300)[:, None] / rate
    inside = t[filter_.half_length : -filter_.half_length]
    warped = np.tan(w / rate / 2.0) / np.tan(np.pi * cutoff / rate)
    gain = 1.0 / (1.0 + warped**8)
    if share == 1.0:
        assert_allclose(gain, 0.5)
    x = 100.0 + np.sin(w * t)
    assert_allclose(filter_.smooth(x) - 100.0, gain * np.sin(w * inside), atol=2e-6)
    assert_allclose(filter_.differentiate(x), w * gain * np.cos(w * inside), atol=1e-5 * w)
    assert_allclose(filter_.differentiate_twice(x), -w * w * gain * np.sin(w * inside), atol=1e-4 * w * w)


@pytest.mark.parametrize(("rate", "cutoff"), RATES)
@pytest.mark.parametrize("step", [1, 3, 20])
def test_decimation_keeps_samples_of_the_filtered_signal(rate: float, cutoff: float, step: int) -> None:
    filter_ = Lowpass(cutoff, rate)
    for length in (1, step, 7 * step + 1, 200):
        x = np.random.default_rng(length).standard_normal((2 * filter_.half_length + length, 3))
        assert_allclose(filter_.decimate(x, step), filter_.smooth(x)[::step], atol=1e-12)


def test_decimation_leaves_little_to_fold_back() -> None:
    for rate, cutoff in RATES:
        filter_ = Lowpass(cutoff, rate)
        nyquist = 0.5 * rate / filter_.decimation
        if filter_.decimation > 1:
            assert 1.0 / (1.0 + (nyquist / cutoff) ** 8) < 1e-3


def test_the_continuation_is_odd_and_linear() -> None:
    rng = np.random.default_rng(0)
    W, x = rng.standard_normal((40, 5)), rng.standard_normal(5)
    for before, after in ((0, 0), (3, 0), (0, 39), (100, 90)):
        longer = extend_by_reflection(W, before, after)
        assert len(longer) == 40 + before + after
        assert_allclose(longer @ x, extend_by_reflection((W @ x)[:, None], before, after)[:, 0], atol=1e-12 * 20)
        if 0 < before < 40:
            assert_allclose(longer[before - 1], 2.0 * W[0] - W[1])
    assert_allclose(extend_by_reflection(W[:1], 2, 3), np.repeat(W[:1], 6, axis=0))
    assert_allclose(extend_by_reflection(W[:2], 5, 5)[:, 0], W[0, 0] + (W[1, 0] - W[0, 0]) * np.arange(-5, 7))
