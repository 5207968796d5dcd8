"""Measurement models y = W X: joint torques, momenta, power, energy, forces on the base, and what they share.

Torques (N m, N): the inverse dynamic model, Gautier 1991, eq. 5. Momenta and dL/dq: the two halves of the integral
form, d(momentum)/dt - dL/dq = torque. Energy (J): Gautier 1991, eq. 10 and 11; rows are h(k+1) - h(k), because the
functions h themselves have constants in them that would count as columns. Reactions: forces and moments of the base
on the robot (N, N m), in frame 0 about its origin (Raucent et al. 1992, eq. 4b, 6a, 6d, 7, 8), or the readings of a
declared sensor; joint torques, friction and rotors (which turn with the links here) are inside the robot and do not
show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.adjoints import joint_rows_adjoint, lagrangian_rows_adjoint, scalar_rows_adjoint
from dynid.dynamics.kernels.links import Gradient, Integers, Poses, RowLayout, angular_motion, link_poses
from dynid.dynamics.kernels.rows import (
    ENERGY,
    MOMENTUM,
    POWER,
    TORQUE,
    write_joint_rows,
    write_lagrangian_rows,
    write_picked_rows,
    write_scalar_rows,
)
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.dynamics.scene import BASE_CHANNELS, ColumnSet, Scene, with_zero_velocities
from dynid.errors import ModelError, MotionError
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


class MeasurementModel(Protocol):
    """What a sensor channel sees, linear in the parameters: y = W(q, v, a) X.

    Models write rows only; `estimation` pairs them with the channels of a log.
    """

    @property
    def overlap(self) -> int:
        """Samples beyond the first that a row needs."""
        ...

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows of a sample."""
        ...

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion as the model sees it."""
        ...

    def rows(self, scene: Scene) -> Array:
        """Write the rows, (samples, channels, columns)."""
        ...

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a, each (N, n)."""
        ...

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries of the rows that can be nonzero."""
        ...


def joint_channels(robot: Robot) -> tuple[str, ...]:
    """Channels of the models that have a row per joint; a floating base adds its wrench."""
    return (*(BASE_CHANNELS if robot.floating else ()), *robot.joint_names)


def joint_support(robot: Robot, columns: ColumnSet, *, rotor: bool) -> NDArray[np.bool_]:
    """Mask (channels, columns) of joint rows that can be nonzero: links beyond the joint, and loops that it moves."""
    beyond = _links_beyond(robot)
    masks = [columns.mask_of_links(set(range(len(robot.links))))] * (6 if robot.floating else 0)
    follow = _links_of_passive_joints(robot)
    for k in robot.active_links:
        links = set(beyond[k]).union(*(beyond[other] for other in follow[robot.links[k].joint]))
        mask = columns.mask_of_links(links)
        if rotor and k in columns.rotor_column_of_link:
            mask[columns.rotor_column_of_link[k]] = True
        masks.append(mask)
    return np.array(masks)


def _links_beyond(robot: Robot) -> dict[int, set[int]]:
    """Indices of every link and all its descendants, by link."""
    beyond: dict[int, set[int]] = {k: {k} for k in range(len(robot.links))}
    for k in reversed(robot.topological_order):
        parent = robot.links[k].parent
        if parent >= 0:
            beyond[parent] |= beyond[k]
    return beyond


def _links_of_passive_joints(robot: Robot) -> dict[str, set[int]]:
    """Links whose passive joint moves with an active one (any active one, for an implicit closure)."""
    index = {link.joint: k for k, link in enumerate(robot.links)}
    implicit = {index[name] for closure in robot.closures for name in closure.passive}
    follow: dict[str, set[int]] = {name: set(implicit) for name in robot.joint_names}
    for _ in robot.couplings:  # as often as a chain of couplings can be long
        for coupling in robot.couplings:
            for name, factor in coupling.factors:
                if factor == 0.0:
                    continue
                for active, links in follow.items():
                    if name == active or index[name] in links:
                        links.add(index[coupling.passive])
    return follow


def project_to_active(scene: Scene, rows: Array) -> Array:
    """Project rows of the tree's joints to the active ones, G' rows (Gautier 1991, closed loops)."""
    if scene.tree is None:
        return rows
    base = scene.base_row_count
    active = np.einsum("Nij,Nip->Njp", scene.tree.G, rows[:, base:], optimize=True)
    return np.concatenate([rows[:, :base], active], axis=1) if base else active


def weights_of_tree_rows(scene: Scene, weights: Array) -> Array:
    """Weights of the tree's rows from those of the active ones."""
    if scene.tree is None:
        return weights
    base = scene.base_row_count
    tree = np.einsum("Nij,Njp->Nip", scene.tree.G, weights[:, base:], optimize=True)
    return np.ascontiguousarray(np.concatenate([weights[:, :base], tree], axis=1) if base else tree)


