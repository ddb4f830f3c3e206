"""A large compressed file in parts: how long its epochs are, and what it costs to decode again what is before a part.

A mill reads one file of CSV rows into a view with groups: in parts, as it does, and whole in one epoch. Both decode the
file to its end before any row counts; parts decode once more what is before each of them. The goal is a longest epoch
of a third at most, in twice the time.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import time
from pathlib import Path

import numpy as np
from backports import zstd

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.number_files import DDL, write_numbers
from benchmarks.tidemill_side import open_mill
from tidemill.runtime.files import progress

ROWS = 1_000_000
"""Of each member or frame: 28 MB."""
SUFFIXES = {"gzip": ".gz", "zstd": ".zst"}


def tidemill(root: str, path: str, whole: bool) -> tuple[list[float], int]:
    """Seconds of each epoch, and rows. Spark and kernels have begun before with a row of another file."""
    if whole:
        progress.SPLITS_OF_PART = 1 << 40
    given = Path(root).with_name(f"{Path(root).name}-in")
    given.mkdir()
    (given / "first.csv").write_text("1,2,3.0,4,none\n")
    with open_mill(Path(root), epoch_bytes=16 << 20) as mill:
        mill.sql(f"CREATE TABLE t ({DDL}) USING csv OPTIONS (path '{given}')")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT e, COUNT(*) AS n, SUM(a) AS s FROM t WHERE k > 1 GROUP BY e")
        mill.advance()
        (given / Path(path).name).symlink_to(path)
        found, begin = [], time.perf_counter()
        while mill.advance() is not None:
            found.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        return found, sum(row["n"] for row in mill.read("v").to_pylist())


def write_archive(directory: Path, codec: str, members: int) -> Path:
    """So many members or frames, all of the same rows."""
    rows, path = directory / "rows.csv", directory / f"rows.csv{SUFFIXES[codec]}"
    random = np.random.default_rng(1)
    write_numbers(rows, random.integers(2, 1000, ROWS), random)
    text = rows.read_bytes().partition(b"\n")[2]
    member = gzip.compress(text, 6) if codec == "gzip" else zstd.compress(text)
    path.write_bytes(member * members)
    print(f"{codec}: {len(text) * members / 1e6:,.0f} MB in {path.stat().st_size / 1e6:,.0f} MB", flush=True)
    return path


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="a file that is one part; the ratios mean little")
    options.add_argument("--members", type=int, default=40, help=f"of {ROWS:,} rows")
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    members, rounds = (2, 1) if given.small else (given.members, given.rounds)
    heading(f"archive_parts: {members * ROWS:,} rows")
    with workspace() as place:
        for codec in SUFFIXES:
            path = write_archive(place, codec, members)
            best: dict[str, list[float]] = {}
            for number in range(rounds):
                for side in ("parts", "whole"):
                    root = place / f"{codec}-{side}-{number}"
                    seconds, rows = run_side(
                        "benchmarks.archive_parts", "tidemill", root=str(root), path=str(path), whole=side == "whole"
                    )
                    assert rows == members * ROWS
                    best[side] = min(best.get(side, seconds), seconds, key=sum)
                    shutil.rmtree(root)
            table(("side", "epochs", "longest s", "all s"), [(s, len(t), max(t), sum(t)) for s, t in best.items()])
            verdict(f"{codec}: longest epoch, whole / parts", max(best["whole"]) / max(best["parts"]), 3.0)
            verdict(f"{codec}: all of it, whole / parts", sum(best["whole"]) / sum(best["parts"]), 0.5)


if __name__ == "__main__":
    main()
