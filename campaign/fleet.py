"""A simulated fleet: robots of one kind, weeks of production, half of which change somewhere.

`python -m campaign.fleet [--robots N] [--weeks N] [--seconds S] [--kind puma560] [--plain] [--seed N]
[--damaged SHARE] [--workers N | --scheduler ADDRESS] [--folder DIR] [--adding] [--memory] [--scaling]`: writes the
logs, identifies the fleet and prints false alarms before control of the false discovery rate, power, attribution and
sizes of states. Torques have coloured noise and friction that the model lacks; viscous friction varies by 5 %.
--adding: CPU time of one more log over that of identifying it alone; --memory: peak of a process that reads a log of
10,000 s; --scaling: gain of two workers over that of two independent processes. What is in DIR is not made again.

Exit 1 where a figure is outside its limits.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import scipy.signal

from campaign.arms import Truth, true_robot
from dynid import Fleet, Motion, Robot, identify, identify_fleet, payload_parameters
from dynid.dynamics.regressor import regressor_chunks
from dynid.robot.inertia import SYMBOLS
from dynid.robot.transform import Array

RATE, SECONDS = 100.0, 60.0
NAME = "puma560"


@dataclass(frozen=True)
class Change:
    """What changes on a robot from a week on: kind, joint (from 1; 0 for the payload) and size (kg, or a share)."""

    kind: str
    joint: int
    size: float
    week: int


@cache
def truth_of_kind(name: str = NAME) -> Truth:
    """The robot as designed."""
    return true_robot(name, 0)


def given_robot(name: str = NAME) -> Robot:
    """The robot file of the fleet: geometry, no values."""
    robot = truth_of_kind(name).robot
    return robot.with_parameters(np.full(len(robot.parameters), np.nan))


def truth_of_robot(number: int, seed: int = 0, name: str = NAME) -> Truth:
    """One robot: links within 2 % of the design, friction within 15 %."""
    design, rng = truth_of_kind(name), np.random.default_rng([seed, number, 1])
    n = design.robot.n
    links = np.repeat(1.0 + 0.02 * rng.standard_normal(n), 11)
    dry, viscous = (x * np.exp(0.15 * rng.standard_normal(n)) for x in (design.dry, design.viscous))
    return replace(
        design, robot=design.robot.with_parameters(design.robot.parameters * links), dry=dry, viscous=viscous
    )


def random_motion(robot: Robot, rng: np.random.Generator, seconds: float = SECONDS) -> Motion:
    """Production: sums of sines of any frequency between .05 and .6 Hz, within the limits."""
    t = np.arange(round(seconds * RATE)) / RATE
    lower, upper = (np.array([getattr(link.limits, end) for link in robot.links]) for end in ("lower", "upper"))
    fastest = np.array([link.limits.velocity for link in robot.links])
    w = 2.0 * np.pi * rng.uniform(0.05, 0.6, (6, robot.n))
    phase, size = rng.uniform(0.0, 2.0 * np.pi, w.shape), rng.uniform(0.5, 1.0, w.shape) / w**0.5
    angle = w[None] * t[:, None, None] + phase[None]
    s, c = np.sin(angle), np.cos(angle)
    q, v, a = (size * s).sum(axis=1), (size * w * c).sum(axis=1), -(size * w**2 * s).sum(axis=1)
    most = np.minimum(0.5 * (upper - lower) / np.abs(q).max(axis=0), fastest / np.abs(v).max(axis=0))
    scale = most * rng.uniform(0.6, 1.0, robot.n)
    return Motion(t, 0.5 * (lower + upper) + q * scale, v * scale, a * scale)


def friction_torque(truth: Truth, motion: Motion, warmth: float) -> Array:
    """Stribeck's hump, dry friction that depends on the position, viscous friction that is not linear."""
    v = motion.v
    hump = 1.0 + 0.3 * np.exp(-((v / 0.15) ** 2)) + 0.1 * np.sin(2.0 * motion.q + 1.0)
    return np.asarray(truth.dry * hump * np.tanh(v / 0.01) + warmth * truth.viscous * np.sign(v) * np.abs(v) ** 0.9)


