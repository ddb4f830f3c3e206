"""How the bytes of a split are fetched: one read after the other, or several at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import FormatError
from tidemill.formats.base import FileRowReader, RowReader
from tidemill.formats.options import bad_option, parse_size, positive

READ_OPTIONS = frozenset({"readmode", "maxconcurrentreads", "buffersize"})
"""Options of any table whose format reads a stream of bytes."""

DEFAULT_BUFFER = 1 << 20
DEFAULT_READS = 8
MOST_BUFFER = 256 << 20
_MOST_READS = 64
_AHEAD = 2


@dataclass(frozen=True)
class ReadMode:
    """How the bytes of a split are fetched.

    Attributes
    ----------
    reads : int
        How many reads are under way at once; 0 for the synchronous mode: each is asked for when its bytes are needed,
        by who needs them.
    buffer_bytes : int
        Most bytes of one read.
    """

    reads: int = 0
    buffer_bytes: int = DEFAULT_BUFFER

    @property
    def window(self) -> int:
        """Reads that are asked for and whose bytes are still needed, at most: what bounds the memory."""
        return self.reads * _AHEAD


def parse_read_mode(options: Mapping[str, str]) -> ReadMode:
    """``readMode`` (``sync`` unless given, or ``async``), ``maxConcurrentReads`` (8), ``bufferSize`` (1m).

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong, and for ``maxConcurrentReads`` without the mode it is about.
    """
    given = {name.lower(): value for name, value in options.items()}
    mode = given.get("readmode", "sync")
    if mode.lower() not in ("sync", "async"):
        raise bad_option("readMode", mode, "'sync' or 'async'")
    size = parse_size("bufferSize", given.get("buffersize", str(DEFAULT_BUFFER)))
    if size > MOST_BUFFER:
        raise bad_option("bufferSize", given["buffersize"], "at most 256m")
    reads = positive(given, "maxConcurrentReads", DEFAULT_READS)
    if reads > _MOST_READS:
        raise bad_option("maxConcurrentReads", str(reads), f"at most {_MOST_READS}")
    if mode.lower() == "sync":
        if "maxconcurrentreads" in given:
            raise bad_option("maxConcurrentReads", str(reads), "it needs readMode 'async'")
        reads = 0
    return ReadMode(reads, size)


def check_read_mode(name: str, reader: RowReader | FileRowReader, options: Mapping[str, str]) -> None:
    """Check the options of a table.

    Raises
    ------
    FormatError
        TM4065 for any of these options where the format itself chooses what it reads.
    TidemillError
        As :func:`parse_read_mode`.
    """
    parse_read_mode(options)
    given = [option for option in options if option.lower() in READ_OPTIONS]
    if given and isinstance(reader, FileRowReader):
        raise FormatError(
            "TM4065",
            "this format chooses itself what it reads when",
            got=f"{given[0]} for a table USING {name}",
            hint="leave out readMode, maxConcurrentReads and bufferSize",
        )
