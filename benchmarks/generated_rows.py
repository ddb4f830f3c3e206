"""CSV of numbers: blocks of columns, as Tidemill reads them, beside a kernel that is generated for the schema.

The generated kernel (decision 0009) is one loop over rows, whose body is written out field by field: it takes the end
of each field from the marks and parses it where it stands, so nothing is written down between the phases but the marks.
It knows only numbers without quotes, NULLs, errors or blanks, which is in its favour.

Run ``python -m benchmarks.generated_rows [--megabytes N]``; processor time, medians of turns, and the compile time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numba
import numpy as np
import pyarrow as pa

from benchmarks.formats_csv import cases
from benchmarks.measuring import heading, table, verdict
from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.csv.index import MARK_SLACK, find_marks
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.text.line_ends import OPEN, scan_row_ends
from tidemill.formats.values.numbers.digits import digits_value, word_value
from tidemill.formats.values.numbers.floats import _short_decimal
from tidemill.kernels.byte_masks import load_word

BUFFER = 1 << 20


def generate(types: list[pa.DataType]) -> Any:
    """A kernel ``(buf, marks, rows, ints, doubles, powers) -> wrong`` for columns of these types."""
    lines = [
        "def kernel(buf, marks, rows, ints, doubles, powers):",
        "    wrong, size = 0, np.int64(buf.size)",
        "    start = 0",
        "    at = 0",
    ]
    lines.append("    for row in range(rows):")
    slots = {"int64": 0, "double": 0}
    for type_ in types:
        slot = slots[str(type_)]
        slots[str(type_)] += 1
        lines += [
            "        end = np.int64(marks[at])",
            "        at += 1",
            "        negative = buf[start] == 45",
            "        start += negative",
        ]
        if str(type_) == "int64":
            lines += [
                "        if 0 < end - start <= 8 and start + 8 <= size:",
                "            value, good = word_value(load_word(buf, start), end - start)",
                "        else:",
                "            value, good = digits_value(buf, start, end)",
                f"        ints[{slot}, row] = -np.int64(value) if negative else np.int64(value)",
            ]
        else:
            lines += [
                "        mantissa, places, good = _short_decimal(buf, start, end)",
                "        number = float(mantissa) / powers[places]",
                f"        doubles[{slot}, row] = -number if negative else number",
            ]
        lines += ["        wrong += not good", "        start = end + 1"]
    lines.append("    return wrong")
    names: dict[str, Any] = {"np": np, "digits_value": digits_value, "_short_decimal": _short_decimal}
    names |= {"word_value": word_value, "load_word": load_word}
    exec("\n".join(lines), names)
    return numba.njit(nogil=True)(names["kernel"])


def main() -> None:
    """Print both sides and the ratio."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.generated_rows", description=__doc__)
    options.add_argument("--megabytes", type=float, default=8)
    options.add_argument("--small", action="store_true")
    given = options.parse_args()
    heading("CSV of 16 numbers to arrays, nanoseconds a field by the processor's time")
    case = cases(int((1 if given.small else given.megabytes) * 1e6))[0]
    size, types = len(case.data), [f.type for f in case.schema]
    reader = CsvFormat().reader(case.schema, {}, case.needed)
    split: Any = reader.split(start=0, end=size, file_size=size, in_quotes=False, header=None)
    builder = split.builder
    assert isinstance(builder, RowBuilder)
    generated = generate(types)
    powers = 10.0 ** np.arange(23)
    compiled = 0.0
    times: dict[str, list[float]] = {"blocks": [], "generated": []}
    for turn in range(8):
        spent = {"blocks": 0.0, "generated": 0.0}
        at = 0
        while at < size:
            stop = case.data.rfind(b"\n", at, min(size, at + BUFFER)) + 1
            data = np.frombuffer(case.data, np.uint8, stop - at, at)
            rows = int(scan_row_ends(data, 0, ord(","), ord('"'), 0, 0)[0])
            begin = time.process_time()
            batch = builder.build(data, at, rows, False, False).batch
            spent["blocks"] += time.process_time() - begin
            begin = time.process_time()
            marks = np.empty(rows * len(types) + MARK_SLACK, np.int32)
            find_marks(data, 0, ord(","), -1, 0, OPEN, 0, marks, 0, np.empty(rows + MARK_SLACK, np.int32), 0)
            ints, doubles = np.empty((8, rows), np.int64), np.empty((8, rows), np.float64)
            wrong = generated(data, marks, rows, ints, doubles, powers)
            spent["generated"] += time.process_time() - begin
            same = all(
                np.array_equal(batch.column(i).to_numpy(), (doubles if i % 2 else ints)[i // 2]) for i in range(16)
            )
            if wrong or not same:
                raise SystemExit("the generated kernel read something else")
            at = stop
        if turn == 0:
            compiled = spent["generated"]
        else:
            for name, seconds in spent.items():
                times[name].append(seconds)
    fields = case.data.count(b",") + case.data.count(b"\n")
    each = {name: statistics.median(seconds) / fields * 1e9 for name, seconds in times.items()}
    table(["kernel", "ns a field"], [[name, value] for name, value in each.items()])
    print(f"compiling the generated kernel took {compiled - statistics.median(times['generated']):.1f} s")
    verdict("generated / blocks, time", each["generated"] / each["blocks"], 1)


if __name__ == "__main__":
    main()
