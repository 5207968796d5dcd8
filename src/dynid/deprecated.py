"""Old names of functions, keywords, attributes and options that still work, each with a DeprecationWarning."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

NAMES = {"compare_ways": "compare_estimators", "load_parameters": "payload_parameters"}
"""Of `dynid`."""

_EQUAL = {"tied": "equal"}
KEYWORDS: dict[str, Mapping[str, str]] = {
    "compare_estimators": _EQUAL,
    "identify": _EQUAL,
    "identify_states": _EQUAL,
    "ForceSensor": {"gain": "sensitivity_sigma"},
}
"""Of functions, and of classes that users construct."""

ATTRIBUTES: dict[str, Mapping[str, str]] = {
    "Barycentric": {"relations_of": "base_parameter_relations", "matrix_of": "base_parameter_matrix"},
    "Comparison": {"way": "run", "ways": "runs"},
    "EstimatorRun": {"found": "identification", "base": "base_parameter_names", "apart": "distances_to"},
    "ForceSensor": {
        **KEYWORDS["ForceSensor"],
        "constant": "constant_readings",
        "hidden": "hidden_rotor_joints",
        "is_plain": "is_in_base_frame",
        "map": "wrench_to_readings",
        "spinning": "spinning_rotors",
    },
    "Identification": {"lost": "unidentifiable"},
    "JointParameters": {"scatter": "covariance_without_sensitivities"},
    "Log": {
        "standing": "standing_joints",
        "surroundings": "chunks_of_whole_recording",
        "unused": "unused_columns",
        "watched": "with_reading_progress",
    },
    "Payload": {"lost": "unidentifiable", "way": "method"},
    "PhysicalParameters": {"holds_friction": "robot_has_all_friction"},
    "Score": {"counted": "nrmse_without_quiet"},
    "SearchHistory": {"ending": "with_final_value"},
    "Verdict": {"after_call": "with_next_command"},
}
"""Of results and values."""

OPTIONS: dict[str, Mapping[str, str]] = {"identify": {"--tie": "--equal"}}
"""Of commands."""

Renamed = TypeVar("Renamed", bound=Callable[..., Any])


def warn_renamed(old: str, new: str, *, level: int = 3) -> None:
    """Warn of an old name; level: how far up the caller is."""
    text = f"'{old}' is now '{new}'; the old name will be removed in the next version"
    warnings.warn(text, DeprecationWarning, stacklevel=level)


def accept_old_names(thing: Renamed) -> Renamed:
    """Decorate a function or class so that it accepts the old names of its keywords and attributes."""
    for old, new in ATTRIBUTES.get(thing.__name__, {}).items():
        setattr(thing, old, property(functools.partial(_get_renamed_attribute, old, new)))
    keywords = KEYWORDS.get(thing.__name__, {})
    if not keywords:
        return thing
    function: Any = thing.__init__ if inspect.isclass(thing) else thing

    @functools.wraps(function)
    def call_with_new_keywords(*args: Any, **given: Any) -> Any:
        for old in keywords.keys() & given.keys():
            new = keywords[old]
            if new in given:
                raise TypeError(f"{thing.__name__}() takes '{new}' or, as it was called before, '{old}', not both")
            warn_renamed(old, new)
            given[new] = given.pop(old)
        return function(*args, **given)

    if not inspect.isclass(thing):
        return call_with_new_keywords  # type: ignore[return-value]
    thing.__init__ = call_with_new_keywords  # type: ignore[method-assign]
    return thing


def _get_renamed_attribute(old: str, new: str, thing: object) -> Any:
    """Value of an attribute that was asked for by its old name."""
    warn_renamed(old, new)
    return getattr(thing, new)
