"""Reading one CSV file out of order: what it costs beside reading in order, and what two threads and slow reads gain.

Run ``python -m benchmarks.shredder [megabytes]``. Data is in memory; rounds of the sides alternate, every figure is the
median of seven.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.formats_csv import Case, cases
from benchmarks.measuring import heading, table, verdict
from tidemill.formats.base import RowReader
from tidemill.formats.reading.feeding import feed, file_bytes, open_split
from tidemill.formats.registry import lookup
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.text.line_ends import OPEN, scan_row_ends
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.unordered.reader import BUFFER_BYTES, UnorderedReader, in_order, read_unordered

ROUNDS = 7
SMALL_BUFFER = 64 * 1024
LATENCY = 0.02
TITLES = ("16 numbers, all", "mixed types", "quoted strings")


class Clock:
    """Notes the processor seconds of each call of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls: list[float] = []

    @property
    def seconds(self) -> float:
        """Of all calls."""
        return sum(self.calls)

    @property
    def typical(self) -> float:
        """Of all calls, if each took what the median one did: without those that met an interrupt or a cold cache."""
        return statistics.median(self.calls) * len(self.calls)

    def __call__(self, *given: Any) -> Any:
        begin = time.thread_time()
        answer = self._function(*given)
        self.calls.append(time.thread_time() - begin)
        return answer


def split_of(case: Case) -> LineSplitReader:
    """A reader of the whole file."""
    size = len(case.data)
    reader = lookup("csv").reader(case.schema, {}, case.needed)
    split = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
    assert isinstance(split, LineSplitReader)
    return split


def sequential(case: Case, buffer_bytes: int, latency: float = 0.0) -> int:
    """Rows read in order."""
    split, view, rows = split_of(case), memoryview(case.data), 0
    for at in range(0, len(view), buffer_bytes):
        if latency:
            time.sleep(latency)
        rows += split.feed(view[at : at + buffer_bytes], at + buffer_bytes >= len(view)).count
    return rows


def unordered(case: Case, buffer_bytes: int, threads: int, latency: float = 0.0) -> int:
    """Rows read out of order, and put in order."""
    view = memoryview(case.data)

    def fetch(start: int, length: int) -> Any:
        if latency:
            time.sleep(latency)
        return view[start : start + length]

    reader = lookup("csv").reader(case.schema, {}, case.needed)
    parts = read_unordered(reader, fetch, len(view), threads=threads, buffer_bytes=buffer_bytes)
    return sum(part.rows.count for part in in_order(parts))


def shares(case: Case) -> tuple[float, float, float, float]:
    """Processor seconds in all, in frontier and shredder by all and by typical calls, and in summaries, with small
    buffers and one thread."""
    split, view = split_of(case), memoryview(case.data)
    reader = UnorderedReader(split.builder)
    offer = Clock(reader._shredder.offer)
    settle = Clock(reader._frontier.settle)
    reader._shredder.offer, reader._frontier.settle = offer, settle  # type: ignore[method-assign]
    look = Clock(reader.look)
    begin = time.thread_time()
    for number, at in enumerate(range(0, len(view), SMALL_BUFFER), 1):
        for settled in look(number, at, view[at : at + SMALL_BUFFER]):
            reader.build(settled)
    reader.end(number, len(view))
    total = time.thread_time() - begin
    idle = Clock(lambda *given: None)
    for _ in range(number):
        idle(1, 2, 3, 4)
    clocks = idle.seconds
    typical = offer.typical + settle.typical - 2 * idle.typical
    return (
        total - 4 * clocks,
        offer.seconds + settle.seconds - 2 * clocks,
        typical,
        look.seconds - settle.seconds - clocks,
    )


class SlowFile:
    """Bytes in memory, each read of which takes a while."""

    def __init__(self, data: bytes, latency: float) -> None:
        self._data = memoryview(data)
        self._latency = latency
        self._position = 0

    def open(self, position: int) -> None:
        """See :class:`tidemill.formats.reading.range_reads.RangeFile`; so for the others."""
        self._position = position

    def fill(self) -> Any:
        """One buffer."""
        found = self.read_at(self._position, min(BUFFER_BYTES, len(self._data) - self._position))
        self._position += len(found)
        return found

    def read_at(self, position: int, length: int) -> Any:
        """A range."""
        time.sleep(self._latency)
        return self._data[position : position + length]

    def first_bytes(self, count: int) -> bytes:
        """The head."""
        return bytes(self._data[:count])

    def close(self) -> None:
        """Nothing."""


