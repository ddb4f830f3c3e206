"""Eisel-Lemire: from a decimal mantissa and power of ten to the nearest double, by one or two wide products.

After Lemire, "Number Parsing at a Gigabyte per Second" (2021), in the form of Go's strconv. The few inputs
that it cannot decide (near a tie, subnormal, too great) are left to an exact parser.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np
import numpy.typing as npt

from tidemill.kernels.byte_masks import float_from_bits, kernel, leading_zeros, multiply_high

LEAST_POWER = -348
GREATEST_POWER = 347


def _powers_of_ten() -> npt.NDArray[np.uint64]:
    """High and low word of the first 128 bits of each ``10**power``, cut off, the top bit set."""
    table = []
    for power in range(LEAST_POWER, GREATEST_POWER + 1):
        if power >= 0:
            exact = 10**power
            shift = exact.bit_length() - 128
            mantissa = exact >> shift if shift >= 0 else exact << -shift
        else:
            divisor = 10**-power
            # One bit too many at first, so that the quotient has 128 bits whatever the divisor.
            mantissa = (1 << (divisor.bit_length() + 128)) // divisor
            mantissa >>= mantissa.bit_length() - 128
        table.append((mantissa >> 64, mantissa & 0xFFFFFFFFFFFFFFFF))
    return np.array(table, np.uint64)


_POWERS = _powers_of_ten()
_DISCARDED = np.uint64(0x1FF)
_ONE = np.uint64(1)
_MANTISSA_BITS = np.uint64(52)
_FRACTION = np.uint64((1 << 52) - 1)


@kernel
def nearest_double_of(mantissa, power):
    """The double nearest to ``mantissa * 10**power``.

    Parameters
    ----------
    mantissa : uint64
        Not zero.
    power : int

    Returns
    -------
    tuple of (float, bool)
        The double, and whether it is known to be the nearest.
    """
    if power < LEAST_POWER or power > GREATEST_POWER:
        return 0.0, False
    shift = leading_zeros(mantissa)
    mantissa <<= np.uint64(shift)
    exponent = ((217706 * power) >> 16) + 64 + 1023 - shift
    factor = _POWERS[power - LEAST_POWER, 0]
    high = multiply_high(mantissa, factor)
    low = mantissa * factor
    if high & _DISCARDED == _DISCARDED and low + mantissa < mantissa:
        # The bits cut off the power could carry into the result: take its low word in too.
        factor = _POWERS[power - LEAST_POWER, 1]
        below_high = multiply_high(mantissa, factor)
        below_low = mantissa * factor
        merged = low + below_high
        if merged < low:
            high += _ONE
        low = merged
        if high & _DISCARDED == _DISCARDED and low + _ONE == 0 and below_low + mantissa < mantissa:
            return 0.0, False
    top = high >> np.uint64(63)
    result = high >> (top + np.uint64(9))
    exponent -= 1 - np.int64(top)
    if low == 0 and high & _DISCARDED == 0 and result & np.uint64(3) == 1:
        return 0.0, False
    result = (result + (result & _ONE)) >> _ONE
    if result >> np.uint64(53) != 0:
        result >>= _ONE
        exponent += 1
    if exponent < 1 or exponent > 2046:
        return 0.0, False
    return float_from_bits((np.uint64(exponent) << _MANTISSA_BITS) | (result & _FRACTION)), True
