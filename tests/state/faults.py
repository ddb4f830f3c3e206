"""Places where what is written, read, listed or deleted fails once, at a chosen step."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from buffer_under_test import Clock, ClockedObjects, ClockedStore, Place

from tidemill.errors import TidemillError
from tidemill.state.runs import sst as run_files
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects, Stored, UncertainError

T = TypeVar("T")

MODES = {
    "put": ("fails", "fails uncertain", "torn", "applied", "applied uncertain"),
    "get": ("fails",),
    "list": ("fails",),
    "download": ("fails", "torn"),
    "remove": ("fails", "torn", "applied"),
    "staged": ("fails",),
    "write": ("fails", "torn", "applied"),
    "evict": ("fails", "applied"),
}
"""What can go wrong with each kind of step."""


class Faults:
    """Counts steps, or those of one kind; the one of number ``at`` goes wrong in the way ``mode`` says."""

    def __init__(self) -> None:
        self.at = -1
        self.mode = self.kind = ""
        self.steps: list[str] = []
        self.happened = False
        self.reached, self.release = threading.Event(), threading.Event()

    def arm(self, at: int, mode: str, kind: str = "") -> None:
        """From now on."""
        self.at, self.mode, self.kind, self.steps, self.happened = at, mode, kind, [], False

    def step(self, kind: str, do: Callable[[], T], torn: Callable[[], object] = lambda: None) -> T:
        """Do something, or let it go wrong."""
        number = len(self.steps) if not self.kind else self.steps.count(kind)
        self.steps.append(kind)
        if number != self.at or self.kind not in ("", kind):
            return do()
        self.happened = True
        if self.mode == "hangs":
            self.reached.set()
            assert self.release.wait(60)
            return do()
        if self.mode.startswith("applied"):
            do()
        if self.mode == "torn":
            torn()
        if self.mode.endswith("uncertain"):
            raise UncertainError(5, "injected: it may have been done")
        raise OSError(28, "injected: No space left on device")


class FaultyObjects(ClockedObjects):
    """Objects where a step goes wrong."""

    faults: Faults

    def put(self, name: str, data: bytes | Path) -> None:
        self.faults.step("put", lambda: super(FaultyObjects, self).put(name, data), lambda: self._tear(name, data))

    def _tear(self, name: str, data: bytes | Path) -> None:
        """What a process leaves that is killed while it writes; object stores show nothing."""
        if self.directory is not None:
            whole = data if isinstance(data, bytes) else data.read_bytes()
            left = self.directory / name
            left.parent.mkdir(parents=True, exist_ok=True)
            (left.parent / f"{left.name}-torn.staged").write_bytes(whole[: len(whole) // 2])

    def get(self, name: str) -> bytes:
        return self.faults.step("get", lambda: super(FaultyObjects, self).get(name))

    def list(self, prefix: str) -> list[Stored]:
        return self.faults.step("list", lambda: super(FaultyObjects, self).list(prefix))

    def remove(self, names: Iterable[str]) -> None:
        every = [*names]
        half = every[: len(every) // 2]
        delete = super().remove
        self.faults.step("remove", lambda: delete(every), lambda: delete(half))

    def download(self, name: str, target: Path) -> None:
        def tear() -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            (target.parent / "torn.staged").write_bytes(b"half")

        self.faults.step("download", lambda: super(FaultyObjects, self).download(name, target), tear)

    def staged(self, prefix: str) -> builtins.list[tuple[str, float]]:
        return self.faults.step("staged", lambda: super(FaultyObjects, self).staged(prefix))


class FaultyStore(ClockedStore):
    """A store where a step goes wrong."""

    faults: Faults

    def evict(self, files: Iterable[str]) -> None:
        every = [*files]
        if every:
            self.faults.step("evict", lambda: super(FaultyStore, self).evict(every))


class FaultyPlace(Place):
    """A place where one step goes wrong."""

    def __init__(self, url: str | Path, buffer: Path, clock: Clock) -> None:
        super().__init__(url, buffer, clock)
        self.faults = Faults()

    def objects(self) -> Objects:
        made = FaultyObjects(self.url)
        made.clock, made.faults = self.clock, self.faults
        return made

    def store(self, objects: Objects) -> RunStore:
        made = FaultyStore(objects, self.buffer)
        made.clock, made.faults = self.clock, self.faults
        return made

    @contextmanager
    def faulty_files(self) -> Iterator[None]:
        """Let writing of run files go wrong too."""
        write = run_files.write

        def faulty(path: Path, tables: Iterable[Any]) -> Any:
            parts = list(tables)

            def tear() -> None:
                write(path, parts)
                path.write_bytes(path.read_bytes()[:-7])

            try:
                return self.faults.step("write", lambda: write(path, parts), tear)
            except OSError as error:
                raise TidemillError("TM1012", "a state file could not be written", got=str(error), hint="-") from error

        with mock.patch.object(run_files, "write", faulty):
            yield
