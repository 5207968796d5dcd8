"""Rollouts in MuJoCo: the robot behind its controllers follows recorded commands from recorded states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dynid.actuators.controller import Controller, applied_command, import_mujoco, limit_rate, read_controller
from dynid.actuators.equation import HeldSignals, fit_states, host_ticks, knot_spacing
from dynid.dynamics.kernels.threads import thread_count
from dynid.errors import IdentificationError
from dynid.logs.commands import CommandedMotion
from dynid.logs.simulate import Sampled
from dynid.messages import Option
from dynid.robot.inertia import to_body
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot, composite_inertias
from dynid.robot.transform import Array, Transform, quaternion_from_rotation

HORIZONS = (0.1, 0.5, 2.0, 10.0)
STEP = 5e-4
"""Longest time step (s) of a rollout."""

WINDOWS = 30
"""Rollouts per horizon, at most."""

DIVERGED = 1e3
"""Position (rad) beyond which a rollout has diverged."""


@dataclass(frozen=True, eq=False)
class Drives:
    """What a simulator has for each joint (n,): armature, damping, frictionloss, and a constant torque; delay in s."""

    armature: Array
    damping: Array
    frictionloss: Array
    offset: Array
    controller: Controller
    delay: float
    loop: str = "drive"
    masses: Array | None = None
    """Factors of the links' masses, one per moving link in the order of `robot.links`; None: 1."""
    sensor_delay: float = 0.0
    """Age (s) of the positions with which a drive closes its loop; rollouts hold it to second order."""

    @staticmethod
    def nominal(robot: Robot, controller: Controller) -> Drives:
        """Drives as the robot's file has them, without delay."""
        links = [robot.links[k] for k in robot.active_links]
        friction = [dict(link.friction) for link in links]
        return Drives(
            np.nan_to_num(np.array([link.rotor for link in links])),
            np.array([f.get("viscous", 0.0) for f in friction]), np.array([f.get("coulomb", 0.0) for f in friction]),
            np.zeros(robot.n), controller, 0.0,
        )  # fmt: skip


def check_rollouts_possible(robot: Robot) -> None:
    """Raise where MuJoCo is missing, or the robot has loops that rollouts do not hold."""
    import_mujoco("simulating the robot")
    if robot.couplings or robot.closures:
        raise IdentificationError(
            "rollouts_of_loops", "'{robot}' has coupled joints or closed loops, which rollouts do not hold",
            robot=robot.name,
        )  # fmt: skip


