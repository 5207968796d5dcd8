"""A payload with its deviations: ten parameters as far as the data tell, and the body that they describe."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.concurrency import cached_property
from dynid.deprecated import accept_old_names
from dynid.errors import IdentificationError
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.identification import FlatField
from dynid.messages import Message
from dynid.robot.inertia import SYMBOLS, UNITS, Body, from_body, inertia_matrix, pseudo_inertia
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

ELEMENTS = ("xx", "xy", "xz", "yy", "yz", "zz")
CERTAIN = 1e-9
"""Masses below this (kg) are none."""

DENSEST = 23000.0
"""Density (kg/m^3) above that of any metal."""


def largest_plausible_mass(reach: float) -> float:
    """Mass (kg) above which no arm of a reach (m) carries it: arms that are sold carry up to 50 kg per reach^3."""
    return max(300.0 * reach**3, 30.0)


def largest_plausible_tool(reach: float) -> float:
    """Distance (m) from the carrying link's origin at which no tool has its centre, nor its mass on average."""
    return 0.5 + 0.5 * reach


def robot_reach(robot: Robot) -> float:
    """Reach of a robot (m): longest sum of distances between joint origins from the base."""
    lengths: list[float] = []
    for link in robot.links:
        own = float(np.linalg.norm(link.placement.translation))
        lengths.append(own + (lengths[link.parent] if link.parent >= 0 else 0.0))
    return max(lengths, default=0.0)


