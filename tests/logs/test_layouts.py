"""Raw files as robots, simulators and programs write them: each is read like the hand-made log, by one command.

A layout is written after the real convention and comes with the words that are typed after the file's name.
"""

from __future__ import annotations

import base64
import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from command_line import CommandLine
from dynid.cli import log_options
from dynid.logs.log import Log, Samples
from dynid.robot.transform import Array
from fourier import fourier_motion
from log_makers import fourier

ROWS = 240
EPOCH = 1_714_560_000_000_000_000


def recorded(n: int, rate: float = 1000.0, rows: int = ROWS) -> Samples:
    """Smooth motion with velocities and torques, on a clock that begins at zero."""
    t: Array = np.arange(rows) / rate
    q, v, a = fourier(t, n, base=1.0, seed=n)
    return Samples(t, q, v, None, 3.0 * np.cos(q) + 0.5 * a)


@dataclass(frozen=True)
class Layout:
    robot: str
    write: Callable[[Path, Samples], None]
    file: str
    words: Sequence[str] = ()
    rate: float = 1000.0
    channels: str = "q v tau"


LAYOUTS: dict[str, Layout] = {}


def layout(
    robot: str, file: str, *words: str, rate: float = 1000.0, channels: str = "q v tau"
) -> Callable[[Callable[[Path, Samples], None]], Callable[[Path, Samples], None]]:
    def add(write: Callable[[Path, Samples], None]) -> Callable[[Path, Samples], None]:
        LAYOUTS[write.__name__] = Layout(robot, write, file, words, rate, channels)
        return write

    return add


def cells(table: Array | Sequence[Sequence[object]], delimiter: str = ",", comma: bool = False) -> list[str]:
    lines = [delimiter.join(x if isinstance(x, str) else repr(float(x)) for x in row) for row in table]  # type: ignore[arg-type]
    return [line.replace(".", ",") for line in lines] if comma else lines


def text(path: Path, *lines: str, end: str = "\n") -> None:
    path.write_bytes((end.join(lines) + end).encode())


def head(*groups: tuple[str, int], first: int = 1) -> list[str]:
    return [name.format(k) for name, n in groups for k in range(first, first + n)]


def tau_of(x: Samples) -> Array:
    assert x.tau is not None
    return x.tau


def v_of(x: Samples) -> Array:
    assert x.v is not None
    return x.v


def by_type(t: Array, *arrays: Array) -> Array:
    return np.column_stack([t, *arrays])


# Robots.


@layout("ur10", "robot_data.csv", "--gain", "10,11,12,13,14,15", rate=125.0)
def ur_rtde_recorder(path: Path, x: Samples) -> None:
    """record.py of Universal Robots' client: blanks between cells, vectors counted from 0, targets beside actuals."""
    names = ["timestamp"]
    for word in ("target_q", "target_qd", "target_moment", "actual_q", "actual_qd", "actual_current"):
        names += head((word + "_{}", 6), first=0)
    current = tau_of(x) / np.arange(10, 16)
    table = by_type(x.t + 1e3, x.q + 1, v_of(x) + 1, tau_of(x) + 1, x.q, v_of(x), current)
    text(path, " ".join([*names, "robot_mode"]), *(f"{line} 7" for line in cells(table, " ")))


@layout("panda", "log.csv", "--column", "t=duration", "--units", "t=ms")
def franka_log_of_an_exception(path: Path, x: Samples) -> None:
    """libfranka up to 0.9: blanks after commas, an empty column between states and commands, names that come twice."""
    state = head(("q[{}]", 7), ("q_d[{}]", 7), ("dq[{}]", 7), ("dq_d[{}]", 7), ("tau_J[{}]", 7), first=0)
    command = head(("q_d[{}]", 7), ("dq_d[{}]", 7), ("tau_J_d[{}]", 7), first=0)
    ms = [[str(round(1e3 * t)), "1"] for t in x.t]
    left = cells(np.column_stack([x.q, x.q + 1, v_of(x), v_of(x) + 1, tau_of(x)]))
    right = cells(np.column_stack([x.q + 1, v_of(x) + 1, tau_of(x) + 2]))
    lines = [",".join([*a, b, "", c]) for a, b, c in zip(ms, left, right, strict=True)]
    text(path, ", ".join(["duration", "success rate", *state, "sent commands", *command]), *lines)


@layout("panda", "log.csv", "--units", "t=ms")
def franka_state_log(path: Path, x: Samples) -> None:
    """libfranka from 0.14 on: state.q[0], ..., cmd.q_d[0], ..."""
    names = head(("state.q[{}]", 7), ("state.q_d[{}]", 7), ("state.dq[{}]", 7), ("state.tau_J[{}]", 7), first=0)
    names += head(("state.tau_ext_hat_filtered[{}]", 7), ("cmd.q_d[{}]", 7), ("cmd.tau_J_d[{}]", 7), first=0)
    tau = tau_of(x)
    table = by_type(1e3 * x.t, np.ones(len(x)), x.q, x.q + 1, v_of(x), tau, tau + 1, x.q + 1, tau + 1)
    text(path, ",".join(["time", "success_rate", *names]), *cells(table))


RSI = ("--column", "t=IPOC", "--column", "q=2:7", "--column", "tau=14:19", "--units", "t=ms,q=deg", "--gain", "2")


@layout("kr300", "rsi.csv", *RSI, rate=250.0, channels="q tau")
def kuka_rsi(path: Path, x: Samples) -> None:
    """Attributes of the XML telegrams: the clock IPOC in ms, axes in degrees, motor currents."""
    names = ["IPOC", *head(("AIPos.A{}", 6), ("ASPos.A{}", 6), ("MACur.A{}", 6)), "Delay.D"]
    deg = np.degrees(x.q)
    rows = cells(np.column_stack([deg, deg + 1, tau_of(x) / 2, np.zeros(len(x))]))
    stamps = [str(round(1e3 * t) + 4_208_163_634) for t in x.t]
    text(path, ";".join(names), *(f"{a};{b.replace(',', ';')}" for a, b in zip(stamps, rows, strict=True)), end="\r\n")


