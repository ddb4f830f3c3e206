"""Where compiled kernels are kept on disk.

Numba notices a change only in a kernel's own file, not in the files of the functions it calls. So the
cache directory is named after all sources that have kernels: another version never meets old machine
code, and an installation that cannot be written to is no obstacle.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba


@cache
def directory() -> str:
    """The directory of this version's kernels: below ``XDG_CACHE_HOME``, or the temporary directory."""
    package = Path(__file__).parent
    digest = hashlib.sha256(str(package).encode())
    for room in ("formats", "sources", "state"):
        for source in sorted((package / room).rglob("*.py")):
            digest.update(source.read_bytes())
    name = f"tidemill/kernels-{digest.hexdigest()[:16]}"
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for parent in (base, Path(tempfile.gettempdir())):
        try:
            (parent / name).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(parent / name, os.W_OK):
            return str(parent / name)
    return ""


def njit(*arguments: Any, **options: Any) -> Callable[..., Any]:
    """``numba.njit`` with the disk cache in :func:`directory`; takes the same arguments."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = directory()
        try:
            compiled: Callable[..., Any] = numba.njit(*arguments, cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = before
        return compiled

    return decorate
