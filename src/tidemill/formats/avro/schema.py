"""Avro schemas: a tree of nodes, each with the type of Arrow that holds its values.

Facts are from Avro's specification, https://avro.apache.org/docs/1.12.0/specification/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, FIXED, ENUM, RECORD, ARRAY, MAP, UNION = range(13)
"""Kinds of nodes; STRING is BYTES with another type."""

_PRIMITIVES: Mapping[str, tuple[int, pa.DataType, int]] = {
    "null": (NULL, pa.null(), 0),
    "boolean": (BOOLEAN, pa.bool_(), 1),
    "int": (INT, pa.int32(), 1),
    "long": (LONG, pa.int64(), 1),
    "float": (FLOAT, pa.float32(), 4),
    "double": (DOUBLE, pa.float64(), 8),
    "bytes": (BYTES, pa.binary(), 1),
    "string": (BYTES, pa.string(), 1),
}
"""Kind, type, and the fewest bytes of a value."""

_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
}
_MOST_NODES, _MOST_DEPTH = 10_000, 100
_MOST_DIGITS = 38
_WIDENED = ({INT, LONG}, {FLOAT, DOUBLE})
"""Unions of two that are one type in Spark."""


class SchemaError(ValueError):
    """A text that is no schema, or one of a type that no column holds; the message says which."""


@dataclass(frozen=True)
class Node:
    """A type of Avro, as values of it are read.

    Attributes
    ----------
    kind : int
    type : pyarrow.DataType
        What holds the values.
    size : int
        Bytes of FIXED, symbols of ENUM, branches of UNION.
    fewest : int
        The fewest bytes of a value.
    null : int
        Of a union of this type and ``null``, the number of the latter, 0 or 1; 2 for a union of this type alone; -1
        where there is no union.
    millis : bool
        Whether values are milliseconds, of which the type has microseconds.
    symbols : tuple of str
        Of ENUM.
    branches : tuple of int
        Of UNION, for each branch which child it is; -1 for ``null``.
    names : tuple of str
        Of RECORD, those of the children.
    children : tuple of Node
        Fields, the items of ARRAY, keys and values of MAP, or branches of UNION.
    """

    kind: int
    type: pa.DataType
    size: int = 0
    fewest: int = 0
    null: int = -1
    millis: bool = False
    symbols: tuple[str, ...] = ()
    branches: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()

    @property
    def count(self) -> int:
        """Nodes of the tree."""
        return 1 + sum(child.count for child in self.children)

    @property
    def schema(self) -> pa.Schema:
        """The columns of a record."""
        return pa.schema([pa.field(n, child.type) for n, child in zip(self.names, self.children, strict=True)])


def parse_schema(text: str, references: Sequence[str] = ()) -> Node:
    """The record that a schema describes.

    Parameters
    ----------
    text : str
        JSON.
    references : sequence of str
        Schemas whose types the schema names, each after those that it names itself.

    Raises
    ------
    SchemaError
        When a text is no schema, the schema is no record, or a type holds itself.
    """
    parser = _Parser()
    for reference in references:
        parser.define(_json(reference), "")
    node = parser.node(_json(text), "")
    if node.kind != RECORD or node.null != -1:
        raise SchemaError("not a record")
    return node


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        name = text.strip()
        if re.fullmatch(r"[A-Za-z_][\w.]{0,999}", name):
            return name  # the name of a type needs no quotes
        raise SchemaError(f"not JSON: {error}") from error


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        self._open: list[str] = []
        self._nodes = self._depth = 0

    def define(self, given: Any, space: str) -> None:
        """Note the named types within a schema."""
        if isinstance(given, list):
            for branch in given:
                self.define(branch, space)
        elif isinstance(given, dict):
            kind = given.get("type")
            if kind in ("record", "error", "enum", "fixed"):
                name, space = _full_name(given, space)
                if name in self._named and self._named[name][0] != given:
                    raise SchemaError(f"{name} is defined twice")
                self._named[name] = (given, space)
                fields = given.get("fields")
                for field in fields if isinstance(fields, list) else ():
                    self.define(field.get("type") if isinstance(field, dict) else None, space)
            else:
                self.define({"array": given.get("items"), "map": given.get("values")}.get(str(kind), kind), space)

    def node(self, given: Any, space: str) -> Node:
        if not self._open and not self._nodes:
            self.define(given, space)
        self._nodes += 1
        self._depth += 1
        if self._nodes > _MOST_NODES or self._depth > _MOST_DEPTH:
            raise SchemaError(f"more than {_MOST_NODES:,} types, or {_MOST_DEPTH} within each other")
        found = self._node(given, space)
        self._depth -= 1
        return found

    def _node(self, given: Any, space: str) -> Node:
        if isinstance(given, list):
            return self._union(given, space)
        if isinstance(given, str):
            return self._by_name(given, space)
        if not isinstance(given, dict):
            raise SchemaError(f"{given!r} is no type")
        kind = given.get("type")
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return _logical(kind, given)
        match kind:
            case "record" | "error" | "enum" | "fixed":
                return self._defined(*_full_name(given, space), given)
            case "array":
                items = self.node(given.get("items"), space)
                return Node(ARRAY, pa.list_(items.type), fewest=1, children=(items,))
            case "map":
                key, value = _logical("string", {}), self.node(given.get("values"), space)
                return Node(MAP, pa.map_(pa.string(), value.type), fewest=1, children=(key, value))
        return self.node(kind, space)

    def _by_name(self, name: str, space: str) -> Node:
        if name in _PRIMITIVES:
            return _logical(name, {})
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise SchemaError(f"there is no type {name}")
        return self._defined(full if full in self._named else name, found[1], found[0])

    def _defined(self, name: str, space: str, given: dict[str, Any]) -> Node:
        if given["type"] == "enum":
            symbols = given.get("symbols")
            if not isinstance(symbols, list) or not all(map(_is_text, symbols)):
                raise SchemaError(f"{name} has no symbols")
            return Node(ENUM, pa.string(), len(symbols), 1, symbols=tuple(symbols))
        if given["type"] == "fixed":
            size = given.get("size")
            if type(size) is not int or not 0 <= size < 1 << 31:
                raise SchemaError(f"{name} has no size")
            return Node(FIXED, _decimal(given) or pa.binary(), size, size)
        if name in self._open:
            raise SchemaError(f"{name} holds itself")
        fields = given.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) and _is_text(f.get("name")) for f in fields):
            raise SchemaError(f"{name} has no fields")
        self._open.append(name)
        children = tuple(self.node(field.get("type"), space) for field in fields)
        self._open.pop()
        names = tuple(field["name"] for field in fields)
        type_ = pa.struct([pa.field(n, child.type) for n, child in zip(names, children, strict=True)])
        return Node(RECORD, type_, fewest=sum(c.fewest for c in children), names=names, children=children)

    def _union(self, given: list[Any], space: str) -> Node:
        nodes = [self.node(branch, space) for branch in given]
        real = [node for node in nodes if node.kind != NULL]
        if any(node.null != -1 or node.kind == UNION for node in nodes) or len(nodes) - len(real) > 1:
            raise SchemaError("a union within a union, or of null twice")
        if not nodes:
            raise SchemaError("a union of nothing")
        if len(nodes) == 1:
            return replace(nodes[0], null=2, fewest=nodes[0].fewest + 1)
        if len(nodes) == 2 and len(real) == 1:
            return replace(real[0], null=nodes[0].kind != NULL, fewest=1)
        numbers = iter(range(len(real)))
        branches = tuple(-1 if node.kind == NULL else next(numbers) for node in nodes)
        kinds = {node.kind for node in real}
        plain = all(node.type in (pa.int32(), pa.int64(), pa.float32(), pa.float64()) for node in real)
        type_ = (
            max((node.type for node in real), key=lambda t: t.bit_width)
            if len(real) == 2 and plain and kinds in _WIDENED
            else pa.struct([pa.field(f"member{i}", node.type) for i, node in enumerate(real)])
        )
        return Node(UNION, type_, len(nodes), 1, branches=branches, children=tuple(real))


def _logical(name: str, given: Mapping[str, Any]) -> Node:
    kind, type_, fewest = _PRIMITIVES[name]
    logical = given.get("logicalType")
    if name == "bytes":
        return Node(kind, _decimal(given) or type_, fewest=fewest)
    found = _LOGICAL.get((name, logical)) if isinstance(logical, str) else None
    return Node(kind, found or type_, fewest=fewest, millis=found is not None and str(logical).endswith("millis"))


def _decimal(given: Mapping[str, Any]) -> pa.DataType | None:
    """The type of a decimal; None for what is none, which the specification wants to be read as bytes."""
    digits, scale = given.get("precision"), given.get("scale", 0)
    if given.get("logicalType") != "decimal" or type(digits) is not int or type(scale) is not int:
        return None
    return pa.decimal128(digits, scale) if 0 <= scale <= digits and 0 < digits <= _MOST_DIGITS else None


def _is_text(given: Any) -> bool:
    """Whether this is a text that UTF-8 can hold: JSON's escapes can also give halves of characters."""
    return isinstance(given, str) and not any("\ud800" <= c <= "\udfff" for c in given)


def _full_name(given: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The name of a type with its namespace, and the namespace."""
    name, own = given.get("name"), given.get("namespace")
    own = space if own is None else own
    if not _is_text(name) or not name or not _is_text(own):
        raise SchemaError("a type without a name")
    if "." in name:
        return name, name.rpartition(".")[0]
    return (f"{own}.{name}" if own else name), own
