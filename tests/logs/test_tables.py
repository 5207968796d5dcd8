"""Tables by the user's word (header, numbers, rows), frames and arrays, what a log prints, and true progress."""

from __future__ import annotations

import gzip
import json
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dynid
from command_line import CommandLine
from dynid.logs.log import Log, Samples
from dynid.logs.read import read_log
from dynid.logs.readers.csv_text import HEAD
from dynid.robot.transform import Array
from fourier import fourier_motion
from loads import LOAD, robot_with_friction, two_logs
from log_writers import as_columns, bag_messages, random_samples, write_bag

ROBOT = dynid.load_robot("gautier3")
X = random_samples(3, rows=300)
HEADER = "t,q*3,v*3,a*3,tau*3"
MADE = "t,q1,q2,q3,tau1,tau2,tau3"
EPOCH = 1_714_560_000_000_000_000
PLAIN = ("viscous", "coulomb", "offset")


def table() -> Array:
    return np.column_stack(list(as_columns(X).values()))


def assert_same(log: Log, x: Samples = X) -> None:
    for channel in ("t", "q", "v", "tau"):
        assert_array_equal(getattr(log, channel), getattr(x, channel))


def plain_file(path: Path, lines: int = 1) -> Path:
    np.savetxt(path, np.tile(table(), (lines, 1)), delimiter=",", fmt="%.17g")
    return path


# Frames and arrays.


class LikePandas:
    """What dynid uses of a pandas frame: columns by place, an index with a name and a kind."""

    def __init__(self, columns: dict[str, Array], index: Any, name: str | None) -> None:
        self._columns = list(columns.values())
        self._labels = list(columns)
        self.index = np.asarray(index).view(_Index)
        self.index.name = name

    @property
    def columns(self) -> list[str]:
        return self._labels

    @property
    def iloc(self) -> Any:
        return self

    def __getitem__(self, place: tuple[slice, int]) -> Array:
        return self._columns[place[1]]


class _Index(np.ndarray):
    name: str | None = None


def _records() -> Any:
    columns = as_columns(X)
    records = np.zeros(len(X), dtype=[(name, float) for name in columns])
    for name, column in columns.items():
        records[name] = column
    return records


def _without_time() -> dict[str, Array]:
    return {name: column for name, column in as_columns(X).items() if name != "t"}


