"""Tensors of the real PyTorch, and its own loaders around ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from tidemill.loader import Loader


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """Files with columns of many types, and their rows."""
    directory = tmp_path_factory.mktemp("rows")
    table = pa.table(
        {
            "i": pa.array(range(1_000), pa.int32()),
            "x": pa.array([None if i % 7 == 0 else i / 3 for i in range(1_000)], pa.float32()),
            "known": [i % 2 == 0 for i in range(1_000)],
            "v": pa.array([[i, i + 1, i + 2] for i in range(1_000)], pa.list_(pa.float64())),
            "s": [f"text {i}" for i in range(1_000)],
        }
    )
    for number in range(4):
        pq.write_table(table.slice(number * 250, 250), directory / f"{number}.parquet", row_group_size=100)
    return directory, table


def made(rows: tuple[Path, pa.Table], **given: Any) -> Loader:
    return Loader(str(rows[0]), **{"batch_size": 32, "split_bytes": 4_000, **given})


def numbers(batches: Any) -> list[list[int]]:
    return [batch["i"].tolist() for batch in batches]


def test_tensors_have_the_values_of_the_columns(rows: tuple[Path, pa.Table]) -> None:
    batches = list(made(rows).to_torch())
    first, expected = batches[0], rows[1].slice(0, 32)
    assert {name: getattr(value, "dtype", list) for name, value in first.items()} == {
        "i": torch.int32,
        "x": torch.float32,
        "known": torch.bool,
        "v": torch.float64,
        "s": list,
    }
    assert first["i"].tolist() == expected["i"].to_pylist()
    assert torch.isnan(first["x"]).tolist() == [v is None for v in expected["x"].to_pylist()]
    known = ~torch.isnan(first["x"])
    assert torch.allclose(first["x"][known], torch.tensor([v for v in expected["x"].to_pylist() if v is not None]))
    assert first["known"].tolist() == expected["known"].to_pylist() and first["v"].shape == (32, 3)
    assert first["v"].tolist() == expected["v"].to_pylist() and first["s"] == expected["s"].to_pylist()
    first["i"] += 1  # a batch is the consumer's own
    assert [i for batch in numbers(batches) for i in batch][32:] == list(range(32, 1_000))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_worker_processes_of_a_data_loader_share_the_batches(rows: tuple[Path, pa.Table], workers: int) -> None:
    whole = numbers(made(rows, shuffle=5, drop_last=True).to_torch())
    dataset = made(rows, shuffle=5, drop_last=True, workers=1).to_torch()
    found = numbers(DataLoader(dataset, batch_size=None, num_workers=workers))
    assert found == whole[: len(whole) // max(workers, 1) * max(workers, 1)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_goes_on(rows: tuple[Path, pa.Table], workers: int) -> None:
    def begun() -> StatefulDataLoader:
        dataset = made(rows, shuffle=5, drop_last=True, workers=1).to_torch()
        return StatefulDataLoader(dataset, batch_size=None, num_workers=workers, snapshot_every_n_steps=1)

    whole = numbers(begun())
    assert len(whole) > 20
    for taken in (1, 2, 7, 12):
        loader = begun()
        batches = iter(loader)
        got = numbers(next(batches) for _ in range(taken))
        state = loader.state_dict()
        del batches
        resumed = begun()
        resumed.load_state_dict(state)
        assert got + numbers(resumed) == whole
