"""The Flight server of a service."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from tidemill.errors import TidemillError
from tidemill.runtime.read.selection import Selection
from tidemill.schema import WEIGHT
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.access.tokens import Role
from tidemill.serve.changes.follower import Follower, Given, Progress
from tidemill.serve.encoding.errors import described, unexpected
from tidemill.serve.flight.tickets import asked_in, ticket_of
from tidemill.serve.logs.caller import CALLER, Caller, client_address
from tidemill.serve.logs.events import CONNECTION_REFUSED, REQUEST_FAILED
from tidemill.serve.logs.redaction import error_fields
from tidemill.serve.service.place import Place
from tidemill.serve.service.service import Rows, Service, Text

_T = TypeVar("_T")
_MOST_ROWS = 50_000
_WAIT_SECONDS = 0.05
_TOKEN = "token"
_ONLY_READS = "DoGet reads, the action sql executes statements; rows come from the sources of tables"


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers tickets and actions; see :mod:`~tidemill.serve.flight.tickets`.

    A descriptor is the path ``[view]``, or a ticket as its command. Errors are ``FlightServerError`` with the
    error as JSON in ``extra_info``; a missing token is ``FlightUnauthenticatedError``.
    """

    def __init__(self, service: Service) -> None:
        settings = service.settings
        self._service = service
        self.stopping = False
        super().__init__(
            _location(settings),
            tls_certificates=_certificates(settings),
            middleware={_TOKEN: _TokenFactory(service)},
        )

    def shutdown(self) -> None:
        """End all calls."""
        self.stopping = True
        super().shutdown()

    # -- calls --------------------------------------------------------------------------------------

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """The views that can be read now."""
        self._require(context, Role.READ)
        snapshot = self._numbered(self._service.mill.snapshot)
        for name in snapshot.catalog.views:
            if snapshot.readable_at(name, snapshot.version.epoch):
                yield self._info(flight.FlightDescriptor.for_path(name), {"view": name}, _columns(snapshot, name))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """Schema and ticket of a view (a path), or of what a command asks for."""
        self._require(context, Role.READ)
        return self._numbered(lambda: self._described(descriptor))

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """The schema that :meth:`get_flight_info` gives. PyArrow sends errors of this call as texts without details."""
        return flight.SchemaResult(self.get_flight_info(context, descriptor).schema)

    def _described(self, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        snapshot = self._service.mill.snapshot()
        if descriptor.descriptor_type == flight.DescriptorType.PATH:
            name = b".".join(descriptor.path).decode("utf-8", "replace").lower()
            snapshot.check_readable(name, None)
            return self._info(descriptor, {"view": name}, _columns(snapshot, name))
        kind, ticket = ticket_of(descriptor.command or b"")
        if kind == "changes":
            follower = self._service.subscriptions.follower(asked_in(ticket))
            return self._info(descriptor, ticket, _change_schema(follower))
        schema = next(iter(self._tables(kind, ticket)[1])).schema
        return self._info(descriptor, ticket, schema)

    def _info(
        self, descriptor: flight.FlightDescriptor, ticket: dict[str, Any], schema: pa.Schema
    ) -> flight.FlightInfo:
        endpoint = flight.FlightEndpoint(flight.Ticket(json.dumps(ticket).encode()), [])
        return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Rows, or changes until the call is cancelled.

        The metadata of a batch is JSON: ``{"epoch"}`` with rows; with changes ``{"epoch", "position", "initial"}``, and
        a batch without rows whose metadata says ``"progress": true`` for epochs that changed nothing.
        """
        self._require(context, Role.READ)
        return self._numbered(lambda: self._stream(context, *ticket_of(ticket.ticket)))

    def _stream(self, context: Any, kind: str, ticket: dict[str, Any]) -> flight.FlightDataStream:
        if kind == "changes":
            place = self._service.subscriber_place()
            follower = self._service.subscriptions.follower(asked_in(ticket))
            schema = _change_schema(follower)
            return flight.GeneratorStream(schema, self._changes(place, context, follower, schema))
        epoch, tables = self._tables(kind, ticket)
        first = next(tables)
        metadata = json.dumps({"epoch": epoch}).encode()

        def batches() -> Iterator[tuple[pa.RecordBatch, bytes]]:
            yield from ((b, metadata) for b in first.to_batches())
            yield from ((b, metadata) for t in self._raising(tables) for b in t.to_batches())

        return flight.GeneratorStream(first.schema, batches())

    def _tables(self, kind: str, ticket: dict[str, Any]) -> tuple[int, Iterator[pa.Table]]:
        if kind == "view":
            columns, where = ticket.get("columns", "*"), ticket.get("where")
            epoch, parts = self._service.read(ticket["view"], ticket.get("epoch"), columns, where)
            return epoch, iter(parts)
        answer = self._service.execute(ticket["sql"], Role.READ, None, ticket.get("epoch"))
        if isinstance(answer, Rows):
            return answer.epoch, iter(answer.tables)
        assert isinstance(answer, Text), "what only reads gives rows or a text"
        return answer.epoch, iter((pa.table({"plan": [answer.text]}),))

    def _changes(
        self, place: Place, context: Any, follower: Follower, schema: pa.Schema
    ) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        service = self._service
        with place:
            while not self.stopping and not context.is_cancelled():
                newest = service.mill.epoch
                event = self._numbered(lambda: follower.next(_MOST_ROWS))
                if isinstance(event, Given):
                    change = event.change
                    if change.table.schema != schema:
                        raise _flight_error(_other_columns(change.view, change.epoch))
                    known = {"epoch": change.epoch, "position": str(event.position), "initial": change.initial}
                    yield from ((b, json.dumps(known).encode()) for b in change.table.to_batches())
                elif isinstance(event, Progress):
                    metadata = {"epoch": event.epoch, "position": str(event.position), "progress": True}
                    yield _nothing(schema), json.dumps(metadata).encode()
                else:
                    service.mill.wait_for_epoch(newest, _WAIT_SECONDS)

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        """``sql`` executes the statement in the body, as the token's role allows; gives JSON."""
        role = self._require(context, Role.READ)
        if action.type != "sql":
            raise _no_action(action.type[:40], "sql")
        statement = action.body.to_pybytes().decode("utf-8", "replace")
        answer = self._numbered(lambda: self._service.execute(statement, role))
        if isinstance(answer, Rows):
            text = json.dumps({"epoch": answer.epoch, "hint": "ask for rows with a ticket"})
        else:
            text = json.dumps({"epoch": answer.epoch, **({"plan": answer.text} if isinstance(answer, Text) else {})})
        yield flight.Result(text.encode())

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        """TM8041: rows come from the sources of tables."""
        self._require(context, Role.READ)
        raise _no_action("DoPut", _ONLY_READS)

    def do_exchange(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        """TM8041, as :meth:`do_put`."""
        self._require(context, Role.READ)
        raise _no_action("DoExchange", _ONLY_READS)

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """The actions there are."""
        return [("sql", "Execute a statement; the body is its text, the result JSON.")]

    # -- errors and tokens --------------------------------------------------------------------------

    def _require(self, context: Any, needed: Role) -> Role:
        role: Role = context.get_middleware(_TOKEN).role
        CALLER.set(Caller("flight", client_address(context.peer()), role.name.lower()))
        self._numbered(lambda: self._service.require(needed, role))
        return role

    def _numbered(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except TidemillError as error:
            self._service.server_log.note(REQUEST_FAILED, request="Flight call", **error_fields(error))
            raise _flight_error(error) from error
        except flight.FlightError:
            raise
        except Exception as error:
            self._service.server_log.broken("Flight call", error)
            raise _flight_error(unexpected(error)) from error

    def _raising(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        while True:
            table = self._numbered(lambda: next(tables, None))
            if table is None:
                return
            yield table


class _TokenMiddleware(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, role: Role) -> None:
        self.role = role


class _TokenFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Finds the role of a call by its header ``authorization: Bearer TOKEN``."""

    def __init__(self, service: Service) -> None:
        self._tokens, self._log = service.tokens, service.server_log

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> _TokenMiddleware:
        """The role of a call, or FlightUnauthenticatedError."""
        given = next((v[0] for k, v in headers.items() if k.lower() == "authorization" and v), "")
        scheme, _, token = str(given).partition(" ")
        role = self._tokens.role(token.strip() if scheme.lower() == "bearer" else None)
        if role is Role.NOBODY:
            error = TidemillError("TM8005", "this needs a token")
            self._log.note(CONNECTION_REFUSED, protocol="flight", **error_fields(error))
            raise flight.FlightUnauthenticatedError("TM8005: this needs a token: authorization: Bearer TOKEN")
        return _TokenMiddleware(role)


def _flight_error(error: TidemillError) -> flight.FlightServerError:
    return flight.FlightServerError(error.message(), extra_info=json.dumps(described(error)).encode())


def _no_action(got: str, hint: str) -> flight.FlightServerError:
    return _flight_error(TidemillError("TM8041", "there is no such Flight action", got=got, hint=hint))


def _other_columns(view: str, epoch: int) -> TidemillError:
    return TidemillError(
        "TM1035",
        "the columns of this view changed at this epoch",
        got=f"{view}, epoch {epoch}",
        hint="follow it again from a snapshot: a Flight stream has one schema",
    )


def _columns(snapshot: Any, name: str) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type) for f in snapshot.schema(name)])


def _change_schema(follower: Follower) -> pa.Schema:
    selection: Selection = follower.views[0].selection
    fields = [pa.field(f.name, f.type) for f in selection.schema]
    return pa.schema([*fields, pa.field(WEIGHT, pa.int64(), False)])


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _location(settings: ServerSettings) -> str:
    scheme = "grpc+tls" if settings.tls_certificate else "grpc"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{settings.flight_port or 0}"


def _certificates(settings: ServerSettings) -> list[tuple[str, str]] | None:
    if not settings.tls_certificate:
        return None
    return [(Path(settings.tls_certificate).read_text(), Path(settings.tls_key).read_text())]
