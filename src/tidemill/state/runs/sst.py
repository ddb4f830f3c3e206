"""Files of runs: several in one immutable, checksummed, memory-mappable file.

A task seals all its state tables of an epoch into one file with a section per table; a checkpoint makes one file of
all that a host has sealed. Layout::

    "TMRUN\\0\\0\\1" | section, padded to 64 bytes | ... | footer (JSON) | footer CRC-32 | footer length | magic

A section is an Arrow IPC stream of one record batch: column ``k`` holds the keys in ascending byte order, ``v0``,
``v1``, ... the values, without what :mod:`tidemill.state.runs.implied` leaves out. The footer says of each section
how values of equal keys combine, which vnodes and epochs it holds, and how its smallest and greatest key begin. A
section of up to 64 KiB has one CRC-32, checked when a process first reads it. A larger one is followed by its index and
then by a CRC-32 for each page of 512 bytes of all that (its size is in the footer)::

    stream, padded to 64 bytes | fence offsets (int64) | fences, padded to 64 bytes | Bloom filter | checksums of pages

Fences are the first key of each 1,024 rows, and the last key; a page is checked when a process first touches it. To
open a file takes its footer only. The file is complete or it is never referenced, so it is written without a
temporary name.

An unordered section holds rows as they came, equal keys included, in batches. Columns ``k0``, ``k1``, ... are those of
the key, not encoded; the metadata of the schema have their order and the distribution. It has neither fences nor a
filter. A process sorts the rows when it first opens the run.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from io import IOBase
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from tidemill.errors import TidemillError
from tidemill.state.keys.keys import KeyColumn, Keys, hash64
from tidemill.state.merge.merge import MergeOp, Rows
from tidemill.state.merge.unordered import Unordered, coalesced
from tidemill.state.runs import filters, pages
from tidemill.state.runs.body import EDGE, Body, Fences
from tidemill.state.runs.implied import with_implied, without_implied
from tidemill.state.runs.mapped import Mapped
from tidemill.state.runs.pages import Pages, checksums
from tidemill.state.versions.objects import advice
from tidemill.state.versions.version import RUN

FORMAT_VERSION, OLDEST_FORMAT = 5, 3
WHOLE = 64 << 10
"""Largest section in bytes with one checksum and no index."""
BLOCK = 1024
"""Rows from one fence to the next."""
FILTERED = 1024
"""The fewest rows that get a filter."""
_LEAST_ROWS = 4096
"""Batches of an unordered section have as many rows, unless it has fewer."""
_KEY, _DISTRIBUTION = b"key", b"distribution"
_WITH_UNORDERED = 5
"""The first format that may have unordered sections."""
_Sink = TypeVar("_Sink", bound=pa.NativeFile)
_MAGIC = b"TMRUN\x00\x00\x01"
_ALIGN = 64
_TAIL = 16 + len(_MAGIC)
_MEND = "restore the file from a copy of the root; nothing was changed. `tidemill state verify` says what is intact"


class Part(NamedTuple):
    """Rows of a table that become a section.

    ``ops`` tell how values of equal keys combine. ``epochs`` are the first and the last whose changes these are.
    """

    table: str
    rows: Rows | Unordered
    ops: Sequence[MergeOp]
    epochs: tuple[int, int] = (0, 0)


Parts: TypeAlias = Iterable[Part | tuple[str, Rows, Sequence[MergeOp]]]


class Index(NamedTuple):
    """The index of a larger section.

    ``head`` bytes come before the columns; ``stream`` bytes in all are those of the columns. The checksums of pages of
    ``page`` bytes begin at ``end``.
    """

    head: int
    stream: int
    page: int
    end: int
    fences: Fences


@dataclass(frozen=True)
class Section:
    """Position of one table's run in a file, and what is known of its content without reading it.

    ``crc`` is that of the section, or with an index that of the checksums of its pages. ``low`` and ``high`` are at
    most 64 bytes of the smallest and of the greatest key, empty in an unordered section; ``vnodes`` is a range, its end
    excluded. ``rows`` of an unordered section may have equal keys.
    """

    table: str
    offset: int
    length: int
    rows: int
    crc: int
    ops: tuple[MergeOp, ...]
    vnodes: tuple[int, int]
    epochs: tuple[int, int]
    low: bytes
    high: bytes
    index: Index | None
    ordered: bool = True


def to_batch(rows: Rows) -> pa.RecordBatch:
    """A run as a record batch ``k, v0, v1, ...``."""
    arrays = [rows.keys.to_arrow(), *rows.values]
    names = ["k", *(f"v{i}" for i in range(len(rows.values)))]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def from_batch(batch: pa.RecordBatch) -> Rows:
    """The run that :func:`to_batch` laid out, whether or not what a rule gives was left out; zero copy."""
    columns = with_implied(batch)
    return Rows(Keys.from_arrow(columns[0]), tuple(columns[1:]))


class _Pieces:
    """What a stream writes, in order: the buffers of columns themselves instead of a copy in one piece."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Any] = []

    def write(self, data: Any) -> None:
        """Take bytes, or a buffer."""
        self.pieces.append(data)

    def flush(self) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """There is nothing to do."""


