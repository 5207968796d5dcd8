"""The front door: base parameters of a robot by any method, all methods side by side, and the user's choice of columns.

Every method ends in XB = matrix @ X with the first independent columns in standard order. Any other independent set
(the permutation P of Gautier 1991, or the best for a log) follows from that matrix by exchanging columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import scipy.linalg

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError, ModelError, UndecidedError
from dynid.identifiability.numeric import (
    ROUNDING,
    UNCERTAIN,
    NumericResult,
    Question,
    accept_columns,
    find_by_qr,
    find_by_svd,
    independent_draws,
    model_matrix,
)
from dynid.identifiability.parameters import BaseParameters, rules_apply
from dynid.identifiability.relations import Regrouping
from dynid.messages import Message, Option, Wording
from dynid.robot.expression import Expression
from dynid.robot.mdh import mdh_transform
from dynid.robot.motion import Motion
from dynid.robot.robot import Link, MdhRow, Robot
from dynid.robot.transform import Array

DOUBTFUL = 1e-6
"""Residual of a preferred unit column below which its independence may be rounding."""

MOST_SAMPLED = 2500
"""Columns up to which an exact result on inexact frames is compared with samples, whose time grows as their cube."""

MOST_LINKS_OF_RULES = 30
"""Links up to which the rules are asked where exact result and samples disagree: seconds, and growing as their cube."""

MANY_COLUMNS = 1000
"""Columns up to which three random rows are drawn for each; above, 2000 more rows than columns."""

CHUNK = 1000
"""Samples of a log whose rows are held at once."""


class Recording(Protocol):
    """A recorded motion: a `Log` or a `Motion`; v and a may be None."""

    @property
    def t(self) -> Array:
        """Instants (N,) in s."""
        ...

    @property
    def q(self) -> Array:
        """Positions (N, n)."""
        ...

    @property
    def v(self) -> Array | None:
        """Velocities (N, n)."""
        ...

    @property
    def a(self) -> Array | None:
        """Accelerations (N, n)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A regrouping on preferred columns, and warnings on preferences that could not be met as stated."""

    regrouping: Regrouping
    warnings: tuple[Message, ...] = ()


def find_preferred_columns(question: Question, prefer: Sequence[str], *, option: str = "prefer") -> tuple[int, ...]:
    """Indices of the columns with these names, each once; raise for a name that no column has."""
    place = {str(column.name): k for k, column in enumerate(question.columns)}
    for name in prefer:
        if name not in place:
            raise ModelError(
                "unknown_parameter", "{option}: '{name}' is not a parameter of '{robot}' here",
                "names look like {example}", option=Option(option), name=name, robot=question.robot.name,
                example=question.columns[0].name,
            )  # fmt: skip
    return tuple(dict.fromkeys(place[name] for name in prefer))


def keep_preferred_columns(question: Question, found: Regrouping, preferred: Sequence[int]) -> Choice:
    """Regrouping on the first independent columns in the order of preference, then in standard order."""
    names = [column.name for column in question.columns]
    silent = [k for k in preferred if not found.matrix[:, k].any()]
    warnings = []
    if silent:
        warnings.append(Message(
            "preferred_without_effect", "{parameters} cannot be kept as preferred: the {model} model does not see "
            "them, or they are known zeros", parameters=[names[k] for k in silent], model=question.model,
        ))  # fmt: skip
    kept, residual = first_independent_columns(found, preferred)
    doubtful = [names[k] for k in kept if residual[k] < DOUBTFUL and k not in found.kept]
    if doubtful:
        warnings.append(Message(
            "preferred_hardly_independent", "{parameters} can hardly be distinguished from the parameters preferred "
            "to them: rounding may have kept them", "prefer others", parameters=doubtful,
        ))  # fmt: skip
    return Choice(exchange_columns(found, kept), tuple(warnings))


def first_independent_columns(found: Regrouping, preferred: Sequence[int]) -> tuple[tuple[int, ...], dict[int, float]]:
    """Lexicographically first independent columns, preferred ones first, and the residuals of those kept."""
    first = dict.fromkeys(preferred)
    order = [k for k in (*first, *(k for k in range(found.matrix.shape[1]) if k not in first))]
    order = [k for k in order if found.matrix[:, k].any()]
    if not order:
        return (), {}
    A = found.matrix[:, order]
    accepted = accept_columns(A / np.linalg.norm(A, axis=0), None)
    kept = tuple(k for k, good in zip(order, accepted.accepted, strict=True) if good)
    return kept, {k: float(x) for k, x in zip(order, accepted.residual, strict=True) if k in kept}


def exchange_columns(found: Regrouping, kept: Sequence[int]) -> Regrouping:
    """Regrouping on other independent columns of the same span; rows in the order of `kept`.

    With the columns that come (in) and the rows that go (out), B = M[out, in]: the new rows are B^-1 M[out], and the
    others lose M[:, in] times these.
    """
    M = found.matrix
    comes = [k for k in kept if k not in found.kept]
    out = [i for i, k in enumerate(found.kept) if k not in kept]
    stays = {k: i for i, k in enumerate(found.kept) if k in kept}
    fresh = np.zeros((0, M.shape[1]))
    if comes:
        inverse = np.linalg.inv(M[np.ix_(out, comes)])
        fresh = _without_rounding(inverse @ M[out], np.abs(inverse) @ np.abs(M[out]))
        fresh[:, comes] = np.eye(len(comes))
    matrix = np.zeros_like(M)
    for row, k in enumerate(kept):
        if k in stays:
            old, shares = M[stays[k]], M[stays[k], comes]
            matrix[row] = _without_rounding(old - shares @ fresh, np.abs(old) + np.abs(shares) @ np.abs(fresh))
            matrix[row, comes] = 0.0
        else:
            matrix[row] = fresh[comes.index(k)]
    return Regrouping(tuple(kept), matrix)


def _without_rounding(x: Array, size: Array) -> Array:
    """Return x without what rounding left of zeros, given the size of the terms of each entry."""
    return np.where(np.abs(x) <= ROUNDING * size, 0.0, x)


# The best-conditioned columns for a log.


def find_best_conditioned(question: Question, found: Regrouping, log: Recording) -> tuple[int, ...]:
    """Kept columns, in standard order, whose rows along the log have a small 2-norm condition number (SI units).

    Candidates are the first columns in standard order and those of QR with column pivoting, of the raw and of the unit
    columns; the best is bettered by single exchanges until none helps.
    """
    R = log_factor(question, log)
    effect = [k for k in range(R.shape[1]) if found.matrix[:, k].any()]
    if not effect:
        return ()
    A = R[:, effect]
    size = np.linalg.norm(A, axis=0)
    orders = [scipy.linalg.qr(X, pivoting=True, mode="r")[1] for X in (A, A / np.where(size > 0.0, size, 1.0))]
    candidates = [found.kept, *(first_independent_columns(found, [effect[k] for k in order])[0] for order in orders)]
    best = min((tuple(sorted(kept)) for kept in candidates), key=lambda kept: condition_number(R, kept))
    return _better_by_exchanges(R, exchange_columns(found, best))


def _better_by_exchanges(R: Array, found: Regrouping) -> tuple[int, ...]:
    """Kept columns after the best exchange of one column, again and again, while the condition improves."""
    least = condition_number(R, found.kept)
    while True:
        pairs = [(i, k) for i, k in np.argwhere(np.abs(found.matrix) > DOUBTFUL).tolist() if k not in found.kept]
        sets = [tuple(sorted({*found.kept, k} - {found.kept[i]})) for i, k in pairs]
        conditions = [condition_number(R, kept) for kept in sets]
        if not sets or not min(conditions) < (1.0 - 1e-9) * least:
            return tuple(sorted(found.kept))
        least = min(conditions)
        found = exchange_columns(found, sets[conditions.index(least)])


def condition_number(R: Array, kept: Sequence[int]) -> float:
    """2-norm condition number of the columns of a factor."""
    sigma = np.linalg.svd(R[:, list(kept)], compute_uv=False)
    return float(sigma[0] / sigma[-1]) if len(sigma) == len(kept) and sigma[-1] > 0.0 else np.inf


def log_factor(question: Question, log: Recording) -> Array:
    """Triangular factor R of the model's rows along a log, free offsets projected out."""
    motion = motion_of_recording(log)
    if motion.q.shape[1] != question.robot.n:
        raise ModelError(
            "log_of_other_robot", "the log has {joints} joints, '{robot}' has {expected}", "give a log of this robot",
            joints=motion.q.shape[1], robot=question.robot.name, expected=question.robot.n,
        )  # fmt: skip
    offsets = question.offset_count
    R = np.zeros((0, len(question.columns) + offsets))
    for start in range(0, len(motion.t), CHUNK):
        part = motion[start : start + CHUNK]
        if len(part.t) > 1 or question.model != "energy":
            W = model_matrix(question, part)
            R = np.asarray(np.linalg.qr(np.concatenate([R, np.roll(W, offsets, axis=1)]), mode="r"))
    return np.asarray(R[offsets:, offsets:])


