"""Evaluate an expression tree on a record batch, with the semantics of Spark SQL in ANSI mode.

Whole columns are evaluated at a time, but an error must be raised only when Spark, row by row, would have
reached it. So an argument that can fail is evaluated only on the rows that reach it: those rows are
filtered, evaluated and scattered back. Whatever cannot fail is evaluated on all rows, which is faster.
"""

from __future__ import annotations

import functools
from typing import cast

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError, TidemillError
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call, Expression, Literal, Ref, Variable, references, remap
from tidemill.task.functions.columns.compute import Array, null_unless, nulls, pc, repeat
from tidemill.task.functions.columns.registry import Function, Value, as_array, every_function, lookup
from tidemill.task.functions.columns.sizes import TooLargeError, check_size
from tidemill.task.functions.nested.bodies import Body

CONDITIONAL = frozenset({"and", "or", "if", "case", "coalesce", "in", "try"})
"""What is evaluated here. Only the first argument is evaluated for all rows; that of ``try`` may fail."""


def supported(name: str) -> bool:
    """Whether a function called ``name`` can be evaluated."""
    return name in CONDITIONAL or name in every_function()


def can_fail(expression: Expression) -> bool:
    """Whether some row could make the expression raise an error."""
    if not isinstance(expression, Call):
        return False
    if expression.function != "try" and any(can_fail(arg) for arg in expression.args):
        return True
    return can_fail_itself(expression)


def can_fail_itself(call: Call) -> bool:
    """Whether a call could raise an error for some values of its arguments."""
    if call.function in CONDITIONAL:
        return False
    fails = lookup(call.function).fails
    return fails if isinstance(fails, bool) else fails(call)


def evaluate(expression: Expression, batch: pa.RecordBatch) -> Array:
    """The value of ``expression`` for every row of ``batch``.

    Parameters
    ----------
    expression : Expression
        ``Ref(i)`` reads column ``i`` of ``batch``.
    batch : pa.RecordBatch
        Input rows; column types equal the types in the expression.

    Returns
    -------
    pa.Array
        ``batch.num_rows`` values of type ``expression.type``, in row order.

    Raises
    ------
    EvaluationError
        TM3001 division by zero, TM3002 overflow, TM3003 value cannot be cast, TM3004 other failures of a row.
    TooLargeError
        TM3020 when a column would be larger than what a task may hold; fewer rows at a time may do.
    TidemillError
        TM2101 for a function that is not registered.
    """
    result = as_array(_value(expression, batch), batch.num_rows)
    if result.type != expression.type:
        raise TidemillError(
            "TM2900", "a function returned another type than planned", got=f"{result.type} for {expression}"
        )
    return result


