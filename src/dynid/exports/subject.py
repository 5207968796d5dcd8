"""What is exported: a robot whose parameters are all known, with its friction and bodies; what files cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import HARMONICS, PLAIN, STOP, FrictionShapes, find_friction_block, stop_width
from dynid.dynamics.regressor import regressor
from dynid.errors import FIX_THE_BASE, ExportError, IdentificationError
from dynid.estimation.identification import Identification
from dynid.messages import Message, Option, Wording
from dynid.robot.inertia import is_possible_body
from dynid.robot.motion import Motion
from dynid.robot.robot import JointColumn, Robot, StoredRobot
from dynid.robot.transform import Array
from dynid.storage.records import DAMAGE, describe_damage, from_plain_data, json_text, read_json, to_plain_data

_STATELESS = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "stribeck", "spring", *HARMONICS)


@dataclass(frozen=True, eq=False)
class JointFriction:
    """Friction at the motors: one row of `values` (columns, n) per symbol of the blocks, in their order.

    scale (n,) and held as in FrictionShapes; transmission (n, n): motor positions = transmission @ joint positions.
    rigid: standard parameters, as first estimated, of the torque whose size `load` takes; None without that block.
    """

    blocks: tuple[str, ...]
    values: Array
    scale: Array
    transmission: Array
    held: float = 0.0
    rigid: Array | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a robot file can hold it: viscous, Coulomb and offset, of motors that drive one joint each."""
        return set(self.blocks) <= set(PLAIN) and self.is_direct_drive

    @property
    def is_direct_drive(self) -> bool:
        """Whether every motor drives one joint."""
        return np.array_equal(self.transmission, np.eye(len(self.transmission)))

    @property
    def has_memory(self) -> bool:
        """Whether it needs more than positions and velocities of one instant."""
        return not set(self.blocks) <= set(_STATELESS) or len(self.shapes.stop_widths) > 0

    @property
    def shapes(self) -> FrictionShapes:
        """Shapes of the friction blocks, ready to be evaluated."""
        return FrictionShapes(self.blocks, self.scale, self.held)

    @cached_property
    def while_sliding(self) -> JointFriction:
        """Friction that q and v of one instant show: stops at their limits, without `lag` and `load`."""
        blocks, rows, sliding = [], [], np.zeros(len(self.scale))
        own = iter(self.values)
        for block in self.blocks:
            values = [next(own) for _ in find_friction_block(block).symbols]
            if block in _STATELESS:
                blocks.append(block)
                rows += values
            elif STOP.fullmatch(block):
                sliding = sliding + values[0]
        if np.any(sliding):
            blocks.append("coulomb")
            rows.append(sliding)
        together = np.array(rows).reshape(-1, len(self.scale))
        return JointFriction(tuple(blocks), together, self.scale, self.transmission)

    def torques_with_memory(self, motion: Motion, rigid: Array, stops: Array) -> Array:
        """Friction (N, n) as a controller has it, sample by sample; stops (w, n): the state at the first sample.

        As `predict`, but for `lag`, which is the difference to the sample before, not to both neighbours. rigid (N, n):
        torques of the joints whose size `load` takes.
        """
        T = self.transmission
        q, v = np.ascontiguousarray(motion.q @ T.T), motion.v @ T.T
        load = np.asarray(np.linalg.solve(T.T, rigid.T).T, dtype=np.float64)
        columns = self.shapes.column_values(motion.t, q, v, self.shapes.stop_values_along(q, stops), load)
        if "lag" in self.blocks:
            signs = replace(self.shapes, blocks=("coulomb",))
            held = [k for k, w in enumerate(self.shapes.stop_widths) if np.array_equal(w, self.held * self.scale)]
            along = signs.column_values(motion.t, q, v, self.shapes.stop_values_along(q, stops)[:, held], None)[:, 0]
            row = sum(len(find_friction_block(block).symbols) for block in self.blocks[: self.blocks.index("lag")])
            columns[0, row], columns[1:, row] = 0.0, np.diff(along, axis=0) / np.diff(motion.t)[:, None]
        return np.asarray((columns * self.values).sum(axis=1) @ T)

    def torques(self, motion: Motion) -> Array:
        """Friction (N, n) along a motion, while sliding: every block looks at one sample only."""
        own = self.while_sliding
        q, v = motion.q @ self.transmission.T, motion.v @ self.transmission.T
        columns = own.shapes.column_values(motion.t, q, v, np.zeros((len(q), 0, q.shape[1])), None)
        return np.asarray((columns * own.values).sum(axis=1) @ self.transmission)


