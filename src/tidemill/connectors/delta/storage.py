"""How the library of Delta tables reaches an object store: what a table's or sink's options say, in its names."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from tidemill.objectstore.connection import (
    ACCESS_KEY,
    ENDPOINT,
    REGION,
    SECRET_KEY,
    SESSION_TOKEN,
    TIMEOUT,
    check_encrypted,
    configured_endpoint,
    is_object_url,
    parse_connection,
)

_ENVIRONMENT_NAMES = {
    ACCESS_KEY.key: "AWS_ACCESS_KEY_ID",
    SECRET_KEY.key: "AWS_SECRET_ACCESS_KEY",
    SESSION_TOKEN.key: "AWS_SESSION_TOKEN",
    REGION.key: "AWS_REGION",
    ENDPOINT.key: "AWS_ENDPOINT_URL",
}


def is_odd(path: str) -> bool:
    """Whether the library takes another directory for that of a path: it knows escapes as URLs have them."""
    return not is_object_url(path) and ("\\" in path or not path.isprintable() or unquote(path) != path)


def storage_options(path: str, options: Mapping[str, str]) -> dict[str, str] | None:
    """Options of the library for a path; None for one of a file system. Names of options in lower case.

    TM5034 for an endpoint without encryption that no option allows.
    """
    if not is_object_url(path):
        return None
    connection = parse_connection(options, path)
    check_encrypted(ENDPOINT.of(options) or configured_endpoint(), connection)
    given = {name: options[key] for key, name in _ENVIRONMENT_NAMES.items() if key in options}
    given["AWS_ALLOW_HTTP"] = str(connection.allows_http).lower()
    given["aws_conditional_put"] = "etag"  # of two commits with one number one fails
    given["timeout"] = f"{TIMEOUT.of(options):g}s"
    return given
