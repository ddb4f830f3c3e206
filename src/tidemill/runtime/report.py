"""What an epoch did, in numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OperatorReport:
    """One step of the program, summed over partitions; milliseconds are of task time."""

    step: int
    operation: str
    depth: int
    rows_in: int
    rows_out: int
    batches: int
    milliseconds: float


@dataclass(frozen=True)
class EpochReport:
    """One sealed epoch.

    Attributes
    ----------
    epoch : int
        Its number.
    rows_in : int
        Rows admitted, malformed rows that were dropped not counted.
    rows_out : int
        Rows and groups appended to state.
    bytes_in, bytes_out : int
        Input read; state written.
    splits, malformed, dropped : int
        Splits read; malformed rows and fields among them; rows left out.
    backfilled : int
        Rows of history read again for new views; not part of ``rows_in``.
    milliseconds : dict
        Wall time of the phases ``admit``, ``run``, ``seal`` and of the whole, ``total``.
    operators : tuple of OperatorReport
    failed : dict
        View name to error, for views that a row made fail in this epoch.
    tables : dict
        Rows admitted per table.
    read : tuple
        (table, path, start, end) of the splits admitted: which rows the views stand for.
    redone : int
        How often the job was run again because a guess about quotes was wrong.
    warnings : tuple of str
        What went wrong beside the epoch and will be tried again, such as a merge of state files.
    """

    epoch: int
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    splits: int
    malformed: int
    dropped: int
    backfilled: int
    milliseconds: dict[str, float]
    operators: tuple[OperatorReport, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    read: tuple[tuple[str, str, int, int], ...] = ()
    redone: int = 0
    warnings: tuple[str, ...] = ()

    def line(self) -> str:
        """The report as one line of JSON, without the operators."""
        shown: dict[str, Any] = {k: v for k, v in vars(self).items() if k not in ("operators", "read")}
        shown["milliseconds"] = {k: round(v, 1) for k, v in self.milliseconds.items()}
        return json.dumps(shown, separators=(",", ":"))