def to_bytes(rows: Rows) -> pa.Buffer:
    """A run as an Arrow IPC stream."""
    return _stream([to_batch(rows)], pa.BufferOutputStream()).getvalue()


def from_bytes(data: Any) -> Rows:
    """The run in an Arrow IPC stream; zero copy over ``data``."""
    return from_batch(pa.ipc.open_stream(data).read_next_batch())


def write(path: Path, tables: Parts) -> tuple[Section, ...]:
    """Write a run file with one section per table.

    Parameters
    ----------
    path : Path
        A new name; the directory is created if missing.
    tables : iterable of Part, or of (table id, Rows, operations)
        Keys ascending, unless rows are unordered. A table may occur more than once.

    Raises
    ------
    TidemillError
        TM1012 when the file cannot be written (disk full, no permission); nothing is left behind.
    """
    sections = []
    try:
        with _created(path) as file:
            file.write(_MAGIC)
            offset = len(_MAGIC)
            for part in tables:
                pad = -offset % _ALIGN
                file.write(b"\0" * pad)
                offset += pad
                pieces, section = _section(Part(*part), offset)
                for piece in pieces:
                    file.write(piece)
                sections.append(section)
                offset += section.length
                del part, pieces  # the next one may be large too
            footer = json.dumps({"format": FORMAT_VERSION, "sections": [_entry(s) for s in sections]}).encode()
            file.write(footer)
            file.write(isal_zlib.crc32(footer).to_bytes(8, "little") + len(footer).to_bytes(8, "little") + _MAGIC)
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise TidemillError(
            "TM1012",
            "a state file could not be written",
            got=f"{path}: {error.strerror}",
            hint=advice(error, "nothing was sealed, the previous epoch is intact"),
        ) from error
    return tuple(sections)


def _created(path: Path) -> BinaryIO:
    """A new file, open for writing; its directory is made if missing."""
    try:
        return path.open("xb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


def _section(part: Part, offset: int) -> tuple[list[Any], Section]:
    """The bytes of a section, in pieces that are written one after the other, and its entry in the footer."""
    rows = part.rows
    n = len(rows)
    low, high, keys = b"", b"", None
    if isinstance(rows, Unordered):
        vnodes, batches = rows.vnodes, _batches(rows)
    else:
        keys, batches = rows.keys, [without_implied(to_batch(rows))]
        low, high = (keys[0], keys[n - 1]) if n else (b"", b"")
        vnodes = (int.from_bytes(low[:2], "big"), int.from_bytes(high[:2], "big") + 1) if n else (0, 0)
    taken = _Pieces()
    large = sum(batch.nbytes for batch in batches) > WHOLE
    sink = _stream(batches, pa.PythonFile(cast(IOBase, taken), "w") if large else pa.BufferOutputStream())
    index = _write_index(sink, keys) if sink.tell() > WHOLE and n else None
    length = sink.tell()
    pieces: list[Any] = [sink.getvalue()] if isinstance(sink, pa.BufferOutputStream) else taken.pieces
    if index is None:
        pieces = [b"".join(pieces)]  # bitmaps without NULLs, which are not written, may have made it look larger
        crc = isal_zlib.crc32(pieces[0])
    else:
        index = index._replace(head=_head(pieces))
        crcs = checksums(pieces, index.page)
        crc = isal_zlib.crc32(crcs)
        pieces.append(crcs)
        length += len(crcs)
    place = (part.table, offset, length, n, crc, tuple(part.ops))
    return pieces, Section(*place, vnodes, part.epochs, low[:EDGE], high[:EDGE], index, keys is not None)


def _batches(rows: Unordered) -> list[pa.RecordBatch]:
    """The batches of an unordered section; values that a rule gives are left out where they are in none."""
    flags = [[key.descending, key.nulls_first, key.exact] for key in rows.key]
    metadata: dict[bytes | str, bytes | str] = {
        _KEY: json.dumps(flags).encode(),
        _DISTRIBUTION: b"%d" % rows.distribution,
    }
    width = len(rows.key)
    batches = coalesced(rows, _LEAST_ROWS).batches
    short = [without_implied(batch.select(batch.schema.names[width:])) for batch in batches]
    values = short if all(s.schema.equals(short[0].schema, check_metadata=True) for s in short) else None
    found = []
    for i, batch in enumerate(batches):
        fields, columns = list(batch.schema), batch.columns
        if values is not None:
            fields[width:], columns[width:] = list(values[i].schema), values[i].columns
        found.append(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata)))
    return found


