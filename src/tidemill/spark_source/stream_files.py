"""The files of a listing that a stream has not read yet, in order, packed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.sources.file_info import FileInfo
from tidemill.sources.packed_names import PackedNames, PackedTexts

_BLOCK = 1024


class StreamFiles:
    """Files in the order of modification time and name; the first one of a name that comes twice.

    Parameters
    ----------
    pages : iterable of list of FileInfo
    """

    def __init__(self, pages: Iterable[Sequence[FileInfo]] = ()) -> None:
        self._names = PackedNames()
        self._etags = PackedTexts()
        sizes, modified = array("q"), array("q")
        for page in pages:
            new = [page[i] for i in self._names.add([f.path for f in page])]
            self._etags.append([f.etag for f in new])
            sizes.extend(f.size for f in new)
            modified.extend(f.modified for f in new)
        self._names.pack()
        self._etags.pack()
        self._sizes, self._modified = np.frombuffer(sizes, np.int64), np.frombuffer(modified, np.int64)
        table = pa.table({"modified": self._modified, "path": self._names.texts.all})
        order = pc.sort_indices(table, [("modified", "ascending"), ("path", "ascending")])
        self._order = order.to_numpy().astype(np.uint32)
        self._read = np.zeros(len(self._order), bool)
        self._at = 0

    def mark_read(self, names: Sequence[str]) -> None:
        """Leave files out from now on; unknown names are ignored."""
        found = self._names.find(names)
        self._read[found[found >= 0]] = True
        while self._at < len(self._order) and self._read[self._order[self._at]]:
            self._at += 1

    def mark_unread(self) -> None:
        """Mark all files as unread."""
        self._read[:] = False
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._order)

    def __iter__(self) -> Iterator[FileInfo]:
        """The unread files, looked up in blocks."""
        for begin in range(self._at, len(self._order), _BLOCK):
            numbers = self._order[begin : begin + _BLOCK].astype(np.int64)
            numbers = numbers[~self._read[numbers]]
            names: list[Any] = self._names.texts.take(numbers).to_pylist()
            etags: list[Any] = self._etags.take(numbers).to_pylist()
            yield from map(
                FileInfo,
                names,
                self._sizes[numbers].tolist(),
                self._modified[numbers].tolist(),
                etags,
            )
