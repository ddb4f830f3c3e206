"""Messages of CSV that leave a quote open are found, so that they spoil no other."""

from __future__ import annotations

import random

import pytest

import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.formats.csv.messages import message_boundary


def first_open_message(messages: bytes) -> int:
    """By reading each message as a file of its own, and it with one behind it: they must be two rows."""
    at = 0
    for message in messages.splitlines(keepends=True):
        at += len(message)
        if tidemill.formats.open("csv", "a STRING").read(message + b"next\n").num_rows < 2:
            return at
    return -1


@pytest.mark.parametrize(
    ("messages", "end"),
    [
        (b"", -1),
        (b"1,x\n2,y\n", -1),
        (b'1,"x"\n2,"y""z"\n', -1),
        (b'1,"x\n2,y\n', 5),
        (b'1,x\n2,"\n3,"\n', 8),
        (b'a"b,c\n2,y\n', -1),
        (b'a"b,"c\n2,y\n', 7),
        (b"1,x\n" * 100 + b'2,"\n', 404),
    ],
)
def test_where_a_quote_stays_open(messages: bytes, end: int) -> None:
    assert message_boundary({})(messages) == end


def test_against_reading_each_message(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        count = chance.randrange(1, 12)
        messages = b"".join(
            bytes(chance.choices(b'xy,"', (8, 8, 3, 1), k=chance.randrange(1, 12))) + b"\n" for _ in range(count)
        )
        assert message_boundary({})(messages) == first_open_message(messages), messages


def test_without_quotes_every_newline_ends_a_row() -> None:
    assert message_boundary({"quote": ""})(b'1,"\n2,"\n') == -1


@pytest.mark.parametrize("options", [{}, {"escape": "\\"}, {"sep": "||"}])
def test_with_one_line_a_row_too(options: dict[str, str]) -> None:
    assert message_boundary({"multiline": "false", **options})(b'1,"\n2,"\n') == -1


@pytest.mark.parametrize("options", [{"header": "true"}, {"escape": "\\"}, {"sep": "||"}, {"linesep": ";"}])
def test_options_that_messages_cannot_have(options: dict[str, str]) -> None:
    with pytest.raises(TidemillError, match="TM4003"):
        message_boundary(options)
