"""What is measured and compared with the model: torques, their power, energy or momentum, or forces on the base.

The base columns are those of the torque in all four. The rows of energy and momentum are integrals over time of
torque rows (with or without the velocity), so parameters that no torque reveals cannot appear in them, and differences
of the functions h or dL/dqd of the kept columns are those of all columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynid.errors import IdentificationError
from dynid.estimation.regression.quadrature import POINTS, QUADRATURES
from dynid.logs.filtering import Treatment
from dynid.messages import Option

MEASURES = ("torque", "power", "energy", "momentum", "reaction", "torque+reaction")

PERIODS = 0.25
"""Default window in periods of the upper end of the motion's band."""

STRIDES = 8
"""Rows per window: neighbouring windows overlap."""

FEWEST = 8
"""Least steps of the thinned rate in a window."""


@dataclass(frozen=True, slots=True)
class Measure:
    """model: see MEASURES; window (s) over which energy and momentum are balanced; quadrature: see `integrate`."""

    model: str = "torque"
    window: float | None = None
    quadrature: str = "smooth"

    def __post_init__(self) -> None:
        if self.model not in MEASURES:
            raise IdentificationError(
                "unknown_model", "there is no model '{model}'; models are {models}", model=self.model,
                models=list(MEASURES),
            )  # fmt: skip
        if self.quadrature not in QUADRATURES:
            raise IdentificationError(
                "unknown_quadrature", "there is no quadrature '{quadrature}'; quadratures are {quadratures}",
                quadrature=self.quadrature, quadratures=list(QUADRATURES),
            )  # fmt: skip
        if self.window is not None and not 0.0 < self.window < float("inf"):
            raise IdentificationError(
                "window_not_positive", "the window must be a positive number of seconds, got {window}",
                window=self.window,
            )  # fmt: skip
        if self.window is not None and not self.is_integral:
            raise IdentificationError(
                "model_without_window", "model '{model}' has no window; models energy and momentum have one",
                model=self.model,
            )  # fmt: skip
        if self.quadrature != "smooth" and not self.is_integral:
            raise IdentificationError(
                "model_without_quadrature", "model '{model}' has no quadrature; models energy and momentum have one",
                model=self.model,
            )  # fmt: skip

    @property
    def is_integral(self) -> bool:
        """Whether rows are balances over windows of time."""
        return self.model in ("energy", "momentum")

    @property
    def has_torques(self) -> bool:
        """Whether joint torques are used."""
        return self.model != "reaction"

    @property
    def has_reactions(self) -> bool:
        """Whether forces and moments on the base are used."""
        return self.model in ("reaction", "torque+reaction")

    @property
    def is_scalar(self) -> bool:
        """Whether all joints share one channel."""
        return self.model in ("power", "energy")

    def half(self, treatment: Treatment) -> int:
        """Half a window in instants of the thinned rate."""
        if not self.is_integral:
            return 0
        assert self.window is not None
        return max(FEWEST // 2, round(0.5 * self.window * treatment.thin_rate))

    def context(self, treatment: Treatment) -> int:
        """Samples that a row needs on each side beyond those of its filters."""
        return treatment.thinning * (self.half(treatment) + POINTS // 2 + 1) if self.is_integral else 0

    def stride(self, treatment: Treatment) -> int:
        """Instants of the thinned rate from row to row, at least."""
        return max(1, 2 * self.half(treatment) // STRIDES)


TORQUE = Measure()
"""The joint torques themselves."""


# How a state is solved.


ESTIMATORS = ("ols", "wls", "ridge", "huber", "recursive")


def refuse_idle_offsets(offsets_per_log: bool, friction: tuple[str, ...]) -> None:
    """Offsets of each log are those of the friction block; a force plate's are each log's own anyway."""
    if offsets_per_log and "offset" not in friction:
        raise IdentificationError(
            "log_offsets_without_offset", "{option} goes with the friction block 'offset', which is not used here",
            option=Option("offsets_per_log", True),
        )  # fmt: skip


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
                "unknown_estimator", "there is no estimator '{estimator}'; estimators are {estimators}",
                estimator=self.estimator, estimators=list(ESTIMATORS),
            )  # fmt: skip
        if self.intervals not in ("jackknife", "white"):
            raise IdentificationError(
                "unknown_intervals", "intervals are 'jackknife' or 'white', not '{intervals}'",
                intervals=self.intervals,
            )  # fmt: skip
