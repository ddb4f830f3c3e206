"""Options of ``spark.read`` and ``spark.readStream.format("tidemill")`` beside those of formats and stores."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidemill.options.kinds import FLAG, SIZE, TEXT
from tidemill.options.option import Kind, Option, OptionGroup
from tidemill.options.tables import LIMITS, METADATA_COLUMN, PATH
from tidemill.sources.filters import FILTER_OPTIONS


def _paths(text: str) -> tuple[str, ...]:
    return tuple(str(path) for path in json.loads(text))


PATHS = Option("paths", Kind("a JSON array of paths", _paths), None, "the paths of `.load([...])`, given by Spark")
FORMAT = Option("format", TEXT, "", "the format of the files, as written in `USING`", shown="none: it must be given")
PARTITION_BYTES = Option(
    "maxPartitionBytes", SIZE, 128 << 20, "size of the parts of files that tasks read", shown="128m"
)
ERRORS_PATH = Option("errorsPath", TEXT, None, "a directory for malformed rows, in Parquet files")
COLUMNS = Option("columns", TEXT, None, "all columns of the files, where they are matched by position")
IGNORE_MISSING = Option("ignoreMissingFiles", FLAG, False, "skip the rest of files that no longer exist")
IGNORE_CORRUPT = Option("ignoreCorruptFiles", FLAG, False, "skip the rest of files that cannot be decoded")
STATE_LOCATION = Option(
    "stateLocation", TEXT, None, "of streams: a directory or URL that records the names of read files"
)

SOURCE_OPTIONS = OptionGroup(
    "Spark reads",
    '`spark.read.format("tidemill")` and `spark.readStream.format("tidemill")`; limits apply to a batch of a '
    "stream. Options of formats, of schema inference, of object stores and of file listing can be given, too.",
    (
        FORMAT,
        PATH,
        PATHS,
        COLUMNS,
        PARTITION_BYTES,
        ERRORS_PATH,
        METADATA_COLUMN,
        IGNORE_MISSING,
        IGNORE_CORRUPT,
        STATE_LOCATION,
        *LIMITS,
    ),
)

OWN_OPTIONS = SOURCE_OPTIONS.keys | FILTER_OPTIONS.keys
"""Options that are not passed to formats, in lower case."""


def paths_of(given: Mapping[str, str]) -> list[str]:
    """The paths that are loaded; names of options in lower case."""
    path, paths = PATH.of(given), PATHS.of(given)
    if paths is not None:
        return list(paths)
    return [] if path is None else [path]
