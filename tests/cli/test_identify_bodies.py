"""`dynid identify --physical --urdf`: from a log to a URDF that pinocchio loads, in one command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio
import pytest

from bodies import with_bodies
from command_line import CommandLine
from dynid import PhysicalParameters, identify, load_robot, physical_parameters, simulate
from dynid import export as exported
from dynid.cli.output.recordings import write_log
from dynid.errors import DynidError
from fourier import fourier_motion


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A URDF and a log of it."""
    folder = tmp_path_factory.mktemp("bodies")
    robot = with_bodies("gautier3", 3)
    exported(robot, folder / "arm.urdf")
    loaded = load_robot(folder / "arm.urdf")
    rotors = np.where([name.startswith("Ia") for name in loaded.parameter_names], 0.2, loaded.parameters)
    robot = loaded.with_parameters(rotors)
    write_log(folder / "log.csv", simulate(robot, fourier_motion(robot, duration=20.0), noise=0.02))
    return folder / "arm.urdf", folder / "log.csv"


def test_from_a_log_to_a_urdf(dynid: CommandLine, files: tuple[Path, Path], tmp_path: Path) -> None:
    urdf, log = files
    bodies, out = tmp_path / "bodies.json", tmp_path / "new.urdf"
    done = dynid("identify", urdf, log, "--friction", "none", "--physical", bodies, "--urdf", out)
    assert str(out) in done.out
    assert "verdict: good" in done.out
    found = PhysicalParameters.load(bodies)
    model = pinocchio.buildModelFromUrdf(str(out))
    data, motion = model.createData(), fourier_motion(found.robot, seed=4)
    a, middle = np.zeros(model.nv), pinocchio.neutral(model)
    tau = np.array([
        pinocchio.rnea(model, data, pinocchio.integrate(model, middle, q), v, a)
        for q, v in zip(motion.q, motion.v, strict=True)
    ])  # fmt: skip
    nominal = load_robot(urdf)
    still = simulate(nominal, type(motion)(motion.t, motion.q, motion.v, np.zeros_like(motion.a))).tau
    assert still is not None
    assert np.abs(tau - still).max() < 0.02 * np.abs(still).max()


def test_identify_takes_what_is_known_of_bodies(dynid: CommandLine, files: tuple[Path, Path], tmp_path: Path) -> None:
    urdf, log = files
    mass = "M" + load_robot(urdf).links[-1].label
    known = ("--total-mass", "9", "--bound", f"{mass}=1:2", "--prior-weight", "0.5")
    refused = dynid.fails("identify", urdf, log, *known)
    assert "--total-mass" in refused
    assert "--physical" in refused
    both = []
    for command in (
        ("identify", urdf, log, "--friction", "none", "--out", tmp_path / "r.json", "--physical", tmp_path / "b.json"),
        ("physical", tmp_path / "r.json", "--out", tmp_path / "p.json"),
    ):
        dynid(*command, *known, code=None)  # some of it may be a warning
        both.append(PhysicalParameters.load(Path(command[-1])))
    assert both[0].total_mass == pytest.approx(9.0, rel=1e-6)
    assert 1.0 - 1e-6 <= both[0].value(mass) <= 2.0 + 1e-6
    assert both[0].prior_weight == 0.5
    np.testing.assert_allclose(both[0].values, both[1].values)


def test_packages_are_those_of_the_geometry_too(
    dynid: CommandLine, files: tuple[Path, Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A mesh of another package holds the last link: its centre of mass is inside; both commands find it."""
    urdf, log = files
    name = load_robot(urdf).links[-1].name
    corners = [(x, y, z) for x in (-0.05, 0.05) for y in (-0.05, 0.05) for z in (0.05, 0.15)]
    parts = tmp_path_factory.mktemp("far") / "deep" / "parts"
    (parts / "shapes").mkdir(parents=True)
    (parts / "package.xml").write_text("<package><name>parts</name></package>")
    obj = "".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "f 1 2 3\n"
    (parts / "shapes" / "last.obj").write_text(obj)
    shape = '<collision><geometry><mesh filename="package://parts/shapes/last.obj"/></geometry></collision>'
    text = urdf.read_text(encoding="utf-8")
    at = text.index(">", text.index(f'<link name="{name}"')) + 1
    geometry = tmp_path / "arm.urdf"
    geometry.write_text(text[:at] + shape + text[at:], encoding="utf-8")
    known = ("--geometry", geometry, "--package-path", parts)
    result, bodies, again = (tmp_path / f"{x}.json" for x in "rbp")
    dynid("identify", urdf, log, "--friction", "none", "--out", result, "--physical", bodies, *known, code=None)
    dynid("physical", result, "--out", again, *known, code=None)
    found = PhysicalParameters.load(bodies)
    np.testing.assert_allclose(found.values, PhysicalParameters.load(again).values)
    centre = found.robot.links[-1].inertia[6:9] / found.robot.links[-1].inertia[9] - [0.0, 0.0, 0.1]
    assert np.linalg.norm(centre) < 0.05 * np.sqrt(3.0) * 1.01


def test_places_are_checked_before_the_work(dynid: CommandLine, files: tuple[Path, Path], tmp_path: Path) -> None:
    urdf, log = files
    assert "must end in .urdf" in dynid.fails("identify", urdf, log, "--urdf", tmp_path / "x.xml")
    assert "there is no folder" in dynid.fails("identify", urdf, log, "--physical", tmp_path / "no" / "x.json")
    for option in ("--urdf", "--json"):
        assert "this is one of the inputs" in dynid.fails("identify", urdf, log, option, urdf)
    same = tmp_path / "x.json"
    assert "two outputs name the same file" in dynid.fails("identify", urdf, log, "--physical", same, "--out", same)


def test_unknown_geometry_has_no_bodies(tmp_path: Path) -> None:
    robot = load_robot("puma560")
    result = identify(robot, simulate(robot, fourier_motion(robot)), unknown=("D3",), friction=())
    with pytest.raises(DynidError, match="bodies need the geometry"):
        physical_parameters(result)
    with pytest.raises(DynidError, match="unknown geometry cannot be exported"):
        exported(result, tmp_path / "x.c")
