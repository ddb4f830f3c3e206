"""Merges whose inputs are replaced while they run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from buffer_under_test import LocalContext

from tidemill.runtime.durability.compactor import Compactor
from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.runs.sst import Part
from tidemill.state.store.compaction import Policy
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Swap, Version
from tidemill.task.program import multiset_table

SUM = (MergeOp.SUM,)
TABLE = multiset_table("t", (pa.int64(),), 1)


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_merge_counts_after_its_inputs_became_durable_and_moved(tmp_path: Path, moves: int) -> None:
    store = RunStore(Objects(tmp_path / "root"), tmp_path / "buffer")
    store.buffer.mkdir()
    version = Version.empty()
    for epoch in range(1, 6):
        keys = encode([pa.array(range(epoch * 10), pa.int64())], (KeyColumn(pa.int64()),), 1)
        rows = consolidate(keys, [pa.array(np.ones(epoch * 10, np.int64))], SUM, drop_zero=False)
        version = version.seal(epoch, store.write(epoch, [Part("t", rows, SUM)], "0-0"))
    context: Any = LocalContext(1)
    compactor = Compactor(context, store, 2, Policy(most=3))
    compactor.start(version, {"t": TABLE}, {})
    compactor.wait()
    swaps = [s for run in version.runs("t") for s in make_durable(store, [[run]], 5, 1 << 20)]
    for _ in range(moves + 1):
        version = version.swapped(swaps)
        compactor.swapped(swaps)
        swaps = [
            Swap((run,), (replace(run, file=moved.file, section=moved.section),))
            for run in version.runs("t")
            for moved in [store.write_object(6, Part("t", store.open(run), SUM), "moved")]
        ]
    merged = compactor.take(version)
    assert merged.added and set(merged.removed) <= set(version.runs("t"))
    after = version.seal(6, [replace(r, added=6) for r in merged.added], merged.removed)
    assert sum(sum(store.open(run).values[0].to_pylist()) for run in after.runs("t")) == 10 + 20 + 30 + 40 + 50
    compactor.end()
