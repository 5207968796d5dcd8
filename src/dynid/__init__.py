"""Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.

Everything public is named in `__init__.pyi`; it loads when first used, so `import dynid` stays light.
"""

from __future__ import annotations

import lazy_loader

import dynid.concurrency  # noqa: F401  (notes forks from now on)
from dynid.deprecated import NAMES, warn_renamed
from dynid.version import VERSION

_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = VERSION


def __getattr__(name: str) -> object:
    if name in NAMES:
        warn_renamed(f"dynid.{name}", f"dynid.{NAMES[name]}")
    return _load(NAMES.get(name, name))


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
