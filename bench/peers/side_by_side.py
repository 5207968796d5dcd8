"""Base parameters by FIGAROH and by dynid: the same URDF, the same columns, turn by turn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.peers.environment import peers_python
from bench.peers.urdf import write_urdf
from bench.timing import ROUNDS, Cell, Table, Verdict, on_one_core, time_once
from dynid.identifiability.base_parameters import base_parameters
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot

ROBOTS = ("puma560", "panda")
SAMPLES = 1000
"""FIGAROH's examples draw ten times their recorded samples; its UR10 example has 100."""
FASTER = 20.0


def tables() -> Iterator[Table]:
    """Measure and return the table."""
    python = peers_python()
    with TemporaryDirectory() as folder, figaroh(python) as peer:
        files = {name: write_urdf(load_robot(name), Path(folder) / f"{name}.urdf") for name in ROBOTS}
        matches = [match for name, file in files.items() for match in matches_of(name, file)]
        for measured in range(ROUNDS + 1):
            for match in matches:
                match.play(peer, counts=measured > 0)  # the first round warms up
    for match in matches:
        match.check()
    drawing = [f"{m.robot} {m.answers[0]['drawing']:.2g} s" for m in matches if m.route == "spline"]
    yield Table(
        "Base parameters of the same URDF, with rotor inertias, milliseconds",
        (
            "robot",
            "FIGAROH 1.0.2",
            "samples",
            "found",
            "CPU",
            "regressor",
            "dynid",
            "found ",
            "CPU ",
            "FIGAROH / dynid",
        ),
        tuple(match.row() for match in matches),
        f"CPU time on one core, warm, robots loaded beforehand; best of {ROUNDS} rounds in which both take turns. "
        "FIGAROH: build_regressor_basic on random samples, get_index_eliminate, then get_baseIndex or (with "
        "expressions) get_baseParams. 'Its own spline': the samples and calls of its BaseParameterComputer, without "
        f"the time for drawing those samples (by rejection, so it varies; here {', '.join(drawing)}).",
    )


class Figaroh:
    """The peer's process, which answers one request after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, urdf: Path, route: str, samples: int) -> dict[str, float]:
        """Have it run a route once."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the peer was started without pipes")
        self.process.stdin.write(json.dumps({"urdf": str(urdf), "route": route, "samples": samples}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the peer ended; its own words are above")
        return {name: float(x) for name, x in json.loads(line).items()}


@contextmanager
def figaroh(python: Path) -> Iterator[Figaroh]:
    """Start the peer, and end it."""
    script = Path(__file__).with_name("figaroh_route.py")
    with subprocess.Popen(
        [str(python), "-W", "ignore", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Figaroh(process)


@dataclass(slots=True, eq=False)
class Match:
    """One route of FIGAROH against one call of dynid; figures in seconds of CPU."""

    robot: str
    urdf: Path
    theirs: str
    route: str
    samples: int
    ours: str
    run: Callable[[], int]
    limit: float | None = None
    answers: list[dict[str, float]] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)

    def play(self, peer: Figaroh, *, counts: bool) -> None:
        """Let both run once."""
        answer = peer.ask(self.urdf, self.route, self.samples)
        with on_one_core():
            spent = time_once(self._run_ours)
        if counts:
            self.answers.append(answer)
            self.spent.append(spent.cpu)

    def _run_ours(self) -> None:
        self.run()

    def check(self) -> None:
        """Raise unless both found as many: a timing of different work would say nothing."""
        theirs, ours = {int(answer["found"]) for answer in self.answers}, self.run()
        if theirs != {ours}:
            raise RuntimeError(f"{self.robot}, {self.theirs}: FIGAROH finds {sorted(theirs)}, dynid {ours}")

    def row(self) -> tuple[Cell, ...]:
        """Figures in ms."""
        best = min(self.answers, key=lambda answer: answer["cpu"])
        cpu, ours = best["cpu"] * 1e3, min(self.spent) * 1e3
        regressor = best["regressor"] * 1e3 if "regressor" in best else ""
        return (
            self.robot, self.theirs, int(best["samples"]), int(best["found"]), cpu, regressor,
            self.ours, self.run(), ours, Verdict(cpu / ours, self.limit, least=True),
        )  # fmt: skip


def matches_of(name: str, urdf: Path) -> list[Match]:
    """FIGAROH's ways, each against the call that gives as much."""
    robot = load_robot(str(urdf))
    few = -(-3 * len(robot.parameter_names) // robot.n)  # as many rows as dynid's qr takes
    by_default, by_qr = (lambda: base_parameters(robot).count), (lambda: base_parameters(robot, method="qr").count)
    return [
        Match(name, urdf, "base index", "index", SAMPLES, "default", by_default, FASTER),
        Match(name, urdf, "base index, its own spline", "spline", 0, "default", by_default, FASTER),
        Match(name, urdf, "with expressions", "expressions", SAMPLES, "default with relations", with_relations(robot)),
        Match(name, urdf, "base index", "index", SAMPLES, "qr", by_qr),
        Match(name, urdf, "base index, few samples", "index", few, "qr", by_qr),
    ]


def with_relations(robot: Robot) -> Callable[[], int]:
    """Return a call that also writes the relations."""

    def run() -> int:
        base = base_parameters(robot)
        return base.count if base.relations else 0

    return run
