"""The four methods of base parameters must agree, and base parameters must keep the torques."""

from __future__ import annotations

import numpy as np

from campaign.robots import special_robot
from dynid import base_parameters, regressor
from dynid.identifiability.numeric import random_samples

METHODS = ("nullspace", "rules", "qr", "svd")


def check(seed: int) -> str | None:
    """Return what is wrong with robot `seed`, or None: same kept names by all methods, W XB = W X to 1e-10."""
    robot = special_robot(seed)
    rotors = seed % 2 == 0
    found = {method: base_parameters(robot, method=method, rotor_inertia=rotors, seed=seed) for method in METHODS}
    names = {method: base.names for method, base in found.items()}
    if len(set(names.values())) > 1:
        sets = {m: sorted(set(n) ^ set(names["nullspace"])) for m, n in names.items() if n != names["nullspace"]}
        return f"robot {seed}: methods disagree with nullspace: {sets}; {found['qr'].warnings}"
    motion = random_samples(robot, 20, seed + 1)
    W = regressor(robot, motion, rotor_inertia=rotors).matrix
    X = np.random.default_rng(seed).standard_normal(len(robot.parameter_names))
    inside = [k for k, name in enumerate(robot.parameter_names) if rotors or not name.startswith("Ia")]
    expected = W @ X[inside]
    for method, base in found.items():
        error = np.abs(W[:, base.kept] @ base.values(X) - expected).max()
        if not error <= 1e-10 * max(1.0, np.abs(expected).max()):
            return f"robot {seed}: {method} changes the torques by {error:.1e}"
    return None
