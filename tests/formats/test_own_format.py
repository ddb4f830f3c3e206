"""The example of a format that a package offers: found by its entry point, and read alone and in parts."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from csv_reading import as_table, feed_split

import tidemill.formats
from tidemill.errors import TidemillError
from tidemill.formats import registry

COLUMNS = "id BIGINT, name STRING, price DECIMAL(8,2), day DATE"
WIDTHS = [6, 9, 8, 10]


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    entry = EntryPoint("fixed_width", "fixed_width:FixedWidthFormat", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry])
    registry._load.cache_clear()
    yield
    registry._load.cache_clear()
    sys.modules.pop("fixed_width", None)


def _file(r: random.Random, rows: int) -> bytes:
    lines = []
    for _ in range(rows):
        name = "".join(r.choice("abc") for _ in range(r.randrange(1, 9)))
        cells = [str(r.randrange(10**5)), name, f"{r.random() * 100:.2f}", f"2024-01-{r.randrange(1, 29):02}"]
        lines.append("".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True)))
    return "\n".join(lines).encode()


def test_as_pandas_reads_it(seed: int) -> None:
    data = _file(random.Random(seed), 500)
    found = tidemill.formats.open("fixed_width", COLUMNS, widths="6,9,8,10").read(data).to_pydict()
    expected = pd.read_fwf(io.BytesIO(data), widths=WIDTHS, header=None, dtype=str, names=list(found))
    assert [str(v) for v in found["id"]] == expected["id"].tolist()
    assert found["name"] == expected["name"].tolist()
    assert [str(v) for v in found["price"]] == expected["price"].tolist()
    assert [str(v) for v in found["day"]] == expected["day"].tolist()


def test_in_parts_and_with_few_columns(seed: int) -> None:
    r = random.Random(seed)
    data = _file(r, 40)
    opened = tidemill.formats.open("fixed_width", COLUMNS, widths="6,9,8,10")
    whole = as_table(opened.rows(data)).rows
    cuts = sorted({0, len(data), *(r.randrange(len(data)) for _ in range(4))})
    rows = []
    for start, end in pairwise(cuts):
        place = {"start": start, "end": end, "file_size": len(data), "in_quotes": None, "header": None}
        rows += as_table(feed_split(opened.reader().split(**place), data, [r.randrange(1, 50)] * 99)).rows
    assert tuple(rows) == whole
    assert opened.read(data, ["price"]).column("price").to_pylist() == [row[2] for row in whole]


def test_malformed_lines_are_told() -> None:
    errors: list[tidemill.formats.base.RowError] = []
    data = b"     1      abc    1.50 2024-1-1\r\n  wide\n\n     2      abc       x2024-01-0299\n"
    table = tidemill.formats.open("fixed_width", COLUMNS, widths="6,9,8,10").read(data, errors=errors)
    assert table.column("id").to_pylist() == [1, None, 2]
    assert [(e.line, e.column, e.reason, e.at) for e in errors] == [
        (2, None, "too_few_fields", 40),
        (2, "id", "bad_int64", 34),
        (4, None, "too_many_fields", 65),
        (4, "price", "bad_decimal", 57),
    ]


def test_options_are_checked() -> None:
    for widths in ("6,9,8", "6,9,8,²", "6,9,8,99999999999", "6,9,8,0"):
        with pytest.raises(TidemillError, match="TM4003"):
            tidemill.formats.open("fixed_width", COLUMNS, widths=widths)
    with pytest.raises(TidemillError, match="TM4004: the column 'b' has a type that fixed_width cannot hold"):
        tidemill.formats.open("fixed_width", "a INT, b ARRAY<INT>", widths="6,9")
    with pytest.raises(TidemillError, match="TM4005") as caught:
        tidemill.formats.open("fixed_width", COLUMNS, width="6,9,8,10")
    assert caught.value.hint == "did you mean 'widths'?"
