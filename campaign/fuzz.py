"""Hostile files, options and command lines, run in forked processes; recorded, resumable, sorted by cause.

`python -m campaign.fuzz 100000 --out out/fuzz` goes on where it was stopped. Each case is one seed. A failure is a
traceback, an exit code other than 0, 1, 2, a signal, more than 10 s of processor time, more than 1 GB of memory, a
message of many lines, or a file that was not asked for. `out/fuzz/cases.jsonl` has a line per case, `failures.jsonl`
the failures with command line and cause, `corpus/` their files; `--triage` prints them by cause.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import functools
import gc
import gzip
import importlib
import io
import json
import os
import pkgutil
import re
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from campaign import files

SECONDS, MEGABYTES, LINES, CHARACTERS = 10.0, 1024, 12, 20_000
_ADDRESS_SPACE = 8 << 30
_MOST_SECONDS = 30
ROWS, LONG_ROWS = 120, 300
"""Rows of most logs, and of some."""
BATCH = 500
"""Cases that share a fork."""
_STACK_PLACE = re.compile(r'File "[^"]*?/(?:src|site-packages)/([^"]+)", line \d+, in (\S+)')


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command: exit code or signal (negative), CPU s, MB, standard error, files that it wrote."""

    words: tuple[str, ...]
    code: int
    seconds: float
    megabytes: int
    errors: str
    output: str
    written: tuple[str, ...]

    def cause(self, expected: Sequence[str] = ()) -> str:
        """Return what must not be, as a short cause that similar failures share; '' where all is well."""
        if "Traceback" in self.errors:
            places = _STACK_PLACE.findall(self.errors)
            own = [place for place in places if place[0].startswith("dynid")] or places
            last = self.errors.strip().splitlines()
            kind = next((x.partition(":")[0] for x in reversed(last) if re.match(r"[\w.]+(Error|Exception)\b", x)), "?")
            return f"traceback {kind} in {':'.join(own[-1]) if own else '?'}"
        if self.code < 0:
            return f"signal {signal.Signals(-self.code).name} ({self.words[0]})"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code} ({self.words[0]})"
        if self.seconds > SECONDS:
            return f"over {SECONDS:.0f} s ({self.words[0]})"
        if self.megabytes > MEGABYTES:
            return f"over {MEGABYTES} MB ({self.words[0]})"
        if "panicked at" in self.errors or "RuntimeWarning" in self.errors:
            return f"chatter of libraries ({self.words[0]})"
        if self.code == 2 and not 1 <= self.errors.count("\n") <= LINES:
            return f"refused in {self.errors.count(chr(10))} lines ({self.words[0]})"
        if len(self.errors) > CHARACTERS:
            return f"a message of {CHARACTERS} characters and more ({self.words[0]})"
        if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", self.errors + self.output):
            return f"control characters in the output ({self.words[0]})"
        strangers = [name for name in self.written if name not in expected]
        return f"wrote {strangers[0][-20:]} unasked ({self.words[0]})" if strangers else ""


def run(words: Sequence[str], folder: Path, *, seconds: int = _MOST_SECONDS) -> Outcome:
    """Run a command in a fork of this process, in a folder, with limits; the parent should have imported all."""
    before = _list_files(folder)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _run_child(words, folder, out.fileno(), err.fileno(), seconds)
        end = time.monotonic() + 20 * seconds
        while True:
            done, status, used = os.wait4(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.002)
        texts = []
        for stream in (err, out):
            stream.seek(0)
            texts.append(stream.read(200_000).decode("utf-8", "replace"))
    written = tuple(sorted(_list_files(folder) - before))
    code = os.waitstatus_to_exitcode(status)
    return Outcome(
        tuple(words), code, round(used.ru_utime + used.ru_stime, 2), used.ru_maxrss // 1024, texts[0], texts[1], written
    )


