"""Tidemill's side of the benchmarks: a mill with the settings all of them share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tidemill as tm
from benchmarks.number_files import DDL


def open_mill(root: Path, **settings: Any) -> tm.Mill:
    """A new mill on ``local[2]``; an epoch takes what a table admits."""
    return tm.Mill(root, settings=tm.Settings(**{"master": "local[2]", "epoch_bytes": 1 << 30, **settings}))


def create_table(mill: tm.Mill, name: str, directory: str, files_per_epoch: int = 1) -> None:
    """A table over the files that :mod:`benchmarks.number_files` writes."""
    options = f"path '{directory}', header true, maxFilesPerTrigger {files_per_epoch}"
    mill.sql(f"CREATE TABLE {name} ({DDL}) USING csv OPTIONS ({options})")
