"""Damaged logs and robot files: every command ends with exit code 0, 1 or 2, without a traceback, in time."""

from __future__ import annotations

import functools
import gzip
import io
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

ROWS = 300
SECONDS = 20.0
"""Of processor time, within which a command on a small file ends, its kernels compiled first."""

FORMATS = ("csv", "csv.gz", "txt", "parquet", "npz", "mat", "h5", "db3", "mcap", "toml", "urdf", "xml")
NASTY = (
    "2.7e154", "-2.7e154", "1e308", "-1e309", "nan", "inf", "-inf", "", "0", "-0.0", "1e-320", "946684800", "-5",
    "9223372036854775807", "18446744073709551616", "1_000", "0x10", "1,5", "abc", "\x00", '"', '"""', "#", "'", "1;2",
    "true", "None", "1e", "--1", "\ufeff", "\u00e9", " ", "9" * 400,
)  # fmt: skip
NUMBERS = (2.7e154, -2.7e154, 1e308, np.nan, np.inf, -np.inf, 0.0, 1e-320, 946684800.0, -5.0, 1e5, 1e13)

TABLE = """name = "arm"
gravity = [0.0, 0.0, -9.81]
angles = "deg"
[symbols]
L = 0.5
[[joint]]
name = "a"
limits = { position = [-160, 160], velocity = 90, acceleration = 300, effort = 120 }
[[joint]]
name = "b"
parent = 1
alpha = 90
d = "2 * L"
[link.a]
mass = 3.0
com = [0.1, 0.0, 0.0]
[link.b]
M = 2.0
MX = 0.4
zero = ["MY"]
"""
URDF = """<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <link name="one"><inertial><origin xyz="0.1 0 0" rpy="0 0 0"/><mass value="3"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <link name="two"><inertial><mass value="2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="one"/><origin xyz="0 0 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="50" velocity="3"/></joint>
  <joint name="b" type="prismatic"><parent link="one"/><child link="two"/><origin xyz="0.5 0 0" rpy="1.5708 0 0"/>
    <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="50" velocity="3"/></joint>
</robot>
"""
MJCF = """<mujoco model="arm"><compiler angle="radian"/><worldbody>
  <body name="one" pos="0 0 0.3"><joint name="a" axis="0 0 1" range="-2 2"/>
    <inertial pos="0.1 0 0" mass="3" diaginertia="0.1 0.1 0.1"/>
    <body name="two" pos="0.5 0 0" euler="1.57 0 0"><joint name="b" type="slide" axis="0 0 1"/>
      <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/></body></body>
</worldbody></mujoco>
"""
ROBOTS = {"toml": TABLE, "urdf": URDF, "xml": MJCF}


def check(seed: int, folder: Path) -> str | None:
    """Return what is wrong with file `seed`, or None; seeds go round the formats."""
    rng = np.random.default_rng(seed)
    kind = FORMATS[seed % len(FORMATS)]
    path = folder / f"file.{kind}"
    if kind in ROBOTS:
        path.write_bytes(damaged_text(ROBOTS[kind].encode(), rng))
        words = [str(rng.choice(["base", "mdh", "check", "identify"])), str(path)]
        if words[0] == "identify":
            (folder / "log.csv").write_bytes(text(columns(rng)))
            words += [str(folder / "log.csv"), "--friction", "viscous"]
    else:
        write_log(path, kind, rng)
        words = ["identify", str(folder / "arm.toml"), str(path), *options(rng, str(path))]
        (folder / "arm.toml").write_text(TABLE)
    return run(words, f"file {seed} ({kind})", strict=kind not in ROBOTS)


def options(rng: np.random.Generator, log: str) -> list[str]:
    """Options that bring other code to work."""
    friction = ["--friction", str(rng.choice(["none", "viscous,coulomb,offset"]))] if rng.random() < 0.9 else []
    more = [
        [], ["--validate", "30%"], ["--validate", f"{log}@50%:"], ["--cutoff", "5"], ["--estimator", "huber"],
        ["--model", "momentum"], ["--model", "power"], ["--column", "v="], ["--units", "t=ms"], ["--delay", "0.01"],
    ]  # fmt: skip
    return [*friction, *more[int(rng.integers(len(more)))]]


