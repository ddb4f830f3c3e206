"""Connectors by scheme: which are built in, and those that installed packages offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from tidemill.connectors.connector import Connector
from tidemill.errors import SECRET_OPTIONS, TidemillError, keep_secret, nearest
from tidemill.objectstore.connection import SCHEMES as OBJECT_SCHEMES
from tidemill.options.option import spell

ENTRY_POINT_GROUP = "tidemill.connectors"
"""Group in which a package names its connectors by scheme; each entry is a class or function that makes one."""

SOCKET_SCHEMES = ("tcp", "tcp+listen", "unix", "unix+listen", "stdin")
GENERATOR_SCHEME = "generator"
"""Scheme of the location of a table USING generator; internal."""

KAFKA_SCHEME = "kafka"
"""Scheme of the partitions of tables USING kafka; internal."""

POSTGRES_SCHEME = "postgresql"
"""Scheme of the location of a table USING postgres; internal."""

MQTT_SCHEME = "mqtt"
"""Scheme of the location of a table USING mqtt; internal."""

ICEBERG_SCHEME = "iceberg"
"""Scheme of the location of a table USING iceberg; internal."""

_INTERNAL = frozenset({GENERATOR_SCHEME, KAFKA_SCHEME, MQTT_SCHEME, POSTGRES_SCHEME, ICEBERG_SCHEME})
_BUILT_IN = frozenset({"file", *OBJECT_SCHEMES, *SOCKET_SCHEMES, *_INTERNAL})
_URL = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(path: str) -> str:
    """What stands before ``://``, in lower case; empty where that is missing."""
    scheme, separator, _ = path.partition("://")
    return scheme.strip().lower() if separator else ""


def is_offered(path: str) -> bool:
    """Whether a path is the URL of a connector that is not built in; it may not exist."""
    return scheme_of(path) not in {"", *_BUILT_IN}


@dataclass(frozen=True, repr=False)
class Offered:
    """A connector of a package and what it may know of a table's options, with names in lower case. Hashable."""

    scheme: str
    given: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        shown = {name: "***" if name in SECRET_OPTIONS else value for name, value in self.given}
        return f"Offered({self.scheme!r}, {shown})"

    def without_secrets(self, text: str) -> str:
        """A text of the connector, with ``***`` in the place of secrets that it was given."""
        for name, value in self.given:
            if name in SECRET_OPTIONS and value:
                text = text.replace(value, "***")
        return text

    @property
    def connector(self) -> Connector:
        """Errors as :func:`lookup`."""
        return _load(self.scheme)

    @property
    def options(self) -> dict[str, str]:
        """What its methods are given."""
        return dict(self.given)


def lookup(url: str, options: Mapping[str, str] | None = None) -> Offered:
    """The connector of a URL, with those of a table's options that are for it; names in lower case.

    Raises
    ------
    TidemillError
        TM5002 when there is none for the scheme, TM5050 when the package that offers it cannot be loaded.
    """
    scheme = scheme_of(url)
    if scheme not in _entries():
        _entries.cache_clear()  # it may have been installed since
    offered = _entries()
    if scheme not in offered:
        known = [f"{name}://" for name in sorted({*_BUILT_IN - _INTERNAL, *offered})]
        raise TidemillError(
            "TM5002",
            "there is no connector for this path",
            got=url,
            hint=f"a local file, directory or glob, or {', '.join(known)}",
        )
    names = {name.lower() for name in _load(scheme).option_names}
    given = () if options is None else tuple((n, options[n]) for n in sorted(names & options.keys()))
    return Offered(scheme, given)


def options_of(paths: Iterable[str]) -> dict[str, str]:
    """Options that the connectors of some paths have: names in lower case to how they are written.

    Errors as :func:`lookup`.
    """
    schemes = {scheme_of(path): path for path in paths if is_offered(path)}
    return {n.lower(): n for path in schemes.values() for n in lookup(path).connector.option_names}


def options_of_all() -> dict[str, str]:
    """Options that any connector that can be loaded has."""
    return {n.lower(): n for scheme in _entries() if (made := _loaded(scheme)) for n in made.option_names}


def know_secrets(text: str) -> None:
    """Learn which options of the connectors that a statement names are secret, before any of it is shown."""
    for scheme in {found.lower() for found in _URL.findall(text)} - _BUILT_IN:
        if scheme in _entries():
            _loaded(scheme)


def forget() -> None:
    """Look again for what is installed."""
    _entries.cache_clear()
    _load.cache_clear()


def _loaded(scheme: str) -> Connector | None:
    """The connector; None if its package cannot be loaded, which is an error only where it is used."""
    try:
        return _load(scheme)
    except TidemillError:
        return None


@cache
def _entries() -> dict[str, EntryPoint]:
    return {e.name.lower(): e for e in entry_points(group=ENTRY_POINT_GROUP) if e.name.lower() not in _BUILT_IN}


@cache
def _load(scheme: str) -> Connector:
    entry = _entries()[scheme]
    try:
        made: Connector = entry.load()()
        for part in ("check", "files", "open"):
            getattr(made, part)
        keep_secret(tuple(made.secret_names))
        spell(made.option_names)
        for name in made.secret_names:
            if name not in made.option_names:
                raise ValueError(f"{name} is secret, but no option: {nearest(name, made.option_names)}")
    except Exception as error:
        raise TidemillError(
            "TM5050",
            "the package that offers this connector cannot be loaded",
            got=f"{entry.value}: {type(error).__name__}: {error}",
            hint="reinstall or remove the package",
        ) from error
    return made
