"""What is exported: a robot whose parameters are all known, with its friction and bodies; what files cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.dynamics.friction import HARMONICS, PLAIN, STOP, FrictionShapes, find_friction_block
from dynid.dynamics.regressor import regressor
from dynid.errors import FIX_THE_BASE, ExportError
from dynid.estimation.identification import Identification
from dynid.messages import Message, Wording
from dynid.robot.inertia import change_of_frame, pseudo_inertia
from dynid.robot.joint_column import JointColumn
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform

_STATELESS = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "stribeck", "spring", *HARMONICS)


@dataclass(frozen=True, eq=False)
class JointFriction:
    """Friction at the motors: one row of `values` (columns, n) per symbol of the blocks, in their order.

    scale (n,) as in FrictionShapes; transmission (n, n): motor positions = transmission @ joint positions.
    """

    blocks: tuple[str, ...]
    values: Array
    scale: Array
    transmission: Array

    @property
    def is_plain(self) -> bool:
        """Whether a robot file can hold it: viscous, Coulomb and offset, of motors that drive one joint each."""
        return set(self.blocks) <= set(PLAIN) and np.array_equal(self.transmission, np.eye(len(self.transmission)))

    def torques(self, motion: Motion) -> Array:
        """Friction (N, n) along a motion; every block looks at one sample only."""
        q, v = motion.q @ self.transmission.T, motion.v @ self.transmission.T
        shapes = FrictionShapes(self.blocks, self.scale)
        columns = shapes.column_values(motion.t, q, v, np.zeros((len(q), 0, q.shape[1])), None)
        return np.asarray((columns * self.values).sum(axis=1) @ self.transmission)


@dataclass(frozen=True, eq=False)
class ExportSubject:
    """A robot with all standard parameters.

    of_base: they are base parameters in the place of the standard ones that kept their names, all others zero: the
    torques are right, the links are no bodies. losses say which torques could not be taken along.
    """

    robot: Robot
    friction: JointFriction
    of_base: bool
    losses: tuple[Message, ...] = ()

    def rigid_torques(self, motion: Motion) -> Array:
        """Torques (N, n) without friction."""
        return np.asarray((regressor(self.robot, motion).matrix @ self.robot.parameters).reshape(-1, self.robot.n))


def make_export_subject(result: Any) -> ExportSubject:
    """Take an Identification, a Robot, or anything with a `.robot` whose parameters are all known."""
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
        friction, notes = _joint_friction_of_identification(model)
        return ExportSubject(_set_nominal_friction(robot, friction), friction, False, notes)
    return ExportSubject(robot, _nominal_friction(robot), False, tuple(map(_left_out_column_text, robot.columns)))


def _left_out_column_text(column: JointColumn) -> Message:
    """Note on a further column that no file can hold."""
    what = "the torque '{column}' at joint '{joint}' is left out"
    return Message("column_torque_left_out", what, column=column.name, joint=column.joint)


def _check_fixed_base(robot: Robot) -> None:
    """Refuse robots whose base floats."""
    if robot.floating:
        raise ExportError(
            "floating_base", "'{robot}' floats; only robots on a fixed base are exported", "{fixed_base}",
            robot=robot.name, fixed_base=FIX_THE_BASE,
        )  # fmt: skip


def _with_known_zeros(robot: Robot) -> Robot:
    """The robot with its known zeros set to zero, whatever the file says of their value."""
    values = robot.parameters.copy()
    zero = set(robot.known_zeros)
    values[[k for k, name in enumerate(robot.parameter_names) if name in zero]] = 0.0
    return robot.with_parameters(values)


def _nominal_friction(robot: Robot) -> JointFriction:
    """Friction as the robot file has it."""
    values = [[dict(robot.links[k].friction).get(name, 0.0) for k in robot.active_links] for name in PLAIN]
    return JointFriction(PLAIN, np.array(values), np.ones(robot.n), np.eye(robot.n))


def _make_subject_of_identification(result: Identification) -> ExportSubject:
    """Subject with the parameters and friction of a result; ExportError where some are not known."""
    equation, robot = result.equation, result.robot
    _check_fixed_base(robot)
    if not equation.options.has_torques:
        raise ExportError(
            "reaction_result_not_exportable", "model '{model}' knows forces on the base, neither rotor inertias nor "
            "friction", "identify with torques, or get physical parameters first", model=result.model,
        )  # fmt: skip
    if len(equation.joints) < robot.n:
        missing = [name for j, name in enumerate(robot.joint_names) if j not in equation.joints]
        raise ExportError(
            "joint_torques_not_identified", "this result knows no torques of the joints {joints}",
            "identify with all joints", joints=list(missing),
        )  # fmt: skip
    place = {name: k for k, name in enumerate(robot.parameter_names)}
    notes: tuple[Message, ...] = ()
    if robot.sensor is not None and robot.sensor.rotors:  # values of base parameters hold their Ia already
        notes = rotor_spin_warnings(robot)
        robot = robot.with_sensor(replace(robot.sensor, rotors=()))
    X = np.zeros(len(place))
    X[[place[name] for name in equation.base.names]] = result.column_values[: equation.base_column_count]
    friction, losses = _joint_friction_of_identification(result)
    return ExportSubject(_set_nominal_friction(robot.with_parameters(X), friction), friction, True, (*notes, *losses))


def rotor_spin_warnings(robot: Robot) -> tuple[Message, ...]:
    """Warn of declared rotors whose spin couples joints, which only a table and its simulation have."""
    rotors = () if robot.sensor is None else robot.sensor.spinning_rotors
    if not rotors:
        return ()
    what = "the spin of the rotors of {joints} is left out (their Ia is not): it adds torques of the size ratio J"
    return (Message("rotor_spin_left_out", what, joints=[rotor.joint for rotor in rotors]),)


def _joint_friction_of_identification(result: Identification) -> tuple[JointFriction, tuple[Message, ...]]:
    """Blocks that look at one sample, stops by their value while sliding, and sentences on what is left out."""
    equation, n = result.equation, result.robot.n
    notes = list(map(_left_out_column_text, equation.user_columns))
    blocks: list[str] = []
    rows: list[Array] = []
    sliding, stops = np.zeros(n), []
    for block in equation.friction:
        own = result.column_values[equation.columns_by_friction_block[block]].reshape(-1, n)
        if block in _STATELESS:
            blocks.append(block)
            rows += list(own)
        elif STOP.fullmatch(block):
            sliding += own[0]
            stops.append(block)
        else:
            formula = find_friction_block(block).doc
            notes.append(Message(
                "friction_block_left_out", "friction block '{block}' ({formula}) is left out: it needs more than q "
                "and v", block=block, formula=formula,
            ))  # fmt: skip
    if stops:
        notes.append(Message(
            "friction_memory_left_out", "friction blocks {blocks} have a memory: only their value while sliding is "
            "exported", blocks=list(stops),
        ))  # fmt: skip
        if "coulomb" not in blocks:
            blocks.append("coulomb")
            rows.append(np.zeros(n))
        rows[_first_row_of_block(blocks, "coulomb")] = rows[_first_row_of_block(blocks, "coulomb")] + sliding
    values = np.array(rows).reshape(-1, n)
    return JointFriction(tuple(blocks), values, equation.shapes.scale, equation.transmission), tuple(notes)


def _first_row_of_block(blocks: list[str], name: str) -> int:
    """Row of `JointFriction.values` at which a block begins."""
    return sum(len(find_friction_block(block).symbols) for block in blocks[: blocks.index(name)])


def _set_nominal_friction(robot: Robot, friction: JointFriction) -> Robot:
    """Make the friction the robot's nominal one; where that cannot hold all of it, it holds none."""
    rows: dict[str, Array] = {}
    if friction.is_plain:
        rows = {name: friction.values[k] for k, name in enumerate(friction.blocks)}
    links = list(robot.links)
    for j, k in enumerate(robot.active_links):
        links[k] = replace(links[k], friction=tuple((name, float(values[j])) for name, values in rows.items()))
    return replace(robot, links=tuple(links))


