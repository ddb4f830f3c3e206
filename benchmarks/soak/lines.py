"""Seeded random lines of tables, as CSV and JSON; some of them malformed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

_TEXTS = ("red", "green", "blue", "grey", "black", "white", "é", "")
_MALFORMED = 0.03


class Lines:
    """Gives the lines of one writer, numbered."""

    def __init__(self, chance: random.Random, kind: str, writer: int) -> None:
        self._chance, self._kind, self._writer = chance, kind, writer
        self._next = 0

    def take(self, count: int) -> list[str]:
        """The next so many lines."""
        return list(self._lines(count))

    def _lines(self, count: int) -> Iterator[str]:
        for number in range(self._next, self._next + count):
            yield self._csv(number) if self._kind == "csv" else self._json(number)
        self._next += count

    def _values(self) -> tuple[int, int, str]:
        chance = self._chance
        return chance.randrange(50), chance.randrange(1000), chance.choice(_TEXTS)

    def _csv(self, number: int) -> str:
        k, v, s = self._values()
        words = [str(self._writer), str(number), str(k), str(v), s]
        if self._chance.random() < _MALFORMED:
            kind = self._chance.randrange(4)
            if kind < 2:
                words[2 + kind] = self._chance.choice(("x7", "--", "ten"))
            elif kind == 2:
                words = words[:3]
            else:
                words.append("more")
        return ",".join(words)

    def _json(self, number: int) -> str:
        k, v, s = self._values()
        row: dict[str, object] = {"c": self._writer, "n": number, "k": k, "v": v, "s": s}
        if self._chance.random() < _MALFORMED:
            kind = self._chance.randrange(4)
            if kind < 2:
                row["k" if kind else "v"] = self._chance.choice(("x7", [1], {"z": 1}))
            elif kind == 2:
                del row["k"]
            else:
                return json.dumps(row)[: self._chance.randrange(2, 12)]
        return json.dumps(row, ensure_ascii=False)
