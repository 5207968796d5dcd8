"""The command `init`: a project file from a robot and its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.options import JsonOption, complete_robot_name, load_robot_for_command
from dynid.errors import DynidError


def init(
    robot: Annotated[
        str | None,
        typer.Argument(help="a robot file or name; that of this folder if missing", autocompletion=complete_robot_name),
    ] = None,
    logs: Annotated[
        list[str] | None, typer.Argument(metavar="[LOG]...", help="recordings; those of this folder if missing")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Write a project file dynid.toml from a robot and its logs: columns, units, rates, what to fit and to validate.

    Example: dynid init my_robot.urdf run1.csv run2.csv
    """
    from dynid.cli import project, terminal
    from dynid.storage.files import write_text

    out = Path(project.FILE)
    if out.exists() or out.is_symlink():
        raise DynidError(
            "file_exists", "{out}: there is a project file already", "edit it, or remove it first", out=out,
        )  # fmt: skip
    terminal.check_output_path("--out", out)
    terminal.check_output_path("--json", json)
    found = project.sketch_project(robot, logs or [], Path("."), load_robot_for_command)
    text = found.project_file_text()
    project.parse_project(out, text.encode())
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    outputs.write_file(out, lambda place: write_text(place, text))
    outputs.write_json_file(json, found.facts)
    for line in found.summary_lines():
        terminal.print_line(screen, line)
    outputs.show_written_files(screen)
    outputs.finish(found.warnings)
