"""Statements carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tidemill.errors import TidemillError
from tidemill.serve.access.tokens import Role
from tidemill.serve.logs.events import QUERY_EXECUTED
from tidemill.serve.postgres.protocol.errors import PostgresError, not_supported
from tidemill.serve.postgres.query.answering import (
    Answering,
    Columns,
    Question,
    Viewpoint,
    rows_answer,
    texts_answer,
)
from tidemill.serve.postgres.session import set_and_show
from tidemill.serve.postgres.session.cancellation import Cancellation
from tidemill.serve.postgres.session.copy_statement import copied
from tidemill.serve.postgres.session.portals import Portal, Prepared, Result
from tidemill.serve.postgres.session.settings import ConnectionSettings
from tidemill.serve.postgres.session.statement_parts import (
    ALL_ROWS,
    cursor_name,
    fetch_count,
    no_such_name,
    query_text,
    reads,
    tag_of,
)
from tidemill.serve.postgres.session.statements import Kind, Statement, statements_of
from tidemill.serve.postgres.session.transaction import FAILED, Transaction
from tidemill.serve.postgres.values.pg_types import TEXT
from tidemill.serve.service.service import Rows, Service, Text

_MOST_PORTALS = 100


@dataclass
class Client:
    """Who is connected, and how.

    Attributes
    ----------
    role : Role
        Of the token that was the password.
    process : int
        The number of the connection, as clients take it for a process.
    """

    role: Role
    user: str
    database: str
    process: int


@dataclass
class Commands:
    """What the statements of one connection do.

    Attributes
    ----------
    portals : dict
        Open portals and cursors by name; the unnamed one is ``""``.
    notices : list of str
        Warnings that are to be sent.
    """

    service: Service
    answering: Answering
    client: Client
    settings: ConnectionSettings
    transaction: Transaction
    cancellation: Cancellation
    prepared: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def viewpoint(self) -> Viewpoint:
        """Where statements stand now."""
        client = self.client
        snapshot = self.transaction.snapshot()
        values = {**self.settings.values(), "tidemill.epoch": str(snapshot.version.epoch)}
        return self.answering.viewpoint(snapshot, client.database, client.user, client.process, values)

    def statements(self, text: str) -> list[Statement]:
        """The statements of a text. Errors as :func:`statements_of`; TM8012 for one that is too long."""
        self.service.check_length(text)
        return statements_of(text)

    def check_allowed(self, statement: Statement) -> None:
        """TM8114 in a transaction that has failed, for all statements but those that end it."""
        if statement.kind not in (Kind.COMMIT, Kind.ROLLBACK, Kind.EMPTY):
            self.transaction.check()

    def prepare(self, statement: Statement, given: Sequence[int]) -> Prepared:
        """A statement as it is prepared. Errors as :meth:`Answering.question`."""
        text = query_text(statement)
        prepared = Prepared(statement, None if text is None else self.answering.parsed(text, given))
        self.question(prepared)
        return prepared

    def question(self, prepared: Prepared) -> Question | None:
        """What a prepared statement asks at the snapshot that is read now; None for one without a query."""
        return None if prepared.query is None else self.answering.question(prepared.query, self.viewpoint())

    def columns(self, statement: Statement, question: Question | None) -> Columns | None:
        """The columns that a statement gives; None for one that gives none."""
        words = statement.words
        match statement.kind:
            case Kind.QUERY if question is not None:
                return self.answering.columns(question)
            case Kind.EXPLAIN:
                return (("QUERY PLAN", TEXT),)
            case Kind.SHOW if words[1:] != ("ALL",):
                return ((set_and_show.shown_name(words), TEXT),)
            case Kind.FETCH:
                answer = self._result(self._cursor(words)).answer
                return None if answer is None else answer.columns
            case Kind.SHOW | Kind.MILL if reads(statement):
                found = self.run(Portal(statement)).answer
                return None if found is None else found.columns
        return None

    def run(self, portal: Portal) -> Result:
        """Carry out the statement of a portal.

        Raises
        ------
        TidemillError
            What is wrong with it, or went wrong.
        """
        statement = portal.statement
        self.check_allowed(statement)
        if statement.kind not in (Kind.QUERY, Kind.COPY):
            return _COMMANDS[statement.kind](self, statement, portal)
        with self.service.noted(statement.text, self.client.role, QUERY_EXECUTED):
            return _COMMANDS[statement.kind](self, statement, portal)

    def open_portal(self, name: str, portal: Portal) -> None:
        """Keep a portal under a name. TM8117 when the name is taken, TM8012 for too many."""
        if name and name in self.portals:
            raise PostgresError(
                "TM8117", "a prepared statement or cursor of this name exists", name, "CLOSE it first", "42P03"
            )
        if len(self.portals) >= _MOST_PORTALS:
            raise TidemillError(
                "TM8012", "a limit of the server is reached", got=f"{_MOST_PORTALS} open cursors", hint="CLOSE some"
            )
        self.close_portal(name)
        self.portals[name] = portal

    def close_portal(self, name: str) -> None:
        """Close a portal, if there is one of this name."""
        portal = self.portals.pop(name, None)
        if portal is not None:
            portal.close()

    def close_portals(self, held: bool = False) -> None:
        """Close the portals of a transaction that ends; with ``held`` also cursors WITH HOLD."""
        for name in [n for n, p in self.portals.items() if held or not p.held]:
            self.close_portal(name)

    def end_transaction(self, committed: bool) -> None:
        """COMMIT or ROLLBACK."""
        self.close_portals()
        self.transaction.end()
        self.settings.end(committed)

    # -- statements ---------------------------------------------------------------------------------

    def _query(self, statement: Statement, portal: Portal) -> Result:
        question = portal.question or self._question_in(statement)
        if len(portal.values) < len(question.parameters):
            raise TidemillError(
                "TM8118", "a parameter is no value of its type", got="$1 without a value", hint="bind a value to it"
            )
        return Result("SELECT {rows}", self.answering.answer(question, portal.values, self.cancellation.use))

    def _copy(self, statement: Statement, portal: Portal) -> Result:
        given = copied(statement).format
        result = self._query(statement, portal)
        assert result.answer is not None
        unknown = set(given.forced) - {"*", *(name.lower() for name, _ in result.answer.columns)}
        if unknown:
            result.answer.close()
            raise PostgresError(
                "TM8128",
                "an option of COPY cannot be so",
                f"force_quote: {', '.join(sorted(unknown))}",
                "a column of the query",
                "42703",
            )
        return Result("COPY {rows}", result.answer, given)

    def _explain(self, statement: Statement, portal: Portal) -> Result:
        question = portal.question or self._question_in(statement)
        return Result("EXPLAIN", texts_answer("QUERY PLAN", self.answering.explain(question)))

    def _question_in(self, statement: Statement) -> Question:
        text = query_text(statement)
        assert text is not None
        return self.answering.question(self.answering.parsed(text, ()), self.viewpoint())

    def _begin(self, statement: Statement, portal: Portal) -> Result:
        if self.transaction.in_block:
            self.notices.append("there is already a transaction in progress")
        else:
            self.transaction.begin()
            self.settings.begin()
        return Result("START TRANSACTION" if statement.words[0] == "START" else "BEGIN")

    def _commit(self, statement: Statement, portal: Portal) -> Result:
        if "PREPARED" in statement.words:
            raise not_supported(statement.text[:80], "transactions only read here")
        failed = self.transaction.status == FAILED
        return self._ended(not failed)

    def _rollback(self, statement: Statement, portal: Portal) -> Result:
        if "TO" in statement.words:
            self._check_in_block(statement)
            savepoint = self.transaction.savepoints.back_to(cursor_name(statement.words[-1]))
            self.transaction.go_on()
            self.settings.take_back(savepoint.settings)
            for name in set(self.portals) - savepoint.portals:
                self.close_portal(name)
            return Result("ROLLBACK")
        return self._ended(False)

    def _ended(self, committed: bool) -> Result:
        if not self.transaction.in_block:
            self.notices.append("there is no transaction in progress")
        self.end_transaction(committed)
        return Result("COMMIT" if committed else "ROLLBACK")

    def _savepoint(self, statement: Statement, portal: Portal) -> Result:
        self._check_in_block(statement)
        name = cursor_name(statement.words[-1])
        if statement.words[0] == "SAVEPOINT":
            self.transaction.savepoints.add(name, self.settings.state(), self.portals)
        else:
            self.transaction.savepoints.release(name)
        return Result(statement.words[0])

    def _check_in_block(self, statement: Statement) -> None:
        """TM8115 outside of a transaction."""
        if not self.transaction.in_block:
            raise PostgresError("TM8115", "this statement cannot be here", statement.text[:80], "BEGIN first", "25P01")

    def _set(self, statement: Statement, portal: Portal) -> Result:
        set_and_show.set_from(statement, self.settings)
        return Result("SET")

    def _reset(self, statement: Statement, portal: Portal) -> Result:
        set_and_show.reset_from(statement.words, self.settings)
        return Result("RESET")

    def _show(self, statement: Statement, portal: Portal) -> Result:
        epoch = self.transaction.snapshot().version.epoch
        return Result("SHOW", set_and_show.shown(statement.words, self.settings, epoch))

    def _discard(self, statement: Statement, portal: Portal) -> Result:
        if statement.words[1:] == ("ALL",):
            self.close_portals(held=True)
            self.prepared.clear()
            self.settings.reset_all()
        return Result("DISCARD ALL" if statement.words[1:] == ("ALL",) else "DISCARD")

    def _deallocate(self, statement: Statement, portal: Portal) -> Result:
        name = statement.words[-1]
        if name == "ALL":
            self.prepared.clear()
            return Result("DEALLOCATE ALL")
        found = next((n for n in self.prepared if name in (n, n.upper())), None)
        if found is None:
            raise no_such_name(name, "26000")
        del self.prepared[found]
        return Result("DEALLOCATE")

    def _declare(self, statement: Statement, portal: Portal) -> Result:
        held = "HOLD" in statement.words and "WITHOUT" not in statement.words
        if not held and not self.transaction.in_block:
            raise PostgresError(
                "TM8115", "this statement cannot be here", statement.text[:80], "BEGIN first, or WITH HOLD", "25P01"
            )
        query = replace(statement, kind=Kind.QUERY, text=query_text(statement) or "")
        own = Portal(query, portal.question, portal.values, held=held)
        name = cursor_name(statement.words[1])
        self.open_portal(name, own)
        try:
            own.result = self._query(query, own)
        except BaseException:
            self.close_portal(name)
            raise
        return Result("DECLARE CURSOR")

    def _fetch(self, statement: Statement, portal: Portal) -> Result:
        cursor = self._cursor(statement.words)
        answer = self._result(cursor).answer
        assert answer is not None
        self.cancellation.use(answer.cancel)
        count = fetch_count(statement)
        batches = iter(()) if cursor.done or not count else cursor.batches(0 if count == ALL_ROWS else count)
        return Result("FETCH {rows}", type(answer)(answer.columns, batches, answer.cancel))

    def _cursor(self, words: Sequence[str]) -> Portal:
        name = cursor_name(words[-1])
        if name not in self.portals:
            raise no_such_name(name, "34000")
        return self.portals[name]

    def _result(self, portal: Portal) -> Result:
        if portal.result is None:
            portal.result = self.run(portal)
        return portal.result

    def _close(self, statement: Statement, portal: Portal) -> Result:
        name = cursor_name(statement.words[-1])
        if statement.words[-1] == "ALL":
            self.close_portals(held=True)
            return Result("CLOSE CURSOR ALL")
        if name not in self.portals:
            raise no_such_name(name, "34000")
        self.close_portal(name)
        return Result("CLOSE CURSOR")

    def _ignored(self, statement: Statement, portal: Portal) -> Result:
        return Result(statement.words[0])

    def _empty(self, statement: Statement, portal: Portal) -> Result:
        return Result("")

    def _mill(self, statement: Statement, portal: Portal) -> Result:
        """What the mill executes: CREATE, DROP, SHOW VIEWS and so on, in Spark SQL."""
        words = statement.text.upper().split(None, 2)
        if not reads(statement) and self.transaction.in_block:
            raise TidemillError(
                "TM8115",
                "this statement cannot be here",
                got=f"{' '.join(words[:2])} within a transaction",
                hint="it takes effect at once, and cannot be rolled back: COMMIT first (in psycopg: autocommit=True)",
            )
        match self.service.execute(statement.text, self.client.role):
            case Rows(_, tables):
                return Result(words[0], rows_answer(tables))
            case Text(_, text):
                return Result(words[0], texts_answer("plan", text.splitlines()))
        self.transaction.statement_ended()
        return Result(tag_of(statement.text))


_Command = Callable[[Commands, Statement, Portal], Result]
_COMMANDS: dict[Kind, _Command] = {
    Kind.EMPTY: Commands._empty,
    Kind.QUERY: Commands._query,
    Kind.EXPLAIN: Commands._explain,
    Kind.BEGIN: Commands._begin,
    Kind.COMMIT: Commands._commit,
    Kind.ROLLBACK: Commands._rollback,
    Kind.SAVEPOINT: Commands._savepoint,
    Kind.SET: Commands._set,
    Kind.RESET: Commands._reset,
    Kind.SHOW: Commands._show,
    Kind.DISCARD: Commands._discard,
    Kind.DEALLOCATE: Commands._deallocate,
    Kind.DECLARE: Commands._declare,
    Kind.FETCH: Commands._fetch,
    Kind.CLOSE: Commands._close,
    Kind.COPY: Commands._copy,
    Kind.IGNORED: Commands._ignored,
    Kind.MILL: Commands._mill,
}
