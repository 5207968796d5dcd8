"""Combinations that the data cannot tell apart, and which motion would reveal them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.identifiability.relations import Regrouping
from dynid.messages import Message
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array, freeze

ALIKE = 0.3
"""Share of the largest torque that a joint's motion must cause to reveal a direction as well as the best joint's."""

NO_EFFECT = "it has no effect on them"


@dataclass(frozen=True, slots=True)
class Unidentifiable:
    """A parameter that the data do not determine and that was set to zero.

    Attributes
    ----------
    name : Parameter
        The parameter.
    seen : str
        What the data show in its place.
    remedy : Message
        What would reveal it.
    shares : tuple of (Parameter, float) or None
        Parameters whose values contain a share of it: they stand for name + share * (this one); None if an old file
        does not say.
    """

    name: Parameter
    seen: str
    remedy: Message
    shares: tuple[tuple[Parameter, float], ...] | None = ()

    @property
    def message(self) -> Message:
        """Warning on the parameter: what the data show in its place, and the remedy."""
        return Message(
            "parameter_unidentifiable", "{parameter} is unidentifiable from these data ({seen})", "{advice}",
            parameter=self.name, seen=self.seen, advice=self.remedy, shares=dict(self.shares or ()),
        )  # fmt: skip

    def __str__(self) -> str:
        return str(self.message)


def describe_unidentifiable(
    equation: Equation, unknowns: Unknowns, regrouping: Regrouping | None, posture: Array, *, by_noise: bool = False,
    is_noisy: bool = False,
) -> tuple[Unidentifiable, ...]:  # fmt: skip
    """Describe every unknown that was not kept, with its remedy; posture (n,): the mean position in the logs.

    by_noise: noise of the sensors alone would have told them apart; is_noisy: the cut-off lets much of it through.
    """
    if regrouping is None:
        return ()
    kept = list(regrouping.kept)
    found = []
    for k, name in enumerate(unknowns.names):
        if k in kept:
            continue
        shares = regrouping.matrix[:, k]
        terms = [
            (share, unknowns.names[i])
            for i, share in zip(kept, shares, strict=True)
            if abs(share) > 1e-6 * _largest_share(shares)
        ]
        direction = np.zeros(len(unknowns))
        direction[k] = 1.0
        direction[kept] -= shares
        seen = ("only noise of the sensors excites it; " if by_noise else "") + describe_identified_sums(terms, name)
        kept_shares = tuple((other, float(share)) for share, other in terms)
        remedy = _find_remedy(equation, unknowns, direction, posture)
        if by_noise and is_noisy:
            remedy = Message("lower_cutoff_or_move", "lower the cut-off, or {motion}", motion=remedy)
        found.append(Unidentifiable(name, seen, remedy, kept_shares))
    return tuple(found)


def _largest_share(shares: Array) -> float:
    """Largest absolute share, at least 1e-12."""
    return max(float(np.abs(shares).max()), 1e-12)


def describe_identified_sums(terms: Sequence[tuple[float, str]], name: str) -> str:
    """Text on the sums in which an unidentifiable parameter is identified; terms: (share, name) of what it joins."""
    return NO_EFFECT if not terms else f"they show {_describe_sums(terms, name)} only"


def _describe_sums(terms: Sequence[tuple[float, str]], name: str) -> str:
    """Sums of parameters as text: `m2 + 0.5 m3, ...`."""
    parts = []
    for share, other in terms[:6]:
        factor = "" if f"{abs(share):.3g}" == "1" else f"{abs(share):.3g} "
        parts.append(f"{other} {'+' if share > 0 else '-'} {factor}{name}")
    more = f" and {len(terms) - 6} more" if len(terms) > 6 else ""
    return ", ".join(parts) + more


def _find_remedy(equation: Equation, unknowns: Unknowns, direction: Array, posture: Array) -> Message:
    """Message on the motion that would make a direction identifiable."""
    place = unknowns.place[0]
    columns = np.where(place >= 0, direction[np.maximum(place, 0)], 0.0)
    rigid = columns[: equation.rigid_column_count]
    if not np.any(rigid):
        if not equation.torque_channels:
            return Message("move_all_joints", "move all joints, one after the other and together")
        names = equation.robot.joint_names
        j = int(np.argmax([np.abs(columns[c.columns]).max() for c in equation.torque_channels]))
        joint = names[equation.torque_channels[j].joint]
        return Message("vary_joint_speed", "move joint {joint} faster, slower and in both directions", joint=joint)
    return find_revealing_motion(equation, rigid, posture)


def find_revealing_motion(equation: Equation, rigid: Array, posture: Array) -> Message:
    """Message on a motion, of single joints or of pairs around the posture (n,), that shows a direction.

    Of several joints that show it as well the last is named, which moves least of the robot. rigid: the direction,
    on the base and user columns.
    """
    n, names = equation.robot.n, equation.robot.joint_names
    single = [_torque_change_along_motion(equation, rigid, posture, (j,)) for j in range(n)]
    best = int(np.flatnonzero(np.array(single) >= ALIKE * max(single))[-1])
    whole = _torque_change_along_motion(equation, rigid, posture, tuple(range(n)))
    if single[best] > 1e-3 * max(whole, 1e-300):
        return Message(
            "move_joint_more", "move joint {joint} more, independently of the others (position, speed and "
            "acceleration)", joint=names[best],
        )  # fmt: skip
    pairs = {(i, j): _torque_change_along_motion(equation, rigid, posture, (i, j)) for i in range(n) for j in range(i)}
    if pairs:
        pair = max(pairs, key=lambda key: pairs[key])
        if pairs[pair] > 1e-3 * max(whole, 1e-300):
            joints = (names[pair[1]], names[pair[0]])
            return Message(
                "move_joints_together", "move joints {joints[0]} and {joints[1]} at the same time", joints=joints
            )
    return Message(
        "vary_positions_and_speeds", "move all joints at the same time, with other combinations of positions and speeds"
    )


def _torque_change_along_motion(equation: Equation, rigid: Array, posture: Array, joints: tuple[int, ...]) -> float:
    """Change of torques or forces on the base that the direction causes when only some joints move.

    What it causes at standstill is no news: the data hold that posture, and an offset may cancel it.
    """
    rows = _trial_rows(equation, tuple(posture.tolist()), joints)
    shown = equation.rigid_torque(rows, rigid)
    for channel in equation.base_channels:
        own = rows[:, channel.start : channel.start + channel.base] @ rigid[channel.columns[: channel.base]]
        shown = np.column_stack([shown, own])
    return float(np.abs(shown[1:] - shown[0]).max())


@lru_cache(maxsize=256)
def _trial_rows(equation: Equation, posture: tuple[float, ...], joints: tuple[int, ...]) -> Array:
    """Rows of the posture and of a random motion of some joints, cached for the next direction."""
    rng = np.random.default_rng(0)
    n, N = equation.robot.n, 30
    q, v, a = np.tile(posture, (N, 1)), np.zeros((N, n)), np.zeros((N, n))
    for j in joints:
        scale = equation.shapes.scale[j]
        q[:, j] += scale * rng.uniform(-1.5, 1.5, N)
        v[:, j], a[:, j] = scale * rng.uniform(-2.0, 2.0, N), scale * rng.uniform(-5.0, 5.0, N)
    q[0], v[0], a[0] = posture, 0.0, 0.0
    return freeze(equation.rigid_rows(Motion(np.arange(float(N)), q, v, a)))
