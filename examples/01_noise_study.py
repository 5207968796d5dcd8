"""Which motion gives the smallest parameter errors? The noise study of Gautier & Khalil 1992, Tables 3 to 12, redone.

Random points, points with the smallest condition number and A-optimal points (smallest trace of the covariance) of the
paper's robot are compared by Monte Carlo: with noise of fixed deviation on the energies and on the joint sensors, and
with the paper's noise, which grows with the largest energy of the motion.

    python examples/01_noise_study.py [--quick] [--seed 0] [--picture noise_study.svg]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynid import BaseParameters, Motion, base_parameters, design_excitation, load_robot, regressor

Array = NDArray[np.float64]

REACH, SPEED = np.pi / 2, 0.7
"""Limits of every joint, rad and rad/s: those that reproduce the random columns of the paper's Table 2."""

ENERGY_NOISE = 0.01
"""Deviation of each measured energy difference, J: what the deviations in Table 6 amount to."""

K_ENERGY, K_JOINTS = 0.01, 0.001
"""The paper's k: energies get k/4 max|Y|, positions k/4 of their range, velocities k/4 of their limit."""

POSITION_NOISE, VELOCITY_NOISE = K_JOINTS / 4 * 2 * REACH, K_JOINTS / 4 * SPEED

KINDS = ("random", "condition", "a")
LABELS = {"random": "random", "condition": "condition-optimal", "a": "A-optimal"}
NOISES = {
    "energy": f"fixed noise, {ENERGY_NOISE:g} J on energies",
    "joints": f"fixed noise, {1e3 * POSITION_NOISE:.2f} mrad and {1e3 * VELOCITY_NOISE:.3f} mrad/s on joints",
    "both": "both fixed noises",
    "scaled": f"the paper's noise, {K_ENERGY / 4:g} max|Y| on energies",
}


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors |dX| / |X| over all draws: mean, root mean square, 5th and 95th percentile."""

    mean: float
    rms: float
    low: float
    high: float

    @staticmethod
    def of(found: Array, X: Array) -> Errors:
        """Errors of the estimates found (draws, b) of the true X (b,)."""
        size = np.linalg.norm(found - X, axis=1) / np.linalg.norm(X)
        low, high = np.percentile(size, [5.0, 95.0])
        return Errors(float(size.mean()), float(np.sqrt((size**2).mean())), float(low), float(high))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a kind of motion with so many rows leads to.

    largest: max|Y| in J; expected: relative error after the covariance, fixed energy noise; starts: the same for
    every start, of which the best by its own criterion was taken; deviations (b,): those of the parameters.
    """

    kind: str
    rows: int
    condition: float
    largest: float
    expected: float
    starts: tuple[float, ...]
    deviations: Array
    errors: dict[str, Errors]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All outcomes, and the base parameters that were to be found: names and values X (b,)."""

    names: tuple[str, ...]
    X: Array
    outcomes: tuple[Outcome, ...]

    def outcome(self, kind: str, rows: int) -> Outcome:
        """Return the outcome of a kind of motion with so many rows."""
        return next(o for o in self.outcomes if (o.kind, o.rows) == (kind, rows))

    def ratio(self, rows: int, noise: str = "energy") -> float:
        """How many times smaller the mean error of the A-optimal motion is than that of the condition-optimal one."""
        condition, a = (self.outcome(kind, rows).errors[noise].mean for kind in ("condition", "a"))
        return condition / a


def study(*, rows: tuple[int, ...] = (30, 15), starts: int = 8, draws: int = 2000, seed: int = 0) -> Study:
    """Design the motions, each the best of the same number of starts, and identify with noise again and again."""
    base = base_parameters(load_robot("gautier3"), model="energy", rotor_inertia=False)
    X = base.values(base.robot.parameters)
    outcomes = []
    for r in rows:
        for kind in KINDS:
            found = [find_points(base, kind, r, seed * starts + k) for k in range(starts)]
            matrices = [energy_rows(base, points) for points in found]
            traces = [float(np.trace(np.linalg.inv(W.T @ W))) for W in matrices]
            merit = [float(np.linalg.cond(W)) for W in matrices] if kind == "condition" else traces
            best = int(np.argmin(merit))
            expected = tuple(ENERGY_NOISE * float(np.sqrt(trace) / np.linalg.norm(X)) for trace in traces)
            W = matrices[best]
            errors = simulate(base, found[best], X, draws, np.random.default_rng([seed, r]))
            deviations = ENERGY_NOISE * np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
            outcomes.append(
                Outcome(kind, r, float(np.linalg.cond(W)), float(np.abs(W @ X).max()), expected[best], expected,
                        deviations, errors)
            )  # fmt: skip
    return Study(base.names, X, tuple(outcomes))


def find_points(base: BaseParameters, kind: str, rows: int, seed: int) -> Motion:
    """Points (q, v), rows + 1 of them, inside the limits: random ones, or the optimum from one start."""
    n = base.robot.n
    if kind == "random":
        q, v = np.random.default_rng(seed).uniform(-1.0, 1.0, (2, rows + 1, n))
        return Motion(np.arange(rows + 1.0), REACH * q, SPEED * v, np.zeros_like(q))
    limits = {"position": [[-REACH, REACH]] * n, "velocity": [SPEED] * n}
    found = design_excitation(
        base.robot,
        shape="points",
        model="energy",
        criterion=kind,
        points=rows,
        limits=limits,
        starts=1,
        seed=seed,
        margin=0.0,
    )
    return found.shape.exciting_motion()


def energy_rows(base: BaseParameters, points: Motion) -> Array:
    """W (r, b): differences of energy between consecutive points, base columns only."""
    W = regressor(base.robot, points, model="energy", rotor_inertia=False).matrix
    return np.asarray(W[:, list(base.kept)])


def simulate(base: BaseParameters, points: Motion, X: Array, draws: int, rng: np.random.Generator) -> dict[str, Errors]:
    """Identify X by least squares, draws times for each kind of noise."""
    W = energy_rows(base, points)
    Y = W @ X
    noisy_W = disturbed_rows(base, points, draws, rng)
    white = rng.standard_normal((draws, len(Y)))
    fixed, scaled = (Y + sigma * white for sigma in (ENERGY_NOISE, K_ENERGY / 4 * np.abs(Y).max()))
    found = {
        "energy": np.linalg.lstsq(W, fixed.T)[0].T,
        "joints": solve_each(noisy_W, np.broadcast_to(Y, fixed.shape)),
        "both": solve_each(noisy_W, fixed),
        "scaled": np.linalg.lstsq(W, scaled.T)[0].T,
    }
    return {noise: Errors.of(np.asarray(estimates, dtype=np.float64), X) for noise, estimates in found.items()}


def disturbed_rows(base: BaseParameters, points: Motion, draws: int, rng: np.random.Generator) -> Array:
    """W (draws, r, b) as noisy joint sensors show it; the motion itself, and so Y, is undisturbed."""
    count, n = points.q.shape
    q, v = (
        (x + sigma * rng.standard_normal((draws, count, n))).reshape(-1, n)
        for x, sigma in ((points.q, POSITION_NOISE), (points.v, VELOCITY_NOISE))
    )
    W = energy_rows(base, Motion(np.arange(float(len(q))), q, v, np.zeros_like(q)))
    padded = np.vstack([W, np.zeros((1, W.shape[1]))])  # the last row of a draw would lead into the next one
    return padded.reshape(draws, count, -1)[:, :-1]


def solve_each(W: Array, Y: Array) -> Array:
    """Least squares solutions (draws, b) of W (draws, r, b), Y (draws, r)."""
    Q, R = np.linalg.qr(W)
    return np.asarray(np.linalg.solve(R, np.swapaxes(Q, 1, 2) @ Y[:, :, None])[:, :, 0])


def table(found: Study) -> str:
    """The outcomes as plain text; errors in percent."""
    lines = ["Relative errors |dX|/|X| of the base parameters, mean over all draws, in percent", ""]
    lines += [f"  {name:<9}{text}" for name, text in NOISES.items()]
    lines.append("  expected after the covariance with fixed noise on the energies, and its range over all starts")
    head = f"{'rows':>4}  {'motion':<18}{'cond':>6}{'max|Y|':>8}"
    head += "".join(f"{name:>9}" for name in ("energy", "expected", "joints", "both", "scaled")) + "  starts"
    lines += ["", head]
    for o in found.outcomes:
        e = {name: f"{100 * errors.mean:9.3g}" for name, errors in o.errors.items()}
        spread = f"{100 * min(o.starts):.3g} to {100 * max(o.starts):.3g}"
        lines.append(
            f"{o.rows:>4}  {LABELS[o.kind]:<18}{o.condition:6.0f}{o.largest:6.1f} J{e['energy']}"
            f"{100 * o.expected:9.3g}{e['joints']}{e['both']}{e['scaled']}  {spread}"
        )
    lines += ["", "A-optimal against condition-optimal, how many times smaller the error is"]
    for rows in dict.fromkeys(o.rows for o in found.outcomes):
        lines.append(f"{rows:>4}  " + ", ".join(f"{noise} {found.ratio(rows, noise):.2f}" for noise in NOISES))
    return "\n".join([*lines, "", deviation_table(found)])


def deviation_table(found: Study) -> str:
    """Standard deviations of the parameters as in Tables 6, 7, 11 and 12, kg m^2 and kg m."""
    head = "".join(f"{o.kind:>11}{o.rows:>3}" for o in found.outcomes)
    lines = [f"Standard deviations with {ENERGY_NOISE:g} J on the energies", f"{'':<5}{'X':>9}{head}"]
    for i, (name, x) in enumerate(zip(found.names, found.X, strict=True)):
        lines.append(f"{name:<5}{x:9.4f}" + "".join(f"{o.deviations[i]:14.4f}" for o in found.outcomes))
    return "\n".join(lines)


COLOURS = {"random": "#777777", "condition": "#c8500a", "a": "#0a62a8"}
HEADING = 'font-weight="bold" stroke="#ffffff" stroke-width="4" paint-order="stroke"'
DRAWN = ("energy", "joints", "scaled")
WIDTH, LEFT, RIGHT, TOP, LINE, GAP = 760, 150, 80, 58, 22, 30


def picture(found: Study) -> str:
    """Mean errors of the first number of rows on a logarithmic axis, with bars from the 5th to the 95th percentile."""
    outcomes = [o for o in found.outcomes if o.rows == found.outcomes[0].rows]
    errors = [o.errors[noise] for o in outcomes for noise in DRAWN]
    axis = Axis(float(np.log10(0.8 * min(e.low for e in errors))), float(np.log10(1.1 * max(e.high for e in errors))))
    bottom = TOP + len(DRAWN) * (GAP + LINE * len(outcomes)) + 4
    height = bottom + 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img">',
        "<title>Errors of random, condition-optimal and A-optimal motions</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        label(
            16, 24, f"Error of the base parameters, {outcomes[0].rows} rows", more='font-size="15" font-weight="bold"'
        ),
        label(16, 42, "mean and 5th to 95th percentile over the draws of noise; left is better", colour="#555555"),
        *axis.grid(bottom),
    ]
    y = float(TOP)
    for noise in DRAWN:
        y += GAP
        text = NOISES[noise]
        parts.append(label(16, y - 6, text[0].upper() + text[1:], more=HEADING))
        for o in outcomes:
            parts += bar(o, noise, axis, y + LINE / 2)
            y += LINE
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class Axis:
    """Logarithmic axis between two decimal logarithms of an error."""

    low: float
    high: float

    def across(self, error: float) -> float:
        """Where an error is drawn."""
        part = (np.log10(error) - self.low) / (self.high - self.low)
        return float(LEFT + part * (WIDTH - LEFT - RIGHT))

    def grid(self, bottom: float) -> list[str]:
        """Lines and numbers at 1, 2 and 5 of every decade."""
        decades = 10.0 ** np.arange(np.floor(self.low), np.ceil(self.high))
        parts = [
            label(0.5 * (LEFT + WIDTH - RIGHT), bottom + 38, "relative error |dX| / |X|, percent", anchor="middle")
        ]
        for error in (float(d * m) for d in decades for m in (1.0, 2.0, 5.0)):
            if self.low <= np.log10(error) <= self.high:
                x = self.across(error)
                parts.append(f'<path d="M{x:.1f} {TOP} V{bottom}" stroke="#e2e2e2"/>')
                parts.append(label(x, bottom + 17, f"{100 * error:g}", anchor="middle"))
        return parts


def bar(o: Outcome, noise: str, axis: Axis, y: float) -> list[str]:
    """One line of the picture: name, percentiles, mean and its value."""
    e, colour = o.errors[noise], COLOURS[o.kind]
    low, mean, high = (axis.across(value) for value in (e.low, e.mean, e.high))
    return [
        label(LEFT - 14, y + 4, LABELS[o.kind], colour=colour, anchor="end"),
        f'<path d="M{low:.1f} {y:g} H{high:.1f}" stroke="{colour}" stroke-width="2"/>',
        f'<circle cx="{mean:.1f}" cy="{y:g}" r="5" fill="{colour}"/>',
        label(high + 9, y + 4, f"{100 * e.mean:.2g} %", colour=colour),
    ]


def label(x: float, y: float, text: str, *, colour: str = "#222222", anchor: str = "start", more: str = "") -> str:
    """A line of text."""
    more = f" {more}" if more else ""
    return f'<text x="{x:.1f}" y="{y:g}" fill="{colour}" text-anchor="{anchor}"{more}>{text}</text>'


def main() -> None:
    """Run the study, print its table, and draw it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="30 rows only, one start, 200 draws")
    parser.add_argument("--seed", type=int, default=0, help="of starts and noise")
    parser.add_argument("--picture", type=Path, metavar="PATH", help="write an SVG picture")
    asked = parser.parse_args()
    found = study(rows=(30,), starts=1, draws=200, seed=asked.seed) if asked.quick else study(seed=asked.seed)
    print(table(found))
    if asked.picture is not None:
        asked.picture.write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
