"""The table of functions: name, kernel, and what the evaluator must know about it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.task.expressions import Call, Ref
from tidemill.task.functions.columns.compute import Array, nulls, repeat
from tidemill.task.functions.columns.sizes import check_size

Value: TypeAlias = Any
"""A ``pa.Array`` of one value per row, or a ``pa.Scalar`` that is the value of every row."""

Kernel: TypeAlias = Callable[[Call, list[Value], int], Value]
Size: TypeAlias = Callable[[Call, list[Value], int], float]
Fails: TypeAlias = bool | Callable[[Call], bool]
Order: TypeAlias = Literal["left", "right"]


@dataclass(frozen=True)
class Function:
    """One registered function.

    Attributes
    ----------
    name : str
        The name in ``Call.function``.
    kernel : callable
        ``kernel(call, args, rows)``. Gets evaluated arguments and returns an array of ``rows`` values or a
        scalar, of type ``call.type``.
    sql : tuple of str
        The SQL spellings that arrive here, for ``docs/functions.md``.
    fails : bool or callable
        Whether the function itself (not its arguments) can raise an error for some row.
    strict : bool
        NULL in any argument gives NULL, and the next argument is then not evaluated.
    order : {"left", "right"}
        Which argument Spark evaluates first.
    bodies : bool
        The last arguments are functions of elements; the kernel gets a
        :class:`~tidemill.task.functions.nested.bodies.Body` for each of them.
    size : callable, optional
        ``size(call, args, rows)`` estimates the bytes of a result that may be many times as large as the arguments, see
        :mod:`tidemill.task.functions.columns.growth`.
    """

    name: str
    kernel: Kernel
    sql: tuple[str, ...]
    fails: Fails
    strict: bool
    order: Order
    bodies: bool = False
    size: Size | None = None


_FUNCTIONS: dict[str, Function] = {}

_ROOM = "tidemill.task.functions"
_FAMILIES = {
    "": ("comparison", "cast", "subqueries", "python_functions"),
    "numbers": (
        *("arithmetic", "rounding", "decimals", "mathematics", "bitwise", "few_numbers", "format_columns"),
        *("histograms", "number_formats", "printing"),
    ),
    "text": (
        *("strings", "patterns", "java_patterns", "pattern_columns", "text_columns", "text_edits", "text_numbers"),
        *("text_positions", "text_rules", "urls"),
    ),
    "times": ("dates", "timestamps", "intervals", "date_patterns", "time_sequences", "time_zones"),
    "nested": (*("arrays", "array_elements", "array_bodies", "maps", "map_bodies", "structs", "comparator_sort"),),
    "encodings": ("encodings", "hashing"),
    "documents": ("json_write", "csv_write", "json_paths", "json_read", "csv_read", "variant"),
}
"""Modules that register functions, by folder, the usual ones first. They are imported in this order when a function is
looked for that is not there yet: a query of a view needs few, and the last ones import Numba."""


class _Families:
    """Which modules have been imported."""

    def __init__(self) -> None:
        self._left = [".".join(filter(None, (_ROOM, folder, m))) for folder, all_ in _FAMILIES.items() for m in all_]
        self._importing = threading.RLock()
        self.complete = False

    def load_until(self, name: str | None) -> None:
        """Import until a function is there; None for all. It waits for an import of another thread."""
        with self._importing:
            while self._left and name not in _FUNCTIONS:
                import_module(self._left.pop(0))
            self.complete = not self._left


_families = _Families()


def function(
    name: str,
    *,
    sql: tuple[str, ...] = (),
    fails: Fails = False,
    strict: bool = True,
    order: Order = "left",
    bodies: bool = False,
    size: Size | None = None,
) -> Callable[[Kernel], Kernel]:
    """Register the decorated kernel under ``name``; see :class:`Function` for the parameters."""

    def register(kernel: Kernel) -> Kernel:
        if name in _FUNCTIONS:
            raise ValueError(f"function {name!r} is registered twice")
        _FUNCTIONS[name] = Function(name, kernel, sql or (name,), fails, strict, order, bodies, size)
        return kernel

    return register


def lookup(name: str) -> Function:
    """The registered function called ``name``.

    Raises
    ------
    TidemillError
        TM2101 when there is none.
    """
    if not _families.complete:
        _families.load_until(name)
    found = _FUNCTIONS.get(name)
    if found is None:
        raise TidemillError("TM2101", "function is not supported yet", got=name)
    return found


def every_function() -> Mapping[str, Function]:
    """All functions by name."""
    if not _families.complete:
        _families.load_until(None)
    return _FUNCTIONS


def as_array(value: Value, rows: int) -> Array:
    """``value`` as an array of ``rows`` values."""
    if isinstance(value, pa.Scalar):
        if not pa.types.is_primitive(value.type):
            check_size(float(repeat(value, 1).nbytes) * rows)
        return repeat(value, rows) if rows else nulls(0, value.type)  # pa.repeat(value, 0) fails
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    array: Array = value
    return array


def apply(name: str, array: Array, type_: pa.DataType, **options: object) -> Array:
    """Call a registered function on a column, for functions that are built on others."""
    call = Call(name, (Ref(0, array.type),), type_, True, tuple(options.items()))
    return as_array(lookup(name).kernel(call, [array], len(array)), len(array))


def try_cast(array: Array, type_: pa.DataType, zone: str | None = None) -> Array:
    """``try_cast`` of a column, by the clock of a zone; None for UTC."""
    return apply("cast", array, type_, mode="try", **({} if zone is None else {"zone": zone}))


def fails_unless_try(call: Call) -> bool:
    """``fails`` of functions whose ``mode`` is ``ansi`` or ``try``."""
    return bool(call.option("mode", "ansi") == "ansi")
