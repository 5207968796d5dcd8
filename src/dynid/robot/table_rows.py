"""Rows and link values of a robot table; those of a standard Denavit-Hartenberg table are converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dynid.robot.expression import Expression
from dynid.robot.inertia import change_of_frame
from dynid.robot.link_values import LinkValues, read_link_values
from dynid.robot.mdh import moved_zeros
from dynid.robot.robot import MdhRow
from dynid.robot.schema import JointTable, LinkTable
from dynid.robot.table_sheet import Sheet
from dynid.robot.transform import Transform, rotation_x
from dynid.robot.unknown_entries import LETTERS, loose_letters

_ANGLES = ("gamma", "alpha", "theta")


RawRow: TypeAlias = dict[str, Expression]
"""A row as the file writes it, by letter."""


def read_rows(sheet: Sheet) -> list[RawRow]:
    """Rows in the letters of the table's convention."""
    return [_read_row(sheet, j, joint) for j, joint in enumerate(sheet.table.joint)]


def modified_rows(sheet: Sheet, raw: Sequence[RawRow], parents: Sequence[int]) -> list[MdhRow]:
    """Modified rows; those of a standard table are converted (a, alpha of a row belong to the next joint)."""
    if sheet.table.convention == "modified":
        return [MdhRow(**row) for row in raw]
    zero = Expression(0.0)
    rows = []
    for j, row in enumerate(raw):
        before = raw[parents[j]] if parents[j] >= 0 else {"a": zero, "alpha": zero}
        rows.append(MdhRow(zero, zero, before["alpha"], before["a"], row["theta"], row["d"]))
    return rows


def _read_row(sheet: Sheet, j: int, joint: JointTable) -> RawRow:
    letters = LETTERS[sheet.table.convention]
    for key in sorted({"gamma", "b", "r", "a"} & joint.model_fields_set - set(letters)):
        sheet.problems.append(
            f"joint {j + 1} ('{sheet.names[j]}'), {key}: not a letter of convention = "
            f'"{sheet.table.convention}", which has {", ".join(letters)}'
        )
    row = {}
    for letter in letters:
        where = f"joint {j + 1} ('{sheet.names[j]}'), {letter}"
        value = getattr(joint, letter)
        row[letter] = sheet.angle(where, value) if letter in _ANGLES else sheet.number(where, value)
    return row


def read_values(sheet: Sheet, j: int, raw: RawRow) -> LinkValues:
    """Values of a link; those of a standard table refer to its own frame, Tx(a) Rx(alpha) after ours."""
    name = sheet.names[j]
    where = f"link.{name}"
    values = read_link_values(where, sheet.table.link.get(name, LinkTable()), sheet.problems)
    if sheet.table.convention == "modified":
        return values
    a, alpha = raw["a"].value, raw["alpha"].value
    moved = values.moved(Transform(rotation_x(alpha), np.array([a, 0.0, 0.0])), where, sheet.problems)
    loose = loose_letters(sheet.table, j)
    other = Transform(rotation_x(alpha + 0.7 * ("alpha" in loose)), np.array([a + 0.3 * ("a" in loose), 0.0, 0.0]))
    if moved_zeros(change_of_frame(other), values.zero)[0] != moved.zero:
        sheet.problems.append(
            f"{where}, zero: an unknown {' and '.join(sorted(loose))} moves the frame in which these are zeros; "
            'write the table with convention = "modified"'
        )
    return moved
