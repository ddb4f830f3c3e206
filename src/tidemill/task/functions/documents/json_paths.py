"""JSON: get_json_object, json_tuple, json_array_length, json_object_keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.formats.json_tokens.paths import evaluate_path, last_values, parse_path
from tidemill.formats.json_tokens.rendering import Numbers
from tidemill.formats.json_tokens.tokens import ARRAY, CONTROL_CHARACTERS, OBJECT, SINGLE_QUOTES, Tokens
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, element_type, fields_of, null_where, nulls, pc
from tidemill.task.functions.columns.lists import Ints, Lists, offsets_of, put_together
from tidemill.task.functions.columns.numpy_values import Bytes, validity
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.documents.json_texts import members, put_texts, rendered, text_column, tokens_of

_HIVE = SINGLE_QUOTES | CONTROL_CHARACTERS
"""What these functions take beside JSON, as in Hive."""


@function("get_json_object")
def _get_json_object(call: Call, args: list[Value], rows: int) -> Value:
    texts = as_array(args[0], rows)
    if isinstance(args[1], pa.Scalar):
        return _at_path(texts, args[1].as_py())
    paths = args[1].dictionary_encode()
    result = nulls(rows, pa.string())
    for number, path in enumerate(paths.dictionary.to_pylist()):
        here = pc.fill_null(pc.equal(paths.indices, number), False)
        result = pc.replace_with_mask(result, here, _at_path(texts.filter(here), path))
    return result


def _at_path(texts: Array, path: str | None) -> Array:
    steps = None if path is None else parse_path(path)
    if steps is None:
        return pa.nulls(len(texts), pa.string())
    tokens = tokens_of(texts, _HIVE)
    rows = len(texts)
    if not len(tokens.kinds):
        return pa.nulls(rows, pa.string())
    found = np.zeros(rows, np.bool_)

    def put(numbers: Numbers, done: int, out: Bytes, offsets: Ints) -> int:
        return int(evaluate_path(tokens, numbers, steps, tokens.roots[done:], out, offsets, found[done:]))

    content, offsets = put_texts(tokens, tokens.roots, put)
    return text_column(content, offsets, ~found)


@function("json_tuple", strict=False)
def _json_tuple(call: Call, args: list[Value], rows: int) -> Value:
    """An array of one struct, so that it is a generator like ``inline``."""
    tokens = tokens_of(as_array(args[0], rows), _HIVE)
    chosen = [_field(tokens, arg, rows) for arg in args[1:]]
    fields = [rendered(tokens, c, lenient=False) for c in chosen]
    broken = np.logical_or.reduce([(c >= 0) & ~validity(f) for c, f in zip(chosen, fields, strict=True)])
    if broken.any():
        fields = [null_where(pa.array(broken), f) for f in fields]
    entries = pa.StructArray.from_arrays(fields, fields=fields_of(element_type(call.type)))
    return put_together(call.type, Lists(np.ones(rows, np.bool_), np.arange(rows + 1), entries))


def _field(tokens: Tokens, name: Value, rows: int) -> Ints:
    """The value of a field of each row, by a name that may differ from row to row."""
    if isinstance(name, pa.Scalar):
        return fields_called(tokens, tokens.roots, name.as_py(), skip_nulls=True)[0]
    names = name.dictionary_encode()
    chosen = np.full(rows, -1, np.int64)
    for number, text in enumerate(names.dictionary.to_pylist()):
        here = np.flatnonzero(pc.fill_null(pc.equal(names.indices, number), False).to_numpy(zero_copy_only=False))
        chosen[here], _ = fields_called(tokens, tokens.roots[here], text, skip_nulls=True)
    return chosen


def fields_called(
    tokens: Tokens, objects: Ints, name: str | None, *, skip_nulls: bool, before: Ints | None = None
) -> tuple[Ints, Ints]:
    """The token of the last value called ``name`` in each object, -1 where there is none, and how many there are.

    ``before`` leaves out values from a token on.
    """
    found, counts = np.full(len(objects), -1, np.int64), np.zeros(len(objects), np.int64)
    bounds = np.full(len(objects), -1, np.int64) if before is None else before
    if name is not None and len(tokens.kinds):
        last_values(tokens, objects, np.frombuffer(name.encode(), np.uint8), skip_nulls, bounds, found, counts)
    return found, counts


@function("json_array_length")
def _json_array_length(call: Call, args: list[Value], rows: int) -> Value:
    tokens = tokens_of(as_array(args[0], rows), _HIVE)
    counts, missing, _ = _members_of(tokens, ARRAY)
    return column(counts, missing).cast(pa.int32())


@function("json_object_keys")
def _json_object_keys(call: Call, args: list[Value], rows: int) -> Value:
    tokens = tokens_of(as_array(args[0], rows), _HIVE)
    counts, missing, places = _members_of(tokens, OBJECT)
    keys = rendered(tokens, places[::2], lenient=True)
    return put_together(call.type, Lists(~missing, offsets_of(counts // 2), keys))


def _members_of(tokens: Tokens, kind: int) -> tuple[Ints, np.ndarray, Ints]:
    """Number of members of each root of a kind (keys count), which rows have none, and the members."""
    if not len(tokens.kinds):
        return np.zeros(len(tokens.roots), np.int64), np.ones(len(tokens.roots), np.bool_), np.zeros(0, np.int64)
    missing = (tokens.roots < 0) | (tokens.kinds[tokens.roots] != kind)
    counts, places = members(tokens, np.where(missing, -1, tokens.roots))
    return counts, missing, places
