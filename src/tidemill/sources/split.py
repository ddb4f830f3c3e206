"""Splits: the unit of admission, and what reading one reports back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tidemill.connectors.connector import GROWING

__all__ = ["GROWING", "Split", "SplitResult"]


_DIGEST_BYTES = 16


def file_digest(path: str) -> bytes:
    """A 16-byte digest of a file's path, as in the keys of rows that are kept by file."""
    return hashlib.blake2b(path.encode(), digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True)
class Split:
    """Bytes ``start <= position < end`` of one file of a table: all rows that begin there.

    Of a compressed file these are decoded bytes, and the file may end before ``end``.

    Parameters
    ----------
    table : str
        Name of the table.
    path : str
        The file.
    size, modified : int
        Its size in bytes and modification time in nanoseconds when it was listed; a file that has changed since
        is an error. A file that is ``GROWING`` may be longer; it is read up to ``size``.
    in_quotes : bool or None
        Whether ``start`` lies inside a quoted field; None when that is not known yet, and is then guessed.
    backfill_target : int or None
        None for new data, which every view sees; for history, the epoch at which the views were created that need it.
    base : int
        Plus the position of a row in the file, this is the position of the row among all rows of the table in an
        epoch. For tables with a message order; 0 for the others.
    watermark : int or None
        Rows with an event time before it (microseconds) are late and not admitted.
    etag : str
        The ETag of an object when it was listed; only that version is read.
    replaces : bool
        Whether this is the first split of a new version of the file: all rows that were read of it in earlier epochs
        are withdrawn. Without bytes (``start == end``) it only does that, and the file need not be there any more. Only
        for tables with ``allowOverwrites``; all splits of the new version are of the same epoch.
    encoded : int or None
        Of a compressed file, about how many of its bytes lie before ``start``; None for a file that is not compressed.
    """

    table: str
    path: str
    start: int
    end: int
    size: int
    modified: int
    in_quotes: bool | None = None
    backfill_target: int | None = None
    base: int = 0
    watermark: int | None = None
    etag: str = ""
    replaces: bool = False
    encoded: int | None = None

    @property
    def length(self) -> int:
        """About how many bytes of the file the split has."""
        decoded = self.end - self.start
        return decoded if self.encoded is None else min(self.size - self.encoded, decoded)


@dataclass(frozen=True)
class SplitResult:
    """What a reader found in a split.

    ``quote_parity`` tells whether exactly one of the two ends of the split lies inside quotes, given what was assumed;
    from it the barrier verifies ``assumed_in_quotes`` of the splits that follow in the file. ``late`` rows were
    left out; ``latest`` is the greatest event time (microseconds) of those admitted, if the table has a watermark.

    ``malformed`` and ``dropped`` count errors: a row with two bad fields counts twice. ``rows_read`` counts all rows,
    admitted or not, ``rows_malformed`` those with any error except late rows. ``example`` describes the first error and
    its place. ``new_within`` counts rows with fields of structs that the table does not have, where its evolution mode
    detects new columns. ``encoded`` says, for a
    compressed file, about how many of its bytes lie before ``split.end``; all of them where it has no rows behind that.
    """

    split: Split
    assumed_in_quotes: bool
    quote_parity: int
    rows: int
    bytes: int
    malformed: int
    dropped: int
    late: int = 0
    latest: int | None = None
    rows_read: int = 0
    rows_malformed: int = 0
    example: str = ""
    new_within: int = 0
    encoded: int | None = None
