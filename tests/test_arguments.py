"""No argument is ignored: changed, it changes the result, or it is refused where it would not.

Every keyword of every public function and method has a case here; a new one without a case fails. A seed is welcome
everywhere (`allowed`), and a default value is never refused.
"""

from __future__ import annotations

import atexit
import inspect
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynid
from dynid import ForceSensor, JointColumn, Log, Motion, Robot, Rotor
from dynid.dynamics.kernels.links import link_poses
from dynid.messages import Option
from dynid.robot.transform import Transform, rotation_about
from fourier import fourier_motion
from frictions import with_friction
from loads import LOAD, robot_with_friction, two_logs
from log_writers import bag_messages, write_bag
from logs.test_markers import markers_on, see
from plates import arm
from urdf_texts import URDF

PLAIN = ("viscous", "coulomb", "offset")
BY_HAND = ("FilePart", "ForceSensor", "JointColumn", "Log", "Motion", "Rotor", "Sequential", "Wiring")
"""Classes that users construct themselves."""

Call = Callable[..., Any]
CASES: dict[str, list[Callable[[], None]]] = {}
idle: Any


def changes(keys: str, call: Call, **value: Any) -> None:
    """With these arguments the outcome is another one; keys: the function, with a dot."""
    for name in value:
        CASES.setdefault(f"{keys}.{name}", []).append(lambda: _changes(call, value))


def refused(keys: str, match: str, call: Call, **value: Any) -> None:
    """These arguments would change nothing and are refused by name."""
    for name in value:
        CASES.setdefault(f"{keys}.{name}", []).append(lambda: _refused(call, match, value))


def allowed(keys: str, call: Call, **value: Any) -> None:
    """These change nothing here and are taken all the same."""
    for name in value:
        CASES.setdefault(f"{keys}.{name}", []).append(lambda: _same(call, value))


def called(keys: str, call: Call) -> None:
    """A callback is called."""
    CASES.setdefault(f"{keys}.on_progress", []).append(lambda: _called(call))


class Later:
    """A value that is made when it is needed, not when tests are collected."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def now(value: dict[str, Any]) -> dict[str, Any]:
    return {name: x.make() if isinstance(x, Later) else x for name, x in value.items()}


def _changes(call: Call, value: dict[str, Any]) -> None:
    assert plain(call()) != plain(call(**now(value))), f"{', '.join(value)} changed nothing"


def _refused(call: Call, match: str, value: dict[str, Any]) -> None:
    given = now(value)
    with pytest.raises(dynid.DynidError, match=match):
        call(**given)


def _same(call: Call, value: dict[str, Any]) -> None:
    assert plain(call()) == plain(call(**now(value)))


def _called(call: Call) -> None:
    told: list[float] = []
    call(on_progress=lambda _, done: told.append(done))
    assert told
    assert all(0.0 <= done <= 1.0 for done in told)


def plain(x: Any) -> Any:
    """What a result says, in numbers and words that can be compared."""
    parts: tuple[Any, ...]
    match x:
        case None | bool() | int() | float() | str():
            return repr(x)
        case np.ndarray():
            return x.shape, x.tobytes()
        case dict():
            return {key: plain(value) for key, value in x.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(value) for value in x]
        case dynid.Identification():
            parts = (x.names, x.values, x.sigma, x.cutoff, x.friction, x.validation.nrmse, x.validation.source, x.notes)
        case dynid.BaseParameters():
            lu = None if x.diagnostics is None else x.diagnostics.factor
            parts = (x.names, x.matrix, x.method, x.no_effect, x.columns, lu, x.scaled is not None)
        case dynid.Regressor():
            parts = (x.matrix, x.columns, x.channels)
        case dynid.State():
            parts = ([f.R for block in x.blocks for f in block.factors], x.equation.names, x.cutoff, x.recipe)
        case dynid.Excitation():
            motion = x.motion(20.0) if np.isfinite(x.duration) else x.shape.exciting_motion()
            starts = len(x.history.descents)  # type: ignore[union-attr]
            parts = (motion, x.value, x.expected_errors(), x.warnings, x.rows.model, starts, x.bound)
        case Motion():
            parts = (x.t, x.q, x.v, x.a)
        case Log():
            parts = (x.t, x.q, x.v, x.a, x.tau, x.reaction, x.name, x.coupling, x.notes)
        case Robot():
            poses = link_poses(x, np.ones((1, len(x.tree_joints))))
            parts = (x.parameters, x.gravity, x.joint_names, x.floating, x.name, poses.rotation, poses.position)
        case dynid.Payload() | dynid.Gains():
            parts = (x.names, x.values, x.sigma)
        case dynid.PhysicalParameters():
            parts = (x.names, x.values, x.prior, x.prior_source)
        case dynid.MarkerFit():
            parts = (x.q, x.offsets, x.camera.rotation, x.sigma)
        case dynid.Comparison():
            parts = ([(run.name, run.result, run.refusal) for run in x.runs], x.source)
        case Path():
            return x.read_bytes()
        case _:
            return repr(x)
    return [type(x).__name__, *map(plain, parts)]


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions of `dynid`, methods of its classes, and the classes that users construct."""
    for name in dynid.__all__:
        found = getattr(dynid, name)
        if not inspect.isclass(found):
            if callable(found):
                yield name, found
            continue
        if name in BY_HAND:
            yield name, found
        for key, value in vars(found).items():
            method = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if not key.startswith("_") and inspect.isfunction(method):
                yield f"{name}.{key}", method


def keywords() -> set[str]:
    """Arguments that may be left out, or that are given by name only."""
    return {
        f"{name}.{p.name}"
        for name, found in public_callables()
        for p in inspect.signature(found).parameters.values()
        if p.name != "self" and (p.kind is p.KEYWORD_ONLY or p.default is not p.empty)
    }


# ---------------------------------------------------------------------------------------------------------------- data


@cache
def robot() -> Robot:
    return with_friction(arm("gautier3"))


@cache
def motion(seed: int = 0, duration: float = 6.0) -> Motion:
    return fourier_motion(robot(), duration=duration, rate=50.0, seed=seed)


@cache
def recorded(seed: int = 0) -> Log:
    return dynid.simulate(robot(), motion(seed), noise=0.2, plate_noise=0.2, seed=seed)


def fit(**options: Any) -> dynid.Identification:
    return dynid.identify(robot(), recorded(), **{"friction": PLAIN, **options})


def on_plate(**options: Any) -> dynid.Identification:
    return dynid.identify(robot(), recorded(), **{"model": "reaction", **options})


@cache
def result() -> dynid.Identification:
    return fit()


@cache
def place() -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix="dynid-arguments-")
    atexit.register(made.cleanup)
    return made


def folder() -> Path:
    return Path(tempfile.mkdtemp(dir=place().name))


def two_links() -> Robot:
    X = np.tile([0.1, 0.0, 0.0, 0.1, 0.0, 0.1, 0.05, 0.02, 0.01, 1.0, 0.1], 2)
    return Robot.from_mdh([{}, {"alpha": 1.0, "d": 0.3}], name="two").with_parameters(X)


