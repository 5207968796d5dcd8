"""The result: standard parameters that real bodies can have, what they cost, and who decided them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid.concurrency import cached_property
from dynid.estimation.identification import Identification
from dynid.models.friction import PLAIN
from dynid.physical.binding import Binding
from dynid.physical.shares import DETERMINED
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, eq=False)
class PhysicalParameters:
    """Values of the standard parameters `names` (those of the robot in order, then friction as identified).

    identification: what they were made from. prior: what was believed of them. from_data (0 to 1): how much of that
    belief's doubt the data took away; structural: the same if data had no noise; sigma: standard deviation where the
    data alone decide (NaN elsewhere). fitted: the identified parameters as these bodies have them. nrmse_before,
    nrmse_after per channel on the data used; cost: how much the sum of squares grew, in squares of the noise; chance:
    probability that noise alone makes bodies differ so much from the estimate (from the jackknife's covariance).
    eigenvalues: smallest share of its prior that each link with mass keeps, at least `margin`. bindings: bounds that
    the data press against.
    """

    identification: Identification
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array
    prior: Array
    prior_source: tuple[str, ...]
    structural: Array
    from_data: Array
    sigma: Array
    fitted: Array
    nrmse_before: Array
    nrmse_after: Array
    cost: float
    chance: float
    margin: float
    eigenvalues: Array
    bindings: tuple[Binding, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @cached_property
    def robot(self) -> Robot:
        """The robot with these parameters, and with friction as far as a robot can hold it."""
        robot = self.identification.robot
        bodies = robot.with_parameters(self.values[: len(robot.parameter_names)])
        links = list(bodies.links)
        for k in robot.active_links:
            friction = self._friction(links[k].label) if self.holds_friction else ()
            links[k] = replace(links[k], friction=friction)
        return replace(bodies, links=tuple(links))

    @property
    def holds_friction(self) -> bool:
        """Whether the robot holds all friction that was identified."""
        return set(self.identification.friction) <= set(PLAIN) and self.identification.equation.is_direct

    @property
    def is_changed(self) -> bool:
        """Whether the fit had to give way: no bodies have the identified parameters."""
        return self.cost > 0.0

    @property
    def total_mass(self) -> float:
        """Mass of all links, kg."""
        return float(sum(self.value("M" + link.label) for link in self.identification.robot.links))

    @property
    def determined(self) -> tuple[bool, ...]:
        """Which parameters the data alone determine."""
        return tuple(bool(share >= DETERMINED) for share in self.structural)

    @cached_property
    def model(self) -> Identification:
        """The identification with the values of these bodies in place of its own."""
        return replace(self.identification, values=self.fitted)

    def predict(self, motion: Motion) -> Array:
        """What was measured along a motion, as these bodies would give it, with all friction."""
        return self.model.predict(motion)

    def value(self, name: str) -> float:
        """Value of one parameter."""
        from dynid.errors import PhysicalError

        if name not in self.names:
            raise PhysicalError(f"there is no parameter '{name}' in these physical parameters")
        return float(self.values[self.names.index(name)])

    def pseudo_inertias(self) -> Array:
        """Pseudo-inertia matrices (links, 4, 4), positive definite."""
        return np.array([pseudo_inertia(link.inertia) for link in self.robot.links])

    def save(self, path: str | Path) -> None:
        """Write as versioned JSON; `PhysicalParameters.load` gives it back exactly."""
        from dynid.physical.files import write_physical

        write_physical(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> PhysicalParameters:
        """Read what `save` wrote."""
        from dynid.physical.files import read_physical

        return read_physical(Path(path))

    def _friction(self, label: str) -> tuple[tuple[str, float], ...]:
        found = []
        for block, symbol in zip(PLAIN, ("Fv", "Fc", "Fo"), strict=True):
            own = [v for n, v in zip(self.names, self.values, strict=True) if n.split("@")[0] == symbol + label]
            if own:
                found.append((block, float(np.mean(own))))
        return tuple(found)
