"""Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.

Everything public is here; it loads when first used, so `import dynid` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import dynid.concurrency  # noqa: F401  (notes forks from now on)
from dynid.version import VERSION

if TYPE_CHECKING:
    from dynid.base.barycentric import Barycentric, barycentric
    from dynid.base.find import base_parameters, compare_methods
    from dynid.base.parameters import BaseParameters
    from dynid.data.log import Log
    from dynid.data.markers import MarkerFit, angles_from_markers
    from dynid.data.read import read_log
    from dynid.data.simulate import simulate
    from dynid.errors import DynidError
    from dynid.estimation.compare import compare_ways
    from dynid.estimation.comparison import Comparison
    from dynid.estimation.gains import Gains
    from dynid.estimation.identification import Identification
    from dynid.estimation.identify import collect_state, identify, identify_states
    from dynid.estimation.identify_gains import identify_gains
    from dynid.estimation.identify_payload import identify_payload
    from dynid.estimation.joint_parameters import JointParameters, joint_parameters
    from dynid.estimation.load import load_parameters
    from dynid.estimation.payload import Payload
    from dynid.estimation.payload_between import payload_between
    from dynid.estimation.sequential import Sequential
    from dynid.estimation.state import State
    from dynid.excitation.design import design_excitation
    from dynid.excitation.excitation import Excitation
    from dynid.exports.export import Export, export
    from dynid.exports.verify import verify
    from dynid.models.regressor import Regressor, regressor, regressor_adjoint, regressor_chunks
    from dynid.physical.check import Check, check_robot
    from dynid.physical.demands import Ellipsoid
    from dynid.physical.find import physical_parameters
    from dynid.physical.physical import PhysicalParameters
    from dynid.report.write import write_report
    from dynid.robot.force_sensor import ForceSensor, Rotor
    from dynid.robot.joint_column import JointColumn
    from dynid.robot.load import bundled_robots, load_robot
    from dynid.robot.motion import Motion
    from dynid.robot.robot import Robot
    from dynid.unknown.find import count_model_parameters, model_parameters
    from dynid.unknown.parameters import ModelParameters

_HOMES = {
    "Barycentric": "dynid.base.barycentric",
    "BaseParameters": "dynid.base.parameters",
    "Check": "dynid.physical.check",
    "Comparison": "dynid.estimation.comparison",
    "DynidError": "dynid.errors",
    "Ellipsoid": "dynid.physical.demands",
    "Excitation": "dynid.excitation.excitation",
    "Export": "dynid.exports.export",
    "ForceSensor": "dynid.robot.force_sensor",
    "Gains": "dynid.estimation.gains",
    "Identification": "dynid.estimation.identification",
    "JointColumn": "dynid.robot.joint_column",
    "JointParameters": "dynid.estimation.joint_parameters",
    "Log": "dynid.data.log",
    "MarkerFit": "dynid.data.markers",
    "ModelParameters": "dynid.unknown.parameters",
    "Motion": "dynid.robot.motion",
    "Payload": "dynid.estimation.payload",
    "PhysicalParameters": "dynid.physical.physical",
    "Regressor": "dynid.models.regressor",
    "Robot": "dynid.robot.robot",
    "Rotor": "dynid.robot.force_sensor",
    "Sequential": "dynid.estimation.sequential",
    "State": "dynid.estimation.state",
    "angles_from_markers": "dynid.data.markers",
    "barycentric": "dynid.base.barycentric",
    "base_parameters": "dynid.base.find",
    "bundled_robots": "dynid.robot.load",
    "check_robot": "dynid.physical.check",
    "collect_state": "dynid.estimation.identify",
    "compare_methods": "dynid.base.find",
    "compare_ways": "dynid.estimation.compare",
    "count_model_parameters": "dynid.unknown.find",
    "design_excitation": "dynid.excitation.design",
    "export": "dynid.exports.export",
    "identify": "dynid.estimation.identify",
    "identify_gains": "dynid.estimation.identify_gains",
    "identify_payload": "dynid.estimation.identify_payload",
    "identify_states": "dynid.estimation.identify",
    "joint_parameters": "dynid.estimation.joint_parameters",
    "load_parameters": "dynid.estimation.load",
    "load_robot": "dynid.robot.load",
    "payload_between": "dynid.estimation.payload_between",
    "model_parameters": "dynid.unknown.find",
    "physical_parameters": "dynid.physical.find",
    "read_log": "dynid.data.read",
    "regressor": "dynid.models.regressor",
    "regressor_adjoint": "dynid.models.regressor",
    "regressor_chunks": "dynid.models.regressor",
    "simulate": "dynid.data.simulate",
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
