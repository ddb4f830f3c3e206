"""A whole connector: members of ZIP archives, ``zip:///data/in/*.zip!/2026/*.csv``, with globs on either side.
A package names it in its ``pyproject.toml``::

    [project.entry-points."tidemill.connectors"]
    zip = "zip_archives:ZipConnector"
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from zipfile import ZipFile

from tidemill.connectors import Connector, FileInfo, Reading, changed


class ZipConnector(Connector):
    """Lists the archives one after the other; a member is known by its name, time and checksum."""

    option_names = ("zipPassword",)
    secret_names = ("zipPassword",)

    def check(self, url: str, options: Mapping[str, str]) -> None:
        if "!/" not in url:
            raise ValueError("zip:///directory/archive.zip!/member.csv; * and ? may stand on either side of the !")

    def files(self, url: str, options: Mapping[str, str], after: str) -> Iterator[list[FileInfo]]:
        archives, _, members = url.removeprefix("zip://").partition("!/")
        for archive in [archives] if Path(archives).is_file() else sorted(glob(archives, recursive=True)):
            modified = Path(archive).stat().st_mtime_ns
            with ZipFile(archive) as opened:
                names = {members} & set(opened.namelist()) or set(fnmatch.filter(opened.namelist(), members))
                found = [m for m in opened.infolist() if m.filename in names and not m.is_dir()]
            yield [FileInfo(f"zip://{archive}!/{m.filename}", m.file_size, modified, f"{m.CRC:08x}") for m in found]

    def open(self, file: FileInfo, options: Mapping[str, str], position: int) -> Reading:
        archive, _, member = file.path.removeprefix("zip://").partition("!/")
        return Member(ZipFile(archive), member, file, options.get("zippassword"), position)


class Member:
    """One member from a position on; what lies before it is decoded and passed over."""

    def __init__(self, archive: ZipFile, name: str, file: FileInfo, password: str | None, position: int) -> None:
        self._archive = archive
        if name not in archive.namelist() or f"{archive.getinfo(name).CRC:08x}" != file.etag:
            archive.close()
            raise changed(file.path)
        self._member = archive.open(name, pwd=None if password is None else password.encode())
        self._member.seek(position)

    def fill(self, buffer: memoryview) -> int:
        return self._member.readinto(buffer)

    def close(self) -> None:
        self._member.close()
        self._archive.close()
