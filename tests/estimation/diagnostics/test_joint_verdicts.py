"""A verdict per joint: a bad channel speaks against its joint, is named with its remedy, and the remedy works."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid import Identification, Log, identify, load_robot, simulate
from dynid.logs.log import ArraySource
from dynid.robot.robot import Robot
from robots import smooth_path


@pytest.fixture(scope="module")
def robot() -> Robot:
    found = load_robot("puma560")
    rng = np.random.default_rng(0)
    unknown = rng.uniform(0.1, 0.3, len(found.parameters))
    return found.with_parameters(np.where(np.isfinite(found.parameters), found.parameters, unknown))


@pytest.fixture(scope="module")
def log(robot: Robot) -> Log:
    t = np.arange(0.0, 20.0, 0.005)
    return simulate(robot, smooth_path(robot, t, seed=1, scale=2.0), noise=0.02, seed=0)


def damaged(log: Log, **changes: tuple[object, object]) -> Log:
    """A copy with some values of channels replaced: channel=(where, values)."""
    assert isinstance(log.source, ArraySource)
    samples = log.source.samples
    copies = {name: getattr(samples, name).copy() for name in changes}
    for name, (where, values) in changes.items():
        copies[name][where] = values
    return Log.from_source(ArraySource("damaged", replace(samples, **copies)))


def fit(robot: Robot, log: Log, **options: object) -> Identification:
    return identify(robot, log, friction=(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("joint", [1, 5])
def test_a_dead_torque_speaks_against_its_joint_and_the_next_step_leaves_it_out(
    robot: Robot, log: Log, joint: int, tmp_path: Path
) -> None:
    name = robot.joint_names[joint]
    others = [other for other in robot.joint_names if other != name]
    assert {found.level for found in fit(robot, log).joint_verdicts.values()} == {"good"}
    result = fit(robot, damaged(log, tau=((slice(1000, None), joint), 0.7)))
    assert result.verdict.level in ("weak", "do not trust")
    assert result.verdict.reasons[0].code == "dead_torque"
    assert result.verdict.reasons[0] in result.warnings
    assert tuple(result.joint_verdicts) == robot.joint_names
    assert result.joint_verdicts[name].level == "do not trust"
    assert result.joint_verdicts[name].reasons[0].code == "dead_torque"
    assert all("dead_torque" not in {r.code for r in result.joint_verdicts[other].reasons} for other in others)
    (option,) = result.verdict.next_step.facts["options"]
    assert (option.keyword, option.value) == ("joints", others)
    path = tmp_path / "result.json"
    result.save(path)
    again = Identification.load(path).joint_verdicts
    assert {key: str(found) for key, found in again.items()} == {
        key: str(found) for key, found in result.joint_verdicts.items()
    }
    mended = fit(robot, damaged(log, tau=((slice(1000, None), joint), 0.7)), joints=others)
    assert {found.level for found in mended.joint_verdicts.values()} == {"good"}
    assert not any(reason.code.startswith("dead") for reason in mended.verdict.reasons)


def test_rubbish_rows_and_frozen_stretches_do_not_enter_the_fit(robot: Robot, log: Log) -> None:
    sound = fit(robot, log, cutoff=10.0)
    assert log.tau is not None
    cases = (
        damaged(log, tau=(([500, 2000, 2001], 2), 1e6)),
        damaged(log, q=((slice(1500, 1520),), 0.0)),
        damaged(log, tau=((slice(1500, 1560), 2), log.tau[1499, 2])),
        damaged(log, q=(slice(1500, 1560), log.q[1499]), tau=(slice(1500, 1560), log.tau[1499])),
    )
    for case in cases:
        result = fit(robot, case, cutoff=10.0)
        assert result.verdict.level == sound.verdict.level
        assert result.validation.mean < 1.1 * sound.validation.mean
        assert {found.level for found in result.joint_verdicts.values()} == {"good"}
        ((_, findings),) = result.findings
        assert {"rubbish_rows", "frozen_torque", "frozen_position"} & {message.code for message in findings}


def test_missing_torques_of_a_joint_that_is_left_out_do_not_matter(robot: Robot, log: Log) -> None:
    empty = damaged(log, tau=((slice(None), 5), np.nan))
    result = fit(robot, empty, joints=list(robot.joint_names[:5]))
    assert tuple(result.joint_verdicts) == robot.joint_names[:5]
    assert {found.level for found in result.joint_verdicts.values()} == {"good"}
