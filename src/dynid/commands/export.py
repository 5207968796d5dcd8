"""The command `export`: parse, call, show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from dynid.commands.options import JsonOption, LockOption
from dynid.errors import DynidError


def export(
    result: Annotated[str, typer.Argument(help="a result .json of dynid, a robot file, or a bundled robot's name")],
    out: Annotated[Path, typer.Argument(help="the file to write: .urdf, .xml (MJCF), .toml, .c or .json")],
    template: Annotated[
        Path | None, typer.Option(help="a .urdf of which all but the inertial elements is kept as it is")
    ] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Write a model that other software loads, and prove it: the file is loaded again and its torques compared.

    Example: dynid export result.json robot.c
    """
    from dynid.exports.export import SUFFIXES
    from dynid.exports.export import export as exported
    from dynid.faces import terminal

    terminal.check_place("OUT", out, suffixes=SUFFIXES)
    terminal.check_place("--json", json, keep=[Path(result), *([template] if template else [])])
    if json is not None and json.resolve() == out.resolve():
        raise DynidError(f"OUT and --json both name {out}; give them different names")
    if Path(result).is_file() and out.exists() and out.samefile(result) and out.suffix.lower() != ".urdf":
        raise DynidError(f"OUT {out}: this is the input; choose another name")
    locks = terminal.parse_locks(lock or [])
    done = exported(read_result(result, locks), out, template=template, lock=locks)
    checked = done.verification

    def facts_of() -> dict[str, Any]:
        facts: dict[str, Any] = {"file": str(out), "robot": done.subject.robot.name, "notes": list(done.notes)}
        facts |= {"warnings": list(done.warnings)}
        facts |= {"reader": checked.reader, "error": checked.error, "skipped": checked.skipped}
        if done.operations:
            costs = {**done.operations.functions, "inverse_dynamics_standard": done.operations.standard}
            facts["operations"] = {
                name: {"multiplications": c.multiplications, "additions": c.additions, "calls": c.calls}
                for name, c in costs.items()
            }
        return facts

    screen, outputs = terminal.console(json), terminal.Outputs()
    outputs.put_json(json, facts_of)
    screen.print(f"wrote {terminal.escaped(str(out))}", highlight=False, soft_wrap=True)
    screen.print(terminal.escaped(str(checked)), highlight=False, soft_wrap=True)
    for line in done.operations.lines() if done.operations else ():
        screen.print(terminal.escaped(line), highlight=False)
    for note in done.notes:
        screen.print(f"note: {terminal.escaped(note)}", highlight=False, soft_wrap=True)
    outputs.finish(done.warnings)


def read_result(source: str, lock: dict[str, float]) -> Any:
    """Read a result of dynid (identification, physical parameters, robot), a robot file, or a bundled robot."""
    from dynid.estimation.identification import Identification
    from dynid.exports.robot_json import FORMAT, read_robot_json
    from dynid.robot.load import load_robot

    path = Path(source)
    if path.suffix.lower() != ".json":
        return load_robot(source, lock=lock)
    if not path.is_file():
        raise DynidError(f"there is no file '{source}'")
    form = _format(path)
    if form == FORMAT:
        return read_robot_json(path)
    if form.startswith("dynid physical"):
        import dynid

        kind = getattr(dynid, "PhysicalParameters", None)
        if kind is None:
            raise DynidError(f"{source}: this version of dynid has no physical parameters")
        return kind.load(path)
    return Identification.load(path)


def _format(path: Path) -> str:
    """Word at the beginning of a result file that says what it is; nothing if there is none."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise DynidError(f"cannot read {path}: {error.strerror or error}") from error
    found = re.search(rb'"format"\s*:\s*"([^"]*)"', start)
    return found[1].decode(errors="replace") if found else ""
