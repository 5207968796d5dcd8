"""Expressions as a graph in which equal parts are one node, and what is zero never appears.

Every operation goes through a constructor that folds constants and drops zeros and ones; a node that exists already is
handed out again (hash-consing), so common subexpressions cost nothing. Negation moves outwards until an addition
swallows it. Additions and multiplications that remain are the cost of the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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
            raise ValueError(f"{number} is no constant of an expression")
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
