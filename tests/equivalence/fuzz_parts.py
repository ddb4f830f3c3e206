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
    inner : tuple of int
        Positions of pieces that may stand in its place.
    is_list : bool
        Whether every second piece is one of a list, of which some may be left out.
    """

    pieces: tuple[str | Part, ...]
    simpler: tuple[Part, ...] = ()
    inner: tuple[int, ...] = ()
    is_list: bool = False

    def __str__(self) -> str:
        return "".join(map(str, self.pieces))

    def replacements(self) -> Iterator[Part]:
        """All that may stand in its place."""
        yield from self.simpler
        for number in self.inner:
            piece = self.pieces[number]
            if isinstance(piece, Part):
                yield piece
        if self.is_list and len(self.pieces) > 1:
            for number in range(0, len(self.pieces), 2):
                gone = slice(number, number + 2) if number == 0 else slice(number - 1, number + 1)
                left = list(self.pieces)
                del left[gone]
                yield replace(self, pieces=tuple(left))


NOTHING = Part(())


def sql(pattern: str, *parts: Part | str | int) -> Part:
    """An expression: ``{}`` are its parts, each of which may take its place."""
    pieces = _fill(pattern, parts)
    return Part(pieces, inner=tuple(range(len(pieces))))


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
    return Part(tuple(pieces), is_list=True)


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
    yield from part.replacements()
    for number, piece in enumerate(part.pieces):
        if isinstance(piece, Part):
            for other in _reductions(piece):
                pieces = (*part.pieces[:number], other, *part.pieces[number + 1 :])
                yield replace(part, pieces=pieces)


def words(query: str) -> set[str]:
    """The words of a query, among them the names of what it reads."""
    return set("".join(c if c.isalnum() or c == "_" else " " for c in query).split())