ONE = Robot.from_mdh([{"alpha": np.pi / 2}], name="one").with_parameters(
    np.array([0.1] * 6 + [0.2, 0.1, 0.0, 1.0, 0.1])
)
ALONE = {"position": [[-2.0, 2.0]], "velocity": 3.0}
LIMITS = {"position": [[-2.0, 2.0], [-1.0, 1.5]], "velocity": 3.0, "acceleration": 8.0}


def design(**options: Any) -> dynid.Excitation:
    few = {"limits": LIMITS, "starts": 1, "harmonics": 2, "duration": 3.0}
    return dynid.design_excitation(two_links(), **{**few, **options})


def design_points(**options: Any) -> dynid.Excitation:
    few = {"shape": "points", "points": 3, "starts": 1, "limits": {**ALONE, "acceleration": 8.0}}
    return dynid.design_excitation(ONE, **{**few, **options})


def two_links_log() -> Log:
    return dynid.simulate(with_friction(two_links()), fourier_motion(two_links(), duration=8.0, rate=50.0), noise=0.05)


@cache
def excitation() -> dynid.Excitation:
    return design()


def column(**options: Any) -> JointColumn:
    return JointColumn("Spring", "2", **{"positions": [-1.0, 0.0, 1.0], "torque": [0.0, 1.0, 4.0], **options})


COLUMN = JointColumn("Spring2", "2", positions=np.array([-1.0, 0.0, 1.0]), torque=np.array([0.0, 1.0, 4.0]))

# ------------------------------------------------------------------------------------------------------ base parameters

for name in ("qr", "svd"):
    sampled: Call = lambda method=name, **k: dynid.base_parameters(robot(), method=method, **k)  # noqa: E731
    changes("base_parameters", sampled, seed=3)
    changes("base_parameters", sampled, rows=90)
    changes("base_parameters", sampled, scaling=(1.0, 0.03))
base: Call = lambda **k: dynid.base_parameters(robot(), **k)  # noqa: E731
for other in (None, "exact", "nullspace", "rules"):
    refused("base_parameters", "rows= is for", base, rows=90, method=other)
    refused("base_parameters", "scaling= is for", base, scaling=(1.0, 0.03), method=other)
    allowed("base_parameters", lambda method=other, **k: base(method=method, **k), seed=3)
changes("base_parameters", base, model="reaction")
changes("base_parameters", base, method="qr")
changes("base_parameters", base, rotor_inertia=False)
changes("base_parameters", lambda **k: base(model="reaction", **k), tared=True)
refused("base_parameters", "belongs to the reaction model", base, tared=True)
changes("base_parameters", base, friction=("offset",))
changes("base_parameters", base, prefer=("YY3",))
refused("base_parameters", "belong together", base, log=object())
refused("base_parameters", "belong to the torque model", lambda **k: base(model="energy", **k), friction=("offset",))

compared: Call = lambda **k: dynid.compare_methods(robot(), **k).results  # noqa: E731
changes("compare_methods", compared, model="reaction")
changes("compare_methods", compared, rotor_inertia=False)
changes("compare_methods", lambda **k: compared(model="reaction", **k), tared=True)
refused("compare_methods", "belongs to the reaction model", compared, tared=True)
changes("compare_methods", compared, seed=3)

# ------------------------------------------------------------------------------------------------------------ regressor

for name in ("regressor", "regressor_chunks", "regressor_adjoint"):

    def rows_of(name: str = name, **k: Any) -> Any:
        if name != "regressor_adjoint":
            found = getattr(dynid, name)(robot(), motion()[:30], **k)
            return found if name == "regressor" else list(found)
        W = dynid.regressor(robot(), motion()[:30], **k).matrix
        return dynid.regressor_adjoint(robot(), motion()[:30], np.ones_like(W), **k)

    changes(name, rows_of, model="static")
    changes(name, rows_of, rotor_inertia=False)
changes("regressor_chunks", lambda **k: list(dynid.regressor_chunks(robot(), motion()[:30], **k)), size=7)

# ----------------------------------------------------------------------------------------------------------- excitation

changes("design_excitation", lambda **k: dynid.design_excitation(ONE, limits=ALONE, starts=1, **k), shape="points")
changes("design_excitation", design, model="energy")
changes("design_excitation", design, criterion="d")
changes("design_excitation", lambda **k: design(criterion="condition+scaling", **k), weights=(1.0, 0.3))
for name in ("condition", "frobenius", "scaling", "a", "d", "e", "v"):
    refused("design_excitation", "weights belongs to", lambda c=name, **k: design(criterion=c, **k), weights=(1.0, 0.3))
changes("design_excitation", design, rotor_inertia=False)
changes("design_excitation", design, friction=("viscous",))
changes("design_excitation", design, task=Motion(np.arange(3.0), *np.ones((3, 3, 2))))
refused("design_excitation", "task belongs to", lambda **k: design(criterion="a", **k), task="traj.csv")
changes("design_excitation", design, margin=0.2)
changes("design_excitation", design_points, margin=0.2)
refused("design_excitation", "share of the limits", design, margin=1.0)
changes("design_excitation", design, limits={**LIMITS, "jerk": 5.0})
changes("design_excitation", design_points, limits={**ALONE, "acceleration": 8.0, "jerk": 9.0})
changes("design_excitation", design, limits={**LIMITS, "velocity": 2.0})
changes("design_excitation", design, limits={**LIMITS, "effort": 0.7})
changes("design_excitation", design, duration=4.0)
refused("design_excitation", "not an address of a Dask scheduler|not installed", design, client="head:8786")
changes("design_excitation", design, harmonics=3)
changes("design_excitation", design, periods=2)
changes("design_excitation", design, rest=[0.3, 0.2])
changes("design_excitation", design, starts=2)
changes("design_excitation", design, seed=1)
changes("design_excitation", design, noise=[0.1, 0.3])
changes("design_excitation", lambda **k: design(starts=40, **k), time_budget=0.05)
changes("design_excitation", lambda **k: design(criterion="d", **k), bound=True)
for name in ("condition", "frobenius", "scaling", "condition+scaling"):
    refused("design_excitation", "has no bound", lambda c=name, **k: design(criterion=c, **k), bound=True)
changes("design_excitation", design, begin=Later(lambda: [design(seed=5)]))
refused("design_excitation", "is of another shape", design, begin=Later(lambda: [design(harmonics=3)]))
refused("design_excitation", "is of another shape", design_points, begin=Later(lambda: [design()]))
called("design_excitation", design)
known_before = Later(lambda: dynid.identify(two_links(), two_links_log(), friction=PLAIN))
changes("design_excitation", design, after=known_before)
changes("design_excitation", lambda **k: design(after=known_before.make(), **k), target=["Fv1"])
changes("design_excitation", design, target="payload")
refused("design_excitation", "cannot be combined with after", lambda **k: design(noise=0.1, **k), after=known_before)
refused("design_excitation", "cannot be combined with target", design_points, target="Fv1")
refused("design_excitation", "cannot be combined with target", lambda **k: design(criterion="d", **k), target="Fv1")
refused("design_excitation", "points belongs to shape 'points'", design, points=9)
for name, idle in (("duration", 4.0), ("harmonics", 3), ("periods", 2)):
    refused("design_excitation", f"{name} belongs to shape 'fourier'", design_points, **{name: idle})
