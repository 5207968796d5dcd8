"""Functions that the theory pages name exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs" / "theory").glob("*.md"))


def names(page: Path) -> list[str]:
    return re.findall(r"`(dynid(?:\.\w+)+)`", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_functions_exist(page: Path) -> None:
    assert len(names(page)) > 5
    for name in names(page):
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), f"{page.name}: {name}"


def test_there_is_a_page_per_paper() -> None:
    assert len(PAGES) == 5
