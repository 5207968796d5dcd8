"""The command `demo`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.faces.completion import complete_robot


def demo(
    robot: Annotated[str, typer.Argument(help="a bundled robot or a file", autocompletion=complete_robot)] = "puma560",
    out: Annotated[Path, typer.Option("--out", help="folder for the files")] = Path("out/demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="of motions and noise")] = 0,
    json: JsonOption = None,
) -> None:
    """Do the main job on a robot, simulated: exciting motion, noisy recording, identification, validation, report.

    Example: dynid demo panda
    """
    from dynid.demo.job import MainJob
    from dynid.faces import terminal
    from dynid.faces.identification_face import line, progress
    from dynid.robot.load import load_robot

    terminal.check_place("--json", json)
    job = MainJob(load_robot(robot), out, seed=seed)
    screen, outputs = terminal.console(json), terminal.Outputs()
    terminal.show_notes(job.robot, screen)
    with progress(screen, "demo") as tell:
        for done, text in job.run():
            line(screen, text)
            if tell:
                tell("demo", done)
    outputs.put_json(json, lambda: job.facts)
    outputs.failed += job.failures
    terminal.show_summary(job.summary, screen)
    outputs.finish([terminal.spoken(warning) for warning in job.warnings])
