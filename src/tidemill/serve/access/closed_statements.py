"""Statements of clients reach tables and views, and nothing else of what Spark SQL can reach."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.plan.catalyst.reach import reaches_beyond, variables_in


def check_query(mill: Mill, text: str) -> None:
    """TM8127 for a query that reads files, runs programs, calls methods of Java, or reads variables of the process.

    TM2901 for one that is too deeply nested.
    """
    _refuse(reaches_beyond(mill.spark, text))


def check_statement(mill: Mill, text: str) -> None:
    """TM8127 for a statement in which Spark would replace ``${...}``; the planner of views refuses the rest."""
    _refuse(variables_in(mill.spark, text))


def _refuse(found: Sequence[str]) -> None:
    if found:
        raise TidemillError(
            "TM8127",
            "this statement reaches beyond tables and views",
            got=found[0][:100],
            hint="a server takes queries over tables and views with built-in functions: no files, programs, methods "
            "of Java, IDENTIFIER or variables",
        )
