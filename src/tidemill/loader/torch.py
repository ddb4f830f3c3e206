"""Batches as tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.loader.columns import as_array

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError as error:
    raise TidemillError(
        "TM9006",
        "tensors need a package that is not installed",
        got="no torch",
        hint="pip install 'tidemill[torch]'",
    ) from error


class Batches(Protocol):
    """What is asked of a loader."""

    rank: int
    world_size: int

    def share(self, rank: int, world_size: int) -> Iterator[pa.RecordBatch]:
        """The batches of a rank."""

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


class TorchBatches(IterableDataset[dict[str, Any]]):
    """Batches of a loader: for each column a tensor, of texts and other values a list.

    Give it to ``torch.utils.data.DataLoader(dataset, batch_size=None)``, or iterate over it. Worker processes of a
    ``DataLoader`` share the batches as ranks do. ``state_dict`` and ``load_state_dict`` are those of the loader, as
    ``torchdata.stateful_dataloader.StatefulDataLoader`` calls them.

    Parameters
    ----------
    loader : Loader
    """

    def __init__(self, loader: Batches) -> None:
        super().__init__()
        self.loader = loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Batches, in the order of the loader."""
        worker = get_worker_info()
        rank, ranks = self.loader.rank, self.loader.world_size
        if worker is not None:
            rank, ranks = rank * worker.num_workers + worker.id, ranks * worker.num_workers
        return map(as_tensors, self.loader.share(rank, ranks))

    def state_dict(self) -> dict[str, Any]:
        """As :meth:`Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As :meth:`Loader.load_state_dict`."""
        self.loader.load_state_dict(state)


def as_tensors(batch: pa.RecordBatch) -> dict[str, Any]:
    """A tensor for each column of numbers or booleans; NULL is NaN. A list of Python values for each other column."""
    return {name: _tensor(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _tensor(column: pa.Array[Any]) -> Any:
    array = as_array(column)
    if array.dtype.kind not in "iufb":
        return column.to_pylist()
    return torch.from_numpy(np.array(array) if not array.flags.writeable else array)
