"""The command line: all commands, and what happens to mistakes.

Exit 0: done; 1: done, with warnings that must be read; 2: the input is at fault.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from dynid.commands.base import base
from dynid.commands.demo import demo
from dynid.commands.excitation import excite
from dynid.commands.export import export
from dynid.commands.identification import identify, simulate
from dynid.commands.markers import markers
from dynid.commands.payload import gains, payload
from dynid.commands.physical import check, physical
from dynid.commands.report import report
from dynid.commands.robots import mdh, robots
from dynid.commands.unknown import unknown
from dynid.commands.view import view
from dynid.errors import DynidError

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.",
)
COMMANDS: dict[Callable[..., None], str] = {
    robots: "List the bundled robots.",
    mdh: "Any robot as a Denavit-Hartenberg table.",
    base: "Which parameters can be known at all.",
    excite: "Design a motion that reveals them.",
    simulate: "Make the log of a motion.",
    identify: "Find parameters from logs, with intervals.",
    payload: "What a link carries.",
    gains: "Gains of the drives, by a known payload.",
    markers: "Joint positions from markers on the links.",
    unknown: "Parameters without lengths or angles.",
    physical: "Masses and inertias that can exist.",
    check: "Links of a robot file that cannot exist.",
    export: "Write a URDF, MJCF, TOML, C or JSON file.",
    report: "One HTML page on a result, or on several.",
    view: "See a robot move in the browser.",
    demo: "The main job on a simulated robot.",
}
"""In the order of the work, with what the list of commands says of each."""

for command, words in COMMANDS.items():
    app.command(short_help=words)(command)


def main() -> None:
    """Run the command line; a mistake of the user becomes a line or two and exit code 2."""
    try:
        code = app(prog_name="dynid", standalone_mode=False)
    except DynidError as error:
        from dynid.faces.terminal import spoken

        sys.stderr.write(f"dynid: {spoken(str(error))}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        sys.exit(_misused(error))
    if code == 130:
        sys.stderr.write("dynid: interrupted\n")
    sys.exit(code or 0)


def _misused(error: Exception) -> int:
    """Say in one line what is wrong with the options; anything else is a bug and goes on."""
    if not hasattr(error, "format_message"):
        raise error
    message = str(error.format_message())
    sys.stderr.write(message + "\n" if message.lstrip().startswith("Usage") else f"dynid: {message} (see --help)\n")
    return 2


if __name__ == "__main__":
    main()
