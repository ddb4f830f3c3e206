"""Compressed files: which codec a file has, and its decoded bytes as a stream.

A compressed file can only be read from its beginning. Positions in it count decoded bytes.
"""

from __future__ import annotations

import bz2
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import lz4.frame
from isal import isal_zlib

from tidemill.errors import FormatError
from tidemill.options.kinds import POSITIVE, choice
from tidemill.options.option import Option, OptionGroup, lowered

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

BUFFER_BYTES = 2 << 20
"""How many decoded bytes :meth:`Decoded.fill` gives at most."""

MOST_DECODED = 1 << 44
"""No file has more decoded bytes, so that positions of several files fit into one order."""

SMALL = 64 << 20
"""Decoded bytes that a file may always have, whatever its ratio."""
SUSPECT_RATIO = 1000
"""Beyond it a file is either a bomb or very many equal rows; these have newlines, a bomb has none."""
DEFAULT_RATIO = 100_000
"""More than any codec here reaches with equal rows; it limits how long a small file takes to decode."""
_NEWLINE = b"\n"

_GZIP_MAGIC, _GZIP_FIXED, _GZIP_SUMS = b"\x1f\x8b\x08", 10, struct.Struct("<II")
_TEXT, _HEADER_SUM, _EXTRA, _NAME, _COMMENT = 1, 2, 4, 8, 16
_MOST_HEADER = 1 << 20
_ISAL_ERROR: type[Exception] = isal_zlib.error  # type: ignore[assignment]
_STEP = 1 << 16
_SLICE = 1 << 14
_NAMES = {
    "none": None,
    "uncompressed": None,
    "gzip": "gzip",
    "gz": "gzip",
    "bzip2": "bzip2",
    "bz2": "bzip2",
    "zstd": "zstd",
    "zst": "zstd",
    "lz4": "lz4",
}
_SUFFIXES = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4"}
_AUTO = "auto"


