"""Delivers to one target: which epochs come next, read from a snapshot of the mill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.runtime.catalog.sinks import Sink
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.sinks.options import INITIAL_SNAPSHOT, ON_GAP, SNAPSHOT
from tidemill.sinks.registry import target_kind
from tidemill.sinks.target import Changes, Target

_MOST_ROWS = 1 << 20
"""About so many rows of several epochs are delivered together."""


class StoppedError(Exception):
    """A delivery was given up because the sink was paused, dropped or closed."""


@dataclass(frozen=True)
class Deliverable:
    """What may be delivered: a snapshot, and the newest durable epoch that it has."""

    snapshot: Snapshot
    durable: int


class Delivery:
    """The deliveries of one sink, by one thread.

    Only durable epochs are delivered: no crash takes them back. An epoch that was delivered is noted in
    :attr:`position`, which manifests store; a target that can tell its newest epoch is asked when it is opened, so
    that what was delivered after the last manifest is not delivered again.

    Parameters
    ----------
    sink : Sink
    position : int or None
        The last epoch that was delivered; None before the first.
    stopping : callable
        Whether to give up.
    """

    def __init__(self, sink: Sink, position: int | None, stopping: Callable[[], bool]) -> None:
        self.sink = sink
        self.position = position
        self._stopping = stopping
        self._target: Target | None = None
        self._asked = False
        """Whether the target has been asked for its position since the last failure."""

    def deliver(self, sealed: Deliverable) -> None:
        """Deliver all that is durable.

        Raises
        ------
        TidemillError
            TM8215 when changes have gone, TM8216 to TM8218; TM8213 when the target belongs to something else; those of
            the target; TM1030, TM1032, TM1033, TM1039 and TM1041 when the view cannot be read now.
        OSError
            Of a directory that cannot be written to.
        StoppedError
            When it was given up.
        """
        target = self._opened(sealed)
        if self.sink.mode == SNAPSHOT:
            self._replace(target, sealed)
            return
        if self.position is None and not self._begin(target, sealed):
            return
        while self.position is not None and self.position < sealed.durable:
            self._check_stopping()
            try:
                self._next(target, sealed)
            except TidemillError as error:
                if error.number != "TM1031":
                    raise
                self._bridge(target, sealed, error)

    def close(self) -> None:
        """Close connections, also after a failure; the next delivery opens them and asks for the position again."""
        self._asked = False
        if self._target is not None:
            self._target.close()

    def abort(self) -> None:
        """Make a delivery in progress on another thread fail soon."""
        target = self._target
        if target is not None:
            target.abort()

    def _opened(self, sealed: Deliverable) -> Target:
        sink = self.sink
        if self._target is None:
            if sink.missing_secrets:
                raise TidemillError(
                    "TM8217",
                    "a secret of this sink is missing",
                    got=f"{sink.name}: {', '.join(sink.missing_secrets)}",
                    hint="secrets are not stored: run the script again, or ALTER SINK name SET OPTIONS (...)",
                )
            zone = sealed.snapshot.catalog.time_zone
            self._target = target_kind(sink.target).make(sink.identity(zone), sink.options)
        if not self._asked:
            self._ask(self._target, sealed.snapshot.version.epoch)
            self._asked = True
        return self._target

    def _ask(self, target: Target, newest: int) -> None:
        """Take over the position of a target that knows it; begin again at one that has gone, if the sink may."""
        try:
            known = target.position(self.position is not None)
        except TidemillError as error:
            if error.number != "TM8218" or SNAPSHOT not in (self.sink.mode, ON_GAP.of(self.sink.options)):
                raise
            self.position = None
            known = target.position(False)
        if known is not None and known > newest:
            raise TidemillError(
                "TM8216",
                "the target of this sink has epochs that the root does not have",
                got=f"{self.sink.shown_location}: epoch {known}, and the root has {newest}",
                hint="the root was put back to an earlier state: create a sink with a new target",
            )
        if known is not None and (self.position is None or known > self.position):
            self.position = known

    def _begin(self, target: Target, sealed: Deliverable) -> bool:
        """Deliver the rows from which changes count; whether the view is complete by then."""
        snapshot, view = sealed.snapshot, self.sink.view
        snapshot.check_readable(view, None)
        found = snapshot.catalog.views.get(view)
        since = 0 if found is None or found.complete_since is None else found.complete_since
        first = max(self.sink.created_at_epoch, since)
        if first > sealed.durable:
            return False
        if INITIAL_SNAPSHOT.of(self.sink.options):
            try:
                self._write_rows(target, snapshot, first)
            except TidemillError as error:
                if error.number != "TM1031":
                    raise
                first = sealed.durable  # nothing was delivered before, so nothing is missing
                self._write_rows(target, snapshot, first)
        self.position = first
        return True

    def _next(self, target: Target, sealed: Deliverable) -> None:
        """Deliver the next epoch, or the next ones for a target that combines them."""
        assert self.position is not None
        epoch, rows, found = self.position, 0, list[Changes]()
        while epoch < sealed.durable and rows < _MOST_ROWS and not (found and not target.combines):
            try:
                tables = sealed.snapshot.change_tables(self.sink.view, epoch + 1)
            except TidemillError:
                if not found:
                    raise
                break  # the view fails at this epoch; those before are delivered, and the next call raises it
            other_columns = bool(found and tables and tables[0].schema != found[0].table.schema)
            if found and (len(tables) > 1 or other_columns):
                break
            epoch += 1
            if len(tables) > 1:  # the view was replaced by one of other columns
                self._write_rows(target, sealed.snapshot, epoch)
            elif tables:
                found.append(Changes(epoch, tables[0]))
                rows += tables[0].num_rows
            self._check_stopping()
        if found:
            target.changes(found)
        self.position = epoch

    def _bridge(self, target: Target, sealed: Deliverable, error: TidemillError) -> None:
        """Go on from all rows when changes have gone. TM8215 unless the sink says so."""
        if ON_GAP.of(self.sink.options) != SNAPSHOT:
            raise TidemillError(
                "TM8215",
                "the position of this sink has expired",
                got=f"{self.sink.name}: epoch {(self.position or 0) + 1} is gone; {error.got}",
                hint="ALTER SINK name SET OPTIONS (onGap 'snapshot') continues from all rows; the setting "
                "history_epochs says how many epochs are retained",
            ) from error
        self._write_rows(target, sealed.snapshot, sealed.durable)
        self.position = sealed.durable

    def _replace(self, target: Target, sealed: Deliverable) -> None:
        """Deliver all rows, if anything can have changed since the last time."""
        if self.position is not None and self.position >= sealed.durable:
            return
        if self.position is None or self._may_differ(sealed.snapshot, self.position, sealed.durable):
            self._write_rows(target, sealed.snapshot, sealed.durable)
        self.position = sealed.durable

    def _may_differ(self, snapshot: Snapshot, before: int, now: int) -> bool:
        view = self.sink.view
        snapshot.check_readable(view, now)
        if before < snapshot.version.horizon or snapshot.view_at(view, before) != snapshot.view_at(view, now):
            return True
        table = snapshot.plan(view, now).table.id
        written = (e for e in range(before + 1, now + 1) if snapshot.version.changes(table, e))
        return any(snapshot.change_tables(view, epoch) for epoch in written)

    def _write_rows(self, target: Target, snapshot: Snapshot, epoch: int) -> None:
        target.snapshot(epoch, self._interruptible(snapshot.read_parts(self.sink.view, epoch)))

    def _interruptible(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for part in parts:
            self._check_stopping()
            yield part

    def _check_stopping(self) -> None:
        if self._stopping():
            raise StoppedError
