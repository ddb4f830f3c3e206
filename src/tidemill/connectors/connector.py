"""What a connector is: files by a URL, page by page, and the bytes of one from a position on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidemill.errors import TidemillError

GROWING = -1
"""Stands for the modification time of a file that only grows, at its end: a log, a partition of a queue."""


@dataclass(frozen=True)
class FileInfo:
    """A file as listed: size in bytes, modification time in nanoseconds since 1970; an object also has an ETag.

    The time of a file that only grows is :data:`GROWING`. Every size listed of it is one at which a row ends, and it is
    neither compressed nor of a format that has something at its end.

    What a connector puts into ``etag`` is given back to it with the file, so that it reads exactly what it listed.

    Only partitions of topics, which are built in, have a ``begin``: the first byte that is read of one, if that is not
    all. What was listed first remains, whatever is listed later; ``size`` includes what lies before.
    """

    path: str
    size: int
    modified: int
    etag: str = ""
    begin: int | None = None


class Reading(Protocol):
    """The bytes of one file from a position on. Used by one thread at a time."""

    def fill(self, buffer: memoryview) -> int:
        """Put the next bytes into the buffer, at least one unless the file is at its end.

        Returns
        -------
        int
            How many; 0 at the end. Fewer than fit are not the end.
        """
        ...

    def close(self) -> None:
        """Close the file; called once."""
        ...


class Connector(Protocol):
    """Bytes behind the URLs of one scheme. Makes no changes to itself: several threads and processes use it at once.

    A package offers one under the entry point group ``tidemill.connectors``. The name of the entry is the scheme, and
    it is a class or function that makes a ``Connector``. Packages must be installed wherever tasks run.

    Options reach every method with names in lower case, and only those that the connector has.

    What a method raises is shown as TM5052 with the URL; a ``FileNotFoundError`` as TM5001, and a
    :class:`~tidemill.errors.TidemillError` such as :func:`changed` as it is.

    Attributes
    ----------
    option_names : sequence of str
        Every option that it has, as it is written.
    secret_names : sequence of str
        Those whose values are neither shown nor written anywhere.
    """

    option_names: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()

    def check(self, url: str, options: Mapping[str, str]) -> None:
        """Refuse a URL or options that cannot be right, with a ``ValueError`` that says what would be."""

    def files(self, url: str, options: Mapping[str, str], after: str) -> Iterable[list[FileInfo]]:
        """The files that a URL names, in pages of any length. A page is asked for when the one before was taken.

        Their paths are URLs of the same scheme. Each names one file for ever.

        Parameters
        ----------
        after : str
            Only files whose paths sort behind it need to be listed. Empty for all. Whoever lists in order can begin
            there; others may give all of them.
        """
        ...

    def open(self, file: FileInfo, options: Mapping[str, str], position: int) -> Reading:
        """Begin to read a file that was listed, at a byte from 0 to its size. A GROWING one may be longer by now."""
        ...


def changed(path: str, why: str = "written again since") -> TidemillError:
    """TM5003, for a connector that finds another file than the one that was listed."""
    return TidemillError(
        "TM5003",
        "a file changed after it was listed",
        got=f"{path}: {why}",
        hint="let a file be complete before it is listed; only one that is GROWING may change, at its end",
    )
