"""Functions written as a Python rule for one row, called once for every distinct row of arguments.

They are for rare functions that neither Arrow nor NumPy has a kernel for. Common functions have a kernel over whole
columns instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, nulls, pc
from tidemill.task.functions.columns.registry import Fails, Kernel, Value, as_array, function
from tidemill.task.functions.columns.sizes import check_size

_UNKNOWN = object()
Rule = Callable[..., Any]
"""``rule(call, *values)``: the result of one row; None is NULL."""


class RowFailureError(ValueError):
    """A rule fails for its values: ``what`` is wrong, in the user's terms, and the number of the error."""

    def __init__(self, what: str, number: str = "TM3004", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.number = number
        self.hint = hint


def by_value(
    name: str,
    *,
    sql: tuple[str, ...] = (),
    fails: Fails = False,
    strict: bool = True,
) -> Callable[[Rule], Rule]:
    """Register the decorated rule under ``name``.

    Parameters
    ----------
    name, sql, fails
        As for :func:`~tidemill.task.functions.columns.registry.function`.
    strict : bool
        A NULL argument makes the result NULL, and the rule is not called.
    """

    def register(rule: Rule) -> Rule:
        function(name, sql=sql, fails=fails, strict=strict)(kernel_of(rule, strict=strict))
        return rule

    return register


def kernel_of(rule: Rule, *, strict: bool = True) -> Kernel:
    """The kernel that calls ``rule`` for every distinct row of arguments."""

    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        def result(values: tuple[Any, ...]) -> Any:
            if strict and None in values:
                return None
            try:
                return rule(call, *values)
            except RowFailureError as error:
                shown = ", ".join(map(repr, values))
                raise EvaluationError(
                    error.number, error.what, got=f"{_name(call)}({shown})", hint=error.hint
                ) from None

        if not rows:
            return nulls(0, call.type)
        if all(isinstance(arg, pa.Scalar) for arg in args):
            return pa.array([result(tuple(arg.as_py() for arg in args))], call.type)[0]
        columns = [n for n, arg in enumerate(args) if not isinstance(arg, pa.Scalar)]
        if len(columns) == 1 and not pa.types.is_nested(args[columns[0]].type):
            return _one_column(call, args, columns[0], rows, result)
        known: dict[tuple[Any, ...], Any] = {}
        results = []
        made = 0
        plain = not any(pa.types.is_floating(arg.type) or pa.types.is_nested(arg.type) for arg in args)
        for values in zip(*(as_array(arg, rows).to_pylist() for arg in args), strict=True):
            key = values if plain else tuple(map(_key, values))
            found = known.get(key, _UNKNOWN)
            if found is _UNKNOWN:
                found = known[key] = result(values)
            if isinstance(found, str | bytes):
                made += len(found)
                check_size(made)
            results.append(found)
        return pa.array(results, call.type)

    return kernel


def _one_column(
    call: Call, args: list[Value], position: int, rows: int, result: Callable[[tuple[Any, ...]], Any]
) -> Array:
    constants = [arg.as_py() if isinstance(arg, pa.Scalar) else None for arg in args]

    def of_value(value: Any) -> Any:
        constants[position] = value
        return result(tuple(constants))

    return map_values(as_array(args[position], rows), of_value, call.type)


def map_values(array: Array, rule: Callable[[Any], Any], type_: pa.DataType | None = None) -> Array:
    """``rule`` of every distinct value, NULL among them, as ``type_`` (text if None); -0.0 is not 0.0."""
    bits = array.view(pa.int64()) if pa.types.is_float64(array.type) else array
    encoded = bits.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.view(array.type) if bits is not array else encoded.dictionary
    results: list[Any] = []
    made = 0
    for value in values.to_pylist():
        results.append(rule(value))
        if isinstance(results[-1], str | bytes):
            made += len(results[-1])
            check_size(made)
    distinct = pa.array(results, type_ or pa.string())
    if made and len(results) < len(array):
        check_size(pc.sum(pc.binary_length(distinct).take(encoded.indices)).as_py() or 0)
    return distinct.take(encoded.indices)


def _key(value: Any) -> Any:
    """A float or nested value as a key: -0.0 is not 0.0."""
    if isinstance(value, float):
        return value.hex()
    return repr(value) if isinstance(value, list | dict) else value


def _name(call: Call) -> str:
    return call.function
