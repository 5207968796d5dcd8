"""Files of version 1, written by dynid before results were nested (commit a4c88cb), load with equal content.

`expected.json` holds what the code of that commit said of each result; saving again must give the same JSON, so that
older versions of dynid read the files of this one.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid import Identification, PhysicalParameters, State, export, identify_states
from dynid.exports.robot_json import read_robot_json
from fourier import fourier_motion

FOLDER = Path(__file__).parent / "version_1"
RESULTS = (
    "columns_recursive", "coupled", "free_geometry", "loop", "offsets", "reaction", "robust_auto", "short_energy",
    "standing", "torque_reaction", "tree_delay",
)  # fmt: skip
STATES = ("state", "state_momentum")


def unpacked(name: str, folder: Path) -> Path:
    file = folder / name
    file.write_bytes(gzip.decompress((FOLDER / f"{name}.gz").read_bytes()))
    return file


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / "expected.json.gz").read_bytes()))
    return found


def exactly(found: Any, told: list[float | None]) -> None:
    numbers = np.ravel(found)
    assert_array_equal(numbers, np.where(np.isfinite(numbers), np.array(told, dtype=float), numbers))


def check(result: Identification, facts: dict[str, Any], rtol: float) -> None:
    """What the result says in words and numbers; rtol: 0 where the numbers were in the file."""
    words = {
        "model": result.model, "estimator": result.estimator, "names": list(result.names), "units": list(result.units),
        "source": result.validation.source, "friction": list(result.friction), "trials": len(result.trials),
        "lost": list(map(str, result.unidentifiable)),
        "verdict": str(result.verdict), "next_step": result.verdict.next_step,
        "warnings": list(result.warnings), "notes": list(result.notes), "logs": len(result.factors),
        "cutoff": result.cutoff, "version": result.version,
    }  # fmt: skip
    assert words == {key: facts[key] for key in words}
    bounds = [result.bounds.of_measurement, result.bounds.per_matrix_error]
    numbers: dict[str, Any] = {
        "values": result.values, "sigma": result.sigma, "intervals": result.intervals, "condition": [result.condition],
        "nrmse": result.nrmse, "validation": result.validation.nrmse, "bounds": bounds,
    }  # fmt: skip
    for key, found in numbers.items():
        told = np.array(np.atleast_1d(facts[key]), dtype=float)
        finite = np.isfinite(told)
        assert_array_equal(np.isfinite(np.ravel(found)), finite)
        assert_allclose(np.ravel(found)[finite], told[finite], rtol=rtol, atol=rtol)
    if "prediction" in facts:
        predicted = result.predict(fourier_motion(result.robot, rate=5.0, duration=2.0, seed=3))
        told = np.array(facts["prediction"], dtype=float)
        seen = np.isfinite(told)
        assert_allclose(np.sqrt((predicted[:, seen] ** 2).mean(axis=0)), told[seen], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", RESULTS)
def test_results_load_and_save_as_they_were(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    file = unpacked(f"{name}.json", tmp_path)
    result = Identification.load(file)
    check(result, expected[f"{name}.json"], rtol=0.0)
    result.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(file.read_text())


@pytest.mark.parametrize("name", STATES)
def test_states_load_and_save_as_they_were(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    file = unpacked(f"{name}.json", tmp_path)
    state = State.load(file)
    check(identify_states(state), expected[f"{name}.json"], rtol=1e-7)
    state.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(file.read_text())


def test_physical_parameters_load_and_save_as_they_were(expected: dict[str, Any], tmp_path: Path) -> None:
    file, facts = unpacked("physical.json", tmp_path), expected["physical.json"]
    found = PhysicalParameters.load(file)
    for name in ("names", "prior_source", "warnings", "notes"):
        assert list(getattr(found, name)) == facts[name]
    assert [str(binding) for binding in found.bindings] == facts["bindings"]
    for name in ("values", "from_data", "sigma", "eigenvalues"):
        exactly(getattr(found, name), facts[name])
    assert (found.cost, found.chance) == (facts["cost"], facts["chance"])
    assert found.total_mass == pytest.approx(facts["total_mass"], rel=1e-12)
    found.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(file.read_text())


def test_robots_load_and_save_as_they_were(expected: dict[str, Any], tmp_path: Path) -> None:
    file, facts = unpacked("robot.json", tmp_path), expected["robot.json"]
    robot = read_robot_json(file)
    assert list(robot.joint_names) == facts["joints"]
    assert [column.name for column in robot.columns] == facts["columns"]
    exactly(robot.parameters, facts["parameters"])
    exactly(robot.limits.position, facts["limits"])
    exactly(robot.gravity, facts["gravity"])
    export(robot, tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(file.read_text())