changes("design_excitation", design_points, points=4)
changes("design_excitation", design_points, rest=[0.3])
changes("design_excitation", design_points, limits={**ALONE, "acceleration": 8.0, "effort": 3.0})
without: Call = lambda **k: design_points(**{"limits": ALONE, **k})  # noqa: E731
refused("design_excitation", "rest needs a motion", without, rest=[0.3])
refused("design_excitation", "needs a motion", without, limits={**ALONE, "effort": 3.0})
refused("design_excitation", "needs a motion", without, limits={**ALONE, "jerk": 3.0})
refused("design_excitation", "the margin allows", design_points, rest=[2.0])
changes("Excitation.motion", lambda **k: excitation().motion(20.0, **k), speed=0.5)
BLOCK = {"box": [{"size": [0.1, 0.1, 9.0], "position": [0.42, 0.0, 0.0]}]}
changes("design_excitation", design, obstacles=BLOCK)
changes("design_excitation", design, floor=-0.05)
changes("design_excitation", lambda **k: design(obstacles=BLOCK, **k), clearance=0.05)
refused("design_excitation", "needs something to keep away from", design, clearance=0.3)
changes("design_excitation", design, tool_speed=0.3)
for name, one in (("obstacles", BLOCK), ("floor", -0.05), ("tool_speed", 0.3)):
    changes("design_excitation", design_points, **{name: one})
    refused("design_excitation", "a cell needs a motion", without, **{name: one})
changes("Excitation.expected_errors", lambda **k: excitation().expected_errors(**k), noise=0.5)


def saved_motion(**k: Any) -> list[Path]:
    made = [folder() / f"motion{suffix}" for suffix in (".csv", ".json", ".yaml")]
    for file in made:
        excitation().save(file, **k)
    return made


changes("Excitation.save", saved_motion, rate=50.0)
changes("Excitation.save", saved_motion, speed=0.5)

# ----------------------------------------------------------------------------------------------------------------- data

simulated: Call = lambda **k: dynid.simulate(robot(), motion(), **k)  # noqa: E731
changes("simulate", simulated, noise=0.1)
changes("simulate", simulated, plate_noise=0.1)
changes("simulate", lambda **k: simulated(noise=0.1, **k), seed=1)
allowed("simulate", simulated, seed=1)
changes("simulate", lambda **k: dynid.simulate(two_links(), excitation(), **k), rate=50.0)
refused("simulate", "rate= samples an excitation", simulated, rate=50.0)

log_of: Call = lambda **k: Log(motion().t, motion().q, **k)  # noqa: E731
for name in ("v", "a", "tau", "reaction"):
    changes("Log", log_of, **{name: Later(lambda: motion().v)})
changes("Log", log_of, name="mine")
for name in ("between", "part"):
    for key, at in (("start", 0.3), ("stop", 0.7)):
        changes(f"Log.{name}", lambda name=name, **k: getattr(recorded(), name)(**k), **{key: at})
changes("Log.chunks", lambda **k: [len(part) for part in recorded().chunks(**k)], rows=100)
changes("Log.from_source", lambda **k: Log.from_source(recorded().source, **k), coupling=2.0 * np.eye(3))
changes("Log.from_source", lambda **k: Log.from_source(recorded().source, **k), notes=("heard",))
for name in ("base_pose", "base_velocity", "base_acceleration"):

    def floating_motion(name: str = name, **k: Any) -> Any:
        free = dynid.load_robot("one_link", floating_base=True)
        still = {"base_pose": np.array([[0, 0, 0, 0, 0, 0, 1.0]]), "base_velocity": np.zeros((1, 6)),
                 "base_acceleration": np.zeros((1, 6))}  # fmt: skip
        zero = np.zeros((1, 1))
        return dynid.regressor(free, Motion(np.zeros(1), zero, zero, zero, **{**still, **k}))

    moved = np.array([[0, 0, 0, 0.6, 0, 0, 0.8]]) if name == "base_pose" else np.ones((1, 6))
    changes("Motion", floating_motion, **{name: moved})


def read(file: str = "log.csv", **k: Any) -> Log:
    place = folder()
    log, names = recorded(), robot().joint_names
    assert log.tau is not None
    assert log.v is not None
    head = ["t", *(f"{c}{j}" for c in ("q", "v", "tau", "other") for j in names)]
    table = np.column_stack([log.t, log.q, log.v, log.tau, 2.0 * log.tau])
    if "tau" not in file:
        np.savetxt(place / file, table, delimiter=",", header=",".join(head), comments="")
    else:
        np.savetxt(place / file, table[:, :4], delimiter=",", header=",".join(head[:4]), comments="")
    found = dynid.read_log(place / file, robot(), **k)
    return Log.from_source(replace_name(found), coupling=found.coupling, notes=found.notes)


def replace_name(log: Log) -> Any:
    """The samples under a name that is the same in every folder."""
    return Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau, reaction=log.reaction).source


changes("read_log", read, columns={"tau": ["other1", "other2", "other3"]})
changes("read_log", read, units={"q": "deg"})
refused("read_log", "no channel 'reaction'", read, units={"reaction": "N"})
changes("read_log", read, gear=50.0)
changes("read_log", read, gain=0.2)
refused("read_log", "no torques or currents", lambda **k: read("without_tau.csv", **k), gain=0.2)
refused("read_log", "topic= is for bags", read, topic="/joint_states")
changes("read_log", read, sign="tau.2")
refused("read_log", "no accelerations", read, sign=["a.2"])
changes("read_log", read, zero={"2": -1.0})
refused("read_log", "not a finite number", read, zero={"2": np.nan})
changes("read_log", read, order=["2", "1", "3"])
changes("read_log", read, order={"tau": ["2", "1", "3"]})
refused("read_log", "no torques", lambda **k: read("without_tau.csv", **k), order={"tau": ["2", "1", "3"]})


def read_part(**k: Any) -> Log:
    state = {"t": recorded().t, **{f"q{j}": recorded().q[:, i] for i, j in enumerate(robot().joint_names)}}
    drives = dynid.FilePart({"t": recorded().t, "tau": recorded().tau}, **k)
    return Log.from_source(replace_name(dynid.read_log([state, drives], robot())))


