from __future__ import annotations

import numpy as np
import pytest

from dynid.logs.cutoff import CutoffChoice, choose_cutoff
from dynid.logs.log import Samples
from dynid.logs.ordering import concatenate_samples
from dynid.logs.survey import survey
from log_makers import arm, log_of, recording


def choice(samples: Samples) -> CutoffChoice:
    return choose_cutoff(survey(log_of(samples), arm(samples.q.shape[1])))


def noisy(x: Samples, noise: float, *, v: bool, quantised: bool = False, seed: int = 0) -> Samples:
    """Positions with noise; velocities of positions or none."""
    q = noise * np.round(x.q / noise) if quantised else x.q + noise * np.random.default_rng(seed).normal(size=x.q.shape)
    return Samples(x.t, q, np.gradient(q, x.t, axis=0) if v else None, None, x.tau)


@pytest.mark.parametrize("rate", [30.0, 100.0, 250.0, 1000.0])
@pytest.mark.parametrize("noise", [1e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("harmonics", [5, 20])
def test_it_lies_between_the_motion_and_the_sampling_rate(rate: float, noise: float, harmonics: int) -> None:
    x = recording(np.arange(int(20.0 * rate)) / rate, 3, harmonics=harmonics)
    for v in (False, True):
        for quantised in (False, True):
            found = choice(noisy(x, noise, v=v, quantised=quantised))
            assert 0.1 * harmonics < found.cutoff < rate / 4.0
            assert not found.clean
            assert found.series


def test_more_noise_means_a_lower_cutoff() -> None:
    x = recording(np.arange(20_000) / 1000.0, 3)
    found = [choice(noisy(x, noise, v=False)).cutoff for noise in (1e-7, 1e-4, 1e-2)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_a_fast_line_beyond_a_dip_into_the_noise_counts() -> None:
    t = np.arange(20_000) / 1000.0
    q = np.sin(2.0 * np.pi * 0.2 * t) + 0.1 * np.sin(2.0 * np.pi * 4.0 * t)
    q += 1e-4 * np.random.default_rng(0).standard_normal(len(t))
    found = choice(Samples(t, q[:, None], None, None, np.cos(q)[:, None]))
    assert found.cutoff > 8.0


@pytest.mark.parametrize("rate", [10.0, 20.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("harmonics", [1, 5, 20])
@pytest.mark.parametrize("digits", [None, 6])
def test_exact_motions_are_clean_and_derived_ones_are_not(rate: float, harmonics: int, digits: int | None) -> None:
    x = recording(np.arange(int(20.0 * rate)) / rate, 3, harmonics=harmonics)
    assert x.v is not None
    assert x.a is not None
    if digits is not None:
        x = Samples(x.t, x.q.round(digits), x.v.round(digits), x.a.round(digits), x.tau)
    assert choice(x).clean
    assert choice(x).series
    q = x.q + 1e-4 * np.random.default_rng(0).standard_normal(x.q.shape)
    v = np.gradient(q, x.t, axis=0)
    assert not choice(Samples(x.t, q, v, np.gradient(v, x.t, axis=0), x.tau)).clean
    assert x.a is not None
    a = x.a * (1.0 + 0.01 * np.random.default_rng(0).standard_normal(x.q.shape))
    assert not choice(Samples(x.t, x.q, x.v, a, x.tau)).clean or rate < 30.0


def test_trapezoidal_velocities_are_clean() -> None:
    h = 1e-3
    a = np.tile(np.repeat([4.0, 0.0, -4.0, 0.0, -4.0, 0.0, 4.0, 0.0], 250), 5)
    v = np.append(0.0, np.cumsum(a)[:-1] * h)
    q = np.append(0.0, np.cumsum(v[:-1] * h + a[:-1] * h * h / 2.0))
    t = h * np.arange(len(a), dtype=np.float64)
    assert choice(Samples(t, *(x[:, None] for x in (q, v, a, np.cos(q))))).clean


@pytest.mark.parametrize("still", [False, True])
def test_random_postures_are_no_time_series(still: bool) -> None:
    rng = np.random.default_rng(0)
    q, v, a, tau = rng.uniform(-2.0, 2.0, (4, 300, 6))
    if still:
        v, a = np.zeros_like(v), np.zeros_like(a)
    found = choice(Samples(np.arange(300.0), q, v, a, tau))
    assert not found.series
    assert found.clean
    assert "postures" in found.reason
    assert not choice(Samples(np.arange(300.0), q, None, None, tau)).clean


def test_velocities_of_other_joints_do_not_make_postures_of_a_motion() -> None:
    x = recording(np.arange(2000) / 100.0, 3)
    assert x.v is not None
    found = choice(Samples(x.t, x.q, np.roll(x.v, 1, axis=1), x.a, x.tau))
    assert found.series
    assert not found.clean


@pytest.mark.parametrize("length", [2, 3, 4, 5, 15, 16, 17, 40])
@pytest.mark.parametrize("joints", [1, 3])
@pytest.mark.parametrize("only", ["", "v", "v a"])
def test_short_logs_and_still_joints_are_no_problem(length: int, joints: int, only: str) -> None:
    x = recording(np.arange(length) / 30.0, joints, only=only, harmonics=2)
    assert 0.0 < choice(x).cutoff < 7.5
    x.q[:, 0] = 1.0
    assert 0.0 < choice(x).cutoff < 7.5
    x.q[:] = 1.0
    assert 0.0 < choice(x).cutoff < 7.5


def test_a_pause_of_an_hour_changes_nothing() -> None:
    t = np.arange(3000) / 100.0
    whole = recording(t, 3)
    later = recording(3600.0 + t[:500], 3)
    assert choice(concatenate_samples([whole, later])).cutoff == pytest.approx(choice(whole).cutoff, rel=0.1)


@pytest.mark.parametrize("rate", [200.0, 1000.0])
def test_how_sure_the_size_of_noise_is(rate: float) -> None:
    """White noise is known to a twentieth; noise that grows towards low frequencies to a quarter, steps between."""
    x = recording(np.arange(int(20.0 * rate)) / rate, 3)
    white = np.random.default_rng(1).standard_normal(x.q.shape)
    assert choice(noisy(x, 1e-4, v=False)).unsure == 0.05
    coloured = white.copy()
    for k in range(1, len(white)):
        coloured[k] += 0.8 * coloured[k - 1]
    assert choice(Samples(x.t, x.q + 1e-4 * coloured, None, None, x.tau)).unsure == 0.25
    assert choice(noisy(x, 1e-2, v=False, quantised=True)).unsure > 0.1


@pytest.mark.parametrize("seed", range(6))
def test_noise_that_is_not_white_is_no_motion(seed: int) -> None:
    """Stamps of time that jitter, and noise up to a tenth of the rate: ten seconds of a motion at 0.3 Hz."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.choice([0.7e-3, 1e-3, 1.3e-3, 8e-3], 8000, p=[0.2, 0.6, 0.19, 0.01]))
    noise = np.convolve(rng.standard_normal((8000 + 8) * 3), np.ones(9) / 9.0, "valid")[: 3 * 8000].reshape(3, 8000).T
    q = np.sin(2.0 * np.pi * 0.3 * t[:, None] + np.arange(3.0)) + 2e-3 * noise
    found = choice(Samples(t, q, None, None, np.cos(q)))
    assert found.cutoff < 15.0
