"""Exported C code, compiled and called: the proof that it gives the model's torques."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from dynid.errors import ExportError
from dynid.exports.c_code import FUNCTIONS
from dynid.exports.names import c_prefix
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-fPIC", "-shared")

_PATIENCE = 300.0
"""Seconds that a compiler may take."""


def find_compiler() -> str:
    """Path of gcc or cc; FileNotFoundError where there is none."""
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        raise FileNotFoundError("gcc")
    return found


def compiled_torques(path: Path, robot: Robot, motion: Motion) -> dict[str, Array]:
    """Torques (N, n) of every function of the file along a motion."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "robot.so"
        command = [find_compiler(), *FLAGS, "-o", str(library), "-x", "c", str(path.resolve()), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise ExportError(f"{path}: the compiler has not finished in {_PATIENCE:.0f} s") from error
        if done.returncode != 0:
            raise ExportError(f"{path} does not compile: {done.stderr.strip().splitlines()[0]}")
        code = ctypes.CDLL(str(library))
    prefix = c_prefix(robot.name)
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
