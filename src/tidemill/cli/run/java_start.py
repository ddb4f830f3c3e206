"""Java for a command: begun as soon as the command knows its settings, before it imports what it needs."""

from __future__ import annotations

from dataclasses import replace

from tidemill.config import Settings
from tidemill.runtime.spark.java_process import BRIEF, JAVA_OPTIONS, begin


def begin_java(chosen: Settings, ml: bool = True) -> Settings:
    """Begin Java for a command that uses it to plan and to schedule.

    Parameters
    ----------
    ml : bool
        Whether a program in Python may use Spark's machine learning.

    Returns
    -------
    Settings
        For the session. Options of Java that the user gives count before those that are added.
    """
    given = chosen.spark_conf.get(JAVA_OPTIONS, "")
    brief = replace(chosen, spark_conf={**chosen.spark_conf, JAVA_OPTIONS: f"{BRIEF} {given}".strip()})
    begin({**brief.spark_conf, "spark.master": brief.master}, ml, workers=True)
    return brief


def begin_serving(chosen: Settings) -> None:
    """Begin Java for a server, which also runs the queries of its clients for as long as it lives."""
    begin({**chosen.spark_conf, "spark.master": chosen.master}, workers=True)
