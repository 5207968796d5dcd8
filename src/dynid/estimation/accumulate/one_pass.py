"""One pass over the logs: rows become factors per block of time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynid.errors import LogError
from dynid.estimation.accumulate.factor import Block, ChannelFactor, merge_factors, triangularise
from dynid.estimation.accumulate.state import State
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import Rows, rows_of_log
from dynid.estimation.solve.robust import OutlierModel
from dynid.logs.filtering import Treatment
from dynid.logs.findings import Findings
from dynid.logs.log import Log
from dynid.logs.survey import Survey
from dynid.messages import Message
from dynid.robot.transform import Array

BLOCK = 1.0
"""Seconds of a block, as long as there are few."""

MOST_BLOCKS = 128
MOST_BYTES = 128_000_000
KEPT_BYTES = 16_000_000

SURE = 0.8
"""Share of an estimated length that a log has at least."""

LEAST_AT_REST = 0.05
"""Share of rows at rest from which on a log says so."""

RAMP = 0.5
"""Part of a block at each end over which it passes into its neighbour, where both ends are taken together."""


def accumulate(
    state: State,
    logs: Sequence[Log],
    surveys: tuple[Survey, ...],
    treatments: tuple[Treatment, ...],
    *,
    block: float = BLOCK,
    most: int | None = None,
    outliers: OutlierModel | None = None,
) -> State:
    """Read all logs once into a state of the same equation; of each log at most about `most` samples.

    outliers: those of raw torques (see `robust`).
    """
    equation = state.equation
    collector = _BlockCollector(equation, block)
    findings = []
    for number, (log, seen, treatment) in enumerate(zip(logs, surveys, treatments, strict=True)):
        found = Findings(log.name, seen.rate, notes=list(log.notes))
        collector.begin_log(seen.seconds)
        for rows in rows_of_log(
            equation, log, number=number, seen=seen, treatment=treatment, found=found, outliers=outliers
        ):
            collector.add_rows(rows)
            if most is not None and found.samples >= most:
                break
        if collector.at_rest > LEAST_AT_REST * collector.rows:
            found.notes += [_describe_rest(100.0 * collector.at_rest / collector.rows)]
        if most is None and 0 < collector.rows < len(equation.options.spans):
            found.notes += [_describe_windows_left_out(equation.options, collector.rows, treatment)]
        found.notes += found.describe_positions_beyond_limits(equation.robot.joint_names)
        if not collector.end_log() or found.strays.count > max(10.0, 0.2 * found.samples):
            raise LogError(log.name, _explain_too_short(equation.options, seen, treatment, found))
        findings.append(found)
    blocks, settling, kept = tuple(collector.blocks), tuple(collector.settling), tuple(collector.kept)
    return replace(
        state, blocks=blocks, settling=settling, kept=kept, findings=tuple(findings), floor=tuple(collector.floor),
        repeats=(), torques=(),
    )  # fmt: skip


def _describe_rest(percent: float) -> Message:
    """Message on how much of a log is at rest."""
    return Message(
        "rests", "the robot rests in {percent:.0f} % of the rows, where positions do not determine dry friction: they "
        "hardly count in a fit", percent=percent,
    )  # fmt: skip


WINDOWS_LEFT_OUT = "windows_left_out"


def _describe_windows_left_out(options: Options, used: int, treatment: Treatment) -> Message:
    """Message on listed windows that gave no row."""
    return Message(
        WINDOWS_LEFT_OUT, "{out} of {listed} windows are left out: they are not inside the recording without its gaps "
        "and the filter's edges ({edge:.2g} s at each end)", "give windows inside it",
        out=len(options.spans) - used, listed=len(options.spans), edge=treatment.trimmed_samples / treatment.rate,
    )  # fmt: skip


def _explain_too_short(options: Options, seen: Survey, treatment: Treatment, found: Findings) -> Message:
    """Message on why a log gave no rows, with the remedy."""
    disordered = found.out_of_order + found.strays.count
    if disordered > 0.1 * found.samples:
        return Message(
            "rows_not_in_time_order", "{disordered} of {rows} rows are not in the order of time",
            "sort the file by its time, or name the column of time", disordered=disordered, rows=found.samples,
        )  # fmt: skip
    facts = {"rows": found.samples, "rate": seen.rate, "gaps": found.gaps, "cutoff": treatment.cutoff}
    if options.spans:
        return Message(
            "windows_outside_log", "none of the windows lies inside it without its gaps and the filter's edges "
            "({edge:.2g} s at each end)", "give windows between its first and last instant, {begin:.4g} and "
            "{end:.4g} s",
            edge=treatment.trimmed_samples / treatment.rate, begin=seen.samples.t[0], end=seen.samples.t[-1], **facts,
        )  # fmt: skip
    if options.is_integral:
        half, samples = (
            options.half_window(treatment),
            treatment.shortest_segment + 2 * options.context_samples(treatment),
        )
        return Message(
            "no_piece_as_long_as_window", "no piece of it is as long as a window of {window:.2g} s with its "
            "surroundings ({seconds:.2g} s; {rows} rows at {rate:.4g} Hz, {gaps} gaps)",
            "record longer or give a shorter window", window=2 * half / treatment.row_writing_rate,
            seconds=samples / treatment.rate, **facts,
        )  # fmt: skip
    if treatment.cutoff is None:
        return Message("no_samples_left", "no usable samples are left", **facts)
    return Message(
        "no_piece_as_long_as_filter", "no piece of it is as long as the filter needs ({seconds:.2g} s at a cut-off of "
        "{cutoff:.3g} Hz; {rows} rows at {rate:.4g} Hz, {gaps} gaps)", "record longer or raise the cut-off",
        seconds=treatment.shortest_segment / treatment.rate, **facts,
    )  # fmt: skip


class _BlockCollector:
    """Blocks under way: rows wait until their block is complete, neighbours merge when blocks become many."""

    def __init__(self, equation: Equation, length: float) -> None:
        self.equation = equation
        self.length = length
        self.blocks: list[Block] = []
        self.settling: list[tuple[ChannelFactor, ...]] = []
        self.unsettled: dict[int, tuple[ChannelFactor, ...]] = {}
        self.floor: list[tuple[ChannelFactor, ...]] = []
        self.noise: list[Array] = []
        self.kept: list[Rows] = []
        self.kept_every, self.seen = 1, 0
        self.waiting: list[Rows] = []
        self.key: tuple[int, int] | None = None
        self.origin = 0.0
        self.first_block = self.rows = self.at_rest = 0
        size = sum((len(c.columns) + 1) ** 2 for c in equation.channels) * 8
        self.most = int(np.clip(MOST_BYTES / (4 * size), 16, MOST_BLOCKS))
        self.has_stops = equation.shapes.has_stops

    def begin_log(self, seconds: float) -> None:
        """Start the next log: counts of its blocks and rows begin here.

        seconds: its length as far as known. Blocks that neighbours would merge into anyway are made at once.
        """
        while SURE * seconds > 2 * self.most * self.length:
            self.length *= 2.0
        self.settling.append(tuple(ChannelFactor.empty(len(c.columns)) for c in self.equation.channels))
        self.first_block = len(self.blocks)
        self.unsettled = {}
        self.key = None
        self.rows = self.at_rest = 0

    def end_log(self) -> bool:
        """Close the log; return whether it had any rows."""
        self._close_block()
        self._drop_unsettled_rows()
        self.blocks[self.first_block :] = _absorb_blocks_at_rest(self.blocks[self.first_block :])
        self._collect_noise_factors()
        found = len(self.blocks) > self.first_block
        if len(self.blocks) > 4 * self.most:  # many logs: at least one block of each remains
            self.blocks = merge_neighbours(self.blocks)
            self.length *= 2.0
        return found

    def add_rows(self, rows: Rows) -> None:
        """Add the next rows of the log, cut at the bounds of blocks."""
        if rows.noise is not None:
            self.noise.append(rows.noise)
        self._keep_rows_for_checks(rows)
        self.rows += len(rows.t)
        self.at_rest += 0 if rows.share.min() == 1.0 else int((rows.share < 1.0).all(axis=1).sum())
        if self.key is None or self.key[0] != rows.segment:
            self._close_block()
            self.origin = float(rows.t[0])
        number = np.floor((rows.t - self.origin) / self.length).astype(np.int64)
        bounds = [0, *(np.flatnonzero(np.diff(number)) + 1), len(rows.t)]
        for start, stop in itertools.pairwise(bounds):
            key = (rows.segment, int(number[start]))
            if self.key is not None and key != self.key:
                self._close_block()
            self.key = key
            self.waiting.append(_slice_rows(rows, slice(start, stop)))
        self.waiting[-1] = _lasting_rows(self.waiting[-1])

    def _close_block(self) -> None:
        """Compress the waiting rows into a block."""
        if not self.waiting:
            return
        alone = len(self.waiting) == 1
        wide = self.waiting[0].wide if alone else np.concatenate([rows.wide for rows in self.waiting])
        settled = self.waiting[0].settled if alone else np.concatenate([rows.settled for rows in self.waiting])
        counts = self.waiting[0].good if alone else np.concatenate([rows.good for rows in self.waiting])
        in_fit = np.concatenate([rows.share for rows in self.waiting])
        log = len(self.settling) - 1
        t = np.concatenate([rows.t for rows in self.waiting])
        trials = [x for x in (rows.trials for rows in self.waiting) if x is not None]
        parts = [x.row_changes() for x in trials]
        factors, unsettled, head, tail, noise = (list[ChannelFactor]() for _ in range(5))
        from_ends = ((head, t - t[0]), (tail, t[-1] - t))
        ramps = [(ramp, *_ramp_weights(s, self.length)) for ramp, s in from_ends] if self.noise else []
        for channel in self.equation.channels:
            rows = channel.rows_in_wide(wide)
            good = channel.are_rows_settled(settled) if self.has_stops else np.ones(len(wide), dtype=np.bool_)
            used = channel.are_rows_settled(counts)
            share = np.where(good & used, channel.row_weights(in_fit), 0.0)
            fitted, left = _split_rows(rows, share, used)
            factors.append(fitted)
            unsettled.append(left)
            for ramp, part, shares in ramps:
                weights = shares * np.sqrt(share[part])
                own = slice(None) if share[part].all() else share[part] > 0.0
                ramp.append(ChannelFactor.from_rows(rows[part][own] * weights[own, None]))
            if parts:
                changes = np.concatenate([channel.rows_in_wide(part) for part in parts])
                per_row = factors[-1].count / sum(map(len, trials))
                noise.append(_factor_of_changes(changes, np.sqrt(per_row)))
        if any(factor.count for factor in unsettled):
            self.unsettled[len(self.blocks)] = tuple(unsettled)
        start, stop = float(t[0]), float(t[-1])
        self.blocks.append(Block(log, start, stop, tuple(factors), tuple(head), tuple(tail), tuple(noise)))
        self.waiting = []
        if len(self.blocks) - self.first_block > 2 * self.most:
            self._merge_unsettled_counts_in_pairs()
            merged = merge_neighbours(self.blocks[self.first_block :])
            self.blocks[self.first_block :] = merged
            self.length *= 2.0
            self.key = None

    def _collect_noise_factors(self) -> None:
        """Add factors of the changes by noise, scaled from the rows on which it was tried to all of this log.

        With those of the accelerations, which every block has of its own.
        """
        wide = np.concatenate(self.noise) if self.noise else np.zeros((0, self.equation.channels[-1].stop))
        factors = []
        blocks = self.blocks[self.first_block :]
        for c, channel in enumerate(self.equation.channels):
            total = sum(block.factors[c].count for block in blocks)
            tried = ChannelFactor.from_rows(channel.rows_in_wide(wide) * np.sqrt(total / max(len(wide), 1)))
            factors.append(merge_factors([tried, *(block.noise[c] for block in blocks if block.noise)]))
        self.floor.append(tuple(factors))
        self.noise = []

    def _drop_unsettled_rows(self) -> None:
        """Move unsettled rows out of the blocks; keep them where most rows of a joint are such, as it never moved."""
        log = len(self.settling) - 1
        settling = list(self.settling[log])
        for c in range(len(settling)):
            settled = sum(block.factors[c].count for block in self.blocks[self.first_block :])
            if sum(factors[c].count for factors in self.unsettled.values()) <= settled:
                settling[c] = merge_factors([settling[c], *(factors[c] for factors in self.unsettled.values())])
                continue
            for place, unsettled in self.unsettled.items():
                block = self.blocks[place]
                own = list(block.factors)
                own[c] = merge_factors([own[c], unsettled[c]])
                self.blocks[place] = replace(block, factors=tuple(own))
                none = ChannelFactor.empty(len(self.equation.channels[c].columns))
                self.unsettled[place] = (*unsettled[:c], none, *unsettled[c + 1 :])
        self.settling[log] = tuple(settling)
        for place, unsettled in self.unsettled.items():
            self.blocks[place] = replace(self.blocks[place], unsettled=unsettled)

    def _merge_unsettled_counts_in_pairs(self) -> None:
        """Merge the counts of unsettled rows in pairs, as `merge_neighbours` does with the blocks of this log."""
        first, merged = self.first_block, dict[int, tuple[ChannelFactor, ...]]()
        for place, factors in self.unsettled.items():
            new = first + (place - first) // 2
            before = merged.get(new)
            merged[new] = (
                factors if before is None else tuple(merge_factors(pair) for pair in zip(before, factors, strict=True))
            )
        self.unsettled = merged

    def _keep_rows_for_checks(self, rows: Rows) -> None:
        """Keep some of the rows, spread over all logs, for checks of the residuals."""
        self.seen += 1
        if self.seen % self.kept_every:
            return
        self.kept.append(replace(_lasting_rows(rows), trials=None))
        while len(self.kept) > 1 and sum(r.wide.nbytes for r in self.kept) > KEPT_BYTES:
            self.kept = self.kept[::2]
            self.kept_every *= 2


def _split_rows(rows: Array, share: Array, used: NDArray[np.bool_]) -> tuple[ChannelFactor, ChannelFactor]:
    """Factors of the shares (K,) of rows that are fitted, and of what is left of those used; they add up to all.

    A row that is fitted in part is counted among those left.
    """
    whole = share == 1.0
    if whole.all():
        return ChannelFactor.from_rows(rows), ChannelFactor.from_rows(rows[:0])
    left, y = used & ~whole, rows[:, -1]
    R_fit, R_left = (triangularise(rows[s > 0.0] * np.sqrt(s[s > 0.0])[:, None]) for s in (share, left * (1.0 - share)))
    return (
        ChannelFactor(R_fit, int(whole.sum()), float(y[whole].sum())),
        ChannelFactor(R_left, int(left.sum()), float(y[left].sum())),
    )


def _absorb_blocks_at_rest(blocks: list[Block]) -> list[Block]:
    """Blocks of a log, those during which the robot rested merged into their neighbours."""
    moving = [k for k, block in enumerate(blocks) if any(factor.count for factor in block.factors)]
    if not moving:
        return blocks
    groups = np.split(np.arange(len(blocks)), moving[1:])
    return [
        replace(
            blocks[k],
            factors=_merge_channels([blocks[i].factors for i in group]),
            unsettled=_merge_channels([blocks[i].unsettled for i in group]),
        )
        for k, group in zip(moving, groups, strict=True)
    ]


def _merge_channels(several: Sequence[tuple[ChannelFactor, ...]]) -> tuple[ChannelFactor, ...]:
    """Factors of several blocks merged channel by channel; blocks may have none."""
    some = [factors for factors in several if factors]
    return tuple(merge_factors(own) for own in zip(*some, strict=True)) if some else ()


def _ramp_weights(s: Array, length: float) -> tuple[slice, Array]:
    """Range of rows within the ramp of a block, s (rows,) from its end, and square roots of their shares."""
    near = np.flatnonzero(s < RAMP * length)
    part = slice(int(near[0]), int(near[-1]) + 1)
    return part, np.sqrt(0.5 - 0.5 * np.sin(0.5 * np.pi * s[part] / (RAMP * length)))


def merge_neighbours(blocks: list[Block]) -> list[Block]:
    """Merge blocks in pairs; those of different logs stay apart."""
    merged: list[Block] = []
    k = 0
    while k < len(blocks):
        left = blocks[k]
        if k + 1 < len(blocks) and blocks[k + 1].log == left.log:
            right = blocks[k + 1]
            factors, noise, unsettled = (
                _merge_channels(pair)
                for pair in (
                    (left.factors, right.factors), (left.noise, right.noise), (left.unsettled, right.unsettled),
                )
            )  # fmt: skip
            merged.append(Block(left.log, left.start, right.stop, factors, left.head, right.tail, noise, unsettled))
            k += 2
        else:
            merged.append(left)
            k += 1
    return merged


def _slice_rows(rows: Rows, part: slice) -> Rows:
    """Slice of rows, with the changes by noise that belong to them."""
    trials = None if rows.trials is None else rows.trials.select_rows(part)
    return Rows(
        rows.log, rows.segment, rows.t[part], rows.q[part], rows.v[part], rows.a[part], rows.wide[part],
        rows.settled[part], rows.good[part], rows.share[part], trials=trials, is_kept=rows.is_kept,
    )  # fmt: skip


MANY_CHANGES = 20
"""Rows of changes by noise from which those of joints that a channel does not feel are left out: all zeros."""


def _factor_of_changes(changes: Array, weight: float) -> ChannelFactor:
    """Factor of changes by noise; in a tree, a channel feels accelerations of few joints."""
    felt = changes[changes.any(axis=1)] if len(changes) >= MANY_CHANGES else changes
    return replace(ChannelFactor.from_rows(felt * weight), count=len(changes))


def _lasting_rows(rows: Rows) -> Rows:
    """Rows that stay as they are where the writer of rows uses its memory again."""
    return replace(rows, wide=rows.wide if rows.is_kept else rows.wide.copy(), noise=None)


def total_factors(blocks: list[Block] | tuple[Block, ...]) -> dict[int, tuple[ChannelFactor, ...]]:
    """Merge blocks into one factor per channel for every log."""
    logs = sorted({block.log for block in blocks})
    return {
        log: tuple(
            merge_factors(list(column)) for column in zip(*(b.factors for b in blocks if b.log == log), strict=True)
        )
        for log in logs
    }
