"""The link that carries a payload, and how the payload's ten parameters join the base parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.parameters import BaseParameters
from dynid.errors import IdentificationError
from dynid.robot.inertia import SYMBOLS
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


def find_carrier(robot: Robot, link: str | None) -> int:
    """Index of the link of a name (its own, or its joint's); the last one of a serial robot where none is given."""
    carriers = [k for k, some in enumerate(robot.links) if some.kind != "floating"]
    if link is None:
        parents = {some.parent for some in robot.links}
        ends = [k for k in carriers if k not in parents]
        if len(ends) > 1:
            names = ", ".join(robot.links[k].name for k in ends)
            raise IdentificationError(f"'{robot.name}' ends in several links ({names}); link= says which one carries")
        return ends[0]
    found = [k for k in carriers if link in (robot.links[k].name, robot.links[k].joint)]
    if not found:
        names = ", ".join(robot.links[k].name for k in carriers)
        raise IdentificationError(f"there is no link '{link}' in '{robot.name}'; links are {names}")
    return found[0]


def freed(robot: Robot, carrier: int) -> Robot:
    """Return the robot without known zeros at the link that carries: what is zero of a link need not be of a load."""
    links = list(robot.links)
    links[carrier] = replace(links[carrier], zero=links[carrier].zero - set(SYMBOLS))
    return replace(robot, links=tuple(links))


def zeros_of(robot: Robot, carrier: int) -> tuple[str, ...]:
    """Names of the inertial parameters of a link that are known to be zero."""
    link = robot.links[carrier]
    return tuple(symbol + link.label for symbol in SYMBOLS if symbol in link.zero)


def joining(base: BaseParameters, carrier: int) -> Array:
    """K (count, 10): a payload p in the frame of a link changes the base parameters by K p."""
    label = base.robot.links[carrier].label
    place = {name: k for k, name in enumerate(base.robot.parameter_names)}
    return np.asarray(base.matrix[:, [place[symbol + label] for symbol in SYMBOLS]])
