"""Sums, differences and products of decimals in 128 bits, where nothing can be rounded or overflow.

In TPC-H Q1 these would be most of an epoch's work in 256 bits. A result is exact when its type has all digits that
Spark's rules ask for; where Spark cuts the type at 38 digits, the largest values of the batch decide. Other calls are
left to :mod:`~tidemill.task.functions.numbers.decimals`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.wide_words import add_words, multiply_words, widest
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, buffer, pc
from tidemill.task.functions.columns.numpy_values import words_of
from tidemill.task.functions.columns.registry import Value

_Words = npt.NDArray[np.int64]

_SAFE_BITS = 126
"""Less than 2**126 has at most 38 digits."""


def combine_words(call: Call, args: list[Value], rows: int) -> Array | None:
    """``add``, ``subtract`` or ``multiply`` of two decimals; None where the result may not be exact."""
    left, right = args
    if not (_plain(left) and _plain(right) and pa.types.is_decimal128(call.type)):
        return None
    first, second, target = left.type, right.type, call.type
    a, b = _words(left), _words(right)
    result = np.empty(2 * rows, np.int64)
    if call.function == "multiply":
        if target.scale != first.scale + second.scale:
            return None
        fits = target.precision > first.precision + second.precision
        if not fits and (target.precision < 38 or widest(a) + widest(b) > _SAFE_BITS):
            return None
        multiply_words(a, _step(left), b, _step(right), result)
    else:
        if target.scale != max(first.scale, second.scale):
            return None
        shift, other = 10 ** (target.scale - first.scale), 10 ** (target.scale - second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        fits = target.precision > whole + target.scale
        most = max(widest(a) + shift.bit_length(), widest(b) + other.bit_length()) + 1
        if not fits and (target.precision < 38 or most > _SAFE_BITS):
            return None
        sign = -1 if call.function == "subtract" else 1
        add_words(a, _step(left), _factor(shift), b, _step(right), _factor(sign * other), result)
    return pa.Array.from_buffers(target, rows, [_validity(left, right, rows), buffer(result)])


def _plain(value: Value) -> bool:
    """Whether there are 128-bit words to compute with."""
    if not pa.types.is_decimal128(value.type):
        return False
    return bool(value.is_valid) if isinstance(value, pa.Scalar) else True


def _words(value: Value) -> _Words:
    array = pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else value
    return words_of(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]


def _step(value: Value) -> int:
    return 0 if isinstance(value, pa.Scalar) else 2


def _factor(number: int) -> _Words:
    return np.frombuffer((number % (1 << 128)).to_bytes(16, "little"), np.int64)


def _validity(left: Value, right: Value, rows: int) -> pa.Buffer | None:
    nullable = [v for v in (left, right) if isinstance(v, pa.Array) and v.null_count]
    if not nullable or not rows:
        return None
    valid = pc.is_valid(nullable[0])
    if len(nullable) > 1:
        valid = pc.and_(valid, pc.is_valid(nullable[1]))
    if valid.offset:
        valid = pa.concat_arrays([valid, pa.array([], pa.bool_())])
    return valid.buffers()[1] if not valid.offset else None
