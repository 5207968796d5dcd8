"""Barycentric parameters (Raucent et al. 1992, section 4): definition, the paper's robots, printed relations."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import DynidError, Motion, Robot, base_parameters, load_robot, regressor
from dynid.identifiability.base_reactions import barycentric, relate_sensors
from dynid.robot.inertia import inertia_matrix
from dynid.robot.transform import Array, skew
from robots import random_tree

# theta_d of the PUMA 562 in the paper's frames (section 5.1), inertias about the frames' origins, d3 = 0.4318.
D3 = 0.4318
THETA_D: tuple[dict[str, float], ...] = (
    {"zz1": 1, "zz2": 1, "zz3": 1},
    {"xx2": 1, "zz2": -1, "m3": D3**2},
    {"yy2": 1, "m3": D3**2},
    {"yz2": 1, "my3": -D3},
    {"xx3": 1, "zz3": -1},
    {"yy3": 1},
    {"yz3": 1},
    {"mz2": 1, "m3": D3},
    {"mz3": 1},
)
TENTH: dict[str, float] = {"my1": 1, "my2": 1, "my3": 1}
TOTAL: dict[str, float] = {"m1": 1, "m2": 1, "m3": 1}
# Ours by the paper's: link 1 has the same axes, links 2 and 3 have (x, y, z) = our (y, z, x).
OURS = {"xx": "YY", "yy": "ZZ", "zz": "XX", "yz": "XZ", "my": "MZ", "mz": "MX", "m": "M"}
FIRST = {"xx": "XX", "yy": "YY", "zz": "ZZ", "my": "MY", "m": "M"}


def rows_of(robot: Robot, combinations: tuple[dict[str, float], ...]) -> Array:
    rows = np.zeros((len(combinations), len(robot.parameter_names)))
    for row, terms in zip(rows, combinations, strict=True):
        for name, x in terms.items():
            ours = (FIRST if name[-1] == "1" else OURS)[name[:-1]] + name[-1]
            row[robot.parameter_names.index(ours)] = x
    return rows


def span(M: Array) -> Array:
    """Projector on the row space."""
    Q = np.linalg.qr(M.T)[0]
    return np.asarray(Q @ Q.T)


def test_puma_562_has_the_parameters_of_the_paper() -> None:
    robot = load_robot("puma562")
    fixed, tared = (relate_sensors(robot, tared=choice) for choice in (False, True))
    assert (fixed.torque.count, fixed.reaction.count, tared.reaction.count) == (9, 11, 10)
    assert_allclose(span(fixed.torque.matrix), span(rows_of(robot, THETA_D)), rtol=0, atol=1e-10)
    assert_allclose(span(tared.reaction.matrix), span(rows_of(robot, (*THETA_D, TENTH))), rtol=0, atol=1e-10)
    assert_allclose(span(fixed.reaction.matrix), span(rows_of(robot, (*THETA_D, TENTH, TOTAL))), rtol=0, atol=1e-10)


def test_puma_562_in_barycentric_letters() -> None:
    """As short as in the paper, where K2 includes m3 d3^2 and mb2 includes m3 d3."""
    robot = load_robot("puma562")
    found = barycentric(robot).base_parameter_relations(base_parameters(robot, model="reaction"))
    assert found == (
        "ZZR1 = Kzz1 + Kyy2 + Kyy3", "MYR1 = mby1 + mbz2 + mbz3", "MR1 = m1", "XXR2 = Kxx2 - Kyy2",
        "XZR2 = Kxz2 - D3*mbz3", "ZZR2 = Kzz2", "MXR2 = mbx2", "XXR3 = Kxx3 - Kyy3", "XZ3 = Kxz3", "ZZ3 = Kzz3",
        "MX3 = mbx3",
    )  # fmt: skip


def test_one_link_has_the_parameters_of_the_paper() -> None:
    """theta_d = (mb_z, K_yy), theta_r = (m, mb_y, mb_z, K_yy, K_yz); its (x, y, z) is our (x, z, -y)."""
    robot = load_robot("one_link")
    fixed = relate_sensors(robot, tared=False)
    assert set(fixed.torque.names) == {"MY1", "ZZ1"}
    assert set(fixed.reaction.names) == {"M1", "MZ1", "MY1", "ZZ1", "YZ1"}
    free = replace(robot, links=tuple(replace(link, zero=frozenset[str]()) for link in robot.links))
    assert relate_sensors(free, tared=False).S.shape == (3, 7)


@pytest.mark.parametrize("state", [(0.4, 1.1, -0.7), (-2.3, 0.6, 3.1), (1.9, -4.0, 0.2)])
def test_one_link_rows(state: tuple[float, float, float]) -> None:
    """The R-model in closed form: A = qdd c - qd^2 s, B = qdd s + qd^2 c."""
    q, v, a = state
    d, g = 0.7, 9.81
    c, s = np.cos(q), np.sin(q)
    A, B = a * c - v**2 * s, a * s + v**2 * c
    expected = np.array([  # by m, mb_y, mb_z, K_yy, K_yz
        [0, 0, A, 0, 0],
        [0, 0, 0, 0, 0],
        [g, 0, -B, 0, 0],
        [0, g, 0, 0, B],
        [0, 0, d * A - g * s, a, 0],
        [0, 0, 0, 0, A],
    ])  # fmt: skip
    robot = load_robot("one_link")
    motion = Motion(np.zeros(1), np.array([[q]]), np.array([[v]]), np.array([[a]]))
    W = regressor(robot, motion, model="reaction")
    in_letters = W.matrix @ np.linalg.inv(barycentric(robot).matrix)
    signs = {"m1": 1.0, "mbz1": 1.0, "mby1": -1.0, "Kzz1": 1.0, "Kyz1": -1.0}
    names = barycentric(robot).names
    ours = np.stack([sign * in_letters[:, names.index(name)] for name, sign in signs.items()], axis=1)
    assert_allclose(ours, expected, rtol=0, atol=1e-12)
    if state == (0.4, 1.1, -0.7):  # reference numbers computed elsewhere
        assert_allclose(ours[0, 2], -1.1159388899954867, rtol=0, atol=1e-12)
        assert_allclose(ours[4, 2], -4.601351161044702, rtol=0, atol=1e-12)
        assert_allclose(ours[3, 4], 0.8418909631274358, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_definition(seed: int) -> None:
    """Augmented bodies by hand: mass beyond at every joint, K = I + sum m [d]'[d], mb = MX + sum m d."""
    robot = random_tree(seed, shuffled=seed % 2 == 0, fixed_share=0.0)
    b = barycentric(robot).values(robot.parameters)
    names = barycentric(robot).names
    children = {k: [c for c, link in enumerate(robot.links) if link.parent == k] for k in range(len(robot.links))}

    def mass(k: int) -> float:
        return float(robot.links[k].inertia[9]) + sum(mass(c) for c in children[k])

    for k, link in enumerate(robot.links):
        arms = [(mass(c), robot.links[c].placement.translation) for c in children[k]]
        K = inertia_matrix(link.inertia) + sum((m * skew(d).T @ skew(d) for m, d in arms), np.zeros((3, 3)))
        mb = link.inertia[6:9] + sum((m * d for m, d in arms), np.zeros(3))
        value = {name: float(x) for name, x in zip(names, b, strict=True)}
        L = link.label
        assert_allclose(value["m" + L], mass(k), rtol=1e-12)
        assert_allclose([value[f"mb{x}{L}"] for x in "xyz"], mb, rtol=0, atol=1e-12)
        inertias = [[value[f"K{min(i, j)}{max(i, j)}{L}"] for j in "xyz"] for i in "xyz"]
        assert_allclose(inertias, K, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("model", ["torque", "reaction"])
def test_base_parameters_from_barycentric_ones(seed: int, model: str) -> None:
    """Fixed joints, rotors and known zeros included; B is unit triangular with parents first."""
    robot = random_tree(seed, joints=5, fixed_share=0.3)
    links = tuple(replace(link, zero=frozenset({"MX", "YZ"} if k == 1 else ())) for k, link in enumerate(robot.links))
    robot = replace(robot, links=links)
    found, base = barycentric(robot), base_parameters(robot, model=model)
    X = np.array(
        [0.0 if n in robot.known_zeros else x for n, x in zip(robot.parameter_names, robot.parameters, strict=True)]
    )
    assert_allclose(found.base_parameter_matrix(base) @ found.values(X), base.values(X), rtol=1e-9, atol=1e-9)
    assert_allclose(np.diag(found.matrix), 1.0)
    assert_allclose(np.abs(np.linalg.det(found.matrix)), 1.0, rtol=1e-9)
    assert len(found.base_parameter_relations(base)) == base.count


@pytest.mark.parametrize("name", ["puma560", "puma562", "iiwa", "panda", "rx90", "gautier3", "ur10"])
def test_relations_of_revolute_arms_are_short(name: str) -> None:
    """No masses are left in them but the whole one, and fewer terms than in standard parameters."""
    robot = load_robot(name)
    base = base_parameters(robot)
    found = barycentric(robot)
    lines = found.base_parameter_relations(base)
    assert not any(re.search(r"\bm\d", line) for line in lines)
    assert np.count_nonzero(found.base_parameter_matrix(base)) < np.count_nonzero(np.abs(base.matrix) > 1e-12)


def test_another_robot_is_refused() -> None:
    found = barycentric(load_robot("puma562"))
    with pytest.raises(DynidError, match="belong to 'puma560'"):
        found.base_parameter_relations(base_parameters(load_robot("puma560")))
    with pytest.raises(DynidError, match="33 standard parameters"):
        found.values(np.zeros(3))
