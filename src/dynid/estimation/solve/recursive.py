"""Block-triangular recursion: joint by joint from the last one (Ha, Ko & Kwon, eq. 2.28).

The torque of joint i of a serial robot depends on the bodies beyond it only, so the equation is block triangular,
U_ii X_i = Y_i - sum over p > i of U_ip X_p, and X_n, X_(n-1), ... follow one by one from small least squares. With
U_ii = Q_i R_ii this is R X = z for the block row [R_ii, Q_i'U_i(i+1), ..., Q_i'U_in | Q_i'Y_i] / noise_i, so R is
triangular as a whole and gives the covariance R^-1 R^-T of the recursion. What joint i's torque tells of later
blocks, below R_ii, is left unused: joint weighted least squares uses it.

Eq. 2.30, rank U_ii = m_i, is necessary here, not for all joints together: where it fails the recursion refuses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import Block
from dynid.estimation.inference.jackknife import (
    FEWEST,
    SHARED,
    Jackknife,
    group_blocks,
    jackknife_from_shifts,
    row_pieces_of_groups,
    shift_without_group,
)
from dynid.estimation.inference.score import Score
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import (
    FLOOR,
    Factors,
    NoisyRows,
    Solution,
    find_regrouping,
    random_rows,
    regroup_above_noise,
    stack_weighted_rows,
)
from dynid.identifiability.numeric import find_by_qr
from dynid.messages import Message, Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

LACKS_RANK = "recursion_block_lacks_rank"
"""Code of the refusal where a joint's own block lacks rank (eq. 2.30)."""

WLS = Option("estimator", "wls")

ROUNDING = 1e-9
"""Size of a parameter's column in one joint's torque, over that in all torques, below which it is rounding."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Which parameters z = B x belong to which joint: the i-th from the base has channel order[i] and z[own[i]].

    joints: names per channel; names: of z. B (unknowns, unknowns) is a permutation unless a joint's own torque sees
    two of its parameters only as one combination on every motion, which an earlier joint tells apart.
    """

    joints: tuple[str, ...]
    order: tuple[int, ...]
    own: tuple[slice, ...]
    names: tuple[str, ...]
    B: Array

    @cached_property
    def unknowns_from_blocks(self) -> Array:
        """Matrix with x = matrix @ z: unknowns from the parameters sorted by joint."""
        inverse = np.linalg.inv(self.B)
        is_permutation = bool(((self.B == 0.0) | (self.B == 1.0)).all() and (self.B.sum(axis=1) == 1.0).all())
        return np.asarray(self.B.T if is_permutation else inverse)

    def places_after(self, i: int) -> slice:
        """Places in z of the joints after the i-th."""
        return slice(self.own[i].stop, len(self.names))


def find_levels(equation: Equation, unknowns: Unknowns) -> Levels:
    """Sort the unknowns by the last joint whose torque sees them, on random motion."""
    robot = equation.robot
    check_serial(robot)
    if equation.options.is_scalar:
        raise IdentificationError(
            "recursion_with_summed_model", "model '{model}' adds up all joints, but the recursion works joint by joint",
            "use {torque} or {momentum}, or {estimator}", model=equation.options.model,
            torque=Option("model", "torque"), momentum=Option("model", "momentum"), estimator=WLS,
        )  # fmt: skip
    if equation.base_channels:
        raise IdentificationError(
            "recursion_with_base_forces", "the recursion works joint by joint, not with forces on the base",
            "use {estimator}", estimator=WLS,
        )  # fmt: skip
    joints = tuple(robot.joint_names[channel.joint] for channel in equation.channels)
    depth = _joint_depths(robot)
    order = sorted(range(len(joints)), key=lambda c: depth[equation.channels[c].joint])
    return levels_from_rows(unknowns.names, joints, tuple(order), random_rows(equation, unknowns))


