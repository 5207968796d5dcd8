"""The commands `payload` and `gains`: parse, call, show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.options import (
    GravityOption,
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    RobotArgument,
    RowsOption,
    SensorOption,
    SignOption,
    SnapOption,
    ZeroOption,
    parse_numbers,
    refuse_unused_options,
)
from dynid.errors import DynidError

if TYPE_CHECKING:
    from rich.console import Console

    from dynid.cli.terminal import Outputs
    from dynid.estimation.identification import Identification
    from dynid.payload.gains import Gains
    from dynid.payload.payload import Payload
    from dynid.robot.robot import Robot

LoadedOption = Annotated[list[str], typer.Option(help="a LOG with the payload, repeatable; log.csv@2:20 takes a part")]
UnloadedOption = Annotated[
    list[str], typer.Option(help="a LOG without the payload, repeatable, or a result of dynid identify (.json)")
]
LinkOption = Annotated[str | None, typer.Option(help="the link that carries the payload (default: the last)")]
FrictionOption = Annotated[str, typer.Option(help="auto, none, or blocks: viscous,coulomb,offset,...")]
RotorOption = Annotated[bool, typer.Option(help="identify the rotors' inertias Ia")]
CutoffOption = Annotated[float | None, typer.Option(help="cut-off frequency, Hz (default: automatic)")]
DelayOption = Annotated[float, typer.Option(help="seconds by which torques were recorded after positions")]
OffsetsOption = Annotated[bool, typer.Option("--offsets-per-log", help="every log has its own offsets")]
FrictionPerLogOption = Annotated[bool, typer.Option(help="every log has its own friction, offsets included")]
ColumnOption = Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as in dynid identify")]
UnitsOption = Annotated[list[str] | None, typer.Option(help="units other than SI: q=deg,tau=Nmm")]
GearOption = Annotated[
    str | None, typer.Option(help="gear ratio, motor over joint: one number, one per joint, or a matrix FILE")
]
TopicOption = Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")]


def payload(
    robot: RobotArgument,
    *,
    loaded: LoadedOption,
    unloaded: UnloadedOption,
    link: LinkOption = None,
    model: Annotated[str, typer.Option(help="torque, power, energy, momentum, reaction or torque+reaction")] = "torque",
    sensor: SensorOption = None,
    gain_sigma: Annotated[
        float | None,
        typer.Option(help="relative standard deviation of the drive gains, part of the intervals (default: 0.1)"),
    ] = None,
    physical: Annotated[bool, typer.Option(help="return a physically possible body")] = True,
    friction: FrictionOption = "auto",
    rotor_inertia: RotorOption = True,
    cutoff: CutoffOption = None,
    joints: Annotated[str | None, typer.Option(help="joints whose torques to use: NAME,NAME,...")] = None,
    offsets_per_log: OffsetsOption = False,
    friction_per_log: FrictionPerLogOption = True,
    delay: DelayOption = 0.0,
    column: ColumnOption = None,
    units: UnitsOption = None,
    gear: GearOption = None,
    gain: Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")] = None,
    topic: TopicOption = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
    json: JsonOption = None,
) -> None:
    """Identify what a link carries: mass, centre of mass and inertia, from logs with and without it.

    A result of dynid identify (.json) may stand in place of the unloaded logs, or two in place of both: then their
    difference is taken.

    Example: dynid payload puma560 --loaded with.csv --unloaded without.csv --json payload.json
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import identification, inertial
    from dynid.payload.identify_payload import identify_payload, payload_between

    _check_input_and_output_files(robot, loaded, unloaded, gear, json)
    if "reaction" not in model:
        refuse_unused_options({"--sensor": sensor}, f"--model {model} uses no force plate")
    known = log_options.with_force_plate(log_options.load_robot_from_options(robot, gravity, lock or [], snap), sensor)
    screen = terminal.make_console(json)
    with_it, without = (
        _load_result_of_robot(word, known) if word.lower().endswith(".json") else None
        for word in _result_words(loaded, unloaded)
    )
    if with_it is not None and without is not None:
        reading = {
            "--model": model != "torque", "--sensor": sensor,
            "--friction": friction != "auto", "--no-rotor-inertia": not rotor_inertia, "--cutoff": cutoff,
            "--delay": delay != 0.0, "--joints": joints, "--offsets-per-log": offsets_per_log,
            "--no-friction-per-log": not friction_per_log, "--column": column, "--units": units, "--gear": gear,
            "--gain": gain, "--topic": topic, "--sign": sign, "--zero": zero, "--order": order,
            "--header": header, "--rows": rows,
        }  # fmt: skip
        refuse_unused_options(reading, "applies to logs; results have their own settings")
        found = payload_between(with_it, without, link=link, gain_sigma=gain_sigma, physical=physical)
    else:
        reader = log_options.LogReader.from_options(
            known, column or [], units or [], gear, gain, topic, sign=sign, zero=zero, order=order,
            header=header, rows=rows,
        )  # fmt: skip
        with identification.show_progress(screen) as tell:
            found = identify_payload(
                known, [reader.read_log(word) for word in loaded],
                without or [reader.read_log(word) for word in unloaded], link=link, model=model,
                gain_sigma=gain_sigma, physical=physical,
                friction=log_options.parse_friction(friction), rotor_inertia=rotor_inertia, cutoff=cutoff,
                joints=None if joints is None else [name for name in joints.split(",") if name],
                offsets_per_log=offsets_per_log, friction_per_log=friction_per_log, delay=delay, on_progress=tell,
            )  # fmt: skip
    outputs = terminal.Outputs()
    outputs.write_json_file(json, found.facts)
    terminal.show_notes(known, screen)
    inertial.show_payload(found, screen)
    _finish_outputs(found, screen, outputs)


