"""The Protocol of all measurement models, and what they share."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.scene import BASE_CHANNELS, ColumnSet, Scene
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
