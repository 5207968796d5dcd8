"""What all commands share in the terminal: lines and notes, plain when piped; JSON and the files that they write."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from dynid.cli.project import values_in_use
from dynid.errors import DynidError
from dynid.messages import Message, command_line_wording, messages_in, printable
from dynid.storage.files import find_descriptor, resolve_write_target, write_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dynid.robot.robot import Robot

T = TypeVar("T")
STANDARD_OUTPUT = Path("-")
_NUMBER = re.compile(r"[-+]*[\d.]+(?:e[-+]?\d+)?(?: %)?|-|nan|inf")


def make_console(json: Path | None = None) -> Console:
    """Console for standard output; when piped, plain text that is not cut at 80 columns.

    json: where machine-readable output goes; if to standard output, text goes to standard error. A reader that closes
    the pipe ends the text, not the work.
    """
    from rich.console import Console

    class Screen(Console):
        """A console that ends quietly where its reader closes the pipe."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            discard_output(self.file)

        def print(self, *objects: Any, **options: Any) -> None:
            for table in objects:
                keep_numbers_whole(table)
            try:
                super().print(*objects, **options)
            except OSError as error:
                discard_output(self.file)
                raise DynidError(
                    "standard_output_unwritable", "cannot print: {reason}", reason=error.strerror or str(error),
                ) from error  # fmt: skip

    aside = is_standard_output(json)
    plain = Screen(stderr=aside)
    return plain if plain.is_terminal else Screen(stderr=aside, width=200, no_color=True)


def keep_numbers_whole(table: object) -> None:
    """Let no cell of a table's columns of numbers be broken over lines; names are folded where room is short."""
    from rich.table import Table

    for column in table.columns if isinstance(table, Table) else ():
        cells = [cell for cell in column.cells if isinstance(cell, str) and cell]
        if column.justify == "right" or (cells and all(_NUMBER.fullmatch(cell) for cell in cells)):
            column.no_wrap = True
        else:
            column.overflow = "fold"


def print_fitting_table(out: Console, *tables: Callable[[], Table]) -> None:
    """Print the first of several layouts of a table that is not wider than the terminal, or the last."""
    from rich.measure import Measurement

    for make in tables:
        table = make()
        keep_numbers_whole(table)
        if make is tables[-1]:  # measuring a long table takes as long as printing it
            break
        if Measurement.get(out, out.options.update(max_width=100_000), table).maximum <= out.width:
            break
    out.print(table)


def discard_output(stream: IO[str]) -> None:
    """Discard the rest of an output, also what is in its buffer when the program ends."""
    with suppress(OSError, ValueError):  # a stream in memory has no descriptor
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def write_error(text: str) -> None:
    """Write a line to standard error, which may be closed (`2>&1 | head`)."""
    try:
        sys.stderr.write(f"{printable(text, keep=chr(10))}\n")
        sys.stderr.flush()
    except OSError:
        discard_output(sys.stderr)


def is_standard_output(path: Path | None) -> bool:
    """Whether a file is standard output: `-`, or a name of it such as /dev/stdout."""
    return path is not None and (path == STANDARD_OUTPUT or find_descriptor(path) == 1)


