"""Reads Parquet files of which one byte of the footer is another: ``python damaged_footers.py SEED``.

A process of its own, since pyarrow can end it. The last line that it prints says what it has read.
"""

from __future__ import annotations

import io
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from columnar_reading import read_file
from csv_reading import columns

from tidemill.errors import FormatError

SCHEMA = columns(i=pa.int64(), s=pa.string(), l=pa.list_(pa.int64()))
NEEDED = (None, ["l"], ["s"], [])


def small_file() -> bytes:
    sink = io.BytesIO()
    table = {"i": list(range(30)), "s": [str(i) * 3 for i in range(30)], "l": [[i] * (i % 3) for i in range(30)]}
    pq.write_table(pa.table(table), sink, row_group_size=15, compression="none")
    return sink.getvalue()


def damage_each_byte(seed: str) -> int:
    """Set each byte of the footer to some others. The files that were read without an error."""
    random_ = random.Random(seed)
    data = small_file()
    size = int.from_bytes(data[-8:-4], "little")
    read = 0
    for place in range(len(data) - 8 - size, len(data) - 8):
        for value in (data[place] ^ 1 << random_.randrange(8), random_.randrange(256)):
            changed = bytearray(data)
            changed[place] = value
            needed = random_.choice(NEEDED)
            print(f"byte {place} {value}, columns {needed}", flush=True)
            try:
                rows = read_file("parquet", bytes(changed), SCHEMA, needed).rows
            except FormatError as error:
                assert error.number in ("TM4041", "TM4042", "TM4043", "TM4044"), error
                continue
            metadata = pq.ParquetFile(io.BytesIO(changed)).metadata
            assert len(rows) == sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
            read += 1
    return read


if __name__ == "__main__":
    print(damage_each_byte(sys.argv[1]))
