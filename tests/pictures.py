"""Pictures of the docs that show pages in a browser: `python tests/pictures.py` makes inspect.png and view.png anew."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bodies import with_bodies
from browser import browser, find_browser
from dynid import identify, load_robot, simulate
from dynid.cli.output.recordings import write_log
from dynid.exports.export import export
from robots import smooth_path

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def write_raw(path: Path) -> None:
    """A recording of the Puma 560 without a header, in degrees, with the torque of joint 3 reversed."""
    robot = load_robot("puma560")
    log = simulate(robot, smooth_path(robot, np.arange(0.0, 12.0, 0.01), scale=1.0), noise=0.05)
    assert log.tau is not None
    assert log.v is not None
    tau = log.tau * np.array([1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    np.savetxt(path, np.column_stack([log.t, np.degrees(log.q), np.degrees(log.v), tau]), delimiter=",", fmt="%.7g")


def draw_inspection(folder: Path, program: str) -> None:
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
    from io import BytesIO

    from PIL import Image

    parts = [Image.open(BytesIO(part)).convert("RGB") for part in (upper, lower)]
    whole = Image.new("RGB", (1200, sum(part.height for part in parts)), "white")
    for part, top in zip(parts, (0, parts[0].height), strict=True):
        whole.paste(part, (0, top))
    whole.quantize(64).save(PICTURES / "inspect.png", optimize=True)


def draw_view(folder: Path, program: str) -> None:
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
            from io import BytesIO

            from PIL import Image

            Image.open(BytesIO(tab.picture())).convert("RGB").quantize(255).save(PICTURES / "view.png", optimize=True)
    finally:
        process.terminate()
        process.wait(20)


def main() -> None:
    """Draw all pictures."""
    program = find_browser()
    if program is None:
        raise SystemExit("there is no Chromium on this machine")
    with tempfile.TemporaryDirectory() as name:
        draw_inspection(Path(name), program)
        draw_view(Path(name), program)


if __name__ == "__main__":
    main()
