"""Follows the changes of one view, epoch by epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.runtime.epoch.coordinator import Coordinator
from tidemill.runtime.read.snapshot import first_rows

_LONGEST_WAIT = 0.5
_LONGEST_WAIT_FOR_DURABLE = 0.05
"""A checkpoint does not notify subscriptions, so they look for durable epochs more often."""


@dataclass(frozen=True)
class Subscription:
    """The changes of a view after an epoch; see :meth:`tidemill.mill.Mill.subscribe`.

    Parameters
    ----------
    sealed : threading.Condition
        Is notified when an epoch is sealed, and when the mill is closed.
    closed : callable
        Whether the mill is closed.
    failure : callable
        The error that has ended the background epochs, if one has.
    timeout : float or None
        Seconds to wait for another epoch; None waits until the mill is closed.
    durable : bool
        Whether only durable epochs are given.
    """

    coordinator: Coordinator
    sealed: threading.Condition
    closed: Callable[[], bool]
    failure: Callable[[], BaseException | None]
    view: str
    timeout: float | None
    durable: bool

    def changes(self, epoch: int) -> Iterator[tuple[int, pa.Table]]:
        """Epochs after this one with what they changed; 0 begins with the rows of the oldest epoch there is."""
        losses = len(self.coordinator.rollbacks)
        if epoch == 0:
            snapshot = self.coordinator.snapshot(self.durable)
            epoch = snapshot.first_epoch(self.view)
            start = first_rows(snapshot, self.view, epoch)
            if start.num_rows:
                yield epoch, start
        while True:
            snapshot = self.coordinator.snapshot(self.durable)
            self._check_given(epoch, losses)
            while epoch < snapshot.version.epoch:
                epoch += 1
                for delta in snapshot.change_tables(self.view, epoch):
                    yield epoch, delta
            if not self._wait_beyond(epoch, losses):
                self._check_given(epoch, losses)
                return

    def _newest(self) -> int:
        return self.coordinator.durable_epoch if self.durable else self.coordinator.published.version.epoch

    def _check_given(self, epoch: int, losses: int) -> None:
        """TM1036 when the mill went back behind an epoch, beyond the first ``losses`` times that it did."""
        last = min(self.coordinator.rollbacks[losses:], default=epoch)
        if last < epoch:
            raise TidemillError(
                "TM1036",
                "epochs whose changes were given have been lost before they were durable",
                got=f"{self.view}: epochs {last + 1} to {epoch}",
                hint=f"take back what these gave and subscribe again from epoch {last}; with durable=True only what "
                "cannot be lost is given",
            )

    def _wait_beyond(self, epoch: int, losses: int) -> bool:
        """Wait for an epoch after this one, or for a loss; returns whether to go on."""
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        longest = _LONGEST_WAIT_FOR_DURABLE if self.durable else _LONGEST_WAIT
        with self.sealed:
            while self._newest() <= epoch:
                if len(self.coordinator.rollbacks) > losses and self.coordinator.rollbacks[-1] < epoch:
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                failure = self.failure()
                if failure is not None:
                    raise failure
                if self.closed() or (left is not None and left <= 0):
                    return False
                self.sealed.wait(longest if left is None else min(left, longest))
        return True
