"""The controller of each joint: what its command means, and the torque that it makes of it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dynid.dynamics.kernels.compiled import compiled
from dynid.errors import ControllerError
from dynid.messages import Message, Option, Wording
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import read_toml

Loop = Literal["drive", "host", "auto"]
KINDS = ("position", "velocity", "current", "servo")
UNKNOWN = "unknown"
_PER_JOINT = (
    "kind", "kp", "kd", "max_torque", "gain", "voltage", "resistance", "torque_constant", "dead_band", "rate_limit",
)  # fmt: skip
_KEYS = (*_PER_JOINT, "rate", "loop", "joint")
_UNKNOWABLE = ("kp", "kd", "max_torque", "gain", "torque_constant", "rate_limit")
"""Numbers that may be 'unknown' and are then estimated."""
_NEEDS = {"position": ("kp",), "velocity": ("kd",), "current": (), "servo": ("voltage", "resistance")}
_DEFAULTS = {
    "kp": 0.0, "kd": 0.0, "max_torque": math.inf, "gain": 1.0, "voltage": math.nan, "resistance": math.nan,
    "torque_constant": math.nan, "dead_band": 0.0, "rate_limit": math.inf,
}  # fmt: skip
COMMAND = {"position": "q_cmd", "velocity": "v_cmd", "current": "tau_ff", "servo": "q_cmd"}
"""The command that each kind follows; a servo takes `pwm` where it is recorded."""


@dataclass(frozen=True, eq=False)
class Controller:
    """Controllers of all joints, one value each; NaN stands for what is unknown and sought.

    position: tau = kp (q_cmd - q) + kd (v_cmd - v) + tau_ff, v_cmd being 0 where none is recorded.
    velocity: tau = kd (v_cmd - v) + tau_ff. current: tau = gain tau_ff.
    servo: tau = kt / R (V u - kt v), with u = kp (q_cmd - q) - kd v, or the recorded pwm, between -1 and 1, and 0
    within the dead band; kt on the joint's side of the gear.
    All are limited to +-max_torque. rate (Hz): at which commands are sent, and held until the next; NaN: that of the
    log. rate_limit (rad/s): of the command. loop: "drive" where the drive closes the loop with its own, fresh
    positions; "host" where the controller computes torques from the recorded positions and holds them for its period.
    """

    joints: tuple[str, ...]
    kind: tuple[str, ...]
    kp: Array
    kd: Array
    max_torque: Array
    gain: Array
    voltage: Array
    resistance: Array
    torque_constant: Array
    dead_band: Array
    rate_limit: Array
    rate: float = math.nan
    loop: Loop = "auto"
    source: str = "controller"
    notes: tuple[Message, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that the joints follow, each once."""
        return tuple(dict.fromkeys(COMMAND[kind] for kind in self.kind))

    def unknown(self, joint: int) -> tuple[str, ...]:
        """Names of the gains of a joint that are sought: kp, kd, gain, torque_constant."""
        own = {"position": ("kp", "kd"), "velocity": ("kd",), "current": ("gain",), "servo": ("torque_constant",)}
        return tuple(key for key in own[self.kind[joint]] if math.isnan(getattr(self, key)[joint]))

    def with_values(self, **values: Array) -> Controller:
        """Return the controller with other numbers."""
        return replace(self, **values)  # type: ignore[arg-type]

    def only(self, joints: Sequence[int]) -> Controller:
        """Return the controllers of some joints."""
        own = {key: getattr(self, key)[list(joints)] for key in _PER_JOINT if key != "kind"}
        return replace(
            self, joints=tuple(self.joints[j] for j in joints), kind=tuple(self.kind[j] for j in joints), **own
        )


def read_controller(controller: Any, robot: Robot) -> Controller:
    """Controller of a mapping, a TOML file, or (None) the actuators of the robot's MJCF file."""
    if isinstance(controller, Controller):
        if controller.joints != robot.joint_names:
            raise ControllerError(
                "controller_of_other_robot", "the controller has the joints {given}, the robot {joints}",
                given=controller.joints, joints=robot.joint_names,
            )  # fmt: skip
        return controller
    if controller is None:
        return _controller_of_mjcf(robot)
    if isinstance(controller, str | os.PathLike):
        path = Path(controller)
        if path.suffix.lower() != ".toml":
            raise ControllerError(
                "unsupported_suffix", "{file}: a controller is described in a .toml file",
                "see docs/actuators.md for its keys", file=str(path),
            )  # fmt: skip
        table = read_toml(path)
        if "controller" in table and isinstance(table["controller"], dict):
            table = table["controller"]
        return _controller_of_table(table, robot, str(path))
    if isinstance(controller, Mapping):
        return _controller_of_table(controller, robot, "controller")
    raise ControllerError(
        "controller_malformed", "{option} must be a mapping or a TOML file, got {value!r}", "give kind, kp and kd",
        option=Wording("controller", "--controller"), value=str(controller)[:60],
    )  # fmt: skip


