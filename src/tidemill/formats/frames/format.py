"""Frames: records ``<size, bytes>`` whose bytes are of another format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.connectors.registry import options_of_all
from tidemill.formats import registry
from tidemill.formats.base import Format, RowReader
from tidemill.formats.frames.rows import FrameBuilder
from tidemill.formats.json.options import MULTI_LINE
from tidemill.formats.messages import Messages, reader_of
from tidemill.formats.native.layout import ENDIANNESS
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.reading.read_modes import READ_OPTIONS
from tidemill.formats.records.sized_records import SizedSplitReader, SizeRules
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.delimiter_split import DelimiterSplitReader
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.options.kinds import TEXT, choice, number
from tidemill.options.option import Option, OptionGroup, check_options, lowered
from tidemill.schema import Schema

_WITHOUT_FRAMES = frozenset(
    {
        *("adaptor", "arrow", "avro", "debezium", "delta", "frames", "generator", "iceberg", "kafka", "mqtt"),
        *("orderbook", "parquet", "postgres"),
    }
)

PAYLOAD = Option("payload", TEXT, "", "the format of the bytes of a frame, whose options stand beside these")
SIZE_BYTES = Option("sizeBytes", choice("1", "2", "4", "8"), "4", "bytes of the size before each frame")
MAX_FRAME_BYTES = Option("maxFrameBytes", number(1, (1 << 30) - 1), 16 << 20, "largest size of a frame")
FRAME_OPTIONS = OptionGroup(
    "Frames", "Tables `USING frames`.", (PAYLOAD, SIZE_BYTES, ENDIANNESS, MAX_FRAME_BYTES, MODE)
)


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
        return FRAME_OPTIONS.keys.union(*(registry.lookup(name).option_names for name in payload_names()))

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. TM4005 for an option that the payload does not know."""
        parse_sizes(options)
        payload = _payload(options)
        known = FRAME_OPTIONS.keys | payload.option_names | CODEC_OPTIONS.keys | READ_OPTIONS.keys
        known |= CONNECTION_OPTIONS.keys | options_of_all().keys()
        check_options(self.name, options, known)
        inner = payload.reader(schema, _inner_options(options), ())
        if not isinstance(inner, RowReader) or inner.header_bytes_needed():
            raise PAYLOAD.bad(payload.name, "a format without a header, read as a stream of bytes")

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return True

    def records(self, schema: Schema, options: Mapping[str, str]) -> SizeRules:
        """See :class:`tidemill.formats.records.spooled_records.RecordFormat`."""
        return parse_sizes(options)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> FramesReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return self._reader(schema, options, needed, None)

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> FramesReader:
        """See :class:`tidemill.formats.messages.MessageFormat`."""
        return self._reader(schema, options, needed, messages)

    def _reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
    ) -> FramesReader:
        self.validate(schema, options)
        inner = reader_of(_payload(options), schema, _inner_options(options), needed, messages)
        assert isinstance(inner, RowReader), "validated before"
        builder = frame_builder(_payload(options), inner, MODE.of(lowered(options)))
        return FramesReader(parse_sizes(options), builder)


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


def frame_builder(payload: Format, inner: RowReader, mode: Mode) -> FrameBuilder:
    """What makes rows of frames, given the reader of their payload."""
    return FrameBuilder(inner, b"" if payload.name == "native" else _line_end(inner), mode)


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
    given = lowered(options)
    return SizeRules(int(SIZE_BYTES.of(given)), ENDIANNESS.of(given) == "big", 0, MAX_FRAME_BYTES.of(given))


def _payload(options: Mapping[str, str]) -> Format:
    name = PAYLOAD.of(lowered(options)).lower()
    if not name or name in _WITHOUT_FRAMES:
        raise PAYLOAD.bad(name, f"OPTIONS (payload '...'), one of {', '.join(payload_names())}")
    return registry.lookup(name)


def _inner_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of the payload. FAILFAST is left to the frames, which know positions in the file."""
    outer = CODEC_OPTIONS.keys | READ_OPTIONS.keys
    given = {name: value for name, value in lowered(options).items() if name not in outer}
    if MODE.of(given) is Mode.FAILFAST:
        given[MODE.key] = Mode.DROPMALFORMED.value
    if given[PAYLOAD.key].lower() == "json":
        given.setdefault(MULTI_LINE.key, "false")
    return {n: v for n, v in given.items() if n not in (PAYLOAD.key, SIZE_BYTES.key, MAX_FRAME_BYTES.key)}
