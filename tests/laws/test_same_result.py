"""The same result (to 1e-10) whatever the units, threads, processes, chunks, order of logs and BLAS."""

from __future__ import annotations

import multiprocessing
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info

from dynid import Identification, Log, Robot, identify, load_robot, regressor
from dynid.dynamics.kernels import threads
from dynid.estimation.accumulate.logs import collect_logs
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.diagnostics import refit, residuals
from dynid.estimation.inference import cross_validation
from dynid.estimation.inference.jackknife import ChannelWhitening
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve import least_squares
from dynid.logs import filtering
from dynid.logs.log import Samples
from fourier import fourier_motion
from log_makers import log_of as chunked

TABLE = """gravity = [0.0, 0.0, {g}]
[[joint]]
[[joint]]
alpha = 1.5707963267948966
d = {d}
[[joint]]
d = {e}
"""
BODIES = ((3.0, (0.01, 0.02, -0.03), (0.05, 0.06, 0.04)), (2.0, (0.15, 0.01, 0.02), (0.01, 0.05, 0.05)),
          (1.0, (0.1, -0.02, 0.01), (0.004, 0.02, 0.02)))  # fmt: skip


def _arm(folder: Path, mass: float = 1.0, length: float = 1.0) -> Robot:
    """An arm of three joints in units of 1 kg / mass and 1 m / length."""
    text = TABLE.format(g=-9.81 * length, d=0.1 * length, e=0.3 * length)
    for k, (m, com, inertia) in enumerate(BODIES, start=1):
        xx, yy, zz = (mass * length**2 * x for x in inertia)
        where = [length * x for x in com]
        text += f'[link."{k}"]\nmass = {mass * m}\ncom = {where}\ninertia = [{xx}, 0.0, 0.0, {yy}, 0.0, {zz}]\n'
    (folder / "arm.toml").write_text(text)
    return load_robot(folder / "arm.toml")


def _log(robot: Robot, energy: float = 1.0, seed: int = 0) -> Log:
    """A recording with friction and noise; energy: units of torque in 1 N m."""
    motion = fourier_motion(robot, duration=15.0, seed=seed)
    tau = (regressor(robot, motion).matrix @ np.nan_to_num(robot.parameters)).reshape(motion.q.shape)
    noise = 0.05 * np.random.default_rng(seed).standard_normal(tau.shape)
    return Log(motion.t, motion.q, tau=tau + energy * (noise + 0.3 * motion.v + 0.2 * np.sign(motion.v)))


def _assert_same(one: Identification, other: Identification, scale: np.ndarray | float = 1.0) -> None:
    assert one.verdict.level == other.verdict.level
    assert one.names == other.names
    assert_allclose(other.values, one.values * scale, rtol=1e-10, atol=1e-10 * np.abs(one.values * scale).max())
    assert_allclose(other.sigma, one.sigma * scale, rtol=1e-9)


@pytest.mark.parametrize(("mass", "length"), [(1000.0, 1000.0), (1.0, 100.0)])
def test_a_robot_in_other_units(mass: float, length: float, tmp_path: Path) -> None:
    """Millimetres and grams: before, the verdict was another, as condition numbers depend on the unit of length."""
    meant = identify(_arm(tmp_path), _log(_arm(tmp_path)))
    robot = _arm(tmp_path, mass, length)
    found = identify(robot, _log(robot, mass * length**2))
    powers = np.array([{"kg m": 1.0, "kg": 0.0}.get(name.unit, 2.0) for name in meant.names])
    _assert_same(meant, found, mass * length**powers)
    assert_allclose(found.base_condition, meant.base_condition, rtol=1e-9)


def test_order_of_logs_threads_and_chunks(tmp_path: Path) -> None:
    robot = _arm(tmp_path)
    logs = [_log(robot, seed=seed) for seed in range(3)]
    meant = identify(robot, logs, validate=_log(robot, seed=9))
    _assert_same(meant, identify(robot, logs[::-1], validate=_log(robot, seed=9)))
    before = threads.thread_count()
    try:
        threads.use_threads(3)
        _assert_same(meant, identify(robot, logs, validate=_log(robot, seed=9)))
    finally:
        threads.use_threads(before)
    pieces = [chunked(Samples(log.t, log.q, tau=log.tau), 333) for log in logs]
    _assert_same(meant, identify(robot, pieces, validate=_log(robot, seed=9)))


def _arm_and_logs(folder: Path) -> tuple[Robot, list[Log]]:
    robot = _arm(folder)
    return robot, [_log(robot, seed=seed) for seed in range(2)]


def _save_result(folder: Path, name: str, estimator: str = "wls") -> Identification:
    """Identify the arm in this process and save the result."""
    robot, logs = _arm_and_logs(folder)
    found = identify(robot, logs, estimator=estimator)
    found.save(folder / f"{name}.json")
    return Identification.load(folder / f"{name}.json")


def _assert_same_in_all(one: Identification, other: Identification) -> None:
    _assert_same(one, other)
    assert [x.code for x in other.verdict.reasons] == [x.code for x in one.verdict.reasons]
    assert other.cutoff == one.cutoff
    assert other.essential == one.essential
    assert_allclose(other.base_condition, one.base_condition, rtol=1e-10)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
