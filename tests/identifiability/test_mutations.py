"""Single deliberate faults in the rules, the recursion and the loops: another method notices every one.

A fault is a piece of source text and what stands there instead. A module with a fault is executed afresh, and so are
the modules that import from it; the rules with a fault are compared with the nullspace method as it is, the recursion
with a fault with the rules as they are. Base reactions and loops with a fault are compared with samples (QR), which
share no formula with them.

Not among the faults, because they change nothing: the order of rules 2 and 3 inside one link; in the recursion, the
common sign or a common factor of a whole row or twist, ad v of a slide left out, and Z_j left out of K_j where
torques are seen (no difference on 7000 robots).
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from campaign.loops import four_bar, slider_crank
from campaign.robots import special_robot

from dynid import DynidError, Robot, base_parameters
from dynid.identifiability.nullspace import find_by_nullspace
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.rules import find_by_rules
from dynid.robot.force_sensor import CHANNELS, ForceSensor
from dynid.robot.robot import Coupling
from rule_tables import ACROSS, DOWN, NONE, RIGHT, TILTED, fixed, row, slide

Method = Callable[[Robot, bool], Regrouping]
"""Regrouping of a robot, with or without rotor inertias."""


@dataclass(frozen=True)
class Fault:
    module: str
    what: str
    right: str
    wrong: str


RULES = (
    Fault("rules", "relation (15): sign of YY in XX", "minus = -ledger.numbers.one", "minus = ledger.numbers.one"),
    Fault(
        "rules",
        "relation (15): XX stays behind",
        "*ledger.in_parent_columns(j, XX, YY)]",
        "*ledger.in_parent_columns(j, YY)]",
    ),
    Fault("rules", "relation (15): MZ does not join", "MZ), ledger.in_parent_columns(j, MZ))", "MZ))"),
    Fault(
        "rules",
        "relation (16): inertia does not join",
        "symbol in ELEMENTS:\n        l",
        "symbol in (XX,):\n        l",
    ),
    Fault("rules", "relation (6): no factor 2", "ledger.numbers.two * dot(origin, axis)", "dot(origin, axis)"),
    Fault(
        "rules",
        "relation (6): ZZ of the parent",
        "(ledger.column_index(i, ZZ), ledg",
        "(ledger.column_index(parent, ZZ), ledg",
    ),
    Fault("rules", "relation (6): MX and MY swapped", "((MX, pose.x), (MY, pose.y))", "((MX, pose.y), (MY, pose.x))"),
    Fault("rules", "rule 2 for every slide", "if not (facts.between and facts.parallel):", "if not facts.between:"),
    Fault("rules", "rule 2 forgotten", "rule_1b, rule_2, rule_3", "rule_1b, rule_3"),
    Fault("rules", "Table 1: the first moment goes", "last = max(k for", "last = min(k for"),
    Fault("rules", "Table 1: sign", "-(axis[k] / axis[last])", "axis[k] / axis[last]"),
    Fault("rules", "Table 1: columns swapped", "-(axis[k] / axis[last])", "-(axis[last] / axis[k])"),
    Fault("rules", "rule 4: XZ stays", "drop_parameters(j, XX, XY, XZ, YZ)", "drop_parameters(j, XX, XY, YZ)"),
    Fault(
        "rules",
        "rule 5: MY stays",
        "        ledger.drop_parameters(j, MX, MY)\n",
        "        ledger.drop_parameters(j, MX)\n",
    ),
    Fault("rules", "rule 6: MZ stays", "drop_parameters(j, MX, MY, MZ)", "drop_parameters(j, MX, MY)"),
    Fault(
        "rules",
        "order of the table",
        "for j in reversed(ledger.robot.topological_order)",
        "for j in ledger.robot.topological_order",
    ),
    Fault(
        "rules",
        "rule 4 before rule 1",
        "rule_1a, rule_concurrent, rule_4, rule_5",
        "rule_4, rule_1a, rule_concurrent, rule_5",
    ),
    Fault(
        "rules",
        "rule by rule instead of link by link",
        """    for j in reversed(ledger.robot.topological_order):
        for rule in _RULES[ledger.robot.links[j].kind]:
""",
        """    for place in range(5):
        for j in reversed(ledger.robot.topological_order):
            rule = dict(enumerate(_RULES[ledger.robot.links[j].kind])).get(place, lambda ledger, j: None)
