"""What lies in a root: its state tables, their runs, its files, the rows in them. Needs neither Spark nor a lock."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.catalog.state_tables import stored_columns, stored_tables
from tidemill.runtime.durability.migrations import migrated
from tidemill.runtime.read.snapshot import from_manifest
from tidemill.schema import WEIGHT
from tidemill.state.keys.keys import Keys, decode
from tidemill.state.merge.merge import Rows, merge
from tidemill.state.runs.sst import RunFile, Section
from tidemill.state.store.file_errors import not_fetched
from tidemill.state.store.file_names import epoch_of
from tidemill.state.store.store import OBJECTS, RunStore, default_buffer
from tidemill.state.versions.manifest import Manifest, ManifestLog, held_by, no_root
from tidemill.state.versions.objects import Objects, Stored
from tidemill.state.versions.version import RUN, SST, Run
from tidemill.task.program import StateTable

_HEX_BYTES = 24
_TABLES = ("table", "runs", "rows", "bytes", "history_bytes", "buffered_rows", "buffered_bytes")
_MISSING = "missing_files"
_EPOCHS = ("first_epoch", "last_epoch")
_FILES = ("file", "place", "bytes", "tables", "rows", *_EPOCHS, "used_by")
_RUNS = ("file", "section", "rows", "bytes", "level", "first_vnode", "last_vnode", *_EPOCHS, "added", "removed")
_KEYS = ("first_key", "last_key")
_SECTIONS = ("section", "table", "rows", "bytes", "first_vnode", "last_vnode", *_EPOCHS, *_KEYS, "state")
_TEXTS = {"table", "file", "name", "place", "used_by", *_KEYS, "state", "detail", "why"}


@dataclass(frozen=True)
class StateReport:
    """The contents of one root, as of its newest durable epoch."""

    store: RunStore
    log: ManifestLog
    newest: Manifest

    @staticmethod
    def open(root: str | os.PathLike[str], buffer: str | None = None) -> StateReport:
        """Look into a root, with or without a mill running on it.

        Parameters
        ----------
        buffer : str, optional
            The buffer directory of this host, where it is not the usual one.

        Raises
        ------
        TidemillError
            TM1001 when there is no root, TM1002, TM1004, TM1006 and TM1013 when it cannot be read.
        """
        log, store = opened(root, buffer)
        newest = log.latest()
        if newest is None:
            raise no_root(log.objects)
        return StateReport(store, log, migrated(newest))

    def title(self) -> str:
        """One line about the root."""
        version, (epoch, _) = self.newest.version, self.sealed
        more = f"; epoch {epoch} is sealed" if epoch > version.epoch else ""
        return (
            f"{self.log.objects}: epochs {version.horizon} to {version.epoch} are durable, "
            f"in manifest {self.newest.number} by {self.newest.writer}{more}"
        )

    def sizes(self) -> str:
        """One line about what is needed for the newest durable epoch, and what only for the history of earlier ones."""
        version = self.newest.version
        newest = sum(r.bytes for runs in version.tables.values() for r in runs)
        history = sum(r.bytes for runs in version.retired.values() for r in runs)
        whole = sum(s.bytes for s in self.present.values())
        return (
            f"{newest:,} bytes are needed for epoch {version.epoch}, {history:,} more for the history back to epoch "
            f"{version.horizon}; all {len(self.present)} durable files have {whole:,}"
        )

    def missing(self) -> str:
        """A message when files are missing that the newest manifest names; empty when all are there."""
        gone = sorted(f for f in self.newest.version.files() if self._is_missing(f))
        if not gone:
            return ""
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        return (
            f"missing: {OBJECTS}{gone[0]}{more}, which manifest {self.newest.number} names; "
            "`tidemill state verify` says what is intact"
        )

    def _is_missing(self, file: str) -> bool:
        return file.endswith(SST) and file not in self.present

    @cached_property
    def present(self) -> Mapping[str, Stored]:
        """The durable state files that are there, listed after the newest manifest was read. TM1016 as listing."""
        return durable(self.log.objects)

    @cached_property
    def _noted(self) -> tuple[int, frozenset[str]]:
        """The newest epoch that the mill that writes the root, if one does, has sealed on this host, and the files of
        this host's buffer that it reads.

        Whether a mill writes a root in an object store is unknown; its last writer is assumed to.
        """
        directory = self.log.objects.directory
        writer = self.newest.writer if directory is None else held_by(directory)
        return (self.store.sealed(writer) if writer else None) or (0, frozenset())

    @property
    def sealed(self) -> tuple[int, frozenset[str]]:
        """The newest sealed epoch, and the files of this host's buffer that hold what is not durable of it."""
        epoch, files = self._noted
        durable_epoch = self.newest.version.epoch
        return max(epoch, durable_epoch), frozenset(f for f in files if epoch_of(f) > durable_epoch)

    @cached_property
    def layouts(self) -> Mapping[str, StateTable]:
        """The state tables that the catalogue knows, by id."""
        return stored_tables(Catalog.from_json(self.newest.catalog["catalog"]))

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the key columns of state tables, by id, as far as the plan knows them."""
        return stored_columns(Catalog.from_json(self.newest.catalog["catalog"]))

    @cached_property
    def buffered(self) -> Mapping[str, RunFile]:
        """Complete files of this host's buffer, by name, those of failed task attempts included."""
        found = {}
        for name, _ in sorted(self.store.buffered()):
            try:
                found[name] = RunFile(self.store.path(name))
            except TidemillError:  # still being written, or just removed
                continue
        return found

    def tables(self) -> pa.Table:
        """One row per state table: runs, rows before merging and bytes now, what is sealed and not durable yet, and how
        many of the files that it needs are missing."""
        version = self.newest.version
        rows: dict[str, int] = defaultdict(int)
        size: dict[str, int] = defaultdict(int)
        for name in self.sealed[1] & self.buffered.keys():
            for section in self.buffered[name].sections:
                rows[section.table] += section.rows
                size[section.table] += section.length
        found = []
        for table in sorted({*version.tables, *version.retired, *(t for t, n in rows.items() if n)}):
            runs = version.runs(table)
            history = sum(r.bytes for r in version.retired.get(table, ()))
            sums = (len(runs), sum(r.rows for r in runs), sum(r.bytes for r in runs), history)
            gone = {r.file for r in (*runs, *version.retired.get(table, ())) if self._is_missing(r.file)}
            found.append((table, *sums, rows[table], size[table], *_span(runs), len(gone)))
        return report_table((*_TABLES, *_EPOCHS, _MISSING), found)

    def files(self) -> pa.Table:
        """One row per file: where it is, its contents, and who needs it.

        ``used_by`` is ``newest`` for a file that the newest epoch reads, ``history`` for one that only older epochs
        do, ``manifest n`` for one that only an older manifest names, and ``nothing``; in the buffer it is ``next
        checkpoint`` for one that is sealed, ``mill`` for another one that the mill reads, such as
        a young merge, of which manifests have the inputs, and ``unsealed`` for one of a later epoch, which is running
        or failed. ``place`` is ``missing`` for a file that is named and not there.
        """
        visible = _by_file(r for runs in self.newest.version.tables.values() for r in runs)
        every = _by_file(self.newest.version.every())
        older, objects = self._older(), self.present
        found: list[tuple[Any, ...]] = []
        for name in sorted({*objects, *every, *older}):
            runs = every.get(name) or older.get(name, (0, []))[1]
            if name in visible:
                used = "newest"
            elif name in every:
                used = "history"
            else:
                used = f"manifest {older[name][0]}" if name in older else "nothing"
            place = "durable" if name in objects else "missing"
            size = objects[name].bytes if name in objects else None
            found.append((name, place, size, *_contents(runs), *_span(runs), used))
        sealed, waiting = self.sealed
        for name, _ in sorted(self.store.buffered()):
            file = self.buffered.get(name)
            contents: tuple[int | None, int | None] = (None, None)
            if file is not None:
                contents = len({s.table for s in file.sections}), sum(s.rows for s in file.sections)
            epoch = epoch_of(name)
            used = "unsealed" if epoch > sealed else "nothing"
            if name in waiting:
                used = "next checkpoint"
            elif name in self._noted[1]:
                used = "mill"
            found.append((name, "buffer", _size(self.store.path(name)), *contents, epoch, epoch, used))
        return report_table(_FILES, found)

    def _older(self) -> dict[str, tuple[int, list[Run]]]:
        """For each file that a manifest names the newest of them, and its runs there; damaged ones say nothing."""
        found: dict[str, tuple[int, list[Run]]] = {}
        for number in reversed([n for n in self.log.numbers() if n <= self.newest.number]):
            try:
                version = self.log.read(number).version
            except (TidemillError, FileNotFoundError):
                continue
            for name, runs in _by_file(version.every()).items():
                found.setdefault(name, (number, runs))
        return found

    def find(self, name: str) -> str:
        """The state table or file for the name of a table, view or file, or the beginning of a file's name.

        TM1037 when there is none, or several.
        """
        version = self.newest.version
        tables = {*version.tables, *version.retired, *(s.table for f in self.buffered.values() for s in f.sections)}
        if name in tables:
            return name
        known = {*durable(self.log.objects), *version.files(), *(n for n, _ in self.store.buffered())}
        start = Path(name).name.rstrip("….")
        files = [f for f in known if start and f.startswith(start)]
        if len(files) == 1:
            return files[0]
        snapshot = from_manifest(self.store, version, self.newest.catalog)
        if name in snapshot.catalog.views:
            return snapshot.plan(name).table.id
        raise TidemillError(
            "TM1037",
            "there is no state table or state file of this name",
            got=f"{name}, with which {len(files)} files begin" if files else name,
            hint="give more of the name" if files else nearest(name, {*tables, *snapshot.catalog.views}),
        )

    @staticmethod
    def is_file(found: str) -> bool:
        """Whether what :meth:`find` found is a file."""
        return found.endswith((SST, RUN))

    def runs(self, table: str) -> pa.Table:
        """One row per run of a table, oldest changes first; those that only older epochs see have ``removed``."""
        version = self.newest.version
        found = []
        for run in (*version.retired.get(table, ()), *version.runs(table)):
            place = (run.file, run.section, run.rows, run.bytes, run.level, run.vnode_low, run.vnode_high - 1)
            found.append((*place, run.epoch_low, run.epoch_high, run.added, run.removed))
        return report_table(_RUNS, found)

    def sections(self, file: str) -> pa.Table:
        """One row per section of a file, with its state. TM1010, TM1011 or TM1002 when its footer cannot be read."""
        runs = {r.section: r for r in self.newest.version.every() if r.file == file}
        damage = self.store.damage(file)
        found = []
        for index, section in enumerate(self.store.sections(file)):
            epochs = _span([runs[index]] if index in runs else [])
            if not file.endswith(SST):
                epochs = epoch_of(file), epoch_of(file)
            vnodes: tuple[int | None, ...] = (None, None)
            keys, state = ("", ""), "TM1011" if index in damage else "intact"
            if section.rows and index not in damage:
                stored = self._section(file, index, section).keys
                ends = (0, len(stored) - 1)
                vnodes = tuple(int.from_bytes(stored[i][:2], "big") for i in ends)
                keys = (self._key(section.table, stored, 0), self._key(section.table, stored, ends[1]))
            found.append((index, section.table, section.rows, section.length, *vnodes, *epochs, *keys, state))
        return report_table(_SECTIONS, found)

    def rows(self, name: str, most: int) -> Iterator[tuple[str, pa.Table]]:
        """The first rows of a table, merged, or of each section of a file, with a title.

        Key columns have the names that the plan has for them, or ``k0``, ...; values are called ``v0``, ..., or
        ``__weight`` in a table that has only weights.
        A table that the catalogue does not know has its keys as bytes, and is not merged.
        """
        if self.is_file(name):
            for index, section in enumerate(self.store.sections(name)):
                rows = self._section(name, index, section)
                yield f"section {index}, {section.table}", self._decoded(section.table, _first(rows, most))
            return
        runs = [self.store.open(r) for r in self.newest.version.runs(name)]
        if runs and name in self.layouts:
            runs = [merge(runs, self.layouts[name].ops, drop_zero=False)]
        for rows in runs:
            yield name, self._decoded(name, _first(rows, most))

    def _section(self, file: str, index: int, section: Section) -> Rows:
        return self.store.open(Run(section.table, file, index, section.rows, section.length, 0, 0, 0))

    def _decoded(self, table: str, rows: Rows) -> pa.Table:
        layout = self.layouts.get(table)
        keys = [rows.keys.to_arrow()] if layout is None else decode(rows.keys, layout.key)
        known = self.columns.get(table, ())
        names = list(known) if len(known) == len(keys) else [f"k{i}" for i in range(len(keys))]
        values = [f"v{i}" for i in range(len(rows.values))]
        names += [WEIGHT] if layout is not None and layout.drops_zero else values
        names = [n if n not in names[:i] else f"{n}#{i}" for i, n in enumerate(names)]
        return pa.table([*keys, *rows.values], names=names)

    def _key(self, table: str, keys: Keys, row: int) -> str:
        layout = self.layouts.get(table)
        if layout is None:
            text = keys[row].hex()
            return text if len(text) <= 2 * _HEX_BYTES else text[: 2 * _HEX_BYTES] + "…"
        columns = decode(keys.slice(row, row + 1), layout.key)
        return ", ".join(_literal(column[0].as_py()) for column in columns)


