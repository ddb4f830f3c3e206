"""A queue of SQS whose messages name new objects: the options of a table that say which one, and how it is reached."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlparse

from tidemill.objectstore.connection import REGION, S3_SCHEMES, Connection, check_encrypted, parse_connection
from tidemill.options.kinds import FLAG, INTERVAL, TEXT
from tidemill.options.option import Option, OptionGroup, bad_option

USE_NOTIFICATIONS = Option(
    "useNotifications", FLAG, False, "messages of a queue of SQS name new objects", alterable=True
)
QUEUE_URL = Option("queueUrl", TEXT, None, "the queue, as SQS calls it", alterable=True)
QUEUE_ENDPOINT = Option("queueEndpoint", TEXT, "", "where requests to the queue go", "its host", alterable=True)
BACKFILL_INTERVAL = Option(
    "backfillInterval",
    INTERVAL,
    86_400_000_000,
    "how often all names are listed beside the queue",
    shown="1 day",
    alterable=True,
)
NOTIFICATION_OPTIONS = OptionGroup(
    "Notifications of new objects",
    "Tables over objects of S3.",
    (USE_NOTIFICATIONS, QUEUE_URL, QUEUE_ENDPOINT, BACKFILL_INTERVAL),
)

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
        given = dict(self.connection.given).get(REGION.key)
        return given or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def parse_queue(options: Mapping[str, str], pattern: str) -> Queue | None:
    """The queue of a table with ``useNotifications``; None for one without. Names of options are in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, for options that are of no use alone, and for files that are not in S3; TM5034 for an
        endpoint without encryption that no option allows; others as :func:`parse_connection`.
    """
    if not USE_NOTIFICATIONS.of(options):
        for name in NOTIFICATION_OPTIONS.given(options.keys() - {USE_NOTIFICATIONS.key}):
            raise bad_option(name, _shown(options[name.lower()]), "it needs useNotifications 'true'")
        return None
    if pattern.partition("://")[0].lower() not in S3_SCHEMES:
        raise USE_NOTIFICATIONS.bad("true", "leave it out: it is for files in S3, whose events go to a queue of SQS")
    text = QUEUE_URL.of(options)
    if text is None:
        raise USE_NOTIFICATIONS.bad("true", "it needs queueUrl, of a queue that the bucket sends its events to")
    url = urlparse(text)
    if not _is_plain(text) or len(url.path.strip("/").split("/")) < 2:
        hint = "a URL such as https://sqs.eu-central-1.amazonaws.com/123456789012/name"
        raise QUEUE_URL.bad(_shown(text), hint)
    endpoint = QUEUE_ENDPOINT.of(options)
    if endpoint and not _is_plain(endpoint):
        raise QUEUE_ENDPOINT.bad(_shown(endpoint), "a URL such as https://host:port")
    queue = Queue(text, endpoint.rstrip("/"), parse_connection(options, pattern))
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
