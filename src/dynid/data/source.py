"""Samples out of a file: a table, where its channels are, and what brings them to SI on the joint side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.data.columns import Plan
from dynid.data.log import CHANNELS, Samples
from dynid.data.mapping import Place
from dynid.data.table import Batch, Numbers, Table
from dynid.data.transmission import Transmission
from dynid.data.units import split_unit
from dynid.errors import LogError
from dynid.robot.transform import Array

# Units of a stamp since 1970 and sizes from which on it is in them: 1973 in ms, us and ns. In the next larger unit it
# would be thousands of years later.
EPOCHS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11))
PROBE = 64
"""Rows that tell the unit of time and where it begins."""

# No position, velocity, torque or force of a robot is as large: such numbers stand for missing ones (1e30, DBL_MAX).
LARGEST = 1e12


Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of the last change (ns) of the files of a log: another stamp, another content."""


def find_stamp(path: Path) -> Stamp:
    """Look at a file, or those in the folder of a bag; nothing where there is none."""
    try:
        inside = (".yaml", ".db3", ".mcap")
        files = [path] if not path.is_dir() else sorted(file for file in path.iterdir() if file.suffix in inside)
        looks = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, look.st_ino, look.st_size, look.st_mtime_ns) for name, look in looks)


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Factors to SI: of the time, and per joint of each channel; `first` is the stamp from which time counts."""

    t: float
    channels: Mapping[str, Array | None]
    first: int | float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """A log file that is read again, batch by batch, whenever its samples are asked for."""

    table: Table
    plan: Plan
    scale: Scale
    transmission: Transmission
    stamp: Stamp = ()

    def check_unchanged(self) -> None:
        """Raise where the file is another one than was opened: nothing may be said of a mixture."""
        now = find_stamp(Path(self.name))
        if now != self.stamp:
            changed = "the file has changed since it was opened; read it again once it is complete"
            raise LogError(self.name, changed if now else "cannot be opened: No such file or directory any more")

    @property
    def name(self) -> str:
        """The file."""
        return self.table.name

    @property
    def channels(self) -> frozenset[str]:
        """Which of v, a, tau, reaction there are."""
        return frozenset(name for name in CHANNELS if name in self.plan.channels)

    @property
    def unused(self) -> tuple[str, ...]:
        """What else is in the file, with the reason where it holds no numbers."""
        used = {field.name for field in self.plan.wanted}
        return tuple(
            f"'{field.name}'" + (f" ({field.problem})" if field.problem else "")
            for field in self.table.fields
            if field.name not in used
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the reader could not use, as far as the file was read."""
        return tuple(getattr(self.table, "left_out", ()))

    @property
    def lines(self) -> Callable[[Sequence[int]], str] | None:
        """What says where rows are in a file of text."""
        return getattr(self.table, "lines", None)

    def chunks(self, rows: int) -> Iterator[Samples]:
        """Read the file from its beginning, at most `rows` samples at a time; it must stay as it is meanwhile."""
        self.check_unchanged()
        try:
            for batch in self.table.batches(self.plan.wanted, rows):
                t = _times(_stamps(batch, self.plan), self.scale.t, self.scale.first)
                yield Samples(t, *(self._channel(batch, name) for name in ("q", *CHANNELS)))  # type: ignore[arg-type]
        except LogError:
            self.check_unchanged()
            raise
        self.check_unchanged()

    def _channel(self, batch: Batch, name: str) -> Array | None:
        places = self.plan.channels.get(name)
        if places is None:
            return None
        block = _block(batch, places)
        factors = self.scale.channels.get(name)
        if factors is not None:
            block *= factors
        block[np.abs(block) > LARGEST] = np.nan
        if name == "tau":
            return self.transmission.torque(block)
        return block if name == "reaction" else self.transmission.motion(block)


