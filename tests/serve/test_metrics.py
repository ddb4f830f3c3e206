"""Metrics against what was written into files, read by Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from serving import Served
from test_http import orders, write

from tidemill.serve.service.metrics import METRICS, metrics_page

ServeFactory = Callable[..., Served]


def values(served: Served) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples of all metrics by name and labels."""
    text = served.http.get("/metrics").text
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return {(s.name, frozenset(s.labels.items())): s.value for s in samples}


def test_metrics_tell_what_happened(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "a.csv", (1, 2.5, "I"), (2, 3.0, "I"))
    (data / "b.csv").write_text("customer,amount,op\nx,1,I\n")
    served.mill.advance()
    served.http.get("/v1/views/nothing")
    served.http.post("/v1/cursors", json={"views": ["spending"], "durable": False})
    found = values(served)
    none: frozenset[tuple[str, str]] = frozenset()
    assert found["tidemill_epoch", none] == found["tidemill_epochs_total", none] == 1
    assert found["tidemill_rows_read_total", frozenset({("table", "orders")})] == 3
    assert found["tidemill_bytes_read_total", none] == sum(f.stat().st_size for f in data.iterdir())
    assert found["tidemill_rows_malformed_total", none] == 1
    assert found["tidemill_views", frozenset({("status", "fresh")})] == 1
    assert found["tidemill_view_lag_bytes", frozenset({("view", "spending"), ("table", "orders")})] == 0
    assert found["tidemill_cursors", none] == 1 and found["tidemill_working", none] == 1
    missed = {("method", "GET"), ("route", "/v1/views/{name}"), ("status", "404")}
    assert found["tidemill_requests_total", frozenset(missed)] == 1
    names = {name for name, _ in found}
    assert not [name for name in names if name.endswith("_created")]
    for metric in METRICS:
        shown = {"counter": "_total", "histogram": "_count", "gauge": ""}[metric.kind]
        if metric.name != "tidemill_view_remaining_bytes":
            assert metric.name + shown in names, metric.name


def test_the_page_of_metrics_is_that_of_the_declarations() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text() == metrics_page()