def motion_of_recording(log: Recording) -> Motion:
    """Motion along a log: as recorded, or positions smoothed over a fifth of a second where v or a is missing."""
    from scipy.signal import savgol_filter

    if isinstance(log, Motion):
        return log
    t, q = np.asarray(log.t), np.asarray(log.q)
    if log.v is not None and log.a is not None:
        return Motion(t, q, np.asarray(log.v), np.asarray(log.a))
    good = np.isfinite(t) & np.isfinite(q).all(axis=1)
    t, q = t[good], q[good]
    step = float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    half = max(3, round(0.1 / step)) if step > 0.0 else 3
    if len(t) < 2 * half + 1 or step <= 0.0:
        raise ModelError("log_too_short", "the log is too short for velocities and accelerations", "give a longer one")
    grid = np.arange(t[0], t[-1], step)
    q = np.column_stack([np.interp(grid, t, x) for x in q.T])
    return Motion(grid, *(savgol_filter(q, 2 * half + 1, 4, deriv=k, delta=step, axis=0) for k in range(3)))


METHODS = ("exact", "nullspace", "rules", "qr", "svd")


@one_blas_thread
def base_parameters(
    robot: Robot,
    *,
    model: str = "torque",
    method: str | None = None,
    rotor_inertia: bool = True,
    tared: bool = False,
    seed: int = 0,
    friction: tuple[str, ...] = (),
    rows: int | None = None,
    scaling: tuple[float, float] | None = None,
    prefer: Sequence[str] | None = None,
    log: Recording | None = None,
) -> BaseParameters:
    """Return which combinations of the standard parameters a model can reveal.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    model : str
        Measurement model: "torque", "energy", "power", "momentum" or "reaction".
    method : str, optional
        `exact` (no tolerance decides: `nullspace` for open trees, ball arithmetic with a certificate for robots with
        couplings or closures), `nullspace` (exact recursion), `rules` (closed form), `qr` or `svd` (random samples).
        Default: exact where it applies, else qr.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    tared : bool
        Whether six free offsets are added to the reaction model.
    seed : int
        Seed of random positions and samples.
    friction : tuple of str
        Blocks of extra columns: viscous, coulomb, offset.
    rows : int, optional
        Number of random samples of `qr` and `svd`. Default: three per column.
    scaling : (float, float), optional
        Weights (l1, l2) of the paper's scaling procedure, for `qr` and `svd`.
    prefer : sequence of str, optional
        Standard parameters, in order of preference, that are kept before all others and come first in `.names`; "data"
        keeps the set whose columns are best conditioned along `log`.
    log : Log or Motion, optional
        Motion for `prefer="data"`.

    Returns
    -------
    BaseParameters
        Kept, regrouped and unidentifiable parameters, and their relations.

    Raises
    ------
    ModelError
        If the model, method or a name does not exist, or an option does not apply to the method.
    UndecidedError
        If the exact method cannot decide a rank.

    Notes
    -----
    XB = matrix @ X, the base parameters of Gautier 1991. By default the first independent columns in standard order are
    kept; which combinations are identifiable does not depend on the choice (`BaseParameters.change_of_basis`).

    Examples
    --------
    >>> from dynid import base_parameters, load_robot
    >>> base = base_parameters(load_robot("gautier3"))
    >>> base.count
    16
    >>> base.relations[1]
    'XXR2 = XX2 - YY2 - D3**2*M3'
    """
    _refuse_unused_arguments(method, rows, scaling)
    question = Question(robot, model, rotor_inertia, tared, tuple(friction))
    if (prefer == "data") != (log is not None):
        raise ModelError(
            "log_and_preference", "{data} and {log} belong together", "give both, or names of parameters alone",
            data=Option("prefer", "data"), log=Option("log"),
        )  # fmt: skip
    preferred = () if prefer is None or prefer == "data" else _preferred_columns(question, prefer)
    found = _find_in_standard_order(question, method, seed, rows, scaling)
    if log is not None:
        preferred = find_best_conditioned(question, found.regrouping, log)
    return keep_preferred(found, preferred)


