"""docs/force_plate.md and the code agree: every key is one of the file and of `ForceSensor`."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynid import DynidError, ForceSensor
from dynid.robot.io.toml_rows import SensorTable

PAGE = (Path(__file__).parents[2] / "docs" / "force_plate.md").read_text(encoding="utf-8")
PYTHON = {"rpy": "rotation", "[[sensor.rotor]]": "rotors", "[[rotor]]": "rotors"}
FILE = {"[[sensor.rotor]]": "rotor", "[[rotor]]": "rotor"}


def keys() -> list[str]:
    """Keys in the first column of the page's table."""
    table = PAGE.split("| key | what it says | if missing |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [key for row in rows for key in re.findall(r"`([^`]+)`", row)]


def test_every_key_of_the_page_is_one_of_files_and_of_python_and_none_is_missing() -> None:
    assert {FILE.get(key, key) for key in keys()} == set(SensorTable.model_fields)
    assert {PYTHON.get(key, key) for key in keys()} | {"offset"} == {field.name for field in fields(ForceSensor)}


def test_offsets_are_given_alike_in_python_and_in_files() -> None:
    values = [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]
    sensor = ForceSensor(offsets=values)  # type: ignore[arg-type]
    assert sensor.offsets == "known"
    assert_array_equal(sensor.offset, values)
    again = ForceSensor(offsets="known", offset=np.array(values))
    assert_array_equal(again.offset, sensor.offset)
    with pytest.raises(DynidError):
        ForceSensor(offsets=[1.0])  # type: ignore[arg-type]
    with pytest.raises(DynidError):
        ForceSensor(offsets="some")  # type: ignore[arg-type]
