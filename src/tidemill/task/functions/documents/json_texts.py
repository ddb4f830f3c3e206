"""Columns of JSON texts as tokens, and values among these as columns of text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.json_tokens.rendering import ROOM, Numbers, put_values
from tidemill.formats.json_tokens.tokens import FRACTION, SPECIAL, Tokens, count_members, list_members, tokenise
from tidemill.task.functions.columns.compute import Array, buffer, pc
from tidemill.task.functions.columns.lists import Ints, offsets_of
from tidemill.task.functions.columns.numpy_values import Bytes, bitmap, text_bytes, validity
from tidemill.task.functions.numbers.number_text import float_text


def text_column(data: Bytes, offsets: Ints, missing: npt.NDArray[np.bool_]) -> Array:
    """Texts from their bytes and offsets."""
    buffers = [bitmap(~missing), buffer(offsets.astype(np.int32)), buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(missing), buffers)


def tokens_of(array: Array, extras: int) -> Tokens:
    """The tokens of a column of texts; a NULL has none."""
    data, offsets = text_bytes(array)
    found = tokenise(data, offsets, extras)
    if array.null_count:
        found.roots[~validity(array)] = -1
    return found


def token_texts(tokens: Tokens, chosen: Ints) -> Array:
    """The text of each chosen token as it is written, NULL for -1."""
    missing = chosen < 0
    if not len(tokens.kinds):
        return pa.nulls(len(chosen), pa.string())
    places = np.where(missing, 0, chosen)
    lengths = np.where(missing, 0, tokens.ends[places] - tokens.starts[places])
    offsets = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    source = np.arange(int(offsets[-1])) + np.repeat(tokens.starts[places] - offsets[:-1], lengths)
    return text_column(tokens.data[source], offsets, missing)


def members(tokens: Tokens, containers: Ints) -> tuple[Ints, Ints]:
    """Number of members of each array or object (keys count), and the tokens of all of them; -1 has none."""
    counts = np.zeros(len(containers), np.int64)
    count_members(tokens.after, containers, counts)
    offsets = offsets_of(counts)
    places = np.zeros(int(offsets[-1]), np.int64)
    list_members(tokens.after, containers, offsets, places)
    return counts, places


def java_numbers(tokens: Tokens, chosen: Ints) -> Numbers:
    """The doubles in some values as Java writes them; ``NaN`` and infinities in quotes."""
    slots = np.zeros(len(tokens.kinds), np.int64)
    inside = (tokens.kinds == FRACTION) | (tokens.kinds == SPECIAL)
    if inside.any():
        wanted = chosen[chosen >= 0]
        steps = np.zeros(len(tokens.kinds) + 1, np.int64)
        np.add.at(steps, wanted, 1)
        np.add.at(steps, tokens.after[wanted], -1)
        inside &= np.cumsum(steps[:-1]) > 0
    places = np.flatnonzero(inside)
    if not len(places):
        return Numbers(slots, np.zeros(1, np.uint8), np.zeros(2, np.int64))
    slots[places] = np.arange(len(places))
    values = doubles(token_texts(tokens, places))
    texts = float_text(values)
    finite = pc.is_finite(values)
    texts = pc.if_else(finite, texts, pc.binary_join_element_wise('"', texts, '"', ""))
    return Numbers(slots, *text_bytes(texts))


def kinds_of(tokens: Tokens, chosen: Ints) -> Ints:
    """The kind of each chosen token, -1 for -1."""
    if not len(tokens.kinds):
        return np.full(len(chosen), -1, np.int64)
    return np.where(chosen < 0, -1, tokens.kinds[np.where(chosen < 0, 0, chosen)].astype(np.int64))


def doubles(texts: Array) -> Array:
    """Numbers of JSON as doubles; ``INF`` is understood, too."""
    special = pc.match_substring(texts, "I")
    if pc.any(special).as_py():
        negative = pc.starts_with(texts, "-")
        texts = pc.if_else(special, pc.if_else(negative, "-inf", "inf"), texts)
    return texts.cast(pa.float64())


def rendered(tokens: Tokens, chosen: Ints, *, lenient: bool) -> Array:
    """Values as Jackson writes them, NULL for -1; a text that is the value itself without quotes.

    Half of a surrogate pair in that is ``?`` if ``lenient``, else the value is NULL.
    """
    wanted = chosen.astype(np.int64)
    content, offsets = put_texts(
        tokens,
        wanted,
        lambda numbers, done, out, offsets: put_values(tokens, numbers, wanted[done:], lenient, out, offsets),
    )
    return text_column(content, offsets, wanted < 0)


def put_texts(tokens: Tokens, chosen: Ints, put: Callable[[Numbers, int, Bytes, Ints], int]) -> tuple[Bytes, Ints]:
    """A text for each chosen token, as bytes and offsets; -1 is empty.

    Parameters
    ----------
    put : callable
        ``put(numbers, done, out, offsets)`` writes the texts from number ``done`` on and returns how many found room.
    """
    numbers = java_numbers(tokens, chosen)
    places = np.where(chosen < 0, 0, chosen)
    sizes = tokens.ends[places] - tokens.starts[places] if len(tokens.kinds) else np.zeros(len(chosen), np.int64)
    sizes[chosen < 0] = 0
    out = np.empty(int(sizes.sum()) * 5 // 4 + 64 + ROOM * int(sizes.max(initial=0)), np.uint8)
    offsets = np.zeros(len(chosen) + 1, np.int64)
    done = 0
    while done < len(chosen):
        done += put(numbers, done, out, offsets[done:])
        if done < len(chosen):
            out = np.concatenate([out, np.empty(len(out) + ROOM * int(sizes[done]) + 64, np.uint8)])
    return out[: offsets[-1]], offsets
