"""The page on an exciting motion: limits, path, condition, expected errors, escaping."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy.testing import assert_allclose

from dynid import Excitation, design_excitation, load_robot
from dynid.dynamics.kernels.links import link_poses
from dynid.excitation.starts import Descent, SearchHistory
from dynid.report.excitation import condition_numbers_of_first_rows, describe_search, draw_search, write_page
from dynid.report.page import draw_path, plotly_script
from pinocchio_twin import Twin

EVIL = "</script><script>alert(1)</script>"


@cache
def designed() -> Excitation:
    limits = {"position": [(-2.0, 2.0)] * 3, "velocity": [1.5] * 3, "acceleration": [5.0] * 3}
    return design_excitation(load_robot("gautier3"), limits=limits, starts=1, harmonics=3)


def test_the_page_shows_limits_path_condition_and_errors(tmp_path: Path) -> None:
    found = designed()
    write_page(found, tmp_path / "m.html", noise=0.1)
    page = (tmp_path / "m.html").read_text().replace(plotly_script(), "")
    assert re.findall(r'<section id="(\w+)"', page) == ["before", "motion", "path", "search", "progress", "expected"]
    assert not re.search(r"https?://", page)
    figures = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert len(figures) == 3 + 1 + 1 + 1
    limits = [trace for trace in figures[0]["data"] if trace["line"]["dash"] == "1px,4px"]
    assert len(limits) == 2 * 3
    assert figures[3]["path"]
    assert all(f">{name}<" in page for name in found.rows.names)
    for name, error in found.expected_errors(0.1).items():
        assert f'data-key="{error}"' in page, name


def descents(*ends: float, refused: int = 0, falling: bool = False, **more: object) -> SearchHistory:
    """Starts that fall from 100 to their ends in 100 iterations."""
    k = np.arange(101)
    shape = np.maximum(0.0, 1.0 - k / (100 if falling else 50))
    made = [Descent(i, np.append(k, 100), np.append(end + (100.0 - end) * shape, end), 1.0, i < refused)
            for i, end in enumerate(ends)]  # fmt: skip
    chosen = min(made[refused:], key=lambda one: one.final_value).start
    given: dict[str, object] = {"planned": len(ends), "stopped": False, **more}
    return SearchHistory("condition", tuple(made), chosen, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (descents(10.0, 10.5, 10.9, 12.0), "3 of 4 starts ended within 10 % of the best, which is start 1. The best"),
        (descents(10.0, 10.5, 10.9, 12.0), "more starts would hardly help"),
        (descents(20.0, 30.0, 10.0, 40.0), "1 of 4 starts ended within 10 % of the best, which is start 3. Starts end"),
        (descents(10.0, 10.5, falling=True), "still fell by"),
        (descents(10.0, 10.5, planned=8, stopped=True), "2 of 8 starts were run; more time (--time-budget)"),
        (descents(10.0), "Only one start was tried; more of them (--starts 4)"),
        (descents(9.0, 10.0, 10.2, refused=1), "1 better ones were refused"),
    ],
)
def test_the_search_is_told(history: SearchHistory, said: str) -> None:
    assert said in describe_search(history, 15)
    drawn = draw_search(history)
    assert len(drawn.traces) == len(history.descents)
    assert drawn.traces[-1]["name"] == f"start {history.chosen + 1}: this motion"


def test_a_motion_without_a_search_has_no_such_section(tmp_path: Path) -> None:
    write_page(replace(designed(), history=None), tmp_path / "m.html")
    assert 'id="search"' not in (tmp_path / "m.html").read_text()


def test_the_condition_falls_to_that_of_the_motion() -> None:
    share, condition = condition_numbers_of_first_rows(designed().matrix)
    assert share[-1] == 1.0
    assert condition[-1] == pytest.approx(designed().condition, rel=1e-8)
    half = len(designed().matrix) // 2
    k = int(np.argmin(np.abs(share - 0.5)))
    rows = designed().matrix[: round(share[k] * len(designed().matrix))]
    assert condition[k] == pytest.approx(np.linalg.cond(rows), rel=1e-8)
    assert abs(len(rows) - half) < 0.05 * half


def test_the_path_is_that_of_the_last_link() -> None:
    robot, q = load_robot("puma560"), np.random.default_rng(3).uniform(-1.0, 1.0, (5, 6))
    figure = draw_path(robot, np.arange(5.0), q)
    assert figure is not None
    assert figure.shows_path
    ((t, tree),) = figure.poses
    assert_allclose(t, np.arange(5.0))
    path = link_poses(robot, tree).position[robot.topological_order[-1]]
    twin = Twin(robot)
    for row, point in zip(q, path, strict=True):
        pin.forwardKinematics(twin.model, twin.data, row)
        assert_allclose(point, twin.data.oMi[twin.joint[5]].translation, atol=1e-6)


def test_names_are_escaped(tmp_path: Path) -> None:
    robot = designed().robot
    links = tuple(replace(link, joint=EVIL + link.joint, name=EVIL, label=EVIL + link.label) for link in robot.links)
    limits = {"position": [(-2.0, 2.0)] * 3, "velocity": [1.5] * 3, "acceleration": [5.0] * 3}
    strange = design_excitation(replace(robot, links=links, name=EVIL), limits=limits, starts=1, harmonics=2)
    write_page(strange, tmp_path / "m.html")
    assert EVIL not in (tmp_path / "m.html").read_text()