@layout("iiwa", "fri.csv", channels="q tau")
def kuka_fri(path: Path, x: Samples) -> None:
    names = head(("MeasJntPos{}", 7), ("CmdJntPos{}", 7), ("MeasTrq{}", 7), ("ExtTrq{}", 7), first=0)
    table = by_type(x.t, x.q, x.q + 1, tau_of(x), tau_of(x) + 1)
    text(path, ",".join(["Time", *names]), *cells(table))


@layout("iiwa", "DataRecorder.log", "--header", "sec,nanosec,q*7,tau*7", channels="q tau")
def kuka_sunrise_recorder(path: Path, x: Samples) -> None:
    """Sunrise: seconds and nanoseconds apart, names that carry the robot's type and its number."""
    robot = "LBR_iiwa_14_R820_1"
    names = [
        "ZeitInSec",
        "ZeitInNanoSec",
        *head((f"axisQMsr_{robot}[{{}}]", 7), (f"axisTauMsr_{robot}[{{}}]", 7), first=0),
    ]
    stamps = [divmod(EPOCH + round(1e9 * t), 10**9) for t in x.t]
    rows = cells(np.column_stack([x.q, tau_of(x)]), " ")
    text(path, " ".join(names), *(f"{a} {b} {row}" for (a, b), row in zip(stamps, rows, strict=True)))


@layout("ur10", "log-2024-05-01.csv", "--column", "q=3:8", "--column", "tau=9:14", "--units", "q=deg", channels="q tau")
def abb_motion_log(path: Path, x: Samples) -> None:
    """A log of RAPID or EGM: joints J1 to J6 in degrees, blanks after commas."""
    names = ["timestamp", "cmd_num", *head(("J{}", 6), ("TRQ_J{}", 6))]
    text(path, ", ".join(names), *cells(by_type(x.t, np.ones(len(x)), np.degrees(x.q), tau_of(x)), ", "))


# ROS.


@layout("iiwa", "feedback.csv")
def kinova_base_cyclic(path: Path, x: Samples) -> None:
    """Fields of the feedback side by side: actuators counted from 1, degrees, stamps in us."""
    groups = [("position (deg)", np.degrees(x.q)), ("velocity (deg/s)", np.degrees(v_of(x)))]
    groups += [("torque (Nm)", tau_of(x)), ("current_motor (A)", tau_of(x) / 9.0)]
    names = [f"actuator {k} {name}" for name, _ in groups for k in range(1, 8)]
    table = by_type(1e6 * x.t + 1e9, *(block for _, block in groups))
    text(path, "# 1 kHz", ", ".join(["Timestamp(us)", *names]), *cells(table, ", "))


@layout("ur10", "monitoring.csv", "--units", "q=deg,v=deg/s")
def doosan_monitoring(path: Path, x: Samples) -> None:
    """Joints counted from 0, raw and external torques beside the actual ones."""
    words = ("actual_joint_position{}", "actual_joint_velocity{}", "actual_joint_torque{}", "raw_joint_torque{}",
             "external_joint_torque{}")  # fmt: skip
    table = by_type(x.t, np.degrees(x.q), np.degrees(v_of(x)), tau_of(x), tau_of(x) + 1.0, 0.0 * x.q)
    text(path, ",".join(["time_stamp", *head(*((word, 6) for word in words), first=0)]), *cells(table))


@layout("ur10", "signals.csv", channels="q tau")
def abb_test_signal_viewer(path: Path, x: Samples) -> None:
    """Saved where commas are decimal: semicolons, quoted names, lines before them, a sign for degrees in Latin-1."""
    names = ["Time [ms]", *head(("Axis {} Position [\xb0]", 6), ("Axis {} Torque [Nm]", 6))]
    table = cells(by_type(1e3 * x.t, np.degrees(x.q), tau_of(x)), ";", comma=True)
    lines = ["Test Signal Viewer;;;", "Controller: IRB1200;;;", "", ";".join(f'"{name}"' for name in names), *table]
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode("latin-1"))


@layout("panda", "states.npz", "--column", "q=qpos[:, 0:7]", "--column", "v=qvel[:, :7]", "--column",
        "tau=qfrc_actuator[:, 0:7]")  # fmt: skip
def mujoco_states_with_a_gripper(path: Path, x: Samples) -> None:
    more = np.zeros((len(x.t), 2))
    blocks = {"qpos": x.q, "qvel": v_of(x), "qfrc_actuator": tau_of(x)}
    np.savez(path, time=x.t, ctrl=x.q, **{name: np.hstack([block, more]) for name, block in blocks.items()})  # type: ignore[arg-type]


@layout("ur10", "rollout.npz")
def isaac_lab_of_one_environment(path: Path, x: Samples) -> None:
    """Arrays with an axis for the environments, of which there is one."""
    blocks = {"joint_pos": x.q, "joint_vel": v_of(x), "applied_torque": tau_of(x)}
    np.savez(path, sim_time=x.t, **{name: block[:, None, :] for name, block in blocks.items()})  # type: ignore[arg-type]


@layout("ur10", "rollout.h5")
def isaac_lab_in_hdf5(path: Path, x: Samples) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        for name, block in {"joint_pos": x.q, "joint_vel": v_of(x), "applied_torque": tau_of(x)}.items():
            file[f"data/{name}"] = block[None, :, :] if name == "joint_vel" else block[:, None, :]
        file["data/sim_time"] = x.t


