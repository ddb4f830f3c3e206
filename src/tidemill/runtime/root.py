"""A root locked for writing and checked, before anything slow begins. Needs no Spark."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.durability.migrations import migrated
from tidemill.runtime.intake.intake import Intake
from tidemill.sources.locations.allowed_paths import AllowedPaths
from tidemill.state.store.file_names import checkpoint_of
from tidemill.state.store.store import RunStore, default_buffer
from tidemill.state.versions.lease import make_readers_file
from tidemill.state.versions.manifest import Manifest, ManifestLog, begun, no_root
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Version


@dataclass(frozen=True)
class Recovered:
    """The state in the newest manifest; ``last`` is None when there is none yet."""

    last: Manifest | None
    store: RunStore
    version: Version
    catalog: Catalog
    intake: Intake


class Root:
    """A place for state and manifests, locked against other writers on this host until :meth:`release`.

    Parameters
    ----------
    root : str or path
        Made when it is missing.
    settings : Settings
        For the buffer directory.

    Attributes
    ----------
    recovered : Recovered
        Its state when it was locked.
    warnings : tuple of str
        TM1023, if newer manifests are missing.
    released : bool
        Whether the lock was released.
    allowed : AllowedPaths
        Where tables may have their files, and sinks write.

    Raises
    ------
    TidemillError
        TM1003 when another process writes it; TM1002, TM1004 to TM1006, TM1009 to TM1011, TM1013, TM1016 and TM1022
        when it cannot be used; TM1040 and TM7006 for the time zone; TM5045 for a table or sink whose path is not
        allowed.
        Nothing has been changed then. Only the buffer directory of this host is checked.
    """

    def __init__(self, root: str | os.PathLike[str], settings: Settings) -> None:
        self.objects = Objects(root)
        self._made = _missing(self.objects.directory)
        self.log = ManifestLog(self.objects, create=True)
        given = settings.buffer_directory
        self._zone = settings.time_zone
        self._buffer = Path(given).expanduser().absolute() if given else default_buffer(self.objects)
        self.allowed = AllowedPaths(settings.allowed_paths, self.objects.url)
        self.released = False
        self.log.lock()
        try:
            self.recovered = self.recover()
            self.recovered.store.check_buffer()
            for table in self.recovered.catalog.tables.values():
                self.allowed.check(table.name, table.options)
            for sink in self.recovered.catalog.sinks.values():
                self.allowed.check_target(sink.name, sink.location, sink.options)
            self.warnings = _warnings(self.recovered)
            make_readers_file(self.objects.directory)
        except BaseException:
            self.release()
            raise

    def recover(self) -> Recovered:
        """The newest durable epoch, to begin from or to go back to. Errors as of the constructor."""
        return _newest(self.log, self._buffer, self.allowed, self._zone)

    def release(self) -> None:
        """Unlock it. A directory that was made for it is removed if nothing was made durable in it."""
        if self._made and begun(self.objects):
            shutil.rmtree(self._made[0], ignore_errors=True)
            for directory in self._made[1:]:
                with suppress(OSError):  # others use it meanwhile
                    directory.rmdir()
        self.log.unlock()
        self.released = True


def _missing(directory: Path | None) -> list[Path]:
    """A directory and its parents that do not exist, the innermost first."""
    return [] if directory is None else [d for d in (directory, *directory.parents) if not d.exists()]


def look_at(root: str | os.PathLike[str], allowed: AllowedPaths) -> Recovered:
    """The newest durable epoch of a root, which another mill may be writing. TM1001 when there is no root."""
    objects = Objects(root)
    found = _newest(ManifestLog(objects, create=False), default_buffer(objects), allowed)
    if found.last is None:
        raise no_root(objects)
    return found


def _newest(log: ManifestLog, buffer: Path, allowed: AllowedPaths, time_zone: str = "") -> Recovered:
    last = migrated(newest) if (newest := log.latest()) else None
    store = RunStore(log.objects, buffer)
    version = last.version if last else Version.empty()
    store.check_present(version.files())
    catalog = (Catalog.from_json(last.catalog["catalog"]) if last else Catalog()).in_zone(time_zone)
    intake = Intake(catalog, store, version, last.catalog if last else {}, allowed)
    return Recovered(last, store, version, catalog, intake)


def _warnings(found: Recovered) -> tuple[str, ...]:
    """TM1023 when newer manifests are missing: there are files of a checkpoint after the next one.

    If only the newest manifest is missing, that looks like a mill that was killed before it wrote it.
    """
    number = found.last.number if found.last else 0
    newest = max((checkpoint_of(file) for file in found.store.present()), default=0)
    if newest <= number + 1:
        return ()
    error = TidemillError(
        "TM1023",
        "newer manifests than the newest one have gone",
        got=f"manifest {number} is the newest, and there are state files of checkpoint {newest}",
        hint=f"the mill continues from epoch {found.version.epoch} and reads the later input again; if the manifests "
        "were not moved away on purpose, stop it within two minutes and put them back",
    )
    return (error.message(),)
