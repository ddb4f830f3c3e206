"""Catalyst's aggregate expressions as calls of :class:`~tidemill.plan.algebra.AggregateCall`.

``bool_and``, ``some`` and their like arrive as ``Min`` and ``Max`` of a boolean, ``count_if`` as ``Count``, ``median``
and ``percentile_cont`` as ``Percentile``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra import AggregateCall, Option
from tidemill.plan.catalyst_expressions import JsonTree, translate
from tidemill.plan.catalyst_places import passing
from tidemill.schema import type_to_ddl
from tidemill.task.expressions import Call, Expression, Literal

Place: TypeAlias = Callable[[Expression], int]
"""Gives the position of an expression among the columns of the aggregate's input."""

_NAMES = {
    "Sum": "sum",
    "Count": "count",
    "Average": "avg",
    "Min": "min",
    "Max": "max",
    "VarianceSamp": "var_samp",
    "VariancePop": "var_pop",
    "StddevSamp": "stddev_samp",
    "StddevPop": "stddev_pop",
    "Skewness": "skewness",
    "Kurtosis": "kurtosis",
    "MinBy": "min_by",
    "MaxBy": "max_by",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "Percentile": "percentile",
    "PercentileDisc": "percentile_disc",
    "Mode": "mode",
    "BitAndAgg": "bit_and",
    "BitOrAgg": "bit_or",
    "BitXorAgg": "bit_xor",
}
_MOMENTS = frozenset({"var_samp", "var_pop", "stddev_samp", "stddev_pop", "skewness", "kurtosis"})
_UNDECIDED = {"First": "first or any_value", "Last": "last"}
_SHOWN = {
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "ApproximatePercentile": "percentile_approx",
    "Corr": "corr",
    "CovPopulation": "covar_pop",
    "CovSample": "covar_samp",
    "ListAgg": "listagg",
    "MaxMinByK": "min_by or max_by with a number of values",
    "HistogramNumeric": "histogram_numeric",
}
_SUPPORTED = (
    "sum, count, avg, min, max, variance, stddev, skewness, kurtosis, min_by, max_by, collect_list, collect_set, "
    "percentile, median, mode with an order, bool_and, bool_or, count_if, bit_and, bit_or, bit_xor"
)


def aggregate_call(node: JsonTree, inputs: Mapping[int, int], place: Place) -> AggregateCall:
    """The call that a Catalyst ``AggregateExpression`` means.

    Raises
    ------
    TidemillError
        TM2102 for a function, or a type or option of one, that is not supported; TM2105 for a function whose value
        the rows do not decide.
    """
    with passing(node):
        return _aggregate_call(node, inputs, place)


def _aggregate_call(node: JsonTree, inputs: Mapping[int, int], place: Place) -> AggregateCall:
    tree = node.children[0]
    distinct = bool(node.fields.get("isDistinct"))
    name = _NAMES.get(tree.name)
    if tree.name in _UNDECIDED or (name == "mode" and tree.fields.get("reverseOpt") is None):
        raise TidemillError(
            "TM2105",
            "a view cannot use an aggregate whose value is not decided by its rows",
            got=_UNDECIDED.get(tree.name, "mode without an order"),
            hint="mode() WITHIN GROUP (ORDER BY x)" if name == "mode" else "min, max, or min_by(x, order)",
        )
    if name is None:
        raise TidemillError(
            "TM2102",
            "this aggregate function is not supported yet",
            got=_SHOWN.get(tree.name, tree.name),
            hint=f"supported: {_SUPPORTED}",
        )
    arguments = [translate(c, inputs) for c in tree.children[: _columns(name, tree)]]
    condition = translate(node.children[1], inputs) if len(node.children) > 1 else None
    options = _options(name, tree)
    if name == "count":
        return _count(arguments, distinct, condition, place)
    if name in ("min_by", "max_by"):
        value, order = arguments
        at = place(_only_where(condition, order))
        return AggregateCall(name, at, value.type, True, False, (place(value),))
    (value,) = arguments
    type_ = _result_type(name, value, tree, dict(options))
    if name in ("percentile", "percentile_disc"):
        value = _as_double(value, distinct, tree)
    if name == "collect_list" and distinct:
        name, distinct = "collect_set", False
    if name in ("collect_set", "mode", "bit_and", "bit_or"):
        distinct = False  # means nothing to these; Spark refuses it for mode
    at = place(_only_where(condition, value))
    nullable = name not in ("collect_list", "collect_set")
    return AggregateCall(name, at, type_, nullable, distinct, (), options)


def _columns(name: str, tree: JsonTree) -> int:
    """How many children are evaluated row by row."""
    if name == "count":
        return len(tree.children)
    return 2 if name in ("min_by", "max_by") else 1