def _preferred_columns(question: Question, prefer: Sequence[str]) -> tuple[int, ...]:
    """Columns of the preferred names; a single name may stand by itself."""
    return find_preferred_columns(question, (prefer,) if isinstance(prefer, str) else tuple(prefer))


def keep_preferred(found: BaseParameters, preferred: Sequence[int]) -> BaseParameters:
    """The same base parameters on the first independent columns in an order of preference."""
    if not preferred:
        return found
    choice = keep_preferred_columns(found.question, found.regrouping, preferred)
    return replace(found, regrouping=choice.regrouping, warnings=(*found.warnings, *choice.warnings))


def _find_in_standard_order(
    question: Question, method: str | None, seed: int, rows: int | None, scaling: tuple[float, float] | None
) -> BaseParameters:
    """Base parameters by a method, on the first independent columns in standard order."""
    if method is None and exact_method_applies(question):
        return _find_certified(question, seed)
    finders: dict[str, Callable[[Question], BaseParameters]] = {
        "exact": lambda q: _find_exactly(q, seed),
        "nullspace": _find_by_nullspace,
        "rules": _find_by_rules,
        "qr": lambda q: _find_by_samples(q, "qr", seed, rows, scaling),
        "svd": lambda q: _find_by_samples(q, "svd", seed, rows, scaling),
    }
    method = method or "qr"
    if method not in finders:
        raise ModelError(
            "unknown_method", "there is no method '{method}'", "methods are {methods}", method=method,
            methods=list(METHODS),
        )  # fmt: skip
    return _with_geometry_warnings(finders[method](question))


