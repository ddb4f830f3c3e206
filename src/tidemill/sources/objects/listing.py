"""Lists the objects that a URL matches, page by page, below its literal prefix only.

:func:`object_pages` lists once. :class:`ObjectListing` lists repeatedly, with few requests when little is new: the keys
after the last one seen, some of the pages before it, and over many passes all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
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
"""Keys in one response of a store."""

_DENSE, _ASKED, _AT_ONCE = 16, 64, 8
"""Fewest wanted keys of a page for listing to continue; else how many keys are requested singly, and concurrently."""

_LAST = "\U0010ffff"
_IN_ORDER = ("s3", "s3a", "gs")
_UNORDERED_BUCKET = "--x-s3"


def object_pages(
    url: str, connection: Connection, recursive: bool = False, after: str = ""
) -> Iterator[list[FileInfo]]:
    """The objects that a URL matches, one list per page of the store, without hidden ones.

    A URL that ends with a slash names the objects of that directory; another without wildcards an object or, if there
    is none, such a directory. A page is requested when the one before it has been taken.

    Parameters
    ----------
    recursive : bool
        Whether objects at any depth below a directory are listed.
    after : str
        A key; only keys after it are listed, in the order of their UTF-8 bytes.

    Raises
    ------
    TidemillError
        TM5001 for an object or directory that does not exist, TM5030 to TM5036 as the store answers, TM5035 for a glob
        that is not understood.
    """
    store, alternatives, single = _resolved(url, connection, recursive)
    if single is not None:
        yield [single] if split_url(single.path)[1] > after else []
        return
    seen: set[str] = set()
    for alternative in alternatives:
        for page in _pages(store, alternative, connection, after):
            new = [f for f in page.files if f.path not in seen]
            if len(alternatives) > 1:
                seen.update(f.path for f in new)
            yield new


def _resolved(url: str, connection: Connection, recursive: bool) -> tuple[str, tuple[_Prefix, ...], FileInfo | None]:
    """The store, the patterns by prefix, and the object if the URL names one."""
    store, text = split_url(url)
    glob = parse_glob(text)
    literal = glob.literal
    if literal is not None and not literal.endswith("/") and literal:
        found = _single(f"{store}/{literal}", connection)
        if found is not None and not glob.alternatives[0].hides(literal):
            return store, (), found
        if found is not None:
            return store, (), None
    if literal is not None:
        directory = literal.rstrip("/")
        glob = parse_glob(f"{escaped(directory)}/*" if directory else "*")
        if literal == directory != "" and not _any_below(store, directory, connection):
            raise numbered(FileNotFoundError(), url)
    glob = glob.below() if recursive else glob
    return store, _by_prefix(glob.alternatives), None


def missing_prefix(url: str, connection: Connection) -> str | None:
    """The directory before the first wildcard of a glob if it has no objects; with braces, if none of them has.

    Errors as :func:`object_pages`.
    """
    store, text = split_url(url)
    glob = parse_glob(text)
    above = ["/".join(p.begins for p in a.parts[: a.fixed]) for a in glob.alternatives]
    if glob.literal is not None or any(not d or _any_below(store, d, connection) for d in above):
        return None
    return f"{store}/{above[0]}"


@lru_cache(256)
def meant_keys(url: str, recursive: bool) -> tuple[Alternative, ...]:
    """Patterns of the keys that a listing of a URL may give, whether it names an object or a directory."""
    glob = parse_glob(split_url(url)[1])
    if glob.literal is None:
        return (glob.below() if recursive else glob).alternatives
    directory = glob.literal.rstrip("/")
    inside = parse_glob(f"{escaped(directory)}/*" if directory else "*")
    itself = glob.alternatives if glob.literal == directory != "" else ()
    return (*itself, *(inside.below() if recursive else inside).alternatives)


@dataclass(frozen=True)
class _Prefix:
    """All patterns with one prefix: their keys are listed once."""

    prefix: str
    alternatives: tuple[Alternative, ...]

    def means(self, key: str) -> bool:
        """Whether a key matches and is not hidden."""
        return any(a.matches(key) and not a.hides(key) for a in self.alternatives)

    def dead_directory(self, key: str) -> str | None:
        """The largest directory of a key, with its slash, below which nothing can match; None when there is none."""
        dead = [a.dead_directory(key) for a in self.alternatives]
        return None if None in dead else max((d for d in dead if d is not None), key=len)


def _by_prefix(alternatives: tuple[Alternative, ...]) -> tuple[_Prefix, ...]:
    found: dict[str, list[Alternative]] = {}
    for alternative in alternatives:
        found.setdefault(alternative.prefix, []).append(alternative)
    return tuple(_Prefix(prefix, tuple(some)) for prefix, some in sorted(found.items()))


@dataclass(frozen=True)
class Page:
    """A page of a store: the objects that match, and its last key, whether or not that matches."""

    files: list[FileInfo]
    last: str


@dataclass(frozen=True)
class Cursor:
    """How far one prefix has been listed.

    Attributes
    ----------
    tail : str
        The greatest key seen.
    back : str
        A key about a page before the tail. Listing continues from here, so that keys which appear late and sort just
        before the tail are found at once.
    sweep : str
        Up to this key the pages before the tail have been listed again in this cycle.
    pages : int
        About how many pages there are up to the tail: as the last whole pass or cycle found, and one more for each pass
        since that found something behind it.
    late : int
        How many new names the cycle has found.
    """

    tail: str = ""
    back: str = ""
    sweep: str = ""
    pages: int = 0
    late: int = 0


SWEEP_PAGES = 10
"""Pages before the tail that a pass lists again while they have no new names."""


class ObjectListing:
    """Lists a location repeatedly.

    A pass lists the keys after the last one seen and a part of the pages before it, so that a cycle of passes lists
    all. A location of few pages is listed whole each time, and so is a store that does not list in the order of keys.
    While passes find new names among the earlier pages (keys that do not grow with time), each lists twice as many as
    the one before; half as many after a cycle that found none.

    Parameters
    ----------
    cursors : mapping
        By prefix, as stored from :attr:`cursors`.

    Attributes
    ----------
    cursors : dict
        By prefix. A page counts as seen when the next one is asked for.
    """

    def __init__(
        self, url: str, connection: Connection, recursive: bool = False, cursors: Mapping[str, Cursor] | None = None
    ) -> None:
        self._url, self._connection, self._recursive = url, connection, recursive
        self._resolved: tuple[str, tuple[_Prefix, ...], FileInfo | None] | None = None
        self._share = SWEEP_PAGES
        self._late = 0
        self.cursors: dict[str, Cursor] = dict(cursors or {})

    def found_new(self, names: int) -> None:
        """Report how many names of the last page were new."""
        self._late += names

    def pages(self, whole: bool) -> Iterator[list[FileInfo]]:
        """One pass; a page is requested when the one before it has been taken.

        Parameters
        ----------
        whole : bool
            Whether to list everything now.

        Raises
        ------
        TidemillError
            As :func:`object_pages`.
        """
        if self._resolved is None or whole or self._resolved[2] is not None:
            self._resolved = _resolved(self._url, self._connection, self._recursive)
        store, alternatives, single = self._resolved
        if single is not None:
            yield [single]
        for alternative in alternatives:
            cursor = self.cursors.get(alternative.prefix, Cursor())
            if whole or not _in_order(store) or cursor.pages <= SWEEP_PAGES:
                yield from self._all(store, alternative)
            else:
                yield from self._behind(store, alternative)
                yield from self._again(store, alternative)

    def _listed(self, store: str, alternative: _Prefix, after: str) -> Iterator[Page]:
        for page in _pages(store, alternative, self._connection, after):
            self._late = 0
            yield page

    def _all(self, store: str, alternative: _Prefix) -> Iterator[list[FileInfo]]:
        """All pages."""
        prefix, last, back, number = alternative.prefix, "", "", 0
        for page in self._listed(store, alternative, ""):
            yield page.files
            number, back, last = number + 1, last, page.last
            cursor = self.cursors.get(prefix, Cursor())
            if last > cursor.tail:
                cursor = replace(cursor, tail=last, back=back)
            self.cursors[prefix] = replace(cursor, pages=max(number, cursor.pages))
        self.cursors[prefix] = Cursor(last, back, "", number)

    def _behind(self, store: str, alternative: _Prefix) -> Iterator[list[FileInfo]]:
        """The keys after the tail, and about a page before it."""
        prefix = alternative.prefix
        before = self.cursors[prefix].back
        for page in self._listed(store, alternative, before):
            yield page.files
            cursor = self.cursors[prefix]
            if page.last > cursor.tail:
                self.cursors[prefix] = replace(cursor, tail=page.last, back=before, pages=cursor.pages + 1)
            before = page.last

    def _again(self, store: str, alternative: _Prefix) -> Iterator[list[FileInfo]]:
        """Some of the pages before the tail, from where the last pass ended."""
        prefix = alternative.prefix
        left, found, begun = self._share, 0, self.cursors[prefix].sweep
        most = left
        for page in self._listed(store, alternative, begun):
            yield page.files
            cursor, left, found = self.cursors[prefix], left - 1, found + self._late
            ended = page.last >= cursor.back
            self.cursors[prefix] = replace(cursor, sweep=page.last, late=cursor.late + self._late)
            if ended or not left:
                break
        else:
            ended = True
        cursor = self.cursors[prefix]
        if found:
            self._share = min(2 * self._share, max(SWEEP_PAGES, cursor.pages))
        elif ended and not cursor.late:
            self._share = max(SWEEP_PAGES, self._share // 2)
        if ended:
            pages = cursor.pages if begun else most - left + 1
            self.cursors[prefix] = replace(cursor, sweep="", late=0, pages=pages)


def _pages(store: str, alternative: _Prefix, connection: Connection, after: str) -> Iterator[Page]:
    """Pages of one prefix. When a page ends in a directory where nothing can match, the rest of it is skipped."""
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
                if key > after and alternative.means(key):
                    infos.append(_info(store, meta))
            last = page[-1]["path"]
            if ordered and not last.startswith(prefix) and last > prefix:
                meant = [meta["path"] for meta in page if meta["path"].startswith(prefix)]
                yield Page(infos, meant[-1] if meant else start)
                return
            yield Page(infos, last)
            dead = alternative.dead_directory(last) if ordered and len(page) == PAGE_KEYS else None
            if dead is not None:
                jump = dead + _LAST
                break
        if jump is None:
            return
        start = jump


def _chunks(store: str, directory: str, start: str, connection: Connection) -> Iterator[list[Any]]:
    """Pages of a directory, to any depth. After an interrupted response it continues after the last key received."""
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


def object_versions(store: str, keys: Sequence[str], connection: Connection) -> dict[str, FileInfo]:
    """The current objects of some keys, without those that do not exist.

    Keys that are close together are listed, a thousand in a request; others are requested one by one.

    Parameters
    ----------
    store : str
        Such as ``s3://bucket``.
    keys : sequence of str
        Sorted as strings.

    Raises
    ------
    TidemillError
        TM5030 to TM5036 as the store answers.
    """
    found: dict[str, FileInfo] = {}
    at, listed = 0, _in_order(store)
    while at < len(keys):
        if listed:
            begun, at = at, _versions_listed(store, keys, at, connection, found)
            listed = at - begun >= _DENSE
        else:
            some = keys[at : at + _ASKED]
            with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="head") as pool:
                infos = pool.map(lambda key: _single(f"{store}/{key}", connection), some)
                found |= {key: info for key, info in zip(some, infos, strict=True) if info is not None}
            at, listed = at + len(some), _in_order(store)
    return found


def _versions_listed(
    store: str, keys: Sequence[str], at: int, connection: Connection, found: dict[str, FileInfo]
) -> int:
    """List from a key on while pages have many of the keys; returns the index of the first key not found out."""
    pairs = zip(keys[at].split("/")[:-1], keys[-1].split("/")[:-1], strict=False)
    directory = "/".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    for page in _chunks(store, directory, before(keys[at]), connection):
        begun, last, present = at, page[-1]["path"], {meta["path"]: meta for meta in page}
        while at < len(keys) and keys[at] <= last:
            if keys[at] in present:
                found[keys[at]] = _info(store, present[keys[at]])
            at += 1
        if at == len(keys) or at - begun < _DENSE:
            return at
    return len(keys)


def _in_order(store: str) -> bool:
    """Whether keys are listed in the order of their bytes."""
    return store.partition("://")[0] in _IN_ORDER and not store.endswith(_UNORDERED_BUCKET)


def before(prefix: str) -> str:
    """A key that sorts before all with a prefix, and after nearly all keys that sort before these."""
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
