"""How well parameters predict: RMSE and NRMSE per channel, from factors alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dynid.deprecated import accept_old_names
from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.inference.cross_validation import Folds
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.identifiability.base_reactions import relate_sensors
from dynid.messages import Message, Option
from dynid.robot.transform import Array
from dynid.storage.records import Numbers


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """Prediction errors per channel.

    Measured and predicted channels are filtered alike.

    Attributes
    ----------
    rmse : (channels,) array
        Root mean square error, N m or N.
    nrmse : (channels,) array
        RMSE over the standard deviation of the measured channel.
    settled : (channels,) array
        NRMSE without the rows before each joint's first 2 mrad of travel and those at rest, where dry friction is
        unknown.
    unsettled : float
        Share of these rows, 0 to 1.
    cutoff : float or None
        Cut-off frequency, Hz; None: not filtered.
    source : str
        Which data.
    samples : int
        Rows per channel.
    quiet : (channels,) array of bool or None
        Channels of a force plate that hardly change compared with others of their kind, so that they show only noise;
        they do not count in the mean.
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


# Joint torques that a result predicts where it was not fitted, whatever it was fitted to: a verdict recommends them.
# Power, energy and momentum share the columns of the torque. Forces on the base tell the links only (theta_d = S
# theta_r): friction and rotors that are not declared are fitted to the torques beside them, without the part predicted.


@dataclass(frozen=True, eq=False)
class TorqueCheck:
    """Rows of joint torques of the logs used; fits: the stretches of time held out and values found without each."""

    equation: Equation
    unknowns: Unknowns
    blocks: tuple[Block, ...]
    cutoff: float | None

    def held_out_errors(self, groups: Sequence[tuple[Block, ...]], fits: Array, source: str) -> Score | None:
        """Errors of the joint torques on every held-out stretch of time, by the values found without it."""
        lift = self._torque_map()
        if lift is None:
            return None
        inside = [
            [block for block in self.blocks if _group_around_block(block, groups) == f] for f in range(len(groups))
        ]
        C = len(lift.unknowns.channels)
        squares, counts, total, power = (np.zeros(C) for _ in range(4))
        for f, own in enumerate(inside):
            rest = [block for g, others in enumerate(inside) if g != f for block in others]
            values = lift.torque_values(fits[f], rest)
            for block in own:
                for c, factor in enumerate(block.factors):
                    squares[c] += factor.residual_squares(lift.unknowns.values_of_channel(block.log, c, values))
                    counts[c] += factor.count
                    total[c] += factor.total
                    power[c] += factor.sum_of_squares
        every = np.maximum(counts, 1.0)
        spread = np.sqrt(np.maximum(power / every - (total / every) ** 2, 0.0))
        rmse = np.sqrt(squares / every)
        nrmse = rmse / np.where(spread > 0.0, spread, np.nan)
        return Score(rmse, nrmse, nrmse, 0.0, self.cutoff, source, int(every.max()))

    def errors_on_logs(
        self, blocks: tuple[Block, ...], settling: tuple[tuple[ChannelFactor, ...], ...], values: Array, source: str
    ) -> Score | None:
        """Errors of the predicted joint torques on other logs."""
        lift = self._torque_map()
        if lift is None:
            return None
        torques = self.equation.torque_equation()
        assert torques is not None
        return score(
            lift.unknowns, lift.torque_values(values, self.blocks), total_factors(blocks), settling,
            cutoff=self.cutoff, source=source, fitted=False, kinds=torques.channel_kinds,
        )  # fmt: skip

    def _torque_map(self) -> _TorqueMap | None:
        """Map from what was solved for to the unknowns of the joint torques; None where there is none."""
        torques = self.equation.torque_equation()
        if torques is None or not self.blocks:
            return None
        if self.equation.options.has_torques:
            unknowns = replace(self.unknowns, channels=tuple(c.columns for c in torques.channels))
            u = len(unknowns)
            return _TorqueMap(unknowns, np.eye(u), np.zeros(u), np.zeros((u, 0)))
        return _torque_map_from_plate(self.equation, torques, self.unknowns)


@dataclass(frozen=True, slots=True, eq=False)
class _TorqueMap:
    """Values of torque unknowns: matrix @ (values of what was solved for) + fixed + free @ z, z fitted to torques."""

    unknowns: Unknowns
    matrix: Array
    fixed: Array
    free: Array

    def torque_values(self, solved: Array, blocks: Sequence[Block]) -> Array:
        """Values of the torque unknowns; those that the map leaves free are fitted to the torques of blocks."""
        x = self.matrix @ solved + self.fixed
        if not self.free.shape[1]:
            return np.asarray(x)
        rows, right = [], []
        for block in blocks:
            for c, factor in enumerate(block.factors):
                A, b = self.unknowns.rows_of_factor(block.log, c, factor)
                rows.append(A @ self.free)
                right.append(b - A @ x)
        A = np.concatenate(rows)
        scale = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
        z = np.linalg.lstsq(A / scale, np.concatenate(right), rcond=None)[0] / scale
        return np.asarray(x + self.free @ z)


def _torque_map_from_plate(equation: Equation, torques: Equation, solved: Unknowns) -> _TorqueMap | None:
    """Map from base parameters of the forces to those of the torques; None where these are not determined."""
    relation = relate_sensors(equation.robot, tared=equation.is_tared)
    place = {name: k for k, name in enumerate(solved.names)}
    if (
        relation.lost
        or equation.sensor.hidden_rotor_joints
        or any(name not in place for name in relation.reaction.names)
    ):
        return None
    base, declared = torques.base, torques.robot.declared_rotors
    columns = {name: k for k, name in enumerate(base.columns)}
    unknowns = Unknowns.for_equation(torques, torques.friction, 1)
    unknowns = replace(unknowns, place=np.tile(unknowns.place, (len(solved.place), 1)))
    index = {name: k for k, name in enumerate(unknowns.names)}
    seen = [k for k, name in enumerate(base.names) if name in index]
    M = np.zeros((len(unknowns), len(columns)))
    M[[index[base.names[k]] for k in seen]] = base.regrouping.matrix[seen]
    S = np.zeros((len(relation.S), len(solved)))
    S[:, [place[name] for name in relation.reaction.names]] = relation.S
    rotors = [k for name, k in columns.items() if name.kind == "rotor" and name not in declared]
    known = [base.columns.index(name) for name in declared if name in columns]
    others = [k for name, k in index.items() if name not in base.names]
    return _TorqueMap(
        unknowns,
        M[:, [columns[name] for name in relation.torque.names]] @ S,
        M[:, known] @ np.array([x for name, x in declared.items() if name in columns]),
        np.concatenate([M[:, rotors], np.eye(len(unknowns))[:, others]], axis=1),
    )


def _group_around_block(block: Block, groups: Sequence[tuple[Block, ...]]) -> int:
    """Index of the group that holds the stretch of time around the middle of a block."""
    middle = 0.5 * (block.start + block.stop)
    far = [
        min((max(b.start - middle, middle - b.stop, 0.0) for b in group if b.log == block.log), default=np.inf)
        for group in groups
    ]
    return int(np.argmin(far))
