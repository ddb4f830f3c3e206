"""Numbered errors: documented, stable, each with one meaning."""

from __future__ import annotations

import pickle
import re
from collections import defaultdict
from pathlib import Path

import pytest

from raised_errors import NUMBER, mentioned, raised_errors, string_numbers
from tidemill.errors import EvaluationError, TidemillError, nearest

DOCS = Path(__file__).parent.parent / "docs"
DOCUMENT = DOCS / "errors.md"


def documented() -> dict[str, list[str]]:
    """Rows of the tables: number to message, cause and remedy."""
    rows = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        if NUMBER.fullmatch(cells[0].strip("| ")):
            assert cells[0] not in rows, f"{cells[0]} is documented twice"
            rows[cells[0]] = cells[1:]
    return rows


def test_what_is_raised_is_documented_and_vice_versa() -> None:
    assert string_numbers() == set(documented())


def test_errors_can_be_written_as_utf8() -> None:
    error = TidemillError("TM2001", "what \ud800", got="\udcff", hint="ü \udfff")
    assert (error.what, error.got, error.hint) == ("what \\ud800", "\\udcff", "ü \\udfff")
    assert error.message().encode()


def test_what_docstrings_promise_exists() -> None:
    assert set(mentioned()) <= set(documented())


def test_every_row_is_complete_and_in_order() -> None:
    rows = documented()
    assert all(len(cells) == 3 and all(cells) for cells in rows.values())
    assert list(rows) == sorted(rows)


def test_messages_are_those_of_the_document() -> None:
    """So a number cannot get another meaning by the way."""
    rows = documented()
    unknown = []
    for error in raised_errors():
        meanings = rows[error.number][0].split(" · ")
        if error.what and error.what not in meanings:
            unknown.append(f"{error.place}: {error.number} {error.what!r} is none of {meanings}")
    assert not unknown


def test_no_message_has_two_numbers() -> None:
    numbers = defaultdict(set)
    for error in raised_errors():
        if error.what:
            numbers[error.what].add(error.number)
    assert {what: found for what, found in numbers.items() if len(found) > 1} == {}


def test_numbers_are_in_the_range_of_their_room() -> None:
    """The table of ``docs/architecture.md`` says where an error of a thousand may be raised."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (TM\d)xxx \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    rooms = {number: tuple(re.findall(r"`([^`]+)`", places)) for number, places in rows}
    assert len(rooms) == 9
    for error in raised_errors():
        assert error.place.startswith(rooms[error.number[:3]]), error


def test_message_has_number_what_got_and_hint() -> None:
    error = TidemillError("TM9999", "it is wrong", got="this", hint="do that")
    assert str(error) == "TM9999: it is wrong\n  got:  this\n  hint: do that"
    assert TidemillError("TM9999", "it is wrong").message() == "TM9999: it is wrong"


@pytest.mark.parametrize("kind", [TidemillError, EvaluationError])
def test_errors_travel_between_processes(kind: type[TidemillError]) -> None:
    error = pickle.loads(pickle.dumps(kind("TM9999", "a", got="b", hint="c")))
    assert (type(error), error.number, error.what, error.got, error.hint) == (kind, "TM9999", "a", "b", "c")


def test_nearest_name() -> None:
    assert nearest("Heder", ["header", "sep", "quote"]) == "did you mean 'header'?"
    assert nearest("MAXFILES", ["maxFiles", "sep"]) == "did you mean 'maxFiles'?"
    assert nearest("xyz", ["b", "a"]) == "valid names: a, b"


def test_tables_are_well_formed() -> None:
    """Every line of a table has four cells, and every number stands in exactly one of them."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in lines)
