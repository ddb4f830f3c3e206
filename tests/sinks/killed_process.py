"""Runs a mill with sinks until it kills itself with signal 9: ``python killed_process.py ROOT SCRIPT POINT CALLS``.

``POINT`` is ``before`` or ``after`` a name of :data:`POINTS`, which is met for the ``CALLS``-th time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.runtime.spark.java_process import BRIEF, JAVA_OPTIONS
from tidemill.sinks.delta import DeltaTarget
from tidemill.sinks.folder import Folder
from tidemill.sinks.iceberg import IcebergTarget
from tidemill.sinks.postgres import PostgresTarget
from tidemill.sinks.webhook import WebhookTarget

POINTS: dict[str, tuple[type, str]] = {
    "file": (Folder, "write"),
    "commit": (DeltaTarget, "_commit"),
    "append": (IcebergTarget, "changes"),
    "note": (PostgresTarget, "_note"),
    "rows": (PostgresTarget, "changes"),
    "message": (WebhookTarget, "_post"),
}


def dying(method: Callable[..., Any], calls: int, after: bool) -> Callable[..., Any]:
    """A method that kills the process before or after a call."""
    left = [calls]

    def call(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if after or left[0]:
            method(*args, **kwargs)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    return call


def main(root: str, script: str, point: str, calls: int) -> None:
    """Epochs and checkpoints until the sinks meet the point, which some thread of them does."""
    when, name = point.split()
    owner, method = POINTS[name]
    setattr(owner, method, dying(getattr(owner, method), calls, when == "after"))
    settings = Settings(
        master="local[2]",
        partitions=1,
        listing_seconds=0.0,
        split_bytes=200,
        epoch_bytes=200,
        spark_conf={JAVA_OPTIONS: BRIEF},
    )
    with Mill(root, settings=settings) as mill:
        mill.script(Path(script).read_text())
        while mill.advance() is not None:
            mill.checkpoint()
        threading.Event().wait(60)
    sys.exit("it was not killed")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
