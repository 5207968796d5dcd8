"""Base parameters as a person sees them in the terminal, and as machines read them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.cli.terminal import escape_markup
from dynid.errors import DynidError
from dynid.identifiability.base_parameters import MethodComparison, base_parameters
from dynid.identifiability.base_reactions import (
    Barycentric,
    SensorRelation,
    barycentric,
    relate_sensors,
    sufficient_channels,
)
from dynid.identifiability.parameters import BaseParameters
from dynid.messages import Message, command_line_wording
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.finite_field import ModelParameterCount
from dynid.unknown_geometry.model_parameters import ModelParameters

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show_base_parameters(
    base: BaseParameters, screen: Console, *, latex: bool = False, values: Array | None = None
) -> None:
    """Print the groups of parameters, the relations, the number with its gap, and what it means."""
    title = f"{base.robot.name}: {base.count} base parameters ({base.question.model} model, method {base.method})"
    screen.print(escape_markup(title), style="bold", highlight=False)
    screen.print(parameter_groups_table(base))
    relations = base.latex if latex else base.relations
    if relations:
        screen.print(f"\n{len(relations)} relations:", highlight=False)
        for line in relations:
            screen.print("  " + escape_markup(line), highlight=False, soft_wrap=True)
    if values is not None:
        screen.print(base_values_table(base, values))
    gap = "ranks decided exactly" if math.isinf(base.gap) else f"gap {base.gap:.1e} between kept and dropped columns"
    if base.certificate is not None:
        gap = f"certificate: {base.certificate}"
    if base.scaled is not None:
        gap += f"; scaling S {base.scaled.before:.3g} before, {base.scaled.after:.3g} after"
    screen.print(f"\n{escape_markup(gap)}", highlight=False)
    screen.print(escape_markup(describe_identifiability(base)), highlight=False)


def parameter_groups_table(base: BaseParameters) -> Table:
    """Table of the standard parameters in four groups: no effect, known, regrouped, base."""
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
            table.add_row(title, str(len(names)), escape_markup(" ".join(names)))
    return table


def base_values_table(base: BaseParameters, values: Array) -> Table:
    """Table of base parameters with numerical values."""
    from rich.table import Table

    table = Table("parameter", "value", "unit", box=None)
    for k, value in zip(base.kept, values, strict=True):
        column = base.question.columns[k]
        shown = "unknown" if math.isnan(value) else f"{value:.6g}"
        table.add_row(escape_markup(column.name), shown, column.name.unit)
    return table


def describe_identifiability(base: BaseParameters) -> str:
    """Sentence on how many parameters can be identified, for a person who wants to identify this robot."""
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


def method_comparison_table(compared: MethodComparison) -> Table:
    """Table of what every method found, one row per method."""
    from rich.table import Table

    verdict = escape_markup(command_line_wording(compared.verdict))
    table = Table("method", "no effect", "regrouped", "base", "gap", box=None, caption=verdict)
    for name, found in compared.results.items():
        gap = "exact" if math.isinf(found.gap) else f"{found.gap:.1e}"
        table.add_row(name, str(len(found.no_effect)), str(len(found.regrouped)), str(found.count), gap)
    for name, reason in compared.refused.items():
        table.add_row(name, "", "", "-", escape_markup(command_line_wording(reason)))
    return table


def method_warnings(compared: MethodComparison) -> tuple[Message, ...]:
    """Warnings where methods disagree, and those of each method."""
    sets = {frozenset(found.names) for found in compared.results.values()}
    verdict = Message("methods_disagree", "{verdict}", verdict=compared.verdict)
    warnings = [verdict] if len(sets) > 1 else []
    for name, found in compared.results.items():
        warnings += [warning.about(name) for warning in found.warnings]
    return tuple(warnings)


def read_standard_values(path: Path, robot: Robot) -> Array:
    """Read values of standard parameters from a robot file with the same ones, or from JSON {name: value}."""
    if path.suffix != ".json":
        other = load_robot(str(path))
        if other.parameter_names != robot.parameter_names:
            raise DynidError(
                "parameters_of_other_robot", "{path}: its parameters are not those of '{name}'", path=path,
                name=robot.name,
            )  # fmt: skip
        return other.parameters
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DynidError("not_json", "{path}: not a JSON file of values: {error}", path=path, error=error) from error
    if not isinstance(data, Mapping):
        raise DynidError("values_not_an_object", "{path}: expected an object {{name: value}}", path=path)
    unknown = sorted(set(map(str, data)) - set(robot.parameter_names))
    if unknown:
        raise DynidError(
            "unknown_parameter", "{path}: '{unknown}' is no parameter of '{name}'; they look like {parameter_names}",
            path=path, unknown=unknown[0], name=robot.name, parameter_names=robot.parameter_names[0],
        )  # fmt: skip
    X = np.full(len(robot.parameter_names), np.nan)
    for k, name in enumerate(robot.parameter_names):
        value = data.get(name, math.nan)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DynidError(
                "values_not_numeric", "{path}: {name} must be a number, got {value!r}", path=path, name=name,
                value=value,
            )  # fmt: skip
        X[k] = value
    return X


def base_parameter_json_data(
    base: BaseParameters, compared: MethodComparison | None, values: Array | None
) -> dict[str, object]:
    """Data of base parameters for `--json`; coefficients as text where they are symbolic."""
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


# What forces on the base tell about joint torques, as a person sees it and as machines read it.


@dataclass(frozen=True, slots=True, eq=False)
class PlateRelation:
    """theta_d = S theta_r, the counts with and without free offsets, and the smallest sets of channels that suffice."""

    relation: SensorRelation
    fixed_count: int
    tared_count: int
    channels: tuple[tuple[str, ...], ...]
    hidden: tuple[str, ...]

    @property
    def shared_parameters(self) -> tuple[str, ...]:
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
    def warnings(self) -> tuple[Message, ...]:
        """Warnings on parameters that the robot's own force plate cannot determine."""
        if self.hidden:
            what = (
                "the rotor inertia of joint {joints} is unknown and its gear ratio is not 1: torques need ratio^2 J, "
                "the base feels ratio J"
            )
            return (Message("rotor_inertia_unknown", what, "declare it", joints=self.hidden),)
        if self.relation.lost:
            what = "these channels cannot tell {parameters} of the joint torques"
            return (Message("channels_insufficient", what, parameters=self.relation.lost),)
        return ()


