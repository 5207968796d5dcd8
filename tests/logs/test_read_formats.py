from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import log_writers as writers
from dynid.logs.log import Samples
from dynid.logs.read import read_log
from dynid.logs.readers import csv_text as text
from dynid.logs.readers.csv_text import HEAD
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from log_writers import CHANNELS, WRITERS, channel, random_samples


@pytest.fixture(scope="module")
def panda() -> Robot:
    return load_robot("panda")


@pytest.mark.parametrize("file", WRITERS)
def test_every_format_gives_back_what_was_written(file: str, tmp_path: Path, panda: Robot) -> None:
    samples = random_samples(7)
    log = read_log(WRITERS[file](tmp_path / file, samples), panda)
    assert log.channels == {"v", "a", "tau"}
    assert_array_equal(log.t, samples.t)
    for name in CHANNELS:
        value = getattr(log, name)
        assert_array_equal(value, channel(samples, name))
        assert value.flags.c_contiguous
        assert value.dtype == np.float64
    assert log.reaction is None


@pytest.mark.parametrize("rows", [1, 7, 100, 499, 500, 65_536])
@pytest.mark.parametrize("file", ["log.csv", "log.csv.gz", "log.parquet", "log.npz", "log.mat", "v73.mat", "log.h5"])
def test_chunks_of_any_size_make_up_the_whole(file: str, rows: int, tmp_path: Path, panda: Robot) -> None:
    samples = random_samples(7)
    log = read_log(WRITERS[file](tmp_path / file, samples), panda)
    for _ in range(2):
        pieces = list(log.chunks(rows))
        assert all(0 < len(piece) <= rows for piece in pieces)
        assert_array_equal(np.concatenate([piece.t for piece in pieces]), samples.t)
        assert_array_equal(np.concatenate([channel(piece, "tau") for piece in pieces]), channel(samples, "tau"))


def test_csv_of_many_blocks_equals_the_whole(tmp_path: Path, panda: Robot) -> None:
    samples = random_samples(7, rows=6000)
    path = writers.write_csv(tmp_path / "log.csv", samples)
    assert path.stat().st_size > 3 * HEAD
    pieces = list(read_log(path, panda).chunks(1000))
    assert_array_equal(np.concatenate([piece.q for piece in pieces]), samples.q)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "   ", ", "])
def test_delimiters_are_found(delimiter: str, tmp_path: Path, panda: Robot) -> None:
    samples = random_samples(7, rows=20)
    path = tmp_path / "log.csv"
    path.write_text(writers.csv_text(writers.as_columns(samples), delimiter))
    assert_array_equal(read_log(path, panda).tau, samples.tau)


def _one(tmp_path: Path, content: str | bytes) -> Samples:
    path = tmp_path / "log.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    log = read_log(path, load_robot("one_link"))
    return Samples(log.t, log.q, tau=log.tau)


def test_comments_blank_lines_and_windows_line_ends_are_no_samples(tmp_path: Path) -> None:
    read = _one(tmp_path, "# rig 3\r\n\r\nt,q1\r\n0,1\r\n# pause\r\n\r\n1,2\r\n\r\n2,3")
    assert_array_equal(read.t, [0.0, 1.0, 2.0])
    assert_array_equal(read.q[:, 0], [1.0, 2.0, 3.0])


def test_byte_order_mark_quotes_and_decimal_commas_are_read(tmp_path: Path) -> None:
    read = _one(tmp_path, b'\xef\xbb\xbf"t";"q1"\n0,5;1,25\n1,5;2\n')
    assert_array_equal(read.t, [0.5, 1.5])
    assert_array_equal(_one(tmp_path, '"t","q1"\n"0.5","1.25"\n"1.5","2"\n').q[:, 0], [1.25, 2.0])


def test_header_in_a_comment_as_numpy_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    np.savetxt(path, [[0.0, 1.0], [1.0, 2.0]], header="t q1")
    log = read_log(path, load_robot("one_link"))
    assert_array_equal(log.q, [[1.0], [2.0]])
    assert any("comment" in note for note in log.notes)


