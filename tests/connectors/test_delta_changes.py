"""Tables USING delta over a table with a change data feed: rows change by what the feed says, else by files."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.connectors.test_delta_tables import FEED, batch, counted, drain, follow
from tests.mill_factory import MillFactory

from tidemill.mill import Mill

ROWS = [(i, i % 7, "ab"[i % 2]) for i in range(200)]


def made(path: Path, *, parts: int = 1, configuration: dict[str, str | None] | None = FEED) -> Path:
    """A table of ``ROWS`` in some files."""
    for part in range(parts):
        rows = batch(ROWS[part::parts])
        write_deltalake(path, rows, mode="append", configuration=configuration if part == 0 else None)
    return path


def check(mill: Mill, path: Path) -> None:
    """Views have the rows of the newest version."""
    rows = DeltaTable(path).to_pyarrow_table().select(["k", "v", "p"])
    assert counted(mill.read("rows")) == counted(rows)
    assert counted(mill.read("t")) == counted(rows)


def of_the_last(path: Path, action: str) -> list[Path]:
    """Files that the last version has an action for."""
    log = sorted((path / "_delta_log").glob("*.json"))[-1]
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    return [path / found[action]["path"] for found in actions if action in found]


def expect(mill: Mill, rows: Sequence[tuple[int, int | None, str | None]]) -> None:
    assert counted(mill.read("rows")) == counted(batch(rows))


def test_change_data_is_read_in_place_of_files(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Files that an UPDATE, DELETE, MERGE or OPTIMIZE wrote are not there, and nobody misses them."""
    path = made(tmp_path / "t", parts=3)
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    table = DeltaTable(path)
    hidden: list[Path] = []
    table.update({"v": "v + 100"}, predicate="k < 10")
    hidden += of_the_last(path, "add")
    table.delete("k % 50 = 3")
    hidden += of_the_last(path, "add")
    source = batch([(5, 1, "b"), (900, None, None)])
    merger = table.merge(source, "t.k = s.k", source_alias="s", target_alias="t")
    merger.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()
    hidden += of_the_last(path, "add")
    write_deltalake(path, batch([(901, 1, "a")]), mode="append")
    table = DeltaTable(path)
    table.optimize.compact()
    hidden += of_the_last(path, "add")
    expected = counted(table.to_pyarrow_table().select(["k", "v", "p"]))
    assert len(set(hidden)) == 4
    for file in hidden:
        file.rename(file.with_suffix(".hidden"))
    assert not drain(mill)
    assert counted(mill.read("rows")) == expected
    mill.close()
    mill = mill_factory()  # a mill that begins where that one ended
    for file in hidden:
        file.with_suffix(".hidden").rename(file)
    table.update({"v": "-1"}, predicate="k = 900")
    [new] = of_the_last(path, "add")
    new.rename(new.with_suffix(".hidden"))
    drain(mill)
    new.with_suffix(".hidden").rename(new)
    check(mill, path)


