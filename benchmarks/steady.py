"""Two hours of five small files a second: memory, disk and the time of epochs stay flat, and answers stay right.

``tidemill run`` keeps four views of orders that come and go: a join by region, the ten largest of each region by a
window, sums with distinct counts by product, and the join's large rows. Each file has new orders, and deletes the
oldest, so that as many are left from some minutes on; the prices of a small table change all the time. Files that were
read are deleted (``cleanSource``). Memory is that of the command, of its Java and of its workers. At the end the views
are compared with DuckDB over the orders that are left. The root is compared with a new one, which reads the rows of a
minute before in one epoch, and the files since then in one epoch each: what the views and their history need.
``--plot`` draws the samples, ``--keep`` writes them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.answers import keep, unlike
from benchmarks.measuring import heading, table, verdict, workspace
from benchmarks.processes import anonymous_bytes, descendants, is_java, proportional_bytes, resident_bytes
from benchmarks.soak.memory import slope
from tidemill.config import Settings

FILES_A_SECOND = 5
ORDERS_A_FILE = 100
LIVE_ORDERS = 50_000
PRODUCTS = 500
PRODUCTS_A_FILE = 5
BYTES_A_FILE = 3_000  # an epoch ends with the file that brings so much
DISK_GOAL = 3.0
HISTORY_EPOCHS = Settings.history_epochs
WARM_UP = 600.0
_SAMPLE_SECONDS = 10.0

ORDERS = "id BIGINT, product INT, region STRING, amount INT"
PRICES = "product INT, name STRING, price DECIMAL(9, 2)"
VIEWS = {
    "by_region": (
        "SELECT o.region, count(*) AS orders, sum(o.amount * p.price) AS value "
        "FROM orders o JOIN prices p ON o.product = p.product GROUP BY o.region"
    ),
    "by_product": (
        "SELECT product, count(DISTINCT region) AS regions, sum(amount) AS amount, max(amount) AS most "
        "FROM orders GROUP BY product"
    ),
    "largest": (
        "SELECT region, id, amount, place FROM (SELECT region, id, amount, "
        "row_number() OVER (PARTITION BY region ORDER BY amount DESC, id) AS place FROM orders) WHERE place <= 10"
    ),
    "large": (
        "SELECT o.id, o.region, p.name, o.amount FROM orders o JOIN prices p ON o.product = p.product "
        "WHERE o.amount > 950"
    ),
}
Row = tuple[object, ...]


@dataclass(frozen=True)
class Sample:
    """After so many seconds: MB by process, of the root and files there, and milliseconds of epochs since the last."""

    at: float
    driver: float
    java: float
    workers: float
    root: float
    files: int
    epochs: int
    milliseconds: float


class Feed:
    """What is in the tables, and the files that change it."""

    def __init__(self, place: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._place = place
        self.files = self.rows = self._steps = self._names = 0
        self._next = 0
        self.orders: deque[Row] = deque()
        self.prices: dict[int, Row] = {}
        self._recent: deque[tuple[list[Row], list[Row], list[tuple[str, str]]]] = deque()
        for name in ("orders", "prices"):
            (place / name).mkdir(parents=True)

    def begin(self) -> None:
        """The first prices."""
        self.write("prices", [("I", *self._price(product)) for product in range(PRODUCTS)])

    def step(self) -> None:
        """One file of orders, and once a second one of prices."""
        if self._steps % HISTORY_EPOCHS == 0:
            self._recent.append((list(self.orders), list(self.prices.values()), []))
            self._recent = deque(self._recent, maxlen=2)
        rows: list[Row] = []
        for _ in range(ORDERS_A_FILE):
            order = (
                self._next,
                self._random.randrange(PRODUCTS),
                f"region {self._random.randrange(20)}",
                self._random.randrange(1000),
            )
            self._next += 1
            self.orders.append(order)
            rows.append(("I", *order))
        while len(self.orders) > LIVE_ORDERS:
            rows.append(("D", *self.orders.popleft()))
        self.write("orders", rows)
        self._steps += 1
        if self._steps % FILES_A_SECOND == 0:
            changed = self._random.sample(range(PRODUCTS), PRODUCTS_A_FILE)
            before = [("D", *self.prices[product]) for product in changed]
            self.write("prices", [*before, *(("I", *self._price(product)) for product in changed)])

    def _price(self, product: int) -> Row:
        self.prices[product] = (product, f"product {product}", f"{self._random.randrange(1, 100_000) / 100:.2f}")
        return self.prices[product]

    def write(self, name: str, rows: list[Row]) -> None:
        """Let a file appear, as a whole."""
        content = "".join(f"{','.join(map(str, row))}\n" for row in rows)
        for *_, files in self._recent:
            files.append((name, content))
        self.files += 1
        self.rows += len(rows)
        self._put(name, content)

    def _put(self, name: str, content: str) -> None:
        self._names += 1
        hidden = self._place / name / f".{self._names:09d}.csv"
        hidden.write_text(content)
        hidden.rename(hidden.with_name(hidden.name[1:]))

    def replay(self, place: Path) -> Iterator[int]:
        """Write into another place what was there a minute before, as one file of each table, then the files since.

        Yields
        ------
        int
            How many files were written, when the first ones are there, and when all are.
        """
        orders, prices, files = self._recent[0]
        before = Feed(place, 0)
        for name, rows in (("prices", prices), ("orders", orders)):
            before.write(name, [("I", *row) for row in rows])
        yield 2
        for name, content in files:
            before._put(name, content)
        yield len(files)


def script(place: Path, clean: bool) -> str:
    """The statements of the pipeline."""
    cleaning = ", cleanSource 'delete'" if clean else ""
    tables = [
        f"CREATE TABLE {name} ({columns}) USING csv OPTIONS (path '{place / name}', opColumn 'op'{cleaning});"
        for name, columns in (("orders", f"op STRING, {ORDERS}"), ("prices", f"op STRING, {PRICES}"))
    ]
    return "\n".join([*tables, *(f"CREATE MATERIALIZED VIEW {n} AS {q};" for n, q in VIEWS.items())])


def sizes_of(directory: Path) -> list[int]:
    """Sizes of all files; one with two names counts once, and those that go meanwhile do not."""
    found = {}
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                found[status.st_ino] = status.st_size
    return list(found.values())


class Command:
    """``tidemill run``, with what its epochs say."""

    def __init__(self, pipeline: Path, root: Path, *options: str) -> None:
        command = [sys.executable, "-m", "tidemill", "run", str(pipeline), "--root", str(root), "--log", *options]
        self.root = root
        self.epochs: list[tuple[float, float, int]] = []
        """When each was sealed, in seconds since the start, its milliseconds and its rows."""
        self._rest: list[str] = []
        self._began = time.monotonic()
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("{"):
                report = json.loads(line)
                at = time.monotonic() - self._began
                self.epochs.append((at, report["milliseconds"]["total"], report["rows_in"]))
            else:
                self._rest = [*self._rest[-20:], line]

    def sample(self, since: float) -> Sample:
        """Everything now; epochs since a time."""
        pid = self._process.pid
        below = descendants(pid)
        sizes = sizes_of(self.root)
        taken = [ms for at, ms, _ in self.epochs if at > since]
        return Sample(
            time.monotonic() - self._began,
            anonymous_bytes(pid) / 2**20,
            sum(resident_bytes(p) for p in below if is_java(p)) / 2**20,
            sum(proportional_bytes(p) for p in below if not is_java(p)) / 2**20,
            sum(sizes) / 2**20,
            len(sizes),
            len(taken),
            float(np.median(taken)) if taken else 0.0,
        )

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.monotonic() - self._began

    @property
    def rows(self) -> int:
        """Rows of all epochs."""
        return sum(rows for _, _, rows in self.epochs)

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """Let it end, as Ctrl-C does. RuntimeError when it failed."""
        if self.is_running():
            self._process.send_signal(signal.SIGINT)
        self.wait()

    def wait(self) -> None:
        """Wait for its end. RuntimeError when it failed."""
        code = self._process.wait(300)
        self._thread.join()
        if code not in (0, 130):
            raise RuntimeError(f"the command ended with {code}:\n{''.join(self._rest)}")


def _views(root: Path, work: Path) -> dict[str, str]:
    """The content of each view, kept."""
    found = {}
    for name in VIEWS:
        command = [sys.executable, "-m", "tidemill", "query", "--root", str(root), "--format", "arrow"]
        done = subprocess.run([*command, f"SELECT * FROM {name}"], stdout=subprocess.PIPE, check=True)
        found[name] = keep(str(work), name, pa.ipc.open_stream(done.stdout).read_all())
    return found


def _expected(feed: Feed, work: Path) -> dict[str, str]:
    """What DuckDB says of the rows that are left."""
    database = duckdb.connect()
    for name, columns, rows in (("orders", ORDERS, feed.orders), ("prices", PRICES, feed.prices.values())):
        names = [column.split()[0] for column in columns.replace("(9, 2)", "").split(", ")]
        given = pa.table(dict(zip(names, map(list, zip(*rows)), strict=True)))
        database.register("given", given)
        database.execute(f"CREATE TABLE {name} ({columns})")
        database.execute(f"INSERT INTO {name} SELECT * FROM given")
        database.unregister("given")
    return {
        name: keep(str(work), f"{name}.expected", database.sql(query).to_arrow_table()) for name, query in VIEWS.items()
    }


def run(place: Path, seconds: float, seed: int, settings: list[str]) -> tuple[list[Sample], Feed, Command]:
    """Files for so long; then the command reads what is left, and ends."""
    feed = Feed(place / "in", seed)
    feed.begin()
    pipeline = place / "pipeline.sql"
    pipeline.write_text(script(place / "in", clean=True))
    command = Command(pipeline, place / "root", *settings)
    samples: list[Sample] = []
    every = min(_SAMPLE_SECONDS, seconds / 5)
    at, sampled = time.monotonic(), 0.0
    try:
        while command.is_running() and command.seconds < seconds:
            feed.step()
            if command.seconds - sampled >= every:
                samples.append(command.sample(sampled))
                sampled = command.seconds
            at += 1 / FILES_A_SECOND
            time.sleep(max(0.0, at - time.monotonic()))
        until = time.monotonic() + 120
        while command.is_running() and command.rows < feed.rows and time.monotonic() < until:
            time.sleep(0.5)
        samples.append(command.sample(sampled))
    finally:
        command.end()
    return samples, feed, command


def _size_of_new(place: Path, feed: Feed) -> float:
    """MB of a new root with the same rows, and about as many epochs with changes as a history has."""
    pipeline = place / "left.sql"
    pipeline.write_text(script(place / "left", clean=False))
    for files, epoch_bytes in zip(feed.replay(place / "left"), ("64m", str(BYTES_A_FILE)), strict=True):
        command = Command(pipeline, place / "new", "--once", "--epoch-bytes", epoch_bytes)
        command.wait()
        print(f"the new root: {files} files in {len(command.epochs)} epochs")
    if len(command.epochs) < HISTORY_EPOCHS:
        raise RuntimeError(f"fewer epochs than the {HISTORY_EPOCHS} of a history")
    return sum(sizes_of(place / "new")) / 2**20


def _plot(samples: list[Sample], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(8, 7))
    minutes = [s.at / 60 for s in samples]
    for name in ("driver", "java", "workers"):
        axes[0].plot(minutes, [getattr(s, name) for s in samples], label=name)
    axes[0].set_ylabel("memory, MB")
    axes[0].legend(loc="upper left")
    axes[1].plot(minutes, [s.root for s in samples])
    axes[1].set_ylabel("root, MB")
    axes[2].plot(minutes, [s.milliseconds for s in samples])
    axes[2].set_ylabel("median epoch, ms")
    axes[2].set_xlabel("minutes")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


def report(samples: list[Sample], warm_up: float) -> None:
    """How memory, disk and epochs went after the warm-up."""
    kept = [s for s in samples if s.at >= warm_up] or samples
    times = [s.at for s in kept]
    print(f"{len(kept)} samples over {(times[-1] - times[0]) / 60:.1f} minutes, after {warm_up / 60:g} of warm-up")
    rows: list[list[object]] = []
    for title, name in (
        ("MB of the command, without mapped files", "driver"),
        ("MB of Java", "java"),
        ("MB of workers", "workers"),
        ("MB of the root", "root"),
        ("files of the root", "files"),
        ("ms of an epoch, the median", "milliseconds"),
    ):
        values = [float(getattr(s, name)) for s in kept]
        tenth = max(1, len(values) // 10)
        first, last = float(np.median(values[:tenth])), float(np.median(values[-tenth:]))
        rows.append([title, first, max(values), last, slope(times, values)])
    table(("what", "first tenth", "most", "last tenth", "an hour"), rows)


def main() -> int:
    """Run it and print the figures; 1 when an answer is wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="half a minute")
    options.add_argument("--minutes", type=float, default=120.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the command")
    options.add_argument("--plot", type=Path, help="a file to draw the samples into")
    options.add_argument("--keep", type=Path, help="a file for the samples, a line of JSON each")
    given = options.parse_args()
    minutes = 0.5 if given.small else given.minutes
    settings = [f"--set={setting}" for setting in given.set]
    heading(f"steady: {FILES_A_SECOND} files a second for {minutes:g} minutes, {LIVE_ORDERS:,} orders are left")
    with workspace() as place:
        samples, feed, command = run(place, 60 * minutes, given.seed, settings)
        if given.keep:
            given.keep.write_text("".join(f"{json.dumps(asdict(sample))}\n" for sample in samples))
        if given.plot:
            _plot(samples, given.plot)
        print(f"{feed.files:,} files, {feed.rows:,} rows, {len(command.epochs):,} epochs")
        report(samples, min(WARM_UP, 12 * minutes))
        answers, expected = _views(place / "root", place), _expected(feed, place)
        wrong = {name: why for name in VIEWS if (why := unlike(answers[name], expected[name]))}
        for name, why in wrong.items():
            print(f"{name} is not what DuckDB says: {why}")
        size = sum(sizes_of(place / "root")) / 2**20
        need = _size_of_new(place, feed)
    if wrong or command.rows != feed.rows:
        print(f"the command admitted {command.rows:,} rows")
        return 1
    print(f"all views are what DuckDB says; the root has {size:.1f} MB, a new one {need:.1f}")
    verdict("what a new root needs / the root", need / size, 1 / DISK_GOAL)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
