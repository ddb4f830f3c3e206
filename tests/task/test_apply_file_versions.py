"""A table whose files are overwritten, against a dictionary of the rows of each file."""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from typing import Any

import pyarrow as pa
from operator_runs import INT, TEXT, keyed, run

from tidemill.plan.lowering.kept.file_versions import file_rows_plan, version_steps
from tidemill.schema import Field, Schema
from tidemill.sources.split import file_digest
from tidemill.state.keys.keys import VNODES, in_vnodes, prefix
from tidemill.state.lookup.lookup import vnode_range
from tidemill.state.merge.merge import merge
from tidemill.state.store.store import partition_vnodes
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Keyed, batch_of
from tidemill.task.dataflow.operator import Output
from tidemill.task.dataflow.read_view import read_parts
from tidemill.task.program import FileVersions, TableSource, multiset_table
from tidemill.testing import MemoryContext

ROWS = Schema(
    (
        Field("k", INT, False),
        Field("v", pa.float64()),
        Field("s", TEXT),
        Field("w", pa.float32()),
        Field("d", pa.decimal128(9, 2)),
        Field("l", pa.list_(pa.float64())),
        Field("m", pa.map_(TEXT, INT)),
        Field("b", pa.bool_()),
    )
)
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]

FileRow = tuple[Any, ...]
Versions = dict[str, list[tuple[int, FileRow]]]
"""For each file its rows with their weights."""


def source(rows: Schema = ROWS) -> TableSource:
    errors = multiset_table("errors", (TEXT,), 1)
    return TableSource("t", "t#1", "csv", rows, (), None, ("I", "D"), errors, versions=FileVersions(rows, 0))


class Table:
    """One table in memory, shared out over partitions."""

    def __init__(self, partitions: int = 1, memory_bytes: int = 0, rows: Schema = ROWS) -> None:
        self.rows = rows
        _, self.apply = version_steps(source(rows))
        self.plan = file_rows_plan(source(rows))
        self.operators = [build(0, self.apply) for _ in range(partitions)]
        self.contexts = [MemoryContext(p, partitions, memory_bytes) for p in range(partitions)]

    def epoch(self, tasks: list[Versions], withdrawn: list[list[str]]) -> Counter[str]:
        """Each task reads some rows, and some first splits; gives the changes, exactly."""
        new = [keyed(self.apply.rows, self._delta(rows)) for rows in tasks if any(rows.values())]
        names = [keyed(self.apply.withdrawn, _names(paths)) for paths in withdrawn if paths]
        outputs: list[Output] = []
        for context, operator in zip(self.contexts, self.operators, strict=True):
            low, high = partition_vnodes(context.partition, context.partitions)
            inputs = [(_owned(item, low, high), 0) for made in new for item, _ in made]
            inputs += [(item, 1) for made in names for item, _ in made]
            outputs += run(operator, context, inputs)
        return exactly(*(o.item for o in outputs if isinstance(o.item, Delta)))

    def _delta(self, rows: Versions) -> Delta:
        flat = [(path, weight, row) for path, found in rows.items() for weight, row in found]
        columns = [pa.array([row[i] for _, _, row in flat], f.type) for i, f in enumerate(self.rows)]
        columns.append(pa.array([file_digest(path) for path, _, _ in flat], pa.binary()))
        weights = pa.array([weight for _, weight, _ in flat], INT).to_numpy()
        return Delta(batch_of(columns, len(flat)), weights)

    def contents(self) -> Counter[str]:
        """The rows that readers of later views begin with."""
        readers = [c.state(self.plan.table).before for c in self.contexts]
        return exactly(*(part for reader in readers for part in read_parts(self.plan, reader)))

    def compact(self) -> None:
        """What a compaction of all runs does."""
        for context in self.contexts:
            runs = context.tables.get(self.plan.table.id)
            if runs:
                context.tables[self.plan.table.id] = [merge(runs, self.plan.table.ops, drop_zero=True)]


def _names(paths: list[str]) -> Delta:
    return Delta(batch_of([pa.array([file_digest(p) for p in paths], pa.binary())], len(paths)))


def _owned(item: Keyed, low: int, high: int) -> Keyed:
    return Keyed(item.rows.slice(*vnode_range(item.rows.keys, low, high)))


def exactly(*deltas: Delta) -> Counter[str]:
    """Net weights of rows that are the same bit by bit."""
    found: Counter[str] = Counter()
    for part in deltas:
        rows = zip(*(c.to_pylist() for c in part.batch.columns), strict=True)
        for row, weight in zip(rows, part.explicit_weights().tolist(), strict=True):
            found[_text(row)] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def _text(value: Any) -> str:
    if isinstance(value, float):
        return struct.pack("<d", value).hex()
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_text, value))})"
    return repr(value)


def total(files: Versions) -> Counter[str]:
    """All rows of all files, in the types of the table."""
    table = Table()
    deltas = [table._delta({path: rows}) for path, rows in files.items() if rows]
    return exactly(*(Delta(batch_of(d.batch.columns[:-1], len(d)), d.weights) for d in deltas))


def difference(new: Counter[str], old: Counter[str]) -> Counter[str]:
    both = Counter({row: new[row] - old[row] for row in {*new, *old}})
    return Counter({row: weight for row, weight in both.items() if weight})


def random_row(rng: random.Random) -> FileRow:
    entries = [("a", 1), ("b", rng.choice((2, None)))]
    rng.shuffle(entries)
    return (
        rng.randrange(3),
        rng.choice((None, 1.5, 0.0, -0.0, math.nan, OTHER_NAN, -math.inf)),
        rng.choice((None, "", "x", "é" * 9)),
        rng.choice((None, 0.0, -0.0)),
        rng.choice((None, 1)),
        rng.choice((None, [], [0.0, None], [-0.0], [math.nan])),
        rng.choice((None, entries)),
        rng.choice((None, True)),
    )


