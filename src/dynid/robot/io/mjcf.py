"""MJCF files (MuJoCo's format), through pinocchio; meshes are not needed where bodies state their inertia.

Pinocchio reads one tree of bodies, no includes and no gravity: these are handled here.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.errors import DynidError, ParserDiedError, ParserFailedError, RobotFileError
from dynid.messages import Message, Option
from dynid.robot.io.mjcf_expansion import (
    balance_inertias,
    compile_mjcf,
    drop_shapes_of_known_inertia,
    expand_includes,
    expand_joint_defaults,
    frames_to_bodies,
    inertias_from_shapes,
    merge_defaults,
    name_bodies_and_joints,
    orientations_to_quaternions,
    stated_inertia,
    with_shapes_only,
)
from dynid.robot.io.pinocchio_tree import (
    JointProperties,
    floating_base_link,
    links_from_pinocchio,
    merge_fixed_links,
    merged_inertias,
    pose_from_pinocchio,
)
from dynid.robot.io.xml import file_and_line_text, read_numbers, read_xml
from dynid.robot.load import lock_joints
from dynid.robot.mdh import SnappedAngle, describe_snapped_angles
from dynid.robot.robot import Coupling, JointLimits, Link, Robot
from dynid.robot.transform import SNAP_TOLERANCE, Array, Transform, freeze, rotation_about
from dynid.storage.files import run_isolated

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# Equalities of an MJCF that tie joints: gears, and fixed tendons of constant length.


def read_couplings(path: Path, root: Element, zeros: Mapping[str, float]) -> tuple[Coupling, ...]:
    """Read linear joint equalities, joint1 = polycoef[0] + polycoef[1] joint2, and tendons of constant length.

    Both count from the positions `zeros` that joints have as they are drawn.
    """
    couplings: list[Coupling] = []
    for part in (p for equality in root.findall("equality") for p in equality):
        if part.tag == "tendon":
            couplings.append(_read_tendon_coupling(path, root, part, zeros))
        elif part.tag == "joint":
            name, leader = part.get("joint1", ""), part.get("joint2")
            offset, factor, *higher = _read_polynomial(path, part, f"equality of joint '{name}'")
            if leader is None or any(higher):
                raise RobotFileError(
                    str(path), "coupling_not_linear", "equality of joint '{joint}': only linear couplings of two "
                    "joints are read", joint=name,
                )  # fmt: skip
            offset += zeros.get(name, 0.0) - factor * zeros.get(leader, 0.0)
            couplings.append(Coupling(name, ((leader, factor),), offset))
    return tuple(couplings)


def _read_tendon_coupling(path: Path, root: Element, part: Element, zeros: Mapping[str, float]) -> Coupling:
    """Coupling of joints on a fixed tendon of constant length: the first one follows the others."""
    name = part.get("tendon1", "")
    where = f"equality of tendon '{name}'"
    fixed = [f for tendon in root.findall("tendon") for f in tendon.findall("fixed") if f.get("name") == name]
    length, _, *higher = _read_polynomial(path, part, where)
    if len(fixed) != 1 or part.get("tendon2") is not None or any(higher):
        raise RobotFileError(
            str(path), "tendon_not_supported", "{where}: only fixed tendons of constant length are read", where=where,
        )  # fmt: skip
    try:
        terms = [(j.get("joint", ""), read_numbers(j, "coef", (0.0,))[0]) for j in fixed[0].findall("joint")]
    except ValueError as error:
        raise RobotFileError(str(path), "values_not_numeric", "{where}: {reason}", where=where, reason=error) from error
    if len(terms) < 2 or terms[0][1] == 0.0:
        raise RobotFileError(
            str(path), "tendon_joints_incomplete", "{where}: it needs two joints or more, the first with a coef",
            where=where,
        )  # fmt: skip
    (passive, own), *others = terms
    length += sum(coef * zeros.get(joint, 0.0) for joint, coef in terms)
    return Coupling(passive, tuple((joint, -coef / own) for joint, coef in others), length / own)


def _read_polynomial(path: Path, part: Element, where: str) -> list[float]:
    """Five coefficients of a joint equality, missing ones as MuJoCo's defaults."""
    default = (0.0, 1.0, 0.0, 0.0, 0.0)
    count = min(max(len(part.get("polycoef", "").split()), 1), 5)
    try:
        return [*read_numbers(part, "polycoef", default[:count]), *default[count:]]
    except ValueError as error:
        raise RobotFileError(
            str(path), "values_not_numeric", "{place}{where}: {reason}", place=file_and_line_text(part), where=where,
            reason=error,
        ) from error  # fmt: skip


