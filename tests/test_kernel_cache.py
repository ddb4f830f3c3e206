"""Compiled kernels on disk: a change of anything that a kernel is made of is seen; old directories are deleted."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill
from tidemill.kernels import sources as kernel_sources
from tidemill.kernels.cache import KEPT_BYTES, KEPT_SECONDS, KernelCache

PACKAGE = Path(tidemill.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

NUMBERS = "{}\n\n\nTHREE = {}\n"
CALLED = "from tidemill.kernels.kernel import njit\n\n\n@njit\ndef called(x):\n    return x * {}\n"
KERNEL = """
from tidemill.kernels.kernel import njit
from tidemill.{room}.toy_called import called
from tidemill.{room} import (  # a room (of the package)
    toy_numbers as numbers,
)

THREE = numbers.THREE

@njit(nogil=True)
def toy(x):
    return called(x) + THREE + {own}
"""
COUNT_TYPES = """
from tidemill.formats.csv.general_index import index_delimited_fields
from tidemill.formats.json.indexing.walk import walk_records
from tidemill.formats.json.leftover_texts import write_leftovers
from tidemill.formats.values.columns.blocks import parse_fields, parse_marked
from tidemill.formats.values.times.pattern_times import parse_pattern_times
from tidemill.runtime.workers.compile_kernels import read_formats

read_formats()
kernels = (parse_marked, parse_fields, parse_pattern_times, walk_records, write_leftovers, index_delimited_fields)
print({kernel.__name__: len(kernel.signatures) for kernel in kernels})
"""
SUMS = """
from tidemill.kernels.kernel import njit


@njit
def total(items):
    found = items[0]
    for item in items[1:]:
        found += item
    return found
"""
SUM_OF_TYPES = """
import sys
import numpy as np
from sums import total
_ = total.dispatcher
print("ready", flush=True)
sys.stdin.read()
print([(name, float(total(np.arange(1, 5, dtype=name)))) for name in sys.argv[1:]])
print(sum(total.stats.cache_misses.values()))
"""
IN_TWO = """
import os
from pathlib import Path
from tidemill.kernels.kernel import KERNELS
from tidemill.runtime.workers.warm_up import compile_in_two, warm_up

def compiled():
    called = [kernel for kernel in KERNELS if "dispatcher" in vars(kernel)]
    rooms = [kernel.__module__.split(".")[1] for kernel in called for _ in kernel.stats.cache_misses]
    return rooms.count("formats"), len(rooms) > 50

compile_in_two(Path.cwd())
print(*compiled())
warm_up(Path.cwd())
print(compiled()[0] < 10, list(Path.cwd().glob("tidemill-*")))
del os.fork  # it is not needed any more
compile_in_two(Path.cwd())
"""
SHOW = """
import importlib, sys
for room in sys.argv[1:]:
    toy = importlib.import_module(f"tidemill.{room}.toy_kernel").toy
    print(room, toy(10), "compiled" if sum(toy.stats.cache_misses.values()) else "loaded")
"""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_kernels_run_the_code_that_is_there(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "tidemill"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    rooms = ["kernels", "runtime", "state", "formats.csv"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    # Python takes a .pyc for that of a changed file if the size and the second of the change are the same
    environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def write(room: str, factor: int = 2, three: int = 3, own: int = 0) -> None:
        place = package.joinpath(*room.split("."))
        (place / "toy_numbers.py").write_text(NUMBERS.format('"""Numbers."""', three))
        (place / "toy_called.py").write_text(CALLED.format(factor))
        (place / "toy_kernel.py").write_text(KERNEL.format(room=room, own=own))

    def results() -> list[str]:
        command = [sys.executable, "-c", SHOW, *rooms]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    for room in rooms:
        write(room)
    assert results() == [f"{room} 23 compiled" for room in rooms]
    # A function that it calls, a constant of a module that it imports, the kernel itself
    changes = [({"factor": 5}, 53), ({"three": 4}, 24), ({"own": 7}, 30)]
    for i, room in enumerate(rooms):
        write(room, **changes[i % 3][0])
    (package / "cli/commands.py").write_text((package / "cli/commands.py").read_text() + "\nTOY = 1\n")
    (package / "state" / "toy_other.py").write_text("OTHER = 1\n")
    assert results() == [f"{room} {changes[i % 3][1]} compiled" for i, room in enumerate(rooms)]
    write(rooms[0])  # as it was before: its machine code is still there
    (package / "cli/commands.py").write_text("")
    loaded = [f"{rooms[0]} 23 loaded", *(f"{r} {changes[i % 3][1]} loaded" for i, r in enumerate(rooms) if i)]
    assert results() == loaded
    package = shutil.copytree(package, tmp_path / "elsewhere" / "tidemill", copy_function=shutil.copyfile)
    environment["PYTHONPATH"] = str(package.parent)
    assert results() == loaded, "another installation of the same files"
    write(rooms[0], own=1)
    assert results() == [f"{rooms[0]} 24 compiled", *loaded[1:]]


def test_all_imports_are_found() -> None:
    """The pattern finds at least what Python's parser does."""
    for path in MODULES:
        found = set(kernel_sources.imported(path.read_text(), module_name(path).rpartition(".")[0]))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {(alias.name, "") for alias in node.names} <= found
            elif isinstance(node, ast.ImportFrom):
                assert {(node.module, alias.name) for alias in node.names} <= found