def coloured_noise(shape: tuple[int, int], rng: np.random.Generator, memory: float = 0.2) -> Array:
    """Noise of unit variance: half of it white, half with a memory (s)."""
    rho = np.exp(-1.0 / (memory * RATE))
    slow = scipy.signal.lfilter([np.sqrt(1.0 - rho**2)], [1.0, -rho], rng.standard_normal(shape), axis=0)
    return np.asarray((slow + rng.standard_normal(shape)) / np.sqrt(2.0))


@dataclass(frozen=True)
class Made:
    """How a fleet is made: kind of robot, seconds of a log, seed."""

    name: str = NAME
    seconds: float = SECONDS
    seed: int = 0


USUAL = Made()


def week_of_log(number: int, week: int, change: Change | None = None, made: Made = USUAL) -> pl.DataFrame:
    """One log: time, positions, velocities, torques, temperature of the gears in degrees Celsius."""
    seed = made.seed
    rng = np.random.default_rng([seed, number, week, 2])
    truth = truth_of_robot(number, seed, made.name)
    robot, X, dry, gain = truth.robot, truth.robot.parameters.copy(), truth.dry.copy(), np.ones(truth.robot.n)
    warm = 1.0 + 0.05 * rng.standard_normal()
    viscous = truth.viscous.copy()
    zero = np.zeros(robot.n)
    if change is not None and week >= change.week:
        j = change.joint - 1
        match change.kind:
            case "payload":
                where = np.random.default_rng([seed, number, 3]).uniform(-0.03, 0.03, 3) + np.array([0.0, 0.0, 0.05])
                p = payload_parameters(change.size, where, tuple(4e-4 * change.size * np.array([1, 0, 0, 1, 0, 1])))
                X[[robot.parameter_names.index(robot.links[-1].parameter(symbol)) for symbol in SYMBOLS]] += p
            case "coulomb":
                dry[j] *= 1.0 + change.size
            case "viscous":
                viscous[j] *= 1.0 + change.size
            case "gain":
                gain[j] += change.size
            case "zero":
                zero[j] = change.size
    motion = random_motion(robot, rng, made.seconds)
    tau = np.concatenate([(W.matrix @ X).reshape(-1, robot.n) for W in regressor_chunks(robot, motion)])
    tau += friction_torque(replace(truth, dry=dry, viscous=viscous), motion, warm)
    tau = gain * tau + 0.015 * tau.std(axis=0) * coloured_noise(tau.shape, rng)
    tick = 2.0 * np.pi / 2**18
    q = np.round((motion.q + zero) / tick + 0.3 * rng.standard_normal(tau.shape)) * tick
    v = motion.v + 0.003 * motion.v.std(axis=0) * rng.standard_normal(tau.shape)
    columns = {"t": motion.t}
    for name, values in (("q", q), ("v", v), ("tau", tau)):
        columns |= {f"{name}{j + 1}": values[:, j] for j in range(robot.n)}
    columns["temperature"] = 40.0 - 100.0 * (warm - 1.0) + rng.standard_normal(len(tau)) * 0.1
    return pl.DataFrame(columns)


def week_name(week: int) -> str:
    """Name of a week, counted from 0."""
    return f"2026-W{week + 1:02d}"


def robot_name(number: int) -> str:
    """Name of a robot, counted from 0."""
    return f"R{number:03d}"


def write_fleet(
    folder: Path, robots: int, weeks: int, changes: dict[int, Change] | None = None, made: Made = USUAL
) -> Iterator[Path]:
    """Write logs in Hive layout, file by file; yield their names."""
    for number in range(robots):
        for week in range(weeks):
            place = folder / f"robot={robot_name(number)}" / f"week={week_name(week)}"
            place.mkdir(parents=True, exist_ok=True)
            file = place / "log.parquet"
            if not file.exists():
                part = file.with_suffix(".part")
                week_of_log(number, week, (changes or {}).get(number), made).write_parquet(part)
                part.rename(file)
            yield file


