"""The value that every method hands out: base parameters, their relations, and what is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.scene import standard_columns
from dynid.errors import DynidError, ModelError, UndecidedError
from dynid.identifiability.exact_geometry import many_digits
from dynid.identifiability.numeric import Diagnostics, Question
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.symbolic_numbers import Number
from dynid.messages import Message, html_summary, printable
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.records import polars_frame

if TYPE_CHECKING:
    from dynid.identifiability.loops import Certificate
    from dynid.identifiability.numeric import ScaledRows
    from dynid.identifiability.relations import Coefficients

SAME_SPAN = 1e-8
"""Share of the terms' size by which matrices of two sets of base parameters may differ and span the same space."""


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """Base parameters of a robot under a model: XB = matrix @ X is all that the model can reveal of X.

    Attributes
    ----------
    question : Question
        Robot, model and columns for which they were found.
    method : str
        Method that found them.
    regrouping : Regrouping
        Kept columns and the factors with which others add to them.
    gap : float
        Smallest accepted over largest rejected column residual; infinite where ranks were decided exactly.
    diagnostics : Diagnostics or None
        Columns of Gautier 1991, Table II; sampling methods only.
    warnings : tuple of Message
        What makes the result uncertain.
    scaled : ScaledRows or None
        Rows after the scaling procedure, if one was asked for.
    certificate : Certificate or None
        What the exact method proved for a robot with loops.

    Notes
    -----
    Gautier, M. (1991). Numerical calculation of the base inertial parameters of robots. J. Robotic Systems 8(4).

    Examples
    --------
    >>> from dynid import base_parameters, load_robot
    >>> base = base_parameters(load_robot("one_link"))
    >>> base.labels
    ('ZZR1', 'MY1')
    """

    question: Question
    method: str
    regrouping: Regrouping
    gap: float
    diagnostics: Diagnostics | None
    warnings: tuple[Message, ...]
    scaled: ScaledRows | None = None
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        total = len(self.columns) - len(self.known)
        name = printable(self.robot.name)
        return (
            f"<BaseParameters of '{name}' ({self.question.model} model, {self.method}): {self.count} of "
            f"{total} parameters; {len(self.regrouped)} regrouped, {len(self.no_effect)} without effect>"
        )

    def _repr_html_(self) -> str:
        """Counts and relations, for notebooks."""
        facts = {
            "base parameters": f"{self.count} of {len(self.columns) - len(self.known)}", "robot": self.robot.name,
            "model": self.question.model, "method": self.method, "regrouped": len(self.regrouped),
            "without effect": len(self.no_effect), "known to be zero": len(self.known) or "",
            "warnings": "; ".join(self.warnings),
        }  # fmt: skip
        return html_summary(facts, ["parameter", "relation"], list(self._relation_by_name.items()))

    @property
    def _relation_by_name(self) -> dict[Parameter, str]:
        """Relation of every base parameter, empty where it stands alone."""
        of_label = {text.partition(" = ")[0]: text.partition(" = ")[2] for text in self.relations}
        return {name: of_label.get(label, "") for name, label in zip(self.names, self.labels, strict=True)}

    def table(self) -> Any:
        """What becomes of every standard parameter.

        Returns
        -------
        polars.DataFrame
            parameter, status (base, regrouped, no effect, known zero) and, of base parameters that carry others,
            their relation.

        """
        relations = self._relation_by_name
        status = {
            **dict.fromkeys(self.names, "base"), **dict.fromkeys(self.regrouped, "regrouped"),
            **dict.fromkeys(self.no_effect, "no effect"), **dict.fromkeys(self.known, "known zero"),
        }  # fmt: skip
        return polars_frame({
            "parameter": self.columns, "status": [status[name] for name in self.columns],
            "relation": [relations.get(name, "") for name in self.columns],
        })  # fmt: skip

    def plot(self, *, why: bool = False) -> Any:
        """Figures of `dynid base --report`: which parameters of which link are kept, regrouped or without effect.

        Parameters
        ----------
        why : bool, optional
            With pictures of mass that can be moved between links unseen, which take seconds.

        Returns
        -------
        dict of str to plotly.graph_objects.Figure
            By section of the report; needs the package plotly.

        """
        return import_module("dynid.report.parameters").base_figures(self, why)

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
        """Names of the kept parameters: preferred ones first, then in standard order."""
        return tuple(self.columns[k] for k in self.kept)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the kept parameters as the relations write them: ZZR1 where ZZ1 carries others, else ZZ1."""
        carries = (np.abs(self.regrouping.matrix) > 1e-9).sum(axis=1) > 1
        pairs = zip(self.names, carries, strict=True)
        return tuple(f"{name.symbol}R{name.label}" if more else str(name) for name, more in pairs)

    @cached_property
    def known(self) -> tuple[Parameter, ...]:
        """Parameters known to be zero, which take no part."""
        return tuple(self.columns[k] for k in self.question.known_zero_columns)

    @cached_property
    def no_effect(self) -> tuple[Parameter, ...]:
        """Parameters that the model does not see at all."""
        silent, known = ~np.any(self.regrouping.matrix != 0.0, axis=0), set(self.question.known_zero_columns)
        return tuple(name for k, name in enumerate(self.columns) if silent[k] and k not in known)

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
        """Values of the base parameters from standard ones (Gautier 1991, eq. 28).

        Parameters
        ----------
        X : (p,) array
            Standard parameters in the order of the columns of `matrix`, SI units.

        Returns
        -------
        (count,) array
            Base parameters; NaN where a standard parameter that they need is unknown.
        """
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

    def change_of_basis(self, other: BaseParameters) -> Array:
        """Matrix that converts another choice of kept parameters for the same columns and model to this one.

        Parameters
        ----------
        other : BaseParameters
            The other choice.

        Returns
        -------
        (count, count) array
            T with XB = T @ (XB of the other).

        Raises
        ------
        DynidError
            If the other set does not span the same combinations.
        """
        if self.columns != other.columns or self.count != other.count:
            raise _no_common_span(self, other)
        T = self.regrouping.matrix[:, list(other.kept)]  # the other's matrix is the identity there
        off = np.abs(T @ other.regrouping.matrix - self.regrouping.matrix)
        size = np.abs(T) @ np.abs(other.regrouping.matrix) + np.abs(self.regrouping.matrix)
        if (off > SAME_SPAN * np.maximum(size, 1.0)).any():
            raise _no_common_span(self, other)
        return np.asarray(T)

    def minimum_norm(self, XB: Array) -> Array:
        """Standard parameters of least norm with these base parameters: X_M = V1 V1' X (Gautier 1991).

        SI units are weighted alike, as in the paper. The result is the same for every choice of kept parameters and
        predicts what XB predicts, but it may be physically impossible.

        Parameters
        ----------
        XB : (count,) array
            Values of the base parameters.

        Returns
        -------
        (p,) array
            Standard parameters in the order of the columns of `matrix`.
        """
        XB = np.asarray(XB, dtype=np.float64)
        if XB.shape != (self.count,):
            raise DynidError(
                "parameter_count_mismatch", "'{robot}' has {expected} base parameters here, got {shape}",
                robot=self.robot.name, expected=self.count, shape=XB.shape,
            )  # fmt: skip
        return np.asarray(np.linalg.pinv(self.matrix) @ XB)

    @cached_property
    def coefficients(self) -> Coefficients:
        """Kept column to its terms; coefficients with the geometry's symbols where it has some."""
        from dynid.identifiability.relations import coefficients_by_kept_column

        named = self.robot.symbols and all(link.mdh or link.kind == "floating" for link in self.robot.links)
        if named and not self.question.friction and self.question.measures_along_frame_axes:
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