def _refuse_unused_arguments(method: str | None, rows: int | None, scaling: tuple[float, float] | None) -> None:
    """Raise where rows or scaling are given to a method that takes no samples."""
    for name, value in (("rows", rows), ("scaling", scaling)):
        if value is not None and method not in ("qr", "svd"):
            raise ModelError(
                "option_not_applicable", "{option} is for the samples of {qr} or 'svd'",
                "leave it out, or choose one of them", option=Option(name), qr=Option("method", "qr"),
            )  # fmt: skip


@lru_cache(maxsize=32)
def cached_base_parameters(
    robot: Robot, *, model: str, rotor_inertia: bool, tared: bool = False, prefer: tuple[str, ...] = ()
) -> BaseParameters:
    """Base parameters by the default method, cached by robot."""
    return base_parameters(robot, model=model, rotor_inertia=rotor_inertia, tared=tared, prefer=prefer)


def _with_geometry_warnings(found: BaseParameters) -> BaseParameters:
    """The base parameters with warnings on a geometry that is almost special."""
    doubts = find_geometry_warnings(found.question)
    return replace(found, warnings=(*found.warnings, *doubts)) if doubts else found


def _find_certified(question: Question, seed: int) -> BaseParameters:
    """Base parameters by the exact method; by samples where a geometry known to float precision makes it differ."""
    from dynid.identifiability.exact_geometry import reads_exactly

    try:
        exact = _find_exactly(question, seed)
    except UndecidedError as error:
        sampled = _with_geometry_warnings(_find_by_samples(question, "qr", seed, None, None))
        fallback = Message("sampled_instead", "{reason}; sampled instead", reason=error)
        return replace(sampled, warnings=(fallback, *sampled.warnings))
    certain = exact.certificate is not None and (question.robot.closures or not exact.warnings)
    exact = _with_geometry_warnings(exact)
    if reads_exactly(question.robot) or certain:
        return exact
    if len(question.columns) > MOST_SAMPLED:
        unchecked = Message(
            "exact_without_samples", "the frames of this file are known to the precision of a float only, and random "
            "samples of {columns} parameters, which would show whether axes that should meet or be parallel miss each "
            "other by rounding, take too long by default", "compare with {qr}, or write angles and lengths with few "
            "digits", columns=len(question.columns), qr=Option("method", "qr"),
        )  # fmt: skip
        return replace(exact, warnings=(*exact.warnings, unchecked))
    sampled = _find_by_samples(question, "qr", seed, None, None)
    if sampled.names == exact.names:
        return exact
    few = len(question.robot.links) <= MOST_LINKS_OF_RULES
    if few and exact.certificate is None and rules_apply(question) and _find_by_rules(question).names == sampled.names:
        return sampled  # two independent methods that allow for rounding
    warning = Message(
        "exact_and_samples_disagree", "the frames of this file are known to the precision of a float only, and the "
        "exact method keeps {exact} parameters where samples keep {sampled}: axes that should meet or be parallel "
        "miss each other by rounding; the sampled result is given", exact=exact.count, sampled=sampled.count,
    )  # fmt: skip
    return replace(sampled, warnings=(*sampled.warnings, warning))


