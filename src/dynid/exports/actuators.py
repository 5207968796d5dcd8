"""Drives in files of simulators: <actuator> of an MJCF, and a parameter file for Isaac Lab."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from dynid.actuators.controller import Controller, gains_of_actuator, read_mjcf_actuators
from dynid.actuators.identify_actuators import Actuators
from dynid.errors import ControllerError, ExportError
from dynid.exports.mjcf import ElementBytes, attribute_edits
from dynid.exports.urdf import end_of_tag
from dynid.messages import Message
from dynid.robot.io.xml import xml_attribute

_SERVOS = ("position", "velocity", "motor", "general")
PHYSICS_STEP = 0.005
"""Time step (s) of Isaac Lab in which delays are counted, unless the user changes it in the file."""


def actuator_notes(result: Actuators) -> tuple[Message, ...]:
    """What a file without delays leaves to the user."""
    notes = [Message(
        "delay_not_in_file", "the file holds no delay: apply commands {delay:.4g} s late", delay=round(result.delay, 5),
    )]  # fmt: skip
    offset = result.of("Fo")
    sigma = {str(p): s for p, s in zip(result.names, result.sigma, strict=True)}
    names = [p for p in result.names if p.symbol == "Fo"]
    clear = [p.joint for p, x in zip(names, offset, strict=True) if abs(x) > 4.0 * sigma[str(p)]]
    if clear:
        notes.append(Message(
            "offset_not_in_file", "the file holds no constant torques, which joints {joints} have", "shift their "
            "commands by the zero offsets of the result", joints=clear,
        ))  # fmt: skip
    c = result.controller
    if result.sensor_delay > 0.0:
        notes.append(Message(
            "sensor_delay_not_in_file", "the file holds no sensor delay of {lag:.2g} ms", "a simulator without it "
            "needs kd lower by kp times this delay, and armature by kd times it", lag=1e3 * result.sensor_delay,
        ))  # fmt: skip
    lost = [name for name, x in (("rate limits of commands", np.isfinite(c.rate_limit)), ("dead bands", c.dead_band))
            if np.any(x)]  # fmt: skip
    if lost:
        notes.append(Message(
            "limits_not_in_file", "the file holds no {lost}", "apply them to the commands that you send", lost=lost,
        ))  # fmt: skip
    return tuple(notes)


def with_actuators(data: bytes, result: Actuators, template: Path | None) -> tuple[bytes, tuple[Message, ...]]:
    """MJCF with the gains and torque limits of the result where they are others, and notes on what it keeps.

    template: the file that it was made from, whose actuators are changed; joints without one get new ones.
    """
    own, end = _find_actuators(data)
    mujoco: Any = None
    model: Any = None
    numbers: dict[str, list[int]] = {}
    if template is not None:
        mujoco, model, numbers = read_mjcf_actuators(str(template))
    edits: list[tuple[int, int, bytes]] = []
    lines, kept, turned = [], [], []
    for j, joint in enumerate(result.robot.joint_names):
        wanted = _actuator_of(result.controller, j)
        if joint not in own and joint not in numbers:
            lines.append(_actuator_line(joint, wanted))
            continue
        if len(numbers.get(joint, ())) != 1 or len(own.get(joint, ())) != 1:
            kept.append(joint)  # torques of several add up, or it stands in an included file
            continue
        k, (tag, element) = numbers[joint][0], own[joint][0]
        if _is_as_found(mujoco, model, k, result.controller, j):
            continue
        gear = float(model.actuator_gear[k, 0])
        new = _attributes(tag, wanted, gear)
        if new is None:
            kept.append(joint)
            continue
        if "gear" in new and tag != "motor":
            turned.append(joint)
        if "forcerange" in new and (b"autolimits" in data or b"forcelimited" in data):
            new["forcelimited"] = "true"
        edits += attribute_edits(
            data, element, {k: v for k, v in new.items() if v is not None or k in element.attributes}
        )
    if lines:
        text = "  <actuator>\n" + "\n".join(lines) + "\n  </actuator>\n"
        edits.append((end, end, text.encode()))
    for start, stop, new_bytes in sorted(edits, reverse=True):
        data = data[:start] + new_bytes + data[stop:]
    notes = []
    if kept:
        notes.append(Message(
            "actuators_kept", "actuators of joints {joints} stay as they are: they are not of the controller's kind, "
            "several act on a joint, or they stand in an included file", "correct their gains by hand", joints=kept,
        ))  # fmt: skip
    if turned:
        notes.append(Message(
            "gear_set_to_one", "actuators of joints {joints} have gear 1 now: their controls are angles of the joint",
            joints=turned,
        ))  # fmt: skip
    return data, tuple(notes)


@dataclass(frozen=True, slots=True)
class _Actuator:
    """An actuator of MuJoCo: its tag, kp and kd, or torque per control (gain), and torque limit, in N m and rad."""

    tag: str
    gain: float
    kp: float
    kd: float
    limit: float


def _actuator_of(c: Controller, j: int) -> _Actuator:
    """Actuator that acts as a joint's controller does: a servo by its stall torque and back-EMF."""
    gain, kp, kd = (float(np.nan_to_num(x[j])) for x in (c.gain, c.kp, c.kd))
    limit = float(c.max_torque[j])
    if c.kind[j] != "servo":
        return _Actuator({"current": "motor"}.get(c.kind[j], c.kind[j]), gain, kp, kd, limit)
    kt = float(np.nan_to_num(c.torque_constant[j]))
    stall = kt * float(c.voltage[j]) / float(c.resistance[j])
    tag = "position" if kp > 0.0 else "general"  # the control of the latter is the duty
    return _Actuator(tag, stall, kp * stall, kd * stall + kt**2 / float(c.resistance[j]), min(limit, stall))


