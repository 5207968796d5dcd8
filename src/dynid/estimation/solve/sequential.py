"""Sample by sample: square-root information factors for control loops, with exponential forgetting.

Bierman's square-root information form: rows are written and rotated in at once, nothing is allocated. A new row w of
channel c is turned into the triangular factor [R | z] by Givens rotations, with forgetting by g = sqrt(lambda) inside
the rotation,

    R[i, j] <- c g R[i, j] + s w[j],    w[j] <- c w[j] - s g R[i, j],    c = g R[i, i] / h,    s = w[i] / h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynid.dynamics.friction import PLAIN, find_friction_block, joint_scales
from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import LINK, Geometry, Integers, RowLayout, Samples
from dynid.dynamics.kernels.rows import TORQUE, Workspace, write_rows_of_sample
from dynid.dynamics.kernels.spatial_algebra import SPATIAL
from dynid.dynamics.scene import Stage, motion_of_resting_base, standard_columns
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.identification import Identification
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import Solution, solve, structurally_independent_columns
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

VISCOUS, COULOMB, OFFSET, TANH, QUADRATIC, ASYMMETRY, STRIBECK, SPRING = range(8)
STILL = 1e-8
"""Velocity (rad/s) without a direction, as in `models.friction`."""


@inlined
def sign_of_velocity(v: float) -> float:
    """Sign of a velocity, 0 at standstill."""
    return 0.0 if abs(v) < STILL else (1.0 if v > 0.0 else -1.0)


@inlined
def friction_value(code: int, q: float, v: float, scale: float) -> float:
    """Value of one friction column of a joint; scale: how much of its position stands for one rad."""
    turned = v / scale
    value = 1.0  # OFFSET
    if code == VISCOUS:
        value = v
    elif code == COULOMB:
        value = sign_of_velocity(turned)
    elif code == TANH:
        value = math.tanh(turned / 0.1)
    elif code == QUADRATIC:
        value = v * abs(v)
    elif code == ASYMMETRY:
        value = abs(v)
    elif code == STRIBECK:
        value = math.exp(-((turned / 0.5) ** 2)) * sign_of_velocity(turned)
    elif code == SPRING:
        value = q
    return value


@inlined
def add_row_by_rotations(R: Array, at: int, size: int, row: Array, root: float) -> None:
    """Add a row (size,) by Givens rotations to the triangular factor at R[at:], after scaling that by root."""
    for i in range(size):
        diagonal = at + i * (size + 1)
        x = row[i]
        g = R[diagonal] * root
        h = math.sqrt(g * g + x * x)
        if h == 0.0:
            for j in range(1, size - i):
                R[diagonal + j] *= root
            continue
        c, s = g / h, x / h
        cg, sg = c * root, s * root
        R[diagonal] = h
        for j in range(1, size - i):
            r = R[diagonal + j]
            y = row[i + j]
            R[diagonal + j] = cg * r + s * y
            row[i + j] = c * y - sg * r


class Factors(NamedTuple):
    """Memory of the factors of all channels, and what a sample's row is made in.

    p: columns of the sheet; inertial, rotor: see `RowLayout`; base_frame (1, BASE_FRAME); scale (n,): as friction_value
    takes it; pick[start[c]:start[c + 1]]: columns of channel c, an entry of the sheet (n * p,) or -1 - code of a
    friction column; corner (n,): where its factor begins in R; root: of the forgetting factor; links, S: see
    `Workspace`; row: the longest; sums (n + 1,): weighted sum of y per channel, and of ones.
    """

    p: int
    inertial: Integers
    rotor: Integers
    base_frame: Array
    scale: Array
    start: Integers
    pick: Integers
    corner: Integers
    root: float
    links: Array
    S: Array
    sheet: Array
    row: Array
    R: Array
    sums: Array


GEOMETRY = len(Geometry._fields)


@compiled
def feed_samples(q: Array, qd: Array, qdd: Array, tau: Array, *fields: Any) -> int:
    """Feed samples q, qd, qdd, tau (N, n) to the factors of all channels; return how many were used.

    It stops at a sample that is not finite, of which nothing is used. fields: those of a `Geometry`, then those of
    `Factors`, one by one: handing over a named tuple costs 0.1 us per field, as much as a fifth of an update in all.
    """
    geometry = Geometry(*fields[:GEOMETRY])
    factors = Factors(*fields[GEOMETRY:])
    joints, scale, start, pick, corner = q.shape[1], factors.scale, factors.start, factors.pick, factors.corner
    root, sheet, row, R, sums = factors.root, factors.sheet, factors.row, factors.R, factors.sums
    samples = Samples(factors.base_frame, q, qd, qdd)
    layout = RowLayout(TORQUE, 0, joints, factors.p, factors.inertial, factors.rotor)
    work = Workspace(factors.links, factors.links, factors.S, factors.S, 0, joints)
    for k in range(q.shape[0]):
        total = 0.0
        for j in range(joints):
            total += q[k, j] + qd[k, j] + qdd[k, j] + tau[k, j]
        if not np.isfinite(total):
            return k
        write_rows_of_sample(geometry, layout, samples, k, work, sheet)
        for c in range(joints):
            first = start[c]
            size = start[c + 1] - first
            for e in range(size):
                place = pick[first + e]
                if place >= 0:
                    row[e] = sheet[place]
                else:
                    row[e] = friction_value(-1 - place, q[k, c], qd[k, c], scale[c])
            row[size] = tau[k, c]
            add_row_by_rotations(R, corner[c], size + 1, row, root)
            sums[c] = sums[c] * root * root + tau[k, c]
        sums[joints] = sums[joints] * root * root + 1.0
    return int(q.shape[0])


CODES = {
    "viscous": VISCOUS,
    "coulomb": COULOMB,
    "offset": OFFSET,
    "tanh": TANH,
    "quadratic": QUADRATIC,
    "asymmetry": ASYMMETRY,
    "stribeck": STRIBECK,
    "spring": SPRING,
}
"""Friction that one sample tells: blocks with a memory or a second pass are left to `identify`."""


class Sequential:
    """Parameters that follow the measurements of a control loop: `update` per sample, `solve` when they are wanted.

    Every channel c keeps a triangular factor with R_c'R_c = sum over samples k of lambda^(K - k) [w y]'[w y]
    (Bierman's square-root information form), fed by Givens rotations in constant time, without allocation.
    `solve` stacks the factors, each divided by its channel's noise: `noise` (n,) where given, otherwise found
    from the residuals as estimator="wls" does. After the same samples it equals the batch estimate on rows that
    are not filtered.

    forgetting: lambda in (0, 1]; about 1 / (1 - lambda) samples are remembered. prior: an earlier result, or
    values with standard deviations by name; it is not forgotten. friction: blocks without a memory.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        friction: Sequence[str] = PLAIN,
        rotor_inertia: bool = True,
        forgetting: float = 1.0,
        noise: float | Sequence[float] | Array | None = None,
        prior: Identification | Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        blocks = _check_arguments(robot, friction, forgetting)
        equation = Equation.for_robot(
            robot, Options(rotor_inertia=rotor_inertia), friction=blocks, scale=joint_scales(robot)
        )
        unknowns = Unknowns.for_equation(equation, blocks, 1)
        kept, _ = structurally_independent_columns(equation, unknowns)
        self.robot, self.friction, self.forgetting, self._equation = robot, blocks, forgetting, equation
        self._unknowns = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in kept])
        self._check_noise = _check_noise(robot, noise)
        self._prior = _prior_rows(self.names, prior)
        self._solution: Solution | None = None
        self._root = float(np.sqrt(forgetting))
        self._allocate_memory(equation)
        self.reset()

    def _allocate_memory(self, equation: Equation) -> None:
        """Allocate all memory that an update works on."""
        robot, n = self.robot, self.robot.n
        columns = standard_columns(robot, rotor_inertia=equation.base.question.rotor_inertia)
        stage, p = Stage.for_robot(robot, columns), len(columns)
        codes = [CODES[name] for name in self.friction]
        self._places, picks = [], []
        for channel in equation.channels:
            place = self._unknowns.place[0, channel.columns]
            entries = [channel.joint * p + equation.base.kept[k] for k in channel.columns[: channel.base]]
            entries += [-1 - code for code in codes]
            picks.append(np.array(entries, dtype=np.int64)[place >= 0])
            self._places.append(place >= 0)
        sizes = np.array([len(pick) + 1 for pick in picks])
        self._corner = np.concatenate([[0], np.cumsum(sizes**2)]).astype(np.int64)
        start = np.concatenate([[0], np.cumsum(sizes - 1)]).astype(np.int64)
        self._q, self._v, self._a, self._tau = (np.zeros((1, n)) for _ in range(4))
        self._R, self._sums = np.zeros(self._corner[-1]), np.zeros(n + 1)
        links = len(stage.geometry.parent)
        factors = Factors(
            p, stage.column, stage.rotor, motion_of_resting_base(robot), joint_scales(robot), start,
            np.concatenate(picks),
            self._corner, self._root, np.empty(links * LINK), np.empty(links * n * SPATIAL), np.zeros(n * p),
            np.empty(sizes.max()), self._R, self._sums,
        )  # fmt: skip
        self._memory = (*stage.geometry, *factors)

    def reset(self) -> None:
        """Forget all samples."""
        self._R[:], self._sums[:] = 0.0, 0.0
        self.count, self._solution = 0, None

    def update(self, q: Array, v: Array, a: Array, tau: Array) -> None:
        """Add one sample: positions, velocities, accelerations and torques, (n,) each."""
        n = self.robot.n
        if not len(q) == len(v) == len(a) == len(tau) == n:
            raise IdentificationError("sample_incomplete", "a sample needs q, v, a and tau of {n} joints", n=n)
        self._q[0], self._v[0], self._a[0], self._tau[0] = q, v, a, tau
        self._feed_samples(self._q, self._v, self._a, self._tau)

    def update_many(self, q: Array, v: Array, a: Array, tau: Array) -> None:
        """Add samples in order, (N, n) each."""
        q, v, a, tau = (np.ascontiguousarray(x, dtype=np.float64) for x in (q, v, a, tau))
        if not q.shape == v.shape == a.shape == tau.shape == (len(q), self.robot.n):
            raise IdentificationError(
                "wrong_shape", "samples of {n} joints disagree: q {q!s}, v {v!s}, a {a!s}, tau {tau!s}",
                n=self.robot.n, q=q.shape, v=v.shape, a=a.shape, tau=tau.shape,
            )  # fmt: skip
        self._feed_samples(q, v, a, tau)

    def _feed_samples(self, q: Array, v: Array, a: Array, tau: Array) -> None:
        """Feed checked samples to the factors, torques of declared rotors taken off."""
        if self._equation.sensor.spinning_rotors and np.isfinite([q, v, a]).all():  # else the kernel says which is not
            rotors = self._equation.known_torques(Motion(np.arange(float(len(q))), q, v, a))
            tau = tau if rotors is None else tau - rotors
        taken = feed_samples(q, v, a, tau, *self._memory)
        self.count += taken
        self._solution = None
        if taken < len(q):
            raise IdentificationError(
                "sample_not_finite", "sample {sample} is not finite; the samples before it were taken, it was not:",
                "leave it out", sample=self.count,
            )  # fmt: skip

    @property
    def names(self) -> tuple[Parameter, ...]:
        """Names of the parameters: base parameters and friction."""
        return self._unknowns.names

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""
        return self._unknowns.units

    @property
    def values(self) -> Array:
        """Current values, 0 where the samples do not tell yet."""
        return self.solve().values

    @property
    def sigma(self) -> Array:
        """Standard deviations as of white residuals, infinite where the samples do not tell yet."""
        solution = self.solve()
        sigma = np.full(len(self.names), np.inf)
        kept = slice(None) if solution.regrouping is None else list(solution.regrouping.kept)
        sigma[kept] = np.sqrt(np.diag(solution.covariance))[kept]
        return sigma

    @property
    def factors(self) -> tuple[ChannelFactor, ...]:
        """Triangular factor [R | z] of every channel, on the columns that it can see; count: samples remembered."""
        remembered = round(float(self._sums[-1]))
        factors = []
        for c, (at, stop) in enumerate(zip(self._corner[:-1], self._corner[1:], strict=True)):
            size = round((stop - at) ** 0.5)
            R = self._R[at:stop].reshape(size, size)
            wide = np.zeros((size, len(self._places[c]) + 1))
            wide[:, [*np.flatnonzero(self._places[c]), -1]] = R
            factors.append(ChannelFactor(wide, remembered, float(self._sums[c])))
        return tuple(factors)

    def solve(self) -> Solution:
        """Solve for the parameters; the result is kept until the next sample."""
        if self._solution is None:
            self._solution = solve(self._unknowns, {0: self.factors}, prior=self._prior, noise=self._check_noise)
        return self._solution


