"""Messages of a connection after its start: the simple and the extended query protocol."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from tidemill.errors import TidemillError
from tidemill.serve.logs.events import REQUEST_FAILED
from tidemill.serve.logs.redaction import error_fields
from tidemill.serve.postgres.protocol import backend, frontend
from tidemill.serve.postgres.protocol.channel import Channel, ConnectionEndedError
from tidemill.serve.postgres.protocol.errors import PostgresError, cancelled, failed, not_understood
from tidemill.serve.postgres.query.parsing import too_deep
from tidemill.serve.postgres.session.commands import Commands
from tidemill.serve.postgres.session.portals import Portal, Prepared, Result, is_binary
from tidemill.serve.postgres.session.statement_parts import no_such_name
from tidemill.serve.postgres.session.statements import Kind
from tidemill.serve.postgres.values.copy_rows import CopyFormat, copy_rows
from tidemill.serve.postgres.values.data_rows import data_rows
from tidemill.serve.postgres.values.parameter_values import parameter_value

_MOST_PREPARED = 1_000
_TERMINATE, _SYNC, _FLUSH, _QUERY = b"X", b"S", b"H", b"Q"


class Session:
    """Answers the messages of one client, one after the other.

    Parameters
    ----------
    channel : Channel
    commands : Commands
        What statements do.
    idle_seconds : float
        How long a client may say nothing within a transaction, which keeps the files of an old epoch.
    statement_seconds : float
        How long a statement may take; 0 for no limit.
    """

    def __init__(self, channel: Channel, commands: Commands, idle_seconds: float, statement_seconds: float) -> None:
        self._channel, self._commands = channel, commands
        self._idle_seconds, self._statement_seconds = idle_seconds, statement_seconds
        self._skipping = False
        self._reported = dict(commands.settings.reported())

    def run(self) -> None:
        """Answer messages until the client ends.

        Raises
        ------
        ConnectionEndedError
            When the client has gone, or stalls.
        TidemillError
            TM8101 for bytes that are no message, TM8106 for a transaction that is left idle: the connection is to end.
        """
        self._ready()
        while True:
            busy = self._commands.transaction.is_reading or bool(self._commands.portals)
            try:
                kind, content = self._channel.message(self._idle_seconds if busy else None)
            except TimeoutError as error:
                raise TidemillError(
                    "TM8106",
                    "the connection was left idle within a transaction",
                    got=f"{self._idle_seconds:g} seconds",
                    hint="COMMIT, or autocommit: an open transaction keeps the files of its epoch",
                ) from error
            if kind == _TERMINATE:
                return
            self._answer(kind, content)

    def close(self) -> None:
        """Free everything that the client has open."""
        self._commands.close_portals(held=True)

    def _answer(self, kind: bytes, content: bytes) -> None:
        if kind == _SYNC:
            self._synchronise()
        elif kind == _FLUSH:
            self._channel.flush()
        elif kind == _QUERY:
            self._skipping = False
            self._guarded(lambda: self._simple(frontend.text_of(content)))
            self._synchronise()
        elif kind in self._EXTENDED:
            if not self._skipping:
                answer = self._EXTENDED[kind]
                self._skipping = not self._guarded(lambda: answer(self, content))
        elif kind not in b"dcf":  # of COPY: ignored when none is in progress
            raise not_understood(f"a message of kind {kind!r}")

    def _guarded(self, answer: Callable[[], None]) -> bool:
        """Whether an answer could be given; otherwise the error was sent."""
        cancellation, log = self._commands.cancellation, self._commands.service.server_log
        try:
            with cancellation.statement(self._commands.settings.statement_seconds(self._statement_seconds)):
                answer()
        except ConnectionEndedError:
            raise
        except TidemillError as error:
            if error.number == "TM8101":
                raise
            problem = error
        except RecursionError:
            problem = too_deep()
        except duckdb.Error as error:
            problem = TidemillError("TM8126", "the query failed in DuckDB", got=str(error).splitlines()[0], hint="")
        except Exception as error:
            log.broken("statement", error)
            problem = failed(error)
        else:
            return True
        self._commands.transaction.fail()
        if cancellation.why:
            problem = cancelled(cancellation.why)
        if problem.number != "TM8099":
            log.note(REQUEST_FAILED, request="statement", **error_fields(problem))
        self._channel.write(backend.error(problem))
        return False

    def _synchronise(self) -> None:
        """The end of a statement, or of several that were sent as one."""
        self._skipping = False
        if not self._commands.transaction.in_block:
            self._commands.close_portals()
            self._commands.transaction.statement_ended()
        self._ready()

    def _ready(self) -> None:
        self._report()
        self._channel.write(backend.ready(self._commands.transaction.status))
        self._channel.flush()

    def _report(self) -> None:
        """Warnings, and settings that have changed."""
        for text in self._commands.notices:
            self._channel.write(backend.notice(text))
        self._commands.notices.clear()
        now = dict(self._commands.settings.reported())
        for name, value in now.items():
            if self._reported[name] != value:
                self._channel.write(backend.parameter_status(name, value))
        self._reported = now

    # -- the simple protocol ------------------------------------------------------------------------

    def _simple(self, text: str) -> None:
        for statement in self._commands.statements(text):
            portal = Portal(statement)
            try:
                self._carry_out(portal)
                result = portal.result
                if result is not None and result.answer is not None and result.copy is None:
                    columns = result.answer.columns
                    self._channel.write(backend.row_description(columns, [False] * len(columns)))
                self._give(portal, 0)
            finally:
                portal.close()

    def _carry_out(self, portal: Portal) -> Result:
        self._commands.cancellation.check()
        if portal.result is None:
            portal.result = self._commands.run(portal)
        elif portal.result.answer is not None:
            self._commands.cancellation.use(portal.result.answer.cancel)
        return portal.result

    def _give(self, portal: Portal, most: int) -> None:
        """Send rows of a portal, and how the statement ended, or that there may be more."""
        result = self._carry_out(portal)
        if portal.statement.kind is Kind.EMPTY:
            self._channel.write(backend.EMPTY_QUERY)
            return
        if result.answer is None:
            rows = 0
        elif result.copy is not None:
            rows, most = self._send_copy(portal, result.copy), 0
        else:
            rows = self._send_rows(portal, most)
        if most and result.answer is not None and not portal.done:
            self._channel.write(backend.PORTAL_SUSPENDED)
        else:
            self._channel.write(backend.command_complete(result.tag.format(rows=rows)))

    def _send_rows(self, portal: Portal, most: int) -> int:
        assert portal.result is not None and portal.result.answer is not None
        columns, rows = portal.result.answer.columns, 0
        types = [type_ for _, type_ in columns]
        binary, zone = is_binary(portal.formats, len(columns)), self._commands.settings.zone
        for batch in portal.batches(most) if not portal.done else ():
            self._commands.cancellation.check()
            for data in data_rows(batch, types, binary, zone):
                self._channel.write(data)
            rows += batch.num_rows
        return rows

    def _send_copy(self, portal: Portal, given: CopyFormat) -> int:
        assert portal.result is not None and portal.result.answer is not None
        columns, rows = portal.result.answer.columns, 0
        self._channel.write(backend.copy_out(given.is_binary, len(columns)))
        batches = portal.batches(0) if not portal.done else iter(())
        for count, parts in copy_rows(batches, columns, given, self._commands.settings.zone):
            self._commands.cancellation.check()
            for data in parts:
                self._channel.write(data)
            rows += count
        self._channel.write(backend.COPY_DONE)
        return rows

    # -- the extended protocol ----------------------------------------------------------------------

    def _parse(self, content: bytes) -> None:
        message = frontend.parse_of(content)
        found = self._commands.statements(message.text)
        if len(found) != 1:
            raise TidemillError(
                "TM8120",
                "a prepared statement is one statement",
                got=f"{len(found)} statements",
                hint="prepare them one by one, or send them without parameters",
            )
        prepared = self._commands.prepared
        if message.name and message.name in prepared:
            raise PostgresError(
                "TM8117",
                "a prepared statement or cursor of this name exists",
                message.name,
                "DEALLOCATE it first",
                "42P05",
            )
        if len(prepared) >= _MOST_PREPARED:
            raise TidemillError(
                "TM8012",
                "a limit of the server is reached",
                got=f"{_MOST_PREPARED:,} prepared statements",
                hint="DEALLOCATE some",
            )
        self._commands.check_allowed(found[0])
        prepared[message.name] = self._commands.prepare(found[0], message.types)
        self._channel.write(backend.PARSE_COMPLETE)

    def _bind(self, content: bytes) -> None:
        message = frontend.bind_of(content)
        prepared = self._prepared(message.statement)
        self._commands.check_allowed(prepared.statement)
        question = self._commands.question(prepared)
        types = question.parameters if question is not None else ()
        if len(types) != len(message.values):
            raise PostgresError(
                "TM8118",
                "a parameter is no value of its type",
                f"{len(message.values)} values, {len(types)} parameters",
                "bind as many as the statement has",
                "08P01",
            )
        values = [
            parameter_value(v, bool(f), t) for v, f, t in zip(message.values, message.formats, types, strict=True)
        ]
        portal = Portal(prepared.statement, question, values, message.result_formats, prepared.columns)
        self._commands.open_portal(message.portal, portal)
        self._channel.write(backend.BIND_COMPLETE)

    def _prepared(self, name: str) -> Prepared:
        found = self._commands.prepared.get(name)
        if found is None:
            raise no_such_name(name, "26000")
        return found

    def _portal(self, name: str) -> Portal:
        found = self._commands.portals.get(name)
        if found is None:
            raise no_such_name(name, "34000")
        return found

    def _describe(self, content: bytes) -> None:
        message = frontend.named_of(content)
        if message.kind == "S":
            prepared = self._prepared(message.name)
            question = self._commands.question(prepared)
            columns = prepared.columns = self._commands.columns(prepared.statement, question)
            self._channel.write(backend.parameter_description(question.parameters if question is not None else ()))
            self._describe_columns(columns, ())
            return
        portal = self._portal(message.name)
        if portal.statement.kind is Kind.QUERY:
            answer = self._carry_out(portal).answer
            self._describe_columns(None if answer is None else answer.columns, portal.formats)
        else:
            self._describe_columns(self._commands.columns(portal.statement, portal.question), portal.formats)

    def _describe_columns(self, columns: tuple[object, ...] | None, formats: tuple[int, ...]) -> None:
        if columns is None:
            self._channel.write(backend.NO_DATA)
            return
        _check_formats(formats, len(columns))
        self._channel.write(backend.row_description(columns, is_binary(formats, len(columns))))  # type: ignore[arg-type]

    def _execute(self, content: bytes) -> None:
        message = frontend.execute_of(content)
        portal = self._portal(message.portal)
        self._commands.check_allowed(portal.statement)
        result = self._carry_out(portal)
        answer = result.answer
        if answer is not None and result.copy is None:
            _check_formats(portal.formats, len(answer.columns))
            self._check_described(portal)
        if portal.done:
            portal.done = answer is not None  # rows of a portal are given once
        self._give(portal, max(message.rows, 0))

    @staticmethod
    def _check_described(portal: Portal) -> None:
        """TM8122 when a view was replaced since the statement was prepared, and its columns are others now."""
        assert portal.result is not None and portal.result.answer is not None
        now = [(n, t.oid) for n, t in portal.result.answer.columns]
        if portal.described is not None and [(n, t.oid) for n, t in portal.described] != now:
            raise TidemillError(
                "TM8122",
                "the columns of a prepared statement have changed",
                got=", ".join(n for n, _ in now)[:200],
                hint="prepare it again: a view that it reads was replaced",
            )

    def _close(self, content: bytes) -> None:
        message = frontend.named_of(content)
        if message.kind == "S":
            self._commands.prepared.pop(message.name, None)
        else:
            self._commands.close_portal(message.name)
        self._channel.write(backend.CLOSE_COMPLETE)

    _EXTENDED = {b"P": _parse, b"B": _bind, b"D": _describe, b"E": _execute, b"C": _close}  # noqa: RUF012


def _check_formats(formats: tuple[int, ...], columns: int) -> None:
    """TM8101 unless there is none, one, or one for each column."""
    if len(formats) not in (0, 1, columns):
        raise not_understood(f"Bind: {len(formats)} formats for {columns} columns")