def levels_from_rows(
    names: tuple[str, ...], joints: tuple[str, ...], order: tuple[int, ...], rows: list[Array]
) -> Levels:
    """Levels from rows (N, unknowns) of every channel that show what it can see."""
    free, left = np.eye(len(names)), list(range(len(names)))
    found: list[tuple[list[int], Array]] = []
    for c in reversed(order):
        A = rows[c] @ free
        size = np.abs(A).max(axis=0, initial=0.0)
        seen = [k for k in left if size[k] > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)]
        if not seen:
            found.append(([], np.zeros((0, len(names)))))
            continue
        regrouping = find_by_qr(A[:, seen]).regrouping
        kept = [seen[k] for k in regrouping.kept]
        own = np.zeros((len(kept), len(names)))
        own[:, seen] = regrouping.matrix
        for row, k in zip(own, kept, strict=True):  # x_k = z_k - sum of its companions
            for other in seen:
                if other not in kept:
                    free[:, other] -= free[:, k] * row[other]
        found.append((kept, own))
        left = [k for k in left if k not in kept]
    if left:
        raise IdentificationError(
            "recursion_parameters_unseen", "no torque determines {parameters}", "use {estimator}",
            parameters=[names[k] for k in left], estimator=WLS,
        )  # fmt: skip
    found.reverse()
    edges = np.concatenate([[0], np.cumsum([len(kept) for kept, _ in found])]).tolist()
    places = tuple(slice(start, stop) for start, stop in itertools.pairwise(edges))
    labels = tuple(names[k] for kept, _ in found for k in kept)
    return Levels(joints, order, places, labels, np.concatenate([own for _, own in found]))


def check_serial(robot: Robot) -> None:
    """Raise for robots whose torques are not block triangular along one chain."""
    if robot.closures or robot.couplings:
        raise IdentificationError(
            "closed_loops_or_couplings", "'{robot}' has closed loops or coupled joints: its torques are not block "
            "triangular; the recursion works only on serial "
            "robots,", "use {estimator}", robot=robot.name, estimator=WLS,
        )  # fmt: skip
    depth = _joint_depths(robot)
    alike = [name for j, name in enumerate(robot.joint_names) if depth.count(depth[j]) > 1]
    if alike:
        raise IdentificationError(
            "recursion_on_branched_robot", "'{robot}' branches (joints {joints[0]} and {joints[1]}): the recursion "
            "works only on serial robots,", "use {estimator}", robot=robot.name, joints=alike, estimator=WLS,
        )  # fmt: skip


def _joint_depths(robot: Robot) -> list[int]:
    """Number of active joints on the way from the base to each active joint."""
    active, depths = set(robot.active_links), []
    for k in robot.active_links:
        depth = 0
        while k >= 0:
            depth += k in active
            k = robot.links[k].parent
        depths.append(depth)
    return depths


def solve_recursively(unknowns: Unknowns, factors: Factors, levels: Levels, floor: Factors | None = None) -> Solution:
    """Solve joint n, then n-1, ...; raise where a joint's own block lacks rank (eq. 2.30).

    floor: what noise of the motion alone gives (see `regroup_above_noise`).
    """
    count, channels = len(unknowns), len(levels.order)
    R, z = np.zeros((count, count)), np.zeros(count)
    noise, squares, counts = np.zeros(channels), np.zeros(channels), np.zeros(channels)
    rows = [_channel_rows(unknowns, factors, c, levels) for c in range(channels)]
    size = np.linalg.norm([np.linalg.norm(A, axis=0) for A, _ in rows], axis=0)
    for i in reversed(range(channels)):
        c, own, later = levels.order[i], levels.own[i], levels.places_after(i)
        A, y = rows[c]
        block = np.where(np.linalg.norm(A[:, own], axis=0) > ROUNDING * size[own], A[:, own], 0.0)
        D = _channel_rows(unknowns, floor, c, levels)[0][:, own] if floor else np.zeros((0, block.shape[1]))
        _check_rank_of_block(block, D, i, levels, unknowns, factors)
        Q, R_ii = np.linalg.qr(A[:, own])
        z[own] = scipy.linalg.solve_triangular(R_ii, Q.T @ (y - A[:, later] @ z[later]))
        counts[c] = sum(of_log[c].count for of_log in factors.values())
        squares[c] = float(((y - A @ z) ** 2).sum())
        least = FLOOR * np.sqrt(float(y @ y) / max(counts[c], 1.0)) + 1e-300
        noise[c] = max(np.sqrt(squares[c] / max(counts[c] - R_ii.shape[1], 1.0)), least)
        R[own, own] = R_ii / noise[c]
        R[own, later] = Q.T @ A[:, later] / noise[c]
    return Solution(
        levels.unknowns_from_blocks @ z,
        noise,
        levels.unknowns_from_blocks,
        np.zeros(count),
        R,
        None,
        squares,
        counts,
    )


