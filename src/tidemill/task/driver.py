"""Runs one pipeline: moves items down a chain of operators, and drains it at a barrier.

Draining goes strictly from upstream to downstream, one operator at a time: the operator that drains
hands out what it holds, and only when it has nothing left does the next one start.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TypeVar

from tidemill.errors import EvaluationError, TidemillError
from tidemill.task.dataflow.operator import Context, Operator, Output, SourceOperator
from tidemill.task.functions.columns.sizes import out_of_memory
from tidemill.task.view_limits import ViewLimits

_T = TypeVar("_T")


class Pause(Enum):
    """Why a pipeline gives way to others.

    MOVED: it did something and can go on. IDLE: it waits for another pipeline, or its source is pending.
    """

    MOVED = 1
    IDLE = 2


class Driver:
    """A pipeline: a source operator and the operators after it, reused for every epoch.

    Parameters
    ----------
    operators : tuple of Operator
    limits : ViewLimits, optional
        What the views behind them may take.
    """

    def __init__(self, operators: tuple[Operator, ...], limits: ViewLimits | None = None) -> None:
        head = operators[0]
        assert isinstance(head, SourceOperator)
        self.source: SourceOperator = head
        self.operators = operators
        self._broken: set[int] = set()
        self._limits = limits
        self._limited = {i for i, o in enumerate(operators) if limits is not None and limits.watches(o.step)}

    def begin(self, context: Context) -> None:
        """Start an epoch."""
        self._broken.clear()
        for operator in self.operators:
            operator.begin(context)

    def run(self) -> Iterator[tuple[int, Output] | Pause]:
        """One epoch of the pipeline, as a generator that ends when it has drained.

        Yields
        ------
        (step, Output)
            What leaves the last operator.
        Pause
            After each item of any operator, so that pipelines downstream can take what has been queued for
            them before more is made; and when nothing can be done now.
        """
        while True:
            while (output := self._get(0)) is not None:
                yield from self._flow(1, output)
                yield Pause.MOVED
            if self.source.reached_barrier():
                break
            yield Pause.IDLE
        for position in range(len(self.operators)):
            if self._start_drain(position):
                while (output := self._get(position)) is not None:
                    yield from self._flow(position + 1, output)
                    yield Pause.MOVED

    def _flow(self, position: int, output: Output) -> Iterator[tuple[int, Output] | Pause]:
        if position == len(self.operators):
            yield (self.operators[-1].step, output)
            return
        self._add(position, output)
        while (produced := self._get(position)) is not None:
            yield from self._flow(position + 1, produced)
            yield Pause.MOVED

    def _add(self, position: int, output: Output) -> None:
        if position in self._broken:
            return
        operator = self.operators[position]
        self._call(position, partial(operator.add_input, output.item, output.port))
        operator.stats.rows_in += len(output.item)
        operator.stats.batches += 1

    def _get(self, position: int) -> Output | None:
        if position in self._broken:
            return None
        operator = self.operators[position]
        output = self._call(position, operator.get_output)
        if output is not None:
            operator.stats.rows_out += len(output.item)
        return output

    def _start_drain(self, position: int) -> bool:
        if position in self._broken:
            return False
        return bool(self._call(position, self.operators[position].start_drain))

    def _call(self, position: int, function: Callable[[], _T]) -> _T | None:
        """What an operator does; None when it fails there.

        What fails for rows, or for no reason that anyone has thought of, stops the views behind the operator and no
        others. What cannot be read or written fails the task, and so does every error of a source.
        """
        started = time.perf_counter()
        try:
            return self._call_within_limits(position, function) if position in self._limited else function()
        except (EvaluationError, MemoryError) as error:
            self._break(position, error)
        except (TidemillError, OSError, EOFError):
            raise
        except Exception as error:
            if position == 0:
                raise
            self._break(position, _bug(error))
        finally:
            self.operators[position].stats.milliseconds += (time.perf_counter() - started) * 1e3
        return None

    def _call_within_limits(self, position: int, function: Callable[[], _T]) -> _T:
        assert self._limits is not None
        operator = self.operators[position]
        return self._limits.call(operator.step, operator.context.budget, function)

    def _break(self, position: int, error: EvaluationError | MemoryError) -> None:
        """The views behind this operator stop; the rest of the task goes on, so the pipeline still drains."""
        self._broken.add(position)
        operator = self.operators[position]
        if isinstance(error, MemoryError):
            error = out_of_memory(f"{type(operator).__name__}: {error}")
        operator.context.failed(operator.step, error)


def _bug(error: Exception) -> EvaluationError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return EvaluationError(
        "TM3900",
        "an operator met a bug in Tidemill",
        got=f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({Path(last.filename).name}:{last.lineno})",
        hint="please report the query of the view; other views are not affected",
    )
