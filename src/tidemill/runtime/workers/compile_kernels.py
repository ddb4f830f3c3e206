"""Compiles the kernels of a fresh installation: ``python -m tidemill.runtime.workers.compile_kernels``.

A kernel is compiled when it is needed first, by a process that has not found its machine code in
:mod:`tidemill.kernels.cache`. Processes that start together would compile the same
kernels at the same time, so this is done before: the readers of formats in one process, all other kernels in another.
Nothing that has kernels is imported before both run.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import tidemill

_PACKAGE = Path(tidemill.__file__).parent
_KERNEL = re.compile(r"^@(?:kernel|njit)\b", re.MULTILINE)
_VALUES: dict[str, object] = {
    "i INT": 1, "l BIGINT": -2, "f FLOAT": 0.5, "d DOUBLE": 1e300, "n DECIMAL(12, 2)": 1.25, "w DECIMAL(38, 10)": 7,
    "s STRING": "a\\b, \u00fc", "b BINARY": "eA==", "t BOOLEAN": True, "day DATE": "2024-02-29",
    "at TIMESTAMP": "2024-02-29 10:11:12.5",
}  # fmt: skip
_COLUMNS, _ROW = ", ".join(_VALUES), list(_VALUES.values())
_NAMES = [column.split()[0] for column in _VALUES]
_PATTERN = {"timestampFormat": "yyyy-MM-dd HH:mm:ss[.SSS][XXX]"}


def _csv(separator: str) -> bytes:
    texts = [f'"{value}"' if isinstance(value, str) else json.dumps(value) for value in _ROW]
    odd = [f'" x{separator}""y"', *texts[1:]]
    return "".join(separator.join(line) + "\n" for line in (_NAMES, *[texts] * 3, odd, texts[:2])).encode()


def _json() -> list[bytes]:
    records = [dict(zip(_NAMES, row)) for row in (_ROW, _ROW, [f"{value}x" for value in _ROW])]
    nested = {"more": {"x": [1, 2, None], "y": {"k": 0.5}}, "list": [{"x": 1}, {"z": "\u00fc\\"}]}
    return [json.dumps({**record, **nested, "other": [1, {"a": "b"}]}).encode() for record in records]


def read_formats() -> None:
    """Read a few rows of each text format, with options that take other paths."""
    from tidemill.formats.standalone.standalone import open_format

    open_format("csv", "a INT, b STRING").read(b"1,x\n2,y\n3,z\n")  # rows that all have as many fields
    for options in ({}, {"rescuedDataColumn": "rest"}, _PATTERN, {"nullValue": "a"}, {"mode": "DROPMALFORMED"}):
        open_format("csv", _COLUMNS, header="true", **options).read(_csv(","))
    for options in ({"sep": ";", "escape": "\\"}, {"sep": "||", "comment": "#"}, {"multiLine": "false"}):
        open_format("csv", _COLUMNS, header="true", **options).read(_csv(options.get("sep", ",")))
    columns = f"{_COLUMNS}, more STRUCT<x: ARRAY<INT>, y: MAP<STRING, DOUBLE>>, list ARRAY<STRUCT<x: INT, z: STRING>>"
    records = _json()
    for options in ({}, {"rescuedDataColumn": "rest"}, _PATTERN):
        open_format("json", columns, **options).read(b"\n".join(records))
    open_format("json", columns, multiLine="true").read(b"[" + b",\n".join(records) + b"]")


def compile_others() -> None:
    """Compile all kernels but those that only formats have, and run what needs both."""
    for path in sorted(_PACKAGE.rglob("*.py")):
        parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
        if parts[1] != "formats" and _KERNEL.search(path.read_text()):
            importlib.import_module(".".join(parts))
    from tidemill.kernels.kernel import load_kernels
    from tidemill.runtime.workers.warm_up import warm_up

    load_kernels()
    warm_up()


def main() -> int:
    """Both at once; the exit code of the process."""
    other = subprocess.Popen([sys.executable, "-m", __spec__.name, "formats"])
    try:
        compile_others()
    finally:
        failed = other.wait()
    return failed


if __name__ == "__main__":
    if "formats" in sys.argv:
        read_formats()
    else:
        sys.exit(main())