def _check_arguments(robot: Robot, friction: Sequence[str], forgetting: float) -> tuple[str, ...]:
    """Friction blocks as a tuple; raise for robots, blocks and forgetting factors that do not work here."""
    if robot.floating or robot.closures or robot.couplings:
        what = "floats" if robot.floating else "has closed loops or coupled joints"
        raise IdentificationError(
            "needs_open_fixed_robot", "'{robot}' {what}; sample by sample goes on open robots with a fixed base",
            robot=robot.name, what=what,
        )  # fmt: skip
    if robot.columns:
        raise IdentificationError(
            "columns_not_sequential", "'{robot}' has columns of its own ({column}):", "use identify", robot=robot.name,
            column=robot.columns[0].name,
        )  # fmt: skip
    blocks = (friction,) if isinstance(friction, str) else tuple(friction)
    for name in blocks:
        find_friction_block(name)
        if name not in CODES:
            raise IdentificationError(
                "friction_block_not_sequential", "friction block '{block}' needs more than one sample; sample by "
                "sample there are {blocks}", block=name, blocks=list(CODES),
            )  # fmt: skip
    if len(set(blocks)) < len(blocks):
        raise IdentificationError(
            "friction_block_twice", "a friction block is named twice: {blocks}", blocks=list(blocks),
        )  # fmt: skip
    if not 0.0 < forgetting <= 1.0:
        raise IdentificationError(
            "forgetting_out_of_range", "forgetting must lie above 0 and not above 1, got {forgetting}",
            forgetting=forgetting,
        )  # fmt: skip
    return blocks


