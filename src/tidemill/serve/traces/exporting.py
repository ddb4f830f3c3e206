"""Where traces go: what the environment variables of OpenTelemetry say."""

from __future__ import annotations

import importlib.util
import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import tidemill
from tidemill.errors import TidemillError
from tidemill.observing import Observers

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from tidemill.serve.traces.tracing import Traces

_GROUP = "opentelemetry_traces_exporter"
"""Where packages declare their exporters."""


def check_traces() -> None:
    """TM8330 when OpenTelemetry's SDK is not installed."""
    if importlib.util.find_spec("opentelemetry") is None or importlib.util.find_spec("opentelemetry.sdk") is None:
        raise TidemillError(
            "TM8330",
            "traces need a package that is not installed",
            got="opentelemetry-sdk",
            hint="pip install 'tidemill[traces]'",
        )


def start_traces(observers: Observers) -> Traces:
    """Record spans, and export them as the environment says.

    Raises
    ------
    TidemillError
        TM8330, TM8331 for an exporter that is not there or cannot be made.
    """
    check_traces()
    from tidemill.serve.traces.tracing import Traces

    return Traces(observers, _provider())


def _provider() -> TracerProvider:
    """A provider of the SDK; it reads sampler and limits from the environment itself."""
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = Resource({SERVICE_NAME: "tidemill", SERVICE_VERSION: tidemill.__version__})
    resource = Resource.create(dict(ours.merge(OTELResourceDetector().detect()).attributes))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in _exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporters() -> list[SpanExporter]:
    names = [n.strip() for n in os.environ.get("OTEL_TRACES_EXPORTER", "").split(",") if n.strip()] or ["otlp"]
    return [_exporter(name) for name in names if name != "none"]


def _exporter(name: str) -> SpanExporter:
    """An exporter by its name in the environment. TM8331 when it cannot be had."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    declared = {"otlp": f"otlp_proto_{(protocol or 'http/protobuf').partition('/')[0]}"}.get(name, name)
    found = list(entry_points(group=_GROUP, name=declared))
    if not found:
        raise _no_exporter(declared, "the package of this exporter is not installed")
    try:
        made: SpanExporter = found[0].load()()
    except Exception as error:  # of whatever package declares it
        raise _no_exporter(declared, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
    return made


def _no_exporter(name: str, why: str) -> TidemillError:
    return TidemillError(
        "TM8331",
        "this exporter of traces cannot be used",
        got=f"{name}: {why}",
        hint="OTEL_TRACES_EXPORTER: otlp, console, none, or one of a package that is installed",
    )
