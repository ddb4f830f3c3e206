"""Percentiles: exact in all their forms."""

from __future__ import annotations

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import null_test
from tidemill.plan.algebra.nodes import AggregateCall
from tidemill.plan.catalyst.aggregates.reader import Function, unsupported
from tidemill.schema import DAY_TIME, YEAR_MONTH, type_to_ddl
from tidemill.task.aggregates.accumulators import Option
from tidemill.task.expressions import Call, Expression, Literal

_Options = tuple[tuple[str, Option], ...]


def percentile(function: Function) -> Expression:
    """``percentile``, ``median`` and ``percentile_cont``; a frequency makes each value count as often as it says."""
    value = function.argument()
    options = _options("percentile", function, bool(function.tree.fields["reverse"]))
    frequency = function.tree.children[2]
    if frequency.name == "Literal" and frequency.fields.get("value") == "1":
        return _of_doubles("percentile", function, value, options)
    number = _as_double(value, function)
    often = function.argument(2)
    often = Call("cast", (often,), pa.int64(), often.nullable, (("mode", "ansi"),))
    type_ = pa.struct([pa.field("value", pa.float64()), pa.field("frequency", pa.int64())])
    pair: Expression = Call("struct", (number, often), type_, False)
    for part in (number, often):
        if part.nullable:
            pair = Call("if", (null_test("is_not_null", part), pair, Literal(None, type_)), type_, True)
    call = AggregateCall("percentile", function.place(pair), _result(options), True, function.distinct, (), options)
    return function.result(call)


def percentile_disc(function: Function) -> Expression:
    """``percentile_disc``."""
    if function.tree.fields.get("legacyCalculation"):
        raise unsupported("percentile_disc in its legacy form", "set the legacy option of Spark to false")
    options = _options("percentile_disc", function, bool(function.tree.fields["reverse"]))
    return _of_doubles("percentile_disc", function, function.argument(), options)


def percentile_approx(function: Function) -> Expression:
    """``percentile_approx``: the value that Spark gives when it leaves none out; the accuracy does not matter."""
    value = function.argument()
    options = _options("percentile_approx", function, False)
    type_ = pa.list_(value.type) if dict(options)["many"] else value.type
    at = function.place(value)
    return function.result(AggregateCall("percentile_approx", at, type_, True, function.distinct, (), options))


def _options(name: str, function: Function, descending: bool) -> _Options:
    constant = function.tree.children[1]
    many = not isinstance(constant.fields.get("dataType"), str)
    listed = constant.fields.get("nested") if many else [constant.fields.get("value")]
    if listed is None or constant.name != "Literal" or None in listed:
        raise unsupported(f"{name} whose percentage is not a constant", "write it as a constant")
    percentages = tuple(float(str(p)) for p in listed)
    return (("descending", descending), ("many", many), ("percentages", percentages))


def _result(options: _Options) -> pa.DataType:
    return pa.list_(pa.float64()) if dict(options)["many"] else pa.float64()


def _of_doubles(name: str, function: Function, value: Expression, options: _Options) -> Expression:
    at = function.place(_as_double(value, function))
    found = function.result(AggregateCall(name, at, _result(options), True, function.distinct, (), options))
    if value.type not in (DAY_TIME, YEAR_MONTH):
        return found
    type_ = pa.list_(value.type) if dict(options)["many"] else value.type
    return Call("double_interval", (found,), type_, True)


def _as_double(value: Expression, function: Function) -> Expression:
    """The argument of a percentile as the double it is calculated with.

    Under DISTINCT, values that are different but the same as doubles count more than once.
    """
    type_ = value.type
    if type_ in (DAY_TIME, YEAR_MONTH):
        value = Call("interval_number", (value,), pa.int64(), value.nullable)
        return Call("cast", (value,), pa.float64(), value.nullable, (("mode", "ansi"),))
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)):
        raise TidemillError(
            "TM2102",
            "this aggregate is not supported yet for this type",
            got=f"{function.tree.name.lower()}({type_to_ddl(type_)})",
            hint="cast the argument to a number",
        )
    if pa.types.is_float64(type_):
        return value
    exact = pa.types.is_decimal(type_) and type_.precision <= 15
    exact |= (pa.types.is_integer(type_) and not pa.types.is_int64(type_)) or pa.types.is_floating(type_)
    if function.distinct and not exact:
        raise unsupported(f"{function.tree.name}(DISTINCT {type_to_ddl(type_)})", "cast the argument to DOUBLE")
    return Call("cast", (value,), pa.float64(), value.nullable, (("mode", "ansi"),))
