"""How a state is solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynid.errors import IdentificationError

ESTIMATORS = ("ols", "wls", "ridge", "huber", "recursive")


def refuse_idle_offsets(offsets_per_log: bool, friction: tuple[str, ...]) -> None:
    """Offsets of each log are those of the friction block; a force plate's are each log's own anyway."""
    if offsets_per_log and "offset" not in friction:
        raise IdentificationError("offsets_per_log= goes with the friction block 'offset', which is not used here")


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """How to solve: estimator, known and tied parameters, own offsets per log, which intervals."""

    estimator: str = "wls"
    known: Mapping[str, float] = field(default_factory=dict)
    tied: Sequence[tuple[str, str]] = ()
    offsets_per_log: bool = False
    intervals: str = "jackknife"

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise IdentificationError(
                f"there is no estimator '{self.estimator}'; estimators are {', '.join(ESTIMATORS)}"
            )
        if self.intervals not in ("jackknife", "white"):
            raise IdentificationError(f"intervals are 'jackknife' or 'white', not '{self.intervals}'")
