"""Arrows only downwards: which room may import which (docs/architecture.md, section 2)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill

PACKAGE = Path(tidemill.__file__).parent

LAYERS = (
    {
        "cli",
        "command_settings",
        "running",
        "querying",
        "change_table",
        "pipelines",
        "progress_display",
        "output",
        "testing",
    },
    {"mill"},
    {"runtime"},
    {"plan"},
    {"task"},
    {"sources", "formats", "state", "exchange"},
    {"connectors", "objectstore", "schema", "ddl", "errors", "config", "kernel_cache", "kernel_sources", "zones"},
)
"""From top to bottom. A room imports itself and the layers below; rooms of one layer do not know each other,
except those at the top and the bottom."""

CLOSED = {"sources", "formats", "state", "exchange"}

ENTRY = {"__init__", "__main__"}
"""``tidemill/__init__.py`` names the public API, ``__main__.py`` runs the command; nobody inside imports them."""

SPARK_ROOMS = {"runtime", "mill"}
SPARK_FILES = {
    "plan/catalyst.py",
    "plan/catalyst_frames.py",
    "plan/function_examples.py",
    "task/functions/python_functions.py",
}
"""Who may import pyspark or py4j; the last one for the Row that a user's function gets."""

ANALYSER_FILES = {*SPARK_FILES, "plan/catalyst_plan.py", "plan/catalyst_expressions.py"}
"""Those that may import pyspark ask Spark's analyser; the others read the trees it gives, as plain ``Any``."""

ANALYSER_NAMES = {"_jsparkSession", "_jdf", "_jvm", "sessionState", "queryExecution", "optimizedPlan"}

JAVA_FILES = {"runtime/session.py", "runtime/shuffle.py"}
"""Tell Java how to take signals, and where records go; ask the analyser nothing."""


def sources() -> list[Path]:
    """All modules of the package."""
    return sorted(p for p in PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """The first part of a module's name below ``tidemill``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            if module == "tidemill" or (PACKAGE.parent / module.replace(".", "/")).is_dir():
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def layer(name: str) -> int:
    return next(i for i, rooms in enumerate(LAYERS) if name in rooms)


def allowed(importer: str, imported: str) -> bool:
    """Whether one room may know another."""
    if importer == imported or importer in ENTRY:
        return True
    above, below = layer(importer), layer(imported)
    if above == below:
        return above in (0, len(LAYERS) - 1) and importer not in CLOSED
    return above < below


def test_every_room_has_its_place() -> None:
    rooms = {room(p) for p in sources()} - ENTRY
    assert rooms <= set().union(*LAYERS), "a new room needs a layer"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    wrong = []
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] != "tidemill" or len(parts) < 2:
            continue
        if not allowed(room(path), parts[1]):
            wrong.append(f"line {line}: {room(path)} imports {name}")
    assert not wrong


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_some_know_spark(path: Path) -> None:
    relative = str(path.relative_to(PACKAGE))
    if room(path) not in SPARK_ROOMS and relative not in SPARK_FILES:
        spark = [f"line {line}: {name}" for line, name in imports(path) if name.split(".")[0] in ("pyspark", "py4j")]
        assert not spark
    if relative not in ANALYSER_FILES:
        names = {n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
        assert not names & (ANALYSER_NAMES - {"_jvm"} if relative in JAVA_FILES else ANALYSER_NAMES)


def is_twin(name: str) -> bool:
    """Whether a module says in plain Python what another one does fast, for tests."""
    last = name.rpartition(".")[2]
    return last in ("plain_table", "reference") or last.endswith("_reference")


def test_only_twins_import_twins() -> None:
    """What is tested must not be made of what it is tested against."""
    wrong = []
    for path in sources():
        if not is_twin(path.stem):
            names = [(line, n) for line, name in imports(path) for n in (name, name.rpartition(".")[0])]
            wrong += [
                f"{path}:{line}: {name}" for line, name in names if name.startswith("tidemill.") and is_twin(name)
            ]
    assert not wrong


TWIN_OF = {
    "csv/plain_table.py": ("csv.header", "csv.rows", "csv.buffer_index", "csv.row_ends", "csv.one_line"),
    "csv/reference.py": ("csv", "delimiters"),
    "generator/reference.py": ("generator.columns",),
    "json/reference.py": ("json.columns", "json.rows", "json.walk", "json.index", "json.elements", "json.texts"),
    "native/reference.py": ("native.rows",),
    "orderbook/reference.py": ("orderbook.replay",),
    "values/reference.py": ("values.columns", "values.times", "values.integers", "values.floats", "values.decimals"),
}
"""What twins must not be made of, below ``tidemill.formats``."""


@pytest.mark.parametrize("twin", TWIN_OF)
def test_twins_stand_alone(twin: str) -> None:
    names = {name.removeprefix("tidemill.formats.") for _, name in imports(PACKAGE / "formats" / twin)}
    forbidden = TWIN_OF[twin]
    assert not {n for n in names if n in forbidden or n.startswith(tuple(f"{f}." for f in forbidden))} - {
        "csv.options",
        "csv.reference",
    }


def test_importing_the_package_does_not_start_spark() -> None:
    """``tidemill query`` answers simple statements without it."""
    for name in ("cli.py", "output.py", "running.py", "querying.py", "runtime/snapshot.py", "__init__.py"):
        tree = ast.parse((PACKAGE / name).read_text())
        top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {n.module or "" for n in top if isinstance(n, ast.ImportFrom)}
        modules |= {a.name for n in top if isinstance(n, ast.Import) for a in n.names}
        assert not any(m.split(".")[0] in ("pyspark", "py4j") for m in modules), name
        assert "tidemill.mill" not in modules, name