SOFT = 1e-4
"""Stiffness (1/rad) of a spring that stands for a constant torque, over that torque: it is 10,000 rad away."""


@dataclass(frozen=True, eq=False)
class ExportSubject:
    """A robot with all standard parameters.

    of_base: they are base parameters in the place of the standard ones that kept their names, all others zero: the
    torques are right, the links are not bodies. losses say which torques could not be taken along. model: the
    identification behind it, with the values of these bodies. springs (n,): N m/rad or N/m about the position at which
    they hold the joint's offset, for files that hold springs.
    """

    robot: Robot
    friction: JointFriction
    of_base: bool
    losses: tuple[Message, ...] = ()
    model: Identification | None = None
    springs: Array | None = None
    keeps_softness: bool = False
    """Whether files keep how soft their dry friction is: it was fitted so."""

    @property
    def offsets(self) -> Array:
        """Constant torques (n,) of the joints."""
        return np.array([dict(self.robot.links[k].friction).get("offset", 0.0) for k in self.robot.active_links])

    @property
    def has_soft_spring(self) -> NDArray[np.bool_]:
        """Mask (n,) of springs that stand for a constant torque alone."""
        springs = np.zeros(self.robot.n) if self.springs is None else self.springs
        return np.asarray((springs > 0.0) & (springs == SOFT * np.abs(self.offsets)))

    def without_soft_springs(self, joints: NDArray[np.bool_]) -> ExportSubject:
        """Return the subject without the springs of these joints that stand for a constant torque alone."""
        if self.springs is None:
            return self
        return replace(self, springs=np.where(joints & self.has_soft_spring, 0.0, self.springs))

    def rigid_torques(self, motion: Motion) -> Array:
        """Torques (N, n) without friction."""
        return np.asarray((regressor(self.robot, motion).matrix @ self.robot.parameters).reshape(-1, self.robot.n))


def make_export_subject(result: Any) -> ExportSubject:
    """Subject of an Identification, a Robot, or anything with a `.robot`; raise where parameters are unknown."""
    if isinstance(result, ExportSubject):
        return result
    if isinstance(result, Identification):
        if result.equation.unknown is not None:
            raise ExportError(
                "unknown_geometry_not_exportable", "model parameters of unknown geometry cannot be exported",
                "save the result instead",
            )  # fmt: skip
        return _make_subject_of_identification(result)
    robot = result if isinstance(result, Robot) else getattr(result, "robot", None)
    if not isinstance(robot, Robot):
        raise ExportError(
            "subject_not_exportable", "cannot export {kind}", "give an Identification, PhysicalParameters or Robot",
            kind=type(result).__name__,
        )  # fmt: skip
    _check_fixed_base(robot)
    robot = _with_known_zeros(robot)
    unknown = [name for name, x in zip(robot.parameter_names, robot.parameters, strict=True) if np.isnan(x)]
    if unknown:
        more = f" and {len(unknown) - 12} more" if len(unknown) > 12 else ""
        raise ExportError(
            "missing_parameter_values", "'{robot}' has no value for {parameters}{more}", "identify them, or add them "
            "to the robot file", robot=robot.name, parameters=unknown[:12], more=more,
        )  # fmt: skip
    model = getattr(result, "model", None)
    if isinstance(model, Identification):  # bodies made from an identification, which knows all of the friction
        friction = _joint_friction_of_identification(model)
        losses = tuple(map(_left_out_column_text, model.equation.user_columns))
        return ExportSubject(_set_nominal_friction(robot, friction), friction, False, losses, model)
    return ExportSubject(robot, _nominal_friction(robot), False, tuple(map(_left_out_column_text, robot.columns)))


def _left_out_column_text(column: JointColumn) -> Message:
    """Note on a further column that no file can hold."""
    what = "the torque '{column}' at joint '{joint}' is left out"
    return Message("column_torque_left_out", what, column=column.name, joint=column.joint)


def _check_fixed_base(robot: Robot) -> None:
    """Raise ExportError for robots whose base floats."""
    if robot.floating:
        raise ExportError(
            "floating_base", "'{robot}' floats; only robots on a fixed base are exported", "{fixed_base}",
            robot=robot.name, fixed_base=FIX_THE_BASE,
        )  # fmt: skip


