"""LIKE, RLIKE and ``split`` with patterns that are columns.

A pattern that is plain text needs no regular expression: such rows are searched by kernels, the others by the rules of
:mod:`tidemill.task.functions.text.java_patterns`, which compile each pattern once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import Rule, kernel_of
from tidemill.task.functions.columns.compute import pc
from tidemill.task.functions.columns.lists import Lists, put_together
from tidemill.task.functions.columns.registry import Kernel, Value, as_array
from tidemill.task.functions.columns.text_buffers import cut, longs, nullable, of_columns, texts
from tidemill.task.functions.kernels import pattern as kernels
from tidemill.task.functions.kernels.search import find_bytes
from tidemill.task.functions.text.java_patterns import is_like, matches, parts

_SPECIAL = r"[.$|()\[{^?*+\\]"


def _where_plain(plain: Kernel, rule: Rule) -> Kernel:
    """``plain`` for the rows whose pattern, argument 1, is plain text that is not empty, ``rule`` for the others."""

    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        pattern = as_array(args[1], rows)
        special = pc.or_(pc.match_substring_regex(pattern, _SPECIAL), pc.equal(pc.binary_length(pattern), 0))
        special = pc.fill_null(special, False)
        count = pc.sum(special).as_py() or 0
        if not count:
            return as_array(plain(call, args, rows), rows)
        if count == rows:
            return as_array(kernel_of(rule)(call, [as_array(args[0], rows), *args[1:]], rows), rows)
        first, rest = ([as_array(arg, rows).filter(mask) for arg in args] for mask in (pc.invert(special), special))
        results = [plain(call, first, rows - count), kernel_of(rule)(call, rest, count)]
        chosen = special.to_numpy(zero_copy_only=False)
        places = np.where(chosen, rows - count + np.cumsum(chosen), np.cumsum(~chosen)) - 1
        return pa.concat_arrays(results).take(column(places))

    return kernel


def _found(call: Call, args: list[Value], rows: int) -> Value:
    text, pattern = texts(args[0], rows), texts(args[1], rows)
    found = np.empty(rows, np.int64)
    find_bytes(*text.parts, *pattern.parts, found)
    return nullable(found >= 0, call.type, text.valid & pattern.valid)


def _split(call: Call, args: list[Value], rows: int) -> Value:
    text, pattern = texts(args[0], rows), texts(args[1], rows)
    most, known = longs(args[2], rows)
    valid = text.valid & pattern.valid & known
    ends, nothing = np.zeros(rows + 1, np.int64), np.zeros(0, np.int32)
    # NULL rows are not searched: with an undefined pattern the search might not end.
    most = np.where(valid, most, 1)
    kernels.split(*text.parts, *pattern.parts, most, ends, nothing, nothing)
    np.cumsum(ends, out=ends)
    pieces = np.ones(int(ends[-1]), np.bool_)
    values = cut(
        pa.string(),
        text,
        pieces,
        lambda first, last: kernels.split(*text.parts, *pattern.parts, most, ends, first, last),
    )
    return put_together(call.type, Lists(valid, ends, values))


of_columns("rlike_java", sql=("RLIKE", "regexp", "regexp_like"), fails=True)(_where_plain(_found, matches))
of_columns("split_java", sql=("split",), fails=True)(_where_plain(_split, parts))


@of_columns("like_java", sql=("LIKE", "ILIKE"), fails=True)
def _like(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text and pattern."""
    escape = str(call.option("escape"))
    if len(escape) != 1 or not escape.isascii():
        return kernel_of(is_like)(call, [as_array(args[0], rows), args[1]], rows)
    text, pattern = texts(args[0], rows), texts(args[1], rows)
    valid, answers = text.valid & pattern.valid, np.empty(rows, np.int8)
    kernels.like(*text.parts, *pattern.parts, ord(escape), answers)
    wrong = pa.array(valid & (answers == 2))
    if pc.any(wrong).as_py():  # the rule raises the error
        return kernel_of(is_like)(call, [as_array(arg, rows).filter(wrong) for arg in args], rows)
    return nullable(answers == 1, call.type, valid)
