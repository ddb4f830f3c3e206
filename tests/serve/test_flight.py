"""Arrow Flight with pyarrow's own client."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from serving import Served
from test_http import orders, write

ServeFactory = Callable[..., Served]


def ticket(**asked: Any) -> flight.Ticket:
    return flight.Ticket(json.dumps(asked).encode())


def number(error: pytest.ExceptionInfo[flight.FlightServerError]) -> str:
    return str(json.loads(error.value.extra_info)["number"])


def test_rows_and_statements(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(flight_port=0)
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 2.5, "I"), (2, 3.0, "I"))
    served.mill.advance()
    client = flight.connect(served.server.addresses["flight"])
    (info,) = client.list_flights()
    assert info.descriptor.path == [b"spending"] and info.schema.names == ["customer", "n", "amount"]
    assert client.do_get(info.endpoints[0].ticket).read_all().equals(served.mill.read("spending"))
    chosen = client.do_get(ticket(view="spending", columns="amount", where="customer = 2")).read_all()
    assert chosen.to_pydict() == {"amount": [3.0]}
    command = flight.FlightDescriptor.for_command(json.dumps({"sql": "SELECT sum(amount) AS s FROM spending"}))
    found = client.get_flight_info(command)
    assert client.do_get(found.endpoints[0].ticket).read_all().to_pydict() == {"s": [5.5]}
    statement = b"CREATE MATERIALIZED VIEW c AS SELECT COUNT(*) AS n FROM orders"
    (result,) = client.do_action(flight.Action("sql", statement))
    assert "epoch" in json.loads(result.body.to_pybytes())
    served.mill.advance()
    assert client.do_get(ticket(view="c")).read_all().to_pydict() == {"n": [2]}
    client.close()


def test_changes_until_the_call_is_cancelled(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(flight_port=0)
    data = orders(served, tmp_path)
    write(data, "0.csv", (1, 1.0, "I"), (2, 7.0, "I"))
    served.mill.advance()
    client = flight.connect(served.server.addresses["flight"])
    reader = client.do_get(ticket(changes="spending", columns="customer, amount", where="customer > 0"))
    added: Counter[tuple[Any, ...]] = Counter()
    epochs, last = [], 0
    for step in range(1, 4):
        while last < step:
            part = reader.read_chunk()
            known = json.loads(part.app_metadata.to_pybytes())
            if part.data.num_rows:
                epochs.append(known["epoch"])
                for *row, weight in zip(*(c.to_pylist() for c in part.data.columns), strict=True):
                    added[tuple(row)] += weight
            elif known.get("progress"):
                last = known["epoch"]
        expected = served.mill.read("spending").select(["customer", "amount"])
        assert +added == Counter(zip(*(c.to_pylist() for c in expected.columns), strict=True))
        write(data, f"{step}.csv", (1, 1.0, "I"), *([(2, 7.0, "D")] if step == 2 else []))
        served.mill.advance()
    assert epochs == [1, 2, 3]
    reader.cancel()
    client.close()
    served.end()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (b"no json", "TM8040"),
        (b"[1]", "TM8040"),
        (b'{"view": "v", "sql": "s"}', "TM8040"),
        (b'{"view": 1}', "TM8040"),
        (b"[" * 100_000, "TM8040"),
        (b'{"view": "\\ud800"}', "TM8040"),
        (b'{"view": "spending", "where": "\\udfff"}', "TM8040"),
        (b"\xff", "TM8040"),
        (b'{"view": "spending", "epoc": 1}', "TM8040"),
        (b'{"view": "nothing"}', "TM2012"),
        (b'{"changes": "spending", "from": "x"}', "TM8013"),
        (b'{"sql": "DROP VIEW spending"}', "TM8004"),
        (b'{"sql": "SELECT nothing"}', "TM2004"),
        (b'{"sql": "SELECT ' + b"(" * 3000 + b"1" + b")" * 3000 + b'"}', "TM2901"),
    ],
)
def test_wrong_tickets(serve: ServeFactory, tmp_path: Path, asked: bytes, expected: str) -> None:
    served = serve(flight_port=0)
    orders(served, tmp_path)
    served.mill.advance()
    client = flight.connect(served.server.addresses["flight"])
    with pytest.raises(flight.FlightServerError) as error:
        client.do_get(flight.Ticket(asked)).read_all()
    assert number(error) == expected
    with pytest.raises(flight.FlightServerError) as error:
        list(client.do_action(flight.Action("nothing", b"")))
    assert number(error) == "TM8041"
    client.close()


def test_what_flight_does_not_do_has_a_number(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(flight_port=0)
    orders(served, tmp_path)
    served.mill.advance()
    client = flight.connect(served.server.addresses["flight"])
    descriptor, rows = flight.FlightDescriptor.for_path("spending"), pa.table({"a": [1]})

    def put() -> None:
        writer, _ = client.do_put(descriptor, rows.schema)
        with writer:
            writer.write_table(rows)

    def exchange() -> None:
        writer, reader = client.do_exchange(descriptor)
        with writer:
            reader.read_chunk()

    for call in (put, exchange):
        with pytest.raises(flight.FlightServerError, match="TM8041"):
            call()
    assert client.get_schema(descriptor).schema.names == ["customer", "n", "amount"]
    with pytest.raises(pa.ArrowException, match="TM2012"):
        client.get_schema(flight.FlightDescriptor.for_path("nothing"))
    client.close()


def test_tokens_decide_what_a_call_may_do(serve: ServeFactory, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read aaaaaaaaaaaaaaaa\nwrite bbbbbbbbbbbbbbbb\n")
    served = serve(flight_port=0, tokens=str(tokens))
    client = flight.connect(served.server.addresses["flight"])
    with pytest.raises(flight.FlightUnauthenticatedError, match="TM8005"):
        list(client.list_flights())
    statement = b"CREATE TABLE t (a INT) USING csv OPTIONS (path '/nowhere/*.csv')"

    def execute(token: str) -> list[Any]:
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
        return list(client.do_action(flight.Action("sql", statement), options))

    with pytest.raises(flight.FlightServerError) as error:
        execute("a" * 16)
    assert number(error) == "TM8004"
    assert len(execute("b" * 16)) == 1
    assert served.mill.snapshot().show("tables").num_rows == 1
    client.close()


def test_subscribers_are_limited(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(flight_port=0, max_subscribers=0)
    orders(served, tmp_path)
    client = flight.connect(served.server.addresses["flight"])
    with pytest.raises(flight.FlightServerError) as error:
        client.do_get(ticket(changes="spending")).read_chunk()
    assert number(error) == "TM8024"
    client.close()
