"""A check of robot files: links that no body can have, which of them matter, and whether they can be mended."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import MeshRefusedError
from dynid.identifiability.base_parameters import cached_base_parameters
from dynid.identifiability.parameters import BaseParameters
from dynid.messages import Message
from dynid.physical.constraints import LinearRows, StatedBody, stated_bodies
from dynid.physical.prior import Prior, bodies_from_sizes, find_prior, is_massless
from dynid.physical.problem import UNIT, Problem, link_coordinate_basis, link_coordinate_columns
from dynid.physical.search import find_bodies_with_estimate
from dynid.robot.inertia import ROTOR, SYMBOLS, change_of_frame, pseudo_inertia, to_body
from dynid.robot.io.meshes import LEVELS, MeshFolders
from dynid.robot.io.xml import read_xml
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DENSEST, THINNEST = 22600.0, 1.0
"""kg/m^3: osmium, and about the air; beyond these no solid is."""

ROUNDING = 1e-6
"""Share of the largest eigenvalue that a negative one may have by the rounding of a file's digits."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a link.

    Attributes
    ----------
    link : str
        Name of the link.
    problem : Message
        What is wrong.
    matters : bool
        Whether it affects torques; else a change without effect on torques mends it.
    """

    link: str
    problem: Message
    matters: bool

    @property
    def message(self) -> Message:
        """Message on the fault."""
        felt = "torques feel it" if self.matters else "no effect on torques"
        return Message(
            self.problem.code, "link {link}: {problem} ({felt})", **self.problem.facts, link=self.link,
            problem=self.problem, felt=felt, matters=self.matters,
        )  # fmt: skip

    def __str__(self) -> str:
        return str(self.message)


@dataclass(frozen=True, eq=False)
class Check:
    """What was found in a robot file.

    Attributes
    ----------
    robot : Robot
        The robot as it was read.
    bodies : tuple of str
        Links that were checked.
    unknown : tuple of str
        Links with unknown values.
    faults : tuple of Fault
        What is wrong.
    mended : Robot or None
        The same robot with the nearest physically possible bodies that give the same torques; None if nothing is wrong
        or no such bodies exist.
    impossible : bool
        Whether no such bodies exist: no robot has the torques of this file.
    """

    robot: Robot
    bodies: tuple[str, ...]
    unknown: tuple[str, ...]
    faults: tuple[Fault, ...]
    mended: Robot | None
    impossible: bool

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings, one per fault."""
        return (*self.robot.warnings, *(fault.message for fault in self.faults))


@one_blas_thread
def check_robot(
    source: str | os.PathLike[str],
    *,
    xacro: bool | Mapping[str, str] = False,
    package_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
) -> Check:
    """Check a URDF, an MJCF, a table or a bundled robot for physically impossible bodies and other faults.

    Parameters
    ----------
    source : str or path
        File, or the name of a bundled robot.
    xacro : bool or mapping of str to str
        Expand a `.xacro` file first; a mapping gives the values of its arguments.
    package_path : path or sequence of paths
        Folders that are ROS packages or contain some, searched for `package://` of meshes and `$(find package)` before
        ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and COLCON_PREFIX_PATH.

    Returns
    -------
    Check
        The faults, and a mended robot where one gives the same torques.

    Raises
    ------
    RobotFileError
        If the file cannot be read.

    Examples
    --------
    >>> from dynid import check_robot
    >>> check_robot("puma560").faults[0].problem
    'it has no mass'
    """
    robot = load_robot(source, xacro=xacro, package_path=package_path)
    robot = replace(robot, notes=(*robot.notes, *_describe_missing_meshes(Path(source), robot)))
    bodies = stated_bodies(str(source), robot)
    base = cached_base_parameters(robot, model="torque", rotor_inertia=True)
    faults: list[Fault] = []
    for body in bodies:
        faults += [
            Fault(body.name, text, _matters_for_torques(robot, base, body))
            for text in describe_violations(body.inertia)
        ]
    for k in robot.active_links:
        link = robot.links[k]
        if link.rotor < 0.0:
            problem = Message("rotor_inertia_negative", "rotor inertia {inertia:.3g} is negative", inertia=link.rotor)
            faults.append(Fault(link.name, problem, True))
    unknown = tuple(body.name for body in bodies if np.isnan(body.inertia).any())
    mended, impossible = None, False
    if faults and not unknown:
        values = _merge_bodies(robot, bodies)
        mended = find_nearest_bodies(robot, base, values)
        impossible = mended is None
    return Check(robot, tuple(body.name for body in bodies), unknown, tuple(faults), mended, impossible)


def _describe_missing_meshes(path: Path, robot: Robot) -> list[Message]:
    """Note on the meshes of a URDF that collision, geometry and the viewer will not find."""
    if path.suffix.lower() not in (".urdf", ".xacro"):
        return []
    root = read_xml(path, "robot", "is this a URDF?", text=robot.description)
    folders = MeshFolders.for_urdf(path, levels=LEVELS, package_path=robot.package_path)
    refused: list[Message] = []
    names = dict.fromkeys(mesh.get("filename", "") for mesh in root.iter("mesh"))
    for name in names:
        try:
            folders.find_mesh(name)
        except MeshRefusedError as error:
            refused.append(error.message)
    what, facts = "{count} of {total} meshes were not found, for example: {reason}", {"count": len(refused)}
    return [Message("meshes_not_found", what, **facts, total=len(names), reason=refused[0])] if refused else []


