"""Memory of a process that serves: what is large goes back to the system when it is freed."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
import pyarrow as pa
from tidemill.serve.service.freed_memory import use_one_allocator

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

if sys.argv[1] == "one":
    use_one_allocator()
del (first := [bytearray(300_000) for _ in range(3)])[:]  # glibc takes larger blocks from its heap from now on
large, small = [], []
for _ in range(300):
    large.append(bytearray(300_000))
    small.append(bytearray(5_000))  # stays, between the others
full = anonymous()
large.clear()
print(full - anonymous(), pa.default_memory_pool().backend_name)
"""


def freed(how: str) -> tuple[int, str]:
    """Kilobytes that went back, of 88,000; and Arrow's allocator."""
    run = subprocess.run([sys.executable, "-c", _SCRIPT, how], capture_output=True, text=True, check=True)
    size, pool = run.stdout.split()
    return int(size), pool


def test_large_blocks_go_back() -> None:
    size, pool = freed("one")
    assert size > 80_000 and pool == "system"


def test_without_it_they_stay() -> None:
    """Else nobody would notice that it does nothing any more."""
    size, _ = freed("usual")
    assert size < 20_000
