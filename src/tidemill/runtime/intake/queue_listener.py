"""Messages of a queue: received beside the epochs, given to List, deleted once what they said is durable.

A message is held from when it is received until it is deleted. What it said is known to List at once, is in a version
when the next epoch is sealed, and cannot be lost when a checkpoint has that version. A process that ends before leaves
the message in the queue, and so does one that takes longer than the queue hides it: the message comes again then, and
its names are known. So its time is not extended, which would need a timer and save nothing but that.
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
"""So often a message is received that cannot be understood, or whose object is not there, before it is deleted."""

_ROUND = 1000
_ROUND_SECONDS = 0.5
_MOST_HELD = 50_000
_MOST_NOW = 20_000
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class _Held:
    """A message whose names List knows; ``epoch`` is the first one that has them, None while none is sealed."""

    message: Message
    paths: frozenset[str]
    epoch: int | None


class _Round(threading.Thread):
    """Requests that are made while epochs go on: what is to be deleted and put back, then messages."""

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
        except Exception as error:  # for whoever asked for the round
            self.error = error

    def give_up(self) -> None:
        """Nobody wants its messages any more, nor those still to come. Errors as :meth:`QueueClient.put_back`."""
        with self._lock:
            self._given_up = True
            messages, self.messages = self.messages, []
        self._client.put_back([(m.receipt, 0) for m in messages])


class QueueListener:
    """Hears one queue for all locations that it tells of. Its methods are called by one thread.

    Raises
    ------
    TidemillError
        TM5075 when the library that speaks with SQS is not installed.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._client = QueueClient(queue)
        self._held: dict[str, _Held] = {}
        self._deleted: dict[str, str] = {}
        self._back: list[tuple[str, int]] = []
        self._round: _Round | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self.misunderstood = 0
        """Messages that were none of S3's."""

    @property
    def unsealed(self) -> bool:
        """Whether it holds messages whose names are in no version yet."""
        return any(h.epoch is None for h in self._held.values())

    def hear(self, listers: Sequence[LocationList], epoch: int, durable: int) -> list[str]:
        """Take what was received since the last call, and ask for more while the locations have room. It does not wait.

        Parameters
        ----------
        listers : sequence of LocationList
            All that the queue may tell of.
        epoch, durable : int
            The newest one that is sealed, and the newest that cannot be lost: what these have is deleted.

        Returns
        -------
        list of str
            What is to be said of messages, and of a queue that does not answer: it is asked again, ever more rarely.
        """
        said: list[str] = []
        if self._round is not None and not self._round.is_alive():
            done, self._round = self._round, None
            self._deleted = {**done.deleted, **self._deleted}
            self._back += done.back
            self._take(done.messages, listers, epoch, said)
            self._answered(done.error, said)
        self.durable(durable)  # only now: what has come again since has newer receipts, and only these count
        if self._round is None and time.monotonic() >= self._not_before:
            most = min(_ROUND, _room(listers), _MOST_HELD - len(self._held))
            if most > 0 or self._deleted or self._back:
                self._round = _Round(self._client, self._deleted, self._back, most)
                self._deleted, self._back = {}, []
                self._round.start()
        return said

    def hear_all(self, listers: Sequence[LocationList], epoch: int) -> list[str]:
        """As :meth:`hear`, at once and until the queue has no more, or the locations have no room."""
        said: list[str] = []
        empty = total = 0
        try:
            while empty < 2 and total < _MOST_NOW and _room(listers) > 0:  # one answer may be of a part of the queue
                some = self._client.receive(0)
                self._take(some, listers, epoch, said)
                empty, total = (0 if some else empty + 1), total + len(some)
        except TidemillError as error:
            self._answered(error, said)
        return said

    def _answered(self, error: Exception | None, said: list[str]) -> None:
        if error is None:
            self._pause = 0.0
            return
        if not isinstance(error, TidemillError):
            raise error
        self._pause = min(max(2 * self._pause, 1.0), _LONGEST_PAUSE)
        self._not_before = time.monotonic() + self._pause
        said.append(error.message())

    def _take(self, messages: Iterable[Message], listers: Sequence[LocationList], epoch: int, said: list[str]) -> None:
        fresh: dict[str, tuple[Message, list[Created]]] = {}
        for message in messages:
            if message.id in self._held:
                self._held[message.id] = replace(self._held[message.id], message=message)
                continue
            if message.id in self._deleted:
                self._deleted[message.id] = message.receipt
                continue
            try:
                fresh[message.id] = message, created_objects(message.body)
            except MisunderstoodError as error:
                self._misunderstood(message, error, said)
        paths: dict[str, set[str]] = {id_: set() for id_ in fresh}
        failed: dict[str, TidemillError] = {}
        for lister in listers:
            told: dict[str, Created] = {}
            for id_, (_, objects) in fresh.items():
                for found in objects:
                    path = lister.location.path_of(found.bucket, found.key)
                    if path is not None:
                        paths[id_].add(path)
                        told[path] = found if path not in told or found.later_than(told[path]) else told[path]
            failed |= lister.notified(told)
        for id_, (message, _) in fresh.items():
            wrong = {p: failed[p] for p in paths[id_] if p in failed}
            if any(_asked_again(e, message) for e in wrong.values()):
                self._later(message)
                continue
            known = any(p.knows_unsealed(paths[id_]) for p in listers)
            self._held[id_] = _Held(message, frozenset(paths[id_]), None if known else epoch)
        said += dict.fromkeys(e.message() for e in failed.values() if e.number != "TM5001")

    def _misunderstood(self, message: Message, error: MisunderstoodError, said: list[str]) -> None:
        """It stays, for a queue of dead letters to take it, but not for ever. It is told of once."""
        self.misunderstood += 1
        if self.misunderstood == 1:
            what = TidemillError(
                "TM5079",
                "a message of a queue is not understood",
                got=f"{self._queue.url}, message {message.id}: {error}",
                hint="let the queue have only events of S3, directly or through SNS or EventBridge; others are "
                f"deleted when they have come {MOST_TIMES} times, and this is not said again",
            )
            said.append(what.message())
        if message.times >= MOST_TIMES:
            self._deleted[message.id] = message.receipt

    def _later(self, message: Message) -> None:
        """Let a message come again, after a pause that grows with the times it has come."""
        self._back.append((message.receipt, int(min(2.0 ** (message.times - 1), _LONGEST_PAUSE))))

    def gone(self, paths: set[str]) -> set[str]:
        """Objects are not there that List was told of; perhaps not yet.

        Returns
        -------
        set of str
            Those of which messages come again.
        """
        waited: set[str] = set()
        for id_, held in list(self._held.items()):
            if held.message.times < MOST_TIMES and not paths.isdisjoint(held.paths):
                del self._held[id_]
                self._later(held.message)
                waited |= paths & held.paths
        return waited

    def sealed(self, epoch: int) -> None:
        """All that List knows is in this epoch."""
        for id_, held in self._held.items():
            if held.epoch is None:
                self._held[id_] = replace(held, epoch=epoch)

    def durable(self, epoch: int) -> None:
        """This epoch, and all before it, cannot be lost any more: their messages are deleted with the next requests."""
        done = [id_ for id_, h in self._held.items() if h.epoch is not None and h.epoch <= epoch]
        self._deleted |= {id_: self._held.pop(id_).message.receipt for id_ in done}

    def close(self) -> None:
        """Delete now what may be deleted, and put back all other messages that are held."""
        back = [(h.message.receipt, 0) for h in self._held.values()] + self._back
        try:
            if self._round is not None:
                self._round.give_up()
            self._client.delete(list(self._deleted.values()))
            self._client.put_back(back)
        except TidemillError:
            return  # all of them come again when the queue has hidden them for long enough, and are recognised
        finally:
            self._held, self._deleted, self._back = {}, {}, []


def _asked_again(error: TidemillError, message: Message) -> bool:
    """Whether a message that led to an error may lead to an object later."""
    return error.number != "TM5006" and (error.number != "TM5001" or message.times < MOST_TIMES)


def _room(listers: Sequence[LocationList]) -> int:
    return min((t.room for p in listers for t in p.tables), default=0)
