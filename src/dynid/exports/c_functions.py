"""The four functions of the C code as expressions: inverse dynamics, gravity, friction, regressor times parameters.

Expressions are a graph in which equal parts are one node, and what is zero never appears. Every operation goes
through a constructor that folds constants and drops zeros and ones; a node that exists already is handed out again
(hash-consing), so common subexpressions cost nothing. Negation moves outwards until an addition swallows it.
Additions and multiplications that remain are the cost of the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.friction import HARMONICS, PLAIN_UNITS, find_friction_block
from dynid.errors import ExportError
from dynid.exports.subject import ExportSubject, JointFriction
from dynid.identifiability.base_parameters import base_parameters
from dynid.identifiability.parameters import BaseParameters
from dynid.robot.inertia import ROTOR, SYMBOLS
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array, cos_sin

Node: TypeAlias = int
"""Number of a node in its graph."""

Content: TypeAlias = tuple[str, tuple[Node, ...], float | str]
"""Operation, operands, and the value of a constant or the name of a variable."""

_FUNCTIONS = {"sin": math.sin, "cos": math.cos, "tanh": math.tanh, "exp": math.exp, "fabs": math.fabs}
_ODD = ("sin", "tanh", "sign")
_EVEN = ("cos", "fabs")


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations of a function: multiplications, additions (and subtractions), calls of sin, cos and others."""

    multiplications: int
    additions: int
    calls: int

    @property
    def total(self) -> int:
        """Number of multiplications and additions."""
        return self.multiplications + self.additions


@dataclass(eq=False)
class Graph:
    """All expressions of a function; nodes are numbered so that operands come before their operation."""

    nodes: list[Content] = field(default_factory=list)
    _places: dict[Content, Node] = field(default_factory=dict)

    def _find_or_add_node(self, operation: str, operands: tuple[Node, ...] = (), value: float | str = 0.0) -> Node:
        """Number of the node with this content, which is made if there is none yet."""
        content = (operation, operands, value)
        if content not in self._places:
            self._places[content] = len(self.nodes)
            self.nodes.append(content)
        return self._places[content]

    def constant(self, value: float) -> Node:
        """Node of a number; negative ones are the negation of their size, so that signs can move."""
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{number} is not a finite constant")
        if number < 0.0:
            return self._find_or_add_node("neg", (self.constant(-number),))
        return self._find_or_add_node("constant", (), abs(number))

    def variable(self, text: str) -> Node:
        """Node of a quantity that is known when the function is called."""
        return self._find_or_add_node("variable", (), text)

    def constant_value(self, x: Node) -> float | None:
        """Value of a constant, else None."""
        operation, operands, value = self.nodes[x]
        if operation == "constant":
            return float(value)
        if operation == "neg" and self.nodes[operands[0]][0] == "constant":
            return -float(self.nodes[operands[0]][2])
        return None

    def _split_negation(self, x: Node) -> tuple[bool, Node]:
        """Whether the node is a negation, and of what."""
        operation, operands, _ = self.nodes[x]
        return (True, operands[0]) if operation == "neg" else (False, x)

    def neg(self, x: Node) -> Node:
        """Node of -x."""
        negated, inner = self._split_negation(x)
        if negated or self.constant_value(x) == 0.0:
            return inner
        if self.nodes[x][0] == "sub":
            return self._find_or_add_node("sub", self.nodes[x][1][::-1])
        return self._find_or_add_node("neg", (x,))

    def add(self, x: Node, y: Node) -> Node:
        """Node of x + y."""
        a, b = self.constant_value(x), self.constant_value(y)
        if a is not None and b is not None:
            return self.constant(a + b)
        if a == 0.0:
            return y
        if b == 0.0:
            return x
        (minus_x, inner_x), (minus_y, inner_y) = self._split_negation(x), self._split_negation(y)
        if minus_x and minus_y:
            return self.neg(self.add(inner_x, inner_y))
        if minus_y:
            return self._subtract_nodes(x, inner_y)
        if minus_x:
            return self._subtract_nodes(y, inner_x)
        return self._find_or_add_node("add", (min(x, y), max(x, y)))

    def _subtract_nodes(self, x: Node, y: Node) -> Node:
        """Node of x - y, where neither is a constant or a negation."""
        return self.constant(0.0) if x == y else self._find_or_add_node("sub", (x, y))

    def sub(self, x: Node, y: Node) -> Node:
        """Node of x - y."""
        return self.add(x, self.neg(y))

    def mul(self, x: Node, y: Node) -> Node:
        """Node of x * y."""
        (minus_x, x), (minus_y, y) = self._split_negation(x), self._split_negation(y)
        product = self._multiply_nodes(x, y)
        return self.neg(product) if minus_x != minus_y else product

    def _multiply_nodes(self, x: Node, y: Node) -> Node:
        """Node of x * y, where neither is a negation."""
        a, b = self.constant_value(x), self.constant_value(y)
        if a is not None and b is not None:
            return self.constant(a * b)
        if b is not None:
            x, y, a = y, x, b
        if a == 0.0:
            return self.constant(0.0)
        if a == 1.0:
            return y
        if a is not None and self.nodes[y][0] == "mul":
            inner = self.nodes[y][1]
            for factor, other in (inner, inner[::-1]):
                c = self.constant_value(factor)
                if c is not None:
                    return self.mul(self.constant(a * c), other)
        return self._find_or_add_node("mul", (min(x, y), max(x, y)))

    def call_function(self, name: str, x: Node) -> Node:
        """Node of a function of one argument: sin, cos, tanh, exp, fabs, sign."""
        negated, inner = self._split_negation(x)
        if negated and name in _ODD:
            return self.neg(self.call_function(name, inner))
        if negated and name in _EVEN:
            return self.call_function(name, inner)
        value = self.constant_value(x)
        if value is not None and name in _FUNCTIONS:
            return self.constant(_FUNCTIONS[name](value))
        return self._find_or_add_node(name, (x,))

    def sum(self, terms: Sequence[Node]) -> Node:
        """Node of the sum of terms."""
        total = self.constant(0.0)
        for term in terms:
            total = self.add(total, term)
        return total

    def needed_nodes(self, outputs: Sequence[Node]) -> list[Node]:
        """Nodes that the outputs need, operands first."""
        needed: set[Node] = set()
        waiting = list(outputs)
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting += self.nodes[node][1]
        return sorted(needed)

    def cost(self, outputs: Sequence[Node]) -> Cost:
        """Operations that the outputs need; a change of sign is free."""
        names = [self.nodes[node][0] for node in self.needed_nodes(outputs)]
        calls = sum(name in _FUNCTIONS or name == "sign" for name in names)
        return Cost(names.count("mul"), names.count("add") + names.count("sub"), calls)


