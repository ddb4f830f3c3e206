"""What ends a soak."""

from __future__ import annotations

from benchmarks.soak.memory import Sample


class SoakError(AssertionError):
    """Something was wrong: a result, an answer without a number, an answer of 5xx, or an error in the server's log.

    Attributes
    ----------
    samples : list of Sample
        What the newest process used until then.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.samples: list[Sample] = []
