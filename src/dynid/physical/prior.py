"""What is believed of the links before the data speak: nominal values where bodies can have them, else their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.errors import PhysicalError
from dynid.messages import Message
from dynid.robot.inertia import ROTOR, SYMBOLS, Body, from_body, pseudo_inertia, to_body
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array

DENSITY = 600.0
"""kg/m^3 of the bodies that stand for links of unknown mass: tubes of real arms, with air and cables inside."""

MOTORS = 6.0
"""Motors and gears at a link's ends weigh as much as a tube that is so many radii longer."""

END = 0.4
"""Length of a link that carries nothing, over the mean of the others."""

BASE_RADIUS, TAPER = 0.038, 0.017
"""Radius of a link: a share of the arm's whole reach, and one of the reach from this link on."""

HEAVIEST = 30.0
"""A link weighs at most so many times its prior, or the mean link of the arm by its size: more than solid steel."""

THINNEST = 1e-4
"""Spread of a prior's mass in its thinnest direction over that in its widest, squared: flatter ones are thickened."""

BLUNT = 0.1
"""Share of the spread of a body of its size that a published body's own is widened by."""

ROTOR_SHARE = 0.1
"""Rotor inertia that is believed in where none is known, as a share of the link's inertia about its joint."""


FROM_SIZE = "its size"

OUTSIDE = 6.0
"""Spreads (standard deviations of the mass) from a body's centre from which on a centre of mass is outside of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Ten parameters of every link (links, 10) that bodies can have; rotors (links,) with the size of their doubt.

    heaviest (links,): masses that no link exceeds, kg. sources: where each link's values come from; notes: what was
    not taken as it was given.
    """

    inertia: Array
    rotor: Array
    rotor_scale: Array
    heaviest: Array
    sources: tuple[str, ...]
    notes: tuple[Message, ...]

    @property
    def from_sizes(self) -> tuple[bool, ...]:
        """Whether each link's prior comes from lengths alone."""
        return tuple(source == FROM_SIZE for source in self.sources)

    def with_scaled_mass(self, factor: float) -> Prior:
        """Return the prior with the links that come from sizes so many times heavier."""
        by = np.where(self.from_sizes, factor, 1.0)
        heaviest = self.heaviest * np.maximum(by, 1.0)
        return replace(self, inertia=self.inertia * by[:, None], rotor_scale=self.rotor_scale * by, heaviest=heaviest)


def find_prior(robot: Robot, given: Robot | None, solids: Mapping[str, tuple[Array, Array]] | None = None) -> Prior:
    """Prior of a robot, from `given` where the user gives one: an impossible link there is an error.

    solids: centre and shape of the ellipsoid around a link's shapes, by name; it stands for the link's size.
    """
    if given is not None:
        refuse_other_robot(robot, given, "the prior")
        refuse_impossible_links(given)
    believed = given or robot
    published = {} if given is not None or robot.published is None else robot.published.links
    sized, notes = bodies_from_sizes(robot), []
    for k, link in enumerate(robot.links):
        if solids and link.name in solids:
            sized[k] = _solid_ellipsoid(*solids[link.name])
    inertia, sources = [], []
    for k, link in enumerate(believed.links):
        zero, own = _known_zero_mask(robot.links[k]), published.get(link.name, np.full(10, np.nan))
        stated = [("nominal values", np.where(zero, 0.0, link.inertia)), ("published values", np.where(zero, 0.0, own))]
        if is_massless(robot.links[k]):
            stated = []
        elif not np.isnan(stated[0][1]).any() and not _is_possible_body(stated[0][1]):
            notes.append(Message(
                "nominal_link_not_physical", "link {link}: its nominal values are physically impossible; {instead} "
                "for them",
                link=link.name, instead="published values stand" if own[9] > 0.0 else "its size stands",
            ))  # fmt: skip
            stated = stated[1:]
        source, x = next(((name, x) for name, x in stated if x[9] > 0.0), (FROM_SIZE, sized[k]))
        body = _complete_body(x, sized[k])
        inertia.append(_thicken_published_body(body, sized[k]) if source == "published values" else body)
        sources.append(source)
    X = np.array([_nearest_body_with_zeros(x, robot.links[k]) for k, x in enumerate(inertia)])
    about = np.array([_inertia_about_axis(x, link) for x, link in zip(X, robot.links, strict=True)])
    nominal = np.array([link.rotor for link in believed.links])
    rotor = np.where(np.isnan(nominal), ROTOR_SHARE * about, nominal)
    heaviest = HEAVIEST * np.maximum(X[:, 9], np.mean([body[9] for body in sized]))
    doubt = np.maximum(np.abs(rotor), ROTOR_SHARE * about)
    return Prior(X, rotor, doubt, heaviest, tuple(sources), tuple(notes))


