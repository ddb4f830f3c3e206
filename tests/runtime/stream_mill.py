"""A mill over a socket, to be killed: ``stream_mill.py ROOT PORT`` prints after each epoch how many rows there are."""

from __future__ import annotations

import sys
import time

from tidemill.config import Settings
from tidemill.mill import Mill


def main() -> None:
    """Run epochs until killed."""
    root, port = sys.argv[1], sys.argv[2]
    settings = Settings(master="local[2]", partitions=2, checkpoint_seconds=0.3)
    mill = Mill(root, settings=settings)
    mill.script(f"""
        CREATE TABLE t (c INT, k INT, n INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:{port}');
        CREATE MATERIALIZED VIEW v AS SELECT * FROM t;
    """)
    while True:
        if mill.advance() is None:
            time.sleep(0.02)
        else:
            print(mill.count("v"), flush=True)


if __name__ == "__main__":
    main()
