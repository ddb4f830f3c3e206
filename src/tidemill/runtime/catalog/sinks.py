"""A sink as created, and what is known of its deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from tidemill.errors import SECRET_OPTIONS, TidemillError
from tidemill.plan.sql.statements import CreateSink
from tidemill.schema import Schema
from tidemill.sinks.options import MODE
from tidemill.sinks.registry import checked_options, needed_secrets, option_of, target_kind
from tidemill.sinks.target import Identity


@dataclass(frozen=True)
class Sink:
    """A sink as created.

    Attributes
    ----------
    name, view, target : str
    id : str
        Unique for ever, also among roots: it stands in what the sink writes.
    options : mapping
        By names in lower case. Secrets are not stored: they are missing when the root has been opened again.
    created_at_epoch : int
        The sink delivers what changes after this epoch.
    paused : bool
    secrets : tuple of str
        Options with secrets that it was given, without which it delivers nothing.
    """

    name: str
    id: str
    view: str
    target: str
    options: Mapping[str, str]
    created_at_epoch: int
    paused: bool = False
    secrets: tuple[str, ...] = ()

    @property
    def mode(self) -> str:
        """Whether changes or snapshots are delivered."""
        return MODE.of(self.options)

    @property
    def location(self) -> str:
        """Where the target is."""
        return target_kind(self.target).location.of(self.options) or ""

    def check_free(self) -> None:
        """TM8213 when the place of a new sink is seen to hold something else."""
        target_kind(self.target).check_free(self.location)

    @property
    def shown_location(self) -> str:
        """Where the target is, without what may be secret in it."""
        return target_kind(self.target).shown(self.location)

    @property
    def guarantee(self) -> str:
        """How often each change arrives."""
        return target_kind(self.target).guarantee(self.options)

    @property
    def missing_secrets(self) -> tuple[str, ...]:
        """Secrets that have to be given again."""
        return tuple(name for name in self.secrets if name not in self.options)

    def identity(self, time_zone: str) -> Identity:
        """What its target knows of it."""
        return Identity(self.id, self.name, self.view, time_zone)

    def is_made_by(self, statement: CreateSink, schema: Schema) -> bool:
        """Whether a statement declares this sink. Values of secrets do not count."""
        made = new_sink(statement, self.id, self.created_at_epoch, schema)
        plain = [{k: v for k, v in s.options.items() if k not in SECRET_OPTIONS} for s in (self, made)]
        return (self.view, self.target, plain[0]) == (made.view, made.target, plain[1])

    def with_options(self, options: Mapping[str, str | None], schema: Schema) -> Sink:
        """With other values of options; None resets one.

        Raises
        ------
        TidemillError
            TM8202 for an option that cannot be changed; as :func:`checked_options`.
        """
        kind = target_kind(self.target)
        for name in options:
            if not option_of(kind, name).alterable:
                raise TidemillError(
                    "TM8202",
                    "this option of a sink cannot be changed",
                    got=name,
                    hint="DROP SINK and create it again, for another place or another form of what is written",
                )
        changed = {name.lower(): value for name, value in options.items()}
        given = {**self.options, **{k: v for k, v in changed.items() if v is not None}}
        given = {k: v for k, v in given.items() if changed.get(k, "") is not None}
        kept = {n for n in self.secrets if changed.get(n, "") is not None}
        checked = checked_options(self.target, given, schema)
        return replace(self, options=checked, secrets=tuple(sorted(kept | {*needed_secrets(checked)})))

    def with_secrets_of(self, other: Sink) -> Sink:
        """With the secrets that another state of this sink has."""
        found = {n: v for n, v in other.options.items() if n in SECRET_OPTIONS and n not in self.options}
        return replace(self, options={**self.options, **found}) if found else self

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: without secrets."""
        options = {n: v for n, v in self.options.items() if n not in SECRET_OPTIONS}
        return {**vars(self), "options": options, "secrets": list(self.secrets)}


def new_sink(statement: CreateSink, id_: str, created_at_epoch: int, schema: Schema) -> Sink:
    """The sink that a statement creates over a view with these columns. Errors as :func:`checked_options`."""
    options = checked_options(statement.target, statement.options, schema)
    place = (statement.name, id_, statement.view, statement.target, options, created_at_epoch)
    return Sink(*place, secrets=needed_secrets(options))


def sink_from_json(data: Mapping[str, Any]) -> Sink:
    """What :meth:`Sink.to_json` gave."""
    return Sink(**{**data, "secrets": tuple(data["secrets"])})


@dataclass(frozen=True)
class SinkStatus:
    """How far a sink has come.

    Attributes
    ----------
    state : str
        ``running``, ``waiting`` for its view, ``retrying`` after an error, ``failed`` until ALTER SINK, or
        ``paused``; empty where the mill runs in another process.
    epoch : int or None
        The last epoch that was delivered; None before the first.
    lag : int or None
        Durable epochs that were not delivered.
    error : str
        What is wrong, with its number.
    """

    state: str
    epoch: int | None
    lag: int | None = None
    error: str = field(default="")


_TEXTS = ("name", "view", "target", "location", "mode", "guarantee", "state")
_NUMBERS = ("epoch", "lag")
_TYPES: list[pa.DataType] = [*(pa.string() for _ in _TEXTS), *(pa.int64() for _ in _NUMBERS), pa.string()]
SINKS = pa.schema(list(zip((*_TEXTS, *_NUMBERS, "error"), _TYPES, strict=True)))
"""Columns of SHOW SINKS."""


def shown(sinks: Mapping[str, Sink], statuses: Mapping[str, SinkStatus]) -> pa.Table:
    """The answer of SHOW SINKS; statuses by the ids of sinks."""
    rows = []
    for sink in sinks.values():
        status = statuses.get(sink.id, SinkStatus("", None))
        state = "paused" if sink.paused else status.state
        about = (sink.name, sink.view, sink.target, sink.shown_location, sink.mode, sink.guarantee, state)
        rows.append(dict(zip(SINKS.names, (*about, status.epoch, status.lag, status.error), strict=True)))
    return pa.Table.from_pylist(rows, SINKS)
