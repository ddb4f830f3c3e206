"""Plans of tasks, built step by step.

    import tidemill as tm

    facts = tm.plan.scan("facts/*.parquet")
    plan = facts.filter("price > 0").select("k", total="price * quantity")
    task = tm.Task(plan)

Plans are immutable, and can be pickled and be parts of several plans. Conditions and columns are SQL, which Spark
analyses when the plan is made, or expressions of ``pyarrow.compute``, which need no Spark and mean what Arrow says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import TidemillError
from tidemill.options.option import bad_option
from tidemill.plan.explain.column_names import input_columns, step_columns
from tidemill.plan.loading.analysing import analysed
from tidemill.plan.loading.nodes.joins import LookedUp, Merged
from tidemill.plan.loading.nodes.lowering import Lowering
from tidemill.plan.loading.nodes.names import INPUT
from tidemill.plan.loading.nodes.node import PlanNode, check_columns, check_distinct
from tidemill.plan.loading.nodes.queries import Grouped, Query
from tidemill.plan.loading.nodes.rows import Computed, Filtered, Limited, Selected, Unnested
from tidemill.plan.loading.nodes.several import Concatenated, Gathered, MergedSorted, Part, Parted
from tidemill.plan.loading.nodes.sources import ScanNode, Values
from tidemill.schema import Schema, quoted
from tidemill.sources.split import Split
from tidemill.task.files.divided_rows import DividedRows
from tidemill.task.files.files import list_files
from tidemill.task.indexes.index import Index
from tidemill.task.indexes.table_index import TableIndex
from tidemill.task.program import Program, ReadFiles


@dataclass(frozen=True, eq=False)
class Plan:
    """Rows with named columns, in an order that each method states. Each method gives another plan.

    Attributes
    ----------
    node : PlanNode
        What it consists of.
    """

    node: PlanNode

    @property
    def schema(self) -> Schema:
        """Of its rows."""
        return self.node.schema

    # -- rows by themselves: they keep their order, and hold nothing at a barrier --------------------------

    def filter(self, condition: str | pc.Expression) -> Plan:
        """The rows for which a condition is true, in their order."""
        if isinstance(condition, pc.Expression):
            return Plan(Filtered(self.node, condition))
        return self.sql(f"SELECT * FROM {INPUT} WHERE {condition}")

    def select(self, *columns: str, **computed: str | pc.Expression) -> Plan:
        """Some columns by name, and computed ones, for each row in its order.

        Parameters
        ----------
        *columns : str
        **computed : str or pyarrow.compute.Expression
            By their new names; all SQL or all Arrow.
        """
        check_columns(self.node, columns)
        check_distinct([*columns, *computed])
        if not columns and not computed:
            raise bad_option("columns", "none", "names of columns, or computed ones")
        if not computed:
            return Plan(Selected(self.node, columns))
        expressions = {name: c for name, c in computed.items() if isinstance(c, pc.Expression)}
        if len(expressions) == len(computed):
            named = {**{c: pc.field(c) for c in columns}, **expressions}
            return Plan(Computed(self.node, tuple(named), tuple(named.values())))
        if expressions:
            raise bad_option("select", "SQL beside expressions of Arrow", "one of both; select() again for the other")
        listed = [quoted(c) for c in columns] + [f"{c} AS {quoted(name)}" for name, c in computed.items()]
        return self.sql(f"SELECT {', '.join(listed)} FROM {INPUT}")

    def unnest(self, *columns: str, ordinality: str | None = None, outer: bool = False) -> Plan:
        """A row for each element of arrays or maps side by side, in the order of rows and elements.

        The other columns, then for each array its elements under its name (for a map ``name_key`` and ``name_value``);
        a shorter array has NULL behind its end.

        Parameters
        ----------
        ordinality : str, optional
            A further column, int64: the place of the element, from 1 on.
        outer : bool
            Keep rows without elements, with NULL.
        """
        check_columns(self.node, columns)
        if not columns or len(set(columns)) < len(columns):
            raise bad_option("columns", repr(columns), "names of arrays or maps, each once")
        return Plan(Unnested(self.node, columns, ordinality, outer))

    # -- queries -------------------------------------------------------------------------------------------

    def sql(self, query: str, **others: Plan) -> Plan:
        """A query over these rows, which are named ``input``, and over other nodes by name; as :func:`sql`."""
        return sql(query, **{INPUT: self}, **others)

    def aggregate(self, *keys: str, **results: str) -> Plan:
        """A row for each group, the keys and results such as ``"sum(v)"`` by name, in an order that the keys decide.

        At a reset barrier all groups come out and are forgotten: a key that occurs in two sets of splits gives a row
        for each. Without keys there is one row, also over nothing. At a retain barrier changed groups come out, with
        their old row.
        """
        return self.sql(self._grouped(keys, results))

    def top(self, rows: int, *order: str) -> Plan:
        """The first rows in an order such as ``"v DESC"``, at each barrier, in that order."""
        return self.sql(f"SELECT * FROM {INPUT} ORDER BY {', '.join(order)} LIMIT {_whole('rows', rows)}")

    def limit(self, rows: int, offset: int = 0) -> Plan:
        """Some rows from the first one after ``offset`` others on, counted anew behind each reset barrier.

        Once they are there, splits before the barrier are read no further.
        """
        return Plan(Limited(self.node, _whole("rows", rows), _whole("offset", offset)))

    def streaming_aggregate(self, *keys: str, **results: str) -> Plan:
        """As :meth:`aggregate` of rows that are sorted by the keys: each group comes out when the next one begins.

        It holds one group, and orders groups as they come. At a reset barrier the open group comes out; a retain
        barrier is refused.

        Raises
        ------
        TidemillError
            TM9016 for results that need all values of a group, such as DISTINCT. TM9020, when it runs, for rows that
            are not sorted.
        """
        root = analysed(self._grouped(keys, results), {INPUT: self.schema})
        return Plan(Grouped(self.node, root))

    def join(self, other: Plan, on: str | Sequence[str], how: str = "inner") -> Plan:
        """Rows of both that match, in an order that the keys decide; both are held up to the barrier.

        Parameters
        ----------
        on : str or sequence of str
            The name, or names, of columns that are equal on both sides, which come out once; or a condition in SQL over
            ``input`` and ``other``.
        how : str
            inner, left, right, full, semi, anti or cross.
        """
        kinds = {"inner", "left", "right", "full", "semi", "anti", "cross"}
        if how not in kinds:
            raise bad_option("how", repr(how), ", ".join(sorted(kinds)))
        if isinstance(on, str) and on in self.schema.names and on in other.schema.names:
            on = [on]
        word = {"semi": "LEFT SEMI", "anti": "LEFT ANTI"}.get(how, how.upper())
        if isinstance(on, str):
            return self.sql(f"SELECT * FROM {INPUT} {word} JOIN other ON {on}", other=other)
        named = ", ".join(quoted(c) for c in on)
        return self.sql(f"SELECT * FROM {INPUT} {word} JOIN other USING ({named})", other=other)

    # -- rows in order -------------------------------------------------------------------------------------

    def merge_join(
        self,
        other: Plan,
        on: str | Sequence[str | tuple[str, str]],
        how: str = "inner",
        *,
        descending: bool = False,
        drop_input: bool = True,
    ) -> Plan:
        """Rows of both, sorted by the keys, where the keys are equal: in the order of keys, left rows, right rows.

        All columns of both come out, with ``semi`` and ``anti`` those of the left. Columns of the right whose name is
        taken get ``_right`` behind it.

        Parameters
        ----------
        on : str, or sequence of names or of pairs of names
            The key columns of both sides, of equal types; in the order by which both are sorted, NULL first.
        how : str
            inner, left, right, full, semi or anti.
        descending : bool
            Whether both sides are sorted from the greatest key on, NULL last.
        drop_input : bool
            Stop reading a side when no row of it can match any more.

        Raises
        ------
        TidemillError
            TM9017 for keys of different types. TM9020, when it runs, for rows that are not sorted.
        """
        if how not in ("inner", "left", "right", "full", "semi", "anti"):
            raise bad_option("how", repr(how), "inner, left, right, full, semi or anti")
        if not isinstance(on, str | Sequence):
            raise bad_option("on", repr(on), "names of columns")
        pairs = tuple((c, c) if isinstance(c, str) else c for c in ((on,) if isinstance(on, str) else on))
        if not pairs:
            raise bad_option("on", repr(on), "names of columns")
        check_columns(self.node, [left for left, _ in pairs])
        check_columns(other.node, [right for _, right in pairs])
        return Plan(Merged(self.node, other.node, pairs, how, descending, drop_input))

    def lookup_join(self, index: Index, on: str | Sequence[str], how: str = "inner", *, prefetch: int = 4) -> Plan:
        """Rows in their order, each with the rows of an index that have its keys.

        Parameters
        ----------
        index : Index
            Such as :func:`index`.
        on : str or sequence of str
            The columns whose values are looked up.
        how : str
            inner, or left: rows without any come out once, with NULL.
        prefetch : int
            Batches whose lookups are under way at a time.
        """
        if how not in ("inner", "left"):
            raise bad_option("how", repr(how), "inner or left")
        if not hasattr(index, "look_up"):
            raise bad_option("index", repr(index)[:100], "an index, such as tm.plan.index(table, on)")
        keys = _keys(self, on)
        return Plan(LookedUp(self.node, index, keys, how, max(1, _whole("prefetch", prefetch))))

    # -- pipelines -----------------------------------------------------------------------------------------

    def parallel(self, parts: int, work: Callable[[Plan], Plan], by: str | Sequence[str] = ()) -> Plan:
        """What ``work`` makes of the rows in several pipelines, which may run at the same time.

        Rows come out in the order of the batches that they come from, behind them what was held up to the barrier, by
        pipeline: the number of parts is part of what the plan says, the number of threads is not.

        Parameters
        ----------
        work : callable
            Takes the rows of a pipeline and gives what becomes of them.
        by : str or sequence of str
            Columns: rows of equal values go through the same pipeline. By default batches are sent in turn.
        """
        keys = (by,) if isinstance(by, str) else tuple(by)
        check_columns(self.node, keys)
        parted = Parted(self.node, max(1, _whole("parts", parts)), keys)
        pipelines = [work(Plan(Part(parted, number))) for number in range(parted.parts)]
        return Plan(Gathered(tuple(p.node for p in pipelines)))

    def _grouped(self, keys: Sequence[str], results: Mapping[str, str]) -> str:
        check_columns(self.node, keys)
        listed = [quoted(k) for k in keys] + [f"{text} AS {quoted(name)}" for name, text in results.items()]
        grouped = f" GROUP BY {', '.join(quoted(k) for k in keys)}" if keys else ""
        return f"SELECT {', '.join(listed)} FROM {INPUT}{grouped}"

    # -- the plan as a whole -------------------------------------------------------------------------------

    def program(self) -> Program:
        """The steps of the plan; the last one is the one whose rows come out.

        Raises
        ------
        TidemillError
            TM9014 when two scans have one name.
        """
        program = Lowering().program(self.node)
        names = [s.operation.name for s in program.steps if isinstance(s.operation, ReadFiles)]
        for name in names:
            if names.count(name) > 1:
                raise TidemillError(
                    "TM9014",
                    "two scans of a plan have one name",
                    got=name,
                    hint="scan(paths, name='another') for one of them",
                )
        return program

    def fingerprint(self) -> str:
        """Names what the plan does with rows, whatever files it reads: its steps, and rows that are part of it."""
        steps = [(step.operation.identity(), step.inputs) for step in self.program().steps]
        return hashlib.blake2b(repr((steps, self.schema.to_ddl())).encode(), digest_size=16).hexdigest()

    def scans(self) -> tuple[Scan, ...]:
        """The scans of the plan, each once, by their first use from left to right."""
        found: dict[int, ScanNode] = {}
        _collect(self.node, found)
        return tuple(map(Scan, found.values()))

    def explain(self) -> str:
        """The steps as text."""
        program = self.program()
        columns, lines = step_columns(program), []
        for number, step in enumerate(program.steps[:-1]):
            inputs = [input_columns(program, columns, source) for source in step.inputs]
            read = f" <- {', '.join(str(i.step) for i in step.inputs)}" if step.inputs else ""
            lines.append(f"{number}: {step.operation.text(inputs, columns[number])}{read}")
        return "\n".join(lines)


def _collect(node: PlanNode, found: dict[int, ScanNode]) -> None:
    if isinstance(node, ScanNode):
        found.setdefault(id(node), node)
    for child in node.children():
        _collect(child, found)


def _keys(plan: Plan, on: str | Sequence[str]) -> tuple[str, ...]:
    """Names of key columns, at least one."""
    keys = (on,) if isinstance(on, str) else tuple(on)
    if not keys:
        raise bad_option("on", repr(on), "names of columns")
    check_columns(plan.node, keys)
    return keys


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise bad_option(name, repr(value), "a whole number from 0 on")
    return value


class Scan(Plan):
    """The rows of the splits that a task is given for it: splits as they are given, rows as in their file."""

    node: ScanNode

    @property
    def name(self) -> str:
        """By which a task knows it."""
        return self.node.name

    @property
    def files(self) -> DividedRows:
        """What it reads."""
        return self.node.files

    def splits(self) -> tuple[Split, ...]:
        """All splits of the files, by name and place."""
        return self.node.files.splits


def scan(
    paths: str | Path | Sequence[str | Path],
    *,
    name: str = INPUT,
    columns: Sequence[str] | None = None,
    format: str | None = None,  # noqa: A002
    schema: Schema | pa.Schema | str | None = None,
    split_bytes: int = 32 << 20,
    **options: Any,
) -> Scan:
    """Files of one format.

    Parameters
    ----------
    paths : str, Path or sequence of these
        Files, directories or globs, also of object stores.
    name : str
        By which a task is given splits for it.
    columns : sequence of str, optional
        Those that are wanted, in that order; others are not parsed.
    format, schema : optional
        By the suffix of the files, and inferred, unless given.
    split_bytes : int
        Size of the splits that files are divided into, where their format allows that.
    **options
        Those of the format, of listing and of object stores, as for tables.

    Raises
    ------
    TidemillError
        As :class:`~tidemill.loader.Loader`.
    """
    return Scan(ScanNode(name, list_files(paths, format, schema, columns, split_bytes, options)))


def values(rows: pa.Table | pa.RecordBatch) -> Plan:
    """Rows in memory."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if not isinstance(table, pa.Table):
        raise bad_option("rows", repr(rows)[:100], "a pyarrow.Table or RecordBatch")
    check_distinct(table.schema.names)
    return Plan(Values(table))