def run(words: list[str], name: str, *, strict: bool = True) -> str | None:
    """Run a command in this process; return what must not be (strict: NumPy's warnings, too)."""
    from dynid.cli import main

    out, err = io.StringIO(), io.StringIO()
    start = time.process_time()
    try:
        with patch.object(sys, "argv", ["dynid", *words]), redirect_stdout(out), redirect_stderr(err):
            with warnings.catch_warnings():
                warnings.simplefilter("error" if strict else "ignore", RuntimeWarning)
                main()
        code: object = "no exit"
    except SystemExit as left:
        code = left.code
    except BaseException as error:  # what a user would see as a traceback
        return f"{name}: {' '.join(words)}: {type(error).__name__}: {error}"
    seconds, text = time.process_time() - start, err.getvalue()
    if code not in (0, 1, 2) or "Traceback" in text:
        return f"{name}: {' '.join(words)}: exit code {code}: {text[-300:]}"
    if code == 2 and not 1 <= text.count("\n") <= 12:
        return f"{name}: {' '.join(words)}: refused in {text.count(chr(10))} lines: {text[:300]}"
    return f"{name}: {' '.join(words)}: took {seconds:.0f} s" if seconds > SECONDS else None


def columns(rng: np.random.Generator) -> dict[str, Any]:
    """A small log of a motion of two joints."""
    t = np.arange(ROWS) / 50.0
    phase = np.outer(t, [2.0, 3.1])
    q = np.sin(phase) + 0.3 * np.cos(2.3 * phase)
    tau = 3.0 * np.cos(q) + 0.1 * rng.standard_normal(q.shape)
    return {"t": t, "q1": q[:, 0], "q2": q[:, 1], "tau1": tau[:, 0], "tau2": tau[:, 1]}


