"""A format by its name, with a schema or without one."""

from __future__ import annotations

from typing import Any, overload

import pyarrow as pa

from tidemill.formats.base import Format
from tidemill.formats.standalone import standalone
from tidemill.formats.standalone.inferred import InferringFormat, open_inferring
from tidemill.formats.standalone.standalone import OpenFormat
from tidemill.schema import Schema


@overload
def open_format(name: str | Format, schema: Schema | pa.Schema | str, **options: Any) -> OpenFormat: ...


@overload
def open_format(name: str, schema: None = None, **options: Any) -> InferringFormat: ...


def open_format(
    name: str | Format, schema: Schema | pa.Schema | str | None = None, **options: Any
) -> OpenFormat | InferringFormat:
    """A format for use without a mill: :func:`tidemill.formats.standalone.standalone.open_format`.

    Without a schema each source is read with the columns that a sample of it has, and ``_rescued_data``; options and
    errors are then also those of :func:`tidemill.formats.infer_schema`.

    Examples
    --------
    >>> import tidemill.formats
    >>> tidemill.formats.open("json").read(b'{"a": 1}').to_pydict()
    {'a': [1], '_rescued_data': [None]}
    """
    if schema is None:
        return open_inferring(name if isinstance(name, str) else name.name, options)
    return standalone.open_format(name, schema, **options)