# Newton and Euler's recursion written once, for a robot in modified Denavit-Hartenberg frames, as expressions.
#
# Linear in the standard parameters (Khalil and Kleinfinger's form): with J the inertia matrix and MS the first moments
# about the frame's origin, w and wp the link's angular velocity and acceleration, Vp its origin's acceleration minus
# gravity, and U = [wp] + [w][w]:
#
#     F = M Vp + U MS,    N = J wp + w x J w + MS x Vp
#
# A parameter that is zero drops out of the code together with all that only it needs.


Vector: TypeAlias = tuple[Node, Node, Node]

_RIGHT = math.pi / 2


@dataclass(frozen=True, slots=True)
class _LinkFrame:
    """A link's frame in its parent: Rz(gamma) Rx(alpha) Rz(theta), cosines and sines as nodes, and its place P."""

    gamma: tuple[Node, Node]
    alpha: tuple[Node, Node]
    theta: tuple[Node, Node]
    P: Vector


@dataclass(frozen=True, slots=True)
class _LinkMotion:
    """Velocities and accelerations of a link's frame, as nodes."""

    w: Vector
    wp: Vector
    Vp: Vector
    U: tuple[Vector, Vector, Vector]


@dataclass(frozen=True, eq=False)
class Recursion:
    """Torques of all joints of the open tree; q, v, a: a node per link that moves."""

    graph: Graph
    robot: Robot

    def torques(
        self,
        q: Mapping[int, Node],
        v: Mapping[int, Node],
        a: Mapping[int, Node],
        parameters: Mapping[str, Node],
    ) -> dict[int, Node]:
        """Torque or force of every joint that moves, by its link's number; parameters that are missing are zero."""
        g, links, order = self.graph, self.robot.links, self.robot.topological_order
        zero = g.constant(0.0)
        frames = {k: self._link_frame(links[k], q.get(k, zero)) for k in order}
        still = (zero, zero, zero)
        gravity = tuple(g.constant(-float(x)) for x in self.robot.gravity)
        motions = {-1: _LinkMotion(still, still, (gravity[0], gravity[1], gravity[2]), (still, still, still))}
        for k in order:
            motions[k] = self._link_motion(
                links[k], frames[k], motions[links[k].parent], v.get(k, zero), a.get(k, zero)
            )
        force = {k: still for k in (-1, *order)}
        moment = dict(force)
        torque: dict[int, Node] = {}
        for k in reversed(order):
            own = [parameters.get(symbol + links[k].label, zero) for symbol in SYMBOLS]
            F, N = self._wrench(motions[k], own)
            force[k], moment[k] = self._add_vectors(force[k], F), self._add_vectors(moment[k], N)
            if links[k].moves:
                rotor = g.mul(parameters.get(ROTOR + links[k].label, zero), a.get(k, zero))
                torque[k] = g.add((moment if links[k].kind == "revolute" else force)[k][2], rotor)
            p = links[k].parent
            f, m = self._to_parent_frame(frames[k], force[k]), self._to_parent_frame(frames[k], moment[k])
            force[p] = self._add_vectors(force[p], f)
            moment[p] = self._add_vectors(self._add_vectors(moment[p], m), self._cross(frames[k].P, f))
        return torque

    def _link_frame(self, link: Link, q: Node) -> _LinkFrame:
        """Frame of a link from its row of the Denavit-Hartenberg table."""
        g, row = self.graph, link.mdh
        assert row is not None
        slides, turns = link.kind == "prismatic", link.kind == "revolute"
        gamma, alpha = self._cosine_and_sine(row.gamma.value), self._cosine_and_sine(row.alpha.value)
        theta = self._cosine_and_sine(row.theta.value, q if turns else None)
        r = g.add(g.constant(row.r.value), q) if slides else g.constant(row.r.value)
        zero = g.constant(0.0)
        P = self._rotate_z(gamma, self._rotate_x(alpha, (g.constant(row.d.value), zero, r)))
        return _LinkFrame(gamma, alpha, theta, self._add_vectors(P, (zero, zero, g.constant(row.b.value))))

    def _cosine_and_sine(self, angle: float, q: Node | None = None) -> tuple[Node, Node]:
        """Cosine and sine of angle + q; right angles only swap them."""
        g = self.graph
        if q is None:
            c, s = cos_sin(angle)
            return g.constant(c), g.constant(s)
        quarter = round(angle / _RIGHT)
        if angle != quarter * _RIGHT:
            q = g.add(q, g.constant(angle))
            return g.call_function("cos", q), g.call_function("sin", q)
        C, S = g.call_function("cos", q), g.call_function("sin", q)
        return ((C, S), (g.neg(S), C), (g.neg(C), g.neg(S)), (S, g.neg(C)))[quarter % 4]

    def _rotate_z(self, turn: tuple[Node, Node], x: Vector) -> Vector:
        """Rotate a vector about z; turn: cosine and sine."""
        g, (c, s) = self.graph, turn
        return g.sub(g.mul(c, x[0]), g.mul(s, x[1])), g.add(g.mul(s, x[0]), g.mul(c, x[1])), x[2]

    def _rotate_x(self, turn: tuple[Node, Node], x: Vector) -> Vector:
        """Rotate a vector about x; turn: cosine and sine."""
        y, z, _ = self._rotate_z(turn, (x[1], x[2], x[0]))
        return x[0], y, z

    def _inverse_rotation(self, turn: tuple[Node, Node]) -> tuple[Node, Node]:
        """Cosine and sine of the opposite angle."""
        return turn[0], self.graph.neg(turn[1])

    def _to_parent_frame(self, frame: _LinkFrame, x: Vector) -> Vector:
        """Return a vector of the link in its parent's frame."""
        return self._rotate_z(frame.gamma, self._rotate_x(frame.alpha, self._rotate_z(frame.theta, x)))

    def _to_link_frame(self, frame: _LinkFrame, x: Vector) -> Vector:
        """Return a vector of the parent in the link's frame."""
        x = self._rotate_x(self._inverse_rotation(frame.alpha), self._rotate_z(self._inverse_rotation(frame.gamma), x))
        return self._rotate_z(self._inverse_rotation(frame.theta), x)

    def _add_vectors(self, x: Vector, y: Vector) -> Vector:
        """Sum of two vectors of nodes."""
        g = self.graph
        return g.add(x[0], y[0]), g.add(x[1], y[1]), g.add(x[2], y[2])

    def _cross(self, x: Vector, y: Vector) -> Vector:
        """Cross product of two vectors of nodes."""
        g = self.graph
        return (
            g.sub(g.mul(x[1], y[2]), g.mul(x[2], y[1])),
            g.sub(g.mul(x[2], y[0]), g.mul(x[0], y[2])),
            g.sub(g.mul(x[0], y[1]), g.mul(x[1], y[0])),
        )

    def _multiply_matrix_vector(self, U: tuple[Vector, Vector, Vector], x: Vector) -> Vector:
        """Product of a matrix and a vector of nodes."""
        g = self.graph
        rows = [g.sum([g.mul(u, y) for u, y in zip(row, x, strict=True)]) for row in U]
        return rows[0], rows[1], rows[2]

    def _link_motion(self, link: Link, frame: _LinkFrame, parent: _LinkMotion, v: Node, a: Node) -> _LinkMotion:
        """Motion of a link from its parent's (outward recursion)."""
        g = self.graph
        w, wp = self._to_link_frame(frame, parent.w), self._to_link_frame(frame, parent.wp)
        Vp = self._to_link_frame(frame, self._add_vectors(parent.Vp, self._multiply_matrix_vector(parent.U, frame.P)))
        if link.kind == "revolute":
            wp = g.add(wp[0], g.mul(w[1], v)), g.sub(wp[1], g.mul(w[0], v)), g.add(wp[2], a)
            w = w[0], w[1], g.add(w[2], v)
        elif link.kind == "prismatic":
            twice = g.mul(g.constant(2.0), v)
            Vp = g.add(Vp[0], g.mul(w[1], twice)), g.sub(Vp[1], g.mul(w[0], twice)), g.add(Vp[2], a)
        return _LinkMotion(w, wp, Vp, self._angular_matrix(w, wp))

    def _angular_matrix(self, w: Vector, wp: Vector) -> tuple[Vector, Vector, Vector]:
        """Matrix U = [wp] + [w][w] of angular velocity and acceleration."""
        g = self.graph
        xx, yy, zz = (g.mul(x, x) for x in w)
        xy, xz, yz = g.mul(w[0], w[1]), g.mul(w[0], w[2]), g.mul(w[1], w[2])
        return (
            (g.neg(g.add(yy, zz)), g.sub(xy, wp[2]), g.add(xz, wp[1])),
            (g.add(xy, wp[2]), g.neg(g.add(xx, zz)), g.sub(yz, wp[0])),
            (g.sub(xz, wp[1]), g.add(yz, wp[0]), g.neg(g.add(xx, yy))),
        )

    def _wrench(self, motion: _LinkMotion, x: Sequence[Node]) -> tuple[Vector, Vector]:
        """Force and moment about the origin that move the link; J wp + w x J w in terms of U."""
        g, w, wp, U = self.graph, motion.w, motion.wp, motion.U
        XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = x
        MS = (MX, MY, MZ)
        F = self._add_vectors(
            self._multiply_matrix_vector(U, MS),
            (g.mul(M, motion.Vp[0]), g.mul(M, motion.Vp[1]), g.mul(M, motion.Vp[2])),
        )
        xy, xz, yz = g.mul(w[0], w[1]), g.mul(w[0], w[2]), g.mul(w[1], w[2])
        N = (
            g.sum([
                g.mul(XX, wp[0]), g.mul(g.sub(ZZ, YY), yz), g.mul(XZ, U[1][0]), g.neg(g.mul(XY, U[2][0])),
                g.mul(YZ, g.sub(U[1][1], U[2][2])),
            ]),
            g.sum([
                g.mul(YY, wp[1]), g.mul(g.sub(XX, ZZ), xz), g.mul(XY, U[2][1]), g.neg(g.mul(YZ, U[0][1])),
                g.mul(XZ, g.sub(U[2][2], U[0][0])),
            ]),
            g.sum([
                g.mul(ZZ, wp[2]), g.mul(g.sub(YY, XX), xy), g.mul(YZ, U[0][2]), g.neg(g.mul(XZ, U[1][2])),
                g.mul(XY, g.sub(U[0][0], U[1][1])),
            ]),
        )  # fmt: skip
        return F, self._add_vectors(N, self._cross(MS, motion.Vp))


