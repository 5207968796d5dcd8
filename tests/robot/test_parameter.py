"""A parameter is a value: as text its name, and what it belongs to without reading the name."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid import ForceSensor, Identification, JointColumn, Parameter, PhysicalParameters, Robot
from dynid.robot.inertia import SYMBOLS, UNITS
from fourier import fourier_motion
from frictions import PLAIN, with_friction
from loads import LOAD, robot_with_friction, two_logs
from plates import arm

ONE = Parameter("Fv:arm", symbol="Fv", kind="friction", unit="N m s", joint="elbow")


def facts(p: Parameter) -> tuple[object, ...]:
    return str(p), p.symbol, p.label, p.kind, p.unit, p.link, p.joint, p.log


def test_it_is_its_name() -> None:
    assert ONE == "Fv:arm"
    found: dict[str, int] = {ONE: 1}
    assert found["Fv:arm"] == {"Fv:arm": 1}[ONE] == 1
    assert json.dumps([ONE, ONE.of_log(2)]) == '["Fv:arm", "Fv:arm@2"]'
    assert f"{ONE:>8}" == "  Fv:arm"
    assert repr(ONE) == "'Fv:arm'"


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError, match="'unit' cannot be set"):
        ONE.unit = "N"
    with pytest.raises(AttributeError, match="'unit' cannot be deleted"):
        del ONE.unit
    assert not hasattr(ONE, "__dict__")


@pytest.mark.parametrize("p", [ONE, ONE.of_log(12), dynid.load_robot("puma560").parameter_names[10]])
def test_copies_know_as_much(p: Parameter) -> None:
    for other in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p), copy.copy(p)):
        assert facts(other) == facts(p)
        assert type(other) is Parameter


def test_a_log_has_its_own() -> None:
    own = ONE.of_log(3)
    assert facts(own) == ("Fv:arm@3", "Fv", ":arm", "friction", "N m s", None, "elbow", 3)
    assert facts(own.of_all_logs) == facts(ONE)
    assert facts(own.of_log(1)) == facts(ONE.of_log(1))


def test_standard_parameters() -> None:
    robot = Robot.from_mdh([{}, {"type": "prismatic", "alpha": 1.0}], name="two")
    names = robot.parameter_names
    for first, link in ((0, robot.links[0]), (11, robot.links[1])):
        for name, symbol, unit in zip(names[first : first + 10], SYMBOLS, UNITS, strict=True):
            assert facts(name) == (symbol + link.label, symbol, link.label, "inertial", unit, link.name, None, None)
    assert facts(names[10]) == ("Ia1", "Ia", "1", "rotor", "kg m^2", None, "1", None)
    assert facts(names[21]) == ("Ia2", "Ia", "2", "rotor", "kg", None, "2", None)


def awkward() -> Robot:
    """Links whose names hold what marks a log, and a spring with a name that friction could have."""
    robot = with_friction(arm("gautier3"))
    links = [replace(link, name=f"a@{k}", label=f":a@{k}") for k, link in enumerate(robot.links, 1)]
    q = np.linspace(-np.pi, np.pi, 60)
    return replace(
        robot, links=tuple(links), columns=(JointColumn("Fc_spring", "2", positions=q, torque=np.sin(3 * q)),)
    )


SIZE = -3.0


def logs(robot: Robot) -> list[dynid.Log]:
    found = []
    for seed in (0, 1):
        log = dynid.simulate(robot, fourier_motion(robot, duration=6.0, rate=50.0, seed=seed), noise=0.02, seed=seed)
        assert log.tau is not None
        tau = log.tau + SIZE * np.outer(robot.columns[0].values(robot.joint_names, log.q, log.q), [0.0, 1.0, 0.0])
        found.append(dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=tau, name=f"log{seed}"))
    return found


@pytest.fixture(scope="module")
def robot() -> Robot:
    return awkward()


@pytest.fixture(scope="module")
def result(robot: Robot) -> Identification:
    return dynid.identify(robot, logs(robot), friction=PLAIN, offsets_per_log=True)


def test_results_know_what_each_name_is(robot: Robot, result: Identification) -> None:
    assert result.units == tuple(name.unit for name in result.names)
    kinds = {str(name): name.kind for name in result.names}
    assert kinds["Fc_spring"] == "column"
    assert next(name.joint for name in result.names if name.kind == "column") == "2"
    friction = [name for name in result.names if name.kind == "friction"]
    assert {(name.symbol, name.joint, name.log) for name in friction} == {
        *((symbol, joint, None) for symbol in ("Fv", "Fc") for joint in robot.joint_names),
        *(("Fo", joint, log) for joint in robot.joint_names for log in (1, 2)),
    }
    assert {name.link for name in result.names if name.kind == "inertial"} <= {link.name for link in robot.links}


def test_files_give_back_values(result: Identification, tmp_path: Path) -> None:
    result.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    assert list(map(facts, again.names)) == list(map(facts, result.names))
    assert [facts(item.name) for item in again.unidentifiable] == [facts(item.name) for item in result.unidentifiable]
    bodies = dynid.physical_parameters(again)
    bodies.save(tmp_path / "physical.json")
    assert list(map(facts, PhysicalParameters.load(tmp_path / "physical.json").names)) == list(map(facts, bodies.names))


def test_a_user_column_is_no_friction_whatever_its_name(result: Identification) -> None:
    """It may be negative: neither a reason not to trust a result, nor clipped where bodies are found."""
    assert result.value("Fc_spring") == pytest.approx(SIZE, abs=0.2)
    assert not any("Fc_spring" in reason for reason in result.verdict.reasons)
    bodies = dynid.physical_parameters(result)
    assert bodies.value("Fc_spring") == pytest.approx(SIZE, abs=0.2)


def test_friction_of_a_link_with_an_at_sign_reaches_the_robot(result: Identification) -> None:
    """Offsets of several logs as their mean."""
    bodies = dynid.physical_parameters(result)
    for link in bodies.robot.links:
        own = dict(link.friction)
        assert set(own) == set(PLAIN)
        assert own["viscous"] == bodies.value(f"Fv{link.label}")
        assert own["offset"] == pytest.approx(np.mean([bodies.value(f"Fo{link.label}@{log}") for log in (1, 2)]))


def test_offsets_of_a_plate_and_stops() -> None:
    units = [(p.kind, p.unit) for p in ForceSensor().offset_parameters]
    assert units == [("offset", "N")] * 3 + [("offset", "N m")] * 3
    robot = arm("gautier3")
    columns = dynid.base_parameters(robot, friction=("stop1e-3", "sine2")).columns[-9:]
    assert [(p.symbol, p.joint) for p in columns] == [
        (symbol, joint) for symbol in ("Fs1e-3", "Psin2q", "Pcos2q") for joint in robot.joint_names
    ]


def test_payloads_drive_gains_and_unknown_geometry() -> None:
    robot = robot_with_friction("gautier3")
    loaded, unloaded = two_logs(robot, LOAD)
    found = dynid.identify_payload(robot, loaded, unloaded, friction=PLAIN)
    assert {(name.kind, name.link) for name in found.names} == {("inertial", found.link)}
    assert tuple(name.unit for name in found.names) == found.units
    gains = dynid.identify_gains(robot, loaded, unloaded, LOAD, friction=PLAIN)
    assert [(name.kind, name.joint) for name in gains.names] == [("gain", name) for name in robot.joint_names]
    assert {name.kind for name in gains.parameter_names} <= {"inertial", "rotor", "friction"}
    model = dynid.model_parameters(robot, unknown=("d", "r"))
    assert {(name.symbol, name.kind) for name in model.names} == {("X", "model")}
    assert tuple(name.unit for name in model.names) == model.units
