"""Numbers and truths about texts, over the buffers of columns: distances, places, check digits, checksums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.registry import Value
from tidemill.task.functions.columns.text_buffers import check_rows, longs, nullable, of_columns, texts
from tidemill.task.functions.kernels import compare as compare_kernels
from tidemill.task.functions.kernels import encoding as encoding_kernels

_NO_LIMIT = 2**62


@of_columns("levenshtein")
def _levenshtein(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are two texts and, if any, the threshold above which the answer is -1."""
    left, right = (texts(arg, rows) for arg in args[:2])
    most, known = longs(args[2] if len(args) > 2 else pa.scalar(_NO_LIMIT), rows)
    edits = np.empty(rows, np.int32)
    compare_kernels.levenshtein(*left.parts, *right.parts, most, edits)
    return nullable(edits, call.type, left.valid & right.valid & known)


def _of_two(name: str, number: npt.DTypeLike, kernel: Callable[..., None]) -> None:
    @of_columns(name)
    def _kernel(call: Call, args: list[Value], rows: int) -> Value:
        left, right = (texts(arg, rows) for arg in args)
        result: npt.NDArray[Any] = np.empty(rows, number)
        kernel(*left.parts, *right.parts, result)
        return nullable(result, call.type, left.valid & right.valid)


def _of_one(name: str, number: npt.DTypeLike, kernel: Callable[..., None]) -> None:
    @of_columns(name)
    def _kernel(call: Call, args: list[Value], rows: int) -> Value:
        text = texts(args[0], rows)
        result: npt.NDArray[Any] = np.empty(rows, number)
        kernel(*text.parts, result)
        return nullable(result, call.type, text.valid)


_of_two("jaro_winkler_similarity", np.float64, compare_kernels.jaro_winkler)
_of_two("find_in_set", np.int32, compare_kernels.find_in_set)
_of_one("luhn_check", np.bool_, compare_kernels.luhn)
_of_one("crc32", np.int64, encoding_kernels.crc32)


@of_columns("instr_occurrence", sql=("instr(text, part, start, occurrence)",), fails=True)
def _instr(call: Call, args: list[Value], rows: int) -> Value:
    """The place of the n-th occurrence from a position on; a negative position searches backwards."""
    text, part = (texts(arg, rows) for arg in args[:2])
    (start, begun), (occurrence, known) = (longs(arg, rows) for arg in args[2:])
    valid = text.valid & part.valid & begun & known
    check_rows(call, args, valid & (occurrence < 1), "the occurrence must be positive")
    place = np.empty(rows, np.int32)
    compare_kernels.find_occurrence(*text.parts, *part.parts, start, occurrence, place)
    return nullable(place, call.type, valid)
