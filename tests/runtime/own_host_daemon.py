"""A daemon of Python workers that takes its executor for a host of its own. Spark runs it by name."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

if __name__ == "__main__":
    os.environ["TIDEMILL_HOST"] = str(Path.cwd())  # each executor of a local cluster has a directory
    runpy.run_module("tidemill.runtime.workers.worker_daemon", run_name="__main__")
