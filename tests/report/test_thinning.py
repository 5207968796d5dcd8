"""Thinned curves: few points, all peaks, gaps left open, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynid.report.replay import Envelope, PointSample


@pytest.mark.parametrize("chunk", [1, 7, 1000, 40_000])
def test_every_peak_stays_where_it_was(chunk: int) -> None:
    rng = np.random.default_rng(chunk)
    t, x = np.linspace(0.0, 200.1, 20_011), 0.1 * rng.standard_normal((20_011, 3))
    peaks = rng.choice(len(t), 12, replace=False)
    x[peaks, 1] += 50.0 * np.sign(rng.standard_normal(12))
    thin = Envelope(3, 200)
    for start in range(0, len(t), chunk):
        thin.add_rows(t[start : start + chunk], x[start : start + chunk, :, None])
    for k in range(3):
        at, (values,) = thin.curves(k)[0], thin.curves(k)[1].T
        assert len(at) <= 2 * (2 * 200 + 1)
        assert (np.diff(at) > 0.0).all()
        rows = np.round(at / 0.01).astype(int)
        assert_array_equal(values, x[rows, k])  # nothing is averaged or moved
        assert {values.min(), values.max()} == {x[:, k].min(), x[:, k].max()}
    shown = set(np.round(thin.curves(1)[0] / 0.01).astype(int))
    stretch = thin.width
    for peak in peaks:  # the largest of its bin, and of its sign, is shown
        around = peaks[(peaks // stretch == peak // stretch) & (np.sign(x[peaks, 1]) == np.sign(x[peak, 1]))]
        assert set(around) & shown


@pytest.mark.parametrize("chunk", [7, 5_000])
def test_signals_of_a_channel_stay_together(chunk: int) -> None:
    """Rows are kept whole: the peak of one signal brings the values of the others at the same instant."""
    rng = np.random.default_rng(chunk)
    t, x = np.linspace(0.0, 50.0, 5_001), rng.standard_normal((5_001, 2, 3))
    thin = Envelope(2, 40, signals=3, keys=(0, 2))
    for start in range(0, len(t), chunk):
        thin.add_rows(t[start : start + chunk], x[start : start + chunk])
    for c in range(2):
        at, values = thin.curves(c)
        assert len(at) <= 4 * (2 * 40 + 1)
        assert (np.diff(at) > 0.0).all()
        assert_array_equal(values, x[np.round(at / 0.01).astype(int), c])
        for k in (0, 2):
            assert values[:, k].min() == x[:, c, k].min()
            assert values[:, k].max() == x[:, c, k].max()


def test_short_curves_are_left_alone() -> None:
    t = np.arange(50.0)
    thin = Envelope(1, 100)
    thin.add_rows(t, np.sin(t)[:, None, None])
    assert_array_equal(thin.curves(0)[0], t)
    assert_array_equal(thin.curves(0)[1][:, 0], np.sin(t))


def test_segments_are_apart() -> None:
    thin = Envelope(1, 100)
    for segment in range(3):
        thin.add_rows(10.0 * segment + np.arange(5.0), np.ones((5, 1, 1)), segment)
    t, x = thin.curves(0)
    assert np.isnan(t).sum() == np.isnan(x).sum() == 2
    assert len(t) == 17


def test_a_log_in_pieces_has_few_points_too() -> None:
    thin = Envelope(1, 50)
    for segment in range(3000):
        thin.add_rows(segment + np.linspace(0.0, 0.5, 4), np.full((4, 1, 1), float(segment)), segment)
    t, x = thin.curves(0)
    assert len(t) <= 3 * (2 * 50 + 1)
    assert np.nanmax(x) == 2999.0
    assert np.nanmin(x) == 0.0


def test_clouds_are_spread_evenly() -> None:
    cloud = PointSample(100)
    for start in range(0, 10_000, 333):
        cloud.add_points(np.arange(start, min(start + 333, 10_000), dtype=float)[:, None])
    assert cloud.points is not None
    assert 100 <= len(cloud.points) <= 200
    assert len(set(np.diff(cloud.points[:, 0]))) == 1
