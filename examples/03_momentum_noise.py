"""Momentum or torque, batch or recursion: how noise reaches the SCARA of Ha, Ko & Kwon, by Monte Carlo.

Positions with noise of 1e-4 rad (m) and torques with 2 % of each joint's RMS torque are recorded at 500 Hz along the
motion on which the paper's example was recalculated; velocities are not measured. The six model parameters are then
found from the paper's three intervals (batch, eq. 2.25, and recursion, eq. 2.28), from many overlapping windows
(unweighted batch, recursion, one weight per joint), and from the differential form, the torques themselves, at several
cut-offs and by central differences without a filter.

    python examples/03_momentum_noise.py [--quick] [--runs 200] [--seed 0] [--picture momentum_noise.svg]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid import Identification, Log, Motion, Robot, collect_state, identify_states, load_robot, regressor, simulate
from dynid.logs.filtering import Lowpass

Array = NDArray[np.float64]

NAMES = ("X11", "X21", "X22", "X23", "X31", "X41")
X = np.array([17.55, 7.55, 2.343, 0.176, 3.11, 0.35])
"""The paper's model parameters, kg m^2, and kg for X31."""

SIZE = np.array([[1.1, -0.4], [0.8, 0.5], [0.09, -0.05], [1.3, -0.6]])
OMEGA = np.array([[1.7, 4.3], [2.3, 5.1], [2.9, 6.1], [3.1, 5.7]])
PHASE = np.array([[0.3, 1.1], [-0.7, 0.4], [0.9, -0.2], [1.7, 0.6]])
RATE, START, STOP = 500.0, -0.5, 4.5
"""Recorded from half a second before to half a second after the 4 s, so that no interval touches a filter's edge."""

POSITION_NOISE, TORQUE_NOISE = 1e-4, 0.02

SETS = (
    ((0.0, 0.5), (0.5, 1.0), (1.0, 1.5)),
    ((1.0, 1.5), (1.5, 2.0), (2.5, 3.0)),
    ((2.5, 3.0), (3.0, 3.5), (3.5, 4.0)),
)
"""Three times three intervals, s."""

BASE = ("ZZ1", "ZZ2", "MX2", "MY2", "M3", "ZZ4")
FROM_BASE = np.array([
    [1.0, 1.0, 0.0, 0.0, 0.41, 1.0],
    [0.0, 1.0, 0.0, 0.0, 0.25, 1.0],
    [0.0, 0.0, 0.4, 0.0, 0.20, 0.0],
    [0.0, 0.0, 0.0, 0.4, 0.00, 0.0],
    [0.0, 0.0, 0.0, 0.0, 1.00, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.00, 1.0],
])  # fmt: skip
"""X from base parameters, with links of 0.4 and 0.5 m."""

OWN = ((0,), (1, 2, 3), (4,), (5,))
"""Which of X belong to which joint."""

VELOCITY_CUTOFF = 20.0
"""Of the filter that derives velocities for the three intervals, Hz."""

