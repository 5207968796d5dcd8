"""The front door to all models: the matrix W with y = W X, its chunks and its adjoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.models import (
    Energy,
    LagrangianGradient,
    MeasurementModel,
    Momentum,
    Power,
    Reaction,
    Static,
    Torque,
)
from dynid.dynamics.scene import Scene, Stage, standard_columns
from dynid.errors import ModelError
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

MODELS: dict[str, MeasurementModel] = {
    "torque": Torque(),
    "static": Static(),
    "energy": Energy(),
    "power": Power(),
    "momentum": Momentum(),
    "lagrangian_gradient": LagrangianGradient(),
    "reaction": Reaction(),
}


@dataclass(frozen=True, slots=True, eq=False)
class Regressor:
    """Matrix of a measurement model along a motion.

    Attributes
    ----------
    matrix : (N channels, columns) array
        Sample by sample, within a sample by channel, SI units.
    columns : tuple of str
        Names of the parameters.
    channels : tuple of str
        Names of the measured channels.
    support : (channels, columns) array of bool
        Where entries can be nonzero.
    """

    matrix: Array
    columns: tuple[str, ...]
    channels: tuple[str, ...]
    support: NDArray[np.bool_]


def find_model(name: str) -> MeasurementModel:
    """Return the model of this name."""
    if name not in MODELS:
        raise ModelError(
            "unknown_model", "there is no model '{model}'", "models are {models}", model=name, models=list(MODELS),
        )  # fmt: skip
    return MODELS[name]


def regressor(robot: Robot, motion: Motion, *, model: str = "torque", rotor_inertia: bool = True) -> Regressor:
    """Return the matrix W of a model along a motion: y = W X for the standard parameters X.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    motion : Motion
        The motion, N samples.
    model : str
        Measurement model: "torque", "energy", "power", "momentum", "lagrangian_gradient" or "reaction".
    rotor_inertia : bool
        Whether the columns of the rotor inertias `Ia` are included.

    Returns
    -------
    Regressor
        Its columns are `robot.parameter_names`, with or without Ia.

    Raises
    ------
    ModelError
        If there is no such model, or the robot cannot have it.
    MotionError
        If the motion does not fit the robot.

    Notes
    -----
    The rigid-body model is linear in the standard parameters: tau = W(q, v, a) X (Gautier 1991, eq. 5).

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, load_robot, regressor
    >>> robot = load_robot("gautier3")
    >>> rest = np.zeros((4, 3))
    >>> W = regressor(robot, Motion(np.arange(4.0), rest, rest, rest))
    >>> W.matrix.shape
    (12, 33)
    """
    chosen, stage, blank = _prepare_model(robot, model, rotor_inertia)
    return _regressor_of_rows(blank, chosen.rows(stage.scene_along(chosen.observed_motion(motion))))


def regressor_chunks(
    robot: Robot, motion: Motion, *, model: str = "torque", rotor_inertia: bool = True, size: int = 8192
) -> Iterator[Regressor]:
    """Yield the rows of `regressor` in chunks, in bounded memory.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    motion : Motion
        The motion, N samples.
    model : str
        Measurement model, as for `regressor`.
    rotor_inertia : bool
        Whether the columns of the rotor inertias `Ia` are included.
    size : int
        Samples per chunk, at most.

    Yields
    ------
    Regressor
        The rows of up to `size` samples.

    Raises
    ------
    ModelError
        If `size` is less than one, or as for `regressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, load_robot, regressor_chunks
    >>> robot = load_robot("gautier3")
    >>> rest = np.zeros((5, 3))
    >>> motion = Motion(np.arange(5.0), rest, rest, rest)
    >>> [chunk.matrix.shape for chunk in regressor_chunks(robot, motion, size=3)]
    [(9, 33), (6, 33)]
    """
    if size < 1:
        raise ModelError("chunk_size_not_positive", "a chunk needs at least one sample, got {size}", size=size)
    chosen, stage, blank = _prepare_model(robot, model, rotor_inertia)
    chosen.observed_motion(motion)
    for start in range(0, max(1, len(motion) - chosen.overlap), size):
        part = motion[start : start + size + chosen.overlap]
        yield _regressor_of_rows(blank, chosen.rows(stage.scene_along(chosen.observed_motion(part))))


def regressor_adjoint(
    robot: Robot, motion: Motion, weights: Array, *, model: str = "torque", rotor_inertia: bool = True
) -> tuple[Array, Array, Array]:
    """Return the gradient of sum(weights * regressor(...).matrix) with respect to q, v and a.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    motion : Motion
        The motion, N samples.
    weights : array
        Weights with the shape of `regressor(...).matrix`.
    model : str
        Measurement model, as for `regressor`.
    rotor_inertia : bool
        Whether the columns of the rotor inertias `Ia` are included.

    Returns
    -------
    tuple of three (N, n) arrays
        Gradients with respect to q, v and a.

    Raises
    ------
    ModelError
        If the weights have another shape or are not finite, or as for `regressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, load_robot, regressor_adjoint
    >>> robot = load_robot("gautier3")
    >>> rest = np.zeros((4, 3))
    >>> gq, gv, ga = regressor_adjoint(robot, Motion(np.arange(4.0), rest, rest, rest), np.ones((12, 33)))
    >>> ga.shape
    (4, 3)
    """
    chosen, stage, blank = _prepare_model(robot, model, rotor_inertia)
    scene = stage.scene_along(chosen.observed_motion(motion))
    return chosen.adjoint(scene, _checked_weights(scene, chosen, blank, weights))


def _prepare_model(robot: Robot, model: str, rotor_inertia: bool) -> tuple[MeasurementModel, Stage, Regressor]:
    """Return the model of this name, the robot with its columns, and a regressor without rows."""
    chosen = find_model(model)
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    channels = chosen.channels(robot)
    blank = Regressor(np.zeros((0, len(columns))), columns.names, channels, chosen.support(robot, columns))
    return chosen, Stage.for_robot(robot, columns), blank


def _regressor_of_rows(blank: Regressor, rows: Array) -> Regressor:
    """The prepared regressor, with rows."""
    return Regressor(rows.reshape(-1, len(blank.columns)), blank.columns, blank.channels, blank.support)


def _checked_weights(scene: Scene, model: MeasurementModel, blank: Regressor, weights: Array) -> Array:
    """Weights as (samples, channels, columns); ModelError where their shape is wrong."""
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    shape = (len(scene) - model.overlap, len(blank.channels), len(blank.columns))
    if weights.shape != (shape[0] * shape[1], shape[2]):
        raise ModelError(
            "wrong_shape", "weights must have the matrix's shape {expected}, got {shape}",
            expected=(shape[0] * shape[1], shape[2]), shape=weights.shape,
        )  # fmt: skip
    if not np.isfinite(weights.sum()):  # an infinity or NaN anywhere shows in the sum
        raise ModelError("weights_not_finite", "weights must be finite")
    return weights.reshape(shape)
