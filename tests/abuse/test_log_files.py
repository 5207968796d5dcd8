from __future__ import annotations

import gzip
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dynid.errors import LogError
from dynid.logs.read import read_log
from dynid.robot.load import load_robot
from log_writers import WRITERS, bag_messages, random_samples, write_bag

ONE = load_robot("one_link")
PANDA = load_robot("panda")
SUFFIXES = ("csv", "csv.gz", "txt", "parquet", "npz", "mat", "h5", "db3", "mcap")


def message(path: Path, robot: object = ONE, **options: object) -> str:
    """What a user reads: one line that begins with the file."""
    with pytest.raises(LogError) as caught:
        for _ in read_log(path, robot, **options).chunks(1000):  # type: ignore[arg-type]
            pass
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    assert len(text) < 700
    return text


def outcome(path: Path) -> str:
    """The message of a file that may or may not be readable; anything but a LogError fails the test."""
    try:
        for _ in read_log(path, PANDA).chunks(50):
            pass
    except LogError as error:
        return str(error)
    return ""


def text_file(tmp_path: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the file is empty"),
        ("\n\n", "no header and no sample"),
        ("# only a comment\n", "no header and no sample"),
        ("t,q1\n", "no samples in it"),
        ("t,q1", "no samples in it"),
        ("0,1\n1,2\n", "first line is all numbers.*name them with header=.*or number them with columns="),
        ("t,q1\n0,1\n1,abc\n", "line 3, column 'q1': 'abc' is not a number"),
        ("# x\nt,q1\n\n0,1\n# y\n1,1_000\n", "line 6, column 'q1': '1_000' is not a number"),
        ("t,q1\n0,1\n1,1d3\n", "line 3, column 'q1': '1d3' is not a number"),
        ("t,q1\n0,1\n12:30,2\n", "line 3, column 't': '12:30' is not a number"),
        ("t,q1\n0,1\n1,1 000\n", "line 3, column 'q1': '1 000' is not a number"),
        ("t,q1\n0,1\n1,0x10\n", "line 3, column 'q1': '0x10'"),
        ("t,q1\n0,1\n1," + "x" * 5000 + "\n", "line 3, column 'q1': 'xxxx.*\\.\\.\\.' is not"),
        ("t,q1\n0,1\n1\n2,3\n", "line 3 has 1 cells, the header has 2 columns"),
        ("t,q1\n0,1\n1,2,3\n", "line 3 has 3 cells, the header has 2 columns"),
        ("t,q1\n0,1,9\n", "line 2 has 3 cells, the header has 2"),
        ("t;q1\n0;1\n1\n", "line 3 has 1 cells"),
        ("t q1\n0 1\n1 2 3\n", "line 3 has 3 cells"),
        ("t,q1,rest\n0,1,a\n1,2\n", "line 3 has 2 cells"),
        ("t,q1,q1\n0,1,2\n", "names the column 'q1' twice"),
        ("t,x\n0,1\n", "no positions for the joints 1; found 't', 'x'"),
        (b"t,q1\n0,1\n\x00\x01\x02,3\n", "binary data"),
        (bytes(range(1, 256)) * 50, "not text"),
        ("t,q1\n0,1\n".encode("utf-16"), "in UTF-16; save it as UTF-8"),
        ("t,q1\n0", "no samples in it"),
        ("t,q1\n0,0,1,5\n0,1,1,6\n", "line 2 has 4 cells.*decimal commas need another mark"),
        ("t,q1\ns,turns\n0,1\n", "the column 'q1' is in turns, which is not a unit of q"),
        ("t,q1\n2024-05-01,1\n", "is not a number; write times as seconds"),
        ("t,q1\n" + "12:00:00.1,1\n" * 9 + "12:00:0x,1\n" * 5, "line 11, column 't': '12:00:0x'"),
        (b"x" * (2 << 20), "no line end in the first megabyte"),
        (b"t,q1\n0,1\n" + b"1" * (4 << 20), "longer than a megabyte"),
    ],
)
def test_a_broken_text_file_is_named_with_its_line(content: str | bytes, problem: str, tmp_path: Path) -> None:
    import re

    for name in ("log.csv", "log.csv.gz"):
        data = content if isinstance(content, bytes) else content.encode()
        path = text_file(tmp_path, gzip.compress(data) if name.endswith("gz") else data, name)
        assert re.search(problem, message(path)), message(path)


def test_the_line_of_a_fault_is_right_far_into_a_file(tmp_path: Path) -> None:
    lines = ["t,q1", *(f"{k},0.123456789" for k in range(300_000))]
    lines[250_000] = "1,oops"
    assert "line 250001, column 'q1': 'oops'" in message(text_file(tmp_path, "\n".join(lines)))