@layout("ur10", "states.csv", rate=125.0)
def plotjuggler(path: Path, x: Samples) -> None:
    joints = sorted(dynid.load_robot("ur10").joint_names)
    order = [dynid.load_robot("ur10").joint_names.index(joint) for joint in joints]
    names = [f"/joint_states/{joint}/{kind}" for kind in ("position", "velocity", "effort") for joint in joints]
    table = by_type(1.7e9 + np.round(x.t, 4), x.q[:, order], v_of(x)[:, order], tau_of(x)[:, order])
    text(path, ",".join(["__time", *names]), *cells(table))


@layout("ur10", "joint_states.csv", rate=125.0)
def ros1_text_export(path: Path, x: Samples) -> None:
    """rostopic echo -b FILE -p /joint_states: stamps in ns, names of joints in every row, in the message's order."""
    robot = dynid.load_robot("ur10")
    order = [2, 1, 0, 3, 4, 5]
    joints = [robot.joint_names[k] for k in order]
    kinds = [(f"field.{word}{{}}", 6) for word in ("name", "position", "velocity", "effort")]
    names = ["%time", "field.header.seq", "field.header.stamp", "field.header.frame_id", *head(*kinds, first=0)]
    lines = []
    for k, t in enumerate(x.t):
        stamp = str(EPOCH + round(1e9 * t))
        values = np.concatenate([x.q[k, order], v_of(x)[k, order], tau_of(x)[k, order]])
        lines.append(",".join([stamp, str(k), stamp, "base", *joints, *map(repr, values.tolist())]))
    text(path, ",".join(names), *lines)


ECHO = "header.stamp.sec,header.stamp.nanosec,_,_*6,q*6,v*6,tau*6"


@layout("ur10", "echo.txt", "--header", ECHO, rate=125.0)
def ros2_topic_echo_csv(path: Path, x: Samples) -> None:
    """ros2 topic echo --csv /joint_states: no header, an empty frame, names of joints in every row."""
    joints = ",".join(dynid.load_robot("ur10").joint_names)
    stamps = [divmod(EPOCH + round(1e9 * t), 10**9) for t in x.t]
    rows = cells(np.column_stack([x.q, v_of(x), tau_of(x)]))
    text(path, *(f"{a},{b},,{joints},{row}" for (a, b), row in zip(stamps, rows, strict=True)))


# Simulators.


@layout("panda", "run.csv")
def mujoco_table(path: Path, x: Samples) -> None:
    names = head(("qpos_{}", 7), ("qvel_{}", 7), ("qfrc_actuator_{}", 7), ("qfrc_bias_{}", 7), first=0)
    table = by_type(x.t, x.q, v_of(x), tau_of(x), tau_of(x) + 1)
    text(path, ",".join(["time", *names]), *cells(table))


@layout("panda", "run.npz")
def mujoco_arrays(path: Path, x: Samples) -> None:
    np.savez(path, time=x.t, qpos=x.q, qvel=v_of(x), qfrc_actuator=tau_of(x), ctrl=tau_of(x) + 1)


@layout("panda", "dataset.hdf5")
def isaac_dataset(path: Path, x: Samples) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("data/demo_0/robot")
        for name, array in {
            "time": x.t, "joint_pos": x.q, "joint_vel": v_of(x), "applied_torque": tau_of(x),
            "joint_pos_target": x.q + 1, "computed_torque": tau_of(x) + 1,
        }.items():  # fmt: skip
            group[name] = array.astype(np.float64)


# MATLAB.


@layout("gautier3", "run.mat")
def matlab_struct(path: Path, x: Samples) -> None:
    from scipy.io import savemat

    savemat(path, {"out": {"robot": {"time": x.t[:, None], "q": x.q, "dq": v_of(x), "tau": tau_of(x)}, "fs": 1e3}})


@layout("gautier3", "run.mat")
def matlab_struct_array(path: Path, x: Samples) -> None:
    """log(k).t, log(k).q, ...: one struct per sample."""
    from scipy.io import savemat

    kinds = [(name, object) for name in ("t", "q", "qd", "tau")]
    log = np.empty((1, len(x)), dtype=kinds)
    for k in range(len(x)):
        log[0, k] = (x.t[k], x.q[k : k + 1], v_of(x)[k : k + 1], tau_of(x)[k : k + 1])
    savemat(path, {"log": log})


@layout("gautier3", "run.mat")
def simulink_structure_with_time(path: Path, x: Samples) -> None:
    from scipy.io import savemat

    signals = np.empty((1, 3), dtype=[("values", object), ("dimensions", object), ("label", object)])
    for k, (label, values) in enumerate((("q", x.q), ("qd", v_of(x)), ("tau", tau_of(x)))):
        signals[0, k] = (values, 3, label)
    savemat(path, {"out": {"time": x.t[:, None], "signals": signals, "blockName": "model/scope"}})


@layout("gautier3", "run.mat", "--header", "t,q*3,_,v*3,tau*3")
def matlab_matrix(path: Path, x: Samples) -> None:
    from scipy.io import savemat

    savemat(path, {"data": by_type(x.t, x.q, np.ones(len(x)), v_of(x), tau_of(x)), "fs": 1000.0, "note": "run 3"})


@layout("gautier3", "run.csv")
def matlab_writetable(path: Path, x: Samples) -> None:
    """Variables with several columns become q_1, q_2, ..."""
    names = head(("q_{}", 3), ("qd_{}", 3), ("tau_{}", 3))
    text(path, ",".join(["t", *names]), *cells(by_type(x.t, x.q, v_of(x), tau_of(x))))


@layout("gautier3", "run.csv")
def matlab_writetimetable(path: Path, x: Samples) -> None:
    names = head(("q{}", 3), ("qd{}", 3), ("tau{}", 3))
    rows = cells(np.column_stack([x.q, v_of(x), tau_of(x)]))
    text(path, ",".join(["Time", *names]), *(f"{t!r} sec,{row}" for t, row in zip(x.t.tolist(), rows, strict=True)))


# No header, other headers, rubbish.


