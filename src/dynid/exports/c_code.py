"""C99 code without dependencies (but the C library's sin and cos), customised for one robot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.friction import HARMONICS, REST, STILL, stop_width
from dynid.errors import ExportError, IdentificationError
from dynid.estimation.solve.recursive import find_levels
from dynid.estimation.solve.sequential import CODES, LATE, Sequential
from dynid.exports.c_functions import Cost, CustomisedDynamics, GraphFunction, linear_couplings
from dynid.exports.subject import ExportSubject
from dynid.robot.inertia import SYMBOLS
from dynid.robot.transform import Array

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

_SLIDING_WORDS = (
    "Friction and offsets without a memory: stops while sliding, no lag, no load; friction_step has it all."
)


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
    """C code of a robot with the cost of its functions; the same robot gives the same text."""
    robot = CustomisedDynamics.for_subject(subject)
    functions = {
        "inverse_dynamics": robot.inverse_dynamics_by_base(),
        "gravity": robot.gravity_torques(),
        "friction": robot.friction_function(),
        "regressor_times": robot.regressor_times_parameters(),
    }
    operations = Operations({name: f.cost for name, f in functions.items()}, robot.inverse_dynamics_by_standard().cost)
    prefix = c_name_prefix(robot.robot.name)
    parts = [_header_comment(robot, subject, operations), _declarations(robot, prefix), _parameters_code(robot, prefix)]
    words = _WORDS | ({"friction": _SLIDING_WORDS} if robot.friction.has_memory else {})
    parts += [_function_code(name, function, prefix, words[name]) for name, function in functions.items()]
    parts += [_friction_step_code(robot, prefix)] if robot.friction.has_memory else []
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
    """C text of sizes, prototypes, and the sign function where friction needs it."""
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
    if robot.friction.has_memory:
        sizes.insert(2, f"#define {prefix}_STOPS {max(1, len(robot.friction.shapes.stop_widths))}")
        functions += [_STATE_TYPE.replace("PREFIX", prefix)]
    signs = smooth if any(node[0] == "sign" for node in _nodes_of_function(robot.friction_function())) else []
    return "\n".join([*sizes, f"extern const double {prefix}_base_parameters[{count}];", *functions, "", *signs])


def _nodes_of_function(function: GraphFunction) -> list[tuple[str, tuple[int, ...], float | str]]:
    """Nodes of the graph that a function needs, as (operation, operands, value)."""
    return [function.graph.nodes[node] for node in function.graph.needed_nodes(function.outputs)]


def _parameters_code(robot: CustomisedDynamics, prefix: str) -> str:
    """C text of the array of base parameters with their names as comments."""
    rows = []
    for name, value in zip(robot.base.names, robot.base_values, strict=True):
        rows.append(f"    {float(value)!r}, /* {c_comment_text(f'{name}, {name.unit}')} */")
    count = max(1, len(rows))
    return "\n".join([f"const double {prefix}_base_parameters[{count}] = {{", *(rows or ["    0.0"]), "};", ""])


def _c_signature(name: str, prefix: str) -> str:
    """C text of a function's return type, name and arguments."""
    sizes = {"X": f"{prefix}_PARAMETERS"}
    inputs = [f"const double {x}[{sizes.get(x, f'{prefix}_JOINTS')}]" for x in _ARGUMENTS[name]]
    return f"void {prefix}_{name}({', '.join([*inputs, f'double tau[{prefix}_JOINTS]'])})"


def _function_code(name: str, function: GraphFunction, prefix: str, comment: str) -> str:
    """C text of one function, from its graph."""
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
    lines = [f"/* {comment} */", _c_signature(name, prefix), "{", *body, *unused, *results, "}", ""]
    return "\n".join(lines)