def test_imports_however_they_are_written() -> None:
    text = """
import a.b, c as d; import e
from .. import near
from .f import (g,  # not (this
    h as i,)
from j import k, \\
    l
def late():
    if True: from m.n import *
"""
    expected = {
        ("a.b", ""),
        ("c", ""),
        ("e", ""),
        ("x", "near"),
        ("x.y.f", "g"),
        ("x.y.f", "h"),
        ("j", "k"),
        ("j", "l"),
    }
    assert expected | {("m.n", "*")} <= set(kernel_sources.imported(text, "x.y"))


def test_files_of_a_kernel_in_another_package(tmp_path: Path) -> None:
    package = tmp_path / "mine"
    (package / "inner").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "inner/__init__.py": "from mine.inner import late\nX = 1\n",
        "inner/late.py": "",
        "inner/kernels.py": "from tidemill.kernels.words import kernel\nfrom .near import Y\nimport numpy\n",
        "inner/near.py": "from . import X\n",
        "other.py": "",
    }.items():
        (package / name).write_text(text)
    files = kernel_sources.closure(str(package / "inner" / "kernels.py"), "mine.inner.kernels")
    own = {str(Path(f).relative_to(package)) for f in files if Path(f).is_relative_to(package)}
    assert own == {"inner/kernels.py", "inner/near.py", "inner/__init__.py", "inner/late.py"}
    theirs = {str(Path(f).relative_to(PACKAGE)) for f in files if not Path(f).is_relative_to(package)}
    names = ("words", "types", "cache", "kernel", "sources", "deferred", "compiling", "intrinsics")
    assert theirs == {f"kernels/{name}.py" for name in names}


def test_kernels_of_formats_are_compiled_for_one_type_each() -> None:
    """What ``make prepare`` reads compiles the largest kernels, for the types that all readers call them with.

    In a process of its own: other tests call kernels with arrays of other types.
    """
    done = subprocess.run([sys.executable, "-c", COUNT_TYPES], capture_output=True, text=True, check=True)
    counts = ast.literal_eval(done.stdout)
    assert len(counts) == 6 and set(counts.values()) == {1}, counts


def of_size(place: Path, size: int, age: int) -> None:
    """A cache directory as Numba leaves one, last used ``age`` seconds after 1970."""
    (place / "inner").mkdir(parents=True, exist_ok=True)
    with (place / "inner" / "kernel.nbc").open("wb") as file:
        file.truncate(size)
    os.utime(place, (age, age))


def test_old_directories_are_deleted(tmp_path: Path) -> None:
    now = 10 * KEPT_SECONDS
    cache = KernelCache(tmp_path / "kernels")
    for name, age in (("a-1", KEPT_SECONDS + 1), ("a-2", KEPT_SECONDS - 9), ("b-1", KEPT_SECONDS + 1)):
        of_size(tmp_path / "kernels" / name, 10, now - age)
    of_size(tmp_path / "kernels-0123", 10, now - KEPT_SECONDS - 1)
    assert cache.claim("b-1") == (tmp_path / "kernels" / "b-1", True)
    os.utime(tmp_path / "kernels" / "b-1", (0, 0))
    assert cache.delete_unused(now) == ["a-1", "kernels-0123"]
    assert cache.claim("a-1") == (tmp_path / "kernels" / "a-1", False)


