"""`--sign`, `--zero` and `--order` as a person types them: the same figures as of the right log, and clear refusals."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dynid as library
from command_line import CommandLine
from dynid import Robot, Wiring, read_log
from dynid.cli import log_options
from dynid.cli.output.recordings import write_log
from dynid.errors import DynidError
from dynid.messages import Option
from loads import LOAD, robot_with_friction, two_logs
from log_writers import random_samples, write_npz

PLAIN = ("--friction", "viscous,coulomb,offset")
FIX = ("--sign", "tau.3", "--sign", "q.1", "--zero", "2=90deg", "--order", "tau=2,1,3")
MISTAKES = Wiring(
    order_tau=np.array([1, 0, 2]), sign_q=np.array([-1.0, 1.0, 1.0]), sign_tau=np.array([1.0, 1.0, -1.0]),
    zero=np.array([0.0, -np.pi / 2, 0.0]),
)  # fmt: skip


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of gautier3 with and without a payload, right, and recorded with mistakes."""
    folder = tmp_path_factory.mktemp("logs")
    for name, log in zip(("with", "without"), two_logs(robot_with_friction("gautier3"), LOAD, noise=0.01), strict=True):
        write_log(folder / f"{name}.csv", log)
        write_log(folder / f"{name}_wrong.csv", log.rewired(MISTAKES))
    return folder


def run(dynid: CommandLine, out: Path, *words: object) -> Any:
    dynid(*words, "--json", out, code=None)
    return json.loads(out.read_text())


