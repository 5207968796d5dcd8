"""How well parameters predict: RMSE and NRMSE per channel, from factors alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dynid.deprecated import accept_old_names
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.inference.cross_validation import Folds
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.unknowns import Unknowns
from dynid.messages import Message, Option
from dynid.robot.transform import Array
from dynid.storage.records import Numbers


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Errors per channel: rmse in the channel's unit; nrmse = rmse / standard deviation of the measured channel.

    Both sides are filtered alike with `cutoff` (Hz; None: not at all). settled: NRMSE without the rows before each
    joint's first 2 mrad of travel and those at rest, where dry friction is unknown; unsettled: their share of all.
    source says which data; samples: rows per channel. quiet (channels,): channels of a force plate that hardly change
    beside others of their kind, so that noise is all there is; they do not count in the mean.
    """

    rmse: Array
    nrmse: Array
    settled: Array
    unsettled: float
    cutoff: float | None
    source: str
    samples: int
    quiet: Annotated[NDArray[np.bool_], Numbers((None,), dtype=bool)] | None = None

    @property
    def nrmse_without_quiet(self) -> Array:
        """NRMSE per channel, NaN for quiet channels."""
        return self.nrmse if self.quiet is None else np.where(self.quiet, np.nan, self.nrmse)

    @property
    def spread(self) -> Array:
        """Standard deviation of what was measured, per channel; NaN where it does not change."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.rmse / self.nrmse)

    @property
    def mean(self) -> float:
        """Mean NRMSE over the channels that are not quiet, NaN where there are none."""
        counted = self.nrmse_without_quiet[~np.isnan(self.nrmse_without_quiet)]
        return float(counted.mean()) if len(counted) else np.nan


QUIET = 0.05
"""Spread of a channel of the base, over the largest of its kind, below which it says nothing."""


def quiet_channels(kinds: Sequence[str], spread: Array) -> NDArray[np.bool_]:
    """Mask of channels that hardly change; kinds: "torque", which never counts as quiet, "force" or "moment"."""
    largest = [np.nanmax([s for s, k in zip(spread, kinds, strict=True) if k == kind]) for kind in kinds]
    small = ~(spread > QUIET * np.array(largest))
    return np.asarray(small & np.array([kind != "torque" for kind in kinds]))


ROUNDING = 1e-13
"""Share of a channel's mean square that is no spread: it stays constant."""

SMALL = 0.1
"""Spread of a joint's torque, over the largest of its kind, below which it does not matter for a verdict."""


def channels_that_matter(kinds: Sequence[str], spread: Array) -> NDArray[np.bool_]:
    """Mask of channels with torques (N m) or forces (N) that are not small against the largest of their kind.

    kinds: "revolute" or "prismatic" joints; channels of anything else matter always, unless they are quiet.
    """
    joints = np.isin(kinds, ("revolute", "prismatic"))
    largest = np.array([np.nanmax(np.r_[0.0, spread[np.array(kinds) == kind]]) for kind in kinds])
    return np.asarray(~joints | (spread > SMALL * largest))


def score(
    unknowns: Unknowns,
    values: Array,
    factors: Mapping[int, tuple[ChannelFactor, ...]],
    settling: tuple[tuple[ChannelFactor, ...], ...],
    *,
    cutoff: float | None,
    source: str,
    fitted: bool,
    kinds: Sequence[str],
) -> Score:
    """Errors of values on logs; logs that were not fitted take the first one's offsets."""
    C = len(unknowns.channels)
    squares, counts, total, power = (np.zeros((2, C)) for _ in range(4))
    for log, of_log in factors.items():
        for c in range(C):
            own = unknowns.values_of_channel(log if fitted else 0, c, values)
            for k, factor in enumerate((of_log[c], settling[log][c])):
                squares[k, c] += factor.residual_squares(own)
                counts[k, c] += factor.count
                total[k, c] += factor.total
                power[k, c] += factor.sum_of_squares
    every = np.maximum(counts.sum(axis=0), 1.0)
    spread = np.sqrt(np.maximum(power.sum(axis=0) / every - (total.sum(axis=0) / every) ** 2, 0.0))
    quiet = quiet_channels(kinds, spread)
    spread = np.where(spread**2 > ROUNDING * power.sum(axis=0) / every, spread, np.nan)
    rmse = np.sqrt(squares.sum(axis=0) / every)
    settled = np.sqrt(squares[0] / np.maximum(counts[0], 1.0))
    unsettled = float(counts[1].sum() / every.sum())
    return Score(rmse, rmse / spread, settled / spread, unsettled, cutoff, source, int(every.max()), quiet)


