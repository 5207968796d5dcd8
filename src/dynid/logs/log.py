"""A recording of a robot: raw samples in SI units, in memory or read from a file chunk by chunk."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import NEEDS_SPAWN, cached_property, is_polars_without_threads
from dynid.deprecated import accept_old_names
from dynid.errors import DynidError, LogError
from dynid.logs.stray_times import times_of_recording
from dynid.messages import Message, Option, html_summary, printable
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Reading ahead: the next chunks are read by a thread while the last ones are worked on.


T = TypeVar("T")
CHUNKS = 4


def prefetch(items: Iterator[T], most: int = CHUNKS) -> Iterator[T]:
    """Yield items in order while a thread reads ahead, at most `most` of them; errors arrive in their place."""
    waiting: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(most)
    enough = threading.Event()

    def read_ahead() -> None:
        """Read items into the queue, in a thread of its own."""
        try:
            for item in items:
                waiting.put(("item", item))
                if enough.is_set():
                    return
            waiting.put(("end", None))
        except BaseException as error:  # handed over, not lost
            waiting.put(("error", error))

    threading.Thread(target=read_ahead, name="dynid reads ahead", daemon=True).start()
    try:
        while True:
            kind, item = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                assert isinstance(item, BaseException)
                raise item
            yield item  # type: ignore[misc]
    finally:
        enough.set()
        while not waiting.empty():  # a reader that waits for room goes on, sees that it is enough, and ends
            waiting.get_nowait()


CHANNELS = ("v", "a", "tau", "reaction")
_PLATE = ("fx", "fy", "fz", "mx", "my", "mz")
_UNITS = {
    "t": "s", "q": "rad, m", "v": "rad/s, m/s", "a": "rad/s^2, m/s^2", "tau": "N m, N", "reaction": "N, N m",
}  # fmt: skip
"""Units of the channels, the second one of sliding joints."""
_LARGE = 1 << 26
"""Bytes of a file from which on it is not read to be described."""
CHUNK = 16_384
AFTER = 10.0
SMALL = 131_072
"""Rows of a file that are kept in memory once they have been read."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Consecutive samples as recorded: t (N,) in s; q, v, a, tau (N, n), reaction (N, channels), None where missing.

    Nothing is repaired here: times may jitter, repeat or run backwards, values may be NaN. done: the share of the
    recording that has been read with them, by the bytes of its file; NaN where it is not known.
    """

    t: Array
    q: Array
    v: Array | None = None
    a: Array | None = None
    tau: Array | None = None
    reaction: Array | None = None
    done: float = field(default=np.nan, kw_only=True)

    def __len__(self) -> int:
        return len(self.t)

    def select_rows(self, part: slice | NDArray[np.int64]) -> Samples:
        """Return some of the samples, by slice, indices or mask."""
        return Samples(
            self.t[part],
            self.q[part],
            *(None if x is None else x[part] for x in (self.v, self.a, self.tau, self.reaction)),
        )


Order = NDArray[np.int64]
AS_RECORDED: Any = ()
"""A correction that is not made."""


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """Corrections of mistakes in the wiring of a log: columns are reordered, then signs, then zeros are applied.

    What is missing is as recorded: `Wiring()` changes nothing, whatever the number n of joints. For a log that is read
    with a gear, orders and signs are those of the recorded motor signals, zeros those of the joints.

    Parameters
    ----------
    order_q : (n,) array of int
        Column of q, v and a that each joint takes, counted from 0.
    order_tau : (n,) array of int
        The same for tau.
    sign_q : (n,) array
        1 or -1 per joint.
    sign_v : (n,) array
        The same for v. Default: that of q.
    sign_a : (n,) array
        The same for a. Default: that of q.
    sign_tau : (n,) array
        The same for tau.
    zero : (n,) array
        What is added, rad or m: q used = sign_q * q recorded + zero.
    file_q : (n,) array of int
        Joints that the file's columns of q name, in the order of the file, which `order` of `read_log` refers to.
    file_tau : (n,) array of int
        The same for tau.

    Examples
    --------
    >>> from dynid import Wiring
    >>> Wiring(order_q=(1, 0)).then(Wiring(sign_tau=(1.0, -1.0))).n
    2
    """

    order_q: Order = AS_RECORDED
    order_tau: Order = AS_RECORDED
    sign_q: Array = AS_RECORDED
    sign_v: Array = AS_RECORDED
    sign_a: Array = AS_RECORDED
    sign_tau: Array = AS_RECORDED
    zero: Array = AS_RECORDED
    file_q: Order = AS_RECORDED
    file_tau: Order = AS_RECORDED

    def __post_init__(self) -> None:
        n = max(np.size(getattr(self, entry.name)) for entry in fields(self))
        for name in (entry.name for entry in fields(self)):
            given = np.asarray(getattr(self, name))
            what = name.partition("_")[0]
            if not given.size:
                given = (
                    np.arange(n) if what in ("order", "file")
                    else np.zeros(n) if what == "zero"
                    else self.sign_q if name in ("sign_v", "sign_a")
                    else np.ones(n)
                )  # fmt: skip
            is_valid = given.shape == (n,) and given.dtype.kind in "iuf" and (
                np.isfinite(given) if what == "zero"
                else np.abs(given) == 1 if what == "sign"
                else np.sort(given) == np.arange(n)
            ).all()  # fmt: skip
            if not is_valid:
                raise DynidError(
                    "invalid_wiring", "{field} of a Wiring must be {expected}, one per joint, got {value!s}",
                    field=name, value=str(given)[:60],
                    expected={"zero": "finite numbers", "sign": "1 or -1"}.get(what, "the numbers from 0 to n - 1"),
                )  # fmt: skip
            array = np.array(given, dtype=np.int64 if what in ("order", "file") else np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n(self) -> int:
        """Number of joints; 0 where nothing is given."""
        return len(self.zero)

    def order(self, channel: str) -> Order:
        """Column of each joint in a channel.

        Parameters
        ----------
        channel : {"q", "v", "a", "tau"}
            The channel.

        Returns
        -------
        (n,) array of int
            Columns, counted from 0.
        """
        return self.order_tau if channel == "tau" else self.order_q

    def sign(self, channel: str) -> Array:
        """Sign of each joint in a channel.

        Parameters
        ----------
        channel : {"q", "v", "a", "tau"}
            The channel.

        Returns
        -------
        (n,) array
            1 or -1.
        """
        return getattr(self, f"sign_{channel}")  # type: ignore[no-any-return]

    def apply(self, samples: Samples) -> Samples:
        """Return the samples with order, signs and zeros corrected.

        Parameters
        ----------
        samples : Samples
            As recorded.

        Returns
        -------
        Samples
            Corrected.
        """
        if not self.n:
            return samples
        self._check_joint_count(samples.q.shape[1])
        q, v, a, tau = (
            None if x is None else np.take(x, self.order(channel), axis=1) * self.sign(channel)
            for channel in ("q", "v", "a", "tau")
            for x in [getattr(samples, channel)]
        )
        assert q is not None
        return Samples(samples.t, q + self.zero, v, a, tau, samples.reaction)

    def then(self, after: Wiring, gear: Array | None = None) -> Wiring:
        """Return this wiring followed by another, as one.

        Parameters
        ----------
        after : Wiring
            The other.
        gear : (n, n) array, optional
            Gear of a log of motor signals.

        Returns
        -------
        Wiring
            Both corrections in one.
        """
        if not self.n or not after.n:
            return self if self.n else after
        after._check_joint_count(self.n)
        zero = self.zero if gear is None else gear @ self.zero
        zero = zero[after.order_q] * after.sign_q
        zero = (zero if gear is None else np.linalg.solve(gear, zero)) + after.zero
        q, v, a, tau = (self.sign(c)[after.order(c)] * after.sign(c) for c in ("q", "v", "a", "tau"))
        orders = self.order_q[after.order_q], self.order_tau[after.order_tau]
        return Wiring(*orders, q, v, a, tau, zero, self.file_q, self.file_tau)

    def _check_joint_count(self, n: int) -> None:
        """Raise where the wiring is for another number of joints."""
        if self.n != n:
            raise DynidError(
                "joint_count_mismatch", "the wiring is one of {given} joints, the log has {n}", given=self.n, n=n,
            )  # fmt: skip

    def options(self, robot: Robot) -> tuple[Option, ...]:
        """Options of `read_log` that apply the wiring; none for what is as recorded.

        Parameters
        ----------
        robot : Robot
            As `load_robot` returns it.

        Returns
        -------
        tuple of Option
            The options.
        """
        if not self.n:
            return ()
        self._check_joint_count(robot.n)
        names = robot.joint_names
        orders = {
            channel: [names[j] for j in np.argsort(order)[file].tolist()]
            for channel, order, file in (("q", self.order_q, self.file_q), ("tau", self.order_tau, self.file_tau))
            if (order != np.arange(self.n)).any()
        }
        beside = {"q": np.ones(self.n), "v": self.sign_q, "a": self.sign_q, "tau": np.ones(self.n)}
        signs = [f"{c}.{names[j]}" for j in range(self.n) for c, s in beside.items() if self.sign(c)[j] != s[j]]
        zeros = {names[j]: float(self.zero[j]) for j in np.flatnonzero(self.zero)}
        alike = len(orders) == 2 and orders["q"] == orders["tau"]
        found = {"order": orders["q"] if alike else orders, "sign": signs, "zero": zeros}
        return tuple(Option(keyword, value) for keyword, value in found.items() if value)


UNCHANGED = Wiring()
"""The wiring of a log that is as recorded."""


class Source(Protocol):
    """Where samples come from; it can be read again from its beginning as often as needed."""

    @property
    def name(self) -> str:
        """Name of the source in messages: a file's name, or what it was made by."""
        ...

    @property
    def channels(self) -> frozenset[str]:
        """Names of the recorded channels among v, a, tau, reaction."""
        ...

    def chunks(self, rows: int) -> Iterator[Samples]:
        """Yield all samples in order, at most `rows` at a time."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ArraySource:
    """Samples that are in memory."""

    name: str
    samples: Samples
    wiring: Wiring = UNCHANGED

    def rewired(self, wiring: Wiring) -> ArraySource:
        """The samples with further corrections."""
        return ArraySource(self.name, wiring.apply(self.samples), self.wiring.then(wiring))

    @property
    def channels(self) -> frozenset[str]:
        """Names of the recorded channels among v, a, tau, reaction."""
        return frozenset(name for name in CHANNELS if getattr(self.samples, name) is not None)

    def chunks(self, rows: int) -> Iterator[Samples]:
        """Yield views of the arrays in order, at most `rows` samples at a time."""
        for start in range(0, len(self.samples), rows):
            done = min(start + rows, len(self.samples)) / len(self.samples)
            yield replace(self.samples.select_rows(slice(start, start + rows)), done=done)


@dataclass(frozen=True, slots=True, eq=False)
class _SourcePart:
    """Samples of another source between two instants, the second one left out."""

    whole: Source
    start: float
    stop: float
    origin: float

    @property
    def name(self) -> str:
        """Name of the whole, with the interval."""
        return f"{self.whole.name} ({self.start - self.origin:.4g} s to {self.stop - self.origin:.4g} s)"

    @property
    def channels(self) -> frozenset[str]:
        """Names of the recorded channels among v, a, tau, reaction."""
        return self.whole.channels

    def chunks(self, rows: int) -> Iterator[Samples]:
        """Yield the samples of the interval in order, at most `rows` at a time."""
        for samples in self.whole.chunks(rows):
            inside = (samples.t >= self.start) & (samples.t < self.stop)
            if inside.all():
                yield samples
            elif inside.any():
                yield samples.select_rows(np.flatnonzero(inside))


@accept_old_names
class Log:
    """A recording: `.t .q .v .a .tau .reaction`, None for channels that were not recorded.

    A log that was read from a file stays there until an array is needed; `chunks` reads it piece by piece. `coupling`
    (n, n) is the transmission with motor positions = coupling @ joint positions, both scaled to the joint side, where
    one is known: friction acts there. `notes` say what the reader decided.

    Parameters
    ----------
    t : (N,) array
        Time, s.
    q : (N, n) array
        Positions, rad or m.
    v : (N, n) array, optional
        Velocities, rad/s or m/s.
    a : (N, n) array, optional
        Accelerations, rad/s^2 or m/s^2.
    tau : (N, n) array, optional
        Joint torques, N m or N.
    reaction : (N, channels) array, optional
        Readings of the force plate, N and N m.
    name : str
        Name of the log in messages.

    Raises
    ------
    LogError
        If the shapes of the arrays disagree.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Log
    >>> t = np.arange(0.0, 10.0, 0.01)
    >>> log = Log(t, np.sin(t)[:, None], tau=np.cos(t)[:, None])
    >>> sorted(log.channels), log.part(0.0, 0.5).t.shape
    (['tau'], (500,))
    """

    def __init__(
        self,
        t: Array,
        q: Array,
        *,
        v: Array | None = None,
        a: Array | None = None,
        tau: Array | None = None,
        reaction: Array | None = None,
        name: str = "log",
    ) -> None:
        samples = Samples(
            _check_array(name, "t", t, None, 1),
            _check_array(name, "q", q, len(t), 2),
            *(
                _check_optional_array(name, key, x, len(t))
                for key, x in (("v", v), ("a", a), ("tau", tau), ("reaction", reaction))
            ),
        )
        for key in ("v", "a", "tau"):
            value = getattr(samples, key)
            if value is not None and value.shape != samples.q.shape:
                raise LogError(
                    name, "wrong_shape", "{channel} has shape {shape!s}, q has {q_shape!s}", channel=key,
                    shape=value.shape, q_shape=samples.q.shape,
                )  # fmt: skip
        self._set_source(ArraySource(name, samples), None, ())

    @classmethod
    def from_source(cls, source: Source, *, coupling: Array | None = None, notes: tuple[Message, ...] = ()) -> Log:
        """Return a log that reads from a source.

        Parameters
        ----------
        source : Source
            Where the samples come from.
        coupling : (n, n) array, optional
            Transmission from joint to motor positions.
        notes : tuple of Message
            What the reader decided.

        Returns
        -------
        Log
            The log.
        """
        log = cls.__new__(cls)
        log._set_source(source, coupling, notes)
        return log

    def _set_source(self, source: Source, coupling: Array | None, notes: tuple[Message, ...]) -> None:
        """Set the source of the samples, coupling and notes; nothing is read yet."""
        self.source, self.coupling, self.notes = source, coupling, notes
        self._memory: list[list[Samples]] = []  # one list, once it has been read; copies of the log share it
        self._on_read: Callable[[float], None] | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """Instants between which samples count, in the log's own time: all of them, or those of a part."""
        return (self.source.start, self.source.stop) if isinstance(self.source, _SourcePart) else (-np.inf, np.inf)

    def chunks_of_whole_recording(self) -> Iterator[Samples]:
        """Yield chunks of the whole recording, up to a little after the part that counts.

        Filters and friction states of a part continue from what was recorded before it.

        Yields
        ------
        Samples
            The next samples.
        """
        part = self.source if isinstance(self.source, _SourcePart) else None
        for samples in self._chunks_kept_in_memory(self._whole_source):
            if self._on_read is not None:
                self._on_read(samples.done)
            yield samples
            t = samples.t[np.isfinite(samples.t)]
            if part is not None and len(t) and t.min() > part.stop + AFTER:
                return

    def with_reading_progress(self, on_read: Callable[[float], None]) -> Log:
        """Return the same log, which reports the share of its file that has been read.

        Parameters
        ----------
        on_read : callable
            Called with the share, 0 to 1.

        Returns
        -------
        Log
            The log.
        """
        log = copy(self)
        log._on_read = on_read
        return log

    @property
    def size(self) -> int:
        """Bytes of the file, or of the positions in memory, as a measure of the work."""
        whole = self._whole_source
        return whole.samples.q.nbytes if isinstance(whole, ArraySource) else getattr(whole, "size", 0)

    @property
    def name(self) -> str:
        """Name of the log in messages."""
        return self.source.name

    @property
    def channels(self) -> frozenset[str]:
        """Names of the recorded channels among v, a, tau, reaction."""
        return self.source.channels

    @property
    def unused_columns(self) -> tuple[str, ...]:
        """Names of columns in the log's file that are not used."""
        return tuple(getattr(self._whole_source, "unused_columns", ()))

    @property
    def other_topics(self) -> tuple[str, ...]:
        """Names of topics of a bag that are not read; none for other logs."""
        return tuple(getattr(getattr(self._whole_source, "table", None), "other_topics", ()))

    @property
    def locks(self) -> dict[str, float]:
        """Joints of the robot that the recording does not have, with the positions at which they are held, rad or m."""
        return dict(getattr(self._whole_source, "locks", {}))

    @property
    def standing_joints(self) -> frozenset[str]:
        """Joints of `locks` that were recorded without torques: they stood there; others are taken to stand at 0."""
        return frozenset(getattr(self._whole_source, "standing_joints", ()))

    @property
    def _whole_source(self) -> Source:
        """The source of the whole recording, also for a part of it."""
        return self.source.whole if isinstance(self.source, _SourcePart) else self.source

    @property
    def drives(self) -> tuple[Array | None, Array | None]:
        """Gear (n, n) and gain (n,) with which motor signals become joint signals; None where there is none."""
        drives = getattr(self._whole_source, "transmission", None)
        return (None, None) if drives is None else (drives.gear, drives.gain)

    @property
    def wiring(self) -> Wiring:
        """Corrections of the wiring that were applied, by `read_log` or `rewired`."""
        whole = self._whole_source
        found: Wiring = getattr(whole, "wiring", UNCHANGED)
        if isinstance(whole, ArraySource) and not found.n:
            return Wiring(zero=np.zeros(whole.samples.q.shape[1]))
        return found

    def rewired(self, wiring: Wiring) -> Log:
        """Return the log with mistakes of its wiring corrected, in addition to earlier corrections.

        A log of a file is not loaded: the file is read as if it had been opened with all corrections.

        Parameters
        ----------
        wiring : Wiring
            The corrections.

        Returns
        -------
        Log
            The same recording, or part of it; its `.wiring` is both corrections in one.
        """
        whole = self._whole_source
        source = whole if hasattr(whole, "rewired") else ArraySource(whole.name, Log.from_source(whole)._all_samples)
        try:
            source = source.rewired(wiring)
        except DynidError as error:
            raise LogError(self.name, error.message) from error
        if isinstance(self.source, _SourcePart):
            source = replace(self.source, whole=source)
        return Log.from_source(source, coupling=self.coupling, notes=self.notes)

    @property
    def left_out(self) -> tuple[Message, ...]:
        """Messages on what the reader of the file left out, as far as it was read."""
        return tuple(getattr(self._whole_source, "left_out", ()))

    def check_unchanged(self) -> None:
        """Raise where the file of the log is not the one that was opened."""
        if check := getattr(self._whole_source, "check_unchanged", None):
            check()

    def places(self, rows: Sequence[int]) -> str:
        """Describe where rows of the recording are: 'line 7, 12' of a text file, else 'row 6, 11'.

        Parameters
        ----------
        rows : sequence of int
            Rows, counted from 0.

        Returns
        -------
        str
            Lines or rows of the file.
        """
        lines = getattr(self._whole_source, "lines", None)
        if not rows or lines is None:
            return f"row {', '.join(map(str, self.line_numbers(rows)[1]))}" if rows else ""
        return str(lines(rows))

    def line_numbers(self, rows: Sequence[int]) -> tuple[str, list[int]]:
        """Line or row numbers in the file.

        Parameters
        ----------
        rows : sequence of int
            Increasing rows, counted from 0.

        Returns
        -------
        tuple of (str, list of int)
            "line" or "row", and the numbers from 1.
        """
        find = getattr(self._whole_source, "line_numbers", None)
        first = getattr(getattr(self._whole_source, "part", None), "first", 1)
        return ("row", [row + first for row in rows]) if find is None or not rows else ("line", find(rows))

    def chunks(self, rows: int = CHUNK) -> Iterator[Samples]:
        """Yield the samples in order, in bounded memory.

        Parameters
        ----------
        rows : int
            Samples per chunk, at most.

        Yields
        ------
        Samples
            The next samples.
        """
        return self.source.chunks(rows)

    def _chunks_kept_in_memory(self, source: Source) -> Iterator[Samples]:
        """Chunks of a source; a file is read ahead, and a small one only once."""
        if isinstance(source, ArraySource):
            yield from source.chunks(CHUNK)
            return
        if self._memory:
            yield from self._memory[0]
            return
        seen: list[Samples] | None = []
        for samples in prefetch(source.chunks(CHUNK)):
            if seen is not None:
                seen = [*seen, samples] if sum(map(len, seen)) + len(samples) <= SMALL else None
            yield samples
        self._memory[:] = [] if seen is None else [seen]

    @cached_property
    def _all_samples(self) -> Samples:
        """All samples in one piece, cached."""
        if isinstance(self.source, ArraySource):
            return self.source.samples
        pieces = list(self.chunks())
        if not pieces:
            raise LogError(self.name, "no_samples", "there are no samples in it")
        columns = ("t", "q", *(name for name in CHANNELS if name in self.channels))
        whole = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in columns}
        return Samples(**whole)  # type: ignore[arg-type]

    @property
    def t(self) -> Array:
        """Time (N,) in s."""
        return self._all_samples.t

    @property
    def q(self) -> Array:
        """Positions (N, n)."""
        return self._all_samples.q

    @property
    def v(self) -> Array | None:
        """Velocities (N, n)."""
        return self._all_samples.v

    @property
    def a(self) -> Array | None:
        """Accelerations (N, n)."""
        return self._all_samples.a

    @property
    def tau(self) -> Array | None:
        """Joint torques or forces (N, n)."""
        return self._all_samples.tau

    @property
    def reaction(self) -> Array | None:
        """Forces and moments on the base (N, 6)."""
        return self._all_samples.reaction

    def __len__(self) -> int:
        return len(self._all_samples)

    def frame(self) -> Any:
        """Return the samples as a polars frame, which `read_log` reads again.

        Returns
        -------
        polars.DataFrame
            The columns t, q1, q2, ..., v1, ..., a1, ..., tau1, ... in SI units, and fx, fy, fz, mx, my, mz of a force
            plate, as far as they were recorded.
        """
        import polars as pl

        if is_polars_without_threads():
            raise LogError(self.name, NEEDS_SPAWN)
        samples, columns = self._all_samples, {"t": self._all_samples.t}
        for channel in ("q", *CHANNELS):
            block = getattr(samples, channel)
            if block is not None:
                numbers = [f"{channel}{k + 1}" for k in range(block.shape[1])]
                names = _PLATE if channel == "reaction" and block.shape[1] == len(_PLATE) else numbers
                columns |= dict(zip(names, block.T, strict=True))
        return pl.DataFrame(columns)

    @cached_property
    def _summary(self) -> dict[str, str]:
        """Texts on what the log holds, by subject; a large file is not read beyond its beginning."""
        count, first, last, rate, joints = 0, np.inf, -np.inf, np.nan, 0
        for samples in self.chunks():
            t = samples.t[np.isfinite(samples.t)]
            if not count and len(t) > 1:
                steps = np.diff(np.sort(t))
                rate = 1.0 / float(np.median(steps[steps > 0.0])) if (steps > 0.0).any() else np.nan
            count, joints = count + len(samples), samples.q.shape[1]
            first, last = min(first, t.min(initial=np.inf)), max(last, t.max(initial=-np.inf))
            if self.size > _LARGE and not isinstance(self._whole_source, ArraySource):
                break
        is_whole = self.size <= _LARGE or isinstance(self._whole_source, ArraySource)
        units = _UNITS | ({"tau": "A"} if any(note.code == "torques_in_current" for note in self.notes) else {})
        held = [f"{c} ({units[c]})" for c in ("t", "q", *(c for c in CHANNELS if c in self.channels))]
        size = f"{count:,} samples" if is_whole else f"{self.size / 1e6:,.0f} MB"
        duration = f"{max(last - first, 0.0):.4g} s" if is_whole else ""
        return {
            "size": size, "duration": duration, "rate": f"{rate:.4g} Hz", "joints": str(joints),
            "channels": ", ".join(held),
        }  # fmt: skip

    def __repr__(self) -> str:
        try:
            found = self._summary
        except DynidError as error:
            return f"<Log '{self.name}': {error}>"
        length = ", ".join(filter(None, (found["size"], found["duration"], found["rate"])))
        return printable(f"<Log '{self.name}': {length}; {found['joints']} joints: {found['channels']}>")

    def _repr_html_(self) -> str:
        """Table of what the log holds, for notebooks."""
        try:
            found = {"log": self.name, **self._summary}
        except DynidError as error:
            found = {"log": self.name, "error": str(error)}
        return html_summary(found)

    def table(self) -> Any:
        """Return the samples as a polars frame: the same as `frame`.

        Returns
        -------
        polars.DataFrame
            A column per channel and joint.
        """
        return self.frame()

    @cached_property
    def span(self) -> tuple[float, float]:
        """First and last instant, in the log's own time; times that are not part of the recording do not count."""
        first, last = np.inf, -np.inf
        for t in times_of_recording(samples.t for samples in self.chunks()):
            first, last = min(first, float(t.min(initial=np.inf))), max(last, float(t.max(initial=-np.inf)))
        if not first <= last:
            raise LogError(self.name, "no_samples", "there are no samples in it")
        return first, last

    def between(self, start: float | None = None, stop: float | None = None) -> Log:
        """Return the samples from `start` up to, not including, `stop`.

        Parameters
        ----------
        start : float, optional
            Seconds after the first sample; negative: before the end.
        stop : float, optional
            The same. Default: the end.

        Returns
        -------
        Log
            The part.
        """
        first, last = self.span
        end = float(np.nextafter(last, np.inf))
        begin = first if start is None else (last if start < 0 else first) + start
        finish = end if stop is None else (last if stop < 0 else first) + stop
        if not begin < finish or begin > last or finish <= first:
            raise LogError(
                self.name, "range_without_samples", "there is nothing between {begin:.6g} s and {finish:.6g} s; it "
                "lasts {last:.6g} s", begin=begin - first, finish=finish - first, last=last - first,
            )  # fmt: skip
        origin = self.source.origin if isinstance(self.source, _SourcePart) else first
        return Log.from_source(
            _SourcePart(self._whole_source, begin, finish, origin), coupling=self.coupling, notes=self.notes
        )

    def part(self, start: float = 0.0, stop: float = 1.0) -> Log:
        """Return a part by fractions of the log's duration: `part(0, 0.65)` and `part(0.65)` split it in two.

        Parameters
        ----------
        start : float
            Fraction at which it starts, 0 to 1.
        stop : float
            Fraction before which it ends, 0 to 1.

        Returns
        -------
        Log
            The part.
        """
        first, last = self.span
        length = last - first
        return self.between(start * length if start > 0.0 else None, stop * length if stop < 1.0 else None)


