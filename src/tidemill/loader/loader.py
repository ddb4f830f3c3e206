"""The loader: batches of files for training."""

from __future__ import annotations

import json
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidemill.loader.columns import as_arrays
from tidemill.loader.order import order_of_splits
from tidemill.loader.progress import progress_of
from tidemill.loader.reading import read_in_order
from tidemill.loader.spark_stage import Session, SparkStage
from tidemill.loader.split_sets import Work, planned
from tidemill.loader.state import Position, from_state, to_state
from tidemill.loader.task_pool import TaskPool
from tidemill.loader.windows import Batch, batches, windows
from tidemill.options.option import bad_option
from tidemill.plan.loading.plan import Plan
from tidemill.schema import Schema

if TYPE_CHECKING:
    from tidemill.loader.torch import TorchBatches


class Loader:
    """Batches of the rows of files, in an order that depends on the arguments alone, resumed at the row.

    The order: splits as they are listed, by name of the file, or with ``shuffle`` in an order of each pass; rows as
    they are in their file, or shuffled within windows of ``shuffle_buffer`` rows. Batches are cut from that sequence,
    and rank r of w gets the batches r, r + w, r + 2 w and so on. Neither threads nor ranks change the sequence.

    Iterating gives ``epochs`` passes; iterating again gives those that follow, shuffled otherwise. An iteration that
    was left early begins again at its pass.

    Parameters
    ----------
    paths : str, Path or sequence of these, or a plan
        Files, directories or globs, also of object stores, all of one format. Or a plan of :mod:`tidemill.plan`.
    plan : callable, optional
        What becomes of the rows of the paths: ``lambda rows: rows.filter("x > 0")``.
    batch_size : int
        Rows of a batch; the last one of a pass may have fewer.
    columns : sequence of str, optional
        Those that are wanted, in that order; others are not parsed.
    format : str, optional
        As in ``USING``; by the suffix of the files unless given.
    schema : Schema, pyarrow.Schema or str, optional
        Inferred from a sample unless given.
    shuffle : int, optional
        A seed; no shuffling without.
    shuffle_buffer : int
        Rows that are shuffled together, and held in memory for that.
    epochs : int, optional
        Passes of an iteration; None for passes without end.
    rank, world_size : int
        Which of how many consumers this is.
    drop_last : bool, optional
        Leave out the last rows of a pass that do not make a batch for every rank, so that all ranks get as many
        batches; by default when there are several ranks.
    workers : int
        Threads that read ahead; 0 reads when a batch is asked for.
    split_bytes : int
        Size of the parts that files are divided into, where their format allows that.
    spark : pyspark.sql.SparkSession, optional
        Read in as many tasks of one Spark stage as ``workers`` says, not in this process; the stage runs until
        :meth:`close`. Batches are the same.
    progress : bool
        Show a bar for each pass on standard error.
    **options
        Those of the format, of listing and of object stores, as for tables.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches.

    Raises
    ------
    TidemillError
        TM9001 when there is no file, TM9002 for files of unknown or several formats, TM4003 for a number out of range;
        errors of formats and stores as for tables.

    Examples
    --------
    >>> from tidemill.loader import Loader
    >>> loader = Loader("data/*.parquet", batch_size=1024, shuffle=7)  # doctest: +SKIP
    >>> for batch in loader: ...  # doctest: +SKIP
    """

    def __init__(
        self,
        paths: str | Path | Sequence[str | Path] | Plan,
        plan: Work | None = None,
        *,
        batch_size: int = 1024,
        columns: Sequence[str] | None = None,
        format: str | None = None,  # noqa: A002
        schema: Schema | pa.Schema | str | None = None,
        shuffle: int | None = None,
        shuffle_buffer: int = 65_536,
        epochs: int | None = 1,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool | None = None,
        workers: int = 2,
        split_bytes: int = 32 << 20,
        spark: Session | None = None,
        progress: bool = False,
        **options: Any,
    ) -> None:
        _check_numbers(
            batch_size=(batch_size, 1),
            shuffle_buffer=(shuffle_buffer, 1),
            epochs=(1 if epochs is None else epochs, 1),
            world_size=(world_size, 1),
            rank=(rank, 0),
            workers=(workers, 0),
            split_bytes=(split_bytes, 1),
            shuffle=(0 if shuffle is None else shuffle, 0),
        )
        if rank >= world_size:
            raise bad_option("rank", str(rank), f"below world_size, which is {world_size}")
        self.planned = planned(paths, plan, columns, format, schema, split_bytes, options)
        self._reader: TaskPool | SparkStage = TaskPool(self.planned.plan)
        if spark is not None:
            self._reader = SparkStage(spark, self.planned.plan, max(workers, 1))
        weakref.finalize(self, self._reader.close)
        self.batch_size, self.epochs, self.workers = batch_size, epochs, workers
        self.rank, self.world_size = rank, world_size
        self._drop_last = world_size > 1 if drop_last is None else drop_last
        self._seed, self._window, self._progress = shuffle, shuffle_buffer, progress
        self._fingerprint = {
            "data": self.planned.data_fingerprint(),
            "plan": self.planned.plan_fingerprint(),
            "shuffle": shuffle,
            "shuffle_buffer": None if shuffle is None else shuffle_buffer,
        }
        self._position = Position()
        self._resumed = False

    @property
    def schema(self) -> pa.Schema:
        """Of the batches."""
        return self.planned.batch_schema

    # -- iterating ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches as Arrow record batches."""
        return self.share(self.rank, self.world_size)

    def numpy(self) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """Batches as a NumPy array for each column: numbers, booleans and times without NULLs as they are; numbers with
        NULLs as floats with NaN; others as objects.
        """
        return map(as_arrays, iter(self))

    def to_torch(self) -> TorchBatches:
        """A ``torch.utils.data.IterableDataset`` of batches as tensors, with the state of this loader.

        TM9006 when PyTorch is not installed.
        """
        from tidemill.loader.torch import TorchBatches

        return TorchBatches(self)

    def share(self, rank: int, world_size: int) -> Iterator[pa.RecordBatch]:
        """The batches of one of so many ranks, from the position of this loader on when the first one is taken.

        One iteration at a time: the state is that of the newest one.
        """
        begin = self._position if self._resumed else Position(self._position.pass_)
        self._resumed, self._position = False, begin
        last = None if self.epochs is None else (begin.pass_ // self.epochs + 1) * self.epochs
        yield from self._passes(begin, last, rank, world_size)

    def _passes(self, begin: Position, last: int | None, rank: int, world_size: int) -> Iterator[pa.RecordBatch]:
        while last is None or begin.pass_ < last:
            nothing = True
            shown = progress_of(self._progress, begin.pass_, len(self.planned.sets))
            with closing(self._batches(begin)) as found, shown as progress:
                for mine, end in _of_rank(found, rank, world_size, self._drop_last):
                    self._position, nothing = end, False
                    progress.given(end, 0 if mine is None else mine.table.num_rows)
                    if mine is not None:
                        yield _one_batch(mine.table)
            if nothing and last is None and not begin.rows:
                return  # passes without rows would never end
            begin = self._position = Position(begin.pass_ + 1)

    def _batches(self, begin: Position) -> Generator[Batch]:
        """All batches of a pass, behind the rows that were taken."""
        order = order_of_splits(self._seed, begin.pass_, len(self.planned.sets))
        sets = [(place, self.planned.sets[order[place]]) for place in range(begin.place, len(order))]
        with closing(read_in_order(self._reader.read, sets, self.workers)) as chunks:
            rows = windows(chunks, begin, self._seed, self._window)
            yield from batches(rows, begin.rows, self.batch_size, not self._drop_last)

    def close(self) -> None:
        """Free what reads ahead, and end the Spark stage. It may be called twice."""
        self._reader.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- state --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is: behind the batch that it took last, and with several ranks behind those that all took.

        Small, and plain data for JSON. With several ranks the states of all are equal once each has taken as many
        batches; take it then.
        """
        return to_state(self._position, self._fingerprint)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Go on with the next iteration where a state was taken, perhaps with other ranks, threads or batches.

        Rows that were taken never come again, and all others do, in the same order.

        Parameters
        ----------
        strict : bool
            Whether the data, the seed and what is read must be those of the state.

        Raises
        ------
        TidemillError
            TM9004 for what is no state, TM9005 for one of other data.
        """
        self._position, self._resumed = from_state(state, self._fingerprint, strict), True

    def __repr__(self) -> str:
        return (
            f"Loader({len(self.planned.sets)} sets of splits of {self.planned.format}, {json.dumps(self._fingerprint)})"
        )


def _of_rank(
    found: Iterator[Batch], rank: int, world_size: int, drop_last: bool
) -> Iterator[tuple[Batch | None, Position]]:
    """For each round of batches that of a rank, and where the round ends. An incomplete round may be left out."""
    mine: Batch | None = None
    number = 0
    end = Position()
    for number, batch in enumerate(found):
        end = batch.end
        if number % world_size == rank:
            mine = batch
        if number % world_size == world_size - 1:
            yield mine, end
            mine = None
    if end.rows and number % world_size != world_size - 1 and not drop_last:
        yield mine, end


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    found = table.combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)


def _check_numbers(**given: tuple[int, int]) -> None:
    for name, (value, least) in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise bad_option(name, repr(value), f"a whole number from {least} on")