def scanned(case: Case, latency: float, options: dict[str, str]) -> int:
    """Rows of one split as a scan reads it."""
    size = len(case.data)
    reader = lookup("csv").reader(case.schema, {}, case.needed)
    assert isinstance(reader, RowReader)
    file = file_bytes(SlowFile(case.data, latency), "", size, size, options)
    split = open_split(reader, file, start=0, end=size, size=size, in_quotes=False, part=False)
    try:
        return sum(rows.count for rows in feed(split, file, Mode.PERMISSIVE))
    finally:
        file.close()


def in_turn(sides: dict[str, Callable[[], int]], clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Median seconds of each side; all must find the same rows."""
    assert len({side() for side in sides.values()}) == 1
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            begin = clock()
            side()
            seconds[name].append(clock() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}


def machine(case: Case, threads: int) -> int:
    """Look for row ends and nothing else, which never holds the interpreter: what threads can gain here and now."""
    data = np.frombuffer(case.data, np.uint8)
    pieces = np.array_split(data, 16) * 24
    with ThreadPoolExecutor(threads) as pool:
        found = pool.map(lambda piece: int(scan_row_ends(piece, 0, ord(","), ord('"'), 0, OPEN)[0]), pieces)
        return sum(found)


def main() -> None:
    """Print three tables."""
    given = sys.argv[1] if len(sys.argv) > 1 else "32"
    megabytes = 4.0 if given == "--small" else float(given)
    chosen = [case for case in cases(int(megabytes * 1e6)) if case.title in TITLES]
    heading(f"Out-of-order reading of CSV files of {megabytes:g} MB")

    print("\nOne thread, buffers of 64 KiB: shares of processor time out of order, and against in order")
    rows = []
    for case in chosen:
        found = [shares(case) for _ in range(ROUNDS)]
        small = in_turn(
            {
                "in order": lambda case=case: sequential(case, SMALL_BUFFER),  # type: ignore[misc]
                "out of order": lambda case=case: unordered(case, SMALL_BUFFER, 1),  # type: ignore[misc]
            },
            time.thread_time,
        )
        of_all, of_typical, of_summaries = (
            statistics.median(100 * sample[k] / sample[0] for sample in found) for k in (1, 2, 3)
        )
        rows.append([case.title, of_all, of_typical, of_summaries, small["out of order"] / small["in order"]])
    titles = ["shredder and frontier %", "by the median call %", "summaries %", "out of order / in order"]
    table(["case", *titles], rows)
    worst, typical = (max(float(row[k]) for row in rows) for k in (1, 2))
    print(f"share of shredder and frontier: reached {worst:.2f} % ({typical:.2f} % by the median call), goal under 3 %")

    print("\nBuffers of 1 MiB, MB/s")
    rows = []
    for case in chosen:
        size = len(case.data) / 1e6
        speed = in_turn(
            {
                "in order": lambda case=case: sequential(case, BUFFER_BYTES),  # type: ignore[misc]
                "1": lambda case=case: unordered(case, BUFFER_BYTES, 1),  # type: ignore[misc]
                "2": lambda case=case: unordered(case, BUFFER_BYTES, 2),  # type: ignore[misc]
            }
        )
        scan = in_turn({n: lambda case=case, n=n: machine(case, int(n)) for n in "12"})  # type: ignore[misc]
        gains = [scan["1"] / scan["2"], speed["1"] / speed["2"]]
        rows.append([case.title, *(size / seconds for seconds in speed.values()), *gains])
    table(["case", "in order", "1 thread", "2 threads", "machine 2 to 1", "2 to 1"], rows)
    verdict("two threads to one", statistics.median(float(row[-1]) for row in rows), 1.8)

    print(f"\nOne split in a scan, reads of 1 MiB that take {LATENCY * 1000:g} ms each, MB/s")
    rows = []
    for case in chosen:
        size = len(case.data) / 1e6
        speed = in_turn(
            {
                "sync": lambda case=case: scanned(case, LATENCY, {}),  # type: ignore[misc]
                "async": lambda case=case: scanned(case, LATENCY, {"readmode": "async"}),  # type: ignore[misc]
                "no wait": lambda case=case: scanned(case, 0.0, {}),  # type: ignore[misc]
            }
        )
        rows.append([case.title, *(size / seconds for seconds in speed.values()), speed["sync"] / speed["async"]])
    table(["case", "sync", "async, 8 reads", "sync without latency", "async / sync"], rows)


if __name__ == "__main__":
    main()
