"""Footers of Parquet files: where column chunks are and how large they are, also if a footer is damaged."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet as pq


class Footer:
    """Column chunks of a file.

    ``RowGroupMetaData.column`` of pyarrow ends the process where a footer contradicts itself, or a column is encrypted:
    it lets an exception of C++ escape. The reader of batches, with ``pre_buffer``, looks at all chosen column chunks
    before it reads their first byte, and raises an exception of Python. So it is asked first, with a source that has
    no bytes: if it comes to read these, the column chunks are sound.

    Parameters
    ----------
    size : int
        Bytes of the file.
    """

    def __init__(self, parquet: pq.ParquetFile, size: int) -> None:
        self._metadata = parquet.metadata
        self._paths = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
        self._source = _Empty(size)
        source = cast("IO[bytes]", self._source)
        self._probe = pq.ParquetFile(source, metadata=parquet.metadata, pre_buffer=True)

    def first_bytes(self) -> list[int]:
        """Where each row group begins; 0 for all if the file has no columns.

        Raises
        ------
        OSError
            If the footer is damaged.
        """
        groups = range(self._metadata.num_row_groups)
        if not self._paths:
            return [0] * len(groups)
        self._check(groups, self._paths[:1])
        return [_first_byte(self._metadata.row_group(number).column(0)) for number in groups]

    def chunks(
        self, groups: Sequence[int], columns: Sequence[str]
    ) -> Iterator[list[tuple[str, pq.ColumnChunkMetaData]]]:
        """The column chunks of some top-level columns with their paths, a list for each row group.

        Raises
        ------
        OSError
            If the footer is damaged.
        """
        self._check(groups, columns)
        chosen = frozenset(columns)
        leaves = [(i, path) for i, path in enumerate(self._paths) if not chosen.isdisjoint(_beginnings(path))]
        for number in groups:
            group = self._metadata.row_group(number)
            yield [(path, group.column(i)) for i, path in leaves]

    def _check(self, groups: Sequence[int], columns: Sequence[str]) -> None:
        """Raise OSError unless the column chunks of these row groups and columns, or paths, are sound."""
        if not groups or not columns:
            return
        self._source.was_read = False
        batches = self._probe.iter_batches(1, row_groups=list(groups), columns=list(columns), use_threads=False)
        try:
            next(batches, None)
        except (OSError, pa.ArrowException):
            if not self._source.was_read:
                raise


def _first_byte(column: pq.ColumnChunkMetaData) -> int:
    begin = column.data_page_offset
    return begin if column.dictionary_page_offset is None else min(begin, column.dictionary_page_offset)


def _beginnings(path: str) -> list[str]:
    """``a``, ``a.b`` and ``a.b.c`` for the last; names of columns may have dots, and pyarrow chooses columns so."""
    parts = path.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


class _Empty(io.RawIOBase):
    """A source that has a size and no bytes; an exception of its own would never be freed by pyarrow.

    Attributes
    ----------
    was_read : bool
        Whether bytes were asked for.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0
        self.was_read = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        self.was_read = True
        return b""