class Simulator:
    """A compiled model of a robot on its fixed base, without contacts; `rollout` sets its drives."""

    def __init__(self, robot: Robot) -> None:
        check_rollouts_possible(robot)
        self.mujoco = mujoco = import_mujoco("simulating the robot")
        import_module("mujoco.rollout")

        self.robot = robot
        spec = mujoco.MjSpec()
        spec.option.gravity = list(robot.gravity)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.compiler.boundmass = spec.compiler.boundinertia = 0.0
        spec.compiler.balanceinertia = True
        soft = _friction_softness(mujoco, robot)
        whole = composite_inertias(robot)
        frames: dict[int, tuple[Any, Transform]] = {-1: (spec.worldbody, Transform.identity())}
        for k in robot.topological_order:
            link = robot.links[k]
            parent, T = frames[link.parent]
            T = T @ link.placement
            if not link.moves:
                frames[k] = (parent, T)
                continue
            body = parent.add_body(
                name=f"link{k}", pos=T.translation.tolist(), quat=quaternion_from_rotation(T.rotation).tolist()
            )
            kind = mujoco.mjtJoint.mjJNT_HINGE if link.kind == "revolute" else mujoco.mjtJoint.mjJNT_SLIDE
            joint = body.add_joint(name=link.joint, type=kind, axis=link.axis.tolist())
            joint.solref_friction, joint.solimp_friction = soft.get(
                link.joint, (joint.solref_friction, joint.solimp_friction)
            )
            own = to_body(whole[k]) if whole[k][9] > 1e-9 else None
            body.explicitinertial = True
            body.mass = 1e-9 if own is None else float(own.mass)
            if own is None:
                body.inertia = [1e-12] * 3
            else:
                body.ipos = own.com.tolist()
                J = own.inertia
                values, axes = np.linalg.eigh(J)
                axes = axes * np.sign(np.linalg.det(axes))
                body.inertia = np.maximum(values, 1e-12).tolist()
                body.iquat = quaternion_from_rotation(axes).tolist()
            frames[k] = (body, Transform.identity())
            actuator = spec.add_actuator(name=link.joint, target=link.joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
        self.model = spec.compile()
        off = ("mjDSBL_CONTACT", "mjDSBL_LIMIT", "mjDSBL_AUTORESET")  # what diverges shall not begin anew
        for flag in off:
            self.model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, flag, 0))
        names = robot.joint_names
        self._dof = np.array([self.model.jnt_dofadr[self.model.joint(name).id] for name in names])
        self._actuator = np.array([self.model.actuator(name).id for name in names])
        self._bodies = [self.model.body(f"link{k}").id for k in robot.tree_joints]
        self._mass, self._inertia = self.model.body_mass.copy(), self.model.body_inertia.copy()
        threads = thread_count()
        self._data = [mujoco.MjData(self.model) for _ in range(threads)]
        self._pool = mujoco.rollout.Rollout(nthread=threads if threads > 1 else 0)
        self.count = 0
        """Rollouts of whole sets of windows that were simulated."""

    def set_drives(self, drives: Drives, *, by_steps: NDArray[np.bool_] | None = None, pwm: bool = False) -> None:
        """Write armature, friction, gains and limits into the model.

        by_steps (n,): whose loop is closed outside; pwm: whether servos follow a recorded duty and close none.
        """
        model, c, step = self.model, drives.controller, self.model.opt.timestep
        servo = np.array([kind == "servo" for kind in c.kind])
        stall = np.where(servo, np.nan_to_num(c.torque_constant * c.voltage / c.resistance), 1.0)
        emf = np.where(servo, np.nan_to_num(c.torque_constant**2 / c.resistance), 0.0)
        model.dof_damping[self._dof] = np.maximum(drives.damping, 0.0) + emf
        model.dof_frictionloss[self._dof] = np.maximum(drives.frictionloss, 0.0)
        feedback = np.array([kind == "position" or (kind == "servo" and not pwm) for kind in c.kind])
        damped = np.array([kind != "current" and not (kind == "servo" and pwm) for kind in c.kind])
        outside = np.full(self.robot.n, drives.loop == "host") if by_steps is None else by_steps
        kp = np.where(feedback, np.nan_to_num(c.kp), 0.0) * stall
        kd = np.where(damped, np.nan_to_num(c.kd), 0.0) * stall
        lag = 0.0 if drives.loop == "host" else drives.sensor_delay
        older = lag * kd - 0.5 * lag**2 * kp  # -kp q(t - s) - kd v(t - s) to second order
        late_kd = np.where(outside, 0.0, kd - lag * kp)
        # MuJoCo takes damping at the end of a step, half a step late: as if inertia were larger; velocities that
        # torques are computed from outside are half a step old: as if it were smaller.
        late = 0.5 * step * (late_kd + model.dof_damping[self._dof] - np.where(outside, kd, 0.0))
        model.dof_armature[self._dof] = np.maximum(drives.armature - older - late, 1e-6)
        kp = np.where(outside, 0.0, kp)
        kd = late_kd
        limit = np.where(np.isfinite(c.max_torque), c.max_torque, 1e9)
        limit = np.where(servo, np.minimum(limit, stall), limit)
        model.actuator_gainprm[self._actuator, 0] = 1.0
        model.actuator_biasprm[self._actuator, 1] = -kp
        model.actuator_biasprm[self._actuator, 2] = -kd
        model.actuator_forcelimited[self._actuator] = 1
        model.actuator_forcerange[self._actuator] = np.column_stack([-limit, limit])
        masses = np.ones(len(self._bodies)) if drives.masses is None else drives.masses
        model.body_mass[self._bodies] = self._mass[self._bodies] * masses
        model.body_inertia[self._bodies] = self._inertia[self._bodies] * masses[:, None]
        self.mujoco.mj_setConst(model, self._data[0])

    def rollout(self, drives: Drives, windows: Windows, *, q: Array | None = None, v: Array | None = None) -> Array:
        """Positions (windows, samples, n) at the samples of each window, from their recorded states or others.

        Not finite where the simulated robot diverges.
        """
        self.mujoco.set_mju_user_warning(lambda text: None)  # else it writes a MUJOCO_LOG.TXT wherever it is run
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = self._rollout(drives, windows, q, v)
        finally:
            self.mujoco.set_mju_user_warning(None)
        return np.where(np.abs(found) < DIVERGED, found, np.nan)

    def _rollout(self, drives: Drives, windows: Windows, q: Array | None, v: Array | None) -> Array:
        """Rollouts by the quickest way that their loops allow."""
        self.model.opt.timestep = windows.step
        by_steps = windows.needs_steps(drives)
        self.set_drives(drives, by_steps=by_steps if by_steps.any() else None, pwm=windows.has_pwm)
        self.count += 1
        n, count = self.robot.n, windows.count
        model, mujoco = self.model, self.mujoco
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        state = np.zeros((count, size))
        state[:, 1 + self._dof] = windows.q if q is None else q
        state[:, 1 + model.nq + self._dof] = windows.v if v is None else v
        if drives.loop == "host":
            return self._rollout_of_host(drives, windows, state)
        control = np.zeros((count, windows.steps, model.nu))
        control[:, :, self._actuator] = windows.control(drives)
        control[:, :, self._actuator] -= drives.offset
        if by_steps.any():
            return self._rollout_by_steps(drives, windows, state, control, by_steps)
        states, _ = self._pool.rollout(model, self._data, state, control)
        found = np.asarray(states)[:, windows.stride - 1 :: windows.stride, 1 + self._dof]
        return np.concatenate([state[:, None, 1 + self._dof], found], axis=1).reshape(count, -1, n)

    def _rollout_by_steps(
        self, drives: Drives, windows: Windows, state: Array, control: Array, by_steps: NDArray[np.bool_]
    ) -> Array:
        """Rollout of servos with a dead band: their duty is computed at every step."""
        model, c = self.model, drives.controller
        stall = np.nan_to_num(c.torque_constant * c.voltage / c.resistance)
        kp, kd = (np.where(by_steps, stall * np.nan_to_num(x), 0.0) for x in (c.kp, c.kd))
        found = [state[:, 1 + self._dof]]
        for k in range(windows.steps):
            q, v = state[:, 1 + self._dof], state[:, 1 + model.nq + self._dof]
            now = control[:, k : k + 1].copy()
            asked = now[:, 0, self._actuator] + drives.offset - kp * q - kd * v
            duty = applied_command(asked / np.where(by_steps, stall, 1.0), c.dead_band)
            now[:, 0, self._actuator] = np.where(by_steps, stall * duty - drives.offset, now[:, 0, self._actuator])
            states, _ = self._pool.rollout(model, self._data, state, now)
            state = np.ascontiguousarray(np.asarray(states)[:, -1])
            if (k + 1) % windows.stride == 0:
                found.append(state[:, 1 + self._dof])
        return np.stack(found, axis=1).reshape(len(state), -1, self.robot.n)

    def _rollout_of_host(self, drives: Drives, windows: Windows, state: Array) -> Array:
        """Rollout of torques that are computed at samples and held for one period, after the delay."""
        model, c, n = self.model, drives.controller, self.robot.n
        m, shift = windows.stride, drives.delay / windows.step
        before = int(np.ceil(max(shift, 0.0) / m)) + 1
        ticks = windows.steps // m
        past = np.zeros((len(state), before + ticks, n))
        past[:, :before] = windows.torques_before(drives, before)
        commands = windows.commands_at_samples()
        found = [state[:, 1 + self._dof]]
        limit = np.where(np.isfinite(c.max_torque), c.max_torque, 1e9)
        current = np.array([kind == "current" for kind in c.kind])
        kp = np.where([kind == "position" for kind in c.kind], np.nan_to_num(c.kp), 0.0)
        kd = np.where(current, 0.0, np.nan_to_num(c.kd))
        sent = kp * commands[:, :, 0] + kd * commands[:, :, 1]
        sent += np.where(current, np.nan_to_num(c.gain), 1.0) * commands[:, :, 2]
        # Steps of one tick feel the torque of a few ticks before, and where it changes inside a step a mean of two.
        at = (np.arange(m) - 0.5 - shift) / m
        low = np.minimum(np.floor(at), 0.0).astype(np.int64)
        high = np.minimum(np.floor(at + (1.0 - 1e-9) / m), 0.0).astype(np.int64)
        share = np.where(high > low, (at + 1.0 / m - high) * m, 0.0)
        weights = np.zeros((m, before + 1))
        np.add.at(weights, (np.arange(m), before + low), 1.0 - share)
        np.add.at(weights, (np.arange(m), before + high), share)
        is_new, always = windows.ticks[:, :, None], np.asarray(windows.ticks.all(axis=0))

        def send(k: int, states: Array) -> None:
            """Torques that the host computes at tick k of the states, and sends."""
            q, v = states[:, 1 + self._dof], states[:, 1 + model.nq + self._dof]
            tau = np.minimum(np.maximum(sent[:, k] - kp * q - kd * v, -limit), limit)
            past[:, before + k] = tau if always[k] else np.where(is_new[:, k], tau, past[:, before + k - 1])

        felt = sliding_window_view(past, before + 1, axis=1)
        ahead = 1 - int(high.max())  # ticks that feel no torque sent after the first of them began
        models = [model] * len(state)
        send(0, state)
        for first in range(0, ticks, ahead):
            count = min(ahead, ticks - first)
            torques = (felt[:, first : first + count] @ weights.T).transpose(0, 1, 3, 2).reshape(len(state), -1, n)
            controls = np.zeros((len(state), count * m, model.nu))
            controls[:, :, self._actuator] = torques - drives.offset
            states = np.empty((len(state), count * m, state.shape[1]))
            sensors = np.empty((len(state), count * m, model.nsensordata))
            self._pool.rollout(
                models, self._data, state, controls, nstep=count * m, state=states, sensordata=sensors, skip_checks=True
            )
            for k in range(1, count + 1):
                state = states[:, k * m - 1].copy()
                found.append(state[:, 1 + self._dof])
                if first + k < ticks:
                    send(first + k, state)
        return np.stack(found, axis=1).reshape(len(state), -1, n)


