"""An equation in files: what is needed to write its rows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dynid.errors import IdentificationError
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation
from dynid.robot.joint_column import StoredColumn
from dynid.robot.robot import StoredRobot
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.records import Data, StoredAs


@dataclass(frozen=True, slots=True, eq=False)
class EquationRecord:
    """What an equation is made from."""

    robot: StoredRobot
    rotor_inertia: bool
    friction: tuple[str, ...]
    scale: FiniteArray
    columns: tuple[StoredColumn, ...]
    transmission: FiniteArray
    joints: tuple[int, ...]
    rigid: FiniteArray | None
    model: str = "torque"
    window: float | None = None
    quadrature: str = "smooth"
    unknown: tuple[str, ...] | None = None


def record_equation(equation: Equation) -> EquationRecord:
    """Write an equation down."""
    return EquationRecord(
        equation.robot, equation.base.question.rotor_inertia, equation.friction, equation.shapes.scale, equation.extra,
        equation.transmission, equation.joints, equation.rigid, equation.options.model, equation.options.window,
        equation.options.quadrature, equation.unknown,
    )  # fmt: skip


def rebuild_equation(e: EquationRecord) -> Equation:
    """Build an equation again."""
    robot, n = e.robot, e.robot.n
    if not e.joints or list(e.joints) != sorted(set(e.joints)) or not set(e.joints) <= set(range(n)):
        raise IdentificationError("record_joints_mismatch", "equation.joints are not joints of the robot in order")
    check_shape("equation.scale", e.scale, n)
    check_shape("equation.transmission", e.transmission, n, n)
    if (e.scale <= 0.0).any():
        raise IdentificationError("record_scale_not_positive", "equation.scale must be positive")
    options = Options(
        model=e.model, window=e.window, quadrature=e.quadrature, unknown=e.unknown or (), rotor_inertia=e.rotor_inertia,
        columns=list(e.columns), joints=[robot.joint_names[j] for j in e.joints],
    )  # fmt: skip
    equation = Equation.of(robot, options, friction=e.friction, scale=e.scale, transmission=e.transmission)
    if e.rigid is None:
        return equation
    check_shape("equation.rigid", e.rigid, equation.rigid_count)
    return equation.with_rigid(e.rigid)


StoredEquation = Annotated[Equation, StoredAs(EquationRecord, record_equation, rebuild_equation)]


def robot_inside(data: Data) -> Data:
    """Data of a file, in which the robot stands beside the equation, with the robot in the equation."""
    robot, equation = data.pop("robot", None), data.get("equation")
    if not isinstance(equation, dict) or "robot" in equation:
        raise IdentificationError("record_robot_misplaced", "equation must be an object without a robot of its own")
    return {**data, "equation": {**equation, "robot": robot}}


def robot_beside(data: Data) -> Data:
    """Return the same for writing."""
    return {"robot": data["equation"].pop("robot"), **data}


def check_shape(what: str, array: Array, *shape: int) -> None:
    """Refuse an array of another shape."""
    if array.shape != shape:
        raise IdentificationError(
            "wrong_shape", "{what} has shape {shape}, not {shape_2}", what=what, shape=array.shape, shape_2=shape,
        )  # fmt: skip
