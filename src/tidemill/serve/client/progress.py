"""Shows what a view is waiting for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def waiting(view: str, shown: bool) -> Iterator[Callable[[str], None]]:
    """A function that shows what remains, as a line on a terminal that is replaced, or nothing."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(file=sys.stderr)
    with console.status(f"{view} is initialising") as status:
        yield lambda text: status.update(text)
