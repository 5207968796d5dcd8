"""What is unknown: letters, entries and symbols, from Python and from tables, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid import DynidError, ModelParameters, Robot, count_model_parameters, load_robot, model_parameters, regressor
from dynid.robot.io.toml_writer import table_text
from dynid.robot.robot import StoredRobot
from dynid.storage.records import from_plain_data, to_plain_data
from robots import random_motion

RIGHT = math.pi / 2


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Robot]:
    def read(text: str) -> Robot:
        file = tmp_path / "robot.toml"
        file.write_text(text)
        return load_robot(file)

    return read


def with_values(robot: Robot, seed: int = 0) -> Robot:
    values = np.random.default_rng(seed).uniform(0.1, 1.0, len(robot.parameter_names))
    values[[i for i, name in enumerate(robot.parameter_names) if name.startswith("Ia")]] = 0.0
    return robot.with_parameters(values)


def check_torques(found: ModelParameters, robot: Robot) -> None:
    motion = random_motion(robot, samples=20)
    expected = regressor(robot, motion).matrix @ robot.parameters
    np.testing.assert_allclose(found.regressor(motion).matrix @ found.values(robot), expected, rtol=1e-9, atol=1e-9)


def test_letters_entries_and_symbols() -> None:
    robot = load_robot("puma560")
    assert model_parameters(robot, unknown="d3, R4").unknown == ("R4", "d3")
    assert count_model_parameters(robot, unknown=("d3", "r3", "d4", "r4")).count == 60
    assert count_model_parameters(robot, unknown=["d", "r"]).count == 78, "zeros of the table are unknown too"
    assert model_parameters(robot).unknown == ()


def test_a_table_declares_letters_for_all_joints_and_for_one(load: Callable[[str], Robot]) -> None:
    rows = "[[joint]]\n[[joint]]\nalpha = 90\n{}\n[[joint]]\nalpha = -90\nd = 0.3\n"
    head = 'angles = "deg"\n'
    assert load(head + rows.format("")).unknown == ()
    both = load(head + 'unknown = ["d", "r"]\n' + rows.format(""))
    assert both.unknown == ("d", "r")
    assert model_parameters(both).count == 23
    one = load(head + rows.format('unknown = ["d"]'))
    assert one.unknown == ("d2",)
    assert model_parameters(one).unknown == ("d2",)
    assert model_parameters(one, unknown=()).unknown == ()


def test_a_standard_table_declares_its_own_letters(load: Callable[[str], Robot]) -> None:
    """A row's a and alpha belong to the joint after it, d and theta are r and theta; the last a moves nothing."""
    text = 'convention = "standard"\nangles = "deg"\nunknown = ["a", "d"]\n' + "[[joint]]\nalpha = 90\n" * 3
    robot = load(text)
    assert robot.unknown == ("d2", "d3", "r1", "r2", "r3")
    assert model_parameters(robot).count == 23
    single = load('convention = "standard"\n[[joint]]\nunknown = ["alpha", "a", "theta"]\n[[joint]]\n')
    assert single.unknown == ("alpha2", "d2", "theta1")


def test_known_zeros_in_a_frame_that_moves_are_refused(load: Callable[[str], Robot]) -> None:
    text = 'convention = "standard"\n[symbols]\nL = 0.0\n[[joint]]\na = "L"\n[[joint]]\n[link.1]\nzero = ["{}"]\n'
    for zero, bad in (("MX", True), ("MY", False)):
        words = 'unknown = ["L"]\n' + text.format(zero)
        if bad:
            with pytest.raises(DynidError, match=r"link\.1, zero: an unknown a moves the frame"):
                load(words)
        else:
            assert load(words).known_zeros == ("MY1",)


def test_what_is_unknown_survives_files(tmp_path: Path) -> None:
    robot = replace(load_robot("scara"), unknown=("A1", "A2"))
    assert from_plain_data(StoredRobot, to_plain_data(StoredRobot, robot)).unknown == robot.unknown
    file = tmp_path / "again.toml"
    file.write_text(table_text(robot))
    again = load_robot(file)
    assert again.unknown == robot.unknown
    assert model_parameters(again).expressions == model_parameters(robot).expressions


def test_expressions_in_unknown_symbols() -> None:
    """L in two places, doubled, shifted and squared; A as an angle, its negative and its double."""
    rows = [
        {"alpha": "A"},
        {"alpha": "-A + 0.3", "d": "2*L - 0.1"},
        {"alpha": "2*A", "r": "L**2/4 + K", "theta": "A - B"},
    ]
    robot = with_values(Robot.from_mdh(rows, symbols={"A": 0.4, "L": 0.3, "K": 0.2, "B": 0.7}))
    found = model_parameters(robot, unknown=("A", "L"))
    assert found.unknown == ("L", "A")
    assert count_model_parameters(robot, unknown=("A", "L")).blocks == found.blocks
    check_torques(found, robot)
    other = with_values(Robot.from_mdh(rows, symbols={"A": 1.1, "L": -0.8, "K": 0.2, "B": 0.7}), seed=1)
    check_torques(found, other)


def test_degrees_in_a_table(load: Callable[[str], Robot]) -> None:
    head = 'angles = "deg"\nunknown = ["A"]\n[symbols]\nA = 25.0\n'
    robot = with_values(load(head + '[[joint]]\nalpha = 90\n[[joint]]\nalpha = "A + 90"\nd = 0.2\n'))
    found = model_parameters(robot)
    assert found.form.is_rational, "90 degrees are exact"
    check_torques(found, robot)


