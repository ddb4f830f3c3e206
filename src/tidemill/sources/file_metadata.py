"""The column with the file that each row comes from, like the hidden ``_metadata`` of Spark's file sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unicodedata import category
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.options.tables import ALLOW_APPENDS, METADATA_COLUMN
from tidemill.schema import TIMESTAMP, Field, Schema
from tidemill.sources.split import Split

_NAMES = (pa.field("file_path", pa.string()), pa.field("file_name", pa.string()))
_VERSION = (pa.field("file_size", pa.int64()), pa.field("file_modification_time", TIMESTAMP))
_ROW_INDEX = pa.field("row_index", pa.int64())
_ROW_POSITION = pa.field("row_position", pa.int64())

_NUMBERED = frozenset({"parquet"})
"""Formats whose rows Spark numbers."""

_UNQUOTED = "/-_.!~*'(),;:$&+=@"
_NEVER_PLAIN = frozenset({"Zs", "Zl", "Zp", "Cc"})
"""Categories of spaces and of control characters."""


def metadata_name(options: Mapping[str, str]) -> str | None:
    """The column that a table's options ask for, if any; names of options in lower case."""
    return METADATA_COLUMN.of(options)


def metadata_type(format_: str, grows: bool = False) -> pa.StructType:
    """Type of the column for files of a format.

    ``file_path`` and ``file_name`` are as in a URI, with the escapes that Spark writes; ``file_size`` in bytes, before
    any decoding; ``file_modification_time`` in whole milliseconds. ``row_index``, in Parquet files, counts the file's
    rows from 0 on. ``row_position`` is the file's byte, or decoded byte, with which the row begins; in columnar formats
    the number of the row.

    Spark's ``file_block_start`` and ``file_block_length`` are left out: they depend on how a file was split, which
    differs from run to run here. For files that grow (``allowAppends``) size and time are left out as well: they
    would differ when a new view reads the same rows again.
    """
    version = () if grows else _VERSION
    index = (_ROW_INDEX,) if format_ in _NUMBERED else ()
    return pa.struct([*_NAMES, *version, *index, _ROW_POSITION])


def with_metadata(columns: Schema, format_: str, options: Mapping[str, str]) -> Schema:
    """The columns of a table, with the metadata column last if the options name one.

    Raises
    ------
    TidemillError
        TM4003 for an empty name, or the name of another column.
    """
    name = metadata_name(options)
    if name is None:
        return columns
    if not name or name.lower() in (n.lower() for n in columns.names):
        raise METADATA_COLUMN.bad(name, "a name that no other column has, such as _metadata")
    grows = ALLOW_APPENDS.of(options)
    return Schema((*columns, Field(name, metadata_type(format_, grows), nullable=False)))


def without_metadata(columns: Schema, options: Mapping[str, str]) -> Schema:
    """The columns of a table without the metadata column."""
    name = metadata_name(options)
    return Schema(tuple(f for f in columns if f.name != name))


@dataclass
class FileMetadata:
    """Makes the metadata column of the rows of one split.

    Values that all rows share are made once for the largest batch; other batches take slices of them.
    """

    split: Split
    type: pa.StructType
    _shared: dict[str, pa.Array[Any]] = field(default_factory=dict)

    def column(self, positions: npt.NDArray[np.int64]) -> pa.StructArray:
        """The column, given the positions of the rows in the file."""
        if not self._shared or len(self._shared["file_path"]) < len(positions):
            values = self._values()
            shared = [f for f in self.type if f.name in values]
            self._shared = {f.name: pa.repeat(pa.scalar(values[f.name], f.type), len(positions)) for f in shared}
        own = pa.array(positions)
        columns = [self._shared[f.name].slice(0, len(positions)) if f.name in self._shared else own for f in self.type]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _values(self) -> dict[str, str | int]:
        path = file_uri(self.split.path)
        return {
            "file_path": path,
            "file_name": path.rpartition("/")[2],
            "file_size": self.split.size,
            "file_modification_time": self.split.modified // 10**6 * 1000,
        }


def file_uri(path: str) -> str:
    """A path, or the URL of an object with its key as it stands, as Spark writes it: ``file:/data/a%20b``.

    Characters are escaped as by ``java.net.URI`` in paths; letters of any script are not.
    """
    scheme, separator, rest = path.partition("://")
    if not separator:
        return f"file:{_escaped(path)}"
    place, slash, key = rest.partition("/")
    return f"{scheme}://{place}{slash}{_escaped(key)}"


def _escaped(path: str) -> str:
    return "".join(c if c > "\x7f" and category(c) not in _NEVER_PLAIN else quote(c, safe=_UNQUOTED) for c in path)
