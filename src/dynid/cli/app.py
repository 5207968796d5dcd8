"""All commands together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand

from dynid.cli import project
from dynid.cli.commands.actuators import actuators
from dynid.cli.commands.fleet import fleet, watch
from dynid.cli.commands.identify import identify, init, inspect, simulate
from dynid.cli.commands.motions import excite, markers, view
from dynid.cli.commands.payload import gains, payload
from dynid.cli.commands.results import check, demo, export, physical, report
from dynid.cli.commands.robots import base, mdh, robots, unknown
from dynid.cli.options import name_outputs, with_urdf_options
from dynid.deprecated import OPTIONS

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.",
)
COMMANDS: dict[Callable[..., None], str] = {
    robots: "List the bundled robots.",
    inspect: "What is in a log, and how to read it.",
    init: "Write a project file from robot and logs.",
    mdh: "Any robot as a Denavit-Hartenberg table.",
    base: "Which parameters can be identified at all.",
    excite: "Design a motion that reveals them.",
    simulate: "Make the log of a motion.",
    identify: "Find parameters from logs, with intervals.",
    payload: "What a link carries.",
    gains: "Gains of the drives, by a payload.",
    actuators: "Drives from commands, without torques.",
    fleet: "Many robots, many weeks: what changed.",
    watch: "Watch a folder for new logs: what changed.",
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


class _Command(TyperCommand):
    """A command that takes what is not typed from a project file, and still the options of the version before."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        if self.name not in project.WITHOUT:
            self.params.append(_project_option())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Replace old options by new ones, add what the project file says, then parse."""
        words, renamed = list(args), OPTIONS.get(self.name or "", {})
        for k, word in enumerate(words[: words.index("--")] if "--" in words else words):
            old, equals, value = word.partition("=")
            if old in renamed:
                words[k] = f"{renamed[old]}{equals}{value}"
                typer.echo(
                    f"dynid: {old} is now {renamed[old]}; the old name will be removed in the next version", err=True
                )
        words = name_outputs(words) if self.name == "identify" else words
        return super().parse_args(ctx, words if ctx.resilient_parsing else project.complete_words(self, ctx, words))


@cache
def _project_option() -> Any:
    """Build the option --project, which no command sees: its values are those of other options."""

    def command(
        project: Annotated[
            Path | None,
            typer.Option(help="project file with options (default: dynid.toml if it exists; none for no file)"),
        ] = None,
    ) -> None: ...

    only = typer.Typer(add_completion=False)
    only.command()(command)
    made: Any = typer.main.get_command(only).params[0]
    made.expose_value = False
    return made


for command, words in COMMANDS.items():
    app.command(short_help=words, cls=_Command)(with_urdf_options(command))
