"""Explanations are checked by doing what they say: invisible changes stay invisible, remedies reveal them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from dynid import DynidError, Explanation, Robot, base_parameters, explain, load_robot
from dynid.identifiability.explanation import RULES, find_eliminated_parameters
from dynid.identifiability.numeric import Question, model_matrix, random_samples
from dynid.identifiability.rules import _RULES
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array
from mistakes import arm_urdf
from random_tables import random_table


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def rows_of(robot: Robot, model: str, *, tared: bool = False) -> Array:
    """Rows of a model at random samples; the sensor is the robot's own."""
    W = model_matrix(Question(robot, model, True, tared, ()), random_samples(robot, 40, seed=1))
    p = len(robot.parameter_names)
    offsets = np.linalg.qr(W[:, p:])[0]
    return np.asarray(W[:, :p] - offsets @ (offsets.T @ W[:, :p]))


def vector_of(found: Explanation, change: Mapping[Parameter, float]) -> Array:
    """A change of parameters as a vector."""
    z = np.zeros(len(found.base.columns))
    for name, x in change.items():
        z[found.base.columns.index(name)] = x
    return z


def seen(W: Array, z: Array) -> bool:
    """Whether rows show a change: beyond 1e-10 of the largest entries."""
    return bool(np.abs(W @ z).max() > 1e-10 * np.abs(W).max() * np.abs(z).max())


@pytest.mark.parametrize("seed", range(10))
def test_explanations_of_random_robots_hold_when_carried_out(seed: int) -> None:
    robot, _ = random_table(seed + 40)
    robot = replace(robot, gravity=np.array([0.0, 0.0, -9.81]))
    base = base_parameters(robot)
    rng = np.random.default_rng(seed)
    hidden = [*base.no_effect, *base.regrouped]
    for name in rng.permutation(hidden)[:3]:
        found = explain(base, str(name))
        (change,) = found.changes
        z = vector_of(found, change)
        assert z[base.columns.index(str(name))] == 1.0
        assert not seen(rows_of(robot, "torque"), z)
        plate = {t.what: t for t in found.trials if t.kind == "sensor"}
        assert plate["a force plate alone"].revealed == seen(rows_of(robot.with_sensor(None), "reaction"), z)
        for trial in plate.values():
            if trial.channel:
                one = robot.with_sensor(ForceSensor(channels=(trial.channel,)))
                assert trial.revealed == seen(rows_of(one, "reaction"), z)
        for trial in (t for t in found.trials if t.kind == "mounting"):
            tilted = replace(robot, gravity=np.array([3.364, 4.127, -8.087]))  # another tilt
            assert trial.revealed == seen(rows_of(tilted, "torque"), z)
            assert base_parameters(tilted).count == trial.count


def test_reasons_of_the_puma() -> None:
    base = base_parameters(load_robot("puma560"))
    line = explain(base, "MX1")
    assert (line.status, line.rule) == ("no effect", "rule_5")
    assert line.causes == ("the direction of gravity", "alpha of joint 1")
    assert {t.channel for t in line.remedies if t.channel} == {"Fx", "Fy", "Mx", "My"}
    assert all(t.identifiable for t in line.remedies)
    turn = explain(base, "XX1")
    assert (turn.rule, turn.remedies) == ("rule_4", ())
    mass = explain(base, "M3")
    assert (mass.status, mass.rule) == ("regrouped", "rule_1a")
    assert mass.changes[0] == pytest.approx(
        {"M3": 1.0, "ZZ1": -0.29, "XX2": 0.25, "XZ2": 0.1, "ZZ2": -0.25, "MX2": -0.5}
    )  # fmt: skip
    carrier = explain(base, "ZZ1")
    assert carrier.status == "base with others"
    assert len(carrier.changes) == 8
    assert not carrier.remedies
    assert explain(base, "ZZ6").trials == ()


def test_statuses_models_loops_and_mistakes() -> None:
    scara = base_parameters(load_robot("scara"))
    assert explain(scara, "MX4").status == "known zero"
    plate = base_parameters(load_robot("puma560"), model="reaction")
    assert explain(plate, "Ia3").remedies[0].what == "joint torques in addition to the force plate"
    crank = base_parameters(load_robot("slider_crank"))
    found = explain(crank, crank.regrouped[0])
    assert not [t for t in found.trials if t.kind == "geometry"]  # other lengths are other loops
    assert found.sentences
    friction = base_parameters(load_robot("scara"), method="qr", friction=("viscous",))
    assert explain(friction, "Fv2").status == "base"
    assert explain(friction, "ZZ3").status == "regrouped"
    with pytest.raises(DynidError, match="'XX9' is not a parameter of 'scara'"):
        explain(scara, "XX9")


@pytest.mark.parametrize("floating", [False, True])
def test_robots_without_a_table_are_explained_too(tmp_path: Path, floating: bool) -> None:
    (tmp_path / "arm.urdf").write_text(arm_urdf())
    base = base_parameters(load_robot(tmp_path / "arm.urdf", floating_base=floating))
    found = explain(base, base.regrouped[0])
    (change,) = found.changes
    assert found.rule is None
    assert not seen(base.regrouping.matrix, vector_of(found, change))
    assert [trial.kind for trial in found.trials].count("geometry") == 0
    assert found.sentences[-1].startswith("Rules and changed geometries are for tables") == bool(found.trials)


