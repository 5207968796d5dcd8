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
from dynid.identifiability.explanation import RULES, Elimination, Explanation, find_eliminated_parameters
from dynid.identifiability.numeric import Diagnostics
from dynid.identifiability.parameters import BaseParameters
from dynid.messages import Message, command_line_wording
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.records import HUGE, read_text
from dynid.unknown_geometry.finite_field import ModelParameterCount
from dynid.unknown_geometry.model_parameters import ModelParameters, Recoverable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dynid.estimation.regression.unknown_geometry import RecoveredGeometry


def show_base_parameters(
    base: BaseParameters, screen: Console, *, latex: bool = False, values: Array | None = None
) -> None:
    """Print the groups of parameters, the relations, the number with its gap, and what it means."""
    title = f"{base.robot.name}: {base.count} base parameters ({base.question.model} model, method {base.method})"
    screen.print(escape_markup(title), style="bold", highlight=False)
    screen.print(parameter_groups_table(base))
    relations = base.latex if latex else base.relations
    if relations:
        screen.print(f"\n{len(relations)} relation{'s' * (len(relations) > 1)}:", highlight=False)
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
    alone, sums = ([x for x, y in zip(base.labels, base.names, strict=True) if (x == y) == k] for k in (True, False))
    groups: dict[str, tuple[str, ...]] = {
        "no effect": base.no_effect,
        "known zeros": base.known,
        "regrouped": base.regrouped,
        "base, unchanged": tuple(alone),
        "base, with others": tuple(sums),
    }
    for title, names in groups.items():
        if names:
            table.add_row(title, str(len(names)), escape_markup(" ".join(names)))
    return table


def base_values_table(base: BaseParameters, values: Array) -> Table:
    """Table of base parameters with numerical values."""
    from rich.table import Table

    table = Table("parameter", "value", "unit", box=None)
    for name, label, value in zip(base.names, base.labels, values, strict=True):
        shown = "unknown" if math.isnan(value) else f"{value:.6g}"
        table.add_row(escape_markup(label), shown, name.unit)
    return table


def describe_identifiability(base: BaseParameters) -> str:
    """Sentence on how many parameters can be identified, for a person who wants to identify this robot."""
    total = len(base.columns) - len(base.known)
    seen = {
        "reaction": "the forces on its base", "energy": "its energy", "power": "its power",
        "torque+reaction": "its joint torques and the forces on its base",
    }  # fmt: skip
    channel = seen.get(base.question.model, "its joint torques")
    verb = "reveals" if base.question.model in ("energy", "power") else "reveal"
    lost = total - base.count
    if any(warning.code == "too_few_rows" for warning in base.warnings):
        return f"So few sampled rows show {base.count} combinations; the robot's own number may be larger."
    if not lost:
        return f"All {total} parameters of this robot show in {channel}: a rich motion identifies each by itself."
    return (
        f"Of {total} parameters of this robot, {channel} {verb} only these {base.count} combinations, whatever the "
        f"motion: identify them and predict with them; the other {lost} need a prior that no such experiment can check."
    )


def parse_scaling(text: str | None) -> tuple[float, float] | None:
    """Weights L1,L2 of the scaling procedure; None where the option is left out."""
    if text is None:
        return None
    try:
        l1, l2 = (float(word) for word in text.split(","))
    except ValueError:
        l1 = l2 = math.nan
    if not (0.0 <= l1 < math.inf and 0.0 < l2 < math.inf):
        raise DynidError(
            "option_malformed", "--scaling: '{text}' is not two weights", "give L1,L2: not negative, the second "
            "positive, such as 0,1", text=text,
        )  # fmt: skip
    return l1, l2


def show_explanation(found: Explanation, screen: Console) -> None:
    """Print the sentences of an explanation, one per line."""
    title = f"{found.base.robot.name}: {found.parameter} ({found.base.question.model} model)"
    screen.print(escape_markup(title), style="bold", highlight=False)
    for line in found.sentences:
        screen.print(escape_markup(line), highlight=False, soft_wrap=True)


def show_eliminations(base: BaseParameters, screen: Console) -> None:
    """Print which rule removed which parameters, link by link, and the rules in words."""
    from rich.table import Table

    table = Table("link", "rule", "removed", "joins", box=None, padding=(0, 2, 0, 0))
    found = find_eliminated_parameters(base)
    groups: dict[tuple[str, str], list[Elimination]] = {}
    for one in found:
        groups.setdefault((one.link, _rule_title(one.rule)), []).append(one)
    for (link, rule), some in groups.items():
        joins = dict.fromkeys(name for one in some for name in one.joins)
        removed = escape_markup(" ".join(one.parameter for one in some))
        table.add_row(escape_markup(link), rule, removed, escape_markup(" ".join(joins)) or "no effect")
    screen.print(f"\n{len(found)} parameters removed:", highlight=False)
    screen.print(table)
    for rule in dict.fromkeys(one.rule for one in found if one.rule):
        screen.print(f"  {_rule_title(rule)}: {RULES[rule]}", highlight=False, soft_wrap=True)
    if any(one.rule is None for one in found) and not base.robot.floating and not base.question.friction:
        screen.print("  -: rules have names in the frames of a table, which dynid mdh ROBOT --out table.toml writes")


