"""The reference: every public name has numpydoc sections that name what its signature has; its examples run."""

from __future__ import annotations

import doctest
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynid
import public_names

SECTION = re.compile(r"^(?P<title>[A-Z]\w+)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(?P<names>\S[^:\n]*?) : (?P<type>.+)\n(?P<text>(?:    .+\n?)+)", re.MULTILINE)


def public_things() -> dict[str, Any]:
    """Public names and errors by name, with the public methods and properties of the classes among them."""
    errors = {name: x for name, x in vars(dynid.errors).items() if inspect.isclass(x) and issubclass(x, Exception)}
    things = {name: x for name, x in public_names.exported().items() if not inspect.ismodule(x)} | errors
    return dict(sorted(things.items()) + [pair for name, x in things.items() for pair in members(name, x)])


def members(owner: str, kind: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isclass(kind):
        for name, value in vars(kind).items():
            if not name.startswith("_") and (function := public_names.function_of(value)) is not None:
                yield f"{owner}.{name}", function


def is_method(name: str) -> bool:
    """Whether an attribute of a class is called, not a property."""
    owner, _, attribute = name.partition(".")
    return isinstance(inspect.getattr_static(THINGS[owner], attribute), types.FunctionType | classmethod | staticmethod)


THINGS = public_things()
CALLS = [name for name in THINGS if "." not in name or is_method(name)]
EXAMPLES = [name for name, thing in THINGS.items() if ">>>" in (thing.__doc__ or "")]


def sections(text: str) -> dict[str, str]:
    """Sections of a docstring by title; the text before the first is ''."""
    parts = SECTION.split(inspect.cleandoc(text) + "\n")
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def parameters(thing: Any) -> list[str]:
    """Parameters as a docstring writes them, `**facts` with its stars."""
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(thing).parameters.values()
    return [stars.get(p.kind, "") + p.name for p in found if p.name not in ("self", "cls")]


@pytest.mark.parametrize("name", THINGS)
def test_the_summary_is_one_sentence(name: str) -> None:
    summary, _, rest = inspect.cleandoc(THINGS[name].__doc__).partition("\n")
    assert summary.endswith(".")
    assert not rest or rest.startswith("\n")
    assert set(sections(THINGS[name].__doc__)) <= {
        "", "Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "Examples",
    }  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter_is_described_with_its_type(name: str) -> None:
    """In the order of the signature; fields of results are their attributes."""
    thing, own = THINGS[name], sections(THINGS[name].__doc__)
    if inspect.isclass(thing) and "__init__" not in vars(thing) and "__new__" not in vars(thing):
        assert issubclass(thing, Exception)
        return
    described = own.get("Parameters", "") + own.get("Attributes", "")
    entries = [match["names"] for match in ENTRY.finditer(described)]
    assert entries == parameters(thing)
    assert "".join(match[0] for match in ENTRY.finditer(described)).split() == described.split(), "a stray line"


@pytest.mark.parametrize("name", [name for name in CALLS if not inspect.isclass(THINGS[name])])
def test_what_is_returned_is_described(name: str) -> None:
    returned = inspect.signature(THINGS[name]).return_annotation
    described = sections(THINGS[name].__doc__)
    assert (returned == "None") != ("Returns" in described or "Yields" in described)


def test_every_function_has_an_example() -> None:
    assert not {name for name, x in THINGS.items() if inspect.isfunction(x) and "." not in name} - set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestParser().get_doctest(THINGS[name].__doc__, {}, name, None, None)
    told: list[str] = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(found, out=told.append)
    assert tried
    assert not failed, "".join(told)
