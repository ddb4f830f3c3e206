"""Sums over a join become sums of products of sums per join key: the joined rows are never computed.

    Aggregate [k] sum(x * y)             Aggregate [k] sum(x * y)  =  pairs on k: sx * sy
      Join a.k = b.k             ->        Aggregate [k] sum(x) AS sx
        a [k, x]                             a [k, x]
        b [k, y]                           Aggregate [k] sum(y) AS sy
                                             b [k, y]

An inequality becomes a comparison with the right side's sums in the order of the compared column; so each
changed row costs two searches in an ordered index instead of a pass over the other side:

    Aggregate [] sum(y)                  Aggregate [] sum(y)  =  pairs where v > m: n * sy
      Join v > m                 ->        Aggregate [m] count AS n
        a [m]                                a [m]
        b [v, y]                           Aggregate [v] sum(y) AS sy
                                             b [v, y]

An aggregate over a union is the sum of those over its parts, each of them factorised or not.

An argument must be of one side, or of doubles and a sum of products of such. This is DBToaster's factorisation
(Koch et al., VLDB Journal 2014), for batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite

import pyarrow as pa

from tidemill.plan.algebra.build import columns_of, conjunction, conjuncts, disjuncts, filtered, null_test, where
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Join, Node, Pairs, PairTerm, Project, Union
from tidemill.plan.algebra.traverse import map_children
from tidemill.plan.rules.filters_into_joins import filters_into_joins
from tidemill.plan.rules.merge_projections import merge_projections
from tidemill.plan.rules.prune_columns import prune_columns
from tidemill.task.aggregates.sums import is_wide
from tidemill.task.expressions import Call, Expression, Literal, Ref, references, remap, substitute
from tidemill.task.functions.evaluate import can_fail
from tidemill.task.program import Comparison

_MOST_TERMS = 8
_SUMMED = ("count", "sum", "avg")
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_FLOAT = pa.float64()


def factorise_aggregates(node: Node) -> Node:
    """Factorise every aggregate over a join that allows it, bottom-up."""
    return _factorised(map_children(node, factorise_aggregates))


def _factorised(node: Node) -> Node:
    if not isinstance(node, Aggregate) or node.pairs is not None or node.parts or not node.calls:
        return node
    branches = _over_union(node.child)
    if branches is not None and all(c.function in _SUMMED and not c.distinct for c in node.calls):
        found = (_factorised(replace(node, child=branch)) for branch in branches)
        parts = tuple(p for p in found if isinstance(p, Aggregate))
        if any(p.pairs is not None or p.parts for p in parts):
            return replace(node, parts=parts)
    over = _over_join(node.child)
    if over is None or any(_is_wide_sum(node.child, call) for call in node.calls):
        return node
    columns, join = over
    for flipped in (False, True):
        pairs = _pairs(node, *(_swapped(columns, join) if flipped else (columns, join)))
        if pairs is not None:
            return replace(node, pairs=pairs)
    return node


def _is_wide_sum(child: Node, call: AggregateCall) -> bool:
    """Whether a sum may exceed 128 bits, which sums of products do not detect."""
    summed = call.function in ("sum", "avg") and call.argument is not None
    return summed and is_wide(child.schema.fields[call.argument or 0].type)


def _over_join(node: Node) -> tuple[list[Expression], Join] | None:
    """The columns of a node as expressions over the join below its projections."""
    if isinstance(node, Join):
        return list(columns_of(node)), node
    if not isinstance(node, Project):
        return None
    below = _over_join(node.child)
    if below is None:
        return None
    columns, join = below
    return [substitute(e, tuple(columns)) for e in node.expressions], join


def _over_union(node: Node) -> list[Node] | None:
    """The parts of the union below a node's projections, each with these projections."""
    if isinstance(node, Union):
        return list(node.children)
    if not isinstance(node, Project):
        return None
    below = _over_union(node.child)
    if below is None:
        return None
    return [merge_projections(replace(node, child=part)) for part in below]


