"""Many envelopes at a time: Arrow's JSON reader, with types chosen from the first lines.

What it does not take, or takes otherwise than :mod:`.values`, raises ``pyarrow.ArrowInvalid``: the caller then
tries fewer lines, and in the end one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from tidemill.schema import Field

_LOOKED_AT = 20


def read_envelopes(data: bytes, count: int, fields: Sequence[Field], key: Sequence[str], lines: Sequence[bytes]) -> Any:
    """Arrays ``op``, ``before`` (struct of the key) and ``after`` (struct of all columns, as they are written).

    Parameters
    ----------
    data : bytes
        ``count`` lines, none of them empty.
    lines : sequence of bytes
        The first few of them: they decide whether payloads are wrapped, and whether times and decimals are texts.

    Raises
    ------
    pyarrow.ArrowInvalid
        When a line is not of these types, or not one object.
    """
    wrapped, texts = _look(lines[:_LOOKED_AT])
    after = [(f.name, _written_type(f.type, texts.get(f.name, False))) for f in fields]
    before = [(n, t) for n, t in after if n in key]
    envelope = [("before", pa.struct(before)), ("after", pa.struct(after)), ("op", pa.string())]
    table = pa.json.read_json(
        io.BytesIO(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema([("payload", pa.struct(envelope))] if wrapped else envelope),
            unexpected_field_behavior="ignore",
        ),
    )
    if table.num_rows != count:
        raise pa.ArrowInvalid(f"{table.num_rows} objects in {count} lines")
    table.validate(full=True)
    if wrapped:
        payload = table.column("payload").combine_chunks()
        return {n: pc.struct_field(payload, [i]) for i, n in enumerate(("before", "after", "op"))}
    return {n: table.column(n).combine_chunks() for n in ("before", "after", "op")}


def _look(lines: Sequence[bytes]) -> tuple[bool, dict[str, bool]]:
    """Whether messages are wrapped, and which columns are written as texts."""
    wrapped = False
    texts: dict[str, bool] = {}
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and "payload" in message:
            wrapped, message = True, message["payload"]
        if not isinstance(message, dict):
            continue
        for image in (message.get("before"), message.get("after")):
            for name, value in (image if isinstance(image, Mapping) else {}).items():
                if value is not None:
                    texts.setdefault(name, isinstance(value, str))
    return wrapped, texts


def _written_type(type_: pa.DataType, text: bool) -> pa.DataType:
    """The type to read a column with."""
    if pa.types.is_decimal(type_):
        return pa.string() if text else type_
    if pa.types.is_date(type_):
        return pa.string() if text else pa.int32()
    if pa.types.is_timestamp(type_):
        return pa.string() if text else pa.int64()
    return type_


def to_type(values: pa.Array[Any], type_: pa.DataType, unit: int) -> pa.Array[Any]:
    """A column as written in the type of the table; ArrowInvalid when a value does not fit it."""
    if values.type == type_:
        return values
    if not pa.types.is_string(values.type):
        if pa.types.is_timestamp(type_):
            values = pc.multiply_checked(values, unit)
        return values.view(type_)
    if pa.types.is_timestamp(type_):
        zoned = pc.match_substring_regex(values, r"(Z|[+-]\d\d:?\d\d)$")
        if pc.any(pc.xor(zoned, pa.scalar(type_.tz is not None))).as_py():
            raise pa.ArrowInvalid("a time with a zone in a column without, or the other way round")
    return values.cast(type_)


def flatten(images: pa.StructArray, index: int) -> pa.Array[Any]:
    """One column of a struct, NULL where the struct is."""
    field: pa.Array[Any] = pc.struct_field(images, [index])
    return field


def known_operations(operations: pa.Array[Any]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Where an operation inserts or replaces, and where it deletes."""
    puts = pc.is_in(operations, value_set=pa.array(["c", "r", "u"])).fill_null(False)
    deletes = pc.equal(operations, pa.scalar("d")).fill_null(False)
    return puts.to_numpy(zero_copy_only=False), deletes.to_numpy(zero_copy_only=False)