def _list_files(folder: Path) -> set[str]:
    """Names of all files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _run_child(words: Sequence[str], folder: Path, out: int, err: int, seconds: int) -> None:
    """Be the command, and end the process."""
    code = 99
    try:
        _set_limits()
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        code = _run_command(words, folder, out, err)
    finally:
        os._exit(code)


def _set_limits() -> None:
    """Limit memory, files and core dumps of this process, and detach it from the terminal."""
    os.setsid()
    for name, value in (("CORE", 0), ("AS", _ADDRESS_SPACE), ("FSIZE", 1 << 30)):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


def _run_command(words: Sequence[str], folder: Path, out: int, err: int) -> int:
    """Run a command in this process, with its streams in files: its exit code, 98 for an exception."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nowhere, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.chdir(folder)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        stream = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["dynid", *words]
    from dynid.cli import main

    code = 0
    try:
        main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 98
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


# What is damaged, and how it is run. A case is a function of a generator and an empty folder: command line and outputs.

Case = tuple[list[str], tuple[str, ...]]
TEXTS = (
    *files.NASTY, "\x1b[31mred\x1b[0m", "\u202eabc", "a\u2028b", "-" * 300, "9" * 5000, "x" * 5000, "../" * 40,
    "a.a.a.",
    "." * 3000, " " * 3000, "[" * 3000, "1e-300", "1e300", "-1", "1e-6", "inf", "0.1.2", "=", ",", ":", "1:2", "@", "%",
    "/dev/full", "/dev/null", "/proc/self/mem", "/", ".", "~", "$HOME", "`id`", "{0}", "%s", "a" * 260,
)  # fmt: skip


def damaged_log(rng: np.random.Generator, folder: Path) -> Case:
    """A damaged log of some format, identified or looked at."""
    kinds = [kind for kind in files.FORMATS if kind not in files.ROBOTS]
    kind = str(rng.choice(kinds))
    path = folder / f"file.{kind}"
    if kind == "mat" and rng.random() < 0.5:
        path.write_bytes(_damaged_mat(rng, folder))
    else:
        files.write_log(path, kind, rng)
        if (folder / "file.folder").exists():
            shutil.rmtree(folder / "file.folder")
    (folder / "arm.toml").write_text(files.TABLE)
    if rng.random() < 0.3:
        return ["inspect", "arm.toml", path.name], ()
    return ["identify", "arm.toml", path.name, *files.options(rng, path.name)], ()


def _damaged_mat(rng: np.random.Generator, folder: Path) -> bytes:
    """A MAT file with structs and cells, damaged inside its compressed parts or outside."""
    from scipy.io import savemat

    log, place = files.columns(rng), folder / "whole.mat"
    cells = np.array([log["q1"][:3], "x"], dtype=object)
    savemat(place, {"S": {"a": log["t"], "b": {"c": log["q1"]}}, "cell": cells, **log}, do_compression=True)
    raw = place.read_bytes()
    place.unlink()
    if rng.random() < 0.5:
        return files.damaged_bytes(raw, rng)
    made, k = bytearray(raw[:128]), 128
    while k < len(raw):
        kind, size = struct.unpack("<II", raw[k : k + 8])
        part = zlib.compress(files.damaged_bytes(zlib.decompress(raw[k + 8 : k + 8 + size]), rng))
        made += struct.pack("<II", kind, len(part)) + part
        k += 8 + size
    return bytes(made)


def damaged_robot(rng: np.random.Generator, folder: Path) -> Case:
    """A damaged table, URDF or MJCF, given to some command."""
    kind = str(rng.choice(list(files.ROBOTS)))
    text = files.ROBOTS[kind].encode()
    path = folder / f"robot.{kind}"
    if rng.random() < 0.5:
        path.write_bytes(files.damaged_text(text, rng))
    else:
        path.write_bytes(_with_nasty_values(text, rng))
    command = str(rng.choice(["base", "mdh", "check", "unknown", "simulate", "identify", "excite"], p=_COMMANDS))
    words = [command, path.name]
    if command == "unknown":
        words += ["--count-only"]
    if command in ("identify", "simulate"):
        (folder / "log.csv").write_bytes(files.text(files.columns(rng)))
        words += ["log.csv", *(["--friction", "viscous"] if command == "identify" else [])]
    if command == "excite":
        words += ["--time-budget", "0.05", "--starts", "1", "--duration", "2", "--acceleration", "5", "--velocity", "1"]
    return words, ()


_COMMANDS = (0.25, 0.15, 0.2, 0.1, 0.1, 0.15, 0.05)