def test_change_data_that_cannot_be_read(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Then files tell: those that are gone are read again; all of them anew where these are gone, too."""
    path = made(tmp_path / "t", parts=2)
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    DeltaTable(path).update({"v": "v + 1"}, predicate="k < 30")
    changes = of_the_last(path, "cdc")
    changes[0].write_bytes(b"PAR1" + b"\0" * (changes[0].stat().st_size - 8) + b"PAR1")
    drain(mill)
    check(mill, path)
    DeltaTable(path).delete("k > 150")
    for file in of_the_last(path, "cdc"):
        file.unlink()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    drain(mill)
    check(mill, path)
    DeltaTable(path).update({"v": "0"}, predicate="k = 1")
    drain(mill)
    check(mill, path)


@pytest.mark.parametrize("word", ["upsert", None])
def test_a_word_that_change_data_does_not_have(mill_factory: MillFactory, tmp_path: Path, word: str | None) -> None:
    path = made(tmp_path / "t")
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    DeltaTable(path).delete("k = 1")
    [file] = of_the_last(path, "cdc")
    rows = pq.read_table(file)
    other = pa.array([word] * rows.num_rows, pa.string())
    place = rows.schema.get_field_index("_change_type")
    pq.write_table(rows.set_column(place, "_change_type", other), file)
    log = sorted((path / "_delta_log").glob("*.json"))[-1]
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "cdc" in action:
            action["cdc"]["size"] = file.stat().st_size
    log.write_text("\n".join(json.dumps(action) for action in actions) + "\n")
    drain(mill)
    check(mill, path)


def test_updates_that_make_rows_equal(mill_factory: MillFactory, seed: int, tmp_path: Path) -> None:
    """The library leaves out of its change data what an UPDATE's files have before and after it."""
    chance = random.Random(seed)
    path = tmp_path / "t"
    few = [(chance.randrange(4), chance.randrange(3), chance.choice("ab")) for _ in range(60)]
    write_deltalake(path, batch([(9, 0, None), (9, 1, None), (8, 0, None), *few]), configuration=FEED)
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    DeltaTable(path).update({"v": "1"}, predicate="k = 9 AND v = 0")
    drain(mill)
    check(mill, path)
    for _ in range(8):
        match chance.randrange(3):
            case 0:
                DeltaTable(path).update({"v": "2 - v"}, predicate=f"k = {chance.randrange(4)}")
            case 1:
                DeltaTable(path).update({"k": "(k + 1) % 4"}, predicate=f"v = {chance.randrange(3)}")
            case _:
                DeltaTable(path).delete(f"k = {chance.randrange(4)} AND v = 1")
        drain(mill)
        check(mill, path)


def test_rows_that_are_left_out(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Malformed rows of files that are gone are gone, too."""
    path = tmp_path / "t"
    write_deltalake(path, batch([(1, None, "a"), (2, None, "a"), (3, 3, "a"), (4, 4, "b")]), configuration=FEED)
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k BIGINT, v INT NOT NULL) USING delta OPTIONS (path '{path}')")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT k, v FROM t")
    drain(mill)
    for gone, left in (("k = 1", 1), ("k = 2", 0)):
        DeltaTable(path).delete(gone)
        drain(mill)
        assert len(mill.read("t__errors")) == left
    assert counted(mill.read("rows")) == Counter([(3, 3), (4, 4)])


def test_a_damaged_commit_is_compared_by_files(mill_factory: MillFactory, tmp_path: Path) -> None:
    """The log of a version with a checkpoint can be read without it."""
    path = made(tmp_path / "t", parts=2)
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    DeltaTable(path).update({"v": "77"}, predicate="k = 5")
    commit = sorted((path / "_delta_log").glob("*.json"))[-1]
    DeltaTable(path).delete("k = 6")
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).delete("k = 7")
    commit.write_bytes(commit.read_bytes()[:200])
    drain(mill)
    check(mill, path)


def test_the_feed_is_switched_on_later_and_off(mill_factory: MillFactory, tmp_path: Path) -> None:
    path = made(tmp_path / "t", parts=2, configuration=None)
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    for value in ("true", "true", "false", "true"):
        DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": value})
        for turn in range(3):
            DeltaTable(path).update({"v": f"v + {turn}"}, predicate="k % 3 = 1")
            write_deltalake(path, batch([(1000 + turn, turn, None)]), mode="append")
            if turn == 1:
                DeltaTable(path).optimize.compact()
            drain(mill)
            check(mill, path)


def test_a_step_waits_while_another_comes(mill_factory: MillFactory, tmp_path: Path) -> None:
    """A step that could not be carried out is replaced by the one to the newest version."""
    path = made(tmp_path / "t", parts=2)
    mill = mill_factory(epoch_bytes=1000)
    follow(mill, path, options=", maxFilesPerTrigger '1'")
    mill.advance()
    for turn in range(4):  # files of the first version still wait
        DeltaTable(path).update({"v": f"v + {turn + 1}"}, predicate="k < 100")
        mill.advance()
    drain(mill)
    check(mill, path)
    table = DeltaTable(path)
    table.update({"v": "5"}, predicate="k < 20")
    kept = [(file, file.read_bytes()) for action in ("cdc", "add", "remove") for file in of_the_last(path, action)]
    for file, _ in kept:
        file.unlink()
    before = counted(mill.read("rows"))
    for _ in range(3):
        mill.advance()
        assert counted(mill.read("rows")) == before
    for file, content in kept:
        file.write_bytes(content)
    DeltaTable(path).restore(table.version() - 1)
    drain(mill)
    assert counted(mill.read("rows")) == before


def test_rows_that_name_their_file(mill_factory: MillFactory, tmp_path: Path) -> None:
    """A table whose rows say which file they are of keeps them by file."""
    path = made(tmp_path / "t", parts=2)
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t USING delta OPTIONS (path '{path}', metadataColumn 'm')")
    mill.sql("CREATE MATERIALIZED VIEW files AS SELECT m.file_name AS f, COUNT(*) AS n FROM t GROUP BY m.file_name")
    DeltaTable(path).update({"v": "1"}, predicate="k = 1")
    drain(mill)
    DeltaTable(path).optimize.compact()
    drain(mill)
    [only] = mill.read("files").to_pylist()
    assert only["n"] == 200
    assert [only["f"]] == [Path(file).name for file in DeltaTable(path).file_uris()]
