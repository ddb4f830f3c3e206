"""A kernel: a compiled function that is loaded, or compiled, when it is first called."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from tidemill.kernels.cache import directory


class Kernel:
    """A compiled function whose machine code is loaded, or compiled, when it is first needed.

    A process of Tidemill imports some 280 of them and calls few: to load all takes more than a second. Kernels call
    each other as any compiled functions do; everything else of it is that of Numba's dispatcher.

    Attributes
    ----------
    dispatcher
        Numba's compiled function.
    """

    def __init__(self, function: FunctionType, signatures: Sequence[Any], options: dict[str, Any]) -> None:
        self._function, self._signatures, self._options = function, signatures, options
        functools.update_wrapper(self, function)
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name == "dispatcher":  # not there yet; later it is found without this method
            from tidemill.kernels.compiling import compiled, global_compiler_lock

            with global_compiler_lock:  # that of Numba: kernels are loaded while others that call them are compiled
                if name not in self.__dict__:
                    code = self._function.__code__
                    kept = self._options.get("cache", True)
                    place = directory(code.co_filename, self._function.__module__) if kept else ""
                    self.dispatcher = compiled(self._function, self._signatures, self._options, place)
            return self.dispatcher
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self._function.__qualname__

    def is_new(self) -> bool:
        """Whether no process has compiled it yet, and other processes can load what one compiles now."""
        place = directory(self._function.__code__.co_filename, self._function.__module__)
        return bool(place) and not any(f".{self._function.__name__}-" in file.name for file in Path(place).iterdir())


def compiler_is_loaded() -> bool:
    """Whether a kernel can be called without importing Numba, which takes a third of a second."""
    return "numba" in sys.modules


KERNELS: list[Kernel] = []
"""All that the process has imported."""


def loaded() -> bool:
    """Whether a kernel has been loaded, so that another one takes little time."""
    return "tidemill.kernels.compiling" in sys.modules


def load_kernels() -> None:
    """Load, or compile, all kernels of declared types that the process has imported."""
    for kernel in KERNELS:
        _ = kernel.dispatcher


def njit(*arguments: Any, **options: Any) -> Callable[..., Any]:
    """``numba.njit`` as a :class:`Kernel`, with the disk cache of :mod:`tidemill.kernels.cache`.

    It takes the same arguments, or the function alone. With ``cache=False`` it is not kept on disk.
    """
    if arguments and isinstance(arguments[0], FunctionType):
        return cast("Callable[..., Any]", njit()(arguments[0]))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return Kernel(cast("FunctionType", function), arguments, options)

    return decorate
