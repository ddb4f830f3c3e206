"""A mill on a cluster of two hosts that share nothing but the root; prints what came out, as JSON.

Run by test_two_hosts.py in a process of its own: ``two_hosts.py <directory>``.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path

from benchmarks import own_host_daemon

import tidemill as tm
from tidemill.runtime.spark.java_archive import class_path, java_options


def main(directory: Path) -> None:
    data = directory / "data"
    data.mkdir()
    settings = tm.Settings(
        master="local-cluster[2,1,1024]",
        partitions=2,
        small_epoch_bytes=0,
        checkpoint_seconds=1e9,
        compact_after=4,
        buffer_directory=str(directory / "hosts" / "{host}"),
        spark_conf={
            **own_host_daemon.spark_conf(),
            "spark.driver.extraClassPath": class_path(),  # in this order, Java takes the archive of classes
            "spark.executor.extraClassPath": class_path(),
            "spark.executor.extraJavaOptions": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {java_options()}",
            "spark.locality.wait": "0s",
        },
    )
    chance = random.Random(7)
    rows, taken_back = [], 0
    with tm.Mill(directory / "root", settings=settings) as mill:
        mill.sql(f"CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}')")
        mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k")
        mill.sql("CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n")
        for number in range(5):
            for part in range(4):
                new = [(chance.randrange(50), chance.randrange(100)) for _ in range(20)]
                rows += new
                (data / f"{number}-{part}.csv").write_text("".join(f"{k},{v}\n" for k, v in new))
            if number == 3:
                shutil.rmtree(directory / "hosts")
            report = mill.advance()
            assert report is not None
            taken_back += sum("TM1018" in w for w in report.warnings)
        list(mill.drain())
        for number in range(5, 16):  # enough for merges of merges, by executors of both hosts
            new = [(chance.randrange(50), chance.randrange(100)) for _ in range(20)]
            rows += new
            (data / f"{number}-0.csv").write_text("".join(f"{k},{v}\n" for k, v in new))
            assert mill.advance() is not None
            mill._coordinator._compactor.wait()
        found = {
            "sums": sorted((r["k"], r["n"], r["v"]) for r in mill.read("sums").to_pylist()),
            "sizes": sorted((r["n"], r["groups"]) for r in mill.read("sizes").to_pylist()),
            "hosts": len(list((directory / "hosts").iterdir())),
            "objects": sorted(p.name for p in (directory / "root" / "sst").iterdir()),
            "durable": mill.durable_epoch == mill.epoch,
            "taken_back": taken_back,
            "rows": rows,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