# The campaign.


PLAIN = ("viscous", "coulomb", "offset")
BASELINE = 4
KINDS = ("payload", "coulomb", "gain", "viscous", "zero")
SIZES = {"payload": 0.1, "coulomb": 0.1, "gain": -0.05, "viscous": 0.4, "zero": 0.02}
"""kg, shares, and rad of a zero that moved, which no hypothesis explains."""

FALSE_ALARMS, POWER, RIGHT, LARGEST = (0.003, 0.02), 0.8, 0.9, 2_000_000


def draw_changes(robots: int, weeks: int, made: Made) -> dict[int, Change]:
    """Changes of every second robot, of all kinds in turn, from some week after the baseline on."""
    changes = {}
    n = truth_of_kind(made.name).robot.n
    for number in range(1, robots, 2):
        rng = np.random.default_rng([made.seed, number, 4])
        kind = KINDS[number // 2 % len(KINDS)]
        joint = 0 if kind == "payload" else int(rng.integers(1, n + 1)) if kind != "zero" else 2
        changes[number] = Change(kind, joint, SIZES[kind], int(rng.integers(BASELINE, weeks)))
    return changes


def write_robot(folder: str, number: int, weeks: int, change: Change | None, made: Made, damaged: float) -> int:
    """Write all logs of one robot; a share of them damaged."""
    own = Path(folder)
    place = own / f"robot={robot_name(number)}"
    for week in range(weeks):
        file = place / f"week={week_name(week)}" / "log.parquet"
        if file.exists():
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        week_of_log(number, week, change, made).write_parquet(part)
        rng = np.random.default_rng([made.seed, number, week, 5])
        if rng.uniform() < damaged:
            whole = part.read_bytes()
            part.write_bytes(whole[: int(rng.uniform(0.0, 0.9) * len(whole))])
        part.rename(file)
    return number


def judge(fleet: Fleet, changes: dict[int, Change]) -> int:
    """Print false alarms, power and attribution; return how many figures are outside their limits."""
    names = {robot_name(number): change for number, change in changes.items()}
    false, own = list[float](), defaultdict[str, list[float]](list)
    words = {"coulomb": "Coulomb friction of joint {}", "viscous": "viscous friction of joint {}",
             "gain": "gain of joint {}", "payload": "payload", "zero": "not explained"}  # fmt: skip
    said: dict[str, Counter[bool]] = defaultdict(Counter)
    admitted = {(row["robot"], row["period"]) for row in fleet.changes().iter_rows(named=True)}
    wrong_discoveries = 0
    for robot, period, what, _, _, p in fleet.tests().rows():
        change = names.get(robot)
        changed = change is not None and period >= week_name(change.week)
        wrong_discoveries += not changed and (robot, period) in admitted
        if change is None or not changed:
            false.append(p)
            continue
        own[change.kind].append(p)
        if (robot, period) in admitted:
            said[change.kind][what == words[change.kind].format(change.joint)] += 1
    figures = []
    share = float(np.mean(np.array(false) < 0.01))
    _say(f"untouched periods: {len(false)}, of which p < 1 %: {100.0 * share:.2f} % (limits .3 to 2 %); "
         f"p < 5 %: {100.0 * np.mean(np.array(false) < 0.05):.1f} %")  # fmt: skip
    figures.append(FALSE_ALARMS[0] <= share <= FALSE_ALARMS[1])
    right = total = 0
    for kind in KINDS:
        if not own[kind]:
            continue
        power = float(np.mean(np.array(own[kind]) < 0.01))
        hits, count = said[kind][True], said[kind][True] + said[kind][False]
        _say(f"{kind:8s} {SIZES[kind]:+.3g}: {len(own[kind])} periods, power {100.0 * power:.1f} % at p < 1 %, "
             f"{count} admitted, attributed rightly {hits}")  # fmt: skip
        if kind in ("payload", "coulomb"):
            figures.append(power >= POWER)
        if kind != "zero":
            right, total = right + hits, total + count
    _say(f"attribution right: {right} of {total} detected changes; false among {len(admitted)} admitted: "
         f"{wrong_discoveries}")  # fmt: skip
    figures.append(right >= RIGHT * total)
    largest = max(file.stat().st_size for file in fleet.folder.rglob("*.state"))
    _say(f"largest state {largest / 1e6:.2f} MB; refused logs {len(fleet.rejected)}")
    figures.append(largest <= LARGEST)
    return figures.count(False)


def measure_adding(fleet: Fleet, data: Path, made: Made, options: dict[str, object]) -> int:
    """CPU time of adding one log to a fleet over that of identifying it alone; whether it is above the limit.

    Alone with the options of the fleet, and with friction and cut-off given, which are chosen otherwise.
    """
    robot = given_robot(made.name)
    identify_fleet(robot, data, out=fleet.folder, workers=1, **options)  # type: ignore[arg-type]
    ratios = []
    state, week = fleet.plan.state, 1000 + time.time_ns() % 10**9
    for turn in range(5):
        place = data / f"robot={fleet.robots[turn % len(fleet.robots)]}" / f"week=2099-W{turn:02d}"
        place.mkdir(parents=True, exist_ok=True)
        week_of_log(turn, week + turn, None, made).write_parquet(place / "log.parquet")
        times = [time.process_time()]
        identify(robot, place / "log.parquet", friction=options["friction"])  # type: ignore[arg-type]
        times.append(time.process_time())
        identify(robot, place / "log.parquet", friction=state.equation.friction, cutoff=state.cutoff)
        times.append(time.process_time())
        more = identify_fleet(robot, data, out=fleet.folder, workers=1, **options)  # type: ignore[arg-type]
        times.append(time.process_time())
        assert more.computed == 1
        alone, given, added = np.diff(times)
        ratios.append((added / alone, added / given))
        shutil.rmtree(place)
    usual, least = np.median(ratios, axis=0)
    _say(f"one more log in a fleet of {len(fleet.results)} over identifying it alone, CPU time, median of 5: "
         f"{usual:.2f} (limit 1.5), {least:.2f} where friction and cut-off are given to `identify`")  # fmt: skip
    return int(usual > 1.5)


def measure_memory(made: Made, seconds: float = 10_000.0) -> int:
    """Peak memory of a process that reads one long log; whether it is above 1 GB."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data" / "robot=R000" / "week=2026-W01"
        place.mkdir(parents=True)
        parts = [week_of_log(0, week, None, Made(made.name, 500.0, made.seed)) for week in range(int(seconds / 500.0))]
        frames = [part.with_columns(pl.col("t") + 500.0 * k) for k, part in enumerate(parts)]
        pl.concat(frames).write_parquet(place / "log.parquet")
        done = subprocess.run(
            [sys.executable, "-m", "campaign.fleet", "--peak", str(Path(folder) / "data"), "--kind", made.name],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    peak = float(done.stdout.split()[-1])
    _say(f"peak memory for a log of {seconds:.0f} s: {peak:.0f} MB (limit 1000)")
    return int(peak > 1000.0)


SHARE_OF_PROCESSES = 0.85


def measure_scaling(fleet: Fleet, data: Path, made: Made, options: dict[str, object], robots: int = 12) -> int:
    """Gain of two workers over that of two independent processes with half of the robots each; whether it is too low.

    All with the fleet's plan, from empty folders; wall time with the start and end of every process, both in turn.
    """
    code = (
        "import sys\nfrom campaign.fleet import *\nfrom dynid.fleet.data import find_logs\n"
        f"groups = find_logs({str(data)!r}, ('robot', 'week'))\n"
        "picked = [(g.robot, g.period, log) for g in groups if g.robot in sys.argv[3:] for log in g.logs]\n"
        f"robot, options = given_robot({made.name!r}), {options!r}\n"
        "identify_fleet(robot, picked, out=sys.argv[1], workers=int(sys.argv[2]), **options)\n"
    )
    some, runs = list(fleet.robots[:robots]), defaultdict[str, list[float]](list)
    kinds = {"one": ([some], 1), "two": ([some[::2], some[1::2]], 1), "workers": ([some], 2)}
    for name in ("one", "two", "workers", "workers", "two"):
        parts, workers = kinds[name]
        with tempfile.TemporaryDirectory(prefix="fleet-scaling-") as folder:
            outs = [Path(folder) / str(k) for k in range(len(parts))]
            for out in outs:
                out.mkdir()
                shutil.copy(fleet.folder / "plan.json", out)
            start = time.monotonic()
            started = [
                subprocess.Popen([sys.executable, "-c", code, str(out), str(workers), *part])
                for out, part in zip(outs, parts, strict=True)
            ]
            if any(process.wait() for process in started):
                raise SystemExit("a process failed")
            runs[name].append(time.monotonic() - start)
    times = {name: float(np.mean(several)) for name, several in runs.items()}
    gains = {name: times["one"] / times[name] for name in ("two", "workers")}
    share = gains["workers"] / gains["two"]
    _say(f"{len(some)} robots: one process {times['one']:.1f} s, two independent ones {times['two']:.1f} s (gain "
         f"{gains['two']:.2f}), two workers {times['workers']:.1f} s (gain {gains['workers']:.2f}): {share:.2f} of it "
         f"(limit {SHARE_OF_PROCESSES})")  # fmt: skip
    return int(share < SHARE_OF_PROCESSES)


def _say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; how many figures are outside their limits."""
    parser = argparse.ArgumentParser(prog="campaign.fleet")
    parser.add_argument("--robots", type=int, default=200)
    parser.add_argument("--weeks", type=int, default=26)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--kind", default=NAME, help="of robot, by name in campaign.arms")
    parser.add_argument("--plain", action="store_true", help="viscous, Coulomb and offset in place of the recipe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--damaged", type=float, default=0.01)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--scheduler", help="address of a Dask scheduler, for writing and identifying")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--adding", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    o = parser.parse_args(arguments)
    made = Made(o.kind, o.seconds, o.seed)
    robot = given_robot(o.kind)
    if o.peak:
        identify_fleet(robot, o.peak, workers=1, friction=PLAIN)
        _say(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0:.0f}")
        return 0
    with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
        folder = o.folder or Path(scratch)
        data, changes = folder / "data", draw_changes(o.robots, o.weeks, made)
        jobs = [(str(data), k, o.weeks, changes.get(k), made, o.damaged) for k in range(o.robots)]
        if o.scheduler:
            from distributed import Client

            with Client(o.scheduler) as client:
                client.gather([client.submit(write_robot, *job, pure=False) for job in jobs])
        else:
            for job in jobs:
                write_robot(*job)
        _say(f"{o.robots} robots x {o.weeks} weeks x {o.seconds:g} s written")
        options: dict[str, object] = {"baseline": BASELINE, "friction": PLAIN if o.plain else "auto"}
        start = time.monotonic()
        fleet = identify_fleet(
            robot,
            data,
            out=folder / "fleet",
            workers=o.workers,
            client=o.scheduler,
            **options,  # type: ignore[arg-type]
        )
        _say(f"{fleet}: {fleet.computed} periods computed in {time.monotonic() - start:.0f} s; {fleet.notes[0]}")
        wrong = judge(fleet, changes)
        fleet.report(folder / "fleet.html")
        if o.adding:
            wrong += measure_adding(fleet, data, made, options)
        if o.scaling:
            wrong += measure_scaling(fleet, data, made, options)
    return wrong + (measure_memory(made) if o.memory else 0)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