def _with_nasty_values(text: bytes, rng: np.random.Generator) -> bytes:
    """Values between quotes or after equal signs replaced by nasty ones, parts repeated."""
    for _ in range(int(rng.integers(1, 4))):
        values = [match.span(1) for match in re.finditer(rb'"([^"\n]*)"|= ([-\d.]+)', text) if match[1] is not None]
        if not values:
            break
        start, stop = values[int(rng.integers(len(values)))]
        nasty = str(rng.choice(TEXTS)).replace('"', "").replace("<", "&lt;").replace("&", "&amp;").replace("\n", " ")
        numbers = " ".join(str(rng.choice(["1e300", "nan", "-1e-320", "0", "1e17", "1e16", "-1"])) for _ in range(3))
        text = text[:start] + (nasty if rng.random() < 0.6 else numbers).encode("utf-8", "replace") + text[stop:]
    if rng.random() < 0.2:
        lines = text.split(b"\n")
        k = int(rng.integers(len(lines)))
        lines[k:k] = [lines[k]] * int(rng.choice([1, 10, 300]))
        text = b"\n".join(lines)
    return text


def damaged_mesh(rng: np.random.Generator, folder: Path) -> Case:
    """A damaged mesh as collision shape of a URDF or MJCF."""
    kind = str(rng.choice(["ply", "stl", "obj"]))
    raw = _MESHES[kind]
    data = raw if rng.random() < 0.1 else files.damaged_bytes(raw, rng)
    if rng.random() < 0.2:
        data = raw[: int(rng.integers(len(raw)))]
    name = f"shape.{kind}"
    (folder / name).write_bytes(data)
    few = ["--time-budget", "0.001", "--starts", "1", "--duration", "2", "--acceleration", "5", "--velocity", "1"]
    kind_of_robot = rng.random()
    if kind_of_robot < 0.6:  # the mesh is read before the search begins; a single harmonic ends that at once
        shape = f'<collision><geometry><mesh filename="{name}"/></geometry></collision></link>\n  <joint name="a"'
        (folder / "robot.urdf").write_text(files.URDF.replace('</link>\n  <joint name="a"', shape, 1))
        return ["excite", "robot.urdf", *few, *(["--harmonics", "1"] if kind_of_robot < 0.52 else [])], ()
    text = files.MJCF.replace("<worldbody>", f'<asset><mesh name="m" file="{name}"/></asset><worldbody>')
    geom = '<geom type="mesh" mesh="m"/>'
    text = text.replace('<inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>', geom)
    (folder / "robot.xml").write_text(text)
    return (["excite", "robot.xml", *few] if rng.random() < 0.1 else ["check", "robot.xml"]), ()


def _box_mesh() -> dict[str, bytes]:
    """A box as PLY (binary), STL and OBJ."""
    corners = np.array([[x, y, z] for x in (0, 0.1) for y in (0, 0.1) for z in (0, 0.1)])
    faces = [(0, 1, 3), (0, 3, 2), (4, 7, 5), (4, 6, 7), (0, 5, 1), (0, 4, 5), (2, 3, 7), (2, 7, 6), (0, 2, 6),
             (0, 6, 4), (1, 5, 7), (1, 7, 3)]  # fmt: skip
    head = ["ply", "format binary_little_endian 1.0", "element vertex 8", "property float x",
            "property float y", "property float z", "element face 12",
            "property list uchar int vertex_indices", "end_header", ""]  # fmt: skip
    ply = "\n".join(head).encode() + corners.astype("<f4").tobytes()
    ply += b"".join(struct.pack("<B3i", 3, *face) for face in faces)
    stl = b"box".ljust(80) + struct.pack("<I", 12)
    stl += b"".join(struct.pack("<12f", 0, 0, 1, *corners[list(f)].ravel()) + b"\0\0" for f in faces)
    obj = "".join(f"v {x} {y} {z}\n" for x, y, z in corners)
    obj += "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in faces)
    return {"ply": ply, "stl": stl, "obj": obj.encode()}


_MESHES = _box_mesh()


