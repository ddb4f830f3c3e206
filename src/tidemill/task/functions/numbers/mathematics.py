"""Functions of doubles; none of them fails, they give NULL, NaN or infinity as Spark does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import null_where, pc
from tidemill.task.functions.columns.numpy_values import from_numpy, to_numpy
from tidemill.task.functions.columns.registry import Kernel, Value, as_array, function


def _unary(compute: Callable[[Any], Any]) -> Kernel:
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows)
        with np.errstate(all="ignore"):
            return from_numpy(compute(to_numpy(array, rows)), call.type, array)

    return kernel


def _binary(compute: Callable[[Any, Any], Any]) -> Kernel:
    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        left, right = as_array(args[0], rows), as_array(args[1], rows)
        with np.errstate(all="ignore"):
            return from_numpy(compute(to_numpy(left, rows), to_numpy(right, rows)), call.type, left, right)

    return kernel


def _logarithm(compute: Callable[[Any], Any], lowest: float = 0.0) -> Kernel:
    """Spark's logarithms are NULL at and below their asymptote."""
    plain = _unary(compute)

    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows)
        outside = pc.less_equal(array, pa.scalar(lowest))
        return null_where(outside, as_array(plain(call, [array], rows), rows))

    return kernel


def _power(base: Any, exponent: Any) -> Any:
    # Java's pow differs from C's in two points: 1 ** NaN and (-1) ** infinity are NaN.
    result = np.power(base, exponent)
    undefined = np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent))
    return np.where(undefined, np.nan, result)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "signum": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "degrees": np.degrees,
    "radians": np.radians,
    "rint": np.rint,
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cot": lambda x: 1.0 / np.tan(x),
    "sec": lambda x: 1.0 / np.cos(x),
    "csc": lambda x: 1.0 / np.sin(x),
}

for _name, _compute in _UNARY.items():
    function(_name)(_unary(_compute))

function("ln", sql=("ln", "log"))(_logarithm(np.log))
function("log10")(_logarithm(np.log10))
function("log2")(_logarithm(np.log2))
function("log1p")(_logarithm(np.log1p, -1.0))
function("power", sql=("power", "pow"))(_binary(_power))
function("hypot")(_binary(np.hypot))
function("atan2")(_binary(lambda y, x: np.arctan2(y + 0.0, x + 0.0)))


@function("logarithm", sql=("log(base, x)",))
def _log_base(call: Call, args: list[Value], rows: int) -> Value:
    base, value = as_array(args[0], rows), as_array(args[1], rows)
    zero = pa.scalar(0.0)
    outside = pc.or_(pc.less_equal(base, zero), pc.less_equal(value, zero))
    with np.errstate(all="ignore"):
        quotient = np.log(to_numpy(value, rows)) / np.log(to_numpy(base, rows))
    return null_where(outside, from_numpy(quotient, call.type, base, value))
