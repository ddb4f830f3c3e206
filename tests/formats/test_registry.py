"""Formats are found by name, built in or offered by a package."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from tidemill.errors import TidemillError
from tidemill.formats import registry


@pytest.fixture(autouse=True)
def forget_formats():
    registry._load.cache_clear()
    yield
    registry._load.cache_clear()


@pytest.fixture
def offer(monkeypatch):
    def install(name: str, value: str) -> None:
        entry = EntryPoint(name, value, registry.ENTRY_POINT_GROUP)
        groups = {registry.ENTRY_POINT_GROUP: [entry]}
        monkeypatch.setattr(registry, "entry_points", lambda *, group: groups[group])

    return install


def test_csv_in_any_case():
    assert registry.lookup("CSV") is registry.lookup("csv")
    assert registry.lookup("csv").name == "csv"


def test_unknown_format():
    with pytest.raises(TidemillError) as caught:
        registry.lookup("cvs")
    assert caught.value.number == "TM4001"
    assert caught.value.got == "cvs"
    assert caught.value.hint == "did you mean 'csv'?"


def test_a_package_offers_a_format(offer):
    offer("Tabular", "tidemill.formats.csv.format:CsvFormat")
    assert registry.lookup("tabular").name == "csv"


def test_a_package_cannot_replace_a_built_in(offer):
    offer("csv", "no.such:Thing")
    assert registry.lookup("csv").name == "csv"


def test_a_broken_package(offer):
    offer("hl7", "no.such.module:Thing")
    with pytest.raises(TidemillError) as caught:
        registry.lookup("hl7")
    assert caught.value.number == "TM4002"
    assert "no.such.module:Thing" in caught.value.got


def test_a_package_offers_something_else(offer):
    offer("odd", "builtins:dict")
    with pytest.raises(TidemillError) as caught:
        registry.lookup("odd")
    assert caught.value.number == "TM4002"
    assert "option_names" in caught.value.got or "name" in caught.value.got