def filter_mask(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows pass the predicate: its value, with NULL as false."""
    return as_mask(evaluate(expression, batch))


def as_mask(values: Array) -> pa.BooleanArray:
    """Values of a predicate, with NULL as false."""
    return cast("pa.BooleanArray", pc.fill_null(values, False))


def _value(expression: Expression, batch: pa.RecordBatch) -> Value:
    if isinstance(expression, Ref):
        return batch.column(expression.index)
    if isinstance(expression, Literal):
        return pa.scalar(expression.value, expression.type)
    if isinstance(expression, Variable):
        raise TidemillError("TM2900", "a variable is outside the function that binds it", got=str(expression))
    match expression.function:
        case "and":
            return _and_or(expression, batch, stop=False)
        case "or":
            return _and_or(expression, batch, stop=True)
        case "if" | "case":
            return _case(expression, batch)
        case "coalesce":
            return _coalesce(expression, batch)
        case "in":
            return _in(expression, batch)
        case "try":
            return _try(expression.args[0], batch)
    spec = lookup(expression.function)
    args = _arguments(spec, expression, batch)
    if spec.size is not None:
        check_size(spec.size(expression, args, batch.num_rows))
    result = spec.kernel(expression, args, batch.num_rows)
    if isinstance(result, pa.Array) and not pa.types.is_primitive(expression.type):
        check_size(result.nbytes)  # calls inside calls may multiply sizes
    return result


def _bodies(call: Call, batch: pa.RecordBatch) -> list[Value]:
    """The bodies of a call, to be evaluated over elements."""
    pairs = zip(call.args[call.plain :], call.option("binds"), strict=True)
    return [Body(body, numbers, batch, evaluate, can_fail(body)) for body, numbers in pairs]


def _arguments(spec: Function, call: Call, batch: pa.RecordBatch) -> list[Value]:
    """The arguments in order; a strict function evaluates each only where the ones before it are not NULL."""
    order = list(range(call.plain))
    if spec.order == "right":
        order.reverse()
    values: dict[int, Value] = {}
    for position in order:
        arg = call.args[position]
        if spec.strict and values and can_fail(arg):
            valid = [as_array(earlier, batch.num_rows).is_valid() for earlier in values.values()]
            values[position] = evaluate_where(arg, batch, functools.reduce(pc.and_, valid))
        else:
            values[position] = _value(arg, batch)
    found = [values[position] for position in range(call.plain)]
    return [*found, *_bodies(call, batch)] if spec.bodies else found


def evaluate_where(expression: Expression, batch: pa.RecordBatch, mask: Array) -> Value:
    """The expression on the rows where ``mask`` (no NULLs) is true; other rows hold anything."""
    if not can_fail(expression):
        return _value(expression, batch)
    reached = mask.to_numpy(zero_copy_only=False)
    count = int(np.count_nonzero(reached))
    if count == batch.num_rows:
        return _value(expression, batch)
    if count == 0:
        return nulls(batch.num_rows, expression.type)
    columns = sorted(references(expression))
    if not columns:
        # A constant still has to fail, but only because some row reaches it.
        single = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["0"])
        return as_array(_value(expression, single), 1)[0]
    narrow = pa.RecordBatch.from_arrays(
        [batch.column(i).filter(mask) for i in columns], names=[str(i) for i in columns]
    )
    moved = remap(expression, {old: new for new, old in enumerate(columns)})
    values = as_array(_value(moved, narrow), count)
    indices = np.zeros(batch.num_rows, dtype=np.int64)
    indices[reached] = np.arange(count)
    return values.take(column(indices, ~reached))


def _and_or(call: Call, batch: pa.RecordBatch, *, stop: bool) -> Value:
    combine = pc.or_kleene if stop else pc.and_kleene
    left = _value(call.args[0], batch)
    for arg in call.args[1:]:
        if can_fail(arg):
            decided = pc.fill_null(as_array(left, batch.num_rows), not stop)
            right = evaluate_where(arg, batch, pc.invert(decided) if stop else decided)
        else:
            right = _value(arg, batch)
        left = combine(left, right)
    return left


def _case(call: Call, batch: pa.RecordBatch) -> Value:
    """``args`` are condition, value, condition, value, ..., and the value otherwise when their number is odd."""
    rows = batch.num_rows
    pairs = [(call.args[i], call.args[i + 1]) for i in range(0, len(call.args) - 1, 2)]
    otherwise: Expression = call.args[-1] if len(call.args) % 2 else Literal(None, call.type)
    open_rows = repeat(pa.scalar(True), rows)
    taken: list[tuple[Array, Value]] = []
    for condition, value in pairs:
        holds = pc.fill_null(as_array(evaluate_where(condition, batch, open_rows), rows), False)
        here = pc.and_(open_rows, holds)
        taken.append((here, evaluate_where(value, batch, here)))
        open_rows = pc.and_not(open_rows, holds)
    result = evaluate_where(otherwise, batch, open_rows)
    for here, value in reversed(taken):
        result = pc.if_else(here, value, result)
    return result


def _try(expression: Expression, batch: pa.RecordBatch) -> Value:
    """NULL in the rows that fail, which are found by halving the batch."""
    try:
        return _value(expression, batch)
    except TooLargeError:
        raise  # try() only hides errors that Spark has too
    except EvaluationError:
        if batch.num_rows <= 1:
            return nulls(batch.num_rows, expression.type)
    half = batch.num_rows // 2
    parts = (batch.slice(0, half), batch.slice(half))
    return pa.concat_arrays([as_array(_try(expression, part), part.num_rows) for part in parts])


def _coalesce(call: Call, batch: pa.RecordBatch) -> Value:
    result = _value(call.args[0], batch)
    for arg in call.args[1:]:
        missing = as_array(result, batch.num_rows).is_null()
        result = pc.if_else(missing, evaluate_where(arg, batch, missing), result)
    return result


def _in(call: Call, batch: pa.RecordBatch) -> Value:
    """``args[0] IN (args[1], ...)``: an element is evaluated where no earlier one was equal."""
    from tidemill.task.functions.comparison import equal, member

    rows = batch.num_rows
    value = _value(call.args[0], batch)
    constants = [arg.value for arg in call.args[1:] if isinstance(arg, Literal)]
    result: Value = member(as_array(value, rows), constants) if constants else pa.scalar(False)
    for arg in call.args[1:]:
        if isinstance(arg, Literal):
            continue
        known = pc.fill_null(as_array(result, rows), False)
        undecided = pc.and_not(as_array(value, rows).is_valid(), known)
        result = pc.or_kleene(result, equal(value, evaluate_where(arg, batch, undecided)))
    # x IN () never reaches here; NULL IN (...) is NULL whatever the list holds.
    return null_unless(as_array(value, rows).is_valid(), result)