def damaged_result(rng: np.random.Generator, folder: Path) -> Case:
    """A damaged result, motion or project file."""
    source = _seeds()
    kind = str(rng.choice(["result.json", "motion.json", "motion.csv", "dynid.toml"]))
    raw = source[kind]
    raw = _with_other_json(raw, rng) if kind.endswith("json") and rng.random() < 0.7 else files.damaged_text(raw, rng)
    (folder / kind).write_bytes(raw)
    (folder / "arm.toml").write_text(files.TABLE)
    if kind == "result.json":
        several = (
            ["physical", kind], ["export", kind, "out.urdf"], ["export", kind, "out.c"], ["export", kind, "out.xml"],
            ["report", kind, "--out", "out.html"], ["export", kind, "out.json"],
        )  # fmt: skip
        words = list(several[int(rng.integers(len(several)))])
        words += ["--force"] if words[0] == "export" and rng.random() < 0.8 else []
        return words, ("result.html", *(word for word in words if word.startswith("out")))
    if kind == "dynid.toml":
        (folder / "log.csv").write_bytes(files.text(files.columns(rng)))
        return ["identify", "--project", kind], ()
    (folder / "robot.urdf").write_text(files.URDF)
    return ["simulate", "robot.urdf", kind], ()


_SIDE_FILES: dict[str, tuple[str, list[str]]] = {
    "cell.toml": (
        "[[box]]\nname = 'table'\nsize = [0.4, 0.4, 0.4]\nposition = [1.2, 0.0, 0.0]\n[[sphere]]\nname = 'ball'\n"
        "radius = 0.1\nposition = [0.0, 0.0, 2.0]\n",
        ["excite", "arm.toml", "--time-budget", "0.01", "--starts", "1", "--duration", "2", "--acceleration", "5",
         "--velocity", "1", "--obstacles"],
    ),
    "values.json": ('{"XX1": 0.1, "M1": 3.0, "MX1": -0.2, "ZZ2": 1e-3}', ["base", "arm.toml", "--values"]),
    "plate.toml": (
        "position = [0.0, 0.0, -0.1]\nrotation = [0.0, 0.0, 0.0]\nreference = [0.0, 0.0, 0.0]\n",
        ["identify", "arm.toml", "log.csv", "--friction", "none", "--model", "reaction", "--sensor"],
    ),
    "gear.txt": ("1, 0.5\n0, 2\n", ["identify", "arm.toml", "log.csv", "--friction", "none", "--gear"]),
    "drives.toml": ('kind = "pd"\nkp = [100, 50]\nkd = 2\n', ["actuators", "robot.urdf", "log.csv", "--controller"]),
}  # fmt: skip


def damaged_side_file(rng: np.random.Generator, folder: Path) -> Case:
    """A damaged cell, sensor, controller, gear or values, or recording of markers."""
    (folder / "arm.toml").write_text(files.TABLE)
    (folder / "robot.urdf").write_text(files.URDF)
    (folder / "log.csv").write_bytes(files.text(files.columns(rng)))
    kind = str(rng.choice([*_SIDE_FILES, "seen.csv"]))
    if kind == "seen.csv":
        log = files.columns(rng)
        seen = {f"{name}_{axis}": np.cos(log["q1"] + j) for name in "ab" for j, axis in enumerate("xyz")}
        (folder / kind).write_bytes(files.damaged_text(files.text({"t": log["t"], **seen}), rng))
        return ["markers", "arm.toml", kind, "--marker", "a=a", "--marker", "b=b", "--start=0,0"], ()
    text, words = _SIDE_FILES[kind]
    raw = files.damaged_text(text.encode(), rng)
    (folder / kind).write_bytes(raw if rng.random() < 0.6 else _with_nasty_values(raw, rng))
    return [*words, kind], ()


def _with_other_json(raw: bytes, rng: np.random.Generator) -> bytes:
    """A JSON file with some values replaced, removed or repeated."""
    data = json.loads(raw)
    nasty: list[Any] = [None, -1, 0, 1e300, 10**400, "x", "\x1b[2J", [], {}, [[]], True, "9" * 100, 1e-320, [1, "a"]]
    for _ in range(int(rng.integers(1, 4))):
        at: Any = data
        for _ in range(12):
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = keys[int(rng.integers(len(keys)))]
            if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8:
                at = at[key]
                continue
            what = rng.random()
            if what < 0.7:
                at[key] = copy.deepcopy(nasty[int(rng.integers(len(nasty)))])
            elif what < 0.85:
                del at[key]
            elif isinstance(at, list):
                at.insert(key, at[key])
            break
    return json.dumps(data).encode()


