"""Robots, their physical parameters and checks of their files, in the terminal and as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.cli import terminal
from dynid.cli.output.identification import LEVEL_STYLES, number_text
from dynid.cli.terminal import Outputs, escape_markup, print_line, show_note
from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.exports.export import Export, export
from dynid.messages import Message, command_line_wording
from dynid.payload.gains import Gains
from dynid.payload.payload import ELEMENTS, Payload
from dynid.physical.check import Check
from dynid.physical.constraints import Interval
from dynid.physical.find import physical_parameters
from dynid.physical.parameters import PhysicalParameters
from dynid.robot.inertia import to_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from dynid.robot.robot import Robot


def robots_table(robots: Mapping[str, Robot]) -> Table:
    """Table of the bundled robots with their joints, structure, published moving mass and source."""
    from rich.table import Table

    table = Table("name", "joints", "structure", "moving kg", "source", box=None)
    for name, robot in robots.items():
        mass = "" if robot.published_moving_mass is None else f"{robot.published_moving_mass:.4g}"
        table.add_row(name, str(robot.n), describe_structure(robot), mass, escape_markup(robot.source))
    return table


def describe_structure(robot: Robot) -> str:
    """Text on a robot's structure, serial, tree or closed, with the kinds of joints: `serial RRPR`."""
    kinds = "".join(robot.links[k].kind[0].upper() for k in robot.tree_joints)
    parents = [link.parent for link in robot.links]
    shape = "serial" if len(set(parents)) == len(parents) else "tree"
    if robot.couplings or robot.closures:
        shape = "closed"
    return f"{shape} {kinds}"


def show_mdh(robot: Robot, screen: Console) -> None:
    """Print the modified Denavit-Hartenberg rows; in a narrow terminal the limits are a table of their own."""
    from rich.measure import Measurement

    if Measurement.get(screen, screen.options.update(max_width=10_000), mdh_table(robot)).maximum <= screen.width:
        screen.print(mdh_table(robot))
        return
    for part in (slice(0, GEOMETRY), slice(GEOMETRY, None)):
        screen.print(mdh_table(robot, part))


GEOMETRY = 9
"""Columns of a table of Denavit-Hartenberg rows before those of the limits."""


def mdh_table(robot: Robot, part: slice = slice(None)) -> Table:
    """Table of modified Denavit-Hartenberg rows, angles in degrees, lengths in m; part: some of its columns."""
    from rich.table import Table

    names = ("joint", "parent", "type", "gamma", "b", "alpha", "d", "theta", "r", "position", "velocity", "effort")
    table = Table(*dict.fromkeys(("joint", *names[part])), box=None)
    for link in robot.links:
        if link.mdh is None:
            continue
        row = link.mdh
        letters = [
            _length_text(row.b),
            _degrees_text(row.alpha),
            _length_text(row.d),
            _degrees_text(row.theta),
            _length_text(row.r),
        ]
        parent = robot.links[link.parent].joint if link.parent >= 0 else "0"
        limits, turns = link.limits, link.kind == "revolute"
        position = (
            f"{_number_text(limits.lower, turns)} .. {_number_text(limits.upper, turns)}"
            if math.isfinite(limits.upper)
            else ""
        )
        cells = (
            escape_markup(link.joint), escape_markup(parent), link.kind, _degrees_text(row.gamma), *letters,
            position, _number_text(limits.velocity, turns), _number_text(limits.effort, False),
        )  # fmt: skip
        table.add_row(*([] if part.start in (None, 0) else cells[:1]), *cells[part])
    return table


def _length_text(value: Any) -> str:
    """Text of a length in m, with its expression where it has one."""
    return f"{value.text} = {value.value:.6g}" if value.text else f"{value.value:.6g}"


def _degrees_text(value: Any) -> str:
    """Text of an angle in degrees, with its expression where it has one."""
    degrees = f"{math.degrees(value.value):.6g}"
    return f"{value.text} = {degrees}" if value.text else degrees


def _number_text(value: float, turns: bool) -> str:
    """Text of a number, in degrees where the joint turns; empty where it is not finite."""
    return f"{math.degrees(value) if turns else value:.5g}" if math.isfinite(value) else ""


