"""What a table declares unknown: symbols, letters for all joints, or letters of one joint."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dynid.robot.schema import RobotTable

LETTERS = {"modified": ("gamma", "b", "alpha", "d", "theta", "r"), "standard": ("a", "alpha", "d", "theta")}
"""Letters of a row, by convention."""

_ENTRY = re.compile(r"([a-z]+)([0-9]*)")


def read_unknown(
    table: RobotTable, names: Sequence[str], parents: Sequence[int], problems: list[str]
) -> tuple[str, ...]:
    """Symbols and entries in modified notation (`d3`); those of a standard table are converted.

    A row's a and alpha of the standard convention are d and alpha of the joints after it.
    """
    letters = LETTERS[table.convention]
    found: list[str] = []
    for word in table.unknown:
        match = _ENTRY.fullmatch(word)
        if word in table.symbols:
            found.append(word)
        elif match and match[1] in letters and not match[2]:
            found += _whole_letter(table, match[1], parents)
        elif match and match[1] in letters and 1 <= int(match[2]) <= len(names):
            found += _entry(table, match[1], int(match[2]) - 1, parents)
        else:
            problems.append(
                f"unknown: '{word}' is no symbol of the file and no letter of convention = \"{table.convention}\"; "
                f"letters are {', '.join(letters)}, alone or with a joint's number 1 to {len(names)}"
            )
    for j, joint in enumerate(table.joint):
        for word in joint.unknown:
            if word in letters:
                found += _entry(table, word, j, parents)
            else:
                problems.append(
                    f"joint {j + 1} ('{names[j]}'), unknown: '{word}' is no letter of convention = "
                    f'"{table.convention}", which has {", ".join(letters)}'
                )
    return tuple(dict.fromkeys(found))


def _whole_letter(table: RobotTable, letter: str, parents: Sequence[int]) -> list[str]:
    if table.convention == "modified":
        return [letter]
    return [entry for j in range(len(parents)) for entry in _entry(table, letter, j, parents)]


def _entry(table: RobotTable, letter: str, j: int, parents: Sequence[int]) -> list[str]:
    if table.convention == "modified":
        return [f"{letter}{j + 1}"]
    if letter in ("theta", "d"):
        return [f"{'theta' if letter == 'theta' else 'r'}{j + 1}"]
    return [f"{'d' if letter == 'a' else letter}{k + 1}" for k, parent in enumerate(parents) if parent == j]


def loose_letters(table: RobotTable, j: int) -> frozenset[str]:
    """Which of a and alpha of row j of a standard table are unknown, by letter or by a symbol in them."""
    joint = table.joint[j]
    words = {*table.unknown, *(f"{letter}{j + 1}" for letter in joint.unknown)}
    loose = set()
    for letter in ("a", "alpha"):
        value = getattr(joint, letter)
        symbols = set(re.findall(r"[A-Za-z_]\w*", value)) if isinstance(value, str) else set()
        if {letter, f"{letter}{j + 1}"} & words or symbols & words & set(table.symbols):
            loose.add(letter)
    return frozenset(loose)
