"""Views at a sealed epoch, read from state files without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.loading.nodes.names import INPUT
from tidemill.runtime.catalog.catalog import Catalog, View
from tidemill.runtime.durability.migrations import migrated
from tidemill.runtime.read.pause_status import paused_detail, paused_error
from tidemill.runtime.tables.suffixes import ERRORS_SUFFIX, FILES_SUFFIX, STATUS_SUFFIX
from tidemill.schema import WEIGHT, Field, Schema, type_to_ddl
from tidemill.state.store.store import RunStore, default_buffer
from tidemill.state.versions.lease import Lease
from tidemill.state.versions.manifest import ManifestLog, no_root
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run, Version
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.read_view import read_view, reader_of, sealed_parts
from tidemill.task.program.read_plan import ReadPlan

if TYPE_CHECKING:
    from tidemill.plan.loading.plan import Scan
    from tidemill.runtime.catalog.sinks import SinkStatus
    from tidemill.runtime.files.file_progress import FileProgress
    from tidemill.runtime.intake.queues import Queues
    from tidemill.runtime.read.sealed_view import SealedView
    from tidemill.runtime.read.view_index import ViewIndex
    from tidemill.runtime.tables.table import Table

_PART_ROWS = 1 << 16


@dataclass(frozen=True)
class Snapshot:
    """A sealed version with its catalog. Immutable; reading it needs no lock.

    ``initialising`` are views whose history is still being read, with the bytes that remain; ``counts`` how many rows
    of a table have been read, and how many of these are malformed. ``socket_status`` gives the status of a table's
    connections, where a mill runs in this process, ``queues`` what waits to be admitted, and ``sink_statuses`` those
    of sinks by id. ``lease`` keeps the files of a root that another process writes.
    """

    store: RunStore
    version: Version
    catalog: Catalog
    initialising: Mapping[str, int]
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    socket_status: Callable[[str], pa.Table] | None = None
    lease: Lease | None = None
    sink_statuses: Callable[[], Mapping[str, SinkStatus]] = dict
    queues: Callable[[], Queues] | None = None
    plans: dict[str, ReadPlan] = field(default_factory=dict, compare=False, repr=False)
    """Read plans made so far, by view: the same for all epochs of one catalog."""

    @staticmethod
    def open(root: str | os.PathLike[str]) -> Snapshot:
        """The newest durable version of a root, with or without a mill running on it.

        Raises
        ------
        TidemillError
            TM1001 when there is no root, TM1002 when a newer version wrote it, TM1004 when it is damaged.
        """
        objects = Objects(root)
        lease = Lease(objects.directory)
        manifest = ManifestLog(objects, create=False).latest()
        if manifest is None:
            raise no_root(objects)
        manifest = migrated(manifest)
        store = RunStore(objects, default_buffer(objects))
        return replace(from_manifest(store, manifest.version, manifest.catalog), lease=lease)

    def plan(self, name: str, epoch: int | None = None) -> ReadPlan:
        """How a view, or the errors of a table, are read at an epoch.

        TM2012 when there is no such view, TM2036 for a table.
        """
        if name not in self.catalog.views:
            table = self.catalog.tables.get(name.removesuffix(ERRORS_SUFFIX))
            if table is not None and name.endswith(ERRORS_SUFFIX):
                return table.errors_plan()
            if name not in self.catalog.readable_tables():
                if table is not None:
                    raise self.catalog.only_read_through_views(name)
                raise self.catalog.unknown(name, "view")
        views = self.catalog.views if epoch is None else self.catalog.views_at(epoch)
        view = views.get(name)
        if view is not None and view.read is not None:
            return view.read
        usual = views == self.catalog.views
        if usual and name in self.plans:
            return self.plans[name]
        from tidemill.plan.lowering.assemble import Assembler

        sources = {t.name: t.source() for t in self.catalog.tables.values()}
        plan = Assembler([v.definition for v in views.values()], sources).read_plan(name)
        if usual:
            self.plans[name] = plan
        return plan

    def socket_names(self) -> dict[str, str]:
        """Names of the status tables of sockets, and their tables."""
        return {t.name + STATUS_SUFFIX: t.name for t in self.catalog.tables.values() if t.pushed}

    def file_names(self) -> dict[str, Table]:
        """Names of the file tables of tables with files, and their tables."""
        return {t.name + FILES_SUFFIX: t for t in self.catalog.tables.values() if t.listed}

    def unreadable_files(self) -> dict[str, list[FileProgress]]:
        """Files that could not be read, by table; tables without any are left out."""
        from tidemill.runtime.durability.sealed_tables import SealedTables
        from tidemill.runtime.read.file_status import unreadable

        sealed = SealedTables(self.store, self.version)
        found = {t.name: unreadable(t, sealed.reader) for t in self.file_names().values()}
        return {name: files for name, files in found.items() if files}

    def _files(self, table: Table, epoch: int | None) -> pa.Table:
        from tidemill.runtime.read.file_status import file_parts

        found = []
        for plan, shaped in file_parts(table):
            opened = [self.store.open(r) for r in self.runs(plan, epoch)]
            found.append(shaped(to_table(plan, read_view(plan, reader_of(plan.table, opened), single_row=False))))
        return pa.concat_tables(found)

    def connections(self, name: str) -> pa.Table:
        """The status of a socket's connections; ``name`` is one of :meth:`socket_names`.

        Where the mill runs in another process it is about a second old.
        """
        table = self.socket_names()[name]
        directory = self.store.objects.directory
        if self.socket_status is None and directory is not None:
            from tidemill.runtime.sockets.socket_status import read_status

            return read_status(directory, self.catalog.tables[table])
        assert self.socket_status is not None, "only a root in a directory has sockets"
        return self.socket_status(table)

    def view_at(self, name: str, epoch: int | None) -> View | None:
        """The view of a name at an epoch; None for the errors of a table."""
        views = self.catalog.views if epoch is None else self.catalog.views_at(epoch)
        return views.get(name)

    def readable_at(self, name: str, epoch: int) -> bool:
        """Whether a view can be read at an epoch."""
        try:
            self.check_readable(name, epoch)
        except TidemillError:
            return False
        return self.first_epoch(name) <= epoch

    def readable(self, name: str) -> bool:
        """Whether there is a view, a table that can be read, or an errors table, of this name."""
        return (
            name in self.catalog.views
            or name in self.socket_names()
            or name in self.file_names()
            or name in self.catalog.readable_tables()
            or (name.endswith(ERRORS_SUFFIX) and name.removesuffix(ERRORS_SUFFIX) in self.catalog.tables)
        )

    def status(self) -> list[tuple[str, str, int, str]]:
        """For each view its name, status, epoch of creation and detail.

        Status is ``fresh``, ``initialising``, ``failing``, ``failed`` or ``paused``.
        """
        rows = []
        for view in self.catalog.views.values():
            status, detail = "fresh", ""
            if view.failure is not None:
                status, detail = "failed", f"epoch {view.failed_at}: {view.failure}"
            elif view.paused is not None:
                status, detail = "paused", paused_detail(view.paused)
            elif (failing := self.catalog.failing_since(view.name)) is not None and view.name not in self.initialising:
                status, detail = "failing", f"since epoch {failing[0]}: {failing[1]}"
            elif view.name in self.initialising:
                status, detail = "initialising", f"{self.initialising[view.name]} bytes remain"
            replacement = self.catalog.pending.get(view.name)
            if replacement is not None:
                remaining = self.initialising.get(replacement.name, 0)
                detail += f"{'; ' if detail else ''}is being replaced, {remaining} bytes remain"
            elif view.refused is not None:
                detail += f"{'; ' if detail else ''}{view.refused}"
            rows.append((view.name, status, view.created_at_epoch, detail))
        return rows

    def show(self, kind: str) -> pa.Table:
        """The answer of SHOW TABLES (``tables``), SHOW VIEWS (``views``), and so on."""
        if kind in ("connectors", "formats", "options"):
            from tidemill.runtime.read.declared import DECLARED

            return DECLARED[kind]()
        if kind == "sinks":
            from tidemill.runtime.catalog.sinks import shown

            return shown(self.catalog.sinks, self.sink_statuses())
        if kind == "queues":
            from tidemill.runtime.read.queue_status import queue_table

            queues = None if self.queues is None else self.queues()
            return queue_table(self.catalog, self.version.epoch, self.initialising, queues)
        text: pa.DataType = pa.string()
        number: pa.DataType = pa.int64()
        if kind == "tables":
            columns = [("name", text), ("format", text), ("path", text), ("rows_read", number), ("malformed", number)]
            schema = pa.schema(columns)
            found = [(t.name, t.format, t.path, *self.counts.get(t.name, (0, 0))) for t in self.catalog.tables.values()]
            return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema)
        schema = pa.schema([("name", text), ("status", text), ("created_at_epoch", number), ("detail", text)])
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in self.status()], schema)

    def describe(self, name: str) -> pa.Table:
        """The answer of DESCRIBE: name, type and nullability of the columns of anything that a query can read.

        TM2012 when there is nothing of this name.
        """
        if name in self.socket_names():
            schema = Schema(tuple(Field(f.name, f.type, f.nullable) for f in self.connections(name).schema))
        elif name in self.file_names():
            from tidemill.runtime.read.file_status import FILES_SCHEMA

            schema = FILES_SCHEMA
        elif self.readable(name) and name not in self.catalog.views and name not in self.catalog.tables:
            schema = self.schema(name)
        else:
            schema, _ = self.catalog.described(name)
        names = [f.name for f in schema], [type_to_ddl(f.type) for f in schema], [f.nullable for f in schema]
        return pa.table(dict(zip(("col_name", "data_type", "nullable"), names, strict=True)))

    def schema(self, name: str) -> Schema:
        """Columns of a view."""
        return self.plan(name).schema

    def runs(self, plan: ReadPlan, epoch: int | None = None) -> tuple[Run, ...]:
        """The runs behind a view at an epoch, also at an expired one if nothing was written since."""
        newest = self.version.runs(plan.table.id)
        if epoch is not None and epoch < self.version.horizon and all(r.epoch_high <= epoch for r in newest):
            return newest
        return self.version.runs(plan.table.id, epoch)

    def read(self, name: str, epoch: int | None = None) -> pa.Table:
        """All rows of a view.

        Parameters
        ----------
        epoch : int, optional
            A sealed epoch that is still retained; the newest by default.

        Returns
        -------
        pyarrow.Table
            Columns as :meth:`schema`, duplicates repeated, no particular order. All of it is in memory, each column
            in one chunk unless the view has more than 2 GiB.

        Raises
        ------
        TidemillError
            TM2012 no such view, TM1030 still initialising, TM1031 epoch not available.
        """
        table = pa.concat_tables(self.read_parts(name, epoch))
        return table.combine_chunks() if table.nbytes < 1 << 31 else table

    def read_parts(self, name: str, epoch: int | None = None) -> Iterator[pa.Table]:
        """As :meth:`read`, in tables of at most 65,536 rows that are made when they are asked for; at least one."""
        if name.endswith(STATUS_SUFFIX) and name in self.socket_names():
            return iter((self.connections(name),))
        self.check_readable(name, epoch)
        if name.endswith(FILES_SUFFIX) and name in self.file_names():
            return iter((self._files(self.file_names()[name], epoch),))
        return self._parts(self.plan(name, epoch), epoch)

    def count(self, name: str) -> int:
        """How many rows a view has, by the weights of its rows. Errors as :meth:`read`."""
        self.check_readable(name, None)
        plan = self.plan(name)
        runs = [self.store.open(r) for r in self.runs(plan)]
        return sum(int(delta.explicit_weights().sum()) for delta in sealed_parts(plan, runs))

    def _parts(self, plan: ReadPlan, epoch: int | None) -> Iterator[pa.Table]:
        some = False
        for delta in sealed_parts(plan, [self.store.open(r) for r in self.runs(plan, epoch)]):
            for table in tables_of(plan, delta, _PART_ROWS):
                some = True
                yield table
        if not some:
            yield plan.arrow_schema.empty_table()

    def index(self, name: str, on: str | Sequence[str], epoch: int | None = None) -> ViewIndex:
        """A view at an epoch as an index for :meth:`tidemill.plan.Plan.lookup_join`.

        Parameters
        ----------
        on : str or sequence of str
            The columns whose values are looked up; upper and lower case are the same, as in SQL.
        epoch : int, optional
            As for :meth:`read`.

        Raises
        ------
        TidemillError
            As :meth:`read`; TM4006 for a column that the view does not have.
        """
        from tidemill.runtime.read.view_index import ViewIndex

        view = self._sealed(name.lower(), epoch)
        return ViewIndex(view, view.named((on,) if isinstance(on, str) else on, "on"))

    def scan(
        self,
        view: str,
        *,
        name: str = INPUT,
        columns: Sequence[str] | None = None,
        splits: int = 64,
        epoch: int | None = None,
    ) -> Scan:
        """A view at an epoch as rows for a task or a loader, in the order of its state.

        Parameters
        ----------
        name : str
            By which a task is given splits for it.
        columns : sequence of str, optional
            Those that are wanted, in that order.
        splits : int
            Into how many parts it is divided, 1 to 256; each is read by one thread or task.
        epoch : int, optional
            As for :meth:`read`.

        Raises
        ------
        TidemillError
            As :meth:`read`; TM4006 for a column that the view does not have, TM4003 for another number of splits.
        """
        from tidemill.plan.loading.nodes.sources import ScanNode  # who only reads a view waits for neither of them
        from tidemill.plan.loading.plan import Scan
        from tidemill.runtime.read.view_rows import ViewRows

        sealed = self._sealed(view.lower(), epoch)
        wanted = tuple(sealed.plan.schema.names) if columns is None else sealed.named(columns, "columns")
        return Scan(ScanNode(name, ViewRows(sealed, wanted, splits)))

    def _sealed(self, name: str, epoch: int | None) -> SealedView:
        from tidemill.runtime.read.sealed_view import SealedView

        self.check_readable(name, epoch)
        plan = self.plan(name, epoch)
        view = self.view_at(name, epoch)
        at = self.version.epoch if epoch is None else epoch
        identity = f"{name if view is None else view.uid} at epoch {at}"
        return SealedView(self.store, plan, self.runs(plan, epoch), identity, self)

    def changes(self, name: str, epoch: int) -> pa.Table:
        """What one epoch changed in a view.

        Returns
        -------
        pyarrow.Table
            Columns as :meth:`schema`, then int64 ``__weight``: added to the rows of the epoch before, they
            give the rows of this epoch. Each row occurs once, with its net weight.

        Raises
        ------
        TidemillError
            As :meth:`read`; TM1031 also when the epoch before has expired; TM1035 when the view was
            replaced by one of other columns at this epoch.
        """
        tables = self.change_tables(name, epoch)
        if len(tables) > 1:
            raise TidemillError(
                "TM1035",
                "the columns of this view changed at this epoch",
                got=f"{name}, epoch {epoch}",
                hint="change_tables() gives the rows that went and those that came",
            )
        from tidemill.runtime.read.view_changes import nothing

        return tables[0] if tables else nothing(self.plan(name, epoch))

    def change_tables(self, name: str, epoch: int) -> list[pa.Table]:
        """As :meth:`changes`: one table, none when nothing changed, two when the columns did: old rows out, new in.

        Epochs at which rows made the view fail have no changes once the view is right again: the first epoch after
        them has all changes since the last one before. So have those at which it was paused, once it is maintained.
        """
        if self._was_paused(name, epoch):
            return []
        if epoch > 0 and self.catalog.failing_since(name) is None:
            if self.catalog.failing_since(name, epoch) is not None:
                return []
            before = epoch - 1
            while before >= 0 and (error := self.catalog.failing_since(name, before)) is not None:
                before = error[0] - 1
            if before < epoch - 1:
                return self._exchanged(name, epoch, before)
        self.check_readable(name, epoch)
        if epoch > 0:
            before = self._before(name, epoch)
            self.check_readable(name, before)
            if self.view_at(name, epoch) != self.view_at(name, epoch - 1):
                return self._exchanged(name, epoch, before)
        found = self._changes(name, epoch)
        return [found] if found.num_rows else []

    def _was_paused(self, name: str, epoch: int) -> bool:
        """Whether a view that is maintained was paused at an epoch."""
        now, then = self.catalog.views.get(name), self.view_at(name, epoch)
        if now is None or now.paused is not None or then is None or then.paused is None:
            return False
        return epoch > then.paused.epoch

    def _before(self, name: str, epoch: int) -> int:
        """The newest epoch before another one as of which a view can be read: it may have been paused since."""
        view = self.view_at(name, epoch - 1)
        return epoch - 1 if view is None or view.paused is None else min(view.paused.epoch, epoch - 1)

    def _exchanged(self, name: str, epoch: int, before: int) -> list[pa.Table]:
        """The difference between a view at an epoch and at one before, where it is empty before its first."""
        from tidemill.runtime.read.view_changes import net

        new = _with_weight(self.read(name, epoch), 1)
        if before < self.first_epoch(name) and self.version.horizon <= before:
            return [new] if new.num_rows else []
        old = _with_weight(self.read(name, before), -1)
        if old.schema != new.schema:
            return [net(t) for t in (old, new) if t.num_rows]
        found = net(pa.concat_tables([old, new]))
        return [found] if found.num_rows else []

    def _changes(self, name: str, epoch: int) -> pa.Table:
        from tidemill.runtime.read.view_changes import changes_of

        plan = self.plan(name, epoch)
        changed = [self.store.open(r) for r in self.version.changes(plan.table.id, epoch)]
        return changes_of(plan, changed, lambda: [self.store.open(r) for r in self.runs(plan, epoch - 1)])

    def _unwritten_since(self, name: str, epoch: int) -> bool:
        runs = self.version.runs(self.plan(name).table.id)
        return all(run.epoch_high <= epoch for run in runs)

    def first_epoch(self, name: str) -> int:
        """The oldest epoch from which on a view can be read."""
        view = self.catalog.views.get(name)
        if view is None:
            created_at_epoch = self.catalog.tables[name].created_at_epoch if name in self.catalog.tables else 0
            return max(self.version.horizon, created_at_epoch)
        since = view.created_at_epoch if view.complete_since is None else view.complete_since
        for former in reversed(self.catalog.former):
            if former.view.name == name and former.view.complete_since is not None and former.view.failure is None:
                since = former.view.complete_since
            elif former.view.name == name:
                break
        first = max(self.version.horizon, since)
        while first < self.version.epoch and self.catalog.failing_since(name, first) is not None:
            first += 1
        return first

    def check_readable(self, name: str, epoch: int | None) -> None:
        """TM1030 to TM1033, or TM1039, when a view cannot be read at an epoch."""
        view = self.view_at(name, epoch)
        if view is not None and view.failure is not None and view.complete_since is None:
            raise TidemillError(
                "TM1032",
                "this view failed before it was complete",
                got=f"{name}, epoch {view.failed_at}: {_brief(view.failure)}",
                hint=f"DROP VIEW {name} and create it again without the expression that fails",
            )
        newest = self.version.epoch if epoch is None else epoch
        if view is not None and view.paused is not None:
            kept = view.paused.epoch >= self.version.horizon or self._unwritten_since(name, view.paused.epoch)
            if newest > view.paused.epoch or view.complete_since is None:
                raise paused_error(view, view.paused, kept)
            if newest == view.paused.epoch and kept:
                return
        if name in self.initialising:
            remaining = self.initialising[name]
            raise TidemillError(
                "TM1030",
                "this view is initialising: it does not have its whole history yet",
                got=f"{name}: {remaining:,} bytes remain" if remaining else f"{name}: its first epoch is to come",
                hint="run the mill until the view has caught up; other views are not affected",
            )
        if view is not None and view.failed_at is not None and newest >= view.failed_at:
            raise TidemillError(
                "TM1033",
                "this view failed and is no longer kept fresh",
                got=f"{name}, epoch {view.failed_at}: {_brief(view.failure or '')}",
                hint=f"read it as of epoch {view.failed_at - 1}, or DROP VIEW {name} and create it again without "
                "the expression that fails",
            )
        failing = self.catalog.failing_since(name, epoch)
        if failing is not None:
            raise TidemillError(
                "TM1039",
                "a row makes this view fail for now",
                got=f"{name}, since epoch {failing[0]}: {_brief(failing[1])}",
                hint="it is right again once that row is deleted or replaced; epochs before can be read, and the "
                "try_ form of the function gives NULL instead",
            )
        first = self.first_epoch(name)
        if view is not None and view.failed_at is not None and view.complete_since is not None:
            first = min(first, max(self.version.horizon, view.complete_since))  # it failed, and was replaced later
        if epoch is not None and not first <= epoch <= self.version.epoch:
            raise TidemillError(
                "TM1031",
                "this epoch cannot be read",
                got=f"epoch {epoch}; available: {first} to {self.version.epoch}",
                hint="the setting history_epochs says how many epochs are retained; a view created later begins when "
                "it is complete",
            )


def from_manifest(store: RunStore, version: Version, data: Mapping[str, Any]) -> Snapshot:
    """The snapshot that a manifest describes."""
    catalog, counts = Catalog.from_json(data["catalog"]), data.get("counts", {})

    def statuses() -> dict[str, SinkStatus]:
        from tidemill.runtime.catalog.sinks import SinkStatus

        return {id_: SinkStatus("", epoch) for id_, epoch in data.get("sinks", {}).items()}

    return Snapshot(store, version, catalog, data["filling"], counts, sink_statuses=statuses)


def to_table(plan: ReadPlan, delta: Delta) -> pa.Table:
    """A delta with positive weights as a table with the view's column names."""
    if delta.weights is not None:
        delta = Delta(delta.take(np.repeat(np.arange(len(delta)), delta.weights)).batch)
    return pa.Table.from_arrays(delta.batch.columns, schema=plan.arrow_schema)


def tables_of(plan: ReadPlan, delta: Delta, most: int) -> Iterator[pa.Table]:
    """As :func:`to_table`, in tables of at most so many rows: a row may occur any number of times."""
    ends = np.cumsum(delta.explicit_weights())
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, most):
        rows = np.searchsorted(ends, np.arange(start, min(start + most, total)), side="right")
        yield to_table(plan, Delta(delta.take(rows).batch))


def first_rows(snapshot: Snapshot, view: str, epoch: int) -> pa.Table:
    """The rows of a view at an epoch as insertions, with which its changes begin."""
    return _with_weight(snapshot.read(view, epoch), 1)


def _with_weight(table: pa.Table, weight: int) -> pa.Table:
    weights = pa.array(np.full(table.num_rows, weight, np.int64))
    return table.append_column(pa.field(WEIGHT, pa.int64(), False), weights)


def _brief(failure: str) -> str:
    """Number, message and what was found, without the hint."""
    return ", ".join(line.strip().removeprefix("got:").strip() for line in failure.splitlines()[:2])
