"""What the joints of URDF and MJCF can hold, and what must be said because they cannot."""

from __future__ import annotations

from collections.abc import Sequence

from dynid.errors import ExportError
from dynid.robot.robot import Robot


def renamed(robot: Robot, names: Sequence[str]) -> list[str]:
    """Notes on links whose name the file cannot have."""
    pairs = zip(robot.links, names, strict=True)
    return [f"link {link.name!r} becomes {new!r}" for link, new in pairs if link.name != new]


def friction_losses(robot: Robot) -> tuple[str, ...]:
    """Warnings of friction that the joints cannot have; a negative rotor inertia is refused."""
    constant, negative = [], []
    for k in robot.active_links:
        link = robot.links[k]
        constant += [f"'{link.joint}' ({x:.6g})" for block, x in link.friction if block == "offset" and x != 0.0]
        negative += [f"'{link.joint}' ({block} {x:.6g})" for block, x in link.friction if block != "offset" and x < 0.0]
        if link.rotor < 0.0:
            raise ExportError(f"joint '{link.joint}': its rotor inertia {link.rotor:.6g} is negative")
    losses = [f"constant torques are left out: joints {', '.join(constant)}"] if constant else []
    return (*losses, *([f"negative friction is left out: joints {', '.join(negative)}"] if negative else []))
