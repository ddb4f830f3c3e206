"""Files of sorted runs: several in one immutable, checksummed, memory-mappable file.

A task seals all its state tables of an epoch into one file with a section per table; a checkpoint makes one file of
all that a host has sealed. Layout::

    "TMRUN\\0\\0\\1" | section, padded to 64 bytes | ... | footer (JSON) | footer CRC-32 | footer length | magic

A section is an Arrow IPC stream of one record batch: column ``k`` holds the keys in ascending byte order, ``v0``,
``v1``, ... the values. The footer says of each section how values of equal keys combine. A section has a CRC-32 that is
checked when a process first reads it. The file is complete or it is never referenced, so it is written without a
temporary name.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.state.keys import Keys
from tidemill.state.merge import MergeOp, Rows

FORMAT_VERSION = 2
_MAGIC = b"TMRUN\x00\x00\x01"
_ALIGN = 64
_TAIL = 16 + len(_MAGIC)
_MEND = "restore the file from a copy of the root; nothing was changed. `tidemill state verify` says what is intact"


Part: TypeAlias = tuple[str, Rows, Sequence[MergeOp]]
"""A table's id, rows of it, and how values of equal keys combine."""


@dataclass(frozen=True)
class Section:
    """Where one table's run lies in a file."""

    table: str
    offset: int
    length: int
    rows: int
    crc: int
    ops: tuple[MergeOp, ...]


def to_batch(rows: Rows) -> pa.RecordBatch:
    """A run as a record batch ``k, v0, v1, ...``."""
    arrays = [rows.keys.to_arrow(), *rows.values]
    names = ["k", *(f"v{i}" for i in range(len(rows.values)))]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def from_batch(batch: pa.RecordBatch) -> Rows:
    """The run that :func:`to_batch` laid out; zero copy."""
    columns = batch.columns
    return Rows(Keys.from_arrow(columns[0]), tuple(columns[1:]))


def to_bytes(rows: Rows) -> pa.Buffer:
    """A run as an Arrow IPC stream."""
    batch = to_batch(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def from_bytes(data: Any) -> Rows:
    """The run in an Arrow IPC stream; zero copy over ``data``."""
    return from_batch(pa.ipc.open_stream(data).read_next_batch())


def write(path: Path, tables: Iterable[Part]) -> tuple[Section, ...]:
    """Write a run file with one section per table.

    Parameters
    ----------
    path : Path
        A name nobody used before; the directory is made when missing.
    tables : iterable of (table id, Rows, operations)
        Keys ascending. A table may occur more than once.

    Raises
    ------
    TidemillError
        TM1012 when the file cannot be written (disk full, no permission); nothing is left behind.
    """
    sections = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(_MAGIC)
            offset = len(_MAGIC)
            for table, rows, ops in tables:
                pad = -offset % _ALIGN
                file.write(b"\0" * pad)
                body = to_bytes(rows)
                file.write(body)
                offset += pad
                sections.append(Section(table, offset, body.size, len(rows.keys), zlib.crc32(body), tuple(ops)))
                offset += body.size
            footer = json.dumps(
                {"format": FORMAT_VERSION, "sections": [list(vars(s).values()) for s in sections]}
            ).encode()
            file.write(footer)
            file.write(zlib.crc32(footer).to_bytes(8, "little") + len(footer).to_bytes(8, "little") + _MAGIC)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise TidemillError(
            "TM1012",
            "a state file could not be written",
            got=f"{path}: {error.strerror}",
            hint="free space or fix permissions and run again: nothing was sealed, the previous epoch is intact",
        ) from error
    return tuple(sections)


class RunFile:
    """A run file mapped into memory. Raises TM1010, TM1011 or TM1002 when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
        self.sections = tuple(_section(*entry) for entry in footer["sections"])
        self._rows: dict[int, Rows] = {}

    def rows(self, index: int) -> Rows:
        """The run in section ``index``; zero copy over the mapping. TM1011 when it is corrupt."""
        if index not in self._rows:
            section = self.sections[index]
            body = self._body(section)
            if zlib.crc32(body) != section.crc:
                raise _corrupt(self.path, f"section {index}, of table {section.table}, fails its checksum")
            self._rows[index] = from_bytes(body)
        return self._rows[index]

    def _body(self, section: Section) -> pa.Buffer:
        return self._map.slice(section.offset, section.length)

    def _footer(self) -> dict[str, Any]:
        size = self._map.size
        if size < _TAIL + len(_MAGIC):
            raise _corrupt(self.path, f"only {size} bytes long")
        tail = self._map.slice(size - _TAIL, _TAIL).to_pybytes()
        crc, length = int.from_bytes(tail[:8], "little"), int.from_bytes(tail[8:16], "little")
        if tail[16:] != _MAGIC or length > size - _TAIL - len(_MAGIC):
            raise _corrupt(self.path, "the end of the file is not that of a run file")
        body = self._map.slice(size - _TAIL - length, length).to_pybytes()
        if zlib.crc32(body) != crc:
            raise _corrupt(self.path, "the footer fails its checksum")
        footer: dict[str, Any] = json.loads(body)
        if footer["format"] != FORMAT_VERSION:
            raise TidemillError(
                "TM1002",
                "a state file was written by another version of Tidemill",
                got=f"{self.path}: format {footer['format']}, this version reads {FORMAT_VERSION}",
                hint="open this root with the version that wrote it, or a newer one",
            )
        return footer


def _section(table: str, offset: int, length: int, rows: int, crc: int, ops: Sequence[str]) -> Section:
    return Section(table, offset, length, rows, crc, tuple(map(MergeOp, ops)))


def missing(path: Path | str) -> TidemillError:
    """TM1010: a state file that the manifest names is not there."""
    return TidemillError(
        "TM1010",
        "a state file named by the manifest is missing",
        got=str(path),
        hint=_MEND,
    )


def _corrupt(path: Path, why: str) -> TidemillError:
    return TidemillError(
        "TM1011",
        "a state file is corrupt",
        got=f"{path}: {why}",
        hint=_MEND,
    )
