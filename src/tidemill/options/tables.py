"""Options of the tables of a mill; formats are not given them."""

from __future__ import annotations

from fractions import Fraction

from tidemill.options.kinds import FLAG, INTERVAL, SIZE, TEXT, number
from tidemill.options.option import Kind, Option, OptionGroup


def _ratio(text: str) -> Fraction:
    found = Fraction(text) if text.isascii() and "/" not in text else None
    if found is None or not 0 <= found <= 1:
        raise ValueError
    return found


def _retained(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    return 0 if text.strip() == "0" else SIZE.read(text)


PATH = Option("path", TEXT, None, "where the rows are: a file, directory, glob or URL, or the address of a socket")
OP_COLUMN = Option("opColumn", TEXT, None, "the STRING column that says of a row whether it is inserted or deleted")
OP_INSERT = Option("opInsert", TEXT, "I", "the value of `opColumn` in rows that are inserted")
OP_DELETE = Option("opDelete", TEXT, "D", "the value of `opColumn` in rows that are deleted")
MAX_FILES = Option("maxFilesPerTrigger", SIZE, None, "at most so many files of the table in an epoch", alterable=True)
MAX_BYTES = Option("maxBytesPerTrigger", SIZE, None, "at most so many bytes of the table in an epoch", alterable=True)
MAX_ROWS = Option("maxRowsPerTrigger", SIZE, None, "about so many rows of the table in an epoch", alterable=True)
ALLOW_OVERWRITES = Option("allowOverwrites", FLAG, False, "files that change are read again, and their old rows go")
ALLOW_APPENDS = Option("allowAppends", FLAG, False, "local files that grow are read on, whole lines only")
FILE_ATTEMPTS = Option(
    "fileAttempts",
    number(1, 1000),
    5,
    "how many times a file is tried that is gone while it is read",
    alterable=True,
)
WATERMARK = Option("watermark", TEXT, None, "the TIMESTAMP column that holds the event time")
WATERMARK_DELAY = Option(
    "watermarkDelay", INTERVAL, 0, "how late a row may be before it is left out as late", shown="0 seconds"
)
STATIC = Option("static", FLAG, False, "the files are listed once and read before any other table: CREATE STATIC TABLE")
BROADCAST = Option(
    "broadcast", FLAG, None, "whether the table may be the small side of a join", shown="decided by its size"
)
MAX_ERRORS = Option(
    "maxErrors",
    number(0),
    None,
    "how many malformed rows the table tolerates; the epoch that would exceed it is not sealed",
    alterable=True,
)
MAX_ERROR_RATIO = Option(
    "maxErrorRatio",
    Kind("a number from 0 to 1, such as 0.01: malformed rows by rows read", _ratio),
    None,
    "which part of the rows may be malformed, from 1,000 rows on",
    alterable=True,
)
METADATA_COLUMN = Option("metadataColumn", TEXT, None, "name of a column that says which file a row comes from")
PRIORITY = Option(
    "priority",
    number(1, 100),
    1,
    "the table's share of an epoch while several tables wait: twice the number, twice the bytes",
    alterable=True,
)
RETAIN_BYTES = Option(
    "retainBytes",
    Kind("a size in bytes, with k, m or g, 0, or all", _retained),
    1 << 30,
    "how much of what was read stays for views that are created later",
    shown="1g",
)

LIMITS = (MAX_FILES, MAX_BYTES, MAX_ROWS)
"""What bounds the rows of one epoch, or of one batch of a Spark stream."""

TABLE_OPTIONS = OptionGroup(
    "Tables",
    "Every table of a mill takes these, except where the options of its kind below say otherwise.",
    (
        PATH,
        OP_COLUMN,
        OP_INSERT,
        OP_DELETE,
        *LIMITS,
        ALLOW_OVERWRITES,
        ALLOW_APPENDS,
        FILE_ATTEMPTS,
        WATERMARK,
        WATERMARK_DELAY,
        STATIC,
        BROADCAST,
        MAX_ERRORS,
        MAX_ERROR_RATIO,
        METADATA_COLUMN,
        PRIORITY,
    ),
)