CUTOFFS = (5.0, 10.0, 20.0, 30.0, 40.0)
ESTIMATORS = {"ols": "no weights", "recursive": "recursion", "wls": "weights per joint"}


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Relative errors (runs, 6) of every way, and the median of the chosen cut-offs and windows."""

    errors: dict[str, Array]
    cutoff: float
    window: float

    def rms(self, way: str) -> Array:
        """Relative RMS errors (6,)."""
        return np.asarray(np.sqrt((self.errors[way] ** 2).mean(axis=0)))

    def ratio(self, way: str, other: str) -> tuple[Array, Array]:
        """RMS errors of a way over those of another (6,), and the standard errors of these ratios.

        Both see the same noise, so what they have in common cancels: delta method on pairs of squares.
        """
        a, b = self.rms(way), self.rms(other)
        spread = ((self.errors[way] / a) ** 2 - (self.errors[other] / b) ** 2).std(axis=0)
        return a / b, 0.5 * a / b * spread / np.sqrt(len(self.errors[way]))


def study(*, runs: int = 200, seed: int = 0, cutoffs: tuple[float, ...] = CUTOFFS) -> Study:
    """Identify in all ways, again and again with other noise."""
    robot, motion = load_robot("scara"), scara_motion()
    tau = simulate(robot, motion).tau
    assert tau is not None
    found: dict[str, list[Array]] = {}
    chosen = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        q = motion.q + POSITION_NOISE * rng.standard_normal(motion.q.shape)
        noise = TORQUE_NOISE * np.sqrt((tau**2).mean(axis=0)) * rng.standard_normal(tau.shape)
        log = Log(motion.t, q, tau=tau + noise)
        values = by_three_intervals(robot, *filtered(log)) | {
            "torque, central differences": by_central_differences(robot, log)
        }
        for cutoff in (None, *cutoffs):
            some, result = by_identification(robot, log, cutoff)
            values |= some
            if cutoff is None:
                chosen.append((result.cutoff, result.equation.options.window))
        for way, x in values.items():
            found.setdefault(way, []).append(x / X - 1.0)
    cutoff, window = np.median(np.array(chosen, dtype=np.float64), axis=0)
    return Study({way: np.array(errors) for way, errors in found.items()}, float(cutoff), float(window))


def scara_motion() -> Motion:
    """Two sines per joint."""
    t = np.arange(round((STOP - START) * RATE) + 1) / RATE + START
    x = OMEGA * t[:, None, None] + PHASE
    q, v, a = SIZE * np.sin(x), SIZE * OMEGA * np.cos(x), -SIZE * OMEGA**2 * np.sin(x)
    return Motion(t, q.sum(axis=2), v.sum(axis=2), a.sum(axis=2))


def by_identification(robot: Robot, log: Log, cutoff: float | None) -> tuple[dict[str, Array], Identification]:
    """Momentum (with all estimators where the cut-off is chosen from the data) and torque; the last momentum result."""
    where = "chosen" if cutoff is None else f"{cutoff:g} Hz"
    values = {}
    for model in ("torque", "momentum"):
        state = collect_state(robot, log, model=model, cutoff=cutoff, friction=(), rotor_inertia=False)
        for estimator in ESTIMATORS if (model, cutoff) == ("momentum", None) else ("wls",):
            result = identify_states(state, estimator=estimator, intervals="white")
            values[f"{model}, {estimator}, {where}"] = FROM_BASE @ [result.value(name) for name in BASE]
    return values, result


def rows(robot: Robot, motion: Motion, model: str) -> Array:
    """Rows (N, 4, 6) of a model in the paper's parameters."""
    found = regressor(robot, motion, model=model, rotor_inertia=False)
    kept = [found.columns.index(name) for name in BASE]
    return np.asarray(found.matrix.reshape(len(motion), robot.n, -1)[:, :, kept] @ np.linalg.inv(FROM_BASE))


def filtered(log: Log) -> tuple[Motion, Array]:
    """Positions and velocities through the package's filter, and the torques of the same instants as they are."""
    assert log.tau is not None
    filter_ = Lowpass(VELOCITY_CUTOFF, RATE, 1e-8)
    inside = slice(filter_.half_length, len(log.t) - filter_.half_length)
    q, v = filter_.smooth(log.q), filter_.differentiate(log.q)
    return Motion(log.t[inside], q, v, np.zeros_like(q)), log.tau[inside]


def by_three_intervals(robot: Robot, motion: Motion, tau: Array) -> dict[str, Array]:
    """The paper's algorithms: impulses over three intervals by trapezoids at the full rate."""
    momentum, slope = rows(robot, motion, "momentum"), rows(robot, motion, "lagrangian_gradient")
    values = {}
    for number, intervals in enumerate(SETS, start=1):
        W, Y = [], []
        for begin, end in intervals:
            i, j = np.searchsorted(motion.t, [begin - 1e-9, end - 1e-9])
            W.append(momentum[j] - momentum[i] - np.trapezoid(slope[i : j + 1], dx=1.0 / RATE, axis=0))
            Y.append(np.trapezoid(tau[i : j + 1], dx=1.0 / RATE, axis=0))
        values[f"set {number}, batch"] = np.linalg.lstsq(np.concatenate(W), np.concatenate(Y))[0]
        values[f"set {number}, recursion"] = recursion(np.array(W), np.array(Y))
    return values


def recursion(W: Array, Y: Array) -> Array:
    """Eq. 2.28 on rows W (intervals, 4, 6), Y (intervals, 4): joint 4, then 3, 2, 1."""
    x = np.zeros(len(X))
    for j in reversed(range(len(OWN))):
        left = Y[:, j] - W[:, j] @ x
        x[list(OWN[j])] = np.linalg.lstsq(W[:, j, list(OWN[j])], left)[0]
    return x


def by_central_differences(robot: Robot, log: Log) -> Array:
    """Torques with v and a by central differences, no filter anywhere; one weight per joint."""
    assert log.tau is not None
    q = log.q
    v, a = 0.5 * RATE * (q[2:] - q[:-2]), RATE**2 * (q[2:] - 2.0 * q[1:-1] + q[:-2])
    W, Y = rows(robot, Motion(log.t[1:-1], q[1:-1], v, a), "torque"), log.tau[1:-1]
    noise = np.ones(robot.n)
    for _ in range(5):
        x = np.linalg.lstsq((W / noise[:, None]).reshape(-1, len(X)), (Y / noise).ravel())[0]
        noise = (Y - W @ x).std(axis=0)
    return np.asarray(x)