def is_massless(link: Link) -> bool:
    """Whether a link is declared to have no mass at all, as those between several joints of one MJCF body."""
    return set(SYMBOLS) <= link.zero


def bodies_from_sizes(robot: Robot) -> list[Array]:
    """Ten parameters of a body of plausible size for every link: motors and gears at its ends, a tube between them.

    A link reaches from its joint to those that it carries. Where frames lie along a joint's axis is a matter of
    convention, so of an offset along an axis the links on both sides have one half each.
    """
    n = len(robot.links)
    ends: list[list[Array]] = [[] for _ in robot.links]
    for k, link in enumerate(robot.links):
        place = np.asarray(link.placement.translation)
        along = link.placement.rotation @ link.axis * float(link.placement.rotation @ link.axis @ place)
        ends[k].insert(0, -0.5 * link.placement.rotation.T @ along)
        if link.parent >= 0:
            ends[link.parent].append(place - 0.5 * along)
    lengths = np.array([max(float(np.linalg.norm(p - points[0])) for p in points) for points in ends])
    known = lengths[lengths > 1e-6]
    last = END * float(known.mean()) if known.size else 0.1
    for k, points in enumerate(ends):
        if len(points) == 1:  # it carries nothing, so nobody says how long it is, nor where to: a ball
            lengths[k] += last
    reach = lengths.copy()
    for k in reversed(robot.topological_order):
        children = [reach[c] for c in range(n) if robot.links[c].parent == k]
        reach[k] += max(children, default=0.0)
    whole = float(reach.max()) or 0.3
    bodies = []
    for points, length, beyond in zip(ends, lengths, reach, strict=True):
        r = BASE_RADIUS * whole + TAPER * beyond
        mass = DENSITY * np.pi * r**2 * (length + MOTORS * r)
        lumped = MOTORS * r / (length + MOTORS * r)
        centre = np.mean(points, axis=0)
        apart = np.array(points) - centre
        spread = apart.T @ apart / len(points) * (lumped + (1.0 - lumped) / 3.0) + 0.5 * r**2 * np.eye(3)
        if len(points) == 1:
            spread = spread + length**2 / 12.0 * np.eye(3)
        bodies.append(from_body(Body(mass, centre, mass * (np.trace(spread) * np.eye(3) - spread))))
    return bodies


def centre_is_outside(robot: Robot, k: int, x: Array, prior: Array) -> bool:
    """Whether a link's centre of mass is OUTSIDE spreads or more from its body by size, and from its prior."""
    for body in (bodies_from_sizes(robot)[k], prior):
        away = x[6:9] / x[9] - body[6:9] / body[9]
        if float(away @ np.linalg.solve(_mass_covariance(body), away)) < OUTSIDE**2:
            return False
    return True


def density_ratio(x: Array, prior: Array) -> float:
    """Density of a body's ellipsoid of inertia over that of its prior's."""
    spread = np.linalg.det(_mass_covariance(prior)) / np.linalg.det(_mass_covariance(x))
    return float(x[9] / prior[9] * np.sqrt(spread))


def refuse_impossible_links(robot: Robot) -> None:
    """Raise PhysicalError that names all links of a robot that no body can be."""
    bad = [
        f"{link.name} ({_describe_impossible(link.inertia)})"
        for link in robot.links
        if not np.isnan(link.inertia).any() and not is_massless(link) and not _is_possible_body(link.inertia)
    ]
    bad += [f"{link.name} ({ROTOR} = {link.rotor:.3g})" for link in robot.links if link.rotor < 0.0]
    if bad:
        raise PhysicalError(
            "prior_not_physical", "the prior '{robot}' has links that are physically impossible: {links}",
            "correct them (`dynid check` says more), or leave the prior out", robot=robot.name, links=list(bad),
        )  # fmt: skip


def refuse_other_robot(robot: Robot, other: Robot, what: str) -> None:
    """Raise PhysicalError where two robots do not have the same joints in the same places."""
    if robot.parameter_names != other.parameter_names:
        raise PhysicalError(
            "prior_of_other_robot", "{subject} '{other_robot}' is not the robot of the result, '{robot}': its "
            "parameters are {parameters}, those of the result {expected}", subject=what, other_robot=other.name,
            robot=robot.name, parameters=_abbreviate_names(other.parameter_names),
            expected=_abbreviate_names(robot.parameter_names),
        )  # fmt: skip
    for mine, its in zip(robot.links, other.links, strict=True):
        apart = max(
            float(np.abs(mine.placement.rotation - its.placement.rotation).max()),
            float(np.abs(mine.placement.translation - its.placement.translation).max()),
            float(np.abs(mine.axis - its.axis).max()),
        )
        if mine.parent != its.parent or mine.kind != its.kind or apart > 1e-3:
            raise PhysicalError(
                "prior_of_other_robot", "{subject} '{other_robot}' is not the robot of the result, '{robot}': joint "
                "{joint} is elsewhere, or of another kind", subject=what, other_robot=other.name, robot=robot.name,
                joint=mine.joint,
            )  # fmt: skip


