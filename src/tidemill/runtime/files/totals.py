"""Counts of the files and bytes admitted of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from tidemill.runtime.files.file_progress import ListedFile


@dataclass(frozen=True)
class Totals:
    """Of a table: files read to their end and their bytes, bytes admitted, and the greatest event time admitted.

    Files that may be cleaned at any time are counted separately: views created later do not read them.
    """

    files: int = 0
    file_bytes: int = 0
    admitted: int = 0
    latest: int | None = None
    cleaned: int = 0
    cleaned_bytes: int = 0

    def sealed(self, finished: Iterable[ListedFile], before: Iterable[ListedFile], forgets: bool) -> Totals:
        """After files were read to their end, of which those ``before`` had been listed; ``forgets`` as the policy."""
        kept = [f.size for f in finished if not (forgets and f.size)]
        gone = [f.size for f in finished if forgets and f.size]
        had = [f.size for f in before]
        return replace(
            self,
            files=self.files + len(kept) - len(had),
            file_bytes=self.file_bytes + sum(kept) - sum(had),
            cleaned=self.cleaned + len(gone),
            cleaned_bytes=self.cleaned_bytes + sum(gone),
        )

    def forgotten(self, files: Collection[ListedFile]) -> Totals:
        """After some files became such that may be cleaned."""
        size = sum(f.size for f in files)
        return replace(
            self,
            files=self.files - len(files),
            file_bytes=self.file_bytes - size,
            cleaned=self.cleaned + len(files),
            cleaned_bytes=self.cleaned_bytes + size,
        )
