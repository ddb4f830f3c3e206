"""The bytes that a schema is inferred from: the beginnings of some files, never all data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidemill.formats.inference.options import InferenceOptions
from tidemill.formats.reading.feeding import FileBytes
from tidemill.formats.reading.whole_source import Source, WholeSource

_GROWTH = 4
_BUFFER_BYTES = 1 << 18


def chosen(sources: Sequence[Source], most: int) -> list[Source]:
    """At most so many sources, evenly over all of them, the first and the last among them."""
    if len(sources) <= most:
        return list(sources)
    if most == 1:
        return [sources[0]]
    return [sources[i * (len(sources) - 1) // (most - 1)] for i in range(most)]


def sample_texts(
    sources: Sequence[Source],
    options: Mapping[str, str],
    limits: InferenceOptions,
    take: Callable[[bytes, bool], bool],
) -> None:
    """Read the beginnings of text files, in order.

    Each gets an equal share of the bytes that remain. One whose first row is longer than its share is read further,
    as far as the bytes go.

    Parameters
    ----------
    take : callable
        Is given the first bytes of a file, decoded, and whether they are all; says whether there is a row in them.
    """
    picked = chosen(sources, limits.files)
    left = limits.bytes
    for number, source in enumerate(picked):
        share = max(1, left // (len(picked) - number))
        while True:
            data, whole = _beginning(source, options, share)
            if take(data, whole) or whole or share >= left:
                break
            share = min(share * _GROWTH, left)
        left = max(0, left - len(data))
        if not left:
            return


def _beginning(source: Source, options: Mapping[str, str], count: int) -> tuple[bytes, bool]:
    raw = WholeSource(source, _BUFFER_BYTES, options)
    try:
        path = str(source) if isinstance(source, str | Path) else ""
        file = FileBytes(raw, path, raw.size, options)
        data, damaged = file.first_bytes(count)
        whole = len(data) < count if file.compressed else count >= raw.size
        return data, whole and not damaged
    finally:
        raw.end()