def _abbreviate_names(names: Sequence[str]) -> str:
    """First and last of many names, and their number."""
    return f"{names[0]} .. {names[-1]} ({len(names)})"


def _known_zero_mask(link: Link) -> Array:
    """Mask of the ten parameters of a link that are declared to be zero."""
    return np.array([symbol in link.zero for symbol in SYMBOLS])


def _is_possible_body(x: Array) -> bool:
    """Whether a body can have ten parameters; flat ones and thin rods, on the border, count."""
    return bool(x[9] > 0.0) and bool(
        np.linalg.eigvalsh(_mass_covariance(x)).min() >= -1e-6 * max(np.trace(_mass_covariance(x)), 0.0)
    )


def _mass_covariance(x: Array) -> Array:
    """Covariance (3, 3) of the mass about its centre, m^2."""
    P, m = pseudo_inertia(x), x[9]
    return np.asarray(P[:3, :3] / m - np.outer(P[:3, 3], P[:3, 3]) / m**2)


def _describe_impossible(x: Array) -> str:
    """Text on why no body can have ten parameters: its mass or its principal moments."""
    if not x[9] > 0.0:
        return f"its mass is {x[9]:.3g} kg"
    J = np.linalg.eigvalsh(to_body(x).inertia)
    return f"principal moments {J[0]:.3g}, {J[1]:.3g}, {J[2]:.3g} kg m^2 about its centre of mass"


def _thicken_flat_body(x: Array) -> Array:
    """Ten parameters of the body with some thickness where it is flat, mass and centre kept."""
    values, V = np.linalg.eigh(_mass_covariance(x))
    floor = max(THINNEST * float(values[-1]), 1e-8)
    if values[0] >= floor:
        return np.array(x)
    spread = V @ np.diag(np.maximum(values, floor)) @ V.T
    return from_body(Body(float(x[9]), x[6:9] / x[9], x[9] * (np.trace(spread) * np.eye(3) - spread)))


def _complete_body(x: Array, sized: Array) -> Array:
    """Ten parameters with the size's values where only a mass, or mass and centre, are known."""
    if not np.isnan(x).any() and _is_possible_body(x):
        return _thicken_flat_body(x)
    body = to_body(sized * (x[9] / sized[9]))
    centre = body.com if np.isnan(x[6:9]).any() else x[6:9] / x[9]
    return from_body(Body(body.mass, centre, body.inertia))


def _solid_ellipsoid(centre: Array, shape: Array) -> Array:
    """Ten parameters of a solid ellipsoid of DENSITY: (x - centre)' shape^-1 (x - centre) <= 1."""
    mass = DENSITY * 4.0 / 3.0 * np.pi * float(np.sqrt(np.linalg.det(shape)))
    spread = shape / 5.0
    return from_body(Body(mass, centre, mass * (np.trace(spread) * np.eye(3) - spread)))


def _thicken_published_body(x: Array, sized: Array) -> Array:
    """Body with some of the thickness of its size: published values are rounded, and of another unit."""
    spread = _mass_covariance(x) + BLUNT * _mass_covariance(sized)
    return from_body(Body(float(x[9]), x[6:9] / x[9], x[9] * (np.trace(spread) * np.eye(3) - spread)))


def _nearest_body_with_zeros(x: Array, link: Link) -> Array:
    """The nearest such body with the known zeros of a link: its centre moves towards the origin until one exists."""
    if not link.zero or is_massless(link):
        return x
    zero = np.array([symbol in link.zero and symbol not in ("XX", "YY", "ZZ", "M") for symbol in SYMBOLS])
    for shrink in (1.0, 0.5, 0.25, 0.1, 0.0):
        body = to_body(x)
        centre = np.where(zero[6:9], 0.0, body.com) * shrink
        tried = np.where(zero, 0.0, from_body(Body(body.mass, centre, body.inertia)))
        if _is_possible_body(tried):
            return _thicken_flat_body(tried) if not zero[:6].any() else tried
    S = np.diag(np.linalg.eigvalsh(_mass_covariance(x)).mean() * np.ones(3))
    return from_body(Body(float(x[9]), np.zeros(3), x[9] * (np.trace(S) * np.eye(3) - S)))


def _inertia_about_axis(x: Array, link: Link) -> float:
    """Inertia about the joint's axis, or mass for prismatic joints."""
    if link.kind != "revolute":
        return float(x[9])
    xx, xy, xz, yy, yz, zz = x[:6]
    return float(link.axis @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ link.axis)
