"""A resident mill with exchanges on a Spark of its own, whose views are kept; workers are killed meanwhile.

``python resident_process.py DIRECTORY SEED EPOCHS PLACE`` prints JSON: per epoch whether it was resident, whether
workers were killed before it, as they are before the last, and its warnings. Below ``DIRECTORY/kept`` each epoch has a
directory with its views, and with links to the files that had come until then. PLACE is ``local`` with two tasks for
two partitions, or ``hosts``: two executors of a cluster, which take themselves for hosts of their own, with a task each
for three partitions.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from benchmarks import own_host_daemon

import tidemill as tm
from python_workers import kill_workers
from tidemill.runtime.job.resident_epochs import ResidentEpochs
from tidemill.runtime.spark.java_archive import class_path, java_options

VIEWS = {
    "sums": "SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM t GROUP BY k",
    "both": "SELECT t.k, t.v, u.v AS w FROM t JOIN u ON t.k = u.k WHERE t.v < 20",
    "ranked": "SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM u",
    "over": "SELECT n, COUNT(*) AS c FROM sums GROUP BY n",
}


def options(hosts: bool) -> dict[str, Any]:
    """Settings of the mill."""
    if not hosts:
        return {"master": "local[2]", "partitions": 2, "spark_conf": {"spark.driver.memory": "1g"}}
    return {
        "master": own_host_daemon.MASTER,
        "partitions": 3,
        "spark_conf": {  # with its classes in this order, Java takes the archive of them
            **own_host_daemon.spark_conf(),
            "spark.driver.extraClassPath": class_path(),
            "spark.executor.extraClassPath": class_path(),
            "spark.executor.extraJavaOptions": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {java_options()}",
        },
    }


def main(directory: str, seed: str, epochs: str, where: str) -> None:
    """Run it."""
    place, chance, told = Path(directory), random.Random(int(seed)), []
    given = options(where == "hosts")
    settings = tm.Settings(mode="resident", listing_seconds=0.0, small_epoch_bytes=0, **given)
    for name in ("t", "u"):
        (place / name).mkdir()
    with tm.Mill(place / "root", settings=settings) as mill:
        if where == "local":
            assert mill.spark.sparkContext.defaultParallelism == 4, "two slots are added for the tasks that stay"
        for name in ("t", "u"):
            mill.sql(f"CREATE TABLE {name} (k INT, v BIGINT) USING csv OPTIONS (path '{place / name}')")
        for name, query in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        begin(mill, place)
        for number in range(int(epochs)):
            for name in ("t", "u"):
                rows = [f"{chance.randrange(40)},{chance.randrange(100)}\n" for _ in range(chance.choice((1, 20, 300)))]
                (place / name / f"{number:03d}.csv").write_text("".join(rows))
            killed = number == int(epochs) - 1
            if killed:
                kill_workers(mill.spark)
            report = mill.advance()
            assert report is not None
            warnings = [text[:6] for text in report.warnings]
            told.append({"resident": report.resident, "killed": killed, "warnings": warnings})
            if killed:
                begin(mill, place)
            _keep(mill, place, number)
    print(json.dumps(told))


def begin(mill: tm.Mill, place: Path) -> None:
    """Run epochs until one is resident, in two tasks: executors come after the mill, and lost tasks elsewhere."""
    jobs, end = mill._coordinator._jobs, time.monotonic() + 60
    assert isinstance(jobs, ResidentEpochs)
    while time.monotonic() < end:
        (place / "t" / f"{uuid.uuid4()}.csv").write_text("7,1\n")
        report, stage = mill.advance(), jobs._shared.stage
        if report is not None and report.resident and stage is not None and stage.tasks == 2:
            return
        time.sleep(0.2)
    raise AssertionError(f"no tasks: {jobs._shared.failure}")


def _keep(mill: tm.Mill, place: Path, epoch: int) -> None:
    """What the views are now, and the files that they are made of, for who compares them."""
    kept = place / "kept" / str(epoch)
    for name in ("t", "u"):
        shutil.copytree(place / name, kept / name, copy_function=os.link)
    for name in VIEWS:
        pq.write_table(mill.read(name), kept / f"{name}.parquet")


if __name__ == "__main__":
    main(*sys.argv[1:])
