"""What a loader reads: a plan, and the sets of splits that it is carried out over, one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.options.option import bad_option
from tidemill.plan.loading.nodes.sources import ScanNode
from tidemill.plan.loading.plan import Plan, Scan, scan
from tidemill.schema import Schema
from tidemill.sources.split import Split

SplitSet: TypeAlias = Mapping[str, tuple[Split, ...]]
Work: TypeAlias = Callable[[Plan], Plan]


@dataclass(frozen=True)
class Planned:
    """A plan and its sets of splits. Picklable."""

    plan: Plan
    scans: tuple[Scan, ...]
    sets: tuple[SplitSet, ...]

    @property
    def batch_schema(self) -> pa.Schema:
        """Of the batches."""
        return self.plan.schema.to_arrow()

    @property
    def format(self) -> str:
        """Of the files."""
        return ", ".join(dict.fromkeys(s.files.format for s in self.scans))

    def data_fingerprint(self) -> str:
        """Of the names, sizes, versions and splits of the files."""
        return _joined([s.files.data_fingerprint() for s in self.scans])

    def plan_fingerprint(self) -> str:
        """Of everything that says which rows come out."""
        files = [s.files.plan_fingerprint() for s in self.scans]
        return _joined(files if isinstance(self.plan.node, ScanNode) else [*files, self.plan.fingerprint()])


def _joined(digests: Sequence[str]) -> str:
    if len(digests) == 1:
        return digests[0]
    return hashlib.blake2b("\n".join(digests).encode(), digest_size=16).hexdigest()


def planned(
    source: str | Path | Sequence[str | Path] | Plan,
    plan: Work | None,
    columns: Sequence[str] | None,
    format_: str | None,
    schema: Schema | pa.Schema | str | None,
    split_bytes: int,
    options: Mapping[str, Any],
) -> Planned:
    """What to read, for paths with what becomes of their rows, or for a whole plan.

    A plan with one scan has a set for each split. With several scans, which must have as many files each, a set has all
    splits of one file of each, in the order of their names.

    Raises
    ------
    TidemillError
        TM9007 for a plan without scans, or whose scans have different numbers of files; TM4003 for arguments that a
        plan does not take; as :func:`~tidemill.plan.loading.plan.scan`.
    """
    if plan is not None and not callable(plan):
        raise bad_option("plan", repr(plan)[:100], "a function from rows to a plan; or give a plan in place of paths")
    if isinstance(source, Plan):
        if plan is not None or columns is not None or format_ is not None or schema is not None or options:
            raise bad_option("paths", "a plan, beside plan, columns, format, schema or options", "a plan alone")
        whole = source
    else:
        read = scan(source, columns=columns, format=format_, schema=schema, split_bytes=split_bytes, **options)
        whole = read if plan is None else plan(read)
        if not isinstance(whole, Plan):
            raise bad_option("plan", f"a function that gives {whole!r:.80}", "a function from rows to a plan")
    scans = whole.scans()
    if len(scans) == 1:
        return Planned(whole, scans, tuple({scans[0].name: (split,)} for split in scans[0].splits()))
    files = [_by_file(s) for s in scans]
    counts = {s.name: len(f) for s, f in zip(scans, files, strict=True)}
    if len(set(counts.values())) != 1:
        raise TidemillError(
            "TM9007",
            "the scans of this plan do not have as many files as each other",
            got=", ".join(f"{name}: {count}" for name, count in counts.items()) or "a plan without scans",
            hint="a set of splits is one file of each scan; for rows that each set needs use values() or an index",
        )
    sets = [{s.name: f for s, f in zip(scans, parts, strict=True)} for parts in zip(*files, strict=True)]
    return Planned(whole, scans, tuple(sets))


def _by_file(one: Scan) -> list[tuple[Split, ...]]:
    return [tuple(splits) for _, splits in groupby(one.splits(), lambda split: split.path)]
