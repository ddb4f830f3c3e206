"""What a target is: it takes the changes or the rows of a view, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import WEIGHT, Schema, type_to_ddl

EPOCH = "__epoch"
"""Name of the int64 column with the epoch of a change."""

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once"
BEST_EFFORT = "best effort"


@dataclass(frozen=True)
class Identity:
    """Which sink writes.

    Attributes
    ----------
    id : str
        Unique for ever: it names the sink in what it writes.
    name, view : str
    time_zone : str
        In which texts show timestamps.
    """

    id: str
    name: str
    view: str
    time_zone: str


@dataclass(frozen=True)
class Changes:
    """What one epoch changed: the columns of the view and int64 ``__weight``; at least one row."""

    epoch: int
    table: pa.Table


class Target(Protocol):
    """Where one sink writes. Used by one thread, but for :meth:`abort`.

    Epochs come in ascending order, and none again that was written, unless the process ended before it was noted. Each
    call writes all that it is given, or raises; what it had written then is written again, or skipped.

    Methods raise a TidemillError, or an OSError, for which TM8210 stands.
    """

    combines: bool
    """Whether :meth:`changes` takes several epochs at a time."""

    def position(self, begun: bool) -> int | None:
        """The newest epoch that the target has, for one that can tell: all before it were written, too.

        Called before anything is written, and again after a failure.

        Parameters
        ----------
        begun : bool
            Whether the sink has delivered something.

        Raises
        ------
        TidemillError
            TM8213 when the target belongs to something else, TM8218 when what was delivered is not there.
        """
        ...

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Write all rows as of an epoch, in place of everything before: at least one table, which may be empty."""
        ...

    def changes(self, changes: Sequence[Changes]) -> None:
        """Write the changes of one epoch or several, which have the same columns."""
        ...

    def close(self) -> None:
        """Release connections; the next call opens them again. Raises nothing."""
        ...

    def abort(self) -> None:
        """Make a call in progress on another thread fail soon."""
        ...


@dataclass(frozen=True)
class TargetKind:
    """A kind of target, as statements name it.

    Attributes
    ----------
    name : str
    options : OptionGroup
        Those that this kind takes; all kinds take :data:`~tidemill.sinks.options.SINK_OPTIONS`, too.
    location : Option
        The one that says where it is.
    modes : tuple of str
        Values of ``mode``.
    check : callable
        Refuses options, with names in lower case, or columns that it cannot take.
    resolve : callable
        A location as it is stored: a path made absolute. TM8207 for one that is none.
    make : callable
        Opens a target; nothing is written yet.
    guarantee : callable
        How often each change arrives, by the options.
    shown : callable
        A location as it is shown, without what may be secret in it.
    deletes, library, extra, tried : str
        As of :class:`~tidemill.connectors.kinds.ConnectorKind`.
    check_free : callable
        TM8213 when a new sink cannot have a location, as far as looking takes no connection. Whatever comes later is
        found by the first delivery.
    """

    name: str
    options: OptionGroup
    location: Option[str | None]
    modes: tuple[str, ...]
    check: Callable[[Mapping[str, str], Schema], None]
    resolve: Callable[[str], str]
    make: Callable[[Identity, Mapping[str, str]], Target]
    guarantee: Callable[[Mapping[str, str]], str]
    shown: Callable[[str], str] = str
    check_free: Callable[[str], None] = lambda _: None
    deletes: str = "rows with a negative __weight"
    library: str = ""
    extra: str = ""
    tried: str = ""


def with_epoch(changes: Sequence[Changes]) -> pa.Table:
    """The changes of epochs as one table: columns of the view, ``__weight`` and ``__epoch``."""
    tables = [c.table.append_column(_EPOCH_FIELD, pa.repeat(pa.scalar(c.epoch), c.table.num_rows)) for c in changes]
    return pa.concat_tables(tables)


def as_changes(epoch: int, table: pa.Table) -> pa.Table:
    """Rows as the insertions of an epoch, with ``__weight`` and ``__epoch``."""
    weights = pa.repeat(pa.scalar(1), table.num_rows)
    return with_epoch([Changes(epoch, table.append_column(pa.field(WEIGHT, pa.int64(), False), weights))])


_EPOCH_FIELD = pa.field(EPOCH, pa.int64(), False)


def check_lake_types(schema: Schema, lake: str) -> None:
    """TM8209 for a column that neither Delta nor Iceberg tables can have."""
    for field in schema:
        if _has(field.type, pa.types.is_duration) or _has(field.type, pa.types.is_null):
            raise TidemillError(
                "TM8209",
                "a column of the view cannot be written to this target",
                got=f"{field.name} {type_to_ddl(field.type)}",
                hint=f"{lake} tables have neither intervals nor columns of NULL alone: cast it in the view",
            )


def _has(type_: pa.DataType, what: Callable[[pa.DataType], bool]) -> bool:
    return what(type_) or any(_has(type_.field(i).type, what) for i in range(type_.num_fields))


def bad_location(kind: str, option: str, got: str, hint: str) -> TidemillError:
    """TM8207: the location of a target is missing or not understood."""
    return TidemillError("TM8207", "the location of a sink is not understood", got=f"{kind}: {option} {got}", hint=hint)


def gone(location: str) -> TidemillError:
    """TM8218: a target to which a sink has delivered is not there."""
    return TidemillError(
        "TM8218",
        "the target of this sink has gone",
        got=f"{location}: nothing of what was delivered is there",
        hint="put it back; or ALTER SINK name SET OPTIONS (onGap 'snapshot') writes all rows to a new one",
    )


def foreign(location: str, got: str) -> TidemillError:
    """TM8213: a target holds something that the sink did not write."""
    return TidemillError(
        "TM8213",
        "the target of this sink holds other data",
        got=f"{location}: {got}",
        hint="give a new or empty directory or table; a sink that was dropped and created again is another one",
    )
