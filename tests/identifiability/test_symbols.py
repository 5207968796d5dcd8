"""Relations with symbols equal the numbers at random values of the symbols: loops, reactions, barycentric, S."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign.closed_robots import check_symbols, closed_robot
from campaign.loops import four_bar, hpr_closure, sr400_closure
from flint import arb
from numpy.testing import assert_allclose

from dynid import Robot, base_parameters, load_robot
from dynid.concurrency import flint_precision
from dynid.identifiability.base_reactions import barycentric, relate_sensors
from dynid.identifiability.numeric import Question, draw_rows
from dynid.identifiability.parameters import BaseParameters
from dynid.identifiability.relations import Coefficients
from dynid.identifiability.symbolic_numbers import Form, Ring, recognise_polynomial
from dynid.robot.expression import Expression, evaluate_expression
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.io.toml_writer import table_text
from dynid.robot.mdh import mdh_transform
from dynid.robot.transform import Array, freeze

VALUES = 20
MODELS = ("torque", "momentum", "reaction", "torque+reaction")


def with_symbols(robot: Robot, values: Mapping[str, float]) -> Robot:
    """The robot with other values of its symbols; points of closures that equal an old one follow."""

    def changed(x: Expression) -> Expression:
        return x if x.text is None else replace(x, value=evaluate_expression(x.text, values))

    links = []
    for link in robot.links:
        assert link.mdh is not None
        letters = ("gamma", "b", "alpha", "d", "theta", "r")
        row = replace(link.mdh, **{letter: changed(getattr(link.mdh, letter)) for letter in letters})
        links.append(replace(link, mdh=row, placement=mdh_transform(row)))
    old = {abs(x): values[name] for name, x in robot.symbols.items()}
    closures = tuple(
        replace(c, points=tuple(freeze([np.sign(x) * old.get(abs(x), abs(x)) for x in p]) for p in c.points))  # type: ignore[arg-type]
        for c in robot.closures
    )
    return replace(robot, links=tuple(links), closures=closures, symbols=dict(values))


def random_values(robot: Robot, rng: np.random.Generator, share: float = 0.3) -> dict[str, float]:
    return {name: float(x * (1.0 + share * rng.uniform(-1.0, 1.0))) for name, x in robot.symbols.items()}


def matrix_of(coefficients: Coefficients, kept: tuple[int, ...], size: int, values: Mapping[str, float]) -> Array:
    """Coefficients at values of the symbols; all of them are forms."""
    M = np.zeros((len(kept), size))
    for i, k in enumerate(kept):
        for c, x in coefficients[k].items():
            assert isinstance(x, Form)
            M[i, c] = x.evaluate(values)
    return M


def symbols_in(base: BaseParameters) -> set[str]:
    """Symbols that the relations' text has."""
    return {name for name in base.robot.symbols if any(name in text.partition("=")[2] for text in base.relations)}