def odd_command_line(rng: np.random.Generator, folder: Path) -> Case:
    """A command with random options and values, sensible and not."""
    (folder / "arm.toml").write_text(files.TABLE)
    (folder / "robot.urdf").write_text(files.URDF)
    (folder / "log.csv").write_bytes(files.text(files.columns(rng)))
    for name, raw in _seeds().items():
        if name != "dynid.toml" or rng.random() < 0.1:
            (folder / name).write_bytes(raw)
    commands = _command_options()
    command = str(rng.choice([name for name in commands if name not in ("view", "watch", "fleet", "demo")]))
    places = {"physical": ["result.json"], "report": ["result.json"], "export": ["result.json", "out.urdf"],
              "simulate": ["robot.urdf", "motion.csv"], "robots": [], "init": []}  # fmt: skip
    words = [command, *places.get(command, ["arm.toml"])]
    if command in ("identify", "inspect", "compare", "actuators"):
        words.append("log.csv")
    if command == "identify" and rng.random() < 0.8:
        words += ["--friction", "none"]
    if command == "excite":
        words += ["--time-budget", "0.05", "--starts", "1"]
    for _ in range(int(rng.integers(1, 4))):
        name, flag = commands[command][int(rng.integers(len(commands[command])))]
        if name in ("--help", "--json", "--out", "--report", "--urdf", "--interactive"):
            continue
        words.append(name)
        if not flag:
            sane = ["1", "0.5", "2", "10", "arm.toml", "log.csv", "a", "b", "viscous", "q=q1", "t=ms", "a=0.3", "1:100"]
            words.append(str(rng.choice(sane)) if rng.random() < 0.5 else str(rng.choice(TEXTS)).replace("\x00", ""))
    if rng.random() < 0.1:
        words.insert(int(rng.integers(1, len(words) + 1)), str(rng.choice(TEXTS)).replace("\x00", ""))
    return words, ("out.urdf", "dynid.toml", "arm.csv", "arm.json", "result.html")


