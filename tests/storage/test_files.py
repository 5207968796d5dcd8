"""Outputs: nothing is half written, and what is no regular file stays what it is."""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
import threading
from pathlib import Path

import pytest

from command_line import make_full_device
from dynid.errors import DynidError
from dynid.storage import files
from dynid.storage.files import find_descriptor, write_text, write_then_replace


def alone(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_link_stays_and_its_target_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    target, link, chain = tmp_path / "in" / "target.json", tmp_path / "link.json", tmp_path / "chain.json"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(Path("in") / "target.json")
    chain.symlink_to(link)
    before = target.stat().st_ino
    write_text(chain, "new")
    assert target.read_text() == "new"
    assert (link.is_symlink(), chain.is_symlink()) == (True, True)
    assert target.stat().st_ino != before  # in one step, not written over
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert alone(target.parent) == {"target.json"}


def test_a_dangling_link_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "made.json")
    write_text(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "made.json").read_text() == "x"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text, read = "x" * 300_000, []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, text)
    reader.join(20)
    assert read == [text]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert alone(tmp_path) == {"pipe"}


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def read_some() -> None:
        with pipe.open("rb", buffering=0) as file:
            file.read(10)

    reader = threading.Thread(target=read_some, daemon=True)
    reader.start()
    write_text(pipe, "x" * 3_000_000)
    reader.join(20)


def test_a_pipe_that_nobody_reads_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.2)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DynidError, match="nobody has read from this pipe"):
        write_text(tmp_path / "pipe", "x")


def test_a_terminal_is_written_to() -> None:
    ours, theirs = os.openpty()
    name = Path(os.ttyname(theirs))
    write_text(name, "hello\n")
    assert b"hello" in os.read(ours, 100)
    assert stat.S_ISCHR(name.lstat().st_mode)
    os.close(ours)
    os.close(theirs)


def test_a_descriptor_is_written_to_where_it_stands(tmp_path: Path) -> None:
    """`--json /dev/fd/3 3>> file` adds to the file."""
    file = tmp_path / "log.txt"
    with file.open("w") as open_file:
        open_file.write("before\n")
        open_file.flush()
        for name in (Path(f"/dev/fd/{open_file.fileno()}"), Path(f"/proc/self/fd/{open_file.fileno()}")):
            assert find_descriptor(name) == open_file.fileno()
            write_text(name, "after\n")
    assert file.read_text() == "before\nafter\nafter\n"
    assert find_descriptor(Path("/dev/stdout")) == 1
    assert find_descriptor(file) is None


def test_other_names_of_a_file_keep_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    write_text(tmp_path / "a", "new")
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("new", "old")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_read_only(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o444)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Path.mkdir, "this is a folder"),
        (make_socket, "this is a socket"),
        (lambda path: path.symlink_to(path), "Too many levels"),
        (make_read_only, "read-only"),
    ],
)
def test_what_cannot_be_written_stays(make: object, words: str, tmp_path: Path) -> None:
    place = tmp_path / "x"
    make(place)  # type: ignore[operator]
    before = place.lstat()
    with pytest.raises(DynidError, match=words):
        write_text(place, "new")
    assert os.path.samestat(before, place.lstat())
    assert alone(tmp_path) == {"x"}


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "x.json"
    place.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # files end here, as on a full disk
    try:
        with pytest.raises(DynidError, match=r"cannot write .*x.json: File too large"):
            write_text(place, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert place.read_text() == "old"
    assert alone(tmp_path) == {"x.json"}
    full = make_full_device(tmp_path / "full")
    with pytest.raises(DynidError, match="No space left"):
        write_text(full, "x")


def test_the_longest_names_are_written(tmp_path: Path) -> None:
    for name in ("x" * 250 + ".json", "x." + "y" * 250):
        write_text(tmp_path / name, "x")
    with pytest.raises(DynidError, match="No such file"), write_then_replace(tmp_path / "z.csv") as beside:
        beside.with_name("nowhere").unlink()
    assert len(alone(tmp_path)) == 2


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Only files of processes of this machine that are gone: those of living ones, and of strangers, stay."""
    child = os.fork()
    if child == 0:
        with write_then_replace(tmp_path / "result.json") as beside:
            beside.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = alone(tmp_path)
    assert left.startswith(".result.json.dynid-")
    living = left.replace(f"-{child}-", f"-{os.getpid()}-")
    elsewhere = left.replace(files._host_mark(), "0" * 8)
    for name in (living, elsewhere, ".result.json.0123abcd.json"):
        (tmp_path / name).touch()
    write_text(tmp_path / "other.json", "x")
    assert alone(tmp_path) == {"other.json", living, elsewhere, ".result.json.0123abcd.json"}