def index(table: pa.Table, on: str | Sequence[str]) -> TableIndex:
    """A table in memory that :meth:`Plan.lookup_join` looks up rows in, by the values of some columns."""
    return TableIndex.of(table, _keys(values(table), on))


def concatenate(first: Plan, *others: Plan) -> Plan:
    """All rows of the first node, then all of the second, and so on; of equal columns."""
    return Plan(Concatenated((first.node, *(o.node for o in others))))


def merge_sorted(first: Plan, *others: Plan, on: str | Sequence[str], descending: bool = False) -> Plan:
    """The rows of nodes that are sorted by key columns, in that order; of equal keys those of the first node first."""
    keys = _keys(first, on)
    return Plan(MergedSorted((first.node, *(o.node for o in others)), keys, descending))


def sql(query: str, **inputs: Plan) -> Plan:
    """What a query in Spark SQL makes of named nodes.

    Filters, projections and explode keep the order of rows; what groups, joins or windows gives its rows in an order
    that their values decide, which is not that of the keys. At a reset barrier all of them come out, and nothing is
    kept. ORDER BY counts with LIMIT and in windows only, as in a view: it does not order the rows that come out.

    Raises
    ------
    TidemillError
        TM2001 to TM2902, as for the query of a view.
    """
    root = analysed(query, {name: node.schema for name, node in inputs.items()})
    return Plan(Query(root, tuple((name, plan.node) for name, plan in inputs.items())))
