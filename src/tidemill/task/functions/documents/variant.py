"""VARIANT inside expressions: ``parse_json``, ``variant_get``, casts from it, ``to_json`` of it.

Such a value is kept as the JSON text it was parsed from, in a struct of one field. A number is what its text says: a
BIGINT where it fits, a DECIMAL without zeros at the end where it has no exponent and at most 38 digits, else a DOUBLE.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.formats.json_tokens.tokens import (
    ARRAY,
    ESCAPED,
    FALSE,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    TEXT,
    TRUE,
    Tokens,
    nth_members,
)
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, columns_of, element_type, null_unless, null_where, pc, repeat
from tidemill.task.functions.columns.lists import Ints, Lists, entries_of, offsets_of, put_together
from tidemill.task.functions.columns.numpy_values import Bools, validity
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function, try_cast
from tidemill.task.functions.documents.json_paths import fields_called
from tidemill.task.functions.documents.json_texts import kinds_of, members, rendered, token_texts, tokens_of
from tidemill.task.functions.documents.json_write import quoted
from tidemill.task.functions.numbers.number_text import float_text

VARIANT = pa.struct([pa.field("\0variant", pa.string())])

_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_DIGITS = 38


def parse_variant_path(text: str) -> tuple[tuple[str, str | int], ...] | None:
    """Keys and indices of ``$.a[0]['b']``; None where it is not a path."""
    if not text.startswith("$"):
        return None
    at = 1
    steps: list[tuple[str, str | int]] = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None
        index = found[2]
        if index is not None:
            steps.append(("index", int(index)))
        else:
            steps.append(("key", next(g for g in (found[1], found[3], found[4]) if g is not None)))
        at = found.end()
    return tuple(steps)


def _variants(texts: Array) -> Array:
    mask = None if not texts.null_count else pc.is_null(texts)
    return pa.StructArray.from_arrays([texts], fields=list(VARIANT), mask=mask)


def _parsed(value: Value, rows: int) -> Tokens:
    array = columns_of(as_array(value, rows))[0]
    return tokens_of(array, 0)


def _repeated_keys(tokens: Tokens) -> Bools:
    """Which roots hold an object with the same key repeated."""
    objects = np.flatnonzero(tokens.kinds == OBJECT)
    counts, places = members(tokens, objects)
    keys = rendered(tokens, places[::2], lenient=True).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(len(objects)), counts // 2)
    codes = owners * (int(keys.max(initial=0)) + 1) + keys
    _, firsts, times = np.unique(codes, return_index=True, return_counts=True)
    return _roots_of(tokens, objects[owners[firsts[times > 1]]])


def _half_surrogates(tokens: Tokens) -> Bools:
    """Which roots have a text with half of a surrogate pair."""
    escaped = np.flatnonzero((tokens.kinds == TEXT) & ((tokens.flags & ESCAPED) != 0))
    bad = escaped[~validity(rendered(tokens, escaped, lenient=False))]
    return _roots_of(tokens, bad)


def _roots_of(tokens: Tokens, inside: Ints) -> Bools:
    """The roots that hold the given tokens, as a mask."""
    present = np.flatnonzero(tokens.roots >= 0)
    result = np.zeros(len(tokens.roots), np.bool_)
    result[present[np.searchsorted(tokens.roots[present], inside, side="right") - 1]] = True
    return result


@function("parse_json", sql=("parse_json", "try_parse_json"), fails=fails_unless_try)
def _parse_json(call: Call, args: list[Value], rows: int) -> Value:
    texts = as_array(args[0], rows)
    tokens = tokens_of(texts, 0)
    bad, repeated = validity(texts) & (tokens.roots < 0), np.zeros(rows, np.bool_)
    if len(tokens.kinds):
        bad |= _half_surrogates(tokens)
        repeated = _repeated_keys(tokens)
    if call.option("mode") == "ansi" and (bad | repeated).any():
        row = int(np.flatnonzero(bad | repeated)[0])
        what = "a text is not JSON" if bad[row] else "an object of JSON has the same key repeated"
        raise EvaluationError("TM3004", what, got=repr(texts[row].as_py()), hint="try_parse_json gives NULL")
    return _variants(whole_texts(tokens, np.where(bad | repeated, -1, tokens.roots)))


def whole_texts(tokens: Tokens, chosen: Ints) -> Array:
    """The text of each chosen value as it was written, strings with their quotes; NULL for -1."""
    if not len(tokens.kinds):
        return pa.nulls(len(chosen), pa.string())
    wide = Tokens(
        tokens.data,
        tokens.kinds,
        tokens.flags,
        tokens.starts - (tokens.kinds == TEXT),
        tokens.ends + (tokens.kinds == TEXT),
        tokens.after,
        tokens.roots,
    )
    return token_texts(wide, chosen)


@function("is_variant_null", strict=False)
def _is_variant_null(call: Call, args: list[Value], rows: int) -> Value:
    tokens = _parsed(args[0], rows)
    return column(kinds_of(tokens, tokens.roots) == NULL)


@function("variant_get", sql=("variant_get", "try_variant_get", "variant:path", "CAST"), fails=fails_unless_try)
def _variant_get(call: Call, args: list[Value], rows: int) -> Value:
    tokens = _parsed(args[0], rows)
    chosen = tokens.roots
    for kind, step in call.option("path"):
        if kind == "key":
            chosen, _ = fields_called(tokens, chosen, step, skip_nulls=False)
        else:
            found = np.full(rows, -1, np.int64)
            if len(tokens.kinds):
                nth_members(tokens.kinds, tokens.after, chosen, step, found)
            chosen = found
    if call.type == VARIANT:
        return _variants(whole_texts(tokens, chosen))
    return _as(tokens, chosen, call.type, call.option("mode") == "try")


def _as(tokens: Tokens, chosen: Ints, type_: pa.DataType, lenient: bool) -> Array:
    """Values as a type; what cannot be cast is NULL or fails."""
    kinds = kinds_of(tokens, chosen)
    if pa.types.is_struct(type_):
        inside = kinds == OBJECT
        _check(tokens, chosen, (kinds >= 0) & (kinds != NULL) & ~inside, type_, lenient)
        objects = np.where(inside, chosen, -1)
        fields = [
            _as(tokens, fields_called(tokens, objects, f.name, skip_nulls=False)[0], f.type, lenient) for f in type_
        ]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=pa.array(~inside))
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        inside = kinds == (OBJECT if pa.types.is_map(type_) else ARRAY)
        _check(tokens, chosen, (kinds >= 0) & (kinds != NULL) & ~inside, type_, lenient)
        counts, places = members(tokens, np.where(inside, chosen, -1))
        if pa.types.is_map(type_):
            keys = rendered(tokens, places[::2], lenient=True)
            items = _as(tokens, places[1::2], type_.item_type, lenient)
            counts //= 2
            # A variant has its keys in order.
            ranks = pc.rank(keys.cast(pa.binary())).to_numpy() if len(keys) else np.zeros(0, np.int64)
            order = column(np.lexsort((ranks, np.repeat(np.arange(len(chosen)), counts))))
            values: Array = entries_of(keys.take(order), items.take(order))
        else:
            values = _as(tokens, places, element_type(type_), lenient)
        return put_together(type_, Lists(inside, offsets_of(counts), values))
    found = _scalars(tokens, chosen, kinds, type_)
    _check(tokens, chosen, (kinds >= 0) & (kinds != NULL) & ~validity(found), type_, lenient)
    return found


def _check(tokens: Tokens, chosen: Ints, bad: Bools, type_: pa.DataType, lenient: bool) -> None:
    if not lenient and bad.any():
        shown = whole_texts(tokens, chosen[np.flatnonzero(bad)[:1]])[0].as_py()
        raise EvaluationError("TM3003", "a value cannot be cast", got=f"{shown} as {type_}", hint="use try_variant_get")


def _scalars(tokens: Tokens, chosen: Ints, kinds: Ints, type_: pa.DataType) -> Array:
    if pa.types.is_string(type_):
        return variant_texts(tokens, np.where(kinds == NULL, -1, chosen), quote=False)
    number = (kinds == INTEGER) | (kinds == FRACTION)
    numbers = token_texts(tokens, np.where(number, chosen, -1))
    texts = rendered(tokens, np.where(kinds == TEXT, chosen, -1), lenient=True)
    truth = column(kinds == TRUE, (kinds != TRUE) & (kinds != FALSE))
    if pa.types.is_boolean(type_):
        values = numbers.cast(pa.float64())
        return pc.coalesce(truth, pc.not_equal(values, 0.0), try_cast(texts, type_))
    if pa.types.is_date(type_):
        return try_cast(texts, type_)
    if pa.types.is_integer(type_):
        exponent = pc.match_substring_regex(numbers, "[eE]")
        whole = null_where(exponent, pc.replace_substring_regex(numbers, r"\..*", ""))
        doubles = null_unless(exponent, numbers).cast(pa.float64())
        from_doubles = try_cast(doubles, type_)
        return pc.coalesce(try_cast(whole, type_), from_doubles, try_cast(truth, type_), try_cast(texts, type_))
    if pa.types.is_floating(type_):  # whole numbers and decimals have no negative zero
        numbers = pc.if_else(pc.match_substring_regex(numbers, r"^-0(?:\.0+)?$"), "0", numbers)
    return pc.coalesce(try_cast(numbers, type_), try_cast(truth, type_), try_cast(texts, type_))


@function("variant_to_json", sql=("to_json(variant)",))
def _variant_to_json(call: Call, args: list[Value], rows: int) -> Value:
    tokens = _parsed(args[0], rows)
    return variant_texts(tokens, tokens.roots, quote=True)


def variant_texts(tokens: Tokens, chosen: Ints, *, quote: bool) -> Array:
    """Values as Spark writes variants: keys in order, decimals without zeros at the end; NULL for -1."""
    kinds = kinds_of(tokens, chosen)
    texts = rendered(tokens, np.where(kinds == TEXT, chosen, -1), lenient=True)
    if quote:
        texts = quoted(texts)
    word = (kinds == TRUE) | (kinds == FALSE) | (kinds == NULL)
    words = token_texts(tokens, np.where(word, chosen, -1))
    number = (kinds == INTEGER) | (kinds == FRACTION)
    numbers = _number_texts(token_texts(tokens, np.where(number, chosen, -1)), quote)
    nested = np.flatnonzero((kinds == OBJECT) | (kinds == ARRAY))
    result = pc.coalesce(texts, words, numbers)
    if not len(nested):
        return result
    counts, places = members(tokens, chosen[nested])
    is_object = np.repeat(kinds[nested] == OBJECT, counts)
    offsets = offsets_of(counts)
    within = np.arange(len(places)) - np.repeat(offsets[:-1], counts)
    keys = is_object & (within % 2 == 0)
    values = variant_texts(tokens, places[~keys], quote=True)
    owners = np.repeat(np.arange(len(nested)), counts)[~keys]
    of_object = is_object[~keys]
    names = repeat(pa.scalar(""), len(values))
    order = np.argsort(owners, kind="stable")
    if keys.any():
        plain = rendered(tokens, places[keys], lenient=True)
        ranks = np.zeros(len(values), np.int64)
        ranks[of_object] = pc.rank(plain.cast(pa.binary())).to_numpy()
        names = pc.replace_with_mask(names, pa.array(of_object), pc.binary_join_element_wise(quoted(plain), ":", ""))
        order = np.lexsort((ranks, owners))
    members_ = pc.binary_join_element_wise(names, values, "").take(column(order))
    lengths = np.bincount(owners, minlength=len(nested)).astype(np.int64)
    every = np.ones(len(nested), np.bool_)
    inside = pc.binary_join(put_together(pa.list_(pa.string()), Lists(every, offsets_of(lengths), members_)), ",")
    here = pa.array(kinds[nested] == OBJECT)
    left, right = pc.if_else(here, "{", "["), pc.if_else(here, "}", "]")
    mask = np.zeros(len(chosen), np.bool_)
    mask[nested] = True
    return pc.replace_with_mask(result, pa.array(mask), pc.binary_join_element_wise(left, inside, right, ""))


def _number_texts(texts: Array, quote: bool) -> Array:
    """Numbers as variants are written; only those with a fraction, an exponent or many digits are looked at."""
    plain = pc.match_substring_regex(texts, r"^(?:-?[1-9][0-9]{0,17}|0)$")
    odd = np.flatnonzero(~pc.fill_null(plain, True).to_numpy(zero_copy_only=False))
    if not len(odd):
        return texts
    taken = texts.take(column(odd))
    written = [_decimal_text(str(text)) for text in taken.to_pylist()]
    doubles = null_unless(pa.array([w is None for w in written]), taken).cast(pa.float64())
    java = float_text(doubles)
    if quote:
        java = pc.if_else(pc.is_finite(doubles), java, pc.binary_join_element_wise('"', java, '"', ""))
    mask = np.zeros(len(texts), np.bool_)
    mask[odd] = True
    return pc.replace_with_mask(texts, pa.array(mask), pc.coalesce(pa.array(written, pa.string()), java))


def _decimal_text(text: str) -> str | None:
    """A number as BIGINT or DECIMAL; None where it is a DOUBLE."""
    if "e" in text or "E" in text:
        return None
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if max(len(digits), -exponent) > _DIGITS:
        return None
    shown = f"{number:f}"
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown
