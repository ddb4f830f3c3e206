"""A served mill and a browser for the tests of the dashboard, one of each for a module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pyspark.sql import SparkSession
from site_of_orders import READ, WRITE, Site, Watched

expect.set_options(timeout=60_000)  # beside other tests a page may take long


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as the system has it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found is not None, "these tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])  # root has no sandbox
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A served mill with orders and views of them."""
    with Site.opened(spark, tmp_path_factory.mktemp("site")) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The same with tokens."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text(f"read {READ}\nwrite {WRITE}\n")
    with Site.opened(spark, folder, tokens=str(tokens)) as found:
        yield found


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """Opens pages; what their consoles say, and what a policy forbade, is asserted to be nothing at the end."""
    with _watching(browser) as found:
        yield found
        assert found.said == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """A page of a desk's width."""
    return watched.open()


@contextmanager
def _watching(browser: Browser) -> Iterator[Watched]:
    contexts: list[BrowserContext] = []
    yield Watched(browser, contexts)
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def hostile_text() -> str:
    """A text that would run if it were taken for markup anywhere."""
    return "</td></script><img src=x onerror=\"window.hurt='data'\"><svg onload=window.hurt='svg'>"
