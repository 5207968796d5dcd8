"""Mistakes in the wiring of a log are undone exactly: read with the options, it is the right one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dynid
from dynid import Log, Wiring, read_log
from dynid.errors import DynidError, LogError
from dynid.logs.content import ContentMarker
from dynid.logs.log import Samples
from dynid.messages import Option
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import with_friction
from log_makers import log_of
from log_writers import (
    WRITERS,
    as_columns,
    bag_messages,
    channel,
    csv_text,
    random_samples,
    write_bag,
    write_csv,
    write_npz,
)  # fmt: skip
from plates import arm

G3 = load_robot("gautier3")
NAMES = ("q", "v", "a", "tau")


def random_wiring(n: int, seed: int, *, zero: bool = True) -> Wiring:
    rng = np.random.default_rng(seed)
    q, v, a, tau = rng.choice([-1.0, 1.0], (4, n))
    zeros = rng.standard_normal(n) if zero else np.zeros(n)
    return Wiring(rng.permutation(n), rng.permutation(n), q, v, a, tau, zeros)


def inverse(w: Wiring) -> Wiring:
    """The mistakes that a wiring undoes."""
    q, tau = np.argsort(w.order_q), np.argsort(w.order_tau)
    return Wiring(q, tau, w.sign_q[q], w.sign_v[q], w.sign_a[q], w.sign_tau[tau], -(w.zero * w.sign_q)[q])


def keywords(wiring: Wiring, robot: Robot) -> dict[str, Any]:
    return {option.keyword: option.value for option in wiring.options(robot)}


def assert_same(one: Log | Samples, other: Log | Samples, rtol: float = 0.0, atol: float = 0.0) -> None:
    for name in ("t", *NAMES):
        x, y = getattr(one, name), getattr(other, name)
        if x is None or y is None:
            assert x is y
        else:
            assert_allclose(x, y, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", WRITERS)
def test_reading_with_the_options_undoes_the_mistakes_in_every_format(name: str, tmp_path: Path) -> None:
    right, wiring = random_samples(3), random_wiring(3, seed=len(name), zero=False)
    wrong = WRITERS[name](tmp_path / name, inverse(wiring).apply(right))
    log = read_log(wrong, G3, **keywords(wiring, G3))
    assert_same(log, right)
    assert_same(read_log(wrong, G3).rewired(wiring), right)
    for field in ("order_q", "order_tau", "sign_q", "sign_v", "sign_a", "sign_tau", "zero"):
        assert_array_equal(getattr(log.wiring, field), getattr(wiring, field))


def test_zeros_are_added_after_order_and_sign(tmp_path: Path) -> None:
    samples = random_samples(3)
    file = write_csv(tmp_path / "log.csv", samples)
    log = read_log(file, G3, order=["3", "1", "2"], sign=["q.1"], zero={"1": "-90deg", "2": 0.25, "3": "0.5 rad"})
    assert_array_equal(log.q, samples.q[:, [1, 2, 0]] * [-1, 1, 1] + [-pi / 2, 0.25, 0.5])
    assert_array_equal(channel(log._all_samples, "v"), channel(samples, "v")[:, [1, 2, 0]] * [-1, 1, 1])
    assert_array_equal(channel(log._all_samples, "tau"), channel(samples, "tau")[:, [1, 2, 0]])


@pytest.mark.parametrize(
    ("sign", "turned"),
    [("q.2", "q v a"), ("v.2", "v"), ("a.2", "a"), ("tau.2", "tau"), (["q.2", "v.2"], "q a"), (["v.2", "q.2"], "q a")],
)
def test_the_sign_of_a_position_turns_velocities_and_accelerations(sign: Any, turned: str, tmp_path: Path) -> None:
    samples = random_samples(3)
    log = read_log(write_csv(tmp_path / "log.csv", samples), G3, sign=sign)
    for name in NAMES:
        factor = [1, -1 if name in turned.split() else 1, 1]
        assert_array_equal(getattr(log, name), channel(samples, name) * factor)
    assert keywords(log.wiring, G3) == {"sign": sorted([sign] if isinstance(sign, str) else sign)}


def test_an_order_may_concern_one_channel(tmp_path: Path) -> None:
    samples = random_samples(3)
    file = write_csv(tmp_path / "log.csv", samples)
    order = ["2", "3", "1"]  # the first column is that of joint 2, so joint 1 has the last one
    whole, tau, q = (read_log(file, G3, order=given) for given in (order, {"tau": order}, {"q": order}))
    taken = [2, 0, 1]
    for name in NAMES:
        x = channel(samples, name)
        assert_array_equal(getattr(whole, name), x[:, taken])
        assert_array_equal(getattr(tau, name), x[:, taken] if name == "tau" else x)
        assert_array_equal(getattr(q, name), x if name == "tau" else x[:, taken])
    assert keywords(whole.wiring, G3) == {"order": order}
    assert keywords(tau.wiring, G3) == {"order": {"tau": order}}


@pytest.mark.parametrize("seed", range(8))
def test_wirings_compose_as_they_are_applied(seed: int) -> None:
    samples, (one, two, three) = random_samples(4, rows=20), (random_wiring(4, 3 * seed + k) for k in range(3))
    assert_same(two.apply(one.apply(samples)), one.then(two).apply(samples), atol=1e-15)
    assert_same(one.then(two).then(three).apply(samples), one.then(two.then(three)).apply(samples), atol=1e-14)
    assert_same(inverse(one).then(one).apply(samples), samples, atol=1e-15)
    assert not inverse(replace(one, zero=np.zeros(4))).then(replace(one, zero=np.zeros(4))).options(arm4())
    for unchanged in (Wiring(), Wiring(zero=np.zeros(4))):
        assert_same(one.then(unchanged).apply(samples), unchanged.then(one).apply(samples))
        assert not unchanged.options(arm4())


def arm4() -> Robot:
    return Robot.from_mdh([{"alpha": 1.0}] * 4)


def motor_file(path: Path, joint: Samples, gear: Array, gain: Array, mistakes: Wiring) -> Path:
    """The signals of coupled motors, recorded with mistakes: the wires are those of the motors."""
    q, v, a = (channel(joint, name) @ gear.T for name in ("q", "v", "a"))
    torques = np.linalg.solve(gear.T, channel(joint, "tau").T).T / gain
    return write_csv(path, mistakes.apply(Samples(joint.t, q, v, a, torques)))


@pytest.mark.parametrize("coupled", [False, True])
def test_orders_and_signs_are_those_of_motors_and_zeros_those_of_joints(coupled: bool, tmp_path: Path) -> None:
    gear = np.diag([100.0, -60.0, 80.0])
    gear[2, 1] = 40.0 * coupled
    gain, zero = np.array([0.5, 1.5, 2.0]), np.array([0.0, -pi / 2, 0.7])
    joint, wiring = random_samples(3), random_wiring(3, seed=5, zero=False)
    off = replace(joint, q=joint.q - zero)
    options: dict[str, Any] = {"gear": gear.tolist() if coupled else np.diag(gear), "gain": gain}
    file = motor_file(tmp_path / "log.csv", off, gear, gain, inverse(wiring))
    both = replace(wiring, zero=zero)
    read = read_log(file, G3, **options, **keywords(both, G3))
    assert_same(read, joint, rtol=1e-12, atol=1e-13)
    assert (read.coupling is not None) == coupled
    plain = read_log(file, G3, **options)
    assert_same(plain.rewired(both), joint, rtol=1e-12, atol=1e-13)
    assert_same(plain.rewired(wiring).rewired(Wiring(zero=zero)), joint, rtol=1e-12, atol=1e-13)
    # zeros that were corrected before go with the motors whose wires are found exchanged later
    early = plain.rewired(Wiring(zero=np.array([0.1, 0.2, 0.3]))).rewired(wiring)
    motors = (plain.q + np.array([0.1, 0.2, 0.3])) @ gear.T
    wired = motors[:, wiring.order_q] * wiring.sign_q
    assert_allclose(early.q, np.linalg.solve(gear, wired.T).T, atol=1e-12)
    again = read_log(file, G3, **options, **keywords(early.wiring, G3))
    assert_same(again, early, atol=1e-15)


def test_units_of_the_header_are_those_of_columns_and_units_of_the_user_those_of_joints(tmp_path: Path) -> None:
    robot = Robot.from_mdh([{}, {"type": "prismatic", "alpha": pi / 2}], name="rp")
    q = random_samples(2).q
    head = {"t": random_samples(2).t, "q1 [mm]": 1e3 * q[:, 1], "q2 [deg]": np.rad2deg(q[:, 0])}
    (tmp_path / "head.csv").write_text(csv_text(head))
    plain = {"t": random_samples(2).t, "q1": 1e3 * q[:, 1], "q2": np.rad2deg(q[:, 0])}
    (tmp_path / "plain.csv").write_text(csv_text(plain))
    options: dict[str, Any] = {"order": ["2", "1"], "zero": {"2": "12.5mm"}}
    for name, units in (("head.csv", None), ("plain.csv", {"q": ["deg", "mm"]})):
        log = read_log(tmp_path / name, robot, units=units, **options)
        assert_allclose(log.q, q + np.array([0.0, 0.0125]), rtol=1e-14)
        later = read_log(tmp_path / name, robot, units=units).rewired(log.wiring)
        assert_same(later, log)


def named(samples: Samples, names: tuple[str, ...]) -> dict[str, Array]:
    return {"t": samples.t} | {f"{c}.{x}": channel(samples, c)[:, j] for c in NAMES for j, x in enumerate(names)}


ARM = Robot.from_mdh([{"name": name, "alpha": 1.0} for name in ("pan", "lift", "elbow")])


@pytest.mark.parametrize("bag", [False, True])
def test_order_counts_the_columns_of_the_file_where_these_name_joints(bag: bool, tmp_path: Path) -> None:
    """What is true of the file changes nothing, as in a bag whose joints come by the alphabet."""
    samples, alphabet = random_samples(3), ("elbow", "lift", "pan")
    if bag:
        samples = replace(samples, a=None)
        file = write_bag(tmp_path / "bag", bag_messages(samples, alphabet))
    else:
        file = tmp_path / "log.csv"
        file.write_text(csv_text(named(samples, alphabet)))
    right = read_log(file, ARM)
    assert_array_equal(right.q, samples.q[:, ::-1])
    assert_same(read_log(file, ARM, order=list(alphabet)), right)
    names_wrong = read_log(file, ARM, order={"tau": ["lift", "elbow", "pan"]})
    assert_array_equal(channel(names_wrong._all_samples, "tau"), channel(samples, "tau")[:, [2, 0, 1]])
    assert_array_equal(names_wrong.q, right.q)
    for seed in range(5):  # and the options of any wiring say the same as it
        one = right.rewired(random_wiring(3, seed))
        options = keywords(one.wiring, ARM)
        if bag:
            options["sign"] = [x for x in options.get("sign", ()) if not x.startswith("a.")]
        assert_same(read_log(file, ARM, **options), one)


def test_parts_and_sources_of_any_kind_keep_their_wiring(tmp_path: Path) -> None:
    samples, one, two = random_samples(3), random_wiring(3, 1), random_wiring(3, 2)
    file = write_npz(tmp_path / "log.npz", samples)
    memory = Log(samples.t, samples.q, v=samples.v, a=samples.a, tau=samples.tau)
    for log in (read_log(file, G3), memory, log_of(samples, 70)):
        whole = log.rewired(one).rewired(two)
        assert_same(whole, one.then(two).apply(samples), atol=1e-15)
        part = log.between(0.1, 0.3)
        for cut in (
            whole.between(0.1, 0.3),
            part.rewired(one).rewired(two),
            log.rewired(one).between(0.1, 0.3).rewired(two),
        ):
            assert cut.name == part.name
            assert_same(cut, one.then(two).apply(part._all_samples), atol=1e-15)
            assert keywords(cut.wiring, G3) == keywords(one.then(two), G3)
        assert len(list(whole.chunks(64))) >= 7
        for a, b in zip(whole.chunks_of_whole_recording(), [whole], strict=True):
            assert_same(a, b)
        assert log.wiring.options(G3) == ()
    assert_same(memory, samples)  # the log itself stays as it is
    assert memory.wiring.n == memory.between(0.1, 0.3).wiring.n == read_log(file, G3).wiring.n == 3
    again = pickle.loads(pickle.dumps(one))
    assert_same(again.apply(samples), one.apply(samples))


@pytest.mark.parametrize("robot", ["sr400", "slider_crank", "panda"])
def test_joints_are_those_whose_torques_are_recorded(robot: str, tmp_path: Path) -> None:
    """Also of robots with loops and of locked joints."""
    loaded = load_robot(robot, lock={"3": 0.5} if robot == "panda" else None)
    samples, wiring = random_samples(loaded.n, rows=20), random_wiring(loaded.n, 3)
    file = write_npz(tmp_path / "log.npz", samples)
    assert_same(read_log(file, loaded, **keywords(wiring, loaded)), wiring.apply(samples))


def test_content_of_a_corrected_log_is_that_of_the_right_one(tmp_path: Path) -> None:
    right, wiring = random_samples(3), random_wiring(3, 4, zero=False)
    wrong = read_log(write_csv(tmp_path / "log.csv", inverse(wiring).apply(right)), G3)
    contents = []
    for log in (Log(right.t, right.q, tau=right.tau), wrong.rewired(wiring), wrong):
        marker = ContentMarker()
        for chunk in log.chunks(90):
            marker.add_samples(chunk)
        contents.append(marker.content())
    assert_array_equal(contents[0].marks, contents[1].marks)
    assert contents[0].shared_intervals(contents[1]) == [(-np.inf, np.inf)]
    assert contents[0].shared_intervals(contents[2]) == []


def test_identification_of_a_corrected_log_is_that_of_the_right_one(tmp_path: Path) -> None:
    """To the last bit for orders and signs; zeros round positions once."""
    robot = with_friction(arm("gautier3"))
    right = dynid.simulate(robot, fourier_motion(robot, duration=6.0, rate=50.0), noise=0.2)._all_samples
    right = replace(right, a=None, reaction=None)
    wiring = random_wiring(3, 7, zero=False)
    off = np.array([0.0, pi / 2, -0.3])
    files = {}
    for name, samples in (
        ("right", right),
        ("wrong", inverse(wiring).apply(right)),
        ("off", replace(right, q=right.q - off)),
    ):
        files[name] = tmp_path / f"{name}.csv"
        columns = {key: x for key, x in as_columns(replace(samples, a=samples.q)).items() if not key.startswith("a")}
        files[name].write_text(csv_text(columns))
    options = keywords(wiring, robot)
    options["sign"] = [entry for entry in options["sign"] if not entry.startswith("a.")]
    plain: dict[str, Any] = {"friction": ("viscous", "coulomb", "offset")}
    expected = dynid.identify(robot, read_log(files["right"], robot), **plain)
    found = dynid.identify(robot, read_log(files["wrong"], robot, **options), **plain)
    assert_array_equal(found.values, expected.values)
    assert_array_equal(found.sigma, expected.sigma)
    assert_array_equal(found.validation.nrmse, expected.validation.nrmse)
    assert found.origin.inputs[0].sha256 != expected.origin.inputs[0].sha256
    moved = dynid.identify(robot, read_log(files["off"], robot, zero={"2": "90deg", "3": -0.3}), **plain)
    assert_allclose(moved.values, expected.values, rtol=1e-8, atol=1e-8)
    uncorrected = dynid.identify(robot, read_log(files["wrong"], robot), **plain)
    assert np.mean(uncorrected.validation.nrmse) > 2.0 * np.mean(expected.validation.nrmse)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"sign": "tau.elbo"}, "unknown_sign"), ({"sign": ["elbow"]}, "unknown_sign"), ({"sign": 3}, "unknown_sign"),
    ({"sign": [["tau.elbow"]]}, "unknown_sign"), ({"sign": {"tau.elbow": 1}}, "unknown_sign"),
    ({"sign": ["tau.elbow", "tau.elbow"]}, "sign_twice"), ({"sign": "a.elbow"}, "channel_not_recorded"),
    ({"zero": {"elbo": 1.0}}, "unknown_joint"), ({"zero": {"elbow": np.nan}}, "zero_not_finite"),
    ({"zero": {"elbow": "1e999"}}, "zero_not_finite"), ({"zero": {"elbow": True}}, "zero_not_finite"),
    ({"zero": {"elbow": "right angle"}}, "zero_not_finite"), ({"zero": {"elbow": None}}, "zero_not_finite"),
    ({"zero": {"elbow": "3mm"}}, "unit_unfit_for_joint"), ({"zero": {"elbow": "3turns"}}, "unit_unfit_for_joint"),
    ({"zero": ["elbow"]}, "zero_malformed"), ({"zero": 0.5}, "zero_malformed"),
    ({"order": ["pan", "lift"]}, "order_incomplete"), ({"order": ["pan", "lift", "lift"]}, "order_incomplete"),
    ({"order": ["pan", "lift", "elbo"]}, "unknown_joint"), ({"order": "pan,lift,elbow"}, "order_malformed"),
    ({"order": {"v": ["pan", "lift", "elbow"]}}, "unknown_channel"), ({"order": [1, 2, 0]}, "order_malformed"),
    ({"order": {"tau": "pan"}}, "order_malformed"), ({"order": 3}, "order_malformed"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "code"), BAD)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], code: str, tmp_path: Path) -> None:
    samples = random_samples(3, rows=20)
    columns = {name: x for name, x in named(samples, ARM.joint_names).items() if not name.startswith("a.")}
    (tmp_path / "log.csv").write_text(csv_text(columns))
    with pytest.raises(LogError) as caught:
        read_log(tmp_path / "log.csv", ARM, **options)
    assert caught.value.code == code
    assert str(caught.value).startswith(str(tmp_path / "log.csv"))
    assert caught.value.remedy or code == "zero_malformed" or code.startswith("order"), caught.value


def test_sliding_joints_have_lengths(tmp_path: Path) -> None:
    robot = Robot.from_mdh([{"name": "slide", "type": "prismatic"}])
    file = write_csv(tmp_path / "log.csv", random_samples(1, rows=20))
    assert_allclose(read_log(file, robot, zero={"slide": "-3 mm"}).q, random_samples(1, rows=20).q - 0.003)
    for unit in ("deg", "rad"):
        with pytest.raises(LogError) as caught:
            read_log(file, robot, zero={"slide": f"3{unit}"})
        assert caught.value.code == "unit_unfit_for_joint"


def test_a_wiring_belongs_to_so_many_joints() -> None:
    samples = random_samples(3, rows=20)
    log = Log(samples.t, samples.q, tau=samples.tau)
    for call in (lambda: log.rewired(random_wiring(4, 0)), lambda: random_wiring(4, 0).options(G3)):
        with pytest.raises(DynidError) as caught:
            call()
        assert caught.value.code == "joint_count_mismatch"
    with pytest.raises(DynidError) as caught:
        Wiring(sign_q=[1, -1], zero=[0.0, 0.0, 0.0])  # type: ignore[arg-type]
    assert caught.value.code == "invalid_wiring"


@pytest.mark.parametrize(
    ("option", "python", "typed"),
    [
        (Option("sign", ["tau.elbow", "q.a b"]), "sign=['tau.elbow', 'q.a b']", "--sign tau.elbow --sign 'q.a b'"),
        (Option("zero", {"elbow": -pi / 2}), "zero={'elbow': -1.5707963267948966}", "--zero elbow=-90deg"),
        (Option("zero", {"a": np.float64(-1.5708), "b": 1e-12}), "zero={'a': -1.5708, 'b': 1e-12}",
         "--zero a=-1.5708 --zero b=1e-12"),
        (Option("order", ["pan", "lift"]), "order=['pan', 'lift']", "--order pan,lift"),
        (Option("order", {"q": ["a"], "tau": ["b"]}), "order={'q': ['a'], 'tau': ['b']}", "--order q=a --order tau=b"),
        (Option("gravity", (np.float64(-9.81), 0.0, 0.0)), "gravity=(-9.81, 0.0, 0.0)", "--gravity -9.81,0,0"),
    ],
)  # fmt: skip
def test_options_are_rendered_for_both_fronts(option: Option, python: str, typed: str) -> None:
    assert option.render("python") == python
    assert option.render("command line") == typed
