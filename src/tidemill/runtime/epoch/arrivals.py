"""Rows that do not come from listed files: over sockets, and in batches of Spark streams."""

from __future__ import annotations

from collections.abc import Collection

from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.ingest.batches import Ingestion
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.sockets.sockets import Sockets
from tidemill.state.versions.objects import Objects


class Arrivals(Sockets):
    """The sockets of a mill, and the batches that Spark streams write into its tables.

    Parameters
    ----------
    objects : Objects
        The root.
    """

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects.directory)
        self.ingestion = Ingestion(objects)

    def use(self, catalog: Catalog, created: str = "") -> None:
        """As :meth:`Sockets.use` and :meth:`Ingestion.use`, with their errors."""
        super().use(catalog, created)
        self.ingestion.use(catalog, created)

    def begin(self, catalog: Catalog, intake: Intake) -> None:
        """:meth:`use`, and the intake gets the batches that are there already, so that their history is known."""
        self.use(catalog)
        self.ingestion.inform(intake)

    def follow(self, intake: Intake, flush: bool = False) -> None:
        """As :meth:`Sockets.follow`; also for batches that have been committed."""
        super().follow(intake, flush)
        self.ingestion.inform(intake)

    def sealed(self, intake: Intake, epoch: int, durable: int) -> None:
        """As :meth:`Sockets.sealed` and :meth:`Ingestion.sealed`."""
        super().sealed(intake, epoch, durable)
        self.ingestion.sealed(intake, epoch, durable)

    def history_wanted(self, intake: Intake, tables: Collection[str]) -> list[str]:
        """As :meth:`Sockets.history_wanted` and :meth:`Ingestion.history_wanted`."""
        return [*super().history_wanted(intake, tables), *self.ingestion.history_wanted(intake, tables)]

    def close(self) -> None:
        """As :meth:`Sockets.close` and :meth:`Ingestion.close`."""
        super().close()
        self.ingestion.close()
