"""SQL as a tree whose parts know what may take their place, so that a failing query can be made smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Part:
    """A piece of SQL.

    Attributes
    ----------
    pieces : tuple of str and Part
        What it is written as, one after the other.
    simpler : tuple of Part
        What may stand in its place; whether the query then still resolves is for Spark to say.
    """

    pieces: tuple[str | Part, ...]
    simpler: tuple[Part, ...] = ()

    def __str__(self) -> str:
        return "".join(map(str, self.pieces))


NOTHING = Part(())


def sql(pattern: str, *parts: Part | str | int) -> Part:
    """An expression: ``{}`` are its parts, each of which may take its place."""
    pieces = _fill(pattern, parts)
    return Part(pieces, tuple(p for p in parts if isinstance(p, Part)))


def fixed(pattern: str, *parts: Part | str | int) -> Part:
    """SQL that nothing takes the place of."""
    return Part(_fill(pattern, parts))


def clause(pattern: str, *parts: Part | str | int) -> Part:
    """SQL that may be left out."""
    return Part(_fill(pattern, parts), (NOTHING,))


def listed(parts: list[Part], separator: str = ", ") -> Part:
    """Parts with something between; with more than one of them each may be left out."""
    pieces: list[str | Part] = []
    for number, part in enumerate(parts):
        pieces += [separator, part] if number else [part]
    if len(parts) < 2:
        return Part(tuple(pieces))
    return Part(tuple(pieces), tuple(listed(parts[:i] + parts[i + 1 :], separator) for i in range(len(parts))))


def _fill(pattern: str, parts: tuple[Part | str | int, ...]) -> tuple[str | Part, ...]:
    texts = pattern.split("{}")
    assert len(texts) == len(parts) + 1, (pattern, parts)
    pieces: list[str | Part] = [texts[0]]
    for part, text in zip(parts, texts[1:], strict=True):
        pieces += [part if isinstance(part, Part) else str(part), text]
    return tuple(p for p in pieces if p != "")


def reductions(part: Part) -> Iterator[Part]:
    """The tree with one part replaced by something simpler, in all ways, the ones that take most away first."""
    whole = len(str(part))
    found = {str(r): r for r in _reductions(part)}
    yield from sorted((r for t, r in found.items() if len(t) < whole), key=lambda r: len(str(r)))


def _reductions(part: Part) -> Iterator[Part]:
    yield from part.simpler
    for number, piece in enumerate(part.pieces):
        if isinstance(piece, Part):
            for other in _reductions(piece):
                pieces = (*part.pieces[:number], other, *part.pieces[number + 1 :])
                yield replace(part, pieces=pieces, simpler=())
