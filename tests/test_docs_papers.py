"""docs/papers.md is what its script writes: every command and call of it runs, and prints what stands there."""

from __future__ import annotations

import re

import pytest

from papers_page import PAGE, PAPERS, page


@pytest.mark.slow
def test_the_page_is_what_the_script_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/papers_page.py"


def test_every_table_of_the_papers_is_named() -> None:
    """Tables I to V of Gautier; 1 of Khalil & Bennis; 1 to 12 of Gautier & Khalil; 1 and 2 of the others."""
    tables = (("I", "II", "III", "IV", "V"), ("1",), tuple(map(str, range(1, 13))), ("1", "2"), ("1", "2"))
    for (_, entries, _), expected in zip(PAPERS, tables, strict=True):
        named = " ".join(" ".join(re.findall(r"Tables? [^;]*", entry.where)) for entry in entries)
        assert set(expected) <= set(re.findall(r"\b(?:[IVX]+|\d+)\b", named))
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("```text") == sum(len(entries) for _, entries, _ in PAPERS)