def _swapped(columns: list[Expression], join: Join) -> tuple[list[Expression], Join]:
    """The same with the join's sides exchanged."""
    left, right = len(join.left.schema), len(join.right.schema)
    moved = {i: i + right for i in range(left)} | {left + i: i for i in range(right)}
    residual = None if join.residual is None else remap(join.residual, moved)
    flipped = Join(join.right, join.left, join.right_keys, join.left_keys, join.null_safe, residual)
    return [remap(c, moved) for c in columns], flipped


@dataclass
class _Side:
    """One input of the join while its aggregate is being put together."""

    node: Node
    start: int
    keys: list[Expression] = field(default_factory=list)
    arguments: list[Expression] = field(default_factory=list)
    calls: list[AggregateCall] = field(default_factory=list)
    present: list[int] = field(default_factory=list)
    """Columns of the node that a row must have to meet anything."""

    def own(self, expression: Expression) -> bool:
        """Whether an expression over the join reads this side only."""
        used = references(expression)
        return bool(used) and min(used) >= self.start and max(used) < self.start + len(self.node.schema)

    def key(self, expression: Expression) -> int:
        """Position of a key column, added when it is new."""
        if expression not in self.keys:
            self.keys.append(expression)
        return self.keys.index(expression)

    def count(self, atoms: tuple[Expression, ...]) -> int | None:
        """The call that counts rows for which none of the atoms is NULL."""
        nullable = [a for a in atoms if a.nullable]
        if not nullable:
            return None
        counted = nullable[0] if len(nullable) == 1 else _when(nullable, Literal(1, pa.int32()))
        return self._call("count", counted, pa.int64())

    def sum(self, factors: tuple[Expression, ...], atoms: tuple[Expression, ...]) -> int | None:
        """The call that sums the product of ``factors`` over rows for which none of the atoms is NULL."""
        if not factors:
            return self.count(atoms)
        product = _product(factors, atoms)
        return self._call("sum", product, _sum_type(product.type))

    def signs(self, factors: tuple[Expression, ...], atoms: tuple[Expression, ...]) -> tuple[int, int]:
        """The calls that count values of the product above and below zero."""
        product, zero = _product(factors, atoms), Literal(0.0, _FLOAT)
        one = Literal(1, pa.int32())
        above, below = (where(Call(op, (product, zero), pa.bool_(), True), one) for op in ("gt", "lt"))
        return self._call("count", above, pa.int64()), self._call("count", below, pa.int64())

    def _call(self, function: str, argument: Expression, type_: pa.DataType) -> int:
        if argument not in self.arguments:
            self.arguments.append(argument)
        call = AggregateCall(function, self.arguments.index(argument), type_, True)
        if call not in self.calls:
            self.calls.append(call)
        return self.calls.index(call)

    def aggregate(self) -> Aggregate:
        """The sums of this side."""
        own = columns_of(self.node)
        node = filters_into_joins(
            filtered(self.node, [null_test("is_not_null", own[i]) for i in self.present if own[i].nullable])
        )
        moved = {self.start + i: i for i in range(len(own))}
        columns = tuple(remap(e, moved) for e in (*self.keys, *self.arguments))
        names = tuple(f"column{i}" for i in range(len(columns)))
        child = prune_columns(merge_projections(Project(node, columns, names)))
        width = len(self.keys)
        calls = tuple(replace(c, argument=None if c.argument is None else c.argument + width) for c in self.calls)
        labels = tuple(f"key{i}" for i in range(width)) + tuple(f"call{i}" for i in range(len(calls)))
        found = _factorised(Aggregate(child, tuple(range(width)), calls, labels))
        assert isinstance(found, Aggregate)
        return found


def _product(factors: tuple[Expression, ...], atoms: tuple[Expression, ...]) -> Expression:
    """The product of the factors where none of the atoms is NULL."""
    product = factors[0]
    for factor in factors[1:]:
        product = Call("multiply", (product, factor), _FLOAT, product.nullable or factor.nullable)
    others = [a for a in atoms if a.nullable and a not in factors]
    return _when(others, product) if others else product


