"""Messages that a Python function decodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tidemill.formats.adaptor.builder import AdaptorBuilder, LineMessages
from tidemill.formats.adaptor.columns import check_types, kind_of
from tidemill.formats.adaptor.process import Task
from tidemill.formats.base import SplitReader
from tidemill.formats.frames.format import MAX_FRAME_BYTES, SIZE_BYTES, parse_sizes
from tidemill.formats.native.layout import ENDIANNESS
from tidemill.formats.records.sized_records import SizedSplitReader, SizeRules
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.options.kinds import INTERVAL, TEXT, choice, number, size
from tidemill.options.option import Option, OptionGroup, lowered
from tidemill.schema import Schema

ADAPTOR = Option("adaptor", TEXT, "", "the name of the adaptor that decodes messages")
ADAPTOR_SOURCE = Option(
    "adaptorSource", TEXT, "", "its Python source; a table of a mill has that of the adaptor when it was created"
)
MESSAGE_FRAMING: Option[Literal["length", "lines"]] = Option(
    "messageFraming", choice("length", "lines"), "length", "a message has its length in front, or is a line"
)
MEMORY = Option("adaptorMemory", size("64m"), 512 << 20, "address space of the adaptor's process", shown="512m")
TIMEOUT = Option("adaptorTimeout", INTERVAL, 5_000_000, "how long the adaptor may take for one batch", shown="5s")
MOST_ROWS = Option("maxRowsPerMessage", number(1, 1_000_000), 100_000, "most rows that one message may give")
ADAPTOR_OPTIONS = OptionGroup(
    "Python adaptors",
    "Tables `USING adaptor`.",
    (
        *(ADAPTOR, ADAPTOR_SOURCE, MESSAGE_FRAMING, SIZE_BYTES, ENDIANNESS, MAX_FRAME_BYTES),
        *(MEMORY, TIMEOUT, MOST_ROWS, MODE),
    ),
)
MOST_SOURCE = 64 << 10
"""Characters of a source."""


class AdaptorFormat:
    r"""Messages that ``decode(size, bytes)`` of a Python source turns into rows, in a process of its own.

    **Messages** have their length in front (``sizeBytes``, ``endianness`` and ``maxFrameBytes`` as in frames), or are
    lines (``messageFraming 'lines'``) without their ends. Messages of no bytes do not count.

    **Rows.** ``decode`` gives an iterable of rows, or None for none. A row is a tuple or list with a value for each
    column in their order, or a dict by their names. Values are those of Python: bool, int, float, Decimal (rounded half
    up to the column's scale), str, bytes, date, datetime with a time zone for TIMESTAMP and without one for
    TIMESTAMP_NTZ; None is NULL. The position of a row is that of its message, and of its place in it.

    **Splits.** Files of lines are divided at lines; with lengths a file is one split.

    **Malformed rows.** ``adaptor_raised`` (with the error and the adaptor's line), ``adaptor_timeout``,
    ``adaptor_ended`` (a crash, or too much memory), ``adaptor_bad_answer``, ``adaptor_given_up`` (the rest of a split
    in which the process has ended three times): the message has no rows. ``bad_int32`` and so on for a value that its
    column cannot hold (NULL), ``null_in_not_null`` (the row is dropped), ``bad_size`` and ``truncated_record`` as in
    frames.
    """

    name = "adaptor"
    option_names = ADAPTOR_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`; the source is not run."""
        given = lowered(options)
        check_types(schema)
        parse_sizes(given)
        for option in ADAPTOR_OPTIONS.options:
            option.of(given)
        if TIMEOUT.of(given) <= 0:
            raise TIMEOUT.bad(given[TIMEOUT.key], "a time such as 5s")
        source = ADAPTOR_SOURCE.of(given)
        if not source.strip() or len(source) > MOST_SOURCE:
            raise ADAPTOR_SOURCE.bad(f"{len(source):,} characters", f"Python source of at most {MOST_SOURCE:,}")

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return self.records(schema, options) is not None

    def records(self, schema: Schema, options: Mapping[str, str]) -> SizeRules | None:
        """See :class:`tidemill.formats.records.spooled_records.RecordFormat`."""
        given = lowered(options)
        return parse_sizes(given) if MESSAGE_FRAMING.of(given) == "length" else None

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> AdaptorReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        self.validate(schema, options)
        given = lowered(options)
        mode = MODE.of(given)
        wanted = [schema.names.index(name) for name in needed]
        others = (i for i, f in enumerate(schema) if mode is not Mode.PERMISSIVE or not f.nullable)
        wanted += [i for i in others if i not in wanted]
        task = Task(
            ADAPTOR_SOURCE.of(given),
            tuple((f.name, kind_of(f.type)) for f in schema),
            tuple(wanted),
            MOST_ROWS.of(given),
            MEMORY.of(given),
            TIMEOUT.of(given) / 1e6,
        )
        builder = AdaptorBuilder(task, tuple(schema.fields[i] for i in wanted), len(needed), mode)
        return AdaptorReader(builder, self.records(schema, given))


@dataclass(frozen=True)
class AdaptorReader:
    """See :class:`tidemill.formats.base.RowReader`.

    Attributes
    ----------
    builder : AdaptorBuilder
        What the builders of splits are made like.
    rules : SizeRules or None
        Of lengths; None for lines.
    """

    builder: AdaptorBuilder
    rules: SizeRules | None

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`."""
        like = self.builder
        builder = AdaptorBuilder(like.task, like.fields, like.needed, like.mode)
        if self.rules is not None:
            return SizedSplitReader(builder, self.rules, start=start, end=min(end, file_size))
        return LineSplitReader(LineMessages(builder), start=start, end=end, file_size=file_size, in_quotes=False)
