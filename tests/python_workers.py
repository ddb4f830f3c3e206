"""The Python worker processes of a Spark session, found in /proc."""

from __future__ import annotations

import os
import signal

from benchmarks.processes import children
from pyspark.sql import SparkSession


def workers(spark: SparkSession) -> list[int]:
    """Forks of the worker daemon, which is a child of the JVM, or of those of the executors of a local cluster."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = [gateway.proc.pid]
    if str(spark.sparkContext.master).startswith("local-cluster"):
        java = children(gateway.proc.pid)
    return [w for process in java for daemon in children(process) for w in children(daemon)]


def kill_workers(spark: SparkSession) -> list[int]:
    """``kill -9`` all workers; returns those that were there."""
    found = workers(spark)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return found