def relate_plate_to_torques(robot: Robot, *, tared: bool) -> PlateRelation:
    """Relate torques and reactions on the robot's own sensor."""
    counts = [base_parameters(robot, model="reaction", rotor_inertia=False, tared=free).count for free in (False, True)]
    hidden = () if robot.sensor is None else robot.sensor.hidden_rotor_joints
    return PlateRelation(relate_sensors(robot, tared=tared), counts[0], counts[1], sufficient_channels(robot), hidden)


def show_plate_relation(answer: PlateRelation, screen: Console) -> None:
    """Print counts, relations and sufficient channels of a force plate."""
    relation = answer.relation
    screen.print(
        f"\nFrom forces on the base to joint torques, theta_d = S theta_r (rotors left out): N_d = {len(relation.S)}, "
        f"N_r = {answer.fixed_count}, {answer.tared_count} on a tared plate",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if answer.shared_parameters:
        screen.print(
            f"  the same in both: {escape_markup(' '.join(answer.shared_parameters))}", highlight=False, soft_wrap=True
        )
    for name, line in zip(relation.torque.names, relation.relations, strict=True):
        if name not in answer.shared_parameters:
            screen.print("  " + escape_markup(line), highlight=False, soft_wrap=True)
    if answer.channels:
        sets = "; ".join(" ".join(some) for some in answer.channels)
        screen.print(f"  smallest sets of channels that tell all of theta_d: {sets}", highlight=False, soft_wrap=True)
    else:
        screen.print("  no set of channels tells all of theta_d", highlight=False)


def show_barycentric(base: BaseParameters, screen: Console) -> None:
    """Print the base parameters in barycentric letters."""
    screen.print("\nin barycentric parameters (links with all masses beyond lumped at the joints):", highlight=False)
    for line in barycentric(base.robot).base_parameter_relations(base):
        screen.print("  " + escape_markup(line), highlight=False, soft_wrap=True)


def plate_json_data(answer: PlateRelation) -> dict[str, object]:
    """Data of the relation between torques and force plate for `--json`."""
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


def barycentric_json_data(base: BaseParameters) -> dict[str, object]:
    """Data of barycentric parameters for `--json`: base = matrix b, b = definition X."""
    found: Barycentric = barycentric(base.robot)
    return {
        "names": found.names,
        "definition": found.matrix.tolist(),
        "relations": found.base_parameter_relations(base),
        "matrix": found.base_parameter_matrix(base).tolist(),
    }


# Model parameters without known geometry as a person sees them in the terminal, and as machines read them.


def show_model_parameters(found: ModelParameters, screen: Console) -> None:
    """Print the number, the blocks, and level by level each function with its parameter."""
    what = f"{', '.join(found.unknown)} unknown" if found.unknown else "all geometry known"
    title = f"{found.robot.name}: {found.count} model parameters ({what})"
    screen.print(escape_markup(title), style="bold", highlight=False, soft_wrap=True)
    screen.print(f"blocks m_1 .. m_{found.robot.n}: {_join_numbers(found.blocks)}", highlight=False)
    screen.print(
        "torque = U X with U = d/dt dF/dqd - dF/dq; a block acts on its joint and those before", highlight=False
    )
    for i, joint in enumerate(found.robot.joint_names, 1):
        screen.print(f"\nblock {i}, joint {escape_markup(joint)}:", highlight=False)
        for level, function, expression in zip(found.level, found.functions, found.expressions, strict=True):
            if level == i:
                screen.print("  " + escape_markup(expression), highlight=False, soft_wrap=True)
                screen.print("    " + escape_markup(function), highlight=False, soft_wrap=True)
    screen.print(f"\n{describe_model_parameter_count(found)}", highlight=False)


def show_model_parameter_count(name: str, found: ModelParameterCount, screen: Console) -> None:
    """Print the number and the blocks alone."""
    if not found.complete:
        screen.print(f"{escape_markup(name)}: more than {found.count} model parameters", style="bold", highlight=False)
        return
    screen.print(f"{escape_markup(name)}: {found.count} model parameters", style="bold", highlight=False)
    screen.print(f"blocks m_1 .. m_{len(found.blocks)}: {_join_numbers(found.blocks)}", highlight=False)


def describe_model_parameter_count(found: ModelParameters) -> str:
    """Sentence on the number of model parameters per joint, for a person who wants to identify this robot."""
    if not found.unknown:
        return (
            "With known geometry these are base parameters, each a fixed sum of standard ones; "
            "unknown lengths are named in the table (unknown = [...]) or when asking."
        )
    return (
        "Identify these from torques alone and predict torques with them: no length of the robot is needed. "
        "Their number and blocks belong to the robot, a single one is a choice."
    )


def model_parameter_json_data(found: ModelParameters) -> dict[str, object]:
    """Data of model parameters for `--json`; values of nominal geometry and inertias are null where unknown."""
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


def count_json_data(name: str, found: ModelParameterCount) -> dict[str, object]:
    """Data of the number of model parameters for `--json`."""
    return {"robot": name, "count": found.count, "blocks": found.blocks, "complete": found.complete}


def _join_numbers(blocks: tuple[int, ...]) -> str:
    """Text of numbers with commas between them."""
    return ", ".join(map(str, blocks))