def gradient_by_active(
    scene: Scene, gradient: tuple[Array, Array, Array], by_G: Array | None = None, by_Gdot: Array | None = None
) -> tuple[Array, Array, Array]:
    """Gradients by the active joints from those by the tree's."""
    if scene.loop is None or scene.tree is None:
        return gradient
    return scene.loop.pull_back(scene.tree, gradient, by_G, by_Gdot)


@dataclass(frozen=True, slots=True)
class JointRows:
    """Rows of a wrench-like quantity per joint: torques here, momenta in `Momentum`."""

    mode: int = TORQUE
    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows: one per active joint; a floating base adds the wrench on it."""
        return joint_channels(robot)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged: torques and momenta depend on all of it."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N, channels, columns): torques (or momenta) per unit of each parameter."""
        return project_to_active(scene, tree_rows(scene, self.mode))

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        gradient = tree_rows_adjoint(scene, self.mode, weights_of_tree_rows(scene, weights))
        by_G = None
        if scene.robot.closures:
            rows = tree_rows(scene, self.mode)[:, scene.base_row_count :]
            by_G = np.einsum("Nip,Njp->Nij", rows, weights[:, scene.base_row_count :], optimize=True)
        return gradient_by_active(scene, gradient, by_G)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries that can be nonzero: a joint's torque sees the links beyond it."""
        return joint_support(robot, columns, rotor=True)


class Torque(JointRows):
    """Joint torques; of a floating base also the wrench on it, in its own frame."""


def write_picked_torques(scene: Scene, pick: Integers, place: Integers, out: Array) -> None:
    """Write chosen entries of the torque rows: out[n, place[e]] is entry pick[e] of sample n's (n * columns,) row."""
    if scene.tree is not None:
        rows = project_to_active(scene, tree_rows(scene, TORQUE))
        out[:, place] = rows.reshape(len(rows), -1)[:, pick]
        return

    layout = scene.row_layout(TORQUE)

    def write_sample_range(start: int, stop: int) -> None:
        write_picked_rows(scene.geometry, layout, scene.samples_between(start, stop), pick, place, out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)


def tree_rows(scene: Scene, mode: int) -> Array:
    """Rows (N, base rows + joints of the tree, columns) of torque or momentum, as the mode says."""
    layout = scene.row_layout(mode)
    out = np.zeros((len(scene), layout.rows, layout.p))

    def write_sample_range(start: int, stop: int) -> None:
        write_joint_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


def tree_rows_adjoint(scene: Scene, mode: int, weights: Array) -> tuple[Array, Array, Array]:
    """Gradient of sum(weights * tree rows) by the tree's q, v, a."""
    layout, gradient = scene.row_layout(mode), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))

    def differentiate_sample_range(start: int, stop: int) -> None:
        samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
        joint_rows_adjoint(scene.geometry, layout, samples, weights[start:stop], part)

    run_on_sample_ranges(len(scene), differentiate_sample_range)
    return gradient


# Torques at zero velocity, d0 of Gautier 1991, eq. 8: accelerations stay.


class Static(JointRows):
    """The torque model with all velocities set to zero."""

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion with zero velocities."""
        return with_zero_velocities(motion)

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows); velocities do not matter."""
        gq, gv, ga = super().adjoint(scene, weights)
        return gq, np.zeros_like(gv), ga


