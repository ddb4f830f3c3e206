"""Which columns of tables views read, and which changes of aggregates: known of all views before one is lowered."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.plan.algebra.nodes import Aggregate, Node, Scan, children, summed
from tidemill.plan.lowering.analysis.calculations import finishing, finishing_can_fail
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.task.program import TableSource


class Demand:
    """Gathered by :meth:`note`.

    Attributes
    ----------
    columns : dict
        Columns of each table in use.
    changing : set
        Aggregates, with the epoch at which their view was created, that must give their changes.
    """

    def __init__(self, views: Mapping[str, ViewDefinition], tables: Mapping[str, TableSource]) -> None:
        self._views = views
        self._tables = tables
        self._noted: set[str] = set()
        self.columns: dict[str, tuple[str, ...]] = {}
        self.changing: set[tuple[Aggregate, int]] = set()
        self._stored: set[tuple[Aggregate, int]] = set()

    def note(self) -> None:
        """Visit all views, each once."""
        for source in self._tables.values():
            if source.kept is not None:
                self.columns[source.name] = source.kept.rows.names
        for view in self._views.values():
            if view.name in self._noted:
                continue
            self._noted.add(view.name)
            self._note_columns(view.root)
            _, top = finishing(view.root)
            if isinstance(top, Aggregate) and not finishing_can_fail(view.root):
                self._stored.add((top, view.created_at_epoch))
                self._note_below(top, view.created_at_epoch)
            else:
                self._note_changes(top, view.created_at_epoch)

    def extended(self, views: Mapping[str, ViewDefinition], tables: Mapping[str, TableSource]) -> Demand | None:
        """That of further views and tables too; None where it changes what is demanded for the views so far."""
        made = Demand(views, tables)
        made._noted, made._stored = self._noted.copy(), self._stored.copy()
        made.columns, made.changing = self.columns.copy(), self.changing.copy()
        made.note()
        if any(made.columns[table] != columns for table, columns in self.columns.items()):
            return None
        return None if (made.changing - self.changing) & self._stored else made

    def _note_columns(self, node: Node) -> None:
        """Columns of each table in use, in the table's order."""
        if isinstance(node, Scan) and node.relation in self._tables and self._tables[node.relation].kept is None:
            used = {*self.columns.get(node.relation, ()), *(c.name for c in node.columns)}
            names = self._tables[node.relation].schema.names
            self.columns[node.relation] = tuple(n for n in names if n in used)
        for child in children(node):
            self._note_columns(child)

    def _note_changes(self, node: Node, created_at_epoch: int) -> None:
        """Note aggregates whose changes a step reads; those read with the view alone need none."""
        if isinstance(node, Aggregate):
            self.changing.add((node, created_at_epoch))
            self._note_below(node, created_at_epoch)
            return
        if isinstance(node, Scan) and node.relation in self._views:
            upstream = self._views[node.relation]
            self._note_changes(upstream.root, upstream.created_at_epoch)
        for child in children(node):
            self._note_changes(child, created_at_epoch)

    def _note_below(self, node: Aggregate, created_at_epoch: int) -> None:
        for child in summed(node):
            self._note_changes(child, created_at_epoch)
