"""What speaks against a fit of markers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynid.data.marker_fit import NEAR, Shared
from dynid.data.marker_rows import Carried, names_of
from dynid.errors import DynidError
from dynid.robot.transform import Array

ODD = 4.0
"""What fits this many times worse than the rest is named."""


def refuse_undetermined(carried: Carried, hidden: NDArray[np.bool_]) -> None:
    """Raise where a joint is hidden in every frame."""
    never = np.asarray(hidden.all(axis=0))
    if never.any():
        raise DynidError(
            f"the markers never tell joints {names_of(carried, never)} apart; put markers on more links, "
            "or three that do not lie on a line on the last one"
        )


def find_warnings(
    carried: Carried, q: Array, hidden: NDArray[np.bool_], each: Array, shared: Shared, unjudged: bool
) -> tuple[str, ...]:
    """Sentences on joints, frames and markers that do not fit in."""
    notes = []
    every = np.sqrt((each**2).mean())
    blank = np.asarray(hidden.any(axis=0))
    if not carried.free.all():
        notes.append(f"no marker shows joint {names_of(carried, ~carried.free)}: it is taken to stay at its start")
    if hidden.any():
        count = int(hidden.any(axis=1).sum())
        notes.append(f"{count} of {len(q)} frames show too few markers for joint {names_of(carried, blank)}: NaN there")
    turns = np.array([carried.robot.links[k].kind == "revolute" for k in carried.robot.tree_joints])
    jumps = (np.abs(np.diff(q, axis=0)) > NEAR) & turns & ~hidden[1:] & ~hidden[:-1]
    if jumps.any():
        frame = int(np.flatnonzero(jumps.any(axis=1))[0]) + 1
        joints = names_of(carried, np.asarray(jumps.any(axis=0)))
        notes.append(f"joint {joints} jumps at frame {frame}: swapped markers, or a long gap")
    if shared.misfit > ODD * every + 1e-6:
        notes.append(
            f"the known posture fits worse ({1e3 * shared.misfit:.2g} mm) than the motion "
            f"({1e3 * every:.2g} mm): is start right?"
        )
    odd = np.flatnonzero(each > ODD * np.median(each) + 1e-9)
    if len(odd):
        text = ", ".join(f"{k} ({1e3 * each[k]:.2g} mm)" for k in odd)
        notes.append(f"marker {text} fits worse than the others ({1e3 * np.median(each):.2g} mm): is its link right?")
    if unjudged:
        notes.append("there are just enough markers to find the joints, none to judge the fit: deviations are unknown")
    return tuple(notes)
