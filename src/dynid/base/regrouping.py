"""What every method of finding base parameters ends in: the kept columns and how the others join them."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Regrouping:
    """The lexicographically first independent columns, and XB = matrix @ X (Gautier 1991, eq. 20).

    kept: indices into the p columns; matrix (len(kept), p): the identity on the kept columns, beta on the
    others, zero where a parameter has no effect or was left out (known zeros).
    """

    kept: tuple[int, ...]
    matrix: Array
