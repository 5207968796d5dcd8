"""Robots behind their controllers, simulated by MuJoCo: legs, an arm and a quadruped on a stand, as MJCF texts.

Their drives have what real ones have and a log does not tell: armature, damping, dry friction (MuJoCo's, or one with
memory that MuJoCo lacks, as an external torque), load-dependent friction, a delay of commands and one of the drive's
own sensors, limits of torque and of the command's rate, backlash, encoders of finite resolution, zeros that are off.
Written apart from `dynid.actuators`: nothing is shared with the code that identifies them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dynid.robot.transform import Array

STEP = 2.5e-4
"""Time step of the simulated world, s."""


def leg_text(joints: int = 3) -> str:
    """MJCF of a leg of two or three joints on a stand."""
    hip = (
        '<body name="hip" pos="0 0 0.9"><joint name="abduction" axis="1 0 0" range="-0.6 0.6"/>'
        '<inertial pos="0.01 0.03 0" mass="0.75" diaginertia="0.0012 0.0015 0.0014"/>'
    )
    return (
        '<mujoco model="leg"><compiler angle="radian" autolimits="true"/><option timestep="0.001"/><worldbody>'
        + (hip if joints == 3 else '<body name="stand" pos="0 0 0.9">')
        + '<body name="thigh" pos="0 0.06 0"><joint name="hip" axis="0 1 0" range="-1.2 1.4"/>'
        '<inertial pos="0 0.01 -0.06" mass="1.3" diaginertia="0.0075 0.0072 0.0016"/>'
        '<body name="shank" pos="0 0.02 -0.22"><joint name="knee" axis="0 1 0" range="-2.2 -0.3"/>'
        '<inertial pos="0.004 0 -0.09" mass="0.28" diaginertia="0.0024 0.0024 0.00005"/>'
        '<body name="foot" pos="0 0 -0.22"><inertial pos="0 0 0" mass="0.06" diaginertia="2e-5 2e-5 2e-5"/></body>'
        "</body></body></body></worldbody></mujoco>"
    )


def arm_text() -> str:
    """MJCF of an arm of six joints."""
    rows = (
        ("base_yaw", "0 0 1", "0 0 0.12", "-2.6 2.6", 2.6, "0.01 0 0.05", "0.011 0.011 0.009"),
        ("shoulder", "0 1 0", "0 0 0.1", "-1.6 1.6", 2.9, "0 0.02 0.14", "0.03 0.031 0.006"),
        ("elbow", "0 1 0", "0 0 0.28", "-2.2 2.2", 1.7, "0 -0.015 0.11", "0.014 0.014 0.003"),
        ("forearm", "0 0 1", "0 0 0.12", "-2.6 2.6", 0.8, "0.005 0 0.06", "0.0021 0.0021 0.0009"),
        ("wrist", "0 1 0", "0 0 0.13", "-1.8 1.8", 0.55, "0 0.008 0.04", "0.0009 0.0009 0.0004"),
        ("flange", "0 0 1", "0 0 0.08", "-2.6 2.6", 0.35, "0.012 0 0.03", "0.0004 0.0004 0.0003"),
    )
    text = ""
    for joint, axis, at, span, mass, com, inertia in rows:
        text += (
            f'<body name="{joint}_link" pos="{at}"><joint name="{joint}" axis="{axis}" range="{span}"/>'
            f'<inertial pos="{com}" mass="{mass}" diaginertia="{inertia}"/>'
        )
    head = '<mujoco model="arm"><compiler angle="radian" autolimits="true"/><option timestep="0.001"/><worldbody>'
    return head + text + "</body>" * len(rows) + "</worldbody></mujoco>"


def quadruped_text() -> str:
    """MJCF of four legs of three joints on a trunk that stands still."""
    legs = ""
    for name, x, y in (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("rl", -0.2, 0.1), ("rr", -0.2, -0.1)):
        s = 1 if y > 0 else -1
        legs += (
            f'<body name="{name}_hip" pos="{x} {y} 0.6"><joint name="{name}_abduction" axis="1 0 0" range="-0.6 0.6"/>'
            f'<inertial pos="0.005 {0.02 * s} 0" mass="0.7" diaginertia="0.0005 0.0009 0.0006"/>'
            f'<body name="{name}_thigh" pos="0 {0.08 * s} 0"><joint name="{name}_hip" axis="0 1 0" range="-1 1.4"/>'
            f'<inertial pos="-0.004 {-0.02 * s} -0.03" mass="1.15" diaginertia="0.006 0.0058 0.001"/>'
            f'<body name="{name}_shank" pos="0 0 -0.21"><joint name="{name}_knee" axis="0 1 0" range="-2.4 -0.4"/>'
            '<inertial pos="0.006 0 -0.12" mass="0.22" diaginertia="0.0029 0.0029 0.00004"/></body></body></body>'
        )
    return (
        '<mujoco model="quadruped"><compiler angle="radian" autolimits="true"/><option timestep="0.001"/><worldbody>'
        f'<body name="trunk"><geom type="box" size="0.25 0.1 0.05" pos="0 0 0.6" mass="5"/>{legs}</body>'
        "</worldbody></mujoco>"
    )


@dataclass(frozen=True)
class Drive:
    """What is true of the drives, one value per joint, and how the recording is made."""

    armature: Array
    damping: Array
    friction: Array
    kp: Array
    kd: Array
    max_torque: Array
    delay: float = 0.0
    rate: float = 500.0
    bits: int = 16
    loop: Literal["drive", "host"] = "drive"
    memory: float = 0.0
    """Presliding (rad) of a friction with memory in place of MuJoCo's; 0: MuJoCo's own."""
    velocity: bool = False
    offset: Array = field(default_factory=lambda: np.zeros(1))
    kind: Literal["position", "velocity", "current", "servo"] = "position"
    gain: float = 1.0
    """Torque per command of a current-controlled drive."""
    voltage: float = 12.0
    resistance: float = 1.0
    torque_constant: Array = field(default_factory=lambda: np.ones(1))
    dead_band: float = 0.0
    sensor_delay: float = 0.0
    """Age (s) of the positions and velocities with which a drive closes its loop."""
    rate_limit: float = np.inf
    """rad/s of the command inside the drive."""
    log_every: float = 1.0
    """Samples of the log per command: below 1 the log is slower than the controller, above 1 faster."""
    load: float = 0.0
    """Dry friction per torque that the links take through the gear."""
    backlash: float = 0.0
    """Play (rad) between the drive, whose encoder is recorded, and the link."""
    zero: Array = field(default_factory=lambda: np.zeros(1))
    """Position of the link where encoder and command read 0, rad."""
    command_zero: Array = field(default_factory=lambda: np.zeros(1))
    """Angle (rad) that the drive adds to a command."""


def true_model(text: str, drive: Drive) -> Any:
    """Compiled model with the true armatures and friction."""
    import mujoco

    spec = mujoco.MjSpec.from_string(text)
    spec.option.timestep = STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    # Its own step would change inertias by a percent: the controller's damping acts half a step early, friction's late.
    early = np.zeros_like(drive.kd) if drive.kind == "current" else drive.kd
    if drive.kind == "servo":
        early = drive.torque_constant / drive.resistance * (drive.voltage * drive.kd + drive.torque_constant)
    own = slice(0, None, 2) if drive.backlash else slice(None)
    model.dof_armature[own] = drive.armature + 0.5 * STEP * (early - drive.damping)
    model.dof_damping[own] = drive.damping
    model.dof_frictionloss[own] = 0.0 if drive.memory else drive.friction
    mujoco.mj_setConst(model, mujoco.MjData(model))  # simple bodies keep their inertia from there
    return model


class _Loop:
    """Torque of the drives at an instant, from commands that were sent and states that sensors have seen."""

    def __init__(self, drive: Drive, n: int) -> None:
        self.drive, self.n = drive, n
        self.sent: list[Array] = []
        """(3, n) each: q_cmd, v_cmd, tau_ff, as recorded."""
        self.seen: list[tuple[Array, Array]] = []
        self.slewed: list[Array] = []
        self.age = round(drive.sensor_delay / STEP)
        self.past: list[tuple[Array, Array]] = []

    def send(self, wanted: Array, slope: Array, q: Array, v: Array) -> None:
        """One tick of the controller: the command that the drive gets, from what its encoder reads."""
        d = self.drive
        command = np.stack([wanted, np.zeros(self.n), np.zeros(self.n)])
        if d.kind == "velocity":  # an outer loop holds the position
            command[1] = slope + 6.0 * (wanted - q)
        elif d.kind == "current":
            command[2] = (d.kp * (wanted - q) + d.kd * (slope - v)) / d.gain
        self.sent.append(command)
        self.seen.append((q, v))
        most = d.rate_limit / d.rate
        last = self.slewed[-1] if self.slewed else wanted
        self.slewed.append(last + np.clip(wanted - last, -most, most))

    def torque(self, k: int, q: Array, v: Array) -> Array:
        """Torque by the k-th command; q, v: true state in the encoder's zero."""
        d = self.drive
        k = min(max(k, 0), len(self.sent) - 1)
        if d.loop == "host":
            q, v = self.seen[k]
        elif self.age and len(self.past) > self.age:
            q, v = self.past[-1 - self.age]
        e = self.slewed[k] + d.command_zero - q
        if d.kind == "velocity":
            tau = d.kd * (self.sent[k][1] - v)
        elif d.kind == "current":
            tau = d.gain * self.sent[k][2]
        elif d.kind == "servo":
            u = d.kp * e - d.kd * v
            u = np.where(np.abs(u) <= d.dead_band, 0.0, np.clip(u, -1.0, 1.0))
            tau = d.torque_constant / d.resistance * (d.voltage * u - d.torque_constant * v)
        else:
            tau = d.kp * e - d.kd * v
        return np.asarray(np.minimum(np.maximum(tau, -d.max_torque), d.max_torque))


