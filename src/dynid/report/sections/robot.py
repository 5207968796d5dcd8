"""The robot: a drawing and its table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.errors import DynidError
from dynid.report.drawing import draw_robot, middle_posture
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import number
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class RobotSection:
    """Skeleton, modified Denavit-Hartenberg table, gravity."""

    name: str = "robot"
    title: str = "Robot"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """Drawing at the mean posture of the logs, or in the middle of the limits."""
        robot, unknown = subject.result.robot, subject.result.equation.unknown
        try:
            table = _mdh_table(robot.to_mdh())
        except DynidError:  # frames that the notation does not have; the drawing needs none
            table = None
        return {
            "robot": robot,
            "gravity": ", ".join(number(float(x), 4) for x in robot.gravity),
            "drawing": draw_robot(robot, _posture(subject)),
            "table": table,
            "unknown": ", ".join(unknown or ()),
        }


def _posture(subject: Subject) -> Array:
    for replay in subject.replays:
        if replay.findings.mean:
            return np.array(replay.findings.mean)
    return middle_posture(subject.result.robot)


def _mdh_table(robot: Robot) -> Table:
    head = ("joint", "parent", "type", "gamma", "b", "alpha", "d", "theta", "r", "from", "to", "speed", "effort")
    rows = [_row(robot, link) for link in robot.links if link.mdh is not None]
    return Table("Modified Denavit-Hartenberg table: degrees and m, limits likewise, N m or N", head, rows, 3)


def _row(robot: Robot, link: Link) -> list[Cell]:
    assert link.mdh is not None
    parent = robot.links[link.parent].joint if link.parent >= 0 else "base"
    row = [Cell(link.joint), Cell(parent), Cell(link.kind)]
    for letter in ("gamma", "b", "alpha", "d", "theta", "r"):
        entry = getattr(link.mdh, letter)
        value = math.degrees(entry.value) if letter in ("gamma", "alpha", "theta") else entry.value
        row.append(cell(value, f"{entry.text} = {value:.5g}" if entry.text else f"{value:.5g}"))
    turns = math.degrees(1.0) if link.kind == "revolute" else 1.0
    limits = link.limits
    for value in (turns * limits.lower, turns * limits.upper, turns * limits.velocity, limits.effort):
        row.append(cell(value, f"{value:.4g}" if math.isfinite(value) else "-"))
    return row
