"""Dead, frozen, held, coarse and cut-off channels and rubbish rows are found, named with their lines, and left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid import load_robot, read_log
from dynid.errors import LogError
from dynid.logs.filtering import Splitting, windows_of_log
from dynid.logs.findings import Findings
from dynid.logs.log import Samples
from dynid.logs.survey import survey
from dynid.messages import Message
from dynid.robot.robot import Robot
from log_makers import arm, fourier, log_of
from recordings import CASES, DATA

RATE = 500.0
KINDS = ("dead", "frozen", "coarse", "clipped", "missing", "rubbish", "held", "saturated")
ROWS = [5, 999, 65_536]


def samples(joints: int = 3, *, seconds: float = 12.0, seed: int = 0, noise: float = 0.02) -> Samples:
    """A motion with encoders of 1e-5 rad, and torques with friction and noise."""
    t, rng = np.arange(0.0, seconds, 1.0 / RATE), np.random.default_rng(seed)
    q, v, a = fourier(t, joints, seed=seed)
    tau = 10.0 * np.cos(q) + 0.5 * a + np.sign(v) + noise * rng.standard_normal(q.shape)
    return Samples(t, np.round(q / 1e-5) * 1e-5, v + 1e-3 * rng.standard_normal(q.shape), None, tau)


def found_in(x: Samples, rows: int = 65_536, robot: Robot | None = None) -> tuple[dict[str, Message], list[Samples]]:
    """Findings on channels, by code, and the samples that are used."""
    log, robot = log_of(x, rows), robot or arm(x.q.shape[1])
    seen = survey(log, robot)
    found = Findings(log.name, seen.rate)
    used = [
        window.samples.select_rows(window.core)
        for window in windows_of_log(log, seen, Splitting(20, 1.0, 20, False), found)
    ]
    return {m.code: m for m in found.sentences if m.code.split("_")[0] in KINDS}, used


def change(x: Samples, **values: Callable[[np.ndarray], None]) -> Samples:
    """The same samples with some channels changed."""
    copies = {name: getattr(x, name).copy() for name in values}
    for name, edit in values.items():
        edit(copies[name])
    return replace(x, **copies)


def put(part: slice, joint: int, value: float) -> Callable[[np.ndarray], None]:
    return lambda x: x.__setitem__((part, joint), value)


def hold_last(start: int, stop: int | None, joint: int | slice) -> Callable[[np.ndarray], None]:
    return lambda x: x.__setitem__((slice(start, stop), joint), x[start - 1, joint].copy())


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("joints", [1, 2, 6])
def test_sound_channels_give_no_findings(joints: int, noise: float) -> None:
    x = samples(joints, noise=noise)
    rest = np.clip(np.arange(len(x.t)) - 2000, 0, None)  # stands still for 4 s, then moves
    still = Samples(x.t, x.q[rest], x.v[rest] * (rest > 0)[:, None], None, x.tau[rest])  # type: ignore[index]
    standing = change(x, q=put(slice(None), 0, 0.3), v=put(slice(None), 0, 0.0), tau=put(slice(None), 0, 4.0))
    for log in (x, still, replace(x, v=None), replace(still, v=None), *([standing] if joints > 1 else [])):
        assert found_in(log)[0] == {}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_public_recordings_have_sound_channels(case: object) -> None:
    folder = DATA / case.folder  # type: ignore[attr-defined]
    files = [*folder.glob("log*.csv.gz"), *folder.glob("*.db3")]
    if not files:
        pytest.skip(f"the recordings {folder} are not here")
    robot = load_robot(case.robot)  # type: ignore[attr-defined]
    for file in files:
        log = read_log(file, robot)
        seen = survey(log, robot)
        found = Findings(log.name, seen.rate)
        for _ in windows_of_log(log, seen, Splitting(20, 1.0, 20, False), found):
            pass
        assert [m.code for m in found.sentences if m.code.split("_")[0] in KINDS] == []


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("value", [1e6, -999.0])
@pytest.mark.parametrize("channel", ["q", "v", "tau"])
def test_impossible_values_are_left_out(channel: str, value: float, rows: int) -> None:
    x = samples()
    bad = change(x, **{channel: lambda c: c.__setitem__(([1000, 1001, 3000, 5999], 1), value)})
    found, used = found_in(bad, rows)
    assert list(found) == ["rubbish_rows"]
    facts = found["rubbish_rows"].facts
    assert (facts["count"], facts["first"]) == (4, [1000, 1001, 3000, 5999])
    assert facts["channels"] == {f"{channel}.j1": 4}
    kept = np.concatenate([part.t for part in used])
    np.testing.assert_array_equal(kept, np.delete(x.t, [1000, 1001, 3000, 5999]))


def test_a_chunk_may_be_one_row() -> None:
    x = change(samples(seconds=3.0), q=lambda c: c.__setitem__(([500, 502, 800, 801], 1), c[500, 1] + 0.5))
    (found, used), (same, all_used) = found_in(x, 1), found_in(x)
    assert found == same
    assert found["rubbish_rows"].facts["first"] == [500, 502, 800, 801]
    assert sum(map(len, used)) == sum(map(len, all_used)) == len(x) - 4


@pytest.mark.parametrize("rows", ROWS)
def test_rows_of_zeros_and_jumps_of_positions_are_left_out(rows: int) -> None:
    x = samples()
    zeros = np.r_[0:30, 2000:2010]
    bad = change(x, **{name: lambda c: c.__setitem__(zeros, 0.0) for name in ("q", "v", "tau")})
    found, used = found_in(bad, rows)
    assert found["rubbish_rows"].facts["count"] == 40
    assert sum(map(len, used)) == len(x) - 40
    found, used = found_in(change(x, q=lambda c: c.__setitem__((2500, 1), c[2500, 1] + 0.4)), rows)
    assert found["rubbish_rows"].facts["first"] == [2500]
    assert sum(map(len, used)) == len(x) - 1


@pytest.mark.parametrize("rows", ROWS)
def test_a_dead_torque_is_named_with_the_joints_that_remain(rows: int) -> None:
    x = samples()
    mostly = np.random.default_rng(1).random(len(x.t)) < 0.8
    for edit, share in (
        (put(slice(None), 1, 3.2), 1.0),
        (hold_last(1200, None, 1), 0.8),
        (lambda c: c.__setitem__((mostly, 1), 0.0), 0.8),
    ):
        found, _ = found_in(change(x, tau=edit), rows)
        assert list(found) == ["dead_torque"]
        message = found["dead_torque"]
        assert message.facts["affected"] == ["j1"]
        assert message.facts["share"] == pytest.approx(share, abs=0.03)
        assert message.for_command_line.endswith("--joints j0,j2")
    with pytest.raises(LogError) as error:
        found_in(change(x, tau=put(slice(None), 1, 0.0)), rows)
    assert error.value.message.facts["joints"].value == ["j0", "j2"]


@pytest.mark.parametrize("rows", ROWS)
def test_frozen_stretches_are_named_with_their_places(rows: int) -> None:
    x = samples()
    found, used = found_in(change(x, tau=hold_last(1500, 1700, 2)), rows)
    assert sum(map(len, used)) == len(x) - 200
    message = found.pop("frozen_torque")
    assert (message.facts["affected"], message.facts["first"], message.facts["count"]) == (["j2"], [1499], 201)
    assert found == {}
    freeze = hold_last(2000, 2100, slice(None))
    found, used = found_in(change(x, q=freeze, v=freeze, tau=freeze), rows)
    assert list(found) == ["frozen_position"]
    assert abs(sum(map(len, used)) - (len(x) - 100)) <= 1
    assert abs(found["frozen_position"].facts["first"][0] - 1999) <= 1
    assert len(found["frozen_position"].facts["affected"]) >= 2
    found, _ = found_in(replace(change(x, q=freeze, tau=freeze), v=None), rows)
    assert list(found) == ["frozen_position"]


def test_an_encoder_is_dead_where_its_velocity_moves_and_a_standing_joint_is_not() -> None:
    x = samples()
    dead = change(x, q=put(slice(None), 1, 0.4))
    assert list(found_in(dead)[0]) == ["dead_position"]
    assert found_in(change(dead, v=put(slice(None), 1, 0.0)))[0] == {}
    assert found_in(replace(dead, v=None))[0] == {}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("ratio", [2, 5, 10])
def test_sample_and_hold_is_no_freezing(ratio: int, rows: int) -> None:
    x = samples()
    held = np.arange(len(x.t)) // ratio * ratio
    found, _ = found_in(replace(x, tau=x.tau[held]), rows)  # type: ignore[index]
    assert list(found) == ["held_samples"]
    facts = found["held_samples"].facts
    assert (facts["channels"], facts["ratio"], facts["rate"]) == (["tau"], ratio, pytest.approx(RATE / ratio))
    assert facts["option"].value == pytest.approx(0.5 * (ratio - 1) / RATE)
    found, _ = found_in(Samples(x.t, x.q[held], x.v[held], None, x.tau[held]), rows)  # type: ignore[index]
    assert found["held_samples"].facts["channels"] == ["q", "v", "tau"]
    assert list(found) == ["held_samples"]


def test_coarse_channels_are_named_where_their_steps_matter() -> None:
    x = samples()
    assert x.tau is not None
    step = float(0.5 * x.tau[:, 1].std())
    coarse = change(x, tau=lambda c: c.__setitem__((slice(None), 1), np.round(c[:, 1] / step) * step))
    found, used = found_in(coarse)
    assert list(found) == ["coarse_torque"]
    assert found["coarse_torque"].facts["steps"] == {"j1": pytest.approx(step, rel=1e-3)}
    assert sum(map(len, used)) == len(x)
    fine = change(x, tau=lambda c: c.__setitem__((slice(None), 1), np.round(c[:, 1] / (0.1 * step)) * 0.1 * step))
    assert found_in(fine)[0] == {}
    found, _ = found_in(change(x, q=lambda c: c.__setitem__((slice(None), 0), np.round(c[:, 0] / 0.02) * 0.02)))
    assert found["coarse_position"].facts["affected"] == ["j0"]


@pytest.mark.parametrize("rows", ROWS)
def test_what_is_cut_off_is_left_out(rows: int) -> None:
    x = samples()
    for name, code in (("tau", "saturated_torque"), ("v", "clipped_velocity"), ("q", "clipped_position")):
        level = float(np.quantile(getattr(x, name)[:, 1], 0.9))
        found, used = found_in(change(x, **{name: lambda c, top=level: c[:, 1].clip(None, top, out=c[:, 1])}), rows)
        assert list(found) == [code], name
        at_limit = np.flatnonzero(getattr(x, name)[:, 1] >= level)
        assert found[code].facts["first"] == at_limit[:5].tolist()
        assert found[code].facts["count"] == len(at_limit)
        assert sum(map(len, used)) <= len(x) - len(at_limit)


def test_torques_of_other_joints_may_be_missing() -> None:
    x = change(samples(), tau=put(slice(None), 1, np.nan))
    log = log_of(x)
    with pytest.raises(LogError):
        survey(log, arm(3))
    assert len(survey(log, arm(3), joints=(0, 2)).samples) == len(x)
    half = change(samples(), tau=lambda c: c.__setitem__((slice(None, None, 2), 1), np.nan))
    found, _ = found_in(half)
    assert found["missing_torque"].facts["affected"] == ["j1"]
    assert found["missing_torque"].for_command_line.endswith("--joints j0,j2")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_lines_of_a_text_file_rows_of_others(suffix: str, tmp_path: Path) -> None:
    import polars as pl

    x = change(samples(), tau=lambda c: c.__setitem__(([700, 701], 1), 1e6))
    columns = {"t": x.t} | {f"{k}{j + 1}": getattr(x, k)[:, j] for k in ("q", "tau") for j in range(3)}
    path = tmp_path / f"log{suffix}"
    frame = pl.DataFrame(columns)
    if suffix == ".csv":
        path.write_text("# a comment\n" + frame.write_csv())
    else:
        frame.write_parquet(path)
    robot = arm(3)
    log = read_log(path, robot)
    seen = survey(log, robot)
    found = Findings(log.name, seen.rate)
    for _ in windows_of_log(log, seen, Splitting(20, 1.0, 20, False), found):
        pass
    (message,) = (m for m in found.sentences if m.code == "rubbish_rows")
    assert message.facts["first"] == [700, 701]
    assert message.facts["lines"] == ([703, 704] if suffix == ".csv" else [701, 702])
