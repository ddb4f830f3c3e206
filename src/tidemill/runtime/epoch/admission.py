"""How many bytes of input an epoch may admit: fewer when tasks run out of memory for what they write."""

from __future__ import annotations


class Admission:
    """Back-pressure on admission: half as many bytes after an epoch that spilled, a quarter more after any other.

    Parameters
    ----------
    most, least : int
        Bounds of the bytes of an epoch.
    """

    def __init__(self, most: int, least: int) -> None:
        self._most = most
        self._least = min(least, most)
        self.bytes = most

    def sealed(self, admitted: int, spilled: int) -> None:
        """Note an epoch: how many bytes it admitted, and how many its tasks moved out of memory."""
        if spilled:
            self.bytes = max(self._least, min(self.bytes, admitted) // 2)
        else:
            self.bytes = min(self._most, self.bytes + max(1, self.bytes // 4))
