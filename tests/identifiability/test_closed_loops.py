"""Base parameters of implicit loops by samples: the count of theory, or a warning that names what is uncertain."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from dynid import Motion, base_parameters, design_excitation, identify, load_robot, simulate
from dynid.dynamics.kernels.loops import loop_map
from dynid.errors import DeadPointError, ExcitationError, LoopError, ModelError, SingularPathError
from dynid.identifiability.base_parameters import find_rank_warnings
from dynid.identifiability.numeric import Question, draw_rows, find_by_qr, find_by_svd, random_samples
from dynid.robot.io.toml_writer import table_text
from random_loops import FAMILIES, LoopCase, closure_twin, four_bar, random_loop, robot_of

PARALLELOGRAM = four_bar((0.7, 0.4, 0.7, 0.4), math.pi / 2, 1, [0.0, -9.81, 0.0])
SPATIAL = ("7R", "RCCC")


def with_limits(low: float, high: float) -> dict[str, object]:
    """The parallelogram, its crank limited."""
    joints = [{"limits": {"position": [low, high]}}, *PARALLELOGRAM["joint"][1:]]
    return {**PARALLELOGRAM, "joint": joints}


def as_coupling() -> dict[str, object]:
    """The same parallelogram as explicit relations."""
    table = {key: value for key, value in PARALLELOGRAM.items() if key != "closure"}
    return {**table, "coupling": [{"passive": "2", "of": {"1": -1.0}}, {"passive": "3", "of": {"1": 1.0}}]}


@pytest.mark.parametrize("method", ["qr", "svd"])
@pytest.mark.parametrize("model", ["torque", "energy", "power"])
def test_a_parallelogram_has_the_same_parameters_as_closure_and_as_coupling(method: str, model: str) -> None:
    reference = base_parameters(robot_of(as_coupling()), method="qr", model=model)
    assert reference.count == 3
    for table in (PARALLELOGRAM, with_limits(0.3, 2.8), with_limits(-3.0, 3.0)):
        for seed in range(3):
            found = base_parameters(robot_of(table), method=method, model=model, seed=seed)
            assert found.names == reference.names
            assert not found.warnings
            assert found.relations == reference.relations
            np.testing.assert_allclose(found.matrix, reference.matrix, atol=1e-9)


@pytest.mark.parametrize("name", ["hpr", "sr400"])
@pytest.mark.parametrize("rotors", [True, False])
def test_parallelogram_robots_as_closures(name: str, rotors: bool) -> None:
    case = closure_twin(name, rotor_inertia=rotors)
    reference = base_parameters(load_robot(name), method="qr", rotor_inertia=rotors)
    for method in ("qr", "svd"):
        found = base_parameters(case.robot, method=method, rotor_inertia=rotors)
        assert found.count == case.count == reference.count
        assert not found.warnings


def check(case: LoopCase, seeds: range, methods: tuple[str, ...] = ("qr", "svd")) -> None:
    """Right, or warned; loops in a plane are far enough from what rounding does to be right always."""
    robot = case.robot
    for seed in seeds:
        for method in methods:
            found = base_parameters(robot, method=method, seed=seed)
            if case.name not in SPATIAL:
                assert found.count == case.count, (case.name, case.table, method, seed)
            else:
                assert found.count == case.count or found.warnings, (case.table, method, seed)


@pytest.mark.parametrize("seed", range(2 * len(FAMILIES)))
def test_random_loops(seed: int) -> None:
    check(random_loop(seed), range(1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_loops(seed: int) -> None:
    check(random_loop(seed), range(5))


@pytest.mark.parametrize("seed", [0, 2, 3, 6, 8])
def test_samples_stay_on_the_stated_assembly_mode(seed: int) -> None:
    """The passive Jacobian keeps the sign of every loop's determinant, and its regularity."""
    robot = random_loop(seed).robot
    loop = loop_map(robot)
    assert loop is not None
    q = np.vstack([loop.at, random_samples(robot, 300, 1).q])
    P = loop.inverse_of_passive(loop.follow_paths(q).y @ loop.C.T + loop.offset)
    for k in range(len(robot.closures)):
        part = slice(2 * k, 2 * k + 2) if len(robot.closures) > 1 else slice(None)
        assert len(set(np.sign(np.linalg.det(P[:, part, part])))) == 1


def test_a_parallelogram_is_sampled_as_one() -> None:
    robot = robot_of(PARALLELOGRAM)
    loop = loop_map(robot)
    assert loop is not None
    q = random_samples(robot, 500, 0).q
    y = loop.follow_paths(q).y
    assert ((q > 0.0) & (q < math.pi)).all()
    assert np.ptp(q) > 2.0
    np.testing.assert_allclose(y[:, 1:], q * [-1.0, 1.0], atol=1e-13)


def test_an_assembly_at_a_dead_point_is_refused() -> None:
    table = {**PARALLELOGRAM, "closure": [{**PARALLELOGRAM["closure"][0], "at": [0.0], "start": [0.0, 0.0]}]}
    with pytest.raises(ModelError, match="dead point"):
        base_parameters(robot_of(table))