def _controller_of_table(table: Mapping[str, Any], robot: Robot, source: str) -> Controller:
    """Check a table of keys for all joints, and of `joint.NAME` for single ones."""
    names = robot.joint_names
    for key in table:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1, cutoff=0.5)
            remedy = "did you mean {near:1}?" if near else "its keys are {keys}"
            raise ControllerError(
                "unknown_controller_key", "{source}: there is no key {key!r}", remedy, source=source, key=str(key),
                near=near, keys=list(_KEYS),
            )  # fmt: skip
    of_joints = table.get("joint", {})
    if not isinstance(of_joints, Mapping):
        raise ControllerError(
            "controller_malformed", "{source}: joint must be tables, [joint.{example}]", source=source,
            example=names[0],
        )  # fmt: skip
    for name, own in of_joints.items():
        if name not in names:
            near = get_close_matches(str(name), names, n=1, cutoff=0.5)
            raise ControllerError(
                "unknown_joint", "{source}: '{robot}' has no joint {name!r}", "did you mean {near:1}?" if near else
                "its joints are {joints:20}", source=source, robot=robot.name, name=name, near=near, joints=names,
            )  # fmt: skip
        for key in own if isinstance(own, Mapping) else [own]:
            if key not in _PER_JOINT:
                raise ControllerError(
                    "unknown_controller_key", "{source}, joint '{joint}': there is no key {key!r}", "its keys are "
                    "{keys}", source=source, joint=name, key=str(key), keys=list(_PER_JOINT),
                )  # fmt: skip
    values: dict[str, list[Any]] = {key: [] for key in _PER_JOINT}
    without_kd = []
    for j, name in enumerate(names):
        own = {key: _entry_of_joint(table, key, j, robot, source) for key in _PER_JOINT if key in table}
        own |= of_joints.get(name, {})
        kind = own.pop("kind", "position")
        if kind not in KINDS:
            near = get_close_matches(str(kind), KINDS, n=1, cutoff=0.5)
            raise ControllerError(
                "unknown_controller_kind", "{source}: kind {kind!r} of joint '{joint}' is not one of {kinds}",
                "did you mean {near:1}?" if near else "", source=source, kind=str(kind), joint=name,
                kinds=list(KINDS), near=near,
            )  # fmt: skip
        values["kind"].append(kind)
        numbers = {key: _number(own[key], key, name, source) for key in own}
        for key in _NEEDS[kind]:
            if key not in numbers:
                raise ControllerError(
                    "missing_gain", "{source}: joint '{joint}' ({kind}) has no {key}", "give a number"
                    + (", or 'unknown' to have it estimated" if key in _UNKNOWABLE else ""),
                    source=source, joint=name, kind=kind, key=key,
                )  # fmt: skip
        for key in ("kp", "kd") if kind == "servo" else ():
            if math.isnan(numbers.get(key, 0.0)):
                raise ControllerError(
                    "servo_gain_unknown", "{source}: {key} of the servo '{joint}' must be known", "record its pwm and "
                    "leave {key} out, or describe it as kind = 'position' with an unknown kp", source=source, key=key,
                    joint=name,
                )  # fmt: skip
        if kind == "position" and "kd" not in numbers:
            without_kd.append(name)
        for key in _PER_JOINT[1:]:
            values[key].append(numbers.get(key, _DEFAULTS[key]))
    rate = table.get("rate", math.nan)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or (not math.isnan(rate) and not 1.0 <= rate <= 1e5):
        raise ControllerError(
            "invalid_rate", "{source}: rate must be the controller's rate in Hz, got {rate!r}", "give 1 to 100000, "
            "or leave it out if the log holds every command", source=source,
            rate=str(rate),
        )  # fmt: skip
    loop = table.get("loop", "auto")
    if loop not in ("drive", "host", "auto"):
        raise ControllerError(
            "unknown_loop", "{source}: loop is one of drive, host and auto, got {loop!r}",
            "drive: the drive closes the loop; host: torques are computed from the recorded positions and held",
            source=source, loop=str(loop),
        )  # fmt: skip
    arrays: dict[str, Any] = {key: np.array(values[key], dtype=np.float64) for key in _PER_JOINT[1:]}
    notes = () if not without_kd else (Message(
        "kd_not_given", "{source}: there is no kd for joints {joints:6}: it is taken as 0, and what it does is part of "
        "their damping", "give kd if the damping of the joints alone matters", source=source, joints=without_kd,
    ),)  # fmt: skip
    return Controller(names, tuple(values["kind"]), **arrays, rate=float(rate), loop=loop, source=source, notes=notes)