def edited(rng: random.Random, rows: list[tuple[int, FileRow]]) -> list[tuple[int, FileRow]]:
    """Another version: rows added, removed, repeated and moved about, or none at all, or nothing changed."""
    rows = list(rows)
    kind = rng.random()
    if kind < 0.1:
        return []
    if kind < 0.2:
        return rows
    for _ in range(rng.randrange(1, 6)):
        if rows and rng.random() < 0.4:
            rows.pop(rng.randrange(len(rows)))
        elif rows and rng.random() < 0.2:
            rows.append(rng.choice(rows))
        else:
            rows.insert(rng.randrange(len(rows) + 1), (rng.choice((1, 1, 1, -1)), random_row(rng)))
    rng.shuffle(rows)
    return rows


def test_random_versions_in_random_splits(seed: int) -> None:
    rng = random.Random(seed)
    shown = 0
    for _ in range(40):
        table = Table(rng.randrange(1, 5), rng.choice((0, 0, 2000)))
        files: Versions = {}
        for _ in range(rng.randrange(2, 8)):
            before, old = total(files), dict(files)
            tasks: list[Versions] = [{} for _ in range(rng.randrange(1, 4))]
            withdrawn: list[list[str]] = [[] for _ in tasks]
            for path in rng.sample(["a", "b", "dir/c", "ü", "e"], rng.randrange(4)):
                if path in files and rng.random() < 0.2:  # more of a file that has not been read to its end
                    new = edited(rng, [])
                    files[path] = files[path] + new
                else:
                    for _ in range(rng.choice((1, 1, 2))):  # told twice, it is withdrawn once
                        rng.choice(withdrawn).append(path)
                    new = files[path] = edited(rng, files.get(path, []))
                for entry in new:
                    rng.choice(tasks).setdefault(path, []).append(entry)
            found = table.epoch(tasks, withdrawn)
            after = total(files)
            assert found == difference(after, before)
            assert table.contents() == after
            shown += after != before and any(old[p] != files[p] for p in old)
            if rng.random() < 0.3:
                table.compact()
                assert table.contents() == after
    assert shown > 20


SMALL = Schema((Field("k", INT), Field("s", TEXT)))


def rows_of(*rows: FileRow) -> list[tuple[int, FileRow]]:
    return [(1, row) for row in rows]


def test_what_two_versions_have_in_common_is_no_change() -> None:
    table = Table(2, rows=SMALL)
    table.epoch([{"f": rows_of((1, "a"), (2, "b"), (2, "b"), (3, "c"))}], [])
    new = [{"f": rows_of((9, "first"), (3, "c"))}, {"f": rows_of((2, "b"), (1, "a"))}]
    assert table.epoch(new, [["f"]]) == {"(9, 'first')": 1, "(2, 'b')": -1}
    runs = [len(c.runs(table.plan.table)) for c in table.contexts]
    assert table.epoch(new, [["f"]]) == {}
    assert [len(c.runs(table.plan.table)) for c in table.contexts] == runs, "nothing is written either"


def test_rows_of_other_files_stay() -> None:
    table = Table(3, rows=SMALL)
    table.epoch([{"f": rows_of((1, "a")), "ff": rows_of((1, "a")), "g": rows_of((1, "a"), (1, "a"))}], [])
    assert table.epoch([{}], [["f"]]) == {"(1, 'a')": -1}
    assert table.epoch([{}], [["f", "unknown"]]) == {}
    assert table.epoch([{}], [["g"]]) == {"(1, 'a')": -2}
    assert table.contents() == {"(1, 'a')": 1}


def test_a_row_moves_from_one_file_to_another() -> None:
    table = Table(2, rows=SMALL)
    table.epoch([{"f": rows_of((1, "a"))}], [])
    assert table.epoch([{"g": rows_of((1, "a"))}], [["f"]]) == {}
    assert table.contents() == {"(1, 'a')": 1}
    assert table.epoch([{}], [["f"]]) == {}
    assert table.epoch([{}], [["g"]]) == {"(1, 'a')": -1}


def test_rows_of_a_file_are_in_all_partitions() -> None:
    table = Table(4, rows=SMALL)
    table.epoch([{"f": rows_of(*((i, None) for i in range(2000)))}], [])
    shares = [sum(len(r) for r in c.runs(table.plan.table)) for c in table.contexts]
    assert sum(shares) == 2000
    assert min(shares) > 400
    found = table.epoch([{}], [["f"]])
    assert len(found) == 2000
    assert set(found.values()) == {-1}
    assert table.contents() == {}


def test_many_rows_come_out_in_parts() -> None:
    table = Table(rows=Schema((Field("k", INT),)))
    rows = Delta(batch_of([pa.array(range(150_000)), pa.array([file_digest("f")] * 150_000, pa.binary())], 150_000))
    outputs = run(table.operators[0], table.contexts[0], keyed(table.apply.rows, rows))
    assert [len(o.item) for o in outputs] == [65_536, 65_536, 18_928]


def test_prefixes_in_every_vnode() -> None:
    _, apply = version_steps(source())
    names = prefix([pa.array([b"b", b"a"], pa.binary())], apply.rows.table.key, 0)
    found = in_vnodes(names, 2, 5)
    bodies = [names[0][2:], names[1][2:]]
    assert [found[i] for i in range(len(found))] == [bytes([0, v]) + body for v in (2, 3, 4) for body in bodies]
    assert len(in_vnodes(names, 0, VNODES)) == 2 * VNODES
    assert len(in_vnodes(names.slice(0, 0), 0, VNODES)) == 0
