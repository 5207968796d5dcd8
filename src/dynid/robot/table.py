"""Robot tables: TOML files and rows of mappings in modified or standard Denavit-Hartenberg notation."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DynidError, ExpressionError, RobotFileError
from dynid.robot.expression import Expression, evaluate, parse_expression, symbols_of
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.force_sensor_file import sensor_of
from dynid.robot.inertia import change_of_frame
from dynid.robot.joint_column import JointColumn
from dynid.robot.limits import JointLimits
from dynid.robot.link_values import LinkValues, read_link_values
from dynid.robot.loops import Closure, Coupling
from dynid.robot.mdh import Z_AXIS, mdh_transform, moved_zeros
from dynid.robot.robot import Link, MdhRow, Robot
from dynid.robot.schema import ClosureTable, CouplingTable, JointTable, LinkTable, RobotTable, check_table
from dynid.robot.snapping import Snapped, tell_snapped
from dynid.robot.transform import Transform, freeze, rotation_x, snap_angle
from dynid.robot.unknown_entries import loose_letters, read_unknown

_ANGLES = ("gamma", "alpha", "theta")
_LETTERS = {"modified": ("gamma", "b", "alpha", "d", "theta", "r"), "standard": ("a", "alpha", "d", "theta")}
_LARGEST_TURN = 8 * math.pi
"""A revolute joint's limit beyond this (rad) was surely meant in degrees."""


