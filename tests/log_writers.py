"""The same samples written in every format that `read_log` reads."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from dynid.logs.log import Samples
from dynid.robot.transform import Array

CHANNELS = ("q", "v", "a", "tau")


def random_samples(n: int, rows: int = 500, seed: int = 1) -> Samples:
    rng = np.random.default_rng(seed)
    t: Array = np.arange(rows, dtype=np.float64) * 1e-3
    return Samples(t, *(rng.standard_normal((rows, n)) for _ in CHANNELS))


def channel(samples: Samples, name: str) -> Array:
    value = getattr(samples, name)
    assert isinstance(value, np.ndarray)
    return value


def as_columns(samples: Samples) -> dict[str, Array]:
    columns = {"t": samples.t}
    for name in CHANNELS:
        columns |= {f"{name}{j + 1}": column for j, column in enumerate(channel(samples, name).T)}
    return columns


def as_arrays(samples: Samples) -> dict[str, Array]:
    return {"t": samples.t, **{name: channel(samples, name) for name in CHANNELS}}


def csv_text(columns: dict[str, Array], delimiter: str = ",") -> str:
    lines = [delimiter.join(columns)]
    lines += [delimiter.join(repr(float(cell)) for cell in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def write_csv(path: Path, samples: Samples) -> Path:
    path.write_text(csv_text(as_columns(samples)))
    return path


def write_gz(path: Path, samples: Samples) -> Path:
    path.write_bytes(gzip.compress(csv_text(as_columns(samples)).encode()))
    return path


def write_parquet(path: Path, samples: Samples) -> Path:
    import polars as pl

    pl.DataFrame(as_columns(samples)).write_parquet(path, row_group_size=128)
    return path


def write_npz(path: Path, samples: Samples) -> Path:
    np.savez_compressed(path, **as_arrays(samples))  # type: ignore[arg-type]
    return path


def write_mat(path: Path, samples: Samples) -> Path:
    from scipy.io import savemat

    savemat(path, {"log": as_arrays(samples)})
    return path


def write_hdf5(path: Path, samples: Samples) -> Path:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        for name, array in as_arrays(samples).items():
            file.create_dataset(f"log/{name}", data=array, chunks=True, compression="gzip")
    return path


def write_mat73(path: Path, samples: Samples) -> Path:
    """MATLAB keeps its columns first: arrays lie transposed in the file, after a block of 512 bytes."""
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in as_arrays(samples).items():
            file["rec/" + name] = np.atleast_2d(array.T)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    return path


Message = tuple[str, int, Any]


def type_store(**definitions: str) -> Any:
    """The usual types of messages, and others by their definitions, called `package__Name`."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.LATEST)
    for name, text in definitions.items():
        store.register(get_types_from_msg(text, name.replace("__", "/msg/")))
    return store


def write_bag(path: Path, messages: Sequence[Message], storage: str = "sqlite3", store: Any = None) -> Path:
    """Write (topic, time of recording in ns, message) to a rosbag2 folder; store: types of the messages."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    store = store or type_store()
    plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        connections: dict[str, Any] = {}
        for topic, recorded, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], recorded, store.serialize_cdr(message, kind))
    return path


def forget_definitions(bag: Path) -> Path:
    """Take the definitions of messages out of a bag, which older releases do not write."""
    import sqlite3

    with closing(sqlite3.connect(next(bag.glob("*.db3")))) as database, database:
        database.execute("DELETE FROM message_definitions")
    return bag


def header(stamp: int) -> Any:
    from rosbags.typesys.stores.latest import builtin_interfaces__msg__Time as Time
    from rosbags.typesys.stores.latest import std_msgs__msg__Header as Header

    return Header(Time(*divmod(stamp, 1_000_000_000)), "")


def joint_state(stamp: int, names: Sequence[str], q: Any, v: Any = (), tau: Any = ()) -> Any:
    from rosbags.typesys.stores.latest import sensor_msgs__msg__JointState as JointState

    return JointState(header(stamp), list(names), *(np.array(x, dtype=np.float64) for x in (q, v, tau)))


def wrench(stamp: int, values: Sequence[float]) -> Any:
    from rosbags.typesys.stores.latest import geometry_msgs__msg__Vector3 as Vector3
    from rosbags.typesys.stores.latest import geometry_msgs__msg__Wrench as Wrench
    from rosbags.typesys.stores.latest import geometry_msgs__msg__WrenchStamped as WrenchStamped

    return WrenchStamped(header(stamp), Wrench(Vector3(*values[:3]), Vector3(*values[3:])))


def bag_messages(samples: Samples, names: Sequence[str], epoch: int = 0) -> list[Message]:
    stamps = [epoch + round(t * 1e9) for t in samples.t]
    rows = zip(stamps, channel(samples, "q"), channel(samples, "v"), channel(samples, "tau"), strict=True)
    return [("/joint_states", stamp + 5_000, joint_state(stamp, names, q, v, tau)) for stamp, q, v, tau in rows]


WRITERS: dict[str, Callable[[Path, Samples], Path]] = {
    "log.csv": write_csv,
    "log.TXT": write_csv,
    "log.csv.gz": write_gz,
    "log.parquet": write_parquet,
    "log.npz": write_npz,
    "log.mat": write_mat,
    "v73.mat": write_mat73,
    "log.h5": write_hdf5,
    "log.HDF5": write_hdf5,
}