_STATE_TYPE = """
/* Memory of friction, which the caller keeps: one for every robot, reset before the first step of a motion. */
typedef struct {
    double q[PREFIX_JOINTS];                /* positions of the motors at the step before */
    double stop[PREFIX_STOPS][PREFIX_JOINTS]; /* stop operators, from -1 to 1 */
    double sign[PREFIX_JOINTS];             /* directions at the step before */
    int started;                            /* whether there was a step before */
} PREFIX_friction_state;

void PREFIX_friction_reset(PREFIX_friction_state *state);
void PREFIX_friction_step(PREFIX_friction_state *state, const double q[PREFIX_JOINTS], const double qd[PREFIX_JOINTS],
    const double qdd[PREFIX_JOINTS], double dt, double tau[PREFIX_JOINTS]);
"""

_STEP = """/* Forgets the motion so far; stops begin in the middle, and are right after a way of twice their width. */
void PREFIX_friction_reset(PREFIX_friction_state *state)
{
    int i, m;
    for (m = 0; m < PREFIX_JOINTS; m++) {
        state->q[m] = state->sign[m] = 0.0;
        for (i = 0; i < PREFIX_STOPS; i++) state->stop[i][m] = 0.0;
    }
    state->started = 0;
}

/* Friction with its memory, in place of PREFIX_friction: one step for every sample, dt seconds after the one before. */
void PREFIX_friction_step(PREFIX_friction_state *state, const double q[PREFIX_JOINTS], const double qd[PREFIX_JOINTS],
    const double qdd[PREFIX_JOINTS], double dt, double tau[PREFIX_JOINTS])
{
    enum { N = PREFIX_JOINTS, STOPS = PREFIX_STOPS };
TABLES
    double position[N], speed[N], rest[N], load[N], f[N], all = 1.0;
    int i, j, m;
LOAD
    for (m = 0; m < N; m++) {
        double rate = 0.0;
        position[m] = speed[m] = 0.0;
        for (j = 0; j < N; j++) {
            position[m] += to_motor[m][j] * q[j];
            speed[m] += to_motor[m][j] * qd[j];
            rate += to_motor[m][j] * qdd[j];
        }
        for (i = 0; i < STOPS && state->started; i++) {
            const double z = state->stop[i][m] + (position[m] - state->q[m]) * stiffness[i][m];
            state->stop[i][m] = z < -1.0 ? -1.0 : (z > 1.0 ? 1.0 : z);
        }
        rest[m] = REST_SHARE;
        if (rest[m] < all) all = rest[m];
    }
    for (m = 0; m < N; m++) {
        const double x = position[m], v = speed[m], r = x / scale[0][m], w = v / scale[0][m], held = HELD;
        const double sign = fabs(w) < STILL ? 0.0 : (w > 0.0 ? 1.0 : -1.0);
        const double direction = sign + rest[m] * (held - sign);
        const double lag = state->started && dt > 0.0 ? (direction - state->sign[m]) / dt : 0.0;
        (void)x; (void)v; (void)r; (void)lag; (void)load[m];
        f[m] = 0.0;
TERMS
        state->sign[m] = direction;
        state->q[m] = position[m];
    }
    state->started = 1;
    for (j = 0; j < N; j++) {
        tau[j] = 0.0;
        for (m = 0; m < N; m++) tau[j] += to_motor[m][j] * f[m];
    }
}
"""

_LOAD = """    double joint[N];
    PREFIX_regressor_times(q, qd, qdd, X[0], joint);
    for (m = 0; m < N; m++) {
        load[m] = 0.0;
        for (j = 0; j < N; j++) load[m] += from_joint[m][j] * joint[j];
    }"""

_COLUMNS = {
    "viscous": "v",
    "coulomb": "direction",
    "offset": "1.0",
    "tanh": "tanh(w / 0.1) + rest[m] * (held - tanh(w / 0.1))",
    "quadratic": "v * fabs(v)",
    "asymmetry": "fabs(v)",
    "stribeck": "exp(-(w / 0.5) * (w / 0.5)) * sign * (1.0 - rest[m]) + rest[m] * held",
    "spring": "x",
    "lag": "lag",
    "rest": "all * held",
}
"""Columns of friction blocks in C: x, v of a motor, r, w the same in rad-like units of its range."""


