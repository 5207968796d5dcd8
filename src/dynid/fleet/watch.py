"""One robot, logs arriving in a folder: each is a period, read when it is complete and compared with the first ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from dynid.errors import DynidError
from dynid.fleet.data import LogFile, list_files
from dynid.fleet.fleet import Fleet, describe_kind, identify_fleet
from dynid.messages import Message
from dynid.robot.robot import Robot


@dataclass(frozen=True, slots=True)
class Event:
    """What happened: a log was read or refused, or a change was found."""

    message: Message
    is_warning: bool = False


def watch_folder(
    robot: Robot,
    folder: str | PathLike[str],
    *,
    out: str | PathLike[str],
    baseline: int = 4,
    every: float = 2.0,
    once: bool = False,
    alpha: float = 0.01,
    sleep: Callable[[float], None] = time.sleep,
    **options: Any,
) -> Iterator[Event]:
    """Watch a folder for logs; yield what happens. Options are those of `identify_fleet`.

    A log is read once its size and time of change are the same at two looks, `every` seconds apart. once: end when all
    logs that are there were read.
    """
    place, page = Path(folder), Path(out) / "watch.html"
    if not place.is_dir():
        raise DynidError("no_such_folder", "{path}: there is no such folder", path=place)
    before: dict[str, LogFile] = {}
    done: frozenset[str] = frozenset()
    told: set[tuple[str, str]] = set()
    first = True
    while True:
        now = {file.path: file for file in list_files(str(place))}
        ready = frozenset(file.mark for path, file in now.items() if once or before.get(path) == file)
        if ready - done:
            files = tuple(file for file in now.values() if file.mark in ready)
            found, events = _look(robot, files, place, out, baseline, told, alpha, options, quiet=first)
            yield from events
            if found is not None:
                found.report(page, alpha)
            done, first = ready, False
        if once:
            if not now:
                yield Event(Message("watch_empty", "{folder}: there is no log yet", folder=place), True)
            return
        before = now
        sleep(every)


def _look(
    robot: Robot, files: tuple[LogFile, ...], place: Path, out: str | PathLike[str], baseline: int,
    told: set[tuple[str, str]], alpha: float, options: dict[str, Any], *, quiet: bool,
) -> tuple[Fleet | None, list[Event]]:  # fmt: skip
    """Identify what is new among the files; quiet: say little of logs that were known before this watch."""
    name = place.resolve().name or robot.name
    groups = [(name, Path(file.path).relative_to(place).as_posix(), file) for file in files]
    try:
        found = identify_fleet(robot, groups, baseline=baseline, out=out, workers=1, **options)
    except DynidError as error:
        if error.code != "fleet_unreadable":
            raise
        return None, [Event(Message("watch_no_log", "no log can be read yet: {reason}", reason=error.message), True)]
    events = list[Event]()
    tests = {finding.period: finding for finding in found.findings}
    significant = {finding.period for finding in found.significant(alpha)}
    known = len(found.results) - found.computed
    if quiet and known > 0:
        events.append(Event(Message("watch_known", "{count} logs were read before", count=known)))
    for result in found.results:
        if ("log", result.key) in told:
            continue
        told.add(("log", result.key))
        for log, code, reason in result.refused:
            events.append(Event(Message(
                "log_refused", "{log}: refused: {reason}", log=Path(log).name, reason=reason, reason_code=code,
            ), True))  # fmt: skip
        if not result.names:
            continue
        finding = tests.get(result.period)
        says = "baseline" if finding is None else f"p = {finding.p:.2g}"
        if not quiet or (result.robot, result.period) in found.fresh:
            events.append(Event(Message(
                "watch_log", "{log}: {seconds:.0f} s, {verdict}, {says}", log=result.period, seconds=result.seconds,
                verdict=result.verdict, says=says,
            )))  # fmt: skip
    for alarm in found.alarms(alpha):
        key = (alarm.since, describe_kind(alarm.kind, alarm.joint))
        if key not in told and alarm.since in significant:
            told.add(key)
            events.append(Event(alarm.message, True))
    return found, events
