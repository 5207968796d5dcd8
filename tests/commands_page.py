"""The reference of the command line, from the commands themselves; run as a script it writes docs/commands.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer.main

from dynid.cli.app import app

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Command line

Exit code 0: done; 1: done, with warnings that must be read; 2: the input is wrong, or a file could not be written,
said in a line or two on standard error. Of several outputs each is tried, whatever becomes of the others.

Files are written before anything is printed. `dynid ... | head` ends the text, not the work: the files are there, and
the exit code is that of the work. A file is replaced in one step and keeps its permissions; where a link leads to it,
the link stays, and other hard links keep the old content. Devices and named pipes are written to; folders, sockets,
disks and read-only files are refused. `--json -` writes to standard output, and the text for people goes to standard
error; where the command fails, it writes the error with its code ([formats](formats.md)).

Output is plain when piped. `dynid --install-completion` teaches your shell (bash, zsh, fish) to complete commands,
options and the names of bundled robots. This page is written by `python tests/commands_page.py`.
"""


def commands() -> dict[str, Any]:
    """All commands by name, in the order of --help."""
    group: Any = typer.main.get_command(app)
    return dict(group.commands)


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(_section(name, command) for name, command in commands().items())]
    return "\n".join(parts)


def _section(name: str, command: Any) -> str:
    told, _, example = str(command.help).partition("Example: ")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    lines = [f"## dynid {name}", "", " ".join(told.split()), "", "```sh", example.strip(), "```", ""]
    lines += ["| | |", "|---|---|"]
    lines += [f"| `{_name(p)}` | {_told(p)} |" for p in arguments]
    lines += [f"| `{_spelled(p)}` | {_told(p)} |" for p in options]
    return "\n".join([*lines, ""])


def _name(argument: Any) -> str:
    word = str(argument.metavar or argument.name.upper())
    return word if argument.required else f"[{word}]"


def _spelled(option: Any) -> str:
    return " / ".join((*option.opts, *option.secondary_opts))


def _told(parameter: Any) -> str:
    text = str(parameter.help).replace("|", "\\|").replace("<", "&lt;")
    value = parameter.default
    plain = not (value is None or value is False or callable(value) or value in ("", "0", ()))
    return f"{text} (default: {_default(parameter)})" if plain and not parameter.required else text


def _default(parameter: Any) -> str:
    value = parameter.default
    if isinstance(value, bool):
        return f"`{parameter.opts[0]}`"
    return f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
