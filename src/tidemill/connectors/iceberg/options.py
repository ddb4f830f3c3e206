"""Options of tables USING iceberg."""

from __future__ import annotations

from collections.abc import Mapping

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
TOKEN = Option("catalog.token", TEXT, "", "a bearer token", "none", secret=True, alterable=True)
ICEBERG_OPTIONS = OptionGroup(
    "Iceberg",
    "Tables `USING iceberg`. See docs/iceberg.md.",
    (TABLE, TYPE, URI, WAREHOUSE, NAME, CREDENTIAL, TOKEN),
)


def check_iceberg(options: Mapping[str, str]) -> None:
    """TM4003 for options that are missing or no values; names in lower case."""
    for option in ICEBERG_OPTIONS.options:
        option.of(options)
    if TABLE.of(options) is None:
        raise TABLE.bad("none", f"{TABLE.kind.wanted}: a table USING iceberg needs table and catalog.uri")
    scheme = URI.of(options).partition(":")[0]
    schemes = _SCHEMES[TYPE.of(options)]
    if scheme not in schemes:
        raise URI.bad(scheme or "none", f"a URI that begins with {', '.join(f'{s}:' for s in schemes)}")


def catalogue_place(options: Mapping[str, str]) -> str:
    """The path or URL of the catalogue that options name; empty for those of other tables. Names in lower case."""
    uri = URI.of(options)
    return uri.removeprefix("sqlite:///") if uri.startswith("sqlite:") else uri
