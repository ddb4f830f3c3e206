"""Runs one strategy: gives it what happens, keeps it within its limits, and stops it alone when it fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidemill.algos.account import Account, Limits
from tidemill.algos.desk import Desk
from tidemill.algos.strategy import Strategy, ViewChange
from tidemill.exchange.wire import Records

WEIGHT = "__weight"


class FollowedView:
    """The rows of a view, kept up to date from its changes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows: dict[Any, list[Any]] = {}

    def forget(self) -> None:
        """The next changes are all of the view's rows."""
        self._rows.clear()

    def change(self, epoch: int, changes: pa.Table) -> ViewChange:
        """The view after an epoch."""
        names = [name for name in changes.column_names if name != WEIGHT]
        columns = [changes[name].to_pylist() for name in names]
        for *row, weight in zip(*columns, changes[WEIGHT].to_pylist(), strict=True):
            key = _key(row)
            counted = self._rows.setdefault(key, [row, 0])
            counted[1] += weight
            if not counted[1]:
                del self._rows[key]
        rows = [dict(zip(names, row)) for row, count in self._rows.values() for _ in range(count)]
        return ViewChange(self.name, epoch, rows, changes)


def _key(value: Any) -> Any:
    """A value as a key: equal for values that are the same in SQL, also for NaN, arrays and maps."""
    if isinstance(value, dict):
        return tuple((_key(name), _key(item)) for name, item in sorted(value.items(), key=repr))
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    return "NaN" if value != value else value


class Runner:
    """One strategy at one exchange.

    Parameters
    ----------
    name : str
    strategy : Strategy
    broker : int
        Whose orders the strategy's are.
    send : callable
        Takes requests for the exchange.

    Attributes
    ----------
    error : str
        Why the strategy was stopped; empty while it runs. Its orders have been taken back then.
    """

    def __init__(
        self,
        name: str,
        strategy: Strategy,
        broker: int,
        send: Callable[[Records], None],
        account: Account | None = None,
        limits: Limits | None = None,
        symbol: int = 0,
    ) -> None:
        self.name, self.strategy, self.broker = name, strategy, broker
        self.desk = strategy.desk = Desk(broker, symbol, send, account or Account(), limits or Limits())
        self.error = ""
        self._views = {view: FollowedView(view) for view in strategy.views}
        self._due: int | None = None

    @property
    def account(self) -> Account:
        """What the strategy has."""
        return self.desk.account

    def start(self, now: int) -> None:
        """Begin."""
        self.strategy.now = now
        self._due = now + self.strategy.timer if self.strategy.timer else None
        self._call(self.strategy.on_start)

    def forget(self, name: str) -> None:
        """The next changes are all of the rows of a view; of all views for an empty name."""
        for view in self._views.values():
            if name in ("", view.name):
                view.forget()

    def view(self, name: str, epoch: int, changes: pa.Table, now: int) -> None:
        """An epoch has changed a view that the strategy follows."""
        self._at(now)
        self._call(lambda: self.strategy.on_view(self._views[name].change(epoch, changes)))

    def epoch(self, now: int) -> None:
        """All changes of an epoch have come."""
        self._at(now)
        self._call(self.strategy.on_epoch)

    def messages(self, messages: Records, now: int, tags: list[int]) -> None:
        """The exchange says something about the strategy's orders; ``tags`` are the numbers of requests."""
        self._at(now)
        names = ("letter", "id", "broker", "volume", "price", "left")
        for tag, letter, id_, broker, volume, price, left in zip(tags, *(messages[n].tolist() for n in names)):
            if broker == self.broker:
                fill = self.desk.take(letter, now, tag, id_, volume, price, left)
                if fill is not None:
                    self._call(self.strategy.on_fill, fill)

    def price(self, price: int, now: int) -> None:
        """The newest price, at which the position is valued."""
        self.account.price = price
        self.account.note(now)
        if not self.error and -self.account.profit > self.desk.limits.loss:
            self.stop(f"the loss is greater than {self.desk.limits.loss:,}")

    def time(self, now: int) -> None:
        """Time has passed."""
        self._at(now)
        if self._due is not None and now >= self._due:
            self._due = now + self.strategy.timer
            self._call(self.strategy.on_timer)

    def _at(self, now: int) -> None:
        self.strategy.now = max(self.strategy.now, now)

    def _call(self, method: Callable[..., None], *arguments: object) -> None:
        if self.error:
            return
        try:
            method(*arguments)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self.stop(f"{type(error).__name__}: {error} ({frame.name}, line {frame.lineno})")

    def stop(self, why: str) -> None:
        """Stop the strategy, and take its orders back."""
        self.error = self.error or why
        self.desk.closed = True
        self.desk.cancel_all()
