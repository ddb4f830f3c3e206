"""Imports point only downwards: which room may import which (docs/architecture.md, section *The rooms*)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tidemill

PACKAGE = Path(tidemill.__file__).parent

LAYERS = (
    {"cli", "demo", "algos", "pipelines", "testing"},
    {"serve"},
    {"mill", "loader"},
    {"spark_source", "runtime"},
    {"plan", "sinks", "exchange"},
    {"task"},
    {"sources", "formats", "state"},
    {"kernels", "connectors", "objectstore", "options", "schema", "ddl", "errors", "config", "zones", "observing"},
)
"""From top to bottom. A room imports itself and the layers below; rooms of one layer do not know each other, except
those at the top and the bottom."""

CLOSED = {"loader", "mill", "sources", "formats", "state", "exchange", "spark_source", "runtime", "sinks"}

MOST_FILES = 17
"""A folder with more files than about 15 is to be divided."""

ENTRY = {"__init__", "__main__"}
"""``tidemill/__init__.py`` names the public API, ``__main__.py`` runs the command; nobody inside imports them."""

SPARK_ROOMS = {"runtime", "spark_source", "mill"}
SPARK_FILES = {
    "plan/catalyst/analyser.py",
    "plan/catalyst/frames.py",
    "plan/catalyst/parsing.py",
    "plan/catalyst/planner.py",
    "plan/catalyst/sessions.py",
    "plan/catalyst/reach.py",
    "plan/documentation/function_examples.py",
    "task/functions/python_functions.py",
}
"""Who may import pyspark or py4j; the last one for the Row that a user's function gets."""

ANALYSER_FILES = {*SPARK_FILES, "plan/catalyst/plan.py", "plan/catalyst/expressions/expressions.py"}
"""Those that may import pyspark ask Spark's analyser; the others read the trees it gives, as plain ``Any``."""

ANALYSER_NAMES = {"_jsparkSession", "_jdf", "_jvm", "sessionState", "queryExecution", "optimizedPlan"}

JAVA_FILES = {"runtime/spark/session.py", "runtime/job/shuffle.py"}
"""Tell Java how to take signals, and where records go; ask the analyser nothing."""


@cache
def sources() -> tuple[Path, ...]:
    """All modules of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


def room(path: Path) -> str:
    """The first part of a module's name below ``tidemill``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """What a file is made of, as far as it concerns imports and names."""
    wanted = ast.Import | ast.ImportFrom | ast.Attribute
    return tuple(n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, wanted))


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and full name of every import, wherever in the file it stands."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(path):
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


def test_imports_point_downwards() -> None:
    wrong = []
    for path in sources():
        for line, name in imports(path):
            parts = name.split(".")
            if parts[0] == "tidemill" and len(parts) > 1 and not allowed(room(path), parts[1]):
                wrong.append(f"{path}:{line}: {room(path)} imports {name}")
    assert not wrong


def test_only_some_know_spark() -> None:
    wrong = []
    for path in sources():
        relative = str(path.relative_to(PACKAGE))
        if room(path) not in SPARK_ROOMS and relative not in SPARK_FILES:
            found = imports(path)
            wrong += [f"{path}:{line}: {name}" for line, name in found if name.split(".")[0] in ("pyspark", "py4j")]
        if relative not in ANALYSER_FILES:
            names = {n.attr for n in nodes(path) if isinstance(n, ast.Attribute)}
            refused = names & (ANALYSER_NAMES - {"_jvm"} if relative in JAVA_FILES else ANALYSER_NAMES)
            wrong += [f"{path}: {name}" for name in sorted(refused)]
    assert not wrong


def targets(path: Path) -> Iterator[Path]:
    """The files of the package that a file imports, wherever in it the import stands."""
    for _, name in imports(path):
        parts = name.split(".")
        if parts[0] == "tidemill":
            for end in range(len(parts), 1, -1):
                place = PACKAGE.joinpath(*parts[1:end])
                found = next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.exists()), None)
                if found is not None:
                    if found != path:
                        yield found
                    break


