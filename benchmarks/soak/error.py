"""What ends a soak."""

from __future__ import annotations


class SoakError(AssertionError):
    """Something was wrong: a result, an answer without a number, an answer of 5xx, or an error in the server's log."""
