"""All runs on the same data: judged alike, refusals with their reason, and a sentence that follows the rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import DynidError, IdentificationError
from dynid.estimation import compare as module
from dynid.estimation.compare import COMPARED, Comparison, EstimatorRun, choose_run, recommend_run
from dynid.messages import Message
from dynid.robot.motion import Motion
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque, truth, with_friction
from log_makers import arm
from robots import coupled_tree, random_tree


def noisy(robot: dynid.Robot, *, seed: int = 0, rate: float = 100.0, position: float = 0.0) -> dynid.Log:
    """Positions and torques, 2 % of noise on the torques."""
    motion, rng = fourier_motion(robot, duration=20.0, rate=rate), np.random.default_rng(seed)
    tau = torque(robot, motion)
    tau += 0.02 * tau.std(axis=0) * rng.standard_normal(tau.shape)
    return dynid.Log(motion.t, motion.q + position * rng.standard_normal(motion.q.shape), tau=tau, name="noisy")


def refusal(run: EstimatorRun) -> Message:
    assert run.refusal is not None
    return run.refusal


def codes(advice: Message) -> set[str]:
    return {reason.code for reason in advice.facts["reasons"]}


@pytest.fixture(scope="module")
def robot() -> dynid.Robot:
    return with_friction(dynid.load_robot("gautier3"))


@pytest.fixture(scope="module")
def compared(robot: dynid.Robot) -> Comparison:
    return dynid.compare_estimators(robot, noisy(robot), friction=PLAIN)


def test_every_way_is_there(compared: Comparison) -> None:
    assert [(run.model, run.estimator) for run in compared.runs] == list(COMPARED)
    assert not compared.refused
    for run in compared.runs:
        assert (run.identification.model, run.identification.estimator) == (run.model, run.estimator)
        assert 0.0 < run.seconds < 60.0
    assert compared.reference is compared.run("torque")
    assert not compared.interrupted


@pytest.mark.parametrize("run", COMPARED, ids=lambda run: "-".join(run))
def test_results_are_those_of_identify(compared: Comparison, robot: dynid.Robot, run: tuple[str, str]) -> None:
    """The same values as identify finds on the part that is not held out, to the last digit."""
    model, estimator = run
    log = noisy(robot).part(0.0, 0.75)
    alone = dynid.identify(robot, log, friction=PLAIN, model=model, estimator=estimator)
    assert_allclose(compared.run(*run).identification.values, alone.values, rtol=1e-12, atol=1e-12)
    assert_allclose(compared.run(*run).identification.sigma, alone.sigma, rtol=1e-9, atol=1e-15)


def test_errors_are_those_of_torques_for_all_models(compared: Comparison, robot: dynid.Robot) -> None:
    """For torque by wls what identify says; for the others what the predicted torques, filtered alike, amount to."""
    log = noisy(robot)
    alone = dynid.identify(robot, log, friction=PLAIN, validate=0.25)
    reference = compared.run("torque").prediction
    assert reference is not None
    assert_allclose(reference.nrmse, alone.validation.nrmse, rtol=1e-12)
    exact, true = fourier_motion(robot, duration=20.0), torque(robot, fourier_motion(robot, duration=20.0))
    last = slice(int(0.75 * len(exact)), None)
    for run in compared.runs:
        assert run.prediction is not None
        assert run.prediction.nrmse.shape == (3,)
        assert run.prediction.source == compared.source == "the last 25 % of every log"
        error = (run.identification.predict(exact) - true)[last].std(axis=0) / true[last].std(axis=0)
        # the prediction holds filtered noise of the measured torques too; 2 % white noise through 100 -> 7.5 Hz
        assert_allclose(run.prediction.nrmse, np.hypot(error, 0.02 * np.sqrt(2 * 7.5 / 100)), rtol=0.5, atol=0.006)


def test_the_recipe_scores_each_way_with_its_own_friction() -> None:
    robot = with_friction(dynid.load_robot("scara"))
    compared = dynid.compare_estimators(robot, noisy(robot))
    alone = dynid.identify(robot, noisy(robot), validate=0.25)
    assert compared.run("torque").error == pytest.approx(alone.validation.mean, rel=1e-12)
    assert compared.run("momentum").error < 0.05, "stops and all that it admitted are in its prediction"
    assert compared.best is not None


def test_other_logs_to_validate_on(robot: dynid.Robot) -> None:
    other = noisy(robot, seed=5)
    compared = dynid.compare_estimators(robot, noisy(robot), friction=PLAIN, validate=other)
    alone = dynid.identify(robot, noisy(robot), friction=PLAIN, validate=other)
    assert compared.source == "noisy"
    assert compared.run("torque").error == pytest.approx(alone.validation.mean, rel=1e-12)


def test_own_offsets_of_every_log_are_kept_apart(robot: dynid.Robot) -> None:
    """Each log's held-out end is predicted with that log's offsets; huber says that it cannot."""
    logs = []
    for seed, offset in enumerate((np.array([50.0, -30.0, 10.0]), np.array([-20.0, 80.0, 20.0]))):
        motion = fourier_motion(robot, seed=seed, duration=20.0)
        logs.append(log_of(motion, torque(robot, motion) + offset))
    compared = dynid.compare_estimators(robot, logs, friction=PLAIN, offsets_per_log=True)
    assert compared.run("torque").error < 1e-8
    assert refusal(compared.run("torque", "huber")).code == "huber_with_log_offsets"


def test_without_noise_all_agree_and_the_plainest_wins() -> None:
    robot = dynid.load_robot("gautier3")
    compared = dynid.compare_estimators(robot, dynid.simulate(robot, fourier_motion(robot)), friction=())
    for run in compared.runs:
        assert_allclose(run.identification.values, truth(robot, run.identification), rtol=0.0, atol=1e-6)
        assert run.agreement(compared.reference) == 1.0
        assert run.error < 1e-6
    assert compared.best is compared.run("torque")
    assert compared.advice.startswith("trust torque by wls")


@pytest.mark.parametrize(
    ("kind", "code"), [("tree", "recursion_on_branched_robot"), ("loop", "closed_loops_or_couplings")]
)
def test_what_is_not_serial_has_no_recursion(kind: str, code: str) -> None:
    robot = random_tree(2, joints=5) if kind == "tree" else coupled_tree(1)
    motion = fourier_motion(robot, duration=20.0, rate=200.0)
    compared = dynid.compare_estimators(robot, dynid.simulate(robot, motion), friction=())
    assert {run.estimator for run in compared.refused} == {"recursive"}
    for run in compared.refused:
        assert refusal(run).code == code
        with pytest.raises(IdentificationError, match="refused"):
            _ = run.identification
    (said,) = (reason for reason in compared.advice.facts["reasons"] if reason.code == "recursion_refused")
    assert said.facts["codes"] == [code, code]
    assert "the recursion refused (torque, recursive and momentum, recursive)" in compared.advice
    assert "lacks rank" not in compared.advice


def test_postures_in_no_order_of_time_have_no_integrals() -> None:
    robot, rng = dynid.load_robot("gautier3"), np.random.default_rng(0)
    q, v, a = rng.standard_normal((3, 300, robot.n))
    postures = dynid.simulate(robot, Motion(np.arange(300.0), q, v, a), noise=0.1)
    compared = dynid.compare_estimators(robot, postures, friction=())
    assert {run.model for run in compared.refused} == {"energy", "momentum"}
    assert all(refusal(run).code == "model_needs_time_order" for run in compared.refused)
    assert compared.best is not None


def test_one_joint() -> None:
    robot = with_friction(arm(1))
    compared = dynid.compare_estimators(robot, noisy(robot), friction=PLAIN)
    assert not compared.refused
    assert_allclose(
        compared.run("torque", "recursive").identification.values,
        compared.run("torque").identification.values,
        rtol=1e-9,
    )
    assert compared.best is not None


def test_some_joints_only_leave_power_and_energy_out(robot: dynid.Robot) -> None:
    compared = dynid.compare_estimators(robot, noisy(robot), friction=PLAIN, joints=["2", "3"])
    assert {run.model for run in compared.refused} == {"power", "energy"}


def test_lost_rank_is_told_by_the_recursion() -> None:
    """Joint 1 turns round whenever joint 2 is at 0.7 rad or opposite: its own torque has rank 2 of 3."""
    robot, rng = dynid.load_robot("scara"), np.random.default_rng(0)
    q, v, a = rng.uniform(-1.0, 1.0, (3, 80, robot.n))
    q[:, 1], v[:, 0] = 0.7 + np.pi * (np.arange(80) % 2), 0.0
    log = dynid.simulate(robot, Motion(np.arange(80.0), q, v, a))
    compared = dynid.compare_estimators(robot, log, friction=(), rotor_inertia=False)
    found = refusal(compared.run("torque", "recursive"))
    assert (found.code, found.facts["joint"]) == ("recursion_block_lacks_rank", "2")
    assert "a joint alone lacks rank" in compared.advice
    assert compared.run("torque").error < 1e-8


def test_outliers_are_told_by_huber(robot: dynid.Robot) -> None:
    log, rng = noisy(robot), np.random.default_rng(1)
    assert log.tau is not None
    hit = rng.random(log.tau.shape) < 0.1
    log = dynid.Log(log.t, log.q, tau=np.where(hit, log.tau + 20.0 * log.tau.std(axis=0), log.tau))
    compared = dynid.compare_estimators(robot, log, friction=PLAIN, validate=noisy(robot, seed=7))
    assert "outliers_likely" in codes(compared.advice)
    assert compared.best is not None
    assert compared.best.estimator in ("huber", "ridge")
    assert compared.run("torque", "huber").error < 0.5 * compared.run("torque").error


def test_noise_of_accelerations_is_told_by_momentum() -> None:
    """A cut-off far too high: accelerations derived from positions drown in their noise."""
    robot = dynid.load_robot("scara")
    log = noisy(robot, rate=200.0, position=1e-4)
    compared = dynid.compare_estimators(robot, log, friction=(), rotor_inertia=False, cutoff=40.0)
    assert "noisy_accelerations" in codes(compared.advice)
    assert compared.run("momentum").relative_deviation < compared.run("torque").relative_deviation / 3.0


def test_nonsense_is_not_trusted(robot: dynid.Robot) -> None:
    log, rng = noisy(robot), np.random.default_rng(0)
    assert log.tau is not None
    compared = dynid.compare_estimators(robot, dynid.Log(log.t, log.q, tau=rng.standard_normal(log.tau.shape)))
    assert compared.best is None
    assert compared.advice.code == "trust_none"


def test_ctrl_c_keeps_what_is_finished(robot: dynid.Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str, done: float) -> None:
        if text.startswith("energy"):
            raise KeyboardInterrupt

    compared = dynid.compare_estimators(robot, noisy(robot), friction=PLAIN, on_progress=interrupt)
    assert [run.name for run in compared.runs] == ["torque, wls", "power, wls"]
    assert compared.interrupted
    assert compared.best is compared.run("torque")
    with pytest.raises(IdentificationError, match="not among the runs"):
        compared.run("momentum")

    def at_once(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "collect_logs", at_once)
    with pytest.raises(KeyboardInterrupt):
        dynid.compare_estimators(robot, noisy(robot), friction=PLAIN)


def test_progress_goes_up_to_the_end(robot: dynid.Robot) -> None:
    seen: list[tuple[str, float]] = []
    dynid.compare_estimators(robot, noisy(robot), friction=PLAIN, on_progress=lambda *said: seen.append(said))
    shares = [done for _, done in seen]
    assert all(0.0 <= done <= 1.0 for done in shares)
    assert shares[-1] > 8.0 / 9.0 - 1e-9
    assert {text.partition(":")[0] for text, _ in seen} == {", ".join(run) for run in COMPARED}


def test_wrong_options_are_refused_at_once(robot: dynid.Robot) -> None:
    log = noisy(robot)
    wrong: list[tuple[dict[str, object], str]] = [
        ({"friction": "grease"}, "grease"),
        ({"window": -1.0}, "positive number of seconds"),
        ({"cutoff": 0.0}, "positive number of Hz"),
        ({"validate": 1.5}, "between 0 and 1"),
        ({"joints": ["9"]}, "no joint '9'"),
        ({"known": {"M99": 1.0}}, "M99"),
        ({"quadrature": "simpson"}, "no quadrature"),
    ]
    for options, words in wrong:
        with pytest.raises(DynidError, match=words):
            dynid.compare_estimators(robot, log, **options)  # type: ignore[arg-type]


def pretended(run: EstimatorRun, error: float, deviation: float, level: str = "good") -> EstimatorRun:
    """A run with other figures."""
    assert run.prediction is not None
    result = run.identification
    verdict = replace(result.verdict, level=level)  # type: ignore[arg-type]
    result = result.replace(sigma=deviation * np.abs(result.values), verdict=verdict)
    return replace(run, result=result, prediction=replace(run.prediction, nrmse=np.full(3, error)))


def test_the_rules_of_choice(compared: Comparison) -> None:
    wls, momentum, ridge = (compared.run(*name) for name in (("torque", "wls"), ("momentum", "wls"), COMPARED[5]))

    def chosen(*figures: tuple[EstimatorRun, float, float, str]) -> str:
        best = choose_run([pretended(*run) for run in figures])
        return "none" if best is None else best.name

    good, bad = "good", "do not trust"
    assert chosen((wls, 0.1, 0.1, good), (momentum, 0.09, 0.2, good)) == "momentum, wls", "smaller error"
    assert chosen((wls, 0.1, 0.1, good), (momentum, 0.09, 0.2, bad)) == "torque, wls", "its verdict forbids it"
    assert chosen((wls, 0.1, 0.1, good), (momentum, 0.099, 0.05, good)) == "momentum, wls", "tie: smaller deviations"
    assert chosen((wls, 0.1, 0.1, good), (momentum, 0.099, 0.095, good)) == "torque, wls", "tie all along"
    assert chosen((wls, 0.1, 0.1, good), (ridge, 0.099, 0.001, good)) == "torque, wls", "ridge wins no tie"
    assert chosen((wls, 0.1, 0.1, good), (ridge, 0.05, 0.001, good)) == "torque, ridge"
    assert chosen((wls, 0.6, 0.1, good), (momentum, 0.7, 0.1, good)) == "none", "verdicts of other channels do not help"


def test_what_huber_says_depends_on_how_it_predicts(compared: Comparison) -> None:
    wls, huber = compared.run("torque"), compared.run("torque", "huber")
    for error, code in ((0.1, "outliers_likely"), (0.2, "huber_predicts_worse")):
        _, advice = recommend_run([pretended(wls, 0.1, 0.2), pretended(huber, error, 0.1)])
        assert code in codes(advice)
    _, advice = recommend_run([pretended(wls, 0.1, 0.2), pretended(huber, 0.1, 0.2)])
    assert not {"outliers_likely", "huber_predicts_worse"} & codes(advice)


def test_a_good_fit_that_does_not_carry_over_is_not_trusted(compared: Comparison) -> None:
    best, advice = recommend_run(
        [pretended(compared.run("torque"), 0.8, 0.1), pretended(compared.run("momentum"), 0.7, 0.1)]
    )
    assert best is None
    assert advice.facts["reason"].code == "held_out_torques_off"
    assert advice.facts["reason"].facts["percent"] == pytest.approx(70.0)


def test_the_level_of_a_run_is_no_better_than_its_held_out_torques_allow(compared: Comparison) -> None:
    run = compared.reference
    levels = [pretended(run, error, 0.01).level for error in (0.05, 0.15, 0.4, 0.6)]
    assert levels == ["good", "usable", "weak", "do not trust"]
    assert pretended(run, 0.05, 0.01, "weak").level == "weak"


def test_disputed_parameters_come_first(compared: Comparison) -> None:
    few = compared.most_disputed(3)
    assert len(few) == 3
    assert set(few) < set(compared.reference.base_parameter_names)
    worst = {
        name: max(run.distances_to(compared.reference)[name] for run in compared.finished)
        for name in compared.reference.base_parameter_names
    }
    assert min(worst[name] for name in few) >= max(x for name, x in worst.items() if name not in few)
    assert compared.most_disputed(99) == compared.reference.base_parameter_names
