"""The storage of a root: named objects in a directory, in S3 or another object store, or in memory.

An object is written atomically, once, and never changed. It is durable when :meth:`Objects.put` returns.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, MemoryStore

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import SCHEMES, configured_endpoint

STAGED = ".staged"
_SCHEMES = (*SCHEMES, "memory")
_in_memory: dict[str, MemoryStore] = {}


@dataclass(frozen=True)
class Stored:
    """A listed object: its name, size in bytes, and modification time (seconds since 1970)."""

    name: str
    bytes: int
    modified: float


class UncertainError(OSError):
    """A write was not confirmed: it may have happened or not, or be lost with the next power cut."""


class Objects:
    """The objects below one URL. It can be pickled, and opens the same place in another process.

    Names may have slashes. Methods raise FileNotFoundError, FileExistsError and PermissionError as for files, and
    OSError for other failures. Then nothing has been done, unless it is :class:`UncertainError`.

    Parameters
    ----------
    root : path or URL
        A local path, or a URL with the scheme ``file``, ``s3``, ``gs``, ``az`` or ``memory``. Credentials and endpoints
        come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ...).

    Raises
    ------
    TidemillError
        TM1009 for a scheme that cannot hold a root.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.directory = local_directory(root)
        self.url = str(self.directory) if self.directory else os.fspath(root).rstrip("/")
        self._store: Any = None

    def __reduce__(self) -> tuple[type[Objects], tuple[str]]:
        return (Objects, (self.url,))

    def __str__(self) -> str:
        return self.url

    def make(self) -> None:
        """Create the directory of a local root."""
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> bytes:
        """A whole object."""
        with _as_os_errors(name):
            return bytes(obstore.get(self._opened(), name).bytes())

    def put(self, name: str, data: bytes | Path) -> None:
        """Write an object from bytes or a file; it must not exist yet. Of several writers one succeeds.

        Except in a directory, a file of more than 16 MB replaces an object of its name.
        """
        if self.directory is not None:
            self._put_local(name, data)
            return
        with _as_os_errors(name):
            if isinstance(data, bytes):
                obstore.put(self._opened(), name, data, mode="create")
            else:
                with data.open("rb") as file:
                    whole = data.stat().st_size <= _ONE_REQUEST
                    obstore.put(self._opened(), name, file.read() if whole else file, mode="create" if whole else None)

    def _put_local(self, name: str, data: bytes | Path) -> None:
        """The bytes are synced before the name exists, and the name before this returns."""
        assert self.directory is not None
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, Path) and data.stat().st_dev == path.parent.stat().st_dev:
            sync(data)
            os.link(data, path)  # fails when the name is taken
        else:
            staged = path.parent / f"{uuid.uuid4().hex}{STAGED}"
            try:
                staged.write_bytes(data if isinstance(data, bytes) else data.read_bytes())
                sync(staged)
                os.link(staged, path)
            finally:
                staged.unlink(missing_ok=True)
        sync(path.parent)

    def takes_files_of(self, directory: Path, prefix: str) -> bool:
        """Whether :meth:`put` copies no byte of a file in a directory: one file system has it and the objects."""
        if self.directory is None:
            return False
        try:
            place = self.directory / prefix
            return (place if place.exists() else self.directory).stat().st_dev == directory.stat().st_dev
        except OSError:  # whoever writes there reports it
            return False

    def list(self, prefix: str) -> list[Stored]:
        """The objects whose names begin with ``prefix``, which ends with a slash or is empty; by name."""
        if self.directory is not None and not (self.directory / prefix).is_dir():
            return []
        found = []
        with _as_os_errors(prefix):
            for chunk in obstore.list(self._opened(), prefix.rstrip("/") or None):
                found += [Stored(m["path"], m["size"], m["last_modified"].timestamp()) for m in chunk]
        return sorted((s for s in found if not s.name.endswith(STAGED)), key=lambda s: s.name)

    def top(self) -> tuple[str, ...]:
        """The top-level names, sorted: ``a`` for an object ``a`` and for ``a/b``; without hidden ones."""
        if self.directory is not None:
            names = [p.name for p in self.directory.iterdir()] if self.directory.is_dir() else []
        else:
            with _as_os_errors(self.url):
                found = obstore.list_with_delimiter(self._opened())
            names = [*found["common_prefixes"], *(m["path"] for m in found["objects"])]
        return tuple(sorted(n for n in names if not n.startswith(".")))

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""
        for name in names:
            with _as_os_errors(name), contextlib.suppress(NotFoundError, FileNotFoundError):
                obstore.delete(self._opened(), name)

    def staged(self, prefix: str) -> builtins.list[tuple[str, float]]:
        """Paths and modification times (seconds) of staged files below ``prefix``: being written, or left by a dead
        writer. Empty except in a directory.
        """
        return [] if self.directory is None else staged_in(self.directory / prefix)

    def path(self, name: str) -> Path | None:
        """The path of an object in a directory; None in an object store."""
        return None if self.directory is None else self.directory / name

    def download(self, name: str, target: Path) -> None:
        """Copy an object to a local file, atomically."""
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = target.parent / f"{uuid.uuid4().hex}{STAGED}"
        try:
            with _as_os_errors(name), staged.open("wb") as file:
                for part in obstore.get(self._opened(), name).stream(min_chunk_size=8 << 20):
                    file.write(part)
            staged.replace(target)
        finally:
            staged.unlink(missing_ok=True)

    def _opened(self) -> Any:
        if self._store is None:
            if self.directory is not None:
                self._store = LocalStore(str(self.directory))
            elif self.url.startswith("memory:"):
                self._store = _in_memory.setdefault(self.url, MemoryStore())
            else:
                http = {"allow_http": "true"} if configured_endpoint().startswith("http://") else {}
                self._store = obstore.store.from_url(self.url, client_options=http)
        return self._store