def _no_common_span(one: BaseParameters, other: BaseParameters) -> DynidError:
    """Error of two sets of base parameters that are not bases of the same space."""
    return DynidError(
        "bases_of_other_span", "these base parameters ({count} of '{robot}', {model} model) and the others "
        "({other_count} of '{other_robot}', {other_model} model) do not span the same combinations",
        "compare sets of one robot, model and columns", count=one.count, robot=one.robot.name,
        model=one.question.model, other_count=other.count, other_robot=other.robot.name,
        other_model=other.question.model,
    )  # fmt: skip


def rules_apply(question: Question) -> bool:
    """Whether the rules of Khalil & Bennis apply: fixed bases, models that see what torques see."""
    return (
        question.model in ("torque", "static", "energy", "power")
        and not question.robot.floating
        and not question.friction
    )


def _symbolic_coefficients(question: Question, found: Regrouping) -> Coefficients | None:
    """Coefficients with the table's symbols: relations of the open tree, combined as the loops ask.

    None where these disagree with what was found.
    """
    from dynid.identifiability.rules import choose_first_columns

    with many_digits():
        rows = _symbolic_rows_of_tree(question)
        if question.robot.couplings or question.robot.closures:
            try:
                rows = _symbolic_rows_of_loops(question, rows)
            except (ModelError, UndecidedError):  # loops that only samples decide
                return None
        rows = choose_first_columns(rows, Decimal("1e-12"), found.kept)
    if set(rows) != set(found.kept):
        return None
    matrix = np.zeros_like(found.matrix)
    for i, k in enumerate(found.kept):
        matrix[i, list(rows[k])] = [float(x) for x in rows[k].values()]
    if not np.allclose(matrix, found.matrix, rtol=1e-6, atol=1e-9):
        return None
    return {k: {c: x.form if x.form is not None else float(x) for c, x in rows[k].items()} for k in found.kept}


