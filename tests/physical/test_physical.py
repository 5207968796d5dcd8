"""Laws of physical parameters: exact data stay exact, bodies are bodies, noise does not make them worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import blind, bodied, identified, smallest_eigenvalue, torque_error
from dynid.errors import PhysicalError
from dynid.physical.problem import UPPER, link_coordinate_basis, smallest_relative_eigenvalue, symmetric_from_svec
from dynid.physical.search import MARGIN
from dynid.robot.inertia import from_pseudo_inertia, pseudo_inertia
from fourier import fourier_motion
from frictions import PLAIN, log_of
from robots import random_inertia

ROBOTS = [("puma560", 0), ("panda", 1), ("tree", 4), ("tree", 9), ("tree", 12), ("tree", 319)]


@pytest.mark.parametrize(("source", "seed"), ROBOTS)
def test_without_noise_torques_stay_and_all_links_are_bodies(source: str, seed: int) -> None:
    robot = bodied(source, seed)
    result = identified(robot)
    found = dynid.physical_parameters(result)
    assert torque_error(robot, found.predict) < 1e-7
    assert torque_error(robot, lambda motion: dynid.simulate(found.robot, motion).tau) < 1e-7
    assert smallest_eigenvalue(found) > 0.0
    assert np.linalg.eigvalsh(found.pseudo_inertias()).min() == smallest_eigenvalue(found)
    assert found.eigenvalues.min() > 0.9 * MARGIN
    assert not found.is_changed
    assert not found.bindings
    assert found.names[: len(robot.parameter_names)] == robot.parameter_names
    if any(note.code == "collinear_parameter" for note in found.notes):
        return  # an offset of friction hides in a mass that gravity pulls along its joint: the prior tells them apart
    # sums that the data see are those of the true bodies
    base = result.equation.base
    scale = np.abs(base.matrix) @ np.abs(robot.parameters)
    rigid = found.values[: len(robot.parameter_names)]
    assert_allclose(base.values(rigid) / scale, base.values(robot.parameters) / scale, atol=1e-9)


@pytest.mark.parametrize(("source", "seed", "noise"), [("puma560", 3, 6.0), ("panda", 2, 15.0), ("tree", 4, 2.0)])
def test_noise_makes_the_estimate_unphysical_but_bodies_no_worse(source: str, seed: int, noise: float) -> None:
    robot = bodied(source, seed)
    plain, physical, near = [], [], []
    for k in range(4):
        result = identified(robot, noise=noise, seed=k)
        best, found = dynid.physical_parameters(result, prior_weight=0.0), dynid.physical_parameters(result)
        assert found.is_changed
        assert found.bindings
        assert smallest_eigenvalue(found) > 0.0
        plain.append(torque_error(robot, result.predict))
        physical.append(torque_error(robot, best.predict))
        near.append(torque_error(robot, found.predict))
    assert np.mean(physical) <= np.mean(plain)
    assert max(np.array(physical) / plain) < 1.03
    assert np.mean(near) <= np.mean(plain)  # a prior of bodies that have nothing in common with these random ones
    assert max(np.array(near) / plain) < 1.1


@pytest.mark.parametrize(("source", "seed", "noise"), [("puma560", 3, 0.3), ("panda", 2, 1.0), ("tree", 9, 0.5)])
def test_the_prior_weighs_as_much_as_the_fit_allows(source: str, seed: int, noise: float) -> None:
    """It never vanishes, however far it is; the squares grow by 1 %, those of a channel by 2 %, and no more."""
    result = identified(bodied(source, seed), noise=noise)
    best, found = dynid.physical_parameters(result, prior_weight=0.0), dynid.physical_parameters(result)
    assert found.prior_weight is not None
    assert found.prior_weight > 0.0
    assert best.prior_weight == 0.0
    assert max(found.nrmse_after / best.nrmse_after) < 1.0101
    assert found.cost > best.cost
    half, double = (dynid.physical_parameters(result, prior_weight=k * found.prior_weight) for k in (0.5, 2.0))
    assert half.cost < found.cost < double.cost
    assert double.prior_weight == 2.0 * found.prior_weight


def test_bodies_of_unknown_masses_are_those_of_real_arms() -> None:
    """Rotors and friction that are far from what was believed do not take the prior's weight from the links."""
    robot = bodied("panda", 2)
    links = tuple(replace(link, rotor=20.0 * (k + 1)) for k, link in enumerate(robot.links))
    found = dynid.physical_parameters(identified(replace(robot, links=links), noise=0.5))
    masses = np.array([found.value("M" + link.label) for link in robot.links])
    prior = np.array([found.prior[found.names.index("M" + link.label)] for link in robot.links])
    assert found.total_mass < 3.0 * prior.sum()
    assert (masses < 8.0 * prior).all()
    assert (found.prior_weight or 0.0) > 1e-6