@pytest.mark.parametrize("cell", ["", "nan", "NaN", "null", "inf", "-inf", "NA", "None"])
def test_missing_numbers_are_nan(cell: str, tmp_path: Path) -> None:
    read = _one(tmp_path, f"t,q1,tau1\n0,1,2\n1,{cell},3\n2,4,{cell}\n")
    assert read.tau is not None
    assert_array_equal(read.q[:, 0], [1.0, np.nan, 4.0])
    assert_array_equal(read.tau[:, 0], [2.0, 3.0, np.nan])


def test_text_in_columns_that_are_not_used_does_not_matter(tmp_path: Path) -> None:
    assert_array_equal(_one(tmp_path, "t,mode,q1,remark\n0,auto,1,ok\n1,manual mode,2,\n").q[:, 0], [1.0, 2.0])


def test_quoted_text_may_hold_the_delimiter(tmp_path: Path) -> None:
    assert_array_equal(_one(tmp_path, 't,mode,q1,remark\n0,"a, b",1,\n1,"c",2,"d, e"\n').q[:, 0], [1.0, 2.0])


def test_stamps_in_ns_count_from_the_first_and_lose_no_digit(tmp_path: Path) -> None:
    read = _one(tmp_path, "timestamp,q1\n1700000000000000001,0\n1700000000001000002,0\n")
    assert_array_equal(read.t, [0.0, 1_000_001 * 1e-9])


def test_parquet_time_stamps_are_read(tmp_path: Path) -> None:
    import polars as pl

    times = pl.Series("time", [1_700_000_000_000_001, 1_700_000_000_001_001], dtype=pl.Int64).cast(pl.Datetime("us"))
    pl.DataFrame([times, pl.Series("q1", [1.0, None])]).write_parquet(tmp_path / "x.parquet")
    log = read_log(tmp_path / "x.parquet", load_robot("one_link"))
    assert_array_equal(log.t, [0.0, 1_000_000 * 1e-9])
    assert_array_equal(log.q[:, 0], [1.0, np.nan])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("turned", [False, True])
def test_arrays_of_any_orientation_and_order(order: str, turned: bool, tmp_path: Path, panda: Robot) -> None:
    samples = random_samples(7, rows=50)
    q = np.array(samples.q.T if turned else samples.q, order="F" if order == "F" else "C")
    np.savez(tmp_path / "log.npz", times=samples.t[:, None], positions=q, target_positions=q + 1.0)
    log = read_log(tmp_path / "log.npz", panda)
    assert_array_equal(np.concatenate([piece.q for piece in log.chunks(13)]), samples.q)
    assert any("transposed" in note for note in log.notes) == turned


def test_records_of_hdf5_are_columns(tmp_path: Path, panda: Robot) -> None:
    import h5py  # type: ignore[import-untyped]

    samples = random_samples(7, rows=30)
    records = np.zeros(30, dtype=[("time", "f8"), ("q", "f8", (7,)), ("label", "S4")])
    records["time"], records["q"] = samples.t, samples.q
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["joint_states"] = records
    assert_array_equal(read_log(tmp_path / "log.h5", panda).q, samples.q)


def _peak(chunks: Iterator[Samples]) -> int:
    tracemalloc.start()
    for _ in chunks:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("turned", [False, True])
def test_npz_memory_does_not_grow_with_the_file(turned: bool, tmp_path: Path, panda: Robot) -> None:
    rows = 200_000
    q = np.zeros((7, rows) if turned else (rows, 7))
    np.savez_compressed(tmp_path / "log.npz", t=np.arange(rows) * 1e-3, q=q)
    log = read_log(tmp_path / "log.npz", panda)
    assert _peak(log.chunks(2000)) < q.nbytes / 5


def test_hdf5_memory_does_not_grow_with_the_file(tmp_path: Path, panda: Robot) -> None:
    import h5py

    rows = 200_000
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file.create_dataset("t", data=np.arange(rows) * 1e-3)
        file.create_dataset("q", data=np.zeros((rows, 7)), chunks=(1000, 7))
    assert _peak(read_log(tmp_path / "log.h5", panda).chunks(2000)) < 56 * rows / 5


