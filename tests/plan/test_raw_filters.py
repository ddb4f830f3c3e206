"""What scans are told of the conditions of their readers."""

from __future__ import annotations

from test_assemble import Views, views

from tidemill.task.program import Calculate, ScanStep

__all__ = ["views"]


def conditions(views: Views) -> dict[str, object]:
    program = views.program()
    return {s.operation.source.name: s.operation.condition for s in program.steps if isinstance(s.operation, ScanStep)}


def test_one_reader(views: Views) -> None:
    views.add("v", "SELECT k FROM a WHERE n > 3 AND s LIKE 'x%' AND k IN (1, 2)")
    program = views.program()
    (scan,) = (s.operation for s in program.steps if isinstance(s.operation, ScanStep))
    text = repr(scan.condition)
    assert "'gt'" in text and "'in'" in text and "like" not in text and "starts" not in text
    (reader,) = (s.operation for s in program.steps if isinstance(s.operation, Calculate) and s.operation.condition)
    assert "starts" in repr(reader.condition) or "like" in repr(reader.condition)


def test_readers_that_ask_different_things(views: Views) -> None:
    views.add("v", "SELECT k FROM a WHERE n > 3")
    views.add("w", "SELECT s FROM a WHERE k = 1")
    condition = conditions(views)["a"]
    assert getattr(condition, "function", None) == "or"


def test_a_reader_of_all_rows(views: Views) -> None:
    views.add("v", "SELECT k FROM a WHERE n > 3")
    views.add("w", "SELECT s FROM a")
    assert conditions(views) == {"a": None}


def test_what_can_fail_is_not_tested_early(views: Views) -> None:
    views.add("v", "SELECT k FROM a WHERE 10 DIV k > 3")
    assert "div" not in repr(conditions(views)["a"])


def test_changes_count_before_they_are_filtered(views: Views) -> None:
    views.add("v", "SELECT k FROM t WHERE n > 3")
    assert conditions(views) == {"t": None}
