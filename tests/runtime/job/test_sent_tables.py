"""Tables in requests: a task has the tables of each request, whatever was sent before."""

from __future__ import annotations

import pickle
import random
import socket
from dataclasses import replace

from tidemill.runtime.job.sent_tables import SentTables, TableChanges
from tidemill.state.versions.version import Run


def run_of(chance: random.Random, table: str) -> Run:
    size = chance.randrange(1, 1000)
    return Run(table, f"{chance.randbytes(8).hex()}.run", chance.randrange(9), size, 8 * size, 1, 1, 1)


def as_next(chance: random.Random, runs: tuple[Run, ...], table: str) -> tuple[Run, ...]:
    """What an epoch, a merge or a swap may make of the runs of a table."""
    kind = chance.randrange(6)
    if kind == 0:
        return runs
    if kind == 1:
        return tuple(run_of(chance, table) for _ in range(chance.randrange(4)))
    kept = [run for run in runs if chance.random() < 0.8]
    if kind == 2:
        chance.shuffle(kept)
    kept = [replace(run, level=2) if chance.random() < 0.1 else run for run in kept]
    for _ in range(chance.randrange(4)):
        kept.insert(chance.randint(0, len(kept)), run_of(chance, table))
    return tuple(kept)


def test_tables_are_those_of_the_request(seed: int) -> None:
    """Of several mills and connections, whose requests take turns; what stays the same object is the same there."""
    chance, sent = random.Random(seed), SentTables()
    ends = [socket.socketpair() for _ in range(3)]
    known: dict[int, dict[str, tuple[Run, ...]]] = {0: {}, 1: {}, 2: {}}
    mills: list[dict[str, tuple[Run, ...]]] = [{}, {}]
    for _ in range(400):
        mill = chance.randrange(2)
        for table in chance.sample("abcdefgh", 3):
            runs = as_next(chance, mills[mill].get(table, ()), table)
            mills[mill] = {**mills[mill], table: runs}
            if chance.random() < 0.1:
                mills[mill] = {t: r for t, r in mills[mill].items() if t != table}
        at = chance.randrange(3)
        part = {t: r for t, r in mills[mill].items() if chance.random() < 0.9}
        changes: TableChanges = pickle.loads(pickle.dumps(sent.changes(ends[at][0], part)))
        before, known[at] = known[at], changes.made(known[at])
        assert known[at] == part, f"seed {seed}"
        for table in known[at].keys() & before.keys() - changes.changed.keys():
            assert known[at][table] is before[table]
    for pair in ends:
        for end in pair:
            end.close()


def test_only_what_is_new_is_sent() -> None:
    """Of a table of many runs one message has the new one alone; the runs that stay are the same objects."""
    chance, sent = random.Random(1), SentTables()
    ours, theirs = socket.socketpair()
    runs = tuple(run_of(chance, "t") for _ in range(300))
    whole = pickle.dumps(sent.changes(ours, {"t": runs}))
    known = pickle.loads(whole).made({})
    later = (*runs[:100], *runs[140:], run_of(chance, "t"))
    some = pickle.dumps(sent.changes(ours, {"t": later}))
    assert len(some) * 20 < len(whole)
    now = pickle.loads(some).made(known)
    assert now == {"t": later}
    assert all(run is before for run, before in zip(now["t"], (*known["t"][:100], *known["t"][140:])))
    assert sent.changes(ours, {"t": later}) == TableChanges()
    assert sent.changes(theirs, {"t": later}) != TableChanges(), "another connection knows nothing"
    ours.close()
    theirs.close()
