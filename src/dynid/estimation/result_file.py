"""How a result is laid out in its file: flat, robot beside equation, parameters once more for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.errors import IdentificationError
from dynid.estimation.diagnostics.unidentifiable import NO_EFFECT
from dynid.estimation.records import check_shape, robot_beside, robot_inside
from dynid.storage.records import Bytes, Data

if TYPE_CHECKING:
    from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
    from dynid.estimation.identification import Identification
    from dynid.estimation.inference.score import Score


def write_layout(x: Identification, data: Data) -> Data:
    """Data of a file from those of the fields."""
    lost = data.pop("lost")
    parameters = [
        {"name": n, "unit": u, "value": _finite(v), "sigma": _finite(s), "interval": [_finite(i[0]), _finite(i[1])]}
        for n, u, v, s, i in zip(data.pop("names"), data.pop("units"), x.values, x.sigma, x.intervals, strict=True)
    ]
    return {
        "dynid": data.pop("version"), **robot_beside(data), "parameters": parameters,
        "lost": [item[:3] for item in lost],
        "lost_shares": [item[3] for item in lost] if all(item[3] is not None for item in lost) else [],
    }  # fmt: skip


def read_layout(data: Data) -> Data:
    """Data of the fields from those of a file; older ones have no `systematic`, nor say which share went where."""
    version = data.pop("dynid", None)
    data = names_and_units(robot_inside(data)) | {"version": version}
    if data.get("systematic") is None:
        data["systematic"] = Bytes.write(np.zeros((0, len(data["names"]))))
    lost, shares = data.get("lost"), data.pop("lost_shares", [])
    if shares:
        if not isinstance(lost, list) or len(shares) != len(lost):
            raise IdentificationError(
                "record_lost_shares_missing", "lost_shares must be given for every lost parameter",
            )  # fmt: skip
        data["lost"] = [[*item[:3], own] for item, own in zip(lost, shares, strict=True)]
    elif isinstance(lost, list):
        data["lost"] = [[*item[:3], [] if item[1] == NO_EFFECT else None] for item in lost]
    return data


def names_and_units(data: Data) -> Data:
    """Take both from the parameters that people read; the exact numbers are in the arrays."""
    rows = data.pop("parameters", None)
    if not isinstance(rows, list) or any(not isinstance(row, dict) for row in rows):
        raise IdentificationError(
            "record_parameters_malformed", "parameters must be a list of objects with a name and a unit",
        )  # fmt: skip
    return {**data, "names": [row.get("name") for row in rows], "units": [row.get("unit") for row in rows]}


def check_identification(x: Identification) -> None:
    """What a file states of parameters and channels must be about those of the equation."""
    equation, p, c = x.equation, len(x.names), len(x.equation.channels)
    for name in ("values", "sigma", "white_sigma", "essential_values"):
        check_shape(name, getattr(x, name), p)
    check_shape("covariance", x.covariance, p, p)
    check_shape("systematic", x.systematic, len(x.systematic), p)
    check_shape("noise", x.noise, c)
    _check_score("fit", x.fit, c)
    _check_score("validation", x.validation, c)
    if x.torques is not None:
        _check_score("torques", x.torques, len(equation.joints))
    columns = set(equation.names)
    foreign = [name for name in x.names if name not in columns and name.rpartition("@")[0] not in columns]
    if foreign or len(set(x.names)) < p:
        raise IdentificationError(
            "record_parameters_mismatch", "parameter '{foreign}' is not one of the equation's, or named twice",
            foreign=(foreign or x.names)[0],
        )  # fmt: skip
    if not set(x.essential) <= set(x.names):
        raise IdentificationError("record_essentials_mismatch", "essential parameters are not among the parameters")
    if x.model != equation.options.model:
        raise IdentificationError(
            "record_model_mismatch", "model '{model}' is not the equation's '{model_2}'", model=x.model,
            model_2=equation.options.model,
        )  # fmt: skip
    if not x.factors or any(len(of_log) != c for of_log in x.factors):
        raise IdentificationError("record_factors_missing", "factors must be given for every log and channel")
    if any(factor.R.shape[1] != p + 1 for of_log in x.factors for factor in of_log):
        raise IdentificationError("record_factor_mismatch", "a factor does not have the columns of the parameters")
    _check_shares(x.unidentifiable)


def _check_score(what: str, score: Score, channels: int) -> None:
    for name in ("rmse", "nrmse", "settled", *(() if score.quiet is None else ("quiet",))):
        check_shape(f"{what}.{name}", getattr(score, name), channels)


def _check_shares(lost: tuple[Unidentifiable, ...]) -> None:
    """What stands for a lost parameter must end at parameters that are not."""
    waiting = {item.name: {name for name, _ in item.shares or ()} for item in lost}
    while waiting:
        found = [name for name, others in waiting.items() if not others & waiting.keys()]
        if not found:
            raise IdentificationError("record_lost_shares_cyclic", "lost_shares of lost parameters lead in a circle")
        for name in found:
            del waiting[name]


def _finite(x: Any) -> float | None:
    number = float(x)
    return number if math.isfinite(number) else None
