"""All commands together."""

from __future__ import annotations

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

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.",
)
for command in (
    robots, mdh, base, excite, simulate, identify, payload, gains, markers, unknown, export, physical, check, report,
    view, demo,
):  # fmt: skip
    app.command()(command)