changes("FilePart", read_part, shift=0.004)
refused("FilePart", "finite number of seconds", read_part, shift=np.nan)
changes("FilePart", read_part, ranges=("0%:50%",))
changes("FilePart", read_part, ranges="0%:50%")
refused("FilePart", "cannot read the range", read_part, ranges=("half",))
changes("FilePart", read_part, rows=(11, 200))
refused("FilePart", "FIRST and LAST", read_part, rows=(20, 10))
changes("read_log", read, header="t,q*3,v*3,_*3,tau*3")
refused("read_log", "header= names 7 columns", read, header="t,q*3,tau*3")
changes("read_log", read, rows=(11, 200))
refused("read_log", "rows must be FIRST and LAST", read, rows=(20, 10))


def rewired(**k: Any) -> Log:
    return recorded().rewired(dynid.Wiring(**k))


for name in ("order_q", "order_tau"):
    changes("Wiring", rewired, **{name: [1, 0, 2]})
    refused("Wiring", "numbers from 0", rewired, **{name: [1, 1, 2]})
for name in ("sign_q", "sign_v", "sign_a", "sign_tau"):
    changes("Wiring", rewired, **{name: [1, -1, 1]})
    refused("Wiring", "1 or -1", rewired, **{name: [1, 2, 1]})
changes("Wiring", rewired, zero=[0.0, 0.5, 0.0])
refused("Wiring", "finite", rewired, zero=[0.0, np.inf, 0.0])
for name in ("q", "tau"):
    exchanged: Call = lambda n=name, **k: repr(dynid.Wiring(**{f"order_{n}": [1, 0, 2], **k}).options(robot()))  # noqa: E731
    changes("Wiring", exchanged, **{f"file_{name}": [2, 1, 0]})
later = dynid.Wiring(order_q=np.array([1, 0, 2]))
changes("Wiring.then", lambda **k: dynid.Wiring(zero=np.eye(3)[1]).then(later, **k).zero, gear=np.diag([1.0, 2.0, 3.0]))


def read_bag(**k: Any) -> Log:
    file = write_bag(folder() / "bag", bag_messages(recorded()._all_samples, robot().joint_names))
    return Log.from_source(replace_name(dynid.read_log(file, robot(), **k)))


refused("read_log", "/elsewhere", read_bag, topic="/elsewhere")
refused("read_log", "/elsewhere", read_bag, topic=["/joint_states", "/elsewhere"])


@cache
def seen_markers() -> tuple[Robot, Any, Any, Any, Any]:
    puma = dynid.load_robot("one_link")
    t = np.arange(0.0, 1.0, 0.02)
    q = 0.5 * np.sin(3.0 * t)[:, None]
    links, offsets = markers_on(puma, 3)
    return puma, t, q, links, see(puma, q, links, offsets, noise=1e-3)


def marked(**k: Any) -> dynid.MarkerFit:
    puma, t, q, links, x = seen_markers()
    return dynid.angles_from_markers(puma, t, x, links, **{"start": q[0], **k})


changes("angles_from_markers", marked, start=[0.1])
changes("angles_from_markers", marked, at=[0, 1])
shapes = np.random.default_rng(5).uniform(1.0, 9.0, (50, 3, 1, 1)) * np.eye(3)
changes("angles_from_markers", marked, covariance=shapes)
changes("angles_from_markers", marked, offsets=np.full((3, 3), [[0.1, 0.1, 0.1], [np.nan] * 3, [np.nan] * 3]))
changes("angles_from_markers", marked, camera=Transform(rotation_about(np.array([1.0, 0, 0]), 0.1), np.zeros(3)))
changes("MarkerFit.log", lambda **k: marked().log(**k), tau=np.ones((50, 1)))
changes("MarkerFit.log", lambda **k: marked().log(**k), reaction=np.ones((50, 6)))
changes("MarkerFit.log", lambda **k: marked().log(**k), name="seen")


def seen_with_base(**k: Any) -> dynid.MarkerFit:
    chain = robot()
    q = motion().q[::10]
    links, offsets = markers_on(chain, 3)
    seen = see(chain, q, [*links, "base", "base"], np.vstack([offsets, [[0.3, 0, 0], [0, 0.3, 0]]]), noise=1e-3)
    known = np.vstack([np.full_like(offsets, np.nan), [[0.3, 0, 0], [0, 0.3, 0]]])
    return dynid.angles_from_markers(
        chain, motion().t[::10], seen, [*links, "base", "base"], start=q[0], offsets=known, **k
    )


changes("angles_from_markers", seen_with_base, refine_camera=True)

# ------------------------------------------------------------------------------------------------------- identification

second = Later(lambda: recorded(5))
for key, options in {
    "identify": fit,
    "collect_state": lambda **k: dynid.collect_state(robot(), recorded(), **{"friction": PLAIN, **k}),
}.items():
    changes(key, options, model="momentum")
    changes(key, options, friction=("viscous",))
    changes(key, options, rotor_inertia=False)
    changes(key, options, cutoff=5.0)
    changes(key, options, columns=(COLUMN,))
    changes(key, options, joints=["1", "3"])
    changes(key, options, delay=0.01)
    changes(key, options, unknown=["r"])
    changes(key, options, prefer=("YY3",))
    called(key, options)
    for model in ("energy", "momentum"):
        balanced: Call = lambda call=options, model=model, **k: call(model=model, **k)  # noqa: E731
        changes(key, balanced, window=0.3)
        changes(key, balanced, quadrature="trapezoid")
    for model in ("torque", "power", "reaction", "torque+reaction"):
        free = () if model == "reaction" else PLAIN
        plainly: Call = lambda call=options, model=model, friction=free, **k: call(model=model, friction=friction, **k)  # noqa: E731
        refused(key, "has no window", plainly, window=0.3)
        refused(key, "has no quadrature", plainly, quadrature="trapezoid")
    for model in ("power", "energy"):
        refused(key, "adds up all joints", lambda call=options, m=model, **k: call(model=m, **k), joints=["1"])
    of_base: Call = lambda call=options, **k: call(**{"model": "reaction", "friction": (), **k})  # noqa: E731
    refused(key, "do not depend on friction", of_base, friction=PLAIN)
    refused(key, "torques of joints", of_base, columns=(COLUMN,))
    refused(key, "adds up all joints", of_base, joints=["1"])
    refused(key, "needs the geometry", of_base, unknown=["r"])
    changes(key, of_base, cutoff=5.0)
    changes(key, of_base, delay=0.01)
    allowed(key, of_base, rotor_inertia=False)  # a statement that holds: the base feels no rotors

first: Call = lambda **k: dynid.collect_state(robot(), recorded(), friction=PLAIN, **k)  # noqa: E731


def like(**k: Any) -> dynid.State:
    return dynid.collect_state(robot(), recorded(5), **k)


changes(
    "collect_state", lambda **k: like(**({"friction": PLAIN} if not k else k)), like=Later(lambda: first(cutoff=4.0))
)
for name, idle in {
    "friction": PLAIN, "rotor_inertia": False, "cutoff": 5.0, "columns": (COLUMN,), "joints": ["1"], "delay": 0.1,
    "model": "power", "window": 0.3, "quadrature": "trapezoid", "unknown": ["r"], "prefer": ("YY3",),
}.items():  # fmt: skip
    refused("collect_state", f"leave out {name}", lambda **k: like(like=first(), **k), **{name: idle})