def _rule_title(rule: str | None) -> str:
    """Short name of a rule."""
    return "-" if rule is None else rule.removeprefix("rule_").replace("_", " ")


def eliminations_json_data(base: BaseParameters) -> list[dict[str, object]]:
    """Data of the removed parameters for `--json`."""
    return [
        {"parameter": x.parameter, "link": x.link, "rule": x.rule, "reason": x.reason, "joins": x.joins}
        for x in find_eliminated_parameters(base)
    ]


def explanation_json_data(found: Explanation) -> dict[str, object]:
    """Data of an explanation for `--json`."""
    return {
        "parameter": found.parameter,
        "status": found.status,
        "rule": found.rule,
        "reason": found.reason,
        "causes": found.causes,
        "changes": [dict(change) for change in found.changes],
        "trials": [asdict(trial) for trial in found.trials],
        "text": found.sentences,
    }


def show_diagnostics(base: BaseParameters, found: Diagnostics, screen: Console) -> None:
    """Print the columns of Gautier 1991, Table II; V2 times a random vector stands for V2, which --json holds."""
    from rich.table import Table

    table = Table("T", "T_ii", "R", "R_ii", "sigma_i", "V2 N", box=None)
    mixed = found.V2N

    def entry(values: Array, i: int) -> str:
        """Text of an entry; fewer rows than columns leave some without."""
        return f"{values[i]:.3e}" if i < len(values) else ""

    for i, (k, place) in enumerate(zip(found.columns, found.pivots, strict=True)):
        names = escape_markup(base.columns[found.columns[place]]), escape_markup(base.columns[k])
        table.add_row(names[0], entry(found.T, i), names[1], entry(found.R, i), entry(found.sigma, i), entry(mixed, i))
    screen.print(table)
    screen.print(
        f"{found.rows} rows, rank {found.rank}, tau = {found.tolerance:.1e}; N random: V2 N is zero where a "
        "parameter is identifiable by itself",
        highlight=False, soft_wrap=True,
    )  # fmt: skip


def diagnostics_json_data(base: BaseParameters, found: Diagnostics) -> dict[str, object]:
    """Data of Table II for `--json`: T and R with the parameters of their columns, sigma, V2."""
    return {
        "columns": [base.columns[k] for k in found.columns],
        "T_columns": [base.columns[found.columns[k]] for k in found.pivots],
        "T": found.T.tolist(),
        "R": found.R.tolist(),
        "sigma": found.sigma.tolist(),
        "V2": found.V2.tolist(),
        "residual": found.residual.tolist(),
        "rows": found.rows,
        "rank": found.rank,
        "tolerance": found.tolerance,
    }


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
        data = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DynidError("not_json", "{path}: not a JSON file of values: {error}", path=path, error=error) from error
    if not isinstance(data, Mapping):
        raise DynidError("values_not_an_object", "{path}: expected an object {{name: value}}", path=path)
    unknown = sorted(set(map(str, data)) - set(robot.parameter_names))
    if unknown:
        raise DynidError(
            "unknown_parameter", "{path}: '{unknown}' is not a parameter of '{name}'; they look like {parameter_names}",
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
        if abs(value) > HUGE:
            raise DynidError("value_too_large", "{path}: {name} is larger than any of a robot", path=path, name=name)
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
        "parameter_names": (
            *base.robot.parameter_names,
            *(x for x in base.columns if x not in base.robot.parameter_names),
        ),
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
                "the rotor inertia of joint {joints} is unknown and its gear ratio is not 1: torques contain ratio^2 "
                "J, forces on the base ratio J"
            )
            return (Message("rotor_inertia_unknown", what, "declare it", joints=self.hidden),)
        if self.relation.lost:
            what = "these channels do not determine {parameters} of the joint torques"
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
        torque = relation.torque
        labels = [y for x, y in zip(torque.names, torque.labels, strict=True) if x in answer.shared_parameters]
        screen.print(f"  the same in both: {escape_markup(' '.join(labels))}", highlight=False, soft_wrap=True)
    for name, line in zip(relation.torque.names, relation.relations, strict=True):
        if name not in answer.shared_parameters:
            screen.print("  " + escape_markup(line), highlight=False, soft_wrap=True)
    if answer.channels:
        sets = "; ".join(" ".join(some) for some in answer.channels)
        screen.print(
            f"  smallest sets of channels that determine all of theta_d: {sets}", highlight=False, soft_wrap=True
        )
    else:
        screen.print("  no set of channels determines all of theta_d", highlight=False)


