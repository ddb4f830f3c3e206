"""Java for a command: begun as soon as the command knows its settings, before it imports what it needs."""

from __future__ import annotations

from dataclasses import replace

from tidemill.config import Settings
from tidemill.runtime.spark.java_process import BRIEF, JAVA_OPTIONS, begin


def begin_java(chosen: Settings) -> Settings:
    """Begin Java for a command that uses it to plan and to schedule.

    Returns
    -------
    Settings
        For the session. Options of Java that the user gives count before those that are added.
    """
    given = chosen.spark_conf.get(JAVA_OPTIONS, "")
    brief = replace(chosen, spark_conf={**chosen.spark_conf, JAVA_OPTIONS: f"{BRIEF} {given}".strip()})
    begin_serving(brief)
    return brief


def begin_serving(chosen: Settings) -> None:
    """Begin Java for a server, whose clients' queries it also runs."""
    begin({**chosen.spark_conf, "spark.master": chosen.master})
