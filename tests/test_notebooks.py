"""In notebooks: results in a line, as escaped HTML, as polars frames and as figures; the two notebooks run."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dynid import (
    BaseParameters,
    Comparison,
    Excitation,
    Identification,
    Log,
    PhysicalParameters,
    Robot,
    base_parameters,
    compare_estimators,
    design_excitation,
    identify,
    load_robot,
    physical_parameters,
    simulate,
)
from dynid.demo import robot_to_simulate
from fourier import fourier_motion

ROOT = Path(__file__).parents[1]
EVIL = "<script>alert('x')</script>\x1b[2J"
PLAIN = {"friction": ("viscous", "coulomb", "offset"), "cutoff": 10.0}


@cache
def things() -> dict[type, Any]:
    """One of each, of a robot whose name and joints are markup."""
    arm = robot_to_simulate(load_robot("gautier3"))[0]
    links = tuple(replace(link, joint=f"{link.joint}{EVIL}") for link in arm.links)
    robot = replace(arm, name=EVIL, links=links)
    motion = fourier_motion(robot, duration=12.0)
    recorded = simulate(robot, motion, noise=0.05)
    assert recorded.tau is not None
    log = Log(recorded.t, recorded.q, tau=recorded.tau, name=EVIL)
    result = identify(robot, log, **PLAIN)  # type: ignore[arg-type]
    limits = {"position": [(-2.0, 2.0)] * 3, "velocity": [1.5] * 3, "acceleration": [5.0] * 3}
    return {
        Robot: robot, Log: log, Identification: result, PhysicalParameters: physical_parameters(result),
        BaseParameters: base_parameters(robot), Comparison: compare_estimators(robot, log, **PLAIN),  # type: ignore[arg-type]
        Excitation: design_excitation(robot, limits=limits, criterion="d", starts=1, seed=0),
    }  # fmt: skip


KINDS = (Robot, Log, Identification, PhysicalParameters, BaseParameters, Comparison, Excitation)


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_a_line_or_two(kind: type) -> None:
    text = repr(things()[kind])
    assert text.startswith(f"<{kind.__name__} ")
    assert len(text) < 400
    assert "array(" not in text
    assert text.isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_html_escapes_what_files_call_things(kind: type) -> None:
    page = things()[kind]._repr_html_()
    assert page.startswith("<table>")
    assert "<script" not in page
    assert "\x1b" not in page
    assert kind is Comparison or "&lt;script&gt;" in page
    tags = re.findall(r"</?([a-z]+)", page)
    assert set(tags) <= {"table", "thead", "tbody", "tr", "th", "td", "p", "code"}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_polars_frames(kind: type) -> None:
    frame = things()[kind].table()
    assert isinstance(frame, pl.DataFrame)
    assert frame.height > 0


def test_the_table_of_a_result_holds_its_values_and_intervals() -> None:
    result = things()[Identification]
    frame = result.table()
    assert frame["parameter"].to_list() == [str(name) for name in result.names]
    np.testing.assert_array_equal(frame["value"].to_numpy(), result.values)
    np.testing.assert_array_equal(frame.select("low", "high").to_numpy(), result.intervals)
    base = things()[BaseParameters].table()
    assert base.filter(pl.col("status") == "base").height == things()[BaseParameters].count


def test_figures_are_those_of_the_report() -> None:
    pytest.importorskip("plotly")
    log = things()[Log]
    figures = things()[Identification].plot(log)
    assert {"correlation", "condition"} <= set(figures)
    drawn = next(figure for name, figure in figures.items() if name.startswith("prediction"))
    measured, residual = drawn.data[0], drawn.data[-1]
    assert measured.name == "measured"
    assert len(residual.y) == len(measured.x) > 100
    assert "correlation" in repr(figures)
    assert json.loads(drawn.to_json())["layout"]["template"]
    for kind in (BaseParameters, Comparison, Excitation):
        found = things()[kind].plot()
        assert found
        assert all("<script" not in figure.to_json() for figure in found.values()), kind


NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cell by cell, stored without outputs; what a cell ends with can be shown."""
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    cells = json.loads(file.read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown"
    names: dict[str, Any] = {}
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        assert not cell["outputs"]
        *lines, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(lines, []), file.name, "exec"), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), file.name, "eval"), names)
            assert shown is None or len(repr(shown)) > 5
        else:
            exec(compile(ast.Module([last], []), file.name, "exec"), names)


def test_there_are_two_notebooks_and_the_docs_name_them() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert len(NOTEBOOKS) == 2
    assert all(file.name in page for file in NOTEBOOKS)
