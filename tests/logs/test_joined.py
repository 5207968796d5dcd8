"""Several files that are one recording: joined on time, within the stated error, and nothing made up over gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid.cli import log_options
from dynid.errors import DynidError, LogError
from dynid.logs.joined import PERIODS, FilePart
from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.robot.transform import Array
from log_makers import arm, fourier
from log_writers import csv_text

ROBOT = arm(2)
EPOCH = 1_700_000_000_123_456_789
BASE, HARMONICS = 0.4, 5
TOP = 2.0 * np.pi * BASE * HARMONICS
"""Highest angular frequency of the motion (rad/s)."""


def truth(t: Array) -> dict[str, Array]:
    """The exact channels at instants t."""
    q, v, a = fourier(t, 2, base=BASE, harmonics=HARMONICS)
    return {"q": q, "v": v, "a": a, "tau": 3.0 * q + 0.5 * a}


def columns(t: Array, *channels: str, time: str = "t", stamps: Array | None = None) -> dict[str, Array]:
    found = {time: t.copy() if stamps is None else stamps}
    for name in channels:
        found |= {f"{name}{j + 1}": column for j, column in enumerate(truth(t)[name].T)}
    return found


def write(path: Path, table: dict[str, Array]) -> Path:
    path.write_text(csv_text(table))
    return path


def torque(log: Log) -> Array:
    assert log.tau is not None
    return log.tau


def bound(name: str, period: float, order: int) -> float:
    """Largest derivative of a channel times period^order, from its harmonics: a sum that no motion exceeds."""
    rng = np.random.default_rng(0)
    total = np.zeros(2)
    for k in range(1, HARMONICS + 1):
        w = 2.0 * np.pi * BASE * k
        A, B = rng.standard_normal((2, 2)) / k
        size = np.hypot(A, B) * {"q": 1.0, "v": w, "tau": abs(3.0 - 0.5 * w * w)}[name]
        total += size * (w * period) ** order
    return float(total.max())


@pytest.mark.parametrize(("rate", "offset"), [(100.0, 0.0031), (250.0, 0.0), (190.0, 0.0017), (210.0, -0.0123)])
def test_what_is_interpolated_is_as_exact_as_stated(rate: float, offset: float, tmp_path: Path) -> None:
    t, own = np.arange(0.0, 12.0, 1.0 / 250.0), np.arange(0.0, 12.0, 1.0 / rate) + offset
    files = [write(tmp_path / "q.csv", columns(t, "q")), write(tmp_path / "tau.csv", columns(own, "tau"))]
    log = read_log(files, ROBOT)
    exact, h = truth(log.t), 1.0 / rate
    assert np.isin(log.t, t).all()
    assert_array_equal(log.q, exact["q"])
    inside = (log.t > own[1]) & (log.t < own[-2])
    error = np.abs(torque(log) - exact["tau"])
    assert error[inside].max() <= 0.0161 * bound("tau", h, 3) + 3.0 / 128.0 * bound("tau", h, 4) + 1e-9
    assert error.max() <= 0.065 * bound("tau", h, 3) + 1e-9
    assert len(log.t) >= np.count_nonzero((t >= own[0]) & (t <= own[-1])) - 1


def test_a_faster_file_is_averaged_within_the_stated_error(tmp_path: Path) -> None:
    t, own = np.arange(0.0, 12.0, 0.01), np.arange(0.0, 12.0, 0.001) + 0.0003
    table = columns(own, "tau")
    files = [write(tmp_path / "q.csv", columns(t, "q")), write(tmp_path / "tau.csv", table)]
    log = read_log(files, ROBOT)
    error = np.abs(torque(log) - truth(log.t)["tau"])
    assert error.max() <= 3.0 / 640.0 * bound("tau", 0.01, 4) + bound("tau", 0.001, 2) / 12.0
    for name in ("tau1", "tau2"):  # ripple at the rate of the rows, which would fold to a constant
        table[name] = table[name] + np.cos(2.0 * np.pi * 100.0 * own)
    write(files[1], table)
    ripple = torque(read_log(files, ROBOT)) - torque(log)
    assert np.abs(ripple).max() < 0.02


def test_equal_stamps_give_the_rows_of_one_file(tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.004)
    whole = read_log(write(tmp_path / "all.csv", columns(t, "q", "v", "tau")), ROBOT)
    parts = [write(tmp_path / f"{name}.csv", columns(t, name)) for name in ("tau", "q", "v")]
    log = read_log(parts, ROBOT)
    assert log.channels == whole.channels
    for name in ("t", "q", "v", "tau"):
        assert_array_equal(getattr(log, name), getattr(whole, name))
    assert not log.left_out


@pytest.mark.parametrize("rows", [1, 7, 64, 5000])
def test_rows_do_not_depend_on_the_chunks(rows: int, tmp_path: Path) -> None:
    t, own = np.arange(0.0, 4.0, 0.004), np.arange(-0.5, 5.0, 0.0013)
    files = [write(tmp_path / "q.csv", columns(t, "q")), write(tmp_path / "tau.csv", columns(own, "tau"))]
    log = read_log(files, ROBOT)
    pieces = list(log.chunks(rows))
    assert max(map(len, pieces)) <= rows
    for name in ("t", "q", "tau"):
        assert_allclose(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(log, name), atol=1e-9)


@pytest.mark.parametrize("rate", [250.0, 1000.0])
def test_nothing_is_made_up_over_a_gap(rate: float, tmp_path: Path) -> None:
    t, own = np.arange(0.0, 6.0, 0.004), np.arange(0.0, 6.0, 1.0 / rate)
    away = ((own > 2.0) & (own < 2.5)) | ((own > 4.0) & (own < 4.0 + 0.7 * PERIODS / rate))  # the second one is none
    files = [write(tmp_path / "q.csv", columns(t, "q")), write(tmp_path / "tau.csv", columns(own[~away], "tau"))]
    log = read_log(files, ROBOT)
    assert not ((log.t > 2.0 + 1e-9) & (log.t < 2.5 - 1e-9)).any()
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < bound("tau", PERIODS / rate, 2) / 8.0
    (note,) = log.left_out
    assert note.facts["rows"] == len(t) - len(log.t)
    assert note.facts["total"] == len(t)
    assert np.count_nonzero((t > 2.55) & (t < 5.9)) == np.count_nonzero((log.t > 2.55) & (log.t < 5.9))


def test_rows_apart_by_hours_and_files_that_are_far_faster_are_joined(tmp_path: Path) -> None:
    t = np.append(np.arange(0.0, 2.0, 0.01), np.arange(7200.0, 7202.0, 0.01))
    own = np.append(np.arange(0.0, 2.0, 0.0005), np.arange(7199.0, 7203.0, 0.0005))
    hours = np.arange(2.0, 7199.0, 0.5)  # what was recorded meanwhile is too sparse to be used
    own = np.sort(np.append(own, hours))
    log = read_log([write(tmp_path / "q.csv", columns(t, "q")), write(tmp_path / "b.csv", columns(own, "tau"))], ROBOT)
    assert len(log.t) >= len(t) - 4
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < 0.001


def test_clocks_of_other_units_meet_exactly(tmp_path: Path) -> None:
    t = np.arange(0.0, 2.0, 0.005)
    ns = EPOCH + np.round(1e9 * t).astype(np.int64)
    (tmp_path / "q.csv").write_text(_text_with_stamps(ns, columns(t, "q"), "timestamp"))
    late = t + 0.002
    us = (EPOCH + np.round(1e9 * late).astype(np.int64)) / 1000.0
    write(tmp_path / "tau.csv", columns(late, "tau", time="time_us", stamps=us))
    log = read_log([tmp_path / "q.csv", tmp_path / "tau.csv"], ROBOT)
    assert_allclose(log.t, t[1:], atol=1e-12)
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < 5e-4  # at most, beside the ends


def _text_with_stamps(stamps: Any, table: dict[str, Array], time: str) -> str:
    header, *lines = csv_text(table).splitlines()
    rest = [line.partition(",")[2] for line in lines]
    return "\n".join([f"{time},{header.partition(',')[2]}", *(f"{s},{x}" for s, x in zip(stamps, rest, strict=True))])


def test_the_times_of_each_file_may_have_names_of_their_own(tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.004)
    files = [
        write(tmp_path / f"{name}.csv", columns(t, name, time=time)) for name, time in (("q", "clock"), ("tau", "Zeit"))
    ]
    log = read_log(files, ROBOT, columns={"t": ["clock", "Zeit"]})
    assert_array_equal(torque(log), truth(t)["tau"])
    both = [write(tmp_path / f"{name}.csv", columns(t, name, time="clock")) for name in ("q", "tau")]
    assert_array_equal(torque(read_log(both, ROBOT, columns={"t": "clock"})), truth(t)["tau"])


def test_files_of_single_axes_are_told_by_their_names(tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.004)
    exact = truth(t)
    files = [
        write(tmp_path / f"axis{j + 1}.csv", {"t": t, "pos": exact["q"][:, j], "torque": exact["tau"][:, j]})
        for j in range(2)
    ]
    log = read_log(files, ROBOT)
    assert_array_equal(log.q, exact["q"])
    assert_array_equal(torque(log), exact["tau"])


def test_formats_mix_and_folders_of_files_are_seen_through(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    t = np.arange(0.0, 3.0, 0.004)
    with h5py.File(tmp_path / "state.h5", "w") as file:
        for name, x in (("time", t), ("q", truth(t)["q"].T), ("dq", truth(t)["v"].T)):
            file[f"run7/{name}"] = x
    np.savez(tmp_path / "tau.npz", t=t + 0.001, effort=truth(t + 0.001)["tau"], note=np.arange(3))
    log = read_log([tmp_path / "state.h5", tmp_path / "tau.npz"], ROBOT)
    assert_array_equal(log.q, truth(log.t)["q"])
    assert_array_equal(log.v, truth(log.t)["v"])
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < 0.065 * bound("tau", 0.004, 3) + 1e-9


def test_times_are_those_of_the_slower_of_two_files_with_positions(tmp_path: Path) -> None:
    t, own = np.arange(0.0, 3.0, 0.01), np.arange(0.0, 3.0, 0.002)
    slow = {"t": t, "q1": truth(t)["q"][:, 0]}
    fast = {"t": own, "q2": truth(own)["q"][:, 1], **{k: x for k, x in columns(own, "tau").items() if k != "t"}}
    log = read_log([write(tmp_path / "b.csv", fast), write(tmp_path / "a.csv", slow)], ROBOT)
    assert np.isin(log.t, t).all()
    assert_array_equal(log.q[:, 0], truth(log.t)["q"][:, 0])
    error = np.abs(log.q - truth(log.t)["q"])
    assert error.max() <= 3.0 / 640.0 * bound("q", 0.01, 4) + bound("q", 0.002, 2) / 12.0


def test_a_channel_in_both_files_needs_a_choice_which_the_error_spells(tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.004)
    a, b = write(tmp_path / "a.csv", columns(t, "q", "v")), write(tmp_path / "b.csv", columns(t + 0.001, "q", "tau"))
    with pytest.raises(LogError) as refused:
        read_log([a, b], ROBOT)
    assert refused.value.code == "ambiguous_column"
    chosen = refused.value.facts["columns"].value
    assert chosen == {"q": ["a.q1", "a.q2"]}
    log = read_log([a, b], ROBOT, columns=chosen)
    assert_array_equal(log.t, t[1:])
    other = read_log([a, b], ROBOT, columns={"q": ["b.q1", "b.q2"]})
    assert_array_equal(other.t, t[:-1] + 0.001)
    assert_array_equal(read_log([a, b], ROBOT, columns={**chosen, "tau": ["b.tau1", "tau2"]}).tau, torque(log))


def test_rows_that_come_late_or_have_a_clock_of_their_own_do_no_harm(tmp_path: Path) -> None:
    t, own = np.arange(0.0, 4.0, 0.004), np.arange(0.0, 4.0, 0.003)
    q, tau = columns(t, "q"), columns(own, "tau")
    right = read_log([write(tmp_path / "q.csv", q), write(tmp_path / "right.csv", tau)], ROBOT)
    late = np.arange(len(own))
    late[100:110] = late[100:110][::-1]
    late[700:702] = [701, 700]
    tau = {name: x[late] for name, x in tau.items()}
    write(tmp_path / "tau.csv", tau)
    log = read_log([tmp_path / "q.csv", tmp_path / "tau.csv"], ROBOT)
    for name in ("t", "q", "tau"):
        assert_allclose(getattr(log, name), getattr(right, name))
    tau["t"][[50, 900]] = 1e12, np.nan
    q["t"][[3, 500]] = np.nan, -1e9
    log = read_log([write(tmp_path / "p.csv", q), write(tmp_path / "tau.csv", tau)], ROBOT)
    assert_array_equal(log.t, np.setdiff1d(right.t, t[[3, 500]]))
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < 0.01
    assert [note.facts["rows"] for note in log.left_out if note.code == "joined_rows_without_time"] == [2, 2]


def test_rounded_clocks_are_spread_before_files_are_joined(tmp_path: Path) -> None:
    t, own = np.arange(0.0, 4.0, 0.002), np.arange(0.0, 4.0, 0.004)
    q, tau = columns(t, "q"), columns(own, "tau")
    q["t"] = np.floor(q["t"] / 0.01 + 1e-6) * 0.01
    files = [write(tmp_path / "q.csv", q), write(tmp_path / "tau.csv", tau)]
    pieces = [list(read_log(files, ROBOT).chunks(rows)) for rows in (3, 100_000)]
    for some in pieces:
        found, tau_found = (np.concatenate([getattr(piece, name) for piece in some]) for name in ("t", "tau"))
        assert_allclose(found[:-5], t[: len(found) - 5], atol=1e-9)
        assert_allclose(found[-5:], t[len(found) - 5 : len(found)], atol=1e-4)  # there is no stamp after these
        assert len(found) > len(t) - 4
        assert np.abs(tau_found - truth(found)["tau"]).max() < 0.001
    twice = {name: np.repeat(x, 2) for name, x in tau.items()}  # every row written twice
    log = read_log([files[0], write(tmp_path / "twice.csv", twice)], ROBOT)
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < 0.001


def test_missing_values_of_a_file_stay_missing(tmp_path: Path) -> None:
    t = np.arange(0.0, 2.0, 0.004)
    for own in (t + 0.001, np.arange(-0.1, 2.1, 0.001)):
        tau = columns(own, "tau")
        tau["tau1"][200] = np.nan
        log = read_log([write(tmp_path / "q.csv", columns(t, "q")), write(tmp_path / "tau.csv", tau)], ROBOT)
        gone = np.isnan(torque(log)[:, 0])
        assert 1 <= gone.sum() <= 4
        assert np.abs(log.t[gone] - own[200]).max() <= 1.5 * 0.004 + 1e-9
        assert np.isfinite(torque(log)[:, 1]).all()


def test_never_meeting_times_name_the_shift_that_helps(tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.004)
    a = write(tmp_path / "a.csv", columns(t, "q"))
    b = tmp_path / "b.csv"
    b.write_text(_text_with_stamps(EPOCH + np.round(1e9 * t).astype(np.int64), columns(t, "tau"), "stamp"))
    with pytest.raises(LogError) as refused:
        read_log([a, b], ROBOT)
    assert refused.value.code == "times_never_meet"
    word = refused.value.facts["shifted"].command_line.strip("'")
    log = reader().read_log(f"{a}+{word}")
    assert log.name == f"{a}+{word}"  # a command that names it reads the same
    assert_allclose(log.t, t, atol=1e-6)
    assert np.abs(torque(log) - truth(log.t)["tau"]).max() < 1e-3
    assert_allclose(torque(read_log([a, FilePart(b, shift=-EPOCH / 1e9)], ROBOT)), torque(log), atol=1e-3)


def test_ranges_that_do_not_overlap_and_clocks_that_do_not_meet_have_remedies_of_their_own(tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.004)
    a, b = write(tmp_path / "a.csv", columns(t, "q")), write(tmp_path / "b.csv", columns(t, "tau"))
    c = write(tmp_path / "c.csv", columns(t + 90.0, "tau"))
    remedies = []
    for word in (f"{a}@:1+{b}@2:", f"{a}@:1+{c}", f"{a}+{c}"):
        with pytest.raises(LogError) as refused:
            reader().read_log(word)
        assert refused.value.code == "times_never_meet"
        remedies.append(refused.value.remedy)
    assert remedies[0] != remedies[1] == remedies[2]


def reader(**options: Any) -> log_options.LogReader:
    more = {key: options[key] for key in ("header", "rows") if key in options}
    return log_options.LogReader.from_options(
        ROBOT, options.get("column", ()), (), None, None, options.get("topic"), **more
    )


def test_files_without_headers_and_rows_of_files_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t = np.arange(0.0, 3.0, 0.004)
    for name in ("q", "tau"):
        np.savetxt(f"{name}.csv", np.column_stack([t, truth(t)[name]]), delimiter=",", fmt="%.17g")
    log = reader(header="t,q*2+t,tau*2").read_log("q.csv+tau.csv")
    assert_array_equal(log.q, truth(t)["q"])
    assert_array_equal(torque(log), truth(t)["tau"])
    part = reader(header="t,q*2+t,tau*2").read_log("q.csv@#101:500+tau.csv@#:400")
    assert_array_equal(part.t, t[100:400])
    assert_array_equal(torque(part), truth(t)["tau"][100:400])
    both = reader(header="t,q*2+t,tau*2", rows="101:").read_log("q.csv+tau.csv")
    assert_array_equal(both.t, t[100:])
    for code, options in (
        ("header_count_mismatch", {"header": "t,q*2+t,tau*2+t"}),
        ("numbers_not_applicable", {"column": ["q=2:3"]}),
    ):
        with pytest.raises(LogError) as refused:
            reader(**options).read_log("q.csv+tau.csv")
        assert refused.value.code == code


def test_columns_are_counted_in_the_file_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t = np.arange(0.0, 3.0, 0.004)
    x, blank = truth(t), np.zeros(len(t))
    np.savetxt("state.csv", np.column_stack([t, x["q"], x["v"]]), delimiter=",", fmt="%.17g")
    np.savetxt("drives.csv", np.column_stack([blank, t, x["tau"]]), delimiter=";", fmt="%.17g")
    np.savez("drives.npz", data=np.column_stack([blank, t, x["tau"]]))
    same = ["q=state.2:3", "v=state.4:5", "t=state.1,drives.2"]
    for other, tau in (("csv", "tau=drives.3:4"), ("csv", "tau=drives.3,drives.4"), ("npz", "tau=drives.3:4")):
        log = reader(column=[*same, tau]).read_log(f"state.csv+drives.{other}")
        for name in ("q", "v", "tau"):
            assert_array_equal(getattr(log, name), x[name])
    np.savetxt("drives.csv", np.column_stack([t, x["tau"]]), delimiter=";", fmt="%.17g")
    log = reader(column=["q=state.2:3", "tau=drives.2:3", "t=1"]).read_log("state.csv+drives.csv")
    assert_array_equal(torque(log), x["tau"])
    frames = [np.column_stack([t, x["q"]]), {"t": t, "tau": x["tau"]}]
    assert_array_equal(read_log(frames, ROBOT, columns={"q": "frame1.2:3", "t": ["frame1.1", "frame2.t"]}).q, x["q"])
    for code, words in (
        ("columns_overlap", ["q=state.2:3", "v=state.3:4", "tau=drives.2:3", "t=1"]),
        ("unknown_column", ["q=state.2:3", "tau=drives.3:4", "t=1"]),
        ("unknown_column", ["q=stat.2:3", "tau=drives.2:3", "t=1"]),
    ):
        with pytest.raises(LogError) as refused:
            reader(column=words).read_log("state.csv+drives.csv")
        assert refused.value.code == code


@pytest.mark.parametrize(("rate", "unit", "turn"), [(190.0, "rad", 2.0 * np.pi), (1000.0, "deg", 360.0)])
def test_positions_that_wrap_are_not_interpolated_through_the_jump(
    rate: float, unit: str, turn: float, tmp_path: Path
) -> None:
    """Axes in files of their own, recorded modulo a turn: one at the joined times, the other brought to them."""
    t, own = np.arange(0.0, 8.0, 0.01), np.arange(0.0, 8.1, 1.0 / rate) + 0.0003
    turns = {"q1": lambda t: 1.9 * t + np.sin(t), "q2": lambda t: np.cos(t) - 2.3 * t}
    scale = turn / (2.0 * np.pi)
    first = {"t": t, f"q1 [{unit}]": scale * turns["q1"](t) % turn, **{f"tau{j}": np.cos(j * t) for j in (1, 2)}}
    second = {"t": own, f"q2 [{unit}]": (scale * turns["q2"](own) + 0.5 * turn) % turn - 0.5 * turn}
    second[f"q2 [{unit}]"][100:103] = np.nan
    log = read_log([write(tmp_path / "a.csv", first), write(tmp_path / "b.csv", second)], ROBOT)
    right = turns["q2"](log.t)
    error = log.q[:, 1] - right
    known = np.isfinite(error)
    assert known.sum() > len(log.t) - 10
    assert np.ptp(error[known]) < 1e-3
    assert {note.code for note in log.left_out} >= {"joined_positions_unwrapped"}
    for rows in (7, 1000):
        pieces = np.concatenate([piece.q for piece in log.chunks(rows)])
        assert_allclose(pieces, log.q, atol=1e-9)


def test_frames_and_arrays_are_joined(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    t = np.arange(0.0, 3.0, 0.004)
    state, drive = columns(t, "q"), {"t": t, "tau": truth(t)["tau"]}
    file = write(tmp_path / "tau.csv", columns(t, "tau"))
    for parts in ([state, drive], [pl.DataFrame(state), drive], [state, file], [pl.DataFrame(state), FilePart(file)]):
        log = read_log(parts, ROBOT)
        assert_array_equal(log.q, truth(t)["q"])
        assert_array_equal(torque(log), truth(t)["tau"])
        assert f"{len(t)} samples, {t[-1]:.4g} s" in repr(log)
    later = {**drive, "t": t + 50.0}
    with pytest.raises(LogError) as refused:
        read_log([state, later], ROBOT)
    assert refused.value.code == "times_never_meet"
    assert_allclose(torque(read_log([state, FilePart(later, shift=-50.0)], ROBOT)), truth(t)["tau"], rtol=1e-9)


def test_the_command_line_joins_cuts_and_shifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t, own = np.arange(0.0, 6.0, 0.004), np.arange(0.0, 6.0, 0.005)
    write(tmp_path / "a.csv", columns(t, "q"))
    write(tmp_path / "b.csv", columns(own, "tau"))
    whole = reader().read_log("a.csv+b.csv")
    for word, first, last in (
        ("a.csv@1:4+b.csv", 1.0, 4.0), ("a.csv+b.csv@1:4", 1.0, 4.0), ("a.csv@1:+b.csv@:4", 1.0, 4.0),
        ("a.csv@:50%+b.csv@1:@:-1", 1.0, 2.998), ("a.csv@1e+0:4+b.csv", 1.0, 4.0),
    ):  # fmt: skip
        cut = reader().read_log(word)
        inside = (whole.t >= first - 1e-9) & (whole.t < last - 1e-9)
        assert_array_equal(cut.t, whole.t[inside])
        assert_array_equal(torque(cut), torque(whole)[inside])
        assert not cut.left_out
    shifted = reader().read_log("a.csv+b.csv@+0.5")
    assert_allclose(torque(shifted)[:-1], torque(whole)[: len(shifted.t) - 1], atol=0.02)
    assert shifted.t[0] == pytest.approx(0.5)
    assert log_options.files_of_log_arguments(["a.csv@1:4+b.csv@-0.5", "c.csv"]) == [
        Path("a.csv"),
        Path("b.csv"),
        Path("c.csv"),
    ]
    write(tmp_path / "a.csv+b.csv", columns(t[:10], "q", "tau"))
    assert len(reader().read_log("a.csv+b.csv").t) == 10
    write(tmp_path / "c+d.csv", columns(own, "v"))
    assert reader().read_log("a.csv+c+d.csv").channels == {"v"}


T = np.arange(0.0, 2.0, 0.01)
BACK = np.concatenate([T, T])


@pytest.mark.parametrize(
    ("code", "word", "tables"),
    [
        ("times_never_meet", "a+b", {"a": columns(T, "q"), "b": columns(T + 5.0, "tau")}),
        ("times_never_meet", "a@:1+b@1.5:", {"a": columns(T, "q"), "b": columns(T, "tau")}),
        ("missing_time", "a+b", {"a": columns(T, "q"), "b": {"tau1": T, "tau2": T}}),
        ("file_twice", "a+a", {"a": columns(T, "q")}),
        ("file_not_found", "a+b", {"a": columns(T, "q")}),
        ("file_not_found", "a+b@5", {"a": columns(T, "q"), "b": columns(T, "tau")}),
        ("file_not_found", "a+b@+5%", {"a": columns(T, "q"), "b": columns(T, "tau")}),
        ("file_not_found", "a@+5", {"a": columns(T, "q", "tau")}),
        ("invalid_recording", "a+", {"a": columns(T, "q")}),
        ("ambiguous_column", "a+b", {"a": columns(T, "q", "tau"), "b": columns(T, "tau")}),
        ("missing_positions", "a+b", {"a": columns(T, "v"), "b": columns(T, "tau")}),
        ("joint_moves_without_torque", "a+b", {"a": columns(T, "q"), "b": {"t": T, "tau1": T}}),
        ("clock_set_back", "a+b", {"a": columns(T, "q"), "b": columns(BACK, "tau")}),
        ("clock_set_back", "a+b", {"a": columns(BACK, "q"), "b": columns(T, "tau")}),
        ("time_constant", "a+b", {"a": columns(T, "q"), "b": columns(0.0 * T, "tau")}),
        ("range_beyond_log", "a+b@5:", {"a": columns(T, "q"), "b": columns(T, "tau")}),
        ("no_samples", "a+b", {"a": columns(T, "q"), "b": columns(T[:0], "tau")}),
        ("no_joined_rows", "a+b", {"a": columns(T[50:60], "q"), "b": columns(np.append(T[:40], T[-40:]), "tau")}),
        ("topic_not_applicable", "a+b", {"a": columns(T, "q"), "b": columns(T, "tau"), "topic": {}}),
        ("unknown_column", "a+b", {"a": columns(T, "q"), "b": columns(T, "tau"), "column": {}}),
    ],
)  # fmt: skip
def test_wrong_recordings_are_refused(
    code: str, word: str, tables: dict[str, dict[str, Array]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in tables.items():
        if table:
            write(tmp_path / name, table).rename(tmp_path / f"{name}.csv")
    options = {"topic": "/js"} if "topic" in tables else {"column": ["t=clock"]} if "column" in tables else {}
    for letter in "ab":
        word = word.replace(letter, f"{letter}.csv")
    with pytest.raises(DynidError) as refused:
        list(reader(**options).read_log(word).chunks())
    assert refused.value.code == code
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("given", [[], [["a.csv", "b.csv"]]])
def test_a_recording_is_a_list_of_files(given: list[Any]) -> None:
    with pytest.raises(LogError) as refused:
        read_log(given, ROBOT)
    assert refused.value.code == "invalid_recording"


def test_a_change_of_any_of_the_files_is_seen(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.csv", columns(T, "q")), write(tmp_path / "b.csv", columns(T, "tau"))]
    log: Log = read_log(files, ROBOT)
    list(log.chunks())
    write(files[1], columns(T[:-1], "tau"))
    with pytest.raises(LogError) as refused:
        list(log.chunks())
    assert refused.value.code == "file_changed"
