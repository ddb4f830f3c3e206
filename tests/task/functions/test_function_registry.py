"""Functions are imported when they are looked for, and none is forgotten."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill.task.functions
from tidemill.errors import TidemillError
from tidemill.task.functions.columns.registry import lookup

ROOM = Path(tidemill.task.functions.__file__).parent
_REGISTERS = re.compile(r"registry import [^\n]*\bfunction\b")


def in_a_new_process(code: str) -> Any:
    """What a program prints as JSON."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_module_that_registers_functions_is_known() -> None:
    """Also one that was added last: in a new process nothing else has imported it."""
    found = [path for path in ROOM.rglob("*.py") if _REGISTERS.search(path.read_text())]
    names = {f"tidemill.task.functions.{path.relative_to(ROOM).with_suffix('').as_posix()}" for path in found}
    code = (
        "import json, sys; from tidemill.task.functions.columns.registry import every_function; "
        "print(json.dumps([sorted({f.kernel.__module__ for f in every_function().values()}), sorted(sys.modules)]))"
    )
    registering, imported = map(set, in_a_new_process(code))
    assert len(registering) > 30
    assert {name.replace("/", ".") for name in names} <= imported


def test_few_modules_for_a_usual_function() -> None:
    """A process that adds two columns imports neither Numba nor what reads documents."""
    code = (
        "import json, sys; from tidemill.task.functions.columns.registry import lookup; lookup('add'); "
        "print(json.dumps([m for m in ('numba', 'tidemill.task.functions.documents.variant') if m in sys.modules]))"
    )
    assert in_a_new_process(code) == []


def test_threads_that_look_at_the_same_time() -> None:
    """Each waits for the import of the others, and finds its function."""
    code = """
import json, threading
from concurrent.futures import ThreadPoolExecutor
from tidemill.task.functions.columns.registry import lookup
names = ["variant_get", "add", "length", "parse_url", "from_json", "date_add", "sort_array", "hex"] * 2
start = threading.Barrier(len(names))
def find(name):
    start.wait()
    return lookup(name).name
with ThreadPoolExecutor(len(names)) as threads:
    print(json.dumps([names, list(threads.map(find, names))]))
"""
    asked, found = in_a_new_process(code)
    assert found == asked


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(TidemillError, match="TM2101"):
        lookup("no_such_function")