def _when(present: list[Expression], value: Expression) -> Expression:
    """The value where nothing in ``present`` is NULL, NULL elsewhere."""
    return where(conjunction([null_test("is_not_null", p) for p in present]), value)


def _sum_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(type_):
        return _FLOAT
    return pa.decimal128(38, type_.scale) if pa.types.is_decimal(type_) else pa.int64()


def _pairs(node: Aggregate, columns: list[Expression], join: Join) -> Pairs | None:
    width = len(join.left.schema)
    left, right = _Side(join.left, 0), _Side(join.right, width)
    for left_key, right_key, safe in zip(join.left_keys, join.right_keys, join.null_safe, strict=True):
        left.keys.append(_column(join.left, left_key, 0))
        right.keys.append(_column(join.right, right_key, width))
        if not safe:
            left.present.append(left_key)
            right.present.append(right_key)
    key_width = len(left.keys)
    comparisons: tuple[Comparison, ...] = ()
    any_of = False
    if join.residual is not None:
        found = _comparisons(join.residual, left, right)
        if found is None:
            return None
        comparisons, any_of, compared = found
        if compared in right.keys:
            return None
        right.keys.append(compared)
    places = []
    for key in node.keys:
        place = _group_column(columns[key], left, right, key_width, ordered=bool(comparisons))
        if place is None:
            return None
        places.append(place)
    sums, counts = [], []
    for call in node.calls:
        terms = _call_terms(call, columns, left, right)
        if terms is None:
            return None
        sums.append(terms[0])
        counts.append(terms[1])
    # A condition on the compared column keeps NULLs out of the index.
    if comparisons and isinstance(right.keys[-1], Ref):
        right.present.append(right.keys[-1].index - width)
    keys = tuple(position if side == 0 else len(left.keys) + position for side, position in places)
    return Pairs(left.aggregate(), right.aggregate(), key_width, comparisons, any_of, keys, tuple(sums), tuple(counts))


def _column(node: Node, index: int, start: int) -> Expression:
    f = node.schema.fields[index]
    return Ref(start + index, f.type, f.nullable)


def _group_column(key: Expression, left: _Side, right: _Side, key_width: int, ordered: bool) -> tuple[int, int] | None:
    """Side and key position of a group column."""
    if can_fail(key):
        return None
    if not references(key) or left.own(key):
        return 0, left.key(key)
    if not right.own(key):
        return None
    if key in right.keys[:key_width] and not ordered:
        return 1, right.keys.index(key)
    if key in right.keys[:key_width]:
        return 0, right.keys.index(key)
    return None if ordered else (1, right.key(key))


def _call_terms(
    call: AggregateCall, columns: list[Expression], left: _Side, right: _Side
) -> tuple[tuple[PairTerm, ...], PairTerm] | None:
    """The sum of a call's argument and the number of its values, in terms of sums of the sides."""
    if call.function not in _SUMMED or call.distinct:
        return None
    if call.argument is None:
        return (), PairTerm(1.0, None, None)
    argument = columns[call.argument]
    products = _products(argument, left, right)
    if products is None:
        return None
    atoms = (
        tuple(dict.fromkeys(a for _, factors, _ in products for a in factors)),
        tuple(dict.fromkeys(a for _, _, factors in products for a in factors)),
    )
    count = PairTerm(1.0, left.count(atoms[0]), right.count(atoms[1]))
    if call.function == "count":
        return (), count
    terms = []
    for coefficient, ls, rs in products:
        term = PairTerm(coefficient, left.sum(ls, atoms[0]), right.sum(rs, atoms[1]))
        if ls and rs:
            term = replace(term, left_signs=left.signs(ls, atoms[0]), right_signs=right.signs(rs, atoms[1]))
        terms.append(term)
    return tuple(terms), count


_Product = tuple[float, tuple[Expression, ...], tuple[Expression, ...]]