def attenuation_by_motion_noise(
    unknowns: Unknowns, solution: Solution, floor: Factors, minor: NDArray[np.bool_], levels: Levels | None
) -> Array:
    """Shifts (unknowns,) of the values by noise of the motion, to first order: -(A'A)^-1 D'(D x - d).

    D and d: what noise changes of the weighted rows A and of what was measured (power and work, which hold velocities).
    The same block by block for the recursion, with its own R. minor (unknowns,): columns whose noise does not count.
    """
    rhs = np.zeros((len(solution.noise), len(unknowns)))
    for log, of_log in floor.items():
        for c, factor in enumerate(of_log):
            D, d = unknowns.rows_of_factor(log, c, factor)
            D = np.where(minor, 0.0, D)
            rhs[c] += D.T @ (d - D @ solution.values) / solution.noise[c] ** 2
    rhs = rhs @ solution.free
    if levels is None:
        right = scipy.linalg.solve_triangular(solution.R, rhs.sum(axis=0), trans="T")
    else:
        right = np.zeros(len(unknowns))
        for c, own in zip(levels.order, levels.own, strict=True):
            right[own] = scipy.linalg.solve_triangular(solution.R[own, own], rhs[c, own], trans="T")
    return np.asarray(solution.free @ scipy.linalg.solve_triangular(solution.R, right))


def _channel_rows(unknowns: Unknowns, factors: Factors, c: int, levels: Levels) -> tuple[Array, Array]:
    """Rows of one channel in z, of all logs."""
    parts = [unknowns.rows_of_factor(log, c, of_log[c]) for log, of_log in factors.items()]
    return np.concatenate([rows for rows, _ in parts]) @ levels.unknowns_from_blocks, np.concatenate(
        [right for _, right in parts]
    )


def _check_rank_of_block(block: Array, D: Array, i: int, levels: Levels, unknowns: Unknowns, factors: Factors) -> None:
    """Raise where a joint's own block lacks rank, with the parameters concerned."""
    own = levels.names[levels.own[i]]
    if not own:
        return
    regrouping = find_by_qr(block).regrouping if block.any() else None
    kept = () if regrouping is None else regrouping.kept
    why = ""
    if len(kept) == len(own):
        count = sum(of_log[levels.order[i]].count for of_log in factors.values())
        regrouping = regroup_above_noise(
            [NoisyRows(np.arange(len(own)), block, D, count)], np.zeros(len(own), dtype=np.bool_)
        )
        if regrouping is None:
            return
        kept, why = regrouping.kept, " except for sensor noise"
    places = set(range(len(own))) - set(kept)
    if regrouping is not None:  # and what these cannot be told from
        places |= {k for row, k in zip(regrouping.matrix, kept, strict=True) if np.count_nonzero(row) > 1}
    some = [own[k] for k in sorted(places)]
    together = find_regrouping(stack_weighted_rows(unknowns, factors, np.ones(len(levels.order)))[0], None) is None
    raise IdentificationError(
        LACKS_RANK, "the recursion stops at joint '{joint}': along this motion its own torque does not distinguish "
            "{joined}{why} (rank {rank} of {columns}; Ha, Ko & Kwon, eq. 2.30)", "all joints together do: use "
            "{estimator}"
        if together else "nor do all joints together: record another motion", joint=levels.joints[levels.order[i]],
        parameters=some, joined=" and ".join(some), why=why, rank=len(kept), columns=len(own), estimator=WLS,
    )  # fmt: skip


def recursion_shifts(
    unknowns: Unknowns,
    solution: Solution,
    levels: Levels,
    groups: list[tuple[Block, ...]],
    *,
    derived: bool = False,
    noise_corrected: bool = False,
) -> tuple[Array, int]:
    """Shifts (groups, unknowns) of the values where the recursion leaves out a group; in how many it cannot.

    With d_p the shifts of later blocks, Z = U_ii R_ii^-1 and e = r - sum of U_ip d_p on the group's rows,
    (I - Z'Z) R_ii d_i = -sum of Q_i'U_ip d_p - Z'e.
    """
    z = np.linalg.solve(levels.unknowns_from_blocks, solution.values)
    shifts, essential = np.zeros((len(groups), len(unknowns))), 0
    squares = [solution.R[own, own] for own in levels.own]
    inverses = [scipy.linalg.solve_triangular(R, np.eye(len(R))) for R in squares]
    for g, pieces in enumerate(row_pieces_of_groups(groups, soft=derived, noise_corrected=noise_corrected)):
        d, alone = np.zeros(len(unknowns)), False
        for i in reversed(range(len(levels.order))):
            c, own, later = levels.order[i], levels.own[i], levels.places_after(i)
            parts = [unknowns.rows_of_factor(piece.log, c, piece.factors[c]) for piece in pieces if piece.factors]
            weight, residual_weight = (
                np.repeat([getattr(p, name) for p in pieces if p.factors], [len(right) for _, right in parts])
                for name in ("weight", "residual_weight")
            )
            A = np.concatenate([rows for rows, _ in parts]) @ levels.unknowns_from_blocks / solution.noise[c]
            e = np.concatenate([right for _, right in parts]) / solution.noise[c] - A @ z - A[:, later] @ d[later]
            Z = A[:, own] @ inverses[i]
            step, rests = shift_without_group(
                Z.T @ (weight[:, None] * Z), -(solution.R[own, later] @ d[later]) - Z.T @ (residual_weight * e)
            )
            d[own] = inverses[i] @ step
            alone |= rests
        shifts[g] = levels.unknowns_from_blocks @ d
        essential += alone
    return shifts, essential