def table(found: Study) -> str:
    """RMS errors of all ways in percent, and the two comparisons."""
    runs = len(next(iter(found.errors.values())))
    lines = [
        f"Relative RMS errors in percent over {runs} draws: {POSITION_NOISE:g} rad on positions, "
        f"{100 * TORQUE_NOISE:g} % on torques, {RATE:g} Hz",
        f"chosen: cut-off {found.cutoff:.3g} Hz, windows of {found.window:.2g} s",
        "",
        f"{'way':<30}" + "".join(f"{name:>9}" for name in (*NAMES, "median")),
    ]
    for way in found.errors:
        figures = 100.0 * found.rms(way)
        lines.append(f"{way:<30}" + "".join(f"{x:9.3g}" for x in (*figures, np.median(figures))))
    lines += ["", "Differential over integral form, both weighted, at the same cut-off: ratio of errors"]
    for where in places(found):
        ratio, _ = found.ratio(f"torque, wls, {where}", f"momentum, wls, {where}")
        lines.append(f"{where:<30}" + "".join(f"{x:9.3g}" for x in (*ratio, np.median(ratio))))
    lines += ["", "Weights per joint over other algorithms on the same windows: ratio of errors +- standard error"]
    for other in ("ols", "recursive"):
        ratio, error = found.ratio("momentum, wls, chosen", f"momentum, {other}, chosen")
        pairs = (f"{r:.3f} +- {e:.3f}" for r, e in zip(ratio, error, strict=True))
        lines.append(f"{ESTIMATORS[other]:<15}" + ", ".join(pairs))
    return "\n".join(lines)


def places(found: Study) -> list[str]:
    """Cut-offs at which both forms were tried."""
    return [way.rpartition(", ")[2] for way in found.errors if way.startswith("torque, wls")]


COLOURS = {"set": "#777777", "momentum": "#0a62a8", "torque": "#c8500a"}
WIDTH, LEFT, RIGHT, TOP, LINE = 760, 220, 70, 58, 21


def picture(found: Study) -> str:
    """Median error over the six parameters of every way, with a line from the smallest to the largest, as SVG."""
    figures = {way: 100.0 * found.rms(way) for way in found.errors}
    low = np.floor(np.log10(min(x.min() for x in figures.values())))
    high = np.ceil(np.log10(max(x.max() for x in figures.values())))
    bottom = TOP + LINE * len(figures) + 6

    def across(x: float) -> float:
        return float(LEFT + (np.log10(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT))

    def text(x: float, y: float, words: str, more: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:g}" {more}>{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 46}" font-family="sans-serif" '
        'font-size="12" fill="#222222" role="img">',
        "<title>Errors of the SCARA's model parameters by way of identification</title>",
        f'<rect width="{WIDTH}" height="{bottom + 46}" fill="#ffffff"/>',
        text(16, 24, "Error of the six model parameters of the SCARA", 'font-size="15" font-weight="bold"'),
        text(16, 42, "RMS: median, smallest and largest of the six; left is better", 'fill="#555555"'),
        text(0.5 * (LEFT + WIDTH - RIGHT), bottom + 38, "relative error, percent", 'text-anchor="middle"'),
    ]
    for x in 10.0 ** np.arange(low, high + 1.0):
        parts.append(f'<path d="M{across(x):.1f} {TOP} V{bottom}" stroke="#e2e2e2"/>')
        parts.append(text(across(x), bottom + 17, f"{x:g}", 'text-anchor="middle"'))
    for k, (way, errors) in enumerate(figures.items()):
        y, colour = TOP + LINE * (k + 0.6), next(c for word, c in COLOURS.items() if way.startswith(word))
        middle = float(np.median(errors))
        parts += [
            text(LEFT - 12, y + 4, way, f'text-anchor="end" fill="{colour}"'),
            f'<path d="M{across(errors.min()):.1f} {y:g} H{across(errors.max()):.1f}" stroke="{colour}" '
            'stroke-width="2"/>',
            f'<circle cx="{across(middle):.1f}" cy="{y:g}" r="5" fill="{colour}"/>',
            text(across(errors.max()) + 8, y + 4, f"{middle:.2g} %", f'fill="{colour}"'),
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Run the study, print its table, and draw it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few draws only")
    parser.add_argument("--runs", type=int, default=200, help="draws of noise")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--picture", type=Path, metavar="PATH", help="write an SVG picture")
    asked = parser.parse_args()
    found = study(runs=5 if asked.quick else asked.runs, seed=asked.seed)
    print(table(found))
    if asked.picture is not None:
        asked.picture.write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
