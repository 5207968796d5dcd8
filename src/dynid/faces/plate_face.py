"""What forces on the base tell about joint torques, as a person sees it and as machines read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.barycentric import Barycentric, barycentric
from dynid.base.find import base_parameters
from dynid.base.parameters import BaseParameters
from dynid.base.plate import SensorRelation, relate_sensors, sufficient_channels
from dynid.faces.terminal import escaped
from dynid.robot.robot import Robot

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, eq=False)
class PlateAnswer:
    """theta_d = S theta_r, the counts with and without free offsets, and the smallest sets of channels that suffice."""

    relation: SensorRelation
    fixed_count: int
    tared_count: int
    channels: tuple[tuple[str, ...], ...]
    hidden: tuple[str, ...]

    @property
    def same(self) -> tuple[str, ...]:
        """Parameters of the torques that are parameters of the reactions as they stand."""
        lines = zip(self.relation.torque.names, self.relation.S, strict=True)
        places = {name: k for k, name in enumerate(self.relation.reaction.names)}
        unit = np.eye(len(places))
        return tuple(
            name
            for name, row in lines
            if name not in self.relation.lost and name in places and np.allclose(row, unit[places[name]], atol=1e-9)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the robot's own sensor cannot tell."""
        if self.hidden:
            return (
                f"the rotor inertia of joint {', '.join(self.hidden)} is unknown and its gear ratio is not 1: torques "
                "need ratio^2 J, the base feels ratio J; declare it",
            )
        if self.relation.lost:
            return (f"these channels cannot tell {', '.join(self.relation.lost)} of the joint torques",)
        return ()


def find_answer(robot: Robot, *, tared: bool) -> PlateAnswer:
    """Relate torques and reactions on the robot's own sensor."""
    counts = [base_parameters(robot, model="reaction", rotor_inertia=False, tared=free).count for free in (False, True)]
    hidden = () if robot.sensor is None else robot.sensor.hidden
    return PlateAnswer(relate_sensors(robot, tared=tared), counts[0], counts[1], sufficient_channels(robot), hidden)


def show_answer(answer: PlateAnswer, screen: Console) -> None:
    """Print counts, relations and channels."""
    relation = answer.relation
    screen.print(
        f"\nFrom forces on the base to joint torques, theta_d = S theta_r (rotors left out): N_d = {len(relation.S)}, "
        f"N_r = {answer.fixed_count}, {answer.tared_count} on a tared plate",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if answer.same:
        screen.print(f"  the same in both: {escaped(' '.join(answer.same))}", highlight=False, soft_wrap=True)
    for name, line in zip(relation.torque.names, relation.relations, strict=True):
        if name not in answer.same:
            screen.print("  " + escaped(line), highlight=False, soft_wrap=True)
    if answer.channels:
        sets = "; ".join(" ".join(some) for some in answer.channels)
        screen.print(f"  smallest sets of channels that tell all of theta_d: {sets}", highlight=False, soft_wrap=True)
    else:
        screen.print("  no set of channels tells all of theta_d", highlight=False)


def show_barycentric(base: BaseParameters, screen: Console) -> None:
    """Print the base parameters in barycentric letters."""
    screen.print("\nin barycentric parameters (links with all masses beyond lumped at the joints):", highlight=False)
    for line in barycentric(base.robot).relations_of(base):
        screen.print("  " + escaped(line), highlight=False, soft_wrap=True)


def answer_facts(answer: PlateAnswer) -> dict[str, object]:
    """The answer for machines."""
    relation = answer.relation
    return {
        "N_d": len(relation.S),
        "N_r": answer.fixed_count,
        "N_r_tared": answer.tared_count,
        "theta_d": relation.torque.names,
        "theta_r": relation.reaction.names,
        "S": relation.S.tolist(),
        "relations": relation.relations,
        "residual": relation.residual,
        "lost": relation.lost,
        "sufficient_channels": answer.channels,
        "warnings": answer.warnings,
    }


def barycentric_facts(base: BaseParameters) -> dict[str, object]:
    """Barycentric parameters for machines: base = matrix b, b = definition X."""
    found: Barycentric = barycentric(base.robot)
    return {
        "names": found.names,
        "definition": found.matrix.tolist(),
        "relations": found.relations_of(base),
        "matrix": found.matrix_of(base).tolist(),
    }
