"""Functions that arrive as calls of Java: StaticInvoke of a class's method, Invoke of an evaluator's or a value's."""

from __future__ import annotations

from tidemill.plan.catalyst.expressions.csv import CSV_INVOKED
from tidemill.plan.catalyst.expressions.json import JSON_INVOKED
from tidemill.plan.catalyst.expressions.rules import Rule, Translator, unsupported
from tidemill.plan.catalyst.expressions.text import TEXT_INVOKED
from tidemill.plan.catalyst.expressions.variant import VARIANT_INVOKED
from tidemill.plan.catalyst.expressions.zones import in_zone
from tidemill.plan.catalyst.trees.tree import JsonTree, evaluator
from tidemill.task.expressions import Expression

_INVOKED: dict[str, Rule] = {**CSV_INVOKED, **JSON_INVOKED, **TEXT_INVOKED, **VARIANT_INVOKED}
"""By class and method, such as ``Base64.encode``; by the method alone where it is one of a value."""


def _method_name(node: JsonTree) -> str:
    method = str(node.fields["functionName"])
    if node.name == "StaticInvoke":
        owner = str(node.fields["staticObject"]).rstrip("$").rsplit(".", 1)[-1]
        return f"{owner}.{method}"
    return f"{_evaluator(node)}.{method}" if _evaluator(node) else method


def _evaluator(node: JsonTree) -> str:
    """The class of the object whose method is called; empty for a value."""
    target = node.children[0]
    if node.name == "Invoke" and target.name == "Literal" and target.fields["dataType"] == "object":
        return evaluator(target.fields)
    return ""


def invoked_name(node: JsonTree) -> str:
    """What is called, for messages."""
    return _evaluator(node) if node.name == "Invoke" and _evaluator(node) else str(node.fields["functionName"])


def invoked(node: JsonTree, to: Translator) -> Expression:
    """The function that a call of Java computes.

    Raises
    ------
    TidemillError
        TM2101 for one that is not supported.
    """
    rule = _INVOKED.get(_method_name(node))
    if rule is None:
        raise unsupported(invoked_name(node))
    if _evaluator(node):
        rule = in_zone(JsonTree(_evaluator(node), node.children[0].fields, ()), rule)
    return rule(node, to)