def _only_where(condition: Expression | None, value: Expression) -> Expression:
    """FILTER as a value that is NULL for the other rows; every aggregate leaves NULL out."""
    if condition is None:
        return value
    return Call("case", (condition, value, Literal(None, value.type)), value.type, True)


def _count(arguments: list[Expression], distinct: bool, condition: Expression | None, place: Place) -> AggregateCall:
    if distinct:
        first, *others = dict.fromkeys(arguments)
        at = place(_only_where(condition, first))
        return AggregateCall("count", at, pa.int64(), False, True, tuple(place(o) for o in others))
    value = _counted(arguments)
    if condition is not None:
        value = _only_where(condition, Literal(1, pa.int32()) if value is None else value)
    return AggregateCall("count", None if value is None else place(value), pa.int64(), False)


def _counted(arguments: list[Expression]) -> Expression | None:
    """An expression that is NULL where any argument is; None where none can be."""
    counted = [a for a in arguments if a.nullable]
    if not counted:
        return None
    if len(counted) == 1:
        return counted[0]
    present: Expression = Call("is_not_null", (counted[0],), pa.bool_(), False)
    for other in counted[1:]:
        present = Call("and", (present, Call("is_not_null", (other,), pa.bool_(), False)), pa.bool_(), False)
    return _only_where(present, Literal(1, pa.int32()))


def _options(name: str, tree: JsonTree) -> tuple[tuple[str, Option], ...]:
    """The constants of a call, by name."""
    if name in ("sum", "avg"):
        return (("lenient", True),) if tree.fields.get("evalMode") == "TRY" else ()
    if name in ("collect_list", "collect_set") and not tree.fields.get("ignoreNulls", True):
        raise _unsupported(f"{name} with RESPECT NULLS", "leave RESPECT NULLS out")
    if name == "mode":
        return (("descending", not tree.fields["reverseOpt"]),)
    if name not in ("percentile", "percentile_disc"):
        return ()
    if tree.fields.get("legacyCalculation"):
        raise _unsupported("percentile_disc in its legacy form", "set the legacy option of Spark to false")
    if name == "percentile" and tree.children[2].fields.get("value") != "1":
        raise _unsupported("percentile with a frequency", "leave the third argument out")
    constant = tree.children[1]
    many = not isinstance(constant.fields.get("dataType"), str)
    listed = constant.fields.get("nested") if many else [constant.fields.get("value")]
    if listed is None or constant.name != "Literal" or None in listed:
        raise _unsupported(f"{name} whose percentage is not a constant", "write it as a constant")
    percentages = tuple(float(str(p)) for p in listed)
    return (("descending", bool(tree.fields["reverse"])), ("many", many), ("percentages", percentages))


def _as_double(value: Expression, distinct: bool, tree: JsonTree) -> Expression:
    """The argument of a percentile as the double it is calculated with.

    Under DISTINCT, values that are different but the same as doubles count more than once.
    """
    if pa.types.is_floating(value.type):
        return value if pa.types.is_float64(value.type) else _cast(value)
    exact = pa.types.is_decimal(value.type) and value.type.precision <= 15
    exact |= pa.types.is_integer(value.type) and not pa.types.is_int64(value.type)
    if distinct and not exact:
        raise _unsupported(f"{tree.name}(DISTINCT {type_to_ddl(value.type)})", "cast the argument to DOUBLE")
    return _cast(value)


def _cast(value: Expression) -> Expression:
    return Call("cast", (value,), pa.float64(), value.nullable, (("mode", "ansi"),))


def _result_type(name: str, value: Expression, tree: JsonTree, options: dict[str, Any]) -> pa.DataType:
    """The type Spark gives to an aggregate of one argument."""
    type_ = value.type
    number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    if name in ("min", "max", "mode", "bit_and", "bit_or", "bit_xor"):
        return type_
    if name in ("collect_list", "collect_set"):
        return pa.list_(type_)
    if name in _MOMENTS and pa.types.is_float64(type_):
        return type_
    if name in ("percentile", "percentile_disc") and number:
        return pa.list_(pa.float64()) if options["many"] else pa.float64()
    if name in ("sum", "avg") and number:
        if pa.types.is_decimal(type_):
            extra = (10, 0) if name == "sum" else (4, 4)
            if not (options and name == "avg"):
                return pa.decimal128(min(38, type_.precision + extra[0]), min(38, type_.scale + extra[1]))
        elif name == "avg" or pa.types.is_floating(type_):
            return pa.float64()
        else:
            return pa.int64()
    raise TidemillError(
        "TM2102",
        "this aggregate is not supported yet for this type",
        got=f"{'try_' if options.get('lenient') else ''}{name}({type_to_ddl(type_)})",
        hint="cast the argument to a number",
    )


def _unsupported(what: str, hint: str) -> TidemillError:
    return TidemillError("TM2102", "this form of an aggregate function is not supported yet", got=what, hint=hint)
