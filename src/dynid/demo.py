"""The main job on one robot, simulated: what can be known, a motion that shows it, a recording, parameters, a URDF."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dynid.dynamics.friction import PLAIN
from dynid.errors import DynidError, ExportError
from dynid.estimation.identification import Identification
from dynid.estimation.identify import identify
from dynid.excitation.design import design_excitation
from dynid.excitation.excitation import Excitation
from dynid.exports.export import export
from dynid.identifiability.base_parameters import base_parameters
from dynid.logs.log import Log
from dynid.logs.simulate import simulate
from dynid.messages import Message, Wording
from dynid.physical.find import physical_parameters
from dynid.physical.parameters import PhysicalParameters
from dynid.report.excitation import write_page
from dynid.report.write import write_result_page
from dynid.robot.inertia import Body, from_body, pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text

# The recording of the demo: MuJoCo as the robot, tracked in closed loop, where it is installed; else inverse dynamics.
#
# MuJoCo holds a torque for a step of RK4; what is recorded belongs to the mean of the holds before and after the
# instant. Its dry friction is a soft constraint, here as hard as the step allows; constant torques of the drives,
# which it does not have, are added to what is recorded.


RATE = 500.0
STEPS = 4
"""Of the simulator per sample that is recorded."""

ENCODER = 2e-5
"""Deviation of recorded positions, rad."""

TORQUE_NOISE = 0.02
"""Deviation of recorded torques, as a share of their own."""

STIFFNESS, DAMPING = 2000.0, 70.0
"""Gains of the controller per inertia, 1/s^2 and 1/s."""


def simulate_recording(real: Robot, excitation: Excitation, seed: int) -> tuple[Log, str]:
    """Simulate the recording of a motion, positions and torques with noise; return log and simulator's name."""
    try:
        t, q, tau = _simulate_in_mujoco(real, excitation.motion(RATE * STEPS))
        by = "MuJoCo, tracked by a controller"
    except DynidError:
        log = simulate(real, excitation.motion(RATE))
        assert log.tau is not None
        t, q, tau, by = log.t, log.q, log.tau, "inverse dynamics"
    rng = np.random.default_rng(seed)
    q = q + ENCODER * rng.standard_normal(q.shape)
    tau = tau + TORQUE_NOISE * tau.std(axis=0) * rng.standard_normal(tau.shape)
    return Log(t, q, tau=tau, name=f"simulated {real.name}"), by


def _simulate_in_mujoco(real: Robot, path: Motion) -> tuple[Array, Array, Array]:
    """Times, positions and torques of a simulation in MuJoCo; DynidError where it cannot simulate the robot."""
    if find_spec("mujoco") is None:
        raise DynidError("needs_extra_package", "MuJoCo is not installed")
    import mujoco

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.xml"
        export(real, file)
        model = mujoco.MjModel.from_xml_path(str(file))
    step = 1.0 / (RATE * STEPS)
    model.opt.timestep, model.opt.integrator = step, mujoco.mjtIntegrator.mjINT_RK4
    model.dof_solref[:], model.dof_solimp[:] = (2.0 * step, 1.0), (0.95, 0.99, 1e-3, 0.5, 2.0)
    at = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in real.joint_names]
    if model.nv != real.n or min(at) < 0:
        raise DynidError("joint_names_mismatch", "MuJoCo has other joints")
    order = np.array([model.jnt_dofadr[k] for k in at])
    q, tau = _simulate_tracking(mujoco, model, path, order)
    offsets = np.array([dict(real.links[k].friction).get("offset", 0.0) for k in real.active_links])
    some = slice(None, None, STEPS)
    return path.t[some], q[some], tau[some] + offsets


