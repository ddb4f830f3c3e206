"""The client of a queue of SQS: messages are received, deleted, and put back. Errors are numbers without answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError
from tidemill.objectstore.queue_options import Queue

BATCH = 10
"""Most messages that one request receives, deletes or puts back."""

_TRIES = 3
_CONNECT_SECONDS = 10.0
_NO_QUEUE = ("NonExistentQueue", "QueueDoesNotExist")
_REFUSED = (
    "AccessDenied",
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
    "ExpiredToken",
    "MissingAuthenticationToken",
    "InvalidSecurity",
    "OptInRequired",
)


@dataclass(frozen=True)
class Message:
    """A message as it was received; ``receipt`` deletes it, ``times`` is how often it has been received."""

    id: str
    receipt: str
    body: str
    times: int


class QueueClient:
    """Talks to one queue; several threads may use it.

    Raises
    ------
    TidemillError
        TM5075 when the library that speaks with SQS is not installed.
    """

    def __init__(self, queue: Queue) -> None:
        try:
            import botocore.session
            from botocore import UNSIGNED
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise TidemillError(
                "TM5075",
                "notifications need a package that is not installed",
                got=str(error),
                hint="pip install 'tidemill[sqs]'",
            ) from None
        self.queue = queue
        self._errors = (BotoCoreError, ClientError)
        options = dict(queue.connection.given)
        config = Config(
            connect_timeout=min(_CONNECT_SECONDS, queue.connection.timeout),
            read_timeout=queue.connection.timeout,
            retries={"total_max_attempts": min(_TRIES, queue.connection.retries + 1), "mode": "standard"},
        )
        if options.get("anonymous", "").lower() == "true":
            config = config.merge(Config(signature_version=UNSIGNED))
        with self._numbered():
            self._client: Any = botocore.session.get_session().create_client(
                "sqs",
                region_name=queue.region,
                endpoint_url=queue.origin,
                aws_access_key_id=options.get("awsaccesskey"),
                aws_secret_access_key=options.get("awssecretkey"),
                aws_session_token=options.get("awssessiontoken"),
                config=config,
            )

    def check(self) -> None:
        """Ask for a message and leave it where it is.

        Raises
        ------
        TidemillError
            TM5076 when there is no such queue, TM5077 when it refuses access, TM5078 when it does not answer.
        """
        self._receive(1, 0, {"VisibilityTimeout": 0})

    def receive(self, wait: int) -> list[Message]:
        """Up to ``BATCH`` messages, hidden from other receivers for a while; it waits so many seconds for the first.

        Errors as :meth:`check`.
        """
        return self._receive(BATCH, wait, {})

    def _receive(self, most: int, wait: int, given: dict[str, Any]) -> list[Message]:
        with self._numbered():
            answer = self._client.receive_message(
                QueueUrl=self.queue.url,
                MaxNumberOfMessages=most,
                WaitTimeSeconds=wait,
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
                **given,
            )
        return [
            Message(
                m["MessageId"],
                m["ReceiptHandle"],
                m.get("Body", ""),
                int(m.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
            )
            for m in answer.get("Messages", ())
        ]

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages. One that cannot be (its receipt is too old) comes again. Errors as :meth:`check`."""
        for entries in _batches([{"ReceiptHandle": r} for r in receipts]):
            with self._numbered():
                self._client.delete_message_batch(QueueUrl=self.queue.url, Entries=entries)

    def put_back(self, receipts: Sequence[tuple[str, int]]) -> None:
        """Let messages be received again after so many seconds each. Errors as :meth:`check`."""
        for entries in _batches([{"ReceiptHandle": r, "VisibilityTimeout": s} for r, s in receipts]):
            with self._numbered():
                self._client.change_message_visibility_batch(QueueUrl=self.queue.url, Entries=entries)

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise _numbered(error, self.queue.url) from None


def check_queue(queue: Queue) -> None:
    """Whether messages of a queue can be received. Errors as :class:`QueueClient` and :meth:`QueueClient.check`."""
    QueueClient(queue).check()


def _batches(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(entries), BATCH):
        yield [{"Id": str(i), **e} for i, e in enumerate(entries[start : start + BATCH])]


def _numbered(error: Any, url: str) -> TidemillError:
    """What an answer means, or what came instead of one; nothing of it is quoted but its code."""
    answer = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", "") or type(error).__name__)
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    got = f"{url}: {code.rpartition('.')[2]}" + (f" ({status})" if status else "")
    if any(sign in code for sign in _NO_QUEUE):
        return TidemillError(
            "TM5076",
            "there is no such queue",
            got=got,
            hint="check queueUrl, the account and the region",
        )
    if status in (401, 403) or "Credential" in code or any(sign in code for sign in _REFUSED):
        return TidemillError(
            "TM5077",
            "a queue refuses access",
            got=got,
            hint="check awsAccessKey and awsSecretKey, or the environment; they need sqs:ReceiveMessage, "
            "sqs:DeleteMessage and sqs:ChangeMessageVisibility; after a restart options with secrets are given again",
        )
    return TidemillError(
        "TM5078",
        "a queue does not answer as it should",
        got=got,
        hint="nothing was lost: its messages wait, and what has none is found by the next whole listing",
    )
