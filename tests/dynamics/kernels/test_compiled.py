"""How kernels are compiled and kept on disk, and the spatial algebra that they share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

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


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[: len(raw) // 2], lambda raw: b"garbage" * 100])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_compiled_again(
    suffix: str, damage: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "kernel_elsewhere.py"
    path.write_text(SOURCE.format(3))
    assert _loaded(path).value() == 3
    kept = list(tmp_path.rglob(f"*.{suffix}"))
    assert kept
    for file in kept:
        file.write_bytes(damage(file.read_bytes()))
    assert _loaded(path).value() == 3
    again = _loaded(path)
    assert again.value() == 3
    assert again.value.stats.cache_hits  # what was compiled again was kept
    assert compiled.cache_warning() is None


def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "_unwritable", [])
    path = tmp_path / "kernel_elsewhere.py"
    path.write_text(SOURCE.format(4))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "_save_index", full)
    assert _loaded(path).value() == 4
    warning = compiled.cache_warning()
    assert warning is not None
    assert "No space left on device" in warning
    assert "NUMBA_CACHE_DIR" in warning.remedy
