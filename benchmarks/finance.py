"""DBToaster's finance queries over an order book: messages/s, each query alone, for books of different sizes.

A trace of its own seed per size of book is read in epochs of ``--epoch-bytes``; the clock runs from the first epoch to
the last sealed one. Workers are warm: a short trace has gone through another mill of the same session. The published
figures of DBToaster are of other machines (docs/benchmarks.md).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from tidemill.config import Settings
from tidemill.exchange.trace import main as write_trace
from tidemill.mill import Mill
from tidemill.runtime.spark.session import create_session

GOAL = 200_000.0
QUERIES = {
    "vwap": """SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1
        WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3)
              > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)""",
    "axfinder": """SELECT b.broker_id, SUM(a.volume - b.volume) AS axfinder FROM bids b JOIN asks a
        ON b.broker_id = a.broker_id AND (a.price - b.price > 1000 OR b.price - a.price > 1000)
        GROUP BY b.broker_id""",
    "brokerspread": """SELECT x.broker_id, SUM(x.volume * x.price - y.volume * y.price) AS spread
        FROM bids x JOIN bids y ON x.broker_id = y.broker_id AND x.t > y.t GROUP BY x.broker_id""",
    "brokervariance": """SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS variance
        FROM bids x JOIN bids y ON x.broker_id = y.broker_id GROUP BY x.broker_id""",
    "pricespread": """SELECT SUM(a.price - b.price) AS spread FROM bids b, asks a
        WHERE b.volume > 0.0001 * (SELECT SUM(volume) FROM bids)
          AND a.volume > 0.0001 * (SELECT SUM(volume) FROM asks)""",
    "missedtrades": """SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) AS missed FROM bids b, asks a
        WHERE b.broker_id = a.broker_id
          AND 0.25 * (SELECT SUM(a1.volume) FROM asks a1)
              > (SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price)
          AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1)
              > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price)
        GROUP BY b.broker_id""",
}
ZERO = ("vwap", "missedtrades")
"""Queries for which DBToaster takes an empty sum as 0; they are measured so too."""


def tidemill(work: str, trace: str, warm_up: str, query: str, zero: bool, epoch_bytes: int) -> dict[str, float]:
    """Seconds, epochs and rows of the result of one query over one trace."""
    statement = f"CREATE MATERIALIZED VIEW v {EMPTY_SUM if zero else ''} AS {QUERIES[query]}"
    books = ("bids",) if "asks" not in QUERIES[query] else ("bids", "asks")

    spark = create_session(Settings(master="local[2]"))

    def run(root: Path, path: str, **settings: int) -> dict[str, float]:
        with Mill(root, spark=spark, settings=Settings(**{"epoch_bytes": epoch_bytes, **settings})) as mill:
            for book in books:
                columns = "t DOUBLE, id BIGINT, broker_id INT, volume DOUBLE, price DOUBLE"
                mill.sql(f"CREATE TABLE {book} ({columns}) USING orderbook OPTIONS (path '{path}', book '{book}')")
            mill.sql(statement)
            started = time.perf_counter()
            reports = list(mill.drain())
            seconds = time.perf_counter() - started
            slowest = max(r.milliseconds["total"] for r in reports)
            found = mill.read("v")
            return {"seconds": seconds, "epochs": len(reports), "rows": found.num_rows, "slowest_ms": slowest}

    run(Path(work) / "warm", warm_up, epoch_bytes=30_000, small_epoch_bytes=0)
    try:
        return run(Path(work) / "root", trace)
    finally:
        spark.stop()


EMPTY_SUM = "TBLPROPERTIES ('emptySum' = 'zero')"


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks finance", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--resting", type=int, nargs="+", default=[1_000, 10_000], help="live orders, one run each")
    parser.add_argument("--epoch-bytes", type=int, default=16 << 20)
    parser.add_argument("--queries", nargs="+", default=list(QUERIES))
    parser.add_argument("--small", action="store_true", help="20,000 messages, one book")
    options = parser.parse_args(arguments)
    if options.small:
        options.messages, options.resting = 20_000, [1_000]
    heading(f"Finance queries: {options.messages:,} messages, epochs of at most {options.epoch_bytes:,} bytes")
    rows, slowest = [], float("inf")
    with workspace() as place:
        traces = {}
        for resting in options.resting:
            traces[resting] = str(place / f"trace{resting}.csv")
            write_trace([traces[resting], "--messages", str(options.messages), "--resting", str(resting)])
        warm = str(place / "warm.csv")
        write_trace([warm, "--messages", "20000", "--resting", "300", "--seed", "7"])
        for query in options.queries:
            for zero in (False, True) if query in ZERO else (False,):
                for number, resting in enumerate(options.resting):
                    work = place / f"{query}{zero}{number}"
                    found = run_side(
                        "benchmarks.finance", "tidemill", work=str(work), trace=traces[resting], warm_up=warm,
                        query=query, zero=zero, epoch_bytes=options.epoch_bytes,
                    )  # fmt: skip
                    rate = options.messages / found["seconds"]
                    slowest = min(slowest, rate)
                    name = query + (" (zero)" if zero else "")
                    rows.append((name, resting, int(rate), int(found["epochs"]), found["slowest_ms"]))
    table(("query", "resting orders", "messages/s", "epochs", "slowest epoch ms"), rows)
    verdict("slowest query against 200,000 messages/s", slowest / GOAL, 1.0)


if __name__ == "__main__":
    main()
