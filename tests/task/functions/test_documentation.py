"""``docs/functions.md`` lists exactly what the registry holds."""

from __future__ import annotations

from pathlib import Path

from tidemill.plan.documentation.aggregates import aggregates_table
from tidemill.task.functions.documentation import functions_table

PAGE = Path(__file__).parents[3] / "docs" / "functions.md"


def test_page_holds_the_generated_table() -> None:
    assert functions_table() in PAGE.read_text(encoding="utf-8")


def test_page_holds_the_table_of_aggregates() -> None:
    assert aggregates_table() in PAGE.read_text(encoding="utf-8")
