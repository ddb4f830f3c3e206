"""What happens in a mill, as entries of the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.observing import CHECKPOINT, Ended, SpanKind, Value
from tidemill.runtime.epoch.report import EpochReport
from tidemill.serve.logs.events import (
    CHECKPOINT_WRITTEN,
    EPOCH_SEALED,
    EPOCH_SLOW,
    EPOCHS_ENDED,
    MILL_WARNING,
    SINK_FAILED,
    SINK_RECOVERED,
    VIEW_FAILED,
)
from tidemill.serve.logs.redaction import error_fields, message_fields
from tidemill.serve.logs.server_log import ServerLog

_SECONDS = 1.0
"""How often warnings are asked for that no epoch has reported, and the states of sinks."""

_ENDED = "TM7008"


class MillWatch:
    """Notes epochs, views that fail, warnings, checkpoints and sinks that fail, until it is closed.

    Parameters
    ----------
    slow_seconds : float
        Epochs that take longer are warnings; 0 for none.
    warnings : callable
        Gives the mill's new warnings to whoever keeps them; they come back to :meth:`warn`.
    """

    kinds = (CHECKPOINT,)

    def __init__(self, mill: Mill, log: ServerLog, slow_seconds: float, warnings: Callable[[], object]) -> None:
        self._mill, self._log, self._slow, self._warnings = mill, log, slow_seconds, warnings
        self._failing: dict[str, str] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="serve-watch", daemon=True)
        mill.on_epoch(self._epoch)
        mill.observers.add(self)
        self._thread.start()

    def close(self) -> None:
        """Note no more."""
        self._closed.set()
        self._mill.observers.remove(self)
        self._thread.join()

    # -- epochs -------------------------------------------------------------------------------------

    def _epoch(self, report: EpochReport) -> None:
        if self._closed.is_set():
            return
        log, times = self._log, report.milliseconds
        if log.notes(EPOCH_SEALED):
            log.note(
                EPOCH_SEALED,
                epoch=report.epoch,
                rows=report.rows_in,
                bytes=report.bytes_in,
                milliseconds=times["total"],
                backfilled=report.backfilled or None,
                malformed=report.rows_malformed or None,
            )
        if self._slow and times["total"] > self._slow * 1e3:
            phases = {phase: times[phase] for phase in ("admit", "run", "seal")}
            log.note(EPOCH_SLOW, epoch=report.epoch, milliseconds=times["total"], rows=report.rows_in, **phases)
        for view, message in report.failed.items():
            log.note(VIEW_FAILED, view=view, epoch=report.epoch, **message_fields(message))

    def warn(self, text: str) -> None:
        """Note a warning of the mill."""
        found = message_fields(text)
        if found.get("number") == _ENDED:
            self._log.note(EPOCHS_ENDED, epoch=self._mill.epoch, **(error_fields(self._mill.failure) or found))
        else:
            self._log.note(MILL_WARNING, **found)

    # -- checkpoints --------------------------------------------------------------------------------

    def begin(self, kind: SpanKind, since: float | None, parent: str) -> Ended:
        """A checkpoint begins."""
        began = time.perf_counter()

        def ended(attributes: dict[str, Value], error: BaseException | None) -> None:
            if error is None:
                milliseconds = (time.perf_counter() - began) * 1e3
                epoch, size = attributes["epoch"], attributes["bytes"]
                self._log.note(CHECKPOINT_WRITTEN, epoch=epoch, bytes=size, milliseconds=milliseconds)

        return ended

    def past(self, kind: SpanKind, start: float, end: float, attributes: dict[str, Value]) -> None:
        """Checkpoints are not reported afterwards."""

    # -- changes of state that have to be looked for ------------------------------------------------

    def _run(self) -> None:
        while not self._closed.wait(_SECONDS):
            try:
                self._warnings()
                self._sinks()
            except TidemillError as error:
                if error.number == "TM7012":  # the mill is closed
                    return
                self._log.note(MILL_WARNING, **error_fields(error))

    def _sinks(self) -> None:
        snapshot = self._mill.snapshot()
        if not snapshot.catalog.sinks:
            return
        statuses, failing = snapshot.sink_statuses(), {}
        for sink in snapshot.catalog.sinks.values():
            status = statuses.get(sink.id)
            if status is not None and status.state in ("retrying", "failed"):
                failing[sink.name] = status.error
                if self._failing.get(sink.name) != status.error:
                    self._log.note(SINK_FAILED, sink=sink.name, state=status.state, **message_fields(status.error))
            elif sink.name in self._failing and status is not None and status.state == "running":
                self._log.note(SINK_RECOVERED, sink=sink.name)
        self._failing = failing
