"""What a log showed already, what a motion adds to it, and the standard deviations to expect from both.

Information adds up: M = sum of W'W / noise^2 over all rows, old and new. Residuals e are coloured, so that the estimate
has the covariance V C V, V = M^-1, with C = cov(W'e / noise^2) in place of M. For the logs so far a result holds C, for
a motion it follows from the spectrum of its rows; both by an autoregressive model of each channel's residual. A search
takes one factor f per channel for C / M instead, by which the jackknife's variances exceed those for white noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.optimize

from dynid.dynamics.friction import HARMONICS, find_friction_block, stop_width
from dynid.errors import ExcitationError, IdentificationError
from dynid.estimation.accumulate.factor import triangularise
from dynid.estimation.identification import Identification
from dynid.estimation.inference.jackknife import covariance_within_logs
from dynid.estimation.regression.rows import LEAD
from dynid.excitation.criteria import AddedCriterion, Criterion, PredictionVariance, find_criterion
from dynid.identifiability.numeric import random_samples
from dynid.messages import Option
from dynid.payload.identify_payload import is_same_robot
from dynid.payload.two_runs import find_carrier, payload_names
from dynid.robot.inertia import SYMBOLS
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from dynid.excitation.criteria import BaseRows
    from dynid.robot.motion import Motion
    from dynid.robot.robot import Robot

PAYLOAD, UNIDENTIFIABLE = "payload", "unidentifiable"

TARGET = "target"
"""Name of the criterion of the targeted parameters."""

FASTEST = 200.0
"""Rows per second along which an announcement is computed at most; more of them weigh the same together."""

ANCHOR = 0.1
"""Weight with which a channel's factor f is drawn to the median, for channels that hardly show in any parameter."""


def read_result(after: Identification | str | Path, robot: Robot) -> Identification:
    """Result that is given or that a file holds; raise where its information does not suit a design for this robot."""
    if not isinstance(after, Identification):
        if not isinstance(after, str | Path):
            raise ExcitationError(
                "not_a_result", "after must be an Identification or its file, got {kind}", kind=type(after).__name__,
            )  # fmt: skip
        after = Identification.load(after)
    if not is_same_robot(after.robot, robot):
        raise ExcitationError(
            "result_of_another_robot", "the result is of another robot ('{other}', not '{robot}')",
            "use the robot file, gravity and locked joints of that identification", other=after.robot.name,
            robot=robot.name,
        )  # fmt: skip
    if after.model != "torque" or after.equation.unknown is not None:
        raise ExcitationError(
            "result_not_of_torques", "the result is not of joint torques with known geometry (model '{model}')",
            "identify with model 'torque'", model=after.model,
        )  # fmt: skip
    if after.estimator == "ridge":
        raise ExcitationError(
            "result_of_ridge", "a ridge result depends on nominal values as well as on data", "identify with "
            "estimator 'wls'",
        )  # fmt: skip
    if after.replay is None or any(item.shares is None for item in after.unidentifiable):
        raise ExcitationError(
            "result_too_old", "the result does not hold all that a design needs", "identify again with this version",
        )  # fmt: skip
    return after


def columns_of_result(result: Identification) -> tuple[bool, tuple[str, ...]]:
    """Rotor inertias and friction blocks to search with: stops count as Coulomb friction, `load` and `lag` do not."""
    used = [name for name in result.equation.friction if name in result.friction]
    plain = [name for name in used if find_friction_block(name).value is not None or name in HARMONICS]
    dry = ["coulomb"] if "coulomb" not in plain and any(stop_width(name) and name != "load" for name in used) else []
    return result.equation.base.question.rotor_inertia, (*plain, *dry)


