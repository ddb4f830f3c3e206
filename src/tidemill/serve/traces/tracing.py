"""Spans of a mill and its server as spans of OpenTelemetry."""

from __future__ import annotations

import threading
from contextvars import Token
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import tidemill
from tidemill import observing
from tidemill.errors import TidemillError
from tidemill.observing import SPANS, Ended, Observers, Value
from tidemill.serve.traces.page import attribute_name

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_END_SECONDS = 5.0


class Traces:
    """Records what a mill tells its observers, until it is closed.

    Parameters
    ----------
    observers : Observers
        Of the mill.
    provider : TracerProvider
        Of OpenTelemetry's SDK; it is shut down at the end.
    """

    kinds = SPANS

    def __init__(self, observers: Observers, provider: TracerProvider) -> None:
        self._observers, self._provider = observers, provider
        self._tracer: Tracer = provider.get_tracer("tidemill", tidemill.__version__)
        self._propagator = TraceContextTextMapPropagator()
        observers.add(self)

    def close(self) -> None:
        """Record nothing more, and export what waits, for five seconds at most."""
        self._observers.remove(self)
        ending = threading.Thread(target=self._provider.shutdown, name="serve-traces", daemon=True)
        ending.start()
        ending.join(_END_SECONDS)

    def begin(self, kind: observing.SpanKind, since: float | None, parent: str) -> Ended:
        """A span begins; it is the current one of this thread or task until it ends."""
        context: Context | None = self._propagator.extract({"traceparent": parent}) if parent else None
        side = SpanKind.SERVER if kind is observing.REQUEST else SpanKind.INTERNAL
        span = self._tracer.start_span(kind.name, context, side, start_time=_nanoseconds(since))
        token = attach(trace.set_span_in_context(span, context))
        return lambda attributes, error: _end(span, token, attributes, error)

    def past(self, kind: observing.SpanKind, start: float, end: float, attributes: dict[str, Value]) -> None:
        """A span has been."""
        span = self._tracer.start_span(kind.name, start_time=_nanoseconds(start))
        span.set_attributes({attribute_name(name): value for name, value in attributes.items()})
        span.end(_nanoseconds(end))


def _end(span: Span, token: Token[Any], attributes: dict[str, Value], error: BaseException | None) -> None:
    span.set_attributes({attribute_name(name): value for name, value in attributes.items()})
    if error is not None:
        known = isinstance(error, TidemillError)
        span.set_attribute("error.type", error.number if isinstance(error, TidemillError) else type(error).__name__)
        # what was found may have values of rows
        span.set_status(Status(StatusCode.ERROR, error.what if known else None))  # type: ignore[attr-defined]
    detach(token)
    span.end()


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)
