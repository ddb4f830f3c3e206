"""Answers of the routes that tell how the server stands, as the OpenAPI description has them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from tidemill.serve.http.models import Column


class FirstRows(BaseModel):
    """The first rows of a view in an order, and how many rows there are. Values as in other results."""

    epoch: int
    total: int = Field(description="Rows that meet the condition.")
    columns: list[str]
    types: list[str]
    rows: list[list[Any]]


class UnreadableFile(BaseModel):
    """A file that could not be read when it was tried last."""

    path: str
    attempts: int
    retry_at: float | None = Field(description="Seconds since 1970; null for a file that has been set aside.")
    error: str


class Connection(BaseModel):
    """A connection that gives, or gave, rows to a table."""

    endpoint: str | None
    peer: str | None
    state: str | None
    bytes: int | None
    messages: int | None
    errors: int | None
    since: float | None = Field(description="Seconds since 1970.")
    last_error: str | None


class Source(BaseModel):
    """Where the rows of a table come from, how far it is read, and what went wrong."""

    table: str
    format: str
    path: str
    rows_read: int
    malformed: int
    waiting_files: int | None = Field(description="Files listed and not read yet, as in GET /v1/queues.")
    waiting_bytes: int | None
    unreadable: list[UnreadableFile]
    connections: list[Connection] | None = Field(description="Of a table that sockets give rows to.")


class Sources(BaseModel):
    """All sources, in the order in which their tables were created."""

    epoch: int
    sources: list[Source]


class StateTableSize(BaseModel):
    """A state table: its runs, the rows in them before they are merged, and its bytes."""

    table: str
    used_by: list[str] = Field(description="The views that need it, or the table whose source does.")
    runs: int
    rows: int
    bytes: int
    history_bytes: int = Field(description="Needed by earlier epochs only.")
    buffered_bytes: int = Field(description="Sealed, and not durable yet.")
    first_epoch: int | None
    last_epoch: int | None


class StateSize(BaseModel):
    """Bytes of the state when an epoch was sealed; ``at`` is in seconds since 1970."""

    at: float
    epoch: int
    bytes: int
    history_bytes: int


class DurableEpoch(BaseModel):
    """An epoch that became durable, and when it was found to be; in seconds since 1970."""

    at: float
    epoch: int


class State(BaseModel):
    """The state of the mill: its tables, the largest first, and how it grew since the server began."""

    epoch: int
    durable_epoch: int
    first_epoch: int = Field(description="The oldest epoch that can be read.")
    tables: list[StateTableSize]
    history: list[StateSize]
    checkpoints: list[DurableEpoch]


class Counters(BaseModel):
    """What a step did, over all tasks."""

    rows_in: int
    rows_out: int
    batches: int
    milliseconds: float = Field(description="Of task time.")


class StepInput(BaseModel):
    """Where rows of a step come from, and how they are spread over partitions."""

    step: int
    port: int
    exchange: str | None = Field(description="null where rows stay in their partition.")


class StepTable(BaseModel):
    """A state table of a step."""

    table: str
    use: Literal["appended", "looked up", "looked up and appended"]


class GraphStep(BaseModel):
    """One step of a plan: its number in the mill's program, what it does, what a change costs it, what it did."""

    step: int
    operation: str
    text: str
    superstep: int
    cost: str
    views: list[str]
    inputs: list[StepInput]
    tables: list[StepTable]
    newest: Counters | None = Field(description="In the newest epoch that ran this program.")
    total: Counters | None = Field(description="In all epochs that ran this program.")


class PlanGraph(BaseModel):
    """The plan of a view as a graph. Steps are in topological order.

    Counters are of the program that most of the newest epochs ran; ``epochs`` is 0 when none has since the server
    began.
    """

    epoch: int
    view: str
    first_epoch: int | None
    last_epoch: int | None
    epochs: int
    steps: list[GraphStep]


class Relation(BaseModel):
    """A table or view, with its columns."""

    name: str
    kind: Literal["table", "view"]
    columns: list[Column]


class Vocabulary(BaseModel):
    """The names that a statement may use."""

    relations: list[Relation]
    functions: list[str]
