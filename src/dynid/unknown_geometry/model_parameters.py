"""The front door: the model parameters of a robot, or how many there are."""

from __future__ import annotations

from collections.abc import Iterable

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import UnknownGeometryError
from dynid.robot.robot import Robot
from dynid.unknown_geometry.bilinear import bilinear_form, choose_model_parameters
from dynid.unknown_geometry.finite_field import ModelParameterCount, count_parameters, quick_count
from dynid.unknown_geometry.geometry import PartlyKnownRobot, declare_unknowns, is_right, split_unknown_words
from dynid.unknown_geometry.lagrangian import find_lagrangian
from dynid.unknown_geometry.parameters import ModelParameters

LIMIT = 300
"""More model parameters than this no experiment identifies."""

_COUNTED_TO = 500
_SMALL = 7
"""Robots with so many joints and known angles stay below LIMIT: they are not counted before."""

_MANY_PRODUCTS = 50_000
_BY_A_RIGHT_ANGLE, _BY_ANY_ANGLE, _BY_A_SLIDE = 2.6, 5.0, 1.5
"""Factors, measured, by which a joint makes the products of the Lagrangian more."""


@one_blas_thread
def model_parameters(
    robot: Robot, *, unknown: Iterable[str] | None = None, rotor_inertia: bool = False
) -> ModelParameters:
    """Model parameters of an open robot with unknown geometry (Ha, Ko & Kwon), exactly.

    unknown: symbols of the table (`D3`), letters of it (`r`: of every joint, also where it is 0) or entries (`d3`);
    None takes what the table declares unknown, () nothing: then X = M V are base parameters.
    rotor_inertia: whether the rotors' inertias Ia count; not by default, as in the paper's counts (`identify` has them,
    since drives do).
    """
    words = split_unknown_words(robot, unknown)
    shape = declare_unknowns(robot, words)
    _refuse_too_many_parameters(shape, rotor_inertia)
    _refuse_long_chains(shape)
    form = bilinear_form(find_lagrangian(shape, rotor_inertia=rotor_inertia))
    return ModelParameters(robot, words, rotor_inertia, form, choose_model_parameters(form))


def count_model_parameters(
    robot: Robot, *, unknown: Iterable[str] | None = None, rotor_inertia: bool = False, seed: int = 0
) -> ModelParameterCount:
    """Count the model parameters over finite fields, without finding them; any number of them, up to about 2000."""
    return count_parameters(declare_unknowns(robot, unknown), rotor_inertia=rotor_inertia, seed=seed)


def _refuse_long_chains(shape: PartlyKnownRobot) -> None:
    """Say so before the work where the Lagrangian has too many products to be written down."""
    products = {-1: 1.0}
    for k in shape.robot.topological_order:
        link, row = shape.robot.links[k], shape.rows[k]
        oblique = any(x.unknown or not is_right(x.known) for x in (row.gamma, row.alpha))
        factor = _BY_ANY_ANGLE if oblique else _BY_A_RIGHT_ANGLE
        factor = {"revolute": factor, "prismatic": _BY_A_SLIDE}.get(link.kind, 1.0)
        products[k] = products[link.parent] * factor
    most = max(products.values())
    if most > _MANY_PRODUCTS:
        raise UnknownGeometryError(
            "chain_too_long", "'{robot}' has a chain of too many joints: its Lagrangian has some {most:.0e} products",
            "lock joints, or use base_parameters where the geometry is known", robot=shape.robot.name, most=most,
        )  # fmt: skip


def _refuse_too_many_parameters(shape: PartlyKnownRobot, rotor_inertia: bool) -> None:
    """Say so before the work where the parameters are too many to be identified."""
    joints = len(shape.robot.tree_joints)
    if not shape.unknown or (joints <= _SMALL and not shape.angles) or joints <= 2:
        return
    found = quick_count(shape, rotor_inertia=rotor_inertia, most=_COUNTED_TO)
    if found.count <= LIMIT:
        return
    number = str(found.count) if found.complete else f"more than {found.count}"
    remedy = "declare the angles {angles} known" if shape.angles else "declare some lengths known"
    raise UnknownGeometryError(
        "too_many_model_parameters", "'{robot}' has {number} model parameters with {unknown} unknown, too many to be "
        "identified (over {limit})", remedy, robot=shape.robot.name, number=number, unknown=list(shape.unknown),
        limit=LIMIT, angles=list(shape.angles),
    )  # fmt: skip