def _entry_of_joint(table: Mapping[str, Any], key: str, j: int, robot: Robot, source: str) -> Any:
    """Value of a key for one joint: one for all, a list, or a table by the joints' names."""
    value = table[key]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        if len(value) != robot.n:
            raise ControllerError(
                "joint_count_mismatch", "{source}: {key} has {given} values, the robot {n} joints",
                "give one for all, or one per joint in the order {joints:20}", source=source, key=key,
                given=len(value), n=robot.n, joints=robot.joint_names,
            )  # fmt: skip
        return value[j]
    if isinstance(value, Mapping):
        name = robot.joint_names[j]
        if name not in value:
            raise ControllerError(
                "missing_gain", "{source}: {key} names no value for joint '{joint}'", "give one", source=source,
                key=key, joint=name,
            )  # fmt: skip
        return value[name]
    return value


def _number(value: Any, key: str, joint: str, source: str) -> float:
    """A number that is not negative; NaN for 'unknown' where that can be estimated."""
    if (value is None or value == UNKNOWN) and key in _UNKNOWABLE:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ControllerError(
            "invalid_gain", "{source}: {key} of joint '{joint}' must be a number" + (
                " or 'unknown'" if key in _UNKNOWABLE else "") + ", got {value!r}", "write {key} = 40.0",
            source=source, key=key, joint=joint, value=str(value)[:40],
        )  # fmt: skip
    number = float(value)
    if math.isnan(number) and key in _UNKNOWABLE:
        return number
    positive = key in ("max_torque", "voltage", "resistance", "torque_constant", "rate_limit")
    if math.isnan(number) or number < 0.0 or (positive and number == 0.0) or (key == "dead_band" and number >= 1.0):
        expected = {"dead_band": "between 0 and 1"}.get(key, "above 0" if positive else "not negative")
        raise ControllerError(
            "invalid_gain", "{source}: {key} of joint '{joint}' must be {expected}, got {value!r}",
            "check its sign" if number < 0.0 else "", source=source, key=key, joint=joint, expected=expected,
            value=number,
        )  # fmt: skip
    return number


def _controller_of_mjcf(robot: Robot) -> Controller:
    """Controller of the actuators in the MJCF that the robot was loaded from."""
    option = Option("controller", "drives.toml")
    if not robot.source.lower().endswith(".xml") or not Path(robot.source).is_file():
        raise ControllerError(
            "missing_controller", "'{robot}' does not say what its controllers are", "give kind, kp and kd with "
            "{controller}; only an MJCF file holds actuators", robot=robot.name, controller=option,
        )  # fmt: skip
    mujoco, model, actuators = read_mjcf_actuators(robot.source)
    rows = {
        joint: gains_of_actuator(mujoco, model, _only(numbers, model, robot.source, joint), robot.source, joint)
        for joint, numbers in actuators.items() if joint in robot.joint_names
    }  # fmt: skip
    missing = [name for name in robot.joint_names if name not in rows]
    if missing:
        raise ControllerError(
            "missing_controller", "{file}: no <actuator> for the joints {joints:20}", "give kind, kp and kd with "
            "{controller}", file=robot.source, joints=missing, controller=option,
        )  # fmt: skip
    found = _controller_of_table({"joint": rows}, robot, robot.source)
    said = Message(
        "controller_from_mjcf", "gains and torque limits of the controllers are those of the actuators in {file}",
        file=robot.source,
    )  # fmt: skip
    return replace(found, notes=(said,))