def test_too_many_bytes_are_deleted_by_last_use(tmp_path: Path) -> None:
    now = 10 * KEPT_SECONDS
    cache = KernelCache(tmp_path / "kernels")
    cache.claim("used")
    for i, name in enumerate(("used", "new", "kept", "gone", "oldest")):
        of_size(tmp_path / "kernels" / name, KEPT_BYTES // 2, now - 7200 * (i if i else 9))
    assert cache.delete_unused(now) == ["gone", "oldest"]
    for i, name in enumerate(("beginning", "kept", "new", "used")):
        of_size(tmp_path / "kernels" / name, KEPT_BYTES, now - i)
    assert cache.delete_unused(now) == [], "what was used within the hour may belong to a process that starts"


def test_what_a_running_process_uses_is_not_deleted(tmp_path: Path) -> None:
    """Nor what its forks use; only when the last of them has ended."""
    script = f"""
import os, signal, sys
from pathlib import Path
from tidemill.kernels.cache import KernelCache
cache = KernelCache(Path({str(tmp_path / "kernels")!r}))
cache.claim("before")
if os.fork():
    signal.pause()
cache.claim("after")
print("ready", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    other = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True)
    assert other.stdin is not None and other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    cache = KernelCache(tmp_path / "kernels")
    late = (tmp_path / "kernels" / "before").stat().st_mtime + 2 * KEPT_SECONDS
    assert cache.delete_unused(late) == []
    other.terminate()
    other.wait()
    assert cache.delete_unused(late) == [], "the fork lives"
    other.stdin.close()
    assert other.stdout.read() == "", "the fork has ended"
    assert cache.delete_unused(late) == ["after", "before"]
    assert len(list((tmp_path / "kernels" / "uses").iterdir())) == 1
    other.stdout.close()


def test_processes_that_compile_for_different_types_keep_each_others_code(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    types = ["int8", "int32", "uint64", "float32", "float64"]
    command, pipe = [sys.executable, "-c", SUM_OF_TYPES], subprocess.PIPE
    processes = [
        subprocess.Popen([*command, name], env=environment, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True)
        for name in types
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    for name, process in zip(types, processes, strict=True):
        assert process.stdout is not None
        assert process.stdout.read() == f"[({name!r}, 10.0)]\n1\n"
        process.wait()
        process.stdout.close()
    done = subprocess.run(
        [*command, *types], env=environment, cwd=tmp_path, input="", capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ready\n{[(name, 10.0) for name in types]}\n0\n", "all are loaded"


FULL = {
    "of bytes": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n",
    "of everything": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))\n",
    "of names": (
        "import errno, tempfile\n"
        "def full(*_, **__): raise OSError(errno.ENOSPC, 'full')\n"
        "tempfile.TemporaryFile = full\n"
    ),
}


@pytest.mark.parametrize("full", FULL)
def test_kernels_run_where_their_code_cannot_be_kept(tmp_path: Path, full: str) -> None:
    """As on a disk that has no more room."""
    (tmp_path / "sums.py").write_text(SUMS)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-B", "-c", FULL[full] + SUM_OF_TYPES, "int64", "float64"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, input="", capture_output=True, text=True)
    assert done.stdout == "ready\n[('int64', 10.0), ('float64', 10.0)]\n2\n", done.stderr


@pytest.mark.slow
def test_two_processes_compile_the_kernels_of_a_new_installation(tmp_path: Path) -> None:
    """Those of formats in one, all others in the other; then all can be loaded."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", IN_TWO], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("0 True\nTrue []\n", "")


def test_a_kernel_is_loaded_when_it_is_needed() -> None:
    """Importing loads none; a call loads the kernel and those that it calls, and pickling keeps it the one there is."""
    program = """
import pickle
import numpy as np
from tidemill.kernels.kernel import KERNELS
from tidemill.kernels.sorting import sort_rows
import tidemill.state.merge.merge

def loaded():
    return {kernel.__name__ for kernel in KERNELS if "dispatcher" in vars(kernel)}

print(len(KERNELS) > 10, loaded())
data = np.frombuffer(b"cab", np.uint8)
print(sort_rows(np.arange(4), data).tolist(), "sort_rows" in loaded(), len(loaded()) < len(KERNELS) // 2)
print(pickle.loads(pickle.dumps(sort_rows)) is sort_rows)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["True set()", "[1, 2, 0] True True", "True"]


def test_commands_load_what_they_need_alone() -> None:
    """``tidemill --help`` and completion answer at once; to read a view takes neither Spark nor a kernel."""
    for module, heavy in (
        ("tidemill.cli.commands", {"numba", "pandas", "pyspark", "duckdb"}),
        ("tidemill.cli.query.local", {"numba", "pandas", "pyspark", "duckdb", "httpx", "sqlglot", "typer"}),
    ):
        program = f"import sys, {module}; print(sorted({heavy} & {{*sys.modules}}))"
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (found.stdout.strip(), found.stderr) == ("[]", ""), module
