"""User-defined functions in Python: of one row, of pandas Series, of Arrow arrays.

A plan holds the function as cloudpickle wrote it, so a root can be opened again without the script that defined it. A
worker unpickles it once.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.schema import TIMESTAMP, type_to_ddl
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, nulls, pc
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.interruption import interruptible

ROW_KINDS = frozenset({100, 101})
PANDAS, PANDAS_ITERATOR, ARROW, ARROW_ITERATOR = 200, 204, 250, 251
KINDS = ROW_KINDS | {PANDAS, PANDAS_ITERATOR, ARROW, ARROW_ITERATOR}
"""PySpark's ``PythonEvalType`` of the functions that can be called."""


def python_version() -> str:
    """The version of Python that compiled code belongs to, such as ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@lru_cache(256)
def _loaded(command: bytes, name: str, version: str) -> Callable[..., Any]:
    if version != python_version():
        raise _not_loaded(name, f"it was written with Python {version}, this is {python_version()}")
    try:
        found: Callable[..., Any] = pickle.loads(command)[0]
    except Exception as error:
        raise _not_loaded(name, f"{type(error).__name__}: {error}") from None
    return found


def _not_loaded(name: str, why: str) -> EvaluationError:
    return EvaluationError(
        "TM2108",
        "a function written by the user cannot be loaded",
        got=f"{name}: {why}",
        hint="install the modules that it uses for every worker, or replace the view with a function of this Python",
    )


@function(
    "python_function",
    sql=("Mill.register_function", "F.udf", "F.pandas_udf", "F.arrow_udf"),
    fails=True,
    strict=False,
)
def _python_function(call: Call, args: list[Value], rows: int) -> Value:
    name, kind = str(call.option("name")), int(call.option("kind"))
    if not rows:
        return nulls(0, call.type)
    called = _loaded(call.option("command"), name, str(call.option("python")))
    arrays = [as_array(arg, rows) for arg in args]
    with interruptible():
        if kind in ROW_KINDS:
            return _by_row(call, called, arrays, rows)
        if kind in (PANDAS, PANDAS_ITERATOR):
            return _by_series(call, called, arrays, rows)
        return _by_array(call, called, arrays, rows)


def _by_row(call: Call, called: Callable[..., Any], arrays: list[Array], rows: int) -> Array:
    columns = [[_plain(value, array.type) for value in array.to_pylist()] for array in arrays]
    results = []
    for n in range(rows):
        values = tuple(column[n] for column in columns)
        try:
            results.append(called(*values))
        except Exception as error:
            raise _failed(call, ", ".join(map(repr, values)), error) from None
    try:
        return pa.array([_result(value, call.type) for value in results], call.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _mismatched(call, f"{_first_wrong(results, call.type)}: {error}") from None


def _plain(value: Any, type_: pa.DataType) -> Any:
    """A value as Spark gives it to a function: timestamps without a zone, maps as dict, structs as Row."""
    if value is None:
        return None
    if pa.types.is_timestamp(type_):
        return value.replace(tzinfo=None)
    if pa.types.is_list(type_):
        return [_plain(item, type_.value_type) for item in value]
    if pa.types.is_map(type_):
        return {_plain(k, type_.key_type): _plain(v, type_.item_type) for k, v in value}
    if pa.types.is_struct(type_):
        from pyspark.sql import Row

        return Row(**{field.name: _plain(value[field.name], field.type) for field in type_})
    return value


def _result(value: Any, type_: pa.DataType) -> Any:
    """A result as Arrow takes it: for STRING Spark converts any value to text, and it takes a tuple for a struct."""
    if value is None:
        return None
    if pa.types.is_string(type_) and not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if pa.types.is_list(type_):
        return [_result(item, type_.value_type) for item in value]
    if pa.types.is_map(type_):
        return [(_result(k, type_.key_type), _result(v, type_.item_type)) for k, v in dict(value).items()]
    if pa.types.is_struct(type_):
        items = value if isinstance(value, dict) else dict(zip((f.name for f in type_), value, strict=True))
        return {field.name: _result(items.get(field.name), field.type) for field in type_}
    return value


def _first_wrong(results: list[Any], type_: pa.DataType) -> str:
    for value in results:
        try:
            pa.array([_result(value, type_)], type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return repr(value)
    return "a result"


def _by_series(call: Call, called: Callable[..., Any], arrays: list[Array], rows: int) -> Array:
    import pandas as pd

    zone = call.option("zone") or "UTC"

    def series(array: Array) -> Any:
        if array.type == TIMESTAMP:
            array = pc.local_timestamp(array.cast(pa.timestamp("us", zone)))
        return array.to_pandas(date_as_object=True)

    def convert(result: Any) -> Array:
        if not isinstance(result, pd.Series):
            raise _mismatched(call, f"{type(result).__name__}, not a pandas Series")
        if pa.types.is_timestamp(call.type) and call.type.tz and result.dtype.kind == "M" and result.dt.tz is None:
            result = _localized(result, zone)
        return as_array(pa.Array.from_pandas(result, type=call.type), rows)  # long texts come in chunks

    return _by_column(call, called, [series(array) for array in arrays], convert, rows)


def _localized(series: Any, zone: str) -> Any:
    """Local times as instants, the later one where there are two; as in Spark, a skipped time is an error."""
    try:
        return series.dt.tz_localize(zone, ambiguous=False)
    except Exception as error:  # pytz has classes of its own
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _by_array(call: Call, called: Callable[..., Any], arrays: list[Array], rows: int) -> Array:
    def convert(result: Any) -> Array:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.Array):
            raise _mismatched(call, f"{type(result).__name__}, not an Arrow array")
        return result.cast(call.type)

    zone = call.option("zone")
    inputs = arrays if zone is None else [array.cast(_type_in_zone(array.type, zone)) for array in arrays]
    return _by_column(call, called, inputs, convert, rows)


def _type_in_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """The type with its instants in a time zone."""
    if type_ == TIMESTAMP:
        return pa.timestamp("us", zone)
    if pa.types.is_list(type_):
        return pa.list_(_type_in_zone(type_.value_type, zone))
    if pa.types.is_map(type_):
        return pa.map_(_type_in_zone(type_.key_type, zone), _type_in_zone(type_.item_type, zone))
    return type_


def _by_column(
    call: Call, called: Callable[..., Any], inputs: list[Any], convert: Callable[[Any], Array], rows: int
) -> Array:
    """Call a function of columns; one of an iterator of columns gets one batch."""
    iterated = call.option("kind") in (PANDAS_ITERATOR, ARROW_ITERATOR)
    try:
        if iterated:
            parts = called(_once(inputs[0] if len(inputs) == 1 else tuple(inputs)))
            results = list(parts)
        else:
            results = [called(*inputs)]
    except Exception as error:
        shown = "; ".join(f"{len(column)} values from {column[0]!r} on" for column in inputs)
        raise _failed(call, shown, error) from None
    try:
        arrays = [convert(result) for result in results]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, EvaluationError):
            raise
        raise _mismatched(call, str(error)) from None
    found = pa.concat_arrays(arrays) if arrays else nulls(0, call.type)
    if len(found) != rows:
        raise _mismatched(call, f"{len(found)} values for {rows} rows")
    return found


def _once(batch: Any) -> Iterator[Any]:
    yield batch


def _failed(call: Call, values: str, error: Exception) -> EvaluationError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return EvaluationError(
        "TM3012",
        "a function written by the user failed",
        got=f"{call.option('name')}({values}): {type(error).__name__}: {error} (line {last.lineno} in {last.name})",
        hint="the function is called with None for NULL",
    )


def _mismatched(call: Call, what: str) -> EvaluationError:
    return EvaluationError(
        "TM3013",
        "a function written by the user returned something else than it declares",
        got=f"{call.option('name')}: {what}",
        hint=f"it declares {type_to_ddl(call.type)}",
    )
