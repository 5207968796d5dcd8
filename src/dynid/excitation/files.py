"""A designed motion as files: CSV, and ROS trajectory_msgs/JointTrajectory as JSON or YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import ExcitationError
from dynid.robot.files import write_text
from dynid.robot.motion import Motion

if TYPE_CHECKING:
    from dynid.excitation.excitation import Excitation


def write_motion(excitation: Excitation, path: Path, rate: float) -> None:
    """Write by suffix: .csv, .json, .yaml or .yml."""
    names = excitation.robot.joint_names
    match path.suffix.lower():
        case ".csv":
            write_text(path, csv_text(excitation.motion(rate)))
        case ".json":
            write_text(path, json.dumps(trajectory(excitation.motion(rate), names)) + "\n")
        case ".yaml" | ".yml":
            write_text(path, yaml_text(excitation.motion(rate), names))
        case other:
            raise ExcitationError(f"cannot write a motion as '{other}'; use .csv, .json or .yaml")


def csv_text(motion: Motion) -> str:
    """Columns t, q1.., v1.., a1.. in s, rad and m, with all digits."""
    n = motion.q.shape[1]
    header = ["t", *(f"{letter}{j + 1}" for letter in "qva" for j in range(n))]
    lines = [",".join(header)]
    for t, q, v, a in zip(motion.t, motion.q, motion.v, motion.a, strict=True):
        lines.append(",".join(repr(float(x)) for x in (t, *q, *v, *a)))
    return "\n".join(lines) + "\n"


def trajectory(motion: Motion, names: tuple[str, ...]) -> dict[str, object]:
    """Fields of trajectory_msgs/JointTrajectory."""
    points = [
        {
            "positions": q.tolist(),
            "velocities": v.tolist(),
            "accelerations": a.tolist(),
            "time_from_start": dict(zip(("sec", "nanosec"), _stamp(float(t)), strict=True)),
        }
        for t, q, v, a in zip(motion.t, motion.q, motion.v, motion.a, strict=True)
    ]
    return {"joint_names": list(names), "points": points}


def yaml_text(motion: Motion, names: tuple[str, ...]) -> str:
    """Return the same message in YAML; names are quoted, whatever they contain."""
    lines = ["joint_names:", *(f"  - {json.dumps(name)}" for name in names), "points:"]
    for t, q, v, a in zip(motion.t, motion.q, motion.v, motion.a, strict=True):
        sec, nanosec = _stamp(float(t))
        for first, (key, values) in enumerate((("positions", q), ("velocities", v), ("accelerations", a))):
            lines.append(f"  {' ' if first else '-'} {key}: [{', '.join(repr(float(x)) for x in values)}]")
        lines.append(f"    time_from_start: {{sec: {sec}, nanosec: {nanosec}}}")
    return "\n".join(lines) + "\n"


def _stamp(t: float) -> tuple[int, int]:
    nanoseconds = round(t * 1e9)
    return nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000
