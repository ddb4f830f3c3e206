"""Runs a mill until it is killed, for good: ``python crash_process.py ROOT SCRIPT POINT CALLS GROUP``.

The process kills itself with signal 9 when a point is met for the ``CALLS``-th time; with ``GROUP`` 1 its Java and all
workers go with it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from kill_points import killed_at

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.files import progress

_IDLE_SECONDS = 20
"""After so long there is nothing left: a broker may tell late that there is more."""


def main(root: str, script: str, point: str, calls: int, group: bool) -> None:
    """Epochs and checkpoints until nothing has come for a while, which is a failure."""

    def end(_: str) -> None:
        if group:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    settings = Settings(
        master="local[2]",
        partitions=2,
        listing_seconds=0.0,
        small_epoch_bytes=0,
        split_bytes=600,
        checkpoint_seconds=1e9,
    )
    progress.SPLITS_OF_PART = 1
    with Mill(root, settings=settings) as mill:
        mill.script(Path(script).read_text())
        with killed_at(point, calls, end):
            last = time.monotonic()
            while time.monotonic() - last < _IDLE_SECONDS:
                if mill.advance() is None:
                    time.sleep(0.1)
                else:
                    mill.checkpoint()
                    last = time.monotonic()
        sys.exit(f"it was not killed; {mill.warnings()}")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), sys.argv[5] == "1")
