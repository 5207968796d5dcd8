"""Motions that are none: wrong shapes, NaN, unsorted time, no samples."""

from __future__ import annotations

import numpy as np
import pytest

from dynid import DynidError, Motion, load_robot, regressor, regressor_adjoint, regressor_chunks

T = np.arange(4.0)
X = np.zeros((4, 6))


def test_shapes_must_agree() -> None:
    with pytest.raises(DynidError, match="disagree"):
        Motion(T, X, X[:, :5], X)
    with pytest.raises(DynidError, match="disagree"):
        Motion(T[:3], X, X, X)
    with pytest.raises(DynidError, match="t \\(N,\\)"):
        Motion(T, X[:, 0], X[:, 0], X[:, 0])


def test_nan_is_named_with_its_place() -> None:
    bad = X.copy()
    bad[2, 3] = np.nan
    with pytest.raises(DynidError, match="v of the motion has nan at sample 2, column 3"):
        Motion(T, X, bad, X)


def test_time_must_increase() -> None:
    with pytest.raises(DynidError, match="at sample 2"):
        Motion(np.array([0.0, 1.0, 1.0, 2.0]), X, X, X)


def test_no_samples() -> None:
    with pytest.raises(DynidError, match="no samples"):
        Motion(T[:0], X[:0], X[:0], X[:0])


def test_text_is_no_array() -> None:
    with pytest.raises(DynidError, match="not an array"):
        Motion(T, [["a"] * 6] * 4, X, X)  # type: ignore[arg-type]


def test_wrong_number_of_joints_names_them() -> None:
    with pytest.raises(DynidError, match="7 active joints"):
        regressor(load_robot("panda"), Motion(T, X, X, X))


def test_floating_base_needs_its_motion() -> None:
    robot = load_robot("puma560", floating_base=True)
    with pytest.raises(DynidError, match="base_pose"):
        regressor(robot, Motion(T, X, X, X))
    with pytest.raises(DynidError, match="also needs base_velocity"):
        Motion(T, X, X, X, base_pose=np.tile([0.0, 0, 0, 0, 0, 0, 1], (4, 1)))
    with pytest.raises(DynidError, match="quaternion"):
        Motion(T, X, X, X, np.ones((4, 7)), X, X)
    floating = Motion(T, X, X, X, np.tile([0.0, 0, 0, 0, 0, 0, 1], (4, 1)), X, X)
    with pytest.raises(DynidError, match="floating_base=True"):
        regressor(load_robot("puma560"), floating)


def test_unknown_model_lists_the_models() -> None:
    with pytest.raises(DynidError, match="lagrangian_gradient"):
        regressor(load_robot("puma560"), Motion(T, X, X, X), model="torques")


def test_energy_needs_two_samples() -> None:
    with pytest.raises(DynidError, match="at least two"):
        regressor(load_robot("puma560"), Motion(T[:1], X[:1], X[:1], X[:1]), model="energy")


def test_weights_must_fit() -> None:
    with pytest.raises(DynidError, match=r"\(24, 66\)"):
        regressor_adjoint(load_robot("puma560"), Motion(T, X, X, X), np.zeros((3, 3)))


def test_empty_chunks_are_refused() -> None:
    with pytest.raises(DynidError, match="at least one sample"):
        next(regressor_chunks(load_robot("puma560"), Motion(T, X, X, X), size=0))
