"""Compiling and loading kernels with Numba, which is imported with this module alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numba
from numba.core.caching import UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["compiled", "global_compiler_lock"]


class Locator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Numba's way to ``CACHE_DIR``, without a folder of it for each place that the package is installed in.

    Machine code depends on the sources alone, so what one installation has compiled serves others on this machine.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """None: the directory is that of one source file already."""
        return ""

    def get_source_stamp(self) -> str:
        """The same for all copies of a file, whenever they were written: the directory is named after its text."""
        return ""


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
    before = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = place, f"{__name__}.{Locator.__name__}"
    try:
        found: Callable[..., Any] = numba.njit(*signatures, **{**options, "cache": bool(place)})(function)
    finally:
        numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES = before
    return found