def _with_known_zeros(robot: Robot) -> Robot:
    """Robot with its known zeros set to zero, whatever the file says of their value."""
    values = robot.parameters.copy()
    zero = set(robot.known_zeros)
    values[[k for k, name in enumerate(robot.parameter_names) if name in zero]] = 0.0
    return robot.with_parameters(values)


def _nominal_friction(robot: Robot) -> JointFriction:
    """Friction as the robot file has it."""
    values = [[dict(robot.links[k].friction).get(name, 0.0) for k in robot.active_links] for name in PLAIN]
    return JointFriction(PLAIN, np.array(values), np.ones(robot.n), np.eye(robot.n))


def no_friction(robot: Robot) -> JointFriction:
    """Friction of a robot that has none."""
    return JointFriction((), np.zeros((0, robot.n)), np.ones(robot.n), np.eye(robot.n))


def _make_subject_of_identification(result: Identification) -> ExportSubject:
    """Subject with the parameters and friction of a result; ExportError where some are not known."""
    equation, robot = result.equation, result.robot
    _check_fixed_base(robot)
    if not equation.options.has_torques:
        raise ExportError(
            "reaction_result_not_exportable", "model '{model}' sees forces on the base, but neither rotor inertias "
            "nor friction", "identify with torques, or get physical parameters first", model=result.model,
        )  # fmt: skip
    if len(equation.joints) < robot.n:
        missing = [name for j, name in enumerate(robot.joint_names) if j not in equation.joints]
        raise ExportError(
            "joint_torques_not_identified", "this result has no torques of the joints {joints}",
            "identify with all joints", joints=list(missing),
        )  # fmt: skip
    place = {name: k for k, name in enumerate(robot.parameter_names)}
    notes: tuple[Message, ...] = ()
    if robot.sensor is not None and robot.sensor.rotors:  # values of base parameters hold their Ia already
        notes = rotor_spin_warnings(robot)
        robot = robot.with_sensor(replace(robot.sensor, rotors=()))
    X = np.zeros(len(place))
    X[[place[name] for name in equation.base.names]] = result.column_values[: equation.base_column_count]
    friction = _joint_friction_of_identification(result)
    losses = (*notes, *map(_left_out_column_text, equation.user_columns))
    return ExportSubject(_set_nominal_friction(robot.with_parameters(X), friction), friction, True, losses, result)


def rotor_spin_warnings(robot: Robot) -> tuple[Message, ...]:
    """Warnings on declared rotors whose spin couples joints, which no exported file but a table holds."""
    rotors = () if robot.sensor is None else robot.sensor.spinning_rotors
    if not rotors:
        return ()
    what = "the spin of the rotors of {joints} is left out (their Ia is not): it adds torques of the size ratio J"
    return (Message("rotor_spin_left_out", what, joints=[rotor.joint for rotor in rotors]),)


def _joint_friction_of_identification(result: Identification) -> JointFriction:
    """Friction of a result: all its blocks with their values."""
    equation, n = result.equation, result.robot.n
    rows = [
        result.column_values[equation.columns_by_friction_block[block]].reshape(-1, n) for block in equation.friction
    ]
    rigid = None
    if "load" in equation.friction and equation.rigid is not None:
        place = {name: k for k, name in enumerate(result.robot.parameter_names)}
        rigid = np.zeros(len(place))
        rigid[[place[name] for name in equation.base.names]] = equation.rigid[: equation.base_column_count]
    values, shapes = np.concatenate([np.zeros((0, n)), *rows]), equation.shapes
    return JointFriction(equation.friction, values, shapes.scale, equation.transmission, shapes.held, rigid)


# Friction that files of robots can hold, in the place of what was identified.


