"""Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.

Everything public is named in `__init__.pyi`; it loads when first used, so `import dynid` stays light.
"""

import os
import sys


def _leave_at_interrupt(*_: object) -> None:
    """End the command before it has begun to work: loading takes a tenth of a second, Python's own is a traceback."""
    os.write(2, b"dynid: interrupted\n")
    os._exit(130)


# Only where dynid is the program (`dynid`, `python -m dynid`), not in those that it or others start. No file is read
# before this, not even that of `signal`: Ctrl-C in the meantime would be a traceback.
if os.path.basename((sys.argv or [""])[0]) in ("dynid", "-m") and "multiprocessing" not in sys.modules:
    import _signal  # type: ignore[import-not-found]  # built in, without stubs

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _leave_at_interrupt)

# ruff: noqa: E402
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
