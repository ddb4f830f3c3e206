"""What comes to the tables of a mill by itself: over sockets, from Spark streams, from databases."""

from __future__ import annotations

from collections.abc import Collection

from tidemill.errors import TidemillError
from tidemill.runtime.capture.captures import Captures
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.durability.uploads import Upload
from tidemill.runtime.ingest.batches import Ingestion
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.sockets.sockets import Sockets
from tidemill.runtime.spools.spools import Spools
from tidemill.state.versions.objects import Objects


class Arrivals(Sockets):
    """The sockets of a mill, the batches that Spark streams write into its tables, and what databases send.

    Parameters
    ----------
    objects : Objects
        The root.
    """

    def __init__(self, objects: Objects) -> None:
        self.spools = Spools(objects.directory)
        super().__init__(self.spools)
        self.ingestion = Ingestion(objects)
        self.captures = Captures(objects.url, self.spools)

    def use(self, catalog: Catalog, created: str = "") -> None:
        """Follow what comes to the tables of a catalog, and delete what came to dropped ones.

        Errors as :meth:`Sockets.use`, :meth:`Captures.use` and :meth:`Ingestion.use`.
        """
        super().use(catalog, created)
        self.captures.use(catalog, created)
        self.spools.tidy(catalog)
        self.ingestion.use(catalog, created)

    def begin(self, catalog: Catalog, intake: Intake) -> None:
        """:meth:`use`, and the intake gets the batches that are there already, so that their history is known."""
        self.use(catalog)
        self.ingestion.inform(intake)

    def take_over(self, intake: Intake, flush: bool = False) -> list[TidemillError]:
        """Pass what has come to an intake. TM5022 and as :meth:`Intake.follow`.

        With ``flush`` also what was received and not written yet, and what is committed at databases now; the result is
        then that of :meth:`Captures.wait`.
        """
        self.follow(flush)
        self.spools.follow(intake)
        self._make_room(intake)
        unanswered = self.captures.wait() if flush else []
        if flush:
            self.spools.follow(intake)
        self.ingestion.inform(intake)
        return unanswered

    def _make_room(self, intake: Intake) -> None:
        """Say how far spools have been read: what they retain of it does not wait."""
        read = self.spools.consumed(intake)
        self.consumed(read)
        self.captures.consumed(read)

    def synced(self, upload: Upload) -> Upload:
        """As :meth:`Spools.synced`."""
        return self.spools.synced(upload)

    def sealed(self, intake: Intake, epoch: int, durable: int) -> None:
        """As :meth:`Spools.sealed` and :meth:`Ingestion.sealed`."""
        self._make_room(intake)
        self.spools.sealed(intake, epoch, durable)
        self.ingestion.sealed(intake, epoch, durable)

    def history_wanted(self, intake: Intake, tables: Collection[str]) -> list[str]:
        """As :meth:`Spools.history_wanted` and :meth:`Ingestion.history_wanted`."""
        return [*self.spools.history_wanted(intake, tables), *self.ingestion.history_wanted(intake, tables)]

    def close(self) -> None:
        """As :meth:`Sockets.close`, :meth:`Captures.close` and :meth:`Ingestion.close`."""
        super().close()
        self.captures.close()
        self.ingestion.close()