@layout("gautier3", "run.txt", "--header", "t,q*3,v*3,tau*3")
def numpy_savetxt(path: Path, x: Samples) -> None:
    np.savetxt(path, by_type(x.t, x.q, v_of(x), tau_of(x)), fmt="%.17g")


@layout("gautier3", "run.npy", "--header", "t,q*3,v*3,tau*3")
def numpy_save(path: Path, x: Samples) -> None:
    np.save(path, by_type(x.t, x.q, v_of(x), tau_of(x)))


@layout("gautier3", "run.csv", "--header", "t,q*3,v*3,tau*3")
def delimiters_at_the_end(path: Path, x: Samples) -> None:
    """A loop in C++ that writes a comma after every number."""
    text(path, *(f"{row}," for row in cells(by_type(x.t, x.q, v_of(x), tau_of(x)))))


@layout("gautier3", "run.csv")
def delimiters_at_the_end_of_rows_alone(path: Path, x: Samples) -> None:
    names = head(("q{}", 3), ("v{}", 3), ("tau{}", 3))
    text(path, ";".join(["t", *names]), *(f"{row};" for row in cells(by_type(x.t, x.q, v_of(x), tau_of(x)), ";")))


@layout(
    "gautier3", "run.csv", "--column", "t=1", "--column", "q=2,5,8", "--column", "v=3,6,9", "--column", "tau=4,7,10"
)
def no_header_joint_by_joint(path: Path, x: Samples) -> None:
    blocks = [np.column_stack([x.q[:, j], v_of(x)[:, j], tau_of(x)[:, j]]) for j in range(3)]
    text(path, *cells(by_type(x.t, *blocks)))


@layout("gautier3", "run.csv", "--header", "t,_,q [deg]*3,v [deg/s]*3,_*2,tau*3")
def no_header_decimal_commas(path: Path, x: Samples) -> None:
    """A German spreadsheet: semicolons, decimal commas, a column of text, degrees."""
    left = cells(by_type(x.t), ";", comma=True)
    right = cells(np.column_stack([np.degrees(x.q), np.degrees(v_of(x)), x.q[:, :2], tau_of(x)]), ";", comma=True)
    text(path, *(f"{a};EIN;{b}" for a, b in zip(left, right, strict=True)), end="\r\n")


@layout("gautier3", "run.csv", "--header", "_,t,q*3,v*3,tau*3")
def pandas_without_names(path: Path, x: Samples) -> None:
    """DataFrame(array).to_csv(): an index, and 0,1,2,... for names."""
    rows = cells(by_type(x.t, x.q, v_of(x), tau_of(x)))
    text(path, "," + ",".join(map(str, range(10))), *(f"{k},{row}" for k, row in enumerate(rows)))


@layout("gautier3", "run.csv")
def pandas_with_index(path: Path, x: Samples) -> None:
    names = head(("q{}", 3), ("v{}", 3), ("tau{}", 3))
    rows = cells(by_type(x.t, x.q, v_of(x), tau_of(x)))
    text(path, "," + ",".join(["t", *names]), *(f"{k},{row}" for k, row in enumerate(rows)))


@layout("gautier3", "run.csv")
def pandas_with_dates(path: Path, x: Samples) -> None:
    """An index of dates with a time zone; a whole second has no fraction."""
    names = head(("q{}", 3), ("v{}", 3), ("tau{}", 3))
    rows = cells(np.column_stack([x.q, v_of(x), tau_of(x)]))
    us = [(f".{round(1e6 * t):06d}" if t else "") for t in x.t]
    text(
        path,
        ",".join(["timestamp", *names]),
        *(f"2024-05-01 23:59:59{u}+02:00,{r}" for u, r in zip(us, rows, strict=True)),
    )


@layout("gautier3", "trace.csv")
def clock_of_the_day(path: Path, x: Samples) -> None:
    names = head(("q{}", 3), ("v{}", 3), ("tau{}", 3))
    rows = cells(np.column_stack([x.q, v_of(x), tau_of(x)]))
    clock = [f"08:59:59.{round(1e3 * t) + 800:03d}" if t < 0.2 else f"09:00:00.{round(1e3 * t) - 200:03d}" for t in x.t]
    text(path, ",".join(["time", *names]), *(f'"{c}",{row}' for c, row in zip(clock, rows, strict=True)))


@layout("gautier3", "scope.csv")
def oscilloscope_with_units_below(path: Path, x: Samples) -> None:
    """TwinCAT, LabVIEW: lines on the recording, tabs, a line of units under the names, decimal commas."""
    names = ["Time", *head(("Position {}", 3), ("Velocity {}", 3), ("Torque {}", 3)), "State"]
    units = ["ms", *["deg"] * 3, *["rpm"] * 3, *["Nmm"] * 3, "-"]
    table = by_type(1e3 * x.t, np.degrees(x.q), v_of(x) * 30 / np.pi, 1e3 * tau_of(x), np.ones(len(x)))
    rows = cells(table, "\t", comma=True)
    text(path, "Name\tScope 1", "File\tC:\\data\\scope.svdx", "", "\t".join(names), "\t".join(units), *rows, end="\r\n")


@layout("gautier3", "run.csv")
def units_behind_a_slash(path: Path, x: Samples) -> None:
    """DIN 1313: t/s, q1/deg, v1/(deg/s); Excel's first line, and a byte order mark."""
    names = ["t/ms", *head(("q{}/deg", 3), ("qd{}/(deg/s)", 3), ("tau{} / Nm", 3))]
    rows = cells(by_type(1e3 * x.t, np.degrees(x.q), np.degrees(v_of(x)), tau_of(x)), ";", comma=True)
    text(path, "\ufeffsep=;", ";".join(names), *rows, end="\r\n")


