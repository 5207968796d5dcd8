"""Loading an exported file with other software, and comparing its torques with the model's."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.dynamics.scene import Stage, standard_columns
from dynid.errors import ExportError
from dynid.exports.c_code import FUNCTIONS, c_name_prefix
from dynid.exports.robot_json import read_robot_json
from dynid.exports.subject import ExportSubject, make_export_subject
from dynid.identifiability.samples import random_samples
from dynid.messages import Option
from dynid.robot.io.xml import unique_names
from dynid.robot.load import load_robot
from dynid.robot.locking import lock_loaded_robot
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Exported C code, compiled and called: the proof that it gives the model's torques.


FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-fPIC", "-shared")

_PATIENCE = 300.0
"""Seconds that a compiler may take."""


def find_compiler() -> str:
    """Path of gcc or cc; FileNotFoundError where there is none."""
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        raise FileNotFoundError("gcc")
    return found


def torques_of_c_code(path: Path, robot: Robot, motion: Motion, shown: Path | None = None) -> dict[str, Array]:
    """Torques (N, n) of every function of the file along a motion; shown: the name of the file in errors."""
    shown = shown or path
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "robot.so"
        command = [find_compiler(), *FLAGS, "-o", str(library), "-x", "c", "-", "-lm"]
        try:
            text = path.read_text(encoding="utf-8")
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise ExportError(
                "compiler_timeout", "{path}: the compiler has not finished in {seconds:.0f} s", path=shown,
                seconds=_PATIENCE,
            ) from error  # fmt: skip
        if done.returncode != 0:
            raise ExportError(
                "export_does_not_compile", "{path} does not compile: {reason}", path=shown,
                reason=done.stderr.strip().splitlines()[0],
            )  # fmt: skip
        code = ctypes.CDLL(str(library))
    prefix = c_name_prefix(robot.name)
    X = ctypes.addressof(ctypes.c_double.in_dll(code, f"{prefix}_base_parameters"))
    torques = {}
    for name in FUNCTIONS:
        call = getattr(code, f"{prefix}_{name}")
        call.restype = None
        tau = np.zeros((len(motion), robot.n))
        arrays = {
            "inverse_dynamics": (motion.q, motion.v, motion.a),
            "regressor_times": (motion.q, motion.v, motion.a),
            "gravity": (motion.q,),
            "friction": (motion.q, motion.v),
        }[name]
        rows = [np.ascontiguousarray(x) for x in arrays]
        for n in range(len(motion)):
            more = [X] if name == "regressor_times" else []
            call(*(ctypes.c_void_p(p) for p in (*(row[n].ctypes.data for row in rows), *more, tau[n].ctypes.data)))
        torques[name] = tau
    return torques


TOLERANCE = 1e-9
SAMPLES = 20

_URDF_REMARK = " (rotor inertias added, without friction)"


@dataclass(frozen=True, slots=True)
class Verification:
    """What a file's torques are worth: largest difference over each joint's largest torque.

    error is NaN where the file could not be loaded for want of the software; `skipped` says which. remark: what was
    added to the file's torques, or left out of the model's.
    """

    reader: str
    error: float
    skipped: str = ""
    remark: str = ""

    @property
    def passed(self) -> bool:
        """Whether the torques agree to 1e-9."""
        return self.error <= TOLERANCE

    def __str__(self) -> str:
        if self.skipped:
            return f"not verified: {self.skipped}"
        word = "verified" if self.passed else "NOT the same model"
        return f"{word}: loaded again with {self.reader}, torques differ by {self.error:.1e} of their size{self.remark}"


@one_blas_thread
def verify(path: str | Path, result: Any, *, lock: Mapping[str, float] | None = None) -> Verification:
    """Load the file again and compare torques at random states with those of a result or robot.

    lock: joints of a URDF that the robot holds at a position, where it does not know (`robot.locks`).
    """
    subject = make_export_subject(result)
    known = subject.robot.locks if Path(path).suffix.lower() == ".urdf" else {}
    return verify_named_file(Path(path), Path(path), subject, lock or known)


def verify_named_file(
    shown: Path, path: Path, subject: ExportSubject, lock: Mapping[str, float] | None
) -> Verification:
    """Verify a file that has another name in errors: where it will be."""
    if lock and path.suffix.lower() != ".urdf":
        raise ExportError(
            "lock_not_applicable", "{path}: {lock} is for the joints of a URDF", path=shown, lock=Option("lock"),
        )  # fmt: skip
    motion = random_states(subject.robot, SAMPLES)
    checks: dict[str, Callable[[Path, ExportSubject, Motion], Verification]] = {
        ".urdf": partial(_verify_by_pinocchio, lock=lock or {}, shown=shown),
        ".xml": partial(_verify_by_mujoco, shown=shown),
        ".c": partial(_verify_by_compiler, shown=shown),
        ".toml": _verify_by_dynid,
        ".json": _verify_by_dynid,
    }
    if path.suffix.lower() not in checks:
        raise ExportError(
            "unsupported_suffix", "{path}: nothing is known of files that end in '{suffix}'", path=shown,
            suffix=path.suffix,
        )  # fmt: skip
    return checks[path.suffix.lower()](path, subject, motion)


def largest_relative_difference(theirs: Array, ours: Array) -> float:
    """Largest difference over each joint's largest torque, at least a millionth of the largest of all."""
    size = np.abs(ours).max(axis=0)
    floor = 1e-6 * float(size.max()) or 1.0
    return float((np.abs(theirs - ours) / np.maximum(size, floor)).max())


