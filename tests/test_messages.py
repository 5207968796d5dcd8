"""Messages and errors as values: how they read in Python, on the command line and in JSON, and how they travel."""

import ast
import copy
import inspect
import json
import pickle
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

import dynid
from dynid import errors
from dynid.errors import (
    DeadPointError,
    DynidError,
    ExpressionError,
    LogError,
    LoopError,
    RobotFileError,
    SingularPathError,
    UnknownRobotError,
)
from dynid.messages import ANYTHING, Message, Option, Wording, command_line_wording, messages_in

SOURCE = Path(dynid.__file__).parent
CODE = re.compile("[a-z][a-z0-9_]+")
HOSTILE = "{0} {name} {x!r:>9} }{ %s <b>"


@pytest.mark.parametrize(
    ("option", "python", "command_line"),
    [
        (Option("gain"), "gain=", "--gain"),
        (Option("offsets_per_log"), "offsets_per_log=", "--offsets-per-log"),
        (Option("snap", False), "snap=False", "--no-snap"),
        (Option("tared", True), "tared=True", "--tared"),
        (Option("method", "qr"), "method='qr'", "--method qr"),
        (Option("delay", 0.01), "delay=0.01", "--delay 0.01"),
        (Option("friction", ()), "friction=()", "--friction none"),
        (Option("exclude", ["a", "b"]), "exclude=['a', 'b']", "--without a,b"),
        (Option("gravity", (0, 0, -9.81)), "gravity=(0, 0, -9.81)", "--gravity 0,0,-9.81"),
        (Option("units", {"q": "deg", "tau": "Nmm"}), "units={'q': 'deg', 'tau': 'Nmm'}", "--units q=deg,tau=Nmm"),
        (Option("units", {"q": ANYTHING}), "units={'q': ...}", "--units q=UNIT"),
        (Option("lock", {"j1": 0.5, "j2": 0}), "lock={'j1': 0.5, 'j2': 0}", "--lock j1=0.5 --lock j2=0"),
        (Option("columns", {"q": ANYTHING}), "columns={'q': ...}", "--column q=NAME,..."),
        (Option("columns", {"q": ["a", "b"]}), "columns={'q': ['a', 'b']}", "--column q=a,b"),
        (Option("columns", {"q": None}), "columns={'q': None}", "--column q="),
    ],
)
def test_options_read_in_the_words_of_each_front(option: Option, python: str, command_line: str) -> None:
    message = Message("some_code", "this fails", "pass {option}", option=option)
    assert str(option) == python
    assert str(message) == f"this fails; pass {python}"
    assert message.for_command_line == command_line_wording(message) == f"this fails; pass {command_line}"
    assert message.record()["facts"] == {"option": python}
    assert message.record()["command_line"] == message.for_command_line


def test_a_wording_replaces_words_that_are_no_option() -> None:
    way = Wording("robot.with_parameters(values)", "dynid demo")
    message = Message("no_values", "{robot} has no values", "use {way}", robot="arm", way=way)
    assert str(message) == "arm has no values; use robot.with_parameters(values)"
    assert message.for_command_line == "arm has no values; use dynid demo"
    assert str(way) == way.python


def test_facts_render_as_data() -> None:
    def text(template: str, **facts: object) -> str:
        return str(Message("some_code", template, **facts))

    assert text("{names} and {none}", names=["a", "b"], none=[]) == "a, b and "
    assert text("{x:.2g} {n} {name!r}", x=np.float64(0.1234), n=np.int64(3), name="a") == "0.12 3 'a'"
    assert text("shape {shape}", shape=(3, 2)) == "shape (3, 2)"
    assert text("{file}", file=Path("a.csv")) == "a.csv"
    assert text("{reason}", reason=ValueError("bad")) == "bad"
    assert text("{reason}", reason=ValueError()) == "ValueError"
    inner = Message("inner", "use {snap}", snap=Option("snap", False))
    outer = Message("outer", "{reason}", reason=DynidError(inner))
    assert (str(outer), outer.for_command_line) == ("use snap=False", "use --no-snap")
    assert isinstance(outer.facts["reason"], Message)