def test_special_angles_are_exact() -> None:
    """Two fixed turns of 45 degrees make a right angle, and nothing is added by their rounding."""
    halves = [{}, {"type": "fixed", "alpha": RIGHT / 2}, {"alpha": RIGHT / 2}, {"alpha": RIGHT}]
    whole = [{}, {"alpha": RIGHT}, {"alpha": RIGHT}]
    fixed = Robot.from_mdh(halves)
    assert model_parameters(fixed).blocks == model_parameters(Robot.from_mdh(whole)).blocks
    assert count_model_parameters(fixed).blocks == model_parameters(fixed).blocks
    check_torques(model_parameters(fixed), with_values(fixed))


def test_values_of_another_robot() -> None:
    robot = load_robot("puma560")
    found = model_parameters(robot, unknown=("D3",))
    longer = Robot.from_mdh([{}, {"alpha": -RIGHT}, {"d": 0.7, "r": 0.2}])
    with pytest.raises(DynidError, match="differs from 'puma560' in more than its unknowns"):
        found.values(longer)
    bare = model_parameters(load_robot("iiwa"))
    assert np.isnan(bare.values()).all()


def test_a_robot_whose_parameters_have_no_effect() -> None:
    """Without gravity and with all but one link parameter known to be zero, nothing is left to identify."""
    robot = Robot.from_mdh([{}])
    zero = frozenset({"ZZ"})
    found = model_parameters(replace(robot, links=(replace(robot.links[0], zero=zero),)))
    assert (found.count, found.blocks, found.expressions) == (0, (0,), ())
    assert found.regressor(random_motion(robot, samples=3)).matrix.shape == (3, 0)
    assert count_model_parameters(found.robot).blocks == (0,)


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        (("x",), "no 'x' that could be unknown"),
        (("d9",), "number 1 to 6"),
        (("d03",), "no 'd03'"),
        (("d0",), "no 'd0'"),
        (("a2",), "are d and r here"),
        ((3,), "got 3"),
        (5, "got 5"),
        (("",), "no ''"),
    ],
)
def test_names_that_are_none(unknown: tuple[str, ...], words: str) -> None:
    with pytest.raises(DynidError, match=words):
        model_parameters(load_robot("puma560"), unknown=unknown)


@pytest.mark.parametrize(
    ("entry", "unknown", "words"),
    [
        ({"d": "1/L"}, "L", "d2 = '1/L' is not a polynomial"),
        ({"d": "L**0.5"}, "L", "declare d2 itself unknown"),
        ({"d": "L**(-1)"}, "L", "not a polynomial"),
        ({"alpha": "A/2"}, "A", "whole multiples"),
        ({"alpha": "A*A"}, "A", "whole multiples"),
        ({"d": "2**L"}, "L", "not a polynomial"),
    ],
)
def test_expressions_that_are_no_polynomials(entry: dict[str, str], unknown: str, words: str) -> None:
    robot = Robot.from_mdh([{}, entry], symbols={"L": 0.3, "A": 0.4})
    with pytest.raises(DynidError, match=words.replace("*", r"\*")):
        model_parameters(robot, unknown=(unknown,))
    letter = next(iter(entry))
    assert model_parameters(robot, unknown=(f"{letter}2",)).unknown == (f"{letter}2",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('unknown = ["z"]\n[[joint]]\n', "unknown: 'z' is neither a symbol of the file nor a letter"),
        ('unknown = ["a"]\n[[joint]]\n', 'convention = "modified"'),
        ('unknown = ["d2"]\n[[joint]]\n', "number 1 to 1"),
        ('[[joint]]\nunknown = ["d1"]\n', "joint 1 .'1'., unknown: 'd1' is not a letter"),
        ('convention = "standard"\n[[joint]]\nunknown = ["r"]\n', "which has a, alpha, d, theta"),
        ('unknown = "d"\n[[joint]]\n', "unknown: input should be a valid list"),
    ],
)
def test_tables_that_declare_nonsense(load: Callable[[str], Robot], text: str, words: str) -> None:
    with pytest.raises(DynidError, match=words):
        load(text)


def test_loops_and_floating_bases_are_refused() -> None:
    for robot in (load_robot("sr400"), load_robot("puma560", floating_base=True)):
        with pytest.raises(DynidError, match=r"closed loops|floating base"):
            model_parameters(robot, unknown=("d",))


def test_a_chain_that_is_too_long() -> None:
    """Known geometry has no other limit: ten joints are found, twenty would not end."""
    with pytest.raises(DynidError, match=r"too many joints.*use base_parameters"):
        model_parameters(Robot.from_mdh([{"alpha": RIGHT}] * 20), unknown=())


def test_rows_that_do_not_exist_or_fit() -> None:
    found = model_parameters(load_robot("scara"), unknown=("A1", "A2"))
    motion = random_motion(found.robot, samples=4)
    with pytest.raises(DynidError, match="there are no rows 'energy'; there are torque, momentum"):
        found.regressor(motion, model="energy")
    with pytest.raises(DynidError, match=r"contiguous array of floats of shape \(4, 4, 6\)"):
        found.write(motion, np.zeros((4, 6, 4)))
    with pytest.raises(DynidError, match="active joints"):
        found.regressor(random_motion(load_robot("puma560"), samples=4))
