"""Translating JSON nodes by hand: what becomes what, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.expressions.expressions import translate, tree
from tidemill.task.expressions import Call, Literal, Ref

PACKAGE = "org.apache.spark.sql.catalyst.expressions."


def node(class_name: str, children: int = 0, /, **fields: Any) -> dict[str, Any]:
    return {"class": PACKAGE + class_name, "num-children": children, **fields}


def column(name: str, identity: int, type_: str = "integer") -> dict[str, Any]:
    return node("AttributeReference", name=name, dataType=type_, nullable=True, exprId={"id": identity})


def literal(value: str | None, type_: str = "integer") -> dict[str, Any]:
    return node("Literal", value=value, dataType=type_)


def test_tree_follows_the_pre_order() -> None:
    root = tree([node("And", 2), node("Not", 1), column("a", 1, "boolean"), column("b", 2, "boolean")])
    assert [child.name for child in root.children] == ["Not", "AttributeReference"]


def test_columns_become_positions() -> None:
    result = translate(tree([node("GreaterThan", 2), column("x", 7), literal("3")]), {7: 4})
    assert result == Call("gt", (Ref(4, pa.int32()), Literal(3, pa.int32())), pa.bool_())


def test_a_missing_column_is_an_internal_error() -> None:
    with pytest.raises(TidemillError, match="not among the inputs"):
        translate(tree([column("x", 7)]), {})


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("1970-01-02", "date", 1),
        ("1969-12-31 23:59:59.5", "timestamp", -500_000),
        ("1500000", "timestamp_ntz", 1_500_000),
        ("NaN", "double", float("nan")),
        (None, "string", None),
        ("true", "boolean", True),
    ],
)
def test_constants(text: str | None, type_: str, value: Any) -> None:
    found = translate(tree([literal(text, type_)]), {})
    assert isinstance(found, Literal)
    assert found.value == value or found.value != found.value


def test_the_mode_of_arithmetic_is_kept() -> None:
    for mode in ("ANSI", "TRY"):
        found = translate(tree([node("Add", 2, evalMode=mode), column("x", 1), column("y", 2)]), {1: 0, 2: 1})
        assert isinstance(found, Call)
        assert found.option("mode") == mode.lower()


def test_a_cast_without_its_mode_is_refused_only_when_it_can_fail() -> None:
    wide = tree([node("Cast", 1, dataType="long", evalMode=None, timeZoneId="UTC"), column("x", 1)])
    assert translate(wide, {1: 0}).type == pa.int64()
    narrow = tree([node("Cast", 1, dataType="byte", evalMode=None, timeZoneId="UTC"), column("x", 1)])
    with pytest.raises(TidemillError, match="TM2101"):
        translate(narrow, {1: 0})


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Soundex", 1), column("x", 1, "string")],
        [node("Add", 2, evalMode="LEGACY"), column("x", 1), column("x", 1)],
        [node("InSet", 1, hset=None), column("x", 1)],
        [node("Like", 2, escapeChar=None), column("x", 1, "string"), literal("a_", "string")],
        [node("RLike", 2), column("x", 1, "string"), literal("(?s)a", "string")],
        [node("RLike", 2), column("x", 1, "string"), literal("a++", "string")],
        [node("RLike", 2), column("x", 1, "string"), literal("[a-z&&[^b]]", "string")],
        [node("Upper", 1), column("x", 1, "string collate UTF8_LCASE")],
        [node("Literal", value="[B@1234", dataType="binary")],
        [node("DateFormatClass", 2), column("x", 1, "timestamp"), literal("GGGG", "string")],
        [node("StaticInvoke", 0, staticObject="a.B", functionName="f")],
    ],
)
def test_refused_when_translated(nodes: list[dict[str, Any]]) -> None:
    with pytest.raises(TidemillError, match="TM2101"):
        translate(tree(nodes), {1: 0, 2: 1})
