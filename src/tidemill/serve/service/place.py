"""A place among those that a limit allows."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Place:
    """Is given back once: at the end of its block, or when nobody holds it any more.

    The last is for an answer that is never begun because its client has gone.

    Parameters
    ----------
    give_back : callable
        Is called from any thread, also while garbage is collected.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def close(self) -> None:
        """Give it back."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
