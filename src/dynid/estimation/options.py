"""Options of an identification: what is compared with the model, how logs are treated and how they are solved.

The base columns are those of the torque in all models of torques. The rows of energy and momentum are integrals over
time of torque rows (with or without the velocity), so parameters that no torque reveals cannot appear in them, and
differences of the functions h or dL/dqd of the kept columns are those of all columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.dynamics.friction import find_friction_block
from dynid.errors import FIX_THE_BASE, IdentificationError
from dynid.estimation.regression.quadrature import POINTS, QUADRATURES
from dynid.logs.filtering import Treatment
from dynid.messages import Option
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.robot import JointColumn, Robot

if TYPE_CHECKING:
    from dynid.estimation.solve.least_squares import Estimator

MODELS = ("torque", "power", "energy", "momentum", "reaction", "torque+reaction")
INTEGRAL = ("energy", "momentum")
ESTIMATORS = ("ols", "wls", "ridge", "huber", "recursive")
INTERVALS = ("jackknife", "white")

PERIODS = 0.25
"""Default window in periods of the upper end of the motion's band."""

POSITION = re.compile(r"spring|sine\d*")
"""Friction blocks that look at the position alone, and do not change with temperature as friction does."""

STRIDES = 8
"""Rows per window: neighbouring windows overlap."""

FEWEST = 8
"""Least steps of the thinned rate in a window."""