@pytest.mark.parametrize("model", ["torque", "power", "energy", "momentum", "reaction", "torque+reaction"])
def test_every_model(model: str) -> None:
    robot = bodied("gautier3", 5)
    motion = fourier_motion(robot, rate=200.0)
    log = dynid.simulate(robot, motion)
    options: dict[str, Any] = {} if model == "reaction" else {"friction": PLAIN}
    result = dynid.identify(blind(robot), log, model=model, intervals="white", **options)
    found = dynid.physical_parameters(result)
    assert smallest_eigenvalue(found) > 0.0
    assert_allclose(found.fitted, result.values, rtol=1e-5, atol=1e-5 * np.abs(result.values).max())
    if model != "reaction":
        assert torque_error(robot, lambda m: dynid.simulate(found.robot, m).tau) < 1e-4
    else:
        still = replace(found.robot, links=tuple(replace(x, rotor=0.0) for x in found.robot.links))
        free = replace(robot, links=tuple(replace(x, rotor=0.0, friction=()) for x in robot.links))
        assert torque_error(free, lambda m: dynid.simulate(still, m).tau) < 1e-4


def test_the_nominal_values_are_the_prior_and_come_back() -> None:
    robot = bodied("panda", 3)
    found = dynid.physical_parameters(identified(robot, known=True))
    assert set(found.prior_source) == {"nominal values"}
    assert_allclose(found.values[: len(robot.parameter_names)], robot.parameters, rtol=1e-6, atol=1e-6)


def test_a_prior_decides_what_the_data_do_not_and_never_the_fit() -> None:
    robot = bodied("panda", 3)
    result = identified(robot, noise=15.0)
    left, right = dynid.physical_parameters(result, prior=bodied("panda", 8)), dynid.physical_parameters(result)
    assert np.abs(left.values - right.values).max() > 0.1
    one, other = (float((x.nrmse_after**2 / x.nrmse_before**2).mean()) for x in (left, right))
    assert_allclose(one, other, rtol=5e-3)


