"""Options of tables USING postgres. Those of a connection have the names of Spark's JDBC source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, unquote, urlsplit

from tidemill.connectors.shared_options import PASSWORD
from tidemill.errors import TidemillError
from tidemill.options.kinds import TEXT, size
from tidemill.options.option import Kind, Option, OptionGroup
from tidemill.options.tables import RETAIN_BYTES

_URL = "url"
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_PART = r'(?:[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"]|"")+")'
_TABLE = re.compile(rf"(?:({_PART})\.)?({_PART})")
_PARAMETERS = frozenset({"sslmode", "sslrootcert", "sslcrl", "application_name", "connect_timeout", "gssencmode"})
"""What else a URL may say: others name servers or read files besides."""


@dataclass(frozen=True)
class Server:
    """Where a database is.

    Attributes
    ----------
    host, port, database : str
    user : str
        Empty where the URL does not say.
    parameters : tuple of (str, str)
        Others of libpq.
    """

    host: str
    port: str
    database: str
    user: str
    parameters: tuple[tuple[str, str], ...]


def _server(text: str) -> Server:
    try:
        found = urlsplit(text.strip().removeprefix("jdbc:"))
        port = found.port or 5432
        parameters = tuple(parse_qsl(found.query, keep_blank_values=True, strict_parsing=bool(found.query)))
    except ValueError as error:
        raise ValueError(str(error)) from error
    database = unquote(found.path.removeprefix("/"))
    if found.scheme not in ("postgresql", "postgres") or not found.hostname or not database or "," in found.netloc:
        raise ValueError
    others = [name for name, _ in parameters if name not in _PARAMETERS]
    if others:
        raise ValueError(f"not {others[0]}; a URL takes {', '.join(sorted(_PARAMETERS))}")
    if found.password is not None:
        raise TidemillError(
            "TM4003",
            f"bad value of option {_URL}",
            got="a URL with a password",
            hint="give it in the option password, which is neither shown nor stored",
        )
    return Server(found.hostname, str(port), database, unquote(found.username or ""), parameters)


def _table(text: str) -> tuple[str, str]:
    found = _TABLE.fullmatch(text.strip())
    if found is None:
        raise ValueError
    return _unquoted(found[1] or "public"), _unquoted(found[2])


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _slot(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError
    return text


URL: Option[Server | None] = Option(
    _URL, Kind("postgresql://host:port/database", _server), None, "the database; `jdbc:` may stand before it"
)
TABLE: Option[tuple[str, str] | None] = Option(
    "dbtable", Kind('schema.table, or "Schema"."Table"', _table), None, "the table; of the schema `public` unless named"
)
USER = Option("user", TEXT, "", "the role that reads; it has REPLICATION", "from the URL", alterable=True)
SLOT: Option[str] = Option(
    "slot",
    Kind("lower-case letters, digits and _", _slot),
    "",
    "the replication slot, which is created and dropped with the table",
    "`tidemill_` and a digest of the root and the table's name",
)
PUBLICATION = Option(
    "publication",
    TEXT,
    "",
    "a publication that has the table, with all its operations",
    "one of the slot's name, created and dropped with the table",
)
SPOOL_BYTES = Option(
    "maxSpoolBytes", size(least="1m"), 1 << 30, "how much may wait to be read, before the server waits", shown="1g"
)
RETAINED: Option[int | None] = replace(RETAIN_BYTES, default=None, shown="all")
POSTGRES_OPTIONS = OptionGroup(
    "PostgreSQL",
    "Tables `USING postgres`. See docs/databases.md.",
    (URL, TABLE, USER, PASSWORD, SLOT, PUBLICATION, SPOOL_BYTES, RETAINED),
)


def servers_of(options: Mapping[str, str]) -> list[str]:
    """The server that options name, as a URL; none for those of other tables. Names in lower case."""
    server = URL.of(options) if TABLE.key in options else None
    return [] if server is None else [f"postgresql://{server.host}:{server.port}/{server.database}"]