@dataclass(frozen=True, slots=True)
class LagrangianGradient:
    """dL/dq of every joint; in a closed loop G' dL/dq + Gdot' dL/dqd."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows: one per active joint; a floating base adds six."""
        return joint_channels(robot)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged; accelerations do not matter."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N, channels, columns): dL/dq per unit of each parameter."""
        rows = project_to_active(scene, _lagrangian_tree_rows(scene))
        if scene.tree is not None and scene.robot.closures:
            momentum = tree_rows(scene, MOMENTUM)[:, scene.base_row_count :]
            rows[:, scene.base_row_count :] += np.einsum("Nij,Nip->Njp", scene.tree.Gdot, momentum, optimize=True)
        return rows

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        weights_tree = weights_of_tree_rows(scene, weights)
        layout, gradient = scene.row_layout(MOMENTUM), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))

        def differentiate_sample_range(start: int, stop: int) -> None:
            samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
            lagrangian_rows_adjoint(scene.geometry, layout, samples, weights_tree[start:stop], part)

        run_on_sample_ranges(len(scene), differentiate_sample_range)
        if scene.tree is None or not scene.robot.closures:
            return gradient_by_active(scene, gradient)
        joint_weights = weights[:, scene.base_row_count :]
        bent = np.zeros_like(weights_tree)
        bent[:, scene.base_row_count :] = np.einsum("Nij,Njp->Nip", scene.tree.Gdot, joint_weights, optimize=True)
        mq, mv, _ = tree_rows_adjoint(scene, MOMENTUM, bent)
        by_G, by_Gdot = (
            np.einsum("Nip,Njp->Nij", rows[:, scene.base_row_count :], joint_weights, optimize=True)
            for rows in (_lagrangian_tree_rows(scene), tree_rows(scene, MOMENTUM))
        )
        return gradient_by_active(scene, (gradient.q + mq, gradient.qd + mv, gradient.qdd), by_G, by_Gdot)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries that can be nonzero: links beyond the joint, no rotors."""
        return joint_support(robot, columns, rotor=bool(robot.closures))


def _lagrangian_tree_rows(scene: Scene) -> Array:
    """Rows of dL/dq of the base and all joints of the tree."""
    layout = scene.row_layout(MOMENTUM)
    out = np.zeros((len(scene), layout.rows, layout.p))

    def write_sample_range(start: int, stop: int) -> None:
        write_lagrangian_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


# Generalised momentum dL/dqd (N m s, N s): the integral form of the dynamics, Ha, Ko & Kwon, eq. 2.26.


@dataclass(frozen=True, slots=True)
class Momentum(JointRows):
    """The momentum of every joint; of a floating base also its own, in its frame."""

    mode: int = MOMENTUM


# Power (W) of all joints: torque times velocity, the derivative of the energy model.


@dataclass(frozen=True, slots=True)
class Power:
    """Power (W) of all joints: one row per sample."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Name of the one row per sample: power."""
        return ("power",)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged: power depends on all of it."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N, 1, columns): power per unit of each parameter."""
        return power_or_energy_rows(scene, POWER)[:, None, :]

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        return gradient_by_active(scene, power_or_energy_adjoint(scene, POWER, weights[:, 0]))

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (1, columns) of entries that can be nonzero: all."""
        return np.ones((1, len(columns)), dtype=np.bool_)


def power_or_energy_rows(scene: Scene, mode: int) -> Array:
    """Rows (N, columns) of power or energy, as the mode says."""
    layout, out = scene.row_layout(mode), np.zeros((len(scene), len(scene.columns)))

    def write_sample_range(start: int, stop: int) -> None:
        write_scalar_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


def power_or_energy_adjoint(scene: Scene, mode: int, weights: Array) -> tuple[Array, Array, Array]:
    """Gradient of sum(weights * rows) by the tree's q, v, a; weights (N, columns)."""
    layout, gradient = scene.row_layout(mode), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))
    weights = np.ascontiguousarray(weights)

    def differentiate_sample_range(start: int, stop: int) -> None:
        samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
        scalar_rows_adjoint(scene.geometry, layout, samples, weights[start:stop], part)

    run_on_sample_ranges(len(scene), differentiate_sample_range)
    return gradient