# Whether links are bodies that can exist.


ROUNDING = 1e-12
"""Share of a pseudo-inertia's largest eigenvalue that is rounding."""


def is_possible_body(x: Array, *, strictly: bool = False, part_of: Array | None = None) -> bool:
    """Whether ten parameters can be those of a body: its pseudo-inertia is not negative (or positive, strictly).

    part_of: parameters from which these were subtracted, whose rounding they have.
    """
    eigenvalues = np.linalg.eigvalsh(pseudo_inertia(x))
    whole = eigenvalues if part_of is None else np.linalg.eigvalsh(pseudo_inertia(part_of))
    bound = ROUNDING * float(np.abs(whole).max())
    return bool(eigenvalues[0] > bound) if strictly else bool(eigenvalues[0] >= -bound)


def composite_inertias(robot: Robot) -> dict[int, Array]:
    """Parameters of every moving link together with the fixed ones that it carries, in its frame."""
    total = {k: np.array(link.inertia) for k, link in enumerate(robot.links)}
    for k in reversed(robot.topological_order):
        link = robot.links[k]
        if link.kind == "fixed" and link.parent >= 0:
            total[link.parent] = total[link.parent] + change_of_frame(link.placement) @ total[k]
    return {k: x for k, x in total.items() if robot.links[k].moves}


def check_bodies(robot: Robot, bodies: Mapping[int, Array], form: str, *, strictly: bool = False) -> None:
    """Refuse links that no body can be: other software would, or would simulate nonsense."""
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


def transform_inertia(T: Transform, x: Array) -> Array:
    """Ten parameters of the inner frame, seen from the outer."""
    return np.asarray(change_of_frame(T) @ x)


# What the files cannot hold, and what must be said because of that.


def renamed_link_notes(robot: Robot, names: Sequence[str]) -> list[Message]:
    """Notes on links whose name the file cannot have."""
    pairs = zip(robot.links, names, strict=True)
    return [
        Message("link_renamed", "link {link!r} becomes {name!r}", link=link.name, name=new)
        for link, new in pairs
        if link.name != new
    ]


def friction_left_out_warnings(robot: Robot) -> tuple[Message, ...]:
    """Warnings of friction that the joints cannot have; a negative rotor inertia is refused."""
    constant, negative = [], []
    for k in robot.active_links:
        link = robot.links[k]
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
