"""Parsing texts as one column in tests, with bytes around each that must not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tests.formats.value_reference import plain_value

from tidemill.formats.values.columns.columns import TimePatterns, parser_for
from tidemill.formats.values.field_text import VALID, TextRules
from tidemill.formats.values.times.time_pattern import NO_PATTERN, compile_pattern

MALFORMED = "malformed"
_RULES = TextRules(quote=-1, trim=0, null_text=np.frombuffer(bytearray(b"\0NULL"), np.uint8))


def parse(type_: pa.DataType, texts: Sequence[bytes], pattern: str | None = None, between: bytes = b"9") -> list[Any]:
    """The value of each text, or ``MALFORMED``."""
    buf = np.frombuffer(between + between.join(texts), np.uint8)
    lengths = np.array([len(text) for text in texts], np.int32)
    ends = np.cumsum(lengths + len(between)).astype(np.int32)
    steps = NO_PATTERN if pattern is None else compile_pattern(pattern)
    parser = parser_for(type_, TimePatterns(steps, steps))
    assert parser is not None
    column = parser.parse(buf, ends - lengths, ends, _RULES)
    column.array.validate(full=True)
    assert column.array.type == type_
    values = column.array.to_pylist()
    if column.status is None:
        return values
    return [value if ok else MALFORMED for value, ok in zip(values, column.status == VALID, strict=True)]


def parse_plainly(type_: pa.DataType, text: bytes, pattern: str | None = None) -> Any:
    """What :func:`parse` must give for one text, by the plain parsers."""
    try:
        return plain_value(type_, text, pattern)
    except ValueError:
        return MALFORMED
