"""Real robots: what bodies cost on data that was not used, and who is to blame where it is much."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dynid
from bodies import smallest_eigenvalue
from recordings import CASES, DATA, PLAIN, judge, logs


@pytest.mark.parametrize("friction", [PLAIN, "auto"], ids=["plain", "recipe"])
@pytest.mark.parametrize(("name", "allowed"), [("panda", 1.05), ("lwr4", 1.10)])
def test_bodies_predict_almost_as_well(name: str, allowed: float, friction: str | tuple[str, ...]) -> None:
    case = CASES[name]
    robot = dynid.load_robot(case.robot)
    fit, others = logs(case, robot, cut=False)
    result = dynid.identify(
        robot, fit, friction=friction, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff, validate=others
    )
    found = dynid.physical_parameters(result)
    assert smallest_eigenvalue(found) > 0.0
    before, after = judge(case, result, others[0]).mean(), judge(case, found, others[0]).mean()
    if name == "panda":
        assert after <= allowed * before
    elif after > allowed * before:  # LWR4+: bodies and friction that brakes cannot do it, and the report says so
        text = found.warnings[0]
        assert "noise does not explain it" in text
        assert found.bindings[0].reason in text
        assert found.chance < 1e-3
        if friction == PLAIN:  # its drives help the motion: viscous friction below zero at several joints
            assert sum(b.reason.startswith("Fv") for b in found.bindings) >= 3


@pytest.mark.parametrize("friction", [PLAIN, "auto"], ids=["plain", "recipe"])
@pytest.mark.parametrize("name", ["panda", "lwr4", "ur10"])
def test_masses_without_a_total_are_those_of_the_arm(name: str, friction: str | tuple[str, ...]) -> None:
    """Near what is published, also where nothing but lengths is known; and validation hardly suffers."""
    case = CASES[name]
    robot = dynid.load_robot(case.robot)
    fit, others = logs(case, robot, cut=False)
    result = dynid.identify(robot, fit, friction=friction, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff)
    best = judge(case, dynid.physical_parameters(result, prior_weight=0.0), others[0]).mean()
    published = robot.published_moving_mass
    assert published is not None
    found = dynid.physical_parameters(result)
    assert abs(found.total_mass / published - 1.0) < 0.35
    assert judge(case, found, others[0]).mean() < 1.01 * best
    prior = dict(zip(found.names, found.prior, strict=True))
    named = {warning.facts["link"] for warning in found.warnings if warning.code == "mass_far_from_prior"}
    for link in robot.links:
        ratio = found.value("M" + link.label) / prior["M" + link.label]
        assert 0.2 < ratio < 3.0 or link.name in named
    unknown = dynid.identify(
        replace(robot, published=None), fit, friction=friction, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff
    )
    sized = dynid.physical_parameters(unknown)
    assert abs(sized.total_mass / published - 1.0) < 0.35
    assert judge(case, sized, others[0]).mean() < 1.01 * best


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_recording_alone_weighs_what_the_arm_weighs(number: int) -> None:
    """LWR4+, one whole log and the defaults: within 35 %; links far from their prior are named."""
    folder = DATA / CASES["lwr4"].folder
    if not folder.exists():
        pytest.skip(f"the recordings {folder} are not here")
    robot = dynid.load_robot("lwr4")
    found = dynid.physical_parameters(dynid.identify(robot, dynid.read_log(folder / f"log_{number}.csv.gz", robot)))
    published = robot.published_moving_mass
    assert published is not None
    assert abs(found.total_mass / published - 1.0) < 0.35
    prior, named = dict(zip(found.names, found.prior, strict=True)), [w.facts.get("link") for w in found.warnings]
    for name, value in zip(found.names, found.values, strict=True):
        if name.symbol == "M" and not 0.2 * prior[name] <= value <= 3.0 * prior[name]:
            assert name.link in named