def _simulate_tracking(mujoco: Any, model: Any, path: Motion, order: Array) -> tuple[Array, Array]:
    """Positions, and mean torques around each instant, of MuJoCo tracking a path by feed-forward and feedback."""
    real, thought = mujoco.MjData(model), mujoco.MjData(model)
    N, n = path.q.shape
    real.qpos[order], real.qvel[order] = path.q[0], path.v[0]
    mujoco.mj_forward(model, real)
    inertia = np.empty((n, n))
    mujoco.mj_fullM(model, real, inertia)
    size = np.diag(inertia)[order]
    q, held = np.empty((N, n)), np.empty((N, n))
    for k in range(N):
        thought.qpos[order], thought.qvel[order], thought.qacc[order] = path.q[k], path.v[k], path.a[k]
        mujoco.mj_inverse(model, thought)
        q[k] = real.qpos[order]
        back = STIFFNESS * (path.q[k] - q[k]) + DAMPING * (path.v[k] - real.qvel[order])
        held[k] = thought.qfrc_inverse[order] + size * back
        real.qfrc_applied[order] = held[k]
        mujoco.mj_step(model, real)
    if not np.abs(q - path.q).max() < 0.1:
        raise DynidError("simulation_does_not_follow", "the simulated robot does not follow")
    tau = held.copy()
    tau[1:] = 0.5 * (held[1:] + held[:-1])
    return q, tau


TRUST = {"good": " (trust it)", "usable": " (trust it with care)", "weak": "", "do not trust": ""}


