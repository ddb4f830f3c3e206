"""A directory, or a prefix of an object store, to which a sink writes whole files.

A file appears under its name when all of it is there: it is written under a hidden name and renamed, or uploaded whole.
The names of changes say the epoch, so that an epoch that is written again replaces itself.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError, NotFoundError

from tidemill.objectstore.connection import is_object_url, parse_connection, split_url
from tidemill.sinks.target import foreign, gone
from tidemill.sources.files import local_pattern

MARKER = "_tidemill_sink.json"
"""Says which sink a directory belongs to. Readers of directories skip names that begin with an underscore."""

_NAME = re.compile(r"(\d{20})-(?:changes|snapshot)\.\w+(?:\.\w+)*")


def resolved(path: str) -> str:
    """A path made absolute and without ``..``, or a URL of an object store as it is, without a slash at the end."""
    return path.rstrip("/") if is_object_url(path) else os.path.normpath(local_pattern(path))


def name_of(epoch: int, kind: str, ending: str) -> str:
    """The name of a file of ``changes`` or of a ``snapshot``: names sort by epoch."""
    return f"{epoch:020d}-{kind}.{ending}"


def folder(path: str, options: Mapping[str, str], sink: str) -> Folder | ObjectFolder:
    """The folder at a path that belongs to the sink of an id. TM4003 for options that are not about this path."""
    return ObjectFolder(path, options, sink) if is_object_url(path) else Folder(path, sink)


def check_free(path: str) -> None:
    """TM8213 when a local directory has files, so that it cannot be a new sink's. Object stores are not asked."""
    if is_object_url(path) or not Path(path).is_dir() or not os.access(path, os.R_OK):
        return  # a directory that cannot be read is an error of the delivery, which is repeated
    _check_ours(path, sorted(entry.name for entry in os.scandir(path)), None, "")


class Folder:
    """A local directory, made when it is missing."""

    def __init__(self, path: str, sink: str) -> None:
        self._path, self._sink = Path(path), sink

    def open(self, claimed: bool, needed: str = "") -> int | None:
        """Claim the directory; the newest epoch whose file is there.

        Parameters
        ----------
        claimed : bool
            Whether it was claimed before.
        needed : str
            Name of a file that is there once the directory was claimed.

        Raises
        ------
        TidemillError
            TM8213 when it is another's, TM8218 when it was claimed, and is not there, empty, or without the file.
        """
        if claimed and not (self._path.exists() and any(self._path.iterdir())):
            raise gone(str(self._path))
        missing = [p for p in (self._path, *self._path.parents) if not p.exists()]
        self._path.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)
        names = sorted(entry.name for entry in os.scandir(self._path))
        known = _marker((self._path / MARKER).read_bytes()) if MARKER in names else None
        _check_ours(str(self._path), names, known, self._sink)
        if claimed and needed and needed not in names:
            raise gone(str(self._path / needed))
        for name in names:
            if name.startswith(".") and name.endswith(".tmp"):
                (self._path / name).unlink(missing_ok=True)
        if known is None:
            self.write(MARKER, lambda file: _write_marker(file, self._sink))
        return _newest(names)

    def write(self, name: str, write: Callable[[Any], None]) -> None:
        """Write a file; it appears, in place of one of its name, once it is whole and on the disk.

        Raises
        ------
        OSError
            Of the disk; when the directory has lost its marker, and thus perhaps more: :meth:`open` finds out.
        """
        if name != MARKER and not (self._path / MARKER).exists():
            raise _removed(str(self._path / MARKER))
        staged = self._path / f".{name}.tmp"
        try:
            with staged.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(self._path / name)
        except BaseException:
            with contextlib.suppress(OSError):  # the error that is raised says more; the next opening removes it
                staged.unlink(missing_ok=True)
            raise
        _sync(self._path)


class ObjectFolder:
    """A prefix of an object store. An object appears when all of it is uploaded."""

    def __init__(self, url: str, options: Mapping[str, str], sink: str) -> None:
        self._url, self._sink = url, sink
        store, self._prefix = split_url(url)
        self._store: Any = parse_connection(options, url).store(store)

    def open(self, claimed: bool, needed: str = "") -> int | None:
        """As :meth:`Folder.open`."""
        with _as_os_errors():
            prefix = f"{self._prefix}/" if self._prefix else ""
            listed = [m["path"] for chunk in obstore.list(self._store, prefix or None) for m in chunk]
            names = sorted(path.removeprefix(prefix) for path in listed)
            known = _marker(bytes(obstore.get(self._store, prefix + MARKER).bytes())) if MARKER in names else None
        if claimed and not names:
            raise gone(self._url)
        _check_ours(self._url, names, known, self._sink)
        if claimed and needed and needed not in names:
            raise gone(f"{self._url}/{needed}")
        if known is None:
            self.write(MARKER, lambda file: _write_marker(file, self._sink))
        return _newest(names)

    def write(self, name: str, write: Callable[[Any], None]) -> None:
        """As :meth:`Folder.write`."""
        if name != MARKER:
            marker = f"{self._prefix}/{MARKER}".lstrip("/")
            try:
                with _as_os_errors():
                    obstore.head(self._store, marker)
            except FileNotFoundError as error:
                raise _removed(f"{self._url}/{MARKER}") from error
        with _as_os_errors(), obstore.open_writer(self._store, f"{self._prefix}/{name}".lstrip("/")) as upload:
            write(_Upload(upload))


def _removed(marker: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, "it was removed while the sink wrote", marker)


class _Upload(io.RawIOBase):
    """An upload as a file. One that is not closed, because writing it failed, leaves no object."""

    def __init__(self, upload: Any) -> None:
        self._upload = upload

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        return int(self._upload.write(data))


def _sync(directory: Path) -> None:
    """Make the names in a directory outlive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_marker(file: Any, sink: str) -> None:
    file.write(json.dumps({"sink": sink}).encode())


def _marker(text: bytes) -> str:
    """The sink that a marker names; empty when it is none of ours."""
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get("sink", "")) if isinstance(found, dict) else ""


def _check_ours(location: str, names: list[str], marker: str | None, sink: str) -> None:
    if marker is not None:
        if marker != sink:
            raise foreign(location, "files of another sink")
        return
    others = [n for n in names if not n.startswith(".")]
    if others:
        raise foreign(location, ", ".join(others[:3]))


def _newest(names: list[str]) -> int | None:
    return max((int(match[1]) for n in names if (match := _NAME.fullmatch(n))), default=None)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(str(error).splitlines()[0]) from error
    except BaseError as error:
        raise OSError(str(error).splitlines()[0]) from error