def _friction_step_code(robot: CustomisedDynamics, prefix: str) -> str:
    """C text of the functions of friction with its memory, as `predict` has it."""
    friction = robot.friction
    widths = friction.shapes.stop_widths if len(friction.shapes.stop_widths) else np.full((1, robot.robot.n), np.inf)
    place = {tuple(own): k for k, own in enumerate(widths)}
    held = place.get(tuple(friction.held * friction.scale))
    terms: list[str] = []
    for block in friction.blocks:
        own = f"state->stop[{place[tuple(stop_width(block) * friction.scale)]}][m]" if stop_width(block) else ""
        columns = [_COLUMNS.get(block, own)]
        if block == "load" or (own and stop_width(block) < friction.held):
            columns = [f"{own} + all * (held - {own})"]
        if block == "load":
            columns = [f"fabs(load[m]) * ({columns[0]})"]
        if block in HARMONICS:
            columns = [f"{name}({HARMONICS[block]}.0 * r)" for name in ("sin", "cos")]
        terms += [f"        f[m] += c[{len(terms) + k}][m] * ({column});" for k, column in enumerate(columns)]
    tables = {
        "c": friction.values, "scale": friction.scale[None], "to_motor": friction.transmission,
        "stiffness": 1.0 / widths,
    }  # fmt: skip
    load = "    for (m = 0; m < N; m++) load[m] = 0.0;"
    if robot.load is not None:
        load = _LOAD
        tables["from_joint"] = np.asarray(np.linalg.inv(friction.transmission.T), dtype=np.float64)
        tables["X"] = np.resize(robot.base.values(robot.load), (1, max(1, robot.base.count)))
    v, a = (f"({x} / scale[0][m] / {limit!r})" for x, limit in zip(("speed[m]", "rate"), REST, strict=True))
    parts = {
        "TABLES": "\n".join(_c_table(name, rows) for name, rows in tables.items()),
        "LOAD": load,
        "TERMS": "\n".join(terms),
        "REST_SHARE": "0.0 * rate" if held is None else f"exp(-{v} * {v} - {a} * {a})",
        "HELD": "0.0" if held is None else f"state->stop[{held}][m]",
        "STILL": repr(STILL),
    }
    text = re.sub("|".join(rf"\b{name}\b" for name in parts), lambda found: parts[found[0]], _STEP)
    return text.replace("PREFIX", prefix)


def _c_table(name: str, rows: Array) -> str:
    """C text of a constant table."""
    text = ", ".join("{" + ", ".join(repr(float(x)) for x in row) + "}" for row in rows)
    return f"    static const double {name}[{rows.shape[0]}][{rows.shape[1]}] = {{{text}}};"


# Parameters that follow the samples: tables of one robot and model before the text of sequential.c.


