"""A client of a server, for programs that wait."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import httpx
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.serve.client import protocol
from tidemill.serve.client.attempts import Attempts
from tidemill.serve.client.protocol import Change, ChangeReader, Fetched, Request, Wanted
from tidemill.serve.client.remote_index import RemoteIndex
from tidemill.serve.client.tables import RemoteTable


def connect(url: str, token: str | None = None, *, timeout: float = 60.0, verify: bool | str = True) -> Client:
    """A client of the server at an address.

    Parameters
    ----------
    url : str
        ``http://host:port``, as ``tidemill serve`` prints it.
    token : str, optional
        Decides what the client may do; none is needed on loopback unless the server was given tokens.
    timeout : float
        Seconds to wait for an answer; statements that change something have one of their own.
    verify : bool or str
        Whether the server's certificate is verified; a file with the certificate of its authority, in PEM, where this
        machine does not trust that.

    Raises
    ------
    TidemillError
        TM8031 when the server does not answer, TM8030 when it is no Tidemill server or no URL of HTTP, TM8005 for an
        unknown token, TM8033 for certificates in ``verify`` that cannot be used.
    """
    client = Client(url, token, timeout=timeout, verify=verify)
    client.status()
    return client


class Client:
    """A connection to a server; threads may share it. See :func:`connect`."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0, verify: bool | str = True) -> None:
        self.url = protocol.address(url)
        self._made = partial(Client, url, token, timeout=timeout, verify=verify)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, verify=protocol.trusted(verify))

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made, ()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _ask(self, request: Request, timeout: float | None = None) -> httpx.Response:
        options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        try:
            response = self._http.request(
                request.method,
                request.path,
                params=dict(request.params),
                json=request.body,
                content=request.content,
                headers=dict(request.headers),
                **options,
            )
        except httpx.HTTPError as error:
            raise protocol.unreachable(self.url, error) from error
        if response.status_code >= 400:
            raise protocol.error_in(response.status_code, response.content, self.url)
        return response

    # -- statements ---------------------------------------------------------------------------------

    def sql(
        self, statement: str, *, timeout: float | None = None, epoch: int | None = None
    ) -> RemoteTable | str | None:
        """Execute one statement.

        Returns
        -------
        RemoteTable, str or None
            Rows for SELECT, SHOW and DESCRIBE; text for ``EXPLAIN INCREMENTAL``; None for what changes something, which
            has taken effect and is durable.

        Raises
        ------
        TidemillError
            As :meth:`tidemill.Mill.sql`; TM8004 when the token's role does not allow it.
        """
        patience = None if timeout is None else timeout + 60
        response = self._ask(protocol.statement(statement, timeout, epoch), patience)
        if response.headers["content-type"].startswith("application/json"):
            answer = response.json()
            return str(answer["plan"]) if "plan" in answer else None
        epoch, table = int(response.headers[protocol.EPOCH_HEADER]), protocol.table_of(response.content)
        return RemoteTable(lambda: (epoch, table))

    def add_query(
        self,
        name: str,
        sql: str,
        *,
        readers: Sequence[str] | None = None,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the result of a query as a view from now on; with ``readers`` only if it reads no others."""
        body = {"name": name, "sql": sql, "readers": None if readers is None else list(readers), "replace": replace}
        self._ask(Request("POST", "/v1/queries", {}, {**body, "properties": dict(properties or {})}))

    def remove_query(self, name: str) -> None:
        """Drop a view."""
        self._ask(Request("DELETE", protocol.path_of("queries", name)))

    def pause_query(self, name: str) -> None:
        """Do not maintain a view, nor those that read it, until it is resumed."""
        self._ask(Request("POST", protocol.path_of("queries", name, "pause")))

    def resume_query(self, name: str) -> None:
        """Build a paused view again, beside its old rows; :meth:`wait_until_fresh` waits for it."""
        self._ask(Request("POST", protocol.path_of("queries", name, "resume")))

    def add_reader(
        self,
        name: str,
        format: str,  # noqa: A002
        *,
        path: str | None = None,
        address: str | None = None,
        columns: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Add a table: a connection (a path, URL or HOST:PORT) and the format of its bytes."""
        body = {"name": name, "format": format, "path": path, "address": address, "columns": columns}
        self._ask(Request("POST", "/v1/readers", {}, {**body, "options": dict(options or {})}))

    def remove_reader(self, name: str) -> None:
        """Drop a table."""
        self._ask(Request("DELETE", protocol.path_of("readers", name)))

    def add_rows(
        self, table: str, rows: bytes | str | pa.Table | Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> bool:
        """Add rows to a table with ``path 'ingest://'``: bytes or a text of its format, an Arrow table for one ``USING
        arrow``, or dictionaries for one ``USING json``. They are durable when the call returns.

        Parameters
        ----------
        key : str, optional
            What is sent again with the same key is there once: ``sender:7``.

        Returns
        -------
        bool
            Whether they were added; False when they are there already.

        Raises
        ------
        TidemillError
            TM5070 while too many bytes wait to be read, TM5072 for rows in another format, TM5068 for other columns.
        """
        return bool((self._ask(protocol.add_rows(table, rows, key))).json()["added"])

    def pause_reader(self, name: str) -> None:
        """Admit no rows of a table until it is resumed; new rows wait in its queue."""
        self._ask(Request("POST", protocol.path_of("readers", name, "pause")))

    def resume_reader(self, name: str) -> None:
        """Admit rows of a table again."""
        self._ask(Request("POST", protocol.path_of("readers", name, "resume")))

    def queues(self) -> list[dict[str, Any]]:
        """The queue of each table, and the position of each view in it: the columns of SHOW QUEUES."""
        found: list[dict[str, Any]] = self._ask(Request("GET", "/v1/queues")).json()["queues"]
        return found

    def create_adaptor(self, name: str, source: str, *, replace: bool = False) -> dict[str, Any]:
        """Upload Python with a function ``decode(size, bytes)``; tables then name it as their format.

        Returns
        -------
        dict
            ``name``, ``version`` (SHA-256 of the source) and ``kept_from``: what its process is kept from there.

        Raises
        ------
        TidemillError
            As :meth:`tidemill.Mill.create_adaptor`; TM8346 where adaptors are off, TM8004 without the role *admin*.
        """
        body = {"name": name, "source": source, "replace": replace}
        found: dict[str, Any] = self._ask(Request("POST", "/v1/adaptors", {}, body)).json()
        return found

    def drop_adaptor(self, name: str) -> None:
        """Remove an adaptor that no table uses."""
        self._ask(Request("DELETE", protocol.path_of("adaptors", name)))

    # -- results ------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The newest epochs (``epoch``, ``durable_epoch``), the ``time_zone`` of the mill, and the status of each view
        (``views``).
        """
        found: dict[str, Any] = self._ask(Request("GET", "/v1/views")).json()
        return found

    def table(
        self, view: str, *, epoch: int | None = None, columns: str = "*", where: str | None = None
    ) -> RemoteTable:
        """A view at the newest epoch, or another one; read when its rows are asked for.

        Parameters
        ----------
        columns : str
            A SELECT list over the columns of the view, in Spark SQL.
        where : str, optional
            A condition on them.
        """

        def load() -> tuple[int, pa.Table]:
            response = self._ask(protocol.read(view, epoch, columns, where))
            return int(response.headers[protocol.EPOCH_HEADER]), protocol.table_of(response.content)

        return RemoteTable(load)

    def tables(self, views: Sequence[str], *, epoch: int | None = None) -> tuple[int, dict[str, pa.Table]]:
        """All rows of several views, all at the one epoch that is given with them."""
        return protocol.tables_in(self._ask(protocol.read_all(views, epoch)).content)

    def index(
        self, view: str, on: str | Sequence[str], *, epoch: int | None = None, reconnect: float = 30.0
    ) -> RemoteIndex:
        """A view as an index for :meth:`tidemill.plan.Plan.lookup_join`, in this process and others.

        Parameters
        ----------
        on : str or sequence of str
            The columns whose values are looked up.
        epoch : int, optional
            The epoch to read. By default each lookup reads the newest one.
        reconnect : float
            Seconds for which a lookup is tried again when the server does not answer.

        Raises
        ------
        TidemillError
            As :meth:`table`; TM4006 for a column that the view does not have.
        """
        return RemoteIndex.of(self, view, on, epoch, reconnect)

    def look_up(
        self, view: str, on: str | Sequence[str], keys: pa.RecordBatch, *, epoch: int | None = None
    ) -> tuple[int, pa.Table]:
        """The epoch and the rows of a view with some keys.

        Parameters
        ----------
        keys : pyarrow.RecordBatch
            A column for each of ``on``, of its type.

        Returns
        -------
        (int, pyarrow.Table)
            The first column, ``__probe`` (int64), is the row of ``keys`` that a row is for; ascending.

        Raises
        ------
        TidemillError
            As :meth:`table`; TM4006 for a column that the view does not have, TM9017 for keys of other types.
        """
        names = (on,) if isinstance(on, str) else tuple(on)
        response = self._ask(protocol.look_up(view, names, keys, epoch))
        return int(response.headers[protocol.EPOCH_HEADER]), protocol.table_of(response.content)

    def wait_until_fresh(self, view: str, *, timeout: float | None = None, progress: bool = False) -> None:
        """Wait until a view has its whole history.

        Parameters
        ----------
        progress : bool
            Whether to show what remains on standard error.

        Raises
        ------
        TidemillError
            TM2012 for an unknown view, TM1032 and TM1033 for one that has failed, TM7014 when the time is up.
        """
        from tidemill.serve.client.progress import waiting

        end = None if timeout is None else time.monotonic() + timeout
        with waiting(view, progress) as show:
            while True:
                try:
                    self._ask(protocol.read(view, None, "1 AS one", "false"))
                    return
                except TidemillError as error:
                    if error.number != "TM1030" or (end is not None and time.monotonic() > end):
                        raise
                    show(error.got)
                    time.sleep(0.1)

    # -- changes ------------------------------------------------------------------------------------

    def subscribe(
        self,
        views: str | Sequence[str],
        *,
        start: str | int = "snapshot",
        columns: str = "*",
        where: str | None = None,
        durable: bool = False,
        reset: bool = False,
        progress: bool = False,
        reconnect: float | None = None,
    ) -> Iterator[Change]:
        """Changes of views as they are sealed, each once and in the order of epochs, until the loop is left.

        When the connection is lost the client connects again, and continues where it was.

        Parameters
        ----------
        views : str or sequence of str
            All changes of an epoch are given before those of the next.
        start : str or int
            ``snapshot`` begins with the rows of the newest epoch as insertions, ``now`` with the next change, a number
            with the changes after that epoch, the ``position`` of a change with those after it.
        columns, where : str
            For a single view: a SELECT list and a condition, evaluated by the server.
        durable : bool
            Whether to give only durable epochs.
        reset : bool
            Whether to go on with a change of kind ``reset`` and the rows of the newest epoch when changes were lost, or
            have expired; otherwise that is an error.
        progress : bool
            Whether to give changes of kind ``progress`` too, for epochs that changed nothing.
        reconnect : float, optional
            Seconds for which to try again when the server does not answer; for ever by default, 0 for never.

        Raises
        ------
        TidemillError
            TM1036, TM8010 (unless ``reset``), TM2012 when a view was dropped, TM8031 when nothing answers.
        """
        names = (views,) if isinstance(views, str) else tuple(views)
        wanted, at = Wanted(names, columns, where, durable, reset), str(start)
        attempts = Attempts(reconnect)
        while True:
            try:
                for change in self._follow(wanted.request(at)):
                    attempts.succeeded()
                    at = change.position or at
                    if change.kind != "progress" or progress:
                        yield change
            except httpx.HTTPError as error:
                attempts.failed(protocol.unreachable(self.url, error))
            else:
                attempts.failed(protocol.unreachable(self.url, ConnectionError("the server has ended")))

    def _follow(self, request: Request) -> Iterator[Change]:
        patience = httpx.Timeout(60.0)
        with self._http.stream(request.method, request.path, params=dict(request.params), timeout=patience) as response:
            if response.status_code >= 400:
                raise protocol.error_in(response.status_code, response.read(), self.url)
            reader = ChangeReader()
            for data in response.iter_raw():
                yield from reader.changes(data)

    def cursor(
        self,
        views: str | Sequence[str],
        *,
        start: str | int = "snapshot",
        columns: str = "*",
        where: str | None = None,
        durable: bool = True,
    ) -> Cursor:
        """Open a cursor: a position in the changes of views that the server stores. Parameters as `subscribe`."""
        names = (views,) if isinstance(views, str) else tuple(views)
        found = self._ask(protocol.open_cursor(Wanted(names, columns, where, durable), str(start))).json()
        return Cursor(self, found["cursor"], found["position"])

    def open_cursor(self, cursor: str) -> Cursor:
        """A cursor that was made earlier, by its id."""
        found = self._ask(Request("GET", protocol.path_of("cursors", cursor))).json()
        return Cursor(self, found["cursor"], found["position"])

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Any other request of ``/openapi.json``; its answer, from JSON."""
        return json.loads(self._ask(Request(method, path, {}, body)).content)


class Cursor:
    """Pulls changes, so many rows at a time.

    Attributes
    ----------
    id : str
    position : str
        Behind what was given last. A fetch whose answer was lost is repeated with ``after=cursor.position``.
    """

    def __init__(self, client: Client, id_: str, position: str) -> None:
        self._client, self.id, self.position = client, id_, position

    def fetch(self, rows: int = 1000, *, wait: float = 0.0, after: str | None = None) -> Fetched:
        """The next rows.

        Parameters
        ----------
        rows : int
            At most so many.
        wait : float
            Seconds to wait for some when there are none.
        after : str, optional
            A position that an earlier fetch gave: what came behind it is given again.

        Raises
        ------
        TidemillError
            TM8014 when it was closed, TM8010 when its position has expired, TM1036 when epochs were lost.
        """
        found = protocol.fetched_in(self._client._ask(protocol.fetch(self.id, rows, after, wait), wait + 60).content)
        self.position = found.position
        return found

    def close(self) -> None:
        """Close it; the server removes it."""
        self._client._ask(Request("DELETE", protocol.path_of("cursors", self.id)))
