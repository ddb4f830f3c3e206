"""The state tables of a source, in which List and Fetch remember its files.

A file that is listed gets a row in the *fetch table* of its source, which says how far it has been read. When it has
been read to its end, the row goes away and the name gets a row in the *list table*, which is the set of all names that
were read to their end. The *cursor table* says how far a location has been listed. Of a table with ``cleanSource``,
files to be cleaned are in a *queue*, and names of files that may be cleaned at any time are in the *cleaned table*
instead of the list table. An epoch seals its changes of these tables together with its rows, so that names, positions
and rows are always of one version.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.sources.file_info import FileInfo
from tidemill.sources.objects.listing import Cursor
from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.task.program import StateTable

FIRST_RETRY, LONGEST_RETRY = 1000, 60_000
"""Pauses before a file that could not be read is tried again, in milliseconds: they double."""


@dataclass(frozen=True)
class FileProgress:
    """One file: listed with this size (bytes), modification time (ns) and ETag, read up to ``position``.

    Attributes
    ----------
    in_quotes : bool
        Whether the position lies inside a quoted field.
    marks : tuple
        Of a table with a watermark, (position, watermark): which watermark rows were admitted under, from there on.
    rows : int
        Rows admitted.
    replaces : bool
        Whether its rows replace those of an older file of this name, which have not been withdrawn yet.
    attempts : int
        How often in a row it could not be read.
    retry_at : int or None
        When to try again, in milliseconds since 1970; None for a file that has been set aside.
    error : str
        Why it could not be read.
    decoded : int
        Of a compressed file that has been read in part, how many decoded bytes. That is where it goes on, while
        ``position`` is about how many of its own bytes these were.
    until : int or None
        Of a compressed file, the decoded byte up to which it is to be read; None for all of it.
    """

    path: str
    size: int
    modified: int
    position: int = 0
    in_quotes: bool = False
    marks: tuple[tuple[int, int], ...] = ()
    etag: str = ""
    rows: int = 0
    replaces: bool = False
    attempts: int = 0
    retry_at: int | None = 0
    error: str = ""
    decoded: int = 0
    until: int | None = None

    @property
    def remaining(self) -> int:
        """Bytes not admitted yet."""
        return self.size - self.position

    @property
    def waits(self) -> bool:
        """Whether there is anything of it to admit."""
        return self.position < self.size or self.replaces

    @property
    def failed(self) -> bool:
        """Whether it has been set aside."""
        return self.retry_at is None

    def tried(self, error: TidemillError, most: int | None) -> FileProgress:
        """After a failure to read it, of which there may be ``most`` in a row before it is set aside."""
        attempts = self.attempts + 1
        pause = min(FIRST_RETRY << min(attempts - 1, 16), LONGEST_RETRY)
        retry_at = time.time_ns() // 1_000_000 + pause
        said = error.message().splitlines()[0]
        return replace(
            self, attempts=attempts, retry_at=None if most is not None and attempts >= most else retry_at, error=said
        )

    def to_json(self) -> list[Any]:
        """As stored in a manifest."""
        return [getattr(self, f.name) for f in fields(self)]

    @staticmethod
    def from_json(data: Iterable[Any]) -> FileProgress:
        """What :meth:`to_json` gave."""
        found = FileProgress(*data)
        return replace(found, marks=tuple((int(p), int(w)) for p, w in found.marks))


@dataclass(frozen=True)
class ListedFile:
    """A file that has been read to its end: as it was listed, the epoch that read it, and its rows."""

    path: str
    size: int
    modified: int
    etag: str
    epoch: int
    rows: int
    marks: tuple[tuple[int, int], ...] = ()

    def history(self) -> FileProgress:
        """The same file, to be read again."""
        return FileProgress(self.path, self.size, self.modified, marks=self.marks, etag=self.etag)


@dataclass(frozen=True, order=True)
class ToClean:
    """A file to be cleaned, as it was read to its end in an epoch and at a time (milliseconds since 1970)."""

    epoch: int
    path: str
    size: int = 0
    modified: int = 0
    etag: str = ""
    read_at: int = 0

    def is_version(self, file: ListedFile) -> bool:
        """Whether a file was read as this version."""
        return (self.size, self.modified, self.etag) == (file.size, file.modified, file.etag)


def same_file(known: ListedFile | FileProgress, info: FileInfo) -> bool:
    """Whether a listed file is unchanged: its size, and its ETag where there is one, else its time."""
    if known.size != info.size:
        return False
    return known.etag == info.etag if known.etag and info.etag else known.modified == info.modified


def read_part(file: FileProgress, first: int) -> FileProgress:
    """The part of a file from ``first`` to its position, to be read again."""
    part = replace(file, size=file.position, position=first, in_quotes=False, attempts=0, retry_at=0, error="", rows=0)
    return replace(part, decoded=0, until=file.decoded) if file.decoded else part


_MARKS: pa.DataType = pa.list_(pa.struct([("position", pa.int64()), ("watermark", pa.int64())]))
_NUMBER: pa.DataType = pa.int64()
_TEXT: pa.DataType = pa.string()
_LISTED = {"size": _NUMBER, "modified": _NUMBER, "etag": _TEXT, "epoch": _NUMBER, "rows": _NUMBER, "marks": _MARKS}
_FETCHED = {"size": _NUMBER, "modified": _NUMBER, "etag": _TEXT, "position": _NUMBER, "in_quotes": _NUMBER}
_FETCHED |= {"rows": _NUMBER, "marks": _MARKS, "replaces": _NUMBER}
_FETCHED |= {"attempts": _NUMBER, "retry_at": _NUMBER, "error": _TEXT, "decoded": _NUMBER}
_CURSOR = {"tail": _TEXT, "back": _TEXT, "sweep": _TEXT, "pages": _NUMBER, "late": _NUMBER}


def list_table(uid: str) -> StateTable:
    """Files of a source that were read to their end, by path: size, modification time, ETag, epoch, rows."""
    return _table(f"list:{uid}", _LISTED)


def fetch_table(uid: str) -> StateTable:
    """Files of a source that are not read to their end, or cannot be read: see :class:`FileProgress`."""
    return _table(f"fetch:{uid}", _FETCHED)


def cursor_table(uid: str) -> StateTable:
    """How far a source has been listed: by prefix, see :class:`tidemill.sources.objects.listing.Cursor`."""
    return _table(f"cursor:{uid}", _CURSOR)


def cleaned_table(uid: str) -> StateTable:
    """Files of a source that were read to their end and may be cleaned, or have been: as the list table.

    Views created from the row's epoch on do not read them.
    """
    return _table(f"cleaned:{uid}", _LISTED)


_TO_CLEAN = {"size": _NUMBER, "modified": _NUMBER, "etag": _TEXT, "read_at": _NUMBER}


def clean_queue(uid: str) -> StateTable:
    """Files of a source that are to be cleaned: see :class:`ToClean`; in the order of epochs."""
    key = (KeyColumn(pa.int64()), KeyColumn(pa.string()))
    types, ops = (pa.int64(), *_TO_CLEAN.values()), (MergeOp.SUM, *(MergeOp.LAST,) * len(_TO_CLEAN))
    return StateTable(f"clean:{uid}", key, 0, types, ops)


def queue_rows(table: StateTable, files: Iterable[tuple[ToClean, int]]) -> Rows:
    """Changes of a queue: files, each with the change of its weight: 1 new, -1 gone."""
    entries = list(files)
    keys = encode(
        [pa.array([f.epoch for f, _ in entries], pa.int64()), pa.array([f.path for f, _ in entries], pa.string())],
        table.key,
        table.distribution,
    )
    values: list[pa.Array[Any]] = [pa.array([weight for _, weight in entries], pa.int64())]
    values += [pa.array([getattr(f, name) for f, _ in entries], type_) for name, type_ in _TO_CLEAN.items()]
    return consolidate(keys, values, table.ops, drop_zero=False)


def queued_files(table: StateTable, rows: Rows) -> list[ToClean]:
    """Files of merged rows of a queue."""
    columns = [*decode(rows.keys, table.key), *list(rows.values)[1:]]
    return [ToClean(*entry) for entry in zip(*(c.to_pylist() for c in columns), strict=True)]


def _table(id_: str, columns: Mapping[str, pa.DataType]) -> StateTable:
    """Keyed by a text; the first value is the weight, so that a row can be deleted."""
    types = (pa.int64(), *columns.values())
    return StateTable(id_, (KeyColumn(pa.string()),), 1, types, (MergeOp.SUM, *(MergeOp.LAST,) * len(columns)))


def keys_of(table: StateTable, texts: Iterable[str]) -> Keys:
    """The keys of some paths in a source's state table, in their order."""
    return encode([pa.array(texts, pa.string())], table.key, table.distribution)


