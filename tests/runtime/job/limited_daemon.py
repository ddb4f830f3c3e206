"""A daemon of Python workers that may have little more memory than they begin with. Spark runs it by name."""

from __future__ import annotations

import os
import resource
from pathlib import Path

if __name__ == "__main__":
    from pyspark import daemon

    from tidemill.runtime.workers import worker_daemon

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    worker_daemon.preload()
    data = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    limit = data + (int(os.environ["TIDEMILL_TEST_ROOM_MB"]) << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    daemon.worker = worker_daemon.quiet(daemon.worker)
    daemon.manager()
