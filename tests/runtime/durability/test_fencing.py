"""One writer a root: the lock on one host, the put-if-absent manifest everywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot

_TABLE = "CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}', maxFilesPerTrigger 1)"
_VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four files of one row."""
    directory = tmp_path / "data"
    directory.mkdir()
    for number in range(4):
        (directory / f"{number}.csv").write_text(f"{number}\n")
    return directory


def keys(mill: Mill) -> list[int]:
    return sorted(mill.read("v").column("k").to_pylist())


def test_second_mill_is_refused_while_the_first_lives(mill_factory, data: Path) -> None:  # type: ignore[no-untyped-def]
    first = mill_factory()
    first.script(_TABLE.format(data=data) + ";" + _VIEW)
    first.advance()
    with pytest.raises(TidemillError, match="TM1003") as caught:
        mill_factory()
    assert first._coordinator._root.log.writer in caught.value.got
    list(first.drain())
    assert keys(first) == [0, 1, 2, 3]
    first.close()
    assert keys(mill_factory()) == [0, 1, 2, 3]


def test_second_process_is_refused(mill_factory, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    mill_factory()
    code = "import sys; from tidemill.state.versions.manifest import *; ManifestLog(Objects(sys.argv[1]), True).lock()"
    command = [sys.executable, "-c", code, str(tmp_path / "root")]
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "TM1003: another process is writing to this root" in other.stderr


def test_without_the_lock_the_manifest_fences(mill_factory, data: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Two hosts that share a root do not see each other's locks."""
    first = mill_factory(checkpoint_seconds=0.0)
    first.script(_TABLE.format(data=data) + ";" + _VIEW)
    first.advance()
    first.checkpoint()
    (tmp_path / "root" / "LOCK").unlink()

    second = mill_factory(checkpoint_seconds=0.0)
    assert second.epoch == 1
    second.advance()
    second.checkpoint()
    with pytest.raises(TidemillError, match="TM1003") as caught:
        for _ in range(3):
            first.advance()
            first.checkpoint()
    assert second._coordinator._root.log.writer in caught.value.got
    for refused in (first.advance, first.checkpoint, lambda: first.sql("DROP VIEW v")):
        with pytest.raises(TidemillError, match="TM1003"):
            refused()

    list(second.drain())
    assert keys(second) == [0, 1, 2, 3]
    second.checkpoint()
    snapshot = Snapshot.open(tmp_path / "root")
    assert sorted(snapshot.read("v").column("n").to_pylist()) == [1, 1, 1, 1]
    with pytest.raises(TidemillError, match="TM1003"):
        first.close()
    second.close()
    third = mill_factory()
    assert (third.epoch, keys(third), third.advance()) == (4, [0, 1, 2, 3], None)
