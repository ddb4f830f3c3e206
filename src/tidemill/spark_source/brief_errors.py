"""Lets Spark show numbered errors of the data source with their number first and without a Python traceback.

Spark puts the traceback of a worker into its own message, and the number at its end. A worker that has raised an error
ends, so hiding its traceback hides no other one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from tidemill.errors import TidemillError

_C = TypeVar("_C", bound=type)

_SHOWN_WITHOUT_TRACE = "SPARK_HIDE_TRACEBACK"
_CALLED_BY_SPARK = (
    *("__init__", "schema", "reader", "streamReader"),
    *("partitions", "pushFilters", "read", "initialOffset", "latestOffset", "commit"),
)


def brief_errors(cls: _C) -> _C:
    """Wrap the methods of a data source class that Spark's workers call."""
    for name in _CALLED_BY_SPARK:
        method = vars(cls).get(name)
        if method is not None:
            setattr(cls, name, _brief_generator(method) if isgeneratorfunction(method) else _brief(method))
    return cls


def _brief(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return method(*given, **named)
        except TidemillError:
            os.environ[_SHOWN_WITHOUT_TRACE] = "1"
            raise

    return call


def _brief_generator(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(method)
    def call(*given: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from method(*given, **named)
        except TidemillError:
            os.environ[_SHOWN_WITHOUT_TRACE] = "1"
            raise

    return call
