"""Random expressions with functions that have bodies (``x -> ...``), and through JSON and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz_parts import Part, fixed, sql
from fuzz_tables import Kind

if TYPE_CHECKING:
    from fuzz_values import Value, ValueMaker

FAMILIES = ("int", "string", "boolean")


def nested_value(maker: ValueMaker, family: str, depth: int) -> tuple[Part, Kind]:
    """An expression of one of the families."""
    if family == "int":
        return _int(maker, depth)
    if family == "string":
        return _string(maker, depth)
    form = maker.rng.randrange(6)
    if form == 0:
        a, b = _two(maker, depth)
        return sql("arrays_overlap(array({}, 1), array({}, NULL))", a, b), Kind("boolean")
    if form == 1:
        return sql("array_contains(array({}, {}), 1)", *_two(maker, depth)), Kind("boolean")
    if form == 2:
        return sql("map_contains_key(map({}, 1), 2)", fixed("coalesce({}, 2)", _two(maker, depth)[0])), Kind("boolean")
    name = maker.rng.choice(("exists", "forall"))
    return sql(name + "(array({}, {}), x -> {})", *_two(maker, depth), _test(maker)), Kind("boolean")


def _two(maker: ValueMaker, depth: int) -> list[Part]:
    return [maker.limited(maker.value("int", depth), 2**40).part for _ in range(2)]


def _test(maker: ValueMaker) -> Part:
    """A condition on an element ``x``, which may be NULL."""
    other: Value = maker.column("int") if maker.rng.random() < 0.5 else maker.constant("int")
    operator = maker.rng.choice(("<", ">=", "=", "<>", "<=>"))
    return fixed(f"(x {operator} {{}})", other.part)


def _int(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    a, b = _two(maker, depth)
    form = maker.rng.randrange(11)
    if form > 4:
        return _int_of_many(maker, form, a, b)
    if form == 0:
        return sql("size(filter(array({}, {}, 1), x -> {}))", a, b, _test(maker)), Kind("int", 3)
    if form == 1:
        body = "(acc, x) -> acc * 3 + coalesce(x % 7, 0)"
        return sql(f"aggregate(transform(array({{}}, {{}}), x -> x + 1), 0L, {body})", a, b), Kind("int", 200)
    if form == 2:
        order = "(x, y) -> CASE WHEN x IS NULL THEN -1 WHEN y IS NULL OR x > y THEN 1 WHEN x < y THEN -1 ELSE 0 END"
        return sql(f"get(array_sort(array({{}}, {{}}, 0), {order}), 1)", a, b), Kind("int", 2**40)
    if form == 3:
        body = "(k, v) -> coalesce(v, k)"
        return sql(f"get(map_values(transform_values(map(1, {{}}, 2, {{}}), {body})), 1)", a, b), Kind("int", 2**40)
    json = sql("to_json(named_struct('v', {}, 'w', array({})))", a, b)
    if maker.rng.random() < 0.5:
        return sql("CAST(get_json_object({}, '$.v') AS BIGINT)", json), Kind("int", 2**40)
    return sql("get(from_json({}, 'v BIGINT, w ARRAY<BIGINT>').w, 0)", json), Kind("int", 2**40)


def _int_of_many(maker: ValueMaker, form: int, a: Part, b: Part) -> tuple[Part, Kind]:
    """Of arrays as sets, maps, and VARIANT."""
    if form == 5:
        name = maker.rng.choice(("array_union", "array_except", "array_intersect"))
        return sql(f"get({name}(array({{}}, 1, NULL), array({{}}, 2)), 0)", a, b), Kind("int", 2**40)
    if form == 6:
        name = maker.rng.choice(("size(array_distinct({}))", "get(slice({}, 2, 1), 0)", "array_max({})",
                                 "get(sort_array({}, false), 1)", "array_position({}, 1)",
                                 "try_element_at({}, -2)", "get(array_compact({}), 0)"))  # fmt: skip
        return sql(name, fixed("array({}, {}, 1)", a, b)), Kind("int", 2**40)
    if form == 7:
        text = "get(map_values(map_filter(map(1, {}, 2, {}), (k, v) -> v >= k)), 0)"
        return sql(text, a, b), Kind("int", 2**40)
    if form == 8:
        text = "get(map_values(map_zip_with(map('a', {}), map('a', {}, 'b', 1), (k, v, w) -> coalesce(v, w))), 0)"
        return sql(text, a, b), Kind("int", 2**40)
    if form == 9:
        text = "get(map_keys(transform_keys(map(1, {}), (k, v) -> coalesce(v, k))), 0)"
        return sql(text, a), Kind("int", 2**40)
    json = sql("to_json(named_struct('v', array({}, {})))", a, b)
    return sql("variant_get(parse_json({}), '$.v[1]', 'bigint')", json), Kind("int", 2**40)


def _string(maker: ValueMaker, depth: int) -> tuple[Part, Kind]:
    s, other = maker.value("string", depth).part, maker.value("string", 0).part
    form = maker.rng.randrange(8)
    if form == 4:
        return sql("array_join(array_sort(array({}, {}, NULL)), '|', '?')", s, other), Kind("string")
    if form == 5:
        json = sql("parse_json(to_json(named_struct('v', {})))", s)
        return sql("variant_get({}, '$.v', 'string')", json), Kind("string")
    if form == 6:
        return sql("to_json(parse_json(to_json(array({}, {}))))", s, other), Kind("string")
    if form == 7:
        return sql("to_json(transform_keys(map('a', {}, 'b', {}), (k, v) -> upper(k)))", s, other), Kind("string")
    if form == 0:
        return sql("array_join(transform(array({}, 'q'), x -> concat(x, {})), '-')", s, other), Kind("string")
    if form == 1:
        return sql("get_json_object(to_json(named_struct('v', array({}, {}))), '$.v[0]')", s, other), Kind("string")
    if form == 2:
        return sql("to_json(zip_with(array({}), array({}, NULL), (x, y) -> struct(x, y)))", s, other), Kind("string")
    return sql("from_json(to_json(named_struct('v', {})), 'v STRING').v", s), Kind("string")