def random_table(seed: int) -> Robot:
    """A tree of two to five joints with symbols for lengths and angles, and no two alike."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    values: dict[str, float] = {}
    for k in range(int(rng.integers(2, 6))):
        kind = str(rng.choice(["revolute", "prismatic", "fixed"], p=[0.7, 0.2, 0.1])) if k else "revolute"
        line: dict[str, Any] = {"type": kind, "parent": max(0, k - int(rng.random() < 0.2))}
        if rng.random() < 0.5:
            line["alpha"] = float(rng.choice([0.0, np.pi / 2, -np.pi / 2]))
        for letter in ("gamma", "b", "alpha", "d", "theta", "r"):
            if letter not in line and rng.random() < 0.4:
                name = f"{letter[0].upper()}{k}"
                line[letter] = f"{'-' if rng.random() < 0.3 else ''}{name}"
                values[name] = round(float(rng.uniform(0.2, 1.2)), 2)
        rows.append(line)
    gravity = [(0.0, 0.0, -9.81), (0.0, -9.81, 0.0), (3.0, 4.0, -8.0)][seed % 3]
    return Robot.from_mdh(rows, gravity=gravity, symbols=values)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["puma560", "scara", "gautier3", "rx90"])
def test_forms_of_bundled_trees_equal_the_numbers(name: str, model: str) -> None:
    robot, rng = load_robot(name), np.random.default_rng(1)
    for tared in (False, True) if "reaction" in model else (False,):
        base = base_parameters(robot, model=model, tared=tared)
        assert symbols_in(base)
        for _ in range(VALUES):
            values = random_values(robot, rng)
            other = base_parameters(with_symbols(robot, values), model=model, tared=tared)
            assert other.kept == base.kept
            found = matrix_of(base.coefficients, base.kept, len(base.columns), values)
            assert_allclose(found, other.regrouping.matrix, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_forms_of_random_trees_equal_the_numbers(seed: int) -> None:
    robot, rng = random_table(seed), np.random.default_rng(seed)
    for model in MODELS:
        base = base_parameters(robot, model=model)
        for _ in range(VALUES // 4):
            values = random_values(robot, rng)
            other = base_parameters(with_symbols(robot, values), model=model)
            assert other.kept == base.kept
            found = matrix_of(base.coefficients, base.kept, len(base.columns), values)
            assert_allclose(found, other.regrouping.matrix, rtol=1e-12, atol=1e-12)


def test_some_channels_keep_the_symbols_too() -> None:
    robot, rng = load_robot("puma560"), np.random.default_rng(4)
    some = robot.with_sensor(ForceSensor(channels=("Fz", "Mx", "Mz")))
    base = base_parameters(some, model="reaction")
    for _ in range(VALUES):
        values = random_values(robot, rng)
        other = base_parameters(with_symbols(some, values), model="reaction")
        assert other.kept == base.kept
        found = matrix_of(base.coefficients, base.kept, len(base.columns), values)
        assert_allclose(found, other.regrouping.matrix, rtol=1e-12, atol=1e-12)


def check_against_rows(robot: Robot, model: str, *, tolerance: float = 1e-12) -> BaseParameters:
    """Base parameters whose forms give the sampled rows of the model back at random values of the symbols."""
    base, rng = base_parameters(robot, model=model), np.random.default_rng(3)
    for seed in range(VALUES):
        values = random_values(robot, rng, 0.1)
        other = with_symbols(robot, values)
        W = draw_rows(Question(other, model, True, False, ()), 40, seed).matrix
        M = matrix_of(base.coefficients, base.kept, len(base.columns), values)
        size = np.abs(W[:, list(base.kept)]) @ np.abs(M) + np.abs(W)
        assert (np.abs(W[:, list(base.kept)] @ M - W) <= tolerance * np.maximum(size.max(), 1.0)).all()
    return base


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["hpr", "sr400"])
def test_loops_of_couplings_keep_their_symbols(name: str, model: str) -> None:
    base = check_against_rows(load_robot(name), model)
    ratio = {"hpr": "D5/D4*MX5", "sr400": "D8/D3*MX8"}[name]
    assert any(ratio in text for text in base.relations)


@pytest.mark.parametrize("make", [hpr_closure, sr400_closure])
def test_closures_have_the_forms_of_couplings(make: Any) -> None:
    robot = make()
    for model in ("torque", "reaction"):
        closed, coupled = base_parameters(robot, model=model), base_parameters(load_robot(robot.name), model=model)
        assert closed.relations == coupled.relations


def four_bar_with_symbols() -> Robot:
    """A four-bar of no special lengths: ground A, crank B, coupler C, rocker D."""
    lengths = {"A": 1.0, "B": 0.37, "C": 0.83, "D": 0.71}
    numbers = four_bar(*lengths.values(), at=1.1)
    assert numbers is not None
    rows: list[dict[str, Any]] = [{}, {"d": "B"}, {"parent": 0, "d": "A"}]
    tree = Robot.from_mdh(rows, gravity=(0.0, -9.81, 0.0), symbols=lengths, name="four-bar")
    (closure,) = numbers.closures
    return replace(tree, closures=(replace(closure, texts=("C", "", "", "D", "", "")),))


def test_a_four_bar_is_written_in_its_bars() -> None:
    base = check_against_rows(four_bar_with_symbols(), "torque", tolerance=1e-9)  # loops close to rounding only
    assert symbols_in(base) == {"B", "C", "D"}

    values = {"A": 1.02, "B": 0.365, "C": 0.85, "D": 0.69}
    other = base_parameters(with_symbols(base.robot, values))
    found = matrix_of(base.coefficients, base.kept, len(base.columns), values)
    assert_allclose(found, other.regrouping.matrix, rtol=1e-12, atol=1e-12)


def test_loops_at_oblique_angles_keep_their_symbols() -> None:
    for seed, model in ((45, "energy"), (209, "momentum")):
        base = base_parameters(closed_robot(seed), model=model)
        assert all(isinstance(x, Form) for row in base.coefficients.values() for x in row.values())
        assert check_symbols(base, np.random.default_rng(seed))["error"] < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "model"), [(20002, "torque"), (20003, "torque"), (20011, "momentum")])
def test_coefficients_in_few_lengths_keep_their_symbols(seed: int, model: str) -> None:
    """Three oblique angles, and up to 15 lengths of which a coefficient has four."""
    base = base_parameters(closed_robot(seed), model=model)
    assert all(isinstance(x, Form) for row in base.coefficients.values() for x in row.values())
    assert check_symbols(base, np.random.default_rng(seed))["error"] < 1e-12


def test_polynomials_over_powers_are_recognised() -> None:
    """B/C*(A*cos(2.5) - 2*D*sin(0.6)) from each length changed by itself, and no form of a random number."""
    angles = {"cos(2.5)": 2.5, "sin(2.5)": 2.5, "cos(0.6)": 0.6, "sin(0.6)": 0.6}
    with flint_precision(400):
        balls = {name: (arb(25) / 10 if x == 2.5 else arb(6) / 10) for name, x in angles.items()}
        turned = {name: x.cos() if name.startswith("cos") else x.sin() for name, x in balls.items()}
        ring = Ring(["A", "B", "C", "D", *angles], {n: Decimal(x.str(110, radius=False)) for n, x in turned.items()})
        first = {"A": 0.31, "B": 0.47, "C": 0.83, "D": 0.59}

        def value(lengths: Mapping[str, float]) -> arb:
            A, B, C, D = (arb(Fraction(repr(x)).numerator) / Fraction(repr(x)).denominator for x in lengths.values())
            return B / C * (A * turned["cos(2.5)"] - 2 * D * turned["sin(0.6)"])

        others = [{**first, name: round(1.03 * x, 12)} for name, x in first.items()]
        last = {name: round(x * (0.97 + 0.01 * k), 12) for k, (name, x) in enumerate(first.items())}
        samples = [(x, value(x)) for x in (first, *others, last)]
        form = recognise_polynomial(samples[0], samples[1:-1], samples[-1], 1, ring)
        assert str(form) == str(ring.ratio(
            ring.generators["B"] * (ring.generators["A"] * ring.generators["cos(2.5)"]
                                    - 2 * ring.generators["D"] * ring.generators["sin(0.6)"]),
            ring.generators["C"],
        ))  # fmt: skip
        wrong = [(x, y + arb(2).sqrt() * (0.31 < x["A"])) for x, y in samples]
        assert recognise_polynomial(wrong[0], wrong[1:-1], wrong[-1], 1, ring) is None


@pytest.mark.parametrize("seed", [45, 158])
def test_numbers_without_a_form_are_not_written_as_long_fractions(seed: int) -> None:
    """Any number is nearly a ratio of long integers or a sum of cosines; gravity (1.3, -4.1, -8.6) gives 41/13."""
    for text in base_parameters(closed_robot(seed), model="torque+reaction").relations:
        assert max(map(int, re.findall(r"\d+", text))) < 10**6


def test_a_wrong_form_is_noticed() -> None:
    base = base_parameters(closed_robot(3))  # three loops, closures among them
    wrong = {k: dict(row) for k, row in base.coefficients.items()}
    k, c = next((k, c) for k, row in wrong.items() for c, x in row.items() if c != k and isinstance(x, Form))
    x = wrong[k][c]
    assert isinstance(x, Form)
    wrong[k][c] = x * x.ring.constant(Fraction(10**9 + 1, 10**9))
    object.__setattr__(base, "coefficients", wrong)
    assert check_symbols(base, np.random.default_rng(0))["error"] > 1e-12


def test_equal_lengths_are_one_only_where_the_loop_asks_for_it() -> None:
    table = load_robot("hpr")
    alike = with_symbols(table, {"D4": 0.7, "D5": 0.7, "D6": 0.1, "R6": 0.9})
    assert any("D5/D4*MX5" in text for text in base_parameters(alike).relations)


@pytest.mark.parametrize(
    ("name", "count"),
    [("puma560", VALUES), ("scara", VALUES), ("hpr", 1), pytest.param("hpr", VALUES, marks=pytest.mark.slow)],
)
def test_barycentric_forms_equal_the_numbers(name: str, count: int) -> None:
    robot, rng = load_robot(name), np.random.default_rng(5)
    for model in ("torque", "reaction"):
        base = base_parameters(robot, model=model)
        rows = barycentric(robot).base_parameter_coefficients(base)
        for _ in range(count):
            values = random_values(robot, rng)
            changed = with_symbols(robot, values)
            expected = barycentric(changed).base_parameter_matrix(base_parameters(changed, model=model))
            assert_allclose(matrix_of(rows, base.kept, expected.shape[1], values), expected, rtol=1e-12, atol=1e-12)
    assert any(symbol in text for text in barycentric(robot).base_parameter_relations(base) for symbol in robot.symbols)


def test_s_keeps_its_symbols() -> None:
    rows: list[dict[str, Any]] = [
        {"type": "prismatic"},
        {"type": "revolute", "alpha": np.pi / 2, "d": "D2"},
        {"type": "revolute", "d": "D3"},
        {"type": "prismatic", "d": "D4", "alpha": 0.7},
    ]
    symbols = {"D2": 0.4, "D3": 0.3, "D4": 0.2}
    robot, rng = Robot.from_mdh(rows, symbols=symbols), np.random.default_rng(6)
    found = relate_sensors(robot)
    for _ in range(VALUES):
        values = random_values(robot, rng)
        other = relate_sensors(with_symbols(robot, values))
        M = matrix_of(found.torque.coefficients, found.torque.kept, len(found.torque.columns), values)
        assert_allclose(M[:, list(found.reaction.kept)], other.S, rtol=1e-12, atol=1e-12)


def test_preferred_sets_keep_the_symbols() -> None:
    robot, rng = load_robot("hpr"), np.random.default_rng(7)
    base = base_parameters(robot, prefer=("MX5", "M7"))
    assert base.names[:2] == ("MX5", "M7")
    for _ in range(3):
        values = random_values(robot, rng)
        other = base_parameters(with_symbols(robot, values), prefer=("MX5", "M7"))
        found = matrix_of(base.coefficients, base.kept, len(base.columns), values)
        assert_allclose(found, other.regrouping.matrix, rtol=1e-12, atol=1e-12)


def test_points_of_closures_keep_their_symbols_in_files(tmp_path: Path) -> None:
    robot = four_bar_with_symbols()
    place = tmp_path / "four_bar.toml"
    place.write_text(table_text(robot))
    loaded = load_robot(place)
    assert loaded.closures[0].texts == ("C", "", "", "D", "", "")
    assert base_parameters(loaded).relations == base_parameters(robot).relations
