"""What Spark says of the jobs it ran. It remembers the last thousand, so numbers are compared, and never lists."""

from __future__ import annotations

from pyspark.sql import SparkSession


def jobs_so_far(spark: SparkSession) -> int:
    """How many jobs there have been: Spark numbers them from 0."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1


def failed_tasks(spark: SparkSession, since: int) -> int:
    """Failed task attempts of the jobs that came after the first ``since``."""
    tracker = spark.sparkContext.statusTracker()
    failed = 0
    for job in tracker.getJobIdsForGroup(None):
        info = tracker.getJobInfo(job) if job >= since else None
        stages = [tracker.getStageInfo(s) for s in info.stageIds] if info else []
        failed += sum(s.numFailedTasks for s in stages if s is not None)
    return failed
