"""A robot on a force plate: the joint torques' parameters from joint torques, from the plate, and from both.

A simulated PUMA 560 with strong friction stands on a plate that is declared as it sits: moved, turned, tared. Its
torque constants are wrong by 5 %, as those of data sheets are. Positions, torques and forces are recorded with noise.
Since the truth is known, every route's errors are printed, and drawn for each parameter.

    python examples/04_force_plate.py [--quick] [--picture force_plate.svg]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid import ForceSensor, Log, Robot, design_excitation, identify, joint_parameters, load_robot, simulate

Array = NDArray[np.float64]

LIMITS = {"position": [[-2.0, 2.0]] * 6, "velocity": 1.5, "acceleration": 5.0}
PLAIN = ("viscous", "coulomb", "offset")
CONSTANT = 1.05
"""Recorded torque over true torque."""

PLATE = ForceSensor(
    position=np.array([0.05, -0.02, -0.10]),
    rotation=np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    sense="robot_on_plate",
    offsets="tared",
)
ROUTES = {
    "torques, no friction model": ("torque", ()),
    "torques with friction": ("torque", PLAIN),
    "force plate": ("reaction", "auto"),
    "both": ("torque+reaction", PLAIN),
}


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One way: errors of the joint torques' parameters over the largest of their kind, and how many are covered."""

    name: str
    errors: Array
    inside: float
    nrmse: float


def robot_on_plate() -> Robot:
    """The bundled PUMA 560 with strong friction in every joint, without rotors, on the plate."""
    robot = load_robot("puma560")
    friction = (("viscous", 3.0), ("coulomb", 6.0))
    links = tuple(replace(link, friction=friction, rotor=0.0) for link in robot.links)
    return replace(robot, links=links, sensor=PLATE)


def recorded(robot: Robot, *, starts: int) -> Log:
    """Positions with 20 urad, torques with 2 %, forces with 0.5 N and moments with 0.2 N m of noise, at 500 Hz."""
    noise = [0.5 if name.startswith("F") else 0.2 for name in PLATE.channels]
    excitation = design_excitation(robot, model="reaction", limits=LIMITS, starts=starts)
    log = simulate(robot, excitation, plate_noise=noise, rate=500.0)
    assert log.tau is not None
    assert log.reaction is not None
    rng = np.random.default_rng(0)
    tau = CONSTANT * log.tau + 0.02 * log.tau.std(axis=0) * rng.standard_normal(log.tau.shape)
    q = log.q + 2e-5 * rng.standard_normal(log.q.shape)
    return Log(log.t, q, tau=tau, reaction=log.reaction + 10.0 * rng.standard_normal(6), name="on the plate")


def study(*, starts: int) -> tuple[tuple[str, ...], list[Route]]:
    """Names of the parameters, and all routes."""
    robot = robot_on_plate()
    log = recorded(robot, starts=starts)
    names: tuple[str, ...] = ()
    routes = []
    for name, (model, friction) in ROUTES.items():
        result = identify(robot, log, model=model, friction=friction, rotor_inertia=False)
        if model == "torque":
            base = result.equation.base
            rows = [result.names.index(parameter) for parameter in base.names]
            values, half = result.values[rows], result.quantile * result.sigma[rows]
        else:
            found = joint_parameters(result)
            base, values, half = found.base, found.values, found.quantile * found.sigma
        names, truth = base.names, base.values(robot.parameters)
        kinds = [parameter.rstrip("123456")[:1] == "M" for parameter in names]
        size = np.array([max(abs(t) for t, k in zip(truth, kinds, strict=True) if k == kind) for kind in kinds])
        off = np.abs(values - truth)
        routes.append(Route(name, off / size, float(np.mean(off <= half)), result.validation.mean))
    return names, routes


def picture(names: tuple[str, ...], routes: list[Route]) -> str:
    """An SVG: one line per route, one dot per parameter, errors on a logarithmic scale."""
    left, width, step, lowest = 190, 560, 46, -4.5
    height = step * len(routes) + 60

    def x(error: float) -> float:
        return left + width * (np.clip(np.log10(max(error, 1e-9)), lowest, 0.5) - lowest) / (0.5 - lowest)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{left + width + 20}" height="{height}" fill="white"/>',
    ]
    for power in range(-4, 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="20" y2="{height - 40}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 24}" text-anchor="middle">{100 * 10.0**power:g} %</text>')
    parts.append(
        f'<text x="{left + width / 2}" y="{height - 6}" text-anchor="middle">error over the largest of its kind</text>'
    )
    for row, route in enumerate(routes):
        y = 20 + step * (row + 0.5)
        parts.append(f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{route.name}</text>')
        for name, error in zip(names, route.errors, strict=True):
            parts.append(
                f'<circle cx="{x(error):.1f}" cy="{y:.1f}" r="4" fill="#1f6fb2" fill-opacity="0.45">'
                f"<title>{name}: {100 * error:.2g} %</title></circle>"
            )
        median = x(float(np.median(route.errors)))
        parts.append(f'<path d="M{median:.1f} {y - 12:.1f} v24" stroke="#c23b22" stroke-width="2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Print one line per route."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one start of the optimiser instead of four")
    parser.add_argument("--picture", type=Path, help="write the picture to this SVG file")
    arguments = parser.parse_args()
    names, routes = study(starts=1 if arguments.quick else 4)
    print(f"{'route':28}{'median error':>14}{'largest':>10}{'inside 95 %':>13}{'NRMSE':>8}")
    for route in routes:
        median, largest = 100 * np.median(route.errors), 100 * route.errors.max()
        print(f"{route.name:28}{median:>12.2g} %{largest:>8.2g} %{100 * route.inside:>11.0f} %{route.nrmse:>8.3f}")
    if arguments.picture is not None:
        arguments.picture.write_text(picture(names, routes), encoding="utf-8")


if __name__ == "__main__":
    main()
