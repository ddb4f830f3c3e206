"""The documentation: links lead somewhere, files that it names exist, and its snippets run."""

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions

import tidemill as tm
from mill_factory import MillFactory
from tidemill import pipelines
from tidemill.mill import Mill
from tidemill.plan.sql.statements import split_script
from tidemill.runtime.read.file_status import FILES_SCHEMA
from tidemill.runtime.sockets.socket_status import STATUS_SCHEMA

ROOT = Path(__file__).parent.parent
PAGES = [*(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = {"functions.md", "options.md"}

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"`([\w./]+/[\w.]+\.(?:py|sql|md|xz))`")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"path '([^']*)'")
_REMOTE = re.compile(r",\s*(?:region|useNotifications|queueUrl|backfillInterval) '[^']*'")


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", page.read_text())


def without_code(text: str) -> str:
    """A text without what is in back quotes."""
    return re.sub(r"`[^`]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    heads = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


def blocks(page: Path, language: str) -> list[str]:
    """The snippets of a language."""
    return [code for found, code in _BLOCK.findall(page.read_text()) if found == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(without_code(text_of(page))):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_file(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} names no heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    if "decisions" in page.parts or page.name == "CHANGELOG.md":
        return  # these say what was once
    bases = (ROOT, ROOT / "src" / "tidemill", page.parent)
    missing = [n for n in _FILE.findall(text_of(page)) if not any((base / n).exists() for base in bases)]
    assert [n for n in missing if not n.startswith(("/", "var/", "s3"))] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_not_too_long(page: Path) -> None:
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        assert code or len(line) <= 120 or line.startswith("|") or page.name in GENERATED, f"{page.name}:{number}"


def test_the_site_is_built(tmp_path: Path) -> None:
    """Strictly: a page that no menu has, a link or anchor that leads nowhere, is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "every view equals" in (tmp_path / "site" / "how-it-works" / "index.html").read_text()


class World:
    """What the snippets of a page name: ``/data`` and ``s3://bucket`` are directories of a test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def moved(self, code: str) -> str:
        """Code with its paths below the directory, and without what only objects have."""
        code = _REMOTE.sub("", code)
        for place in ("/data", "s3://bucket", "/var/lib"):
            code = code.replace(place, str(self.directory / place.strip("/").replace("://", "-")))
        return code.replace("tcp+listen://0.0.0.0:5501", "tcp+listen://127.0.0.1:0").replace(
            "tcp://feed-1:7000,tcp://feed-2:7000", "tcp+listen://127.0.0.1:0"
        )

    def prepare(self, statement: str) -> None:
        """Make what a CREATE TABLE reads: a directory, an empty file, or a record that columns come from."""
        found = _PATH.search(statement)
        if found is None or "://" in found[1]:
            return
        path = Path(found[1])
        if re.search(r"[*?{]", path.name) or path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not re.search(r"[*?{]", str(path)):
                path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)
            if re.match(r"CREATE TABLE \w+ USING json", statement):
                (path / "1.json").write_text('{"id": 1, "kind": "a"}\n')

    def write(self, name: str, *lines: str) -> None:
        """A file below ``/data``."""
        path = self.directory / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))


def run_sql(mill: Mill, world: World, page: Path, before: Sequence[str] = ()) -> list[str]:
    """Run the statements of a page; a table that another snippet has created is created again. What was created."""
    created = list(before)
    for block in blocks(page, "sql"):
        for source in split_script(world.moved(block)):
            statement = source.text.strip()
            world.prepare(statement)
            name = re.match(r"(?:--[^\n]*\s+)*CREATE (TABLE|MATERIALIZED VIEW) (\w+)", statement)
            if name is not None and name[2] in created:
                mill.sql(f"DROP TABLE {name[2]}")
            mill.sql(statement)
            created += [name[2]] if name is not None else []
    return created


@pytest.mark.parametrize("name", ["README.md", "docs/pipelines.md"])
def test_the_pipeline_of(name: str, mill_factory: MillFactory, tmp_path: Path) -> None:
    """Against sums in a dictionary."""
    world, mill = World(tmp_path), mill_factory()
    orders = [(1, 1, 900), (2, 1, 200), (3, 2, 50), (4, 3, 5000)]
    world.write("orders/1.csv", "id,customer,amount,op", *(f"{i},{c},{a}.00,I" for i, c, a in orders), "4,3,5000.00,D")
    world.write("customers.csv", "customer,name", "1,Ada", "2,Bob", "3,Cy")
    assert run_sql(mill, world, ROOT / name) == ["orders", "customers", "spending", "best_customers"]
    assert sum(report.rows_in for report in mill.drain()) == 8
    sums: dict[int, int] = {}
    for _, customer, amount in orders[:3]:
        sums[customer] = sums.get(customer, 0) + amount
    assert {r["customer"]: int(r["amount"]) for r in mill.read("spending").to_pylist()} == sums
    assert [(r["name"], int(r["amount"])) for r in mill.read("best_customers").to_pylist()] == [("Ada", 1100)]


