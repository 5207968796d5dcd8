"""How the source is cut: files, importers, long argument lists, code that reads messages, the way of a sample.

python -m bench.structure                 this tree
python -m bench.structure --before REV    beside another revision of it, taken from git
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

LIMITS = {
    "source files": 220,
    "modules with one importer": 40,
    "functions with more than 6 positional arguments": 20,
    "regular expressions or substring tests on messages": 0,
    "package changes along the way of a sample": 25,
}

MESSAGE = r"(?:warning|note|message|sentence|refusal|reason|remedy|doubt|finding|error|complaint|advice)s?"
TEXT = rf"(?:{MESSAGE}|text|words|said|told)"
LOOKS_INTO_MESSAGE = re.compile(
    rf"[\"'] (?:not )?in (?:str\({MESSAGE}\)|(?:\w+\.)*{MESSAGE}\b(?!\w|\.|\())"
    rf"|\b{MESSAGE}(?:\.text|\.what)?(?:\.l?r?strip\(\))?\.(?:startswith|endswith|partition|split|replace|find)\("
    rf"|str\({MESSAGE}\)(?:\.\w+\([^()]*\)|\[[^]]*\])*\.(?:startswith|endswith|replace|find)\("
    rf"|\bre\.\w+\(.*\b{MESSAGE}\b|\.sub\(.*\b{TEXT}\)"
)
"""Code that asks a message for what it says, or rewrites it."""

WAY = """
import os, sys, tempfile
import numpy as np
import polars
import dynid
from dynid import Motion, identify, load_robot, read_log, simulate

robot = load_robot("puma560")
rng = np.random.default_rng(0)
t = np.arange(0.0, 10.0, 0.005)
w, phase = rng.uniform(1.0, 4.0, (3, 6)), rng.uniform(0.0, 6.0, (3, 6))
def derivative(d):
    return sum(0.4 * w[k] ** d * np.sin(w[k] * t[:, None] + phase[k] + d * np.pi / 2) for k in range(3))
q, v, a = (derivative(d) for d in range(3))
log = simulate(robot, Motion(t, q, v, a), noise=0.1)
table = {"t": log.t} | {f"{name}{j + 1}": x[:, j] for name, x in (("q", log.q), ("tau", log.tau)) for j in range(6)}
file = os.path.join(tempfile.mkdtemp(), "log.csv")
polars.DataFrame(table).write_csv(file)
def way():
    robot = load_robot("puma560")
    str(identify(robot, read_log(file, robot)).verdict)
way()
root, seen = os.path.dirname(dynid.__file__), {}
def note(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        seen.setdefault(os.path.relpath(frame.f_code.co_filename, root))
sys.setprofile(note)
way()
sys.setprofile(None)
print("\\n".join(seen))
"""
"""From files to a verdict, profiled: prints the modules in the order of their first call."""


def modules(root: Path) -> dict[str, ast.Module]:
    """Syntax trees of all modules below the package's folder, by dotted name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = ".".join(("dynid", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Who imports a module, anywhere in its code; the public front `dynid` does not count."""
    users: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in trees:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    users[inner if inner in trees else node.module].add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    users[alias.name].add(name)
    return {name: users[name] - {"dynid", name} for name in trees}


def long_signatures(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Functions with more than 6 positional arguments, `self` and `cls` left out."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
                if len(arguments) > 6:
                    yield f"{name}.{node.name} ({len(arguments)})"


def message_readers(root: Path) -> Iterator[str]:
    """Lines of the source that look into a message."""
    for path in sorted(root.rglob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if LOOKS_INTO_MESSAGE.search(line):
                yield f"{path.relative_to(root)}:{number} {line.strip()}"


def way_of_a_sample(source: Path) -> list[str]:
    """Modules from reading a file to a verdict, in the order of their first call."""
    environment = os.environ | {"PYTHONPATH": str(source), "DYNID_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", WAY], env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    return run.stdout.split()


def measure(source: Path) -> dict[str, list[str]]:
    """The places behind every figure, for the source folder that holds `dynid`."""
    root = source / "dynid"
    trees = modules(root)
    packages = {".".join(name.split(".")[:-1]) for name in trees}
    way = way_of_a_sample(source)
    inside = [module for module in way if os.sep in module]  # messages, errors and the like are in no package
    changes = [f"{a} -> {b}" for a, b in pairwise(inside) if a.split(os.sep)[0] != b.split(os.sep)[0]]
    return dict(
        zip(
            LIMITS,
            (
                list(trees),
                [f"{m} <- {min(u)}" for m, u in importers(trees).items() if len(u) == 1 and m not in packages],
                list(long_signatures(trees)),
                list(message_readers(root)),
                changes,
            ),
            strict=True,
        )
    )


def revision(name: str, folder: Path) -> Path:
    """Source folder of another revision, unpacked."""
    archive = subprocess.run(["git", "archive", name, "src"], capture_output=True, check=True, timeout=60).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True, timeout=60)
    return folder / "src"


def main() -> None:
    """Print the figures, and with --list the places behind them."""
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__)
    parser.add_argument("--before", metavar="REV", help="a revision to compare with")
    parser.add_argument("--list", action="store_true", help="show the places behind every figure but the first")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the places to this file")
    chosen = parser.parse_args()
    now = measure(Path(__file__).resolve().parent.parent / "src")
    with tempfile.TemporaryDirectory() as folder:
        then = measure(revision(chosen.before, Path(folder))) if chosen.before else None
    for name, limit in LIMITS.items():
        before = f"{len(then[name]):>8}" if then else ""
        print(f"{name:<52}{before}{len(now[name]):>8}   (at most {limit})")
        if chosen.list and name != "source files":
            print(*(f"    {place}" for place in now[name]), sep="\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
