"""Where the server of a root is: a file in the root's directory that is there while one runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tidemill.state.versions.objects import local_directory

_FILE = "serve/server.json"


def _file(root: str) -> Path | None:
    directory = local_directory(root)
    return None if directory is None else Path(directory) / _FILE


def write_addresses(root: str, addresses: Mapping[str, str]) -> None:
    """Say where this process serves a root, where that is a directory."""
    file = _file(root)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"pid": os.getpid(), **addresses}))


def remove_addresses(root: str) -> None:
    """This process serves the root no more."""
    file = _file(root)
    if file is not None:
        file.unlink(missing_ok=True)


def served_at(root: str) -> dict[str, str] | None:
    """The addresses of the server that serves a root on this machine, by protocol; None when none does."""
    file = _file(root)
    try:
        found = json.loads(file.read_text()) if file is not None else {}
        os.kill(int(found.pop("pid")), 0)
    except (OSError, ValueError, KeyError):
        return None  # there is no file, or the process that wrote it was killed
    return {str(k): str(v) for k, v in found.items()}
