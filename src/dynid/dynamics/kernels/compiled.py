"""How the kernels are compiled: decorators, and a cache on disk that knows all kernel sources."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar

import numba
from numba.core.compiler_lock import global_compiler_lock

from dynid.concurrency import hold_across_forks

P = ParamSpec("P")
T = TypeVar("T")

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}


hold_across_forks(global_compiler_lock)  # a child forked while a kernel is compiled could never compile one


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a kernel: cached on disk, without the GIL, multiply-adds fused."""
    return _with_cache_stamp(numba.njit(**_OPTIONS)(function), function)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a small function into its callers."""
    return _with_cache_stamp(numba.njit(forceinline=True, **_OPTIONS)(function), function)


def _with_cache_stamp(dispatcher: Callable[P, T], function: Callable[P, T]) -> Callable[P, T]:
    """Tie the cache on disk to all kernel sources: numba looks at the caller's file alone, not at its callees'."""
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):
        file._source_stamp = _hash_kernel_sources(Path(inspect.getfile(function)))
    return dispatcher


@cache
def _hash_kernel_sources(own: Path) -> str:
    """Hash of a function's own file and of all kernel sources."""
    files = sorted({own, *Path(__file__).parent.glob("*.py")})
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