@layout("gautier3", "run.log", "--rows", "21:220", "--column", "q=2:4")
def rubbish_before_and_after(path: Path, x: Samples) -> None:
    """Comments, blank lines, rows of words at both ends; the rows that count are 21 to 220."""
    names = ["t", "A", "B", "C", *head(("v{}", 3), ("tau{}", 3))]
    rows = cells(by_type(x.t, x.q, v_of(x), tau_of(x)))
    rows[3] = ",".join(["n/a", "---", *["ERROR"] * 8])
    rows[19], rows[230] = "connection refused", ",".join(["lost"] * 10)
    text(path, "# robot 7", "", ",".join(names), *rows[:10], "", "# pause", *rows[10:])


@layout("gautier3", "run.dat")
def header_in_a_comment(path: Path, x: Samples) -> None:
    names = head(("q{}", 3), ("v{}", 3), ("tau{}", 3))
    rows = cells(by_type(x.t, x.q, v_of(x), tau_of(x)), " ")
    text(path, "% recorded by run.m", "% t " + " ".join(names), *(f"  {row}" for row in rows))


@layout("gautier3", "run.csv.gz@#1:200", "--header", "_,t,q*3,v*3,tau*3")
def packed_without_header(path: Path, x: Samples) -> None:
    rows = cells(by_type(x.t, x.t, x.q, v_of(x), tau_of(x)))
    path.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))


# Frames in files.


@layout("gautier3", "run.parquet")
def parquet_lists(path: Path, x: Samples) -> None:
    import polars as pl

    stamps = pl.Series(EPOCH + np.round(1e9 * x.t).astype(np.int64)).cast(pl.Datetime("ns"))
    lists = {"position": x.q.tolist(), "velocity": v_of(x), "effort": tau_of(x).astype(np.float64).tolist()}
    pl.DataFrame({"timestamp": stamps, **lists, "name": [["a", "b", "c"]] * len(x)}).write_parquet(path)


def write_pickled(names: Sequence[str]) -> bytes:
    """A list of texts as PyTables pickles it (protocol 0)."""
    return b"(lp0\n" + b"".join(b"V%s\np%d\na" % (x.encode(), k) for k, x in enumerate(names, 1)) + b"."


@layout("gautier3", "frame.h5")
def pandas_hdf5_fixed(path: Path, x: Samples) -> None:
    """DataFrame.to_hdf(format="fixed"), the time as the index."""
    import h5py

    names = head(("q{}", 3), ("v{}", 3), ("tau{}", 3))
    with h5py.File(path, "w") as file:
        group = file.create_group("log")
        group.attrs["pandas_type"] = np.bytes_(b"frame")
        group["axis0"] = np.array([name.encode() for name in names])
        group["axis1"] = EPOCH + np.round(1e9 * x.t).astype(np.int64)
        group["axis1"].attrs["kind"] = np.bytes_(b"datetime64[ns]")
        group["axis1"].attrs["name"] = np.bytes_(b"N.")
        group["block0_items"] = np.array([name.encode() for name in names])
        group["block0_values"] = np.column_stack([x.q, v_of(x), tau_of(x)])


@layout("gautier3", "frame.h5", "--rows", "1:200")
def pandas_hdf5_table(path: Path, x: Samples) -> None:
    """DataFrame.to_hdf(format="table"): records with blocks, names of columns in pickled attributes."""
    import h5py

    names = ["t", *head(("q{}", 3), ("v{}", 3), ("tau{}", 3))]
    kind = [("index", "<i8"), ("values_block_0", "<f8", (10,)), ("values_block_1", "<i8", (1,))]
    table = np.zeros(len(x), dtype=kind)
    table["index"], table["values_block_0"] = np.arange(len(x)), by_type(x.t, x.q, v_of(x), tau_of(x))
    with h5py.File(path, "w") as file:
        group = file.create_group("log")
        group.attrs["pandas_type"] = np.bytes_(b"frame_table")
        data = group.create_dataset("table", data=table)
        data.attrs["index_kind"] = np.bytes_(b"integer")
        data.attrs["values_block_0_kind"] = np.bytes_(write_pickled(names))
        data.attrs["values_block_1_kind"] = np.bytes_(write_pickled(["state"]))
        group.create_dataset("_i_table/index/sorted", data=np.zeros((0, 7)))


def read_by_words(robot: dynid.Robot, file: str, words: Sequence[str]) -> Log:
    """Read a log as the commands do."""
    given: dict[str, list[str]] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        given.setdefault(option, []).append(value)
    one = {name: values[0] for name, values in given.items() if name in ("--gear", "--gain", "--header", "--rows")}
    reader = log_options.LogReader.from_options(
        robot, given.get("--column", []), given.get("--units", []), one.get("--gear"), one.get("--gain"), None,
        zero=given.get("--zero"), header=one.get("--header"), rows=one.get("--rows"),
    )  # fmt: skip
    return reader.read_log(file)


def expected(name: str, x: Samples) -> Samples:
    """The rows of a layout that count."""
    if "rubbish" in name:
        return x.select_rows(slice(20, 220))
    if name.startswith("matlab_timetable"):
        t = np.arange(12) / 100.0
        return Samples(t, np.outer(t, [1, 2, 3]), tau=np.outer(10 * t, [1, 2, 3]))
    return x.select_rows(slice(0, 200)) if name in ("packed_without_header", "pandas_hdf5_table") else x


def write(name: str, folder: Path) -> tuple[dynid.Robot, str, Samples]:
    """Write a layout; returns the robot, the word that names the log, and what it must hold."""
    wanted = LAYOUTS[name]
    robot = dynid.load_robot(wanted.robot)
    samples = recorded(robot.n, wanted.rate)
    wanted.write(folder / wanted.file.partition("@")[0], samples)
    return robot, str(folder / wanted.file), expected(name, samples)


