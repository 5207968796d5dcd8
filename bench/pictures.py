"""Make all pictures of pages in docs/pictures, in Debian's Chromium without a network.

python -m bench.pictures [FOLDER]
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dynid import (
    Log,
    Motion,
    Robot,
    design_excitation,
    export,
    identify,
    load_robot,
    physical_parameters,
    simulate,
    write_report,
)
from dynid.cli.output.recordings import write_log
from dynid.demo import robot_to_simulate
from dynid.report.excitation import write_page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from bodies import with_bodies  # noqa: E402
from browser import Tab, browser, find_browser  # noqa: E402
from robots import smooth_path  # noqa: E402

WIDTH, HEIGHT, FRAMES = 1200, 860, 36


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


def write_raw(path: Path) -> None:
    """A recording of the Puma 560 without a header, in degrees, with the torque of joint 3 reversed."""
    robot = load_robot("puma560")
    log = simulate(robot, smooth_path(robot, np.arange(0.0, 12.0, 0.01), scale=1.0), noise=0.05)
    assert log.tau is not None
    assert log.v is not None
    tau = log.tau * np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    np.savetxt(path, np.column_stack([log.t, np.degrees(log.q), np.degrees(log.v), tau]), delimiter=",", fmt="%.7g")


def draw_inspection(folder: Path, program: str, out: Path) -> None:
    """Page of dynid inspect: the end of the columns, and the joints."""
    write_raw(folder / "raw.csv")
    words = [sys.executable, "-m", "dynid", "inspect", "puma560", "raw.csv", "--out", "inspect.html"]
    subprocess.run(words, cwd=folder, check=False, capture_output=True)
    with browser(program) as tab:
        tab.open(folder / "inspect.html", width=1200, height=2400)
        end = tab.run("document.getElementById('column-table').tBodies[0].rows[5].getBoundingClientRect().bottom")
        first = tab.run("document.getElementById('joints').getBoundingClientRect().top")
        last = tab.run("document.getElementById('inspect-line').getBoundingClientRect().top - 50")
        upper = tab.picture(clip={"x": 0, "y": 0, "width": 1200, "height": end})
        lower = tab.picture(clip={"x": 0, "y": first, "width": 1200, "height": last - first}, whole=True)
    parts = [Image.open(BytesIO(part)).convert("RGB") for part in (upper, lower)]
    whole = Image.new("RGB", (1200, sum(part.height for part in parts)), "white")
    for part, top in zip(parts, (0, parts[0].height), strict=True):
        whole.paste(part, (0, top))
    whole.quantize(64).save(out / "inspect.png", optimize=True)


def draw_view(folder: Path, program: str, out: Path) -> None:
    """Page of dynid view with a result: torques, residual, coloured joints and the path of the tool."""
    robot = with_bodies("panda")
    export(robot, folder / "panda.toml")
    robot = load_robot(folder / "panda.toml")
    motion = smooth_path(robot, np.arange(0.0, 20.0, 0.01), scale=1.5)
    log = simulate(robot, motion, noise=0.3)
    write_log(folder / "log.csv", log)
    identify(robot, log, friction=("viscous", "coulomb", "offset"), cutoff=10.0).save(folder / "result.json")
    words = ["view", "panda.toml", "log.csv", "--result", "result.json", "--floor", "0", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dynid", *words, "--seconds", "120"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = next(match[1] for line in process.stdout if (match := re.search(r"look at (\S+)", line)))
        with browser(program) as tab:
            tab.visit(address, width=1200, height=860)
            tab.wait("document.body && document.body.innerText.includes('identified')")
            time.sleep(8.0)
            tab.run("document.querySelector('.mantine-Notification-closeButton')?.click()")
            time.sleep(2.0)
            Image.open(BytesIO(tab.picture())).convert("RGB").quantize(255).save(out / "view.png", optimize=True)
    finally:
        process.terminate()
        process.wait(20)


def draw_moving(page: Path, out: Path) -> None:
    """The robot of a report at successive times, beside its torques: an animated picture."""
    program = find_browser()
    assert program is not None
    frames = []
    with browser(program) as tab:
        tab.open(page, width=1000, height=760)
        tab.run("document.querySelector('nav').style.display = 'none'")
        tab.run("document.querySelector('.log-name').scrollIntoView({behavior: 'instant'})")
        time.sleep(1.5)
        top = float(tab.run("document.querySelector('.log-name').getBoundingClientRect().top + scrollY - 12"))
        for k in range(FRAMES):
            move = f"s.value = {1000 * (0.1 + 0.5 * k / FRAMES):.0f}; s.dispatchEvent(new Event('input'))"
            tab.run("{const s = document.querySelector('.slider'); " + move + "}")
            time.sleep(0.15)
            clip = {"x": 0.0, "y": max(0.0, top), "width": 1000.0, "height": 480.0}
            frames.append(Image.open(BytesIO(tab.picture(clip=clip, whole=True))).convert("RGB").resize((800, 384)))
    file = out / "dynid.webp"
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=120, loop=0, quality=55, method=6)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


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
        draw_moving(pages["report"], out)
        draw_inspection(Path(folder), program, out)
        draw_view(Path(folder), program, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