_ONE_REQUEST = 16 << 20
"""A larger file is uploaded in parts, which cannot be conditional on the object's absence. That is harmless: such files
are state files with unique names. Manifests, which decide between writers, are passed as bytes of any size.
"""


def local_directory(root: str | os.PathLike[str]) -> Path | None:
    """The directory of a root given as a path or a ``file:`` URL, None for one in an object store. TM1009 as above."""
    text = os.fspath(root)
    if "://" not in text and not text.startswith("file:"):
        return Path(text).expanduser().absolute()
    url = urlparse(text)
    if url.scheme == "file":
        return Path(unquote(url.path))
    if url.scheme not in _SCHEMES:
        raise TidemillError(
            "TM1009",
            "a root cannot lie there",
            got=text,
            hint="give a path, or a URL such as file:///dir, s3://bucket/prefix, gs://bucket/prefix",
        )
    return None


def advice(error: OSError, intact: str) -> str:
    """The hint of an error of writing; ``intact`` says what was not harmed, unless a directory may be gone."""
    if isinstance(error, FileNotFoundError):
        return "a directory, bucket or file has gone: put it back, or mount it again, and run again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"free space and run again: {intact}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"fix permissions and run again: {intact}"
    return f"free space, or check that the location can be written to, and run again: {intact}"


def staged_in(directory: Path) -> list[tuple[str, float]]:
    """Paths and modification times of the staged files in a directory, if there is one."""
    found = []
    for path in directory.glob(f"*{STAGED}"):
        with contextlib.suppress(FileNotFoundError):  # it went meanwhile
            found.append((str(path), path.stat().st_mtime))
    return found


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to the disk.

    A failure raises :class:`UncertainError`, since a second attempt may succeed although the bytes are lost.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise UncertainError(error.errno, f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


@contextmanager
def _as_os_errors(name: str) -> Iterator[None]:
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(f"{name}: {_brief(error)}") from error
    except AlreadyExistsError as error:
        raise FileExistsError(f"{name}: {_brief(error)}") from error
    except BaseError as error:
        raise OSError(f"{name}: {_brief(error)}") from error


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0]