def test_every_rule_has_words() -> None:
    assert {rule.__name__ for rules in _RULES.values() for rule in rules} <= set(RULES)


def test_command_explains_and_writes_json(dynid: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "why.json"
    text = dynid("base", "puma560", "--explain", "MX1", "--json", out).out
    page = (Path(__file__).parents[2] / "docs" / "base.md").read_text(encoding="utf-8")
    assert f"```text\n{text}```" in page  # docs/base.md shows this output
    data = json.loads(out.read_text())["explanation"]
    assert data["rule"] == "rule_5"
    assert data["changes"] == [{"MX1": 1.0}]


def test_command_prefers_and_shows_table_2(dynid: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "base.json"
    dynid(
        "base", "scara", "--prefer", "MY3,Fv2", "--diagnostics", "--samples", "60", "--friction", "viscous",
        "--json", out,
    )  # fmt: skip
    data = json.loads(out.read_text())
    assert data["names"][:2] == ["MY3", "Fv2"]
    assert len(data["matrix"][0]) == len(data["parameter_names"])
    table = data["diagnostics"]
    assert (table["rows"], table["rank"]) == (60, 13)
    V2, sigma = np.array(table["V2"]), np.array(table["sigma"])
    assert V2.shape == (len(table["columns"]), len(table["columns"]) - 13)
    assert (sigma[:13] > 1e-2).all()
    assert (sigma[13:] < 1e-10).all()
    assert np.abs(table["T"][13:]).max() < 1e-10 < np.abs(table["T"][:13]).min()
    few = dynid("base", "scara", "--diagnostics", "--samples", 5, code=1)
    assert "8 rows, rank 8" in few.out
    assert "whatever the motion" not in few.out
    assert "8 rows cannot distinguish" in " ".join((few.out + few.err).split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "exact", "--samples", "9"), "takes no samples"),
        (("--method", "all", "--explain", "XX1"), "choose one"),
        (("--prefer", ","), "separated by commas"),
        (("--prefer", "data"), "belong together"),
        (("--explain", "XX9"), "is not a parameter of 'puma560'"),
        (("--friction", "nonsense"), "no friction block 'nonsense'"),
    ],
)
def test_mistakes_on_the_command_line(dynid: CommandLine, options: tuple[str, ...], words: str) -> None:
    assert words in " ".join(dynid("base", "puma560", *options, code=2).err.split())


@pytest.mark.parametrize("model", ["torque", "momentum", "reaction", "torque+reaction"])
@pytest.mark.parametrize("name", ["puma560", "scara", "hpr", "slider_crank"])
def test_every_parameter_that_is_not_kept_has_its_rule(name: str, model: str) -> None:
    base = base_parameters(load_robot(name), model=model)
    found = find_eliminated_parameters(base)
    assert {one.parameter for one in found} == {*base.regrouped, *base.no_effect}
    assert all(one.reason and one.link for one in found)
    for one in found:
        column = base.regrouping.matrix[:, base.columns.index(one.parameter)]
        assert len(one.joins) == np.count_nonzero(column)
        assert (one.rule == "rotor_on_base") == (model == "reaction" and one.parameter.kind == "rotor")


def test_rules_name_what_the_papers_name() -> None:
    by_name = {str(one.parameter): one for one in find_eliminated_parameters(base_parameters(load_robot("puma560")))}
    assert {name: by_name[name].rule for name in ("XX1", "MX1", "Ia2", "M6")} == {
        "XX1": "rule_4", "MX1": "rule_5", "Ia2": "rule_rotor_revolute", "M6": "rule_1a",
    }  # fmt: skip
    loops = {str(one.parameter): one.rule for one in find_eliminated_parameters(base_parameters(load_robot("hpr")))}
    assert loops["MX5"] == "loop"
    assert loops["YY5"] == "rule_1a"


def test_what_joins_its_parent_by_rule_1_is_invisible_to_every_sensor() -> None:
    """Rules 1a and 1b move what moves alike on both links: plates and loops do not see it either."""
    for name in ("puma560", "scara", "hpr"):
        robot = load_robot(name)
        base = base_parameters(robot)
        for model in ("reaction", "torque+reaction"):
            for one in find_eliminated_parameters(base_parameters(robot, model=model)):
                if one.rule in ("rule_1a", "rule_1b") and one.joins:
                    assert one.parameter in {*base.regrouped, *base.no_effect}


def test_eliminations_on_the_command_line(dynid: CommandLine, tmp_path: Path) -> None:
    place = tmp_path / "base.json"
    run = dynid("base", "hpr", "--eliminations", "--json", str(place))
    assert "40 parameters removed" in run.out
    facts = json.loads(place.read_text())["eliminations"]
    assert next(x for x in facts if x["parameter"] == "MX5")["joins"] == ["MX2", "MX3", "MX4"]
    dynid("base", "hpr", "--method", "all", "--eliminations", code=2)