def robot_json_data(robot: Robot) -> dict[str, object]:
    """Data of a robot's table for `--json`: SI units and radians."""
    joints = []
    for link in robot.links:
        if link.mdh is None:
            continue
        letters = {k: getattr(link.mdh, k) for k in ("gamma", "b", "alpha", "d", "theta", "r")}
        joints.append(
            {
                "name": link.joint,
                "parent": robot.links[link.parent].joint if link.parent >= 0 else None,
                "type": link.kind,
                **{key: value.value for key, value in letters.items()},
                "symbolic": {key: value.text for key, value in letters.items() if value.text},
            }
        )
    parameters = dict(zip(robot.parameter_names, map(float, robot.parameters), strict=True))
    return {
        "name": robot.name,
        "gravity": [float(x) for x in robot.gravity],
        "joints": joints,
        "parameters": parameters,
        "published": published_json_data(robot),
        "notes": list(robot.notes),
    }


def published_json_data(robot: Robot) -> dict[str, object] | None:
    """Data of published masses (kg) for `--json`; None where the robot's file states nothing."""
    known = robot.published
    if known is None:
        return None
    return {
        "total": known.total,
        "includes_base": known.includes_base,
        "base": known.base,
        "moving": robot.published_moving_mass,
        "links": known.masses,
        "source": known.source,
    }


def describe_published_masses(robot: Robot) -> str:
    """Sentence on the published masses of a robot; empty where its file states nothing."""
    known = robot.published
    if known is None:
        return ""
    links = ", ".join(f"{name}: {mass:.4g}" for name, mass in known.masses.items())
    moving = robot.published_moving_mass
    parts = [f"links {links}"] if links else []
    parts += [f"moving {moving:.4g}"] if moving is not None else []
    parts += [f"total {known.total:.4g} {'with' if known.includes_base else 'without'} the base"] if known.total else []
    return f"published masses, kg: {'; '.join(parts) or 'unknown'} ({known.source})"


def show_physical_parameters(
    found: PhysicalParameters, screen: Console, *, ranges: bool = False, details: bool = True
) -> None:
    """Print the total mass and the verdict, the bodies, the parameters with their source, the cost, and what binds.

    details: without, only verdict and bodies.
    """
    robot = found.robot
    style, head = LEVEL_STYLES[found.verdict.level], f"verdict on the bodies: {found.verdict.level}"
    print_line(
        screen, f"{robot.name}: bodies of {len(robot.links)} links, {found.total_mass:.4g} kg together", style="bold"
    )
    print_line(screen, f"verdict on the bodies: {verdict_text(found)}", style=style, until=len(head))
    print_line(screen, f"next: {command_line_wording(found.verdict.next_step)}")
    terminal.print_fitting_table(screen, lambda: bodies_table(found), lambda: bodies_table(found, apart="\n"))
    if not details:
        return
    screen.print(parameters_table(found, ranges=ranges))
    print_line(
        screen, "data: by how much the data reduce the standard deviation of the prior; +-: where the data alone decide"
    )
    if ranges:
        print_line(
            screen, "low, high: of all bodies that can exist and fit as well (at most "
            f"{found.body_ranges.increase:.3g} in chi-square above the best: three jackknife standard deviations); "
            "inf: unbounded"
        )  # fmt: skip
    screen.print(cost_table(found))
    print_line(screen, describe_cost_of_consistency(found))
    for binding in found.bindings:
        print_line(screen, f"active constraint ({100.0 * binding.share:.0f} % of the multipliers): {binding}")
    for note in found.notes:
        show_note(note, screen)


def verdict_text(found: PhysicalParameters) -> str:
    """Text of the level and the reasons of a verdict, in the words of the command line."""
    return f"{found.verdict.level}: {'; '.join(map(command_line_wording, found.verdict.reasons))}"


def describe_cost_of_consistency(found: PhysicalParameters) -> str:
    """Sentence on how much physically consistent parameters predict worse than the identified ones."""
    if not found.is_changed:
        return (
            "the identified parameters are physically consistent as they are; staying near the prior where the data "
            f"say little raises chi-square by {found.cost:.3g}"
        )
    return (
        "the identified parameters are not physically consistent; the nearest ones that are raise chi-square by "
        f"{found.cost:.3g} (probability of as much by noise alone: {found.chance:.2g})"
    )


