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
from dynid.estimation.identification import NORMAL
from dynid.estimation.identify import Logs, open_logs
from dynid.estimation.inference.jackknife import Jackknife
from dynid.estimation.inference.selection import DEFAULT, OPTIONAL, choose_friction_blocks
from dynid.estimation.options import Options
from dynid.estimation.regression.structure import random_rows_with_held_joints, standing_joints
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Constraints, build_constraints, solve
from dynid.identifiability.parameters import BaseParameters
from dynid.logs.log import Log, Progress
from dynid.logs.read import list_logs, robot_with_locks_of
from dynid.messages import Message, Option
from dynid.payload.payload import Fit
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
    """Return the robot without known zeros at the link that carries: what is zero of a link need not be of a load."""
    links = list(robot.links)
    links[carrier] = replace(links[carrier], zero=links[carrier].zero - set(SYMBOLS))
    return replace(robot, links=tuple(links))


def known_zeros_of_link(robot: Robot, carrier: int) -> tuple[Parameter, ...]:
    """Names of the inertial parameters of a link that are known to be zero."""
    link = robot.links[carrier]
    return tuple(link.parameter(symbol) for symbol in SYMBOLS if symbol in link.zero)


def payload_names(link: Link) -> tuple[Parameter, ...]:
    """The ten parameters of what a link carries, by their symbols."""
    return tuple(
        Parameter(symbol, symbol=symbol, kind="inertial", unit=unit, link=link.name)
        for symbol, unit in zip(SYMBOLS, UNITS, strict=True)
    )


def payload_to_base_matrix(base: BaseParameters, carrier: int) -> Array:
    """K (count, 10): a payload p in the frame of a link changes the base parameters by K p."""
    first = base.robot.parameter_names.index(base.robot.links[carrier].parameter(SYMBOLS[0]))
    return np.asarray(base.matrix[:, first : first + 10])


REFUSED = "load"
"""Friction that grows with the rigid torque: its column would need the payload that is sought."""


@dataclass(frozen=True, slots=True, eq=False)
class TwoRuns:
    """Logs without the payload first, then those with it, of one equation.

    blocks: without the torques of joints that stood still, which hold any static friction; used (logs, channels): which
    remain. K (base, 10): payload to base parameters. zeros: known zeros of the link that carries, which the payload
    need not share.
    """

    state: State
    robot: Robot
    carrier: int
    unloaded: int
    blocks: tuple[Block, ...]
    used: NDArray[np.bool_]
    K: Array
    zeros: tuple[str, ...]

    def is_loaded(self, log: int) -> bool:
        """Whether the payload was there."""
        return log >= self.unloaded

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
) -> TwoRuns:
    """Read the logs of the loaded and the unloaded runs once, into one state."""
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
    without, carrying = _open_payload_logs(robot, unloaded, "without"), _open_payload_logs(robot, loaded, "with")
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
    count = len(without) - sum(repeat.gone and repeat.log < len(without) for repeat in state.repeats)
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
    return TwoRuns(state, free, carrier, count, blocks, used, K, known_zeros_of_link(robot, carrier))


def rewrite_blocks(blocks: tuple[Block, ...], write: Callable[[int, int, Array], Array]) -> tuple[Block, ...]:
    """Blocks with other columns: write(log, channel, R) returns the new rows."""
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


def add_unknowns(
    unknowns: Unknowns, names: Sequence[Parameter], place: NDArray[np.int64], channels: Sequence[Sequence[int]]
) -> Unknowns:
    """Unknowns with further ones; place (logs, new columns): which, -1: none; channels: new columns of each channel."""
    columns = unknowns.place.shape[1]
    shifted = np.where(place >= 0, place + len(unknowns), -1)
    own = tuple(
        np.concatenate([before, columns + np.array(more, dtype=np.int64)])
        for before, more in zip(unknowns.channels, channels, strict=True)
    )
    units = (*unknowns.units, *(name.unit for name in names))
    return Unknowns((*unknowns.names, *names), units, np.hstack([unknowns.place, shifted]), own)


def _used_channels(state: State) -> NDArray[np.bool_]:
    """Whether a channel's torque counts (logs, channels): not where its joint stands still and has friction."""
    equation = state.equation
    used = np.ones((state.logs, len(equation.channels)), dtype=np.bool_)
    if not equation.friction or equation.options.is_scalar:
        return used
    for log, (still, _) in standing_joints(state).items():
        motors = (equation.transmission[:, ~still] != 0.0).any(axis=1)  # motors that turn
        for c, channel in enumerate(equation.channels):
            used[log, c] = motors[channel.motors].all()
    return used


def _open_payload_logs(robot: Robot, logs: Logs, which: str) -> tuple[Log, ...]:
    """Logs with or without the payload, opened; IdentificationError where there are none."""
    if not list_logs(logs):
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
