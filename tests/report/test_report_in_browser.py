"""The report in a real browser without any network: figures drawn, the robot turns, tables sort, it prints."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from browser import Tab, browser, find_axe, find_browser
from dynid import Log, design_excitation, identify, load_robot, physical_parameters, simulate, write_report
from dynid.report.excitation import write_page
from frictions import PLAIN, with_friction
from robots import smooth_path

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with logs, a comparison, the page of an exciting motion, and that of an inspected log."""
    folder = tmp_path_factory.mktemp("pages")
    plain = with_friction(load_robot("gautier3"))
    links = tuple(replace(link, joint=f"<b>{link.joint}</b><a href='http://x.y'>") for link in plain.links)
    robot = replace(plain, links=links)
    logs = []
    for seed in (0, 3):
        motion = smooth_path(robot, np.arange(0.0, 8.0, 0.01), seed=seed, scale=2.0)
        log = simulate(robot, motion, noise=0.05, seed=seed)
        logs.append(Log(log.t, log.q, tau=log.tau, name=f"<b>log</b> {seed}"))
    found = identify(robot, logs[0], friction=PLAIN)
    places = {name: folder / f"{name}.html" for name in ("report", "comparison", "motion")}
    limits = {"position": [(-2.0, 2.0)] * 3, "velocity": [1.5] * 3, "acceleration": [5.0] * 3}
    write_page(design_excitation(robot, limits=limits, starts=3, harmonics=2), places["motion"])
    bodies = physical_parameters(found)
    write_report(found, places["report"], logs=logs[0], validate=logs[1], physical=bodies)
    other = identify(robot, logs[1], friction=PLAIN, model="momentum")
    write_report([found, other], places["comparison"])
    raw, places["inspection"] = folder / "raw.csv", folder / "inspection.html"
    assert logs[0].tau is not None
    np.savetxt(raw, np.column_stack([logs[0].t, logs[0].q, logs[0].tau]), delimiter=",")
    subprocess.run(
        [sys.executable, "-m", "dynid", "inspect", "gautier3", raw, "--out", places["inspection"]],
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return places


@pytest.fixture(scope="module")
def window() -> Iterator[Tab]:
    assert PROGRAM is not None
    with browser(PROGRAM) as tab:
        yield tab


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_an_inspected_log_fits_a_phone(window: Tab, pages: dict[str, Path], dark: bool) -> None:
    window.open(pages["inspection"], width=390, height=850, phone=True, dark=dark)
    check_quiet(window)
    assert window.run("document.documentElement.scrollWidth") <= 390
    assert window.run("document.querySelectorAll('select').length") > 20


def check_quiet(tab: Tab) -> None:
    """Nothing was asked of a network, nothing was complained about."""
    assert not tab.complaints
    assert all(url.startswith(("file:", "data:", "blob:")) for url in tab.requests), tab.requests


@pytest.mark.parametrize(
    ("name", "width", "phone", "dark"),
    [
        ("report", 1200, False, False),
        ("report", 390, True, True),
        ("comparison", 1200, False, False),
        ("comparison", 390, True, True),
        ("motion", 390, True, True),  # wide: below
    ],
)
def test_it_opens_offline_with_all_figures(
    window: Tab, pages: dict[str, Path], name: str, width: int, phone: bool, dark: bool
) -> None:
    window.open(pages[name], width=width, height=850, phone=phone, dark=dark)
    check_quiet(window)
    visible = "[...document.querySelectorAll('.plot')].filter((p) => p.checkVisibility())"
    plots = window.run(f"{visible}.length")
    assert plots >= {"report": 10, "comparison": 2, "motion": 5}[name]
    assert window.run(f"{visible}.filter((p) => p.querySelector('.main-svg') && p.data.length).length") == plots
    marks = "p.querySelectorAll('path.js-line, path.point, .points path, .heatmaplayer image, .bars path').length > 0"
    assert window.run(f"{visible}.every((p) => {marks})")
    for canvas in range(window.run("document.querySelectorAll('canvas.robot').length")):
        inked = f"""((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.filter((x) => x).length)
                    (document.querySelectorAll("canvas.robot")[{canvas}])"""
        assert window.run(inked) > 2000
    assert window.run("document.documentElement.scrollWidth") <= width
    assert window.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)"
    )


AXE = find_axe()


