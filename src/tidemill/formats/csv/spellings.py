"""Texts with a meaning: further NULL markers, and names of numbers that are not finite.

Parsers of values know one text for NULL. Where a table has more, or calls NaN by another name, fields that spell one
are found between the two phases and made what parsers know: a missing field, or one whose text lies elsewhere. A table
without such options does not pay.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.csv.general_index import double_quotes
from tidemill.formats.csv.options import CsvOptions
from tidemill.formats.rows.field_index import FieldOffsets, MarkedFields
from tidemill.formats.text.line_ends import NO_BYTE, Bytes
from tidemill.formats.values.field_text import text_bounds
from tidemill.kernels.byte_masks import byte_at, kernel

_LONGEST_DISTINCT = 63
"""Lengths from here on share one bit."""


def plain_texts(
    data: Bytes, fields: FieldOffsets | MarkedFields, options: CsvOptions, types: Sequence[pa.DataType]
) -> tuple[Bytes, FieldOffsets | MarkedFields]:
    """The fields as parsers of values know them: quotes doubled, one text for NULL.

    Parameters
    ----------
    types : sequence of pyarrow.DataType
        Of the columns, by slot.

    Returns
    -------
    tuple
        Bytes, and the fields in them.
    """
    escape = options.general.escape
    escaped = escape != NO_BYTE and fields.has_quotes
    named = bool(options.not_finite) and any(pa.types.is_floating(t) for t in types)
    if not (escaped or named or len(options.null_texts) > 1):
        return data, fields
    general = fields.offsets()
    starts, ends = general.starts.copy(), general.ends.copy()
    texts = data
    if escaped or named:
        meanings = b"".join(meaning for _, meaning in options.not_finite)
        texts = np.concatenate([data, np.frombuffer(meanings, np.uint8)])
    if escaped:
        double_quotes(texts, starts, ends, options.quote, escape, options.trim)
    texts.flags.writeable = False
    for slot, type_ in enumerate(types):
        names = options.not_finite if pa.types.is_floating(type_) else ()
        if names or len(options.null_texts) > 1:
            found = _spellings(options.null_texts, names)
            respell(
                texts,
                starts[slot],
                ends[slot],
                options.quote if fields.has_quotes else NO_BYTE,
                options.trim,
                found.texts,
                found.bounds,
                found.lengths,
                found.places,
                data.size,
            )
    return texts, replace(general, starts=starts, ends=ends)


@dataclass(frozen=True, eq=False)
class Spellings:
    """Texts and what a field that spells one becomes.

    Attributes
    ----------
    texts : ndarray of uint8
        All of them behind each other.
    bounds : ndarray of int64, shape (count + 1,)
        Where each begins.
    lengths : uint64
        A bit for each length that occurs.
    places : ndarray of int64, shape (count, 2)
        Where the meaning of each lies behind the buffer; from 0 to -1 for NULL.
    """

    texts: Bytes
    bounds: npt.NDArray[np.int64]
    lengths: np.uint64
    places: npt.NDArray[np.int64]


@cache
def _spellings(null_texts: tuple[bytes, ...], not_finite: tuple[tuple[bytes, bytes], ...]) -> Spellings:
    texts = [*null_texts, *(name for name, _ in not_finite)]
    places = [(0, -1)] * len(null_texts)
    at = 0
    for _, meaning in not_finite:
        places.append((at, at + len(meaning)))
        at += len(meaning)
    return Spellings(
        np.frombuffer(b"".join(texts), np.uint8),
        np.cumsum([0, *map(len, texts)]),
        np.uint64(sum({1 << min(len(text), _LONGEST_DISTINCT) for text in texts})),
        np.array(places, np.int64),
    )


@kernel
def respell(buf, starts, ends, quote, trim, texts, bounds, lengths, places, meanings_at):
    """Move the fields that spell one of some texts to what it means.

    Parameters
    ----------
    buf : ndarray of uint8
    starts, ends : ndarray of int32, shape (rows,)
        Changed.
    quote, trim : int
        See :class:`tidemill.formats.values.field_text.TextRules`.
    texts, bounds, lengths, places
        See :class:`Spellings`.
    meanings_at : int
        Where the meanings begin in ``buf``.
    """
    one = np.uint64(1)
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        length = end - start
        if quoted == 2 or length < 0 or lengths >> np.uint64(min(length, _LONGEST_DISTINCT)) & one == 0:
            continue
        for k in range(places.shape[0]):
            if bounds[k + 1] - bounds[k] != length:
                continue
            same = True
            for j in range(length):
                if byte_at(buf, start + j) != byte_at(texts, bounds[k] + j):
                    same = False
                    break
            if same:
                missing = places[k, 1] < 0
                starts[row] = 0 if missing else meanings_at + places[k, 0]
                ends[row] = -1 if missing else meanings_at + places[k, 1]
                break
