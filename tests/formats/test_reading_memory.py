"""How much memory reading takes: rows of many elements, and columnar files of long values."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.formats.columnar import rows as columnar_rows
from tidemill.formats.standalone.standalone import open_format

LIMITED = """
import resource, sys
import pyarrow as pa
from tidemill.formats.standalone.standalone import open_format

def limit(more):
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
"""

ONE_LINE = """
schema = ", ".join(f"c{i} ARRAY<BIGINT>" for i in range(40)) + ", last ARRAY<STRUCT<x: BIGINT, y: STRING>>"
read = open_format("json", schema, multiLine=MULTI).read
line = lambda n: b'{"c7":[' + b"1," * n + b'2],"last":[{"x":1}]}'
wrap = (lambda data: b"[" + data + b"]") if MULTI else (lambda data: data)
read(wrap(line(3)))
limit(800_000_000)
table = read(wrap(line(4_000_000)))
assert len(table.column("c7")[0]) == 4_000_001
assert table.column("last").to_pylist() == [[{"x": 1, "y": None}]]
assert read(wrap(line(5))).column("c7").to_pylist() == [[1] * 5 + [2]]
"""

LONG_TEXTS = """
import io, random
import pyarrow.parquet as pq
text = ["x" * 1_000_000 + str(i % KINDS) for i in range(300)]
file = io.BytesIO()
pq.write_table(pa.table({"a": text, "n": list(range(300))}), file, use_dictionary=KINDS < 300)
del text
data = file.getvalue()
reader = open_format("parquet", "a STRING, n BIGINT")
next(reader.rows(data))
limit(650_000_000)  # the 300 MB of the column in the file, and as much again to decode it
n = 0
for rows in reader.rows(data):
    assert rows.batch.nbytes < 80_000_000
    for number, length in zip(rows.batch.column("n").to_pylist(), [len(s.as_py()) for s in rows.batch.column("a")]):
        assert (number, length) == (n, 1_000_000 + len(str(n % KINDS)))
        n += 1
assert n == 300
"""


def written(format_: str, table: pa.Table) -> bytes:
    file = io.BytesIO()
    if format_ == "parquet":
        pq.write_table(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


def run_limited(program: str, **constants: object) -> None:
    head = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
    # Of the C library's memory, what is freed can be given to nothing else: other pools keep it for a while. With more
    # than one arena each thread reserves 64 MB of addresses when it begins, perhaps only behind the limit.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", head + LIMITED + program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arrays", [False, True])
def test_a_long_line_asks_for_what_it_holds(arrays: bool) -> None:
    run_limited(ONE_LINE, MULTI=arrays)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [300, 3], ids=["plain", "dictionary"])
def test_long_texts_of_parquet(kinds: int) -> None:
    run_limited(LONG_TEXTS, KINDS=kinds)


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_batches_have_few_bytes(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar_rows, "MOST_BYTES", 10_000)
    texts = ["x" * (n % 7 * 1000) if n % 50 < 25 else "y" for n in range(2000)]
    data = written(format_, pa.table({"a": texts, "b": list(range(2000))}))
    batches = list(open_format(format_, "a STRING, b BIGINT").rows(data))
    assert [v for rows in batches for v in rows.batch.column("a").to_pylist()] == texts
    assert [v for rows in batches for v in rows.batch.column("b").to_pylist()] == list(range(2000))
    assert [p for rows in batches for p in rows.positions.tolist()] == list(range(2000))
    assert all(rows.batch.nbytes <= 16_000 for rows in batches)


def test_dictionaries_of_the_file_and_of_the_reader() -> None:
    table = pa.table({"a": pa.array(["x", None, "y"] * 5).dictionary_encode(), "b": ["p", "q", None] * 5})
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=4)
    found = open_format("parquet", "b STRING, a STRING").read(file.getvalue())
    assert found.to_pydict() == {"b": ["p", "q", None] * 5, "a": ["x", None, "y"] * 5}
