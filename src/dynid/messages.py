"""What dynid says: notes, warnings and errors as values, rendered here for Python, the command line and JSON.

A `Message` is a sentence with a code that scripts can act on, the facts behind it, and a remedy. Its text is made from
templates: `{name}` stands for a fact, `{names:20}` for at most 20 of a list, in quotes. A fact that is an `Option` or a
`Wording` reads differently in Python and on the command line.
"""

from __future__ import annotations

import math
import os
import shlex
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, Self

Front = Literal["python", "command line"]

ANYTHING: Any = ...
"""A value that the user has to fill in."""

_NAMES = {"columns": "column", "exclude": "without"}
"""Options of the command line whose name is not the keyword's."""
_REPEATED = ("lock", "columns", "sign", "zero", "order")
"""Options that are given once for every entry."""
_QUOTED = ("sign", "zero", "order")
"""Options that are pasted into a shell as they are, with names of joints, which may hold anything."""
_BLANKS = {"columns": "NAME,...", "units": "UNIT", "lock": "POSITION"}
"""What stands for a value to be filled in."""
MOST_ROWS = 12
"""Rows of a table that a notebook shows by itself."""


@dataclass(frozen=True, slots=True)
class Option:
    """A keyword of a Python function and the command-line option of the same meaning; `value` None: any value."""

    keyword: str
    value: Any = ANYTHING

    def render(self, front: Front) -> str:
        """Return `columns={'q': None}`, or `--column q=`."""
        if front == "python":
            return f"{self.keyword}=" + ("" if self.value is ANYTHING else _python_value_text(self.value))
        name = f"--{_NAMES.get(self.keyword, self.keyword)}".replace("_", "-")
        match self.value:
            case True:
                return name
            case False:
                return f"--no-{name[2:]}"
            case None | ():
                return f"{name} none"
            case Mapping():
                blank = _BLANKS.get(self.keyword, "VALUE")
                text = _command_line_angle_text if self.keyword == "zero" else _command_line_value_text
                entries = [f"{key}={text(value, blank)}" for key, value in self.value.items()]
            case (first, last) if self.keyword == "rows":
                entries = [":".join("" if end is None else str(end) for end in (first, last))]
            case list() | tuple() if self.keyword == "sign":
                entries = list(self.value)
            case _:
                entries = ["" if self.value is ANYTHING else _command_line_value_text(self.value, "")]
        if self.keyword in _QUOTED:
            entries = [shlex.quote(entry) if entry else "" for entry in entries]
        if self.keyword in _REPEATED:
            return " ".join(f"{name} {entry}".rstrip() for entry in entries)
        return f"{name} {','.join(entries)}".rstrip()

    def __str__(self) -> str:
        return self.render("python")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Let the records of files hold options: keyword and value, which is nothing but numbers, names and lists."""
        from pydantic_core import core_schema as s

        def read(data: object) -> Option:
            if isinstance(data, Option):
                return data
            if not isinstance(data, list) or len(data) != 2 or not isinstance(data[0], str):
                raise ValueError("an option is a list of its keyword and its value")
            return Option(data[0], data[1])

        written = s.plain_serializer_function_ser_schema(lambda x: [x.keyword, _to_json_value(x.value, "python")])
        return s.no_info_plain_validator_function(read, serialization=written)


@dataclass(frozen=True, slots=True)
class Wording:
    """Words that differ between Python and the command line beyond the name of an option."""

    python: str
    command_line: str

    def render(self, front: Front) -> str:
        """Return the words for one of the two."""
        return self.python if front == "python" else self.command_line

    def __str__(self) -> str:
        return self.python


class Message(str):
    """A sentence with `.code`, `.facts` and `.remedy`; as a `str` it is the whole text as Python users read it.

    Parameters
    ----------
    code : str
        Identifier for scripts: words joined by underscores. It stays when the wording changes.
    what : str
        Template of what was noticed and where; `{name}` stands for a fact.
    remedy : str
        Template of what to do about it, if anything.
    **facts : Any
        Numbers, names and options behind the sentence.

    Examples
    --------
    >>> from dynid import Message
    >>> message = Message("too_short", "the log has {seconds:.1f} s", "record {least} s", seconds=2.0, least=10)
    >>> str(message)
    'the log has 2.0 s; record 10 s'
    >>> message.code, message.facts["least"]
    ('too_short', 10)
    """

    code: str
    facts: Mapping[str, Any]
    what: str
    remedy: str
    for_command_line: str
    _spoken_remedy: str

    def __new__(cls, code: str, what: str, remedy: str = "", /, **facts: Any) -> Self:
        """Fill the templates."""
        facts = {name: _picklable_fact(value) for name, value in facts.items()}
        texts = [
            (_fill_template(what, facts, front), _fill_template(remedy, facts, front))
            for front in ("python", "command line")
        ]
        (said, advice), spoken = texts
        return cls._create(_join_remedy(said, advice), code, facts, said, advice, _join_remedy(*spoken), spoken[1])

    @classmethod
    def _create(cls, text: str, code: str, facts: Mapping[str, Any], what: str, remedy: str, *spoken: str) -> Self:
        """Make a message from its rendered text; spoken: text, and remedy if it differs, for the command line."""
        self = super().__new__(cls, text)
        self.code, self.facts, self.what, self.remedy = code, dict(facts), what, remedy
        self.for_command_line, self._spoken_remedy = (*spoken, remedy)[:2]
        return self

    @classmethod
    def lines(cls, code: str, messages: Sequence[Message]) -> Self:
        """Return several messages as one with a line each; its facts are their codes.

        Parameters
        ----------
        code : str
            Code of the new message.
        messages : sequence of Message
            The messages.

        Returns
        -------
        Message
            One message of several lines.
        """
        text, spoken = "\n".join(messages), "\n".join(m.for_command_line for m in messages)
        remedy = "\n".join(m.remedy for m in messages if m.remedy)
        return cls._create(text, code, {"codes": [m.code for m in messages]}, text, remedy, spoken)

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes and survive a copy."""
        spoken = self.for_command_line, self._spoken_remedy
        return _restore_message, (str(self), self.code, self.facts, self.what, self.remedy, *spoken)

    def __str__(self) -> str:
        """Return a plain string: what is made from a message is none."""
        return str.__str__(self)

    def about(self, subject: str) -> Self:
        """Return the same message with its subject in front: `log.csv: ...`.

        Parameters
        ----------
        subject : str
            What it is about.

        Returns
        -------
        Message
            The longer message.
        """
        subject = printable(subject)
        texts = (f"{subject}: {text}" for text in (self, self.what, self.for_command_line))
        whole, what, spoken = texts
        return self._create(whole, self.code, self.facts, what, self.remedy, spoken, self._spoken_remedy)

    def record(self, front: Front | None = None) -> dict[str, Any]:
        """Return the message for JSON: code, text, facts and remedy.

        Parameters
        ----------
        front : {"python", "command line"}, optional
            Whose names of options to use. Default: both texts.

        Returns
        -------
        dict
            JSON-ready data.
        """
        facts = {name: _to_json_value(value, front or "python") for name, value in self.facts.items()}
        data: dict[str, Any] = {"code": self.code, "text": str(self), "facts": facts, "remedy": self.remedy}
        if front == "command line":
            return data | {"text": self.for_command_line, "remedy": self._spoken_remedy}
        return data if self.for_command_line == self else data | {"command_line": self.for_command_line}

    @classmethod
    def load(cls, data: str | Mapping[str, Any]) -> Self:
        """Return a message from `record`, or from a sentence of an old file, which has no code.

        Parameters
        ----------
        data : str or mapping
            What `record` returned.

        Returns
        -------
        Message
            The message.
        """
        if isinstance(data, cls):
            return data
        if isinstance(data, str):
            return cls._create(data, "", {}, data, "", data)
        keys = ("text", "code", "remedy")
        if not isinstance(data, Mapping) or not all(isinstance(data.get(key), str) for key in keys):
            raise ValueError("a message is a text, or has text, code, remedy and facts")
        text, code, remedy = (data[key] for key in keys)
        facts, spoken = data.get("facts"), data.get("command_line", text)
        if not isinstance(facts, Mapping) or not isinstance(spoken, str):
            raise ValueError("facts of a message are a mapping, its command_line is a text")
        what = text.removesuffix(remedy).rstrip("; ") if remedy else text
        return cls._create(text, code, facts, what, remedy, spoken)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Let the records of files hold messages: written by `record`, read by `load`."""
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(lambda m: m.record() if m.code else str(m))
        return core_schema.no_info_plain_validator_function(cls.load, serialization=written)


def messages_in(data: object) -> Iterator[Message]:
    """Yield every message in nested containers, each text once."""
    seen: dict[str, Message] = {}

    def collect_messages(part: object) -> None:
        """Go down into containers, and keep the messages there."""
        if isinstance(part, Message):
            seen.setdefault(str(part), part)
        elif isinstance(part, Mapping):
            for value in part.values():
                collect_messages(value)
        elif isinstance(part, list | tuple):
            for value in part:
                collect_messages(value)

    collect_messages(data)
    yield from seen.values()


def command_line_wording(text: str) -> str:
    """Return a text in the words of the command line."""
    return text.for_command_line if isinstance(text, Message) else text


def _restore_message(*parts: Any) -> Message:
    """Restore a pickled message."""
    return Message._create(*parts)


class _TemplateFormatter(string.Formatter):
    """Fills templates with facts in the words of Python or of the command line."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def format_field(self, value: Any, format_spec: str) -> str:
        """Render options, wordings, messages and sequences; numbers by their format."""
        match value:
            case Option() | Wording():
                return value.render(self.front)
            case Message():
                return str(value) if self.front == "python" else value.for_command_line
            case tuple() if not format_spec and all(isinstance(part, int) for part in value):
                return str(value)  # the shape of an array
            case list() | tuple() | set() | frozenset() if not format_spec:
                return ", ".join(self.format_field(part, "") for part in value)
            case list() | tuple():
                return printable(_quote_names(value, int(format_spec)))
            case str():
                return printable(format(value, format_spec))
        return format(value, format_spec)


