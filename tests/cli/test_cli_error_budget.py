"""The command stops at a budget, says why, and goes on with the same script once that says more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from commands import Finished


def test_a_budget_is_exceeded_and_raised(command: Callable[..., Finished], tmp_path: Path) -> None:
    data, root = tmp_path / "data", str(tmp_path / "root")
    data.mkdir()
    (data / "1.csv").write_text("1,a\nx,b\n")
    (data / "2.csv").write_text("2,a\ny,b\nz,c\n")
    scripts = []
    for most in (1, 3):
        scripts.append(tmp_path / f"{most}.sql")
        scripts[-1].write_text(
            f"CREATE TABLE t (k INT, s STRING) USING csv OPTIONS (path '{data}', maxFilesPerTrigger '1', "
            f"maxErrors '{most}'); CREATE MATERIALIZED VIEW v AS SELECT k, s FROM t;"
        )
    run = ["run", "--root", root, "--once", "--master", "local[2]"]
    first, again, raised = (command(*run, str(script)) for script in (scripts[0], scripts[0], scripts[1]))
    tables = command("query", "--root", root, "SHOW TABLES", "--format", "csv")
    query = "SELECT source, line, at, reason FROM t__errors"
    errors = command("query", "--root", root, query, "--format", "csv")
    assert first.code == again.code == 1
    assert "warning: TM4026: rows of a table are malformed" in first.err
    for stopped in (first, again):
        assert "TM4025: too many rows of a table are malformed" in stopped.err
        assert "t: 3 of 5 rows, 2 of them in this epoch, which is not sealed; maxErrors is 1" in stopped.err
    assert "TM4026" not in again.err
    assert (raised.code, raised.out.splitlines()[0][:27]) == (0, "sealed epoch 2 (durable: 2)"), raised.err
    assert tables.out.splitlines()[1].endswith("5,3")
    assert sorted(errors.out.split()[1:]) == [
        '"t",2,4,"bad_int32"',
        '"t",2,4,"bad_int32"',
        '"t",3,8,"bad_int32"',
    ]