def _check_noise(robot: Robot, noise: float | Sequence[float] | Array | None) -> Array | None:
    """Noise (n,) of the torques from one number or one per joint; None where it is not given."""
    if noise is None:
        return None
    values = np.asarray(noise, dtype=np.float64)
    if values.shape not in ((), (robot.n,)) or not (np.isfinite(values) & (values > 0.0)).all():
        raise IdentificationError(
            "invalid_noise", "noise must be one positive number or {n} of them, got {noise!r}", n=robot.n, noise=noise,
        )  # fmt: skip
    return np.broadcast_to(values, (robot.n,)).copy()


def _prior_rows(
    names: tuple[Parameter, ...], prior: Identification | Mapping[str, tuple[float, float]] | None
) -> tuple[Array, Array] | None:
    """Rows A x = A x0 of a prior with information A'A.

    Of a result these are its factors over its noise, whose textbook deviations are widened to the result's own.
    """
    if prior is None:
        return None
    known = prior.names if isinstance(prior, Identification) else tuple(prior)
    unknown = [name for name in known if name not in names]
    if unknown:
        raise IdentificationError(
            "unknown_parameter", "the prior speaks of '{parameter}'; parameters are {parameters}",
            parameter=unknown[0], parameters=list(names),
        )  # fmt: skip
    if isinstance(prior, Identification):
        values = prior.values
        parts = [f.R[:, :-1] / s for of_log in prior.factors for f, s in zip(of_log, prior.noise, strict=True)]
        A: Array = np.asarray(np.linalg.qr(np.concatenate(parts))[1]) * (prior.white_sigma / prior.sigma)
    else:
        values, sigma = (np.array([prior[name][k] for name in known], dtype=np.float64) for k in (0, 1))
        if not (sigma > 0.0).all():
            raise IdentificationError("prior_deviations_not_positive", "the prior's deviations must be positive")
        A = np.diag(1.0 / sigma)
    rows = np.zeros((len(A), len(names)))
    rows[:, [names.index(name) for name in known]] = A
    return rows, np.asarray(A @ values)
