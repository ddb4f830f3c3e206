"""Moments of an epoch at which a mill may die, each found by what the mill calls then.

What has happened by then, and what is lost:

``after list``
    New files are known to the process, and to nobody else.
``within fetch``
    A task has read some of its splits; its memtables are in memory.
``after fetch``
    All tasks have written the epoch's rows to files of the buffer; no position has moved.
``before seal``
    Positions, too, lie in a file. No version names any of these files.
``after seal``
    The epoch is sealed: readers of this process saw it. No manifest names it.
``before durable``
    State files of a checkpoint are durable objects. The manifest that names them is not there.
``after durable``
    The manifest is there; the process did not hear of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.local_jobs import LocalJobs

from tidemill.errors import TidemillError
from tidemill.runtime.durability.checkpoints import Checkpoints
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.job.epoch_job import EpochJobs
from tidemill.runtime.job.resident_epochs import ResidentEpochs
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.version import Version
from tidemill.task.operators.scan import ScanOperator

_PLACES: dict[str, tuple[tuple[type, ...], str, bool]] = {
    "after list": ((Intake,), "list_files", True),
    "within fetch": ((ScanOperator,), "get_output", True),
    "after fetch": ((EpochJobs, LocalJobs, ResidentEpochs), "run", True),
    "before seal": ((Version,), "seal", False),
    "after seal": ((Checkpoints,), "submit", True),
    "before durable": ((ManifestLog,), "publish", False),
    "after durable": ((ManifestLog,), "publish", True),
}
"""Classes, their method, and whether it is done before the mill dies."""

KILL_POINTS = tuple(_PLACES)
DURABLE = "after durable"
"""The one point after which the epoch has happened."""
_OF_CHECKPOINTS = ("before durable", "after durable")


class Killed(BaseException):
    """Stands for the end of the process: nothing in a mill catches it."""


def dies(point: str) -> None:
    """The process ends for all that the mill can do; on the thread of checkpoints with an error that stops it."""
    raise TidemillError("TM1003", "killed", got=point, hint="open it again") if point in _OF_CHECKPOINTS else Killed


@contextmanager
def killed_at(point: str, calls: int = 1, how: Callable[[str], None] = dies) -> Iterator[list[str]]:
    """Within it the mill dies at a point, when that is met for the ``calls``-th time; the list tells whether it did."""
    owners, name, after = _PLACES[point]
    met: list[str] = []
    left = [calls]
    within = threading.local()

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if getattr(within, "call", False):  # of another class, for which this one does it
                return method(*args, **kwargs)
            left[0] -= 1
            within.call = True
            try:
                result = method(*args, **kwargs) if left[0] or after else None
            finally:
                within.call = False
            if not left[0]:
                met.append(point)
                how(point)
            return result

        return call

    patches = [mock.patch.object(owner, name, dying(vars(owner)[name])) for owner in owners if name in vars(owner)]
    for patch in patches:
        patch.start()
    try:
        yield met
    finally:
        for patch in patches:
            patch.stop()