changes("identify", fit, estimator="ols")
changes("identify", fit, validate=0.3)
changes("identify", fit, validate=second)
changes("identify", fit, known={"Ia3": 0.1})
changes("identify", fit, equal=[("Fv1", "Fv2")])
changes("identify", fit, intervals="white")
for own in ("offsets_per_log", "friction_per_log"):
    changes(
        "identify", lambda **k: dynid.identify(robot(), [recorded(), recorded(5)], friction=PLAIN, **k), **{own: True}
    )
refused("identify", "needs friction blocks", lambda **k: fit(friction=(), **k), friction_per_log=True)
refused("identify", "needs friction blocks", on_plate, friction_per_log=True)
refused("identify", "friction block 'offset'", lambda **k: fit(friction=("viscous",), **k), offsets_per_log=True)
refused("identify", "friction block 'offset'", on_plate, offsets_per_log=True)
changes("identify", on_plate, sensor=ForceSensor(position=np.array([0.1, 0.0, 0.0])))


def partly(**k: Any) -> dynid.Identification:
    log = recorded()
    assert log.reaction is not None
    few = Log(log.t, log.q, v=log.v, a=log.a, reaction=log.reaction[:, :2])
    return dynid.identify(robot(), few, model="reaction", sensor=ForceSensor(channels=("Fx", "Fy")), **k)


CASES.setdefault("identify.partial", []).append(lambda: _refused(partly, "do not determine", {}))
CASES["identify.partial"].append(lambda: plain(partly(partial=True)))
for model in ("torque", "power", "energy", "momentum"):
    refused("identify", "sensor= applies to", lambda m=model, **k: fit(model=m, **k), sensor=ForceSensor())
    refused("identify", "partial= applies to", lambda m=model, **k: fit(model=m, **k), partial=True)
for name, idle in (("known", {"Ia3": 0.1}), ("equal", [("Fv1", "Fv2")])):
    refused("identify", "takes no known or equal", lambda **k: fit(estimator="recursive", **k), **{name: idle})

states: Call = lambda **k: dynid.identify_states([first(), like(like=first())], **k)  # noqa: E731
changes("identify_states", states, estimator="ols")
refused("identify_states", "reads logs twice", states, estimator="huber")
changes("identify_states", states, known={"Ia3": 0.1})
changes("identify_states", states, equal=[("Fv1", "Fv2")])
changes("identify_states", states, offsets_per_log=True)
changes("identify_states", states, friction_per_log=True)
changes("identify_states", states, intervals="white")


def runs(**k: Any) -> dynid.Comparison:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynid.estimation.compare.COMPARED", (("torque", "wls"), ("momentum", "wls")))
        return dynid.compare_estimators(robot(), [recorded(), recorded(5)], **{"friction": PLAIN, **k})


changes("compare_estimators", runs, window=0.3)
changes("compare_estimators", runs, quadrature="trapezoid")
changes("compare_estimators", runs, friction=("viscous",))
changes("compare_estimators", runs, rotor_inertia=False)
changes("compare_estimators", runs, cutoff=5.0)
changes("compare_estimators", runs, validate=0.4)
changes("compare_estimators", runs, columns=(COLUMN,))
changes("compare_estimators", runs, joints=["1", "3"])
changes("compare_estimators", runs, known={"Ia3": 0.1})
changes("compare_estimators", runs, equal=[("Fv1", "Fv2")])
changes("compare_estimators", runs, offsets_per_log=True)
changes("compare_estimators", runs, friction_per_log=True)
changes("compare_estimators", runs, delay=0.01)
changes("compare_estimators", runs, estimators=[lambda problem: np.zeros(len(problem.names))])
called("compare_estimators", runs)
changes("BaseParameters.plot", lambda **k: list(dynid.base_parameters(robot()).plot(**k)), why=True)
changes("Identification.plot", lambda **k: list(result().plot(**k)), logs=Later(recorded))
changes("Identification.plot", lambda **k: list(result().plot(**k)), validate=Later(lambda: recorded(5)))
called("diagnose", lambda **k: dynid.diagnose(result(), **k))
CASES["Comparison.run.estimator"] = [
    lambda: _refused(lambda **k: runs().run("torque", **k), "huber", {"estimator": "huber"}),
    lambda: plain(runs().run("torque", estimator="wls").result),
]


@cache
def carrier() -> tuple[Robot, Log, Log]:
    puma = robot_with_friction("puma560")
    return puma, *two_logs(puma, LOAD, noise=0.01, rate=50.0)


def carried(**k: Any) -> dynid.Payload:
    return dynid.identify_payload(*carrier(), **{"friction": PLAIN, **k})


def gains(**k: Any) -> dynid.Gains:
    return dynid.identify_gains(*carrier(), LOAD, **{"friction": PLAIN, **k})


@cache
def between(**k: Any) -> dynid.Payload:
    puma, *logs = carrier()
    pair = [dynid.identify(puma, log, friction=PLAIN) for log in logs]
    return dynid.payload_between(pair[0], pair[1], **k)


@cache
def point() -> tuple[Robot, Log, Log]:
    """A load so small that noise alone makes its inertia impossible."""
    arm = robot_with_friction("gautier3")
    return arm, *two_logs(arm, dynid.payload_parameters(0.5, (0.0, 0.0, 0.05)), noise=0.03, rate=50.0)


def point_carried(**k: Any) -> dynid.Payload:
    return dynid.identify_payload(*point(), friction=PLAIN, **k)


def point_between(**k: Any) -> dynid.Payload:
    arm, *logs = point()
    pair = [dynid.identify(arm, log, friction=PLAIN) for log in logs]
    return dynid.payload_between(pair[0], pair[1], **k)


for key, run in {"identify_payload": carried, "identify_gains": gains}.items():
    changes(key, run, link="4")
    changes(key, run, friction=("viscous", "offset"))
    changes(key, run, rotor_inertia=False)
    changes(key, run, cutoff=5.0)
    changes(key, lambda run=run, **k: run(**{"friction_per_log": False, **k}), offsets_per_log=True)
    changes(key, run, friction_per_log=False)
    refused(key, "friction block 'offset'", lambda run=run, **k: run(friction=("viscous",), **k), offsets_per_log=True)
    changes(key, run, delay=0.01)
    called(key, run)
