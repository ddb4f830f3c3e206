"""Traces: what the SDK's own exporters receive, in this process and over OTLP."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from serving import Served
from test_http import orders, write

from tidemill.errors import TidemillError
from tidemill.observing import SPANS, Observers
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.traces import exporting
from tidemill.serve.traces.page import attribute_name, traces_page
from tidemill.serve.traces.tracing import Traces
from waiting import wait_until

ServeFactory = Callable[..., Served]


class Recorded:
    """A mill's spans in memory."""

    def __init__(self, observers: Observers) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(observers, provider)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        return [s for s in self._exporter.get_finished_spans() if name in ("", s.name)]


def numbers(span: ReadableSpan) -> tuple[int, int]:
    """Trace and span number."""
    context = span.context
    assert context is not None
    return context.trace_id, context.span_id


def children(of: ReadableSpan, spans: Sequence[ReadableSpan]) -> list[ReadableSpan]:
    found = [s for s in spans if s.parent is not None and s.parent.span_id == numbers(of)[1]]
    assert all(numbers(s)[0] == numbers(of)[0] for s in found)
    return found


@pytest.fixture
def traced(serve: ServeFactory) -> Iterator[tuple[Served, Recorded]]:
    served = serve(mill={"partitions": 2, "small_epoch_bytes": 0, "compact_after": 2})
    recorded = Recorded(served.mill.observers)
    yield served, recorded
    recorded.traces.close()


def test_the_page_of_traces_is_that_of_the_declarations() -> None:
    page = Path(__file__).parents[2] / "docs" / "traces.md"
    assert page.read_text() == traces_page()
    assert len({kind.name for kind in SPANS}) == len(SPANS)


def test_an_epoch_is_a_trace_with_its_phases(traced: tuple[Served, Recorded], tmp_path: Path) -> None:
    served, recorded = traced
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW pairs AS SELECT a.customer FROM spending a JOIN spending b ON a.n = b.n")
    while served.mill.advance() is not None:
        pass
    before = len(recorded.spans("epoch"))
    write(data, "a.csv", (1, 2.5, "I"), (2, 3.0, "I"))
    (data / "b.csv").write_text("customer,amount,op\nx,1,I\n")
    began = time.time_ns()
    report = served.mill.advance()
    assert report is not None and served.mill.advance() is None
    ended = time.time_ns()
    epoch = recorded.spans("epoch")[-1]
    assert len(recorded.spans("epoch")) == before + 1 and epoch.parent is None  # an idle one is none
    assert epoch.attributes == {
        "tidemill.epoch": report.epoch,
        "tidemill.rows": 3,
        "tidemill.bytes": sum(f.stat().st_size for f in data.iterdir()),
        "tidemill.bytes.written": report.bytes_out,
        "tidemill.splits": 2,
        "tidemill.rows.backfilled": 0,
        "tidemill.rows.malformed": 1,
        "tidemill.views.failed": (),
    }
    phases = children(epoch, recorded.spans())
    assert [p.name for p in phases] == ["epoch.list", "epoch.admit", "epoch.run", "epoch.seal"]
    assert phases[2].attributes == {"tidemill.splits": 2, "tidemill.views": 2, "tidemill.redone": 0}
    times = [(s.start_time or 0, s.end_time or 0) for s in (epoch, *phases)]
    assert all(began <= start <= end <= ended for start, end in times)
    assert [t[0] for t in times[1:]] == sorted(t[0] for t in times[1:])
    milliseconds = (times[0][1] - times[0][0]) / 1e6
    assert milliseconds >= report.milliseconds["total"] - 1
    supersteps = children(phases[2], recorded.spans())
    depths = range(1 + max(o.depth for o in report.operators))
    assert [(s.attributes or {})["tidemill.superstep"] for s in supersteps] == list(depths)
    assert len(depths) > 1 and all((s.attributes or {})["tidemill.tasks"] == 2 for s in supersteps)
    for s in supersteps:
        assert (phases[2].start_time or 0) - 2e6 <= (s.start_time or 0) <= (s.end_time or 0) <= ended
    assert (supersteps[0].attributes or {})["tidemill.rows.out"] == sum(
        o.rows_out for o in report.operators if o.depth == 0
    )


def test_checkpoints_and_compactions_are_traces_of_their_own(traced: tuple[Served, Recorded], tmp_path: Path) -> None:
    served, recorded = traced
    data = orders(served, tmp_path)
    for number in range(6):
        write(data, f"{number}.csv", (number, 1.0, "I"))
        served.mill.advance()
    served.mill.checkpoint()
    served.mill._coordinator._compactor.wait()
    checkpoint = recorded.spans("checkpoint")[-1]
    assert checkpoint.parent is None and (checkpoint.attributes or {})["tidemill.epoch"] == served.mill.epoch
    assert sum(int((s.attributes or {})["tidemill.bytes"]) for s in recorded.spans("checkpoint")) > 0  # type: ignore[arg-type]
    compactions = recorded.spans("compaction")
    assert compactions and all(s.parent is None for s in compactions)
    known = set(served.mill.snapshot().version.tables)
    for span in compactions:
        assert span.attributes is not None
        assert set(span.attributes["tidemill.tables"]) & known  # type: ignore[arg-type]
        assert span.attributes["tidemill.tasks"] >= 1  # type: ignore[operator]


