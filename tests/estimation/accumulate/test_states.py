"""States: factors that are saved, merged and solved elsewhere give what one reading of all logs gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import IdentificationError
from fourier import fourier_motion

PLAIN = ("viscous", "coulomb", "offset")


def logs(count: int) -> tuple[dynid.Robot, list[dynid.Log]]:
    robot = dynid.load_robot("gautier3")
    return robot, [
        dynid.simulate(robot, fourier_motion(robot, seed=k, duration=13.0), noise=0.05, seed=k) for k in range(count)
    ]


@pytest.mark.parametrize("friction", ["auto", PLAIN])
def test_states_from_several_machines_give_the_result_of_one(friction: str | tuple[str, ...], tmp_path: Path) -> None:
    robot, recordings = logs(4)
    first = dynid.collect_state(robot, recordings[0], friction=friction, cutoff=10.0)
    first.save(tmp_path / "0.json")
    for k, log in enumerate(recordings[1:], 1):  # another machine knows the first state's file and its own log
        plan = dynid.State.load(tmp_path / "0.json")
        dynid.collect_state(robot, log, like=plan).save(tmp_path / f"{k}.json")
    states = [dynid.State.load(tmp_path / f"{k}.json") for k in range(4)]
    merged = dynid.identify_states(states)
    together = dynid.identify_states(dynid.collect_state(robot, recordings, like=first))
    assert merged.names == together.names
    assert merged.friction == together.friction
    assert_allclose(merged.values, together.values, rtol=0.0, atol=1e-10)
    assert_allclose(merged.sigma, together.sigma, rtol=1e-8)
    assert_allclose(merged.validation.nrmse, together.validation.nrmse, rtol=1e-8)


def test_a_saved_state_is_exact(tmp_path: Path) -> None:
    robot, (log,) = logs(1)
    state = dynid.collect_state(robot, log)
    state.save(tmp_path / "state.json")
    again = dynid.State.load(tmp_path / "state.json")
    assert (again.cutoff, again.reason, again.delay, again.recipe) == (
        state.cutoff, state.reason, state.delay, state.recipe,
    )  # fmt: skip
    assert again.equation.names == state.equation.names
    for left, right in zip(state.blocks, again.blocks, strict=True):
        assert (left.log, left.start, left.stop) == (right.log, right.start, right.stop)
        for a, b in zip(left.factors, right.factors, strict=True):
            assert np.array_equal(a.R, b.R)
            assert (a.count, a.total) == (b.count, b.total)
    assert [f.sentences for f in again.findings] == [f.sentences for f in state.findings]


def test_states_of_different_questions_do_not_merge() -> None:
    robot, (one, two) = logs(2)
    left = dynid.collect_state(robot, one, friction=PLAIN, cutoff=10.0)
    with pytest.raises(IdentificationError, match="same robot, columns, cut-off"):
        dynid.identify_states([left, dynid.collect_state(robot, two, friction=PLAIN, cutoff=8.0)])
    with pytest.raises(IdentificationError, match="same robot, columns, cut-off"):
        dynid.identify_states([left, dynid.collect_state(robot, two, friction=(), cutoff=10.0)])
    with pytest.raises(IdentificationError, match="no state"):
        dynid.identify_states([])


@pytest.mark.parametrize("change", ['"version": 1', '"recipe": ', '"log": 0', '"count": '])
def test_damaged_states_are_refused(change: str, tmp_path: Path) -> None:
    robot, (log,) = logs(1)
    dynid.collect_state(robot, log, friction=PLAIN).save(tmp_path / "state.json")
    text = (tmp_path / "state.json").read_text()
    assert change in text
    (tmp_path / "bad.json").write_text(text.replace(change, change.rstrip("01") + "-7e9999 ", 1))
    with pytest.raises(IdentificationError) as caught:
        dynid.State.load(tmp_path / "bad.json")
    assert "bad.json" in str(caught.value)
    assert "\n" not in str(caught.value)
