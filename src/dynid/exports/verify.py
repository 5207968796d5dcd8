"""Loading an exported file with other software, and comparing its torques with the model's."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.dynamics.friction import STILL
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.dynamics.scene import Stage, standard_columns
from dynid.errors import DynidError, ExportError
from dynid.estimation.solve.sequential import Sequential
from dynid.exports.c_code import FUNCTIONS, c_name_prefix, places_of_entries
from dynid.exports.subject import ExportSubject, make_export_subject, read_robot_json, with_plain_friction
from dynid.identifiability.numeric import random_samples
from dynid.messages import Message, Option
from dynid.robot.io.xml import unique_names
from dynid.robot.load import load_robot, lock_loaded_robot
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


def compile_c_code(path: Path, shown: Path) -> ctypes.CDLL:
    """Compile a C file and load it; shown: its name in errors."""
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
        return ctypes.CDLL(str(library))


def friction_steps_of_c_code(
    path: Path, subject: ExportSubject, motion: Motion, stops: Array, shown: Path | None = None
) -> Array:
    """Friction (N, n) of the function with a memory along a motion; stops (w, n): its state at the first sample."""
    code, prefix, n = compile_c_code(path, shown or path), c_name_prefix(subject.robot.name), subject.robot.n

    class State(ctypes.Structure):
        _fields_ = (
            ("q", ctypes.c_double * n),
            ("stop", ctypes.c_double * (n * max(1, len(stops)))),
            ("sign", ctypes.c_double * n),
            ("started", ctypes.c_int),
        )

    state, tau = State(), np.zeros((len(motion), n))
    getattr(code, f"{prefix}_friction_reset")(ctypes.byref(state))
    for k, x in enumerate(np.ravel(stops)):
        state.stop[k] = x
    step = getattr(code, f"{prefix}_friction_step")
    step.restype = None
    rows = [np.ascontiguousarray(x) for x in (motion.q, motion.v, motion.a)]
    for k in range(len(motion)):
        inputs = [ctypes.c_void_p(row[k].ctypes.data) for row in rows]
        dt = ctypes.c_double(motion.t[k] - motion.t[k - 1] if k else 0.0)
        step(ctypes.byref(state), *inputs, dt, ctypes.c_void_p(tau[k].ctypes.data))
    return tau


def torques_of_c_code(path: Path, robot: Robot, motion: Motion, shown: Path | None = None) -> dict[str, Array]:
    """Torques (N, n) of every function of the file along a motion; shown: the name of the file in errors."""
    code = compile_c_code(path, shown or path)
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


class SequentialInC:
    """Compiled C code of a `Sequential`, fed as that is: state (doubles), whose first are the factors of all channels.

    `update` returns whether the sample was taken; `solve` and `solve_joint_by_joint` the values, None where the
    samples do not tell them.
    """

    def __init__(self, path: Path, tracker: Sequential, shown: Path | None = None) -> None:
        code, prefix = compile_c_code(path, shown or path), f"{c_name_prefix(tracker.robot.name)}_sequential"
        size = ctypes.c_ulong.in_dll(code, f"{prefix}_size").value
        self.tracker, self.state = tracker, np.zeros(size // 8 + 1)
        self._functions = {
            name: getattr(code, f"{prefix}_{name}", None)
            for name in ("reset", "update", "solve", "solve_joint_by_joint")
        }
        self._call("reset")

    def _call(self, name: str, *arguments: Any) -> int:
        """Call a function on the state."""
        function = self._functions[name]
        assert function is not None
        return int(function(ctypes.c_void_p(self.state.ctypes.data), *arguments))

    @property
    def factors(self) -> Array:
        """Triangular factors of all channels, one after the other."""
        return self.state[: self.tracker.corner[-1]]

    def difference(self, tracker: Sequential) -> float:
        """Largest difference of the normal equations R'R from a `Sequential`'s, relative to the columns' norms.

        R itself is not unique where columns depend on each other. The norm of a column is the largest of all channels.
        """
        entries, sides = places_of_entries(tracker), []
        norm = np.zeros(len(tracker.names) + 1)
        corners = pairwise(tracker.corner.tolist())
        for (at, past), (first, last) in zip(pairwise(tracker.start.tolist()), corners, strict=True):
            shape, places = (past - at, past - at), entries[at:past]
            own, other = (x[first:last].reshape(shape) for x in (self.factors, tracker.packed_factors))
            np.maximum.at(norm, places, np.linalg.norm(other, axis=0))
            sides.append((places, np.abs(own.T @ own - other.T @ other)))
        return max(float((error / (np.outer(norm[k], norm[k]) + 1e-300)).max()) for k, error in sides)

    def update(
        self, q: Array, v: Array, a: Array | None = None, tau: Array | None = None, *, t: float = 0.0,
        reaction: Array | None = None,
    ) -> bool:  # fmt: skip
        """Add one sample."""
        rows = [None if x is None else np.ascontiguousarray(x, dtype=np.float64) for x in (q, v, a, tau, reaction)]
        places = [ctypes.c_void_p(None if x is None else x.ctypes.data) for x in rows]
        return bool(self._call("update", ctypes.c_double(t), *places))

    def solve(self, noise: Array | None = None) -> Array | None:
        """Values of all channels together."""
        X = np.zeros(len(self.tracker.names))
        given = None if noise is None else np.ascontiguousarray(noise, dtype=np.float64)
        place = ctypes.c_void_p(None if given is None else given.ctypes.data)
        return None if self._call("solve", place, ctypes.c_void_p(X.ctypes.data)) else X

    def solve_joint_by_joint(self) -> Array | None:
        """Values of the last joint first."""
        X = np.zeros(len(self.tracker.names))
        return None if self._call("solve_joint_by_joint", ctypes.c_void_p(X.ctypes.data)) else X


def verify_sequential(path: Path, tracker: Sequential, shown: Path) -> Verification:
    """Compile the C code of a `Sequential` and compare its factors after random samples with those of Python."""
    try:
        code = SequentialInC(path, tracker, shown)
    except FileNotFoundError:
        return Verification("gcc", np.nan, "there is no C compiler (gcc or cc) here")
    twin, equation = tracker.without_samples(), tracker.equation
    samples = 2 * tracker.span + 8
    motion, rng = random_states(tracker.robot, samples), np.random.default_rng(0)
    tau = rng.standard_normal((samples, tracker.robot.n))
    reaction = rng.standard_normal((samples, len(equation.base_channels)))
    options = equation.options
    for k in range(samples):
        given = {"tau": tau[k]} if options.has_torques else {}
        given |= {"t": 0.01 * k} if options.is_integral else {"a": motion.a[k]}
        given |= {"reaction": reaction[k]} if options.has_reactions else {}
        twin.update(motion.q[k], motion.v[k], **given)
        code.update(motion.q[k], motion.v[k], **given)
    return Verification("gcc", code.difference(twin), what="normal equations")


TOLERANCE = 1e-9
SAMPLES = 20

_URDF_REMARK = " (rotor inertias added, without friction)"


@dataclass(frozen=True, slots=True)
class Verification:
    """Agreement of a file's torques with the model's.

    Attributes
    ----------
    reader : str
        Software that loaded the file.
    error : float
        Largest difference over each joint's largest torque; NaN if software to load the file is missing.
    skipped : str
        The software that is missing.
    remark : str
        What was added to the file's torques, or left out of the model's.
    what : str
        What is compared.
    """

    reader: str
    error: float
    skipped: str = ""
    remark: str = ""
    what: str = "torques"

    @property
    def passed(self) -> bool:
        """Whether they agree to 1e-9."""
        return self.error <= TOLERANCE

    def __str__(self) -> str:
        if self.skipped:
            return f"not verified: {self.skipped}"
        word = "verified" if self.passed else "NOT the same model"
        found = f"{self.what} differ by {self.error:.1e} of their size{self.remark}"
        return f"{word}: loaded again with {self.reader}, {found}"


@one_blas_thread
def verify(path: str | Path, result: Any, *, lock: Mapping[str, float] | None = None) -> Verification:
    """Load a file again and compare torques at random states with those of a result or robot.

    Parameters
    ----------
    path : str or Path
        The file.
    result : Identification, PhysicalParameters, Robot or Sequential
        What it should agree with.
    lock : mapping of str to float, optional
        Joints of a URDF that the robot holds, with their positions, rad or m. Default: `robot.locks`.

    Returns
    -------
    Verification
        The largest difference.

    Raises
    ------
    ExportError
        If the file cannot be loaded or is of another robot.

    Examples
    --------
    >>> from dynid import export, load_robot, verify
    >>> robot = load_robot("scara")
    >>> _ = export(robot, "arm.urdf")
    >>> verify("arm.urdf", robot).error < 1e-9
    True
    """
    subject, suffix = make_export_subject(result), Path(path).suffix.lower()
    subject = subject if suffix == ".c" else with_plain_friction(subject, suffix)[0]
    known = subject.robot.locks if suffix == ".urdf" else {}
    return verify_under_name(Path(path), Path(path), subject, lock or known)


def verify_under_name(
    shown: Path, path: Path, subject: ExportSubject, lock: Mapping[str, float] | None
) -> Verification:
    """Verify a file, which errors call by the name `shown` that it will have."""
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
            "unsupported_suffix", "{path}: files that end in '{suffix}' cannot be verified", path=shown,
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
    pairs = [
        (theirs["inverse_dynamics"], ours),
        (theirs["regressor_times"], ours),
        (theirs["gravity"], subject.rigid_torques(still)),
        (theirs["friction"], friction),
    ]
    scale = np.abs(ours + friction).max(axis=0)
    if subject.friction.has_memory:
        pairs.append(_friction_steps(path, subject, shown))
        scale = np.maximum(scale, np.abs(pairs[-1][1]).max(axis=0))
    error = max(float((np.abs(a - b) / np.maximum(scale, 1e-6 * scale.max() or 1.0)).max()) for a, b in pairs)
    return Verification("gcc", error)


def _friction_steps(path: Path, subject: ExportSubject, shown: Path) -> tuple[Array, Array]:
    """Friction with its memory by the C code and by the model, along motions with constant accelerations.

    There the acceleration at which the model finds rest, a mean over neighbours, is that of the sample: one half moves
    and turns back, in the other all joints rest.
    """
    friction, rng, n = subject.friction, np.random.default_rng(0), subject.robot.n
    t, found = 0.005 * np.arange(200.0), []
    for speed in (1.0, 0.005):
        v, a = speed * rng.standard_normal(n), 2.0 * speed * rng.standard_normal(n)
        q = random_states(subject.robot, 1).q + np.outer(t, v) + 0.5 * np.outer(t**2, a)
        motion = Motion(t, q, v + np.outer(t, a), a + 0.0 * q)
        rigid = np.zeros_like(q)
        if friction.rigid is not None:
            rigid = replace(subject, robot=subject.robot.with_parameters(friction.rigid)).rigid_torques(motion)
        stops = rng.uniform(-1.0, 1.0, friction.shapes.stop_widths.shape)
        theirs = friction_steps_of_c_code(path, subject, motion, stops, shown)
        found.append((theirs, friction.torques_with_memory(motion, rigid, stops)))
    return np.concatenate([x for x, _ in found]), np.concatenate([x for _, x in found])


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
            return Verification("pinocchio, nearly right angles rounded to right ones", again, remark=_URDF_REMARK)
    return Verification("pinocchio", error, remark=_URDF_REMARK)


def _torques_of_urdf(
    path: Path, robot: Robot, motion: Motion, lock: Mapping[str, float], *, snap: bool
) -> Array | None:
    """Torques (N, n) of a URDF by pinocchio, rotors added; None where it has other joints."""
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
    data, state = model.createData(), TreeState.along_motion(robot, motion)
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
    """Set a joint's position in pinocchio's q; joints without limits have its cosine and sine."""
    q[joint.idx_q : joint.idx_q + joint.nq] = (np.cos(x), np.sin(x)) if joint.nq == 2 else x


@dataclass(frozen=True, eq=False)
class _MujocoFile:
    """An MJCF file in MuJoCo: its model, and where it has the joints of the robot's tree."""

    mujoco: Any
    model: Any
    robot: Robot
    at_q: Any
    at_v: Any
    joints: list[int]

    @staticmethod
    def load(mujoco: Any, path: Path, robot: Robot, shown: Path) -> _MujocoFile:
        """Load an MJCF file by MuJoCo and find the robot's joints."""
        mujoco.set_mju_user_warning(lambda text: None)  # else it writes a MUJOCO_LOG.TXT wherever it is run
        try:
            model = mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            raise ExportError(
                "mujoco_cannot_load", "{path}: MuJoCo cannot load it: {reason}", path=shown,
                reason=error,
            ) from error  # fmt: skip
        finally:
            mujoco.set_mju_user_warning(None)
        names = unique_names(link.joint for link in robot.links)
        names = [names[k] for k in robot.tree_joints]
        ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in names]
        if -1 in ids:
            raise ExportError("exported_joint_missing", "the file has no joint '{joint}'", joint=names[ids.index(-1)])
        return _MujocoFile(mujoco, model, robot, model.jnt_qposadr[ids], model.jnt_dofadr[ids], ids)

    def torques(self, motion: Motion, *disabled: str) -> Array:
        """Torques (N, n) of MuJoCo's inverse dynamics, some parts disabled; other joints of the file do not move."""
        mujoco, model = self.mujoco, self.model
        data, state = mujoco.MjData(model), TreeState.along_motion(self.robot, motion)
        for name, x in self.robot.locks.items():
            if (number := mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)) >= 0:
                data.qpos[model.jnt_qposadr[number]] = x
        before = int(model.opt.disableflags)
        for name in disabled:
            model.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}")
        tau = np.empty_like(state.q)
        for n in range(len(motion)):
            data.qpos[self.at_q], data.qvel[self.at_v], data.qacc[self.at_v] = state.q[n], state.v[n], state.a[n]
            mujoco.mj_inverse(model, data)
            tau[n] = data.qfrc_inverse[self.at_v]
        model.opt.disableflags = before
        return state.project_torques(tau)

    def with_own_springs(self, subject: ExportSubject) -> ExportSubject:
        """Return the subject without constant torques for which the file has no spring: a template's own is there."""
        active = [i for i, k in enumerate(self.robot.tree_joints) if k in self.robot.active_links]
        theirs = np.asarray(self.model.jnt_stiffness).reshape(self.model.njnt, -1)[:, 0][self.joints][active]
        springs = 0.0 if subject.springs is None else subject.springs
        return subject.without_soft_springs(np.abs(theirs - springs) > 1e-9 * theirs)

    def drop_forces_outside_model(self, subject: ExportSubject) -> None:
        """Remove springs, gravity compensation and friction of passive joints that a template brings."""
        model, robot = self.model, self.robot
        held = {k for j, k in enumerate(robot.active_links) if subject.springs is not None and subject.springs[j] > 0.0}
        for k, joint in zip(robot.tree_joints, self.joints, strict=True):
            if k not in held:
                model.jnt_stiffness[joint] = 0.0
                if hasattr(model, "jnt_stiffnesspoly"):  # from MuJoCo 4 on
                    model.jnt_stiffnesspoly[joint] = 0.0
        model.body_gravcomp[:] = 0.0
        model.opt.density = model.opt.viscosity = 0.0
        model.tendon_stiffness[:] = model.tendon_damping[:] = 0.0
        for k, at in zip(robot.tree_joints, self.at_v, strict=True):
            if k not in robot.active_links:
                model.dof_armature[at] = 0.0
            if not robot.links[k].friction or k not in robot.active_links:
                model.dof_damping[at] = model.dof_frictionloss[at] = 0.0
                if hasattr(model, "dof_dampingpoly"):
                    model.dof_dampingpoly[at] = 0.0

    def coupling_error(self, motion: Motion, shown: Path) -> float:
        """Largest error of the file's couplings and loops along a motion that closes them here."""
        mujoco, model = self.mujoco, self.model
        tied = len(self.robot.couplings) + 3 * len(self.robot.closures)
        data, apart = mujoco.MjData(model), 0.0
        for q in TreeState.along_motion(self.robot, motion).q if tied else ():
            data.qpos[self.at_q] = q
            mujoco.mj_forward(model, data)
            apart = max(apart, float(np.abs(data.efc_pos[: data.ne]).max(initial=0.0)))
            if data.ne != tied:
                raise ExportError(
                    "exported_constraints_mismatch", "{path}: MuJoCo finds {rows} rows of couplings and loops in place "
                    "of {expected}", path=shown, rows=data.ne, expected=tied,
                )  # fmt: skip
        return apart


