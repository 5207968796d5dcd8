"""Model parameters without known geometry as a person sees them in the terminal, and as machines read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynid.faces.terminal import escaped
from dynid.unknown.finite_field import Count
from dynid.unknown.parameters import ModelParameters

if TYPE_CHECKING:
    from rich.console import Console


def show(found: ModelParameters, screen: Console) -> None:
    """Print the number, the blocks, and level by level each function with its parameter."""
    what = f"{', '.join(found.unknown)} unknown" if found.unknown else "all geometry known"
    title = f"{found.robot.name}: {found.count} model parameters ({what})"
    screen.print(escaped(title), style="bold", highlight=False, soft_wrap=True)
    screen.print(f"blocks m_1 .. m_{found.robot.n}: {_list(found.blocks)}", highlight=False)
    screen.print(
        "torque = U X with U = d/dt dF/dqd - dF/dq; a block acts on its joint and those before", highlight=False
    )
    for i, joint in enumerate(found.robot.joint_names, 1):
        screen.print(f"\nblock {i}, joint {escaped(joint)}:", highlight=False)
        for level, function, expression in zip(found.level, found.functions, found.expressions, strict=True):
            if level == i:
                screen.print("  " + escaped(expression), highlight=False, soft_wrap=True)
                screen.print("    " + escaped(function), highlight=False, soft_wrap=True)
    screen.print(f"\n{meaning(found)}", highlight=False)


def show_count(name: str, found: Count, screen: Console) -> None:
    """Print the number and the blocks alone."""
    if not found.complete:
        screen.print(f"{escaped(name)}: more than {found.count} model parameters", style="bold", highlight=False)
        return
    screen.print(f"{escaped(name)}: {found.count} model parameters", style="bold", highlight=False)
    screen.print(f"blocks m_1 .. m_{len(found.blocks)}: {_list(found.blocks)}", highlight=False)


def meaning(found: ModelParameters) -> str:
    """One sentence for a person who wants to identify this robot."""
    if not found.unknown:
        return (
            "With known geometry these are base parameters, each a fixed sum of standard ones; "
            "unknown lengths are named in the table (unknown = [...]) or when asking."
        )
    return (
        "Identify these from torques alone and predict torques with them: no length of the robot is needed. "
        "Their number and blocks belong to the robot, a single one is a choice."
    )


def facts(found: ModelParameters) -> dict[str, object]:
    """Everything for machines; values of nominal geometry and inertias are null where unknown."""
    return {
        "robot": found.robot.name,
        "unknown": found.unknown,
        "rotor_inertia": found.rotor_inertia,
        "count": found.count,
        "blocks": found.blocks,
        "names": found.names,
        "levels": found.level,
        "expressions": found.expressions,
        "functions": found.functions,
        "values": dict(zip(found.names, map(float, found.values()), strict=True)),
        "support": np.asarray(found.tables.support).tolist(),
        "warnings": found.warnings,
    }


def count_facts(name: str, found: Count) -> dict[str, object]:
    """The number for machines."""
    return {"robot": name, "count": found.count, "blocks": found.blocks, "complete": found.complete}


def _list(blocks: tuple[int, ...]) -> str:
    return ", ".join(map(str, blocks))
