"""Batches for training from Parquet files: the loader beside PyTorch's ``DataLoader`` over ``pyarrow.dataset``.

Both sides give tensors of the same columns in batches of the same size, the peer with two worker processes that each
read every other fragment, ours with two threads. Sums of all columns must be equal; there is no ratio otherwise. Then
the loader goes on at a tenth, the half and nine tenths of the rows: seconds until the first batch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from tidemill.loader import Loader

_FILES, _GROUP = 8, 50_000
_COLUMNS = ("id", "label", *(f"x{i}" for i in range(8)))


def write(directory: Path, rows: int) -> None:
    """Files of numbers, 50,000 rows in a row group."""
    directory.mkdir()
    rng = np.random.default_rng(7)
    each = rows // _FILES
    for number in range(_FILES):
        columns: dict[str, Any] = {
            "id": np.arange(number * each, (number + 1) * each),
            "label": rng.integers(0, 10, each),
        }
        columns |= {f"x{i}": rng.random(each, np.float32) for i in range(8)}
        pq.write_table(pa.table(columns), directory / f"{number}.parquet", row_group_size=_GROUP)


class Fragments(IterableDataset[dict[str, Any]]):
    """What users write by hand: row groups of a dataset, every other one in each of two workers."""

    def __init__(self, directory: str, size: int) -> None:
        super().__init__()
        self._directory, self._size = directory, size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Batches as tensors."""
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        found = [f for file in ds.dataset(self._directory).get_fragments() for f in file.split_by_row_group()]
        for fragment in found[first::step]:
            for batch in fragment.to_batches(batch_size=self._size, columns=list(_COLUMNS)):
                yield {name: torch.from_numpy(np.array(batch[name])) for name in _COLUMNS}


def _used(batches: Any) -> dict[str, Any]:
    """Seconds and sums of all batches."""
    began, rows, sums = time.perf_counter(), 0, dict.fromkeys(_COLUMNS, 0.0)
    for batch in batches:
        rows += len(batch["id"])
        for name in _COLUMNS:
            sums[name] += float(batch[name].sum(dtype=torch.float64))
    return {"seconds": time.perf_counter() - began, "rows": rows, "sums": [round(s, 3) for s in sums.values()]}


def peer(directory: str, size: int, workers: int) -> dict[str, Any]:
    """PyTorch's loader with so many worker processes."""
    return _used(DataLoader(Fragments(directory, size), batch_size=None, num_workers=workers))


def ours(directory: str, size: int, workers: int, shuffle: int | None = None) -> dict[str, Any]:
    """The loader with so many threads."""
    loader = Loader(f"{directory}/*.parquet", batch_size=size, workers=workers, shuffle=shuffle, columns=_COLUMNS)
    return _used(loader.to_torch())


def resume(directory: str, size: int, shuffle: int | None) -> list[float]:
    """Seconds from a state to the first batch, at a tenth, the half and nine tenths of the rows."""
    found = []
    total = sum(pq.ParquetFile(file).metadata.num_rows for file in sorted(Path(directory).iterdir()))
    loader = Loader(f"{directory}/*.parquet", batch_size=size, shuffle=shuffle, columns=_COLUMNS)
    states, wanted, taken = [], [total // 10, total // 2, total * 9 // 10], 0
    for batch in loader:
        taken += batch.num_rows
        if wanted and taken >= wanted[0]:
            states.append(loader.state_dict())
            wanted.pop(0)
    for state in states:
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            again = Loader(f"{directory}/*.parquet", batch_size=size, shuffle=shuffle, columns=_COLUMNS)
            again.load_state_dict(state)
            next(iter(again))
            seconds.append(time.perf_counter() - began)
        found.append(statistics.median(seconds))
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="200,000 rows, once")
    options.add_argument("--rows", type=int, default=4_000_000)
    options.add_argument("--batch", type=int, default=1024)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    if given.small:
        given.rows, given.rounds = 200_000, 1
    heading(f"loading: {given.rows:,} rows of ten columns, batches of {given.batch:,}, {given.rounds} rounds in turn")
    with workspace() as place:
        directory = str(place / "rows")
        write(Path(directory), given.rows)
        sides: dict[str, list[dict[str, Any]]] = {"ours": [], "ours, shuffled": [], "peer": []}
        for _ in range(given.rounds):
            arguments = {"directory": directory, "size": given.batch, "workers": 2}
            sides["ours"].append(run_side("benchmarks.loading", "ours", **arguments))
            sides["ours, shuffled"].append(run_side("benchmarks.loading", "ours", shuffle=7, **arguments))
            sides["peer"].append(run_side("benchmarks.loading", "peer", **arguments))
        seconds = {side: statistics.median(f["seconds"] for f in found) for side, found in sides.items()}
        rows = [[side, seconds[side], round(given.rows / seconds[side])] for side in sides]
        table(("side", "s", "rows/s"), rows)
        answers = {(f["rows"], *f["sums"]) for found in sides.values() for f in found}
        if len(answers) != 1:
            print(f"the sides' answers differ: no ratio: {answers}")
            return
        verdict("against DataLoader with two workers", seconds["peer"] / seconds["ours"], 1.5)
        for shuffle in (None, 7):
            found = run_side("benchmarks.loading", "resume", directory=directory, size=given.batch, shuffle=shuffle)
            table(("first batch after going on, s", "0.1", "0.5", "0.9"), [[f"shuffle {shuffle}", *found]])


if __name__ == "__main__":
    main()