@pytest.mark.parametrize("name", ["changelogs", "formats", "objects", "sources"])
def test_statements_of(name: str, mill_factory: MillFactory, tmp_path: Path) -> None:
    world, mill = World(tmp_path), mill_factory()
    if name == "sources":  # its first queries are about a table of another page
        world.write("orders/1.csv", "1,2.5")
        mill.sql(world.moved("CREATE TABLE orders (id BIGINT, amount DOUBLE) USING csv OPTIONS (path '/data/orders')"))
        mill.sql(world.moved("CREATE TABLE ticks (symbol STRING) USING json OPTIONS (path 'tcp+listen://127.0.0.1:0')"))
    created = run_sql(mill, world, ROOT / "docs" / f"{name}.md", list(mill.snapshot().catalog.tables))
    assert len(created) >= 2
    for relation in set(created):
        assert mill.sql(f"DESCRIBE {relation}")


@pytest.fixture
def script(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs Python of a page over files of orders; gives what its names stand for then."""
    monkeypatch.setattr(tm, "Mill", partial(Mill, spark=spark))
    world = World(tmp_path)
    world.write("orders/1.json", *(json.dumps({"customer": c, "amount": a}) for c, a in ((1, 2.5), (1, 0.5), (2, 4.0))))

    def run(code: str, **names: Any) -> dict[str, Any]:
        found = {"spark": spark, "F": functions, **names}
        exec(compile(world.moved(code), "snippet", "exec"), found)
        return found

    run.world = world  # type: ignore[attr-defined]
    yield run


@pytest.mark.parametrize("name", ["README.md", "docs/pipelines.md"])
def test_python_of(name: str, script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script(blocks(ROOT / name, "python")[0].replace("timeout=5", "timeout=1"))
    told = capsys.readouterr().out
    if name == "README.md":
        assert "amount: [[3,4]]" in re.sub(r"\s+", "", told).replace("amount:", "amount: ")


def test_a_pipeline_in_python(mill_factory: MillFactory, tmp_path: Path) -> None:
    world, mill = World(tmp_path), mill_factory()
    world.write("orders/1.csv", "1,2.5", "1,0.5", "2,4.0")
    (code,) = (b for b in blocks(ROOT / "docs" / "pipelines.md", "python") if "materialized_view" in b)
    (tmp_path / "pipeline.py").write_text(world.moved(code))
    assert pipelines.apply(mill, tmp_path / "pipeline.py") == ["spending"]
    assert sum(report.rows_in for report in mill.drain()) == 3
    assert {r["customer"]: r["amount"] for r in mill.read("spending").to_pylist()} == {1: 3.0, 2: 4.0}


def test_spark_both_ways(script: Any, mill_factory: MillFactory) -> None:
    bucket = script.world.directory / "s3-bucket" / "clicks" / "a"
    bucket.mkdir(parents=True)
    with gzip.open(bucket / "1.json.gz", "wt") as file:
        file.write('{"user": 7, "at": "2026-01-01T00:00:00Z"}\n')
    (code,) = blocks(ROOT / "docs" / "spark.md", "python")
    mill = mill_factory()
    names = script(code.replace(".start()", ".trigger(availableNow=True).start().awaitTermination()"), mill=mill)
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT user, COUNT(*) AS n FROM seen GROUP BY user")
    assert sum(report.rows_in for report in mill.drain()) == 1
    assert mill.read("v").to_pylist() == [{"user": 7, "n": 1}]
    assert names["clicks"].isStreaming


def test_formats_without_a_mill(script: Any) -> None:
    notes = script.world.directory / "data" / "notes"
    notes.mkdir(parents=True)
    with gzip.open(notes / "1.csv.gz", "wt") as file:
        file.write("id,note\n1,x\n")
    (code,) = blocks(ROOT / "docs" / "formats.md", "python")
    lines = code.replace("spark.read", "frame = spark.read").replace(
        "tidemill.formats.open(", "table = tidemill.formats.open("
    )
    names = script(lines)
    assert [tuple(row) for row in names["frame"].collect()] == [(1, "x")]
    assert names["table"].to_pydict() == {"a": [1], "b": ["x"]}


def first_cells(page: str, after: str) -> list[str]:
    """The names in back quotes in the first column of the table that follows a text."""
    rows = (ROOT / "docs" / page).read_text().partition(after)[2].partition("|---")[2].splitlines()[1:]
    cells = [row.split(" | ")[0] for row in takewhile(lambda row: row.startswith("|"), rows)]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_columns_of_show_and_of_status_tables(mill_factory: MillFactory) -> None:
    snapshot = mill_factory().snapshot()
    assert first_cells("sql.md", "`SHOW TABLES`:") == snapshot.show("tables").column_names
    assert first_cells("sql.md", "`SHOW VIEWS`, and") == snapshot.show("views").column_names
    assert first_cells("queues.md", "SHOW QUEUES") == snapshot.show("queues").column_names
    (sinks,) = re.findall(
        r"^`SHOW SINKS` has (.*?)\n\n", (ROOT / "docs" / "sql.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert re.findall(r"`(\w+)`", sinks) == snapshot.show("sinks").column_names
    files = first_cells("sql.md", "[formats](formats.md#malformed-rows) |\n| `<table>__status`")
    assert sorted(files) == sorted(f.name for f in FILES_SCHEMA)
    connections = first_cells("sql.md", "how often it was tried, when it is tried again")
    assert sorted(connections) == sorted(f.name for f in STATUS_SCHEMA)


def test_python_can_be_compiled() -> None:
    """Parts of files, which cannot run alone."""
    found = blocks(ROOT / "docs" / "extending.md", "python")
    assert len(found) >= 3
    for code in found:
        ast.parse(textwrap.dedent(code).replace("…", "..."))