def _read_batches(stream: pa.ipc.RecordBatchStreamReader) -> Unordered:
    """What :func:`_batches` laid out; zero copy."""
    metadata = stream.schema.metadata
    flags = json.loads(metadata[_KEY])
    read = [with_implied(batch) for batch in stream]
    key = tuple(KeyColumn(column.type, *flag) for column, flag in zip(read[0], flags))
    names = stream.schema.names
    batches = tuple(pa.RecordBatch.from_arrays(columns, names=names) for columns in read)
    return Unordered(batches, key, int(metadata[_DISTRIBUTION]))


def _stream(batches: Sequence[pa.RecordBatch], sink: _Sink) -> _Sink:
    """Write batches of one schema, at least one, as an Arrow IPC stream."""
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink


def _write_index(sink: pa.NativeFile, keys: Keys | None) -> Index:
    """Write what finds keys in a section; nothing does without keys in order."""
    stream = sink.tell()
    if keys is None:
        return Index(0, stream, pages.PAGE, stream, Fences(BLOCK, stream, 0, 0, stream, 0))
    fences = keys.take(np.append(np.arange(0, len(keys), BLOCK), len(keys) - 1))
    words = filters.build(hash64(keys)) if len(keys) >= FILTERED else np.empty(0, np.uint64)
    at = _pad(sink)
    sink.write(fences.offsets.data)
    sink.write(fences.data.data)
    filter_at = _pad(sink)
    sink.write(words.data)
    where = Fences(BLOCK, at, len(fences), len(fences.data), filter_at, len(words))
    return Index(0, stream, pages.PAGE, sink.tell(), where)


def _pad(sink: pa.NativeFile) -> int:
    sink.write(b"\0" * (-sink.tell() % _ALIGN))
    return int(sink.tell())


def _head(pieces: Sequence[Any]) -> int:
    """Bytes of an Arrow IPC stream before its columns: two messages, each a mark, its length and as many bytes."""
    whole = len(pieces) == 1  # else each column is a buffer
    begin = memoryview(pieces[0] if whole else b"".join(takewhile(lambda piece: isinstance(piece, bytes), pieces)))
    end = 0
    for _ in range(2):
        end += 8 + int.from_bytes(begin[end + 4 : end + 8], "little")
    return end


def _entry(s: Section) -> list[Any]:
    """A section as the footer has it."""
    edges = (s.low.hex(), s.high.hex())
    place = [s.table, s.offset, s.length, s.rows, s.crc, s.ops, *s.vnodes, *s.epochs, *edges, int(s.ordered)]
    if s.index is None:
        return place
    f = s.index.fences
    return [*place, *s.index[:4], f.block, f.at, f.count, f.bytes, f.filter_at, f.filter_words]


def _read_entry(entry: Sequence[Any], format_: int) -> Section:
    table, offset, length, rows, crc, ops, v0, v1, e0, e1, low, high = entry[:12]
    ordered = bool(entry[12]) if format_ >= _WITH_UNORDERED else True
    rest = entry[13:] if format_ >= _WITH_UNORDERED else entry[12:]
    index = Index(rest[0], rest[1], rest[2], rest[3], Fences(*rest[4:])) if rest else None
    place = (table, offset, length, rows, crc, tuple(map(MergeOp, ops)))
    return Section(*place, (v0, v1), (e0, e1), bytes.fromhex(low), bytes.fromhex(high), index, ordered)


