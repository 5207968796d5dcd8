"""How the kernels are compiled: decorators, and a cache on disk that knows all kernel sources."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

from dynid.concurrency import hold_across_forks
from dynid.messages import Message

P = ParamSpec("P")
T = TypeVar("T")

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}


hold_across_forks(global_compiler_lock)  # a child forked while a kernel is compiled could never compile one


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a kernel: cached on disk, without the GIL, multiply-adds fused."""
    return _jit_with_cache(function)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a small function into its callers."""
    return _jit_with_cache(function, forceinline=True)


_unwritable: list[str] = []
"""Why kernels could not be kept on disk, where that is so."""


def cache_warning() -> Message | None:
    """Warning that compiled kernels cannot be kept, so that every run compiles them; None where they can."""
    if not _unwritable:
        return None
    return Message(
        "kernel_cache_unwritable", "compiled kernels cannot be kept ({reason}): each run compiles them again, which "
        "takes some 10 to 60 s", "set NUMBA_CACHE_DIR to a folder that can be written", reason=_unwritable[0],
    )  # fmt: skip


def _jit_with_cache(function: Callable[P, T], **options: Any) -> Callable[P, T]:
    """Compile with a cache on disk that is tied to all kernel sources, or without one where no folder can be written.

    numba itself looks at the caller's file alone, not at its callees'.
    """
    try:
        dispatcher: Callable[P, T] = numba.njit(**options, **_OPTIONS)(function)
    except RuntimeError:  # numba finds no folder for the cache
        _unwritable.append("no folder for them can be written")
        return numba.njit(**options, **{**_OPTIONS, "cache": False})(function)  # type: ignore[no-any-return]
    file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if isinstance(file, IndexDataCacheFile):
        file.__class__ = _CheckedCacheFile
        file._source_stamp = _hash_kernel_sources(Path(inspect.getfile(function)))
    return dispatcher


class _CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """numba's cache of one function with a hash before each part: what is damaged is compiled again.

    numba unpickles what it finds and hands the machine code in it to LLVM, which a truncated file may crash.
    """

    def _dump(self, obj: Any) -> bytes:
        """Bytes of an object, after their hash."""
        data: bytes = super()._dump(obj)
        return hashlib.sha256(data).digest() + data

    def _load_index(self) -> dict[Any, str]:
        """Names of data files by signature; none where the index is missing, damaged or of other sources."""
        try:
            with open(self._index_path, "rb") as file:
                version, data = pickle.load(file), file.read()
            stamp, found = _unpickle_checked(data) if version == self._version else (None, {})
            return found if stamp == self._source_stamp else {}
        except Exception:  # whatever damaged bytes lead pickle to
            return {}

    def _load_data(self, name: str) -> Any:
        """Compiled code of a file; OSError, which numba takes for a missing file, where it is damaged."""
        try:
            return _unpickle_checked(Path(self._data_path(name)).read_bytes())
        except Exception as error:
            raise OSError(f"{name} is damaged") from error

    def save(self, key: Any, data: Any) -> None:
        """Store compiled code, unless the disk is full or read-only."""
        try:
            super().save(key, data)
        except OSError as error:
            _unwritable.append(error.strerror or str(error))


def _unpickle_checked(data: bytes) -> Any:
    """Object of bytes that follow their hash; ValueError where they do not match."""
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        raise ValueError("damaged")
    return pickle.loads(data[32:])


@cache
def _hash_kernel_sources(own: Path) -> str:
    """Hash of a function's own file and of all kernel sources."""
    files = sorted({own, *Path(__file__).parent.glob("*.py")})
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
