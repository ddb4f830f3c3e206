"""A small disk that can be filled and freed."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock


class Disk:
    """A file system of 4 MB of its own where one may be mounted; else no file below can be begun while it is "full"."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tidemill-test", str(path)]
        try:
            self.mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except OSError:
            self.mounted = False

    @contextmanager
    def full(self) -> Iterator[None]:
        """No space is left meanwhile."""
        if not self.mounted:
            with mock.patch.object(Path, "open", self._opening()), mock.patch.object(os, "link", self._linking()):
                yield
            return
        filler = self.path / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        try:
            yield
        finally:
            filler.unlink(missing_ok=True)

    def _opening(self) -> Callable[..., Any]:
        def refusing(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if mode[0] != "r":
                self._check(path)
            return known(path, mode, *arguments, **named)

        known = Path.open
        return refusing

    def _linking(self) -> Callable[..., None]:
        def refusing(source: Path, target: Path) -> None:
            self._check(target)
            known(source, target)

        known = os.link
        return refusing

    def _check(self, path: Path) -> None:
        if path.is_relative_to(self.path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def close(self) -> None:
        """Give the file system back."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)