def assert_same(log: Log, x: Samples, channels: str, tolerance: float = 1e-9) -> None:
    assert log.channels >= set(channels.split()) - {"q"}
    assert_allclose(log.t - log.t[0], x.t - x.t[0], rtol=0, atol=1e-6 if x.t[0] > 1e6 else tolerance)
    for channel in channels.split():
        assert_allclose(getattr(log, channel), getattr(x, channel), rtol=tolerance, atol=tolerance, err_msg=channel)


# timetable(seconds((0:11)' / 100), q1, q2, q3, tau1, tau2, tau3) with qj = j * t and tauj = 10 * j * t, as a MAT file
# of version 5 holds it, written by mat-io, an independent program; packed by zlib.
TIMETABLE = (
    "c-rMxO=ufO6y9A)#xhQDOj~?%_t1lKaIk**XGnG(DQ*H$VmGqel0dq)*6x6ISDjtim3#4_f!>-"
    "!4oMEVq=)7b2n6Cl2(%4^l(e*z5PAqCDTI{f&{A4j=%F*(H`4BCwW?PN1Trvs``)~7-"
    "uGtS&W?)HrGwLZ<yUu2%Ejr@#4@Vr@@z$OmMv`TlJi*C9K9@C=9HY7%)B;{PEVv?m(!W4?3+`WoIGF3%Zqi{&>UpRYsmRPwwF+~E{C@fQE;1hptz"
    "lgPe~sjeUS7WY)FU+6>EjaxKPX=K0+Z$(j8>zj<#6Q!H?qid+^)9o&bHIF_+r~(8t`zdy;32b_wQtceFKMlADkErAAxxNubkQ7@si@UJAf_`6Nhw"
    "3DBvexw3h_-x0JfOt#jA<~&0-?j5XEt2#b@9PlSSc#-"
    "2V$nj|8Eq2a3CHnm(u*Jb=mh=tMPm_M1V#t^bo%(5JT`*9kf^1>gaD;LV)0#2c_A{u(IXw~J!|!9KCUF>M6Fbc3#d-"
    "Z=0X|`EyGNe%)awAZ&cocibRXVto9z|Vl{t`mKo&qA0C~uj8*`wSKwkj;J<yM;l-Hz(SG-Hzj*ust<+W{V_5LF0SIJLVbF{Yf%E&mR8M^H=u4=g5"
    "Xx5Cktu?=m8W%Lo8L_oiLOeWQvmMKr#a7j0Cs;%)(l@xOW1H0L5p7j3&tS`FcpAveTSk>sGI3vUJp^PffelrVQ!m;p#8bmqt8;NE&jK<yo;6!vfJ"
    "_f#w9+&dU`<-aa+}4oO1!b4+e;W#={sjPjq@gQ{Nd^AxNlWAeP-gBw@e3_HIh$2U2n!ZpEIK84DLt$fBeG5w;rs2qPX&uvN?X@*SXDepntBMJww|"
    "CuwPW3%+aSyFn(DXx_iF5d*}-IT~&4-`|PVfQ`eOK@H*Ax!Q!*HES_t>4!pjE@f*PFCivX~UblPZ#ny-MVfiy2xh!p8H{(BCr-"
    "Z(N@$Z!V52)b>@cU7DnVQG%^vsK`2g^4L^Sk;_itBYB>_00j%d|a$@n4kNjrIimegpgOed2Yi$%Dmbaalaq{s-{-"
    "3&#HeUjKrhpt^QZ?Uff>{~YjP`R9O#>-Bdt{<jS&sP1@7ZO}NAfOCIPb$Jgpczq#+zrPaq{&xFL#C_k1xIoWcic`Dbl0KZPv%}c-"
    "#Q#X#+IiEBujGp>2_L2-"
    ";xZ9&*=XzPXti`iTqYteOL1?6)Ug;)$Air(PN}`&$JBn^_t`Vg=l|Sa_<M6d@ln<zI$r2{@8j>vBi{E)+*;l*fxegCR9p8EPn3CE$Az{VVab0R)3"
    "Jkm=RsutA?wEDlF!6`x9?X{3dc+E)C(>Z@_pdf=~?uTy3bpU^Ekvm7Vv+&TOA2Ko;yz)uZEn%v4C@UxWoVA=V{&k1237{CI"
)


@layout("gautier3", "run.mat", channels="q tau")
def matlab_timetable(path: Path, x: Samples) -> None:
    path.write_bytes(zlib.decompress(base64.b85decode(TIMETABLE)))