def large_or_repetitive(rng: np.random.Generator, folder: Path) -> Case:
    """Content that costs a careless parser quadratic time: long cells, headers, many columns, blank lines."""
    (folder / "arm.toml").write_text(files.TABLE)
    size = int(rng.choice([1000, 20_000, 150_000], p=[0.5, 0.3, 0.2]))
    unit = str(
        rng.choice([".", " ", "a.", "a,", ",", '"', "q1,", "/", "_", "(", "[rad]", "0", "9", "\t", "\r", ";", "e"])
    )
    long = (unit * (size // len(unit) + 1))[:size]
    head, rows = "t,q1,q2,tau1,tau2", files.text(files.columns(rng)).decode().split("\n")[1:]
    where = int(rng.integers(5))
    if where == 0:
        head += "," + long
    elif where == 1:
        rows[int(rng.integers(len(rows)))] += long
    elif where == 2:
        rows = [*rows[:3], "\n" * size, *rows[3:]]
    elif where == 3:
        head = long
    else:
        rows = ["# " + long, *rows]
    data = "\n".join([head, *rows]).encode()
    packed = rng.random() < 0.3
    (folder / ("log.csv.gz" if packed else "log.csv")).write_bytes(gzip.compress(data, 1) if packed else data)
    words = ["identify", "arm.toml", "log.csv.gz" if packed else "log.csv", "--friction", "none"]
    return (["inspect", *words[1:3]] if rng.random() < 0.5 else words), ()


GENERATORS: tuple[Callable[[np.random.Generator, Path], Case], ...] = (
    damaged_log, damaged_log, damaged_log, damaged_robot, damaged_robot, damaged_robot, damaged_mesh, damaged_result,
    odd_command_line, odd_command_line, odd_command_line, large_or_repetitive, damaged_side_file, damaged_side_file,
)  # fmt: skip
_cache: dict[str, Any] = {}


_PROJECT = """robot = "arm.toml"
logs = ["log.csv@:70%"]
validate = "log.csv@70%:"
units = { t = "s", q = "rad", tau = "Nm" }
sign = ["tau.1"]
zero = { "2" = "90deg" }
order = { tau = ["2", "1"] }
gear = [1, 2]

[column]
t = "t"
q = ["q1", "q2"]
tau = ["tau1", "tau2"]

[options]
friction = ["viscous", "coulomb"]
rotor-inertia = false
cutoff = 5
known = { M2 = 1.5 }
"""


def _seeds() -> dict[str, bytes]:
    """A result, motions and a project file to be damaged, made once by the commands themselves."""
    if "seeds" not in _cache:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "arm.toml").write_text(files.TABLE)
            np.savez(folder / "log.npz", **files.columns(np.random.default_rng(1)))
            (folder / "log.csv").write_bytes(files.text(files.columns(np.random.default_rng(1))))
            run(["identify", "arm.toml", "log.npz", "--friction", "viscous", "--out", "result.json"], folder)
            short = [
                "--duration",
                "2",
                "--time-budget",
                "0.2",
                "--starts",
                "1",
                "--acceleration",
                "5",
                "--velocity",
                "1",
            ]
            for end in ("json", "csv"):
                run(["excite", "arm.toml", *short, "--rate", "50", "--out", f"motion.{end}"], folder)
            (folder / "dynid.toml").write_text(_PROJECT)
            names = ("result.json", "motion.json", "motion.csv", "dynid.toml")
            _cache["seeds"] = {one: (folder / one).read_bytes() for one in names}
    seeds: dict[str, bytes] = _cache["seeds"]
    return seeds


def _command_options() -> dict[str, list[tuple[str, bool]]]:
    """Options of every command, and whether they are flags."""
    if "options" not in _cache:
        import typer.main

        from dynid.cli.app import app

        commands = getattr(typer.main.get_command(app), "commands", {})  # typed loosely: typer may bring its own click
        _cache["options"] = {
            name: [
                (option, bool(getattr(one, "is_flag", False)))
                for one in command.params
                for option in one.opts
                if option.startswith("--")
            ]
            for name, command in commands.items()
        }
    options: dict[str, list[tuple[str, bool]]] = _cache["options"]
    return options


@dataclass(frozen=True, slots=True)
class Judged:
    """A case that was run: its seed, kind, outcome, cause of failure ('' for none), and its folder."""

    seed: int
    kind: str
    outcome: Outcome
    cause: str
    folder: Path


def make_case(seed: int, folder: Path) -> Case:
    """Make case `seed` in an empty folder."""
    rng = np.random.default_rng([26, seed])
    files.ROWS = ROWS if rng.random() < 0.8 else LONG_ROWS
    return GENERATORS[seed % len(GENERATORS)](rng, folder)


def check_all(seeds: Sequence[int], place: Path) -> Iterator[Judged]:
    """Make and run cases one after the other in one fork, which costs less than a fork for each; all of them judged.

    What a case leaves behind in its process, the next one meets. A failure ends the fork: the case is run once more in
    a fork of its own, which tells what it does alone, and the next ones in another fork.
    """
    left = list(seeds)
    while left:
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
            for judged in _check_until_failure(left, Path(name)):
                left.remove(judged.seed)
                yield _check_again(judged, place) if judged.cause else judged
                shutil.rmtree(Path(name) / str(judged.seed), ignore_errors=True)


def _check_again(found: Judged, place: Path) -> Judged:
    """Run a case that failed among others in a fork of its own; limits of time and memory hold for that."""
    folder = place / f"{found.seed} alone"
    folder.mkdir()
    alone = next(_check_until_failure([found.seed], folder))
    if alone.cause or found.cause.startswith("over "):
        return alone
    return replace(found, cause=f"{found.cause}, only after other cases")


def _check_until_failure(seeds: Sequence[int], place: Path) -> Iterator[Judged]:
    """Run cases in one fork until one fails or all are done."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_cases(seeds, place, writer)
    os.close(writer)
    try:
        with open(reader, encoding="utf-8") as answers:
            while True:
                begun = _next_answer(answers, child)
                if begun is None:
                    _, status, _ = os.wait4(child, 0)
                    child = 0
                    if status:
                        raise RuntimeError("the process of the cases ended between two of them")
                    return
                ended = _next_answer(answers, child)
                if ended is None:  # the process died of it
                    _, status, used = os.wait4(child, 0)
                    child = 0
                    seconds = used.ru_utime + used.ru_stime - begun["cpu"]
                    code, mb = os.waitstatus_to_exitcode(status), used.ru_maxrss // 1024
                else:
                    code, seconds, mb = ended["code"], ended["seconds"], ended["mb"]
                judged = _judge(begun, place, code, seconds, mb)
                yield judged
                if judged.cause:
                    return
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _judge(begun: dict[str, Any], place: Path, code: int, seconds: float, mb: int) -> Judged:
    """Judge a case by what its process told before and after, and by its files."""
    seed = begun["seed"]
    here = place / str(seed)
    errors, output = ((here / name).read_bytes()[:200_000].decode("utf-8", "replace") for name in ("err", "out"))
    written = _list_files(here) - set(begun["before"])
    names = tuple(sorted(name.removeprefix("in/") for name in written))
    outcome = Outcome(tuple(begun["words"]), code, round(seconds, 3), mb, errors, output, names)
    return Judged(
        seed, GENERATORS[seed % len(GENERATORS)].__name__, outcome, outcome.cause(begun["outputs"]), here / "in"
    )


def _next_answer(answers: IO[str], child: int) -> dict[str, Any] | None:
    """What the cases' process tells next; None where it has ended. One that is silent for ten minutes is ended."""
    if not select.select([answers], [], [], 600.0)[0]:
        os.kill(child, signal.SIGKILL)
    line = answers.readline()
    return json.loads(line) if line.endswith("\n") else None


def _be_cases(seeds: Sequence[int], place: Path, writer: int) -> None:
    """Make and run cases in this process, tell of each before and after, and end the process."""
    code = 1
    try:
        errors = os.dup(2)
        _set_limits()
        for seed in seeds:
            here = place / str(seed)
            folder = here / "in"
            folder.mkdir(parents=True)
            try:
                words, outputs = make_case(seed, folder)
            except BaseException as error:
                os.write(errors, f"case {seed} cannot be made: {error!r}\n".encode())
                raise
            with (here / "out").open("wb") as out, (here / "err").open("wb") as err:
                before, start = sorted(_list_files(here)), _processor_seconds()
                tell = {"seed": seed, "words": words, "outputs": outputs, "before": before, "cpu": start}
                os.write(writer, json.dumps(tell).encode() + b"\n")
                own = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
                resource.setrlimit(resource.RLIMIT_CPU, (int(own) + _MOST_SECONDS, resource.RLIM_INFINITY))
                with contextlib.suppress(OSError):
                    Path("/proc/self/clear_refs").write_text("5")  # the largest memory counts from here
                children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
                left = _run_command(words, folder, out.fileno(), err.fileno())
                more = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
                mb = max(_most_kilobytes(), more if more > children else 0) // 1024
                tell = {"code": left, "seconds": _processor_seconds() - start, "mb": mb}
            os.write(writer, json.dumps(tell).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def _processor_seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _most_kilobytes() -> int:
    """Largest memory of this process since it was last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def warm_up() -> None:
    """Import what commands need and load compiled kernels, so that forks begin with them; polars must not start."""
    import warnings

    warnings.simplefilter("ignore")
    os.environ.setdefault("DYNID_THREADS", "1")
    os.environ["POLARS_MAX_THREADS"] = "1"
    import typer.main

    import dynid
    import dynid.cli.app

    for module in pkgutil.walk_packages(dynid.__path__, "dynid."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)

    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        for end, text in files.ROBOTS.items():
            (folder / f"arm.{end}").write_text(text)
        np.savez(folder / "log.npz", **files.columns(np.random.default_rng(1)))
        for end in files.ROBOTS:
            robot = dynid.load_robot(folder / f"arm.{end}")
            dynid.base_parameters(robot)
        with contextlib.suppress(dynid.DynidError):
            dynid.identify(robot, dynid.read_log(folder / "log.npz", robot), friction=("viscous",))
        with contextlib.suppress(SystemExit):
            dynid.cli.app.app(["robots", "--json", str(folder / "robots.json")], prog_name="dynid")
    _command_options()
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(dynid.cli.app.app)
    _seeds()
    gc.collect()
    gc.freeze()


_LIBRARIES = (
    "coal", "h5py", "lz4.frame", "mujoco", "pinocchio", "polars", "pydantic.type_adapter", "rich.console",
    "rich.markup", "rich.table", "rosbags.rosbag2", "rosbags.typesys", "ruamel.yaml", "scipy.io", "scipy.optimize",
    "scipy.signal", "scipy.spatial", "sqlite3", "sympy", "clarabel", "encodings.utf_8_sig",
)  # fmt: skip
"""What commands import when they need it."""


def campaign(count: int, out: Path, *, first: int = 0, seconds: float = float("inf"), again: bool = False) -> None:
    """Run cases up to a number, from where an earlier run stopped; again: only those that failed, once more."""
    (out / "corpus").mkdir(parents=True, exist_ok=True)
    record = out / "cases.jsonl"
    known = {case["seed"]: case for case in _read_cases(record)}
    failed = [seed for seed, case in known.items() if case["cause"]]
    done = known.keys() - failed if again else known.keys()
    record.write_text("".join(json.dumps(known[seed]) + "\n" for seed in done))
    warm_up()
    end = time.monotonic() + seconds
    left = failed if again else [seed for seed in range(first, count) if seed not in done]
    with record.open("a") as cases, (out / "failures.jsonl").open("a") as failures:
        for k in range(0, len(left), BATCH):
            if time.monotonic() > end:
                break
            with tempfile.TemporaryDirectory() as name:
                for found in check_all(left[k : k + BATCH], Path(name)):
                    outcome, cause = found.outcome, found.cause
                    facts = {"seed": found.seed, "kind": found.kind, "code": outcome.code, "cpu": outcome.seconds}
                    cases.write(json.dumps(facts | {"mb": outcome.megabytes, "cause": cause}) + "\n")
                    cases.flush()
                    if cause:
                        _record_failure(found, failures, out / "corpus")


def _read_cases(record: Path) -> list[dict[str, Any]]:
    """Recorded cases, without a last line that was being written when the process was killed."""
    lines = record.read_text().splitlines(keepends=True) if record.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def _record_failure(found: Judged, failures: IO[str], corpus: Path) -> None:
    """Print and write down a failure, and keep its files, of five cases per cause."""
    cause, outcome = found.cause, found.outcome
    print(f"{found.seed} {found.kind}: {cause}: {' '.join(outcome.words)[:200]}", flush=True)
    detail = asdict(outcome) | {"seed": found.seed, "kind": found.kind, "cause": cause, "output": ""}
    failures.write(json.dumps(detail | {"errors": outcome.errors[-3000:]}) + "\n")
    failures.flush()
    place = corpus / re.sub(r"\W+", "_", cause)[:80] / str(found.seed)
    if not place.exists() and len(list(place.parent.glob("*"))) < 5:
        shutil.copytree(found.folder, place, ignore=shutil.ignore_patterns("*.html"))


def triage(out: Path) -> Iterator[str]:
    """Lines on what was run and what failed, by kind and by cause."""
    cases = _read_cases(out / "cases.jsonl")
    if not cases:
        yield "0 cases"
        return
    kinds = collections.Counter(case["kind"] for case in cases)
    yield f"{len(cases)} cases: " + ", ".join(f"{name} {number}" for name, number in sorted(kinds.items()))
    codes = collections.Counter(case["code"] for case in cases)
    yield "exit codes: " + ", ".join(f"{code}: {number}" for code, number in sorted(codes.items()))
    yield f"most CPU {max(case['cpu'] for case in cases):.1f} s, most memory {max(case['mb'] for case in cases)} MB"
    causes = collections.Counter(case["cause"] for case in cases if case["cause"])
    yield f"{sum(causes.values())} failures" + (" by cause:" if causes else "")
    for cause, number in causes.most_common():
        seeds = [case["seed"] for case in cases if case["cause"] == cause][:5]
        yield f"  {number:6d}  {cause}  (seeds {', '.join(map(str, seeds))})"


def main() -> None:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=100_000, help="seeds below it are run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--triage", action="store_true", help="print what is recorded and run nothing")
    parser.add_argument("--again", action="store_true", help="run only the cases that failed, once more")
    given = parser.parse_args()
    if not given.triage:
        campaign(given.count, given.out, first=given.first, seconds=given.seconds, again=given.again)
    print("\n".join(triage(given.out)))


if __name__ == "__main__":
    main()