def bodies_table(found: PhysicalParameters, *, apart: str = " ") -> Table:
    """Table of mass, centre of mass and principal moments of every link; apart: what stands between components."""
    from rich.table import Table

    table = Table("link", box=None)
    for title in ("mass\nkg", "centre of mass\nm", "principal moments\nkg m^2", "margin"):
        table.add_column(title, justify="right")
    table.add_column("prior")
    margins = iter(found.eigenvalues)
    for link, source in zip(found.robot.links, found.prior_source, strict=True):
        if not link.inertia.any():
            table.add_row(escape_markup(link.name), "0", "", "", "", "massless as declared")
            continue
        body = to_body(link.inertia)
        com, J = apart.join(number_text(x, 3) for x in body.com), np.linalg.eigvalsh(body.inertia)
        moments = apart.join(number_text(x, 3) for x in J)
        table.add_row(
            escape_markup(link.name),
            number_text(body.mass, 4),
            com,
            moments,
            number_text(next(margins), 2),
            escape_markup(source),
        )
    return table


def parameters_table(found: PhysicalParameters, *, ranges: bool = False) -> Table:
    """Table of parameters with deviations and shares of the data; ranges: those of all bodies, too."""
    from rich.table import Table

    table = Table("parameter", box=None)
    for title in ("value", "+-", "data", "prior", *(("low", "high") if ranges else ())):
        table.add_column(title, justify="right")
    table.add_column("unit")
    ends = found.ranges if ranges else np.zeros((len(found.names), 0))
    rows = zip(found.names, found.values, found.sigma, found.from_data, found.prior, ends, found.units, strict=True)
    for name, value, sigma, share, prior, own, unit in rows:
        spread = number_text(sigma, 2) if np.isfinite(sigma) else ""
        table.add_row(
            escape_markup(name),
            number_text(value, 5),
            spread,
            f"{100 * share:.0f} %",
            number_text(prior, 3),
            *(number_text(end, 3) for end in own),
            escape_markup(unit),
        )
    return table


def cost_table(found: PhysicalParameters) -> Table:
    """Table of the NRMSE per channel before and after physical consistency."""
    from rich.table import Table

    table = Table("channel", box=None)
    for title in ("NRMSE as identified", "of bodies"):
        table.add_column(title, justify="right")
    rows = zip(found.identification.channels, found.nrmse_before, found.nrmse_after, strict=True)
    for name, before, after in rows:
        table.add_row(escape_markup(name), f"{before:.4f}", f"{after:.4f}")
    return table


def physical_json_data(found: PhysicalParameters, *, ranges: bool = False) -> dict[str, object]:
    """Data of physical parameters for `--json`; ranges: with those of all bodies that fit as well, null: unbounded."""
    more: dict[str, object] = {}
    if ranges:
        finite = np.where(np.isfinite(found.ranges), found.ranges, np.nan)
        more = {"ranges": finite.tolist(), "range_increase": found.body_ranges.increase}
    return more | {
        "robot": found.robot.name,
        "verdict": found.verdict.level,
        "reasons": list(found.verdict.reasons),
        "names": list(found.names),
        "units": list(found.units),
        "values": found.values.tolist(),
        "sigma": found.sigma.tolist(),
        "from_data": found.from_data.tolist(),
        "determined": list(found.determined),
        "prior": found.prior.tolist(),
        "total_mass": found.total_mass,
        "links": {
            link.name: {
                "mass": (body := to_body(link.inertia)).mass,
                "com": body.com.tolist(),
                "inertia": body.inertia.tolist(),
                "prior": source,
            }
            for link, source in zip(found.robot.links, found.prior_source, strict=True)
        },
        "channels": list(found.identification.channels),
        "nrmse_before": found.nrmse_before.tolist(),
        "nrmse_after": found.nrmse_after.tolist(),
        "cost": found.cost,
        "prior_weight": found.prior_weight,
        "chance": found.chance,
        "margin": found.margin,
        "bindings": [{"link": b.link, "reason": b.reason, "share": b.share} for b in found.bindings],
        "notes": list(found.notes),
        "warnings": list(found.warnings),
    }


