"""Where compiled kernels are kept on disk.

Numba notices a change only in a kernel's own file, not in the files of the functions it calls. So every file with
kernels has a cache directory named after itself and all that it imports (:mod:`tidemill.kernels.sources`): a change
never meets old machine code, compiles no kernel that it cannot concern, and an installation that cannot be written
to is no obstacle.

``XDG_CACHE_HOME/tidemill/kernels`` (or ``tidemill/kernels`` in the temporary directory) holds

- ``<module>-<key>/``: the machine code of one file's kernels; its time stamp is that of the last process to begin
  using it,
- ``uses/<process>``: the directories that a process and its forks use, one name a line, locked as long as one lives,
- ``lock``: shared while a use is written, exclusive while directories are deleted.

A process that compiles something new deletes what no running process uses and is old, or too much.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tidemill.kernels.sources import key

KEPT_SECONDS = 14 * 24 * 3600
"""A directory that no process has begun to use for so long is deleted."""
KEPT_BYTES = 256 << 20
"""Beyond this, directories that were not used for longest are deleted; one version's kernels are about 12 MB."""
_KEPT_ALWAYS_SECONDS = 3600


class KernelCache:
    """The cache directories in one folder.

    Parameters
    ----------
    folder
        Made if missing.

    Raises
    ------
    OSError
        When nothing can be written or locked there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._uses = folder / "uses"
        self._uses.mkdir(parents=True, exist_ok=True)
        with self._locked(fcntl.LOCK_SH):
            # Appended to by forks as well; the lock ends with the last of them
            self._own = (self._uses / uuid.uuid4().hex).open("ab", buffering=0)
            fcntl.flock(self._own, fcntl.LOCK_EX)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with (self._folder / "lock").open("ab") as file:
            fcntl.flock(file, how)
            yield

    def claim(self, name: str) -> tuple[Path, bool]:
        """A directory of this name for as long as the process lives, and whether it was there already."""
        place = self._folder / name
        with self._locked(fcntl.LOCK_SH):
            self._own.write(name.encode() + b"\n")
            there = place.is_dir()
            place.mkdir(exist_ok=True)
            os.utime(place)
        return place, there

    def _used(self) -> set[str]:
        """Names that running processes have claimed; forgets processes that have ended."""
        names: set[str] = set()
        for path in self._uses.iterdir():
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    names.update(file.read().decode().splitlines())
                else:
                    path.unlink()
        return names

    def delete_unused(self, now: float | None = None) -> list[str]:
        """Delete directories that are too old, or too much, and that no running process has claimed.

        Parameters
        ----------
        now
            Seconds since 1970.

        Returns
        -------
        list of str
            Their names, sorted.
        """
        now = time.time() if now is None else now
        deleted, total = [], 0
        with self._locked(fcntl.LOCK_EX):
            used = self._used()
            # Until the keys were a file's own, one directory beside this one held all kernels of a version
            old = [p for p in self._folder.parent.glob("kernels-*") if p.is_dir()]
            all_ = [p for p in self._folder.iterdir() if p.is_dir() and p != self._uses]
            for place in sorted([*old, *all_], key=lambda p: p.stat().st_mtime, reverse=True):
                age = now - place.stat().st_mtime
                total += sum(f.stat().st_size for f in place.rglob("*") if f.is_file())
                too_much = total > KEPT_BYTES and age > _KEPT_ALWAYS_SECONDS
                if place.name not in used and (age > KEPT_SECONDS or too_much):
                    shutil.rmtree(place, ignore_errors=True)
                    deleted.append(place.name)
        return sorted(deleted)


@cache
def opened() -> KernelCache | None:
    """This process's cache: below ``XDG_CACHE_HOME``, or the temporary directory; None where neither can be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for parent in (base, Path(tempfile.gettempdir())):
        try:
            return KernelCache(parent / "tidemill" / "kernels")
        except OSError:
            continue
    return None


@cache
def _delete_unused_once() -> None:
    if kernels := opened():
        kernels.delete_unused()


@cache
def directory(path: str, module: str) -> str:
    """The directory for the kernels of one source file, or ``""`` where nothing can be written or there is no file."""
    kernels = opened()
    if kernels is None or not Path(path).is_file():
        return ""
    try:
        place, there = kernels.claim(f"{module}-{key(path, module)}")
    except OSError:
        return ""
    if not there:
        _delete_unused_once()
    return str(place)