def _check_spans(windows: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Begin and end of listed windows, as numbers; raise for what is no such pair."""
    spans = []
    for pair in windows:
        try:
            begin, end = map(float, pair)
        except (TypeError, ValueError):
            begin = end = float("nan")
        if not (np.isfinite([begin, end]).all() and begin < end):
            raise IdentificationError(
                "window_not_a_span", "a list of windows has pairs (begin, end) in s with begin < end, not {pair!r}",
                pair=pair,
            )  # fmt: skip
        spans.append((begin, end))
    if not spans:
        raise IdentificationError("no_windows", "the list of windows is empty", "leave it out, or name some")
    return tuple(spans)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Options:
    """Options of `identify` and its relatives, checked when they are made; `identify` says what each means.

    Which logs validate and who follows the progress are not options: they come with the logs. `resolve` checks the
    options against a robot and fills in what they leave to it.
    """

    model: str = "torque"
    window: float | Sequence[tuple[float, float]] | None = None
    quadrature: str = "smooth"
    sensor: ForceSensor | str | Path | None = None
    partial: bool = False
    unknown: Sequence[str] | None = None
    friction: str | Sequence[str] = "auto"
    rotor_inertia: bool = True
    estimator: str | Estimator = "wls"
    cutoff: float | None = None
    columns: Sequence[JointColumn] = ()
    joints: Sequence[str] | None = None
    known: Mapping[str, float] = field(default_factory=dict)
    equal: Sequence[tuple[str, str]] = ()
    offsets_per_log: bool = False
    friction_per_log: bool = False
    delay: float = 0.0
    intervals: str = "jackknife"
    prefer: str | Sequence[str] | None = None
    spans: tuple[tuple[float, float], ...] = ()
    """Begin and end (s) of every balance, where a list of windows was given; `window` is the longest then."""

    def __post_init__(self) -> None:
        put = object.__setattr__  # the only writes: values of the caller become values of our own
        if self.window is not None and not isinstance(self.window, (int, float)):
            put(self, "spans", _check_spans(self.window))
            put(self, "window", max(end - begin for begin, end in self.spans))
        if self.friction != "auto":
            put(self, "friction", (self.friction,) if isinstance(self.friction, str) else tuple(self.friction))
        if self.unknown is not None:
            put(self, "unknown", (self.unknown,) if isinstance(self.unknown, str) else tuple(self.unknown))
        if self.joints is not None:
            put(self, "joints", tuple(map(str, self.joints)))
        if self.prefer is not None and self.prefer != "data":
            put(self, "prefer", (self.prefer,) if isinstance(self.prefer, str) else tuple(self.prefer) or None)
        put(self, "columns", tuple(self.columns))
        put(self, "known", dict(self.known))
        put(self, "equal", tuple(self.equal))
        self._check_model()
        self._check_friction()
        if self.cutoff is not None and not (np.isfinite(self.cutoff) and self.cutoff > 0.0):
            raise IdentificationError(
                "cutoff_not_positive", "the cut-off must be a positive number of Hz, got {cutoff}", cutoff=self.cutoff,
            )  # fmt: skip
        if not np.isfinite(self.delay):
            raise IdentificationError(
                "delay_not_finite", "the delay must be a number of seconds, got {delay}", delay=self.delay,
            )  # fmt: skip
        if not callable(self.estimator) and self.estimator not in ESTIMATORS:
            raise IdentificationError(
                "unknown_estimator", "there is no estimator '{estimator}'; estimators are {estimators} "
                "and, in Python, functions", estimator=self.estimator, estimators=list(ESTIMATORS),
            )  # fmt: skip
        if self.estimator == "huber" and self.has_reactions:
            raise IdentificationError(
                "huber_with_base_forces", "estimator 'huber' looks for outliers in joint torques only",
                "use 'wls' with forces on the base",
            )  # fmt: skip
        if self.prefer is not None and self.estimator == "recursive":
            raise IdentificationError(
                "recursive_with_preference", "estimator 'recursive' works joint by joint and needs the parameters in "
                "standard order", "leave out {prefer}, or use 'wls'", prefer=Option("prefer"),
            )  # fmt: skip
        if self.intervals not in INTERVALS:
            raise IdentificationError(
                "unknown_intervals", "intervals are 'jackknife' or 'white', not '{intervals}'",
                intervals=self.intervals,
            )  # fmt: skip

    def _check_model(self) -> None:
        """Raise for models, quadratures and windows that do not exist or do not go together."""
        if self.model not in MODELS:
            raise IdentificationError(
                "unknown_model", "there is no model '{model}'; models are {models}", model=self.model,
                models=list(MODELS),
            )  # fmt: skip
        if self.quadrature not in QUADRATURES:
            raise IdentificationError(
                "unknown_quadrature", "there is no quadrature '{quadrature}'; quadratures are {quadratures}",
                quadrature=self.quadrature, quadratures=list(QUADRATURES),
            )  # fmt: skip
        if self.window is not None and not 0.0 < self.window_seconds < float("inf"):
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
        for name, given in (("sensor", self.sensor is not None), ("partial", self.partial)):
            if given and not self.has_reactions:
                raise IdentificationError(
                    "model_without_base_forces", "model '{model}' uses no force plate; {option} applies to reaction "
                    "models", model=self.model, option=Option(name),
                )  # fmt: skip

    def _check_friction(self) -> None:
        """Raise for friction blocks that do not exist or that the model does not feel."""
        blocks = self.friction_blocks or ()
        if not self.has_torques:
            if blocks:
                raise IdentificationError(
                    "friction_with_reaction_model", "forces on the base do not depend on friction:",
                    "leave friction out with {model}", model=Option("model", "reaction"),
                )  # fmt: skip
            if self.columns:
                raise IdentificationError(
                    "columns_with_reaction_model", "columns are torques of joints:",
                    "leave columns out with {model}", model=Option("model", "reaction"),
                )  # fmt: skip
        for name in blocks:
            find_friction_block(name)
        if len(set(blocks)) < len(blocks):
            raise IdentificationError(
                "friction_block_twice", "a friction block is named twice: {blocks}", blocks=list(blocks),
            )  # fmt: skip

    def resolve_for_robot(self, robot: Robot) -> Options:
        """Return the options for one robot: its own columns beside the user's, joints in use, what is unknown."""
        if robot.floating:
            raise IdentificationError(
                "floating_base", "'{robot}' floats; logs of joint torques are identified on a fixed base", "{fix}",
                robot=robot.name, fix=FIX_THE_BASE,
            )  # fmt: skip
        names = robot.joint_names if self.joints is None else self._chosen_joint_names(robot)
        if (self.is_scalar or self.has_reactions) and len(names) < robot.n:
            raise IdentificationError(
                "joints_with_summed_model", "model '{model}' adds up all joints; {option} applies to torque and "
                "momentum", model=self.model, option=Option("joints"),
            )  # fmt: skip
        columns = (*robot.columns, *self.columns) if self.has_torques else ()
        if len({column.name for column in columns}) < len(columns):
            raise IdentificationError("column_name_twice", "two columns have the same name")
        columns = tuple(column for column in columns if column.joint in names or column.joint not in robot.joint_names)
        unknown = tuple(robot.unknown if self.unknown is None else self.unknown)
        if unknown and (self.has_reactions or self.model == "energy"):
            raise IdentificationError(
                "model_needs_geometry", "model '{model}' needs the geometry; with {unknown} unknown use torque, power "
                "or momentum", model=self.model, unknown=list(unknown),
            )  # fmt: skip
        if unknown and self.prefer is not None:
            raise IdentificationError(
                "preference_without_geometry", "{prefer} chooses among base parameters; with {unknown} unknown there "
                "are model parameters", "leave it out", prefer=Option("prefer"), unknown=list(unknown),
            )  # fmt: skip
        return replace(self, columns=columns, joints=names, unknown=unknown)

    def _chosen_joint_names(self, robot: Robot) -> tuple[str, ...]:
        """Names of the chosen joints in the robot's order."""
        chosen = tuple(self.joints or ())
        unknown = [name for name in chosen if name not in robot.joint_names]
        if unknown or not chosen:
            what = f"no joint '{unknown[0]}'" if unknown else "no joint named"
            raise IdentificationError(
                "unknown_joint", "{what}; joints are {joint_names}", what=what, joint_names=list(robot.joint_names),
            )  # fmt: skip
        return tuple(name for name in robot.joint_names if name in chosen)

    def joint_indices(self, robot: Robot) -> tuple[int, ...]:
        """Indices of the joints whose torques are used."""
        return tuple(j for j, name in enumerate(robot.joint_names) if self.joints is None or name in self.joints)

    def row_options(self) -> Options:
        """Return the options that decide about the rows of an equation, all others at their defaults."""
        return Options(
            model=self.model, window=self.window, spans=self.spans, quadrature=self.quadrature, unknown=self.unknown,
            rotor_inertia=self.rotor_inertia, columns=self.columns, joints=self.joints, prefer=self.prefer,
        )  # fmt: skip

    def with_model(self, model: str) -> Options:
        """Return the options for another model; window and quadrature stay where it has them."""
        if model in INTEGRAL:
            return replace(self, model=model, sensor=None, partial=False)
        return replace(self, model=model, window=None, spans=(), quadrature="smooth", sensor=None, partial=False)

    def options_off_default(self) -> tuple[Option, ...]:
        """Return the options that are not at their defaults."""
        default = Options()
        found = [(item.name, getattr(self, item.name)) for item in fields(self)]
        return tuple(Option(name, value) for name, value in found if value != getattr(default, name))

    def command_line_options(self) -> list[Option] | None:
        """Return the options not at their defaults for the command line; None where one cannot be given there."""
        typed = list[Option]()
        for option in self.options_off_default():
            match option.keyword:
                case "window" if self.spans:
                    continue
                case "spans":
                    typed.append(Option("window", ",".join(f"{begin:g}:{end:g}" for begin, end in self.spans)))
                case "columns" | "intervals":
                    return None
                case "estimator" if callable(option.value):
                    return None
                case "sensor" if isinstance(option.value, ForceSensor):
                    return None
                case "known":
                    typed += [Option("known", {name: value}) for name, value in option.value.items()]
                case "equal":
                    typed += [Option("equal", {first: second}) for first, second in option.value]
                case _:
                    typed.append(option)
        return typed

    @property
    def friction_blocks(self) -> tuple[str, ...] | None:
        """Friction blocks; None where cross validation chooses among those of the recipe."""
        if self.friction == "auto":
            return None if self.has_torques else ()
        return tuple(self.friction)

    @property
    def required_channels(self) -> tuple[str, ...]:
        """Channels that a log must have."""
        torques = ("tau",) if self.has_torques else ()
        return (*torques, "reaction") if self.has_reactions else torques

    @property
    def is_robust(self) -> bool:
        """Whether outliers are detected in the raw torques."""
        return self.estimator == "huber"

    @property
    def is_integral(self) -> bool:
        """Whether rows are balances over windows of time."""
        return self.model in INTEGRAL

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

    @property
    def window_seconds(self) -> float:
        """Length of a balance (s), of the longest where a list was given."""
        assert isinstance(self.window, (int, float))
        return self.window

    def half_window(self, treatment: Treatment) -> int:
        """Half a window in instants of the downsampled rate."""
        if not self.is_integral:
            return 0
        if self.spans:
            return math.ceil(0.5 * self.window_seconds * treatment.row_writing_rate)
        return max(FEWEST // 2, round(0.5 * self.window_seconds * treatment.row_writing_rate))

    def context_samples(self, treatment: Treatment) -> int:
        """Samples that a row needs on each side beyond those of its filters."""
        return treatment.downsampling_step * (self.half_window(treatment) + POINTS // 2 + 1) if self.is_integral else 0

    def row_stride(self, treatment: Treatment) -> int:
        """Least distance from row to row, in instants of the downsampled rate."""
        return max(1, 2 * self.half_window(treatment) // STRIDES)

    def friction_blocks_per_log(self, blocks: Sequence[str]) -> tuple[str, ...]:
        """Friction blocks with own parameters in every log; torques that depend on position stay the robot's."""
        if self.friction_per_log:
            return tuple(name for name in blocks if not POSITION.fullmatch(name))
        return ("offset",) if self.offsets_per_log else ()

    def refuse_own_friction_with_outliers(self, logs: int) -> None:
        """Raise where friction or offsets of several logs are asked for and outliers are to be detected."""
        if self.is_robust and logs > 1 and (self.offsets_per_log or self.friction_per_log):
            raise IdentificationError(
                "huber_with_log_offsets", "estimator 'huber' cannot give each log its own offsets or friction",
                "identify the logs one by one",
            )  # fmt: skip

    def refuse_offsets_without_block(self, friction: tuple[str, ...]) -> None:
        """Raise where offsets per log are asked for without the friction block 'offset'."""
        if self.offsets_per_log and "offset" not in friction:
            raise IdentificationError(
                "log_offsets_without_offset", "{option} needs the friction block 'offset', which is not used here",
                option=Option("offsets_per_log", True),
            )  # fmt: skip

    def refuse_friction_per_log_without_block(self, friction: tuple[str, ...]) -> None:
        """Raise where friction per log is asked for without friction."""
        if self.friction_per_log and not self.friction_blocks_per_log(friction):
            raise IdentificationError(
                "log_friction_without_block", "{option} needs friction blocks, and none is used here",
                option=Option("friction_per_log", True),
            )  # fmt: skip