def read_table(path: Path, *, snap: bool = True) -> Robot:
    """Read a TOML table; all mistakes are reported at once."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RobotFileError(str(path), [f"not a TOML file: {error}"]) from error
    except OSError as error:
        raise RobotFileError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    return build_robot(data, file=str(path), name=path.stem, snap=snap)


def robot_from_rows(rows: Any, *, gravity: Any, symbols: Mapping[str, float], name: str) -> Robot:
    """Robot of rows in modified notation, angles in rad, nothing snapped."""
    joints = [{k: _plain(v) for k, v in dict(row).items()} for row in rows]
    gravity = [float(x) for x in np.asarray(gravity, dtype=np.float64).ravel()]
    values = {str(k): float(v) for k, v in symbols.items()}
    data = {"name": name, "gravity": gravity, "symbols": values, "joint": joints}
    return build_robot(data, file=f"the table of '{name}'", name=name, snap=False)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def build_robot(data: object, *, file: str, name: str, snap: bool) -> Robot:
    """Robot of a parsed table, or RobotFileError with everything that is wrong with it."""
    table, problems = check_table(data)
    if table is None:
        raise RobotFileError(file, problems)
    robot = _Builder(table, snap).build(name)
    if isinstance(robot, list):
        raise RobotFileError(file, robot)
    return robot


@dataclass
class _Builder:
    """Turns a checked table into a Robot, collecting the mistakes that only the whole table shows."""

    table: RobotTable
    snap: bool
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    snapped: list[Snapped] = field(default_factory=list)

    def build(self, name: str) -> Robot | list[str]:
        table = self.table
        self.names = [joint.name or str(j) for j, joint in enumerate(table.joint, 1)]
        self._check_names()
        parents = [self._parent(j, joint) for j, joint in enumerate(table.joint)]
        self._check_cycles(parents)
        for symbol in table.symbols:
            self._check_symbol(symbol)
        rows = self._rows(parents)
        limits = [self._limits(j, joint) for j, joint in enumerate(table.joint)]
        couplings = tuple(self._coupling(k, c) for k, c in enumerate(table.coupling, 1))
        closures = tuple(self._closure(k, c) for k, c in enumerate(table.closure, 1))
        self._check_passive(couplings, closures)
        columns = self._columns(couplings, closures)
        sensor = self._sensor(couplings, closures)
        values = [self._link_values(j) for j in range(len(table.joint))]
        nominal = read_unknown(table, self.names, parents, self.problems)
        for unknown in set(table.link) - set(self.names):
            self.problems.append(f"link.{unknown}: no joint has this name; joints are {', '.join(self.names)}")
        if all(joint.type == "fixed" for joint in table.joint):
            self.problems.append("joint: no joint moves; give at least one type 'revolute' or 'prismatic'")
        if self.problems:
            return self.problems
        links = tuple(
            Link(
                name=self.names[j],
                joint=self.names[j],
                label=str(j + 1),
                parent=parents[j],
                kind=joint.type,
                placement=mdh_transform(rows[j]),
                axis=Z_AXIS,
                inertia=freeze(values[j].inertia),
                rotor=values[j].rotor,
                zero=values[j].zero,
                limits=limits[j],
                mdh=rows[j],
                friction=values[j].friction,
            )
            for j, joint in enumerate(table.joint)
        )
        return Robot(
            name=table.name or name,
            links=links,
            gravity=freeze(table.gravity),
            couplings=couplings,
            closures=closures,
            symbols=dict(table.symbols),
            source=table.source,
            notes=(*self.notes, *tell_snapped(self.snapped)),
            columns=columns,
            sensor=sensor,
            unknown=nominal,
        )

    def _columns(self, couplings: tuple[Coupling, ...], closures: tuple[Closure, ...]) -> tuple[JointColumn, ...]:
        """Torques of known shape; positions are angles as the file gives them."""
        active = self._active(couplings, closures)
        columns = []
        for k, column in enumerate(self.table.column, 1):
            of = column.of or column.joint
            strangers = [name for name in (column.joint, of) if name not in active]
            if strangers:
                self.problems.append(f"column {k}: no active joint '{strangers[0]}'; they are {', '.join(active)}")
                continue
            turns = self.table.joint[self.names.index(of)].type == "revolute"
            scale = math.pi / 180.0 if turns and self.table.angles == "deg" else 1.0
            try:
                columns.append(
                    JointColumn(
                        column.name, column.joint, of, scale * np.array(column.positions), np.array(column.torque)
                    )
                )
            except DynidError as error:
                self.problems.append(f"column {k}: {error}")
        names = [column.name for column in columns]
        for name in dict.fromkeys(n for n in names if names.count(n) > 1):
            self.problems.append(f"column: two columns are named '{name}'; give each its own name")
        return tuple(columns)

    def _active(self, couplings: tuple[Coupling, ...], closures: tuple[Closure, ...]) -> list[str]:
        passive = {c.passive for c in couplings}.union(*(c.passive for c in closures))
        pairs = zip(self.names, self.table.joint, strict=True)
        return [name for name, joint in pairs if joint.type != "fixed" and name not in passive]

    def _sensor(self, couplings: tuple[Coupling, ...], closures: tuple[Closure, ...]) -> ForceSensor | None:
        if self.table.sensor is None:
            return None
        active = self._active(couplings, closures)
        for rotor in self.table.sensor.rotor:
            if rotor.joint not in active:
                self.problems.append(f"sensor.rotor: no active joint '{rotor.joint}'; they are {', '.join(active)}")
        try:
            return sensor_of(self.table.sensor, degrees=self.table.angles == "deg")
        except DynidError as error:
            self.problems.append(f"sensor: {error}")
            return None

    def _check_names(self) -> None:
        for name in dict.fromkeys(n for n in self.names if self.names.count(n) > 1):
            self.problems.append(f"joint: two joints are named '{name}'; give each its own name")

    def _check_symbol(self, symbol: str) -> None:
        try:
            valid = symbols_of(parse_expression(symbol)) == (symbol,)
        except ExpressionError:
            valid = False
        if not valid:
            self.problems.append(f"symbols: '{symbol}' cannot be a symbol; use a letter, then letters and digits")

    def _parent(self, j: int, joint: JointTable) -> int:
        """Index of the parent link, -1 for the base."""
        where = f"joint {j + 1} ('{self.names[j]}'), parent"
        match joint.parent:
            case None:
                return j - 1
            case int(number) if 0 <= number <= len(self.names):
                parent = number - 1
            case str(name) if name in self.names:
                parent = self.names.index(name)
            case other:
                self.problems.append(
                    f"{where}: there is no joint {other!r}; use 0 for the base, 1 to {len(self.names)}, or a name"
                )
                return -1
        if parent == j:
            self.problems.append(f"{where}: a joint cannot be its own parent")
            return -1
        return parent

    def _check_cycles(self, parents: Sequence[int]) -> None:
        for j in range(len(parents)):
            seen, k = [j], parents[j]
            while k != -1 and k not in seen:
                seen.append(k)
                k = parents[k]
            if k == j:
                cycle = " -> ".join(self.names[i] for i in reversed([*seen, j]))
                if j == min(seen):
                    self.problems.append(f"joint {j + 1} ('{self.names[j]}'), parent: the joints form a cycle {cycle}")

    def _rows(self, parents: Sequence[int]) -> list[MdhRow]:
        """Modified rows; those of a standard table are converted (a, alpha of a row belong to the next joint)."""
        raw = [self._raw_row(j, joint) for j, joint in enumerate(self.table.joint)]
        if self.table.convention == "modified":
            return [MdhRow(**row) for row in raw]
        zero = Expression(0.0)
        rows = []
        for j, row in enumerate(raw):
            before = raw[parents[j]] if parents[j] >= 0 else {"a": zero, "alpha": zero}
            rows.append(MdhRow(zero, zero, before["alpha"], before["a"], row["theta"], row["d"]))
        return rows

    def _raw_row(self, j: int, joint: JointTable) -> dict[str, Expression]:
        letters = _LETTERS[self.table.convention]
        for key in {"gamma", "b", "r", "a"} & joint.model_fields_set - set(letters):
            self.problems.append(
                f"joint {j + 1} ('{self.names[j]}'), {key}: not a letter of convention = "
                f'"{self.table.convention}", which has {", ".join(letters)}'
            )
        row = {}
        for letter in letters:
            where = f"joint {j + 1} ('{self.names[j]}'), {letter}"
            value = getattr(joint, letter)
            row[letter] = self._angle(where, value) if letter in _ANGLES else self._number(where, value)
        return row

    def _number(self, where: str, value: float | str) -> Expression:
        if isinstance(value, float):
            return Expression(value)
        try:
            number = evaluate(value, self.table.symbols)
            text = value.strip() if symbols_of(parse_expression(value)) else None
        except ExpressionError as error:
            self.problems.append(f"{where}: {error}")
            return Expression(0.0)
        return Expression(number, text)

    def _angle(self, where: str, value: float | str, *, largest: float = 2 * math.pi + 1e-9) -> Expression:
        """Angle in rad; near multiples of 90 degrees it is snapped, with a note."""
        number = self._number(where, value)
        degrees = self.table.angles == "deg"
        if not degrees and abs(number.value) > largest:
            self.problems.append(
                f'{where}: {number.value:g} rad is more than a turn, surely degrees; write angles = "deg" in the file'
            )
        angle = _radians(number.value) if degrees else number.value
        if self.snap and (snapped := snap_angle(angle)) != angle:
            if abs(snapped - angle) > 1e-12:
                note = f"{where}: {angle:.9g} rad taken for {math.degrees(snapped):g} degrees; snap=False keeps it"
                self.snapped.append(Snapped(where, abs(snapped - angle), note))
            angle = snapped
        return Expression(angle, number.text, degrees and number.text is not None)

    def _limits(self, j: int, joint: JointTable) -> JointLimits:
        limits, where = joint.limits, f"joint {j + 1} ('{self.names[j]}'), limits"
        factor = math.pi / 180 if self.table.angles == "deg" and joint.type == "revolute" else 1.0
        lower, upper = (x * factor for x in limits.position) if limits.position else (-math.inf, math.inf)
        if lower >= upper:
            self.problems.append(f"{where}.position: the lower limit {lower:g} is not below the upper {upper:g}")
        if joint.type == "revolute" and math.isfinite(upper) and max(-lower, upper) > _LARGEST_TURN:
            self.problems.append(
                f'{where}.position: {max(-lower, upper):g} rad is surely meant in degrees; write angles = "deg"'
            )
        for name in ("velocity", "acceleration", "effort"):
            value = getattr(limits, name)
            if value is not None and value <= 0.0:
                self.problems.append(f"{where}.{name}: must be positive, got {value:g}")
        return JointLimits(
            lower,
            upper,
            math.inf if limits.velocity is None else limits.velocity * factor,
            math.inf if limits.acceleration is None else limits.acceleration * factor,
            math.inf if limits.effort is None else limits.effort,
        )

    def _moving(self, where: str, name: str) -> bool:
        if name not in self.names:
            self.problems.append(f"{where}: there is no joint '{name}'; joints are {', '.join(self.names)}")
            return False
        if self.table.joint[self.names.index(name)].type == "fixed":
            self.problems.append(f"{where}: joint '{name}' is fixed and cannot be coupled")
            return False
        return True

    def _coupling(self, k: int, coupling: CouplingTable) -> Coupling:
        where = f"coupling {k}"
        self._moving(f"{where}, passive", coupling.passive)
        for name in coupling.of:
            self._moving(f"{where}, of", name)
        if coupling.passive in coupling.of:
            self.problems.append(f"{where}: joint '{coupling.passive}' is coupled with itself; leave it out of 'of'")
        turns = self._joint_type(coupling.passive) == "revolute"
        where += ", offset"
        offset = self._number(where, coupling.offset)
        if turns:
            offset = self._angle(where, coupling.offset, largest=_LARGEST_TURN)
        return Coupling(coupling.passive, tuple((n, f) for n, f in coupling.of.items()), offset.value)

    def _joint_type(self, name: str) -> str:
        return self.table.joint[self.names.index(name)].type if name in self.names else "revolute"

    def _closure(self, k: int, closure: ClosureTable) -> Closure:
        where = f"closure {k}"
        for name in closure.frames:
            if name not in self.names:
                self.problems.append(f"{where}, frames: there is no joint '{name}'; joints are {', '.join(self.names)}")
        for name in closure.passive:
            self._moving(f"{where}, passive", name)
        if len(set(closure.keep)) != len(closure.passive) or len(closure.keep) != len(closure.passive):
            self.problems.append(
                f"{where}: keeps {len(set(closure.keep))} directions with {len(closure.passive)} passive joints; "
                "give as many of one as of the other"
            )
        points = [[self._number(f"{where}, points", x).value for x in p] for p in closure.points or [[0.0] * 3] * 2]
        if any(len(point) != 3 for point in points):
            self.problems.append(f"{where}, points: each point needs three coordinates")
            points = [[0.0] * 3] * 2
        start = self._positions(where, closure.start, closure.passive, "start") or [0.0] * len(closure.passive)
        active = [n for n in self.names if n not in self._passive_names() and self._joint_type(n) != "fixed"]
        at = self._positions(where, closure.at, active, "at")
        return Closure(
            (closure.frames[0], closure.frames[1]),
            tuple(closure.keep),
            tuple(closure.passive),
            (freeze(points[0]), freeze(points[1])),
            freeze(start),
            None if at is None else freeze(at),
        )

    def _passive_names(self) -> set[str]:
        names = {c.passive for c in self.table.coupling}
        return names.union(*(c.passive for c in self.table.closure))

    def _positions(
        self, where: str, values: list[float | str] | None, joints: Sequence[str], key: str
    ) -> list[float] | None:
        """Joint positions, angles in the file's unit."""
        if values is None:
            return None
        if len(values) != len(joints):
            self.problems.append(f"{where}, {key}: {len(values)} values for {len(joints)} joints ({', '.join(joints)})")
            return None
        turn = math.pi / 180 if self.table.angles == "deg" else 1.0
        return [
            self._number(f"{where}, {key}", x).value * (turn if self._joint_type(name) == "revolute" else 1.0)
            for x, name in zip(values, joints, strict=True)
        ]

    def _check_passive(self, couplings: Sequence[Coupling], closures: Sequence[Closure]) -> None:
        passive = [c.passive for c in couplings] + [name for c in closures for name in c.passive]
        for name in dict.fromkeys(n for n in passive if passive.count(n) > 1):
            self.problems.append(f"joint '{name}' is made passive twice; one coupling or closure is enough")
        moving = [n for n, joint in zip(self.names, self.table.joint, strict=True) if joint.type != "fixed"]
        if moving and set(moving) <= set(passive):
            self.problems.append("every joint is passive; leave at least one active")
        coupled = {c.passive: [name for name, _ in c.factors] for c in couplings}
        for name in coupled:
            seen, todo = set(), list(coupled[name])
            while todo:
                other = todo.pop()
                if other not in seen:
                    seen.add(other)
                    todo += coupled.get(other, [])
            if name in seen and name not in coupled[name]:
                self.problems.append(
                    f"coupling: joint '{name}' depends on itself through {', '.join(sorted(seen - {name}))}"
                )

    def _link_values(self, j: int) -> LinkValues:
        """Values of a link; those of a standard table refer to its own frame, Tx(a) Rx(alpha) after ours."""
        name, joint = self.names[j], self.table.joint[j]
        where = f"link.{name}"
        values = read_link_values(where, self.table.link.get(name, LinkTable()), self.problems)
        if self.table.convention == "modified":
            return values
        a, alpha = self._number(where, joint.a).value, self._angle(where, joint.alpha).value
        moved = values.moved(Transform(rotation_x(alpha), np.array([a, 0.0, 0.0])), where, self.problems)
        loose = loose_letters(self.table, j)
        other = Transform(rotation_x(alpha + 0.7 * ("alpha" in loose)), np.array([a + 0.3 * ("a" in loose), 0.0, 0.0]))
        if moved_zeros(change_of_frame(other), values.zero)[0] != moved.zero:
            self.problems.append(
                f"{where}, zero: an unknown {' and '.join(sorted(loose))} moves the frame in which these are zeros; "
                'write the table with convention = "modified"'
            )
        return moved


def _radians(degrees: float) -> float:
    """Convert to rad, exact at multiples of 90 degrees."""
    quarter = degrees / 90.0
    return quarter * (math.pi / 2) if quarter == round(quarter) else math.radians(degrees)
