"""Physical parameters on disk: everything comes back exactly, and damaged files are one clear line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_array_equal

import dynid
from bodies import bodied, identified
from dynid.errors import PhysicalError
from dynid.physical.parameters import PhysicalParameters
from dynid.robot.transform import Array
from dynid.storage.records import from_plain_data, to_plain_data
from fourier import fourier_motion

ARRAYS = (
    "values", "prior", "structural", "from_data", "sigma", "fitted", "nrmse_before", "nrmse_after", "eigenvalues",
)  # fmt: skip
WORDS = ("names", "units", "prior_source", "cost", "chance", "margin", "bindings", "notes", "warnings")


@pytest.fixture(scope="module")
def found() -> PhysicalParameters:
    return dynid.physical_parameters(identified(bodied("puma560", 3), noise=6.0))


def test_everything_comes_back(found: PhysicalParameters, tmp_path: Path) -> None:
    found.save(tmp_path / "physical.json")
    again = PhysicalParameters.load(tmp_path / "physical.json")
    for name in ARRAYS:
        assert_array_equal(getattr(again, name), getattr(found, name))
    for name in WORDS:
        assert getattr(again, name) == getattr(found, name)
    motion = fourier_motion(found.robot, rate=10.0)
    assert_array_equal(again.predict(motion), found.predict(motion))
    assert_array_equal(again.robot.parameters, found.robot.parameters)
    assert [link.friction for link in again.robot.links] == [link.friction for link in found.robot.links]


def _without(data: dict[str, Any], key: str) -> None:
    del data[key]


def _no_body(data: dict[str, Any]) -> None:
    values = from_plain_data(Array, data["values"])
    values[9] = -1.0
    data["values"] = to_plain_data(Array, values)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda d: d.update(format="dynid identification"), "not a file of the format 'dynid physical parameters'"),
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: _without(d, "values"), "values"),
        (lambda d: d["parameters"].pop(0), "not those of the robot"),
        (lambda d: d["parameters"].pop(), "damaged"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d["values"].update(float64="AAAA"), "damaged"),
        (lambda d: d["identification"].update(model="power"), "damaged"),
        (lambda d: d["prior_source"].pop(), "every link"),
        (lambda d: d.update(chance=3.0), "chance"),
        (_no_body, "link 1 is not a physically possible body"),
    ],
)
def test_damaged_files_are_refused(found: PhysicalParameters, tmp_path: Path, harm: Any, said: str) -> None:
    file = tmp_path / "physical.json"
    found.save(file)
    data = json.loads(file.read_text())
    harm(data)
    file.write_text(json.dumps(data))
    with pytest.raises(PhysicalError, match=said) as error:
        PhysicalParameters.load(file)
    assert str(file) in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", "null", "1e999"):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(PhysicalError, match=r"x\.json"):
            PhysicalParameters.load(tmp_path / "x.json")
    with pytest.raises(PhysicalError, match="cannot be read"):
        PhysicalParameters.load(tmp_path / "none.json")