def _verify_by_dynid(path: Path, subject: ExportSubject, motion: Motion) -> Verification:
    """Load a TOML or JSON file by dynid itself and compare its torques."""
    robot = read_robot_json(path) if path.suffix.lower() == ".json" else load_robot(path, snap=False)
    again = make_export_subject(robot)
    ours = subject.rigid_torques(motion) + make_export_subject(subject.robot).friction.torques(motion)
    return Verification(
        "dynid", largest_relative_difference(again.rigid_torques(motion) + again.friction.torques(motion), ours)
    )


def _verify_by_compiler(path: Path, subject: ExportSubject, motion: Motion, *, shown: Path) -> Verification:
    """Compile a C file and compare its torques."""
    try:
        theirs = torques_of_c_code(path, subject.robot, motion, shown)
    except FileNotFoundError:
        return Verification("gcc", np.nan, "there is no C compiler (gcc or cc) here")
    ours, friction = subject.rigid_torques(motion), subject.friction.torques(motion)
    still = Motion(motion.t, motion.q, 0.0 * motion.v, 0.0 * motion.a)
    pairs = (
        (theirs["inverse_dynamics"], ours),
        (theirs["regressor_times"], ours),
        (theirs["gravity"], subject.rigid_torques(still)),
        (theirs["friction"], friction),
    )
    scale = np.abs(ours + friction).max(axis=0)
    error = max(float((np.abs(a - b) / np.maximum(scale, 1e-6 * scale.max() or 1.0)).max()) for a, b in pairs)
    return Verification("gcc", error)


def _verify_by_pinocchio(
    path: Path, subject: ExportSubject, motion: Motion, *, lock: Mapping[str, float], shown: Path
) -> Verification:
    """Pinocchio reads the file as it is; if that fails, with its almost right angles snapped as dynid does."""
    import pinocchio as pin

    robot = subject.robot
    ours = subject.rigid_torques(motion)
    try:
        model = pin.buildModelFromUrdf(str(path))
    except (ValueError, RuntimeError) as failure:
        raise ExportError(
            "pinocchio_cannot_load", "{path}: pinocchio finds no valid URDF in it", path=shown,
        ) from failure  # fmt: skip
    theirs = _pinocchio_torques(pin, model, robot, motion, lock)
    error = largest_relative_difference(theirs, ours)
    if error <= TOLERANCE:
        return Verification("pinocchio", error, remark=_URDF_REMARK)
    as_read, snapped = (_torques_of_urdf(path, robot, motion, lock, snap=snap) for snap in (False, True))
    if as_read is not None and snapped is not None and largest_relative_difference(as_read, theirs) <= TOLERANCE:
        if (again := largest_relative_difference(snapped, ours)) <= TOLERANCE:
            return Verification("pinocchio, almost right angles taken for right", again, remark=_URDF_REMARK)
    return Verification("pinocchio", error, remark=_URDF_REMARK)


def _torques_of_urdf(
    path: Path, robot: Robot, motion: Motion, lock: Mapping[str, float], *, snap: bool
) -> Array | None:
    """Torques of a URDF as it is read here, rotors added; None where it has other joints."""
    read = load_robot(path, gravity=robot.gravity, snap=snap)
    read = lock_loaded_robot(read, {name: x for name, x in lock.items() if name in read.joint_names})
    if set(read.joint_names) != set(robot.joint_names):
        return None
    order = [read.joint_names.index(name) for name in robot.joint_names]
    back = np.argsort(order)
    turned = Motion(motion.t, motion.q[:, back], motion.v[:, back], motion.a[:, back])
    return np.asarray(make_export_subject(read).rigid_torques(turned)[:, order] + _rotor_inertias(robot) * motion.a)


def _rotor_inertias(robot: Robot) -> Array:
    """Rotor inertias of the active joints."""
    return np.array([robot.links[k].rotor for k in robot.active_links])


