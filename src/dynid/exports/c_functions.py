"""The four functions of the C code as expressions: inverse dynamics, gravity, friction, regressor times parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base.find import base_parameters
from dynid.base.parameters import BaseParameters
from dynid.concurrency import cached_property
from dynid.errors import ExportError
from dynid.exports.graph import Cost, Graph, Node
from dynid.exports.recursion import Recursion
from dynid.exports.subject import JointFriction, Subject
from dynid.exports.tree_state import linear_couplings
from dynid.models.friction import PLAIN_UNITS, find_block
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the C code: its outputs, one per joint, in its graph."""

    graph: Graph
    outputs: tuple[Node, ...]

    @property
    def cost(self) -> Cost:
        """Its operations."""
        return self.graph.cost(self.outputs)


@dataclass(frozen=True, eq=False)
class Customised:
    """A robot in modified Denavit-Hartenberg frames, and its base parameters, which are all that torques need.

    The base parameters stand in the place of the standard parameters that keep their names; all others are zero
    (Gautier 1991, conclusion of the part on QR): the same torques for fewer operations.
    """

    robot: Robot
    friction: JointFriction

    @staticmethod
    def of(subject: Subject) -> Customised:
        """Change the frames; loops that only numbers can close are refused."""
        if subject.robot.closures:
            raise ExportError(
                f"'{subject.robot.name}' has loops that are closed numerically; C code is for trees and couplings"
            )
        return Customised(subject.robot.to_mdh(), subject.friction)

    @cached_property
    def base(self) -> BaseParameters:
        """Base parameters in these frames."""
        return base_parameters(self.robot)

    @cached_property
    def base_values(self) -> Array:
        """Their values."""
        return self.base.values(self.robot.parameters)

    def with_base(self) -> Function:
        """Inverse dynamics with base parameters."""
        return self._inverse(dict(zip(self.base.names, map(float, self.base_values), strict=True)))

    def with_standard(self) -> Function:
        """Inverse dynamics with all standard parameters, to compare the cost."""
        return self._inverse(dict(zip(self.robot.parameter_names, map(float, self.robot.parameters), strict=True)))

    def _inverse(self, values: Mapping[str, float]) -> Function:
        g = Graph()
        return self._torques(g, {name: g.constant(x) for name, x in values.items()}, "q", "qd", "qdd")

    def gravity(self) -> Function:
        """Torques that hold the robot still."""
        g = Graph()
        values = zip(self.base.names, self.base_values, strict=True)
        return self._torques(g, {name: g.constant(float(x)) for name, x in values}, "q", None, None)

    def of_parameters(self) -> Function:
        """Regressor times base parameters, these being an argument."""
        g = Graph()
        return self._torques(g, {name: g.variable(f"X[{k}]") for k, name in enumerate(self.base.names)}, *_STATE)

    def _torques(
        self, g: Graph, parameters: Mapping[str, Node], q: str | None, v: str | None, a: str | None
    ) -> Function:
        robot = self.robot
        G, offset = linear_couplings(robot)
        positions = _mixed(g, G, offset, q, robot)
        speeds, rates = (_mixed(g, G, np.zeros(len(G)), name, robot) for name in (v, a))
        torque = Recursion(g, robot).torques(positions, speeds, rates, parameters)
        outputs = [
            g.sum([g.mul(g.constant(float(G[i, j])), torque[k]) for i, k in enumerate(robot.tree_joints)])
            for j in range(robot.n)
        ]
        return Function(g, tuple(outputs))

    def friction_function(self) -> Function:
        """Friction of all joints, through the motors where these drive several joints."""
        g, n = Graph(), self.robot.n
        T, scale = self.friction.transmission, self.friction.scale
        at_motor = [[g.sum([g.mul(g.constant(float(T[m, j])), g.variable(f"{x}[{j}]")) for j in range(n)])
                     for x in ("q", "qd")] for m in range(n)]  # fmt: skip
        motors = []
        for m, (q, v) in enumerate(at_motor):
            terms, row = [], 0
            for block in self.friction.blocks:
                factor = 1.0 if block in PLAIN_UNITS else 1.0 / float(scale[m])
                shape = _SHAPES[block](g, g.mul(g.constant(factor), q), g.mul(g.constant(factor), v))
                for column in shape:
                    terms.append(g.mul(g.constant(float(self.friction.values[row, m])), column))
                    row += 1
                assert len(shape) == len(find_block(block).symbols)
            motors.append(g.sum(terms))
        outputs = [g.sum([g.mul(g.constant(float(T[m, j])), motors[m]) for m in range(n)]) for j in range(n)]
        return Function(g, tuple(outputs))


_STATE = ("q", "qd", "qdd")


def _mixed(g: Graph, G: Array, offset: Array, name: str | None, robot: Robot) -> dict[int, Node]:
    nodes = {}
    for i, k in enumerate(robot.tree_joints):
        terms = [g.mul(g.constant(float(x)), g.variable(f"{name}[{j}]")) for j, x in enumerate(G[i])] if name else []
        nodes[k] = g.sum([*terms, g.constant(float(offset[i]))])
    return nodes


def _stribeck(g: Graph, v: Node) -> Node:
    ratio = g.mul(g.constant(2.0), v)
    return g.mul(g.call("exp", g.neg(g.mul(ratio, ratio))), g.call("sign", v))


def _sines(g: Graph, q: Node) -> Sequence[Node]:
    return g.call("sin", q), g.call("cos", q)


_SHAPES: dict[str, Callable[[Graph, Node, Node], Sequence[Node]]] = {
    "viscous": lambda g, q, v: (v,),
    "coulomb": lambda g, q, v: (g.call("sign", v),),
    "offset": lambda g, q, v: (g.constant(1.0),),
    "tanh": lambda g, q, v: (g.call("tanh", g.mul(g.constant(10.0), v)),),
    "quadratic": lambda g, q, v: (g.mul(v, g.call("fabs", v)),),
    "asymmetry": lambda g, q, v: (g.call("fabs", v),),
    "stribeck": lambda g, q, v: (_stribeck(g, v),),
    "spring": lambda g, q, v: (q,),
    "sine": lambda g, q, v: _sines(g, q),
    "sine2": lambda g, q, v: _sines(g, g.mul(g.constant(2.0), q)),
}
"""The friction blocks of `dynid.models.friction` that look at one sample, as expressions."""
