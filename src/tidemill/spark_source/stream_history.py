"""The files of each batch of a stream: in its offsets while they are few, else in a log.

Spark stores the offsets of a stream and nothing else, and does not tell a Python source where. An offset must determine
which files were read before it, and which files a batch has that runs a second time. So it either lists all files
itself, or has a number and the name of a log below ``stateLocation``. Each batch is an object of the log, which is
written before Spark knows of the batch and never changed.

An object of the log is named after its first and last batch. After each 100, 10,000, ... batches one object is written
for all of these, and the objects it replaces are deleted 100 batches later. So a query that starts again reads few
objects, and may go back as far as Spark's own checkpoint does.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from tidemill.errors import TidemillError
from tidemill.sources.file_info import FileInfo
from tidemill.state.versions.objects import STAGED, Objects
from tidemill.task.files.split_planner import Piece

MOST_IN_OFFSET = 1000
"""Files of a stream without a log."""

TOGETHER = 100
"""How many objects of the log become one."""

_LOGS = "_batches"
_PAGE = 1 << 12

Offset = dict[str, Any]
"""``batch``: the number of batches before. ``files``: their files, each with its batch; or ``log``: where these are."""

BEGINNING: Offset = {"batch": 0}


class StreamHistory:
    """The batches of a stream up to any offset.

    Parameters
    ----------
    location : str or None
        The option ``stateLocation``: a directory, or a URL as that of a root.

    Raises
    ------
    TidemillError
        TM1009 for a URL of another scheme.
    """

    def __init__(self, location: str | None) -> None:
        self._objects = None if location is None else Objects(location)

    def read_before(self, offset: Offset) -> list[Piece]:
        """All that was read up to an offset, in order. Errors as :meth:`between`."""
        return self.between(BEGINNING, offset)

    def pages_before(self, offset: Offset) -> Iterator[list[Piece]]:
        """As :meth:`read_before`, in pages: a stream may have read more files than fit into memory."""
        if "log" not in offset:
            yield self.read_before(offset)
            return
        for name in self._cover(offset["log"], 1, offset["batch"]):
            lines = self._lines(offset, name)
            while page := [_piece(json.loads(line)) for line in islice(lines, _PAGE)]:
                yield page

    def between(self, start: Offset, end: Offset) -> list[Piece]:
        """What the batches from one offset to another had, in order.

        Raises
        ------
        TidemillError
            TM5062 when the log of the offset is missing or incomplete; TM5063 when it cannot be read.
        """
        first, last = start["batch"] + 1, end["batch"]
        if last < first:
            return []
        if "log" not in end:
            return [_piece(entry[1:]) for entry in end.get("files", ()) if entry[0] >= first]
        return [piece for name in self._cover(end["log"], first, last) for piece in self._read(end, name)]

    def following(self, start: Offset, pieces: Sequence[Piece]) -> tuple[Offset, list[Piece]]:
        """The offset after a batch of these pieces, and the pieces of the batch.

        The batch has other pieces if it was logged before and Spark lost its offset.

        Raises
        ------
        TidemillError
            TM5060 when the files have become too many for an offset; TM5061 when the log cannot be written; as
            :meth:`between`.
        """
        batch = start["batch"] + 1
        if self._objects is None:
            files = [*start.get("files", ()), *([batch, *_entry(p)] for p in pieces)]
            if len(files) > MOST_IN_OFFSET:
                raise TidemillError(
                    "TM5060",
                    "a stream without stateLocation has read too many files for its offsets",
                    got=f"{len(files)} files, at most {MOST_IN_OFFSET}",
                    hint="give the option stateLocation, a directory beside the checkpoint, and start the query again: "
                    "it continues from its checkpoint",
                )
            return {"batch": batch, "files": files}, list(pieces)
        log = start.get("log") or uuid.uuid4().hex
        if "log" not in start and start["batch"]:
            self._write(log, 1, start["batch"], self.read_before(start))
        end = {"batch": batch, "log": log}
        if not self._write(log, batch, batch, pieces):
            return end, self.between(start, end)
        self._merge(end)
        return end, list(pieces)

    def _merge(self, end: Offset) -> None:
        """Write one object for many when their number is reached; delete those that an earlier one replaced."""
        batch, many = end["batch"], TOGETHER
        while batch % many == 0:
            first = batch - many + 1
            names = self._cover(end["log"], first, batch)
            lines = (line for name in names for line in self._lines(end, name))
            with _spilled(lines, self._folder(end["log"])) as file:
                self._put(_object(end["log"], first, batch), file)
            many *= TOGETHER
        if batch % TOGETHER == 0 and batch > TOGETHER:
            kept = set(self._cover(end["log"], 1, batch - TOGETHER))
            old = [n for n in self._names(end["log"]) if _range(n)[1] <= batch - TOGETHER and n not in kept]
            assert self._objects is not None
            self._objects.remove(old)

    def _cover(self, log: str, first: int, last: int) -> list[str]:
        """The fewest objects that have exactly these batches. TM5062 when some are missing."""
        found: dict[int, list[tuple[int, str]]] = {}
        for name in self._names(log):
            begin, end = _range(name)
            if begin >= first and end <= last:
                found.setdefault(begin, []).append((end, name))
        chosen, at = [], first
        while at <= last:
            if at not in found:
                raise _without_log({"batch": at, "log": log})
            end, name = max(found[at])
            chosen.append(name)
            at = end + 1
        return chosen

    def _names(self, log: str) -> list[str]:
        if self._objects is None:
            raise _without_log({"log": log})
        try:
            return [found.name for found in self._objects.list(f"{_LOGS}/{log}/")]
        except OSError as error:
            raise _unreadable(str(self._objects), error) from error

    def _read(self, offset: Offset, name: str) -> list[Piece]:
        return [_piece(json.loads(line)) for line in self._lines(offset, name)]

    def _lines(self, offset: Offset, name: str) -> Iterator[bytes]:
        """The lines of an object; one of many batches is not held in memory."""
        assert self._objects is not None
        first, last = _range(name)
        path = self._objects.path(name)
        try:
            if path is None and first == last:
                yield from self._objects.get(name).splitlines(keepends=True)
                return
            with ExitStack() as stack:
                if path is None:
                    path = Path(stack.enter_context(TemporaryDirectory())) / "batches"
                    self._objects.download(name, path)
                yield from stack.enter_context(path.open("rb"))
        except FileNotFoundError:
            raise _without_log(offset) from None
        except OSError as error:
            raise _unreadable(name, error) from error

    def _folder(self, log: str) -> Path | None:
        """The directory of a log; None in an object store."""
        assert self._objects is not None
        return self._objects.path(f"{_LOGS}/{log}")

    def _write(self, log: str, first: int, last: int, pieces: Iterable[Piece]) -> bool:
        """Write an object; False when it was there already."""
        lines = "".join(json.dumps(_entry(piece)) + "\n" for piece in pieces)
        return self._put(_object(log, first, last), lines.encode())

    def _put(self, name: str, data: bytes | Path) -> bool:
        assert self._objects is not None
        try:
            self._objects.put(name, data)
        except FileExistsError:
            return False
        except OSError as error:
            raise _unwritable(error) from error
        return True


def unfinished(pieces: Sequence[Piece]) -> tuple[FileInfo, int] | None:
    """The file whose beginning is the last of these pieces, and where that ends; None if the file is complete."""
    if not pieces or pieces[-1].end >= pieces[-1].file.size:
        return None
    return pieces[-1].file, pieces[-1].end


@contextmanager
def _spilled(lines: Iterable[bytes], folder: Path | None) -> Iterator[Path]:
    """Lines as a temporary file: in a folder if there is one, under a name that no object has."""
    path: Path | None = None
    try:
        try:
            with NamedTemporaryFile(dir=folder, suffix=STAGED, delete=False) as file:
                path = Path(file.name)
                file.writelines(lines)
        except OSError as error:
            raise _unwritable(error) from error
        yield path
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


def _object(log: str, first: int, last: int) -> str:
    return f"{_LOGS}/{log}/{first:012d}-{last:012d}"


def _entry(piece: Piece) -> list[Any]:
    file = piece.file
    return [file.path, file.size, file.modified, file.etag, piece.start, piece.end]


def _piece(entry: Sequence[Any]) -> Piece:
    path, size, modified, etag, start, end = entry
    return Piece(FileInfo(path, size, modified, etag), start, end)


def _range(name: str) -> tuple[int, int]:
    first, _, last = name.rpartition("/")[2].partition("-")
    return int(first), int(last)


def _without_log(offset: Mapping[str, Any]) -> TidemillError:
    return TidemillError(
        "TM5062",
        "the log of a stream is missing or incomplete",
        got=f"the batches of {json.dumps(offset)}",
        hint="give the option stateLocation as it was, with all files below it; without them the stream must begin "
        "anew, with another checkpoint",
    )


def _unreadable(name: str, error: OSError) -> TidemillError:
    return TidemillError(
        "TM5063",
        "the log of a stream cannot be read",
        got=f"{name}: {error}",
        hint="check the option stateLocation and its permissions, and start the query again",
    )


def _unwritable(error: OSError) -> TidemillError:
    return TidemillError(
        "TM5061",
        "the log of a stream cannot be written",
        got=str(error),
        hint="check the option stateLocation, its permissions and its space, and start the query again",
    )
