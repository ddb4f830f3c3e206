"""Names of views and tables in requests: in a path, or a list of them in a query."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pydantic import AfterValidator

from tidemill.errors import TidemillError

DECODED = AfterValidator(unquote)
"""Annotates a parameter that is a segment of a path.

:class:`~tidemill.serve.http.middleware.segments.Segments` leaves what would divide it encoded.
"""

_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^`,][^,]*|))\s*(?:,|\Z)")


def names_in(listed: str) -> tuple[str, ...]:
    """The names of a list, in lower case: separated by commas; one that has a comma stands in backticks, as in SQL.

    Raises
    ------
    TidemillError
        TM8011 for a backtick without its pair.
    """
    found, at = [], 0
    while at < len(listed):
        match = _NAME.match(listed, at)
        if match is None:
            raise TidemillError(
                "TM8011",
                "the request has not the right form",
                got=f"query.views: {listed[at:]}"[:200],
                hint="names separated by commas; one that has commas or backticks as `a,b`, backticks twice",
            )
        quoted, plain = match.groups()
        name = quoted.replace("``", "`") if quoted is not None else plain.strip()
        if name:
            found.append(name.lower())
        at = match.end()
    return tuple(found)
