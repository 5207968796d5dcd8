"""Functions that the theory pages and the table of formulas name exist; every numbered equation is in the table."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "theory").glob("*.md"))
FORMULAS = (DOCS / "architecture.md").read_text().partition("## Where the formulas of the papers are\n")[2]
EQUATIONS = {
    "Gautier 1991": [f"{k}" for k in range(1, 29)],
    "Khalil & Bennis 1994": [f"{k}" for k in range(1, 7)],
    "Gautier & Khalil 1992": [f"{k}" for k in range(1, 30)] + [f"A{k}" for k in range(1, 9)],
    "Ha, Ko & Kwon": [f"2.{k}" for k in range(1, 31)] + [f"3.{k}" for k in range(1, 18)],
    "Raucent et al. 1992": ["1", "2", "3", "4a", "4b", "5", "6a", "6b", "6c", "6d", "7", "8"],
}
"""Numbers of the equations in the papers (23 stands for 23a and 23b)."""
OTHERS = [page for page in sorted(DOCS.rglob("*.md")) if page not in PAGES and page.name != "reference.md"]


def names(page: Path) -> list[str]:
    """Dotted names below dynid in a page; `dynid.toml` is the file of a project."""
    return [name for name in re.findall(r"`(dynid(?:\.\w+)+)`", page.read_text()) if name != "dynid.toml"]


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


def section(paper: str) -> str:
    """Text of the table of formulas on one paper."""
    return next(part for part in FORMULAS.split("\n### ")[1:] if part.startswith(f"{paper}, "))


def equations(text: str) -> list[str]:
    """Numbers of equations after `eq.` in a text, ranges written out: `eq. 2.5-2.7, 2.9` gives 2.5 2.6 2.7 2.9."""
    found: list[str] = []
    for several in re.findall(r"eq\. ([A\d.]*\d[a-d]?(?:(?:-|, )[A\d.]*\d[a-d]?)*)", text):
        for item in several.split(", "):
            first, _, last = item.partition("-")
            head, start = re.fullmatch(r"(A|\d\.)?(\d+[a-d]?)", first).groups(default="")  # type: ignore[union-attr]
            end = last.removeprefix(head) or start
            found += [head + start] if end == start else [f"{head}{k}" for k in range(int(start), int(end) + 1)]
    return found


@pytest.mark.parametrize("paper", EQUATIONS)
def test_every_equation_is_in_the_table_or_said_not_to_be_needed(paper: str) -> None:
    rows = [line.split("|")[1] for line in section(paper).splitlines() if line.startswith("| ")]
    needless = re.search(r"Not needed by a program: .*", section(paper), re.DOTALL)
    there = equations(" ".join(rows))
    assert set(there) | set(equations(needless[0] if needless else "")) == set(EQUATIONS[paper])
    assert not set(there) & set(equations(needless[0] if needless else ""))


def test_the_table_of_formulas_names_functions_that_exist() -> None:
    named = re.findall(r"`([a-z_]+(?:\.\w+)+)`", FORMULAS)
    assert len(named) > 80
    for name in named:
        thing, rest = import_module("dynid"), name.split(".")
        while rest and find_spec(f"{thing.__name__}.{rest[0]}") is not None:
            thing = import_module(f"{thing.__name__}.{rest.pop(0)}")
            if not hasattr(thing, "__path__"):
                break
        found: object = thing
        for part in rest:
            assert hasattr(found, part), f"architecture.md: {name}"
            found = getattr(found, part)


def test_modules_cite_the_equations_for_which_the_table_names_them() -> None:
    source, cited = DOCS.parent / "src" / "dynid", 0
    where: dict[tuple[str, str], str] = {}
    for paper in EQUATIONS:
        for row in section(paper).splitlines():
            for number in equations(row.split("|")[1]) if row.startswith("| ") else ():
                where[paper, number] = where.get((paper, number), "") + row.split("|")[3]
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts)
        for paper, numbers in re.findall(
            rf"({'|'.join(map(re.escape, EQUATIONS))}), (eq\. [\w., -]+)", path.read_text().replace(" and ", ", ")
        ):
            for number in equations(numbers):
                assert f"`{module}." in where.get((paper, number), ""), f"{path.name} cites {paper}, eq. {number}"
                cited += 1
    assert cited > 50


def test_there_is_a_page_per_paper() -> None:
    assert len(PAGES) == 5