def exact_method_applies(question: Question) -> bool:
    """Whether only inertial and rotor columns are asked for, as seen by torques or in frame 0."""
    return question.measures_along_frame_axes and not question.friction


def _check_exact_method_applies(question: Question, method: str) -> None:
    """Raise for columns and directions that the exact methods do not handle."""
    if question.friction:
        raise ModelError(
            "method_without_friction", "method '{method}' handles only inertial and rotor columns",
            "use {qr} with friction columns", method=method, qr=Option("method", "qr"),
        )  # fmt: skip
    if not question.measures_along_frame_axes:
        raise ModelError(
            "method_without_partial_sensor", "method '{method}' handles part of a force sensor only in frame 0",
            "use {qr}", method=method, qr=Option("method", "qr"),
        )  # fmt: skip


def _find_exactly(question: Question, seed: int) -> BaseParameters:
    """Base parameters by the null space on open trees, in ball arithmetic where there are loops."""
    from dynid.identifiability.loops import find_by_ball_arithmetic

    robot = question.robot
    if not (robot.couplings or robot.closures):
        return _find_by_nullspace(question)
    _check_exact_method_applies(question, "exact")
    if robot.floating and "reaction" in question.model:
        raise ModelError(
            "floating_base", "'{robot}' has a floating base and no reactions", "use the torque model", robot=robot.name,
        )  # fmt: skip
    found = find_by_ball_arithmetic(robot, question.model, question.rotor_inertia, question.tared, seed)
    shown = found.certificate
    return BaseParameters(question, "exact", found.regrouping, shown.gap, None, found.warnings, certificate=shown)


def _find_by_nullspace(question: Question) -> BaseParameters:
    """Base parameters by the exact recursion over the links of an open tree."""
    from dynid.identifiability.nullspace import find_by_nullspace

    _check_exact_method_applies(question, "nullspace")
    found = find_by_nullspace(
        question.robot,
        model=question.model,
        rotor_inertia=question.rotor_inertia,
        tared=question.tared,
        channels=question.channels,
    )
    return BaseParameters(question, "nullspace", found, np.inf, None, ())


