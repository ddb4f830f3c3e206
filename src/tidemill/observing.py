"""What a mill and its server do, as spans of time: each kind is declared once. Traces and logs watch them.

Where nobody watches, a span costs one comparison.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

Value = str | int | float | bool | tuple[str, ...]
Ended = Callable[[dict[str, Value], BaseException | None], None]
"""Called once when a span ends, on the thread or task that began it, with its attributes and what ended it early."""


@dataclass(frozen=True)
class SpanKind:
    """A kind of span: its name, meaning, and the attributes that it may have."""

    name: str
    meaning: str
    attributes: tuple[str, ...] = ()


EPOCH = SpanKind(
    "epoch",
    "One epoch, from its listing to its seal; one that fails has the number of the error.",
    ("epoch", "rows", "bytes", "bytes.written", "splits", "rows.backfilled", "rows.malformed", "views.failed"),
)
LIST = SpanKind("epoch.list", "Looking for new files.")
ADMIT = SpanKind("epoch.admit", "Choosing the splits of the epoch; this may wait for a checkpoint or a merge.")
RUN = SpanKind("epoch.run", "The Spark job of the epoch.", ("splits", "views", "redone"))
SUPERSTEP = SpanKind(
    "epoch.superstep",
    "A superstep, from its first task to its last. Where an epoch runs in one task, supersteps overlap.",
    ("superstep", "tasks", "rows.in", "rows.out", "operators.ms"),
)
SEAL = SpanKind("epoch.seal", "Making runs, positions and the number of the epoch visible.")
CHECKPOINT = SpanKind(
    "checkpoint", "Making sealed epochs durable, beside the epochs: a trace of its own.", ("epoch", "bytes")
)
COMPACTION = SpanKind(
    "compaction", "Merging runs, beside the epochs: a trace of its own.", ("tasks", "bytes", "tables")
)
STATEMENT = SpanKind("statement", "A statement, whatever protocol it came over.", ("kind", "name", "role"))
REQUEST = SpanKind(
    "request",
    "A request over HTTP, from its beginning to the last byte of its answer; below the span that the header "
    "`traceparent` names.",
    ("http.request.method", "http.route", "http.response.status_code", "role"),
)

SPANS = (EPOCH, LIST, ADMIT, RUN, SUPERSTEP, SEAL, CHECKPOINT, COMPACTION, STATEMENT, REQUEST)
"""All kinds."""


class Observer(Protocol):
    """Watches spans of some kinds; it must be quick and must not raise."""

    @property
    def kinds(self) -> tuple[SpanKind, ...]:
        """What it watches."""

    def begin(self, kind: SpanKind, since: float | None, parent: str) -> Ended:
        """A span begins: now, or at an earlier time in seconds since 1970; ``parent`` is a W3C ``traceparent``."""

    def past(self, kind: SpanKind, start: float, end: float, attributes: dict[str, Value]) -> None:
        """A span has been, within the one that is open; times are in seconds since 1970."""


class Span:
    """An open span: a context manager. :meth:`set` adds attributes."""

    __slots__ = ("_attributes", "_ends")

    def __init__(self, ends: tuple[Ended, ...], attributes: dict[str, Value]) -> None:
        self._ends, self._attributes = ends, attributes

    def set(self, attributes: dict[str, Value]) -> None:
        """Add attributes."""
        if self._ends:
            self._attributes |= attributes

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in self._ends:
            end(self._attributes, error)


_UNWATCHED = Span((), {})


class Observers:
    """Who watches a mill. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._all: tuple[Observer, ...] = ()
        self._watching: dict[str, tuple[Observer, ...]] = {}

    def add(self, observer: Observer) -> None:
        """Tell an observer of spans that begin from now on."""
        self._tell((*self._all, observer))

    def remove(self, observer: Observer) -> None:
        """Tell an observer nothing more; spans that it has seen begin still end."""
        self._tell(tuple(o for o in self._all if o is not observer))

    def _tell(self, observers: tuple[Observer, ...]) -> None:
        self._all = observers
        self._watching = {kind.name: tuple(o for o in observers if kind in o.kinds) for kind in SPANS}

    def watches(self, kind: SpanKind) -> bool:
        """Whether anybody watches spans of a kind."""
        return bool(self._watching.get(kind.name))

    def span(
        self, kind: SpanKind, attributes: dict[str, Value] | None = None, since: float = 0.0, parent: str = ""
    ) -> Span:
        """Begin a span, to be ended by ``with``.

        Parameters
        ----------
        since : float
            When it began, as ``time.perf_counter()`` counts; 0 for now.
        parent : str
            A W3C ``traceparent`` of another process.
        """
        watching = self._watching.get(kind.name)
        if not watching:
            return _UNWATCHED
        began = _clock(since) if since else None
        return Span(tuple(o.begin(kind, began, parent) for o in watching), dict(attributes or {}))

    def past(self, kind: SpanKind, start: float, end: float, attributes: dict[str, Value] | None = None) -> None:
        """Tell of a span that has ended; times are those of ``time.perf_counter()``."""
        if self.watches(kind):
            self.past_at(kind, _clock(start), _clock(end), attributes)

    def past_at(self, kind: SpanKind, start: float, end: float, attributes: dict[str, Value] | None = None) -> None:
        """As :meth:`past`, for times in seconds since 1970, such as those of other processes."""
        for observer in self._watching.get(kind.name, ()):
            observer.past(kind, start, end, dict(attributes or {}))


def _clock(moment: float) -> float:
    """A time of ``time.perf_counter()`` in seconds since 1970."""
    return time.time() - time.perf_counter() + moment
