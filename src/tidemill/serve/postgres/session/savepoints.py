"""Savepoints: what a transaction can be taken back to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.serve.postgres.protocol.errors import PostgresError

_MOST = 1_000


@dataclass(frozen=True)
class Savepoint:
    """A place in a transaction. It only reads, so there is nothing but settings and cursors to take back.

    Attributes
    ----------
    settings : tuple of dict
        As :meth:`ConnectionSettings.state` gives them.
    portals : frozenset of str
        Cursors that were open.
    """

    name: str
    settings: tuple[dict[str, str], dict[str, str]]
    portals: frozenset[str]


class Savepoints:
    """The savepoints of a transaction, the newest last. Names may be used again: the newest one of a name counts."""

    def __init__(self) -> None:
        self._made: list[Savepoint] = []

    def add(self, name: str, settings: tuple[dict[str, str], dict[str, str]], portals: Iterable[str]) -> None:
        """Make one. TM8012 for too many."""
        if len(self._made) >= _MOST:
            raise TidemillError(
                "TM8012", "a limit of the server is reached", got=f"{_MOST:,} savepoints", hint="RELEASE some"
            )
        self._made.append(Savepoint(name, settings, frozenset(portals)))

    def back_to(self, name: str) -> Savepoint:
        """Forget those behind the one of a name. TM8129 when there is none."""
        at = self._place(name)
        del self._made[at + 1 :]
        return self._made[at]

    def release(self, name: str) -> None:
        """Forget the one of a name, and those behind it. TM8129 when there is none."""
        del self._made[self._place(name) :]

    def clear(self) -> None:
        """The transaction has ended."""
        self._made.clear()

    def _place(self, name: str) -> int:
        found = [i for i, savepoint in enumerate(self._made) if savepoint.name == name]
        if not found:
            raise PostgresError("TM8129", "there is no savepoint of this name", name, "SAVEPOINT name", "3B001")
        return found[-1]
