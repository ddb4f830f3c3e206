"""Memory of the planner of a stream of files (``readStream.format("tidemill")``) with a million names.

*Read before*: a query begins again behind a million files, which the log below ``stateLocation`` has, lists them all
and finds ten new ones. *Read before, all at once*: the same with ``Trigger.AvailableNow``. *Waiting*: a million files
that no batch has had. Names are those of objects, 88 bytes, with ETags; what the process needs with a thousand names
does not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from tidemill.sources.file_info import FileInfo
from tidemill.spark_source.data_reader import TidemillReader
from tidemill.spark_source.data_source import TidemillSource
from tidemill.spark_source.data_stream import TidemillStreamReader
from tidemill.spark_source.stream_history import StreamHistory
from tidemill.task.files.split_planner import Piece

GOAL = 200.0
SIDES = ("read before", "read before, all at once", "waiting")
_LOG, _BATCHES, _NEW, _PAGE = "names", 10_000, 10, 1000


def _file(number: int) -> FileInfo:
    name = f"part-{number:08d}-9f1c2b7e-55aa-4c1e-8d55-{number:012d}.json.gz"
    path = f"s3://bucket/clicks/2026/11/{number % 30:02d}/{name}"
    return FileInfo(path, 1000, (1_700_000_000 + number // 100) * 10**9, f'"{number:032x}"')


def _noted(directory: Path, names: int) -> None:
    """The log of a stream that has read files in objects of a hundred batches."""
    history, objects = StreamHistory(str(directory)), _BATCHES // 100
    for k in range(objects):
        files = map(_file, range(k * names // objects, (k + 1) * names // objects))
        history._write(_LOG, k * 100 + 1, k * 100 + 100, (Piece(f, 0, f.size) for f in files))


def _megabytes(field: str) -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields[field].split()[0]) / 1024


def _planned(directory: str, names: int, side: str) -> None:
    """Two batches of a query."""

    def unread(self: TidemillReader, left: Callable[[list[str]], list[str]]) -> Iterator[list[FileInfo]]:
        for begin in range(0, names + _NEW, _PAGE):
            page = [_file(k) for k in range(begin, min(begin + _PAGE, names + _NEW))]
            wanted = set(left([f.path for f in page]))
            yield [f for f in page if f.path in wanted]

    TidemillReader.unread = unread  # type: ignore[method-assign]
    given = {"format": "json", "path": "s3://bucket/clicks/", "statelocation": directory, "maxfilespertrigger": "5"}
    stream: TidemillStreamReader = TidemillSource(given).streamReader(StructType([StructField("a", LongType())]))
    at: dict[str, Any] = {"batch": 0} if side == "waiting" else {"batch": _BATCHES, "log": _LOG}
    if side == "read before, all at once":
        stream.prepareForTriggerAvailableNow()
    for _ in range(2):
        end = stream.latestOffset(at, stream.getDefaultReadLimit())
        assert end["batch"] == at["batch"] + 1, "new files are found"
        at, stream._stale_at = end, 0.0


def of_planner(directory: str, names: int, side: str) -> dict[str, float]:
    """What planning costs with so many names, beyond a thousand."""
    few, many = Path(directory, "few"), Path(directory, "many")
    _noted(few, 1000)
    _planned(str(few), 1000, side)
    _noted(many, names)
    base = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    began = time.perf_counter()
    _planned(str(many), names, side)
    return {"seconds": time.perf_counter() - began, "peak": _megabytes("VmHWM") - base}


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="few names; the ratio means little")
    options.add_argument("--names", type=int, default=1_000_000)
    given = options.parse_args()
    names = 20_000 if given.small else given.names
    heading(f"stream_names: {names:,} names")
    found = {}
    for side in SIDES:
        with workspace() as directory:
            found[side] = run_side(
                "benchmarks.stream_names", "of_planner", directory=str(directory), names=names, side=side
            )
    lines = [(side, cost["seconds"], cost["peak"]) for side, cost in found.items()]
    table(("names", "two batches, s", "peak MB"), lines)
    verdict(f"memory: {GOAL:g} MB / most", GOAL / max(1.0, *(c["peak"] for c in found.values())), 1.0)


if __name__ == "__main__":
    main()