def _find_by_rules(question: Question) -> BaseParameters:
    """Base parameters by the rules of Khalil and Bennis."""
    from dynid.identifiability.rules import find_by_rules

    if not rules_apply(question):
        raise ModelError(
            "method_without_model", "method 'rules' covers the torque-like models of robots on a fixed base, without "
            "friction columns", "use {exact}, 'nullspace' or 'qr'", exact=Option("method", "exact"),
        )  # fmt: skip
    if question.robot.couplings or question.robot.closures:
        raise ModelError(
            "closed_loops", "method 'rules' covers open trees", "use {exact} for closed loops",
            exact=Option("method", "exact"),
        )  # fmt: skip
    found = find_by_rules(question.robot, rotor_inertia=question.rotor_inertia)
    return BaseParameters(question, "rules", found.regrouping, np.inf, None, ())


def _find_by_samples(
    question: Question, method: str, seed: int, rows: int | None, scaling: tuple[float, float] | None
) -> BaseParameters:
    """Base parameters by QR or SVD of the model's matrix at random or scaled samples."""
    columns = question.columns
    offsets = question.offset_count
    scaled = None
    if scaling is not None:
        from dynid.identifiability.numeric import draw_scaled_rows

        scaled, *draws, offsets = draw_scaled_rows(question, rows or len(columns), seed, scaling)
    else:
        draws = independent_draws(question, rows or len(columns) + 2 * min(len(columns), MANY_COLUMNS), seed)
    find = find_by_qr if method == "qr" else find_by_svd
    result, *others = (
        find(d.matrix, left_out=question.known_zero_columns, offsets=offsets, noise=d.noise) for d in draws
    )
    warnings = find_rank_warnings(result, tuple(column.name for column in columns), others)
    size = np.linalg.norm(draws[0].matrix, axis=0)
    seen = int((size > 1e-9 * size.max(initial=0.0)).sum())
    if len(draws[0].matrix) < seen:
        warnings += (Message(
            "too_few_rows", "{rows} rows cannot distinguish {columns} columns: the count is that of these rows, not "
            "the robot's", "give {rows_option}, or leave it out", rows=len(draws[0].matrix), columns=seen,
            rows_option=Wording(f"rows={seen} or more", f"--samples {seen} or more"),
        ),)  # fmt: skip
    return replace(_numeric_base_parameters(question, method, result, warnings), scaled=scaled)


def _numeric_base_parameters(
    question: Question, method: str, result: NumericResult, warnings: tuple[Message, ...]
) -> BaseParameters:
    """Base parameters from the result of QR or SVD."""
    return BaseParameters(question, method, result.regrouping, result.gap, result.diagnostics, warnings)


@dataclass(frozen=True, slots=True, eq=False)
class MethodComparison:
    """Base parameters by several methods, side by side.

    Attributes
    ----------
    results : dict of str to BaseParameters
        Results by method.
    refused : dict of str to Message
        Reasons for methods that do not apply.
    verdict : str
        Whether the methods agree.
    """

    results: dict[str, BaseParameters]
    refused: dict[str, Message]
    verdict: str


@one_blas_thread
def compare_methods(
    robot: Robot, *, model: str = "torque", rotor_inertia: bool = True, tared: bool = False, seed: int = 0
) -> MethodComparison:
    """Run every method that applies and compare the results; the exact one is the certificate for the others.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    model : str
        Measurement model, as for `base_parameters`.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    tared : bool
        Whether six free offsets are added to the reaction model.
    seed : int
        Seed of random positions and samples.

    Returns
    -------
    MethodComparison
        Result of each method, reasons for those that do not apply, and a verdict.

    Examples
    --------
    >>> from dynid import compare_methods, load_robot
    >>> compare_methods(load_robot("one_link")).verdict
    'nullspace, rules, qr, svd agree on the same 2 parameters'
    """

    def run_method(method: str | None) -> BaseParameters:
        return base_parameters(
            robot, model=model, method=method, rotor_inertia=rotor_inertia, tared=tared, seed=seed
        )  # fmt: skip

    default = run_method(None)
    results, refused = {default.method: default}, dict[str, Message]()
    for method in METHODS:
        try:
            found = run_method(method)
        except DynidError as error:
            refused[method] = error.message
        else:
            results.setdefault(found.method, found)
    return MethodComparison(results, refused, _comparison_verdict(results))


