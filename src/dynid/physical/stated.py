"""A body as a robot file states it."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.robot.transform import Array, Transform


@dataclass(frozen=True, slots=True, eq=False)
class StatedBody:
    """Ten parameters in the frame of the body's own link; carrier: index of the moving link that has it (-1: the base).

    placement: T_carrier_link.
    """

    name: str
    inertia: Array
    carrier: int
    placement: Transform