def show_check(found: Check, screen: Console) -> None:
    """Print which links were checked and whether they can be repaired; the faults follow as warnings."""
    known = len(found.bodies) - len(found.unknown)
    print_line(screen, f"{found.robot.name}: {known} of {len(found.bodies)} links have values", style="bold")
    if found.unknown:
        print_line(screen, f"without values, not checked: {', '.join(found.unknown)}")
    if published := describe_published_masses(found.robot):
        print_line(screen, published)
    if not found.faults:
        print_line(screen, "nothing is wrong" if known else "there is nothing to check")
        return
    bad, felt = {f.link for f in found.faults}, {f.link for f in found.faults if f.matters}
    print_line(screen, f"physically impossible links: {', '.join(dict.fromkeys(f.link for f in found.faults))}")
    print_line(
        screen, f"visible in the joint torques: {', '.join(x for x in found.bodies if x in felt) or 'none of them'}"
    )
    if len(bad) > len(felt):
        print_line(screen, f"not felt: {', '.join(x for x in found.bodies if x in bad - felt)}")
    if found.mended is not None:
        print_line(
            screen,
            "physically possible bodies with the same joint torques exist: `--out mended.toml` writes the nearest ones",
        )
    elif found.impossible:
        print_line(screen, "no physically possible bodies give the joint torques of this file")


def check_json_data(found: Check) -> dict[str, object]:
    """Data of the check of a robot file for `--json`."""
    return {
        "robot": found.robot.name,
        "links": list(found.bodies),
        "unknown": list(found.unknown),
        "published": published_json_data(found.robot),
        "faults": [{"link": f.link, "problem": f.problem, "matters": f.matters} for f in found.faults],
        "can_be_mended": found.mended is not None,
        "impossible": found.impossible,
        "mended": None
        if found.mended is None
        else dict(zip(found.mended.parameter_names, found.mended.parameters.tolist(), strict=True)),
    }


def parse_bounds(words: Sequence[str]) -> dict[str, Interval]:
    """Parse --bound: bounds from NAME=LOW:HIGH words; an end that is left out is open."""
    bounds: dict[str, Interval] = {}
    for word in words:
        name, _, interval = word.rpartition("=")
        low, colon, high = interval.partition(":")
        try:
            ends = (float(low) if low else -math.inf, float(high) if high else math.inf)
        except ValueError:
            ends = (math.nan, math.nan)
        if not name or not colon or any(map(math.isnan, ends)):
            raise DynidError(
                "option_malformed", "--bound {word}:", "write NAME=LOW:HIGH, an end may be left out", word=word,
            )  # fmt: skip
        bounds[name] = ends
    return bounds


# What `dynid identify` does after the estimate where bodies are wanted: physical parameters, and a URDF of them.


def check_output_paths(physical: Path | None, urdf: Path | None, others: list[Path], keep: list[Path]) -> None:
    """Raise, before any work, where the files cannot be written, each to its own place."""
    terminal.check_output_path("--physical", physical, suffixes=(".json",), keep=keep)
    terminal.check_output_path("--urdf", urdf, suffixes=(".urdf",), keep=keep)
    places = [path.resolve() for path in (*others, physical, urdf) if path is not None]
    if len(set(places)) < len(places):
        raise DynidError("same_output_twice", "two outputs name the same file", "give them different names")


