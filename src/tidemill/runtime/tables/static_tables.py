"""Static tables: their options, and warnings about files that appear too late.

The files of a static table are listed once, when the first view that reads it is created, and read before any table
that changes. A file that appears afterwards is never read: it is noted once, in ``<table>__errors`` and among
the warnings of an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.kernels.columns import column
from tidemill.options.tables import STATIC, WATERMARK
from tidemill.sources.file_info import FileInfo
from tidemill.state.keys.keys import encode
from tidemill.state.merge.merge import Rows, consolidate
from tidemill.task.program import StateTable

_REASON = "the static table was complete when this file appeared"
_SHOWN = 3


def parse_static(options: Mapping[str, str], keyed: bool) -> bool:
    """Whether a table is static; ``options`` have lower-case names.

    Raises
    ------
    TidemillError
        TM4003 for a value that is neither true nor false, TM2035 beside a primary key or a watermark.
    """
    static = STATIC.of(options)
    if static and (keyed or WATERMARK.key in options):
        raise TidemillError(
            "TM2035",
            "a static table has neither a PRIMARY KEY nor a watermark",
            got="a PRIMARY KEY, or a format that needs one" if keyed else f"watermark '{WATERMARK.of(options)}'",
            hint="leave it out: the files of a static table are all read before any other, and once",
        )
    return static


def without_files(table: str, path: str) -> TidemillError:
    """TM5008: there is nothing to read when a static table is first used."""
    return TidemillError(
        "TM5008",
        "a static table has no files when it is first used",
        got=f"{table}: {path}",
        hint="put its files there first: those that are there when the first view reads it are all it will ever have",
    )


def appeared_later(table: str, files: Sequence[FileInfo]) -> TidemillError:
    """TM5007: files that appeared too late for a static table."""
    names = ", ".join(f.path for f in files[:_SHOWN]) + (", …" if len(files) > _SHOWN else "")
    return TidemillError(
        "TM5007",
        "files appeared in the path of a static table after it was first used",
        got=f"{table}: {len(files)} file{'' if len(files) == 1 else 's'}: {names}",
        hint=f"they are not read, and noted in {table}__errors; DROP TABLE and CREATE it again to read them",
    )


def late_rows(table: StateTable, files: Sequence[FileInfo]) -> Rows:
    """Files that appeared later as rows of the table of errors."""
    columns: list[pa.Array[Any]] = [
        pa.array([f.path for f in files], pa.string()),
        pa.array([0] * len(files), pa.int64()),
        pa.nulls(len(files), pa.int64()),
        pa.nulls(len(files), pa.int64()),
        pa.nulls(len(files), pa.string()),
        pa.array([_REASON] * len(files), pa.string()),
        pa.array([b""] * len(files), pa.binary()),
    ]
    keys = encode(columns, table.key, table.distribution)
    return consolidate(keys, [column(np.ones(len(files), np.int64))], table.ops, drop_zero=False)
