"""Reading binary files in tests: splits, and buffers of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from csv_reading import Table, as_table

from tidemill.formats.base import RowReader, Rows
from tidemill.formats.registry import lookup
from tidemill.schema import Schema


def read_binary(
    format_: str,
    data: bytes,
    schema: Schema,
    options: Mapping[str, str] | None = None,
    needed: Sequence[str] | None = None,
    cuts: Iterable[int] = (),
    size: Callable[[], int] = lambda: 1 << 20,
) -> Table:
    """Rows of all splits of a file that is cut at ``cuts``, fed in buffers of ``size()`` bytes."""
    format__ = lookup(format_)
    format__.validate(schema, options or {})
    reader = format__.reader(schema, options or {}, schema.names if needed is None else needed)
    assert isinstance(reader, RowReader)
    parts: list[Rows] = []
    for start, end in pairwise([0, *cuts, len(data)]):
        split = reader.split(start=start, end=end, file_size=len(data), in_quotes=None, header=None)
        at = split.read_from
        while not split.done:
            stop = min(len(data), at + size())
            parts.append(split.feed(data[at:stop], stop == len(data)))
            for row in range(parts[-1].count):
                assert data[parts[-1].positions[row] :].startswith(parts[-1].raw(row))
                assert parts[-1].raw(row)
            at = stop
        assert split.quote_parity == 0
        assert not split.assumed_in_quotes
    return as_table(parts)
