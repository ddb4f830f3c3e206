"""Functions that arrive as calls of Java: StaticInvoke of a method, Invoke of an evaluator's ``evaluate``."""

from __future__ import annotations

from tidemill.plan.catalyst_json import JSON_INVOKED
from tidemill.plan.catalyst_rules import Rule, Translator, unsupported
from tidemill.plan.catalyst_tree import JsonTree
from tidemill.task.expressions import Expression

_INVOKED: dict[str, Rule] = {**JSON_INVOKED}
"""By the name of the method, or by the class of the evaluator."""


def invoked_name(node: JsonTree) -> str:
    """What :data:`_INVOKED` calls the function of a node."""
    if node.name == "Invoke" and node.children and node.children[0].fields.get("dataType") == "object":
        return str(node.children[0].fields["value"]).partition("(")[0]
    return str(node.fields.get("functionName"))


def invoked(node: JsonTree, to: Translator) -> Expression:
    rule = _INVOKED.get(invoked_name(node))
    if rule is None:
        raise unsupported(invoked_name(node))
    return rule(node, to)
