"""Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.

Everything public is here; it loads when first used, so `import dynid` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynid.base.find import base_parameters, compare_methods
    from dynid.base.parameters import BaseParameters
    from dynid.data.log import Log
    from dynid.data.read import read_log
    from dynid.data.simulate import simulate
    from dynid.errors import DynidError
    from dynid.estimation.identification import Identification
    from dynid.estimation.identify import collect_state, identify, identify_states
    from dynid.estimation.sequential import Sequential
    from dynid.estimation.state import State
    from dynid.excitation.design import design_excitation
    from dynid.excitation.excitation import Excitation
    from dynid.models.regressor import Regressor, regressor, regressor_adjoint, regressor_chunks
    from dynid.robot.joint_column import JointColumn
    from dynid.robot.load import bundled_robots, load_robot
    from dynid.robot.motion import Motion
    from dynid.robot.robot import Robot
    from dynid.unknown.find import count_model_parameters, model_parameters
    from dynid.unknown.parameters import ModelParameters

_HOMES = {
    "BaseParameters": "dynid.base.parameters",
    "DynidError": "dynid.errors",
    "Excitation": "dynid.excitation.excitation",
    "Identification": "dynid.estimation.identification",
    "JointColumn": "dynid.robot.joint_column",
    "Log": "dynid.data.log",
    "ModelParameters": "dynid.unknown.parameters",
    "Motion": "dynid.robot.motion",
    "Regressor": "dynid.models.regressor",
    "Robot": "dynid.robot.robot",
    "Sequential": "dynid.estimation.sequential",
    "State": "dynid.estimation.state",
    "base_parameters": "dynid.base.find",
    "bundled_robots": "dynid.robot.load",
    "collect_state": "dynid.estimation.identify",
    "compare_methods": "dynid.base.find",
    "count_model_parameters": "dynid.unknown.find",
    "design_excitation": "dynid.excitation.design",
    "identify": "dynid.estimation.identify",
    "identify_states": "dynid.estimation.identify",
    "load_robot": "dynid.robot.load",
    "model_parameters": "dynid.unknown.find",
    "read_log": "dynid.data.read",
    "regressor": "dynid.models.regressor",
    "regressor_adjoint": "dynid.models.regressor",
    "regressor_chunks": "dynid.models.regressor",
    "simulate": "dynid.data.simulate",
}

__all__ = [
    "BaseParameters",
    "DynidError",
    "Excitation",
    "Identification",
    "JointColumn",
    "Log",
    "ModelParameters",
    "Motion",
    "Regressor",
    "Robot",
    "Sequential",
    "State",
    "base_parameters",
    "bundled_robots",
    "collect_state",
    "compare_methods",
    "count_model_parameters",
    "design_excitation",
    "identify",
    "identify_states",
    "load_robot",
    "model_parameters",
    "read_log",
    "regressor",
    "regressor_adjoint",
    "regressor_chunks",
    "simulate",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dynid' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