def _stamps(batch: Batch, plan: Plan) -> Numbers:
    """Stamps of the samples; where seconds and nanoseconds are two columns, whole ns."""
    t = _column(batch, plan.t)
    if plan.nanoseconds is None:
        return t
    seconds, fine = np.asarray(t, dtype=np.float64), np.asarray(batch[plan.nanoseconds], dtype=np.float64)
    if not (np.abs(seconds) + np.abs(fine) < 1e9 * LARGEST).all() or np.abs(seconds).max(initial=0.0) > 9e9:
        with np.errstate(over="ignore"):
            return np.asarray(1e9 * seconds + fine)  # rounded to 0.3 us, but what is missing stays missing
    return np.asarray(seconds.astype(np.int64) * 10**9 + fine.astype(np.int64))


def _column(batch: Batch, place: Place) -> Numbers:
    values = batch[place.field]
    return values if place.column is None else values[:, place.column]


def _block(batch: Batch, places: tuple[Place, ...]) -> Array:
    """Return the columns side by side as a fresh (rows, n) array; infinite values are NaN."""
    whole = batch[places[0].field]
    if whole.ndim == 2 and places == tuple(Place(places[0].field, k) for k in range(whole.shape[1])):
        block = np.array(whole, dtype=np.float64, order="C")
    else:
        block = np.empty((len(whole), len(places)))
        for k, place in enumerate(places):
            block[:, k] = _column(batch, place)
    return _finite_or_nan(block)


def _finite_or_nan(values: Array) -> Array:
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious:
        values[np.isinf(values)] = np.nan
    return values


def _times(stamps: Numbers, factor: float, first: int | float | None) -> Array:
    """Return stamps in s; integers are taken from the first one before they become floating."""
    if first is not None:
        stamps = (_integers(stamps) if stamps.dtype.kind in "iub" else stamps.astype(np.float64)) - first
    t = _finite_or_nan(np.array(stamps, dtype=np.float64))
    if factor != 1.0:
        t *= factor
    return t


def _integers(stamps: Numbers) -> Numbers:
    """Integers with a sign, or floating numbers where these are too small for them."""
    if stamps.dtype.kind == "u" and stamps.max(initial=0) > np.iinfo(np.int64).max:
        return stamps.astype(np.float64)
    return stamps.astype(np.int64)


def find_time_unit(table: Table, plan: Plan, asked: str | None) -> tuple[str, int | float | None, tuple[str, ...]]:
    """Return the unit of time, the stamp to count from (None: 0), and notes: asked for, in the header, or by size.

    The first rows decide, not the first alone, which may be unset or wrong. Raises where there is not one sample.
    """
    batch = next((batch for batch in table.batches(plan.wanted, PROBE) if len(_column(batch, plan.t))), None)
    if batch is None:
        raise LogError(table.name, "there are no samples in it")
    first = _first(_stamps(batch, plan))
    if plan.nanoseconds is not None:
        return "ns", first, ()
    size = abs(float(first))
    notes: tuple[str, ...] = ()
    unit = asked or plan.t_unit
    if asked is None and split_unit(plan.t.field)[1] not in (None, "s"):
        notes = (f"the time '{plan.t.field}' is in {plan.t_unit}",)
    if unit is None:
        unit = next((word for word, least in EPOCHS if size > least), "s")
        if unit != "s":
            notes = (f"the time '{plan.t.field}' is in {unit} since 1970, by its size; t counts from the first sample",)
    return unit, first if unit != "s" and size > EPOCHS[-1][1] else None, notes


def _first(stamps: Numbers) -> int | float:
    """The first of some stamps that lies among the others; 0 where there is no finite one."""
    known = _integers(stamps) if stamps.dtype.kind in "iub" else stamps.astype(np.float64)
    known = known[np.abs(known) < 1e300] if known.dtype.kind == "f" else known
    if not len(known):
        return 0
    away = np.abs(known - np.sort(known)[len(known) // 2].item()).astype(np.float64)
    return known[int(np.argmax(away <= 100.0 * np.median(away)))].item()  # type: ignore[no-any-return]
