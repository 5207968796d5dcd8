"""Run inside the peers' environment by `bench.peers`: drives by mujoco.sysid and by CMA-ES, on request.

Reads one JSON request per line, `{"data": FILE.npz, "model": MJCF, "route": "sysid" or "cma", "rollouts": N, ...}`, and
answers with one line: parameters, delay, rollouts and CPU seconds. Stands alone: neither dynid nor the rest of bench is
installed here.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import redirect_stdout
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np

FIELDS = ("armature", "damping", "frictionloss")
START = {"armature": 0.01, "damping": 0.05, "frictionloss": 0.02}
HIGHEST = {"armature": 0.2, "damping": 5.0, "frictionloss": 3.0}


def main() -> None:
    """Answer requests until the input ends."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for line in sys.stdin:
        request = json.loads(line)
        run = {"sysid": run_sysid, "cma": run_cma}[request["route"]]
        begin = time.process_time()
        with open(os.devnull, "w") as quiet, redirect_stdout(quiet):  # it prints its iterations
            answer = run(request)
        answer["seconds"] = time.process_time() - begin
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def delayed(t: np.ndarray, command: np.ndarray, at: np.ndarray, delay: float) -> np.ndarray:
    """Commands that are held, at instants, some seconds late."""
    k = np.clip(np.searchsorted(t, at - delay + 1e-9, side="right") - 1, 0, len(t) - 1)
    return np.asarray(command[k])


def run_sysid(request: dict[str, Any]) -> dict[str, Any]:
    """mujoco.sysid on the whole recording; the delay is given to it."""
    from mujoco import sysid

    data = np.load(request["data"])
    spec = mujoco.MjSpec.from_string(request["model"])
    model = spec.compile()
    t, q, command = data["t"], data["q"], data["q_cmd"]
    grid = np.arange(0.0, t[-1], model.opt.timestep)
    control = sysid.TimeSeries(grid, delayed(t, command, grid, request["delay"]))
    times = grid[1:]
    measured = np.column_stack([np.interp(times, t, x) for x in q.T])
    sensors = sysid.TimeSeries.from_names(times, measured, model)
    start = sysid.create_initial_state(model, q[0], np.zeros(model.nv), np.zeros(0))
    params = sysid.ParameterDict()
    names = [model.joint(k).name for k in range(model.njnt)]
    for field in FIELDS:
        for name in names:

            def write(s: Any, p: Any, field: str = field, name: str = name) -> None:
                value = np.array([p.value[0], 0.0, 0.0]) if field == "damping" else p.value[0]
                try:
                    setattr(s.joint(name), field, value)
                except (TypeError, ValueError):
                    setattr(s.joint(name), field, p.value[0])

            params.add(sysid.Parameter(f"{field}_{name}", START[field], 0.0 if field != "armature" else 1e-4,
                                       HIGHEST[field], modifier=write))  # fmt: skip
    sequences = sysid.ModelSequences("leg", spec, "recording", start, control, sensors)
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    count = 0

    def counted(x: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1 if np.ndim(x) < 2 else np.shape(x)[1]
        return residual(x, *args, **kwargs)

    found, _ = sysid.optimize(initial_params=params, residual_fn=counted, optimizer="mujoco", verbose=False)
    values = {field: [float(found[f"{field}_{name}"].value[0]) for name in names] for field in FIELDS}
    return values | {"delay": request["delay"], "rollouts": count}


def run_cma(request: dict[str, Any]) -> dict[str, Any]:
    """CMA-ES on rollouts of the whole recording, the delay among the unknowns."""
    import cma  # type: ignore[import-not-found]

    data = np.load(request["data"])
    model = mujoco.MjSpec.from_string(request["model"]).compile()
    state = mujoco.MjData(model)
    t, q, command = data["t"], data["q"], data["q_cmd"]
    n, grid = model.nv, np.arange(0.0, t[-1], model.opt.timestep)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    first = np.zeros((1, size))
    first[0, 1 : 1 + n] = q[0]
    measured = np.column_stack([np.interp(grid + model.opt.timestep, t, x) for x in q.T])
    count = 0

    def values_of(x: np.ndarray) -> dict[str, Any]:
        parts = np.exp(np.clip(x[: 3 * n], -5.0, 5.0)).reshape(3, n)
        return {field: START[field] * parts[k] for k, field in enumerate(FIELDS)} | {"delay": 0.01 + 0.01 * x[-1]}

    def cost(x: np.ndarray) -> float:
        nonlocal count
        count += 1
        found = values_of(x)
        for field in FIELDS:
            getattr(model, f"dof_{field}")[:] = found[field]
        states, _ = mujoco.rollout.rollout(model, state, first, delayed(t, command, grid, found["delay"])[None])
        error = np.asarray(states)[0, :, 1 : 1 + n] - measured
        return float(np.sqrt(np.mean(np.square(np.nan_to_num(error, nan=10.0)))))

    search = cma.CMAEvolutionStrategy(
        np.zeros(3 * n + 1), 0.7, {"maxfevals": request["rollouts"], "verbose": -9, "seed": 1}
    )
    while not search.stop():
        points = search.ask()
        search.tell(points, [cost(x) for x in points])
    found = values_of(np.asarray(search.result.xbest))
    return {key: np.asarray(x).tolist() for key, x in found.items()} | {"rollouts": count}


if __name__ == "__main__":
    main()
