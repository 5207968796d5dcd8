"""Functions that the theory pages name exist."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "theory").glob("*.md"))
OTHERS = [page for page in sorted(DOCS.rglob("*.md")) if page not in PAGES and page.name != "reference.md"]


def names(page: Path) -> list[str]:
    return re.findall(r"`(dynid(?:\.\w+)+)`", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_functions_exist(page: Path) -> None:
    assert len(names(page)) > 5
    for name in names(page):
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), f"{page.name}: {name}"


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_named_modules_and_files_of_other_pages_exist(page: Path) -> None:
    for name in names(page):
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last) or find_spec(name) is not None, f"{page.name}: {name}"
    for path in re.findall(r"`((?:src|tests|examples|bench|campaign)/[\w/.]+)`", page.read_text()):
        assert (DOCS.parent / path).exists(), f"{page.name}: {path}"


def test_there_is_a_page_per_paper() -> None:
    assert len(PAGES) == 5
