"""What a mill has sealed and what it gives to readers: version, catalogue and intake, which change together.

At the end of each turn one immutable :class:`~tidemill.runtime.read.snapshot.Snapshot` is published, by reference.
Readers take it without waiting for anything.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.config import Settings
from tidemill.observing import Observers
from tidemill.plan.algebra.nodes import Node
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.catalyst.frames import marked_frame, struct, unreadable_frame
from tidemill.plan.lowering.assemble import Assembler
from tidemill.plan.rules import rewrite
from tidemill.runtime.catalog import small_tables
from tidemill.runtime.catalog.assemblers import Assemblers
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.catalog.changes.explained import explained, explained_beside
from tidemill.runtime.catalog.initialising import initialising
from tidemill.runtime.catalog.state_tables import stored_tables
from tidemill.runtime.catalog.view_plans import with_read_plans
from tidemill.runtime.durability.checkpoints import Checkpoints, Sealed
from tidemill.runtime.durability.collector import InUse
from tidemill.runtime.durability.compactor import Compactor
from tidemill.runtime.durability.uploads import Buffered, Uploads
from tidemill.runtime.epoch.arrivals import Arrivals
from tidemill.runtime.job.epoch_job import broadcast_program
from tidemill.runtime.job.epoch_programs import EpochPrograms
from tidemill.runtime.read.readers import Readers
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.view_frame import pinning, view_frame
from tidemill.runtime.root import Recovered, Root
from tidemill.runtime.sinks.deliveries import Deliveries
from tidemill.runtime.sinks.delivery import Deliverable
from tidemill.runtime.spark.resident_slots import resident_slots
from tidemill.state.memory import share_of_task
from tidemill.state.store.compaction import Policy

_LEFT_OUT = 1 / 8
"""Of ``buffer_bytes`` what young merges that are not made durable may take beside it."""


class MillState:
    """The state of a mill. Its methods read it; :class:`~tidemill.runtime.epoch.coordinator.Coordinator` changes it.

    Parameters
    ----------
    root : Root
        Locked for writing.

    Attributes
    ----------
    version, catalog : Version, Catalog
        As of the newest sealed epoch.
    observers : Observers
        Called as epochs, checkpoints and compactions begin and end.
    """

    def __init__(self, root: Root, settings: Settings, spark: SparkSession) -> None:
        self._root = root
        self.objects = root.objects
        self.settings = settings
        self.spark = spark
        self._readers = Readers()
        self._warnings: list[str] = list(root.warnings)
        self._warnings_lock = threading.Lock()
        self.arrivals = Arrivals(root.objects)
        self.deliveries = Deliveries(self._deliverable)
        self.observers = Observers()
        self._claimed = False
        self._scattered = False
        self._begin_from(root.recovered)
        self.arrivals.begin(self.catalog, self._intake)
        self._readers.publish(self._snapshot())

    def _begin_from(self, recovered: Recovered) -> None:
        """Take over what the newest manifest says."""
        last, settings, context = recovered.last, self.settings, self.spark.sparkContext
        self.store, self.version, self.catalog = recovered.store, recovered.version, recovered.catalog
        self._intake = recovered.intake
        positions = last.catalog.get("sinks", {}) if last else {}
        self.catalog = replace(self.catalog, sinks=self.deliveries.begin(self.catalog.sinks, positions))
        self._buffered = Buffered()
        self._not_begun: set[str] = set(last.catalog["fresh"]) if last else set()
        self._resident_tasks = resident_slots(context, settings).tasks
        slots = max(1, context.defaultParallelism - self._resident_tasks)
        self.partitions = settings.partitions or slots
        self.catalyst = Catalyst(self.spark, self.catalog.time_zone)
        for name in (*self.catalog.tables, *self.catalog.views):
            self.catalyst.register(name, self.catalog.described(name)[0])
        self._current: EpochPrograms | None = None
        self._priorities: dict[tuple[str, int], int] = {}
        self._assemblers = Assemblers()
        self._stored = partial(stored_tables, assemblers=self._assemblers)
        self.catalog = with_read_plans(self.catalog, self._assembler(self.catalog))  # of a root of an older format
        self._outgrown = small_tables.Outgrown(settings.broadcast_bytes)
        self._initialising: tuple[Catalog, tuple[dict[int, int], frozenset[str]], dict[str, int]] | None = None
        self._catalog_json: tuple[Catalog, dict[str, Any]] | None = None
        self._task_memory = share_of_task(settings.memory_bytes, slots + self._resident_tasks)
        policy = Policy(settings.compact_after, settings.compact_bytes).within(self._task_memory)
        self._compactor = Compactor(context, self.store, slots - 1, policy, self.observers)
        self._checkpoints = Checkpoints(
            self._root.log,
            self.store,
            last,
            settings.checkpoint_seconds,
            settings.checkpoint_epochs,
            settings.garbage_grace_seconds,
            self.arrivals.synced(Uploads(context, self.store, settings.checkpoint_bytes).run),
            self._in_use,
            self.deliveries.wake,
            self.observers,
        )

    def _deliverable(self) -> Deliverable | None:
        """What sinks may deliver: nothing before a manifest of this mill has fenced all other writers."""
        if not self._claimed:
            return None
        snapshot = self.published
        return Deliverable(snapshot, min(self.durable_epoch, snapshot.version.epoch))

    def _in_use(self) -> InUse:
        """What garbage collection must leave alone."""
        in_flight, reading = self._compactor.in_flight(), self._compactor.reading()
        newest = self.version
        return InUse(newest.files(), (reading, *self._readers.files(newest)), in_flight)

    # -- reading ------------------------------------------------------------------------------------

    @property
    def published(self) -> Snapshot:
        """The newest sealed version, as it was at the end of the last turn."""
        return self._readers.newest

    @property
    def durable_epoch(self) -> int:
        """The newest epoch that a crash cannot take back."""
        return self._checkpoints.durable_epoch

    def snapshot(self, durable: bool = False) -> Snapshot:
        """The newest sealed version, or the newest that a crash cannot take back. Does not wait."""
        last = self._checkpoints.durable
        return self._readers.durable(self.store, last) if durable and last.catalog else self.published

    def relation(self, name: str) -> DataFrame:
        """A table or view as a DataFrame to build queries of, which does not read. TM2012 when there is none."""
        types, uid = self.published.catalog.described(name)
        return pinning(unreadable_frame(self.spark, name, struct(self.spark, types), self.catalyst.mark(name, uid)))

    def view_frame(self, session: SparkSession, snapshot: Snapshot, name: str, epoch: int | None = None) -> DataFrame:
        """A view as a DataFrame that can be read and that queries of views can be built of. Errors as reading it."""
        frame = view_frame(session, snapshot, name, epoch)
        if epoch is not None or not {name} & (snapshot.catalog.views.keys() | snapshot.catalog.tables.keys()):
            return frame
        schema, uid = snapshot.catalog.described(name)
        return pinning(marked_frame(frame, name, schema, self.catalyst.mark(name, uid)), snapshot)

    def plan(self, query: str | DataFrame, at: tuple[int, int] = (1, 1)) -> Node:
        """The algebra of a query that stands at a line and column. Errors as :meth:`Catalyst.plan`."""
        return rewrite(self.catalyst.plan(query, at))

    def explain(self, query: str | DataFrame) -> str:
        """The incremental plan of a query as text. Errors as :meth:`plan`, and what cannot be maintained."""
        sealed = self.published
        return explained(sealed.catalog, self.plan(query), sealed.version.epoch, self._sizes())

    def explain_view(self, name: str) -> str:
        """The incremental plan of a view as text."""
        catalog = self.published.catalog
        return explained_beside(catalog, catalog.views[name].definition)

    def _publish(self) -> None:
        """Let readers see what is sealed now."""
        self._readers.release_durable(self._checkpoints.durable)
        old = self.published
        same = old.version is self.version and old.catalog is self.catalog and old.store is self.store
        if not same or old.initialising or self._not_begun:
            self._readers.publish(self._snapshot(old))
        self.deliveries.wake()

    def _snapshot(self, published: Snapshot | None = None) -> Snapshot:
        """What is sealed now; read plans of a published snapshot of the same catalog are kept."""
        return Snapshot(
            self.store,
            self.version,
            self.catalog,
            self._initialising_of(self.catalog),
            self._intake.tally.counts_to_json(),
            self.arrivals.status,
            queues=lambda: self._intake.queues(),
            sink_statuses=self.deliveries.statuses,
            plans=published.plans if published is not None and published.catalog is self.catalog else {},
        )

    # -- what follows from the state ----------------------------------------------------------------

    def _assembler(self, catalog: Catalog, moving: frozenset[str] | None = None) -> Assembler:
        return self._assemblers.of(catalog.active_views(), catalog.tables, moving)

    def _programs(self) -> EpochPrograms:
        """The programs of the catalogue's views; from now on the intake reads the tables that they scan."""
        if self._current is None:
            catalog, context = self.catalog, self.spark.sparkContext
            self._current = EpochPrograms(partial(self._assembler, catalog), partial(broadcast_program, context))
            self._priorities = self.catalog.priorities()
        self._intake.use(self._current.scanned, self._priorities)
        return self._current

    def _sizes(self) -> partial[int | None]:
        return partial(self._intake.size, most=self.settings.broadcast_bytes)  # None: it may be no small side of a join

    def _initialising_of(self, catalog: Catalog) -> dict[str, int]:
        """Views that do not have their whole history yet, with the bytes of it that remain."""
        remaining = self._intake.history_remaining()
        if not remaining and not self._not_begun:
            return {}
        known, asked = self._initialising, (remaining, frozenset(self._not_begun))
        if known is None or known[0] is not catalog or known[1] != asked:
            known = catalog, asked, initialising(catalog, self._assembler(catalog), *asked)
            self._initialising = known
        return known[2]

    def _noting_complete(self, catalog: Catalog) -> Catalog:
        """The catalog with the newest epoch noted for views that have become complete."""
        initialising = self._initialising_of(catalog)
        complete = {v.name for v in catalog.active_views() if v.complete_since is None and v.name not in initialising}
        return catalog.with_complete(complete, self.version.epoch) if complete else catalog

    def _sealed(self) -> Sealed:
        """What a checkpoint makes durable."""
        if self._catalog_json is None or self._catalog_json[0] is not self.catalog:
            self._catalog_json = self.catalog, self.catalog.to_json()
        catalog = {
            "catalog": self._catalog_json[1],
            "fresh": sorted(self._not_begun),
            "filling": self._initialising_of(self.catalog),
            "sinks": self.deliveries.positions(),
            **self._intake.to_json(),
        }
        # Where hosts read what others have sealed, all must be durable
        left_out = 0 if self._scattered else int(_LEFT_OUT * self.settings.buffer_bytes)
        return Sealed(self.version, catalog, left_out)

    def _warn(self, *warnings: str) -> None:
        with self._warnings_lock:
            self._warnings += warnings

    def _new_warnings(self) -> tuple[str, ...]:
        with self._warnings_lock:
            new, self._warnings = self._warnings, []
        return tuple(new)
