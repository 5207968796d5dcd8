"""Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.

Everything public is here; it loads when first used, so `import dynid` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import dynid.concurrency  # noqa: F401  (notes forks from now on)
from dynid.version import VERSION

if TYPE_CHECKING:
    from dynid.dynamics.regressor import Regressor, regressor, regressor_adjoint, regressor_chunks
    from dynid.errors import DynidError
    from dynid.estimation.accumulate.state import State
    from dynid.estimation.compare import Comparison, compare_ways
    from dynid.estimation.identification import Identification
    from dynid.estimation.identify import collect_state, identify, identify_states
    from dynid.estimation.joint_parameters import JointParameters, joint_parameters
    from dynid.estimation.solve.sequential import Sequential
    from dynid.excitation.design import design_excitation
    from dynid.excitation.excitation import Excitation
    from dynid.exports.export import Export, export
    from dynid.exports.verify import verify
    from dynid.identifiability.base_parameters import base_parameters, compare_methods
    from dynid.identifiability.base_reactions import Barycentric, barycentric
    from dynid.identifiability.parameters import BaseParameters
    from dynid.logs.log import Log
    from dynid.logs.markers import MarkerFit, angles_from_markers
    from dynid.logs.read import read_log
    from dynid.logs.simulate import simulate
    from dynid.payload.gains import Gains
    from dynid.payload.identify_gains import identify_gains
    from dynid.payload.identify_payload import identify_payload
    from dynid.payload.payload import Payload, load_parameters
    from dynid.payload.payload_between import payload_between
    from dynid.physical.check import Check, check_robot
    from dynid.physical.constraints import Ellipsoid
    from dynid.physical.find import physical_parameters
    from dynid.physical.parameters import PhysicalParameters
    from dynid.report.write import write_report
    from dynid.robot.force_sensor import ForceSensor, Rotor
    from dynid.robot.joint_column import JointColumn
    from dynid.robot.load import bundled_robots, load_robot
    from dynid.robot.motion import Motion
    from dynid.robot.robot import Robot
    from dynid.unknown_geometry.model_parameters import count_model_parameters, model_parameters
    from dynid.unknown_geometry.parameters import ModelParameters

_HOMES = {
    "Barycentric": "dynid.identifiability.base_reactions",
    "BaseParameters": "dynid.identifiability.parameters",
    "Check": "dynid.physical.check",
    "Comparison": "dynid.estimation.compare",
    "DynidError": "dynid.errors",
    "Ellipsoid": "dynid.physical.constraints",
    "Excitation": "dynid.excitation.excitation",
    "Export": "dynid.exports.export",
    "ForceSensor": "dynid.robot.force_sensor",
    "Gains": "dynid.payload.gains",
    "Identification": "dynid.estimation.identification",
    "JointColumn": "dynid.robot.joint_column",
    "JointParameters": "dynid.estimation.joint_parameters",
    "Log": "dynid.logs.log",
    "MarkerFit": "dynid.logs.markers",
    "ModelParameters": "dynid.unknown_geometry.parameters",
    "Motion": "dynid.robot.motion",
    "Payload": "dynid.payload.payload",
    "PhysicalParameters": "dynid.physical.parameters",
    "Regressor": "dynid.dynamics.regressor",
    "Robot": "dynid.robot.robot",
    "Rotor": "dynid.robot.force_sensor",
    "Sequential": "dynid.estimation.solve.sequential",
    "State": "dynid.estimation.accumulate.state",
    "angles_from_markers": "dynid.logs.markers",
    "barycentric": "dynid.identifiability.base_reactions",
    "base_parameters": "dynid.identifiability.base_parameters",
    "bundled_robots": "dynid.robot.load",
    "check_robot": "dynid.physical.check",
    "collect_state": "dynid.estimation.identify",
    "compare_methods": "dynid.identifiability.base_parameters",
    "compare_ways": "dynid.estimation.compare",
    "count_model_parameters": "dynid.unknown_geometry.model_parameters",
    "design_excitation": "dynid.excitation.design",
    "export": "dynid.exports.export",
    "identify": "dynid.estimation.identify",
    "identify_gains": "dynid.payload.identify_gains",
    "identify_payload": "dynid.payload.identify_payload",
    "identify_states": "dynid.estimation.identify",
    "joint_parameters": "dynid.estimation.joint_parameters",
    "load_parameters": "dynid.payload.payload",
    "load_robot": "dynid.robot.load",
    "payload_between": "dynid.payload.payload_between",
    "model_parameters": "dynid.unknown_geometry.model_parameters",
    "physical_parameters": "dynid.physical.find",
    "read_log": "dynid.logs.read",
    "regressor": "dynid.dynamics.regressor",
    "regressor_adjoint": "dynid.dynamics.regressor",
    "regressor_chunks": "dynid.dynamics.regressor",
    "simulate": "dynid.logs.simulate",
    "verify": "dynid.exports.verify",
    "write_report": "dynid.report.write",
}

__all__ = [
    "Barycentric",
    "BaseParameters",
    "Check",
    "Comparison",
    "DynidError",
    "Ellipsoid",
    "Excitation",
    "Export",
    "ForceSensor",
    "Gains",
    "Identification",
    "JointColumn",
    "JointParameters",
    "Log",
    "MarkerFit",
    "ModelParameters",
    "Motion",
    "Payload",
    "PhysicalParameters",
    "Regressor",
    "Robot",
    "Rotor",
    "Sequential",
    "State",
    "angles_from_markers",
    "barycentric",
    "base_parameters",
    "bundled_robots",
    "check_robot",
    "collect_state",
    "compare_methods",
    "compare_ways",
    "count_model_parameters",
    "design_excitation",
    "export",
    "identify",
    "identify_gains",
    "identify_payload",
    "identify_states",
    "joint_parameters",
    "load_parameters",
    "load_robot",
    "model_parameters",
    "payload_between",
    "physical_parameters",
    "read_log",
    "regressor",
    "regressor_adjoint",
    "regressor_chunks",
    "simulate",
    "verify",
    "write_report",
]
__version__ = VERSION


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dynid' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
