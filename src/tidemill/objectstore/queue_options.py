"""A queue of SQS that tells of new objects: the options of a table that say which one, and how it is reached."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlparse

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import S3_SCHEMES, Connection, check_encrypted, parse_connection

SPELT_NOTIFICATIONS = ("useNotifications", "queueUrl", "queueEndpoint", "backfillInterval")
NOTIFICATION_OPTIONS = frozenset(name.lower() for name in SPELT_NOTIFICATIONS)
"""Options of tables that learn of their files from a queue, in lower case."""

_REGION_OF_HOST = re.compile(r"(?:^|\.)sqs\.([a-z]{2}(?:-[a-z]+)+-\d+)\.")


@dataclass(frozen=True)
class Queue:
    """A queue, and how to reach it; hashable.

    Parameters
    ----------
    url : str
        As SQS calls it: ``https://sqs.REGION.amazonaws.com/ACCOUNT/NAME``.
    endpoint : str
        Where requests are sent, if that is not the host of the URL; else empty.
    connection : Connection
        That of the store: credentials, region and time-outs.
    """

    url: str
    endpoint: str
    connection: Connection

    @property
    def origin(self) -> str:
        """Where requests are sent."""
        if self.endpoint:
            return self.endpoint
        url = urlparse(self.url)
        return f"{url.scheme}://{url.netloc}"

    @property
    def region(self) -> str:
        """The region that requests are signed for: that of the host, else of the store, else of the environment."""
        for url in (self.url, self.endpoint):
            named = _REGION_OF_HOST.search(urlparse(url).hostname or "")
            if named:
                return named[1]
        given = dict(self.connection.given).get("region")
        return given or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def parse_queue(options: Mapping[str, str], pattern: str) -> Queue | None:
    """The queue of a table with ``useNotifications``; None for one without. Names of options are in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, for options that are of no use alone, and for files that are not in S3; TM5034 for an
        endpoint without encryption that no option allows; others as :func:`parse_connection`.
    """
    used = options.get("usenotifications", "false").lower()
    if used not in ("true", "false"):
        raise _bad("useNotifications", options["usenotifications"], "true or false")
    if used == "false":
        for name in SPELT_NOTIFICATIONS[1:]:
            if name.lower() in options:
                raise _bad(name, _shown(options[name.lower()]), "it needs useNotifications 'true'")
        return None
    if pattern.partition("://")[0].lower() not in S3_SCHEMES:
        raise _bad("useNotifications", used, "leave it out: it is for files in S3, whose events go to a queue of SQS")
    if "queueurl" not in options:
        raise _bad("useNotifications", used, "it needs queueUrl, of a queue that the bucket sends its events to")
    url = urlparse(options["queueurl"])
    if not _is_plain(options["queueurl"]) or len(url.path.strip("/").split("/")) < 2:
        hint = "a URL such as https://sqs.eu-central-1.amazonaws.com/123456789012/name"
        raise _bad("queueUrl", _shown(options["queueurl"]), hint)
    endpoint = options.get("queueendpoint", "")
    if endpoint and not _is_plain(endpoint):
        raise _bad("queueEndpoint", _shown(endpoint), "a URL such as https://host:port")
    queue = Queue(options["queueurl"], endpoint.rstrip("/"), parse_connection(options, pattern))
    check_encrypted(queue.origin, queue.connection)
    return queue


def _is_plain(text: str) -> bool:
    """Whether it is a URL of a host, without a user and a query, where secrets may stand."""
    try:
        url = urlparse(text)
        _ = url.port
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.hostname) and "@" not in url.netloc and not url.query


def _shown(text: str) -> str:
    """As much of a URL as can hold no secret."""
    return re.sub(r"//[^/]*@", "//", text.partition("?")[0])


def _bad(name: str, value: str, hint: str) -> TidemillError:
    return TidemillError("TM4003", f"bad value of option {name}", got=repr(value), hint=hint)