def opened(root: str | os.PathLike[str], buffer: str | None = None) -> tuple[ManifestLog, RunStore]:
    """The manifests and files of a root that exists. TM1001, TM1006, TM1013 when there is none."""
    objects = Objects(root)
    directory = Path(buffer).expanduser().absolute() if buffer else default_buffer(objects)
    return ManifestLog(objects, create=False), RunStore(objects, directory)


def durable(objects: Objects) -> dict[str, Stored]:
    """The durable state files of a root by their names in manifests. TM1016 when they cannot be listed."""
    try:
        return {s.name.removeprefix(OBJECTS): s for s in objects.list(OBJECTS) if s.name.endswith(SST)}
    except OSError as error:
        raise not_fetched(error) from error


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return repr(value) if isinstance(value, str) else str(value)


def _by_file(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.file, []).append(run)
    return found


def _contents(runs: Sequence[Run]) -> tuple[int, int]:
    return len({r.table for r in runs}), sum(r.rows for r in runs)


def _span(runs: Sequence[Run]) -> tuple[int | None, int | None]:
    """The first and last epoch whose changes are in some runs."""
    return min((r.epoch_low for r in runs), default=None), max((r.epoch_high for r in runs), default=None)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _first(rows: Rows, most: int) -> Rows:
    return rows.slice(0, min(most, len(rows)))


def report_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as a table of text and numbers, by the names of columns."""
    types = [pa.string() if n in _TEXTS else pa.int64() for n in names]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=list(names))
