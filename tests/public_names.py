"""What is public: names of `dynid`, and every class of dynid that a public call leads to.

Run as a script it lists the classes that are reached and not exported in docs/reference.md, below `PARTS`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import typing
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import dynid

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
PARTS = """## Parts of results

What the attributes of the above lead to, under the modules that hold it; it may change from version to version.
"""


def exported() -> dict[str, Any]:
    """Public names and what they stand for."""
    return {name: getattr(dynid, name) for name in dynid.__all__}


def address(found: Any) -> str:
    """Module and name."""
    return found.__name__ if inspect.ismodule(found) else f"{found.__module__}.{found.__qualname__}"


def reached() -> dict[type, str]:
    """Classes of dynid that public functions return, their attributes hold and their methods return, with the way."""
    found: dict[type, str] = {}
    queue: list[type] = []

    def add(hint: Any, via: str) -> None:
        for kind in _classes(hint):
            if kind.__module__.partition(".")[0] == "dynid" and kind not in found:
                found[kind] = via
                queue.append(kind)

    for name, thing in exported().items():
        if inspect.isclass(thing):
            add(thing, name)
        elif callable(thing):
            add(_hints(thing).get("return"), f"{name}()")
    while queue:
        kind = queue.pop(0)
        for part in (part for part in kind.__mro__ if part.__module__.partition(".")[0] == "dynid"):
            for name, hint in _hints(part).items():
                if not name.startswith("_"):
                    add(hint, f"{kind.__name__}.{name}")
            for name, value in vars(part).items():
                function = function_of(value)
                if not name.startswith("_") and function is not None:
                    add(_hints(function).get("return"), f"{kind.__name__}.{name}")
    return found


def function_of(value: Any) -> Any:
    """What computes an attribute, or the method; None for others."""
    value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
    return inspect.unwrap(value) if inspect.isfunction(value) else None


def _classes(hint: Any) -> Iterator[type]:
    """Classes that a type mentions: X and Y in dict[str, X | tuple[Y, ...]]."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is None and isinstance(hint, type):
        yield hint
    if isinstance(origin, type):
        yield origin
    for part in parts:
        for one in part if isinstance(part, list) else [part]:
            yield from _classes(one)


def _hints(thing: Any) -> dict[str, Any]:
    thing = inspect.unwrap(thing)
    known: dict[str, Any] = {}
    for part in reversed(thing.__mro__ if inspect.isclass(thing) else (thing,)):
        if part.__module__.partition(".")[0] == "dynid":
            known |= _names(sys.modules[part.__module__])
    return typing.get_type_hints(thing, globalns=known)


@functools.cache
def _names(module: ModuleType) -> dict[str, Any]:
    """Names of a module, with those that it imports for type checkers only."""
    names: dict[str, Any] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                with suppress(ImportError, AttributeError):
                    names[alias.asname or alias.name] = getattr(import_module(node.module), alias.name)
    return names | vars(module)


def parts_of_results() -> str:
    """The last section of the reference."""
    public = {id(thing) for thing in exported().values()} | {id(kind) for kind in vars(dynid.errors).values()}
    return "\n".join(
        [PARTS, *(f"::: {name}\n" for name in sorted(address(k) for k in reached() if id(k) not in public))]
    )


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().partition(PARTS)[0].rstrip() + "\n\n" + parts_of_results())
