"""The queue between pipelines."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from operator_runs import INT, pairs

from tidemill.task.build import build
from tidemill.task.dataflow.exchange import ExchangeSink, ExchangeSource, LocalExchange
from tidemill.task.driver import Driver
from tidemill.task.expressions import Call, Literal, Ref
from tidemill.task.program import Explode
from tidemill.testing import MemoryContext, weighted_rows


def test_first_in_first_out_with_ports() -> None:
    exchange = LocalExchange()
    exchange.producers = 1
    first, second = pairs("+ 1 1"), pairs("+ 2 2")
    exchange.put(first, 0)
    exchange.put(second, 1)
    assert exchange.get() == (first, 0)
    assert exchange.get() == (second, 1)
    assert exchange.get() is None


def test_drained_when_all_producers_have_drained_and_nothing_is_queued() -> None:
    exchange = LocalExchange()
    exchange.producers = 2
    exchange.put(pairs("+ 1 1"), 0)
    exchange.put_token()
    assert not exchange.take_drained()
    exchange.put_token()
    assert not exchange.take_drained(), "an item is queued"
    exchange.get()
    assert exchange.take_drained()
    assert not exchange.take_drained(), "each barrier is passed once"
    for _ in range(2):
        exchange.put_token()
    assert exchange.take_drained()


def test_a_producer_that_drains_twice_is_a_bug() -> None:
    exchange = LocalExchange()
    exchange.producers = 1
    exchange.put_token()
    with pytest.raises(AssertionError, match="twice"):
        exchange.put_token()


def test_a_sink_hands_items_to_those_meant_to_see_them() -> None:
    old, young, other = LocalExchange(), LocalExchange(), LocalExchange()
    sink = ExchangeSink(0, ((0, old, 0, 1), (0, young, 1, 5), (1, other, 0, 1)), frozenset({0}))
    sink.begin(MemoryContext())
    sink.add_input(pairs("+ 1 1"), 0)
    sink.add_input(replace(pairs("+ 2 2"), backfill_target=5), 0)
    sink.add_input(pairs("+ 3 3"), 1)

    def received(exchange: LocalExchange) -> list[tuple[dict, int, int | None]]:
        found = []
        while (entry := exchange.get()) is not None:
            found.append((weighted_rows(entry[0]), entry[1], entry[0].backfill_target))  # type: ignore[arg-type,union-attr]
        return found

    assert received(old) == [({(1, 1): 1}, 0, None)]
    assert received(young) == [({(1, 1): 1}, 1, None), ({(2, 2): 1}, 1, None)]
    assert received(other) == [({(3, 3): 1}, 0, None)]
    assert (leaving := sink.get_output()) is not None and leaving.port == 0


def test_a_sink_puts_one_token_per_exchange() -> None:
    exchange = LocalExchange()
    sink = ExchangeSink(0, ((0, exchange, 0, 0), (0, exchange, 1, 0)), frozenset())
    assert exchange.producers == 1
    assert sink.start_drain() is False
    source = ExchangeSource(exchange)
    assert source.reached_barrier()
    assert not source.reached_barrier()


def test_what_an_item_becomes_is_taken_piece_by_piece() -> None:
    """A chain does not fill the queue behind it with all that it makes of one item."""
    given, taken = LocalExchange(), LocalExchange()
    given.producers = 1
    sequence = Call("sequence", (Literal(1, INT), Ref(0, INT)), pa.list_(INT), True)
    explode = build(0, Explode(sequence, (0,), position=False, spread=False, outer=False))
    driver = Driver((ExchangeSource(given), explode, ExchangeSink(0, ((0, taken, 0, 0),), frozenset())))
    driver.begin(MemoryContext())
    given.put(pairs("+ 500000 1 | + 400000 1"), 0)
    given.put_token()
    rows = pieces = 0
    for _ in driver.run():
        waiting = 0
        while (entry := taken.get()) is not None:
            waiting += 1
            rows += len(entry[0])
        assert waiting <= 1
        pieces += waiting
    assert rows == 900_000
    assert pieces > 3
