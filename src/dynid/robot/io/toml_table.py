"""Robot tables: TOML files and rows of mappings in modified or standard Denavit-Hartenberg notation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dynid.errors import DynidError, ExpressionError, RobotFileError
from dynid.messages import Message
from dynid.robot.expression import parse_expression, symbols_of
from dynid.robot.force_sensor import ForceSensor, Rotor
from dynid.robot.io.toml_rows import (
    LARGEST_TURN,
    ClosureTable,
    CouplingTable,
    JointTable,
    LinkTable,
    ParsedTable,
    RawRow,
    SensorTable,
    check_table,
    describe_validation_error,
    link_values_in_mdh_frame,
    read_rows,
    read_unknown_geometry,
    rows_in_modified_convention,
)
from dynid.robot.mdh import Z_AXIS, mdh_transform
from dynid.robot.robot import Closure, Coupling, JointColumn, JointLimits, Link, PublishedMasses, Robot
from dynid.robot.transform import freeze, rotation_from_rpy
from dynid.storage.files import hash_file, read_toml

# Couplings and closures of a robot table.


def read_coupling(sheet: ParsedTable, k: int, coupling: CouplingTable) -> Coupling:
    """Coupling k of the table, from 1."""
    where = f"coupling {k}"
    _check_joint_moves(sheet, f"{where}, passive", coupling.passive)
    for name in coupling.of:
        _check_joint_moves(sheet, f"{where}, of", name)
    if coupling.passive in coupling.of:
        sheet.problems.append(Message(
            "joint_coupled_with_itself", "{where}: joint '{joint}' is coupled with itself", "leave it out of 'of'",
            where=where, joint=coupling.passive,
        ))  # fmt: skip
    turns = sheet.joint_type(coupling.passive) == "revolute"
    where += ", offset"
    value = coupling.offset
    offset = sheet.read_angle(where, value, largest=LARGEST_TURN) if turns else sheet.read_number(where, value)
    return Coupling(coupling.passive, tuple((n, f) for n, f in coupling.of.items()), offset.value)


def read_closure(sheet: ParsedTable, k: int, closure: ClosureTable) -> Closure:
    """Closure k of the table, from 1."""
    where = f"closure {k}"
    for name in closure.frames:
        if name not in sheet.joint_names:
            sheet.problems.append(Message(
                "unknown_joint", "{where}, frames: there is no joint '{joint}'", "joints are {joints}", where=where,
                joint=name, joints=list(sheet.joint_names),
            ))  # fmt: skip
    for name in closure.passive:
        _check_joint_moves(sheet, f"{where}, passive", name)
    if len(set(closure.keep)) != len(closure.passive) or len(closure.keep) != len(closure.passive):
        sheet.problems.append(Message(
            "closure_directions_mismatch", "{where}: keeps {directions} directions with {passive} passive joints",
            "give as many of one as of the other", where=where, directions=len(set(closure.keep)),
            passive=len(closure.passive),
        ))  # fmt: skip
    read = [[sheet.read_number(f"{where}, points", x) for x in p] for p in closure.points or [[0.0] * 3] * 2]
    points, texts = [[x.value for x in p] for p in read], tuple(x.text or "" for p in read for x in p)
    if any(len(point) != 3 for point in points):
        sheet.problems.append(Message(
            "wrong_shape", "{where}, points: each point needs three coordinates", where=where,
        ))  # fmt: skip
        points = [[0.0] * 3] * 2
    start = sheet.read_positions(where, closure.start, closure.passive, "start") or [0.0] * len(closure.passive)
    at = sheet.read_positions(where, closure.at, sheet.active_joints, "at")
    return Closure(
        (closure.frames[0], closure.frames[1]),
        tuple(closure.keep),
        tuple(closure.passive),
        (freeze(points[0]), freeze(points[1])),
        freeze(start),
        None if at is None else freeze(at),
        texts if any(texts) else (),
    )


def check_passive_joints(sheet: ParsedTable, couplings: Sequence[Coupling], closures: Sequence[Closure]) -> None:
    """Add joints that are passive twice, and couplings that depend on themselves, to the problems."""
    passive = [c.passive for c in couplings] + [name for c in closures for name in c.passive]
    for name in dict.fromkeys(n for n in passive if passive.count(n) > 1):
        sheet.problems.append(Message(
            "joint_passive_twice", "joint '{joint}' is made passive twice", "one coupling or closure is enough",
            joint=name,
        ))  # fmt: skip
    moving = [n for n, joint in zip(sheet.joint_names, sheet.table.joint, strict=True) if joint.type != "fixed"]
    if moving and set(moving) <= set(passive):
        sheet.problems.append(Message("no_active_joint", "every joint is passive", "leave at least one active"))
    coupled = {c.passive: [name for name, _ in c.factors] for c in couplings}
    for name in coupled:
        seen, todo = set(), list(coupled[name])
        while todo:
            other = todo.pop()
            if other not in seen:
                seen.add(other)
                todo += coupled.get(other, [])
        if name in seen and name not in coupled[name]:
            sheet.problems.append(Message(
                "coupling_cycle", "coupling: joint '{joint}' depends on itself through {through}", joint=name,
                through=sorted(seen - {name}),
            ))  # fmt: skip


def _check_joint_moves(sheet: ParsedTable, where: str, name: str) -> None:
    """Add a name that is not a joint, or a fixed one, to the problems."""
    if name not in sheet.joint_names:
        sheet.problems.append(Message(
            "unknown_joint", "{where}: there is no joint '{joint}'", "joints are {joints}", where=where, joint=name,
            joints=list(sheet.joint_names),
        ))  # fmt: skip
    elif sheet.table.joint[sheet.joint_names.index(name)].type == "fixed":
        sheet.problems.append(Message(
            "fixed_joint_coupled", "{where}: joint '{joint}' is fixed and cannot be coupled", where=where, joint=name,
        ))  # fmt: skip


def read_table(path: Path, *, snap: bool = True) -> Robot:
    """Read a TOML table; all mistakes are reported at once."""
    return build_robot(read_toml(path), file=str(path), name=path.stem, snap=snap)


def robot_from_rows(rows: Any, *, gravity: Any, symbols: Mapping[str, float], name: str) -> Robot:
    """Robot of rows in modified notation, angles in rad, nothing snapped."""
    joints = [{k: _to_python_number(v) for k, v in dict(row).items()} for row in rows]
    gravity = [float(x) for x in np.asarray(gravity, dtype=np.float64).ravel()]
    values = {str(k): float(v) for k, v in symbols.items()}
    data = {"name": name, "gravity": gravity, "symbols": values, "joint": joints}
    return build_robot(data, file=f"the table of '{name}'", name=name, snap=False)


def _to_python_number(value: Any) -> Any:
    """Plain number of a numpy scalar."""
    return value.item() if isinstance(value, np.generic) else value


def build_robot(data: object, *, file: str, name: str, snap: bool) -> Robot:
    """Robot of a parsed table, or RobotFileError with everything that is wrong with it."""
    table, problems = check_table(data)
    if table is None:
        raise RobotFileError(file, problems)
    robot = _RobotBuilder(table, snap).build(name)
    if isinstance(robot, list):
        raise RobotFileError(file, robot)
    return robot


class _RobotBuilder(ParsedTable):
    """Turns a checked table into a Robot, collecting the mistakes that only the whole table shows."""

    def build(self, name: str) -> Robot | list[Message]:
        """The robot, or all problems."""
        table = self.table
        self._check_names()
        parents = [self._find_parent(j, joint) for j, joint in enumerate(table.joint)]
        self._check_cycles(parents)
        for symbol in table.symbols:
            self._check_symbol(symbol)
        raw = read_rows(self)
        rows = rows_in_modified_convention(self, raw, parents)
        limits = [self._read_limits(j, joint) for j, joint in enumerate(table.joint)]
        couplings = tuple(read_coupling(self, k, c) for k, c in enumerate(table.coupling, 1))
        closures = tuple(read_closure(self, k, c) for k, c in enumerate(table.closure, 1))
        check_passive_joints(self, couplings, closures)
        columns = self._read_columns()
        sensor = self._read_sensor()
        values = [
            link_values_in_mdh_frame(self, j, row, table.link.get(self.joint_names[j])) for j, row in enumerate(raw)
        ]
        nominal = read_unknown_geometry(table, self.joint_names, parents, self.problems)
        published = self._read_published(raw)
        stated = [("", name) for name in sorted(table.link)]
        stated += [("published.", name) for name in sorted(table.published.link)] if table.published else []
        for under, unknown in ((under, name) for under, name in stated if name not in self.joint_names):
            self.problems.append(Message(
                "unknown_joint", "{under}link.{joint}: no joint has this name", "joints are {joints}", under=under,
                joint=unknown, joints=list(self.joint_names),
            ))  # fmt: skip
        if all(joint.type == "fixed" for joint in table.joint):
            self.problems.append(Message(
                "no_moving_joint", "joint: no joint moves", "give at least one type 'revolute' or 'prismatic'",
            ))  # fmt: skip
        if self.problems:
            return self.problems
        links = tuple(
            Link(
                name=self.joint_names[j],
                joint=self.joint_names[j],
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
            notes=self.all_notes,
            columns=columns,
            sensor=sensor,
            unknown=nominal,
            published=published,
        )

    def _read_columns(self) -> tuple[JointColumn, ...]:
        """Columns of torques of known shape; positions are angles as the file gives them."""
        active = self.active_joints
        columns = []
        for k, column in enumerate(self.table.column, 1):
            of = column.of or column.joint
            strangers = [name for name in (column.joint, of) if name not in active]
            if strangers:
                self.problems.append(Message(
                    "unknown_joint", "column {number}: no active joint '{joint}'", "they are {joints}", number=k,
                    joint=strangers[0], joints=list(active),
                ))  # fmt: skip
                continue
            turns = self.table.joint[self.joint_names.index(of)].type == "revolute"
            scale = self.radians_per_unit if turns else 1.0
            try:
                columns.append(
                    JointColumn(
                        column.name, column.joint, of, scale * np.array(column.positions), np.array(column.torque)
                    )
                )
            except DynidError as error:
                self.problems.append(error.message.about(f"column {k}"))
        names = [column.name for column in columns]
        for name in dict.fromkeys(n for n in names if names.count(n) > 1):
            self.problems.append(Message(
                "column_name_twice", "column: two columns are named '{column}'", "give each its own name", column=name,
            ))  # fmt: skip
        return tuple(columns)

    def _read_sensor(self) -> ForceSensor | None:
        """The force plate of the table, with rotors at active joints; None where it has none."""
        if self.table.sensor is None:
            return None
        active = self.active_joints
        for rotor in self.table.sensor.rotor:
            if rotor.joint not in active:
                self.problems.append(Message(
                    "unknown_joint", "sensor.rotor: no active joint '{joint}'", "they are {joints}", joint=rotor.joint,
                    joints=list(active),
                ))  # fmt: skip
        try:
            return sensor_from_table(self.table.sensor, degrees=self.table.angles == "deg")
        except DynidError as error:
            self.problems.append(error.message.about("sensor"))
            return None

    def _read_published(self, raw: Sequence[RawRow]) -> PublishedMasses | None:
        """Published masses of the table, its links in the robot's frames; None where it states nothing."""
        table = self.table.published
        if table is None:
            return None
        links = {}
        for j, name in enumerate(self.joint_names):
            if name in table.link:
                values = LinkTable(**table.link[name].model_dump())
                links[name] = freeze(link_values_in_mdh_frame(self, j, raw[j], values, "published.").inertia)
        parts = sum(link.mass for link in table.link.values()) + (table.base or 0.0) * table.includes_base
        if table.total is not None and parts > table.total:
            self.problems.append(Message(
                "published_masses_exceed_total", "published, total: {total:g} kg is less than its parts, {parts:g} kg",
                "correct one of them, or leave base or total out", total=table.total, parts=parts,
            ))  # fmt: skip
        return PublishedMasses(table.source, table.total, table.includes_base, table.base, links)

    def _check_names(self) -> None:
        """Add joints with the same name to the problems."""
        for name in dict.fromkeys(n for n in self.joint_names if self.joint_names.count(n) > 1):
            self.problems.append(Message(
                "joint_name_twice", "joint: two joints are named '{joint}'", "give each its own name", joint=name,
            ))  # fmt: skip

    def _check_symbol(self, symbol: str) -> None:
        """Add a symbol that expressions cannot use as a name to the problems."""
        try:
            valid = symbols_of(parse_expression(symbol)) == (symbol,)
        except ExpressionError:
            valid = False
        if not valid:
            self.problems.append(Message(
                "invalid_symbol_name", "symbols: '{symbol}' cannot be a symbol",
                "use a letter, then letters and digits", symbol=symbol,
            ))  # fmt: skip

    def _find_parent(self, j: int, joint: JointTable) -> int:
        """Index of the parent link, -1 for the base."""
        where = f"joint {j + 1} ('{self.joint_names[j]}'), parent"
        match joint.parent:
            case None:
                return j - 1
            case int(number) if 0 <= number <= len(self.joint_names):
                parent = number - 1
            case str(name) if name in self.joint_names:
                parent = self.joint_names.index(name)
            case other:
                self.problems.append(Message(
                    "unknown_joint", "{where}: there is no joint {joint!r}", "use 0 for the base, 1 to {count}, or a "
                    "name", where=where, joint=other, count=len(self.joint_names),
                ))  # fmt: skip
                return -1
        if parent == j:
            self.problems.append(Message(
                "joint_is_own_parent", "{where}: a joint cannot be its own parent", where=where,
            ))  # fmt: skip
            return -1
        return parent

    def _check_cycles(self, parents: Sequence[int]) -> None:
        """Add links that are their own ancestors to the problems."""
        for j in range(len(parents)):
            seen, k = [j], parents[j]
            while k != -1 and k not in seen:
                seen.append(k)
                k = parents[k]
            if k == j:
                cycle = " -> ".join(self.joint_names[i] for i in reversed([*seen, j]))
                if j == min(seen):
                    self.problems.append(Message(
                        "joint_cycle", "joint {number} ('{joint}'), parent: the joints form a cycle {cycle}",
                        number=j + 1, joint=self.joint_names[j], cycle=cycle,
                    ))  # fmt: skip

    def _read_limits(self, j: int, joint: JointTable) -> JointLimits:
        """Limits of joint j in SI units; mistakes are added to the problems."""
        limits, where = joint.limits, f"joint {j + 1} ('{self.joint_names[j]}'), limits"
        factor = self.radians_per_unit if joint.type == "revolute" else 1.0
        lower, upper = (x * factor for x in limits.position) if limits.position else (-math.inf, math.inf)
        if lower >= upper:
            self.problems.append(Message(
                "position_limits_reversed", "{where}.position: the lower limit {lower:g} is not below the upper "
                "{upper:g}", where=where, lower=lower, upper=upper,
            ))  # fmt: skip
        if joint.type == "revolute" and math.isfinite(upper) and max(-lower, upper) > LARGEST_TURN:
            self.problems.append(Message(
                "angle_looks_like_degrees", "{where}.position: {angle:g} rad is surely meant in degrees",
                "write angles = \"deg\"", where=where, angle=max(-lower, upper),
            ))  # fmt: skip
        for name in ("velocity", "acceleration", "effort"):
            value = getattr(limits, name)
            if value is not None and value <= 0.0:
                self.problems.append(Message(
                    "limit_not_positive", "{where}.{limit}: must be positive, got {value:g}", where=where, limit=name,
                    value=value,
                ))  # fmt: skip
        return JointLimits(
            lower,
            upper,
            math.inf if limits.velocity is None else limits.velocity * factor,
            math.inf if limits.acceleration is None else limits.acceleration * factor,
            math.inf if limits.effort is None else limits.effort,
        )


