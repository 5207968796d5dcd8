"""Stop operators: elastic presliding with a limit, the memory of dry friction (Maxwell slip)."""

from __future__ import annotations

from dynid.kernel.compiled import compiled
from dynid.robot.transform import Array


@compiled
def run_stops(q: Array, width: Array, state: Array, out: Array) -> None:
    """Write z <- clip(z + dq / width, -1, 1) along positions q (N, n) for widths (w, n), from state (w, n).

    state is the value at the first sample; out (N, w, n) receives the value at every sample.
    """
    N, n = q.shape
    for b in range(width.shape[0]):
        for j in range(n):
            z = state[b, j]
            out[0, b, j] = z
            scale = 1.0 / width[b, j]
            before = q[0, j]
            for k in range(1, N):
                now = q[k, j]
                z = min(1.0, max(-1.0, z + (now - before) * scale))
                before = now
                out[k, b, j] = z
