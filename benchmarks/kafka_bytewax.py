"""Bytewax's side of ``kafka_topic``: a dataflow that counts and sums by key, and writes what it has at the end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition

_times: list[float] = []


class _Kept(StatelessSinkPartition[Any]):
    """Groups of one process, in a file at the end."""

    def __init__(self, worker: int) -> None:
        self._path = Path(os.environ["OUT"]) / f"{os.getpid()}-{worker}.json"
        self._rows: list[Any] = []

    def write_batch(self, items: list[Any]) -> None:
        self._rows += [[int(key), *found] for key, found in items]

    def close(self) -> None:
        begun = _times[0] if _times else time.time()
        self._path.write_text(json.dumps({"rows": self._rows, "begun": begun, "ended": time.time()}))


class _Files(DynamicSink[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Kept:
        return _Kept(worker_index)


def _row(message: Any) -> tuple[str, tuple[int, int]]:
    if not _times:
        _times.append(time.time())
    found = json.loads(message.value)
    return str(found["k"]), (1, found["v"])


flow = Dataflow("groups")
_source = KafkaSource([os.environ.get("SERVERS", "")], [os.environ.get("TOPIC", "")], tail=False, batch_size=10_000)
_rows = op.map("parse", op.input("topic", flow, _source), _row)
_groups = op.fold_final("sum", _rows, lambda: (0, 0), lambda sums, row: (sums[0] + row[0], sums[1] + row[1]))
op.output("out", _groups, _Files())
