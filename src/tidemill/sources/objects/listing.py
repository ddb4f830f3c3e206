"""Objects that a URL names, listed page by page, and never wider than its literal beginning.

:func:`object_pages` lists once. :class:`ObjectListing` lists again and again, and asks for few pages when little is
new: what sorts behind the last key of before, some of the pages before it, and over many passes all of them.
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
"""How many keys a store gives in one answer."""

_DENSE, _ASKED, _AT_ONCE = 16, 64, 8
"""A listing goes on while a page has so many of the keys that are wanted, else so many are asked for, some at once."""

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
    """The store, what is wanted of it in the order of prefixes, and the object if the URL names one."""
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
    """The directory of a glob, up to its first wildcard, when no object lies below it; of several, when none does.

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
    """What keys a listing of a URL may give, without asking the store whether that is an object or a directory."""
    glob = parse_glob(split_url(url)[1])
    if glob.literal is None:
        return (glob.below() if recursive else glob).alternatives
    directory = glob.literal.rstrip("/")
    inside = parse_glob(f"{escaped(directory)}/*" if directory else "*")
    itself = glob.alternatives if glob.literal == directory != "" else ()
    return (*itself, *(inside.below() if recursive else inside).alternatives)


@dataclass(frozen=True)
class _Prefix:
    """All that is meant of keys with one prefix: they are listed once."""

    prefix: str
    alternatives: tuple[Alternative, ...]

    def means(self, key: str) -> bool:
        """Whether a key is meant, and not hidden."""
        return any(a.matches(key) and not a.hides(key) for a in self.alternatives)

    def dead_directory(self, key: str) -> str | None:
        """The largest directory of a key, with its slash, below which nothing is meant; None when there is none."""
        dead = [a.dead_directory(key) for a in self.alternatives]
        return None if None in dead else max((d for d in dead if d is not None), key=len)


def _by_prefix(alternatives: tuple[Alternative, ...]) -> tuple[_Prefix, ...]:
    found: dict[str, list[Alternative]] = {}
    for alternative in alternatives:
        found.setdefault(alternative.prefix, []).append(alternative)
    return tuple(_Prefix(prefix, tuple(some)) for prefix, some in sorted(found.items()))


@dataclass(frozen=True)
class Page:
    """A page that a store gave: the objects that are meant, and the last key of it, whether or not it is meant."""

    files: list[FileInfo]
    last: str


@dataclass(frozen=True)
class Cursor:
    """How far one prefix has been listed.

    Attributes
    ----------
    tail : str
        The greatest key seen: nothing behind it has been.
    back : str
        A key about a page before the tail. Listing goes on from here, so that keys which appear late and sort a little
        before the tail are found at once.
    sweep : str
        Up to here the pages before the tail have been listed again in this cycle.
    pages : int
        About how many pages there are up to the tail: as the last whole pass or cycle found, and one more for each pass
        since that found something behind it.
    late : int
        How many names the cycle has found that were not known.
    """

    tail: str = ""
    back: str = ""
    sweep: str = ""
    pages: int = 0
    late: int = 0


SWEEP_PAGES = 10
"""How many known pages a pass lists again when none of them had a new name lately."""


class ObjectListing:
    """Lists a place again and again.

    A pass asks for what sorts behind the last key, and for a part of the pages before it, so that a cycle of passes has
    asked for all. A place of few pages is listed whole each time, and so is a store that does not list in the order of
    keys. While passes find names that nobody knew among those (keys that do not grow with time) each lists twice as
    much as the one before; half as much after a cycle that found none.

    Parameters
    ----------
    cursors : mapping
        By prefix, as :attr:`cursors` was when the state was kept.

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
        """So many names of the page that was given last were not known."""
        self._late += names

    def pages(self, whole: bool) -> Iterator[list[FileInfo]]:
        """One pass; a page is asked for when the one before it has been taken.

        Parameters
        ----------
        whole : bool
            List everything, so that what is there now is found now.

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
        """Everything, from the beginning."""
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
        """What sorts behind the tail, and about a page before it."""
        prefix = alternative.prefix
        before = self.cursors[prefix].back
        for page in self._listed(store, alternative, before):
            yield page.files
            cursor = self.cursors[prefix]
            if page.last > cursor.tail:
                self.cursors[prefix] = replace(cursor, tail=page.last, back=before, pages=cursor.pages + 1)
            before = page.last

    def _again(self, store: str, alternative: _Prefix) -> Iterator[list[FileInfo]]:
        """Some of the pages before the tail, going on where the last pass ended."""
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


def object_versions(store: str, keys: Sequence[str], connection: Connection) -> dict[str, FileInfo]:
    """Objects of some keys, as they are now; those that are not there are left out.

    Keys that lie close together are listed, a thousand in a request; others are asked for one by one.

    Parameters
    ----------
    store : str
        Such as ``s3://bucket``.
    keys : sequence of str
        In the order of their characters.

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
    """List from a key on while pages have many of them; the number of the first key that is not known then."""
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
