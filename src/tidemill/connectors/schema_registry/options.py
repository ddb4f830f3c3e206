"""Options of a schema registry; they are those of Confluent's clients behind ``schema.registry.``."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.options.kinds import TEXT
from tidemill.options.option import Option, lowered

URL = Option(
    "schema.registry.url",
    TEXT,
    "",
    "the registry that has the schemas; then each value begins with the number of its own",
    shown="none",
    alterable=True,
)
USER_INFO = Option(
    "schema.registry.basic.auth.user.info",
    TEXT,
    "",
    "user and password, `user:password`",
    "none",
    alterable=True,
    secret=True,
)
TOKEN = Option("schema.registry.bearer.auth.token", TEXT, "", "a bearer token", "none", secret=True, alterable=True)
CA = Option(
    "schema.registry.ssl.ca.location",
    TEXT,
    "",
    "a file of certificates that sign the registry's",
    "none",
    alterable=True,
)

REGISTRY_OPTIONS = (URL, USER_INFO, TOKEN, CA)


def registry_of(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The options of a registry, as given; empty without one."""
    given = lowered(options)
    return tuple((o.key, given[o.key]) for o in REGISTRY_OPTIONS if given.get(o.key)) if URL.of(given) else ()


def registry_places(options: Mapping[str, str]) -> list[str]:
    """Server and file that options name; names in lower case."""
    return [options[option.key] for option in (URL, CA) if options.get(option.key)]
