"""Sides as processes, their answers beside that of DuckDB, and the table."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import REPOSITORY, NotInstalledError, first_error, python
from benchmarks.peers.jobs import JOBS, Job
from benchmarks.peers.side import ANSWER, MARK

ORACLE, OWN = "duckdb", "tidemill"
SIDES = {
    "tidemill": "Tidemill",
    "streaming": "Structured Streaming",
    "pathway": "Pathway",
    "bytewax": "Bytewax",
    "flink": "Flink",
    "duckdb": "DuckDB batch",
}
COLUMNS = ("", "version", "answer s", "process s", "ratio")


@dataclass(frozen=True)
class Outcome:
    """What a side did in a round: ``answer`` and ``process`` are seconds, ``error`` says why there is no answer."""

    rows: list[list[Any]] | None = None
    version: str = ""
    answer: float = 0.0
    process: float = 0.0
    error: str = ""


def command(side: str) -> list[str]:
    """What starts a side."""
    return [python(side), "-m", f"benchmarks.peers.{side}_side"]


def run_job(
    job: Job, start: Sequence[str], source: Path, work: Path, rows: int, pace: float, most: float = 300.0
) -> Outcome:
    """Run a side; files of an arriving job come ``pace`` seconds after one another once it is ready.

    The answer's seconds begin when the side is ready, or else when the last file has come. Those of the process are
    from its start to its end.
    """
    work.mkdir(parents=True)
    given = source / job.name
    files = sorted(next(iter((given / table).iterdir() for table in job.tables)))
    if job.arriving:
        given = work / "in"
        for table in job.tables:
            (given / table).mkdir(parents=True)
    arguments = [job.name, str(given), str(work), str(len(files)), str(rows)]
    begun = time.time()
    with _process([*start, *arguments], work / "stderr") as (process, events):
        found: dict[str, Any] = {}
        deadline = begun + most
        try:
            found |= _wait(events, "ready", deadline)
            last = _arrive(files, given / next(iter(job.tables)), pace) if job.arriving else found["ready"]
            found |= _wait(events, "answered", deadline)
            process.wait(max(deadline - time.time(), 0.1))
        except (queue.Empty, subprocess.TimeoutExpired):
            return Outcome(error=f"no answer within {most:g} s")
        except EOFError:
            process.wait()
            return Outcome(error=first_error((work / "stderr").read_text(errors="replace")))
        ended = time.time()
    answer = json.loads((work / ANSWER).read_text())
    return Outcome(answer, found["version"], found["answered"] - last, ended - begun)


@contextlib.contextmanager
def _process(
    start: list[str], errors: Path
) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[dict[str, Any] | None]]]:
    """A side in a process group of its own, which has ended in the end, and what it tells; None when it is silent."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    events: queue.Queue[dict[str, Any] | None] = queue.Queue()
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            start,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=errors.parent,
            env={**environment, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )

        def follow() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(MARK):
                    events.put(json.loads(line.removeprefix(MARK)))
            events.put(None)

        reader = threading.Thread(target=follow)
        reader.start()
        try:
            yield process, events
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()


def _wait(events: queue.Queue[dict[str, Any] | None], name: str, deadline: float) -> dict[str, Any]:
    event = events.get(timeout=max(deadline - time.time(), 0.0))
    if event is None or name not in event:
        raise EOFError
    return event


def _arrive(files: Sequence[Path], target: Path, pace: float) -> float:
    """Let files appear, each whole at once; returns when the last one did."""
    begun = time.time()
    for number, file in enumerate(files):
        time.sleep(max(begun + number * pace - time.time(), 0.0))
        os.link(file, target / file.name)
    return time.time()


def measure(
    sides: Sequence[str], jobs: Sequence[str], source: Path, work: Path, rows: dict[str, int], rounds: int, pace: float
) -> dict[str, dict[str, list[Outcome]]]:
    """By job and side, the outcome of each round, or of those before it was interrupted.

    Sides take turns; who has once failed is not asked again.
    """
    starts: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for side in sides:
        try:
            starts[side] = command(side)
        except NotInstalledError as error:
            missing[side] = f"not installed: {error}"
    found: dict[str, dict[str, list[Outcome]]] = {
        job: {side: [Outcome(error=missing[side])] if side in missing else [] for side in sides} for job in jobs
    }
    turns = [(number, job, side) for number in range(rounds) for job in jobs for side in starts]
    try:
        for number, job, side in turns:
            before = found[job][side]
            if not any(outcome.error for outcome in before):
                place = work / f"{job}-{side}-{number}"
                before.append(run_job(JOBS[job], starts[side], source, place, rows[job], pace))
                shutil.rmtree(place)
    except KeyboardInterrupt:
        print("interrupted; medians are of the rounds before", flush=True)
    return found


def report(job: str, outcomes: dict[str, list[Outcome]]) -> list[tuple[object, ...]]:
    """Rows of the table (:data:`COLUMNS`): medians, and the ratio of a side's answer to that of Tidemill.

    There is no ratio for a side whose answer is not the oracle's in all rounds, and none at all if Tidemill's is not.
    """
    oracle = next((outcome.rows for outcome in outcomes.get(ORACLE, ()) if outcome.rows is not None), None)
    notes = {side: _note(found, oracle) for side, found in outcomes.items()}
    own = _median(outcomes[OWN], lambda o: o.answer) if notes.get(OWN) == "" else None
    shown: list[tuple[object, ...]] = []
    for side, found in outcomes.items():
        title = f"{job}, {SIDES.get(side, side)}"
        version = next((outcome.version for outcome in found if outcome.version), "-")
        if not found or any(outcome.error for outcome in found):
            shown.append((title, version, "-", "-", notes[side]))
            continue
        answer, process = _median(found, lambda o: o.answer), _median(found, lambda o: o.process)
        ratio: object = notes[side] or ("-" if own is None or side == OWN else answer / own)
        shown.append((title, version, answer, process, ratio))
    return shown


def _note(found: list[Outcome], oracle: list[list[Any]] | None) -> str:
    """Why a side has no ratio, or nothing."""
    failed = next((outcome.error for outcome in found if outcome.error), "")
    if failed or not found:
        return failed or "not measured"
    if oracle is None:
        return "nothing to compare with"
    return "" if all(outcome.rows == oracle for outcome in found) else "answers differ"


def _median(found: list[Outcome], of: Callable[[Outcome], float]) -> float:
    return statistics.median(of(outcome) for outcome in found)
