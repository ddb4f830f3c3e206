"""Listing a store again and again: nothing is missed, whatever the order of names, and little is asked for."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import Connection
from tidemill.sources.locations.location import location_of
from tidemill.sources.objects import listing as object_listing
from tidemill.sources.objects.listing import PAGE_KEYS, SWEEP_PAGES, Cursor, ObjectListing

TIME = datetime(2026, 11, 21, tzinfo=UTC)


class Keys:
    """A bucket that lists as S3 does: keys in the order of their bytes, a page a request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sorted: list[str] = []
        self.requests = 0
        monkeypatch.setattr(object_listing, "_chunks", self.chunks)

    def put(self, *keys: str) -> None:
        self.sorted = sorted({*self.sorted, *keys})

    def chunks(self, store: str, directory: str, start: str, connection: Connection) -> Iterator[list[Any]]:
        below = f"{directory}/" if directory else ""
        while True:
            at = max(bisect.bisect_right(self.sorted, start), bisect.bisect_left(self.sorted, below))
            page = [k for k in self.sorted[at : at + object_listing.PAGE_KEYS] if k.startswith(below)]
            self.requests += 1
            if page:
                yield [{"path": k, "size": 1, "last_modified": TIME, "e_tag": None} for k in page]
            if len(page) < object_listing.PAGE_KEYS:
                return
            start = page[-1]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Keys:
    return Keys(monkeypatch)


class Reader:
    """Who takes pages: knows what it has seen."""

    def __init__(self, url: str = "s3://b/logs/*") -> None:
        self.url = url
        self.seen: set[str] = set()
        self.listing = ObjectListing(url, Connection())

    def restart(self) -> None:
        self.listing = ObjectListing(self.url, Connection(), cursors=self.listing.cursors)

    def take(self, whole: bool = False, most: int | None = None) -> set[str]:
        """A pass, or a part of one; the names that are new."""
        found: set[str] = set()
        for number, page in enumerate(self.listing.pages(whole)):
            if number == most:
                break  # this page was not taken
            new = {f.path.removeprefix("s3://b/") for f in page} - self.seen
            self.listing.found_new(len(new))
            self.seen |= new
            found |= new
        return found


def logs(low: int, high: int) -> list[str]:
    return [f"logs/{number:07d}" for number in range(low, high)]


