"""SHOW CONNECTORS, SHOW FORMATS and SHOW OPTIONS, and the page that says the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mill_factory import MillFactory
from tidemill.cli.connectors_page import page
from tidemill.connectors.kinds import SOURCES
from tidemill.errors import TidemillError
from tidemill.formats.registry import built_in
from tidemill.runtime.read.declared import OPTIONS, connector_kinds
from tidemill.sinks.registry import TARGETS

DOCUMENT = Path(__file__).parent.parent / "docs" / "connectors.md"


def test_the_page_is_what_is_declared() -> None:
    assert DOCUMENT.read_text() == page(), "python -m tidemill.cli.connectors_page > docs/connectors.md"


def test_extras_are_those_of_the_distribution() -> None:
    """An extra that is named brings the library that is named."""
    project = tomllib.loads((DOCUMENT.parent.parent / "pyproject.toml").read_text())["project"]
    for kind in connector_kinds():
        if kind.extra:
            found = project["optional-dependencies"][kind.extra]
            assert any(line.startswith(kind.library) for line in found), kind.name


def test_statements(mill_factory: MillFactory) -> None:
    """Also over a snapshot, without Spark."""
    mill = mill_factory()
    shown = mill.sql("SHOW CONNECTORS").collect()  # type: ignore[union-attr]
    assert {(r["name"], r["direction"]) for r in shown} >= {
        *((kind.name, "in") for kind in SOURCES),
        *((name, "out") for name in TARGETS),
    }
    assert {r["name"] for r in mill.sql("show formats").collect()} >= set(built_in())  # type: ignore[union-attr]
    options = mill.snapshot().show("options").to_pylist()
    assert len(options) == sum(len(group.options) for group in OPTIONS)
    assert {o["name"] for o in options if o["secret"]} >= {"awsSecretKey", "kafka.sasl.password", "bearerToken"}
    with pytest.raises(TidemillError, match="TM4001") as raised:
        mill.sql("CREATE TABLE t (a INT) USING protobuf OPTIONS (path '/tmp')")
    assert "tidemill.formats" in raised.value.hint
