"""Random robots with 0 to 3 loops: exact and sampled base parameters, symbols against numbers, explanations tried out.

`python -m campaign.closed_robots FIRST COUNT [--explain] [--json FILE]`: seeds FIRST to FIRST + COUNT - 1, but
those in FILE; exit 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

from campaign.robots import ANGLES, GRAVITIES  # noqa: E402
from dynid import Robot, base_parameters  # noqa: E402
from dynid.concurrency import flint_precision  # noqa: E402
from dynid.errors import DynidError, UndecidedError  # noqa: E402
from dynid.identifiability.explanation import changed_question, explain  # noqa: E402
from dynid.identifiability.loop_geometry import balls_around  # noqa: E402
from dynid.identifiability.loops import _RegressorWriter  # noqa: E402
from dynid.identifiability.numeric import Question, draw_rows  # noqa: E402
from dynid.identifiability.parameters import BaseParameters  # noqa: E402
from dynid.identifiability.symbolic_numbers import Form  # noqa: E402
from dynid.robot.expression import evaluate_expression  # noqa: E402
from dynid.robot.io.toml_table import build_robot  # noqa: E402
from dynid.robot.mdh import mdh_transform  # noqa: E402
from dynid.robot.transform import Array, freeze  # noqa: E402

MODELS = ("torque", "energy", "momentum", "reaction", "torque+reaction")
VALUES = 20
KINDS = ("parallelogram", "gears", "four-bar", "slider-crank")


class _Table:
    """A table that grows joint by joint, every length a symbol of its own."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.joints: list[dict[str, Any]] = []
        self.couplings: list[dict[str, Any]] = []
        self.closures: list[dict[str, Any]] = []
        self.symbols: dict[str, float] = {}
        self.at: dict[int, float] = {}

    def length(self, value: float) -> str:
        """Name of a new symbol with a value."""
        name = f"L{len(self.symbols) + 1}"
        self.symbols[name] = float(value)
        return name

    def some_length(self) -> str | float:
        """A random length, half of them zero."""
        return self.length(round(float(self.rng.uniform(0.1, 1.0)), 3)) if self.rng.random() < 0.5 else 0.0

    def angle(self) -> float:
        """A random angle, most of them right."""
        return float(self.rng.choice(ANGLES)) if self.rng.random() < 0.85 else round(float(self.rng.uniform(-3, 3)), 2)

    def joint(self, parent: int, **row: Any) -> int:
        """Add a joint; return its number from 1."""
        self.joints.append({"parent": parent, **row})
        return len(self.joints)

    def arm(self, count: int) -> None:
        """Add a chain or tree of so many joints."""
        serial = self.rng.random() < 0.7
        for j in range(count):
            row: dict[str, Any] = {"alpha": self.angle(), "d": self.some_length(), "r": self.some_length()}
            parent = j if serial or not j else int(self.rng.integers(0, j + 1))
            if parent != j:
                row |= {"gamma": self.angle(), "b": self.some_length()}
            self.joint(parent, type="prismatic" if self.rng.random() < 0.2 else "revolute", **row)

    def loop(self, kind: str) -> None:
        """Add a planar loop on a random link: crank, coupler and rocker, or crank, rod and slider."""
        rng, parent = self.rng, int(self.rng.integers(0, len(self.joints) + 1))
        place = {"gamma": self.angle(), "alpha": self.angle(), "r": self.some_length()}
        d, at = round(float(rng.uniform(0.1, 0.5)), 3), round(float(rng.choice([-1, 1]) * rng.uniform(0.5, 2.4)), 3)
        ground, crank = (round(float(x), 3) for x in rng.uniform(0.3, 0.9, 2))
        coupler, rocker = ground, crank
        if kind == "four-bar":
            coupler, rocker = (round(float(x), 3) for x in rng.uniform(0.8, 1.2, 2))
        D = self.length(d)
        if kind == "slider-crank":
            return self._slider_crank(parent, place, D, crank, at)
        G, B = self.length(ground), self.length(crank)
        one = self.joint(parent, d=D, **place)
        two = self.joint(one, d=B)
        three = self.joint(parent, d=f"{D} + {G}", **place)
        if kind == "gears":
            self.couplings += [
                {"passive": str(two), "of": {str(one): -1.0}}, {"passive": str(three), "of": {str(one): 1.0}}
            ]  # fmt: skip
            return None
        pin = crank * np.array([math.cos(at), math.sin(at)])
        across = np.array([ground, 0.0]) - pin
        far = float(np.hypot(*across))
        lean = math.acos(max(-1.0, min(1.0, (far**2 + coupler**2 - rocker**2) / (2 * far * coupler))))
        angles = [math.atan2(across[1], across[0]) + sign * lean for sign in (1.0, -1.0)]
        ends = [pin + coupler * np.array([math.cos(x), math.sin(x)]) - (ground, 0.0) for x in angles]
        k = int(np.argmin([abs(math.remainder(math.atan2(e[1], e[0]) - at, math.tau)) for e in ends]))
        C, R = (G, B) if kind == "parallelogram" else (self.length(coupler), self.length(rocker))
        start = [angles[k] - at, math.atan2(ends[k][1], ends[k][0])]
        return self._close(two, three, [[C, 0.0, 0.0], [R, 0.0, 0.0]], start, one, at)

    def _slider_crank(self, parent: int, place: dict[str, Any], D: str, crank: float, at: float) -> None:
        """Add a crank, a rod and a slider through the crank's axis."""
        rod = round(float(self.rng.uniform(1.0, 1.5)), 3)
        one = self.joint(parent, d=D, **{**place, "alpha": 0.0, "gamma": 0.0})
        two = self.joint(one, d=self.length(crank))
        three = self.joint(parent, type="prismatic", gamma=math.pi / 2, alpha=math.pi / 2, b=place["r"])
        lean = -math.asin(crank / rod * math.sin(at))
        start = [lean - at, crank * math.cos(at) + rod * math.cos(lean) + self.symbols[D]]
        self._close(two, three, [[self.length(rod), 0.0, 0.0], [0.0, 0.0, 0.0]], start, one, at)

    def _close(self, two: int, three: int, points: list[list[Any]], start: list[float], one: int, at: float) -> None:
        """Add a closure between two links."""
        self.at[one] = at
        self.closures.append({
            "frames": [str(two), str(three)], "points": points, "keep": ["x", "y"], "passive": [str(two), str(three)],
            "start": start,
        })  # fmt: skip

    def robot(self, gravity: tuple[float, ...]) -> Robot:
        """The robot of the table."""
        passive = {name for c in self.closures for name in c["passive"]} | {c["passive"] for c in self.couplings}
        active = [k for k in range(1, len(self.joints) + 1) if str(k) not in passive]
        if self.closures:
            self.closures[0]["at"] = [self.at.get(k, 0.3) for k in active]
        data = {
            "name": "closed", "gravity": list(gravity), "symbols": self.symbols, "joint": self.joints,
            "coupling": self.couplings, "closure": self.closures,
        }  # fmt: skip
        return build_robot(data, file="table", name="closed", snap=False)