def read_mjcf_actuators(file: str) -> tuple[Any, Any, dict[str, list[int]]]:
    """MuJoCo, its model of a file, and the numbers of the actuators of each joint."""
    mujoco = import_mujoco("the actuators of an MJCF file")
    try:
        model = mujoco.MjModel.from_xml_path(file)
    except ValueError as error:
        raise ControllerError(
            "mujoco_cannot_load", "{file}: MuJoCo cannot load it: {reason}", "give the gains with {controller}",
            file=file, reason=str(error).strip().splitlines()[0], controller=Option("controller", "drives.toml"),
        ) from error  # fmt: skip
    found: dict[str, list[int]] = {}
    for k in range(model.nu):
        if int(model.actuator_trntype[k]) == int(mujoco.mjtTrn.mjTRN_JOINT):
            found.setdefault(model.joint(int(model.actuator_trnid[k, 0])).name, []).append(k)
    return mujoco, model, found


def _only(numbers: Sequence[int], model: Any, file: str, joint: str) -> int:
    """Number of the only actuator of a joint."""
    if len(numbers) > 1:
        raise ControllerError(
            "several_actuators", "{file}: joint '{joint}' has the actuators {names}, whose torques add up", "describe "
            "the controller with {controller}", file=file, joint=joint,
            names=[model.actuator(k).name or f"number {k}" for k in numbers],
            controller=Option("controller", "drives.toml"),
        )  # fmt: skip
    return numbers[0]


def gains_of_actuator(mujoco: Any, model: Any, k: int, file: str, joint: str) -> dict[str, Any]:
    """Keys of a controller table from one actuator: position, velocity or motor."""
    gear, gain, bias = float(model.actuator_gear[k, 0]), model.actuator_gainprm[k], model.actuator_biasprm[k]
    bias_type, none = int(model.actuator_biastype[k]), int(mujoco.mjtBias.mjBIAS_NONE)
    fixed = int(model.actuator_gaintype[k]) == int(mujoco.mjtGain.mjGAIN_FIXED)
    affine = bias_type in (none, int(mujoco.mjtBias.mjBIAS_AFFINE))
    plain = (
        int(model.actuator_dyntype[k]) == int(mujoco.mjtDyn.mjDYN_NONE)
        and gear > 0.0
        and fixed
        and affine
        and not bias[0]
    )
    limit = math.inf
    if model.actuator_forcelimited[k]:
        limit = gear * float(np.abs(model.actuator_forcerange[k]).min())
    number = int(model.actuator_trnid[k, 0])
    if model.jnt_actfrclimited[number]:
        limit = min(limit, float(np.abs(model.jnt_actfrcrange[number]).min()))
    found: dict[str, Any] = {} if math.isinf(limit) or limit == 0.0 else {"max_torque": limit}
    if plain and (bias_type == none or not bias[1:3].any()):
        return found | {"kind": "current", "gain": gear * float(gain[0])}
    if plain and not bias[1] and np.isclose(gain[0], -bias[2]):
        return found | {"kind": "velocity", "kd": gear**2 * float(gain[0])}
    if plain and gear == 1.0 and np.isclose(gain[0], -bias[1]):
        return found | {"kind": "position", "kp": float(gain[0]), "kd": float(-bias[2])}
    raise ControllerError(
        "actuator_not_supported", "{file}: the actuator of joint '{joint}' is neither a position, nor a velocity "
        "servo, nor a motor, with gear 1", "describe it with {controller}", file=file, joint=joint,
        controller=Option("controller", "drives.toml"),
    )  # fmt: skip


def import_mujoco(what: str) -> Any:
    """The module mujoco; ControllerError where it is not installed."""
    try:
        import mujoco
    except ImportError as error:
        raise ControllerError("needs_extra_package", "{what} needs MuJoCo", "pip install mujoco", what=what) from error
    return mujoco


def applied_command(x: Array, dead_band: Array) -> Array:
    """Duty between -1 and 1, 0 within the dead band."""
    return np.where(np.abs(x) <= dead_band, 0.0, np.clip(x, -1.0, 1.0))


def limit_rate(t: Array, command: Array, limit: Array) -> Array:
    """Command that follows another at most at `limit` per second."""
    out = np.array(command, dtype=np.float64, order="C")
    if np.isfinite(limit).any():
        _slew(np.diff(t), np.asarray(limit, dtype=np.float64), out)
    return out


@compiled
def _slew(spans: Array, limit: Array, command: Array) -> None:
    """Limit the rate of each column of a command (N, n), in place; infinite limits leave it as it is."""
    for j in range(command.shape[1]):
        if not np.isfinite(limit[j]):
            continue
        for k in range(1, len(command)):
            step, last = limit[j] * spans[k - 1], command[k - 1, j]
            command[k, j] = last + min(max(command[k, j] - last, -step), step)
