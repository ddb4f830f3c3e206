"""A client of a server, for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any

import httpx
import pyarrow as pa

from tidemill.serve.client import protocol
from tidemill.serve.client.attempts import Attempts
from tidemill.serve.client.protocol import Change, ChangeReader, Fetched, Request, Wanted


class AsyncClient:
    """As :class:`~tidemill.serve.client.client.Client`, with coroutines; rows come as Arrow tables.

    Used as ``async with AsyncClient("http://host:port") as client``.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0, verify: bool | str = True) -> None:
        self.url = protocol.address(url)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=timeout, verify=protocol.trusted(verify)
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def _ask(self, request: Request, timeout: float | None = None) -> httpx.Response:
        options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        try:
            response = await self._http.request(
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

    async def sql(
        self, statement: str, *, timeout: float | None = None, epoch: int | None = None
    ) -> pa.Table | str | None:
        """Execute one statement: rows, the text of a plan, or None for what has changed something."""
        response = await self._ask(
            protocol.statement(statement, timeout, epoch), None if timeout is None else timeout + 60
        )
        if response.headers["content-type"].startswith("application/json"):
            answer = response.json()
            return str(answer["plan"]) if "plan" in answer else None
        return protocol.table_of(response.content)

    async def add_rows(
        self, table: str, rows: bytes | str | pa.Table | Sequence[Mapping[str, Any]], *, key: str | None = None
    ) -> bool:
        """As :meth:`~tidemill.serve.client.client.Client.add_rows`."""
        return bool((await self._ask(protocol.add_rows(table, rows, key))).json()["added"])

    async def status(self) -> dict[str, Any]:
        """The newest epochs, the time zone of the mill, and the status of each view."""
        found: dict[str, Any] = (await self._ask(Request("GET", "/v1/views"))).json()
        return found

    async def table(
        self, view: str, *, epoch: int | None = None, columns: str = "*", where: str | None = None
    ) -> pa.Table:
        """The rows of a view."""
        return protocol.table_of((await self._ask(protocol.read(view, epoch, columns, where))).content)

    async def look_up(
        self, view: str, on: str | Sequence[str], keys: pa.RecordBatch, *, epoch: int | None = None
    ) -> tuple[int, pa.Table]:
        """As :meth:`tidemill.serve.client.client.Client.look_up`."""
        names = (on,) if isinstance(on, str) else tuple(on)
        response = await self._ask(protocol.look_up(view, names, keys, epoch))
        return int(response.headers[protocol.EPOCH_HEADER]), protocol.table_of(response.content)

    async def tables(self, views: Sequence[str], *, epoch: int | None = None) -> tuple[int, dict[str, pa.Table]]:
        """All rows of several views, all at the one epoch that is given with them."""
        return protocol.tables_in((await self._ask(protocol.read_all(views, epoch))).content)

    async def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Any other request of ``/openapi.json``; its answer, from JSON."""
        return (await self._ask(Request(method, path, {}, body))).json()

    async def subscribe(
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
    ) -> AsyncGenerator[Change, None]:
        """As :meth:`Client.subscribe <tidemill.serve.client.client.Client.subscribe>`."""
        names = (views,) if isinstance(views, str) else tuple(views)
        wanted, at = Wanted(names, columns, where, durable, reset), str(start)
        attempts = Attempts(reconnect)
        while True:
            lost: Exception = ConnectionError("the server has ended")
            try:
                async with aclosing(self._follow(wanted.request(at))) as changes:
                    async for change in changes:
                        attempts.succeeded()
                        at = change.position or at
                        if change.kind != "progress" or progress:
                            yield change
            except httpx.HTTPError as error:
                lost = error
            await asyncio.sleep(attempts.next_pause(protocol.unreachable(self.url, lost)))

    async def _follow(self, request: Request) -> AsyncGenerator[Change, None]:
        patience = httpx.Timeout(60.0)
        params = dict(request.params)
        async with self._http.stream(request.method, request.path, params=params, timeout=patience) as response:
            if response.status_code >= 400:
                raise protocol.error_in(response.status_code, await response.aread(), self.url)
            reader = ChangeReader()
            async for data in response.aiter_raw():
                for change in reader.changes(data):
                    yield change

    async def cursor(
        self,
        views: str | Sequence[str],
        *,
        start: str | int = "snapshot",
        columns: str = "*",
        where: str | None = None,
        durable: bool = True,
    ) -> str:
        """Open a cursor; its id, for :meth:`fetch`."""
        names = (views,) if isinstance(views, str) else tuple(views)
        response = await self._ask(protocol.open_cursor(Wanted(names, columns, where, durable), str(start)))
        return str(response.json()["cursor"])

    async def fetch(self, cursor: str, rows: int = 1000, *, wait: float = 0.0, after: str | None = None) -> Fetched:
        """As :meth:`Cursor.fetch <tidemill.serve.client.client.Cursor.fetch>`."""
        return protocol.fetched_in((await self._ask(protocol.fetch(cursor, rows, after, wait), wait + 60)).content)