def _comparison_verdict(results: dict[str, BaseParameters]) -> str:
    """Sentence on which methods agree and which differ."""
    reference = results.get("exact") or results.get("nullspace") or next(iter(results.values()))
    others = {name: set(found.names) for name, found in results.items()}
    differing = [name for name, names in others.items() if names != set(reference.names)]
    if not differing:
        return f"{', '.join(results)} agree on the same {reference.count} parameters"
    words = []
    for name in differing:
        more, less = sorted(others[name] - set(reference.names)), sorted(set(reference.names) - others[name])
        parts = [f"keeps {', '.join(more)} too" if more else "", f"misses {', '.join(less)}" if less else ""]
        words.append(f"{name} {' and '.join(p for p in parts if p)}")
    how = "exactly" if reference.diagnostics is None else "on samples"
    why = "samples cannot see combinations below rounding"
    return f"{'; '.join(words)}; trust {reference.method}, which decides ranks {how}: {why}"


# When a count of base parameters cannot be trusted: warnings with the names of the parameters.


REMEDY = "Use {exact}, or state start and at farther from singular positions"
EXACT = Option("method", "exact")

SMALL_GAP = 1e4
SMALL_RESIDUAL, SMALL_IN_LOOPS = 1e-3, 1e-5
"""Unit-column residuals of suspect parameters; in closed loops, whose noise is known, 1e-4 is common and sound."""
SMALL_ANGLE = 1e-3
"""Angles (rad) this close to a multiple of 90 degrees, but not there, are suspect."""
SMALL_LENGTH = 1e-5
"""Lengths below this share of the robot's largest are suspect."""


def find_rank_warnings(
    result: NumericResult, names: tuple[str, ...], others: Sequence[NumericResult] = ()
) -> tuple[Message, ...]:
    """Warnings on a numerical result: a small gap, columns that are almost dependent, other draws that disagree."""
    columns = result.diagnostics.columns
    residual = result.residual
    accepted = np.isin(columns, result.regrouping.kept)
    warnings = []
    if result.gap < SMALL_GAP:
        weakest = names[columns[int(np.argmin(np.where(accepted, residual, np.inf)))]]
        dropped = np.where(accepted, -np.inf, residual)
        strongest = None if accepted.all() else names[columns[int(np.argmax(dropped))]]
        compared = "{kept} was kept" if strongest is None else "{kept} was kept and {dropped} as dependent"
        warnings.append(Message(
            "rank_gap_small", "the gap between kept and dropped columns is only {gap:.2g}: " + compared
            + ", but this may be rounding; axes almost parallel or almost meeting do this.",
            "Compare with an exact method (nullspace for open trees, exact for closed loops)", gap=result.gap,
            kept=weakest, dropped=strongest,
        ))  # fmt: skip
    small = np.flatnonzero(accepted & (residual < (SMALL_RESIDUAL if result.uncertain is None else SMALL_IN_LOOPS)))
    doubtful = [names[columns[k]] for k in small]
    if doubtful:
        least = float(residual[small].min())
        warnings.append(Message(
            "parameters_hardly_distinct", "{parameters} can hardly be distinguished from others (unit-column residual "
            "down to {residual:.1g}): a rounded angle such as 1.5708, nearly parallel axes or a tiny offset make such "
            "false base parameters, in closed loops also lengths that are nearly equal; a narrow range of motion "
            "makes such weak ones", parameters=list(doubtful), residual=least,
        ))  # fmt: skip
    if result.uncertain:
        warnings.append(Message(
            "rank_limited_by_rounding", "rounding may decide whether {parameters} can be identified: loops close only "
            "up to rounding, and what is left of these columns is below {share:.0e} times its effect.",
            REMEDY, parameters=[names[k] for k in result.uncertain], share=UNCERTAIN, exact=EXACT,
        ))  # fmt: skip
    kept = set(result.regrouping.kept)
    differing = sorted(set().union(*(kept ^ set(other.regrouping.kept) for other in others)))
    if differing:
        counts = [len(x.regrouping.kept) for x in (result, *others)]
        warnings.append(Message(
            "sample_draws_disagree", "independent random samples disagree on {parameters} ({counts} base "
            "parameters).", REMEDY, parameters=[names[k] for k in differing], counts=counts, exact=EXACT,
        ))  # fmt: skip
    return tuple(warnings)


