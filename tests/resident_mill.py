"""Mills whose epochs run in tasks that stay, on the session of the test process."""

from __future__ import annotations

import time

from tidemill.mill import Mill
from tidemill.runtime.job.resident_epochs import ResidentEpochs
from tidemill.runtime.spark.resident_stage import ResidentStage


def stage_of(mill: Mill) -> ResidentStage:
    """The stage of a resident mill."""
    jobs = mill._coordinator._jobs
    assert isinstance(jobs, ResidentEpochs)
    assert jobs._shared.stage is not None
    return jobs._shared.stage


def wait_for_tasks(mill: Mill, count: int = 1, seconds: float = 60.0) -> None:
    """Wait until the tasks of a mill are there, so that the next epoch runs in them."""
    stage = stage_of(mill)
    end = time.monotonic() + seconds
    while not (tasks := stage.take(count)):
        assert time.monotonic() < end, f"{stage.failure or 'no task'} after {seconds:g} s"
        time.sleep(0.02)
    stage.give_back(tasks)
