"""A mill over the feed of an exchange, to be killed: ``feed_mill.py ROOT URL`` prints a digest after each epoch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.spark.java_process import BRIEF, JAVA_OPTIONS

SCRIPT = """
CREATE TABLE acme USING orderbook OPTIONS (
  path '{url}', greeting 'trace ACME {{lines}} {{last}}\\n', book 'both', partialCancels 'true');
CREATE MATERIALIZED VIEW book AS
SELECT side, price, SUM(volume) AS volume, COUNT(*) AS orders FROM acme GROUP BY side, price;
"""


def digest(levels: Iterable[tuple[str, int, int, int]]) -> int:
    """Of a book: levels in any order, as side, price, volume and number of orders; a sum, so that it can be kept."""
    return sum(hash((ord(side), *numbers)) for side, *numbers in levels) & (1 << 64) - 1


def main() -> None:
    """Run epochs until killed."""
    root, url = sys.argv[1:]
    conf = {JAVA_OPTIONS: BRIEF}
    mill = Mill(root, settings=Settings(master="local[2]", partitions=2, checkpoint_seconds=0.5, spark_conf=conf))
    mill.script(SCRIPT.format(url=url))
    while True:
        if mill.advance() is None:
            time.sleep(0.01)
            continue
        rows = mill.read("book").to_pylist()
        levels = [(r["side"], int(r["price"]), int(r["volume"]), r["orders"]) for r in rows]
        print(json.dumps([mill.epoch, digest(levels), len(levels)]), flush=True)


if __name__ == "__main__":
    main()