class PhysicalOutputs:
    """Physical parameters and a URDF of them, written where they are asked for; a failure is kept among the outputs.

    known: what `physical_parameters` takes beside the result.
    """

    def __init__(
        self,
        result: Identification,
        outputs: Outputs,
        physical: Path | None,
        urdf: Path | None,
        *,
        force: bool = False,
        **known: Any,
    ) -> None:
        self.found: PhysicalParameters | None = None
        self.exported: Export | None = None
        self._outputs, self._physical, self._urdf, self._force = outputs, physical, urdf, force
        if physical is not None or urdf is not None:
            try:
                self.found = physical_parameters(result, **known)
            except DynidError as error:
                outputs.failed.append(error.message)

    def write_files(self) -> None:
        """Write the physical parameters and the URDF that were asked for; failures are kept."""
        found = self.found
        if found is not None:
            self._outputs.write_file(self._physical, found.save)
            self.exported = self._outputs.write_file(self._urdf, lambda place: export(found, place, force=self._force))

    def show_bodies(self, screen: Console, *, details: bool) -> None:
        """Print the bodies, and what was found when the URDF was read again; details: their parameters, too."""
        if self.found is not None:
            show_physical_parameters(self.found, screen, details=details)
        if self.exported is not None:
            print_line(screen, str(self.exported.verification))
            if self.exported.replay is not None:
                print_line(screen, str(self.exported.replay))
            for note in self.exported.notes:
                show_note(note, screen)

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings of the bodies and of the URDF."""
        bodies = () if self.found is None else self.found.warnings
        return (*bodies, *(() if self.exported is None else self.exported.warnings))


# Payloads and drive gains as a person sees them in the terminal.


def show_payload(found: Payload, screen: Console) -> None:
    """Print the logs, the parameters, the body, and what cannot be known."""
    print_line(screen, f"{found.robot}: payload of link {found.link}, in its frame ({found.method})", style="bold")
    _show_logs(found.findings, found.friction, found.cutoff, found.notes, screen)
    screen.print(_values_table("parameter", found.names, found.values, found.quantile * found.sigma, found.units))
    names = ["mass", *(f"centre of mass {axis}" for axis in "xyz"), *(f"inertia {e} about it" for e in ELEMENTS)]
    upper = np.triu_indices(3)
    values = np.concatenate([[found.mass], found.com, found.inertia[upper]])
    sigma = np.concatenate([[found.mass_sigma], found.com_sigma, found.inertia_sigma[upper]])
    screen.print(_values_table("body", names, values, found.quantile * sigma, ["kg", *["m"] * 3, *["kg m^2"] * 6]))
    print_line(screen, _intervals_legend(found.groups))
    if found.gain_sigma:
        weighed = f", the payload being weighed by joint {found.reference}" if found.reference else ""
        print_line(screen, f"they allow for drive gains that are {100.0 * found.gain_sigma:.3g} % off{weighed}")


def show_gains(found: Gains, screen: Console) -> None:
    """Print the logs, the gains and the robot's parameters in true units."""
    print_line(screen, f"{found.robot}: drive gains by a payload at link {found.link}", style="bold")
    _show_logs(found.findings, found.friction, found.cutoff, found.notes, screen)
    half = found.quantile * found.sigma
    screen.print(_values_table("gain of joint", found.names, found.values, half, ["true / measured"] * len(half)))
    half = found.quantile * found.parameter_sigma
    screen.print(_values_table("parameter", found.parameter_names, found.parameters, half, found.parameter_units))
    print_line(screen, _intervals_legend(found.groups))
    if np.isfinite(found.values).all():
        print_line(screen, f"use them: --gain {','.join(f'{g:.6g}' for g in found.values)}")


def _show_logs(
    findings: Sequence[tuple[str, tuple[Message, ...]]],
    friction: Sequence[str],
    cutoff: float | None,
    notes: Sequence[Message],
    screen: Console,
) -> None:
    """Print what was found in the logs, friction, cut-off and notes."""
    for log, sentences in findings:
        print_line(screen, f"{log}: {'; '.join(map(command_line_wording, sentences)) or 'nothing to repair'}")
    print_line(
        screen, f"filter: {'none' if cutoff is None else f'{cutoff:.4g} Hz'}; friction: {', '.join(friction) or 'none'}"
    )
    for note in notes:
        show_note(note, screen)


def _values_table(
    title: str, names: Sequence[str], values: Sequence[float] | np.ndarray, half: np.ndarray, units: Sequence[str]
) -> Table:
    """Table of values with the half widths of their intervals; `not known` where they are NaN."""
    from rich.table import Table

    table = Table(title, box=None)
    for column in ("value", "+- 95 %"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    for name, value, h, unit in zip(names, values, half, units, strict=True):
        known = bool(np.isfinite(value))
        cells = (number_text(value, 5), number_text(h, 2)) if known else ("not known", "")
        table.add_row(escape_markup(name), *cells, escape_markup(unit))
    return table


def _intervals_legend(groups: int) -> str:
    """Text below a table on what the intervals mean."""
    how = f"jackknife over {groups} blocks of time" if groups else "textbook formula, white residuals"
    return f"+-: half width of the 95 % interval ({how})"
