"""All commands together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from dynid.cli.commands.identify import identify, simulate
from dynid.cli.commands.motions import excite, markers, view
from dynid.cli.commands.payload import gains, payload
from dynid.cli.commands.results import check, demo, export, physical, report
from dynid.cli.commands.robots import base, mdh, robots, unknown
from dynid.cli.options import with_urdf_options
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


class _CommandWithOldOptions(TyperCommand):
    """A command that still takes the options of the version before, with a line on standard error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Replace old options by new ones, then parse."""
        words, renamed = list(args), OPTIONS.get(self.name or "", {})
        for k, word in enumerate(words[: words.index("--")] if "--" in words else words):
            old, equals, value = word.partition("=")
            if old in renamed:
                words[k] = f"{renamed[old]}{equals}{value}"
                typer.echo(f"dynid: {old} is now {renamed[old]}; the old name goes with the next version", err=True)
        return super().parse_args(ctx, words)


for command, words in COMMANDS.items():
    app.command(short_help=words, cls=_CommandWithOldOptions)(with_urdf_options(command))
