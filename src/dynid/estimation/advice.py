"""Which of several ways to trust, and why, by rules that can be told in a sentence.

The way that predicts held-out torques best is taken, among those whose verdict allows it. Errors within 3 % are a tie:
then the smaller deviations win, and within a tenth of these torque by wls, the plainest. Ridge wins no tie: its
deviations are small because it leans on nominal values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.estimation.comparison import COMBINED, Way
from dynid.estimation.verdict import USABLE_MEAN

TIE, ALIKE = 1.03, 1.1
"""Ratios of errors, and of deviations, below which two ways are as good as each other."""

NOTHING, EXACT = 1e-4, 1e-6
"""NRMSE and relative deviation below which a difference is of no use to anybody."""

COLOURED = 0.3
"""Autocorrelation of residuals from which on a person should know of it."""

SHARPER = 1.5
"""Ratio of deviations from which on the better way tells something about the data."""

AGREES = 0.9
"""Share of base parameters that two ways should have in common."""


def advise(ways: Sequence[Way]) -> tuple[Way | None, str]:
    """The way to trust, None where there is none, and the reasons."""
    finished = [way for way in ways if way.result is not None]
    best = choose(finished)
    if best is None:
        return None, f"trust none of them: {_why_none(finished)}"
    return best, "; ".join([_why(best, finished), *_about(best), *_doubts(best, ways)])


def choose(finished: Sequence[Way]) -> Way | None:
    """Smallest error on held-out torques; ties go to smaller deviations, then to torque by wls."""
    allowed = [way for way in finished if _allowed(way)]
    if not allowed:
        return None
    smallest = min(way.error for way in allowed)
    tied = [way for way in allowed if way.error <= max(TIE * smallest, smallest + NOTHING)]
    honest = [way for way in tied if way.estimator != "ridge"] or tied
    least = min(way.relative_deviation for way in honest)
    close = [way for way in honest if way.relative_deviation <= max(ALIKE * least, least + EXACT)]
    return next((way for way in close if _is_plain(way)), min(close, key=lambda way: way.relative_deviation))


def _allowed(way: Way) -> bool:
    return way.found.verdict.level != "do not trust" and way.error <= USABLE_MEAN


def _is_plain(way: Way) -> bool:
    return (way.model, way.estimator) == ("torque", "wls")


def _why_none(finished: Sequence[Way]) -> str:
    verdict = finished[0].found.verdict
    if verdict.level == "do not trust":
        return verdict.reasons[0]
    least = min(way.error for way in finished)
    return (
        f"on held-out data their torques are off by {100.0 * least:.0f} % of the signal at best, although "
        f"{finished[0].name} is {verdict.level} where it was fitted: the motions differ too much, or something changed"
    )


def _why(best: Way, finished: Sequence[Way]) -> str:
    allowed = [way for way in finished if _allowed(way)]
    first = min(allowed, key=lambda way: way.error)
    text = f"trust {best.model} by {best.estimator}: its error on held-out torques, NRMSE {best.error:.4f}, is "
    if len(allowed) == 1:
        return text + "that of the only way that can be trusted"
    if first is best:
        rivals = sum(way.error <= max(TIE * best.error, best.error + NOTHING) for way in allowed) - 1
        others = f" ({rivals} more {'is' if rivals == 1 else 'are'} as good, its deviations are no larger)"
        return f"{text}the smallest{others if rivals else ''}"
    text += f"as good as the smallest ({first.error:.4f}, {first.name})"
    if first.estimator == "ridge":
        return f"{text}, which leans on nominal values"
    if first.relative_deviation > ALIKE * best.relative_deviation + EXACT:
        return f"{text} and its deviations are smaller"
    return f"{text}, and so are its deviations"


def _about(best: Way) -> list[str]:
    """What to know of the chosen way."""
    result, told = best.found, []
    coloured = [check.channel for check in result.checks if abs(check.colour) > COLOURED]
    if coloured:
        what = "the jackknife's deviations allow for it" if result.groups else "its deviations are too small"
        told.append(f"its residuals are coloured ({', '.join(coloured[:8])}): {what}")
    if best.estimator == "ridge":
        told.append("its values lean on the nominal ones of the robot file, and its deviations do not say by how much")
    return told


def _doubts(best: Way, ways: Sequence[Way]) -> list[str]:
    """What the other ways say about the data."""
    by_name = {(way.model, way.estimator): way for way in ways}
    wls = by_name.get(("torque", "wls"))
    told = []
    if wls is not None and wls.result is not None:
        told += _outliers(wls, by_name.get(("torque", "huber")))
        told += _noisy_accelerations(wls, by_name.get(("momentum", "wls")))
    refused = [way for way in ways if way.estimator == "recursive" and way.result is None]
    if refused:
        rank = ", a joint alone lacks rank" if any("2.30" in w.refusal for w in refused) else ""
        told.append(f"the recursion refused ({' and '.join(way.name for way in refused)}){rank}")
    others = [way for way in ways if way.result is not None and way is not best and way.estimator != "huber"]
    apart = [(way, way.agreement(best)) for way in others]
    far = [f"{way.name} ({100.0 * share:.0f} %)" for way, share in apart if share < AGREES]
    if far:
        told.append(f"fewer base parameters than {100 * AGREES:.0f} % agree with it in {', '.join(far)}")
    elif len(others) > 1:
        told.append("the others agree with it within their deviations")
    return told


def _outliers(wls: Way, huber: Way | None) -> list[str]:
    if huber is None or huber.result is None:
        return []
    distances = np.array(list(huber.apart(wls).values()))
    off, sharper = int((distances > COMBINED).sum()), wls.relative_deviation / max(huber.relative_deviation, 1e-300)
    if off > (1.0 - AGREES) * len(distances):
        what = f"huber differs from wls in {off} of {len(distances)} base parameters"
    elif sharper > SHARPER and wls.relative_deviation > huber.relative_deviation + EXACT:
        what = f"deviations of huber are {sharper:.1f} times smaller than those of wls"
    else:
        return []
    if huber.error > max(TIE * wls.error, wls.error + NOTHING):
        return [f"{what}, but it predicts worse: outliers, or something that the model lacks and huber takes for them"]
    return [f"{what}: look for outliers and contacts, which held-out data may hold too"]


def _noisy_accelerations(torque: Way, momentum: Way | None) -> list[str]:
    if momentum is None or momentum.result is None or not _allowed(momentum):
        return []
    better = torque.error / max(momentum.error, 1e-300)
    sharper = torque.relative_deviation / max(momentum.relative_deviation, 1e-300)
    if better > TIE and torque.error > momentum.error + NOTHING:
        return [
            f"momentum predicts better than torque ({momentum.error:.4f} and {torque.error:.4f}): noise of the "
            "accelerations is felt, a lower cut-off would spare torque from it"
        ]
    if sharper > SHARPER and torque.relative_deviation > momentum.relative_deviation + EXACT:
        return [
            f"deviations of momentum are {sharper:.1f} times smaller than those of torque: noise of the accelerations "
            "is felt, a lower cut-off would spare torque from it"
        ]
    return []
