"""A small root made by hand, wherever objects can lie: three epochs, a checkpoint each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tidemill.runtime.catalog.catalog import Catalog
from tidemill.state.keys.keys import KeyColumn, encode, sort
from tidemill.state.merge.merge import MergeOp, Rows
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import RunStore, default_buffer
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run, Version

PLACES = ("directory", "memory", "s3")
CATALOG = {"catalog": Catalog().to_json(), "fresh": [], "history": [], "static": {}, "filling": {}}


def place(kind: str, directory: Path) -> Objects:
    """An empty place; ``s3`` needs the fixture ``endpoint``."""
    made = {"directory": str(directory / "root"), "memory": "memory:///{}", "s3": "s3://mill/{}"}[kind]
    return Objects(made.format(uuid.uuid4().hex))


def rows(numbers: Sequence[int]) -> Rows:
    """One row per number, with weight 1."""
    keys = encode([pa.array(numbers, pa.int64())], [KeyColumn(pa.int64())], 1)
    return Rows(keys.take(sort(keys)), (pa.array([1] * len(numbers), pa.int64()),))


def seal(store: RunStore, epoch: int) -> list[Run]:
    """What one task seals: ten rows of table ``a``, one of ``b``."""
    sums = (MergeOp.SUM,)
    return store.write(
        epoch, [("a", rows(range(10 * epoch, 10 * epoch + 10)), sums), ("b", rows([epoch]), sums)], "0-0"
    )


def make_root(objects: Objects, epochs: int = 3) -> tuple[ManifestLog, RunStore, Version]:
    """A root of some epochs, all durable; what was sealed is still in the buffer too."""
    log = ManifestLog(objects, create=True)
    store = RunStore(objects, default_buffer(objects))
    version = Version.empty()
    for epoch in range(1, epochs + 1):
        version = version.seal(epoch, seal(store, epoch))
        fresh = [[r] for r in version.every() if r.file.endswith(".run")]
        version = version.swapped(make_durable(store, fresh, epoch, 1 << 20))
        log.publish(epoch, version, CATALOG)
    return log, store, version


def flip(path: Path, at: int) -> None:
    """Change one bit of a file, where it lies."""
    with path.open("r+b") as file:
        file.seek(at)
        [byte] = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


def contents(directory: Path) -> dict[str, bytes]:
    """All files below a directory but the lock, with what is in them."""
    files = (p for p in directory.rglob("*") if p.is_file() and p.name != "LOCK")
    return {str(p.relative_to(directory)): p.read_bytes() for p in files}
