"""Joint torques that a result predicts where it was not fitted, whatever it was fitted to: a verdict recommends them.

Power, energy and momentum share the columns of the torque. Forces on the base tell the links only (theta_d = S
theta_r): friction and rotors that are not declared are fitted to the torques beside them, without the part predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.inference.score import Score, score
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.unknowns import Unknowns
from dynid.identifiability.base_reactions import relate_sensors
from dynid.robot.transform import Array


@dataclass(frozen=True, eq=False)
class TorqueCheck:
    """Rows of joint torques of the logs used; fits: the stretches of time held out and values found without each."""

    equation: Equation
    unknowns: Unknowns
    blocks: tuple[Block, ...]
    cutoff: float | None

    def held_out_errors(self, groups: Sequence[tuple[Block, ...]], fits: Array, source: str) -> Score | None:
        """Errors of the joint torques on every held-out stretch of time, by the values found without it."""
        lift = self._torque_map()
        if lift is None:
            return None
        inside = [
            [block for block in self.blocks if _group_around_block(block, groups) == f] for f in range(len(groups))
        ]
        C = len(lift.unknowns.channels)
        squares, counts, total, power = (np.zeros(C) for _ in range(4))
        for f, own in enumerate(inside):
            rest = [block for g, others in enumerate(inside) if g != f for block in others]
            values = lift.torque_values(fits[f], rest)
            for block in own:
                for c, factor in enumerate(block.factors):
                    squares[c] += factor.residual_squares(lift.unknowns.values_of_channel(block.log, c, values))
                    counts[c] += factor.count
                    total[c] += factor.total
                    power[c] += factor.sum_of_squares
        every = np.maximum(counts, 1.0)
        spread = np.sqrt(np.maximum(power / every - (total / every) ** 2, 0.0))
        rmse = np.sqrt(squares / every)
        nrmse = rmse / np.where(spread > 0.0, spread, np.nan)
        return Score(rmse, nrmse, nrmse, 0.0, self.cutoff, source, int(every.max()))

    def errors_on_logs(
        self, blocks: tuple[Block, ...], settling: tuple[tuple[ChannelFactor, ...], ...], values: Array, source: str
    ) -> Score | None:
        """Errors of the predicted joint torques on other logs."""
        lift = self._torque_map()
        if lift is None:
            return None
        torques = self.equation.torque_equation()
        assert torques is not None
        return score(
            lift.unknowns, lift.torque_values(values, self.blocks), total_factors(blocks), settling,
            cutoff=self.cutoff, source=source, fitted=False, kinds=torques.channel_kinds,
        )  # fmt: skip

    def _torque_map(self) -> _TorqueMap | None:
        """Map from what was solved for to the unknowns of the joint torques; None where there is none."""
        torques = self.equation.torque_equation()
        if torques is None or not self.blocks:
            return None
        if self.equation.options.has_torques:
            unknowns = replace(self.unknowns, channels=tuple(c.columns for c in torques.channels))
            u = len(unknowns)
            return _TorqueMap(unknowns, np.eye(u), np.zeros(u), np.zeros((u, 0)))
        return _torque_map_from_plate(self.equation, torques, self.unknowns)


@dataclass(frozen=True, slots=True, eq=False)
class _TorqueMap:
    """Values of torque unknowns: matrix @ (values of what was solved for) + fixed + free @ z, z fitted to torques."""

    unknowns: Unknowns
    matrix: Array
    fixed: Array
    free: Array

    def torque_values(self, solved: Array, blocks: Sequence[Block]) -> Array:
        """Values of the torque unknowns; those that the map leaves free are fitted to the torques of blocks."""
        x = self.matrix @ solved + self.fixed
        if not self.free.shape[1]:
            return np.asarray(x)
        rows, right = [], []
        for block in blocks:
            for c, factor in enumerate(block.factors):
                A, b = self.unknowns.rows_of_factor(block.log, c, factor)
                rows.append(A @ self.free)
                right.append(b - A @ x)
        A = np.concatenate(rows)
        scale = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
        z = np.linalg.lstsq(A / scale, np.concatenate(right), rcond=None)[0] / scale
        return np.asarray(x + self.free @ z)


def _torque_map_from_plate(equation: Equation, torques: Equation, solved: Unknowns) -> _TorqueMap | None:
    """Map from base parameters of the forces to those of the torques; None where these are not determined."""
    relation = relate_sensors(equation.robot, tared=equation.is_tared)
    place = {name: k for k, name in enumerate(solved.names)}
    if (
        relation.lost
        or equation.sensor.hidden_rotor_joints
        or any(name not in place for name in relation.reaction.names)
    ):
        return None
    base, declared = torques.base, torques.robot.declared_rotors
    columns = {name: k for k, name in enumerate(base.columns)}
    unknowns = Unknowns.for_equation(torques, torques.friction, 1)
    unknowns = replace(unknowns, place=np.tile(unknowns.place, (len(solved.place), 1)))
    index = {name: k for k, name in enumerate(unknowns.names)}
    seen = [k for k, name in enumerate(base.names) if name in index]
    M = np.zeros((len(unknowns), len(columns)))
    M[[index[base.names[k]] for k in seen]] = base.regrouping.matrix[seen]
    S = np.zeros((len(relation.S), len(solved)))
    S[:, [place[name] for name in relation.reaction.names]] = relation.S
    rotors = [k for name, k in columns.items() if name.kind == "rotor" and name not in declared]
    known = [base.columns.index(name) for name in declared if name in columns]
    others = [k for name, k in index.items() if name not in base.names]
    return _TorqueMap(
        unknowns,
        M[:, [columns[name] for name in relation.torque.names]] @ S,
        M[:, known] @ np.array([x for name, x in declared.items() if name in columns]),
        np.concatenate([M[:, rotors], np.eye(len(unknowns))[:, others]], axis=1),
    )


def _group_around_block(block: Block, groups: Sequence[tuple[Block, ...]]) -> int:
    """Index of the group that holds the stretch of time around the middle of a block."""
    middle = 0.5 * (block.start + block.stop)
    far = [
        min((max(b.start - middle, middle - b.stop, 0.0) for b in group if b.log == block.log), default=np.inf)
        for group in groups
    ]
    return int(np.argmin(far))
