"""How every benchmark measures: each side in a process of its own, sides in turn, medians, load beside results.

A side is a function that takes its parameters as keywords and returns plain data. It runs as
``python -m benchmarks.measuring MODULE FUNCTION JSON``: neither side inherits a session, a warm JIT or memory of
the other, and both see the same noise of the machine because rounds alternate (A B A B).
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import mmap
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_MARK = "benchmark result: "


def run_side(module: str, function: str, **parameters: Any) -> Any:
    """Call ``module.function(**parameters)`` in a new process; returns what it returned.

    Raises
    ------
    SystemExit
        When the process fails; its last lines are shown.
    """
    command = [sys.executable, "-m", "benchmarks.measuring", module, function, json.dumps(parameters)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            return json.loads(line.removeprefix(_MARK))
    raise SystemExit(f"{module}.{function} failed:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-25:]))


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A directory for inputs, roots and checkpoints that goes away; below ``$TMPDIR``."""
    path = Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def touch_memory(most: int = 6 << 30) -> None:
    """Use much of the memory that is free, once, and let it go: no more than half of it.

    A virtual machine's memory gets a place in its host's when it is first touched, seen here at 400 MB/s: ten times
    what a page costs later. Who happens to get new pages would pay for that.
    """
    pages = os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else 0
    room = min(most, pages * os.sysconf("SC_PAGE_SIZE") // 2)
    if room > 0:
        with mmap.mmap(-1, room) as memory:
            for at in range(0, room, mmap.PAGESIZE):
                memory[at] = 1


def heading(title: str) -> None:
    """What is measured, where, when and under what load."""
    touch_memory()
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    print(f"\n{title}\n{now}, {os.cpu_count()} cores ({platform.machine()}), load {load}", flush=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns, the first to the left, the others to the right."""
    texts = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    for row in texts:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip(), flush=True)


def verdict(what: str, reached: float, goal: float) -> None:
    """The line that says how a ratio stands to its goal; more is better."""
    load = os.getloadavg()[0]
    print(f"{what}: reached {reached:.2f} x, goal {goal:g} x (load now {load:.1f})", flush=True)


def _text(cell: object) -> str:
    return f"{cell:,.2f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else str(cell)


def main() -> None:
    """Run one side and print what it returns."""
    module, function, parameters = sys.argv[1:]
    answer = getattr(importlib.import_module(module), function)(**json.loads(parameters))
    print(f"\n{_MARK}{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    main()
