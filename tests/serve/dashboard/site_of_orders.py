"""A served mill of orders, and pages whose consoles are watched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page
from pyspark.sql import SparkSession

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service

TABLE = "CREATE TABLE orders (customer STRING, amount BIGINT, day DATE) USING csv OPTIONS (path '{data}/*.csv')"
VIEWS = (
    "CREATE MATERIALIZED VIEW spending AS SELECT customer, COUNT(*) AS n, SUM(amount) AS amount FROM orders "
    "GROUP BY customer",
    "CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n, SUM(amount) AS amount FROM orders",
    "CREATE MATERIALIZED VIEW lines AS SELECT customer, amount, day FROM orders",
)
READ, WRITE = "r" * 20, "w" * 20
"""Tokens."""

_VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective + " " + e.blockedURI));
"""


@dataclass
class Site:
    """A mill, and a server in front of it that can be ended and begun again on the same port."""

    mill: Mill
    data: Path
    settings: dict[str, Any]
    service: Service
    server: Server
    files: int = 0

    @staticmethod
    @contextmanager
    def opened(spark: SparkSession, folder: Path, **settings: Any) -> Iterator[Site]:
        """A site below a folder, with two orders in its first epoch."""
        data = folder / "data"
        data.mkdir()
        chosen = Settings(master="local[2]", partitions=2, listing_seconds=0.0, small_epoch_bytes=1 << 20)
        mill = Mill(folder / "root", spark=spark, settings=chosen)
        service = Service(mill, ServerSettings(**{"port": 0, **settings}))
        site = Site(mill, data, settings, service, Server(service))
        site.server.__enter__()
        try:
            mill.sql(TABLE.format(data=data))
            for view in VIEWS:
                mill.sql(view)
            site.add(("ann", 5), ("bob", 7))
            yield site
        finally:
            site.end()
            mill.close()

    @property
    def url(self) -> str:
        """The page."""
        return f"{self.server.addresses['http']}/dashboard/"

    def add(self, *orders: tuple[str, int]) -> None:
        """Write orders, and run epochs over all that there is to be read."""
        self.files += 1
        day = f"2024-01-{self.files % 28 + 1:02}"
        names = [name.replace('"', '""') for name, _ in orders]
        lines = [f'"{name}",{amount},{day}\n' for name, (_, amount) in zip(names, orders, strict=True)]
        (self.data / f"{self.files}.csv").write_text("".join(lines))
        assert list(self.mill.drain())

    def end(self) -> None:
        """End the server; the mill stays open."""
        self.server.__exit__()
        self.service.close()

    def begin_again(self) -> None:
        """A server on the port of the one before."""
        port = int(self.server.addresses["http"].rpartition(":")[2])
        self.service = Service(self.mill, ServerSettings(**{**self.settings, "port": port}))
        self.server = Server(self.service)
        self.server.__enter__()


@dataclass
class Watched:
    """Opens pages. ``said`` has what their consoles said, errors that nobody caught, and violations of a policy.

    ``refusals`` are allowed while it is set: browsers report each answer of 4xx, and lost connections.
    """

    browser: Browser
    contexts: list[BrowserContext]
    refusals: bool = False
    pages: list[Page] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def open(self, **options: Any) -> Page:
        """A page in a context of its own."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(60_000)
        context.add_init_script(_VIOLATIONS)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.pages.append(page)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if not (self.refusals and message.text.startswith("Failed to load resource")):
            self.errors.append(f"{message.type}: {message.text}")

    @property
    def said(self) -> list[str]:
        """Everything that should not have been."""
        return [*self.errors, *(v for page in self.pages for v in page.evaluate("window.violations"))]
