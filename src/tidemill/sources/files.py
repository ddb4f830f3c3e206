"""Files of a local directory or glob: listed incrementally, read by byte range."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import IO
from urllib.parse import unquote, urlparse

from tidemill.errors import TidemillError
from tidemill.sources.file_info import FileInfo
from tidemill.sources.globs import Part, escaped, hidden, parse_glob
from tidemill.sources.split import GROWING, Split

BUFFER_BYTES = 1 << 20
"""Bytes of one read."""
ROW_BYTES = 64 << 10
"""Most rows have fewer bytes."""

_TAIL_BYTES = 64 << 10
_MARKED_BYTES = 4 << 10

NAMES = 1 << 14
"""Most names in one batch of :func:`file_names`."""


def local_pattern(path: str) -> str:
    """The path, directory or glob of a table's ``path`` option.

    Raises
    ------
    TidemillError
        TM5002 when the scheme names a connector that does not exist.
    """
    if "://" not in path and not path.startswith("file:"):
        return str(Path(path).expanduser().absolute())
    url = urlparse(path)
    if url.scheme == "file":
        return unquote(url.path)
    raise TidemillError(
        "TM5002",
        "there is no connector for this path",
        got=path,
        hint="a local file, directory or glob, a file:// URL, or objects: s3://, gs://, az://",
    )


def listing(pattern: str, recursive: bool = False) -> Iterator[FileInfo]:
    """Regular files of a path, directory (subdirectories only if ``recursive``) or glob, by name.

    Hidden files (:func:`tidemill.sources.globs.hidden`) are left out, also those in hidden directories that the pattern
    does not spell out. Links are followed.

    Raises
    ------
    TidemillError
        TM5001 when a path without wildcards does not exist, TM5004 for a directory that cannot be read, TM5035 for a
        glob that is not understood.
    """
    names: set[str] = set()
    for some in file_names(pattern, recursive):
        names.update(some)
    for name in sorted(names):
        info = file_info(name)
        if info is not None:
            yield info


def file_info(name: str) -> FileInfo | None:
    """A regular file as it is now; None when it is not a regular file, cannot be reached, or is gone."""
    try:
        status = Path(name).stat()
    except OSError:
        return None
    return FileInfo(name, status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None


def file_names(pattern: str, recursive: bool = False) -> Iterator[list[str]]:
    """Names of files that :func:`listing` may give, in no order, some perhaps twice. Files are not touched.

    Errors as :func:`listing`.
    """
    mode = _mode(pattern)
    if mode and not (S_ISDIR(mode) or S_ISREG(mode)):
        raise TidemillError(
            "TM5004",
            "a file cannot be read",
            got=f"{pattern} is neither a file nor a directory",
            hint="name a file or a directory",
        )
    if S_ISDIR(mode):
        glob = parse_glob(f"{escaped(pattern.rstrip('/'))}/*")
    else:
        glob = parse_glob(escaped(pattern) if S_ISREG(mode) else pattern)
        if glob.literal is not None and not _mode(glob.literal):
            raise missing(pattern)
    for alternative in (glob.below() if recursive else glob).alternatives:
        fixed = alternative.fixed
        above = "/".join(p.begins for p in alternative.parts[:fixed])
        yield from _walk(above or "/", alternative.parts[fixed:], frozenset())


def missing_directory(pattern: str) -> str | None:
    """The directory before the first wildcard of a glob if it does not exist; with braces, if none of them exists."""
    if _mode(pattern):
        return None
    above = ["/".join(p.begins for p in a.parts[: a.fixed]) or "/" for a in parse_glob(pattern).alternatives]
    return None if any(S_ISDIR(_mode(directory)) for directory in above) else above[0]


def _mode(path: str) -> int:
    """The mode of a file or directory, 0 where there is none. TM5004 when it may not be accessed."""
    try:
        return Path(path).stat().st_mode
    except PermissionError as error:
        raise _unreadable(path, error) from error
    except (OSError, ValueError):  # nothing can have this name
        return 0


def _walk(directory: str, parts: tuple[Part, ...], above: frozenset[tuple[int, int]]) -> Iterator[list[str]]:
    """Paths below a directory that match parts, without hidden ones and without loops of links."""
    first, *others = parts
    for entries in _entries(directory):
        named = entries if first.takes_all else [e for e in entries if first.matches(e.name)]
        files = [e.path for e in named if not _is_directory(e)] if not others else []
        if files:
            yield files
        if others or first.deep:
            for entry in named:
                if _is_directory(entry):
                    yield from _below(entry, parts, above)
    if first.deep and others:
        yield from _walk(directory, tuple(others), above)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a directory; a broken or circular link is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _below(entry: os.DirEntry[str], parts: tuple[Part, ...], above: frozenset[tuple[int, int]]) -> Iterator[list[str]]:
    try:
        status = entry.stat()
    except OSError:  # gone meanwhile
        return
    here = (status.st_dev, status.st_ino)
    if here not in above:
        yield from _walk(entry.path, parts if parts[0].deep else parts[1:], above | {here})


def _entries(directory: str) -> Iterator[list[os.DirEntry[str]]]:
    """What a directory holds, without hidden names, some at a time."""
    try:
        with os.scandir(directory) as entries:
            while some := list(islice(entries, NAMES)):
                # Most names are told by their first and last letter
                yield [e for e in some if ((n := e.name)[0] not in "._" and n[-1] != "_") or not hidden(n)]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _unreadable(directory, error) from error


def _unreadable(path: str, error: OSError) -> TidemillError:
    return TidemillError(
        "TM5004", "a file cannot be read", got=f"{path}: {error.strerror}", hint="check its permissions"
    )


def beginning(path: str, count: int) -> bytes:
    """The first bytes of a file, at most ``count``; empty when it cannot be read, which its reader reports."""
    try:
        with Path(path).open("rb") as file:
            return file.read(count)
    except OSError:
        return b""


def last_line_end(info: FileInfo) -> int:
    """How many bytes of a file lie before the end of its last line; 0 when it has none.

    The whole size when it cannot be read, which its reader reports.
    """
    try:
        with Path(info.path).open("rb") as file:
            end = info.size
            while end > 0:
                start = max(0, end - _TAIL_BYTES)
                file.seek(start)
                found = file.read(end - start).rfind(b"\n")
                if found >= 0:
                    return start + found + 1
                end = start
    except OSError:
        return info.size
    return 0


def tail_mark(path: str, end: int) -> str:
    """A digest of a file's bytes just before ``end``, to recognise the file when it has grown; empty if unreadable."""
    start = max(0, end - _MARKED_BYTES)
    try:
        with Path(path).open("rb") as file:
            file.seek(start)
            return hashlib.blake2b(file.read(end - start), digest_size=8).hexdigest()
    except OSError:
        return ""