def find_geometry_warnings(question: Question) -> tuple[Message, ...]:
    """Warnings on a geometry that is almost special: what the count would be if it were, and which names hang on it."""
    robot = question.robot.to_mdh()
    places, special = _snap_to_special_geometry(robot)
    if not places:
        return ()
    lost = _names_lost_by_special_geometry(question, robot, special)
    if lost is None:
        what = "{places}: base parameters that exist only because of this cannot be trusted"
        return (Message("geometry_almost_special", what, places="; ".join(places)),)
    if not lost:
        return ()
    return (Message(
        "geometry_almost_special", "{places}: only because of this {parameters} are base parameters, and no experiment "
        "can distinguish them from others", "if it is rounding, correct the geometry (angles: {snap})",
        places="; ".join(places), parameters=list(lost),
        snap=Wording("load with snap=True", "leave out --no-snap"),
    ),)  # fmt: skip


def _snap_to_special_geometry(robot: Robot) -> tuple[list[str], Robot]:
    """Places where the geometry is almost special, and the robot with them made special."""
    rows = [link.mdh for link in robot.links if link.mdh is not None]
    largest = max((abs(x.value) for row in rows for x in (row.b, row.d, row.r)), default=0.0)
    places: list[str] = []
    links = tuple(
        link if link.mdh is None else _snap_link_to_special_geometry(link, link.mdh, largest, places)
        for link in robot.links
    )
    return places, replace(robot, links=links)


def _snap_link_to_special_geometry(link: Link, row: MdhRow, largest: float, places: list[str]) -> Link:
    """The link with almost special angles and lengths made special; their places are added."""
    changes: dict[str, Expression] = {}
    for letter in ("gamma", "alpha", "theta"):
        angle = getattr(row, letter).value
        nearest = round(angle / (math.pi / 2)) * (math.pi / 2)
        if 0.0 < abs(angle - nearest) < SMALL_ANGLE:
            places.append(
                f"joint {link.joint}: {letter} is {abs(angle - nearest):.1g} rad off a multiple of 90 degrees"
            )
            changes[letter] = Expression(nearest)
    for letter in ("b", "d", "r"):
        length = getattr(row, letter).value
        if 0.0 < abs(length) < SMALL_LENGTH * largest:
            places.append(f"joint {link.joint}: {letter} is only {length:.1g} m")
            changes[letter] = Expression(0.0)
    if not changes:
        return link
    special = replace(row, **changes)
    return replace(link, mdh=special, placement=mdh_transform(special))


def _names_lost_by_special_geometry(question: Question, robot: Robot, special: Robot) -> tuple[str, ...] | None:
    """Names kept for the given geometry and not for the special one; None where no exact method applies."""
    from dynid.identifiability.nullspace import find_kept_by_nullspace

    if robot.couplings or robot.closures or not question.measures_along_frame_axes:
        return None
    kept = [
        find_kept_by_nullspace(
            r, model=question.model, rotor_inertia=question.rotor_inertia, tared=question.tared,
            channels=question.channels,
        )
        for r in (robot, special)
    ]  # fmt: skip
    names = [column.name for column in question.columns]
    return tuple(names[k] for k in sorted(kept[0] - kept[1]))
