"""What of a JSON record no column holds, as text: plain Python, for the records that the kernel does not do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it

from tidemill.formats.json.indexing.tree import Node
from tidemill.formats.rescue.object_texts import json_text

_BLANKS = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^,\]}\s]+")
_MARK = re.compile(r'["{}\[\]]')


def leftover(text: str, known: Node, wrong: Collection[tuple[str, ...]] = ()) -> str | None:
    """The keys of a valid record that are not known, and the values at some paths, as a JSON object; None without any.

    Values are as they are written. Of a key given twice the last value counts. An array or map of which an element or
    entry holds an unknown key is left over as a whole.

    Parameters
    ----------
    wrong : collection of tuple of str
        Paths of values that are left over though they are known.
    """
    return _object(text, _behind_blanks(text, 0), known, set(wrong), ())


def top_keys(text: str) -> list[str]:
    """The keys of a valid record, each once, in order."""
    return list(dict(_members(text, _behind_blanks(text, 0))))


def _object(text: str, at: int, node: Node, wrong: Collection[tuple[str, ...]], path: tuple[str, ...]) -> str | None:
    parts = []
    for name, (start, stop) in dict(_members(text, at)).items():
        child, place = node.fields.get(name), (*path, name)
        left: str | None
        if child is None or place in wrong:
            left = text[start:stop]
        else:
            left = _value(text, start, stop, child, wrong, place)
        if left is not None:
            parts.append(f"{json_text(name)}:{left}")
    return "{" + ",".join(parts) + "}" if parts else None


def _value(
    text: str, start: int, stop: int, node: Node, wrong: Collection[tuple[str, ...]], path: tuple[str, ...]
) -> str | None:
    """What is left over of a value that is known."""
    if text[start] == "{" and node.fields:
        return _object(text, start, node, wrong, path)
    below: Node | None = None
    spans: Iterator[tuple[int, int]] = iter(())
    if text[start] == "{" and node.value:
        below, spans = node.value, (span for _, span in _members(text, start))
    elif text[start] == "[" and node.element:
        below, spans = node.element, _elements(text, start)
    for first, last in spans:
        assert below is not None
        if _value(text, first, last, below, (), ()) is not None:
            return text[start:stop]
    return None


def _members(text: str, at: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Keys and spans of the values of the object that begins at ``at``."""
    at = _behind_blanks(text, at + 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1, True)
        start = _behind_blanks(text, _behind_blanks(text, at) + 1)
        stop = _behind_value(text, start)
        yield name, (start, stop)
        at = _behind_blanks(text, stop)
        if text[at] == ",":
            at = _behind_blanks(text, at + 1)


def _elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    at = _behind_blanks(text, at + 1)
    while text[at] != "]":
        stop = _behind_value(text, at)
        yield at, stop
        at = _behind_blanks(text, stop)
        if text[at] == ",":
            at = _behind_blanks(text, at + 1)


def _behind_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


def _behind_value(text: str, at: int) -> int:
    if text[at] not in '"{[':
        match = _SCALAR.match(text, at)
        assert match is not None, "the record is valid"
        return match.end()
    depth = 0
    while True:
        match = _MARK.search(text, at)
        assert match is not None, "the record is valid"
        at = match.end()
        if match[0] == '"':
            at = scanstring(text, at, True)[1]
        else:
            depth += 1 if match[0] in "{[" else -1
        if depth == 0:
            return at
