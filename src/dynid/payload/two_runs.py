"""Runs without and with a payload in one state: which torques count, which friction, and what random motion tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid.errors import FIX_THE_BASE, IdentificationError, LogError, LoopError
from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.logs import collect_logs
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.accumulate.state import State
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable, describe_identified_sums, find_revealing_motion
from dynid.estimation.diagnostics.verdict import FEW_BLOCKS, WEAK_MEAN
from dynid.estimation.identification import NORMAL
from dynid.estimation.identify import Logs, open_logs
from dynid.estimation.inference.cross_validation import DEFAULT, OPTIONAL, choose_friction_blocks
from dynid.estimation.inference.jackknife import Jackknife
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import (
    Constraints,
    build_constraints,
    random_rows_with_held_joints,
    solve,
    standing_joints,
)
from dynid.identifiability.parameters import BaseParameters
from dynid.identifiability.relations import Regrouping
from dynid.logs.log import Log, Progress
from dynid.logs.read import list_logs, robot_with_locks_of
from dynid.messages import Message, Option
from dynid.payload.payload import Fit, IdentifiablePayload
from dynid.robot.inertia import SYMBOLS, UNITS
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array

# The link that carries a payload, and how the payload's ten parameters join the base parameters.


def find_carrier(robot: Robot, link: str | None) -> int:
    """Index of the link of a name (its own, or its joint's); the last one of a serial robot where none is given."""
    carriers = [k for k, some in enumerate(robot.links) if some.kind != "floating"]
    if link is None:
        parents = {some.parent for some in robot.links}
        ends = [k for k in carriers if k not in parents]
        if len(ends) > 1:
            raise IdentificationError(
                "ambiguous_payload_link", "'{robot}' ends in several links ({links})", "{link} says which one carries",
                robot=robot.name, links=[robot.links[k].name for k in ends], link=Option("link"),
            )  # fmt: skip
        return ends[0]
    found = [k for k in carriers if link in (robot.links[k].name, robot.links[k].joint)]
    if not found:
        raise IdentificationError(
            "unknown_link", "there is no link '{link}' in '{robot}'; links are {links}", link=link, robot=robot.name,
            links=[robot.links[k].name for k in carriers],
        )  # fmt: skip
    return found[0]


def without_known_zeros_at(robot: Robot, carrier: int) -> Robot:
    """Robot without known zeros at the carrying link: what is zero of a link need not be of its payload."""
    links = list(robot.links)
    links[carrier] = replace(links[carrier], zero=links[carrier].zero - set(SYMBOLS))
    return replace(robot, links=tuple(links))


def known_zeros_of_link(robot: Robot, carrier: int) -> tuple[Parameter, ...]:
    """Names of the inertial parameters of a link that are known to be zero."""
    link = robot.links[carrier]
    return tuple(link.parameter(symbol) for symbol in SYMBOLS if symbol in link.zero)


def payload_names(link: Link, count: int = 1) -> tuple[Parameter, ...]:
    """Names of the ten parameters of what a link carries, or of each of several payloads in turn (`M@2`)."""
    return tuple(
        Parameter(f"{symbol}@{k + 1}" if count > 1 else symbol, symbol=symbol, kind="inertial", unit=unit,
                  link=link.name)
        for k in range(count)
        for symbol, unit in zip(SYMBOLS, UNITS, strict=True)
    )  # fmt: skip


def payload_to_base_matrix(base: BaseParameters, carrier: int) -> Array:
    """K (count, 10): a payload p in the frame of a link changes the base parameters by K p."""
    first = base.robot.parameter_names.index(base.robot.links[carrier].parameter(SYMBOLS[0]))
    return np.asarray(base.matrix[:, first : first + 10])


REFUSED = "load"
"""Friction that grows with the rigid torque: its column would need the payload that is sought."""


@dataclass(frozen=True, slots=True, eq=False)
class TwoRuns:
    """Logs without the payload first, then those with it, of one equation.

    loads (logs,): number of the payload in a log, -1 without. blocks: without the torques of joints that stood still,
    which hold any static friction; used (logs, channels): which remain. K (base, 10): payload to base parameters.
    zeros: known zeros of the link that carries, which the payload need not share.
    """

    state: State
    robot: Robot
    carrier: int
    loads: NDArray[np.int64]
    blocks: tuple[Block, ...]
    used: NDArray[np.bool_]
    K: Array
    zeros: tuple[str, ...]

    def is_loaded(self, log: int) -> bool:
        """Whether the robot carried the payload in a log."""
        return bool(self.loads[log] >= 0)

    @property
    def unloaded(self) -> int:
        """Number of logs without a payload, which come first."""
        return int((self.loads < 0).sum())

    @property
    def payload_names(self) -> tuple[Parameter, ...]:
        """Names of the ten parameters of every payload."""
        return payload_names(self.robot.links[self.carrier], int(self.loads.max()) + 1)

    @property
    def mean_posture(self) -> Array:
        """Mean position (n,) in the logs."""
        return np.asarray(np.mean([found.mean for found in self.state.findings], axis=0))

    @property
    def findings_by_log(self) -> tuple[tuple[str, tuple[Message, ...]], ...]:
        """Messages on what was found in every log, by the log's name."""
        return tuple((found.log, tuple(found.sentences)) for found in self.state.findings)

    def fit_from_values(
        self, names: tuple[Parameter, ...], values: Array, deviations: Jackknife | None, friction: tuple[str, ...],
        nrmse: Array,
    ) -> Fit:  # fmt: skip
        """The `Fit` that payloads and gains share, from values and deviations found from these logs."""
        quantile, groups = (NORMAL, 0) if deviations is None else (deviations.quantile, deviations.groups)
        link, cutoff = self.robot.links[self.carrier].name, self.state.cutoff
        return Fit(
            self.robot.name, link, names, values, quantile, groups, friction, cutoff, nrmse, self.findings_by_log,
            self.notes_on_unused_torques(),
        )  # fmt: skip

    def notes_on_unused_torques(self) -> tuple[Message, ...]:
        """Notes on torques that were not used."""
        names = self.state.equation.channel_names
        notes = [note for note in self.robot.notes if note.code == "joints_locked"]
        for log, (found, used) in enumerate(zip(self.state.findings, self.used, strict=True)):
            still = [name for name, some in zip(names, used, strict=True) if not some]
            if still:
                which = "with" if self.is_loaded(log) else "without"
                notes.append(Message(
                    "standing_joint_left_out", "{log} ({which} the payload): joint {joints} stands still; its torque "
                    "holds static friction of any size and is left out", log=found.log, which=which, joints=still,
                ))  # fmt: skip
        return tuple(notes)

    def choose_friction(self, options: Options, scale: Array | None = None) -> tuple[str, ...]:
        """Friction blocks that cross validation admits on the unloaded logs; scale (channels,): of the torques."""
        equation = self.state.equation
        if not self.state.recipe:
            return equation.friction
        blocks = tuple(block for block in self.state.blocks if not self.is_loaded(block.log))
        if scale is not None:
            blocks = tuple(replace(block, factors=_rescale_factors(block.factors, scale)) for block in blocks)
        per_log = options.friction_blocks_per_log((*DEFAULT, *OPTIONAL))
        first = Unknowns.for_equation(equation, DEFAULT, self.unloaded, per_log=per_log)
        noise = solve(first, total_factors(blocks)).noise
        optional = tuple(name for name in OPTIONAL if name != REFUSED)
        return choose_friction_blocks(
            equation, blocks, noise, logs=self.unloaded, per_log=per_log, left_out=self.state.unseen_harmonics,
            optional=optional,
        )[0]  # fmt: skip

    def random_rows(self, unknowns: Unknowns) -> list[tuple[int, int, Array]] | None:
        """Rows (N, unknowns) of random motion with joints held that stood still, as (log, channel, rows).

        None where a closed loop cannot close so: then the data decide alone.
        """
        try:
            rows = random_rows_with_held_joints(self.state, unknowns)
        except LoopError:
            return None
        scalar = self.state.equation.options.is_scalar
        return [
            (log, c, own)
            for log, of_log in enumerate(rows)
            for c, own in enumerate(of_log)
            if scalar or self.used[log, c]
        ]

    def zero_constraints(self, unknowns: Unknowns) -> Constraints | None:
        """Constraints that known zeros of the carrying link stay zero; None without such."""
        return build_constraints(self.state.equation, unknowns, dict.fromkeys(self.zeros, 0.0), (), {})[0]


def collect_two_runs(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs,
    link: str | None,
    options: Options,
    on_progress: Progress | None,
    *,
    several: int | None = None,
    optional: bool = False,
) -> TwoRuns:
    """Read the logs of the loaded and the unloaded runs once, into one state.

    several: number of payloads, each in a loaded log of its own; None: all loaded logs have the same one. optional:
    whether there may be no loaded log at all.
    """
    if robot.floating:
        raise IdentificationError(
            "floating_base", "'{robot}' floats; payloads are identified on a fixed base", "{fix}", robot=robot.name,
            fix=FIX_THE_BASE,
        )  # fmt: skip
    if robot.unknown:
        raise IdentificationError(
            "payload_needs_geometry", "payloads need the geometry, of which '{robot}' declares {unknown} unknown",
            robot=robot.name, unknown=list(robot.unknown),
        )  # fmt: skip
    _refuse_same_logs(loaded, unloaded)
    without = _open_payload_logs(robot, unloaded, "without")
    carrying = _open_payload_logs(robot, loaded, "with", optional=optional)
    if several is not None and several != len(carrying):
        raise IdentificationError(
            "payloads_per_log", "there are {payloads} payloads for {logs} loaded logs",
            "give one payload per loaded log, or one for all of them", payloads=several, logs=len(carrying),
        )  # fmt: skip
    numbers = [*[-1] * len(without), *(k if several else 0 for k in range(len(carrying)))]
    robot = robot_with_locks_of(robot, (*without, *carrying))
    carrier = find_carrier(robot, link)
    free = without_known_zeros_at(robot, carrier)
    options = options.resolve_for_robot(free)
    if REFUSED in (options.friction_blocks or ()):
        raise IdentificationError(
            "load_friction_with_payload", "friction block '{block}' grows with the torque of the payload",
            "leave it out here", block=REFUSED,
        )  # fmt: skip
    state = collect_logs(free, (*without, *carrying), options, torques=False, on_progress=on_progress)
    for repeat in state.repeats:
        if repeat.of < len(without) <= repeat.log:
            raise IdentificationError(
                "loaded_equals_unloaded", "{log}, with the payload, holds samples of {other}, without it",
                "use a run with and one without", log=repeat.name, other=repeat.other,
            )  # fmt: skip
        if several is not None and repeat.log >= len(without):
            raise IdentificationError(
                "loaded_log_given_twice", "{log} holds samples of {other}, with another payload",
                "give every loaded log once", log=repeat.name, other=repeat.other,
            )  # fmt: skip
    gone = {repeat.log for repeat in state.repeats if repeat.gone}
    loads = np.array([number for log, number in enumerate(numbers) if log not in gone], dtype=np.int64)
    used = _used_channels(state)
    for log, found in enumerate(state.findings):
        if not used[log].any():
            raise LogError(
                found.log, "no_joint_moves", "no joint moves in it", "record a motion, or state {friction} if there "
                "is none", friction=Option("friction", ()),
            )  # fmt: skip
    empty = [ChannelFactor.empty(len(channel.columns)) for channel in state.equation.channels]
    blocks = tuple(
        replace(block, factors=tuple(f if used[block.log, c] else empty[c] for c, f in enumerate(block.factors)))
        for block in state.blocks
    )
    K = payload_to_base_matrix(state.equation.base, carrier)
    return TwoRuns(state, free, carrier, loads, blocks, used, K, known_zeros_of_link(robot, carrier))


def poor_fit_warnings(nrmse: Array, *, jackknifed: bool) -> tuple[Message, ...]:
    """Warnings where errors are large or standard deviations are not jackknifed."""
    warnings = [] if jackknifed else [FEW_BLOCKS]
    finite = nrmse[np.isfinite(nrmse)]
    if len(finite) and finite.mean() > WEAK_MEAN:
        warnings.append(Message(
            "torques_not_explained", "the residual is {percent:.0f} % of the signal: is this the right "
            "robot, are units, signs and the order of joints right?", percent=100.0 * float(finite.mean()),
        ))  # fmt: skip
    return tuple(warnings)


def rewrite_blocks(blocks: tuple[Block, ...], write: Callable[[int, int, Array], Array]) -> tuple[Block, ...]:
    """Blocks with other columns; write(log, channel, R) returns the new rows."""
    return tuple(
        replace(
            block,
            factors=tuple(
                ChannelFactor(write(block.log, c, factor.R), factor.count, factor.total)
                for c, factor in enumerate(block.factors)
            ),
        )
        for block in blocks
    )


def _rescale_factors(factors: tuple[ChannelFactor, ...], scale: Array) -> tuple[ChannelFactor, ...]:
    """Factors with each channel's measured torque times a number."""
    return tuple(
        ChannelFactor(np.column_stack([f.R[:, :-1], s * f.R[:, -1]]), f.count, float(s * f.total))
        for f, s in zip(factors, scale, strict=True)
    )


def _used_channels(state: State) -> NDArray[np.bool_]:
    """Mask (logs, channels) of torques that count: not where a joint stands still and has friction."""
    equation = state.equation
    used = np.ones((state.logs, len(equation.channels)), dtype=np.bool_)
    if not equation.friction or equation.options.is_scalar:
        return used
    for log, (still, _) in standing_joints(state).items():
        motors = (equation.transmission[:, ~still] != 0.0).any(axis=1)  # motors that turn
        for c, channel in enumerate(equation.channels):
            used[log, c] = motors[channel.motors].all()
    return used


def _open_payload_logs(robot: Robot, logs: Logs, which: str, *, optional: bool = False) -> tuple[Log, ...]:
    """Open the logs with or without the payload; IdentificationError where there are none but should be."""
    if not list_logs(logs):
        if optional:
            return ()
        raise IdentificationError(
            "missing_payload_run", "there is no log {which} the payload", "give one with and one without it",
            which=which,
        )  # fmt: skip
    return open_logs(robot, logs)


def _refuse_same_logs(loaded: Logs, unloaded: Logs) -> None:
    """Raise where a log is given both with and without the payload."""

    def log_identities(logs: Logs) -> set[object]:
        """Files' paths, and objects of logs in memory."""
        several = [part for log in list_logs(logs) for part in (log if isinstance(log, list | tuple) else [log])]
        return {Path(log).absolute() if isinstance(log, str | PathLike) else id(log) for log in several}

    if log_identities(loaded) & log_identities(unloaded):
        raise IdentificationError(
            "loaded_equals_unloaded", "the same log is given with and without the payload",
            "use a run with and one without",
        )  # fmt: skip


# What a regrouping of the unknowns tells of a payload: which parameters alone, which in sums, which not at all.


SMALL = 1e-6
"""Share of the largest one of a parameter below which it joins another by rounding only."""


def compose_regroupings(first: Regrouping, second: Regrouping | None) -> Regrouping:
    """Regrouping of two in succession: the second regroups what the first kept."""
    if second is None:
        return first
    return Regrouping(tuple(first.kept[k] for k in second.kept), second.matrix @ first.matrix)


def find_identifiable_payload(
    names: Sequence[Parameter],
    regrouping: Regrouping,
    equation: Equation,
    to_base: Array,
    K: Array,
    posture: Array | None,
) -> IdentifiablePayload:
    """Combinations of the payload's parameters that the data determine; to_base (base, robot's) maps the robot's.

    posture (n,): around which motions are tried, to name one that would show what is lost.
    """
    before = len(names) - 10
    kept, M = regrouping.kept, _drop_rounding_shares(regrouping.matrix)
    sums, units, places, lost = [], [], [], []
    for row, k in enumerate(kept):
        if k < before:
            continue
        text = str(names[k])
        for other in range(len(names)):
            share = M[row, other]
            if other != k and share != 0.0:
                factor = "" if abs(abs(share) - 1.0) < SMALL else f"{abs(share):.4g} "
                text += f" {'+' if share > 0 else '-'} {factor}{names[other]}"
        own = names[k]
        sums.append(Parameter(text, symbol=own.symbol, kind="inertial", unit=own.unit, link=own.link))
        units.append(own.unit)
        places.append(row)
    for k in range(before, len(names)):
        if k in kept:
            continue
        terms = [(float(share), names[i]) for i, share in zip(kept, M[:, k], strict=True) if share != 0.0]
        direction = np.zeros(len(names))
        direction[k] = 1.0
        direction[list(kept)] -= M[:, k]
        without = to_base @ direction[:before]
        remedy = _find_remedy(equation, without + K @ direction[before:], without, posture)
        shares = tuple((name, share) for share, name in terms)
        lost.append(Unidentifiable(names[k], describe_identified_sums(terms, names[k]), remedy, shares))
    told = M[places]
    of_payload = np.where(told[:, :before].any(axis=1, keepdims=True), np.nan, told[:, before:])
    return IdentifiablePayload(tuple(sums), tuple(units), places, tuple(lost), of_payload)


def _drop_rounding_shares(matrix: Array) -> Array:
    """Matrix with shares that are mere rounding set to zero."""
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    return np.where(np.abs(matrix) > SMALL * largest, matrix, 0.0)


def _find_remedy(equation: Equation, loaded: Array, unloaded: Array, posture: Array | None) -> Message:
    """Message on a motion that shows a direction of the base parameters, with the payload or without it."""
    size = max(float(np.abs(loaded).max(initial=0.0)), float(np.abs(unloaded).max(initial=0.0)))
    if size < 1e-9:
        if len(equation.joints) < equation.robot.n:
            return Message(
                "no_motion_reveals_it", "no motion shows it in the torques of these joints", "use those of all joints"
            )
        return Message("no_motion_reveals_it", "no motion of this robot shows it in its torques")
    if posture is None:
        return Message("move_more_joints", "record motions that move more joints, with and without the payload")
    which, rigid = ("with", loaded) if np.abs(loaded).max() > 1e-9 * size else ("without", unloaded)
    padded = np.concatenate([rigid, np.zeros(equation.rigid_column_count - len(rigid))])
    motion = find_revealing_motion(equation, padded, posture)
    return Message(motion.code, "{motion} in the logs {which} the payload", **motion.facts, motion=motion, which=which)
