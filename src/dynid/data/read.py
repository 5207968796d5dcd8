"""Logs from files: the format by the suffix, the channels by the columns' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from dynid.data.columns import Plan, match_columns
from dynid.data.formats import open_table
from dynid.data.log import Log
from dynid.data.source import FileSource, Scale, find_stamp, find_time_unit
from dynid.data.transmission import read_transmission
from dynid.data.units import asked_units, factor
from dynid.errors import LogError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

UnitsLike = str | Sequence[str]
GearLike = float | Sequence[float] | Sequence[Sequence[float]] | Array


IN_CURRENT = "tau is a current, used as it is: parameters come in units of current; gain= gives Nm per A"
"""Note on a log without torques."""


def read_log(
    path: str | PathLike[str],
    robot: Robot,
    *,
    columns: Mapping[str, str | Sequence[str] | None] | None = None,
    units: Mapping[str, UnitsLike] | None = None,
    gear: GearLike | None = None,
    gain: float | Sequence[float] | Array | None = None,
    topic: str | None = None,
) -> Log:
    """Open a log: CSV (also .gz), Parquet, NPZ, MAT, HDF5, a rosbag2 or an MCAP file.

    Columns are matched by their names; `columns` overrides that, with keys t, q, v, a, tau, reaction (a column, an
    array or a list in the order of the joints; None leaves a channel out), or q1, tau3, v.elbow for single ones.
    `units` tells other units than SI per channel, as one unit or one per joint. `gear` (a ratio, n ratios or the
    matrix G with motor positions = G @ joint positions) and `gain` (Nm per A) bring a motor-side log to the joints:
    units first, then gain, then gear. `topic` picks a bag's JointState. Nothing but the beginning is read here;
    the samples stay in the file until they are asked for.
    """
    file = Path(fspath(path))
    name = str(file)
    stamp = find_stamp(file)
    table = open_table(file, topic)
    transmission = read_transmission(name, gear, gain, robot.n)
    motor_side = transmission.gear is not None
    asked = asked_units(name, units, robot, motor_side)
    plan = match_columns(name, table.fields, robot, columns, motor_side=motor_side)
    unit, first, time_notes = find_time_unit(table, plan, asked["t"][0] if "t" in asked else None)
    factors, unit_notes = _factors(name, plan, asked)
    scale = Scale(factor(name, "t", unit, plan.t.field), factors, first)
    notes = [*table.notes, *plan.notes, *time_notes, *unit_notes]
    if (plan.in_current or "A" in asked.get("tau", ())) and transmission.gain is None:
        notes.append(IN_CURRENT)
    source = FileSource(table, plan, scale, transmission, stamp)
    return Log.of(source, coupling=transmission.coupling, notes=tuple(notes))


def _factors(name: str, plan: Plan, asked: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, Array | None], list[str]]:
    """Return factors to SI per channel, None where all are 1: units asked for, else those of the header."""
    factors: dict[str, Array | None] = {}
    notes: list[str] = []
    for channel, places in plan.channels.items():
        header = plan.units[channel]
        if channel in asked:
            values = [factor(name, channel, unit) for unit in asked[channel]]
        else:
            values = [
                1.0 if unit is None else factor(name, channel, unit, place.field)
                for unit, place in zip(header, places, strict=True)
            ]
            said = list(dict.fromkeys(unit for unit in header if unit is not None))
            if said:
                notes.append(f"{channel} is in {', '.join(said)}, by the names of its columns")
        factors[channel] = None if all(value == 1.0 for value in values) else np.array(values)
    if unknown := set(asked) - set(plan.channels) - {"t"}:
        raise LogError(name, f"units are given for {', '.join(sorted(unknown))}, which the file does not have")
    return factors, notes
