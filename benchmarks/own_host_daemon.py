"""A daemon of Python workers that takes its executor for a host of its own. Spark runs it by name."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

MASTER = "local-cluster[2,2,1024]"
"""Two executors with a slot each beside that of a task that stays."""


def spark_conf() -> dict[str, str]:
    """The settings of Spark with which each executor of a local cluster is a host of its own."""
    places = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    return {"spark.python.daemon.module": "benchmarks.own_host_daemon", "spark.executorEnv.PYTHONPATH": places}


if __name__ == "__main__":
    os.environ["TIDEMILL_HOST"] = str(Path.cwd())  # each executor of a local cluster has a directory
    runpy.run_module("tidemill.runtime.workers.worker_daemon", run_name="__main__")