def jackknife_recursion(
    unknowns: Unknowns,
    solution: Solution,
    levels: Levels,
    blocks: tuple[Block, ...],
    most: int = 128,
    *,
    derived: bool = False,
    noise_corrected: bool = False,
) -> Jackknife | None:
    """Deviations by leaving out blocks of time, each time with a recursion of its own; None where they are few."""
    groups = group_blocks(blocks, most)
    if len(groups) < FEWEST:
        return None
    shifts, essential = recursion_shifts(
        unknowns, solution, levels, groups, derived=derived, noise_corrected=noise_corrected
    )
    steps = np.linalg.solve(levels.unknowns_from_blocks, shifts.T).T @ solution.R.T
    return jackknife_from_shifts(shifts, steps, essential, shared=SHARED if derived else 0.0)


# The joint weighted estimate and that of the recursion: how far they are apart, and where the recursion is blind.
#
# Batch uses what the recursion leaves unused, so its deviations tell what the data hold. A joint's own block that is
# nearly singular passes the test of rank (eq. 2.30), but noise then makes its values worthless: deviations show it.


WORSE = 10.0
"""Times by which the recursion's deviation exceeds the batch's where it deserves a warning."""

NEGLIGIBLE = 1e-9
"""Share of the largest parameter of a unit below which differences and deviations mean nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Values and deviations (unknowns,), and how well they predict."""

    values: Array
    sigma: Array
    validation: Score


def compare_with_batch(
    unknowns: Unknowns, levels: Levels, recursion: Candidate, batch: Candidate
) -> tuple[Message, tuple[Message, ...]]:
    """Note on recursion and batch, and warnings on joints whose own block determines parameters far worse."""
    smallest = NEGLIGIBLE * _largest_by_unit(unknowns, batch.values)
    apart = np.abs(recursion.values - batch.values) / (np.hypot(recursion.sigma, batch.sigma) + smallest)
    k = int(np.argmax(apart))
    note = Message(
        "recursion_compared_with_wls", "compared with all joints together (wls), the recursion differs by at most "
        "{apart:.2g} combined standard deviations ({parameter}: {recursive:.5g} and {wls:.5g}); validation NRMSE "
        "{nrmse:.4f}, "
        "wls {wls_nrmse:.4f}", apart=float(apart[k]), parameter=unknowns.names[k], wls=float(batch.values[k]),
        recursive=float(recursion.values[k]), nrmse=recursion.validation.mean, wls_nrmse=batch.validation.mean,
    )  # fmt: skip
    ratio = recursion.sigma / np.maximum(batch.sigma, smallest)
    blind: dict[str, float] = {name: float(x) for name, x in zip(unknowns.names, ratio, strict=True) if x > WORSE}
    warnings = []
    for i, c in reversed(list(enumerate(levels.order))):  # as the recursion goes: later joints spoil earlier ones
        own = [name for name in levels.names[levels.own[i]] if name in blind]
        if own:
            warnings.append(Message(
                "recursion_nearly_blind", "the recursion is nearly singular at joint '{joint}': standard deviations "
                "of {parameters} are up to {ratio:.0f} times those of all joints together", "use {estimator}",
                joint=levels.joints[c], parameters=own, ratio=max(blind[name] for name in own), estimator=WLS,
            ))  # fmt: skip
    return note, tuple(warnings)


def _largest_by_unit(unknowns: Unknowns, values: Array) -> Array:
    """Largest value (unknowns,) among those of the same unit."""
    units = np.array(unknowns.units)
    return np.array([np.abs(values[units == unit]).max() + 1e-300 for unit in unknowns.units])
