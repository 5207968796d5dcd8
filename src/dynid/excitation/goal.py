"""A criterion on its way from soft to sharp: the homotopy that the search for points follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.excitation.base_rows import BaseRows
from dynid.excitation.criteria import Criterion, Smooth, find_criterion
from dynid.robot.transform import Array

SHARPNESS = (2.0, 8.0, 32.0, 128.0, 512.0)
SOFTNESS = (0.02, 0.01, 0.005, 0.002, 0.001)
PENALTIES = (1.0, 1e4)
ITERATIONS = 320


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the homotopy: sharpness of the norms, softness of small entries, weight of broken limits.

    Softness is a part of the largest entry of W at the stage's start, kept as `size`.
    """

    sharpness: float
    softness: float
    penalty: float
    iterations: int = ITERATIONS
    size: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """A criterion on its way from soft to sharp.

    Entries of W that change sign are walls to the scaling S = max|Wij| / min|Wij|: softened ones,
    sqrt(Wij^2 + e^2), let the points pass before the walls rise.
    """

    true: Criterion
    condition: Criterion
    scaling: Criterion
    weights: tuple[float, float]

    @staticmethod
    def of(name: str, weights: tuple[float, float], rows: BaseRows, count: int, noise: Array | None) -> Goal:
        """The goal of this name for a matrix of so many rows."""
        mask = rows.mask(count)
        true, condition, scaling = (
            find_criterion(kind, weights=weights, mask=mask, noise=noise) for kind in (name, "condition", "scaling")
        )
        shares = {"scaling": (0.0, 1.0), "condition+scaling": weights}.get(name, (1.0, 0.0))
        return Goal(true, condition, scaling, shares)

    def stages(self) -> list[Stage]:
        """From a first smooth problem to one that is nearly the true figure."""
        soft = [(SHARPNESS[0], np.inf), *((SHARPNESS[0], e) for e in SOFTNESS)] if self.weights[1] > 0.0 else []
        steps = [*soft, *((p, 0.0) for p in SHARPNESS[1 if soft else 0 :])]
        penalties = np.geomspace(*PENALTIES, len(steps))
        return [
            Stage(p, e, float(w), ITERATIONS // 2 if e else ITERATIONS)
            for (p, e), w in zip(steps, penalties, strict=True)
        ]

    def smooth(self, W: Array, stage: Stage) -> Smooth:
        """Value and slope at a stage; infinite softness stands for the condition number alone."""
        if stage.softness == 0.0:
            return self.true.smooth(W, stage.sharpness)
        c = self.condition.smooth(W, stage.sharpness)
        figure = self.weights[0] * c.figure + self.weights[1] * self.scaling.value(W)
        if not np.isfinite(stage.softness):
            return c._replace(figure=figure)
        softened = np.hypot(W, stage.softness * stage.size)
        s = self.scaling.smooth(softened, stage.sharpness)
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) + np.array([c.value, s.value])
        top = logs.max()
        shares = np.exp(logs - top)
        total = shares.sum()
        slope = (shares[0] * c.slope + shares[1] * s.slope * (W / softened)) / total
        return Smooth(float(top + np.log(total)), slope, figure)
