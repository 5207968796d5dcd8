"""From a pinocchio model to our links; fixed and locked joints are merged into their parents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.errors import RobotFileError
from dynid.messages import Message
from dynid.robot.inertia import SYMBOLS, change_of_frame, from_pinocchio
from dynid.robot.robot import UNLIMITED, JointKind, JointLimits, Link, Robot
from dynid.robot.transform import Array, Transform, clean_rotation, freeze

AGREE = 1e-9
"""Share of their size by which two readings of a file may differ."""


@dataclass(frozen=True, slots=True)
class JointProperties:
    """What the file says about a joint beside its place in the tree."""

    link: str
    limits: JointLimits = UNLIMITED
    friction: tuple[tuple[str, float], ...] = ()


def merged_inertias(file: str, model: Any, bodies: Iterable[tuple[str, int, Transform, Array | None]]) -> list[Array]:
    """Ten parameters of all that moves with each joint (0: the root), from bodies as the file states them.

    Of each body: its name, the joint, T_joint_body and its parameters, None where only pinocchio knows them: then its
    sum is taken for that joint. Else it must agree, but where masses are negative: it clips these or divides by zero.
    """
    theirs = [from_pinocchio(np.array(inertia.toDynamicParameters())) for inertia in model.inertias]
    ours, size = np.zeros((len(theirs), 10)), np.zeros(len(theirs))
    names: dict[int, list[str]] = {}
    for name, joint, T, x in bodies:
        names.setdefault(joint, []).append(name)
        moved = np.full(10, np.nan) if x is None else change_of_frame(T) @ x
        ours[joint] += moved
        size[joint] = size[joint] + np.abs(moved).max() if x is not None and x[9] >= 0.0 else np.nan
    problems = [
        Message(
            "pinocchio_inertias_differ", "link '{link}': pinocchio reads other masses or inertias than the file states "
            "({read} for {stated})", link=name, read=theirs[k], stated=ours[k],
        )
        for k, (name, *_) in names.items()
        if np.abs(theirs[k] - ours[k]).max() > AGREE * size[k]
    ]  # fmt: skip
    if problems:
        raise RobotFileError(file, problems)
    return [theirs[k] if np.isnan(x).any() else x for k, x in enumerate(ours)]


def joint_is_at(model: Any, joint: int, place: Transform, axis: Array) -> bool:
    """Whether pinocchio has a joint at a place in its parent's frame, with this axis."""
    T = model.jointPlacements[joint]
    pairs = (
        (T.rotation, place.rotation),
        (T.translation, place.translation),
        (_joint_type_and_axis(model.joints[joint])[1], axis),
    )
    return all(np.abs(a - b).max() <= AGREE * max(1.0, np.abs(b).max()) for a, b in pairs)


def links_from_pinocchio(
    model: Any,
    facts: Mapping[str, JointProperties],
    file: str,
    names: Mapping[str, Sequence[str]],
    inertias: Sequence[Array],
) -> list[Link]:
    """Links of all joints, in pinocchio's order; `names` lists the joints inside a composite one."""
    links: list[Link] = []
    last: dict[int, int] = {0: -1}
    problems: list[Message] = []
    for i in range(1, model.njoints):
        joint = model.joints[i]
        parts = _simple_joints(joint, str(model.names[i]), names)
        parent = last[model.parents[i]]
        T = pose_from_pinocchio(model.jointPlacements[i])
        for position, (name, part, offset) in enumerate(parts):
            kind, axis = _joint_type_and_axis(part)
            if kind is None:
                problems.append(Message(
                    "unsupported_joint_type", "joint '{joint}': {kind} joints are not supported",
                    "use revolute, continuous, prismatic or fixed, or lock it in the file", joint=name,
                    kind=part.shortname().removeprefix('JointModel'),
                ))  # fmt: skip
                continue
            if abs(np.linalg.norm(axis) - 1.0) > 1e-6:
                problems.append(Message(
                    "axis_without_direction", "joint '{joint}': its axis has no direction",
                    "give three numbers that are not all zero", joint=name,
                ))  # fmt: skip
            whole = position == len(parts) - 1
            fact = facts[name]
            inertia = inertias[i] if whole else np.zeros(10)
            links.append(
                Link(
                    name=fact.link if whole else f"{fact.link}/{name}",
                    joint=name,
                    label=f":{fact.link}" if whole else f":{fact.link}/{name}",
                    parent=parent,
                    kind=kind,
                    placement=T @ offset,
                    axis=freeze(axis),
                    inertia=freeze(inertia),
                    rotor=float(model.armature[joint.idx_v + position]),
                    zero=frozenset() if whole else frozenset(SYMBOLS),
                    limits=fact.limits,
                    friction=fact.friction,
                )
            )
            parent = len(links) - 1
            T = Transform.identity()
        last[i] = parent
    if problems:
        raise RobotFileError(file, problems)
    return links


def _simple_joints(joint: Any, name: str, names: Mapping[str, Sequence[str]]) -> list[tuple[str, Any, Transform]]:
    """Name, model and placement of a joint, or of each joint inside a composite one."""
    if joint.shortname() != "JointModelComposite":
        return [(name, joint, Transform.identity())]
    composite = joint.extract()
    parts = zip(names[name], composite.joints, composite.jointPlacements, strict=True)
    return [(part, model, pose_from_pinocchio(place)) for part, model, place in parts]


def _joint_type_and_axis(joint: Any) -> tuple[JointKind | None, Array]:
    """Kind and unit axis of a joint with one degree of freedom."""
    if joint.nv != 1:
        return None, np.zeros(3)
    data = joint.createData()
    joint.calc(data, np.array([1.0, 0.0]) if joint.nq == 2 else np.zeros(1))
    S = np.asarray(data.S).ravel()
    return ("prismatic", S[:3]) if np.abs(S[:3]).max() > 0.5 else ("revolute", S[3:])


def pose_from_pinocchio(T: Any) -> Transform:
    """Pose from pinocchio's."""
    return Transform(clean_rotation(np.array(T.rotation)), np.array(T.translation))


def floating_base_link(name: str, inertia: Array) -> Link:
    """Return the root as a free link."""
    return Link(
        name=name,
        joint="base",
        label=f":{name}",
        parent=-1,
        kind="floating",
        placement=Transform.identity(),
        axis=freeze(np.zeros(3)),
        inertia=freeze(inertia),
    )


def merge_fixed_links(robot: Robot) -> Robot:
    """Return the robot without fixed links: their inertias go to the parent, those on a fixed base are dropped."""
    links = list(robot.links)
    for k in reversed(robot.topological_order):
        link = links[k]
        if link.kind != "fixed":
            continue
        if link.parent >= 0:
            carrier = links[link.parent]
            inertia = np.asarray(carrier.inertia) + change_of_frame(link.placement) @ link.inertia
            links[link.parent] = replace(carrier, inertia=freeze(inertia), zero=carrier.zero & link.zero)
        for i, child in enumerate(links):
            if child.parent == k:
                links[i] = replace(child, parent=link.parent, placement=link.placement @ child.placement)
    kept = [k for k, link in enumerate(links) if link.kind != "fixed"]
    place = {k: i for i, k in enumerate(kept)} | {-1: -1}
    return replace(robot, links=tuple(replace(links[k], parent=place[links[k].parent]) for k in kept))
