"""The bytes that a split's reader is fed: those of the file, decoded if it is compressed."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.formats.codecs import Decoded, parse_codec_options
from tidemill.sources.files import FileReader
from tidemill.sources.split import Split


class SplitBytes:
    """``open``, ``fill`` until ``ended``, ``close``; positions count decoded bytes.

    Attributes
    ----------
    compressed : bool
        The split is the whole of a file whose decoded size is not known before its end.
    position : int
        Behind the last byte given.
    ended : bool
        What was given last are the final bytes of the file, or the last ones before its damage.
    damage : str or None
        See :class:`tidemill.formats.codecs.Decoded`; valid once ``ended``.
    """

    def __init__(self, split: Split, options: Mapping[str, str]) -> None:
        self._split = split
        self._file = FileReader(split)
        rules = parse_codec_options(options)
        self._codec = rules.of(split.path)
        self._most = rules.most_decoded(split.size)
        self._decoded: Decoded | None = None
        self.compressed = self._codec is not None
        self.position = 0
        self.ended = False
        self.damage: str | None = None

    def open(self, position: int) -> None:
        """Begin at a byte: 0 in a compressed file. Errors as :meth:`tidemill.sources.files.FileReader.open`."""
        assert position == 0 or not self.compressed
        self._file.open(position)
        self.position = position
        if self._codec is not None:
            self._decoded = Decoded(self._codec, self._file.fill, self._most)

    def fill(self) -> bytes:
        """The next bytes, perhaps none. Errors as :meth:`tidemill.sources.files.FileReader.fill`."""
        if self._decoded is None:
            buffer = self._file.fill()
            self.position += len(buffer)
            self.ended = self.position >= self._split.size or not buffer
            return buffer
        buffer = self._decoded.fill()
        self.position += len(buffer)
        self.ended, self.damage = self._decoded.ended, self._decoded.damage
        return buffer

    def first_bytes(self, count: int) -> tuple[bytes, bool]:
        """The first ``count`` bytes of the file, or all, and whether damage cut them short."""
        self.open(0)
        try:
            if self._decoded is None:
                return self._file.first_bytes(count), False
            found = b""
            while len(found) < count and not self._decoded.ended:
                found += self._decoded.fill()
            return found[:count], len(found) < count and self._decoded.damage is not None
        finally:
            self.close()

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()
