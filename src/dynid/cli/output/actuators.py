"""Drives as a person sees them in the terminal: parameters by joint, delay and gains, errors of rollouts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dynid.actuators.identify_actuators import Actuators
from dynid.cli.output.identification import number_text
from dynid.cli.terminal import escape_markup, print_line, show_note
from dynid.messages import command_line_wording

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TITLES = {"Ia": "armature", "Fv": "damping", "Fc": "frictionloss", "Fo": "offset N m", "Fl": "load friction"}


def show_actuators(found: Actuators, screen: Console) -> None:
    """Print delay, parameters, gains and the errors of rollouts, then notes."""
    robot, half = found.robot, 1e3 * found.quantile * found.delay_sigma
    spread = f" +- {half:.2g}" if half > 0.0 else " (given)"
    print_line(screen, f"{robot.name}: drives of {robot.n} joint{'s' * (robot.n > 1)} from commands", style="bold")
    closed = "by the drive itself" if found.loop == "drive" else "by the host, from recorded positions"
    print_line(screen, f"verdict: {command_line_wording(str(found.verdict))}")
    print_line(screen, f"delay of commands {1e3 * found.delay:.2f}{spread} ms; the loop is closed {closed}")
    if found.sensor_delay or found.sensor_delay_sigma:
        half = 1e3 * found.quantile * found.sensor_delay_sigma
        spread = f" +- {half:.2g}" if half > 0.0 else " (given)"
        print_line(screen, f"its positions are {1e3 * found.sensor_delay:.2f}{spread} ms old")
    for table in parameters_tables(found):
        screen.print(table)
    for p, value, sigma in zip(found.names, found.values, found.sigma, strict=True):
        if p.symbol == "M":
            print_line(
                screen, f"mass of {p.link}: {number_text(value, 4)} +- {number_text(found.quantile * sigma, 2)} kg"
            )
    if found.rollout is not None:
        screen.print(rollout_table(found))
        held = "on held-out motion, root mean square over joints; file: drives as the robot's file has them, no delay"
        print_line(screen, f"errors of rollouts in MuJoCo {held}")
    if found.polished:
        print_line(screen, f"polished by {found.rollouts} rollouts")
    for note in found.notes:
        show_note(note, screen)
    print_line(screen, f"next: {command_line_wording(found.verdict.next_step)}")


def parameters_tables(found: Actuators) -> list[Table]:
    """Tables of armature and friction, and of gains, by joint, with half widths of 95 % intervals: 80 columns each."""
    from rich.table import Table

    symbols = [s for s in TITLES if any(p.symbol == s for p in found.names)]
    sigma = {(p.symbol, p.joint): s for p, s in zip(found.names, found.sigma, strict=True)}
    gains = [key for key in ("kp", "kd", "gain", "torque_constant")
             if np.any(np.nan_to_num(getattr(found.gains, key), nan=1.0) != {"gain": 1.0}.get(key, 0.0))
             and not (key == "torque_constant" and np.isnan(found.gains.torque_constant).all())]  # fmt: skip
    titles = (*(TITLES[s] for s in symbols), *gains, "max torque", "error")
    made = []
    for part in (titles[:3], titles[3:]):
        table = Table(box=None)
        table.add_column("joint", overflow="fold", min_width=5)
        for title in part:
            table.add_column(title, justify="right", overflow="fold")
        made.append(table)
    for j, name in enumerate(found.robot.joint_names):
        cells = []
        for symbol in symbols:
            value = found.of(symbol)[j]
            half = found.quantile * sigma.get((symbol, name), math.nan)
            cells.append("?" if math.isnan(value) else f"{number_text(value, 4)} +- {number_text(half, 2)}")
        for key in gains:
            value, s = getattr(found.gains, key)[j], found.gains.sigma[key][j]
            text = "?" if math.isnan(value) else number_text(value, 4)
            cells.append(text + (f" +- {number_text(found.quantile * s, 2)}" if s > 0.0 and text != "?" else ""))
        limit = found.gains.max_torque[j]
        cells.append(number_text(limit, 4) if math.isfinite(limit) else "")
        cells.append(f"{100.0 * found.nrmse[j]:.1f} %")
        for table, own in zip(made, (cells[:3], cells[3:]), strict=True):
            table.add_row(escape_markup(name), *own)
    return made


def rollout_table(found: Actuators) -> Table:
    """Table of the errors of rollouts by horizon, mrad."""
    from rich.table import Table

    r = found.rollout
    assert r is not None
    table = Table("horizon s", box=None)
    for title in ("file mrad", "linear mrad", *(("polished mrad",) if found.polished else ()), "rollouts"):
        table.add_column(title, justify="right")
    for k, horizon in enumerate(r.horizons):
        row = [r.nominal[k], r.before[k], *((r.after[k],) if found.polished else ())]
        errors = (number_text(1e3 * x, 3) if math.isfinite(x) else "diverges" for x in row)
        table.add_row(f"{horizon:g}", *errors, str(int(r.windows[k])))
    return table