@pytest.mark.parametrize(
    ("what", "joined"),
    [("a", "a; b"), ("a:", "a: b"), ("a.", "a. b"), ("a?", "a? b"), ("a,", "a, b")],
)
def test_what_and_remedy_are_joined_once(what: str, joined: str) -> None:
    assert (str(Message("some_code", what, "b")), str(Message("some_code", what))) == (joined, what)


def test_braces_in_facts_stay_as_they_are() -> None:
    message = Message("some_code", "{file}: {names}", "rename {file}", file=HOSTILE, names=[HOSTILE, HOSTILE])
    assert str(message) == f"{HOSTILE}: {HOSTILE}, {HOSTILE}; rename {HOSTILE}"
    assert str(message.about(HOSTILE)) == f"{HOSTILE}: {message}"
    assert str(Message("outer", "{inner}", inner=message)) == message
    assert str(RobotFileError(HOSTILE, "a_code", "{name}", name=HOSTILE)) == f"{HOSTILE}: {HOSTILE}"
    assert str(LogError(HOSTILE, message)) == f"{HOSTILE}: {message}"
    assert HOSTILE in str(ExpressionError(HOSTILE, "a_code", "no"))
    with pytest.raises(KeyError):
        Message("some_code", "{forgotten}")


def example() -> Message:
    facts: dict[str, Any] = {"x": 0.5, "names": ["a", "b"], "shape": (2, 3), "snap": Option("snap", False)}
    return Message("some_code", "{names}: {x:.1f} {shape}", "pass {snap}", **facts)


def parts(message: Message) -> tuple[object, ...]:
    return (str(message), message.code, message.facts, message.what, message.remedy, message.for_command_line)


def test_messages_survive_pickle_and_copy() -> None:
    message = example().about("log.csv")
    for again in (pickle.loads(pickle.dumps(message)), copy.copy(message), copy.deepcopy(message)):
        assert type(again) is Message
        assert parts(again) == parts(message)
    assert type(str(message)) is str
    assert message.what.startswith("log.csv: ")
    assert message.remedy == "pass snap=False"


def test_messages_survive_json() -> None:
    message = example().about("log.csv")
    again = Message.load(json.loads(json.dumps(message.record(), allow_nan=False)))
    assert (again, again.code, again.what, again.remedy) == (message, message.code, message.what, message.remedy)
    assert again.for_command_line == message.for_command_line
    assert again.facts == {"x": 0.5, "names": ["a", "b"], "shape": [2, 3], "snap": "snap=False"}
    assert again.record() == message.record()
    strange = Message("some_code", "{x} {y}", x=np.nan, y=np.array([np.inf, 1.0]), z={"a": Path("b")})
    assert json.loads(json.dumps(strange.record(), allow_nan=False))["facts"] == {
        "x": None,
        "y": [None, 1.0],
        "z": {"a": "b"},
    }


def test_sentences_of_old_files_are_messages_without_a_code() -> None:
    old = Message.load(HOSTILE)
    assert parts(old) == (HOSTILE, "", {}, HOSTILE, "", HOSTILE)


def test_records_of_files_hold_messages() -> None:
    class Record(BaseModel):
        notes: list[Message] = []

    message = example()
    written = json.loads(json.dumps(Record(notes=[message]).model_dump()))
    again = Record.model_validate(written).notes[0]
    assert (again, again.code, again.remedy) == (message, message.code, message.remedy)
    assert Record.model_validate({"notes": ["an old one"]}).notes[0].code == ""
    for damaged in (3, None, {}, {"text": "a"}, {"text": "a", "code": "b", "remedy": "", "facts": []}):
        with pytest.raises(ValidationError):
            Record.model_validate({"notes": [damaged]})


def test_messages_are_found_in_containers_once() -> None:
    one, two = Message("one", "1"), Message("two", "2")
    assert list(messages_in({"a": [one, ("text", two)], "b": {"c": one}})) == [one, two]


def error_classes() -> list[type[DynidError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, DynidError)]
    assert len(found) > 12
    return found


def place_of_code(kind: type[DynidError]) -> int | None:
    """Which argument of an error is its code, None where the class itself knows it."""
    names = list(inspect.signature(kind.__init__).parameters)[1:]
    return names.index("code") if "code" in names else None


