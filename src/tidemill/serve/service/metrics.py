"""Metrics in Prometheus' form: each is declared once, and docs/metrics.md is written from the declarations.

``python -m tidemill.serve.service.metrics > docs/metrics.md`` writes the page.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidemill.runtime.epoch.report import EpochReport
from tidemill.serve.service.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Declared:
    """A metric: its name without what Prometheus appends, kind, labels and meaning."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


EPOCH = Declared("tidemill_epoch", "gauge", "Newest sealed epoch.")
DURABLE = Declared("tidemill_durable_epoch", "gauge", "Newest durable epoch.")
WORKING = Declared("tidemill_working", "gauge", "1 while epochs run, 0 when an error has ended them.")
EPOCHS = Declared("tidemill_epochs", "counter", "Epochs sealed since the server began.")
EPOCH_SECONDS = Declared("tidemill_epoch_seconds", "histogram", "Time of an epoch, from admission to seal.")
PHASE_SECONDS = Declared("tidemill_epoch_phase_seconds", "counter", "Time spent in a phase of epochs.", ("phase",))
ROWS = Declared("tidemill_rows_read", "counter", "Rows admitted, without those of history.", ("table",))
BYTES = Declared("tidemill_bytes_read", "counter", "Bytes of input admitted.")
BACKFILLED = Declared("tidemill_rows_backfilled", "counter", "Rows of history read for new views.")
MALFORMED = Declared("tidemill_rows_malformed", "counter", "Rows with anything malformed in them.")
LATE = Declared("tidemill_rows_late", "counter", "Rows left out because they came after their watermark.")
SPILLED = Declared("tidemill_spilled_bytes", "counter", "Bytes written to files because memory was short.")
WAITING_FILES = Declared("tidemill_waiting_files", "gauge", "Files listed and not read yet.", ("table",))
WAITING_BYTES = Declared("tidemill_waiting_bytes", "gauge", "Bytes listed and not read yet.", ("table",))
OLDEST = Declared("tidemill_waiting_seconds", "gauge", "Age of the oldest file or message that waits.", ("table",))
LAG_BYTES = Declared(
    "tidemill_view_lag_bytes",
    "gauge",
    "Bytes of a table that a view has to read: its queue, and admitted rows that the view does not have.",
    ("view", "table"),
)
VIEWS = Declared("tidemill_views", "gauge", "Views by status.", ("status",))
INITIALISING = Declared("tidemill_view_remaining_bytes", "gauge", "History that a new view still reads.", ("view",))
STATE_BYTES = Declared("tidemill_state_bytes", "gauge", "Bytes of the runs that the newest version names.")
STATE_RUNS = Declared("tidemill_state_runs", "gauge", "Runs that the newest version names.")
SUBSCRIBERS = Declared("tidemill_subscribers", "gauge", "Followers of changes over all protocols.")
CURSORS = Declared("tidemill_cursors", "gauge", "Open cursors.")
CACHE = Declared("tidemill_cache_bytes", "gauge", "Memory of encoded results and changes.", ("cache",))
REQUESTS = Declared("tidemill_requests", "counter", "HTTP requests answered.", ("method", "route", "status"))
REQUEST_SECONDS = Declared("tidemill_request_seconds", "histogram", "Time until an answer began.", ("route",))

METRICS = tuple(value for value in dict(globals()).values() if isinstance(value, Declared))
"""All of them, in the order of this file."""