def fetched_rows(table: StateTable, files: Iterable[tuple[FileProgress, int]]) -> Rows:
    """Changes of the fetch table: files, each with the change of its weight: 1 new, 0 changed, -1 gone."""
    return _rows(table, _FETCHED, [(f.path, f, weight) for f, weight in files])


def listed_rows(table: StateTable, files: Iterable[tuple[ListedFile, int]]) -> Rows:
    """Changes of the list table, likewise."""
    return _rows(table, _LISTED, [(f.path, f, weight) for f, weight in files])


def cursor_rows(table: StateTable, cursors: Iterable[tuple[str, Cursor, int]]) -> Rows:
    """Changes of the cursor table, likewise, by prefix."""
    return _rows(table, _CURSOR, list(cursors))


def _rows(table: StateTable, columns: Mapping[str, pa.DataType], entries: list[tuple[str, Any, int]]) -> Rows:
    keys = keys_of(table, [key for key, _, _ in entries])
    values: list[pa.Array[Any]] = [pa.array([weight for _, _, weight in entries], pa.int64())]
    for name, type_ in columns.items():
        found = [getattr(entry, name) for _, entry, _ in entries]
        if type_ == _MARKS:
            found = [[{"position": p, "watermark": w} for p, w in marks] for marks in found]
        values.append(pa.array([int(v) if isinstance(v, bool) else v for v in found], type_))
    return consolidate(keys, values, table.ops, drop_zero=False)


