"""Compressed files that are cut, wrong or bombs: set aside whole, read once when they are whole."""

from __future__ import annotations

import bz2
import gzip
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from local_jobs import LocalJobs
from tidemill import register
from tidemill.errors import TidemillError
from tidemill.mill import Mill

Opener = Callable[..., Mill]

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
}


def sums(mill: Mill) -> tuple[int, int]:
    ((count, total),) = (tuple(r.values()) for r in mill.read("v").to_pylist())
    return count, total or 0


def states(mill: Mill) -> dict[str, str]:
    return {Path(r["path"]).name: r["state"] for r in mill.read("t__files").to_pylist()}


def ended(mill: Mill) -> list[str]:
    """What was said until there was nothing to do."""
    return [w for report in mill.drain() for w in report.warnings]


@pytest.mark.parametrize("codec", CODECS)
def test_files_that_are_still_written(mill_factory: Opener, tmp_path: Path, seed: int, codec: str) -> None:
    """A file is seen at every stage of being written, some with many members; whole ones count, and each once."""
    chance, encode = random.Random(seed), CODECS[codec]
    data = tmp_path / "in"
    data.mkdir()
    numbers = {name: [chance.randrange(10**6) for _ in range(chance.randrange(20, 4000))] for name in "abc"}
    lines = {name: [b"%d\n" % n for n in rows] for name, rows in numbers.items()}
    first = encode(lines["b"][0])
    whole = {name: encode(b"".join(rows)) for name, rows in lines.items()}
    whole["b"] = first + encode(b"".join(lines["b"][1:]))
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k BIGINT) USING csv OPTIONS (path '{data}/*.csv.{codec}')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) n, sum(k) s FROM t")
    (data / f"a.csv.{codec}").write_bytes(whole["a"])
    mill_has = ["a"]
    for stage in (0.2, 0.7, 1.0):
        for name in "bc":
            body = whole[name]
            # At the end of a first member nobody could tell that there will be more.
            cut = max(int(len(body) * stage), len(first) + 3) if name == "b" else int(len(body) * stage)
            (data / f"{name}.csv.{codec}").write_bytes(body[:cut])
        said = ended(mill)
        if stage == 1.0:
            mill_has += "bc"
        else:
            assert [w[:6] for w in said] == ["TM5040"] * len(said) and all("TM4045" in w for w in said)
            assert states(mill) == {f"{n}.csv.{codec}": "done" if n == "a" else "failed" for n in "abc"}
        expected = [n for name in mill_has for n in numbers[name]]
        assert sums(mill) == (len(expected), sum(expected))
    assert set(states(mill).values()) == {"done"}
    assert mill.read("t__errors").num_rows == 0
    mill.close()
    again = mill_factory()
    ended(again)
    assert sums(again) == (len(expected), sum(expected))


def test_a_wrong_byte_and_a_bomb(mill_factory: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.formats.reading.codecs.SMALL", 1000)
    data = tmp_path / "in"
    data.mkdir()
    rows = b"".join(b"%d\n" % (n * 7919) for n in range(10_000))
    wrong = bytearray(gzip.compress(rows))
    wrong[len(wrong) // 2] ^= 0x10
    (data / "wrong.csv.gz").write_bytes(wrong)
    (data / "bomb.csv.gz").write_bytes(gzip.compress(b"5\n" * 1_000_000))
    (data / "good.csv").write_bytes(b"3\n")
    mill = mill_factory()
    mill._coordinator._jobs = LocalJobs()
    options = f"path '{data}', maxDecompressedRatio '200'"
    mill.sql(f"CREATE TABLE t (k BIGINT) USING csv OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(k) n, sum(k) s FROM t")
    said = ended(mill)
    assert sorted(w[:6] for w in said) == ["TM5040", "TM5040"]
    assert sum("corrupt_archive" in w for w in said) == 1 and sum("decompression_limit" in w for w in said) == 1
    assert sums(mill) == (1, 3)
    failed = {Path(r["path"]).name: r["error"][:6] for r in mill.read("t__files").to_pylist() if r["error"]}
    assert failed == {"wrong.csv.gz": "TM4045", "bomb.csv.gz": "TM4045"}
    (data / "wrong.csv.gz").write_bytes(gzip.compress(rows))
    ended(mill)
    assert sums(mill) == (10_001, 3 + 7919 * sum(range(10_000)))


def test_damage_where_rows_must_be_read(mill_factory: Opener, tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1\n2\n")[:-2])
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k BIGINT) USING csv OPTIONS (path '{tmp_path}/*.gz', mode 'FAILFAST')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) n, sum(k) s FROM t")
    with pytest.raises(TidemillError, match="TM4045"):
        list(mill.drain())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1\n2\n"))
    list(mill.drain())
    assert sums(mill) == (2, 3)


def test_damage_for_spark(spark: SparkSession, tmp_path: Path) -> None:
    """As with Spark's own sources a query that meets a damaged file fails: half of its rows are no answer."""
    register(spark)
    names = [f"{n}.csv.gz" for n in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(gzip.compress(b"1\n2\n" * 100)[: None if name != names[1] else -9])
    source = spark.read.format("tidemill").schema("k INT").options(format="csv", path=str(tmp_path))
    with pytest.raises(Exception, match="TM4045"):
        source.load().collect()
    (tmp_path / names[1]).unlink()
    assert Counter(r.k for r in source.load().collect()) == {1: 200, 2: 200}
