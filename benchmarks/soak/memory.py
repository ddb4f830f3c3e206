"""Memory of the server and of the processes that it has started, and files below its root, over time."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.processes import anonymous_bytes, descendants, is_java, proportional_bytes, resident_bytes
from benchmarks.server_process import ServerProcess

KINDS = ("server", "server without mapped files", "java", "workers", "all")


@dataclass(frozen=True)
class Sample:
    """At a time: MB by kind of process, open files and threads of the server, files and MB below the root.

    Pages that workers share with one another count in parts (PSS), those of the server and of Java whole (RSS). Mapped
    files of state are part of RSS as long as the system has room for them.
    """

    at: float
    pid: int
    megabytes: dict[str, float]
    open_files: int
    threads: int
    files: int
    root_megabytes: float


class Sampler:
    """Takes a sample every few seconds, on a thread of its own."""

    def __init__(self, server: ServerProcess, seconds: float = 5.0) -> None:
        self._server, self._seconds = server, seconds
        self.samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        """Begin; the server runs."""
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self.samples.append(_sample(self._server))
            except OSError:
                continue  # the server is being killed

    def end(self) -> None:
        """Take no more."""
        self._ended.set()
        self._thread.join()

    def write(self, path: Path) -> None:
        """Write all samples, a line of JSON each."""
        path.write_text("".join(f"{json.dumps(asdict(sample))}\n" for sample in self.samples))

    def of_last_process(self, warm_up: float) -> list[Sample]:
        """Samples of the newest process, without the first seconds."""
        if not self.samples:
            return []
        pid = self.samples[-1].pid
        own = [s for s in self.samples if s.pid == pid and s.megabytes["server"] > 0]  # 0: it ended meanwhile
        return [s for s in own if s.at >= own[0].at + warm_up]


def slope(times: list[float], values: list[float]) -> float:
    """The change an hour: the median of the slopes of all pairs (Theil and Sen), which outliers do not move."""
    x, y = np.array(times), np.array(values)
    first, second = np.triu_indices(len(x), 1)
    if not len(first):
        return 0.0
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])) * 3600)


def _sample(server: ServerProcess) -> Sample:
    pid = server.pid
    below = descendants(pid)
    megabytes = {
        "server": _resident(pid),
        "server without mapped files": anonymous_bytes(pid) / 2**20,
        "java": sum(_resident(p) for p in below if is_java(p)),
        "workers": sum(_proportional(p) for p in below if not is_java(p)),
    }
    files = _files(server.root)
    return Sample(
        time.monotonic(),
        pid,
        {**megabytes, "all": sum(megabytes[kind] for kind in ("server", "java", "workers"))},
        len(list(Path(f"/proc/{pid}/fd").iterdir())),
        len(list(Path(f"/proc/{pid}/task").iterdir())),
        len(files),
        sum(files) / 2**20,
    )


def _files(root: Path) -> list[int]:
    """Sizes of files; those that go meanwhile are left out."""
    found = []
    for directory, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                found.append((Path(directory) / name).stat().st_size)
    return found


def _resident(pid: int) -> float:
    return resident_bytes(pid) / 2**20


def _proportional(pid: int) -> float:
    return proportional_bytes(pid) / 2**20