def test_no_such_file_folders_and_unknown_suffixes(tmp_path: Path) -> None:
    assert "no such file" in message(tmp_path / "none.csv")
    assert "Excel workbook; save the sheet as CSV" in message(text_file(tmp_path, "t,q1\n", "log.xlsx"))
    assert "not a rosbag2: there is no metadata.yaml" in message(tmp_path)
    for name in ("log", "log.pkl", "log.json.gz"):
        assert "is not a known format; use CSV" in message(text_file(tmp_path, "t,q1\n", name))
    (tmp_path / "pipe.csv").symlink_to(tmp_path / "nowhere")
    assert "no such file" in message(tmp_path / "pipe.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = text_file(tmp_path, "t,q1\n0,1\n")
    path.chmod(0)
    assert "cannot be opened: Permission denied" in message(path)


def test_permission_denied_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text_file(tmp_path, "t,q1\n0,1\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be opened: Permission denied" in message(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", ["empty", "noise", "text"])
def test_garbage_under_every_suffix(suffix: str, content: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(3).integers(0, 256, 5000, dtype=np.uint8).tobytes()
    data = {"empty": b"", "noise": noise, "text": b"lorem ipsum\ndolor sit\n"}[content]
    message(text_file(tmp_path, data, f"log.{suffix}"))


@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != "txt"])
@pytest.mark.parametrize("kind", WRITERS)
def test_content_under_a_wrong_suffix(kind: str, suffix: str, tmp_path: Path) -> None:
    written = WRITERS[kind](tmp_path / kind, random_samples(7, rows=50))
    wrong = tmp_path / f"wrong.{suffix}"
    written.rename(wrong)
    try:
        read_log(wrong, PANDA)
    except LogError:
        message(wrong, PANDA)


def test_a_wrong_suffix_is_told_by_the_content(tmp_path: Path) -> None:
    path = WRITERS["log.parquet"](tmp_path / "log.csv", random_samples(7, rows=50))
    assert "its content looks like Parquet" in message(path, PANDA)
    path = WRITERS["log.csv.gz"](tmp_path / "log.csv", random_samples(7, rows=50))
    assert "its content looks like gzip" in message(path, PANDA)


@pytest.mark.parametrize("kind", ["log.csv.gz", "log.parquet", "log.npz", "log.mat", "v73.mat", "log.h5"])
def test_files_cut_off_anywhere(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path / kind, random_samples(7, rows=400))
    whole = path.read_bytes()
    for part in (0.01, 0.3, 0.7, 0.95):
        path.write_bytes(whole[: int(part * len(whole))])
        message(path, PANDA)


@pytest.mark.parametrize("kind", ["log.csv.gz", "log.parquet", "log.npz", "log.mat", "log.h5"])
def test_flipped_bytes_never_raise_anything_else(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path / kind, random_samples(7, rows=100))
    whole = bytearray(path.read_bytes())
    rng = np.random.default_rng(5)
    for _ in range(40):
        broken = whole.copy()
        for place in rng.integers(0, len(whole), 8):
            broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        assert "\n" not in outcome(path)


@pytest.mark.parametrize("storage", ["sqlite3", "mcap"])
def test_bags_cut_off_or_with_flipped_bytes(storage: str, tmp_path: Path) -> None:
    pytest.importorskip("rosbags.rosbag2")
    names = [f"joint{j}" for j in range(1, 8)]
    folder = write_bag(tmp_path / "bag", bag_messages(random_samples(7, rows=200), names), storage)
    path = next(folder.glob("*.mcap" if storage == "mcap" else "*.db3"))
    whole = path.read_bytes()
    rng = np.random.default_rng(7)
    for k in range(20):
        broken = bytearray(whole[: len(whole) // 2] if k == 0 else whole)
        for place in rng.integers(0, len(broken), 0 if k == 0 else 12):
            broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        for source in (path, folder):
            assert "\n" not in outcome(source)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.savez(tmp_path / "log.npz", t=np.arange(3.0), q=np.array([Trap(), 1, 2], dtype=object))
    assert "no positions" in message(tmp_path / "log.npz")
    assert "Python objects, which are never loaded" in message(tmp_path / "log.npz", columns={"q": "q"})
    assert not (tmp_path / "sprung").exists()


def test_an_npz_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, t=np.arange(3.0), q=np.arange(3.0))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data.replace(b"(3,), }           ", b"(300000000,), }   "))
    assert "shorter than its header says" in message(path)


def test_arrays_of_other_lengths_than_the_time(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", t=np.arange(5.0), q=np.zeros((4, 7)))
    assert r"'q' has shape (4, 7), the time has 5 samples" in message(tmp_path / "log.npz", PANDA)
    np.savez(tmp_path / "one.npz", t=np.arange(5.0), q1=np.zeros(4))
    assert "'q1' has shape (4,), the time has 5 samples" in message(tmp_path / "one.npz")
    np.savez(tmp_path / "none.npz", t=np.zeros(0), q=np.zeros(0))
    assert "no samples in it" in message(tmp_path / "none.npz")


def test_hdf5_does_not_lead_out_of_its_file(tmp_path: Path) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["q1"] = np.arange(3.0)
    (tmp_path / "raw.bin").write_bytes(np.arange(3.0).tobytes())
    with h5py.File(tmp_path / "log.h5", "w") as file:
        file["t"] = np.arange(3.0)
        file["q1"] = h5py.ExternalLink("other.h5", "q1")
        file.create_dataset("x", (3,), "f8", external=[(str(tmp_path / "raw.bin"), 0, 24)])
        layout = h5py.VirtualLayout((3,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "q1", (3,))
        file.create_virtual_dataset("y", layout)
    assert "no positions" in message(tmp_path / "log.h5")
    for name in ("x", "y"):
        assert "lies in another file" in message(tmp_path / "log.h5", columns={"q": name})


def test_missing_extras_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("h5py", "rosbags")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("h5py", "rosbags", "rosbags.rosbag2"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install h5py" in message(text_file(tmp_path, "x", "log.h5"))
    assert "pip install rosbags" in message(text_file(tmp_path, "x", "log.db3"))


def test_a_topic_is_for_bags(tmp_path: Path) -> None:
    assert "topic= is for bags" in message(text_file(tmp_path, "t,q1\n0,1\n"), topic="/js")


def test_a_bag_under_a_name_that_sqlite_would_misread(tmp_path: Path) -> None:
    assert "must not contain" in message(text_file(tmp_path, "x", "log?mode=rw.db3"))


def test_a_file_that_disappears_after_opening(tmp_path: Path) -> None:
    path = text_file(tmp_path, "t,q1\n0,1\n")
    log = read_log(path, ONE)
    path.unlink()
    with pytest.raises(LogError, match="cannot be opened: No such file"):
        list(log.chunks())
