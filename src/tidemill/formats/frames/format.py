"""Frames: records ``<size, bytes>`` whose bytes are of another format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.connectors.registry import options_of_all
from tidemill.formats import registry
from tidemill.formats.base import Format, RowReader
from tidemill.formats.frames.rows import FrameBuilder
from tidemill.formats.native.layout import is_big
from tidemill.formats.options import bad_option, check_options, positive
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.reading.read_modes import READ_OPTIONS
from tidemill.formats.records.sized_records import SizedSplitReader, SizeRules
from tidemill.formats.rows.malformed import Mode, parse_mode
from tidemill.formats.text.delimiter_split import DelimiterSplitReader
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.schema import Schema

_OWN = frozenset({"payload", "sizebytes", "endianness", "maxframebytes", "mode"})
_WITHOUT_FRAMES = frozenset({"arrow", "debezium", "frames", "generator", "orderbook", "parquet"})
DEFAULT_MOST = 16 << 20


class FramesFormat:
    r"""Frames one behind the other: a size, then so many bytes.

    **Sizes** are unsigned, of ``sizeBytes`` 1, 2, 4 (default) or 8 bytes, which do not count themselves;
    ``endianness`` is ``little`` (default) or ``big``. No frame is larger than ``maxFrameBytes`` (16 MiB).

    **Rows.** The bytes of each frame are read as a file of the format ``payload`` is: none, one or several rows. So
    what is wrong in one frame concerns no other. The options of that format stand beside the others, but a header is
    not possible. A ``\r`` at the end of a frame of lines does not count. The position of a
    row is that of its first byte in the file.

    Frames of JSON hold records as lines do, unless ``multiLine`` says that newlines may lie within a record.

    **Splits.** A frame is found from the one before, so a file is one split.

    **Malformed rows.** Those of the payload's format; ``bad_size`` (larger than ``maxFrameBytes``; nothing can be
    found behind it, so the rest of the file is one malformed row), ``truncated_record`` (the file ends within it).
    """

    name = "frames"

    @property
    def option_names(self) -> frozenset[str]:
        """Its own, and those of every format that can be in frames; :meth:`validate` rejects others than these."""
        return _OWN.union(*(registry.lookup(name).option_names for name in payload_names()))

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. TM4005 for an option that the payload does not know."""
        parse_sizes(options)
        payload = _payload(options)
        known = _OWN | payload.option_names | CODEC_OPTIONS | READ_OPTIONS
        known |= CONNECTION_OPTIONS | options_of_all().keys()
        check_options(self.name, [n for n in options if not n.startswith("__")], known)
        inner = payload.reader(schema, _inner_options(options), ())
        if not isinstance(inner, RowReader) or inner.header_bytes_needed():
            raise bad_option("payload", payload.name, "a format without a header, read as a stream of bytes")

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return True

    def records(self, schema: Schema, options: Mapping[str, str]) -> SizeRules:
        """See :class:`tidemill.formats.records.spooled_records.RecordFormat`."""
        return parse_sizes(options)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> FramesReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        self.validate(schema, options)
        payload = _payload(options)
        inner = payload.reader(schema, _inner_options(options), needed)
        assert isinstance(inner, RowReader), "validated before"
        mode = parse_mode({k.lower(): v for k, v in options.items()})
        separator = b"" if payload.name == "native" else _line_end(inner)
        return FramesReader(parse_sizes(options), FrameBuilder(inner, separator, mode))


class FramesReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(self, rules: SizeRules, builder: FrameBuilder) -> None:
        self._rules = rules
        self._builder = builder

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SizedSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`; a split from byte 0 on owns all frames."""
        return SizedSplitReader(self._builder, self._rules, start=start, end=min(end, file_size))


def _line_end(inner: RowReader) -> bytes:
    """What ends the lines of the payload's format."""
    split = inner.split(start=0, end=0, file_size=0, in_quotes=False, header=None)
    if not isinstance(split, DelimiterSplitReader):
        return b"\n"
    return split.delimiters.row_end


def payload_names() -> list[str]:
    """The built-in formats that can be in frames."""
    return sorted(set(registry.built_in()) - _WITHOUT_FRAMES)


def parse_sizes(options: Mapping[str, str]) -> SizeRules:
    """How sizes are written. TM4003 for a bad option."""
    given = {name.lower(): value for name, value in options.items()}
    width = given.get("sizebytes", "4")
    if width not in ("1", "2", "4", "8"):
        raise bad_option("sizeBytes", width, "1, 2, 4 or 8")
    most = positive(given, "maxFrameBytes", DEFAULT_MOST)
    if most >= 1 << 30:
        raise bad_option("maxFrameBytes", str(most), "less than 1 GiB")
    return SizeRules(int(width), is_big(given), 0, most)


def _payload(options: Mapping[str, str]) -> Format:
    given = {name.lower(): value for name, value in options.items()}
    name = given.get("payload", "").lower()
    if not name or name in _WITHOUT_FRAMES:
        raise bad_option("payload", name, f"OPTIONS (payload '...'), one of {', '.join(payload_names())}")
    return registry.lookup(name)


def _inner_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of the payload. FAILFAST is left to the frames, which know positions in the file."""
    given = {name.lower(): value for name, value in options.items() if name.lower() not in CODEC_OPTIONS | READ_OPTIONS}
    if parse_mode(given) is Mode.FAILFAST:
        given["mode"] = Mode.DROPMALFORMED.value
    if given["payload"].lower() == "json":
        given.setdefault("multiline", "false")
    return {n: v for n, v in given.items() if n not in ("payload", "sizebytes", "maxframebytes")}
