"""How well parameters predict: RMSE and NRMSE per channel, from factors alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynid.estimation.factor import ChannelFactor
from dynid.estimation.folds import Folds
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Errors per channel: rmse in the channel's unit; nrmse = rmse / standard deviation of the measured channel.

    Both sides are filtered alike with `cutoff` (Hz; None: not at all). settled: NRMSE without the rows before each
    joint's first 2 mrad of travel, where dry friction is unknown; unsettled: how large a share of rows these are.
    source says which data; samples: rows per channel.
    """

    rmse: Array
    nrmse: Array
    settled: Array
    unsettled: float
    cutoff: float | None
    source: str
    samples: int

    @property
    def mean(self) -> float:
        """Mean NRMSE over the channels."""
        return float(np.nanmean(self.nrmse))


def score(
    unknowns: Unknowns,
    values: Array,
    factors: Mapping[int, tuple[ChannelFactor, ...]],
    settling: tuple[tuple[ChannelFactor, ...], ...],
    *,
    cutoff: float | None,
    source: str,
    fitted: bool,
) -> Score:
    """Errors on logs; logs that were not fitted have the first one's offsets."""
    C = len(unknowns.channels)
    squares, counts, total, power = (np.zeros((2, C)) for _ in range(4))
    for log, of_log in factors.items():
        for c in range(C):
            own = unknowns.of_channel(log if fitted else 0, c, values)
            for k, factor in enumerate((of_log[c], settling[log][c])):
                squares[k, c] += factor.residual_squares(own)
                counts[k, c] += factor.count
                total[k, c] += factor.total
                power[k, c] += factor.squares
    every = np.maximum(counts.sum(axis=0), 1.0)
    spread = np.sqrt(np.maximum(power.sum(axis=0) / every - (total.sum(axis=0) / every) ** 2, 0.0))
    spread = np.where(spread > 0.0, spread, np.nan)
    rmse = np.sqrt(squares.sum(axis=0) / every)
    settled = np.sqrt(squares[0] / np.maximum(counts[0], 1.0))
    unsettled = float(counts[1].sum() / every.sum())
    return Score(rmse, rmse / spread, settled / spread, unsettled, cutoff, source, int(every.max()))


def held_out_score(folds: Folds, errors: Array, *, cutoff: float | None) -> Score:
    """Errors on held-out blocks of time: each fold predicted by a fit to the others."""
    nrmse, rmse = folds.nrmse(errors), folds.rmse(errors)
    source = f"{folds.count} held-out stretches of time, each predicted from the others"
    return Score(rmse, nrmse, nrmse, 0.0, cutoff, source, int(folds.counts.sum(axis=0).max()))
