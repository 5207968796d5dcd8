"""The main job on one robot, simulated: what can be known, a motion that shows it, a recording, parameters, a URDF."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base.find import base_parameters
from dynid.data.log import Log
from dynid.demo_recording import ENCODER, RATE, TORQUE_NOISE, record
from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.estimation.identify import identify
from dynid.excitation.design import design_excitation
from dynid.excitation.excitation import Excitation
from dynid.exports.export import export
from dynid.exports.verify import verify
from dynid.models.friction import PLAIN
from dynid.physical.find import physical_parameters
from dynid.physical.physical import PhysicalParameters
from dynid.report.excitation import write_page
from dynid.report.write import write_report
from dynid.robot.files import write_text
from dynid.robot.inertia import Body, from_body, pseudo_inertia
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


def show_main_job(robot: Robot, folder: Path) -> Iterator[str]:
    """Do it, write its files into a folder, and yield lines for a person."""
    _make_folder(folder)
    yield from base_figures(robot)
    real, said = with_values(robot)
    yield from said
    motion, other, lines = exciting_motions(robot)
    yield from lines
    motion.save(folder / "motion.csv")
    write_page(motion, folder / "motion.html")
    yield from identification_figures(robot, real, motion, other, folder)
    yield (
        f"look at {folder / 'report.html'} and {folder / 'motion.html'}; the recording is {folder / 'log.csv'}, "
        f"the whole result {folder / 'result.json'}, its bodies {folder / 'physical.json'}, the model for simulators "
        "robot.urdf (or .xml) beside them"
    )
    yield "next, on a robot of your own: dynid excite ROBOT --out traj.csv, record it, dynid identify ROBOT log.csv"


def _make_folder(folder: Path) -> None:
    """See before the work that files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DynidError(f"--out {folder}: cannot make this folder ({error.strerror}); choose another") from error
    if not os.access(folder, os.W_OK):
        raise DynidError(f"--out {folder}: no permission to write there; choose another folder")


def base_figures(robot: Robot) -> Iterator[str]:
    """Yield lines on what can be identified at all."""
    base = base_parameters(robot)
    yield (
        f"{robot.name}: {robot.n} active joints. Base parameters: {base.count} of {len(base.columns)}; "
        f"{len(base.no_effect)} have no effect, {len(base.regrouped)} show only in sums such as"
    )
    yield f"  {base.relations[0]}"


def with_values(robot: Robot, *, seed: int = 0) -> tuple[Robot, list[str]]:
    """The robot to be simulated: nominal values, or invented bodies where there are none, and some friction."""
    rng = np.random.default_rng(seed)
    said = []
    X = robot.parameters.copy()
    real = all(_is_body(link.inertia) for link in robot.links)
    if np.isnan(X).any() or not real:
        names = robot.parameter_names
        places = {name: k for k, name in enumerate(names)}
        for k, link in enumerate(robot.links):
            first = places["XX" + link.label]
            X[first : first + 10] = _invented_body(rng, 8.0 * 0.7**k)
        X = np.where(np.isnan(X), 0.1, X)
        X[[places[name] for name in robot.known_zeros]] = 0.0
        what = "values that no bodies have" if np.isfinite(robot.parameters).all() else "no masses"
        said.append(f"its table has {what}: solid bodies were invented for this demo")
    links = [
        replace(link, friction=link.friction or _some_friction(link.kind, rng)) if k in robot.active_links else link
        for k, link in enumerate(robot.with_parameters(X).links)
    ]
    return replace(robot, links=tuple(links)), said


def _some_friction(kind: str, rng: np.random.Generator) -> tuple[tuple[str, float], ...]:
    """Plain friction; no offset along a slide, where it cannot be told from a weight."""
    values = zip(PLAIN, rng.uniform(0.5, 2.0, 3).tolist(), strict=True)
    return tuple((name, x) for name, x in values if name != "offset" or kind == "revolute")


def _is_body(inertia: Array) -> bool:
    """Whether ten parameters are those of a body."""
    P = pseudo_inertia(inertia)
    return bool(np.isfinite(P).all() and np.linalg.eigvalsh(P)[0] > 0.0)


def _invented_body(rng: np.random.Generator, mass: float) -> np.ndarray:
    """A solid ellipsoid somewhere near the frame."""
    a, b, c = rng.uniform(0.05, 0.2, 3)
    inertia = mass / 5.0 * np.diag([b**2 + c**2, a**2 + c**2, a**2 + b**2])
    return np.asarray(from_body(Body(mass, rng.uniform(-0.15, 0.15, 3), inertia)))