def _friction_softness(mujoco: Any, robot: Robot) -> dict[str, tuple[Any, Any]]:
    """How soft dry friction is at each joint in the robot's MJCF, as MuJoCo has it; nothing for other files."""
    if not robot.source.lower().endswith(".xml") or not Path(robot.source).is_file():
        return {}
    try:
        model = mujoco.MjModel.from_xml_path(robot.source)
    except ValueError:
        return {}
    found = {}
    for k in range(model.njnt):
        dof = model.jnt_dofadr[k]
        found[model.joint(k).name] = (model.dof_solref[dof].copy(), model.dof_solimp[dof].copy())
    return found


class Windows:
    """Equal windows of a recording that rollouts start at: states at their beginnings, commands, recorded positions.

    step (s) divides the period of the recording `stride` times; samples are at multiples of the period. whole: one
    window from the first sample on.
    """

    def __init__(
        self, parts: Sequence[CommandedMotion], controller: Controller, length: float, cutoff: float, *,
        most: int | None = WINDOWS, whole: bool = False,
    ) -> None:  # fmt: skip
        self.period = float(np.median([part.period for part in parts]))
        self.stride = max(int(np.ceil(self.period / STEP - 1e-6)), 1)
        self.step = self.period / self.stride
        self.samples = max(round(length / self.period), 1)
        self.steps = self.samples * self.stride
        self._starts: list[tuple[int, float]] = []
        self._splines: list[Any] = []
        self._held: list[HeldSignals] = []
        self._ticks: list[NDArray[np.int64]] = []
        self.parts = list(parts)
        n = parts[0].q.shape[1]
        for i, part in enumerate(parts):
            self._splines.append(fit_states(part.t, part.q, knot_spacing(part.period, cutoff)))
            commands = [part.commands.get(key, np.zeros_like(part.q)) for key in ("q_cmd", "v_cmd", "tau_ff", "pwm")]
            commands[0] = limit_rate(part.t, commands[0], controller.rate_limit)
            self._held.append(HeldSignals(part.t, np.hstack(commands), controller.rate))
            self.has_pwm = "pwm" in part.commands
            self._ticks.append(host_ticks(part, controller.rate))
            first = max(0.1, 6.0 * part.period) + _settling_time(part, controller.rate_limit)
            starts = np.arange(part.t[0] + first, part.t[-1] - length - self.period, length)
            snapped = part.t[:1] if whole else part.t[np.searchsorted(part.t, starts)]
            self._starts += [(i, float(t)) for t in snapped]
        if most is not None and len(self._starts) > most:
            chosen = np.linspace(0, len(self._starts) - 1, most).round().astype(np.int64)
            self._starts = [self._starts[k] for k in chosen]
        self.count = len(self._starts)
        if self.count:
            states = [(self._splines[i](t), self._splines[i](t, 1)) for i, t in self._starts]
            self.q, self.v = (np.array([x[k] for x in states]) for k in range(2))
            self.v -= 0.5 * self.step * np.array([self._splines[i](t, 2) for i, t in self._starts])  # as MuJoCo leaps
            grid = np.arange(self.samples + 1) * self.period
            self.measured = np.stack([
                np.column_stack([np.interp(t + grid, parts[i].t, parts[i].q[:, j]) for j in range(n)])
                for i, t in self._starts
            ])  # fmt: skip
            at = grid[:-1] + 0.25 * self.step
            self.ticks = np.array([
                np.isin(np.searchsorted(parts[i].t, t + at, side="right") - 1, self._ticks[i]) for i, t in self._starts
            ])  # fmt: skip
            """(windows, samples): whether a host computes a new torque at a sample."""
        self._n = n

    @property
    def starts(self) -> list[tuple[int, float]]:
        """Number of the recording and instant of each window."""
        return list(self._starts)

    def needs_steps(self, drives: Drives) -> NDArray[np.bool_]:
        """Joints (n,) whose loop no actuator of MuJoCo closes: servos with a dead band and their own positions."""
        c = drives.controller
        return np.array([
            kind == "servo" and band > 0.0 and not self.has_pwm
            for kind, band in zip(c.kind, c.dead_band, strict=True)
        ])  # fmt: skip

    def control(self, drives: Drives) -> Array:
        """What commands add to the torque (windows, steps, n): kp q_cmd + kd v_cmd + tau_ff, delayed and held."""
        c = drives.controller
        at: Array = (
            np.arange(float(self.steps)) * self.step
        )  # MuJoCo's force of a step acts half a step before and after its instant
        held = np.stack([self._held[i].means(t + at, self.step, drives.delay) for i, t in self._starts])
        held = held.reshape(self.count, self.steps, 4, self._n)
        servo = np.array([kind == "servo" for kind in c.kind])
        stall = np.where(servo, np.nan_to_num(c.torque_constant * c.voltage / c.resistance), 1.0)
        position = np.array([kind in ("position", "servo") for kind in c.kind])
        current = np.array([kind == "current" for kind in c.kind])
        kp, kd = np.where(position, np.nan_to_num(c.kp), 0.0), np.where(current, 0.0, np.nan_to_num(c.kd))
        tau = kp * held[:, :, 0] + kd * held[:, :, 1] + np.where(current, np.nan_to_num(c.gain), 1.0) * held[:, :, 2]
        tau = tau * stall
        if self.has_pwm and servo.any():
            tau = np.where(servo, stall * applied_command(held[:, :, 3], c.dead_band), tau)
        return np.asarray(tau)

    def commands_at_samples(self) -> Array:
        """Commands (windows, samples, 3, n) at the samples."""
        at: Array = np.arange(float(self.samples)) * self.period + 0.25 * self.step
        found = np.stack([self._held[i].values(t + at, 0.0) for i, t in self._starts])
        return found.reshape(self.count, self.samples, 4, self._n)[:, :, :3]

    def torques_before(self, drives: Drives, count: int) -> Array:
        """Torques (windows, count, n) that a host sent before each window, from recorded positions."""
        c = drives.controller
        at = -np.arange(count, 0, -1) * self.period + 0.25 * self.step
        made = []
        for i, t in self._starts:
            x = np.maximum(t + at, self.parts[i].t[0])
            ticks = self.parts[i].t[self._ticks[i]]
            x = ticks[np.maximum(np.searchsorted(ticks, x, side="right") - 1, 0)] + 0.25 * self.step
            q_cmd, v_cmd, forward, _ = self._held[i].values(x, 0.0).reshape(count, 4, self._n).transpose(1, 0, 2)
            q, v = self._splines[i](x), self._splines[i](x, 1)
            position = np.array([kind == "position" for kind in c.kind])
            current = np.array([kind == "current" for kind in c.kind])
            tau = np.nan_to_num(c.kp) * np.where(position, q_cmd - q, 0.0)
            tau = tau + np.nan_to_num(c.kd) * np.where(current, 0.0, v_cmd - v)
            tau = tau + np.where(current, c.gain * forward, forward)
            limit = np.where(np.isfinite(c.max_torque), c.max_torque, 1e9)
            made.append(np.clip(tau, -limit, limit))
        return np.array(made)