def with_plain_friction(subject: ExportSubject, suffix: str) -> tuple[ExportSubject, tuple[Message, ...]]:
    """Subject with friction that a file of this suffix can hold, and messages on what is left out.

    Other blocks become viscous and Coulomb friction, fitted to the same data with the bodies as they are; an MJCF file
    can hold springs, too.
    """
    friction, model = subject.friction, subject.model
    if subject.springs is not None:
        return subject, ()
    negative = suffix in (".urdf", ".xml") and any(
        np.any(row < 0.0) for block, row in zip(friction.blocks, friction.values, strict=False) if block != "offset"
    )
    if friction.is_plain and not negative:
        return _with_springs_for_offsets(subject, np.zeros(subject.robot.n), suffix), ()
    if model is None or not friction.is_direct_drive:
        if friction.is_plain:
            return subject, ()
        what = "friction ({blocks}) of motors that drive several joints is left out; only .c files hold such"
        return subject, (Message("friction_left_out", what, blocks=list(friction.blocks)),)
    fitted = refit_plain_friction(model, springs=suffix == ".xml")
    plain = JointFriction(PLAIN, fitted[:3], np.ones(subject.robot.n), friction.transmission)
    robot = _set_nominal_friction(subject.robot, plain)
    held = _with_springs_for_offsets(replace(subject, robot=robot, friction=plain), fitted[3], suffix)
    lost = [block for block in friction.blocks if block in HARMONICS or (block == "spring" and suffix != ".xml")]
    if not lost:
        return held, ()
    what = "torques that depend on the position ({blocks}) are left out, and the bodies were fitted together with them"
    remedy = "identify with {option} for bodies that fit without"
    option = Option("friction", PLAIN)
    return held, (Message("position_torques_left_out", what, remedy, blocks=lost, option=option),)


def _with_springs_for_offsets(subject: ExportSubject, springs: Array, suffix: str) -> ExportSubject:
    """Subject with springs, in an MJCF file also soft ones that stand for identified constant torques.

    Offsets of a table are those of its sensors for all that is known.
    """
    if suffix == ".xml" and subject.model is not None:
        springs = np.where(springs > 0.0, springs, SOFT * np.abs(subject.offsets))
    return replace(subject, springs=springs) if np.any(springs) else subject


def refit_plain_friction(model: Identification, *, springs: bool) -> Array:
    """Viscous, Coulomb, offset and spring (4, n) of every joint, fitted to the data of a result with its bodies.

    The factors of the result hold no sign(v): the narrowest stop stands for it, which differs for the first 0.1 mrad
    after a reversal. None but the offset is negative. Joints whose columns the data do not determine get zeros.
    """
    from scipy.optimize import lsq_linear

    names, robot = model.names, model.robot
    is_friction = np.array([name.kind == "friction" for name in names])
    dry = sorted((block for block in model.friction if STOP.fullmatch(block)), key=stop_width)
    choices = (("viscous",), ("coulomb", *dry, "tanh"), ("offset",), ("spring",) if springs else ())
    places: list[tuple[int, int]] = []
    groups: list[list[int]] = []
    for j, joint in enumerate(robot.joint_names):
        own = [k for k, name in enumerate(names) if name.kind == "friction" and name.joint == joint]
        for row, blocks in enumerate(choices):
            symbols = [find_friction_block(block).symbols[0] for block in blocks]
            found = next((some for s in symbols if (some := [k for k in own if names[k].symbol == s])), [])
            each = [[k] for k in found] if row == 2 else [found] * bool(found)  # offsets may differ from log to log
            groups += each
            places += [(row, j)] * len(each)
    weights = [1.0 / noise if noise > 0.0 else 1.0 for noise in model.noise]
    pairs = [(w, f.R) for of_log in model.factors for w, f in zip(weights, of_log, strict=True)]
    W, y = (np.concatenate([w * part for w, part in some]) for some in (
        [(w, R[:, :-1]) for w, R in pairs], [(w, R[:, -1]) for w, R in pairs]
    ))  # fmt: skip
    y = y - W[:, ~is_friction] @ np.asarray(model.values)[~is_friction]
    A = np.array([W[:, group].sum(axis=1) for group in groups]).reshape(len(groups), len(y)).T
    size = np.linalg.norm(A, axis=0)
    seen = np.flatnonzero(size > 0.0)
    low = np.where(np.array([row for row, _ in places])[seen] == 2, -np.inf, 0.0)
    fitted = np.zeros((4, robot.n))
    if len(seen):
        found = lsq_linear(A[:, seen] / size[seen], y, bounds=(low, np.inf), method="bvls").x / size[seen]
        for k, x in zip(seen, found, strict=True):
            row, j = places[k]
            fitted[row, j] += x / places.count((row, j))
    return fitted


def _set_nominal_friction(robot: Robot, friction: JointFriction) -> Robot:
    """Robot with this friction as its nominal one, or none where it cannot hold all of it."""
    rows: dict[str, Array] = {}
    if friction.is_plain:
        rows = {name: friction.values[k] for k, name in enumerate(friction.blocks)}
    links = list(robot.links)
    for j, k in enumerate(robot.active_links):
        links[k] = replace(links[k], friction=tuple((name, float(values[j])) for name, values in rows.items()))
    return replace(robot, links=tuple(links))


