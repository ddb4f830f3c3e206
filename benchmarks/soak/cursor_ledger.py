"""A cursor, and the sum of what it gave."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tidemill as tm
from benchmarks.soak.error import SoakError
from benchmarks.soak.followers import rows_and_weights
from benchmarks.soak.model import Rows, added


class CursorLedger:
    """A durable cursor, fetched now and then; each change is given exactly once, also when answers are lost."""

    def __init__(self, client: tm.Client, view: str) -> None:
        self.view = view
        cursor = client.cursor(view)
        self.id, self.position = cursor.id, cursor.position
        self.sums: Rows = Counter()
        self.epoch = -1
        self.up_to_date = False
        self.fetches = self.behind = 0

    def fetch(self, client: tm.Client, rows: int, lose: bool) -> None:
        """Fetch so many rows; with ``lose`` as if the answer were lost, and again.

        Raises
        ------
        TidemillError
            TM8010 when it is behind, TM1036, TM8014 and others.
        """
        cursor = client.open_cursor(self.id)
        found = cursor.fetch(rows, after=self.position)
        if lose:
            again = client.open_cursor(self.id).fetch(rows, after=self.position)
            first, second = (_weighted(f.changes) for f in (found, again))
            if first != second[: len(first)]:
                raise SoakError(f"cursor of {self.view} at {self.position}: a repeated fetch gives other rows")
            found = again
        for row, weight in _weighted(found.changes):
            added(self.sums, [row], [weight])
        self.position, self.epoch, self.up_to_date = found.position, found.epoch, found.up_to_date
        self.fetches += 1


def _weighted(changes: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], int]]:
    found = []
    for change in changes:
        found += list(zip(*rows_and_weights(change.table), strict=True))
    return found
