"""The robot: a frozen tree of links with joints, gravity, limits, loops and nominal parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np

from dynid.concurrency import cached_property
from dynid.errors import DynidError
from dynid.messages import Message, html_summary, printable
from dynid.robot.expression import Expression
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.inertia import ROTOR, SYMBOLS, UNITS, change_of_frame
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array, Transform, Vector, freeze
from dynid.storage.files import InputFile
from dynid.storage.records import COMPLETE, HUGE, ROW, Data, Finite, Form, Limit, Null, Numbers, polars_frame

Table = Annotated[Array, Numbers((None,))]


@dataclass(frozen=True, slots=True, eq=False)
class JointColumn:
    """A torque of known shape and unknown size at a joint, such as a gas spring.

    Its shape is a table over the position of one joint, interpolated by a cubic spline and constant beyond its ends, or
    a function of all joints.

    Parameters
    ----------
    name : str
        Name of the column, and of its parameter.
    joint : str
        Joint on which the torque acts.
    of : str
        Joint over whose position the table is given. Default: `joint`.
    positions : (k,) array_like, optional
        Increasing positions of the table, rad or m.
    torque : (k,) array_like, optional
        Torque at these positions, N m or N.
    function : callable, optional
        function(q, v) of arrays (N, n) of all active joints that returns (N,). It is not written to files.

    Raises
    ------
    DynidError
        If neither a table nor a function is given, or the table is wrong.

    Examples
    --------
    >>> from dynid import JointColumn
    >>> JointColumn("spring", "2", positions=[-1.0, 0.0, 1.0], torque=[2.0, 0.0, -2.0]).parameter
    'spring'
    """

    name: str
    joint: str
    of: str = ""
    positions: Table | None = None
    torque: Table | None = None
    function: Callable[[Array, Array], Array] | None = None

    def __post_init__(self) -> None:
        if not self.of:
            object.__setattr__(self, "of", self.joint)
        if self.function is not None:
            if self.positions is not None or self.torque is not None or self.of != self.joint:
                raise DynidError(
                    "column_function_with_table", "column '{column}' has a function of all joints:",
                    "leave out of, positions and torque", column=self.name,
                )  # fmt: skip
            return
        if self.positions is None or self.torque is None:
            raise DynidError(
                "column_incomplete", "column '{column}' needs positions and torque, or a function of q and v",
                column=self.name,
            )  # fmt: skip
        x, y = np.array(self.positions, dtype=np.float64), np.array(self.torque, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DynidError(
                "column_table_mismatch", "column '{column}' needs two lists of the same length, at least two finite "
                "numbers each", column=self.name,
            )  # fmt: skip
        if np.any(np.diff(x) <= 0.0):
            raise DynidError(
                "column_positions_not_increasing", "column '{column}': positions must increase", column=self.name,
            )  # fmt: skip
        object.__setattr__(self, "positions", freeze(x))
        object.__setattr__(self, "torque", freeze(y))

    @property
    def parameter(self) -> Parameter:
        """Parameter of the column: its size, which is identified."""
        return Parameter(self.name, symbol=self.name, kind="column", unit="1", joint=self.joint)

    def values(self, joint_names: tuple[str, ...], q: Array, v: Array) -> Array:
        """Values of the column along a motion.

        Parameters
        ----------
        joint_names : tuple of str
            Names of the active joints.
        q : (N, n) array
            Positions, rad or m.
        v : (N, n) array
            Velocities, rad/s or m/s.

        Returns
        -------
        (N,) array
            Torque for a size of 1.

        Raises
        ------
        DynidError
            If the function fails or returns something else.
        """
        if self.function is not None:
            try:
                column = np.asarray(self.function(q, v), dtype=np.float64)
            except (TypeError, ValueError, IndexError) as error:
                raise DynidError(
                    "column_function_failed", "column '{column}': its function failed: {reason}", column=self.name,
                    reason=error,
                ) from error  # fmt: skip
            if column.shape != (len(q),) or not np.isfinite(column).all():
                raise DynidError(
                    "column_function_wrong_result", "column '{column}': its function must return {samples} finite "
                    "numbers (N,)", column=self.name, samples=len(q),
                )  # fmt: skip
            return column
        from scipy.interpolate import CubicSpline

        assert self.positions is not None
        x = np.clip(q[:, joint_names.index(self.of)], self.positions[0], self.positions[-1])
        return np.asarray(CubicSpline(self.positions, np.asarray(self.torque))(x))


def _restore_column(data: Data) -> Data:
    """Data of a column; where it was a function, using it is an error that says so."""

    def refuse_missing_function(q: object, v: object) -> object:
        """Stand in for a function that was not stored."""
        raise DynidError(
            "column_function_not_stored", "column '{column}' was a Python function, which no file holds",
            "pass it again with columns=[...]", column=data["name"],
        )  # fmt: skip

    positions, torque = data.pop("positions", None), data.pop("torque", None)
    is_table = positions is not None and torque is not None
    return data | ({"positions": positions, "torque": torque} if is_table else {"function": refuse_missing_function})


StoredColumn = Annotated[JointColumn, Form(drop=("function",), read=_restore_column)]


# Limits of the active joints, infinite where nobody published one.


Unlimited = Annotated[float, Null(np.inf, HUGE)]
Kilograms = Annotated[float, Limit(gt=0.0, le=HUGE)]


@dataclass(frozen=True, slots=True)
class JointLimits:
    """Limits of one joint; m and N in place of rad and N m for prismatic joints.

    Parameters
    ----------
    lower : float
        Smallest position, rad.
    upper : float
        Largest position, rad.
    velocity : float
        Largest speed, rad/s.
    acceleration : float
        Largest acceleration, rad/s^2.
    effort : float
        Largest torque, N m.
    """

    lower: Annotated[float, Null(-np.inf, HUGE)] = -np.inf
    upper: Unlimited = np.inf
    velocity: Unlimited = np.inf
    acceleration: Unlimited = np.inf
    effort: Unlimited = np.inf


UNLIMITED = JointLimits()


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Limits of n joints, infinite where unknown.

    Parameters
    ----------
    position : (n, 2) array
        Lower and upper position, rad or m.
    velocity : (n,) array
        Largest speed, rad/s or m/s.
    acceleration : (n,) array
        Largest acceleration, rad/s^2 or m/s^2.
    effort : (n,) array
        Largest torque or force, N m or N.
    jerk : (n,) array
        Largest jerk, rad/s^3 or m/s^3.
    """

    position: Array
    velocity: Array
    acceleration: Array
    effort: Array
    jerk: Array = field(default_factory=lambda: freeze(np.inf))

    def __post_init__(self) -> None:
        object.__setattr__(self, "jerk", np.broadcast_to(self.jerk, np.shape(self.velocity)))

    @staticmethod
    def stack(joints: Sequence[JointLimits]) -> Limits:
        """Stack the limits of single joints into arrays.

        Parameters
        ----------
        joints : sequence of JointLimits
            One per joint.

        Returns
        -------
        Limits
            The same limits as arrays.
        """
        return Limits(
            freeze(np.array([(j.lower, j.upper) for j in joints]).reshape(-1, 2)),
            freeze([j.velocity for j in joints]),
            freeze([j.acceleration for j in joints]),
            freeze([j.effort for j in joints]),
        )


