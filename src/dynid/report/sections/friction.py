"""Friction curves, with the torque that they have to explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.estimation.identification import Identification
from dynid.report.figure import Figure, axis, corner_title, line, numbers
from dynid.report.replay import column_values, is_of_velocity
from dynid.report.subject import Subject
from dynid.report.words import ARROW, percent, plot_text, short_name
from dynid.robot.transform import Array

GRID = 161


@dataclass(frozen=True, slots=True)
class FrictionSection:
    """Torque over velocity per joint: the identified curve, and what the rigid body leaves of the measurement."""

    name: str = "friction"
    title: str = "Friction"

    def fill(self, subject: Subject) -> Mapping[str, Any] | None:
        """None where friction was not identified."""
        result = subject.result
        if not result.friction:
            return None
        joints = [channel.joint for channel in result.equation.torque_channels]
        others = [block for block in result.friction if not is_of_velocity(block)]
        shown = next((replay for replay in subject.used if any(len(cloud) for cloud in replay.clouds)), None)
        trials = result.trials
        return {
            "blocks": result.friction,
            "others": others,
            "figures": [_figure(subject, j, shown.clouds[c] if shown else None) for c, j in enumerate(joints)],
            "has_cloud": shown is not None,
            "only": short_name(shown.name) if shown is not None and len(subject.used) > 1 else None,
            "logs": len(subject.used),
            "admitted": [f"{t.block} ({percent(t.before)} {ARROW} {percent(t.error)})" for t in trials if t.admitted],
        }


def friction_curve(result: Identification, joint: int, v: Array) -> Array:
    """Friction (N,) while a motor slides at velocities v, of the blocks that are curves over it."""
    equation = result.equation
    n, logs = equation.robot.n, len(result.factors)
    values = np.mean([column_values(result, log) for log in range(logs)], axis=0)[equation.rigid_count :]
    still = np.zeros((len(v), n))
    moving = still.copy()
    moving[:, joint] = v
    stops = np.repeat(np.sign(moving)[:, None], len(equation.shapes.widths), axis=1)
    columns = equation.shapes.values(np.arange(len(v), dtype=np.float64), still, moving, stops, still)[:, :, joint]
    total = np.zeros(len(v))
    for name, places in equation.blocks_of.items():
        if is_of_velocity(name):
            for place in places[places % n == (places[0] + joint) % n] - equation.rigid_count:
                total += values[place] * columns[:, place // n]
    return total


def _velocities(limit: float, cloud: Array | None) -> Array:
    """Where to draw a curve: velocities that were seen, or up to the limit; steep around 0."""
    fastest = limit if np.isfinite(limit) and limit > 0.0 else 1.0
    low, high = (-fastest, fastest) if cloud is None or not len(cloud) else (cloud[:, 0].min(), cloud[:, 0].max())
    near = 1e-6 * max(abs(low), abs(high), 1e-3) * np.array([-1.0, 0.0, 1.0])
    v = np.union1d(np.linspace(low, high, GRID), near[(near >= low) & (near <= high)])
    return np.asarray(v)


def _figure(subject: Subject, joint: int, cloud: Array | None) -> Figure:
    result = subject.result
    name, turns = (
        result.robot.joint_names[joint],
        result.robot.links[result.robot.active_links[joint]].kind == "revolute",
    )
    v = _velocities(float(result.robot.limits.velocity[joint]), cloud)
    traces = []
    if cloud is not None:
        traces.append({
            "type": "scatter", "mode": "markers", "x": numbers(cloud[:, 0]), "y": numbers(cloud[:, 1]),
            "name": "measured less rigid body", "marker": {"size": 3, "color": "#8a94a3", "opacity": 0.55},
        })  # fmt: skip
    traces.append(line(v, friction_curve(result, joint, v), "identified", "#e08a00", width=2.4))
    units = ("rad/s", "N m") if turns else ("m/s", "N")
    layout = {
        "title": corner_title(f"joint {plot_text(name)}"),
        "xaxis": axis(f"v [{units[0]}]"), "yaxis": axis(f"[{units[1]}]"), "hovermode": "closest",
    }  # fmt: skip
    return Figure(f"Friction of joint {name} over its velocity", traces, layout, 290)
