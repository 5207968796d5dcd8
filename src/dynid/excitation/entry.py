"""From rest into a periodic motion and back: one fifth-order polynomial per joint, inside all limits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynid.errors import ExcitationError
from dynid.excitation.quintics import Quintics
from dynid.excitation.shape import middle_and_half
from dynid.robot.limits import Limits
from dynid.robot.transform import Array

_DURATIONS = np.concatenate([np.geomspace(1.0, 40.0, 36), np.geomspace(0.9, 0.2, 8)])
"""Tried in this order (s): calm entries first, hasty ones where nothing else fits."""
_PLACES = 41


def find_entry(
    state: tuple[Array, Array, Array],
    limits: Limits,
    rest: Array | None,
    names: tuple[str, ...],
    accept: Callable[[Quintics], bool],
) -> Quintics:
    """Shortest acceptable segment from rest to a state (q, v, a), from a rest pose of its choice or the given one."""
    q, v, a = state
    still = np.zeros_like(q)
    stops = names[0]
    for T in _DURATIONS:
        for places in _rest_places(q, v, float(T), limits) if rest is None else [rest[:, None]]:
            chosen, use = _best_places(places, state, float(T), limits)
            stops = names[int(np.argmax(use))]
            if use.max() <= 1.0:
                entry = Quintics(np.array([T]), np.stack([chosen, q]), np.stack([still, v]), np.stack([still, a]))
                if accept(entry):
                    return entry
    raise ExcitationError(
        f"no entry from rest stays inside all limits (joint '{stops}' is nearest to one); choose another rest pose"
    )


def _rest_places(q: Array, v: Array, T: float, limits: Limits) -> list[Array]:
    """Candidate rest positions (n, places): anywhere, at the start of a steady acceleration, or where the state is."""
    natural = q - 0.5 * v * T
    lower, upper = limits.position.T
    low = np.where(np.isfinite(lower), lower, natural - 0.5)
    high = np.where(np.isfinite(upper), upper, natural + 0.5)
    grid = low[:, None] + (high - low)[:, None] * np.linspace(0.005, 0.995, _PLACES)
    return [np.hstack([natural[:, None], q[:, None], grid]), natural[:, None], q[:, None]]


def _best_places(places: Array, state: tuple[Array, Array, Array], T: float, limits: Limits) -> tuple[Array, Array]:
    """Per joint the place with the smallest exact use of limits, and that use."""
    middle, half = middle_and_half(limits)
    chosen, use = np.empty(len(places)), np.empty(len(places))
    for j, row in enumerate(places):
        still = np.zeros(len(row))
        nodes = [
            np.stack([first, np.full(len(row), x[j])]) for first, x in zip((row, still, still), state, strict=True)
        ]
        lowest, highest, speed, acceleration = (x[0] for x in Quintics(np.array([T]), *nodes).peaks())
        reach = np.maximum(highest - middle[j], middle[j] - lowest) / half[j]
        uses = np.maximum(reach, np.maximum(speed / limits.velocity[j], acceleration / limits.acceleration[j]))
        best = int(np.argmin(uses))
        chosen[j], use[j] = row[best], uses[best]
    return chosen, use
