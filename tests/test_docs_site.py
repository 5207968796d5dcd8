"""The site is built without warnings, complete without a network, and axe finds nothing wrong with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from browser import browser, find_axe, find_browser

ROOT = Path(__file__).parents[1]


def test_decisions_are_listed_and_the_moving_picture_is_small() -> None:
    listed = (ROOT / "docs" / "decisions" / "index.md").read_text()
    assert all(f"({file.name})" in listed for file in (ROOT / "docs" / "decisions").glob("0*.md"))
    assert (ROOT / "docs" / "pictures" / "dynid.webp").stat().st_size < 1_000_000
    assert "pictures/dynid.webp" in (ROOT / "docs" / "index.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("zensical") is None:
        pytest.skip("zensical is not installed (make docs)")
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "examples", "src", "bench", "CHANGELOG.md"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, env=settings, check=True)
    subprocess.run([sys.executable, "-m", "bench.site", "site"], cwd=folder, env=settings, check=True)
    return folder / "site"


@pytest.mark.slow
def test_pages_fetch_nothing_and_show_formulas(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"?(https?:)?//", page.read_text()), page.name
    assert "<math" in (site / "theory" / "exciting.html").read_text()


@pytest.mark.slow
def test_axe_finds_nothing(site: Path) -> None:
    program, axe = find_browser(), find_axe()
    if program is None or axe is None:
        pytest.skip("there is no Chromium or no axe-core here")
    for scheme in ("light", "dark"):
        with browser(program) as tab:
            for page in sorted(set(site.rglob("*.html")) - {site / "404.html"}):
                tab.begin(1400, 900)
                tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                tab.ask("Page.navigate", url=page.as_uri())
                tab.wait("document.readyState === 'complete'")
                assert not tab.accessibility_violations(axe), (page.name, scheme)