def _verify_by_mujoco(path: Path, subject: ExportSubject, motion: Motion, *, shown: Path) -> Verification:
    """MuJoCo's inverse dynamics, without constraints; dry friction is compared as a number."""
    try:
        import mujoco
    except ImportError:
        return Verification("MuJoCo", np.nan, "MuJoCo is not installed (pip install mujoco)")
    robot = subject.robot
    file = _MujocoFile.load(mujoco, path, robot, shown)
    apart = file.coupling_error(motion, shown)
    subject = file.with_own_springs(subject)
    file.drop_forces_outside_model(subject)
    friction = [dict(robot.links[k].friction) for k in robot.active_links]
    viscous, coulomb = (np.array([max(f.get(key, 0.0), 0.0) for f in friction]) for key in ("viscous", "coulomb"))
    ours = subject.rigid_torques(motion) + viscous * motion.v + spring_torques(subject, motion)
    active = [i for i, k in enumerate(robot.tree_joints) if k in robot.active_links]
    dry = np.abs(file.model.dof_frictionloss[file.at_v][active] - coulomb).max(initial=0.0)
    theirs, remark = file.torques(motion, "CONSTRAINT"), " (with viscous friction)"
    error = max(largest_relative_difference(theirs, ours), float(dry), apart)
    if error > TOLERANCE and not robot.couplings and not robot.closures:
        pair = [_torques_of_mjcf(path, subject, motion, snap=snap) for snap in (False, True)]
        if pair[0] is not None and pair[1] is not None and largest_relative_difference(pair[0], theirs) <= TOLERANCE:
            if (again := max(largest_relative_difference(pair[1], ours), float(dry))) <= TOLERANCE:
                return Verification("MuJoCo, nearly right angles rounded to right ones", again, remark=remark)
    return Verification("MuJoCo", error, remark=remark)


