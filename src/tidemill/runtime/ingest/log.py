"""The batches that Spark streams have written into one table: each is durable, complete, and there once.

Below ``ingest/<table>/`` in the root lie

- ``data/<attempt>/...``: files of rows;
- ``batches/<number>``: the query and number of a batch, and its files. It is written, put-if-absent, when all files are
  there; from then on the batch belongs to the table;
- ``given/<number>``: the batches of every query up to that number, as ranges. Their files may be deleted then; the
  ranges still tell them when Spark sends them again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, TypeVar

from tidemill.errors import TidemillError
from tidemill.sources.file_info import FileInfo
from tidemill.state.versions.objects import Objects, Stored, advice

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

INGESTED = "ingest"
"""The folder of a root with the batches of all tables."""

ONE_KEY = "key "
"""How the name of a query begins that stands for a key of its own, with one batch."""

_MOST_KEYS = 100_000
"""How many of these are remembered, the newest."""

_ABANDONED_SECONDS = 86_400.0
"""The age at which files of no batch are deleted: their writer has given up by then."""


@dataclass(frozen=True)
class Batch:
    """A batch of a query that belongs to the table: its number among all, its files and their bytes."""

    number: int
    query: str
    batch: int
    files: tuple[FileInfo, ...]

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(f.size for f in self.files)


class Given:
    """Which batches of which queries were committed, as ranges."""

    def __init__(self, ranges: Mapping[str, Sequence[Sequence[int]]] | None = None) -> None:
        self._ranges = {query: [(a, b) for a, b in found] for query, found in (ranges or {}).items()}
        self._keys = deque(query for query in self._ranges if query.startswith(ONE_KEY))

    def __contains__(self, key: tuple[str, int]) -> bool:
        query, batch = key
        return any(a <= batch <= b for a, b in self._ranges.get(query, ()))

    def add(self, query: str, batch: int) -> None:
        """Note a batch."""
        if query.startswith(ONE_KEY) and query not in self._ranges:
            self._keys.append(query)
            if len(self._keys) > _MOST_KEYS:
                del self._ranges[self._keys.popleft()]
        merged: list[tuple[int, int]] = []
        for a, b in sorted([*self._ranges.get(query, ()), (batch, batch)]):
            if merged and a <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(b, merged[-1][1])
            else:
                merged.append((a, b))
        self._ranges[query] = merged

    def to_json(self) -> dict[str, list[list[int]]]:
        """As stored."""
        return {query: [[a, b] for a, b in found] for query, found in self._ranges.items()}


class IngestLog:
    """The batches of one table. Any thread may use it.

    Parameters
    ----------
    objects : Objects
        The root.
    folder : str
        Of the table.
    new : bool
        The table has just been created: a folder that is there is of another table, which was never durable.

    Raises
    ------
    TidemillError
        TM5065 when it cannot be read.
    """

    def __init__(self, objects: Objects, folder: str, new: bool) -> None:
        self.objects = objects
        self.place = f"{INGESTED}/{folder}"
        self._lock = threading.Lock()
        self._dropped = False
        if new:
            self._reading(lambda: remove_all(objects, self.place))
        self._reading(self._load)

    def _load(self) -> None:
        self._given, self._next = Given(), 1
        self.batches: deque[Batch] = deque()
        self._new: list[Batch] = []
        summaries = self.objects.list(f"{self.place}/given/")
        if summaries:
            summary = json.loads(self.objects.get(summaries[-1].name))
            self._given, self._next = Given(summary["given"]), summary["until"] + 1
        stale = [s.name for s in summaries[:-1]]
        data = {s.name: s for s in self._stored([f"{self.place}/data/"])}
        attempts: set[str] = set()
        for stored in self.objects.list(f"{self.place}/batches/"):
            number, note = self._noted(stored.name)
            if number < self._next:  # its files were about to be deleted
                stale += [*note["files"], stored.name]
            else:
                self._add(self._made(number, note, data))
                attempts.update(map(_folder, note["files"]))
        self._remove(stale)
        self._remove_abandoned(attempts, data)

    def _remove_abandoned(self, attempts: Collection[str], data: Mapping[str, Stored]) -> None:
        """Delete files of attempts that did not become batches, incomplete ones of killed tasks included."""
        old = time.time() - _ABANDONED_SECONDS
        place = f"{self.place}/data"
        if self.objects.directory is None:
            names = [s.name for s in data.values() if s.modified < old and _folder(s.name) not in attempts]
            self.objects.remove(names)
            return
        for folder in (self.objects.directory / place).glob("*"):
            if f"{place}/{folder.name}" not in attempts and folder.stat().st_mtime < old:
                shutil.rmtree(folder)

    def _remove(self, names: Sequence[str]) -> None:
        """Delete objects, and directories that had only these."""
        self.objects.remove(names)
        for folder in {_folder(name) for name in names}:
            path = self.objects.path(folder)
            if path is not None and path.parent.name == "data":
                shutil.rmtree(path, ignore_errors=True)  # a task that was killed may have left something half-written

    def _noted(self, name: str) -> tuple[int, dict[str, Any]]:
        return int(PurePosixPath(name).name), json.loads(self.objects.get(name))

    def _made(self, number: int, note: Mapping[str, Any], stored: Mapping[str, Stored]) -> Batch:
        """A batch with its files as they are now: a root may have been copied. OSError when one is not there."""
        return Batch(number, note["query"], note["batch"], tuple(self._file(name, stored) for name in note["files"]))

    def _file(self, name: str, stored: Mapping[str, Stored]) -> FileInfo:
        path = self.objects.path(name)
        if path is not None:
            status = path.stat()
            return FileInfo(str(path), status.st_size, status.st_mtime_ns)
        if name not in stored:
            raise FileNotFoundError(f"{name} has gone")
        return FileInfo(f"{self.objects.url}/{name}", stored[name].bytes, int(stored[name].modified) * 10**9)

    def _add(self, batch: Batch) -> None:
        self.batches.append(batch)
        self._new.append(batch)
        self._given.add(batch.query, batch.batch)
        self._next = batch.number + 1

    def has(self, query: str, batch: int) -> bool:
        """Whether a batch was committed, also if it has been deleted since."""
        with self._lock:
            return (query, batch) in self._given

    def attempt(self) -> str:
        """Where the files of a new attempt at a batch go."""
        return f"{self.place}/data/{uuid.uuid4().hex}"

    def commit(self, query: str, batch: int, names: Sequence[str]) -> bool:
        """Make files that lie in the root a batch of the table; False when it has this batch of the query already.

        Raises
        ------
        TidemillError
            TM5066 when that cannot be written, or it is not known whether it was: the same batch may be sent again;
            TM5067 when the table is dropped; TM5065 when batches of other writers cannot be read.
        """
        note = {"query": query, "batch": batch, "files": list(names)}
        with self._lock:
            self._check_there()
            made = self._reading(lambda: self._with_files(0, note))
            while (query, batch) not in self._given:
                number = self._next
                try:
                    self.objects.put(f"{self.place}/batches/{number:012d}", json.dumps(note).encode())
                except FileExistsError:  # a request that was repeated, or a mill that this one has taken over from
                    self._reading(partial(self._take_over, number))
                except OSError as error:
                    raise unwritable(self.place, error) from error
                else:
                    self._add(replace(made, number=number))
            return any((b.query, b.batch, b.files) == (query, batch, made.files) for b in self.batches)

    def _take_over(self, number: int) -> None:
        """Take over the batch that another writer committed under the next number."""
        _, note = self._noted(f"{self.place}/batches/{number:012d}")
        self._add(self._with_files(number, note))

    def _stored(self, folders: Iterable[str]) -> list[Stored]:
        """The objects of folders; empty for a root in a directory, whose files are asked themselves."""
        if self.objects.directory is not None:
            return []
        return [stored for folder in folders for stored in self.objects.list(folder)]

    def _with_files(self, number: int, note: Mapping[str, Any]) -> Batch:
        folders = sorted({f"{_folder(name)}/" for name in note["files"]})
        return self._made(number, note, {s.name: s for s in self._stored(folders)})

    def take_new(self) -> list[Batch]:
        """Batches committed since the last call, or since :meth:`all_again`."""
        with self._lock:
            new, self._new = self._new, []
            return new

    def new_bytes(self) -> int:
        """The size of what :meth:`take_new` would give."""
        with self._lock:
            return sum(b.bytes for b in self._new)

    def all_again(self) -> list[Batch]:
        """All batches whose files are there; they count as taken."""
        with self._lock:
            self._new = []
            return list(self.batches)

    def note_gone(self, until: int) -> list[str]:
        """Note in the root that the batches up to a number are deleted; they still count as committed.

        From then on opening the log deletes them. Their files are there until :meth:`delete`.

        Returns
        -------
        list of str
            Objects with earlier notes, which are not needed any more.

        Raises
        ------
        OSError
            When that cannot be written, or it is not known whether it was.
        TidemillError
            TM5067 when the table is dropped.
        """
        with self._lock:
            self._check_there()
            note = {"until": until, "given": self._given.to_json()}
        name = f"{self.place}/given/{until:012d}"
        before = [s.name for s in self.objects.list(f"{self.place}/given/") if s.name < name]
        with contextlib.suppress(FileExistsError):  # a request that was repeated
            self.objects.put(name, json.dumps(note).encode())
        return before

    def forget(self, until: int) -> None:
        """Forget the batches up to a number, after :meth:`note_gone`."""
        with self._lock:
            while self.batches and self.batches[0].number <= until:
                self.batches.popleft()

    def delete(self, gone: Sequence[Batch], before: Sequence[str]) -> None:
        """Delete batches that are noted as deleted, and the objects that :meth:`note_gone` gave. OSError as of objects.

        Files go before the objects that name them, so that what is left is found when the log is opened next.
        """
        names = [name_of(f.path, self.place) for b in gone for f in b.files]
        self._remove([*names, *(f"{self.place}/batches/{b.number:012d}" for b in gone), *before])

    def drop(self) -> None:
        """Delete all batches of a dropped table. OSError as of objects."""
        with self._lock:
            self._dropped = True
            remove_all(self.objects, self.place)

    def _check_there(self) -> None:
        if self._dropped:
            raise TidemillError(
                "TM5067",
                "a table was dropped while a batch was written into it",
                got=self.place,
                hint="stop the query, or create the table again and start it with a new checkpoint",
            )

    def _reading(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except OSError as error:
            raise unreadable(self.place, str(error)) from error

    @property
    def forgotten(self) -> int:
        """How many batches have been deleted."""
        return (self.batches[0].number if self.batches else self._next) - 1


def name_of(path: str, place: str) -> str:
    """The name in the root of a file of a table, wherever the root lay when the path was noted."""
    return f"{place}/{path.rpartition(f'/{place}/')[2]}"


def unreadable(place: str, why: str) -> TidemillError:
    """TM5065: batches, or what is known of them, cannot be read."""
    return TidemillError(
        "TM5065",
        "what Spark streams wrote into a table cannot be read",
        got=f"{place}: {why}",
        hint="make the root readable, restore files that were deleted in it, and try again",
    )


def too_much_waits(table: str, waiting: int, most: int) -> TidemillError:
    """TM5070: a table has no room for more."""
    return TidemillError(
        "TM5070",
        "too many bytes wait to be read",
        got=f"{table}: {waiting:,} bytes, maxSpoolBytes is {most:,}",
        hint="run the mill (mill.start()) with a view that reads the table; then send it again, or start the query "
        "again: it continues where it was",
    )


def unwritable(place: str, error: OSError) -> TidemillError:
    """TM5066: a batch cannot be written."""
    return TidemillError(
        "TM5066",
        "a batch of a Spark stream cannot be written",
        got=f"{place}: {error}",
        hint=advice(error, "nothing of it is in the table, or all, and sent again it counts once"),
    )


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def remove_all(objects: Objects, place: str) -> None:
    """Delete everything below a place. OSError as of objects."""
    path = objects.path(place)
    if path is None:
        objects.remove([s.name for s in objects.list(f"{place}/")])
    elif path.exists():
        shutil.rmtree(path)


def tried(delete: Callable[[], object]) -> None:
    """Delete what is not needed; a failure does no harm and is logged."""
    try:
        delete()
    except OSError as error:
        _log.warning("files that are not needed any more could not be deleted: %s", error)
