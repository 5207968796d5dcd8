"""Make the pictures of pages in docs/pictures, in Debian's Chromium without a network.

python -m bench.pictures [FOLDER]
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid import (
    Log,
    Motion,
    Robot,
    design_excitation,
    identify,
    load_robot,
    physical_parameters,
    simulate,
    write_report,
)
from dynid.demo import robot_to_simulate
from dynid.report.excitation import write_page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Tab, browser, find_browser  # noqa: E402

WIDTH, HEIGHT = 1200, 860


def real_robot(robot: Robot) -> Robot:
    """A robot that its file describes badly: a fifth heavier, and with friction."""
    heavier = robot.with_parameters(1.2 * robot.parameters)
    friction = (("viscous", 1.5), ("coulomb", 2.0), ("offset", 0.3))
    return replace(heavier, links=tuple(replace(link, friction=friction) for link in heavier.links))


def record(real: Robot, seed: int) -> Log:
    """A recording of ten seconds with noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 10.0, 0.005)
    w = rng.uniform(0.5, 3.0, (4, real.n))
    phase = t[:, None, None] * w + rng.uniform(0.0, 6.0, w.shape)
    size = 0.6 / w
    motion = Motion(
        t, (size * np.sin(phase)).sum(1), (size * w * np.cos(phase)).sum(1), (-size * w**2 * np.sin(phase)).sum(1)
    )
    log = simulate(real, motion, noise=0.3, seed=seed)
    return Log(log.t, log.q, tau=log.tau, name=("first.csv", "second.csv")[seed])


def write_pages(folder: Path) -> dict[str, Path]:
    """Write a report and the page of an exciting motion."""
    invented = robot_to_simulate(load_robot("puma560"))[0]  # its table has values that no bodies have
    robot = replace(invented, links=tuple(replace(link, friction=()) for link in invented.links))
    first, second = (record(real_robot(robot), seed) for seed in (0, 1))
    result = identify(robot, first, friction=("viscous", "coulomb", "offset"), validate=second)
    pages = {name: folder / f"{name}.html" for name in ("report", "motion")}
    write_report(result, pages["report"], logs=first, validate=second, physical=physical_parameters(result))
    arm = load_robot("gautier3")
    limits = {"position": [(-2.0, 2.0)] * 3, "velocity": [1.5] * 3, "acceleration": [5.0] * 3}
    write_page(design_excitation(arm, limits=limits, starts=3, seed=0), pages["motion"])
    return pages


def write_friction_page(file: Path) -> None:
    """Write the report of the example in docs/friction.md, whose friction remembers."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "friction.md").read_text(encoding="utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "recipe = " in block), names)  # our own page, which the tests run, too
    write_report(names["recipe"], file, logs=names["log"])


def take(tab: Tab, file: Path, selector: str, height: int) -> None:
    """Save a picture of the page from an element on."""
    top = tab.run(f"document.querySelector('{selector}').getBoundingClientRect().top + scrollY - 12")
    clip = {"x": 0.0, "y": max(0.0, float(top)), "width": float(WIDTH), "height": float(height)}
    file.write_bytes(tab.picture(clip=clip, whole=True))
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


def main(out: Path) -> None:
    """Write the pages to a temporary folder, open them, and take the pictures."""
    program = find_browser()
    if program is None:
        sys.exit("there is no Chromium on this machine")
    with tempfile.TemporaryDirectory() as folder, browser(program) as tab:
        pages = write_pages(Path(folder))
        tab.open(pages["report"], width=WIDTH, height=HEIGHT)
        take(tab, out / "report.png", "h1", HEIGHT)
        tab.run("document.querySelector('.moment').click()")
        time.sleep(1.5)
        tab.run("scrollTo({top: 0, behavior: 'instant'})")
        take(tab, out / "report_curves.png", "#curves", 1000)
        take(tab, out / "report_bodies.png", "#physical", 560)
        tab.open(pages["motion"], width=WIDTH, height=HEIGHT)
        take(tab, out / "excitation_page.png", "h1", HEIGHT)
        write_friction_page(Path(folder) / "friction.html")
        tab.open(Path(folder) / "friction.html", width=WIDTH, height=HEIGHT)
        take(tab, out / "friction.png", "#friction", 480)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