changes("identify_payload", carried, model="momentum")
changes("identify_payload", carried, joints=["2", "3", "4", "5", "6"])
changes("identify_payload", carried, gain_sigma=0.02)
changes("identify_payload", point_carried, physical=False)
changes("payload_between", point_between, physical=False)
refused("identify_payload", "gain_sigma", lambda **k: carried(model="reaction", **k), gain_sigma=0.1)
refused("identify_payload", "sensor", carried, sensor=dynid.ForceSensor())
changes("identify_gains", gains, reference="2")
changes(
    "identify_gains", lambda **k: dynid.identify_gains(*carrier(), **{"mass": 2.0, "friction": PLAIN, **k}), mass=2.1
)
changes(
    "identify_gains",
    lambda **k: dynid.identify_gains(*carrier(), **{"payload": LOAD, "friction": PLAIN, **k}),
    payload=1.1 * LOAD,
)
refused("identify_gains", "mass=", gains, mass=2.0)
changes("payload_between", between, link="4")
changes("payload_between", between, gain_sigma=0.02)
changes("payload_parameters", lambda **k: dynid.payload_parameters(2.0, (0.1, 0.0, 0.0), **k), inertia=np.eye(3))


def online(**k: Any) -> Any:
    run = dynid.Sequential(robot(), **k)
    assert recorded().tau is not None
    run.update_many(motion().q, motion().v, motion().a, recorded().tau)
    return run.names, run.values, run.sigma


changes("Sequential", online, friction=())
changes("Sequential", online, rotor_inertia=False)
changes("Sequential", online, forgetting=0.99)
changes("Sequential", online, noise=[1.0, 2.0, 3.0])
changes("Sequential", online, prior={"ZZ1": (1.0, 0.1)})


def balance_online(**k: Any) -> Any:
    run = dynid.Sequential(robot(), **{"model": "momentum", **k})
    run.update_many(motion().q, motion().v, tau=recorded().tau, t=motion().t)
    return run.names, run.values


changes("Sequential", balance_online, model="energy")
changes("Sequential", balance_online, span=16)
changes("Sequential", balance_online, unknown=("r",))


def streamed(one: bool, **k: Any) -> Any:
    """Rows of the first samples, as a chunk or of one sample after a chunk; `t` makes them balances."""
    log, model = recorded(), "momentum" if "t" in k else "torque+reaction"
    run = dynid.Sequential(robot(), model=model, span=1 if "t" in k else None)
    taken = {"tau": log.tau, **({"t": log.t} if "t" in k else {"a": log.a, "reaction": log.reaction})}
    given = {name: x[:40] for name, x in taken.items() if x is not None}
    if one:
        run.update_many(log.q[:40], log.v[:40], **given)  # type: ignore[index]
        last = {name: x[40] for name, x in taken.items() if x is not None}
        run.update(log.q[40], log.v[40], **{**last, **k})  # type: ignore[index]
    else:
        run.update_many(log.q[:40], log.v[:40], **{**given, **k})  # type: ignore[index]
    return [factor.R for factor in run.factors]


def in_time(**k: Any) -> Any:
    return streamed(False, **{"t": motion().t[:40], **k})


def last_in_time(**k: Any) -> Any:
    return streamed(True, **{"t": motion().t[40], **k})


for name, width in (("a", 3), ("tau", 3), ("reaction", 6)):
    changes("Sequential.update", partial(streamed, True), **{name: np.ones(width)})
    changes("Sequential.update_many", partial(streamed, False), **{name: np.ones((40, width))})
changes("Sequential.update", last_in_time, t=motion().t[40] + 0.01)
changes("Sequential.update_many", in_time, t=1.5 * motion().t[:40])
refused("Sequential.update_many", "takes q, v, tau, t of every sample, not a", in_time, a=np.ones((40, 3)))


def sensed(**k: Any) -> Any:
    on = robot().with_sensor(ForceSensor(**k))
    return dynid.simulate(on, motion()), dynid.identify(
        on, dynid.simulate(on, motion(), plate_noise=0.1), model="reaction"
    )


for name, value in {
    "position": [0.1, 0, 0], "rotation": rotation_about(np.array([0, 0, 1.0]), 0.4), "reference": [0, 0.1, 0],
    "sense": "robot_on_plate", "channels": ("Mz", "Fx", "Fy", "Mx", "My", "Fz"), "mass": 3.0,
    "noise": [1, 2, 3, 4, 5, 6], "sensitivity_sigma": 0.1, "rotors": (Rotor("2", 50.0, 1e-4),),
}.items():  # fmt: skip
    changes("ForceSensor", sensed, **{name: value})
changes("ForceSensor", lambda **k: sensed(mass=3.0, **k), com=[0.1, 0, 0])
changes("ForceSensor", sensed, offsets="known", offset=[1.0] * 6)
refused("ForceSensor", "belong together", sensed, offset=[1.0] * 6)
spun: Call = lambda **k: sensed(rotors=(Rotor("2", **{"ratio": 50.0, "inertia": 1e-4, **k}),))  # noqa: E731
changes("Rotor", spun, ratio=60.0)
changes("Rotor", spun, inertia=2e-4)
changes("Rotor", spun, axis=[1.0, 0.0, 0.0])
at_column: Call = lambda **k: column(**k).values(robot().joint_names, motion().q, motion().v)  # noqa: E731
changes("JointColumn", at_column, of="1")
changes("JointColumn", at_column, positions=[-2.0, 0.0, 1.0])
changes("JointColumn", at_column, torque=[0.0, 2.0, 4.0])
changes("JointColumn", at_column, function=lambda q, v: q[:, 0] * v[:, 1], positions=None, torque=None)
refused("JointColumn", "leave out of, positions", at_column, function=lambda q, v: q[:, 0])
refused("JointColumn", "leave out of", at_column, function=lambda q, v: q[:, 0], of="1", positions=None, torque=None)

# -------------------------------------------------------------------------------------------------------------- robots

ROWS = [{}, {"alpha": "A", "d": 0.3}]
made: Call = lambda **k: Robot.from_mdh(ROWS, **{"symbols": {"A": 1.0}, **k})  # noqa: E731
changes("Robot.from_mdh", made, gravity=(0.0, 9.81, 0.0))
changes("Robot.from_mdh", made, symbols={"A": 0.5})
changes("Robot.from_mdh", made, name="mine")


@cache
def urdf() -> Path:
    place = folder() / "robot.urdf"
    place.write_text(URDF, encoding="utf-8")
    return place


def from_urdf(**k: Any) -> Robot:
    return dynid.load_robot(urdf(), **k)


changes("load_robot", from_urdf, gravity=(0.0, 0.0, -1.6))
changes("load_robot", from_urdf, floating_base=True)
changes("load_robot", from_urdf, lock={"shoulder": 0.5})
changes("load_robot", lambda **k: from_urdf(**k).package_path, package_path=Later(folder))
refused("load_robot", "package_path= is for", lambda **k: dynid.load_robot("panda", **k), package_path=Later(folder))
refused("load_robot", "xacro= is for", lambda **k: dynid.load_robot("panda", **k), xacro=True)
refused("check_robot", "xacro= is for", lambda **k: dynid.check_robot("panda", **k), xacro=True)
refused("check_robot", "is for", lambda **k: dynid.check_robot("panda", **k), package_path=Later(folder))


