"""Options of tables USING iceberg."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from tidemill.options.kinds import TEXT, choice
from tidemill.options.option import Kind, Option, OptionGroup

_SCHEMES = {"sql": ("sqlite", "postgresql", "postgresql+psycopg"), "rest": ("http", "https")}


def _name(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split("."))
    if len(parts) < 2 or not all(parts):
        raise ValueError
    return parts


TABLE: Option[tuple[str, ...] | None] = Option("table", Kind("namespace.name", _name), None, "the table")
TYPE = Option("catalog.type", choice("sql", "rest"), "sql", "what the catalogue is: a database, or a server")
URI = Option("catalog.uri", TEXT, "", "where it is: `sqlite:////path`, `postgresql+psycopg://...`, `https://...`")
WAREHOUSE = Option("catalog.warehouse", TEXT, "", "the warehouse, for catalogues that have several")
NAME = Option("catalog.name", TEXT, "default", "the name under which a database has the catalogue")
CREDENTIAL = Option(
    "catalog.credential", TEXT, "", "client id and secret, `id:secret`", "none", secret=True, alterable=True
)
PASSWORD = Option(
    "catalog.password", TEXT, "", "the password of the user in `catalog.uri`, of a database", "none",
    secret=True, alterable=True,
)  # fmt: skip
TOKEN = Option("catalog.token", TEXT, "", "a bearer token", "none", secret=True, alterable=True)
ICEBERG_OPTIONS = OptionGroup(
    "Iceberg",
    "Tables `USING iceberg`. See docs/iceberg.md.",
    (TABLE, TYPE, URI, WAREHOUSE, NAME, PASSWORD, CREDENTIAL, TOKEN),
)


def check_iceberg(options: Mapping[str, str]) -> None:
    """TM4003 for options that are missing or no values; names in lower case."""
    for option in ICEBERG_OPTIONS.options:
        option.of(options)
    if TABLE.of(options) is None:
        raise TABLE.bad("none", f"{TABLE.kind.wanted}: a table USING iceberg needs table and catalog.uri")
    scheme = URI.of(options).partition(":")[0]
    if scheme == "sqlite" and not database_file(options).startswith("/"):
        raise URI.bad(URI.of(options), "sqlite:////path: a file, with an absolute path")
    schemes = _SCHEMES[TYPE.of(options)]
    if scheme not in schemes:
        raise URI.bad(scheme or "none", f"a URI that begins with {', '.join(f'{s}:' for s in schemes)}")
    if scheme != "sqlite" and urlsplit(URI.of(options)).password:
        raise URI.bad("***", "leave the password out: catalog.password or catalog.credential has it")


def catalogue_places(options: Mapping[str, str]) -> list[str]:
    """Paths and URLs of catalogue and warehouse that options name; none for those of other tables. Names in lower case.

    The warehouse of a server may be a name that only the server knows; that is none.
    """
    uri, warehouse = URI.of(options), WAREHOUSE.of(options)
    found = [database_file(options) or uri, warehouse if ":/" in warehouse or warehouse.startswith("/") else ""]
    return [re.sub("^file:/+", "/", place) for place in found if place]


def database_file(options: Mapping[str, str]) -> str:
    """The file of a catalogue in SQLite; empty for others."""
    uri = URI.of(options)
    return uri.removeprefix("sqlite:///") if uri.startswith("sqlite:") else ""
