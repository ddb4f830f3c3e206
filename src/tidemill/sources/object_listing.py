"""Objects that a URL names, listed page by page, and never wider than its literal beginning."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import obstore
from obstore.exceptions import BaseError

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import Connection, split_url
from tidemill.objectstore.faults import broke_off, numbered
from tidemill.objectstore.object_file import find_object, nanoseconds
from tidemill.sources.file_info import FileInfo
from tidemill.sources.globs import Alternative, escaped, parse_glob

PAGE_KEYS = 1000
"""How many keys a store gives in one answer."""

_LAST = "\U0010ffff"
_IN_ORDER = ("s3", "s3a", "gs")
_UNORDERED_BUCKET = "--x-s3"


def object_pages(
    url: str, connection: Connection, recursive: bool = False, after: str = ""
) -> Iterator[list[FileInfo]]:
    """The objects that a URL names, one list for each page of the store that was asked for; hidden ones are left out.

    A URL that ends with a slash names what lies in that directory, another without wildcards an object or, if there is
    none, such a directory. A page is asked for when the one before it has been taken.

    Parameters
    ----------
    recursive : bool
        Directories are looked through to any depth.
    after : str
        A key; only later ones are listed, in the order of their UTF-8 bytes.

    Raises
    ------
    TidemillError
        TM5001 for an object or directory that does not exist, TM5030 to TM5036 as the store answers, TM5035 for a glob
        that is not understood.
    """
    store, text = split_url(url)
    glob = parse_glob(text)
    literal = glob.literal
    if literal is not None and not literal.endswith("/") and literal:
        found = _single(f"{store}/{literal}", connection)
        if found is not None:
            yield [found] if literal > after and not glob.alternatives[0].hides(literal) else []
            return
    if literal is not None:
        directory = literal.rstrip("/")
        glob = parse_glob(f"{escaped(directory)}/*" if directory else "*")
        if literal == directory != "" and not _any_below(store, directory, connection):
            raise numbered(FileNotFoundError(), url)
    glob = glob.below() if recursive else glob
    seen: set[str] = set()
    for alternative in sorted(glob.alternatives, key=lambda a: a.prefix):
        for page in _pages(store, alternative, connection, after):
            new = [f for f in page if f.path not in seen]
            if len(glob.alternatives) > 1:
                seen.update(f.path for f in new)
            yield new


def _pages(store: str, alternative: Alternative, connection: Connection, after: str) -> Iterator[list[FileInfo]]:
    """Pages of one way through the braces. Where one ends in a directory that is not meant, the rest is jumped over."""
    prefix = alternative.prefix
    directory = prefix.rpartition("/")[0]
    start = max(before(prefix) if prefix != f"{directory}/" else "", after)
    ordered = _in_order(store)
    while True:
        jump = None
        for page in _chunks(store, directory, start, connection):
            infos = []
            for meta in page:
                key = meta["path"]
                if key > after and alternative.matches(key) and not alternative.hides(key):
                    infos.append(_info(store, meta))
            yield infos
            last = page[-1]["path"]
            if ordered and not last.startswith(prefix) and last > prefix:
                return
            dead = alternative.dead_directory(last) if ordered and len(page) == PAGE_KEYS else None
            if dead is not None:
                jump = dead + _LAST
                break
        if jump is None:
            return
        start = jump


def _chunks(store: str, directory: str, start: str, connection: Connection) -> Iterator[list[Any]]:
    """Pages of a directory, to any depth. After one that broke off it goes on behind the last key that came."""
    attempt, begun = 0, False
    while True:
        try:
            opened = connection.store(store)
            for page in obstore.list(opened, directory or None, offset=start or None, chunk_size=PAGE_KEYS):
                if page:
                    yield list(page)
                    attempt, begun, start = 0, True, page[-1]["path"]
            return
        except (BaseError, OSError, ValueError) as error:
            lost = begun and not _in_order(store)
            if lost or not broke_off(error) or attempt >= connection.retries:
                raise numbered(error, f"{store}/{directory}") from None
        time.sleep(connection.pause(attempt))
        attempt += 1


def _in_order(store: str) -> bool:
    """Whether keys are listed in the order of their bytes."""
    return store.partition("://")[0] in _IN_ORDER and not store.endswith(_UNORDERED_BUCKET)


def before(prefix: str) -> str:
    """A key that sorts before all that begin with a prefix, and behind nearly all others that do."""
    code = ord(prefix[-1]) - 1 if prefix else 0
    while code > 0 and (chr(code) == "/" or not (chr(code).isprintable() or code == 0x20)):
        code -= 1  # what a name may not have
    return prefix[:-1] + (chr(code) + _LAST if code else "")


def _info(store: str, meta: Any) -> FileInfo:
    time = nanoseconds(meta["last_modified"])
    return FileInfo(f"{store}/{meta['path']}", meta["size"], time, meta.get("e_tag") or "")


def _single(url: str, connection: Connection) -> FileInfo | None:
    try:
        found = find_object(url, connection)
    except TidemillError as error:
        if error.number == "TM5001":
            return None
        if error.number == "TM5033":  # an answer to HEAD has no body that says more
            store, key = split_url(url)
            _any_below(store, key, connection)
        raise
    return FileInfo(url, found.size, found.modified, found.etag)


def _any_below(store: str, directory: str, connection: Connection) -> bool:
    return next(_chunks(store, directory, "", connection), None) is not None
