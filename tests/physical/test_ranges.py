"""Ranges of all bodies that can exist and fit as well, the verdict on bodies, and masses of random arms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from campaign.bodies import check, random_arm, recorded, wrong_file
from numpy.testing import assert_allclose

import dynid
from bodies import bodied, identified
from dynid.physical.parameters import PhysicalParameters
from dynid.physical.prior import find_prior
from dynid.robot.inertia import from_pseudo_inertia, pseudo_inertia, to_body


@pytest.fixture(scope="module")
def found() -> PhysicalParameters:
    arm = random_arm(1)
    return dynid.physical_parameters(
        dynid.identify(wrong_file(arm, 1), recorded(arm, 1), friction=("viscous", "coulomb"))
    )


def test_ranges_hold_the_bodies_and_tell_what_data_show(found: PhysicalParameters) -> None:
    ends = found.ranges
    low, high = ends.T
    assert ends.shape == (len(found.names), 2)
    slack = 1e-6 * (np.abs(found.values) + 1e-3)
    assert (low <= found.values + slack).all()
    assert (found.values - slack <= high).all()
    masses = [k for k, name in enumerate(found.names) if name.symbol == "M"]
    assert (low[masses] >= 0.0).all()
    assert np.isinf(high[masses[0]])  # mass on the first axis, which never moves
    standard = len(found.robot.parameter_names)
    size = np.abs(found.prior[:standard]) + np.abs(found.values[:standard])
    shown = found.from_data[:standard] > 0.9
    assert shown.any()
    assert ((high - low)[:standard][shown] < 4.0 * size[shown] + 0.1).all()
    hidden = found.from_data[:standard] < 1e-9
    assert ((high - low)[:standard][hidden] > 0.5 * size[hidden]).all()


def test_ends_of_ranges_are_bodies_that_fit_as_well(found: PhysicalParameters) -> None:
    """A bound at an end of a range costs what is allowed; beyond it, more."""
    name = next(n for n, (low, high) in zip(found.names, found.ranges, strict=True) if n.symbol == "M" and high < 50.0)
    high = found.ranges[found.names.index(name), 1]
    best = dynid.physical_parameters(found.identification, prior_weight=0.0).cost
    inside, beyond = (
        dynid.physical_parameters(found.identification, bounds={name: (k * high, 10.0 * high)}, prior_weight=0.0).cost
        for k in (0.98, 1.1)
    )
    assert inside <= best + 1.05 * found.body_ranges.increase
    assert beyond > best + 0.95 * found.body_ranges.increase


def test_a_total_mass_and_bounds_narrow_the_ranges(found: PhysicalParameters) -> None:
    total = found.total_mass
    known = dynid.physical_parameters(found.identification, total_mass=total, bounds={"M2": (1.0, 2.0)})
    ends = dict(zip(known.names, known.ranges, strict=True))
    masses = np.array([ends["M" + link.label] for link in known.robot.links])
    assert (masses[:, 1] <= total * (1.0 + 1e-5)).all()
    assert 1.0 - 1e-5 <= ends["M2"][0]
    assert ends["M2"][1] <= 2.0 + 1e-5


def test_ranges_of_centres_hold_them_and_boxes_bound_them(found: PhysicalParameters) -> None:
    box = [(-0.3, 0.3), (-0.3, 0.3), (-0.3, 0.3)]
    name = found.robot.links[2].name
    boxed = dynid.physical_parameters(found.identification, centre_of_mass={name: box})
    low, high = boxed.centre_ranges[2].T
    centre = boxed.robot.links[2].inertia[6:9] / boxed.robot.links[2].inertia[9]
    assert (low <= centre + 1e-6).all()
    assert (centre - 1e-6 <= high).all()
    assert (low >= -0.3 - 1e-4).all()
    assert (high <= 0.3 + 1e-4).all()


def test_files_keep_what_ranges_need(found: PhysicalParameters, tmp_path: Path) -> None:
    known = dynid.physical_parameters(found.identification, total_mass=found.total_mass)
    known.save(tmp_path / "bodies.json")
    again = PhysicalParameters.load(tmp_path / "bodies.json")
    assert_allclose(again.ranges, known.ranges, rtol=1e-6)
    assert again.verdict == known.verdict
    assert again.prior_weight == known.prior_weight


def test_the_verdict_begins_with_the_total_mass(found: PhysicalParameters) -> None:
    assert found.verdict.reasons[0].code == "total_mass"
    assert found.verdict.reasons[0].facts["mass"] == found.total_mass
    assert found.verdict.next_step.code == "give_total_mass"
    known = dynid.physical_parameters(found.identification, total_mass=found.total_mass)
    assert known.verdict.next_step.code == "export_bodies"


def test_what_nobody_would_build_is_named() -> None:
    """The data of a robot with a load on its last link, which the file does not know."""
    arm = random_arm(1)
    last = arm.links[-1]
    P = pseudo_inertia(last.inertia) + 25.0 * np.outer([0.0, 0.0, 0.6, 1.0], [0.0, 0.0, 0.6, 1.0])
    loaded = replace(arm, links=(*arm.links[:-1], replace(last, inertia=from_pseudo_inertia(P))))
    result = dynid.identify(wrong_file(arm, 1), recorded(loaded, 1), friction=("viscous", "coulomb"))
    found = dynid.physical_parameters(result)
    codes = {(warning.code, warning.facts.get("link")) for warning in found.warnings}
    assert ("mass_far_from_prior", last.name) in codes
    assert found.verdict.level in ("weak", "do not trust")
    assert "mass_far_from_prior" in {reason.code for reason in found.verdict.reasons}


@pytest.mark.parametrize("seed", [1, 2])
def test_random_arms_with_wrong_files(seed: int) -> None:
    seen = check(seed)
    assert all(seen.inside)
    assert seen.error < 1.2 * seen.file_error
    assert seen.torques < 0.01


def test_ranges_of_exact_data_are_structural() -> None:
    robot = bodied("gautier3", 3)
    known = dynid.physical_parameters(identified(robot, noise=1e-3, known=True))
    low, high = known.ranges[: len(robot.parameter_names)].T
    slack = 1e-3 * (np.abs(robot.parameters) + 0.1)
    assert (low <= robot.parameters + slack).all()
    assert (robot.parameters - slack <= high).all()


def test_shapes_are_the_prior_where_nothing_else_is_known() -> None:
    robot = dynid.load_robot("gautier3")
    blank = replace(robot.with_parameters(np.full(len(robot.parameter_names), np.nan)), published=None)
    centre, shape = np.array([0.1, 0.0, 0.2]), np.diag([0.04, 0.01, 0.09])
    name = blank.links[1].name
    prior = find_prior(blank, None, {name: (centre, shape)})
    body = to_body(prior.inertia[1])
    assert_allclose(body.mass, 600.0 * 4.0 / 3.0 * np.pi * 0.2 * 0.1 * 0.3, rtol=1e-9)
    assert_allclose(body.com, centre, atol=1e-12)
    assert_allclose(np.diag(body.inertia), body.mass / 5.0 * np.array([0.10, 0.13, 0.05]), rtol=1e-9)