def test_distance_from_the_prior_does_not_depend_on_frames_or_units() -> None:
    rng = np.random.default_rng(0)
    prior, x = random_inertia(rng), random_inertia(rng)
    A = np.array([[1, 0.3, 0.2, 0.5], [0, 2, 0.1, -0.4], [0, 0, 0.7, 0.1], [0, 0, 0, 1.0]])  # any change of coordinates

    def distance(x: np.ndarray, prior: np.ndarray) -> float:
        return float(np.linalg.norm(np.linalg.solve(link_coordinate_basis(prior), x - prior)))

    moved = [from_pseudo_inertia(3.0 * A @ pseudo_inertia(p) @ A.T) for p in (x, prior)]
    assert_allclose(distance(x, prior), distance(*moved), rtol=1e-9)
    share, w = smallest_relative_eigenvalue(x, prior)
    assert_allclose(w @ pseudo_inertia(x) @ w, share * (w @ pseudo_inertia(prior) @ w), rtol=1e-9)
    S = rng.standard_normal((4, 4))
    S = S + S.T
    svec = np.array([S[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in UPPER])
    assert_allclose(symmetric_from_svec(svec), S, rtol=1e-15)
    assert_allclose(np.linalg.norm(svec), np.linalg.norm(S), rtol=1e-14)


def test_total_mass_bounds_and_places_are_kept() -> None:
    robot = bodied("panda", 1)
    result = identified(robot, noise=1.0)
    ball = dynid.Ellipsoid(np.zeros(3), 1.5**2 * np.eye(3))
    box = [(-0.2, 0.2), (-0.2, 0.2), (-0.1, 0.3)]
    found = dynid.physical_parameters(
        result, total_mass=21.5, bounds={"M1": (2.0, 2.5), "XX7": (-np.inf, 0.9)}, centre_of_mass={"2": box},
        within={"1": ball},
    )  # fmt: skip
    assert_allclose(found.total_mass, 21.5, rtol=1e-7)
    assert 2.0 - 1e-6 <= found.value("M1") <= 2.5 + 1e-6
    named = dynid.physical_parameters(result, bounds={"M:1": (2.0, 2.5)}).value("M1")
    assert named == dynid.physical_parameters(result, bounds={"M1": (2.0, 2.5)}).value("M1")
    com = found.robot.links[1].inertia[6:9] / found.value("M2")
    assert all(low - 1e-6 <= c <= high + 1e-6 for c, (low, high) in zip(com, box, strict=True))
    P = pseudo_inertia(found.robot.links[0].inertia)
    assert np.trace(P[:3, :3]) <= 1.5**2 * P[3, 3] * (1.0 + 1e-6)


def test_known_zeros_stay_zeros() -> None:
    rng, robot = np.random.default_rng(2), dynid.load_robot("puma562")
    links = []
    for link in robot.links:
        spread = np.diag(rng.uniform(0.02, 0.2, 3))
        x = from_pseudo_inertia(np.block([[spread, np.zeros((3, 1))], [np.zeros((1, 3)), np.full((1, 1), 3.0)]]))
        links.append(replace(link, inertia=x, rotor=0.1))
    robot = replace(robot, links=tuple(links))
    found = dynid.physical_parameters(identified(robot, friction=()))
    assert robot.known_zeros
    assert all(found.value(name) == 0.0 for name in robot.known_zeros)
    assert torque_error(robot, lambda m: dynid.simulate(found.robot, m).tau) < 1e-7


def test_what_was_lost_in_the_data_is_taken_from_the_prior() -> None:
    robot = bodied("puma560", 0)
    motion = fourier_motion(robot, rate=50.0)
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    q[:, 2], v[:, 2], a[:, 2] = 0.3, 0.0, 0.0
    still = replace(motion, q=q, v=v, a=a)
    tau = dynid.simulate(robot, still).tau
    assert tau is not None
    result = dynid.identify(blind(robot), log_of(still, tau), friction=PLAIN, intervals="white")
    assert result.unidentifiable
    found = dynid.physical_parameters(result)
    assert "unidentifiable_from_prior" in {note.code for note in found.notes}
    assert_allclose(found.predict(still), tau, atol=1e-6 * np.abs(tau).max())


def test_shares_say_who_decides() -> None:
    robot = bodied("puma560", 0)
    exact = dynid.physical_parameters(identified(robot, noise=1e-3))
    silent = identified(robot).equation.base.no_effect
    share = dict(zip(exact.names, exact.from_data, strict=True))
    sigma = dict(zip(exact.names, exact.sigma, strict=True))
    base = identified(robot).equation.base
    alone = [n for k, n in enumerate(base.names) if np.count_nonzero(np.abs(base.matrix[k]) > 1e-12) == 1]
    assert silent
    assert alone
    assert max(share[name] for name in silent) < 1e-9
    assert min(share[name] for name in alone) > 1.0 - np.sqrt(0.02)  # of the standard deviation: 98 % of the variance
    for name in alone:  # parameters that are base parameters themselves keep their deviation
        k = exact.identification.names.index(name)
        assert_allclose(sigma[name], exact.identification.sigma[k], rtol=1e-6)
    assert all(np.isnan(sigma[name]) for name in silent)


def test_friction_that_drives_is_refused_and_named() -> None:
    robot = bodied("gautier3", 1)
    pushed = replace(robot.links[1], friction=(("viscous", -2.0), ("coulomb", 1.0), ("offset", 0.3)))
    wrong = replace(robot, links=(robot.links[0], pushed, robot.links[2]))
    found = dynid.physical_parameters(identified(wrong, noise=0.05))
    assert found.value("Fv2") == pytest.approx(0.0, abs=1e-5)
    assert "Fv2 >= 0" in found.bindings[0].reason
    assert "not modelled" in found.warnings[0]
    assert dict(found.robot.links[1].friction)["viscous"] >= 0.0


def test_data_of_extreme_scale_are_weighed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact data of no bodies have weights of 1e10 and more: the solver then takes the problem for infeasible."""
    result = identified(dynid.load_robot("puma560"), friction=())
    usual = dynid.physical_parameters(result)
    monkeypatch.setattr("dynid.physical.problem.LARGEST", 1e8)
    stiff = dynid.physical_parameters(result)
    assert_allclose(stiff.nrmse_after, usual.nrmse_after, rtol=2e-3)
    assert smallest_eigenvalue(stiff) > 0.0
    assert "noise does not explain it" in stiff.warnings[0]


def test_bad_wishes_are_refused_by_name() -> None:
    robot = bodied("puma560", 0)
    result = identified(robot, noise=1.0)
    bad = robot.with_parameters(np.where([n == "M3" for n in robot.parameter_names], -1.0, robot.parameters))
    with pytest.raises(PhysicalError, match=r"impossible: 3 \(its mass is -1 kg\)") as caught:
        dynid.physical_parameters(result, prior=bad)
    assert caught.value.code == "prior_not_physical"
    with pytest.raises(PhysicalError, match="'ur10' is not the robot of the result, 'puma560'"):
        dynid.physical_parameters(result, prior="ur10")
    with pytest.raises(PhysicalError, match=r"'panda' .* its parameters are XX1 .. Ia7"):
        dynid.physical_parameters(result, prior="panda")
    with pytest.raises(PhysicalError, match="bounds of M1 contradict each other: 3 is above 2"):
        dynid.physical_parameters(result, bounds={"M1": (3.0, 2.0)})
    with pytest.raises(PhysicalError, match=r"in conflict: (total mass 5|M2 >= 9)"):
        dynid.physical_parameters(result, bounds={"M2": (9.0, 20.0)}, total_mass=5.0)
    with pytest.raises(PhysicalError, match="Fv1"):
        dynid.physical_parameters(result, bounds={"Fv1": (-3.0, -1.0)})
    with pytest.raises(PhysicalError, match="no parameter 'MM2'"):
        dynid.physical_parameters(result, bounds={"MM2": (0.0, 1.0)})
    with pytest.raises(PhysicalError, match="total mass must be a positive number"):
        dynid.physical_parameters(result, total_mass=-3.0)
    with pytest.raises(PhysicalError, match="no link 'hand'"):
        dynid.physical_parameters(result, centre_of_mass={"hand": [(0.0, 1.0)] * 3})


@pytest.mark.parametrize("weight", [-1.0, 1e-320, 1e-13, 1e300, np.inf, np.nan])
def test_weights_of_the_prior_beyond_arithmetic_are_refused(weight: float) -> None:
    result = identified(bodied("gautier3", 1), noise=0.1)
    with pytest.raises(PhysicalError) as caught:
        dynid.physical_parameters(result, prior_weight=weight)
    assert caught.value.code == "prior_weight_invalid"


@pytest.mark.parametrize("weight", [1e-12, 1e12])
def test_weights_of_the_prior_within_arithmetic_give_bodies(weight: float) -> None:
    found = dynid.physical_parameters(identified(bodied("gautier3", 1), noise=0.1), prior_weight=weight)
    assert np.isfinite(found.cost)
    assert smallest_eigenvalue(found) > 0.0
