"""What a page is about: a result, logs read again, and where all of it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dynid.estimation.identification import Identification
from dynid.estimation.origin import Origin
from dynid.report.replay import Replay
from dynid.robot.transform import Array


class StandardValues(Protocol):
    """Values of standard parameters, such as physically consistent ones (`PhysicalParameters`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Standard names."""
        ...

    @property
    def values(self) -> Array:
        """One per name."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be read about them."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided on the way."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A result with its logs: those it was made from, and others that it had to predict.

    origin: of the page; doubts: warnings that are the page's own; further: those of what was done beside it.
    """

    result: Identification
    origin: Origin
    used: tuple[Replay, ...] = ()
    held_out: tuple[Replay, ...] = ()
    physical: StandardValues | None = None
    doubts: tuple[str, ...] = ()
    further: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """All of them, once each."""
        bodies = self.physical.warnings if self.physical else ()
        return tuple(dict.fromkeys((*self.doubts, *self.result.warnings, *bodies, *self.further)))

    @property
    def replays(self) -> tuple[Replay, ...]:
        """All logs."""
        return (*self.used, *self.held_out)

    @property
    def results(self) -> tuple[Identification, ...]:
        """The result, as one of those that a page is about."""
        return (self.result,)
