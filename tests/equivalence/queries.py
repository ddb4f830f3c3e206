"""Ordinary queries over the usual tables, in files that each make the views of one mill."""

from __future__ import annotations

import re
from pathlib import Path

from tidemill.plan.sql.statements import split_script

_DIRECTORY = Path(__file__).with_name("queries")
_CREATE = re.compile(r"CREATE MATERIALIZED VIEW (\w+) AS\s(.*)", re.DOTALL)


def read_views(path: Path) -> dict[str, str]:
    """Name to query of the views of a script that only creates views."""
    views = {}
    for source in split_script(path.read_text()):
        match = _CREATE.fullmatch(source.text)
        assert match is not None, f"{path}, line {source.line}"
        views[match[1]] = match[2]
    return views


GROUPS = {path.stem: read_views(path) for path in sorted(_DIRECTORY.glob("*.sql"))}
ALL = {name: query for views in GROUPS.values() for name, query in views.items()}
