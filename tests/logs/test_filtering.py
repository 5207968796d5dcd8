from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.logs.filtering import Treatment, Window, filter_and_decimate_rows, kept_indices, prepare_window
from dynid.logs.log import Samples
from log_makers import recording


def whole(samples: Samples) -> Window:
    return Window(0, 0, slice(0, len(samples)), True, True, samples)


@pytest.mark.parametrize("only", ["", "v", "v a"])
def test_missing_derivatives_are_those_of_the_motion(only: str) -> None:
    exact = recording(np.arange(2000) / 200.0, base=0.1, harmonics=3)
    assert exact.v is not None
    assert exact.a is not None
    assert exact.tau is not None
    given = recording(exact.t, only=only, base=0.1, harmonics=3)
    treatment = Treatment(200.0, 8.0)
    prepared = prepare_window(whole(given), treatment, exact.tau)
    inside = slice(300, -300)
    for name, atol in (("q", 1e-6), ("v", 1e-5), ("a", 1e-4)):
        assert_allclose(getattr(prepared.motion, name)[inside], getattr(exact, name)[inside], atol=atol)


def test_a_complete_motion_is_taken_as_it_is() -> None:
    x = recording(np.arange(100) / 200.0)
    assert x.tau is not None
    prepared = prepare_window(whole(x), Treatment(200.0, 8.0, smooth=False), x.tau)
    assert prepared.motion.a is x.a
    assert prepared.measured is x.tau


@pytest.mark.parametrize("delay", [0.013, -0.02, 0.0001])
@pytest.mark.parametrize("cutoff", [8.0, None])
def test_a_delay_is_taken_back(delay: float, cutoff: float | None) -> None:
    """Torques are linear in time, so that interpolation is exact; samples without a torque are left out."""
    x = recording(np.arange(1000) / 200.0)
    treatment = Treatment(200.0, cutoff, smooth=cutoff is not None, delay=delay)
    prepared = prepare_window(whole(x), treatment, (x.t - delay)[:, None])
    assert_allclose(prepared.measured[:, 0], prepared.motion.t, atol=1e-12)
    assert len(prepared.motion) == 1000 - treatment.delay_samples
    assert prepared.first == (treatment.delay_samples if delay < 0.0 else 0)
    assert treatment.delay_samples == int(np.ceil(abs(delay) * 200.0)) <= treatment.trimmed_samples


@pytest.mark.parametrize("core", [(0, 300), (7, 255), (120, 121), (121, 122), (50, 50)])
@pytest.mark.parametrize("cutoff", [8.0, None])
def test_rows_are_filtered_where_they_are_kept(core: tuple[int, int], cutoff: float | None) -> None:
    treatment = Treatment(200.0, cutoff, smooth=False)
    rows = np.random.default_rng(0).standard_normal((300, 4))
    every = filter_and_decimate_rows(rows, 0, (0, 300), (True, True), treatment)
    assert len(every) == len(kept_indices((0, 300), treatment))
    wanted = kept_indices(core, treatment) // treatment.decimation
    assert_allclose(filter_and_decimate_rows(rows, 0, core, (True, True), treatment), every[wanted], atol=1e-12)


def test_constants_stay_constants_up_to_the_edges() -> None:
    treatment = Treatment(200.0, 8.0)
    rows = np.full((300, 2), 3.0)
    rows[:, 1] = np.arange(300)
    out = filter_and_decimate_rows(rows, 0, (0, 300), (True, True), treatment)
    kept = kept_indices((0, 300), treatment)
    assert_allclose(out, np.column_stack([np.full(len(kept), 3.0), kept]), atol=1e-9)


def test_properties_hang_together() -> None:
    for rate in (30.0, 125.0, 1000.0):
        for cutoff in (0.5, 3.0, 0.2 * rate, 0.45 * rate):
            for delay in (0.0, 0.01):
                treatment = Treatment(rate, cutoff, delay=delay)
                assert treatment.context_samples >= treatment.trimmed_samples >= treatment.delay_samples
                assert treatment.shortest_segment > 2 * treatment.trimmed_samples