# How joints of a closed mechanism depend on each other: explicit couplings and implicit closures.


DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
"""What a closure can keep together: positions along, and rotations about, the first frame's axes."""


@dataclass(frozen=True, slots=True)
class Coupling:
    """A gear, mimic joint or parallelogram: q_passive = sum(factor * q) + offset.

    Parameters
    ----------
    passive : str
        The joint that follows.
    factors : tuple of (str, float)
        Joints that it follows, with their factors.
    offset : float
        Constant, rad or m.
    """

    passive: str
    factors: tuple[tuple[str, Finite], ...]
    offset: Finite = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A closed loop: two points on two links that stay together in the directions `keep`; the passive joints follow.

    Parameters
    ----------
    links : tuple of two str
        Names of the two links.
    keep : tuple of str
        Directions in which the points or frames stay together.
    passive : tuple of str
        Joints that the loop makes dependent.
    points : tuple of two (3,) arrays
        The points in the frames of their links, m.
    start : (passive joints,) array
        Positions of the passive joints near those that they take when every active joint is at `at`; they select the
        assembly mode. rad or m.
    at : (active joints,) array, optional
        Positions of the active joints for `start`, rad or m. Default: 0.
    texts : tuple of str
        The six coordinates of `points` as expressions, "" where one is a number; empty if all are.
    """

    links: tuple[str, str]
    keep: tuple[str, ...]
    passive: tuple[str, ...]
    points: tuple[Vector, Vector]
    start: Annotated[Array, Numbers((None,))]
    at: Annotated[Array, Numbers((None,))] | None = None
    texts: tuple[str, ...] = ()


SAME = 1e-3
"""Relative difference up to which a nominal Ia and a declared ratio^2 J agree: data sheets round."""

MOST_NAMES = 8
"""Joints that the text of a robot names."""

JointKind = Literal["revolute", "prismatic", "fixed", "floating"]


@dataclass(frozen=True, slots=True)
class MdhRow:
    """Modified Denavit-Hartenberg row: T = Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r).

    Parameters
    ----------
    gamma : Expression
        Angle about z of the parent's frame, rad.
    b : Expression
        Length along z of the parent's frame, m.
    alpha : Expression
        Angle about x, rad.
    d : Expression
        Length along x, m.
    theta : Expression
        Angle about z of the joint, rad.
    r : Expression
        Length along z of the joint, m.
    """

    gamma: Expression
    b: Expression
    alpha: Expression
    d: Expression
    theta: Expression
    r: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One link and the joint that carries it.

    Parameters
    ----------
    name : str
        Name of the link.
    joint : str
        Name of the joint.
    label : str
        What the names of its parameters end with.
    parent : int
        Index of the parent among the robot's links, -1 for the base.
    kind : {"revolute", "prismatic", "fixed", "floating"}
        Kind of the joint.
    placement : Transform
        Pose of the link frame in the parent's frame at q = 0.
    axis : (3,) array
        Unit vector in the link frame about which the joint turns, or along which it slides.
    inertia : (10,) array
        Standard parameters XX XY XZ YY YZ ZZ (kg m^2) MX MY MZ (kg m) M (kg) about the frame's origin, NaN where
        unknown.
    rotor : float
        Rotor inertia Ia on the joint side, kg m^2, NaN where unknown.
    zero : frozenset of str
        Symbols of the parameters that are known to be zero.
    limits : JointLimits
        Limits of the joint.
    mdh : MdhRow, optional
        Row of the table it was made from.
    friction : tuple of (str, float)
        Nominal friction coefficients by symbol (`Fv`, `Fc`, `Fo`), SI units.
    """

    name: str
    joint: str
    label: str
    parent: int
    kind: JointKind
    placement: Transform
    axis: Vector
    inertia: Annotated[Array, Numbers((10,), unknown=True)]
    rotor: Annotated[float, Null(np.nan, HUGE)] = np.nan
    zero: frozenset[str] = frozenset()
    limits: Annotated[JointLimits, ROW] = UNLIMITED
    mdh: Annotated[MdhRow, ROW] | None = None
    friction: tuple[tuple[str, Finite], ...] = ()

    def parameter(self, symbol: str) -> Parameter:
        """Standard parameter of the link, or Ia of its joint.

        Parameters
        ----------
        symbol : str
            `XX`, `XY`, ..., `M`, or `Ia`.

        Returns
        -------
        Parameter
            The parameter's name.
        """
        if symbol == ROTOR:
            unit = "kg m^2" if self.kind == "revolute" else "kg"
            return Parameter(symbol + self.label, symbol=symbol, kind="rotor", unit=unit, joint=self.joint)
        unit = UNITS[SYMBOLS.index(symbol)]
        return Parameter(symbol + self.label, symbol=symbol, kind="inertial", unit=unit, link=self.name)

    @property
    def moves(self) -> bool:
        """Whether the joint has a variable q."""
        return self.kind in ("revolute", "prismatic")


