"""A mill over three sockets, to be killed: ``socket_mill.py ROOT PORT...`` prints how many rows each epoch leaves."""

from __future__ import annotations

import sys
import time

from tidemill.config import Settings
from tidemill.mill import Mill


def main() -> None:
    """Run epochs until killed."""
    root, lines, fixed, sized = sys.argv[1:]
    settings = Settings(master="local[2]", partitions=2, checkpoint_seconds=0.3)
    mill = Mill(root, settings=settings)
    mill.script(f"""
        CREATE TABLE t (c INT, k INT, n INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:{lines}');
        CREATE TABLE f (c INT, k INT, n INT) USING native OPTIONS (path 'tcp+listen://127.0.0.1:{fixed}');
        CREATE TABLE s (c INT, k INT, n INT) USING frames
          OPTIONS (path 'tcp+listen://127.0.0.1:{sized}', payload 'csv', sizeBytes '2');
        CREATE MATERIALIZED VIEW v AS SELECT * FROM t UNION ALL SELECT * FROM f UNION ALL SELECT * FROM s;
    """)
    while True:
        if mill.advance() is None:
            time.sleep(0.02)
        else:
            print(mill.count("v"), flush=True)


if __name__ == "__main__":
    main()
