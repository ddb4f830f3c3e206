"""Connectors as packages offer them, for tests: the one of the examples, and one that drips."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tidemill.connectors import GROWING, Connector, FileInfo, Reading, changed, registry

EXAMPLES = Path(__file__).parents[1] / "examples"
_ENTRY = "zip_archives:ZipConnector"


class DripConnector(Connector):
    """Files of a directory, a page each, a few bytes at a time. A ``.log`` only grows; other files change with time."""

    option_names = ("dripBytes", "dripKey")
    secret_names = ("dripKey",)

    def check(self, url: str, options: Mapping[str, str]) -> None:
        if not options.get("dripbytes", "7").isdigit():
            raise ValueError("dripBytes is a number")

    def files(self, url: str, options: Mapping[str, str], after: str) -> Iterator[list[FileInfo]]:
        for path in sorted(Path(url.removeprefix("drip://")).iterdir()):
            status = path.stat()
            modified = GROWING if path.suffix == ".log" else status.st_mtime_ns
            found = FileInfo(f"drip://{path}", status.st_size, modified, "growing" if modified == GROWING else "still")
            yield [found] if found.path > after else []

    def open(self, file: FileInfo, options: Mapping[str, str], position: int) -> Reading:
        assert file.etag == ("growing" if file.modified == GROWING else "still")
        path = Path(file.path.removeprefix("drip://"))
        if file.modified not in (GROWING, path.stat().st_mtime_ns):
            raise changed(file.path)
        return Drip(path, position, int(options.get("dripbytes", "7")))


class Drip:
    """Gives so many bytes at a time."""

    def __init__(self, path: Path, position: int, most: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._file.seek(position)
        self._most = most

    def fill(self, buffer: memoryview) -> int:
        return self._file.readinto(buffer[: self._most]) or 0

    def close(self) -> None:
        assert not self._file.closed
        self._file.close()


@contextmanager
def installed(monkeypatch: pytest.MonkeyPatch, **others: str) -> Iterator[None]:
    """``zip://`` and ``drip://``, and others by scheme, for this process."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    offers = {"zip": _ENTRY, "drip": "offered_connectors:DripConnector", **others}
    entries = [EntryPoint(name, target, registry.ENTRY_POINT_GROUP) for name, target in offers.items()]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: entries)
    registry.forget()
    yield
    registry.forget()
    sys.modules.pop("zip_archives", None)


def packaged(directory: Path) -> str:
    """A package with ``zip://`` as one file, for processes of Spark (``addPyFile``)."""
    with zipfile.ZipFile(directory / "zip_archives.zip", "w") as package:
        package.write(EXAMPLES / "zip_archives.py", "zip_archives.py")
        about = "zip_archives-1.0.dist-info"
        package.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: zip-archives\nVersion: 1.0\n")
        package.writestr(f"{about}/entry_points.txt", f"[{registry.ENTRY_POINT_GROUP}]\nzip = {_ENTRY}\n")
    return str(directory / "zip_archives.zip")
