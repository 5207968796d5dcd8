"""Several ways to identify from the same logs, side by side: what each found, or why it refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.concurrency import cached_property
from dynid.errors import IdentificationError
from dynid.estimation.identification import Identification
from dynid.estimation.score import Score
from dynid.robot.transform import Array

COMBINED = 3.0
"""Combined deviations within which two values agree."""

ROUNDING = 1e-6
"""Share of the largest parameter of a unit that is no difference: data without noise have no deviations."""


@dataclass(frozen=True, eq=False)
class Way:
    """One model with one estimator: its result and the error of the torques it predicts, or the reason of a refusal.

    seconds: reading and solving, as if it were the only way. prediction: on the same held-out data, filtered alike,
    for all ways; `result.validation` speaks of the way's own channels instead.
    """

    model: str
    estimator: str
    seconds: float
    result: Identification | None = None
    prediction: Score | None = None
    refusal: str = ""

    @property
    def name(self) -> str:
        """Model and estimator."""
        return f"{self.model}, {self.estimator}"

    @property
    def found(self) -> Identification:
        """Result of a way that did not refuse."""
        if self.result is None:
            raise IdentificationError(f"{self.name} refused: {self.refusal}")
        return self.result

    @property
    def error(self) -> float:
        """Mean NRMSE of the predicted torques, infinite where there is none."""
        mean = np.inf if self.prediction is None else self.prediction.mean
        return mean if np.isfinite(mean) else np.inf

    @cached_property
    def base(self) -> tuple[str, ...]:
        """Base parameters that were found."""
        known = set(self.found.equation.base.names)
        return tuple(name for name in self.found.names if name in known)

    @cached_property
    def relative_deviation(self) -> float:
        """Median of sigma / |value| over the base parameters, those left out that were given."""
        wanted = [self.found.names.index(name) for name in self.base]
        figures = self.found.relative_sigma[wanted]
        figures = figures[np.isfinite(figures) & (figures > 0.0)]
        return float(np.median(figures)) if len(figures) else 0.0

    def apart(self, other: Way) -> dict[str, float]:
        """Distance to another way's base parameters in combined deviations; infinite where only the other has one."""
        mine, theirs = (_by_name(way.found) for way in (self, other))
        sizes = _sizes(other.found)
        distances = {}
        for name in other.base:
            if name not in mine:
                distances[name] = np.inf
                continue
            (x, s), (y, r) = mine[name], theirs[name]
            distances[name] = max(abs(x - y) - ROUNDING * sizes[name], 0.0) / max(float(np.hypot(s, r)), 1e-300)
        return distances

    def agreement(self, other: Way) -> float:
        """Share of another way's base parameters with which this one agrees within three combined deviations."""
        distances = list(self.apart(other).values())
        return float(np.mean(np.array(distances) <= COMBINED)) if distances else 1.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """All ways in the order in which they were tried, the one to trust, and a sentence that says why.

    source: the data on which torques were predicted; interrupted: Ctrl-C left out the last ways.
    """

    ways: tuple[Way, ...]
    best: Way | None
    advice: str
    source: str
    interrupted: bool = False

    @property
    def finished(self) -> tuple[Way, ...]:
        """Ways with a result."""
        return tuple(way for way in self.ways if way.result is not None)

    @property
    def refused(self) -> tuple[Way, ...]:
        """Ways that could not be gone."""
        return tuple(way for way in self.ways if way.result is None)

    @property
    def reference(self) -> Way:
        """What the others are compared with: torque by wls, or the first way that has a result."""
        return self.finished[0]

    def way(self, model: str, estimator: str = "wls") -> Way:
        """Return one of the ways."""
        for way in self.ways:
            if (way.model, way.estimator) == (model, estimator):
                return way
        raise IdentificationError(f"{model}, {estimator} is not among the ways that were compared")

    def most_disputed(self, count: int) -> tuple[str, ...]:
        """Base parameters of the reference about which the ways differ most, in its order."""
        reference = self.reference
        worst = dict.fromkeys(reference.base, 0.0)
        for way in self.finished[1:]:
            for name, distance in way.apart(reference).items():
                worst[name] = max(worst[name], distance)
        chosen = set(sorted(worst, key=lambda name: -worst[name])[:count])
        return tuple(name for name in reference.base if name in chosen)


def _by_name(result: Identification) -> dict[str, tuple[float, float]]:
    return {name: (float(x), float(s)) for name, x, s in zip(result.names, result.values, result.sigma, strict=True)}


def _sizes(result: Identification) -> dict[str, float]:
    """Largest value among the parameters of the same unit, for every parameter."""
    units, values = np.array(result.units), np.abs(result.values)
    largest: dict[str, Array] = {unit: values[units == unit].max() for unit in set(result.units)}
    return {name: float(largest[unit]) for name, unit in zip(result.names, result.units, strict=True)}