Progress = Callable[[str, float], None]


def logs_with_common_progress(logs: Sequence[Log], on_progress: Progress | None, what: str) -> tuple[Log, ...]:
    """Return the logs, which call `on_progress` with the share of all bytes that was read."""
    if on_progress is None:
        return tuple(logs)
    sizes = [max(log.size, 1) for log in logs]

    def reporter(number: int) -> Callable[[float], None]:
        def report(done: float) -> None:
            read = (sum(sizes[:number]) + (done if np.isfinite(done) else 0.0) * sizes[number]) / sum(sizes)
            on_progress(f"{what}: {100.0 * read:.0f} % of {sum(sizes) / 1e6:.3g} MB", read)

        return report

    return tuple(log.with_reading_progress(reporter(number)) for number, log in enumerate(logs))


def _check_array(name: str, key: str, value: Array, length: int | None, dimensions: int) -> Array:
    """An array of finite shape as floats; LogError with its name where it has another shape or holds no numbers."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LogError(
            name, "values_not_numeric", "{channel} is not an array of numbers: {reason}", channel=key,
            reason=str(error),
        ) from error  # fmt: skip
    if array.ndim != dimensions or (length is not None and len(array) != length):
        wanted = "(N,)" if dimensions == 1 else f"({length}, n)"
        raise LogError(
            name, "wrong_shape", "{channel} must have shape {expected}, got {shape!s}", channel=key,
            expected=wanted, shape=array.shape,
        )  # fmt: skip
    return array


def _check_optional_array(name: str, key: str, value: Array | None, length: int) -> Array | None:
    """A channel (N, n) as floats, checked; None where it is missing."""
    return None if value is None else _check_array(name, key, value, length, 2)