def almost_right(**k: Any) -> Robot:
    file = folder() / "almost.toml"
    file.write_text('name = "almost"\n[[joint]]\n[[joint]]\nalpha = 1.5708\nd = 0.3\n')
    return dynid.load_robot(file, **k)


changes("load_robot", almost_right, snap=False)
short: Call = lambda **k: dynid.model_parameters(two_links(), **{"unknown": ["r"], **k})  # noqa: E731
changes("model_parameters", lambda **k: short(**k).expressions, unknown=["d"])
changes("model_parameters", lambda **k: short(**k).expressions, rotor_inertia=True)
counted: Call = lambda **k: dynid.count_model_parameters(robot(), **{"unknown": ["r"], **k})  # noqa: E731
changes("count_model_parameters", counted, unknown=["d", "r"])
changes("count_model_parameters", counted, rotor_inertia=True)
allowed("count_model_parameters", counted, seed=3)


@cache
def two_in_motion() -> Motion:
    return fourier_motion(two_links(), duration=0.3)


changes("ModelParameters.regressor", lambda **k: short().regressor(two_in_motion(), **k), model="momentum")
changes("ModelParameters.chunks", lambda **k: list(short().chunks(two_in_motion(), **k)), model="momentum")
changes("ModelParameters.chunks", lambda **k: list(short().chunks(two_in_motion(), **k)), size=7)


def written_rows(**k: Any) -> Any:
    found = short()
    out = np.zeros((len(two_in_motion()), 2, found.count))
    found.write(two_in_motion(), out, **k)
    return out


changes("ModelParameters.write", written_rows, model="momentum")


def longer() -> Robot:
    return Robot.from_mdh([{}, {"alpha": 1.0, "d": 0.3, "r": 0.4}]).with_parameters(two_links().parameters)


def lengths(**k: Any) -> str:
    found = dynid.model_parameters(dynid.load_robot("scara"), unknown=["A1", "A2"])
    return str(found.recoverable_lengths(**k))


changes("ModelParameters.recoverable_lengths", lengths, known={"MX2": 0.0, "MX3": 0.0})
changes("ModelParameters.matrix", lambda **k: short().matrix(**k), robot=Later(longer))
changes("ModelParameters.values", lambda **k: short().values(**k), robot=Later(longer))

# ------------------------------------------------------------------------------------------------ bodies, files, pages


@cache
def of_urdf() -> dynid.Identification:
    robot = from_urdf()
    return dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot, rate=50.0), noise=0.05), friction=PLAIN)


def heavier() -> Robot:
    found: Robot = bodies().robot
    return found.with_parameters(1.5 * found.parameters)


bodies: Call = lambda **k: dynid.physical_parameters(result(), **k)  # noqa: E731
changes("physical_parameters", bodies, prior=Later(heavier))
changes("physical_parameters", bodies, total_mass=30.0)
changes("physical_parameters", bodies, prior_weight=1e3)
refused("physical_parameters", "prior_weight= must be 0 or", bodies, prior_weight=-1.0)
changes("physical_parameters", bodies, bounds={"M3": (4.5, 5.0)})
changes("physical_parameters", bodies, centre_of_mass={"3": [(-0.5, 0.5), (-0.5, 0.5), (0.1, 0.2)]})
changes("physical_parameters", bodies, within={"3": dynid.Ellipsoid(np.array([0.0, 0.0, 0.3]), 0.2 * np.eye(3))})


def boxed() -> Path:
    """The same robot with a collision shape that its arm does not fill."""
    text = URDF.replace('<mesh filename="package://nowhere/arm.stl"/>', '<box size="0.05 0.05 0.05"/>')
    file = folder() / "boxed.urdf"
    file.write_text(text, encoding="utf-8")
    return file


changes("physical_parameters", lambda **k: dynid.physical_parameters(of_urdf(), **k), geometry=Later(boxed))
refused("physical_parameters", "package_path= says where meshes are", bodies, package_path=Later(folder))


def exported(subject: Any = None, name: str = "out.urdf", **k: Any) -> Path:
    return dynid.export(from_urdf() if subject is None else subject, folder() / name, **k).path


def other_template() -> Path:
    file = folder() / "template.urdf"
    file.write_text(URDF.replace('name="grey"', 'name="blue"'), encoding="utf-8")
    return file


def refused_export(**k: Any) -> str:
    log = recorded()
    noise = np.random.default_rng(0).standard_normal(log.q.shape)
    wrong = dynid.identify(robot(), Log(log.t, log.q, v=log.v, a=log.a, tau=noise), friction=())
    try:
        return dynid.export(wrong, folder() / "untrusted.urdf", **k).path.name
    except dynid.DynidError as error:
        return error.code


changes("export", exported, template=Later(other_template))
refused("export", "a template is for .urdf", lambda **k: exported(name="out.c", **k), template=Later(other_template))
changes("export", lambda **k: refused_export(**k), force=True)
held: Call = lambda: from_urdf(lock={"shoulder": 0.5})  # noqa: E731
CASES["export.lock"] = [
    lambda: _refused(lambda **k: exported(held(), template=urdf(), **k), "off", {"lock": {"shoulder": 0.1}}),
    lambda: plain(exported(held(), template=urdf(), lock={"shoulder": 0.5})),
]
for name in ("out.c", "out.toml", "out.xml", "out.json"):
    refused("export", "lock= is for", lambda name=name, **k: exported(held(), name, **k), lock={"shoulder": 0.5})
refused("export", "lock= is for", lambda **k: exported(robot(), **k), lock={"1": 0.5})
changes("verify", lambda **k: dynid.verify(urdf(), held(), **k), lock={"shoulder": 0.1})
refused("verify", "lock= is for", lambda **k: dynid.verify(exported(robot(), "a.toml"), robot(), **k), lock={"1": 0.5})


def page(found: Any = None, **k: Any) -> str:
    place = folder() / "page.html"
    dynid.write_report(result() if found is None else found, place, **k)
    return place.read_text()


several: Call = lambda **k: page([result(), fit(estimator="ols")], **k)  # noqa: E731
changes("write_report", page, logs=Later(recorded))
changes("write_report", page, validate=second)
changes("write_report", page, physical=Later(bodies))
changes("write_report", several, names=["this", "that"])
refused("write_report", "names apply to several", page, names=["this"])
changes("write_report", page, command="dynid demo")
changes("write_report", page, inputs=Later(lambda: [urdf()]))
changes("write_report", page, warnings=["mind the gap"])
for name, idle in (
    ("logs", Later(recorded)),
    ("validate", second),
    ("physical", Later(bodies)),
    ("warnings", ["mind the gap"]),
):
    refused("write_report", "apply to a single result", several, **{name: idle})
called("write_report", lambda **k: page(logs=recorded(), **k))
said = dynid.Message("too_slow", "it is slow", "use {option}", option=Option("snap", False))
changes("Message.record", lambda **k: said.record(**k), front="command line")

# ----------------------------------------------------------------------------------------------- drives from commands


