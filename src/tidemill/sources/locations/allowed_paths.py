"""Where tables may have their files, and sinks may write: the setting ``allowed_paths``."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping

from tidemill.connectors.iceberg.options import catalogue_places
from tidemill.connectors.kafka.options import BOOTSTRAP, places_of
from tidemill.connectors.mqtt.options import brokers_of
from tidemill.connectors.postgres.options import servers_of
from tidemill.connectors.registry import GENERATOR_SCHEME, KAFKA_SCHEME, SOCKET_SCHEMES, scheme_of
from tidemill.connectors.schema_registry.options import registry_places
from tidemill.errors import TidemillError
from tidemill.objectstore.connection import is_object_url, split_url
from tidemill.sources.files import local_pattern
from tidemill.sources.globs import parse_glob
from tidemill.sources.locations.location import location_of
from tidemill.sources.sockets.endpoints import parse_endpoints

_OWN = (GENERATOR_SCHEME, "ingest")
"""Schemes of rows that are not read from anywhere: they are always allowed."""

_SERVERS = ("endpoint", "queueendpoint", "queueurl")
"""Options that name servers."""


class AllowedPaths:
    """Directories and URLs below which files may be read, moved to, and written by sinks.

    Parameters
    ----------
    allowed : str
        Separated by commas; a scheme alone (``tcp+listen://``) allows all its URLs. An empty text allows all paths.
    root : str
        The directory or URL of the mill's own files, where sinks never write; empty for none.

    Raises
    ------
    TidemillError
        TM5046 for a text that is not understood.
    """

    def __init__(self, allowed: str = "", root: str = "") -> None:
        self.root = root
        self._given = [part.strip() for part in allowed.split(",") if part.strip()]
        if (allowed and not self._given) or "file://" in self._given:
            raise TidemillError(
                "TM5046",
                "the setting allowed_paths is not understood",
                got=repr(allowed),
                hint="directories and URLs, separated by commas; leave it out to allow everything",
            )
        self._directories = [os.path.realpath(local_pattern(p)) for p in self._given if not _is_url(p)]
        self._urls = [_plain(p).rstrip("/") if not p.endswith("://") else _scheme(p) for p in self._given if _is_url(p)]

    def check(self, table: str, options: Mapping[str, str], looks_into: bool = False) -> None:
        """Check that all locations and servers of a table are allowed; names of options in lower case.

        Parameters
        ----------
        looks_into : bool
            Whether files are read at once, for schema inference: then no link may lead out of the allowed paths.

        Raises
        ------
        TidemillError
            TM5045 when one is not allowed.
        """
        if not self._given:
            return
        path, archive = options.get("path", ""), options.get("sourcearchivedir", "")
        asked = [(path, _beginnings(path))] if path else []
        asked += [(archive, iter([archive if _is_url(archive) else local_pattern(archive)]))] if archive else []
        asked += [(options[name], iter([options[name]])) for name in _SERVERS if name in options]
        asked += [(broker, iter([broker])) for broker in _brokers(options)]
        asked += [(server, iter([server])) for server in servers_of(options)]
        for place in (*registry_places(options), *catalogue_places(options), *places_of(options), *brokers_of(options)):
            asked.append((place, iter([place if _is_url(place) else local_pattern(place)])))
        for text, beginnings in asked:
            if not all(map(self._has, beginnings)):
                raise self.outside(f"{text} of table {table}")
        if looks_into and path and not _is_url(path):
            for file in location_of(path, options).listing():
                if not self.has_file(file.path):
                    raise self.outside(f"{file.path}, which is {os.path.realpath(file.path)}, of table {table}")

    def check_target(self, sink: str, location: str, options: Mapping[str, str]) -> None:
        """TM5045 when a sink must not write to a path or URL, or to the server of a store that its options name."""
        if not self._given:
            return
        places = [*_brokers(options), *servers_of(options), *catalogue_places(options)] or [
            location
        ]  # a topic is where its brokers are
        for text in (*places, *places_of(options), *(options[name] for name in _SERVERS if name in options)):
            if not self._has(text if _is_url(text) else local_pattern(text)):
                raise self.outside(f"{text} of sink {sink}")

    def in_root(self, location: str) -> bool:
        """Whether a path or URL lies among the files of the mill's root."""
        return bool(self.root) and f"{_real(location)}/".startswith(f"{_real(self.root)}/")

    def has_file(self, path: str) -> bool:
        """Whether a listed file is allowed; links in the path of a local file are resolved."""
        return not self._given or _is_url(path) or self._has(path)

    def outside(self, got: str) -> TidemillError:
        """TM5045: a path or server is not allowed."""
        return TidemillError(
            "TM5045",
            "the path is not in allowed_paths",
            got=got,
            hint=f"allowed_paths is {', '.join(self._given)}",
        )

    def _has(self, beginning: str) -> bool:
        if scheme_of(beginning) in _OWN:
            return True
        if _is_url(beginning):
            plain = _plain(beginning)
            return any(
                plain.startswith(u) if u.endswith("://") else plain == u or plain.startswith(f"{u}/")
                for u in self._urls
            )
        real = os.path.realpath(beginning)
        return any(real == d or real.startswith(f"{d.rstrip('/')}/") for d in self._directories)


def _brokers(options: Mapping[str, str]) -> list[str]:
    """URLs of the brokers that options name."""
    given = map(str.strip, options.get(BOOTSTRAP.key, "").split(","))
    return [f"{KAFKA_SCHEME}://{broker}" for broker in given if broker]


def _real(place: str) -> str:
    """A directory or URL with one spelling, without a slash at the end."""
    return (_plain(place) if _is_url(place) else os.path.realpath(local_pattern(place))).rstrip("/")


def _is_url(path: str) -> bool:
    return "://" in path and not path.startswith("file:")


def _scheme(url: str) -> str:
    scheme = url.partition("://")[0].lower()
    return f"{'s3' if scheme == 's3a' else scheme}://"


def _plain(url: str) -> str:
    """A URL without ``..`` and links, with one spelling for each scheme."""
    if is_object_url(url):
        store, key = split_url(url)
        return f"{_scheme(store)}{store.partition('://')[2]}/{key}"
    scheme, rest = _scheme(url), url.partition("://")[2]
    if scheme.startswith("unix") and rest:
        return f"{scheme}{os.path.realpath(str(parse_endpoints(url)[0].address))}"
    return f"{scheme}{posixpath.normpath(rest) if rest else ''}"


def _beginnings(path: str) -> Iterator[str]:
    """Prefixes of all paths that a table's ``path`` may match, in whole names; each endpoint of sockets."""
    if scheme_of(path) in SOCKET_SCHEMES:
        yield from (part.strip() for part in path.split(","))
    elif is_object_url(path):
        store, key = split_url(path)
        for alternative in parse_glob(key).alternatives:
            parts = alternative.parts if parse_glob(key).literal is not None else alternative.parts[: alternative.fixed]
            yield "/".join([store, *(p.begins for p in parts)])
    elif _is_url(path):
        yield path
    else:
        pattern = local_pattern(path)
        if os.access(pattern, os.F_OK):
            yield pattern
            return
        glob = parse_glob(pattern)
        for alternative in glob.alternatives:
            parts = alternative.parts if glob.literal is not None else alternative.parts[: alternative.fixed]
            yield "/".join(p.begins for p in parts) or "/"