@dataclass(frozen=True, eq=False)
class GraphFunction:
    """A function of the C code: its outputs, one per joint, in its graph."""

    graph: Graph
    outputs: tuple[Node, ...]

    @property
    def cost(self) -> Cost:
        """Operations of the function."""
        return self.graph.cost(self.outputs)


@dataclass(frozen=True, eq=False)
class CustomisedDynamics:
    """A robot in modified Denavit-Hartenberg frames, and its base parameters, which are all that torques need.

    The base parameters stand in the place of the standard parameters that keep their names; all others are zero
    (Gautier 1991, conclusion of the part on QR): the same torques for fewer operations. load: standard parameters of
    the torque whose size load-dependent friction takes.
    """

    robot: Robot
    friction: JointFriction
    load: Array | None = None

    @staticmethod
    def for_subject(subject: ExportSubject) -> CustomisedDynamics:
        """Customised dynamics of an export subject; raise for loops that only numbers can close."""
        if subject.robot.closures:
            raise ExportError(
                "closed_loops", "'{robot}' has loops that are closed numerically; C code is for trees and couplings",
                robot=subject.robot.name,
            )  # fmt: skip
        rigid = subject.friction.rigid
        load = None if rigid is None else subject.robot.with_parameters(rigid).to_mdh().parameters
        return CustomisedDynamics(subject.robot.to_mdh(), subject.friction, load)

    @cached_property
    def base(self) -> BaseParameters:
        """Base parameters in these frames."""
        return base_parameters(self.robot)

    @cached_property
    def base_values(self) -> Array:
        """Values of the base parameters in these frames."""
        return self.base.values(self.robot.parameters)

    def inverse_dynamics_by_base(self) -> GraphFunction:
        """Function of inverse dynamics with base parameters."""
        return self._inverse_dynamics(dict(zip(self.base.names, map(float, self.base_values), strict=True)))

    def inverse_dynamics_by_standard(self) -> GraphFunction:
        """Function of inverse dynamics with all standard parameters, to compare the cost."""
        return self._inverse_dynamics(
            dict(zip(self.robot.parameter_names, map(float, self.robot.parameters), strict=True))
        )

    def _inverse_dynamics(self, values: Mapping[str, float]) -> GraphFunction:
        """Function of inverse dynamics with parameter values as constants of the code."""
        g = Graph()
        return self._torque_function(g, {name: g.constant(x) for name, x in values.items()}, "q", "qd", "qdd")

    def gravity_torques(self) -> GraphFunction:
        """Function of the torques that hold the robot still."""
        g = Graph()
        values = zip(self.base.names, self.base_values, strict=True)
        return self._torque_function(g, {name: g.constant(float(x)) for name, x in values}, "q", None, None)

    def regressor_times_parameters(self) -> GraphFunction:
        """Function of the regressor times base parameters, these being an argument."""
        g = Graph()
        return self._torque_function(
            g, {name: g.variable(f"X[{k}]") for k, name in enumerate(self.base.names)}, *_STATE
        )

    def _torque_function(
        self, g: Graph, parameters: Mapping[str, Node], q: str | None, v: str | None, a: str | None
    ) -> GraphFunction:
        """Function of the active joints' torques; q, v, a: names of the arguments, None where they are zero."""
        robot = self.robot
        G, offset = linear_couplings(robot)
        positions = _nodes_of_tree_joints(g, G, offset, q, robot)
        speeds, rates = (_nodes_of_tree_joints(g, G, np.zeros(len(G)), name, robot) for name in (v, a))
        torque = Recursion(g, robot).torques(positions, speeds, rates, parameters)
        outputs = [
            g.sum([g.mul(g.constant(float(G[i, j])), torque[k]) for i, k in enumerate(robot.tree_joints)])
            for j in range(robot.n)
        ]
        return GraphFunction(g, tuple(outputs))

    def friction_function(self) -> GraphFunction:
        """Function of the friction of all joints while sliding, through the motors where these drive several."""
        g, n = Graph(), self.robot.n
        own = self.friction.while_sliding
        T, scale = own.transmission, own.scale
        at_motor = [[g.sum([g.mul(g.constant(float(T[m, j])), g.variable(f"{x}[{j}]")) for j in range(n)])
                     for x in ("q", "qd")] for m in range(n)]  # fmt: skip
        motors = []
        for m, (q, v) in enumerate(at_motor):
            terms, row = [], 0
            for block in own.blocks:
                factor = 1.0 if block in PLAIN_UNITS else 1.0 / float(scale[m])
                shape = _SHAPES[block](g, g.mul(g.constant(factor), q), g.mul(g.constant(factor), v))
                for column in shape:
                    terms.append(g.mul(g.constant(float(own.values[row, m])), column))
                    row += 1
                assert len(shape) == len(find_friction_block(block).symbols)
            motors.append(g.sum(terms))
        outputs = [g.sum([g.mul(g.constant(float(T[m, j])), motors[m]) for m in range(n)]) for j in range(n)]
        return GraphFunction(g, tuple(outputs))