def fetched_files(table: StateTable, rows: Rows) -> list[FileProgress]:
    """Files of merged rows of a fetch table."""
    found = []
    for path, entry in _entries(table, _FETCHED, rows.keys, rows.values):
        flags = {"in_quotes": bool(entry["in_quotes"]), "replaces": bool(entry["replaces"])}
        found.append(FileProgress(path, **{**entry, **flags}))
    return found


def listed_files(table: StateTable, keys: Keys, values: Iterable[pa.Array[Any]]) -> list[ListedFile]:
    """Files of merged rows of a list table."""
    return [ListedFile(path, **entry) for path, entry in _entries(table, _LISTED, keys, values)]


def sizes_of_listed(values: Sequence[pa.Array[Any]]) -> npt.NDArray[np.int64]:
    """The file sizes in rows of a list table; undefined where there is no row."""
    sizes: pa.Array[Any] = values[1 + list(_LISTED).index("size")]
    return sizes.fill_null(0).to_numpy()


def cursors(table: StateTable, rows: Rows) -> dict[str, Cursor]:
    """Cursors of merged rows of a cursor table."""
    return {prefix: Cursor(**entry) for prefix, entry in _entries(table, _CURSOR, rows.keys, rows.values)}


def _entries(
    table: StateTable, columns: Mapping[str, pa.DataType], keys: Keys, values: Iterable[pa.Array[Any]]
) -> Iterable[tuple[str, dict[str, Any]]]:
    texts = decode(keys, table.key)[0].to_pylist()
    lists = [v.to_pylist() for v in list(values)[1:]]
    for text, *entry in zip(texts, *lists, strict=True):
        named = dict(zip(columns, entry, strict=True))
        if "marks" in named:
            named["marks"] = tuple((m["position"], m["watermark"]) for m in named["marks"] or ())
        yield text, named