def show_barycentric(base: BaseParameters, screen: Console) -> None:
    """Print the base parameters in barycentric letters."""
    title = "in barycentric parameters (each link with all masses beyond it lumped at the joints):"
    screen.print(f"\n{title}", highlight=False)
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
    if found.blocks:
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


def show_recoverable_lengths(found: Recoverable, screen: Console) -> None:
    """Print what of the unknown lengths follows from the model parameters."""
    for sentence in describe_recoverable_lengths(found):
        screen.print(escape_markup(sentence), highlight=False, soft_wrap=True)


def describe_recoverable_lengths(found: Recoverable) -> list[str]:
    """Sentences on the lengths that model parameters determine, and on those that they do not."""
    if not found.names:
        return []
    lines = []
    if found.texts:
        lines.append(f"These parameters determine {', '.join(found.texts)} (values: dynid unknown --result).")
    if found.others:
        lines.append(f"They also determine {found.others} function(s) of the lengths that are not products of powers.")
    if found.hidden:
        lines.append(f"They do not determine {', '.join(found.hidden)} unless inertias are known (--known MX2=0).")
    return lines


def recover_lengths(path: Path, robot: Robot, known: Mapping[str, float]) -> RecoveredGeometry:
    """Lengths that follow from the result in a file."""
    from dynid.estimation.identification import Identification
    from dynid.estimation.regression.unknown_geometry import recover_geometry_of_result

    result = Identification.load(path)
    if result.robot.parameter_names != robot.parameter_names:
        raise DynidError(
            "result_of_other_robot", "{path} is a result of '{other_robot}', not of '{robot}'", path=path,
            other_robot=result.robot.name, robot=robot.name,
        )  # fmt: skip
    return recover_geometry_of_result(result, known=known)


def show_recovered_lengths(name: str, found: RecoveredGeometry, screen: Console) -> None:
    """Print lengths with their intervals next to the nominal ones."""
    from rich.table import Table

    screen.print(escape_markup(f"{name}: lengths from identified model parameters"), style="bold", highlight=False)
    if found.names:
        table = Table("length", "m", "95 % interval", "nominal", box=None)
        for text, x, (low, high), nominal in zip(
            found.names, found.values, found.intervals, found.nominal, strict=True
        ):
            table.add_row(escape_markup(text), f"{x:.4g}", f"{low:.4g} to {high:.4g}", f"{nominal:.4g}")
        screen.print(table)
    for what, names in (("not determined by these data, held at nominal values", found.undetermined),
                        ("not determined by torques", found.hidden)):  # fmt: skip
        if names:
            screen.print(escape_markup(f"{what}: {', '.join(names)}"), highlight=False)
    if found.freedom:
        screen.print(
            f"{found.freedom} more model parameters than lengths and inertias: the fit misses by {found.misfit:.2g} "
            "standard deviations (root mean square; about 1 where the model holds)", highlight=False, soft_wrap=True,
        )  # fmt: skip


def recovered_json_data(name: str, found: RecoveredGeometry) -> dict[str, object]:
    """Data of recovered lengths for `--json`."""
    return {
        "robot": name,
        "lengths": [
            {"name": text, "value": float(x), "sigma": float(s), "interval": list(map(float, i)), "nominal": float(n)}
            for text, x, s, i, n in zip(
                found.names, found.values, found.sigma, found.intervals, found.nominal, strict=True
            )
        ],
        "undetermined": found.undetermined,
        "hidden": found.hidden,
        "others": found.others,
        "misfit": found.misfit,
        "freedom": found.freedom,
    }


def model_parameter_json_data(found: ModelParameters, lengths: Recoverable) -> dict[str, object]:
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
        "lengths": {"follow": lengths.texts, "others": lengths.others, "hidden": lengths.hidden},
        "warnings": found.warnings,
    }


def count_json_data(name: str, found: ModelParameterCount) -> dict[str, object]:
    """Data of the number of model parameters for `--json`."""
    return {"robot": name, "count": found.count, "blocks": found.blocks, "complete": found.complete}


def _join_numbers(blocks: tuple[int, ...]) -> str:
    """Text of numbers with commas between them."""
    return ", ".join(map(str, blocks))