def _torques_of_mjcf(path: Path, subject: ExportSubject, motion: Motion, *, snap: bool) -> Array | None:
    """Torques of an MJCF file as it is read here, with viscous friction and springs; None with other joints."""
    robot, read = subject.robot, load_robot(path, snap=snap)
    read = lock_loaded_robot(read, {name: x for name, x in robot.locks.items() if name in read.joint_names})
    if read.joint_names != robot.joint_names:
        return None
    viscous = np.array([max(dict(robot.links[k].friction).get("viscous", 0.0), 0.0) for k in robot.active_links])
    return make_export_subject(read).rigid_torques(motion) + viscous * motion.v + spring_torques(subject, motion)


def spring_torques(subject: ExportSubject, motion: Motion) -> Array:
    """Torques (N, n) of the springs, with the offsets that these hold."""
    if subject.springs is None:
        return np.zeros_like(motion.q)
    return np.asarray(np.where(subject.springs > 0.0, subject.springs * motion.q + subject.offsets, 0.0))


# The exported file itself along recorded motions: the error that its user gets.


POOR = (2.0, 0.1)
"""Error of a file over that of the result, and mean NRMSE, beyond both of which it is a warning."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Errors of an exported file on recordings, replayed by the software that loads it (`reader`).

    nrmse (n,): as the file is; completed (n,): with what it cannot hold added, constant torques and those of own
    columns, in a URDF rotor inertias, too. Both sides are filtered alike with `cutoff` (Hz). is_validation: whether the
    recordings were not used for fitting. identified: mean NRMSE of the result itself on such data.
    """

    reader: str
    nrmse: Array
    completed: Array
    cutoff: float | None
    is_validation: bool
    identified: float

    @property
    def mean(self) -> float:
        """Mean NRMSE over the joints, of the file as it is."""
        return _mean_without_nan(self.nrmse)

    @property
    def mean_completed(self) -> float:
        """Mean NRMSE over the joints, with what the file cannot hold added."""
        return _mean_without_nan(self.completed)

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings where the file explains the recordings much worse than the result."""
        if self.mean <= max(POOR[0] * self.identified, POOR[1]):
            return ()
        what = "{reader} explains the recordings by this file with a mean NRMSE of {nrmse:.3f}, the result with "
        facts = {"reader": self.reader, "nrmse": self.mean, "identified": self.identified}
        return (Message("export_replays_poorly", what + "{identified:.3f}", **facts),)

    def __str__(self) -> str:
        data = "validation data" if self.is_validation else "the data used"
        band = "unfiltered" if self.cutoff is None else f"{self.cutoff:.4g} Hz"
        text = f"replayed by {self.reader} on {data} ({band}): mean NRMSE {self.mean:.4f}, as identified "
        text += f"{self.identified:.4f}"
        if np.isnan(self.mean_completed) or np.array_equal(self.nrmse, self.completed):
            return text
        lacking = "constant torques, your own columns, rotor inertias in a URDF"
        return f"{text}; {self.mean_completed:.4f} with what the file cannot hold ({lacking})"


def _mean_without_nan(nrmse: Array) -> float:
    """Mean of the values that are not NaN; NaN where there are none."""
    known = nrmse[~np.isnan(nrmse)]
    return float(known.mean()) if len(known) else np.nan


def replay_under_name(path: Path, subject: ExportSubject, lock: Mapping[str, float], shown: Path) -> Replay | None:
    """Replay recordings kept by the result through a file and compare torques; None without any. shown: its name."""
    model, suffix = subject.model, path.suffix.lower()
    if model is None or model.replay is None or suffix == ".c" or model.replay.joints != subject.robot.n:
        return None
    stretch, t, q, v, a, measured = model.replay.arrays()
    motion = Motion(np.arange(float(len(t))), q, v, a)
    robot, missing = subject.robot, np.zeros_like(q)
    for column in model.equation.user_columns:
        size = model.column_values[model.equation.names.index(column.name)]
        own = missing[:, robot.joint_names.index(column.joint)]
        try:
            own += column.values(robot.joint_names, q, v) * size
        except DynidError:  # a Python function, which no file of a result holds
            own += np.nan
    reader = "dynid"
    if suffix == ".xml":
        try:
            import mujoco
        except ImportError:
            reader, tau = "dynid (MuJoCo is not installed)", _torques_with_plain_friction(subject, motion)
            tau = tau + spring_torques(subject, motion)
        else:
            reader, file = "MuJoCo", _MujocoFile.load(mujoco, path, robot, shown)
            tau = file.torques(motion, "CONTACT", "LIMIT", "EQUALITY")
            subject = file.with_own_springs(subject)
        missing += subject.offsets if subject.springs is None else np.where(subject.springs > 0.0, 0.0, subject.offsets)
    elif suffix == ".urdf":
        import pinocchio as pin

        reader, file = "pinocchio", pin.buildModelFromUrdf(str(path))
        rotors = _rotor_inertias(robot) * a
        names = unique_names(link.joint for link in robot.links)
        at = [file.joints[file.getJointId(names[k])].idx_v for k in robot.active_links]
        sign = np.where(np.abs(v) < STILL, 0.0, np.sign(v))
        dry = getattr(file, "upperDryFrictionLimit", None)
        dry = file.friction if dry is None else dry
        tau = _pinocchio_torques(pin, file, robot, motion, lock) - rotors + file.damping[at] * v + dry[at] * sign
        missing += subject.offsets + rotors
    else:
        tau = _torques_with_plain_friction(subject, motion) + subject.offsets
    errors = [_filtered_nrmse(stretch, t, measured, x, model.cutoff) for x in (tau, tau + missing)]
    score = model.validation if model.replay.is_validation else model.fit
    return Replay(reader, errors[0], errors[1], model.cutoff, model.replay.is_validation, score.mean)


def _torques_with_plain_friction(subject: ExportSubject, motion: Motion) -> Array:
    """Torques (N, n) of the rigid body with viscous and Coulomb friction."""
    friction = [dict(subject.robot.links[k].friction) for k in subject.robot.active_links]
    viscous, coulomb = (np.array([f.get(key, 0.0) for f in friction]) for key in ("viscous", "coulomb"))
    sign = np.where(np.abs(motion.v) < STILL, 0.0, np.sign(motion.v))
    return np.asarray(subject.rigid_torques(motion) + viscous * motion.v + coulomb * sign)


def _filtered_nrmse(stretch: Array, t: Array, measured: Array, predicted: Array, cutoff: float | None) -> Array:
    """NRMSE (n,) of predictions over stretches of samples, both sides filtered alike."""
    from scipy.signal import butter, sosfiltfilt

    errors, kept = [], []
    for k in np.unique(stretch):
        own = stretch == k
        pair = [measured[own], predicted[own]]
        rate = 1.0 / float(np.median(np.diff(t[own]))) if own.sum() > 1 else 0.0
        if cutoff is not None and 0.0 < 2.2 * cutoff < rate and own.sum() > 30:
            sos = butter(4, cutoff / (0.5 * rate), output="sos")
            pair = [np.asarray(sosfiltfilt(sos, x, axis=0)) for x in pair]
        errors.append(pair[0] - pair[1])
        kept.append(pair[0])
    size = np.concatenate(kept).std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        nrmse = np.sqrt((np.concatenate(errors) ** 2).mean(axis=0)) / size
    return np.asarray(np.where(np.isfinite(nrmse), nrmse, np.nan))


# The joints of the tree, passive ones included, along motions of the active ones.


@dataclass(frozen=True, eq=False)
class TreeState:
    """Arrays (N, joints of the tree), and G (N, joints of the tree, n), by which torques are projected."""

    q: Array
    v: Array
    a: Array
    G: Array

    @staticmethod
    def along_motion(robot: Robot, motion: Motion) -> TreeState:
        """State of all joints of the tree along a motion of the active ones, loops closed."""
        scene = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=True)).scene_along(motion)
        G = np.broadcast_to(np.eye(robot.n), (len(motion), robot.n, robot.n)) if scene.tree is None else scene.tree.G
        return TreeState(scene.q, scene.v, scene.a, np.asarray(G))

    def project_torques(self, tau: Array) -> Array:
        """Torques (N, n) of the active joints from those of the tree."""
        return np.asarray(np.einsum("Nij,Ni->Nj", self.G, tau))


def random_states(robot: Robot, samples: int) -> Motion:
    """Random states: anywhere for trees, near the given assembly for loops, which cannot close everywhere."""
    rng = np.random.default_rng(0)
    q, v, a = (rng.standard_normal((samples, robot.n)) for _ in range(3))
    if robot.closures:
        q = random_samples(robot, samples, 0).q
    return Motion(np.arange(float(samples)), q, v, a)
