"""What every side does: it says when it is ready, and when it has the answer, which it leaves in a file.

A side is a module that runs as ``python -m benchmarks.peers.NAME_side JOB INPUT WORK FILES ROWS``: the directory with
a directory for each table, one to write to, and how many files and rows of them there are in the end. Only the standard
library: peers run it in environments of their own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.jobs import JOBS, Job

ANSWER = "answer.json"
MARK = "side: "
"""What lines for the comparison begin with; engines print others."""


class Side:
    """A side's job."""

    def __init__(self, job: Job, source: Path, work: Path, files: int, rows: int) -> None:
        self.job = job
        self.source = source
        self.work = work
        self.files = files
        self.rows = rows

    def directory(self, table: str) -> str:
        """Where the files of a table are, or arrive."""
        return str(self.source / table)

    def say(self, **event: Any) -> None:
        """Tell the comparison something."""
        print(f"{MARK}{json.dumps(event)}", flush=True)

    def ready(self) -> None:
        """The engine has started and has read nothing. Where files arrive, it has the query also, and they may come."""
        self.say(ready=time.time())

    def answer(self, rows: Iterable[Sequence[Any]], version: str) -> None:
        """The answer is here. Times in it become seconds since 1970."""
        found = [tuple(_plain(value) for value in row) for row in rows]
        ended = time.time()
        (self.work / ANSWER).write_text(json.dumps(sorted(found)))
        self.say(answered=ended, version=version)


def _plain(value: Any) -> Any:
    return int(value.timestamp()) if isinstance(value, datetime) else value if isinstance(value, str) else int(value)


def run(jobs: dict[str, Callable[[Side], None]]) -> None:
    """Run the job that the command line names. Times without a zone are UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    name, source, work, files, rows = sys.argv[1:]
    jobs[name](Side(JOBS[name], Path(source), Path(work), int(files), int(rows)))
