"""Whether the source of an adaptor can be loaded."""

from __future__ import annotations

from tidemill.formats.adaptor.format import MEMORY, TIMEOUT
from tidemill.formats.adaptor.process import Process, Task


def check_source(source: str) -> tuple[str, ...]:
    """Load a source in a process of its own; what that process is kept from.

    Raises
    ------
    FormatError
        TM8340 when it cannot be loaded, or has no ``decode``; TM8345 when the process does not start.
    """
    process = Process(Task(source, (), (), 1, MEMORY.default, TIMEOUT.default / 1e6))
    process.close()
    return process.held