@dataclass(frozen=True, slots=True)
class Energy:
    """Kinetic plus potential energy gained from one sample to the next: N - 1 rows."""

    overlap: int = 1

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Name of the one row per pair of samples: energy."""
        return ("energy",)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged; raise where it has fewer than two samples."""
        if len(motion) < 2:
            raise MotionError(
                "too_few_samples", "the energy model takes differences between samples and needs at least two",
            )  # fmt: skip
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N - 1, 1, columns): energy gained from sample to sample per unit of each parameter."""
        return np.diff(power_or_energy_rows(scene, ENERGY), axis=0)[:, None, :]

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        h = np.zeros((len(scene), len(scene.columns)))
        h[1:] += weights[:, 0]
        h[:-1] -= weights[:, 0]
        return gradient_by_active(scene, power_or_energy_adjoint(scene, ENERGY, h))

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (1, columns) of entries that can be nonzero: all."""
        return np.ones((1, len(columns)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Reaction:
    """Six rows per sample, Fx Fy Fz Mx My Mz, or those of the sensor's channels."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows: six, or the sensor's; raise for a floating base, which stands on nothing."""
        if robot.floating:
            raise ModelError(
                "floating_base", "'{robot}' has a floating base and no reactions", "the torque model gives the wrench "
                "on it", robot=robot.name,
            )  # fmt: skip
        return BASE_CHANNELS if robot.sensor is None else robot.sensor.channels

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged: reactions depend on all of it."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Reactions per unit of each parameter."""
        layout, out = _base_rows_layout(scene), np.zeros((len(scene), 6, len(scene.columns)))

        def write_sample_range(start: int, stop: int) -> None:
            write_joint_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

        run_on_sample_ranges(len(scene), write_sample_range)
        sensor = scene.robot.sensor
        return (
            out
            if sensor is None
            else np.asarray(np.einsum("cw,Nwp->Ncp", sensor.wrench_to_readings, out, optimize=True))
        )

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        layout, gradient = _base_rows_layout(scene), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))
        sensor = scene.robot.sensor
        if sensor is not None:
            weights = np.ascontiguousarray(np.einsum("cw,Ncp->Nwp", sensor.wrench_to_readings, weights, optimize=True))

        def differentiate_sample_range(start: int, stop: int) -> None:
            samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
            joint_rows_adjoint(scene.geometry, layout, samples, weights[start:stop], part)

        run_on_sample_ranges(len(scene), differentiate_sample_range)
        return gradient_by_active(scene, gradient)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries that can be nonzero: all links, no rotors."""
        return np.tile(columns.mask_of_links(set(range(len(robot.links)))), (len(self.channels(robot)), 1))


def _base_rows_layout(scene: Scene) -> RowLayout:
    """Row layout of the base frame alone, without the joints."""
    return scene.row_layout(TORQUE)._replace(channels=6, rows=6)


# What rotors of known inertia that turn faster than their joints do to the base and to the joints.
#
# A rotor with inertia J about its axis u, carried by the link before joint j, spins with n qd_j; the rest of its
# motion is the carrier's, whose parameters hold its mass. With the carrier's angular velocity w its kinetic energy has
# two terms more, n J qd_j u.w and (n^2 J) qd_j^2 / 2. The last is that of Ia. The first is an angular momentum n J
# qd_j u, whose rate m = n J (qdd_j u + qd_j w x u) comes from the base through all joints i before the carrier, tau_i
# += z_i.m, and it loads joint j with n J u.dw/dt.


def rotor_moments(scene: Scene) -> Array:
    """Moment (N, 3) of the base on the robot, in frame 0, for the spin of all rotors of known inertia."""
    return np.asarray(sum((m for _, _, m, _ in _rotor_spins(scene)[1]), np.zeros((len(scene), 3))))


def rotor_torques(scene: Scene, *, behind_gear: bool = False) -> Array:
    """Joint torques (N, n) of the rotors' spins in addition to Ia qdd; behind the gear without a joint's own rotor."""
    poses, spins = _rotor_spins(scene)
    robot, tau = scene.robot, np.zeros((len(scene), len(scene.robot.tree_joints), 1))
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for j, carrier, moment, own in spins:
        tau[:, j, 0] += 0.0 if behind_gear else own
        while carrier >= 0:
            link = robot.links[carrier]
            if link.kind == "revolute":
                tau[:, column[carrier], 0] += ((poses.rotation[carrier] @ link.axis) * moment).sum(axis=1)
            carrier = link.parent
    return project_to_active(scene, tau)[:, :, 0]


def _rotor_spins(scene: Scene) -> tuple[Poses, list[tuple[int, int, Array, Array]]]:
    """Poses, and per rotor: its joint's place in the tree, its carrier, moment m (N, 3) and n J u.dw/dt (N,)."""
    robot, spins = scene.robot, []
    poses = link_poses(robot, scene.q)
    omega, alpha = angular_motion(robot, poses, scene.v, scene.a)
    place = {robot.links[k].joint: j for j, k in enumerate(robot.tree_joints)}
    parent = {link.joint: link.parent for link in robot.links}
    for rotor in () if robot.sensor is None else robot.sensor.spinning_rotors:
        carrier, j = parent[rotor.joint], place[rotor.joint]
        u, nJ = poses.rotation[carrier] @ rotor.axis, rotor.ratio * rotor.inertia
        moment = nJ * (scene.a[:, j, None] * u + scene.v[:, j, None] * np.cross(omega[carrier], u))
        spins.append((j, carrier, moment, nJ * (u * alpha[carrier]).sum(axis=1)))
    return poses, spins