@dataclass(frozen=True, slots=True, eq=False)
class Information:
    """What is known of the unknowns `names` before a motion, which of them matter, and how the motion shows them.

    known: rows (k, unknowns) over noise per joint, a square root of G_c of the logs so far; noise (n,): standard
    deviation of a row, infinite where a joint's torque is not used; inflation (n,): the factors f_c. columns
    (b, unknowns): what each column of the design is of the unknowns; in_log (columns, unknowns): the same for those of
    the result's equation. present (unknowns,): present standard deviations, NaN where there are none; scale: these, or
    the best that could be hoped for; growth: by which the scatter between logs exceeds that within them. scores
    (unknowns, unknowns): covariance of W'e / noise^2 of the logs so far. targeted: numbers of the
    unknowns that matter. rate: rows per second of the logs, seconds: of the motion to come; level: factor of variances
    by the models of the residuals.
    """

    names: tuple[Parameter, ...]
    known: tuple[Array, ...]
    noise: Array
    inflation: Array
    columns: Array
    present: Array
    scale: Array
    growth: Array
    scores: Array
    targeted: tuple[int, ...]
    result: Identification | None = None
    in_log: Array | None = None
    rate: float = 0.0
    seconds: float = 0.0
    level: float = 1.0

    @staticmethod
    def after_result(
        result: Identification, rows: BaseRows, target: str | Sequence[str] | None, seconds: float
    ) -> Information:
        """Information of a result, for a motion of so many seconds, on the columns of a design; see `targets_of`."""
        old, dropped = result.names, tuple(item.name for item in result.unidentifiable)
        everywhere = dict.fromkeys(name.of_all_logs for name in (*old, *dropped) if name.log is not None)
        if target == PAYLOAD:  # a loaded run has friction of its own
            everywhere |= dict.fromkeys(n.of_all_logs for n in (*old, *dropped) if n.kind == "friction")
        new = tuple(name.of_log(len(result.factors) + 1) for name in everywhere)
        carried = payload_names(rows.robot.links[_find_carrier(rows.robot)]) if target == PAYLOAD else ()
        names = (*old, *dropped, *new, *carried)
        shown = np.eye(len(old), len(names))
        for k, name in enumerate(dropped, len(old)):
            for other, share in result.joined[name].items():
                shown[old.index(other), k] = share
        in_new = [None if name in everywhere else name.of_all_logs for name in (*old, *dropped)]
        in_new += [name.of_all_logs for name in new]
        n, p = rows.robot.n, len(old)
        own, noise = [np.zeros((0, p)) for _ in range(n)], np.full(n, np.inf)
        for c, channel in enumerate(result.equation.torque_channels):
            noise[channel.joint] = result.noise[c]
            rows_of_logs = np.concatenate([of_log[c].R[:, :-1] for of_log in result.factors])
            own[channel.joint] = triangularise(rows_of_logs) / result.noise[c]
        _, t, *_ = result.replay.arrays()  # type: ignore[union-attr]
        steps = np.diff(t)
        inflation = inflation_by_colour(result, own)
        scores, level = result.scores, 1.0
        if scores is not None:
            level = level_of_scores(result, np.concatenate(own), scores)
        else:
            scores = sum((f * (R.T @ R) for f, R in zip(inflation, own, strict=True)), np.zeros((p, p)))
        growth = np.ones(p) if result.log_growth is None else result.log_growth
        found = Information(
            names, tuple(R @ shown for R in own), noise, inflation,
            _design_columns(rows, in_new, bool(carried)), _filled(result.sigma, len(names), np.nan),
            np.ones(len(names)), _filled(growth, len(names), 1.0), shown.T @ (level * scores) @ shown, (),
            result,
            _equation_columns(result, in_new, bool(carried)), 1.0 / float(np.median(steps[steps > 0.0])), seconds,
            level,
        )  # fmt: skip
        return found._for_target(rows, target)

    @staticmethod
    def of_design(rows: BaseRows, target: str | Sequence[str], noise: Array | None) -> Information:
        """Information where there is no result: none; a payload is found from a run with it and one without."""
        n, carried = rows.robot.n, target == PAYLOAD
        names: tuple[Parameter, ...] = rows.names
        if carried:
            names = (*rows.names[len(rows.kept) :], *payload_names(rows.robot.links[_find_carrier(rows.robot)]))
        sigma = (np.ones(n) if noise is None else noise) * (np.sqrt(2.0) if carried else 1.0)
        count = len(names)
        in_new = list(names[: count - 10 * carried])
        found = Information(
            names, (np.zeros((0, count)),) * n, sigma, np.ones(n), _design_columns(rows, in_new, carried),
            np.full(count, np.nan), np.ones(count), np.ones(count), np.zeros((0, 0)), (),
        )  # fmt: skip
        return found._for_target(rows, target)

    def _for_target(self, rows: BaseRows, target: str | Sequence[str] | None) -> Information:
        """The same with scales, and the unknowns that matter as far as any motion can show them."""
        W = rows.matrix(random_samples(rows.robot, 60, 0)).reshape(-1, rows.robot.n, len(rows.names)) @ self.columns
        W = W / (self.noise * np.sqrt(self.inflation))[:, None]
        best = np.sqrt((W**2).sum(axis=(0, 1)) / len(W) * max(self.rate * self.seconds, len(W)))
        alone = np.divide(1.0, best, out=np.ones(len(best)), where=best > 0.0)
        scaled = replace(self, scale=np.where(np.isfinite(self.present), self.present, alone))
        places = targets_of(scaled, rows, target)
        A = np.concatenate([W.reshape(-1, len(best)) * scaled.scale, scaled.root_of_known()])
        _, s, Vt = np.linalg.svd(A, full_matrices=True)
        null = Vt[np.count_nonzero(s > 1e-9 * s[0]) :]
        seen = [k for k in places if np.linalg.norm(null[:, k]) < 1e-4]
        if not seen:
            raise ExcitationError(
                "target_not_identifiable", "no motion determines {parameters:5}", "choose other targets",
                parameters=[str(self.names[k]) for k in places],
            )  # fmt: skip
        return replace(scaled, targeted=tuple(seen))

    def root_of_known(self) -> Array:
        """Square root (k, unknowns) of what is known of the scaled unknowns, with coloured noise."""
        rows = np.concatenate([R / np.sqrt(f) for R, f in zip(self.known, self.inflation, strict=True)]) * self.scale
        return triangularise(rows)

    def criterion(self, rows: int, name: str, predicted: Array | None = None) -> Criterion:
        """Criterion of a name for a matrix of so many rows, which stand for the whole motion; of scaled unknowns.

        `target`: mean square of the targeted standard deviations; predicted (k, b): what criterion v is about.
        """
        n, unknowns = len(self.noise), len(self.names)
        share = self.rate * self.seconds * n / rows if self.rate else 1.0
        weights = np.tile(np.sqrt(share / self.inflation) / self.noise, rows // n)
        columns = self.columns * self.scale
        if name == TARGET:
            chosen = np.eye(unknowns)[list(self.targeted)]
            of_all: Criterion = PredictionVariance(chosen / np.sqrt(len(chosen)))
        else:
            everything = np.ones((rows, unknowns), dtype=np.bool_)
            G = None if predicted is None else predicted @ columns
            of_all = find_criterion(name, weights=(1.0, 0.0), mask=everything, target=G)
        return AddedCriterion(of_all, weights, columns, self.root_of_known())

    def expected(self, motion: Callable[[float], Motion], matrix: Array) -> dict[str, float]:
        """Standard deviations by name, of the logs so far together with a motion; infinite where undetermined.

        motion(rate): its samples; matrix: rows of the design, which count where there is no result.
        """
        if self.result is None:
            W = matrix.reshape(-1, len(self.noise), matrix.shape[1]) @ self.columns / self.noise[:, None]
            new, scores = W.reshape(-1, len(self.names)), None
        else:
            new, scores = self._rows_of_motion(self.result, motion)
        old = np.concatenate(self.known)
        _, s, Vt = np.linalg.svd(triangularise(np.concatenate([old, new])) * self.scale, full_matrices=True)
        rank = int(np.count_nonzero(s > 1e-11 * s[0]))
        V = (Vt[:rank].T / s[:rank]) @ (Vt[:rank] / s[:rank, None]) * self.scale  # (scaled, unknowns)
        if scores is None:
            variance = (Vt[:rank].T ** 2) @ s[:rank] ** -2.0
        else:
            variance = np.einsum("ij,jk,ik->i", V, self.scores + scores, V, optimize=True)
        sigma = np.sqrt(variance) * self.scale * self.growth
        sigma[np.linalg.norm(Vt[rank:], axis=0) > 1e-3] = np.inf
        return dict(zip(map(str, self.names), sigma.tolist(), strict=True))

    def _rows_of_motion(self, result: Identification, motion: Callable[[float], Motion]) -> tuple[Array, Array]:
        """Rows over noise that a motion adds, and the covariance of their W'e for a residual e of known spectrum."""
        models = [check.autoregression for check in result.checks]
        step = models[0][0] if models and all(models) else 1.0 / min(self.rate, FASTEST)
        rows = channel_rows(result, motion(1.0 / step))
        new, scores = [], np.zeros((len(self.names), len(self.names)))
        for c, channel in enumerate(result.equation.torque_channels):
            noise = self.noise[channel.joint]
            own = rows[c] @ self.in_log[channel.columns] * np.sqrt(self.rate * step) / noise  # type: ignore[index]
            new.append(own)
            if models and all(models):
                F = np.fft.rfft(own, 2 * len(own), axis=0)
                response = np.fft.rfft([1.0, *(-x for x in models[c][2:])], 2 * len(own))
                power = models[c][1] / np.abs(response) ** 2 * (self.rate * step / noise**2 / len(own))
                power[[0, -1]] *= 0.5  # of the frequencies that are there once
                scores += (F.conj().T @ (power[:, None] * F)).real
            else:
                scores += own.T @ own * self.inflation[channel.joint]
        return np.concatenate(new), self.level * scores


def find_information(
    after: Identification | None,
    rows: BaseRows,
    target: str | Sequence[str] | None,
    noise: Array | None,
    seconds: float,
) -> Information:
    """Information before a motion of so many seconds: that of a result, or none."""
    if after is not None:
        return Information.after_result(after, rows, target, seconds)
    return Information.of_design(rows, target or (), noise)


def _find_carrier(robot: Robot) -> int:
    """Index of the last link; raise where a robot ends in several."""
    try:
        return find_carrier(robot, None)
    except IdentificationError:
        raise ExcitationError(
            "ambiguous_payload_link", "'{robot}' ends in several links: it is not clear which one carries a payload",
            "name parameters of the link that does as the target", robot=robot.name,
        ) from None  # fmt: skip


def _filled(values: Array, size: int, rest: float) -> Array:
    """Array of this size that begins with the values."""
    return np.concatenate([values, np.full(size - len(values), rest)])


def inflation_by_colour(result: Identification, known: Sequence[Array]) -> Array:
    """Factors f (n,) of the variance of each channel, by its coloured residual; known: rows over noise per joint.

    Variances by the jackknife over those for white noise are means of f_c, with the shares that channels have in a
    parameter's variance as weights.
    """
    scale = np.where(result.white_sigma > 0.0, result.white_sigma, 1.0)
    _, s, Vt = np.linalg.svd(np.concatenate(known) * scale, full_matrices=False)
    V = (Vt.T / s**2) @ Vt
    white = np.diag(V)
    within = np.diag(covariance_within_logs(result.covariance, result.systematic, result.log_growth)) / scale**2
    good = (white > 0.0) & (within > 0.0)
    if not good.any():
        return np.ones(len(known))
    shares = np.column_stack([(((R * scale) @ V) ** 2).sum(axis=0) for R in known])[good] / white[good, None]
    ratio = within[good] / white[good]
    middle = float(np.median(ratio))
    A = np.concatenate([shares, ANCHOR * np.eye(len(known))])
    f, _ = scipy.optimize.nnls(A, np.concatenate([ratio, np.full(len(known), ANCHOR * middle)]))
    return np.maximum(f, 0.1 * middle)


def level_of_scores(result: Identification, known: Array, scores: Array) -> float:
    """Factor of the variances by the models of the residuals, which are too small by what the fit took of these.

    The jackknife's are too large by about twice as much: a third of the way, in logarithms, is about right.
    """
    scale = np.where(result.white_sigma > 0.0, result.white_sigma, 1.0)
    _, s, Vt = np.linalg.svd(known * scale, full_matrices=False)
    V = (Vt.T / s**2) @ Vt * scale
    modelled = np.einsum("ij,jk,ik->i", V, scores, V, optimize=True) * scale**2
    found = np.diag(covariance_within_logs(result.covariance, result.systematic, result.log_growth))
    good = (modelled > 0.0) & (found > 0.0)
    return float(np.clip(np.median(found[good] / modelled[good]), 0.5, 2.0) ** (1.0 / 3.0)) if good.any() else 1.0


def _design_columns(rows: BaseRows, sources: Sequence[Parameter | None], carries: bool) -> Array:
    """What columns of a design are of unknowns (b, unknowns), by what each stands for; a payload's ten come last."""
    base = rows.base_matrix()
    standard, friction = rows.robot.parameter_names, {name: k for k, name in enumerate(rows.names)}
    S = np.zeros((len(rows.names), len(sources)))
    for k, name in enumerate(sources):
        if name in standard:
            S[: len(base), k] = base[:, standard.index(name)]
        elif name is not None:
            dry = next((c for c in rows.names if c.symbol == "Fc" and c.joint == name.joint), None)
            column = dry if name.symbol.startswith("Fs") else name
            if column in friction:
                S[friction[column], k] = 1.0
    return np.hstack([S, _payload_columns(base, rows.robot, len(S))]) if carries else S


def _equation_columns(result: Identification, sources: Sequence[Parameter | None], carries: bool) -> Array:
    """What columns of a result's equation are of unknowns, (columns, unknowns)."""
    equation = result.equation
    matrix = np.zeros((len(equation.names), len(sources)))
    for k, name in enumerate(sources):
        if name is not None:
            matrix[equation.names.index(name), k] = 1.0
    added = _payload_columns(equation.base.matrix, result.robot, len(matrix)) if carries else matrix[:, :0]
    return np.hstack([matrix, added])


def _payload_columns(base: Array, robot: Robot, columns: int) -> Array:
    """What a payload on the last link adds to the base parameters, which are the first of so many columns."""
    first = robot.parameter_names.index(robot.links[_find_carrier(robot)].parameter(SYMBOLS[0]))
    added = np.zeros((columns, len(SYMBOLS)))
    added[: len(base)] = base[:, first : first + len(SYMBOLS)]
    return added


def channel_rows(result: Identification, motion: Motion) -> list[Array]:
    """Rows (N, own columns) of every torque channel of a result's equation along a motion, friction included."""
    equation = result.equation
    positions = equation.to_motor_side(motion.q)
    lead = int(LEAD / float(np.median(np.diff(motion.t))))
    stops = equation.shapes.stop_values_along(positions, equation.shapes.initial_stop_states(positions, lead))
    wide = equation.write_torque_rows(motion, stops, None)
    return [channel.rows_in_wide(wide)[:, :-1] for channel in equation.torque_channels]


def targets_of(information: Information, rows: BaseRows, target: str | Sequence[str] | None) -> tuple[int, ...]:
    """Numbers of the unknowns that a target names.

    None: all with a present deviation. `payload`: those of what the last link carries. `unidentifiable`: those that
    the result dropped or calls weak. Names: unknowns, or standard parameters, which stand for the base parameters that
    hold them.
    """
    names, result = information.names, information.result
    place = {str(name): k for k, name in enumerate(names)}
    if target is None:
        return tuple(np.flatnonzero(np.isfinite(information.present)).tolist())
    if target == PAYLOAD:
        return tuple(range(len(names) - len(SYMBOLS), len(names)))
    if target == UNIDENTIFIABLE:
        weak = [str(item.name) for item in result.unidentifiable] if result is not None else []
        for reason in result.verdict.reasons if result is not None else ():
            weak += reason.facts["parameters"] if reason.code == "weak_parameters" else []
        if not weak:
            raise ExcitationError(
                "nothing_unidentifiable", "the result has no unidentifiable or weak parameters",
                "name the parameters that matter, or leave out {option}", option=Option("target"),
            )  # fmt: skip
        return tuple(dict.fromkeys(place[name] for name in weak if name in place))
    wanted = [word.strip() for word in target.split(",")] if isinstance(target, str) else list(target)
    base, standard = rows.base_matrix(), rows.robot.parameter_names
    found: dict[int, None] = {}
    for word in wanted:
        if word in place:
            found[place[word]] = None
            continue
        holding = base[:, standard.index(word)] if word in standard else np.zeros(0)
        kept = [rows.names[k] for k in np.flatnonzero(np.abs(holding) > 1e-12)]
        if not kept or not all(name in place for name in kept):
            raise ExcitationError(
                "unknown_target", "'{name}' is not among the parameters that a motion can determine",
                "choose among {names}, or payload" + (" or unidentifiable" if result else ""), name=word,
                names=[str(name) for name in names],
            )  # fmt: skip
        found |= dict.fromkeys(place[name] for name in kept)
    return tuple(found)
