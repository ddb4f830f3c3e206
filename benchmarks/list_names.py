"""Looking for new files among a million names that are known.

*Objects*: a bucket in memory that lists a thousand keys a request, in their order, each request taking as long as the
option ``--latency`` says (none by default: then only the work of the driver counts). Tidemill asks for what may be new
and looks names up in its state table; the other side lists everything and looks names up in a set, as file sources do
that have no cursor. Both run without Spark: it is the driver's work that is measured.

*Directory*: files of one byte, Tidemill's listing of the directory beside Spark's file stream source (``latestOffset``
of a trigger), the driver of either in a process of its own.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers import equal
from benchmarks.measuring import heading, run_side, table, verdict, workspace

GOAL = 20.0
MEMORY_GOAL = 200.0
NEW = (0, 100, 10_000)
_TIME = datetime(2026, 11, 21, tzinfo=UTC)


class Bucket:
    """Keys that are numbers: it needs no memory of its own."""

    def __init__(self, names: int, latency: float) -> None:
        self.names = names
        self.latency = latency
        self.requests = 0

    def pages(self, after: str) -> Iterator[list[dict[str, Any]]]:
        """Pages of a thousand, behind a key."""
        at = int(after.removeprefix("logs/")) + 1 if after.removeprefix("logs/").isdecimal() else 0
        while True:
            page = [
                {"path": f"logs/{n:012d}", "size": 1, "last_modified": _TIME, "e_tag": '"0123456789abcdef"'}
                for n in range(at, min(at + 1000, self.names))
            ]
            self.requests += 1
            time.sleep(self.latency)
            if page:
                yield page
            if len(page) < 1000:
                return
            at += 1000


def _number(path: str) -> int:
    return int(path.rpartition("/")[2])


def _megabytes() -> float:
    """Memory of this process now, without what is mapped from files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def of_objects(names: int, latency: float, rounds: int, everything: bool) -> dict[str, Any]:
    """One side: what a refresh costs when so many names are new, and memory."""
    from tidemill.objectstore.connection import Connection
    from tidemill.runtime.durability.sealed_tables import SealedTables
    from tidemill.runtime.files.file_policy import FilePolicy
    from tidemill.runtime.files.listed_files import ListedFiles
    from tidemill.runtime.files.progress import Limits
    from tidemill.runtime.intake.listing import LocationList
    from tidemill.sources.locations.location import Location
    from tidemill.sources.objects import listing as object_listing
    from tidemill.sources.split import SplitResult
    from tidemill.state.merge.merge import merge
    from tidemill.state.runs.sst import Part
    from tidemill.state.store.store import RunStore, default_buffer
    from tidemill.state.versions.objects import Objects
    from tidemill.state.versions.version import Version

    bucket = Bucket(0, 0.0)
    object_listing._chunks = lambda store, directory, start, connection: bucket.pages(start)
    with workspace() as directory:
        objects = Objects(directory / "root")
        objects.make()
        store = RunStore(objects, default_buffer(objects))
        store.check_buffer()
        sealed = SealedTables(store, Version.empty())
        files = ListedFiles("t", "t#1", FilePolicy(), sealed.reader)
        lister = LocationList(Location("s3://bucket/logs/*", connection=Connection()), [files], {})
        known: set[str] = set()
        admitted: Counter[str] = Counter()

        def seal() -> None:
            splits = files.admit(Limits(1 << 60))
            admitted["names"] += len(splits)
            admitted["numbers"] += sum(_number(s.path) for s in splits)
            results = [SplitResult(s, False, 0, 1, 1, 0, 0) for s in splits]
            epoch = sealed.version.epoch + 1
            sealing = files.sealing(files.after(results), epoch)
            runs = store.write(epoch, sealing.tables, "list")
            files.sealed(sealing)
            removed = []
            tables = {r.table for r in runs}
            if epoch % 10 == 0:  # as compaction would
                for name in tables:
                    removed += sealed.version.runs(name)
                merged = []
                for name in tables:
                    opened = [
                        store.open(r) for r in (*sealed.version.runs(name), *(r for r in runs if r.table == name))
                    ]
                    ops = next(p.ops for p in sealing.tables if p.table == name)
                    merged.append(Part(name, merge(opened, ops, ops[0] == "sum"), ops))
                runs = store.write(epoch, merged, "merged")
            sealed.at(sealed.version.seal(epoch, runs, removed).forget(epoch))

        def refresh() -> None:
            if everything:
                found = (f for page in object_listing.object_pages("s3://bucket/logs/*", Connection()) for f in page)
                known.update([f.path for f in found if f.path not in known])
                return
            lister.begin(full=False)
            while lister.under_way:
                lister.go_on()
                if lister.under_way:
                    seal()

        bucket.names = 100  # a process has its modules and kernels before it has names
        refresh()
        if not everything:
            seal()
        before = _megabytes()
        bucket.names = names
        refresh()
        if not everything:
            seal()
        memory = _megabytes() - before
        bucket.latency = latency
        costs = {}
        for new in NEW:
            times, requests = [], []
            for _ in range(rounds):
                bucket.names += new
                asked, began = bucket.requests, time.perf_counter()
                refresh()
                times.append((time.perf_counter() - began) * 1e3)
                requests.append(bucket.requests - asked)
                if not everything:
                    seal()
            costs[str(new)] = [float(np.median(times)), int(np.median(requests))]
        answer = [len(known), sum(map(_number, known))] if everything else list(admitted.values())
        return {"costs": costs, "memory": max(memory, _megabytes() - before), "answer": answer}


