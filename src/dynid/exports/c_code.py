"""C99 code without dependencies (but the C library's sin and cos), customised for one robot."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynid.dynamics.friction import STILL
from dynid.exports.c_expressions import Cost
from dynid.exports.c_functions import CustomisedDynamics, GraphFunction
from dynid.exports.subject import ExportSubject

FUNCTIONS = ("inverse_dynamics", "gravity", "friction", "regressor_times")

_ARGUMENTS = {
    "inverse_dynamics": ("q", "qd", "qdd"),
    "gravity": ("q",),
    "friction": ("q", "qd"),
    "regressor_times": ("q", "qd", "qdd", "X"),
}

_WORDS = {
    "inverse_dynamics": "Torques of the rigid body without friction: tau(q, qd, qdd).",
    "gravity": "Torques that hold the robot still: tau(q, 0, 0).",
    "friction": "Friction and offsets: add them to the torques of the rigid body.",
    "regressor_times": "Regressor times base parameters: as inverse_dynamics, for parameters X that the caller has.",
}


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of every function, and of inverse dynamics with all standard parameters."""

    functions: dict[str, Cost]
    standard: Cost

    def lines(self) -> tuple[str, ...]:
        """Return a line of text for each function."""
        rows = [*self.functions.items(), ("inverse_dynamics with standard parameters, not written", self.standard)]
        return tuple(
            f"{name}: {cost.multiplications} multiplications, {cost.additions} additions, {cost.calls} calls"
            for name, cost in rows
        )


@dataclass(frozen=True, slots=True)
class CCode:
    """The text of the file, and what its functions cost."""

    text: str
    operations: Operations


def write_c_code(subject: ExportSubject) -> CCode:
    """Write the code of a robot; the same robot gives the same text."""
    robot = CustomisedDynamics.of(subject)
    functions = {
        "inverse_dynamics": robot.inverse_dynamics_by_base(),
        "gravity": robot.gravity_torques(),
        "friction": robot.friction_function(),
        "regressor_times": robot.regressor_times_parameters(),
    }
    operations = Operations({name: f.cost for name, f in functions.items()}, robot.inverse_dynamics_by_standard().cost)
    prefix = c_name_prefix(robot.robot.name)
    parts = [_header_comment(robot, subject, operations), _declarations(robot, prefix), _parameters_code(robot, prefix)]
    parts += [_function_code(name, function, prefix) for name, function in functions.items()]
    return CCode("\n".join(parts), operations)


def _header_comment(robot: CustomisedDynamics, subject: ExportSubject, operations: Operations) -> str:
    """Comment at the top of the file: joints, units, functions and their operations."""
    known = robot.robot
    lines = [f"Dynamics of the robot {known.name}, written by dynid.", ""]
    lines += ["Joints, in the order of all arrays (rad, rad/s, rad/s^2 and N m; m, m/s, m/s^2 and N where they slide):"]
    for j, k in enumerate(known.active_links):
        lines.append(f"  [{j}] {known.links[k].joint}: {known.links[k].kind}")
    gravity = ", ".join(repr(float(x)) for x in known.gravity)
    lines += ["", f"Gravity ({gravity}) m/s^2 in frame 0; links in modified Denavit-Hartenberg frames."]
    lines += [f"Warning: {loss}" for loss in subject.losses]
    lines += ["", "Operations:", *(f"  {line}" for line in operations.lines())]
    return "/*\n" + "\n".join(f" * {c_comment_text(line)}".rstrip() for line in lines) + "\n */\n#include <math.h>\n"


def _declarations(robot: CustomisedDynamics, prefix: str) -> str:
    """Sizes, prototypes, and the sign function where friction needs it."""
    count = max(1, robot.base.count)
    smooth = [
        "/* Coulomb friction takes the sign of the velocity, or tanh(v / width) with -DDYNID_SMOOTH=width (rad/s). */",
        f"static double {prefix}_sign(double v)",
        "{",
        "#ifdef DYNID_SMOOTH",
        "    return tanh(v / (DYNID_SMOOTH));",
        "#else",
        f"    return fabs(v) < {STILL!r} ? 0.0 : (v > 0.0 ? 1.0 : -1.0);",
        "#endif",
        "}",
        "",
    ]
    functions = [f"{_c_signature(name, prefix)};" for name in FUNCTIONS]
    sizes = [f"#define {prefix}_JOINTS {robot.robot.n}", f"#define {prefix}_PARAMETERS {count}", ""]
    signs = smooth if any(node[0] == "sign" for node in _nodes_of_function(robot.friction_function())) else []
    return "\n".join([*sizes, f"extern const double {prefix}_base_parameters[{count}];", *functions, "", *signs])


def _nodes_of_function(function: GraphFunction) -> list[tuple[str, tuple[int, ...], float | str]]:
    """Nodes that a function needs."""
    return [function.graph.nodes[node] for node in function.graph.needed_nodes(function.outputs)]


def _parameters_code(robot: CustomisedDynamics, prefix: str) -> str:
    """Array of the base parameters with their names as comments."""
    rows = []
    for name, value in zip(robot.base.names, robot.base_values, strict=True):
        rows.append(f"    {float(value)!r}, /* {c_comment_text(f'{name}, {name.unit}')} */")
    count = max(1, len(rows))
    return "\n".join([f"const double {prefix}_base_parameters[{count}] = {{", *(rows or ["    0.0"]), "};", ""])


def _c_signature(name: str, prefix: str) -> str:
    """Return type, name and arguments of a C function."""
    sizes = {"X": f"{prefix}_PARAMETERS"}
    inputs = [f"const double {x}[{sizes.get(x, f'{prefix}_JOINTS')}]" for x in _ARGUMENTS[name]]
    return f"void {prefix}_{name}({', '.join([*inputs, f'double tau[{prefix}_JOINTS]'])})"


def _function_code(name: str, function: GraphFunction, prefix: str) -> str:
    """Text of one C function, from its graph."""
    g, body = function.graph, []
    text: dict[int, str] = {}
    used: set[str] = set()
    for node in g.needed_nodes(function.outputs):
        operation, operands, value = g.nodes[node]
        words = [text[x] for x in operands]
        match operation:
            case "constant":
                text[node] = repr(float(value))
                continue
            case "variable":
                text[node] = str(value)
                used.add(str(value).split("[")[0])
                continue
            case "neg":
                text[node] = f"-{words[0]}" if not words[0].startswith("-") else f"-({words[0]})"
                continue
            case "add" | "sub" | "mul":
                sign = {"add": "+", "sub": "-", "mul": "*"}[operation]
                formula = f"{words[0]} {sign} {words[1]}"
            case "sign":
                formula = f"{prefix}_sign({words[0]})"
            case _:
                formula = f"{operation}({words[0]})"
        text[node] = f"t{node}"
        body.append(f"    const double t{node} = {formula};")
    unused = [f"    (void){x};" for x in _ARGUMENTS[name] if x not in used]
    results = [f"    tau[{j}] = {text[output]};" for j, output in enumerate(function.outputs)]
    lines = [f"/* {_WORDS[name]} */", _c_signature(name, prefix), "{", *body, *unused, *results, "}", ""]
    return "\n".join(lines)


_LONGEST = 48


def c_name_prefix(name: str) -> str:
    """Return a C identifier that begins the names of all functions of a robot."""
    word = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_LONGEST].strip("_")
    return word if word and not word[0].isdigit() else f"robot_{word}".rstrip("_")


def c_comment_text(comment: str) -> str:
    """Return text that cannot end a comment, start a new line, or make a trigraph."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+()\[\]=^-]", "_", comment)
