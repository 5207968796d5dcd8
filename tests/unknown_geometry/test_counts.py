"""Numbers of model parameters and their blocks: published ones, and two routes that share no arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynid import DynidError, Robot, base_parameters, count_model_parameters, load_robot, model_parameters
from dynid.robot.inertia import SYMBOLS
from dynid.unknown_geometry.finite_field import PRIMES, _Evaluation
from random_tables import random_table

RIGHT = math.pi / 2


def right_angled(n: int) -> Robot:
    """Axes that are perpendicular to their neighbours."""
    return Robot.from_mdh([{"alpha": 0.0 if j == 0 else RIGHT * (-1) ** j} for j in range(n)], name=f"{n}R")


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 10), (3, 23), (4, 40), (5, 61), (6, 86)])
def test_perpendicular_axes_with_all_lengths_unknown(n: int, count: int) -> None:
    """Known alpha = +-90, unknown d and r: m = 2 n^2 + 3 n - 4."""
    assert count == 2 * n**2 + 3 * n - 4
    found = model_parameters(right_angled(n), unknown=("d", "r"))
    assert (found.count, sum(found.blocks)) == (count, count)
    if n < 5:
        assert count_model_parameters(right_angled(n), unknown=("d", "r")).blocks == found.blocks


@pytest.mark.parametrize(
    ("name", "unknown", "blocks"),
    [
        ("puma560", ("D3", "R3", "D4", "R4"), (1, 7, 9, 13, 15, 15)),
        ("puma560", (), (1, 7, 7, 7, 7, 7)),
        ("iiwa", ("R1", "R3", "R5", "R7"), (1, 7, 7, 9, 9, 11, 11)),
        ("scara", ("A1", "A2"), (1, 3, 1, 1)),
        ("scara", (), (1, 3, 1, 1)),
    ],
)
def test_bundled_robots(name: str, unknown: tuple[str, ...] | None, blocks: tuple[int, ...]) -> None:
    """PUMA 560: 60, known 36; seven joints with unknown offsets along four axes: 55; SCARA: 6."""
    robot = load_robot(name)
    assert model_parameters(robot, unknown=unknown).blocks == blocks
    assert count_model_parameters(robot, unknown=unknown).blocks == blocks


@pytest.mark.parametrize(("n", "count"), [(2, 11), (3, 65)])
def test_unknown_twists(n: int, count: int) -> None:
    words = ("alpha", "d", "r")
    assert model_parameters(right_angled(n), unknown=words).count == count
    assert count_model_parameters(right_angled(n), unknown=words).count == count


def test_a_tilted_first_axis_is_unknown_only_when_named() -> None:
    """The letter alpha leaves out the first joint's: it says how frame 0, where gravity is given, was laid."""
    assert count_model_parameters(right_angled(2), unknown=("alpha", "d", "r", "alpha1")).blocks == (3, 14)


def test_too_many_parameters_are_refused_with_their_number_and_the_remedy() -> None:
    with pytest.raises(DynidError, match=r"330 model parameters .*over 300.*declare the angles alpha2, alpha3, alpha4"):
        model_parameters(right_angled(4), unknown=("alpha", "d", "r"))


def test_counting_stops_where_there_are_too_many() -> None:
    with pytest.raises(DynidError, match=r"more than 5.. model parameters"):
        model_parameters(right_angled(6), unknown=("alpha", "d", "r"))


@pytest.mark.parametrize("block", range(10))
def test_symbols_and_finite_fields_agree_on_random_robots(block: int) -> None:
    """A hundred tables with special angles, prismatic and fixed joints, known zeros and any gravity."""
    for seed in range(10 * block, 10 * block + 10):
        robot, unknown = random_table(seed)
        rotor = seed % 3 == 0
        found = model_parameters(robot, unknown=unknown, rotor_inertia=rotor)
        counted = count_model_parameters(robot, unknown=unknown, rotor_inertia=rotor)
        assert counted.blocks == found.blocks, (seed, unknown)


@pytest.mark.parametrize(
    ("rows", "seen"), [([{}], "ZZ"), ([{}, {"alpha": RIGHT}], "YY"), ([{}, {"alpha": RIGHT, "theta": RIGHT}], "XX")]
)
def test_a_turn_about_one_axis_shows_one_inertia(rows: list[dict[str, float]], seen: str) -> None:
    """A joint, and a fixed link behind it that is laid so that the joint turns it about z, y or x."""
    kinds = [row | {"type": "revolute" if j == 0 else "fixed"} for j, row in enumerate(rows)]
    robot = Robot.from_mdh(kinds, gravity=(0.0, 0.0, 0.0))
    for symbol in ("XX", "YY", "ZZ", "XY", "XZ", "YZ"):
        known = [frozenset(SYMBOLS)] * (len(rows) - 1) + [frozenset(SYMBOLS) - {symbol}]
        links = tuple(replace(link, zero=zero) for link, zero in zip(robot.links, known, strict=True))
        alone = replace(robot, links=links)
        assert model_parameters(alone).count == count_model_parameters(alone).count == (symbol == seen)


@pytest.mark.parametrize("rotor", [False, True])
def test_known_geometry_has_as_many_as_base_parameters(rotor: bool) -> None:
    """The exact recursion of base parameters is a third way."""
    for seed in range(40):
        robot, _ = random_table(3000 + seed)
        base = base_parameters(robot, rotor_inertia=rotor)
        assert model_parameters(robot, unknown=(), rotor_inertia=rotor).count == base.count, seed


@pytest.mark.parametrize("name", ["panda", "ur10", "kr300", "rx90", "tx40", "lwr4"])
def test_known_geometry_of_bundled_robots(name: str) -> None:
    robot = load_robot(name)
    assert model_parameters(robot, unknown=()).count == base_parameters(robot, rotor_inertia=False).count


@pytest.mark.parametrize("p", PRIMES)
def test_products_over_the_field_are_exact(p: int) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.integers(0, p, (5, 700)), rng.integers(0, p, (700, 8))
    A[0], B[:, 0] = p - 1, p - 1
    field: Any = SimpleNamespace(p=p)
    found = _Evaluation._mix_columns(field, A, B)
    assert (found == A.astype(object) @ B.astype(object) % p).all()