@pytest.mark.skipif(AXE is None, reason="no axe-core: npm install axe-core, or AXE_CORE=axe.min.js")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("name", ["report", "comparison", "motion", "inspection"])
def test_it_is_accessible(window: Tab, pages: dict[str, Path], name: str, width: int, dark: bool) -> None:
    assert AXE is not None
    window.open(pages[name], width=width, height=850, phone=width < 500, dark=dark)
    window.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert window.accessibility_violations(AXE) == []
    check_quiet(window)


@pytest.mark.parametrize("dark", [False, True])
def test_curves_stand_out_from_their_ground(window: Tab, pages: dict[str, Path], dark: bool) -> None:
    """Contrast of measured, identified, nominal and residual as drawn is 3:1 at least (WCAG 1.4.11)."""
    window.open(pages["report"], width=1200, height=850, dark=dark)
    ground = window.run("getComputedStyle(document.body).backgroundColor")
    drawn = "p.querySelectorAll('.scatterlayer path.js-line')"
    lines = f"[...document.querySelectorAll('.plot[data-channel=\"0\"]')].flatMap((p) => [...{drawn}])"
    colours = window.run(f"{lines}.map((line) => getComputedStyle(line).stroke)")
    assert len(set(colours)) == 4
    dashes = window.run(f"{lines}.map((line) => line.style.strokeDasharray)")
    assert sum(bool(dash) and dash != "none" and dash != "0px" for dash in dashes) == len(dashes) // 4  # nominal
    assert all(contrast(colour, ground) >= 3.0 for colour in colours)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours `rgb(r, g, b)` by WCAG 2."""
    lights = []
    for colour in (one, other):
        share = np.array([float(x) / 255.0 for x in re.findall(r"[\d.]+", colour)[:3]])
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        lights.append(float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(lights) / min(lights)


def test_the_search_is_drawn(window: Tab, pages: dict[str, Path]) -> None:
    window.open(pages["motion"], width=1000, height=900)
    lines = "[...document.querySelectorAll('#search .plot .scatterlayer path.js-line')]"
    assert window.run(f"{lines}.length") == 3
    heights = window.run(f"{lines}.map((line) => line.getBBox().height)")
    assert min(heights) > 20.0
    widths = window.run(f"{lines}.map((line) => parseFloat(line.style.strokeWidth))")
    assert widths[-1] == max(widths) > 2 * widths[0]  # the chosen one is in front
    assert "of 3 starts ended within 10 %" in window.run("document.querySelector('#search').innerText")
    ticks = window.run("[...document.querySelectorAll('#search .plot .ytick text')].map((text) => text.textContent)")
    assert len(ticks) >= 2
    check_quiet(window)


@pytest.fixture(scope="module")
def report(window: Tab, pages: dict[str, Path]) -> Tab:
    """The report, opened once for the tests below."""
    window.open(pages["report"], width=1000, height=900, dark=True)
    return window


CANVAS = "document.querySelector('canvas.robot')"


def test_the_robot_turns(report: Tab) -> None:
    report.run(f"{CANVAS}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = report.run(f"{CANVAS}.getBoundingClientRect().toJSON()")
    view, shown = f"[{CANVAS}.azimuth, {CANVAS}.elevation]", f"{CANVAS}.toDataURL()"
    before, picture = report.run(view), report.run(shown)
    middle = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
    report.drag(*middle, 100.0, 40.0)
    after = report.run(view)
    assert np.linalg.norm(np.subtract(after, before)) > 0.1
    assert report.run(shown) != picture
    report.swipe(*middle, -100.0, 5.0)
    assert np.linalg.norm(np.subtract(report.run(view), after)) > 0.1
    report.run(f"{CANVAS}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowLeft'}}))")
    assert report.run(view) != after
    check_quiet(report)


CURVES = "[...document.querySelectorAll('.plot[data-clock]')].filter((p) => p.checkVisibility())"


def cursor_times(tab: Tab) -> list[float]:
    """Time at the cursor's line of every visible figure, from where the line is on the screen."""
    where = """(p) => {
      const line = p.querySelector(".cursor").getBoundingClientRect(), axis = p._fullLayout.xaxis;
      return line.height ? axis.p2d(line.left + line.width / 2 - p.getBoundingClientRect().left - axis._offset) : NaN;
    }"""
    return list(tab.run(f"{CURVES}.map({where})"))


def ranges(tab: Tab) -> list[list[float]]:
    return list(tab.run(f"{CURVES}.map((p) => p._fullLayout.xaxis.range)"))