class RunFile:
    """A run file mapped into memory. Raises TM1010, TM1011 or TM1002 when it cannot be read.

    Attributes
    ----------
    damaged : bool
        Whether corruption was found, so that the file should be mapped again.
    """

    opened = 0
    """How many files this process has opened."""
    found_damaged = 0
    """How often it has found one to be corrupt."""

    def __init__(self, path: Path) -> None:
        RunFile.opened += 1
        self.path = path
        self.damaged = False
        try:
            self._map = pa.memory_map(str(path), "r").read_buffer()
        except FileNotFoundError as error:
            raise missing(path) from error
        except PermissionError as error:
            raise TidemillError(
                "TM1016",
                "a state file could not be fetched",
                got=f"{path}: {error.strerror}",
                hint="check its permissions; nothing was changed",
            ) from error
        except OSError as error:
            raise _corrupt(path, f"it cannot be mapped: {error}") from error
        footer = self._footer()
        self.sections = tuple(_read_entry(entry, footer["format"]) for entry in footer["sections"])
        self._rows: dict[int, Rows] = {}
        self._ranges: dict[tuple[int, tuple[int, int]], Rows] = {}
        self._sorting = threading.Lock()

    def forget(self) -> None:
        """Drop all rows: they refer to the file, so the mapping would live until Python collects cycles."""
        self._rows.clear()
        self._ranges.clear()

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return int(self._map.size)

    def check(self, index: int, table: str, rows: int, length: int) -> None:
        """TM1011 when a section differs from what a version says of it: another file has this name."""
        found = self.sections[index] if index < len(self.sections) else None
        if found is None or (found.table, found.rows, found.length) != (table, rows, length):
            raise _corrupt(self.path, f"section {index} is not the one of {rows} rows of table {table}: another file")

    def known(self, index: int, table: str, rows: int, length: int, range_: tuple[int, int]) -> Rows | None:
        """The rows of a range of vnodes of a section that were noted before; arguments otherwise as :meth:`check`."""
        found = self._ranges.get((index, range_))
        if found is None or self.damaged:
            return None
        section = self.sections[index]
        return found if (section.table, section.rows, section.length) == (table, rows, length) else None

    def note(self, index: int, range_: tuple[int, int], rows: Rows) -> None:
        """Keep rows of a section for :meth:`known`, as long as the file is mapped."""
        self._ranges[index, range_] = rows

    def rows(self, index: int, keep: Callable[[Rows], Rows] | None = None) -> Rows:
        """The run in section ``index``; zero copy over the mapping, unless the section is unordered.

        Parameters
        ----------
        keep : callable, optional
            Takes the run of an unordered section, and gives it back as the process keeps it.

        Raises
        ------
        TidemillError
            TM1011 when it is corrupt; pages of a larger section are checked when they are first used.
        """
        found = self._rows.get(index)
        if found is None and self.sections[index].ordered:
            found = self._rows[index] = self._read(index)
        elif found is None:
            with self._sorting:  # what another thread sorts is waited for
                found = self._rows.get(index)
                if found is None:
                    run = self.unordered(index).run(self.sections[index].ops)
                    found = self._rows[index] = run if keep is None else keep(run)
        return found

    def unordered(self, number: int) -> Unordered:
        """The rows of an unordered section as they are; zero copy over the mapping. TM1011 when it is corrupt."""
        section = self.sections[number]
        body = self._map.slice(section.offset, section.length)
        if section.index is not None:
            self._pages(number).check(0, section.index.stream)
            body = body.slice(0, section.index.stream)
        elif isal_zlib.crc32(body) != section.crc:
            raise self._damage(number, "it fails its checksum")
        return _read_batches(pa.ipc.open_stream(body))

    def _read(self, number: int) -> Rows:
        section = self.sections[number]
        body = self._map.slice(section.offset, section.length)
        if section.index is None:
            if isal_zlib.crc32(body) != section.crc:
                raise self._damage(number, "it fails its checksum")
            return from_bytes(body)
        index = section.index
        checked = self._pages(number)
        checked.check(0, index.head)
        columns = with_implied(pa.ipc.open_stream(body.slice(0, index.stream)).read_next_batch())
        edges = (section.low, section.high)
        return Mapped(Body(checked, columns[0], columns[1:], index.fences, *edges), 0, section.rows)

    def _pages(self, number: int) -> Pages:
        section = self.sections[number]
        assert section.index is not None
        end = section.index.end
        data = self._map.slice(section.offset, end)
        crcs = self._map.slice(section.offset + end, section.length - end)
        return Pages(data, section.index.page, crcs, section.crc, partial(self._damage, number))

    def checked_bytes(self) -> int:
        """How many bytes of larger sections have been checked so far."""
        return sum(r.body.pages.checked_bytes for r in list(self._rows.values()) if isinstance(r, Mapped))

    def verify(self) -> None:
        """Check all sections again. TM1011 names all that are corrupt."""
        found = self.damage()
        if found:
            self._mark_damaged()
            raise _corrupt(self.path, "; ".join(found.values()))

    def damage(self) -> dict[int, str]:
        """Corrupt sections, with what is wrong with each; checks all."""
        every = ((number, self.damage_of(number)) for number in range(len(self.sections)))
        return {number: why for number, why in every if why}

    def damage_of(self, number: int) -> str:
        """What is wrong with a section, all of which is checked; empty when it is intact."""
        section = self.sections[number]
        name = f"section {number} (table {section.table})"
        if section.index is None:
            return "" if isal_zlib.crc32(self._map.slice(section.offset, section.length)) == section.crc else name
        try:
            bad = self._pages(number).damage()
        except TidemillError:
            return f"{name}: its checksums"
        pages = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        return f"{name}: {len(bad)} pages: {pages}" if bad else ""

    def _damage(self, number: int, why: str) -> TidemillError:
        self._mark_damaged()
        return _corrupt(self.path, f"section {number}, of table {self.sections[number].table}: {why}")

    def _mark_damaged(self) -> None:
        self.damaged = True
        RunFile.found_damaged += 1

    def _footer(self) -> dict[str, Any]:
        size = self._map.size
        if size < _TAIL + len(_MAGIC):
            raise _corrupt(self.path, f"only {size} bytes long")
        tail = self._map.slice(size - _TAIL, _TAIL).to_pybytes()
        crc, length = int.from_bytes(tail[:8], "little"), int.from_bytes(tail[8:16], "little")
        if tail[16:] != _MAGIC or length > size - _TAIL - len(_MAGIC):
            raise _corrupt(self.path, "the end of the file is not that of a run file")
        body = self._map.slice(size - _TAIL - length, length).to_pybytes()
        if isal_zlib.crc32(body) != crc:
            raise _corrupt(self.path, "the footer fails its checksum")
        footer: dict[str, Any] = json.loads(body)
        if footer["format"] > FORMAT_VERSION:
            raise TidemillError(
                "TM1002",
                "a state file was written by a newer version of Tidemill",
                got=f"{self.path}: format {footer['format']}, this version reads up to {FORMAT_VERSION}",
                hint="upgrade Tidemill; nothing was changed",
            )
        if footer["format"] < OLDEST_FORMAT:
            raise TidemillError(
                "TM1002",
                "a state file was written by another version of Tidemill",
                got=f"{self.path}: format {footer['format']}, this version reads {OLDEST_FORMAT} to {FORMAT_VERSION}",
                hint="open this root with the version that wrote it, or begin a new root; nothing was changed",
            )
        return footer


def missing(path: Path | str) -> TidemillError:
    """TM1010: a state file that the manifest names is not there. TM1018 for a file of a buffer."""
    if str(path).endswith(RUN):
        return _lost(f"{path} is missing")
    return TidemillError(
        "TM1010",
        "a state file named by the manifest is missing",
        got=str(path),
        hint=_MEND,
    )


def _corrupt(path: Path, why: str) -> TidemillError:
    if path.suffix == RUN:
        return _lost(f"{path}: {why}")
    return TidemillError(
        "TM1011",
        "a state file is corrupt",
        got=f"{path}: {why}",
        hint=_MEND,
    )


def _lost(what: str) -> TidemillError:
    return TidemillError(
        "TM1018",
        "sealed state that was not durable yet is lost",
        got=what,
        hint="the mill goes back to the last durable epoch by itself, and reads again what came after it",
    )