class Metrics(Collector):
    """The metrics of a service, and of the process that it runs in."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._totals: defaultdict[tuple[Declared, str], float] = defaultdict(float)
        self._registry = CollectorRegistry()
        self._epochs = Histogram(EPOCH_SECONDS.name, EPOCH_SECONDS.meaning, buckets=_SECONDS, registry=self._registry)
        self._answers = Histogram(
            REQUEST_SECONDS.name,
            REQUEST_SECONDS.meaning,
            REQUEST_SECONDS.labels,
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._requests = CounterMetric(REQUESTS.name, REQUESTS.meaning, REQUESTS.labels, registry=self._registry)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        service.mill.on_epoch(self._note)

    def text(self) -> bytes:
        """All metrics now, in the text format of Prometheus."""
        return generate_latest(_Shown(self._registry))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` is the path's pattern, so that there are few."""
        self._requests.labels(method, route, str(status)).inc()
        self._answers.labels(route).observe(seconds)

    def _note(self, report: EpochReport) -> None:
        self._epochs.observe(report.milliseconds["total"] / 1e3)
        with self._lock:
            self._totals[EPOCHS, ""] += 1
            for metric, count in (
                (BYTES, report.bytes_in),
                (BACKFILLED, report.backfilled),
                (MALFORMED, report.rows_malformed),
                (LATE, report.late),
                (SPILLED, report.spilled_bytes),
            ):
                self._totals[metric, ""] += count
            for table, rows in report.tables.items():
                self._totals[ROWS, table] += rows
            for phase in ("admit", "run", "seal"):
                self._totals[PHASE_SECONDS, phase] += report.milliseconds[phase] / 1e3

    def collect(self) -> Iterator[Metric]:
        """What the service knows now, and what epochs have added up to."""
        service, mill = self._service, self._service.mill
        snapshot = mill.snapshot()
        runs = [run for table in snapshot.version.tables.values() for run in table]
        with self._lock:
            totals = dict(self._totals)
        queues = snapshot.show("queues").to_pylist()
        tables = {row["table"]: row for row in queues}
        yield _gauge(EPOCH, [((), mill.epoch)])
        yield _gauge(DURABLE, [((), mill.durable_epoch)])
        yield _gauge(WORKING, [((), int(mill.failure is None))])
        yield _gauge(VIEWS, [((s,), n) for s, n in Counter(row[1] for row in mill.status()).items()])
        yield _gauge(INITIALISING, [((v,), n) for v, n in snapshot.initialising.items()])
        yield _gauge(STATE_BYTES, [((), sum(run.bytes for run in runs))])
        yield _gauge(STATE_RUNS, [((), len(runs))])
        yield _gauge(SUBSCRIBERS, [((), service.subscribers)])
        yield _gauge(CURSORS, [((), service.store.count_cursors())])
        yield _gauge(CACHE, [(("changes",), service.log.held_bytes), (("results",), service.results.held_bytes)])
        yield _gauge(WAITING_FILES, [((t,), row["waiting_files"]) for t, row in tables.items()])
        yield _gauge(WAITING_BYTES, [((t,), row["waiting_bytes"]) for t, row in tables.items()])
        yield _gauge(OLDEST, [((t,), row["lag_seconds"] or 0.0) for t, row in tables.items()])
        yield _gauge(LAG_BYTES, [((r["view"], r["table"]), r["lag_bytes"]) for r in queues if r["view"] is not None])
        for metric in (EPOCHS, PHASE_SECONDS, ROWS, BYTES, BACKFILLED, MALFORMED, LATE, SPILLED):
            family = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for (of, label), total in totals.items():
                if of is metric:
                    family.add_metric([label] if metric.labels else [], total)
            yield family


class _Shown(Collector):
    """The metrics of a registry, without when each was made: the library adds a gauge ``_created`` to many."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


def _gauge(metric: Declared, values: Iterable[tuple[tuple[str, ...], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in values:
        family.add_metric(list(labels), value)
    return family


def metrics_page() -> str:
    """docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "<!-- Written by `python -m tidemill.serve.service.metrics`; a test compares it with the declarations. -->",
        "",
        "`GET /metrics` of a server gives these in the text format of Prometheus, beside those of the process",
        "(`process_resident_memory_bytes`, `process_cpu_seconds_total`, ...). Counters end in `_total`; they begin",
        "at 0 with the server.",
        "",
        "| name | kind | labels | meaning |",
        "|---|---|---|---|",
    ]
    for metric in METRICS:
        name = metric.name + "_total" * (metric.kind == "counter")
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{name}` | {metric.kind} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(metrics_page(), end="")
