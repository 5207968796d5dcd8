"""Robots, in the terminal and as data: the list of the bundled ones, tables of rows, published masses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dynid.cli.terminal import escape_markup

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dynid.robot.robot import Robot


def robots_table(robots: Mapping[str, Robot]) -> Table:
    """Table of the bundled robots with their joints, structure, published moving mass and source."""
    from rich.table import Table

    table = Table("name", "joints", "structure", "moving kg", "source", box=None)
    for name, robot in robots.items():
        mass = "" if robot.published_moving_mass is None else f"{robot.published_moving_mass:.4g}"
        table.add_row(name, str(robot.n), describe_structure(robot), mass, escape_markup(robot.source))
    return table


def describe_structure(robot: Robot) -> str:
    """Text on a robot's structure, serial, tree or closed, with the kinds of joints: `serial RRPR`."""
    kinds = "".join(robot.links[k].kind[0].upper() for k in robot.tree_joints)
    parents = [link.parent for link in robot.links]
    shape = "serial" if len(set(parents)) == len(parents) else "tree"
    if robot.couplings or robot.closures:
        shape = "closed"
    return f"{shape} {kinds}"


def show_mdh(robot: Robot, screen: Console) -> None:
    """Print the modified Denavit-Hartenberg rows; in a narrow terminal the limits are a table of their own."""
    from rich.measure import Measurement

    if Measurement.get(screen, screen.options.update(max_width=10_000), mdh_table(robot)).maximum <= screen.width:
        screen.print(mdh_table(robot))
        return
    for part in (slice(0, GEOMETRY), slice(GEOMETRY, None)):
        screen.print(mdh_table(robot, part))


GEOMETRY = 9
"""Columns of a table of Denavit-Hartenberg rows before those of the limits."""


def mdh_table(robot: Robot, part: slice = slice(None)) -> Table:
    """Table of modified Denavit-Hartenberg rows, angles in degrees, lengths in m; part: some of its columns."""
    from rich.table import Table

    names = ("joint", "parent", "type", "gamma", "b", "alpha", "d", "theta", "r", "position", "velocity", "effort")
    table = Table(*dict.fromkeys(("joint", *names[part])), box=None)
    for link in robot.links:
        if link.mdh is None:
            continue
        row = link.mdh
        letters = [
            _length_text(row.b),
            _degrees_text(row.alpha),
            _length_text(row.d),
            _degrees_text(row.theta),
            _length_text(row.r),
        ]
        parent = robot.links[link.parent].joint if link.parent >= 0 else "0"
        limits, turns = link.limits, link.kind == "revolute"
        position = (
            f"{_number_text(limits.lower, turns)} .. {_number_text(limits.upper, turns)}"
            if math.isfinite(limits.upper)
            else ""
        )
        cells = (
            escape_markup(link.joint), escape_markup(parent), link.kind, _degrees_text(row.gamma), *letters,
            position, _number_text(limits.velocity, turns), _number_text(limits.effort, False),
        )  # fmt: skip
        table.add_row(*([] if part.start in (None, 0) else cells[:1]), *cells[part])
    return table


def _length_text(value: Any) -> str:
    """Text of a length in m, with its expression where it has one."""
    return f"{value.text} = {value.value:.6g}" if value.text else f"{value.value:.6g}"


def _degrees_text(value: Any) -> str:
    """Text of an angle in degrees, with its expression where it has one."""
    degrees = f"{math.degrees(value.value):.6g}"
    return f"{value.text} = {degrees}" if value.text else degrees


def _number_text(value: float, turns: bool) -> str:
    """Text of a number, in degrees where the joint turns; empty where it is not finite."""
    return f"{math.degrees(value) if turns else value:.5g}" if math.isfinite(value) else ""


def robot_json_data(robot: Robot) -> dict[str, object]:
    """Data of a robot's table for `--json`: SI units and radians."""
    joints = []
    for link in robot.links:
        if link.mdh is None:
            continue
        letters = {k: getattr(link.mdh, k) for k in ("gamma", "b", "alpha", "d", "theta", "r")}
        joints.append(
            {
                "name": link.joint,
                "parent": robot.links[link.parent].joint if link.parent >= 0 else None,
                "type": link.kind,
                **{key: value.value for key, value in letters.items()},
                "symbolic": {key: value.text for key, value in letters.items() if value.text},
            }
        )
    parameters = dict(zip(robot.parameter_names, map(float, robot.parameters), strict=True))
    return {
        "name": robot.name,
        "gravity": [float(x) for x in robot.gravity],
        "joints": joints,
        "parameters": parameters,
        "published": published_json_data(robot),
        "notes": list(robot.notes),
    }


def published_json_data(robot: Robot) -> dict[str, object] | None:
    """Data of published masses (kg) for `--json`; None where the robot's file states nothing."""
    known = robot.published
    if known is None:
        return None
    return {
        "total": known.total,
        "includes_base": known.includes_base,
        "base": known.base,
        "moving": robot.published_moving_mass,
        "links": known.masses,
        "source": known.source,
    }


def describe_published_masses(robot: Robot) -> str:
    """Sentence on the published masses of a robot; empty where its file states nothing."""
    known = robot.published
    if known is None:
        return ""
    links = ", ".join(f"{name}: {mass:.4g}" for name, mass in known.masses.items())
    moving = robot.published_moving_mass
    parts = [f"links {links}"] if links else []
    parts += [f"moving {moving:.4g}"] if moving is not None else []
    parts += [f"total {known.total:.4g} {'with' if known.includes_base else 'without'} the base"] if known.total else []
    return f"published masses, kg: {'; '.join(parts) or 'unknown'} ({known.source})"
