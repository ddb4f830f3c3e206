"""Numbers to text in Java's layout, and text to numbers with Spark's rules.

Doubles are written with the shortest digits that read back as the same value. JDKs before 19 write other
digits for a few values, which is the one known difference from Spark on Java 17: of 20,000 random doubles
none differed, but ``1.0E23`` is ``9.999999999999999E22`` there, ``2.0E23`` is ``1.9999999999999998E23``,
2 to the -44th has one more digit, and the smallest double is ``4.9E-324`` instead of ``5.0E-324``.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.task.functions.columns.compute import Array, digits_of, null_unless, nulls, pc
from tidemill.task.functions.columns.failures import any_true
from tidemill.task.functions.numbers.decimals import WIDEST, fit, relabel

BLANKS = "".join(chr(c) for c in range(0x21)) + "\x7f"
"""What Spark trims before it parses a number, a boolean, a date or a timestamp."""

_INTEGER = r"^[+-]?[0-9]+$"
_DECIMAL = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_FLOAT = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?$"


def float_text(array: Array) -> Array:
    """Floats as Java prints them: ``1.0``, ``1.0E10``, ``NaN``, ``-Infinity``."""
    text = array.cast(pa.string())
    size = pc.abs(array)
    plain = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(size, 0))
    dotted = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    result = pc.if_else(plain, dotted, text)
    special = pc.or_(pc.is_nan(array), pc.is_inf(array))
    scientific = pc.fill_null(pc.and_not(pc.invert(plain), special), False)
    if any_true(scientific):
        result = pc.replace_with_mask(result, scientific, _scientific(text.filter(scientific)))
    if any_true(special):
        named = pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
        result = pc.if_else(special, pc.if_else(pc.is_nan(array), "NaN", named), result)
    return result


def _scientific(text: Array) -> Array:
    parts = pc.extract_regex(text, r"^(?P<sign>-?)(?P<whole>[0-9]+)\.?(?P<rest>[0-9]*)(?:e(?P<exponent>[+-][0-9]+))?$")
    sign, whole, rest, exponent = (parts.field(i) for i in range(4))
    shift = pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, "+")).cast(pa.int32())
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    power = pc.add(pc.subtract(pc.subtract(pc.utf8_length(whole), 1), zeros), shift)
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    tail = pc.utf8_rtrim(pc.utf8_slice_codeunits(significant, 1), "0")
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    mantissa = pc.binary_join_element_wise(first, tail, ".")
    return pc.binary_join_element_wise(sign, pc.binary_join_element_wise(mantissa, power.cast(pa.string()), "E"), "")


def decimal_text(array: Array) -> Array:
    """Decimals with all digits of their scale and no exponent."""
    wide = array.cast(pa.decimal256(array.type.precision, array.type.scale))
    unscaled = relabel(wide, WIDEST, 0).cast(pa.string())
    scale = array.type.scale
    if scale == 0:
        return unscaled
    sign = pc.if_else(pc.starts_with(unscaled, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(unscaled, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    return pc.binary_join_element_wise(
        sign, pc.binary_join_element_wise(whole, pc.utf8_slice_codeunits(digits, -scale), "."), ""
    )


def parse_integer(text: Array, target: pa.DataType) -> Array:
    """Integers from text, NULL where the text is not an integer of ``target``."""
    trimmed = pc.utf8_trim(text, BLANKS)
    sign = pc.if_else(pc.starts_with(trimmed, "-"), "-", "")
    digits = pc.utf8_ltrim(pc.replace_substring_regex(trimmed, r"^[+-]", ""), "0")
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    good = pc.and_(pc.match_substring_regex(trimmed, _INTEGER), pc.less_equal(pc.utf8_length(digits), 19))
    number = null_unless(good, pc.binary_join_element_wise(sign, digits, ""))
    wide = number.cast(pa.decimal128(20, 0))
    bound = 2 ** (target.bit_width - 1)
    low, high = (pa.scalar(str(b)).cast(pa.decimal128(20, 0)) for b in (-bound, bound - 1))
    inside = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return null_unless(inside, wide).cast(target)


def parse_float(text: Array, target: pa.DataType) -> Array:
    """Floats from text as ``Double.parseDouble`` reads them, NULL where it would not.

    Hexadecimal floats, which Java reads too, give NULL.
    """
    trimmed = pc.utf8_trim(text, BLANKS[:-1])
    good = pc.match_substring_regex(trimmed, _FLOAT)
    plain = pc.utf8_rtrim(null_unless(good, trimmed), "dDfF")
    result = plain.cast(target)
    word = pc.utf8_lower(pc.utf8_trim(text, " "))
    for names, value in (
        (["inf", "+inf", "infinity", "+infinity"], "inf"),
        (["-inf", "-infinity"], "-inf"),
        (["nan"], "nan"),
    ):
        found = pc.is_in(word, value_set=pa.array(names))
        if any_true(found):
            result = pc.if_else(found, pa.scalar(float(value), target), result)
    signed_nan = pc.is_in(trimmed, value_set=pa.array(["+NaN", "-NaN"]))
    if any_true(signed_nan):
        result = pc.if_else(signed_nan, pa.scalar(float("nan"), target), result)
    return result


def parse_decimal(text: Array, target: pa.DataType) -> tuple[Array, Array]:
    """Decimals from text, rounded HALF_UP, and where the text is a number that does not fit."""
    trimmed = pc.utf8_trim(text, BLANKS)
    good = pc.fill_null(pc.match_substring_regex(trimmed, _DECIMAL), False)
    number = null_unless(good, trimmed)
    wide, too_big = _to_wide(number, target)
    result, bad = fit(wide, target)
    return result, too_big if bad is None else pc.or_(too_big, pc.fill_null(bad, False))


def _to_wide(number: Array, target: pa.DataType) -> tuple[Array, Array]:
    """Decimal text as 256-bit decimals with one digit more than ``target`` keeps, truncated there."""
    parts = pc.extract_regex(
        number, r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)\.?(?P<rest>[0-9]*)(?:[eE](?P<exponent>[+-]?[0-9]+))?$"
    )
    sign, whole, rest, exponent = (parts.field(i) for i in range(4))
    shift_text = pc.utf8_ltrim(pc.if_else(pc.equal(exponent, ""), "0", exponent), "+")
    shift_text = pc.if_else(pc.greater(pc.utf8_length(shift_text), 6), "999999", shift_text)
    shift = shift_text.cast(pa.int64())
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, "0")
    zero = pc.equal(significant, "")
    # The value is 0.significant * 10 ** power.
    leading = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    power = pc.add(pc.subtract(pc.utf8_length(whole), leading).cast(pa.int64()), shift)
    precision, scale = digits_of(target)
    too_big = pc.and_not(pc.greater(power, precision - scale), zero)
    scale += 1
    keep = pc.add(power, scale)
    usable = pc.and_(pc.invert(too_big), pc.greater(keep, 0))
    usable = pc.fill_null(pc.and_not(usable, zero), False)
    # Integer text of exactly `keep` digits: cut or fill with zeros on the right.
    filled = pc.binary_join_element_wise(significant, "0" * (WIDEST + 1), "")
    whole_text = nulls(len(number), pa.string())
    for length in pc.unique(keep.filter(usable)).to_pylist():
        here = pc.and_(usable, pc.equal(keep, length))
        whole_text = pc.if_else(here, pc.utf8_slice_codeunits(filled, 0, length), whole_text)
    whole_text = pc.if_else(usable, whole_text, "0")
    signed = pc.binary_join_element_wise(pc.if_else(pc.equal(sign, "-"), "-", ""), whole_text, "")
    signed = null_unless(number.is_valid(), signed)
    unscaled = signed.cast(pa.decimal256(WIDEST, 0))
    return relabel(unscaled, WIDEST, scale), pc.fill_null(too_big, False)


def parse_boolean(text: Array) -> Array:
    """Booleans from text, NULL where it is none of Spark's words."""
    word = pc.ascii_lower(pc.utf8_trim(text, BLANKS))
    true = pc.is_in(word, value_set=pa.array(["t", "true", "y", "yes", "1"]))
    false = pc.is_in(word, value_set=pa.array(["f", "false", "n", "no", "0"]))
    return null_unless(pc.or_(true, false), true)
