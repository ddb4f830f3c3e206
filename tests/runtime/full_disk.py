"""A small disk that can be filled and freed."""

from __future__ import annotations

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Disk:
    """A file system of 4 MB of its own where one may be mounted; else no file can grow while it is "full"."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tidemill-test", str(path)]
        try:
            self.mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            self.mounted = False
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    @contextmanager
    def full(self) -> Iterator[None]:
        """No space is left meanwhile."""
        filler = self.path / "filler"
        if self.mounted:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, self._limit[1]))
        try:
            yield
        finally:
            filler.unlink(missing_ok=True)
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)

    def close(self) -> None:
        """Give the file system back."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)