def implausible_mass_message(mass: float, reach: float) -> Message:
    """Message on a mass that an arm of this reach does not carry."""
    return Message(
        "payload_mass_implausible", "a payload of {mass:.4g} kg is too heavy for an arm whose reach is {reach:.2g} m",
        "check that masses are in kg (not g) and torques in N m", mass=mass, reach=reach,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What payloads and drive gains have in common: values found from loaded and unloaded runs, and how.

    link: of the robot `robot`, which carries the payload. quantile * standard deviation is the half width of a 95 %
    interval, from `groups` blocks of time (0: textbook deviations). friction: names of the blocks; cutoff in Hz; nrmse
    per channel: error over the spread of the signal, of all logs together; findings: sentences per log.
    """

    robot: str
    link: str
    names: tuple[Parameter, ...]
    values: Array
    quantile: float
    groups: int
    friction: tuple[str, ...]
    cutoff: float | None
    nrmse: Array
    findings: tuple[tuple[str, tuple[Message, ...]], ...]
    notes: tuple[Message, ...]

    def intervals(self, sigma: Array) -> Array:
        """95 % intervals (values, 2) of the values with standard deviations sigma."""
        half = self.quantile * sigma
        return np.column_stack([self.values - half, self.values + half])

    def facts(self, sigma: Array) -> dict[str, object]:
        """The fit as JSON-ready data; None where a number is not known."""
        return {
            "robot": self.robot,
            "link": self.link,
            "names": list(self.names),
            "values": floats_for_json(self.values),
            "sigma": floats_for_json(sigma),
            "intervals": [floats_for_json(pair) for pair in self.intervals(sigma)],
            "friction": list(self.friction),
            "cutoff": self.cutoff,
            "nrmse": floats_for_json(self.nrmse),
            "logs": [{"name": name, "findings": list(found)} for name, found in self.findings],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, eq=False)
class IdentifiablePayload:
    """Names, units and places (among the kept unknowns) of what the data determine; lost: the rest.

    shares (names, 10): of the payload's parameters in each of them, NaN where the robot's have a share too.
    """

    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    places: list[int]
    lost: tuple[Unidentifiable, ...]
    shares: Array


@dataclass(frozen=True, eq=False)
class ResultWithFit:
    """A result with a `fit`, whose fields are attributes of the result as well."""

    fit: Fit

    robot = FlatField(Fit, lambda x: x.robot)
    link = FlatField(Fit, lambda x: x.link)
    names = FlatField(Fit, lambda x: x.names)
    values = FlatField(Fit, lambda x: x.values)
    quantile = FlatField(Fit, lambda x: x.quantile)
    groups = FlatField(Fit, lambda x: x.groups)
    friction = FlatField(Fit, lambda x: x.friction)
    cutoff = FlatField(Fit, lambda x: x.cutoff)
    nrmse = FlatField(Fit, lambda x: x.nrmse)
    findings = FlatField(Fit, lambda x: x.findings)
    notes = FlatField(Fit, lambda x: x.notes)


@accept_old_names
@dataclass(frozen=True, eq=False)
class Payload(ResultWithFit):
    """Payload of a link, in the frame of that link, with standard deviations.

    `names`, `values` and `sigma` are what the data determine: parameters XX XY XZ YY YZ ZZ MX MY MZ M about the frame's
    origin, or sums of them such as `ZZ + 0.19 M`.

    Attributes
    ----------
    fit : Fit
        Names, values and settings of the fit.
    method : str
        How it was found.
    units : tuple of str
        Units of the values.
    covariance : (values, values) array
        Covariance of the values.
    unidentifiable : tuple of Unidentifiable
        What the data do not determine, with the remedy.
    channels : tuple of str
        Channels that were used.
    doubts : tuple of Message
        Warnings of the fit; all of them are in `warnings`.
    unconstrained : (values,) array
        Values before they were made physically possible.
    physical : bool
        Whether they were.
    gain_sigma : float
        Relative standard deviation of the drive gains, which is part of sigma.
    reference : str or None
        Joint whose gain weighs the payload, if there is one.
    reach : float
        Reach of the robot, m.
    """

    method: str
    units: tuple[str, ...]
    covariance: Array
    unidentifiable: tuple[Unidentifiable, ...]
    channels: tuple[str, ...]
    doubts: tuple[Message, ...]
    unconstrained: Array
    physical: bool
    gain_sigma: float
    reference: str | None
    reach: float

    @property
    def sigma(self) -> Array:
        """Standard deviations of the values."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def intervals(self) -> Array:
        """95 % intervals (values, 2) of the values."""
        return self.fit.intervals(self.sigma)

    @cached_property
    def parameters(self) -> Array:
        """Ten standard parameters, NaN where one is not known by itself."""
        return self._single_parameters(self.values)

    def _single_parameters(self, values: Array) -> Array:
        """Ten standard parameters from values, NaN for those known in sums only."""
        p = np.full(10, np.nan)
        for k, name in enumerate(self.names):
            if name in SYMBOLS:
                p[SYMBOLS.index(name)] = values[k]
        return p

    @cached_property
    def parameter_covariance(self) -> Array:
        """Covariance (10, 10) of the parameters, zero where they are not known."""
        C = np.zeros((10, 10))
        known = [k for k, name in enumerate(self.names) if name in SYMBOLS]
        place = [SYMBOLS.index(self.names[k]) for k in known]
        C[np.ix_(place, place)] = self.covariance[np.ix_(known, known)]
        return C

    @cached_property
    def _body_and_sigma(self) -> tuple[Array, Array]:
        """Mass, centre of mass, inertia about it (10,), and their deviations by first-order propagation."""
        p, C = self.parameters, self.parameter_covariance
        if not self.has_mass:
            p = np.where(np.arange(10) == 9, p, np.nan)
            return np.roll(p, 1), np.roll(np.where(np.isnan(p), np.nan, np.sqrt(np.diag(C))), 1)
        J = np.column_stack([body_values(p + 1e-30j * unit).imag / 1e-30 for unit in np.eye(10)])
        values = body_values(p)
        J = np.where(np.isnan(J), 0.0, J)
        sigma = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", J, C, J), 0.0))
        return values, np.where(np.isnan(values), np.nan, sigma)

    @property
    def has_mass(self) -> bool:
        """Whether the mass is known and differs from none by more than its interval."""
        M, sigma = self._single_parameters(self.unconstrained)[9], math.sqrt(self.parameter_covariance[9, 9])
        return bool(abs(M) > max(self.quantile * sigma, CERTAIN))

    @property
    def mass(self) -> float:
        """Mass in kg, NaN where the data do not tell."""
        return float(self._body_and_sigma[0][0])

    @property
    def mass_sigma(self) -> float:
        """Standard deviation of the mass."""
        return float(self._body_and_sigma[1][0])

    @property
    def com(self) -> Array:
        """Centre of mass (3,) in m, NaN where the data do not tell."""
        return self._body_and_sigma[0][1:4]

    @property
    def com_sigma(self) -> Array:
        """Standard deviations (3,) of the centre of mass."""
        return self._body_and_sigma[1][1:4]

    @property
    def inertia(self) -> Array:
        """Inertia matrix (3, 3) about the centre of mass in kg m^2, NaN where the data do not tell."""
        return _symmetric_matrix(self._body_and_sigma[0][4:])

    @property
    def inertia_sigma(self) -> Array:
        """Standard deviations (3, 3) of the inertia."""
        return _symmetric_matrix(self._body_and_sigma[1][4:])

    @cached_property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings on the payload."""
        impossible = self._impossible_body_warnings()
        return (*self.unknown, *impossible, *(() if impossible else self._implausible_body_warnings()), *self.doubts)

    @property
    def unknown(self) -> tuple[Message, ...]:
        """Messages on what cannot be known of the payload; parameters with the same reason share one."""
        alike: dict[tuple[str, str], list[str]] = {}
        for item in self.unidentifiable:
            alike.setdefault((item.seen if item.shares else "no effect on them", item.remedy), []).append(item.name)
        what = "{parameters} of the payload cannot be known from these data ({seen})"
        return tuple(
            Message("payload_unidentifiable", what, "{advice}", parameters=names, seen=why, advice=remedy)
            for (why, remedy), names in alike.items()
        )

    def _impossible_body_warnings(self) -> tuple[Message, ...]:
        """Warnings on why no body can have these values, where they are wrong by more than their intervals."""
        p = self._single_parameters(self.unconstrained)
        half = self.quantile * np.sqrt(np.diag(self.parameter_covariance))
        told = [
            Message(
                "payload_negative", "the payload's {quantity} is negative ({value:.4g} +- {half_width:.2g}), which is "
                "physically impossible", "check whether the loaded and unloaded logs are exchanged, and the signs of "
                "the torques", quantity=what, value=float(p[k]), half_width=float(half[k]),
            )
            for k, what in ((9, "mass"), (0, "XX"), (3, "YY"), (5, "ZZ"))
            if p[k] + half[k] < -CERTAIN
        ][:1]  # fmt: skip
        M = p[9]
        if np.isfinite(M) and not self.has_mass and not told:
            told.append(Message(
                "payload_mass_insignificant", "the payload's mass ({mass:.3g} +- {half_width:.2g} kg) cannot be "
                "distinguished from zero: its centre is not known", "use a heavier payload or more exciting motions",
                mass=float(M), half_width=float(half[9]),
            ))  # fmt: skip
        elif not told and np.all(np.abs(self.unconstrained) <= self.quantile * self.sigma):
            told.append(Message(
                "payload_not_visible", "nothing of the payload can be distinguished from zero",
                "check that the loaded log was recorded with it, and use more exciting motions",
            ))  # fmt: skip
        if told or not np.isfinite(p).all():
            return tuple(told)
        excess, deviation = _triangle_violation(p, self.parameter_covariance)
        if excess + self.quantile * deviation < -CERTAIN:
            told.append(Message(
                "payload_inertia_impossible", "the payload's inertia is physically impossible: its largest principal "
                "moment exceeds "
                "the sum of the two others by {excess:.2g} +- {half_width:.1g} kg m^2", excess=-2.0 * excess,
                half_width=2.0 * self.quantile * deviation,
            ))  # fmt: skip
        return tuple(told)

    def _implausible_body_warnings(self) -> tuple[Message, ...]:
        """Warnings on bodies that no tool is like, where they differ by more than their intervals."""
        told, q, size = [], self.quantile, largest_plausible_tool(self.reach)
        if self.mass - q * self.mass_sigma > largest_plausible_mass(self.reach):
            told.append(implausible_mass_message(self.mass, self.reach))
        centre = np.nan_to_num(self.com)
        distance = float(np.linalg.norm(centre))
        if distance - q * float(np.linalg.norm(np.nan_to_num(self.com_sigma))) > size:
            told.append(Message(
                "payload_centre_implausible", "the payload's centre of mass lies {distance:.3g} m from the origin of "
                "link {link}", "check units, gains and signs of the torques, and which link carries", link=self.link,
                distance=distance,
            ))  # fmt: skip
        if not self.has_mass or not np.isfinite(self.inertia).all():
            return tuple(told)
        spread = np.linalg.eigvalsh(0.5 * np.trace(self.inertia) * np.eye(3) - self.inertia) / self.mass
        slack = q * float(np.linalg.norm(self.inertia_sigma)) / abs(self.mass)
        densest = self.mass / (4.0 / 3.0 * np.pi * np.prod(np.sqrt(5.0 * np.maximum(spread + slack, 1e-12))))
        if densest > DENSEST or np.sqrt(max(float(spread[-1]) - slack, 0.0)) > size:
            told.append(Message(
                "payload_density_implausible", "the payload's inertia is that of a solid body of {density:.2g} kg/m^3",
                "check units, gains and signs of the torques; a more exciting motion shows the inertia better",
                density=float(self.mass / (4.0 / 3.0 * np.pi * np.prod(np.sqrt(5.0 * np.maximum(spread, 1e-12))))),
            ))  # fmt: skip
        return tuple(told)

    def value(self, name: str) -> float:
        """Value of one parameter or sum.

        Parameters
        ----------
        name : str
            Name, as in `names`.

        Returns
        -------
        float
            Value in SI units.

        Raises
        ------
        IdentificationError
            If there is none of this name.
        """
        if name not in self.names:
            raise IdentificationError(
                "payload_parameter_undetermined", "the data do not determine '{parameter}' of the payload, but "
                "{parameters}", parameter=name, parameters=list(self.names),
            )  # fmt: skip
        return float(self.values[self.names.index(name)])

    def facts(self) -> dict[str, object]:
        """The payload as JSON-ready data; None where a number is not known.

        Returns
        -------
        dict
            Facts by name.
        """
        return self.fit.facts(self.sigma) | {
            "way": self.method,
            "units": list(self.units),
            "mass": float_for_json(self.mass),
            "mass_sigma": float_for_json(self.mass_sigma),
            "com": floats_for_json(self.com),
            "com_sigma": floats_for_json(self.com_sigma),
            "inertia": [floats_for_json(row) for row in self.inertia],
            "inertia_sigma": [floats_for_json(row) for row in self.inertia_sigma],
            "lost": [{"name": x.name, "seen": x.seen, "remedy": x.remedy} for x in self.unidentifiable],
            "channels": list(self.channels),
            "unconstrained": floats_for_json(self.unconstrained),
            "physical": self.physical,
            "gain_sigma": self.gain_sigma,
            "reference": self.reference,
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """The payload as JSON text.

        Returns
        -------
        str
            What `facts` returns, as JSON.
        """
        return json.dumps(self.facts(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        half = self.quantile * self.sigma
        lines = [f"payload of link {self.link}, in its frame (+-: 95 % interval)"]
        lines += [
            f"  {name:<4} {value:.5g} +- {h:.2g} {unit}"
            for name, value, h, unit in zip(self.names, self.values, half, self.units, strict=True)
        ]
        return "\n".join([*lines, *(f"  {text}" for text in self.unknown)])


def build_payload(
    fit: Fit,
    method: str,
    reading: IdentifiablePayload,
    covariance: Array,
    *,
    scatter: Array,
    physical: bool,
    gain_sigma: float,
    reference: str | None,
    channels: tuple[str, ...],
    reach: float,
    doubts: tuple[Message, ...],
) -> Payload:
    """Payload of values and covariance; physical: with the values of the possible body nearest to them.

    Near is meant in units of scatter, the covariance without what all torques have in common: a wrong gain scales a
    body, and would make an impossible one possible only by making it vanish. A mass that is negative by more than its
    interval stays: no body is near it, and a warning says so.
    """
    values, raw = fit.values, fit.values
    if fit.groups and len(raw):
        quantile = _effective_quantile(np.diag(scatter) / np.maximum(np.diag(covariance), 1e-300), fit.groups)
        fit = replace(fit, quantile=min(fit.quantile, quantile))
    if physical:
        values = nearest_body_values(raw, scatter, reading.shares, fit.quantile * np.sqrt(np.diag(covariance)))
    return Payload(
        fit=replace(fit, values=values), method=method, units=reading.units, covariance=covariance,
        unidentifiable=reading.lost, channels=channels, doubts=doubts, unconstrained=raw, physical=physical,
        gain_sigma=gain_sigma, reference=reference, reach=reach,
    )  # fmt: skip


def _effective_quantile(shares: Array, groups: int) -> float:
    """Student's t for variances of which shares (values,) come from groups of blocks and the rest is known beforehand.

    Degrees of freedom are Welch and Satterthwaite's, for the median share.
    """
    from scipy.stats import t

    return float(t.ppf(0.975, (groups - 1) / max(float(np.median(shares)), 1e-6) ** 2))


FLAT = 1e-4
"""Share of a standard deviation that the metric of the nearest body may be wrong by: sums are known much better."""


def nearest_body_values(values: Array, covariance: Array, shares: Array, half: Array) -> Array:
    """Values of the body nearest to some, in units of their covariance; shares (values, 10): of the ten parameters.

    (S p - v)' C^-1 (S p - v) is minimised over bodies p, those with a pseudo-inertia that is positive semidefinite.
    Values that hold the robot's parameters too (NaN) follow the others by their covariance. Where a body has the
    values, or a mass is negative beyond its interval of half the width `half`, they stay.
    """
    own = np.flatnonzero(np.isfinite(shares).all(axis=1))
    sigma = np.sqrt(np.diag(covariance))
    S, v = shares[own], values[own]
    mass = [k for k in own if np.array_equal(shares[k], np.eye(10)[9])]
    if not len(own) or any(values[k] + half[k] < 0.0 for k in mass) or _has_body(S, v):
        return values
    floor = np.maximum(sigma[own], 1e-9 * np.abs(v) + 1e-300)
    w, V = np.linalg.eigh(covariance[np.ix_(own, own)] / np.outer(floor, floor) + FLAT**2 * np.eye(len(own)))
    U = (V / np.sqrt(w)).T / floor  # U'U = C^-1
    scale = _parameter_scale(S, v)
    A, b = U @ S * scale, U @ v
    p = scale * _minimise_over_bodies(A.T @ A, -A.T @ b, scale, np.zeros(0))
    if not np.isfinite(p).all():
        return values
    moved = values + covariance[:, own] @ (U.T @ (U @ (S @ p - v)))
    moved[own] = S @ p
    return np.asarray(moved)


def _parameter_scale(S: Array, v: Array) -> Array:
    """Sizes (10,) of the parameters of a body that is about as heavy and large as the values say."""
    p = np.abs(np.linalg.lstsq(S, v, rcond=None)[0])
    mass = max(float(p[9]), float(p[6:9].max()), float(p[:6].max()), 1e-6)
    length = min(max(float(p[6:9].max()) / mass, np.sqrt(float(p[:6].max()) / mass), 0.03), 1.0)
    return np.asarray(mass * np.array([length**2] * 6 + [length] * 3 + [1.0]))


def _has_body(S: Array, v: Array) -> bool:
    """Whether some body p has the values v = S p: the largest t with a pseudo-inertia above t, but for rounding."""
    scale = _parameter_scale(S, v)
    size = np.maximum(np.abs(v), np.abs(S) @ scale)
    found = _minimise_over_bodies(
        np.zeros((10, 10)), np.zeros(10), scale, v / size, S * scale / size[:, None], margin=True
    )  # fmt: skip
    return bool(found[-1] > -1e-7)


def _minimise_over_bodies(
    H: Array, g: Array, scale: Array, right: Array, equal: Array | None = None, *, margin: bool = False
) -> Array:
    """Minimise p'Hp / 2 + g'p over bodies of parameters p * scale, under equal @ p = right.

    margin: maximise t (at most 1) instead, the last unknown, with pseudo-inertias of at least t times the unit.
    """
    import clarabel
    import scipy.sparse as sparse

    upper = [(i, j) for j in range(4) for i in range(j + 1)]
    length = np.sqrt(scale[0] / scale[9])
    units = np.array([length] * 3 + [1.0]) * np.sqrt(scale[9])
    parts = [pseudo_inertia(unit * scale) / np.outer(units, units) for unit in np.eye(10)]
    columns = [[P[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in upper] for P in parts]
    body, equal = -np.array(columns).T, np.zeros((0, 10)) if equal is None else equal
    cones = [clarabel.ZeroConeT(len(right)), clarabel.PSDTriangleConeT(4)]
    rows, b = [equal, body], [right, np.zeros(10)]
    if margin:
        H, g = np.zeros((11, 11)), np.append(np.zeros(10), -1.0)
        unit = np.array([1.0 if i == j else 0.0 for i, j in upper])
        rows = [np.column_stack([equal, np.zeros(len(right))]), np.column_stack([body, unit]), np.eye(11)[10:]]
        cones, b = [*cones, clarabel.NonnegativeConeT(1)], [*b, np.ones(1)]
    used = [k for k, part in enumerate(b) if len(part)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(H)), g, sparse.csc_matrix(np.concatenate([rows[k] for k in used])),
        np.concatenate([b[k] for k in used]), [cones[k] for k in used], settings,
    ).solve()  # fmt: skip
    solved = str(found.status) in ("Solved", "AlmostSolved")
    return np.array(found.x) if solved else np.full(len(g), np.nan)


def body_values(p: Array) -> Array:
    """Mass, centre of mass (3), inertia about it (6: xx xy xz yy yz zz); NaN stays where it is, complex steps pass."""
    xx, xy, xz, yy, yz, zz, X, Y, Z, M = p
    return np.array(
        [M, X / M, Y / M, Z / M,
         xx - (Y * Y + Z * Z) / M, xy + X * Y / M, xz + X * Z / M,
         yy - (X * X + Z * Z) / M, yz + Y * Z / M, zz - (X * X + Y * Y) / M]
    )  # fmt: skip


def unit_of_symbol(symbol: str) -> str:
    """Unit of a standard parameter."""
    return UNITS[SYMBOLS.index(symbol)]


def floats_for_json(values: Array) -> list[float | None]:
    """Floats for JSON, None where they are not finite."""
    return [float_for_json(x) for x in values]


def float_for_json(x: float) -> float | None:
    """A float for JSON, None where it is not finite."""
    return float(x) if math.isfinite(x) else None


def _symmetric_matrix(x: Array) -> Array:
    """Symmetric (3, 3) matrix from xx xy xz yy yz zz."""
    return np.array([[x[0], x[1], x[2]], [x[1], x[3], x[4]], [x[2], x[4], x[5]]])


def _triangle_violation(p: Array, C: Array) -> tuple[float, float]:
    """Smallest eigenvalue of tr(I)/2 - I (about the centre of mass), not negative for a body, and its deviation."""
    S = _symmetric_matrix(body_values(p)[4:])
    w, V = np.linalg.eigh(0.5 * np.trace(S) * np.eye(3) - S)
    v = V[:, 0]
    J = np.column_stack([body_values(p + 1e-30j * unit).imag / 1e-30 for unit in np.eye(10)])[4:]
    gradient = np.array([0.5 * np.trace(D) - v @ D @ v for D in map(_symmetric_matrix, J.T)])
    return float(w[0]), float(np.sqrt(max(float(gradient @ C @ gradient), 0.0)))


# A payload that is known: mass, centre of mass and inertia, checked.


def payload_parameters(mass: float, com: Sequence[float] | Array, inertia: object = None) -> Array:
    """Ten standard parameters of a known body, in the frame of the link that carries it.

    Parameters
    ----------
    mass : float
        Mass, kg.
    com : (3,) array_like
        Centre of mass, m.
    inertia : (3, 3) or (6,) array_like, optional
        Inertia about the centre of mass, kg m^2, or the matrix elements ixx, ixy, ixz, iyy, iyz, izz. Default: a point
        mass.

    Returns
    -------
    (10,) array
        XX XY XZ YY YZ ZZ MX MY MZ M about the frame's origin.

    Raises
    ------
    IdentificationError
        If no body can have these values.

    Examples
    --------
    >>> from dynid import payload_parameters
    >>> payload_parameters(2.0, [0.0, 0.0, 0.1]).round(3) + 0.0
    array([0.02, 0.  , 0.  , 0.02, 0.  , 0.  , 0.  , 0.  , 0.2 , 2.  ])
    """
    m, c = _check_numbers("mass", mass, ()), _check_numbers("com", com, (3,))
    J = np.zeros((3, 3))
    if inertia is not None:
        J = _check_numbers("inertia", inertia, (3, 3), (6,))
        J = inertia_matrix(J) if J.ndim == 1 else J
        if not np.allclose(J, J.T, rtol=1e-9, atol=1e-12):
            raise IdentificationError("inertia_not_symmetric", "the inertia of the payload must be a symmetric matrix")
    return check_payload_parameters(from_body(Body(float(m), c, J)))


def check_payload_parameters(parameters: object) -> Array:
    """Return ten standard parameters as an array; raise where no body can have them."""
    p = _check_numbers("parameters", parameters, (10,))
    check_mass(p[9])
    P = pseudo_inertia(p)
    if np.linalg.eigvalsh(P).min() < -1e-6 * np.abs(P).max():
        raise IdentificationError(
            "payload_not_physical", "the inertia of this payload is physically impossible: about its centre of mass, "
            "each "
            "principal moment is at most the sum of the two others",
        )  # fmt: skip
    return p


def check_mass(mass: object) -> float:
    """Return a positive mass in kg; raise for others."""
    m = float(_check_numbers("mass", mass, ()))
    if m <= 0.0:
        raise IdentificationError(
            "payload_mass_not_positive", "the mass of the payload must be positive, got {mass:.6g} kg", mass=m
        )
    return m


def _check_numbers(what: str, value: object, *shapes: tuple[int, ...]) -> Array:
    """Finite numbers of one of the shapes; DynidError with their name where they are none."""
    try:
        x = np.array(np.nan if isinstance(value, bool) else value, dtype=np.float64)
    except (TypeError, ValueError):
        x = np.array(np.nan)
    if x.shape not in shapes or not np.isfinite(x).all():
        counts = " or ".join(" x ".join(map(str, shape)) or "one" for shape in shapes)
        got = str(value)[:60]
        raise IdentificationError(
            "invalid_payload_values", "{quantity} of the payload: got {got!r}",
            "give finite numbers ({counts} of them)", quantity=what, counts=counts, got=got,
        )  # fmt: skip
    return x