def closed_robot(seed: int) -> Robot:
    """A robot of up to three joints and up to three planar loops, on each other or side by side."""
    rng = np.random.default_rng(seed)
    table = _Table(rng)
    loops = seed % 4
    table.arm(int(rng.integers(0 if loops else 2, 4 if loops else 7)))
    for _ in range(loops):
        table.loop(str(rng.choice(KINDS)))
    return table.robot(GRAVITIES[int(rng.integers(len(GRAVITIES)))])


def with_values(robot: Robot, values: dict[str, float]) -> Robot:
    """The robot with other values of its symbols."""
    links = []
    for link in robot.links:
        row = link.mdh
        assert row is not None
        fresh = {
            k: x if x.text is None else replace(x, value=evaluate_expression(x.text, values))
            for k, x in (("b", row.b), ("d", row.d), ("r", row.r))
        }
        row = replace(row, **fresh)
        links.append(replace(link, mdh=row, placement=mdh_transform(row)))
    closures = []
    for c in robot.closures:
        flat = [float(x) for point in c.points for x in point]
        x = [evaluate_expression(t, values) if t else y for t, y in zip(c.texts or [""] * 6, flat, strict=True)]
        closures.append(replace(c, points=(freeze(x[:3]), freeze(x[3:]))))
    return replace(robot, links=tuple(links), closures=tuple(closures), symbols=values)


