"""What compiled functions call, found when the first of them is compiled or loaded: Numba takes long to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Deferred:
    """Stands in the globals of compiled functions for an object that Numba knows.

    Parameters
    ----------
    find
        Gives the object.
    """

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks any value for: here the type of the object that this stands for."""
        from numba.core.registry import cpu_target

        found, context = self._find(), cpu_target.typing_context
        context.refresh()  # with what a module has registered that was imported just now
        return context.resolve_value_type(found)


def _carray() -> Any:
    from numba import carray as found

    return found


carray: Any = Deferred(_carray)
"""``numba.carray``: an array over memory at a pointer."""
