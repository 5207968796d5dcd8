"""Criteria: true figures against plain formulas, slopes against central differences, stand-ins that approach them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dynid.errors import ExcitationError
from dynid.excitation.criteria import NAMES, condition_number, find_criterion, scaling_number
from dynid.robot.transform import Array


def matrix(seed: int) -> tuple[Array, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((40, 7)) * np.geomspace(1.0, 20.0, 7)
    mask = rng.random(W.shape) < 0.8
    W = np.where(mask, np.sign(W) * np.maximum(np.abs(W), 0.05), 0.0)
    return W, mask


def truth(name: str, W: Array, mask: NDArray[np.bool_], noise: Array) -> float:
    covariance = np.linalg.inv((W / noise[:, None]).T @ (W / noise[:, None]))
    G = W.T @ W
    return float(
        {
            "condition": np.linalg.cond(W),
            "frobenius": np.linalg.norm(G) * np.linalg.norm(np.linalg.inv(G)),
            "scaling": np.abs(W[mask]).max() / np.abs(W[mask]).min(),
            "condition+scaling": 2.0 * np.linalg.cond(W) + 0.5 * np.abs(W[mask]).max() / np.abs(W[mask]).min(),
            "a": np.trace(covariance),
            "d": np.linalg.slogdet(covariance)[1],
            "e": np.linalg.eigvalsh(covariance)[-1],
        }[name]
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_true_figures(name: str, seed: int) -> None:
    W, mask = matrix(seed)
    noise = np.random.default_rng(seed).uniform(0.5, 2.0, len(W))
    found = find_criterion(name, weights=(2.0, 0.5), mask=mask, noise=noise).value(W)
    assert found == pytest.approx(truth(name, W, mask, noise), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sharpness", [2.0, 8.0, 64.0])
def test_slopes_equal_central_differences(name: str, sharpness: float) -> None:
    W, mask = matrix(1)
    noise = np.random.default_rng(1).uniform(0.5, 2.0, len(W))
    criterion = find_criterion(name, weights=(2.0, 0.5), mask=mask, noise=noise)
    slope = criterion.smooth_value(W, sharpness).gradient
    rng = np.random.default_rng(2)
    for _ in range(5):
        D = rng.standard_normal(W.shape) * mask
        step = 1e-6
        numeric = (
            criterion.smooth_value(W + step * D, sharpness).value
            - criterion.smooth_value(W - step * D, sharpness).value
        ) / (2 * step)
        assert numeric == pytest.approx(float((slope * D).sum()), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", ["condition", "scaling", "condition+scaling", "e"])
def test_stand_ins_approach_the_true_figure_from_above(name: str) -> None:
    W, mask = matrix(3)
    criterion = find_criterion(name, weights=(1.0, 1.0), mask=mask)
    values = [np.exp(criterion.smooth_value(W, p).value) for p in (2.0, 8.0, 64.0, 512.0)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(criterion.value(W), rel=0.02)


def test_a_lost_column_is_infinitely_bad() -> None:
    W, mask = matrix(4)
    W[:, 3] = W[:, 2]
    assert condition_number(W) > 1e14
    W[:, 3] = 0.0
    assert scaling_number(W, np.ones_like(mask)) == np.inf


def test_unknown_names_and_weights() -> None:
    _, mask = matrix(5)
    with pytest.raises(ExcitationError, match="criteria are"):
        find_criterion("beauty", weights=(1, 0), mask=mask)
    with pytest.raises(ExcitationError, match="weights"):
        find_criterion("condition+scaling", weights=(-1.0, 0.0), mask=mask)