class _Member(Protocol):
    """One gzip member, zstd or lz4 frame, or bzip2 stream; what :class:`bz2.BZ2Decompressor` offers."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipMember:
    """Header, deflated bytes and check sums of RFC 1952, in the shape of the others, which keep their input themselves.

    ISA-L inflates at three times the speed of zlib. It does not read headers that come in pieces: that is done here.
    """

    def __init__(self) -> None:
        self._inner = isal_zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._begun = self._wrong = False
        # The header, or the check sums, as far as they have come.
        self._held = b""
        self._sum = self._size = 0
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._wrong:
            raise zlib.error("wrong check sum or length")
        if not self._begun:
            self._held += data
            length = _gzip_header(self._held)
            if length is None:
                return b""
            data, self._held, self._begun = self._held[length:], b"", True
        found = b""
        if not self._inner.eof:
            tail = self._inner.unconsumed_tail
            found = self._inner.decompress(tail + data if tail else data, max_length)
            self._sum = isal_zlib.crc32(found, self._sum)
            self._size += len(found)
            self.needs_input = len(found) < max_length and not self._inner.unconsumed_tail
            data = self._inner.unused_data
        if not self._inner.eof:
            return found
        self._held += data
        self.needs_input = len(self._held) < _GZIP_SUMS.size
        if not self.needs_input:
            self._wrong = _GZIP_SUMS.unpack_from(self._held) != (self._sum, self._size & 0xFFFFFFFF)
            self.eof = not self._wrong
            self.unused_data = self._held[_GZIP_SUMS.size :]
        return found


def _gzip_header(data: bytes) -> int | None:
    """How long the header is that some bytes begin with; None where it goes on behind them.

    Raises
    ------
    zlib.error
        There is none.
    """
    if not _GZIP_MAGIC.startswith(data[: len(_GZIP_MAGIC)]) or len(data) > _MOST_HEADER:
        raise zlib.error("no header of gzip")
    if len(data) < _GZIP_FIXED:
        return None
    flags, at = data[len(_GZIP_MAGIC)], _GZIP_FIXED
    if flags & ~(_TEXT | _HEADER_SUM | _EXTRA | _NAME | _COMMENT):
        raise zlib.error("unknown flags in a header of gzip")
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            at = data.find(b"\0", at) + 1
            if not at:
                return None
    if flags & _HEADER_SUM:
        at += 2
        if at <= len(data) and zlib.crc32(data[: at - 2]) & 0xFFFF != int.from_bytes(data[at - 2 : at], "little"):
            raise zlib.error("wrong check sum of a header of gzip")
    return at if at <= len(data) else None


_MEMBERS: Mapping[str, Callable[[], _Member]] = {
    "gzip": _GzipMember,
    "bzip2": bz2.BZ2Decompressor,
    "zstd": ZstdDecompressor,
    "lz4": lz4.frame.LZ4FrameDecompressor,
}


COMPRESSION = Option("compression", choice(_AUTO, *_NAMES), _AUTO, "how files are compressed", shown="by their suffix")
MAX_RATIO = Option(
    "maxDecompressedRatio",
    POSITIVE,
    None,
    "most decoded bytes for each byte of a file, from 64 MiB on",
    shown="100000, and 1000 where 64 MiB have no newline",
)
CODEC_OPTIONS = OptionGroup(
    "Compressed files", "Tables over files of a format that reads a stream of bytes.", (COMPRESSION, MAX_RATIO)
)


@dataclass(frozen=True)
class CodecOptions:
    """How the files of a table are compressed.

    Attributes
    ----------
    codec : str or None
        ``gzip``, ``bzip2``, ``zstd``, ``lz4``; None for files as they are; ``auto`` for what a file's suffix says.
    ratio : int or None
        Most decoded bytes for each byte of a file; None for the two default limits.
    """

    codec: str | None = _AUTO
    ratio: int | None = None

    def of(self, path: str) -> str | None:
        """The codec of a file; None for a file that is not compressed."""
        return _SUFFIXES.get(Path(path).suffix.lower()) if self.codec == _AUTO else self.codec

    def refuse(self, path: str) -> None:
        """TM4040 for a file that is compressed, where bytes are needed in any order."""
        if (codec := self.of(path)) is not None:
            raise FormatError(
                "TM4040",
                "a compressed file of a format that needs random access",
                got=codec,
                hint="decompress it; such formats have compression of their own",
            )

    def most_decoded(self, size: int) -> int:
        """How many decoded bytes a file of ``size`` bytes may have."""
        return min(max(SMALL, size * (self.ratio or DEFAULT_RATIO)), MOST_DECODED)

    def suspect_from(self, size: int) -> int:
        """From how many decoded bytes on a file of ``size`` bytes needs a newline every ``SMALL`` bytes."""
        return MOST_DECODED if self.ratio is not None else min(max(SMALL, size * SUSPECT_RATIO), MOST_DECODED)


def parse_codec_options(options: Mapping[str, str]) -> CodecOptions:
    """``compression`` (by suffix unless given) and ``maxDecompressedRatio`` (from 64 MiB on).

    Unless a ratio is given, a file ends at 100,000:1, and from 1000:1 on where 64 MiB have no newline: so a file of
    equal rows is read to its end, in the memory of one buffer, and what would grow in memory is not.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong.
    """
    given = lowered(options)
    name = COMPRESSION.of(given)
    return CodecOptions(_AUTO if name == _AUTO else _NAMES[name], MAX_RATIO.of(given))


class Decoded:
    """The decoded bytes of a file: all its members or frames, one after the other.

    What is wrong with a file is not raised: the bytes before it are given, then ``damage`` says what it is. Memory is
    bounded whatever the file says. Zeros behind a gzip member are padding, as for ``gzip``; anything else there is
    damage. gzip and zstd check sums stand behind the bytes they are of, so these have been given when one is wrong.

    Parameters
    ----------
    codec : str
        ``gzip``, ``bzip2``, ``zstd`` or ``lz4`` (frames, as ``lz4`` writes them, not Hadoop's blocks).
    encoded : callable
        The next bytes of the file, of any length; empty at its end.
    most : int
        Decoded bytes after which the file counts as a bomb.
    suspect : int
        Decoded bytes after which it does where ``SMALL`` bytes have no newline.

    Attributes
    ----------
    position : int
        Decoded bytes given so far.
    ended : bool
        Whether all decoded bytes have been given.
    damage : str or None
        Why they end too early: ``truncated_archive``, ``corrupt_archive`` or ``decompression_limit``; None for a file
        that is whole.
    """

    def __init__(self, codec: str, encoded: Callable[[], bytes], most: int, suspect: int = MOST_DECODED) -> None:
        self._make = _MEMBERS[codec]
        self._padded = codec == "gzip"
        self._encoded = encoded
        self._most = most
        self._suspect = suspect
        # The position behind the last newline that was found.
        self._row = max(suspect - SMALL, 0)
        self._member = self._make()
        self._begun = False
        self._first = True
        self._rest = b""
        self._at = 0
        self.position = 0
        self.ended = False
        self.damage: str | None = None

    @property
    def waiting(self) -> int:
        """Encoded bytes that have been taken and not decoded."""
        return len(self._rest) - self._at

    def fill(self) -> bytes:
        """The next decoded bytes, at most ``BUFFER_BYTES``; empty only at the end."""
        pieces: list[bytes] = []
        size = 0
        while not self.ended and size < BUFFER_BYTES:
            piece = self._step(min(_STEP, BUFFER_BYTES - size))
            if piece:
                pieces.append(piece)
                size += len(piece)
        found = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.position += len(found)
        begin = self.position - len(found)
        if self.position > self._suspect - SMALL and (newline := found.rfind(_NEWLINE)) >= 0:
            self._row = max(self._row, begin + newline + 1)
        if self.position > self._suspect and self.position - self._row > SMALL:
            self._most = min(self._most, max(self._suspect, self._row + SMALL))
        if self.position > self._most:
            found = found[: len(found) - (self.position - self._most)]
            self.position = self._most
            self._end("decompression_limit")
        return found

    def _step(self, most: int) -> bytes:
        """Decode some bytes, perhaps none."""
        if self._member.eof:
            self._at -= len(self._member.unused_data or b"")
            self._member, self._begun, self._first = self._make(), False, False
        data = b""
        if self._member.needs_input:
            data = self._input()
            if not data:
                self._end("truncated_archive" if self._begun else None)
                return b""
            self._begun = True
        try:
            found = self._member.decompress(data, most)
        except (zlib.error, _ISAL_ERROR, OSError, EOFError, ValueError, RuntimeError, ZstdError):
            self._end("corrupt_archive")
            return b""
        if not data and not found and not self._member.eof and not self._member.needs_input:
            self._end("corrupt_archive")  # no progress would ever be made
        return found

    def _input(self) -> bytes:
        """The next encoded bytes, not many; empty at the end of the file."""
        while True:
            if self._at >= len(self._rest):
                self._rest, self._at = self._encoded(), 0
                if not self._rest:
                    return b""
            if self._padded and not self._begun and not self._first and self._rest[self._at] == 0:
                zeros = len(self._rest) - self._at - len(self._rest[self._at :].lstrip(b"\0"))
                self._at += zeros
                if self._at >= len(self._rest):
                    continue
            data = self._rest[self._at : self._at + _SLICE]
            self._at += len(data)
            return data

    def _end(self, damage: str | None) -> None:
        self.ended, self.damage = True, damage
