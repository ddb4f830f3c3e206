"""The part of a mill that carries out statements: they take turns with its epochs, and change all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import (
    AlterSink,
    AlterTable,
    AlterView,
    CreateSink,
    CreateTable,
    CreateView,
    Statement,
)
from tidemill.runtime.catalog import small_tables
from tidemill.runtime.catalog.adaptors import Adaptor
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.catalog.changes import adaptor_changes, definitions, sink_changes
from tidemill.runtime.catalog.changes.declaration import Declaration
from tidemill.runtime.catalog.view_plans import with_names, with_read_plans
from tidemill.runtime.epoch.mill_state import MillState
from tidemill.runtime.epoch.turns import Ticket, Turns
from tidemill.runtime.root import Root

LOSSES = ("TM1015", "TM1018")
"""Errors of sealed epochs that were lost before they were durable."""


class CatalogStatements(MillState):
    """Changes the catalogue of a mill, and makes its state durable.

    Attributes
    ----------
    rollbacks : list of int
        The epochs to which the mill went back, each time that sealed ones were lost.
    """

    def __init__(self, root: Root, settings: Settings, spark: SparkSession) -> None:
        super().__init__(root, settings, spark)
        self._turns = Turns(str(root.objects))
        self.rollbacks: list[int] = []

    # -- turns --------------------------------------------------------------------------------------

    @contextmanager
    def turn(self, timeout: float | None = None, ticket: Ticket | None = None) -> Iterator[None]:
        """Wait for a turn at changing the mill, and publish what has changed at its end. Parameters as `Turns.turn`."""
        with self._turns.turn(timeout, ticket) as outermost:
            try:
                yield
            finally:
                if outermost:
                    self._publish()

    def ticket(self) -> Ticket:
        """A place in the queue for :meth:`turn`."""
        return self._turns.ticket()

    def give_back(self, ticket: Ticket) -> None:
        """As :meth:`Turns.give_back`."""
        self._turns.give_back(ticket)

    def checkpoint(self) -> None:
        """Make the newest sealed epoch durable now. Errors as :meth:`Checkpoints.flush`."""
        with self.turn():
            self._checkpoints.flush(self._sealed())
            self._claimed = True
            self.deliveries.wake()

    def _roll_back(self, error: TidemillError) -> None:
        """Go back to the last durable epoch, as after a crash. Input admitted after it is admitted again."""
        newest = self.version.epoch
        self._compactor.forget()
        self._checkpoints.close(error)
        self._begin_from(self._root.recover())
        self._publish()
        self.rollbacks.append(self.version.epoch)  # who hears of the loss sees what is left
        self._warn(f"{error.message()}\n  went back from epoch {newest} to epoch {self.version.epoch}")
        self._programs()
        self._intake.list_all()
        self._warn(*(error.message() for error in self._intake.unlisted))
        self.arrivals.take_over(self._intake)

    # -- statements ---------------------------------------------------------------------------------

    def create_table(self, statement: CreateTable) -> None:
        """Add a table. Errors as :func:`definitions.with_table`."""
        with self.turn():
            self._adopt(definitions.with_table(self.catalog, statement, self.version.epoch, self._root.allowed))

    def alter_table(self, statement: AlterTable) -> None:
        """Pause, resume or change a table. Errors as :func:`definitions.altered`."""
        with self.turn():
            self._adopt(definitions.altered(self.catalog, statement, self._root.allowed))

    def alter_view(self, statement: AlterView) -> None:
        """Pause, resume or change a view. Errors as :func:`definitions.altered_view`."""
        with self.turn():
            self._adopt(definitions.altered_view(self.catalog, statement, self.version.epoch, self._intake.admitted()))

    def create_sink(self, statement: CreateSink) -> None:
        """Add a sink. Errors as :func:`sink_changes.with_sink`; TM8213 for a place in use."""
        with self.turn():
            found = sink_changes.with_sink(self.catalog, statement, self.version.epoch, self._root.allowed)
            if found is not self.catalog:
                found.sinks[statement.name].check_free()
            self._adopt(found)

    def alter_sink(self, statement: AlterSink) -> None:
        """Pause, resume or change a sink. Errors as :func:`sink_changes.altered_sink`."""
        with self.turn():
            self._adopt(sink_changes.altered_sink(self.catalog, statement, self._root.allowed))
            self.deliveries.retry(self.catalog.sinks[statement.name])

    def create_adaptor(self, adaptor: Adaptor, may_replace: bool) -> None:
        """Add an adaptor. Errors as :func:`adaptor_changes.with_adaptor`."""
        with self.turn():
            self._adopt(adaptor_changes.with_adaptor(self.catalog, adaptor, may_replace))

    def drop_adaptor(self, name: str) -> None:
        """Remove an adaptor. Errors as :func:`adaptor_changes.without_adaptor`."""
        with self.turn():
            self._adopt(adaptor_changes.without_adaptor(self.catalog, name))

    def create_view(self, statement: CreateView, frame: DataFrame | None = None) -> None:
        """Add a view; it reads history in the epochs that follow, while the others are maintained.

        Parameters
        ----------
        frame : DataFrame, optional
            Stands for the query; the text of the statement only describes it then.

        Raises
        ------
        TidemillError
            TM2xxx when the query cannot be a view; nothing is changed then.
        """
        with self.turn():
            if statement.if_not_exists and statement.name in self.catalog.views:
                return
            root = definitions.checked_root(self.catalog, statement, frame, self.plan)
            self._adopt(definitions.with_view(self.catalog, statement, root, self.version.epoch, statement.or_replace))

    def repeats(self, statement: Statement) -> bool:
        """Whether a CREATE repeats what exists; limits of a table are changed to those that it gives."""
        if isinstance(statement, CreateTable):
            limits = definitions.changed_limits(self.catalog, statement)
            if limits:
                self.alter_table(AlterTable(statement.name, limits))
            return limits is not None
        if isinstance(statement, CreateSink):
            repeated = sink_changes.repeated(self.catalog, statement)
            if repeated is not None:
                self._adopt(repeated)
            return repeated is not None
        if not isinstance(statement, CreateView) or statement.or_replace or not self.has_view(statement):
            return False
        changed = definitions.changed_properties(self.catalog, statement)
        if changed:
            self.alter_view(AlterView(statement.name, properties=changed))
        return True

    def has_view(self, statement: CreateView) -> bool:
        """Whether a view of this name, query (or plan) and properties is there already."""
        view = self.catalog.views.get(statement.name)
        return view is not None and definitions.is_view(view, self.plan, statement)

    def drop(self, kind: str, name: str, if_exists: bool) -> None:
        """Remove a table or view and its state, or a sink. Errors as :meth:`Catalog.without`, :func:`without_sink`."""
        with self.turn():
            if kind == "sink":
                if not (if_exists and name not in self.catalog.sinks):
                    self._adopt(sink_changes.without_sink(self.catalog, name))
                return
            present = self.catalog.tables if kind == "table" else self.catalog.views
            if not (if_exists and name not in present):
                self._adopt(self.catalog.without(kind, name))

    @contextmanager
    def declaring(self) -> Iterator[Declaration]:
        """A declaration to add to. At the end all its changes are carried out as one, or none."""
        with self.turn():
            known = self.catalyst.functions
            declaration = Declaration(self.spark, self.catalog, self.version.epoch, self._root.allowed, known)
            yield declaration
            self._adopt(declaration.catalog)
            for name, function in declaration.catalyst.functions.items():
                self.catalyst.register_function(name, function, None, True)

    def _adopt(self, catalog: Catalog) -> None:
        """Take over a catalog with other tables and views; tables and views it lacks are dropped with their state."""
        before = self.catalog
        if catalog is before:
            return
        catalog = with_names(catalog)
        old, new = ({t.uid: t for t in c.tables.values()} for c in (before, catalog))
        with self._all_or_nothing():
            if new.keys() - old.keys():
                self._stored(catalog)  # raises for what cannot be maintained, before anything of a table is opened
            for uid in old.keys() - new.keys():
                self.version = self.version.drop(self._intake.drop_table(old[uid]))
            held = before
            for uid, table in new.items():
                if uid not in old:
                    self._intake.add_table(table)
                    held = replace(held, tables={**held.tables, table.name: table}, next_uid=catalog.next_uid)
                    self.arrivals.use(held, created=table.name)
                elif table != old[uid]:
                    self._intake.change_table(table)
            same_views = catalog.views is before.views and catalog.pending is before.pending
            if not same_views:
                catalog = small_tables.with_sizes(catalog, self.version.epoch, self._sizes())
            self.version = self.version.drop(self._stored(before).keys() - self._stored(catalog).keys())
            if same_views:
                self._change(catalog)
            else:
                self._begin(catalog)
            self.arrivals.use(self.catalog)
            names = before.names(), catalog.names()
            for uid in names[0].keys() - names[1].keys():
                self.catalyst.forget(names[0][uid])
            for uid in names[1].keys() - names[0].keys():
                self.catalyst.register(names[1][uid], catalog.described(names[1][uid])[0])
        self.deliveries.use(self.catalog.sinks)

    def _begin(self, catalog: Catalog) -> None:
        """Take over a catalog with new views, or without some; nothing is changed when they cannot be maintained."""
        assembler = self._assembler(catalog)
        assembler.program()  # raises for what cannot be maintained
        catalog = with_read_plans(catalog, assembler)
        uids = {v.uid for v in self.catalog.all_views.values()}
        new = [v for v in catalog.all_views.values() if v.uid not in uids]
        for view in new:
            read_again = catalog.history_read_by(view)
            gone = self.arrivals.history_wanted(self._intake, read_again)
            for table in sorted(read_again):
                self._intake.pin(table)
                gone += self._intake.add_history(table, view.created_at_epoch, view.group)
            self._warn(*definitions.checked_history(view, gone))
        self._not_begun = (self._not_begun & catalog.all_views.keys()) | {v.name for v in new}
        self._intake.keep_history(catalog.histories())
        self._change(self._noting_complete(catalog))

    def _free(self, catalog: Catalog) -> None:
        """Drop the state of views that another catalog lacks."""
        before, after = ({v.uid for v in c.all_views.values()} for c in (self.catalog, catalog))
        if before - after or catalog.former != self.catalog.former:
            self.version = self.version.drop(self._stored(self.catalog).keys() - self._stored(catalog).keys())

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo the changes of a statement that fails, also when it could not be made durable."""
        catalog, version, not_begun, current = self.catalog, self.version, set(self._not_begun), self._current
        intake = self._intake.copy()
        try:
            yield
        except BaseException as error:
            self.catalog, self.version, self._not_begun, self._current = catalog, version, not_begun, current
            self._intake = intake
            self.arrivals.use(catalog)
            if isinstance(error, TidemillError) and error.number in LOSSES:
                self._roll_back(error)
            raise

    def _change(self, catalog: Catalog) -> None:
        self.catalog, self._current = catalog, None
        self.checkpoint()
