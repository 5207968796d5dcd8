"""The value that every method hands out: base parameters, their relations, and what is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dynid.concurrency import cached_property
from dynid.errors import DynidError
from dynid.identifiability.numeric import Diagnostics
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.samples import Question
from dynid.messages import Message
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from dynid.identifiability.loops import Certificate
    from dynid.identifiability.relations import Coefficients
    from dynid.identifiability.samples import ScaledRows
    from dynid.identifiability.symbolic_numbers import Form


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """Base parameters of a robot under a model: XB = matrix @ X is all that the model can reveal of X.

    gap: smallest accepted over largest rejected column residual, infinite where ranks were decided exactly;
    diagnostics: the columns of Gautier 1991, Table II, of the sampling methods; certificate: what the exact method
    showed about a robot with loops.
    """

    question: Question
    method: str
    regrouping: Regrouping
    gap: float
    diagnostics: Diagnostics | None
    warnings: tuple[Message, ...]
    scaled: ScaledRows | None = None
    certificate: Certificate | None = None

    @property
    def robot(self) -> Robot:
        """The robot in question."""
        return self.question.robot

    @property
    def count(self) -> int:
        """Number of base parameters."""
        return len(self.kept)

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the kept columns among those of `regressor` called with the same arguments."""
        return self.regrouping.kept

    @cached_property
    def columns(self) -> tuple[Parameter, ...]:
        """Names of all columns in question."""
        return tuple(column.name for column in self.question.columns)

    @cached_property
    def names(self) -> tuple[Parameter, ...]:
        """Names of the kept parameters, in standard order."""
        return tuple(self.columns[k] for k in self.kept)

    @cached_property
    def known(self) -> tuple[Parameter, ...]:
        """Parameters known to be zero, which take no part."""
        return tuple(self.columns[k] for k in self.question.known_zero_columns)

    @cached_property
    def no_effect(self) -> tuple[Parameter, ...]:
        """Parameters that the model does not see at all."""
        silent = ~np.any(self.regrouping.matrix != 0.0, axis=0)
        return tuple(
            name for k, name in enumerate(self.columns) if silent[k] and k not in self.question.known_zero_columns
        )

    @cached_property
    def regrouped(self) -> tuple[Parameter, ...]:
        """Parameters that show only in sums with kept ones."""
        others = {*self.names, *self.no_effect, *self.known}
        return tuple(name for name in self.columns if name not in others)

    @cached_property
    def matrix(self) -> Array:
        """(count, len(robot.parameter_names)), friction columns after them; zero columns for what was left out."""
        place = {name: k for k, name in enumerate(self.robot.parameter_names)}
        extra = [name for name in self.columns if name not in place]
        place |= {name: len(place) + k for k, name in enumerate(extra)}
        matrix = np.zeros((self.count, len(place)))
        matrix[:, [place[name] for name in self.columns]] = self.regrouping.matrix
        return matrix

    def values(self, X: Array) -> Array:
        """Values of the base parameters from standard ones (Gautier 1991, eq. 28); NaN where one is needed."""
        X = np.asarray(X, dtype=np.float64)
        if X.shape != (self.matrix.shape[1],):
            raise DynidError(
                "parameter_count_mismatch", "'{robot}' has {expected} parameters here, got {shape}",
                robot=self.robot.name, expected=self.matrix.shape[1], shape=X.shape,
            )  # fmt: skip
        unknown = np.isnan(X)
        XB = self.matrix @ np.where(unknown, 0.0, X)
        XB[(self.matrix[:, unknown] != 0.0).any(axis=1)] = np.nan
        return np.asarray(XB)

    @cached_property
    def coefficients(self) -> Coefficients:
        """Kept column to its terms; coefficients with the geometry's symbols where it has some."""
        from dynid.identifiability.relations import coefficients_by_kept_column

        if self.robot.symbols and rules_apply(self.question):
            symbolic = _symbolic_coefficients(self.question, self.regrouping)
            if symbolic is not None:
                return symbolic
        return coefficients_by_kept_column(self.regrouping)

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Relations of the kept parameters that absorb others: `ZZR1 = ZZ1 + ...` (Gautier 1991, Table V)."""
        from dynid.identifiability.relations import relations

        return relations(self.kept, self.coefficients, self.columns)

    @cached_property
    def latex(self) -> tuple[str, ...]:
        """The relations in LaTeX."""
        from dynid.identifiability.relations import relations_latex

        return relations_latex(self.kept, self.coefficients, self.columns)


def rules_apply(question: Question) -> bool:
    """Whether the rules of Khalil & Bennis apply: fixed bases, models that see what torques see."""
    return (
        question.model in ("torque", "static", "energy", "power")
        and not question.robot.floating
        and not question.friction
    )


def _symbolic_coefficients(question: Question, found: Regrouping) -> Coefficients | None:
    """Coefficients with the table's symbols: the rules' relations of the open tree, combined as the loops ask.

    None where the rules disagree with what was found.
    """
    from dynid.identifiability.rules import find_by_rules

    rules = find_by_rules(question.robot, rotor_inertia=question.rotor_inertia, symbolic=True)
    open_kept = rules.regrouping.kept
    joined = found.matrix[:, open_kept]
    if not np.allclose(joined @ rules.regrouping.matrix, found.matrix, rtol=1e-6, atol=1e-9):
        return None
    rows: dict[int, dict[int, Form | float]] = {}
    for k, shares in zip(found.kept, joined, strict=True):
        row: dict[int, Form | float] = {}
        for column, share in zip(open_kept, shares, strict=True):
            if abs(share) > 1e-9:
                _add_multiple(row, float(share), rules.coefficients[column])
        rows[k] = row
    return rows


def _add_multiple(row: dict[int, Form | float], share: float, other: dict[int, Form | float]) -> None:
    """Add share times another row, in place; shares that are simple fractions are made exact."""
    simple = Fraction(share).limit_denominator(1000)
    exact = simple if abs(float(simple) - share) < 1e-9 else Fraction(repr(share))
    for column, coefficient in other.items():
        if isinstance(coefficient, float):
            row[column] = float(row.get(column, 0.0)) + share * coefficient  # type: ignore[arg-type]
            continue
        term = coefficient * coefficient.ring.constant(exact)
        total = row[column] + term if column in row else term  # type: ignore[operator]
        if total:
            row[column] = total
        else:
            row.pop(column, None)
