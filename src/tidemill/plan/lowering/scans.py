"""The steps of scans: the rows of a table, once for all views, and the changes of another view."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.plan.algebra.nodes import Node, Scan
from tidemill.plan.lowering.analysis.definition import ViewDefinition, comes_later
from tidemill.plan.lowering.analysis.placement import after_calculation
from tidemill.plan.lowering.kept.file_versions import version_steps
from tidemill.plan.lowering.kept.kept_tables import kept_rows_plan
from tidemill.plan.lowering.kept.keyed_tables import message_key, message_steps
from tidemill.plan.lowering.steps import Steps
from tidemill.task.expressions import Ref, remap
from tidemill.task.program import Calculate, Concatenate, Input, ScanStep, TableSource, ViewSnapshot


class Scans:
    """Lowers scans.

    Parameters
    ----------
    columns : mapping
        The columns of each table in use, by name.
    """

    def __init__(
        self,
        steps: Steps,
        views: Mapping[str, ViewDefinition],
        tables: Mapping[str, TableSource],
        columns: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._steps = steps
        self._views = views
        self._tables = tables
        self._columns = columns

    def fused(self, base: Node, operation: Calculate, created_at_epoch: int, single: bool) -> tuple[Input, Calculate]:
        """A calculation directly over a shared scan reads the scan's columns, without a step in between."""
        if not (isinstance(base, Scan) and base.relation in self._tables) or self._comes_later(
            base.relation, created_at_epoch
        ):
            return self._steps.rows(base, created_at_epoch, single), operation
        positions = self._scan_positions(base)
        expressions = operation.expressions
        if expressions is None:
            fields = base.columns
            expressions = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(fields))
        condition = None if operation.condition is None else remap(operation.condition, positions)
        moved = Calculate(condition, tuple(remap(e, positions) for e in expressions))
        return Input(self.table_scan(base.relation)), moved

    def _scan_positions(self, node: Scan) -> dict[int, int]:
        columns = self._columns[node.relation]
        return {i: columns.index(f.name) for i, f in enumerate(node.columns)}

    def table_scan(self, table: str) -> int:
        """The step that gives a table's rows; where they are kept, they are kept once for all views."""
        source = self._tables[table]
        if source.versions is not None:
            scan_files, apply_versions = version_steps(source)
            scan_rows = self._steps.add(scan_files, (), 0)
            rows = Input(self._steps.add(apply_versions.rows, (Input(scan_rows),), 0))
            withdrawn = self._steps.add(apply_versions.withdrawn, (Input(scan_rows, 1),), 0)
            return self._steps.add(apply_versions, (rows, Input(withdrawn, broadcast=True)), 0, True)
        if source.changelog is None:
            return self._steps.add(ScanStep(source, self._columns[table]), (), 0)
        scan, arrange, apply = message_steps(source)
        arranged = self._steps.add(arrange, (Input(self._steps.add(scan, (), 0)),), 0)
        step = self._steps.add(apply, (Input(arranged),), 0, True)
        self._steps.put(Input(step), frozenset({message_key(source)}))
        return step

    def _comes_later(self, table: str, created_at_epoch: int) -> bool:
        """Whether a reader created at an epoch must begin with the rows that a table had kept by then."""
        kept = self._tables[table].kept
        return kept is not None and comes_later(created_at_epoch, kept.created_at_epoch)

    def scan(self, node: Scan, created_at_epoch: int) -> int:
        if node.relation in self._tables:
            positions = self._scan_positions(node)
            expressions = tuple(Ref(positions[i], f.type, f.nullable) for i, f in enumerate(node.columns))
            operation = Calculate(None, expressions)
            scan = Input(self.table_scan(node.relation))
            placement = after_calculation(self._steps.place(scan), operation)
            rows = self._steps.placed_by(placement, operation, (scan,), created_at_epoch).step
            if not self._comes_later(node.relation, created_at_epoch):
                return rows
            snapshot = self._steps.add(
                ViewSnapshot(node.relation, kept_rows_plan(self._tables[node.relation])), (), created_at_epoch
            )
            first = self._steps.add(Calculate(None, expressions), (Input(snapshot),), created_at_epoch)
            return self._steps.add(Concatenate(), (Input(rows), Input(first)), created_at_epoch)
        upstream = self._views[node.relation]
        changes = self._steps.rows(upstream.root, upstream.created_at_epoch)
        names = upstream.root.schema.names
        expressions = tuple(Ref(names.index(f.name), f.type, f.nullable) for f in node.columns)
        operation = Calculate(None, expressions)
        inputs = [
            self._steps.placed_by(
                after_calculation(self._steps.place(changes), operation), operation, (changes,), created_at_epoch
            )
        ]
        if created_at_epoch == upstream.created_at_epoch:
            return inputs[0].step
        snapshot = self._steps.add(
            ViewSnapshot(upstream.name, self._steps.read_plan(upstream.name)), (), created_at_epoch
        )
        inputs.append(Input(self._steps.add(Calculate(None, expressions), (Input(snapshot),), created_at_epoch)))
        return self._steps.add(Concatenate(), tuple(inputs), created_at_epoch)
