"""A transaction of a connection: the one epoch that its statements read, and whether it has failed."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.errors import TidemillError
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.serve.postgres.session.savepoints import Savepoints

IDLE, IN_BLOCK, FAILED = "I", "T", "E"


class Transaction:
    """The state of transactions of a connection.

    Parameters
    ----------
    newest : callable
        The snapshot of the newest sealed epoch.
    """

    def __init__(self, newest: Callable[[], Snapshot]) -> None:
        self._newest = newest
        self._snapshot: Snapshot | None = None
        self.status = IDLE
        self.savepoints = Savepoints()

    @property
    def in_block(self) -> bool:
        """Whether BEGIN was given, and not yet ended."""
        return self.status != IDLE

    @property
    def is_reading(self) -> bool:
        """Whether it keeps the files of an epoch, or will: in a block, or before a statement has ended."""
        return self.in_block or self._snapshot is not None

    def snapshot(self) -> Snapshot:
        """What statements read: taken when the first one asks."""
        if self._snapshot is None:
            self._snapshot = self._newest()
        return self._snapshot

    def begin(self) -> None:
        """BEGIN. The epoch is that of the first statement that reads."""
        self.status = IN_BLOCK

    def end(self) -> None:
        """COMMIT or ROLLBACK; the next statement reads the newest epoch."""
        self.status, self._snapshot = IDLE, None
        self.savepoints.clear()

    def statement_ended(self) -> None:
        """A statement, or several that were sent as one, outside of a block has ended."""
        if not self.in_block:
            self._snapshot = None

    def fail(self) -> None:
        """An error: a block is good for nothing but its end."""
        if self.in_block:
            self.status = FAILED

    def go_on(self) -> None:
        """ROLLBACK TO SAVEPOINT: the block is as it was before it failed, at the same epoch."""
        self.status = IN_BLOCK

    def check(self) -> None:
        """TM8114 in a block that has failed."""
        if self.status == FAILED:
            raise TidemillError(
                "TM8114",
                "the transaction has failed: statements are ignored until it ends",
                got="",
                hint="ROLLBACK, or ROLLBACK TO SAVEPOINT",
            )
