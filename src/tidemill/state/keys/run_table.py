"""Keys of several runs by address, for kernels: a kernel cannot take a varying number of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.deferred import carray
from tidemill.kernels.words import Words, as_pointer, inlined
from tidemill.state.keys.keys import Keys

RUN_TABLE = types.array(types.uint64, 2, "C", readonly=True)


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def addresses(arrays: Sequence[npt.NDArray[Any]]) -> Words:
    """Where the first element of each array lies (uint64); the arrays must outlive the use of their addresses."""
    return np.array([_address(array) for array in arrays], np.uint64)


def run_table(runs: Sequence[Keys]) -> Words:
    """At least one run as a kernel takes it; the runs must outlive the table.

    Returns
    -------
    np.ndarray
        uint64[runs, 4]: addresses of offsets and bytes, number of keys, number of bytes.
    """
    rows = [(_address(keys.offsets), _address(keys.data), len(keys), len(keys.data)) for keys in runs]
    return np.array(rows, np.uint64)


@inlined
def run_size(table: Words, run: int) -> Any:
    """Number of keys of a run."""
    return np.int64(table[run, 2])


@inlined
def run_offsets(table: Words, run: int) -> Any:
    """Offsets of a run's keys."""
    return carray(as_pointer(table[run, 0]), np.int64(table[run, 2]) + 1, np.int64)


@inlined
def run_data(table: Words, run: int) -> Any:
    """Bytes of a run's keys."""
    return carray(as_pointer(table[run, 1]), np.int64(table[run, 3]), np.uint8)
