"""Expressions over columns, as plain data."""

from tidemill.task.expressions.nodes import Call, Expression, Literal, Ref, Variable
from tidemill.task.expressions.rewriting import bind, references, remap, substitute, walk

__all__ = ["Call", "Expression", "Literal", "Ref", "Variable", "bind", "references", "remap", "substitute", "walk"]
