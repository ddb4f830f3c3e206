"""Reads notifications of S3 about created objects: sent directly, through SNS, or through EventBridge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_plus

from tidemill.sources.file_info import FileInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CREATED = "ObjectCreated:"
_ENVELOPES = 2
"""How many times a message may be wrapped: EventBridge to SNS to SQS is once."""


class MisunderstoodError(Exception):
    """A message is not a notification of S3; the text says why, without quoting the message."""


@dataclass(frozen=True)
class Created:
    """An object that was created, as far as a message tells.

    Parameters
    ----------
    bucket, key : str
        The key as it is, with nothing encoded.
    size : int or None
        Bytes.
    etag : str
        In quotes, as a store gives it; empty where there is none.
    time : int or None
        When, in nanoseconds since 1970; not quite the modification time that a listing gives.
    sequencer : str
        Later events of one key have greater ones; empty where there is none.
    """

    bucket: str
    key: str
    size: int | None
    etag: str
    time: int | None
    sequencer: str = ""

    def info(self, path: str) -> FileInfo | None:
        """The object as if listed under a path; None where the message lacks its size, time or ETag."""
        if self.size is None or not self.etag or self.time is None:
            return None
        return FileInfo(path, self.size, self.time, self.etag)

    def later_than(self, other: Created) -> bool:
        """Whether this is about a later version of the same object: by sequencer, else by time."""
        if self.sequencer and other.sequencer:
            width = max(len(self.sequencer), len(other.sequencer))
            return self.sequencer.lower().rjust(width, "0") > other.sequencer.lower().rjust(width, "0")
        return (self.time or 0) >= (other.time or 0)


def created_objects(body: str) -> list[Created]:
    """The created objects that a message names; none for other events of S3.

    Raises
    ------
    MisunderstoodError
        For a message of another sender.
    """
    text: Any = body
    for _ in range(_ENVELOPES):
        message = _parsed(text)
        if isinstance(message.get("Records"), list):
            return [c for r in message["Records"] if (c := _of_record(_mapping(r))) is not None]
        if message.get("Event") == "s3:TestEvent":
            return []
        if message.get("source") == "aws.s3" and "detail" in message:
            return _of_event(message)
        if not isinstance(message.get("Message"), str):
            break
        text = message["Message"]
    raise MisunderstoodError("no event of S3")


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        raise MisunderstoodError("no JSON") from None


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MisunderstoodError("no JSON object where one should be")
    return value


def _of_record(record: Mapping[str, Any]) -> Created | None:
    """A record of an S3 notification; keys are encoded as in forms."""
    name = record.get("eventName")
    if not isinstance(name, str):
        raise MisunderstoodError("a record without eventName")
    s3 = _mapping(record.get("s3"))
    if not name.removeprefix("s3:").startswith(_CREATED):
        return None
    return _created(s3, record.get("eventTime"), encoded=True)


def _of_event(message: Mapping[str, Any]) -> list[Created]:
    """An event of EventBridge; keys are as they are."""
    if message.get("detail-type") != "Object Created":
        return []
    return [_created(_mapping(message["detail"]), message.get("time"), encoded=False)]


def _created(found: Mapping[str, Any], time: Any, encoded: bool) -> Created:
    bucket, entry = _mapping(found.get("bucket")).get("name"), _mapping(found.get("object"))
    key, size, etag = entry.get("key"), entry.get("size"), entry.get("eTag", entry.get("etag"))
    sequencer = entry.get("sequencer")
    if not (isinstance(bucket, str) and bucket and isinstance(key, str) and key):
        raise MisunderstoodError("an event without bucket or key")
    try:
        key = unquote_plus(key, errors="strict") if encoded else key
    except UnicodeDecodeError:
        raise MisunderstoodError("a key that is not UTF-8") from None
    return Created(
        bucket,
        key,
        size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        '"' + etag.strip('"') + '"' if isinstance(etag, str) and etag.strip('"') else "",
        _nanoseconds(time),
        sequencer if isinstance(sequencer, str) else "",
    )


def _nanoseconds(text: Any) -> int | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