def _pinocchio_torques(pin: Any, model: Any, robot: Robot, motion: Motion, lock: Mapping[str, float]) -> Array:
    """Torques of the tree, projected to the active joints, rotors added: a URDF has none."""
    model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
    data, state = model.createData(), TreeState.of(robot, motion)
    names = unique_names(link.joint for link in robot.links)
    tau = np.empty_like(state.q)
    missing = [names[k] for k in robot.tree_joints if not model.existJointName(names[k])]
    if missing:
        raise ExportError("exported_joint_missing", "the file has no joint '{joint}'", joint=missing[0])
    places = {name: model.joints[model.getJointId(name)] for name in (names[k] for k in robot.tree_joints)}
    held = {name: x for name, x in lock.items() if model.existJointName(name)}
    for n in range(len(motion)):
        q, v, a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for name, x in held.items():
            _set_pinocchio_position(q, model.joints[model.getJointId(name)], x)
        for i, joint in enumerate(places.values()):
            _set_pinocchio_position(q, joint, state.q[n, i])
            v[joint.idx_v], a[joint.idx_v] = state.v[n, i], state.a[n, i]
        tau[n] = pin.rnea(model, data, q, v, a)[[joint.idx_v for joint in places.values()]]
    return state.project_torques(tau) + _rotor_inertias(robot) * motion.a


def _set_pinocchio_position(q: Array, joint: Any, x: float) -> None:
    """Set a position; joints that turn without end have its cosine and sine."""
    q[joint.idx_q : joint.idx_q + joint.nq] = (np.cos(x), np.sin(x)) if joint.nq == 2 else x


def _verify_by_mujoco(path: Path, subject: ExportSubject, motion: Motion, *, shown: Path) -> Verification:
    """MuJoCo's inverse dynamics, without constraints; dry friction is compared as a number."""
    try:
        import mujoco
    except ImportError:
        return Verification("MuJoCo", np.nan, "MuJoCo is not installed (pip install mujoco)")
    robot = subject.robot
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ExportError(
            "mujoco_cannot_load", "{path}: MuJoCo cannot load it: {reason}", path=shown,
            reason=error,
        ) from error  # fmt: skip
    data, state = mujoco.MjData(model), TreeState.of(robot, motion)
    joints = unique_names(link.joint for link in robot.links)
    names = [joints[k] for k in robot.tree_joints]
    ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in names]
    if -1 in ids:
        raise ExportError("exported_joint_missing", "the file has no joint '{joint}'", joint=names[ids.index(-1)])
    at_q, at_v = model.jnt_qposadr[ids], model.jnt_dofadr[ids]
    apart = 0.0
    tied = len(robot.couplings) + 3 * len(robot.closures)
    for q in state.q if tied else ():
        data.qpos[at_q] = q
        mujoco.mj_forward(model, data)
        apart = max(apart, float(np.abs(data.efc_pos[: data.ne]).max(initial=0.0)))
        if data.ne != tied:
            raise ExportError(
                "exported_constraints_mismatch", "{path}: MuJoCo finds {rows} rows of couplings and loops in place of "
                "{expected}", path=shown, rows=data.ne, expected=tied,
            )  # fmt: skip
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    tau = np.empty_like(state.q)
    for n in range(len(motion)):
        data.qpos[at_q], data.qvel[at_v], data.qacc[at_v] = state.q[n], state.v[n], state.a[n]
        mujoco.mj_inverse(model, data)
        tau[n] = data.qfrc_inverse[at_v]
    active = [i for i, k in enumerate(robot.tree_joints) if k in robot.active_links]
    friction = [dict(robot.links[k].friction) for k in robot.active_links]
    viscous, coulomb = (np.array([max(f.get(key, 0.0), 0.0) for f in friction]) for key in ("viscous", "coulomb"))
    ours = subject.rigid_torques(motion) + viscous * motion.v
    dry = np.abs(model.dof_frictionloss[at_v][active] - coulomb).max(initial=0.0)
    return Verification(
        "MuJoCo",
        max(largest_relative_difference(state.project_torques(tau), ours), float(dry), apart),
        remark=" (with viscous friction)",
    )


# The joints of the tree, passive ones included, along motions of the active ones.


@dataclass(frozen=True, eq=False)
class TreeState:
    """Arrays (N, joints of the tree), and G (N, joints of the tree, n), by which torques are projected."""

    q: Array
    v: Array
    a: Array
    G: Array

    @staticmethod
    def of(robot: Robot, motion: Motion) -> TreeState:
        """State of all joints along a motion of the active ones, loops closed."""
        scene = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=True)).scene_along(motion)
        G = np.broadcast_to(np.eye(robot.n), (len(motion), robot.n, robot.n)) if scene.tree is None else scene.tree.G
        return TreeState(scene.q, scene.v, scene.a, np.asarray(G))

    def project_torques(self, tau: Array) -> Array:
        """Torques (N, n) of the active joints from those of the tree."""
        return np.asarray(np.einsum("Nij,Ni->Nj", self.G, tau))


def random_states(robot: Robot, samples: int) -> Motion:
    """Random states: anywhere for trees, on the given assembly mode for loops, which cannot close everywhere."""
    rng = np.random.default_rng(0)
    q, v, a = (rng.standard_normal((samples, robot.n)) for _ in range(3))
    if robot.closures:
        q = random_samples(robot, samples, 0).q
    return Motion(np.arange(float(samples)), q, v, a)