def body_can_exist(x: Array) -> bool:
    """Whether ten parameters have a positive mass and a positive definite pseudo-inertia."""
    return bool(x[9] > 0.0 and np.linalg.eigvalsh(pseudo_inertia(x))[0] > 0.0)


def describe_violations(x: Array) -> list[Message]:
    """Messages on what no body can have in ten parameters."""
    if np.isnan(x[9]):
        return []
    if x[9] <= 0.0:
        return [Message("mass_not_positive", "its mass is {mass:.4g} kg" if x[9] else "it has no mass", mass=x[9])]
    if np.isnan(x).any():
        return []
    P = pseudo_inertia(x)
    c = P[:3, 3] / P[3, 3]
    spread = P[:3, :3] - P[3, 3] * np.outer(c, c)  # second moments about the centre of mass
    values = np.linalg.eigvalsh(spread)
    J = np.linalg.eigvalsh(to_body(x).inertia)
    if values[0] < -ROUNDING * np.abs(values).max():
        if J[0] < -ROUNDING * np.abs(J).max():
            what = "a principal moment about its centre of mass is negative ({moment:.3g} kg m^2)"
            return [Message("moment_negative", what, moment=J[0])]
        what = (
            "principal moments {moments[0]:.4g}, {moments[1]:.4g}, {moments[2]:.4g} kg m^2 about its centre of mass: "
            "the largest exceeds the sum of the others"
        )
        return [Message("triangle_inequality_violated", what, moments=J.tolist())]
    if values[0] > 0.0:
        density = float(x[9] / (4.0 / 3.0 * np.pi * np.prod(np.sqrt(5.0 * values / x[9]))))
        if not THINNEST < density < DENSEST:
            word = "denser than any metal" if density >= DENSEST else "thinner than air"
            what = "its ellipsoid of inertia has {density:.3g} kg/m^3, {compared}"
            return [Message("density_implausible", what, density=density, compared=word)]
    elif values[-1] <= 0.0:
        return [Message("point_mass", "it has a mass but no inertia about its centre of mass: a point")]
    return []


def find_nearest_bodies(robot: Robot, base: BaseParameters, values: Array) -> Robot | None:
    """The robot with the nearest physically possible bodies that have the same base parameters; None without such."""
    nominal = robot.with_parameters(values)
    prior = find_prior(nominal, None)
    names, links = robot.parameter_names, tuple(k for k, link in enumerate(robot.links) if not is_massless(link))
    columns, centre = _rotor_inertia_columns(nominal, names, prior)
    columns = [c for k in links for c in link_coordinate_columns(robot, names, k, prior)] + columns
    basis = np.array(columns).T
    seen = base.matrix @ basis
    rotors = len(centre)
    below = LinearRows(-np.eye(basis.shape[1])[basis.shape[1] - rotors :], np.zeros(rotors), (ROTOR,) * rotors)
    none = LinearRows(np.zeros((0, basis.shape[1])), np.zeros(0), ())
    problem = Problem(
        names, links, basis, np.zeros(len(names)), np.concatenate([np.tile(UNIT, len(links)), centre]),
        np.ones(basis.shape[1]), seen, base.matrix @ values, np.eye(len(seen)), 1.0, 0.0, none, below,
    )  # fmt: skip
    x = find_bodies_with_estimate(problem)
    return None if x is None else robot.with_parameters(problem.values(x))


def _rotor_inertia_columns(robot: Robot, names: tuple[str, ...], prior: Prior) -> tuple[list[Array], Array]:
    """Scaled columns of the active joints' rotor inertias, and their values by the prior."""
    columns, centre = [], []
    for k in robot.active_links:
        column = np.zeros(len(names))
        column[names.index(ROTOR + robot.links[k].label)] = prior.rotor_scale[k]
        columns.append(column)
        centre.append(max(prior.rotor[k], 0.0) / prior.rotor_scale[k])
    return columns, np.array(centre)


def _matters_for_torques(robot: Robot, base: BaseParameters, body: StatedBody) -> bool:
    """Whether joint torques feel the fault: no change that they cannot feel makes this body possible."""
    if body.carrier < 0 or np.isnan(body.inertia).any():
        return False
    first = robot.parameter_names.index(SYMBOLS[0] + robot.links[body.carrier].label)
    G = base.matrix[:, first : first + 10] @ change_of_frame(body.placement)
    T = link_coordinate_basis(0.01 * bodies_from_sizes(robot)[body.carrier])
    none = LinearRows(np.zeros((0, 10)), np.zeros(0), ())
    names = tuple(robot.links[body.carrier].parameter(symbol) for symbol in SYMBOLS)
    problem = Problem(
        names, (0,), T, np.zeros(10), UNIT, np.ones(10), G @ T, G @ body.inertia, np.eye(len(G)), 1.0, 0.0, none, none
    )
    if body_can_exist(body.inertia):  # a body, though one of impossible density
        return bool(np.abs(G @ body.inertia).max() > 0.0)
    return find_bodies_with_estimate(problem) is None


def _merge_bodies(robot: Robot, bodies: list[StatedBody]) -> Array:
    """Standard parameters of the robot from its stated bodies."""
    inertia = np.zeros((len(robot.links), 10))
    for body in bodies:
        if body.carrier >= 0:
            inertia[body.carrier] += change_of_frame(body.placement) @ body.inertia
    links = (replace(link, inertia=x) for link, x in zip(robot.links, inertia, strict=True))
    values = np.array(replace(robot, links=tuple(links)).parameters)
    return np.where(np.isnan(values), 0.0, values)
