"""Recordings in a folder of their file: a group of HDF5, a struct of MAT, a common beginning of the names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dynid.data.naming import LABELS, Meaning, Names, tokens_of
from dynid.data.table import shortened
from dynid.errors import LogError


def read_names(log: str, fields: Iterable[str], names: Names, given: str | None) -> dict[str, Meaning]:
    """Return what the names of fields say, those in the folder of the time as if they stood outside.

    given: the time, where the user names it; it decides between recordings where a file holds several.
    """
    fields = tuple(fields)
    plain = {field: meaning for field in fields if (meaning := names.read(field)) is not None}
    if given is None:
        if any(meaning.channel == "t" for meaning in plain.values()):
            return plain
        times = [field for field in fields if _folder(field, names)]
        if len(times) > 1:
            raise LogError(
                log, f"there are several recordings in it, with the times {shortened(times)}; "
                "say which with columns={'t': ...}"
            )  # fmt: skip
        given = times[0] if times else ""
    folder = _folder(given, names) or given[: len(given) - len(_parts(given)[-1])]
    return _inside(plain, fields, names, folder) if folder else plain


def _parts(name: str) -> list[str]:
    """Endings of a name that begin after a dot or a slash, and the name itself, longest first."""
    return [name, *(name[place.end() :] for place in re.finditer(r"[./]+(?=[^./])", name) if place.start())]


def _folder(name: str, names: Names) -> str:
    """The folder in which a field is the time, '' where it is none."""
    for part in _parts(name)[1:]:
        meaning = names.read(part)
        if meaning is not None and meaning.channel == "t":
            return name[: len(name) - len(part)]
    return ""


def _inside(plain: Mapping[str, Meaning], fields: tuple[str, ...], names: Names, folder: str) -> dict[str, Meaning]:
    """Meanings with those of a folder read without its name; they hide the same channels outside of it."""
    found: dict[str, Meaning] = {}
    if not LABELS.isdisjoint(tokens_of(folder)):  # the folder of one joint
        return dict(plain)
    for field in fields:
        whole = plain.get(field)
        if not field.startswith(folder) or (whole is not None and whole.joint is not None):
            continue
        short = names.read(field[len(folder) :], field)
        if short is not None:
            found[field] = short
    hidden = {meaning.channel for meaning in found.values()}
    return found | {
        field: meaning for field, meaning in plain.items() if field not in found and meaning.channel not in hidden
    }