FRAMES: dict[str, Callable[[], Any]] = {
    "polars": lambda: pl.DataFrame(as_columns(X)),
    "polars, lazy": lambda: pl.LazyFrame(as_columns(X)),
    "polars, lists": lambda: pl.DataFrame({"t": X.t, "q": X.q.tolist(), "v": X.v, "tau": X.tau}),
    "columns": lambda: as_columns(X),
    "lists": lambda: {name: column.tolist() for name, column in as_columns(X).items()},
    "matrices": lambda: {"t": X.t, "q": X.q, "v": X.v, "tau": X.tau},
    "turned": lambda: {"t": X.t, "q": X.q.T, "v": X.v, "tau": X.tau},
    "nested": lambda: {"robot": {"time": X.t, "position": X.q, "velocity": X.v, "effort": X.tau}},
    "records": _records,
    "like pandas": lambda: LikePandas(as_columns(X), np.arange(300), None),
    "like pandas, time as index": lambda: LikePandas(_without_time(), X.t, "t"),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_and_arrays_are_logs(kind: str) -> None:
    log = read_log(FRAMES[kind](), ROBOT)
    assert_same(log)
    assert log.name == "frame"


def test_real_frames_of_pandas_are_logs() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(as_columns(X))
    assert_same(read_log(frame, ROBOT))
    assert_same(read_log(frame.set_index("t"), ROBOT))
    stamped = frame.drop(columns="t")
    stamped.index = pd.Timestamp("2024-05-01", tz="Europe/Paris") + pd.to_timedelta(X.t, unit="s")
    assert_allclose(read_log(stamped, ROBOT).t, X.t, atol=1e-9)


def test_dates_and_durations_in_frames_are_times() -> None:
    ns = np.round(1e9 * X.t).astype(np.int64)
    for t in (
        ns.astype("m8[ns]"), (ns + 10**18).astype("M8[ns]"), pl.Series(ns // 1000).cast(pl.Duration("us")),
        pl.Series(ns // 10**6 + 10**12).cast(pl.Datetime("ms", "UTC")),
    ):  # fmt: skip
        for frame in ({"t": t, "q": X.q}, pl.DataFrame({"t": t, "q": X.q})):
            assert_allclose(read_log(frame, ROBOT).t, X.t, atol=1e-12)


def test_an_array_with_a_header_is_a_log() -> None:
    for array in (table(), np.asfortranarray(table()), table().T.copy()):
        assert_same(read_log(array, ROBOT, header=HEADER))
    assert_same(read_log(table(), ROBOT, header=HEADER, rows=(3, 20)), X.select_rows(slice(2, 20)))


def test_names_of_joints_beside_matrices_order_their_columns() -> None:
    robot = dynid.load_robot("ur10")
    x = random_samples(6, rows=20)
    order = [3, 1, 0, 2, 5, 4]
    frame = {"t": x.t, "q": x.q[:, order], "names": [robot.joint_names[k] for k in order]}
    assert_array_equal(read_log(frame, robot).q, x.q)


@pytest.mark.parametrize("rows", [(1, 300), (17, 260), (5, None), (None, 7), (300, 300)])
def test_rows_count_from_one_in_every_format(rows: tuple[int | None, int | None], tmp_path: Path) -> None:
    wanted = X.select_rows(slice((rows[0] or 1) - 1, rows[1]))
    pl.DataFrame(as_columns(X)).write_parquet(tmp_path / "log.parquet", row_group_size=64)
    np.savez(tmp_path / "log.npz", data=table())
    plain_file(tmp_path / "log.csv")
    assert_same(read_log(tmp_path / "log.csv", ROBOT, header=HEADER, rows=rows), wanted)
    assert_same(read_log(tmp_path / "log.npz", ROBOT, header=HEADER, rows=rows), wanted)
    assert_same(read_log(tmp_path / "log.parquet", ROBOT, rows=rows), wanted)
    assert_same(read_log(pl.DataFrame(as_columns(X)), ROBOT, rows=rows), wanted)


def test_rows_in_blocks_are_those_of_the_whole_file(tmp_path: Path) -> None:
    """Over several blocks, with comments and blank lines, which are no rows; lines are those of the file."""
    path = plain_file(tmp_path / "log.csv", 40)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line + ("\n\n# note" if k % 1000 == 7 else "") for k, line in enumerate(lines)) + "\n")
    whole = read_log(path, ROBOT, header=HEADER)
    part = read_log(path, ROBOT, header=HEADER, rows=(5001, 9000))
    assert path.stat().st_size > 2 << 20
    assert_array_equal(part.q, whole.q[5000:9000])
    assert sum(len(piece) for piece in part.chunks(100)) == 4000
    assert part.places([0, 3999]) == f"line {5001 + 5 * 2}, {9000 + 9 * 2}"


def test_rubbish_outside_of_the_rows_is_not_looked_at(tmp_path: Path) -> None:
    path = plain_file(tmp_path / "log.csv")
    lines = path.read_text().splitlines()
    lines[1], lines[250] = "Traceback (most recent call last):", ",,,,oops"
    path.write_text("\n".join(lines) + "\n")
    assert_same(read_log(path, ROBOT, header=HEADER, rows=(3, 250)), X.select_rows(slice(2, 250)))
    with pytest.raises(dynid.DynidError, match="line 251"):
        _ = read_log(path, ROBOT, header=HEADER, rows=(3, 260)).q


def test_memory_stays_bounded_for_rows_of_a_long_table(tmp_path: Path) -> None:
    """Rows far down a table without a header: those before are skipped while it is read."""
    path, line = tmp_path / "log.csv", ",".join(["0.123456789012"] * 13)
    with path.open("w") as file:
        for _ in range(400):
            file.write((line + "\n") * 1000)
    log = read_log(path, ROBOT, header=HEADER, rows=(390_001, 390_500))
    next(iter(log.chunks()))
    tracemalloc.start()
    assert sum(len(piece) for piece in log.chunks()) == 500
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 70e6
    assert peak < 50e6


# Provenance, commands and threads.


def simulated(seed: int = 3) -> Log:
    return dynid.simulate(ROBOT, fourier_motion(ROBOT, duration=6.0, seed=seed), noise=0.01, seed=seed)


def columns_of(log: Log) -> dict[str, Array]:
    assert log.tau is not None
    return {"t": log.t, "q": log.q, "tau": log.tau}


def test_a_result_of_a_frame_says_so_and_is_that_of_the_log() -> None:
    log, other = simulated(), simulated(4)
    options: dict[str, Any] = {"friction": (), "rotor_inertia": False}
    same = dynid.identify(
        ROBOT, Log(log.t, log.q, tau=log.tau), validate=Log(other.t, other.q, tau=other.tau), **options
    )
    found = dynid.identify(ROBOT, pl.DataFrame(columns_of(log)), validate=columns_of(other), **options)
    assert_array_equal(found.values, same.values)
    assert_array_equal(found.validation.nrmse, same.validation.nrmse)
    assert found.findings[0][0] == "frame"
    assert not found.origin.inputs
    several = dynid.identify(ROBOT, [columns_of(log), pl.DataFrame(columns_of(other))], validate=0.3, **options)
    assert len(several.findings) == 2


def test_the_command_that_a_result_names_holds_header_and_rows(tmp_path: Path) -> None:
    log = simulated()
    path = tmp_path / "log.csv"
    t, q, tau = columns_of(log).values()
    np.savetxt(path, np.column_stack([t, q, q, tau]), delimiter=",", fmt="%.17g")
    read = read_log(path, ROBOT, header="t,q*3,_*3,tau*3", rows=(11, 590))
    result = dynid.identify(dynid.load_robot("gautier3"), read, friction=(), rotor_inertia=False, validate=0.3)
    command = result.verdict.next_step
    assert f"{path}@#11:590" in command
    assert "--header 't,q*3,_*3,tau*3'" in command


def test_threads_read_one_frame_side_by_side() -> None:
    log = read_log(FRAMES["polars, lists"](), ROBOT, rows=(2, 299))
    seen: list[Array] = []

    def read() -> None:
        seen.append(np.concatenate([piece.q for piece in log.chunks(7)]))

    workers = [threading.Thread(target=read) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(seen) == 6
    for q in seen:
        assert_array_equal(q, X.q[1:299])


# What a log prints, and its frame.


def test_a_log_prints_what_it_holds(tmp_path: Path) -> None:
    path = plain_file(tmp_path / "log.csv")
    for text in (repr(read_log(path, ROBOT, header=HEADER)), read_log(path, ROBOT, header=HEADER)._repr_html_()):
        for word in ("log.csv", "300 samples", "0.299 s", "1000 Hz", "3", "q (rad, m)", "tau (N m, N)"):
            assert word in text
        assert len(text) < 500
    assert "nothing.csv" in repr(Log(X.t, X.q, name="nothing.csv"))
    changed = read_log(path, ROBOT, header=HEADER)
    path.write_text("gone")
    assert "changed" in repr(changed)


def test_the_frame_of_a_log_is_read_as_the_same_log() -> None:
    log = Log(X.t, X.q, v=X.v, tau=X.tau, reaction=np.ones((300, 6)))
    frame = log.frame()
    assert frame.columns[:5] == ["t", "q1", "q2", "q3", "v1"]
    assert frame.columns[-6:] == ["fx", "fy", "fz", "mx", "my", "mz"]
    again = read_log(frame, ROBOT)
    assert_same(again)
    assert_array_equal(again.reaction, log.reaction)


# Progress.


def shares(log: Log) -> tuple[Array, Array]:
    """Share that is told, and share of the rows that were read, after every chunk."""
    told, rows = [], []
    for piece in log.chunks(500):
        told.append(piece.done)
        rows.append(len(piece))
    return np.array(told), np.cumsum(rows) / sum(rows)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet", "log.npz", "log.h5", "bag", "frame"])
def test_progress_is_the_share_of_the_bytes(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    t: Array = np.arange(60_000) / 1e3
    q = rng.standard_normal((len(t), 3))
    path, content = tmp_path / name, ""
    if "csv" in name:
        lines = (",".join(map(repr, row)) for row in np.column_stack([t, q]).tolist())
        content = "t,q1,q2,q3\n" + "\n".join(lines) + "\n"
        path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    elif name == "log.parquet":
        pl.DataFrame({"t": t, "q": q}).write_parquet(path, row_group_size=5000)
    elif name == "log.npz":
        np.savez(path, t=t, q=q)
    elif name == "log.h5":
        import h5py  # type: ignore[import-untyped]

        with h5py.File(path, "w") as file:
            file["t"], file["q"] = t, q
    elif name == "bag":
        x = Samples(t[:3000], q[:3000], q[:3000], None, q[:3000])
        write_bag(path, bag_messages(x, [f"joint{j}" for j in ROBOT.joint_names], EPOCH))
    log = read_log({"t": t, "q": q} if name == "frame" else path, ROBOT)
    told, rows = shares(log)
    assert (np.diff(told) >= 0.0).all()
    assert told[-1] == 1.0
    assert told[0] < 0.95
    block = {"log.csv": 1.1 * HEAD, "log.csv.gz": 2.2 * HEAD}.get(name, 0.0)  # text is read by blocks of a megabyte
    assert np.abs(told - rows).max() < 0.02 + block / (len(content) if block else 1.0)
    assert (told >= rows - 0.02).all()


def test_progress_of_several_logs_goes_up_to_the_end_once(tmp_path: Path) -> None:
    log = simulated()
    paths = []
    for k, length in enumerate((600, 300)):
        paths.append(tmp_path / f"{k}.csv")
        table = np.column_stack(list(columns_of(log).values()))[:length]
        np.savetxt(paths[-1], table, delimiter=",", header="t,q1,q2,q3,tau1,tau2,tau3", comments="")
    told: list[tuple[str, float]] = []
    dynid.identify(ROBOT, paths, friction=(), on_progress=lambda text, done: told.append((text, done)))
    reading = [done for text, done in told if text.startswith("reading")]
    assert_allclose(reading, [2 / 3, 1.0], atol=0.01)


# Payloads and reports.


def test_payloads_and_reports_take_frames(tmp_path: Path) -> None:
    robot = robot_with_friction("gautier3")
    loaded, unloaded = two_logs(robot, LOAD, noise=0.01)
    frames = [log.frame() for log in (loaded, unloaded)]
    own = dynid.identify_payload(robot, loaded, unloaded, friction=PLAIN)
    found = dynid.identify_payload(robot, frames[0], frames[1], friction=PLAIN)
    assert_array_equal(found.values, own.values)
    with pytest.raises(dynid.DynidError) as caught:
        dynid.identify_payload(robot, frames[0], frames[0], friction=PLAIN)
    assert caught.value.message.code == "loaded_equals_unloaded"
    result = dynid.identify(robot, frames[1], friction=PLAIN)
    dynid.write_report(result, tmp_path / "page.html", logs=frames[1], validate=[frames[1]])
    assert "frame" in (tmp_path / "page.html").read_text()


def test_payloads_by_command_take_header_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    robot = robot_with_friction("gautier3")
    words: list[str] = []
    for name, log in zip(("loaded", "unloaded"), two_logs(robot, LOAD, noise=0.01), strict=True):
        t, q, tau = columns_of(log).values()
        rubbish = np.full((5, 8), 1e3)
        block = np.vstack([rubbish, np.column_stack([t, q, np.ones(len(t)), tau])])
        np.savetxt(tmp_path / f"{name}.csv", block, delimiter=",", fmt="%.17g")
        named = np.column_stack([t, q, tau])
        np.savetxt(tmp_path / f"{name}_made.csv", named, delimiter=",", fmt="%.17g", header=MADE, comments="")
        words += [f"--{name}", str(tmp_path / f"{name}{{}}.csv")]
    values = []
    for kind, options in (("", ("--header", "t,q*3,_,tau*3", "--rows", "6:")), ("_made", ())):
        out = tmp_path / "out.json"
        given = [word.format(kind) for word in words]
        CommandLine(monkeypatch, capsys)("payload", "gautier3", *given, *options, "--json", out, code=None)
        values.append(json.loads(out.read_text())["values"])
    assert_allclose(values[0], values[1], rtol=1e-9)