def _symbolic_rows_of_tree(question: Question) -> dict[int, dict[int, Number]]:
    """Rows with forms of the open tree: by the rules, or by the null space for models that these do not cover."""
    from dynid.identifiability.nullspace import find_rows_of_tree
    from dynid.identifiability.rules import find_rows_by_rules, link_pose
    from dynid.identifiability.symbolic_numbers import numbers_of_robot

    robot = question.robot
    columns = standard_columns(robot, rotor_inertia=question.rotor_inertia)
    if rules_apply(question):
        return find_rows_by_rules(robot, columns, symbolic=True)
    numbers = numbers_of_robot(robot, symbolic=True)
    poses = {}
    for k, link in enumerate(robot.links):
        if link.kind != "floating":
            pose = link_pose(link, numbers)
            poses[k] = (tuple(zip(pose.x, pose.y, pose.z, strict=True)), pose.origin)
    found = find_rows_of_tree(
        robot, columns, question.model, tared=question.tared, channels=question.channels,
        poses=poses,  # type: ignore[arg-type]  # numbers mix with decimals
    )  # fmt: skip
    return {k: {c: numbers.one.of_plain(x) for c, x in row.items()} for k, row in found.items()}


def _symbolic_rows_of_loops(question: Question, rows: dict[int, dict[int, Number]]) -> dict[int, dict[int, Number]]:
    """Rows with forms of a robot with loops: sums of the open tree's rows, with shares in the symbols."""
    from dynid.identifiability.loops import find_by_ball_arithmetic, find_loop_forms
    from dynid.identifiability.rules import add_multiple, choose_first_columns

    found = find_by_ball_arithmetic(
        question.robot, question.model, question.rotor_inertia, question.tared
    ).regrouping  # fmt: skip
    rows = choose_first_columns(rows, Decimal("1e-60"), found.kept)
    shares = {
        (k, c): float(x)
        for k, row in zip(found.kept, found.matrix, strict=True)
        for c, x in ((c, row[c]) for c in rows)
        if abs(x) > 1e-12
    }
    forms_of_tree = [x.form for row in rows.values() for x in row.values() if x.form is not None]
    if not forms_of_tree:  # nothing is kept
        return {}
    ring = forms_of_tree[0].ring
    entries = [place for place in shares if place[0] != place[1]]
    tree = {c: {d: x.form for d, x in row.items()} for c, row in rows.items()}
    forms = find_loop_forms(question, found, entries, tree, ring) if entries else {}
    total: dict[int, dict[int, Number]] = {k: {} for k in found.kept}
    for (k, c), x in shares.items():
        form = ring.constant(1) if k == c else forms.get((k, c))  # without a form it stays a number
        add_multiple(total[k], Number(Decimal(repr(x)), form), rows[c])
    return total
