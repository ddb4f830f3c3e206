"""A mill that cleans its files, to be killed: ``clean_mill.py ROOT DATA ARCHIVE POINT`` kills itself at a point."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.local_jobs import all_local

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.durability.checkpoints import Checkpoints
from tidemill.runtime.spark.session import create_session
from tidemill.sources.cleaning import files as clean_files

SETTINGS = Settings(master="local[2]", partitions=2, checkpoint_seconds=0.1, listing_seconds=0.0, epoch_bytes=100)


def script(data: str, archive: str) -> str:
    """A table and a view over it."""
    return f"""
        CREATE TABLE t (k INT) USING csv
          OPTIONS (path '{data}/*/*.csv', cleanSource 'archive', sourceArchiveDir '{archive}');
        CREATE MATERIALIZED VIEW tv AS SELECT k FROM t;
    """


def die(*_: Any, **__: Any) -> Any:
    """As ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def main() -> None:
    """Run epochs, in this process, until killed at the point."""
    root, data, archive, point = sys.argv[1:]
    settings = replace(SETTINGS, mode="jobs")  # files are cleaned by this process: workers would only cost time
    mill = all_local(Mill(root, spark=create_session(settings), settings=settings))
    mill.script(script(data, archive))
    moved, publish, unlink, done = clean_files._moved, Checkpoints._publish, Path.unlink, [0]

    def counted(what: Any, after: int) -> Any:
        def call(*given: Any) -> Any:
            done[0] += 1
            return die() if done[0] > after else what(*given)

        return call

    def in_data(path: Path, *given: Any, **more: Any) -> Any:
        return die() if path.is_relative_to(data) else unlink(path, *given, **more)

    if point == "before durable":
        Checkpoints._publish = counted(publish, 1)  # type: ignore[method-assign]
    elif point == "between files":
        clean_files._moved = counted(moved, 2)
    elif point == "within a file":
        Path.unlink = in_data  # type: ignore[method-assign]
    while True:
        mill.advance()
        if point == "sealed" and mill.epoch >= 3:
            die()
        if point == "cleaned" and len(list(Path(archive).rglob("*.csv"))) >= 4:
            die()
        time.sleep(0.02)


if __name__ == "__main__":
    main()
