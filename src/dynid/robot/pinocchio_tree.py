"""From a pinocchio model to our links; fixed and locked joints are merged into their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.errors import RobotFileError
from dynid.robot.inertia import SYMBOLS, change_of_frame, from_pinocchio
from dynid.robot.limits import UNLIMITED, JointLimits
from dynid.robot.robot import JointKind, Link, Robot
from dynid.robot.transform import Array, Transform, clean_rotation, freeze


@dataclass(frozen=True, slots=True)
class JointFacts:
    """What the file says about a joint beside its place in the tree."""

    link: str
    limits: JointLimits = UNLIMITED
    friction: tuple[tuple[str, float], ...] = ()


def links_of_model(
    model: Any, facts: Mapping[str, JointFacts], file: str, names: Mapping[str, Sequence[str]]
) -> list[Link]:
    """Links of all joints, in pinocchio's order; `names` lists the joints inside a composite one."""
    links: list[Link] = []
    last: dict[int, int] = {0: -1}
    problems: list[str] = []
    for i in range(1, model.njoints):
        joint = model.joints[i]
        parts = _simple_joints(joint, str(model.names[i]), names)
        parent = last[model.parents[i]]
        T = _pose(model.jointPlacements[i])
        for position, (name, part, offset) in enumerate(parts):
            kind, axis = _axis(part)
            if kind is None:
                problems.append(
                    f"joint '{name}': {part.shortname().removeprefix('JointModel')} joints are not supported; "
                    "use revolute, continuous, prismatic or fixed, or lock it in the file"
                )
                continue
            if abs(np.linalg.norm(axis) - 1.0) > 1e-6:
                problems.append(f"joint '{name}': its axis has no direction; give three numbers that are not all zero")
            whole = position == len(parts) - 1
            fact = facts[name]
            inertia = from_pinocchio(np.array(model.inertias[i].toDynamicParameters())) if whole else np.zeros(10)
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
    if joint.shortname() != "JointModelComposite":
        return [(name, joint, Transform.identity())]
    composite = joint.extract()
    parts = zip(names[name], composite.joints, composite.jointPlacements, strict=True)
    return [(part, model, _pose(place)) for part, model, place in parts]


def _axis(joint: Any) -> tuple[JointKind | None, Array]:
    """Kind and unit axis of a joint with one degree of freedom."""
    if joint.nv != 1:
        return None, np.zeros(3)
    data = joint.createData()
    joint.calc(data, np.array([1.0, 0.0]) if joint.nq == 2 else np.zeros(1))
    S = np.asarray(data.S).ravel()
    return ("prismatic", S[:3]) if np.abs(S[:3]).max() > 0.5 else ("revolute", S[3:])


def _pose(T: Any) -> Transform:
    return Transform(clean_rotation(np.array(T.rotation)), np.array(T.translation))


def base_link(name: str, inertia: Array) -> Link:
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


def merge_fixed(robot: Robot) -> Robot:
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