OPTIMISM = (1.1, 1.2, 1.6)
"""Error on other motions over that on held-out stretches of the same: usually between the first two, at most the third.
"""


def describe_same_motion(found: Score) -> Message:
    """Message on how large errors may be on other motions, where only parts of the same motion validate."""
    low, high, most = (ratio * found.mean for ratio in OPTIMISM)
    return Message(
        "validation_same_motion", "validated on the motion that was used, NRMSE {nrmse:.3f}: expect {low:.3f} to "
        "{high:.3f} on other motions, {most:.3f} at worst", "validate on a log of another motion with {option}",
        nrmse=found.mean, low=low, high=high, most=most, option=Option("validate"),
    )  # fmt: skip


def held_out_score(folds: Folds, errors: Array, *, cutoff: float | None, kinds: Sequence[str]) -> Score:
    """Score on held-out blocks of time: each fold predicted by a fit to the others."""
    changes = folds.spread > ROUNDING * folds.squares.sum(axis=0)
    nrmse, rmse = np.where(changes, folds.nrmse(errors), np.nan), folds.rmse(errors)
    source = f"{folds.count} held-out stretches of time, each predicted from the others"
    quiet = quiet_channels(kinds, np.sqrt(folds.spread / np.maximum(folds.counts.sum(axis=0), 1.0)))
    return Score(rmse, nrmse, nrmse, 0.0, cutoff, source, int(folds.counts.sum(axis=0).max()), quiet)


# The 95 % band of predicted torques: uncertain parameters, what the model leaves, and friction of slow joints. Its
# constants were chosen on some splits of recordings and simulated robots; docs/identify.md has the shares on others.


SEVERAL = 0.8
"""Factor of the parameters' width where it holds the scatter between logs: it is conservative for sums of them."""

NEAR, FAR, TURN = 0.7, 1.2, 2.0
"""The same of one log, along the motion that was seen and far from it, and between both, in floors.

One log knows nothing of how its model errs elsewhere.
"""

SLOW = 0.2
"""Velocity (rad/s) below which a joint's dry friction is uncertain, at rest by as much as it is while sliding."""

FEWEST, LEAST = 20, 0.2
"""Rows from which on quantiles are taken, and the least floor over that of the whole residual."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Half widths (channels,), N m or N: floor of the residual in motion, and slow, added where a joint stands.

    of_several_logs: whether the width of the parameters holds the scatter between logs.
    """

    floor: Array
    slow: Array
    of_several_logs: bool

    @staticmethod
    def from_residuals(left: Array, slow: Array, dry: Array, noise: Array, *, of_several_logs: bool) -> Band:
        """Quantiles of residuals (rows, channels), NaN where they do not count.

        slow: shares (rows, channels) to which joints are slow; dry (channels,): friction while sliding; noise
        (channels,): half width of the noise, where there are too few rows.
        """
        floor = noise.copy()
        for c in range(len(dry)):
            known = ~np.isnan(left[:, c])
            if known.sum() >= FEWEST:
                beside = np.maximum(left[known, c] ** 2 - (dry[c] * slow[known, c]) ** 2, 0.0)
                squares = np.quantile(beside, 0.95), LEAST**2 * np.quantile(left[known, c] ** 2, 0.95)
                floor[c] = np.sqrt(max(squares))
        return Band(floor, dry, of_several_logs)

    def widths(self, by_parameters: Array, slow: Array, channel: int) -> Array:
        """Half widths (N,) of one channel, from that of the parameters and the share to which the joint is slow."""
        floor, by_friction = self.floor[channel], self.slow[channel] * slow
        far = by_parameters**2 / np.maximum(by_parameters**2 + (TURN * floor) ** 2, 1e-300)
        factor = SEVERAL if self.of_several_logs else NEAR + (FAR - NEAR) * far
        return np.asarray(np.sqrt((factor * by_parameters) ** 2 + floor**2 + by_friction**2))


def slow_shares(equation: Equation, v: Array) -> Array:
    """Shares (N, channels), 0 to 1, to which the joints of torque channels are slow, by their velocities (N, n)."""
    joints = [channel.joint for channel in equation.torque_channels]
    return np.asarray(np.exp(-((v[:, joints] / (SLOW * equation.shapes.scale[joints])) ** 2)))