class MainJob:
    """The main job on one robot, its files in a folder; `facts` and `summary` fill up while it runs.

    failures: why files could not be written; the others are written all the same.
    """

    def __init__(self, robot: Robot, folder: Path, *, seed: int = 0) -> None:
        self.robot, self.folder, self.seed = robot, folder, seed
        self.facts: dict[str, object] = {"robot": robot.name, "joints": robot.n, "seed": seed}
        self.summary: list[tuple[str, str]] = []
        self.warnings: tuple[Message, ...] = ()
        self.failures: list[Message] = []

    def run(self) -> Iterator[tuple[float, str]]:
        """Run all steps; yield the share that is done, and what is done now or was found."""
        _make_folder(self.folder)
        yield 0.0, self._find_base_parameters()
        real, said = robot_to_simulate(self.robot, seed=self.seed)
        self.robot = replace(self.robot, published=real.published)  # invented bodies are not the published ones
        bounds, assumed = assumed_limits(self.robot)
        yield from ((0.05, line) for line in (*said, *assumed))
        yield 0.05, "designing an exciting motion and another one to check with"
        motion, other = self._design_motions(bounds)
        yield 0.5, "running both on a simulated robot with noisy sensors"
        log, second = self._simulate_recordings(real, motion, other)
        yield 0.6, "identifying from the first recording, checking on the second"
        result = self._identify(real, log, second)
        yield 0.8, "finding bodies, writing the URDF and the report"
        bodies = self._find_bodies(result, real)
        self._add_verdict(result, bodies)
        self._write_report_and_model(result, log, second, bodies, real)

    def _file_path(self, name: str) -> Path:
        """Path of a file in the folder of the job."""
        return self.folder / name

    def _write_file(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file of the job; a failure is kept for the end."""
        try:
            write(self._file_path(name))
        except DynidError as error:
            self.failures.append(error.message)

    def _find_base_parameters(self) -> str:
        """Find the base parameters, add them to the summary, and return a line on them."""
        base = base_parameters(self.robot)
        self.facts |= {"base_parameters": base.count, "standard_parameters": len(base.columns)}
        self.summary.append(
            (
                "robot",
                f"{self.robot.name}, {self.robot.n} joints: {base.count} of {len(base.columns)} parameters can be "
                f"known, alone or in sums; {len(base.no_effect)} have no effect",
            )
        )
        return f"{self.robot.name}: base parameters: {base.count} of {len(base.columns)}, such as {base.relations[0]}"

    def _design_motions(self, bounds: Mapping[str, object]) -> tuple[Excitation, Excitation]:
        """Design a motion to identify with and another one to validate with."""
        found = design_excitation(self.robot, limits=bounds, starts=4, seed=self.seed)
        other = design_excitation(self.robot, limits=bounds, starts=1, seed=self.seed + 7)
        self._write_file("motion.csv", found.save)
        self.facts |= {"condition": found.condition, "margin": found.margin}
        self.summary.append(
            (
                "motion",
                f"{found.duration:.1f} s from rest to rest, condition {found.condition:.1f}; torques are predicted "
                f"{math.sqrt(found.first_value / found.value):.1f} times as well as after a random motion; "
                f"{100 * found.margin:.3g} % of every limit is left unused",
            )
        )
        return found, other

    def _simulate_recordings(self, real: Robot, motion: Excitation, other: Excitation) -> tuple[Log, Log]:
        """Simulate recordings of both motions, as sensors see them."""
        log, by = simulate_recording(real, motion, self.seed + 1)
        second, _ = simulate_recording(real, other, self.seed + 2)
        assert log.tau is not None
        noise = TORQUE_NOISE * log.tau.std(axis=0)
        self._write_file("motion.html", lambda path: write_page(motion, path, noise=noise))
        self._write_file("log.csv", lambda path: write_log(log, path))
        self.facts |= {"simulator": by, "samples": len(log)}
        self.summary.append(
            (
                "recording",
                f"simulated ({by}), {len(log)} samples at {RATE:.0f} Hz; noise {1e6 * ENCODER:.0f} urad and "
                f"{100 * TORQUE_NOISE:.0f} % of the torques; no velocities, no accelerations",
            )
        )
        return log, second

    def _identify(self, real: Robot, log: Log, second: Log) -> Identification:
        """Identify from one log, validate on the other, and compare with what was simulated."""
        result = identify(self.robot, log, validate=second)
        self._write_file("result.json", result.save)
        base = result.equation.base
        true = dict(zip(base.names, base.values(real.parameters), strict=True))
        inside = [
            bool(low <= true[name] <= high)
            for name, (low, high) in zip(result.names, result.intervals, strict=True)
            if name in true
        ]
        self.facts |= {
            "inside": sum(inside), "compared": len(inside), "validation_nrmse": result.validation.mean,
        }  # fmt: skip
        self.summary += [
            (
                "parameters",
                f"{result.base_rank}, and friction ({', '.join(result.friction) or 'none'}); {sum(inside)} of "
                f"{len(inside)} true values lie inside the 95 % intervals",
            ),
            (
                "validation",
                f"a motion not used is predicted with {_percent_text(result.validation.mean)} error on average",
            ),
        ]
        return result

    def _find_bodies(self, result: Identification, real: Robot) -> PhysicalParameters:
        """Find bodies that fit, and write the robot with them for simulators."""
        mass = sum(float(link.inertia[9]) for link in real.links)
        bodies = physical_parameters(result, total_mass=mass)
        self._write_file("physical.json", bodies.save)
        before, after = float(bodies.nrmse_before.mean()), float(bodies.nrmse_after.mean())
        self.facts |= {"error_of_parameters": before, "error_of_bodies": after}
        self.summary.append(
            (
                "bodies",
                f"every link is physically possible, {mass:.1f} kg together as a scale would show; error "
                f"{_percent_text(before)} before, {_percent_text(after)} after",
            )
        )
        return bodies

    def _add_verdict(self, result: Identification, bodies: PhysicalParameters) -> None:
        """Add to the summary whether to trust the result, and what to do next."""
        self.facts |= {"verdict": result.verdict.level, "reasons": list(result.verdict.reasons)}
        self.warnings = (*result.warnings, *bodies.warnings)
        self.summary += [
            ("verdict", f"{result.verdict}{TRUST[result.verdict.level]}"),
            ("next", "on your own robot: dynid excite ROBOT --out traj.csv, run it, dynid identify ROBOT log.csv"),
        ]

    def _write_report_and_model(
        self, result: Identification, log: Log, second: Log, bodies: PhysicalParameters, real: Robot
    ) -> None:
        """Write the report and the model, and add all files to the summary."""
        report = self._file_path("report.html")
        inputs = [file for file in [self._file_path("log.csv")] if file.is_file()]
        self._write_file("report.html", lambda path: write_result_page(
            result, path, logs=log, validate=second, physical=bodies, command="dynid demo", inputs=inputs, truth=real
        ))  # fmt: skip
        model, said = self._export(bodies)
        self.facts |= {"report": str(report), "model": None if model is None else str(model)}
        others = ("motion.html", "motion.csv", "log.csv", "result.json", "physical.json")
        self.summary += [
            ("report", f"{report} (next to it: {', '.join(others)})"),
            ("model", said if model is None else f"{model}: {said}"),
        ]

    def _export(self, bodies: PhysicalParameters) -> tuple[Path | None, str]:
        """Write a URDF, or an MJCF file where a URDF cannot hold the robot; return path and verification."""
        reasons: list[str] = []
        for name in ("robot.urdf", "robot.xml"):
            try:
                done = export(bodies, self._file_path(name))
            except ExportError as error:
                reasons.append(str(error))
            except DynidError as error:
                reasons.append(str(error))
                self.failures.append(error.message)
            else:
                return done.path, str(done.verification)
        return None, f"no model for simulators was written: {reasons[-1]}"


def _make_folder(folder: Path) -> None:
    """Create the folder; DynidError, before the work, where files cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DynidError(
            "folder_not_creatable", "{out}: cannot make this folder ({reason})", "choose another",
            out=Wording(str(folder), f"--out {folder}"), folder=folder, reason=error.strerror,
        ) from error  # fmt: skip
    if not os.access(folder, os.W_OK):
        raise DynidError(
            "folder_unwritable", "{out}: no permission to write there", "choose another folder",
            out=Wording(str(folder), f"--out {folder}"), folder=folder,
        )  # fmt: skip


def _percent_text(share: float) -> str:
    """A share in percent, two digits."""
    return f"{100.0 * share:.2g} %"


def robot_to_simulate(robot: Robot, *, seed: int = 0) -> tuple[Robot, list[str]]:
    """Robot to simulate: nominal values, or invented bodies where there are none, some friction; and lines on it."""
    rng = np.random.default_rng(seed)
    said = []
    X = robot.parameters.copy()
    real = all(_is_possible_body(link.inertia) for link in robot.links)
    if np.isnan(X).any() or not real:
        names = robot.parameter_names
        places = {name: k for k, name in enumerate(names)}
        for k, link in enumerate(robot.links):
            first = places[link.parameter("XX")]
            X[first : first + 10] = _random_body(rng, 8.0 * 0.7**k)
        X = np.where(np.isnan(X), 0.1, X)
        X[[places[name] for name in robot.known_zeros]] = 0.0
        what = "physically impossible values" if np.isfinite(robot.parameters).all() else "no masses"
        said.append(f"its table has {what}: solid bodies were invented for this demo")
    links = [
        replace(link, friction=link.friction or _random_friction(link.kind, rng)) if k in robot.active_links else link
        for k, link in enumerate(robot.with_parameters(X).links)
    ]
    return replace(robot, links=tuple(links), published=None if said else robot.published), said


def _random_friction(kind: str, rng: np.random.Generator) -> tuple[tuple[str, float], ...]:
    """Random viscous and Coulomb friction, with an offset except along a slide, where a weight looks alike."""
    values = zip(PLAIN, rng.uniform(0.5, 2.0, 3).tolist(), strict=True)
    return tuple((name, x) for name, x in values if name != "offset" or kind == "revolute")


def _is_possible_body(inertia: Array) -> bool:
    """Whether ten parameters are those of a body."""
    P = pseudo_inertia(inertia)
    return bool(np.isfinite(P).all() and np.linalg.eigvalsh(P)[0] > 0.0)


def _random_body(rng: np.random.Generator, mass: float) -> np.ndarray:
    """Ten parameters of a random solid ellipsoid near the frame."""
    a, b, c = rng.uniform(0.05, 0.2, 3)
    inertia = mass / 5.0 * np.diag([b**2 + c**2, a**2 + c**2, a**2 + b**2])
    return np.asarray(from_body(Body(mass, rng.uniform(-0.15, 0.15, 3), inertia)))


def assumed_limits(robot: Robot) -> tuple[dict[str, object], list[str]]:
    """Limits of the robot, usual ones where none are published, and a line on these."""
    limits = robot.limits
    velocity, acceleration = np.array(limits.velocity), np.array(limits.acceleration)
    assumed = []
    for values, name, usual in ((velocity, "velocity", 1.5), (acceleration, "acceleration", 5.0)):
        if not np.isfinite(values).all():
            values[~np.isfinite(values)] = usual
            assumed.append(f"{name} {usual:g}")
    said = [f"no limits were published for some joints; assumed for this demo: {', '.join(assumed)} (rad, s)"]
    bounds: dict[str, object] = {
        "position": limits.position,
        "velocity": velocity,
        "acceleration": acceleration,
        "effort": limits.effort,
    }
    return bounds, said if assumed else []


def write_log(log: Log, path: Path) -> None:
    """Write t, q and tau as CSV."""
    assert log.tau is not None
    n = log.q.shape[1]
    names = ["t", *(f"q{j}" for j in range(1, n + 1)), *(f"tau{j}" for j in range(1, n + 1))]
    rows = np.column_stack([log.t, log.q, log.tau])
    lines = [",".join(names), *(",".join(f"{x:.9g}" for x in row) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")
