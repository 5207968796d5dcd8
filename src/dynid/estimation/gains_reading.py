"""From the solution of the bilinear problem to gains: which are revealed, deviations, parameters in true units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.estimation.bilinear import Bilinear, Found
from dynid.estimation.gains import Gains
from dynid.estimation.gathering import total_factors
from dynid.estimation.identification import NORMAL
from dynid.estimation.identify_payload import doubts
from dynid.estimation.jackknife import jackknife
from dynid.estimation.two_runs import TwoRuns, written
from dynid.estimation.unknowns import Unknowns
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


def factor_names(problem: Bilinear) -> tuple[str, ...]:
    """Names of the unknown factors."""
    return tuple(f"factor of {name}" for name in problem.runs.state.equation.channel_names)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The bilinear problem and its solution in `unknowns`; fixed (channels,): factors that were not sought.

    hidden: unknowns that hang on a factor that the payload does not reveal.
    """

    problem: Bilinear
    found: Found
    unknowns: Unknowns
    fixed: NDArray[np.bool_]
    hidden: frozenset[str]


def read_gains(robot: Robot, p: Array, solved: Solved) -> Gains:
    """Gains are inverse factors."""
    problem, found, unknowns, fixed = solved.problem, solved.found, solved.unknowns, solved.fixed
    runs, solution, k = problem.runs, found.solution, found.k
    blocks = written(runs.blocks, lambda log, c, R: problem.columns(log, c, R, found.x, k, fixed))
    deviations = jackknife(unknowns, solution, blocks)
    covariance = solution.covariance if deviations is None else deviations.covariance
    quantile = NORMAL if deviations is None else deviations.quantile
    kept = range(len(unknowns)) if solution.regrouping is None else solution.regrouping.kept
    place = {unknowns.names[j]: j for j in kept if unknowns.names[j] not in solved.hidden}
    own = np.array([place.get(name, -1) for name in factor_names(problem)])
    values = np.where(own >= 0, 1.0 / k, np.nan)
    sigma = np.where(own >= 0, np.sqrt(np.diag(covariance)[own]) / k**2, np.nan)
    names = [name for name in place if name not in factor_names(problem)]
    rows, numbers = np.zeros((len(names), len(unknowns))), np.full(len(names), np.nan)
    channel = _channels_of_friction(problem, unknowns)
    for row, name in enumerate(names):
        j = place[name]
        c = channel.get(j)
        value = solution.values[j]
        if c is None:
            rows[row, j], numbers[row] = 1.0, value
        elif own[c] >= 0:
            rows[row, j], rows[row, own[c]], numbers[row] = 1.0 / k[c], -value / k[c] ** 2, value / k[c]
    told = np.isfinite(numbers)
    nrmse = _errors(problem, found, unknowns, fixed)
    warnings = (
        *_about_gains(runs, values, quantile * sigma),
        *(() if found.settled else ("the search for the gains did not settle; record longer and livelier motions",)),
        *map(str, runs.state.repeats),
        *doubts(nrmse, jackknifed=deviations is not None),
    )
    return Gains(
        robot=robot.name,
        link=robot.links[runs.carrier].name,
        payload=p,
        names=runs.state.equation.channel_names,
        values=values,
        sigma=sigma,
        quantile=quantile,
        groups=0 if deviations is None else deviations.groups,
        parameter_names=tuple(name for name, good in zip(names, told, strict=True) if good),
        parameter_units=tuple(unknowns.units[place[name]] for name, good in zip(names, told, strict=True) if good),
        parameters=numbers[told],
        parameter_sigma=np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))[told],
        friction=problem.friction,
        cutoff=runs.state.cutoff,
        nrmse=nrmse,
        findings=runs.findings,
        notes=runs.notes(),
        warnings=warnings,
    )


def _channels_of_friction(problem: Bilinear, unknowns: Unknowns) -> dict[int, int]:
    """Channel of every friction unknown, in whose units it was found."""
    channels: dict[int, int] = {}
    for c in range(len(problem.unknowns.channels)):
        first = len(problem.rigid(c))
        own = problem.unknowns.channels[c][first:]
        channels |= {int(j): c for j in unknowns.place[:, own].ravel() if j >= 0}
    return channels


def _errors(problem: Bilinear, found: Found, unknowns: Unknowns, fixed: NDArray[np.bool_]) -> Array:
    """NRMSE per channel over all logs, NaN where no signal was used."""
    factors = total_factors(problem.runs.blocks)
    squares, spread = np.zeros(len(found.k)), np.zeros(len(found.k))
    for log, of_log in problem.linear(factors, found.x, found.k, fixed).items():
        for c, factor in enumerate(of_log):
            squares[c] += factor.residual_squares(unknowns.of_channel(log, c, found.solution.values))
            spread[c] += factors[log][c].spread
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(squares / spread))


def _about_gains(runs: TwoRuns, values: Array, half: Array) -> list[str]:
    """What must be known of the gains, in words."""
    names, told = runs.state.equation.channel_names, []
    hidden = [name for name, g in zip(names, values, strict=True) if not np.isfinite(g)]
    if hidden:
        told.append(
            f"the payload does not reveal the gain of joint {', '.join(hidden)}: mount it where this joint feels it "
            "(off its axis, for a joint that turns) and move the joint in both logs"
        )
    for name, g, h in zip(names, values, half, strict=True):
        if np.isfinite(g) and h > 0.5 * abs(g):
            told.append(
                f"the gain of joint {name} is hardly known ({g:.3g} +- {h:.2g}): use a heavier payload, farther from "
                "its axis, or livelier motions"
            )
        elif g < 0.0:
            told.append(f"the gain of joint {name} is negative ({g:.4g}): its signal has the opposite sign")
    return told