def _attributes(tag: str, wanted: _Actuator, gear: float = 1.0) -> dict[str, str | None] | None:
    """Attributes of an element that make it act as wanted, None: it cannot; gear: that of the element as it is."""
    if tag not in (wanted.tag, "general"):
        return None
    new: dict[str, str | None] = {}
    if wanted.tag == "motor":
        gear = wanted.gain if tag == "motor" else gear
        new |= {"gear": repr(gear)} if tag == "motor" else {"gainprm": repr(wanted.gain / gear)}
    elif gear != 1.0:
        gear, new["gear"] = 1.0, "1"
    if tag == "position":
        new |= {"kp": repr(wanted.kp), "kv": repr(wanted.kd), "dampratio": None}
    elif tag == "velocity":
        new |= {"kv": repr(wanted.kd)}
    elif tag == "general" and wanted.tag != "motor":
        gain = {"position": wanted.kp, "velocity": wanted.kd}.get(wanted.tag, wanted.gain)
        kp = wanted.kp if wanted.tag == "position" else 0.0
        new |= {"gainprm": repr(gain), "biastype": "affine", "biasprm": f"0 {-kp!r} {-wanted.kd!r}"}
    if math.isfinite(wanted.limit):
        force = wanted.limit / gear
        new["forcerange"] = f"{-force:.6g} {force:.6g}"
    return new


def _is_as_found(mujoco: Any, model: Any, k: int, c: Controller, j: int) -> bool:
    """Whether an actuator of a file has the gains and the limit of a joint's controller already."""
    try:
        held = gains_of_actuator(mujoco, model, k, "", "")
    except ControllerError:
        return False
    held = {"max_torque": math.inf} | held
    keys = [key for key in ("kp", "kd", "gain", "max_torque") if key in held]
    return held["kind"] == c.kind[j] and all(np.isclose(getattr(c, key)[j], held[key], rtol=1e-6) for key in keys)


def _actuator_line(joint: str, wanted: _Actuator) -> str:
    """Line of a new actuator."""
    words = [f'{wanted.tag} name="{xml_attribute(joint)}" joint="{xml_attribute(joint)}"']
    made = _attributes(wanted.tag, wanted) or {}
    words += [f'{key}="{text}"' for key, text in made.items() if text is not None and (key, text) != ("gear", "1.0")]
    return f"    <{' '.join(words)}/>"