@dataclass(frozen=True, slots=True, eq=False)
class PublishedMasses:
    """Published masses of a robot: a prior for its bodies, never nominal values.

    Parameters
    ----------
    source : str
        Where they were published, or that nothing was found.
    total : float, optional
        Mass of the robot as it is sold, kg.
    includes_base : bool
        Whether `total` includes the mount, which does not move.
    base : float, optional
        Mass of the mount, kg.
    links : mapping of str to (10,) array
        Standard parameters by link, in the frames of the robot's links; NaN where only a mass or a centre of mass is
        published.
    """

    source: str
    total: Kilograms | None = None
    includes_base: bool = True
    base: Kilograms | None = None
    links: Mapping[str, Annotated[Array, Numbers((10,), unknown=True)]] = field(default_factory=dict)

    @property
    def masses(self) -> dict[str, float]:
        """Masses of the links that have one, kg."""
        return {name: float(x[9]) for name, x in self.links.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Robot:
    """A robot: links in the order of their table (a floating base first), and gravity.

    `joint_names`, `n`, `limits`, the columns of a `Motion` and the torque channels are those of the active joints;
    joints that couplings or closures make dependent are passive.

    Parameters
    ----------
    name : str
        Name of the robot.
    links : tuple of Link
        Links in the order of the table.
    gravity : (3,) array
        Gravity in frame 0, m/s^2.
    couplings : tuple of Coupling
        Gears, mimic joints and parallelograms.
    closures : tuple of Closure
        Closed loops.
    symbols : mapping of str to float
        Lengths (m) and angles (rad) that have a symbol in the table.
    source : str
        File or name that it was loaded from.
    notes : tuple of Message
        What was decided while loading.
    columns : tuple of JointColumn
        Torques of known shape and unknown size at a joint, such as a gas spring.
    sensor : ForceSensor, optional
        Force plate under the base, if it is not in frame 0.
    unknown : tuple of str
        Symbols and entries (`d3`) of the table whose values are only nominal.
    files : tuple of InputFile
        Files it was loaded from, with their hashes; empty for a robot made in memory.
    warnings : tuple of Message
        Values that disagree with one another.
    locks : mapping of str to float
        Joints of the file that are held, with their positions, rad or m: those of `load_robot`, and those that the logs
        do not have.
    package_path : tuple of str
        Folders searched for `package://`.
    description : str
        URDF to which a xacro file was expanded.
    published : PublishedMasses, optional
        Masses that others published, which a table may state in addition to its nominal values.

    Raises
    ------
    DynidError
        If gravity is not three finite numbers, if no joint moves, or if the sensor names an unknown joint.

    Notes
    -----
    A rotor that the sensor declares with its inertia J gives its joint the nominal Ia = ratio^2 J.

    Examples
    --------
    >>> from dynid import load_robot
    >>> robot = load_robot("gautier3")
    >>> robot.n, len(robot.parameter_names)
    (3, 33)
    >>> robot.parameter_names[:3]
    ('XX1', 'XY1', 'XZ1')
    """

    name: str
    links: tuple[Annotated[Link, Form(flat=("placement",), optional=("mdh",))], ...]
    gravity: Vector
    couplings: tuple[Annotated[Coupling, COMPLETE], ...] = ()
    closures: tuple[Annotated[Closure, Form(optional=("texts",))], ...] = ()
    symbols: Mapping[str, Finite] = field(default_factory=dict)
    source: str = ""
    notes: tuple[Message, ...] = ()
    columns: tuple[StoredColumn, ...] = ()
    sensor: Annotated[ForceSensor, Form(names=(("sensitivity_sigma", "gain"),), optional=())] | None = None
    unknown: tuple[str, ...] = ()
    files: tuple[InputFile, ...] = ()
    warnings: tuple[Message, ...] = ()
    locks: Mapping[str, Finite] = field(default_factory=dict)
    package_path: tuple[str, ...] = ()
    description: str = ""
    published: Annotated[PublishedMasses, COMPLETE] | None = None

    def __post_init__(self) -> None:
        gravity = np.array(self.gravity, dtype=np.float64)
        if gravity.shape != (3,) or not np.isfinite(gravity).all():
            raise DynidError(
                "invalid_gravity", "gravity must be three finite numbers in m/s^2, got {gravity!r}",
                gravity=self.gravity,
            )  # fmt: skip
        object.__setattr__(self, "gravity", freeze(gravity))
        if not self.tree_joints:
            file = f"{self.source}: " if self.source else ""
            raise DynidError(
                "no_moving_joint", "{file}robot '{robot}' has no moving joint; nothing can be identified", file=file,
                robot=self.name,
            )  # fmt: skip
        strangers = [r.joint for r in self.sensor.rotors if r.joint not in self.joint_names] if self.sensor else []
        if strangers:
            raise DynidError(
                "unknown_joint", "the force sensor names the rotor of joint '{joint}'", "joints are {joints}",
                joint=strangers[0], joints=list(self.joint_names),
            )  # fmt: skip
        self._set_nominal_rotor_inertias()

    def _set_nominal_rotor_inertias(self) -> None:
        """Set Ia of declared rotors as nominal values, so that torques and forces on the base have the same J."""
        links, warnings, place = (
            list(self.links),
            list(self.warnings),
            {link.joint: k for k, link in enumerate(self.links)},
        )
        for rotor in () if self.sensor is None else self.sensor.spinning_rotors:
            k = place[rotor.joint]
            link, Ia = links[k], rotor.ratio**2 * rotor.inertia
            stated = ROTOR in link.zero or (link.rotor != 0.0 and not np.isnan(link.rotor))
            if stated and abs(link.rotor - Ia) > SAME * Ia:
                warnings.append(Message(
                    "rotor_inertia_disagrees", "{symbol}{label} = {stated:.5g} of the robot disagrees with the rotor "
                    "declared for joint '{joint}', ratio^2 J = {declared:.5g}, which is used", "correct one of them",
                    symbol=ROTOR, label=link.label, stated=link.rotor, joint=link.joint, declared=Ia,
                ))  # fmt: skip
            links[k] = replace(link, rotor=Ia, zero=link.zero - {ROTOR})
        object.__setattr__(self, "links", tuple(links))
        object.__setattr__(self, "warnings", tuple(dict.fromkeys(warnings)))

    def __repr__(self) -> str:
        names = [*self.joint_names[:MOST_NAMES], *(["..."] if self.n > MOST_NAMES else [])]
        text = f"<Robot '{self.name}': {self.n} joints ({', '.join(names)}), {len(self.parameter_names)} parameters>"
        return printable(text)

    def _repr_html_(self) -> str:
        """What the robot is, and its joints with their limits, for notebooks."""
        known = int(np.isfinite(self.parameters).sum())
        loops = len(self.couplings) + len(self.closures)
        facts = {
            "robot": self.name, "joints": f"{self.n}{', floating base' if self.floating else ''}",
            "closed loops and couplings": loops or "",
            "parameters": f"{len(self.parameter_names)}, {known} with nominal values",
            "gravity": ", ".join(f"{x:g}" for x in self.gravity) + " m/s\N{SUPERSCRIPT TWO}",
            "warnings": len(self.warnings) or "",
        }  # fmt: skip
        frame = self._joint_columns
        numbers = [
            [f"{x:.4g}" if isinstance(x, float) else x for x in row] for row in zip(*frame.values(), strict=True)
        ]
        return html_summary(facts, list(frame), numbers)

    @property
    def _joint_columns(self) -> dict[str, Sequence[Any]]:
        """Active joints with their limits, column by column."""
        links, limits = [self.links[k] for k in self.active_links], self.limits
        return {
            "joint": list(self.joint_names), "type": [link.kind for link in links],
            "lower": limits.position[:, 0].tolist(), "upper": limits.position[:, 1].tolist(),
            "velocity": limits.velocity.tolist(), "acceleration": limits.acceleration.tolist(),
            "effort": limits.effort.tolist(),
        }  # fmt: skip

    def table(self) -> Any:
        """Joints of the robot with their limits.

        Returns
        -------
        polars.DataFrame
            A row per active joint: joint, type, lower, upper (rad or m), velocity, acceleration, effort (N m or N);
            infinite where the file has no limit.

        """
        return polars_frame(self._joint_columns)

    @staticmethod
    def from_mdh(
        rows: Any,
        *,
        gravity: Any = (0.0, 0.0, -9.81),
        symbols: Mapping[str, float] | None = None,
        name: str | None = None,
    ) -> Robot:
        """Robot of a modified Denavit-Hartenberg table.

        Parameters
        ----------
        rows : sequence of mappings
            One row per joint, with the keys parent, type, gamma, b, alpha, d, theta, r as in a TOML file; angles in
            rad, lengths in m, as numbers or as expressions in the symbols. Missing keys mean the joint before,
            revolute, and 0. Nothing is snapped.
        gravity : (3,) array_like
            Gravity in frame 0, m/s^2.
        symbols : mapping of str to float, optional
            Values of the symbols, m or rad.
        name : str, optional
            Name of the robot.

        Returns
        -------
        Robot
            The robot, with unknown inertial parameters.

        Raises
        ------
        RobotFileError
            If a row is wrong; all mistakes are listed.

        Examples
        --------
        >>> from dynid import Robot
        >>> Robot.from_mdh([{}, {"d": "L"}], symbols={"L": 0.4}).n
        2
        """
        from dynid.robot.io.toml_table import robot_from_rows

        return robot_from_rows(rows, gravity=gravity, symbols=symbols or {}, name=name or "robot")

    def to_mdh(self) -> Robot:
        """Return the same robot with every link in its modified Denavit-Hartenberg frame.

        Returns
        -------
        Robot
            The robot with transformed frames and parameters.
        """
        return self._in_mdh_frames

    @cached_property
    def _in_mdh_frames(self) -> Robot:
        """The robot in modified Denavit-Hartenberg frames, found once."""
        from dynid.robot.mdh import to_mdh

        return to_mdh(self)

    @property
    def floating(self) -> bool:
        """Whether the base moves freely."""
        return self.links[0].kind == "floating"

    @cached_property
    def tree_joints(self) -> tuple[int, ...]:
        """Links whose joint moves, active or passive: the variables of the open tree."""
        return tuple(k for k, link in enumerate(self.links) if link.moves)

    @cached_property
    def passive_joints(self) -> frozenset[str]:
        """Names of the joints that couplings and closures make dependent."""
        coupled = {c.passive for c in self.couplings}
        return frozenset(coupled.union(*(c.passive for c in self.closures)))

    @cached_property
    def active_links(self) -> tuple[int, ...]:
        """Links whose joint is active."""
        return tuple(k for k in self.tree_joints if self.links[k].joint not in self.passive_joints)

    @property
    def n(self) -> int:
        """Number of active joints."""
        return len(self.active_links)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the active joints, in order."""
        return tuple(self.links[k].joint for k in self.active_links)

    @cached_property
    def limits(self) -> Limits:
        """Limits of the active joints."""
        return Limits.stack([self.links[k].limits for k in self.active_links])

    @cached_property
    def parameter_names(self) -> tuple[Parameter, ...]:
        """Names of the standard parameters: per link XX XY XZ YY YZ ZZ MX MY MZ M, and Ia where active."""
        names: list[Parameter] = []
        for k, link in enumerate(self.links):
            names += [link.parameter(symbol) for symbol in SYMBOLS]
            if k in self.active_links:
                names.append(link.parameter(ROTOR))
        return tuple(names)

    @cached_property
    def parameters(self) -> Array:
        """Nominal values of the standard parameters, NaN where unknown."""
        values: list[float] = []
        for k, link in enumerate(self.links):
            values += [float(x) for x in link.inertia]
            if k in self.active_links:
                values.append(link.rotor)
        return freeze(values)

    @cached_property
    def known_zeros(self) -> tuple[Parameter, ...]:
        """Names of the parameters that are known to be zero."""
        names = set(self.parameter_names)
        zeros = (link.parameter(s) for link in self.links for s in (*SYMBOLS, ROTOR) if s in link.zero)
        return tuple(name for name in zeros if name in names)

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Links ordered so that parents come before children, else as in the table."""
        order: list[int] = []
        placed = {-1}
        waiting = list(range(len(self.links)))
        while waiting:
            ready = next((k for k in waiting if self.links[k].parent in placed), None)
            if ready is None:
                names = [self.links[k].joint for k in waiting]
                raise DynidError(
                    "joint_cycle", "the joints {joints} of '{robot}' form a cycle of parents", joints=names,
                    robot=self.name,
                )  # fmt: skip
            order.append(ready)
            placed.add(ready)
            waiting.remove(ready)
        return tuple(order)

    @cached_property
    def published_moving_mass(self) -> float | None:
        """Published mass of all links that move, kg: the links' sum, else the total without the base, else None."""
        if self.published is None:
            return None
        moving: set[int] = set()
        for k in self.topological_order:
            if self.links[k].moves or self.links[k].kind == "floating" or self.links[k].parent in moving:
                moving.add(k)
        masses, total, base = self.published.masses, self.published.total, self.published.base
        if self.floating and base is not None:
            masses[self.links[0].name] = base
        if all(self.links[k].name in masses for k in moving):
            return sum(masses[self.links[k].name] for k in sorted(moving))
        if total is None or self.floating == self.published.includes_base:
            return total
        return None if base is None else total + base * (1.0 if self.floating else -1.0)

    def with_parameters(self, values: Array) -> Robot:
        """Return the robot with other nominal values.

        Parameters
        ----------
        values : (p,) array
            Standard parameters in SI units, in the order of `parameter_names`; NaN where unknown.

        Returns
        -------
        Robot
            The same robot with these values.

        Raises
        ------
        DynidError
            If the number of values is wrong.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.shape != (len(self.parameter_names),):
            raise DynidError(
                "parameter_count_mismatch", "'{robot}' has {expected} standard parameters, got {shape}",
                robot=self.name, expected=len(self.parameter_names), shape=values.shape,
            )  # fmt: skip
        links: list[Link] = []
        start = 0
        for k, link in enumerate(self.links):
            inertia = freeze(values[start : start + 10])
            start += 10
            rotor = link.rotor
            if k in self.active_links:
                rotor = float(values[start])
                start += 1
            links.append(replace(link, inertia=inertia, rotor=rotor))
        return replace(self, links=tuple(links), warnings=())

    def with_sensor(self, sensor: ForceSensor | None) -> Robot:
        """Return the robot on another force plate.

        Parameters
        ----------
        sensor : ForceSensor or None
            The plate; None for a plate in frame 0.

        Returns
        -------
        Robot
            The same robot on this plate.
        """
        return replace(self, sensor=sensor, warnings=())

    @property
    def declared_rotors(self) -> dict[str, float]:
        """Ia by name (`Ia2`) of the rotors whose inertia is declared."""
        rotors = () if self.sensor is None else self.sensor.spinning_rotors
        links = {link.joint: link for link in self.links}
        return {links[rotor.joint].parameter(ROTOR): rotor.ratio**2 * rotor.inertia for rotor in rotors}


def composite_inertias(robot: Robot) -> dict[int, Array]:
    """Parameters of every moving link together with the fixed ones that it carries, in its frame."""
    total = {k: np.array(link.inertia) for k, link in enumerate(robot.links)}
    for k in reversed(robot.topological_order):
        link = robot.links[k]
        if link.kind == "fixed" and link.parent >= 0:
            total[link.parent] = total[link.parent] + change_of_frame(link.placement) @ total[k]
    return {k: x for k, x in total.items() if robot.links[k].moves}


def _check_links(robot: Robot) -> None:
    """Raise DynidError for links with an unknown parent or a damaged frame, and for couplings that go in a circle."""
    if any(not -1 <= link.parent < len(robot.links) for link in robot.links):
        raise DynidError("record_parent_unknown", "a link's parent is not a link of the robot")
    for link in robot.links:
        R = link.placement.rotation
        if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or abs(np.linalg.norm(link.axis) - 1.0) > 1e-6:
            raise DynidError(
                "record_link_frame_damaged", "link '{name}': its rotation is not a rotation matrix, or its axis is "
                "not a unit vector",
                name=link.name,
            )  # fmt: skip
    masses = {} if robot.published is None else robot.published.masses
    if not set(masses) <= {link.name for link in robot.links} or not all(mass > 0.0 for mass in masses.values()):
        raise DynidError("record_published_damaged", "published masses are not positive, or of links it does not have")
    known = {*robot.joint_names, *(name for closure in robot.closures for name in closure.passive)}
    waiting = list(robot.couplings)
    while waiting:
        ready = [c for c in waiting if all(name in known for name, _ in c.factors)]
        if not ready:
            raise DynidError(
                "coupling_unresolvable", "the coupling of joint '{passive}' follows unknown joints, or a circle",
                passive=waiting[0].passive,
            )  # fmt: skip
        known |= {c.passive for c in ready}
        waiting = [c for c in waiting if c not in ready]


def _without_empty_fields(robot: Robot, data: dict[str, Any]) -> dict[str, Any]:
    """Data for a file without empty locks, published masses and description."""
    empty = {"locks": not robot.locks, "published": robot.published is None, "description": not robot.description}
    return {key: value for key, value in data.items() if not empty.get(key)}


StoredRobot = Annotated[
    Robot,
    Form(
        write=_without_empty_fields,
        drop=("warnings", "package_path"),
        optional=("notes", "sensor", "unknown", "files", "locks", "published", "description"),
        check=_check_links,
    ),
]