_STATE = ("q", "qd", "qdd")


def _nodes_of_tree_joints(g: Graph, G: Array, offset: Array, name: str | None, robot: Robot) -> dict[int, Node]:
    """Nodes of the tree joints' positions (or their derivatives) from those of the active ones."""
    nodes = {}
    for i, k in enumerate(robot.tree_joints):
        terms = [g.mul(g.constant(float(x)), g.variable(f"{name}[{j}]")) for j, x in enumerate(G[i])] if name else []
        nodes[k] = g.sum([*terms, g.constant(float(offset[i]))])
    return nodes


def _stribeck_node(g: Graph, v: Node) -> Node:
    """Node of Stribeck friction at a velocity."""
    ratio = g.mul(g.constant(2.0), v)
    return g.mul(g.call_function("exp", g.neg(g.mul(ratio, ratio))), g.call_function("sign", v))


def _sine_and_cosine_nodes(k: int, g: Graph, q: Node, v: Node) -> Sequence[Node]:
    """Nodes of sine and cosine of k times a position."""
    q = q if k == 1 else g.mul(g.constant(float(k)), q)
    return g.call_function("sin", q), g.call_function("cos", q)


_SHAPES: dict[str, Callable[[Graph, Node, Node], Sequence[Node]]] = {
    "viscous": lambda g, q, v: (v,),
    "coulomb": lambda g, q, v: (g.call_function("sign", v),),
    "offset": lambda g, q, v: (g.constant(1.0),),
    "tanh": lambda g, q, v: (g.call_function("tanh", g.mul(g.constant(10.0), v)),),
    "quadratic": lambda g, q, v: (g.mul(v, g.call_function("fabs", v)),),
    "asymmetry": lambda g, q, v: (g.call_function("fabs", v),),
    "stribeck": lambda g, q, v: (_stribeck_node(g, v),),
    "spring": lambda g, q, v: (q,),
    **{name: partial(_sine_and_cosine_nodes, k) for name, k in HARMONICS.items()},
}
"""The friction blocks of `dynid.dynamics.friction` that look at one sample, as expressions."""


def linear_couplings(robot: Robot) -> tuple[Array, Array]:
    """Matrix G and offset of the tree joints' positions G q + offset, couplings of couplings resolved."""
    index = {robot.links[k].joint: i for i, k in enumerate(robot.tree_joints)}
    leaders = {coupling.passive: coupling for coupling in robot.couplings}
    G, offset = np.zeros((len(index), robot.n)), np.zeros(len(index))

    def resolve_coupling(name: str) -> tuple[Array, float]:
        """Row of G and offset of one joint."""
        if name not in leaders:
            return np.eye(robot.n)[robot.joint_names.index(name)], 0.0
        row, constant = np.zeros(robot.n), leaders[name].offset
        for other, factor in leaders[name].factors:
            more, shift = resolve_coupling(other)
            row, constant = row + factor * more, constant + factor * shift
        return row, constant

    for name, i in index.items():
        G[i], offset[i] = resolve_coupling(name)
    return G, offset
