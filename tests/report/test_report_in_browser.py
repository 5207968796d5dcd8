"""The report in a real browser without any network: figures drawn, the robot turns, tables sort, it prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from browser import Tab, browser, find_browser
from dynid import Log, design_excitation, identify, load_robot, simulate, write_report
from dynid.report.excitation import write_page
from frictions import PLAIN, with_friction
from robots import smooth_path

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with logs, a comparison, and the page of an exciting motion."""
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
    write_report(found, places["report"], logs=logs[0], validate=logs[1])
    other = identify(robot, logs[1], friction=PLAIN, model="momentum")
    write_report([found, other], places["comparison"])
    return places


@pytest.fixture(scope="module")
def window() -> Iterator[Tab]:
    assert PROGRAM is not None
    with browser(PROGRAM) as tab:
        yield tab


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
    plots = window.run("document.querySelectorAll('.plot').length")
    assert plots >= {"report": 12, "comparison": 2, "motion": 6}[name]
    drawn = "[...document.querySelectorAll('.plot')].filter((p) => p.querySelector('.main-svg') && p.data.length)"
    assert window.run(drawn + ".length") == plots
    flat = "[...document.querySelectorAll('.plot')].filter((p) => !p.layout.scene)"
    marks = "p.querySelectorAll('path.js-line, path.point, .points path, .heatmaplayer image, .bars path').length > 0"
    assert window.run(f"{flat}.every((p) => {marks})")
    assert window.run("document.documentElement.scrollWidth") <= width
    assert window.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)"
    )


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


def test_the_robot_turns(report: Tab) -> None:
    report.run("document.querySelector('#robot .plot').scrollIntoView({block: 'center', behavior: 'instant'})")
    report.wait("document.querySelector('#robot .plot canvas') !== null")
    box = report.run("document.querySelector('#robot .plot').getBoundingClientRect().toJSON()")
    box = {key: box[key] for key in ("x", "y", "width", "height")}
    place = {**box, "y": box["y"] + report.run("scrollY")}
    camera = "document.querySelector('#robot .plot')._fullLayout.scene._scene.getCamera()"
    eye = f"(({{eye, center}}) => ['x', 'y', 'z'].map((k) => eye[k] - center[k]))({camera})"
    before, picture = report.run(eye), report.picture(clip=place)
    paper = "document.querySelector('#robot .paper')"
    report.wait(f"{paper} && {paper}.naturalWidth === 2 * 680")
    kept = report.run(f"{paper}.src")
    middle = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
    report.drag(*middle, 160.0, 40.0)
    after = report.run(eye)
    assert np.linalg.norm(np.subtract(after, before)) > 0.1
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before), rel=1e-3)  # turned, not zoomed
    assert report.picture(clip=place) != picture
    report.wait(f"{paper}.src !== {kept!r}")  # it is printed as it was looked at last
    report.swipe(*middle, -120.0, 30.0)
    assert np.linalg.norm(np.subtract(report.run(eye), after)) > 0.1
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


def test_names_are_texts(report: Tab) -> None:
    assert "<b>log</b> 0" in report.run("document.querySelector('#data').innerText")
    titles = report.run("[...document.querySelectorAll('#prediction h3')].map((h) => h.textContent)")
    assert titles == ["<b>log</b> 3 (validation)", "<b>log</b> 0 (used for fitting)"]
    drawn = report.run("document.querySelector('#prediction .plot .gtitle').textContent")
    assert drawn.startswith("joint <b>1</b><a href='http://x.y'>, error")
    assert not report.run("document.querySelectorAll('.plot a').length")


def test_on_paper_tables_repeat_their_heads_and_drawings_are_pictures(report: Tab) -> None:
    report.ask("Emulation.setEmulatedMedia", media="print")
    shown = "getComputedStyle(document.querySelector('{}')).{}"
    assert report.run(shown.format("th button", "display")) == "contents"  # a control would not be repeated
    assert report.run(shown.format("#robot .plot", "display")) == "none"
    assert report.run(shown.format("#robot .paper", "display")) == "block"
    assert report.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    report.ask("Emulation.setEmulatedMedia", media="")


def test_it_prints(report: Tab) -> None:
    printed = report.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 50_000
    check_quiet(report)