def test_a_floating_base_under_a_loop(tmp_path: Path) -> None:
    names = []
    for table in (PARALLELOGRAM, as_coupling()):
        (tmp_path / "robot.toml").write_text(table_text(robot_of(table)))
        names.append(base_parameters(load_robot(tmp_path / "robot.toml", floating_base=True), method="qr").names)
    assert names[0] == names[1]
    assert len(names[0]) == 21


def test_columns_below_the_noise_have_no_effect_and_those_near_it_are_named() -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((60, 5))
    noise = np.full(W.shape, 1e-14)
    W[:, 1] = 1e-14 * rng.standard_normal(60)  # nothing but noise
    W[:, 3] = W[:, 0] + 2.0 * W[:, 2] + 1e-14 * rng.standard_normal(60)
    W[:, 4] = W[:, 0] - W[:, 2] + 1e-11 * rng.standard_normal(60)  # a thousand times the noise
    for find in (find_by_qr, find_by_svd):
        found = find(W, noise=noise)
        assert found.no_effect == (1,)
        assert found.regrouping.kept[:2] == (0, 2)
        assert found.uncertain == (4,)
        assert any(
            "rounding may decide whether e can be identified" in w for w in find_rank_warnings(found, tuple("abcde"))
        )
        np.testing.assert_allclose(found.regrouping.matrix[:2, 3], [1.0, 2.0], atol=1e-9)


def test_draws_that_disagree_are_reported() -> None:
    rng = np.random.default_rng(1)
    W = rng.standard_normal((30, 3))
    dependent = W.copy()
    dependent[:, 2] = W[:, 0] + W[:, 1]
    words = find_rank_warnings(find_by_qr(W), ("a", "b", "c"), [find_by_qr(dependent)])
    assert "independent random samples disagree on c (3, 2 base parameters)" in words[-1]


def test_noise_is_what_open_loops_do_to_the_rows() -> None:
    """Columns of a parallelogram's coupler that vanish are of the size of their noise; others are far above it."""
    question = Question(robot_of(PARALLELOGRAM), "torque", True, False, ())
    drawn = draw_rows(question, 200, 0)
    assert drawn.noise is not None
    names = [str(column.name) for column in question.columns]
    size, noise = np.linalg.norm(drawn.matrix, axis=0), np.linalg.norm(drawn.noise, axis=0)
    silent = [names.index(name) for name in ("ZZ2", "MX2", "MY2")]
    assert (size[silent] < 10.0 * noise[silent]).all()
    assert size[names.index("ZZ1")] > 1.0
    assert noise[names.index("ZZ1")] == 0.0  # the crank moves whatever the loop does


def test_a_parallelogram_from_excitation_to_parameters() -> None:
    """Its limits keep it on one side of the positions where it lies flat; wider ones are refused, with the remedy."""
    fast = {"velocity": [3.0], "acceleration": [10.0]}
    robot = robot_of(PARALLELOGRAM)
    robot = robot.with_parameters(np.arange(1.0, 1.0 + len(robot.parameter_names)))
    with pytest.raises(ExcitationError, match=r"narrow them .* the loop 2-3 .* at sample"):
        design_excitation(robot, limits={"position": [[-3.0, 3.0]], **fast}, starts=1)
    found = design_excitation(robot, limits={"position": [[0.3, 2.8]], **fast}, starts=1, harmonics=2)
    base = base_parameters(robot)
    result = identify(robot, simulate(robot, found, rate=100.0), friction=())
    values = dict(zip(result.names, result.values, strict=True))
    np.testing.assert_allclose([values[name] for name in base.names], base.values(robot.parameters), rtol=1e-6)


def test_a_log_that_leaves_the_assembly_mode_is_refused_with_its_time() -> None:
    t = np.arange(0.0, 4.0, 0.01)
    q = 1.5 + 2.0 * np.sin(2.0 * t)[:, None]
    motion = Motion(t, q, 4.0 * np.cos(2.0 * t)[:, None], -8.0 * np.sin(2.0 * t)[:, None])
    coupled = robot_of(as_coupling())
    log = simulate(coupled.with_parameters(np.arange(1.0, 1.0 + len(coupled.parameter_names))), motion)
    with pytest.raises(LoopError, match=r"\(t = .* s\)"):
        identify(robot_of(PARALLELOGRAM), log)


def test_errors_of_loops_travel_between_processes() -> None:
    for error in (LoopError(1, 0.1, "2-3", 0.5), SingularPathError(2, "2-3"), DeadPointError(3, "2-3", 1.0)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("off", [1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-13])
def test_almost_a_parallelogram_has_eight_parameters_or_a_warning(off: float) -> None:
    robot = robot_of(four_bar((0.7, 0.4, 0.7 * (1.0 + off), 0.4), math.pi / 2, 1, [0.0, -9.81, 0.0]))
    for method in ("qr", "svd"):
        found = base_parameters(robot, method=method)
        assert found.count == 8 or found.warnings