def circles(arrows: dict[Path, set[Path]]) -> list[list[str]]:
    """Sets of two and more that all reach one another, by Tarjan's algorithm for strongly connected components."""
    numbers: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    stack: list[Path] = []
    found = []

    def visit(node: Path) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for further in sorted(arrows.get(node, ())):
            if further not in numbers:
                visit(further)
                lowest[node] = min(lowest[node], lowest[further])
            elif further in stack:
                lowest[node] = min(lowest[node], numbers[further])
        if lowest[node] == numbers[node]:
            at = stack.index(node)
            circle = stack[at:]
            del stack[at:]
            if len(circle) > 1:
                found.append(sorted(str(p.relative_to(PACKAGE)) for p in circle))

    for node in sorted(arrows):
        if node not in numbers:
            visit(node)
    return found


def test_circles_are_found() -> None:
    a, b, c, d = (PACKAGE / name for name in "abcd")
    assert circles({a: {b}, b: {c}, c: {a}, d: {a}}) == [["a", "b", "c"]]
    assert circles({a: {b, c}, b: {d}, c: {d}}) == []


def test_no_circle_of_files() -> None:
    """Imports within functions and for types count, too."""
    assert circles({path: set(targets(path)) for path in sources()}) == []


def test_no_circle_of_folders() -> None:
    """A folder's ``__init__.py`` may name what lies above its files: it is what the folder offers."""
    arrows: dict[Path, set[Path]] = {}
    for path in sources():
        if path.parent != PACKAGE and path.name != "__init__.py":
            folders = {target.parent for target in targets(path)} - {path.parent, PACKAGE}
            arrows.setdefault(path.parent, set()).update(folders)
    assert circles(arrows) == []


def test_no_two_modules_of_tests_have_one_name() -> None:
    """pytest imports each of them from the top level, and collects nothing when two collide."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py") if path.name != "conftest.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_no_folder_is_too_full() -> None:
    counts = Counter(path.parent for path in sources() if path.name != "__init__.py")
    assert {str(folder.relative_to(PACKAGE)): n for folder, n in counts.items() if n > MOST_FILES} == {}


ORACLES = Path(__file__).parent / "formats"

ORACLE_OF = {
    "csv_plain_table.py": ("csv.header", "csv.rows", "csv.buffer_index", "csv.row_ends", "csv.one_line"),
    "csv_reference.py": ("csv", "text.delimiters"),
    "generator_reference.py": ("generator.columns",),
    "json_reference.py": ("json.columns", "json.rows", "json.indexing"),
    "native_reference.py": ("native.rows",),
    "orderbook_reference.py": ("orderbook.replay",),
    "value_reference.py": ("values.columns.columns", "values.times.times", "values.numbers"),
    "chosen_reference.py": ("values.columns", "values.texts", "values.numbers"),
    "pattern_reference.py": ("values.times.pattern_times", "values.times.times", "values.columns"),
}
"""The formats in plain Python, and what these oracles must not be made of, below ``tidemill.formats``."""


@pytest.mark.parametrize("oracle", ORACLE_OF)
def test_what_oracles_must_not_use_exists(oracle: str) -> None:
    """A module that has moved would be forbidden under its old name only."""
    formats = PACKAGE / "formats"
    paths = [formats.joinpath(*name.split(".")) for name in ORACLE_OF[oracle]]
    assert [str(p) for p in paths if not p.with_suffix(".py").is_file() and not (p / "__init__.py").is_file()] == []


@pytest.mark.parametrize("oracle", ORACLE_OF)
def test_oracles_stand_alone(oracle: str) -> None:
    names = {name.removeprefix("tidemill.formats.") for _, name in imports(ORACLES / oracle)}
    forbidden = ORACLE_OF[oracle]
    assert not {
        n
        for n in names
        if (n in forbidden or n.startswith(tuple(f"{f}." for f in forbidden))) and not n.startswith("csv.options")
    }


def test_importing_the_package_does_not_start_spark() -> None:
    """``tidemill query`` answers simple statements without it."""
    for name in (
        "cli/commands.py",
        "cli/query/output.py",
        "cli/run/running.py",
        "cli/query/local.py",
        "runtime/read/snapshot.py",
        "__init__.py",
    ):
        tree = ast.parse((PACKAGE / name).read_text())
        top = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        modules = {n.module or "" for n in top if isinstance(n, ast.ImportFrom)}
        modules |= {a.name for n in top if isinstance(n, ast.Import) for a in n.names}
        assert not any(m.split(".")[0] in ("pyspark", "py4j") for m in modules), name
        assert "tidemill.mill" not in modules, name