# Numbers of an MJCF, checked before pinocchio sees them: it takes words for zeros without saying so.


_COUNTS = {
    "body": {"pos": 3, "quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3},
    "joint": {"pos": 3, "axis": 3, "range": 2, "damping": 0, "frictionloss": 1, "armature": 1,
        "actuatorfrcrange": 2,},
    "inertial": {
        "pos": 3, "quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3, "mass": 1, "diaginertia": 3,
        "fullinertia": 6,
    },
}  # fmt: skip
"""How many numbers an attribute has, by element; 0: as many as there are."""


def check_mjcf_numbers(path: Path, root: Element) -> None:
    """Raise RobotFileError that lists every pose, axis, mass or inertia that is not a number."""
    problems: list[Message] = []
    for compiler in root.findall("compiler"):
        _check_attributes(compiler, "compiler", {"settotalmass": 1, "boundmass": 1, "boundinertia": 1}, problems)
    for body in (b for world in root.findall("worldbody") for b in world.iter("body")):
        where = f"body '{body.get('name')}'"
        _check_attributes(body, where, _COUNTS["body"], problems)
        for inertial in body.findall("inertial"):
            _check_attributes(inertial, f"{where}, inertial", _COUNTS["inertial"], problems)
            _check_inertial(inertial, f"{file_and_line_text(inertial)}{where}, inertial", problems)
        for second in body.findall("inertial")[1:]:
            problems.append(Message(
                "two_inertial_elements", "{place}{where} has two <inertial>", "remove one",
                place=file_and_line_text(second), where=where,
            ))  # fmt: skip
        for joint in body.findall("joint"):
            name = f"joint '{joint.get('name')}'"
            _check_attributes(joint, name, _COUNTS["joint"], problems)
    if problems:
        raise RobotFileError(str(path), problems)


def _check_inertial(inertial: Element, where: str, problems: list[Message]) -> None:
    """Add what is missing or wrong in an <inertial> to the problems."""
    missing = [key for key in ("pos", "mass") if key not in inertial.attrib]
    if missing:
        problems.append(Message(
            "inertial_numbers_missing", "{where}: {missing} missing", "write every number, zeros too", where=where,
            missing=' and '.join(missing),
        ))  # fmt: skip
    moments = [key for key in ("diaginertia", "fullinertia") if key in inertial.attrib]
    if len(moments) > 1:
        problems.append(Message("two_inertias", "{where}: diaginertia and fullinertia", "remove one", where=where))
    if not moments:
        inertial.set("diaginertia", "0 0 0")  # as in MuJoCo; pinocchio invents some


def _check_attributes(element: Element, where: str, counts: dict[str, int], problems: list[Message]) -> None:
    """Add attributes that are not so many finite numbers to the problems."""
    for key, count in counts.items():
        if key in element.attrib:
            size = count or max(1, len(element.attrib[key].split()))
            try:
                read_numbers(element, key, (0.0,) * size)
            except ValueError as error:
                problems.append(Message(
                    "values_not_numeric", "{place}{where}: {reason}", place=file_and_line_text(element), where=where,
                    reason=error,
                ))  # fmt: skip


def read_mjcf(path: Path, *, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    """Read an MJCF: hinge and slide joints (several on a body too), joint equalities as couplings.

    A body whose axes are within 1e-4 of its parent's axes, turned by multiples of 90 degrees, is snapped to them.
    """
    root = read_xml(path, "mujoco", "is this an MJCF? (URDF files end in .urdf)")
    expand_includes(path, root, path.resolve().parent)
    orientations_to_quaternions(root)
    merge_defaults(root)
    expand_joint_defaults(root)
    frames_to_bodies(path, root)
    name_bodies_and_joints(root)
    check_mjcf_numbers(path, root)
    balance_inertias(root)
    zeros = _extract_zero_positions(path, root)
    bodies = [body for world in root.findall("worldbody") for body in world.findall("body")]
    moving = [body for body in bodies if any(e.tag in ("joint", "freejoint") for e in body.iter())]
    notes: list[Message] = []
    if len(moving) > 1:
        for body in [b for b in moving if _has_free_joint(b)]:
            notes.append(Message(
                "free_body_left_out", "body '{body}' floats freely and is not part of the robot", body=body.get('name'),
            ))  # fmt: skip
        moving = [b for b in moving if not _has_free_joint(b)]
    if not moving:
        raise RobotFileError(str(path), "no_moving_joint", "no body under <worldbody> has a joint; nothing can move")
    _check_mjcf(path, root, moving)
    unknown = inertias_from_shapes(path, root, moving, notes)
    free = _has_free_joint(moving[0])
    if (free or floating_base) and len(moving) > 1:
        raise RobotFileError(
            str(path), "floating_base_several_trees", "a floating base needs a single tree of bodies under <worldbody>",
        )  # fmt: skip
    links: list[Link] = []
    snapped: list[SnappedAngle] = []
    for body in moving:
        tree, base = _read_tree(path, root, body, free or floating_base)
        tree = [replace(k, inertia=freeze(np.full(10, np.nan))) if k.name in unknown else k for k in tree]
        tree = [_shift_zero(link, zeros.get(link.joint, 0.0)) for link in tree]
        if free or floating_base:
            tree = [base, *(replace(link, parent=link.parent + 1) for link in tree)]
        if snap:
            tree = [_snap_link(link, snapped) for link in tree]
        links += [replace(k, parent=k.parent + len(links) if k.parent >= 0 else -1) for k in tree]
    robot = Robot(
        name=root.get("model") or path.stem,
        links=tuple(links),
        gravity=freeze(_read_gravity(path, root, notes)),
        couplings=read_couplings(path, root, zeros),
        source=str(path),
        notes=(*notes, *describe_snapped_angles(snapped)),
    )
    return merge_fixed_links(lock_joints(robot, lock))


def _snap_link(link: Link, snapped: list[SnappedAngle]) -> Link:
    """The link with a placement near multiples of 90 degrees set to them."""
    R = link.placement.rotation
    nearest = np.round(R)
    off = float(np.abs(R - nearest).max())
    if off == 0.0 or off > SNAP_TOLERANCE:
        return link
    if off > 1e-12:
        where = f"body '{link.name}'"
        note = Message(
            "angle_snapped", "{where}: its frame is {angle:.1g} rad off a right angle: rounded", "{snap} keeps it",
            where=where, angle=off, snap=Option("snap", False),
        )  # fmt: skip
        snapped.append(SnappedAngle(where, off, note))
    return replace(link, placement=Transform(nearest, link.placement.translation))


def _extract_zero_positions(path: Path, root: Element) -> dict[str, float]:
    """Remove the attributes `ref` from the file and return these zeros of the joints, rad or m."""
    zeros: dict[str, float] = {}
    in_degrees = all(compiler.get("angle", "degree") == "degree" for compiler in root.findall("compiler"))
    for joint in (j for world in root.findall("worldbody") for j in world.iter("joint")):
        try:
            ref = read_numbers(joint, "ref", (0.0,))[0]
        except ValueError as error:
            raise RobotFileError(
                str(path), "values_not_numeric", "joint '{joint}': {reason}", joint=joint.get('name'), reason=error,
            ) from error  # fmt: skip
        joint.attrib.pop("ref", None)
        if ref:
            turns = joint.get("type", "hinge") == "hinge"
            zeros[joint.get("name", "")] = math.radians(ref) if turns and in_degrees else ref
    for joint in (j for default in root.findall("default") for j in default.iter("joint")):
        joint.attrib.pop("ref", None)
    return zeros


def _shift_zero(link: Link, zero: float) -> Link:
    """The link with its zero shifted: drawn where its joint is at a position `zero`."""
    if not zero:
        return link
    back = (
        Transform(rotation_about(link.axis, -zero), np.zeros(3))
        if link.kind == "revolute"
        else Transform(np.eye(3), -zero * link.axis)
    )
    return replace(link, placement=link.placement @ back)


def _has_free_joint(body: Element) -> bool:
    """Whether a body moves freely."""
    return body.find("freejoint") is not None or any(j.get("type") == "free" for j in body.findall("joint"))


def _check_mjcf(path: Path, root: Element, bodies: list[Element]) -> None:
    """Raise RobotFileError that lists all joints and bodies that cannot be read."""
    problems: list[Message] = []
    names: list[str] = []
    for body in (b for top in bodies for b in top.iter("body")):
        for joint in body.findall("joint"):
            names.append(joint.get("name", ""))
            if joint.get("type") == "ball":
                problems.append(Message(
                    "unsupported_joint_type", "joint '{joint}': ball joints are not supported", "use three hinges",
                    joint=joint.get('name'),
                ))  # fmt: skip
    for name in (n for n, number in Counter(names).items() if n and number > 1):
        problems.append(Message("joint_name_twice", "joint '{joint}': two joints have this name", joint=name))
    if any(compiler.get("coordinate") == "global" for compiler in root.findall("compiler")):
        problems.append(Message(
            "global_coordinates_not_supported", "compiler: global coordinates are not read",
            "load and save it in MuJoCo 2.3.3 or older",
        ))  # fmt: skip
    for equality in root.findall("equality"):
        for part in equality:
            if part.tag in ("connect", "weld"):
                problems.append(Message(
                    "equality_not_supported", "equality <{tag}> '{equality}': such loops are not read from MJCF",
                    "write a table with [[closure]]", tag=part.tag, equality=part.get('name', ''),
                ))  # fmt: skip
    if problems:
        raise RobotFileError(str(path), list(dict.fromkeys(problems)))


def _read_tree(path: Path, root: Element, body: Element, floats: bool) -> tuple[list[Link], Link]:
    """Links of one tree of bodies, and its root as a free link.

    Pinocchio forgets the pose of a root without a joint, unless another body is around it.
    """
    from xml.etree.ElementTree import ElementTree, SubElement

    import pinocchio as pin

    alone, top = deepcopy(root), deepcopy(body)
    for tag in ("worldbody", "equality", "contact", "keyframe", "actuator", "sensor", "tendon"):
        for part in alone.findall(tag):
            alone.remove(part)
    for joint in [j for j in top if j.tag == "freejoint" or j.get("type") == "free"]:
        top.remove(joint)
    drop_shapes_of_known_inertia(alone, top)
    world = SubElement(alone, "worldbody")
    if not floats and top.find("joint") is None:
        world = SubElement(world, "body", {"name": "/around the root/"})
        SubElement(world, "inertial", {"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"})
    world.append(top)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.xml"
        ElementTree(alone).write(file)
        try:
            model = pin.buildModelFromMJCF(str(file))
        except IndexError as error:  # pinocchio looks up a class, mesh or material that is not there
            raise RobotFileError(
                str(path), "shape_parts_missing", "a mesh, class or material that the shapes use is not found",
                "give every body an <inertial>",
            ) from error  # fmt: skip
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise RobotFileError(
                str(path), "pinocchio_cannot_load", "pinocchio cannot read it: {reason}", reason=reason,
            ) from error  # fmt: skip
    facts, composites = _read_joint_properties(model, body)
    compilers = root.findall("compiler")
    bounded = any(read_numbers(c, key, (0.0,))[0] > 0.0 for c in compilers for key in ("boundmass", "boundinertia"))
    stated = {b.get("name", ""): None if bounded else stated_inertia(b) for b in top.iter("body")}
    bodies = [
        (frame.name, frame.parentJoint, pose_from_pinocchio(frame.placement), stated[frame.name])
        for frame in model.frames
        if frame.type == pin.BODY and frame.name in stated and (floats or frame.parentJoint)
    ]
    inertias = merged_inertias(str(path), model, bodies)
    links = links_from_pinocchio(model, facts, str(path), composites, inertias)
    return links, floating_base_link(body.get("name", "base"), inertias[0])


def _read_joint_properties(model: Any, body: Element) -> tuple[dict[str, JointProperties], dict[str, list[str]]]:
    """Properties of the joints as pinocchio found them, and the names of those inside composite ones."""
    owner = {j.get("name", ""): b for b in body.iter("body") for j in b.findall("joint")}
    facts: dict[str, JointProperties] = {}
    composites: dict[str, list[str]] = {}
    for i in range(1, model.njoints):
        name = str(model.names[i])
        joints = [name]
        if model.joints[i].shortname() == "JointModelComposite":
            first = next(j for j in owner if name == f"Composite_{j}")
            joints = [j.get("name", "") for j in owner[first].findall("joint")]
            composites[name] = joints
        at_q, at_v = model.joints[i].idx_q, model.joints[i].idx_v
        bounded = model.joints[i].nq == model.joints[i].nv
        for k, joint in enumerate(joints):
            lower, upper = (
                (float(model.lowerPositionLimit[at_q + k]), float(model.upperPositionLimit[at_q + k]))
                if bounded
                else (-math.inf, math.inf)
            )
            limited = math.isfinite(lower) and math.isfinite(upper) and lower < upper and abs(lower) < 1e10
            friction = tuple(
                (kind, float(values[at_v + k]))
                for kind, values in (("viscous", model.damping), ("coulomb", model.upperDryFrictionLimit))
                if values[at_v + k] != 0.0
            )
            effort = float(model.effortLimit[at_v + k])
            limits = JointLimits(
                lower if limited else -math.inf,
                upper if limited else math.inf,
                effort=effort if 0.0 < effort < 1e10 else math.inf,
            )
            facts[joint] = JointProperties(owner[joint].get("name", ""), limits, friction)
    return facts, composites


def _read_gravity(path: Path, root: Element, notes: list[Message]) -> tuple[float, ...]:
    """Gravity of an MJCF, MuJoCo's default where it states none; notes on it are added."""
    gravity: tuple[float, ...] = (0.0, 0.0, -9.81)
    for option in root.findall("option"):
        try:
            gravity = read_numbers(option, "gravity", gravity)
            if any(flag.get("gravity") == "disable" for flag in option.findall("flag")):
                notes.append(Message(
                    "gravity_switched_off", "the file switches gravity off", "{gravity} gives one",
                    gravity=Option("gravity", (0, 0, -9.81)),
                ))  # fmt: skip
                return (0.0, 0.0, 0.0)
        except ValueError as error:
            raise RobotFileError(str(path), "values_not_numeric", "option: {reason}", reason=error) from error
    return gravity


# Shapes of an MJCF's bodies, as MuJoCo compiles them.


@dataclass(frozen=True, slots=True, eq=False)
class MjcfShape:
    """A shape with its pose in the world where all joints are at zero or locked.

    joints: those between the world and it, the nearest first; kind: sphere, capsule, cylinder, box or mesh; size (3,):
    radius and half length along z, or half edges; vertices (V, 3) of a mesh; collides: whether it touches others.
    """

    joints: tuple[str, ...]
    kind: str
    size: Array
    vertices: Array
    pose: Transform
    collides: bool


def read_mjcf_shapes(
    path: Path, joints: Collection[str], locks: Mapping[str, float]
) -> tuple[list[MjcfShape], int, Message | None]:
    """Shapes of the robot in an MJCF, how many of what stands around it, and why they cannot be read where that is so.

    joints: names that must be found; locks: positions of joints that are not at zero. Shapes of the world (a floor), of
    bodies that carry no joint (a table) and of those that float freely are not part of the robot.
    """
    root = read_xml(path, "mujoco", "is this an MJCF? (URDF files end in .urdf)")
    expand_includes(path, root, path.resolve().parent)
    merge_defaults(root)
    name_bodies_and_joints(root)
    worlds = root.findall("worldbody")
    around = sum(len(world.findall("geom")) for world in worlds)
    if not any(body.find(".//geom") is not None for world in worlds for body in world.findall("body")):
        return [], around, None
    try:
        import mujoco  # noqa: F401  (before the fork)
    except ImportError:
        return [], around, Message("needs_extra_package", "MuJoCo is not installed", "pip install mujoco")
    try:
        alone = with_shapes_only(path, root)
        facts, vertices = run_isolated(lambda: _compile_shapes(alone, joints, locks))
    except (DynidError, ParserDiedError) as error:
        return [], around, error.message
    except ParserFailedError as error:
        reason = str(error).strip().splitlines()[0]
        return [], around, Message("mujoco_cannot_load", "MuJoCo cannot load the file ({reason})", reason=reason)
    if facts is None:
        return [], around, Message("joint_names_mismatch", "MuJoCo finds other joints than are written in the file")
    shapes = [
        MjcfShape(tuple(above), kind, np.array(size), x, Transform(np.reshape(turn, (3, 3)), np.array(place)), collides)
        for (above, kind, size, turn, place, collides), x in zip(facts["shapes"], vertices, strict=True)
    ]
    return shapes, around + facts["around"], None


def _compile_shapes(
    alone: Element, joints: Collection[str], locks: Mapping[str, float]
) -> tuple[dict[str, Any] | None, list[Array]]:
    """Shapes of the robot by MuJoCo, their vertices, and how many others there are; None where joints are missing.

    The parsers of meshes are compiled code: this runs in a process of its own.
    """
    import mujoco

    model, around = compile_mjcf(alone), 0
    names = [model.joint(k).name for k in range(model.njnt)]
    if not set(joints) <= set(names):
        return None, []
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    for name, value in locks.items():
        data.qpos[model.jnt_qposadr[names.index(name)]] = value
    mujoco.mj_kinematics(model, data)
    of_robot = {int(model.body_rootid[body]) for body, kind in zip(model.jnt_bodyid, model.jnt_type, strict=True)
                if kind != mujoco.mjtJoint.mjJNT_FREE}  # fmt: skip
    of_robot -= {int(model.body_rootid[body]) for body, kind in zip(model.jnt_bodyid, model.jnt_type, strict=True)
                 if kind == mujoco.mjtJoint.mjJNT_FREE}  # fmt: skip
    kinds = {int(getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}")): kind for kind in _SHAPES}
    shapes, several = [], []
    for g in range(model.ngeom):
        body = int(model.geom_bodyid[g])
        if int(model.body_rootid[body]) not in of_robot or int(model.geom_type[g]) not in kinds:
            around += 1
            continue
        above = list[str]()
        while body:
            above += [names[k] for k in range(model.njnt) if model.jnt_bodyid[k] == body][::-1]
            body = int(model.body_parentid[body])
        kind, mesh, vertices = kinds[int(model.geom_type[g])], int(model.geom_dataid[g]), np.zeros((0, 3))
        if kind == "mesh":
            first = int(model.mesh_vertadr[mesh])
            vertices = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=np.float64)
        collides = bool(model.geom_contype[g] or model.geom_conaffinity[g])
        pose = data.geom_xmat[g].tolist(), data.geom_xpos[g].tolist()
        shapes.append((above, kind, model.geom_size[g].tolist(), *pose, collides))
        several.append(vertices)
    return {"shapes": shapes, "around": around}, several


_SHAPES = ("sphere", "capsule", "cylinder", "ellipsoid", "box", "mesh")
