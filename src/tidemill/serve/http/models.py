"""Bodies of requests and answers, as the OpenAPI description has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Name = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
"""The name of a table or view."""

Value = str | bool | int | FiniteFloat
"""The value of an option: a text, or what SQL may write without quotes."""

_STRICT = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What was wrong: a stable number, one sentence, what was found, what to do."""

    number: str = Field(pattern=r"^TM\d{4}$")
    what: str
    got: str
    hint: str
    line: int | None = None
    column: int | None = None


class StatementBody(BaseModel):
    """One statement of SQL."""

    model_config = _STRICT
    statement: str = Field(description="Any statement: CREATE, ALTER, DROP, SELECT, SHOW, DESCRIBE, EXPLAIN.")
    timeout: float | None = Field(
        None, gt=0, le=86_400, description="Seconds to wait for a turn between two epochs; for ever by default."
    )
    epoch: int | None = Field(None, ge=0, le=2**53, description="For a statement that reads: the epoch to read.")


class Executed(BaseModel):
    """A statement has been executed, and is durable."""

    ok: bool = True
    epoch: int


class Added(BaseModel):
    """Rows that were sent are in the table, and durable.

    ``added`` is false when they were there already, by their key.
    """

    ok: bool = True
    added: bool
    bytes: int


class Plan(BaseModel):
    """The text of a plan."""

    epoch: int
    plan: str


class Result(BaseModel):
    """Rows at one epoch. NULL is null; times are ISO texts with microseconds, binary is Base64, NaN and infinities are
    texts.
    """

    epoch: int
    columns: list[str]
    types: list[str]
    rows: list[list[Any]]


class LookupBody(BaseModel):
    """Keys that are looked up in a view."""

    model_config = _STRICT
    on: list[Annotated[str, Field(max_length=900)]] = Field(max_length=1000, description="Columns of the view.")
    keys: list[list[Any]] = Field(
        description="For each key a value for each of these columns, as results have them; times may be numbers of "
        "microseconds since 1970, dates of days."
    )


class Rows(BaseModel):
    """Rows of one of several views."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]


class Results(BaseModel):
    """Rows of several views at one epoch."""

    epoch: int
    views: dict[str, Rows]


class ViewStatus(BaseModel):
    """How a view stands."""

    name: str
    status: Literal["fresh", "initialising", "failing", "failed", "paused", "stopped"]
    created_at_epoch: int
    detail: str


class Views(BaseModel):
    """All views at the newest epoch, and the time zone of the mill."""

    epoch: int
    durable_epoch: int
    time_zone: str
    views: list[ViewStatus]


class Column(BaseModel):
    """A column of a table or view."""

    name: str
    type: str
    nullable: bool


class Description(BaseModel):
    """What is known of a table or view."""

    name: str
    columns: list[Column]
    query: str | None = None
    status: ViewStatus | None = None


class CursorBody(BaseModel):
    """What a cursor is to follow."""

    model_config = _STRICT
    views: list[Name] = Field(min_length=1, max_length=100)
    start: str = Field("snapshot", max_length=80, description="snapshot, now, an epoch, or an earlier position.")
    columns: str = Field("*", max_length=10_000, description="A SELECT list; for one view.")
    where: str | None = Field(None, max_length=10_000, description="A condition in Spark SQL; for one view.")
    durable: bool = Field(True, description="Give only epochs that no crash can take back.")


class CursorState(BaseModel):
    """A cursor and how far it is."""

    cursor: str
    views: list[str]
    position: str
    lag: int | None = Field(None, description="Epochs that have not been given yet.")
    created: float
    used: float


class CursorList(BaseModel):
    """All cursors."""

    cursors: list[CursorState]


class ReaderBody(BaseModel):
    """A reader: a connection and what its bytes mean. It is a table of the mill."""

    model_config = _STRICT
    name: Name
    columns: str | None = Field(
        None, max_length=100_000, description="As in CREATE TABLE: `a INT, b STRING`; inferred when left out."
    )
    path: str | None = Field(None, max_length=4096, description="A file, glob or URL.")
    address: str | None = Field(
        None,
        max_length=255,
        description="HOST:PORT to connect to, in place of a path; to listen, give `path` tcp+listen://HOST:PORT.",
    )
    format: str = Field(min_length=1, max_length=100, description="A registered format: csv, json, parquet, ...")
    options: dict[str, Value] = Field(default_factory=dict, max_length=200)


class QueryBody(BaseModel):
    """A query: a view that is kept fresh from now on."""

    model_config = _STRICT
    name: Name
    sql: str = Field(min_length=1, description="A SELECT in Spark SQL.")
    readers: list[Name] | None = Field(
        None, description="Readers and views that it may read; it is refused when it reads others."
    )
    replace: bool = Field(False, description="Take the place of a view of this name once it is complete.")
    properties: dict[str, Value] = Field(default_factory=dict, max_length=50)
    timeout: float | None = Field(None, gt=0, le=86_400)


class Reader(BaseModel):
    """A reader and what it has read."""

    name: str
    format: str
    path: str
    rows_read: int
    malformed: int


class Readers(BaseModel):
    """All readers."""

    epoch: int
    readers: list[Reader]


class Queue(BaseModel):
    """How far a view has read a table, and what waits in the table's queue."""

    table: str
    view: str | None = Field(None, description="None for a table that no view reads.")
    state: Literal["live", "initialising", "paused", "failed", "unread"]
    epoch: int | None = Field(None, description="Newest epoch whose rows the view has; None while initialising.")
    waiting_files: int | None = None
    waiting_bytes: int | None = Field(None, description="Found, and not admitted yet.")
    lag_bytes: int | None = Field(None, description="What the view has to read: what waits, and history.")
    lag_seconds: float | None = Field(None, description="The age of the oldest file or message that waits, if known.")
    priority: int


class Queues(BaseModel):
    """The queues of all tables."""

    epoch: int
    queues: list[Queue]


class AdaptorBody(BaseModel):
    """An adaptor: Python with a function ``decode(size, bytes)`` that gives rows."""

    model_config = _STRICT
    name: str = Field(min_length=1, max_length=64)
    source: str = Field(min_length=1, max_length=64 << 10)
    replace: bool = Field(False, description="Replace one of this name; tables continue with the earlier source.")


class AdaptorCreated(BaseModel):
    """An adaptor that was created; what its process is kept from on the machine of the server."""

    name: str
    version: str = Field(description="SHA-256 of the source.")
    kept_from: list[str]


class AdaptorDescription(BaseModel):
    """An adaptor, and the tables that use it with the version that each has."""

    name: str
    format: str
    version: str
    source: str
    tables: dict[str, str]


class AdaptorList(BaseModel):
    """All adaptors."""

    adaptors: list[AdaptorDescription]


class LogEntry(BaseModel):
    """An entry of the log."""

    number: int
    time: str = Field(description="ISO 8601, in UTC.")
    level: Literal["debug", "info", "warning", "error"]
    event: str
    message: str
    fields: dict[str, Any]


class Health(BaseModel):
    """Whether the process answers, or the mill works."""

    status: Literal["ok", "stopped"]
    epoch: int
    durable_epoch: int
    detail: str = ""