# What the files cannot hold, and what must be said because of that.


def check_bodies(robot: Robot, bodies: Mapping[int, Array], form: str, *, strictly: bool = False) -> None:
    """Raise ExportError for links that no body can be: other software would refuse them, or simulate nonsense."""
    wrong = [robot.links[k].name for k, x in bodies.items() if not is_possible_body(x, strictly=strictly)]
    if wrong:
        some, more = [f"'{name}'" for name in wrong[:8]], f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        kind = "link" if len(wrong) == 1 else "links"
        raise ExportError(
            "link_not_physical", "{kind} {links}{more} of '{robot}': no real body has these parameters "
            "(pseudo-inertia not positive), and {format} needs bodies", "use {physical} first, or export .c, .toml or "
            ".json", physical=Wording("physical_parameters", "dynid physical"), kind=kind, links=some, more=more,
            robot=robot.name, format=form,
        )  # fmt: skip


def renamed_link_notes(robot: Robot, names: Sequence[str]) -> list[Message]:
    """Notes on links whose name the file cannot have."""
    pairs = zip(robot.links, names, strict=True)
    return [
        Message("link_renamed", "link {link!r} becomes {name!r}", link=link.name, name=new)
        for link, new in pairs
        if link.name != new
    ]


def friction_left_out_warnings(subject: ExportSubject) -> tuple[Message, ...]:
    """Warnings of friction that the joints cannot have; a negative rotor inertia is refused."""
    robot = subject.robot
    constant, negative = [], []
    for j, k in enumerate(robot.active_links):
        link = robot.links[k]
        if subject.springs is None or subject.springs[j] <= 0.0:  # a spring holds it
            constant += [f"'{link.joint}' ({x:.6g})" for block, x in link.friction if block == "offset" and x != 0.0]
        negative += [f"'{link.joint}' ({block} {x:.6g})" for block, x in link.friction if block != "offset" and x < 0.0]
        if link.rotor < 0.0:
            raise ExportError(
                "rotor_inertia_negative", "joint '{joint}': its rotor inertia {inertia:.6g} is negative",
                joint=link.joint, inertia=link.rotor,
            )  # fmt: skip
    losses = (
        ("constant_torque_left_out", "constant torques are left out: joints {joints}", constant),
        ("negative_friction_left_out", "negative friction is left out: joints {joints}", negative),
    )
    return tuple(Message(code, what, joints=joints) for code, what, joints in losses if joints)


def soft_spring_notes(subject: ExportSubject) -> tuple[Message, ...]:
    """Notes on constant torques that an MJCF file holds as springs."""
    pairs = zip(subject.robot.joint_names, subject.offsets, subject.has_soft_spring, strict=True)
    joints = [f"'{name}' ({x:.6g})" for name, x, is_soft in pairs if is_soft]
    what = "constant torques of joints {joints} are held by soft springs, far away"
    remedy = "remove `stiffness` and `springref` there if they are offsets of torque sensors"
    return (Message("constant_torque_as_spring", what, remedy, joints=joints),) if joints else ()


# A robot as versioned JSON that gives it back exactly; nothing in it is ever executed.


FORMAT = "dynid robot"
VERSION = 1


def write_robot_json(subject: ExportSubject) -> str:
    """JSON text of the robot's record, with its parameters by name for other readers."""
    robot = subject.robot
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "base parameters in the place of standard ones" if subject.of_base else "standard parameters",
        "units": "SI, rad",
        "parameters": dict(zip(robot.parameter_names, map(float, robot.parameters), strict=True)),
        "friction": {
            robot.links[k].joint: {name: float(x) for name, x in robot.links[k].friction} for k in robot.active_links
        },
        "warnings": list(subject.losses),
        "robot": to_plain_data(StoredRobot, robot),
    }
    return json_text(data)


def read_robot_json(path: Path) -> Robot:
    """Read a robot that `export` wrote."""
    data = read_json(path, FORMAT, VERSION, "`dynid export` writes one", IdentificationError)
    try:
        robot: Robot = from_plain_data(StoredRobot, data.get("robot"))
    except DAMAGE as error:
        raise ExportError(
            "file_damaged", "{path}: {damage}", path=path,
            damage=describe_damage(error, inside='robot.'),
        ) from error  # fmt: skip
    return robot