def _find_actuators(data: bytes) -> tuple[dict[str, list[tuple[str, ElementBytes]]], int]:
    """Actuators by joint, as they stand in the file, and where </mujoco> begins."""
    parser = expat.ParserCreate()
    trail: list[str] = []
    found: dict[str, list[tuple[str, ElementBytes]]] = {}
    end = len(data)

    def on_start(tag: str, attributes: dict[str, str]) -> None:
        at = parser.CurrentByteIndex
        if len(trail) == 2 and trail[1] == "actuator" and tag in _SERVOS and "joint" in attributes:
            inside = end_of_tag(data, at)
            found.setdefault(attributes["joint"], []).append((tag, ElementBytes(at, inside, inside, attributes)))
        trail.append(tag)

    def on_end(tag: str) -> None:
        nonlocal end
        trail.pop()
        if not trail:
            end = parser.CurrentByteIndex

    parser.StartElementHandler, parser.EndElementHandler = on_start, on_end
    parser.Parse(data, True)
    return found, end


def write_isaac_lab(result: Actuators, name: str) -> str:
    """Text of a Python file with a DelayedPDActuatorCfg for every joint; its syntax is checked, nothing else."""
    c, robot = result.controller, result.robot
    strange = [name for name, kind in zip(robot.joint_names, c.kind, strict=True) if kind != "position"]
    if strange:
        raise ExportError(
            "isaac_needs_position", "joints {joints} have no position controller, which DelayedPDActuatorCfg is",
            "export .xml or .json", joints=strange,
        )  # fmt: skip
    table = {symbol: result.of(symbol) for symbol in ("Ia", "Fv", "Fc")}
    if not all(np.isfinite(x).all() for x in table.values()):
        raise ExportError(
            "isaac_needs_all", "not all armatures and frictions are known", "identify them first, or export .json",
        )  # fmt: skip
    rows = []
    for j, joint in enumerate(robot.joint_names):
        limit = c.max_torque[j]
        effort = f"        effort_limit={limit:.6g},\n" if math.isfinite(limit) else ""
        key = re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", joint)  # Isaac Lab takes names as regular expressions
        rows.append(
            f"    {joint!r}: DelayedPDActuatorCfg(\n"
            f"        joint_names_expr=[{key!r}],\n"
            f"        stiffness={float(np.nan_to_num(c.kp[j])):.6g},\n"
            f"        damping={float(np.nan_to_num(c.kd[j])):.6g},\n"
            f"        armature={max(float(table['Ia'][j]), 0.0):.6g},\n"
            f"        friction={max(float(table['Fc'][j]), 0.0):.6g},\n"
            f"        dynamic_friction={max(float(table['Fc'][j]), 0.0):.6g},\n"
            f"        viscous_friction={max(float(table['Fv'][j]), 0.0):.6g},\n{effort}"
            "        min_delay=DELAY_STEPS,\n        max_delay=DELAY_STEPS,\n    ),\n"
        )
    text = (
        f'"""Actuators of {robot.name!r}, identified by dynid: gains, armature, friction and delay.\n\n'
        "Written for isaaclab.actuators.DelayedPDActuatorCfg with Isaac Sim 5 or later, where friction is in N m;\n"
        "before that it is a coefficient without a unit, and dynamic_friction and viscous_friction do not act: leave\n"
        "the three out there, and add viscous_friction to damping. Only the syntax of this file was checked, it was\n"
        'not run in Isaac Lab.\n"""\n\n'
        "from isaaclab.actuators import DelayedPDActuatorCfg\n\n"
        f"DELAY = {result.delay:.6g}  # s\n"
        f"PHYSICS_STEP = {PHYSICS_STEP!r}  # s: the dt of your SimulationCfg\n"
        "DELAY_STEPS = max(0, round(DELAY / PHYSICS_STEP))\n\n"
        "ACTUATORS = {\n" + "".join(rows) + "}\n"
    )
    compile(text, name, "exec")
    return text
