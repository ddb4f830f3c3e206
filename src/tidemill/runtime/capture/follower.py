"""Takes the transactions of a slot over into a spool, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from tidemill.connectors.postgres.errors import changed_shape, truncated, unfit
from tidemill.connectors.postgres.pgoutput import (
    NO_OLD_ROW,
    TRUNCATED,
    Relation,
    commit_end,
    lines_of,
    parse_relation,
)
from tidemill.connectors.postgres.replication import Replication
from tidemill.connectors.postgres.server import Column, Place
from tidemill.runtime.capture.positioned_spool import PositionedSpool

_BATCH_BYTES, _BATCH_SECONDS = 8 << 20, 0.05
"""When transactions are appended: by their bytes, or by how long the first one has waited."""

_NOTED_EVERY = 16 << 20
"""Bytes of the server's log without a change of the table after which a position is noted: the server may forget it."""

_TOGETHER = 1 << 16
"""So many messages are made into lines together."""

_ANSWER_SECONDS, _RECEIVE_SECONDS = 5.0, 0.05
_BEGIN, _COMMIT, _RELATION = ord("B"), ord("C"), ord("R")
_ROWS = frozenset(b"IUDT")


class Follower:
    """Receives what a slot has behind a position.

    Parameters
    ----------
    place : Place
    stream : Replication
        Started there.
    slot : str
    oid : int
        Of the table at the server.
    columns : sequence of Column
        Those of the table, in order, as they were when it was begun.
    spool : PositionedSpool
    position : int
    moved : callable
        Told up to where everything is in the spool.
    """

    def __init__(
        self,
        place: Place,
        stream: Replication,
        slot: str,
        oid: int,
        columns: Sequence[Column],
        spool: PositionedSpool,
        position: int,
        moved: Callable[[int], None],
    ) -> None:
        self._place, self._stream, self._slot = place, stream, slot
        self._oid, self._columns, self._spool = oid, columns, spool
        self.position = position
        self._moved = moved
        self._kinds = np.array([c.kind for c in columns], np.uint8)
        self._relation: Relation | None = None
        self._places = np.empty(0, np.int64)
        self._messages: list[bytes] = []
        self._within = False
        self._ended = self._acknowledged = position
        self._answered = time.monotonic()

    def proceed(self, asked: bool) -> None:
        """Take over what there is now, or comes within some milliseconds.

        Parameters
        ----------
        asked : bool
            Somebody waits to hear up to where everything has been received.

        Raises
        ------
        TidemillError
            TM5112 when the table cannot be followed any more, TM5114 when it was truncated; others as the server and
            the root. What is not in the spool by then is received again.
        """
        for message in self._stream.receive(_RECEIVE_SECONDS):
            self._take(message)
        self._commit_if_due()
        self._answer(asked)

    def _take(self, message: bytes) -> None:
        type_ = message[0]
        if type_ in _ROWS:
            self._messages.append(message)
            if len(self._messages) >= _TOGETHER:
                self._make_lines()
        elif type_ == _COMMIT:
            self._within = False
            self._make_lines()
            self._ended = commit_end(message)
            if self._spool.bytes >= _BATCH_BYTES:
                self._commit()
        elif type_ == _BEGIN:
            self._within = True
        elif type_ == _RELATION:
            self._make_lines()
            relation = parse_relation(message)
            if relation.oid == self._oid:
                self._describe(relation)

    def _describe(self, relation: Relation) -> None:
        """Take over the shape of the table from here on."""
        if (relation.schema, relation.name) != self._place.table:
            raise changed_shape(self._place.shown, f"it was renamed to {relation.schema}.{relation.name}")
        types = dict(zip(relation.columns, relation.type_ids, strict=True))
        for column in self._columns:
            if types.get(column.name) != column.type_id:
                what = "has another type" if column.name in types else "has gone"
                raise changed_shape(self._place.shown, f"its column {column.name} {what}")
        self._relation = relation
        self._places = np.array([relation.columns.index(c.name) for c in self._columns], np.int64)

    def _make_lines(self) -> None:
        messages, self._messages = self._messages, []
        if self._relation is None or not messages:
            return
        lines = lines_of(messages, self._relation.oid, self._places, self._kinds)
        if lines.ended == NO_OLD_ROW:
            name = self._place.identifier.as_string()
            hint = f"ALTER TABLE {name} REPLICA IDENTITY FULL, then DROP and CREATE the table here"
            raise unfit(self._place.shown, "a change does not say the whole old row", hint)
        if lines.ended == TRUNCATED:
            raise truncated(self._place.shown)
        self._spool.add(lines.text)

    def _commit_if_due(self) -> None:
        """Commit when transactions have waited; note a position when there was nothing for long."""
        if self._within:
            return
        if self._spool.bytes:
            if time.monotonic() - self._spool.since >= _BATCH_SECONDS:
                self._commit()
            return
        self._ended = max(self._ended, self._stream.reached)
        if self._ended - self.position >= (1 if self._stream.asked else _NOTED_EVERY):
            self._commit()
        self._moved(self._ended)

    def _commit(self) -> None:
        self._spool.commit(self._slot, self._ended)
        self.position = self._ended
        self._moved(self._ended)

    def _answer(self, asked: bool) -> None:
        """Acknowledge what is synced: now and then, or when the server waits for that, which it does before it ends."""
        if self._acknowledged < self.position and self._spool.sync(at_once=self._stream.asked):
            self._acknowledged = self.position
        elif not (asked or self._stream.asked) and time.monotonic() - self._answered < _ANSWER_SECONDS:
            return
        self._stream.acknowledge(self._acknowledged, asked)
        self._answered = time.monotonic()