def write_sequential_c_code(tracker: Sequential) -> str:
    """C code of `Sequential.update` and `solve` with the state in a struct; raise for what it cannot have."""
    equation, robot = tracker.equation, tracker.robot
    if equation.user_columns or equation.sensor.rotors:
        what = f"the column '{equation.user_columns[0].name}'" if equation.user_columns else "rotors of known inertia"
        raise ExportError(
            "sequential_not_exportable", "'{robot}' has {what}, which C code sample by sample does not hold",
            robot=robot.name, what=what,
        )  # fmt: skip
    prefix, options = c_name_prefix(robot.name), equation.options
    tables, columns = _monomial_tables(tracker) if equation.unknown else _link_tables(tracker)
    tree = robot.n if equation.unknown else len(robot.tree_joints)
    order, level = _levels_of_unknowns(tracker)
    prior = np.zeros((0, len(tracker.names) + 1)) if tracker.prior is None else np.column_stack(tracker.prior)
    sizes = {
        "JOINTS": robot.n, "TREE": tree, "PLATE": max(1, len(equation.base_channels)),
        "CHANNELS": len(equation.channels), "TORQUES": len(equation.channels) - len(equation.base_channels),
        "UNKNOWNS": len(tracker.names), "WIDTH": int(tracker.start[-1]), "MEMORY": int(tracker.corner[-1]),
        "ROWS": tree + (6 if equation.base_channels else 0), "COLUMNS": columns,
        "SLOTS": tracker.span // tracker.stride, "BALANCES": int(options.is_integral),
        "SUMMED": int(options.is_scalar), "MONOMIALS": int(bool(equation.unknown)), "LEVELS": int(bool(order)),
        "PRIOR": len(prior), "STILL": repr(STILL), "LATE": repr(LATE), "ROOT": repr(float(np.sqrt(tracker.forgetting))),
    }  # fmt: skip
    lines = [f"Parameters of the robot {robot.name} sample by sample, written by dynid.", ""]
    lines += [f"Model: {options.model}; forgetting {tracker.forgetting!r}. Parameters, in the order of X:"]
    lines += [f"  [{k}] {name}, {name.unit}" for k, name in enumerate(tracker.names)]
    head = "/*\n" + "\n".join(f" * {c_comment_text(line)}".rstrip() for line in lines) + "\n */\n"
    defines = "\n".join(f"#define {prefix}_{name} {x}" for name, x in sizes.items())
    own = [_integer_table("pick", _picked_columns(tracker)), _integer_table("start", tracker.start)]
    own += [_integer_table("place", places_of_entries(tracker)), *tables]
    own += [_integer_table("order", order), _integer_table("level", level)] if order else []
    own += [_real_table("prior", prior)] if len(prior) else []
    if not (options.is_integral and options.is_scalar):
        plate = equation.sensor.wrench_to_readings if equation.base_channels else np.zeros((1, 6))
        own += [_real_table("readings", plate)]
    known = equation.sensor.constant_readings(robot.gravity) if equation.base_channels else np.zeros(1)
    scale = np.asarray(equation.shapes.scale)
    own += [_real_table("known", known), _real_table("scale", scale), f"enum {{ STRIDE = {tracker.stride} }};"]
    text = (files("dynid.exports") / "sequential.c").read_text(encoding="utf-8")
    body = text.replace("PREFIX", prefix)
    return "\n".join([head, "#include <math.h>", "#include <string.h>", "", defines, "", *own, "", body])


def _picked_columns(tracker: Sequential) -> list[int]:
    """Column of the sheet for every entry of the packed rows, or -1 - (code * joints + joint) of friction."""
    equation, n = tracker.equation, tracker.robot.n
    robot, links = tracker.robot, len(tracker.robot.links)
    sheet = list(range(equation.base_column_count))
    if not equation.unknown:
        columns = [equation.stage.columns.columns[k] for k in equation.base.kept]
        sheet = [
            10 * c.link + SYMBOLS.index(c.name.symbol)
            if c.name.symbol in SYMBOLS
            else 10 * links + robot.tree_joints.index(c.link)
            for c in columns
        ]
    picked: list[int] = []
    for channel in equation.channels:
        used = channel.columns[tracker.unknowns.place[0, channel.columns] >= 0]
        for k in used.tolist():
            block, joint = divmod(k - equation.rigid_column_count, n)
            if k < equation.base_column_count:
                picked.append(sheet[k])
            elif block < len(tracker.friction):
                picked.append(-1 - (CODES[tracker.friction[block]] * n + joint))
            else:  # the offset of a channel of the base
                picked.append(-1 - CODES["offset"] * n)
        picked.append(-1)  # what is measured
    return picked


def places_of_entries(tracker: Sequential) -> list[int]:
    """Unknown of every entry of the packed rows; what is measured comes after the last."""
    places: list[int] = []
    for channel in tracker.equation.channels:
        own = tracker.unknowns.place[0, channel.columns]
        places += [*own[own >= 0].tolist(), len(tracker.names)]
    return places