def of_directory(path: str, new: int, rounds: int, spark: bool) -> dict[str, Any]:
    """One side: milliseconds to list a directory whose files are known, with some that are new, and memory."""
    return (_with_spark if spark else _with_tidemill)(path, new, rounds)


def _add(path: str, number: int, new: int) -> None:
    for i in range(new):
        (Path(path) / f"new-{number}-{i:06d}").write_bytes(b"1")


def _with_tidemill(path: str, new: int, rounds: int) -> dict[str, Any]:
    from tidemill.config import Settings
    from tidemill.mill import Mill

    with workspace() as directory, Mill(directory, settings=Settings(epoch_bytes=1 << 30)) as mill:
        mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{path}')")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        for _ in mill.drain():
            pass
        times = []
        for number in range(rounds):
            _add(path, number, new)
            began = time.perf_counter()
            mill._coordinator._intake.list_files(0.0, 0)  # the part of an epoch that Spark calls latestOffset
            times.append((time.perf_counter() - began) * 1e3)
            for _ in mill.drain():
                pass
        rows = mill.read("v").to_pylist()[0]["n"]
        return {"ms": float(np.median(times)), "memory": _megabytes(), "rows": rows}


def _with_spark(path: str, new: int, rounds: int) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with workspace() as directory:

        def run() -> tuple[list[float], int]:
            stream = session.readStream.schema("k INT").option("maxFilesPerTrigger", 1_000_000).csv(path)
            query = (
                stream.writeStream.format("noop")
                .option("checkpointLocation", str(directory / "checkpoint"))
                .trigger(processingTime="0 seconds")
                .start()
            )
            query.processAllAvailable()
            times: list[float] = []
            for number in range(rounds):
                _add(path, number, new)
                seen = {p["batchId"] for p in query.recentProgress if p["numInputRows"]}
                query.processAllAvailable()
                fresh = [p for p in query.recentProgress if p["numInputRows"] and p["batchId"] not in seen]
                times += [p["durationMs"]["latestOffset"] for p in fresh]
            rows = sum(p["numInputRows"] for p in query.recentProgress)
            query.stop()
            return times, rows

        times, rows = run()
        session.stop()
    return {"ms": float(np.median(times)), "memory": 0.0, "rows": rows}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="few names; the ratio means little")
    options.add_argument("--names", type=int, default=1_000_000)
    options.add_argument("--files", type=int, default=50_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--latency", type=float, default=0.0, help="of a request, in milliseconds")
    given = options.parse_args()
    names, files, rounds = (20_000, 500, 1) if given.small else (given.names, given.files, given.rounds)
    heading(f"list_names: {names:,} names known, {given.latency:g} ms a request")
    parameters = {"names": names, "latency": given.latency / 1e3, "rounds": rounds}
    sides = {
        name: run_side("benchmarks.list_names", "of_objects", **parameters, everything=everything)
        for name, everything in (("Tidemill", False), ("list everything, set of names", True))
    }
    lines = [
        (f"{side}, {new:,} new", *sides[side]["costs"][str(new)], sides[side]["memory"])
        for side in sides
        for new in NEW
    ]
    table(("objects: one refresh", "ms", "requests", "memory MB"), lines)
    mine, all_ = (sides[side]["costs"]["100"] for side in sides)
    if equal(f"{side['answer'][0]} names, which sum to {side['answer'][1]}" for side in sides.values()):
        verdict("100 new names, requests of all / Tidemill", all_[1] / mine[1], GOAL)
        verdict("100 new names, milliseconds of all / Tidemill", all_[0] / mine[0], GOAL)
    verdict(f"memory: {MEMORY_GOAL:g} MB / Tidemill", MEMORY_GOAL / max(sides["Tidemill"]["memory"], 1.0), 1.0)
    found = {}
    for name, spark in (("Tidemill", False), ("Spark file stream", True)):
        with workspace() as directory:
            for number in range(files):
                (directory / f"{number:08d}").write_bytes(b"1")
            of_side = {"path": str(directory), "new": 100, "rounds": rounds}
            found[name] = run_side("benchmarks.list_names", "of_directory", **of_side, spark=spark)
    print(f"\na directory of {files:,} files, 100 new")
    table(("directory: one listing", "ms"), [(name, side["ms"]) for name, side in found.items()])
    if equal(f"{side['rows']} rows" for side in found.values()):
        verdict("Spark / Tidemill", found["Spark file stream"]["ms"] / found["Tidemill"]["ms"], GOAL)


if __name__ == "__main__":
    main()
