"""Results on disk: everything comes back exactly, and damaged files are one clear line."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import dynid
from dynid.errors import DynidError, IdentificationError
from dynid.estimation.diagnostics.hypotheses import Diagnosis
from dynid.estimation.diagnostics.unidentifiable import NO_EFFECT, Unidentifiable
from dynid.estimation.identification import Identification
from dynid.messages import Message
from dynid.robot.motion import Motion
from dynid.robot.robot import JointColumn
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque, with_friction
from robots import coupled_tree, random_tree


def same(left: Any, right: Any, place: str = "result") -> None:
    """Equal down to the last bit, NaN equal to NaN, arrays and dataclasses included."""
    assert type(left) is type(right), place
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, place
        assert_array_equal(left, right, err_msg=place)
    elif dataclasses.is_dataclass(left):
        for field in dataclasses.fields(left):
            if field.name == "tried":  # samples, which no file holds
                continue
            same(getattr(left, field.name), getattr(right, field.name), f"{place}.{field.name}")
    elif isinstance(left, tuple | list):
        assert len(left) == len(right), place
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            same(a, b, f"{place}[{k}]")
    elif isinstance(left, Mapping):
        assert left.keys() == right.keys(), place
        for key in left:
            same(left[key], right[key], f"{place}[{key!r}]")
    elif isinstance(left, float):
        assert left == right or (np.isnan(left) and np.isnan(right)), place
    else:
        assert left == right, place


def make(kind: str) -> tuple[Identification, Motion]:
    name = {"recipe": "puma560", "loop": "", "tree": "", "standing": "puma560"}.get(kind, "gautier3")
    robot = coupled_tree(1) if kind == "loop" else random_tree(4) if kind == "tree" else dynid.load_robot(name)
    robot = with_friction(robot)
    options: dict[str, Any] = {"friction": "auto" if kind in ("recipe", "load", "coupled", "standing") else PLAIN}
    if kind == "columns":
        x = np.linspace(-3.0, 3.0, 13)
        robot = dataclasses.replace(robot, columns=(JointColumn("gas", "2", positions=x, torque=np.sin(x)),))
        options |= {"columns": [JointColumn("more", "1", of="3", positions=x, torque=np.cos(x))]}
    if kind == "load":
        options |= {"friction": (*PLAIN, "load"), "cutoff": 8.0}
    if kind == "ridge":
        options |= {"estimator": "ridge", "rotor_inertia": False, "intervals": "white", "delay": 0.001}
    if kind == "joints":
        options |= {"joints": ["3", "1"], "known": {"Fv1": 1.0}, "validate": 0.3}
    if kind == "noisefree":
        options |= {"friction": ()}
        robot = dynid.load_robot(name)
    motion = fourier_motion(robot, rate=50.0, duration=0.5 if kind == "short" else 10.0)
    if kind == "standing":
        q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
        q[:, 2], v[:, 2], a[:, 2] = 0.3, 0.0, 0.0
        motion = Motion(motion.t, q, v, a)
    tau = torque(robot, motion)
    if kind != "noisefree":
        tau = tau + 0.1 * np.random.default_rng(0).standard_normal(tau.shape)
    logs = [log_of(motion, tau)]
    if kind == "offsets":
        logs, options = [*logs, log_of(motion, tau + 1.0, "second")], options | {"offsets_per_log": True}
    if kind == "coupled":
        logs[0].coupling = np.array([[1.0, 0.0, 0.0], [0.2, 1.0, 0.0], [0.0, -0.4, 1.0]])
    return dynid.identify(robot, logs, **options), motion


KINDS = (
    "recipe", "plain", "columns", "ridge", "joints", "offsets", "load", "coupled", "loop", "tree", "short", "standing",
    "noisefree",
)  # fmt: skip


def test_files_of_old_do_not_say_which_share_went_where(tmp_path: Path) -> None:
    """Written again they still do not; what has no effect has no share anyway."""
    result, _ = make("standing")
    name, advice = result.names[0], Message("move_all_joints", "move all joints")
    one, two = result.equation.names[:2]
    joined = Unidentifiable(one, f"they show {name} + {one} only", advice, ((name, 1.0),))
    result = result.replace(unidentifiable=(Unidentifiable(two, NO_EFFECT, advice), joined))
    result.save(tmp_path / "new.json")
    data = json.loads((tmp_path / "new.json").read_text())
    del data["lost_shares"]
    (tmp_path / "old.json").write_text(json.dumps(data))
    old = Identification.load(tmp_path / "old.json")
    old.save(tmp_path / "again.json")
    for found in (old, Identification.load(tmp_path / "again.json")):
        unknown = [item.shares is None for item in found.unidentifiable]
        assert unknown == [item.seen != NO_EFFECT for item in result.unidentifiable]
    with pytest.raises(IdentificationError, match="identify again") as error:
        dynid.payload_between(old, old)
    assert error.value.code == "result_lacks_lost_shares"


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back_exactly(kind: str, tmp_path: Path) -> None:
    result, motion = make(kind)
    file = tmp_path / "result.json"
    result.save(file)
    again = Identification.load(file)
    same(again, result)
    assert_array_equal(again.predict(motion), result.predict(motion))
    assert_array_equal(again.band(motion), result.band(motion))
    assert_array_equal(again.intervals, result.intervals)
    second = tmp_path / "again.json"
    again.save(second)
    assert second.read_bytes() == file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.json", "result.json"]


def test_python_functions_stay_behind_and_say_so(tmp_path: Path) -> None:
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot)
    column = JointColumn("cable", "1", function=lambda q, v: np.sin(q[:, 0] + q[:, 1]))
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN, columns=[column])
    result.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    assert_array_equal(again.values, result.values)
    with pytest.raises(DynidError, match="'cable' was a Python function"):
        again.predict(motion)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("good") / "result.json"
    make("plain")[0].save(file)
    return file.read_text()


@pytest.mark.parametrize("partial", [False, True])
def test_a_diagnosis_comes_back_also_from_files_that_do_not_say_whether_it_is_complete(
    text: str, tmp_path: Path, partial: bool
) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    result = Identification.load(file).replace(diagnosis=Diagnosis(0.1, (), 5, partial))
    result.save(file)
    stored = json.loads(file.read_text())["diagnosis"]
    assert stored == [0.1, [], 5, True][: 4 if partial else 3]
    found = Identification.load(file).diagnosis
    assert found is not None
    assert found.is_complete is not partial


def refused(tmp_path: Path, content: str | bytes) -> None:
    """The file is refused in one line that names it."""
    file = tmp_path / "bad.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(IdentificationError) as caught:
        Identification.load(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(file))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_truncated_files_are_refused(share: float, text: str, tmp_path: Path) -> None:
    refused(tmp_path, text[: int(share * len(text))])


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"[1, 2]", b"null", b"{}", b'{"format": "other"}', b"[" * 100_000, b"9" * 5000, b"NaN"],
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    refused(tmp_path, content)


def array(*shape: int, value: float = 1.0) -> dict[str, Any]:
    data = np.full(shape, value).tobytes()
    return {"shape": list(shape), "float64": base64.b64encode(data).decode()}


Change = Callable[[dict[str, Any]], Any]

DAMAGE: dict[str, Change] = {
    "version": lambda d: d.update(version=99),
    "version as text": lambda d: d.update(version="1.0"),
    "format": lambda d: d.update(format="dynid robot"),
    "foreign key": lambda d: d.update(surprise=1),
    "no values": lambda d: d.pop("values"),
    "no robot": lambda d: d.pop("robot"),
    "no factors": lambda d: d.update(factors=[]),
    "factors of fewer channels": lambda d: d["factors"][0].pop(),
    "factor of other columns": lambda d: d["factors"][0][0].update(R=array(3, 3)),
    "negative count": lambda d: d["factors"][0][0].update(count=-1),
    "base64": lambda d: d["values"].update(float64="@@@@"),
    "bytes left over": lambda d: d["values"].update(float64=d["values"]["float64"][:-4]),
    "text for an array": lambda d: d.update(values="1, 2, 3"),
    "too few values": lambda d: d.update(values=array(3)),
    "values in a matrix": lambda d: d.update(values=array(25, 1)),
    "empty shape": lambda d: d.update(values={"shape": [], "float64": ""}),
    "shape of three": lambda d: d.update(values=array(25, 1, 1)),
    "enormous shape": lambda d: d["values"].update(shape=[10**18]),
    "enormous empty shape": lambda d: d["values"].update(shape=[10**8, 0], float64=""),
    "values not finite": lambda d: d.update(values=array(len(d["parameters"]), value=np.nan)),
    "covariance of another size": lambda d: d.update(covariance=array(3, 3)),
    "noise of fewer channels": lambda d: d.update(noise=array(2)),
    "score of fewer channels": lambda d: d["fit"].update(rmse=array(2)),
    "scale of fewer joints": lambda d: d["equation"].update(scale=array(2)),
    "scale of zero": lambda d: d["equation"].update(scale=array(3, value=0.0)),
    "transmission of fewer joints": lambda d: d["equation"].update(transmission=array(2, 2)),
    "rigid of another size": lambda d: d["equation"].update(rigid=array(2)),
    "joint beyond": lambda d: d["equation"].update(joints=[0, 1, 7]),
    "negative joint": lambda d: d["equation"].update(joints=[-1, 0, 1]),
    "joint twice": lambda d: d["equation"].update(joints=[0, 0, 1]),
    "no joint": lambda d: d["equation"].update(joints=[]),
    "unknown block": lambda d: d["equation"].update(friction=["magic"]),
    "block left out": lambda d: d["equation"].update(friction=["viscous"]),
    "other parameter": lambda d: d["parameters"][0].update(name="QQ9"),
    "parameter twice": lambda d: d["parameters"][1].update(name=d["parameters"][0]["name"]),
    "essential stranger": lambda d: d.update(essential=["QQ9"]),
    "lost in a circle": lambda d: d.update(
        lost=[["M1", "", ""], ["M2", "", ""]], lost_shares=[[["M2", 1.0]], [["M1", 1.0]]]
    ),
    "huge quantile": lambda d: d.update(quantile=1e999),
    "delay of text": lambda d: d.update(delay="soon"),
    "verdict": lambda d: d["verdict"].__setitem__(0, "splendid"),
    "no link": lambda d: d["robot"].update(links=[]),
    "own parent": lambda d: d["robot"]["links"][0].update(parent=0),
    "cycle of parents": lambda d: d["robot"]["links"][0].update(parent=2),
    "parent beyond": lambda d: d["robot"]["links"][0].update(parent=10**30),
    "axis of zero": lambda d: d["robot"]["links"][0].update(axis=[0.0, 0.0, 0.0]),
    "rotation of zeros": lambda d: d["robot"]["links"][0].update(rotation=[[0.0] * 3] * 3),
    "huge length": lambda d: d["robot"]["links"][0].update(translation=[1e308, 0.0, 0.0]),
    "huge gravity": lambda d: d["robot"].update(gravity=[1e300, 0.0, 0.0]),
    "gravity of two": lambda d: d["robot"].update(gravity=[0.0, 0.0]),
    "kind": lambda d: d["robot"]["links"][0].update(kind="flying"),
    "other robot": lambda d: d["robot"]["links"].pop(),
    "coupling of strangers": lambda d: d["robot"].update(
        couplings=[{"passive": "9", "factors": [["8", 1.0]], "offset": 0.0}]
    ),
    "column of a stranger": lambda d: d["equation"].update(
        columns=[{"name": "x", "joint": "9", "of": "9", "positions": [0.0, 1.0], "torque": [0.0, 1.0]}]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_refused(damage: str, text: str, tmp_path: Path) -> None:
    data = json.loads(text)
    DAMAGE[damage](data)
    refused(tmp_path, json.dumps(data))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(IdentificationError, match="cannot be read"):
            Identification.load(path)


def test_nothing_is_half_written(tmp_path: Path) -> None:
    result, _ = make("plain")
    with pytest.raises(DynidError, match="cannot write"):
        result.save(tmp_path / "no" / "where.json")
    folder = tmp_path / "taken"
    folder.mkdir()
    with pytest.raises(DynidError, match="cannot write"):
        result.save(folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["taken"]


def test_a_result_is_one_line_in_a_notebook() -> None:
    robot = dynid.load_robot("gautier3")
    result = dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot), noise=0.1), friction=())
    assert repr(robot) == "<Robot 'gautier3': 3 joints (1, 2, 3), 33 parameters>"
    assert repr(result).startswith("<Identification of 'gautier3' (torque, wls): 16 parameters, validation NRMSE 0.0")
    assert len(repr(result)) < 200