def _products(expression: Expression, left: _Side, right: _Side) -> list[_Product] | None:
    """The expression as a sum of coefficient x left factors x right factors; None when it is not one."""
    if left.own(expression):
        return None if can_fail(expression) else [(1.0, (expression,), ())]
    if right.own(expression):
        return None if can_fail(expression) else [(1.0, (), (expression,))]
    if expression.type != _FLOAT:
        return None
    if isinstance(expression, Literal):
        constant = None if expression.value is None else float(expression.value)
        return [(constant, (), ())] if constant is not None and isfinite(constant) else None
    if not isinstance(expression, Call) or expression.function not in ("add", "subtract", "multiply", "negate"):
        return None
    parts = [_products(arg, left, right) for arg in expression.args]
    first, second = parts[0], parts[-1]
    if first is None or second is None:
        return None
    match expression.function:
        case "negate":
            found = [(-c, ls, rs) for c, ls, rs in first]
        case "add":
            found = first + second
        case "subtract":
            found = first + [(-c, ls, rs) for c, ls, rs in second]
        case _:
            if not (_distributes(first, second) and _distributes(second, first)):
                return None
            found = [(c * d, ls + ms, rs + ts) for c, ls, rs in first for d, ms, ts in second]
    return found if len(found) <= _MOST_TERMS and all(isfinite(c) for c, _, _ in found) else None


def _distributes(over: list[_Product], factor: list[_Product]) -> bool:
    """Whether ``(a + b) * factor`` is ``a * factor + b * factor``, also where that is ``inf - inf``."""
    return len(over) == 1 or all(_finite(e) for _, ls, rs in factor for e in (*ls, *rs))


def _finite(expression: Expression) -> bool:
    """Whether a double comes from a whole number or a decimal, so that it is neither infinite nor NaN."""
    return (
        isinstance(expression, Call)
        and expression.function == "cast"
        and not pa.types.is_floating(expression.args[0].type)
        and not pa.types.is_string(expression.args[0].type)
    )


def _comparisons(
    condition: Expression, left: _Side, right: _Side
) -> tuple[tuple[Comparison, ...], bool, Expression] | None:
    """A condition as comparisons of one right expression with left ones; bounds become left keys."""
    any_of = isinstance(condition, Call) and condition.function == "or"
    parts = disjuncts(condition) if any_of else conjuncts(condition)
    compared: Expression | None = None
    found = []
    for part in parts:
        one = _comparison(part, left, right)
        if one is None:
            return None
        form, op, value, bound, limit = one
        if compared is not None and value != compared:
            return None
        compared = value
        found.append((form, op, bound, limit))
    assert compared is not None
    if not isinstance(compared, Ref):
        return None
    comparisons = tuple(Comparison(form, op, left.key(bound), limit) for form, op, bound, limit in found)
    return comparisons, any_of, compared


def _comparison(
    part: Expression, left: _Side, right: _Side
) -> tuple[str, str, Expression, Expression, float | None] | None:
    """Form, operator, right value, left bound and limit of one comparison."""
    if not isinstance(part, Call) or part.function not in _FLIPPED or can_fail(part):
        return None
    op, (first, second) = part.function, part.args
    if right.own(second) and left.own(first):
        first, second, op = second, first, _FLIPPED[op]
    if right.own(first) and left.own(second) and first.type == second.type:
        return "value", op, first, second, None
    if isinstance(first, Literal):
        first, second, op = second, first, _FLIPPED[op]
    if not (isinstance(second, Literal) and second.value is not None and second.type == _FLOAT):
        return None
    if not (isinstance(first, Call) and first.function == "subtract" and first.type == _FLOAT):
        return None
    minuend, subtrahend = first.args
    if right.own(minuend) and left.own(subtrahend):
        return "value_minus_bound", op, minuend, subtrahend, float(second.value)
    if left.own(minuend) and right.own(subtrahend):
        return "bound_minus_value", op, subtrahend, minuend, float(second.value)
    return None
