"""Drives in files of simulators: <actuator> of an MJCF, and a parameter file for Isaac Lab."""

from __future__ import annotations

import math
import re
from xml.parsers import expat

import numpy as np

from dynid.actuators.controller import Controller
from dynid.actuators.identify_actuators import Actuators
from dynid.errors import ExportError
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
            "needs kd lower by kp times it, and armature by kd times it", lag=1e3 * result.sensor_delay,
        ))  # fmt: skip
    lost = [name for name, x in (("rate limits of commands", np.isfinite(c.rate_limit)), ("dead bands", c.dead_band))
            if np.any(x)]  # fmt: skip
    if lost:
        notes.append(Message(
            "limits_not_in_file", "the file holds no {lost}", "apply them to the commands that you send", lost=lost,
        ))  # fmt: skip
    return tuple(notes)


def _servo_gains(c: Controller, j: int) -> tuple[float, float, float, float]:
    """Gain, kp, kd and torque limit of one joint in N m: those of a servo by its stall torque and back-EMF."""
    gain, kp, kd, limit = (float(np.nan_to_num(x[j])) for x in (c.gain, c.kp, c.kd, c.max_torque))
    limit = float(c.max_torque[j])
    if c.kind[j] != "servo":
        return gain, kp, kd, limit
    kt = float(np.nan_to_num(c.torque_constant[j]))
    stall = kt * float(c.voltage[j]) / float(c.resistance[j])
    return stall, kp * stall, kd * stall + kt**2 / float(c.resistance[j]), min(limit, stall)


def with_actuators(data: bytes, result: Actuators) -> bytes:
    """MJCF with the gains and torque limits of the result: in its own actuators, or in new ones."""
    own, end = _find_actuators(data)
    c = result.controller
    edits: list[tuple[int, int, bytes]] = []
    missing = []
    for j, joint in enumerate(result.robot.joint_names):
        gain, kp, kd, limit = _servo_gains(c, j)
        force = {"forcerange": f"{-limit:.6g} {limit:.6g}"} if math.isfinite(limit) else {}
        if joint not in own:
            missing.append((j, joint, force))
            continue
        tag, element = own[joint]
        new: dict[str, str | None] = dict(force)
        if tag == "position":
            new |= {"kp": repr(kp), "kv": repr(kd), "dampratio": None}
        elif tag == "velocity":
            new |= {"kv": repr(kd)}
        elif tag == "motor" and c.kind[j] == "current" and gain != 1.0:
            new |= {"gear": repr(gain)}
        elif tag == "general" and c.kind[j] == "position":
            new |= {"gainprm": repr(kp), "biasprm": f"0 -{kp!r} -{kd!r}", "biastype": "affine"}
        edits += attribute_edits(
            data, element, {k: v for k, v in new.items() if v is not None or k in element.attributes}
        )
    if missing:
        lines = []
        for j, joint, force in missing:
            gain, kp, kd, _ = _servo_gains(c, j)
            if c.kind[j] == "position" or (c.kind[j] == "servo" and kp > 0.0):
                tag, gains = "position", {"kp": repr(kp), "kv": repr(kd)}
            elif c.kind[j] == "velocity":
                tag, gains = "velocity", {"kv": repr(kd)}
            elif c.kind[j] == "servo":  # its control is the duty
                tag, gains = "general", {"gainprm": repr(gain), "biastype": "affine", "biasprm": f"0 0 -{kd!r}"}
            else:
                tag, gains = "motor", {} if gain == 1.0 else {"gear": repr(gain)}
            words = [f'{tag} name="{xml_attribute(joint)}" joint="{xml_attribute(joint)}"']
            words += [f'{key}="{text}"' for key, text in (gains | force).items()]
            lines.append(f"    <{' '.join(words)}/>")
        text = "  <actuator>\n" + "\n".join(lines) + "\n  </actuator>\n"
        edits.append((end, end, text.encode()))
    for start, stop, new_bytes in sorted(edits, reverse=True):
        data = data[:start] + new_bytes + data[stop:]
    return data


def _find_actuators(data: bytes) -> tuple[dict[str, tuple[str, ElementBytes]], int]:
    """Actuators by joint, as they stand in the file, and where </mujoco> begins."""
    parser = expat.ParserCreate()
    trail: list[str] = []
    found: dict[str, tuple[str, ElementBytes]] = {}
    end = len(data)

    def on_start(tag: str, attributes: dict[str, str]) -> None:
        at = parser.CurrentByteIndex
        if len(trail) == 2 and trail[1] == "actuator" and tag in _SERVOS and "joint" in attributes:
            inside = end_of_tag(data, at)
            found[attributes["joint"]] = (tag, ElementBytes(at, inside, inside, attributes))
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
            f"        damping={float(np.nan_to_num(c.kd[j])) + max(float(table['Fv'][j]), 0.0):.6g},"
            "  # kd and the joint's own damping\n"
            f"        armature={max(float(table['Ia'][j]), 0.0):.6g},\n"
            f"        friction={max(float(table['Fc'][j]), 0.0):.6g},\n{effort}"
            "        min_delay=DELAY_STEPS,\n        max_delay=DELAY_STEPS,\n    ),\n"
        )
    text = (
        f'"""Actuators of {robot.name!r}, identified by dynid: gains, armature, friction and delay.\n\n'
        "Written for isaaclab.actuators.DelayedPDActuatorCfg; only the syntax of this file was checked, it was not\n"
        'run in Isaac Lab.\n"""\n\n'
        "from isaaclab.actuators import DelayedPDActuatorCfg\n\n"
        f"DELAY = {result.delay:.6g}  # s\n"
        f"PHYSICS_STEP = {PHYSICS_STEP!r}  # s: the dt of your SimulationCfg\n"
        "DELAY_STEPS = max(0, round(DELAY / PHYSICS_STEP))\n\n"
        "ACTUATORS = {\n" + "".join(rows) + "}\n"
    )
    compile(text, name, "exec")
    return text