def _settling_time(part: CommandedMotion, limit: Array) -> float:
    """Seconds after which a command of limited rate no longer depends on where it was before the recording.

    Between the command and the position that follows it, that is.
    """
    if "q_cmd" not in part.commands or not np.isfinite(limit).any():
        return 0.0
    command = part.commands["q_cmd"]
    a, b = (limit_rate(part.t, np.vstack([x, command[1:]]), limit) for x in (command[:1], part.q[:1]))
    apart = np.flatnonzero((np.abs(a - b)[:, np.isfinite(limit)] > 1e-6).any(axis=1))
    return float(part.t[apart[-1]] - part.t[0]) if len(apart) else 0.0


@dataclass(frozen=True, eq=False)
class RolloutErrors:
    """Errors of rollouts on held-out motion: root mean square over windows, samples and joints.

    Infinite where a rollout diverges.

    Attributes
    ----------
    horizons : (H,) array
        Horizons, s.
    nominal : (H,) array
        Errors of the robot's file, rad.
    before : (H,) array
        Errors of the linear estimate, rad.
    after : (H,) array
        Errors after polishing, rad; the same as `before` without it.
    by_joint : (H, n) array
        Errors after polishing by joint, rad or m.
    windows : (H,) array
        Number of rollouts.
    curve_t : (K,) array
        Time of one window of the longest horizon up to 2 s, s.
    curve_measured : (K, n) array
        Measured positions there, rad or m.
    curve_nominal : (K, n) array
        Positions simulated by the robot's file, rad or m.
    curve_after : (K, n) array
        Positions simulated with the estimate, rad or m.
    """

    horizons: Array
    nominal: Array
    before: Array
    after: Array
    by_joint: Array
    windows: Array
    curve_t: Array
    curve_measured: Array
    curve_nominal: Array
    curve_after: Array

    def at(self, horizon: float) -> float:
        """Error after all steps at a horizon.

        Parameters
        ----------
        horizon : float
            Horizon, s.

        Returns
        -------
        float
            Error, rad; NaN where the held-out motion is shorter.
        """
        k = np.flatnonzero(np.isclose(self.horizons, horizon))
        return float(self.after[k[0]]) if len(k) else float("nan")