def _levels_of_unknowns(tracker: Sequential) -> tuple[list[int], list[int]]:
    """Channels from the base on, and the level of every unknown; nothing where rows are not block triangular."""
    try:
        levels = find_levels(tracker.equation, tracker.unknowns)
    except IdentificationError:
        return [], []
    if not np.array_equal(levels.unknowns_from_blocks, levels.B.T):
        return [], []
    names, level = [str(name) for name in tracker.names], [0] * len(tracker.names)
    for i, own in enumerate(levels.own):
        for name in levels.names[own]:
            level[names.index(name)] = i
    return list(levels.order), level


def _link_tables(tracker: Sequential) -> tuple[list[str], int]:
    """Tables of the links, and the number of columns: ten of every link, one of every rotor."""
    robot = tracker.robot
    joints, links = robot.tree_joints, robot.links
    G, offset = linear_couplings(robot)
    moves = np.zeros((len(links), len(joints)), dtype=np.int64)
    for k in range(len(links)):
        at = k
        while at >= 0:
            if at in joints:
                moves[k, joints.index(at)] = 1
            at = links[at].parent
    integers = {
        "topological": robot.topological_order, "parent": [link.parent for link in links],
        "tree_joint": [joints.index(k) if k in joints else -1 for k in range(len(links))],
        "turns": [int(link.kind == "revolute") for link in links], "link_of_joint": joints, "moves": moves,
    }  # fmt: skip
    reals = {
        "axis": [link.axis for link in links], "rotation": [link.placement.rotation.ravel() for link in links],
        "position": [link.placement.translation for link in links], "gravity": robot.gravity, "to_tree": G,
        "offset": offset,
    }  # fmt: skip
    tables = [_integer_table(name, np.asarray(x)) for name, x in integers.items()]
    tables += [_real_table(name, np.asarray(x, dtype=np.float64)) for name, x in reals.items()]
    return [f"enum {{ LINKS = {len(links)} }};", *tables], 10 * len(links) + len(joints)


def _monomial_tables(tracker: Sequential) -> tuple[list[str], int]:
    """Tables of the functions of model parameters, and their number."""
    found = getattr(tracker.equation.columns, "found").tables  # noqa: B009
    tables, n = found.tables, tracker.robot.n
    longest = int(np.diff(tables.start).max(initial=1))
    counts = f"LETTERS = {len(tables.letter)}, PRODUCTS = {len(tables.start) - 1}, LONGEST = {longest}"
    integers = {
        "letter": tables.letter, "start_of_product": tables.start, "factor": tables.factor,
        "first_term": tables.first, "term": tables.term,
    }  # fmt: skip
    own = [_integer_table(name, x) for name, x in integers.items()]
    own += [_real_table("coefficient", tables.coefficient), _real_table("to_tree", np.eye(n))]
    return [f"enum {{ {counts} }};", *own, _real_table("offset", np.zeros(n))], found.count


def _integer_table(name: str, values: Sequence[int] | NDArray[Any]) -> str:
    """C text of a constant table of whole numbers, of one or two dimensions."""
    return _constant_table("int", name, np.asarray(values, dtype=np.int64))


def _real_table(name: str, values: Array) -> str:
    """C text of a constant table of numbers, of one or two dimensions."""
    return _constant_table("double", name, np.asarray(values, dtype=np.float64))


def _constant_table(kind: str, name: str, values: NDArray[Any]) -> str:
    """C text of a constant table, every number as it reads back."""
    rows = ["{" + ", ".join(map(repr, row)) + "}" for row in np.atleast_2d(values).tolist()]
    text = rows[0] if values.ndim == 1 else "{" + ",\n    ".join(rows) + "}"
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in values.shape)} = {text};"


_LONGEST = 48


def c_name_prefix(name: str) -> str:
    """Return a C identifier that begins the names of all functions of a robot."""
    word = re.sub(r"[^A-Za-z0-9]+", "_", name)[:_LONGEST].strip("_")
    return word if word and not word[0].isdigit() else f"robot_{word}".rstrip("_")


def c_comment_text(comment: str) -> str:
    """Return text that cannot end a comment, start a new line, or make a trigraph."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+()\[\]=^-]", "_", comment)