@cache
def leg_commands() -> Motion:
    t = np.arange(0.0, 7.0, 0.01)
    q = dynid.load_robot("leg").limits.position.mean(axis=1) + 0.4 * np.sin(np.outer(t, [3.0, 5.0, 8.0]))
    return Motion(t, q, np.gradient(q, t, axis=0), np.zeros_like(q))


def simulate_leg(**options: Any) -> Any:
    pytest.importorskip("mujoco")
    return dynid.simulate_actuators(dynid.load_robot("leg"), leg_commands(), **{"bits": 14, "delay": 0.01, **options})


@cache
def leg_log() -> Any:
    return simulate_leg(armature=0.02)


def identify_leg(**options: Any) -> Any:
    pytest.importorskip("mujoco")
    found = dynid.identify_actuators(dynid.load_robot("leg"), leg_log(), **options)
    errors = None if found.rollout is None else found.rollout.after
    return found.values, found.sigma, found.delay, found.rollouts, errors


@cache
def fleet_folder() -> Path:
    """Two robots, three weeks, a robot with two joints."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, True)
    robot = fleet_robot()
    for k in range(6):
        place = Path(folder) / f"robot=R{k // 3}" / f"week=W{k % 3}" / f"machine=M{k % 3}"
        place.mkdir(parents=True)
        log = dynid.simulate(robot, fourier_motion(robot, duration=12.0, rate=50.0, seed=k), noise=0.1, seed=k)
        assert log.tau is not None
        parts = (("q", log.q), ("tau", log.tau))
        columns = {"t": log.t} | {f"{name}{j + 1}": x[:, j] for name, x in parts for j in range(robot.n)}
        header = ",".join(columns)
        np.savetxt(
            place / "log.csv", np.column_stack(list(columns.values())), delimiter=",", header=header, comments=""
        )
    return Path(folder)


@cache
def fleet_robot() -> Robot:
    return with_friction(arm("gautier3"))


def identify_fleet(**options: Any) -> Any:
    given = {"workers": 1, "friction": PLAIN, "cutoff": 8.0, **options}
    found = dynid.identify_fleet(fleet_robot(), fleet_folder(), **given)
    return found.table().rows(), found.tests().rows(), found.computed


def fleet_out() -> Path:
    out = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, out, True)
    identify_fleet(out=out)
    return out


changes("identify_fleet", identify_fleet, by=("machine", "week"))
changes("identify_fleet", identify_fleet, baseline=2)
changes("identify_fleet", identify_fleet, out=Later(fleet_out))  # nothing is left to compute
refused("identify_fleet", "no Dask scheduler|not installed", lambda **k: identify_fleet(workers=None, **k),
        client="tcp://127.0.0.1:1")  # fmt: skip
refused("identify_fleet", "at least one worker", identify_fleet, workers=0)
for name, value in {"friction": ("viscous",), "rotor_inertia": False, "cutoff": 6.0, "joints": ("2", "3"),
                    "delay": 0.01}.items():  # fmt: skip
    changes("identify_fleet", identify_fleet, **{name: value})
changes("identify_fleet", identify_fleet, read={"gain": 2.0})
changes("identify_fleet", identify_fleet, robots={"R1": {"gain": 2.0}})
called("identify_fleet", identify_fleet)


def fleet_of_four(shrink: bool = False) -> Any:
    logs = [(f"R{k}", "W0", next(fleet_folder().glob(f"robot=R{k // 3}/week=W{k % 3}/*/*.csv"))) for k in range(5)]
    found = dynid.identify_fleet(fleet_robot(), logs, workers=1, friction=PLAIN, cutoff=8.0)
    return found.table(shrink=shrink).rows()


changes("Fleet.table", fleet_of_four, shrink=True)


@cache
def compared_fleet() -> dynid.Fleet:
    return dynid.identify_fleet(fleet_robot(), fleet_folder(), baseline=2, workers=1, friction=PLAIN, cutoff=8.0)


changes("Fleet.changes", lambda **k: compared_fleet().changes(**k).rows(), alpha=0.999999)
changes("Fleet.significant", lambda **k: [f.robot for f in compared_fleet().significant(**k)], alpha=0.999999)
changes("Fleet.alarms", lambda **k: [str(a.message) for a in compared_fleet().alarms(**k)], alpha=0.999999)
changes("Fleet.facts", lambda **k: compared_fleet().facts(**k), alpha=0.999999)


def fleet_page(**k: Any) -> str:
    place = folder() / "fleet.html"
    compared_fleet().report(place, **k)
    return place.read_text()


@cache
def fleet_of_eight() -> dynid.Fleet:
    """Six recordings as robots of their own, and two again with other gains."""
    files = sorted(fleet_folder().rglob("*.csv"))
    logs = [(f"R{k}", "W0", files[k % len(files)]) for k in range(8)]
    own = {"R6": {"gain": 1.02}, "R7": {"gain": 0.98}}
    return dynid.identify_fleet(fleet_robot(), logs, workers=1, friction=PLAIN, cutoff=8.0, robots=own)


changes("Fleet.differences", lambda **k: fleet_of_eight().differences(**k).rows(), alpha=0.999999)
changes("Fleet.report", fleet_page, alpha=0.999999)


HELD = {"kp": [45.0, 45.0, 25.0], "kd": [1.6, 1.6, 0.8], "loop": "drive"}
changes("identify_actuators", identify_leg, controller={**HELD, "kp": [40.0, 45.0, 25.0]})
changes("identify_actuators", lambda **k: identify_leg(controller=HELD, **k), delay=0.008)
changes("identify_actuators", lambda **k: identify_leg(controller=HELD, **k), polish=30)
changes("identify_actuators", lambda **k: identify_leg(controller=HELD, **k), validate=Later(simulate_leg))
changes("identify_actuators", lambda **k: identify_leg(controller=HELD, **k), sensor_delay=0.004)
changes("identify_actuators", lambda **k: identify_leg(controller=HELD, **k), links="thigh")
changes("identify_actuators", lambda **k: identify_leg(controller=HELD, **k), cutoff=6.0)
called("identify_actuators", lambda **k: identify_leg(controller=HELD, **k))
changes("simulate_actuators", simulate_leg, controller={"kp": 30.0, "kd": 1.0})
for name, value in (("delay", 0.02), ("armature", 0.03), ("damping", 0.4), ("frictionloss", 0.2), ("bits", 12)):
    changes("simulate_actuators", simulate_leg, **{name: value})
changes("simulate_actuators", simulate_leg, seed=1)
refused("simulate_actuators", "rate", simulate_leg, rate=500.0)
changes("design_excitation", design, purpose="actuators")
refused("design_excitation", "no purpose", design, purpose="legs")

# --------------------------------------------------------------------------------------------------------------- tests


def test_every_keyword_has_a_case() -> None:
    assert keywords() == set(CASES)


@pytest.mark.parametrize("key", sorted(CASES))
def test_no_argument_is_ignored(key: str) -> None:
    for case in CASES[key]:
        case()
