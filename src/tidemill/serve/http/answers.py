"""Rows as answers to requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from tidemill.errors import TidemillError
from tidemill.serve.encoding.formats import Format
from tidemill.serve.service.service import Service

EPOCH_HEADER = "X-Tidemill-Epoch"


def rows_response(service: Service, format_: Format, epoch: int, tables: Iterable[pa.Table]) -> Response:
    """Rows in a format; what is longer than one part is sent while it is read.

    Raises
    ------
    TidemillError
        What reading raises, in Arrow the first part; TM8012 for too many rows in JSON or CSV.
    """
    if not format_.media_type.endswith("arrow.stream"):
        tables = limited_together(service.settings.max_rows, {"": tables})[
            ""
        ]  # an error cannot follow the beginning of an answer
    parts = iter(format_.body(tables, service.time_zone))
    head = format_.head(epoch)
    first = next(parts, b"")
    second = next(parts, None)
    headers = {EPOCH_HEADER: str(epoch)}
    if second is None:
        return Response(head + first, headers=headers, media_type=format_.media_type)
    sent = chain((head + first, second), parts)
    return StreamingResponse(sent, headers=headers, media_type=format_.media_type)


def limited_together(most: int, results: Mapping[str, Iterable[pa.Table]]) -> dict[str, list[pa.Table]]:
    """All tables of results that are one answer. TM8012 when they have more rows than that."""
    found: dict[str, list[pa.Table]] = {name: [] for name in results}
    left = most
    for name, tables in results.items():
        for table in tables:
            left -= table.num_rows
            if left < 0:
                raise TidemillError(
                    "TM8012",
                    "a limit of the server is reached",
                    got=f"more than {most:,} rows in one answer",
                    hint="ask for format=arrow, or open a cursor",
                )
            found[name].append(table)
    return found
