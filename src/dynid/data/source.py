"""Samples out of a file: a table, where its channels are, and what brings them to SI on the joint side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
# No position, velocity, torque or force of a robot is as large: such numbers stand for missing ones (1e30, DBL_MAX).
LARGEST = 1e12


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Factors to SI: of the time, and per joint of each channel; `from_first` subtracts the first stamp."""

    t: float
    channels: Mapping[str, Array | None]
    from_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """A log file that is read again, batch by batch, whenever its samples are asked for."""

    table: Table
    plan: Plan
    scale: Scale
    transmission: Transmission

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

    def chunks(self, rows: int) -> Iterator[Samples]:
        """Read the file from its beginning, at most `rows` samples at a time."""
        first: int | float | None = None
        for batch in self.table.batches(self.plan.wanted, rows):
            stamps = _stamps(batch, self.plan)
            if self.scale.from_first and first is None and len(stamps):
                first = stamps[0].item()
            t = _times(stamps, self.scale.t, first)
            yield Samples(t, *(self._channel(batch, name) for name in ("q", *CHANNELS)))  # type: ignore[arg-type]

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
    if not np.isfinite(seconds + fine).all():
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
        stamps = (stamps.astype(np.int64) if stamps.dtype.kind in "iu" else stamps) - first
    t = _finite_or_nan(np.array(stamps, dtype=np.float64))
    if factor != 1.0:
        t *= factor
    return t


def find_time_unit(table: Table, plan: Plan, asked: str | None) -> tuple[str, bool, tuple[str, ...]]:
    """Return the unit of time, whether to count from the first stamp, and notes: asked for, in the header, or by size.

    Raises where there is not one sample.
    """
    first = next(iter(table.batches(plan.wanted, 1)), None)
    if first is None or not len(_column(first, plan.t)):
        raise LogError(table.name, "there are no samples in it")
    if plan.nanoseconds is not None:
        return "ns", True, ()
    stamp = _column(first, plan.t)[0]
    size = abs(float(stamp)) if np.isfinite(stamp) else 0.0
    notes: tuple[str, ...] = ()
    unit = asked or plan.t_unit
    if asked is None and split_unit(plan.t.field)[1] not in (None, "s"):
        notes = (f"the time '{plan.t.field}' is in {plan.t_unit}",)
    if unit is None:
        unit = next((word for word, least in EPOCHS if size > least), "s")
        if unit != "s":
            notes = (f"the time '{plan.t.field}' is in {unit} since 1970, by its size; t counts from the first sample",)
    return unit, unit != "s" and size > EPOCHS[-1][1], notes
