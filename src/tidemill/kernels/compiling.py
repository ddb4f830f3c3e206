"""Compiling and loading kernels with Numba, which is imported with this module alone."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any

import numba
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["compiled", "global_compiler_lock"]


class Locator(caching.UserProvidedCacheLocator):  # type: ignore[misc]
    """Numba's way to ``CACHE_DIR``, without a folder of it for each place that the package is installed in.

    Machine code depends on the sources alone, so what one installation has compiled serves others on this machine.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """None: the directory is that of one source file already."""
        return ""

    def ensure_cache_path(self) -> None:
        """Nothing: the directory is there, and where no file can be made in it kernels run all the same."""

    def get_source_stamp(self) -> str:
        """The same for all copies of a file, whenever they were written: the directory is named after its text."""
        return ""


class _Files(caching.IndexDataCacheFile):  # type: ignore[misc]
    """The files of one kernel, which processes that compile it for different types at once do not overwrite.

    Numba reads the index, adds a type to it and writes it without any lock: of two types one would be lost, or found
    with the machine code of the other.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep machine code; where nothing can be written, the next process compiles it again."""
        with suppress(OSError), _locked(self._cache_path):
            super().save(key, data)


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Alone in a directory among the processes that lock it."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def compiled(
    function: FunctionType, signatures: Sequence[Any], options: dict[str, Any], place: str
) -> Callable[..., Any]:
    """A function as Numba's dispatcher, with machine code of declared signatures.

    Parameters
    ----------
    signatures, options
        Of ``numba.njit``.
    place
        The directory where machine code is kept; ``""`` for none.
    """
    before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES, caching.IndexDataCacheFile
    numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = place, f"{__name__}.{Locator.__name__}"
    caching.IndexDataCacheFile = _Files
    try:
        found: Callable[..., Any] = numba.njit(*signatures, **{**options, "cache": bool(place)})(function)
    finally:
        numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES, caching.IndexDataCacheFile = before
    return found
