"""The campaign of mistakes checks itself: simulated logs obey the true robot, true remedies restore the right data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from campaign import arms, mistakes
from campaign.mistakes import MISTAKES, UNTOUCHED, Setting, apply_options, judge, make_case, true_answer

from dynid import Motion, simulate
from dynid.messages import Option
from dynid.robot.transform import Array


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "CACHE", tmp_path_factory.getbasetemp() / "mistakes")


@pytest.mark.parametrize("name", ["general4", "scara", "tree5", "stanford"])
def test_forward_dynamics_are_those_of_the_true_robot(name: str) -> None:
    robot = arms.true_robot(name).robot
    rng = np.random.default_rng(5)
    q, v, tau = rng.standard_normal((3, robot.n))
    a = arms.Forward(robot).acceleration(q, v, tau)
    log = simulate(robot, Motion(np.zeros(1), q[None], v[None], a[None]))
    assert log.tau is not None
    np.testing.assert_allclose(log.tau[0], tau, atol=1e-9 * (1.0 + np.abs(tau).max()))


def test_the_same_seed_gives_the_same_case() -> None:
    first, second = (make_case("two_links", "double 3", 2) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.what == second.what
    np.testing.assert_array_equal(first.wrong[0].q, second.wrong[0].q)
    assert make_case("two_links", "double 3", 3).what != first.what  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [*MISTAKES, *(f"double {k}" for k in range(8))])
def test_remedies_of_signals_give_the_right_signals(kind: str) -> None:
    """Options are applied in the order of `read_log`, so each remedy of wiring, units and drives is exact."""
    case = make_case("tree5", kind, 1)
    assert case is not None
    unsaid = {"spring", "payload", "delay_tau", "delay_v"} & {mistake.kind for mistake in case.mistakes}
    setting = apply_options(Setting(case.robot_wrong, case.wrong, case.options_wrong), case.remedy)
    np.testing.assert_array_equal(setting.robot.gravity, case.robot.gravity)
    assert setting.options.get("rotor_inertia", True)
    for found, right in zip(setting.logs, case.right, strict=True):
        np.testing.assert_allclose(found.q, right.q, atol=1e-12)
        if "delay_v" not in unsaid:
            np.testing.assert_allclose(_of(found.v), _of(right.v), atol=1e-12)
        if not unsaid & {"spring", "payload", "delay_tau"}:
            np.testing.assert_allclose(_of(found.tau), _of(right.tau), atol=1e-9)


def _of(x: Array | None) -> Array:
    assert x is not None
    return x


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero_90", "spring", "payload"])
def test_true_remedies_restore_the_error_and_others_do_not(kind: str) -> None:
    case = make_case("gautier3", kind, 4, friction=mistakes.PLAIN)
    assert case is not None
    outcome = judge(case, true_answer)
    assert outcome.outcome in ("right", "invisible, named")
    assert outcome.after <= 1.02
    other = judge(case, lambda *_: mistakes.Answer((Option("gravity", [9.81, 0.0, 0.0]),)))
    assert other.outcome in ("wrong", "false alarm")
    assert judge(case, mistakes.no_answer).outcome == ("not named" if outcome.visible else "invisible")


def test_any_answer_to_untouched_data_is_a_false_alarm() -> None:
    case = make_case("two_links", UNTOUCHED, 0, friction=mistakes.PLAIN)
    assert case is not None
    assert judge(case, lambda *_: mistakes.Answer((Option("sign", ("tau.1",)),))).outcome == "false alarm"
    assert judge(case, mistakes.no_answer).outcome == UNTOUCHED


@pytest.mark.parametrize(
    "kind", ["motor_side_all", "delay_tau", pytest.param("double 2", marks=pytest.mark.slow), UNTOUCHED]
)
def test_gears_of_all_joints_and_delays_are_named_with_the_right_remedy(kind: str) -> None:
    """Friction with memory hides both: ratios are found together, delays beside friction of any timing."""
    case = make_case("two_links", kind, 0)
    assert case is not None
    outcome = judge(case)
    assert outcome.outcome == (UNTOUCHED if kind == UNTOUCHED else "right")
    assert kind == UNTOUCHED or outcome.level != "good"


def test_units_with_a_factor_do_not_stand_in_for_a_gear_beside_exchanged_columns() -> None:
    case = make_case("two_links", "double 3", 2)
    assert case is not None
    assert judge(case).answer == ["order=['2', '1']", "gear=[50.0, 1.0]"]


def test_whoever_is_not_helped_does_what_is_proposed_and_asks_again() -> None:
    case = make_case("two_links", "sign_tau", 0, friction=mistakes.PLAIN)
    assert case is not None
    auto, asked = mistakes.Answer((Option("friction", "auto"),), level="usable"), list[object]()

    def ask(case: mistakes.Case, before: mistakes.Answer | None = None) -> mistakes.Answer:
        asked.append(before)
        return auto if before is None else mistakes.Answer(case.remedy, level="usable")

    outcome = judge(case, ask)
    assert (outcome.outcome, outcome.rounds) == ("right", 2)
    assert asked == [None, auto]
    friction_alone = judge(case, lambda _, before=None: auto if before is None else mistakes.Answer(level="good"))
    assert (friction_alone.outcome, friction_alone.level) == ("not named", "good")


def test_a_campaign_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    kept = tmp_path / "cases.jsonl"
    first = mistakes.run(["two_links"], ["sign_tau"], [0], ask="none", processes=1, kept=kept)
    again = mistakes.run(["two_links"], ["sign_tau"], [0], ask="none", processes=1, kept=kept)
    assert [(x.case, x.ratio, x.visible) for x in again] == [(x.case, x.ratio, x.visible) for x in first]
    assert len(kept.read_text().splitlines()) == 1
    assert mistakes.answer_table(first).splitlines()[1].split() == ["sign_tau", "1"]


@pytest.mark.slow
def test_a_spring_at_a_joint_with_small_torques_is_named_where_it_halves_its_error() -> None:
    case = make_case("tx40", "spring", 0)
    assert case is not None
    assert judge(case).outcome == "right"
