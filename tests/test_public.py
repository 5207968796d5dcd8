"""The public face: one list of names, all that it leads to, and the names of the version before."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynid
import public_names
from command_line import CommandLine, write_simulated
from dynid import ForceSensor, deprecated
from dynid.estimation.compare import Comparison
from dynid.robot.io.toml_table import read_sensor
from fourier import fourier_motion
from frictions import with_friction
from plates import arm

NEXT = "the old name will be removed in the next version"


def test_names_come_from_the_stub() -> None:
    assert set(dir(dynid)) == {*dynid.__all__, "__version__"}
    scope: dict[str, Any] = {}
    exec("from dynid import *", scope)
    assert {name for name in scope if not name.startswith("__")} == set(dynid.__all__)
    assert all(scope[name] is getattr(dynid, name) for name in dynid.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = dynid.no_such_name  # type: ignore[attr-defined]


def test_what_the_stub_names_is_made_where_it_says() -> None:
    for name, thing in public_names.exported().items():
        assert thing.__name__ == (f"dynid.{name}" if inspect.ismodule(thing) else name)
        assert thing.__name__ == "dynid.errors" or public_names.address(thing) in public_names.PAGE.read_text()


def test_threads_may_ask_for_a_name_at_once() -> None:
    """In a process that has loaded nothing yet."""
    code = """
import sys, threading, dynid
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(8), []
def ask():
    start.wait()
    found.append((dynid.Robot, dynid.load_robot, dynid.BaseParameters))
threads = [threading.Thread(target=ask) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len(found) == 8 and len(set(found)) == 1, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)


def test_every_class_that_a_public_call_leads_to_is_public() -> None:
    """By name in `dynid` or in the reference, with a docstring and no underscore."""
    page = public_names.PAGE.read_text().split()
    for kind, via in public_names.reached().items():
        named = getattr(dynid, kind.__name__, None) is kind or public_names.address(kind) in page
        assert named, f"{via} leads to {kind}: name it in __init__.pyi, or run python tests/public_names.py"
        assert not kind.__name__.startswith("_"), via
        assert kind.__doc__, kind


def test_every_error_is_in_one_place() -> None:
    for module in pkgutil.walk_packages(dynid.__path__, "dynid."):
        if module.name.endswith("__main__"):
            continue
        for name, kind in vars(import_module(module.name)).items():
            if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__.startswith("dynid."):
                assert kind.__module__ == "dynid.errors" or kind.__name__.startswith("_"), (module.name, name)


# -------------------------------------------------------------------------------------- names of the version before


def pairs(table: dict[str, Mapping[str, str]]) -> list[tuple[str, str, str]]:
    return [(owner, old, new) for owner, names in table.items() for old, new in names.items()]


@pytest.mark.parametrize(("old", "new"), deprecated.NAMES.items())
def test_old_names_work_and_warn(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"'dynid.{old}' is now 'dynid.{new}'; {NEXT}") as told:
        assert getattr(dynid, old) is getattr(dynid, new)
    assert told[0].filename == __file__
    assert old not in dir(dynid)


def small_log() -> tuple[dynid.Robot, dynid.Log]:
    robot = with_friction(arm("gautier3"))
    return robot, dynid.simulate(robot, fourier_motion(robot, duration=6.0, rate=50.0), noise=0.1)


def by_keyword(name: str, **given: Any) -> Any:
    """What a function or class of the table of keywords makes of one keyword."""
    robot, log = small_log()
    if name == "ForceSensor":
        return ForceSensor(**given).sensitivity_sigma
    if name == "identify_states":
        return dynid.identify_states(dynid.collect_state(robot, log, friction=("viscous",)), **given).values
    found = getattr(dynid, name)(robot, log, friction=("viscous",), **given)
    return found.reference.identification.values if isinstance(found, Comparison) else found.values


@pytest.mark.parametrize(("name", "old", "new"), pairs(deprecated.KEYWORDS))
def test_old_keywords_work_and_warn(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynid.estimation.compare.COMPARED", (("torque", "wls"),))
    value: Any = 0.1 if name == "ForceSensor" else [("Fv1", "Fv2")]
    assert old not in inspect.signature(getattr(dynid, name)).parameters
    with pytest.warns(DeprecationWarning, match=f"'{old}' is now '{new}'") as told:
        before = by_keyword(name, **{old: value})
    assert told[0].filename == __file__
    np.testing.assert_array_equal(before, by_keyword(name, **{new: value}))
    with pytest.raises(TypeError, match=f"'{new}' or, as it was called before, '{old}', not both"):
        by_keyword(name, **{old: value, new: value})


@pytest.mark.parametrize(("name", "old", "new"), pairs(deprecated.ATTRIBUTES))
def test_old_attributes_work_and_warn(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = getattr(dynid, name)
    thing = object.__new__(kind)
    if isinstance(getattr(kind, new, None), property):
        monkeypatch.setattr(kind, new, "value")
    elif not callable(getattr(kind, new, None)):
        object.__setattr__(thing, new, "value")
    with pytest.warns(DeprecationWarning, match=f"'{old}' is now '{new}'") as told:
        assert getattr(thing, old) == getattr(thing, new)
    assert told[0].filename == __file__


def test_the_old_key_of_a_sensor_file_works_and_warns(tmp_path: Path) -> None:
    file = tmp_path / "plate.toml"
    file.write_text("gain = 0.02\n")
    with pytest.warns(DeprecationWarning, match="'gain of \\[sensor\\]' is now 'sensitivity_sigma'"):
        sensor = read_sensor(file)
    assert sensor.sensitivity_sigma is not None
    np.testing.assert_array_equal(sensor.sensitivity_sigma, np.full(6, 0.02))


@pytest.mark.parametrize(("command", "old", "new"), pairs(deprecated.OPTIONS))
def test_old_options_work_and_say_so(
    command: str,
    old: str,
    new: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, out = CommandLine(monkeypatch, capsys), tmp_path / "result.json"
    log = write_simulated(tmp_path / "log.csv")
    words = (command, "gautier3", log, "--friction", "viscous", "--out", out)
    plain = run(*words, new, "Fv1=Fv2", code=None)
    found = dynid.Identification.load(out)
    for given in ((old, "Fv1=Fv2"), (f"{old}=Fv1=Fv2",)):
        done = run(*words, *given, code=plain.code)
        assert done.err == f"dynid: {old} is now {new}; {NEXT}\n" + plain.err
        np.testing.assert_array_equal(dynid.Identification.load(out).values, found.values)
    assert old not in run(command, "--help").out
