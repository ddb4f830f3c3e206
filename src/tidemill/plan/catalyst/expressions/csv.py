"""Rules for functions of CSV."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from tidemill.plan.catalyst.expressions.json import TIMES, can_write, known_options, schema_of, time_options
from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, type_of, unsupported
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.schema import type_to_ddl
from tidemill.task.expressions import Expression, Literal
from tidemill.task.functions.times.date_patterns import can_parse

_SEPARATORS = ("sep", "delimiter")
_DEFAULT_CORRUPT = "_corrupt_record"


def _separator(function: str, options: dict[str, str]) -> str:
    given = [options[name] for name in _SEPARATORS if name in options]
    separator = {"\\t": "\t"}.get(given[0], given[0]) if given else ","
    if len(separator) != 1 or not separator.isascii() or separator in '"\\\n\r\0# ' or separator.isalnum():
        raise unsupported(f"{function} with the separator {separator!r}", "a separator is one character, such as ;")
    return separator


def _check_field(function: str, type_: pa.DataType) -> None:
    known = pa.types.is_string(type_) or pa.types.is_boolean(type_) or pa.types.is_integer(type_)
    known |= pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    if not (known or pa.types.is_date(type_) or pa.types.is_timestamp(type_)):
        raise unsupported(f"{function} with a field of {type_to_ddl(type_)}", "use STRING, and cast it")


def _from_csv(node: JsonTree, to: Translator) -> Expression:
    names = ("mode", "columnNameOfCorruptRecord", "nullValue", *_SEPARATORS, *TIMES)
    options = known_options("from_csv", node.fields["options"], names)
    mode = options.get("mode", "PERMISSIVE").upper()
    type_ = cast("pa.StructType", type_of(node.fields["schema"]))
    fields = [f.name for f in type_]
    if len(set(fields)) < len(fields):
        raise unsupported("from_csv with two columns of one name", "rename one")
    for field in type_:
        _check_field("from_csv", field.type)
    times = time_options("from_csv", options, node, can_parse)
    name = options.get("columnnameofcorruptrecord", _DEFAULT_CORRUPT)
    times["corrupt"] = name if name in fields else None
    separator, null = _separator("from_csv", options), options.get("nullvalue", "")
    found = call("from_csv", (to.arg(node, 0),), type_, True, mode=mode, sep=separator, null=null, **times)
    required = node.fields.get("requiredSchema")
    if not required:
        return found
    # Catalyst leaves out the columns that nothing reads.
    pruned = cast("pa.StructType", type_of(required))
    parts = tuple(call("struct_field", (found,), f.type, True, ordinal=fields.index(f.name)) for f in pruned)
    present = call("is_not_null", (found,), pa.bool_(), False)
    return call("if", (present, call("struct", parts, pruned, False), Literal(None, pruned)), pruned, True)


def _to_csv(node: JsonTree, to: Translator) -> Expression:
    options = known_options("to_csv", node.fields["options"], ("nullValue", *_SEPARATORS, *TIMES))
    value = to.arg(node, 0)
    for field in cast("pa.StructType", value.type):
        _check_field("to_csv", field.type)
    separator, null = _separator("to_csv", options), options.get("nullvalue", "")
    if null.strip() != null or any(mark in null for mark in (separator, '"', "\n", "\r", "#")):
        raise unsupported(f"to_csv with the nullValue {null!r}", "a text that needs no quotes")
    times = time_options("to_csv", options, node, can_write)
    return call("to_csv", (value,), pa.string(), value.nullable, sep=separator, null=null, **times)


CSV_RULES: dict[str, Rule] = {"CsvToStructs": _from_csv, "StructsToCsv": _to_csv}

CSV_INVOKED: dict[str, Rule] = {"SchemaOfCsvEvaluator.evaluate": schema_of}
