"""The page of `dynid base --report`: every parameter is on it, with its reason and its remedies."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from campaign.loops import four_bar

from command_line import CommandLine
from dynid import Robot, base_parameters, load_robot
from dynid.identifiability.explanation import explain, explain_all
from dynid.report.parameters import write_base_page


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def table_rows(page: str, caption: str) -> list[list[str]]:
    """Texts of the cells of a table."""
    table = re.search(rf"<caption>{caption}</caption>.*?</table>", page, re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr>(<td.*?)</tr>", table[0], re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]


def test_all_parameters_that_are_not_kept_have_a_reason_and_remedies(dynid: CommandLine, tmp_path: Path) -> None:
    page, base = tmp_path / "base.html", base_parameters(load_robot("gautier3"))
    assert str(page) in dynid("base", "gautier3", "--report", page).out.replace("\n", "")
    text = page.read_text(encoding="utf-8")
    rows = table_rows(text, "Parameters that are not kept")
    assert [row[0] for row in rows] == [name for name in base.columns if name in {*base.regrouped, *base.no_effect}]
    assert all(row[3] != "-" for row in rows)
    by_name = {row[0]: row for row in rows}
    assert by_name["MX1"][5:8] == ["reveals it", "reveals it", "Fx Fy Mx My"]
    assert by_name["YY2"][5:8] == ["no", "no", "no"]
    assert "Invisible change" in text
    assert 'class="robot"' in text  # the skeleton
    assert base.relations[0].partition(" = ")[0] in text


def test_one_explanation_is_the_same_alone_and_among_all() -> None:
    base = base_parameters(load_robot("gautier3"))
    for one in explain_all(base)[::4]:
        alone = explain(base, one.parameter)
        assert (alone.status, alone.rule, alone.trials, alone.changes) == (
            one.status,
            one.rule,
            one.trials,
            one.changes,
        )


def test_loops_and_reactions_have_pages(dynid: CommandLine, tmp_path: Path) -> None:
    page = tmp_path / "base.html"
    dynid("base", "slider_crank", "--model", "reaction", "--report", page)
    text = page.read_text(encoding="utf-8")
    assert "the loop moves the link only together with others" in text
    assert "not on the base" in text


def test_robots_that_do_not_close_at_zero_are_drawn_where_they_are_assembled(tmp_path: Path) -> None:
    """A parallelogram without limits: at q = 0 it is at a dead point."""
    rows = [{}, {"d": "B"}, {"parent": 0, "d": "G"}]
    tree = Robot.from_mdh(rows, gravity=(0.0, -9.81, 0.0), symbols={"G": 0.5, "B": 0.3})
    (closure,) = four_bar(0.5, 0.3, 0.5, 0.3, at=1.0).closures  # type: ignore[union-attr]
    write_base_page(base_parameters(replace(tree, closures=(closure,))), tmp_path / "base.html")
    text = (tmp_path / "base.html").read_text(encoding="utf-8")
    assert 'class="robot"' in text
    assert "Invisible change" in text


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    robot = Robot.from_mdh([{}, {"alpha": 1.0}], name="<script>alert(1)</script>")
    write_base_page(base_parameters(robot), tmp_path / "base.html")
    assert "<script>alert(1)" not in (tmp_path / "base.html").read_text(encoding="utf-8")


def test_wrong_uses_are_told(dynid: CommandLine, tmp_path: Path) -> None:
    assert "--report" in dynid("base", "scara", "--report", tmp_path / "base.txt", code=2).err
    dynid("base", "scara", "--report", tmp_path / "a.html", "--method", "all", code=2)
    dynid("base", "scara", "--report", tmp_path / "none" / "a.html", code=2)
