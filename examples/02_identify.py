"""From a motion to parameters with intervals, with the plain friction model and with the default recipe.

A simulated PUMA 560 with friction moves along an exciting trajectory; only positions and torques are recorded, with
noise. It is identified both ways and validated on another motion; since the truth is known, the intervals are checked.

    python examples/02_identify.py [--quick] [--picture identify.svg]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid import Identification, Log, Motion, Robot, design_excitation, identify, load_robot, simulate

Array = NDArray[np.float64]

LIMITS = {"position": [[-2.0, 2.0]] * 6, "velocity": 1.5, "acceleration": 5.0}
PLAIN = ("viscous", "coulomb", "offset")


def robot_with_friction() -> Robot:
    """The bundled PUMA 560 with viscous and dry friction and an offset in every joint."""
    robot = load_robot("puma560")
    friction = (("viscous", 1.5), ("coulomb", 2.0), ("offset", 0.3))
    return replace(robot, links=tuple(replace(link, friction=friction) for link in robot.links))


def recorded(robot: Robot, *, seed: int, starts: int) -> tuple[Log, Motion]:
    """Positions with 20 urad and torques with 2 % of noise at 500 Hz, and the motion as it was."""
    log = simulate(robot, design_excitation(robot, limits=LIMITS, starts=starts, seed=seed), rate=500.0)
    assert log.tau is not None
    assert log.v is not None
    assert log.a is not None
    rng = np.random.default_rng(seed)
    q = log.q + 2e-5 * rng.standard_normal(log.q.shape)
    tau = log.tau + 0.02 * log.tau.std(axis=0) * rng.standard_normal(log.tau.shape)
    return Log(log.t, q, tau=tau, name=f"motion {seed}"), Motion(log.t, log.q, log.v, log.a)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One friction model: its result, its base parameters, and their errors over the half width of their intervals."""

    name: str
    result: Identification
    names: tuple[str, ...]
    errors: Array

    @property
    def inside(self) -> float:
        """Share of the true values inside their 95 % intervals."""
        return float(np.mean(np.abs(self.errors) <= 1.0))

    def __str__(self) -> str:
        r = self.result
        spread = 100 * np.median([r.relative_sigma[r.names.index(name)] for name in self.names])
        return (
            f"{self.name:7} validation NRMSE {r.validation.mean:.4f}, {100 * self.inside:.0f} % of {len(self.names)} "
            f"base parameters inside their 95 % intervals, median relative deviation {spread:.1f} %, {r.verdict.level}"
        )


def identified(robot: Robot, log: Log, other: Log) -> list[Outcome]:
    """The same data with both friction models."""
    outcomes = []
    for name, friction in (("plain", PLAIN), ("recipe", "auto")):
        result = identify(robot, log, friction=friction, validate=other)
        base = result.equation.base
        true = dict(zip(base.names, base.values(robot.parameters), strict=True))
        rows = [k for k, parameter in enumerate(result.names) if parameter in true]
        names = tuple(result.names[k] for k in rows)
        off = result.values[rows] - np.array([true[parameter] for parameter in names])
        outcomes.append(Outcome(name, result, names, off / (result.quantile * result.sigma[rows])))
    return outcomes


WIDTH, LEFT, JOINT = 760, 70, 1
MEASURED, PREDICTED, MISSED = "#999999", "#1f6fb2", "#c23b22"


def picture(outcomes: list[Outcome], other: Log, motion: Motion) -> str:
    """An SVG: a joint's torque on the other motion, measured and predicted; below, every parameter in its interval."""
    assert other.tau is not None
    some = slice(0, len(other.t), 10)
    t, measured = other.t[some], other.tau[some, JOINT]
    predicted = outcomes[-1].result.predict(motion)[some, JOINT]
    size = 1.05 * float(np.abs(measured).max())
    height = 230 + 60 * len(outcomes) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">Torque of joint {JOINT + 1} on a motion that was not used, '
        f"{t[-1]:.0f} s, largest {np.abs(measured).max():.0f} N m</text>",
        curve(t, measured, size, MEASURED, 4.0),
        curve(t, predicted, size, PREDICTED, 1.2),
        curve(t, measured - predicted, size, MISSED, 1.0),
    ]
    for k, (text, colour) in enumerate((("measured", MEASURED), ("predicted", PREDICTED), ("what is left", MISSED))):
        parts.append(f'<text x="{LEFT + 130 * k}" y="200" fill="{colour}">{text}</text>')
    parts.append(
        f'<text x="{LEFT}" y="232" font-weight="bold">True values of the base parameters in their 95 % intervals</text>'
    )
    middle, unit = 0.5 * (LEFT + WIDTH - 20), 130.0
    for row, outcome in enumerate(outcomes):
        y = 270 + 60 * row
        parts.append(f'<rect x="{middle - unit}" y="{y - 22}" width="{2 * unit}" height="44" fill="#e8f0e4"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{outcome.name}</text>')
        parts.append(f'<text x="{WIDTH - 16}" y="{y + 4}" text-anchor="end">{100 * outcome.inside:.0f} % inside</text>')
        for k, (name, error) in enumerate(zip(outcome.names, outcome.errors, strict=True)):
            x, up = middle + unit * float(np.clip(error, -2.0, 2.0)), 18 * (2 * (k % 6) / 5 - 1)
            colour = PREDICTED if abs(error) <= 1.0 else MISSED
            parts.append(f'<circle cx="{x:.1f}" cy="{y + up:.1f}" r="3" fill="{colour}"><title>{name}</title></circle>')
    return "\n".join([*parts, "</svg>", ""])


def curve(t: Array, y: Array, size: float, colour: str, thickness: float) -> str:
    """A line over time; the axis is at y = 110, `size` is 75 high."""
    across = LEFT + (WIDTH - LEFT - 20) * (t - t[0]) / (t[-1] - t[0])
    points = " ".join(f"{a:.1f},{110 - 75 * b / size:.1f}" for a, b in zip(across, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thickness}"/>'


def main() -> None:
    """Print one line per friction model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one start of the optimiser instead of four")
    parser.add_argument("--picture", type=Path, help="write the picture to this SVG file")
    asked = parser.parse_args()
    robot = robot_with_friction()
    log, _ = recorded(robot, seed=0, starts=1 if asked.quick else 4)
    other, motion = recorded(robot, seed=1, starts=1)
    outcomes = identified(robot, log, other)
    print("\n".join(map(str, outcomes)))
    if asked.picture is not None:
        asked.picture.write_text(picture(outcomes, other, motion), encoding="utf-8")


if __name__ == "__main__":
    main()
