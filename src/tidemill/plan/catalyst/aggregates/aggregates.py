"""Catalyst's aggregate expressions as calls of :class:`~tidemill.plan.algebra.nodes.AggregateCall`.

Every aggregate function has a declaration: its names in SQL, the rule that reads it, and its
value in a view where Spark leaves it open. A rule gives an expression over the results of calls, so that a
function may be made of others: ``approx_count_distinct`` is a count of distinct values, ``listagg`` joins a list.

``bool_and``, ``some`` and their like arrive as ``Min`` and ``Max`` of a boolean, ``count_if`` as ``Count``, ``median``
and ``percentile_cont`` as ``Percentile``, ``regr_avgx`` as ``Average``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import null_test, where
from tidemill.plan.algebra.nodes import AggregateCall
from tidemill.plan.catalyst.aggregates.histograms import IN_ORDER, histogram
from tidemill.plan.catalyst.aggregates.percentiles import percentile, percentile_approx, percentile_disc
from tidemill.plan.catalyst.aggregates.reader import AggregateReader, Function, unsupported
from tidemill.plan.catalyst.aggregates.rows_of_groups import by, by_several, first_or_last, listagg
from tidemill.plan.catalyst.expressions.expressions import JsonTree
from tidemill.schema import DAY_TIME, YEAR_MONTH, type_to_ddl
from tidemill.task.aggregates.functions import AggregateFunction, Arguments, Catalyst, declared_functions
from tidemill.task.expressions import Call, Expression, Literal

__all__ = ["aggregate", "declarations"]

Rule: TypeAlias = Callable[[Function], Expression]


@dataclass(frozen=True)
class Declaration:
    """One aggregate function: its names in SQL, how it is read, and what it means where that is not obvious."""

    sql: tuple[str, ...]
    read: Rule
    meaning: str = ""


def aggregate(node: JsonTree, reader: AggregateReader) -> Expression:
    """The value of a Catalyst ``AggregateExpression``, over the results of calls.

    Raises
    ------
    TidemillError
        TM2102 for a function, or a type or option of one, that is not supported.
    """
    tree = node.children[0]
    declared = declarations().get(tree.name)
    if declared is None:
        raise TidemillError(
            "TM2102",
            "this aggregate function is not supported yet",
            got=tree.name,
            hint="docs/functions.md lists the aggregate functions",
        )
    condition = reader.translate(node.children[1]) if len(node.children) > 1 else None
    return declared.read(Function(tree, reader, bool(node.fields.get("isDistinct")), condition))


def _count(function: Function) -> Expression:
    arguments = [function.argument(i) for i in range(len(function.tree.children))]
    if function.distinct:
        first, *others = dict.fromkeys(arguments)
        kept = function.place(first)
        rest = tuple(function.reader.place(o) for o in others)
        return function.result(AggregateCall("count", kept, pa.int64(), False, True, rest))
    value = _counted(arguments)
    if function.condition is not None:
        value = function.only_where(Literal(1, pa.int32()) if value is None else value)
    at = None if value is None else function.reader.place(value)
    return function.result(AggregateCall("count", at, pa.int64(), False))


def _counted(arguments: list[Expression]) -> Expression | None:
    """An expression that is NULL where any argument is; None where none can be."""
    counted = [a for a in arguments if a.nullable]
    if not counted:
        return None
    if len(counted) == 1:
        return counted[0]
    present: Expression = null_test("is_not_null", counted[0])
    for other in counted[1:]:
        present = Call("and", (present, null_test("is_not_null", other)), pa.bool_(), False)
    return where(present, Literal(1, pa.int32()))


def _count_of_distinct(function: Function) -> Expression:
    """``approx_count_distinct``, exactly."""
    value = function.argument()
    if not function.reader.over_window:
        return function.result(AggregateCall("count", function.place(value), pa.int64(), False, True))
    found = function.result(AggregateCall("collect_set", function.place(value), pa.list_(value.type), False))
    size = Call("size", (found,), pa.int32(), False)
    return Call("cast", (size,), pa.int64(), False, (("mode", "ansi"),))


def _declared(function: AggregateFunction, read: Catalyst) -> Rule:
    """A function of columns, as it is declared with what it keeps."""
    match read.arguments:
        case Arguments.X_AND_Y | Arguments.Y_AND_X:
            return _of_two(function.name, int(read.arguments is Arguments.Y_AND_X))
        case Arguments.VALUE_AND_ORDER:
            return by(function.name)

    def rule(found: Function) -> Expression:
        value = found.argument()
        if read.takes is not None and value.type != read.takes:
            raise _type_unsupported(function.name, value.type)
        type_ = value.type if read.type is None else read.type
        distinct = found.distinct and read.keeps_distinct
        return found.result(AggregateCall(function.name, found.place(value), type_, True, distinct))

    return rule


def _mode(function: Function) -> Expression:
    value, order = function.argument(), function.tree.fields.get("reverseOpt")
    options = (("descending", order is not None and not order),)
    return function.result(AggregateCall("mode", function.place(value), value.type, True, False, (), options))


def _collected(name: str) -> Rule:
    def rule(function: Function) -> Expression:
        if not function.tree.fields.get("ignoreNulls", True):
            raise unsupported(f"{name} with RESPECT NULLS", "leave RESPECT NULLS out")
        value = function.argument()
        kind = "collect_set" if function.distinct else name
        return function.result(AggregateCall(kind, function.place(value), pa.list_(value.type), False))

    return rule


def _of_two(name: str, x: int) -> Rule:
    """A function of pairs of numbers; ``x`` says which argument is x."""

    def rule(function: Function) -> Expression:
        if function.distinct:
            raise unsupported(f"{name}(DISTINCT ...)", "SELECT DISTINCT the pairs in a subquery")
        first, second = function.argument(x), function.argument(1 - x)
        present = _both(first, second)
        first, second = where(present, first), where(present, second)
        others = (function.place(second),)
        return function.result(AggregateCall(name, function.place(first), pa.float64(), True, False, others))

    return rule


def _both(first: Expression, second: Expression) -> Expression | None:
    tests = [null_test("is_not_null", a) for a in dict.fromkeys((first, second)) if a.nullable]
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else Call("and", tuple(tests), pa.bool_(), False)


def _total(name: str) -> Rule:
    """``sum`` or ``avg``, and their ``try_`` forms."""

    def rule(function: Function) -> Expression:
        lenient = function.tree.fields.get("evalMode") == "TRY"
        options = (("lenient", True),) if lenient else ()
        value = function.argument()
        if value.type in (DAY_TIME, YEAR_MONTH):
            return _interval(name, function, value, options)
        type_ = _total_type(name, value.type, lenient)
        call = AggregateCall(name, function.place(value), type_, True, function.distinct, (), options)
        return function.result(call)

    return rule


def _interval(name: str, function: Function, value: Expression, options: tuple[tuple[str, bool], ...]) -> Expression:
    number = Call("interval_number", (value,), pa.int64(), value.nullable)
    at = function.place(number)
    total = function.result(AggregateCall("sum", at, pa.int64(), True, function.distinct, (), options))
    interval = Call("number_interval", (total,), value.type, True)
    if name == "sum":
        return interval
    count = function.result(AggregateCall("count", at, pa.int64(), False, function.distinct))
    some = Call("gt", (count, Literal(0, pa.int64())), pa.bool_(), False)
    mean = Call("divide_interval", (interval, count), value.type, True, (("mode", "ansi"),))
    return where(some, mean)


def _total_type(name: str, type_: pa.DataType, lenient: bool) -> pa.DataType:
    if pa.types.is_decimal(type_):
        extra = (10, 0) if name == "sum" else (4, 4)
        return pa.decimal128(min(38, type_.precision + extra[0]), min(38, type_.scale + extra[1]))
    if pa.types.is_floating(type_) or (name == "avg" and pa.types.is_integer(type_)):
        return pa.float64()
    if pa.types.is_integer(type_):
        return pa.int64()
    raise _type_unsupported(f"{'try_' if lenient else ''}{name}", type_)


def _type_unsupported(name: str, type_: pa.DataType) -> TidemillError:
    return TidemillError(
        "TM2102",
        "this aggregate is not supported yet for this type",
        got=f"{name}({type_to_ddl(type_)})",
        hint="cast the argument to a number",
    )


_ROW_OF = (
    "the value of the group's first row in ascending order of the arguments of all first, last and any_value calls of "
    "the query, NULL last (NULL first if it has only last); so all calls without IGNORE NULLS read one row"
)
_EXACT = "exact, so within the error bound of any accuracy"

_RULES: dict[str, Declaration] = {
    "Count": Declaration(("count", "count_if", "regr_count"), _count),
    "Sum": Declaration(("sum", "try_sum"), _total("sum")),
    "Average": Declaration(("avg", "mean", "try_avg", "regr_avgx", "regr_avgy"), _total("avg")),
    "MaxMinByK": Declaration(
        ("min_by(x, order, k)", "max_by(x, order, k)"), by_several, "values of equal order are in ascending order"
    ),
    "First": Declaration(("first", "first_value", "any_value"), first_or_last, _ROW_OF),
    "Last": Declaration(("last", "last_value"), first_or_last, _ROW_OF.replace("first row", "last row", 1)),
    "CollectList": Declaration(("collect_list", "array_agg"), _collected("collect_list"), "in ascending order"),
    "CollectSet": Declaration(("collect_set",), _collected("collect_set"), "in ascending order"),
    "ListAgg": Declaration(
        ("listagg", "string_agg"), listagg, "values of equal order, or without WITHIN GROUP, are in ascending order"
    ),
    "Percentile": Declaration(("percentile", "median", "percentile_cont"), percentile),
    "PercentileDisc": Declaration(("percentile_disc",), percentile_disc),
    "ApproximatePercentile": Declaration(("percentile_approx", "approx_percentile"), percentile_approx, _EXACT),
    "HyperLogLogPlusPlus": Declaration(("approx_count_distinct",), _count_of_distinct, _EXACT),
    "Mode": Declaration(
        ("mode",), _mode, "of several most frequent values the smallest, unless an order says otherwise"
    ),
    "HistogramNumeric": Declaration(("histogram_numeric",), histogram, IN_ORDER),
}


def declarations() -> dict[str, Declaration]:
    """All aggregate functions by Catalyst's class: those with a rule here, and those declared with what they keep."""
    found = {
        f.catalyst.name: Declaration(f.catalyst.sql, _declared(f, f.catalyst), f.catalyst.meaning)
        for f in declared_functions()
        if f.catalyst is not None
    }
    return {**_RULES, **found}