def made(kind: type[DynidError]) -> DynidError:
    special: dict[type[DynidError], DynidError] = {
        UnknownRobotError: UnknownRobotError("armm", ("arm", "leg"), " (did you mean 'arm'?)"),
        LoopError: LoopError(3, 0.1, "a-b", 0.5),
        SingularPathError: SingularPathError(3, "a-b"),
        DeadPointError: DeadPointError(3, "a-b", 0.5),
    }
    place = place_of_code(kind)
    if place is None:
        return special[kind]
    return kind(*["x.csv"] * place, "some_code", "{n} is odd", "take {option}", n=3, option=Option("snap", False))  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", error_classes())
def test_errors_have_code_facts_and_remedy_and_cross_processes(kind: type[DynidError]) -> None:
    error = made(kind)
    assert CODE.fullmatch(error.code)
    assert error.facts
    assert error.remedy
    assert error.remedy in str(error)
    if place_of_code(kind) is not None:
        assert (error.code, error.facts["n"], error.remedy) == ("some_code", 3, "take snap=False")
        assert error.message.for_command_line.endswith("3 is odd; take --no-snap")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (str(again), again.__dict__) == (str(error), error.__dict__)
        assert parts(again.message) == parts(error.message)


def test_all_errors_of_the_package_are_in_one_module() -> None:
    def below(kind: type[DynidError]) -> Iterator[type[DynidError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    outside = [
        kind for kind in below(DynidError) if kind.__module__.startswith("dynid.") and kind not in error_classes()
    ]
    assert not outside


def test_an_error_takes_over_the_message_of_another() -> None:
    cause = DynidError("some_code", "{x} is odd", "take 4", x=3)
    log, file = LogError("a.csv", cause.message), RobotFileError("a.toml", cause.message)
    for error in (log, file):
        assert (error.code, error.facts, error.remedy) == ("some_code", {"x": 3}, "take 4")
    assert (log.log, log.problem, str(log)) == ("a.csv", cause.message, "a.csv: 3 is odd; take 4")
    assert (file.file, file.problems, str(file)) == ("a.toml", (cause.message,), "a.toml: 3 is odd; take 4")
    several = RobotFileError("a.toml", [cause.message, Message("other", "b")])
    assert (several.code, several.facts) == ("several_mistakes", {"codes": ["some_code", "other"]})
    assert str(several) == "a.toml: 3 is odd; take 4\na.toml: b"


def calls() -> Iterator[tuple[str, ast.Call, int]]:
    """Every call of an error class or of Message with a code: where, the call, and which argument is the code."""
    known = {kind.__name__: place_of_code(kind) for kind in error_classes()}
    known["Message"] = 0
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = known.get(node.func.id)
                if place is not None:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node, place


def literals(node: ast.expr) -> Iterator[str]:
    """Text of a template, from a literal, a choice or a sum of some."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp(body=a, orelse=b) | ast.BinOp(left=a, right=b):
            yield from literals(a)
            yield from literals(b)


def test_messages_are_made_from_codes_templates_and_facts() -> None:
    """No f-string among the templates, a code in every call, and a fact for every name in a template."""
    mistakes, seen = [], 0
    for where, call, place in calls():
        code, *templates = call.args[place : place + 3] or [ast.Constant(None)]
        seen += 1
        if any(isinstance(part, ast.JoinedStr) for argument in (code, *templates) for part in ast.walk(argument)):
            mistakes.append(f"{where}: an f-string in place of facts")
        elif isinstance(code, ast.Constant) and not (isinstance(code.value, str) and CODE.fullmatch(code.value)):
            mistakes.append(f"{where}: {code.value!r} is no code")
        elif isinstance(code, ast.Constant) and not templates:
            mistakes.append(f"{where}: a code, but no text")
        elif isinstance(code, ast.Call) and isinstance(code.func, ast.Name) and code.func.id in ("str", "repr"):
            mistakes.append(f"{where}: the text of an error in place of its message")
        facts = {keyword.arg for keyword in call.keywords}
        for text in (text for template in templates for text in literals(template)):
            used = {re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(text) if name is not None}
            if None not in facts and used - facts:
                mistakes.append(f"{where}: no fact for {', '.join(sorted(used - facts))}")
    assert not mistakes, "\n".join(mistakes)
    assert seen > 400
