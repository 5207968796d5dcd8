"""docs/papers.md is what its script writes: every command and call of it runs, and prints what stands there."""

from __future__ import annotations

import pytest

from papers_page import PAGE, PAPERS, page


@pytest.mark.slow
def test_the_page_is_what_the_script_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/papers_page.py"


def test_every_table_of_the_papers_is_named() -> None:
    """Tables I to V of Gautier; 1 of Khalil & Bennis; 1 to 12 of Gautier & Khalil; 1 and 2 of the others."""
    text = PAGE.read_text(encoding="utf-8")
    named = [" ".join(entry.where for entry in entries) + note for _, entries, note in PAPERS]
    for words, tables in zip(
        named,
        (("I", "II", "III", "IV", "V"), ("1",), ("1", "2", "3-5", "6 to 12"), ("1", "2"), ("1", "2")),
        strict=True,
    ):
        assert all(f"Table {k}" in words or f"Tables {k}" in words or f" {k}" in words for k in tables)
    assert text.count("```text") == sum(len(entries) for _, entries, _ in PAPERS)