class Outputs:
    """The files of one command: each is tried, whatever becomes of the others; then what was written is shown."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.failed: list[Message] = []

    def write_file(self, path: Path | None, write: Callable[[Path], T]) -> T | None:
        """Write a file if one is asked for; a failure is kept for the end."""
        if path is None:
            return None
        try:
            done = write(path)
        except DynidError as error:
            self.failed.append(error.message)
            return None
        if not is_standard_output(path):
            self.written.append(str(path))
        return done

    def write_json_file(self, path: Path | None, data: Callable[[], object]) -> None:
        """Write machine-readable output if asked for."""
        self.write_file(path, lambda place: write_json(place, data()))

    def show_written_files(self, screen: Console, otherwise: str = "") -> None:
        """Print the names of the files that were written."""
        text = f"wrote {', '.join(self.written)}" if self.written else otherwise
        if text:
            screen.print(escape_markup(text), highlight=False, soft_wrap=True)

    def finish(self, warnings: Sequence[Message] = ()) -> None:
        """Print warnings and failures; exit with code 2 if a file could not be written, 1 with warnings."""
        try:
            finish_with_warnings(warnings)
        finally:
            for message in self.failed:
                write_error(f"dynid: {command_line_wording(message)}")
            if self.failed:
                raise SystemExit(2)


def show_summary(lines: Sequence[tuple[str, str]], out: Console) -> None:
    """Print a closing summary as (subject, finding) lines; when piped, one line each."""
    from rich.table import Table

    width = 2 + max(len(name) for name, _ in lines)
    if not out.is_terminal:
        for name, text in lines:
            out.print(escape_markup(f"{name:{width}}{text}"), highlight=False, soft_wrap=True)
        return
    table = Table.grid(padding=(0, 2))
    for name, text in lines:
        table.add_row(f"[bold]{escape_markup(name)}[/bold]", escape_markup(text))
    out.print(table, highlight=False)


def escape_markup(text: str) -> str:
    """Return text from a file so that rich prints it as it is."""
    from rich.markup import escape

    return escape("".join(c for c in text if c.isprintable()))


def show_notes(robot: Robot, out: Console) -> None:
    """Print the notes on a robot that were made while loading it."""
    show_project_values(out)
    for note in robot.notes:
        show_note(note, out)


def show_project_values(out: Console) -> None:
    """Print what came from a project file, if anything."""
    used = values_in_use()
    if used is not None:
        show_note(used.note, out)


def show_note(note: str, out: Console) -> None:
    """Print one note, in the words of the command line."""
    print_line(out, f"note: {command_line_wording(note)}")


def print_line(out: Console, text: str, style: str | None = None, *, until: int | None = None) -> None:
    """Print one line; a message in the words of the command line.

    until: how many characters the style is for; all if missing.
    """
    from rich.text import Text

    line = Text("".join(c for c in command_line_wording(text) if c.isprintable()))
    if style is not None:
        line.stylize(style, 0, until)
    out.print(line, highlight=False, soft_wrap=not out.is_terminal)


def finish_with_warnings(warnings: Sequence[Message]) -> None:
    """Print warnings to standard error, and exit with code 1 if there are any."""
    for warning in dict.fromkeys(warnings):
        write_error(f"warning: {command_line_wording(warning)}")
    if warnings:
        raise SystemExit(1)


def write_json(path: Path, data: object) -> None:
    """Write machine-readable output, `-` being standard output; numbers that are not finite become null.

    An object gets all messages in it once more as `messages`, with code, facts and remedy for scripts, and what came
    from a project file as `project`.
    """
    used = values_in_use()
    if isinstance(data, dict) and used is not None:
        data = data | {"project": used.facts()}
    if isinstance(data, dict) and (found := list(messages_in(data))):
        data = data | {"messages": [message.record("command line") for message in found]}
    text = json.dumps(_to_json_value(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if path != STANDARD_OUTPUT:
        return write_text(path, text)
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", errors="backslashreplace"))
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)
    except OSError as error:
        discard_output(sys.stdout)
        raise DynidError(
            "standard_output_unwritable", "cannot write to standard output: {reason}",
            reason=error.strerror or str(error),
        ) from error  # fmt: skip


def _to_json_value(data: object) -> object:
    """Data as JSON can hold them: null for numbers that are not finite, messages in the words of the command line."""
    match data:
        case float():
            return data if math.isfinite(data) else None
        case Message():
            return command_line_wording(data)
        case dict():
            return {str(key): _to_json_value(value) for key, value in data.items()}
        case list() | tuple():
            return [_to_json_value(value) for value in data]
    return data


def check_output_path(
    option: str, path: Path | None, *, suffixes: Sequence[str] = (), keep: Sequence[Path] = ()
) -> None:
    """Raise, before the work, where a file cannot be written: folder, suffix, or one of the inputs."""
    if path is None or (path == STANDARD_OUTPUT and not suffixes):
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise DynidError(
            "unsupported_suffix", "{option} {path}: the name must end in {suffixes}", option=option, path=path,
            suffixes=" or ".join(suffixes),
        )  # fmt: skip
    try:
        target, found = resolve_write_target(path)
    except OSError as error:
        raise DynidError(
            "file_unwritable", "{option} {path}: {reason}", option=option, path=path,
            reason=error.strerror or str(error),
        ) from error  # fmt: skip
    if isinstance(target, Path) and (found is None or stat.S_ISREG(found.st_mode)):
        folder = target.parent if path.is_symlink() else path.parent
        if not folder.is_dir():
            raise DynidError(
                "folder_not_found", "{option} {path}: there is no folder '{folder}'", "make it first", option=option,
                path=path, folder=folder,
            )  # fmt: skip
        if not os.access(folder, os.W_OK):
            raise DynidError(
                "folder_unwritable", "{option} {path}: no permission to write in the folder '{folder}'", option=option,
                path=path, folder=folder,
            )  # fmt: skip
    if found is not None and any(other.exists() and os.path.samestat(found, other.stat()) for other in keep):
        raise DynidError(
            "output_is_input", "{option} {path}: this is one of the inputs", "choose another name", option=option,
            path=path,
        )  # fmt: skip