# A force sensor: the table [sensor] of a robot file, or a file of its own.


def read_sensor(path: str | Path) -> ForceSensor:
    """Read a TOML file with the keys of a robot table's [sensor], angles in rad (or `angles = "deg"`)."""
    data = read_toml(Path(path))
    data = data.get("sensor", data)
    if not isinstance(data, dict):
        raise RobotFileError(
            str(path), "sensor_table_malformed", "sensor: not a table", "write a table [sensor], or its keys alone",
        )  # fmt: skip
    angles = data.pop("angles", "rad")
    if angles not in ("rad", "deg"):
        raise RobotFileError(
            str(path), "unknown_angle_unit", "angles: 'rad' or 'deg', got {angles!r:.40}", angles=angles,
        )  # fmt: skip
    try:
        return sensor_from_table(SensorTable.model_validate(data), degrees=angles == "deg")
    except ValidationError as error:
        raise RobotFileError(str(path), describe_validation_error(error, ("sensor",))) from error
    except DynidError as error:
        raise RobotFileError(str(path), error.message) from error


def with_sensor_from_file(robot: Robot, path: str | Path) -> Robot:
    """Return the robot on the force plate that a file describes."""
    return replace(robot.with_sensor(read_sensor(path)), files=(*robot.files, hash_file(Path(path))))


def sensor_from_table(table: SensorTable, *, degrees: bool) -> ForceSensor:
    """Build the sensor of a checked table."""
    known = isinstance(table.offsets, list)
    return ForceSensor(
        freeze(table.position),
        rotation_from_rpy(*(angle * (math.pi / 180.0 if degrees else 1.0) for angle in table.rpy)),
        freeze(table.reference),
        table.sense,
        tuple(table.channels),
        "known" if isinstance(table.offsets, list) else table.offsets,
        freeze(table.offsets) if known else None,
        table.mass,
        freeze(table.com),
        None if table.noise is None else freeze(table.noise),
        None if table.sensitivity_sigma is None else freeze(table.sensitivity_sigma),
        tuple(
            Rotor(r.joint, r.ratio, math.nan if r.inertia is None else r.inertia, freeze(r.axis)) for r in table.rotor
        ),
    )