def test_csv_reads_only_a_few_blocks_ahead(tmp_path: Path, panda: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    path = writers.write_csv(tmp_path / "log.csv", random_samples(7, rows=12_000))
    log = read_log(path, panda)
    taken: list[int] = []
    whole = text._blocks_of_whole_lines

    def counted(*arguments: object) -> Iterator[tuple[bytes, float]]:
        for block in whole(*arguments):  # type: ignore[arg-type]
            taken.append(len(block[0]))
            yield block

    monkeypatch.setattr(text, "_blocks_of_whole_lines", counted)
    chunks = log.chunks(1000)
    next(chunks)
    assert len(taken) <= 3
    assert len(list(chunks)) > 5
    assert len(taken) > 5


def test_importing_the_reader_imports_no_file_library() -> None:
    import subprocess
    import sys

    code = "import sys, dynid.logs.read; print([m for m in ('polars', 'h5py', 'rosbags', 'scipy') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=280
        ).stdout.strip()
        == "[]"
    )


def test_gzip_files_of_several_members_and_padding_are_whole(tmp_path: Path, panda: Robot) -> None:
    samples = random_samples(7, rows=3000)
    whole = writers.csv_text(writers.as_columns(samples)).encode()
    parts = [gzip.compress(whole[k : k + 100_001]) for k in range(0, len(whole), 100_001)]
    (tmp_path / "log.csv.gz").write_bytes(b"".join(parts) + bytes(1000))
    assert_array_equal(read_log(tmp_path / "log.csv.gz", panda).q, samples.q)


def test_a_gzip_bomb_is_inflated_piece_by_piece(tmp_path: Path, panda: Robot) -> None:
    lines = writers.csv_text(writers.as_columns(random_samples(7, rows=2000))).encode()
    header, _, rows = lines.partition(b"\n")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(header + b"\n" + rows) + gzip.compress(rows) * 60)
    log = read_log(tmp_path / "log.csv.gz", panda)
    assert _peak(log.chunks(1000)) < 60 * len(rows) / 4


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_stamps_since_1970_are_told_by_their_size(unit: str, tmp_path: Path) -> None:
    factor = {"ms": 10**3, "us": 10**6}[unit]
    stamps = [1_700_000_000 * factor + k * factor // 100 for k in range(5)]
    log = read_log(_text(tmp_path, "t,q1\n" + "".join(f"{t},1\n" for t in stamps)), load_robot("one_link"))
    np.testing.assert_allclose(log.t, 0.01 * np.arange(5), atol=1e-9)
    assert any(f"in {unit} since 1970" in note for note in log.notes)


def test_a_stamp_of_seconds_and_nanoseconds_is_one_time(tmp_path: Path) -> None:
    rows = ["1700000000,999999999,1", "1700000001,1,2", "1700000001,500000000,3"]
    text = "\n".join(["header.stamp.sec,header.stamp.nanosec,q1", *rows]) + "\n"
    t = read_log(_text(tmp_path, text), load_robot("one_link")).t
    np.testing.assert_allclose(t, [0.0, 2e-9, 0.500000001], rtol=1e-15, atol=0.0)
    t = read_log(_text(tmp_path, text + ",,4\n"), load_robot("one_link")).t
    np.testing.assert_allclose(t, [0.0, 0.0, 0.5, np.nan], atol=1e-6)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_lines_of_text_before_the_header_are_skipped(mark: str, tmp_path: Path) -> None:
    rows = [mark.join(row) for row in (("t", "q1", "x"), ("0", "1.5", "7"), ("1", "2.5", "7"))]
    text = "\n".join(["Recorder 5000", "Operator: Zoe", "", "notes, with, commas, here", *rows]) + "\n"
    np.testing.assert_array_equal(read_log(_text(tmp_path, text), load_robot("one_link")).q[:, 0], [1.5, 2.5])


@pytest.mark.parametrize("value", ["1e30", "-1.7976931348623157e308", "1e13"])
def test_numbers_that_no_sensor_gives_are_missing(value: str, tmp_path: Path) -> None:
    log = read_log(_text(tmp_path, f"t,q1,tau1\n0,1,2\n1,{value},2\n2,1,{value}\n"), load_robot("one_link"))
    assert log.tau is not None
    assert np.isnan(log.q[:, 0]).tolist() == [False, True, False]
    assert np.isnan(log.tau[:, 0]).tolist() == [False, False, True]


def _text(tmp_path: Path, text: str) -> Path:
    (tmp_path / "log.csv").write_text(text)
    return tmp_path / "log.csv"