def record(text: str, drive: Drive, command: Any, duration: float, *, seed: int = 0) -> dict[str, Array]:
    """Log of a controller that follows command(t) (n,) from rest: t, q1.., q_cmd1.., and the true positions.

    Keys: `t`, `q` (N, n) as the encoders give it, `q_cmd`, `q_true`, `v` where the drive records it, `v_cmd` or
    `tau_ff` where these are its commands.
    """
    import mujoco

    model = true_model(with_play(text) if drive.backlash else text, drive)
    data = mujoco.MjData(model)
    n = model.nv
    link = n // 2 if drive.backlash else n
    own = np.arange(0, n, 2) if drive.backlash else np.arange(n)  # what turns with the encoder
    rng = np.random.default_rng(seed)
    data.qpos[own] = command(0.0) + drive.zero
    z, before = np.zeros(link), data.qpos[own].copy()
    lsb = 2.0 * np.pi / 2**drive.bits
    phase = rng.uniform(0.0, lsb, link)
    period, every = 1.0 / drive.rate, 1.0 / drive.rate / drive.log_every
    loop, ticks, samples = _Loop(drive, link), 0, 0
    rows: list[tuple[Array, Array, Array, Array]] = []
    for i in range(round(duration / STEP)):
        now = i * STEP
        x, v = data.qpos[own] - drive.zero, data.qvel[own].copy()
        is_tick, is_sample = ticks * period <= now + 1e-9, samples * every <= now + 1e-9
        if is_tick or is_sample:
            q = np.floor((x + phase) / lsb) * lsb - phase + 0.5 * lsb
        if is_tick:
            at = ticks * period
            slope = (command(at + 1e-4) - command(at - 1e-4)) / 2e-4 if drive.kind in ("velocity", "current") else v
            loop.send(command(at), slope, q, v)
            ticks += 1
        if is_sample:
            rows.append((q, x, v, loop.sent[-1]))
            samples += 1
        if loop.age:
            loop.past.append((x, v))
            del loop.past[: -loop.age - 2]
        # A step's force acts half a step before and after its instant: commands that change inside count in part.
        first, last = (int(np.floor((now + side * STEP - drive.delay) / period + 1e-9)) for side in (-0.5, 0.5))
        tau = loop.torque(first, x, v)
        if last != first:
            tau = 0.5 * (tau + loop.torque(last, x, v))
        tau = tau + drive.offset
        if drive.memory:
            # Dahl's friction with a shape that MuJoCo does not have, its state moved by travel.
            dq = data.qpos[own] - before
            z = np.clip(z + dq / drive.memory * np.clip(1.0 - z * np.sign(dq), 0.0, 2.0), -1.0, 1.0)
            before = data.qpos[own].copy()
            tau = tau - drive.friction * z
        if drive.load:  # by the torque that the links take through the gear
            links = np.zeros(n)
            mujoco.mj_mulM(model, data, links, data.qacc)
            links += data.qfrc_bias - model.dof_armature * data.qacc
            tau = tau - drive.load * np.abs(links[own]) * np.tanh(v / 0.005)
        data.qfrc_applied[own] = tau
        if drive.backlash:
            loose = data.qpos[own + 1]  # the link against its drive: a stiff contact at both ends of the play
            beyond = loose - np.clip(loose, -0.5 * drive.backlash, 0.5 * drive.backlash)
            push = 3e3 * beyond + np.where(beyond != 0.0, 2.0 * data.qvel[own + 1], 0.0)
            data.qfrc_applied[own + 1] = -push
        mujoco.mj_step(model, data)
    t = np.arange(samples) * every
    q, true, v, sent = (np.array(x) for x in zip(*rows, strict=True))
    found = {"t": t, "q": q, "q_cmd": sent[:, 0], "q_true": true}
    if drive.kind in ("velocity", "current"):
        del found["q_cmd"]
        found |= {"v_cmd": sent[:, 1]} if drive.kind == "velocity" else {"tau_ff": sent[:, 2]}
    return found | ({"v": v} if drive.velocity else {})


