"""How the bytes of a split are fetched: one read after the other, or several at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import FormatError
from tidemill.formats.base import FileRowReader, RowReader
from tidemill.options.kinds import choice, number, size
from tidemill.options.option import Option, OptionGroup, lowered

DEFAULT_BUFFER = 2 << 20
DEFAULT_READS = 8
MOST_BUFFER = 256 << 20
_AHEAD = 2

READ_MODE = Option("readMode", choice("sync", "async"), "sync", "one read after the other, or several at once")
MAX_READS = Option(
    "maxConcurrentReads", number(1, 64), DEFAULT_READS, "reads of a split that are under way with `readMode 'async'`"
)
BUFFER_SIZE = Option("bufferSize", size(most="256m"), DEFAULT_BUFFER, "most bytes of one read", shown="2m")
READ_OPTIONS = OptionGroup(
    "How files are read",
    "Tables over files of a format that reads a stream of bytes.",
    (READ_MODE, MAX_READS, BUFFER_SIZE),
)


@dataclass(frozen=True)
class ReadMode:
    """How the bytes of a split are fetched.

    Attributes
    ----------
    reads : int
        How many reads are under way at once; 0 for the synchronous mode, in which each is made when its bytes are
        needed.
    buffer_bytes : int
        Most bytes of one read.
    chosen : bool
        Whether somebody chose that: then no more is parsed at once.
    """

    reads: int = 0
    buffer_bytes: int = DEFAULT_BUFFER
    chosen: bool = False

    def buffer_for(self, length: int, row: int) -> int:
        """Most bytes of one read of a split of ``length`` bytes: all of them and a ``row``, if that is not much more.

        The rows of one buffer need no copy; a row that begins in one and ends in the next is put together.
        """
        whole = length + row
        return whole if not self.chosen and self.buffer_bytes < whole <= 2 * self.buffer_bytes else self.buffer_bytes

    @property
    def window(self) -> int:
        """Reads that are asked for and whose bytes are still needed, at most: what bounds the memory."""
        return self.reads * _AHEAD


def parse_read_mode(options: Mapping[str, str]) -> ReadMode:
    """``readMode`` (``sync`` unless given, or ``async``), ``maxConcurrentReads`` (8), ``bufferSize`` (2m).

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong, and for ``maxConcurrentReads`` without the mode it is about.
    """
    given = lowered(options)
    reads = MAX_READS.of(given)
    if READ_MODE.of(given) == "sync":
        if MAX_READS.key in given:
            raise MAX_READS.bad(str(reads), "it needs readMode 'async'")
        reads = 0
    return ReadMode(reads, BUFFER_SIZE.of(given), BUFFER_SIZE.key in given)


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
    given = READ_OPTIONS.given(options)
    if given and isinstance(reader, FileRowReader):
        raise FormatError(
            "TM4065",
            "this format chooses itself what it reads when",
            got=f"{given[0]} for a table USING {name}",
            hint="leave out readMode, maxConcurrentReads and bufferSize",
        )
