"""Rescued data on one core: MB/s of reading JSON and CSV with a column for what does not fit, and ratios.

Run ``python -m benchmarks.formats_rescue [megabytes]``. Each file has a share of rows with something to rescue: keys or
fields that no column is for, keys within a known struct, or values of another type. Compared with the plain read of the
same file, which leaves such things out (values of another type are reported as errors, so it is compared with the file
that has none), and with Python's ``json`` or ``csv`` doing the same for every row, as open-source Spark has no rescued
data. Medians of six runs, the sides in turn, every other time backwards, in processor time.
"""

from __future__ import annotations

import csv
import io
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.formats_json import FLAT, flat
from tidemill.ddl import parse_columns
from tidemill.formats.registry import lookup
from tidemill.schema import Schema

RUNS = 6
BUFFER = 1 << 20
COLUMN = "_rescued_data"
JSON_COLUMNS = FLAT + ", user STRUCT<name: STRING, zip: BIGINT>"


@dataclass(frozen=True)
class Case:
    """A file; ``clean`` is it without what is to be rescued."""

    title: str
    format: str
    data: bytes
    clean: bytes
    options: dict[str, str]


def record(r: random.Random) -> dict[str, Any]:
    """Some of everything, and a struct."""
    return flat(r) | {"user": {"name": f"user {r.randrange(10**5)}", "zip": r.randrange(10**5)}}


def with_key(found: dict[str, Any]) -> dict[str, Any]:
    """A key that no column is for."""
    return found | {"referrer": "https://example.org/é?q=1"}


def with_nested_key(found: dict[str, Any]) -> dict[str, Any]:
    """A key within a struct."""
    return found | {"user": found["user"] | {"city": "Lyon"}}


def with_misfit(found: dict[str, Any]) -> dict[str, Any]:
    """A text where a number should be."""
    return found | {"count": "many"}


def _written(records: list[dict[str, Any]], format_: str) -> bytes:
    if format_ == "json":
        return "".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in records).encode()
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([list(r.values()) for r in records])
    return out.getvalue().encode()


def make_case(
    title: str, format_: str, change: Callable[[dict[str, Any]], dict[str, Any]], share: float, size: int
) -> Case:
    """A file of about ``size`` bytes in which a share of the rows is changed."""
    r = random.Random(5)
    plain = [record(r) if format_ == "json" else flat(r) for _ in range(10_000)]
    changed = [change(row) if r.random() < share else row for row in plain]
    data, clean = _written(changed, format_), _written(plain, format_)
    times = max(1, size // len(clean))
    return Case(
        f"{format_}, {title}", format_, data * times, clean * times, {"multiLine": "false"} if format_ == "json" else {}
    )


def cases(size: int) -> list[Case]:
    """The files measured."""
    found = [make_case("nothing", "json", dict, 0, size)]
    for title, change in (("new keys", with_key), ("new nested keys", with_nested_key), ("other types", with_misfit)):
        found += [make_case(f"{share:.0%} {title}", "json", change, share, size) for share in (0.1, 1)]
    found.append(make_case("nothing", "csv", dict, 0, size))
    for title, change in (("further fields", with_key), ("other types", with_misfit)):
        found += [make_case(f"{share:.0%} {title}", "csv", change, share, size) for share in (0.1, 1)]
    return found


def _schema(format_: str) -> Schema:
    return parse_columns(JSON_COLUMNS if format_ == "json" else FLAT)


def _read(case: Case, data: bytes, rescued: bool) -> list[Any]:
    schema = _schema(case.format)
    options = dict(case.options)
    if rescued:
        schema = parse_columns((JSON_COLUMNS if case.format == "json" else FLAT) + f", {COLUMN} STRING")
        options["rescuedDataColumn"] = COLUMN
    reader: Any = lookup(case.format).reader(schema, options, schema.names)
    split = reader.split(start=0, end=len(data), file_size=len(data), in_quotes=False, header=None)
    view = memoryview(data)
    return [split.feed(view[at : at + BUFFER], at + BUFFER >= len(data)).batch for at in range(0, len(data), BUFFER)]


def read_rescuing(case: Case) -> list[str | None]:
    """The rescued data."""
    return [text for batch in _read(case, case.data, True) for text in batch.column(COLUMN).to_pylist()]


def read_python(case: Case) -> list[Any]:
    """The same in plain Python."""
    names = _schema(case.format).names
    if case.format == "csv":
        rows: list[Any] = []
        for fields in csv.reader(io.StringIO(case.data.decode())):
            left = {f"_c{i}": text for i, text in enumerate(fields[len(names) :], len(names))}
            if not fields[names.index("count")].isdigit():
                left["count"] = fields[names.index("count")]
            rows.append(json.dumps(left) if left else None)
        return rows
    known = frozenset(names)
    rows = []
    for line in case.data.splitlines():
        found = json.loads(line)
        left = {k: v for k, v in found.items() if k not in known}
        user = {k: v for k, v in found["user"].items() if k not in ("name", "zip")}
        if user:
            left["user"] = user
        if not isinstance(found["count"], int):
            left["count"] = found["count"]
        rows.append(json.dumps(left) if left else None)
    return rows


def check(case: Case) -> None:
    """Stop unless both sides rescue the same."""
    found = [None if text is None else json.loads(text) for text in read_rescuing(case)]
    if found != [None if text is None else json.loads(text) for text in read_python(case)]:
        raise SystemExit(f"other rescued data in {case.title}")


def main() -> None:
    """Print one line per case."""
    given = sys.argv[1] if len(sys.argv) > 1 else "16"
    size = int((2 if given == "--small" else float(given)) * 1e6)
    sides: dict[str, Callable[[Case], Any]] = {
        "rescuing": lambda case: _read(case, case.data, True),
        "plain": lambda case: _read(case, case.clean, False),
        "python": read_python,
    }
    print(f"{'case':28}" + "".join(f"{name:>10}" for name in sides) + "   MB/s; ratio to each")
    for case in cases(size):
        check(case)
        times: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(RUNS):
            for name, read in list(sides.items())[:: 1 - 2 * (turn % 2)]:
                begin = time.process_time()
                read(case)
                times[name].append(time.process_time() - begin)
        sizes = {"rescuing": len(case.data), "plain": len(case.clean), "python": len(case.data)}
        speeds = {name: sizes[name] / 1e6 / statistics.median(found) for name, found in times.items()}
        ratios = " ".join(f"{speeds['rescuing'] / speeds[name]:.2f}" for name in list(sides)[1:])
        print(f"{case.title:28}" + "".join(f"{speed:10.0f}" for speed in speeds.values()) + f"   {ratios}", flush=True)


if __name__ == "__main__":
    main()