# The same timetable in a file of version 7.3, written by mat-io 1.0.2; packed by lzma.
TIMETABLE_73 = (
    "{Wp48S^xk9=GL@E0stWa8~^|S5YJf5;C{CXMqL0VkVeixyEifW^CERz#JDmh?<I5B${2H$-|Z>>Sb-M2mX@nT@qD}%0g-3Og6D658D$%1Abox-"
    "<(34IZR8wk@}JzPQk+EvfO{4h>(M8nr!%%pTaiereVAUJfv#XR@#V+Hl;A^>{F<|)7p#mx(R}M?(z6G!k7HPVVHvXWa1si<Q)Ua{Ba1CO4sOR!^ce"
    "87ujpCzz@MuyyE-"
    "=i64VGQFnG*Eav&p;Z=rj>!G}wg9lgIm_*0YHSlO?DC9(Dr9OY%R@)igdk10UL`9{lRCsI2txH@dfAlPPMQ+ML0yP~xxv(AMkME0d6yr9#P0nJ~b%"
    "PjcRenIm({Vr1u{VnLRhnqL(l1-9ywD<}@lMSzXp4}MEh1eBw%@mP?NOJd8VI9-o?Cz6DSBQxAb~P-BQRP6|)_lodxYRSAJ?xP`9l-"
    "t1p%sZe$7gQL@t57XzG2BZmb^GeKj$BYSc)T)OSBoRfFpnsJXpXe^YfK%)b=Y)(C{hKB|JLs`i^SW0p?iIwdo=v0y_hYQhcQ$WfQ3c`g;iGvCckAh"
    "Lr^UnDuL3w$^P(f#Zj9ykljS5`ObfU9*h@2n-}QC!H&-f?a7mb6jW%#-kTE4;e9Pe9&xc#dy&U;-E3~T+|FmHk+1_pIwCoL2NOc-Brp6lr|e72W0k"
    "qWnngK&#a^xtSLY&Bj8?(mil$@=Rg6Rlf#@gA^7K%Qa9XYV0kJh>%k^SsrW6E@114k|6~!sfh15Ja_KJTlsE$Uw9Oy3K?OAWl1rL0Jyc|!nx01kz("
    "<It57!s7<z}m=6llwbQXORDnzyr<YTS3@k#$!wx>bE&xmz>AVTV-"
    "L)kyC%z7o6yY*$EV7%vpSI_!*SixZ#>=RKuX_`3g|QR%3)NU2RtyIgrIP{G{Nc5GJQxH%WgzlYqkSDc9l=4bM<_#w`}wntwnNo6Gl`7a93>e)&1`G"
    "9ZW;1vE`;F5~(%_h&)1q{~B$SJFu+St&4K!-`i4-QMtm&>0AotFPsLuJ1xg)Z4$bMNK2Fe=b7CpMhG(*-"
    "ZZ9MR<Qi0O~}d;j)?WHdIorMlzslZ&<)xY!-*J|!;?&asN=P8qOCQcCUFzZ3yY#xGx~rFeQ6e$c_#7=CoGt!*FV{%6w04-"
    "7^2UZa@2*q0WvCc3I2Lmd2PHhdg^tp>%=cDZM)_xIW!%tYQoq&E<(>l;wb*?G@&K#0s|7skBe;8~Hcz|Kje03ck-"
    "<y8iXR%L&R_ieWiIXT28WNv9%kK)a-OOpCp8aZcBWG`QpqmV`9I(kKX-"
    "LS$FA4sLXlgh@TfzvDT3T@b+0eziF5D*acmF6fgI1Spxgp>o3TPX$!q9H*-TGOrL%*r8Has17cQsN>1dVeCj7?G2@@e3TW*y5IAMtxwif@W4zBj-H"
    "pl+J=_5FYo{oWkX(L3yXq+?bv5m3J(GO{k{T<iIg30PR2gv!$`sI`&jUwF|4EeDjVUstBV1n-auJ<-8H7g;z_|W5EP4MkA|ga3-"
    "So)pl&{mw(OWr^N{0NqYzK9KUe2#PQSG?(qM1uV9tIrwHREsxXp(rJy{b$Xrp-*-"
    "rG7AclKrG*NuQ8m|gYu>!q$yIN~l_hCMO3vx13W0g7uxIWYP>Bu>8ETbS1e~8Pv=RfdH<n?be<?4U*nRtYGdw8Z?FmIiUo+!WIlajI41xfgM$bmhY"
    "tbBam16X-eO#Q-*&(o1CPDx|O>5BvU3afKtq(8Cbu8S4nm7~gj%g^`(9@W4`mXb3Fh=W)u_M`Rv=zrK3<1g12i=x&osq`|9r;-"
    "ATY!&SWUBk*eB9ipqVO=15bYpmZpQJK;KZDIf|L=~_x0!k8i?>u;b5REvlQ%e>&8Gg`v9l|F*fYS}r3;wurQ#?&DLsQzNOLjTEx3uzv|pYuaFdGB?"
    "vDa}3Bsn8cxo$%=h<(gI%%wWv#P+5Bl%je6Xgl`DXG~TO4CiJ=cIwk>uU_V+<3+=zT!L|m~(z87Nx>RHM{`ZR*o(Qj}R<=RM(}}Bl%wdzZ1V8m(Ao"
    "cQFqFts@vT!eIcl#Z3K-e*%{L6wb-6q1Yvz$#wt`ZR79gtDNnPm9&0ls);;sU7J+*i==N^RZzy779cO|)VK-jy>**+?syebU7%kHdRg#a%w;*I7+0"
    "&=<nn)Odf70*_*bN>>4}o`dYH?)?Eia<dr+VI31{t77_NOiAlJ9x=a}&IWZlk@;TDe`y9#mF@FJK5dHRP(oNlk9|EOd;?CYT73%iztGoBp*+7&R~Y"
    "LzLEO6HyAXNr6+-"
    "$|%ikQzN<SbgO`JoVWVr)}%1gRn>DEqKvwJXCWk3$DUk~txaQpHrIiZ=`WI1nPn<=W`|RzVy)5y3d2+VvEm}o%<4jDUU8@F{EXn~Do`vrbri>9o#)"
    "t3GyGJdXc#^<7Qbm=V0s!tgdi&BXyft#@zuUP6==VR)9$378J>E`gU~zN1o@R@|9Z{<X*WE)wc8Mb%dEP}dAx!}FQ-"
    "c}*9_>z>NS^gficztMTZ^SXr3jpQd~vVZWTWBp`tOVhTeWUkLOA&+K_aBeymAAQBY4b&rWsf8Aru9*_Q(a7nNeR(<$-"
    "<cp^7V9Dl>;j1rX&BsN^tSoP<xRB&-"
    "SBiA!)k{I;b4arcs^w$W}@s*o8lW+G=B5vRIW(5V!bkh<YOC+fcxbYW5io^$|q=0FF@YH0bv&8fvDz(*3io;$5ESO`)OW(aqLQJ;Ag0GUzAdoru=f"
    "fS?&r!u1&`fW23K&-ckhS^HKp(%L-kUrWqoG>%uhk<T2Sns0Yj;Lnm^RnNuVj7uChYJ`DsD>q+)G}_za$_4g~JQi!Rh%gxw@7CpJ-XyD$iM}bT9zx"
    "Wa@)Vf?g+%rI4LMX1qem{7e})UX!dLR`loeS8)u+qu4=$gDKr7b8AoU6>j3x`DCZa==_X*%9P`3i-"
    "E782pIC|JJCW_b3%DGvY6?2fh5P3u<5#%;}@liNOn<`+|_)zvb5P(CzNS}GS2kcj&da131E#A`|`Nu1K>D0D;F+#arJ&24C|u}G=lF$hQ%6<QcoWe"
    "tlqis@!o&9ZFNgS(0W6_gYzXy$M{{^=QmN;4-cQBhn5_w#<NCY=rEL4msQFN*vWNfFf|(o*~b-"
    ";aa5G_k4+=hT?D0zPXe95f(B_pWx`VW(_7R0triF)F;$h-4vg~Idi;*AWUHwGr?g=7{LfCLgP~<rw)oHcDY`4oI-"
    "BHg_}Xb_nvlcE(v25nG0}o#B%YBn)0783LHUGqi)1T5iQlfUoraTC@ZgQZeB_-"
    "pxD{x}Sl#C5IN8(tfgoVq#$A&(|I>@S@QW#>aV>oQiko^IP}e2HK|HacX%_4>u#(0+ot{$Z$cBALT-"
    "Fm~^OE|qcp1Krjq89xioDR#uSm2clp@u&diFRz!4p)z6srckhFPvf{r~^~pwH({-8V%L00H6@xcvbDq3C#VvBYQl0ssI200dcD"
)


