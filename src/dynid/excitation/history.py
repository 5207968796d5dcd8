"""The course of a search: the criterion at the iterates of every start, thinned to a few points."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.deprecated import accept_old_names
from dynid.errors import ExcitationError
from dynid.robot.transform import Array

MOST = 200
"""Points that are kept of a start."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """One start: the criterion's values (k,) at iterations (k,), of which the last is that of its valid motion.

    The others are those of the iterates, before the last step to the limits. seconds: how long it took; refused: its
    motion could not be given, because links would collide or no entry into it was found.
    """

    start: int
    iterations: NDArray[np.int64]
    values: Array
    seconds: float
    refused: bool = False

    @property
    def final_value(self) -> float:
        """Criterion of the valid motion at the end of the descent."""
        return float(self.values[-1])


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class SearchHistory:
    """The descents of all starts that ended, by their numbers; `chosen` is the start of the motion that is given.

    planned: starts that were asked for; stopped: time or the user ended the search early.
    """

    criterion: str
    descents: tuple[Descent, ...]
    chosen: int
    planned: int
    stopped: bool

    @property
    def best(self) -> Descent:
        """The descent to the motion that is given."""
        return next(descent for descent in self.descents if descent.start == self.chosen)

    @property
    def best_so_far(self) -> Array:
        """Smallest criterion of the motions found by the first start, the first two, ...; refused ones left out."""
        return np.minimum.accumulate([descent.final_value for descent in self.descents if not descent.refused])

    def with_final_value(self, value: float) -> SearchHistory:
        """Return the history with this final criterion of the chosen motion."""
        changed = tuple(
            replace(one, values=np.append(one.values[:-1], value)) if one.start == self.chosen else one
            for one in self.descents
        )
        return replace(self, descents=changed)

    def facts(self) -> dict[str, object]:
        """The history as JSON-ready data."""
        return {
            "criterion": self.criterion,
            "chosen": self.chosen,
            "planned": self.planned,
            "stopped": self.stopped,
            "starts": [
                {
                    "start": descent.start,
                    "seconds": descent.seconds,
                    "refused": descent.refused,
                    "iterations": descent.iterations.tolist(),
                    "values": descent.values.tolist(),
                }
                for descent in self.descents
            ],
        }


def read_history(path: str | Path) -> SearchHistory | None:
    """Read the history in a file of `dynid excite --json`; None where the file has none, as older ones."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ExcitationError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=error.strerror or error,
        ) from error  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise ExcitationError(
            "not_json", "{path}: this is no JSON", "use a file of dynid excite --json", path=path,
        ) from error  # fmt: skip
    given = data.get("history") if isinstance(data, Mapping) else None
    if given is None:
        return None
    try:
        return _history_from_fields(given)
    except (KeyError, TypeError, ValueError) as error:
        raise ExcitationError(
            "file_damaged", "{path}: its history is damaged: {reason}", "run dynid excite --json again", path=path,
            reason=repr(error),
        ) from error  # fmt: skip


def _history_from_fields(given: Any) -> SearchHistory:
    """History from the fields of a file, checked."""
    descents = []
    for one in given["starts"]:
        iterations = np.array(one["iterations"], dtype=np.int64)
        values = np.array(one["values"], dtype=np.float64)
        if iterations.ndim != 1 or iterations.shape != values.shape or not np.isfinite(values).all():
            raise ValueError("iterations and values must be lists of as many numbers")
        if not len(values) or (np.diff(iterations) < 0).any():
            raise ValueError("iterations must rise")
        descents.append(Descent(int(one["start"]), iterations, values, float(one["seconds"]), bool(one["refused"])))
    chosen = int(given["chosen"])
    if chosen not in [descent.start for descent in descents]:
        raise ValueError("the chosen start is missing")
    return SearchHistory(
        str(given["criterion"]), tuple(descents), chosen, int(given["planned"]), bool(given["stopped"])
    )


@dataclass(slots=True)
class Recorder:
    """Notes the criterion of one start while it is searched, at every `stride`-th iteration.

    Where the points become too many, every second one is dropped and the stride doubled.
    """

    iterations: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    count: int = 0
    stride: int = 1
    seconds: float = 0.0
    latest: float = math.nan
    began: float = field(default_factory=time.monotonic)

    def record_value(self, value: float) -> None:
        """Record the criterion at the current iterate; the very first is iteration 0."""
        self.latest = value
        if not self.iterations and not self.count:
            self._append_latest()

    def end_iteration(self) -> None:
        """End an iteration: the criterion recorded last is its result."""
        self.count += 1
        if self.count % self.stride == 0:
            self._append_latest()

    def pause_clock(self) -> None:
        """Stop the clock of the search."""
        self.seconds += time.monotonic() - self.began

    def resume_clock(self) -> None:
        """Start the clock of the search again."""
        self.began = time.monotonic()

    def descent(self, start: int, end: float, *, refused: bool = False) -> Descent:
        """Descent that was recorded, with the criterion of the valid motion last."""
        iterations = np.array([*self.iterations, self.count], dtype=np.int64)
        return Descent(start, iterations, np.array([*self.values, end]), self.seconds, refused)

    def _append_latest(self) -> None:
        """Store the latest value, thinning out what is too much."""
        if not math.isfinite(self.latest):  # a closed loop that cannot follow, or entries that vanish
            return
        self.iterations.append(self.count)
        self.values.append(self.latest)
        if len(self.iterations) == MOST:
            self.stride *= 2
            kept = [k for k, iteration in enumerate(self.iterations) if iteration % self.stride == 0]
            self.iterations = [self.iterations[k] for k in kept]
            self.values = [self.values[k] for k in kept]