def test_what_comes_behind_is_found_by_few_requests(bucket: Keys) -> None:
    bucket.put(*logs(0, 40_500))
    reader = Reader()
    assert len(reader.take()) == 40_500
    assert bucket.requests == 41
    for new in (0, 1, 700, 2600):
        bucket.put(*logs(len(bucket.sorted), len(bucket.sorted) + new))
        before = bucket.requests
        assert len(reader.take()) == new
        assert bucket.requests - before <= 2 + SWEEP_PAGES + -(-new // PAGE_KEYS)


def test_what_sorts_a_little_before_the_end_is_found_at_once(bucket: Keys) -> None:
    """Writers that run side by side make names that grow only on the whole."""
    bucket.put(*logs(0, 30_000))
    reader = Reader()
    reader.take()
    bucket.put("logs/0029500-late", *logs(30_000, 30_010))
    assert reader.take() == {"logs/0029500-late", *logs(30_000, 30_010)}


def test_what_sorts_before_is_found_within_a_cycle(bucket: Keys) -> None:
    bucket.put(*logs(0, 45_000))
    reader = Reader()
    reader.take()
    late = {f"logs/{number:07d}-late" for number in range(0, 45_000, 500)}
    bucket.put(*late)
    found: set[str] = set()
    passes = 0
    while not found >= late:
        found |= reader.take()
        passes += 1
    assert passes <= 46 // SWEEP_PAGES + 2
    bucket.put("logs/0000000-later", "logs/0040000-later")
    assert {*reader.take(), *reader.take()} == {"logs/0000000-later", "logs/0040000-later"}, "a pass lists more now"
    for _ in range(12):
        reader.take()
    before = bucket.requests
    reader.take()
    assert bucket.requests - before <= 2 + SWEEP_PAGES


def test_a_whole_pass_finds_everything(bucket: Keys) -> None:
    bucket.put(*logs(0, 30_000))
    reader = Reader()
    reader.take()
    late = {f"logs/{number:07d}-late" for number in range(0, 30_000, 50)}
    bucket.put(*late)
    assert reader.take(whole=True) == late
    assert reader.take() == set()


@pytest.mark.parametrize(
    "url",
    [
        "s3://b/{logs,other}/*",
        *(pytest.param(f"s3://b/{p}", marks=pytest.mark.slow) for p in ("logs/*", "logs/0*", "**")),
    ],
)
def test_random_names_stops_and_restarts(bucket: Keys, url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_listing, "PAGE_KEYS", 20)
    for case in range(6):
        chance = random.Random(seed + case)
        bucket.sorted, growing = [], 0
        reader = Reader(url)
        for _ in range(40):
            growing += chance.choice([0, 0, 1, 30, 120])
            bucket.put(*logs(0, growing) if growing else ())
            bucket.put(*(f"{chance.choice(['logs', 'other', 'm'])}/{chance.getrandbits(40):x}" for _ in range(3)))
            reader.take(most=chance.choice([None, None, 0, 1, 5, 30]))
            if chance.random() < 0.3:
                reader.restart()
        meant = {k for k in bucket.sorted if object_listing.parse_glob(url.removeprefix("s3://b/")).matches(k)}
        assert reader.seen <= meant
        for _ in range(2 * len(bucket.sorted) // 20 + 4):
            reader.take()
        assert reader.seen == meant, (seed, case)


def test_alternatives_with_one_beginning_are_listed_together(bucket: Keys) -> None:
    keys = [f"logs/{number:07d}.{('csv', 'json', 'txt')[number % 3]}" for number in range(40_000)]
    bucket.put(*keys)
    reader = Reader("s3://b/logs/*.{csv,json}")
    assert reader.take() == {k for k in keys if not k.endswith("txt")}
    assert bucket.requests == 41
    bucket.put("logs/0005000-late.json", "logs/0015000-late.csv")
    found: set[str] = set()
    for _ in range(5):
        found |= reader.take()
    assert found == {"logs/0005000-late.json", "logs/0015000-late.csv"}


def test_cursors_tell_where_a_pass_stopped(bucket: Keys) -> None:
    bucket.put(*logs(0, 5000))
    reader = Reader()
    reader.take(most=2)
    assert reader.listing.cursors == {"logs/": Cursor("logs/0001999", "logs/0000999", "", 2, 0)}
    reader.restart()
    assert reader.take() == set(logs(2000, 5000))


def test_pages_are_those_that_there_are(bucket: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name now and then does not make a long place of a short one, which is listed whole each time."""
    monkeypatch.setattr(object_listing, "PAGE_KEYS", 100)
    reader = Reader()
    for number in range(100):
        bucket.put(f"logs/{number:07d}")
        assert reader.take() == {f"logs/{number:07d}"}
        (cursor,) = reader.listing.cursors.values()
        assert cursor.pages <= SWEEP_PAGES + 1
    bucket.put(*logs(0, 3000))
    while reader.take():
        pass
    for number in range(3000, 3100):
        bucket.put(f"logs/{number:07d}")
        reader.take()
    (cursor,) = reader.listing.cursors.values()
    assert 30 <= cursor.pages <= 30 + 100
    before = bucket.requests
    reader.take()
    assert bucket.requests - before <= SWEEP_PAGES + 3


def test_a_glob_below_which_nothing_lies(bucket: Keys) -> None:
    bucket.put("logs/a/1.csv")
    for url, missing in (
        ("s3://b/none/*.csv", "s3://b/none"),
        ("s3://b/log/*", "s3://b/log"),
        ("s3://b/{x,y}/*", "s3://b/x"),
        ("s3://b/{x,logs}/*", None),
        ("s3://b/logs/a/*.json", None),
        ("s3://b/*.csv", None),
    ):
        place = location_of(url, {"failonmissing": "true"})
        found = place.missing()
        assert (found and found.got) == (missing and f"{missing}, the directory of {url}")
        if missing:
            with pytest.raises(TidemillError, match="TM5001"):
                list(place.listing())