def missing(path: str) -> TidemillError:
    """TM5001: a file or directory is not there."""
    return TidemillError(
        "TM5001",
        "a file or directory does not exist",
        got=path,
        hint="check the table's path; relative paths start at the directory of the command",
    )


class FileReader:
    """Reads the bytes of one split: ``open``, then ``fill`` until it returns nothing or ``read_at``, then ``close``.

    Parameters
    ----------
    split : Split
    buffer_bytes : int
        Most bytes of one ``fill``; behind the split, where no more than the rest of a row is wanted, few.
    """

    def __init__(self, split: Split, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.split = split
        self._buffer_bytes = buffer_bytes
        self._file: IO[bytes] | None = None
        self._position = 0

    def open(self, position: int) -> IO[bytes]:
        """Open the file at a byte position; returns it, for readers that seek.

        Raises
        ------
        TidemillError
            TM5001 when the file is gone, TM5003 when it changed after it was listed, TM5004 when it cannot be read.
        """
        path = Path(self.split.path)
        try:
            self._file = path.open("rb", buffering=0)
            status = os.fstat(self._file.fileno())
        except FileNotFoundError as error:
            raise missing(self.split.path) from error
        except OSError as error:
            raise TidemillError(
                "TM5004",
                "a file cannot be read",
                got=f"{path}: {error.strerror}",
                hint="check its permissions",
            ) from error
        if self.split.modified == GROWING:
            mark = self.split.etag
            agrees = status.st_size >= self.split.size and mark in ("", tail_mark(self.split.path, self.split.size))
        else:
            agrees = (status.st_size, status.st_mtime_ns) == (self.split.size, self.split.modified)
        if not agrees:
            self.close()
            raise self._changed(status)
        self._file.seek(position)
        self._position = position
        return self._file

    def fill(self) -> bytes:
        """The next bytes, at most ``buffer_bytes``; empty at the end of the file.

        Raises
        ------
        TidemillError
            TM5003 when the file ends before the size it was listed with.
        """
        assert self._file is not None
        most = min(self._buffer_bytes, max(self.split.end - self._position, 0) + ROW_BYTES)
        if self.split.modified == GROWING:
            most = min(most, self.split.size - self._position)
        data = self._file.read(most)
        if not data and self._position < self.split.size:
            raise self._changed(os.fstat(self._file.fileno()))
        self._position += len(data)
        return data

    def read_at(self, position: int, length: int) -> bytes:
        """Exactly ``length`` bytes at a position. Several threads may call it while the file is open.

        Raises
        ------
        TidemillError
            TM5003 when the file has become shorter than it was listed with.
        """
        assert self._file is not None
        pieces: list[bytes] = []
        while length:
            piece = os.pread(self._file.fileno(), length, position)
            if not piece:
                raise self._changed(os.fstat(self._file.fileno()))
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _changed(self, status: os.stat_result) -> TidemillError:
        found, listed = status.st_size, self.split.size
        size = f"{found} bytes, {listed} when listed" if found != listed else "written again since"
        return TidemillError(
            "TM5003",
            "a file changed after it was listed",
            got=f"{self.split.path}: {size}",
            hint="write files under a name that begins with . or _ and rename them when complete",
        )

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of the file, at most ``count``."""
        with Path(self.split.path).open("rb") as file:
            return file.read(count)
