"""An estimator of one's own on the filtered rows: the rest of the pipeline holds for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import Identification, LinearProblem, Log, compare_estimators, identify, load_robot, simulate
from dynid.errors import IdentificationError
from dynid.robot.transform import Array
from fourier import fourier_motion

ROBOT = load_robot("gautier3").with_parameters(np.linspace(0.5, 1.5, 33))
PLAIN = {"friction": ("viscous", "coulomb", "offset"), "cutoff": 10.0}


def recording(seed: int) -> Log:
    return simulate(ROBOT, fourier_motion(ROBOT, duration=12.0, seed=seed), noise=0.3, seed=seed)


LOG = recording(0)


def least_squares(problem: LinearProblem) -> Array:
    return np.asarray(np.linalg.lstsq(problem.A, problem.b, rcond=None)[0], dtype=np.float64)


def doubled(problem: LinearProblem) -> Array:
    return 2.0 * least_squares(problem)


def weighted(problem: LinearProblem) -> tuple[Array, Array]:
    A, b = problem.A / problem.noise[:, None], problem.b / problem.noise
    covariance = np.asarray(np.linalg.inv(A.T @ A), dtype=np.float64)
    return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0], dtype=np.float64), covariance


@pytest.mark.parametrize(("name", "own"), [("ols", least_squares), ("wls", weighted)])
@pytest.mark.parametrize("options", [{}, {"validate": 0.3}, {"model": "power"}])
def test_least_squares_of_ones_own_is_that_of_dynid(name: str, own: object, options: dict[str, object]) -> None:
    """Values to 1e-10; intervals, errors, rank and verdict alike: they come from calls without stretches of time."""
    ours, theirs = (identify(ROBOT, LOG, estimator=e, **PLAIN, **options) for e in (name, own))  # type: ignore[arg-type]
    assert theirs.estimator == own.__name__  # type: ignore[attr-defined]
    assert theirs.names == ours.names
    assert_allclose(theirs.values, ours.values, rtol=1e-10, atol=1e-10)
    assert_allclose(theirs.sigma, ours.sigma, rtol=1e-7)
    assert_allclose(theirs.validation.nrmse, ours.validation.nrmse, rtol=1e-6)
    assert (theirs.rank, theirs.groups, theirs.verdict.level) == (ours.rank, ours.groups, ours.verdict.level)


def test_several_logs_with_offsets_of_their_own() -> None:
    logs = [LOG, recording(1)]
    ours, theirs = (identify(ROBOT, logs, estimator=e, offsets_per_log=True, **PLAIN) for e in ("wls", weighted))  # type: ignore[arg-type]
    assert_allclose(theirs.values, ours.values, rtol=1e-10, atol=1e-10)
    assert_allclose(theirs.sigma, ours.sigma, rtol=1e-6)
    assert theirs.agreement is not None


def test_intervals_and_errors_are_those_of_the_estimator() -> None:
    """Twice the values have twice the standard deviations, and predictions off by the whole torque."""
    once, twice = (identify(ROBOT, LOG, estimator=e, **PLAIN) for e in (least_squares, doubled))  # type: ignore[arg-type]
    assert_allclose(twice.values, 2.0 * once.values, rtol=1e-12)
    assert_allclose(twice.sigma, 2.0 * once.sigma, rtol=1e-8)
    assert twice.validation.mean > 0.9
    assert twice.verdict.level == "do not trust"


def test_a_covariance_of_ones_own_makes_white_intervals(tmp_path: Path) -> None:
    def sure(problem: LinearProblem) -> tuple[Array, Array]:
        return least_squares(problem), 0.01 * np.eye(len(problem.names))

    found = identify(ROBOT, LOG, estimator=sure, intervals="white", **PLAIN)  # type: ignore[arg-type]
    assert_allclose(found.sigma, 0.1, rtol=1e-6)
    found.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    assert again.estimator == "sure"
    assert_allclose(again.values, found.values, rtol=0.0)


def test_what_an_estimator_sees_has_names_and_units() -> None:
    seen: list[LinearProblem] = []

    def look(problem: LinearProblem) -> Array:
        seen.append(problem)
        return least_squares(problem)

    found = identify(ROBOT, LOG, estimator=look, **PLAIN)  # type: ignore[arg-type]
    assert (seen[0].names, seen[0].units) == (found.names, found.units)
    assert seen[0].A.shape == (len(seen[0].b), len(found.names))
    assert seen[0].count > 100 > len(seen[0].b)
    assert all(problem.count < seen[0].count for problem in seen[1:])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda problem: np.zeros(3), r"values of shape \(\d+,\), one per column of A, got shape \(3,\)"),
        (lambda problem: np.full(len(problem.names), np.nan), "no finite numbers"),
        (lambda problem: ["a"] * len(problem.names), "no finite numbers"),
        (lambda problem: (least_squares(problem), np.zeros(2)), "covariance of shape"),
    ],
)
def test_nonsense_of_an_estimator_is_told(bad: object, said: str) -> None:
    with pytest.raises(IdentificationError, match=said):
        identify(ROBOT, LOG, estimator=bad, **PLAIN)  # type: ignore[arg-type]


def test_known_parameters_do_not_go_with_it() -> None:
    with pytest.raises(IdentificationError, match="estimator of your own takes no known"):
        identify(ROBOT, LOG, estimator=least_squares, known={"Fv1": 0.0}, **PLAIN)  # type: ignore[arg-type]


def test_it_stands_beside_the_others_in_a_comparison() -> None:
    found = compare_estimators(ROBOT, LOG, estimators=[least_squares], **PLAIN)  # type: ignore[arg-type]
    assert_allclose(found.run("torque", "least_squares").error, found.run("torque", "ols").error, rtol=1e-8)
