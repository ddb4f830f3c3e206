"""A format without a mill and without a schema: each source has the columns that it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.formats.base import RowError, Rows
from tidemill.formats.inference.infer import INFERABLE, infer_columns
from tidemill.formats.inference.options import INFERENCE_OPTIONS, parse_inference
from tidemill.formats.reading.read_modes import parse_read_mode
from tidemill.formats.reading.whole_source import Source
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import RESCUED_FORMATS, rescuing
from tidemill.formats.standalone.standalone import OpenFormat, check_own_options, given_options
from tidemill.schema import Schema


class InferringFormat:
    """A format with its options; immutable, and safe to use from many threads."""

    def __init__(self, name: str, options: dict[str, str]) -> None:
        self._name = name
        self.options = options

    def of(self, *sources: Source) -> OpenFormat:
        """The format with the columns of some sources. Errors as :func:`infer_schema`."""
        columns = infer_columns(self._name, sources, self.options)
        schema, options = rescuing(columns, self.options, inferred=self._name in RESCUED_FORMATS)
        known = {k: v for k, v in options.items() if k not in INFERENCE_OPTIONS.keys}
        return OpenFormat(lookup(self._name), schema, known)

    def read(
        self, source: Source, columns: Sequence[str] | None = None, errors: list[RowError] | None = None
    ) -> pa.Table:
        """All rows of a source, with its own columns. Parameters and errors as :meth:`OpenFormat.read`."""
        return self.of(source).read(source, columns, errors)

    def rows(
        self, source: Source, columns: Sequence[str] | None = None, buffer_bytes: int | None = None
    ) -> Iterator[Rows]:
        """The rows buffer by buffer. Parameters and errors as :meth:`OpenFormat.rows`."""
        return self.of(source).rows(source, columns, buffer_bytes)


def open_inferring(name: str, options: dict[str, Any]) -> InferringFormat:
    """What :func:`tidemill.formats.open` gives without a schema."""
    format_ = lookup(name)
    lowered = name.lower()
    given = given_options(options)
    if lowered not in INFERABLE:
        raise TidemillError(
            "TM4073",
            "the columns of this format cannot be inferred",
            got=name,
            hint=f"give a schema; inferred are {', '.join(INFERABLE)}",
        )
    check_own_options(name, given, format_.option_names | INFERENCE_OPTIONS.keys)
    parse_inference(given)
    parse_read_mode(given)
    return InferringFormat(lowered, given)


def infer_schema(name: str, *sources: Source, **options: Any) -> Schema:
    """The columns that some files or bytes have, as a table over them would be created with; without rescued data.

    Parameters
    ----------
    name : str
        ``arrow``, ``csv``, ``json`` or ``parquet``.
    *sources : bytes, str or Path
        The bytes themselves, or where the files are.
    **options
        Those of the format, and ``schemaHints``, ``inferColumnTypes``, ``inferTimestamp``,
        ``schemaInferenceSampleFiles`` and ``schemaInferenceSampleBytes``.

    Raises
    ------
    TidemillError
        TM4071 when there is no column, TM4073 for another format, TM4005 and TM4003 for options, TM4041, TM4044 and
        TM4072 for columnar files; OSError when a file cannot be read.

    Examples
    --------
    >>> import tidemill.formats
    >>> tidemill.formats.infer_schema("json", b'{"a": 1, "b": ["x"]}').to_ddl()
    '`a` bigint, `b` array<string>'
    """
    return infer_columns(name.lower(), sources, open_inferring(name, options).options)
