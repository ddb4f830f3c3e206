"""Reading with a filter gives the rows that pass it, and reports what is malformed in columns that decide."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from csv_reading import as_table, feed_split

from tidemill.formats.csv.format import CsvFormat, CsvRowReader
from tidemill.formats.rows.row_filter import RowFilter
from tidemill.schema import Field, Schema

SCHEMA = Schema(
    (
        Field("a", pa.int64()),
        Field("b", pa.string()),
        Field("c", pa.int32(), False),
        Field("d", pa.float64()),
        Field("e", pa.date32()),
    )
)


def _file(r: random.Random) -> bytes:
    def cell(good: str) -> str:
        return r.choice(["", "x", '"1"', '"q""', "é"]) if r.random() < 0.1 else good

    lines = []
    for _ in range(r.randrange(200)):
        cells = [
            cell(str(r.randrange(100))),
            cell(r.choice(["left", "right", '"a, b"'])),
            cell(str(r.randrange(9))),
            cell(f"{r.random():.3f}"),
            cell(f"2024-01-{r.randrange(1, 32):02}"),
        ]
        lines.append(",".join(cells[: r.choice([5, 5, 5, 5, 4, 2])]))
    return "\n".join(lines).encode()


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_filtered_rows_are_those_that_pass(mode: str, seed: int) -> None:
    r = random.Random(seed)
    for _ in range(60):
        data = _file(r)
        needed = r.sample(SCHEMA.names, r.randrange(1, 6))
        column = needed.index(r.choice([n for n in needed if n != "c"] or ["c"]))
        edge = r.choice([0, 10, 50, 95])
        reader = CsvFormat().reader(SCHEMA, {"mode": mode}, needed)
        assert isinstance(reader, CsvRowReader)

        def test(batch: pa.RecordBatch, edge: int = edge) -> pa.BooleanArray:
            values = batch.column(0)
            if not pa.types.is_integer(values.type):
                return pc.fill_null(pc.greater(pc.binary_length(values.cast(pa.string())), edge // 10), False)
            return pc.fill_null(pc.less(values, edge), False)

        sizes = [r.randrange(1, 400) for _ in range(100)]
        place = {"start": 0, "end": len(data), "file_size": len(data), "in_quotes": False, "header": None}
        every = feed_split(reader.split(**place), data, sizes)
        found = feed_split(reader.filtered(RowFilter((column,), test)).split(**place), data, sizes)
        assert len(found) == len(every)
        for part, full in zip(found, every, strict=True):
            wanted = test(full.batch.select([column])) if full.count else pa.array([], pa.bool_())
            if part.passed_over:
                assert part.batch.equals(full.batch.filter(wanted))
                assert part.positions.tolist() == full.positions[wanted.to_numpy(zero_copy_only=False)].tolist()
            else:
                assert part.batch.equals(full.batch)
            assert part.count + part.passed_over == full.count
            deciding = {None, "c", needed[column]}
            kept = set(part.positions.tolist())
            # Of a row that is dropped, others are reported only if it passes.
            assert [e for e in part.errors if e.column in deciding or not e.dropped] == [
                e for e in full.errors if e.column in deciding or (not e.dropped and e.position in kept)
            ]
            assert set(part.errors) <= set(full.errors)
            assert [part.raw(i) for i in range(part.count)] == [
                data[p:].split(b"\n")[0] for p in part.positions.tolist()
            ] or b'"' in data
        assert as_table(found).rows == tuple(
            row
            for part, full in zip(found, every, strict=True)
            for row in as_table([full]).rows
            if not part.passed_over or row in set(as_table([part]).rows)
        )


def test_few_rows_are_left_out_only_where_that_pays() -> None:
    data = "".join(f"{i},x,{i},1.5,2024-01-01\n" for i in range(100)).encode()
    reader = CsvFormat().reader(SCHEMA, {}, SCHEMA.names)
    assert isinstance(reader, CsvRowReader)
    place = {"start": 0, "end": len(data), "file_size": len(data), "in_quotes": False, "header": None}
    for edge, over in ((10, 90), (75, 25), (80, 0), (0, 100)):
        filtered = reader.filtered(RowFilter((0,), lambda batch, edge=edge: pc.less(batch.column(0), edge)))
        (rows,) = feed_split(filtered.split(**place), data)
        assert rows.passed_over == over
        assert rows.batch.column(2).to_pylist() == list(range(100 - over))
