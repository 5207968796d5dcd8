"""Whether links are bodies that can exist, and how their parameters are written elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynid.errors import ExportError
from dynid.robot.inertia import change_of_frame, pseudo_inertia
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform

ROUNDING = 1e-12
"""Share of a pseudo-inertia's largest eigenvalue that is rounding."""


def is_body(x: Array, *, strictly: bool = False, part_of: Array | None = None) -> bool:
    """Whether ten parameters can be those of a body: its pseudo-inertia is not negative (or positive, strictly).

    part_of: parameters from which these were subtracted, whose rounding they have.
    """
    eigenvalues = np.linalg.eigvalsh(pseudo_inertia(x))
    whole = eigenvalues if part_of is None else np.linalg.eigvalsh(pseudo_inertia(part_of))
    bound = ROUNDING * float(np.abs(whole).max())
    return bool(eigenvalues[0] > bound) if strictly else bool(eigenvalues[0] >= -bound)


def lumps(robot: Robot) -> dict[int, Array]:
    """Parameters of every moving link together with the fixed ones that it carries, in its frame."""
    total = {k: np.array(link.inertia) for k, link in enumerate(robot.links)}
    for k in reversed(robot.topological_order):
        link = robot.links[k]
        if link.kind == "fixed" and link.parent >= 0:
            total[link.parent] = total[link.parent] + change_of_frame(link.placement) @ total[k]
    return {k: x for k, x in total.items() if robot.links[k].moves}


def check_bodies(robot: Robot, bodies: Mapping[int, Array], form: str, *, strictly: bool = False) -> None:
    """Refuse links that no body can be: other software would, or would simulate nonsense."""
    wrong = [robot.links[k].name for k, x in bodies.items() if not is_body(x, strictly=strictly)]
    if wrong:
        some = ", ".join(f"'{name}'" for name in wrong[:8]) + (f" and {len(wrong) - 8} more" if len(wrong) > 8 else "")
        kind = "link" if len(wrong) == 1 else "links"
        raise ExportError(
            f"{kind} {some} of '{robot.name}': no real body has these parameters (pseudo-inertia not positive), and "
            f"{form} needs bodies; use physical_parameters (dynid physical) first, or export .c, .toml or .json"
        )


def roll_pitch_yaw(R: Array) -> tuple[float, float, float]:
    """Angles of URDF, R = Rz(yaw) Ry(pitch) Rx(roll); exact to rounding also where pitch is a right angle."""
    yaw = float(np.arctan2(R[1, 0], R[0, 0])) if np.hypot(R[0, 0], R[1, 0]) > 0.0 else 0.0
    c, s = np.cos(yaw), np.sin(yaw)
    pitch = np.arctan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = np.arctan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return float(roll), float(pitch), yaw


def quaternion(R: Array) -> Array:
    """Unit quaternion w x y z of a rotation, from its largest component (Shepperd)."""
    K = np.array([
        [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
        [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
        [R[0, 2] - R[2, 0], R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1]],
        [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1]],
    ])  # fmt: skip
    k = int(np.argmax(np.diag(K)))
    column = K[:, k] + np.eye(4)[k]
    w = column / np.linalg.norm(column)
    return np.asarray(w if w[0] >= 0.0 else -w)


def moved(T: Transform, x: Array) -> Array:
    """Ten parameters of the inner frame, seen from the outer."""
    return np.asarray(change_of_frame(T) @ x)
