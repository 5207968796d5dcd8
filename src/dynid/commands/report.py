"""The command `report`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption


def report(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT...", help="of identify --out or physical --out; several compare")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="the .html to write; beside the result if missing")] = None,
    log: Annotated[list[str] | None, typer.Option(help="a LOG of the result, to draw its curves; repeatable")] = None,
    validate: Annotated[list[str] | None, typer.Option(help="another LOG that it has to predict; repeatable")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as for identify")] = None,
    units: Annotated[list[str] | None, typer.Option(help="other units than SI: q=deg,tau=Nmm")] = None,
    gear: Annotated[str | None, typer.Option(help="motor per joint: a ratio, one per joint, or a matrix FILE")] = None,
    gain: Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")] = None,
    topic: Annotated[str | None, typer.Option(help="of the joint states in a bag")] = None,
    json: JsonOption = None,
) -> None:
    """Write one HTML page on a result that works offline, or put several results side by side.

    Example: dynid report result.json --log log.csv@0%:65% --validate log.csv@65%:
    """
    from dynid.estimation.identification import Identification
    from dynid.faces import identification_face, log_options, report_face, terminal
    from dynid.report.write import write_report

    words = [*(log or ()), *(validate or ())]
    report_face.check_words(results, bool(words))
    place = report_face.default_place(results) if out is None else out
    keep = [*results, *(log_options.file_of(word) for word in words)]
    log_options.check_outputs(place, json, suffixes=(".html",), keep=keep)
    bodies = report_face.load_bodies(results[0]) if len(results) == 1 else None
    found = [bodies.identification] if bodies else [Identification.load(path) for path in results]
    screen = terminal.console(json)
    common = {"command": report_face.command_line(), "inputs": results}
    doubts: tuple[str, ...] = ()
    if len(found) > 1:
        names = report_face.names_of(results)
        write_report(found, place, names=names, **common)  # type: ignore[arg-type]
    else:
        names = [found[0].robot.name]
        with log_options.spoken_for_the_command_line():
            reader = log_options.Reader.of(found[0].robot, column or [], units or [], gear, gain, topic)
            logs, others = ([reader.read(word) for word in some or ()] for some in (log, validate))
            with identification_face.progress(screen) as tell:
                doubts = write_report(
                    found[0], place, logs=logs, validate=others, physical=bodies, on_progress=tell,
                    **common,  # type: ignore[arg-type]
                )  # fmt: skip
    outputs = terminal.Outputs()
    verdicts = {n: r.verdict.level for n, r in zip(names, found, strict=True)}
    outputs.put_json(json, lambda: {"report": str(place), "bytes": place.stat().st_size, "verdicts": verdicts})
    for name, result in zip(names, found, strict=True):
        identification_face.line(screen, f"{name}: {result.verdict}", style="bold")
    if len(found) == 1 and not words:
        identification_face.line(screen, "no curves: a result holds no logs; --log log.csv reads them again")
    screen.print(f"wrote {terminal.escaped(str(place))}", highlight=False, soft_wrap=True)
    outputs.finish([*report_face.warnings_of(found, names), *(bodies.warnings if bodies else ()), *doubts])