@layout("gautier3", "run.mat", channels="q tau")
def matlab_timetable_73(path: Path, x: Samples) -> None:
    path.write_bytes(lzma.decompress(base64.b85decode(TIMETABLE_73)))


def test_units_and_regular_times_of_a_timetable_of_version_73(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "run.mat").write_bytes(lzma.decompress(base64.b85decode(TIMETABLE_73)))
    with h5py.File(tmp_path / "run.mat", "r+") as file:
        content = file["#refs#/e"]
        origin = content["rowTimes"][()]
        del content["varUnits"], content["rowTimes"]
        units = content.create_dataset("varUnits", (6, 1), dtype=h5py.ref_dtype)
        for k, unit in enumerate(("deg", "deg", "deg", "Nmm", "Nmm", "Nmm")):
            text = np.frombuffer(unit.encode("utf-16-le"), dtype="<u2").reshape(-1, 1)
            units[k, 0] = file.create_dataset(f"#refs#/unit{k}", data=text).ref
        for name, value in (("origin", origin), ("stepSize", [[np.nan]]), ("sampleRate", [[50.0]])):
            content[f"rowTimes/{name}"] = value
    log = dynid.read_log(tmp_path / "run.mat", dynid.load_robot("gautier3"))
    t = np.arange(12) / 100.0
    assert log.tau is not None
    assert_allclose(log.t, 2.0 * t, atol=1e-12)
    assert_allclose(np.degrees(log.q), np.outer(t, [1.0, 2.0, 3.0]), atol=1e-12)
    assert_allclose(log.tau, np.outer(t, [0.01, 0.02, 0.03]), atol=1e-12)


def test_an_object_of_matlab_that_is_not_read_says_what_to_save(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "run.mat", "w", userblock_size=512) as file:
        file["log"] = np.array([[0xDD000000, 2, 1, 1, 1, 1]], dtype=np.uint32)
        file["log"].attrs["MATLAB_class"] = np.bytes_(b"timetable")
        file["log"].attrs["MATLAB_object_decode"] = np.int32(3)
    with (tmp_path / "run.mat").open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    with pytest.raises(dynid.DynidError) as caught:
        dynid.read_log(tmp_path / "run.mat", dynid.load_robot("gautier3"))
    assert caught.value.message.code == "column_unusable"


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_raw_layout_is_read_like_the_hand_made_log(name: str, tmp_path: Path) -> None:
    robot, file, samples = write(name, tmp_path)
    log = read_by_words(robot, file, LAYOUTS[name].words)
    coarse = name == "plotjuggler"  # its stamps are s since 1970, in a double
    shift = replace(samples, t=samples.t + 1.7e9) if coarse else samples
    assert_same(log, shift, LAYOUTS[name].channels)


def test_there_are_enough_layouts() -> None:
    assert len(LAYOUTS) >= 30


# The same parameters, by one command.


def identified_from(command: CommandLine, folder: Path, *words: object) -> Mapping[str, Any]:
    import json

    out = folder / "found.json"
    command("identify", "gautier3", *words, "--friction", "none", "--no-rotor-inertia", "--json", out, code=None)
    found: Mapping[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize(
    "name", ["matlab_struct", "numpy_savetxt", "oscilloscope_with_units_below", "parquet_lists", "pandas_hdf5_table"]
)
def test_one_command_finds_the_same_parameters(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    robot = dynid.load_robot("gautier3")
    log = dynid.simulate(robot, fourier_motion(robot, duration=6.0, seed=3), noise=0.01)
    samples = Samples(log.t, log.q, log.v, None, log.tau)
    rows = ("--rows", f"1:{len(samples)}")
    words = tuple(LAYOUTS[name].words) if name != "pandas_hdf5_table" else rows
    LAYOUTS[name].write(tmp_path / LAYOUTS[name].file, samples)
    columns = {f"{c}{j + 1}": getattr(log, c)[:, j] for c in ("q", "v", "tau") for j in range(3)}
    table = np.column_stack([log.t, *columns.values()])
    np.savetxt(tmp_path / "made.csv", table, delimiter=",", header=",".join(["t", *columns]), comments="", fmt="%.17g")
    command = CommandLine(monkeypatch, capsys)
    raw = identified_from(command, tmp_path, tmp_path / LAYOUTS[name].file, *words)
    made = identified_from(command, tmp_path, tmp_path / "made.csv")
    assert raw["names"] == made["names"]
    assert_allclose(raw["values"], made["values"], rtol=1e-6, atol=1e-9)
