"""A script that only clicks maps raw CSV files without a header; the copied line gives what one by hand gives."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from browser import find_browser
from command_line import CommandLine
from dynid import load_robot, simulate
from robots import smooth_path
from webdriver import Clicker, clicker, find_driver

PLAIN = ("--friction", "viscous,coulomb,offset", "--cutoff", "20")
SI = {"t": "s", "q": "rad", "v": "rad/s", "tau": "Nm"}
KINDS = {"t": "time", "q": "position", "v": "velocity", "tau": "torque", "_": "not used"}


@pytest.fixture(scope="module")
def page() -> Iterator[Clicker]:
    driver, program = find_driver(), find_browser()
    if driver is None or program is None:
        pytest.skip("there is no chromedriver")
    with clicker(driver, program) as tab:
        yield tab


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


@dataclass(frozen=True)
class Raw:
    """A file: columns by channel and joint (q2), factors of their numbers, what to click, and options by hand."""

    columns: str
    factors: dict[str, float]
    units: dict[str, str]
    signs: tuple[str, ...] = ()
    gains: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()


FILES = {
    "other order": Raw("tau3 tau1 tau2 q3 q1 q2 t", {}, {}),
    "other units": Raw(
        "t q1 q2 q3 v1 v2 v3 tau1 tau2 tau3",
        {"t": 1e3, "q": 180.0 / np.pi, "v": 180.0 / np.pi, "tau": 1e3, "tau2": -1e3},
        {"t": "ms", "q": "deg", "v": "deg/s", "tau": "Nmm"}, ("tau of 2",),
        by_hand=("--units", "t=ms,q=deg,v=deg/s,tau=Nmm", "--sign", "tau.2"),
    ),
    "other gains": Raw(
        "_ t q2 tau2 q1 tau1 q3 tau3", {"tau1": 2.0, "tau2": 4.0, "tau3": 0.5}, {"tau": "A"}, (),
        ("0.5", "0.25", "2"), ("--units", "tau=A", "--gain", "0.5,0.25,2"),
    ),
}  # fmt: skip


def write_raw(path: Path, raw: Raw) -> None:
    """A CSV file of numbers alone."""
    robot = load_robot("gautier3")
    t = np.arange(0.0, 6.0, 0.01)
    log = simulate(robot, smooth_path(robot, t, scale=2.0), noise=0.02)
    assert log.tau is not None
    assert log.v is not None
    values: dict[str, NDArray[np.float64]] = {"t": t, "_": np.full(len(t), 7.0)}
    for channel, block in (("q", log.q), ("v", log.v), ("tau", log.tau)):
        values |= {f"{channel}{j + 1}": block[:, j] for j in range(3)}
    table = [values[name] * raw.factors.get(name, raw.factors.get(name.rstrip("123"), 1.0)) for name in names(raw)]
    np.savetxt(path, np.column_stack(table), delimiter=",", fmt="%.9g")


def names(raw: Raw) -> Sequence[str]:
    return raw.columns.split()


@pytest.mark.parametrize("kind", FILES)
def test_clicks_alone_give_the_line_written_by_hand(
    page: Clicker, dynid: CommandLine, tmp_path: Path, kind: str
) -> None:
    raw = FILES[kind]
    write_raw(tmp_path / "raw.csv", raw)
    dynid("inspect", "gautier3", "raw.csv", "--out", "inspect.html", code=1)
    page.open(tmp_path / "inspect.html")
    for k, name in enumerate(names(raw), start=1):
        channel = name.rstrip("123")
        page.choose(f"column {k}: channel", KINDS[channel])
        if channel in ("q", "v", "tau"):
            page.choose(f"column {k}: joint", name[-1])
        if channel != "_":
            page.choose(f"column {k}: unit", raw.units.get(channel, SI[channel]))
    assert page.text("//ul[@id='problems']") == ""
    again = shlex.split(page.copied("Copy this line"))
    assert again[:2] == ["dynid", "inspect"]
    dynid(*again[1:], code=None)
    page.open(tmp_path / "inspect.html")  # with the checks made anew
    for sign in raw.signs:
        joint = sign[-1]
        row = f"//table[@id='joint-table']/tbody/tr[th='{joint}']"
        assert "reversed" in page.text(f"{row}/td[1]")
        page.choose(f"sign of {sign}", "reversed")
        assert "reversed" not in page.text(f"{row}/td[1]")
    for j, gain in enumerate(raw.gains, start=1):
        page.choose(f"gain of {j}", gain)
    line = shlex.split(page.copied("Copy the line"))
    assert line[:2] == ["dynid", "identify"]
    dynid(*line[1:], *PLAIN, "--json", "clicked.json", code=None)
    header = ",".join(names(raw))
    dynid("identify", "gautier3", "raw.csv", "--header", header, *raw.by_hand, *PLAIN, "--json", "hand.json", code=None)
    (tmp_path / "dynid.toml").write_text(page.copied("Copy the file"))
    dynid("identify", *PLAIN, "--json", "project.json", code=None)
    clicked, by_hand, project = (
        json.loads((tmp_path / f"{x}.json").read_text()) for x in ("clicked", "hand", "project")
    )
    for key in ("names", "values", "sigma", "fit", "validation"):
        assert clicked[key] == by_hand[key] == project[key], key
    assert by_hand["verdict"]["level"] in ("good", "usable")


def test_hostile_names_stay_text_and_are_quoted(page: Clicker, dynid: CommandLine, tmp_path: Path) -> None:
    robot = load_robot("gautier3")
    t = np.arange(0.0, 3.0, 0.01)
    log = simulate(robot, smooth_path(robot, t, scale=2.0))
    evil = ["<img src=x onerror=document.title='caught'>", "';touch caught;'", "$(touch caught)"]
    arrays = {"t": t, **{f"q{j + 1}": log.q[:, j] for j in range(3)}}
    assert log.tau is not None
    arrays |= {name: log.tau[:, j] for j, name in enumerate(evil)} | {"matrix": np.ones((len(t), 2))}
    np.savez(tmp_path / "log.npz", **arrays)  # type: ignore[arg-type]
    dynid("inspect", "gautier3", "log.npz", "--out", "inspect.html", code=None)
    page.open(tmp_path / "inspect.html")
    assert page.ask("title") == "What is in log.npz?"
    assert page.text("//table[@id='column-table']/tbody/tr[5]/th") == f"5 {evil[0]}"
    for k in range(3):
        page.choose(f"column {k + 5}: channel", "torque")
        page.choose(f"column {k + 5}: joint", str(k + 1))
    line = page.copied("Copy the line")
    assert shlex.split(line)[-1] == f"tau={','.join(evil)}"
    assert re.search(r"'\"'\"';touch", line) or "'\"'\"'" in line
    dynid(*shlex.split(line)[1:], *PLAIN, code=None)
    assert not (tmp_path / "caught").exists()
