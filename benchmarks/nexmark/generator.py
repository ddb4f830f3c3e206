"""Persons, auctions and bids in the manner of Nexmark: its proportions, hot keys, sizes and event times.

Of 50 events one is a person, three are auctions and 46 are bids. Half of the bids go to the newest auction whose
number is a multiple of 100, three quarters of the auctions and bids come from the newest person of that kind. Event
times advance by ``1 / rate`` seconds an event. The same configuration and seed give the same rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpch.changes import Changes, Events, Times, cut

PERSONS, AUCTIONS, BIDS = 1, 3, 46
_ROUND = PERSONS + AUCTIONS + BIDS
_FIRST_ID, _FIRST_CATEGORY, _CATEGORIES = 1000, 10, 5
_LEAD, _BATCH = 10, 100  # ids ahead of those that exist; one in so many is hot
_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle"]
_CITIES += ["Kent", "Cheyenne"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_CHANNELS = 10_000
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Configuration:
    """What Nexmark lets one choose, with its own values.

    Parameters
    ----------
    rate : int
        Events in a second of event time.
    start : datetime
        Event time of the first event.
    in_flight : int
        Auctions that bids go to; an auction is open for as long as that many begin, on average.
    active_people : int
        The newest persons, who sell and bid.
    hot_auctions, hot_sellers, hot_bidders : int
        All but one in so many go to, or come from, the hot one; 1 makes none hot.
    out_of_order : int
        Events of so many are mixed up; 1 leaves them in order.
    side_rows : int
        Rows of ``side_input``.
    """

    rate: int = 10_000
    start: datetime.datetime = datetime.datetime(2015, 7, 15, tzinfo=datetime.UTC)
    in_flight: int = 100
    active_people: int = 1000
    hot_auctions: int = 2
    hot_sellers: int = 4
    hot_bidders: int = 4
    out_of_order: int = 1
    side_rows: int = 10_000


@dataclass(frozen=True)
class Stream:
    """The rows of each table in the order they arrive; of events also the place of each among all of them (from 0)."""

    tables: Mapping[str, pa.Table]
    places: Mapping[str, np.ndarray]

    def changes(self, epoch_rows: int, last: int | None = None) -> Changes:
        """The rows as epochs of changes; ``last`` as in :func:`benchmarks.tpch.changes.cut`."""
        times = {n: (np.arange(len(p)), np.ones(len(p), np.int64), p.astype(float)) for n, p in self.places.items()}
        return self._cut(times, epoch_rows, last)

    def expiring(self, epoch_rows: int, configuration: Configuration, last: int | None = None) -> Changes:
        """The same, and an auction goes with the bids it has got so far once event time has passed its end."""
        auctions, bids = self.tables["auction"], self.tables["bid"]
        began = int(configuration.start.timestamp() * 1e6)
        ends = auctions["expires"].cast(pa.int64()).to_numpy() - began
        gone = np.maximum(ends * configuration.rate // 1_000_000 + 1, self.places["auction"]) + 0.5
        gone[gone > max(p.max(initial=0) for p in self.places.values())] = np.inf
        order = np.argsort(auctions["id"].to_numpy())
        ids, of = auctions["id"].to_numpy()[order], bids["auction"].to_numpy()
        found = np.minimum(np.searchsorted(ids, of), len(ids) - 1)
        bid_gone = np.where(ids[found] == of, gone[order][found], np.inf)
        bid_gone[bid_gone < self.places["bid"]] = np.inf  # came after the end: it stays
        ending = {"auction": gone, "bid": bid_gone}
        times = {}
        for name, places in self.places.items():
            rows = np.arange(len(places))
            out = np.flatnonzero(np.isfinite(ending[name])) if name in ending else rows[:0]
            at = np.concatenate([places.astype(float), ending[name][out] if len(out) else []])
            times[name] = (np.concatenate([rows, out]), np.repeat([1, -1], [len(rows), len(out)]), at)
        return self._cut(times, epoch_rows, last)

    def _cut(self, times: Mapping[str, Times], epoch_rows: int, last: int | None) -> Changes:
        """All of ``side_input`` is there in the first epoch, and not counted for its size."""
        side = np.arange(self.tables["side_input"].num_rows)
        events = cut({name: self.tables[name] for name in times}, times, epoch_rows, last).events
        return Changes(self.tables, {**events, "side_input": Events(side, np.ones_like(side), np.ones_like(side))})


def generate(events: int, seed: int, configuration: Configuration | None = None) -> Stream:
    """The first ``events`` events; ``side_input`` is there before all of them."""
    chosen = configuration or Configuration()
    random = np.random.default_rng(seed)
    places = np.arange(events)
    group = chosen.out_of_order
    numbers = places // group * group + places * 953 % group
    kinds = numbers % _ROUND
    person = kinds < PERSONS
    auction = ~person & (kinds < PERSONS + AUCTIONS)
    bid = ~person & ~auction
    tables = {
        "person": _persons(numbers[person], random, chosen),
        "auction": _auctions(numbers[auction], random, chosen),
        "bid": _bids(numbers[bid], random, chosen),
        "side_input": _side_input(random, chosen.side_rows),
    }
    return Stream(tables, {"person": places[person], "auction": places[auction], "bid": places[bid]})


def _persons(numbers: np.ndarray, random: np.random.Generator, chosen: Configuration) -> pa.Table:
    count = len(numbers)
    name = _joined(" ", _choice(_FIRST_NAMES, count, random), _choice(_LAST_NAMES, count, random))
    email = _joined("", _words(count, 7, random), "@", _words(count, 5, random), ".com")
    card = _joined(" ", *(_digits(random.integers(0, 10_000, count)) for _ in range(4)))
    city, state = _choice(_CITIES, count, random), _choice(_STATES, count, random)
    return pa.table(
        {
            "id": _FIRST_ID + _last_person(numbers),
            "name": name,
            "emailAddress": email,
            "creditCard": card,
            "city": city,
            "state": state,
            "dateTime": _times(numbers, chosen),
            "extra": _extra(np.full(count, 200 - 8), (name, email, card, city, state), random),
        }
    )


def _auctions(numbers: np.ndarray, random: np.random.Generator, chosen: Configuration) -> pa.Table:
    count = len(numbers)
    name, description = _words(count, 20, random), _words(count, 100, random)
    initial = _prices(count, random)
    horizon = chosen.in_flight * _ROUND // AUCTIONS * 1000 // chosen.rate
    length = 1 + (random.random(count) * max(2 * horizon, 1)).astype(np.int64)
    start = _times(numbers, chosen)
    return pa.table(
        {
            "id": _FIRST_ID + _last_auction(numbers),
            "itemName": name,
            "description": description,
            "initialBid": initial,
            "reserve": initial + _prices(count, random),
            "dateTime": start,
            "expires": pa.array(start.cast(pa.int64()).to_numpy() + 1000 * length).cast(_TIME),
            "seller": _people(numbers, chosen.hot_sellers, 0, random, chosen),
            "category": _FIRST_CATEGORY + random.integers(0, _CATEGORIES, count),
            "extra": _extra(np.full(count, 500 - 48), (name, description), random),
        }
    )


def _bids(numbers: np.ndarray, random: np.random.Generator, chosen: Configuration) -> pa.Table:
    count, newest = len(numbers), _last_auction(numbers)
    oldest = np.maximum(newest - chosen.in_flight, 0)
    any_ = oldest + (random.random(count) * (newest - oldest + 1 + _LEAD)).astype(np.int64)
    hot = random.integers(0, chosen.hot_auctions, count) > 0
    channels, urls = _channels(random)
    cold = random.integers(0, _CHANNELS, count)
    channel = np.where(random.integers(0, 2, count) > 0, random.integers(0, len(_HOT_CHANNELS), count), cold + 4)
    return pa.table(
        {
            "auction": _FIRST_ID + np.where(hot, newest // _BATCH * _BATCH, any_),
            "bidder": _people(numbers, chosen.hot_bidders, 1, random, chosen),
            "price": _prices(count, random),
            "channel": channels.take(pa.array(channel)),
            "url": urls.take(pa.array(channel)),
            "dateTime": _times(numbers, chosen),
            "extra": _extra(np.full(count, 100 - 32), (), random),
        }
    )


def _side_input(random: np.random.Generator, rows: int) -> pa.Table:
    return pa.table({"key": np.arange(rows), "value": _words(rows, 20, random)})


def _channels(random: np.random.Generator) -> tuple[pa.Array, pa.Array]:
    """Names and addresses: of the four hot channels, then of the others; of those nine in ten tell an id."""
    count = len(_HOT_CHANNELS) + _CHANNELS
    names = pa.array(_HOT_CHANNELS + [f"channel-{i}" for i in range(_CHANNELS)])
    pages = (_letters(np.full(count, 5), random) for _ in range(3))
    urls = _joined("/", "https://www.nexmark.com", *pages, "item.htm?query=1")
    told = np.concatenate([np.zeros(len(_HOT_CHANNELS), bool), random.integers(0, 10, _CHANNELS) > 0])
    ids = pa.array(random.permutation(2**31 // count * np.arange(count))).cast(pa.string())
    return names, pc.if_else(pa.array(told), _joined("", urls, "&channel_id=", ids), urls)


def _last_auction(numbers: np.ndarray) -> np.ndarray:
    """Number of the newest auction at an event, from 0; -1 when there is none yet."""
    return numbers // _ROUND * AUCTIONS + np.clip(numbers % _ROUND - PERSONS, -1, AUCTIONS - 1)


def _last_person(numbers: np.ndarray) -> np.ndarray:
    return numbers // _ROUND


def _people(
    numbers: np.ndarray, ratio: int, place: int, random: np.random.Generator, chosen: Configuration
) -> np.ndarray:
    """Sellers or bidders: all but one in ``ratio`` the hot one, which is at ``place`` of the newest hundred."""
    newest = _last_person(numbers)
    active = np.minimum(newest + 1, chosen.active_people)
    any_ = newest + 1 - active + (random.random(len(numbers)) * (active + _LEAD)).astype(np.int64)
    hot = random.integers(0, ratio, len(numbers)) > 0
    return _FIRST_ID + np.where(hot, newest // _BATCH * _BATCH + place, any_)


def _times(numbers: np.ndarray, chosen: Configuration) -> pa.Array:
    """Event times, in whole milliseconds."""
    began = int(chosen.start.timestamp() * 1e3)
    return pa.array(1000 * (began + numbers * 1000 // chosen.rate)).cast(_TIME)


def _prices(count: int, random: np.random.Generator) -> np.ndarray:
    return np.rint(10 ** (random.random(count) * 6) * 100).astype(np.int64)


def _extra(sizes: np.ndarray, others: tuple[pa.Array, ...], random: np.random.Generator) -> pa.Array:
    """Letters that make rows about so many bytes long together with their other texts."""
    room = np.maximum(sizes - sum(pc.binary_length(o).to_numpy(zero_copy_only=False) for o in others), 0)
    slack = np.rint(0.2 * room).astype(np.int64)
    return _letters(room - slack + (random.random(len(room)) * 2 * slack).astype(np.int64), random)


def _words(count: int, most: int, random: np.random.Generator) -> pa.Array:
    """Texts of 3 to ``most`` letters."""
    return _letters(random.integers(3, most + 1, count), random)


def _letters(lengths: np.ndarray, random: np.random.Generator) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = random.integers(ord("a"), ord("z") + 1, offsets[-1], dtype=np.uint8)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))


def _choice(values: list[str], count: int, random: np.random.Generator) -> pa.Array:
    return pa.array(values).take(pa.array(random.integers(0, len(values), count)))


def _digits(numbers: np.ndarray) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 4, "0")


def _joined(separator: str, *parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, separator)