def gains(
    robot: RobotArgument,
    *,
    loaded: Annotated[
        list[str] | None, typer.Option(help="a LOG with the payload, repeatable; not needed with --reference")
    ] = None,
    unloaded: Annotated[list[str], typer.Option(help="a LOG without the payload, repeatable")],
    mass: Annotated[
        list[float] | None, typer.Option(help="of the payload, kg; repeatable, one for each --loaded")
    ] = None,
    com: Annotated[
        list[str] | None,
        typer.Option(help="its centre of mass in the link's frame, m: x,y,z (default: estimated)"),
    ] = None,
    inertia: Annotated[
        list[str] | None,
        typer.Option(help="about it, kg m^2: ixx,ixy,ixz,iyy,iyz,izz (matrix elements; default with --com: 0)"),
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="JOINT[=GAIN] whose gain is known (default: 1), repeatable")
    ] = None,
    link: LinkOption = None,
    friction: FrictionOption = "auto",
    rotor_inertia: RotorOption = True,
    cutoff: CutoffOption = None,
    offsets_per_log: OffsetsOption = False,
    friction_per_log: FrictionPerLogOption = True,
    delay: DelayOption = 0.0,
    column: ColumnOption = None,
    units: UnitsOption = None,
    gear: GearOption = None,
    topic: TopicOption = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
    json: JsonOption = None,
) -> None:
    """Identify the gains of the drives (N m per A) from logs with and without a payload of known mass.

    Several payloads have a --mass each, in the order of --loaded; known centres (--com) and inertias make the gains
    more certain. A joint with a known gain (--reference) does without.

    Example: dynid gains puma560 --loaded with.csv --unloaded without.csv --mass 2.5
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import identification, inertial
    from dynid.payload.gains import identify_gains

    carrying = loaded or []
    _check_input_and_output_files(robot, carrying, unloaded, gear, json)
    bodies, masses = _parse_payloads(mass or [], com or [], inertia or [])
    joints = _parse_reference_gains(reference or [])
    known = log_options.load_robot_from_options(robot, gravity, lock or [], snap)
    screen = terminal.make_console(json)
    reader = log_options.LogReader.from_options(
        known, column or [], units or [], gear, None, topic, sign=sign, zero=zero, order=order,
        header=header, rows=rows,
    )  # fmt: skip
    with identification.show_progress(screen) as tell:
        found = identify_gains(
            known, [reader.read_log(word) for word in carrying], [reader.read_log(word) for word in unloaded],
            bodies[0] if len(bodies) == 1 else bodies or None,
            mass=masses[0] if len(masses) == 1 else masses or None, reference=joints or None, link=link,
            friction=log_options.parse_friction(friction), rotor_inertia=rotor_inertia, cutoff=cutoff,
            offsets_per_log=offsets_per_log, friction_per_log=friction_per_log, delay=delay, on_progress=tell,
        )  # fmt: skip
    outputs = terminal.Outputs()
    outputs.write_json_file(json, found.facts)
    terminal.show_notes(known, screen)
    inertial.show_gains(found, screen)
    _finish_outputs(found, screen, outputs)


def _finish_outputs(found: Payload | Gains, screen: Console, outputs: Outputs) -> None:
    """Print the files that were written, then warnings, and set the exit code."""
    outputs.show_written_files(screen)
    outputs.finish(found.warnings)


def _check_input_and_output_files(
    robot: str, loaded: list[str], unloaded: list[str], gear: str | None, json: Path | None
) -> None:
    """Raise, before any work, where an output would overwrite an input or a log is given twice."""
    from dynid.cli import log_options, terminal

    words = [*loaded, *unloaded]
    inputs = [Path(robot), *log_options.files_of_log_arguments(words), *([Path(gear)] if gear else [])]
    terminal.check_output_path("--json", json, keep=inputs)
    both = sorted(set(loaded) & set(unloaded))
    if both:
        raise DynidError(
            "loaded_equals_unloaded", "{both}: given both as --loaded and as --unloaded; a run with and one without "
            "are needed", both=both[0],
        )  # fmt: skip


def _result_words(loaded: list[str], unloaded: list[str]) -> tuple[str, str]:
    """Words of the loaded and the unloaded run that may be results (.json); DynidError if mixed with logs."""
    for option, words in (("--loaded", loaded), ("--unloaded", unloaded)):
        results = [word for word in words if word.lower().endswith(".json")]
        if results and (len(words) > 1 or (option == "--loaded" and not unloaded[0].lower().endswith(".json"))):
            raise DynidError(
                "results_mixed_with_logs", "{option} {results}:", "give one result for --unloaded, or one for --loaded "
                "and one for --unloaded, or logs for both", option=option, results=results[0],
            )  # fmt: skip
    return loaded[0], unloaded[0]


def _load_result_of_robot(word: str, robot: Robot) -> Identification:
    """Read an identification; DynidError if it is of another robot."""
    from dynid.estimation.identification import Identification
    from dynid.robot.load import lock_loaded_robot

    result = Identification.load(Path(word))
    more = {name: x for name, x in result.robot.locks.items() if name in robot.joint_names}
    robot = lock_loaded_robot(robot, more)
    if result.robot.parameter_names != robot.parameter_names:
        raise DynidError(
            "result_of_other_robot", "{word}: this result is of '{other}', not of '{robot}'", word=word,
            other=result.robot.name, robot=robot.name,
        )  # fmt: skip
    return result


def _parse_payloads(mass: list[float], com: list[str], inertia: list[str]) -> tuple[list[Sequence[float]], list[float]]:
    """Parse known payloads, or masses alone where no centre is given."""
    from dynid.payload.payload import payload_parameters

    if not com and not inertia:
        return [], mass
    if len(com) != len(mass) or (inertia and len(inertia) != len(mass)):
        raise DynidError(
            "payload_options_incomplete", "there are {masses} --mass, {centres} --com and {inertias} --inertia",
            "give --com and, where it is known, --inertia for every --mass, or the masses alone", masses=len(mass),
            centres=len(com), inertias=len(inertia),
        )  # fmt: skip
    six = "six numbers ixx,ixy,ixz,iyy,iyz,izz in kg m^2"
    centres = [_parse_numbers_of_count(text, "--com", "three numbers x,y,z in m", 3) for text in com]
    about = [_parse_numbers_of_count(text, "--inertia", six, 6) for text in inertia] or [[0.0] * 6 for _ in mass]
    known = zip(mass, centres, about, strict=True)
    return [payload_parameters(m, centre, moments).tolist() for m, centre, moments in known], []


def _parse_reference_gains(words: list[str]) -> dict[str, float]:
    """Parse known gains by joint from JOINT=GAIN words."""
    gains = {}
    for word in words:
        joint, _, text = word.partition("=")
        what = "JOINT=GAIN, a number"
        gains[joint] = parse_numbers(text, "--reference", what)[0] if "=" in word else 1.0
    return gains


def _parse_numbers_of_count(text: str, option: str, what: str, count: int) -> list[float]:
    """Parse exactly `count` numbers, separated by commas, from an option."""
    numbers = parse_numbers(text, option, what)
    if len(numbers) != count:
        raise DynidError(
            "option_malformed", "{option} {text}:", "give {what}, separated by commas", option=option, text=text,
            what=what,
        )  # fmt: skip
    return numbers
