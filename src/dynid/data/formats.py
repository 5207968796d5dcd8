"""The format of a log file, by its suffix, and what its first bytes say where the two disagree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dynid.data.table import Table
from dynid.errors import LogError
from dynid.robot.files import near

TEXT = (".csv", ".txt", ".tsv")
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a zip archive such as NPZ"),
    (b"PAR1", "Parquet"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"SQLite format 3\x00", "a rosbag2 database (.db3)"),
    (b"\x89MCAP0\r\n", "MCAP"),
    (b"MATLAB", "MAT"),
)
FORMATS = "CSV (.csv .txt .tsv, also .gz), .parquet, .npz, .mat, .h5 .hdf5, .db3, .mcap, or the folder of a rosbag2"


def content_hint(path: Path) -> str:
    """Return '; its content looks like ...' where the first bytes of a file are those of a known format."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return ""
    if not head:
        return "; the file is empty"
    return next((f"; its content looks like {kind}" for magic, kind in _MAGIC if head.startswith(magic)), "")


def _openers() -> dict[str, Callable[[Path], Table]]:
    from dynid.data.hdf5 import open_hdf5
    from dynid.data.mat import open_mat
    from dynid.data.npz import open_npz
    from dynid.data.parquet import open_parquet
    from dynid.data.text import open_text

    return {
        **dict.fromkeys((*TEXT, ".gz"), open_text),
        **dict.fromkeys((".parquet", ".pq"), open_parquet),
        ".npz": open_npz,
        ".mat": open_mat,
        **dict.fromkeys((".h5", ".hdf5"), open_hdf5),
    }


def open_table(path: Path, topic: str | None = None) -> Table:
    """Open a log file for reading, after a look at its name only."""
    from dynid.data.rosbag import open_bag

    name = str(path)
    try:
        is_folder = path.is_dir()
        if not is_folder and not path.is_file():
            raise LogError(name, "this is not a file" if path.exists() else f"there is no such file{near(path)}")
        if is_folder:
            if not (path / "metadata.yaml").is_file():
                raise LogError(name, "this folder is no rosbag2: there is no metadata.yaml in it; name a file")
        else:
            with path.open("rb"):
                pass
    except OSError as error:
        raise LogError(name, f"cannot be opened: {error.strerror or error}") from error
    suffix = path.suffix.lower()
    if is_folder or suffix in (".db3", ".mcap"):
        return open_bag(path, topic)
    if topic is not None:
        raise LogError(name, "topic= is for bags only; pick columns with columns=")
    inner = Path(path.stem).suffix.lower()
    openers = _openers()
    if suffix not in openers or (suffix == ".gz" and inner not in ("", *TEXT)):
        raise LogError(
            name, f"the suffix '{inner + suffix if suffix == '.gz' else suffix}' is no known format; use {FORMATS}"
        )
    return openers[suffix](path)