def damaged_columns(rng: np.random.Generator) -> dict[str, Any]:
    """Numbers that no sensor gives, types and lengths that do not fit."""
    log = columns(rng)
    for _ in range(int(rng.integers(1, 5))):
        name = str(rng.choice(list(log)))
        x, what = log[name], int(rng.integers(10))
        if what < 6 and x.dtype.kind == "f" and x.ndim == 1 and len(x):
            some = rng.integers(0, len(x), int(rng.choice([1, 1, 2, 30])))
            some[:1] = rng.choice([0, len(x) // 2, len(x) - 1])
            log[name] = x.copy()
            log[name][some] = rng.choice(NUMBERS) if rng.random() < 0.7 else rng.choice(NUMBERS, len(some))
        elif what == 6:
            log[name] = x[: int(rng.integers(0, 4))]
        elif what == 7:
            with np.errstate(all="ignore"):
                kinds = ["f4", "i4", "i8", "u8", "bool", "complex128", "f2"]
                log[name] = np.nan_to_num(x).astype(str(rng.choice(kinds)))
        elif what == 8:
            log[name] = x.reshape(-1, 1) if rng.random() < 0.5 else np.zeros((2, 3, 4))
        elif rng.random() < 0.3:
            del log[name]
    if rng.random() < 0.15:
        rows = int(rng.integers(0, 6))
        log = {name: x[:rows] for name, x in log.items()}
    return log or columns(rng)


def text(log: dict[str, Any]) -> bytes:
    """A log as CSV."""
    rows = ([f"{cell:.9g}" for cell in row] for row in zip(*log.values(), strict=True))
    return "\n".join([",".join(log), *(",".join(row) for row in rows), ""]).encode()


def damaged_text(data: bytes, rng: np.random.Generator) -> bytes:
    """Text with other cells, lines, bytes, or an early end."""
    for _ in range(int(rng.integers(1, 4))):
        lines = data.split(b"\n")
        k = int(rng.integers(len(lines))) if rng.random() < 0.8 else int(rng.choice([0, len(lines) - 1]))
        what = int(rng.integers(8))
        if what < 4:
            marks = b" ," if b"," in lines[k] else b' "=<>'
            cells = lines[k].replace(marks[-1:], b",").split(b",") if marks == b" ," else lines[k].split(b'"')
            j = int(rng.integers(len(cells)))
            cells[j] = str(rng.choice(NASTY)).encode("utf-8", "replace")
            lines[k] = (b"," if marks == b" ," else b'"').join(cells)
        elif what == 4:
            lines.pop(k)
        elif what == 5:
            lines.insert(int(rng.integers(len(lines) + 1)), lines[k])
        data = b"\n".join(lines)
        if what == 6:
            data = data[: int(rng.integers(len(data) + 1))]
        elif what == 7:
            data = damaged_bytes(data, rng)
    return data


def damaged_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed, left out, or an early end."""
    raw = bytearray(data)
    for place in rng.integers(0, max(len(raw), 1), int(rng.choice([1, 3, 20]))).tolist():
        if raw:
            raw[place % len(raw)] = int(rng.integers(256))
    return bytes(raw[: int(rng.integers(len(raw) + 1))]) if rng.random() < 0.3 else bytes(raw)


def write_log(path: Path, kind: str, rng: np.random.Generator) -> None:
    """Write a log in some format: with damaged content, or whole and then damaged."""
    if kind in ("csv", "txt", "csv.gz"):
        data = damaged_text(text(columns(rng)), rng)
        packed = gzip.compress(data)
        path.write_bytes(data if kind != "csv.gz" else damaged_bytes(packed, rng) if rng.random() < 0.3 else packed)
        return
    inside = rng.random() < 0.7
    WRITERS[kind](path, damaged_columns(rng) if inside else columns(rng), rng)
    if not inside:
        path.write_bytes(damaged_bytes(path.read_bytes(), rng))


def _parquet(path: Path, log: dict[str, Any], rng: np.random.Generator) -> None:
    import polars as pl

    usable = {name: x.ravel().real for name, x in log.items() if x.ndim < 3 and x.dtype != np.float16}
    rows = min(map(len, usable.values()), default=0)
    pl.DataFrame({name: x[:rows] for name, x in usable.items()}).write_parquet(path)


def _npz(path: Path, log: dict[str, Any], rng: np.random.Generator) -> None:
    np.savez_compressed(path, **log)


def _mat(path: Path, log: dict[str, Any], rng: np.random.Generator) -> None:
    from scipy.io import savemat

    savemat(path, {name: x.astype(np.float32) if x.dtype == np.float16 else x for name, x in log.items()})


def _hdf5(path: Path, log: dict[str, Any], rng: np.random.Generator) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        for name, x in log.items():
            file[name] = x


@functools.cache
def _message_types() -> Any:
    """The types of ROS messages, which take tens of milliseconds to make."""
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.LATEST)


def _bag(path: Path, log: dict[str, Any], rng: np.random.Generator) -> None:
    """A bag of JointState messages: stamps, names and lengths may be anything."""
    import shutil

    from rosbags.rosbag2 import StoragePlugin, Writer

    types = _message_types()
    Time, Header, State = (
        types.types[name]
        for name in ("builtin_interfaces/msg/Time", "std_msgs/msg/Header", "sensor_msgs/msg/JointState")
    )
    whole = columns(rng)
    t = log["t"] if "t" in log and log["t"].shape == (ROWS,) and log["t"].dtype.kind == "f" else whole["t"]
    q = np.column_stack([whole["q1"], whole["q2"]])
    tau = np.column_stack([whole["tau1"], whole["tau2"]])
    folder = path.with_suffix(".folder")
    shutil.rmtree(folder, ignore_errors=True)
    plugin = StoragePlugin.MCAP if path.suffix == ".mcap" else StoragePlugin.SQLITE3
    with Writer(folder, version=9, storage_plugin=plugin) as writer:
        topic = writer.add_connection("/joint_states", State.__msgtype__, typestore=types)
        for k in range(ROWS):
            seconds = float(np.clip(np.nan_to_num(t[k]), -2e9, 2e9))
            names = ["a", "b"] if rng.random() < 0.99 else [["a"], ["b", "a"], ["c", "d"], []][int(rng.integers(4))]
            some = slice(0, int(rng.integers(3))) if rng.random() < 0.005 else slice(None)
            header = Header(Time(int(seconds), int(1e9 * (seconds % 1.0))), "")
            message = State(header, names, q[k][some], np.zeros(0), tau[k][some])
            writer.write(topic, int(2e7 * k), types.serialize_cdr(message, State.__msgtype__))
    next(folder.glob(f"*{path.suffix}")).replace(path)


WRITERS: dict[str, Callable[[Path, dict[str, Any], np.random.Generator], None]] = {
    "parquet": _parquet,
    "npz": _npz,
    "mat": _mat,
    "h5": _hdf5,
    "db3": _bag,
    "mcap": _bag,
}
