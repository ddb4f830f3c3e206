"""``python -m benchmarks`` runs all benchmarks, ``python -m benchmarks NAME ...`` some; ``--list`` shows them.

``--small`` makes each finish within a minute, to see that it works; the ratios mean little then.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path

NAMES = (
    "formats_csv",
    "generated_rows",
    "shredder",
    "formats_json",
    "formats_rescue",
    "formats_binary",
    "state_kernels",
    "state_store",
    "merge_runs",
    "amplification",
    "range_scan",
    "grouped_aggregate",
    "large_file",
    "tiny_epoch",
    "resident_epochs",
    "order_book",
    "exchange_feed",
    "trading_loop",
    "tasks",
    "loading",
    "readers",
    "twenty_views",
    "fifty_views",
    "add_view",
    "text_functions",
    "small_side",
    "not_in",
    "sockets",
    "kafka_topic",
    "state_growth",
    "flat_epochs",
    "first_ranks",
    "async_checkpoint",
    "tpch",
    "nexmark",
    "ordered_index",
    "finance",
    "recovery",
    "fetch_objects",
    "list_names",
    "stream_names",
    "archive_parts",
    "postgres_changes",
    "lake_sinks",
    "postgres_wire",
    "server_load",
    "freshness",
    "soak",
    "steady",
    "peers",
)


def first_line(name: str) -> str:
    """What a benchmark says about itself."""
    source = Path(__file__).with_name(f"{name}.py")
    if not source.exists():
        source = Path(__file__).with_name(name) / "__init__.py"
    return (ast.get_docstring(ast.parse(source.read_text())) or "").splitlines()[0]


def main() -> int:
    """Run each benchmark in a process of its own; the exit code is that of the last that failed, or 0."""
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    options.add_argument("--list", action="store_true", help="show the benchmarks and run none")
    options.add_argument("--small", action="store_true", help="under a minute each")
    given = options.parse_args()
    for name in given.names:
        if name not in NAMES:
            options.error(f"no benchmark {name!r}; there are {', '.join(NAMES)}")
    if given.list:
        for name in NAMES:
            print(f"{name:18} {first_line(name)}")
        return 0
    code = 0
    for name in given.names or NAMES:
        command = [sys.executable, "-m", f"benchmarks.{name}", *(["--small"] if given.small else [])]
        code = subprocess.run(command, check=False).returncode or code
    return code


if __name__ == "__main__":
    raise SystemExit(main())
