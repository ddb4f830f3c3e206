"""What epochs changed in views, computed once for all subscribers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pyarrow as pa

from tidemill.mill import Mill
from tidemill.runtime.read.selection import Selection
from tidemill.runtime.read.snapshot import Snapshot, first_rows
from tidemill.runtime.read.view_changes import net
from tidemill.serve.changes.position import Generations
from tidemill.serve.encoding import json_rows
from tidemill.serve.stored.cache import Cache, table_bytes


@dataclass(frozen=True)
class Followed:
    """A view with followers, and a selection.

    ``asked`` identifies it: columns and condition as they were written, and the view's id if there are any.
    """

    view: str
    asked: tuple[str, str | None, str]
    selection: Selection = field(compare=False, repr=False)


@dataclass(frozen=True)
class ChangeTable:
    """Rows of one view that one epoch changed.

    Attributes
    ----------
    key : hashable
        The same for all that is the same.
    epoch : int
    view : str
    table : pyarrow.Table
        The selected columns, and int64 ``__weight``; not empty.
    initial : bool
        Whether these are all rows at the epoch, and not its changes.
    """

    key: Hashable
    epoch: int
    view: str
    table: pa.Table
    initial: bool = False


class ChangeLog:
    """The changes of the newest epochs, as many as memory is given for; older ones are read from state again.

    All methods may be called from any thread.
    """

    def __init__(self, mill: Mill, generations: Generations, most_bytes: int) -> None:
        self._mill, self._generations = mill, generations
        self._cache = Cache(most_bytes)

    @property
    def held_bytes(self) -> int:
        """Bytes of the changes that are kept."""
        return self._cache.held_bytes

    def changes(self, followed: Followed, epoch: int, snapshot: Snapshot) -> list[ChangeTable]:
        """What an epoch changed: nothing, one table, or two when the columns of the view changed.

        Errors as :meth:`Snapshot.change_tables`; TM3xxx when the condition fails for a row.
        """
        return self._tables(followed, epoch, "changes", lambda: snapshot.change_tables(followed.view, epoch))

    def rows(self, followed: Followed, epoch: int, snapshot: Snapshot) -> list[ChangeTable]:
        """All rows at an epoch, as insertions. Errors as :meth:`Snapshot.read`."""
        return self._tables(followed, epoch, "rows", lambda: [first_rows(snapshot, followed.view, epoch)])

    def is_known(self, followed: Followed, epoch: int) -> bool:
        """Whether the changes of an epoch are in memory."""
        return self._cache.known((self._generations.current, "changes", followed, epoch))

    def _tables(
        self, followed: Followed, epoch: int, kind: str, read: Callable[[], list[pa.Table]]
    ) -> list[ChangeTable]:
        key = (self._generations.current, kind, followed, epoch)

        def make() -> list[ChangeTable]:
            found = [followed.selection.apply(t) for t in read()]
            initial = kind == "rows"
            if not initial and followed.asked[:2] != ("*", None):
                found = [net(t) for t in found]  # rows that differ only in columns that were not asked for
            return [ChangeTable((*key, i), epoch, followed.view, t, initial) for i, t in enumerate(found) if t.num_rows]

        return self._cache.get(key, make, lambda made: sum(table_bytes(t.table) for t in made))

    def json(self, change: ChangeTable, time_zone: str) -> bytes:
        """A table as ``{"epoch", "view", "changes"}``."""

        def make() -> bytes:
            return json_rows.changes(change.epoch, change.view, change.table, time_zone, change.initial)

        return self._cache.get(("json", change.key), make, len)

    def arrow(self, change: ChangeTable) -> bytes:
        """A table as an Arrow IPC stream, with epoch and view in the metadata of its schema."""

        def make() -> bytes:
            named = {"epoch": str(change.epoch), "view": change.view, "initial": str(change.initial).lower()}
            table = change.table.replace_schema_metadata(named)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            written: bytes = sink.getvalue().to_pybytes()
            return written

        return self._cache.get(("arrow", change.key), make, len)