def test_identify_gives_the_figures_of_the_right_log(dynid: CommandLine, logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "facts.json"
    right = run(dynid, out, "identify", "gautier3", logs / "without.csv", *PLAIN)
    fixed = run(dynid, out, "identify", "gautier3", logs / "without_wrong.csv", *PLAIN, *FIX)
    wrong = run(dynid, out, "identify", "gautier3", logs / "without_wrong.csv", *PLAIN)
    assert_allclose(fixed["values"], right["values"], rtol=1e-9, atol=1e-9)
    assert_allclose(fixed["sigma"], right["sigma"], rtol=1e-6)
    assert not np.allclose(wrong["values"], right["values"], rtol=0.1)
    held = ("--validate", f"{logs / 'without_wrong.csv'}@50%:")
    part = run(dynid, out, "identify", "gautier3", f"{logs / 'without_wrong.csv'}@:50%", *PLAIN, *FIX, *held)
    assert np.mean(part["validation"]["nrmse"]) < 0.05  # logs to validate are read alike


@pytest.mark.parametrize("command", ["payload", "gains"])
def test_payloads_and_gains_too(dynid: CommandLine, logs: Path, tmp_path: Path, command: str) -> None:
    known = ("--mass", 2.0, "--com", "0.05,-0.03,0.12") if command == "gains" else ()
    results = [
        run(
            dynid, tmp_path / "facts.json", command, "gautier3", "--loaded", logs / f"with{end}.csv", "--unloaded",
            logs / f"without{end}.csv", *PLAIN, *known, *fix,
        )
        for end, fix in (("", ()), ("_wrong", FIX))
    ]  # fmt: skip
    assert_allclose(results[1]["values"], results[0]["values"], rtol=1e-6, atol=1e-9)


def test_a_report_reads_its_logs_with_them(dynid: CommandLine, logs: Path, tmp_path: Path) -> None:
    result, other = tmp_path / "result.json", tmp_path / "other.json"
    dynid("identify", "gautier3", logs / "without_wrong.csv", *PLAIN, *FIX, "--out", result, code=None)
    other.write_bytes(result.read_bytes())
    pages = []
    for fix in ((), FIX):
        page = tmp_path / "page.html"
        dynid("report", result, "--log", logs / "without_wrong.csv", *fix, "--out", page, code=None)
        pages.append(page.read_text().replace(" ".join(("", *FIX)), ""))
    assert pages[0] != pages[1]
    assert "tau.4" in dynid.fails("report", result, "--log", logs / "with.csv", "--sign", "tau.4")
    for option, value in (("--sign", "tau.1"), ("--zero", "1=2"), ("--order", "1,2,3")):
        assert option in dynid.fails("report", result, option, value)
        assert option in dynid.fails("payload", "gautier3", "--loaded", result, "--unloaded", other, option, value)


def test_the_viewer_shows_a_log_with_them(logs: Path) -> None:
    from dynid.cli.output.motions import read_joint_path

    robot = library.load_robot("gautier3")
    paths = [
        read_joint_path(logs / name, robot, log_options.LogReader.from_options(robot, (), (), None, None, None, **fix))  # type: ignore[arg-type]
        for name, fix in (
            ("with.csv", {}),
            ("with_wrong.csv", {"sign": ["q.1"], "zero": ["2=90deg"]}),
        )
    ]
    assert_allclose(paths[0].q, paths[1].q, atol=1e-14)


@pytest.mark.parametrize(
    "words",
    [
        ("--sign", "tau.4"), ("--sign", "tau3"), ("--sign", "tau.1", "--sign", "tau.1"), ("--zero", "2"),
        ("--zero", "2=x"), ("--zero", "2=nan"), ("--zero", "2=3mm"), ("--zero", "9=1"),
        ("--zero", "2=1", "--zero", "2=1"), ("--zero", "=1"), ("--order", "1,2"),
        ("--order", "1,2,2"), ("--order", "1,2,4"), ("--order", ""),
        ("--order", "v=1,2,3"), ("--order", "1,2,3", "--order", "tau=1,2,3"),
        ("--order", "q=1,2,3", "--order", "q=1,2,3"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(
    dynid: CommandLine, logs: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    error = dynid.fails("identify", "gautier3", logs / "with.csv", *words, "--out", tmp_path / "result.json")
    assert words[0] in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("--gravity", "-9.81,0,0"), ("--gravity=-9.81,0,0",), ("--gravity", "0,0,9.81")])
def test_gravity_may_begin_with_a_minus(dynid: CommandLine, logs: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    given = tuple(float(x) for x in words[-1].removeprefix("--gravity=").split(","))
    assert Option("gravity", given).render("command line").split() == " ".join(words).replace("=", " ").split()
    found = run(dynid, tmp_path / "facts.json", "identify", "gautier3", logs / "without.csv", *PLAIN, *words)
    robot = library.load_robot("gautier3", gravity=given)
    assert tuple(found["names"][:-9]) == library.base_parameters(robot).names


ODD = ("a,b", "a", "b", "x=y", "tau=a", "p.q", "has space", "-dash", "q", "it's", "10%", "e[0]")


def odd_arm(names: tuple[str, ...]) -> Robot:
    return Robot.from_mdh([{"name": name, "alpha": 1.0} for name in names])


@pytest.mark.parametrize("seed", range(10))
def test_options_that_are_proposed_can_be_pasted(seed: int, tmp_path: Path) -> None:
    """The words of a wiring's options, split by a shell and read again, are the same wiring, whatever joints' names."""
    names = tuple(name for name in ODD if name != "a,b") if seed % 2 else ODD[:1] + ODD[3:]
    robot, n, rng = odd_arm(names), len(names), np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (2, n))
    zero = np.radians(rng.integers(-180, 180, n).astype(float)) * (rng.random(n) < 0.5) + 0.123456789 * (
        rng.random(n) < 0.3
    )
    order = rng.permutation(n)
    wiring = Wiring(order, order if seed < 4 else rng.permutation(n), sign_q=signs[0], sign_tau=signs[1], zero=zero)
    typed = " ".join(option.render("command line") for option in wiring.options(robot))
    words: dict[str, list[str]] = {"sign": [], "zero": [], "order": []}
    pieces = shlex.split(typed)
    for key, value in zip(pieces[::2], pieces[1::2], strict=True):
        words[key.removeprefix("--")].append(value)
    reader = log_options.LogReader.from_options(robot, (), (), None, None, None, **words)  # type: ignore[arg-type]
    samples = random_samples(n, rows=10)
    file = write_npz(tmp_path / "log.npz", samples)
    read = reader.read_log(str(file))
    assert_allclose(read.wiring.zero, zero, atol=1e-15)
    assert_array_equal(read.tau, np.asarray(wiring.apply(samples).tau))
    assert_allclose(read.q, wiring.apply(samples).q, atol=1e-15)
    python = eval(f"dict({', '.join(option.render('python') for option in wiring.options(robot))})")
    same = read_log(file, robot, **python)
    assert_array_equal(same.q, wiring.apply(samples).q)


def test_names_with_commas_that_can_be_read_in_two_ways_are_refused() -> None:
    robot = odd_arm(("a,b", "a", "b"))
    assert log_options.parse_orders(["b,a,b,a"], robot) == ["b", "a,b", "a"]
    with pytest.raises(DynidError) as caught:
        log_options.parse_orders(["a,b,a,b"], robot)
    assert caught.value.code == "ambiguous_joint_names"


def test_names_are_taken_with_blanks_around_commas() -> None:
    assert log_options.parse_orders(["tau=a, b"], odd_arm(("a", "b"))) == {"tau": ["a", "b"]}