def check(seed: int) -> dict[str, Any]:
    """Facts about robot `seed`; `wrong` says what does not hold."""
    robot, rng = closed_robot(seed), np.random.default_rng(seed + 1)
    model = MODELS[seed // 4 % len(MODELS)]
    rotors, tared = bool(rng.random() < 0.5), "reaction" in model and bool(rng.random() < 0.5)
    facts: dict[str, Any] = {"seed": seed, "loops": seed % 4, "model": model, "joints": len(robot.links), "wrong": []}
    try:
        exact = base_parameters(robot, model=model, rotor_inertia=rotors, tared=tared)
    except DynidError as error:
        return facts | {"refused": str(error)}
    sampled = base_parameters(robot, model=model, method="qr", rotor_inertia=rotors, tared=tared)
    facts |= {"method": exact.method, "count": exact.count, "sampled": sampled.count, "warned": len(sampled.warnings)}
    facts["agree"] = exact.names == sampled.names
    if not facts["agree"] and not sampled.warnings:
        facts["wrong"].append(f"exact {exact.count}, sampled {sampled.count} without a warning")
    facts |= check_symbols(exact, rng)
    if facts["error"] is not None and not facts["error"] <= 1e-12:
        facts["wrong"].append(f"forms miss the rows by {facts['error']:.1e}")
    return facts


def check_symbols(base: BaseParameters, rng: np.random.Generator) -> dict[str, Any]:
    """Largest error of the relations with symbols at random values, and how many coefficients have no form.

    The error is that of the model's sampled rows, W = W_kept M, over the size of their terms. Closures close to
    rounding only, which rows in doubles amplify: there the rows are balls with 100 digits at a position of each
    geometry, and at one geometry the numbers of the exact method are compared one by one.
    """
    robot = base.robot
    if not robot.symbols:
        return {"error": None, "numbers": 0, "refused_values": 0}
    forms = base.coefficients
    numbers = sum(not isinstance(x, Form) for row in forms.values() for x in row.values())
    error, refused, tried = 0.0, 0, 0
    in_balls = bool(robot.closures or numbers)
    for k in range(2 * VALUES):
        if tried == VALUES:
            break
        values = {name: round(x * (1.0 + 0.04 * rng.uniform(-1.0, 1.0)), 9) for name, x in robot.symbols.items()}
        other = with_values(robot, values)
        M = np.zeros((base.count, len(base.columns)))
        for i, row in enumerate(base.kept):
            for c, x in forms[row].items():
                M[i, c] = x.evaluate(values) if isinstance(x, Form) else np.nan
        try:
            if in_balls and not tried:
                error = max(error, _numbers_off(base, other, M))
            off = _balls_off(base, other, M, k) if in_balls else _rows_off(base, other, M, k)
        except DynidError:
            refused += 1
            continue
        error, tried = max(error, off), tried + 1
    return {"error": error, "numbers": numbers, "values": tried, "refused_values": refused}


def _numbers_off(base: BaseParameters, other: Robot, M: Array) -> float:
    """Largest difference between forms and the exact method's numbers for another geometry, relative above 1."""
    question = base.question
    exact = base_parameters(other, model=question.model, rotor_inertia=question.rotor_inertia, tared=question.tared)
    if exact.kept != base.kept:  # equal lengths that the mechanism needs were changed
        raise UndecidedError("other_columns", "this geometry keeps other columns")
    off = np.abs(M - exact.regrouping.matrix) / np.maximum(np.abs(exact.regrouping.matrix), 1.0)
    return float(np.nanmax(off, initial=0.0))


def _balls_off(base: BaseParameters, other: Robot, M: Array, seed: int) -> float:
    """Largest of |W_kept M - W| over the size of its terms, entry by entry, of rows in long arithmetic."""
    with flint_precision(340):
        writer = _RegressorWriter(replace(base.question, robot=other), seed)
        W = writer.rows_at_new_positions(2 if writer.offsets else 1)[:, writer.offsets :]
        if writer.offsets:  # a free offset takes what is the same at two positions
            half = len(W) // 2
            W = W[:half] - W[half:]
        known = np.flatnonzero(~np.isnan(M).any(axis=0))
        kept, M = W[:, list(base.kept)], M[:, known]
        exact = balls_around(M, M.shape)
        off, size = kept @ exact - W[:, known], abs(kept) @ abs(exact) + abs(W[:, known])
        return max(
            (float(x.abs_upper()) / float(y.abs_upper()) for x, y in zip(off.flat, size.flat, strict=True) if y != 0),
            default=0.0,
        )


def _rows_off(base: BaseParameters, other: Robot, M: Array, seed: int) -> float:
    """Largest of |W_kept M - W| over the largest term, of sampled rows."""
    question = base.question
    W = draw_rows(replace(question, robot=other, tared=False), 3 * base.count + 6, seed).matrix
    kept = W[:, list(base.kept)]
    off = _without_constants(kept @ M - W, question)
    size = np.abs(kept) @ np.abs(M) + np.abs(W)
    return float(np.abs(off).max(initial=0.0) / max(size.max(initial=0.0), 1e-300))


def _without_constants(off: Array, question: Question) -> Array:
    """Rows of the base less their means over the samples where the plate is tared."""
    if not question.tared:
        return off
    n = question.robot.n if question.model == "torque+reaction" else 0
    samples = len(off) // (6 + n)
    torque, reaction = off[: n * samples], off[n * samples :].reshape(samples, 6, -1)
    return np.concatenate([torque, (reaction - reaction.mean(axis=0)).reshape(-1, off.shape[1])])


def check_explanation(seed: int) -> dict[str, Any]:
    """Do what the explanation of a random parameter of robot `seed` says, and look at sampled rows of the model."""
    robot, rng = closed_robot(seed), np.random.default_rng(seed + 2)
    facts: dict[str, Any] = {"seed": seed, "loops": seed % 4, "wrong": [], "trials": 0, "revealing": 0}
    model = "torque" if rng.random() < 0.8 else "reaction"
    try:
        base = base_parameters(robot, model=model)
    except DynidError as error:
        return facts | {"refused": str(error)}
    away = [*base.regrouped, *base.no_effect]
    if not away:
        return facts
    name = str(rng.choice([str(x) for x in away]))
    found = explain(base, name)
    facts |= {"parameter": name, "status": found.status, "rule": found.rule}
    c = base.columns.index(found.parameter)
    z = np.zeros(len(base.columns))
    for parameter, x in found.changes[0].items():
        z[base.columns.index(parameter)] = x
    if _is_seen(base.question, z) is not False:
        facts["wrong"].append("the change that nobody sees shows")
    for trial in found.trials:
        question = changed_question(base, trial)
        if trial.kind == "geometry":
            seen = _is_independent(question, c, base.kept)
        else:
            seen = _is_seen(question, z)
        facts["trials"] += 1
        facts["revealing"] += trial.revealed
        if seen is None:
            continue
        if seen != trial.revealed:
            facts["wrong"].append(f"{trial.what}: said {trial.revealed}, rows say {seen}")
    return facts


def _rows(question: Question) -> Array | None:
    """Sampled rows of a model without what free offsets take; None where loops do not close."""
    try:
        W = draw_rows(replace(question, tared=False), 3 * len(question.columns), 5).matrix
    except DynidError:
        return None
    return _without_constants(W, question) if question.tared and question.channels is None else W


def _is_seen(question: Question, z: Array) -> bool | None:
    """Whether a change of the parameters shows in sampled rows, by more than their rounding."""
    W, whole = _rows(question), _rows(replace(question, tared=False))
    if W is None or whole is None:
        return None
    size = float(np.abs(whole).max(initial=0.0) * np.abs(z).max(initial=0.0))
    return bool(np.abs(W @ z).max(initial=0.0) > 1e-9 * size)


def _is_independent(question: Question, c: int, kept: tuple[int, ...]) -> bool | None:
    """Whether a column of sampled rows is no combination of others."""
    W = _rows(question)
    if W is None:
        return None
    size = np.linalg.norm(W, axis=0)
    seen = size > 1e-12 * size.max()
    if not seen[c]:
        return False
    others = [k for k in kept if seen[k]]
    A, x = W[:, others] / size[others], W[:, c] / size[c]
    return bool(np.linalg.norm(x - A @ np.linalg.lstsq(A, x, rcond=1e-11)[0]) > 1e-7)


def main() -> None:
    """Check the seeds that the file lacks, and print what is wrong and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    lines = given.json.read_text().splitlines() if given.json and given.json.exists() else []
    done = {facts["seed"]: facts for facts in map(json.loads, lines)}
    for seed in range(given.first, given.first + given.count):
        if seed in done:
            continue
        begin = time.process_time()
        try:
            facts = check_explanation(seed) if given.explain else check(seed)
        except Exception as error:  # any crash of a random robot is a finding of the campaign
            facts = {"seed": seed, "loops": seed % 4, "wrong": [f"{type(error).__name__}: {error}"]}
        facts["seconds"] = round(time.process_time() - begin, 3)
        done[seed] = facts
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps(facts) + "\n")
        if facts["wrong"]:
            print(seed, facts["wrong"], flush=True)
    wrong = [facts for facts in done.values() if facts["wrong"]]
    refused = sum("refused" in facts for facts in done.values())
    print(
        f"{len(done)} robots, {len(wrong)} wrong, {refused} refused, {sum(f['seconds'] for f in done.values()):.0f} s"
    )
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
