"""Where in frequency a motion and its torques are: power densities of the first rows of a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.data.cutoff import spectrum
from dynid.data.survey import Survey
from dynid.robot.transform import Array

ROWS = 32_768
POINTS = 160
"""Frequencies that are drawn, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Densities (frequencies, joints) of velocities and of torques (None where these were not used), f in Hz."""

    f: Array
    velocity: Array
    torque: Array | None


def find_spectrum(seen: Survey, has_torques: bool) -> Spectrum:
    """Spectra on a regular grid over the rows that were looked at first; positions stand for velocities."""
    x = seen.samples.take(slice(0, ROWS))
    f, S = spectrum(x.t, x.q, seen.rate)
    velocity = S * (2.0 * np.pi * f[:, None]) ** 2
    torque = spectrum(x.t, x.tau, seen.rate)[1] if has_torques and x.tau is not None else None
    bounds = _bounds(len(f))
    middle = np.array([f[start] for start in bounds])
    thin = [None if y is None else np.maximum.reduceat(y, bounds, axis=0) for y in (velocity, torque)]
    assert thin[0] is not None
    return Spectrum(middle, thin[0], thin[1])


def _bounds(count: int) -> list[int]:
    """Starts of bins that grow with frequency; the constant part is left out."""
    edges = np.unique(np.geomspace(1, max(count - 1, 1), POINTS).astype(int))
    return [int(k) for k in edges if k < count] or [0]
