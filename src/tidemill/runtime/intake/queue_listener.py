"""Messages of a queue: received beside the epochs, passed to List, deleted once the files they name are durable.

A message is pending from when it is received until it is deleted. List knows its files at once, the next epoch seals
them, and a checkpoint makes them durable. A process that ends before that leaves the message in the queue, and so does
one that takes longer than the visibility timeout: the message comes again, and its names are known. So visibility
timeouts are not extended, which would need a timer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.errors import TidemillError
from tidemill.objectstore.queue_client import BATCH, Message, QueueClient
from tidemill.objectstore.queue_options import Queue
from tidemill.runtime.intake.listing import LocationList
from tidemill.sources.notifications import Created, MisunderstoodError, created_objects

WAIT_SECONDS = 5
"""How long a request waits for a message when there is none."""

MOST_TIMES = 10
"""After so many receives a message is deleted that cannot be understood or whose object does not exist."""

_ROUND = 1000
_ROUND_SECONDS = 0.5
_MOST_PENDING = 50_000
_MOST_NOW = 20_000
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class _Pending:
    """A message whose files List knows; ``epoch`` is the one that sealed them, None before that."""

    message: Message
    paths: frozenset[str]
    epoch: int | None


class _Round(threading.Thread):
    """Requests in the background: deletes and puts back messages, then receives."""

    def __init__(self, client: QueueClient, deleted: dict[str, str], back: list[tuple[str, int]], most: int) -> None:
        super().__init__(name="tidemill-queue", daemon=True)
        self._client, self.deleted, self.back, self._most = client, deleted, back, most
        self._lock = threading.Lock()
        self._given_up = False
        self.messages: list[Message] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._client.delete(list(self.deleted.values()))
            self.deleted = {}
            self._client.put_back(self.back)
            self.back = []
            wait, end = WAIT_SECONDS, math.inf
            while len(self.messages) < self._most and time.monotonic() < end and not self._given_up:
                some = self._client.receive(wait)
                with self._lock:
                    self.messages += some
                if len(some) < BATCH:
                    break
                wait, end = 0, min(end, time.monotonic() + _ROUND_SECONDS)
            if self._given_up:
                self.give_up()
        except Exception as error:  # given by the next receive()
            self.error = error

    def give_up(self) -> None:
        """Put back its messages, and those still to come. Errors as :meth:`QueueClient.put_back`."""
        with self._lock:
            self._given_up = True
            messages, self.messages = self.messages, []
        self._client.put_back([(m.receipt, 0) for m in messages])


class QueueListener:
    """Receives the messages of one queue for all its locations. Its methods are called by one thread.

    Raises
    ------
    TidemillError
        TM5075 when the library that speaks with SQS is not installed.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._client = QueueClient(queue)
        self._pending: dict[str, _Pending] = {}
        self._deleted: dict[str, str] = {}
        self._back: list[tuple[str, int]] = []
        self._round: _Round | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self.misunderstood = 0
        """Messages that were not events of S3."""

    @property
    def unsealed(self) -> bool:
        """Whether there are messages whose files are not sealed yet."""
        return any(h.epoch is None for h in self._pending.values())

    def receive(self, listers: Sequence[LocationList], epoch: int, durable: int) -> list[str]:
        """Take what was received since the last call, and ask for more while the locations have room. It does not wait.

        Parameters
        ----------
        listers : sequence of LocationList
            All locations that the queue may name.
        epoch, durable : int
            The newest sealed and the newest durable one; messages of the latter are deleted.

        Returns
        -------
        list of str
            Warnings about messages, and about a queue that does not answer, which is asked again after longer pauses.
        """
        warnings: list[str] = []
        if self._round is not None and not self._round.is_alive():
            done, self._round = self._round, None
            self._deleted = {**done.deleted, **self._deleted}
            self._back += done.back
            self._take(done.messages, listers, epoch, warnings)
            self._answered(done.error, warnings)
        self.durable(durable)  # after _take(): a message that came again is deleted by its newer receipt
        if self._round is None and time.monotonic() >= self._not_before:
            most = min(_ROUND, _room(listers), _MOST_PENDING - len(self._pending))
            if most > 0 or self._deleted or self._back:
                self._round = _Round(self._client, self._deleted, self._back, most)
                self._deleted, self._back = {}, []
                self._round.start()
        return warnings

    def receive_all(self, listers: Sequence[LocationList], epoch: int) -> list[str]:
        """As :meth:`receive`, at once and until the queue has no more, or the locations have no room."""
        warnings: list[str] = []
        empty = total = 0
        try:
            while empty < 2 and total < _MOST_NOW and _room(listers) > 0:  # one answer may be of a part of the queue
                some = self._client.receive(0)
                self._take(some, listers, epoch, warnings)
                empty, total = (0 if some else empty + 1), total + len(some)
        except TidemillError as error:
            self._answered(error, warnings)
        return warnings

    def _answered(self, error: Exception | None, warnings: list[str]) -> None:
        if error is None:
            self._pause = 0.0
            return
        if not isinstance(error, TidemillError):
            raise error
        self._pause = min(max(2 * self._pause, 1.0), _LONGEST_PAUSE)
        self._not_before = time.monotonic() + self._pause
        warnings.append(error.message())

    def _take(
        self, messages: Iterable[Message], listers: Sequence[LocationList], epoch: int, warnings: list[str]
    ) -> None:
        fresh: dict[str, tuple[Message, list[Created]]] = {}
        for message in messages:
            if message.id in self._pending:
                self._pending[message.id] = replace(self._pending[message.id], message=message)
                continue
            if message.id in self._deleted:
                self._deleted[message.id] = message.receipt
                continue
            try:
                fresh[message.id] = message, created_objects(message.body)
            except MisunderstoodError as error:
                self._misunderstood(message, error, warnings)
        paths: dict[str, set[str]] = {id_: set() for id_ in fresh}
        failed: dict[str, TidemillError] = {}
        for lister in listers:
            named: dict[str, Created] = {}
            for id_, (_, objects) in fresh.items():
                for found in objects:
                    path = lister.location.path_of(found.bucket, found.key)
                    if path is not None:
                        paths[id_].add(path)
                        named[path] = found if path not in named or found.later_than(named[path]) else named[path]
            failed |= lister.notified(named)
        for id_, (message, _) in fresh.items():
            wrong = {p: failed[p] for p in paths[id_] if p in failed}
            if any(_asked_again(e, message) for e in wrong.values()):
                self._later(message)
                continue
            known = any(p.knows_unsealed(paths[id_]) for p in listers)
            self._pending[id_] = _Pending(message, frozenset(paths[id_]), None if known else epoch)
        warnings += dict.fromkeys(e.message() for e in failed.values() if e.number != "TM5001")

    def _misunderstood(self, message: Message, error: MisunderstoodError, warnings: list[str]) -> None:
        """Leave a message for a dead-letter queue until it has come too often; warn once."""
        self.misunderstood += 1
        if self.misunderstood == 1:
            what = TidemillError(
                "TM5079",
                "a message of a queue is not understood",
                got=f"{self._queue.url}, message {message.id}: {error}",
                hint="let the queue have only events of S3, directly or through SNS or EventBridge; others are "
                f"deleted when they have come {MOST_TIMES} times, and this warning is not repeated",
            )
            warnings.append(what.message())
        if message.times >= MOST_TIMES:
            self._deleted[message.id] = message.receipt

    def _later(self, message: Message) -> None:
        """Let a message come again, after a pause that grows with the times it has come."""
        self._back.append((message.receipt, int(min(2.0 ** (message.times - 1), _LONGEST_PAUSE))))

    def gone(self, paths: set[str]) -> set[str]:
        """Let messages come again whose objects do not exist, perhaps not yet.

        Returns
        -------
        set of str
            The objects of these messages.
        """
        waited: set[str] = set()
        for id_, pending in list(self._pending.items()):
            if pending.message.times < MOST_TIMES and not paths.isdisjoint(pending.paths):
                del self._pending[id_]
                self._later(pending.message)
                waited |= paths & pending.paths
        return waited

    def sealed(self, epoch: int) -> None:
        """Note that this epoch sealed all that List knows."""
        for id_, pending in self._pending.items():
            if pending.epoch is None:
                self._pending[id_] = replace(pending, epoch=epoch)

    def durable(self, epoch: int) -> None:
        """Let the next requests delete the messages of this durable epoch and of those before."""
        done = [id_ for id_, h in self._pending.items() if h.epoch is not None and h.epoch <= epoch]
        self._deleted |= {id_: self._pending.pop(id_).message.receipt for id_ in done}

    def close(self) -> None:
        """Delete now what may be deleted, and put back all other messages that are pending."""
        back = [(h.message.receipt, 0) for h in self._pending.values()] + self._back
        try:
            if self._round is not None:
                self._round.give_up()
            self._client.delete(list(self._deleted.values()))
            self._client.put_back(back)
        except TidemillError:
            return  # all of them come again after their visibility timeout, and are recognised
        finally:
            self._pending, self._deleted, self._back = {}, {}, []


def _asked_again(error: TidemillError, message: Message) -> bool:
    """Whether a message that led to an error is received again: its object may exist later."""
    return error.number != "TM5006" and (error.number != "TM5001" or message.times < MOST_TIMES)


def _room(listers: Sequence[LocationList]) -> int:
    return min((t.room for p in listers for t in p.tables), default=0)