def rollout_errors(
    simulator: Simulator, parts: Sequence[CommandedMotion], cutoff: float, *, nominal: Drives, before: Drives,
    after: Drives,
) -> RolloutErrors | None:  # fmt: skip
    """Errors against the horizon on held-out motion; None where it is too short for the least."""
    rows, joints, counts, used = [], [], [], []
    curve: tuple[Array, ...] | None = None
    for horizon in HORIZONS:
        windows = Windows(parts, after.controller, horizon, cutoff)
        if not windows.count:
            continue
        errors, per_joint = [], None
        made: list[Array] = []
        for drives in (nominal, before, after):
            q = made[1] if drives is after and after is before and len(made) > 1 else simulator.rollout(drives, windows)
            made.append(q)
            error = q[:, 1:] - windows.measured[:, 1:]
            errors.append(float(np.sqrt(np.mean(np.square(np.nan_to_num(error, nan=np.inf))))))
            per_joint = np.sqrt(np.mean(np.square(np.nan_to_num(error, nan=np.inf)), axis=(0, 1)))
        rows.append(errors)
        joints.append(per_joint)
        counts.append(windows.count)
        used.append(horizon)
        if horizon <= 2.0:
            k = int(np.argmax(np.ptp(windows.measured, axis=1).sum(axis=1)))
            t: Array = np.arange(windows.samples + 1.0) * windows.period
            thin = slice(None, None, max(len(t) // 300, 1))
            curve = (t[thin], windows.measured[k][thin], made[0][k][thin], made[2][k][thin])
    if not rows or curve is None:
        return None
    table = np.array(rows)
    return RolloutErrors(
        np.array(used), table[:, 0], table[:, 1], table[:, 2], np.array(joints), np.array(counts), *curve
    )


def simulate_actuators(
    robot: Robot,
    motion: Motion | Sampled,
    *,
    controller: Any = None,
    delay: float = 0.0,
    armature: float | Sequence[float] | None = None,
    damping: float | Sequence[float] | None = None,
    frictionloss: float | Sequence[float] | None = None,
    rate: float = 200.0,
    bits: int | None = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Simulate a robot whose drives follow a motion as their command, by MuJoCo: a recording for `identify_actuators`.

    Parameters
    ----------
    robot : Robot
        On a fixed base.
    motion : Motion or Excitation
        The commands; an excitation is sampled at `rate`.
    controller : Controller, mapping or path, optional
        As for `identify_actuators`; its gains must be known.
    delay : float
        Seconds until a command acts.
    armature : float or (n,) sequence, optional
        Armature, kg m^2. Default: the robot's.
    damping : float or (n,) sequence, optional
        Damping, N m s/rad. Default: the robot's.
    frictionloss : float or (n,) sequence, optional
        Dry friction, N m. Default: the robot's.
    rate : float
        Samples per second of an excitation, Hz; a Motion has its own.
    bits : int, optional
        Resolution of the encoders, per turn or per m. Default: exact.
    seed : int
        Seed of the encoders' zeros.

    Returns
    -------
    dict of str to array
        Columns t, q1, q2, ..., q_cmd1, q_cmd2, ...

    Raises
    ------
    ControllerError
        If a gain of the controller is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, load_robot, simulate_actuators
    >>> t = np.arange(0.0, 1.0, 0.005)
    >>> x = t[:, None]
    >>> motion = Motion(t, np.sin(x), np.cos(x), -np.sin(x))
    >>> controller = {"kind": "position", "kp": 200.0, "kd": 5.0}
    >>> log = simulate_actuators(load_robot("one_link"), motion, controller=controller)
    >>> sorted(log)
    ['q1', 'q_cmd1', 't']
    """
    simulator = Simulator(robot)
    if isinstance(motion, Sampled):
        motion = motion.motion(rate)
    elif rate != 200.0:
        what = "{option} samples an excitation; a Motion has its own samples"
        raise IdentificationError("option_not_applicable", what, option=Option("rate"))
    known = read_controller(controller, robot)
    if any(known.unknown(j) for j in range(robot.n)) or set(known.kind) != {"position"}:
        raise IdentificationError(
            "controller_not_simulated", "recordings are simulated of position controllers with known gains",
            "give kind = 'position', kp and kd",
        )  # fmt: skip
    nominal = Drives.nominal(robot, known)
    given = {"armature": armature, "damping": damping, "frictionloss": frictionloss}
    new = {key: np.broadcast_to(np.asarray(x, dtype=np.float64), (robot.n,)).copy()
           for key, x in given.items() if x is not None}  # fmt: skip
    drives = replace(nominal, delay=delay, **new)  # type: ignore[arg-type]
    still = CommandedMotion("simulated", motion.t, motion.q, None, {"q_cmd": motion.q})
    length = float(motion.t[-1] - motion.t[0])
    windows = Windows([still], known, length, 10.0, whole=True)
    q = simulator.rollout(drives, windows)[0][: len(motion.t)]
    if bits is not None:
        step = 2.0 * np.pi / 2**bits
        zero = np.random.default_rng(seed).uniform(0.0, step, robot.n)
        q = np.floor((q + zero) / step) * step - zero + 0.5 * step
    columns = {"t": motion.t[: len(q)]}
    for name, block in (("q", q), ("q_cmd", motion.q[: len(q)])):
        columns |= {f"{name}{j + 1}": np.ascontiguousarray(x) for j, x in enumerate(block.T)}
    return columns