def test_requests_and_statements_are_spans(traced: tuple[Served, Recorded], tmp_path: Path) -> None:
    served, recorded = traced
    orders(served, tmp_path)
    parent = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    headers = {"traceparent": parent}
    missing = {"statement": "DROP VIEW nothing"}
    assert served.http.post("/v1/sql", json=missing, headers=headers).status_code == 404
    assert served.http.get("/v1/views", headers={"traceparent": "nonsense"}).status_code == 200
    wait_until(lambda: len(recorded.spans("request")) == 4)
    requests = recorded.spans("request")
    shown = [((s.attributes or {})["http.route"], (s.attributes or {})["http.response.status_code"]) for s in requests]
    assert shown == [("/v1/sql", 200), ("/v1/sql", 200), ("/v1/sql", 404), ("/v1/views", 200)]
    assert all(s.kind is SpanKind.SERVER for s in requests)
    assert format(numbers(requests[2])[0], "032x") == "ab" * 16 and requests[2].parent is not None
    assert requests[3].parent is None
    statements = [s for r in requests for s in children(r, recorded.spans("statement"))]
    assert [s.attributes for s in statements] == [
        {"tidemill.kind": "CREATE TABLE", "tidemill.name": "orders", "tidemill.role": "admin"},
        {"tidemill.kind": "CREATE VIEW", "tidemill.name": "spending", "tidemill.role": "admin"},
        {"tidemill.kind": "DROP VIEW", "tidemill.name": "nothing", "tidemill.role": "admin", "error.type": "TM2012"},
    ]
    assert [s.status.status_code for s in statements] == [StatusCode.UNSET] * 2 + [StatusCode.ERROR]


def test_an_error_is_its_number_without_values(traced: tuple[Served, Recorded], tmp_path: Path) -> None:
    served, recorded = traced
    (tmp_path / "a.csv").write_text("1\np1anted5ecret\n")
    served.sql(f"CREATE TABLE t (a INT) USING csv OPTIONS (path '{tmp_path}/*.csv', mode 'FAILFAST')")
    served.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    with pytest.raises(TidemillError) as error:
        served.mill.advance()
    assert "p1anted5ecret" in error.value.message()
    run, epoch = recorded.spans("epoch.run")[-1], recorded.spans("epoch")[-1]
    for span in (run, epoch):
        assert span.status.status_code is StatusCode.ERROR and span.status.description == error.value.what
        assert (span.attributes or {})["error.type"] == error.value.number
    assert "p1anted5ecret" not in "".join(s.to_json() for s in recorded.spans())


def test_all_attributes_are_declared(traced: tuple[Served, Recorded], tmp_path: Path) -> None:
    served, recorded = traced
    data = orders(served, tmp_path)
    write(data, "a.csv", (1, 2.5, "I"))
    served.mill.advance()
    served.mill.checkpoint()
    served.sql("SELECT 1 AS one")
    declared = {kind.name: {attribute_name(a) for a in kind.attributes} for kind in SPANS}
    assert {s.name for s in recorded.spans()} >= declared.keys() - {"compaction"}
    for span in recorded.spans():
        assert set(span.attributes or {}) <= declared[span.name], span.name


def test_a_collector_that_does_not_answer_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.serve.traces.tracing._END_SECONDS", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    observers = Observers()
    traces = exporting.start_traces(observers)
    with observers.span(SPANS[0]) as span:
        span.set({"epoch": 1})
    traces.close()
    assert not observers.watches(SPANS[0])


def test_the_environment_decides_on_exporters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def made(**given: str) -> list[Any]:
        for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"):
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        return [type(e).__name__ for e in exporting._exporters()]

    assert made() == ["OTLPSpanExporter"]
    assert made(OTEL_TRACES_EXPORTER="none") == []
    assert made(OTEL_TRACES_EXPORTER="console, otlp") == ["ConsoleSpanExporter", "OTLPSpanExporter"]
    for wrong in ({"OTEL_TRACES_EXPORTER": "nothing"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon"}):
        with pytest.raises(TidemillError, match="TM8331"):
            made(**wrong)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TidemillError, match="TM8330"):
        ServerSettings(traces=True).check()


_WATCHED = """
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "tidemill.serve.traces.tracing")):
            print(name)
            raise ImportError(name)

sys.meta_path.insert(0, Refuses())
import tidemill.serve.running
"""


def test_nothing_is_imported_where_traces_are_off() -> None:
    found = subprocess.run([sys.executable, "-c", _WATCHED], env=os.environ, capture_output=True, text=True, check=True)
    assert found.stdout == "", "nor is it tried"
