"""Processes as /proc shows them: what a process has started, what it is, and what it takes."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def state_of(pid: int) -> str:
    """The letter of a process's state; Z also when it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def children(pid: int) -> list[int]:
    """Living child processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    """Living processes below one, parents first."""
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def is_java(pid: int) -> bool:
    """Whether a process is a Java virtual machine."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


def workers(pid: int) -> list[int]:
    """Python workers of Spark: forks of the daemons that Java virtual machines have started."""
    machines = [p for p in descendants(pid) if is_java(p)]
    return [w for java in machines for daemon in children(java) if not is_java(daemon) for w in children(daemon)]


def executors(pid: int) -> list[int]:
    """Executors of ``local-cluster``: Java virtual machines below another one."""
    return [p for java in descendants(pid) if is_java(java) for p in descendants(java) if is_java(p)]


def kill(pid: int) -> None:
    """``kill -9``, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_some(pids: list[int]) -> int:
    """``kill -9``; how many there were."""
    for pid in pids:
        kill(pid)
    return len(pids)


def resident_bytes(pid: int) -> int:
    """Resident bytes of a process, without its children; 0 when it has gone."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:") << 10


def anonymous_bytes(pid: int) -> int:
    """As :func:`resident_bytes`, without pages of files that are mapped."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "RssAnon:") << 10


def proportional_bytes(pid: int) -> int:
    """As :func:`resident_bytes`, with pages that processes share counted in parts."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") << 10


def _kilobytes(path: Path, name: str) -> int:
    """A figure of a file in /proc; 0 for a process that has gone."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def processor_seconds(pid: int) -> float:
    """Processor time of a process, without its children (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