""",
    ),
    Fault("rules", "rotor of r2 always joins", "(facts.is_r2 and facts.perpendicular)", "facts.is_r2"),
    Fault("rules", "rotor of r2 never joins", " or (facts.is_r2 and facts.perpendicular)", ""),
    Fault("rules", "rotor of a slide: sign of the point mass", "[(column, -x) for column", "[(column, x) for column"),
    Fault("rules", "rotor of a slide: no point mass", "ledger.numbers.one), *mass]", "ledger.numbers.one)]"),
    Fault(
        "rules",
        "concurrent axes: sign for XZ",
        "(ledger.column_index(j, XZ), -height)",
        "(ledger.column_index(j, XZ), height)",
    ),
    Fault(
        "rules",
        "concurrent axes: XZ and YZ swapped",
        "(ledger.column_index(j, YZ), -height)",
        "(ledger.column_index(j, XZ), -height)",
    ),
    Fault("rules", "carried moment: no factor 2", "twice = numbers.two * dot(p, v)", "twice = dot(p, v)"),
    Fault("rules", "carried moment: a product left out", " - p[a] * v[b] - p[b] * v[a]", " - p[a] * v[b]"),
    Fault("rules", "carried mass: sign of a product", "else zero) - p[a] * p[b]", "else zero) + p[a] * p[b]"),
    Fault("rules", "carried product of inertia: half", "else u[a] * v[b] + u[b] * v[a]", "else u[a] * v[b]"),
    Fault("rules", "fixed link: mass stays behind", "for symbol in range(10):", "for symbol in range(9):"),
    Fault(
        "rules",
        "first columns not restored",
        "if rows.keys() >= set(prefer) and all(_is_reduced_row(kept, row, rows) for kept, row in rows.items()):",
        "if rows:",
    ),
    Fault(
        "rules",
        "along the axis at q = 0 only, R R R",
        "replace(walk, line=line, revolute=k)\n\n\ndef _pass_f",
        "replace(walk, revolute=k)\n\n\ndef _pass_f",
    ),
    Fault("rules", "along the axis at q = 0 only, R P R", "after if parallel else replace(after, line=None)", "after"),
    Fault(
        "rules", "along the axis at q = 0 only, P R", "if all(walk.is_along_z(s) for s in walk.slides) else None", ""
    ),
    Fault("rules", "meeting at q = 0 only", "replace(walk, centre=centre, revolute=k)", "replace(walk, revolute=k)"),
    Fault(
        "rules",
        "rule 5 without gravity at r1",
        " and walk.is_along_z(walk.gravity),\n        axis=z",
        ",\n        axis=z",
    ),
    Fault(
        "rules",
        "rule 5 without gravity after r1",
        " and walk.is_along_z(walk.gravity),\n        axis=walk",
        ",\n        axis=walk",
    ),
    Fault(
        "rules",
        "concurrent axes with gravity",
        "not walk.slides and all(walk.is_zero(g) for g in walk.gravity)",
        "not walk.slides",
    ),
    Fault("rules", "concurrent axes behind a slide", "not walk.slides and all", "all"),
    Fault("rules", "a slide keeps the meeting point", "walk.numbers.z), centre=None)", "walk.numbers.z))"),
    Fault("rules", "skew axes meet", "if not walk.is_zero(p[0] * a[1] - p[1] * a[0]):", "if p is None:"),
    Fault("rules", "meeting point: sign", "p[2] + t * a[2]", "p[2] - t * a[2]"),
    Fault(
        "rules",
        "parallel only at alpha = 0, not at 180",
        "if not walk.is_along_z(walk.axis):",
        "if not walk.is_along_z(walk.axis) or walk.axis[2].value < 0:",
    ),
    Fault("rules", "slide's rotor without the gravity condition", "walk.is_zero(walk.gravity[2]) and all", "all"),
    Fault(
        "rules",
        "slide's rotor without the slides before",
        " and all(walk.is_zero(s[2]) for s in walk.slides)\n    if",
        "\n    if",
    ),
    Fault("rules", "pose: sign of r", "turned(d, -r * sa, r * ca)", "turned(d, r * sa, r * ca)"),
    Fault("rules", "r2 counts as between", "is_r2=True,", "is_r2=True,\n        between=True,"),
)

RECURSION = (
    Fault("nullspace", "turn, ad: sign", "x if k in (WX, VX) else -x for", "x for"),
    Fault("nullspace", "turn, ad: sign of v", "x if k in (WX, VX) else -x for", "x if k in (WX, VY) else -x for"),
    Fault(
        "nullspace",
        "turn: no ad",
        "turning, {ahead[k]: x if k in (WX, VX) else -x for k, x in turning.items()}",
        "turning",
    ),
    Fault("nullspace", "turn: v alone, no ad^2", "return still, turning, {", "return v, {"),
    Fault("nullspace", "turn, D: sign", "-x if k in (XZ, MX) else x for", "x for"),
    Fault("nullspace", "turn, D: sign of MS", "-x if k in (XZ, MX) else x for", "-x if k in (XZ, MY) else x for"),
    Fault("nullspace", "turn: frequency 2 left out", "once, shifted, {XX: I, YY: -I}, {XY: I}", "once, shifted"),
    Fault(
        "nullspace",
        "turn: D alone, no D^2",
        "return once, shifted, {XX: I, YY: -I}, {XY: I}",
        "return shifted, {XY: I}",
    ),
    Fault("nullspace", "turn, D: frequency 2 without its phase", "{XX: I, YY: -I}, {XY: I}", "{XX: I, YY: -I}"),
    Fault("nullspace", "slide, ad: sign", "(VY, -v.get(WX, O))", "(VY, v.get(WX, O))"),
    Fault(
        "nullspace",
        "slide, D: no factor 2",
        "trace = 2 * (f.get(XX, O) + f.get(YY, O))",
        "trace = f.get(XX, O) + f.get(YY, O)",
    ),
    Fault("nullspace", "slide, D: sign of the trace", "MY: -f.get(YZ, O), MZ: trace", "MY: -f.get(YZ, O), MZ: -trace"),
    Fault("nullspace", "slide, D: sign of YZ", "MY: -f.get(YZ, O)", "MY: f.get(YZ, O)"),
    Fault("nullspace", "slide, D: XX only", "2 * (f.get(XX, O) + f.get(YY, O))", "2 * f.get(XX, O)"),
    Fault("nullspace", "slide: no D^2", "({M: trace} if abs(trace) >= ZERO else {})", "{}"),
    Fault("nullspace", "slide: no D", "return {k: x for k, x in first.items() if abs(x) >= ZERO}, (", "return {}, ("),
    Fault("nullspace", "e_j missing in K", "[_joint_inertia_row(kind)] if measured.torques else []", "[]"),
    Fault("nullspace", "e_j missing in Z", "if measured.torques and link.moves:", "if False:"),
    Fault(
        "nullspace",
        "own twist missing in V",
        '[{WZ if kind == "revolute" else VZ: I}] if measured.torques else []',
        "[]",
    ),
    Fault("nullspace", "gravity forgotten at the root", "if measured.torques and measured.gravity:", "if False:"),
    Fault("nullspace", "K_p A_j missing", "_rows_in_child_frame(parent.K, A_z)", "[]"),
    Fault("nullspace", "K_p not taken to the link", "_rows_in_child_frame(parent.K, A_z)", "parent.K"),
    Fault("nullspace", "V_p not taken to the link", "_twists_in_child_frame(parent.V, R_z, p_z)", "parent.V"),
    Fault(
        "nullspace",
        "V_p: sign of w x p",
        "v[i] + w[(i + 1) % 3] * p[(i + 2) % 3] - w",
        "v[i] - w[(i + 1) % 3] * p[(i + 2) % 3] + w",
    ),
    Fault("nullspace", "Ia row missing", "rows[-1] | {IA: I}", "rows[-1]"),
    Fault("nullspace", "moment: sign of MY", "{MY: -v[VX]}", "{MY: v[VX]}"),
    Fault("nullspace", "force: sign of MX", "{MX: -v[WY]}", "{MX: v[WY]}"),
    Fault("nullspace", "A_j: no factor 2", "dot(p, Rt[c]) * 2", "dot(p, Rt[c])"),
    Fault("nullspace", "A_j: sign of a product of M", "(pp if i == k else O) - p", "(pp if i == k else O) + p"),
    Fault(
        "nullspace", "A_j: half a product of inertia", "R[i][a] * R[k][b] + R[i][b] * R[k][a])", "R[i][a] * R[k][b])"
    ),
    Fault("nullspace", "handed on: sign", "return {m: -x for m", "return {m: x for m"),
    Fault("nullspace", "handed on: kept columns too", "    if k not in G.rows:\n", "    if G:\n"),
    Fault("nullspace", "nothing reaches the parent", "if parent >= 0:", "if parent > 0:"),
    Fault("nullspace", "known zeros are kept", " if place[i] not in left_out)", ")"),
)


REACTIONS = (
    Fault("nullspace", "weight: sign of a moment", "g[(i + 2) % 3], -g[(i + 1) % 3]", "g[(i + 2) % 3], g[(i + 1) % 3]"),
    Fault("nullspace", "weight: force left out", "rows.append(sparse_row([O] * 9 + [g[i]]))", "pass"),
    Fault(
        "nullspace",
        "weight not kept constant",
        "_Spaces(_echelon_basis(V, 6, _ALL_TWISTS), weight_rows(robot, measured))",
        "_Spaces(_echelon_basis(V, 6, _ALL_TWISTS), [])",
    ),
    Fault(
        "nullspace",
        "forces taken for moments",
        "(VX if is_force_channel(channel) else WX)",
        "(WX if is_force_channel(channel) else VX)",
    ),
    Fault(
        "nullspace",
        "no tare",
        "weights = [] if tared else weight_rows(robot, measured)",
        "weights = weight_rows(robot, measured)",
    ),
    Fault("nullspace", "always tared", "weights = [] if tared else weight_rows(robot, measured)", "weights = []"),
    Fault(
        "nullspace",
        "e_j seen by the base: K",
        "[_joint_inertia_row(kind)] if measured.torques else []",
        "[_joint_inertia_row(kind)]",
    ),
    Fault(
        "nullspace",
        "own twist seen by the base",
        '[{WZ if kind == "revolute" else VZ: I}] if measured.torques else []',
        '[{WZ if kind == "revolute" else VZ: I}]',
    ),
    Fault("nullspace", "e_j seen by the base: Z", "if measured.torques and link.moves:", "if link.moves:"),
    Fault(
        "nullspace",
        "torques beside the plate forgotten",
        'torques=model != "reaction", channels',
        "torques=False, channels",
    ),
)

LOOPS = (
    Fault("loops", "energy: sign of a moment", "cross(va, wb) + cross(vb, wa)", "cross(va, wb) - cross(vb, wa)"),
    Fault("loops", "energy: half a product of inertia", " + (products[..., j, i] if i != j else 0)", ""),
    Fault("loops", "energy: mass left out", "(va * vb).sum(axis=-1)", "0 * (va * vb).sum(axis=-1)"),
    Fault("loops", "weight: sign of a moment", "moments = cross(g, w)", "moments = cross(w, g)"),
    Fault("loops", "weight: mass left out", "(g * v).sum(axis=-1)", "0 * (g * v).sum(axis=-1)"),
    Fault("loops", "velocity: sign of w x p", "v[up] + cross(w[up]", "v[up] - cross(w[up]"),
    Fault("loops", "gravity not turned", "g[k] = (g[up][:, None] @ R)[:, 0]", "g[k] = g[up]"),
    Fault("loops", "weights forgotten", "if self.weighed:\n", "if False:\n"),
    Fault(
        "loops",
        "mass matrix: diagonal only",
        "for i in own for j in own if i <= j] if torques",
        "for i in own for j in own if i == j] if torques",
    ),
    Fault(
        "loops",
        "momenta of the base forgotten",
        "for i in measured for j in joints] if reactions",
        "for i in measured for j in joints] if False",
    ),
    Fault(
        "loops",
        "rotor seen twice",
        "out[:, row, self.offsets + column] = ball_of_rational(1)",
        "out[:, row, self.offsets + column] = ball_of_rational(2)",
    ),
    Fault("loops", "no tare", "self.offsets = len(measured) if question.tared else 0", "self.offsets = 0"),
    Fault(
        "loops",
        "torques forgotten beside the plate",
        'torques = "reaction" in model, model != "reaction"',
        'torques = "reaction" in model, "reaction" not in model',
    ),
    Fault(
        "loops",
        "weight of the base forgotten",
        "weighed = [*(measured if reactions else ())",
        "weighed = [*(() if reactions else ())",
    ),
    Fault(
        "loops", "slides move nothing", 'moved = w[k] if robot.links[k].kind == "revolute" else v[k]', "moved = w[k]"
    ),
    Fault("loops", "relations not reduced", "if other > pivot:", "if other < 0:"),
    Fault("loop_geometry", "followers: sign", "follow = -solve_at_positions(", "follow = solve_at_positions("),
    Fault(
        "loop_geometry",
        "followers forgotten",
        "self.C[:, : self.n] + self.C[:, self.n :] @ follow",
        "self.C[:, : self.n]",
    ),
    Fault(
        "loop_geometry",
        "couplings: factors forgotten",
        "C[row, place[name]] = ball_of_rational(factor)",
        "C[row, place[name]] = ball_of_rational(1)",
    ),
    Fault(
        "loop_geometry", "turns: sign", "unit + s[:, None, None] * K + (1 - c)", "unit - s[:, None, None] * K + (1 - c)"
    ),
    Fault("loop_geometry", "turns: no second term", " + (1 - c)[:, None, None] * (K @ K)", ""),
    Fault(
        "loop_geometry",
        "slides stay",
        "t = t + q[:, joint[k], None] * (self.R[k] @ self.axis[k])",
        "t = t + 0 * q[:, joint[k], None]",
    ),
)


def corners() -> Iterator[Robot]:
    """Robots on which one rule or one condition decides."""
    tables: tuple[tuple[tuple[float, ...], tuple[dict[str, Any], ...]], ...] = (
        (NONE, (row(), row(alpha=RIGHT), row(alpha=-RIGHT, r=-0.2))),  # spherical wrist
        (NONE, (row(), row(alpha=RIGHT, r=0.3), row(alpha=-RIGHT, r=-0.2))),
        (NONE, (row(), row(alpha=RIGHT), row(alpha=RIGHT, d=0.3), row(alpha=RIGHT, d=-0.3))),  # meet at q = 0
        (NONE, (row(), row(alpha=0.5, r=0.3))),
        (NONE, (row(), row(gamma=0.2, b=0.4, alpha=0.5, r=0.3))),
        (NONE, (row(), row(alpha=RIGHT, d=0.2))),  # skew
        (NONE, (row(), row(alpha=RIGHT, d=-0.3, theta=-RIGHT / 2), slide(gamma=RIGHT, alpha=-RIGHT / 2, d=0.3))),
        (NONE, (row(), slide(alpha=RIGHT, theta=0.5), slide(gamma=-0.5, alpha=-RIGHT))),  # parallel to r1 again
        (NONE, (row(), fixed(alpha=0.4, d=0.3), row(alpha=RIGHT, theta=0.1, d=-0.3))),
        (NONE, (row(), slide(), row(alpha=RIGHT))),
        (NONE, (row(), row(alpha=RIGHT), slide(), row(alpha=RIGHT))),
        (DOWN, (row(), row(alpha=RIGHT), row(alpha=-RIGHT))),
        (DOWN, (row(), row(d=0.5), row(d=-0.5))),
        (DOWN, (row(), slide(d=0.5), row(d=-0.5))),
        (DOWN, (row(), slide(alpha=RIGHT), row(alpha=-RIGHT))),
        (DOWN, (slide(alpha=RIGHT), row(alpha=-RIGHT))),
        (DOWN, (row(alpha=RIGHT),)),
        (ACROSS, (row(), row(d=0.4))),
        (ACROSS, (row(), row())),
        (DOWN, (row(), row(alpha=math.pi, d=0.5))),
        (DOWN, (row(), row(alpha=0.7, d=0.2), row(alpha=RIGHT))),
        (DOWN, (slide(),)),
        (NONE, (slide(), slide(d=0.2))),
        (NONE, (slide(alpha=RIGHT), slide(alpha=RIGHT, theta=RIGHT), slide(alpha=0.5))),
        (NONE, (row(), slide(d=0.3))),
        (ACROSS, (row(), slide(d=0.3), row(alpha=RIGHT))),
        (TILTED, (row(), slide(alpha=math.pi, d=0.3, theta=0.4), slide(d=0.2, theta=0.1))),
        (TILTED, (row(), slide(alpha=0.6, d=0.2), slide(alpha=-0.6, d=0.1))),
        (DOWN, (row(), slide(alpha=0.5))),
        (DOWN, (row(), slide(alpha=RIGHT, theta=0.5))),
        (DOWN, (row(), slide(alpha=0.5, theta=0.3), row(alpha=0.4, d=0.1), row(alpha=RIGHT, r=0.2))),
        (TILTED, (row(), row(alpha=RIGHT, d=0.1), fixed(alpha=0.3, d=0.2, theta=0.1, r=0.4))),
        (TILTED, (row(), fixed(d=0.2, r=0.1), slide(d=0.1), row(d=0.2))),
    )
    for k, (gravity, rows) in enumerate(tables):
        yield Robot.from_mdh(rows, gravity=gravity, name=f"corner-{k}")
    robot = special_robot(4)
    zeros = (frozenset({"XX", "ZZ", "MX"}), frozenset({"MY", "M"}), frozenset({"Ia"}))
    links = tuple(replace(link, zero=zeros[k % 3]) for k, link in enumerate(robot.links))
    yield replace(robot, links=links, name="known-zeros")


@dataclass(frozen=True)
class Sensed:
    """A robot and a model of its base parameters."""

    robot: Robot
    model: str
    rotors: bool
    tared: bool


def on_plates() -> Iterator[Sensed]:
    """Trees on a force plate with all or some channels, a third of them with torques, too."""
    rng = np.random.default_rng(0)
    for seed in range(60):
        robot, model = special_robot(seed, most=4), "torque+reaction" if seed % 3 == 0 else "reaction"
        some = tuple(name for name in CHANNELS if rng.random() < 0.4)
        sensor = ForceSensor(channels=some) if some else None
        yield Sensed(robot.with_sensor(sensor), model, seed % 4 < 2, seed % 5 < 2)


def with_loops() -> Iterator[Sensed]:
    """Mechanisms with a loop or couplings under several models: small ones first."""
    crank = slider_crank(0.2, 0.7, 0.1, at=0.9, gravity=(2.0, -9.0, 0.0))
    bars = four_bar(1.0, 0.37, 0.83, 0.71, at=1.1)
    geared = Robot.from_mdh(
        [row(), row(alpha=RIGHT, d=0.3, r=0.1), slide(alpha=0.4, d=0.2), row(alpha=RIGHT, d=0.1)], gravity=TILTED
    )
    geared = replace(geared, couplings=(Coupling("4", (("2", -2.0),)), Coupling("3", (("1", 0.5),))))
    assert bars is not None
    for robot in (geared, crank, bars):
        for model in ("torque", "momentum", "reaction", "torque+reaction"):
            yield Sensed(robot, model, True, False)
    yield Sensed(geared, "reaction", False, True)
    yield Sensed(crank, "torque+reaction", False, True)


@lru_cache(maxsize=2)
def sensed(kind: Callable[[], Iterator[Sensed]]) -> tuple[tuple[Sensed, Regrouping], ...]:
    """Robots of a kind and what samples say of them."""
    return tuple(
        (x, base_parameters(x.robot, model=x.model, method="qr", rotor_inertia=x.rotors, tared=x.tared).regrouping)
        for x in kind()
    )


def noticed_by_samples(find: Callable[[Sensed], Regrouping], kind: Callable[[], Iterator[Sensed]]) -> str | None:
    """First robot on which a method disagrees with samples; None where it agrees on all of them."""
    for x, right in sensed(kind):
        try:
            found = find(x)
        except (DynidError, LookupError, ArithmeticError, ValueError, AssertionError) as error:
            return f"{x}: {error!r}"
        if found.kept != right.kept or not np.allclose(found.matrix, right.matrix, rtol=0.0, atol=1e-6):
            return f"{x}"
    return None


def reactions_with(fault: Fault | None) -> Callable[[Sensed], Regrouping]:
    nullspace = with_fault(fault, "nullspace")

    def find(x: Sensed) -> Regrouping:
        channels = None if x.robot.sensor is None else x.robot.sensor.channels
        found: Regrouping = nullspace.find_by_nullspace(
            x.robot, model=x.model, rotor_inertia=x.rotors, tared=x.tared, channels=channels
        )
        return found

    return find


def loops_with(fault: Fault | None) -> Callable[[Sensed], Regrouping]:
    loops = with_fault(fault, "loop_geometry", "loops")
    return lambda x: loops.find_by_ball_arithmetic(x.robot, x.model, x.rotors, x.tared).regrouping


@lru_cache(maxsize=1)
def robots() -> tuple[tuple[Robot, bool], ...]:
    """Robots with and without rotor inertias; corner cases first."""
    written = [(robot, rotors) for robot in corners() for rotors in (True, False)]
    return (*written, *((special_robot(seed), seed % 2 == 0) for seed in range(60)))


def by_rules(robot: Robot, rotors: bool) -> Regrouping:
    return find_by_rules(robot, rotor_inertia=rotors).regrouping


def by_nullspace(robot: Robot, rotors: bool) -> Regrouping:
    return find_by_nullspace(robot, rotor_inertia=rotors)


@cache
def expected(method: Method, k: int) -> Regrouping:
    """What the method without a fault finds for robot k."""
    return method(*robots()[k])


def noticed(found_by: Method, reference: Method) -> str | None:
    """First robot on which a method errs, and how; None where it agrees on all of them."""
    for k, (robot, rotors) in enumerate(robots()):
        right = expected(reference, k)
        try:
            found = found_by(robot, rotors)
        except (LookupError, ArithmeticError, ValueError, AssertionError) as error:  # no NameError: a slip of the fault
            return f"{robot.name}: {error!r}"
        if found.kept != right.kept:
            return f"{robot.name}: kept columns {sorted(set(found.kept) ^ set(right.kept))}"
        if not np.allclose(found.matrix, right.matrix, rtol=0.0, atol=1e-9):
            return f"{robot.name}: coefficients"
    return None


def with_fault(fault: Fault | None, *names: str) -> types.ModuleType:
    """Last of some modules, all executed afresh in this order, so that it imports the fault from those before it."""
    assert fault is None or fault.module in names
    with pytest.MonkeyPatch.context() as patch:
        for name in (f"dynid.identifiability.{name}" for name in names):
            source = inspect.getsource(importlib.import_module(name))
            if fault is not None and name == f"dynid.identifiability.{fault.module}":
                assert source.count(fault.right) == 1, f"'{fault.right}' is not once in {name}: write this fault anew"
                source = source.replace(fault.right, fault.wrong)
            module = types.ModuleType(name)
            patch.setitem(sys.modules, name, module)
            exec(compile(source, f"<{name}, executed afresh>", "exec"), module.__dict__)
    return module


def rules_with(fault: Fault | None) -> Method:
    rules = with_fault(fault, "rules")
    return lambda robot, rotors: rules.find_by_rules(robot, rotor_inertia=rotors).regrouping


def nullspace_with(fault: Fault | None) -> Method:
    nullspace = with_fault(fault, "nullspace")
    return lambda robot, rotors: nullspace.find_by_nullspace(robot, rotor_inertia=rotors)


@pytest.mark.parametrize("fault", RULES, ids=lambda fault: fault.what)
def test_a_fault_in_the_rules_is_noticed(fault: Fault) -> None:
    assert noticed(rules_with(fault), by_nullspace) is not None


@pytest.mark.parametrize("fault", RECURSION, ids=lambda fault: fault.what)
def test_a_fault_in_the_recursion_is_noticed(fault: Fault) -> None:
    assert noticed(nullspace_with(fault), by_rules) is not None


@pytest.mark.parametrize("fault", REACTIONS, ids=lambda fault: fault.what)
def test_a_fault_in_base_reactions_is_noticed(fault: Fault) -> None:
    assert noticed_by_samples(reactions_with(fault), on_plates) is not None


@pytest.mark.parametrize("fault", LOOPS, ids=lambda fault: fault.what)
def test_a_fault_in_loops_is_noticed(fault: Fault) -> None:
    assert noticed_by_samples(loops_with(fault), with_loops) is not None


def test_without_a_fault_nothing_is_noticed() -> None:
    assert noticed_by_samples(reactions_with(None), on_plates) is None
    assert noticed_by_samples(loops_with(None), with_loops) is None
    assert noticed(rules_with(None), by_nullspace) is None
    assert noticed(nullspace_with(None), by_rules) is None


def test_faults_are_single_and_each_is_another_one() -> None:
    assert len({(fault.right, fault.wrong) for fault in RULES}) == len(RULES) >= 16
    assert len({(fault.right, fault.wrong) for fault in RECURSION}) == len(RECURSION) >= 8
    assert len({(fault.right, fault.wrong) for fault in REACTIONS}) == len(REACTIONS) >= 8
    assert len({(fault.right, fault.wrong) for fault in LOOPS}) == len(LOOPS) >= 16
