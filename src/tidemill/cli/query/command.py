"""The command ``query``, once its arguments are known."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from tidemill.cli.query import output
from tidemill.plan.sql.simple_select import parse_select


class _NoPandas:
    """Finds no pandas: see :func:`_leave_pandas_out`."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """ModuleNotFoundError for pandas, None for other modules."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _leave_pandas_out() -> None:
    """Have pyarrow note that there is no pandas: it imports it when it is first given a value of Python.

    That takes longer than most queries, and nothing of it is used. Where a Python function of a view does use it,
    pyarrow looks again.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(_NoPandas)


def query(
    statement: str,
    root: str | None = None,
    server: str | None = None,
    format_: str = "table",
    epoch: int | None = None,
    master: str | None = None,
) -> None:
    """Write the answer to a statement that reads, of a server or of a root: as the command with these arguments.

    Raises
    ------
    TidemillError
        TM7002 for another format; as :func:`~tidemill.cli.query.local.answer` and
        :func:`~tidemill.cli.query.remote.server_for`.
    """
    from tidemill.cli.query import local, remote

    if "pandas" not in sys.modules:
        _leave_pandas_out()
    output.check_format(format_)
    if parse_select(statement) is None:
        from tidemill.plan.sql.statement_words import parse_reading

        parse_reading(statement)
    client = remote.server_for(root, server)
    if client is not None:
        write_answer(remote.answer(client, statement, epoch), format_)
    else:
        assert root is not None
        write_answer(local.answer(root, statement, epoch, master), format_)


def write_answer(found: Iterator[pa.Table] | str | None, format_: str) -> None:
    """Rows or the text of a plan in a format; nothing for None."""
    if isinstance(found, str) and format_ == "table":
        print(found, flush=True)
    elif found is not None:
        tables = (pa.table({"plan": [found]}),) if isinstance(found, str) else found
        output.write_parts(tables, format_, sys.stdout.buffer)
