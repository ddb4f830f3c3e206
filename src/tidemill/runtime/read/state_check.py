"""Checks that the files of a root are present and intact, and finds those not needed. Without Spark."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.runtime.durability.migrations import migrated
from tidemill.runtime.read.state_report import durable, opened, report_table
from tidemill.state.store import garbage
from tidemill.state.store.store import OBJECTS, RunStore
from tidemill.state.versions.manifest import ManifestLog, begun
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import SST, Run

_NEWER = "newer format"
_STATES = {"TM1002": "older format", "TM1004": "damaged", "TM1010": "missing", "TM1011": "damaged"}


@dataclass(frozen=True)
class Checked:
    """One manifest or state file: its size, and ``intact`` or what is wrong with it."""

    name: str
    bytes: int
    state: str
    detail: str
    manifests: tuple[int, ...]
    """The manifest it is, or those that name it."""

    @property
    def intact(self) -> bool:
        """Whether every byte is as it was written."""
        return self.state == "intact"


@dataclass(frozen=True)
class Verification:
    """What :func:`verify` found: all manifests, newest first, then all files that any of them names."""

    root: str
    manifests: tuple[Checked, ...]
    files: tuple[Checked, ...]

    @property
    def intact(self) -> bool:
        """Whether every manifest and every file that one names is as it was written."""
        return all(c.intact for c in (*self.manifests, *self.files))

    @property
    def complete(self) -> list[int]:
        """Numbers of the manifests that are intact with every file they name, newest first."""
        broken = {n for c in (*self.manifests, *self.files) if not c.intact for n in c.manifests}
        return [c.manifests[0] for c in self.manifests if c.manifests[0] not in broken]

    def table(self, damaged_only: bool = False) -> pa.Table:
        """One row per manifest and file: name, bytes, state, the first and last manifest that names it, and details."""
        rows = [
            (c.name, c.bytes, c.state, c.manifests[0], c.manifests[-1], c.detail)
            for c in (*self.manifests, *self.files)
            if not (damaged_only and c.intact)
        ]
        return report_table(("name", "bytes", "state", "first_manifest", "last_manifest", "detail"), rows)

    def summary(self) -> str:
        """What was checked, what is intact, and what to do about the rest."""
        checks = (*self.manifests, *self.files)
        checked = f"{len(self.manifests)} manifests and {len(self.files)} files, {sum(c.bytes for c in checks):,} bytes"
        if self.intact:
            return f"{self.root}: {checked} checked: all intact"
        bad = sum(not c.intact for c in checks)
        lines = [f"{self.root}: {checked} checked: {bad} not intact"]
        newest = self.manifests[0].manifests[0]
        behind = self.complete[:1]  # damage of manifests before that one does not matter
        ahead = [c for c in checks if not behind or c.manifests[-1] > behind[0]]
        if any(c.state == _NEWER for c in ahead):
            lines.append(
                "  TM1002: what has a newer format was written by a newer version of Tidemill: upgrade Tidemill and "
                "verify again, before anything else"
            )
        elif newest in self.complete:
            lines.append(f"  manifest {newest}, the newest, is intact with all its files: a mill continues from it")
        elif self.complete:
            lines.append(
                f"  restore what is not intact from a copy of the root; or go back to manifest {self.complete[0]}, "
                f"which is intact with all its files, by moving the later ones out of {self.root}/manifest: "
                "the mill reads again what came after it"
            )
        else:
            lines.append("  restore what is not intact from a copy of the root, or start a new root from the input")
        return "\n".join(lines)


def verify(root: str | os.PathLike[str], buffer: str | None = None) -> Verification:
    """Read every manifest, and every file that one of them names, and check every byte.

    Objects that are not files of this machine are fetched anew, one at a time, into a temporary directory.

    Raises
    ------
    TidemillError
        TM1001 and TM1006 when there is no manifest at all, TM1013 when the root cannot be read.
    """
    log, store = opened(root, buffer)
    sizes = {s.name: s.bytes for s in log.objects.list("manifest/")}
    with contextlib.suppress(TidemillError):  # reported file by file
        sizes |= {s.name: s.bytes for s in durable(log.objects).values()}
    manifests: list[Checked] = []
    needed: dict[str, list[int]] = {}
    named: dict[str, set[Run]] = {}
    for number in reversed(log.numbers()):
        name = log.name(number)
        state, detail = "intact", ""
        try:
            version = log.read(number).version
            for file in version.files():
                needed.setdefault(file, []).append(number)
            for run in version.every():
                named.setdefault(run.file, set()).add(run)
        except FileNotFoundError:
            continue  # a running mill has just removed it
        except TidemillError as error:
            state, detail = _state(error), _said(error)
        manifests.append(Checked(name, sizes.get(name, 0), state, detail, (number,)))
    with tempfile.TemporaryDirectory(prefix="tidemill-verify-") as copies:
        fresh = store if log.objects.directory is not None else RunStore(log.objects, Path(copies))
        files = []
        for name in sorted(needed):
            place = fresh if name.endswith(SST) else store
            files.append(_checked(place, name, sizes, sorted(needed[name]), named[name]))
    present = set(log.numbers())
    return Verification(
        log.objects.url,
        tuple(m for m in manifests if m.manifests[0] in present or not m.intact),
        tuple(f for f in files if f.intact or not present.isdisjoint(f.manifests)),
    )


def _checked(
    store: RunStore, file: str, sizes: Mapping[str, int], manifests: Sequence[int], runs: Iterable[Run]
) -> Checked:
    state, detail = "intact", ""
    name = OBJECTS + file if file.endswith(SST) else file
    size = sizes.get(name) or _size(store.path(file))
    try:
        store.verify(file)
        for run in runs:
            store.check(run)
        if store.objects.directory is None:
            store.evict([file])
    except TidemillError as error:
        state, detail = _state(error), _said(error)
    return Checked(name, size, state, detail, tuple(manifests))


def _state(error: TidemillError) -> str:
    if error.number == "TM1002" and "newer" in error.what:
        return _NEWER
    return _STATES.get(error.number, "unreadable")


def _said(error: TidemillError) -> str:
    return f"{error.number}: {error.got}"


@dataclass(frozen=True)
class Unneeded:
    """A file that is not needed: its name, where it is (``manifest``, ``durable``, ``buffer``), bytes and why."""

    name: str
    place: str
    bytes: int
    why: str


@dataclass(frozen=True)
class Collected:
    """What :func:`collect` found, and how many more unneeded files are younger than ``grace`` seconds."""

    files: tuple[Unneeded, ...]
    young: int
    grace: float
    nothing_durable: bool = False
    """Whether a mill has begun the root and nothing is durable yet, so that it is unknown what is needed."""

    def table(self) -> pa.Table:
        """One row per file."""
        return report_table(("name", "place", "bytes", "why"), [(f.name, f.place, f.bytes, f.why) for f in self.files])

    def summary(self, removed: bool) -> str:
        """How many files and bytes were removed, or would be."""
        if self.nothing_durable:
            return "a mill has begun this root and nothing is durable yet: nothing was removed"
        verb = "removed" if removed else "would remove"
        text = f"{verb} {len(self.files)} files, {sum(f.bytes for f in self.files):,} bytes"
        if self.young:
            text += f"; {self.young} more that nothing names stay, as they are younger than {self.grace:g} s"
        return text


def collect(
    root: str | os.PathLike[str], buffer: str | None = None, grace: float | None = None, remove: bool = True
) -> Collected:
    """Find, and remove, state files and files of this host's buffer that no kept manifest names, and old manifests.

    Finds nothing while there is no manifest yet.

    The rule is a mill's own, :func:`tidemill.state.store.garbage.garbage`; as no mill runs, nothing is read or in
    flight.

    Only for a root that no mill writes. One in a directory is locked; one in an object store cannot be, so it is taken
    over by a manifest, and a mill that still runs stops with TM1003 before it can publish what names a file that went.

    Parameters
    ----------
    grace : float, optional
        The least age of a file in seconds, for readers of older versions; by default as in a mill. Files that were
        being written stay longer.
    remove : bool
        Whether to remove it, and to take a root over that cannot be locked.

    Raises
    ------
    TidemillError
        TM1003 while a mill runs; TM1038 when something cannot be removed; TM1004, TM1002 and TM1010 when a manifest
        cannot be read, or a file that one names is missing: nothing is removed then, as it may be needed to repair the
        root. Otherwise as :func:`verify`.
    """
    grace = Settings().garbage_grace_seconds if grace is None else grace
    if begun(Objects(root)):
        return Collected((), 0, grace, nothing_durable=True)
    log, store = opened(root, buffer)
    log.lock()
    try:
        found = _unneeded(log, store, grace)
        if len(found) and log.objects.directory is None:
            if remove:
                _take_over(log)
            found = _unneeded(log, store, grace, coming=0 if remove else 1)
        report = Collected(_described(log, store, found), found.young, grace)
        if remove:
            try:
                log.objects.remove(found.manifests)
                found.files.remove(store)
            except OSError as error:
                raise TidemillError(
                    "TM1038",
                    "a file that is not needed could not be removed",
                    got=str(error).splitlines()[0],
                    hint="check permissions and run it again; nothing that is needed was touched",
                ) from error
        return report
    finally:
        log.unlock()


@dataclass(frozen=True)
class _Found:
    """Names of old manifests, files to remove, and how many more are too young."""

    manifests: list[str]
    files: garbage.Garbage
    young: int

    def __len__(self) -> int:
        return len(self.manifests) + len(self.files)


def _take_over(log: ManifestLog) -> None:
    newest = log.latest()
    assert newest is not None
    newest = migrated(newest)
    log.publish(newest.number + 1, newest.version, newest.catalog)


def _unneeded(log: ManifestLog, store: RunStore, grace: float, coming: int = 0) -> _Found:
    """What is not needed once ``coming`` more manifests with the version of the newest have been written."""
    listing = garbage.Listing.of(store, log)
    old = log.old(coming)
    kept = [log.read(n).version.files() for n in log.numbers()[len(old) :]]
    store.check_present(frozenset().union(*kept), {name for name, _ in listing.durable})

    def that_may_go(now: float) -> garbage.Garbage:
        return garbage.garbage(listing, kept, (), (), durable_epoch=None, now=now, grace=grace)

    found = that_may_go(time.time())
    return _Found(old, found, len(that_may_go(math.inf)) - len(found))


def _described(log: ManifestLog, store: RunStore, found: _Found) -> tuple[Unneeded, ...]:
    manifests = {s.name: s.bytes for s in log.objects.list("manifest/")}
    objects = durable(log.objects) if found.files.durable else {}
    files = found.files
    return (
        *(Unneeded(name, "manifest", manifests.get(name, 0), "older") for name in found.manifests),
        *(Unneeded(OBJECTS + n, "durable", objects[n].bytes, "no manifest names it") for n in files.durable),
        *(Unneeded(n, "buffer", _size(store.path(n)), "no manifest names it") for n in files.buffered),
        *(Unneeded(n, "buffer", _size(store.path(n)), "no manifest names what it is a copy of") for n in files.copies),
        *(Unneeded(n, _place_of(n, store), _size(Path(n)), "its writer died") for n in files.staged),
    )


def _place_of(staged: str, store: RunStore) -> str:
    directory = Path(staged).parent
    if directory == store.buffer:
        return "buffer"
    return "manifest" if directory.name == "manifest" else "durable"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
