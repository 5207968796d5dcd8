"""The report on a result, or on several side by side: one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dynid.data.log import Log
from dynid.data.read import read_log
from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.estimation.origin import find_origin
from dynid.kernel.threads import one_blas_thread
from dynid.report.comparison import SECTIONS as COMPARISON
from dynid.report.comparison import Compared
from dynid.report.page import Section, render_page
from dynid.report.replay import replay_logs
from dynid.report.sections.condition import ConditionSection
from dynid.report.sections.correlation import CorrelationSection
from dynid.report.sections.data import DataSection
from dynid.report.sections.friction import FrictionSection
from dynid.report.sections.identifiable import IdentifiableSection
from dynid.report.sections.parameters import ParametersSection
from dynid.report.sections.physical import PhysicalSection
from dynid.report.sections.prediction import PredictionSection
from dynid.report.sections.reproduce import ReproduceSection
from dynid.report.sections.residuals import ResidualsSection
from dynid.report.sections.robot import RobotSection
from dynid.report.sections.verdict import VerdictSection
from dynid.report.sections.warnings import WarningsSection
from dynid.report.subject import StandardValues, Subject
from dynid.robot.files import hash_file, write_text

SECTIONS: tuple[Section[Subject], ...] = (
    VerdictSection(), PredictionSection(), ParametersSection(), PhysicalSection(), FrictionSection(), RobotSection(),
    IdentifiableSection(), DataSection(), CorrelationSection(), ResidualsSection(), ConditionSection(),
    WarningsSection(), ReproduceSection(),
)  # fmt: skip

SOURCES = {
    "torque": "torques of {} joints", "power": "power of {} joints", "energy": "energy of {} joints",
    "momentum": "momenta of {} joints", "reaction": "forces on the base",
    "torque+reaction": "torques of {} joints and the forces on the base",
}  # fmt: skip

Logs = Sequence[Log | str | Path]


@one_blas_thread
def write_report(
    result: Identification | Sequence[Identification],
    path: str | Path,
    *,
    logs: Log | str | Path | Logs = (),
    validate: Log | str | Path | Logs = (),
    physical: StandardValues | None = None,
    names: Sequence[str] | None = None,
    command: str = "",
    inputs: Sequence[str | Path] = (),
    on_progress: Callable[[str, float], None] | None = None,
) -> tuple[str, ...]:
    """Write a report on a result as one HTML file; several results are put side by side.

    logs: those that the result was made from, in their order, and validate: others, read again to draw what was
    measured and predicted; without them the page has no such curves. physical: physically consistent standard
    parameters, shown beside nominal ones. names: what to call several results. command and inputs: how the page was
    made, and from which further files, for the section on reproducing; what a result knows of its origin is added.
    Returned is what the page warns of beyond the results' own warnings.
    """
    files = [Path(file) for file in inputs]
    doubts: tuple[str, ...] = ()
    if not isinstance(result, Identification):
        results = tuple(result)
        if logs or validate or physical is not None:
            raise DynidError("logs and physical parameters go with a single result; a comparison draws no curves")
        doubts = tuple(dict.fromkeys(said for one in results for said in _changed(one)))
        compared = replace(Compared.of(results, names, find_origin((), command, files)), doubts=doubts)
        page = render_page(compared.title, compared, COMPARISON)
    else:
        used, held_out = _opened(result, logs), _opened(result, validate)
        if len(used) > len(result.factors):
            raise DynidError(
                f"the result was made from {len(result.factors)} logs, {len(used)} were given; "
                "others are given with validate= (--validate)"
            )
        count = min(len(used), 4) + min(len(held_out), 4)
        doubts = (*_changed(result), *_foreign(result, used))
        subject = Subject(
            result,
            find_origin((*used, *held_out), command, files),
            replay_logs(result, used, fitted=True, pages=count, on_progress=on_progress),
            replay_logs(result, held_out, fitted=False, pages=count, on_progress=on_progress),
            physical,
            doubts,
        )
        page = render_page(f"Dynamics of {result.robot.name}", subject, SECTIONS, lead=lead(result))
    write_text(Path(path), page)
    return doubts


def _foreign(result: Identification, used: Sequence[Log]) -> tuple[str, ...]:
    """Logs that are said to be those of the result, and whose files have other contents."""
    known = {file.sha256 for file in result.origin.inputs}
    if not known:
        return ()
    return tuple(
        f"{file.name}: not the log that the result was made from, its contents differ; curves and errors drawn from it "
        "are not those of the result"
        for file in find_origin(used).inputs
        if file.sha256 not in known
    )


def _changed(result: Identification) -> tuple[str, ...]:
    """Files of the robot that are still where they were, with other contents."""
    return tuple(
        f"{file.name}: the robot's file has changed since the identification; the page shows the robot as it was then"
        for file in result.robot.files
        if Path(file.name).is_file() and hash_file(Path(file.name)).sha256 != file.sha256
    )


def lead(result: Identification) -> str:
    """What was done, in one sentence."""
    source = SOURCES[result.model].format(len(result.joints))
    count = len(result.findings)
    logs = "1 log" if count == 1 else f"{count} logs"
    return f"Identified from the {source} in {logs} ({result.estimator}), by dynid {result.version}."


def _opened(result: Identification, logs: Log | str | Path | Logs) -> tuple[Log, ...]:
    several = [logs] if isinstance(logs, Log | str | Path) else list(logs)
    return tuple(log if isinstance(log, Log) else read_log(log, result.robot) for log in several)
