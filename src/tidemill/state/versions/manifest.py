"""Manifests: versions made durable, one numbered object each, written only if absent.

The newest manifest defines the state of a root. It is written with put-if-absent, so of two writers
only one can publish a given number; the other one is fenced and stops.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tidemill.errors import TidemillError
from tidemill.state.versions.fragments import Fragment, to_text
from tidemill.state.versions.lease import READERS
from tidemill.state.versions.objects import Objects, UncertainError, advice
from tidemill.state.versions.version import Version

FORMAT_VERSION = 7
OLDEST_FORMAT = 6
"""The oldest format that can be read: ``runtime/durability/migrations.py`` has a function for each version
from this one on."""
_PREFIX = "manifest/"
_LOCK_SECONDS = 0.5
KEEP = 16
"""How many manifests are kept: a root can go back to as many checkpoints."""

_STATE = "sst/"
_OURS = {"LOCK", READERS, "manifest", "sst", "buffer", "lost+found"}


@dataclass(frozen=True)
class Manifest:
    """The content of one manifest object.

    ``catalog`` is plain JSON in version ``format``: tables, views, positions; its meaning belongs to ``runtime/``.
    """

    number: int
    writer: str
    version: Version
    catalog: dict[str, Any]
    format: int = FORMAT_VERSION


class ManifestLog:
    """The numbered manifests of one root."""

    def __init__(self, objects: Objects, create: bool) -> None:
        self.objects = objects
        self.writer = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._lock: IO[str] | None = None
        try:
            if create:
                objects.make()
            if not self.numbers():
                self._check_new(create)
        except OSError as error:
            raise self._not_usable(error) from error

    def _check_new(self, create: bool) -> None:
        """Check that a location without a manifest is a new root, without foreign files or state files."""
        state = [s for s in self.objects.list(_STATE) if s.name.endswith(".sst")]
        if state:
            raise TidemillError(
                "TM1006",
                "this root has state files, but no manifest",
                got=f"{self.objects}: {len(state)} files in {_STATE}",
                hint=f"put the newest file of {_PREFIX} back, from where it was moved or from a copy of the root; "
                "nothing was changed, the state files are untouched",
            )
        if not create:
            raise no_root(self.objects, begun(self.objects))
        foreign = [name for name in self.objects.top() if name not in _OURS]
        if foreign:
            raise TidemillError(
                "TM1005",
                "this directory holds other files and no Tidemill root",
                got=f"{self.objects}: {', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}",
                hint="give a new or empty directory; nothing was changed",
            )

    def _way_back(self, number: int) -> str:
        """The hint for a damaged manifest."""
        numbers = self.numbers()
        if number < numbers[-1]:
            return (
                f"the newest manifest is {numbers[-1]}, this one only keeps history: `tidemill state verify` says more"
            )
        older = [n for n in numbers if n < number][-3:]
        return (
            f"to go back one checkpoint, move this file away; older manifests: {older}, "
            "and `tidemill state verify` says which are intact"
        )

    def _not_usable(self, error: OSError) -> TidemillError:
        return TidemillError(
            "TM1013",
            "the root cannot be opened",
            got=f"{self.objects}: {error.strerror or error}",
            hint="check the path and its permissions",
        )

    def numbers(self) -> list[int]:
        """Numbers of the manifests present, ascending."""
        names = (s.name.removeprefix(_PREFIX) for s in self.objects.list(_PREFIX))
        return sorted(int(n.removesuffix(".json")) for n in names if n.endswith(".json") and n[:-5].isdecimal())

    def name(self, number: int) -> str:
        """The name of a manifest among the objects."""
        return f"{_PREFIX}{number:020d}.json"

    def latest(self) -> Manifest | None:
        """The newest manifest, or None in a new root. Errors as :meth:`read`."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def read(self, number: int) -> Manifest:
        """One manifest.

        Raises
        ------
        TidemillError
            TM1004 when it is damaged, TM1002 when another version of Tidemill wrote it, TM1013 when it cannot be read.
        """
        name = self.name(number)
        try:
            raw = self.objects.get(name)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._not_usable(error) from error
        try:
            digest, body = raw[:64].decode(), raw[65:]
            if hashlib.sha256(body).hexdigest() != digest:
                raise ValueError("checksum differs")
            data = json.loads(body)
            if not isinstance(data["format"], int):
                raise ValueError(f"its format is {data['format']!r}")
        except (ValueError, KeyError, TypeError) as error:
            raise TidemillError(
                "TM1004",
                "a manifest is damaged",
                got=f"{self.objects}/{name}: {error}",
                hint=self._way_back(number),
            ) from error
        if data["format"] > FORMAT_VERSION:
            raise TidemillError(
                "TM1002",
                "this root was written by a newer version of Tidemill",
                got=f"manifest format {data['format']}, this version reads up to {FORMAT_VERSION}",
                hint="upgrade Tidemill; nothing was changed",
            )
        if data["format"] < OLDEST_FORMAT:
            raise TidemillError(
                "TM1002",
                "this root was written by another version of Tidemill",
                got=f"manifest format {data['format']}, this version reads {OLDEST_FORMAT} to {FORMAT_VERSION}",
                hint="open it with the version that wrote it, or begin a new root; nothing was changed",
            )
        return Manifest(number, data["writer"], Version.from_json(data["version"]), data["catalog"], data["format"])

    def publish(self, number: int, version: Version, catalog: dict[str, Any]) -> Manifest:
        """Write manifest ``number``, or a later one if this writer wrote that number in an attempt that seemed to fail.

        Raises
        ------
        TidemillError
            TM1003 when another process published that number first: this one is fenced and must stop. TM1014 when it
            cannot be written.
        """
        head = {"format": FORMAT_VERSION, "writer": self.writer}
        body = to_text({**head, "version": Fragment(version.to_json()), "catalog": catalog}).encode()
        raw = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        try:
            number = self._next(number)
            while not self._put(number, raw):
                number += 1
            if max(self.numbers(), default=number) > number:
                raise self._fenced()  # others went on while this write hung, and pruned what was in its place
        except UncertainError:
            raise
        except OSError as error:
            raise TidemillError(
                "TM1014",
                "a manifest could not be written",
                got=str(error).splitlines()[0],
                hint=advice(error, "the last checkpoint is intact"),
            ) from error
        return Manifest(number, self.writer, version, catalog)

    def _put(self, number: int, raw: bytes) -> bool:
        """Write a manifest; returns False if an earlier one of this writer has the number. TM1003 if another's has.

        It reads the object itself, since listings may lag.
        """
        name = self.name(number)
        try:
            self.objects.put(name, raw)
        except FileExistsError:
            if self.objects.get(name) != raw:  # else the answer to our own write was lost
                there = self.read(number)
                if there.writer != self.writer:
                    raise self._fenced(there) from None
                return False
        return True

    def _next(self, number: int) -> int:
        """The number, or the one after manifests of this writer that seemed to fail. TM1003 as :meth:`publish`."""
        later = [present for present in self.numbers() if present >= number]
        if any(self.read(present).writer != self.writer for present in later):
            raise self._fenced()
        return later[-1] + 1 if later else number

    def _fenced(self, newest: Manifest | None = None) -> TidemillError:
        newest = newest or self.latest()
        return TidemillError(
            "TM1003",
            "another process has taken over this root",
            got=f"manifest {newest.number} was written by {newest.writer}" if newest else "",
            hint="only one mill may write a root; this one stops, what it sealed after that is discarded",
        )

    def old(self, coming: int = 0) -> list[str]:
        """Names of manifests that can be deleted once ``coming`` more have been written."""
        return [self.name(number) for number in self.numbers()[: coming - KEEP]]

    def prune(self) -> list[int]:
        """Delete all but the newest manifests; returns the numbers kept."""
        numbers = self.numbers()
        self.objects.remove(self.name(number) for number in numbers[:-KEEP])
        return numbers[-KEEP:]

    def staged(self) -> list[tuple[str, float]]:
        """Paths and modification times of staged manifests: being written, or left by a writer that died."""
        return self.objects.staged(_PREFIX)

    def lock(self) -> None:
        """Lock the root for writing, for as long as this process lives.

        Only a local directory can be locked. In an object store a second writer is detected when the first one
        publishes its next manifest.

        Raises
        ------
        TidemillError
            TM1003 when another living process on this host holds it, TM1013 when the root cannot be written to.
        """
        directory = self.objects.directory
        if directory is None:
            return
        try:
            file = (directory / "LOCK").open("a+")
        except OSError as error:
            raise self._not_usable(error) from error
        try:
            _lock_soon(file)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip()
            file.close()
            raise TidemillError(
                "TM1003",
                "another process is writing to this root",
                got=f"{directory} is held by {holder or 'an unknown process'}",
                hint="stop it first, or use another root; `tidemill query` and `tail` work beside it",
            ) from error
        self._lock = file
        with contextlib.suppress(OSError):  # a full disk: the name of the holder is only for messages
            file.truncate(0)
            file.write(self.writer)
            file.flush()

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def no_root(objects: Objects, begun: bool = False) -> TidemillError:
    """TM1001: there is no root, or one without a manifest yet."""
    hint = "give the directory that `tidemill run --root` wrote to"
    if begun:
        hint = "a mill has begun this one and made nothing durable yet: ask again when it has"
    return TidemillError("TM1001", "there is no Tidemill root here", got=str(objects), hint=hint)


def begun(objects: Objects) -> bool:
    """Whether a mill has locked this directory as its root and made nothing durable yet; False in an object store."""
    directory = objects.directory
    if directory is None or not (directory / "LOCK").is_file() or not _OURS.issuperset(objects.top()):
        return False
    return not objects.list(_PREFIX) and not objects.list(_STATE)


def held_by(directory: Path) -> str | None:
    """The process on this host that has the root locked for writing, None if there is none or that is not known."""
    try:
        with (directory / "LOCK").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "an unknown process"
    except (FileNotFoundError, PermissionError):
        pass
    return None


def _lock_soon(file: IO[str]) -> None:
    """Lock a file, trying for a moment: `tail` holds the lock for an instant to see whether a mill does."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_SECONDS / 20)
        else:
            return
