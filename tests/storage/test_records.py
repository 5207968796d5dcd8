"""The serialiser: declared fields come back exactly; what a file may not hold is one line that names the place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynid.errors import DynidError
from dynid.estimation.identification import FlatField
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.records import (
    DAMAGE,
    ROW,
    Form,
    Limit,
    Null,
    Numbers,
    describe_damage,
    from_plain_data,
    json_text,
    to_plain_data,
)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    size: Annotated[float, Null(np.inf)] = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    values: Array
    small: Annotated[Array, Numbers((3,), unknown=True)]
    zero: frozenset[str]

    @property
    def total(self) -> float:
        return float(self.values.sum())


@dataclass(frozen=True, eq=False)
class Whole:
    part: Part
    rows: tuple[Annotated[Row, ROW], ...]
    first: Annotated[Row, ROW]
    count: Annotated[int, Limit(ge=0)]
    finite: FiniteArray
    other: Annotated[Row, ROW] | None = None
    secret: int = 7

    values = FlatField(Part, lambda x: x.values)
    total = FlatField(Part, lambda x: x.total)


Stored = Annotated[Whole, Form(("dynid test", 1), flat=("part",), drop=("secret",))]


def whole() -> Whole:
    part = Part(np.array([[1.0, -0.0], [np.nan, np.inf]]), np.array([0.1, np.nan, 1e-300]), frozenset("cab"))
    return Whole(part, (Row("a", np.inf), Row("b", 1 / 3)), Row("first"), 2, np.zeros((0, 4)))


def written() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json_text(to_plain_data(Stored, whole())))
    return data


def test_declared_fields_come_back_exactly() -> None:
    data, before = written(), whole()
    assert list(data)[:3] == ["format", "version", "values"]
    assert (data["rows"], data["zero"]) == ([["a", None], ["b", 1 / 3]], ["a", "b", "c"])
    assert data["small"] == [0.1, None, 1e-300]
    again = from_plain_data(Stored, data)
    assert again.values.tobytes() == before.values.tobytes()
    assert_array_equal(again.part.small, before.part.small)
    assert (again.rows, again.first, again.other) == (before.rows, before.first, None)
    assert (again.part.zero, again.finite.shape, again.secret) == (before.part.zero, (0, 4), 7)
    assert json_text(to_plain_data(Stored, again)) == json_text(to_plain_data(Stored, before))


def test_a_class_used_twice_keeps_its_form() -> None:
    data = written() | {"other": ["c", None]}
    assert from_plain_data(Stored, data).other == Row("c", np.inf)


def test_flat_names_are_those_of_the_parts() -> None:
    one = Whole(Part(np.ones(3), np.zeros(3), frozenset()), (), Row("a"), 0, np.zeros(1))
    assert one.values is one.part.values
    assert one.total == 3.0


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"surprise": 1}, "surprise"),
        ({"secret": 8}, "secret"),
        ({"part": {}}, "part"),
        ({"format": "dynid state"}, "dynid test"),
        ({"version": 2}, "dynid test"),
        ({"count": -1}, "count"),
        ({"count": 1.5}, "count"),
        ({"count": "many"}, "count"),
        ({"rows": {"a": 1}}, "rows"),
        ({"rows": [["a", 1.0, 2.0]]}, "rows.0"),
        ({"rows": [["a", float("nan")]]}, "rows.0.size"),
        ({"rows": [["a", float("inf")]]}, "rows.0.size"),
        ({"rows": [[]]}, "rows.0"),
        ({"rows": [["a"]]}, "rows.0"),
        ({"small": [1.0, 2.0]}, "small"),
        ({"small": [1.0, 2.0, 1e16]}, "small"),
        ({"small": [1.0, 2.0, [3.0]]}, "small"),
        ({"values": {"shape": [2], "float64": "AAAA"}}, "values"),
        ({"values": {"shape": [2, 2, 2], "float64": ""}}, "values.shape"),
        ({"values": {"shape": [10**12], "float64": ""}}, "values.shape"),
        ({"values": {"shape": [1], "float64": "AAAAAAAA8D8=", "code": "exit()"}}, "values.code"),
        ({"values": [1.0]}, "values"),
        ({"values": None}, "values"),
        ({"finite": to_plain_data(Array, np.array([np.inf]))}, "finite"),
        ({"zero": "abc"}, "zero"),
    ],
)
def test_what_a_file_may_not_hold_is_one_line(change: dict[str, Any], place: str) -> None:
    with pytest.raises(DAMAGE) as caught:
        from_plain_data(Stored, written() | change)
    text = describe_damage(caught.value)
    assert place in text
    assert "\n" not in text
    assert "part." not in text
    assert len(text) < 200


def test_missing_fields_are_named() -> None:
    for name in ("values", "rows", "first", "count"):
        data = written()
        del data[name]
        with pytest.raises(DAMAGE) as caught:
            from_plain_data(Stored, data)
        assert describe_damage(caught.value).startswith(f"{name}: ")


def test_numbers_of_numpy_are_plain_in_files() -> None:
    one = Whole(whole().part, (Row("a", np.float64(2.0)),), Row("a"), np.int64(3), np.zeros(1))  # type: ignore[arg-type]
    data = json.loads(json_text(to_plain_data(Stored, one)))
    assert (data["count"], data["rows"]) == (3, [["a", 2.0]])


def test_only_optional_fields_may_be_missing() -> None:
    strict = Annotated[Row, Form(optional=())]
    assert from_plain_data(Row, {"name": "a"}) == Row("a")
    assert from_plain_data(strict, {"name": "a", "size": 0.0}) == Row("a")
    with pytest.raises(ValueError, match="no 'size'"):
        from_plain_data(strict, {"name": "a"})


def test_text_of_a_file_does_not_break_the_line() -> None:
    text = describe_damage(DynidError("parameter '" + 1000 * "a\n" + "' is unknown"))
    assert "\n" not in text
    assert len(text) < 350
