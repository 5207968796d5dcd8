"""From a motion to parameters with intervals, with the plain friction model and with the default recipe.

A simulated PUMA 560 with friction moves along an exciting trajectory; only positions and torques are recorded, with
noise. It is identified both ways and validated on another motion; since the truth is known, the intervals are checked.

    python examples/02_identify.py [--quick]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from dynid import Log, Robot, design_excitation, identify, load_robot, simulate

LIMITS = {"position": [[-2.0, 2.0]] * 6, "velocity": 1.5, "acceleration": 5.0}
PLAIN = ("viscous", "coulomb", "offset")


def robot_with_friction() -> Robot:
    """The bundled PUMA 560 with viscous and dry friction and an offset in every joint."""
    robot = load_robot("puma560")
    friction = (("viscous", 1.5), ("coulomb", 2.0), ("offset", 0.3))
    return replace(robot, links=tuple(replace(link, friction=friction) for link in robot.links))


def recorded(robot: Robot, *, seed: int, starts: int) -> Log:
    """Positions with 20 urad and torques with 2 % of noise at 500 Hz."""
    log = simulate(robot, design_excitation(robot, limits=LIMITS, starts=starts, seed=seed), rate=500.0)
    assert log.tau is not None
    rng = np.random.default_rng(seed)
    q = log.q + 2e-5 * rng.standard_normal(log.q.shape)
    tau = log.tau + 0.02 * log.tau.std(axis=0) * rng.standard_normal(log.tau.shape)
    return Log(log.t, q, tau=tau, name=f"motion {seed}")


def main() -> None:
    """Print one line per friction model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one start of the optimiser instead of four")
    starts = 1 if parser.parse_args().quick else 4
    robot = robot_with_friction()
    log, other = recorded(robot, seed=0, starts=starts), recorded(robot, seed=1, starts=1)
    for name, friction in (("plain", PLAIN), ("recipe", "auto")):
        result = identify(robot, log, friction=friction, validate=other)
        base = result.equation.base
        true = dict(zip(base.names, base.values(robot.parameters), strict=True))
        rows = [k for k, parameter in enumerate(result.names) if parameter in true]
        off = np.array([abs(result.values[k] - true[result.names[k]]) for k in rows])
        inside = np.mean(off <= result.quantile * result.sigma[rows])
        spread = 100 * np.median(result.relative_sigma[rows])
        print(
            f"{name:7} validation NRMSE {result.validation.mean:.4f}, {100 * inside:.0f} % of {len(rows)} base "
            f"parameters inside their 95 % intervals, median relative deviation {spread:.1f} %, {result.verdict.level}"
        )


if __name__ == "__main__":
    main()