def exciting_motions(robot: Robot) -> tuple[Excitation, Excitation, list[str]]:
    """A motion to identify with and another one to validate with."""
    limits = robot.limits
    velocity, acceleration = np.array(limits.velocity), np.array(limits.acceleration)
    said, assumed = [], []
    for values, name, usual in ((velocity, "velocity", 1.5), (acceleration, "acceleration", 5.0)):
        if not np.isfinite(values).all():
            values[~np.isfinite(values)] = usual
            assumed.append(f"{name} {usual:g}")
    if assumed:
        said.append(f"no limits were published for some joints; assumed for this demo: {', '.join(assumed)} (rad, s)")
    bounds = {"position": limits.position, "velocity": velocity, "acceleration": acceleration, "effort": limits.effort}
    found = design_excitation(robot, limits=bounds, rotor_inertia=True, starts=4)
    other = design_excitation(robot, limits=bounds, rotor_inertia=True, starts=1, seed=7)
    said.append(
        f"exciting motion: {found.duration:.1f} s from rest to rest, condition number {found.first_value:.0f} for a "
        f"random motion, {found.condition:.1f} for this one; all limits hold at every instant"
    )
    return found, other, said


def identification_figures(
    robot: Robot, real: Robot, motion: Excitation, other: Excitation, folder: Path
) -> Iterator[str]:
    """Record both motions, identify from one, validate on the other, compare with what was simulated."""
    log, by = record(real, motion, 1)
    second, _ = record(real, other, 2)
    write_log(log, folder / "log.csv")
    yield (
        f"simulated recording ({by}): {len(log)} samples at {RATE:.0f} Hz, positions with {1e6 * ENCODER:.0f} urad and "
        f"torques with {100 * TORQUE_NOISE:.0f} % of noise; velocities and accelerations are not recorded"
    )
    result = identify(robot, log, validate=second)
    result.save(folder / "result.json")
    base = result.equation.base
    true = dict(zip(base.names, base.values(real.parameters), strict=True))
    inside = [
        low <= true[name] <= high
        for name, (low, high) in zip(result.names, result.intervals, strict=True)
        if name in true
    ]
    yield (
        f"identified {result.base_rank} base parameters and {len(result.friction)} friction columns per joint; "
        f"cut-off {result.cutoff:.3g} Hz ({result.cutoff_reason})"
    )
    yield (
        f"true values inside the 95 % intervals: {sum(inside)} of {len(inside)}; mean error on another motion "
        f"{100 * result.validation.mean:.1f} % of the torques' deviation"
    )
    yield f"verdict: {result.verdict}"
    bodies, lines = bodies_figures(result, real, folder)
    yield from lines
    write_report(
        result, folder / "report.html", logs=log, validate=second, physical=bodies, command="dynid demo",
        inputs=[folder / "log.csv"],
    )  # fmt: skip


def bodies_figures(result: Identification, real: Robot, folder: Path) -> tuple[PhysicalParameters, list[str]]:
    """Find bodies that fit, and write the robot with them for simulators; they, and lines for a person."""
    mass = sum(float(link.inertia[9]) for link in real.links)
    bodies = physical_parameters(result, total_mass=mass)
    bodies.save(folder / "physical.json")
    return bodies, [
        f"bodies of all links that can exist, {mass:.1f} kg together as a scale would say: error on the recording "
        f"{100 * bodies.nrmse_before.mean():.2f} % before, {100 * bodies.nrmse_after.mean():.2f} % after",
        _exported(bodies, folder),
    ]


def _exported(bodies: PhysicalParameters, folder: Path) -> str:
    """Write a URDF, an MJCF file where a URDF cannot hold the robot; one line on it."""
    for name in ("robot.urdf", "robot.xml"):
        try:
            done = export(bodies, folder / name)
        except DynidError as error:
            reason = str(error)
            continue
        return f"{name}: {verify(folder / name, done.subject)}"
    return f"no model for simulators was written: {reason}"


def write_log(log: Log, path: Path) -> None:
    """Write t, q and tau as CSV."""
    assert log.tau is not None
    n = log.q.shape[1]
    names = ["t", *(f"q{j}" for j in range(1, n + 1)), *(f"tau{j}" for j in range(1, n + 1))]
    rows = np.column_stack([log.t, log.q, log.tau])
    lines = [",".join(names), *(",".join(f"{x:.9g}" for x in row) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")
