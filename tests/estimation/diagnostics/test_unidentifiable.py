"""What the data cannot tell apart is named, the suggested motion reveals it, and the rest stays exact."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.estimation.identification import Identification
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, plain_matrix, torque, truth, with_friction
from robots import random_tree


def held(motion: Motion, joint: int, at: float) -> Motion:
    """The motion with one joint standing still."""
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    q[:, joint], v[:, joint], a[:, joint] = at, 0.0, 0.0
    return Motion(motion.t, q, v, a)


def twins(motion: Motion, one: int, other: int) -> Motion:
    """The motion with one joint moving as another."""
    x = [motion.q.copy(), motion.v.copy(), motion.a.copy()]
    for column in x:
        column[:, other] = column[:, one]
    return Motion(motion.t, *x)


def directions(result: Identification) -> list[tuple[tuple[str, ...], Array]]:
    """Names and coefficients of every lost direction, read from its sentence: seen sums stay, the parameter moves."""
    found = []
    for item in result.unidentifiable:
        names, values = [str(item.name)], [1.0]
        if "no effect" not in item.seen:
            assert " more only" not in item.seen, "only short sums can be read back"
            for text in item.seen.removeprefix("they show ").removesuffix(" only").split(", "):
                match = re.fullmatch(r"(\S+) ([+-]) (?:(\S+) )?(\S+)", text)
                assert match is not None
                assert match[4] == item.name
                names.append(match[1])
                values.append(-float(match[2] + (match[3] or "1")))
        found.append((tuple(names), np.array(values)))
    return found


CASES: dict[str, tuple[str, Callable[[Motion], Motion]]] = {
    "joint 3 of gautier3 stands": ("gautier3", lambda motion: held(motion, 2, 0.7)),
    "joint 2 of gautier3 stands": ("gautier3", lambda motion: held(motion, 1, 0.3)),
    "joint 5 of puma560 stands": ("puma560", lambda motion: held(motion, 4, 1.1)),
    "two joints of scara move alike": ("scara", lambda motion: twins(motion, 0, 1)),
    "the tool of scara keeps its angle": ("scara", lambda motion: held(motion, 2, 0.4)),
    "two joints of gautier3 move alike": ("gautier3", lambda motion: twins(motion, 1, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_lost_combinations_are_real_and_the_rest_is_exact(case: str) -> None:
    name, change = CASES[case]
    robot = with_friction(dynid.load_robot(name))
    free = fourier_motion(robot, rate=50.0)
    motion = change(free)
    tau = torque(robot, motion)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    assert result.unidentifiable
    lost = [item.name for item in result.unidentifiable]
    base = sum(name in result.equation.base.names for name in lost)
    share = max(len(lost) / (len(lost) + len(result.names)), base / (base + result.base_rank))
    assert result.verdict.level == ("weak" if share >= 0.2 else "usable")
    assert all(str(item) in result.warnings for item in result.unidentifiable)
    assert_allclose(result.predict(motion), tau, rtol=1e-9, atol=1e-8)
    scale = np.abs(tau).max()
    for names, values in directions(result):
        W = plain_matrix(robot, motion, names)
        along, elsewhere = np.abs(W @ values).max(), np.abs(plain_matrix(robot, free, names) @ values).max()
        terms = np.abs(W[:, :, 1:] * values[1:]).max(initial=0.0)
        assert along <= 5e-3 * terms, f"{names} shows"  # coefficients are printed with three digits
        assert elsewhere > 1e-6 * scale
    # kept, lost and what no motion reveals are all there is
    found = len(result.names) + len(result.unidentifiable)
    assert found == result.equation.base.count + 3 * robot.n - len(_same(result))


def _same(result: Identification) -> list[str]:
    return [note for note in result.notes if note.code == "collinear_parameter"]


@pytest.mark.parametrize("case", CASES)
def test_the_suggested_motion_reveals_it(case: str) -> None:
    """Rows of the old motion and of the suggested one together lose no parameter that was named with it."""
    name, change = CASES[case]
    robot = with_friction(dynid.load_robot(name))
    motion = change(fourier_motion(robot, rate=50.0))
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN)
    assert result.unidentifiable
    for item in result.unidentifiable:
        match = re.search(r"move (?:joint |joints )?(\w+)(?: and (\w+))?", item.remedy)
        assert match is not None
        named = [robot.joint_names.index(word) for word in match.groups() if word in robot.joint_names]
        moving = named or list(range(robot.n))
        more = fourier_motion(robot, rate=50.0, seed=9, size=1.0)
        q = np.tile(motion.q.mean(axis=0), (len(more), 1))
        v, a = np.zeros_like(q), np.zeros_like(q)
        q[:, moving] += more.q[:, moving]
        v[:, moving], a[:, moving] = more.v[:, moving], more.a[:, moving]
        second = Motion(more.t, q, v, a)
        again = dynid.identify(
            robot, [log_of(motion, torque(robot, motion)), log_of(second, torque(robot, second))], friction=PLAIN
        )
        assert item.name not in {lost.name for lost in again.unidentifiable}, item


def test_nothing_is_lost_on_exciting_motion() -> None:
    for seed in range(4):
        robot = with_friction(random_tree(seed, joints=4), seed)
        motion = fourier_motion(robot, seed=seed, rate=50.0)
        assert dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN).unidentifiable == ()


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-5, 3e-5])
@pytest.mark.parametrize("friction", [PLAIN, "auto"])
def test_encoder_noise_is_no_motion(noise: float, friction: str | tuple[str, ...]) -> None:
    """A joint at rest whose encoder is noisy: the same parameters are lost, the others within five deviations."""
    robot = with_friction(dynid.load_robot("puma560"))
    motion = held(fourier_motion(robot, duration=20.0), 2, 0.3)
    tau = torque(robot, motion)
    rng = np.random.default_rng(0)
    tau = tau + 0.05 * rng.standard_normal(tau.shape)
    q = motion.q.copy()
    q[:, 2] += noise * rng.standard_normal(len(q))
    result = dynid.identify(robot, dynid.Log(motion.t, q, tau=tau), friction=friction)
    lost = {item.name for item in result.unidentifiable}
    assert {"Ia3", "Fv3"} <= lost
    assert lost <= {"Ia3", *(name for name in result.equation.names if name[0] == "F" and name.endswith("3"))}
    assert result.verdict.level == "usable"
    error = np.abs(result.values - truth(robot, result))
    assert (error <= 5.0 * result.sigma + 1e-9).all()
    assert (result.validation.nrmse < 0.03).all()
    assert all("joint 3" in item.remedy for item in result.unidentifiable)


def test_a_known_value_saves_what_a_standing_joint_loses() -> None:
    robot = with_friction(dynid.load_robot("puma560"))
    motion = held(fourier_motion(robot, rate=50.0), 2, 0.3)
    log = log_of(motion, torque(robot, motion))
    result = dynid.identify(robot, log, friction=PLAIN, known={"Ia3": 1.0, "Fv3": 0.5})
    assert result.value("Ia3") == pytest.approx(1.0, abs=1e-12)
    assert result.value("Fv3") == pytest.approx(0.5, abs=1e-12)
    assert {item.name for item in result.unidentifiable} == {"Fc3"}


def test_a_joint_that_moves_in_another_log_is_not_lost() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, rate=50.0)
    parts = [held(motion, 2, 0.3), held(motion, 0, 0.3), motion]
    result = dynid.identify(robot, [log_of(part, torque(robot, part)) for part in parts], friction=PLAIN)
    assert result.unidentifiable == ()
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-9)


def test_postures_of_several_logs_count() -> None:
    """A joint stands elsewhere in every log: gravity shows what one posture hides, friction stays lost."""
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, rate=50.0)
    parts = [held(motion, 1, at) for at in (-1.0, 0.2, 1.3)]
    logs = [log_of(part, torque(robot, part)) for part in parts]
    result = dynid.identify(robot, logs, friction=PLAIN)
    one = dynid.identify(robot, logs[0], friction=PLAIN)
    assert {item.name for item in result.unidentifiable} < {item.name for item in one.unidentifiable}
    assert {"Fv2", "Fc2"} <= {item.name for item in result.unidentifiable}
    for part in parts:
        assert_allclose(result.predict(part), torque(robot, part), rtol=1e-9, atol=1e-8)


def test_a_sum_with_an_offset_may_be_negative() -> None:
    """Where an offset joins a rotor inertia, a negative value of the sum is no accusation."""
    tree = random_tree(3, joints=3, fixed_share=0.0)
    friction = ("viscous", 1.0), ("offset", 30.0)
    robot = replace(tree, links=tuple(replace(link, kind="prismatic", friction=friction) for link in tree.links))
    motion = fourier_motion(robot, rate=50.0)
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN)
    assert _same(result)
    assert not {"impossible_parameters", "negative_inertia"} & {reason.code for reason in result.verdict.reasons}
    assert_allclose(result.predict(motion), torque(robot, motion), rtol=1e-9, atol=1e-8)