def test_a_click_on_a_worst_moment_takes_every_view_there(report: Tab) -> None:
    moments = "[...document.querySelectorAll('button.moment')]"
    assert 1 <= report.run(f"{moments}.length") <= 10
    joints = f"JSON.stringify({CANVAS}.joints)"
    report.run("document.querySelector('.slider').value = 0")
    report.run("document.querySelector('.slider').dispatchEvent(new Event('input'))")
    before = report.run(joints)
    for k in (0, 1):
        report.run(f"{moments}[{k}].click()")
        report.run("new Promise((done) => setTimeout(done, 600))")
        t, clock = (float(report.run(f"{moments}[{k}].dataset.{name}")) for name in ("t", "clock"))
        assert report.run("document.querySelector('.log:not([hidden])').dataset.clock") == str(int(clock))
        assert_allclose(cursor_times(report), t, atol=0.01)
        assert len(cursor_times(report)) == 3 + 1
        assert float(report.run(f"{CANVAS}.dataset.t")) == pytest.approx(t, abs=0.01)
        assert report.run(joints) != before
        before = report.run(joints)
    check_quiet(report)


def test_zoom_of_one_figure_is_that_of_all(report: Tab) -> None:
    report.run("document.querySelector('.reset').click()")
    report.run("new Promise((done) => setTimeout(done, 300))")
    whole = ranges(report)
    assert_allclose(whole, [whole[0]] * len(whole))
    report.run(f"{CURVES}[1].scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = report.run(f"{CURVES}[1].querySelector('.nsewdrag').getBoundingClientRect().toJSON()")
    report.drag(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"], 0.3 * box["width"], 2.0)
    report.run("new Promise((done) => setTimeout(done, 600))")
    zoomed = ranges(report)
    assert_allclose(zoomed, [zoomed[0]] * len(zoomed), atol=1e-6)
    span = whole[0][1] - whole[0][0]
    assert_allclose(np.subtract(zoomed[0], whole[0][0]) / span, [0.3, 0.6], atol=0.02)
    report.run("document.querySelector('.reset').click()")
    report.run("new Promise((done) => setTimeout(done, 300))")
    assert_allclose(ranges(report), whole, atol=1e-6)
    check_quiet(report)


def test_the_cursor_of_one_figure_is_that_of_all(report: Tab) -> None:
    report.run(f"{CURVES}[0].scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = report.run(f"{CURVES}[0].querySelector('.nsewdrag').getBoundingClientRect().toJSON()")
    for share in (0.25, 0.5):
        place = {"x": box["x"] + share * box["width"], "y": box["y"] + 0.5 * box["height"]}
        report.ask("Input.dispatchMouseEvent", type="mouseMoved", **place)
        report.run("new Promise((done) => setTimeout(done, 300))")
    low, high = ranges(report)[0]
    assert_allclose(cursor_times(report), low + 0.5 * (high - low), atol=0.02 * (high - low))
    hover = report.run(f"{CURVES}[0].querySelector('.hoverlayer').textContent")
    assert all(word in hover for word in ("measured", "identified", "residual", "N m", "t ="))
    check_quiet(report)


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_figures_are_downloaded(report: Tab, kind: str, tmp_path: Path) -> None:
    report.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    report.run(f"document.querySelector('#prediction .save [data-format={kind}]').click()")
    end = time.monotonic() + 20.0
    while not list(tmp_path.glob(f"*.{kind}")):
        assert time.monotonic() < end
        time.sleep(0.1)
    (file,) = tmp_path.glob(f"*.{kind}")
    assert file.read_bytes().startswith(b"\x89PNG" if kind == "png" else b"<svg")
    check_quiet(report)


def test_tables_sort(report: Tab) -> None:
    table = "document.querySelector('#parameters table')"
    column = f"[...{table}.tBodies[0].rows].map((row) => Number(row.cells[3].dataset.key))"
    words = f"[...{table}.tBodies[0].rows].map((row) => row.cells[0].textContent)"
    names = report.run(words)
    for sign, order in ((1, "ascending"), (-1, "descending")):
        report.run(f"{table}.tHead.rows[0].cells[3].querySelector('button').click()")
        values = sign * np.array(report.run(column))
        assert (np.diff(values) >= 0.0).all()
        assert report.run(f"{table}.tHead.rows[0].cells[3].getAttribute('aria-sort')") == order
    report.run(f"{table}.tHead.rows[0].cells[0].querySelector('button').click()")
    assert sorted(names) == sorted(report.run(words))
    assert report.run(words)[:2] == ["Fc1", "Fc2"]


def test_tables_are_searched_grouped_and_copied(report: Tab) -> None:
    box = "document.querySelector('#parameters .table')"
    rows = f"[...{box}.querySelectorAll('tbody tr:not(.heading)')].filter((row) => !row.hidden)"
    every = report.run(f"{rows}.length")
    report.run(f"{box}.querySelector('.only').click()")
    essential = report.run(f"{rows}.length")
    assert 0 < essential < every
    assert report.run(f"{rows}.every((row) => row.cells[2].textContent === '\u2605')")
    report.run(f"{box}.querySelector('.only').click()")
    report.run(
        f"((field) => {{ field.value = 'zz'; field.dispatchEvent(new Event('input')); }})({box}.querySelector('.find'))"
    )
    assert 0 < report.run(f"{rows}.length") < every
    assert report.run(f"{rows}.every((row) => row.textContent.toLowerCase().includes('zz'))")
    report.run(
        f"((field) => {{ field.value = ''; field.dispatchEvent(new Event('input')); }})({box}.querySelector('.find'))"
    )
    report.run(f"{box}.querySelector('.group').click()")
    heads = report.run(f"[...{box}.querySelectorAll('tr.heading')].map((row) => row.textContent)")
    assert len(heads) == 3
    assert all(head.startswith("joint <b>") for head in heads)  # a text
    report.run(f"{box}.querySelector('.copy').click()")
    report.wait(f"{box}.querySelector('.copy').dataset.csv")
    copied = list(csv.DictReader(report.run(f"{box}.querySelector('.copy').dataset.csv").splitlines()))
    assert len(copied) == every
    keys = report.run(f"Object.fromEntries({rows}.map((row) => [row.cells[0].textContent, row.cells[3].dataset.key]))")
    assert {row["parameter"]: row["value"] for row in copied} == keys
    report.run(f"{box}.querySelector('.group').click()")


def test_the_correlation_matrix_is_folded(report: Tab) -> None:
    matrix = "document.querySelector('#correlation details .plot')"
    assert not report.run(f"{matrix}.checkVisibility()")
    sizes = report.run(
        "[...document.querySelectorAll('#correlation tbody tr')].map((row) => Math.abs(row.cells[2].dataset.key))"
    )
    assert (np.diff(sizes) <= 0.0).all()
    report.run("document.querySelector('#correlation summary').click()")
    report.wait(f"{matrix}.querySelector('.heatmaplayer image') !== null")


def test_names_are_texts(report: Tab) -> None:
    assert "<b>log</b> 0" in report.run("document.querySelector('#data').innerText")
    titles = report.run("[...document.querySelectorAll('#prediction .log-name')].map((h) => h.textContent)")
    assert titles == ["<b>log</b> 3 (validation)", "<b>log</b> 0 (used for fitting)"]
    tile = report.run("document.querySelector('#prediction .tile .name').textContent")
    assert tile.startswith("joint <b>")
    assert tile.endswith("</b><a href='http://x.y'>")
    assert "<b>" in report.run("document.querySelector('#prediction .plot[data-channel=\"-1\"] .legend').textContent")
    assert not report.run("document.querySelectorAll('.plot a').length")


def test_on_paper_tables_repeat_their_heads_and_nothing_is_hidden(report: Tab) -> None:
    report.ask("Emulation.setEmulatedMedia", media="print")
    report.run("dispatchEvent(new Event('beforeprint'))")
    shown = "getComputedStyle(document.querySelector('{}')).{}"
    assert report.run(shown.format("th button", "display")) == "contents"  # a control would not be repeated
    assert report.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    every = "[...document.querySelectorAll('.plot')]"
    assert report.run(f"{every}.every((p) => p.checkVisibility() && p.querySelector('.main-svg'))")
    assert report.run(f"Math.max(...{every}.map((p) => p._fullLayout.width))") <= 680
    assert report.run(shown.format(".tools", "display")) == "none"
    report.resize(680, 900)
    assert (
        report.run("Math.max(...[...document.querySelectorAll('table')].map((t) => t.getBoundingClientRect().right))")
        <= 680
    )
    report.resize(1000, 900)
    report.run("dispatchEvent(new Event('afterprint'))")
    report.ask("Emulation.setEmulatedMedia", media="")
    assert report.run("document.querySelectorAll('.log[hidden]').length") == 1


def test_it_prints(report: Tab) -> None:
    printed = report.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 50_000
    check_quiet(report)
