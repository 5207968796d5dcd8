"""How kernels are compiled and kept on disk, and the spatial algebra that they share."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dynid.dynamics.kernels import compiled
from dynid.dynamics.kernels.spatial_algebra import (
    cross_force,
    cross_motion,
    force_out_of_frame,
    load_pose,
    load_spatial,
    motion_into_frame,
    motion_out_of_frame,
    spatial_dot,
)
from robots import random_rotation

SOURCE = "from dynid.dynamics.kernels.compiled import compiled\n@compiled\ndef value() -> int:\n    return {}\n"


def _loaded(path: Path) -> ModuleType:
    spec = spec_from_file_location("kernel_elsewhere", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_kernel_outside_the_package_is_compiled_again_when_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "kernel_elsewhere.py"
    for value in (1, 2):
        path.write_text(SOURCE.format(value))
        compiled._hash_kernel_sources.cache_clear()  # a process of its own would not know the old text
        assert _loaded(path).value() == value


def test_laws_of_spatial_algebra() -> None:
    """Work does not depend on the frame; v x* is minus the transpose of v x; poses go back and forth."""
    rng = np.random.default_rng(0)
    v, m, f = (load_spatial(rng.standard_normal(6), 0) for _ in range(3))
    X = load_pose(np.concatenate([random_rotation(rng).ravel(), rng.standard_normal(3)]), 0)
    assert spatial_dot(motion_out_of_frame(X, m), force_out_of_frame(X, f)) == pytest.approx(
        spatial_dot(m, f), rel=1e-13
    )
    assert spatial_dot(m, cross_force(v, f)) == pytest.approx(-spatial_dot(cross_motion(v, m), f), rel=1e-13)
    np.testing.assert_allclose(motion_into_frame(X, motion_out_of_frame(X, m)), m, atol=1e-14)
    np.testing.assert_allclose(cross_motion(v, v), 0.0, atol=1e-15)