def test_forks_of_a_process_that_has_worked(tmp_path: Path) -> None:
    """Four at once, after work with threads here: the bits of this process."""
    before = threads.thread_count()
    try:
        threads.use_threads(2)
        meant = _save_result(tmp_path, "here")
    finally:
        threads.use_threads(before)
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_save_result, args=(tmp_path, str(k))) for k in range(4)]
    for child in children:
        child.start()
    for k, child in enumerate(children):
        child.join(200)
        assert child.exitcode == 0
        _assert_same_in_all(meant, Identification.load(tmp_path / f"{k}.json"))


NEEDED = {"Sandybridge": "avx", "Haswell": "avx2", "Zen": "avx2", "SkylakeX": "avx512f"}
IN_A_PROCESS = """
import sys
from pathlib import Path
from threadpoolctl import threadpool_info
import numpy, scipy.linalg
from laws.test_same_result import _save_result
for estimator in sys.argv[2:]:
    _save_result(Path(sys.argv[1]), "there_" + estimator, estimator)
print(*sorted({x.get("architecture") for x in threadpool_info() if x["user_api"] == "blas"}))
"""


@pytest.mark.parametrize(
    "core",
    [
        "Prescott",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")),
    ],
)
def test_other_processes_and_the_blas_of_other_machines(core: str, tmp_path: Path) -> None:
    """OpenBLAS with the kernels of other processors, sets in another order, another number of threads."""
    cpu = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpu.exists() or NEEDED.get(core, "fpu") not in cpu.read_text().split():
        pytest.skip(f"this processor cannot run the kernels for {core}")
    if "openblas" not in {x["internal_api"] for x in threadpool_info()}:
        pytest.skip("NumPy has another BLAS than OpenBLAS")
    estimators = ("wls", "huber", "ridge") if core != "Prescott" else ("wls",)
    meant = {name: _save_result(tmp_path, name, name) for name in estimators}
    paths = os.pathsep.join(path for path in [str(Path(__file__).parents[1]), *sys.path] if path)
    other = {"OPENBLAS_CORETYPE": core, "PYTHONHASHSEED": "7", "OPENBLAS_NUM_THREADS": "2", "DYNID_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, str(tmp_path), *estimators], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": paths, **other}, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if core == "Prescott":
        assert done.stdout.split() not in (["Haswell"], ["SkylakeX"], ["Zen"]), "the variable has no effect"
    for name, result in meant.items():
        _assert_same_in_all(result, Identification.load(tmp_path / f"there_{name}.json"))


def test_many_unknowns_are_solved_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triangles merged channel by channel and what single channels show eliminated first: as by all rows together."""
    robot = _arm(tmp_path)
    logs = [_log(robot, seed=seed) for seed in range(2)]
    meant = identify(robot, logs)
    for module in (least_squares, cross_validation, residuals):
        monkeypatch.setattr(module, "MANY", 8)
    monkeypatch.setattr(refit, "FEW_COLUMNS", 4)
    monkeypatch.setattr(filtering, "MOST_EXTENDED", 7)
    found = identify(robot, logs)
    _assert_same(meant, found)
    assert [(x.block, x.admitted) for x in found.trials] == [(x.block, x.admitted) for x in meant.trials]
    assert_allclose([x.error for x in found.trials], [x.error for x in meant.trials], rtol=1e-7)
    assert_allclose(found.validation.nrmse, meant.validation.nrmse, rtol=1e-7)
    assert found.essential == meant.essential


def _limbs(count: int) -> Robot:
    """Arms of three joints each on one base."""
    rows: list[dict[str, float]] = []
    for limb in range(count):
        rows += [{"parent": 0, "gamma": 1.0 + limb, "alpha": 1.5}, {"alpha": 1.0, "d": 0.2}, {"d": 0.3, "r": 0.1}]
    robot = Robot.from_mdh(rows)
    return robot.with_parameters(np.tile([0.1, 0.01, 0.0, 0.1, 0.0, 0.1, 0.1, 0.05, 0.0, 2.0, 0.1], 3 * count))


def test_work_on_separate_limbs_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of the jackknife hold what a channel shows, not all unknowns: twice the limbs, twice the entries."""
    monkeypatch.setattr(least_squares, "MANY", 8)
    entries = []
    for count in (2, 4):
        robot = _limbs(count)
        state = collect_logs(robot, [_log(robot)], Options(friction=("viscous", "offset")).resolve_for_robot(robot))
        unknowns = Unknowns.for_equation(state.equation, state.equation.friction, 1)
        solution = least_squares.solve(unknowns, total_factors(state.blocks))
        channels = ChannelWhitening(unknowns, solution)
        shown = [channels.of_channel(0, c)[0] for c in range(robot.n)]
        products = _permuted(solution)
        assert solution.merged is not None
        assert_allclose(solution.merged[0].T @ solution.merged[0], products, rtol=0, atol=1e-12 * products.max())
        entries.append(sum(np.count_nonzero(x) for x in shown))
    assert entries[1] <= 2.2 * entries[0]


def _permuted(solution: least_squares.Solution) -> np.ndarray:
    """Products R'R of a solution, unknowns in the order of its merged triangle."""
    assert solution.merged is not None
    order = np.argsort(solution.merged[1])
    return np.asarray((solution.R.T @ solution.R)[np.ix_(order, order)])
