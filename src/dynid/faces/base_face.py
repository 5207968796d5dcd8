"""Base parameters as a person sees them in the terminal, and as machines read them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.find import Comparison
from dynid.base.parameters import BaseParameters
from dynid.errors import DynidError
from dynid.faces.terminal import escaped
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show(base: BaseParameters, screen: Console, *, latex: bool = False, values: Array | None = None) -> None:
    """Print the groups of parameters, the relations, the number with its gap, and what it means."""
    title = f"{base.robot.name}: {base.count} base parameters ({base.question.model} model, method {base.method})"
    screen.print(escaped(title), style="bold", highlight=False)
    screen.print(groups_table(base))
    relations = base.latex if latex else base.relations
    if relations:
        screen.print(f"\n{len(relations)} relations:", highlight=False)
        for line in relations:
            screen.print("  " + escaped(line), highlight=False, soft_wrap=True)
    if values is not None:
        screen.print(values_table(base, values))
    gap = "ranks decided exactly" if math.isinf(base.gap) else f"gap {base.gap:.1e} between kept and dropped columns"
    if base.certificate is not None:
        gap = f"certificate: {base.certificate}"
    if base.scaled is not None:
        gap += f"; scaling S {base.scaled.before:.3g} before, {base.scaled.after:.3g} after"
    screen.print(f"\n{escaped(gap)}", highlight=False)
    screen.print(escaped(meaning(base)), highlight=False)


def groups_table(base: BaseParameters) -> Table:
    """No effect, known, regrouped, base."""
    from rich.table import Table

    table = Table("", "number", "parameters", box=None, padding=(0, 2, 0, 0))
    absorbing = {k for k in base.kept if len(base.coefficients[k]) > 1}
    groups: dict[str, tuple[str, ...]] = {
        "no effect": base.no_effect,
        "known zeros": base.known,
        "regrouped": base.regrouped,
        "base, unchanged": tuple(base.columns[k] for k in base.kept if k not in absorbing),
        "base, with others": tuple(base.columns[k] for k in base.kept if k in absorbing),
    }
    for title, names in groups.items():
        if names:
            table.add_row(title, str(len(names)), escaped(" ".join(names)))
    return table


def values_table(base: BaseParameters, values: Array) -> Table:
    """Base parameters with numerical values."""
    from rich.table import Table

    table = Table("parameter", "value", "unit", box=None)
    for k, value in zip(base.kept, values, strict=True):
        column = base.question.columns[k]
        shown = "unknown" if math.isnan(value) else f"{value:.6g}"
        table.add_row(escaped(column.name), shown, column.unit)
    return table


def meaning(base: BaseParameters) -> str:
    """One sentence for a person who wants to identify this robot."""
    total = len(base.columns) - len(base.known)
    seen = {"reaction": "the forces on its base", "energy": "its energy", "power": "its power"}
    channel = seen.get(base.question.model, "its joint torques")
    lost = total - base.count
    if not lost:
        return f"All {total} parameters of this robot show in {channel}: a rich motion identifies each by itself."
    return (
        f"Of {total} parameters of this robot, {channel} reveal only these {base.count} combinations, whatever the "
        f"motion: identify them and predict with them; the other {lost} need a guess that no such experiment can check."
    )


def comparison_table(compared: Comparison) -> Table:
    """Methods side by side."""
    from rich.table import Table

    table = Table("method", "no effect", "regrouped", "base", "gap", box=None, caption=escaped(compared.verdict))
    for name, found in compared.results.items():
        gap = "exact" if math.isinf(found.gap) else f"{found.gap:.1e}"
        table.add_row(name, str(len(found.no_effect)), str(len(found.regrouped)), str(found.count), gap)
    for name, reason in compared.refused.items():
        table.add_row(name, "", "", "-", escaped(reason))
    return table


def disagreements(compared: Comparison) -> tuple[str, ...]:
    """The verdict as a warning, where methods disagree; and what each method warned of."""
    sets = {frozenset(found.names) for found in compared.results.values()}
    warnings = [compared.verdict] if len(sets) > 1 else []
    for name, found in compared.results.items():
        warnings += [f"{name}: {warning}" for warning in found.warnings]
    return tuple(warnings)


def read_values(path: Path, robot: Robot) -> Array:
    """Standard values from a robot file with the same parameters, or from JSON {name: value}."""
    if path.suffix != ".json":
        other = load_robot(str(path))
        if other.parameter_names != robot.parameter_names:
            raise DynidError(f"{path}: its parameters are not those of '{robot.name}'")
        return other.parameters
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DynidError(f"{path}: not a JSON file of values: {error}") from error
    if not isinstance(data, Mapping):
        raise DynidError(f"{path}: expected an object {{name: value}}")
    unknown = sorted(set(map(str, data)) - set(robot.parameter_names))
    if unknown:
        raise DynidError(
            f"{path}: '{unknown[0]}' is no parameter of '{robot.name}'; they look like {robot.parameter_names[0]}"
        )
    X = np.full(len(robot.parameter_names), np.nan)
    for k, name in enumerate(robot.parameter_names):
        value = data.get(name, math.nan)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DynidError(f"{path}: {name} must be a number, got {value!r}")
        X[k] = value
    return X


def facts(base: BaseParameters, compared: Comparison | None, values: Array | None) -> dict[str, object]:
    """Everything for machines; coefficients as text where they are symbolic."""
    rows = {
        base.columns[k]: {
            base.columns[c]: value if isinstance(value, float) else str(value) for c, value in row.items()
        }
        for k, row in base.coefficients.items()
    }
    result: dict[str, object] = {
        "robot": base.robot.name,
        "model": base.question.model,
        "method": base.method,
        "count": base.count,
        "names": base.names,
        "no_effect": base.no_effect,
        "regrouped": base.regrouped,
        "known": base.known,
        "relations": base.relations,
        "latex": base.latex,
        "coefficients": rows,
        "matrix": base.matrix.tolist(),
        "parameter_names": base.robot.parameter_names,
        "gap": base.gap,
        "warnings": base.warnings,
    }
    if base.certificate is not None:
        shown = asdict(base.certificate)
        result["certificate"] = shown | {
            "assembly": dict(base.certificate.assembly), "gap": base.gap, "text": str(base.certificate)
        }  # fmt: skip
    if values is not None:
        result["values"] = dict(zip(base.names, map(float, values), strict=True))
    if compared is not None:
        result["methods"] = {name: list(found.names) for name, found in compared.results.items()}
        result["verdict"] = compared.verdict
    return result
