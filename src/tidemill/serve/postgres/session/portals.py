"""Prepared statements and portals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tidemill.serve.postgres.query.answering import Answer, Columns, Parsed, Question
from tidemill.serve.postgres.session.statements import Statement
from tidemill.serve.postgres.values.copy_rows import CopyFormat
from tidemill.serve.postgres.values.parameter_values import Value


@dataclass
class Prepared:
    """A statement that a client has prepared.

    Attributes
    ----------
    query : Parsed or None
        Of a statement that has a query in it. It keeps no snapshot: a statement may stay prepared for days.
    columns : Columns or None
        As they were described.
    """

    statement: Statement
    query: Parsed | None = None
    columns: Columns | None = None


@dataclass
class Result:
    """What a statement results in: an answer, or only a tag.

    Attributes
    ----------
    tag : str
        Of the command; ``{rows}`` stands for the number of rows.
    copy : CopyFormat or None
        How COPY gives the answer; None for all other statements.
    """

    tag: str
    answer: Answer | None = None
    copy: CopyFormat | None = None


@dataclass
class Portal:
    """A statement with its values, and how far its answer has been given."""

    statement: Statement
    question: Question | None = None
    values: Sequence[Value] = ()
    formats: tuple[int, ...] = ()
    described: Columns | None = None
    result: Result | None = None
    held: bool = False
    done: bool = False
    _rest: pa.RecordBatch | None = field(default=None, repr=False)

    def batches(self, most: int) -> Iterator[pa.RecordBatch]:
        """The next rows, so many at most, 0 for all; :attr:`done` tells whether that was all."""
        assert self.result is not None and self.result.answer is not None
        source, given = iter(self.result.answer), 0
        while not most or given < most:
            batch = self._rest if self._rest is not None else next(source, None)
            self._rest = None
            if batch is None:
                self.done = True
                return
            if most and batch.num_rows > most - given:
                self._rest = batch.slice(most - given)
                batch = batch.slice(0, most - given)
            given += batch.num_rows
            yield batch

    def close(self) -> None:
        """Free what it holds."""
        if self.result is not None and self.result.answer is not None:
            self.result.answer.close()
        self.result, self._rest = None, None


def is_binary(formats: Sequence[int], columns: int) -> list[bool]:
    """Which columns are in the binary format: one format counts for all, none is text."""
    if len(formats) <= 1:
        return [bool(formats and formats[0])] * columns
    return [bool(f) for f in formats]
