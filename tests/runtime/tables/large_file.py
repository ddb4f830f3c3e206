"""A file far larger than the driver's memory: ``make large``.

The driver's JVM gets 512 MB. The file is generated on the fly and read in epochs of 32 MB; the largest
resident size of the driver, of the JVM and of the Python workers is printed at the end. The views are
checked against figures kept while the file was written.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from benchmarks.processes import children

import tidemill
from tidemill.config import Settings
from tidemill.mill import Mill

KEYS = 100_000
ROWS = 1_000_000


def write_file(path: Path, size: int) -> tuple[int, int]:
    """Random rows ``k,v,text`` until the file has the size; returns their number and the sum of ``v``."""
    chance, rows, total = np.random.default_rng(0), 0, 0
    with path.open("wb") as file:
        while file.tell() < size:
            v = chance.integers(0, 1000, ROWS)
            text = pa.array(chance.integers(10**14, 10**15, ROWS)).cast(pa.string())
            table = pa.table({"k": chance.integers(0, KEYS, ROWS), "v": v, "s": text})
            pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(include_header=False))
            rows, total = rows + ROWS, total + int(v.sum())
    return rows, total


def megabytes(pid: int | str) -> int:
    """The resident size of a process; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)


def watch(jvm: int, peaks: Counter[str], stop: threading.Event) -> None:
    """Keep the largest sizes seen until told to stop."""
    while not stop.wait(0.05):
        peaks["driver"] = max(peaks["driver"], megabytes("self"))
        peaks["jvm"] = max(peaks["jvm"], megabytes(jvm))
        for daemon in children(jvm):
            sizes = [megabytes(w) for w in children(daemon)]
            peaks["largest worker"] = max([peaks["largest worker"], *sizes])


def main(gigabytes: float) -> None:
    """Generate, run, check, print."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "large.csv"
        started = time.perf_counter()
        rows, total = write_file(path, int(gigabytes * 1e9))
        size = path.stat().st_size
        print(f"{rows:,} rows, {size / 1e9:.2f} GB, written in {time.perf_counter() - started:.0f} s", flush=True)
        settings = Settings(epoch_bytes=32 << 20, spark_conf={"spark.driver.memory": "512m"})
        with Mill(Path(name) / "root", settings=settings) as mill:
            mill.sql(f"CREATE TABLE t (k INT, v BIGINT, s STRING) USING csv OPTIONS (path '{path}')")
            mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k")
            mill.sql("CREATE MATERIALIZED VIEW rare AS SELECT k, s FROM t WHERE v = 0 AND k < 100")
            gateway = mill.spark.sparkContext._gateway
            assert gateway is not None
            peaks, stop = Counter[str](), threading.Event()
            watcher = threading.Thread(target=watch, args=(gateway.proc.pid, peaks, stop))
            watcher.start()
            before, started = megabytes("self"), time.perf_counter()
            epochs = [r.milliseconds["total"] for r in mill.drain()]
            seconds = time.perf_counter() - started
            stop.set()
            watcher.join()
            mill.checkpoint()
            manifest = max((Path(name) / "root" / "manifest").glob("*.json")).stat().st_size
            sums = mill.read("sums")
            assert (sum(sums["n"].to_pylist()), sum(sums["v"].to_pylist())) == (rows, total)
            assert mill.snapshot().version.epoch == len(epochs)
            print(
                f"tidemill {Path(tidemill.__file__).parent}: {len(epochs)} epochs in {seconds:.0f} s = "
                f"{size / seconds / 1e6:.0f} MB/s; epoch median {sorted(epochs)[len(epochs) // 2]:.0f} ms, "
                f"last {epochs[-2]:.0f} ms\npeak memory: driver {peaks['driver']} MB "
                f"({before} MB before the first epoch), jvm {peaks['jvm']} MB, "
                f"largest worker {peaks['largest worker']} MB; manifest {manifest / 1e3:.0f} kB"
            )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