def html_summary(facts: Mapping[str, object], head: Sequence[str] = (), rows: Sequence[Sequence[object]] = ()) -> str:
    """Facts and, below them, a table as HTML for notebooks; all texts are escaped, long tables end after some rows."""

    def line(cells: Iterable[object], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{escape(printable(str(cell)))}</{kind}>" for cell in cells) + "</tr>"

    told = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(printable(str(x)))}</td></tr>" for name, x in facts.items() if str(x)
    )
    text = f"<table>{told}</table>"
    if rows:
        body = "".join(line(row, "td") for row in rows[:MOST_ROWS])
        text += f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"
    if len(rows) > MOST_ROWS:
        text += f"<p>... {len(rows) - MOST_ROWS} more rows: <code>.table()</code></p>"
    return text


def printable(text: str, keep: str = "") -> str:
    """Text in which escapes replace controls, line ends and marks that change the direction of writing.

    What files hold never steers a terminal. keep: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def _quote_names(names: Sequence[object], limit: int) -> str:
    """First names in quotes, and how many there are if some are left out."""
    more = f", ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(f"'{name}'" for name in names[:limit]) + more if names else "nothing"


def _fill_template(template: str, facts: Mapping[str, Any], front: Front) -> str:
    """Fill a template with facts, in the words of one front."""
    return _TemplateFormatter(front).vformat(template, (), facts)


def _join_remedy(what: str, remedy: str) -> str:
    """Join what is wrong and the remedy into one sentence."""
    if not remedy:
        return what
    return f"{what} {remedy}" if what.endswith((":", ".", "?", ",")) else f"{what}; {remedy}"


def _python_value_text(value: Any) -> str:
    """Value of a keyword as it is written in Python."""
    match value:
        case _ if value is ANYTHING:
            return "..."
        case Mapping():
            return "{" + ", ".join(f"{key!r}: {_python_value_text(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_python_value_text, value)) + "]"
        case tuple() if len(value) > 1:
            return "(" + ", ".join(map(_python_value_text, value)) + ")"
        case float():
            return repr(float(value))  # also of numpy's numbers
        case _ if callable(value):  # an estimator of the user's
            return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)


def _command_line_value_text(value: Any, blank: str) -> str:
    """Value of an option as it is typed; blank: what stands for any value."""
    match value:
        case _ if value is ANYTHING:
            return blank
        case None:
            return ""
        case str():
            return value
        case Sequence():
            return ",".join(_command_line_value_text(part, blank) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _command_line_angle_text(value: Any, blank: str) -> str:
    """A joint position (rad or m) as typed on the command line, tenths of degrees as `90deg`; blank: for any value."""
    if not isinstance(value, float) or not math.isfinite(value):
        return _command_line_value_text(value, blank)
    degrees = round(math.degrees(value), 1)
    return f"{degrees:g}deg" if degrees and abs(value - math.radians(degrees)) < 1e-9 else repr(float(value))


def _picklable_fact(value: Any) -> Any:
    """A fact as data that can be pickled: an error by its message or text, a path by its name, plain numbers."""
    match value:
        case BaseException():
            return getattr(value, "message", None) or str(value) or type(value).__name__
        case os.PathLike():
            return str(value)
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _to_json_value(value: Any, front: Front = "python") -> Any:
    """A fact as JSON can hold it."""
    match value:
        case float() if not math.isfinite(value):
            return None  # JSON has no such numbers
        case bool() | int() | float() | None:
            return value
        case str():
            return command_line_wording(value) if front == "command line" else str(value)
        case Mapping():
            return {str(key): _to_json_value(part, front) for key, part in value.items()}
        case Option() | Wording():
            return value.render(front)
    if hasattr(value, "tolist"):
        return _to_json_value(value.tolist(), front)
    return [_to_json_value(part, front) for part in value] if isinstance(value, Iterable) else str(value)
