"""Writes ``docs/connectors.md``: ``python -m tidemill.cli.connectors_page > docs/connectors.md``."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.connectors.kinds import SOURCES, ConnectorKind
from tidemill.formats.registry import built_in
from tidemill.runtime.read.declared import connector_kinds, formats_table

_INTRODUCTION = """\
# Connectors

<!-- Written by `python -m tidemill.cli.connectors_page`; a test compares it with the declarations. -->

Where rows come from and go to, and what each of these can do. `SHOW CONNECTORS`, `SHOW FORMATS` and `SHOW OPTIONS`
answer the same, with what installed packages add ([Extending](extending.md)). *Tried* says what the tests run against.
"""


def page() -> str:
    """The page, in Markdown."""
    kinds = [kind for kind in connector_kinds() if kind in SOURCES or kind.direction == "out"]
    sources = [kind for kind in kinds if kind.direction == "in"]
    targets = [kind for kind in kinds if kind.direction == "out"]
    formats = [row for row in formats_table().to_pylist() if row["name"] in built_in()]
    return "\n".join(
        [
            _INTRODUCTION,
            "## Sources\n",
            _rows(
                ("name", "written", "each row counts", "later views get", "rows are taken back by", "columns inferred",
                 "library", "tried"),
                ((k.name, f"`{k.written}`", k.delivery, k.back_fill, k.deletes, k.inference, _library(k), k.tried)
                 for k in sources),
            ),
            "\n## Targets\n",
            _rows(
                ("name", "written", "each change arrives", "rows are taken back by", "library", "tried"),
                ((k.name, f"`{k.written}`", k.delivery, k.deletes, _library(k), k.tried) for k in targets),
            ),
            "\n## Formats\n",
            _rows(
                ("name", "what it reads", "columns inferred", "values of Kafka's messages"),
                ((f"`{f['name']}`", f["reads"], _yes(f["inference"]), _yes(f["in_messages"])) for f in formats),
            ),
            "",
        ]
    )  # fmt: skip


def _library(kind: ConnectorKind) -> str:
    return f"{kind.library} (`tidemill[{kind.extra}]`)" if kind.extra else kind.library


def _yes(flag: bool) -> str:
    return "yes" if flag else ""


def _rows(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    found = [list(heads), *map(list, rows)]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in found]
    return "\n".join([lines[0], "|" + "---|" * len(found[0]), *lines[1:]])


if __name__ == "__main__":
    print(page(), end="")
