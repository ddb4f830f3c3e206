"""A deletion may come before its row: until then the row is owed, and no view shows less than nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidemill.mill import Mill
from tidemill.testing import weighted_rows

VIEWS = {
    "rows": "SELECT id, g FROM o",
    "counts": "SELECT g, COUNT(*) AS c FROM o GROUP BY g",
    "total": "SELECT COUNT(*) AS c, SUM(id) AS s FROM o",
    "lists": "SELECT g, collect_list(id) AS ids, MAX(id) AS m FROM o GROUP BY g",
    "large": "SELECT c, COUNT(*) AS n FROM counts GROUP BY c",
    "later": "SELECT id FROM rows WHERE id > 0",
}


def contents(mill: Mill, name: str) -> set[tuple[object, ...]]:
    found = weighted_rows(mill.read(name))
    assert set(found.values()) <= {1}
    return set(found)


def test_a_deletion_before_its_row(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    mill = mill_factory()
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "1.csv").write_text("id,g,op\n1,a,I\n77,q,D\n5,a,D\n")
    mill.sql(
        f"CREATE TABLE o (id INT, g STRING) USING csv OPTIONS (path '{tmp_path / 'o'}', header true, opColumn 'op')"
    )
    for name, query in VIEWS.items():
        if name != "later":
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert mill.advance() is not None
    assert contents(mill, "rows") == {(1, "a")}
    assert contents(mill, "counts") == set()  # of group a one row is there and one is owed
    assert contents(mill, "lists") == set()
    assert contents(mill, "large") == set()
    mill.sql(f"CREATE MATERIALIZED VIEW later AS {VIEWS['later']}")
    (tmp_path / "o" / "2.csv").write_text("id,g,op\n5,a,I\n77,q,I\n77,q,I\n")
    assert mill.advance() is not None
    assert contents(mill, "rows") == {(1, "a"), (77, "q")}
    assert contents(mill, "later") == {(1,), (77,)}
    assert contents(mill, "counts") == {("a", 1), ("q", 1)}
    assert contents(mill, "total") == {(2, 78)}
    assert contents(mill, "lists") == {("a", (1,), 1), ("q", (77,), 77)}
    assert contents(mill, "large") == {(1, 2)}