def with_play(text: str) -> str:
    """The robot with a drive of its own before each link: joints come in pairs, drive and play."""

    def pair(found: re.Match[str]) -> str:
        driven = found[0].replace("<joint ", '<joint armature="0.001" ')  # the true one is set later
        return driven + f'<joint name="{found[1]}_play" axis="{found[2]}" range="-1 1"/>'

    return re.sub(r'<joint name="(\w+)" axis="([^"]+)"[^>]*/>', pair, text)


def columns(log: dict[str, Array]) -> dict[str, Array]:
    """The log as a table of named columns: t, q1, ..., q_cmd1, ..."""
    table: dict[str, Array] = {"t": log["t"]}
    for key in ("q", "v", "q_cmd", "v_cmd", "tau_ff"):
        if key in log:
            table |= {f"{key}{j + 1}": x for j, x in enumerate(log[key].T)}
    return table


def random_drive(rng: np.random.Generator, text: str, **options: Any) -> Drive:
    """Drives that suit a robot: gains by its inertias, friction and limits by its torques."""
    import mujoco

    model = mujoco.MjSpec.from_string(text).compile()
    data, n = mujoco.MjData(model), model.nv
    data.qpos[:] = model.jnt_range.mean(axis=1)
    mujoco.mj_forward(model, data)
    full = np.zeros((n, n))
    mujoco.mj_fullM(model, full, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(model, data, full)
    inertia = np.diag(full)
    gravity = np.zeros(n)
    for seed in range(8):
        data.qpos[:] = np.random.default_rng(seed).uniform(*model.jnt_range.T)
        mujoco.mj_forward(model, data)
        gravity = np.maximum(gravity, np.abs(data.qfrc_bias))
    armature = np.clip(inertia * rng.uniform(0.15, 0.8, n), 0.002, None)
    whole = inertia + armature
    frequency = 2.0 * np.pi * rng.uniform(4.0, 7.0)
    kp = whole * frequency**2
    kd = 2.0 * rng.uniform(0.35, 0.7) * whole * frequency
    size = gravity + 6.0 * whole * 10.0
    given = {
        "armature": armature, "kp": kp, "kd": kd, "damping": kd * rng.uniform(0.1, 0.5, n),
        "friction": size * rng.uniform(0.01, 0.05, n), "max_torque": np.full(n, 1e3),
        "offset": np.zeros(n),
    }  # fmt: skip
    return Drive(**(given | options))


def random_command(rng: np.random.Generator, text: str, duration: float, *, fastest: float = 3.0) -> Any:
    """Command (n,) of time: sines of 0.1 Hz to `fastest`, chirps and a few steps, inside the joints' ranges."""
    import mujoco

    model = mujoco.MjSpec.from_string(text).compile()
    n = model.nv
    low, high = np.maximum(model.jnt_range[:, 0], -2.0), np.minimum(model.jnt_range[:, 1], 2.0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    count = 6
    f = np.exp(rng.uniform(np.log(0.15), np.log(fastest), (count, n)))
    phase = rng.uniform(0.0, 2.0 * np.pi, (count, n))
    a = rng.uniform(0.4, 1.0, (count, n)) / (1.0 + (f / 1.0) ** 1.2)
    a *= 0.7 * np.minimum(half, 0.8) / a.sum(axis=0)
    jumps = np.sort(rng.uniform(1.0, duration, (max(int(duration / 2.5), 1), n)), axis=0)
    sizes = rng.uniform(-0.15, 0.15, jumps.shape) * np.minimum(half, 0.8)

    def command(t: float) -> Array:
        fade = min(t / 0.5, 1.0)
        smooth = (a * np.sin(2.0 * np.pi * f * t + phase)).sum(axis=0)
        last = np.array([sizes[np.searchsorted(jumps[:, j], t) - 1, j] if t >= jumps[0, j] else 0 for j in range(n)])
        return np.asarray(middle + fade * smooth + last)

    return command
